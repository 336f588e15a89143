/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef NVMFR_WIRE_LIMITS_H
#define NVMFR_WIRE_LIMITS_H

#include <stdint.h>

#include "wire/identify.h"

#define NVME_DEFAULT_MAX_XFER_BYTES (UINT64_C(1) << 20)

/* 12 bits of the CID name the slot, and FFFFh is never sent. */
#define NVME_MAX_DEPTH		    4095

/*
 * Bytes one command may move. A power of two, at most 8 MiB: the largest that fits the 24-bit
 * length of a keyed descriptor. MDTS 0 names no limit, and one of 4 GiB or more says no more than
 * that: both give the default of 1 MiB. Also for WZSL and its like, where 0 means none.
 */
uint64_t nvme_max_xfer(uint8_t mdts, uint8_t mpsmin);

struct capsule_limits {
	uint32_t icd_bytes; /* in-capsule data behind the SQE; 0: none */
	uint32_t max_descriptors; /* keyed descriptors in one command, at least 1 */
	bool any_bytes; /* data blocks of any length at any address; else of whole dwords */
};

/*
 * own_descriptors is the caller's limit, at least 1. -EPROTO when no I/O command can be sent at all
 * (IOCCSZ, IORCSZ), -EOPNOTSUPP when the controller takes no keyed descriptors.
 */
int nvme_capsule_limits(const struct ctrl_data *ctrl, uint32_t own_descriptors,
			struct capsule_limits *out);

/*
 * Commands in flight, 1-based. d of them mean SQSIZE = d (0's based), so d is at most MQES as it
 * stands; maxcmd 0 names no limit. The result is 0 when wanted or mqes is.
 */
unsigned int nvme_clamp_depth(unsigned int wanted, uint16_t mqes, uint16_t maxcmd);

#endif
