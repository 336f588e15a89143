/* SPDX-License-Identifier: BSD-3-Clause */
#include "perf.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>

/* Options without a letter. */
enum {
	OPT_NSID = 256,
	OPT_LBA,
	OPT_LENGTH,
	OPT_VERIFY,
	OPT_SEED,
	OPT_OVERWRITE,
	OPT_FORMAT,
	OPT_SAVE,
	OPT_HISTOGRAM,
	OPT_PLOT,
	OPT_STATS,
	OPT_COMPARE,
};

static const char usage[] =
	"usage: nvmfr-perf [options] -r URI\n"
	"       nvmfr-perf --compare A.json B.json\n"
	"What is done:\n"
	"  -r, --uri URI           target, as nvmf+rdma://ADDRESS/SUBNQN or nvmf+soft:?size=64M\n"
	"  -w, --workload NAME     read, write, randread, randwrite, rw, randrw (default randread; with\n"
	"                          --verify randrw); writing overwrites what the namespace holds\n"
	"  -M, --mix PERCENT       reads among the I/Os of rw and randrw (default 50)\n"
	"  -o, --io-size BYTES     size of one I/O (default 4K)\n"
	"  -p, --pieces N          pieces of memory of one I/O, 1 to 16 (default 1); above 1 the I/O is\n"
	"                          vectored\n"
	"  -q, --depth N           I/Os in flight on a queue pair (default 128)\n"
	"  -b, --batch N           I/Os submitted and collected at once (default: a quarter of -q,\n"
	"                          at most 32)\n"
	"  -c, --threads N         threads, each with a queue pair (default 1); a hexadecimal core mask\n"
	"                          gives as many threads as it has bits\n"
	"  -t, --time SECONDS      how long (default 10 unless -n is given)\n"
	"  -n, --count N           I/Os in all\n"
	"  -L, --latency on|off    off spares the clock reading at each submit and poll (default on)\n"
	"      --nsid N            namespace (default: the first)\n"
	"      --lba N             first block of the part that is used (default 0)\n"
	"      --length BYTES      length of that part (default: to the namespace's end)\n"
	"Whether it is right:\n"
	"      --verify[=MODE]     run (default): fills the part with a pattern, runs the workload with\n"
	"                          every byte of every read checked, then reads and checks all of it;\n"
	"                          fill: only fills; check: only checks what fill wrote with that --seed.\n"
	"                          Wrong data ends it, says where and what, with exit status 1\n"
	"      --seed N            of the pattern, 0 to 2^32 - 1 (default: another one each time)\n"
	"      --overwrite         the namespace may be written over: --verify writes only with this\n"
	"What is printed:\n"
	"  -j, --json              the same as --format json\n"
	"      --format FORMAT     text (default), csv or json\n"
	"      --save FILE         writes the JSON to FILE as well\n"
	"      --plot              text: latency by percentile, as bars\n"
	"      --histogram         text, json: how many I/Os took how long\n"
	"      --stats             text, json: what the library itself counted and measured, whose histograms\n"
	"                          the queue pairs keep then\n"
	"      --compare A B       two runs, saved as JSON, side by side; nothing else is done\n"
	"  -h, --help              this\n"
	"Aliases: --iodepth, --queue-depth, --block-size, --bs, --rw, --numjobs, --runtime.\n"
	"BYTES may end in K, M, G or T. Exit status: 0, 1 after failed I/O or wrong data, 2 for a mistake\n"
	"in the options.\n";

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
	{ "pieces", required_argument, NULL, 'p' },
	{ "nsid", required_argument, NULL, OPT_NSID },
	{ "lba", required_argument, NULL, OPT_LBA },
	{ "length", required_argument, NULL, OPT_LENGTH },
	{ "verify", optional_argument, NULL, OPT_VERIFY },
	{ "seed", required_argument, NULL, OPT_SEED },
	{ "overwrite", no_argument, NULL, OPT_OVERWRITE },
	{ "format", required_argument, NULL, OPT_FORMAT },
	{ "save", required_argument, NULL, OPT_SAVE },
	{ "histogram", no_argument, NULL, OPT_HISTOGRAM },
	{ "plot", no_argument, NULL, OPT_PLOT },
	{ "stats", no_argument, NULL, OPT_STATS },
	{ "compare", no_argument, NULL, OPT_COMPARE },
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

