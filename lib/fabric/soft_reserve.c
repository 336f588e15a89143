/* SPDX-License-Identifier: BSD-3-Clause */
/* Reservations of the target's namespaces. A registrant is a host ID. */
#include "fabric/soft.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "wire/reserve.h"

enum { REGISTRANTS = 16 };

struct registrant {
	uint8_t hostid[16];
	uint64_t key;
	bool holds; /* of a type that one holds */
};

/* Under target.reserve_lock, but for a look at type. */
struct soft_reserve {
	_Atomic uint8_t type; /* enum nvme_resv_type */
	bool persists;
	uint32_t generation;
	uint32_t n;
	struct registrant list[REGISTRANTS];
};

struct soft_reserve *nvmfr__soft_reserve_new(void)
{
	return calloc(1, sizeof(struct soft_reserve));
}

void nvmfr__soft_reserve_free(struct soft_reserve *reserve)
{
	free(reserve);
}

bool nvmfr__soft_reserved(const struct soft_reserve *reserve)
{
	return atomic_load_explicit(&reserve->type, memory_order_relaxed) != NVME_RESV_NONE;
}

/* ---- registrants ------------------------------------------------------------------------------ */

static struct registrant *find(struct soft_reserve *r, const uint8_t hostid[16])
{
	for (uint32_t i = 0; i < r->n; i++)
		if (memcmp(r->list[i].hostid, hostid, sizeof(r->list[i].hostid)) == 0)
			return &r->list[i];
	return NULL;
}

static bool all_hold(const struct soft_reserve *r)
{
	return r->type >= NVME_RESV_WRITE_EXCLUSIVE_ALL;
}

static bool holds(const struct soft_reserve *r, const struct registrant *who)
{
	return who && r->type != NVME_RESV_NONE && (all_hold(r) || who->holds);
}

static void unregister(struct soft_reserve *r, struct registrant *who)
{
	bool held = who->holds;

	*who = r->list[--r->n];
	if (held || (all_hold(r) && r->n == 0))
		r->type = NVME_RESV_NONE;
}

static void end_reservation(struct soft_reserve *r)
{
	r->type = NVME_RESV_NONE;
	for (uint32_t i = 0; i < r->n; i++)
		r->list[i].holds = false;
}

static void set_holder(struct soft_reserve *r, struct registrant *who, uint8_t type)
{
	end_reservation(r);
	r->type = type;
	who->holds = !all_hold(r);
}

/* ---- commands --------------------------------------------------------------------------------- */

struct request {
	struct soft_reserve *r;
	const uint8_t *hostid;
	struct registrant *self; /* NULL: none */
	uint64_t key, other;
	uint32_t cdw10, action;
	uint8_t type;
	bool ignore_key;
};

static uint16_t do_register(const struct request *q)
{
	struct soft_reserve *r = q->r;
	uint32_t cptpl = q->cdw10 >> NVME_RESV_CPTPL_SHIFT;
	bool knows = q->self && (q->ignore_key || q->self->key == q->key);

	if (q->action > NVME_RESV_REPLACE)
		return NVME_ST_INVALID_FIELD;
	if (q->action == NVME_RESV_REGISTER && q->self)
		return q->self->key == q->other ? NVME_ST_SUCCESS : NVME_ST_RESERVATION_CONFLICT;
	if (q->action != NVME_RESV_REGISTER && !knows)
		return NVME_ST_RESERVATION_CONFLICT;
	if (q->action == NVME_RESV_REGISTER && r->n == REGISTRANTS)
		return NVME_ST_RESERVATION_CONFLICT;
	if (q->action == NVME_RESV_UNREGISTER) {
		unregister(r, q->self);
	} else if (q->action == NVME_RESV_REPLACE) {
		q->self->key = q->other;
	} else {
		r->list[r->n] = (struct registrant){ .key = q->other };
		memcpy(r->list[r->n++].hostid, q->hostid, 16);
	}
	if (cptpl >= NVME_RESV_CPTPL_OFF)
		r->persists = cptpl == NVME_RESV_CPTPL_ON;
	r->generation++;
	return NVME_ST_SUCCESS;
}

static bool is_type(uint8_t type)
{
	return type >= NVME_RESV_WRITE_EXCLUSIVE && type <= NVME_RESV_EXCLUSIVE_ALL;
}

