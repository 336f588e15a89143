/* SPDX-License-Identifier: BSD-3-Clause */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/util.h"
#include "wire/identify.h"

/* Offsets below are those of the specification, on purpose not offsetof(). */
static void put(uint8_t *page, size_t offset, uint64_t value, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		page[offset + i] = (uint8_t)(value >> (8 * i));
}

static void put_text(uint8_t *page, size_t offset, const char *text)
{
	memcpy(page + offset, text, strlen(text));
}

/* ---- Identify Controller ---- */

static uint8_t page[4096];

Test(wire_id_ctrl, identity_and_admin_fields)
{
	struct ctrl_data got;

	put(page, 0, 0x1b36, 2);
	put(page, 2, 0x1af4, 2);
	put(page, 76, 0x0a, 1);
	put(page, 77, 5, 1);
	put(page, 78, 0x1234, 2);
	put(page, 80, 0x00010400, 4);
	put(page, 92, 0x80000900, 4);
	put(page, 96, 0x41, 4);
	put(page, 111, 1, 1);
	put(page, 128, 100, 2);
	put(page, 130, 200, 2);
	put(page, 132, 300, 2);
	put(page, 256, 0x0102, 2);
	put(page, 258, 3, 1);
	put(page, 259, 7, 1);
	put(page, 261, 4, 1);
	put(page, 262, 127, 1);
	put(page, 320, 10, 2);
	put(page, 342, 12, 1);
	put(page, 343, 0x1f, 1);
	put(page, 344, 0x01020304, 4);
	put(page, 348, 0x05060708, 4);
	put(page, 386, 0x0201, 2);
	cr_assert_eq(nvme_parse_ctrl(page, &got), 0, "%s", nvmfr__err_get());

	cr_expect_eq(got.vid, 0x1b36, "VID");
	cr_expect_eq(got.ssvid, 0x1af4, "SSVID");
	cr_expect_eq(got.cmic, 0x0a, "CMIC");
	cr_expect_eq(got.mdts, 5, "MDTS");
	cr_expect_eq(got.cntlid, 0x1234, "CNTLID");
	cr_expect_eq(got.ver, 0x00010400, "VER");
	cr_expect_eq(got.oaes, 0x80000900, "OAES");
	cr_expect_eq(got.ctratt, 0x41, "CTRATT");
	cr_expect_eq(got.cntrltype, NVME_CNTRLTYPE_IO, "CNTRLTYPE");
	cr_expect_eq(got.crdt[0], 100, "CRDT1");
	cr_expect_eq(got.crdt[1], 200, "CRDT2");
	cr_expect_eq(got.crdt[2], 300, "CRDT3");
	cr_expect_eq(got.oacs, 0x0102, "OACS");
	cr_expect_eq(got.acl, 3, "ACL");
	cr_expect_eq(got.aerl, 7, "AERL");
	cr_expect_eq(got.lpa, 4, "LPA");
	cr_expect_eq(got.elpe, 127, "ELPE");
	cr_expect_eq(got.kas, 10, "KAS");
	cr_expect_eq(got.anatt, 12, "ANATT");
	cr_expect_eq(got.anacap, 0x1f, "ANACAP");
	cr_expect_eq(got.anagrpmax, 0x01020304, "ANAGRPMAX");
	cr_expect_eq(got.nanagrpid, 0x05060708, "NANAGRPID");
	cr_expect_eq(got.cqt, 0x0201, "CQT");
}

