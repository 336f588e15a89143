/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>

#include <nvmfr/soft.h>

#include "api/check.h"

int nvmfr_soft_clock_freeze(struct nvmfr_host *host)
{
	int err = check_host(host);

	if (err)
		return err;
	if (!host->manual)
		return nvmfr__fail(
			-EINVAL,
			"the clock of a host with a service thread cannot be frozen: NVMFR_HOST_MANUAL");
	nvmfr__clock_freeze(&host->clock);
	return 0;
}

int nvmfr_soft_clock_advance_us(struct nvmfr_host *host, uint64_t us)
{
	int err = check_host(host);

	if (err)
		return err;
	if (!nvmfr__clock_is_virtual(&host->clock))
		return nvmfr__fail(-EINVAL,
				   "the clock is not frozen: nvmfr_soft_clock_freeze() first");
	nvmfr__clock_advance_ns(&host->clock, us * 1000);
	return 0;
}
