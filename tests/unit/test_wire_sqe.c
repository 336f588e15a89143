/* SPDX-License-Identifier: BSD-3-Clause */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdint.h>
#include <string.h>

#include "base/util.h"
#include "wire/bytes.h"
#include "wire/sqe.h"

Test(wire_bytes, least_significant_byte_first)
{
	le16 a = to_le16(0x0201);
	le24 b = to_le24(0xff030201);
	le32 c = to_le32(0x04030201);
	le64 d = to_le64(0x0807060504030201);
	const uint8_t want[] = { 1, 2, 3, 4, 5, 6, 7, 8 };

	cr_expect_arr_eq(a.b, want, 2, "16 bits");
	cr_expect_arr_eq(b.b, want, 3, "24 bits, the rest dropped");
	cr_expect_arr_eq(c.b, want, 4, "32 bits");
	cr_expect_arr_eq(d.b, want, 8, "64 bits");
}

Test(wire_bytes, and_back)
{
	cr_expect_eq(from_le16((le16){ { 0xfe, 0xff } }), 0xfffe, "16 bits");
	cr_expect_eq(from_le24((le24){ { 0xfd, 0xfe, 0xff } }), 0xfffefd, "24 bits");
	cr_expect_eq(from_le32((le32){ { 0xfc, 0xfd, 0xfe, 0xff } }), 0xfffefdfc, "32 bits");
	cr_expect_eq(from_le64((le64){ { 1, 2, 3, 4, 5, 6, 7, 0x88 } }), 0x8807060504030201,
		     "64 bits");
}

/* ---- SGL descriptors: NVMe Base, SGL Descriptor Format ---- */

enum sgl_kind { KEYED,
		ICD,
		LAST_SEGMENT };

struct sgl_case {
	char name[40];
	enum sgl_kind kind;
	uint64_t addr;
	uint32_t length, key;
	uint8_t want[16];
};

ParameterizedTestParameters(wire_sgl, bytes)
{
	/* clang-format off */
	static struct sgl_case cases[] = {
		{ "keyed zero", KEYED, 0, 0, 0, { [15] = 0x40 } },
		{ "keyed address", KEYED, 0x8877665544332211, 0, 0,
		  { 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, [15] = 0x40 } },
		{ "keyed length is 24 bits", KEYED, 0, 0xffffff, 0,
		  { [8] = 0xff, 0xff, 0xff, [15] = 0x40 } },
		{ "keyed key is unaligned", KEYED, 0, 0, 0x04030201, { [11] = 1, 2, 3, 4, 0x40 } },
		{ "keyed 4 KiB", KEYED, 0x1000, 4096, 0xaabbccdd,
		  { [1] = 0x10, [9] = 0x10, [11] = 0xdd, 0xcc, 0xbb, 0xaa, 0x40 } },
		{ "in-capsule data", ICD, 0x40, 0x2000, 0, { 0x40, [9] = 0x20, [15] = 0x01 } },
		{ "in-capsule length is 32 bits", ICD, 0, 0x04030201, 0,
		  { [8] = 1, 2, 3, 4, [15] = 0x01 } },
		{ "last segment of two", LAST_SEGMENT, 0, 32, 0, { [8] = 32, [15] = 0x31 } },
	};
	/* clang-format on */
	return cr_make_param_array(struct sgl_case, cases, ARRAY_SIZE(cases));
}

static struct nvme_sgl build_sgl(const struct sgl_case *c)
{
	switch (c->kind) {
	case ICD:
		return nvme_sgl_icd(c->addr, c->length);
	case LAST_SEGMENT:
		return nvme_sgl_last_seg(c->addr, c->length);
	case KEYED:
		break;
	}
	return nvme_sgl_keyed(c->addr, c->length, c->key);
}

ParameterizedTest(struct sgl_case *c, wire_sgl, bytes)
{
	struct nvme_sgl got = build_sgl(c);

	cr_expect_arr_eq(&got, c->want, sizeof(got), "%s", c->name);
	cr_expect_eq(nvme_sgl_type(&got), c->want[15], "%s: type", c->name);
}

Test(wire_sgl, read_back)
{
	const struct nvme_sgl keyed = { { 8, 7, 6, 5, 4, 3, 2, 1, 3, 2, 1, 4, 3, 2, 1, 0x40 } };
	const struct nvme_sgl desc = { { 8, 7, 6, 5, 4, 3, 2, 1, 4, 3, 2, 1, 0, 0, 0, 0x31 } };
	struct nvme_sgl_keyed k = nvme_sgl_as_keyed(&keyed);
	struct nvme_sgl_desc d = nvme_sgl_as_desc(&desc);

	cr_expect_eq(from_le64(k.addr), 0x0102030405060708, "keyed address");
	cr_expect_eq(from_le24(k.length), 0x010203, "keyed length");
	cr_expect_eq(from_le32(k.key), 0x01020304, "keyed key");
	cr_expect_eq(from_le64(d.addr), 0x0102030405060708, "address");
	cr_expect_eq(from_le32(d.length), 0x01020304, "length");
	cr_expect_eq(d.type, 0x31, "type");
}

