/* SPDX-License-Identifier: BSD-3-Clause */
/* What a peer can do wrong while I/O is in flight: each I/O ends exactly once, and the sentence says why. */
#include "flow.h"

#include <poll.h>

enum {
	MANY = FLOW_DEPTH,
	BLOCK = 512,
	/* The CID of the first I/O of a queue pair: slot 0 had Connect, generation 1. */
	FIRST_CID = 0x2000,
};

/* ---- bookkeeping ------------------------------------------------------------------------------ */

/* How each of n I/Os ended; user_data is the index. */
struct outcome {
	unsigned int n;
	unsigned int times[MANY];
	struct nvmfr_completion last[MANY];
};

static void note(struct outcome *o, const struct nvmfr_completion *done, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++) {
		cr_assert_lt(done[i].user_data, o->n, "completion of an I/O that never was");
		o->times[done[i].user_data]++;
		o->last[done[i].user_data] = done[i];
	}
}

static void each_once(const struct outcome *o)
{
	for (unsigned int i = 0; i < o->n; i++)
		cr_expect_eq(o->times[i], 1, "I/O %u completed %u times", i, o->times[i]);
}

static unsigned int count(const struct outcome *o, int32_t result)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < o->n; i++)
		n += o->times[i] && o->last[i].result == result;
	return n;
}

/* A transport failure is not dressed as an NVMe status. */
static void synthesized(const struct nvmfr_completion *done, int32_t result)
{
	cr_expect_eq(done->result, result, "%llu: result %d, not %d", (unsigned long long)done->user_data,
		     done->result, result);
	cr_expect_eq(done->status, 0);
	cr_expect_eq(done->flags, 0);
	cr_expect_eq(done->cqe_result, 0);
}

static void drain(struct flow *f, struct outcome *o)
{
	struct nvmfr_completion done[MANY];
	unsigned int n = flow_drain(f->qp, done, MANY);

	note(o, done, n);
	each_once(o);
	cr_expect_eq(flow_qpair_info(f->qp).in_flight, 0);
	cr_expect_eq(flow_qpair_info(f->qp).state, NVMFR_STATE_LOST);
	cr_expect_eq(nvmfr_ctrl_state(f->ctrl), NVMFR_STATE_LOST);
}

/* The association is gone; another one to the same target is possible, and this one can be put away. */
static void anew_then_down(struct flow *f)
{
	struct nvmfr_completion done;

	cr_expect_eq(nvmfr_poll(f->qp, &done, 1), -ENOTCONN);
	cr_expect_eq(nvmfr_read(f->qp, f->nsid, 0, 1, NULL, 0, 0), -ENOTCONN);
	nvmfr_qpair_destroy(f->qp);
	cr_expect_eq(nvmfr_disconnect(f->ctrl, 1000), 0);
	nvmfr_soft_fault_clear(f->target);
	flow_connect(f);
	f->qp = flow_qpair(f, 8);
	flow_works(f);
	flow_down(f);
}

/* ---- one read meets a fault, others are in flight --------------------------------------------- */

/* Of `reads` the one in the middle is hit; all end, `aborted` of them with the connection. */
static void read_hit(uint32_t kind, uint64_t value, unsigned int reads, unsigned int aborted, const char *why)
{
	struct nvmfr_soft_fault fault = flow_fault(kind, 1, OPC_READ, NVMFR_SOFT_ANY, value);
	struct outcome o = { .n = reads };
	struct nvmfr_buffer *buf;
	struct flow f;

	flow_up(&f, NULL);
	buf = flow_alloc(&f, MANY * BLOCK);
	fault.skip = reads / 2;
	flow_plan(&f, &fault);
	flow_reads(&f, buf, reads);
	drain(&f, &o);
	flow_says(why);
	cr_expect_eq(count(&o, -ECONNABORTED), aborted, "%u aborted", count(&o, -ECONNABORTED));
	cr_expect_eq(count(&o, 0), reads - aborted);
	for (unsigned int i = 0; i < reads; i++)
		if (o.last[i].result)
			synthesized(&o.last[i], -ECONNABORTED);
	flow_release(buf);
	anew_then_down(&f);
}

Test(faults, cid_never_issued)
{
	/* Slot 0's answer names slot 800h. */
	read_hit(NVMFR_SOFT_FAULT_WRONG_CID, 0x800, 1, 1, "never issued");
}

Test(faults, cid_of_an_older_command)
{
	read_hit(NVMFR_SOFT_FAULT_WRONG_CID, 0x7000, 1, 1, "stale");
}

Test(faults, cid_of_ffff)
{
	read_hit(NVMFR_SOFT_FAULT_WRONG_CID, 0xffff ^ FIRST_CID, 1, 1, "0xffff");
}

Test(faults, wrong_cid_among_many)
{
	/* What was answered before is good, that one and what comes after it is lost. */
	read_hit(NVMFR_SOFT_FAULT_WRONG_CID, 0x800, MANY, MANY / 2, "never issued");
}

Test(faults, answered_twice)
{
	read_hit(NVMFR_SOFT_FAULT_DUPLICATE, 0, 1, 0, "duplicate");
}

