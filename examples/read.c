/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * read URI [LBA] [NBLOCKS]: the shortest zero-copy read. The target writes straight into buf.
 *
 *	read nvmf+soft:?size=64M
 *	read nvmf+rdma://192.168.1.2/nqn.2014-08.org.example:disks 2048 8
 */
#include <nvmfr/nvmfr.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static void must(int err, const char *what)
{
	if (err >= 0)
		return;
	fprintf(stderr, "read: %s: %s\n", what, nvmfr_last_error());
	exit(1);
}

static double now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

int main(int argc, char **argv)
{
	uint64_t lba = argc > 2 ? strtoull(argv[2], NULL, 0) : 0;
	uint64_t nblocks = argc > 3 ? strtoull(argv[3], NULL, 0) : 1;
	struct nvmfr_ns_info ns = { .size = sizeof(ns) };
	struct nvmfr_completion done;
	struct nvmfr_ctrl_opts opts;
	struct nvmfr_buffer *buf;
	struct nvmfr_qpair *qp;
	struct nvmfr_host *host;
	struct nvmfr_ctrl *ctrl;
	double start, took;
	int n;

	if (argc < 2)
		return fprintf(stderr, "usage: read URI [LBA] [NBLOCKS]\n"), 2;
	nvmfr_ctrl_opts_init(&opts, sizeof(opts));
	opts.uri = argv[1];
	must(nvmfr_host_create(NULL, &host), "host");
	must(nvmfr_connect(host, &opts, &ctrl), "connect");
	must(nvmfr_ctrl_wait(ctrl, -1), "connect");
	must(nvmfr_ns_info(ctrl, nvmfr_ns_next(ctrl, 0), &ns), "first namespace");
	must(nvmfr_qpair_create(ctrl, NULL, &qp), "queue pair");
	must(nvmfr_qpair_wait(qp, -1), "queue pair");
	must(nvmfr_buffer_alloc(host, nblocks * ns.block_bytes, -1, &buf), "buffer");

	start = now_us();
	must(nvmfr_read(qp, ns.nsid, lba, nblocks, buf, 0, 0), "read");
	while ((n = nvmfr_poll(qp, &done, 1)) == 0)
		;
	took = now_us() - start;
	must(n, "poll");
	if (done.result) {
		fprintf(stderr, "read: %s, NVMe status: %s\n", nvmfr_strerror(done.result),
			nvmfr_status_string(done.status));
		return 1;
	}

	for (unsigned int i = 0; i < 64; i++)
		printf("%02x%c", ((unsigned char *)nvmfr_buffer_addr(buf))[i], i % 16 == 15 ? '\n' : ' ');
	printf("%" PRIu64 " blocks of %u bytes from LBA %" PRIu64 " in %.1f us\n", nblocks,
	       ns.block_bytes, lba, took);
	nvmfr_qpair_destroy(qp);
	must(nvmfr_buffer_release(buf), "release");
	must(nvmfr_disconnect(ctrl, 1000), "disconnect");
	nvmfr_host_destroy(host);
	return 0;
}
