/* SPDX-License-Identifier: BSD-3-Clause */
/* What the library counted, and what it remembers of losses. */
#include "flow.h"

#include <stdlib.h>
#include <string.h>

enum { BLOCK = 512,
       ROUNDS = 40,
       KEPT = 16 };

static struct nvmfr_qpair_stats stats_of(struct nvmfr_qpair *qp)
{
	struct nvmfr_qpair_stats stats = { .size = sizeof(stats) };

	cr_assert_eq(nvmfr_qpair_stats(qp, &stats), 0, "%s", nvmfr_last_error());
	return stats;
}

static struct nvmfr_ctrl_stats ctrl_stats_of(const struct flow *f)
{
	struct nvmfr_ctrl_stats stats = { .size = sizeof(stats) };

	cr_assert_eq(nvmfr_ctrl_stats(f->ctrl, &stats), 0, "%s", nvmfr_last_error());
	return stats;
}

static struct nvmfr_latency latency_of(struct nvmfr_qpair *qp, uint32_t op)
{
	struct nvmfr_latency latency = { .size = sizeof(latency) };

	cr_assert_eq(nvmfr_qpair_latency(qp, op, &latency), 0, "%s", nvmfr_last_error());
	return latency;
}

static struct flow metered(uint32_t latency_us, uint32_t loss_ms)
{
	struct nvmfr_qpair_opts opts = flow_qpair_opts(FLOW_DEPTH);
	struct nvmfr_soft_opts soft = flow_soft_opts();
	struct flow f = { 0 };

	soft.latency_us = latency_us;
	flow_host(&f);
	flow_target(&f, &soft);
	f.opts.ctrl_loss_timeout_ms = loss_ms;
	f.opts.reconnect_delay_ms = 100;
	f.nsid = flow_ns(&f, 64 * MIB, BLOCK);
	flow_connect(&f);
	opts.flags = NVMFR_QPAIR_STATS;
	cr_assert_eq(flow_try_qpair(&f, &opts, &f.qp), 0, "%s", nvmfr_last_error());
	return f;
}

static bool dumped(const struct flow *f, const char *what)
{
	static char text[65536];
	int need = nvmfr_ctrl_dump(f->ctrl, text, sizeof(text));

	cr_assert(need > 0 && (size_t)need <= sizeof(text), "%d", need);
	return strstr(text, what);
}

/* More than the ring and its generations, so that every place is used again. */
Test(stats, io_and_bytes_by_direction, .timeout = 60)
{
	struct flow f = metered(0, 0);
	struct nvmfr_buffer *buf = flow_alloc(&f, 64 * KIB);
	const struct nvmfr_iov iov[2] = { { buf, 0, 4 * KIB }, { buf, 8 * KIB, 4 * KIB } };
	struct nvmfr_io vec = flow_io(&f, NVMFR_OP_READ, 0, 16, NULL, 0);
	struct nvmfr_io reads[2], write = flow_io(&f, NVMFR_OP_WRITE, 8, 3, buf, 0);
	struct nvmfr_io flush = flow_io(&f, NVMFR_OP_FLUSH, 0, 0, NULL, 0);
	struct nvmfr_completion done[2];
	struct nvmfr_qpair_stats stats;

	vec.flags = NVMFR_IO_VEC;
	vec.iov = iov;
	vec.niov = 2;
	reads[0] = flow_io(&f, NVMFR_OP_READ, 0, 1, buf, 0);
	reads[1] = flow_io(&f, NVMFR_OP_READ, 7, 2, buf, 4096);
	for (unsigned int i = 0; i < ROUNDS; i++) {
		cr_assert_eq(nvmfr_submit(f.qp, reads, 2), 2);
		flow_wait(f.qp, done, 2);
		flow_must(f.qp, &write);
		flow_must(f.qp, &flush);
		flow_must(f.qp, &vec);
	}
	stats = stats_of(f.qp);
	cr_expect_eq(stats.commands, 5 * ROUNDS);
	cr_expect_eq(stats.reads, 3 * ROUNDS);
	cr_expect_eq(stats.read_bytes, 19 * BLOCK * ROUNDS);
	cr_expect_eq(stats.writes, ROUNDS);
	cr_expect_eq(stats.write_bytes, 3 * BLOCK * ROUNDS);
	cr_expect_eq(stats.others, ROUNDS);
	cr_expect_eq(stats.refused + stats.aborted + stats.timed_out, 0u);
	cr_expect(dumped(&f, "\"reads\": {\"count\": 120, \"bytes\": 389120, "));
	flow_release(buf);
	flow_down(&f);
}

