/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * footprint memory [depth] | lines - what a queue pair holds, and what two of them have in common.
 *
 * memory: prints "N bytes a queue pair": what the library itself allocates or maps for one, buffers and
 * the provider's part excluded, and the blocks of the last. lines: runs I/O on one queue pair, then on
 * the other, over one buffer, and fails if both changed one cache line of the library's memory.
 *
 * The allocator is the C library's with a note in front of every block that libnvmfr.so asked for.
 */
#include <errno.h>
#include <link.h>
#include <malloc.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <nvmfr/nvmfr.h>

#define URI    "nvmf+rdma://127.0.0.1/nqn.2026-01.null:nullnic"
#define CALLER ((uintptr_t)__builtin_return_address(0))

enum { MAX_BLOCKS = 4096,
       LINE = 64,
       PAGE = 4096,
       HEADER = 8,
       QPAIRS = 16,
       DEPTH = 32,
       IOS = 1000 };

/* ---- the library's blocks --------------------------------------------------------------------- */

struct block {
	unsigned char *at;
	size_t bytes;
};

static struct block blocks[MAX_BLOCKS];
static unsigned int nblocks;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uintptr_t code_start, code_end;
static struct block data; /* the library's own variables */

static int find_library(struct dl_phdr_info *info, size_t size, void *arg)
{
	(void)size;
	(void)arg;
	if (!strstr(info->dlpi_name, "libnvmfr.so"))
		return 0;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
		uintptr_t start = info->dlpi_addr + segment->p_vaddr;

		if (segment->p_type != PT_LOAD)
			continue;
		if (segment->p_flags & PF_X) {
			code_start = start;
			code_end = start + segment->p_memsz;
		} else if (segment->p_flags & PF_W) {
			data = (struct block){ (unsigned char *)start, segment->p_memsz };
		}
	}
	return 1;
}

static void note(uintptr_t caller, void *at, size_t bytes)
{
	if (!at || caller < code_start || caller >= code_end)
		return;
	pthread_mutex_lock(&lock);
	if (nblocks == MAX_BLOCKS)
		abort();
	blocks[nblocks++] = (struct block){ at, bytes };
	pthread_mutex_unlock(&lock);
}

static void forget(const void *at)
{
	pthread_mutex_lock(&lock);
	for (unsigned int i = 0; i < nblocks; i++) {
		if (blocks[i].at == at) {
			blocks[i] = blocks[--nblocks];
			break;
		}
	}
	pthread_mutex_unlock(&lock);
}

static size_t noted_bytes(void)
{
	size_t sum = 0;

	for (unsigned int i = 0; i < nblocks; i++)
		sum += blocks[i].bytes;
	return sum;
}

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t n, size_t bytes);
void *__libc_realloc(void *old, size_t bytes);
void *__libc_memalign(size_t alignment, size_t bytes);
void __libc_free(void *old);

static void *noted_heap(uintptr_t caller, void *at)
{
	note(caller, at, malloc_usable_size(at) + HEADER);
	return at;
}

void *malloc(size_t bytes)
{
	return noted_heap(CALLER, __libc_malloc(bytes));
}

void *calloc(size_t n, size_t bytes)
{
	return noted_heap(CALLER, __libc_calloc(n, bytes));
}

void *realloc(void *old, size_t bytes)
{
	forget(old);
	return noted_heap(CALLER, __libc_realloc(old, bytes));
}

void *aligned_alloc(size_t alignment, size_t bytes)
{
	return noted_heap(CALLER, __libc_memalign(alignment, bytes));
}

int posix_memalign(void **out, size_t alignment, size_t bytes)
{
	*out = noted_heap(CALLER, __libc_memalign(alignment, bytes));
	return *out ? 0 : ENOMEM;
}

void free(void *old)
{
	forget(old);
	__libc_free(old);
}

static void *noted_map(uintptr_t caller, void *at, size_t bytes)
{
	if (at != MAP_FAILED)
		note(caller, at, (bytes + PAGE - 1) / PAGE * PAGE);
	return at;
}

