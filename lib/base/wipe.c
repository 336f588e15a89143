/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/wipe.h"

#include <stdlib.h>
#include <sys/mman.h>

#include "base/util.h"

#define WORDS	   64
#define PAGE_BYTES ((size_t)WORDS * CACHE_LINE)

static struct wipe_page *new_page(void)
{
	struct wipe_page *page = calloc(1, sizeof(*page));
	void *map = mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (!page || map == MAP_FAILED) {
		if (map != MAP_FAILED)
			munmap(map, PAGE_BYTES);
		free(page);
		return NULL;
	}
	/* Kernels before 4.14 lack it: then a child's handles are not told from the parent's. */
	(void)madvise(map, PAGE_BYTES, MADV_WIPEONFORK);
	page->words = map;
	return page;
}

static _Atomic uint32_t *word_at(struct wipe_page *page, unsigned int i)
{
	return (_Atomic uint32_t *)(void *)(page->words + (size_t)i * CACHE_LINE);
}

_Atomic uint32_t *nvmfr__wipe_get(struct wipe_page **pages)
{
	struct wipe_page *page = *pages;
	unsigned int i;

	while (page && page->used == UINT64_MAX)
		page = page->next;
	if (!page) {
		page = new_page();
		if (!page)
			return NULL;
		page->next = *pages;
		*pages = page;
	}
	i = (unsigned int)__builtin_ctzll(~page->used);
	page->used |= UINT64_C(1) << i;
	atomic_store_explicit(word_at(page, i), 1, memory_order_relaxed);
	return word_at(page, i);
}

void nvmfr__wipe_put(struct wipe_page *pages, _Atomic uint32_t *word)
{
	unsigned char *at = (unsigned char *)word;

	for (struct wipe_page *page = pages; page; page = page->next)
		if (at >= page->words && at < page->words + PAGE_BYTES)
			page->used &= ~(UINT64_C(1) << ((size_t)(at - page->words) / CACHE_LINE));
}

void nvmfr__wipe_free(struct wipe_page **pages)
{
	while (*pages) {
		struct wipe_page *page = *pages;

		*pages = page->next;
		munmap(page->words, PAGE_BYTES);
		free(page);
	}
}
