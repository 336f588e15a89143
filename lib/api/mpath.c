/* SPDX-License-Identifier: BSD-3-Clause */
/* Several paths: the entry points. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>

#include <nvmfr/nvmfr.h>

#include "api/check.h"
#include "api/wait.h"
#include "base/opts.h"
#include "path/mpath.h"

/* ---- the handle ------------------------------------------------------------------------------ */

void nvmfr_mpath_opts_init(struct nvmfr_mpath_opts *opts, size_t size)
{
	struct nvmfr_mpath_opts defaults = {
		.size = sizeof(defaults), .retry = NVMFR_RETRY_READS, .no_path_timeout_ms = 30000
	};

	nvmfr__opts_init(opts, size, &defaults, sizeof(defaults));
}

static int check_opts(const struct nvmfr_mpath_opts *opts)
{
	if (opts->policy > NVMFR_MPATH_NUMA || opts->retry > NVMFR_RETRY_ALL || opts->flags)
		return nvmfr__fail(-EINVAL, "nvmfr_mpath_opts: policy %u, retry %u and flags %xh cannot be",
				   opts->policy, opts->retry, opts->flags);
	return 0;
}

int nvmfr_mpath_create(struct nvmfr_host *host, const struct nvmfr_mpath_opts *given, struct nvmfr_mpath **out)
{
	struct nvmfr_mpath_opts opts;
	int err;

	if (out)
		*out = NULL;
	err = out ? check_host(host) : nvmfr__fail(-EINVAL, "out is NULL");
	if (err)
		return err;
	nvmfr_mpath_opts_init(&opts, sizeof(opts));
	err = given ? nvmfr__opts_import(&opts, sizeof(opts), given, given->size) : 0;
	if (err)
		return nvmfr__fail_wrap(err, "nvmfr_mpath_opts");
	err = check_opts(&opts);
	if (err)
		return err;
	*out = calloc(1, sizeof(**out));
	if (!*out)
		return nvmfr__fail(-ENOMEM, "no memory for a multipath handle");
	(*out)->host = host;
	(*out)->opts = opts;
	return 0;
}

static int check_both(const struct nvmfr_mpath *mpath, const struct nvmfr_ctrl *ctrl)
{
	if (!mpath || !ctrl)
		return nvmfr__fail(-EINVAL, "%s is NULL", mpath ? "ctrl" : "mpath");
	return check_host(mpath->host);
}

int nvmfr_mpath_add(struct nvmfr_mpath *mpath, struct nvmfr_ctrl *ctrl)
{
	int err = check_both(mpath, ctrl);

	if (err)
		return err;
	pthread_mutex_lock(&mpath->host->lock);
	err = nvmfr__mpath_add(mpath, ctrl);
	pthread_mutex_unlock(&mpath->host->lock);
	return err;
}

int nvmfr_mpath_remove(struct nvmfr_mpath *mpath, struct nvmfr_ctrl *ctrl)
{
	int err = check_both(mpath, ctrl);

	if (err)
		return err;
	pthread_mutex_lock(&mpath->host->lock);
	err = nvmfr__mpath_remove(mpath, ctrl);
	pthread_mutex_unlock(&mpath->host->lock);
	return err;
}

int nvmfr_mpath_destroy(struct nvmfr_mpath *mpath)
{
	struct nvmfr_host *host;
	bool used;

	if (!mpath)
		return 0;
	host = mpath->host;
	if (!nvmfr__host_alive(host)) {
		nvmfr__mpath_free(mpath);
		return 0;
	}
	pthread_mutex_lock(&host->lock);
	used = mpath->users;
	if (!used)
		nvmfr__mpath_free(mpath);
	pthread_mutex_unlock(&host->lock);
	return used ? nvmfr__fail(-EBUSY, "threads have queue pairs of it: nvmfr_mqpair_destroy() first") : 0;
}

/* ---- a thread's queue pairs ------------------------------------------------------------------ */

void nvmfr_mqpair_opts_init(struct nvmfr_mqpair_opts *opts, size_t size)
{
	struct nvmfr_mqpair_opts defaults = {
		.size = sizeof(defaults), .depth = 128, .max_descriptors = 4, .io_timeout_ms = 30000
	};

	nvmfr__opts_init(opts, size, &defaults, sizeof(defaults));
}