Test(faults, answered_twice_among_many)
{
	read_hit(NVMFR_SOFT_FAULT_DUPLICATE, 0, MANY, MANY / 2 - 1, "duplicate");
}

Test(faults, answered_shortly)
{
	read_hit(NVMFR_SOFT_FAULT_SHORT, 8, MANY, MANY / 2, "8 bytes");
}

Test(faults, answered_with_nothing)
{
	read_hit(NVMFR_SOFT_FAULT_SHORT, 0, MANY, MANY / 2, "0 bytes");
}

Test(faults, disconnected_with_128_outstanding)
{
	read_hit(NVMFR_SOFT_FAULT_DISCONNECT, 0, MANY, MANY / 2, "closed the connection");
}

Test(faults, every_connection_dropped)
{
	read_hit(NVMFR_SOFT_FAULT_DISCONNECT_ALL, 0, MANY, MANY / 2, "closed every connection");
}

Test(faults, queue_pair_error)
{
	read_hit(NVMFR_SOFT_FAULT_QP_ERROR, 0, MANY, MANY / 2, "retry counter");
}

Test(faults, disconnected_at_the_first_of_128)
{
	struct outcome o = { .n = MANY };
	struct nvmfr_buffer *buf;
	struct flow f;

	flow_up(&f, NULL);
	buf = flow_alloc(&f, MANY * BLOCK);
	flow_plan_io(&f, NVMFR_SOFT_FAULT_DISCONNECT, OPC_READ, 0);
	flow_reads(&f, buf, MANY);
	drain(&f, &o);
	cr_expect_eq(count(&o, -ECONNABORTED), MANY);
	flow_release(buf);
	anew_then_down(&f);
}

/* The same one at a time: what is left to hand out is kept from call to call. */
Test(faults, lost_ones_come_one_by_one)
{
	struct nvmfr_soft_fault fault = flow_fault(NVMFR_SOFT_FAULT_DISCONNECT, 1, OPC_READ, NVMFR_SOFT_ANY, 0);
	struct outcome o = { .n = MANY };
	struct nvmfr_completion done;
	struct nvmfr_buffer *buf;
	struct flow f;
	int got;

	flow_up(&f, NULL);
	buf = flow_alloc(&f, MANY * BLOCK);
	fault.skip = 40;
	flow_plan(&f, &fault);
	flow_reads(&f, buf, MANY);
	while ((got = nvmfr_wait(f.qp, &done, 1, 1, FLOW_WAIT_MS)) == 1)
		note(&o, &done, 1);
	cr_expect_eq(got, -ENOTCONN);
	each_once(&o);
	cr_expect_eq(count(&o, 0), 40);
	flow_release(buf);
	anew_then_down(&f);
}

Test(faults, target_destroyed_under_reads)
{
	struct outcome o = { .n = MANY };
	struct nvmfr_soft_opts opts = flow_soft_opts();
	struct nvmfr_buffer *buf;
	struct flow f;

	opts.latency_us = 5000;
	flow_up(&f, &opts);
	buf = flow_alloc(&f, MANY * BLOCK);
	flow_reads(&f, buf, MANY);
	nvmfr_soft_target_destroy(f.target);
	f.target = NULL;
	drain(&f, &o);
	flow_says("gone");
	cr_expect_eq(count(&o, -ECONNABORTED), MANY);
	flow_release(buf);
	flow_down(&f);
}

Test(faults, target_drops_all_under_reads)
{
	struct outcome o = { .n = MANY };
	struct nvmfr_soft_opts opts = flow_soft_opts();
	struct nvmfr_buffer *buf;
	struct flow f;

	opts.latency_us = 5000;
	flow_up(&f, &opts);
	buf = flow_alloc(&f, MANY * BLOCK);
	flow_reads(&f, buf, MANY);
	nvmfr_soft_drop(f.target);
	drain(&f, &o);
	cr_expect_eq(count(&o, -ECONNABORTED), MANY);
	flow_release(buf);
	anew_then_down(&f);
}

/* One queue pair's fault is the association's end: the others hear of it. */
Test(faults, other_queue_pairs_are_lost_too)
{
	struct nvmfr_completion done[8];
	struct nvmfr_qpair *other;
	struct nvmfr_buffer *buf;
	struct flow f;

	flow_up(&f, NULL);
	buf = flow_alloc(&f, 4096);
	other = flow_qpair(&f, 8);
	flow_plan_io(&f, NVMFR_SOFT_FAULT_WRONG_CID, OPC_READ, 0x800);
	flow_reads(&f, buf, 1);
	cr_expect_eq(flow_drain(f.qp, done, 8), 1);
	cr_expect_eq(flow_drain(other, done, 8), 0);
	flow_says("qpair 1");
	flow_says("never issued");
	cr_expect_eq(nvmfr_ctrl_wait(f.ctrl, 0), -ENOTCONN);
	flow_says("never issued");
	cr_expect(flow_logged(&f, "never issued"), "%s", f.log->text);
	nvmfr_qpair_destroy(other);
	flow_release(buf);
	anew_then_down(&f);
}

