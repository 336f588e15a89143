/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef NVMFR_WIRE_STATUS_H
#define NVMFR_WIRE_STATUS_H

#include <stdbool.h>
#include <stdint.h>

#include "wire/sqe.h"

/* A status is CQE dword 3 bits 31:17, that is the status field without the phase tag. */
enum nvme_sct {
	NVME_SCT_GENERIC = 0,
	NVME_SCT_COMMAND = 1,
	NVME_SCT_MEDIA = 2,
	NVME_SCT_PATH = 3,
	NVME_SCT_VENDOR = 7,
};

#define NVME_STATUS(sct, sc) ((uint16_t)((unsigned int)(sct) << 8 | (sc)))

enum nvme_status {
	NVME_ST_SUCCESS = 0x000,
	NVME_ST_INVALID_OPCODE = 0x001,
	NVME_ST_INVALID_FIELD = 0x002,
	NVME_ST_CID_CONFLICT = 0x003,
	NVME_ST_DATA_TRANSFER_ERROR = 0x004,
	NVME_ST_INTERNAL_ERROR = 0x006,
	NVME_ST_ABORT_REQUESTED = 0x007,
	NVME_ST_ABORT_SQ_DELETION = 0x008,
	NVME_ST_FAILED_FUSED = 0x009,
	NVME_ST_MISSING_FUSED = 0x00a,
	NVME_ST_INVALID_NAMESPACE = 0x00b,
	NVME_ST_SEQUENCE_ERROR = 0x00c,
	NVME_ST_INVALID_SGL_SEGMENT = 0x00d,
	NVME_ST_INVALID_SGL_COUNT = 0x00e,
	NVME_ST_SGL_DATA_LENGTH = 0x00f,
	NVME_ST_SGL_TYPE = 0x011,
	NVME_ST_SGL_OFFSET = 0x016,
	NVME_ST_HOSTID_FORMAT = 0x018,
	NVME_ST_KATO_EXPIRED = 0x019,
	NVME_ST_KATO_INVALID = 0x01a,
	NVME_ST_NS_WRITE_PROTECTED = 0x020,
	NVME_ST_LBA_RANGE = 0x080,
	NVME_ST_CAPACITY_EXCEEDED = 0x081,
	NVME_ST_NS_NOT_READY = 0x082,
	NVME_ST_RESERVATION_CONFLICT = 0x083,
	NVME_ST_AER_LIMIT = 0x105,
	NVME_ST_INVALID_LOG_PAGE = 0x109,
	NVME_ST_CONNECT_FORMAT = 0x180,
	NVME_ST_CONNECT_CTRL_BUSY = 0x181,
	NVME_ST_CONNECT_INVALID_PARAM = 0x182,
	NVME_ST_CONNECT_RESTART_DISCOVERY = 0x183,
	NVME_ST_COMMAND_SIZE_LIMIT = 0x183, /* of a Copy */
	NVME_ST_CONNECT_INVALID_HOST = 0x184,
	NVME_ST_INVALID_QUEUE_TYPE = 0x185,
	NVME_ST_AUTH_REQUIRED = 0x191,
	NVME_ST_WRITE_FAULT = 0x280,
	NVME_ST_UNRECOVERED_READ = 0x281,
	NVME_ST_COMPARE_FAILURE = 0x285,
	NVME_ST_INTERNAL_PATH = 0x300,
	NVME_ST_ANA_PERSISTENT_LOSS = 0x301,
	NVME_ST_ANA_INACCESSIBLE = 0x302,
	NVME_ST_ANA_TRANSITION = 0x303,
	NVME_ST_CTRL_PATHING = 0x360,
	NVME_ST_HOST_PATHING = 0x370,
};

static inline uint16_t nvme_cqe_status(const struct nvme_cqe *cqe)
{
	return (uint16_t)(from_le16(cqe->status) >> 1);
}

/* SCT and SC, which is what enum nvme_status holds. */
static inline uint16_t nvme_status_code(uint16_t status)
{
	return status & 0x7ff;
}

static inline uint8_t nvme_status_crd(uint16_t status)
{
	return status >> 11 & 3;
}

static inline bool nvme_status_more(uint16_t status)
{
	return status >> 13 & 1;
}

static inline bool nvme_status_dnr(uint16_t status)
{
	return status >> 14 & 1;
}

/* It says something of the way to the namespace and nothing of the command: another way may do. */
static inline bool nvme_status_is_path(uint16_t status)
{
	return (status >> 8 & 7) == NVME_SCT_PATH && !nvme_status_dnr(status);
}

const char *nvme_status_name(uint16_t status); /* never NULL */

#endif
