/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nvmfr-perf: how fast is it, and is it right? Threads with a queue pair each keep a number of I/Os in
 * flight for a time or a count. The loop (perf_worker.c) allocates nothing and makes no system call of
 * its own.
 */
#include "perf.h"

#include "perf_verify.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum phase {
	PHASE_WORKLOAD,
	PHASE_FILL, /* each place of the range is written once */
	PHASE_CHECK, /* each is read once */
};

static volatile sig_atomic_t interrupted;
static int wake_fd = -1; /* counts threads that ended; a signal rings it too */

static void on_signal(int number)
{
	uint64_t ring = 1;
	ssize_t written = write(wake_fd, &ring, sizeof(ring));

	(void)number;
	(void)written;
	interrupted = 1;
}

/* The second Ctrl-C ends the program as usual. */
static void catch_signals(void)
{
	struct sigaction action = { .sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND };

	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
}

static uint64_t share_of_count(const struct perf_opts *opts, uint64_t index)
{
	if (!opts->count)
		return UINT64_MAX;
	return opts->count / opts->threads + (index < opts->count % opts->threads);
}

/* What the threads do next; counters begin anew. */
static void set_phase(struct perf *perf, enum phase phase)
{
	for (uint64_t i = 0; i < perf->opts.threads; i++) {
		struct worker *w = &perf->workers[i];

		w->random = phase == PHASE_WORKLOAD && perf->opts.random;
		w->read_percent = perf->opts.read_percent;
		if (phase != PHASE_WORKLOAD)
			w->read_percent = phase == PHASE_CHECK ? 100 : 0;
		w->left = phase == PHASE_WORKLOAD ? share_of_count(&perf->opts, i) : w->places;
		w->position = 0;
		w->reads = w->writes = 0;
		if (w->latency)
			memset(w->latency, 0, sizeof(*w->latency));
	}
}

/* 0: the time is over. -1: there is none. */
static int left_ms(double seconds, uint64_t start_ns)
{
	double left = seconds - seconds_between(start_ns, clock_ns(CLOCK_MONOTONIC));

	if (seconds <= 0)
		return -1;
	if (left <= 0)
		return 0;
	return left > 1000 ? 1000 * 1000 : (int)(left * 1000) + 1;
}

/* Until the time is over, a signal comes, or every thread has ended by itself. */
static void wait_for_end(double seconds, uint64_t threads)
{
	uint64_t start = clock_ns(CLOCK_MONOTONIC), ended = 0;

	while (ended < threads && !interrupted) {
		struct pollfd ready = { .fd = wake_fd, .events = POLLIN };
		uint64_t count;
		int timeout_ms = left_ms(seconds, start);

		if (timeout_ms == 0)
			return;
		if (poll(&ready, 1, timeout_ms) == 1 && !eventfd_read(wake_fd, &count))
			ended += count;
	}
}

static int run(struct perf *perf, enum phase phase)
{
	uint64_t started = 0;
	eventfd_t late;
	int err = 0;

	set_phase(perf, phase);
	for (; !err && started < perf->opts.threads; started += err ? 0 : 1)
		err = pthread_create(&perf->workers[started].thread, NULL, perf_worker,
				     &perf->workers[started]);
	if (err)
		fprintf(stderr, "nvmfr-perf: thread: %s\n", strerror(err));
	else
		wait_for_end(phase == PHASE_WORKLOAD ? perf->opts.seconds : 0, started);
	atomic_store(&perf->stop, true);
	for (uint64_t i = 0; i < started; i++)
		pthread_join(perf->workers[i].thread, NULL);
	/* Threads that ended after the wait must not count for the next phase. */
	(void)eventfd_read(wake_fd, &late);
	atomic_store(&perf->stop, false);
	return err;
}

static bool any_trouble(const struct perf *perf)
{
	for (uint64_t i = 0; i < perf->opts.threads; i++) {
		const struct worker *w = &perf->workers[i];

		if (w->lost || w->errors || (w->verify && w->verify->mismatches))
			return true;
	}
	return false;
}

static bool go_on(const struct perf *perf)
{
	return !interrupted && !any_trouble(perf);
}

/* What is reported is the workload's, or that of the only phase there is. */
static int run_phases(struct perf *perf, struct total *total)
{
	static const enum phase firsts[] = {
		[VERIFY_OFF] = PHASE_WORKLOAD,
		[VERIFY_RUN] = PHASE_FILL,
		[VERIFY_FILL] = PHASE_FILL,
		[VERIFY_CHECK] = PHASE_CHECK,
	};
	bool more = perf->opts.verify == VERIFY_RUN;
	int err = run(perf, firsts[perf->opts.verify]);

	if (!err && more && go_on(perf))
		err = run(perf, PHASE_WORKLOAD);
	if (!err)
		err = perf_sum_up(perf, total);
	if (!err && more && go_on(perf)) {
		err = run(perf, PHASE_CHECK);
		perf_count_checks(perf, total);
	}
	return err;
}

static int measure(struct perf *perf)
{
	struct total total = { 0 };
	bool complete;
	int err;

	catch_signals();
	err = run_phases(perf, &total);
	if (err)
		return 1;
	if (interrupted)
		fprintf(stderr, "nvmfr-perf: interrupted; what was done until then:\n");
	err = perf_report(perf, &total);
	free(total.latency);
	complete = !interrupted || !perf->opts.verify;
	if (!complete)
		fprintf(stderr, "nvmfr-perf: --verify was interrupted, so not everything was looked at\n");
	return err || any_trouble(perf) || !complete;
}

int main(int argc, char **argv)
{
	struct perf perf = { 0 };
	int status = perf_parse(argc, argv, &perf.opts);

	if (status >= 0)
		return status;
	if (perf.opts.compare[0])
		return perf_compare(perf.opts.compare[0], perf.opts.compare[1]);
	wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (wake_fd < 0)
		return perror("nvmfr-perf: eventfd"), 1;
	status = perf_set_up(&perf, wake_fd) ? 1 : measure(&perf);
	perf_tear_down(&perf);
	close(wake_fd);
	return status;
}
