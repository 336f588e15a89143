/* SPDX-License-Identifier: BSD-3-Clause */
#include "queue/retry.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "queue/capsule.h"

#define NO_CID UINT16_MAX

/* ---- life ------------------------------------------------------------------------------------ */

struct qpair_retry *nvmfr__retry_new(uint32_t mode, uint32_t depth)
{
	/* As many as there are slots, rounded up; and one I/O more than slots may be accepted. */
	size_t slots = nvmfr__qpair_table_size(depth), all = 2 * slots + depth + 1;
	struct qpair_retry *retry = calloc(1, sizeof(*retry) + all * sizeof(struct retry_io));

	if (!retry)
		return NULL;
	retry->mode = mode;
	retry->saved = (struct retry_io *)(retry + 1);
	retry->parents = retry->saved + slots;
	retry->ios = retry->parents + slots;
	return retry;
}

uint32_t nvmfr__retry_held(const struct nvmfr_qpair *qp)
{
	return qp->retry ? qp->retry->held : 0;
}

uint32_t nvmfr__retry_unplaced(const struct nvmfr_qpair *qp)
{
	return qp->retry ? qp->retry->held - qp->retry->placed : 0;
}

void nvmfr__io_mark(const struct nvmfr_io *io, uint32_t by)
{
	bool vec = io->flags & NVMFR_IO_VEC;

	/* What an I/O without data names as its buffer, nobody looks at. */
	if (!op_has_data(io->op))
		return;
	if (!vec)
		nvmfr__buffers_mark(io->buf, NULL, 0, by);
	for (uint64_t i = 0; vec && io->iov && i < io->niov; i++)
		nvmfr__buffers_mark(io->iov[i].buf, NULL, 0, by);
}

void nvmfr__retry_free(struct nvmfr_qpair *qp)
{
	struct qpair_retry *retry = qp->retry;

	for (uint32_t i = 0; retry && i < retry->held; i++)
		nvmfr__io_mark(&retry->ios[i].io, UINT32_MAX);
	free(retry);
	qp->retry = NULL;
}

/* ---- what a command was ---------------------------------------------------------------------- */

static uint64_t get64(const unsigned char *capsule, unsigned int word)
{
	le64 v;

	memcpy(&v, capsule + word * 8, sizeof(v));
	return from_le64(v);
}

/* False: it is none of those that the library makes of an I/O with at most one buffer. */
static bool io_of(const struct qslot *slot, const unsigned char *capsule, struct nvmfr_io *io)
{
	const uint64_t head = get64(capsule, 0), cdw12 = get64(capsule, 6);
	struct nvmfr_buffer *buf =
		(struct nvmfr_buffer *)atomic_load_explicit(&slot->buf, memory_order_relaxed);
	const uint8_t op = (uint8_t)head;
	const bool data = op == NVMFR_OP_READ || op == NVMFR_OP_WRITE;

	if (slot_ref(slot) || data != (buf != NULL) || (uint8_t)(head >> 8) != NVME_FLAGS_PSDT_SGL)
		return false;
	if (get64(capsule, 1) || get64(capsule, 2) || get64(capsule, 7) ||
	    cdw12 & ~(uint64_t)(NVME_RW_FUA | 0xffff))
		return false;
	*io = (struct nvmfr_io){
		.op = op,
		.flags = cdw12 & NVME_RW_FUA ? NVMFR_IO_FUA : 0,
		.nsid = (uint32_t)(head >> 32),
		.user_data = slot->user_data,
	};
	if (op == NVMFR_OP_FLUSH)
		return true;
	io->lba = get64(capsule, 5);
	io->nblocks = (cdw12 & 0xffff) + 1;
	io->buf = buf;
	io->offset_bytes = data ? get64(capsule, 3) - buf->addr : 0;
	return data || op == NVMFR_OP_WRITE_ZEROES;
}

/*
 * The present lap's commands that are in flight. A CID that was used several times in it is the last
 * one's: those before it have ended.
 */
void nvmfr__retry_lap(struct nvmfr_qpair *qp)
{
	for (uint32_t i = 0; i < qp->position; i++) {
		const unsigned char *capsule = capsule_at(qp, i);
		const uint16_t cid = (uint16_t)(get64(capsule, 0) >> 16);
		const struct qslot *slot = &qp->slots[cid & qp->mask];
		struct retry_io *saved = &qp->retry->saved[cid & qp->mask];

		if (slot_state(slot) != cid)
			continue;
		saved->seq = (uint32_t)qp->laps + i;
		saved->cid = io_of(slot, capsule, &saved->io) ? cid : NO_CID;
	}
}

void nvmfr__retry_note(struct nvmfr_qpair *qp, const struct qparent *parent,
		       const struct nvmfr_io *io)
{
	qp->retry->parents[parent - qp->parents] = (struct retry_io){ .io = *io };
}