/* Both names, whichever <sys/mman.h> chose for its mmap(). */
void *plain_mmap(void *, size_t, int, int, int, off_t) __asm__("mmap");
void *large_mmap(void *, size_t, int, int, int, off_t) __asm__("mmap64");

void *plain_mmap(void *addr, size_t bytes, int prot, int flags, int fd, off_t offset)
{
	return noted_map(CALLER, (void *)syscall(SYS_mmap, addr, bytes, prot, flags, fd, offset), bytes);
}

void *large_mmap(void *addr, size_t bytes, int prot, int flags, int fd, off_t offset)
{
	return noted_map(CALLER, (void *)syscall(SYS_mmap, addr, bytes, prot, flags, fd, offset), bytes);
}

int munmap(void *addr, size_t bytes)
{
	forget(addr);
	return (int)syscall(SYS_munmap, addr, bytes);
}

/* ---- association ------------------------------------------------------------------------------ */

static struct nvmfr_host *host;
static struct nvmfr_ctrl *ctrl;

static void must(int err, const char *what)
{
	if (err >= 0)
		return;
	fprintf(stderr, "footprint: %s: %s (%s)\n", what, nvmfr_last_error(), nvmfr_strerror(err));
	exit(EXIT_FAILURE);
}

/* Without a service thread: nothing but the queue pairs writes while they are watched. */
static void connect_target(void)
{
	struct nvmfr_host_opts host_opts;
	struct nvmfr_ctrl_opts opts;

	dl_iterate_phdr(find_library, NULL);
	if (!code_start)
		must(-ENOENT, "libnvmfr.so is not there");
	nvmfr_host_opts_init(&host_opts, sizeof(host_opts));
	host_opts.flags = NVMFR_HOST_MANUAL;
	must(nvmfr_host_create(&host_opts, &host), "host");
	nvmfr_ctrl_opts_init(&opts, sizeof(opts));
	opts.uri = URI;
	must(nvmfr_connect(host, &opts, &ctrl), "connect");
	must(nvmfr_ctrl_wait(ctrl, -1), "connect");
}

static struct nvmfr_qpair *new_qpair(unsigned int depth)
{
	struct nvmfr_qpair_opts opts;
	struct nvmfr_qpair *qp;

	nvmfr_qpair_opts_init(&opts, sizeof(opts));
	opts.depth = (uint16_t)depth;
	must(nvmfr_qpair_create(ctrl, &opts, &qp), "queue pair");
	must(nvmfr_qpair_wait(qp, -1), "queue pair");
	return qp;
}

static void disconnect(struct nvmfr_qpair **qps, unsigned int n)
{
	while (n)
		nvmfr_qpair_destroy(qps[--n]);
	must(nvmfr_disconnect(ctrl, 1000), "disconnect");
	nvmfr_host_destroy(host);
}

/* ---- memory ----------------------------------------------------------------------------------- */

/* Of several, so that what is grown in steps is shared out; the first is not counted. */
static int memory(unsigned int depth)
{
	struct nvmfr_qpair *qps[QPAIRS + 1];
	unsigned int old = 0;
	size_t before;

	connect_target();
	qps[0] = new_qpair(depth);
	before = noted_bytes();
	for (unsigned int i = 1; i <= QPAIRS; i++) {
		old = nblocks;
		qps[i] = new_qpair(depth);
	}
	printf("%zu bytes a queue pair:", (noted_bytes() - before) / QPAIRS);
	for (unsigned int i = old; i < nblocks; i++)
		printf(" %zu", blocks[i].bytes);
	printf("\n");
	disconnect(qps, QPAIRS + 1);
	return EXIT_SUCCESS;
}

/* ---- lines ------------------------------------------------------------------------------------ */

/* A copy of the library's memory, and a mark for every line that changed in one watch or the other. */
struct watch {
	struct block block;
	unsigned char *copy, *marks;
};

static struct watch watches[MAX_BLOCKS + 1];
static unsigned int nwatches;

