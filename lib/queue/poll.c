/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "queue/group.h"
#include "queue/retry.h"
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

/* Result, status and flags: one word, zero where all went well. */
#define OUTCOME offsetof(struct nvmfr_completion, result)
_Static_assert(offsetof(struct nvmfr_completion, cqe_result) == OUTCOME + sizeof(uint64_t),
	       "one word");

static inline void put_completion(struct nvmfr_completion *out, uint64_t user_data,
				  uint64_t qpair_data, uint64_t cqe_result)
{
	out->user_data = user_data;
	out->qpair_data = qpair_data;
	memset((char *)out + OUTCOME, 0, sizeof(uint64_t));
	out->cqe_result = cqe_result;
}

static unsigned int end_child(struct nvmfr_qpair *qp, struct qslot *slot, int32_t result,
			      uint16_t status, uint64_t cqe_result, struct nvmfr_completion *out)
{
	uint32_t index = slot_ref(slot);

	if (!result)
		return split_child_done(qp, index, cqe_result, out);
	return nvmfr__split_child_failed(qp, &qp->parents[index], slot->user_data, result, status,
					 cqe_result, out);
}

/* A command is over, well or not. 1: out is filled. */
static unsigned int end_command(struct nvmfr_qpair *qp, struct qslot *slot, uint32_t cid,
				int32_t result, uint16_t status, uint64_t cqe_result,
				struct nvmfr_completion *out)
{
	unsigned int n = 1;

	if (result)
		qpair_count_failure(qp, result);
	if (state_kind(slot_state(slot)) == SLOT_CHILD) {
		n = end_child(qp, slot, result, status, cqe_result, out);
	} else {
		put_completion(out, slot->user_data, qp->qpair_data, cqe_result);
		out->result = result;
		out->status = status;
	}
	put_slot(qp, slot, cid);
	return n;
}

/* Whether the SEND of a slot's command may still read the caller's data. */
static inline bool send_open(const struct nvmfr_qpair *qp, const struct qslot *slot)
{
	uint32_t ref = slot_ref(slot);

	/* Of the SENDs between the oldest and the newest that are not done? */
	return qp->chores.carrying && (ref & REF_CARRIES) &&
	       (((ref >> REF_SHIFT) - qp->done_seq) & REF_SEQ) <=
		       ((qp->carried_seq - qp->done_seq) & REF_SEQ);
}

/* The response to a SEND that may still read the caller's data: kept until that is done, too. */
static void hold(struct nvmfr_qpair *qp, struct qslot *slot, uint32_t cid, uint16_t status,
		 uint64_t cqe_result)
{
	*slot_held(qp, slot) = (struct held_cqe){ .result = cqe_result, .status = status };
	set_slot_state(slot, SLOT_STATE(cid, SLOT_HELD));
	qp->chores.held++;
}

/* The response was in and only its SEND was waited for: the outcome is known. */
static unsigned int end_held(struct nvmfr_qpair *qp, struct qslot *slot,
			     struct nvmfr_completion *out)
{
	const struct held_cqe held = *slot_held(qp, slot);
	const uint32_t cid = (uint32_t)slot_state(slot);

	qp->chores.held--;
	return end_command(qp, slot, cid,
			   held.status ? nvmfr__qpair_refusal(qp, cid, held.status) : 0, held.status,
			   held.result, out);
}

static unsigned int release_held(struct nvmfr_qpair *qp, struct nvmfr_completion *out,
				 unsigned int max)
{
	unsigned int n = 0;

	for (uint32_t i = 0; i <= qp->mask && qp->chores.held && n < max; i++) {
		struct qslot *slot = &qp->slots[i];

		if (state_kind(slot_state(slot)) == SLOT_HELD && !send_open(qp, slot))
			n += end_held(qp, slot, &out[n]);
	}
	return n;
}

/* The CID of a slot's command in flight, or of its last one. */
static uint32_t slot_cid(const struct nvmfr_qpair *qp, const struct qslot *slot)
{
	uint32_t cid = (uint32_t)slot_state(slot);

	return slot_in_flight(qp, slot) ? cid : cid ^ 1u;
}

