/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fork(): the child's handles are dead and can be freed, the parent's live on, and the child may make a
 * host of its own. The child says by its exit status which of its checks failed first.
 */
#include "flow.h"

#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <nvmfr/cmd.h>

enum {
	BLOCK = 512,
	READS = 16,
	CHILD_SECONDS = 10,
};

extern char **environ;

/* What both processes have. */
struct scene {
	struct flow f;
	struct nvmfr_buffer *buf, *registered;
	unsigned char *mem;
};

static void scene_up(struct scene *s, uint32_t soft_flags)
{
	struct nvmfr_soft_opts opts = flow_soft_opts();

	opts.flags = soft_flags;
	if (soft_flags)
		flow_up_thread(&s->f, &opts);
	else
		flow_up(&s->f, &opts);
	s->buf = flow_alloc(&s->f, READS * BLOCK);
	s->mem = malloc(4096);
	s->registered = flow_buffer(&s->f, s->mem, 4096);
}

static void scene_down(struct scene *s)
{
	flow_release(s->buf);
	flow_release(s->registered);
	free(s->mem);
	flow_down(&s->f);
}

/* 0: all of the child's checks held; else the number of the first that did not. */
static int in_child(struct scene *s, int (*check)(struct scene *s))
{
	int status = 0;
	pid_t pid = fork();

	if (pid == 0) {
		alarm(CHILD_SECONDS); /* a lock that nobody will open again */
		_exit(check(s));
	}
	cr_assert_gt(pid, 0);
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_assert(WIFEXITED(status), "the child died: status %x", (unsigned int)status);
	return WEXITSTATUS(status);
}

/* ---- dead handles ---------------------------------------------------------------------------- */

static int queue_pair_is_dead(struct scene *s)
{
	struct nvmfr_qpair_info info = { .size = sizeof(info) };
	struct nvmfr_cmd cmd = { .opcode = OPC_FLUSH, .nsid = 1 };
	const struct nvmfr_range range = { 0, 1 };
	struct nvmfr_qpair *qp = s->f.qp;
	struct nvmfr_completion done;
	struct nvmfr_io io = flow_io(&s->f, NVMFR_OP_READ, 0, 1, s->buf, 0);
	const int answers[] = {
		nvmfr_poll(qp, &done, 1),
		nvmfr_wait(qp, &done, 1, 1, 0),
		nvmfr_wait(qp, &done, 1, 1, -1),
		nvmfr_read(qp, s->f.nsid, 0, 1, s->buf, 0, 0),
		nvmfr_write(qp, s->f.nsid, 0, 1, s->buf, 0, 0),
		nvmfr_submit(qp, &io, 1),
		nvmfr_submit_cmd(qp, &cmd, NULL, 0, 0, 0),
		nvmfr_deallocate(qp, s->f.nsid, &range, 1, s->buf, 0, 0),
		nvmfr_copy(qp, s->f.nsid, 1, &range, 1, s->buf, 0, 0),
		nvmfr_pread(qp, s->f.nsid, 1, s->buf, 0, 1, 0),
		nvmfr_qpair_wait(qp, 0),
		nvmfr_qpair_info(qp, &info),
		nvmfr_qpair_fd(qp),
		nvmfr_qpair_arm(qp),
	};

	for (int i = 0; i < (int)ARRAY_SIZE(answers); i++)
		if (answers[i] != -EOWNERDEAD)
			return 1 + i;
	return strstr(nvmfr_last_error(), "fork") ? 0 : 100;
}

