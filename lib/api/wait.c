/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <limits.h>
#include <poll.h>

#include <nvmfr/nvmfr.h>

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
static int sleep_once(struct nvmfr_host *host, struct nvmfr_qpair *qp, uint64_t deadline)
{
	struct pollfd fds[2] = { { .fd = nvmfr__qpair_fd(qp), .events = POLLIN },
				 { .fd = host->epoll_fd, .events = POLLIN } };
	int armed;

	if (fds[0].fd < 0)
		return fds[0].fd;
	armed = nvmfr__qpair_arm(qp);
	if (armed)
		return armed;
	if (poll(fds, host->manual ? 2 : 1, sleep_ms(host, deadline)) < 0 && errno != EINTR)
		return nvmfr__fail(-errno, "poll: %s", nvmfr__strerror(errno));
	return 1;
}

/* Virtual time: a pass, then the clock jumps to what is due next. */
static int jump_once(struct nvmfr_host *host, const struct nvmfr_qpair *qp, uint64_t deadline)
{
	uint64_t due = likely_live(qp) ? qp->ops->ep_due_ns(qp->ep) : UINT64_MAX;

	pthread_mutex_lock(&host->lock);
	nvmfr__service_wait(host, nvmfr__min_u64(due, deadline));
	pthread_mutex_unlock(&host->lock);
	return 1;
}

static int pause_for_more(struct nvmfr_host *host, struct nvmfr_qpair *qp, uint64_t deadline)
{
	if (nvmfr__qpair_forked(qp))
		return nvmfr__qpair_state_error(qp);
	if (!host->manual)
		return sleep_once(host, qp, deadline);
	if (nvmfr__clock_is_virtual(&host->clock))
		return jump_once(host, qp, deadline);
	pthread_mutex_lock(&host->lock);
	nvmfr__service_pass(host);
	deadline = nvmfr__min_u64(deadline, host->due_ns);
	pthread_mutex_unlock(&host->lock);
	return sleep_once(host, qp, deadline);
}

static int check(struct nvmfr_qpair *qp, const struct nvmfr_completion *out, unsigned int min,
		 unsigned int max)
{
	if (!qp || !out)
		return nvmfr__fail(-EINVAL, "qp or out is NULL");
	if (max == 0 || max > INT_MAX || min == 0 || min > max)
		return nvmfr__fail(-EINVAL, "min %u and max %u: min must be from 1 to max", min,
				   max);
	return nvmfr__qpair_forked(qp) ? nvmfr__qpair_state_error(qp) : 0;
}

int nvmfr_wait(struct nvmfr_qpair *qp, struct nvmfr_completion *out, unsigned int min,
	       unsigned int max, int timeout_ms)
{
	unsigned int n = 0, spins = 0;
	struct nvmfr_host *host;
	uint64_t deadline;
	int got = check(qp, out, min, max);

	if (got)
		return got;
	host = qpair_host(qp);
	deadline =
		timeout_ms < 0 ? UINT64_MAX : nvmfr__clock_now_ns(&host->clock) + MS_NS(timeout_ms);
	for (;;) {
		got = nvmfr__qpair_poll(qp, out + n, max - n);
		if (got < 0)
			return n ? (int)n : got;
		n += (unsigned int)got;
		if (n >= min)
			return (int)n;
		if (got == 0 && ++spins > SPINS) {
			if (nvmfr__clock_now_ns(&host->clock) >= deadline)
				return (int)n;
			got = pause_for_more(host, qp, deadline);
			if (got < 0)
				return n ? (int)n : got;
		}
	}
}