static void bad_cid(struct nvmfr_qpair *qp, const struct qslot *slot, uint32_t cid)
{
	uint32_t index = (uint32_t)(slot - qp->slots);
	const char *what = "belongs to an older command (stale)";

	if ((cid & 0xfffu) != index || !slot_tick(slot))
		what = "was never issued";
	else if (cid == slot_cid(qp, slot))
		what = "was completed before (a duplicate)";
	nvmfr__qpair_fault(qp, -EPROTO, "qpair %u: the peer answered with CID 0x%04x, which %s",
			   qp->qid, cid, what);
}

/* A dword that is not what its slot expects, or not yet. */
static __attribute__((noinline)) unsigned int end_odd(struct nvmfr_qpair *qp, struct qslot *slot,
						      const unsigned char *response,
						      struct nvmfr_completion *out)
{
	uint32_t dword = load32(response + 12), cid = dword & 0xffffu;
	uint16_t status = (uint16_t)(dword >> 17);
	uint64_t result = load64(response), state = slot_state(slot);

	if ((uint32_t)state != cid || state_kind(state) == SLOT_HELD) {
		bad_cid(qp, slot, cid);
		return 0;
	}
	if (state_kind(state) == SLOT_PLAIN && send_open(qp, slot)) {
		hold(qp, slot, cid, status, result);
		return 0;
	}
	return end_command(qp, slot, cid, status ? nvmfr__qpair_refusal(qp, cid, status) : 0, status,
			   result, out);
}

static inline const unsigned char *next_response(const struct nvmfr_qpair *qp)
{
	return qp->responses + (size_t)qp->recv_pos * FAB_RESPONSE_BYTES;
}

/*
 * Good completions from n responses that lie one behind the other, one or more, until one is not what
 * its slot expects. Returns how many.
 */
static inline __attribute__((always_inline)) uint32_t take_good(struct nvmfr_qpair *qp,
								const unsigned char *response,
								struct nvmfr_completion *out,
								uint32_t n)
{
	struct qslot *const slots = qp->slots;
	const uint64_t qpair_data = qp->qpair_data;
	const uint32_t mask = qp->mask;
	struct qslot **const before = qp->free_top, **const end = before + n, **top;

	top = before;
	do {
		uint32_t dword = load32(response + 12);
		struct qslot *slot = &slots[dword & mask];

		if (unlikely(slot_state(slot) != dword))
			break;
		set_slot_state(slot, dword ^ 1u);
		*top++ = slot;
		put_completion(out++, slot->user_data, qpair_data, load64(response));
		response += FAB_RESPONSE_BYTES;
	} while (top < end);
	qp->free_top = top;
	return (uint32_t)(top - before);
}

/* The same where children are in flight, or SENDs that carry data may not be done: until *out is end. */
static __attribute__((noinline)) uint32_t take_mixed(struct nvmfr_qpair *qp,
						     const unsigned char *response,
						     struct nvmfr_completion **out,
						     const struct nvmfr_completion *end, uint32_t n)
{
	struct nvmfr_completion *at = *out;
	uint32_t i;

	for (i = 0; i < n && at < end; i++, response += FAB_RESPONSE_BYTES) {
		uint32_t dword = load32(response + 12);
		struct qslot *slot = &qp->slots[dword & qp->mask];
		uint64_t state = slot_state(slot);

		if (state == SLOT_STATE(dword, SLOT_CHILD))
			at += split_child_done(qp, slot_ref(slot), load64(response), at);
		else if (likely(state == dword) && !send_open(qp, slot))
			put_completion(at++, slot->user_data, qp->qpair_data, load64(response));
		else
			break;
		put_slot(qp, slot, dword);
	}
	*out = at;
	return i;
}

/* The response at the head of the ring, whatever it is. */
static unsigned int consume_odd(struct nvmfr_qpair *qp, struct nvmfr_completion *out)
{
	const unsigned char *response = next_response(qp);

	return end_odd(qp, &qp->slots[load32(response + 12) & qp->mask], response, out);
}

static inline void took(struct nvmfr_qpair *qp, uint32_t n)
{
	qp->chores.ready -= n;
	qp->unposted += n;
	qp->recv_pos += n;
}

/* Takes the responses that are there, none behind one that breaks the queue, as long as the completions they
 * make find room. Returns how many completions. */