/* Which of the names; -1, with a sentence, when it is none. */
static int parse_name(const char *what, const char *text, const char *const *names, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (names[i] && !strcmp(names[i], text))
			return (int)i;
	fprintf(stderr, "nvmfr-perf: %s: '%s' is none of", what, text);
	for (size_t i = 0; i < count; i++)
		if (names[i])
			fprintf(stderr, " %s", names[i]);
	fputc('\n', stderr);
	return -1;
}

static const char *const verify_names[] = {
	[VERIFY_OFF] = NULL, /* to leave it out is to turn it off */
	[VERIFY_RUN] = "run",
	[VERIFY_FILL] = "fill",
	[VERIFY_CHECK] = "check",
};

const char *perf_verify_name(enum verify_mode mode)
{
	return mode ? verify_names[mode] : "off";
}

static bool parse_verify(const char *text, enum verify_mode *out)
{
	int mode = parse_name("--verify", text ? text : "run", verify_names, ARRAY_SIZE(verify_names));

	*out = mode < 0 ? VERIFY_OFF : (enum verify_mode)mode;
	return mode >= 0;
}

static bool parse_format(const char *text, enum perf_format *out)
{
	static const char *const names[] = {
		[FORMAT_TEXT] = "text",
		[FORMAT_CSV] = "csv",
		[FORMAT_JSON] = "json",
	};
	int format = parse_name("--format", text, names, ARRAY_SIZE(names));

	*out = format < 0 ? FORMAT_TEXT : (enum perf_format)format;
	return format >= 0;
}

static bool long_option(struct perf_opts *opts, int opt)
{
	switch (opt) {
	case OPT_NSID: return parse_bytes("--nsid", optarg, 1, UINT32_MAX - 1, &opts->nsid);
	case OPT_LBA: return parse_bytes("--lba", optarg, 0, UINT64_MAX, &opts->lba);
	case OPT_LENGTH: return parse_bytes("--length", optarg, 512, UINT64_MAX, &opts->length_bytes);
	case OPT_VERIFY: return parse_verify(optarg, &opts->verify);
	case OPT_SEED:
		opts->seed_given = true;
		return parse_bytes("--seed", optarg, 0, UINT32_MAX, &opts->seed);
	case OPT_OVERWRITE: return opts->overwrite = true;
	case OPT_FORMAT: return parse_format(optarg, &opts->format);
	case OPT_SAVE: opts->save = optarg; return true;
	case OPT_HISTOGRAM: return opts->histogram = true;
	case OPT_PLOT: return opts->plot = true;
	case OPT_STATS: return opts->stats = true;
	default: fputs(usage, stderr); return false;
	}
}

