/* SPDX-License-Identifier: BSD-3-Clause */
/* Commands whose data is a list of ranges: deallocate and copy. */
#include "queue/ranges.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/err.h"
#include "queue/command.h"
#include "wire/ranges.h"

/* What limits a list. */
struct bounds {
	uint32_t ranges;
	uint64_t range_blocks, blocks;
	const char *ranges_name, *range_name, *blocks_name;
};

static int check_namespace(const struct nvmfr_qpair *qp, uint32_t nsid, const struct ns_entry **out)
{
	const struct ns_entry *ns = nvmfr__ns_find(qp->ns, nsid);

	*out = ns;
	if (!ns)
		return nvmfr__fail(-ENOENT, "namespace %u is not active on this controller", nsid);
	if (ns->refusal)
		return nvmfr__fail(-EOPNOTSUPP, "namespace %u: %s", nsid, ns->refusal);
	if (ns->write_protected)
		return nvmfr__fail(-EROFS, "namespace %u is write protected", nsid);
	return 0;
}

static int check_range(const struct ns_entry *ns, const struct nvmfr_range *range, unsigned int i,
		       const struct bounds *bounds)
{
	if (range->nblocks == 0)
		return nvmfr__fail(-EINVAL, "range %u has no blocks", i);
	if (range->lba >= ns->blocks || range->nblocks > ns->blocks - range->lba)
		return nvmfr__fail(-ERANGE,
				   "range %u: LBA %" PRIu64 " and %" PRIu64
				   " blocks reach beyond namespace %u, which has %" PRIu64
				   " blocks",
				   i, range->lba, range->nblocks, ns->nsid, ns->blocks);
	if (range->nblocks > bounds->range_blocks)
		return nvmfr__fail(-ERANGE,
				   "range %u: %" PRIu64 " blocks, one range takes %" PRIu64 " (%s)",
				   i, range->nblocks, bounds->range_blocks, bounds->range_name);
	return 0;
}

static int check_ranges(const struct ns_entry *ns, const struct nvmfr_range *ranges, unsigned int n,
			const struct bounds *bounds, uint64_t *blocks)
{
	int err = 0;

	*blocks = 0;
	if (n == 0 || n > bounds->ranges)
		return nvmfr__fail(-EINVAL, "%u ranges: one command takes 1 to %u (%s)", n,
				   bounds->ranges, bounds->ranges_name);
	for (unsigned int i = 0; i < n && !err; i++) {
		err = check_range(ns, &ranges[i], i, bounds);
		*blocks += ranges[i].nblocks;
	}
	if (!err && *blocks > bounds->blocks)
		return nvmfr__fail(-ERANGE,
				   "%" PRIu64 " blocks: one command takes %" PRIu64 " (%s)",
				   *blocks, bounds->blocks, bounds->blocks_name);
	return err;
}

static unsigned char *list_at(const struct nvmfr_buffer *list, uint64_t offset)
{
	return (unsigned char *)(uintptr_t)list->addr + offset;
}

static void set64(le32 dwords[2], uint64_t value)
{
	dwords[0] = to_le32((uint32_t)value);
	dwords[1] = to_le32((uint32_t)(value >> 32));
}

/* ---- deallocate ---------------------------------------------------------------------------------- */

