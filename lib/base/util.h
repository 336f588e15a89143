/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef NVMFR_BASE_UTIL_H
#define NVMFR_BASE_UTIL_H

#include <stddef.h>
#include <stdint.h>

#define CACHE_LINE    64

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

/* sys/param.h has the same two; they evaluate an argument twice, the functions below do not. */
#ifndef MIN
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#endif
#ifndef MAX
#define MAX(a, b) ((a) > (b) ? (a) : (b))
#endif

#define likely(x)   __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

#define container_of(ptr, type, member) \
	((type *)(void *)((char *)(ptr)-offsetof(type, member)))

static inline uint64_t nvmfr__min_u64(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static inline uint64_t nvmfr__max_u64(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static inline uint32_t nvmfr__min_u32(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

static inline uint32_t nvmfr__max_u32(uint32_t a, uint32_t b)
{
	return a > b ? a : b;
}

#endif
