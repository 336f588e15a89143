/* SPDX-License-Identifier: BSD-3-Clause */
/* What an endpoint consists of: one mapping for rings and work requests, a CQ, a QP. */
#include "fabric/verbs.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>

#include "base/err.h"
#include "fabric/pages.h"

/* ---- device limits ---------------------------------------------------------------------------- */

static int check_limits(const struct verbs_ep *ep)
{
	const struct ibv_device_attr *attr = &ep->dev->attr;
	uint32_t sends = ep->base.send_positions, recvs = ep->base.recv_positions;
	const char *name = ep->base.dev->name;

	if (attr->max_qp_wr > 0 && MAX(sends, recvs) > (uint32_t)attr->max_qp_wr)
		return nvmfr__fail(
			-EINVAL,
			"%s: depth %u needs %u work requests a queue, device %s allows %d:"
			" ask for a smaller depth",
			ep->base.peer, ep->params.depth, MAX(sends, recvs), name, attr->max_qp_wr);
	if (attr->max_cqe > 0 && sends + recvs > (uint32_t)attr->max_cqe)
		return nvmfr__fail(-EINVAL,
				   "%s: depth %u needs %u completion entries, device %s allows %d:"
				   " ask for a smaller depth",
				   ep->base.peer, ep->params.depth, sends + recvs, name,
				   attr->max_cqe);
	if (attr->max_sge > 0 && ep->max_sge > (uint32_t)attr->max_sge)
		return nvmfr__fail(-EOPNOTSUPP,
				   "%s: a command with data or descriptors behind it needs 2 SGEs,"
				   " device %s allows %d",
				   ep->base.peer, name, attr->max_sge);
	return 0;
}

/* ---- the mapping ------------------------------------------------------------------------------ */

/* A ring's end costs a slow path; a tiny ring would have it all the time. */
enum { MIN_RING = 64 };

static void set_geometry(struct verbs_ep *ep)
{
	uint32_t depth = ep->params.depth;

	ep->base.send_positions = MAX(
		(depth + 2u * FAB_SIGNAL_EVERY - 1) / FAB_SIGNAL_EVERY * FAB_SIGNAL_EVERY, MIN_RING);
	ep->base.recv_positions = MAX(depth + FAB_RECV_BATCH, MIN_RING);
	if (ep->params.max_descriptors > 1)
		ep->base.tail_bytes =
			16u * MIN(ep->params.max_descriptors, (uint16_t)FAB_MAX_DESCRIPTORS);
	ep->max_sge = ep->params.in_capsule || ep->base.tail_bytes ? 2 : 1;
}

