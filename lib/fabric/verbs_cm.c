/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connections. Events are taken in one place, copied and acknowledged before they are looked at: then no
 * id is destroyed inside an event of its own, and no destroy waits for an event that nobody acknowledges.
 */
#include "fabric/verbs.h"

#include <errno.h>
#include <netdb.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"

struct cm_event {
	struct rdma_cm_id *id;
	enum rdma_cm_event_type type;
	int status;
	size_t bytes;
	unsigned char data[UINT8_MAX];
};

/* ---- making and starting ---------------------------------------------------------------------- */

static void name_peer(struct verbs_ep *ep)
{
	char host[64], port[8];
	const struct sockaddr *dst = (const struct sockaddr *)&ep->params.dst;

	if (getnameinfo(dst, sizeof(ep->params.dst), host, sizeof(host), port, sizeof(port),
			NI_NUMERICHOST | NI_NUMERICSERV))
		snprintf(ep->base.peer, sizeof(ep->base.peer), "an address of family %d",
			 dst->sa_family);
	else
		snprintf(ep->base.peer, sizeof(ep->base.peer),
			 dst->sa_family == AF_INET6 ? "[%s]:%s" : "%s:%s", host, port);
}

static void link_ep(struct verbs_ep *ep)
{
	ep->next = ep->fab->eps;
	ep->prev = &ep->fab->eps;
	if (ep->next)
		ep->next->prev = &ep->next;
	ep->fab->eps = ep;
}

static void unlink_ep(struct verbs_ep *ep)
{
	*ep->prev = ep->next;
	if (ep->next)
		ep->next->prev = ep->prev;
	if (ep->lost)
		ep->fab->lost--;
}

static int check_params(const struct fab_ep_params *params)
{
	if (params->depth < 1 || params->depth > 4095)
		return nvmfr__fail(-EINVAL, "queue %u: depth %u, 1 to 4095 are possible",
				   params->qid, params->depth);
	if (params->dst.ss_family != AF_INET && params->dst.ss_family != AF_INET6)
		return nvmfr__fail(-EAFNOSUPPORT, "queue %u: the address is neither IPv4 nor IPv6",
				   params->qid);
	if (params->src.ss_family != AF_UNSPEC && params->src.ss_family != params->dst.ss_family)
		return nvmfr__fail(
			-EINVAL,
			"queue %u: the source address is of another family than the target's",
			params->qid);
	return 0;
}

int nvmfr__verbs_ep_create(struct fab *opaque, const struct fab_ep_params *params,
			   struct fab_ep **out)
{
	struct verbs_fab *fab = nvmfr__to_verbs_fab(opaque);
	struct verbs_ep *ep;
	int err = check_params(params);

	if (err)
		return err;
	ep = aligned_alloc(CACHE_LINE, sizeof(*ep));
	if (!ep)
		return nvmfr__fail(-ENOMEM, "no memory for queue %u", params->qid);
	memset(ep, 0, sizeof(*ep));
	ep->base.ops = params->group ? &nvmfr__fab_verbs_grouped : &nvmfr__fab_verbs;
	ep->base.group = params->group;
	ep->base.owner = params->owner;
	ep->fab = fab;
	ep->params = *params;
	pthread_mutex_init(&ep->qp_lock, NULL);
	name_peer(ep);
	if (rdma_create_id(fab->channel, &ep->id, ep, RDMA_PS_TCP)) {
		err = nvmfr__fail(-errno, "%s: no RDMA connection identifier: %s", ep->base.peer,
				  nvmfr__strerror(errno));
		pthread_mutex_destroy(&ep->qp_lock);
		free(ep);
		return err;
	}
	link_ep(ep);
	*out = &ep->base;
	return 0;
}