/* ---- before the SEND is done (C20) ------------------------------------------------------------ */

Test(faults, answer_before_the_send_of_a_read_is_done)
{
	struct nvmfr_completion done[MANY];
	struct nvmfr_buffer *buf;
	struct flow f;

	flow_up(&f, NULL);
	buf = flow_alloc(&f, MANY * BLOCK);
	/* For an hour no capsule may be used again: the ring must not be overrun. */
	flow_plan_io(&f, NVMFR_SOFT_FAULT_EARLY, OPC_READ, UINT64_C(3600000000));
	flow_reads(&f, buf, MANY);
	flow_wait(f.qp, done, MANY);
	for (unsigned int i = 0; i < 4 * MANY; i++) {
		int got = nvmfr_read(f.qp, f.nsid, 0, 1, buf, 0, 0);

		if (got == -EAGAIN)
			break;
		cr_assert_eq(got, 0, "%s", nvmfr_last_error());
		cr_assert_leq(nvmfr_poll(f.qp, done, MANY), 1);
	}
	flow_release(buf);
	flow_down(&f);      /* no violation: the capsules were as they were sent */
}

Test(faults, ring_goes_on_when_the_sends_are_done)
{
	struct nvmfr_completion done;
	struct nvmfr_buffer *buf;
	struct flow f;
	int got = 0;

	flow_up(&f, NULL);
	buf = flow_alloc(&f, BLOCK);
	flow_plan_io(&f, NVMFR_SOFT_FAULT_EARLY, OPC_READ, 1000);
	for (unsigned int i = 0; i < 4 * MANY && got != -EAGAIN; i++) {
		got = nvmfr_read(f.qp, f.nsid, 0, 1, buf, 0, 0);
		if (got == 0)
			cr_assert_eq(nvmfr_poll(f.qp, &done, 1), 1);
	}
	cr_expect_eq(got, -EAGAIN, "capsules were used again before their SENDs were done");
	flow_advance_ms(&f, 1);
	cr_expect_eq(nvmfr_poll(f.qp, &done, 1), 0);
	flow_works(&f);
	flow_release(buf);
	flow_down(&f);
}

/* The bytes of an in-capsule write are the caller's again only when the SEND is done. */
Test(faults, answer_before_the_send_of_an_in_capsule_write_is_held)
{
	struct nvmfr_completion done;
	struct nvmfr_buffer *buf;
	struct flow f;

	flow_up(&f, NULL);
	buf = flow_alloc(&f, BLOCK);
	flow_plan_io(&f, NVMFR_SOFT_FAULT_EARLY, OPC_WRITE, 5000);
	cr_assert_eq(nvmfr_write(f.qp, f.nsid, 0, 1, buf, 0, 7), 0);
	cr_expect_eq(nvmfr_poll(f.qp, &done, 1), 0);
	flow_advance_ms(&f, 4);
	cr_expect_eq(nvmfr_poll(f.qp, &done, 1), 0);
	cr_expect_eq(nvmfr_buffer_release(buf), -EBUSY);
	cr_expect_eq(flow_counters(&f).in_capsule_writes, 1);
	flow_advance_ms(&f, 1);
	cr_expect_eq(nvmfr_poll(f.qp, &done, 1), 1);
	cr_expect_eq(done.user_data, 7);
	cr_expect_eq(done.result, 0);
	flow_release(buf);
	flow_down(&f);
}

Test(faults, held_completion_comes_by_waiting)
{
	struct nvmfr_buffer *buf;
	struct nvmfr_io io;
	struct flow f;

	flow_up(&f, NULL);
	buf = flow_alloc(&f, BLOCK);
	io = flow_io(&f, NVMFR_OP_WRITE, 0, 1, buf, 0);
	flow_plan_io(&f, NVMFR_SOFT_FAULT_EARLY, OPC_WRITE, 5000);
	flow_must(f.qp, &io);
	flow_release(buf);
	flow_down(&f);
}

Test(faults, many_held_completions_keep_their_results)
{
	struct nvmfr_soft_fault fault = flow_fault(NVMFR_SOFT_FAULT_STATUS, 1, OPC_WRITE, NVMFR_SOFT_ANY, STATUS_INTERNAL_ERROR);
	struct outcome o = { .n = 32 };
	struct nvmfr_completion done[32];
	struct nvmfr_buffer *buf;
	struct flow f;

	flow_up(&f, NULL);
	buf = flow_alloc(&f, 32 * BLOCK);
	flow_plan_io(&f, NVMFR_SOFT_FAULT_EARLY, OPC_WRITE, 5000);
	fault.skip = 9;
	flow_plan(&f, &fault);
	for (unsigned int i = 0; i < 32; i++)
		cr_assert_eq(nvmfr_write(f.qp, f.nsid, i, 1, buf, i * BLOCK, i), 0);
	cr_expect_eq(nvmfr_poll(f.qp, done, 32), 0);
	flow_wait(f.qp, done, 32);
	note(&o, done, 32);
	each_once(&o);
	cr_expect_eq(count(&o, -EREMOTEIO), 1);
	cr_expect_eq(o.last[10].result, -EREMOTEIO);
	cr_expect_eq(o.last[10].status, STATUS_INTERNAL_ERROR);
	flow_release(buf);
	flow_down(&f);
}