static int import_opts(struct nvmfr_mqpair_opts *opts, const struct nvmfr_mqpair_opts *given)
{
	int err;

	nvmfr_mqpair_opts_init(opts, sizeof(*opts));
	err = given ? nvmfr__opts_import(opts, sizeof(*opts), given, given->size) : 0;
	if (err)
		return nvmfr__fail_wrap(err, "nvmfr_mqpair_opts");
	if (opts->depth == 0 || opts->depth > 4095)
		return nvmfr__fail(-EINVAL, "depth %u is not from 1 to 4095", opts->depth);
	if (opts->max_descriptors == 0 || opts->max_descriptors > FAB_MAX_DESCRIPTORS)
		return nvmfr__fail(-EINVAL, "max_descriptors %u is not from 1 to %d", opts->max_descriptors,
				   FAB_MAX_DESCRIPTORS);
	return 0;
}

static void end(struct nvmfr_mqpair *mq)
{
	nvmfr__mqpair_close(mq);
	(void)nvmfr_group_destroy(mq->group);
	free(mq);
}

int nvmfr_mqpair_create(struct nvmfr_mpath *mpath, const struct nvmfr_mqpair_opts *given,
			struct nvmfr_mqpair **out)
{
	struct nvmfr_mqpair_opts opts;
	struct nvmfr_mqpair *mq;
	int err;

	if (out)
		*out = NULL;
	if (!mpath || !out)
		return nvmfr__fail(-EINVAL, "%s is NULL", mpath ? "out" : "mpath");
	err = check_host(mpath->host);
	if (!err)
		err = import_opts(&opts, given);
	if (err)
		return err;
	mq = calloc(1, sizeof(*mq));
	if (!mq)
		return nvmfr__fail(-ENOMEM, "no memory for queue pairs");
	mq->host = mpath->host;
	mq->mpath = mpath;
	mq->opts = opts;
	mq->epoll_fd = mq->timer_fd = -1;
	err = nvmfr_group_create(mpath->host, NULL, &mq->group);
	if (!err)
		err = nvmfr__mqpair_open(mq);
	if (err) {
		end(mq);
		return err;
	}
	pthread_mutex_lock(&mpath->host->lock);
	nvmfr__mpath_enter(mpath, mq);
	pthread_mutex_unlock(&mpath->host->lock);
	nvmfr__ways_refresh(mq);
	*out = mq;
	return 0;
}

static __attribute__((noinline, cold)) int bad(const char *what)
{
	return nvmfr__fail(-EINVAL, "%s", what);
}

static int check_mq(const struct nvmfr_mqpair *mq)
{
	return mq ? check_host(mq->host) : bad("mq is NULL");
}

void nvmfr_mqpair_destroy(struct nvmfr_mqpair *mq)
{
	if (!mq)
		return;
	if (nvmfr__host_alive(mq->host)) {
		pthread_mutex_lock(&mq->host->lock);
		nvmfr__mpath_leave(mq);
		pthread_mutex_unlock(&mq->host->lock);
	}
	end(mq);
}

int nvmfr_mqpair_submit(struct nvmfr_mqpair *mq, const struct nvmfr_io *ios, unsigned int n)
{
	int err = check_mq(mq);

	if (unlikely(err))
		return err;
	if (unlikely(!ios || n - 1 >= INT_MAX))
		return bad("ios is NULL, or n is 0 or too large");
	return nvmfr__mqpair_submit(mq, ios, n);
}

int nvmfr_mqpair_poll(struct nvmfr_mqpair *mq, struct nvmfr_completion *out, unsigned int max)
{
	if (unlikely(!mq || !out || max - 1 >= INT_MAX))
		return bad("mq or out is NULL, or max is 0 or too large");
	return nvmfr__mqpair_poll(mq, out, max);
}

int nvmfr_mqpair_fd(const struct nvmfr_mqpair *mq)
{
	int err = check_mq(mq);

	return err ? err : mq->epoll_fd;
}

