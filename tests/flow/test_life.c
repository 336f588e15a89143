/* SPDX-License-Identifier: BSD-3-Clause */
/* Endings, in any order, with I/O in flight. */
#include "flow.h"

#include <stdlib.h>

enum { BLOCK = 512 };

/* ---- disconnect ------------------------------------------------------------------------------ */

static void up_without_queues(struct flow *f)
{
	flow_up(f, NULL);
	nvmfr_qpair_destroy(f->qp);
	f->qp = NULL;
}

/* The commands that took. */
static uint64_t disconnected(struct flow *f, int timeout_ms)
{
	uint64_t commands = f->target ? flow_counters(f).commands : 0;

	cr_expect_eq(nvmfr_disconnect(f->ctrl, timeout_ms), 0);
	f->ctrl = NULL;
	return f->target ? flow_counters(f).commands - commands : 0;
}

Test(life, disconnect_is_orderly)
{
	struct flow f;

	up_without_queues(&f);
	cr_expect_geq(disconnected(&f, 1000), 2, "CC.SHN is set, CSTS.SHST is read");
	flow_down(&f);
}

Test(life, disconnect_without_time_is_abrupt)
{
	struct flow f;

	up_without_queues(&f);
	cr_expect_eq(disconnected(&f, 0), 0);
	flow_down(&f);
}

Test(life, disconnect_from_a_silent_target_has_a_bound)
{
	struct nvmfr_soft_fault fault =
		flow_fault(NVMFR_SOFT_FAULT_SILENCE, 0, OPC_FABRICS, NVMFR_SOFT_ANY, 0);
	struct flow f;

	up_without_queues(&f);
	fault.count = 0;
	flow_plan(&f, &fault);
	disconnected(&f, 2000);
	flow_down(&f);
}

Test(life, disconnect_from_a_target_that_is_gone)
{
	struct flow f;

	up_without_queues(&f);
	nvmfr_soft_target_destroy(f.target);
	f.target = NULL;
	disconnected(&f, 1000);
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

/* ---- queue pairs that end with commands in flight -------------------------------------------- */

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
			cr_assert_eq(
				nvmfr_submit(f.qp,
					     &(const struct nvmfr_io){ .op = k % 2 ? NVMFR_OP_READ
										   : NVMFR_OP_WRITE,
								       .nsid = f.nsid,
								       .lba = k * 16,
								       .nblocks = 16,
								       .buf = buf,
								       .offset_bytes = k * 8192 },
					     1),
				1);
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

/* ---- host ------------------------------------------------------------------------------------ */

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

/* A list of prepared I/Os holds its buffer: that one is no reason to leave others, or its registration. */
Test(life, host_ends_with_a_prepared_list)
{
	struct nvmfr_prepared *list;
	struct nvmfr_buffer *buf;
	struct nvmfr_io io;
	struct flow f;

	flow_up(&f, NULL);
	flow_alloc(&f, 4096);
	buf = flow_alloc(&f, 4096);
	flow_connect(&f);
	io = flow_io(&f, NVMFR_OP_READ, 0, 8, buf, 0);
	cr_assert_eq(nvmfr_prepare(f.qp, &io, 1, &list), 0, "%s", nvmfr_last_error());
	cr_expect_eq(nvmfr_buffer_release(buf), -EBUSY);
	host_ends_first(&f);
	nvmfr_prepared_release(list);
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

Test(life, host_ends_with_split_io_in_flight)
{
	struct nvmfr_soft_opts opts = flow_soft_opts();
	struct nvmfr_buffer *buf;
	struct flow f;

	opts.mdts = 1;
	flow_up(&f, &opts);
	buf = flow_alloc(&f, 4 * MIB);
	flow_alloc(&f, 4096);
	cr_assert_eq(nvmfr_read(f.qp, f.nsid, 0, 4 * MIB / BLOCK, buf, 0, 0), 0);
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
