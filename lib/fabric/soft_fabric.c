/* SPDX-License-Identifier: BSD-3-Clause */
/* This host's end of the soft fabric: the backend, its endpoints and events. */
#include "fabric/soft.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/err.h"

/* ---- backend ---------------------------------------------------------------------------------- */

static void soft_close(struct fab *fab)
{
	if (!fab)
		return;
	/* The index is taken back only if nvmfr__fab_dev_add() gave one. */
	if (fab->dev.ops && fab->fh->devs[fab->dev.index] == &fab->dev)
		atomic_store(&fab->fh->devs[fab->dev.index], NULL);
	if (fab->event_fd >= 0)
		close(fab->event_fd);
	nvmfr__soft_mr_fini(fab);
	pthread_mutex_destroy(&fab->event_lock);
	pthread_mutex_destroy(&fab->ep_lock);
	pthread_mutex_destroy(&fab->mr_lock);
	free(fab);
}

static int soft_open(struct fab_host *fh, struct fab **out)
{
	/* Two hosts start with other tags, so that the keys of one find nothing at the other. */
	static _Atomic uint32_t opened;
	struct fab *fab = calloc(1, sizeof(*fab));
	int err;

	*out = NULL;
	if (!fab)
		return nvmfr__fail(-ENOMEM, "soft: no memory for the backend");
	fab->fh = fh;
	fab->mr_first_tag = atomic_fetch_add(&opened, 37) & 0x7f;
	pthread_mutex_init(&fab->event_lock, NULL);
	pthread_mutex_init(&fab->ep_lock, NULL);
	pthread_mutex_init(&fab->mr_lock, NULL);

	fab->event_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (fab->event_fd < 0) {
		err = nvmfr__fail(-errno, "soft: eventfd: %s", nvmfr__strerror(errno));
		goto fail;
	}
	fab->dev = (struct fab_dev){
		.ops = &nvmfr__fab_soft, .numa_node = -1, .max_mr_bytes = UINT64_MAX, .name = "soft"
	};
	err = nvmfr__fab_dev_add(fh, &fab->dev);
	if (err)
		goto fail;
	*out = fab;
	return 0;
fail:
	soft_close(fab);
	return err;
}

static int soft_fd(const struct fab *fab)
{
	return fab->event_fd;
}

/* ---- events ----------------------------------------------------------------------------------- */

void nvmfr__soft_push(struct soft_ep *ep, struct soft_event *node)
{
	struct fab *fab = ep->fab;
	const uint64_t one = 1;

	node->event.ep = &ep->ep;
	node->event.owner = ep->ep.owner;
	pthread_mutex_lock(&fab->event_lock);
	if (!node->queued) {
		node->queued = true;
		node->next = NULL;
		if (fab->event_tail)
			fab->event_tail->next = node;
		else
			fab->event_head = node;
		fab->event_tail = node;
		/* Cannot fail: the counter is far from its end. */
		(void)!write(fab->event_fd, &one, sizeof(one));
	}
	pthread_mutex_unlock(&fab->event_lock);
}

/* event_lock is held. */
static void unlink_event(struct fab *fab, struct soft_event *node)
{
	struct soft_event **link = &fab->event_head;
	uint64_t drained;

	if (!node->queued)
		return;
	fab->event_tail = NULL;
	while (*link) {
		if (*link == node) {
			*link = node->next;
			continue;
		}
		fab->event_tail = *link;
		link = &(*link)->next;
	}
	node->queued = false;
	if (!fab->event_head)
		(void)!read(fab->event_fd, &drained, sizeof(drained));
}

static bool pop_event(struct fab *fab, struct fab_event *ev)
{
	struct soft_event *node;

	pthread_mutex_lock(&fab->event_lock);
	node = fab->event_head;
	if (node) {
		*ev = node->event;
		unlink_event(fab, node);
	}
	pthread_mutex_unlock(&fab->event_lock);
	return node;
}

static void purge_events(struct soft_ep *ep)
{
	pthread_mutex_lock(&ep->fab->event_lock);
	unlink_event(ep->fab, &ep->answer);
	unlink_event(ep->fab, &ep->goodbye);
	pthread_mutex_unlock(&ep->fab->event_lock);
}

/* A target without a thread notices a silent host when somebody looks: here. */
static struct soft_ep *most_impatient(struct fab *fab, uint64_t *due_ns)
{
	struct soft_ep *first = NULL;

	*due_ns = SOFT_NEVER;
	pthread_mutex_lock(&fab->ep_lock);
	for (struct soft_ep *ep = fab->eps; ep; ep = ep->fab_next) {
		uint64_t due = atomic_load_explicit(&ep->kato_due_ns, memory_order_acquire);

		if (!ep->threaded && due < *due_ns) {
			*due_ns = due;
			first = ep;
		}
	}
	pthread_mutex_unlock(&fab->ep_lock);
	return first;
}

