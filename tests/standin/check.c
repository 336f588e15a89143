/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The whole library over the stand-in, by the public API: data, depths, overload, life and errors.
 * Needs LD_LIBRARY_PATH with the stand-in, NULLNIC_DATA=ram or pattern, and, but for the last test,
 * NULLNIC_ABORT=1: whatever the stand-in finds wrong (keys, bounds, sizes of memory regions, queue
 * overflows, descriptors, destroy order) ends the program.
 */
#include "testing.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <nvmfr/cmd.h>

#define SUBNQN "nqn.2026-01.null:nullnic"
#define URI    "nvmf+rdma://127.0.0.1/" SUBNQN

enum { BLOCK = 512,
       WORDS = BLOCK / 8,
       KIB = 1024,
       MIB = 1024 * KIB,
       NLB_MOST = 65536, /* blocks that one command can name */
       LEAD = 13, /* buffers begin that far behind the start of a page */
       MAX_PIECES = 16,
       MAX_DEPTH = 128,
       CYCLES = 100 };

/* ---- association ------------------------------------------------------------------------------ */

struct rig {
	struct nvmfr_host *host;
	struct nvmfr_ctrl *ctrl;
	struct nvmfr_qpair *qp;
	struct nvmfr_buffer *buf;
	unsigned char *map, *mem;
	size_t bytes;
	unsigned int depth; /* granted */
};

static uint64_t shim_errors(void)
{
	uint64_t (*count)(void);

	*(void **)&count = dlsym(RTLD_DEFAULT, "nullnic_errors");
	cr_assert(count != NULL, "not on the stand-in: set LD_LIBRARY_PATH");
	return count();
}

static bool pattern_mode(void)
{
	const char *mode = getenv("NULLNIC_DATA");

	cr_assert_not_null(mode, "set NULLNIC_DATA to ram or pattern");
	return !strcmp(mode, "pattern");
}

static void must(int err, const char *what)
{
	cr_assert_geq(err, 0, "%s: %s (%s)", what, nvmfr_last_error(), nvmfr_strerror(err));
}

static void qpair_up(struct rig *rig, unsigned int depth)
{
	struct nvmfr_qpair_info info = { .size = sizeof(info) };
	struct nvmfr_qpair_opts opts;

	nvmfr_qpair_opts_init(&opts, sizeof(opts));
	opts.depth = (uint16_t)depth;
	opts.max_descriptors = MAX_PIECES;
	must(nvmfr_qpair_create(rig->ctrl, &opts, &rig->qp), "queue pair");
	must(nvmfr_qpair_wait(rig->qp, -1), "queue pair");
	must(nvmfr_qpair_info(rig->qp, &info), "queue pair");
	rig->depth = info.depth;
}

static void connect_target(struct rig *rig, const char *uri)
{
	struct nvmfr_ctrl_opts opts;

	must(nvmfr_host_create(NULL, &rig->host), "host");
	nvmfr_ctrl_opts_init(&opts, sizeof(opts));
	opts.uri = uri;
	must(nvmfr_connect(rig->host, &opts, &rig->ctrl), "connect");
	must(nvmfr_ctrl_wait(rig->ctrl, -1), "connect");
}

