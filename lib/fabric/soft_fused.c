/* SPDX-License-Identifier: BSD-3-Clause */
/* Fused pairs: the Compare waits for its Write, then both are done as one. */
#include "fabric/soft.h"

static bool is_pair(const struct nvme_sqe *first, const struct nvme_sqe *second)
{
	return second->opcode == NVME_IO_WRITE && from_le32(first->nsid) == from_le32(second->nsid) &&
	       from_le32(first->cdw10) == from_le32(second->cdw10) &&
	       from_le32(first->cdw11) == from_le32(second->cdw11) &&
	       (from_le32(first->cdw12) & 0xffff) == (from_le32(second->cdw12) & 0xffff);
}

/* The capsule is the initiator's again, so nothing of the Compare's may have come in it. */
static void keep_first(struct soft_cmd *cmd)
{
	struct soft_ep *ep = cmd->ep;

	if (cmd->sqe->opcode != NVME_IO_COMPARE ||
	    !(ep->target->opts.oncs & NVME_ONCS_COMPARE) ||
	    nvme_sgl_type(&cmd->sqe->dptr) != NVME_SGL_KEYED) {
		nvmfr__soft_refuse(cmd, NVME_ST_INVALID_FIELD);
		return;
	}
	ep->fused = *cmd->sqe;
	ep->fused_waits = true;
	cmd->held = true;
}

static void run_pair(struct soft_cmd *cmd)
{
	struct soft_ep *ep = cmd->ep;
	struct soft_cmd first = { .ep = ep, .sqe = &ep->fused, .cid = from_le16(ep->fused.cid) };

	pthread_mutex_lock(&ep->target->fused_lock);
	nvmfr__soft_io(&first);
	if (first.status)
		nvmfr__soft_refuse(cmd, NVME_ST_FAILED_FUSED);
	else
		nvmfr__soft_io(cmd);
	pthread_mutex_unlock(&ep->target->fused_lock);
	nvmfr__soft_respond(ep, first.cid, first.result, first.status);
}

void nvmfr__soft_fused(struct soft_cmd *cmd)
{
	struct soft_ep *ep = cmd->ep;
	uint8_t fuse = cmd->sqe->flags & NVME_FLAGS_FUSE_MASK;
	bool waits = ep->fused_waits;

	ep->fused_waits = false;
	if (waits && fuse == NVME_FLAGS_FUSE_SECOND && is_pair(&ep->fused, cmd->sqe)) {
		run_pair(cmd);
		return;
	}
	if (waits)
		nvmfr__soft_respond(ep, from_le16(ep->fused.cid), 0,
				    NVME_ST_MISSING_FUSED | SOFT_DNR);
	if (fuse == 0)
		nvmfr__soft_io(cmd);
	else if (fuse == NVME_FLAGS_FUSE_FIRST)
		keep_first(cmd);
	else
		nvmfr__soft_refuse(cmd, fuse == NVME_FLAGS_FUSE_SECOND ? NVME_ST_MISSING_FUSED : NVME_ST_INVALID_FIELD);
}
