/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef NVMFR_BASE_ERR_H
#define NVMFR_BASE_ERR_H

#include <errno.h>

#define NVMFR__ERR_BYTES 512

/*
 * Stores the sentence for this thread and returns err unchanged, so that the place which
 * understands a failure ends with "return nvmfr__fail(...)". An argument may be the present
 * sentence itself.
 */
int nvmfr__fail(int err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* The same, with ": " and the sentence already stored behind the new text. */
int nvmfr__fail_wrap(int err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* For a sentence that another thread made (connect runs in the service thread). NULL clears. */
void nvmfr__err_set(const char *sentence);
const char *nvmfr__err_get(void); /* never NULL, "" when there is none */
void nvmfr__err_clear(void);

const char *nvmfr__strerror(int err); /* errno or -errno, never NULL */

/* pthread_create()'s error as -errno. It says EAGAIN where memory or the limit of threads is short; from
 * here that would say: still at work. */
static inline int nvmfr__thread_error(int err)
{
	return err == EAGAIN ? -ENOMEM : -err;
}

#endif
