/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * I/Os of a thread over several paths. An accepted I/O is on a path, or waits for one; each poll looks at those
 * that wait.
 */
#include "path/mpath.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/err.h"
#include "ctrl/ana.h"
#include "queue/retry.h"
#include "wire/status.h"

/* ---- life ------------------------------------------------------------------------------------ */

static int open_fds(struct nvmfr_mqpair *mq)
{
	struct epoll_event ev = { .events = EPOLLIN };

	mq->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	mq->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
	if (mq->epoll_fd < 0 || mq->timer_fd < 0 ||
	    epoll_ctl(mq->epoll_fd, EPOLL_CTL_ADD, mq->timer_fd, &ev) ||
	    epoll_ctl(mq->epoll_fd, EPOLL_CTL_ADD, mq->group->epoll_fd, &ev))
		return nvmfr__fail(-errno, "no descriptor for paths to sleep on: %s", nvmfr__strerror(errno));
	return 0;
}

int nvmfr__mqpair_open(struct nvmfr_mqpair *mq)
{
	mq->held_tail = &mq->held;
	mq->ios = calloc(mq->opts.depth, sizeof(*mq->ios));
	if (!mq->ios)
		return nvmfr__fail(-ENOMEM, "no memory for %u I/Os", mq->opts.depth);
	for (unsigned int i = mq->opts.depth; i-- > 0;) {
		mq->ios[i].next = mq->free;
		mq->free = &mq->ios[i];
	}
	return open_fds(mq);
}

void nvmfr__mqpair_close(struct nvmfr_mqpair *mq)
{
	nvmfr__ways_end(mq);
	for (const struct mio *mio = mq->held; mio; mio = mio->next)
		nvmfr__io_mark(&mio->io, UINT32_MAX);
	if (mq->epoll_fd >= 0)
		close(mq->epoll_fd);
	if (mq->timer_fd >= 0)
		close(mq->timer_fd);
	free(mq->ios);
}

void nvmfr__mqpair_wake(const struct nvmfr_mqpair *mq)
{
	uint64_t one = 1;

	/* A full counter is readable, too. */
	if (write(mq->group->owner_fd, &one, sizeof(one)) < 0)
		return;
}

/* ---- the way of an I/O ----------------------------------------------------------------------- */

/* No queue pair names its buffers: they are marked. */
static void hold(struct nvmfr_mqpair *mq, struct mio *mio)
{
	mio->next = NULL;
	*mq->held_tail = mio;
	mq->held_tail = &mio->next;
	meter_add(&mq->waiting, 1);
}

/* 0: it is out. -EAGAIN: this way has no room, or is gone; else why it cannot be. */
static int issue(struct nvmfr_mqpair *mq, struct mio *mio, int at)
{
	struct way *way = &mq->ways[at];
	int n = nvmfr__qpair_submit(way->qp, &mio->io, 1);

	if (n != 1)
		return n == -ENOTCONN ? -EAGAIN : n;
	mio->way = (uint8_t)at;
	mio->bytes = mio->io.op == NVMFR_OP_FLUSH ? 0 : mio->io.nblocks << nvmfr__way_shift(way, mio->io.nsid);
	meter_add(&way->counts[WAY_IOS], 1);
	meter_add(&way->counts[WAY_BYTES], mio->bytes);
	meter_add(&way->counts[WAY_IN_FLIGHT], 1);
	meter_add(&way->counts[WAY_BYTES_IN_FLIGHT], mio->bytes);
	return 0;
}

static int accept_io(struct nvmfr_mqpair *mq, const struct nvmfr_io *io)
{
	struct mio *mio = mq->free;
	enum way_rank best;
	int at = nvmfr__ways_pick(mq, io->nsid, 0, &best), err;

	mio->io = *io;
	mio->user_data = io->user_data;
	mio->io.user_data = (uint64_t)(mio - mq->ios);
	mio->since_ns = mio->not_before_ns = 0;
	mio->avoid = mio->losses = 0;
	mio->doubt = false;
	err = at < 0 ? -EAGAIN : issue(mq, mio, at);
	if (at < 0 && nvmfr__ways_lack(mq, io->nsid))
		return nvmfr__fail(-ENOENT, "namespace %u is on none of the paths", io->nsid);
	if (err && err != -EAGAIN)
		return err;
	mq->free = mio->next;
	mq->in_flight++;
	if (err) {
		nvmfr__io_mark(&mio->io, 1);
		hold(mq, mio);
	}
	return 0;
}

static bool is_stale(const struct nvmfr_mqpair *mq)
{
	return mq->changes != atomic_load_explicit(&mq->mpath->changes, memory_order_relaxed) ||
	       (mq->lacking && nvmfr__clock_now_ns(&mq->host->clock) >= mq->look_ns);
}

