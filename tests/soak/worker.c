/* SPDX-License-Identifier: BSD-3-Clause */
#include "soak.h"

#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REGION = MAX_BLOCKS * BLOCK,
       WORDS = BLOCK / 8,
       POISON = 0xa5,
       DONE = 32 };

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
	uint64_t offset = (uint64_t)(slot - w->slots) * REGION, n = slot->io.nblocks;

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
	if (soak_below(&w->random, 32) == 0) {
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

static void check_poison(struct worker *w, const struct slot *slot, size_t from, const char *when)
{
	if (memcmp(slot->memory + from, poison + from, REGION - from) != 0)
		fail(w, "slot %td: its memory was written %s, outside of what was asked for",
		     slot - w->slots, when);
}

/* 1: it is out. */
static int send(struct worker *w, struct slot *slot)
{
	int n;

	slot->io.user_data = (uint64_t)++slot->generation << 8 | (uint64_t)(slot - w->slots);
	n = nvmfr_submit(w->qp, &slot->io, 1);
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
	int n;

	check_poison(w, slot, 0, "after its completion");
	if (!make(w, slot))
		return;
	n = send(w, slot);
	if (n == 1)
		return;
	memcpy(slot->memory, poison, REGION);
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

static void count(struct worker *w, const struct slot *slot, const struct nvmfr_completion *done)
{
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
	check_poison(w, slot, slot->io.op == NVMFR_OP_WRITE_ZEROES ? 0 : slot->io.nblocks * BLOCK, "in flight");
	if (writes(slot))
		end_write(w, slot, done->result == 0);
	else if (done->result == 0 && !slot->foreign)
		end_read(w, slot);
	memcpy(slot->memory, poison, REGION);
}

/* Ways of collecting take turns: polls, sleeps, the group's. */
static void collect(struct worker *w)
{
	struct nvmfr_completion done[DONE];
	bool sleep = w->in_flight && soak_below(&w->random, 2);
	int n;

	if (w->group)
		n = sleep ? nvmfr_group_wait(w->group, done, 1, DONE, 5) : nvmfr_group_poll(w->group, done, DONE);
	else
		n = sleep ? nvmfr_wait(w->qp, done, 1, DONE, 5) : nvmfr_poll(w->qp, done, DONE);
	if (n < 0)
		fail(w, "poll: %d, %s", n, nvmfr_last_error());
	for (int i = 0; i < n; i++)
		end(w, &done[i]);
	if (n == 0 && !sleep)
		sched_yield();
}

/* ---- the thread ------------------------------------------------------------------------------ */

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
		place_data(w, slot, false);
		(void)send(w, slot);
		do
			collect(w);
		while (w->in_flight && !atomic_load(&w->failed));
		if (atomic_load(&w->good) != good)
			first += 8;
	}
}

static int set_up(struct worker *w)
{
	struct nvmfr_qpair_opts opts;
	int err;

	nvmfr_qpair_opts_init(&opts, sizeof(opts));
	opts.depth = SLOTS * 2;
	opts.io_timeout_ms = 300;
	opts.flags = w->index % 2 ? NVMFR_QPAIR_STATS : 0;
	opts.retry = w->index < 2 ? NVMFR_RETRY_NONE : NVMFR_RETRY_READS;
	err = w->index % 2 ? nvmfr_group_create(w->host, NULL, &w->group) : 0;
	opts.group = w->group;
	/* A fault may be in the way already. */
	do
		err = err && err != -EAGAIN ? err : nvmfr_qpair_create(w->ctrl, &opts, &w->qp);
	while (err == -EAGAIN);
	err = err ? err : nvmfr_buffer_alloc(w->host, (size_t)SLOTS * REGION, -1, &w->buf);
	if (err) {
		fail(w, "set-up: %s", nvmfr_last_error());
		return err;
	}
	for (unsigned int i = 0; i < SLOTS; i++)
		w->slots[i].memory = (unsigned char *)nvmfr_buffer_addr(w->buf) + (size_t)i * REGION;
	memset(nvmfr_buffer_addr(w->buf), POISON, (size_t)SLOTS * REGION);
	return nvmfr_qpair_wait(w->qp, 20000);
}

void *worker_run(void *arg)
{
	struct worker *w = arg;

	w->next_value = (uint64_t)(w->index + 1) << 56;
	if (set_up(w))
		fail(w, "queue pair: %s", nvmfr_last_error());
	while (!atomic_load(w->stop) && !atomic_load(&w->failed)) {
		for (unsigned int i = 0; i < SLOTS; i++)
			if (!w->slots[i].in_flight)
				submit(w, &w->slots[i]);
		collect(w);
	}
	while (w->in_flight && !atomic_load(&w->failed))
		collect(w);
	read_all(w);
	nvmfr_qpair_destroy(w->qp);
	for (unsigned int i = 0; i < SLOTS && w->buf && !atomic_load(&w->failed); i++)
		check_poison(w, &w->slots[i], 0, "after the end");
	if (nvmfr_buffer_release(w->buf))
		fail(w, "buffer: %s", nvmfr_last_error());
	if (w->group && nvmfr_group_destroy(w->group))
		fail(w, "group: %s", nvmfr_last_error());
	return NULL;
}

__attribute__((constructor)) static void make_poison(void)
{
	memset(poison, POISON, sizeof(poison));
}
