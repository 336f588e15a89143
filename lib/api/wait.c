/* SPDX-License-Identifier: BSD-3-Clause */
#include "api/wait.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <time.h>

#include "api/check.h"
#include "ctrl/ctrl.h"

enum { VIRTUAL_SPINS = 200 }; /* before the clock jumps: a target's thread works in real time */

struct waiter {
	const struct wait_source *source;
	uint64_t deadline;
	uint64_t begin; /* the first poll in vain; 0: there was none */
	uint64_t since; /* the first poll in vain after the last completion; 0: there was none */
	unsigned int min, n;
	unsigned int had; /* n at begin */
	uint64_t first; /* when the first was there, from which on the pace of others is counted; 0: none */
	unsigned int had_first; /* n at first */
	unsigned int spins; /* polls in vain, in virtual time */
	bool napped; /* since the last completion */
};

/* ---- sleeping -------------------------------------------------------------------------------- */

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

/* Once between completions: if it was in vain, the next is worth a wake-up. False: it is already. */
static bool nap(struct waiter *w, uint64_t now)
{
	struct timespec pause = { 0 };

	if (w->napped || !w->first)
		return false;
	pause.tv_nsec = (long)pace_nap_ns(now - w->first, w->n - w->had_first, w->min - w->n);
	if (!pause.tv_nsec)
		return false;
	w->napped = true;
	nanosleep(&pause, NULL);
	return true;
}

static int pause_for_more(struct waiter *w, uint64_t now)
{
	struct nvmfr_host *host = w->source->host;
	uint64_t deadline = w->deadline;

	if (nvmfr__clock_is_virtual(&host->clock))
		return host->manual ? jump_once(w->source, deadline) : sleep_once(w->source, deadline);
	if (host->manual) {
		pthread_mutex_lock(&host->lock);
		nvmfr__service_pass(host);
		deadline = nvmfr__min_u64(deadline, host->due_ns);
		pthread_mutex_unlock(&host->lock);
	}
	return nap(w, now) ? 1 : sleep_once(w->source, deadline);
}

/* ---- the loop -------------------------------------------------------------------------------- */

/* For the first completion as its pace has taught; for others while the rest may be quick. */
static bool spins(struct waiter *w, uint64_t now, bool pending)
{
	if (nvmfr__clock_is_virtual(&w->source->host->clock))
		return w->spins++ < VIRTUAL_SPINS;
	if (!pending)
		return false;
	if (!w->first || w->n == w->had_first)
		return now - w->since < pace_spin_ns(w->source->pace);
	return pace_rest_ns(now - w->first, w->n - w->had_first, w->min - w->n) < PACE_SPIN_NS &&
	       now - w->since < PACE_SPIN_NS;
}

/* A poll found nothing. 1: look again, 0: this wait is over, -errno. */
static int idle(struct waiter *w)
{
	const struct wait_source *source = w->source;
	uint64_t now = nvmfr__clock_now_ns(&source->host->clock);
	bool pending = source->pending(source->object);

	if (!w->begin) {
		w->begin = now;
		w->had = w->had_first = w->n;
		w->first = w->n ? now : 0;
	}
	if (!w->since)
		w->since = now;
	if (now >= w->deadline || (!pending && w->n)) {
		if (pending && w->n == w->had && now - w->begin > PACE_SPIN_NS)
			pace_learn(source->pace, now - w->begin);
		return 0;
	}
	if (!pending && w->deadline == UINT64_MAX)
		return nvmfr__fail(-EINVAL,
				   "nothing is in flight, and without a timeout this wait would never "
				   "end: submit first, or give a timeout");
	return spins(w, now, pending) ? 1 : pause_for_more(w, now);
}

static void arrived(struct waiter *w, unsigned int got)
{
	uint64_t now;

	if (w->begin && w->n == w->had) {
		now = nvmfr__clock_now_ns(&w->source->host->clock);
		pace_learn(w->source->pace, now - w->begin);
		if (!w->first) {
			w->first = now;
			w->had_first = got;
		}
	}
	w->n += got;
	w->since = 0;
	w->napped = false;
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

uint64_t nvmfr__wait_deadline(const struct wait_source *source, int timeout_ms)
{
	return timeout_ms < 0 ? UINT64_MAX
			      : nvmfr__clock_now_ns(&source->host->clock) + MS_NS(timeout_ms);
}

int nvmfr__wait(const struct wait_source *source, struct nvmfr_completion *out, unsigned int min,
		unsigned int max, int timeout_ms)
{
	return nvmfr__wait_until(source, out, min, max, nvmfr__wait_deadline(source, timeout_ms));
}

int nvmfr__wait_until(const struct wait_source *source, struct nvmfr_completion *out,
		      unsigned int min, unsigned int max, uint64_t deadline)
{
	struct waiter w = { .source = source, .deadline = deadline, .min = min };

	for (;;) {
		int got = source->poll(source->object, out + w.n, max - w.n);

		if (got > 0)
			arrived(&w, (unsigned int)got);
		if (w.n >= min)
			return (int)w.n;
		if (got == 0) {
			got = idle(&w);
			if (got == 0)
				return (int)w.n;
		}
		if (got < 0)
			return w.n ? (int)w.n : got;
	}
}
