/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef NVMFR_WIRE_LOGPAGE_H
#define NVMFR_WIRE_LOGPAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "wire/sqe.h"

enum nvme_lid {
	NVME_LID_ERROR = 0x01,
	NVME_LID_SMART = 0x02,
	NVME_LID_FIRMWARE = 0x03,
	NVME_LID_CHANGED_NS = 0x04,
	NVME_LID_ANA = 0x0c,
	NVME_LID_DISCOVERY = 0x70,
};

enum {
	NVME_ERROR_LOG_ENTRY_BYTES = 64,
	NVME_SMART_LOG_BYTES = 512,
};

/*
 * Changed Namespace List: ascending NSIDs, zero filled; one entry of all ones when they did not
 * fit.
 */
enum {
	NVME_CHANGED_NS_BYTES = 4096,
	NVME_CHANGED_NS_MAX = 1024,
};
#define NVME_CHANGED_NS_OVERFLOW UINT32_C(0xffffffff)

enum nvme_aer_type {
	NVME_AER_ERROR = 0,
	NVME_AER_SMART = 1,
	NVME_AER_NOTICE = 2,
	NVME_AER_IMMEDIATE = 3,
	NVME_AER_IO_SET = 6,
	NVME_AER_VENDOR = 7,
};

/* Information of a notice. */
enum nvme_aer_notice {
	NVME_NOTICE_NS_ATTR = 0x00,
	NVME_NOTICE_FW_ACTIVATION = 0x01,
	NVME_NOTICE_TELEMETRY = 0x02,
	NVME_NOTICE_ANA_CHANGE = 0x03,
	NVME_NOTICE_DISCOVERY_CHANGE = 0xf0,
};

struct aer_result {
	uint8_t type; /* enum nvme_aer_type */
	uint8_t info;
	uint8_t lid; /* reading this page, without RAE, re-enables the event */
	uint32_t parameter;
};

struct aer_result nvme_parse_aer(uint64_t result);

/*
 * A Changed Namespace List of NVME_CHANGED_NS_BYTES; out has room for NVME_CHANGED_NS_MAX. How many,
 * or -1: more than fit, or a list that is none, so that any may have changed.
 */
int nvme_parse_changed_ns(const void *data, uint32_t *out);

/*
 * bytes and offset are multiples of 4, bytes is at least 4. rae keeps the event that announced
 * the page pending. An offset other than 0 needs NVME_LPA_EXTENDED.
 */
void nvme_sqe_get_log(struct nvme_sqe *sqe, uint8_t lid, uint32_t nsid, uint32_t bytes,
		      uint64_t offset, bool rae);

#endif
