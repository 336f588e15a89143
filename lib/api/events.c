/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>

#include <nvmfr/nvmfr.h>

#include "api/check.h"

int nvmfr_host_events(struct nvmfr_host *host, struct nvmfr_event *out, unsigned int max)
{
	int err = check_host(host);

	if (!err && (!out || !max || max > INT32_MAX))
		err = nvmfr__fail(-EINVAL, "%s",
				  out ? "max is not from 1 to 2^31 - 1" : "out is NULL");
	return err ? err : (int)nvmfr__events_take(&host->events, out, max);
}

int nvmfr_host_event_fd(struct nvmfr_host *host)
{
	int err = check_host(host);

	return err ? err : nvmfr__events_fd(&host->events);
}