/* In virtual time a command takes what the target says. */
Test(stats, latencies, .timeout = 60)
{
	struct flow f = metered(1000, 0);
	struct nvmfr_buffer *buf = flow_alloc(&f, BLOCK);
	struct nvmfr_io read = flow_io(&f, NVMFR_OP_READ, 0, 1, buf, 0);
	struct nvmfr_soft_fault slow = flow_fault(NVMFR_SOFT_FAULT_DELAY, 1, OPC_READ, NVMFR_SOFT_ANY, 9000);
	struct nvmfr_latency latency;
	uint64_t counted = 0;

	for (unsigned int i = 0; i < 99; i++)
		flow_must(f.qp, &read);
	flow_plan(&f, &slow);
	flow_must(f.qp, &read);
	latency = latency_of(f.qp, NVMFR_OP_READ);
	cr_expect_eq(latency.count, 100u);
	cr_expect_eq(latency.min_ns, 1000000u, "%lu", latency.min_ns);
	cr_expect_geq(latency.max_ns, 9000000u);
	cr_expect_eq(latency.sum_ns, 99 * latency.min_ns + latency.max_ns);
	for (unsigned int i = 0; i < NVMFR_LATENCY_BUCKETS; i++)
		counted += latency.buckets[i];
	cr_expect_eq(counted, 100u);
	cr_expect(nvmfr_latency_percentile(&latency, 99) >= 1000000 &&
		  nvmfr_latency_percentile(&latency, 99) < 1000000 / 16 * 17);
	cr_expect_eq(nvmfr_latency_percentile(&latency, 100), latency.max_ns);
	cr_expect_eq(latency_of(f.qp, NVMFR_OP_WRITE).count, 0u);
	cr_expect_eq(nvmfr_latency_percentile(&(struct nvmfr_latency){ 0 }, 50), 0u);
	flow_release(buf);
	flow_down(&f);
}

Test(stats, errors_by_kind, .timeout = 60)
{
	struct flow f = metered(0, 600000);
	struct nvmfr_buffer *buf = flow_alloc(&f, FLOW_DEPTH * BLOCK);
	struct nvmfr_io read = flow_io(&f, NVMFR_OP_READ, 0, 1, buf, 0);
	struct nvmfr_completion done[FLOW_DEPTH];
	struct nvmfr_qpair_stats stats;

	flow_plan_io(&f, NVMFR_SOFT_FAULT_STATUS, OPC_READ, STATUS_UNRECOVERED_READ);
	cr_expect_eq(flow_do(f.qp, &read).result, -EREMOTEIO);
	flow_reads(&f, buf, 7);
	nvmfr_soft_drop(f.target);
	flow_settle(&f);
	flow_wait(f.qp, done, 7);
	cr_assert_eq(nvmfr_qpair_wait(f.qp, FLOW_WAIT_MS), 0, "%s", nvmfr_last_error());
	/* The counts go on where they were, on the new connection's ring. */
	flow_must(f.qp, &read);
	stats = stats_of(f.qp);
	cr_expect_eq(stats.commands, 9u);
	cr_expect_eq(stats.refused, 1u);
	cr_expect_eq(stats.aborted, 7u);
	cr_expect_eq(stats.timed_out, 0u);
	cr_expect_eq(stats.reads, 1u);
	cr_expect(dumped(&f, "\"connects\": 2, "));
	cr_expect(dumped(&f, "\"refused\": 1, \"aborted\": 7, \"timed_out\": 0"));
	flow_release(buf);
	flow_down(&f);
}

Test(stats, timed_out, .timeout = 60)
{
	struct flow f = metered(0, 600000);
	struct nvmfr_buffer *buf = flow_alloc(&f, BLOCK);
	struct nvmfr_io read = flow_io(&f, NVMFR_OP_READ, 0, 1, buf, 0);

	flow_plan_io(&f, NVMFR_SOFT_FAULT_SILENCE, OPC_READ, 0);
	cr_expect_eq(flow_do(f.qp, &read).result, -ETIMEDOUT);
	cr_expect_eq(stats_of(f.qp).timed_out, 1u);
	flow_release(buf);
	flow_down(&f);
}

Test(stats, without_the_flag, .timeout = 60)
{
	struct nvmfr_latency latency = { .size = sizeof(latency) };
	struct nvmfr_qpair_opts opts = flow_qpair_opts(8);
	struct nvmfr_qpair *qp;
	struct flow f = { 0 };

	flow_up(&f, NULL);
	flow_works(&f);
	cr_expect_eq(stats_of(f.qp).commands, 2u);
	cr_expect_eq(nvmfr_qpair_stats(NULL, NULL), -EINVAL);
	cr_expect_eq(nvmfr_qpair_stats(f.qp, NULL), -EINVAL);
	cr_expect_eq(nvmfr_qpair_latency(NULL, 0, &latency), -EINVAL);
	cr_expect_eq(nvmfr_qpair_latency(f.qp, 0, NULL), -EINVAL);
	opts.flags = NVMFR_QPAIR_STATS << 30;
	cr_expect_eq(nvmfr_qpair_create(f.ctrl, &opts, &qp), -EINVAL);
	flow_says("flags");
	flow_down(&f);
}

static struct nvmfr_loss loss_of(const struct flow *f, uint32_t index)
{
	struct nvmfr_loss loss = { .size = sizeof(loss) };

	cr_assert_eq(nvmfr_ctrl_loss(f->ctrl, index, &loss), 0, "%s", nvmfr_last_error());
	return loss;
}

