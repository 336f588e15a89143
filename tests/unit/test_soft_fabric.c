/* SPDX-License-Identifier: BSD-3-Clause */
/* The soft fabric as a fabric: rings, keys, endings. */
#include "soft_rig.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/util.h"

/* ---- data ------------------------------------------------------------------------------------- */

static void write_then_read(struct rig *rig)
{
	struct nvme_sqe write = rig_rw(rig, NVME_IO_WRITE, 7, 8);
	struct nvme_sqe read = rig_rw(rig, NVME_IO_READ, 7, 8);

	for (int i = 0; i < 4096; i++)
		rig->data[i] = (unsigned char)(i * 7);
	cr_assert_eq(rig_status(rig_do(&rig->io, &write)), 0, "write");
	read.dptr = rig_sgl(rig, 8192, 4096);
	cr_assert_eq(rig_status(rig_do(&rig->io, &read)), 0, "read");
	cr_expect_arr_eq(rig->data, rig->data + 8192, 4096, "what was written");
}

Test(soft_data, write_then_read_inline)
{
	struct rig rig;

	rig_up(&rig, NULL);
	write_then_read(&rig);
	cr_expect_eq(rig_counters(&rig).violations, 0, "no violation");
	cr_expect_eq(rig_counters(&rig).bytes_moved, 2 * 1024 + 8192, "two Connects, write, read");
	rig_down(&rig);
}

Test(soft_data, write_then_read_in_thread)
{
	struct nvmfr_soft_opts opts;
	struct rig rig;

	nvmfr__soft_opts_default(&opts);
	opts.flags = NVMFR_SOFT_THREAD;
	rig_up(&rig, &opts);
	for (int i = 0; i < 200; i++)
		write_then_read(&rig);
	cr_expect_eq(rig_counters(&rig).violations, 0, "no violation");
	rig_down(&rig);
}

Test(soft_data, in_capsule)
{
	struct rig rig;
	struct nvme_sqe sqe;
	struct fab_carry tail;

	rig_up(&rig, NULL);
	memset(rig.data, 'x', 512);
	tail = (struct fab_carry){ .addr = (uintptr_t)rig.data, .bytes = 512, .lkey = rig.mr.lkey };
	sqe = rig_rw(&rig, NVME_IO_WRITE, 0, 1);
	sqe.dptr = nvme_sgl_icd(0, 512);
	rig_post(&rig.io, &sqe, &tail);
	cr_expect_eq(rig_status(rig_answer(&rig.io)), 0, "write");
	cr_expect_eq(rig.io.sends_done, 2, "a SEND with a tail is signaled and tells of those before it");
	cr_expect_eq(rig_counters(&rig).in_capsule_writes, 1, "counted");
	sqe = rig_rw(&rig, NVME_IO_READ, 0, 1);
	sqe.dptr = rig_sgl(&rig, 512, 512);
	cr_expect_eq(rig_status(rig_do(&rig.io, &sqe)), 0, "read");
	cr_expect_arr_eq(rig.data, rig.data + 512, 512, "data");
	rig_down(&rig);
}

Test(soft_data, descriptor_list)
{
	struct rig rig;
	struct nvme_sqe sqe;
	struct fab_carry tail;
	struct nvme_sgl list[2];

	rig_up(&rig, NULL);
	memset(rig.data, 'a', 700);
	memset(rig.data + 5000, 'b', 324);
	list[0] = rig_sgl(&rig, 0, 700);
	list[1] = rig_sgl(&rig, 5000, 324);
	sqe = rig_rw(&rig, NVME_IO_WRITE, 0, 2);
	sqe.dptr = nvme_sgl_last_seg(0, sizeof(list));
	tail = (struct fab_carry){ (uintptr_t)rig.io.ep->tails + 32, sizeof(list),
				   rig.io.ep->tails_lkey };
	memcpy(rig.io.ep->tails + 32, list, sizeof(list));
	rig_post(&rig.io, &sqe, &tail);
	cr_expect_eq(rig_status(rig_answer(&rig.io)), 0, "write");
	sqe = rig_rw(&rig, NVME_IO_READ, 0, 2);
	sqe.dptr = rig_sgl(&rig, 8192, 1024);
	cr_expect_eq(rig_status(rig_do(&rig.io, &sqe)), 0, "read");
	cr_expect(rig.data[8192 + 699] == 'a' && rig.data[8192 + 700] == 'b', "the seam");
	cr_expect(rig.data[8192 + 1023] == 'b', "the end");
	rig_down(&rig);
}

