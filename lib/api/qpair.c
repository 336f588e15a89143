/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <limits.h>
#include <string.h>

#include <nvmfr/nvmfr.h>

#include "api/check.h"
#include "api/wait.h"
#include "base/opts.h"
#include "ctrl/ctrl.h"
#include "queue/group.h"

enum { FEED_BATCH = 32 }; /* from here on a larger batch saves nothing */

void nvmfr_qpair_opts_init(struct nvmfr_qpair_opts *opts, size_t size)
{
	struct nvmfr_qpair_opts defaults = {
		.size = sizeof(defaults),
		.depth = 128,
		.max_descriptors = 4,
		.io_timeout_ms = 30000,
	};

	nvmfr__opts_init(opts, size, &defaults, sizeof(defaults));
}

int nvmfr_qpair_create(struct nvmfr_ctrl *ctrl, const struct nvmfr_qpair_opts *given,
		       struct nvmfr_qpair **out)
{
	struct nvmfr_qpair_opts opts;
	int err = 0;

	if (out)
		*out = NULL;
	if (!ctrl || !out)
		err = nvmfr__fail(-EINVAL, "%s is NULL", ctrl ? "out" : "ctrl");
	if (!err)
		err = check_host(ctrl->host);
	if (err)
		return err;
	nvmfr_qpair_opts_init(&opts, sizeof(opts));
	err = given ? nvmfr__opts_import(&opts, sizeof(opts), given, given->size) : 0;
	if (err)
		return nvmfr__fail_wrap(err, "nvmfr_qpair_opts");
	pthread_mutex_lock(&ctrl->host->lock);
	err = nvmfr__ioqueue_create(ctrl, &opts, out);
	pthread_mutex_unlock(&ctrl->host->lock);
	if (!err)
		nvmfr__service_wake(ctrl->host);
	return err;
}

static int check_qpair(struct nvmfr_qpair *qp)
{
	if (!qp)
		return nvmfr__fail(-EINVAL, "qp is NULL");
	return nvmfr__qpair_forked(qp) ? nvmfr__qpair_state_error(qp) : 0;
}

/* ---- waiting --------------------------------------------------------------------------------- */

static int wait_poll(void *object, struct nvmfr_completion *out, unsigned int max)
{
	return nvmfr__qpair_poll(object, out, max);
}

static int wait_fd(void *object)
{
	return nvmfr__qpair_fd(object);
}

static int wait_arm(void *object)
{
	return nvmfr__qpair_arm(object);
}

static bool wait_pending(void *object)
{
	const struct nvmfr_qpair *qp = object;

	return !likely_live(qp) || qpair_is_busy(qp);
}

static uint64_t wait_due(void *object)
{
	const struct nvmfr_qpair *qp = object;

	return likely_live(qp) ? qp->ops->ep_due_ns(qp->ep) : UINT64_MAX;
}

/* The host's lock held. A lost one is coming once its owner has let go of it. */
static bool is_coming(const struct qpair_link *link)
{
	return link->state == LINK_CONNECTING || (link->recovering && link->state == LINK_CLOSED);
}

/* What a recovery needs of the owner: all told, and no hold of the old connection. */
static int let_go(struct nvmfr_qpair *qp)
{
	if (qpair_has_news(qp))
		nvmfr__qpair_adopt(qp);
	if (!qp->recovering)
		return 0;
	if (!nvmfr__qpair_drained(qp))
		return nvmfr__fail(-EBUSY, "queue %u was lost: nvmfr_poll() until it says 0, for what was in flight",
				   qp->qid);
	if (qp->state == LINK_LOST)
		nvmfr__qpair_retire(qp);
	return 0;
}

/* The service does it all. */
static void await_alone(struct nvmfr_qpair *qp, uint64_t deadline)
{
	struct nvmfr_host *host = qpair_host(qp);

	pthread_mutex_lock(&host->lock);
	while (is_coming(&qp->link) && nvmfr__service_wait(host, deadline))
		;
	pthread_mutex_unlock(&host->lock);
}