static void rig_up_at(struct rig *rig, const char *uri, unsigned int depth, size_t bytes)
{
	connect_target(rig, uri);
	qpair_up(rig, depth);
	rig->bytes = bytes;
	rig->map = mmap(NULL, bytes + LEAD, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	cr_assert(rig->map != MAP_FAILED);
	madvise(rig->map, bytes + LEAD, MADV_HUGEPAGE);
	rig->mem = rig->map + LEAD;
	must(nvmfr_buffer_register(rig->host, rig->mem, bytes, NVMFR_ACCESS_BOTH, &rig->buf),
	     "register");
}

static void rig_up(struct rig *rig, unsigned int depth, size_t bytes)
{
	rig_up_at(rig, URI, depth, bytes);
}

static void rig_down(struct rig *rig)
{
	nvmfr_qpair_destroy(rig->qp);
	must(nvmfr_buffer_release(rig->buf), "release");
	munmap(rig->map, rig->bytes + LEAD);
	must(nvmfr_disconnect(rig->ctrl, 1000), "disconnect");
	nvmfr_host_destroy(rig->host);
}

static void poll_one(struct rig *rig, struct nvmfr_completion *cpl)
{
	int got;

	while (!(got = nvmfr_poll(rig->qp, cpl, 1)))
		;
	must(got, "poll");
}

/* ---- data ------------------------------------------------------------------------------------- */

/* What the stand-in's pattern mode wants in a word of the namespace; seed 0 in that mode. */
static uint64_t word_at(uint64_t word, uint64_t seed)
{
	return word / WORDS * UINT64_C(0x9e3779b97f4a7c15) + word + seed;
}

static void fill(unsigned char *at, uint64_t lba, uint64_t nblocks, uint64_t seed)
{
	for (uint64_t i = 0; i < nblocks * WORDS; i++) {
		uint64_t word = word_at(lba * WORDS + i, seed);

		memcpy(at + i * 8, &word, 8);
	}
}

/* The first word that is not as it must be; nblocks * WORDS: none. */
static uint64_t differs_at(const unsigned char *at, uint64_t lba, uint64_t nblocks, uint64_t seed)
{
	uint64_t i;

	for (i = 0; i < nblocks * WORDS; i++) {
		uint64_t word;

		memcpy(&word, at + i * 8, 8);
		if (word != word_at(lba * WORDS + i, seed))
			break;
	}
	return i;
}

/* One row: so many round trips (a write, then a read of the same blocks) at a depth. */
struct row {
	const char *name;
	unsigned int depth; /* the queue pair's, and round trips at once */
	uint64_t min_bytes, max_bytes;
	unsigned int pieces; /* 0: plain; else at most so many */
	unsigned int trips;
};

/* A round trip on its way. Each has a stretch of the namespace and of the buffer for itself. */
struct trip {
	uint64_t lba, nblocks, seed;
	unsigned char *from, *to;
	struct nvmfr_iov iov[MAX_PIECES];
	bool reading;
};

struct traffic {
	struct rig *rig;
	const struct row *row;
	struct trip *trips;
	uint64_t random;
	unsigned int started, ended;
	unsigned int waiting[MAX_DEPTH], nwaiting; /* trips whose next I/O is to be submitted */
};

static uint64_t random_below(struct traffic *t, uint64_t limit)
{
	t->random = t->random * 6364136223846793005u + 1442695040888963407u;
	return (t->random >> 33) % limit;
}

/* Cuts anywhere, in the middle of blocks too: the stand-in allows 16 descriptors a command. */
static uint64_t cut(struct traffic *t, struct trip *trip, uint64_t start)
{
	uint64_t left = trip->nblocks * BLOCK, wanted = 1 + random_below(t, t->row->pieces), n = 0;

	while (left) {
		uint64_t len = n + 1 < wanted ? 1 + random_below(t, left) : left;

		trip->iov[n++] = (struct nvmfr_iov){ t->rig->buf, start, len };
		start += len;
		left -= len;
	}
	return n;
}

static struct nvmfr_io trip_io(struct traffic *t, unsigned int i)
{
	struct trip *trip = &t->trips[i];
	uint64_t start = (uint64_t)((trip->reading ? trip->to : trip->from) - t->rig->mem);
	struct nvmfr_io io = {
		.op = trip->reading ? NVMFR_OP_READ : NVMFR_OP_WRITE,
		.nsid = 1,
		.lba = trip->lba,
		.nblocks = trip->nblocks,
		.buf = t->rig->buf,
		.offset_bytes = start,
		.user_data = i,
	};

	if (t->row->pieces) {
		io.flags = NVMFR_IO_VEC;
		io.niov = cut(t, trip, start);
		io.iov = trip->iov;
	}
	return io;
}

static void begin(struct traffic *t, unsigned int i)
{
	const struct row *row = t->row;
	struct trip *trip = &t->trips[i];
	uint64_t most = row->max_bytes / BLOCK, least = row->min_bytes / BLOCK;
	uint64_t lead = random_below(t, 64);

	trip->reading = false;
	trip->nblocks = least + random_below(t, most - least + 1);
	trip->lba = i * most + random_below(t, most - trip->nblocks + 1);
	trip->seed = pattern_mode() ? 0 : t->random;
	/* Data starts at any byte. */
	trip->from = t->rig->mem + i * 2 * (row->max_bytes + 64) + lead;
	trip->to = trip->from + row->max_bytes + 64 - lead;
	fill(trip->from, trip->lba, trip->nblocks, trip->seed);
	memset(trip->to, 0xee, trip->nblocks * BLOCK);
	t->started++;
}

/* A write ended: its blocks are read. A read ended: they are looked at, and the next trip begins. */
static bool go_on(struct traffic *t, const struct nvmfr_completion *cpl)
{
	unsigned int i = (unsigned int)cpl->user_data;
	struct trip *trip = &t->trips[i];

	cr_assert_eq(cpl->result, 0, "%s: result %d, status 0x%x", t->row->name, cpl->result,
		     cpl->status);
	if (!trip->reading) {
		trip->reading = true;
		return true;
	}
	cr_assert_eq(differs_at(trip->to, trip->lba, trip->nblocks, trip->seed),
		     trip->nblocks * WORDS, "%s: LBA %llu, %llu blocks", t->row->name,
		     (unsigned long long)trip->lba, (unsigned long long)trip->nblocks);
	t->ended++;
	if (t->started == t->row->trips)
		return false;
	begin(t, i);
	return true;
}

/* As many as there is room for: an I/O of several commands takes several places. */
static void submit_waiting(struct traffic *t, unsigned int at_once)
{
	unsigned int sent = 0;

	while (sent < t->nwaiting) {
		struct nvmfr_io ios[MAX_DEPTH];
		unsigned int n = t->nwaiting - sent < at_once ? t->nwaiting - sent : at_once;
		int taken;

		for (unsigned int k = 0; k < n; k++)
			ios[k] = trip_io(t, t->waiting[sent + k]);
		taken = nvmfr_submit(t->rig->qp, ios, n);
		if (taken == -EAGAIN)
			break;
		must(taken, "submit");
		sent += (unsigned int)taken;
	}
	t->nwaiting -= sent;
	memmove(t->waiting, t->waiting + sent, t->nwaiting * sizeof(t->waiting[0]));
}

/* Batches of one to 32, and completions one to 64 at a time, in turn. */
static void take_turn(struct traffic *t, unsigned int turn)
{
	struct nvmfr_completion done[64];
	int got;

	submit_waiting(t, 1u << turn % 6);
	got = nvmfr_poll(t->rig->qp, done, turn % 64 + 1);
	must(got, "poll");
	for (int k = 0; k < got; k++)
		if (go_on(t, &done[k]))
			t->waiting[t->nwaiting++] = (unsigned int)done[k].user_data;
}

static void round_trips(const struct row *row)
{
	struct rig rig = { 0 };
	struct traffic t = { .rig = &rig, .row = row, .random = row->depth + row->max_bytes };

	rig_up(&rig, row->depth, row->depth * 2 * (row->max_bytes + 64));
	t.trips = calloc(row->depth, sizeof(*t.trips));
	cr_assert_not_null(t.trips);
	for (unsigned int i = 0; i < row->depth; i++) {
		begin(&t, i);
		t.waiting[t.nwaiting++] = i;
	}
	for (unsigned int turn = 0; t.ended < row->trips; turn++)
		take_turn(&t, turn);
	free(t.trips);
	rig_down(&rig);
}

static void run_rows(const struct row *rows, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		round_trips(&rows[i]);
		printf("# %s: %u round trips\n", rows[i].name, rows[i].trips);
	}
}
#define RUN(Rows) run_rows(Rows, sizeof(Rows) / sizeof((Rows)[0]))

