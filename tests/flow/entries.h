/* SPDX-License-Identifier: BSD-3-Clause */
/* Entries of discovery logs, and targets that hold them and tell of their changes. */
#ifndef NVMFR_TESTS_ENTRIES_H
#define NVMFR_TESTS_ENTRIES_H

#include "flow.h"

#include <stdlib.h>
#include <string.h>

#define DISCOVERY_NQN "nqn.2014-08.org.nvmexpress.discovery"

enum {
	ENTRY = 1024,
	OPC_GET_LOG = 0x02,
	LID_DISCOVERY = 0x70,
	RDMA = 1,
	TCP = 3,
	LOOP = 254,
	REFERRAL = 1,
	NVM = 2,
	OAES_DISCOVERY_BIT = 31,
	MOST = 16384,
};

/* ---- entries, by the offsets of the specification -------------------------------------------- */

struct entry {
	uint8_t trtype, adrfam, subtype;
	uint16_t portid;
	const char *traddr, *trsvcid, *subnqn;
};

/* What is behind a string: blanks, or NULs. */
static inline void put(unsigned char *field, size_t bytes, const char *text, char pad)
{
	memset(field, pad, bytes);
	memcpy(field, text, strlen(text));
}

static inline void make(unsigned char *out, const struct entry *entry, char pad)
{
	memset(out, 0, ENTRY);
	out[0] = entry->trtype;
	out[1] = entry->adrfam;
	out[2] = entry->subtype;
	out[4] = (unsigned char)entry->portid;
	out[5] = (unsigned char)(entry->portid >> 8);
	out[6] = out[7] = 0xff;
	out[8] = 32;
	put(out + 32, 32, entry->trsvcid, pad);
	put(out + 256, 256, entry->subnqn, pad);
	put(out + 512, 256, entry->traddr, pad);
}

static inline void set(struct nvmfr_soft_target *target, const struct entry *entries, uint32_t n, char pad)
{
	unsigned char *bytes = calloc(n + 1, ENTRY);

	cr_assert_not_null(bytes);
	for (uint32_t i = 0; i < n; i++)
		make(bytes + i * (size_t)ENTRY, &entries[i], pad);
	cr_assert_eq(nvmfr_soft_discovery_set(target, bytes, n), 0, "%s", nvmfr_last_error());
	free(bytes);
}

static inline struct nvmfr_soft_target *target(const struct flow *f, const char *name)
{
	struct nvmfr_soft_opts opts = flow_soft_opts();
	struct nvmfr_soft_target *out;

	opts.oaes |= UINT32_C(1) << OAES_DISCOVERY_BIT;
	cr_assert_eq(nvmfr_soft_target_create(f->host, name, &opts, &out), 0, "%s",
		     nvmfr_last_error());
	return out;
}

#endif
