/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The data path. All that a work request holds was written by rings_build: to post is to cut the chain
 * at one place, and to mend it.
 */
#include "fabric/verbs.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "fabric/verbs_wc.h"
#include "wire/sqe.h"

_Static_assert(sizeof(struct nvme_sqe) == FAB_CAPSULE_BYTES, "a capsule is an SQE");
_Static_assert(sizeof(struct nvme_cqe) == FAB_RESPONSE_BYTES, "a response is a CQE");

/* ---- building, once a connection -------------------------------------------------------------- */

static unsigned int send_flags(uint32_t position)
{
	return position % FAB_SIGNAL_EVERY == FAB_SIGNAL_EVERY - 1 ? IBV_SEND_SIGNALED : 0;
}

static void build_send(struct verbs_ep *ep, uint32_t i)
{
	struct verbs_send *send = &ep->sends[i];

	*send = (struct verbs_send){
		.wr_id = (uint64_t)ep->tag << 32 | i,
		.next = send + 1,
		.sg_list = send->sge,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.send_flags = send_flags(i),
	};
	send->sge[0] = (struct ibv_sge){
		.addr = (uintptr_t)ep->base.capsules + (uint64_t)i * FAB_CAPSULE_BYTES,
		.length = FAB_CAPSULE_BYTES,
		.lkey = ep->mr.lkey,
	};
}

static void build_recv(struct verbs_ep *ep, uint32_t i)
{
	ep->recv_sges[i] = (struct ibv_sge){
		.addr = (uintptr_t)ep->base.responses + (uint64_t)i * FAB_RESPONSE_BYTES,
		.length = FAB_RESPONSE_BYTES,
		.lkey = ep->mr.lkey,
	};
	ep->recv_wrs[i] = (struct ibv_recv_wr){
		.wr_id = VERBS_RECV_TAG | (uint64_t)ep->tag << 32 | i,
		.next = &ep->recv_wrs[i + 1 == ep->base.recv_positions ? 0 : i + 1],
		.sg_list = &ep->recv_sges[i],
		.num_sge = 1,
	};
}

/* The last SEND's next points behind the ring: never followed, because a post does not wrap. */
void nvmfr__verbs_rings_build(struct verbs_ep *ep)
{
	for (uint32_t i = 0; i < ep->base.send_positions; i++)
		build_send(ep, i);
	for (uint32_t i = 0; i < ep->base.recv_positions; i++)
		build_recv(ep, i);
}

/* ---- posting ---------------------------------------------------------------------------------- */

static __attribute__((noinline, cold)) void post_failed(struct verbs_ep *ep, int err,
							const char *what)
{
	ep->sticky = FAB_POLL_BAD;
	snprintf(ep->base.error, sizeof(ep->base.error), "%s: device %s refused a %s: %s",
		 ep->base.peer, ep->base.dev->name, what, nvmfr__strerror(err));
	if (ep->base.group)
		nvmfr__verbs_group_failed(ep);
}

#define SAME_PLACE(member) \
	_Static_assert(offsetof(struct verbs_send, member) == offsetof(struct ibv_send_wr, member), \
		       "struct verbs_send begins as struct ibv_send_wr does")
SAME_PLACE(wr_id);
SAME_PLACE(next);
SAME_PLACE(sg_list);
SAME_PLACE(num_sge);
SAME_PLACE(opcode);
SAME_PLACE(send_flags);

int nvmfr__verbs_post_send(struct fab_ep *fep, uint32_t first, uint32_t n)
{
	struct verbs_ep *ep = nvmfr__to_verbs_ep(fep);
	struct verbs_send *last = &ep->sends[first + n - 1];
	struct ibv_send_wr *bad;
	int err;

	last->next = NULL;
	err = ibv_post_send(ep->qp, (struct ibv_send_wr *)(void *)&ep->sends[first], &bad);
	last->next = last + 1;
	if (unlikely(err))
		post_failed(ep, err, "send");
	return 0;
}

_Static_assert(sizeof(struct fab_send) == sizeof(struct verbs_send) &&
		       offsetof(struct fab_send, pieces) == offsetof(struct verbs_send, num_sge) &&
		       offsetof(struct fab_send, carry) == offsetof(struct verbs_send, sge[1]) &&
		       sizeof(struct fab_carry) == sizeof(struct ibv_sge) &&
		       offsetof(struct fab_carry, bytes) == offsetof(struct ibv_sge, length) &&
		       offsetof(struct fab_carry, lkey) == offsetof(struct ibv_sge, lkey),
	       "what a SEND carries is an SGE");

static void make_plain(struct verbs_send *send, uint32_t n)
{
	for (; n >= 4; n -= 4, send += 4)
		send[0].num_sge = send[1].num_sge = send[2].num_sge = send[3].num_sge = 1;
	for (; n; n--, send++)
		send->num_sge = 1;
}

/* A work request is ours again as soon as it was posted. */
int nvmfr__verbs_post_carrying(struct fab_ep *fep, uint32_t first, uint32_t n, uint32_t told)
{
	struct verbs_ep *ep = nvmfr__to_verbs_ep(fep);

	if (told != FAB_NO_POSITION)
		ep->sends[told].send_flags = IBV_SEND_SIGNALED;
	nvmfr__verbs_post_send(fep, first, n);
	make_plain(&ep->sends[first], n);
	if (told != FAB_NO_POSITION)
		ep->sends[told].send_flags = send_flags(told);
	return 0;
}

