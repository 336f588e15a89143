/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * memcpy-ratio [-o bytes] [-q depth] [-r rounds] [-m MiB] - reads of the embedded target against memcpy.
 *
 * The namespace is a file in memory that this program maps as well: both copy from the same pages to the
 * same buffer, at the same random places, in turn. Prints "nvmfr N GB/s, memcpy N GB/s" a round, and
 * the ratio of the medians.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <nvmfr/nvmfr.h>

enum { MAX_ROUNDS = 101,
       MAX_DEPTH = 128,
       PIECES_OF_A_ROUND = 8192 };

static struct {
	uint64_t bytes, file_bytes;
	unsigned int depth, rounds;
} conf = { 131072, UINT64_C(64) << 20, 8, 11 };

struct place {
	const unsigned char *file;
	unsigned char *mem;
	struct nvmfr_qpair *qp;
	struct nvmfr_buffer *buf;
	uint64_t random, block_bytes;
};

static void check(int result, const char *what)
{
	if (result >= 0)
		return;
	fprintf(stderr, "memcpy-ratio: %s: %s: %s\n", what, nvmfr_strerror(result), nvmfr_last_error());
	exit(1);
}

/* Of this thread, which does all the work in both cases: what runs beside it does not count. */
static double now_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static uint64_t random_piece(struct place *p)
{
	p->random = p->random * 6364136223846793005u + 1442695040888963407u;
	return (p->random >> 32) % (conf.file_bytes / conf.bytes);
}

static void copy_pieces(struct place *p, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++)
		memcpy(p->mem + i % conf.depth * conf.bytes, p->file + random_piece(p) * conf.bytes,
		       conf.bytes);
}

static void submit(struct place *p, uint64_t id)
{
	uint64_t nblocks = conf.bytes / p->block_bytes;

	check(nvmfr_read(p->qp, 1, random_piece(p) * nblocks, nblocks, p->buf, id * conf.bytes, id),
	      "read");
}

static void read_pieces(struct place *p, unsigned int n)
{
	struct nvmfr_completion done[MAX_DEPTH];
	unsigned int sent, ended = 0;

	for (sent = 0; sent < conf.depth; sent++)
		submit(p, sent);
	while (ended < n) {
		int got = nvmfr_poll(p->qp, done, conf.depth);

		check(got, "poll");
		for (int i = 0; i < got; i++) {
			check(done[i].result, "completion");
			if (sent < n && ++sent)
				submit(p, done[i].user_data);
		}
		ended += (unsigned int)got;
	}
}

/* The same places for both. GB/s. */
static double rate(struct place *p, void (*move)(struct place *, unsigned int), unsigned int round)
{
	double begin;

	p->random = round;
	begin = now_s();
	move(p, PIECES_OF_A_ROUND);
	return PIECES_OF_A_ROUND * (double)conf.bytes / (now_s() - begin) / 1e9;
}

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(double *values)
{
	qsort(values, conf.rounds, sizeof(*values), ascending);
	return values[conf.rounds / 2];
}

static void compare(struct place *p)
{
	double ours[MAX_ROUNDS], theirs[MAX_ROUNDS];

	rate(p, copy_pieces, 0);
	rate(p, read_pieces, 0);
	for (unsigned int i = 0; i < conf.rounds; i++) {
		ours[i] = rate(p, read_pieces, i);
		theirs[i] = rate(p, copy_pieces, i);
		printf("nvmfr %.2f GB/s, memcpy %.2f GB/s\n", ours[i], theirs[i]);
	}
	printf("ratio %.3f\n", median(ours) / median(theirs));
}

/* A file of memory, none of its pages zero. */
static const unsigned char *make_file(char *uri, size_t uri_bytes)
{
	int fd = memfd_create("memcpy-ratio", 0);
	unsigned char *file;

	if (fd < 0 || ftruncate(fd, (off_t)conf.file_bytes))
		exit(1);
	file = mmap(NULL, conf.file_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (file == MAP_FAILED)
		exit(1);
	for (uint64_t i = 0; i < conf.file_bytes; i++)
		file[i] = (unsigned char)(i * 131 >> 7);
	snprintf(uri, uri_bytes, "nvmf+soft:///proc/self/fd/%d?block=4096", fd);
	return file;
}

static void parse(int argc, char **argv)
{
	for (int o; (o = getopt(argc, argv, "o:q:r:m:")) != -1;) {
		switch (o) {
		case 'o': conf.bytes = strtoull(optarg, NULL, 0); break;
		case 'q': conf.depth = (unsigned int)atoi(optarg); break;
		case 'r': conf.rounds = (unsigned int)atoi(optarg); break;
		case 'm': conf.file_bytes = strtoull(optarg, NULL, 0) << 20; break;
		default: exit(2);
		}
	}
	if (!conf.bytes || conf.bytes % 4096 || conf.file_bytes < conf.bytes || !conf.depth ||
	    conf.depth > MAX_DEPTH || !conf.rounds || conf.rounds > MAX_ROUNDS)
		exit(2);
}

int main(int argc, char **argv)
{
	struct nvmfr_ns_info ns = { .size = sizeof(ns) };
	struct nvmfr_ctrl_opts opts;
	struct nvmfr_host *host;
	struct nvmfr_ctrl *ctrl;
	struct place p = { 0 };
	char uri[64];

	parse(argc, argv);
	p.file = make_file(uri, sizeof(uri));
	check(nvmfr_host_create(NULL, &host), "host");
	nvmfr_ctrl_opts_init(&opts, sizeof(opts));
	opts.uri = uri;
	check(nvmfr_connect(host, &opts, &ctrl), "connect");
	check(nvmfr_ctrl_wait(ctrl, -1), "connect");
	check(nvmfr_ns_info(ctrl, 1, &ns), "namespace");
	p.block_bytes = ns.block_bytes;
	check(nvmfr_qpair_create(ctrl, NULL, &p.qp), "queue pair");
	check(nvmfr_qpair_wait(p.qp, -1), "queue pair");
	check(nvmfr_buffer_alloc(host, conf.depth * conf.bytes, -1, &p.buf), "buffer");
	p.mem = nvmfr_buffer_addr(p.buf);
	compare(&p);
	nvmfr_qpair_destroy(p.qp);
	check(nvmfr_buffer_release(p.buf), "release");
	check(nvmfr_disconnect(ctrl, 1000), "disconnect");
	nvmfr_host_destroy(host);
	return 0;
}
