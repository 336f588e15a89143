/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "queue/group.h"
#include "wire/status.h"

static inline uint32_t load32(const unsigned char *p)
{
	le32 v;

	memcpy(&v, p, sizeof(v));
	return from_le32(v);
}

static inline uint64_t load64(const unsigned char *p)
{
	le64 v;

	memcpy(&v, p, sizeof(v));
	return from_le64(v);
}

static void put_slot(struct nvmfr_qpair *qp, struct qslot *slot, uint32_t cid)
{
	atomic_store_explicit(&slot->expect, cid ^ 1u, memory_order_relaxed);
	qp->carried -= slot_kind(slot) == SLOT_CARRIED;
	set_slot_kind(slot, SLOT_PLAIN);
	*qp->free_top++ = slot;
}

static bool send_done(const struct nvmfr_qpair *qp, uint32_t seq)
{
	return (int32_t)(qp->done_seq - seq) > 0;
}

/* A command is over, well or not. 1: out is filled. */
static unsigned int end_command(struct nvmfr_qpair *qp, struct qslot *slot, uint32_t cid,
				int32_t result, uint16_t status, uint64_t cqe_result,
				struct nvmfr_completion *out)
{
	unsigned int n = 1;

	if (slot_kind(slot) == SLOT_CHILD) {
		n = nvmfr__split_child_done(qp, slot, result, status, cqe_result, out);
	} else {
		*out = (struct nvmfr_completion){
			.user_data = slot->user_data,
			.qpair_data = qp->qpair_data,
			.result = result,
			.status = status,
			.cqe_result = cqe_result,
		};
	}
	put_slot(qp, slot, cid);
	return n;
}

/* The response to a SEND that still holds the caller's data: kept until that is in, too. */
static unsigned int end_carried(struct nvmfr_qpair *qp, struct qslot *slot, uint16_t status,
				uint64_t cqe_result, struct nvmfr_completion *out)
{
	struct held_cqe *held = &qp->held_cqe[slot - qp->slots];

	if (send_done(qp, slot->ref))
		return end_command(qp, slot, slot->cid, status ? -EREMOTEIO : 0, status, cqe_result,
				   out);
	*held = (struct held_cqe){ .result = cqe_result, .status = status };
	slot->answered = true;
	qp->held++;
	return 0;
}

/* The response was in and only its SEND was waited for: the outcome is known. */
static unsigned int end_held(struct nvmfr_qpair *qp, struct qslot *slot,
			     struct nvmfr_completion *out)
{
	const struct held_cqe *held = &qp->held_cqe[slot - qp->slots];

	slot->answered = false;
	qp->held--;
	return end_command(qp, slot, slot->cid, held->status ? -EREMOTEIO : 0, held->status,
			   held->result, out);
}

static unsigned int release_held(struct nvmfr_qpair *qp, struct nvmfr_completion *out,
				 unsigned int max)
{
	unsigned int n = 0;

	for (uint32_t i = 0; i <= qp->mask && qp->held && n < max; i++) {
		struct qslot *slot = &qp->slots[i];

		if (slot_kind(slot) != SLOT_CARRIED || !slot->answered || !send_done(qp, slot->ref))
			continue;
		n += end_held(qp, slot, &out[n]);
	}
	return n;
}

/* The CID of a slot's command in flight, or of its last one. */
static uint32_t slot_cid(const struct nvmfr_qpair *qp, const struct qslot *slot)
{
	uint32_t expect = atomic_load_explicit(&slot->expect, memory_order_relaxed);

	if (slot_kind(slot) != SLOT_PLAIN)
		return slot->cid;
	return slot_in_flight(qp, slot) ? expect : expect ^ 1u;
}

static void bad_cid(struct nvmfr_qpair *qp, const struct qslot *slot, uint32_t cid)
{
	uint32_t index = (uint32_t)(slot - qp->slots);
	const char *what = "belongs to an older command (stale)";

	if ((cid & 0xfffu) != index || !slot->tick)
		what = "was never issued";
	else if (cid == slot_cid(qp, slot))
		what = "was completed before (a duplicate)";
	nvmfr__qpair_fault(qp, -EPROTO, "qpair %u: the peer answered with CID 0x%04x, which %s",
			   qp->qid, cid, what);
}

