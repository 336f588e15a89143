/* SPDX-License-Identifier: BSD-3-Clause */
#include "zerocopy.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static int fail(struct reader *r, const char *what, const char *why)
{
	snprintf(r->failure, sizeof(r->failure), "%s: %s", what, why);
	return -EIO;
}

/* Each block's place in the buffer is its place in the namespace. */
static int submit(struct reader *r, uint64_t block, uint64_t nblocks)
{
	return nvmfr_read(r->qp, r->nsid, block, nblocks, r->buf, block * r->block_bytes, block);
}

/* Returns how many completed. */
static int collect(struct reader *r)
{
	struct nvmfr_completion done[BULK_DEPTH];
	int n = nvmfr_poll(r->qp, done, BULK_DEPTH);

	if (n < 0)
		return fail(r, "poll", nvmfr_last_error());
	for (int i = 0; i < n; i++)
		if (done[i].result)
			return fail(r, "read", completion_text(&done[i]));
	return n;
}

static int submit_some(struct reader *r, uint64_t *next, uint64_t completed, uint64_t *submitted)
{
	uint64_t end = r->first_block + r->blocks;

	while (*next < end && *submitted - completed < BULK_DEPTH) {
		uint64_t most = BULK_BYTES / r->block_bytes;
		uint64_t nblocks = end - *next < most ? end - *next : most;
		int err = submit(r, *next, nblocks);

		if (err == -EAGAIN)
			return 0;
		if (err)
			return fail(r, "submit", nvmfr_last_error());
		*next += nblocks;
		(*submitted)++;
	}
	return 0;
}

static int read_share(struct reader *r)
{
	uint64_t end = r->first_block + r->blocks, next = r->first_block;
	uint64_t submitted = 0, completed = 0;

	while (next < end || completed < submitted) {
		int n = submit_some(r, &next, completed, &submitted);

		if (n == 0)
			n = collect(r);
		if (n < 0)
			return n;
		completed += (uint64_t)n;
	}
	r->bulk_reads += completed;
	r->bulk_bytes += r->blocks * r->block_bytes;
	return 0;
}

static int bulk_counted(struct reader *r)
{
	uint64_t calls = syscall_count(r->counter);
	int err = read_share(r);

	r->bulk_calls = syscall_count(r->counter) - calls;
	return err;
}

/* The first time, pages and caches are cold on both sides; then again and again, for a time. */
static int bulk_timed(struct reader *r)
{
	int err = read_share(r);

	r->bulk_reads = r->bulk_bytes = 0;
	r->start_ns = r->end_ns = clock_ns(CLOCK_MONOTONIC);
	while (!err && r->end_ns - r->start_ns < BULK_NS) {
		err = read_share(r);
		r->end_ns = clock_ns(CLOCK_MONOTONIC);
	}
	return err;
}

static int read_one(struct reader *r, uint64_t block, uint64_t nblocks)
{
	int n = submit(r, block, nblocks);

	if (n)
		return fail(r, "submit", nvmfr_last_error());
	while ((n = collect(r)) == 0)
		;
	return n < 0 ? n : 0;
}

/* The clock is read outside the window in which calls are counted: not every machine has it in user space. */
static int singles(struct reader *r)
{
	uint64_t nblocks = r->block_bytes < SINGLE_BYTES ? SINGLE_BYTES / r->block_bytes : 1;
	uint64_t places = r->blocks / nblocks;

	for (uint64_t i = 0; i < SINGLES; i++) {
		uint64_t block = r->first_block + i * 7919 % places * nblocks;
		uint64_t start = clock_ns(CLOCK_MONOTONIC);
		uint64_t calls = syscall_count(r->counter);
		int err = read_one(r, block, nblocks);

		r->single_calls += syscall_count(r->counter) - calls;
		r->single_ns[i] = clock_ns(CLOCK_MONOTONIC) - start;
		if (err)
			return err;
	}
	return 0;
}

/* A counter that never counts would find no system call either: it must find one made on purpose. */
static int start_counting(struct reader *r)
{
	int err = syscall_counter_enter(r->counter);
	uint64_t calls;

	if (err)
		return fail(r, "system calls cannot be counted here (seccomp)", strerror(-err));
	calls = syscall_count(r->counter);
	syscall(SYS_getppid);
	r->planted_calls = syscall_count(r->counter) - calls;
	return 0;
}

void *zerocopy_reader(void *arg)
{
	struct reader *r = arg;

	r->single_calls = 0;
	if (r->counter && start_counting(r))
		return NULL;
	if (!(r->counter ? bulk_counted(r) : bulk_timed(r)))
		singles(r);
	return NULL;
}
