/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whether a wait begins with polls or sleeps at once: learned from how long the recent ones took.
 *
 * To sleep and to be woken costs about 10 us of CPU and of latency, more from a deep idle state. So
 * polls pay for answers that come sooner than that, and who polls for 20 us in vain has paid about
 * twice. An answer that came while its waiter slept bears the wake-up's time and may have been quick
 * all the same: therefore some of the waits poll even where it did not pay lately.
 */
#ifndef NVMFR_BASE_PACE_H
#define NVMFR_BASE_PACE_H

#include <stdint.h>

enum {
	PACE_SPIN_NS = 20000, /* longest polling in vain */
	PACE_PATIENCE = 4, /* slow answers in a row until waits sleep at once */
	PACE_RETRY = 16, /* from then on one wait in so many polls first */
	PACE_NAP_NS = 50000, /* longest pause for more: the bound on what it delays a wait */
};

/* One for each thing that is waited for, zero at first. Its waiter's own. */
struct wait_pace {
	uint32_t slow; /* answers in a row that polls would not have caught */
};

static inline uint64_t pace_spin_ns(const struct wait_pace *pace)
{
	return pace->slow < PACE_PATIENCE || pace->slow % PACE_RETRY == 0 ? PACE_SPIN_NS : 0;
}

/* The first answer of a wait that did not find one there. */
static inline void pace_learn(struct wait_pace *pace, uint64_t took_ns)
{
	pace->slow = took_ns <= PACE_SPIN_NS ? 0 : pace->slow + 1;
}

/* When the missing ones will be there, at the pace of those that came (1 or more) in waited_ns. */
static inline uint64_t pace_rest_ns(uint64_t waited_ns, uint32_t came, uint32_t missing)
{
	return waited_ns / came * missing;
}

/*
 * The first is there: how long to pause without asking for a wake-up, 0: not at all. Where several
 * will come within a pause, each of them would ring the bell. Moderation by the NIC (ibv_modify_cq)
 * does that too where the device has it; but it is a command to the firmware whenever the number
 * wanted changes, and it delays the waits for one as well.
 */
static inline uint64_t pace_nap_ns(uint64_t waited_ns, uint32_t came, uint32_t missing)
{
	uint64_t rest;

	if (!came)
		return PACE_NAP_NS; /* to see how many will */
	if (waited_ns / came >= PACE_NAP_NS / 2)
		return 0;
	rest = pace_rest_ns(waited_ns, came, missing);
	return rest < PACE_NAP_NS ? rest : PACE_NAP_NS;
}

#endif
