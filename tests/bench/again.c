/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * again [-q depth] [-n ios] [-p] [-r uri] - the same 4 KiB reads again and again, as who keeps a cache
 * on remote flash does them. -p prepares them once; else they are submitted from an array that nobody
 * writes to. Batches of 32 at most. Links the installed library through pkg-config, as lean.c.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <nvmfr/nvmfr.h>

enum { BYTES = 4096,
       BATCH = 32,
       MAX_DEPTH = 1024 };

static struct nvmfr_io ios[MAX_DEPTH];
static struct nvmfr_prepared *list;
static struct nvmfr_qpair *qp;
static unsigned int depth = 32;

static void check(int result, const char *what)
{
	if (result >= 0)
		return;
	fprintf(stderr, "again: %s: %s: %s\n", what, nvmfr_strerror(result), nvmfr_last_error());
	exit(1);
}

static void submit(unsigned int first, unsigned int n)
{
	while (n) {
		int taken = list ? nvmfr_post(list, first, n) : nvmfr_submit(qp, &ios[first], n);

		check(taken, "submit");
		first += (unsigned int)taken;
		n -= (unsigned int)taken;
	}
}

/* The next n of the circle. */
static unsigned int submit_next(unsigned int at, unsigned int n)
{
	unsigned int to_end = depth - at < n ? depth - at : n;

	submit(at, to_end);
	if (n > to_end)
		submit(0, n - to_end);
	return (at + n) % depth;
}

static void run(uint64_t total)
{
	struct nvmfr_completion done[BATCH];
	uint64_t sent = depth < total ? depth : total, ended = 0;
	unsigned int at = submit_next(0, (unsigned int)sent);

	while (ended < total) {
		int n = nvmfr_poll(qp, done, BATCH);
		unsigned int more;

		check(n, "poll");
		for (int i = 0; i < n; i++)
			if (done[i].result)
				exit(1);
		ended += (unsigned int)n;
		more = total - sent < (unsigned int)n ? (unsigned int)(total - sent) : (unsigned int)n;
		at = submit_next(at, more);
		sent += more;
	}
}

int main(int argc, char **argv)
{
	struct nvmfr_ctrl_opts opts;
	struct nvmfr_qpair_opts qopts;
	struct nvmfr_ns_info ns = { .size = sizeof(ns) };
	struct nvmfr_buffer *buf;
	struct nvmfr_host *host;
	struct nvmfr_ctrl *ctrl;
	uint64_t total = 1000000;
	int prepared = 0;

	nvmfr_ctrl_opts_init(&opts, sizeof(opts));
	nvmfr_qpair_opts_init(&qopts, sizeof(qopts));
	opts.uri = "nvmf+rdma://127.0.0.1/nqn.2026-01.null:nullnic";
	for (int o; (o = getopt(argc, argv, "q:n:pr:")) != -1;) {
		switch (o) {
		case 'q': depth = (unsigned int)atoi(optarg); break;
		case 'n': total = strtoull(optarg, NULL, 0); break;
		case 'p': prepared = 1; break;
		case 'r': opts.uri = optarg; break;
		default: return 2;
		}
	}
	if (depth == 0 || depth > MAX_DEPTH)
		return 2;
	qopts.depth = (uint16_t)depth;
	check(nvmfr_host_create(NULL, &host), "host");
	check(nvmfr_connect(host, &opts, &ctrl), "connect");
	check(nvmfr_ctrl_wait(ctrl, -1), "connect");
	check(nvmfr_ns_info(ctrl, 1, &ns), "namespace");
	check(nvmfr_qpair_create(ctrl, &qopts, &qp), "qpair");
	check(nvmfr_qpair_wait(qp, -1), "qpair");
	check(nvmfr_buffer_alloc(host, (size_t)depth * BYTES, -1, &buf), "buffer");
	for (unsigned int i = 0; i < depth; i++)
		ios[i] = (struct nvmfr_io){ .op = NVMFR_OP_READ,
					    .nsid = 1,
					    .lba = (uint64_t)i * 7 * (BYTES / ns.block_bytes),
					    .nblocks = BYTES / ns.block_bytes,
					    .buf = buf,
					    .offset_bytes = (uint64_t)i * BYTES,
					    .user_data = i };
	if (prepared)
		check(nvmfr_prepare(qp, ios, depth, &list), "prepare");
	run(total);
	nvmfr_prepared_release(list);
	nvmfr_qpair_destroy(qp);
	check(nvmfr_buffer_release(buf), "release");
	check(nvmfr_disconnect(ctrl, 1000), "disconnect");
	nvmfr_host_destroy(host);
	return 0;
}
