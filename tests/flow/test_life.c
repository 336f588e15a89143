/* SPDX-License-Identifier: BSD-3-Clause */
/* Endings, in any order, with I/O in flight, in several threads. */
#include "flow.h"

#include <stdlib.h>

enum { BLOCK = 512 };

/* ---- disconnect ------------------------------------------------------------------------------- */

Test(life, disconnect_is_orderly)
{
	uint64_t commands;
	struct flow f;

	flow_up(&f, NULL);
	nvmfr_qpair_destroy(f.qp);
	f.qp = NULL;
	commands = flow_counters(&f).commands;
	cr_expect_eq(nvmfr_disconnect(f.ctrl, 1000), 0);
	f.ctrl = NULL;
	/* CC.SHN is set, CSTS.SHST is read. */
	cr_expect_geq(flow_counters(&f).commands, commands + 2);
	flow_down(&f);
}

Test(life, disconnect_without_time_is_abrupt)
{
	uint64_t commands;
	struct flow f;

	flow_up(&f, NULL);
	nvmfr_qpair_destroy(f.qp);
	f.qp = NULL;
	commands = flow_counters(&f).commands;
	cr_expect_eq(nvmfr_disconnect(f.ctrl, 0), 0);
	f.ctrl = NULL;
	cr_expect_eq(flow_counters(&f).commands, commands);
	flow_down(&f);
}

Test(life, disconnect_from_a_silent_target_has_a_bound)
{
	struct nvmfr_soft_fault fault = flow_fault(NVMFR_SOFT_FAULT_SILENCE, 0, OPC_FABRICS, NVMFR_SOFT_ANY, 0);
	struct flow f;

	flow_up(&f, NULL);
	nvmfr_qpair_destroy(f.qp);
	f.qp = NULL;
	fault.count = 0;
	flow_plan(&f, &fault);
	cr_expect_eq(nvmfr_disconnect(f.ctrl, 2000), 0);
	f.ctrl = NULL;
	flow_down(&f);
}

Test(life, disconnect_from_a_target_that_is_gone)
{
	struct flow f;

	flow_up(&f, NULL);
	nvmfr_qpair_destroy(f.qp);
	f.qp = NULL;
	nvmfr_soft_target_destroy(f.target);
	f.target = NULL;
	cr_expect_eq(nvmfr_disconnect(f.ctrl, 1000), 0);
	f.ctrl = NULL;
	flow_down(&f);
}

Test(life, disconnect_while_a_queue_pair_exists_does_nothing)
{
	struct flow f;

	flow_up(&f, NULL);
	cr_expect_eq(nvmfr_disconnect(f.ctrl, 1000), -EBUSY);
	flow_says("nvmfr_qpair_destroy");
	cr_expect_eq(nvmfr_ctrl_state(f.ctrl), NVMFR_STATE_LIVE);
	flow_works(&f);
	flow_down(&f);
}

Test(life, disconnect_with_a_lost_queue_pair_is_busy_too)
{
	struct nvmfr_completion done;
	struct flow f;

	flow_up(&f, NULL);
	nvmfr_soft_drop(f.target);
	cr_expect_eq(flow_drain(f.qp, &done, 1), 0);
	cr_expect_eq(nvmfr_disconnect(f.ctrl, 1000), -EBUSY);
	flow_down(&f);
}

Test(life, releasers_take_null)
{
	nvmfr_qpair_destroy(NULL);
	nvmfr_host_destroy(NULL);
	nvmfr_soft_target_destroy(NULL);
	cr_expect_eq(nvmfr_disconnect(NULL, 0), 0);
	cr_expect_eq(nvmfr_buffer_release(NULL), 0);
	cr_expect_null(nvmfr_buffer_addr(NULL));
	cr_expect_eq(nvmfr_buffer_size(NULL), 0);
}

Test(life, a_hundred_associations)
{
	struct flow f;

	flow_host(&f);
	flow_target(&f, NULL);
	flow_ns(&f, MIB, BLOCK);
	for (unsigned int i = 0; i < 100; i++) {
		flow_connect(&f);
		f.qp = flow_qpair(&f, 4);
		flow_works(&f);
		nvmfr_qpair_destroy(f.qp);
		cr_expect_eq(nvmfr_disconnect(f.ctrl, i % 2 ? 1000 : 0), 0);
	}
	f.qp = NULL;
	f.ctrl = NULL;
	cr_expect_eq(flow_counters(&f).connections, 200);
	flow_down(&f);
}