Test(faults, held_completion_ends_with_the_connection)
{
	struct nvmfr_completion done[2];
	struct nvmfr_buffer *buf;
	struct flow f;

	flow_up(&f, NULL);
	buf = flow_alloc(&f, BLOCK);
	flow_plan_io(&f, NVMFR_SOFT_FAULT_EARLY, OPC_WRITE, UINT64_C(3600000000));
	cr_assert_eq(nvmfr_write(f.qp, f.nsid, 0, 1, buf, 0, 7), 0);
	cr_expect_eq(nvmfr_poll(f.qp, done, 1), 0);
	nvmfr_soft_drop(f.target);
	cr_expect_eq(flow_drain(f.qp, done, 2), 1);
	cr_expect_eq(done[0].user_data, 7);
	/* The answer is known to have come, or the outcome is unknown: both are true. */
	cr_expect(done[0].result == 0 || done[0].result == -ECONNABORTED, "%d", done[0].result);
	flow_release(buf);
	anew_then_down(&f);
}

/* ---- NVMe status ------------------------------------------------------------------------------ */

Test(faults, status_of_a_read)
{
	struct nvmfr_completion done;
	struct nvmfr_buffer *buf;
	struct nvmfr_io io;
	struct flow f;

	flow_up(&f, NULL);
	buf = flow_alloc(&f, BLOCK);
	flow_plan_io(&f, NVMFR_SOFT_FAULT_STATUS, OPC_READ, 0x4000 | STATUS_UNRECOVERED_READ);
	io = flow_io(&f, NVMFR_OP_READ, 0, 1, buf, 0);
	done = flow_do(f.qp, &io);
	cr_expect_eq(done.result, -EREMOTEIO);
	cr_expect_eq(done.status, 0x4000 | STATUS_UNRECOVERED_READ, "with DNR as it came: %04x", done.status);
	cr_expect(strcasestr(nvmfr_status_string(done.status), "unrecovered read"), "%s",
		  nvmfr_status_string(done.status));
	flow_works(&f);
	flow_release(buf);
	flow_down(&f);
}

Test(faults, status_of_a_flush)
{
	struct nvmfr_completion done;
	struct nvmfr_io io;
	struct flow f;

	flow_up(&f, NULL);
	flow_plan_io(&f, NVMFR_SOFT_FAULT_STATUS, OPC_FLUSH, STATUS_INTERNAL_ERROR);
	io = flow_io(&f, NVMFR_OP_FLUSH, 0, 0, NULL, 0);
	done = flow_do(f.qp, &io);
	cr_expect_eq(done.result, -EREMOTEIO);
	cr_expect_eq(done.status, STATUS_INTERNAL_ERROR);
	flow_works(&f);
	flow_down(&f);
}

Test(faults, result_dwords_come_through)
{
	struct nvmfr_completion done;
	struct nvmfr_buffer *buf;
	struct nvmfr_io io;
	struct flow f;

	flow_up(&f, NULL);
	buf = flow_alloc(&f, BLOCK);
	flow_plan_io(&f, NVMFR_SOFT_FAULT_RESULT, OPC_READ, UINT64_C(0x1122334455667788));
	io = flow_io(&f, NVMFR_OP_READ, 0, 1, buf, 0);
	done = flow_do(f.qp, &io);
	cr_expect_eq(done.result, 0);
	cr_expect_eq(done.cqe_result, UINT64_C(0x1122334455667788));
	flow_release(buf);
	flow_down(&f);
}

Test(faults, namespace_removed_meanwhile)
{
	struct nvmfr_completion done;
	struct nvmfr_buffer *buf;
	struct nvmfr_io io;
	struct flow f;

	flow_up(&f, NULL);
	buf = flow_alloc(&f, BLOCK);
	cr_assert_eq(nvmfr_soft_ns_remove(f.target, f.nsid), 0);
	io = flow_io(&f, NVMFR_OP_READ, 0, 1, buf, 0);
	done = flow_do(f.qp, &io);
	cr_expect_eq(done.result, -EREMOTEIO);
	cr_expect_eq(done.status & 0x3fff, STATUS_INVALID_NAMESPACE);
	flow_release(buf);
	flow_down(&f);
}

/* A read of 8 commands, 16 blocks each, that fails in some of them. */
static struct nvmfr_completion split_fails(const uint32_t *skips, const uint16_t *statuses, unsigned int n)
{
	struct nvmfr_soft_opts opts = flow_soft_opts();
	struct nvmfr_completion done;
	struct nvmfr_buffer *buf;
	struct nvmfr_io io;
	struct flow f;

