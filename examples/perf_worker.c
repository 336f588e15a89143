/* SPDX-License-Identifier: BSD-3-Clause */
#include "perf_worker.h"

#include "perf_verify.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>

static void fail(struct worker *w, const char *sentence)
{
	if (!*w->failure)
		snprintf(w->failure, sizeof(w->failure), "%s", sentence);
}

/* The library's own error, not an I/O's: its sentence says more than those of the I/Os that went with it. */
static void lose(struct worker *w)
{
	snprintf(w->failure, sizeof(w->failure), "%s", nvmfr_last_error());
	w->lost = true;
}

static void stamp(struct worker *w, unsigned int n, uint64_t now)
{
	for (unsigned int i = 0; i < n; i++)
		w->submitted_ns[*worker_slot(w, i)] = now;
}

/*
 * The loop is compiled twice, so that the one without --verify does not even ask for it: `verify` is a
 * constant in what follows.
 */
#define IN_LOOP static inline __attribute__((always_inline))

IN_LOOP unsigned int build(struct worker *w, struct nvmfr_io *ios, unsigned int want, bool verify)
{
	if (verify)
		return verify_build(w, ios, want);
	for (unsigned int i = 0; i < want; i++) {
		bool read = worker_next_is_read(w);

		worker_build(w, &ios[i], *worker_slot(w, i), worker_next_place(w, i), read);
	}
	return want;
}

IN_LOOP void submit(struct worker *w, bool verify)
{
	unsigned int room = w->free_count < w->batch ? w->free_count : w->batch;
	unsigned int want = room < w->left ? room : (unsigned int)w->left;
	struct nvmfr_io ios[MAX_BATCH];
	int n;

	want = build(w, ios, want, verify);
	if (!want)
		return;
	if (w->latency)
		stamp(w, want, clock_ns(CLOCK_MONOTONIC));
	n = nvmfr_submit(w->qp, ios, want);
	if (n < 0 && n != -EAGAIN)
		lose(w);
	if (verify)
		verify_undo(w, ios + (n < 0 ? 0 : n), want - (n < 0 ? 0 : (unsigned int)n));
	if (n < 0)
		return;
	w->free_first = (w->free_first + (unsigned int)n) % w->depth;
	w->free_count -= (unsigned int)n;
	w->left -= (unsigned int)n;
	w->position = (w->position + (unsigned int)n) % w->places;
}

static void finish(struct worker *w, const struct nvmfr_completion *done, uint64_t now)
{
	uint16_t slot = done->user_data & SLOT_MASK;

	*worker_slot(w, w->free_count++) = slot;
	if (done->result) {
		w->errors++;
		fail(w, completion_text(done));
		return;
	}
	if (done->user_data & WRITES)
		w->writes++;
	else
		w->reads++;
	if (w->latency)
		hist_add(w->latency, now - w->submitted_ns[slot]);
}

/* false: nothing will come any more. */
IN_LOOP bool collect(struct worker *w, bool verify)
{
	struct nvmfr_completion done[MAX_BATCH];
	int n = nvmfr_poll(w->qp, done, w->batch);
	uint64_t now = n > 0 && w->latency ? clock_ns(CLOCK_MONOTONIC) : 0;

	if (n < 0)
		lose(w);
	if (verify && n > 0)
		verify_collect(w, done, (unsigned int)n);
	for (int i = 0; i < n; i++)
		finish(w, &done[i], now);
	return n >= 0;
}

static bool stopped(const struct worker *w)
{
	return atomic_load_explicit(w->stop, memory_order_relaxed);
}

IN_LOOP void loop(struct worker *w, bool verify)
{
	/* Waiting for room for a whole batch keeps the batches whole. */
	while (!w->lost && w->left && !stopped(w)) {
		if (w->free_count >= w->batch || w->free_count >= w->left)
			submit(w, verify);
		if (!w->lost)
			collect(w, verify);
	}
	while (w->free_count < w->depth && collect(w, verify))
		;
}

static uint64_t microseconds(struct timeval time)
{
	return (uint64_t)time.tv_sec * 1000000u + (uint64_t)time.tv_usec;
}

/* What the thread has used since `before`. */
static void account(struct worker *w, const struct rusage *before)
{
	struct rusage now;

	w->cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID) - w->cpu_ns;
	getrusage(RUSAGE_THREAD, &now);
	w->user_us = microseconds(now.ru_utime) - microseconds(before->ru_utime);
	w->system_us = microseconds(now.ru_stime) - microseconds(before->ru_stime);
	w->switches = (uint64_t)(now.ru_nvcsw - before->ru_nvcsw) + (uint64_t)(now.ru_nivcsw - before->ru_nivcsw);
	if (getcpu(NULL, &w->numa_node))
		w->numa_node = 0;
}

void *perf_worker(void *arg)
{
	struct worker *w = arg;
	struct rusage before;

	getrusage(RUSAGE_THREAD, &before);
	w->cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	w->start_ns = clock_ns(CLOCK_MONOTONIC);
	if (w->verify)
		loop(w, true);
	else
		loop(w, false);
	w->end_ns = clock_ns(CLOCK_MONOTONIC);
	account(w, &before);
	if (eventfd_write(w->done_fd, 1))
		fail(w, strerror(errno));
	return NULL;
}
