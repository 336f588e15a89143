/* SPDX-License-Identifier: BSD-3-Clause */
/* What a policy says of a path. */
#include <criterion/criterion.h>

#include "path/mpath.h"
#include "wire/status.h"

Test(path, costs)
{
	static const struct {
		uint32_t policy;
		uint64_t bytes;
		int node, here;
		uint64_t cost;
	} rows[] = {
		{ NVMFR_MPATH_ROUND_ROBIN, 4096, 1, 0, 0 },
		{ NVMFR_MPATH_LEAST_BYTES, 4096, 1, 0, 4096 },
		{ NVMFR_MPATH_LEAST_BYTES, 0, 0, 0, 0 },
		{ NVMFR_MPATH_NUMA, 4096, 0, 0, 0 },
		{ NVMFR_MPATH_NUMA, 0, 1, 0, 1 },
		{ NVMFR_MPATH_NUMA, 0, -1, 0, 0 }, /* unknown: not far */
	};

	for (unsigned int i = 0; i < ARRAY_SIZE(rows); i++) {
		const struct way way = { .counts[WAY_BYTES_IN_FLIGHT] = rows[i].bytes, .numa_node = rows[i].node };

		cr_expect_eq(way_cost(rows[i].policy, &way, rows[i].here), rows[i].cost, "row %u", i);
	}
}

Test(path, statuses)
{
	static const struct {
		uint16_t status;
		bool path;
	} rows[] = {
		{ 0, false },
		{ NVME_ST_INTERNAL_PATH, true },
		{ NVME_ST_ANA_PERSISTENT_LOSS, true },
		{ NVME_ST_ANA_INACCESSIBLE, true },
		{ NVME_ST_ANA_TRANSITION, true },
		{ NVME_ST_CTRL_PATHING, true },
		{ NVME_ST_HOST_PATHING, true },
		{ NVME_ST_HOST_PATHING | 0x4000, false }, /* DNR */
		{ NVME_ST_ANA_INACCESSIBLE | 0x1800, true }, /* CRD */
		{ NVME_ST_WRITE_FAULT, false },
		{ NVME_ST_NS_NOT_READY, false },
	};

	for (unsigned int i = 0; i < ARRAY_SIZE(rows); i++)
		cr_expect_eq(nvme_status_is_path(rows[i].status), rows[i].path, "0x%x", rows[i].status);
}