	opts.mdts = 1;
	flow_up(&f, &opts);
	buf = flow_alloc(&f, 64 * KIB);
	for (unsigned int i = 0; i < n; i++) {
		struct nvmfr_soft_fault fault = flow_fault(NVMFR_SOFT_FAULT_STATUS, 1, OPC_READ, NVMFR_SOFT_ANY, statuses[i]);

		/* A plan's entries count what they see: an earlier one takes its command away. */
		fault.skip = skips[i];
		flow_plan(&f, &fault);
	}
	io = flow_io(&f, NVMFR_OP_READ, 0, 128, buf, 0);
	done = flow_do(f.qp, &io);
	cr_expect_eq(flow_qpair_info(f.qp).in_flight, 0);
	nvmfr_soft_fault_clear(f.target);
	flow_works(&f);
	flow_release(buf);
	flow_down(&f);
	return done;
}

Test(faults, status_of_the_only_part_that_fails)
{
	const uint32_t skip = 5;
	const uint16_t status = STATUS_UNRECOVERED_READ;
	struct nvmfr_completion done = split_fails(&skip, &status, 1);

	cr_expect_eq(done.result, -EREMOTEIO);
	cr_expect_eq(done.status, STATUS_UNRECOVERED_READ);
	cr_expect_eq(done.cqe_result, 0);
}

Test(faults, status_of_the_lowest_part_that_fails)
{
	/* The second entry lets 3 others pass, the first of which is the second's own. */
	const uint32_t skips[] = { 6, 2 };
	const uint16_t statuses[] = { STATUS_INTERNAL_ERROR, STATUS_UNRECOVERED_READ };
	struct nvmfr_completion done = split_fails(skips, statuses, 2);

	cr_expect_eq(done.result, -EREMOTEIO);
	cr_expect_eq(done.status, STATUS_UNRECOVERED_READ);
}

/* Lower blocks answer last: it is the address that counts, not the time. */
Test(faults, status_of_the_lowest_part_although_it_comes_last)
{
	struct nvmfr_soft_fault late = flow_fault(NVMFR_SOFT_FAULT_DELAY, 1, OPC_READ, NVMFR_SOFT_ANY, 1000);
	struct nvmfr_soft_fault fail = flow_fault(NVMFR_SOFT_FAULT_STATUS, 1, OPC_READ, NVMFR_SOFT_ANY, STATUS_INTERNAL_ERROR);
	struct nvmfr_soft_opts opts = flow_soft_opts();
	struct nvmfr_completion done;
	struct nvmfr_buffer *buf;
	struct nvmfr_io io;
	struct flow f;

	opts.mdts = 1;
	flow_host(&f);
	flow_target(&f, &opts);
	flow_ns(&f, 64 * KIB, 512);
	/* The library believes in twice as many blocks: the second half fails at the target. */
	flow_patch(&f, CNS_NS, 1, 0, "\0\1\0\0\0\0\0\0", 8);
	flow_connect(&f);
	f.qp = flow_qpair(&f, 64);
	buf = flow_alloc(&f, 256 * 512);
	late.count = 4;                  /* 64 to 127 answer late, well */
	flow_plan(&f, &late);
	late.count = 1;                  /* 128 to 143: late, LBA Out of Range */
	flow_plan(&f, &late);
	flow_plan(&f, &fail);            /* 144 to 159: at once, Internal Error */
	io = flow_io(&f, NVMFR_OP_READ, 64, 128, buf, 0);
	done = flow_do(f.qp, &io);
	cr_expect_eq(done.result, -EREMOTEIO);
	cr_expect_eq(done.status & 0x3fff, STATUS_LBA_RANGE, "%04x", done.status);
	flow_release(buf);
	flow_down(&f);
}

/* After a failure nothing more of the I/O is sent. */
Test(faults, split_io_stops_at_a_failure)
{
	struct nvmfr_soft_opts opts = flow_soft_opts();
	struct nvmfr_buffer *buf;
	struct nvmfr_io io;
	struct flow f;

	opts.mdts = 1;
	flow_host(&f);
	flow_target(&f, &opts);
	flow_ns(&f, 16 * MIB, 512);
	flow_connect(&f);
	f.qp = flow_qpair(&f, 4);
	buf = flow_alloc(&f, 8 * MIB);
	flow_plan_io(&f, NVMFR_SOFT_FAULT_STATUS, OPC_READ, STATUS_INTERNAL_ERROR);
	io = flow_io(&f, NVMFR_OP_READ, 0, 8 * MIB / 512, buf, 0);
	cr_expect_eq(flow_do(f.qp, &io).result, -EREMOTEIO);
	cr_expect_leq(flow_counters(&f).reads, 4);
	flow_works(&f);
	flow_release(buf);
	flow_down(&f);
}

/* ---- silence ---------------------------------------------------------------------------------- */

static struct nvmfr_qpair *queue_with_timeout(struct flow *f, uint32_t ms)
{
	struct nvmfr_qpair_opts opts = flow_qpair_opts(FLOW_DEPTH);
	struct nvmfr_qpair *qp;

	opts.io_timeout_ms = ms;
	cr_assert_eq(flow_try_qpair(f, &opts, &qp), 0, "%s", nvmfr_last_error());
	return qp;
}

