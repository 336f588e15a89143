/* SPDX-License-Identifier: BSD-3-Clause */
/* Counts, latencies and losses, for the application. */
#include <errno.h>
#include <string.h>

#include <nvmfr/nvmfr.h>

#include "api/check.h"
#include "base/opts.h"
#include "ctrl/ctrl.h"

static int check_reader(struct nvmfr_qpair *qp, const size_t *size, const char *name)
{
	if (!qp)
		return nvmfr__fail(-EINVAL, "qp is NULL");
	if (nvmfr__qpair_forked(qp))
		return nvmfr__qpair_state_error(qp);
	return check_info(size, size ? *size : 0, name);
}

int nvmfr_qpair_stats(struct nvmfr_qpair *qp, struct nvmfr_qpair_stats *stats)
{
	struct nvmfr_qpair_stats full = { .size = sizeof(full) };
	int err = check_reader(qp, stats ? &stats->size : NULL, "nvmfr_qpair_stats");

	if (err)
		return err;
	full.commands = qpair_commands(qp);
	full.refused = qp->failures.refused;
	full.aborted = qp->failures.aborted;
	full.timed_out = qp->failures.timed_out;
	if (qp->meter) {
		full.reads = qp->meter->latency[METER_READ].count;
		full.writes = qp->meter->latency[METER_WRITE].count;
		full.others = qp->meter->latency[METER_OTHER].count;
		full.read_bytes = qp->meter->bytes[METER_READ];
		full.write_bytes = qp->meter->bytes[METER_WRITE];
	}
	nvmfr__opts_export(stats, stats->size, &full, sizeof(full));
	return 0;
}

int nvmfr_qpair_latency(struct nvmfr_qpair *qp, uint32_t op, struct nvmfr_latency *latency)
{
	int err = check_reader(qp, latency ? &latency->size : NULL, "nvmfr_latency");

	if (!err && !qp->meter)
		err = nvmfr__fail(-ENOENT, "queue %u was created without NVMFR_QPAIR_STATS", qp->qid);
	if (err)
		return err;
	nvmfr__opts_export(latency, latency->size, &qp->meter->latency[meter_kind_of(op)],
			   sizeof(*latency));
	return 0;
}

/* The largest value of a bucket. */
static uint64_t top_of(uint32_t bucket)
{
	const uint32_t linear = 1u << NVMFR_LATENCY_BITS;
	uint32_t shift = bucket < linear ? 0 : (bucket >> NVMFR_LATENCY_BITS) - 1;

	return ((uint64_t)(bucket - (shift << NVMFR_LATENCY_BITS) + 1) << shift) - 1;
}

uint64_t nvmfr_latency_percentile(const struct nvmfr_latency *latency, double percent)
{
	const uint64_t max = latency ? meter_read(&latency->max_ns) : 0;
	double wanted;
	uint64_t seen = 0;

	if (!latency)
		return 0;
	wanted = (double)meter_read(&latency->count) * percent / 100;
	for (uint32_t i = 0; i < NVMFR_LATENCY_BUCKETS; i++) {
		seen += meter_read(&latency->buckets[i]);
		if (seen && (double)seen >= wanted)
			return nvmfr__min_u64(top_of(i), max);
	}
	return max;
}

static int check_ctrl(const struct nvmfr_ctrl *ctrl)
{
	return ctrl ? check_host(ctrl->host) : nvmfr__fail(-EINVAL, "ctrl is NULL");
}

int nvmfr_ctrl_stats(const struct nvmfr_ctrl *ctrl, struct nvmfr_ctrl_stats *stats)
{
	struct nvmfr_ctrl_stats full = { .size = sizeof(full) };
	int err = check_ctrl(ctrl);

	if (!err)
		err = check_info(stats, stats ? stats->size : 0, "nvmfr_ctrl_stats");
	if (err)
		return err;
	pthread_mutex_lock(&ctrl->host->lock);
	full.admin_commands = ctrl->history.admin_commands;
	full.keep_alives = ctrl->history.keep_alives;
	full.aer_events = ctrl->history.events;
	full.aborts = ctrl->history.aborts;
	full.losses = ctrl->history.losses;
	full.attempts = ctrl->history.attempts;
	full.recoveries = ctrl->history.recoveries;
	pthread_mutex_unlock(&ctrl->host->lock);
	nvmfr__opts_export(stats, stats->size, &full, sizeof(full));
	return 0;
}

int nvmfr_ctrl_loss(const struct nvmfr_ctrl *ctrl, uint32_t index, struct nvmfr_loss *out)
{
	struct nvmfr_loss full = { .size = sizeof(full) };
	int err = check_ctrl(ctrl);
	const struct loss *loss;

	if (!err)
		err = check_info(out, out ? out->size : 0, "nvmfr_loss");
	if (err)
		return err;
	pthread_mutex_lock(&ctrl->host->lock);
	loss = nvmfr__history_get(&ctrl->history, index);
	if (loss) {
		full.ago_ms = (ctrl_now(ctrl) - loss->began_ns) / MS_NS(1);
		full.duration_ms = nvmfr__loss_ms(loss, ctrl_now(ctrl));
		full.attempts = loss->attempts;
		full.state = loss->state;
		full.err = loss->err;
		memcpy(full.cause, loss->cause, sizeof(full.cause));
	}
	pthread_mutex_unlock(&ctrl->host->lock);
	if (!loss)
		return nvmfr__fail(-ENOENT, "loss %u: there were fewer, or it is too long ago", index);
	nvmfr__opts_export(out, out->size, &full, sizeof(full));
	return 0;
}
