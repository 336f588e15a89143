/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef NVMFR_BASE_CLOCK_H
#define NVMFR_BASE_CLOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * One clock a host. Real: CLOCK_MONOTONIC. Frozen: virtual time that moves only by advance, so that
 * tests of timeouts neither sleep nor race. Any thread may read it.
 */
struct nvmfr__clock {
	_Atomic uint64_t virtual_ns; /* 0: real time */
};

void nvmfr__clock_init(struct nvmfr__clock *clock);
uint64_t nvmfr__clock_now_ns(const struct nvmfr__clock *clock);
uint64_t nvmfr__clock_now_ms(const struct nvmfr__clock *clock);

/*
 * Stops at the present real time, so that deadlines taken before stay meaningful. No effect if
 * frozen.
 */
void nvmfr__clock_freeze(struct nvmfr__clock *clock);

/* Freezes a running clock first: time that was moved by hand must not be overtaken by real time. */
void nvmfr__clock_advance_ns(struct nvmfr__clock *clock, uint64_t ns);
bool nvmfr__clock_is_virtual(const struct nvmfr__clock *clock);

#endif
