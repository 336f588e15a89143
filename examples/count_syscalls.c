/* SPDX-License-Identifier: BSD-3-Clause */
#include "count_syscalls.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sched.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NO_LISTENER (-1)

/* The counted thread cannot wake anybody up: that would be a system call before anyone listens. */
static int await_listener(struct syscall_counter *counter)
{
	struct pollfd end = { .fd = counter->end_fd, .events = POLLIN };
	int listener;

	while ((listener = atomic_load(&counter->listener)) == NO_LISTENER)
		if (poll(&end, 1, 1) == 1)
			return NO_LISTENER;
	return listener;
}

/* A call that a signal broke off meanwhile is gone by the time of the answer (ENOENT). */
static void count_one(struct syscall_counter *counter, int listener)
{
	struct seccomp_notif_resp answer = { .flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE };
	struct seccomp_notif call = { 0 };

	if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &call))
		return;
	atomic_fetch_add(&counter->calls, 1);
	answer.id = call.id;
	ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &answer);
}

static void *watch(void *arg)
{
	struct syscall_counter *counter = arg;
	struct pollfd ready[2] = { { .fd = await_listener(counter), .events = POLLIN },
				   { .fd = counter->end_fd, .events = POLLIN } };

	while (ready[0].fd >= 0) {
		if (poll(ready, 2, -1) < 0)
			continue;
		if (ready[0].revents & POLLIN)
			count_one(counter, ready[0].fd);
		else if (ready[1].revents)
			break;
		else if (ready[0].revents)
			ready[0].fd = -1; /* the counted thread has ended */
	}
	return NULL;
}

int syscall_counter_start(struct syscall_counter *counter)
{
	int err;

	atomic_init(&counter->listener, NO_LISTENER);
	atomic_init(&counter->calls, 0);
	counter->end_fd = eventfd(0, EFD_CLOEXEC);
	if (counter->end_fd < 0)
		return -errno;
	err = pthread_create(&counter->watcher, NULL, watch, counter);
	if (err)
		close(counter->end_fd);
	return -err;
}

void syscall_counter_stop(struct syscall_counter *counter)
{
	eventfd_write(counter->end_fd, 1);
	pthread_join(counter->watcher, NULL);
	close(counter->end_fd);
	if (atomic_load(&counter->listener) >= 0)
		close(atomic_load(&counter->listener));
}

int syscall_counter_enter(struct syscall_counter *counter)
{
	struct sock_filter ask[] = { BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF) };
	struct sock_fprog filter = { .len = 1, .filter = ask };
	long fd;

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		return -errno;
	fd = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &filter);
	if (fd < 0)
		return -errno;
	atomic_store(&counter->listener, (int)fd);
	return 0;
}