static int controller_is_dead(struct scene *s)
{
	struct nvmfr_ctrl_info info = { .size = sizeof(info) };
	struct nvmfr_ns_info ns = { .size = sizeof(ns) };
	struct nvmfr_cmd cmd = { .opcode = 0x0a, .cdw10 = 0x0f }; /* Get Features, Keep Alive Timer */
	struct nvmfr_ctrl *ctrl = s->f.ctrl, *other;
	unsigned char page[64];
	struct nvmfr_qpair *qp;
	const int answers[] = {
		nvmfr_ctrl_wait(ctrl, 0),
		nvmfr_ctrl_wait(ctrl, -1),
		nvmfr_ctrl_state(ctrl),
		nvmfr_ctrl_info(ctrl, &info),
		nvmfr_ns_info(ctrl, 1, &ns),
		nvmfr_qpair_create(ctrl, NULL, &qp),
		nvmfr_connect(s->f.host, &s->f.opts, &other),
		nvmfr_admin(ctrl, &cmd, NULL, 0, NULL, NULL),
		nvmfr_get_log(ctrl, NVMFR_LOG_PAGE_ERROR, 0, 0, 0, page, sizeof(page)),
		nvmfr_get_feature(ctrl, 0x0f, 0, 0, 0, NULL, 0, NULL),
	};

	for (int i = 0; i < (int)ARRAY_SIZE(answers); i++)
		if (answers[i] != -EOWNERDEAD)
			return 1 + i;
	return nvmfr_ns_next(ctrl, 0) ? 99 : 0;
}

static int host_is_dead(struct scene *s)
{
	struct nvmfr_soft_target *target;
	struct nvmfr_host *host = s->f.host;
	struct nvmfr_buffer *buf;
	const int answers[] = {
		nvmfr_host_poll(host),
		nvmfr_host_fd(host),
		nvmfr_host_timeout_ms(host),
		nvmfr_buffer_alloc(host, 4096, -1, &buf),
		nvmfr_buffer_register(host, s->mem, 4096, NVMFR_ACCESS_BOTH, &buf),
		nvmfr_buffer_register_dmabuf(host, 0, 0, 4096, NVMFR_ACCESS_BOTH, &buf),
		nvmfr_soft_target_create(host, "child", NULL, &target),
		nvmfr_soft_clock_freeze(host),
		nvmfr_soft_clock_advance_us(host, 1),
	};

	for (int i = 0; i < (int)ARRAY_SIZE(answers); i++)
		if (answers[i] != -EOWNERDEAD)
			return 1 + i;
	return 0;
}

static int target_is_dead(struct scene *s)
{
	struct nvmfr_soft_fault fault =
		flow_fault(NVMFR_SOFT_FAULT_STATUS, 1, 2, NVMFR_SOFT_ANY, 0);
	struct nvmfr_soft_counters counters = { .size = sizeof(counters) };
	struct nvmfr_soft_target *target = s->f.target;
	const int answers[] = {
		nvmfr_soft_ns_add(target, NULL),
		nvmfr_soft_ns_remove(target, 1),
		nvmfr_soft_fault_add(target, &fault),
		nvmfr_soft_patch_identify(target, 0, 1, 0, "", 1),
		nvmfr_soft_read_counters(target, &counters),
	};

	/* These have nothing to say, and must not touch the parent's connections. */
	nvmfr_soft_drop(target);
	nvmfr_soft_fault_clear(target);
	for (int i = 0; i < (int)ARRAY_SIZE(answers); i++)
		if (answers[i] != -EOWNERDEAD)
			return 1 + i;
	return 0;
}

static void dead_in_child(uint32_t soft_flags, int (*check)(struct scene *s))
{
	struct nvmfr_completion done[READS];
	struct scene s;

	scene_up(&s, soft_flags);
	flow_reads(&s.f, s.buf, READS);
	cr_expect_eq(in_child(&s, check), 0, "see the list of answers");
	flow_wait(s.f.qp, done, READS);
	for (unsigned int i = 0; i < READS; i++)
		cr_expect_eq(done[i].result, 0);
	flow_works(&s.f);
	scene_down(&s);
}

