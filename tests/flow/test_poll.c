/* SPDX-License-Identifier: BSD-3-Clause */
/* Submission and completion as an application sees them: room, order of calls, sleeping and waking. */
#include "flow.h"

#include <poll.h>
#include <sys/epoll.h>
#include <unistd.h>

enum { BLOCK = 512 };

static void up(struct flow *f, unsigned int depth, uint8_t mdts)
{
	struct nvmfr_soft_opts opts = flow_soft_opts();

	opts.mdts = mdts;
	flow_host(f);
	flow_target(f, &opts);
	flow_ns(f, 64 * MIB, BLOCK);
	flow_connect(f);
	f->qp = flow_qpair(f, depth);
}

static bool readable(int fd, int timeout_ms)
{
	struct pollfd pfd = { .fd = fd, .events = POLLIN };

	return poll(&pfd, 1, timeout_ms) == 1;
}

/* ---- nothing means nothing -------------------------------------------------------------------- */

/* Polls of one at a time: from the first that is good to the last there is no 0. */
static void never_zero(struct flow *f, unsigned int expected)
{
	struct nvmfr_completion done;

	for (unsigned int i = 0; i < expected; i++)
		cr_expect_eq(nvmfr_poll(f->qp, &done, 1), 1, "nothing, after %u of %u", i, expected);
	cr_expect_eq(nvmfr_poll(f->qp, &done, 1), 0);
}

Test(poll, one_at_a_time_of_many)
{
	struct nvmfr_buffer *buf;
	struct flow f;

	up(&f, 128, 0);
	buf = flow_alloc(&f, 128 * BLOCK);
	flow_reads(&f, buf, 128);
	never_zero(&f, 128);
	flow_release(buf);
	flow_down(&f);
}

Test(poll, never_more_than_max)
{
	struct nvmfr_completion done[7];
	struct nvmfr_buffer *buf;
	struct flow f;
	int n, sum = 0;

	up(&f, 128, 0);
	buf = flow_alloc(&f, 128 * BLOCK);
	flow_reads(&f, buf, 100);
	while ((n = nvmfr_poll(f.qp, done, 6)) > 0) {
		done[6].user_data = 0;
		cr_expect_leq(n, 6);
		sum += n;
	}
	cr_expect_eq(sum, 100);
	flow_release(buf);
	flow_down(&f);
}

/* The parts of a split read are no completions, and no reason to say that nothing is there. */
Test(poll, one_at_a_time_behind_a_split_read)
{
	struct nvmfr_buffer *buf;
	struct flow f;

	up(&f, 128, 1);
	buf = flow_alloc(&f, MIB);
	cr_assert_eq(nvmfr_read(f.qp, f.nsid, 0, 40 * 16, buf, 0, 0), 0);
	flow_reads(&f, buf, 20);
	never_zero(&f, 21);
	flow_release(buf);
	flow_down(&f);
}

Test(poll, one_at_a_time_of_split_reads)
{
	struct nvmfr_buffer *buf;
	struct flow f;

	up(&f, 128, 1);
	buf = flow_alloc(&f, MIB);
	for (unsigned int i = 0; i < 20; i++)
		cr_assert_eq(nvmfr_read(f.qp, f.nsid, 0, 5 * 16, buf, 0, i), 0);
	never_zero(&f, 20);
	flow_release(buf);
	flow_down(&f);
}

/* More commands than the queue takes: the rest of it goes out from poll, which then looks again. */
Test(poll, split_read_longer_than_the_queue_ends_by_polling_alone)
{
	struct nvmfr_completion done;
	struct nvmfr_buffer *buf;
	struct flow f;
	int n = 0;

	up(&f, 4, 1);
	buf = flow_alloc(&f, MIB);
	cr_assert_eq(nvmfr_read(f.qp, f.nsid, 0, MIB / BLOCK, buf, 0, 5), 0);
	for (unsigned int i = 0; i < 128 && n == 0; i++)
		n = nvmfr_poll(f.qp, &done, 1);
	cr_expect_eq(n, 1);
	cr_expect_eq(done.user_data, 5);
	flow_release(buf);
	flow_down(&f);
}

