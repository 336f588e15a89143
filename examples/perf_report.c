/* SPDX-License-Identifier: BSD-3-Clause */
/* The sums over all threads, and the report in text. */
#include "perf.h"

#include "perf_verify.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

const double perf_percentiles[PERCENTILES] = { 50, 90, 99, 99.9, 99.99 };

static void add_worker(struct total *total, const struct worker *w)
{
	struct nvmfr_qpair_info info = { .size = sizeof(info) };

	total->reads += w->reads;
	total->writes += w->writes;
	total->errors += w->errors;
	total->cpu_ns += w->cpu_ns;
	total->user_us += w->user_us;
	total->system_us += w->system_us;
	total->switches += w->switches;
	if (!nvmfr_qpair_info(w->qp, &info))
		total->bounced_bytes += info.bounced_bytes;
	if (!total->depth || w->depth < total->depth)
		total->depth = w->depth;
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

/* Each node once, in order; those that no longer fit in the text are left out. */
static void list_nodes(const struct perf *perf, char *text, size_t bytes)
{
	unsigned int next = 0, node;
	size_t used = 0;

	do {
		node = UINT_MAX;
		for (uint64_t i = 0; i < perf->opts.threads; i++)
			if (perf->workers[i].numa_node >= next && perf->workers[i].numa_node < node)
				node = perf->workers[i].numa_node;
		if (node == UINT_MAX)
			return;
		used += (size_t)snprintf(text + used, bytes - used, "%s%u", used ? " " : "", node);
		next = node + 1;
	} while (used + 12 < bytes);
}

void perf_count_checks(const struct perf *perf, struct total *total)
{
	total->checked = total->mismatches = 0;
	for (uint64_t i = 0; i < perf->opts.threads; i++) {
		const struct verify *verify = perf->workers[i].verify;

		total->checked += verify ? verify->checked : 0;
		total->mismatches += verify ? verify->mismatches : 0;
	}
}

int perf_sum_up(const struct perf *perf, struct total *total)
{
	const struct perf_opts *opts = &perf->opts;

	*total = (struct total){ 0 };
	if (opts->latency && !(total->latency = calloc(1, sizeof(*total->latency)))) {
		fprintf(stderr, "nvmfr-perf: out of memory\n");
		return -ENOMEM;
	}
	for (uint64_t i = 0; i < opts->threads; i++)
		add_worker(total, &perf->workers[i]);
	total->ios = total->reads + total->writes;
	total->seconds = elapsed(perf->workers, opts->threads);
	total->iops = (double)total->ios / total->seconds;
	total->gib_per_s = total->iops * (double)opts->io_bytes / GIB;
	if (total->ios)
		total->cpu_us_per_io = (double)total->cpu_ns / 1e3 / (double)total->ios;
	list_nodes(perf, total->numa_nodes, sizeof(total->numa_nodes));
	perf_count_checks(perf, total);
	return 0;
}

double perf_mean_us(const struct histogram *hist)
{
	return hist->count ? (double)hist->sum / (double)hist->count / 1e3 : 0;
}

static void text_latency(const struct histogram *hist)
{
	printf("latency   min %.2f, mean %.2f", (double)hist->min / 1e3, perf_mean_us(hist));
	for (size_t i = 0; i < PERCENTILES; i++)
		printf(", p%g %.2f", perf_percentiles[i],
		       (double)hist_percentile(hist, perf_percentiles[i]) / 1e3);
	printf(", max %.2f us\n", (double)hist->max / 1e3);
}

static void text_verify(const struct perf *perf, const struct total *total)
{
	const struct perf_opts *opts = &perf->opts;
	const uint64_t io_blocks = opts->io_bytes / perf->ns.block_bytes;

	printf("verify    %s with --seed %" PRIu64 ", LBA %" PRIu64 " to %" PRIu64 ": %" PRIu64
	       " reads checked, %" PRIu64 " with wrong data\n",
	       perf_verify_name(opts->verify), opts->seed, opts->lba,
	       opts->lba + perf->range_blocks / io_blocks * io_blocks - 1, total->checked, total->mismatches);
}

static void text_numa(const struct perf *perf, const struct total *total)
{
	int node = perf->ctrl.numa_node;

	printf("NUMA      threads on node %s, device ", total->numa_nodes);
	if (node < 0)
		printf("on none that is known\n");
	else
		printf("on node %d\n", node);
}

static void text_report(const struct perf *perf, const struct total *total)
{
	const struct perf_opts *opts = &perf->opts;

	printf("target    %s on %s, namespace %" PRIu32 ": %" PRIu64 " blocks of %" PRIu32 " bytes\n", opts->uri,
	       perf->ctrl.device, perf->ns.nsid, perf->ns.capacity_blocks, perf->ns.block_bytes);
	printf("workload  %s, %" PRIu64 " bytes", opts->workload, opts->io_bytes);
	if (opts->pieces > 1)
		printf(" in %" PRIu64 " pieces", opts->pieces);
	printf(", depth %u, batch %" PRIu64 ", %" PRIu64 " threads, %.2f s\n", total->depth, opts->batch,
	       opts->threads, total->seconds);
	printf("result    %.0f IOPS, %.3f GiB/s, %" PRIu64 " reads, %" PRIu64 " writes, %" PRIu64 " errors\n",
	       total->iops, total->gib_per_s, total->reads, total->writes, total->errors);
	if (total->latency)
		text_latency(total->latency);
	printf("CPU       %.3f us per I/O (time of the polling threads); user %.3f s, system %.3f s, %" PRIu64
	       " context switches\n",
	       total->cpu_us_per_io, (double)total->user_us / 1e6, (double)total->system_us / 1e6, total->switches);
	text_numa(perf, total);
	printf("copies    %" PRIu64 " bytes copied by this host's CPU\n", total->bounced_bytes);
	if (opts->verify)
		text_verify(perf, total);
	if (opts->stats)
		perf_text_stats(perf);
	if (opts->plot && total->latency)
		perf_plot_percentiles(total->latency);
	if (opts->histogram && total->latency)
		perf_plot_histogram(total->latency);
}

static int save(const struct perf *perf, const struct total *total)
{
	FILE *file = fopen(perf->opts.save, "we");
	bool good;

	if (file) {
		perf_write_json(file, perf, total);
		good = !ferror(file);
		if (!fclose(file) && good)
			return 0;
	}
	fprintf(stderr, "nvmfr-perf: --save %s: %s\n", perf->opts.save, strerror(errno));
	return -EIO;
}

/* One sentence on stderr for the first failed I/O or lost connection, and for the first wrong data. */
static void report_trouble(const struct perf *perf)
{
	const char *failure = "", *wrong = "";

	for (uint64_t i = 0; i < perf->opts.threads; i++) {
		const struct worker *w = &perf->workers[i];

		if (!*failure)
			failure = w->failure;
		if (!*wrong && w->verify)
			wrong = w->verify->failure;
	}
	if (*wrong)
		fprintf(stderr, "nvmfr-perf: wrong data: %s\n", wrong);
	if (*failure)
		fprintf(stderr, "nvmfr-perf: first failure: %s\n", failure);
}

int perf_report(const struct perf *perf, const struct total *total)
{
	switch (perf->opts.format) {
	case FORMAT_TEXT: text_report(perf, total); break;
	case FORMAT_CSV: perf_write_csv(stdout, perf, total); break;
	case FORMAT_JSON: perf_write_json(stdout, perf, total); break;
	}
	report_trouble(perf);
	if (fflush(stdout)) {
		perror("nvmfr-perf: stdout");
		return -EIO;
	}
	return perf->opts.save ? save(perf, total) : 0;
}
