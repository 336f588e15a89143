/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The Asymmetric Namespace Access log (NVM Express Base, Log Page 0Ch), read in pieces: nothing is kept of it
 * but the place, so a log of any length needs no memory.
 */
#ifndef NVMFR_WIRE_ANA_H
#define NVMFR_WIRE_ANA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/bytes.h"

enum nvme_ana_state {
	NVME_ANA_NONE = 0, /* ours: not told */
	NVME_ANA_OPTIMIZED = 0x1,
	NVME_ANA_NON_OPTIMIZED = 0x2,
	NVME_ANA_INACCESSIBLE = 0x3,
	NVME_ANA_PERSISTENT_LOSS = 0x4,
	NVME_ANA_CHANGE = 0xf,
};

struct nvme_ana_header {
	le64 chgcnt;
	le16 ngrps;
	uint8_t rsvd10[6];
};
_Static_assert(sizeof(struct nvme_ana_header) == 16, "ANA log header");

/* The NSIDs follow. */
struct nvme_ana_group {
	le32 anagrpid;
	le32 nnsids;
	le64 chgcnt;
	uint8_t state; /* bits 3:0 */
	uint8_t rsvd17[15];
};
_Static_assert(sizeof(struct nvme_ana_group) == 32, "ANA group descriptor");

enum { NVME_ANA_MAX_NSIDS = 1 << 20 }; /* in all groups together: more are a peer's nonsense */

/* Zero: nothing was read yet. */
struct ana_reader {
	uint64_t offset; /* where the next piece begins */
	uint64_t change_count;
	uint32_t groups; /* not begun yet */
	uint32_t nsids; /* of the present one, to come */
	uint32_t nsids_read;
	uint32_t group;
	uint8_t state;
	bool begun, done;
};

struct ana_item {
	uint32_t nsid, group;
	uint8_t state; /* as it came: a reserved value is none that I/O may follow */
};

/*
 * The next namespace of a piece of the log that was read from reader->offset on; *at, 0 at first, is the place in
 * it. 1: item is filled; 0: read on at reader->offset, unless reader->done; -EPROTO with a sentence.
 */
int nvme_ana_next(struct ana_reader *reader, const void *piece, size_t bytes, size_t *at, struct ana_item *item);

#endif