Test(wire_id_ctrl, io_and_fabrics_fields)
{
	struct ctrl_data got;

	put(page, 512, 0x66, 1);
	put(page, 513, 0x44, 1);
	put(page, 514, 16, 2);
	put(page, 516, 1024, 4);
	put(page, 520, 0x000c, 2);
	put(page, 522, 1, 2);
	put(page, 524, 2, 1);
	put(page, 525, 7, 1);
	put(page, 526, 0x0102, 2);
	put(page, 528, 0x0304, 2);
	put(page, 532, 0x0506, 2);
	put(page, 536, 0x00100005, 4);
	put(page, 540, 0x0708090a, 4);
	put(page, 1792, 260, 4);
	put(page, 1796, 1, 4);
	put(page, 1800, 0x0b0c, 2);
	put(page, 1802, 1, 1);
	put(page, 1803, 16, 1);
	put(page, 1804, 1, 2);
	cr_assert_eq(nvme_parse_ctrl(page, &got), 0, "%s", nvmfr__err_get());

	cr_expect_eq(got.maxcmd, 16, "MAXCMD");
	cr_expect_eq(got.nn, 1024, "NN");
	cr_expect_eq(got.oncs, NVME_ONCS_DSM | NVME_ONCS_WRITE_ZEROES, "ONCS");
	cr_expect_eq(got.fuses, 1, "FUSES");
	cr_expect_eq(got.fna, 2, "FNA");
	cr_expect_eq(got.vwc, 7, "VWC");
	cr_expect_eq(got.awun, 0x0102, "AWUN");
	cr_expect_eq(got.awupf, 0x0304, "AWUPF");
	cr_expect_eq(got.acwu, 0x0506, "ACWU");
	cr_expect_eq(got.sgls, 0x00100005, "SGLS");
	cr_expect_eq(got.mnan, 0x0708090a, "MNAN");
	cr_expect_eq(got.ioccsz, 260, "IOCCSZ");
	cr_expect_eq(got.iorcsz, 1, "IORCSZ");
	cr_expect_eq(got.icdoff, 0x0b0c, "ICDOFF");
	cr_expect_eq(got.fcatt, 1, "FCATT");
	cr_expect_eq(got.msdbd, 16, "MSDBD");
	cr_expect_eq(got.ofcs, NVME_OFCS_DISCONNECT, "OFCS");
}

Test(wire_id_ctrl, strings)
{
	struct ctrl_data got;

	put_text(page, 4, "  SN-1 \x07 x          ");
	put_text(page, 24, "Linux                                   ");
	put_text(page, 64, "6.1.0-99");
	put_text(page, 768, "nqn.2014-08.org.example:a");
	cr_assert_eq(nvme_parse_ctrl(page, &got), 0, "%s", nvmfr__err_get());
	cr_expect_str_eq(got.sn, "SN-1 ? x", "blanks around go, a control character is replaced");
	cr_expect_str_eq(got.mn, "Linux", "blank padded");
	cr_expect_str_eq(got.fr, "6.1.0-99", "fills its field");
	cr_expect_str_eq(got.subnqn, "nqn.2014-08.org.example:a", "NUL padded");
}

Test(wire_id_ctrl, unterminated_strings_end_with_their_field)
{
	struct ctrl_data got;

	memset(page + 4, 'x', 68);
	memset(page + 768, 'y', 256);
	page[1024] = 'z';
	cr_assert_eq(nvme_parse_ctrl(page, &got), 0, "%s", nvmfr__err_get());
	cr_expect_eq(strlen(got.sn), 20, "SN");
	cr_expect_eq(strlen(got.mn), 40, "MN");
	cr_expect_eq(strlen(got.fr), 8, "FR");
	cr_expect_eq(strlen(got.subnqn), 256, "SUBNQN");
}

struct sizes_case {
	char name[32];
	uint8_t sqes, cqes;
	int want;
};

ParameterizedTestParameters(wire_id_ctrl, entry_sizes)
{
	/* clang-format off */
	static struct sizes_case cases[] = {
		{ "usual", 0x66, 0x44, 0 },
		{ "discovery controller", 0, 0, 0 },
		{ "wider range", 0x75, 0x53, 0 },
		{ "SQE must be 128", 0x77, 0x44, -EPROTO },
		{ "SQE at most 32", 0x55, 0x44, -EPROTO },
		{ "CQE must be 32", 0x66, 0x55, -EPROTO },
	};
	/* clang-format on */
	return cr_make_param_array(struct sizes_case, cases, ARRAY_SIZE(cases));
}

ParameterizedTest(struct sizes_case *c, wire_id_ctrl, entry_sizes)
{
	struct ctrl_data got;

	put(page, 512, c->sqes, 1);
	put(page, 513, c->cqes, 1);
	cr_expect_eq(nvme_parse_ctrl(page, &got), c->want, "%s", c->name);
}

/* ---- Identify Namespace ---- */

struct format_case {
	char name[40];
	uint64_t nsze;
	uint8_t nlbaf, nulbaf, flbas, dps;
	uint8_t index; /* where the format below stands; all others are zero */
	uint16_t ms;
	uint8_t lbads;
	int want_err;
	uint32_t want_block, want_xfer;
	uint8_t want_pi;
};

