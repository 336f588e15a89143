/* SPDX-License-Identifier: BSD-3-Clause */
/* The pattern of nvmfr-perf --verify: what it finds, and what it says of it. */
#include "../examples/perf_pattern.h"

#include <stdio.h>
#include <string.h>

#include "testing.h"

enum { BLOCK = 512,
       BLOCKS = 8,
       CAPACITY = 1000,
       LBA = 100 };

static struct pattern pattern;
static unsigned char data[BLOCKS * BLOCK];

static struct pattern_span span_of(uint64_t lba, uint32_t generation)
{
	return (struct pattern_span){ .lba = lba, .words = sizeof(data) / 8, .generation = generation };
}

/* LBA to LBA + 7 of generation 5. */
static void fill(void)
{
	struct pattern_span span = span_of(LBA, 5);

	cr_assert(pattern_init(&pattern, 42, BLOCK));
	pattern_fill(&pattern, data, &span);
}

static void end(void)
{
	pattern_fini(&pattern);
}

static uint64_t wrong(void)
{
	struct pattern_span span = span_of(LBA, 5);

	return pattern_wrong_bytes(&pattern, data, &span);
}

static struct pattern_fault explain(void)
{
	struct pattern_span span = span_of(LBA, 5);

	return pattern_explain(&pattern, data, &span, CAPACITY);
}

/* Puts n bytes of that LBA and generation over those from `at` on. */
static void put(size_t at, size_t n, uint64_t lba, uint32_t generation, size_t from)
{
	struct pattern_span span = span_of(lba, generation);
	unsigned char other[sizeof(data)];

	pattern_fill(&pattern, other, &span);
	memcpy(data + at, other + from, n);
}

Test(perf_pattern, holds, .init = fill, .fini = end)
{
	cr_expect_eq(wrong(), 0);
}

Test(perf_pattern, is_the_same_for_every_size_of_io, .init = fill, .fini = end)
{
	for (uint64_t i = 0; i < BLOCKS; i++) {
		struct pattern_span span = { .lba = LBA + i, .words = BLOCK / 8, .generation = 5 };

		cr_expect_eq(pattern_wrong_bytes(&pattern, data + i * BLOCK, &span), 0);
	}
	for (uint64_t i = 0; i < sizeof(data) / 8; i++) {
		struct pattern_span span = { .lba = LBA, .first_word = i, .words = 1, .generation = 5 };

		cr_expect_eq(pattern_wrong_bytes(&pattern, data + i * 8, &span), 0);
	}
}

Test(perf_pattern, words_are_all_different, .init = fill, .fini = end)
{
	for (size_t i = 0; i < sizeof(data); i += 8)
		for (size_t j = 0; j < i; j += 8)
			cr_expect(memcmp(data + i, data + j, 8) != 0);
}

Test(perf_pattern, one_bit_anywhere_is_found, .init = fill, .fini = end)
{
	for (size_t bit = 0; bit < sizeof(data) * 8; bit++) {
		struct pattern_fault fault;

		data[bit / 8] ^= (unsigned char)(1 << bit % 8);
		cr_expect_eq(wrong(), 1);
		fault = explain();
		cr_expect_eq(fault.lba, LBA + bit / 8 / BLOCK);
		cr_expect_eq(fault.byte, bit / 8 % BLOCK);
		cr_expect_eq(fault.shown, 8 - bit / 8 % 8);
		cr_expect_eq(fault.seen[0], data[bit / 8]);
		cr_expect_eq(fault.expected[0], data[bit / 8] ^ 1 << bit % 8);
		data[bit / 8] ^= (unsigned char)(1 << bit % 8);
	}
}

Test(perf_pattern, data_that_never_came, .init = fill, .fini = end)
{
	pattern_poison(data + 3 * BLOCK, BLOCK);
	cr_expect_eq(explain().cause, PATTERN_UNTOUCHED);
	cr_expect_eq(explain().lba, LBA + 3);
	cr_expect(wrong() > BLOCK - 16);
	cr_expect(wrong() <= BLOCK);
}

Test(perf_pattern, zeroes, .init = fill, .fini = end)
{
	memset(data + 64, 0, 8);
	cr_expect_eq(explain().cause, PATTERN_ZEROES);
	cr_expect_eq(explain().byte, 64);
}

