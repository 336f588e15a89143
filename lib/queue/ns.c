/* SPDX-License-Identifier: BSD-3-Clause */
#include "queue/ns.h"

#include <stdlib.h>

struct ns_table *nvmfr__ns_table_new(uint32_t count)
{
	struct ns_table *table = calloc(1, sizeof(*table) + count * sizeof(table->entries[0]));

	if (table) {
		atomic_init(&table->refs, 1);
		table->count = count;
	}
	return table;
}

struct ns_table *nvmfr__ns_table_get(struct ns_table *table)
{
	if (table)
		atomic_fetch_add_explicit(&table->refs, 1, memory_order_relaxed);
	return table;
}

void nvmfr__ns_table_put(struct ns_table *table)
{
	if (table && atomic_fetch_sub_explicit(&table->refs, 1, memory_order_acq_rel) == 1)
		free(table);
}

/* The first entry with an NSID of at least nsid. */
static const struct ns_entry *lower_bound(const struct ns_table *table, uint32_t nsid)
{
	uint32_t from = 0, to = table ? table->count : 0;

	while (from < to) {
		uint32_t middle = from + (to - from) / 2;

		if (table->entries[middle].nsid < nsid)
			from = middle + 1;
		else
			to = middle;
	}
	return table && from < table->count ? &table->entries[from] : NULL;
}

const struct ns_entry *nvmfr__ns_find(const struct ns_table *table, uint32_t nsid)
{
	const struct ns_entry *entry = lower_bound(table, nsid);

	return entry && entry->nsid == nsid ? entry : NULL;
}

const struct ns_entry *nvmfr__ns_after(const struct ns_table *table, uint32_t nsid)
{
	return nsid == UINT32_MAX ? NULL : lower_bound(table, nsid + 1);
}
