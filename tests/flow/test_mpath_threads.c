/* SPDX-License-Identifier: BSD-3-Clause */
/* Paths in real time: from four threads, and asleep. */
#include "paths.h"

struct worker {
	struct rig *r;
	unsigned int index, done;
	bool failed;
};

enum { WORKER_IOS = 3000 };

static void *work(void *arg)
{
	struct worker *w = arg;
	struct nvmfr_mqpair *mq = NULL;
	struct nvmfr_buffer *buf = NULL;

	w->failed = nvmfr_mqpair_create(w->r->mpath, NULL, &mq) ||
		    nvmfr_buffer_alloc(w->r->f.host, 8 * BLOCK, -1, &buf);
	while (!w->failed && w->done < WORKER_IOS) {
		struct nvmfr_completion done[8];
		struct nvmfr_io ios[8];
		unsigned int n = 0;

		for (unsigned int i = 0; i < 8; i++)
			ios[i] = flow_io(&w->r->f, NVMFR_OP_READ, w->index * 8 + i, 1, buf, i * BLOCK);
		w->failed = nvmfr_mqpair_submit(mq, ios, 8) != 8;
		while (!w->failed && n < 8) {
			int got = nvmfr_mqpair_wait(mq, done, 8 - n, 8 - n, 20000);

			w->failed = got <= 0;
			for (int i = 0; i < got; i++)
				w->failed = w->failed || done[i].result;
			n += got > 0 ? (unsigned int)got : 0;
		}
		w->done += n;
	}
	nvmfr_mqpair_destroy(mq);
	w->failed = nvmfr_buffer_release(buf) || w->failed;
	return NULL;
}

static void in_real_time(struct rig *r)
{
	struct nvmfr_mpath_opts opts = defaults(NVMFR_RETRY_READS);

	*r = (struct rig){ .mem = NULL };
	flow_host_thread(&r->f);
	target_up(r);
	cr_assert_eq(nvmfr_mpath_create(r->f.host, &opts, &r->mpath), 0);
	for (unsigned int i = 0; i < 2; i++) {
		r->ctrls[i] = connect_to(r, i + 1, UINT32_MAX);
		cr_assert_eq(nvmfr_mpath_add(r->mpath, r->ctrls[i]), 0);
	}
}

Test(mpath_threads, four_threads, .timeout = 120)
{
	struct worker workers[4];
	pthread_t threads[4];
	struct rig r;

	in_real_time(&r);
	for (unsigned int i = 0; i < 4; i++) {
		workers[i] = (struct worker){ .r = &r, .index = i };
		cr_assert_eq(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
	}
	for (unsigned int i = 0; i < 6; i++) {
		uint32_t port = 1 + i % 2;

		cr_assert_eq(nvmfr_soft_port_set(r.f.target, port, 0), 0);
		cr_expect_gt(nvmfr_mpath_dump(r.mpath, NULL, 0), 0);
		cr_assert_eq(nvmfr_soft_ana_set(r.f.target, 3 - port, 1, 1 + i % 2), 0);
		cr_assert_eq(nvmfr_soft_port_set(r.f.target, port, 1), 0);
		cr_expect_eq(nvmfr_ctrl_wait(r.ctrls[port - 1], 20000), 0, "%s", nvmfr_last_error());
	}
	for (unsigned int i = 0; i < 4; i++) {
		pthread_join(threads[i], NULL);
		cr_expect(!workers[i].failed && workers[i].done >= WORKER_IOS, "%u: %u", i, workers[i].done);
	}
	down(&r);
}

/* A sleeper on the descriptor is woken by what waits, too: its time is over. */
Test(mpath_threads, a_sleeper_is_woken, .timeout = 60)
{
	struct nvmfr_completion done;
	struct nvmfr_io io;
	struct rig r;

	in_real_time(&r);
	r.buf = flow_alloc(&r.f, BLOCKS * BLOCK);
	cr_assert_eq(nvmfr_mqpair_create(r.mpath, NULL, &r.mq), 0);
	cr_assert_eq(nvmfr_soft_ana_set(r.f.target, NVMFR_SOFT_ANY, 1, NVMFR_ANA_INACCESSIBLE), 0);
	io = flow_io(&r.f, NVMFR_OP_READ, 0, 1, r.buf, 0);
	cr_assert_eq(nvmfr_mqpair_submit(r.mq, &io, 1), 1);
	cr_expect_eq(nvmfr_mqpair_wait(r.mq, &done, 1, 1, 300), 0, "%s", nvmfr_last_error());
	cr_assert_eq(nvmfr_soft_ana_set(r.f.target, 2, 1, NVMFR_ANA_OPTIMIZED), 0);
	cr_expect_eq(nvmfr_mqpair_wait(r.mq, &done, 1, 1, -1), 1, "%s", nvmfr_last_error());
	cr_expect_eq(done.result, 0);
	down(&r);
}