#define DEAD_TESTS(Check) \
	Test(fork, Check, .timeout = 20) \
	{ \
		dead_in_child(0, Check); \
	} \
	Test(fork, Check##_with_threads, .timeout = 20) \
	{ \
		dead_in_child(NVMFR_SOFT_THREAD, Check); \
	}

DEAD_TESTS(queue_pair_is_dead)
DEAD_TESTS(controller_is_dead)
DEAD_TESTS(host_is_dead)
DEAD_TESTS(target_is_dead)

/* ---- freeing --------------------------------------------------------------------------------- */

static int frees_all(struct scene *s)
{
	nvmfr_qpair_destroy(s->f.qp);
	if (nvmfr_buffer_release(s->buf))
		return 1;
	if (nvmfr_buffer_release(s->registered))
		return 2;
	if (nvmfr_disconnect(s->f.ctrl, 1000))
		return 3;
	nvmfr_soft_target_destroy(s->f.target);
	nvmfr_host_destroy(s->f.host);
	s->mem[0] = 1; /* the caller's memory is the caller's still */
	return 0;
}

static int frees_the_host_first(struct scene *s)
{
	nvmfr_host_destroy(s->f.host);
	return 0;
}

static int polls_a_queue_pair_that_connects(struct scene *s)
{
	struct nvmfr_completion done;
	struct nvmfr_qpair *qp = s->f.qp;

	return nvmfr_poll(qp, &done, 1) == -EOWNERDEAD ? 0 : 1;
}

Test(fork, child_frees_all, .timeout = 20)
{
	dead_in_child(0, frees_all);
}

Test(fork, child_frees_all_with_threads, .timeout = 20)
{
	dead_in_child(NVMFR_SOFT_THREAD, frees_all);
}

Test(fork, child_frees_the_host_alone, .timeout = 20)
{
	dead_in_child(0, frees_the_host_first);
}

Test(fork, queue_pair_that_still_connects_is_dead, .timeout = 20)
{
	struct nvmfr_qpair *live;
	struct scene s;

	scene_up(&s, 0);
	live = s.f.qp;
	cr_assert_eq(nvmfr_qpair_create(s.f.ctrl, NULL, &s.f.qp), 0);
	cr_expect_eq(in_child(&s, polls_a_queue_pair_that_connects), 0);
	cr_expect_eq(nvmfr_qpair_wait(s.f.qp, -1), 0);
	nvmfr_qpair_destroy(live);
	scene_down(&s);
}

static struct nvmfr_mpath *paths;
static struct nvmfr_mqpair *path_user;

static int frees_the_controller_before_its_paths(struct scene *s)
{
	if (nvmfr_mpath_dump(paths, NULL, 0) != -EOWNERDEAD)
		return 3;
	if (nvmfr_disconnect(s->f.ctrl, 0))
		return 1;
	nvmfr_mqpair_destroy(path_user);
	return nvmfr_mpath_destroy(paths) ? 2 : 0;
}

Test(fork, child_frees_paths_in_any_order, .timeout = 20)
{
	struct scene s;

	scene_up(&s, 0);
	cr_assert_eq(nvmfr_mpath_create(s.f.host, NULL, &paths), 0);
	cr_assert_eq(nvmfr_mpath_add(paths, s.f.ctrl), 0, "%s", nvmfr_last_error());
	cr_assert_eq(nvmfr_mqpair_create(paths, NULL, &path_user), 0, "%s", nvmfr_last_error());
	cr_expect_eq(in_child(&s, frees_the_controller_before_its_paths), 0);
	nvmfr_mqpair_destroy(path_user);
	cr_expect_eq(nvmfr_mpath_destroy(paths), 0, "%s", nvmfr_last_error());
	scene_down(&s);
}

/* ---- a life of its own ----------------------------------------------------------------------- */

/* No cr_ macros: what fails in the child must end in its exit status. */
static int own_association(struct nvmfr_host *host, struct nvmfr_soft_target *target)
{
	struct nvmfr_completion done = { .result = 0 };
	struct nvmfr_ctrl_opts opts;
	struct nvmfr_buffer *buf;
	struct nvmfr_ctrl *ctrl;
	struct nvmfr_qpair *qp;

	nvmfr_ctrl_opts_init(&opts, sizeof(opts));
	opts.uri = "nvmf+soft://t";
	if (nvmfr_soft_ns_add(target, NULL) != 1)
		return 11;
	if (nvmfr_connect(host, &opts, &ctrl) || nvmfr_ctrl_wait(ctrl, -1))
		return 12;
	if (nvmfr_qpair_create(ctrl, NULL, &qp) || nvmfr_qpair_wait(qp, -1))
		return 13;
	if (nvmfr_buffer_alloc(host, 4096, -1, &buf) || nvmfr_read(qp, 1, 0, 1, buf, 0, 0))
		return 14;
	if (nvmfr_wait(qp, &done, 1, 1, 10000) != 1 || done.result)
		return 15;
	nvmfr_qpair_destroy(qp);
	return nvmfr_buffer_release(buf) || nvmfr_disconnect(ctrl, 1000) ? 16 : 0;
}

static int lives(struct scene *s)
{
	struct nvmfr_soft_target *target;
	struct nvmfr_host_opts opts;
	struct nvmfr_host *host;
	int failed;

	(void)s;
	/* Manual: ThreadSanitizer lets no threads start behind a fork of a process that has some. */
	nvmfr_host_opts_init(&opts, sizeof(opts));
	opts.flags = NVMFR_HOST_MANUAL;
	if (nvmfr_host_create(&opts, &host))
		return 1;
	if (nvmfr_soft_target_create(host, "t", NULL, &target))
		return 2;
	failed = own_association(host, target);
	nvmfr_soft_target_destroy(target);
	nvmfr_host_destroy(host);
	return failed;
}

static int frees_all_and_lives(struct scene *s)
{
	int failed = frees_all(s);

	return failed ? failed : lives(s);
}

Test(fork, child_makes_a_host_of_its_own, .timeout = 20)
{
	dead_in_child(0, lives);
}

Test(fork, child_makes_a_host_of_its_own_with_threads, .timeout = 20)
{
	dead_in_child(NVMFR_SOFT_THREAD, lives);
}

Test(fork, child_frees_all_and_makes_a_host_of_its_own, .timeout = 20)
{
	dead_in_child(0, frees_all_and_lives);
}

static int forks_again(struct scene *s)
{
	int failed = queue_pair_is_dead(s);
	int status = 0;
	pid_t pid;

	if (failed)
		return failed;
	pid = fork();
	if (pid == 0)
		_exit(queue_pair_is_dead(s));
	return pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status)
									       : 98;
}