static void silence_up(struct flow *f, uint32_t io_timeout_ms)
{
	struct nvmfr_soft_opts opts = flow_soft_opts();

	opts.mdts = 1;
	flow_host(f);
	flow_target(f, &opts);
	flow_ns(f, 16 * MIB, 512);
	flow_connect(f);
	f->qp = queue_with_timeout(f, io_timeout_ms);
}

/* I/O 0 is never answered, the others are young when it is over its time. */
Test(faults, silence_ends_the_late_one_and_aborts_the_others)
{
	struct nvmfr_soft_fault fault = flow_fault(NVMFR_SOFT_FAULT_SILENCE, 1, OPC_READ, NVMFR_SOFT_ANY, 0);
	struct outcome o = { .n = 4 };
	struct nvmfr_buffer *buf;
	struct flow f;

	silence_up(&f, 2000);
	buf = flow_alloc(&f, 4 * BLOCK);
	fault.count = 0;
	flow_plan(&f, &fault);
	flow_reads(&f, buf, 1);
	flow_idle_ms(&f, 1500);
	for (uint64_t i = 1; i < 4; i++)
		cr_assert_eq(nvmfr_read(f.qp, f.nsid, i, 1, buf, i * BLOCK, i), 0);
	drain(&f, &o);
	flow_says("io_timeout_ms");
	synthesized(&o.last[0], -ETIMEDOUT);
	for (unsigned int i = 1; i < 4; i++)
		synthesized(&o.last[i], -ECONNABORTED);
	flow_release(buf);
	anew_then_down(&f);
}

Test(faults, not_over_its_time_before_its_time)
{
	struct nvmfr_completion done;
	struct nvmfr_buffer *buf;
	struct flow f;

	silence_up(&f, 2000);
	buf = flow_alloc(&f, BLOCK);
	flow_plan_io(&f, NVMFR_SOFT_FAULT_DELAY, OPC_READ, 1990000);
	flow_reads(&f, buf, 1);
	cr_expect_eq(nvmfr_poll(f.qp, &done, 1), 0);      /* now the target has it */
	flow_idle_ms(&f, 1980);
	cr_expect_eq(nvmfr_poll(f.qp, &done, 1), 0);
	flow_wait(f.qp, &done, 1);
	cr_expect_eq(done.result, 0);
	flow_works(&f);
	flow_release(buf);
	flow_down(&f);
}

Test(faults, over_its_time_soon_after_its_time)
{
	struct nvmfr_completion done;
	struct nvmfr_buffer *buf;
	struct flow f;
	int got = 0;

	silence_up(&f, 2000);
	buf = flow_alloc(&f, BLOCK);
	flow_plan_io(&f, NVMFR_SOFT_FAULT_SILENCE, OPC_READ, 0);
	flow_reads(&f, buf, 1);
	/* Two coarse ticks of 100 ms later at most. */
	for (unsigned int i = 0; i < 22 && got == 0; i++) {
		flow_idle_ms(&f, 100);
		got = nvmfr_poll(f.qp, &done, 1);
	}
	if (got == 0) {
		flow_settle(&f);
		got = nvmfr_poll(f.qp, &done, 1);
	}
	cr_expect_eq(got, 1, "still not told after 2.2 s");
	cr_expect_eq(done.result, -ETIMEDOUT);
	flow_release(buf);
	anew_then_down(&f);
}

Test(faults, without_a_timeout_silence_lasts)
{
	struct nvmfr_completion done;
	struct nvmfr_buffer *buf;
	struct flow f;

	silence_up(&f, 0);
	buf = flow_alloc(&f, BLOCK);
	flow_plan_io(&f, NVMFR_SOFT_FAULT_SILENCE, OPC_READ, 0);
	flow_reads(&f, buf, 1);
	flow_idle_ms(&f, 3600000);
	cr_expect_eq(nvmfr_poll(f.qp, &done, 1), 0);
	cr_expect_eq(flow_qpair_info(f.qp).in_flight, 1);
	nvmfr_qpair_destroy(f.qp);
	f.qp = NULL;
	flow_release(buf);
	flow_down(&f);
}

/* An answer that needs more than the common handling, in the same poll that finds another one late. */
static void late_and(const struct nvmfr_io *io, struct nvmfr_buffer *buf, uint64_t status)
{
	struct outcome o = { .n = 2 };
	struct flow *f = nvmfr_buffer_addr(buf) ? *(struct flow **)nvmfr_buffer_addr(buf) : NULL;

	flow_plan_io(f, NVMFR_SOFT_FAULT_SILENCE, OPC_READ, 0);
	if (status)
		flow_plan_io(f, NVMFR_SOFT_FAULT_STATUS, io->op, status);
	cr_assert_eq(nvmfr_read(f->qp, f->nsid, 0, 1, buf, 4096, 0), 0);
	flow_idle_ms(f, 5000);
	cr_assert_eq(nvmfr_submit(f->qp, io, 1), 1, "%s", nvmfr_last_error());
	drain(f, &o);
	synthesized(&o.last[0], -ETIMEDOUT);
}

