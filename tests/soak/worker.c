/* SPDX-License-Identifier: BSD-3-Clause */
#include "soak.h"

#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORDS = BLOCK / 8,
       POISON = 0xa5,
       DONE = 32,
       REOPEN_TRIES = 20 };

static unsigned char poison[REGION];

uint64_t soak_random(uint64_t *state)
{
	uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

uint64_t soak_below(uint64_t *state, uint64_t below)
{
	return soak_random(state) % below;
}

__attribute__((format(printf, 2, 3))) static void fail(struct worker *w, const char *fmt, ...)
{
	va_list args;

	if (atomic_load(&w->failed))
		return;
	va_start(args, fmt);
	vsnprintf(w->failure, sizeof(w->failure), fmt, args);
	va_end(args);
	atomic_store(&w->failed, true);
}

/* ---- data ------------------------------------------------------------------------------------ */

static uint64_t word_of(uint64_t value, unsigned int word)
{
	return value ? value ^ word * UINT64_C(0x0101010101010101) : 0;
}

static void fill(unsigned char *at, uint64_t value)
{
	for (unsigned int i = 0; i < WORDS; i++) {
		uint64_t word = word_of(value, i);

		memcpy(at + i * 8, &word, 8);
	}
}

/* The value that a block of data shows; false: it is none, or of two. */
static bool shown(const unsigned char *at, uint64_t *value)
{
	memcpy(value, at, 8);
	for (unsigned int i = 1; i < WORDS; i++) {
		uint64_t word;

		memcpy(&word, at + i * 8, 8);
		if (word != word_of(*value, i))
			return false;
	}
	return true;
}

/* Where block i of an I/O lies: with two pieces the second half comes first. */
static unsigned char *place(const struct slot *slot, uint64_t i)
{
	uint64_t n = slot->io.nblocks, first = n / 2;

	if (!(slot->io.flags & NVMFR_IO_VEC))
		return slot->memory + i * BLOCK;
	return slot->memory + (i < first ? n - first + i : i - first) * BLOCK;
}

static bool writes(const struct slot *slot)
{
	return slot->io.op == NVMFR_OP_WRITE || slot->io.op == NVMFR_OP_WRITE_ZEROES;
}

static uint64_t written(const struct slot *slot, uint64_t i)
{
	return slot->io.op == NVMFR_OP_WRITE ? slot->value + i : 0;
}

/* ---- memory ---------------------------------------------------------------------------------- */

static void check_poison(struct worker *w, const unsigned char *memory, size_t from, const char *when)
{
	if (memcmp(memory + from, poison + from, REGION - from) != 0)
		fail(w, "memory at %p was written %s", (const void *)memory, when);
}

/* Poisoned, at the end of those that rest. */
static void lay_down(struct worker *w, unsigned char *memory)
{
	memcpy(memory, poison, REGION);
	w->resting[(w->first + w->rest++) % REGIONS] = memory;
}

/* The one that was out of use for the longest. */
static unsigned char *take_up(struct worker *w)
{
	unsigned char *memory = w->resting[w->first];

	w->first = (w->first + 1) % REGIONS;
	w->rest--;
	check_poison(w, memory, 0, "after its completion");
	return memory;
}

/* It was not used after all. */
static void put_back(struct worker *w, unsigned char *memory)
{
	memcpy(memory, poison, REGION);
	w->first = (w->first + REGIONS - 1) % REGIONS;
	w->resting[w->first] = memory;
	w->rest++;
}

/* ---- making I/Os ----------------------------------------------------------------------------- */

static bool range_is_free(const struct worker *w, uint64_t first, uint64_t n)
{
	for (uint64_t i = first; i < first + n; i++)
		if (w->blocks[i].busy)
			return false;
	return true;
}

static bool too_doubtful(const struct worker *w, uint64_t first, uint64_t n)
{
	for (uint64_t i = first; i < first + n; i++)
		if (w->blocks[i].doubt_count == MAX_DOUBTS)
			return true;
	return false;
}

static uint8_t choose_op(struct worker *w)
{
	static const uint8_t ops[] = { NVMFR_OP_READ, NVMFR_OP_READ, NVMFR_OP_READ,
				       NVMFR_OP_WRITE, NVMFR_OP_WRITE, NVMFR_OP_WRITE_ZEROES };

	return ops[soak_below(&w->random, sizeof(ops))];
}

static void place_data(struct worker *w, struct slot *slot, bool vec)
{
	uint64_t offset = (uint64_t)(slot->memory - (unsigned char *)nvmfr_buffer_addr(w->buf));
	uint64_t n = slot->io.nblocks;

	if (slot->io.op == NVMFR_OP_WRITE_ZEROES)
		return;
	if (!vec || n < 2) {
		slot->io.buf = w->buf;
		slot->io.offset_bytes = offset;
		return;
	}
	slot->io.flags = NVMFR_IO_VEC;
	slot->iov[0] = (struct nvmfr_iov){ w->buf, offset + (n - n / 2) * BLOCK, n / 2 * BLOCK };
	slot->iov[1] = (struct nvmfr_iov){ w->buf, offset, (n - n / 2) * BLOCK };
	slot->io.iov = slot->iov;
	slot->io.niov = 2;
}

/* Of the namespace that comes and goes: only that it ends, once, is looked at. */
static void make_foreign(struct worker *w, struct slot *slot)
{
	slot->foreign = true;
	slot->io = (struct nvmfr_io){ .op = NVMFR_OP_READ,
				      .nsid = FOREIGN_NSID,
				      .lba = soak_below(&w->random, 8),
				      .nblocks = 1 };
	place_data(w, slot, false);
}

/* false: the place is taken now. */
static bool make(struct worker *w, struct slot *slot)
{
	uint64_t n = 1 + soak_below(&w->random, soak_below(&w->random, 8) ? 8 : MAX_BLOCKS);
	uint64_t first = soak_below(&w->random, BLOCKS_OF_ALL - n + 1);
	uint8_t op = choose_op(w);

	slot->foreign = false;
	/* By paths it would wait until that namespace is there. */
	if (!w->mpath && soak_below(&w->random, 32) == 0) {
		make_foreign(w, slot);
		return true;
	}
	if (!range_is_free(w, first, n))
		return false;
	if (op != NVMFR_OP_READ && too_doubtful(w, first, n))
		op = NVMFR_OP_READ;
	slot->io = (struct nvmfr_io){ .op = op,
				      .nsid = STEADY_NSID,
				      .lba = (uint64_t)w->index * BLOCKS_OF_ALL + first,
				      .nblocks = n };
	place_data(w, slot, soak_below(&w->random, 4) == 0);
	slot->value = w->next_value;
	w->next_value += n;
	for (uint64_t i = 0; op == NVMFR_OP_WRITE && i < n; i++)
		fill(place(slot, i), slot->value + i);
	return true;
}

static struct block *blocks_of(struct worker *w, const struct slot *slot)
{
	return &w->blocks[slot->io.lba - (uint64_t)w->index * BLOCKS_OF_ALL];
}

static void set_busy(struct worker *w, const struct slot *slot, bool busy)
{
	for (uint64_t i = 0; !slot->foreign && i < slot->io.nblocks; i++)
		blocks_of(w, slot)[i].busy = busy;
}

/* 1: it is out. */
static int send(struct worker *w, struct slot *slot)
{
	int n;

	slot->io.user_data = (uint64_t)++slot->generation << 8 | (uint64_t)(slot - w->slots);
	slot->trouble = w->trouble;
	n = queues_submit(w, &slot->io);
	if (n != 1)
		return n;
	slot->in_flight = true;
	w->in_flight++;
	set_busy(w, slot, true);
	atomic_fetch_add(&w->submitted, 1);
	return n;
}

static void submit(struct worker *w, struct slot *slot)
{
	int n = 0;

	slot->memory = take_up(w);
	if (make(w, slot))
		n = send(w, slot);
	if (n == 1)
		return;
	put_back(w, slot->memory);
	if (n == 0)
		return;
	/* The other namespace went, or shrank. */
	if (n != -EAGAIN && !(slot->foreign && (n == -ENOENT || n == -ERANGE)))
		fail(w, "submit: %d, %s", n, nvmfr_last_error());
}

/* ---- ending ---------------------------------------------------------------------------------- */

static void end_write(struct worker *w, const struct slot *slot, bool good)
{
	struct block *block = blocks_of(w, slot);

	for (uint64_t i = 0; i < slot->io.nblocks; i++, block++) {
		if (good) {
			block->value = written(slot, i);
			block->doubt_count = 0;
		} else {
			block->doubts[block->doubt_count++] = written(slot, i);
		}
	}
}

static bool may_hold(const struct block *block, uint64_t value)
{
	bool may = block->value == value;

	for (unsigned int i = 0; i < block->doubt_count; i++)
		may |= block->doubts[i] == value;
	return may;
}

static void end_read(struct worker *w, const struct slot *slot)
{
	struct block *block = blocks_of(w, slot);

	for (uint64_t i = 0; i < slot->io.nblocks; i++, block++) {
		uint64_t value;

		if (!shown(place(slot, i), &value) || !may_hold(block, value)) {
			fail(w,
			     "LBA %" PRIu64 " of a read of %" PRIu64 " blocks, flags %u: holds %016" PRIx64
			     ", not %016" PRIx64 " nor one of %u in doubt",
			     slot->io.lba + i, slot->io.nblocks, slot->io.flags, value, block->value,
			     block->doubt_count);
			return;
		}
		block->value = value;
		block->doubt_count = 0;
	}
}

static bool is_issued_again(const struct worker *w, const struct slot *slot)
{
	return w->retry == NVMFR_RETRY_ALL || (w->retry == NVMFR_RETRY_READS && slot->io.op == NVMFR_OP_READ);
}

static bool is_path_status(uint16_t status)
{
	return (status >> 8 & 7) == 3;
}

/* Issued again as often as it is documented to be. */
static bool is_given_up(const struct worker *w, const struct slot *slot)
{
	return queues_trouble(w) - slot->trouble > queues_outlived(w);
}

/* Of several commands one may have failed already when the others were lost. */
static bool is_spoilt(struct worker *w, const struct slot *slot)
{
	bool several = slot->io.nblocks > COMMAND_BLOCKS || slot->io.flags & NVMFR_IO_VEC;
	bool may = !w->mpath && several;

	if (may)
		atomic_fetch_add(&w->spoilt, 1);
	return may;
}

/* Whether an I/O may end so, with what was asked for. */
static bool may_end(struct worker *w, const struct slot *slot, const struct nvmfr_completion *done)
{
	bool again = is_issued_again(w, slot);

	if (slot->foreign)
		return true;
	switch (done->result) {
	case -EREMOTEIO:
		return done->status == INJECTED_STATUS || (w->mpath && !again && is_path_status(done->status));
	case -ECONNABORTED: return !again || is_given_up(w, slot) || is_spoilt(w, slot);
	case -ETIMEDOUT: return !again || !w->mpath || is_given_up(w, slot);
	default: return true;
	}
}

static void count(struct worker *w, const struct slot *slot, const struct nvmfr_completion *done)
{
	if (!may_end(w, slot, done))
		fail(w, "an I/O, op %u, of %" PRIu64 " blocks ended with %d, status %04x, although retry is %u",
		     slot->io.op, slot->io.nblocks, done->result, done->status, w->retry);
	switch (done->result) {
	case 0: atomic_fetch_add(&w->good, 1); break;
	case -EREMOTEIO: atomic_fetch_add(&w->refused, 1); break;
	case -ECONNABORTED: atomic_fetch_add(&w->aborted, 1); break;
	case -ETIMEDOUT: atomic_fetch_add(&w->timed_out, 1); break;
	default: fail(w, "an I/O, op %u, ended with %d", slot->io.op, done->result);
	}
}

static void end(struct worker *w, const struct nvmfr_completion *done)
{
	uint64_t index = done->user_data & 0xff;
	struct slot *slot = &w->slots[index % SLOTS];

	if (index >= SLOTS || !slot->in_flight || slot->io.user_data != done->user_data) {
		fail(w, "a completion that is nobody's, or came twice: user_data %" PRIx64 ", result %d",
		     done->user_data, done->result);
		return;
	}
	slot->in_flight = false;
	w->in_flight--;
	set_busy(w, slot, false);
	count(w, slot, done);
	check_poison(w, slot->memory, slot->io.op == NVMFR_OP_WRITE_ZEROES ? 0 : slot->io.nblocks * BLOCK,
		     "in flight, outside of what was asked for");
	if (writes(slot))
		end_write(w, slot, done->result == 0);
	else if (done->result == 0 && !slot->foreign)
		end_read(w, slot);
	lay_down(w, slot->memory);
}

/* Polls and sleeps take turns. */
static void collect(struct worker *w)
{
	struct nvmfr_completion done[DONE];
	bool sleep = w->in_flight && soak_below(&w->random, 2);
	int n = queues_collect(w, done, DONE, sleep);

	if (n < 0)
		fail(w, "poll: %d, %s", n, nvmfr_last_error());
	for (int i = 0; i < n; i++)
		end(w, &done[i]);
	if (n == 0 && !sleep)
		sched_yield();
}

/* ---- the thread ------------------------------------------------------------------------------ */

/* What was in flight gets no completion, and its memory is the worker's again. */
static void forget(struct worker *w, struct slot *slot)
{
	slot->in_flight = false;
	w->in_flight--;
	set_busy(w, slot, false);
	atomic_fetch_add(&w->forgotten, 1);
	if (writes(slot))
		end_write(w, slot, false);
	lay_down(w, slot->memory);
}

static void reopen(struct worker *w)
{
	int err = queues_close(w);

	for (unsigned int i = 0; i < SLOTS; i++)
		if (w->slots[i].in_flight)
			forget(w, &w->slots[i]);
	err = err ? err : queues_open(w);
	/* A fault that meets its first connection ends it. */
	for (unsigned int i = 0; err && i < REOPEN_TRIES; i++) {
		err = queues_close(w);
		err = err ? err : queues_open(w);
	}
	if (err)
		fail(w, "another queue pair: %d, %s", err, nvmfr_last_error());
}

/* The whole of it, block by block, until each is known. */
static void read_all(struct worker *w)
{
	for (unsigned int first = 0; first < BLOCKS_OF_ALL && !atomic_load(&w->failed);) {
		struct slot *slot = &w->slots[0];
		uint64_t good = atomic_load(&w->good);

		slot->foreign = false;
		slot->io = (struct nvmfr_io){ .op = NVMFR_OP_READ,
					      .nsid = STEADY_NSID,
					      .lba = (uint64_t)w->index * BLOCKS_OF_ALL + first,
					      .nblocks = 8 };
		slot->memory = take_up(w);
		place_data(w, slot, false);
		if (send(w, slot) != 1)
			put_back(w, slot->memory);
		do
			collect(w);
		while (w->in_flight && !atomic_load(&w->failed));
		if (atomic_load(&w->good) != good)
			first += 8;
	}
}

static int set_up(struct worker *w)
{
	const size_t bytes = (size_t)REGIONS * REGION;
	int err = nvmfr_buffer_alloc(w->host, bytes, -1, &w->buf);

	for (unsigned int i = 0; !err && i < REGIONS; i++)
		lay_down(w, (unsigned char *)nvmfr_buffer_addr(w->buf) + (size_t)i * REGION);
	return err ? err : queues_open(w);
}

static void tear_down(struct worker *w)
{
	if (queues_close(w))
		fail(w, "group: %s", nvmfr_last_error());
	while (w->rest && !atomic_load(&w->failed))
		(void)take_up(w);
	if (nvmfr_buffer_release(w->buf))
		fail(w, "buffer: %s", nvmfr_last_error());
}

void *worker_run(void *arg)
{
	struct worker *w = arg;

	w->next_value = (uint64_t)(w->index + 1) << 56;
	if (set_up(w))
		fail(w, "set-up: %s", nvmfr_last_error());
	while (!atomic_load(w->stop) && !atomic_load(&w->failed)) {
		w->trouble = queues_trouble(w);
		if (atomic_exchange(&w->reopen, false))
			reopen(w);
		for (unsigned int i = 0; i < SLOTS; i++)
			if (!w->slots[i].in_flight)
				submit(w, &w->slots[i]);
		collect(w);
	}
	while (w->in_flight && !atomic_load(&w->failed))
		collect(w);
	read_all(w);
	tear_down(w);
	return NULL;
}

__attribute__((constructor)) static void make_poison(void)
{
	memset(poison, POISON, sizeof(poison));
}
