/* SPDX-License-Identifier: BSD-3-Clause */
/* The report for programs. CSV and JSON have the same fields from one list, so that they agree. */
#include "perf.h"

#include <inttypes.h>
#include <string.h>

/* Goes up when a field changes its meaning or goes; a new one may come at any time. */
#define FORMAT_VERSION 1
#define MAX_FIELDS     64

/* A field whose text and number both are empty is absent: in CSV an empty cell. */
struct field {
	const char *group; /* JSON: the object that holds it; NULL: the outermost */
	char name[24];
	const char *text;
	char number[32];
};

struct fields {
	struct field of[MAX_FIELDS];
	size_t count;
};

static struct field *add(struct fields *fields, const char *group, const char *name)
{
	struct field *field = &fields->of[fields->count++];

	*field = (struct field){ .group = group };
	snprintf(field->name, sizeof(field->name), "%s", name);
	return field;
}

static void add_text(struct fields *fields, const char *name, const char *text)
{
	add(fields, NULL, name)->text = text;
}

static void add_int(struct fields *fields, const char *name, int64_t value)
{
	struct field *field = add(fields, NULL, name);

	snprintf(field->number, sizeof(field->number), "%" PRId64, value);
}

static void add_count(struct fields *fields, const char *name, uint64_t value)
{
	struct field *field = add(fields, NULL, name);

	snprintf(field->number, sizeof(field->number), "%" PRIu64, value);
}

static void add_real(struct fields *fields, const char *name, double value, int digits)
{
	struct field *field = add(fields, NULL, name);

	snprintf(field->number, sizeof(field->number), "%.*f", digits, value);
}

static void add_us(struct fields *fields, const struct histogram *hist, const char *name, double us)
{
	struct field *field = add(fields, "latency_us", name);

	if (hist)
		snprintf(field->number, sizeof(field->number), "%.3f", us);
}

static void add_latency(struct fields *fields, const struct histogram *hist)
{
	add_us(fields, hist, "min", hist ? (double)hist->min / 1e3 : 0);
	add_us(fields, hist, "mean", hist ? perf_mean_us(hist) : 0);
	for (size_t i = 0; i < PERCENTILES; i++) {
		char name[16];

		snprintf(name, sizeof(name), "p%g", perf_percentiles[i]);
		add_us(fields, hist, name,
		       hist ? (double)hist_percentile(hist, perf_percentiles[i]) / 1e3 : 0);
	}
	add_us(fields, hist, "max", hist ? (double)hist->max / 1e3 : 0);
}

static void add_setting(struct fields *fields, const struct perf *perf, const struct total *total)
{
	const struct perf_opts *opts = &perf->opts;

	add_text(fields, "uri", opts->uri);
	add_text(fields, "device", perf->ctrl.device);
	add_int(fields, "device_numa_node", perf->ctrl.numa_node);
	add_text(fields, "thread_numa_nodes", total->numa_nodes);
	add_count(fields, "nsid", perf->ns.nsid);
	add_count(fields, "block_bytes", perf->ns.block_bytes);
	add_count(fields, "first_lba", opts->lba);
	add_count(fields, "range_blocks", perf->range_blocks);
	add_text(fields, "workload", opts->workload);
	add_count(fields, "read_percent", opts->read_percent);
	add_count(fields, "io_bytes", opts->io_bytes);
	add_count(fields, "pieces", opts->pieces);
	add_count(fields, "depth", total->depth);
	add_count(fields, "batch", opts->batch);
	add_count(fields, "threads", opts->threads);
	add_text(fields, "verify", perf_verify_name(opts->verify));
	add_count(fields, "seed", opts->seed);
}

