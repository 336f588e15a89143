/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lean - the least that an application does with libnvmfr: it submits again what completed.
 *
 *   lean [-q depth] [-b batch] [-n ios] [-w read|write|mixed] [-o bytes] [-V pieces] [-Q commands]
 *        [-t threads] [-G qpairs] [-r uri]
 *
 * -q n keeps n I/Os in flight. -b 1 submits each alone; -b n submits up to n at once. -w mixed, in
 * batches: every other I/O is a write. -V n reads into n pieces (vectored). -Q n: the queue pair's depth
 * where it is not the I/Os' (a long I/O takes many commands). -t n: so many threads, each on a processor
 * of its own with a queue pair of its own and -n I/Os. -G n, of lean-group only (compiled with LEAN_GROUP):
 * n queue pairs in a group, of which the first is busy and the others idle. Prints "N ns/IO", a thread's.
 * Links the installed library through pkg-config.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <nvmfr/nvmfr.h>

#define SPAN (UINT64_C(16) << 30)

enum { MAX_DEPTH = 4095,
       ARRAY = 64,
       MAX_PIECES = 16,
       MAX_THREADS = 64,
       MAX_GROUP = 4096,
       OP_MIXED = -1 };

static struct {
	unsigned int depth, batch, pieces, commands, threads, group;
	uint64_t ios, bytes;
	int op;
	const char *uri;
} conf = {
	32, 1, 0, 0, 1, 0, 5000000, 4096, NVMFR_OP_READ,
	"nvmf+rdma://127.0.0.1/nqn.2026-01.null:nullnic"
};

/* What a thread has for itself. */
struct job {
	struct nvmfr_qpair *qp;
	struct nvmfr_buffer *buf;
	struct nvmfr_iov (*iovs)[MAX_PIECES];
	uint64_t nblocks, places;
	unsigned int cpu;
};
static _Thread_local struct nvmfr_completion done[ARRAY];

/* With LEAN_GROUP it is another program: the question would cost an instruction or three an I/O. */
#ifdef LEAN_GROUP
#define POLL(job, max) nvmfr_group_poll(group, done, max)
#define GROUPED	       1
#else
#define GROUPED	       0
#define POLL(job, max) nvmfr_poll((job).qp, done, max)
#endif
static struct nvmfr_group *group; /* NULL without -G */
static struct nvmfr_qpair *idle[MAX_GROUP];

static void check(int result, const char *what)
{
	if (result >= 0)
		return;
	fprintf(stderr, "lean: %s: %s: %s\n", what, nvmfr_strerror(result), nvmfr_last_error());
	exit(1);
}

static double now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

#define SEED UINT64_C(88172645463325252)

/* A place for an I/O: a multiple of its length, in the first `places` of them. */
static inline uint64_t random_lba(uint64_t *state, uint64_t places, uint64_t nblocks)
{
	*state = *state * 6364136223846793005u + 1442695040888963407u;
	return ((*state >> 32) * places >> 32) * nblocks;
}

/* What does not change: each I/O of the queue's depth has a place of its own in the buffer. */
static void prepare(struct nvmfr_io *io, const struct job *job, unsigned int i)
{
	int op = conf.op != OP_MIXED ? conf.op : i % 2 ? NVMFR_OP_WRITE
						       : NVMFR_OP_READ;

	*io = (struct nvmfr_io){ .op = (uint8_t)op,
				 .nsid = 1,
				 .nblocks = job->nblocks,
				 .buf = job->buf,
				 .offset_bytes = i * conf.bytes,
				 .user_data = i };
	for (unsigned int k = 0; k < conf.pieces; k++)
		job->iovs[i][k] = (struct nvmfr_iov){ job->buf,
						      i * conf.bytes +
							      k * (conf.bytes / conf.pieces),
						      conf.bytes / conf.pieces };
	if (conf.pieces) {
		io->flags = NVMFR_IO_VEC;
		io->iov = job->iovs[i];
		io->niov = conf.pieces;
	}
}

static void submit_all(struct nvmfr_qpair *qp, const struct nvmfr_io *list, unsigned int n)
{
	while (n) {
		int taken = nvmfr_submit(qp, list, n);

		check(taken, "submit");
		list += taken;
		n -= (unsigned int)taken;
	}
}

/* The first `depth` I/Os. */
static uint64_t start(const struct job *job, uint64_t total, uint64_t *state)
{
	struct nvmfr_io io;
	uint64_t sent;

	for (sent = 0; sent < conf.depth && sent < total; sent++) {
		prepare(&io, job, (unsigned int)sent);
		io.lba = random_lba(state, job->places, job->nblocks);
		submit_all(job->qp, &io, 1);
	}
	return sent;
}

