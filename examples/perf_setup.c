/* SPDX-License-Identifier: BSD-3-Clause */
/* What the threads of nvmfr-perf need, made before they start. */
#include "perf.h"

#include "perf_verify.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static int out_of_memory(void)
{
	fprintf(stderr, "nvmfr-perf: out of memory\n");
	return -ENOMEM;
}

/* --lba and --length choose a part of the namespace. */
static int choose_range(struct perf *perf)
{
	const struct perf_opts *opts = &perf->opts;
	uint64_t capacity = perf->ns.capacity_blocks;

	if (opts->lba >= capacity) {
		fprintf(stderr, "nvmfr-perf: --lba %" PRIu64 " is beyond the namespace, %" PRIu64 " blocks\n",
			opts->lba, capacity);
		return -ERANGE;
	}
	perf->range_blocks = capacity - opts->lba;
	if (!opts->length_bytes)
		return 0;
	if (opts->length_bytes % perf->ns.block_bytes) {
		fprintf(stderr, "nvmfr-perf: --length %" PRIu64 " is no multiple of a block, %" PRIu32 " bytes\n",
			opts->length_bytes, perf->ns.block_bytes);
		return -EINVAL;
	}
	if (opts->length_bytes / perf->ns.block_bytes > perf->range_blocks) {
		fprintf(stderr, "nvmfr-perf: --length %" PRIu64 " is too long: %" PRIu64 " blocks are left\n",
			opts->length_bytes, perf->range_blocks);
		return -ERANGE;
	}
	perf->range_blocks = opts->length_bytes / perf->ns.block_bytes;
	return 0;
}

/* Random workloads use the range together, unless what one thread writes must stay until it reads it. */
static bool is_shared(const struct perf *perf)
{
	return perf->opts.random && !perf->opts.verify;
}

static int check_size(const struct perf *perf)
{
	uint64_t shares = is_shared(perf) ? 1 : perf->opts.threads;
	uint64_t share_bytes = perf->range_blocks / shares * perf->ns.block_bytes;

	if (perf->opts.io_bytes % perf->ns.block_bytes) {
		fprintf(stderr, "nvmfr-perf: --io-size %" PRIu64 " is no multiple of a block, %" PRIu32 " bytes\n",
			perf->opts.io_bytes, perf->ns.block_bytes);
		return -EINVAL;
	}
	if (perf->opts.io_bytes > share_bytes) {
		fprintf(stderr, "nvmfr-perf: --io-size %" PRIu64 " exceeds a thread's share, %" PRIu64 " bytes\n",
			perf->opts.io_bytes, share_bytes);
		return -ERANGE;
	}
	if (perf->opts.verify && (perf->ns.capacity_blocks - 1) >> PATTERN_LBA_BITS) {
		fprintf(stderr, "nvmfr-perf: --verify has room for LBAs of %d bits, not for %" PRIu64 " blocks\n",
			PATTERN_LBA_BITS, perf->ns.capacity_blocks);
		return -EOPNOTSUPP;
	}
	return 0;
}

static void set_share(const struct perf *perf, struct worker *w, uint64_t index)
{
	uint64_t places = perf->range_blocks / w->io_blocks, threads = perf->opts.threads, first;

	w->first_lba = perf->opts.lba;
	w->places = places;
	if (is_shared(perf))
		return;
	/* To the last place, so that no I/O size leaves out more than its own. */
	first = places / threads * index + places % threads * index / threads;
	w->places = places / threads * (index + 1) + places % threads * (index + 1) / threads - first;
	w->first_lba += first * w->io_blocks;
}

static int prepare_pieces(const struct perf *perf, struct worker *w)
{
	uint64_t pieces = perf->opts.pieces;

	if (pieces == 1)
		return 0;
	w->iovs = calloc(w->depth * pieces, sizeof(*w->iovs));
	if (!w->iovs)
		return out_of_memory();
	for (uint64_t i = 0; i < w->depth * pieces; i++)
		w->iovs[i] = (struct nvmfr_iov){
			.buf = w->buf,
			.offset_bytes = worker_piece_offset(w, (uint16_t)(i / pieces), i % pieces),
			.len_bytes = worker_piece_bytes(w),
		};
	return 0;
}