Test(check, one_block_at_every_depth)
{
	struct row row = { "512 B", 1, BLOCK, BLOCK, 0, 4000 };

	for (row.depth = 1; row.depth <= 128; row.depth += row.depth < 4 ? 1 : row.depth / 3)
		round_trips(&row);
}

Test(check, in_capsule_and_a_little_more)
{
	static const struct row rows[] = {
		{ "4 KiB, QD 1", 1, 4 * KIB, 4 * KIB, 0, 5000 },
		{ "512 B to 4 KiB, QD 32", 32, BLOCK, 4 * KIB, 0, 20000 },
		{ "512 B to 8 KiB, QD 128", 128, BLOCK, 8 * KIB, 0, 20000 },
	};

	RUN(rows);
}

Test(check, one_command_each)
{
	static const struct row rows[] = {
		{ "to 128 KiB, QD 32", 32, BLOCK, 128 * KIB, 0, 2000 },
		{ "128 KiB, QD 128", 128, 128 * KIB, 128 * KIB, 0, 2000 },
		{ "1 MiB, QD 4", 4, MIB, MIB, 0, 100 },
	};

	RUN(rows);
}

Test(check, several_commands_each)
{
	static const struct row rows[] = {
		{ "1 MiB and a block, QD 8", 8, MIB + BLOCK, MIB + BLOCK, 0, 100 },
		{ "to 8 MiB, QD 3", 3, BLOCK, 8 * MIB, 0, 30 },
		{ "8 MiB, QD 1", 1, 8 * MIB, 8 * MIB, 0, 10 },
		{ "8 MiB, QD 8", 8, 8 * MIB, 8 * MIB, 0, 30 },
		{ "16 MiB and a block less, QD 2", 2, 16 * MIB - BLOCK, 16 * MIB, 0, 8 },
		{ "65,536 blocks, QD 2", 2, NLB_MOST * BLOCK, NLB_MOST * BLOCK, 0, 4 },
	};

	RUN(rows);
}