static void late_and_other(uint8_t op, uint64_t nblocks, uint64_t status)
{
	struct nvmfr_buffer *buf;
	struct nvmfr_io io;
	struct flow f, *self = &f;

	silence_up(&f, 2000);
	buf = flow_alloc(&f, 128 * KIB);
	memcpy(nvmfr_buffer_addr(buf), &self, sizeof(self));
	io = flow_io(&f, op, 1, nblocks, buf, 8192);
	io.user_data = 1;
	late_and(&io, buf, status);
	flow_release(buf);
	anew_then_down(&f);
}

Test(faults, late_one_and_an_nvme_error_at_once, .timeout = 20)
{
	late_and_other(NVMFR_OP_READ, 1, STATUS_INTERNAL_ERROR);
}

Test(faults, late_one_and_a_split_read_at_once, .timeout = 20)
{
	late_and_other(NVMFR_OP_READ, 100, 0);
}

Test(faults, late_one_and_an_in_capsule_write_at_once, .timeout = 20)
{
	late_and_other(NVMFR_OP_WRITE, 1, 0);
}

Test(faults, late_one_and_a_failing_in_capsule_write_at_once, .timeout = 20)
{
	late_and_other(NVMFR_OP_WRITE, 1, STATUS_INTERNAL_ERROR);
}

Test(faults, split_io_that_was_partly_answered)
{
	struct nvmfr_soft_fault fault = flow_fault(NVMFR_SOFT_FAULT_SILENCE, 1, OPC_READ, NVMFR_SOFT_ANY, 0);
	struct nvmfr_completion done[2];
	struct nvmfr_buffer *buf;
	struct flow f;

	silence_up(&f, 2000);
	buf = flow_alloc(&f, 8 * MIB);
	fault.skip = 100;
	flow_plan(&f, &fault);
	cr_assert_eq(nvmfr_read(f.qp, f.nsid, 0, 8 * MIB / 512, buf, 0, 0), 0);
	cr_expect_eq(flow_drain(f.qp, done, 2), 1);
	synthesized(&done[0], -ETIMEDOUT);
	flow_release(buf);
	anew_then_down(&f);
}

/* ---- lost with a backlog ---------------------------------------------------------------------- */

Test(faults, disconnected_with_a_backlog)
{
	struct nvmfr_soft_fault fault = flow_fault(NVMFR_SOFT_FAULT_DISCONNECT, 1, OPC_READ, NVMFR_SOFT_ANY, 0);
	struct outcome o = { .n = 3 };
	struct nvmfr_soft_opts opts = flow_soft_opts();
	struct nvmfr_buffer *buf;
	struct flow f;
	unsigned int n = 0;

	opts.mdts = 1;
	flow_host(&f);
	flow_target(&f, &opts);
	flow_ns(&f, 16 * MIB, 512);
	flow_connect(&f);
	f.qp = flow_qpair(&f, 4);
	buf = flow_alloc(&f, 4 * MIB);
	fault.skip = 10;
	flow_plan(&f, &fault);
	while (n < 3 && nvmfr_read(f.qp, f.nsid, 0, MIB / 512, buf, n * MIB, n) == 0)
		n++;
	o.n = n;
	cr_expect_geq(n, 1);
	drain(&f, &o);
	cr_expect_eq(count(&o, -ECONNABORTED), n);
	flow_release(buf);
	anew_then_down(&f);
}

Test(faults, lost_between_polls_keeps_what_was_answered)
{
	struct nvmfr_completion first;
	struct outcome o = { .n = 64 };
	struct nvmfr_buffer *buf;
	struct flow f;

	flow_up(&f, NULL);
	buf = flow_alloc(&f, 64 * BLOCK);
	flow_reads(&f, buf, 64);
	cr_assert_eq(nvmfr_poll(f.qp, &first, 1), 1);
	note(&o, &first, 1);
	nvmfr_soft_drop(f.target);
	flow_settle(&f);
	drain(&f, &o);
	/* The target had taken some of them in one go: these are good, the rest is not. */
	cr_expect_geq(count(&o, 0), 2, "%u are good", count(&o, 0));
	cr_expect_eq(count(&o, 0) + count(&o, -ECONNABORTED), 64);
	flow_release(buf);
	anew_then_down(&f);
}

/* ---- keep-alive ------------------------------------------------------------------------------- */

Test(faults, keep_alive_is_sent_while_nothing_else_happens)
{
	struct flow f;

	flow_up(&f, NULL);
	flow_idle_ms(&f, 3600000);
	/* KATO is 10 s. */
	cr_expect_geq(flow_counters(&f).keep_alives, 360);
	cr_expect_leq(flow_counters(&f).keep_alives, 1000);
	flow_works(&f);
	flow_down(&f);
}

Test(faults, keep_alive_is_sent_under_load)
{
	struct nvmfr_completion done;
	struct nvmfr_buffer *buf;
	struct flow f;

	flow_up(&f, NULL);
	buf = flow_alloc(&f, BLOCK);
	flow_plan_io(&f, NVMFR_SOFT_FAULT_DELAY, OPC_READ, 25000000);
	flow_reads(&f, buf, 1);
	flow_wait(f.qp, &done, 1);
	cr_expect_eq(done.result, 0);
	cr_expect_geq(flow_counters(&f).keep_alives, 2);
	flow_release(buf);
	flow_down(&f);
}