/* A dword that is not what its slot expects. */
static __attribute__((noinline)) unsigned int end_odd(struct nvmfr_qpair *qp, struct qslot *slot,
						      const unsigned char *response,
						      struct nvmfr_completion *out)
{
	uint32_t dword = load32(response + 12), cid = dword & 0xffffu;
	uint16_t status = (uint16_t)(dword >> 17);
	uint64_t result = load64(response);

	if (slot_kind(slot) == SLOT_PLAIN &&
	    ((atomic_load_explicit(&slot->expect, memory_order_relaxed) ^ dword) & 0xffffu) == 0)
		return end_command(qp, slot, cid, status ? -EREMOTEIO : 0, status, result, out);
	if (slot_kind(slot) == SLOT_CHILD && slot->cid == cid)
		return end_command(qp, slot, cid, status ? -EREMOTEIO : 0, status, result, out);
	if (slot_kind(slot) == SLOT_CARRIED && slot->cid == cid && !slot->answered)
		return end_carried(qp, slot, status, result, out);
	bad_cid(qp, slot, cid);
	return 0;
}

/* A write whose data its SEND carried, answered well, and the SEND is done: as good as a plain one. */
static inline bool carried_well(const struct nvmfr_qpair *qp, const struct qslot *slot,
				uint32_t dword)
{
	return slot_kind(slot) == SLOT_CARRIED && slot->cid == dword && !slot->answered &&
	       send_done(qp, slot->ref);
}

/*
 * Good completions from responses that lie one behind the other, until n are taken or one is not what
 * its slot expects. carried: look for those, too, at a price. Returns how many.
 */
static inline __attribute__((always_inline)) uint32_t take_good(struct nvmfr_qpair *qp,
								const unsigned char *response,
								struct nvmfr_completion *out,
								uint32_t n, bool carried)
{
	struct qslot *const slots = qp->slots;
	const uint64_t qpair_data = qp->qpair_data;
	const uint32_t mask = qp->mask;
	struct qslot **top = qp->free_top;
	uint32_t i;

	for (i = 0; i < n; i++, response += FAB_RESPONSE_BYTES, out++) {
		uint32_t dword = load32(response + 12);
		struct qslot *slot = &slots[dword & mask];

		if (unlikely(atomic_load_explicit(&slot->expect, memory_order_relaxed) != dword)) {
			if (!carried || !carried_well(qp, slot, dword))
				break;
			set_slot_kind(slot, SLOT_PLAIN);
			qp->carried--;
		}
		atomic_store_explicit(&slot->expect, dword ^ 1u, memory_order_relaxed);
		*top++ = slot;
		out->user_data = slot->user_data;
		out->qpair_data = qpair_data;
		out->result = 0;
		out->status = 0;
		out->flags = 0;
		out->cqe_result = load64(response);
	}
	qp->free_top = top;
	return i;
}

/* The response at the head of the ring, whatever it is. */
static unsigned int consume_odd(struct nvmfr_qpair *qp, struct nvmfr_completion *out)
{
	const unsigned char *response = qp->responses + (size_t)qp->recv_pos * FAB_RESPONSE_BYTES;

	return end_odd(qp, &qp->slots[load32(response + 12) & qp->mask], response, out);
}

static inline void took(struct nvmfr_qpair *qp, uint32_t n)
{
	qp->ready -= n;
	qp->unposted += n;
	qp->recv_pos += n;
	if (unlikely(qp->recv_pos == qp->recv_positions))
		qp->recv_pos = 0;
}

/* Takes up to n responses, none behind one that breaks the queue. Returns how many completions that
 * made. */
static inline __attribute__((always_inline)) unsigned int
consume(struct nvmfr_qpair *qp, struct nvmfr_completion *out, uint32_t n)
{
	struct nvmfr_completion *const begin = out;
	bool was_broken = qp->broken;

	while (n) {
		const unsigned char *response =
			qp->responses + (size_t)qp->recv_pos * FAB_RESPONSE_BYTES;
		uint32_t run = nvmfr__min_u32(n, qp->recv_positions - qp->recv_pos);
		uint32_t taken;

		if (qp->carried)
			taken = take_good(qp, response, out, run, true);
		else
			taken = take_good(qp, response, out, run, false);
		out += taken;
		n -= taken;
		took(qp, taken);
		if (likely(taken == run))
			continue;
		out += consume_odd(qp, out);
		if (unlikely(qp->broken && !was_broken))
			break;
		n--;
		took(qp, 1);
	}
	return (unsigned int)(out - begin);
}