/* Refused by an old kernel or a device that lacks it: the connection works without. */
static void set_option(struct verbs_ep *ep, int option, void *value, size_t bytes, const char *what)
{
	if (rdma_set_option(ep->id, RDMA_OPTION_ID, option, value, bytes))
		nvmfr__log(ep->fab->fh->log, NVMFR__LOG_WARN, "%s: %s cannot be set: %s",
			   ep->base.peer, what, nvmfr__strerror(errno));
}

int nvmfr__verbs_ep_connect(struct fab_ep *fep, const void *req, size_t req_bytes)
{
	struct verbs_ep *ep = nvmfr__to_verbs_ep(fep);
	struct fab_ep_params *p = &ep->params;
	bool bound = p->src.ss_family != AF_UNSPEC;
	char text[FAB_ERROR_TEXT];
	int yes = 1, err;

	if (req_bytes != sizeof(ep->request) || ep->state != VERBS_IDLE)
		return nvmfr__fail(-EINVAL,
				   "%s: connect: %zu bytes of private data, or called twice",
				   fep->peer, req_bytes);
	memcpy(&ep->request, req, req_bytes);
	if (bound) /* several queues come from one source address */
		set_option(ep, RDMA_OPTION_ID_REUSEADDR, &yes, sizeof(yes), "source address reuse");
	if (p->tos)
		set_option(ep, RDMA_OPTION_ID_TOS, &p->tos, sizeof(p->tos), "type of service");
	if (p->ack_timeout)
		set_option(ep, RDMA_OPTION_ID_ACK_TIMEOUT, &p->ack_timeout, sizeof(p->ack_timeout),
			   "ack timeout");
	if (rdma_resolve_addr(ep->id, bound ? (struct sockaddr *)&p->src : NULL,
			      (struct sockaddr *)&p->dst, (int)p->cm_timeout_ms)) {
		err = nvmfr__verbs_addr_text(text, sizeof(text), -errno, ep);
		return nvmfr__fail(err, "%s", text);
	}
	ep->state = VERBS_ADDR;
	return 0;
}

/* ---- what events become ----------------------------------------------------------------------- */

static int tell(struct verbs_ep *ep, struct fab_event *ev, enum fab_event_type type, int err)
{
	ev->type = type;
	ev->ep = &ep->base;
	ev->owner = ep->base.owner;
	ev->err = err;
	if (type != FAB_EV_CONNECTED)
		ep->state = VERBS_DOWN;
	return 1;
}

static __attribute__((format(printf, 4, 5))) int
tell_failed(struct verbs_ep *ep, struct fab_event *ev, int err, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vsnprintf(ev->text, sizeof(ev->text), fmt, args);
	va_end(args);
	return tell(ep, ev, FAB_EV_FAILED, err);
}

static int on_addr(struct verbs_ep *ep, struct fab_event *ev)
{
	ep->dev = nvmfr__verbs_dev_get(ep->fab, ep->id);
	if (!ep->dev)
		return tell_failed(ep, ev, -ENODEV, "%s", nvmfr__err_get());
	ep->base.dev = &ep->dev->base;
	ep->base.dev->users++;
	ep->state = VERBS_ROUTE;
	if (rdma_resolve_route(ep->id, (int)ep->params.cm_timeout_ms))
		return tell_failed(ep, ev, -errno, "%s: no route through device %s: %s",
				   ep->base.peer, ep->base.dev->name, nvmfr__strerror(errno));
	return 0;
}

/* We are only read from by the target (writes), never read ourselves: initiator_depth stays 0. */
static int on_route(struct verbs_ep *ep, struct fab_event *ev)
{
	struct rdma_conn_param param = {
		.private_data = &ep->request,
		.private_data_len = sizeof(ep->request),
		.responder_resources =
			(uint8_t)MIN(MAX(ep->dev->attr.max_qp_rd_atom, 0), UINT8_MAX),
		.flow_control = 1,
		.retry_count = ep->params.retry_count,
		.rnr_retry_count = ep->params.rnr_retry_count,
	};
	int err = nvmfr__verbs_queue_create(ep);

	if (err)
		return tell_failed(ep, ev, err, "%s", nvmfr__err_get());
	ep->state = VERBS_CONNECT;
	if (rdma_connect(ep->id, &param))
		return tell_failed(ep, ev, -errno, "%s: the connect request cannot be sent: %s",
				   ep->base.peer, nvmfr__strerror(errno));
	return 0;
}