/* ---- rings ------------------------------------------------------------------------------------ */

Test(soft_ring, sends_are_done_by_a_later_signaled_one)
{
	struct rig rig;
	struct nvme_sqe sqe;

	rig_up(&rig, NULL);
	cr_expect_eq(rig.io.ep->send_positions % FAB_SIGNAL_EVERY, 0, "a multiple");
	for (int i = 1; i < FAB_SIGNAL_EVERY - 1; i++) {
		sqe = rig_rw(&rig, NVME_IO_READ, 0, 1);
		rig_do(&rig.io, &sqe);
	}
	cr_expect_eq(rig.io.sends_done, 0, "none of 15 is signaled");
	sqe = rig_rw(&rig, NVME_IO_READ, 0, 1);
	rig_do(&rig.io, &sqe);
	cr_expect_eq(rig.io.sends_done, 16, "position 15 tells of all");
	rig_down(&rig);
}

struct post_case {
	const char *name;
	uint32_t first, n, receives;
};

Test(soft_ring, wrong_posts_end_the_connection)
{
	static const struct post_case cases[] = {
		{ "not the next position", 3, 1, 0 },
		{ "none", 1, 0, 0 },
		{ "over the end", 1, 48, 0 },
		{ "more receives than are free", 0, 0, 1 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const struct post_case *c = &cases[i];
		struct nvme_cqe cqe;
		struct rig rig;

		rig_up(&rig, NULL);
		cr_assert_eq(rig.io.send_position, 1, "after Connect");
		cr_assert_eq(rig.io.ep->send_positions, 48, "two signaled ranges and one spare");
		if (c->receives)
			ops->post_recv(rig.io.ep, c->receives);
		else
			ops->post_send(rig.io.ep, c->first, c->n);
		rig_poll(&rig.io, &cqe);
		cr_expect(rig.io.bad, "%s: bad", c->name);
		cr_expect_not_null(strstr(rig.io.ep->error, "queue of 48"), "%s: %s", c->name,
				   rig.io.ep->error);
		rig_down(&rig);
	}
}

Test(soft_ring, many_laps)
{
	struct rig rig;

	rig_up(&rig, NULL);
	for (uint32_t i = 0; i < 1000; i++) {
		struct nvme_sqe sqe = rig_rw(&rig, NVME_IO_READ, i % 100, 1);
		struct nvme_cqe cqe = rig_do(&rig.io, &sqe);

		cr_assert_eq(rig_status(cqe), 0, "read %u", i);
		cr_assert_eq(from_le16(cqe.cid), from_le16(sqe.cid), "its answer");
	}
	rig_down(&rig);
}

Test(soft_ring, a_pass_is_bounded_and_says_more)
{
	struct rig rig;
	struct queue q;
	struct nvme_cqe cqe;
	uint32_t got = 0, polls = 0;

	rig_up(&rig, NULL);
	rig_up_io(&rig, &q, 2, 200);
	for (int i = 0; i < 100; i++) {
		struct nvme_sqe sqe = rig_rw(&rig, NVME_IO_READ, 0, 1);

		rig_post(&q, &sqe, NULL);
	}
	while (got < 100 && polls++ < 100) {
		uint64_t word = ops->poll(q.ep);

		got += FAB_POLL_RESPONSES(word);
		cr_expect_eq(!(word & FAB_POLL_MORE), got == 100, "more after %u", got);
	}
	cr_expect_eq(got, 100, "all");
	cr_expect_gt(polls, 1, "not in one poll");
	cr_expect_eq(rig_poll(&q, &cqe), 0, "no more");
	ops->ep_destroy(q.ep);
	rig_down(&rig);
}

Test(soft_ring, a_response_without_a_receive_ends_the_connection)
{
	struct rig rig;
	char text[SOFT_VIOLATION_TEXT];
	uint64_t word = 0;

	rig_up(&rig, NULL);
	for (uint32_t i = 0; i <= rig.io.ep->recv_positions && !(word & FAB_POLL_BAD); i++) {
		struct nvme_sqe sqe = rig_rw(&rig, NVME_IO_READ, 0, 1);

		rig_post(&rig.io, &sqe, NULL);
		word = ops->poll(rig.io.ep);
	}
	cr_expect(word & FAB_POLL_BAD, "bad");
	nvmfr__soft_last_violation(rig.target, text, sizeof(text));
	cr_expect_not_null(strstr(text, "no receive is posted"), "%s", text);
	rig_down(&rig);
}

/* ---- keys ------------------------------------------------------------------------------------- */

struct key_case {
	const char *name;
	uint8_t opcode;
	uint32_t access;
	int64_t addr_shift;
	uint32_t key_flip;
	bool dereg;
	const char *why;
};

static void try_key(const struct key_case *c)
{
	unsigned char *mem = malloc(8192);
	struct rig rig;
	struct fab_mr mr;
	struct nvme_sqe sqe;
	struct fab_event ev;
	char text[SOFT_VIOLATION_TEXT];
	uint32_t rkey;

	rig_up(&rig, NULL);
	memset(mem, POISON, 8192);
	cr_assert_eq(ops->mr_reg(rig.fh.devs[0], mem, 4096, c->access, &mr), 0, "register");
	rkey = mr.rkey;
	if (c->dereg)
		ops->mr_dereg(rig.fh.devs[0], &mr);
	sqe = rig_rw(&rig, c->opcode, 0, 8);
	sqe.dptr = nvme_sgl_keyed((uintptr_t)mem + (uint64_t)c->addr_shift, 4096, rkey ^ c->key_flip);
	rig_do(&rig.io, &sqe);
	cr_expect(rig.io.bad, "%s: bad", c->name);
	cr_expect_not_null(strstr(rig.io.ep->error, c->why), "%s: %s", c->name, rig.io.ep->error);
	nvmfr__soft_last_violation(rig.target, text, sizeof(text));
	cr_expect_not_null(strstr(text, c->why), "%s: %s", c->name, text);
	cr_expect_eq(rig_counters(&rig).violations, 1, "%s: counted", c->name);
	ev = rig_event(&rig);
	cr_expect(ev.type == FAB_EV_DISCONNECTED && ev.ep == rig.io.ep, "%s: event", c->name);
	for (int i = 0; i < 8192; i++)
		cr_assert_eq(mem[i], POISON, "%s: byte %d was touched", c->name, i);
	if (!c->dereg)
		ops->mr_dereg(rig.fh.devs[0], &mr);
	rig_down(&rig);
	free(mem);
}

Test(soft_key, checks)
{
	static const struct key_case cases[] = {
		{ "wrong key", NVME_IO_READ, 3, 0, 0x400, false, "no memory region has this key" },
		{ "stale key", NVME_IO_READ, 3, 0, 0, true, "no memory region has this key" },
		{ "lkey", NVME_IO_READ, 3, 0, 0x80, false, "not an rkey" },
		{ "behind", NVME_IO_READ, 3, 1, 0, false, "outside" },
		{ "before", NVME_IO_READ, 3, -1, 0, false, "outside" },
		{ "far", NVME_IO_READ, 3, INT64_MAX, 0, false, "outside" },
		{ "read into a source", NVME_IO_READ, FAB_ACCESS_SOURCE, 0, 0, false, "access" },
		{ "write from a target", NVME_IO_WRITE, FAB_ACCESS_TARGET, 0, 0, false, "access" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		try_key(&cases[i]);
}

Test(soft_key, tags_of_reused_entries_differ)
{
	struct rig rig;
	struct fab_mr mr;
	uint32_t first;

	rig_open(&rig, NULL);
	cr_assert_eq(ops->mr_reg(rig.fh.devs[0], rig.data, 1, 1, &mr), 0, "first");
	first = mr.rkey;
	ops->mr_dereg(rig.fh.devs[0], &mr);
	cr_assert_eq(ops->mr_reg(rig.fh.devs[0], rig.data, 1, 1, &mr), 0, "second");
	cr_expect_neq(mr.rkey, first, "another tag");
	cr_expect_eq(mr.rkey >> 8, first >> 8, "of the same entry");
	ops->mr_dereg(rig.fh.devs[0], &mr);
	rig_down(&rig);
}

Test(soft_key, a_bad_lkey_fails_the_send)
{
	struct rig rig;
	struct nvme_sqe sqe;
	struct fab_carry tail;

	rig_up(&rig, NULL);
	tail = (struct fab_carry){ .addr = (uintptr_t)rig.data, .bytes = 512, .lkey = rig.mr.lkey + 0x100 };
	sqe = rig_rw(&rig, NVME_IO_WRITE, 0, 1);
	sqe.dptr = nvme_sgl_icd(0, 512);
	rig_post(&rig.io, &sqe, &tail);
	rig_answer(&rig.io);
	cr_expect(rig.io.bad, "bad");
	cr_expect_not_null(strstr(rig.io.ep->error, "local protection"), "%s", rig.io.ep->error);
	rig_down(&rig);
}

Test(soft_key, dma_buf)
{
	struct rig rig;
	struct fab_mr mr;
	struct nvme_sqe sqe;
	int fd = memfd_create("dma-buf", 0);
	char got[2] = "";

	rig_up(&rig, NULL);
	cr_assert_eq(ftruncate(fd, 16384), 0, "size");
	cr_assert_eq(ops->mr_reg_dmabuf(rig.fh.devs[0], fd, 4100, 512, 0x1004, 3, &mr), 0, "register");
	memset(rig.data, 'd', 512);
	sqe = rig_rw(&rig, NVME_IO_WRITE, 0, 1);
	cr_expect_eq(rig_status(rig_do(&rig.io, &sqe)), 0, "write");
	sqe = rig_rw(&rig, NVME_IO_READ, 0, 1);
	sqe.dptr = nvme_sgl_keyed(0x1004, 512, mr.rkey);
	cr_expect_eq(rig_status(rig_do(&rig.io, &sqe)), 0, "read");
	cr_expect_eq(pread(fd, got, 1, 4100 + 511), 1, "pread");
	cr_expect_eq(got[0], 'd', "the data is at its offset");
	ops->mr_dereg(rig.fh.devs[0], &mr);
	close(fd);
	rig_down(&rig);
}

struct churn {
	struct rig *rig;
	_Atomic bool stop;
};

static void *register_and_deregister(void *arg)
{
	struct churn *churn = arg;
	struct fab_dev *dev = churn->rig->fh.devs[0];

	while (!churn->stop) {
		unsigned char *mem = malloc(4096);
		struct fab_mr mr;

		if (ops->mr_reg(dev, mem, 4096, 3, &mr) == 0)
			ops->mr_dereg(dev, &mr);
		free(mem);
	}
	return NULL;
}

static void churn(uint32_t flags)
{
	struct nvmfr_soft_opts opts;
	struct rig rig;
	struct churn churn = { .rig = &rig };
	pthread_t thread;

	nvmfr__soft_opts_default(&opts);
	opts.flags = flags;
	rig_up(&rig, &opts);
	cr_assert_eq(pthread_create(&thread, NULL, register_and_deregister, &churn), 0, "thread");
	for (int i = 0; i < 500; i++)
		write_then_read(&rig);
	churn.stop = true;
	pthread_join(thread, NULL);
	cr_expect_eq(rig_counters(&rig).violations, 0, "no violation");
	rig_down(&rig);
}

Test(soft_key, registrations_beside_io_inline)
{
	churn(0);
}

Test(soft_key, registrations_beside_io_in_thread)
{
	churn(NVMFR_SOFT_THREAD);
}

/* When mr_dereg() returns nobody copies through that key any more: the memory may be unmapped. */
static void unmap_after_dereg(struct rig *rig)
{
	unsigned char *mem = mmap(NULL, RIG_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct nvme_sqe sqe = rig_rw(rig, NVME_IO_READ, 0, RIG_BYTES / 512);
	struct fab_mr mr;

	cr_assert_eq(ops->mr_reg(rig->fh.devs[0], mem, RIG_BYTES, 3, &mr), 0, "register");
	sqe.dptr = nvme_sgl_keyed((uintptr_t)mem, RIG_BYTES, mr.rkey);
	rig_post(&rig->io, &sqe, NULL);
	while (atomic_load(&nvmfr__soft_ep(rig->io.ep)->pass) % 2 == 0 && ops->arm(rig->io.ep) == 0)
		sched_yield();
	ops->mr_dereg(rig->fh.devs[0], &mr);
	munmap(mem, RIG_BYTES);
	rig_answer(&rig->io);
	if (!rig->io.bad)
		return;
	ops->ep_destroy(rig->io.ep);
	rig_up_io(rig, &rig->io, 1, RIG_DEPTH);
}

Test(soft_key, dereg_waits_for_copies)
{
	struct nvmfr_soft_opts opts;
	struct rig rig;

	nvmfr__soft_opts_default(&opts);
	opts.flags = NVMFR_SOFT_THREAD;
	rig_up(&rig, &opts);
	for (int i = 0; i < 50; i++)
		unmap_after_dereg(&rig);
	rig_down(&rig);
}

/* ---- endings ---------------------------------------------------------------------------------- */

Test(soft_end, a_drop_lets_present_responses_through)
{
	struct nvmfr_soft_fault fault = rig_fault(NVMFR_SOFT_FAULT_DISCONNECT, 0);
	struct rig rig;
	struct nvme_sqe sqe;
	uint64_t word;

	rig_up(&rig, NULL);
	fault.skip = 1;
	cr_assert_eq(nvmfr__soft_fault_add(rig.target, &fault), 0, "fault");
	for (int i = 0; i < 2; i++) {
		sqe = rig_rw(&rig, NVME_IO_READ, 0, 1);
		rig_post(&rig.io, &sqe, NULL);
	}
	word = ops->poll(rig.io.ep);
	cr_expect_eq(FAB_POLL_RESPONSES(word), 1, "the first was answered");
	cr_expect(!(word & FAB_POLL_BAD) && word & FAB_POLL_MORE, "and the end comes after it");
	cr_expect_eq(ops->poll(rig.io.ep), FAB_POLL_BAD, "the end");
	cr_expect_eq(ops->poll(rig.io.ep), FAB_POLL_BAD, "for good");
	cr_expect_eq(rig_event(&rig).type, FAB_EV_DISCONNECTED, "event");
	rig_down(&rig);
}

Test(soft_end, destroyed_target)
{
	struct rig rig;
	struct nvme_sqe sqe;
	struct fab_ep *ep;
	struct fab_event ev;

	rig_up(&rig, NULL);
	ep = rig_ep(&rig, 0, 8);
	nvmfr__soft_target_free(rig.target);
	cr_expect_eq(rig_event(&rig).type, FAB_EV_DISCONNECTED, "first queue");
	cr_expect_eq(rig_event(&rig).type, FAB_EV_DISCONNECTED, "second queue");
	sqe = rig_rw(&rig, NVME_IO_READ, 0, 1);
	rig_post(&rig.io, &sqe, NULL);
	cr_expect_eq(ops->poll(rig.io.ep), FAB_POLL_BAD, "never answered");
	ev = rig_request(&rig, ep, nvme_cm_request(0, 8, 0));
	cr_expect(ev.type == FAB_EV_FAILED && ev.err == -ECONNREFUSED, "nobody listens");
	ops->ep_destroy(ep);
	rig.target = NULL;
	rig_down(&rig);
}

Test(soft_end, a_drop_wakes_a_sleeper)
{
	struct rig rig;
	struct pollfd fd = { .events = POLLIN };

	rig_up(&rig, NULL);
	fd.fd = ops->ep_fd(rig.io.ep);
	cr_expect_eq(ops->arm(rig.io.ep), 0, "sleep");
	nvmfr__soft_drop(rig.target);
	cr_expect_eq(poll(&fd, 1, RIG_WAIT_MS), 1, "awake");
	cr_expect_eq(ops->poll(rig.io.ep), FAB_POLL_BAD, "to see the end");
	rig_down(&rig);
}

Test(soft_end, the_admin_queue_takes_the_others_along)
{
	struct rig rig;
	struct fab_event ev;

	rig_up(&rig, NULL);
	ops->ep_disconnect(rig.admin.ep);
	ev = rig_event(&rig);
	cr_expect(ev.type == FAB_EV_DISCONNECTED && ev.ep == rig.io.ep, "the I/O queue");
	cr_expect_eq(rig_counters(&rig).open_connections, 0, "none is open");
	rig_down(&rig);
}

static void *drop_soon(void *arg)
{
	struct rig *rig = arg;

	while (rig_counters(rig).reads < 50)
		sched_yield();
	nvmfr__soft_drop(rig->target);
	return NULL;
}

static void drop_under_load(uint32_t flags)
{
	struct nvmfr_soft_opts opts;
	pthread_t thread;
	struct rig rig;

	nvmfr__soft_opts_default(&opts);
	opts.flags = flags;
	rig_up(&rig, &opts);
	cr_assert_eq(pthread_create(&thread, NULL, drop_soon, &rig), 0, "thread");
	while (!rig.io.bad) {
		struct nvme_sqe sqe = rig_rw(&rig, NVME_IO_READ, 0, 8);

		rig_do(&rig.io, &sqe);
	}
	pthread_join(thread, NULL);
	rig_down(&rig);
}

Test(soft_end, drop_under_load_inline)
{
	drop_under_load(0);
}

Test(soft_end, drop_under_load_in_thread)
{
	drop_under_load(NVMFR_SOFT_THREAD);
}
