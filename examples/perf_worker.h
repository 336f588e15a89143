/* SPDX-License-Identifier: BSD-3-Clause */
/* How an I/O is chosen and built: inside the loop, and for --verify. */
#ifndef EXAMPLES_PERF_WORKER_H
#define EXAMPLES_PERF_WORKER_H

#include "perf.h"

/* xorshift64: fast, and good enough to choose places. */
static inline uint64_t worker_random(struct worker *w)
{
	uint64_t x = w->random_state;

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	return w->random_state = x;
}

static inline uint64_t worker_next_place(struct worker *w, unsigned int ahead)
{
	if (w->random)
		return worker_random(w) % w->places;
	return (w->position + ahead) % w->places;
}

static inline bool worker_next_is_read(struct worker *w)
{
	uint64_t percent = w->read_percent;

	if (percent == 0 || percent == 100)
		return percent == 100;
	return (worker_random(w) >> 32) % 100 < percent;
}

/* Where the slot that is `ahead` of the first free one is kept. */
static inline uint16_t *worker_slot(const struct worker *w, unsigned int ahead)
{
	unsigned int at = w->free_first + ahead;

	return &w->free_slots[at < w->depth ? at : at - w->depth];
}

static inline void worker_build(struct worker *w, struct nvmfr_io *io, uint16_t slot, uint64_t place, bool read)
{
	*io = (struct nvmfr_io){
		.op = read ? NVMFR_OP_READ : NVMFR_OP_WRITE,
		.nsid = w->nsid,
		.lba = w->first_lba + place * w->io_blocks,
		.nblocks = w->io_blocks,
		.buf = w->buf,
		.offset_bytes = slot * w->opts->io_bytes,
		.user_data = slot | (read ? 0 : WRITES),
	};
	if (w->iovs) {
		io->flags = NVMFR_IO_VEC;
		io->iov = &w->iovs[slot * w->opts->pieces];
		io->niov = w->opts->pieces;
	}
}

#endif
