/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Integrity. Random I/O of every kind, many at a time, against a model: what a namespace must contain.
 * Two I/Os in flight never overlap unless both read, so that the model is exact.
 */
#include "flow.h"

#include <stdio.h>
#include <stdlib.h>

enum {
	MAX_SLOTS = 64,
	MAX_PIECES = 16,
	GUARD = 64, /* bytes around each I/O's memory that nobody may touch */
	GUARD_BYTE = 0xa5,
};

/* What a run is like. */
struct shape {
	uint32_t block, depth;
	uint64_t max_bytes; /* of one I/O */
	uint32_t ios;
	bool vectored;
	uint64_t seed;
};

struct slot {
	bool busy;
	struct nvmfr_io io;
	struct nvmfr_iov iov[MAX_PIECES];
	struct nvmfr_buffer *buf;
	unsigned char *base; /* of buf */
	uint64_t offset; /* the guard is before it */
	unsigned char *want; /* a write's bytes */
};

/* One thread's work on one region of one namespace. */
struct run {
	struct shape shape;
	struct nvmfr_qpair *qp;
	uint32_t nsid;
	uint64_t first, blocks;
	unsigned char *model;
	struct slot slots[MAX_SLOTS];
	uint64_t rng;
	uint32_t in_flight;
	char wrong[256]; /* "": nothing was; threads must not fail the test themselves */
};

#define COMPLAIN(r, ...) ((r)->wrong[0] ? 0 : snprintf((r)->wrong, sizeof((r)->wrong), __VA_ARGS__))

/* ---- memory of an I/O ------------------------------------------------------------------------ */

static uint64_t io_bytes(const struct run *r, const struct slot *s)
{
	return s->io.nblocks * r->shape.block;
}

/* Copies between the I/O's memory, piece by piece, and a flat copy. */
static void gather(const struct run *r, struct slot *s, unsigned char *flat, bool to_flat)
{
	struct nvmfr_iov one = { s->buf, s->offset, io_bytes(r, s) };
	const struct nvmfr_iov *iov = s->io.flags & NVMFR_IO_VEC ? s->iov : &one;
	uint64_t pieces = s->io.flags & NVMFR_IO_VEC ? s->io.niov : 1;

	for (uint64_t i = 0; i < pieces; i++) {
		unsigned char *mem = s->base + iov[i].offset_bytes;

		memcpy(to_flat ? flat : mem, to_flat ? mem : flat, iov[i].len_bytes);
		flat += iov[i].len_bytes;
	}
}

static bool guards_hold(const struct run *r, const struct slot *s)
{
	const unsigned char *before = s->base + s->offset - GUARD,
			    *behind = s->base + s->offset + io_bytes(r, s);

	for (unsigned int i = 0; i < GUARD; i++)
		if (before[i] != GUARD_BYTE || behind[i] != GUARD_BYTE)
			return false;
	return true;
}

static void set_guards(const struct run *r, struct slot *s)
{
	memset(s->base + s->offset - GUARD, GUARD_BYTE, GUARD);
	memset(s->base + s->offset + io_bytes(r, s), GUARD_BYTE, GUARD);
}

/* Pieces of any length that change places in memory: the last piece lies first. */
static void make_vector(struct run *r, struct slot *s)
{
	uint64_t bytes = io_bytes(r, s), left = bytes;
	unsigned int n = 0, wanted = 1 + (unsigned int)flow_below(&r->rng, MAX_PIECES);

	while (left) {
		uint64_t part = n + 1 >= wanted ? left : 1 + flow_below(&r->rng, left);

		left -= part;
		s->iov[n++] = (struct nvmfr_iov){ s->buf, s->offset + left, part };
	}
	s->io.flags |= NVMFR_IO_VEC;
	s->io.iov = s->iov;
	s->io.niov = n;
}

/* ---- choosing -------------------------------------------------------------------------------- */

static bool writes(uint8_t op)
{
	return op == NVMFR_OP_WRITE || op == NVMFR_OP_WRITE_ZEROES;
}

static bool collides(const struct run *r, const struct nvmfr_io *io)
{
	for (unsigned int i = 0; i < r->shape.depth; i++) {
		const struct nvmfr_io *other = &r->slots[i].io;

		if (r->slots[i].busy && (writes(io->op) || writes(other->op)) &&
		    io->lba < other->lba + other->nblocks && other->lba < io->lba + io->nblocks)
			return true;
	}
	return false;
}