Test(check, vectored)
{
	static const struct row rows[] = {
		{ "512 B to 4 KiB in 4, QD 1", 1, BLOCK, 4 * KIB, 4, 2000 },
		{ "512 B to 16 KiB in 16, QD 32", 32, BLOCK, 16 * KIB, 16, 10000 },
		{ "128 KiB in 4, QD 128", 128, 128 * KIB, 128 * KIB, 4, 1000 },
		{ "to 3 MiB in 16, QD 8", 8, BLOCK, 3 * MIB, 16, 100 },
	};

	RUN(rows);
}

/* ---- any place of a buffer -------------------------------------------------------------------- */

/* An I/O of the row that is to succeed. */
static void do_one(struct traffic *t)
{
	struct nvmfr_io io = trip_io(t, 0);
	struct nvmfr_completion cpl;

	cr_assert_eq(nvmfr_submit(t->rig->qp, &io, 1), 1, "%s: %s", t->row->name,
		     nvmfr_last_error());
	poll_one(t->rig, &cpl);
	cr_assert_eq(cpl.result, 0, "%s: result %d, status 0x%x", t->row->name, cpl.result,
		     cpl.status);
}

/* Written from and read to the same place of the buffer; its neighbours stay as they are. */
static void round_trip_at(struct traffic *t, uint64_t offset)
{
	uint64_t bytes = t->row->max_bytes;
	unsigned char *at = t->rig->mem + offset;
	struct trip *trip = t->trips;

	*trip = (struct trip){ .nblocks = bytes / BLOCK, .lba = offset % MIB, .from = at, .to = at };
	trip->seed = pattern_mode() ? 0 : offset;
	fill(at, trip->lba, trip->nblocks, trip->seed);
	do_one(t);
	memset(at - 1, 0xee, bytes + 2);
	trip->reading = true;
	do_one(t);
	cr_assert_eq(differs_at(at, trip->lba, trip->nblocks, trip->seed), trip->nblocks * WORDS,
		     "%s at offset %llu", t->row->name, (unsigned long long)offset);
	cr_assert(at[-1] == 0xee && at[bytes] == 0xee, "%s at offset %llu: beside it", t->row->name,
		  (unsigned long long)offset);
}

