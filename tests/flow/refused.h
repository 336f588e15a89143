/* SPDX-License-Identifier: BSD-3-Clause */
/* For tests of bad input. */
#ifndef NVMFR_TESTS_FLOW_REFUSED_H
#define NVMFR_TESTS_FLOW_REFUSED_H

#include "flow.h"

#include <stdlib.h>

enum {
	BLOCK = 512,
	BLOCKS = 2048,
};

static inline void small_up(struct flow *f)
{
	flow_host(f);
	flow_target(f, NULL);
	flow_ns(f, BLOCKS * BLOCK, BLOCK);
	flow_connect(f);
	f->qp = flow_qpair(f, 8);
}

/* This errno, and this word in the sentence. */
#define REFUSED(Call, Err, Word) \
	do { \
		int refused_got = (Call); \
		cr_expect_eq(refused_got, Err, "%s: %d, not %d", #Call, refused_got, Err); \
		flow_says(Word); \
	} while (0)

/* To be freed. */
static inline char *name_of(size_t bytes)
{
	static const char begin[] = "nqn.2026-12.org.example:";
	char *nqn = malloc(bytes + 1);

	cr_assert_not_null(nqn);
	memset(nqn, 'x', bytes);
	memcpy(nqn, begin, sizeof(begin) - 1);
	nqn[bytes] = '\0';
	return nqn;
}

#endif