/* 1: it connects no more, which counts as the one completion that is waited for. */
static int await_poll(void *object, struct nvmfr_completion *out, unsigned int max)
{
	struct nvmfr_qpair *qp = object;

	(void)out;
	(void)max;
	nvmfr__group_pump(qp->group);
	if (let_go(qp))
		return -EBUSY;
	return qp->state != LINK_CONNECTING && !qp->recovering;
}

/* The answer to its Connect comes where the group's completions do: this thread has to look. */
static int await_in_group(struct nvmfr_qpair *qp, uint64_t deadline)
{
	uint64_t now = nvmfr__clock_now_ns(&qpair_host(qp)->clock);
	int timeout_ms = -1;
	struct wait_pace pace = { 0 };
	struct wait_source source = { .host = qpair_host(qp),
				      .object = qp,
				      .pace = &pace,
				      .poll = await_poll,
				      .fd = wait_fd,
				      .arm = wait_arm,
				      .pending = wait_pending,
				      .due_ns = wait_due };
	struct nvmfr_completion none;
	int n;

	if (deadline != UINT64_MAX)
		timeout_ms = now < deadline ? (int)((deadline - now) / MS_NS(1)) : 0;
	n = nvmfr__wait(&source, &none, 1, 1, timeout_ms);
	return n < 0 ? n : 0;
}

/* It may come and be lost again meanwhile: then there is an old connection to let go of once more. */
static int await(struct nvmfr_qpair *qp, uint64_t deadline)
{
	int err = let_go(qp);

	if (!err && qp->group)
		err = await_in_group(qp, deadline);
	else if (!err)
		await_alone(qp, deadline);
	if (!err)
		nvmfr__qpair_adopt(qp);
	return err;
}

int nvmfr_qpair_wait(struct nvmfr_qpair *qp, int timeout_ms)
{
	uint64_t deadline = UINT64_MAX;
	int err = check_qpair(qp);

	if (err)
		return err;
	if (timeout_ms >= 0)
		deadline = nvmfr__clock_now_ns(&qpair_host(qp)->clock) + MS_NS(timeout_ms);
	do
		err = await(qp, deadline);
	while (!err && qp->recovering && qp->state == LINK_LOST &&
	       nvmfr__clock_now_ns(&qpair_host(qp)->clock) < deadline);
	if (err)
		return err;
	if (qp->state == LINK_LIVE && !qp->broken)
		return 0;
	if (qp->state == LINK_CONNECTING || qp->recovering)
		return nvmfr__fail(-ETIMEDOUT, "queue %u: still connecting", qp->qid);
	nvmfr__err_set(qp->sentence);
	return qp->err;
}

static uint16_t public_state(const struct nvmfr_qpair *qp)
{
	if (qp->recovering || (qp->recovers && qp->broken))
		return NVMFR_STATE_RECOVERING;
	if (qp->state == LINK_CONNECTING)
		return NVMFR_STATE_CONNECTING;
	return qp->state == LINK_LIVE && !qp->broken ? NVMFR_STATE_LIVE : NVMFR_STATE_LOST;
}

int nvmfr_qpair_info(struct nvmfr_qpair *qp, struct nvmfr_qpair_info *info)
{
	struct nvmfr_qpair_info full = { .size = sizeof(full) };
	int err = check_qpair(qp);

	if (!err)
		err = check_info(info, info ? info->size : 0, "nvmfr_qpair_info");
	if (err)
		return err;
	if (qpair_has_news(qp))
		nvmfr__qpair_adopt(qp);
	full.qid = qp->qid;
	full.depth = (uint16_t)qp->depth;
	full.state = public_state(qp);
	full.in_flight = (uint16_t)(qp->depth - free_slots(qp) + nvmfr__retry_unplaced(qp));
	full.commands = qpair_commands(qp);
	full.bounced_bytes = qp->bounced_bytes;
	nvmfr__opts_export(info, info->size, &full, sizeof(full));
	return 0;
}

int nvmfr_qpair_fd(struct nvmfr_qpair *qp)
{
	int err = check_qpair(qp);

	return err ? err : nvmfr__qpair_fd(qp);
}

int nvmfr_qpair_arm(struct nvmfr_qpair *qp)
{
	return qp ? nvmfr__qpair_arm(qp) : nvmfr__fail(-EINVAL, "qp is NULL");
}

