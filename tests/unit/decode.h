/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a read, write or write zeroes says, taken from its bytes by the offsets of the
 * specification.
 */
#ifndef TESTS_UNIT_DECODE_H
#define TESTS_UNIT_DECODE_H

#include "scripted.h"

struct piece {
	uint64_t addr;
	uint32_t bytes, rkey;
};

struct decoded {
	uint8_t opcode;
	uint32_t nsid;
	uint64_t lba;
	uint32_t blocks;
	bool fua;
	bool good; /* nothing in it is against the rules */
	uint32_t count;
	struct piece pieces[FAB_MAX_DESCRIPTORS];
	uint64_t bytes;
};

/*
 * NVMe Base, keyed SGL data block descriptor: type 4h, subtype 0 (not 0Fh, which invalidates the
 * key).
 */
static inline struct piece decode_keyed(const unsigned char *sgl, bool *good)
{
	*good = *good && sgl[15] == 0x40;
	return (struct piece){ scripted_le(sgl, 8), (uint32_t)scripted_le(sgl + 8, 3),
			       (uint32_t)scripted_le(sgl + 11, 4) };
}

/* Last segment descriptor, offset: a list of that length right behind the SQE. */
static inline void decode_list(const struct scripted_cmd *cmd, struct decoded *d)
{
	uint64_t bytes = scripted_le(cmd->capsule + 32, 4);

	d->count = (uint32_t)(bytes / 16);
	d->good = d->good && scripted_le(cmd->capsule + 24, 8) == 0 && bytes % 16 == 0 &&
		  d->count > 1 && d->count <= FAB_MAX_DESCRIPTORS && cmd->is_list &&
		  cmd->tail.bytes == bytes;
	for (uint32_t i = 0; d->good && i < d->count; i++)
		d->pieces[i] = decode_keyed(cmd->list + (size_t)16 * i, &d->good);
}

static inline void decode_data(const struct scripted_cmd *cmd, struct decoded *d)
{
	const unsigned char *sgl = cmd->capsule + 24;

	if (sgl[15] == 0x31) {
		decode_list(cmd, d);
	} else if (sgl[15] == 0x01) {
		d->pieces[0] =
			(struct piece){ cmd->tail.addr, (uint32_t)scripted_le(sgl + 8, 4), 0 };
		d->good = d->good && scripted_le(sgl, 8) == 0 && cmd->is_data &&
			  cmd->tail.bytes == d->pieces[0].bytes;
	} else {
		d->pieces[0] = decode_keyed(sgl, &d->good);
		d->good = d->good && cmd->tail.bytes == 0;
	}
}

static inline struct decoded decode(const struct scripted_cmd *cmd)
{
	const unsigned char *p = cmd->capsule;
	uint32_t cdw12 = (uint32_t)scripted_le(p + 48, 4);
	struct decoded d = {
		.opcode = p[0],
		.nsid = (uint32_t)scripted_le(p + 4, 4),
		.lba = scripted_le(p + 40, 8),
		.blocks = (cdw12 & 0xffff) + 1,
		.fua = cdw12 >> 30 & 1,
		.count = 1,
	};

	/* PSDT says SGL; of CDW12 only NLB and FUA are used; CDW2, 3, MPTR, 13, 14, 15 are zero. */
	d.good = p[1] == 0x40 && !(cdw12 & ~UINT32_C(0x4000ffff)) && !scripted_le(p + 8, 8) &&
		 !scripted_le(p + 16, 8) && !scripted_le(p + 52, 4) && !scripted_le(p + 56, 8);
	decode_data(cmd, &d);
	for (uint32_t i = 0; d.good && i < d.count; i++)
		d.bytes += d.pieces[i].bytes;
	return d;
}

#endif
