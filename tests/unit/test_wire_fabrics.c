/* SPDX-License-Identifier: BSD-3-Clause */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "base/err.h"
#include "base/util.h"
#include "repeat.h"
#include "wire/fabrics.h"

struct connect_case {
	char name[32];
	uint16_t qid, sqsize;
	uint8_t cattr;
	uint32_t kato_ms;
	uint8_t want[64];
};

/* NVMe over Fabrics, Connect: QID 43:42, SQSIZE 45:44, CATTR 46, KATO 51:48. */
ParameterizedTestParameters(wire_fabrics, connect_bytes)
{
	/* clang-format off */
	static struct connect_case cases[] = {
		{ "admin", 0, 31, 0, 15000,
		  { 0x7f, 0x40, 0, 0, 0x01, [39] = 0x40, [44] = 31, [48] = 0x98, 0x3a } },
		{ "I/O, no KATO", 0x0102, 0x0304, NVME_CATTR_NO_SQ_FLOW_CONTROL, 15000,
		  { 0x7f, 0x40, 0, 0, 0x01, [39] = 0x40, [42] = 2, 1, 4, 3, 4 } },
		{ "KATO is 32 bits", 0, 0, 0, 0x04030201,
		  { 0x7f, 0x40, 0, 0, 0x01, [39] = 0x40, [48] = 1, 2, 3, 4 } },
	};
	/* clang-format on */
	return cr_make_param_array(struct connect_case, cases, ARRAY_SIZE(cases));
}

ParameterizedTest(struct connect_case *c, wire_fabrics, connect_bytes)
{
	struct nvme_sqe sqe;

	nvme_sqe_connect(&sqe, c->qid, c->sqsize, c->cattr, c->kato_ms);
	cr_expect_arr_eq(&sqe, c->want, sizeof(sqe), "%s", c->name);
	cr_expect_eq(nvme_sqe_fctype(&sqe), NVME_FCTYPE_CONNECT, "%s", c->name);
}

struct property_case {
	char name[32];
	bool set, eight_bytes;
	uint32_t offset;
	uint64_t value;
	uint8_t want[64];
};

ParameterizedTestParameters(wire_fabrics, property_bytes)
{
	/* clang-format off */
	static struct property_case cases[] = {
		{ "get CAP", false, true, NVME_PROP_CAP, 0,
		  { 0x7f, 0x40, 0, 0, 0x04, [39] = 0x40, 0x01 } },
		{ "get VS", false, false, NVME_PROP_VS, 0,
		  { 0x7f, 0x40, 0, 0, 0x04, [39] = 0x40, [44] = 0x08 } },
		{ "get CSTS", false, false, NVME_PROP_CSTS, 0,
		  { 0x7f, 0x40, 0, 0, 0x04, [39] = 0x40, [44] = 0x1c } },
		{ "set CC", true, false, NVME_PROP_CC, 0x00460001,
		  { 0x7f, 0x40, 0, 0, 0x00, [39] = 0x40, [44] = 0x14, [48] = 1, 0, 0x46 } },
		{ "set 4 bytes drops the rest", true, false, 0x1000, 0x0807060504030201,
		  { 0x7f, 0x40, [39] = 0x40, [45] = 0x10, [48] = 1, 2, 3, 4 } },
		{ "set 8 bytes", true, true, 0x1000, 0x0807060504030201,
		  { 0x7f, 0x40, [39] = 0x40, 1, [45] = 0x10, [48] = 1, 2, 3, 4, 5, 6, 7, 8 } },
	};
	/* clang-format on */
	return cr_make_param_array(struct property_case, cases, ARRAY_SIZE(cases));
}

ParameterizedTest(struct property_case *c, wire_fabrics, property_bytes)
{
	struct nvme_sqe sqe;

	if (c->set)
		nvme_sqe_property_set(&sqe, c->offset, c->eight_bytes, c->value);
	else
		nvme_sqe_property_get(&sqe, c->offset, c->eight_bytes);
	cr_expect_arr_eq(&sqe, c->want, sizeof(sqe), "%s", c->name);
}

Test(wire_fabrics, disconnect_bytes)
{
	const uint8_t want[64] = { 0x7f, 0x40, 0, 0, 0x08, [39] = 0x40 };
	struct nvme_sqe sqe;

	nvme_sqe_disconnect(&sqe);
	cr_expect_arr_eq(&sqe, want, sizeof(sqe), "disconnect");
}

Test(wire_fabrics, connect_response)
{
	cr_expect_eq(nvme_connect_cntlid(0x0000000200031234), 0x1234, "CNTLID");
	cr_expect_eq(nvme_connect_authreq(0x0000000200031234), 3, "AUTHREQ");
}

/* ---- Connect data; C25: every byte behind a name is zero ---- */

static const uint8_t hostid[16] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16 };

Test(wire_connect_data, bytes)
{
	uint8_t want[1024] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 0xff, 0xff };
	struct nvme_connect_data data;

	memcpy(want + 256, "nqn.a", 5);
	memcpy(want + 512, "nqn.host", 8);
	memset(&data, 0xaa, sizeof(data));
	cr_assert_eq(nvme_connect_data_init(&data, hostid, NVME_CNTLID_DYNAMIC, "nqn.a",
					    "nqn.host"),
		     0, "built");
	cr_expect_arr_eq(&data, want, sizeof(data), "zero padded");
}

