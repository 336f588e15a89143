/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nvmfr-perf: how fast is it? Threads with a queue pair each keep a number of I/Os in flight for a
 * time or a count. The loop (perf_worker.c) allocates nothing and makes no system call of its own.
 */
#include "perf.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

static atomic_bool stop;
static volatile sig_atomic_t interrupted;
static int wake_fd = -1; /* counts threads that ended; a signal rings it too */

struct perf {
	struct perf_opts opts;
	struct session session;
	struct nvmfr_ctrl_info ctrl;
	struct nvmfr_ns_info ns;
	struct worker *workers;
};

static void on_signal(int number)
{
	uint64_t ring = 1;

	(void)number;
	interrupted = 1;
	if (write(wake_fd, &ring, sizeof(ring)) < 0)
		atomic_store(&stop, true);
}

/* The second Ctrl-C ends the program as usual. */
static void catch_signals(void)
{
	struct sigaction action = { .sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND };

	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
}

static int check_size(const struct perf *perf)
{
	uint64_t shares = perf->opts.random ? 1 : perf->opts.threads;
	uint64_t capacity = perf->ns.capacity_blocks / shares * perf->ns.block_bytes;

	if (perf->opts.io_bytes % perf->ns.block_bytes) {
		fprintf(stderr, "nvmfr-perf: --io-size %" PRIu64 " is no multiple of a block, %" PRIu32 " bytes\n",
			perf->opts.io_bytes, perf->ns.block_bytes);
		return -EINVAL;
	}
	if (perf->opts.io_bytes > capacity) {
		fprintf(stderr, "nvmfr-perf: --io-size %" PRIu64 " exceeds a thread's share, %" PRIu64 " bytes\n",
			perf->opts.io_bytes, capacity);
		return -ERANGE;
	}
	return 0;
}

/* Sequential workloads divide the namespace among the threads; random ones use all of it. */
static void set_range(const struct perf *perf, struct worker *w, uint64_t index)
{
	uint64_t places = perf->ns.capacity_blocks / w->io_blocks;

	if (perf->opts.random) {
		w->places = places;
		return;
	}
	w->places = places / perf->opts.threads;
	w->first = index * w->places;
}

static uint64_t share_of_count(const struct perf_opts *opts, uint64_t index)
{
	if (!opts->count)
		return UINT64_MAX;
	return opts->count / opts->threads + (index < opts->count % opts->threads);
}

/* Ends with every slot free and every byte of the buffer touched, for the loop must not fault. */
static int prepare_memory(const struct perf *perf, struct worker *w)
{
	size_t bytes = w->depth * perf->opts.io_bytes;
	int err;

	w->free_slots = calloc(w->depth, sizeof(*w->free_slots));
	w->submitted_ns = calloc(w->depth, sizeof(*w->submitted_ns));
	w->latency = perf->opts.latency ? calloc(1, sizeof(*w->latency)) : NULL;
	if (!w->free_slots || !w->submitted_ns || (perf->opts.latency && !w->latency)) {
		fprintf(stderr, "nvmfr-perf: out of memory\n");
		return -ENOMEM;
	}
	for (w->free_count = 0; w->free_count < w->depth; w->free_count++)
		w->free_slots[w->free_count] = (uint16_t)w->free_count;
	err = nvmfr_buffer_alloc(perf->session.host, bytes, -1, &w->buf);
	if (err)
		return complain("buffer"), err;
	memset(nvmfr_buffer_addr(w->buf), 0xa5, bytes);
	return 0;
}

static int prepare(struct perf *perf, struct worker *w, uint64_t index)
{
	struct nvmfr_qpair_info info = { .size = sizeof(info) };
	int err;

	w->opts = &perf->opts;
	w->stop = &stop;
	w->done_fd = wake_fd;
	w->nsid = perf->ns.nsid;
	w->io_blocks = perf->opts.io_bytes / perf->ns.block_bytes;
	w->random_state = 0x9e3779b97f4a7c15u * (index + 1);
	w->left = share_of_count(&perf->opts, index);
	set_range(perf, w, index);
	err = session_qpair(&perf->session, (unsigned int)perf->opts.depth, &w->qp);
	if (!err)
		err = nvmfr_qpair_info(w->qp, &info);
	if (err)
		return complain("queue pair"), err;
	w->depth = info.depth < perf->opts.depth ? info.depth : (unsigned int)perf->opts.depth;
	w->batch = w->depth < perf->opts.batch ? w->depth : (unsigned int)perf->opts.batch;
	return prepare_memory(perf, w);
}