/* Small ones often, the largest sometimes. */
static uint64_t random_blocks(struct run *r)
{
	uint64_t max = r->shape.max_bytes / r->shape.block, limit = max;

	if (flow_below(&r->rng, 8))
		limit = 1 + flow_below(&r->rng, max);
	if (flow_below(&r->rng, 2))
		limit = limit < 16 ? limit : 16;
	return flow_below(&r->rng, 16) ? 1 + flow_below(&r->rng, limit) : limit;
}

static uint8_t random_op(struct run *r)
{
	static const uint8_t ops[] = {
		NVMFR_OP_READ,
		NVMFR_OP_WRITE,
		NVMFR_OP_READ,
		NVMFR_OP_WRITE,
		NVMFR_OP_READ,
		NVMFR_OP_WRITE,
		NVMFR_OP_WRITE_ZEROES,
		NVMFR_OP_FLUSH,
	};

	return ops[flow_below(&r->rng, ARRAY_SIZE(ops))];
}

static void place(struct run *r, struct slot *s)
{
	do {
		s->io.nblocks = random_blocks(r);
		s->io.lba = r->first + flow_below(&r->rng, r->blocks - s->io.nblocks + 1);
	} while (collides(r, &s->io));
}

static void make_io(struct run *r, struct slot *s)
{
	s->io = (struct nvmfr_io){ .op = random_op(r),
				   .nsid = r->nsid,
				   .user_data = (uint64_t)(s - r->slots) };
	if (s->io.op == NVMFR_OP_FLUSH)
		return;
	place(r, s);
	if (flow_below(&r->rng, 4) == 0)
		s->io.flags = NVMFR_IO_FUA;
	if (s->io.op == NVMFR_OP_WRITE_ZEROES)
		return;
	s->offset = GUARD + flow_below(&r->rng, GUARD); /* any alignment */
	set_guards(r, s);
	s->io.buf = s->buf;
	s->io.offset_bytes = s->offset;
	if (r->shape.vectored && flow_below(&r->rng, 2))
		make_vector(r, s);
	if (s->io.op == NVMFR_OP_READ)
		return;
	flow_fill(&r->rng, s->want, io_bytes(r, s));
	gather(r, s, s->want, false);
}

/* ---- completing ------------------------------------------------------------------------------ */

static void end_read(struct run *r, struct slot *s)
{
	const unsigned char *want = r->model + (s->io.lba - r->first) * r->shape.block;

	gather(r, s, s->want, true);
	if (memcmp(s->want, want, io_bytes(r, s)) != 0)
		COMPLAIN(r, "read of %llu blocks at %llu: other data",
			 (unsigned long long)s->io.nblocks, (unsigned long long)s->io.lba);
	if (!guards_hold(r, s))
		COMPLAIN(r, "read of %llu blocks at %llu: memory around it was written",
			 (unsigned long long)s->io.nblocks, (unsigned long long)s->io.lba);
}

static unsigned char *model_of(const struct run *r, const struct slot *s)
{
	return r->model + (s->io.lba - r->first) * r->shape.block;
}

static void end_io(struct run *r, const struct nvmfr_completion *done)
{
	struct slot *s = &r->slots[done->user_data % MAX_SLOTS];

	if (done->user_data >= r->shape.depth || !s->busy || done->result) {
		COMPLAIN(r, "completion of %llu: result %d, status %04x",
			 (unsigned long long)done->user_data, done->result, done->status);
		return;
	}
	if (s->io.op == NVMFR_OP_READ)
		end_read(r, s);
	else if (s->io.op == NVMFR_OP_WRITE)
		memcpy(model_of(r, s), s->want, io_bytes(r, s));
	else if (s->io.op == NVMFR_OP_WRITE_ZEROES)
		memset(model_of(r, s), 0, io_bytes(r, s));
	s->busy = false;
	r->in_flight--;
}

static void collect(struct run *r, unsigned int min)
{
	struct nvmfr_completion done[MAX_SLOTS];
	unsigned int max = 1 + (unsigned int)flow_below(&r->rng, MAX_SLOTS);
	int n = nvmfr_wait(r->qp, done, min < max ? min : max, max, FLOW_WAIT_MS);

	if (n <= 0)
		COMPLAIN(r, "wait: %d, %s", n, nvmfr_last_error());
	for (int i = 0; i < n; i++)
		end_io(r, &done[i]);
}

