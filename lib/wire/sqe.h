/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef NVMFR_WIRE_SQE_H
#define NVMFR_WIRE_SQE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "wire/bytes.h"

/* NVM Command Set, I/O commands. */
enum nvme_io_opcode {
	NVME_IO_FLUSH = 0x00,
	NVME_IO_WRITE = 0x01,
	NVME_IO_READ = 0x02,
	NVME_IO_WRITE_UNCORRECTABLE = 0x04,
	NVME_IO_COMPARE = 0x05,
	NVME_IO_WRITE_ZEROES = 0x08,
	NVME_IO_DSM = 0x09,
	NVME_IO_VERIFY = 0x0c,
	NVME_IO_RESV_REGISTER = 0x0d,
	NVME_IO_RESV_REPORT = 0x0e,
	NVME_IO_RESV_ACQUIRE = 0x11,
	NVME_IO_RESV_RELEASE = 0x15,
	NVME_IO_COPY = 0x19,
};

/* Bits 1:0 of an opcode. */
enum nvme_transfer {
	NVME_TRANSFER_NONE = 0,
	NVME_TRANSFER_TO_CTRL = 1,
	NVME_TRANSFER_FROM_CTRL = 2,
	NVME_TRANSFER_BOTH = 3,
};

static inline enum nvme_transfer nvme_opcode_transfer(uint8_t opcode)
{
	return (enum nvme_transfer)(opcode & 3);
}

enum nvme_admin_opcode {
	NVME_ADMIN_DELETE_SQ = 0x00,
	NVME_ADMIN_CREATE_SQ = 0x01,
	NVME_ADMIN_GET_LOG_PAGE = 0x02,
	NVME_ADMIN_DELETE_CQ = 0x04,
	NVME_ADMIN_CREATE_CQ = 0x05,
	NVME_ADMIN_IDENTIFY = 0x06,
	NVME_ADMIN_ABORT = 0x08,
	NVME_ADMIN_SET_FEATURES = 0x09,
	NVME_ADMIN_GET_FEATURES = 0x0a,
	NVME_ADMIN_ASYNC_EVENT_REQUEST = 0x0c,
	NVME_ADMIN_KEEP_ALIVE = 0x18,
};

enum { NVME_FABRICS_OPCODE = 0x7f };

/* Byte 1 of the SQE: bits 7:6 PSDT. Fabrics transports have SGLs only. Bits 1:0 FUSE. */
enum {
	NVME_FLAGS_PSDT_SGL = 0x40,
	NVME_FLAGS_FUSE_FIRST = 0x01,
	NVME_FLAGS_FUSE_SECOND = 0x02,
	NVME_FLAGS_FUSE_MASK = 0x03,
};

/* Read, Write and Write Zeroes, CDW12: bits 15:0 NLB (0's based). */
#define NVME_RW_FUA	      (UINT32_C(1) << 30)
#define NVME_RW_LIMITED_RETRY (UINT32_C(1) << 31)
#define NVME_RW_PRACT	      (UINT32_C(1) << 29)
#define NVME_RW_DEAC	      (UINT32_C(1) << 25) /* Write Zeroes only */
#define NVME_RW_MAX_BLOCKS    UINT32_C(65536)

#define NVME_NSID_ALL	      UINT32_C(0xffffffff)

/* Byte 15 of a descriptor: bits 7:4 type, bits 3:0 subtype. */
enum nvme_sgl_type {
	NVME_SGL_DATA_OFFSET = 0x01, /* data block, offset into the capsule */
	NVME_SGL_LAST_SEGMENT_OFFSET = 0x31, /* last segment, offset into the capsule */
	NVME_SGL_KEYED = 0x40, /* keyed data block, address */
	NVME_SGL_KEYED_INVALIDATE = 0x4f, /* the same, the target invalidates the key */
};

#define NVME_KEYED_MAX_BYTES UINT32_C(0xffffff)

/* Any SGL descriptor, as it stands in an SQE. */
struct nvme_sgl {
	uint8_t b[16];
};

struct nvme_sgl_keyed {
	le64 addr;
	le24 length;
	le32 key; /* offset 11: no packing attribute needed */
	uint8_t type;
};

/*
 * Data block and segment descriptors; with the offset subtype addr is an offset into the capsule.
 */
struct nvme_sgl_desc {
	le64 addr;
	le32 length;
	uint8_t rsvd[3];
	uint8_t type;
};

struct nvme_sqe {
	uint8_t opcode;
	uint8_t flags;
	le16 cid;
	le32 nsid; /* Fabrics commands: byte 4 is FCTYPE, the rest reserved */
	le32 cdw2;
	le32 cdw3;
	le64 mptr;
	struct nvme_sgl dptr;
	le32 cdw10;
	le32 cdw11;
	le32 cdw12;
	le32 cdw13;
	le32 cdw14;
	le32 cdw15;
};