Test(fork, grandchild, .timeout = 20)
{
	dead_in_child(0, forks_again);
}

Test(fork, other_program_is_started_meanwhile, .timeout = 20)
{
	char name[] = "true", *argv[] = { name, NULL };
	struct nvmfr_completion done[READS];
	struct scene s;
	int status = 1;
	pid_t pid;

	scene_up(&s, 0);
	flow_reads(&s.f, s.buf, READS);
	cr_assert_eq(posix_spawnp(&pid, name, NULL, NULL, argv, environ), 0);
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_expect_eq(status, 0);
	flow_wait(s.f.qp, done, READS);
	flow_works(&s.f);
	scene_down(&s);
}

/* The parent forks again and again under I/O. */
static int leaves(struct scene *s)
{
	(void)s;
	return 0;
}

Test(fork, parent_goes_on_through_many_forks, .timeout = 60)
{
	struct nvmfr_completion done[READS];
	struct scene s;

	scene_up(&s, NVMFR_SOFT_THREAD);
	for (unsigned int i = 0; i < 30; i++) {
		flow_reads(&s.f, s.buf, READS);
		cr_expect_eq(in_child(&s, leaves), 0);
		flow_wait(s.f.qp, done, READS);
	}
	flow_works(&s.f);
	scene_down(&s);
}