static inline __attribute__((always_inline)) unsigned int
consume(struct nvmfr_qpair *qp, struct nvmfr_completion *out, uint32_t max)
{
	const struct nvmfr_completion *const begin = out, *const end = out + max;
	bool was_broken = qp->broken;

	while (qp->chores.ready && out < end) {
		const unsigned char *response;
		uint32_t run, taken;

		if (unlikely(qp->recv_pos == qp->recv_positions))
			qp->recv_pos = 0;
		response = next_response(qp);
		run = nvmfr__min_u32(qp->chores.ready, qp->recv_positions - qp->recv_pos);
		if (unlikely(qp->children || qp->chores.carrying)) {
			taken = take_mixed(qp, response, &out, end, run);
		} else {
			run = nvmfr__min_u32(run, (uint32_t)(end - out));
			taken = take_good(qp, response, out, run);
			out += taken;
		}
		took(qp, taken);
		if (likely(taken == run) || out == end)
			continue;
		out += consume_odd(qp, out);
		if (unlikely(qp->broken && !was_broken))
			break;
		took(qp, 1);
	}
	return (unsigned int)(out - begin);
}

static inline void sends_done(struct nvmfr_qpair *qp, uint64_t word)
{
	qp->done_seq += FAB_POLL_SENDS(word);
	if (qp->chores.carrying && qpair_send_done(qp, qp->carried_seq))
		qp->chores.carrying = false;
}