Test(wire_connect_data, longest_names)
{
	char name[224];
	struct nvme_connect_data data;

	memset(name, 'x', 223);
	name[223] = '\0';
	cr_assert_eq(nvme_connect_data_init(&data, hostid, 1, name, name), 0, "built");
	cr_expect_eq(data.subnqn[222], 'x', "last byte");
	cr_expect_eq(data.subnqn[223], 0, "terminated");
	cr_expect_eq(data.hostnqn[222], 'x', "last byte");
	cr_expect_eq(data.hostnqn[223], 0, "terminated");
}

struct refused_case {
	char name[32];
	uint8_t first_id_byte;
	char subnqn[300], hostnqn[300];
	char want[32]; /* the sentence starts with it */
};

ParameterizedTestParameters(wire_connect_data, refused)
{
	/* clang-format off */
	static struct refused_case cases[] = {
		{ "host ID of zeros", 0, "nqn.a", "nqn.h", "hostid:" },
		{ "empty subsystem name", 1, "", "nqn.h", "subnqn:" },
		{ "empty host name", 1, "nqn.a", "", "hostnqn:" },
		{ "long subsystem name", 1, REPEAT_224("x"), "nqn.h", "subnqn:" },
		{ "long host name", 1, "nqn.a", REPEAT_224("x"), "hostnqn:" },
	};
	/* clang-format on */
	return cr_make_param_array(struct refused_case, cases, ARRAY_SIZE(cases));
}

ParameterizedTest(struct refused_case *c, wire_connect_data, refused)
{
	const uint8_t id[16] = { c->first_id_byte };
	struct nvme_connect_data data;
	int err = nvme_connect_data_init(&data, id, 1, c->subnqn, c->hostnqn);

	cr_expect_eq(err, -EINVAL, "%s", c->name);
	cr_expect_eq(strncmp(nvmfr__err_get(), c->want, strlen(c->want)), 0, "%s: \"%s\"", c->name,
		     nvmfr__err_get());
}

/* ---- CAP, CC ---- */

Test(wire_cap, fields)
{
	/* MPSMAX 4, MPSMIN 1, CSS 41h, DSTRD 5, TO 30, CQR 1, MQES 1023 */
	const uint64_t cap = UINT64_C(4) << 52 | UINT64_C(1) << 48 | UINT64_C(0x41) << 37 |
			     UINT64_C(5) << 32 | UINT64_C(30) << 24 | 1 << 16 | 1023;

	cr_expect_eq(nvme_cap_mqes(cap), 1023, "MQES");
	cr_expect(nvme_cap_cqr(cap), "CQR");
	cr_expect_eq(nvme_cap_to(cap), 30, "TO");
	cr_expect_eq(nvme_cap_timeout_ms(cap), 15000, "TO in ms");
	cr_expect_eq(nvme_cap_dstrd(cap), 5, "DSTRD");
	cr_expect_eq(nvme_cap_css(cap), 0x41, "CSS");
	cr_expect_eq(nvme_cap_mpsmin(cap), 1, "MPSMIN");
	cr_expect_eq(nvme_cap_mpsmax(cap), 4, "MPSMAX");
	cr_expect_eq(nvme_cap_timeout_ms(UINT64_MAX), 127500, "longest timeout");
	cr_expect_not(nvme_cap_cqr(~(UINT64_C(1) << 16)), "CQR is bit 16");
}

struct cc_case {
	char name[32];
	uint64_t css, mpsmin;
	uint32_t want;
};

/* CC: EN bit 0, CSS 6:4, MPS 10:7, IOSQES 19:16 (6), IOCQES 23:20 (4). */
ParameterizedTestParameters(wire_cc, enable)
{
	/* clang-format off */
	static struct cc_case cases[] = {
		{ "NVM", 0x01, 0, 0x00460001 },
		{ "NVM and all sets", 0x41, 0, 0x00460061 },
		{ "admin only", 0x80, 0, 0x00460071 },
		{ "admin only and NVM", 0x81, 0, 0x00460001 },
		{ "nothing named", 0x00, 0, 0x00460001 },
		{ "64 KiB pages", 0x01, 4, 0x00460201 },
		{ "largest pages", 0x01, 15, 0x00460781 },
	};
	/* clang-format on */
	return cr_make_param_array(struct cc_case, cases, ARRAY_SIZE(cases));
}

ParameterizedTest(struct cc_case *c, wire_cc, enable)
{
	cr_expect_eq(nvme_cc_enable(c->css << 37 | c->mpsmin << 48), c->want, "%s", c->name);
}

Test(wire_cc, constants)
{
	cr_expect_eq(NVME_CC_SHN_NORMAL, 0x4000, "SHN normal");
	cr_expect_eq(NVME_CC_SHN_ABRUPT, 0x8000, "SHN abrupt");
	cr_expect_eq(NVME_CSTS_RDY, 1, "RDY");
	cr_expect_eq(NVME_CSTS_CFS, 2, "CFS");
	cr_expect_eq(NVME_CSTS_SHST_COMPLETE, 8, "shutdown complete");
	cr_expect_eq(NVME_CSTS_SHST_MASK, 0xc, "SHST");
}
