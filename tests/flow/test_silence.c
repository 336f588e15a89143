/* SPDX-License-Identifier: BSD-3-Clause */
/* Peers that say nothing: commands over their time, keep-alive in both directions. */
#include "flow.h"

#include <poll.h>

enum { BLOCK = 512 };

/* ---- silence --------------------------------------------------------------------------------- */

static struct nvmfr_qpair *queue_of(struct flow *f, unsigned int depth, uint32_t ms)
{
	struct nvmfr_qpair_opts opts = flow_qpair_opts(depth);
	struct nvmfr_qpair *qp;

	opts.io_timeout_ms = ms;
	cr_assert_eq(flow_try_qpair(f, &opts, &qp), 0, "%s", nvmfr_last_error());
	return qp;
}

static struct nvmfr_qpair *queue_with_timeout(struct flow *f, uint32_t ms)
{
	return queue_of(f, FLOW_DEPTH, ms);
}

/* What is not answered within a second is aborted. */
static struct flow aborting(unsigned int depth, bool one_at_a_time)
{
	struct flow f = { 0 };

	flow_host(&f);
	flow_target(&f, NULL);
	if (one_at_a_time)
		flow_patch8(&f, CNS_CTRL, 258, 0); /* ACL */
	flow_ns(&f, MIB, BLOCK);
	flow_connect(&f);
	f.qp = queue_of(&f, depth, 1000);
	return f;
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
Test(silence, silence_ends_the_late_one_and_aborts_the_others)
{
	struct nvmfr_soft_fault fault =
		flow_fault(NVMFR_SOFT_FAULT_SILENCE, 1, OPC_READ, NVMFR_SOFT_ANY, 0);
	struct flow_outcome o = { .n = 4 };
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
	flow_drain_all(&f, &o);
	flow_says("io_timeout_ms");
	flow_synthesized(&o.last[0], -ETIMEDOUT);
	for (unsigned int i = 1; i < 4; i++)
		flow_synthesized(&o.last[i], -ECONNABORTED);
	flow_release(buf);
	flow_anew_then_down(&f);
}

Test(silence, not_over_its_time_before_its_time)
{
	struct nvmfr_completion done;
	struct nvmfr_buffer *buf;
	struct flow f;

	silence_up(&f, 2000);
	buf = flow_alloc(&f, BLOCK);
	flow_plan_io(&f, NVMFR_SOFT_FAULT_DELAY, OPC_READ, 1990000);
	flow_reads(&f, buf, 1);
	cr_expect_eq(nvmfr_poll(f.qp, &done, 1), 0); /* now the target has it */
	flow_idle_ms(&f, 1980);
	cr_expect_eq(nvmfr_poll(f.qp, &done, 1), 0);
	flow_wait(f.qp, &done, 1);
	cr_expect_eq(done.result, 0);
	flow_works(&f);
	flow_release(buf);
	flow_down(&f);
}

Test(silence, over_its_time_soon_after_its_time)
{
	struct nvmfr_completion done;
	struct nvmfr_buffer *buf;
	struct flow f;
	int got = 0;

	silence_up(&f, 2000);
	buf = flow_alloc(&f, BLOCK);
	flow_plan_io(&f, NVMFR_SOFT_FAULT_SILENCE, OPC_READ, 0);
	flow_reads(&f, buf, 1);
	/* Two coarse ticks of 100 ms later at most it is aborted, the next tells; two more, in vain, and it ends. */
	for (unsigned int i = 0; i < 26 && got == 0; i++) {
		flow_idle_ms(&f, 100);
		got = nvmfr_poll(f.qp, &done, 1);
	}
	if (got == 0) {
		flow_settle(&f);
		got = nvmfr_poll(f.qp, &done, 1);
	}
	cr_expect_eq(got, 1, "still not told after 2.6 s");
	cr_expect_eq(done.result, -ETIMEDOUT);
	flow_release(buf);
	flow_anew_then_down(&f);
}

Test(silence, the_host_looks_at_the_clock_from_the_first_command_on)
{
	struct flow f;
	int due;

	flow_host(&f);
	flow_target(&f, NULL);
	flow_ns(&f, MIB, BLOCK);
	f.opts.kato_ms = 0;
	flow_connect(&f);
	f.qp = queue_with_timeout(&f, 2000);
	due = nvmfr_host_timeout_ms(f.host);
	cr_expect(due >= 0 && due <= 100, "%d", due);
	flow_down(&f);
}

Test(silence, without_a_timeout_silence_lasts)
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
static void late_and_other(uint8_t op, uint64_t nblocks, uint64_t status)
{
	struct flow_outcome o = { .n = 2 };
	struct nvmfr_buffer *buf;
	struct nvmfr_io io;
	struct flow f;

	silence_up(&f, 2000);
	buf = flow_alloc(&f, 128 * KIB);
	flow_plan_io(&f, NVMFR_SOFT_FAULT_SILENCE, OPC_READ, 0);
	io = flow_io(&f, op, 1, nblocks, buf, 8192);
	io.user_data = 1;
	if (status)
		flow_plan_io(&f, NVMFR_SOFT_FAULT_STATUS, op, status);
	flow_reads(&f, buf, 1);
	flow_idle_ms(&f, 5000);
	cr_assert_eq(nvmfr_submit(f.qp, &io, 1), 1, "%s", nvmfr_last_error());
	flow_drain_all(&f, &o);
	flow_synthesized(&o.last[0], -ETIMEDOUT);
	flow_release(buf);
	flow_anew_then_down(&f);
}

#define LATE_TEST(Other, Op, Blocks, Status) \
	Test(silence, late_one_and_##Other##_at_once, .timeout = 20) \
	{ \
		late_and_other(Op, Blocks, Status); \
	}

LATE_TEST(an_nvme_error, NVMFR_OP_READ, 1, STATUS_INTERNAL_ERROR)
LATE_TEST(a_split_read, NVMFR_OP_READ, 100, 0)
LATE_TEST(an_in_capsule_write, NVMFR_OP_WRITE, 1, 0)
LATE_TEST(a_failing_in_capsule_write, NVMFR_OP_WRITE, 1, STATUS_INTERNAL_ERROR)

Test(silence, split_io_that_was_partly_answered)
{
	struct nvmfr_soft_fault fault =
		flow_fault(NVMFR_SOFT_FAULT_SILENCE, 1, OPC_READ, NVMFR_SOFT_ANY, 0);
	struct nvmfr_completion done[2];
	struct nvmfr_buffer *buf;
	struct flow f;

	silence_up(&f, 2000);
	buf = flow_alloc(&f, 8 * MIB);
	fault.skip = 100;
	flow_plan(&f, &fault);
	cr_assert_eq(nvmfr_read(f.qp, f.nsid, 0, 8 * MIB / 512, buf, 0, 0), 0);
	cr_expect_eq(flow_drain(f.qp, done, 2), 1);
	flow_synthesized(&done[0], -ETIMEDOUT);
	flow_release(buf);
	flow_anew_then_down(&f);
}

/* ---- abort ----------------------------------------------------------------------------------- */

/* One command that is stuck: it alone ends, and its association stays. */
static void stuck(uint64_t nblocks, bool grouped)
{
	struct nvmfr_qpair_opts opts = flow_qpair_opts(FLOW_DEPTH);
	struct nvmfr_group *group = NULL;
	struct nvmfr_completion done;
	struct nvmfr_buffer *buf;
	struct nvmfr_io io;
	struct flow f = { 0 };

	flow_host(&f);
	flow_target(&f, NULL);
	f.nsid = flow_ns(&f, 64 * MIB, BLOCK);
	flow_connect(&f);
	if (grouped)
		cr_assert_eq(nvmfr_group_create(f.host, NULL, &group), 0);
	opts.group = group;
	opts.io_timeout_ms = 1000;
	cr_assert_eq(flow_try_qpair(&f, &opts, &f.qp), 0, "%s", nvmfr_last_error());
	buf = flow_alloc(&f, 4 * MIB);
	flow_plan_io(&f, NVMFR_SOFT_FAULT_STUCK, OPC_READ, 0);
	io = flow_io(&f, NVMFR_OP_READ, 0, nblocks, buf, 0);
	cr_assert_eq(nvmfr_submit(f.qp, &io, 1), 1);
	cr_expect_eq(nvmfr_wait(f.qp, &done, 1, 1, 900), 0);
	cr_expect_eq(nvmfr_buffer_release(buf), -EBUSY);
	cr_assert_eq(nvmfr_wait(f.qp, &done, 1, 1, 600), 1, "%s", nvmfr_last_error());
	cr_expect_eq(done.result, -ETIMEDOUT);
	cr_expect_eq(done.status & 0x7ff, 0x007, "Command Abort Requested: %04x", done.status);
	cr_expect_eq(nvmfr_ctrl_state(f.ctrl), NVMFR_STATE_LIVE);
	flow_release(buf);
	flow_works(&f);
	flow_idle_ms(&f, 30000);
	flow_works(&f);
	if (grouped) {
		nvmfr_qpair_destroy(f.qp);
		f.qp = NULL;
		cr_assert_eq(nvmfr_group_destroy(group), 0);
	}
	flow_down(&f);
}

Test(silence, a_stuck_command_is_aborted)
{
	stuck(1, false);
	stuck(4 * MIB / BLOCK, false);
	stuck(1, true);
}

/* Many at once, more than the controller aborts at a time, and none of them is abortable in the end. */
Test(silence, an_abort_that_is_not_answered)
{
	struct nvmfr_soft_fault fault = flow_fault(NVMFR_SOFT_FAULT_SILENCE, 1, OPC_READ, NVMFR_SOFT_ANY, 0);
	struct nvmfr_soft_fault abort = flow_fault(NVMFR_SOFT_FAULT_SILENCE, 0, OPC_ABORT, NVMFR_SOFT_ANY, 0);
	struct nvmfr_qpair_opts opts = flow_qpair_opts(FLOW_DEPTH);
	struct flow_outcome outcome = { .n = 20 };
	struct nvmfr_completion done[20];
	struct nvmfr_buffer *buf;
	struct flow f = { 0 };

	fault.count = abort.count = 0;
	flow_host(&f);
	flow_target(&f, NULL);
	f.opts.admin_timeout_ms = 2000;
	f.nsid = flow_ns(&f, 64 * MIB, BLOCK);
	flow_connect(&f);
	opts.io_timeout_ms = 1000;
	cr_assert_eq(flow_try_qpair(&f, &opts, &f.qp), 0, "%s", nvmfr_last_error());
	buf = flow_alloc(&f, 20 * BLOCK);
	flow_plan(&f, &fault);
	flow_plan(&f, &abort);
	flow_reads(&f, buf, 20);
	cr_expect_eq(nvmfr_wait(f.qp, done, 1, 20, 2900), 0);
	cr_assert_eq(nvmfr_wait(f.qp, done, 20, 20, 700), 20, "%s", nvmfr_last_error());
	flow_note(&outcome, done, 20);
	flow_each_once(&outcome);
	cr_expect_eq(flow_count(&outcome, -ETIMEDOUT), 20u);
	cr_expect_eq(nvmfr_ctrl_wait(f.ctrl, FLOW_WAIT_MS), -ENOTCONN);
	flow_says("Abort did not help");
	flow_release(buf);
	flow_down(&f);
}

/*
 * An Abort that has to wait for another one comes too late: its command has been answered, and a younger one has
 * its CID, which counts to 16 in a slot. That one has its own time.
 */
Test(silence, an_abort_that_comes_too_late)
{
	struct nvmfr_soft_fault slow = flow_fault(NVMFR_SOFT_FAULT_DELAY, 0, OPC_ABORT, NVMFR_SOFT_ANY, 5000000);
	struct flow f = aborting(2, true);
	struct nvmfr_buffer *buf = flow_alloc(&f, BLOCK);
	struct nvmfr_io io = flow_io(&f, NVMFR_OP_READ, 0, 1, buf, 0);
	struct nvmfr_completion done;

	flow_plan(&f, &slow);
	flow_plan_io(&f, NVMFR_SOFT_FAULT_STUCK, OPC_READ, 0);
	cr_assert_eq(nvmfr_submit(f.qp, &io, 1), 1);
	cr_assert_eq(nvmfr_wait(f.qp, &done, 1, 1, 300), 0);
	flow_plan_io(&f, NVMFR_SOFT_FAULT_DELAY, OPC_READ, 2000000);
	cr_assert_eq(nvmfr_submit(f.qp, &io, 1), 1);
	cr_assert_eq(nvmfr_wait(f.qp, &done, 1, 1, FLOW_WAIT_MS), 1, "%s", nvmfr_last_error());
	cr_expect_eq(done.result, -ETIMEDOUT);
	cr_assert_eq(nvmfr_wait(f.qp, &done, 1, 1, FLOW_WAIT_MS), 1, "%s", nvmfr_last_error());
	cr_expect_eq(done.result, 0, "answered, late");
	for (unsigned int i = 0; i < 15; i++)
		flow_must(f.qp, &io);
	flow_idle_ms(&f, 3600);
	flow_plan_io(&f, NVMFR_SOFT_FAULT_STUCK, OPC_READ, 0);
	cr_assert_eq(nvmfr_submit(f.qp, &io, 1), 1);
	cr_expect_eq(nvmfr_wait(f.qp, &done, 1, 1, 900), 0, "ended by an Abort of another's: %d", done.result);
	cr_assert_eq(nvmfr_wait(f.qp, &done, 1, 1, 600), 1, "%s", nvmfr_last_error());
	cr_expect_eq(done.result, -ETIMEDOUT);
	flow_release(buf);
	flow_works(&f);
	flow_down(&f);
}

/* Who slept until the no came has not seen the time pass; the answer that is on its way has 200 ms as ever. */
Test(silence, a_no_after_a_long_sleep)
{
	struct nvmfr_soft_fault slow = flow_fault(NVMFR_SOFT_FAULT_DELAY, 0, OPC_ABORT, NVMFR_SOFT_ANY, 4500000);
	struct flow f = aborting(2, false);
	struct nvmfr_buffer *buf = flow_alloc(&f, BLOCK);
	struct nvmfr_io io = flow_io(&f, NVMFR_OP_READ, 0, 1, buf, 0);
	struct nvmfr_completion done;

	flow_plan(&f, &slow);
	flow_plan_io(&f, NVMFR_SOFT_FAULT_DELAY, OPC_READ, 6000000);
	cr_assert_eq(nvmfr_submit(f.qp, &io, 1), 1);
	cr_assert_eq(nvmfr_poll(f.qp, &done, 1), 0, "the target takes it");
	flow_idle_ms(&f, 1300);
	cr_assert_eq(nvmfr_poll(f.qp, &done, 1), 0, "the Abort goes out");
	flow_idle_ms(&f, 4600);
	cr_assert_eq(nvmfr_poll(f.qp, &done, 1), 0, "%s", nvmfr_last_error());
	flow_idle_ms(&f, 110);
	cr_assert_eq(nvmfr_poll(f.qp, &done, 1), 1, "%s", nvmfr_last_error());
	cr_expect_eq(done.result, 0, "%d", done.result);
	flow_release(buf);
	flow_works(&f);
	flow_down(&f);
}

/* ---- several Aborts -------------------------------------------------------------------------- */

/* Reads that are answered so, one each 200 ms; then the answers to their Aborts, in the order of these. */
struct aborts_case {
	const char *name;
	bool one_at_a_time;
	struct {
		uint32_t kind, ms;
	} reads[3], aborts[3];
	int32_t results[3];
};

static void plan_each(struct flow *f, uint32_t qid, uint32_t opcode, uint32_t kind, uint32_t ms)
{
	struct nvmfr_soft_fault fault = flow_fault(kind, qid, opcode, NVMFR_SOFT_ANY, ms * UINT64_C(1000));

	if (kind)
		flow_plan(f, &fault);
}

static void several_aborts(const struct aborts_case *c)
{
	struct flow f = aborting(FLOW_DEPTH, c->one_at_a_time);
	struct nvmfr_buffer *buf = flow_alloc(&f, BLOCK);
	struct nvmfr_completion done;
	unsigned int n = 0;

	for (unsigned int i = 0; i < 3; i++)
		plan_each(&f, 0, OPC_ABORT, c->aborts[i].kind, c->aborts[i].ms);
	for (unsigned int i = 0; i < 3; i++) {
		struct nvmfr_io io = flow_io(&f, NVMFR_OP_READ, i, 1, buf, 0);

		io.user_data = i;
		plan_each(&f, 1, OPC_READ, c->reads[i].kind, c->reads[i].ms);
		cr_assert_eq(nvmfr_submit(f.qp, &io, 1), 1, "%s: %s", c->name, nvmfr_last_error());
		if (nvmfr_wait(f.qp, &done, 1, 1, 200) == 1)
			n += done.user_data == i && c->results[i] == done.result;
	}
	while (nvmfr_wait(f.qp, &done, 1, 1, 20000) == 1) {
		cr_expect_eq(done.result, c->results[done.user_data], "%s: read %u: %d", c->name,
			     (unsigned int)done.user_data, done.result);
		n++;
	}
	cr_expect_eq(n, 3u, "%s: %u ended", c->name, n);
	flow_release(buf);
	flow_works(&f);
	flow_down(&f);
}

#define DELAY	NVMFR_SOFT_FAULT_DELAY
#define STUCK	NVMFR_SOFT_FAULT_STUCK
#define SILENCE NVMFR_SOFT_FAULT_SILENCE

/* clang-format off */
Test(silence, several_aborts)
{
	static const struct aborts_case cases[] = {
		{ "what answers one Abort with no says nothing of another's", false,
		  { { DELAY, 1900 }, { DELAY, 4000 }, { 0, 0 } },
		  { { DELAY, 700 }, { DELAY, 5000 }, { 0, 0 } }, { 0, 0, 0 } },
		{ "of those that wait the oldest goes out first", true,
		  { { DELAY, 2500 }, { STUCK, 0 }, { DELAY, 5000 } },
		  { { DELAY, 1900 }, { DELAY, 0 }, { SILENCE, 0 } }, { 0, -ETIMEDOUT, 0 } },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		several_aborts(&cases[i]);
}
/* clang-format on */

/* ---- keep-alive ------------------------------------------------------------------------------ */

Test(silence, keep_alive_is_sent_while_nothing_else_happens)
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

Test(silence, keep_alive_is_sent_under_load)
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

/* A read a second for two minutes: how many Keep Alives go out beside them. KATO is 10 s. */
static uint64_t keep_alives_beside_reads(struct flow *f, uint32_t flags)
{
	struct nvmfr_soft_opts opts = flow_soft_opts();
	struct nvmfr_buffer *buf;
	struct nvmfr_io io;
	uint64_t before;

	opts.flags = flags;
	flow_up(f, &opts);
	buf = flow_alloc(f, BLOCK);
	io = flow_io(f, NVMFR_OP_READ, 0, 1, buf, 0);
	before = flow_counters(f).keep_alives;
	for (unsigned int i = 0; i < 120; i++) {
		flow_must(f->qp, &io);
		flow_idle_ms(f, 1000);
	}
	flow_release(buf);
	return flow_counters(f).keep_alives - before;
}

/* Traffic counts: as long as there is any no Keep Alive is sent; without, they come at once. */
Test(silence, keep_alive_by_traffic)
{
	uint64_t before;
	struct flow f;

	cr_expect_leq(keep_alives_beside_reads(&f, NVMFR_SOFT_TBKAS), 1);
	/* It is looked at every 2.5 s. */
	before = flow_counters(&f).keep_alives;
	flow_idle_ms(&f, 60000);
	cr_expect_geq(flow_counters(&f).keep_alives, before + 22);
	flow_works(&f);
	flow_down(&f);
}

/* It does not: the target counts Keep Alives only, and would be gone after 10 s of reads. */
Test(silence, keep_alive_beside_traffic)
{
	uint64_t sent;
	struct flow f;

	sent = keep_alives_beside_reads(&f, 0);
	cr_expect(sent >= 23 && sent <= 25, "%lu", (unsigned long)sent);
	flow_works(&f);
	flow_down(&f);
}

/* The target may count KATO in units of KAS, of 100 ms, or to the millisecond: twice a KATO is right for both. */
Test(silence, keep_alive_whatever_the_granularity)
{
	static const struct {
		uint16_t kas;
		uint32_t kato_ms;
	} cases[] = {
		{ 1, 15000 },
		{ 1, 15050 },
		{ 100, 15000 },
		{ 100, 10000 },
		{ 100, 10001 },
		{ 65535, 15000 },
		{ 1, 100 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct nvmfr_soft_opts opts = flow_soft_opts();
		uint64_t sent;
		struct flow f;

		opts.kas = cases[i].kas;
		flow_host(&f);
		flow_target(&f, &opts);
		flow_ns(&f, MIB, BLOCK);
		f.opts.kato_ms = cases[i].kato_ms;
		flow_connect(&f);
		cr_expect_eq(flow_ctrl_info(&f).kato_ms, cases[i].kato_ms);
		flow_idle_ms(&f, 20 * cases[i].kato_ms);
		sent = flow_counters(&f).keep_alives;
		cr_expect_eq(nvmfr_ctrl_state(f.ctrl), NVMFR_STATE_LIVE, "%zu", i);
		cr_expect(sent >= 39 && sent <= 41, "%zu: %lu in 20 timeouts", i, (unsigned long)sent);
		f.qp = flow_qpair(&f, 8);
		flow_works(&f);
		flow_down(&f);
	}
}

/* ---- a target that is slow --------------------------------------------------------------------- */

enum { SLOW_MS = 3000,
       READS = 16 };

static struct nvmfr_latency read_latency(const struct flow *f)
{
	struct nvmfr_latency latency = { .size = sizeof(latency) };

	cr_assert_eq(nvmfr_qpair_latency(f->qp, NVMFR_OP_READ, &latency), 0, "%s", nvmfr_last_error());
	return latency;
}

static uint64_t losses_of(const struct flow *f)
{
	struct nvmfr_ctrl_stats stats = { .size = sizeof(stats) };

	cr_assert_eq(nvmfr_ctrl_stats(f->ctrl, &stats), 0, "%s", nvmfr_last_error());
	return stats.losses;
}

/* Connect, reads and a minute of Keep Alives against that fault: nothing fails. */
static void slow_target(const struct nvmfr_soft_fault *fault, uint64_t least_ms)
{
	struct nvmfr_qpair_opts opts = flow_qpair_opts(READS);
	struct nvmfr_completion done[READS];
	struct flow_outcome o = { .n = READS };
	struct nvmfr_buffer *buf;
	struct flow f;

	flow_host(&f);
	flow_target(&f, NULL);
	flow_ns(&f, MIB, BLOCK);
	flow_plan(&f, fault);
	flow_connect(&f);
	opts.flags = NVMFR_QPAIR_STATS;
	cr_assert_eq(flow_try_qpair(&f, &opts, &f.qp), 0, "%s", nvmfr_last_error());
	buf = flow_alloc(&f, READS * BLOCK);
	flow_reads(&f, buf, READS);
	flow_wait(f.qp, done, READS);
	flow_note(&o, done, READS);
	flow_each_once(&o);
	cr_expect_eq(flow_count(&o, 0), READS);
	cr_expect_eq(read_latency(&f).count, READS);
	cr_expect_geq(read_latency(&f).max_ns, least_ms * 1000000);
	flow_idle_ms(&f, 60000);
	cr_expect_eq(losses_of(&f), 0u);
	flow_works(&f);
	flow_release(buf);
	flow_down(&f);
}

/* Posts no receive for 3 s: our SENDs are sent again by the NIC, and go on in order when it does. */
Test(silence, a_target_without_receives)
{
	static const struct {
		uint32_t qid, opcode, detail, skip;
	} points[] = {
		{ 0, OPC_FABRICS, FCTYPE_CONNECT, 0 },
		{ 0, OPC_IDENTIFY, CNS_CTRL, 0 },
		{ 0, OPC_KEEP_ALIVE, NVMFR_SOFT_ANY, 0 },
		{ 1, OPC_FABRICS, FCTYPE_CONNECT, 0 },
		{ 1, OPC_READ, NVMFR_SOFT_ANY, 0 },
		{ 1, OPC_READ, NVMFR_SOFT_ANY, READS - 1 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(points); i++) {
		struct nvmfr_soft_fault fault = flow_fault(NVMFR_SOFT_FAULT_NOT_READY, points[i].qid, points[i].opcode,
							   points[i].detail, SLOW_MS * 1000);

		fault.skip = points[i].skip;
		slow_target(&fault, points[i].opcode == OPC_READ ? SLOW_MS : 0);
	}
}

/* Answers 3 s late: a third of KATO. */
Test(silence, a_target_that_answers_late)
{
	static const struct {
		uint32_t qid, opcode;
	} points[] = { { 0, OPC_KEEP_ALIVE }, { 0, OPC_IDENTIFY }, { 1, OPC_FABRICS }, { 1, OPC_READ } };

	for (size_t i = 0; i < ARRAY_SIZE(points); i++) {
		struct nvmfr_soft_fault fault = flow_fault(NVMFR_SOFT_FAULT_DELAY, points[i].qid, points[i].opcode,
							   NVMFR_SOFT_ANY, SLOW_MS * 1000);

		fault.count = 5;
		slow_target(&fault, points[i].opcode == OPC_READ ? SLOW_MS : 0);
	}
}

/* For longer than a command may take: the association goes, and comes back. */
Test(silence, a_target_without_receives_for_too_long)
{
	struct nvmfr_soft_fault fault =
		flow_fault(NVMFR_SOFT_FAULT_NOT_READY, 1, OPC_READ, NVMFR_SOFT_ANY, 60000000);
	struct nvmfr_completion done[READS];
	struct flow_outcome o = { .n = READS };
	struct nvmfr_buffer *buf;
	struct flow f;

	flow_host(&f);
	flow_target(&f, NULL);
	flow_ns(&f, MIB, BLOCK);
	f.opts.ctrl_loss_timeout_ms = UINT32_MAX;
	flow_connect(&f);
	f.qp = queue_with_timeout(&f, 5000);
	buf = flow_alloc(&f, READS * BLOCK);
	flow_plan(&f, &fault);
	flow_reads(&f, buf, READS);
	flow_wait(f.qp, done, READS);
	flow_note(&o, done, READS);
	flow_each_once(&o);
	cr_expect_eq(flow_count(&o, -ETIMEDOUT), READS);
	cr_assert_eq(nvmfr_qpair_wait(f.qp, FLOW_WAIT_MS), 0, "%s", nvmfr_last_error());
	cr_expect_eq(losses_of(&f), 1u);
	flow_works(&f);
	flow_release(buf);
	flow_down(&f);
}

/* ---- keep-alive that fails --------------------------------------------------------------------- */

static void keep_alive_fails(uint32_t kind, uint64_t value, uint32_t count)
{
	struct nvmfr_soft_fault fault = flow_fault(kind, 0, OPC_KEEP_ALIVE, NVMFR_SOFT_ANY, value);
	struct nvmfr_completion done;
	struct flow f;

	flow_up(&f, NULL);
	fault.count = count;
	flow_plan(&f, &fault);
	cr_expect_eq(flow_drain(f.qp, &done, 1), 0);
	cr_expect(strstr(nvmfr_last_error(), "Keep Alive") ||
			  strstr(nvmfr_last_error(), "keep-alive"),
		  "%s", nvmfr_last_error());
	flow_anew_then_down(&f);
}

Test(silence, keep_alive_unanswered)
{
	keep_alive_fails(NVMFR_SOFT_FAULT_SILENCE, 0, 0);
}

Test(silence, keep_alive_answered_too_late)
{
	keep_alive_fails(NVMFR_SOFT_FAULT_DELAY, 60000000, 1);
}

Test(silence, keep_alive_refused)
{
	keep_alive_fails(NVMFR_SOFT_FAULT_STATUS, STATUS_INTERNAL_ERROR, 1);
}

/* KAS 0: Keep Alive is not offered; sending it would be a violation. */
Test(silence, keep_alive_not_offered)
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

Test(silence, keep_alive_not_wanted)
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

Test(silence, host_that_falls_asleep_is_dropped)
{
	struct nvmfr_completion done;
	struct flow f;

	flow_up(&f, NULL);
	flow_advance_ms(&f, 11000);
	cr_expect_eq(flow_drain(f.qp, &done, 1), 0);
	cr_expect(strstr(nvmfr_last_error(), "keep-alive"), "%s", nvmfr_last_error());
	flow_anew_then_down(&f);
}

/* The application does nothing at all: the service thread answers for it. Real time, a short KATO. */
Test(silence, service_thread_keeps_alive)
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