ParameterizedTestParameters(wire_id_ns, formats)
{
	/* clang-format off */
	static struct format_case cases[] = {
		{ "512 bytes", 1, 0, 0, 0, 0, 0, 0, 9, 0, 512, 512, 0 },
		{ "C27: LBADS 12", 1, 1, 0, 1, 0, 1, 0, 12, 0, 4096, 4096, 0 },
		{ "64 KiB", 1, 0, 0, 0, 0, 0, 0, 16, 0, 65536, 65536, 0 },
		{ "128 KiB", 1, 0, 0, 0, 0, 0, 0, 17, -EOPNOTSUPP, 0, 0, 0 },
		{ "LBADS 255", 1, 0, 0, 0, 0, 0, 0, 255, -EOPNOTSUPP, 0, 0, 0 },
		{ "C27: LBADS 0", 1, 0, 0, 0, 0, 0, 0, 0, -EPROTO, 0, 0, 0 },
		{ "LBADS 8", 1, 0, 0, 0, 0, 0, 0, 8, -EPROTO, 0, 0, 0 },
		{ "C27: extended, no protection", 1, 0, 0, 0x10, 0, 0, 8, 9, 0, 512, 520, 0 },
		{ "C27: extended, type 1", 1, 0, 0, 0x10, 1, 0, 8, 9, 0, 512, 520, 1 },
		{ "type 3, first bytes", 1, 0, 0, 0x10, 0x0b, 0, 16, 12, 0, 4096, 4112, 3 },
		{ "separate metadata", 1, 0, 0, 0, 0, 0, 8, 9, 0, 512, 512, 0 },
		{ "extended without metadata", 1, 0, 0, 0x10, 0, 0, 0, 9, 0, 512, 512, 0 },
		{ "protection without metadata", 1, 0, 0, 0, 1, 0, 0, 9, -EPROTO, 0, 0, 0 },
		{ "protection type 4", 1, 0, 0, 0x10, 4, 0, 8, 9, -EPROTO, 0, 0, 0 },
		{ "C27: index 17", 1, 17, 0, 0x21, 0, 17, 0, 12, 0, 4096, 4096, 0 },
		{ "C27: index 16", 1, 16, 0, 0x20, 0, 16, 0, 12, 0, 4096, 4096, 0 },
		{ "C27: index 63", 1, 63, 0, 0x6f, 0, 63, 0, 9, 0, 512, 512, 0 },
		{ "index 17 by NULBAF", 1, 15, 2, 0x21, 0, 17, 0, 12, 0, 4096, 4096, 0 },
		{ "C27: upper bits of 16 formats", 1, 15, 0, 0x61, 0, 1, 0, 12, 0, 4096, 4096, 0 },
		{ "index beyond NLBAF", 1, 2, 0, 3, 0, 3, 0, 12, -EPROTO, 0, 0, 0 },
		{ "index beyond NLBAF, upper bits", 1, 17, 0, 0x22, 0, 18, 0, 12, -EPROTO, 0, 0,
		  0 },
		{ "NLBAF 64", 1, 64, 0, 0, 0, 0, 0, 9, -EPROTO, 0, 0, 0 },
		{ "NLBAF and NULBAF 64", 1, 60, 4, 0, 0, 0, 0, 9, -EPROTO, 0, 0, 0 },
		{ "NLBAF 255, NULBAF 255", 1, 255, 255, 0x6f, 0, 0, 0, 9, -EPROTO, 0, 0, 0 },
		{ "inactive", 0, 0, 0, 0, 0, 0, 0, 9, -ENOENT, 0, 0, 0 },
		{ "inactive, all zero", 0, 0, 0, 0, 0, 0, 0, 0, -ENOENT, 0, 0, 0 },
		{ "2^63 - 512 bytes", (UINT64_C(1) << 54) - 1, 0, 0, 0, 0, 0, 0, 9, 0, 512, 512,
		  0 },
		{ "2^63 bytes", UINT64_C(1) << 54, 0, 0, 0, 0, 0, 0, 9, -EPROTO, 0, 0, 0 },
		{ "NSZE of all ones", UINT64_MAX, 0, 0, 0, 0, 0, 0, 12, -EPROTO, 0, 0, 0 },
	};
	/* clang-format on */
	return cr_make_param_array(struct format_case, cases, ARRAY_SIZE(cases));
}

