/* SPDX-License-Identifier: BSD-3-Clause */
/* Namespaces as Identify describes them: formats good and odd, lists short, long and wrong. */
#include "flow.h"

#include <malloc.h>

/* Identify Namespace, offsets (NVM Command Set specification). */
enum {
	NS_NLBAF = 25,
	NS_FLBAS = 26,
	NS_DPS = 29,
	NS_LBAF = 128, /* 4 bytes each: MS, LBADS, RP */
};

/* ---- formats (C27) --------------------------------------------------------------------------- */

struct format {
	uint8_t flbas, dps, ms, lbads;
};

static void format_up(struct flow *f, const struct format *format)
{
	uint8_t lbaf[4] = { format->ms, 0, format->lbads, 0 };

	flow_host(f);
	flow_target(f, NULL);
	flow_ns(f, 4 * MIB, 512);
	flow_ns(f, 4 * MIB, 512);
	flow_patch(f, CNS_NS, 1, NS_FLBAS, &format->flbas, 1);
	flow_patch(f, CNS_NS, 1, NS_DPS, &format->dps, 1);
	flow_patch(f, CNS_NS, 1, NS_LBAF, lbaf, sizeof(lbaf));
	flow_connect(f);
	f->qp = flow_qpair(f, 8);
	flow_works(f); /* namespace 2 is there, whatever 1 is like */
}

/* Known, described, and no I/O to it. */
static void format_refused(const struct format *format, const char *why)
{
	struct nvmfr_ns_info info = { .size = sizeof(info) };
	struct nvmfr_buffer *buf;
	struct flow f;

	format_up(&f, format);
	cr_assert_eq(nvmfr_ns_info(f.ctrl, 1, &info), 0, "%s", nvmfr_last_error());
	cr_expect_eq(info.block_bytes, 1u << format->lbads);
	cr_expect_eq(info.metadata_bytes, format->ms);
	buf = flow_alloc(&f, MIB);
	cr_expect_eq(nvmfr_read(f.qp, 1, 0, 1, buf, 0, 0), -EOPNOTSUPP);
	flow_says("namespace 1");
	flow_says(why);
	cr_expect_eq(nvmfr_write(f.qp, 1, 0, 1, buf, 0, 0), -EOPNOTSUPP);
	cr_expect_eq(flow_qpair_info(f.qp).in_flight, 0);
	flow_works(&f);
	flow_release(buf);
	flow_down(&f);
}

/* Left out, and the log says why. */
static void format_left_out(const struct format *format, const char *why)
{
	struct nvmfr_ns_info info = { .size = sizeof(info) };
	struct flow f;

	format_up(&f, format);
	cr_expect_eq(nvmfr_ns_info(f.ctrl, 1, &info), -ENOENT);
	cr_expect_eq(nvmfr_ns_next(f.ctrl, 0), 2);
	cr_expect(flow_logged(&f, "namespace 1 is left out"), "%s", f.log->text);
	cr_expect(flow_logged(&f, why), "%s", f.log->text);
	flow_down(&f);
}

Test(formats, extended_blocks)
{
	format_refused(&(const struct format){ .flbas = 1 << 4, .ms = 8, .lbads = 9 }, "metadata");
}

Test(formats, extended_blocks_with_protection)
{
	format_refused(&(const struct format){ .flbas = 1 << 4, .dps = 1, .ms = 8, .lbads = 9 },
		       "metadata");
}

Test(formats, protection_apart_from_the_data)
{
	format_refused(&(const struct format){ .dps = 1, .ms = 8, .lbads = 9 }, "protection");
}

Test(formats, block_of_nothing)
{
	format_left_out(&(const struct format){ .lbads = 0 }, "LBADS 0");
}

Test(formats, block_of_256_bytes)
{
	format_left_out(&(const struct format){ .lbads = 8 }, "LBADS 8");
}

Test(formats, block_of_2_to_the_255)
{
	format_left_out(&(const struct format){ .lbads = 255 }, "LBADS 255");
}

