/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef NVMFR_FABRIC_PAGES_H
#define NVMFR_FABRIC_PAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PAGE_BYTES UINT64_C(4096) /* the smallest; larger pages are multiples of it */

/* One mapping of this process. */
struct pages_map {
	uint64_t start, end;
	uint64_t file_offset; /* of start */
	bool readable, writable, shared;
	char path[192]; /* a file's; "" or "[...]": anonymous */
};

/* The mapping that holds addr. False: none, or the list cannot be read. */
bool nvmfr__pages_find(uint64_t addr, struct pages_map *map);

/* How much this process may lock. UINT64_MAX: any amount (no limit, or CAP_IPC_LOCK). */
uint64_t nvmfr__pages_lock_limit(void);

/* A hint for pages not yet touched: a full node does not make them fail. -EINVAL: no such node. */
int nvmfr__pages_prefer_node(void *addr, size_t bytes, int numa_node);

#endif