ParameterizedTest(struct format_case *c, wire_id_ns, formats)
{
	struct ns_data got;

	put(page, 0, c->nsze, 8);
	put(page, 25, c->nlbaf, 1);
	put(page, 26, c->flbas, 1);
	put(page, 29, c->dps, 1);
	put(page, 82, c->nulbaf, 1);
	put(page, 128 + 4u * c->index, c->ms, 2);
	put(page, 130 + 4u * c->index, c->lbads, 1);
	cr_assert_eq(nvme_parse_ns(page, &got), c->want_err, "%s: \"%s\"", c->name,
		     nvmfr__err_get());
	if (c->want_err) {
		cr_expect_neq(nvmfr__err_get()[0], '\0', "%s: says why", c->name);
		return;
	}
	cr_expect_eq(got.nsze, c->nsze, "%s: size", c->name);
	cr_expect_eq(got.lba_shift, c->lbads, "%s: shift", c->name);
	cr_expect_eq(got.block_bytes, c->want_block, "%s: block", c->name);
	cr_expect_eq(got.xfer_bytes, c->want_xfer, "%s: transfer", c->name);
	cr_expect_eq(got.ms, c->ms, "%s: metadata", c->name);
	cr_expect_eq(got.extended, c->want_xfer > c->want_block, "%s: extended", c->name);
	cr_expect_eq(got.pi_type, c->want_pi, "%s: protection", c->name);
	cr_expect_eq(got.pi_first, (c->dps & 8) != 0, "%s: protection first", c->name);
}

Test(wire_id_ns, the_other_fields)
{
	struct ns_data got;

	for (size_t i = 0; i < 24; i++)
		page[104 + i] = (uint8_t)(i + 1);
	put(page, 0, 100, 8);
	put(page, 8, 90, 8);
	put(page, 16, 80, 8);
	put(page, 24, 0x1f, 1);
	put(page, 27, 3, 1);
	put(page, 30, 1, 1);
	put(page, 33, 9, 1);
	put(page, 34, 0x0102, 2);
	put(page, 36, 0x0304, 2);
	put(page, 46, 256, 2);
	put(page, 64, 1, 2);
	put(page, 66, 2, 2);
	put(page, 68, 3, 2);
	put(page, 70, 4, 2);
	put(page, 72, 5, 2);
	put(page, 92, 0x01020304, 4);
	put(page, 99, 1, 1);
	put(page, 100, 0x0506, 2);
	put(page, 130, 9, 1);
	cr_assert_eq(nvme_parse_ns(page, &got), 0, "%s", nvmfr__err_get());

	cr_expect_eq(got.ncap, 90, "NCAP");
	cr_expect_eq(got.nuse, 80, "NUSE");
	cr_expect_eq(got.nsfeat, 0x1f, "NSFEAT");
	cr_expect_eq(got.mc, 3, "MC");
	cr_expect(got.shared, "NMIC");
	cr_expect_eq(got.dlfeat, 9, "DLFEAT");
	cr_expect_eq(got.nawun, 0x0102, "NAWUN");
	cr_expect_eq(got.nawupf, 0x0304, "NAWUPF");
	cr_expect_eq(got.noiob, 256, "NOIOB");
	cr_expect_eq(got.npwg, 1, "NPWG");
	cr_expect_eq(got.npwa, 2, "NPWA");
	cr_expect_eq(got.npdg, 3, "NPDG");
	cr_expect_eq(got.npda, 4, "NPDA");
	cr_expect_eq(got.nows, 5, "NOWS");
	cr_expect_eq(got.anagrpid, 0x01020304, "ANAGRPID");
	cr_expect(got.write_protected, "NSATTR");
	cr_expect_eq(got.nvmsetid, 0x0506, "NVMSETID");
	cr_expect_arr_eq(got.nguid, page + 104, 16, "NGUID");
	cr_expect_arr_eq(got.eui64, page + 120, 8, "EUI64");
}

/* ---- descriptor list ---- */

struct descs_case {
	char name[40];
	size_t bytes;
	uint8_t list[64];
	bool eui64, nguid, uuid, csi;
};

ParameterizedTestParameters(wire_ns_descs, lists)
{
	/* clang-format off */
	static struct descs_case cases[] = {
		{ "empty", 64, { 0 }, false, false, false, false },
		{ "no bytes", 0, { 3, 16 }, false, false, false, false },
		{ "UUID", 64, { 3, 16, 0, 0, 0xaa }, false, false, true, false },
		{ "all four", 64, { 1, 8, 0, 0, [12] = 2, 16, [32] = 3, 16, [52] = 4, 1 }, true,
		  true, true, true },
		{ "unknown type is skipped", 64, { 9, 4, 0, 0, 3, 3, 3, 3, 1, 8 }, true, false,
		  false, false },
		{ "wrong length is skipped", 64, { 3, 8, 0, 0, [12] = 1, 8 }, true, false, false,
		  false },
		{ "too long is skipped", 64, { 1, 9, 0, 0, [13] = 2, 16 }, false, true, false,
		  false },
		{ "NIDL 0 ends the list", 64, { 3, 0, 0, 0, 1, 8 }, false, false, false, false },
		{ "exactly to the end", 12, { 1, 8 }, true, false, false, false },
		{ "one byte over the end", 11, { 1, 8 }, false, false, false, false },
		{ "header over the end", 15, { 1, 8, [12] = 3, 16 }, true, false, false, false },
		{ "NIDL 255", 64, { 3, 255 }, false, false, false, false },
	};
	/* clang-format on */
	return cr_make_param_array(struct descs_case, cases, ARRAY_SIZE(cases));
}