/* In-capsule writes need the completion of their SEND, too. */
Test(poll, one_at_a_time_of_in_capsule_writes)
{
	struct nvmfr_buffer *buf;
	struct flow f;

	up(&f, 128, 0);
	buf = flow_alloc(&f, 128 * BLOCK);
	for (unsigned int i = 0; i < 100; i++)
		cr_assert_eq(nvmfr_write(f.qp, f.nsid, i, 1, buf, i * BLOCK, i), 0);
	never_zero(&f, 100);
	cr_expect_eq(flow_counters(&f).in_capsule_writes, 100);
	flow_release(buf);
	flow_down(&f);
}

Test(poll, errors_and_successes_one_at_a_time)
{
	struct nvmfr_soft_fault fault = flow_fault(NVMFR_SOFT_FAULT_STATUS, 1, OPC_READ, NVMFR_SOFT_ANY, STATUS_INTERNAL_ERROR);
	struct nvmfr_buffer *buf;
	struct flow f;

	up(&f, 128, 0);
	buf = flow_alloc(&f, 128 * BLOCK);
	fault.count = 30;
	fault.skip = 5;
	flow_plan(&f, &fault);
	flow_reads(&f, buf, 60);
	never_zero(&f, 60);
	flow_release(buf);
	flow_down(&f);
}

Test(poll, qpair_data_and_user_data_come_back)
{
	struct nvmfr_qpair_opts opts = flow_qpair_opts(8);
	struct nvmfr_completion done;
	struct nvmfr_buffer *buf;
	struct nvmfr_io io;
	struct flow f;

	flow_host(&f);
	flow_target(&f, NULL);
	flow_ns(&f, MIB, BLOCK);
	flow_connect(&f);
	opts.qpair_data = UINT64_C(0xfedcba9876543210);
	cr_assert_eq(flow_try_qpair(&f, &opts, &f.qp), 0);
	buf = flow_alloc(&f, BLOCK);
	io = flow_io(&f, NVMFR_OP_READ, 0, 1, buf, 0);
	io.user_data = UINT64_MAX;
	memset(&done, 0xff, sizeof(done));
	done = flow_do(f.qp, &io);
	cr_expect_eq(done.user_data, UINT64_MAX);
	cr_expect_eq(done.qpair_data, UINT64_C(0xfedcba9876543210));
	cr_expect_eq(done.result, 0);
	cr_expect_eq(done.status, 0);
	cr_expect_eq(done.flags, 0);
	flow_release(buf);
	flow_down(&f);
}

/* ---- room ------------------------------------------------------------------------------------- */

Test(poll, full_then_room_again)
{
	struct nvmfr_completion done[16];
	struct nvmfr_buffer *buf;
	struct flow f;

	up(&f, 16, 0);
	buf = flow_alloc(&f, 16 * BLOCK);
	for (unsigned int round = 0; round < 50; round++) {
		flow_reads(&f, buf, 16);
		cr_assert_eq(nvmfr_read(f.qp, f.nsid, 0, 1, buf, 0, 0), -EAGAIN);
		cr_assert_eq(nvmfr_write(f.qp, f.nsid, 0, 1, buf, 0, 0), -EAGAIN);
		flow_wait(f.qp, done, 16);
	}
	cr_expect_eq(flow_qpair_info(f.qp).commands, 800);
	flow_release(buf);
	flow_down(&f);
}

Test(poll, room_for_each_that_ended)
{
	struct nvmfr_completion done[3];
	struct nvmfr_buffer *buf;
	struct flow f;

	up(&f, 16, 0);
	buf = flow_alloc(&f, 16 * BLOCK);
	flow_reads(&f, buf, 16);
	cr_assert_eq(nvmfr_poll(f.qp, done, 3), 3);
	flow_reads(&f, buf, 3);
	cr_expect_eq(nvmfr_read(f.qp, f.nsid, 0, 1, buf, 0, 0), -EAGAIN);
	cr_expect_eq(flow_qpair_info(f.qp).in_flight, 16);
	for (unsigned int i = 0; i < 16; i++)
		flow_wait(f.qp, done, 1);
	flow_release(buf);
	flow_down(&f);
}

