/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef NVMFR_WIRE_ADMIN_H
#define NVMFR_WIRE_ADMIN_H

#include <stdbool.h>
#include <stdint.h>

#include "wire/sqe.h"

enum nvme_cns {
	NVME_CNS_NS = 0x00,
	NVME_CNS_CTRL = 0x01,
	NVME_CNS_ACTIVE_LIST = 0x02, /* nsid: list starts after it */
	NVME_CNS_NS_DESCS = 0x03,
	NVME_CNS_IO_SET_NS = 0x05,
	NVME_CNS_IO_SET_CTRL = 0x06,
};

enum nvme_feature {
	NVME_FEAT_WRITE_CACHE = 0x06,
	NVME_FEAT_NUM_QUEUES = 0x07,
	NVME_FEAT_ASYNC_EVENT_CONFIG = 0x0b,
	NVME_FEAT_TIMESTAMP = 0x0e,
	NVME_FEAT_KATO = 0x0f,
	NVME_FEAT_HOST_ID = 0x81,
};

/* CDW10 of Get and Set Features. */
enum { NVME_FEATURE_SELECT_SHIFT = 8 };
#define NVME_FEATURE_SAVE	  (UINT32_C(1) << 31)

/* Asynchronous Event Configuration: critical warnings, then the same bits as Identify OAES. */
#define NVME_AEC_HEALTH		  UINT32_C(0x1f)
#define NVME_AEC_NS_ATTR	  (UINT32_C(1) << 8)
#define NVME_AEC_FW_ACTIVATION	  (UINT32_C(1) << 9)
#define NVME_AEC_ANA_CHANGE	  (UINT32_C(1) << 11)
#define NVME_AEC_DISCOVERY_CHANGE (UINT32_C(1) << 31)

/* 4096 bytes of data each; cntid 0 unless the CNS asks for one. Command set 0 (NVM). */
void nvme_sqe_identify(struct nvme_sqe *sqe, uint8_t cns, uint32_t nsid, uint16_t cntid);
void nvme_sqe_get_features(struct nvme_sqe *sqe, uint8_t fid);
void nvme_sqe_set_features(struct nvme_sqe *sqe, uint8_t fid, uint32_t value);
void nvme_sqe_keep_alive(struct nvme_sqe *sqe);
void nvme_sqe_async_event(struct nvme_sqe *sqe);
void nvme_sqe_abort(struct nvme_sqe *sqe, uint16_t sqid, uint16_t cid);

/* 1-based; 0 would be an invalid request and is taken as 1, more than 65,535 as 65,535. */
void nvme_sqe_set_num_queues(struct nvme_sqe *sqe, uint32_t num_queues);

/*
 * How many I/O queue pairs the answer allows, 1-based: the lesser of submission and completion
 * queues.
 */
uint32_t nvme_num_queues_granted(uint64_t result);

/* Bit 0 of the answer to Abort is set when the command was not aborted. */
static inline bool nvme_abort_done(uint64_t result)
{
	return !(result & 1);
}

#endif