static inline uint64_t poll_fabric(struct nvmfr_qpair *qp)
{
	uint64_t word = qp->ops->poll(qp->ep);

	qp->chores.ready += FAB_POLL_RESPONSES(word);
	sends_done(qp, word);
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

static __attribute__((noinline)) int repost_and_return(struct nvmfr_qpair *qp, uint32_t got)
{
	repost(qp);
	return (int)got;
}

/* ---- after the connection -------------------------------------------------------------------- */

static int32_t lost_result(const struct nvmfr_qpair *qp, const struct qslot *slot)
{
	bool over = qp->expired && qp->seen_tick - slot_tick(slot) > qp->timeout_ticks;

	return over ? -ETIMEDOUT : -ECONNABORTED;
}

/* Completions for what will never be answered. The endpoint cannot touch memory any more. */
static unsigned int synthesize(struct nvmfr_qpair *qp, struct nvmfr_completion *out,
			       unsigned int max)
{
	unsigned int n = 0;

	for (; qp->slots && qp->drain_next <= qp->mask && n < max; qp->drain_next++) {
		struct qslot *slot = &qp->slots[qp->drain_next];

		if (state_kind(slot_state(slot)) == SLOT_HELD)
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

	while (n < max && (qp->chores.ready || (word & FAB_POLL_MORE))) {
		if (!qp->chores.ready)
			word = poll_fabric(qp);
		n += consume(qp, out + n, max - n);
		if (n < max)
			n += release_held(qp, out + n, max - n);
		if (qp->broken && qp->err == -EPROTO)
			break;
	}
	return n;
}

static int poll_lost(struct nvmfr_qpair *qp, struct nvmfr_completion *out, unsigned int max)
{
	const bool holds = nvmfr__retry_holds(qp);
	unsigned int n = 0;

	if (qp->state == LINK_LOST) {
		if (!holds)
			nvmfr__split_abandon(qp);
		if (!(qp->broken && qp->err == -EPROTO))
			n = collect_rest(qp, out, max);
		if (n == max)
			return (int)n;
		if (holds)
			nvmfr__retry_hold(qp);
		nvmfr__qpair_retire(qp);
	}
	n += synthesize(qp, out + n, max - n);
	if (n)
		return (int)n;
	/* All was told: another connection may be waiting for that. */
	if (qpair_has_news(qp))
		nvmfr__qpair_adopt(qp);
	return qp->recovering || qp->state < LINK_LOST || nvmfr__retry_held(qp)
		       ? 0
		       : nvmfr__qpair_state_error(qp);
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
	if (qp->state != LINK_LIVE) {
		int n = qp->retry ? (int)nvmfr__retry_give_up(qp, out, max) : 0;

		if (!n && qp->state != LINK_CONNECTING)
			n = poll_lost(qp, out, max);
		if (qp->group && n > 0)
			nvmfr__group_ask_again(qp);
		else if (qp->group)
			/* The answer to its Connect comes where those of the others do; or a device is to be left. */
			nvmfr__group_pump(qp->group);
		if (n || qp->state != LINK_CONNECTING)
			return n;
	}
	return likely_live(qp) ? nvmfr__qpair_poll(qp, out, max) : 0;
}

/* Held responses, a failed connection, receives to repost. */
static inline unsigned int look_after(struct nvmfr_qpair *qp, uint64_t word,
				      struct nvmfr_completion *out, unsigned int max)
{
	unsigned int n = 0;

	if (unlikely(qp->chores.held) && max)
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
		n += consume(qp, out + n, max - n);
		n += look_after(qp, word, out + n, max - n);
		if (n == max || qp->broken || !(qp->chores.ready || (word & FAB_POLL_MORE)))
			break;
		word = qp->chores.ready < max - n ? poll_fabric(qp) : FAB_POLL_MORE;
	}
	if (qp->chores.backlog)
		nvmfr__split_issue(qp);
	else
		qpair_credit(qp);
	if (unlikely(qp->chores.backlog && !qp->broken) && nvmfr__retry_held(qp))
		n += nvmfr__retry_issue(qp, out + n, max - n);
	/* Behind the look at what came: a command that was answered is not over its time. */
	if (unlikely(atomic_load_explicit(qp->tick, memory_order_relaxed) != qp->seen_tick) &&
	    !qp->chores.ready)
		nvmfr__qpair_check_timeouts(qp);
	if (n == max && qp->group)
		nvmfr__group_ask_again(qp);
	return (int)n;
}

/* There are chores. */
static __attribute__((noinline)) int poll_all(struct nvmfr_qpair *qp, struct nvmfr_completion *out,
					      unsigned int max)
{
	return poll_rest(qp, out, max, 0,
			 qp->chores.ready < max ? poll_fabric(qp) : FAB_POLL_MORE);
}

/* What the fabric said is nothing, or more than plain responses that fit. */
static __attribute__((noinline)) int poll_word(struct nvmfr_qpair *qp, struct nvmfr_completion *out,
					       unsigned int max, uint64_t word)
{
	qp->chores.ready = FAB_POLL_RESPONSES(word);
	sends_done(qp, word);
	return poll_rest(qp, out, max, 0, word);
}

/* One response, most likely a plain one. */
static inline __attribute__((always_inline)) int
poll_one(struct nvmfr_qpair *qp, struct nvmfr_completion *out, unsigned int max)
{
	if (unlikely(!take_good(qp, next_response(qp), out, 1))) {
		qp->chores.ready = 1;
		return poll_rest(qp, out, max, 0, 0);
	}
	qp->recv_pos++;
	return likely(++qp->unposted < FAB_RECV_BATCH) ? 1 : repost_and_return(qp, 1);
}

/* Plain responses and nothing else, that fit the caller's array and lie in one piece of the ring. */
static __attribute__((noinline)) int poll_run(struct nvmfr_qpair *qp, struct nvmfr_completion *out,
					      unsigned int max, uint32_t got)
{
	uint32_t taken = take_good(qp, next_response(qp), out, got);

	qp->recv_pos += taken;
	qp->unposted += taken;
	if (unlikely(taken != got)) {
		qp->chores.ready = got - taken;
		return poll_rest(qp, out, max, taken, 0);
	}
	return likely(qp->unposted < FAB_RECV_BATCH) ? (int)got : repost_and_return(qp, got);
}

/*
 * The common cases: one plain response in line, a run of them a jump away. Credit stays as it is: it counts
 * the ring's room, and no SEND was done. Every FAB_SIGNAL_EVERY commands, when a SEND is told to be done,
 * and at each empty poll it goes out of line, and there time is looked at.
 */
int nvmfr__qpair_poll(struct nvmfr_qpair *qp, struct nvmfr_completion *out, unsigned int max)
{
	uint64_t word;

	if (unlikely(!likely_live(qp)))
		return poll_slow(qp, out, max);
	if (unlikely(qpair_has_chores(qp)))
		return poll_all(qp, out, max);
	word = qp->ops->poll(qp->ep);
	if (word == 1 && likely(qp->recv_pos != qp->recv_positions))
		return poll_one(qp, out, max);
	if (unlikely(word - 1 >= nvmfr__min_u32(max, qp->recv_positions - qp->recv_pos)))
		return poll_word(qp, out, max, word);
	return poll_run(qp, out, max, (uint32_t)word);
}
