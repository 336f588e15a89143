/* SPDX-License-Identifier: BSD-3-Clause */
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

#include "forbid.h"

#if defined(__x86_64__)
#define THIS_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define THIS_ARCH AUDIT_ARCH_AARCH64
#endif

#ifdef THIS_ARCH
#define LOAD(Field)		 BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, Field))
#define IF_EQUAL(Value, Yes, No) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (Value), (Yes), (No))

/* Left over: exit_group, and write to report_fd. Other threads (the service) go on as they are. */
static int forbid(int report_fd)
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

static void child(int report_fd, bool planted, void (*open)(void), int (*run)(void))
{
	const struct rlimit no_core = { 0, 0 };
	int finished = 0;

	setrlimit(RLIMIT_CORE, &no_core);
	open();
	if (forbid(report_fd))
		_exit(FORBID_SKIPPED);
	if (!run()) {
		if (planted)
			syscall(__NR_getpid);
		finished = !run();
	}
	_exit(write(report_fd, &finished, sizeof(finished)) == sizeof(finished) ? 0 : 1);
}

/* The child's wait status, and whether it finished. */
static int run_child(bool planted, void (*open)(void), int (*run)(void), int *finished)
{
	int fds[2], status = 0;
	pid_t pid;

	*finished = 0;
	if (pipe(fds) || (pid = fork()) < 0) {
		perror("pipe and fork");
		exit(EXIT_FAILURE);
	}
	if (!pid)
		child(fds[1], planted, open, run);
	close(fds[1]);
	if (read(fds[0], finished, sizeof(*finished)) != sizeof(*finished))
		*finished = 0;
	close(fds[0]);
	waitpid(pid, &status, 0);
	return status;
}

int nvmfr__forbid_system_calls(void (*open)(void), int (*run)(void))
{
	int clean_finished, planted_finished;
	int clean = run_child(false, open, run, &clean_finished);
	int planted;

	if (WIFEXITED(clean) && WEXITSTATUS(clean) == FORBID_SKIPPED) {
		puts("skipped: this kernel refuses a seccomp filter");
		return FORBID_SKIPPED;
	}
	planted = run_child(true, open, run, &planted_finished);
	if (WIFSIGNALED(clean))
		printf("ended by signal %d%s\n", WTERMSIG(clean),
		       WTERMSIG(clean) == SIGSYS ? ": there was a system call" : "");
	printf("%s without a system call\n", clean_finished ? "finished" : "not finished");
	printf("with a planted one: %s\n",
	       WIFSIGNALED(planted) ? strsignal(WTERMSIG(planted)) : "it lived");
	if (clean != 0 || !clean_finished)
		return EXIT_FAILURE;
	return WIFSIGNALED(planted) && WTERMSIG(planted) == SIGSYS ? EXIT_SUCCESS : EXIT_FAILURE;
}
#else
int nvmfr__forbid_system_calls(void (*open)(void), int (*run)(void))
{
	(void)open;
	(void)run;
	puts("skipped: no filter written for this architecture");
	return FORBID_SKIPPED;
}
#endif
