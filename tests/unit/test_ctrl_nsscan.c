/* SPDX-License-Identifier: BSD-3-Clause */
/* Reading the active namespaces: what goes out, and what is made of any page that comes back. */
#include "ctrl_rig.h"

#include <errno.h>

#include "base/util.h"
#include "ctrl/nsscan.h"

enum { OPCODE_IDENTIFY = 0x06, CNS_NS = 0, CNS_ACTIVE_LIST = 2, CNS_NS_DESCS = 3 };

static void put_le(unsigned char *p, uint64_t v, unsigned int n)
{
	for (; n; n--, v >>= 8)
		*p++ = (unsigned char)v;
}

/* Identify: CDW10 bits 7:0 are CNS; NSID as given; one keyed descriptor of 4,096 bytes. */
static void expect_identify(struct ctrl_rig *r, uint8_t cns, uint32_t nsid)
{
	const unsigned char *p = scripted_last(r->s, 0)->capsule;

	cr_expect_eq(p[0], OPCODE_IDENTIFY);
	cr_expect_eq(scripted_le(p + 4, 4), nsid);
	cr_expect_eq(scripted_le(p + 40, 4), cns);
	cr_expect(p[39] == 0x40 && scripted_le(p + 32, 3) == 4096 &&
		  scripted_le(p + 24, 8) == (uintptr_t)r->ctrl->page);
	cr_expect_eq(scripted_le(p + 35, 4), SCRIPTED_RKEY);
	ctrl_rig_answer(r, 0, 0);
	nvmfr__admin_take(r->ctrl);
}

static void list_page(struct nvmfr_ctrl *ctrl, uint32_t first, uint32_t step, unsigned int n)
{
	memset(ctrl->data, 0, sizeof(ctrl->data));
	for (unsigned int i = 0; i < n; i++)
		put_le(ctrl->data + i * 4, first + (uint64_t)i * step, 4);
}

/*
 * Identify Namespace, NVM Command Set: NSZE 7:0, FLBAS 26, DPS 29, NSATTR 99, NGUID 104, EUI64 120,
 * LBAF0 128.
 */
static void ns_page(struct nvmfr_ctrl *ctrl, uint64_t blocks, uint8_t lbads)
{
	memset(ctrl->data, 0, sizeof(ctrl->data));
	put_le(ctrl->data, blocks, 8);
	put_le(ctrl->data + 8, blocks, 8);
	ctrl->data[130] = lbads;
}

static void scan_list(struct ctrl_rig *r, uint32_t first, unsigned int n)
{
	list_page(r->ctrl, first, 1, n);
	cr_assert_eq(nvmfr__answer_ns_list(r->ctrl, 0), STEP_NEXT);
	cr_assert_eq(r->ctrl->nsid_count, n);
}

/* ---- the list -------------------------------------------------------------------------------- */

Test(ctrl_nsscan, pages_go_on_behind_the_last_one)
{
	struct ctrl_rig r;

	ctrl_rig_up(&r);
	cr_assert_eq(nvmfr__start_ns_list(r.ctrl), STEP_SENT);
	expect_identify(&r, CNS_ACTIVE_LIST, 0);
	list_page(r.ctrl, 1, 3, 1024);
	cr_expect_eq(nvmfr__answer_ns_list(r.ctrl, 0), STEP_AGAIN);
	cr_assert_eq(nvmfr__start_ns_list(r.ctrl), STEP_SENT);
	expect_identify(&r, CNS_ACTIVE_LIST, 1 + 3 * 1023);
	list_page(r.ctrl, 0xfffffff0, 1, 2);
	cr_expect_eq(nvmfr__answer_ns_list(r.ctrl, 0), STEP_NEXT);
	cr_expect(r.ctrl->nsid_count == 1026 && r.ctrl->nsids[1025] == 0xfffffff1);
	ctrl_rig_down(&r);
}

Test(ctrl_nsscan, none_is_fine)
{
	struct ctrl_rig r;

	ctrl_rig_up(&r);
	scan_list(&r, 0, 0);
	cr_expect_eq(nvmfr__start_ns(r.ctrl), STEP_NEXT);
	cr_expect_eq(nvmfr__start_ns_descs(r.ctrl), STEP_NEXT);
	cr_expect_eq(nvmfr__publish_ns(r.ctrl), STEP_NEXT);
	cr_expect(r.ctrl->ns && r.ctrl->ns->count == 0 && !r.ctrl->nsids);
	ctrl_rig_down(&r);
}

/* What does not ascend never ends. */
Test(ctrl_nsscan, lists_that_do_not_ascend)
{
	static const uint32_t lists[][3] = {
		{ 2, 1, 0 }, { 5, 5, 0 }, { 1, 0xffffffff, 0 }, { 0xfffffffe, 0, 0 }
	};

	for (size_t i = 0; i < ARRAY_SIZE(lists); i++) {
		struct ctrl_rig r;

		ctrl_rig_up(&r);
		memset(r.ctrl->data, 0, sizeof(r.ctrl->data));
		for (size_t k = 0; k < 3; k++)
			put_le(r.ctrl->data + 4 * k, lists[i][k], 4);
		cr_expect_eq(nvmfr__answer_ns_list(r.ctrl, 0), -EPROTO, "list %zu", i);
		ctrl_rig_down(&r);
	}
}