static int soft_next_event(struct fab *fab, struct fab_event *ev)
{
	struct soft_ep *ep;
	uint64_t due_ns, now;

	if (pop_event(fab, ev))
		return 1;
	ep = most_impatient(fab, &due_ns);
	if (!ep)
		return 0;
	now = nvmfr__clock_now_ns(fab->fh->clock);
	if (due_ns > now)
		return 0;
	nvmfr__soft_lock(ep->target);
	nvmfr__soft_expire(ep->target, now);
	nvmfr__soft_unlock(ep->target);
	return pop_event(fab, ev);
}

static uint64_t soft_due_ns(const struct fab *fab)
{
	struct fab *mutable_fab = container_of(&fab->dev, struct fab, dev);
	uint64_t due_ns;
	bool queued;

	pthread_mutex_lock(&mutable_fab->event_lock);
	queued = fab->event_head;
	pthread_mutex_unlock(&mutable_fab->event_lock);
	if (queued)
		return 0;
	most_impatient(mutable_fab, &due_ns);
	return due_ns;
}

/* ---- endpoints -------------------------------------------------------------------------------- */

static void set_timer(const struct soft_ep *ep, uint64_t ns)
{
	const struct itimerspec spec = { .it_value = { .tv_nsec = (long)ns } };

	if (ep->timer_fd >= 0)
		timerfd_settime(ep->timer_fd, 0, &spec, NULL);
}

void nvmfr__soft_ep_wake(struct soft_ep *ep)
{
	set_timer(ep, 1);
}

void nvmfr__soft_ep_fail(struct soft_ep *ep, bool tell, const char *fmt, ...)
{
	int state = SOFT_OK;
	va_list args;

	if (!atomic_compare_exchange_strong(&ep->fail_state, &state, SOFT_FAILING))
		return;
	va_start(args, fmt);
	vsnprintf(ep->fail_text, sizeof(ep->fail_text), fmt, args);
	va_end(args);
	atomic_store(&ep->fail_state, SOFT_FAILED);
	if (tell) {
		ep->goodbye.event = (struct fab_event){ .type = FAB_EV_DISCONNECTED,
							.err = -ECONNRESET };
		memcpy(ep->goodbye.event.text, ep->fail_text, sizeof(ep->fail_text));
		nvmfr__soft_push(ep, &ep->goodbye);
	}
	nvmfr__soft_ep_wake(ep);
}

static int alloc_rings(struct soft_ep *ep, const struct fab_ep_params *params)
{
	struct fab_ep *base = &ep->ep;
	uint32_t depth = params->depth;

	base->send_positions = (depth + FAB_SIGNAL_EVERY - 1) / FAB_SIGNAL_EVERY * FAB_SIGNAL_EVERY +
			       FAB_SIGNAL_EVERY;
	base->recv_positions = depth + FAB_RECV_BATCH;
	base->capsules = calloc(base->send_positions, FAB_CAPSULE_BYTES);
	base->responses = calloc(base->recv_positions, FAB_RESPONSE_BYTES);
	ep->sends = calloc(base->send_positions, sizeof(*ep->sends));
	ep->delayed = calloc(base->recv_positions, sizeof(*ep->delayed));
	ep->cids = calloc((UINT16_MAX + 1) / 64, sizeof(*ep->cids));
	if (!base->capsules || !base->responses || !ep->sends || !ep->delayed || !ep->cids)
		return -ENOMEM;
	base->sends = (unsigned char *)ep->sends;
	if (params->max_descriptors > 1) {
		base->tail_bytes = params->max_descriptors * (uint32_t)sizeof(struct nvme_sgl);
		base->tails = calloc(FAB_TAILS, base->tail_bytes);
		if (!base->tails)
			return -ENOMEM;
	}
	if (ep->latency_ns) {
		ep->due_ns = calloc(base->send_positions, sizeof(*ep->due_ns));
		if (!ep->due_ns)
			return -ENOMEM;
	}
	return 0;
}

static void soft_ep_stop(struct fab_ep *base)
{
	struct soft_ep *ep = nvmfr__soft_ep(base);

	if (base->member)
		nvmfr__soft_group_disown(ep);
	nvmfr__soft_lock(ep->target);
	nvmfr__soft_ep_fail(ep, false, "stopped by this host");
	nvmfr__soft_detach(ep);
	nvmfr__soft_unlock(ep->target);
}

static void soft_ep_destroy(struct fab_ep *base)
{
	struct soft_ep *ep = nvmfr__soft_ep(base);

	if (!base)
		return;
	soft_ep_stop(base);
	if (ep->fab_prev) {
		pthread_mutex_lock(&ep->fab->ep_lock);
		*ep->fab_prev = ep->fab_next;
		if (ep->fab_next)
			ep->fab_next->fab_prev = ep->fab_prev;
		pthread_mutex_unlock(&ep->fab->ep_lock);
	}
	purge_events(ep);
	if (ep->timer_fd >= 0)
		close(ep->timer_fd);
	nvmfr__soft_target_put(ep->target);
	free(base->capsules);
	free(base->tails);
	free(base->responses);
	free(ep->sends);
	free(ep->delayed);
	free(ep->linger);
	free(ep->cids);
	free(ep->due_ns);
	free(ep);
}

