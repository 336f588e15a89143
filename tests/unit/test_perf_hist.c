/* SPDX-License-Identifier: BSD-3-Clause */
/* The latency histogram of nvmfr-perf. */
#include "../examples/perf_hist.h"

#include <string.h>

#include "testing.h"

static struct histogram hist;

static void empty(void)
{
	memset(&hist, 0, sizeof(hist));
}

static void add_all(uint64_t first, uint64_t last)
{
	for (uint64_t value = first; value <= last; value++)
		hist_add(&hist, value);
}

Test(perf_hist, each_value_is_in_its_bucket)
{
	for (unsigned int bit = 0; bit < HIST_VALUE_BITS; bit++) {
		for (unsigned int around = 0; around <= 2; around++) {
			uint64_t value = (1ull << bit) - 1 + around;
			unsigned int bucket = hist_bucket(value);

			cr_expect(bucket < HIST_BUCKETS);
			cr_expect(hist_bucket_low(bucket) <= value);
			cr_expect(hist_bucket_top(bucket) >= value);
		}
	}
}

Test(perf_hist, buckets_have_no_gaps_and_are_narrow)
{
	for (unsigned int i = 0; i < HIST_BUCKETS; i++) {
		uint64_t low = hist_bucket_low(i), top = hist_bucket_top(i);

		cr_expect_eq(hist_bucket(low), i);
		cr_expect_eq(hist_bucket(top), i);
		cr_expect(top - low <= low / 64);
		if (i)
			cr_expect_eq(hist_bucket_top(i - 1) + 1, low);
	}
}

Test(perf_hist, values_beyond_the_last_bucket_share_it)
{
	cr_expect_eq(hist_bucket(1ull << HIST_VALUE_BITS), HIST_BUCKETS - 1);
	cr_expect_eq(hist_bucket(UINT64_MAX), HIST_BUCKETS - 1);
}

Test(perf_hist, empty_has_no_percentile, .init = empty)
{
	cr_expect_eq(hist_percentile(&hist, 50), 0);
	cr_expect_eq(hist_percentile(&hist, 99.99), 0);
}

Test(perf_hist, one_value_is_every_percentile, .init = empty)
{
	hist_add(&hist, 123456789);
	cr_expect_eq(hist_percentile(&hist, 0), 123456789);
	cr_expect_eq(hist_percentile(&hist, 50), 123456789);
	cr_expect_eq(hist_percentile(&hist, 100), 123456789);
}

/* Below 64 a bucket has one value. */
Test(perf_hist, small_values_are_exact, .init = empty)
{
	add_all(1, 50);
	cr_expect_eq(hist_percentile(&hist, 50), 25);
	cr_expect_eq(hist_percentile(&hist, 90), 45);
	cr_expect_eq(hist_percentile(&hist, 99), 50);
	cr_expect_eq(hist_percentile(&hist, 2), 1);
}

/* The nearest rank: with one slow value of 1000 it is at 99.9 not yet seen, above it is. */
Test(perf_hist, rank_is_exact, .init = empty)
{
	for (int i = 0; i < 999; i++)
		hist_add(&hist, 10);
	hist_add(&hist, 60);
	cr_expect_eq(hist_percentile(&hist, 99.9), 10);
	cr_expect_eq(hist_percentile(&hist, 99.99), 60);
	cr_expect_eq(hist_percentile(&hist, 100), 60);
}

Test(perf_hist, never_more_than_a_64th_above, .init = empty)
{
	static const double percents[] = { 1, 10, 50, 90, 99, 99.9, 99.99 };

	add_all(1, 100000);
	for (unsigned int i = 0; i < sizeof(percents) / sizeof(*percents); i++) {
		double exact = percents[i] * 1000, got = (double)hist_percentile(&hist, percents[i]);

		cr_expect(got >= exact - 0.5);
		cr_expect(got <= exact * 65 / 64 + 1);
	}
}

Test(perf_hist, sum_min_max, .init = empty)
{
	add_all(7, 1000);
	cr_expect_eq(hist.count, 994);
	cr_expect_eq(hist.sum, (7 + 1000) * 994 / 2);
	cr_expect_eq(hist.min, 7);
	cr_expect_eq(hist.max, 1000);
}

Test(perf_hist, merge_is_as_if_all_were_added, .init = empty)
{
	static struct histogram merged;
	struct histogram part;

	memset(&merged, 0, sizeof(merged));
	hist_merge(&merged, &hist); /* an empty one changes nothing */
	add_all(500, 900);
	part = hist;
	hist_merge(&merged, &part);
	empty();
	add_all(1, 100);
	part = hist;
	hist_merge(&merged, &part);
	add_all(500, 900);
	cr_expect_arr_eq(&merged, &hist, sizeof(hist));
}
