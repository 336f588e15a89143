/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lean - the least that an application does with libnvmfr: it submits again what completed.
 *
 *   lean [-q depth] [-b batch] [-n ios] [-w read|write] [-o bytes] [-V pieces] [-r uri]
 *
 * -b 1 submits each I/O alone; -b n submits up to n at once. -V n reads into n pieces (vectored).
 * Prints "N ns/IO". Links the installed library through pkg-config.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <nvmfr/nvmfr.h>

#define SPAN (UINT64_C(16) << 30)

enum { MAX_DEPTH = 4095, ARRAY = 64, MAX_PIECES = 16 };

static struct {
	unsigned int depth, batch, pieces;
	uint64_t ios, bytes;
	int op;
	const char *uri;
} conf = {
	32, 1, 0, 5000000, 4096, NVMFR_OP_READ, "nvmf+rdma://127.0.0.1/nqn.2026-01.null:nullnic"
};

static struct nvmfr_iov iovs[MAX_DEPTH][MAX_PIECES];
static struct nvmfr_completion done[ARRAY];

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

/* A place for an I/O: a multiple of its length, in the first `places` of them. */
static inline uint64_t random_lba(uint64_t places, uint64_t nblocks)
{
	static uint64_t state = 88172645463325252u;

	state = state * 6364136223846793005u + 1442695040888963407u;
	return ((state >> 32) * places >> 32) * nblocks;
}

