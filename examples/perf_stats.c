/* SPDX-License-Identifier: BSD-3-Clause */
/* What the library itself counted and measured (--stats), of all queue pairs and phases together. */
#include "perf.h"

#include <inttypes.h>

enum { KINDS = 3,
       COUNTS = 11 };

struct count {
	const char *name;
	uint64_t value;
};

struct stats {
	struct count counts[COUNTS];
	struct nvmfr_latency latency[KINDS];
};

static const struct {
	uint32_t op;
	const char *text, *json;
} kinds[KINDS] = {
	{ NVMFR_OP_READ, "reads", "read_latency_us" },
	{ NVMFR_OP_WRITE, "writes", "write_latency_us" },
	{ NVMFR_OP_FLUSH, "others", "other_latency_us" },
};

static void add_latency(struct nvmfr_latency *sum, const struct nvmfr_latency *one)
{
	if (one->count && (!sum->count || one->min_ns < sum->min_ns))
		sum->min_ns = one->min_ns;
	if (one->max_ns > sum->max_ns)
		sum->max_ns = one->max_ns;
	sum->count += one->count;
	sum->sum_ns += one->sum_ns;
	for (unsigned int i = 0; i < NVMFR_LATENCY_BUCKETS; i++)
		sum->buckets[i] += one->buckets[i];
}

static void add_queue(struct stats *stats, struct nvmfr_qpair_stats *sum, struct nvmfr_qpair *qp)
{
	struct nvmfr_qpair_stats one = { .size = sizeof(one) };

	if (nvmfr_qpair_stats(qp, &one))
		return;
	sum->commands += one.commands;
	sum->refused += one.refused;
	sum->aborted += one.aborted;
	sum->timed_out += one.timed_out;
	for (unsigned int i = 0; i < KINDS; i++) {
		struct nvmfr_latency latency = { .size = sizeof(latency) };

		if (!nvmfr_qpair_latency(qp, kinds[i].op, &latency))
			add_latency(&stats->latency[i], &latency);
	}
}

/* The threads have ended: their queue pairs are this one's. */
static void gather(const struct perf *perf, struct stats *stats)
{
	struct nvmfr_qpair_stats queues = { .size = sizeof(queues) };
	struct nvmfr_ctrl_stats ctrl = { .size = sizeof(ctrl) };

	*stats = (struct stats){ 0 };
	for (uint64_t i = 0; i < perf->opts.threads; i++)
		add_queue(stats, &queues, perf->workers[i].qp);
	if (nvmfr_ctrl_stats(perf->session.ctrl, &ctrl))
		complain("counts");
	const struct count counts[COUNTS] = {
		{ "commands", queues.commands },
		{ "refused", queues.refused },
		{ "aborted", queues.aborted },
		{ "timed_out", queues.timed_out },
		{ "admin_commands", ctrl.admin_commands },
		{ "keep_alives", ctrl.keep_alives },
		{ "aer_events", ctrl.aer_events },
		{ "aborts", ctrl.aborts },
		{ "losses", ctrl.losses },
		{ "attempts", ctrl.attempts },
		{ "recoveries", ctrl.recoveries },
	};

	for (unsigned int i = 0; i < COUNTS; i++)
		stats->counts[i] = counts[i];
}

static double mean_us(const struct nvmfr_latency *latency)
{
	return (double)latency->sum_ns / (double)latency->count / 1e3;
}

static double percentile_us(const struct nvmfr_latency *latency, double percent)
{
	return (double)nvmfr_latency_percentile(latency, percent) / 1e3;
}

void perf_text_stats(const struct perf *perf)
{
	struct stats stats;

	gather(perf, &stats);
	printf("library  ");
	for (unsigned int i = 0; i < COUNTS; i++)
		printf("%s %s %" PRIu64, i ? "," : "", stats.counts[i].name, stats.counts[i].value);
	printf("\n");
	for (unsigned int i = 0; i < KINDS; i++) {
		const struct nvmfr_latency *latency = &stats.latency[i];

		if (!latency->count)
			continue;
		printf("library   %" PRIu64 " %s, min %.2f, mean %.2f", latency->count, kinds[i].text,
		       (double)latency->min_ns / 1e3, mean_us(latency));
		for (size_t k = 0; k < PERCENTILES; k++)
			printf(", p%g %.2f", perf_percentiles[k], percentile_us(latency, perf_percentiles[k]));
		printf(", max %.2f us\n", (double)latency->max_ns / 1e3);
	}
}

static void json_latency(FILE *out, const char *name, const struct nvmfr_latency *latency)
{
	fprintf(out, ",\n    \"%s\": {\"count\": %" PRIu64 ", \"min\": %.3f, \"mean\": %.3f", name, latency->count,
		(double)latency->min_ns / 1e3, mean_us(latency));
	for (size_t i = 0; i < PERCENTILES; i++)
		fprintf(out, ", \"p%g\": %.3f", perf_percentiles[i], percentile_us(latency, perf_percentiles[i]));
	fprintf(out, ", \"max\": %.3f}", (double)latency->max_ns / 1e3);
}

void perf_json_stats(FILE *out, const struct perf *perf)
{
	struct stats stats;

	gather(perf, &stats);
	fprintf(out, ",\n  \"library\": {");
	for (unsigned int i = 0; i < COUNTS; i++)
		fprintf(out, "%s\n    \"%s\": %" PRIu64, i ? "," : "", stats.counts[i].name, stats.counts[i].value);
	for (unsigned int i = 0; i < KINDS; i++)
		if (stats.latency[i].count)
			json_latency(out, kinds[i].json, &stats.latency[i]);
	fprintf(out, "\n  }");
}
