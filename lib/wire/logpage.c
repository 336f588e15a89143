/* SPDX-License-Identifier: BSD-3-Clause */
#include "wire/logpage.h"

#include <string.h>

#define RAE (UINT32_C(1) << 15)

struct aer_result nvme_parse_aer(uint64_t result)
{
	return (struct aer_result){
		.type = result & 7,
		.info = (uint8_t)(result >> 8),
		.lid = (uint8_t)(result >> 16),
		.parameter = (uint32_t)(result >> 32),
	};
}

int nvme_parse_changed_ns(const void *data, uint32_t *out)
{
	const unsigned char *at = data;
	int n = 0;

	for (; n < NVME_CHANGED_NS_MAX; n++, at += sizeof(le32)) {
		le32 wire;
		uint32_t nsid;

		memcpy(&wire, at, sizeof(wire));
		nsid = from_le32(wire);
		if (nsid == 0)
			break;
		if (nsid == NVME_CHANGED_NS_OVERFLOW || (n && nsid <= out[n - 1]))
			return -1;
		out[n] = nsid;
	}
	return n;
}

void nvme_sqe_get_log(struct nvme_sqe *sqe, uint8_t lid, uint32_t nsid, uint32_t bytes,
		      uint64_t offset, bool rae)
{
	uint32_t numd = bytes / 4 - 1; /* dwords, 0's based: NUMDL in CDW10, NUMDU in CDW11 */

	nvme_sqe_init(sqe, NVME_ADMIN_GET_LOG_PAGE);
	sqe->nsid = to_le32(nsid);
	sqe->cdw10 = to_le32(numd << 16 | (rae ? RAE : 0) | lid);
	sqe->cdw11 = to_le32(numd >> 16);
	sqe->cdw12 = to_le32((uint32_t)offset);
	sqe->cdw13 = to_le32((uint32_t)(offset >> 32));
}
