/* SPDX-License-Identifier: BSD-3-Clause */
/* Lists of ranges: the data of Dataset Management and Copy. */
#ifndef NVMFR_WIRE_RANGES_H
#define NVMFR_WIRE_RANGES_H

#include <stddef.h>
#include <stdint.h>

#include "wire/bytes.h"

struct nvme_dsm_range {
	le32 attributes;
	le32 nlb; /* 1's based */
	le64 slba;
};

/* Source Range Entry, descriptor format 0. */
struct nvme_copy_range {
	uint8_t rsvd0[8];
	le64 slba;
	le16 nlb; /* 0's based */
	uint8_t rsvd18[14];
};

_Static_assert(sizeof(struct nvme_dsm_range) == 16, "Dataset Management range");
_Static_assert(offsetof(struct nvme_dsm_range, nlb) == 4, "length in logical blocks");
_Static_assert(offsetof(struct nvme_dsm_range, slba) == 8, "starting LBA");
_Static_assert(sizeof(struct nvme_copy_range) == 32, "Source Range Entry");
_Static_assert(offsetof(struct nvme_copy_range, slba) == 8, "SLBA");
_Static_assert(offsetof(struct nvme_copy_range, nlb) == 16, "NLB");

enum {
	NVME_MAX_RANGES = 256, /* of either: NR has 8 bits, 0's based */
	NVME_DSM_DEALLOCATE = 1 << 2, /* CDW11: AD */
	NVME_COPY_FORMAT_MASK = 0xf << 8, /* CDW12: DESFMT */
};

#endif
