/* SPDX-License-Identifier: BSD-3-Clause */
/* Reservations: who may read and write a namespace that several hosts share. */
#include "queue/reserve.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/err.h"
#include "queue/command.h"
#include "wire/reserve.h"

/* What an action is on the wire; by enum nvmfr_reserve_action. */
static const struct {
	uint8_t opcode, action, keys;
	bool typed;
} actions[] = {
	[NVMFR_RESERVE_REGISTER] = { NVME_IO_RESV_REGISTER, NVME_RESV_REGISTER, 2, false },
	[NVMFR_RESERVE_UNREGISTER] = { NVME_IO_RESV_REGISTER, NVME_RESV_UNREGISTER, 2, false },
	[NVMFR_RESERVE_REPLACE] = { NVME_IO_RESV_REGISTER, NVME_RESV_REPLACE, 2, false },
	[NVMFR_RESERVE_ACQUIRE] = { NVME_IO_RESV_ACQUIRE, NVME_RESV_ACQUIRE, 2, true },
	[NVMFR_RESERVE_PREEMPT] = { NVME_IO_RESV_ACQUIRE, NVME_RESV_PREEMPT, 2, true },
	[NVMFR_RESERVE_PREEMPT_ABORT] = { NVME_IO_RESV_ACQUIRE, NVME_RESV_PREEMPT_ABORT, 2, true },
	[NVMFR_RESERVE_RELEASE] = { NVME_IO_RESV_RELEASE, NVME_RESV_RELEASE, 1, true },
	[NVMFR_RESERVE_CLEAR] = { NVME_IO_RESV_RELEASE, NVME_RESV_CLEAR, 1, false },
};

static int check_namespace(const struct nvmfr_qpair *qp, uint32_t nsid)
{
	if (!qp->limits.reservations)
		return nvmfr__fail(-EOPNOTSUPP,
				   "the controller has no reservations (ONCS bit 5 is clear)");
	if (!nvmfr__ns_find(qp->ns, nsid))
		return nvmfr__fail(-ENOENT, "namespace %u is not active on this controller", nsid);
	return 0;
}

static int check_what(const struct nvmfr_reserve *what)
{
	const uint32_t known = NVMFR_RESERVE_IGNORE_KEY | NVMFR_RESERVE_PERSIST |
			       NVMFR_RESERVE_NO_PERSIST;

	if (what->reserved)
		return nvmfr__fail(-EINVAL, "reserved of struct nvmfr_reserve is not zero");
	if (what->action >= ARRAY_SIZE(actions))
		return nvmfr__fail(-EINVAL, "action %u is not one of enum nvmfr_reserve_action",
				   what->action);
	if (actions[what->action].typed ? what->type < NVMFR_RESERVE_WRITE_EXCLUSIVE ||
						  what->type > NVMFR_RESERVE_EXCLUSIVE_ALL
					: what->type != 0)
		return nvmfr__fail(-EINVAL,
				   "type %u: acquiring, preempting and releasing take one of enum "
				   "nvmfr_reserve_type, the others 0",
				   what->type);
	if (what->flags & ~known)
		return nvmfr__fail(-EINVAL, "flags 0x%x has unknown bits", what->flags);
	return 0;
}

static uint32_t cdw10_of(const struct nvmfr_reserve *what)
{
	uint32_t cdw10 = actions[what->action].action | (uint32_t)what->type << NVME_RESV_TYPE_SHIFT;

	if (what->flags & NVMFR_RESERVE_IGNORE_KEY)
		cdw10 |= NVME_RESV_IGNORE_KEY;
	if (what->flags & NVMFR_RESERVE_PERSIST)
		cdw10 |= (uint32_t)NVME_RESV_CPTPL_ON << NVME_RESV_CPTPL_SHIFT;
	else if (what->flags & NVMFR_RESERVE_NO_PERSIST)
		cdw10 |= (uint32_t)NVME_RESV_CPTPL_OFF << NVME_RESV_CPTPL_SHIFT;
	return cdw10;
}

int nvmfr__reserve_sqe(const struct nvmfr_reserve *what, struct nvme_sqe *sqe)
{
	int err = check_what(what);

	if (err)
		return err;
	nvme_sqe_init(sqe, actions[what->action].opcode);
	sqe->nsid = to_le32(what->nsid);
	sqe->cdw10 = to_le32(cdw10_of(what));
	return actions[what->action].keys;
}

int nvmfr__qpair_reserve(struct nvmfr_qpair *qp, const struct nvmfr_reserve *what,
			 struct nvmfr_buffer *keys, uint64_t offset, uint64_t user_data)
{
	const struct nvme_resv_keys wire = { to_le64(what->key), to_le64(what->other_key) };
	struct nvme_sqe sqe = { 0 };
	size_t bytes;
	int err = nvmfr__qpair_make_room(qp);

	if (!err)
		err = check_namespace(qp, what->nsid);
	if (!err)
		err = nvmfr__command_memory(keys, "keys");
	if (!err)
		err = nvmfr__reserve_sqe(what, &sqe);
	if (err < 0)
		return err;
	bytes = (size_t)err * sizeof(le64);
	err = nvmfr__command_data(qp, keys, offset, bytes, sqe.opcode, &sqe.dptr);
	if (err)
		return err;
	memcpy((unsigned char *)(uintptr_t)keys->addr + offset, &wire, bytes);
	return nvmfr__command_post(qp, &sqe, keys, user_data);
}

int nvmfr__qpair_report(struct nvmfr_qpair *qp, uint32_t nsid, struct nvmfr_buffer *buf,
			uint64_t offset, uint64_t bytes, uint64_t user_data)
{
	struct nvme_sqe sqe;
	int err = nvmfr__qpair_make_room(qp);

	if (!err)
		err = check_namespace(qp, nsid);
	if (!err && (!buf || bytes < sizeof(struct nvme_resv_status) || bytes % 4))
		err = nvmfr__fail(-EINVAL,
				  "buf is NULL, or %" PRIu64 " bytes: a report is a multiple of 4, "
				  "%zu at least",
				  bytes, sizeof(struct nvme_resv_status));
	if (err)
		return err;
	nvme_sqe_init(&sqe, NVME_IO_RESV_REPORT);
	sqe.nsid = to_le32(nsid);
	sqe.cdw10 = to_le32((uint32_t)(bytes / 4 - 1));
	sqe.cdw11 = to_le32(NVME_RESV_EXTENDED);
	err = nvmfr__command_data(qp, buf, offset, bytes, sqe.opcode, &sqe.dptr);
	return err ? err : nvmfr__command_post(qp, &sqe, buf, user_data);
}
