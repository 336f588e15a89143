/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "vmcheck.h"

static bool overlaps(const struct worker *w, uint64_t first, uint64_t nblocks)
{
	for (unsigned int i = 0; i < DEPTH; i++) {
		const struct flight *f = &w->flights[i];

		if (f->busy && first < f->first + f->nblocks && f->first < first + nblocks)
			return true;
	}
	return false;
}

static uint8_t random_op(struct worker *w)
{
	uint64_t dice = random_below(w, 32);

	if (dice == 0)
		return NVMFR_OP_FLUSH;
	if (dice == 1 && w->session->zeroes)
		return NVMFR_OP_WRITE_ZEROES;
	return dice & 1 ? NVMFR_OP_WRITE : NVMFR_OP_READ;
}

static bool choose(struct worker *w, struct flight *f)
{
	uint32_t block = w->session->ns.block_bytes;
	uint64_t most = (random_below(w, 16) == 0 ? LARGE_BYTES : SMALL_BYTES) / block;

	f->op = random_op(w);
	f->nblocks = 1 + random_below(w, most);
	f->first = random_below(w, region_blocks(w) - f->nblocks + 1);
	if (f->op == NVMFR_OP_FLUSH) {
		f->first = f->nblocks = 0;
		return true;
	}
	/* Two commands in flight on one block, one of them a write, leave the outcome open. */
	if (overlaps(w, f->first, f->nblocks))
		return false;
	place(w, f);
	return true;
}

/* Who has a write in doubt, which takes seconds, goes on with other blocks. */
static bool choose_any(struct worker *w, struct flight *f)
{
	for (unsigned int tries = 0; tries < 32; tries++)
		if (choose(w, f))
			return true;
	return false;
}

/* A pattern before a write; its opposite before a read, which must then replace every byte. */
static void fill(struct worker *w, const struct flight *f)
{
	const uint8_t *want = w->model + f->first * w->session->ns.block_bytes;

	if (f->op != NVMFR_OP_READ && f->op != NVMFR_OP_WRITE)
		return;
	for (unsigned int i = 0; i < f->npieces; i++) {
		uint8_t *mem = w->mem + f->pieces[i].offset_bytes;

		for (uint64_t b = 0; b < f->pieces[i].len_bytes; b += sizeof(uint64_t)) {
			uint64_t word;

			memcpy(&word, want + b, sizeof(word));
			word = f->op == NVMFR_OP_READ ? ~word : next_random(&w->random);
			memcpy(mem + b, &word, sizeof(word));
		}
		want += f->pieces[i].len_bytes;
	}
}

static int compare(const struct worker *w, const struct flight *f, const uint8_t *want)
{
	for (unsigned int i = 0; i < f->npieces; i++) {
		const struct nvmfr_iov *p = &f->pieces[i];

		if (memcmp(w->mem + p->offset_bytes, want, p->len_bytes))
			return fail(-EIO,
				    "thread %u: blocks %" PRIu64 "+%" PRIu64
				    " of the region, piece %u of %u, differ from what was written",
				    w->index, f->first, f->nblocks, i + 1, f->npieces);
		want += p->len_bytes;
	}
	return 0;
}

static int apply(struct worker *w, const struct flight *f)
{
	uint32_t block = w->session->ns.block_bytes;
	uint8_t *model = w->model + f->first * block;

	if (f->op == NVMFR_OP_FLUSH)
		return 0;
	w->moved_bytes += f->nblocks * block;
	if (f->op == NVMFR_OP_READ)
		return compare(w, f, model);
	if (f->op == NVMFR_OP_WRITE_ZEROES) {
		memset(model, 0, f->nblocks * block);
		return 0;
	}
	for (unsigned int i = 0; i < f->npieces; i++) {
		memcpy(model, w->mem + f->pieces[i].offset_bytes, f->pieces[i].len_bytes);
		model += f->pieces[i].len_bytes;
	}
	return 0;
}

/* Takes what has completed, waiting for at least one. */
static int collect(struct worker *w)
{
	struct nvmfr_completion done[DEPTH];
	int n = worker_wait(w, done);

	if (n <= 0)
		return api_fail(n ? n : -ETIMEDOUT, "wait");
	for (int i = 0; i < n; i++) {
		struct flight *f = landed(w, &done[i]);

		if (!f)
			return -EPROTO;
		if (done[i].result)
			return fail(done[i].result, "thread %u: op %u, blocks %" PRIu64 "+%" PRIu64 ": %s, %s",
				    w->index, f->op, f->first, f->nblocks, nvmfr_strerror(done[i].result),
				    nvmfr_status_string(done[i].status));
		if (apply(w, f))
			return -EIO;
	}
	return 0;
}

static int drain(struct worker *w)
{
	int err = 0;

	while (!err && w->completed < w->accepted)
		err = collect(w);
	return err;
}

/* No room: what is in flight ends, or there is a connection again. */
static int await_room(struct worker *w)
{
	int err;

	if (w->mq || w->completed < w->accepted)
		return collect(w);
	err = nvmfr_qpair_wait(w->qp, PATIENCE_MS);
	return err && err != -EBUSY ? api_fail(err, "queue pair") : 0;
}

/* One pass over the region, in pieces: OP is a write at first, and a read at last. */
static int sweep(struct worker *w, uint8_t op)
{
	uint64_t step = SMALL_BYTES / w->session->ns.block_bytes;
	uint64_t first = 0;
	int err = 0;

	while (!err && first < region_blocks(w)) {
		struct flight *f = &w->flights[0];

		*f = (struct flight){ .op = op, .first = first, .nblocks = step };
		place(w, f);
		fill(w, f);
		err = post(w, f);
		if (err == -EAGAIN) {
			err = await_room(w);
			continue;
		}
		if (err)
			return api_fail(err, "submit");
		err = collect(w);
		first += step;
	}
	return err;
}

/* Until so many are submitted, or the session asks for a verification. */
static int mix(struct worker *w, unsigned int left)
{
	int err = 0;

	while (!err && left && w->rounds == atomic_load(&w->session->rounds)) {
		struct flight *f = idle_flight(w);

		if (!f || !choose_any(w, f)) {
			err = w->completed < w->accepted ? collect(w) : 0;
			continue;
		}
		fill(w, f);
		err = post(w, f);
		if (err == -EAGAIN)
			err = await_room(w);
		else if (err)
			return api_fail(err, "submit");
		else
			left--;
	}
	return err ? err : drain(w);
}

int verify_open(struct worker *w)
{
	int err;

	w->model = calloc(1, REGION_BYTES);
	if (!w->model)
		return fail(-ENOMEM, "no memory for the model");
	err = worker_open(w, (size_t)DEPTH * AREA_BYTES);
	return err ? err : sweep(w, NVMFR_OP_WRITE);
}

int verify_round(struct worker *w, unsigned int ios)
{
	int err = mix(w, ios);

	return err ? err : sweep(w, NVMFR_OP_READ);
}

int verify(struct worker *w)
{
	int err = verify_open(w);

	if (!err)
		err = verify_round(w, w->session->ios);
	return err ? err : worker_close(w);
}
