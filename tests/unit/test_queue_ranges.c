/* SPDX-License-Identifier: BSD-3-Clause */
/* Deallocate and copy through the queue floor: capsules and lists byte by byte, limits, refusals. */
#include "scripted.h"
#include "testing.h"

#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "base/util.h"
#include "queue/ranges.h"

enum { LIST_AT = 8,
       TAG = 55 };

static _Alignas(4096) unsigned char mem[3 * 4096];
static struct nvmfr_range many[257];

struct ranges_rig {
	struct rig rig;
	struct nvmfr_buffer list;
};

static void up(struct ranges_rig *r, const struct rig_opts *opts)
{
	memset(mem, 0xee, sizeof(mem));
	for (unsigned int i = 0; i < ARRAY_SIZE(many); i++)
		many[i] = (struct nvmfr_range){ .lba = i * UINT64_C(10), .nblocks = 5 };
	rig_up(&r->rig, opts);
	r->list = rig_buffer(&r->rig, (uintptr_t)mem, sizeof(mem),
			     FAB_ACCESS_SOURCE | FAB_ACCESS_TARGET);
}

static void down(struct ranges_rig *r)
{
	rig_unbuffer(&r->rig, &r->list);
	rig_down(&r->rig);
}

static int deallocate(struct ranges_rig *r, const struct nvmfr_range *ranges, unsigned int n)
{
	return nvmfr__qpair_deallocate(r->rig.qp, RIG_NS, ranges, n, &r->list, LIST_AT, TAG);
}

static int copy(struct ranges_rig *r, uint64_t lba, const struct nvmfr_range *ranges,
		unsigned int n)
{
	return nvmfr__qpair_copy(r->rig.qp, RIG_NS, lba, ranges, n, &r->list, LIST_AT, TAG);
}