Test(faults, keep_alive_as_often_as_the_granularity_allows)
{
	struct nvmfr_soft_opts opts = flow_soft_opts();
	struct flow f;

	opts.kas = 100;         /* 10 s */
	flow_host(&f);
	flow_target(&f, &opts);
	f.opts.kato_ms = 15000;
	flow_connect(&f);
	cr_expect_eq(flow_ctrl_info(&f).kato_ms % 5000, 0);
	flow_idle_ms(&f, 300000);
	cr_expect_eq(nvmfr_ctrl_state(f.ctrl), NVMFR_STATE_LIVE);
	flow_down(&f);
}

Test(faults, keep_alive_unanswered)
{
	struct nvmfr_soft_fault fault = flow_fault(NVMFR_SOFT_FAULT_SILENCE, 0, OPC_KEEP_ALIVE, NVMFR_SOFT_ANY, 0);
	struct nvmfr_completion done;
	struct flow f;

	flow_up(&f, NULL);
	fault.count = 0;
	flow_plan(&f, &fault);
	cr_expect_eq(flow_drain(f.qp, &done, 1), 0);
	cr_expect(strstr(nvmfr_last_error(), "Keep Alive") || strstr(nvmfr_last_error(), "keep-alive"), "%s",
		  nvmfr_last_error());
	anew_then_down(&f);
}

Test(faults, keep_alive_answered_too_late)
{
	struct nvmfr_soft_fault fault = flow_fault(NVMFR_SOFT_FAULT_DELAY, 0, OPC_KEEP_ALIVE, NVMFR_SOFT_ANY, 60000000);
	struct nvmfr_completion done;
	struct flow f;

	flow_up(&f, NULL);
	flow_plan(&f, &fault);
	cr_expect_eq(flow_drain(f.qp, &done, 1), 0);
	cr_expect(strstr(nvmfr_last_error(), "Keep Alive") || strstr(nvmfr_last_error(), "keep-alive"), "%s",
		  nvmfr_last_error());
	anew_then_down(&f);
}

Test(faults, keep_alive_refused)
{
	struct nvmfr_soft_fault fault = flow_fault(NVMFR_SOFT_FAULT_STATUS, 0, OPC_KEEP_ALIVE, NVMFR_SOFT_ANY, STATUS_INTERNAL_ERROR);
	struct nvmfr_completion done;
	struct flow f;

	flow_up(&f, NULL);
	flow_plan(&f, &fault);
	cr_expect_eq(flow_drain(f.qp, &done, 1), 0);
	flow_says("Keep Alive");
	anew_then_down(&f);
}

/* KAS 0: Keep Alive is not offered; sending it would be a violation. */
Test(faults, keep_alive_not_offered)
{
	struct nvmfr_soft_opts opts = flow_soft_opts();
	struct flow f;

	opts.kas = 0;
	flow_up(&f, &opts);
	cr_expect_eq(flow_ctrl_info(&f).kato_ms, 0);
	cr_expect(flow_logged(&f, "KAS 0"), "%s", f.log->text);
	flow_idle_ms(&f, 3600000);
	cr_expect_eq(flow_counters(&f).keep_alives, 0);
	flow_works(&f);
	flow_down(&f);
}

Test(faults, keep_alive_not_wanted)
{
	struct flow f;

	flow_host(&f);
	flow_target(&f, NULL);
	flow_ns(&f, MIB, 512);
	f.opts.kato_ms = 0;
	flow_connect(&f);
	f.qp = flow_qpair(&f, 8);
	flow_idle_ms(&f, 3600000);
	cr_expect_eq(flow_counters(&f).keep_alives, 0);
	flow_works(&f);
	flow_down(&f);
}

Test(faults, host_that_falls_asleep_is_dropped)
{
	struct nvmfr_completion done;
	struct flow f;

	flow_up(&f, NULL);
	flow_advance_ms(&f, 11000);
	cr_expect_eq(flow_drain(f.qp, &done, 1), 0);
	cr_expect(strstr(nvmfr_last_error(), "keep-alive"), "%s", nvmfr_last_error());
	anew_then_down(&f);
}

/* The application does nothing at all: the service thread answers for it. Real time, a short KATO. */
Test(faults, service_thread_keeps_alive)
{
	struct pollfd nothing = { .fd = -1 };
	struct flow f;

	flow_host_thread(&f);
	flow_target(&f, NULL);
	flow_ns(&f, MIB, 512);
	f.opts.kato_ms = 200;
	flow_connect(&f);
	f.qp = flow_qpair(&f, 8);
	/* Until the target has seen enough of them for 3 times KATO: bounded by the test's own time. */
	while (flow_counters(&f).keep_alives < 6 && nvmfr_ctrl_state(f.ctrl) == NVMFR_STATE_LIVE)
		poll(&nothing, 1, 20);
	cr_expect_eq(nvmfr_ctrl_state(f.ctrl), NVMFR_STATE_LIVE, "%s", f.log->text);
	flow_works(&f);
	flow_down(&f);
}