/* Ends with every slot free and every byte of the buffer touched, for the loop must not fault. */
static int prepare_memory(const struct perf *perf, struct worker *w)
{
	size_t bytes = w->depth * perf->opts.io_bytes;
	int err;

	w->free_slots = calloc(w->depth, sizeof(*w->free_slots));
	w->submitted_ns = calloc(w->depth, sizeof(*w->submitted_ns));
	w->latency = perf->opts.latency ? calloc(1, sizeof(*w->latency)) : NULL;
	if (!w->free_slots || !w->submitted_ns || (perf->opts.latency && !w->latency))
		return out_of_memory();
	for (w->free_count = 0; w->free_count < w->depth; w->free_count++)
		w->free_slots[w->free_count] = (uint16_t)w->free_count;
	err = nvmfr_buffer_alloc(perf->session.host, bytes, -1, &w->buf);
	if (err)
		return complain("buffer"), err;
	memset(nvmfr_buffer_addr(w->buf), 0xa5, bytes);
	if (perf->opts.verify && verify_init(w, (uint32_t)perf->opts.seed, perf->ns.capacity_blocks,
					     perf->opts.verify == VERIFY_CHECK))
		return out_of_memory();
	return prepare_pieces(perf, w);
}

static int prepare(struct perf *perf, struct worker *w, uint64_t index, int wake_fd)
{
	struct nvmfr_qpair_info info = { .size = sizeof(info) };
	int err;

	w->opts = &perf->opts;
	w->stop = &perf->stop;
	w->done_fd = wake_fd;
	w->nsid = perf->ns.nsid;
	w->block_bytes = perf->ns.block_bytes;
	w->io_blocks = perf->opts.io_bytes / perf->ns.block_bytes;
	w->random_state = 0x9e3779b97f4a7c15u * (index + 1);
	set_share(perf, w, index);
	err = session_qpair(&perf->session, (unsigned int)perf->opts.depth,
			    perf->opts.stats ? NVMFR_QPAIR_STATS : 0, &w->qp);
	if (!err)
		err = nvmfr_qpair_info(w->qp, &info);
	if (err)
		return complain("queue pair"), err;
	w->depth = info.depth < perf->opts.depth ? info.depth : (unsigned int)perf->opts.depth;
	w->batch = w->depth < perf->opts.batch ? w->depth : (unsigned int)perf->opts.batch;
	return prepare_memory(perf, w);
}

int perf_set_up(struct perf *perf, int wake_fd)
{
	size_t bytes = perf->opts.threads * sizeof(*perf->workers);
	int err;

	perf->workers = aligned_alloc(_Alignof(struct worker), bytes);
	if (!perf->workers)
		return out_of_memory();
	memset(perf->workers, 0, bytes);
	err = session_open(&perf->session, perf->opts.uri);
	if (err)
		return complain(perf->opts.uri), err;
	err = session_namespace(&perf->session, (uint32_t)perf->opts.nsid, &perf->ns);
	if (err)
		return complain("namespace"), err;
	perf->ctrl.size = sizeof(perf->ctrl);
	err = nvmfr_ctrl_info(perf->session.ctrl, &perf->ctrl);
	if (err)
		return complain("controller"), err;
	err = choose_range(perf);
	if (!err)
		err = check_size(perf);
	for (uint64_t i = 0; !err && i < perf->opts.threads; i++)
		err = prepare(perf, &perf->workers[i], i, wake_fd);
	return err;
}

void perf_tear_down(struct perf *perf)
{
	for (uint64_t i = 0; perf->workers && i < perf->opts.threads; i++) {
		struct worker *w = &perf->workers[i];

		nvmfr_qpair_destroy(w->qp);
		if (nvmfr_buffer_release(w->buf))
			complain("release");
		verify_fini(w);
		free(w->iovs);
		free(w->free_slots);
		free(w->submitted_ns);
		free(w->latency);
	}
	free(perf->workers);
	session_close(&perf->session);
}