/* Whether one who holds the reservation has that key; of a type that all hold, key 0 names them. */
static bool key_holds(const struct soft_reserve *r, uint64_t key)
{
	if (all_hold(r))
		return key == 0;
	for (uint32_t i = 0; i < r->n; i++)
		if (r->list[i].holds && r->list[i].key == key)
			return true;
	return false;
}

/* All but `self` that have the key, or simply all; how many. From the end: the last takes a gone one's place. */
static uint32_t unregister_others(struct soft_reserve *r, const uint8_t self[16], uint64_t key, bool all)
{
	uint32_t gone = 0;

	for (uint32_t i = r->n; i-- > 0;) {
		struct registrant *who = &r->list[i];

		if ((all || who->key == key) && memcmp(who->hostid, self, 16) != 0) {
			unregister(r, who);
			gone++;
		}
	}
	return gone;
}

static uint16_t preempt(const struct request *q)
{
	struct soft_reserve *r = q->r;
	bool reserved = r->type != NVME_RESV_NONE, takes = reserved && key_holds(r, q->other);
	uint32_t gone;

	if (q->other == 0 && !takes)
		return NVME_ST_INVALID_FIELD;
	gone = unregister_others(r, q->hostid, q->other, takes && all_hold(r));
	if (!gone && !takes)
		return NVME_ST_RESERVATION_CONFLICT;
	if (takes)
		set_holder(r, find(r, q->hostid), q->type);
	r->generation++;
	return NVME_ST_SUCCESS;
}

static uint16_t do_acquire(const struct request *q)
{
	struct soft_reserve *r = q->r;

	if (q->action > NVME_RESV_PREEMPT_ABORT || !is_type(q->type))
		return NVME_ST_INVALID_FIELD;
	if (!q->self || (!q->ignore_key && q->self->key != q->key))
		return NVME_ST_RESERVATION_CONFLICT;
	if (q->action != NVME_RESV_ACQUIRE)
		return preempt(q);
	if (r->type == NVME_RESV_NONE)
		set_holder(r, q->self, q->type);
	else if (r->type != q->type || !holds(r, q->self))
		return NVME_ST_RESERVATION_CONFLICT;
	return NVME_ST_SUCCESS;
}

static uint16_t do_release(const struct request *q)
{
	struct soft_reserve *r = q->r;

	if (q->action > NVME_RESV_CLEAR)
		return NVME_ST_INVALID_FIELD;
	if (!q->self || (!q->ignore_key && q->self->key != q->key))
		return NVME_ST_RESERVATION_CONFLICT;
	if (q->action == NVME_RESV_CLEAR) {
		r->type = NVME_RESV_NONE;
		r->n = 0;
		r->generation++;
	} else if (holds(r, q->self)) {
		if (r->type != q->type)
			return NVME_ST_INVALID_FIELD;
		end_reservation(r);
	}
	return NVME_ST_SUCCESS;
}

static uint16_t run(struct nvmfr_soft_target *target, const struct soft_ns *ns, uint8_t opcode, uint32_t cdw10,
		    const uint8_t hostid[16], uint64_t key, uint64_t other)
{
	struct request q = {
		.r = ns->reserve,
		.hostid = hostid,
		.key = key,
		.other = other,
		.cdw10 = cdw10,
		.action = cdw10 & NVME_RESV_ACTION,
		.type = (uint8_t)(cdw10 >> NVME_RESV_TYPE_SHIFT),
		.ignore_key = cdw10 & NVME_RESV_IGNORE_KEY,
	};
	uint16_t status;

	pthread_mutex_lock(&target->reserve_lock);
	q.self = find(q.r, hostid);
	switch (opcode) {
	case NVME_IO_RESV_REGISTER: status = do_register(&q); break;
	case NVME_IO_RESV_ACQUIRE: status = do_acquire(&q); break;
	default: status = do_release(&q); break;
	}
	pthread_mutex_unlock(&target->reserve_lock);
	return status;
}

