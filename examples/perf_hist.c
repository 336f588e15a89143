/* SPDX-License-Identifier: BSD-3-Clause */
#include "perf_hist.h"

void hist_merge(struct histogram *into, const struct histogram *from)
{
	if (!from->count)
		return;
	if (!into->count || from->min < into->min)
		into->min = from->min;
	if (from->max > into->max)
		into->max = from->max;
	into->count += from->count;
	into->sum += from->sum;
	for (unsigned int i = 0; i < HIST_BUCKETS; i++)
		into->buckets[i] += from->buckets[i];
}

uint64_t hist_bucket_top(unsigned int bucket)
{
	unsigned int shift;

	if (bucket < HIST_LINEAR)
		return bucket;
	shift = (bucket >> HIST_LINEAR_BITS) - 1;
	return (((uint64_t)bucket - (shift << HIST_LINEAR_BITS) + 1) << shift) - 1;
}

uint64_t hist_bucket_low(unsigned int bucket)
{
	return bucket ? hist_bucket_top(bucket - 1) + 1 : 0;
}

uint64_t hist_percentile(const struct histogram *hist, double percent)
{
	double wanted = (double)hist->count * percent / 100.0;
	uint64_t seen = 0;

	for (unsigned int i = 0; i < HIST_BUCKETS; i++) {
		seen += hist->buckets[i];
		if (seen && (double)seen >= wanted)
			return hist_bucket_top(i) < hist->max ? hist_bucket_top(i) : hist->max;
	}
	return hist->max;
}