Test(poll, batch_is_taken_as_far_as_there_is_room)
{
	struct nvmfr_completion done[40];
	struct nvmfr_io ios[40];
	struct nvmfr_buffer *buf;
	struct flow f;

	up(&f, 16, 0);
	buf = flow_alloc(&f, 40 * BLOCK);
	for (unsigned int i = 0; i < 40; i++) {
		ios[i] = flow_io(&f, NVMFR_OP_READ, i, 1, buf, i * UINT64_C(512));
		ios[i].user_data = i;
	}
	cr_expect_eq(nvmfr_submit(f.qp, ios, 40), 16);
	cr_expect_eq(nvmfr_submit(f.qp, ios + 16, 24), -EAGAIN);
	flow_wait(f.qp, done, 16);
	cr_expect_eq(nvmfr_submit(f.qp, ios + 16, 24), 16);
	flow_wait(f.qp, done, 16);
	cr_expect_eq(nvmfr_submit(f.qp, ios + 32, 8), 8);
	flow_wait(f.qp, done, 8);
	cr_expect_eq(done[7].user_data, 39);
	flow_release(buf);
	flow_down(&f);
}

/* Bad ones of each kind at each place: those before it are taken, it says why when it is the first. */
static void batch_with(struct flow *f, struct nvmfr_buffer *buf, const struct nvmfr_io *bad, int err)
{
	struct nvmfr_completion done[8];
	struct nvmfr_io ios[8];

	for (unsigned int at = 0; at < 8; at++) {
		for (unsigned int i = 0; i < 8; i++)
			ios[i] = flow_io(f, i % 2 ? NVMFR_OP_READ : NVMFR_OP_WRITE, i, 1, buf, 0);
		ios[at] = *bad;
		cr_expect_eq(nvmfr_submit(f->qp, ios, 8), at ? (int)at : err, "the bad one is number %u", at);
		if (at == 0)
			continue;
		cr_expect_eq(nvmfr_submit(f->qp, ios + at, 8 - at), err);
		flow_wait(f->qp, done, at);
	}
	cr_expect_eq(flow_qpair_info(f->qp).in_flight, 0);
}

Test(poll, batch_is_taken_up_to_a_bad_one)
{
	struct nvmfr_buffer *buf;
	struct nvmfr_io bad;
	struct flow f;

	up(&f, 16, 0);
	buf = flow_alloc(&f, 8 * BLOCK);
	bad = flow_io(&f, NVMFR_OP_READ, 64 * MIB / BLOCK, 1, buf, 0);
	batch_with(&f, buf, &bad, -ERANGE);
	bad = flow_io(&f, NVMFR_OP_WRITE, 0, 1, NULL, 0);
	batch_with(&f, buf, &bad, -EINVAL);
	bad = flow_io(&f, 77, 0, 1, buf, 0);
	batch_with(&f, buf, &bad, -EINVAL);
	bad = flow_io(&f, NVMFR_OP_READ, 0, 1, buf, 0);
	bad.nsid = 9;
	batch_with(&f, buf, &bad, -ENOENT);
	bad.nsid = 1;
	bad.reserved1[1] = 1;
	batch_with(&f, buf, &bad, -EINVAL);
	flow_release(buf);
	flow_down(&f);
}

Test(poll, batch_of_every_kind)
{
	struct nvmfr_completion done[6];
	struct nvmfr_iov iov[2];
	struct nvmfr_buffer *buf;
	struct nvmfr_io ios[6];
	struct flow f;

	up(&f, 16, 1);
	buf = flow_alloc(&f, MIB);
	iov[0] = (struct nvmfr_iov){ buf, 1, 100 };
	iov[1] = (struct nvmfr_iov){ buf, 200, BLOCK - 100 };
	ios[0] = flow_io(&f, NVMFR_OP_READ, 0, 1, buf, 0);
	ios[1] = flow_io(&f, NVMFR_OP_READ, 0, 20, buf, 0);
	ios[2] = flow_io(&f, NVMFR_OP_FLUSH, 0, 0, NULL, 0);
	ios[3] = flow_io(&f, NVMFR_OP_WRITE_ZEROES, 9, 100, NULL, 0);
	ios[4] = flow_io(&f, NVMFR_OP_WRITE, 0, 1, NULL, 0);
	ios[4].flags = NVMFR_IO_VEC | NVMFR_IO_FUA;
	ios[4].iov = iov;
	ios[4].niov = 2;
	ios[5] = flow_io(&f, NVMFR_OP_WRITE, 5, 1, buf, 0);
	for (unsigned int i = 0; i < 6; i++)
		ios[i].user_data = i;
	cr_expect_eq(nvmfr_submit(f.qp, ios, 6), 6);
	flow_wait(f.qp, done, 6);
	for (unsigned int i = 0; i < 6; i++)
		cr_expect_eq(done[i].result, 0, "number %llu: %04x", (unsigned long long)done[i].user_data, done[i].status);
	flow_release(buf);
	flow_down(&f);
}

