/* SPDX-License-Identifier: BSD-3-Clause */
/* The fault plan and the patches of Identify pages. */
#include "fabric/soft.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"

static bool is_cm(uint32_t kind)
{
	return kind >= NVMFR_SOFT_FAULT_CM_REJECT && kind <= NVMFR_SOFT_FAULT_CM_DISCONNECT;
}

/* What a fault's detail is compared with; false: not looked at. */
static bool detail_of(const struct nvme_sqe *sqe, uint16_t qid, uint32_t *detail)
{
	if (sqe->opcode == NVME_FABRICS_OPCODE) {
		*detail = nvme_sqe_fctype(sqe);
		return true;
	}
	*detail = from_le32(sqe->cdw10) & 0xff; /* CNS, FID, LID */
	return qid == 0 && (sqe->opcode == NVME_ADMIN_IDENTIFY ||
			    sqe->opcode == NVME_ADMIN_SET_FEATURES ||
			    sqe->opcode == NVME_ADMIN_GET_FEATURES ||
			    sqe->opcode == NVME_ADMIN_GET_LOG_PAGE);
}

static bool matches(const struct nvmfr_soft_fault *fault, uint16_t qid, const struct nvme_sqe *sqe)
{
	uint32_t detail;

	if (is_cm(fault->kind) != !sqe)
		return false;
	if (fault->qid != NVMFR_SOFT_ANY && fault->qid != qid)
		return false;
	if (!sqe)
		return true;
	if (fault->opcode != NVMFR_SOFT_ANY && fault->opcode != sqe->opcode)
		return false;
	return fault->detail == NVMFR_SOFT_ANY || !detail_of(sqe, qid, &detail) ||
	       fault->detail == detail;
}

static bool applies(struct soft_planned *planned)
{
	if (planned->fault.count && planned->applied >= planned->fault.count)
		return false;
	if (planned->passed < planned->fault.skip) {
		planned->passed++;
		return false;
	}
	planned->applied++;
	return true;
}

struct nvmfr_soft_fault nvmfr__soft_fault_match(struct nvmfr_soft_target *target, uint16_t qid,
						const struct nvme_sqe *sqe)
{
	struct nvmfr_soft_fault found = { .kind = 0 };

	pthread_mutex_lock(&target->plan_lock);
	for (uint32_t i = 0; i < target->n_faults; i++) {
		struct soft_planned *planned = &target->plan[i];

		if (matches(&planned->fault, qid, sqe) && applies(planned)) {
			found = planned->fault;
			break;
		}
	}
	pthread_mutex_unlock(&target->plan_lock);
	return found;
}

int nvmfr__soft_fault_add(struct nvmfr_soft_target *target, const struct nvmfr_soft_fault *fault)
{
	struct soft_planned *plan;
	uint32_t n;

	if (fault->kind < NVMFR_SOFT_FAULT_STATUS || fault->kind > NVMFR_SOFT_FAULT_LINGER)
		return nvmfr__fail(-EINVAL, "soft fault: kind %u is not known", fault->kind);
	if (fault->kind == NVMFR_SOFT_FAULT_SHORT && fault->value >= FAB_RESPONSE_BYTES)
		return nvmfr__fail(-EINVAL, "soft fault: a short response has fewer than %d bytes",
				   FAB_RESPONSE_BYTES);
	pthread_mutex_lock(&target->plan_lock);
	n = target->n_faults;
	plan = realloc(target->plan, (n + 1) * sizeof(*plan));
	if (plan) {
		target->plan = plan;
		plan[n] = (struct soft_planned){ .fault = *fault };
		atomic_store(&target->n_faults, n + 1);
	}
	pthread_mutex_unlock(&target->plan_lock);
	return plan ? 0 : nvmfr__fail(-ENOMEM, "soft fault: no memory");
}

void nvmfr__soft_fault_clear(struct nvmfr_soft_target *target)
{
	pthread_mutex_lock(&target->plan_lock);
	atomic_store(&target->n_faults, 0);
	target->n_patches = 0;
	free(target->plan);
	target->plan = NULL;
	pthread_mutex_unlock(&target->plan_lock);
}

int nvmfr__soft_patch_identify(struct nvmfr_soft_target *target, uint32_t cns, uint32_t nsid,
			       uint32_t offset, const void *bytes, uint32_t len)
{
	struct soft_patch patch = { .cns = cns, .nsid = nsid, .offset = offset, .len = len };
	bool room;

	if (len == 0 || len > SOFT_PATCH_BYTES || offset > NVME_IDENTIFY_BYTES - len)
		return nvmfr__fail(-EINVAL, "soft identify patch: %u bytes at %u, 1 to %d inside of %d can be",
				   len, offset, SOFT_PATCH_BYTES, NVME_IDENTIFY_BYTES);
	memcpy(patch.bytes, bytes, len);
	pthread_mutex_lock(&target->plan_lock);
	room = target->n_patches < SOFT_PATCHES;
	if (room)
		target->patches[target->n_patches++] = patch;
	pthread_mutex_unlock(&target->plan_lock);
	return room ? 0 : nvmfr__fail(-ENOSPC, "soft identify patch: %d exist already", SOFT_PATCHES);
}

void nvmfr__soft_patch_apply(struct nvmfr_soft_target *target, uint32_t cns, uint32_t nsid,
			     unsigned char *page)
{
	pthread_mutex_lock(&target->plan_lock);
	for (uint32_t i = 0; i < target->n_patches; i++) {
		const struct soft_patch *patch = &target->patches[i];

		if (patch->cns == cns && (patch->nsid == NVMFR_SOFT_ANY || patch->nsid == nsid))
			memcpy(page + patch->offset, patch->bytes, patch->len);
	}
	pthread_mutex_unlock(&target->plan_lock);
}

void nvmfr__soft_last_violation(struct nvmfr_soft_target *target, char *text, size_t bytes)
{
	if (bytes == 0)
		return;
	pthread_mutex_lock(&target->plan_lock);
	snprintf(text, bytes, "%s", target->violation);
	pthread_mutex_unlock(&target->plan_lock);
}