/* ---- queue pairs that end with commands in flight --------------------------------------------- */

/* When destroy has returned nobody writes to their memory any more. */
static void destroyed_in_flight(uint32_t flags)
{
	struct nvmfr_soft_opts opts = flow_soft_opts();
	unsigned char *mem = malloc(MIB), *copy = malloc(MIB);
	struct nvmfr_qpair *next;
	struct nvmfr_buffer *buf;
	struct flow f;
	uint64_t rng = 77;

	opts.flags = flags;
	opts.latency_us = 1000;
	flow_up_thread(&f, &opts);
	buf = flow_buffer(&f, mem, MIB);
	for (uint64_t i = 0; i < FLOW_DEPTH; i++)
		cr_assert_eq(nvmfr_read(f.qp, f.nsid, 16 * i, 16, buf, 8192 * i, i), 0);
	nvmfr_qpair_destroy(f.qp);
	f.qp = NULL;
	flow_fill(&rng, mem, MIB);
	memcpy(copy, mem, MIB);
	/* Others go on: a round trip through the target, many times as long as the latency. */
	next = flow_qpair(&f, 8);
	for (unsigned int i = 0; i < 20; i++) {
		f.qp = next;
		flow_works(&f);
	}
	cr_expect_arr_eq(mem, copy, MIB, "memory was written after the end of its queue pair");
	flow_release(buf);
	free(mem);
	free(copy);
	flow_down(&f);
}

Test(life, queue_pair_destroyed_with_reads_in_flight)
{
	destroyed_in_flight(0);
}

Test(life, queue_pair_destroyed_with_reads_in_flight_at_a_target_thread)
{
	destroyed_in_flight(NVMFR_SOFT_THREAD);
}

/* The memory itself is given back at once: whoever still touched it would fault (or ASan would say so). */
Test(life, memory_freed_behind_a_destroyed_queue_pair)
{
	struct nvmfr_soft_opts opts = flow_soft_opts();
	struct flow f;

	opts.flags = NVMFR_SOFT_THREAD;
	flow_up_thread(&f, &opts);
	nvmfr_qpair_destroy(f.qp);
	for (unsigned int i = 0; i < 200; i++) {
		unsigned char *mem = malloc(256 * KIB);
		struct nvmfr_buffer *buf = flow_buffer(&f, mem, 256 * KIB);

		f.qp = flow_qpair(&f, 32);
		for (uint64_t k = 0; k < 32; k++)
			cr_assert_eq(nvmfr_submit(f.qp, &(const struct nvmfr_io){
				.op = k % 2 ? NVMFR_OP_READ : NVMFR_OP_WRITE, .nsid = f.nsid, .lba = k * 16, .nblocks = 16,
				.buf = buf, .offset_bytes = k * 8192 }, 1), 1);
		nvmfr_qpair_destroy(f.qp);
		flow_release(buf);
		free(mem);
	}
	f.qp = NULL;
	flow_down(&f);
}

Test(life, queue_pair_destroyed_with_a_backlog)
{
	struct nvmfr_soft_opts opts = flow_soft_opts();
	struct nvmfr_buffer *buf;
	struct flow f;

	opts.mdts = 1;
	flow_host(&f);
	flow_target(&f, &opts);
	flow_ns(&f, 16 * MIB, BLOCK);
	flow_connect(&f);
	f.qp = flow_qpair(&f, 4);
	buf = flow_alloc(&f, 8 * MIB);
	cr_assert_eq(nvmfr_read(f.qp, f.nsid, 0, 8 * MIB / BLOCK, buf, 0, 0), 0);
	nvmfr_qpair_destroy(f.qp);
	f.qp = NULL;
	flow_release(buf);
	flow_down(&f);
}

/* ---- buffers in flight ------------------------------------------------------------------------ */