int nvmfr__verbs_post_recv(struct fab_ep *fep, uint32_t n)
{
	struct verbs_ep *ep = nvmfr__to_verbs_ep(fep);
	uint32_t first = ep->recv_next, last = first + n - 1;
	struct ibv_recv_wr *end, *after, *bad;
	int err;

	if (last >= fep->recv_positions)
		last -= fep->recv_positions;
	end = &ep->recv_wrs[last];
	after = end->next;
	end->next = NULL;
	err = ibv_post_recv(ep->qp, &ep->recv_wrs[first], &bad);
	end->next = after;
	ep->recv_next = (uint32_t)(after - ep->recv_wrs);
	if (unlikely(err))
		post_failed(ep, err, "receive");
	return 0;
}

/* ---- completions ------------------------------------------------------------------------------ */

/* Only wr_id, status, qp_num and vendor_err of a failed WC are valid. A flush tells that there was an
 * error, not which: it never replaces a sentence, and a cause replaces the flush's. */
__attribute__((cold)) void nvmfr__verbs_bad_wc(struct verbs_ep *ep, const struct ibv_wc *wc)
{
	bool flush = wc->status == IBV_WC_WR_FLUSH_ERR, first = !ep->sticky;
	const char *what = wc->wr_id & VERBS_RECV_TAG ? "receive" : "send";
	char *error = ep->base.error;
	const size_t room = sizeof(ep->base.error);

	ep->sticky = FAB_POLL_BAD;
	if (wc->status == IBV_WC_SUCCESS)
		snprintf(error, room, "%s: a response of %u bytes, 16 are right", ep->base.peer,
			 wc->byte_len);
	else if (flush && first)
		snprintf(error, room, "%s: connection closed", ep->base.peer);
	else if (!flush)
		snprintf(error, room, "%s: %s failed: %s (vendor 0x%x): %s", ep->base.peer, what,
			 ibv_wc_status_str(wc->status), wc->vendor_err,
			 nvmfr__verbs_wc_hint(wc->status));
}

static __attribute__((noinline, cold)) uint64_t poll_failed(struct verbs_ep *ep)
{
	ep->sticky = FAB_POLL_BAD;
	snprintf(ep->base.error, sizeof(ep->base.error), "%s: device %s cannot be polled",
		 ep->base.peer, ep->base.dev->name);
	return ep->sticky;
}

/* The whole batch once more, with a look at what is bad. Responses between count all the same. */
static __attribute__((noinline, cold)) uint64_t poll_bad(struct verbs_ep *ep,
							 const struct ibv_wc *wcs, uint32_t n)
{
	uint64_t word = 0;

	for (uint32_t i = 0; i < n; i++) {
		if (is_response(&wcs[i]))
			word++;
		else if (is_send(&wcs[i]))
			word += take_sends(ep, (uint32_t)wcs[i].wr_id);
		else
			nvmfr__verbs_bad_wc(ep, &wcs[i]);
	}
	return word | ep->sticky | (n == VERBS_POLL_BATCH ? FAB_POLL_MORE : 0);
}

/* The loop makes no call, so that it keeps to registers that nobody must save. */
uint64_t nvmfr__verbs_poll(struct fab_ep *fep)
{
	struct verbs_ep *ep = nvmfr__to_verbs_ep(fep);
	struct ibv_wc wcs[VERBS_POLL_BATCH + 1], *wc = wcs;
	uint32_t sends = 0, newest = 0;
	uint64_t word;
	int n = ibv_poll_cq(ep->cq, VERBS_POLL_BATCH, wcs);

	if (n <= 0)
		return unlikely(n < 0) ? poll_failed(ep) : ep->sticky;
	if (n == 1 && is_response(wc))
		return ep->sticky | 1;
	wcs[n].status = IBV_WC_GENERAL_ERR; /* ends the run of responses */
	for (;; wc++) {
		while (is_response(wc))
			wc++;
		if (!is_send(wc))
			break;
		newest = (uint32_t)wc->wr_id;
		sends++;
	}
	if (unlikely(wc != &wcs[n]))
		return poll_bad(ep, wcs, (uint32_t)n);
	word = ep->sticky | ((uint32_t)n - sends);
	if (sends)
		word |= take_sends(ep, newest);
	if (unlikely(n == VERBS_POLL_BATCH))
		word |= FAB_POLL_MORE;
	return word;
}

/* ---- sleeping --------------------------------------------------------------------------------- */

int nvmfr__verbs_arm(struct fab_ep *fep)
{
	struct verbs_ep *ep = nvmfr__to_verbs_ep(fep);
	unsigned int events = 0;
	struct ibv_cq *cq;
	void *context;
	int err;

	if (!ep->comp)
		return nvmfr__fail(-EINVAL,
				   "%s: this queue was made without a descriptor to sleep on",
				   fep->peer);
	while (!ibv_get_cq_event(ep->comp, &cq, &context))
		events++;
	if (events)
		ibv_ack_cq_events(ep->cq, events);
	err = ibv_req_notify_cq(ep->cq, 0);
	if (!err)
		return 0;
	/* A device that went, as a rule. It is the connection's end, not the sleeper's: the next poll tells. */
	if (!ep->sticky)
		snprintf(fep->error, sizeof(fep->error),
			 "%s: device %s gives no events: %s", fep->peer, fep->dev->name,
			 nvmfr__strerror(err));
	ep->sticky = FAB_POLL_BAD;
	return 1;
}
