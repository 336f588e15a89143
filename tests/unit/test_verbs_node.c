/* SPDX-License-Identifier: BSD-3-Clause */
/* The NUMA node of an RDMA device. */
#include "testing.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fabric/verbs.h"

static void write_node(const char *folder, const char *text)
{
	char path[96];
	FILE *file;

	snprintf(path, sizeof(path), "%s/device/numa_node", folder);
	file = fopen(path, "w");
	cr_assert_not_null(file);
	fputs(text, file);
	fclose(file);
}

Test(verbs_node, is_what_sysfs_says)
{
	static const struct {
		const char *text;
		int node;
	} rows[] = { { "1\n", 1 }, { "0\n", 0 }, { "-1\n", -1 }, { "", -1 }, { "x", -1 } };
	char folder[] = "/tmp/nvmfr-node-XXXXXX", path[96];
	struct ibv_device device = { .name = "null0" };

	cr_assert_not_null(mkdtemp(folder));
	snprintf(device.ibdev_path, sizeof(device.ibdev_path), "%s", folder);
	cr_expect_eq(nvmfr__verbs_numa_node(&device), -1, "no such file");
	snprintf(path, sizeof(path), "%s/device", folder);
	cr_assert_eq(mkdir(path, 0700), 0);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		write_node(folder, rows[i].text);
		cr_expect_eq(nvmfr__verbs_numa_node(&device), rows[i].node, "%s", rows[i].text);
	}
	snprintf(path, sizeof(path), "%s/device/numa_node", folder);
	unlink(path);
	snprintf(path, sizeof(path), "%s/device", folder);
	rmdir(path);
	rmdir(folder);
}
