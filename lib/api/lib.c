/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>

#include <nvmfr/nvmfr.h>

#include "base/err.h"
#include "fabric/probe.h"
#include "wire/status.h"

uint32_t nvmfr_version(void)
{
	return NVMFR_VERSION_MAJOR << 16 | NVMFR_VERSION_MINOR << 8 | NVMFR_VERSION_PATCH;
}

int nvmfr_probe(char *text, size_t text_bytes)
{
	if (!text && text_bytes)
		return nvmfr__fail(-EINVAL, "text is NULL, text_bytes is %zu", text_bytes);
	return nvmfr__verbs_probe(text, text_bytes);
}

const char *nvmfr_strerror(int err)
{
	return nvmfr__strerror(err);
}

const char *nvmfr_status_string(uint16_t status)
{
	return nvme_status_name(status);
}

const char *nvmfr_last_error(void)
{
	return nvmfr__err_get();
}
