/* SPDX-License-Identifier: BSD-3-Clause */
#include "perf.h"

#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>

/* user_data of an I/O: its slot, and whether it writes. */
#define WRITES	  (1u << 16)
#define SLOT_MASK 0xffffu

/* xorshift64: fast, and good enough to choose places. */
static uint64_t next_random(struct worker *w)
{
	uint64_t x = w->random_state;

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	return w->random_state = x;
}

static uint64_t next_place(struct worker *w, unsigned int ahead)
{
	if (w->opts->random)
		return next_random(w) % w->places;
	return (w->position + ahead) % w->places;
}

static bool next_is_read(struct worker *w)
{
	uint64_t percent = w->opts->read_percent;

	if (percent == 0 || percent == 100)
		return percent == 100;
	return (next_random(w) >> 32) % 100 < percent;
}

static void build(struct worker *w, struct nvmfr_io *io, unsigned int ahead)
{
	uint16_t slot = w->free_slots[w->free_count - 1 - ahead];
	bool read = next_is_read(w);

	*io = (struct nvmfr_io){
		.op = read ? NVMFR_OP_READ : NVMFR_OP_WRITE,
		.nsid = w->nsid,
		.lba = (w->first + next_place(w, ahead)) * w->io_blocks,
		.nblocks = w->io_blocks,
		.buf = w->buf,
		.offset_bytes = slot * w->opts->io_bytes,
		.user_data = slot | (read ? 0 : WRITES),
	};
}

static void fail(struct worker *w, const char *sentence)
{
	if (!*w->failure)
		snprintf(w->failure, sizeof(w->failure), "%s", sentence);
}

/* The library's own error, not an I/O's: its sentence says more than those of the I/Os that went with it. */
static void lose(struct worker *w)
{
	snprintf(w->failure, sizeof(w->failure), "%s", nvmfr_last_error());
	w->lost = true;
}

static void stamp(struct worker *w, unsigned int n, uint64_t now)
{
	for (unsigned int i = 1; i <= n; i++)
		w->submitted_ns[w->free_slots[w->free_count - i]] = now;
}

static void submit(struct worker *w)
{
	unsigned int room = w->free_count < w->batch ? w->free_count : w->batch;
	unsigned int want = room < w->left ? room : (unsigned int)w->left;
	struct nvmfr_io ios[MAX_BATCH];
	int n;

	if (!want)
		return;
	for (unsigned int i = 0; i < want; i++)
		build(w, &ios[i], i);
	if (w->latency)
		stamp(w, want, clock_ns(CLOCK_MONOTONIC));
	n = nvmfr_submit(w->qp, ios, want);
	if (n < 0) {
		if (n != -EAGAIN)
			lose(w);
		return;
	}
	w->free_count -= (unsigned int)n;
	w->left -= (unsigned int)n;
	w->position = (w->position + (unsigned int)n) % w->places;
}

static void finish(struct worker *w, const struct nvmfr_completion *done, uint64_t now)
{
	uint16_t slot = done->user_data & SLOT_MASK;

	w->free_slots[w->free_count++] = slot;
	if (done->result) {
		w->errors++;
		fail(w, completion_text(done));
		return;
	}
	if (done->user_data & WRITES)
		w->writes++;
	else
		w->reads++;
	if (w->latency)
		hist_add(w->latency, now - w->submitted_ns[slot]);
}

/* false: nothing will come any more. */
static bool collect(struct worker *w)
{
	struct nvmfr_completion done[MAX_BATCH];
	int n = nvmfr_poll(w->qp, done, w->batch);
	uint64_t now = n > 0 && w->latency ? clock_ns(CLOCK_MONOTONIC) : 0;

	if (n < 0)
		lose(w);
	for (int i = 0; i < n; i++)
		finish(w, &done[i], now);
	return n >= 0;
}

static bool stopped(const struct worker *w)
{
	return atomic_load_explicit(w->stop, memory_order_relaxed);
}

static void loop(struct worker *w)
{
	/* Waiting for room for a whole batch keeps the batches whole. */
	while (!w->lost && w->left && !stopped(w)) {
		if (w->free_count >= w->batch || w->free_count >= w->left)
			submit(w);
		if (!w->lost)
			collect(w);
	}
	while (w->free_count < w->depth && collect(w))
		;
}

void *perf_worker(void *arg)
{
	struct worker *w = arg;

	w->cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	w->start_ns = clock_ns(CLOCK_MONOTONIC);
	loop(w);
	w->end_ns = clock_ns(CLOCK_MONOTONIC);
	w->cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID) - w->cpu_ns;
	if (eventfd_write(w->done_fd, 1))
		fail(w, strerror(errno));
	return NULL;
}
