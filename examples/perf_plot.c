/* SPDX-License-Identifier: BSD-3-Clause */
/* Latency as bars of text. */
#include "perf.h"

#include <inttypes.h>
#include <langinfo.h>
#include <locale.h>
#include <string.h>
#include <unistd.h>

#define BAR_CELLS 40
#define MAX_ROWS  24

/* Block characters go to a terminal that knows them; a pipe, a file and a log get ASCII. */
static bool has_blocks(void)
{
	return isatty(STDOUT_FILENO) && setlocale(LC_CTYPE, "") && !strcmp(nl_langinfo(CODESET), "UTF-8");
}

/* fraction: 0 to 1. What is above 0 shows. */
static void bar(double fraction, bool blocks)
{
	static const char *const eighths[] = { "", "▏", "▎", "▍", "▌", "▋", "▊", "▉" };
	unsigned int parts = blocks ? 8 : 1;
	unsigned int length = (unsigned int)(fraction * BAR_CELLS * parts + 0.5);

	if (!length && fraction > 0)
		length = 1;
	for (unsigned int i = 0; i < length / parts; i++)
		fputs(blocks ? "█" : "#", stdout);
	puts(eighths[length % parts]);
}

/* Numbers of buckets grow with the logarithm: half the smallest value has no bar, the largest a whole one. */
static double logarithmic(const struct histogram *hist, uint64_t value)
{
	unsigned int low = hist_bucket(hist->min / 2), high = hist_bucket(hist->max), at = hist_bucket(value);

	return high > low ? (double)(at - low) / (double)(high - low) : 1;
}

void perf_plot_percentiles(const struct histogram *hist)
{
	static const double shown[] = { 10, 25, 50, 75, 90, 95, 99, 99.9, 99.99, 99.999 };
	bool blocks = has_blocks();

	if (!hist->count)
		return;
	printf("\nlatency by percentile, us (bars are logarithmic)\n");
	printf("%8s %11.2f  ", "min", (double)hist->min / 1e3);
	bar(logarithmic(hist, hist->min), blocks);
	for (size_t i = 0; i < ARRAY_SIZE(shown); i++) {
		uint64_t value = hist_percentile(hist, shown[i]);

		printf("%8g %11.2f  ", shown[i], (double)value / 1e3);
		bar(logarithmic(hist, value < hist->min ? hist->min : value), blocks);
	}
	printf("%8s %11.2f  ", "max", (double)hist->max / 1e3);
	bar(1, blocks);
}

/* Buckets that share a row. */
struct rows {
	unsigned int at, end; /* the next bucket, and the one behind the last */
	unsigned int tail, shift; /* from bucket `tail` on a row is a power of two, before it 2^shift buckets */
};

static struct rows rows_of(const struct histogram *hist)
{
	unsigned int first = hist_bucket(hist->min), p99 = hist_bucket(hist_percentile(hist, 99));
	struct rows rows = { .at = first, .end = hist_bucket(hist->max) + 1 };

	while (rows.shift < HIST_LINEAR_BITS && (p99 >> rows.shift) - (first >> rows.shift) >= MAX_ROWS)
		rows.shift++;
	rows.tail = ((p99 >> rows.shift) + 1) << rows.shift;
	return rows;
}

struct row {
	uint64_t from, below, count;
};

/* The next row that holds something; false: there is none. */
static bool next_row(const struct histogram *hist, struct rows *rows, struct row *row)
{
	while (rows->at < rows->end) {
		unsigned int shift = rows->at < rows->tail ? rows->shift : HIST_LINEAR_BITS;
		unsigned int next = ((rows->at >> shift) + 1) << shift;

		*row = (struct row){ .from = hist_bucket_low(rows->at), .below = hist_bucket_low(next) };
		for (; rows->at < next && rows->at < rows->end; rows->at++)
			row->count += hist->buckets[rows->at];
		rows->at = next;
		if (row->count)
			return true;
	}
	return false;
}

static uint64_t largest_count(const struct histogram *hist)
{
	struct rows rows = rows_of(hist);
	uint64_t largest = 0;
	struct row row;

	while (next_row(hist, &rows, &row))
		largest = row.count > largest ? row.count : largest;
	return largest;
}

void perf_plot_histogram(const struct histogram *hist)
{
	uint64_t largest = largest_count(hist), seen = 0;
	struct rows rows = rows_of(hist);
	bool blocks = has_blocks();
	struct row row;

	if (!hist->count)
		return;
	printf("\n%10s %10s %10s %8s %8s\n", "from us", "below us", "I/Os", "%", "so far %");
	while (next_row(hist, &rows, &row)) {
		seen += row.count;
		printf("%10.2f %10.2f %10" PRIu64 " %8.3f %8.3f  ", (double)row.from / 1e3,
		       (double)row.below / 1e3, row.count, 100 * (double)row.count / (double)hist->count,
		       100 * (double)seen / (double)hist->count);
		bar((double)row.count / (double)largest, blocks);
	}
}
