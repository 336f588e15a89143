/* SPDX-License-Identifier: BSD-3-Clause */
/* A program outside the project: knows the installed headers, the library, and nothing else. */
#include <nvmfr/nvmfr.h>
#include <nvmfr/soft.h>

#include <stdio.h>

int main(void)
{
	struct nvmfr_host *host = NULL;
	struct nvmfr_soft_target *target = NULL;
	int err;

	printf("nvmfr %#x\n", (unsigned int)nvmfr_version());
	err = nvmfr_host_create(NULL, &host);
	if (!err)
		err = nvmfr_soft_target_create(host, "outside", NULL, &target);
	if (err)
		printf("failed: %s\n", nvmfr_last_error());
	nvmfr_soft_target_destroy(target);
	nvmfr_host_destroy(host);
	return err ? 1 : 0;
}
