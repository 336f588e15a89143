/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The active namespaces of a controller, as an immutable table: the service makes a new one when
 * something changes, queue pairs hold a reference to the one they have adopted.
 */
#ifndef NVMFR_QUEUE_NS_H
#define NVMFR_QUEUE_NS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct ns_entry {
	uint64_t blocks;
	uint32_t nsid;
	uint32_t shift; /* log2 of the bytes of a block */
	uint32_t metadata_bytes;
	bool write_protected;
	uint32_t another; /* ns_table generation in which its identity became this one */
	uint8_t ana_state; /* enum nvme_ana_state */
	uint16_t copy_ranges; /* Copy: MSRC, 1 or more */
	uint32_t copy_range_blocks, copy_blocks; /* MSSRL, MCL, or what fits */
	uint32_t ana_group; /* 0: none */
	const char *refusal; /* why no I/O is possible; NULL: it is */
	uint8_t nguid[16], uuid[16], eui64[8];
};

struct ns_table {
	_Atomic uint32_t refs;
	uint32_t count;
	struct ns_entry entries[]; /* NSID ascending */
};

struct ns_table *nvmfr__ns_table_new(uint32_t count); /* one reference, entries zeroed */
struct ns_table *nvmfr__ns_table_get(struct ns_table *table);
void nvmfr__ns_table_put(struct ns_table *table); /* accepts NULL */

/* The entry of nsid; the first entry above it. NULL: none. Both accept a NULL table. */
const struct ns_entry *nvmfr__ns_find(const struct ns_table *table, uint32_t nsid);
const struct ns_entry *nvmfr__ns_after(const struct ns_table *table, uint32_t nsid);

#endif
