/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * idle [-s seconds] [-m ms] [-b burst] [-g us] [-r uri] - what a process pays that mostly sleeps in nvmfr_wait().
 *
 * Connects, then sleeps in nvmfr_wait() for so many seconds with a live controller and queue pair; with
 * -m it does one read every so many ms; with -b so many reads, -g apart, that one wait collects: with a
 * late target they complete one by one. Prints "N % of a processor, N switches a second": the whole
 * process, service thread and embedded target included.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <nvmfr/nvmfr.h>

enum { MAX_BURST = 128,
       BLOCK = 512 };

static struct {
	unsigned int seconds, every_ms, burst, gap_us;
	const char *uri;
} conf = { 5, 0, 1, 0, "nvmf+rdma://127.0.0.1/nqn.2026-01.null:nullnic" };

static void check(int result, const char *what)
{
	if (result >= 0)
		return;
	fprintf(stderr, "idle: %s: %s: %s\n", what, nvmfr_strerror(result), nvmfr_last_error());
	exit(1);
}

static double seconds(const struct timeval *t)
{
	return (double)t->tv_sec + (double)t->tv_usec / 1e6;
}

static double now_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void read_burst(struct nvmfr_qpair *qp, struct nvmfr_buffer *buf)
{
	struct nvmfr_completion done[MAX_BURST];

	for (unsigned int i = 0; i < conf.burst; i++) {
		double until = now_s() + conf.gap_us / 1e6;

		check(nvmfr_read(qp, 1, i, 1, buf, i * BLOCK, i), "read");
		while (now_s() < until)
			;
	}
	check(nvmfr_wait(qp, done, conf.burst, conf.burst, -1) - (int)conf.burst, "wait");
}

/* Between I/Os it sleeps in the library, too. */
static void live(struct nvmfr_qpair *qp, struct nvmfr_buffer *buf)
{
	struct nvmfr_completion done;
	double end = now_s() + conf.seconds;

	for (double left = conf.seconds; left > 0; left = end - now_s()) {
		int ms = (int)(left * 1000) + 1;

		if (conf.every_ms) {
			read_burst(qp, buf);
			ms = (int)conf.every_ms;
		}
		check(nvmfr_wait(qp, &done, 1, 1, ms), "wait");
	}
}

static void measure(struct nvmfr_qpair *qp, struct nvmfr_buffer *buf)
{
	struct rusage before, after;
	double begin = now_s(), took, used;

	getrusage(RUSAGE_SELF, &before);
	live(qp, buf);
	getrusage(RUSAGE_SELF, &after);
	took = now_s() - begin;
	used = seconds(&after.ru_utime) + seconds(&after.ru_stime) - seconds(&before.ru_utime) -
	       seconds(&before.ru_stime);
	printf("%.3f %% of a processor, %.1f switches a second\n", used / took * 100,
	       (double)(after.ru_nvcsw - before.ru_nvcsw) / took);
}

static void parse(int argc, char **argv)
{
	for (int o; (o = getopt(argc, argv, "s:m:b:g:r:")) != -1;) {
		switch (o) {
		case 's': conf.seconds = (unsigned int)atoi(optarg); break;
		case 'm': conf.every_ms = (unsigned int)atoi(optarg); break;
		case 'b': conf.burst = (unsigned int)atoi(optarg); break;
		case 'g': conf.gap_us = (unsigned int)atoi(optarg); break;
		case 'r': conf.uri = optarg; break;
		default: exit(2);
		}
	}
	if (!conf.burst || conf.burst > MAX_BURST)
		exit(2);
}

int main(int argc, char **argv)
{
	struct nvmfr_ctrl_opts opts;
	struct nvmfr_host *host;
	struct nvmfr_ctrl *ctrl;
	struct nvmfr_qpair *qp;
	struct nvmfr_buffer *buf;

	parse(argc, argv);
	check(nvmfr_host_create(NULL, &host), "host");
	nvmfr_ctrl_opts_init(&opts, sizeof(opts));
	opts.uri = conf.uri;
	check(nvmfr_connect(host, &opts, &ctrl), "connect");
	check(nvmfr_ctrl_wait(ctrl, -1), "connect");
	check(nvmfr_qpair_create(ctrl, NULL, &qp), "qpair");
	check(nvmfr_qpair_wait(qp, -1), "qpair");
	check(nvmfr_buffer_alloc(host, MAX_BURST * BLOCK, -1, &buf), "buffer");
	read_burst(qp, buf);
	measure(qp, buf);
	nvmfr_qpair_destroy(qp);
	check(nvmfr_buffer_release(buf), "release");
	check(nvmfr_disconnect(ctrl, 1000), "disconnect");
	nvmfr_host_destroy(host);
	return 0;
}
