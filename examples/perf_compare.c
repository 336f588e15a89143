/* SPDX-License-Identifier: BSD-3-Clause */
/* nvmfr-perf --compare: two runs, saved as JSON, side by side. */
#include "perf.h"

#include <inttypes.h>
#include <jansson.h>
#include <string.h>

#define FORMAT_VERSION 1

struct run {
	const char *path;
	json_t *json;
};

/* Runs that differ here did not do the same work. */
static const char *const same_work[] = { "workload", "read_percent", "io_bytes", "block_bytes", "pieces", "depth",
					 "batch", "threads", "verify" };
/* A difference here is worth a line, and may be what is compared. */
static const char *const worth_knowing[] = { "library_version", "uri", "device", "device_numa_node",
					     "thread_numa_nodes", "first_lba", "range_blocks" };

struct row {
	const char *label, *group, *name;
	int digits;
};

/* clang-format off */
static const struct row rows[] = {
	{ "IOPS",                   NULL,         "iops",          0 },
	{ "GiB/s",                  NULL,         "gib_per_s",     3 },
	{ "CPU, us per I/O",        NULL,         "cpu_us_per_io", 3 },
	{ "latency min, us",        "latency_us", "min",           2 },
	{ "latency mean, us",       "latency_us", "mean",          2 },
	{ "latency p50, us",        "latency_us", "p50",           2 },
	{ "latency p90, us",        "latency_us", "p90",           2 },
	{ "latency p99, us",        "latency_us", "p99",           2 },
	{ "latency p99.9, us",      "latency_us", "p99.9",         2 },
	{ "latency p99.99, us",     "latency_us", "p99.99",        2 },
	{ "latency max, us",        "latency_us", "max",           2 },
	{ "I/Os",                   NULL,         "ios",           0 },
	{ "seconds",                NULL,         "seconds",       2 },
	{ "errors",                 NULL,         "errors",        0 },
	{ "reads with wrong data",  NULL,         "mismatches",    0 },
};
/* clang-format on */

static json_t *value_of(const struct run *run, const char *group, const char *name)
{
	return json_object_get(group ? json_object_get(run->json, group) : run->json, name);
}

/* Says what is wrong with a file. Returns false. */
static bool refuse(const struct run *run, const char *why, const char *name)
{
	fprintf(stderr, "nvmfr-perf: %s: %s%s%s; --compare takes what nvmfr-perf wrote with --save or --format json\n",
		run->path, why, *name ? " " : "", name);
	return false;
}

static bool check_row(const struct run *run, const struct row *row)
{
	json_t *group = json_object_get(run->json, row->group ? row->group : "");
	json_t *value = value_of(run, row->group, row->name);

	if (row->group && !group) /* latency was not measured */
		return true;
	if (json_is_number(value) && json_number_value(value) >= 0)
		return true;
	return refuse(run, "has no number, 0 or more, called", row->name);
}

static bool check_setting(const struct run *run, const char *name)
{
	json_t *value = value_of(run, NULL, name);

	if (json_is_string(value) || json_is_integer(value))
		return true;
	return refuse(run, "has no string or whole number called", name);
}

static bool check(const struct run *run)
{
	json_t *version = value_of(run, NULL, "nvmfr_perf");

	if (!json_is_integer(version))
		return refuse(run, "has no", "nvmfr_perf");
	if (json_integer_value(version) != FORMAT_VERSION)
		return refuse(run, "is of another format version than this program's", "");
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (!check_row(run, &rows[i]))
			return false;
	for (size_t i = 0; i < ARRAY_SIZE(same_work); i++)
		if (!check_setting(run, same_work[i]))
			return false;
	for (size_t i = 0; i < ARRAY_SIZE(worth_knowing); i++)
		if (!check_setting(run, worth_knowing[i]))
			return false;
	return true;
}

static bool load(struct run *run)
{
	json_error_t error;

	run->json = json_load_file(run->path, JSON_REJECT_DUPLICATES, &error);
	if (!run->json && error.line < 0) {
		fprintf(stderr, "nvmfr-perf: %s\n", error.text); /* names the file */
		return false;
	}
	if (!run->json) {
		fprintf(stderr, "nvmfr-perf: %s:%d:%d: no JSON: %s\n", run->path, error.line, error.column, error.text);
		return false;
	}
	return check(run);
}

/* What a setting's value looks like. Returns text. */
static const char *show(json_t *value, char *text, size_t bytes)
{
	if (json_is_string(value))
		snprintf(text, bytes, "%s", json_string_value(value));
	else
		snprintf(text, bytes, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
	return text;
}

/* Returns how many differ; each has a line. */
static unsigned int differences(const struct run *runs, const char *const *names, size_t count, const char *words)
{
	unsigned int found = 0;

	for (size_t i = 0; i < count; i++) {
		json_t *a = value_of(&runs[0], NULL, names[i]), *b = value_of(&runs[1], NULL, names[i]);
		char a_text[256], b_text[256];

		if (json_equal(a, b))
			continue;
		printf("%s%s is %s in A and %s in B\n", words, names[i], show(a, a_text, sizeof(a_text)),
		       show(b, b_text, sizeof(b_text)));
		found++;
	}
	return found;
}

static void print_row(const struct run *runs, const struct row *row)
{
	json_t *a = value_of(&runs[0], row->group, row->name), *b = value_of(&runs[1], row->group, row->name);

	printf("%-22s", row->label);
	for (size_t i = 0; i < 2; i++) {
		json_t *value = i ? b : a;

		if (value)
			printf(" %14.*f", row->digits, json_number_value(value));
		else
			printf(" %14s", "-");
	}
	if (a && b && json_number_value(a) > 0)
		printf(" %9.3f\n", json_number_value(b) / json_number_value(a));
	else
		printf(" %9s\n", "-");
}

static void print(const struct run *runs)
{
	unsigned int found;

	printf("A  %s\nB  %s\n\n", runs[0].path, runs[1].path);
	found = differences(runs, same_work, ARRAY_SIZE(same_work), "NOT COMPARABLE: ");
	found += differences(runs, worth_knowing, ARRAY_SIZE(worth_knowing), "differs: ");
	printf("%s%-22s %14s %14s %9s\n", found ? "\n" : "", "", "A", "B", "B/A");
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		print_row(runs, &rows[i]);
}

int perf_compare(const char *a, const char *b)
{
	struct run runs[2] = { { .path = a }, { .path = b } };
	bool good = load(&runs[0]) && load(&runs[1]);

	if (good)
		print(runs);
	json_decref(runs[0].json);
	json_decref(runs[1].json);
	return good ? 0 : 1;
}
