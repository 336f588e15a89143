/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Commands over their time. The service is asked to abort them, and they stay in flight: slot and buffer are
 * free when the CQE has come, which says whether the Abort was in time, or when the connection is gone, which it is
 * for if the Abort has not helped within abort_ticks.
 */
#include <errno.h>

#include "queue/qpair.h"
#include "wire/status.h"

static bool over_time(const struct nvmfr_qpair *qp, const struct qslot *slot)
{
	return slot_in_flight(qp, slot) && qp->seen_tick - slot_tick(slot) > qp->timeout_ticks;
}

static struct qpair_abort *find(struct nvmfr_qpair *qp, uint32_t cid)
{
	for (uint32_t i = 0; i < qp->aborts; i++)
		if (qp->abort[i].cid == cid)
			return &qp->abort[i];
	return NULL;
}

static void forget_answered(struct nvmfr_qpair *qp)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < qp->aborts; i++) {
		const struct qslot *slot = &qp->slots[qp->abort[i].cid & qp->mask];

		if ((uint16_t)slot_state(slot) == qp->abort[i].cid && over_time(qp, slot))
			qp->abort[kept++] = qp->abort[i];
	}
	qp->aborts = kept;
}

/* More than the list holds are asked for when there is room. */
static void ask(struct nvmfr_qpair *qp, const struct qslot *slot)
{
	const uint16_t cid = (uint16_t)slot_state(slot);

	if (qp->aborts == QPAIR_ABORTS || find(qp, cid))
		return;
	qp->abort[qp->aborts++] = (struct qpair_abort){ .cid = cid, .tick = qp->seen_tick };
	nvmfr__link_abort(&qp->link, cid);
}

void nvmfr__qpair_check_timeouts(struct nvmfr_qpair *qp)
{
	bool helpless = false;

	qp->seen_tick = atomic_load_explicit(qp->tick, memory_order_relaxed);
	nvmfr__qpair_look_around(qp);
	if (!qp->timeout_ticks || qp->broken)
		return;
	forget_answered(qp);
	qp->expired = 0;
	for (uint32_t i = 0; i <= qp->mask && free_slots(qp) != qp->depth; i++) {
		if (!over_time(qp, &qp->slots[i]))
			continue;
		qp->expired++;
		ask(qp, &qp->slots[i]);
	}
	for (uint32_t i = 0; i < qp->aborts; i++)
		helpless |= qp->seen_tick - qp->abort[i].tick > qp->abort_ticks;
	if (helpless)
		nvmfr__qpair_fault(
			qp, -ETIMEDOUT,
			"qpair %u: %u command%s unanswered for longer than io_timeout_ms, and Abort did "
			"not help",
			qp->qid, qp->expired, qp->expired == 1 ? "" : "s");
}

/* Its Abort was answered with no. The CQE may have been on its way already: a little patience, from now on. */
void nvmfr__qpair_not_aborted(struct nvmfr_qpair *qp, uint16_t cid)
{
	uint32_t now = atomic_load_explicit(qp->tick, memory_order_relaxed);
	struct qpair_abort *abort = find(qp, cid);

	if (abort && now - abort->tick < qp->abort_ticks)
		abort->tick = now - qp->abort_ticks + 1;
}

bool nvmfr__qpair_over_time(const struct nvmfr_qpair *qp, uint16_t cid)
{
	const struct qslot *slot = &qp->slots[cid & qp->mask];
	uint32_t now = atomic_load_explicit(qp->tick, memory_order_relaxed);

	/* A free slot names another one. */
	return (uint16_t)slot_state_foreign(slot) == cid && now - slot_tick(slot) > qp->timeout_ticks;
}

int32_t nvmfr__qpair_refusal(struct nvmfr_qpair *qp, uint32_t cid, uint16_t status)
{
	return nvme_status_code(status) == NVME_ST_ABORT_REQUESTED && find(qp, cid) ? -ETIMEDOUT
										    : -EREMOTEIO;
}
