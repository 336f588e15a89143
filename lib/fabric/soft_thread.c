/* SPDX-License-Identifier: BSD-3-Clause */
/* A target that progresses by itself. */
#include "fabric/soft.h"

#include <errno.h>
#include <sched.h>
#include <time.h>

#include "base/err.h"
#include "base/thread.h"

#define NS_PER_S UINT64_C(1000000000)

enum {
	IDLE_PASSES = 2000, /* before it sleeps: some tens of microseconds */
	VIRTUAL_NAP_NS = 1000000, /* virtual time moves without telling: it looks again */
};

/* The owner arms, then looks for news; here news are made, then it is looked whether it armed. */
static void serve(struct soft_ep *ep)
{
	nvmfr__soft_pass(ep);
	if (nvmfr__soft_failed(ep) || ep->drop_all)
		nvmfr__soft_settle(ep);
	if (atomic_load(&ep->armed) && atomic_exchange(&ep->armed, false))
		nvmfr__soft_ep_wake(ep);
}

static bool is_due(struct soft_ep *ep)
{
	uint64_t due;

	if (ep->linger)
		return true;
	if (nvmfr__soft_failed(ep))
		return false;
	due = nvmfr__soft_next_due(ep, atomic_load(&ep->posted));
	return due == 0 || (due != SOFT_NEVER && due <= nvmfr__soft_now(ep->target));
}

static bool serve_all(struct nvmfr_soft_target *target)
{
	bool worked = false;

	for (struct soft_ep *ep = target->eps; ep; ep = ep->target_next) {
		if (is_due(ep)) {
			serve(ep);
			worked = true;
		}
	}
	return worked;
}

static uint64_t next_due(struct nvmfr_soft_target *target)
{
	uint64_t due = SOFT_NEVER;

	for (struct soft_ep *ep = target->eps; ep; ep = ep->target_next) {
		if (ep->linger)
			return 0;
		if (nvmfr__soft_failed(ep))
			continue;
		due = nvmfr__min_u64(due, nvmfr__soft_next_due(ep, atomic_load(&ep->posted)));
		due = nvmfr__min_u64(due, atomic_load(&ep->kato_due_ns));
	}
	return due;
}

static void wait_until(struct nvmfr_soft_target *target, uint64_t due)
{
	struct timespec at;

	if (due == SOFT_NEVER) {
		pthread_cond_wait(&target->wake, &target->lock);
		return;
	}
	if (nvmfr__clock_is_virtual(target->fh->clock)) {
		clock_gettime(CLOCK_MONOTONIC, &at);
		due = (uint64_t)at.tv_sec * NS_PER_S + (uint64_t)at.tv_nsec + VIRTUAL_NAP_NS;
	}
	at.tv_sec = (time_t)(due / NS_PER_S);
	at.tv_nsec = (long)(due % NS_PER_S);
	pthread_cond_timedwait(&target->wake, &target->lock, &at);
}

/* target.lock is held. Who posts looks at sleeping after it posted; so does this look after it said so. */
static void sleep_until_due(struct nvmfr_soft_target *target)
{
	uint64_t due;

	atomic_store(&target->sleeping, true);
	due = next_due(target);
	if (!target->stop && due > nvmfr__soft_now(target))
		wait_until(target, due);
	atomic_store(&target->sleeping, false);
}

static void *run(void *arg)
{
	struct nvmfr_soft_target *target = arg;
	unsigned int idle = 0;

	pthread_mutex_lock(&target->lock);
	while (!target->stop) {
		idle = serve_all(target) ? 0 : idle + 1;
		nvmfr__soft_expire(target, nvmfr__soft_now(target));
		if (idle > IDLE_PASSES) {
			sleep_until_due(target);
			idle = 0;
		}
		pthread_mutex_unlock(&target->lock);
		nvmfr__soft_log_violation(target);
		while (atomic_load(&target->waiting))
			sched_yield();
		pthread_mutex_lock(&target->lock);
	}
	pthread_mutex_unlock(&target->lock);
	return NULL;
}

int nvmfr__soft_thread_start(struct nvmfr_soft_target *target)
{
	int err = nvmfr__thread_start(&target->thread, run, target);

	if (err) {
		target->threaded = false;
		return nvmfr__fail(err, "soft target '%s': thread: %s", target->name,
				   nvmfr__strerror(err));
	}
	return 0;
}

void nvmfr__soft_thread_join(struct nvmfr_soft_target *target)
{
	if (!target->threaded)
		return;
	nvmfr__soft_lock(target);
	target->stop = true;
	pthread_cond_signal(&target->wake);
	nvmfr__soft_unlock(target);
	pthread_join(target->thread, NULL);
}

void nvmfr__soft_thread_wake(struct nvmfr_soft_target *target)
{
	/* The lock: between its last look and its sleep the thread holds it. */
	nvmfr__soft_lock(target);
	pthread_cond_signal(&target->wake);
	nvmfr__soft_unlock(target);
}
