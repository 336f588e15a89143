/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/thread.h"
#include "ctrl/ctrl.h"
#include "ctrl/host.h"
#include "queue/group.h"

/* ---- descriptors ----------------------------------------------------------------------------- */

int nvmfr__host_watch(struct nvmfr_host *host, int fd)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.fd = fd };

	if (epoll_ctl(host->epoll_fd, EPOLL_CTL_ADD, fd, &ev))
		return nvmfr__fail(-errno, "a descriptor cannot be watched: %s",
				   nvmfr__strerror(errno));
	return 0;
}

void nvmfr__host_unwatch(struct nvmfr_host *host, int fd)
{
	epoll_ctl(host->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
}

void nvmfr__service_changed(struct nvmfr_host *host)
{
	host->changes++;
	pthread_cond_broadcast(&host->changed);
}

void nvmfr__service_wake(struct nvmfr_host *host)
{
	uint64_t one = 1;

	/* Full means that it is readable already. */
	if (write(host->wake_fd, &one, sizeof(one)) < 0)
		return;
}

int nvmfr__host_fab(struct nvmfr_host *host, bool soft, const struct fab_ops **ops,
		    struct fab **fab)
{
	struct fab **place = soft ? &host->soft : &host->verbs;
	int err = 0;

	*ops = soft ? &nvmfr__fab_soft : &nvmfr__fab_verbs;
	if (!*place) {
		err = (*ops)->open(&host->fab, place);
		if (!err && (err = nvmfr__host_watch(host, (*ops)->fd(*place))) != 0) {
			(*ops)->close(*place);
			*place = NULL;
		}
	}
	*fab = *place;
	return err;
}

/* ---- one pass -------------------------------------------------------------------------------- */

/*
 * A backend that fails to give events leaves its descriptor readable: watched on, it would keep the service
 * busy for nothing. It is asked again now and then; short memory passes, a dead channel does not.
 */
static void set_deaf(struct nvmfr_host *host, int fd, bool *deaf)
{
	if (*deaf)
		return;
	*deaf = true;
	nvmfr__host_unwatch(host, fd);
	nvmfr__log(&host->log, NVMFR_LOG_ERROR,
		   "%s; connections that stand go on, but their end is noticed late and new ones cannot be "
		   "made. Asked again every %d ms; if this stays, disconnect and make a new host",
		   nvmfr__err_get(), HOST_DEAF_MS);
}

static void set_hearing(struct nvmfr_host *host, int fd, bool *deaf)
{
	if (!*deaf || nvmfr__host_watch(host, fd))
		return;
	*deaf = false;
	nvmfr__log(&host->log, NVMFR_LOG_WARN, "connection events come again");
}

uint64_t nvmfr__service_events(struct nvmfr_host *host, const struct fab_ops *ops, struct fab *fab,
			       bool *deaf)
{
	struct fab_event ev;
	int got = 1;

	if (!fab)
		return UINT64_MAX;
	for (unsigned int i = 0; i < 256 && got == 1; i++) {
		got = ops->next_event(fab, &ev);
		if (got == 1)
			nvmfr__ctrl_event(host, &ev);
	}
	if (got < 0) {
		set_deaf(host, ops->fd(fab), deaf);
		return nvmfr__min_u64(ops->due_ns(fab),
				      nvmfr__clock_now_ns(&host->clock) + MS_NS(HOST_DEAF_MS));
	}
	set_hearing(host, ops->fd(fab), deaf);
	return got ? 0 : ops->due_ns(fab);
}

/*
 * Coarse time. What passed while nobody looked (a manual host that was not polled, a stopped process)
 * does not count: commands that were submitted meanwhile bear the old tick and are younger than it.
 */
static void tick_pass(struct nvmfr_host *host)
{
	uint64_t now = nvmfr__clock_now_ns(&host->clock);
	uint64_t passed = (now - host->tick_ns) / MS_NS(HOST_TICK_MS);
	uint32_t next = atomic_load_explicit(&host->tick, memory_order_relaxed);

	if (!passed)
		return;
	host->tick_ns += passed * MS_NS(HOST_TICK_MS);
	if (!nvmfr__clock_is_virtual(&host->clock))
		passed = nvmfr__min_u64(passed, 2);
	next += (uint32_t)passed;
	atomic_store_explicit(&host->tick, next ? next : 1, memory_order_relaxed);
	for (struct nvmfr_group *group = host->groups; group; group = group->next)
		nvmfr__group_tick(group);
}

/* It moves while a queue exists that may need it. */
static uint64_t tick_due(const struct nvmfr_host *host)
{
	for (const struct nvmfr_ctrl *ctrl = host->ctrls; ctrl; ctrl = ctrl->next)
		for (const struct entry *entry = ctrl->entries; entry; entry = entry->next)
			if (entry->qp->timeout_ticks && entry->phase == ENTRY_LIVE)
				return host->tick_ns + MS_NS(HOST_TICK_MS);
	return UINT64_MAX;
}

void nvmfr__service_pass(struct nvmfr_host *host)
{
	uint64_t due = UINT64_MAX, count;

	if (read(host->wake_fd, &count, sizeof(count)) < 0 && errno != EAGAIN)
		nvmfr__log(&host->log, NVMFR_LOG_ERROR, "the service's eventfd: %s",
			   nvmfr__strerror(errno));
	due = nvmfr__min_u64(due, nvmfr__service_events(host, &nvmfr__fab_verbs, host->verbs, &host->verbs_deaf));
	due = nvmfr__min_u64(due, nvmfr__service_events(host, &nvmfr__fab_soft, host->soft, &host->soft_deaf));
	tick_pass(host);
	for (struct nvmfr_ctrl *ctrl = host->ctrls; ctrl; ctrl = ctrl->next)
		due = nvmfr__min_u64(due, nvmfr__ctrl_pass(ctrl));
	due = nvmfr__min_u64(due, nvmfr__host_free_devices(host));
	host->due_ns = nvmfr__min_u64(due, tick_due(host));
}

/* ---- the thread ------------------------------------------------------------------------------ */

static int timeout_ms(const struct nvmfr_host *host)
{
	uint64_t now = nvmfr__clock_now_ns(&host->clock), ms;

	if (host->due_ns == UINT64_MAX)
		return -1;
	if (host->due_ns <= now)
		return 0;
	ms = (host->due_ns - now + MS_NS(1) - 1) / MS_NS(1);
	return (int)nvmfr__min_u64(ms, 60000);
}

static void *service_main(void *arg)
{
	struct nvmfr_host *host = arg;
	struct epoll_event evs[16];

	pthread_setname_np(pthread_self(), "nvmfr-service");
	pthread_mutex_lock(&host->lock);
	while (!host->stopping) {
		int wait;

		nvmfr__service_pass(host);
		wait = timeout_ms(host);
		pthread_mutex_unlock(&host->lock);
		if (wait)
			(void)epoll_wait(host->epoll_fd, evs, ARRAY_SIZE(evs), wait);
		pthread_mutex_lock(&host->lock);
	}
	pthread_mutex_unlock(&host->lock);
	return NULL;
}

static int start_thread(struct nvmfr_host *host)
{
	int err;

	err = nvmfr__thread_start(&host->thread, service_main, host);
	host->running = !err;
	return err ? nvmfr__fail(err, "the service thread cannot be started: %s",
				 nvmfr__strerror(err))
		   : 0;
}

int nvmfr__service_open(struct nvmfr_host *host)
{
	int err;

	host->due_ns = UINT64_MAX;
	host->tick_ns = nvmfr__clock_now_ns(&host->clock);
	atomic_init(&host->tick, 1);
	host->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	host->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (host->wake_fd < 0 || host->epoll_fd < 0)
		return nvmfr__fail(-errno, "no descriptor for the service: %s",
				   nvmfr__strerror(errno));
	err = nvmfr__host_watch(host, host->wake_fd);
	return err || host->manual ? err : start_thread(host);
}

void nvmfr__service_stop(struct nvmfr_host *host)
{
	if (!host->running)
		return;
	pthread_mutex_lock(&host->lock);
	host->stopping = true;
	pthread_mutex_unlock(&host->lock);
	nvmfr__service_wake(host);
	pthread_join(host->thread, NULL);
	host->running = false;
}

void nvmfr__service_close(struct nvmfr_host *host)
{
	if (host->wake_fd >= 0)
		close(host->wake_fd);
	if (host->epoll_fd >= 0)
		close(host->epoll_fd);
}

/* ---- waiting for it -------------------------------------------------------------------------- */

/* A manual host: a pass, then sleep until its next or the deadline. In virtual time that is now. */
static void drive(struct nvmfr_host *host, uint64_t deadline_ns)
{
	struct epoll_event evs[16];
	uint64_t now, next, before = host->changes;
	int wait;

	nvmfr__service_pass(host);
	if (host->changes != before)
		return;
	now = nvmfr__clock_now_ns(&host->clock);
	next = nvmfr__min_u64(host->due_ns, deadline_ns);
	if (next <= now)
		return;
	if (nvmfr__clock_is_virtual(&host->clock) && next != UINT64_MAX) {
		if (epoll_wait(host->epoll_fd, evs, ARRAY_SIZE(evs), 0) <= 0)
			nvmfr__clock_advance_ns(&host->clock, next - now);
		return;
	}
	wait = next == UINT64_MAX
		       ? 1000
		       : (int)nvmfr__min_u64((next - now + MS_NS(1) - 1) / MS_NS(1), 1000);
	pthread_mutex_unlock(&host->lock);
	(void)epoll_wait(host->epoll_fd, evs, ARRAY_SIZE(evs), wait);
	pthread_mutex_lock(&host->lock);
}

bool nvmfr__service_wait(struct nvmfr_host *host, uint64_t deadline_ns)
{
	struct timespec until;
	uint64_t now = nvmfr__clock_now_ns(&host->clock);

	if (host->manual)
		drive(host, deadline_ns);
	if (host->manual || now >= deadline_ns)
		return now < deadline_ns;
	now = nvmfr__min_u64(deadline_ns, now + MS_NS(3600000));
	until = (struct timespec){ .tv_sec = (time_t)(now / MS_NS(1000)),
				   .tv_nsec = (long)(now % MS_NS(1000)) };
	pthread_cond_timedwait(&host->changed, &host->lock, &until);
	return true;
}
