/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * no_alloc [uri [group]]: no allocation between submit and completion. The C library's allocator with a counter
 * in front, which counts this thread's calls while it is told to.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "soft_io.h"

enum { IOS = 100000, LONG_IOS = 250 };

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t n, size_t bytes);
void *__libc_realloc(void *old, size_t bytes);
void *__libc_memalign(size_t alignment, size_t bytes);
void __libc_free(void *old);

static _Thread_local bool counting;
static _Thread_local uint64_t calls;

void *malloc(size_t bytes)
{
	calls += counting;
	return __libc_malloc(bytes);
}

void *calloc(size_t n, size_t bytes)
{
	calls += counting;
	return __libc_calloc(n, bytes);
}

void *realloc(void *old, size_t bytes)
{
	calls += counting;
	return __libc_realloc(old, bytes);
}

void *aligned_alloc(size_t alignment, size_t bytes)
{
	calls += counting;
	return __libc_memalign(alignment, bytes);
}

int posix_memalign(void **out, size_t alignment, size_t bytes)
{
	calls += counting;
	*out = __libc_memalign(alignment, bytes);
	return *out ? 0 : ENOMEM;
}

void free(void *old)
{
	calls += counting;
	__libc_free(old);
}

static int planted(void)
{
	void *volatile one;

	calls = 0;
	counting = true;
	one = malloc(1);
	counting = false;
	free(one);
	printf("planted: %llu calls\n", (unsigned long long)calls);
	return calls == 1 ? 0 : -1;
}

static int watch(struct soft_io *s, const char *name, enum soft_kind kind, uint64_t count)
{
	int err;

	calls = 0;
	counting = true;
	err = soft_io_run(s, kind, count);
	counting = false;
	printf("%s: %llu I/Os, %llu calls\n", name, (unsigned long long)count,
	       (unsigned long long)calls);
	if (err)
		printf("%s: %s\n", name, nvmfr_strerror(err));
	return err || calls ? -1 : 0;
}

int main(int argc, char **argv)
{
	struct soft_io s;
	int failed = planted();

	soft_io_open(&s, argc > 1 ? argv[1] : SOFT_IO_URI, argc > 2);
	failed |= watch(&s, "reads", SOFT_READ, IOS);
	failed |= watch(&s, "writes", SOFT_WRITE, IOS);
	failed |= watch(&s, "vectored reads", SOFT_READ_VEC, IOS);
	failed |= watch(&s, "8 MiB reads", SOFT_READ_LONG, LONG_IOS);
	soft_io_close(&s);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