/*
 * A step that is odd and less than an I/O's length misses no seam between the memory regions that
 * NULLNIC_MAX_MR makes, and meets them at any byte of a block and of a page. A whole page from 4095,
 * 4096 or 4097 on is a byte before, at or behind each place at which a region may begin.
 */
struct sweep {
	struct row row;
	uint64_t first, step, buffer_bytes;
};

static void sweep_buffer(const struct sweep *sweep)
{
	struct rig rig = { 0 };
	struct trip trip;
	struct traffic t = { .rig = &rig, .row = &sweep->row, .trips = &trip };
	uint64_t bytes = sweep->row.max_bytes;
	const char *msdbd = getenv("NULLNIC_MSDBD");
	unsigned int trips = 0;

	/* A block in two pieces takes two descriptors. */
	if (sweep->row.pieces && msdbd && !strcmp(msdbd, "1"))
		return;
	rig_up(&rig, 32, sweep->buffer_bytes);
	for (uint64_t at = sweep->first; at + bytes < rig.bytes; at += sweep->step, trips++)
		round_trip_at(&t, at);
	printf("# %s: %u round trips\n", sweep->row.name, trips);
	rig_down(&rig);
}

Test(check, any_place_of_a_buffer, .timeout = 600)
{
	/* clang-format off */
	static const struct sweep sweeps[] = {
		{ { .name = "a block", .max_bytes = BLOCK }, 1, 211, 4 * MIB },
		{ { .name = "a block, a byte early", .max_bytes = BLOCK }, 4095, 4096, 4 * MIB },
		{ { .name = "a block, on a page", .max_bytes = BLOCK }, 4096, 4096, 4 * MIB },
		{ { .name = "a block, a byte late", .max_bytes = BLOCK }, 4097, 4096, 4 * MIB },
		{ { .name = "4 KiB, in the capsule", .max_bytes = 4 * KIB }, 1, 2039, 8 * MIB },
		{ { .name = "8 KiB in 16", .max_bytes = 8 * KIB, .pieces = 16 }, 1, 2039, 8 * MIB },
		{ { .name = "128 KiB", .max_bytes = 128 * KIB }, 1, 65521, 16 * MIB },
		{ { .name = "1 MiB", .max_bytes = MIB }, 1, 131071, 8 * MIB },
		{ { .name = "1 MiB and a block", .max_bytes = MIB + BLOCK }, 1, 131071, 8 * MIB },
		{ { .name = "3 MiB in 16", .max_bytes = 3 * MIB, .pieces = 16 }, 1, 131071, 8 * MIB },
		{ { .name = "16 MiB", .max_bytes = 16 * MIB }, 1, 500009, 20 * MIB },
		{ { .name = "16 MiB less a block", .max_bytes = 16 * MIB - BLOCK }, 1, 500009, 20 * MIB },
		{ { .name = "65,536 blocks", .max_bytes = NLB_MOST * BLOCK }, 1, 500009, 34 * MIB },
	};
	/* clang-format on */

	for (size_t i = 0; i < sizeof(sweeps) / sizeof(sweeps[0]); i++)
		sweep_buffer(&sweeps[i]);
}

static uint64_t mem_available_kib(void)
{
	FILE *file = fopen("/proc/meminfo", "re");
	unsigned long long kib = 0;
	char line[128];

	cr_assert_not_null(file);
	while (!kib && fgets(line, sizeof(line), file))
		(void)sscanf(line, "MemAvailable: %llu", &kib);
	fclose(file);
	return kib;
}

/* One I/O that 32 bits of bytes cannot count, all of it looked at: read here, written by the target. */
Test(check, four_gibibytes, .timeout = 600)
{
	const char *size = getenv("NULLNIC_SIZE");
	struct row row = { .name = "4 GiB and a little", .max_bytes = UINT64_C(4098) * MIB + BLOCK };
	struct rig rig = { 0 };
	struct trip trip = { .lba = 12345, .nblocks = row.max_bytes / BLOCK, .reading = true };
	struct traffic t = { .rig = &rig, .row = &row, .trips = &trip };

	if (!pattern_mode() || !size || strtoull(size, NULL, 0) < 2 * row.max_bytes)
		return;
	if (mem_available_kib() * KIB < 2 * row.max_bytes) {
		printf("# left out: needs %llu MiB of available memory\n",
		       (unsigned long long)(2 * row.max_bytes / MIB));
		return;
	}
	rig_up(&rig, 32, row.max_bytes + 2);
	trip.from = trip.to = rig.mem + 1;
	do_one(&t);
	cr_expect_eq(differs_at(trip.to, trip.lba, trip.nblocks, 0), trip.nblocks * WORDS);
	trip.reading = false;
	do_one(&t);
	rig_down(&rig);
}

