/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef EXAMPLES_COUNT_SYSCALLS_H
#define EXAMPLES_COUNT_SYSCALLS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

/*
 * Counts every system call of one thread, with no root rights: that thread puts itself under a
 * seccomp filter that hands each call to a watching thread, which counts it and lets it go on. The
 * filter stays until the thread ends.
 */
struct syscall_counter {
	atomic_int listener; /* seccomp notification descriptor; -1: none yet */
	_Atomic uint64_t calls;
	int end_fd; /* tells the watcher to end */
	pthread_t watcher;
};

/* Both by the thread that made the counted one; stop only after that one has ended. */
int syscall_counter_start(struct syscall_counter *counter);
void syscall_counter_stop(struct syscall_counter *counter);

/* By the thread that is to be counted. Returns 0 or -errno (no seccomp listener to be had here). */
int syscall_counter_enter(struct syscall_counter *counter);

/* A call is in the number before the kernel begins with it. NULL: 0. */
static inline uint64_t syscall_count(const struct syscall_counter *counter)
{
	return counter ? atomic_load(&counter->calls) : 0;
}

#endif