/* ---- entries ---- */

Test(wire_sqe, init_has_sgl_flag_and_a_null_keyed_descriptor)
{
	const uint8_t want[64] = { 0x02, 0x40, [39] = 0x40 };
	struct nvme_sqe sqe;

	memset(&sqe, 0xff, sizeof(sqe));
	nvme_sqe_init(&sqe, NVME_IO_READ);
	cr_expect_arr_eq(&sqe, want, sizeof(sqe), "read");
}

Test(wire_sqe, a_whole_read)
{
	/* Read of 8 blocks at LBA 0x123456789a of namespace 0x01020304, FUA. */
	const uint8_t want[64] = {
		0x02,
		0x40,
		0xcd,
		0xab,
		4,
		3,
		2,
		1,
		[24] = 0x00,
		0x10,
		[33] = 0x10,
		[35] = 0x78,
		0x56,
		0x34,
		0x12,
		0x40,
		0x9a,
		0x78,
		0x56,
		0x34,
		0x12,
		[48] = 7,
		0,
		0,
		0x40,
	};
	struct nvme_sqe sqe;

	nvme_sqe_init(&sqe, NVME_IO_READ);
	sqe.cid = to_le16(0xabcd);
	sqe.nsid = to_le32(0x01020304);
	sqe.dptr = nvme_sgl_keyed(0x1000, 4096, 0x12345678);
	sqe.cdw10 = to_le32(0x3456789a);
	sqe.cdw11 = to_le32(0x12);
	sqe.cdw12 = to_le32(7 | NVME_RW_FUA);
	cr_expect_arr_eq(&sqe, want, sizeof(sqe), "read");
}

struct value_case {
	char name[32];
	unsigned int got, want;
};

ParameterizedTestParameters(wire_sqe, values)
{
	/* clang-format off */
	static struct value_case cases[] = {
		{ "flush", NVME_IO_FLUSH, 0x00 },
		{ "write", NVME_IO_WRITE, 0x01 },
		{ "read", NVME_IO_READ, 0x02 },
		{ "compare", NVME_IO_COMPARE, 0x05 },
		{ "write zeroes", NVME_IO_WRITE_ZEROES, 0x08 },
		{ "dataset management", NVME_IO_DSM, 0x09 },
		{ "get log page", NVME_ADMIN_GET_LOG_PAGE, 0x02 },
		{ "identify", NVME_ADMIN_IDENTIFY, 0x06 },
		{ "abort", NVME_ADMIN_ABORT, 0x08 },
		{ "set features", NVME_ADMIN_SET_FEATURES, 0x09 },
		{ "get features", NVME_ADMIN_GET_FEATURES, 0x0a },
		{ "async event request", NVME_ADMIN_ASYNC_EVENT_REQUEST, 0x0c },
		{ "keep alive", NVME_ADMIN_KEEP_ALIVE, 0x18 },
		{ "fabrics", NVME_FABRICS_OPCODE, 0x7f },
		{ "limited retry is bit 31", NVME_RW_LIMITED_RETRY, 0x80000000 },
		{ "FUA is bit 30", NVME_RW_FUA, 0x40000000 },
		{ "PRACT is bit 29", NVME_RW_PRACT, 0x20000000 },
		{ "DEAC is bit 25", NVME_RW_DEAC, 0x02000000 },
	};
	/* clang-format on */
	return cr_make_param_array(struct value_case, cases, ARRAY_SIZE(cases));
}

ParameterizedTest(struct value_case *c, wire_sqe, values)
{
	cr_expect_eq(c->got, c->want, "%s", c->name);
}

Test(wire_cqe, fields)
{
	const uint8_t bytes[16] = { 8, 7, 6, 5, 4, 3, 2, 1, 0x22, 0x11, 0x44, 0x33,
				    0x66, 0x55, 0x88, 0x77 };
	struct nvme_cqe cqe;

	memcpy(&cqe, bytes, sizeof(cqe));
	cr_expect_eq(from_le64(cqe.result), 0x0102030405060708, "result");
	cr_expect_eq(from_le16(cqe.sqhd), 0x1122, "SQHD");
	cr_expect_eq(from_le16(cqe.sqid), 0x3344, "SQID");
	cr_expect_eq(from_le16(cqe.cid), 0x5566, "CID");
	cr_expect_eq(from_le16(cqe.status), 0x7788, "status");
}