/* ---- overload --------------------------------------------------------------------------------- */

static int read_block(struct rig *rig, uint64_t lba, uint64_t id)
{
	return nvmfr_read(rig->qp, 1, lba, 1, rig->buf, lba * BLOCK, id);
}

/* Every one that was accepted completes, once. */
static void collect(struct rig *rig, unsigned int n)
{
	struct nvmfr_completion done[8];
	uint8_t seen[1024] = { 0 };

	cr_assert_leq(n, sizeof(seen));
	for (unsigned int ended = 0; ended < n;) {
		int got = nvmfr_poll(rig->qp, done, 8);

		must(got, "poll");
		for (int k = 0; k < got; k++) {
			cr_expect_eq(done[k].result, 0);
			cr_assert_lt(done[k].user_data, n);
			cr_expect_eq(seen[done[k].user_data]++, 0);
		}
		ended += (unsigned int)got;
	}
	cr_expect_eq(nvmfr_poll(rig->qp, done, 8), 0);
}

Test(check, overload_one_by_one)
{
	for (unsigned int depth = 1; depth <= 128; depth *= 2) {
		struct rig rig = { 0 };

		rig_up(&rig, depth, 1024 * BLOCK);
		for (unsigned int turn = 0; turn < 50; turn++) {
			unsigned int n = 0;
			int err;

			while (!(err = read_block(&rig, n, n)))
				n++;
			cr_expect_eq(err, -EAGAIN);
			cr_expect_eq(n, rig.depth);
			collect(&rig, n);
		}
		rig_down(&rig);
	}
}

Test(check, overload_in_batches)
{
	static struct nvmfr_io ios[200];
	struct rig rig = { 0 };

	rig_up(&rig, 100, 1024 * BLOCK);
	for (unsigned int i = 0; i < 200; i++)
		ios[i] = (struct nvmfr_io){ .op = NVMFR_OP_READ, .nsid = 1, .lba = i, .nblocks = 1, .buf = rig.buf, .offset_bytes = i * BLOCK, .user_data = i };
	for (unsigned int turn = 0; turn < 200; turn++) {
		unsigned int n = 0;
		int taken;

		/* Room is told in parts where the ring ends. */
		while ((taken = nvmfr_submit(rig.qp, ios + n, 200 - n)) > 0)
			n += (unsigned int)taken;
		cr_expect_eq(taken, -EAGAIN);
		cr_expect_eq(n, rig.depth);
		collect(&rig, n);
	}
	rig_down(&rig);
}

/* ---- life ------------------------------------------------------------------------------------- */

static unsigned int descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	unsigned int n = 0;

	cr_assert_not_null(dir);
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

Test(check, connect_and_close_100_times)
{
	unsigned int before = 0;

	for (unsigned int i = 0; i < CYCLES; i++) {
		struct rig rig = { 0 };

		rig_up(&rig, 1 + i, 1024 * BLOCK);
		must(read_block(&rig, 0, 0), "read");
		collect(&rig, 1);
		rig_down(&rig);
		/* What a process keeps is there after the first. */
		if (!i)
			before = descriptors();
	}
	cr_expect_eq(descriptors(), before);
}

