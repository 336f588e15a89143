/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * No system call between submit and completion. A child connects, puts a filter on its own thread
 * that ends the process at any system call, reads 100,000 times and writes the count to a pipe. The
 * same with one planted system call has to die, or this guard guards nothing.
 */
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "soft_io.h"

#if defined(__x86_64__)
#define THIS_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define THIS_ARCH AUDIT_ARCH_AARCH64
#endif

enum { READS = 100000, SKIPPED = 77 };

#ifdef THIS_ARCH
#define LOAD(Field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, Field))
#define IF_EQUAL(Value, Yes, No) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (Value), (Yes), (No))

/* Left over: exit_group, and write to report_fd. Other threads (the service) go on as they are. */
static int forbid_system_calls(int report_fd)
{
	struct sock_filter code[] = {
		LOAD(arch),
		IF_EQUAL(THIS_ARCH, 0, 6),
		LOAD(nr),
		IF_EQUAL(__NR_exit_group, 3, 0),
		IF_EQUAL(__NR_write, 0, 3),
		LOAD(args[0]),
		IF_EQUAL((unsigned int)report_fd, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
	};
	struct sock_fprog program = { .len = sizeof(code) / sizeof(code[0]), .filter = code };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		return -1;
	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

static void child(int report_fd, bool planted)
{
	const struct rlimit no_core = { 0, 0 };
	struct soft_io s;
	int count = 0;

	setrlimit(RLIMIT_CORE, &no_core);
	soft_io_open(&s);
	if (forbid_system_calls(report_fd))
		_exit(SKIPPED);
	if (!soft_io_run(&s, SOFT_READ, READS / 2)) {
		if (planted)
			syscall(__NR_getpid);
		if (!soft_io_run(&s, SOFT_READ, READS / 2))
			count = READS;
	}
	_exit(write(report_fd, &count, sizeof(count)) == sizeof(count) ? 0 : 1);
}

/* The child's wait status; its count, -1 when it told none. */
static int run_child(bool planted, int *count)
{
	int fds[2], status = 0;
	pid_t pid;

	*count = -1;
	if (pipe(fds) || (pid = fork()) < 0) {
		perror("pipe and fork");
		exit(EXIT_FAILURE);
	}
	if (!pid)
		child(fds[1], planted);
	close(fds[1]);
	if (read(fds[0], count, sizeof(*count)) != sizeof(*count))
		*count = -1;
	close(fds[0]);
	waitpid(pid, &status, 0);
	return status;
}

int main(void)
{
	int clean_count, planted_count;
	int clean = run_child(false, &clean_count);
	int planted;

	if (WIFEXITED(clean) && WEXITSTATUS(clean) == SKIPPED) {
		puts("skipped: this kernel refuses a seccomp filter");
		return SKIPPED;
	}
	planted = run_child(true, &planted_count);
	if (WIFSIGNALED(clean))
		printf("ended by signal %d%s\n", WTERMSIG(clean),
		       WTERMSIG(clean) == SIGSYS ? ": there was a system call" : "");
	printf("%d of %d reads without a system call\n", clean_count, READS);
	printf("with a planted one: %s\n",
	       WIFSIGNALED(planted) ? strsignal(WTERMSIG(planted)) : "it lived");
	if (clean != 0 || clean_count != READS)
		return EXIT_FAILURE;
	return WIFSIGNALED(planted) && WTERMSIG(planted) == SIGSYS ? EXIT_SUCCESS : EXIT_FAILURE;
}
#else
int main(void)
{
	puts("skipped: no filter written for this architecture");
	return SKIPPED;
}
#endif
