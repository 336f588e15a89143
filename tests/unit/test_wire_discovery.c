/* SPDX-License-Identifier: BSD-3-Clause */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "base/err.h"
#include "base/util.h"
#include "repeat.h"
#include "wire/discovery.h"

static uint8_t bytes[1024];

Test(wire_discovery, header)
{
	struct discovery_header got;

	memcpy(bytes, (uint8_t[]){ 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 0, 0, 0, 1 }, 14);
	cr_assert_eq(nvme_parse_discovery_header(bytes, sizeof(bytes), &got), 0, "parsed");
	cr_expect_eq(got.genctr, 0x0807060504030201, "GENCTR");
	cr_expect_eq(got.numrec, UINT64_C(9) + (UINT64_C(1) << 40), "NUMREC as the peer says it");
	cr_expect_eq(nvme_parse_discovery_header(bytes, 1023, &got), -EPROTO, "short");
	bytes[16] = 1;
	cr_expect_eq(nvme_parse_discovery_header(bytes, sizeof(bytes), &got), -EOPNOTSUPP,
		     "C23: RECFMT 1");
}

/* RDMA, IPv4, NVM subsystem */
static void fill(const char *traddr, const char *trsvcid, const char *subnqn)
{
	bytes[0] = 1;
	bytes[1] = 1;
	bytes[2] = 2;
	memcpy(bytes + 512, traddr, strlen(traddr));
	memcpy(bytes + 32, trsvcid, strlen(trsvcid));
	memcpy(bytes + 256, subnqn, strlen(subnqn));
}

Test(wire_discovery, fields)
{
	struct discovery_record got;

	fill("10.0.0.1", "4420", "nqn.a");
	memcpy(bytes, (uint8_t[]){ 1, 2, 3, 4, 2, 1, 0xff, 0xff, 32, 0, 3, 0 }, 12);
	cr_assert_eq(nvme_parse_discovery_record(bytes, sizeof(bytes), &got), 0, "parsed");
	cr_expect_eq(got.trtype, NVME_TRTYPE_RDMA, "TRTYPE");
	cr_expect_eq(got.adrfam, NVME_ADRFAM_IPV6, "ADRFAM");
	cr_expect_eq(got.subtype, NVME_DISC_CURRENT, "SUBTYPE");
	cr_expect_eq(got.treq, 4, "TREQ");
	cr_expect_eq(got.portid, 0x0102, "PORTID");
	cr_expect_eq(got.cntlid, 0xffff, "CNTLID");
	cr_expect_eq(got.asqsz, 32, "ASQSZ");
	cr_expect_eq(got.eflags, 3, "EFLAGS");
}

/* C24 */
struct text_case {
	char name[40];
	char traddr[260], trsvcid[36], subnqn[260];
	int want_err;
	char want_traddr[260], want_trsvcid[36], want_subnqn[260];
};

ParameterizedTestParameters(wire_discovery, texts)
{
	static struct text_case cases[] = {
		{ "NUL padded", "10.0.0.1", "4420", "nqn.a", 0, "10.0.0.1", "4420", "nqn.a" },
		{ "blank padded", "10.0.0.1                ", "4420                            ",
		  "nqn.a   ", 0, "10.0.0.1", "4420", "nqn.a" },
		{ "one trailing blank", "10.0.0.1 ", "4420 ", "nqn.a ", 0, "10.0.0.1", "4420",
		  "nqn.a" },
		{ "leading blank", " 10.0.0.1", " 4420", "nqn.a", 0, "10.0.0.1", "4420", "nqn.a" },
		{ "upper case stays", "FE80::1", "4420", "NQN.A", 0, "FE80::1", "4420", "NQN.A" },
		{ "IPv6 with scope", "fe80::1%eth0", "4420", "nqn.a", 0, "fe80::1%eth0", "4420",
		  "nqn.a" },
		{ "every field full", REPEAT_256("a"), REPEAT_32("1"),
		  REPEAT_223("n"), 0, REPEAT_256("a"), REPEAT_32("1"),
		  REPEAT_223("n") },
		{ "unterminated SUBNQN", "10.0.0.1", "4420", REPEAT_256("n"), -EPROTO, "", "",
		  "" },
		{ "SUBNQN of 224", "10.0.0.1", "4420", REPEAT_224("n"), -EPROTO, "", "", "" },
		{ "SUBNQN of 223 and blanks", "10.0.0.1", "4420",
		  REPEAT_223("n") REPEAT_32(" ") " ", 0, "10.0.0.1", "4420",
		  REPEAT_223("n") },
		{ "no SUBNQN", "10.0.0.1", "4420", "", -EPROTO, "", "", "" },
		{ "SUBNQN of blanks", "10.0.0.1", "4420", "    ", -EPROTO, "", "", "" },
		{ "SUBNQN with a blank inside", "10.0.0.1", "4420", "nqn a", -EPROTO, "", "", "" },
		{ "SUBNQN with a newline", "10.0.0.1", "4420", "nqn\na", -EPROTO, "", "", "" },
		{ "no TRADDR", "", "4420", "nqn.a", -EPROTO, "", "", "" },
		{ "TRADDR of blanks", "   ", "4420", "nqn.a", -EPROTO, "", "", "" },
		{ "control character in TRADDR", "10.0\x1b[2J", "4420", "nqn.a", -EPROTO, "", "",
		  "" },
		{ "control character in TRSVCID", "10.0.0.1", "44\x01", "nqn.a", -EPROTO, "", "",
		  "" },
		{ "no TRSVCID", "10.0.0.1", "", "nqn.a", 0, "10.0.0.1", "", "nqn.a" },
	};
	return cr_make_param_array(struct text_case, cases, ARRAY_SIZE(cases));
}