ParameterizedTest(struct descs_case *c, wire_ns_descs, lists)
{
	/* Of the exact size, so that a sanitizer sees a read beyond it. */
	uint8_t *exact = malloc(c->bytes ? c->bytes : 1);
	struct ns_ids got;

	cr_assert_not_null(exact, "memory");
	memcpy(exact, c->list, c->bytes);
	cr_expect_eq(nvme_parse_ns_descs(exact, c->bytes, &got), 0, "%s", c->name);
	free(exact);
	cr_expect_eq(got.has_eui64, c->eui64, "%s: EUI64", c->name);
	cr_expect_eq(got.has_nguid, c->nguid, "%s: NGUID", c->name);
	cr_expect_eq(got.has_uuid, c->uuid, "%s: UUID", c->name);
	cr_expect_eq(got.has_csi, c->csi, "%s: CSI", c->name);
}

Test(wire_ns_descs, values)
{
	const uint8_t list[64] = { 1, 8, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 4, 1, 0, 0, 2,
				   3, 16, 0, 0, 0xa0, 0xa1, 0xa2, [36] = 0xaf };
	const uint8_t eui64[8] = { 1, 2, 3, 4, 5, 6, 7, 8 };
	const uint8_t uuid[16] = { 0xa0, 0xa1, 0xa2, [15] = 0xaf };
	struct ns_ids got;

	nvme_parse_ns_descs(list, sizeof(list), &got);
	cr_expect_arr_eq(got.eui64, eui64, 8, "EUI64");
	cr_expect_arr_eq(got.uuid, uuid, 16, "UUID");
	cr_expect_eq(got.csi, 2, "CSI");
	cr_expect_not(got.has_nguid, "NGUID is absent");
}

/* ---- active list ---- */

struct list_case {
	char name[40];
	uint32_t entries[4];
	uint32_t after;
	unsigned int max;
	int want;
};

ParameterizedTestParameters(wire_active_list, lists)
{
	/* clang-format off */
	static struct list_case cases[] = {
		{ "empty", { 0 }, 0, 1024, 0 },
		{ "three with gaps", { 1, 5, 0x10000 }, 0, 1024, 3 },
		{ "rest after zero is ignored", { 1, 0, 5 }, 0, 1024, 1 },
		{ "caller's room is less", { 1, 2, 3 }, 0, 2, 2 },
		{ "no room", { 1, 2, 3 }, 0, 0, 0 },
		{ "twice the same", { 1, 1 }, 0, 1024, -EPROTO },
		{ "descending", { 5, 4 }, 0, 1024, -EPROTO },
		{ "next page", { 6, 7 }, 5, 1024, 2 },
		{ "starts with the one asked after", { 5, 6 }, 5, 1024, -EPROTO },
		{ "starts before it", { 4, 6 }, 5, 1024, -EPROTO },
		{ "broadcast value", { 1, 0xffffffff }, 0, 1024, -EPROTO },
		{ "FFFFFFFEh", { 0xfffffffe }, 0, 1024, -EPROTO },
		{ "the last valid one", { 0xfffffffd }, 0, 1024, 1 },
	};
	/* clang-format on */
	return cr_make_param_array(struct list_case, cases, ARRAY_SIZE(cases));
}

ParameterizedTest(struct list_case *c, wire_active_list, lists)
{
	uint32_t got[1024] = { 0 };

	for (size_t i = 0; i < ARRAY_SIZE(c->entries); i++)
		put(page, 4 * i, c->entries[i], 4);
	cr_assert_eq(nvme_parse_active_list(page, c->after, got, c->max), c->want, "%s", c->name);
	for (int i = 0; i < c->want; i++)
		cr_expect_eq(got[i], c->entries[i], "%s: %d", c->name, i);
}

Test(wire_active_list, a_full_page)
{
	uint32_t *got = malloc(1024 * sizeof(*got));
	uint8_t *exact = malloc(4096);

	cr_assert(got && exact, "memory");
	for (uint32_t i = 0; i < 1024; i++)
		put(exact, 4 * i, i + 1, 4);
	cr_expect_eq(nvme_parse_active_list(exact, 0, got, 4096), 1024, "not beyond the page");
	cr_expect_eq(got[1023], 1024, "last");
	free(exact);
	free(got);
}