struct nvme_cqe {
	le64 result; /* dwords 0 and 1 */
	le16 sqhd;
	le16 sqid;
	le16 cid;
	le16 status; /* bit 0 is the phase tag, reserved over fabrics */
};

_Static_assert(sizeof(struct nvme_sgl) == 16, "SGL descriptor");
_Static_assert(sizeof(struct nvme_sgl_keyed) == 16, "keyed SGL descriptor");
_Static_assert(offsetof(struct nvme_sgl_keyed, length) == 8, "24-bit length");
_Static_assert(offsetof(struct nvme_sgl_keyed, key) == 11, "key follows 24-bit length");
_Static_assert(offsetof(struct nvme_sgl_keyed, type) == 15, "type is the last byte");
_Static_assert(sizeof(struct nvme_sgl_desc) == 16, "SGL descriptor");
_Static_assert(offsetof(struct nvme_sgl_desc, type) == 15, "type is the last byte");
_Static_assert(sizeof(struct nvme_sqe) == 64, "submission queue entry");
_Static_assert(offsetof(struct nvme_sqe, cid) == 2, "CID");
_Static_assert(offsetof(struct nvme_sqe, nsid) == 4, "NSID");
_Static_assert(offsetof(struct nvme_sqe, mptr) == 16, "MPTR");
_Static_assert(offsetof(struct nvme_sqe, dptr) == 24, "SGL1");
_Static_assert(offsetof(struct nvme_sqe, cdw10) == 40, "CDW10");
_Static_assert(offsetof(struct nvme_sqe, cdw15) == 60, "CDW15");
_Static_assert(sizeof(struct nvme_cqe) == 16, "completion queue entry");
_Static_assert(offsetof(struct nvme_cqe, sqhd) == 8, "SQHD");
_Static_assert(offsetof(struct nvme_cqe, cid) == 12, "CID");
_Static_assert(offsetof(struct nvme_cqe, status) == 14, "status");

static inline struct nvme_sgl nvme_sgl_of_desc(uint64_t addr, uint32_t length, uint8_t type)
{
	struct nvme_sgl_desc desc = {
		.addr = to_le64(addr), .length = to_le32(length), .type = type
	};
	struct nvme_sgl sgl;

	memcpy(&sgl, &desc, sizeof(sgl));
	return sgl;
}

/* length is 24 bits: at most NVME_KEYED_MAX_BYTES, which the caller's transfer limit guarantees. */
static inline struct nvme_sgl nvme_sgl_keyed(uint64_t addr, uint32_t length, uint32_t key)
{
	struct nvme_sgl_keyed keyed = {
		.addr = to_le64(addr),
		.length = to_le24(length),
		.key = to_le32(key),
		.type = NVME_SGL_KEYED,
	};
	struct nvme_sgl sgl;

	memcpy(&sgl, &keyed, sizeof(sgl));
	return sgl;
}

/* In-capsule data; offset counts from the start of the in-capsule area. */
static inline struct nvme_sgl nvme_sgl_icd(uint64_t offset, uint32_t length)
{
	return nvme_sgl_of_desc(offset, length, NVME_SGL_DATA_OFFSET);
}

/* A list of length / 16 descriptors inside the capsule. */
static inline struct nvme_sgl nvme_sgl_last_seg(uint64_t offset, uint32_t length)
{
	return nvme_sgl_of_desc(offset, length, NVME_SGL_LAST_SEGMENT_OFFSET);
}

static inline uint8_t nvme_sgl_type(const struct nvme_sgl *sgl)
{
	return sgl->b[15];
}

static inline struct nvme_sgl_keyed nvme_sgl_as_keyed(const struct nvme_sgl *sgl)
{
	struct nvme_sgl_keyed keyed;

	memcpy(&keyed, sgl, sizeof(keyed));
	return keyed;
}

static inline struct nvme_sgl_desc nvme_sgl_as_desc(const struct nvme_sgl *sgl)
{
	struct nvme_sgl_desc desc;

	memcpy(&desc, sgl, sizeof(desc));
	return desc;
}

/*
 * An SQE with no data. Its descriptor is a keyed one of length zero, because targets check the type
 * also where nothing is transferred. Every builder of the wire floor starts here; the CID is the
 * queue's to fill in, dptr the caller's where data moves.
 */
static inline void nvme_sqe_init(struct nvme_sqe *sqe, uint8_t opcode)
{
	*sqe = (struct nvme_sqe){
		.opcode = opcode,
		.flags = NVME_FLAGS_PSDT_SGL,
		.dptr = nvme_sgl_keyed(0, 0, 0),
	};
}

#endif
