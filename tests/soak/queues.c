/* SPDX-License-Identifier: BSD-3-Clause */
#include "soak.h"

#include <errno.h>

enum { DEPTH = SLOTS * 2,
       IO_TIMEOUT_MS = 300,
       SLEEP_MS = 5,
       QPAIR_TRIES = 5, /* that an I/O outlives, as documented */
       MQPAIR_LOSSES = 8 };

static int open_paths(struct worker *w)
{
	struct nvmfr_mqpair_opts opts;

	nvmfr_mqpair_opts_init(&opts, sizeof(opts));
	opts.depth = DEPTH;
	opts.io_timeout_ms = IO_TIMEOUT_MS;
	return nvmfr_mqpair_create(w->mpath, &opts, &w->mq);
}

int queues_open(struct worker *w)
{
	struct nvmfr_qpair_opts opts;
	int err;

	if (w->mpath)
		return open_paths(w);
	nvmfr_qpair_opts_init(&opts, sizeof(opts));
	opts.depth = DEPTH;
	opts.io_timeout_ms = IO_TIMEOUT_MS;
	opts.flags = w->index % 2 ? NVMFR_QPAIR_STATS : 0;
	opts.retry = w->retry;
	err = w->index % 2 ? nvmfr_group_create(w->host, NULL, &w->group) : 0;
	opts.group = w->group;
	/* A fault may be in the way already. */
	do
		err = err && err != -EAGAIN ? err : nvmfr_qpair_create(w->ctrls[0], &opts, &w->qp);
	while (err == -EAGAIN);
	return err ? err : nvmfr_qpair_wait(w->qp, 20000);
}

int queues_submit(struct worker *w, const struct nvmfr_io *io)
{
	return w->mq ? nvmfr_mqpair_submit(w->mq, io, 1) : nvmfr_submit(w->qp, io, 1);
}

int queues_collect(struct worker *w, struct nvmfr_completion *done, unsigned int max, bool sleep)
{
	if (w->mq)
		return sleep ? nvmfr_mqpair_wait(w->mq, done, 1, max, SLEEP_MS) : nvmfr_mqpair_poll(w->mq, done, max);
	if (w->group)
		return sleep ? nvmfr_group_wait(w->group, done, 1, max, SLEEP_MS)
			     : nvmfr_group_poll(w->group, done, max);
	return sleep ? nvmfr_wait(w->qp, done, 1, max, SLEEP_MS) : nvmfr_poll(w->qp, done, max);
}

int queues_close(struct worker *w)
{
	int err;

	nvmfr_mqpair_destroy(w->mq);
	nvmfr_qpair_destroy(w->qp);
	err = w->group ? nvmfr_group_destroy(w->group) : 0;
	w->mq = NULL;
	w->qp = NULL;
	w->group = NULL;
	return err;
}

/* By paths an Abort that helped sends an I/O another way, too. */
uint64_t queues_trouble(const struct worker *w)
{
	uint64_t all = 0;

	for (unsigned int i = 0; i < PATHS && w->ctrls[i]; i++) {
		struct nvmfr_ctrl_stats stats = { .size = sizeof(stats) };

		(void)nvmfr_ctrl_stats(w->ctrls[i], &stats);
		all += stats.losses + (w->mpath ? stats.aborts : 0);
	}
	return all;
}

uint64_t queues_outlived(const struct worker *w)
{
	return w->mpath ? MQPAIR_LOSSES : QPAIR_TRIES;
}
