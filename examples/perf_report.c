/* SPDX-License-Identifier: BSD-3-Clause */
#include "perf.h"

#include <inttypes.h>
#include <stdlib.h>

struct total {
	uint64_t ios, reads, writes, errors, cpu_ns, bounced_bytes;
	double seconds, iops, gib_per_s, cpu_us_per_io;
	unsigned int depth;
	const char *failure;
	struct histogram *latency; /* NULL: not measured */
};

static const double percentiles[] = { 50, 90, 99, 99.9, 99.99 };

static void add_worker(struct total *total, const struct worker *w)
{
	struct nvmfr_qpair_info info = { .size = sizeof(info) };

	total->reads += w->reads;
	total->writes += w->writes;
	total->errors += w->errors;
	total->cpu_ns += w->cpu_ns;
	if (!nvmfr_qpair_info(w->qp, &info))
		total->bounced_bytes += info.bounced_bytes;
	if (!total->depth || w->depth < total->depth)
		total->depth = w->depth;
	if (!total->failure && *w->failure)
		total->failure = w->failure;
	if (w->latency && total->latency)
		hist_merge(total->latency, w->latency);
}

/* From the first thread's start to the last one's end. */
static double elapsed(const struct worker *workers, uint64_t count)
{
	uint64_t start = workers[0].start_ns, end = workers[0].end_ns;

	for (uint64_t i = 1; i < count; i++) {
		start = workers[i].start_ns < start ? workers[i].start_ns : start;
		end = workers[i].end_ns > end ? workers[i].end_ns : end;
	}
	return seconds_between(start, end);
}

static struct total sum_up(const struct perf_opts *opts, const struct worker *workers)
{
	struct total total = { 0 };

	if (opts->latency)
		total.latency = calloc(1, sizeof(*total.latency));
	for (uint64_t i = 0; i < opts->threads; i++)
		add_worker(&total, &workers[i]);
	total.ios = total.reads + total.writes;
	total.seconds = elapsed(workers, opts->threads);
	total.iops = (double)total.ios / total.seconds;
	total.gib_per_s = total.iops * (double)opts->io_bytes / GIB;
	total.cpu_us_per_io = total.ios ? (double)total.cpu_ns / 1e3 / (double)total.ios : 0;
	return total;
}

static double mean_us(const struct histogram *hist)
{
	return hist->count ? (double)hist->sum / (double)hist->count / 1e3 : 0;
}

static void text_latency(const struct histogram *hist)
{
	printf("latency   min %.2f, mean %.2f", (double)hist->min / 1e3, mean_us(hist));
	for (size_t i = 0; i < ARRAY_SIZE(percentiles); i++)
		printf(", p%g %.2f", percentiles[i], (double)hist_percentile(hist, percentiles[i]) / 1e3);
	printf(", max %.2f us\n", (double)hist->max / 1e3);
}

static void text_report(const struct perf_opts *opts, const struct nvmfr_ctrl_info *ctrl,
			const struct nvmfr_ns_info *ns, const struct total *total)
{
	printf("target    %s on %s, namespace %" PRIu32 ": %" PRIu64 " blocks of %" PRIu32 " bytes\n",
	       opts->uri, ctrl->device, ns->nsid, ns->capacity_blocks, ns->block_bytes);
	printf("workload  %s, %" PRIu64 " bytes, depth %u, batch %" PRIu64 ", %" PRIu64
	       " threads, %.2f s\n",
	       opts->workload, opts->io_bytes, total->depth, opts->batch, opts->threads, total->seconds);
	printf("result    %.0f IOPS, %.3f GiB/s, %" PRIu64 " reads, %" PRIu64 " writes, %" PRIu64
	       " errors\n",
	       total->iops, total->gib_per_s, total->reads, total->writes, total->errors);
	if (total->latency)
		text_latency(total->latency);
	printf("CPU       %.3f us per I/O (time of the polling threads)\n", total->cpu_us_per_io);
	printf("copies    %" PRIu64 " bytes copied by this host's CPU\n", total->bounced_bytes);
}

static void json_latency(const struct histogram *hist)
{
	printf("  \"latency_us\": { \"min\": %.3f, \"mean\": %.3f", (double)hist->min / 1e3,
	       mean_us(hist));
	for (size_t i = 0; i < ARRAY_SIZE(percentiles); i++)
		printf(", \"p%g\": %.3f", percentiles[i],
		       (double)hist_percentile(hist, percentiles[i]) / 1e3);
	printf(", \"max\": %.3f },\n", (double)hist->max / 1e3);
}

static void json_report(const struct perf_opts *opts, const struct nvmfr_ctrl_info *ctrl,
			const struct nvmfr_ns_info *ns, const struct total *total)
{
	printf("{\n  \"uri\": ");
	json_string(stdout, opts->uri);
	printf(",\n  \"device\": ");
	json_string(stdout, ctrl->device);
	printf(",\n  \"nsid\": %" PRIu32 ", \"block_bytes\": %" PRIu32 ",\n", ns->nsid, ns->block_bytes);
	printf("  \"workload\": \"%s\", \"read_percent\": %" PRIu64 ",\n", opts->workload,
	       opts->read_percent);
	printf("  \"io_bytes\": %" PRIu64 ", \"depth\": %u, \"batch\": %" PRIu64 ", \"threads\": %" PRIu64
	       ",\n",
	       opts->io_bytes, total->depth, opts->batch, opts->threads);
	printf("  \"seconds\": %.6f, \"ios\": %" PRIu64 ", \"reads\": %" PRIu64 ", \"writes\": %" PRIu64
	       ", \"errors\": %" PRIu64 ",\n",
	       total->seconds, total->ios, total->reads, total->writes, total->errors);
	printf("  \"iops\": %.1f, \"gib_per_s\": %.6f,\n", total->iops, total->gib_per_s);
	if (total->latency)
		json_latency(total->latency);
	printf("  \"cpu_us_per_io\": %.4f, \"bounced_bytes\": %" PRIu64 "\n}\n", total->cpu_us_per_io,
	       total->bounced_bytes);
}

void perf_report(const struct perf_opts *opts, const struct nvmfr_ctrl_info *ctrl,
		 const struct nvmfr_ns_info *ns, const struct worker *workers, bool interrupted)
{
	struct total total = sum_up(opts, workers);

	if (interrupted)
		fprintf(stderr, "nvmfr-perf: interrupted; what was done until then:\n");
	if (opts->json)
		json_report(opts, ctrl, ns, &total);
	else
		text_report(opts, ctrl, ns, &total);
	if (total.failure)
		fprintf(stderr, "nvmfr-perf: first failure: %s\n", total.failure);
	free(total.latency);
}
