/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * wakeups - one I/O for each arm, many times: a lost wake-up is a sleep that does not end.
 *
 *   wakeups [-n rounds] [-j ns] [-l latency_us] [-g qpairs] [-w] [-r uri]
 *
 * -j: before the first poll up to so many nanoseconds go by, another number in each round, so that
 * the response comes now before the poll, now between poll and arm, now between arm and sleep. -w: by
 * nvmfr_wait() instead of poll, arm, sleep. -g: by a group of so many queue pairs, each in its turn;
 * it is made for one, so that they have several completion queues. Without -r the target is an
 * embedded one with a thread of its own, with -l that late. Nothing else ends a sleep: no keep-alive,
 * no I/O timeout. Prints how often it slept; exit status 1 when a sleep lasted HANG_MS.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/param.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <nvmfr/nvmfr.h>
#include <nvmfr/soft.h>

enum { HANG_MS = 20000,
       BLOCK = 512,
       MAX_QPAIRS = 64 };

static struct {
	uint64_t rounds, jitter_ns;
	uint32_t latency_us;
	unsigned int qpairs; /* in a group; 0: one on its own */
	bool wait;
	const char *uri;
} conf = { .rounds = 200000, .jitter_ns = 4000 };

struct job {
	struct nvmfr_group *group; /* NULL: qps[0] alone */
	struct nvmfr_qpair *qps[MAX_QPAIRS];
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

static int descriptor(const struct job *job)
{
	return job->group ? nvmfr_group_fd(job->group) : nvmfr_qpair_fd(job->qps[0]);
}

static void sleep_on(struct job *job)
{
	struct pollfd fd = { .fd = descriptor(job), .events = POLLIN };
	int armed = job->group ? nvmfr_group_arm(job->group) : nvmfr_qpair_arm(job->qps[0]);

	check(armed, "arm");
	if (armed) {
		job->at_once++;
		return;
	}
	job->sleeps++;
	if (poll(&fd, 1, HANG_MS) == 0)
		hung(job);
}

static int poll_once(struct job *job, struct nvmfr_completion *done)
{
	return job->group ? nvmfr_group_poll(job->group, done, 1) : nvmfr_poll(job->qps[0], done, 1);
}

static int wait_once(struct job *job, struct nvmfr_completion *done)
{
	return job->group ? nvmfr_group_wait(job->group, done, 1, 1, HANG_MS)
			  : nvmfr_wait(job->qps[0], done, 1, 1, HANG_MS);
}

static void collect(struct job *job)
{
	struct nvmfr_completion done;
	int n;

	if (conf.wait) {
		n = wait_once(job, &done);
		if (n == 0)
			hung(job);
	} else {
		while ((n = poll_once(job, &done)) == 0)
			sleep_on(job);
	}
	check(n, "collect");
	check(done.result, "read");
}

static void *job_run(void *arg)
{
	struct job *job = arg;
	struct rusage usage;

	check(descriptor(job), "descriptor");
	for (job->round = 0; job->round < conf.rounds; job->round++) {
		struct nvmfr_qpair *qp = job->qps[conf.qpairs ? job->round % conf.qpairs : 0];

		check(nvmfr_read(qp, 1, 0, 1, job->buf, 0, 0), "read");
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
	for (int o; (o = getopt(argc, argv, "n:j:l:g:wr:")) != -1;) {
		switch (o) {
		case 'n': conf.rounds = strtoull(optarg, NULL, 0); break;
		case 'j': conf.jitter_ns = strtoull(optarg, NULL, 0); break;
		case 'l': conf.latency_us = (uint32_t)strtoul(optarg, NULL, 0); break;
		case 'g': conf.qpairs = (unsigned int)strtoul(optarg, NULL, 0); break;
		case 'w': conf.wait = true; break;
		case 'r': conf.uri = optarg; break;
		default: exit(2);
		}
	}
	if (conf.qpairs > MAX_QPAIRS)
		exit(2);
}

static void make_qpairs(struct nvmfr_host *host, struct nvmfr_ctrl *ctrl, struct job *job)
{
	struct nvmfr_group_opts gopts;
	struct nvmfr_qpair_opts opts;

	nvmfr_qpair_opts_init(&opts, sizeof(opts));
	opts.depth = 8;
	opts.io_timeout_ms = 0;
	nvmfr_group_opts_init(&gopts, sizeof(gopts));
	gopts.max_qpairs = 1;
	if (conf.qpairs)
		check(nvmfr_group_create(host, &gopts, &job->group), "group");
	opts.group = job->group;
	for (unsigned int i = 0; i < MAX(conf.qpairs, 1u); i++)
		check(nvmfr_qpair_create(ctrl, &opts, &job->qps[i]), "qpair");
	for (unsigned int i = 0; i < MAX(conf.qpairs, 1u); i++)
		check(nvmfr_qpair_wait(job->qps[i], -1), "qpair");
}

int main(int argc, char **argv)
{
	struct nvmfr_soft_target *target = NULL;
	struct nvmfr_ctrl_opts opts;
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
	opts.num_io_queues = MAX_QPAIRS;
	check(nvmfr_connect(host, &opts, &ctrl), "connect");
	check(nvmfr_ctrl_wait(ctrl, -1), "connect");
	make_qpairs(host, ctrl, &job);
	check(nvmfr_buffer_alloc(host, BLOCK, -1, &job.buf), "buffer");
	if (pthread_create(&thread, NULL, job_run, &job))
		return 1;
	pthread_join(thread, NULL);
	printf("%llu rounds: %llu sleeps, %llu were there when armed; %ld context switches\n",
	       (unsigned long long)job.round, (unsigned long long)job.sleeps,
	       (unsigned long long)job.at_once, job.switches);
	for (unsigned int i = 0; i < MAX_QPAIRS; i++)
		nvmfr_qpair_destroy(job.qps[i]);
	check(nvmfr_group_destroy(job.group), "group");
	check(nvmfr_buffer_release(job.buf), "release");
	check(nvmfr_disconnect(ctrl, 1000), "disconnect");
	nvmfr_soft_target_destroy(target);
	nvmfr_host_destroy(host);
	return 0;
}
