/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef NVMFR_WIRE_CM_H
#define NVMFR_WIRE_CM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/bytes.h"

/* NVMe RDMA Transport: private data of the RDMA CM messages. */
struct nvme_cm_request {
	le16 recfmt;
	le16 qid;
	le16 hrqsize;
	le16 hsqsize; /* 0's based, as SQSIZE in Connect */
	le16 cntlid;
	uint8_t rsvd10[22];
};

struct nvme_cm_accept {
	le16 recfmt;
	le16 crqsize;
	uint8_t rsvd4[28];
};

struct nvme_cm_reject {
	le16 recfmt;
	le16 sts;
};

_Static_assert(sizeof(struct nvme_cm_request) == 32, "CM request private data");
_Static_assert(offsetof(struct nvme_cm_request, cntlid) == 8, "CNTLID");
_Static_assert(sizeof(struct nvme_cm_accept) == 32, "CM accept private data");
_Static_assert(sizeof(struct nvme_cm_reject) == 4, "CM reject private data");

enum nvme_cm_status {
	NVME_CM_INVALID_LENGTH = 1,
	NVME_CM_INVALID_RECFMT = 2,
	NVME_CM_INVALID_QID = 3,
	NVME_CM_INVALID_HSQSIZE = 4,
	NVME_CM_INVALID_HRQSIZE = 5,
	NVME_CM_NO_RESOURCES = 6,
	NVME_CM_INVALID_IRD = 7,
	NVME_CM_INVALID_ORD = 8,
	NVME_CM_INVALID_CNTLID = 9,
};

struct cm_request {
	uint16_t qid;
	uint16_t hrqsize;
	uint16_t hsqsize; /* 0's based */
	uint16_t cntlid;
};

/* depth commands in flight: HSQSIZE = depth, HRQSIZE = depth + 1. */
struct nvme_cm_request nvme_cm_request(uint16_t qid, uint16_t depth, uint16_t cntlid);
struct nvme_cm_accept nvme_cm_accept(uint16_t crqsize);
struct nvme_cm_reject nvme_cm_reject(uint16_t sts);

/*
 * bytes is what the CM reports, which is often padded; NULL with 0 is allowed. -EPROTO with a
 * sentence when it is too short or in an unknown record format (-EOPNOTSUPP).
 */
int nvme_parse_cm_request(const void *data, size_t bytes, struct cm_request *out);
int nvme_parse_cm_accept(const void *data, size_t bytes, uint16_t *crqsize);
int nvme_parse_cm_reject(const void *data, size_t bytes, uint16_t *sts);

const char *nvme_cm_status_name(uint16_t sts); /* never NULL */

/* No resources: later may succeed. */
bool nvme_cm_status_retryable(uint16_t sts);

/* The target found HSQSIZE or HRQSIZE too large: a smaller queue may succeed. */
bool nvme_cm_status_retry_smaller(uint16_t sts);

#endif
