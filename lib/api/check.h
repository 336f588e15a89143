/* SPDX-License-Identifier: BSD-3-Clause */
/* What every entry point looks at first. */
#ifndef NVMFR_API_CHECK_H
#define NVMFR_API_CHECK_H

#include <errno.h>

#include "base/err.h"
#include "ctrl/host.h"

static inline int check_host(const struct nvmfr_host *host)
{
	if (!host)
		return nvmfr__fail(-EINVAL, "host is NULL");
	if (!nvmfr__host_alive(host))
		return nvmfr__fail(-EOWNERDEAD, "this host was made before fork(): it works in the "
						"parent only; make one in the child");
	return 0;
}

/* For info structs: a size that cannot be the caller's. */
static inline int check_info(const void *info, size_t size, const char *what)
{
	if (!info || size < sizeof(size_t))
		return nvmfr__fail(-EINVAL, "%s is NULL or its size is not set", what);
	return 0;
}

/* buffer.c: of a host that ends, with no queue pair left. */
void nvmfr__buffer_end(struct nvmfr_host *host, struct nvmfr_buffer *buf);

#endif