static int set_up(struct perf *perf)
{
	size_t bytes = perf->opts.threads * sizeof(*perf->workers);
	int err;

	wake_fd = eventfd(0, EFD_CLOEXEC);
	perf->workers = aligned_alloc(_Alignof(struct worker), bytes);
	if (wake_fd < 0 || !perf->workers)
		return perror("nvmfr-perf"), -ENOMEM;
	memset(perf->workers, 0, bytes);
	err = session_open(&perf->session, perf->opts.uri);
	if (err)
		return complain(perf->opts.uri), err;
	err = session_namespace(&perf->session, (uint32_t)perf->opts.nsid, &perf->ns);
	if (err)
		return complain("namespace"), err;
	perf->ctrl.size = sizeof(perf->ctrl);
	err = nvmfr_ctrl_info(perf->session.ctrl, &perf->ctrl);
	if (err)
		return complain("controller"), err;
	err = check_size(perf);
	for (uint64_t i = 0; !err && i < perf->opts.threads; i++)
		err = prepare(perf, &perf->workers[i], i);
	return err;
}

static void tear_down(struct perf *perf)
{
	for (uint64_t i = 0; perf->workers && i < perf->opts.threads; i++) {
		struct worker *w = &perf->workers[i];

		nvmfr_qpair_destroy(w->qp);
		if (nvmfr_buffer_release(w->buf))
			complain("release");
		free(w->free_slots);
		free(w->submitted_ns);
		free(w->latency);
	}
	free(perf->workers);
	session_close(&perf->session);
	close(wake_fd);
}

/* 0: the time is over. -1: there is none. */
static int left_ms(const struct perf_opts *opts, uint64_t start_ns)
{
	double left = opts->seconds - seconds_between(start_ns, clock_ns(CLOCK_MONOTONIC));

	if (opts->seconds <= 0)
		return -1;
	if (left <= 0)
		return 0;
	return left > 1000 ? 1000 * 1000 : (int)(left * 1000) + 1;
}

/* Until the time is over, a signal comes, or every thread has ended by itself. */
static void wait_for_end(const struct perf_opts *opts, uint64_t threads)
{
	uint64_t start = clock_ns(CLOCK_MONOTONIC), ended = 0;

	while (ended < threads && !interrupted) {
		struct pollfd ready = { .fd = wake_fd, .events = POLLIN };
		uint64_t count;
		int timeout_ms = left_ms(opts, start);

		if (timeout_ms == 0)
			return;
		if (poll(&ready, 1, timeout_ms) == 1 && !eventfd_read(wake_fd, &count))
			ended += count;
	}
}

static int run(struct perf *perf)
{
	uint64_t started = 0;
	int err = 0;

	catch_signals();
	for (; !err && started < perf->opts.threads; started += err ? 0 : 1)
		err = pthread_create(&perf->workers[started].thread, NULL, perf_worker,
				     &perf->workers[started]);
	if (err)
		fprintf(stderr, "nvmfr-perf: thread: %s\n", strerror(err));
	else
		wait_for_end(&perf->opts, started);
	atomic_store(&stop, true);
	for (uint64_t i = 0; i < started; i++)
		pthread_join(perf->workers[i].thread, NULL);
	return err;
}

static bool any_trouble(const struct perf *perf)
{
	for (uint64_t i = 0; i < perf->opts.threads; i++)
		if (perf->workers[i].lost || perf->workers[i].errors)
			return true;
	return false;
}

int main(int argc, char **argv)
{
	struct perf perf = { 0 };
	int status = perf_parse(argc, argv, &perf.opts);

	if (status >= 0)
		return status;
	status = set_up(&perf) || run(&perf);
	if (!status) {
		perf_report(&perf.opts, &perf.ctrl, &perf.ns, perf.workers, interrupted);
		status = any_trouble(&perf);
	}
	tear_down(&perf);
	return status;
}