Test(formats, format_that_does_not_exist)
{
	format_left_out(&(const struct format){ .flbas = 3, .lbads = 9 }, "FLBAS");
}

Test(formats, protection_without_metadata)
{
	format_left_out(&(const struct format){ .dps = 1, .lbads = 9 }, "DPS");
}

Test(formats, metadata_apart_is_not_transferred)
{
	struct nvmfr_ns_info info = { .size = sizeof(info) };
	struct flow f;

	format_up(&f, &(const struct format){ .ms = 8, .lbads = 9 });
	cr_assert_eq(nvmfr_ns_info(f.ctrl, 1, &info), 0);
	cr_expect_eq(info.metadata_bytes, 8);
	f.nsid = 1;
	flow_works(&f);
	flow_down(&f);
}

/* More than 16 formats: bits 6:5 of FLBAS are the upper part of the index. */
Test(formats, format_index_above_15)
{
	static const uint8_t lbaf[4] = { 0, 0, 12, 0 };
	const uint8_t nlbaf = 20, flbas = 1 << 5 | 2;
	struct nvmfr_ns_info info = { .size = sizeof(info) };
	struct flow f;

	flow_host(&f);
	flow_target(&f, NULL);
	flow_ns(&f, 4 * MIB, 4096);
	flow_patch(&f, CNS_NS, 1, NS_NLBAF, &nlbaf, 1);
	flow_patch(&f, CNS_NS, 1, NS_FLBAS, &flbas, 1);
	flow_patch(&f, CNS_NS, 1, NS_LBAF, "\0\0\x09", 4);
	flow_patch(&f, CNS_NS, 1, NS_LBAF + 4 * 18, lbaf, sizeof(lbaf));
	flow_connect(&f);
	f.qp = flow_qpair(&f, 8);
	cr_assert_eq(nvmfr_ns_info(f.ctrl, 1, &info), 0);
	cr_expect_eq(info.block_bytes, 4096);
	flow_works(&f);
	flow_down(&f);
}

Test(formats, block_longer_than_a_command_may_carry, .timeout = 20)
{
	static const uint8_t lbaf[4] = { 0, 0, 14, 0 };
	struct nvmfr_soft_opts opts = flow_soft_opts();
	struct nvmfr_buffer *buf;
	struct flow f;
	int got;

	opts.mdts = 1;
	flow_host(&f);
	flow_target(&f, &opts);
	flow_ns(&f, 4 * MIB, 512);
	flow_patch(&f, CNS_NS, 1, NS_LBAF, lbaf, sizeof(lbaf));
	flow_connect(&f);
	f.qp = flow_qpair(&f, 8);
	buf = flow_alloc(&f, 65536);
	got = nvmfr_read(f.qp, 1, 0, 1, buf, 0, 0);
	cr_expect_eq(got, -EOPNOTSUPP, "%d", got);
	flow_says("16384");
	cr_expect_eq(flow_counters(&f).reads, 0);
	nvmfr_qpair_destroy(f.qp);
	f.qp = NULL;
	flow_release(buf);
	flow_down(&f);
}

Test(formats, namespace_beyond_two_to_the_63)
{
	const uint8_t all[8] = { 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff };
	struct flow f;

	flow_host(&f);
	flow_target(&f, NULL);
	flow_ns(&f, 4 * MIB, 512);
	flow_patch(&f, CNS_NS, 1, 0, all, sizeof(all));
	flow_connect(&f);
	cr_expect_eq(nvmfr_ns_next(f.ctrl, 0), 0);
	cr_expect(flow_logged(&f, "NSZE"), "%s", f.log->text);
	flow_down(&f);
}

/* ---- namespaces ------------------------------------------------------------------------------ */

static void add_namespace(struct flow *f, uint32_t nsid)
{
	struct nvmfr_soft_ns_opts opts;

	nvmfr_soft_ns_opts_init(&opts, sizeof(opts));
	opts.nsid = nsid;
	opts.size_bytes = 4096;
	cr_assert_eq(nvmfr_soft_ns_add(f->target, &opts), (int)nsid, "%s", nvmfr_last_error());
}