/* ---- after the loss -------------------------------------------------------------------------- */

/* The old controller may carry it out late, over what was written since. */
static bool doubtful(const struct nvmfr_io *io)
{
	return io->op == NVMFR_OP_WRITE || io->op == NVMFR_OP_WRITE_ZEROES;
}

static bool may_retry(const struct nvmfr_qpair *qp, const struct retry_io *rio)
{
	if (rio->tries >= RETRY_MOST || (doubtful(&rio->io) && qp->link.doubt_ns == UINT64_MAX))
		return false;
	return rio->io.op == NVMFR_OP_READ || qp->retry->mode == NVMFR_RETRY_ALL;
}

bool nvmfr__retry_holds(const struct nvmfr_qpair *qp)
{
	return qp->retry && qp->recovering && !qp->fast_failed;
}

/* Its buffers are marked. */
static void hold(struct nvmfr_qpair *qp, const struct retry_io *rio)
{
	const struct ns_entry *ns = nvmfr__ns_find(qp->ns, rio->io.nsid);
	struct qpair_retry *retry = qp->retry;
	struct retry_io *held = &retry->ios[retry->held++];

	*held = *rio;
	held->slot = NULL;
	held->shift = ns ? (uint8_t)ns->shift : 0;
	retry->doubts |= doubtful(&rio->io);
}

static void hold_parent(struct nvmfr_qpair *qp, struct qparent *parent)
{
	const uint32_t index = (uint32_t)(parent - qp->parents);

	hold(qp, &qp->retry->parents[index]);
	for (uint32_t i = 0; i <= qp->mask; i++) {
		struct qslot *slot = &qp->slots[i];

		if (state_kind(slot_state(slot)) != SLOT_CHILD || slot_ref(slot) != index)
			continue;
		qp->children--;
		put_slot(qp, slot, (uint32_t)slot_state(slot));
	}
	nvmfr__split_drop(qp, parent);
}

/* A command that is over its time has had it. */
static bool over_time(const struct nvmfr_qpair *qp, const struct qslot *slot)
{
	return qp->expired && qp->seen_tick - slot_tick(slot) > qp->timeout_ticks;
}

static bool child_over_time(const struct nvmfr_qpair *qp, const struct qparent *parent)
{
	bool found = false;

	for (uint32_t i = 0; qp->expired && i <= qp->mask; i++) {
		const struct qslot *slot = &qp->slots[i];

		found |= state_kind(slot_state(slot)) == SLOT_CHILD &&
			 slot_ref(slot) == (uint32_t)(parent - qp->parents) && over_time(qp, slot);
	}
	return found;
}

static void hold_slot(struct nvmfr_qpair *qp, struct qslot *slot)
{
	const uint64_t state = slot_state(slot);
	struct retry_io *saved = &qp->retry->saved[slot - qp->slots];

	if (saved->tried != saved->seq)
		saved->tries = 0;
	if (state_kind(state) != SLOT_PLAIN || !slot_in_flight(qp, slot) || over_time(qp, slot))
		return;
	if (saved->cid != (uint16_t)state || !may_retry(qp, saved))
		return;
	nvmfr__io_mark(&saved->io, 1);
	hold(qp, saved);
	put_slot(qp, slot, (uint32_t)state);
}

/* Slots were reserved on a connection that is gone. */
static void give_slots_back(struct nvmfr_qpair *qp)
{
	for (uint32_t i = 0; i < qp->retry->held; i++) {
		struct retry_io *held = &qp->retry->ios[i];

		if (held->slot)
			*qp->free_top++ = held->slot;
		held->slot = NULL;
	}
	qp->retry->placed = 0;
}

void nvmfr__retry_hold(struct nvmfr_qpair *qp)
{
	struct qpair_retry *retry = qp->retry;

	give_slots_back(qp);
	nvmfr__retry_lap(qp);
	retry->doubts = false;
	for (uint32_t i = 0; i < qp->parent_count; i++) {
		struct qparent *parent = &qp->parents[i];

		if (parent->busy && !parent->result && may_retry(qp, &retry->parents[i]) &&
		    !child_over_time(qp, parent))
			hold_parent(qp, parent);
	}
	for (uint32_t i = 0; i <= qp->mask; i++)
		hold_slot(qp, &qp->slots[i]);
	nvmfr__split_abandon(qp);
}

/* Where the data of a write in a capsule came from, nothing keeps. */
void nvmfr__retry_limits(struct nvmfr_qpair *qp)
{
	if (qp->retry->mode == NVMFR_RETRY_ALL)
		qp->icd_bytes = 0;
	qp->retry->writes_may = qp->link.doubt_until_ns == 0;
}

/* ---- on the next connection ------------------------------------------------------------------ */