Test(perf_pattern, older_and_newer, .init = fill, .fini = end)
{
	put(BLOCK, BLOCK, LBA, 4, BLOCK);
	cr_expect_eq(explain().cause, PATTERN_OLDER);
	cr_expect_eq(explain().from_generation, 4);
	cr_expect_eq(explain().from_lba, LBA + 1);
	put(BLOCK, BLOCK, LBA, 6, BLOCK);
	cr_expect_eq(explain().cause, PATTERN_NEWER);
	cr_expect_eq(explain().from_generation, 6);
}

/* Old and new within one block. */
Test(perf_pattern, torn, .init = fill, .fini = end)
{
	put(2 * BLOCK + 256, 256, LBA, 4, 2 * BLOCK + 256);
	cr_expect_eq(explain().cause, PATTERN_OLDER);
	cr_expect_eq(explain().lba, LBA + 2);
	cr_expect_eq(explain().byte, 256);
	cr_expect(wrong() <= 256);
}

Test(perf_pattern, another_lba, .init = fill, .fini = end)
{
	put(0, BLOCK, 900, 3, 0);
	cr_expect_eq(explain().cause, PATTERN_ELSEWHERE);
	cr_expect_eq(explain().from_lba, 900);
	cr_expect_eq(explain().from_generation, 3);
}

Test(perf_pattern, shifted, .init = fill, .fini = end)
{
	put(BLOCK, BLOCK, LBA, 5, BLOCK + 16);
	cr_expect_eq(explain().cause, PATTERN_SHIFTED);
	cr_expect_eq(explain().from_lba, LBA + 1);
	cr_expect_eq(explain().from_byte, 16);
}

Test(perf_pattern, another_seed, .init = fill, .fini = end)
{
	struct pattern_span span = span_of(LBA, 5);
	struct pattern other;

	cr_assert(pattern_init(&other, 43, BLOCK));
	pattern_fill(&other, data, &span);
	pattern_fini(&other);
	cr_expect_eq(explain().cause, PATTERN_UNKNOWN);
	cr_expect(wrong() > sizeof(data) / 256 * 250);
}

/* What lies beyond the namespace is chance. */
Test(perf_pattern, an_lba_beyond_the_namespace, .init = fill, .fini = end)
{
	put(0, BLOCK, CAPACITY, 3, 0);
	cr_expect_eq(explain().cause, PATTERN_UNKNOWN);
}

Test(perf_pattern, last_word, .init = fill, .fini = end)
{
	put(sizeof(data) - 8, 8, LBA, 4, sizeof(data) - 8);
	cr_expect_eq(explain().cause, PATTERN_OLDER);
	cr_expect_eq(explain().lba, LBA + 7);
}

Test(perf_pattern, generations_go_round_and_leave_out_zero)
{
	cr_expect_eq(pattern_next_generation(0), 1);
	cr_expect_eq(pattern_next_generation(7), 8);
	cr_expect_eq(pattern_next_generation(PATTERN_GENERATION_MASK), 1);
}

Test(perf_pattern, sentence, .init = fill, .fini = end)
{
	struct pattern_fault fault;
	char text[400];

	put(BLOCK, BLOCK, 900, 3, BLOCK);
	fault = explain();
	memset(fault.expected, 0x12, sizeof(fault.expected));
	memset(fault.seen, 0x34, sizeof(fault.seen));
	cr_expect_str_eq(pattern_describe(&fault, text, sizeof(text)),
			 "LBA 101, byte 0: expected 12 12 12 12 12 12 12 12 of generation 5, "
			 "seen 34 34 34 34 34 34 34 34 instead, probably data of LBA 901, generation 3");
}

Test(perf_pattern, every_cause_has_its_words)
{
	static const char *const words[] = {
		[PATTERN_UNTOUCHED] = "never came",
		[PATTERN_ZEROES] = "zeroes",
		[PATTERN_OLDER] = "an older write to this LBA, generation 9",
		[PATTERN_NEWER] = "generation 9 of this LBA",
		[PATTERN_ELSEWHERE] = "data of LBA 8, generation 9",
		[PATTERN_SHIFTED] = "data of LBA 8, generation 9, from its byte 16 on",
		[PATTERN_UNKNOWN] = "nothing that was written with this seed",
	};
	char text[400];

	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++) {
		struct pattern_fault fault = {
			.cause = (enum pattern_cause)i, .shown = 1, .from_lba = 8, .from_generation = 9, .from_byte = 16
		};

		cr_expect(strstr(pattern_describe(&fault, text, sizeof(text)), words[i]) != NULL, "%s", text);
	}
}