Test(formats, four_billion_possible_three_active)
{
	static const uint32_t nsids[] = { 5, 1000000, INT32_MAX };
	struct nvmfr_soft_opts opts = flow_soft_opts();
	size_t before;
	struct flow f;

	opts.nn = UINT32_MAX;
	flow_host(&f);
	flow_target(&f, &opts);
	for (unsigned int i = 0; i < ARRAY_SIZE(nsids); i++)
		add_namespace(&f, nsids[i]);
	before = mallinfo2().uordblks;
	flow_connect(&f);
	cr_expect_lt(mallinfo2().uordblks, before + MIB, "memory is for what is active");
	cr_expect_eq(flow_ctrl_info(&f).ns_count, 3);
	for (uint32_t i = 0, nsid = 0; i < ARRAY_SIZE(nsids); i++) {
		nsid = nvmfr_ns_next(f.ctrl, nsid);
		cr_expect_eq(nsid, nsids[i], "%u", nsid);
	}
	cr_expect_eq(nvmfr_ns_next(f.ctrl, INT32_MAX), 0);
	flow_down(&f);
}

static void namespaces(uint32_t count)
{
	struct nvmfr_soft_opts opts = flow_soft_opts();
	uint32_t nsid = 0, seen = 0;
	struct flow f;

	opts.nn = 2 * count;
	flow_host(&f);
	flow_target(&f, &opts);
	for (uint32_t i = 1; i <= count; i++)
		add_namespace(&f, 2 * i);
	flow_connect(&f);
	cr_expect_eq(flow_ctrl_info(&f).ns_count, count);
	while ((nsid = nvmfr_ns_next(f.ctrl, nsid)) != 0)
		cr_expect_eq(nsid, 2 * ++seen);
	cr_expect_eq(seen, count);
	flow_down(&f);
}

Test(formats, no_namespaces)
{
	namespaces(0);
}

Test(formats, as_many_namespaces_as_a_list_has_entries)
{
	namespaces(1024);
}

Test(formats, one_namespace_more_than_a_list_has_entries)
{
	namespaces(1025);
}

Test(formats, more_than_two_lists_of_namespaces)
{
	namespaces(2100);
}

Test(formats, list_that_does_not_ascend)
{
	static const uint8_t list[12] = { 3, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0 };
	struct flow f;

	flow_host(&f);
	flow_target(&f, NULL);
	flow_patch(&f, CNS_ACTIVE_LIST, NVMFR_SOFT_ANY, 0, list, sizeof(list));
	cr_expect_eq(flow_try_connect(&f), -EPROTO);
	flow_says("active namespaces");
	flow_says("ascend");
	flow_down(&f);
}

Test(formats, list_names_a_namespace_that_is_not_active)
{
	static const uint8_t list[12] = { 1, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0 };
	struct flow f;

	flow_host(&f);
	flow_target(&f, NULL);
	flow_ns(&f, MIB, 512);
	flow_patch(&f, CNS_ACTIVE_LIST, 0, 0, list, sizeof(list));
	flow_connect(&f);
	cr_expect_eq(flow_ctrl_info(&f).ns_count, 1);
	cr_expect_eq(nvmfr_ns_next(f.ctrl, 1), 0);
	flow_down(&f);
}

/* ---- descriptors (CNS 03h) ------------------------------------------------------------------- */

Test(formats, descriptor_longer_than_the_page)
{
	static const uint8_t desc[8] = { 3, 255, 0, 0, 1, 2, 3, 4 };
	struct nvmfr_ns_info info = { .size = sizeof(info) };
	static const uint8_t none[16];
	struct flow f;

	flow_host(&f);
	flow_target(&f, NULL);
	flow_ns(&f, MIB, 512);
	flow_patch(&f, CNS_NS_DESCS, NVMFR_SOFT_ANY, 0, desc, sizeof(desc));
	flow_connect(&f);
	cr_assert_eq(nvmfr_ns_info(f.ctrl, 1, &info), 0);
	cr_expect_arr_eq(info.uuid, none, sizeof(none));
	flow_down(&f);
}