Test(ctrl_nsscan, a_page_that_begins_before_the_last_ended)
{
	struct ctrl_rig r;

	ctrl_rig_up(&r);
	list_page(r.ctrl, 1, 1, 1024);
	cr_expect_eq(nvmfr__answer_ns_list(r.ctrl, 0), STEP_AGAIN);
	cr_expect_eq(nvmfr__answer_ns_list(r.ctrl, 0), -EPROTO, "the same page again");
	ctrl_rig_down(&r);
}

Test(ctrl_nsscan, an_endless_list_is_cut)
{
	const uint32_t before = CTRL_MAX_NAMESPACES - 1024;
	struct ctrl_rig r;

	ctrl_rig_up(&r);
	r.ctrl->nsids = calloc(before, sizeof(*r.ctrl->nsids));
	cr_assert_not_null(r.ctrl->nsids);
	r.ctrl->nsid_count = before;
	r.ctrl->nsids[before - 1] = before;
	list_page(r.ctrl, before + 1, 1, 1024);
	cr_expect_eq(nvmfr__answer_ns_list(r.ctrl, 0), STEP_AGAIN, "as many as there may be");
	list_page(r.ctrl, before + 1025, 1, 1);
	cr_expect_eq(nvmfr__answer_ns_list(r.ctrl, 0), -EPROTO);
	cr_expect_not_null(strstr(nvmfr__err_get(), "active namespaces"), "%s", nvmfr__err_get());
	ctrl_rig_down(&r);
}

/* ---- each of them ---------------------------------------------------------------------------- */

struct ns_case {
	const char *name;
	uint64_t blocks;
	uint8_t lbads, offset, value; /* one more byte of the page */
	bool kept;
	const char *refusal;
};

/* clang-format off */
static const struct ns_case namespaces[] = {
	{ "512", 1000, 9, 0xff, 0, true, NULL },
	{ "4096", 1000, 12, 0xff, 0, true, NULL },
	{ "64 KiB", 1000, 16, 0xff, 0, true, NULL },
	{ "inactive", 0, 9, 0xff, 0, false, NULL },
	{ "LBADS 0", 1000, 0, 0xff, 0, false, NULL },
	{ "LBADS 8", 1000, 8, 0xff, 0, false, NULL },
	{ "128 KiB", 1000, 17, 0xff, 0, false, NULL },
	{ "LBADS 255", 1000, 255, 0xff, 0, false, NULL },
	{ "beyond 2^63 bytes", UINT64_MAX, 9, 0xff, 0, false, NULL },
	{ "format index out of range", 1000, 9, 26, 0x05, false, NULL },
	{ "separate metadata", 1000, 9, 128, 8, true, NULL },
	{ "protection information", 1000, 9, 29, 1, false, NULL },
};
/* clang-format on */

Test(ctrl_nsscan, each_namespace)
{
	for (size_t i = 0; i < ARRAY_SIZE(namespaces); i++) {
		const struct ns_case *c = &namespaces[i];
		struct ctrl_rig r;

		ctrl_rig_up(&r);
		scan_list(&r, 7, 1);
		cr_assert_eq(nvmfr__start_ns(r.ctrl), STEP_SENT);
		expect_identify(&r, CNS_NS, 7);
		ns_page(r.ctrl, c->blocks, c->lbads);
		if (c->offset != 0xff)
			r.ctrl->data[c->offset] = c->value;
		cr_expect_eq(nvmfr__answer_ns(r.ctrl, 0), STEP_AGAIN, "%s", c->name);
		cr_expect_eq(nvmfr__start_ns(r.ctrl), STEP_NEXT, "%s", c->name);
		cr_expect_eq(r.ctrl->ns_next->count, c->kept, "%s: %s", c->name, nvmfr__err_get());
		if (c->kept)
			cr_expect(r.ctrl->ns_next->entries[0].blocks == c->blocks &&
					  r.ctrl->ns_next->entries[0].shift == c->lbads &&
					  !r.ctrl->ns_next->entries[0].refusal,
				  "%s", c->name);
		ctrl_rig_down(&r);
	}
}

/* Told as they are, but no I/O: extended LBAs and protection information. */
Test(ctrl_nsscan, formats_that_are_not_transferred)
{
	static const struct {
		uint8_t flbas, dps;
		const char *refusal;
	} cases[] = { { 0x10, 0, "extended" },
		      { 0x00, 1, "protection" },
		      { 0x00, 3, "protection" } };

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct ctrl_rig r;

		ctrl_rig_up(&r);
		scan_list(&r, 1, 1);
		ns_page(r.ctrl, 100, 9);
		r.ctrl->data[26] = cases[i].flbas;
		r.ctrl->data[29] = cases[i].dps;
		r.ctrl->data[128] = 8;
		cr_assert_eq(nvmfr__answer_ns(r.ctrl, 0), STEP_AGAIN);
		cr_assert_eq(r.ctrl->ns_next->count, 1u, "%s", nvmfr__err_get());
		cr_assert_not_null(r.ctrl->ns_next->entries[0].refusal);
		cr_expect_not_null(strstr(r.ctrl->ns_next->entries[0].refusal, cases[i].refusal));
		ctrl_rig_down(&r);
	}
}

