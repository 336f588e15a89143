/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef EXAMPLES_PERF_HIST_H
#define EXAMPLES_PERF_HIST_H

#include <stdint.h>

/*
 * Log-linear: below 64 one bucket a value, above it 64 buckets to each power of two, so a bucket is
 * never wider than 1/64 of its values. Values of 2^42 (over an hour in ns) and more share the last.
 */
#define HIST_LINEAR_BITS 6
#define HIST_LINEAR	 (1u << HIST_LINEAR_BITS)
#define HIST_VALUE_BITS	 42
#define HIST_BUCKETS	 ((HIST_VALUE_BITS - HIST_LINEAR_BITS + 1) * HIST_LINEAR)

struct histogram {
	uint64_t count, sum, min, max;
	uint64_t buckets[HIST_BUCKETS];
};

static inline unsigned int hist_bucket(uint64_t value)
{
	unsigned int shift;

	if (value < HIST_LINEAR)
		return (unsigned int)value;
	if (value >> HIST_VALUE_BITS)
		return HIST_BUCKETS - 1;
	shift = 63 - (unsigned int)__builtin_clzll(value) - HIST_LINEAR_BITS;
	return (shift << HIST_LINEAR_BITS) + (unsigned int)(value >> shift);
}

static inline void hist_add(struct histogram *hist, uint64_t value)
{
	hist->buckets[hist_bucket(value)]++;
	hist->sum += value;
	if (value > hist->max)
		hist->max = value;
	if (!hist->count++ || value < hist->min)
		hist->min = value;
}

void hist_merge(struct histogram *into, const struct histogram *from);

/* The smallest and the largest value of a bucket. */
uint64_t hist_bucket_low(unsigned int bucket);
uint64_t hist_bucket_top(unsigned int bucket);

/* The value that `percent` of all are not above; 0 when there is none. */
uint64_t hist_percentile(const struct histogram *hist, double percent);

#endif