ParameterizedTest(struct text_case *c, wire_discovery, texts)
{
	struct discovery_record got;

	fill(c->traddr, c->trsvcid, c->subnqn);
	cr_assert_eq(nvme_parse_discovery_record(bytes, sizeof(bytes), &got), c->want_err,
		     "%s: \"%s\"", c->name, nvmfr__err_get());
	if (c->want_err) {
		cr_expect_neq(nvmfr__err_get()[0], '\0', "%s: says why", c->name);
		return;
	}
	cr_expect_str_eq(got.traddr, c->want_traddr, "%s", c->name);
	cr_expect_str_eq(got.trsvcid, c->want_trsvcid, "%s", c->name);
	cr_expect_str_eq(got.subnqn, c->want_subnqn, "%s", c->name);
}

struct kind_case {
	char name[32];
	uint8_t trtype, adrfam, subtype;
	int want;
};

ParameterizedTestParameters(wire_discovery, kinds)
{
	static struct kind_case cases[] = {
		{ "RDMA, IPv4", 1, 1, 2, 0 },
		{ "TCP, IPv6", 3, 2, 2, 0 },
		{ "FC", 2, 4, 2, 0 },
		{ "loop", 254, 254, 2, 0 },
		{ "referral", 1, 1, 1, 0 },
		{ "unknown transport 0", 0, 1, 2, -EOPNOTSUPP },
		{ "unknown transport 4", 4, 1, 2, -EOPNOTSUPP },
		{ "unknown transport 255", 255, 1, 2, -EOPNOTSUPP },
		{ "unknown address family", 1, 5, 2, -EOPNOTSUPP },
		{ "unknown subsystem type 0", 1, 1, 0, -EOPNOTSUPP },
		{ "unknown subsystem type 4", 1, 1, 4, -EOPNOTSUPP },
	};
	return cr_make_param_array(struct kind_case, cases, ARRAY_SIZE(cases));
}

ParameterizedTest(struct kind_case *c, wire_discovery, kinds)
{
	struct discovery_record got;

	fill("10.0.0.1", "4420", "nqn.a");
	bytes[0] = c->trtype;
	bytes[1] = c->adrfam;
	bytes[2] = c->subtype;
	cr_expect_eq(nvme_parse_discovery_record(bytes, sizeof(bytes), &got), c->want, "%s",
		     c->name);
}

Test(wire_discovery, an_entry_cut_short)
{
	struct discovery_record got;

	fill("10.0.0.1", "4420", "nqn.a");
	cr_expect_eq(nvme_parse_discovery_record(bytes, 1023, &got), -EPROTO, "one byte less");
	cr_expect_eq(nvme_parse_discovery_record(bytes, 0, &got), -EPROTO, "nothing");
}

Test(wire_discovery, loop_needs_no_address)
{
	struct discovery_record got;

	fill("", "", "nqn.a");
	bytes[0] = 254;
	cr_expect_eq(nvme_parse_discovery_record(bytes, sizeof(bytes), &got), 0, "loop");
}