/* ---- waiting ---------------------------------------------------------------------------------- */

Test(poll, wait_for_fewer_than_there_are)
{
	struct nvmfr_completion done[64];
	struct nvmfr_buffer *buf;
	struct flow f;
	int n;

	up(&f, 64, 0);
	buf = flow_alloc(&f, 64 * BLOCK);
	flow_reads(&f, buf, 20);
	n = nvmfr_wait(f.qp, done, 3, 64, -1);
	cr_expect(n >= 3 && n <= 20, "%d", n);
	flow_wait(f.qp, done, 20 - (unsigned int)n);
	flow_release(buf);
	flow_down(&f);
}

/* In virtual time a wait takes as long as it says, and no longer. */
Test(poll, wait_ends_with_its_time)
{
	struct nvmfr_soft_opts opts = flow_soft_opts();
	struct nvmfr_completion done[2];
	struct nvmfr_buffer *buf;
	struct flow f;

	opts.latency_us = 5000;
	flow_up(&f, &opts);
	buf = flow_alloc(&f, 2 * BLOCK);
	flow_reads(&f, buf, 1);
	cr_expect_eq(nvmfr_wait(f.qp, done, 1, 1, 4), 0, "4 ms are not 5");
	cr_expect_eq(nvmfr_wait(f.qp, done, 1, 1, 1), 1);
	flow_reads(&f, buf, 1);
	cr_expect_eq(nvmfr_wait(f.qp, done, 2, 2, 100), 1, "one came of two");
	flow_release(buf);
	flow_down(&f);
}

Test(poll, wait_with_nothing_in_flight_ends)
{
	struct nvmfr_completion done;
	struct flow f;

	up(&f, 8, 0);
	cr_expect_eq(nvmfr_wait(f.qp, &done, 1, 1, 0), 0);
	cr_expect_eq(nvmfr_wait(f.qp, &done, 1, 1, 60000), 0);
	flow_works(&f);
	flow_down(&f);
}

Test(poll, wait_in_real_time)
{
	struct nvmfr_soft_opts opts = flow_soft_opts();
	struct nvmfr_completion done;
	struct nvmfr_buffer *buf;
	struct flow f;

	opts.latency_us = 3000;
	flow_up_thread(&f, &opts);
	buf = flow_alloc(&f, BLOCK);
	for (unsigned int i = 0; i < 10; i++) {
		flow_reads(&f, buf, 1);
		cr_expect_eq(nvmfr_wait(f.qp, &done, 1, 1, -1), 1);
	}
	cr_expect_eq(nvmfr_wait(f.qp, &done, 1, 1, 10), 0);
	flow_release(buf);
	flow_down(&f);
}

/* ---- arming and sleeping ---------------------------------------------------------------------- */

Test(poll, arm_says_when_something_is_there)
{
	struct nvmfr_completion done;
	struct nvmfr_buffer *buf;
	struct flow f;

	up(&f, 8, 0);
	buf = flow_alloc(&f, 8 * BLOCK);
	cr_expect_geq(nvmfr_qpair_fd(f.qp), 0);
	cr_expect_eq(nvmfr_qpair_arm(f.qp), 0, "nothing is in flight");
	flow_reads(&f, buf, 2);
	cr_expect_eq(nvmfr_qpair_arm(f.qp), 1, "the target answers at once");
	cr_expect_eq(nvmfr_poll(f.qp, &done, 1), 1);
	cr_expect_eq(nvmfr_qpair_arm(f.qp), 1, "the other one is there, too");
	cr_expect_eq(nvmfr_poll(f.qp, &done, 1), 1);
	cr_expect_eq(nvmfr_qpair_arm(f.qp), 0);
	flow_release(buf);
	flow_down(&f);
}

