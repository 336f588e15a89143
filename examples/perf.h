/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef EXAMPLES_PERF_H
#define EXAMPLES_PERF_H

#include "common.h"
#include "perf_hist.h"

#include <pthread.h>
#include <stdatomic.h>

#define MAX_THREADS 256
#define MAX_BATCH   256
#define MAX_PIECES  16

enum perf_format { FORMAT_TEXT, FORMAT_CSV, FORMAT_JSON };

enum verify_mode {
	VERIFY_OFF,
	VERIFY_RUN, /* fill, the workload with every read checked, then all of it once more */
	VERIFY_FILL,
	VERIFY_CHECK,
};

struct perf_opts {
	const char *uri, *workload;
	const char *compare[2]; /* files of two runs, instead of a run */
	const char *save; /* JSON goes there, too */
	uint64_t io_bytes, count; /* count 0: until the time is over */
	uint64_t nsid, depth, batch, threads, pieces;
	uint64_t lba, length_bytes; /* part of the namespace; length 0: to its end */
	uint64_t read_percent, seed;
	double seconds; /* 0: until the count is reached */
	bool random, latency, overwrite, histogram, plot, stats;
	bool seed_given;
	enum perf_format format;
	enum verify_mode verify;
};

/* Fills opts, or says on stderr what is wrong. Returns an exit status, -1: go on. */
int perf_parse(int argc, char **argv, struct perf_opts *opts);
const char *perf_verify_name(enum verify_mode mode);

/* user_data of an I/O: its slot, and whether it writes. */
#define WRITES	  (1u << 16)
#define SLOT_MASK 0xffffu

struct verify;

/* One thread with one queue pair. What the loop writes shares no cache line with a neighbour's. */
struct worker {
	_Alignas(128) const struct perf_opts *opts;
	struct nvmfr_qpair *qp;
	struct nvmfr_buffer *buf;
	struct nvmfr_iov *iovs; /* by slot, opts->pieces each; NULL: an I/O is one piece */
	struct verify *verify; /* NULL: data is not looked at */
	atomic_bool *stop;
	int done_fd; /* eventfd, told when the thread has ended */
	unsigned int depth, batch; /* as granted */
	uint32_t nsid, block_bytes;
	uint64_t io_blocks; /* blocks of one I/O */
	uint64_t first_lba; /* of its share of the range */
	uint64_t places, position; /* in I/Os */
	uint64_t random_state;
	uint64_t left; /* I/Os still to submit */
	uint64_t read_percent;
	bool random;
	/* A ring: every part of the buffer has its turn, so that none stays in the cache for being the last used. */
	unsigned int free_first, free_count;
	uint16_t *free_slots;
	uint64_t *submitted_ns; /* by slot */
	struct histogram *latency;
	uint64_t reads, writes, errors;
	uint64_t start_ns, end_ns, cpu_ns;
	uint64_t user_us, system_us, switches; /* as getrusage() has them: some kernels count in ticks */
	unsigned int numa_node; /* where it ran at the end */
	char failure[512]; /* the first one */
	bool lost; /* ended before its time */
	pthread_t thread;
};

void *perf_worker(void *arg);

static inline uint64_t worker_piece_bytes(const struct worker *w)
{
	return w->opts->io_bytes / w->opts->pieces;
}

/* The pieces of an I/O do not lie next to each other, unless the depth is 1. */
static inline uint64_t worker_piece_offset(const struct worker *w, uint16_t slot, uint64_t piece)
{
	return (piece * w->depth + slot) * worker_piece_bytes(w);
}

struct perf {
	struct perf_opts opts;
	struct session session;
	struct nvmfr_ctrl_info ctrl;
	struct nvmfr_ns_info ns;
	uint64_t range_blocks;
	struct worker *workers;
	atomic_bool stop;
};

/* wake_fd: told by each thread that ends. Returns 0 or -errno, said on stderr. */
int perf_set_up(struct perf *perf, int wake_fd);
void perf_tear_down(struct perf *perf);

#define PERCENTILES 5
extern const double perf_percentiles[PERCENTILES];

/* All threads of one phase together. */
struct total {
	uint64_t ios, reads, writes, errors, bounced_bytes;
	uint64_t checked, mismatches; /* of all phases */
	uint64_t cpu_ns, user_us, system_us, switches;
	double seconds, iops, gib_per_s, cpu_us_per_io;
	unsigned int depth;
	char numa_nodes[64]; /* of the threads, as "0 1" */
	struct histogram *latency; /* NULL: not measured */
};

/* 0 or -ENOMEM. */
int perf_sum_up(const struct perf *perf, struct total *total);
void perf_count_checks(const struct perf *perf, struct total *total);
double perf_mean_us(const struct histogram *hist);

/* As the options want it, to stdout and the file of --save. Returns 0 or -errno, said on stderr. */
int perf_report(const struct perf *perf, const struct total *total);

/* CSV: a line of names and a line of values. JSON: one object. doc/performance.md names the fields. */
void perf_write_csv(FILE *out, const struct perf *perf, const struct total *total);
void perf_write_json(FILE *out, const struct perf *perf, const struct total *total);

/* Text, with bars; block characters where stdout is a terminal that knows them, else ASCII. */
void perf_plot_percentiles(const struct histogram *hist);
void perf_plot_histogram(const struct histogram *hist);

/* What the library counted and measured, of queue pairs made with --stats. */
void perf_text_stats(const struct perf *perf);
void perf_json_stats(FILE *out, const struct perf *perf);

/* Two runs in JSON, side by side. Returns an exit status. */
int perf_compare(const char *a, const char *b);

#endif