static void add_result(struct fields *fields, const struct total *total)
{
	add_real(fields, "seconds", total->seconds, 6);
	add_count(fields, "ios", total->ios);
	add_count(fields, "reads", total->reads);
	add_count(fields, "writes", total->writes);
	add_count(fields, "errors", total->errors);
	add_count(fields, "checked_reads", total->checked);
	add_count(fields, "mismatches", total->mismatches);
	add_real(fields, "iops", total->iops, 1);
	add_real(fields, "gib_per_s", total->gib_per_s, 6);
	add_real(fields, "cpu_us_per_io", total->cpu_us_per_io, 4);
	add_real(fields, "cpu_user_seconds", (double)total->user_us / 1e6, 6);
	add_real(fields, "cpu_system_seconds", (double)total->system_us / 1e6, 6);
	add_count(fields, "context_switches", total->switches);
	add_count(fields, "bounced_bytes", total->bounced_bytes);
	add_latency(fields, total->latency);
}

static void collect(struct fields *fields, const struct perf *perf, const struct total *total, char *version,
		    size_t version_bytes)
{
	uint32_t library = nvmfr_version();

	snprintf(version, version_bytes, "%u.%u.%u", library >> 16, library >> 8 & 0xff, library & 0xff);
	fields->count = 0;
	add_count(fields, "nvmfr_perf", FORMAT_VERSION);
	add_text(fields, "library_version", version);
	add_setting(fields, perf, total);
	add_result(fields, total);
}

/* RFC 4180. */
static void csv_text(FILE *out, const char *text)
{
	if (!text[strcspn(text, ",\"\r\n")]) {
		fputs(text, out);
		return;
	}
	fputc('"', out);
	for (; *text; text++) {
		if (*text == '"')
			fputc('"', out);
		fputc(*text, out);
	}
	fputc('"', out);
}

void perf_write_csv(FILE *out, const struct perf *perf, const struct total *total)
{
	struct fields fields;
	char version[16];

	collect(&fields, perf, total, version, sizeof(version));
	for (size_t i = 0; i < fields.count; i++) {
		const struct field *field = &fields.of[i];

		fprintf(out, "%s%s%s%s", i ? "," : "", field->group ? field->group : "", field->group ? "_" : "",
			field->name);
	}
	fputc('\n', out);
	for (size_t i = 0; i < fields.count; i++) {
		const struct field *field = &fields.of[i];

		if (i)
			fputc(',', out);
		csv_text(out, field->text ? field->text : field->number);
	}
	fputc('\n', out);
}

/* The buckets that hold something, as [smallest ns, largest ns, I/Os]. */
static void json_histogram(FILE *out, const struct histogram *hist)
{
	const char *comma = "";

	fprintf(out, ",\n  \"histogram_ns\": [");
	for (unsigned int i = 0; i < HIST_BUCKETS; i++) {
		if (!hist->buckets[i])
			continue;
		fprintf(out, "%s\n    [%" PRIu64 ", %" PRIu64 ", %" PRIu64 "]", comma, hist_bucket_low(i),
			hist_bucket_top(i), hist->buckets[i]);
		comma = ",";
	}
	fprintf(out, "\n  ]");
}

static void json_field(FILE *out, const struct field *field, const struct field *previous)
{
	const char *group = previous ? previous->group : NULL;

	if (group && group != field->group)
		fprintf(out, "\n  }");
	if (previous)
		fputc(',', out);
	if (field->group && group != field->group)
		fprintf(out, "\n  \"%s\": {", field->group);
	fprintf(out, "\n%s\"%s\": ", field->group ? "    " : "  ", field->name);
	if (field->text)
		print_json_string(out, field->text);
	else
		fputs(field->number, out);
}

void perf_write_json(FILE *out, const struct perf *perf, const struct total *total)
{
	const struct field *previous = NULL;
	struct fields fields;
	char version[16];

	collect(&fields, perf, total, version, sizeof(version));
	fputc('{', out);
	for (size_t i = 0; i < fields.count; i++) {
		const struct field *field = &fields.of[i];

		if (!field->text && !*field->number)
			continue;
		json_field(out, field, previous);
		previous = field;
	}
	if (previous && previous->group)
		fprintf(out, "\n  }");
	if (perf->opts.histogram && total->latency)
		json_histogram(out, total->latency);
	if (perf->opts.stats)
		perf_json_stats(out, perf);
	fprintf(out, "\n}\n");
}
