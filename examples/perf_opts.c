/* SPDX-License-Identifier: BSD-3-Clause */
#include "perf.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
	"usage: nvmfr-perf [options] -r URI\n"
	"  -r, --uri URI           target, as nvmf+rdma://ADDRESS/SUBNQN or nvmf+soft:?size=64M\n"
	"  -w, --workload NAME     read, write, randread, randwrite, rw, randrw (default randread);\n"
	"                          writing overwrites what the namespace holds\n"
	"  -M, --mix PERCENT       reads among the I/Os of rw and randrw (default 50)\n"
	"  -o, --io-size BYTES     size of one I/O (default 4K)\n"
	"  -q, --depth N           I/Os in flight on a queue pair (default 128)\n"
	"  -b, --batch N           I/Os submitted and collected at once (default: a quarter of -q,\n"
	"                          at most 32)\n"
	"  -c, --threads N         threads, each with a queue pair (default 1); a hexadecimal core mask\n"
	"                          gives as many threads as it has bits\n"
	"  -t, --time SECONDS      how long (default 10 unless -n is given)\n"
	"  -n, --count N           I/Os in all\n"
	"  -L, --latency on|off    off spares the clock reading at each submit and poll (default on)\n"
	"  -j, --json              JSON instead of text\n"
	"      --nsid N            namespace (default: the first)\n"
	"Aliases: --iodepth, --queue-depth, --block-size, --bs, --rw, --numjobs, --runtime.\n";

struct workload {
	const char *name;
	uint64_t read_percent;
	bool random, mixed;
};

static const struct workload workloads[] = {
	{ "read", 100, false, false },
	{ "write", 0, false, false },
	{ "randread", 100, true, false },
	{ "randwrite", 0, true, false },
	{ "rw", 0, false, true },
	{ "randrw", 0, true, true },
};

static const struct option longs[] = {
	{ "uri", required_argument, NULL, 'r' },
	{ "workload", required_argument, NULL, 'w' },
	{ "rw", required_argument, NULL, 'w' },
	{ "mix", required_argument, NULL, 'M' },
	{ "io-size", required_argument, NULL, 'o' },
	{ "block-size", required_argument, NULL, 'o' },
	{ "bs", required_argument, NULL, 'o' },
	{ "depth", required_argument, NULL, 'q' },
	{ "iodepth", required_argument, NULL, 'q' },
	{ "queue-depth", required_argument, NULL, 'q' },
	{ "batch", required_argument, NULL, 'b' },
	{ "threads", required_argument, NULL, 'c' },
	{ "numjobs", required_argument, NULL, 'c' },
	{ "time", required_argument, NULL, 't' },
	{ "runtime", required_argument, NULL, 't' },
	{ "count", required_argument, NULL, 'n' },
	{ "latency", required_argument, NULL, 'L' },
	{ "json", no_argument, NULL, 'j' },
	{ "nsid", required_argument, NULL, 'N' },
	{ "help", no_argument, NULL, 'h' },
	{ 0 },
};

static bool parse_seconds(const char *text, double *out)
{
	char *end;

	*out = strtod(text, &end);
	if (end != text && !*end && *out > 0 && *out <= 1e7)
		return true;
	fprintf(stderr, "nvmfr-perf: --time: '%s' is not a time in seconds above 0\n", text);
	return false;
}

static bool parse_threads(const char *text, uint64_t *out)
{
	if (strncmp(text, "0x", 2))
		return parse_bytes("--threads", text, 1, MAX_THREADS, out);
	if (!parse_bytes("--threads", text, 1, UINT64_MAX, out))
		return false;
	*out = (uint64_t)__builtin_popcountll(*out);
	return true;
}

static bool parse_switch(const char *text, bool *out)
{
	*out = !strcmp(text, "on");
	if (*out || !strcmp(text, "off"))
		return true;
	fprintf(stderr, "nvmfr-perf: --latency: '%s' is neither on nor off\n", text);
	return false;
}

static bool option(struct perf_opts *opts, int opt)
{
	switch (opt) {
	case 'r': opts->uri = optarg; return true;
	case 'w': opts->workload = optarg; return true;
	case 'M': return parse_bytes("--mix", optarg, 0, 100, &opts->read_percent);
	case 'o': return parse_bytes("--io-size", optarg, 512, 1 << 30, &opts->io_bytes);
	case 'q': return parse_bytes("--depth", optarg, 1, 4095, &opts->depth);
	case 'b': return parse_bytes("--batch", optarg, 1, MAX_BATCH, &opts->batch);
	case 'c': return parse_threads(optarg, &opts->threads);
	case 't': return parse_seconds(optarg, &opts->seconds);
	case 'n': return parse_bytes("--count", optarg, 1, INT64_MAX, &opts->count);
	case 'L': return parse_switch(optarg, &opts->latency);
	case 'j': return opts->json = true;
	case 'N': return parse_bytes("--nsid", optarg, 1, UINT32_MAX - 1, &opts->nsid);
	default: fputs(usage, stderr); return false;
	}
}

static bool choose_workload(struct perf_opts *opts)
{
	for (size_t i = 0; i < ARRAY_SIZE(workloads); i++) {
		const struct workload *workload = &workloads[i];

		if (strcmp(workload->name, opts->workload))
			continue;
		opts->random = workload->random;
		if (!workload->mixed)
			opts->read_percent = workload->read_percent;
		return true;
	}
	fprintf(stderr, "nvmfr-perf: --workload: '%s' is none of read, write, randread, randwrite, rw, "
			"randrw\n",
		opts->workload);
	return false;
}

static void fill_defaults(struct perf_opts *opts)
{
	if (opts->seconds <= 0 && !opts->count)
		opts->seconds = 10;
	if (!opts->batch)
		opts->batch = opts->depth >= 128 ? 32 : (opts->depth + 3) / 4;
	if (opts->batch > opts->depth)
		opts->batch = opts->depth;
}

int perf_parse(int argc, char **argv, struct perf_opts *opts)
{
	int opt;

	*opts = (struct perf_opts){
		.workload = "randread",
		.io_bytes = 4096,
		.depth = 128,
		.threads = 1,
		.read_percent = 50,
		.latency = true,
	};
	while ((opt = getopt_long(argc, argv, "r:w:M:o:q:b:c:t:n:L:jh", longs, NULL)) != -1) {
		if (opt == 'h')
			return fputs(usage, stdout), 0;
		if (!option(opts, opt))
			return 2;
	}
	if (optind != argc || !opts->uri)
		return fputs(usage, stderr), 2;
	if (!choose_workload(opts))
		return 2;
	fill_defaults(opts);
	return -1;
}
