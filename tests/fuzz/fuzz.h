/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A fuzz target is one function and a few inputs worth starting from. With driver.c it is a plain
 * program that runs those, then a fixed number of random and of changed ones; with clang's
 * -fsanitize=fuzzer, libFuzzer's.
 */
#ifndef TESTS_FUZZ_FUZZ_H
#define TESTS_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

struct fuzz_input {
	const void *data;
	size_t bytes;
};

extern const struct fuzz_input nvmfr__fuzz_corpus[];
extern const size_t nvmfr__fuzz_corpus_count;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

#define FUZZ_CHECK(Good) \
	do { \
		if (!(Good)) { \
			fprintf(stderr, "# %s:%d: not so: %s\n", __FILE__, __LINE__, #Good); \
			abort(); \
		} \
	} while (0)

#endif