/* Not released while in flight, released after; io->buf or its iov's pieces are among bufs. */
static void busy_until_done(struct flow *f, const struct nvmfr_io *io, struct nvmfr_buffer **bufs, unsigned int n)
{
	struct nvmfr_completion done;

	cr_assert_eq(nvmfr_submit(f->qp, io, 1), 1, "%s", nvmfr_last_error());
	for (unsigned int i = 0; i < n; i++) {
		cr_expect_eq(nvmfr_buffer_release(bufs[i]), -EBUSY, "buffer %u of %u", i, n);
		flow_says("in flight");
	}
	flow_wait(f->qp, &done, 1);
	cr_expect_eq(done.result, 0);
	for (unsigned int i = 0; i < n; i++)
		flow_release(bufs[i]);
}

Test(life, buffer_of_a_read_is_busy)
{
	struct nvmfr_buffer *buf;
	struct nvmfr_io io;
	struct flow f;

	flow_up(&f, NULL);
	buf = flow_alloc(&f, 4096);
	io = flow_io(&f, NVMFR_OP_READ, 0, 1, buf, 0);
	busy_until_done(&f, &io, &buf, 1);
	flow_down(&f);
}

Test(life, buffer_of_an_in_capsule_write_is_busy)
{
	struct nvmfr_buffer *buf;
	struct nvmfr_io io;
	struct flow f;

	flow_up(&f, NULL);
	buf = flow_alloc(&f, 4096);
	io = flow_io(&f, NVMFR_OP_WRITE, 0, 1, buf, 0);
	busy_until_done(&f, &io, &buf, 1);
	flow_down(&f);
}

Test(life, buffer_of_a_write_by_key_is_busy)
{
	struct nvmfr_buffer *buf;
	struct nvmfr_io io;
	struct flow f;

	flow_up(&f, NULL);
	buf = flow_alloc(&f, 64 * KIB);
	io = flow_io(&f, NVMFR_OP_WRITE, 0, 64 * KIB / BLOCK, buf, 0);
	busy_until_done(&f, &io, &buf, 1);
	flow_down(&f);
}

Test(life, every_buffer_of_a_vector_is_busy)
{
	struct nvmfr_buffer *bufs[3];
	struct nvmfr_iov iov[3];
	struct nvmfr_io io;
	struct flow f;

	flow_up(&f, NULL);
	for (unsigned int i = 0; i < 3; i++) {
		bufs[i] = flow_alloc(&f, 4096);
		iov[i] = (struct nvmfr_iov){ bufs[i], 0, BLOCK };
	}
	io = flow_io(&f, NVMFR_OP_READ, 0, 3, NULL, 0);
	io.flags = NVMFR_IO_VEC;
	io.iov = iov;
	io.niov = 3;
	busy_until_done(&f, &io, bufs, 3);
	flow_down(&f);
}

/* The buffer that only the part which waits for room names. */
Test(life, buffers_of_a_backlog_are_busy)
{
	struct nvmfr_soft_opts opts = flow_soft_opts();
	struct nvmfr_buffer *bufs[2];
	struct nvmfr_iov iov[2];
	struct nvmfr_io io;
	struct flow f;

	opts.mdts = 1;
	flow_host(&f);
	flow_target(&f, &opts);
	flow_ns(&f, 16 * MIB, BLOCK);
	flow_connect(&f);
	f.qp = flow_qpair(&f, 2);
	for (unsigned int i = 0; i < 2; i++) {
		bufs[i] = flow_alloc(&f, 128 * KIB);
		iov[i] = (struct nvmfr_iov){ bufs[i], 0, 128 * KIB };
	}
	io = flow_io(&f, NVMFR_OP_READ, 0, 256 * KIB / BLOCK, NULL, 0);
	io.flags = NVMFR_IO_VEC;
	io.iov = iov;
	io.niov = 2;
	busy_until_done(&f, &io, bufs, 2);
	flow_down(&f);
}

Test(life, buffer_is_free_when_its_queue_pair_is_gone)
{
	struct nvmfr_buffer *buf;
	struct flow f;

	flow_up(&f, NULL);
	buf = flow_alloc(&f, 4096);
	flow_reads(&f, buf, 1);
	cr_expect_eq(nvmfr_buffer_release(buf), -EBUSY);
	nvmfr_qpair_destroy(f.qp);
	f.qp = NULL;
	flow_release(buf);
	flow_down(&f);
}

Test(life, other_buffers_are_not_busy)
{
	struct nvmfr_completion done;
	struct nvmfr_buffer *buf, *other;
	struct flow f;

	flow_up(&f, NULL);
	buf = flow_alloc(&f, 4096);
	other = flow_alloc(&f, 4096);
	flow_reads(&f, buf, 1);
	flow_release(other);
	flow_wait(f.qp, &done, 1);
	flow_release(buf);
	flow_down(&f);
}

