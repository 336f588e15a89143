/* SPDX-License-Identifier: BSD-3-Clause */
/* The target's discovery log: itself, and the entries that a test put there. */
#include "fabric/soft.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "wire/discovery.h"

/* Header and entries have one size: the log is an array of them. */
enum { UNIT = sizeof(struct nvme_discovery_record) };
_Static_assert(sizeof(struct nvme_discovery_header) == UNIT, "a header is as long as an entry");

/* Nothing is registered for memory: the closest is the loop transport. */
static void own_entry(const struct nvmfr_soft_target *target, unsigned char *out)
{
	struct nvme_discovery_record record = {
		.trtype = NVME_TRTYPE_LOOP,
		.adrfam = NVME_ADRFAM_LOOP,
		.subtype = NVME_DISC_NVM,
		.cntlid = to_le16(NVME_CNTLID_DYNAMIC),
		.asqsz = to_le16(32),
	};

	memcpy(record.subnqn, target->subnqn, sizeof(target->subnqn));
	memcpy(record.traddr, target->name, sizeof(target->name));
	memcpy(out, &record, sizeof(record));
}

/* Zeroes behind the last. */
static void put_unit(const struct nvmfr_soft_target *target, uint64_t index, unsigned char *out)
{
	struct nvme_discovery_header header = {
		.genctr = to_le64(1 + target->log_changes),
		.numrec = to_le64(1 + (uint64_t)target->n_entries),
	};

	memset(out, 0, UNIT);
	if (index == 0)
		memcpy(out, &header, sizeof(header));
	else if (index == 1)
		own_entry(target, out);
	else if (index - 2 < target->n_entries)
		memcpy(out, target->entries + (index - 2) * UNIT, UNIT);
}

uint64_t nvmfr__soft_discovery_log(const struct nvmfr_soft_target *target, uint64_t offset,
				   unsigned char *out, size_t room)
{
	unsigned char unit[UNIT];

	for (size_t at = 0; at < room;) {
		size_t skip = (offset + at) % UNIT, bytes = nvmfr__min_u64(UNIT - skip, room - at);

		put_unit(target, (offset + at) / UNIT, unit);
		memcpy(out + at, unit + skip, bytes);
		at += bytes;
	}
	return (2 + (uint64_t)target->n_entries) * UNIT;
}

int nvmfr__soft_discovery_set(struct nvmfr_soft_target *target, const void *entries, uint32_t count)
{
	unsigned char *copy = count ? malloc((size_t)count * UNIT) : NULL, *old;

	if (count && !copy)
		return nvmfr__fail(-ENOMEM, "soft target '%s': no memory for %u entries",
				   target->name, count);
	if (count)
		memcpy(copy, entries, (size_t)count * UNIT);
	nvmfr__soft_lock(target);
	old = target->entries;
	target->entries = copy;
	target->n_entries = count;
	nvmfr__soft_tell(target, NVMFR_SOFT_NOTICE_DISCOVERY);
	nvmfr__soft_unlock(target);
	free(old);
	return 0;
}
