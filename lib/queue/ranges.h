/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef NVMFR_QUEUE_RANGES_H
#define NVMFR_QUEUE_RANGES_H

#include <nvmfr/cmd.h>

#include "queue/qpair.h"

/* As nvmfr_deallocate() and nvmfr_copy(). */
int nvmfr__qpair_deallocate(struct nvmfr_qpair *qp, uint32_t nsid, const struct nvmfr_range *ranges,
			    unsigned int n, struct nvmfr_buffer *list, uint64_t offset, uint64_t user_data);
int nvmfr__qpair_copy(struct nvmfr_qpair *qp, uint32_t nsid, uint64_t lba, const struct nvmfr_range *ranges,
		      unsigned int n, struct nvmfr_buffer *list, uint64_t offset, uint64_t user_data);

#endif
