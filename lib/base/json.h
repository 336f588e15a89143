/* SPDX-License-Identifier: BSD-3-Clause */
/* Writing JSON into a caller's room: what does not fit is counted, not written. */
#ifndef NVMFR_BASE_JSON_H
#define NVMFR_BASE_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct json {
	char *text;
	size_t room, used;
	bool comma; /* a value stands before the next one */
};

/* text may be NULL: then it is only counted. */
struct json nvmfr__json_begin(char *text, size_t bytes);
/* Terminates what fits. The bytes that the whole needs, its NUL included. */
int nvmfr__json_end(struct json *j);

/* name NULL: in an array, or the outermost. */
void nvmfr__json_open(struct json *j, const char *name, char bracket);
void nvmfr__json_close(struct json *j, char bracket);
void nvmfr__json_text(struct json *j, const char *name, const char *value);
void nvmfr__json_int(struct json *j, const char *name, int64_t value);
void nvmfr__json_uint(struct json *j, const char *name, uint64_t value);
void nvmfr__json_bool(struct json *j, const char *name, bool value);

#endif