int nvmfr__mqpair_submit(struct nvmfr_mqpair *mq, const struct nvmfr_io *ios, unsigned int n)
{
	if (unlikely(is_stale(mq)))
		nvmfr__ways_refresh(mq);
	for (unsigned int i = 0; i < n; i++) {
		int err = mq->free ? accept_io(mq, &ios[i])
				   : nvmfr__fail(-EAGAIN, "%u I/Os are in flight: poll first", mq->opts.depth);

		if (err)
			return i ? (int)i : err;
	}
	return (int)n;
}

/* ---- how it ends ----------------------------------------------------------------------------- */

static void told(struct nvmfr_mqpair *mq, struct mio *mio, struct nvmfr_completion *out)
{
	out->user_data = mio->user_data;
	out->qpair_data = mq->opts.qpair_data;
	mio->next = mq->free;
	mq->free = mio;
	mq->in_flight--;
}

static bool may_retry(const struct nvmfr_mqpair *mq, const struct mio *mio)
{
	switch (mq->mpath->opts.retry) {
	case NVMFR_RETRY_ALL: return true;
	case NVMFR_RETRY_READS: return mio->io.op == NVMFR_OP_READ || mio->io.op == NVMFR_OP_FLUSH;
	default: return false;
	}
}

static bool is_write(const struct mio *mio)
{
	return mio->io.op != NVMFR_OP_READ && mio->io.op != NVMFR_OP_FLUSH;
}

/* The states known do not say why: they are read again, not for each I/O. */
static void ask_why(struct nvmfr_mqpair *mq, struct way *way, uint64_t now)
{
	if (now < way->look_ns)
		return;
	way->look_ns = now + MS_NS(MPATH_PAUSE_MS);
	pthread_mutex_lock(&mq->host->lock);
	nvmfr__ana_look(way->ctrl);
	pthread_mutex_unlock(&mq->host->lock);
}

static struct nvmfr_completion no_path(const struct mio *mio)
{
	return (struct nvmfr_completion){ .result = mio->doubt ? -ECONNABORTED : -EHOSTUNREACH };
}

/*
 * A path failed it. What has a status was ended by the controller and can go another way at once; so can what
 * only reads. A write that was lost with its connection may still be done by the old controller, after another
 * one did it and others that followed: it waits until that controller has given the association up, which it does
 * within twice KATO, and has quiesced (CQT).
 */
static bool again(struct nvmfr_mqpair *mq, struct mio *mio, struct nvmfr_completion *cpl)
{
	struct way *way = &mq->ways[mio->way];
	bool refused = cpl->result == -EREMOTEIO && nvme_status_is_path(cpl->status);
	bool lost = cpl->result == -ECONNABORTED || cpl->result == -ETIMEDOUT;
	bool doubt = lost && is_write(mio);
	uint64_t now;

	if ((!refused && !lost) || !may_retry(mq, mio) || (doubt && way->doubt_ns == UINT64_MAX))
		return false;
	mio->losses += lost;
	if (mio->losses > MPATH_LOSSES)
		return false;
	now = nvmfr__clock_now_ns(&mq->host->clock);
	mio->doubt = mio->doubt || doubt;
	mio->not_before_ns = doubt ? now + way->doubt_ns : 0;
	if (lost || !mio->since_ns)
		mio->since_ns = nvmfr__max_u64(now, mio->not_before_ns);
	if (refused && now - mio->since_ns > MS_NS(mq->mpath->opts.no_path_timeout_ms)) {
		*cpl = no_path(mio);
		return false;
	}
	if (refused) {
		mio->avoid |= UINT32_C(1) << mio->way;
		ask_why(mq, way, now);
	}
	mq->reissued++;
	meter_add(&way->counts[WAY_REISSUED], 1);
	nvmfr__io_mark(&mio->io, 1);
	hold(mq, mio);
	return true;
}

/* One that waits: 0: it goes on waiting, 1: it is out, 2: it ended, out is filled. */
static int try_held(struct nvmfr_mqpair *mq, struct mio *mio, uint64_t now, struct nvmfr_completion *out)
{
	uint64_t most = MS_NS(mq->mpath->opts.no_path_timeout_ms);
	enum way_rank best;
	int at, err;

	if (now < mio->not_before_ns)
		return 0;
	if (mio->not_before_ns)
		mio->avoid = 0;
	mio->not_before_ns = 0;
	at = nvmfr__ways_pick(mq, mio->io.nsid, mio->avoid, &best);
	err = at < 0 ? -EAGAIN : issue(mq, mio, at);
	if (!err)
		return 1;
	*out = err == -EAGAIN ? no_path(mio) : (struct nvmfr_completion){ .result = err };
	if (err != -EAGAIN)
		return 2;
	/* A way without room is one. A transition ends by itself: ANATT bounds it. */
	if (at >= 0)
		return 0;
	if (!mio->since_ns)
		mio->since_ns = now;
	if (best != WAY_CHANGE && now - mio->since_ns >= most)
		return 2;
	if (mio->avoid || now - mio->since_ns >= most)
		mio->not_before_ns = now + MS_NS(MPATH_PAUSE_MS);
	return 0;
}