static inline uint64_t poll_fabric(struct nvmfr_qpair *qp)
{
	uint64_t word = qp->ops->poll(qp->ep);

	qp->ready += FAB_POLL_RESPONSES(word);
	qp->done_seq += FAB_POLL_SENDS(word);
	return word;
}

static void fabric_failed(struct nvmfr_qpair *qp)
{
	nvmfr__qpair_fault(qp, -ECONNABORTED, "qpair %u: %s", qp->qid, qp->ep->error);
}

static void repost(struct nvmfr_qpair *qp)
{
	uint32_t n = qp->unposted;

	qp->unposted = 0;
	qp->ops->post_recv(qp->ep, n);
}

/* The service's tick moved: is a command over its time? Told once; the association goes down for
 * it. */
static __attribute__((noinline)) void check_timeouts(struct nvmfr_qpair *qp)
{
	uint32_t now = atomic_load_explicit(qp->tick, memory_order_relaxed);

	qp->seen_tick = now;
	nvmfr__qpair_look_around(qp);
	if (!qp->timeout_ticks || qp->broken || free_slots(qp) == qp->depth)
		return;
	for (uint32_t i = 0; i <= qp->mask; i++) {
		const struct qslot *slot = &qp->slots[i];

		if (slot_in_flight(qp, slot) && now - slot->tick > qp->timeout_ticks)
			qp->expired++;
	}
	if (qp->expired)
		nvmfr__qpair_fault(
			qp, -ETIMEDOUT,
			"qpair %u: %u command%s unanswered for longer than io_timeout_ms", qp->qid,
			qp->expired, qp->expired == 1 ? "" : "s");
}

/* ---- after the connection -------------------------------------------------------------------- */

static int32_t lost_result(const struct nvmfr_qpair *qp, const struct qslot *slot)
{
	bool over = qp->expired && qp->seen_tick - slot->tick > qp->timeout_ticks;

	return over ? -ETIMEDOUT : -ECONNABORTED;
}

/* Completions for what will never be answered. The endpoint cannot touch memory any more. */
static unsigned int synthesize(struct nvmfr_qpair *qp, struct nvmfr_completion *out,
			       unsigned int max)
{
	unsigned int n = 0;

	for (; qp->slots && qp->drain_next <= qp->mask && n < max; qp->drain_next++) {
		struct qslot *slot = &qp->slots[qp->drain_next];

		if (slot_kind(slot) == SLOT_CARRIED && slot->answered)
			n += end_held(qp, slot, &out[n]);
		else if (slot_in_flight(qp, slot))
			n += end_command(qp, slot, slot_cid(qp, slot), lost_result(qp, slot), 0, 0,
					 &out[n]);
	}
	if (n < max && qp->parents)
		n += nvmfr__split_reap(qp, out + n, max - n);
	return n;
}

/* Responses that arrived before the end are completions like any other. */
static unsigned int collect_rest(struct nvmfr_qpair *qp, struct nvmfr_completion *out,
				 unsigned int max)
{
	uint64_t word = FAB_POLL_MORE;
	unsigned int n = 0;

	while (n < max && (qp->ready || (word & FAB_POLL_MORE))) {
		if (!qp->ready)
			word = poll_fabric(qp);
		n += consume(qp, out + n, nvmfr__min_u32(qp->ready, max - n));
		if (n < max)
			n += release_held(qp, out + n, max - n);
		if (qp->broken && qp->err == -EPROTO)
			break;
	}
	return n;
}

static int poll_lost(struct nvmfr_qpair *qp, struct nvmfr_completion *out, unsigned int max)
{
	unsigned int n = 0;

	if (qp->state == LINK_LOST) {
		nvmfr__split_abandon(qp);
		if (!(qp->broken && qp->err == -EPROTO))
			n = collect_rest(qp, out, max);
		if (n == max)
			return (int)n;
		nvmfr__qpair_retire(qp);
	}
	n += synthesize(qp, out + n, max - n);
	return n ? (int)n : nvmfr__qpair_state_error(qp);
}

/* ---- entry ----------------------------------------------------------------------------------- */