static struct slot *free_slot(struct run *r)
{
	for (unsigned int i = 0; i < r->shape.depth; i++)
		if (!r->slots[i].busy)
			return &r->slots[i];
	return NULL;
}

/* False: no room now. */
static bool start(struct run *r, struct slot *s)
{
	int taken;

	make_io(r, s);
	taken = nvmfr_submit(r->qp, &s->io, 1);
	if (taken == 1) {
		s->busy = true;
		r->in_flight++;
	} else if (taken != -EAGAIN) {
		COMPLAIN(r, "submit: %d, %s", taken, nvmfr_last_error());
	}
	return taken == 1;
}

static void *work(void *arg)
{
	struct run *r = arg;
	uint32_t started = 0;

	while ((started < r->shape.ios || r->in_flight) && !r->wrong[0]) {
		struct slot *s = started < r->shape.ios ? free_slot(r) : NULL;

		if (s && start(r, s))
			started++;
		else
			collect(r, 1);
	}
	return NULL;
}

/* ---- running --------------------------------------------------------------------------------- */

static void run_open(struct run *r, struct flow *f, const struct shape *shape,
		     struct nvmfr_qpair *qp, uint32_t nsid, uint64_t first, uint64_t blocks)
{
	uint64_t room = shape->max_bytes + 3 * GUARD;

	*r = (struct run){
		.shape = *shape, .qp = qp, .nsid = nsid, .first = first, .blocks = blocks
	};
	r->rng = flow_seed(shape->seed) + first;
	r->model = calloc(blocks, shape->block);
	cr_assert_not_null(r->model);
	for (unsigned int i = 0; i < shape->depth; i++) {
		r->slots[i].base = malloc(room);
		r->slots[i].want = malloc(shape->max_bytes);
		cr_assert(r->slots[i].base && r->slots[i].want);
		r->slots[i].buf = flow_buffer(f, r->slots[i].base, room);
	}
}

static void run_close(struct run *r)
{
	cr_expect(!r->wrong[0], "%s (seed 0x%llx)", r->wrong,
		  (unsigned long long)flow_seed(r->shape.seed));
	cr_expect_eq(flow_qpair_info(r->qp).bounced_bytes, 0);
	for (unsigned int i = 0; i < r->shape.depth; i++) {
		flow_release(r->slots[i].buf);
		free(r->slots[i].base);
		free(r->slots[i].want);
	}
	free(r->model);
}

static struct nvmfr_qpair *queue_for(struct flow *f, const struct shape *shape)
{
	struct nvmfr_qpair_opts opts = flow_qpair_opts(shape->depth);
	struct nvmfr_qpair *qp;

	opts.max_descriptors = MAX_PIECES;
	cr_assert_eq(flow_try_qpair(f, &opts, &qp), 0, "%s", nvmfr_last_error());
	return qp;
}

/* One queue pair in this thread, on a host that is up. */
static void random_io(struct flow *f, const struct shape *shape, const struct nvmfr_soft_opts *opts)
{
	static struct run r;
	uint64_t bytes = 4 * shape->max_bytes * (shape->depth < 8 ? shape->depth : 8);

	flow_target(f, opts);
	flow_ns(f, bytes, shape->block);
	flow_connect(f);
	f->qp = queue_for(f, shape);
	run_open(&r, f, shape, f->qp, f->nsid, 0, bytes / shape->block);
	work(&r);
	run_close(&r);
	flow_down(f);
}

static void random_frozen(const struct shape *shape, const struct nvmfr_soft_opts *opts)
{
	struct flow f;

	flow_host(&f);
	random_io(&f, shape, opts);
}

Test(data, blocks_of_512_one_at_a_time)
{
	random_frozen(&(const struct shape){ 512, 1, 8 * MIB, 60, false, 0x51 }, NULL);
}

Test(data, blocks_of_512_two_at_a_time)
{
	random_frozen(&(const struct shape){ 512, 2, MIB, 400, false, 0x52 }, NULL);
}