static void bad_completion(const struct nvmfr_completion *cpl)
{
	fprintf(stderr, "lean: result %d, status 0x%x\n", cpl->result, cpl->status);
	exit(1);
}

static void run_alone(const struct job *given, uint64_t total)
{
	const struct job job = *given;
	const uint64_t bytes = conf.bytes;
	const bool read = conf.op == NVMFR_OP_READ;
	uint64_t state = SEED, sent = start(&job, total, &state);

	for (uint64_t ended = 0; ended < total;) {
		int n = POLL(job, ARRAY), err = 0;

		check(n, "poll");
		for (const struct nvmfr_completion *cpl = done; cpl < done + n; cpl++) {
			uint64_t id = cpl->user_data, lba;

			if (cpl->result)
				bad_completion(cpl);
			if (sent == total)
				continue;
			lba = random_lba(&state, job.places, job.nblocks);
			if (read)
				err = nvmfr_read(job.qp, 1, lba, job.nblocks, job.buf, id * bytes, id);
			else
				err = nvmfr_write(job.qp, 1, lba, job.nblocks, job.buf, id * bytes, id);
			check(err, "submit");
			sent++;
		}
		ended += (unsigned int)n;
	}
}

/* What completed, each at a new place; only what differs is written. */
static inline void renew(const struct job *job, struct nvmfr_io *io, unsigned int n, uint64_t bytes,
			 uint64_t *state)
{
	const uint64_t places = job->places, nblocks = job->nblocks;
	uint64_t rng = *state;

	for (const struct nvmfr_completion *cpl = done; cpl < done + n; cpl++, io++) {
		if (cpl->result)
			bad_completion(cpl);
		io->lba = random_lba(&rng, places, nblocks);
		io->user_data = cpl->user_data;
		if (job->iovs)
			io->iov = job->iovs[cpl->user_data];
		else
			io->offset_bytes = cpl->user_data * bytes;
	}
	*state = rng;
}

/* Batches, from an array that is prepared once. */
static void run_batched(const struct job *given, uint64_t total)
{
	const struct job job = *given;
	struct nvmfr_io batch[ARRAY];
	uint64_t state = SEED, sent = start(&job, total, &state);

	for (unsigned int k = 0; k < ARRAY; k++)
		prepare(&batch[k], &job, k % conf.depth);
	for (uint64_t ended = 0; ended < total;) {
		int n = POLL(job, conf.batch);
		unsigned int again;

		check(n, "poll");
		again = (unsigned int)n < total - sent ? (unsigned int)n
						       : (unsigned int)(total - sent);
		renew(&job, batch, (unsigned int)n, conf.bytes, &state);
		submit_all(job.qp, batch, again);
		ended += (unsigned int)n;
		sent += again;
	}
}

static int parse_op(const char *name)
{
	if (!strcmp(name, "mixed"))
		return OP_MIXED;
	return strcmp(name, "write") ? NVMFR_OP_READ : NVMFR_OP_WRITE;
}

static void parse(int argc, char **argv)
{
	for (int o; (o = getopt(argc, argv, "q:b:n:w:o:V:Q:t:G:r:")) != -1;) {
		switch (o) {
		case 'q': conf.depth = (unsigned int)atoi(optarg); break;
		case 'b': conf.batch = (unsigned int)atoi(optarg); break;
		case 'n': conf.ios = strtoull(optarg, NULL, 0); break;
		case 'w': conf.op = parse_op(optarg); break;
		case 'o': conf.bytes = strtoull(optarg, NULL, 0); break;
		case 'V': conf.pieces = (unsigned int)atoi(optarg); break;
		case 'Q': conf.commands = (unsigned int)atoi(optarg); break;
		case 't': conf.threads = (unsigned int)atoi(optarg); break;
		case 'G': conf.group = (unsigned int)atoi(optarg); break;
		case 'r': conf.uri = optarg; break;
		default: exit(2);
		}
	}
	if (!conf.commands)
		conf.commands = conf.depth;
	if (!conf.depth || conf.depth > MAX_DEPTH || conf.commands > MAX_DEPTH || !conf.bytes ||
	    !conf.batch || conf.batch > ARRAY || conf.pieces > MAX_PIECES || !conf.threads ||
	    conf.threads > MAX_THREADS || (conf.op == OP_MIXED && conf.batch == 1) ||
	    conf.group > MAX_GROUP || !conf.group != !GROUPED || (conf.group && conf.threads > 1))
		exit(2);
}

static void open_group(struct nvmfr_host *host)
{
	struct nvmfr_group_opts opts;

	nvmfr_group_opts_init(&opts, sizeof(opts));
	opts.max_qpairs = conf.group;
	check(nvmfr_group_create(host, &opts, &group), "group");
}