static unsigned int work_held(struct nvmfr_mqpair *mq, struct nvmfr_completion *out, unsigned int max)
{
	uint64_t now = nvmfr__clock_now_ns(&mq->host->clock);
	struct mio *mio = mq->held;
	unsigned int n = 0;

	mq->held = NULL;
	mq->held_tail = &mq->held;
	meter_add(&mq->waiting, 0 - mq->waiting);
	while (mio) {
		struct mio *next = mio->next;
		int what = n < max ? try_held(mq, mio, now, &out[n]) : 0;

		if (what == 0)
			hold(mq, mio);
		else
			nvmfr__io_mark(&mio->io, UINT32_MAX);
		if (what == 2)
			told(mq, mio, &out[n++]);
		mio = next;
	}
	return n;
}

static void count_failure(struct way *way, int32_t result)
{
	if (result == -EREMOTEIO)
		meter_add(&way->counts[WAY_REFUSED], 1);
	else
		meter_add(&way->counts[result == -ETIMEDOUT ? WAY_TIMED_OUT : WAY_ABORTED], 1);
}

/* Those of n completions of paths that are the application's. */
static unsigned int sift(struct nvmfr_mqpair *mq, struct nvmfr_completion *out, unsigned int n)
{
	unsigned int kept = 0;

	for (unsigned int i = 0; i < n; i++) {
		struct mio *mio = &mq->ios[out[i].user_data];
		struct way *way = &mq->ways[mio->way];

		meter_add(&way->counts[WAY_IN_FLIGHT], 0 - UINT64_C(1));
		meter_add(&way->counts[WAY_BYTES_IN_FLIGHT], 0 - mio->bytes);
		if (unlikely(out[i].result)) {
			count_failure(way, out[i].result);
			if (again(mq, mio, &out[i]))
				continue;
		}
		out[kept] = out[i];
		told(mq, mio, &out[kept++]);
	}
	return kept;
}

int nvmfr__mqpair_poll(struct nvmfr_mqpair *mq, struct nvmfr_completion *out, unsigned int max)
{
	unsigned int kept = 0;
	int n;

	/* Nothing is issued again in between: it ends with what is in flight. */
	do {
		n = nvmfr__group_poll(mq->group, out, max);
		if (unlikely(n < 0))
			return n;
		kept = sift(mq, out, (unsigned int)n);
	} while (unlikely(n && !kept));
	if (unlikely(is_stale(mq)))
		nvmfr__ways_refresh(mq);
	if (unlikely(mq->held != NULL))
		kept += work_held(mq, out + kept, max - kept);
	return (int)kept;
}

/* ---- sleeping -------------------------------------------------------------------------------- */

uint64_t nvmfr__mqpair_due_ns(const struct nvmfr_mqpair *mq)
{
	uint64_t most = MS_NS(mq->mpath->opts.no_path_timeout_ms), due = mq->lacking ? mq->look_ns : UINT64_MAX;

	for (const struct mio *mio = mq->held; mio; mio = mio->next) {
		uint64_t own = mio->not_before_ns;

		/* What waits for room is woken by a completion. */
		if (!own && mio->since_ns)
			own = mio->since_ns + most;
		if (own)
			due = nvmfr__min_u64(due, own);
	}
	return due;
}

/* 0: no timer. */
static int set_timer(struct nvmfr_mqpair *mq, uint64_t ns)
{
	const struct itimerspec when = { .it_value = { .tv_sec = (time_t)(ns / MS_NS(1000)),
						       .tv_nsec = (long)(ns % MS_NS(1000)) } };

	if (!ns && !mq->timed)
		return 0;
	mq->timed = ns != 0;
	if (timerfd_settime(mq->timer_fd, 0, &when, NULL))
		return nvmfr__fail(-errno, "a timer for paths: %s", nvmfr__strerror(errno));
	return 0;
}

int nvmfr__mqpair_arm(struct nvmfr_mqpair *mq)
{
	uint64_t due = nvmfr__mqpair_due_ns(mq), now = nvmfr__clock_now_ns(&mq->host->clock);
	int err;

	if (is_stale(mq) || due <= now)
		return 1;
	err = set_timer(mq, due == UINT64_MAX ? 0 : due - now);
	return err ? err : nvmfr__group_arm(mq->group);
}
