/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Groups over the stand-in, by the public API: a shared CQ, its demultiplexing, queue pairs that come and
 * go, many of them. Needs LD_LIBRARY_PATH with the stand-in, NULLNIC_DATA=pattern, NULLNIC_ABORT=1 and, as
 * the service connects what the owner polls, NULLNIC_LOCK=1.
 */
#include "testing.h"

#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include <nvmfr/nvmfr.h>

#define URI "nvmf+rdma://127.0.0.1/nqn.2026-01.null:nullnic"

enum { BLOCK = 512,
       WORDS = BLOCK / 8,
       MANY = 1000,
       ARRAY = 64 };

struct rig {
	struct nvmfr_host *host;
	struct nvmfr_ctrl *ctrl;
	struct nvmfr_group *group;
	struct nvmfr_buffer *buf;
	struct nvmfr_qpair *qps[MANY];
	unsigned int n, depth;
	unsigned char *mem;
	uint64_t lbas[MANY * 16]; /* by place: n * depth of them */
	unsigned int ended;
};

static void must(int err, const char *what)
{
	cr_assert_geq(err, 0, "%s: %s (%s)", what, nvmfr_last_error(), nvmfr_strerror(err));
}

static void start_qpair(struct rig *rig, unsigned int i)
{
	struct nvmfr_qpair_opts opts;

	nvmfr_qpair_opts_init(&opts, sizeof(opts));
	opts.depth = (uint16_t)rig->depth;
	opts.group = rig->group;
	opts.qpair_data = i;
	must(nvmfr_qpair_create(rig->ctrl, &opts, &rig->qps[i]), "queue pair");
}

static struct rig *rig_up(unsigned int n, unsigned int depth, uint32_t max_qpairs, uint32_t flags)
{
	struct rig *rig = calloc(1, sizeof(*rig));
	struct nvmfr_host_opts hopts;
	struct nvmfr_ctrl_opts copts;
	struct nvmfr_group_opts gopts;

	cr_assert_not_null(rig);
	rig->n = n;
	rig->depth = depth;
	nvmfr_host_opts_init(&hopts, sizeof(hopts));
	hopts.flags = flags;
	must(nvmfr_host_create(&hopts, &rig->host), "host");
	nvmfr_ctrl_opts_init(&copts, sizeof(copts));
	copts.uri = URI;
	copts.num_io_queues = MANY;
	must(nvmfr_connect(rig->host, &copts, &rig->ctrl), "connect");
	must(nvmfr_ctrl_wait(rig->ctrl, -1), "connect");
	nvmfr_group_opts_init(&gopts, sizeof(gopts));
	gopts.max_qpairs = max_qpairs;
	must(nvmfr_group_create(rig->host, &gopts, &rig->group), "group");
	must(nvmfr_buffer_alloc(rig->host, (size_t)n * depth * BLOCK, -1, &rig->buf), "buffer");
	rig->mem = nvmfr_buffer_addr(rig->buf);
	for (unsigned int i = 0; i < n; i++)
		start_qpair(rig, i);
	for (unsigned int i = 0; i < n; i++)
		must(nvmfr_qpair_wait(rig->qps[i], -1), "queue pair");
	return rig;
}

static void rig_down(struct rig *rig)
{
	for (unsigned int i = 0; i < rig->n; i++)
		nvmfr_qpair_destroy(rig->qps[i]);
	must(nvmfr_group_destroy(rig->group), "group");
	must(nvmfr_buffer_release(rig->buf), "release");
	must(nvmfr_disconnect(rig->ctrl, 1000), "disconnect");
	nvmfr_host_destroy(rig->host);
	free(rig);
}

/* ---- data ------------------------------------------------------------------------------------- */

/* What the stand-in's pattern mode has in a word of the namespace. */
static uint64_t word_at(uint64_t word)
{
	return word / WORDS * UINT64_C(0x9e3779b97f4a7c15) + word;
}

static void start_io(struct rig *rig, unsigned int qpair, unsigned int slot, uint64_t turn)
{
	unsigned int place = qpair * rig->depth + slot;
	struct nvmfr_io io = { .op = turn % 3 ? NVMFR_OP_READ : NVMFR_OP_WRITE,
			       .nsid = 1,
			       .lba = (turn * 7919 + place * 31u) % (1 << 20),
			       .nblocks = 1,
			       .buf = rig->buf,
			       .offset_bytes = (uint64_t)place * BLOCK,
			       .user_data = place };

	rig->lbas[place] = io.lba;
	for (uint64_t i = 0; i < WORDS; i++) {
		uint64_t word = io.op == NVMFR_OP_WRITE ? word_at(io.lba * WORDS + i) : 0;

		memcpy(rig->mem + io.offset_bytes + i * 8, &word, sizeof(word));
	}
	cr_assert_eq(nvmfr_submit(rig->qps[qpair], &io, 1), 1, "%s", nvmfr_last_error());
}