static bool option(struct perf_opts *opts, int opt)
{
	switch (opt) {
	case 'r': opts->uri = optarg; return true;
	case 'w': opts->workload = optarg; return true;
	case 'M': return parse_bytes("--mix", optarg, 0, 100, &opts->read_percent);
	case 'o': return parse_bytes("--io-size", optarg, 512, 1 << 30, &opts->io_bytes);
	case 'p': return parse_bytes("--pieces", optarg, 1, MAX_PIECES, &opts->pieces);
	case 'q': return parse_bytes("--depth", optarg, 1, 4095, &opts->depth);
	case 'b': return parse_bytes("--batch", optarg, 1, MAX_BATCH, &opts->batch);
	case 'c': return parse_threads(optarg, &opts->threads);
	case 't': return parse_seconds(optarg, &opts->seconds);
	case 'n': return parse_bytes("--count", optarg, 1, INT64_MAX, &opts->count);
	case 'L': return parse_switch(optarg, &opts->latency);
	case 'j': opts->format = FORMAT_JSON; return true;
	default: return long_option(opts, opt);
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

/* Says what is wrong. Returns false. */
static bool mistake(const char *sentence)
{
	fprintf(stderr, "nvmfr-perf: %s\n", sentence);
	return false;
}

static bool check_verify(const struct perf_opts *opts)
{
	bool alone = opts->verify == VERIFY_FILL || opts->verify == VERIFY_CHECK;

	if (!opts->verify && opts->seed_given)
		return mistake("--seed is --verify's");
	if (alone && (opts->workload || opts->count || opts->seconds > 0))
		return mistake("--verify=fill and --verify=check go over all of it once: no --workload, --count or "
			       "--time");
	if (opts->verify == VERIFY_CHECK && !opts->seed_given)
		return mistake("--verify=check needs the --seed that --verify=fill told");
	if (opts->verify && opts->verify != VERIFY_CHECK && !opts->overwrite)
		return mistake("--verify writes over the namespace (--lba and --length choose a part of it): add "
			       "--overwrite if what it holds may go");
	return true;
}

static bool check_pieces(const struct perf_opts *opts)
{
	if (opts->io_bytes % (opts->pieces * 8))
		return mistake("--pieces: the --io-size does not divide into so many pieces of whole 8 bytes");
	return true;
}

/* So that what an earlier run left behind is never taken for this one's. */
static uint64_t new_seed(void)
{
	uint64_t now = clock_ns(CLOCK_REALTIME);

	return (now ^ now >> 32) & UINT32_MAX;
}

static const char *const usual_workloads[] = {
	[VERIFY_OFF] = "randread",
	[VERIFY_RUN] = "randrw",
	[VERIFY_FILL] = "write",
	[VERIFY_CHECK] = "read",
};

static void fill_defaults(struct perf_opts *opts)
{
	if (!opts->workload)
		opts->workload = usual_workloads[opts->verify];
	if (opts->seconds <= 0 && !opts->count)
		opts->seconds = 10;
	if (!opts->batch)
		opts->batch = opts->depth >= 128 ? 32 : (opts->depth + 3) / 4;
	if (opts->batch > opts->depth)
		opts->batch = opts->depth;
	if (opts->verify && !opts->seed_given)
		opts->seed = new_seed();
}

/* What follows the options: two files with --compare, else nothing. */
static bool take_arguments(struct perf_opts *opts, char **arguments, int count, bool compare)
{
	if (!compare && !count && opts->uri)
		return true;
	if (compare && count == 2 && !opts->uri) {
		opts->compare[0] = arguments[0];
		opts->compare[1] = arguments[1];
		return true;
	}
	if (compare)
		return mistake("--compare takes two files, and no --uri");
	fputs(usage, stderr);
	return false;
}

int perf_parse(int argc, char **argv, struct perf_opts *opts)
{
	bool compare = false;
	int opt;

	*opts = (struct perf_opts){
		.io_bytes = 4096,
		.depth = 128,
		.threads = 1,
		.pieces = 1,
		.read_percent = 50,
		.latency = true,
	};
	while ((opt = getopt_long(argc, argv, "r:w:M:o:p:q:b:c:t:n:L:jh", longs, NULL)) != -1) {
		if (opt == 'h')
			return fputs(usage, stdout), 0;
		if (opt == OPT_COMPARE)
			compare = true;
		else if (!option(opts, opt))
			return 2;
	}
	if (!take_arguments(opts, argv + optind, argc - optind, compare))
		return 2;
	if (compare)
		return -1;
	if (!check_verify(opts) || !check_pieces(opts))
		return 2;
	fill_defaults(opts);
	return choose_workload(opts) ? -1 : 2;
}