Test(data, blocks_of_512_64_at_a_time)
{
	random_frozen(&(const struct shape){ 512, 64, 64 * KIB, 8000, false, 0x53 }, NULL);
}

Test(data, blocks_of_512_64_small_ones_at_a_time)
{
	random_frozen(&(const struct shape){ 512, 64, 4 * KIB, 20000, false, 0x54 }, NULL);
}

Test(data, blocks_of_4096_one_at_a_time)
{
	random_frozen(&(const struct shape){ 4096, 1, 8 * MIB, 60, false, 0x55 }, NULL);
}

Test(data, blocks_of_4096_64_at_a_time)
{
	random_frozen(&(const struct shape){ 4096, 64, 256 * KIB, 2000, false, 0x56 }, NULL);
}

Test(data, vectors_in_blocks_of_512)
{
	random_frozen(&(const struct shape){ 512, 8, 64 * KIB, 4000, true, 0x57 }, NULL);
}

Test(data, vectors_in_blocks_of_4096)
{
	random_frozen(&(const struct shape){ 4096, 32, 128 * KIB, 2000, true, 0x58 }, NULL);
}

Test(data, vectors_of_several_commands)
{
	struct nvmfr_soft_opts opts = flow_soft_opts();

	opts.mdts = 2;
	random_frozen(&(const struct shape){ 512, 16, 128 * KIB, 2000, true, 0x59 }, &opts);
}

Test(data, more_commands_than_the_queue_takes)
{
	struct nvmfr_soft_opts opts = flow_soft_opts();

	opts.mdts = 1;
	random_frozen(&(const struct shape){ 512, 5, MIB, 400, true, 0x5a }, &opts);
}

Test(data, nothing_in_capsules)
{
	struct nvmfr_soft_opts opts = flow_soft_opts();

	opts.ioccsz = 4;
	random_frozen(&(const struct shape){ 512, 32, 32 * KIB, 4000, false, 0x5b }, &opts);
}

Test(data, much_in_capsules)
{
	struct nvmfr_soft_opts opts = flow_soft_opts();

	opts.ioccsz = (64 + 64 * 1024) / 16;
	random_frozen(&(const struct shape){ 512, 32, 64 * KIB, 4000, true, 0x5c }, &opts);
}

Test(data, answers_that_take_their_time)
{
	struct nvmfr_soft_opts opts = flow_soft_opts();

	opts.latency_us = 700;
	random_frozen(&(const struct shape){ 512, 32, 32 * KIB, 4000, true, 0x5d }, &opts);
}

Test(data, answers_out_of_order)
{
	struct nvmfr_soft_fault fault =
		flow_fault(NVMFR_SOFT_FAULT_DELAY, 1, NVMFR_SOFT_ANY, NVMFR_SOFT_ANY, 0);
	struct flow f;
	static struct run r;
	const struct shape shape = { 512, 32, 32 * KIB, 4000, true, 0x5e };

	flow_host(&f);
	flow_target(&f, NULL);
	flow_ns(&f, 8 * MIB, 512);
	flow_connect(&f);
	f.qp = queue_for(&f, &shape);
	fault.count = 500;
	for (uint32_t i = 1; i <= 7; i++) {
		fault.value = 100 * (i * 5 % 7);
		fault.skip = 8 - i;
		flow_plan(&f, &fault);
	}
	run_open(&r, &f, &shape, f.qp, f.nsid, 0, 8 * MIB / 512);
	work(&r);
	run_close(&r);
	flow_down(&f);
}

Test(data, service_thread)
{
	struct flow f;

	flow_host_thread(&f);
	random_io(&f, &(const struct shape){ 512, 32, 64 * KIB, 4000, true, 0x60 }, NULL);
}

Test(data, target_thread)
{
	struct nvmfr_soft_opts opts = flow_soft_opts();
	struct flow f;

	opts.flags = NVMFR_SOFT_THREAD;
	flow_host_thread(&f);
	random_io(&f, &(const struct shape){ 512, 32, 64 * KIB, 4000, true, 0x61 }, &opts);
}

Test(data, target_thread_with_latency)
{
	struct nvmfr_soft_opts opts = flow_soft_opts();
	struct flow f;

	opts.flags = NVMFR_SOFT_THREAD;
	opts.latency_us = 200;
	flow_host_thread(&f);
	random_io(&f, &(const struct shape){ 512, 32, 64 * KIB, 2000, true, 0x62 }, &opts);
}

