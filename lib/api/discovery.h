/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef NVMFR_API_DISCOVERY_H
#define NVMFR_API_DISCOVERY_H

struct nvmfr_discovery;

/* A persistent one whose controller is lost: another one, with what cannot be asked now as it was. */
int nvmfr__discovery_anew(struct nvmfr_discovery *d);

#endif