Test(stats, losses_with_cause_and_duration, .timeout = 60)
{
	struct nvmfr_soft_fault reject =
		flow_fault(NVMFR_SOFT_FAULT_CM_REJECT, 0, NVMFR_SOFT_ANY, NVMFR_SOFT_ANY, 0);
	struct nvmfr_loss loss = { .size = sizeof(loss) };
	struct flow f = metered(0, 600000);

	cr_expect_eq(nvmfr_ctrl_loss(f.ctrl, 0, &loss), -ENOENT);
	reject.count = 2;
	flow_plan(&f, &reject);
	nvmfr_soft_drop(f.target);
	flow_settle(&f);
	loss = loss_of(&f, 0);
	cr_expect_eq(loss.state, NVMFR_STATE_RECOVERING);
	cr_assert_eq(nvmfr_ctrl_wait(f.ctrl, FLOW_WAIT_MS), 0, "%s", nvmfr_last_error());
	flow_advance_ms(&f, 5000);
	loss = loss_of(&f, 0);
	cr_expect_eq(loss.state, NVMFR_STATE_LIVE);
	cr_expect_eq(loss.attempts, 3u);
	/* Delays of 100, 200 and 400 ms, each a quarter more or less. */
	cr_expect(loss.duration_ms >= 525 && loss.duration_ms < 900, "%lu", loss.duration_ms);
	cr_expect_geq(loss.ago_ms, loss.duration_ms + 5000);
	cr_expect(loss.err < 0 && strstr(loss.cause, NVMFR_SOFT_SUBNQN), "%s", loss.cause);
	cr_expect_eq(nvmfr_ctrl_loss(f.ctrl, 1, &loss), -ENOENT);
	cr_expect_eq(ctrl_stats_of(&f).losses, 1u);
	cr_expect_eq(ctrl_stats_of(&f).attempts, 3u);
	cr_expect_eq(ctrl_stats_of(&f).recoveries, 1u);
	cr_expect_gt(ctrl_stats_of(&f).admin_commands, 10u);
	cr_expect(flow_logged(&f, "association lost: "));
	cr_expect(flow_logged(&f, "recovered after "));
	cr_expect(dumped(&f, "\"losses\": [{\"ago_ms\": "));
	flow_down(&f);
}

/* What happened reads off the log, in this order. */
Test(stats, the_log_tells_a_story, .timeout = 60)
{
	static const char *const story[] = { "connecting to ", "connected, controller ",
					     "namespace 1: 131072 blocks of 512 bytes", "association lost: ",
					     "recovered after ", "connected, controller " };
	struct flow f = metered(0, 600000);
	const char *at = f.log->text;

	nvmfr_soft_drop(f.target);
	flow_settle(&f);
	cr_assert_eq(nvmfr_ctrl_wait(f.ctrl, FLOW_WAIT_MS), 0, "%s", nvmfr_last_error());
	for (unsigned int i = 0; i < ARRAY_SIZE(story); i++) {
		const char *found = strstr(at, story[i]);

		cr_assert(found, "%s is not in %s", story[i], at);
		at = found + 1;
	}
	flow_down(&f);
}

Test(stats, the_last_losses_are_kept, .timeout = 60)
{
	struct nvmfr_loss loss = { .size = sizeof(loss) };
	struct flow f = metered(0, UINT32_MAX);

	for (unsigned int i = 0; i < KEPT + 3; i++) {
		nvmfr_soft_drop(f.target);
		flow_settle(&f);
		cr_assert_eq(nvmfr_ctrl_wait(f.ctrl, FLOW_WAIT_MS), 0, "%s", nvmfr_last_error());
	}
	for (unsigned int i = 0; i < KEPT; i++)
		cr_expect_eq(loss_of(&f, i).state, NVMFR_STATE_LIVE);
	cr_expect_eq(nvmfr_ctrl_loss(f.ctrl, KEPT, &loss), -ENOENT);
	cr_expect_gt(loss_of(&f, KEPT - 1).ago_ms, loss_of(&f, 0).ago_ms);
	cr_expect_eq(nvmfr_ctrl_loss(NULL, 0, &loss), -EINVAL);
	cr_expect_eq(nvmfr_ctrl_loss(f.ctrl, 0, NULL), -EINVAL);
	cr_expect_eq(nvmfr_ctrl_stats(NULL, NULL), -EINVAL);
	flow_down(&f);
}

Test(stats, keep_alives_and_a_loss_for_good, .timeout = 60)
{
	struct flow f = metered(0, 0);
	struct nvmfr_loss loss;

	flow_idle_ms(&f, 16000);
	cr_expect_eq(ctrl_stats_of(&f).keep_alives, flow_counters(&f).keep_alives);
	cr_expect_gt(ctrl_stats_of(&f).keep_alives, 1u);
	nvmfr_soft_drop(f.target);
	flow_settle(&f);
	loss = loss_of(&f, 0);
	cr_expect_eq(loss.state, NVMFR_STATE_LOST);
	cr_expect_eq(loss.duration_ms, 0u);
	flow_down(&f);
}