static void *carve(size_t *used, size_t bytes, void *map)
{
	size_t at = *used;

	*used = (at + bytes + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE;
	return map ? (unsigned char *)map + at : NULL;
}

/* First what the device sees, then the work requests. With map NULL it only adds up. Behind the last
 * SEND is room, should a provider look at all of a struct ibv_send_wr. */
static size_t lay_out(struct verbs_ep *ep, void *map, size_t *registered)
{
	size_t used = 0, sends = ep->base.send_positions, recvs = ep->base.recv_positions;

	ep->base.capsules = carve(&used, sends * FAB_CAPSULE_BYTES, map);
	ep->base.responses = carve(&used, recvs * FAB_RESPONSE_BYTES, map);
	ep->base.tails =
		ep->base.tail_bytes ? carve(&used, FAB_TAILS * ep->base.tail_bytes, map) : NULL;
	*registered = used;
	ep->sends = carve(&used, sends * sizeof(*ep->sends) + sizeof(struct ibv_send_wr), map);
	ep->recv_wrs = carve(&used, recvs * sizeof(*ep->recv_wrs), map);
	ep->recv_sges = carve(&used, recvs * sizeof(*ep->recv_sges), map);
	return used;
}

static int map_rings(struct verbs_ep *ep)
{
	size_t registered, bytes = lay_out(ep, NULL, &registered);
	void *map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int err;

	if (map == MAP_FAILED)
		return nvmfr__fail(-ENOMEM, "%s: no memory for a queue of depth %u", ep->base.peer,
				   ep->params.depth);
	ep->map = map;
	ep->map_bytes = bytes;
	if (ep->base.dev->numa_node >= 0)
		(void)nvmfr__pages_prefer_node(map, bytes, ep->base.dev->numa_node);
	lay_out(ep, map, &registered);
	err = nvmfr__verbs_mr_reg(ep->base.dev, map, registered, FAB_ACCESS_TARGET, &ep->mr);
	ep->base.tails_lkey = ep->mr.lkey;
	ep->base.sends = (unsigned char *)ep->sends;
	return err;
}

/* ---- CQ and QP -------------------------------------------------------------------------------- */

static int create_comp(struct verbs_ep *ep)
{
	ep->comp = ibv_create_comp_channel(ep->dev->ctx);
	if (!ep->comp || fcntl(ep->comp->fd, F_SETFL, O_NONBLOCK) < 0)
		return nvmfr__fail(-errno, "%s: device %s gives no completion channel: %s",
				   ep->base.peer, ep->base.dev->name, nvmfr__strerror(errno));
	return 0;
}

/* Room for every position: a failed SEND has a WC, signaled or not. */
static int create_cq(struct verbs_ep *ep)
{
	uint32_t entries = ep->base.send_positions + ep->base.recv_positions;
	int vector = ep->params.qid % MAX(ep->dev->ctx->num_comp_vectors, 1);

	ep->cq = ibv_create_cq(ep->dev->ctx, (int)entries, ep, ep->comp, vector);
	if (!ep->cq)
		return nvmfr__fail(
			-errno, "%s: device %s gives no completion queue of %u entries: %s",
			ep->base.peer, ep->base.dev->name, entries, nvmfr__strerror(errno));
	return 0;
}

static int create_qp(struct verbs_ep *ep)
{
	struct ibv_qp_init_attr attr = {
		.qp_context = ep,
		.send_cq = ep->cq,
		.recv_cq = ep->cq,
		.qp_type = IBV_QPT_RC,
		.cap = {
			.max_send_wr = ep->base.send_positions,
			.max_recv_wr = ep->base.recv_positions,
			.max_send_sge = ep->max_sge,
			.max_recv_sge = 1,
		},
	};

	if (rdma_create_qp(ep->id, ep->dev->pd, &attr))
		return nvmfr__fail(
			-errno, "%s: device %s gives no queue pair of %u sends and %u receives: %s",
			ep->base.peer, ep->base.dev->name, ep->base.send_positions,
			ep->base.recv_positions, nvmfr__strerror(errno));
	ep->qp = ep->id->qp;
	return 0;
}

int nvmfr__verbs_queue_create(struct verbs_ep *ep)
{
	int err;

	set_geometry(ep);
	err = check_limits(ep);
	if (!err)
		err = map_rings(ep);
	if (!err && ep->params.group)
		err = nvmfr__verbs_group_join(ep);
	if (!err && !ep->params.group && ep->params.want_fd)
		err = create_comp(ep);
	if (!err && !ep->params.group)
		err = create_cq(ep);
	if (!err)
		err = create_qp(ep);
	if (err)
		return err;
	nvmfr__verbs_rings_build(ep);
	nvmfr__verbs_post_recv(&ep->base, ep->base.recv_positions);
	return ep->sticky ? nvmfr__fail(-EIO, "%s", ep->base.error) : 0;
}

/* ---- the end ---------------------------------------------------------------------------------- */

void nvmfr__verbs_stop(struct fab_ep *fep)
{
	struct verbs_ep *ep = nvmfr__to_verbs_ep(fep);

	if (ep->base.member)
		nvmfr__verbs_group_disown(ep);
	pthread_mutex_lock(&ep->qp_lock);
	if (ep->qp)
		rdma_destroy_qp(ep->id);
	ep->qp = NULL;
	pthread_mutex_unlock(&ep->qp_lock);
}

/* A CQ's destruction waits until its events are acknowledged: also those nobody has fetched. */
static void destroy_cq(struct verbs_ep *ep)
{
	unsigned int events = 0;
	struct ibv_cq *cq;
	void *context;

	if (!ep->cq)
		return;
	while (ep->comp && !ibv_get_cq_event(ep->comp, &cq, &context))
		events++;
	if (events)
		ibv_ack_cq_events(ep->cq, events);
	ibv_destroy_cq(ep->cq);
	ep->cq = NULL;
}

void nvmfr__verbs_queue_destroy(struct verbs_ep *ep)
{
	nvmfr__verbs_stop(&ep->base);
	if (ep->base.group)
		nvmfr__verbs_group_leave(ep);
	else
		destroy_cq(ep);
	if (ep->comp)
		ibv_destroy_comp_channel(ep->comp);
	ep->comp = NULL;
	if (ep->mr.handle)
		nvmfr__verbs_mr_dereg(ep->base.dev, &ep->mr);
	if (ep->map)
		munmap(ep->map, ep->map_bytes);
	ep->map = NULL;
	ep->base.capsules = ep->base.responses = ep->base.tails = NULL;
}
