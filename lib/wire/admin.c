/* SPDX-License-Identifier: BSD-3-Clause */
#include "wire/admin.h"

#include "base/util.h"

void nvme_sqe_identify(struct nvme_sqe *sqe, uint8_t cns, uint32_t nsid, uint16_t cntid)
{
	nvme_sqe_init(sqe, NVME_ADMIN_IDENTIFY);
	sqe->nsid = to_le32(nsid);
	sqe->cdw10 = to_le32((uint32_t)cntid << 16 | cns);
}

void nvme_sqe_get_features(struct nvme_sqe *sqe, uint8_t fid)
{
	nvme_sqe_init(sqe, NVME_ADMIN_GET_FEATURES);
	sqe->cdw10 = to_le32(fid);
}

void nvme_sqe_set_features(struct nvme_sqe *sqe, uint8_t fid, uint32_t value)
{
	nvme_sqe_init(sqe, NVME_ADMIN_SET_FEATURES);
	sqe->cdw10 = to_le32(fid);
	sqe->cdw11 = to_le32(value);
}

void nvme_sqe_keep_alive(struct nvme_sqe *sqe)
{
	nvme_sqe_init(sqe, NVME_ADMIN_KEEP_ALIVE);
}

void nvme_sqe_async_event(struct nvme_sqe *sqe)
{
	nvme_sqe_init(sqe, NVME_ADMIN_ASYNC_EVENT_REQUEST);
}

void nvme_sqe_abort(struct nvme_sqe *sqe, uint16_t sqid, uint16_t cid)
{
	nvme_sqe_init(sqe, NVME_ADMIN_ABORT);
	sqe->cdw10 = to_le32((uint32_t)cid << 16 | sqid);
}

void nvme_sqe_set_num_queues(struct nvme_sqe *sqe, uint32_t num_queues)
{
	/*
	 * NCQR in bits 31:16, NSQR in 15:0, both 0's based; 65,535 is an invalid value of either.
	 */
	uint32_t zero_based = MIN(MAX(num_queues, 1u), 65535u) - 1;

	nvme_sqe_set_features(sqe, NVME_FEAT_NUM_QUEUES, zero_based << 16 | zero_based);
}

uint32_t nvme_num_queues_granted(uint64_t result)
{
	uint32_t submission = result & 0xffff;
	uint32_t completion = result >> 16 & 0xffff;

	return MIN(submission, completion) + 1;
}
