/* SPDX-License-Identifier: BSD-3-Clause */
/* nvmfr-perf --verify: writes a pattern, and looks at every byte that is read. */
#include "perf_verify.h"

#include "perf_worker.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define IN_FLIGHT (1u << PATTERN_GENERATION_BITS)

int verify_init(struct worker *w, uint32_t seed, uint64_t capacity, bool written)
{
	struct verify *v = calloc(1, sizeof(*v));

	w->verify = v;
	if (!v)
		return -ENOMEM;
	v->capacity = capacity;
	v->places = calloc(w->places, sizeof(*v->places));
	v->slot_places = calloc(w->depth, sizeof(*v->slot_places));
	if (!pattern_init(&v->pattern, seed, w->block_bytes) || !v->places || !v->slot_places)
		return -ENOMEM;
	for (uint64_t i = 0; written && i < w->places; i++)
		v->places[i] = 1;
	return 0;
}

void verify_fini(struct worker *w)
{
	struct verify *v = w->verify;

	if (!v)
		return;
	pattern_fini(&v->pattern);
	free(v->places);
	free(v->slot_places);
	free(v);
	w->verify = NULL;
}

/* The piece's bytes of an I/O, and where they lie in memory. */
static unsigned char *piece_of(const struct worker *w, uint16_t slot, uint64_t piece, uint32_t generation,
			       struct pattern_span *span)
{
	uint64_t words = worker_piece_bytes(w) / 8;

	*span = (struct pattern_span){
		.lba = w->first_lba + w->verify->slot_places[slot] * w->io_blocks,
		.first_word = piece * words,
		.words = words,
		.generation = generation,
	};
	return (unsigned char *)nvmfr_buffer_addr(w->buf) + worker_piece_offset(w, slot, piece);
}

static void fill_slot(const struct worker *w, uint16_t slot, uint32_t generation)
{
	struct pattern_span span;

	for (uint64_t i = 0; i < w->opts->pieces; i++) {
		unsigned char *to = piece_of(w, slot, i, generation, &span);

		pattern_fill(&w->verify->pattern, to, &span);
	}
}

static void poison_slot(const struct worker *w, uint16_t slot)
{
	struct pattern_span span;

	for (uint64_t i = 0; i < w->opts->pieces; i++)
		pattern_poison(piece_of(w, slot, i, 0, &span), worker_piece_bytes(w));
}

/* false: all that may be taken now has an I/O in flight. */
static bool choose_place(struct worker *w, unsigned int ahead, uint64_t *place)
{
	const uint32_t *places = w->verify->places;

	*place = worker_next_place(w, ahead);
	if (!w->random)
		return !(places[*place] & IN_FLIGHT);
	for (uint64_t tries = 0; tries < w->places; tries++) {
		if (!(places[*place] & IN_FLIGHT))
			return true;
		*place = (*place + 1) % w->places;
	}
	return false;
}

unsigned int verify_build(struct worker *w, struct nvmfr_io *ios, unsigned int want)
{
	struct verify *v = w->verify;

	for (unsigned int i = 0; i < want; i++) {
		uint16_t slot = *worker_slot(w, i);
		bool read = worker_next_is_read(w);
		uint64_t place;

		if (!choose_place(w, i, &place))
			return i;
		v->slot_places[slot] = place;
		if (read)
			poison_slot(w, slot);
		else
			fill_slot(w, slot, pattern_next_generation(v->places[place]));
		v->places[place] |= IN_FLIGHT;
		worker_build(w, &ios[i], slot, place, read);
	}
	return want;
}

void verify_undo(struct worker *w, const struct nvmfr_io *ios, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++)
		w->verify->places[w->verify->slot_places[ios[i].user_data & SLOT_MASK]] &= ~IN_FLIGHT;
}

static void end_run(struct worker *w)
{
	w->left = 0;
	atomic_store(w->stop, true);
}

static void mismatch(struct worker *w, const struct pattern_fault *fault, uint64_t wrong)
{
	struct verify *v = w->verify;
	char sentence[400];

	if (!v->mismatches++)
		snprintf(v->failure, sizeof(v->failure), "%s; %" PRIu64 " of this read's %" PRIu64 " bytes are wrong",
			 pattern_describe(fault, sentence, sizeof(sentence)), wrong, w->opts->io_bytes);
	end_run(w);
}

static void check_slot(struct worker *w, uint16_t slot, uint32_t generation)
{
	struct verify *v = w->verify;
	struct pattern_fault fault;
	struct pattern_span span;
	uint64_t wrong = 0;

	v->checked++;
	for (uint64_t i = 0; i < w->opts->pieces; i++) {
		unsigned char *from = piece_of(w, slot, i, generation, &span);
		uint64_t here = pattern_wrong_bytes(&v->pattern, from, &span);

		if (here && !wrong)
			fault = pattern_explain(&v->pattern, from, &span, v->capacity);
		wrong += here;
	}
	if (wrong)
		mismatch(w, &fault, wrong);
}

void verify_collect(struct worker *w, const struct nvmfr_completion *done, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++) {
		uint16_t slot = done[i].user_data & SLOT_MASK;
		uint32_t *place = &w->verify->places[w->verify->slot_places[slot]];

		*place &= ~IN_FLIGHT;
		if (done[i].result)
			end_run(w);
		else if (done[i].user_data & WRITES)
			*place = pattern_next_generation(*place);
		else
			check_slot(w, slot, *place);
	}
}