/* ---- buffers and controllers ------------------------------------------------------------------ */

static void through(struct flow *f, struct nvmfr_buffer *buf)
{
	unsigned char *mem = nvmfr_buffer_addr(buf);
	struct nvmfr_io io = flow_io(f, NVMFR_OP_WRITE, 3, 1, buf, 0);

	memset(mem, 0x3c, BLOCK);
	flow_must(f->qp, &io);
	memset(mem, 0, BLOCK);
	io = flow_io(f, NVMFR_OP_READ, 3, 1, buf, 0);
	flow_must(f->qp, &io);
	cr_expect_eq(mem[BLOCK - 1], 0x3c);
}

Test(life, buffer_from_before_connect_serves)
{
	struct nvmfr_buffer *buf;
	struct flow f;

	flow_host(&f);
	buf = flow_alloc(&f, 4096);
	flow_target(&f, NULL);
	flow_ns(&f, MIB, BLOCK);
	flow_connect(&f);
	f.qp = flow_qpair(&f, 8);
	through(&f, buf);
	flow_release(buf);
	flow_down(&f);
}

Test(life, many_buffers_from_before_connect_serve)
{
	struct nvmfr_buffer *bufs[500];
	struct flow f;

	flow_host(&f);
	for (unsigned int i = 0; i < ARRAY_SIZE(bufs); i++)
		bufs[i] = flow_alloc(&f, 4096);
	flow_target(&f, NULL);
	flow_ns(&f, MIB, BLOCK);
	flow_connect(&f);
	f.qp = flow_qpair(&f, 8);
	for (unsigned int i = 0; i < ARRAY_SIZE(bufs); i++) {
		through(&f, bufs[i]);
		flow_release(bufs[i]);
	}
	flow_down(&f);
}

Test(life, buffer_serves_controllers_that_come_and_go)
{
	struct nvmfr_buffer *buf;
	struct nvmfr_qpair *first_qp;
	struct nvmfr_ctrl *first;
	struct flow f;

	flow_up(&f, NULL);
	buf = flow_alloc(&f, 4096);
	first = f.ctrl;
	first_qp = f.qp;
	flow_connect(&f);
	f.qp = flow_qpair(&f, 8);
	through(&f, buf);
	nvmfr_qpair_destroy(first_qp);
	cr_expect_eq(nvmfr_disconnect(first, 1000), 0);
	through(&f, buf);
	nvmfr_qpair_destroy(f.qp);
	cr_expect_eq(nvmfr_disconnect(f.ctrl, 1000), 0);
	flow_connect(&f);
	f.qp = flow_qpair(&f, 8);
	through(&f, buf);
	flow_release(buf);
	flow_down(&f);
}

Test(life, buffer_of_another_host_is_refused)
{
	struct nvmfr_buffer *buf;
	struct flow f, other;

	flow_up(&f, NULL);
	flow_host(&other);
	buf = flow_alloc(&other, 4096);
	cr_expect_eq(nvmfr_read(f.qp, f.nsid, 0, 1, buf, 0, 0), -EINVAL);
	flow_says("another host");
	flow_release(buf);
	flow_down(&other);
	flow_down(&f);
}

/* ---- host ------------------------------------------------------------------------------------- */

static unsigned int lines_with(const struct flow *f, const char *words)
{
	unsigned int n = 0;

	for (const char *at = f->log->text; (at = strstr(at, words)) != NULL; at++)
		n++;
	return n;
}

static void host_ends_first(struct flow *f)
{
	nvmfr_host_destroy(f->host);
	cr_expect_eq(lines_with(f, "was not disconnected"), 2, "%s", f->log->text);
	cr_expect_eq(lines_with(f, "was not released"), 2, "%s", f->log->text);
	pthread_mutex_destroy(&f->log->lock);
	free(f->log);
}

/* Everything is left behind, with I/O in flight: logged, and no leak. */
Test(life, host_ends_with_all_left_behind)
{
	struct nvmfr_buffer *buf;
	struct flow f;

	flow_up(&f, NULL);
	buf = flow_alloc(&f, 4096);
	flow_alloc(&f, 4096);
	flow_reads(&f, buf, 1);
	flow_connect(&f);
	host_ends_first(&f);
}

