/* SPDX-License-Identifier: BSD-3-Clause */
#include "api/wait.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>

#include "api/check.h"
#include "ctrl/ctrl.h"

enum { SPINS = 200 }; /* polls before sleeping: some microseconds, what a wake-up costs */

static int sleep_ms(const struct nvmfr_host *host, uint64_t deadline)
{
	uint64_t now = nvmfr__clock_now_ns(&host->clock);

	if (deadline == UINT64_MAX)
		return -1;
	return now >= deadline
		       ? 0
		       : (int)nvmfr__min_u64((deadline - now + MS_NS(1) - 1) / MS_NS(1), INT_MAX);
}

/*
 * Nothing there: sleeps until there may be. A manual host's own descriptor and time count, too.
 * 1: look again, -errno.
 */
static int sleep_once(const struct wait_source *source, uint64_t deadline)
{
	struct nvmfr_host *host = source->host;
	struct pollfd fds[2] = { { .fd = source->fd(source->object), .events = POLLIN },
				 { .fd = host->epoll_fd, .events = POLLIN } };
	int armed;

	if (fds[0].fd < 0)
		return fds[0].fd;
	armed = source->arm(source->object);
	if (armed)
		return armed;
	if (poll(fds, host->manual ? 2 : 1, sleep_ms(host, deadline)) < 0 && errno != EINTR)
		return nvmfr__fail(-errno, "poll: %s", nvmfr__strerror(errno));
	return 1;
}

/* Virtual time: a pass, then the clock jumps to what is due next. */
static int jump_once(const struct wait_source *source, uint64_t deadline)
{
	uint64_t due = source->due_ns(source->object);

	pthread_mutex_lock(&source->host->lock);
	nvmfr__service_wait(source->host, nvmfr__min_u64(due, deadline));
	pthread_mutex_unlock(&source->host->lock);
	return 1;
}

static int pause_for_more(const struct wait_source *source, uint64_t deadline)
{
	struct nvmfr_host *host = source->host;

	if (!host->manual)
		return sleep_once(source, deadline);
	if (nvmfr__clock_is_virtual(&host->clock))
		return jump_once(source, deadline);
	pthread_mutex_lock(&host->lock);
	nvmfr__service_pass(host);
	deadline = nvmfr__min_u64(deadline, host->due_ns);
	pthread_mutex_unlock(&host->lock);
	return sleep_once(source, deadline);
}

int nvmfr__wait_check(const struct nvmfr_completion *out, unsigned int min, unsigned int max)
{
	if (!out)
		return nvmfr__fail(-EINVAL, "out is NULL");
	if (max == 0 || max > INT_MAX || min == 0 || min > max)
		return nvmfr__fail(-EINVAL, "min %u and max %u: min must be from 1 to max", min,
				   max);
	return 0;
}

int nvmfr__wait(const struct wait_source *source, struct nvmfr_completion *out, unsigned int min,
		unsigned int max, int timeout_ms)
{
	struct nvmfr__clock *clock = &source->host->clock;
	uint64_t deadline =
		timeout_ms < 0 ? UINT64_MAX : nvmfr__clock_now_ns(clock) + MS_NS(timeout_ms);
	unsigned int n = 0, spins = 0;

	for (;;) {
		int got = source->poll(source->object, out + n, max - n);

		if (got < 0)
			return n ? (int)n : got;
		n += (unsigned int)got;
		if (n >= min)
			return (int)n;
		if (got == 0 && ++spins > SPINS) {
			if (nvmfr__clock_now_ns(clock) >= deadline)
				return (int)n;
			got = pause_for_more(source, deadline);
			if (got < 0)
				return n ? (int)n : got;
		}
	}
}
