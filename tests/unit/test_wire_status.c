/* SPDX-License-Identifier: BSD-3-Clause */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdint.h>
#include <string.h>

#include "base/util.h"
#include "wire/status.h"

struct name_case {
	uint16_t status;
	char want[64];
};

ParameterizedTestParameters(wire_status, names)
{
	static struct name_case cases[] = {
		{ 0x0000, "success" },
		{ 0x0001, "invalid command opcode" },
		{ 0x0002, "invalid field in command" },
		{ 0x0080, "LBA out of range" },
		{ 0x0109, "invalid log page" },
		{ 0x0182, "Connect: invalid parameters" },
		{ 0x0184, "Connect: invalid host" },
		{ 0x0191, "authentication required" },
		{ 0x0281, "unrecovered read error" },
		{ 0x0302, "asymmetric access inaccessible" },
		{ 0x4002, "invalid field in command" },
		{ 0x7802, "invalid field in command" },
		{ 0x00ff, "unknown generic status" },
		{ 0x01ff, "unknown command specific status" },
		{ 0x02ff, "unknown media or data integrity status" },
		{ 0x03ff, "unknown path status" },
		{ 0x0400, "unknown status type 4h" },
		{ 0x0701, "vendor specific status" },
	};
	return cr_make_param_array(struct name_case, cases, ARRAY_SIZE(cases));
}

ParameterizedTest(struct name_case *c, wire_status, names)
{
	const char *got = nvme_status_name(c->status);

	cr_expect_eq(strncmp(got, c->want, strlen(c->want)), 0, "0x%04x is \"%s\"", c->status, got);
}

Test(wire_status, every_status_has_a_name)
{
	for (uint32_t status = 0; status <= UINT16_MAX; status++) {
		const char *name = nvme_status_name((uint16_t)status);

		cr_assert_not_null(name, "0x%04x", status);
		cr_assert_neq(name[0], '\0', "0x%04x", status);
	}
}

/* CQE dword 3: phase 16, SC 24:17, SCT 27:25, CRD 29:28, M 30, DNR 31. */
Test(wire_status, fields_of_a_cqe)
{
	const struct nvme_cqe cqe = { .status = { { 0x05, 0xa3 } } };
	uint16_t status = nvme_cqe_status(&cqe);

	cr_expect_eq(status, 0x5182, "phase is gone");
	cr_expect_eq(nvme_status_code(status), NVME_ST_CONNECT_INVALID_PARAM, "SCT and SC");
	cr_expect_eq(nvme_status_crd(status), 2, "CRD");
	cr_expect_not(nvme_status_more(status), "M");
	cr_expect(nvme_status_dnr(status), "DNR");
	cr_expect_eq(nvme_status_crd(0x1800), 3, "CRD is bits 12:11");
	cr_expect(nvme_status_more(0x2000), "M is bit 13");
	cr_expect_not(nvme_status_dnr(0xbfff), "DNR is bit 14");
	cr_expect_eq(NVME_STATUS(NVME_SCT_PATH, 2), NVME_ST_ANA_INACCESSIBLE, "put together");
}
