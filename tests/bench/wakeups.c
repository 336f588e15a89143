/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * wakeups - one I/O for each arm, many times: a lost wake-up is a sleep that does not end.
 *
 *   wakeups [-n rounds] [-j ns] [-l latency_us] [-w] [-r uri]
 *
 * -j: before the first poll up to so many nanoseconds go by, another number in each round, so that
 * the response comes now before the poll, now between poll and arm, now between arm and sleep. -w: by
 * nvmfr_wait() instead of poll, arm, sleep. Without -r the target is an embedded one with a thread of its
 * own, with -l that late. Nothing else ends a sleep: no keep-alive, no I/O timeout. Prints how often it
 * slept; exit status 1 when a sleep lasted HANG_MS.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <nvmfr/nvmfr.h>
#include <nvmfr/soft.h>

enum { HANG_MS = 20000,
       BLOCK = 512 };

static struct {
	uint64_t rounds, jitter_ns;
	uint32_t latency_us;
	bool wait;
	const char *uri;
} conf = { .rounds = 200000, .jitter_ns = 4000 };

struct job {
	struct nvmfr_qpair *qp;
	struct nvmfr_buffer *buf;
	uint64_t round, sleeps, at_once; /* at_once: arm said that something is there */
	long switches; /* voluntary ones of its thread: also nvmfr_wait()'s sleeps */
};

static void check(int result, const char *what)
{
	if (result >= 0)
		return;
	fprintf(stderr, "wakeups: %s: %s: %s\n", what, nvmfr_strerror(result), nvmfr_last_error());
	exit(1);
}

static void hung(const struct job *job)
{
	fprintf(stderr, "wakeups: round %llu: asleep for %d ms: a wake-up was lost\n",
		(unsigned long long)job->round, HANG_MS);
	exit(1);
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Golden ratio steps: every part of the interval has its turn. */
static void linger(uint64_t round)
{
	uint64_t until = now_ns() +
			 (conf.jitter_ns ? round * UINT64_C(0x9e3779b1) % (conf.jitter_ns + 1) : 0);

	while (now_ns() < until)
		;
}

static void sleep_on(struct job *job)
{
	struct pollfd fd = { .fd = nvmfr_qpair_fd(job->qp), .events = POLLIN };
	int armed = nvmfr_qpair_arm(job->qp);

	check(armed, "arm");
	if (armed) {
		job->at_once++;
		return;
	}
	job->sleeps++;
	if (poll(&fd, 1, HANG_MS) == 0)
		hung(job);
}

static void collect(struct job *job)
{
	struct nvmfr_completion done;
	int n;

	if (conf.wait) {
		n = nvmfr_wait(job->qp, &done, 1, 1, HANG_MS);
		if (n == 0)
			hung(job);
	} else {
		while ((n = nvmfr_poll(job->qp, &done, 1)) == 0)
			sleep_on(job);
	}
	check(n, "collect");
	check(done.result, "read");
}

static void *job_run(void *arg)
{
	struct job *job = arg;
	struct rusage usage;

	check(nvmfr_qpair_fd(job->qp), "descriptor");
	for (job->round = 0; job->round < conf.rounds; job->round++) {
		check(nvmfr_read(job->qp, 1, 0, 1, job->buf, 0, 0), "read");
		linger(job->round);
		collect(job);
	}
	getrusage(RUSAGE_THREAD, &usage);
	job->switches = usage.ru_nvcsw;
	return NULL;
}

static struct nvmfr_soft_target *own_target(struct nvmfr_host *host)
{
	struct nvmfr_soft_target *target;
	struct nvmfr_soft_ns_opts ns;
	struct nvmfr_soft_opts opts;

	nvmfr_soft_opts_init(&opts, sizeof(opts));
	opts.flags = NVMFR_SOFT_THREAD;
	opts.latency_us = conf.latency_us;
	check(nvmfr_soft_target_create(host, "wakeups", &opts, &target), "target");
	nvmfr_soft_ns_opts_init(&ns, sizeof(ns));
	ns.size_bytes = 1 << 20;
	check(nvmfr_soft_ns_add(target, &ns), "namespace");
	conf.uri = "nvmf+soft://wakeups";
	return target;
}

static void parse(int argc, char **argv)
{
	for (int o; (o = getopt(argc, argv, "n:j:l:wr:")) != -1;) {
		switch (o) {
		case 'n': conf.rounds = strtoull(optarg, NULL, 0); break;
		case 'j': conf.jitter_ns = strtoull(optarg, NULL, 0); break;
		case 'l': conf.latency_us = (uint32_t)strtoul(optarg, NULL, 0); break;
		case 'w': conf.wait = true; break;
		case 'r': conf.uri = optarg; break;
		default: exit(2);
		}
	}
}

int main(int argc, char **argv)
{
	struct nvmfr_soft_target *target = NULL;
	struct nvmfr_ctrl_opts opts;
	struct nvmfr_qpair_opts qopts;
	struct nvmfr_host *host;
	struct nvmfr_ctrl *ctrl;
	struct job job = { 0 };
	pthread_t thread;

	parse(argc, argv);
	check(nvmfr_host_create(NULL, &host), "host");
	if (!conf.uri)
		target = own_target(host);
	nvmfr_ctrl_opts_init(&opts, sizeof(opts));
	opts.uri = conf.uri;
	opts.kato_ms = 0;
	check(nvmfr_connect(host, &opts, &ctrl), "connect");
	check(nvmfr_ctrl_wait(ctrl, -1), "connect");
	nvmfr_qpair_opts_init(&qopts, sizeof(qopts));
	qopts.depth = 8;
	qopts.io_timeout_ms = 0;
	check(nvmfr_qpair_create(ctrl, &qopts, &job.qp), "qpair");
	check(nvmfr_qpair_wait(job.qp, -1), "qpair");
	check(nvmfr_buffer_alloc(host, BLOCK, -1, &job.buf), "buffer");
	if (pthread_create(&thread, NULL, job_run, &job))
		return 1;
	pthread_join(thread, NULL);
	printf("%llu rounds: %llu sleeps, %llu were there when armed; %ld context switches\n",
	       (unsigned long long)job.round, (unsigned long long)job.sleeps,
	       (unsigned long long)job.at_once, job.switches);
	nvmfr_qpair_destroy(job.qp);
	check(nvmfr_buffer_release(job.buf), "release");
	check(nvmfr_disconnect(ctrl, 1000), "disconnect");
	nvmfr_soft_target_destroy(target);
	nvmfr_host_destroy(host);
	return 0;
}
