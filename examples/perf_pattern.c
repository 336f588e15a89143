/* SPDX-License-Identifier: BSD-3-Clause */
#include "perf_pattern.h"

#include <endian.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORD_BYTES  8
#define POISON_BYTE 0xdb
#define POISON_WORD 0xdbdbdbdbdbdbdbdbu
#define ONE_BLOCK   (1ull << PATTERN_GENERATION_BITS) /* added to an identity: the next LBA's */

/* The finalizer of splitmix64: one bit of x changes about half of the result's. */
static uint64_t mix(uint64_t x)
{
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

/* The multipliers are the inverses of those above, modulo 2^64. */
static uint64_t unmix(uint64_t x)
{
	x = (x ^ x >> 31 ^ x >> 62) * 0x319642b2d24d8ec3u;
	x = (x ^ x >> 27 ^ x >> 54) * 0x96de1b173f119089u;
	return x ^ x >> 30 ^ x >> 60;
}

bool pattern_init(struct pattern *pattern, uint32_t seed, uint32_t block_bytes)
{
	uint64_t words = block_bytes / WORD_BYTES;

	*pattern = (struct pattern){ .keys = calloc(words, sizeof(*pattern->keys)), .block_words = words };
	for (uint64_t i = 0; pattern->keys && i < words; i++)
		pattern->keys[i] = mix((uint64_t)seed << 32 | (i + 1));
	return pattern->keys;
}

void pattern_fini(struct pattern *pattern)
{
	free(pattern->keys);
	*pattern = (struct pattern){ 0 };
}

/* 0 is for what was never written. */
uint32_t pattern_next_generation(uint32_t generation)
{
	return generation == PATTERN_GENERATION_MASK ? 1 : generation + 1;
}

static uint64_t identity(uint64_t lba, uint32_t generation)
{
	return lba << PATTERN_GENERATION_BITS | generation;
}

/* The same bytes on every machine. */
static uint64_t encode(const struct pattern *pattern, uint64_t id, uint64_t index)
{
	return htole64(mix(id ^ pattern->keys[index]));
}

static uint64_t decode(const struct pattern *pattern, uint64_t word, uint64_t index)
{
	return unmix(le64toh(word)) ^ pattern->keys[index];
}

/* Walks over the words of a span. */
struct cursor {
	uint64_t id, index;
};

static struct cursor start_of(const struct pattern *pattern, const struct pattern_span *span)
{
	return (struct cursor){
		.id = identity(span->lba + span->first_word / pattern->block_words, span->generation),
		.index = span->first_word % pattern->block_words,
	};
}

static void advance(const struct pattern *pattern, struct cursor *at)
{
	if (++at->index < pattern->block_words)
		return;
	at->index = 0;
	at->id += ONE_BLOCK;
}

void pattern_fill(const struct pattern *pattern, void *to, const struct pattern_span *span)
{
	struct cursor at = start_of(pattern, span);
	unsigned char *byte = to;

	for (uint64_t i = 0; i < span->words; i++, advance(pattern, &at)) {
		uint64_t word = encode(pattern, at.id, at.index);

		memcpy(byte + i * WORD_BYTES, &word, WORD_BYTES);
	}
}

void pattern_poison(void *to, size_t bytes)
{
	memset(to, POISON_BYTE, bytes);
}

static uint64_t load(const void *from, uint64_t index)
{
	uint64_t word;

	memcpy(&word, (const unsigned char *)from + index * WORD_BYTES, WORD_BYTES);
	return word;
}

static unsigned int bytes_that_differ(uint64_t a, uint64_t b)
{
	unsigned int count = 0;

	for (uint64_t differ = a ^ b; differ; differ >>= 8)
		count += (differ & 0xff) != 0;
	return count;
}

uint64_t pattern_wrong_bytes(const struct pattern *pattern, const void *from, const struct pattern_span *span)
{
	struct cursor at = start_of(pattern, span);
	uint64_t wrong = 0;

	for (uint64_t i = 0; i < span->words; i++, advance(pattern, &at)) {
		uint64_t want = encode(pattern, at.id, at.index), seen = load(from, i);

		if (want != seen)
			wrong += bytes_that_differ(want, seen);
	}
	return wrong;
}

static bool plausible(uint64_t id, uint64_t capacity)
{
	return id >> PATTERN_GENERATION_BITS < capacity && (id & PATTERN_GENERATION_MASK);
}

static void set_origin(struct pattern_fault *fault, enum pattern_cause cause, uint64_t id, uint64_t index)
{
	fault->cause = cause;
	fault->from_lba = id >> PATTERN_GENERATION_BITS;
	fault->from_generation = (uint32_t)(id & PATTERN_GENERATION_MASK);
	fault->from_byte = index * WORD_BYTES;
}

/*
 * Under so many keys chance alone makes something plausible of one word: the next word has to say the
 * same, or nothing is said.
 */
static bool find_shift(const struct pattern *pattern, struct pattern_fault *fault, uint64_t word, uint64_t next,
		       uint64_t capacity)
{
	for (uint64_t i = 0; i < pattern->block_words; i++) {
		struct cursor at = { .id = decode(pattern, word, i), .index = i };
		struct cursor after = at;

		if (!plausible(at.id, capacity))
			continue;
		advance(pattern, &after);
		if (encode(pattern, after.id, after.index) != next)
			continue;
		set_origin(fault, PATTERN_SHIFTED, at.id, at.index);
		return true;
	}
	return false;
}

static void find_cause(const struct pattern *pattern, struct pattern_fault *fault, struct cursor at,
		       const uint64_t *words, uint64_t capacity)
{
	uint64_t id = decode(pattern, words[0], at.index);

	if (words[0] == POISON_WORD)
		fault->cause = PATTERN_UNTOUCHED;
	else if (words[0] == 0)
		fault->cause = PATTERN_ZEROES;
	else if (!plausible(id, capacity)) {
		if (!find_shift(pattern, fault, words[0], words[1], capacity))
			fault->cause = PATTERN_UNKNOWN;
	} else if (id >> PATTERN_GENERATION_BITS != at.id >> PATTERN_GENERATION_BITS)
		set_origin(fault, PATTERN_ELSEWHERE, id, at.index);
	else
		set_origin(fault, id < at.id ? PATTERN_OLDER : PATTERN_NEWER, id, at.index);
}

struct pattern_fault pattern_explain(const struct pattern *pattern, const void *from,
				     const struct pattern_span *span, uint64_t capacity)
{
	struct cursor at = start_of(pattern, span);
	struct pattern_fault fault = { .generation = span->generation };
	uint64_t i = 0, want, words[2] = { 0 };
	unsigned int byte = 0;

	while (i + 1 < span->words && load(from, i) == encode(pattern, at.id, at.index)) {
		i++;
		advance(pattern, &at);
	}
	want = encode(pattern, at.id, at.index);
	words[0] = load(from, i);
	words[1] = i + 1 < span->words ? load(from, i + 1) : 0;
	while (byte + 1 < WORD_BYTES && ((unsigned char *)&want)[byte] == ((unsigned char *)words)[byte])
		byte++;
	fault.lba = at.id >> PATTERN_GENERATION_BITS;
	fault.byte = at.index * WORD_BYTES + byte;
	fault.shown = WORD_BYTES - byte;
	memcpy(fault.expected, (unsigned char *)&want + byte, fault.shown);
	memcpy(fault.seen, (unsigned char *)words + byte, fault.shown);
	find_cause(pattern, &fault, at, words, capacity);
	return fault;
}

static const char *cause_text(const struct pattern_fault *fault, char *text, size_t bytes)
{
	switch (fault->cause) {
	case PATTERN_UNTOUCHED: return "the buffer as it was before the read: this data never came";
	case PATTERN_ZEROES: return "zeroes: never written, deallocated, or lost";
	case PATTERN_OLDER:
		snprintf(text, bytes, "an older write to this LBA, generation %" PRIu32 ": a later one was lost",
			 fault->from_generation);
		return text;
	case PATTERN_NEWER:
		snprintf(text, bytes, "generation %" PRIu32 " of this LBA, which nothing that completed here wrote",
			 fault->from_generation);
		return text;
	case PATTERN_ELSEWHERE:
		snprintf(text, bytes, "data of LBA %" PRIu64 ", generation %" PRIu32, fault->from_lba,
			 fault->from_generation);
		return text;
	case PATTERN_SHIFTED:
		snprintf(text, bytes, "data of LBA %" PRIu64 ", generation %" PRIu32 ", from its byte %" PRIu64 " on",
			 fault->from_lba, fault->from_generation, fault->from_byte);
		return text;
	default: return "nothing that was written with this seed";
	}
}

static const char *hex(const unsigned char *bytes, unsigned int count, char *text)
{
	for (unsigned int i = 0; i < count; i++)
		snprintf(text + 3 * (size_t)i, 4, "%02x ", bytes[i]);
	return text;
}

const char *pattern_describe(const struct pattern_fault *fault, char *text, size_t bytes)
{
	char expected[3 * WORD_BYTES + 1] = "", seen[3 * WORD_BYTES + 1] = "", cause[128];

	snprintf(text, bytes,
		 "LBA %" PRIu64 ", byte %" PRIu64 ": expected %sof generation %" PRIu32 ", seen %sinstead, probably %s",
		 fault->lba, fault->byte, hex(fault->expected, fault->shown, expected), fault->generation,
		 hex(fault->seen, fault->shown, seen), cause_text(fault, cause, sizeof(cause)));
	return text;
}