Test(life, host_with_a_thread_ends_with_all_left_behind)
{
	struct nvmfr_soft_opts opts = flow_soft_opts();
	struct nvmfr_buffer *buf;
	struct flow f;

	opts.flags = NVMFR_SOFT_THREAD;
	flow_up_thread(&f, &opts);
	buf = flow_alloc(&f, 4096);
	flow_alloc(&f, 4096);
	flow_reads(&f, buf, 1);
	flow_connect(&f);
	host_ends_first(&f);
}

Test(life, host_ends_while_connecting)
{
	struct flow f;

	flow_host_thread(&f);
	flow_target(&f, NULL);
	cr_assert_eq(nvmfr_connect(f.host, &f.opts, &f.ctrl), 0);
	nvmfr_host_destroy(f.host);
	cr_expect(flow_logged(&f, "was not disconnected"), "%s", f.log->text);
	pthread_mutex_destroy(&f.log->lock);
	free(f.log);
}

Test(life, two_hosts_at_once)
{
	struct flow a, b;

	flow_up(&a, NULL);
	flow_up_thread(&b, NULL);
	flow_works(&a);
	flow_works(&b);
	flow_down(&a);
	flow_works(&b);
	flow_down(&b);
}

Test(life, many_hosts_come_and_go)
{
	for (unsigned int i = 0; i < 50; i++) {
		struct flow f;

		flow_host_thread(&f);
		flow_down(&f);
	}
}

/* ---- threads ---------------------------------------------------------------------------------- */

struct worker {
	struct flow *f;
	unsigned int rounds;
	int err;
	char sentence[256];
};

static bool failed(struct worker *w, int err)
{
	if (err && !w->err) {
		w->err = err;
		strncpy(w->sentence, nvmfr_last_error(), sizeof(w->sentence) - 1);
	}
	return err != 0;
}

static void read_once(struct worker *w, struct nvmfr_qpair *qp)
{
	struct nvmfr_completion done = { .result = 0 };
	struct nvmfr_buffer *buf;

	if (failed(w, nvmfr_buffer_alloc(w->f->host, 4096, -1, &buf)))
		return;
	if (!failed(w, nvmfr_read(qp, w->f->nsid, 0, 1, buf, 0, 0)) && !failed(w, nvmfr_wait(qp, &done, 1, 1, 20000) - 1))
		failed(w, done.result);
	failed(w, nvmfr_buffer_release(buf));
}

static void *queue_pairs(void *arg)
{
	struct worker *w = arg;

	for (unsigned int i = 0; i < w->rounds && !w->err; i++) {
		struct nvmfr_qpair *qp;

		if (failed(w, nvmfr_qpair_create(w->f->ctrl, NULL, &qp)))
			break;
		if (!failed(w, nvmfr_qpair_wait(qp, 20000)))
			read_once(w, qp);
		nvmfr_qpair_destroy(qp);
	}
	return NULL;
}

static void *controllers(void *arg)
{
	struct worker *w = arg;

	for (unsigned int i = 0; i < w->rounds && !w->err; i++) {
		struct nvmfr_ctrl *ctrl;
		struct nvmfr_qpair *qp;

		if (failed(w, nvmfr_connect(w->f->host, &w->f->opts, &ctrl)))
			break;
		if (!failed(w, nvmfr_ctrl_wait(ctrl, 20000)) && !failed(w, nvmfr_qpair_create(ctrl, NULL, &qp))) {
			if (!failed(w, nvmfr_qpair_wait(qp, 20000)))
				read_once(w, qp);
			nvmfr_qpair_destroy(qp);
		}
		failed(w, nvmfr_disconnect(ctrl, i % 2 ? 1000 : 0));
	}
	return NULL;
}

static void at_once(void *(*first)(void *), void *(*second)(void *), uint32_t flags, unsigned int rounds)
{
	struct nvmfr_soft_opts opts = flow_soft_opts();
	struct worker workers[4];
	pthread_t threads[4];
	struct flow f;

	opts.flags = flags;
	flow_up_thread(&f, &opts);
	for (unsigned int i = 0; i < 4; i++) {
		workers[i] = (struct worker){ .f = &f, .rounds = rounds };
		cr_assert_eq(pthread_create(&threads[i], NULL, i % 2 ? first : second, &workers[i]), 0);
	}
	for (unsigned int i = 0; i < 4; i++) {
		pthread_join(threads[i], NULL);
		cr_expect_eq(workers[i].err, 0, "thread %u: %d, %s", i, workers[i].err, workers[i].sentence);
	}
	flow_works(&f);
	flow_down(&f);
}