static void watch_block(struct block block)
{
	struct watch *w = &watches[nwatches++];
	uintptr_t start = (uintptr_t)block.at & ~(uintptr_t)(LINE - 1);

	w->block = block;
	w->copy = __libc_malloc(block.bytes);
	w->marks = __libc_calloc(((uintptr_t)block.at + block.bytes - start) / LINE + 1, 1);
	if (!w->copy || !w->marks)
		must(-ENOMEM, "a copy");
}

static void take_copies(void)
{
	for (unsigned int i = 0; i < nwatches; i++)
		memcpy(watches[i].copy, watches[i].block.at, watches[i].block.bytes);
}

static size_t line_of(const struct watch *w, size_t byte)
{
	return ((uintptr_t)w->block.at % LINE + byte) / LINE;
}

static void mark_changes(unsigned int mark)
{
	for (unsigned int i = 0; i < nwatches; i++) {
		struct watch *w = &watches[i];

		for (size_t k = 0; k < w->block.bytes; k++)
			if (w->block.at[k] != w->copy[k])
				w->marks[line_of(w, k)] |= (unsigned char)mark;
	}
	take_copies();
}

/* Lines with all of these marks. */
static unsigned int count_lines(unsigned int marks, bool tell)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < nwatches; i++) {
		const struct watch *w = &watches[i];

		for (size_t line = 0; line <= line_of(w, w->block.bytes - 1); line++) {
			if ((w->marks[line] & marks) != marks)
				continue;
			n++;
			if (tell)
				printf("both write line %zu of a block of %zu bytes at %p\n", line,
				       w->block.bytes, (void *)w->block.at);
		}
	}
	return n;
}

static void submit_some(struct nvmfr_qpair *qp, struct nvmfr_buffer *buf, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++) {
		if (i % 2)
			must(nvmfr_read(qp, 1, i, 16, buf, 0, i), "read");
		else
			must(nvmfr_write(qp, 1, i, 8, buf, 0, i), "write");
	}
}

static void collect(struct nvmfr_qpair *qp, unsigned int n)
{
	struct nvmfr_completion done[DEPTH];

	while (n) {
		int got = nvmfr_poll(qp, done, DEPTH);

		must(got, "poll");
		n -= (unsigned int)got;
	}
}

/* What is counted up and down again shows while commands are in flight. */
static void exercise(struct nvmfr_qpair *qp, struct nvmfr_buffer *buf, unsigned int mark)
{
	for (unsigned int done = 0; done < IOS; done += DEPTH - 1) {
		submit_some(qp, buf, DEPTH - 1);
		mark_changes(mark);
		collect(qp, DEPTH - 1);
		mark_changes(mark);
	}
}

static int lines(void)
{
	static unsigned char memory_of_both[16 * 512];
	struct nvmfr_qpair *qps[2];
	struct nvmfr_buffer *buf;
	unsigned int first, second, both;

	connect_target();
	qps[0] = new_qpair(DEPTH);
	qps[1] = new_qpair(DEPTH);
	must(nvmfr_buffer_register(host, memory_of_both, sizeof(memory_of_both), NVMFR_ACCESS_BOTH,
				   &buf),
	     "register");
	for (unsigned int i = 0; i < nblocks; i++)
		watch_block(blocks[i]);
	watch_block(data);
	take_copies();
	exercise(qps[0], buf, 1);
	exercise(qps[1], buf, 2);
	first = count_lines(1, false);
	second = count_lines(2, false);
	both = count_lines(3, true);
	printf("%u lines written for one queue pair, %u for the other, %u for both\n", first, second, both);
	nvmfr_qpair_destroy(qps[1]);
	must(nvmfr_buffer_release(buf), "release");
	disconnect(qps, 1);
	return first && second && !both ? EXIT_SUCCESS : EXIT_FAILURE;
}

int main(int argc, char **argv)
{
	if (argc >= 2 && !strcmp(argv[1], "memory"))
		return memory(argc > 2 ? (unsigned int)atoi(argv[2]) : 128);
	if (argc == 2 && !strcmp(argv[1], "lines"))
		return lines();
	fprintf(stderr, "footprint memory [depth] | lines\n");
	return 2;
}
