/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef NVMFR_QUEUE_RESERVE_H
#define NVMFR_QUEUE_RESERVE_H

#include <nvmfr/cmd.h>

#include "queue/qpair.h"

/* Checks what, and makes its SQE but for the descriptor; how many keys it sends. -errno with a sentence. */
int nvmfr__reserve_sqe(const struct nvmfr_reserve *what, struct nvme_sqe *sqe);

/* As nvmfr_reserve() and nvmfr_report_reservations(). */
int nvmfr__qpair_reserve(struct nvmfr_qpair *qp, const struct nvmfr_reserve *what, struct nvmfr_buffer *keys,
			 uint64_t offset, uint64_t user_data);
int nvmfr__qpair_report(struct nvmfr_qpair *qp, uint32_t nsid, struct nvmfr_buffer *buf, uint64_t offset,
			uint64_t bytes, uint64_t user_data);

#endif
