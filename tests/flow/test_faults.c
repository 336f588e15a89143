/* SPDX-License-Identifier: BSD-3-Clause */
/* What a peer can do wrong while I/O is in flight: each I/O ends exactly once, and the sentence says why. */
#include "flow.h"

enum {
	MANY = FLOW_DEPTH,
	BLOCK = 512,
	/* The CID of the first I/O of a queue pair: slot 0 had Connect, generation 1. */
	FIRST_CID = 0x2000,
};

/* ---- one read meets a fault, others are in flight -------------------------------------------- */

/* Of `reads` the one in the middle is hit; all end, `aborted` of them with the connection. */
static void read_hit(uint32_t kind, uint64_t value, unsigned int reads, unsigned int aborted,
		     const char *why)
{
	struct nvmfr_soft_fault fault = flow_fault(kind, 1, OPC_READ, NVMFR_SOFT_ANY, value);
	struct flow_outcome o = { .n = reads };
	struct nvmfr_buffer *buf;
	struct flow f;

	flow_up(&f, NULL);
	buf = flow_alloc(&f, MANY * BLOCK);
	fault.skip = reads / 2;
	flow_plan(&f, &fault);
	flow_reads(&f, buf, reads);
	flow_drain_all(&f, &o);
	flow_says(why);
	cr_expect_eq(flow_count(&o, -ECONNABORTED), aborted, "%u aborted",
		     flow_count(&o, -ECONNABORTED));
	cr_expect_eq(flow_count(&o, 0), reads - aborted);
	for (unsigned int i = 0; i < reads; i++)
		if (o.last[i].result)
			flow_synthesized(&o.last[i], -ECONNABORTED);
	flow_release(buf);
	flow_anew_then_down(&f);
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
	struct flow_outcome o = { .n = MANY };
	struct nvmfr_buffer *buf;
	struct flow f;

	flow_up(&f, NULL);
	buf = flow_alloc(&f, MANY * BLOCK);
	flow_plan_io(&f, NVMFR_SOFT_FAULT_DISCONNECT, OPC_READ, 0);
	flow_reads(&f, buf, MANY);
	flow_drain_all(&f, &o);
	cr_expect_eq(flow_count(&o, -ECONNABORTED), MANY);
	flow_release(buf);
	flow_anew_then_down(&f);
}

/* The same one at a time: what is left to hand out is kept from call to call. */
Test(faults, lost_ones_come_one_by_one)
{
	struct nvmfr_soft_fault fault =
		flow_fault(NVMFR_SOFT_FAULT_DISCONNECT, 1, OPC_READ, NVMFR_SOFT_ANY, 0);
	struct flow_outcome o = { .n = MANY };
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
		flow_note(&o, &done, 1);
	cr_expect_eq(got, -ENOTCONN);
	flow_each_once(&o);
	cr_expect_eq(flow_count(&o, 0), 40);
	flow_release(buf);
	flow_anew_then_down(&f);
}

Test(faults, target_destroyed_under_reads)
{
	struct flow_outcome o = { .n = MANY };
	struct nvmfr_soft_opts opts = flow_soft_opts();
	struct nvmfr_buffer *buf;
	struct flow f;

	opts.latency_us = 5000;
	flow_up(&f, &opts);
	buf = flow_alloc(&f, MANY * BLOCK);
	flow_reads(&f, buf, MANY);
	nvmfr_soft_target_destroy(f.target);
	f.target = NULL;
	flow_drain_all(&f, &o);
	flow_says("gone");
	cr_expect_eq(flow_count(&o, -ECONNABORTED), MANY);
	flow_release(buf);
	flow_down(&f);
}

Test(faults, target_drops_all_under_reads)
{
	struct flow_outcome o = { .n = MANY };
	struct nvmfr_soft_opts opts = flow_soft_opts();
	struct nvmfr_buffer *buf;
	struct flow f;

	opts.latency_us = 5000;
	flow_up(&f, &opts);
	buf = flow_alloc(&f, MANY * BLOCK);
	flow_reads(&f, buf, MANY);
	nvmfr_soft_drop(f.target);
	flow_drain_all(&f, &o);
	cr_expect_eq(flow_count(&o, -ECONNABORTED), MANY);
	flow_release(buf);
	flow_anew_then_down(&f);
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
	flow_anew_then_down(&f);
}

/* ---- before the SEND is done (C20) ----------------------------------------------------------- */

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
	flow_down(&f); /* no violation: the capsules were as they were sent */
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
	struct nvmfr_soft_fault fault = flow_fault(NVMFR_SOFT_FAULT_STATUS, 1, OPC_WRITE,
						   NVMFR_SOFT_ANY, STATUS_INTERNAL_ERROR);
	struct flow_outcome o = { .n = 32 };
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
	flow_note(&o, done, 32);
	flow_each_once(&o);
	cr_expect_eq(flow_count(&o, -EREMOTEIO), 1);
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
	flow_anew_then_down(&f);
}

/* ---- lost with a backlog --------------------------------------------------------------------- */

Test(faults, disconnected_with_a_backlog)
{
	struct nvmfr_soft_fault fault =
		flow_fault(NVMFR_SOFT_FAULT_DISCONNECT, 1, OPC_READ, NVMFR_SOFT_ANY, 0);
	struct flow_outcome o = { .n = 3 };
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
	flow_drain_all(&f, &o);
	cr_expect_eq(flow_count(&o, -ECONNABORTED), n);
	flow_release(buf);
	flow_anew_then_down(&f);
}

Test(faults, lost_between_polls_keeps_what_was_answered)
{
	struct nvmfr_completion first;
	struct flow_outcome o = { .n = 64 };
	struct nvmfr_buffer *buf;
	struct flow f;

	flow_up(&f, NULL);
	buf = flow_alloc(&f, 64 * BLOCK);
	flow_reads(&f, buf, 64);
	cr_assert_eq(nvmfr_poll(f.qp, &first, 1), 1);
	flow_note(&o, &first, 1);
	nvmfr_soft_drop(f.target);
	flow_settle(&f);
	flow_drain_all(&f, &o);
	/* The target had taken some of them in one go: these are good, the rest is not. */
	cr_expect_geq(flow_count(&o, 0), 2, "%u are good", flow_count(&o, 0));
	cr_expect_eq(flow_count(&o, 0) + flow_count(&o, -ECONNABORTED), 64);
	flow_release(buf);
	flow_anew_then_down(&f);
}
