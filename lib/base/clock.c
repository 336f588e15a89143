/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/clock.h"

#include <time.h>

#define NS_PER_S  UINT64_C(1000000000)
#define NS_PER_MS UINT64_C(1000000)

static uint64_t real_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * NS_PER_S + (uint64_t)ts.tv_nsec;
}

void nvmfr__clock_init(struct nvmfr__clock *clock)
{
	atomic_init(&clock->virtual_ns, 0);
}

uint64_t nvmfr__clock_now_ns(const struct nvmfr__clock *clock)
{
	uint64_t frozen = atomic_load_explicit(&clock->virtual_ns, memory_order_acquire);

	return frozen ? frozen : real_ns();
}

uint64_t nvmfr__clock_now_ms(const struct nvmfr__clock *clock)
{
	return nvmfr__clock_now_ns(clock) / NS_PER_MS;
}

void nvmfr__clock_freeze(struct nvmfr__clock *clock)
{
	uint64_t running = 0;

	/* Compare and exchange: of two threads that freeze, one decides the time. */
	atomic_compare_exchange_strong(&clock->virtual_ns, &running, real_ns() | 1);
}

void nvmfr__clock_advance_ns(struct nvmfr__clock *clock, uint64_t ns)
{
	nvmfr__clock_freeze(clock);
	atomic_fetch_add_explicit(&clock->virtual_ns, ns, memory_order_acq_rel);
}

bool nvmfr__clock_is_virtual(const struct nvmfr__clock *clock)
{
	return atomic_load_explicit(&clock->virtual_ns, memory_order_acquire) != 0;
}
