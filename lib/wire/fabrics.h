/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef NVMFR_WIRE_FABRICS_H
#define NVMFR_WIRE_FABRICS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/bytes.h"
#include "wire/sqe.h"

enum nvme_fctype {
	NVME_FCTYPE_PROPERTY_SET = 0x00,
	NVME_FCTYPE_CONNECT = 0x01,
	NVME_FCTYPE_PROPERTY_GET = 0x04,
	NVME_FCTYPE_AUTH_SEND = 0x05,
	NVME_FCTYPE_AUTH_RECV = 0x06,
	NVME_FCTYPE_DISCONNECT = 0x08,
};

enum nvme_property {
	NVME_PROP_CAP = 0x00, /* 8 bytes, the others 4 */
	NVME_PROP_VS = 0x08,
	NVME_PROP_CC = 0x14,
	NVME_PROP_CSTS = 0x1c,
	NVME_PROP_NSSR = 0x20,
};

enum nvme_cattr {
	NVME_CATTR_NO_SQ_FLOW_CONTROL = 1 << 2,
	NVME_CATTR_IO_QUEUE_DELETION = 1 << 3,
};

enum {
	NVME_CNTLID_DYNAMIC = 0xffff, /* Connect data: any controller */
	NVME_SQHD_NO_FLOW_CONTROL = 0xffff,
};

#define NVME_NQN_FIELD_BYTES 256

struct nvme_connect_data {
	uint8_t hostid[16];
	le16 cntlid;
	uint8_t rsvd18[238];
	char subnqn[NVME_NQN_FIELD_BYTES];
	char hostnqn[NVME_NQN_FIELD_BYTES];
	uint8_t rsvd768[256];
};

_Static_assert(sizeof(struct nvme_connect_data) == 1024, "Connect data");
_Static_assert(offsetof(struct nvme_connect_data, cntlid) == 16, "CNTLID");
_Static_assert(offsetof(struct nvme_connect_data, subnqn) == 256, "SUBNQN");
_Static_assert(offsetof(struct nvme_connect_data, hostnqn) == 512, "HOSTNQN");

/* The response to a good Connect: dword 0. AUTHREQ is not zero when authentication must follow. */
static inline uint16_t nvme_connect_cntlid(uint64_t result)
{
	return (uint16_t)result;
}

static inline uint16_t nvme_connect_authreq(uint64_t result)
{
	return (uint16_t)(result >> 16);
}

static inline uint8_t nvme_sqe_fctype(const struct nvme_sqe *sqe)
{
	return sqe->nsid.b[0];
}

/* sqsize is 0's based. kato_ms counts on the admin queue only. The caller sets dptr to the data. */
void nvme_sqe_connect(struct nvme_sqe *sqe, uint16_t qid, uint16_t sqsize, uint8_t cattr,
		      uint32_t kato_ms);
void nvme_sqe_property_get(struct nvme_sqe *sqe, uint32_t offset, bool eight_bytes);
void nvme_sqe_property_set(struct nvme_sqe *sqe, uint32_t offset, bool eight_bytes,
			   uint64_t value);
void nvme_sqe_disconnect(struct nvme_sqe *sqe);

/* Both NQNs are checked and zero padded; an all-zero hostid is refused, as targets do. */
int nvme_connect_data_init(struct nvme_connect_data *data, const uint8_t hostid[16],
			   uint16_t cntlid, const char *subnqn, const char *hostnqn);

/* CAP, Controller Capabilities. */
enum nvme_cap_css {
	NVME_CAP_CSS_NVM = 1 << 0,
	NVME_CAP_CSS_IO_SETS = 1 << 6,
	NVME_CAP_CSS_ADMIN_ONLY = 1 << 7,
};

static inline uint16_t nvme_cap_mqes(uint64_t cap) /* 0's based */
{
	return (uint16_t)cap;
}

static inline bool nvme_cap_cqr(uint64_t cap)
{
	return cap >> 16 & 1;
}

static inline uint8_t nvme_cap_to(uint64_t cap) /* units of 500 ms */
{
	return (uint8_t)(cap >> 24);
}

static inline uint32_t nvme_cap_timeout_ms(uint64_t cap)
{
	return nvme_cap_to(cap) * UINT32_C(500);
}

static inline uint8_t nvme_cap_dstrd(uint64_t cap)
{
	return cap >> 32 & 0xf;
}

static inline uint8_t nvme_cap_css(uint64_t cap) /* enum nvme_cap_css */
{
	return (uint8_t)(cap >> 37);
}

static inline uint8_t nvme_cap_mpsmin(uint64_t cap) /* 2 ^ (12 + value) bytes */
{
	return cap >> 48 & 0xf;
}

static inline uint8_t nvme_cap_mpsmax(uint64_t cap)
{
	return cap >> 52 & 0xf;
}

/* CC, Controller Configuration. */
enum nvme_cc {
	NVME_CC_EN = 1 << 0,
	NVME_CC_CSS_NVM = 0 << 4,
	NVME_CC_CSS_IO_SETS = 6 << 4,
	NVME_CC_CSS_ADMIN_ONLY = 7 << 4,
	NVME_CC_MPS_SHIFT = 7,
	NVME_CC_SHN_NORMAL = 1 << 14,
	NVME_CC_SHN_ABRUPT = 2 << 14,
	NVME_CC_SHN_MASK = 3 << 14,
	NVME_CC_IOSQES_64 = 6 << 16,
	NVME_CC_IOCQES_16 = 4 << 20,
};

/*
 * The value that enables a controller with this CAP: smallest page size, 64 and 16-byte entries,
 * and the command set selection the controller offers (CSS): all sets, NVM only, or admin only.
 */
uint32_t nvme_cc_enable(uint64_t cap);

/* CSTS, Controller Status. */
enum nvme_csts {
	NVME_CSTS_RDY = 1 << 0,
	NVME_CSTS_CFS = 1 << 1,
	NVME_CSTS_SHST_OCCURRING = 1 << 2,
	NVME_CSTS_SHST_COMPLETE = 2 << 2,
	NVME_CSTS_SHST_MASK = 3 << 2,
};

#endif