Test(poll, fd_is_the_same_each_time_and_silent_at_first)
{
	struct flow f;
	int fd;

	up(&f, 8, 0);
	fd = nvmfr_qpair_fd(f.qp);
	cr_expect_geq(fd, 0);
	cr_expect_eq(nvmfr_qpair_fd(f.qp), fd);
	cr_expect_eq(nvmfr_qpair_arm(f.qp), 0);
	cr_expect(!readable(fd, 0));
	flow_down(&f);
}

/* Real time: the target serves inside poll, so the descriptor rings when the answer is due. */
Test(poll, fd_rings_when_an_answer_is_due)
{
	struct nvmfr_soft_opts opts = flow_soft_opts();
	struct nvmfr_completion done;
	struct nvmfr_buffer *buf;
	struct flow f;

	opts.latency_us = 2000;
	flow_up_thread(&f, &opts);
	buf = flow_alloc(&f, BLOCK);
	for (unsigned int i = 0; i < 20; i++) {
		flow_reads(&f, buf, 1);
		while (nvmfr_poll(f.qp, &done, 1) == 0)
			if (nvmfr_qpair_arm(f.qp) == 0)
				cr_assert(readable(nvmfr_qpair_fd(f.qp), 20000), "nobody rang");
	}
	flow_release(buf);
	flow_down(&f);
}

/* What an application does: poll until nothing, arm, sleep. A lost wake-up is a bell that never rings. */
static unsigned int sleep_and_collect(struct flow *f)
{
	struct nvmfr_completion done[8];
	int n;

	for (;;) {
		n = nvmfr_poll(f->qp, done, 8);
		if (n != 0)
			break;
		n = nvmfr_qpair_arm(f->qp);
		cr_assert_geq(n, 0, "arm: %s", nvmfr_last_error());
		if (n == 0)
			cr_assert(readable(nvmfr_qpair_fd(f->qp), 20000), "a wake-up was lost");
	}
	cr_assert_gt(n, 0, "poll: %s", nvmfr_last_error());
	return (unsigned int)n;
}

static void sleeper_loses_nothing(uint32_t latency_us, unsigned int at_a_time, unsigned int rounds)
{
	struct nvmfr_soft_opts opts = flow_soft_opts();
	struct nvmfr_buffer *buf;
	struct flow f;

	opts.flags = NVMFR_SOFT_THREAD;
	opts.latency_us = latency_us;
	flow_up_thread(&f, &opts);
	buf = flow_alloc(&f, 8 * BLOCK);
	for (unsigned int i = 0; i < rounds; i++) {
		unsigned int left = at_a_time;

		flow_reads(&f, buf, at_a_time);
		while (left)
			left -= sleep_and_collect(&f);
	}
	flow_release(buf);
	flow_down(&f);
}

Test(poll, sleeper_of_one_loses_no_wake_up, .timeout = 60)
{
	sleeper_loses_nothing(0, 1, 20000);
}

Test(poll, sleeper_of_three_loses_no_wake_up, .timeout = 60)
{
	sleeper_loses_nothing(0, 3, 8000);
}

Test(poll, sleeper_with_latency_loses_no_wake_up, .timeout = 60)
{
	sleeper_loses_nothing(100, 2, 2000);
}

/* In-capsule writes: the response may come before the SEND is done, and both must wake. */
Test(poll, sleeper_on_in_capsule_writes_loses_no_wake_up, .timeout = 60)
{
	struct nvmfr_soft_opts opts = flow_soft_opts();
	struct nvmfr_buffer *buf;
	struct flow f;

	opts.flags = NVMFR_SOFT_THREAD;
	flow_up_thread(&f, &opts);
	buf = flow_alloc(&f, BLOCK);
	for (unsigned int i = 0; i < 10000; i++) {
		cr_assert_eq(nvmfr_write(f.qp, f.nsid, 0, 1, buf, 0, 0), 0);
		sleep_and_collect(&f);
	}
	flow_release(buf);
	flow_down(&f);
}