/* What does not change: each I/O of the queue's depth has a place of its own in the buffer. */
static void prepare(struct nvmfr_io *io, struct nvmfr_buffer *buf, uint64_t nblocks, unsigned int i)
{
	*io = (struct nvmfr_io){ .op = (uint8_t)conf.op,
				 .nsid = 1,
				 .nblocks = nblocks,
				 .buf = buf,
				 .offset_bytes = i * conf.bytes,
				 .user_data = i };
	for (unsigned int k = 0; k < conf.pieces; k++)
		iovs[i][k] =
			(struct nvmfr_iov){ buf, i * conf.bytes + k * (conf.bytes / conf.pieces),
					    conf.bytes / conf.pieces };
	if (conf.pieces) {
		io->flags = NVMFR_IO_VEC;
		io->iov = iovs[i];
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

static void submit_alone(struct nvmfr_qpair *qp, uint64_t lba, uint64_t nblocks,
			 struct nvmfr_buffer *buf, uint64_t id)
{
	if (conf.op == NVMFR_OP_READ)
		check(nvmfr_read(qp, 1, lba, nblocks, buf, id * conf.bytes, id), "read");
	else
		check(nvmfr_write(qp, 1, lba, nblocks, buf, id * conf.bytes, id), "write");
}

struct job {
	struct nvmfr_qpair *qp;
	struct nvmfr_buffer *buf;
	uint64_t nblocks, places;
};

/* The first `depth` I/Os. */
static uint64_t start(const struct job *job, uint64_t total)
{
	static struct nvmfr_io io;
	uint64_t sent;

	for (sent = 0; sent < conf.depth && sent < total; sent++) {
		prepare(&io, job->buf, job->nblocks, (unsigned int)sent);
		io.lba = random_lba(job->places, job->nblocks);
		submit_all(job->qp, &io, 1);
	}
	return sent;
}

static void bad_completion(const struct nvmfr_completion *cpl)
{
	fprintf(stderr, "lean: result %d, status 0x%x\n", cpl->result, cpl->status);
	exit(1);
}

static void run_alone(const struct job *job, uint64_t total)
{
	uint64_t sent = start(job, total);

	for (uint64_t ended = 0; ended < total;) {
		int n = nvmfr_poll(job->qp, done, ARRAY);

		check(n, "poll");
		for (int k = 0; k < n; k++) {
			if (done[k].result)
				bad_completion(&done[k]);
			if (sent == total)
				continue;
			submit_alone(job->qp, random_lba(job->places, job->nblocks), job->nblocks,
				     job->buf, done[k].user_data);
			sent++;
		}
		ended += (unsigned int)n;
	}
}

/* Batches: only what differs is written to an array that is prepared once. */
static void run_batched(const struct job *job, uint64_t total)
{
	static struct nvmfr_io batch[ARRAY];
	uint64_t sent = start(job, total), bytes = conf.bytes;
	bool vectored = conf.pieces;

	for (unsigned int k = 0; k < ARRAY; k++)
		prepare(&batch[k], job->buf, job->nblocks, k % conf.depth);
	for (uint64_t ended = 0; ended < total;) {
		int n = nvmfr_poll(job->qp, done, conf.batch);
		const struct nvmfr_completion *cpl = done;
		unsigned int again;

		check(n, "poll");
		again = (unsigned int)n < total - sent ? (unsigned int)n
						       : (unsigned int)(total - sent);
		for (struct nvmfr_io *io = batch; io < batch + n; io++, cpl++) {
			if (cpl->result)
				bad_completion(cpl);
			io->lba = random_lba(job->places, job->nblocks);
			io->user_data = cpl->user_data;
			if (vectored)
				io->iov = iovs[cpl->user_data];
			else
				io->offset_bytes = cpl->user_data * bytes;
		}
		submit_all(job->qp, batch, again);
		ended += (unsigned int)n;
		sent += again;
	}
}

static void parse(int argc, char **argv)
{
	for (int o; (o = getopt(argc, argv, "q:b:n:w:o:V:r:")) != -1;) {
		switch (o) {
		case 'q': conf.depth = (unsigned int)atoi(optarg); break;
		case 'b': conf.batch = (unsigned int)atoi(optarg); break;
		case 'n': conf.ios = strtoull(optarg, NULL, 0); break;
		case 'w': conf.op = strcmp(optarg, "write") ? NVMFR_OP_READ : NVMFR_OP_WRITE; break;
		case 'o': conf.bytes = strtoull(optarg, NULL, 0); break;
		case 'V': conf.pieces = (unsigned int)atoi(optarg); break;
		case 'r': conf.uri = optarg; break;
		default: exit(2);
		}
	}
	if (!conf.depth || conf.depth > MAX_DEPTH || !conf.batch || conf.pieces > MAX_PIECES ||
	    !conf.bytes || conf.batch > ARRAY)
		exit(2);
}

int main(int argc, char **argv)
{
	struct nvmfr_ns_info ns = { .size = sizeof(ns) };
	struct nvmfr_qpair_opts qopts;
	struct nvmfr_ctrl_opts copts;
	struct nvmfr_buffer *buf;
	struct nvmfr_qpair *qp;
	struct nvmfr_ctrl *ctrl;
	struct nvmfr_host *host;
	struct job job;
	double begin;

	parse(argc, argv);
	check(nvmfr_host_create(NULL, &host), "host");
	nvmfr_ctrl_opts_init(&copts, sizeof(copts));
	copts.uri = conf.uri;
	check(nvmfr_connect(host, &copts, &ctrl), "connect");
	check(nvmfr_ctrl_wait(ctrl, -1), "connect");
	check(nvmfr_ns_info(ctrl, 1, &ns), "namespace");
	nvmfr_qpair_opts_init(&qopts, sizeof(qopts));
	qopts.depth = (uint16_t)conf.depth;
	check(nvmfr_qpair_create(ctrl, &qopts, &qp), "qpair");
	check(nvmfr_qpair_wait(qp, -1), "qpair");
	check(nvmfr_buffer_alloc(host, conf.depth * conf.bytes, -1, &buf), "buffer");
	job = (struct job){ qp, buf, conf.bytes / ns.block_bytes, 0 };
	/* 16 GiB, which the stand-in can map under valgrind. */
	job.places = (ns.capacity_blocks < SPAN / ns.block_bytes ? ns.capacity_blocks
								 : SPAN / ns.block_bytes) /
		     job.nblocks;
	begin = now_ns();
	if (conf.batch == 1 && !conf.pieces)
		run_alone(&job, conf.ios);
	else
		run_batched(&job, conf.ios);
	printf("%.2f ns/IO\n", (now_ns() - begin) / (double)conf.ios);
	nvmfr_qpair_destroy(qp);
	check(nvmfr_buffer_release(buf), "release");
	check(nvmfr_disconnect(ctrl, 1000), "disconnect");
	nvmfr_host_destroy(host);
	return 0;
}