void nvmfr__soft_reserve(struct soft_cmd *cmd, const struct soft_ns *ns)
{
	bool one_key = cmd->sqe->opcode == NVME_IO_RESV_RELEASE;
	struct nvme_resv_keys keys = { .other = to_le64(0) };
	uint16_t status;

	if (!nvmfr__soft_transfer(cmd, &keys, one_key ? sizeof(le64) : sizeof(keys), false))
		return;
	status = run(cmd->ep->target, ns, cmd->sqe->opcode, from_le32(cmd->sqe->cdw10),
		     cmd->ep->ctrl->hostid, from_le64(keys.current), from_le64(keys.other));
	if (status)
		nvmfr__soft_refuse(cmd, status);
}

int nvmfr__soft_reserve_as(struct nvmfr_soft_target *target, const struct nvme_sqe *sqe, const uint8_t hostid[16],
			   uint64_t key, uint64_t other)
{
	const struct soft_ns *ns;
	int result;

	nvmfr__soft_lock(target);
	ns = nvmfr__soft_ns_find(target, from_le32(sqe->nsid));
	if (ns)
		result = run(target, ns, sqe->opcode, from_le32(sqe->cdw10), hostid, key, other);
	else
		result = nvmfr__fail(-ENOENT, "soft target '%s': there is no namespace %u",
				     target->name, from_le32(sqe->nsid));
	nvmfr__soft_unlock(target);
	return result;
}

/* ---- report ----------------------------------------------------------------------------------- */

static uint32_t fill_report(struct soft_reserve *r, unsigned char *page)
{
	struct nvme_resv_status status = {
		.gen = to_le32(r->generation),
		.rtype = r->type,
		.regctl = { (uint8_t)r->n },
		.ptpls = r->persists,
	};

	memcpy(page, &status, sizeof(status));
	for (uint32_t i = 0; i < r->n; i++) {
		struct nvme_resv_registrant who = {
			.cntlid = to_le16(NVME_CNTLID_DYNAMIC),
			.rcsts = holds(r, &r->list[i]),
			.rkey = to_le64(r->list[i].key),
		};

		memcpy(who.hostid, r->list[i].hostid, sizeof(who.hostid));
		memcpy(page + sizeof(status) + i * sizeof(who), &who, sizeof(who));
	}
	return (uint32_t)(sizeof(status) + r->n * sizeof(struct nvme_resv_registrant));
}

/* One entry a host, and none of its controllers: whether they are there is not followed. */
void nvmfr__soft_reserve_report(struct soft_cmd *cmd, const struct soft_ns *ns)
{
	unsigned char page[4096] = { 0 };
	uint64_t bytes = (from_le32(cmd->sqe->cdw10) + UINT64_C(1)) * 4;

	if (!(from_le32(cmd->sqe->cdw11) & NVME_RESV_EXTENDED)) {
		nvmfr__soft_refuse(cmd, NVME_ST_HOSTID_FORMAT);
		return;
	}
	if (bytes > sizeof(page)) {
		nvmfr__soft_refuse(cmd, NVME_ST_INVALID_FIELD);
		return;
	}
	pthread_mutex_lock(&cmd->ep->target->reserve_lock);
	fill_report(ns->reserve, page);
	pthread_mutex_unlock(&cmd->ep->target->reserve_lock);
	nvmfr__soft_transfer(cmd, page, (uint32_t)bytes, true);
}

/* ---- what it forbids -------------------------------------------------------------------------- */

bool nvmfr__soft_reserve_allows(struct soft_cmd *cmd, const struct soft_ns *ns)
{
	struct soft_reserve *r = ns->reserve;
	const struct registrant *self;
	bool reads = false, allowed;

	switch (cmd->sqe->opcode) {
	case NVME_IO_READ:
	case NVME_IO_COMPARE:
	case NVME_IO_VERIFY: reads = true; break;
	case NVME_IO_RESV_REGISTER:
	case NVME_IO_RESV_REPORT:
	case NVME_IO_RESV_ACQUIRE:
	case NVME_IO_RESV_RELEASE: return true;
	default: break;
	}
	pthread_mutex_lock(&cmd->ep->target->reserve_lock);
	self = find(r, cmd->ep->ctrl->hostid);
	/* Types by turns: of writing only, of reading too. */
	if (r->type == NVME_RESV_NONE || (reads && r->type % 2))
		allowed = true;
	else
		allowed = r->type > NVME_RESV_EXCLUSIVE ? self != NULL : holds(r, self);
	pthread_mutex_unlock(&cmd->ep->target->reserve_lock);
	return allowed;
}