/* Not live, or news: what the first look of a poll does not pass. */
static __attribute__((noinline)) int poll_slow(struct nvmfr_qpair *qp, struct nvmfr_completion *out,
					       unsigned int max)
{
	if (nvmfr__qpair_forked(qp))
		return nvmfr__qpair_state_error(qp);
	if (qpair_has_news(qp))
		nvmfr__qpair_adopt(qp);
	if (qp->state == LINK_LOST || qp->state == LINK_CLOSED) {
		int n = poll_lost(qp, out, max);

		if (qp->group && n > 0)
			nvmfr__group_ask_again(qp);
		return n;
	}
	/* The answer to its Connect comes where those of the others do. */
	if (qp->group && qp->state == LINK_CONNECTING)
		nvmfr__group_pump(qp->group);
	return likely_live(qp) ? nvmfr__qpair_poll(qp, out, max) : 0;
}

/* Held responses, a failed connection, receives to repost. */
static inline unsigned int look_after(struct nvmfr_qpair *qp, uint64_t word,
				      struct nvmfr_completion *out, unsigned int max)
{
	unsigned int n = 0;

	if (unlikely(qp->held) && max)
		n = release_held(qp, out, max);
	if (unlikely(word & FAB_POLL_BAD))
		fabric_failed(qp);
	if (unlikely(qp->unposted >= FAB_RECV_BATCH) && !qp->broken)
		repost(qp);
	return n;
}

/*
 * Goes on behind n completions and the fabric's last word, until max are found or nothing is left:
 * neither in the CQ nor, seen but not taken, in the ring.
 */
static __attribute__((noinline)) int poll_rest(struct nvmfr_qpair *qp, struct nvmfr_completion *out,
					       unsigned int max, unsigned int n, uint64_t word)
{
	for (;;) {
		n += consume(qp, out + n, nvmfr__min_u32(qp->ready, max - n));
		n += look_after(qp, word, out + n, max - n);
		if (n == max || qp->broken || !(qp->ready || (word & FAB_POLL_MORE)))
			break;
		word = qp->ready < max - n ? poll_fabric(qp) : FAB_POLL_MORE;
	}
	if (qp->backlog)
		nvmfr__split_issue(qp);
	else
		qpair_credit(qp);
	if (n == max && qp->group)
		nvmfr__group_ask_again(qp);
	return (int)n;
}

/* Time has passed, or something waits inside: all that a poll may have to see to. */
static __attribute__((noinline)) int poll_all(struct nvmfr_qpair *qp, struct nvmfr_completion *out,
					      unsigned int max)
{
	int n = poll_rest(qp, out, max, 0, qp->ready < max ? poll_fabric(qp) : FAB_POLL_MORE);

	/* Behind the look at what came: a command that was answered is not over its time. */
	if (atomic_load_explicit(qp->tick, memory_order_relaxed) != qp->seen_tick && !qp->ready)
		check_timeouts(qp);
	return n;
}

/* What the fabric said is more than plain responses that fit. */
static __attribute__((noinline)) int poll_word(struct nvmfr_qpair *qp, struct nvmfr_completion *out,
					       unsigned int max, uint64_t word)
{
	qp->ready = FAB_POLL_RESPONSES(word);
	qp->done_seq += FAB_POLL_SENDS(word);
	return poll_rest(qp, out, max, 0, word);
}

/*
 * The common case in line: plain responses and nothing else, that fit the caller's array and lie in one
 * piece of the ring. Credit stays as it is: it counts the ring's room, and no SEND was done.
 */
int nvmfr__qpair_poll(struct nvmfr_qpair *qp, struct nvmfr_completion *out, unsigned int max)
{
	uint32_t got, taken;
	uint64_t word;

	if (unlikely(!likely_live(qp)))
		return poll_slow(qp, out, max);
	if (unlikely(atomic_load_explicit(qp->tick, memory_order_relaxed) != qp->seen_tick) ||
	    unlikely(qp->ready | qp->held | qp->carried) || unlikely(qp->backlog != NULL))
		return poll_all(qp, out, max);
	word = qp->ops->poll(qp->ep);
	got = (uint32_t)word;
	if (unlikely(word > max) || unlikely(got > qp->recv_positions - qp->recv_pos))
		return poll_word(qp, out, max, word);
	taken = take_good(qp, qp->responses + (size_t)qp->recv_pos * FAB_RESPONSE_BYTES, out, got,
			  false);
	qp->recv_pos += taken;
	qp->unposted += taken;
	if (unlikely(qp->recv_pos == qp->recv_positions))
		qp->recv_pos = 0;
	if (unlikely(taken != got) || unlikely(qp->unposted >= FAB_RECV_BATCH)) {
		qp->ready = got - taken;
		return poll_rest(qp, out, max, taken, 0);
	}
	return (int)got;
}
