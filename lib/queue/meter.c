/* SPDX-License-Identifier: BSD-3-Clause */
#include "queue/meter.h"

#include <stdlib.h>
#include <string.h>

#include "base/probe.h"
#include "queue/qpair.h"

enum { LINEAR = 1 << NVMFR_LATENCY_BITS };
_Static_assert(NVMFR_LATENCY_BUCKETS ==
		       (NVMFR_LATENCY_VALUE_BITS - NVMFR_LATENCY_BITS + 1) * LINEAR,
	       "a linear part, then as many buckets to each power of two");

struct qpair_meter *nvmfr__meter_new(const struct nvmfr_qpair *qp, const struct nvmfr__clock *clock,
				     uint32_t depth)
{
	uint32_t slots = 2;
	struct qpair_meter *meter;

	/* As many as the queue pair's own table has. */
	while (slots < depth)
		slots *= 2;
	meter = calloc(1, sizeof(*meter) + slots * sizeof(meter->slot[0]));
	if (!meter)
		return NULL;
	meter->qp = qp;
	meter->clock = clock;
	meter->slots = slots;
	for (unsigned int i = 0; i < METER_KINDS; i++)
		meter->latency[i].size = sizeof(meter->latency[i]);
	return meter;
}

static uint32_t bucket_of(uint64_t ns)
{
	uint32_t shift;

	if (ns < LINEAR)
		return (uint32_t)ns;
	if (ns >> NVMFR_LATENCY_VALUE_BITS)
		return NVMFR_LATENCY_BUCKETS - 1;
	shift = 63 - (uint32_t)__builtin_clzll(ns) - NVMFR_LATENCY_BITS;
	return (shift << NVMFR_LATENCY_BITS) + (uint32_t)(ns >> shift);
}

static void count(struct nvmfr_latency *latency, uint64_t ns)
{
	if (!latency->count || ns < latency->min_ns)
		__atomic_store_n(&latency->min_ns, ns, __ATOMIC_RELAXED);
	if (ns > latency->max_ns)
		__atomic_store_n(&latency->max_ns, ns, __ATOMIC_RELAXED);
	meter_add(&latency->sum_ns, ns);
	meter_add(&latency->buckets[bucket_of(ns)], 1);
	meter_add(&latency->count, 1);
}

/* ---- between the queue pair and its endpoint --------------------------------------------------- */

static uint32_t bytes_of(const struct qpair_meter *meter, const struct nvme_sqe *sqe, uint32_t kind)
{
	const uint32_t nsid = from_le32(sqe->nsid), blocks = (from_le32(sqe->cdw12) & 0xffffu) + 1;
	const struct ns_entry *ns;

	if (kind == METER_OTHER)
		return 0;
	if (nsid == meter->qp->nsid)
		return blocks << meter->qp->ns_shift;
	ns = nvmfr__ns_find(meter->qp->ns, nsid);
	return ns ? blocks << ns->shift : 0;
}

static void note_sent(struct qpair_meter *meter, const struct fab_ep *ep, uint32_t first, uint32_t n)
{
	const uint64_t now = nvmfr__clock_now_ns(meter->clock);

	for (uint32_t i = first; i < first + n; i++) {
		const struct nvme_sqe *sqe =
			(const void *)(ep->capsules + (size_t)i * FAB_CAPSULE_BYTES);
		const uint32_t kind = meter_kind_of(sqe->opcode), cid = from_le16(sqe->cid);
		struct meter_slot *slot = &meter->slot[cid & (meter->slots - 1)];

		*slot = (struct meter_slot){ now, bytes_of(meter, sqe, kind), kind };
		PROBE5(submit, meter->qp->qid, cid, sqe->opcode, from_le32(sqe->nsid), slot->bytes);
	}
}

static int post_send(struct fab_ep *ep, uint32_t first, uint32_t n)
{
	struct qpair_meter *meter = ep->meter;

	note_sent(meter, ep, first, n);
	return meter->below->post_send(ep, first, n);
}

static int post_carrying(struct fab_ep *ep, uint32_t first, uint32_t n, uint32_t told)
{
	struct qpair_meter *meter = ep->meter;

	note_sent(meter, ep, first, n);
	return meter->below->post_carrying(ep, first, n, told);
}

/* A response that nobody waits for is the queue pair's to judge. */
static void note_answer(struct qpair_meter *meter, const struct nvme_cqe *cqe, uint64_t now)
{
	const uint32_t cid = from_le16(cqe->cid), status = from_le16(cqe->status) >> 1;
	struct meter_slot *slot = &meter->slot[cid & (meter->slots - 1)];
	uint64_t ns = now - slot->sent_ns;

	if (!slot->sent_ns)
		return;
	slot->sent_ns = 0;
	PROBE4(complete, meter->qp->qid, cid, status, ns);
	if (status)
		return;
	count(&meter->latency[slot->kind], ns);
	meter_add(&meter->bytes[slot->kind], slot->bytes);
}

static uint64_t poll(struct fab_ep *ep)
{
	struct qpair_meter *meter = ep->meter;
	const uint64_t word = meter->below->poll(ep);
	uint64_t now;

	if (!FAB_POLL_RESPONSES(word))
		return word;
	now = nvmfr__clock_now_ns(meter->clock);
	for (uint32_t n = FAB_POLL_RESPONSES(word); n; n--) {
		note_answer(meter,
			    (const void *)(ep->responses + (size_t)meter->recv_pos * FAB_RESPONSE_BYTES), now);
		if (++meter->recv_pos == ep->recv_positions)
			meter->recv_pos = 0;
	}
	return word;
}

void nvmfr__meter_attach(struct qpair_meter *meter, struct nvmfr_qpair *qp)
{
	memset(meter->slot, 0, meter->slots * sizeof(meter->slot[0]));
	meter->recv_pos = (qp->recv_pos + qp->chores.ready) % qp->recv_positions;
	meter->below = qp->ops;
	meter->ops = *qp->ops;
	meter->ops.post_send = post_send;
	meter->ops.post_carrying = post_carrying;
	meter->ops.poll = poll;
	qp->ops = &meter->ops;
	qp->ep->meter = meter;
}