static int on_established(struct verbs_ep *ep, struct fab_event *ev, const struct cm_event *cm)
{
	ep->state = VERBS_UP;
	ep->linked = true;
	/* informative, and some targets send none */
	if (nvme_parse_cm_accept(cm->data, cm->bytes, &ev->crqsize))
		ev->crqsize = 0;
	return tell(ep, ev, FAB_EV_CONNECTED, 0);
}

static int on_rejected(struct verbs_ep *ep, struct fab_event *ev, const struct cm_event *cm)
{
	return tell(ep, ev, FAB_EV_FAILED,
		    nvmfr__verbs_reject_text(ev, cm->status, cm->data, cm->bytes, ep));
}

static int on_disconnected(struct verbs_ep *ep, struct fab_event *ev)
{
	if (ep->state != VERBS_UP)
		return tell_failed(ep, ev, -ECONNABORTED, "%s: disconnected while connecting",
				   ep->base.peer);
	snprintf(ev->text, sizeof(ev->text), "%s: disconnected by the peer or the fabric",
		 ep->base.peer);
	return tell(ep, ev, FAB_EV_DISCONNECTED, -ECONNABORTED);
}

static int on_gone(struct verbs_ep *ep, struct fab_event *ev)
{
	if (ep->lost)
		ep->fab->lost--;
	ep->lost = false;
	snprintf(ev->text, sizeof(ev->text), "%s: device %s went away", ep->base.peer,
		 ep->base.dev ? ep->base.dev->name : "?");
	return tell(ep, ev, FAB_EV_DEVICE_GONE, -ENODEV);
}

static int on_addr_error(struct verbs_ep *ep, struct fab_event *ev, int status)
{
	return tell(ep, ev, FAB_EV_FAILED,
		    nvmfr__verbs_addr_text(ev->text, sizeof(ev->text), status, ep));
}

static int negative(int status, int otherwise)
{
	return status < 0 && status > -4096 ? status : otherwise;
}

/* 1: ev is filled. An event that the state does not expect is a late one, and dropped. */
static int on_event(struct verbs_ep *ep, struct fab_event *ev, const struct cm_event *cm)
{
	const char *peer = ep->base.peer;

	if (ep->state == VERBS_DOWN || cm->type == RDMA_CM_EVENT_TIMEWAIT_EXIT)
		return 0;
	switch (cm->type) {
	case RDMA_CM_EVENT_ADDR_RESOLVED: return ep->state == VERBS_ADDR ? on_addr(ep, ev) : 0;
	case RDMA_CM_EVENT_ROUTE_RESOLVED: return ep->state == VERBS_ROUTE ? on_route(ep, ev) : 0;
	case RDMA_CM_EVENT_ESTABLISHED:
		return ep->state == VERBS_CONNECT ? on_established(ep, ev, cm) : 0;
	case RDMA_CM_EVENT_ADDR_ERROR: return on_addr_error(ep, ev, cm->status);
	case RDMA_CM_EVENT_ROUTE_ERROR:
		return tell_failed(ep, ev, negative(cm->status, -EHOSTUNREACH), "%s: no route: %s",
				   peer, nvmfr__strerror(cm->status));
	case RDMA_CM_EVENT_UNREACHABLE:
		return tell_failed(ep, ev, -EHOSTUNREACH,
				   "%s: no answer: the host is down, or RDMA does not"
				   " reach it (%s)",
				   peer, nvmfr__strerror(cm->status));
	case RDMA_CM_EVENT_CONNECT_ERROR:
		return tell_failed(ep, ev, negative(cm->status, -EIO),
				   "%s: the connection could not be set up on"
				   " device %s: %s",
				   peer, ep->base.dev ? ep->base.dev->name : "?",
				   nvmfr__strerror(cm->status));
	case RDMA_CM_EVENT_REJECTED: return on_rejected(ep, ev, cm);
	case RDMA_CM_EVENT_DISCONNECTED: return on_disconnected(ep, ev);
	case RDMA_CM_EVENT_DEVICE_REMOVAL: return on_gone(ep, ev);
	default:
		nvmfr__log(ep->fab->fh->log, NVMFR__LOG_INFO, "%s: %s", peer,
			   rdma_event_str(cm->type));
		return 0;
	}
}

