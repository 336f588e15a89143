/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef EXAMPLES_PERF_H
#define EXAMPLES_PERF_H

#include "common.h"
#include "perf_hist.h"

#include <pthread.h>
#include <stdatomic.h>

#define MAX_THREADS 256
#define MAX_BATCH   256

struct perf_opts {
	const char *uri, *workload;
	uint64_t io_bytes, count; /* count 0: until the time is over */
	uint64_t nsid, depth, batch, threads;
	uint64_t read_percent;
	double seconds; /* 0: until the count is reached */
	bool random, latency, json;
};

/* Fills opts, or says on stderr what is wrong. Returns an exit status, -1: go on. */
int perf_parse(int argc, char **argv, struct perf_opts *opts);

/* One thread with one queue pair. What the loop writes shares no cache line with a neighbour's. */
struct worker {
	_Alignas(128) const struct perf_opts *opts;
	struct nvmfr_qpair *qp;
	struct nvmfr_buffer *buf;
	const atomic_bool *stop;
	int done_fd; /* eventfd, told when the thread has ended */
	unsigned int depth, batch; /* as granted */
	uint32_t nsid, block_bytes;
	uint64_t io_blocks; /* blocks of one I/O */
	uint64_t first, places, position; /* sequential: its share of the namespace, in I/Os */
	uint64_t random_state;
	uint64_t left; /* I/Os still to submit */
	unsigned int free_count;
	uint16_t *free_slots;
	uint64_t *submitted_ns; /* by slot */
	struct histogram *latency;
	uint64_t reads, writes, errors;
	uint64_t start_ns, end_ns, cpu_ns;
	char failure[512]; /* the first one */
	bool lost; /* ended before its time */
	pthread_t thread;
};

void *perf_worker(void *arg);

void perf_report(const struct perf_opts *opts, const struct nvmfr_ctrl_info *ctrl,
		 const struct nvmfr_ns_info *ns, const struct worker *workers, bool interrupted);

#endif