/* ---- threads, namespaces, controllers -------------------------------------------------------- */

enum {
	THREADS = 4,
	REGION = 4 << 20,
};

static void run_threads(struct run *runs, unsigned int n)
{
	pthread_t threads[THREADS];

	for (unsigned int i = 0; i < n; i++)
		cr_assert_eq(pthread_create(&threads[i], NULL, work, &runs[i]), 0);
	for (unsigned int i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
}

static void threads_share_a_namespace(const struct nvmfr_soft_opts *opts)
{
	const struct shape shape = { 512, 16, 64 * KIB, 1500, true, 0x70 };
	static struct run runs[THREADS];
	struct flow f;

	flow_host_thread(&f);
	flow_target(&f, opts);
	flow_ns(&f, THREADS * REGION, 512);
	flow_connect(&f);
	for (unsigned int i = 0; i < THREADS; i++)
		run_open(&runs[i], &f, &shape, queue_for(&f, &shape), f.nsid, i * (REGION / 512),
			 REGION / 512);
	run_threads(runs, THREADS);
	for (unsigned int i = 0; i < THREADS; i++) {
		run_close(&runs[i]);
		nvmfr_qpair_destroy(runs[i].qp);
	}
	flow_down(&f);
}

Test(data, four_threads_with_a_queue_each)
{
	threads_share_a_namespace(NULL);
}

Test(data, four_threads_with_a_queue_each_and_a_target_thread)
{
	struct nvmfr_soft_opts opts = flow_soft_opts();

	opts.flags = NVMFR_SOFT_THREAD;
	threads_share_a_namespace(&opts);
}

/* Namespaces of both block sizes, in turns on one queue pair. */
Test(data, three_namespaces_on_one_queue)
{
	struct shape shapes[3] = {
		{ 512, 8, 32 * KIB, 40, true, 0x80 },
		{ 4096, 8, 32 * KIB, 40, true, 0x81 },
		{ 512, 8, 32 * KIB, 40, false, 0x82 },
	};
	static struct run runs[3];
	struct flow f;

	flow_host(&f);
	flow_target(&f, NULL);
	for (unsigned int i = 0; i < 3; i++)
		flow_ns(&f, REGION, shapes[i].block);
	flow_connect(&f);
	f.qp = queue_for(&f, &shapes[0]);
	for (unsigned int i = 0; i < 3; i++)
		run_open(&runs[i], &f, &shapes[i], f.qp, i + 1, 0, REGION / shapes[i].block);
	for (unsigned int turn = 0; turn < 60; turn++)
		work(&runs[turn % 3]);
	for (unsigned int i = 0; i < 3; i++)
		run_close(&runs[i]);
	flow_down(&f);
}

/* The same buffers through three controllers, one of them of another target. */
Test(data, three_controllers_with_a_thread_each)
{
	const struct shape shape = { 512, 16, 64 * KIB, 1500, true, 0x90 };
	struct nvmfr_soft_target *other;
	struct nvmfr_ctrl *ctrls[3];
	static struct run runs[3];
	struct flow f;

	flow_host_thread(&f);
	flow_target(&f, NULL);
	for (unsigned int i = 0; i < 2; i++)
		flow_ns(&f, REGION, 512);
	cr_assert_eq(nvmfr_soft_target_create(f.host, "other", NULL, &other), 0);
	cr_assert_eq(nvmfr_soft_ns_add(other, NULL), 1);
	for (unsigned int i = 0; i < 3; i++) {
		f.opts.uri = i == 2 ? "nvmf+soft://other" : "nvmf+soft://t";
		flow_connect(&f);
		ctrls[i] = f.ctrl;
		run_open(&runs[i], &f, &shape, queue_for(&f, &shape), i == 2 ? 1 : i + 1, 0,
			 REGION / 512);
	}
	run_threads(runs, 3);
	for (unsigned int i = 0; i < 3; i++) {
		run_close(&runs[i]);
		nvmfr_qpair_destroy(runs[i].qp);
		cr_expect_eq(nvmfr_disconnect(ctrls[i], 1000), 0);
	}
	f.ctrl = NULL;
	nvmfr_soft_target_destroy(other);
	flow_down(&f);
}