/* ---- taking events ---------------------------------------------------------------------------- */

static bool take_cm(struct verbs_fab *fab, struct cm_event *out)
{
	struct rdma_cm_event *event;
	const struct rdma_conn_param *conn;

	if (rdma_get_cm_event(fab->channel, &event))
		return false;
	conn = &event->param.conn;
	*out = (struct cm_event){ .id = event->id, .type = event->event, .status = event->status };
	if (conn->private_data) {
		/* the length is one byte: it cannot exceed data */
		out->bytes = conn->private_data_len;
		memcpy(out->data, conn->private_data, out->bytes);
	}
	rdma_ack_cm_event(event);
	return true;
}

static int next_lost(struct verbs_fab *fab, struct fab_event *ev)
{
	for (struct verbs_ep *ep = fab->eps; ep && fab->lost; ep = ep->next)
		if (ep->lost)
			return on_gone(ep, ev);
	return 0;
}

int nvmfr__verbs_next_event(struct fab *opaque, struct fab_event *ev)
{
	struct verbs_fab *fab = nvmfr__to_verbs_fab(opaque);
	struct cm_event cm;

	memset(ev, 0, sizeof(*ev));
	nvmfr__verbs_watch(fab);
	if (fab->lost)
		return next_lost(fab, ev);
	while (take_cm(fab, &cm)) {
		/* the only news of it where async events cannot be heard; a keeper's has no context */
		if (cm.type == RDMA_CM_EVENT_DEVICE_REMOVAL)
			nvmfr__verbs_gone(fab, cm.id->verbs);
		if (cm.id->context && on_event(cm.id->context, ev, &cm))
			return 1;
	}
	if (errno == EAGAIN || errno == EINTR)
		return 0;
	return nvmfr__fail(-errno, "the RDMA connection manager gives no events: %s",
			   nvmfr__strerror(errno));
}

/* ---- the end ---------------------------------------------------------------------------------- */

void nvmfr__verbs_ep_disconnect(struct fab_ep *fep)
{
	struct verbs_ep *ep = nvmfr__to_verbs_ep(fep);

	if (!ep->linked) {
		ep->state = VERBS_DOWN;
		return;
	}
	ep->linked = false;
	pthread_mutex_lock(&ep->qp_lock);
	rdma_disconnect(ep->id);
	pthread_mutex_unlock(&ep->qp_lock);
}

/* Where no keeper could be bound, the endpoint's own id becomes it: MRs and shared CQs outlive endpoints. */
static void let_go(struct verbs_ep *ep)
{
	struct verbs_dev *dev = ep->dev;
	struct rdma_cm_id *id = ep->id;

	if (dev)
		dev->base.users--;
	if (dev && (!dev->keeper || dev->keeper->verbs != dev->ctx)) {
		id->context = NULL;
		id = dev->keeper;
		dev->keeper = ep->id;
	}
	if (id)
		rdma_destroy_id(id);
}

void nvmfr__verbs_ep_destroy(struct fab_ep *fep)
{
	struct verbs_ep *ep = nvmfr__to_verbs_ep(fep);

	nvmfr__verbs_ep_disconnect(fep);
	nvmfr__verbs_queue_destroy(ep);
	let_go(ep);
	unlink_ep(ep);
	pthread_mutex_destroy(&ep->qp_lock);
	free(ep);
}
