/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef NVMFR_API_IDENTITY_H
#define NVMFR_API_IDENTITY_H

#include <nvmfr/nvmfr.h>

#include "ctrl/host.h"

/*
 * Who we are, as a stable pair: what the options say, else /etc/nvme, else made from the machine id.
 * An ID is derived from its NQN unless it came with it; it is never zero.
 */
int nvmfr__identity(const struct nvmfr_host_opts *opts, struct nvmfr_host *host);

#endif