int nvmfr__qpair_deallocate(struct nvmfr_qpair *qp, uint32_t nsid, const struct nvmfr_range *ranges,
			    unsigned int n, struct nvmfr_buffer *list, uint64_t offset,
			    uint64_t user_data)
{
	const struct queue_limits *limits = &qp->limits;
	const struct bounds bounds = {
		.ranges = limits->dsm_ranges,
		.range_blocks = limits->dsm_range_blocks,
		.blocks = limits->dsm_blocks,
		.ranges_name = "DMRL",
		.range_name = "DMRSL",
		.blocks_name = "DMSL",
	};
	const struct ns_entry *ns;
	struct nvme_sqe sqe;
	uint64_t blocks;
	int err = nvmfr__qpair_make_room(qp);

	if (!err && !limits->dsm)
		err = nvmfr__fail(-EOPNOTSUPP,
				  "the controller has no Dataset Management (ONCS bit 2 is clear)");
	if (!err)
		err = check_namespace(qp, nsid, &ns);
	if (!err)
		err = check_ranges(ns, ranges, n, &bounds, &blocks);
	if (!err)
		err = nvmfr__command_memory(list, "list");
	if (err)
		return err;
	nvme_sqe_init(&sqe, NVME_IO_DSM);
	sqe.nsid = to_le32(nsid);
	sqe.cdw10 = to_le32(n - 1);
	sqe.cdw11 = to_le32(NVME_DSM_DEALLOCATE);
	err = nvmfr__command_data(qp, list, offset, n * sizeof(struct nvme_dsm_range), NVME_IO_DSM,
				  &sqe.dptr);
	if (err)
		return err;
	for (unsigned int i = 0; i < n; i++) {
		struct nvme_dsm_range range = { .nlb = to_le32((uint32_t)ranges[i].nblocks),
						.slba = to_le64(ranges[i].lba) };

		memcpy(list_at(list, offset) + i * sizeof(range), &range, sizeof(range));
	}
	return nvmfr__command_post(qp, &sqe, list, user_data);
}

/* ---- copy ---------------------------------------------------------------------------------------- */

static int check_destination(const struct ns_entry *ns, uint64_t lba, uint64_t blocks)
{
	if (lba >= ns->blocks || blocks > ns->blocks - lba)
		return nvmfr__fail(-ERANGE,
				   "LBA %" PRIu64 " and %" PRIu64
				   " blocks to write reach beyond namespace %u, which has %" PRIu64
				   " blocks",
				   lba, blocks, ns->nsid, ns->blocks);
	return 0;
}

static int check_copy(const struct nvmfr_qpair *qp, uint32_t nsid, uint64_t lba,
		      const struct nvmfr_range *ranges, unsigned int n)
{
	struct bounds bounds = { .ranges_name = "MSRC",
				 .range_name = "MSSRL",
				 .blocks_name = "MCL" };
	const struct ns_entry *ns;
	uint64_t blocks;
	int err = check_namespace(qp, nsid, &ns);

	if (err)
		return err;
	bounds.ranges = ns->copy_ranges;
	bounds.range_blocks = ns->copy_range_blocks;
	bounds.blocks = ns->copy_blocks;
	err = check_ranges(ns, ranges, n, &bounds, &blocks);
	return err ? err : check_destination(ns, lba, blocks);
}

int nvmfr__qpair_copy(struct nvmfr_qpair *qp, uint32_t nsid, uint64_t lba,
		      const struct nvmfr_range *ranges, unsigned int n, struct nvmfr_buffer *list,
		      uint64_t offset, uint64_t user_data)
{
	struct nvme_sqe sqe;
	le32 dwords[2];
	int err = nvmfr__qpair_make_room(qp);

	if (!err && !qp->limits.copy)
		err = nvmfr__fail(-EOPNOTSUPP, "the controller has no Copy (ONCS bit 8 is clear)");
	if (!err)
		err = check_copy(qp, nsid, lba, ranges, n);
	if (!err)
		err = nvmfr__command_memory(list, "list");
	if (err)
		return err;
	nvme_sqe_init(&sqe, NVME_IO_COPY);
	set64(dwords, lba);
	sqe.nsid = to_le32(nsid);
	sqe.cdw10 = dwords[0];
	sqe.cdw11 = dwords[1];
	sqe.cdw12 = to_le32(n - 1);
	err = nvmfr__command_data(qp, list, offset, n * sizeof(struct nvme_copy_range),
				  NVME_IO_COPY, &sqe.dptr);
	if (err)
		return err;
	for (unsigned int i = 0; i < n; i++) {
		struct nvme_copy_range range = { .slba = to_le64(ranges[i].lba),
						 .nlb = to_le16(
							 (uint16_t)(ranges[i].nblocks - 1)) };

		memcpy(list_at(list, offset) + i * sizeof(range), &range, sizeof(range));
	}
	return nvmfr__command_post(qp, &sqe, list, user_data);
}