/* Looked up beside the service; the last one is given up before, while or after it is found. */
Test(check, by_name)
{
	struct rig rig = { 0 };
	struct nvmfr_ctrl_opts opts;

	rig_up_at(&rig, "nvmf+rdma://localhost/" SUBNQN, 8, 1024 * BLOCK);
	must(read_block(&rig, 0, 0), "read");
	collect(&rig, 1);
	nvmfr_ctrl_opts_init(&opts, sizeof(opts));
	opts.uri = "nvmf+rdma://localhost/" SUBNQN;
	for (unsigned int i = 0; i < 20; i++) {
		struct nvmfr_ctrl *ctrl;

		must(nvmfr_connect(rig.host, &opts, &ctrl), "connect");
		usleep(i * 100);
		must(nvmfr_disconnect(ctrl, 0), "disconnect");
	}
	rig_down(&rig);
}

/* The queue pair goes with commands in flight; the controller and the buffer stay. */
Test(check, queue_pair_100_times)
{
	struct rig rig = { 0 };

	rig_up(&rig, 32, 1024 * BLOCK);
	for (unsigned int i = 0; i < CYCLES; i++) {
		for (unsigned int k = 0; k < i % 32; k++)
			must(read_block(&rig, k, k), "read");
		nvmfr_qpair_destroy(rig.qp);
		qpair_up(&rig, 1 + i);
	}
	rig_down(&rig);
}

Test(check, many_queue_pairs_at_once)
{
	struct nvmfr_qpair *qps[100];
	struct rig rig = { 0 };

	rig_up(&rig, 16, 1024 * BLOCK);
	for (unsigned int i = 0; i < 100; i++) {
		qps[i] = rig.qp;
		qpair_up(&rig, 16);
	}
	for (unsigned int i = 0; i < 100; i++) {
		struct rig other = rig;

		other.qp = qps[i];
		must(read_block(&other, i, 0), "read");
		collect(&other, 1);
		nvmfr_qpair_destroy(qps[i]);
	}
	rig_down(&rig);
}

/* ---- errors ----------------------------------------------------------------------------------- */

/* What is wrong is refused without a command sent, and the queue pair goes on. */
Test(check, refused_before_sending)
{
	struct rig rig = { 0 };
	struct nvmfr_ns_info ns = { .size = sizeof(ns) };

	rig_up(&rig, 8, 1024 * BLOCK);
	must(nvmfr_ns_info(rig.ctrl, 1, &ns), "namespace");
	cr_expect_eq(nvmfr_read(rig.qp, 1, ns.capacity_blocks, 1, rig.buf, 0, 0), -ERANGE);
	cr_expect_eq(nvmfr_read(rig.qp, 1, UINT64_MAX, 2, rig.buf, 0, 0), -ERANGE);
	cr_expect_eq(nvmfr_read(rig.qp, 1, 0, 1, rig.buf, 1023 * BLOCK + 1, 0), -ERANGE);
	cr_expect_eq(nvmfr_read(rig.qp, 1, 0, 0, rig.buf, 0, 0), -EINVAL);
	cr_expect_eq(nvmfr_read(rig.qp, 2, 0, 1, rig.buf, 0, 0), -ENOENT);
	cr_expect_eq(nvmfr_read(rig.qp, 1, 0, 1, NULL, 0, 0), -EINVAL);
	must(read_block(&rig, 3, 0), "read");
	cr_expect_eq(nvmfr_buffer_release(rig.buf), -EBUSY);
	collect(&rig, 1);
	rig_down(&rig);
}

/* Read-only memory is no target, and what is registered as a target only is no source. */
Test(check, access_is_kept)
{
	struct rig rig = { 0 };
	struct nvmfr_buffer *target;

	rig_up(&rig, 8, 1024 * BLOCK);
	must(nvmfr_buffer_register(rig.host, rig.mem, 8 * BLOCK, NVMFR_ACCESS_TARGET, &target),
	     "register");
	cr_expect_eq(nvmfr_write(rig.qp, 1, 0, 1, target, 0, 0), -EINVAL);
	must(nvmfr_read(rig.qp, 1, 0, 1, target, 0, 0), "read");
	collect(&rig, 1);
	must(nvmfr_buffer_release(target), "release");
	rig_down(&rig);
}