int nvmfr_mqpair_arm(struct nvmfr_mqpair *mq)
{
	int err = check_mq(mq);

	return err ? err : nvmfr__mqpair_arm(mq);
}

/* ---- waiting --------------------------------------------------------------------------------- */

static int wait_poll(void *object, struct nvmfr_completion *out, unsigned int max)
{
	return nvmfr__mqpair_poll(object, out, max);
}

static int wait_fd(void *object)
{
	const struct nvmfr_mqpair *mq = object;

	return mq->epoll_fd;
}

static int wait_arm(void *object)
{
	return nvmfr__mqpair_arm(object);
}

static bool wait_pending(void *object)
{
	const struct nvmfr_mqpair *mq = object;

	return mq->in_flight != 0;
}

static uint64_t wait_due(void *object)
{
	const struct nvmfr_mqpair *mq = object;

	return nvmfr__min_u64(nvmfr__mqpair_due_ns(mq), nvmfr__group_due_ns(mq->group));
}

int nvmfr_mqpair_wait(struct nvmfr_mqpair *mq, struct nvmfr_completion *out, unsigned int min,
		      unsigned int max, int timeout_ms)
{
	struct wait_source source = { .object = mq,
				      .poll = wait_poll,
				      .fd = wait_fd,
				      .arm = wait_arm,
				      .pending = wait_pending,
				      .due_ns = wait_due };
	int err = check_mq(mq);

	if (!err)
		err = nvmfr__wait_check(out, min, max);
	if (err)
		return err;
	source.host = mq->host;
	source.pace = &mq->pace;
	return nvmfr__wait(&source, out, min, max, timeout_ms);
}

/* ---- what is known --------------------------------------------------------------------------- */

static const struct way *way_at(const struct nvmfr_mqpair *mq, uint32_t index)
{
	for (unsigned int i = 0; i < MPATH_MAX; i++)
		if (mq->ways[i].serial && index-- == 0)
			return &mq->ways[i];
	return NULL;
}

int nvmfr_mqpair_info(struct nvmfr_mqpair *mq, struct nvmfr_mqpair_info *info)
{
	struct nvmfr_mqpair_info full = { .size = sizeof(full) };
	int err = check_mq(mq);

	if (!err)
		err = check_info(info, info ? info->size : 0, "nvmfr_mqpair_info");
	if (err)
		return err;
	full.in_flight = mq->in_flight;
	full.waiting = (uint32_t)mq->waiting;
	full.reissued = mq->reissued;
	while (way_at(mq, full.paths))
		full.paths++;
	nvmfr__opts_export(info, info->size, &full, sizeof(full));
	return 0;
}

int nvmfr_mqpair_path(struct nvmfr_mqpair *mq, uint32_t index, struct nvmfr_mqpair_path *path)
{
	struct nvmfr_mqpair_path full = { .size = sizeof(full), .state = NVMFR_STATE_CONNECTING };
	struct nvmfr_qpair_info info = { .size = sizeof(info) };
	const struct way *way = NULL;
	int err = check_mq(mq);

	if (!err)
		err = check_info(path, path ? path->size : 0, "nvmfr_mqpair_path");
	if (!err) {
		way = way_at(mq, index);
		err = way ? 0 : nvmfr__fail(-ENOENT, "there is no path %u", index);
	}
	if (!err && way->qp)
		err = nvmfr_qpair_info(way->qp, &info);
	if (err)
		return err;
	if (way->qp)
		full.state = info.state;
	full.ctrl = way->ctrl;
	full.ios = way->counts[WAY_IOS];
	full.bytes_in_flight = way->counts[WAY_BYTES_IN_FLIGHT];
	full.in_flight = (uint32_t)way->counts[WAY_IN_FLIGHT];
	full.bytes = way->counts[WAY_BYTES];
	full.refused = way->counts[WAY_REFUSED];
	full.aborted = way->counts[WAY_ABORTED];
	full.timed_out = way->counts[WAY_TIMED_OUT];
	full.reissued = way->counts[WAY_REISSUED];
	nvmfr__opts_export(path, path->size, &full, sizeof(full));
	return 0;
}