void nvmfr_qpair_destroy(struct nvmfr_qpair *qp)
{
	struct nvmfr_buffer *scratch = qp ? qp->scratch : NULL;

	if (qp)
		nvmfr__ioqueue_destroy(qp);
	(void)nvmfr_buffer_release(scratch);
}

static struct wait_source completions_of(struct nvmfr_qpair *qp)
{
	return (struct wait_source){ .host = qpair_host(qp),
				     .object = qp,
				     .pace = &qp->pace,
				     .poll = wait_poll,
				     .fd = wait_fd,
				     .arm = wait_arm,
				     .pending = wait_pending,
				     .due_ns = wait_due };
}

int nvmfr_wait(struct nvmfr_qpair *qp, struct nvmfr_completion *out, unsigned int min,
	       unsigned int max, int timeout_ms)
{
	struct wait_source source;
	int err = check_qpair(qp);

	if (!err)
		err = nvmfr__wait_check(out, min, max);
	if (err)
		return err;
	source = completions_of(qp);
	return nvmfr__wait(&source, out, min, max, timeout_ms);
}

/* ---- submitting and waiting in one call ------------------------------------------------------- */

struct feed {
	const struct nvmfr_io *ios;
	unsigned int n, taken;
	unsigned int wake; /* completions that are worth the next submit */
};

static bool in_flight(const struct nvmfr_qpair *qp)
{
	return free_slots(qp) < qp->depth;
}

/*
 * Submits what there is room for. Then a few at once make the better batches, but where one I/O is carried by
 * several commands: there a few may be more than fit.
 */
static int feed_qpair(struct nvmfr_qpair *qp, struct feed *feed)
{
	uint32_t room = free_slots(qp);
	int n;

	feed->wake = 1;
	if (feed->taken == feed->n)
		return 0;
	n = nvmfr__qpair_submit(qp, feed->ios + feed->taken, feed->n - feed->taken);
	if (n == -ENOTCONN || (n == -EAGAIN && in_flight(qp)))
		return 0; /* what was in flight first */
	if (n < 0)
		return n;
	feed->taken += (unsigned int)n;
	if (room - free_slots(qp) == (uint32_t)n)
		feed->wake = MIN(FEED_BATCH, qp->depth / 4 + 1);
	return 0;
}

static int feed_and_wait(struct nvmfr_qpair *qp, struct feed *feed, struct nvmfr_completion *out,
			 unsigned int min, unsigned int max, int timeout_ms)
{
	struct wait_source source = completions_of(qp);
	uint64_t deadline = nvmfr__wait_deadline(&source, timeout_ms);
	unsigned int have = 0;

	for (;;) {
		int n = feed_qpair(qp, feed);
		unsigned int wake;

		if (n < 0) {
			if (!feed->taken && !have)
				return n;
			feed->n = feed->taken; /* the next call tells why */
		}
		if (have >= min || (have && !in_flight(qp)))
			return (int)have;
		wake = MIN(feed->wake, min - have);
		n = nvmfr__wait_until(&source, out + have, wake, max - have, deadline);
		if (n > 0)
			have += (unsigned int)n;
		if (n <= 0 || ((unsigned int)n < wake && in_flight(qp)))
			return have ? (int)have : n;
	}
}

int nvmfr_submit_and_wait(struct nvmfr_qpair *qp, const struct nvmfr_io *ios, unsigned int n,
			  unsigned int *taken, struct nvmfr_completion *out, unsigned int min,
			  unsigned int max, int timeout_ms)
{
	struct feed feed = { .ios = ios, .n = n };
	int err;

	if (taken)
		*taken = 0;
	err = check_qpair(qp);
	if (!err && (!taken || (n && !ios) || n > INT_MAX))
		err = nvmfr__fail(-EINVAL, "taken or ios is NULL, or n is too large");
	if (!err)
		err = nvmfr__wait_check(out, min, max);
	if (err)
		return err;
	err = feed_and_wait(qp, &feed, out, min, max, timeout_ms);
	*taken = feed.taken;
	return err;
}
