/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/json.h"

#include <inttypes.h>
#include <stdio.h>

struct json nvmfr__json_begin(char *text, size_t bytes)
{
	return (struct json){ .text = text, .room = text ? bytes : 0 };
}

int nvmfr__json_end(struct json *j)
{
	if (j->room)
		j->text[j->used < j->room ? j->used : j->room - 1] = '\0';
	return (int)j->used + 1;
}

static void put(struct json *j, char c)
{
	if (j->used + 1 < j->room)
		j->text[j->used] = c;
	j->used++;
}

static void put_raw(struct json *j, const char *text)
{
	while (*text)
		put(j, *text++);
}

/* Bytes that are no ASCII come from a device or a peer: each is shown as a character of Latin-1. */
static void put_quoted(struct json *j, const char *text)
{
	char escape[8];

	put(j, '"');
	for (; *text; text++) {
		unsigned char c = (unsigned char)*text;

		if (c == '"' || c == '\\') {
			put(j, '\\');
			put(j, *text);
		} else if (c < 0x20 || c > 0x7e) {
			snprintf(escape, sizeof(escape), "\\u%04x", c);
			put_raw(j, escape);
		} else {
			put(j, *text);
		}
	}
	put(j, '"');
}

static void next_value(struct json *j, const char *name)
{
	if (j->comma)
		put_raw(j, ", ");
	j->comma = true;
	if (!name)
		return;
	put_quoted(j, name);
	put_raw(j, ": ");
}

void nvmfr__json_text(struct json *j, const char *name, const char *value)
{
	next_value(j, name);
	put_quoted(j, value);
}

void nvmfr__json_int(struct json *j, const char *name, int64_t value)
{
	char digits[24];

	snprintf(digits, sizeof(digits), "%" PRId64, value);
	next_value(j, name);
	put_raw(j, digits);
}

void nvmfr__json_uint(struct json *j, const char *name, uint64_t value)
{
	char digits[24];

	snprintf(digits, sizeof(digits), "%" PRIu64, value);
	next_value(j, name);
	put_raw(j, digits);
}

void nvmfr__json_bool(struct json *j, const char *name, bool value)
{
	next_value(j, name);
	put_raw(j, value ? "true" : "false");
}

void nvmfr__json_open(struct json *j, const char *name, char bracket)
{
	next_value(j, name);
	put(j, bracket);
	j->comma = false;
}

void nvmfr__json_close(struct json *j, char bracket)
{
	put(j, bracket);
	j->comma = true;
}