Test(poll, waiter_loses_no_wake_up, .timeout = 60)
{
	struct nvmfr_soft_opts opts = flow_soft_opts();
	struct nvmfr_completion done;
	struct nvmfr_buffer *buf;
	struct flow f;

	opts.flags = NVMFR_SOFT_THREAD;
	flow_up_thread(&f, &opts);
	buf = flow_alloc(&f, BLOCK);
	for (unsigned int i = 0; i < 10000; i++) {
		flow_reads(&f, buf, 1);
		cr_assert_eq(nvmfr_wait(f.qp, &done, 1, 1, 20000), 1, "a wake-up was lost at %u", i);
	}
	flow_release(buf);
	flow_down(&f);
}

/* ---- a sleeper and the end of the association --------------------------------------------------- */

static void *drop_soon(void *arg)
{
	struct flow *f = arg;
	struct pollfd nothing = { .fd = -1 };

	/* Not to be exact: both orders must work, this makes it likely that the other side sleeps. */
	poll(&nothing, 1, 20);
	nvmfr_soft_drop(f->target);
	return NULL;
}

static void sleep_until_dropped(uint32_t flags)
{
	struct nvmfr_soft_opts opts = flow_soft_opts();
	struct nvmfr_completion done;
	pthread_t thread;
	struct flow f;
	int n;

	opts.flags = flags;
	flow_up_thread(&f, &opts);
	cr_assert_geq(nvmfr_qpair_fd(f.qp), 0);
	cr_assert_eq(pthread_create(&thread, NULL, drop_soon, &f), 0);
	while ((n = nvmfr_poll(f.qp, &done, 1)) == 0)
		if (nvmfr_qpair_arm(f.qp) == 0)
			cr_assert(readable(nvmfr_qpair_fd(f.qp), 20000), "the sleeper was not woken");
	cr_expect_eq(n, -ENOTCONN);
	pthread_join(thread, NULL);
	flow_down(&f);
}

Test(poll, sleeper_is_woken_when_the_association_dies)
{
	sleep_until_dropped(0);
}

Test(poll, sleeper_is_woken_when_the_association_dies_in_another_thread)
{
	sleep_until_dropped(NVMFR_SOFT_THREAD);
}

static void wait_until_dropped(uint32_t flags)
{
	struct nvmfr_soft_opts opts = flow_soft_opts();
	struct nvmfr_completion done[4];
	struct nvmfr_buffer *buf;
	pthread_t thread;
	struct flow f;

	opts.flags = flags;
	flow_up_thread(&f, &opts);
	flow_plan_io(&f, NVMFR_SOFT_FAULT_SILENCE, OPC_READ, 0);
	buf = flow_alloc(&f, BLOCK);
	flow_reads(&f, buf, 1);
	cr_assert_eq(pthread_create(&thread, NULL, drop_soon, &f), 0);
	cr_expect_eq(nvmfr_wait(f.qp, done, 1, 4, 20000), 1);
	cr_expect_eq(done[0].result, -ECONNABORTED);
	cr_expect_eq(nvmfr_wait(f.qp, done, 1, 4, 20000), -ENOTCONN);
	pthread_join(thread, NULL);
	flow_release(buf);
	flow_down(&f);
}

Test(poll, waiter_is_woken_when_the_association_dies)
{
	wait_until_dropped(0);
}

Test(poll, waiter_is_woken_when_the_association_dies_in_another_thread)
{
	wait_until_dropped(NVMFR_SOFT_THREAD);
}

/* Nobody polls: the service tells the sleeper that a command is over its time. */
Test(poll, sleeper_is_woken_when_a_command_is_late)
{
	struct nvmfr_qpair_opts opts = flow_qpair_opts(8);
	struct nvmfr_completion done;
	struct nvmfr_buffer *buf;
	struct flow f;
	int n;

	flow_host_thread(&f);
	flow_target(&f, NULL);
	flow_ns(&f, MIB, BLOCK);
	flow_connect(&f);
	opts.io_timeout_ms = 200;
	cr_assert_eq(flow_try_qpair(&f, &opts, &f.qp), 0);
	flow_plan_io(&f, NVMFR_SOFT_FAULT_SILENCE, OPC_READ, 0);
	buf = flow_alloc(&f, BLOCK);
	flow_reads(&f, buf, 1);
	while ((n = nvmfr_poll(f.qp, &done, 1)) == 0)
		if (nvmfr_qpair_arm(f.qp) == 0)
			cr_assert(readable(nvmfr_qpair_fd(f.qp), 20000), "the sleeper was not woken");
	cr_expect_eq(n, 1);
	cr_expect_eq(done.result, -ETIMEDOUT);
	flow_release(buf);
	flow_down(&f);
}