static void check_io(struct rig *rig, const struct nvmfr_completion *done)
{
	uint64_t place = done->user_data;

	cr_assert_eq(done->result, 0, "result %d, status 0x%x", done->result, done->status);
	cr_assert_eq(done->qpair_data, place / rig->depth, "another's completion");
	for (uint64_t i = 0; i < WORDS; i++) {
		uint64_t word;

		memcpy(&word, rig->mem + place * BLOCK + i * 8, sizeof(word));
		cr_assert_eq(word, word_at(rig->lbas[place] * WORDS + i), "LBA %llu",
			     (unsigned long long)rig->lbas[place]);
	}
	rig->ended++;
}

/* All queue pairs at their depth, until so many I/Os have ended; arrays of one to 64. */
static void run(struct rig *rig, unsigned int total)
{
	unsigned int started = 0, turn = 0;

	rig->ended = 0;
	for (unsigned int slot = 0; slot < rig->depth; slot++)
		for (unsigned int i = 0; i < rig->n; i++, started++)
			start_io(rig, i, slot, slot);
	while (rig->ended < started) {
		struct nvmfr_completion done[ARRAY];
		int got = nvmfr_group_poll(rig->group, done, turn++ % ARRAY + 1);

		must(got, "poll");
		for (int k = 0; k < got; k++) {
			unsigned int place = (unsigned int)done[k].user_data;

			check_io(rig, &done[k]);
			if (started >= total)
				continue;
			start_io(rig, place / rig->depth, place % rig->depth, turn);
			started++;
		}
	}
}

Test(group, sixty_four_of_one_cq)
{
	struct rig *rig = rig_up(64, 16, 64, 0);

	run(rig, 100000);
	rig_down(rig);
}

/* Made for fewer: there are several CQs. */
Test(group, more_than_it_was_made_for)
{
	struct rig *rig = rig_up(50, 8, 1, 0);

	run(rig, 50000);
	rig_down(rig);
}

Test(group, manual_host)
{
	struct rig *rig = rig_up(20, 4, 64, NVMFR_HOST_MANUAL);

	run(rig, 10000);
	rig_down(rig);
}

/* In flight at its end; the next one has the same slot, and gets nothing of the first's. */
Test(group, members_come_and_go)
{
	struct rig *rig = rig_up(16, 8, 4, 0);
	struct nvmfr_completion done[ARRAY];

	for (unsigned int turn = 0; turn < 100; turn++) {
		unsigned int i = turn * 5 % rig->n, other = (i + 1) % rig->n;
		int got;

		for (unsigned int slot = 0; slot < rig->depth; slot++) {
			start_io(rig, i, slot, turn);
			start_io(rig, other, slot, turn);
		}
		got = nvmfr_group_poll(rig->group, done, turn % 3 + 1);
		must(got, "poll");
		for (int k = 0; k < got; k++)
			check_io(rig, &done[k]);
		nvmfr_qpair_destroy(rig->qps[i]);
		start_qpair(rig, i);
		must(nvmfr_qpair_wait(rig->qps[i], -1), "queue pair");
		while ((got = nvmfr_group_poll(rig->group, done, ARRAY)) > 0)
			for (int k = 0; k < got; k++)
				check_io(rig, &done[k]);
	}
	run(rig, 10000);
	rig_down(rig);
}

Test(group, descriptor_rings)
{
	struct rig *rig = rig_up(16, 1, 4, 0);
	struct pollfd fd = { .fd = nvmfr_group_fd(rig->group), .events = POLLIN };
	struct nvmfr_completion done;

	for (unsigned int i = 0; i < rig->n; i++) {
		while (nvmfr_group_arm(rig->group))
			cr_assert_eq(nvmfr_group_poll(rig->group, &done, 1), 0);
		cr_expect_eq(poll(&fd, 1, 0), 0, "nothing is in flight");
		start_io(rig, i, 0, 1);
		cr_assert_eq(poll(&fd, 1, 20000), 1, "nobody rang");
		cr_assert_eq(nvmfr_group_wait(rig->group, &done, 1, 1, 20000), 1);
		check_io(rig, &done);
		start_io(rig, i, 0, 2);
		cr_assert_eq(nvmfr_wait(rig->qps[i], &done, 1, 1, 20000), 1);
		check_io(rig, &done);
	}
	rig_down(rig);
}

/* ---- many -------------------------------------------------------------------------------------- */

static unsigned int open_descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	unsigned int n = 0;

	cr_assert_not_null(dir);
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

Test(group, a_thousand_with_few_descriptors)
{
	struct rlimit limit = { 1024, 1024 };
	unsigned int before = open_descriptors();
	struct rig *rig;

	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
	rig = rig_up(MANY, 4, MANY, 0);
	cr_expect_lt(open_descriptors(), before + 32);
	run(rig, 20000);
	rig_down(rig);
	cr_expect_leq(open_descriptors(), before + 4);
}
