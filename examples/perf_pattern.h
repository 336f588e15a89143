/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef EXAMPLES_PERF_PATTERN_H
#define EXAMPLES_PERF_PATTERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Data that says where it belongs. Each 8-byte word is a mix of its LBA, the generation of the write
 * that brought it (1 for the first), and a key of its place in the block, drawn from the seed. The mix
 * can be undone, so that wrong data tells where it came from.
 */
#define PATTERN_LBA_BITS	40
#define PATTERN_GENERATION_BITS 24
#define PATTERN_GENERATION_MASK ((1u << PATTERN_GENERATION_BITS) - 1)

struct pattern {
	uint64_t *keys; /* one for each word of a block */
	uint64_t block_words;
};

/* Words of an I/O that lie next to each other in memory. */
struct pattern_span {
	uint64_t lba; /* of the I/O */
	uint64_t first_word, words; /* of the I/O */
	uint32_t generation;
};

enum pattern_cause {
	PATTERN_UNTOUCHED, /* the poison of before the read */
	PATTERN_ZEROES,
	PATTERN_OLDER, /* this LBA, an older generation */
	PATTERN_NEWER, /* this LBA, a generation that no completed write had */
	PATTERN_ELSEWHERE, /* another LBA's, at the right place in the block */
	PATTERN_SHIFTED, /* this seed's, at a wrong place in the block */
	PATTERN_UNKNOWN, /* not of this seed */
};

struct pattern_fault {
	enum pattern_cause cause;
	uint64_t lba, byte; /* of the first wrong byte: its block, and where in it */
	unsigned char expected[8], seen[8]; /* from that byte to the end of its word */
	unsigned int shown; /* bytes in both */
	uint64_t from_lba, from_byte; /* where the data belongs, as far as the cause says */
	uint32_t generation, from_generation;
};

/* block_bytes: a multiple of 8. false: out of memory. */
bool pattern_init(struct pattern *pattern, uint32_t seed, uint32_t block_bytes);
void pattern_fini(struct pattern *pattern);

uint32_t pattern_next_generation(uint32_t generation);
void pattern_fill(const struct pattern *pattern, void *to, const struct pattern_span *span);
void pattern_poison(void *to, size_t bytes);

/* How many of the span's bytes are wrong. */
uint64_t pattern_wrong_bytes(const struct pattern *pattern, const void *from, const struct pattern_span *span);

/* Of a span with wrong bytes. capacity: blocks of the namespace, which bound what is taken for an LBA. */
struct pattern_fault pattern_explain(const struct pattern *pattern, const void *from,
				     const struct pattern_span *span, uint64_t capacity);

/* One sentence. Returns text. */
const char *pattern_describe(const struct pattern_fault *fault, char *text, size_t bytes);

#endif