/* ---- the host's own descriptor ------------------------------------------------------------------ */

/* A manual host in real time, driven by epoll on its descriptor alone. */
static void drive(struct flow *f)
{
	int timeout = nvmfr_host_timeout_ms(f->host);

	readable(nvmfr_host_fd(f->host), timeout < 0 ? 1000 : timeout);
	cr_assert_eq(nvmfr_host_poll(f->host), 0);
}

Test(poll, manual_host_by_its_descriptor)
{
	struct nvmfr_host_opts opts;
	struct flow f;

	flow_host(&f);
	nvmfr_host_destroy(f.host);
	nvmfr_host_opts_init(&opts, sizeof(opts));
	opts.flags = NVMFR_HOST_MANUAL;
	cr_assert_eq(nvmfr_host_create(&opts, &f.host), 0);
	flow_target(&f, NULL);
	flow_ns(&f, MIB, BLOCK);
	cr_assert_eq(nvmfr_connect(f.host, &f.opts, &f.ctrl), 0);
	while (nvmfr_ctrl_state(f.ctrl) == NVMFR_STATE_CONNECTING)
		drive(&f);
	cr_expect_eq(nvmfr_ctrl_state(f.ctrl), NVMFR_STATE_LIVE);
	cr_assert_eq(nvmfr_qpair_create(f.ctrl, NULL, &f.qp), 0);
	while (flow_qpair_info(f.qp).state == NVMFR_STATE_CONNECTING)
		drive(&f);
	flow_works(&f);
	flow_down(&f);
}

Test(poll, manual_host_in_real_time_does_not_dawdle, .timeout = 30)
{
	struct nvmfr_host_opts opts;
	struct flow f;

	flow_host(&f);
	nvmfr_host_destroy(f.host);
	nvmfr_host_opts_init(&opts, sizeof(opts));
	opts.flags = NVMFR_HOST_MANUAL;
	cr_assert_eq(nvmfr_host_create(&opts, &f.host), 0);
	flow_target(&f, NULL);
	flow_ns(&f, MIB, BLOCK);
	/* Each would cost a second if it waited behind what it waits for. */
	for (unsigned int i = 0; i < 20; i++) {
		flow_connect(&f);
		f.qp = flow_qpair(&f, 8);
		flow_works(&f);
		nvmfr_qpair_destroy(f.qp);
		cr_expect_eq(nvmfr_disconnect(f.ctrl, 1000), 0);
	}
	f.qp = NULL;
	f.ctrl = NULL;
	flow_down(&f);
}

/* The descriptor may stand in an epoll set of the application. */
Test(poll, fd_in_an_epoll_set)
{
	struct nvmfr_soft_opts opts = flow_soft_opts();
	struct epoll_event event = { .events = EPOLLIN };
	int set = epoll_create1(EPOLL_CLOEXEC);
	struct nvmfr_completion done;
	struct nvmfr_buffer *buf;
	struct flow f;

	opts.flags = NVMFR_SOFT_THREAD;
	flow_up_thread(&f, &opts);
	cr_assert_eq(epoll_ctl(set, EPOLL_CTL_ADD, nvmfr_qpair_fd(f.qp), &event), 0);
	buf = flow_alloc(&f, BLOCK);
	for (unsigned int i = 0; i < 100; i++) {
		flow_reads(&f, buf, 1);
		while (nvmfr_poll(f.qp, &done, 1) == 0)
			if (nvmfr_qpair_arm(f.qp) == 0)
				cr_assert_eq(epoll_wait(set, &event, 1, 20000), 1, "nobody rang");
	}
	close(set);
	flow_release(buf);
	flow_down(&f);
}