Test(life, queue_pairs_come_and_go_in_four_threads, .timeout = 60)
{
	at_once(queue_pairs, queue_pairs, 0, 200);
}

Test(life, controllers_come_and_go_in_four_threads, .timeout = 60)
{
	at_once(controllers, controllers, 0, 60);
}

Test(life, queue_pairs_and_controllers_come_and_go_at_a_target_thread, .timeout = 60)
{
	at_once(queue_pairs, controllers, NVMFR_SOFT_THREAD, 60);
}

static void *keeps_releasing(void *arg)
{
	struct worker *w = arg;

	for (unsigned int i = 0; i < w->rounds && !w->err; i++) {
		struct nvmfr_buffer *buf;

		if (!failed(w, nvmfr_buffer_alloc(w->f->host, 65536, -1, &buf)))
			failed(w, nvmfr_buffer_release(buf));
	}
	return NULL;
}

/* Buffers come and go in one thread while another reads and writes with its own. */
Test(life, buffers_come_and_go_under_io, .timeout = 60)
{
	struct worker worker;
	struct nvmfr_completion done[32];
	struct nvmfr_buffer *buf;
	pthread_t thread;
	struct flow f;

	flow_up_thread(&f, NULL);
	buf = flow_alloc(&f, 32 * BLOCK);
	worker = (struct worker){ .f = &f, .rounds = 2000 };
	cr_assert_eq(pthread_create(&thread, NULL, keeps_releasing, &worker), 0);
	for (unsigned int round = 0; round < 2000; round++) {
		for (unsigned int i = 0; i < 32; i++)
			cr_assert_eq((i % 2 ? nvmfr_read : nvmfr_write)(f.qp, f.nsid, i, 1, buf, i * BLOCK, i), 0);
		flow_wait(f.qp, done, 32);
	}
	pthread_join(thread, NULL);
	cr_expect_eq(worker.err, 0, "%s", worker.sentence);
	flow_release(buf);
	flow_down(&f);
}

/* ---- namespaces that come and go -------------------------------------------------------------- */

static void *remove_and_add(void *arg)
{
	struct worker *w = arg;
	struct nvmfr_soft_ns_opts opts;

	nvmfr_soft_ns_opts_init(&opts, sizeof(opts));
	opts.nsid = 2;
	opts.size_bytes = MIB;
	for (unsigned int i = 0; i < w->rounds; i++) {
		failed(w, nvmfr_soft_ns_remove(w->f->target, 2));
		failed(w, nvmfr_soft_ns_add(w->f->target, &opts) - 2);
	}
	return NULL;
}

Test(life, namespace_comes_and_goes_under_reads, .timeout = 60)
{
	struct worker worker;
	struct nvmfr_completion done;
	struct nvmfr_buffer *buf;
	pthread_t thread;
	struct flow f;

	flow_host_thread(&f);
	flow_target(&f, NULL);
	flow_ns(&f, MIB, BLOCK);
	flow_ns(&f, MIB, BLOCK);
	flow_connect(&f);
	f.qp = flow_qpair(&f, 8);
	buf = flow_alloc(&f, MIB);
	worker = (struct worker){ .f = &f, .rounds = 500 };
	cr_assert_eq(pthread_create(&thread, NULL, remove_and_add, &worker), 0);
	for (unsigned int i = 0; i < 500; i++) {
		cr_assert_eq(nvmfr_read(f.qp, 2, 0, MIB / BLOCK, buf, 0, 0), 0, "%s", nvmfr_last_error());
		flow_wait(f.qp, &done, 1);
		cr_assert(done.result == 0 || (done.status & 0x3fff) == STATUS_INVALID_NAMESPACE, "%04x", done.status);
	}
	pthread_join(thread, NULL);
	cr_expect_eq(worker.err, 0, "%s", worker.sentence);
	flow_release(buf);
	flow_down(&f);
}
