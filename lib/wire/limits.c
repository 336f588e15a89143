/* SPDX-License-Identifier: BSD-3-Clause */
#include "wire/limits.h"

#include <errno.h>

#include "base/err.h"
#include "base/util.h"
#include "wire/sqe.h"

#define CAPSULE_UNIT   16 /* IOCCSZ, IORCSZ and ICDOFF count in it */
#define MAX_XFER_SHIFT 23 /* the largest power of two in 24 bits */
#define NO_LIMIT_SHIFT 32 /* a limit of 4 GiB limits nothing we could send */
#define MAX_ICD_BYTES  (1u << 20)

uint64_t nvme_max_xfer(uint8_t mdts, uint8_t mpsmin)
{
	unsigned int shift = 12u + mpsmin + mdts;

	if (mdts == 0 || shift >= NO_LIMIT_SHIFT)
		return NVME_DEFAULT_MAX_XFER_BYTES;
	return UINT64_C(1) << MIN(shift, (unsigned int)MAX_XFER_SHIFT);
}

static int check_capsules(const struct ctrl_data *ctrl)
{
	if (ctrl->ioccsz < sizeof(struct nvme_sqe) / CAPSULE_UNIT)
		return nvmfr__fail(-EPROTO,
				   "controller %u: IOCCSZ is %u, an I/O command capsule needs 4 "
				   "(64 bytes); the target's Identify data is wrong",
				   ctrl->cntlid, ctrl->ioccsz);
	if (ctrl->iorcsz < sizeof(struct nvme_cqe) / CAPSULE_UNIT)
		return nvmfr__fail(-EPROTO,
				   "controller %u: IORCSZ is 0, an I/O response capsule needs 1 "
				   "(16 bytes); the target's Identify data is wrong",
				   ctrl->cntlid);
	if (!(ctrl->sgls & NVME_SGLS_SUPPORT_MASK) || !(ctrl->sgls & NVME_SGLS_KEYED))
		return nvmfr__fail(-EOPNOTSUPP,
				   "controller %u: SGLS is 0x%08x, without keyed SGL descriptors; "
				   "RDMA needs them (bits 1:0 not 0 and bit 2 set)",
				   ctrl->cntlid, ctrl->sgls);
	return 0;
}

/* The kernel leaves in-capsule data off when ICDOFF is not 0; a gap behind the SQE buys nothing. */
static uint32_t icd_room(const struct ctrl_data *ctrl)
{
	uint64_t capsule_bytes = (uint64_t)ctrl->ioccsz * CAPSULE_UNIT;

	if (ctrl->icdoff != 0 || !(ctrl->sgls & NVME_SGLS_OFFSET))
		return 0;
	return (uint32_t)nvmfr__min_u64(capsule_bytes - sizeof(struct nvme_sqe), MAX_ICD_BYTES);
}

int nvme_capsule_limits(const struct ctrl_data *ctrl, uint32_t own_descriptors,
			struct capsule_limits *out)
{
	uint32_t descriptors = own_descriptors;
	int err = check_capsules(ctrl);

	if (err)
		return err;
	out->icd_bytes = icd_room(ctrl);
	out->any_bytes = (ctrl->sgls & NVME_SGLS_SUPPORT_MASK) == NVME_SGLS_ANY_BYTES;
	if (ctrl->msdbd != 0)
		descriptors = nvmfr__min_u32(descriptors, ctrl->msdbd);
	/* One descriptor stands in the SQE; more are a list inside the capsule. */
	if (descriptors > 1)
		descriptors = nvmfr__min_u32(descriptors,
					     out->icd_bytes / sizeof(struct nvme_sgl));
	out->max_descriptors = nvmfr__max_u32(descriptors, 1);
	return 0;
}

unsigned int nvme_clamp_depth(unsigned int wanted, uint16_t mqes, uint16_t maxcmd)
{
	unsigned int depth = MIN(wanted, (unsigned int)NVME_MAX_DEPTH);

	depth = MIN(depth, (unsigned int)mqes);
	return maxcmd ? MIN(depth, (unsigned int)maxcmd) : depth;
}
