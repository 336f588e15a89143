/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef NVMFR_FABRIC_PROBE_H
#define NVMFR_FABRIC_PROBE_H

#include <stddef.h>

/* What the machine offers, as JSON. Returns the bytes that the whole text needs, its NUL included. */
int nvmfr__verbs_probe(char *text, size_t bytes);

#endif