static void link_ep(struct fab *fab, struct soft_ep *ep)
{
	pthread_mutex_lock(&fab->ep_lock);
	ep->fab_next = fab->eps;
	ep->fab_prev = &fab->eps;
	if (fab->eps)
		fab->eps->fab_prev = &ep->fab_next;
	fab->eps = ep;
	pthread_mutex_unlock(&fab->ep_lock);
}

static struct soft_ep *new_ep(struct fab *fab, const struct fab_ep_params *params)
{
	struct soft_ep *ep = aligned_alloc(CACHE_LINE, sizeof(*ep));

	if (!ep)
		return NULL;
	memset(ep, 0, sizeof(*ep));
	ep->ep.ops = &nvmfr__fab_soft;
	ep->ep.dev = &fab->dev;
	ep->ep.owner = params->owner;
	ep->ep.group = params->group;
	ep->fab = fab;
	ep->target = nvmfr__soft_target_get(params->target);
	ep->threaded = ep->target->threaded;
	ep->latency_ns = ep->target->opts.latency_us * UINT64_C(1000);
	ep->in_capsule = params->in_capsule;
	ep->port = params->soft_port;
	ep->qid = params->qid;
	ep->timer_fd = -1;
	ep->kato_due_ns = SOFT_NEVER;
	if (ep->target->name[0])
		snprintf(ep->ep.peer, sizeof(ep->ep.peer), "soft target '%s'", ep->target->name);
	else
		snprintf(ep->ep.peer, sizeof(ep->ep.peer), "soft target");
	return ep;
}

static int soft_ep_create(struct fab *fab, const struct fab_ep_params *params, struct fab_ep **out)
{
	struct soft_ep *ep;
	int err;

	*out = NULL;
	if (!params->target || params->depth == 0 || params->depth > SOFT_MAX_DEPTH)
		return nvmfr__fail(-EINVAL, "soft: an endpoint needs a target and a depth of 1 to %d",
				   SOFT_MAX_DEPTH);
	ep = new_ep(fab, params);
	if (!ep)
		return nvmfr__fail(-ENOMEM, "soft: no memory for an endpoint");
	err = alloc_rings(ep, params);
	if (err) {
		nvmfr__fail(err, "soft: no memory for rings of depth %u", params->depth);
		goto fail;
	}
	if (params->want_fd) {
		ep->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
		if (ep->timer_fd < 0) {
			err = nvmfr__fail(-errno, "soft: timerfd: %s", nvmfr__strerror(errno));
			goto fail;
		}
	}
	link_ep(fab, ep);
	*out = &ep->ep;
	return 0;
fail:
	soft_ep_destroy(&ep->ep);
	return err;
}

static int soft_ep_connect(struct fab_ep *base, const void *req, size_t req_bytes)
{
	struct soft_ep *ep = nvmfr__soft_ep(base);

	nvmfr__soft_connect(ep, req, req_bytes);
	return 0;
}

static void soft_ep_disconnect(struct fab_ep *base)
{
	struct soft_ep *ep = nvmfr__soft_ep(base);

	nvmfr__soft_lock(ep->target);
	nvmfr__soft_ep_fail(ep, false, "disconnected by this host");
	nvmfr__soft_settle(ep);
	nvmfr__soft_unlock(ep->target);
}

static int soft_ep_fd(const struct fab_ep *base)
{
	const struct soft_ep *ep = (const struct soft_ep *)(const void *)base;

	return ep->timer_fd >= 0 ? ep->timer_fd
				 : nvmfr__fail(-EINVAL, "soft: the endpoint was made without a descriptor");
}

const struct fab_ops nvmfr__fab_soft = {
	.name = "soft",
	.open = soft_open,
	.close = soft_close,
	.fd = soft_fd,
	.next_event = soft_next_event,
	.due_ns = soft_due_ns,
	.ep_create = soft_ep_create,
	.ep_connect = soft_ep_connect,
	.ep_disconnect = soft_ep_disconnect,
	.ep_stop = soft_ep_stop,
	.ep_destroy = soft_ep_destroy,
	.mr_reg = nvmfr__soft_mr_reg,
	.mr_reg_dmabuf = nvmfr__soft_mr_reg_dmabuf,
	.mr_dereg = nvmfr__soft_mr_dereg,
	.post_send = nvmfr__soft_post_send,
	.post_carrying = nvmfr__soft_post_carrying,
	.post_recv = nvmfr__soft_post_recv,
	.poll = nvmfr__soft_poll,
	.arm = nvmfr__soft_arm,
	.ep_fd = soft_ep_fd,
	.ep_due_ns = nvmfr__soft_ep_due_ns,
	.group_create = nvmfr__soft_group_create,
	.group_destroy = nvmfr__soft_group_destroy,
	.group_adopt = nvmfr__soft_group_adopt,
	.group_pump = nvmfr__soft_group_pump,
	.group_arm = nvmfr__soft_group_arm,
};
