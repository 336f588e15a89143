/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef NVMFR_BASE_WIPE_H
#define NVMFR_BASE_WIPE_H

#include <stdatomic.h>
#include <stdint.h>

/*
 * Words that read 0 in a forked child (MADV_WIPEONFORK), so that a handle notices that it was
 * inherited by the look it takes anyway: no handler at fork, no getpid() per call. Each word has a
 * cache line. Not thread safe: the caller's lock.
 */
struct wipe_page {
	struct wipe_page *next;
	unsigned char *words; /* a page of them */
	uint64_t used; /* one bit a word */
};

/* A word with the value 1; NULL: no memory. */
_Atomic uint32_t *nvmfr__wipe_get(struct wipe_page **pages);
void nvmfr__wipe_put(struct wipe_page *pages, _Atomic uint32_t *word);
void nvmfr__wipe_free(struct wipe_page **pages);

#endif