static void place(struct nvmfr_qpair *qp, struct retry_io *held)
{
	if (held->slot || !free_slots(qp))
		return;
	held->slot = *--qp->free_top;
	qp->retry->placed++;
}

static void unplace(struct nvmfr_qpair *qp, struct retry_io *held)
{
	*qp->free_top++ = held->slot;
	held->slot = NULL;
	qp->retry->placed--;
}

static bool is_ready(const struct qpair_retry *retry, const struct retry_io *held)
{
	return held->failed || retry->writes_may || !doubtful(&held->io);
}

static void set_wants(struct nvmfr_qpair *qp)
{
	struct qpair_retry *retry = qp->retry;

	retry->wants = retry->placed < retry->held;
	for (uint32_t i = 0; i < retry->held && !retry->wants; i++)
		retry->wants = is_ready(retry, &retry->ios[i]);
	qp->chores.backlog = qp->backlog || retry->wants;
}

void nvmfr__retry_adopt(struct nvmfr_qpair *qp)
{
	/* A submit that issues one of them may be the first to hear of news: then who issues sees to the rest. */
	if (qp->state != LINK_LIVE || qp->broken || qp->retry->issuing)
		return;
	for (uint32_t i = 0; i < qp->retry->held; i++)
		place(qp, &qp->retry->ios[i]);
	set_wants(qp);
}

/* What is known of the I/O in this slot, or of the parent that was made for it. */
static struct retry_io *record_of(struct nvmfr_qpair *qp, const struct qslot *slot)
{
	struct retry_io *saved = &qp->retry->saved[slot - qp->slots];

	if (state_kind(slot_state(slot)) == SLOT_CHILD)
		return &qp->retry->parents[slot_ref(slot)];
	if (!slot_in_flight(qp, slot))
		return &qp->retry->parents[qp->backlog - qp->parents];
	saved->tried = (uint32_t)qp->laps + qp->position - 1;
	return saved;
}

/* A block size that is another one makes it another I/O. */
static bool same_format(const struct nvmfr_qpair *qp, const struct retry_io *held)
{
	const struct ns_entry *ns = nvmfr__ns_find(qp->ns, held->io.nsid);

	return !ns || ns->shift == held->shift;
}

/* False: there is no room now. */
static bool issue(struct nvmfr_qpair *qp, struct retry_io *held)
{
	struct qslot *slot = held->slot;
	int n = same_format(qp, held) ? 1 : -ESTALE;

	/* Its own slot is the next one to be taken. */
	unplace(qp, held);
	if (n > 0)
		n = nvmfr__qpair_submit(qp, &held->io, 1);
	if (n == -EAGAIN) {
		place(qp, held);
		return false;
	}
	held->failed = n < 0;
	if (n > 0)
		record_of(qp, slot)->tries = (uint8_t)(held->tries + 1);
	return true;
}

static void put_aborted(const struct nvmfr_qpair *qp, const struct retry_io *held,
			struct nvmfr_completion *out)
{
	*out = (struct nvmfr_completion){
		.user_data = held->io.user_data,
		.qpair_data = qp->qpair_data,
		.result = -ECONNABORTED,
	};
}

unsigned int nvmfr__retry_issue(struct nvmfr_qpair *qp, struct nvmfr_completion *out,
				unsigned int max)
{
	struct qpair_retry *retry = qp->retry;
	uint32_t kept = 0;
	unsigned int n = 0;
	bool room = !qp->backlog;

	qp->chores.backlog = qp->backlog;
	retry->issuing = true;
	for (uint32_t i = 0; i < retry->held; i++) {
		struct retry_io *held = &retry->ios[i];
		bool gone = false;

		place(qp, held);
		if (room && held->slot && !held->failed && is_ready(retry, held)) {
			room = issue(qp, held);
			gone = room && !held->failed;
			room = room && !qp->backlog;
		}
		if (held->failed && n < max) {
			put_aborted(qp, held, &out[n++]);
			gone = true;
		}
		if (gone)
			nvmfr__io_mark(&held->io, UINT32_MAX);
		else
			retry->ios[kept++] = *held;
	}
	retry->held = kept;
	retry->issuing = false;
	set_wants(qp);
	qpair_credit(qp);
	return n;
}

unsigned int nvmfr__retry_give_up(struct nvmfr_qpair *qp, struct nvmfr_completion *out,
				  unsigned int max)
{
	struct qpair_retry *retry = qp->retry;
	unsigned int n = 0;

	if (nvmfr__retry_holds(qp) || qp->state == LINK_LIVE)
		return 0;
	for (; retry->held && n < max; n++) {
		struct retry_io *held = &retry->ios[--retry->held];

		if (held->slot)
			unplace(qp, held);
		nvmfr__io_mark(&held->io, UINT32_MAX);
		put_aborted(qp, held, &out[n]);
	}
	return n;
}
