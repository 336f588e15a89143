/* SPDX-License-Identifier: BSD-3-Clause */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "base/err.h"
#include "base/util.h"
#include "wire/limits.h"

#define MIB (UINT64_C(1) << 20)

struct xfer_case {
	char name[40];
	uint8_t mdts, mpsmin;
	uint64_t want;
};

ParameterizedTestParameters(wire_limits, max_xfer)
{
	static struct xfer_case cases[] = {
		{ "C6: MDTS 0 names none", 0, 0, MIB },
		{ "MDTS 0 whatever the page size", 0, 15, MIB },
		{ "C6: MDTS 5 is 128 KiB", 5, 0, 131072 },
		{ "MDTS 5 of 64 KiB pages", 5, 4, 2 * MIB },
		{ "MDTS 1", 1, 0, 8192 },
		{ "C7: MDTS 1 of 8 KiB pages", 1, 1, 16384 },
		{ "8 MiB fits 24 bits", 11, 0, 8 * MIB },
		{ "16 MiB does not", 12, 0, 8 * MIB },
		{ "2 GiB", 19, 0, 8 * MIB },
		{ "4 GiB names none", 20, 0, MIB },
		{ "C6: MDTS 31 names none", 31, 0, MIB },
		{ "shift beyond 64 bits", 255, 15, MIB },
		{ "shift of exactly 64", 52, 0, MIB },
	};
	return cr_make_param_array(struct xfer_case, cases, ARRAY_SIZE(cases));
}

ParameterizedTest(struct xfer_case *c, wire_limits, max_xfer)
{
	cr_expect_eq(nvme_max_xfer(c->mdts, c->mpsmin), c->want, "%s", c->name);
}

/* SGLS: 01b in bits 1:0, bit 2 keyed, bit 20 offset */
#define SGLS_KEYED_ONLY	  0x000005
#define SGLS_KEYED_OFFSET 0x100005

struct capsule_case {
	char name[40];
	uint32_t ioccsz, iorcsz, sgls;
	uint16_t icdoff;
	uint8_t msdbd;
	uint32_t own;
	int want_err;
	uint32_t want_icd, want_descriptors;
	char want_word[8];
};

ParameterizedTestParameters(wire_limits, capsules)
{
	static struct capsule_case cases[] = {
		{ "nvmet: 16 KiB in capsule", 1028, 1, SGLS_KEYED_OFFSET, 0, 1, 16, 0, 16384, 1,
		  "" },
		{ "C1: no in-capsule, one descriptor", 4, 1, SGLS_KEYED_ONLY, 0, 1, 16, 0, 0, 1,
		  "" },
		{ "C2: IOCCSZ 3", 3, 1, SGLS_KEYED_OFFSET, 0, 1, 16, -EPROTO, 0, 0, "IOCCSZ" },
		{ "C2: IOCCSZ 0", 0, 1, SGLS_KEYED_OFFSET, 0, 1, 16, -EPROTO, 0, 0, "IOCCSZ" },
		{ "C2: IORCSZ 0", 4, 0, SGLS_KEYED_OFFSET, 0, 1, 16, -EPROTO, 0, 0, "IORCSZ" },
		{ "C4: MSDBD 0 is our own limit", 1028, 1, SGLS_KEYED_OFFSET, 0, 0, 16, 0, 16384,
		  16, "" },
		{ "C4: MSDBD 0, own limit 1", 1028, 1, SGLS_KEYED_OFFSET, 0, 0, 1, 0, 16384, 1,
		  "" },
		{ "C4: MSDBD 0, no room for a list", 4, 1, SGLS_KEYED_ONLY, 0, 0, 16, 0, 0, 1, "" },
		{ "C5: ICDOFF 1 turns in-capsule off", 260, 1, SGLS_KEYED_OFFSET, 1, 1, 16, 0, 0, 1,
		  "" },
		{ "offset bit clear", 260, 1, SGLS_KEYED_ONLY, 0, 4, 16, 0, 0, 1, "" },
		{ "MSDBD below ours", 260, 1, SGLS_KEYED_OFFSET, 0, 4, 16, 0, 4096, 4, "" },
		{ "ours below MSDBD", 260, 1, SGLS_KEYED_OFFSET, 0, 16, 3, 0, 4096, 3, "" },
		{ "room for two descriptors", 6, 1, SGLS_KEYED_OFFSET, 0, 16, 16, 0, 32, 2, "" },
		{ "room for one in a list", 5, 1, SGLS_KEYED_OFFSET, 0, 16, 16, 0, 16, 1, "" },
		{ "IOCCSZ of all ones", 0xffffffff, 1, SGLS_KEYED_OFFSET, 0, 0, 16, 0, 1048576, 16,
		  "" },
		{ "IOCCSZ whose bytes need 33 bits", 0x10000005, 1, SGLS_KEYED_OFFSET, 0, 0, 16, 0,
		  1048576, 16, "" },
		{ "no SGLs", 260, 1, 0x100004, 0, 1, 16, -EOPNOTSUPP, 0, 0, "SGLS" },
		{ "no keyed SGLs", 260, 1, 0x100001, 0, 1, 16, -EOPNOTSUPP, 0, 0, "SGLS" },
		{ "SGLs with dword granularity", 260, 1, 0x100006, 0, 1, 16, 0, 4096, 1, "" },
	};
	return cr_make_param_array(struct capsule_case, cases, ARRAY_SIZE(cases));
}

ParameterizedTest(struct capsule_case *c, wire_limits, capsules)
{
	struct ctrl_data ctrl = {
		.ioccsz = c->ioccsz,
		.iorcsz = c->iorcsz,
		.sgls = c->sgls,
		.icdoff = c->icdoff,
		.msdbd = c->msdbd,
	};
	struct capsule_limits got = { 0 };

	cr_assert_eq(nvme_capsule_limits(&ctrl, c->own, &got), c->want_err, "%s", c->name);
	cr_expect_eq(got.icd_bytes, c->want_icd, "%s: in-capsule %u", c->name, got.icd_bytes);
	cr_expect_eq(got.max_descriptors, c->want_descriptors, "%s: descriptors %u", c->name,
		     got.max_descriptors);
	cr_expect_not_null(strstr(nvmfr__err_get(), c->want_word), "%s: \"%s\"", c->name,
			   nvmfr__err_get());
}

struct depth_case {
	char name[40];
	unsigned int wanted;
	uint16_t mqes, maxcmd;
	unsigned int want;
};

/* d commands in flight mean SQSIZE = d, 0's based, of d + 1 entries. */
ParameterizedTestParameters(wire_limits, depth)
{
	static struct depth_case cases[] = {
		{ "as wanted", 32, 127, 0, 32 },
		{ "C9: MAXCMD 16 of 128 entries", 128, 127, 16, 16 },
		{ "C9: MAXCMD 0 is ignored", 128, 1023, 0, 128 },
		{ "C10: one entry stays empty", 128, 127, 0, 127 },
		{ "two entries carry one", 8, 1, 0, 1 },
		{ "a queue of one entry carries none", 8, 0, 0, 0 },
		{ "largest MQES", 65535, 65535, 65535, 4095 },
		{ "none wanted", 0, 127, 16, 0 },
		{ "MAXCMD above", 32, 127, 64, 32 },
	};
	return cr_make_param_array(struct depth_case, cases, ARRAY_SIZE(cases));
}

ParameterizedTest(struct depth_case *c, wire_limits, depth)
{
	cr_expect_eq(nvme_clamp_depth(c->wanted, c->mqes, c->maxcmd), c->want, "%s", c->name);
}