/* Admin commands with data either way, of any length and from any memory; the last one is refused. */
Test(check, admin_commands)
{
	struct nvmfr_cmd set = { .opcode = 0x09, .cdw10 = 0x16 }; /* Host Behavior Support: 512 bytes */
	unsigned char *data = malloc(70000);
	struct nvmfr_smart smart = { .size = sizeof(smart) };
	struct rig rig = { 0 };
	uint16_t status = 0;

	cr_assert_not_null(data);
	rig_up(&rig, 8, 1024 * BLOCK);
	for (unsigned int turn = 0; turn < 100; turn++) {
		must(nvmfr_identify(rig.ctrl, 1, 0, 0, 0, data + 1), "identify");
		cr_expect_eq(memcmp(data + 1 + 24, "nullnic", 7), 0);
		must(nvmfr_admin(rig.ctrl, &set, data, 512, NULL, NULL), "set feature");
		must(nvmfr_get_log(rig.ctrl, 1, UINT32_MAX, 0, 0, data, 64 * (turn + 1)), "log");
	}
	must(nvmfr_get_log(rig.ctrl, 1, UINT32_MAX, 0, 0, data, 70000), "long log");
	must(nvmfr_read_smart(rig.ctrl, UINT32_MAX, &smart), "health");
	set.opcode = 0xc1;
	cr_expect_eq(nvmfr_admin(rig.ctrl, &set, data, 512, NULL, &status), -EREMOTEIO);
	cr_expect_eq(status & 0x7ff, 0x001);
	rig_down(&rig);
	free(data);
}

/* I/O commands as given, words set that reads leave alone, between reads by the hundred; deallocate. */
Test(check, io_commands)
{
	const struct nvmfr_range ranges[] = { { 900, 3 }, { 1000, 1 } };
	struct nvmfr_cmd read = { .opcode = 0x02, .nsid = 1, .cdw10 = 7, .cdw14 = UINT32_MAX };
	struct nvmfr_buffer *list;
	struct rig rig = { 0 };

	rig_up(&rig, 8, 1024 * BLOCK);
	must(nvmfr_buffer_alloc(rig.host, 4096, -1, &list), "alloc");
	fill(rig.mem, 7, 1, 0);
	must(nvmfr_write(rig.qp, 1, 7, 1, rig.buf, 0, 0), "write");
	collect(&rig, 1);
	for (unsigned int turn = 0; turn < 300; turn++) {
		memset(rig.mem, 0, BLOCK);
		must(nvmfr_submit_cmd(rig.qp, &read, rig.buf, 0, BLOCK, 0), "as given");
		collect(&rig, 1);
		cr_expect_eq(differs_at(rig.mem, 7, 1, 0), WORDS);
		must(read_block(&rig, 3, 0), "read");
		collect(&rig, 1);
	}
	must(nvmfr_deallocate(rig.qp, 1, ranges, 2, list, 4, 0), "deallocate");
	collect(&rig, 1);
	must(nvmfr_buffer_release(list), "release");
	rig_down(&rig);
}

/* The target's refusal: in pattern mode it looks at what is written, here without NULLNIC_ABORT. */
Test(check, refused_by_the_target)
{
	const char *ends = getenv("NULLNIC_ABORT");
	struct nvmfr_completion cpl;
	struct rig rig = { 0 };

	if (!pattern_mode() || (ends && strcmp(ends, "0")))
		return;
	rig_up(&rig, 8, 1024 * BLOCK);
	for (unsigned int turn = 0; turn < 100; turn++) {
		uint64_t blocks = turn % 2 ? 1 : 1024;

		memset(rig.mem, 0xee, blocks * BLOCK);
		must(nvmfr_write(rig.qp, 1, 7, blocks, rig.buf, 0, turn), "write");
		poll_one(&rig, &cpl);
		cr_expect_eq(cpl.result, -EREMOTEIO);
		cr_expect_eq(cpl.status, 0x4004, "Data Transfer Error, do not retry");
		cr_expect_eq(cpl.user_data, turn);
		must(read_block(&rig, 3, 0), "read");
		collect(&rig, 1);
	}
	cr_expect_eq(shim_errors(), 100u);
	rig_down(&rig);
}
