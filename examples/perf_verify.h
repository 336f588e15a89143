/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef EXAMPLES_PERF_VERIFY_H
#define EXAMPLES_PERF_VERIFY_H

#include "perf_pattern.h"

#include <nvmfr/nvmfr.h>

struct worker;

/*
 * What a thread knows of its own part of the range, which no other thread touches. A place (the blocks
 * of one I/O) has at most one I/O in flight, so that what a read must bring is never in doubt.
 */
struct verify {
	struct pattern pattern;
	uint32_t *places; /* generation of the last completed write, and whether an I/O is in flight */
	uint64_t *slot_places; /* by slot */
	uint64_t capacity; /* blocks of the namespace */
	uint64_t checked, mismatches; /* reads */
	char failure[512]; /* the first mismatch */
};

/* 0 or -ENOMEM. written: the range holds generation 1 already. */
int verify_init(struct worker *w, uint32_t seed, uint64_t capacity, bool written);
void verify_fini(struct worker *w);

/* Builds up to `want` I/Os on places without one in flight, buffers included. Returns how many. */
unsigned int verify_build(struct worker *w, struct nvmfr_io *ios, unsigned int want);

/* These were not taken. */
void verify_undo(struct worker *w, const struct nvmfr_io *ios, unsigned int n);

/* Looks at what was read. The first failure ends the run of all threads. */
void verify_collect(struct worker *w, const struct nvmfr_completion *done, unsigned int n);

#endif