/* They connect together. */
static void open_qpairs(struct job *job, struct nvmfr_ctrl *ctrl)
{
	struct nvmfr_qpair_opts opts;

	nvmfr_qpair_opts_init(&opts, sizeof(opts));
	opts.depth = (uint16_t)conf.commands;
	opts.group = group;
	check(nvmfr_qpair_create(ctrl, &opts, &job->qp), "qpair");
	for (unsigned int i = 0; i + 1 < conf.group; i++)
		check(nvmfr_qpair_create(ctrl, &opts, &idle[i]), "qpair");
	check(nvmfr_qpair_wait(job->qp, -1), "qpair");
	for (unsigned int i = 0; i + 1 < conf.group; i++)
		check(nvmfr_qpair_wait(idle[i], -1), "qpair");
}

static void job_open(struct job *job, struct nvmfr_host *host, struct nvmfr_ctrl *ctrl)
{
	struct nvmfr_ns_info ns = { .size = sizeof(ns) };
	uint64_t blocks;

	check(nvmfr_ns_info(ctrl, 1, &ns), "namespace");
	if (conf.group)
		open_group(host);
	open_qpairs(job, ctrl);
	check(nvmfr_buffer_alloc(host, conf.depth * conf.bytes, -1, &job->buf), "buffer");
	if (conf.pieces && !(job->iovs = calloc(conf.depth, sizeof(*job->iovs))))
		exit(1);
	job->nblocks = conf.bytes / ns.block_bytes;
	/* 16 GiB, which the stand-in can map under valgrind. */
	blocks = ns.capacity_blocks < SPAN / ns.block_bytes ? ns.capacity_blocks
							    : SPAN / ns.block_bytes;
	job->places = blocks / job->nblocks;
}

static void job_close(struct job *job)
{
	nvmfr_qpair_destroy(job->qp);
	for (unsigned int i = 0; i + 1 < conf.group; i++)
		nvmfr_qpair_destroy(idle[i]);
	check(nvmfr_group_destroy(group), "group");
	check(nvmfr_buffer_release(job->buf), "release");
	free(job->iovs);
}

static void job_run(const struct job *job)
{
	if (conf.batch == 1 && !conf.pieces)
		run_alone(job, conf.ios);
	else
		run_batched(job, conf.ios);
}

/* The nth processor of those that this process may use. */
static void settle_on(unsigned int nth)
{
	cpu_set_t allowed, one;
	unsigned int cpu = 0;

	if (sched_getaffinity(0, sizeof(allowed), &allowed))
		return;
	nth %= (unsigned int)CPU_COUNT(&allowed);
	while (!CPU_ISSET(cpu, &allowed) || nth--)
		cpu++;
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	sched_setaffinity(0, sizeof(one), &one);
}

static void *job_thread(void *arg)
{
	const struct job *job = arg;

	settle_on(job->cpu);
	job_run(job);
	return NULL;
}

static void run_all(struct job *jobs)
{
	pthread_t threads[MAX_THREADS];

	for (unsigned int i = 0; i < conf.threads; i++)
		if (pthread_create(&threads[i], NULL, job_thread, &jobs[i]))
			exit(1);
	for (unsigned int i = 0; i < conf.threads; i++)
		pthread_join(threads[i], NULL);
}

int main(int argc, char **argv)
{
	static struct job jobs[MAX_THREADS];
	struct nvmfr_ctrl_opts copts;
	struct nvmfr_ctrl *ctrl;
	struct nvmfr_host *host;
	double begin;

	parse(argc, argv);
	check(nvmfr_host_create(NULL, &host), "host");
	nvmfr_ctrl_opts_init(&copts, sizeof(copts));
	copts.uri = conf.uri;
	if (conf.group > copts.num_io_queues)
		copts.num_io_queues = (uint16_t)conf.group;
	check(nvmfr_connect(host, &copts, &ctrl), "connect");
	check(nvmfr_ctrl_wait(ctrl, -1), "connect");
	for (unsigned int i = 0; i < conf.threads; i++) {
		jobs[i].cpu = i;
		job_open(&jobs[i], host, ctrl);
	}
	begin = now_ns();
	if (conf.threads == 1)
		job_run(&jobs[0]);
	else
		run_all(jobs);
	printf("%.2f ns/IO\n", (now_ns() - begin) / (double)conf.ios);
	for (unsigned int i = 0; i < conf.threads; i++)
		job_close(&jobs[i]);
	check(nvmfr_disconnect(ctrl, 1000), "disconnect");
	nvmfr_host_destroy(host);
	return 0;
}
