/* SPDX-License-Identifier: BSD-3-Clause */
/* Reservations: what their commands carry. */
#ifndef NVMFR_WIRE_RESERVE_H
#define NVMFR_WIRE_RESERVE_H

#include <stddef.h>
#include <stdint.h>

#include "wire/bytes.h"

/* CDW10 of Register, Acquire and Release: bits 2:0 the action, bits 15:8 the type. */
enum {
	NVME_RESV_ACTION = 7,
	NVME_RESV_IGNORE_KEY = 1 << 3,
	NVME_RESV_TYPE_SHIFT = 8,
	NVME_RESV_CPTPL_SHIFT = 30,
	NVME_RESV_CPTPL_OFF = 2,
	NVME_RESV_CPTPL_ON = 3,
	NVME_RESV_EXTENDED = 1, /* CDW11 of Report: EDS */
};

enum nvme_resv_register { NVME_RESV_REGISTER = 0, NVME_RESV_UNREGISTER, NVME_RESV_REPLACE };
enum nvme_resv_acquire { NVME_RESV_ACQUIRE = 0, NVME_RESV_PREEMPT, NVME_RESV_PREEMPT_ABORT };
enum nvme_resv_release { NVME_RESV_RELEASE = 0, NVME_RESV_CLEAR };

enum nvme_resv_type {
	NVME_RESV_NONE = 0,
	NVME_RESV_WRITE_EXCLUSIVE,
	NVME_RESV_EXCLUSIVE,
	NVME_RESV_WRITE_EXCLUSIVE_REGISTRANTS,
	NVME_RESV_EXCLUSIVE_REGISTRANTS,
	NVME_RESV_WRITE_EXCLUSIVE_ALL,
	NVME_RESV_EXCLUSIVE_ALL,
};

/* Register: CRKEY, NRKEY. Acquire: CRKEY, PRKEY. Release: CRKEY only. */
struct nvme_resv_keys {
	le64 current;
	le64 other;
};

/* Report, extended data structure; registrants follow. */
struct nvme_resv_status {
	le32 gen;
	uint8_t rtype;
	uint8_t regctl[2];
	uint8_t rsvd7[2];
	uint8_t ptpls;
	uint8_t rsvd10[54];
};

struct nvme_resv_registrant {
	le16 cntlid;
	uint8_t rcsts; /* bit 0: holds the reservation */
	uint8_t rsvd3[5];
	le64 rkey;
	uint8_t hostid[16];
	uint8_t rsvd32[32];
};

_Static_assert(sizeof(struct nvme_resv_keys) == 16, "keys");
_Static_assert(sizeof(struct nvme_resv_status) == 64, "Reservation Status, extended");
_Static_assert(offsetof(struct nvme_resv_status, ptpls) == 9, "PTPLS");
_Static_assert(sizeof(struct nvme_resv_registrant) == 64, "Registered Controller, extended");
_Static_assert(offsetof(struct nvme_resv_registrant, rkey) == 8, "RKEY");
_Static_assert(offsetof(struct nvme_resv_registrant, hostid) == 16, "HOSTID");

#endif
