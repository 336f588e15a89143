/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef EXAMPLES_COMMON_H
#define EXAMPLES_COMMON_H

#include <nvmfr/nvmfr.h>

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define GIB	      (1024.0 * 1024.0 * 1024.0)

/* A host and its only controller. Functions return 0 or -errno; complain() then says why. */
struct session {
	struct nvmfr_host *host;
	struct nvmfr_ctrl *ctrl;
};

int session_open(struct session *session, const char *uri);
int session_connect(struct session *session, const char *uri); /* with a host that exists */
void session_close(struct session *session); /* also a half-open one */

/* nsid 0: the first namespace. */
int session_namespace(const struct session *session, uint32_t nsid, struct nvmfr_ns_info *info);
int session_qpair(const struct session *session, unsigned int depth, uint32_t flags,
		  struct nvmfr_qpair **out);

/* "PROGRAM: WHAT: the library's sentence" on stderr. Returns 1, an exit status. */
int complain(const char *what);
const char *completion_text(const struct nvmfr_completion *done);

uint64_t clock_ns(clockid_t clock);
double seconds_between(uint64_t start_ns, uint64_t end_ns); /* never 0: it divides */

/* "4096", "0x1000", "4K", "1M", "2G"; false, with a sentence on stderr, unless min <= value <= max. */
bool parse_bytes(const char *what, const char *text, uint64_t min, uint64_t max, uint64_t *out);

void print_json_string(FILE *out, const char *text);

#endif