#define REFUSED(Call, Err, Word) \
	do { \
		cr_expect_eq(Call, Err, "%s", #Call); \
		cr_expect(strstr(nvmfr__err_get(), Word), "'%s'", nvmfr__err_get()); \
	} while (0)

/* ---- bytes ----------------------------------------------------------------------------------- */

/* NVM Command Set Specification: Dataset Management, Range Definition. */
Test(queue_ranges, deallocate_bytes)
{
	static const unsigned char head[8] = { 0x09, 0x40, 0x00, 0x10, 1 };
	static const unsigned char dwords[24] = { 1, 0, 0, 0, 4 }; /* NR 0's based; AD */
	static const unsigned char list[32] = {
		0,
		0,
		0,
		0,
		0x0d,
		0x0c,
		0x0b,
		0x0a,
		0x06,
		0x05,
		0x04,
		0x03,
		0x02,
		0x00,
		0,
		0,
		0,
		0,
		0,
		0,
		1,
		0,
		0,
		0,
		9,
	};
	const struct nvmfr_range ranges[] = { { 0x000203040506, 0x0a0b0c0d }, { 9, 1 } };
	const struct scripted_cmd *cmd;
	struct ranges_rig r;

	up(&r, NULL);
	cr_assert_eq(deallocate(&r, ranges, 2), 0, "%s", nvmfr__err_get());
	cmd = scripted_last(r.rig.s, 0);
	cr_expect_arr_eq(cmd->capsule, head, sizeof(head));
	cr_expect_eq(scripted_le(cmd->capsule + 24, 8), (uintptr_t)mem + LIST_AT);
	cr_expect_eq(scripted_le(cmd->capsule + 32, 3), 32u);
	cr_expect_eq(cmd->capsule[39], 0x40);
	cr_expect_arr_eq(cmd->capsule + 40, dwords, sizeof(dwords));
	cr_expect_arr_eq(mem + LIST_AT, list, sizeof(list));
	cr_expect(mem[LIST_AT - 1] == 0xee && mem[LIST_AT + 32] == 0xee, "and nothing around it");
	cr_expect(nvmfr__qpair_names(r.rig.qp, &r.list));
	down(&r);
}

/* NVM Command Set Specification: Copy, Source Range Entries, descriptor format 0. */
Test(queue_ranges, copy_bytes)
{
	static const unsigned char head[8] = { 0x19, 0x40, 0x00, 0x10, 1 };
	static const unsigned char dwords[24] = { 0x16, 0x15, 0x14, 0x13, 0x12, 0, 0, 0, 1 };
	static const unsigned char list[64] = {
		[8] = 0x06,
		0x05,
		0x04,
		0x03,
		0x02,
		0x01,
		0,
		0,
		0xe7,
		0x03,
		[40] = 9,
	};
	const struct nvmfr_range ranges[] = { { 0x010203040506, 1000 }, { 9, 1 } };
	const struct scripted_cmd *cmd;
	struct ranges_rig r;

	up(&r, NULL);
	cr_assert_eq(copy(&r, 0x001213141516, ranges, 2), 0, "%s", nvmfr__err_get());
	cmd = scripted_last(r.rig.s, 0);
	cr_expect_arr_eq(cmd->capsule, head, sizeof(head));
	cr_expect_eq(scripted_le(cmd->capsule + 32, 3), 64u);
	cr_expect_arr_eq(cmd->capsule + 40, dwords, sizeof(dwords));
	cr_expect_arr_eq(mem + LIST_AT, list, sizeof(list));
	cr_expect_eq(mem[LIST_AT + 64], 0xee);
	down(&r);
}

/* ---- limits ---------------------------------------------------------------------------------- */

Test(queue_ranges, deallocate_limits)
{
	const struct nvmfr_range long_one = { 0, 101 }, longest = { 0, UINT64_C(1) << 32 };
	struct rig_opts opts = { .dsm_ranges = 3, .dsm_range_blocks = 100, .dsm_blocks = 12 };
	struct ranges_rig r;

	up(&r, NULL);
	cr_expect_eq(deallocate(&r, many, 256), 0, "%s", nvmfr__err_get());
	REFUSED(deallocate(&r, many, 257), -EINVAL, "1 to 256");
	REFUSED(deallocate(&r, &longest, 1), -ERANGE, "4294967295");
	down(&r);
	up(&r, &opts);
	REFUSED(deallocate(&r, many, 0), -EINVAL, "0 ranges");
	REFUSED(deallocate(&r, many, 4), -EINVAL, "DMRL");
	REFUSED(deallocate(&r, many, 3), -ERANGE, "DMSL");
	REFUSED(deallocate(&r, &long_one, 1), -ERANGE, "DMRSL");
	cr_expect_eq(deallocate(&r, many, 2), 0, "%s", nvmfr__err_get());
	down(&r);
}

/* RIG_NS: 4 ranges, 1000 blocks each, 2500 in all. */
Test(queue_ranges, copy_limits)
{
	const struct nvmfr_range long_one = { 0, 1001 };
	const struct nvmfr_range three[] = { { 0, 1000 }, { 0, 1000 }, { 0, 501 } };
	struct ranges_rig r;

	up(&r, NULL);
	cr_expect_eq(copy(&r, 0, many, 4), 0, "%s", nvmfr__err_get());
	REFUSED(copy(&r, 0, many, 5), -EINVAL, "MSRC");
	REFUSED(copy(&r, 0, &long_one, 1), -ERANGE, "MSSRL");
	REFUSED(copy(&r, 0, three, 3), -ERANGE, "MCL");
	REFUSED(copy(&r, RIG_NS_BLOCKS - 4, many, 1), -ERANGE, "to write");
	REFUSED(copy(&r, UINT64_MAX, many, 1), -ERANGE, "to write");
	down(&r);
}

/* ---- refused --------------------------------------------------------------------------------- */

Test(queue_ranges, bad_ranges)
{
	static const struct nvmfr_range bad[][2] = {
		{ { 0, 1 }, { RIG_NS_BLOCKS, 1 } },
		{ { 0, 1 }, { RIG_NS_BLOCKS - 1, 2 } },
		{ { 0, 1 }, { 1, UINT64_MAX } },
	};
	static const struct nvmfr_range empty = { 1, 0 };
	struct ranges_rig r;

	up(&r, NULL);
	for (unsigned int i = 0; i < ARRAY_SIZE(bad); i++) {
		REFUSED(deallocate(&r, bad[i], 2), -ERANGE, "range 1");
		REFUSED(copy(&r, 0, bad[i], 2), -ERANGE, "range 1");
	}
	REFUSED(deallocate(&r, &empty, 1), -EINVAL, "no blocks");
	REFUSED(copy(&r, 0, &empty, 1), -EINVAL, "no blocks");
	cr_expect_eq(r.rig.s->posted, 0u);
	cr_expect_eq(mem[LIST_AT], 0xee, "no list was written");
	down(&r);
}

Test(queue_ranges, bad_lists)
{
	struct nvmfr_buffer source, dmabuf, other;
	struct nvmfr_qpair *qp;
	struct ranges_rig r;

	up(&r, NULL);
	qp = r.rig.qp;
	source = rig_buffer(&r.rig, (uintptr_t)mem, 4096, FAB_ACCESS_SOURCE);
	dmabuf = other = r.list;
	dmabuf.flags = BUFFER_DMABUF;
	other.host = &other;
	REFUSED(nvmfr__qpair_deallocate(qp, RIG_NS, many, 1, NULL, 0, 0), -EINVAL, "list is NULL");
	REFUSED(nvmfr__qpair_deallocate(qp, RIG_NS, many, 1, &source, 0, 0), -EINVAL,
		"ACCESS_BOTH");
	REFUSED(nvmfr__qpair_copy(qp, RIG_NS, 0, many, 1, &dmabuf, 0, 0), -EINVAL, "dma-buf");
	REFUSED(nvmfr__qpair_copy(qp, RIG_NS, 0, many, 1, &other, 0, 0), -EINVAL, "another host");
	REFUSED(nvmfr__qpair_copy(qp, RIG_NS, 0, many, 1, &r.list, sizeof(mem) - 31, 0), -ERANGE,
		"beyond");
	REFUSED(nvmfr__qpair_deallocate(qp, RIG_NS, many, 2, &r.list, sizeof(mem) - 31, 0), -ERANGE,
		"beyond");
	cr_expect_eq(r.rig.s->posted, 0u);
	rig_unbuffer(&r.rig, &source);
	down(&r);
}

Test(queue_ranges, namespaces_and_support)
{
	struct nvmfr_qpair *qp;
	struct ranges_rig r;

	up(&r, NULL);
	qp = r.rig.qp;
	REFUSED(nvmfr__qpair_deallocate(qp, 99, many, 1, &r.list, 0, 0), -ENOENT, "namespace 99");
	REFUSED(nvmfr__qpair_deallocate(qp, RIG_NS_READ_ONLY, many, 1, &r.list, 0, 0), -EROFS,
		"protected");
	REFUSED(nvmfr__qpair_copy(qp, RIG_NS_READ_ONLY, 0, many, 1, &r.list, 0, 0), -EROFS,
		"protected");
	REFUSED(nvmfr__qpair_copy(qp, RIG_NS_REFUSED, 0, many, 1, &r.list, 0, 0), -EOPNOTSUPP,
		"test says");
	down(&r);
	up(&r, &(struct rig_opts){ .no_optional = true });
	REFUSED(deallocate(&r, many, 1), -EOPNOTSUPP, "ONCS bit 2");
	REFUSED(copy(&r, 0, many, 1), -EOPNOTSUPP, "ONCS bit 8");
	down(&r);
}