Test(ctrl_nsscan, a_refused_one_does_not_take_the_others_along)
{
	struct ctrl_rig r;

	ctrl_rig_up(&r);
	scan_list(&r, 10, 3);
	ns_page(r.ctrl, 100, 9);
	cr_expect_eq(nvmfr__answer_ns(r.ctrl, 0), STEP_AGAIN);
	cr_expect_eq(nvmfr__refused_ns(r.ctrl, 0x000b), STEP_AGAIN);
	cr_expect_not_null(strstr(r.log, "namespace 11"), "%s", r.log);
	cr_expect_eq(nvmfr__answer_ns(r.ctrl, 0), STEP_AGAIN);
	cr_expect_eq(nvmfr__start_ns(r.ctrl), STEP_NEXT);
	cr_expect_eq(nvmfr__publish_ns(r.ctrl), STEP_NEXT);
	cr_expect(nvmfr__ns_find(r.ctrl->ns, 10) && nvmfr__ns_find(r.ctrl->ns, 12) &&
		  !nvmfr__ns_find(r.ctrl->ns, 11));
	cr_expect(nvmfr__ns_after(r.ctrl->ns, 10)->nsid == 12 && !nvmfr__ns_after(r.ctrl->ns, 12));
	cr_expect(nvmfr__ns_after(r.ctrl->ns, 0)->nsid == 10 &&
		  !nvmfr__ns_after(r.ctrl->ns, UINT32_MAX));
	ctrl_rig_down(&r);
}

/* ---- descriptors ----------------------------------------------------------------------------- */

static void with_descs(struct ctrl_rig *r)
{
	ctrl_rig_up(r);
	r->ctrl->vs = 0x10300;
	scan_list(r, 1, 2);
	ns_page(r->ctrl, 100, 9);
	nvmfr__answer_ns(r->ctrl, 0);
	nvmfr__answer_ns(r->ctrl, 0);
	cr_assert_eq(nvmfr__start_ns(r->ctrl), STEP_NEXT);
	cr_assert_eq(nvmfr__start_ns_descs(r->ctrl), STEP_SENT);
	expect_identify(r, CNS_NS_DESCS, 1);
	memset(r->ctrl->data, 0, sizeof(r->ctrl->data));
}

/* NIDT 3 is a UUID of 16 bytes, 4 a command set identifier of 1. */
Test(ctrl_nsscan, descriptors)
{
	static const unsigned char page[] = { 3,  16, 0,  0,  1,  2,  3,  4, 5, 6, 7, 8, 9,
					      10, 11, 12, 13, 14, 15, 16, 4, 1, 0, 0, 2 };
	struct ctrl_rig r;

	with_descs(&r);
	memcpy(r.ctrl->data, page, sizeof(page));
	cr_expect_eq(nvmfr__answer_ns_descs(r.ctrl, 0), STEP_AGAIN);
	cr_expect_arr_eq(r.ctrl->ns_next->entries[0].uuid, page + 4, 16);
	cr_assert_not_null(r.ctrl->ns_next->entries[0].refusal, "another command set");
	cr_assert_eq(nvmfr__start_ns_descs(r.ctrl), STEP_SENT);
	expect_identify(&r, CNS_NS_DESCS, 2);
	cr_expect_eq(nvmfr__refused_ns_descs(r.ctrl, 2), STEP_AGAIN);
	cr_expect_eq(nvmfr__start_ns_descs(r.ctrl), STEP_NEXT);
	ctrl_rig_down(&r);
}

Test(ctrl_nsscan, descriptors_of_nonsense)
{
	struct ctrl_rig r;

	with_descs(&r);
	memset(r.ctrl->data, 0xff, sizeof(r.ctrl->data));
	cr_expect_eq(nvmfr__answer_ns_descs(r.ctrl, 0), STEP_AGAIN);
	cr_expect_null(r.ctrl->ns_next->entries[0].refusal);
	ctrl_rig_down(&r);
}

/* Namespace Identification Descriptors came with NVMe 1.3. */
Test(ctrl_nsscan, no_descriptors_before_1_3)
{
	struct ctrl_rig r;

	ctrl_rig_up(&r);
	r.ctrl->vs = 0x10201;
	scan_list(&r, 1, 1);
	ns_page(r.ctrl, 100, 9);
	nvmfr__answer_ns(r.ctrl, 0);
	cr_assert_eq(nvmfr__start_ns(r.ctrl), STEP_NEXT);
	cr_expect_eq(nvmfr__start_ns_descs(r.ctrl), STEP_NEXT);
	ctrl_rig_down(&r);
}
