/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * main() of a fuzz target without libFuzzer. NVMFR_SEED repeats a run, NVMFR_FUZZ_RUNS makes it
 * longer or shorter; with arguments it runs the files they name and nothing else.
 */
#include "fuzz.h"

#include <inttypes.h>
#include <string.h>
#include <sys/random.h>

enum { RUNS = 10000, MAX_BYTES = 5000, MAX_CHANGES = 8 };

static uint64_t state;

static uint32_t pick(uint32_t below)
{
	state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (uint32_t)(state >> 33) % below;
}

static uint64_t number(const char *name, uint64_t otherwise)
{
	const char *text = getenv(name);

	return text ? strtoull(text, NULL, 10) : otherwise;
}

/* In memory of just its size, so that a look behind its end is seen. */
static void run(const uint8_t *data, size_t bytes)
{
	uint8_t *copy = malloc(bytes ? bytes : 1);

	FUZZ_CHECK(copy);
	if (bytes)
		memcpy(copy, data, bytes);
	LLVMFuzzerTestOneInput(copy, bytes);
	free(copy);
}

static void run_file(const char *path)
{
	static uint8_t data[1 << 20];
	FILE *file = fopen(path, "rb");
	size_t bytes;

	if (!file) {
		perror(path);
		exit(EXIT_FAILURE);
	}
	bytes = fread(data, 1, sizeof(data), file);
	fclose(file);
	run(data, bytes);
}

static void change(uint8_t *data, size_t *bytes)
{
	static const uint8_t odd[] = { 0, 1, 0x7f, 0x80, 0xff, '%', '/', ':' };
	uint32_t at = *bytes ? pick((uint32_t)*bytes) : 0;

	switch (pick(6)) {
	case 0: data[at] = (uint8_t)(data[at] ^ 1u << pick(8)); break;
	case 1: data[at] = odd[pick(sizeof(odd))]; break;
	case 2: data[at] = (uint8_t)pick(256); break;
	case 3: *bytes = at; break;
	case 4:
		for (uint32_t n = pick(64); n && *bytes < MAX_BYTES; n--)
			data[(*bytes)++] = (uint8_t)pick(256);
		break;
	default: memmove(data + at, data + at / 2, *bytes - at); break;
	}
}

static void run_random(void)
{
	static uint8_t data[MAX_BYTES + 1];
	const struct fuzz_input *from =
		&nvmfr__fuzz_corpus[pick((uint32_t)nvmfr__fuzz_corpus_count)];
	size_t bytes = pick(4) ? from->bytes : pick(pick(2) ? 64 : MAX_BYTES);

	if (bytes == from->bytes)
		memcpy(data, from->data, bytes);
	for (size_t i = 0; bytes != from->bytes && i < bytes; i++)
		data[i] = (uint8_t)pick(256);
	for (uint32_t n = 1 + pick(MAX_CHANGES); n; n--)
		change(data, &bytes);
	run(data, bytes);
}

int main(int argc, char **argv)
{
	uint64_t seed = 1, runs = number("NVMFR_FUZZ_RUNS", RUNS);

	for (int i = 1; i < argc; i++)
		run_file(argv[i]);
	if (argc > 1)
		return EXIT_SUCCESS;
	if (getrandom(&seed, sizeof(seed), 0) != sizeof(seed))
		seed = 1;
	state = seed = number("NVMFR_SEED", seed);
	printf("%s: NVMFR_SEED=%" PRIu64 ", %zu inputs and %" PRIu64 " changed or random ones\n",
	       argv[0], seed, nvmfr__fuzz_corpus_count, runs);
	fflush(stdout);
	for (size_t i = 0; i < nvmfr__fuzz_corpus_count; i++)
		run(nvmfr__fuzz_corpus[i].data, nvmfr__fuzz_corpus[i].bytes);
	while (runs--)
		run_random();
	return EXIT_SUCCESS;
}
