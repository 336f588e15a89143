/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A device that is pulled under load and comes back, over the stand-in, by the public API. Needs what
 * check_group.c needs. The stand-in closes a removed device's context when somebody looks for devices and
 * no id is on it, as librdmacm does, and ends the program if anything made with it is left when the last id goes.
 */
#include "testing.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <nvmfr/nvmfr.h>

#define URI "nvmf+rdma://127.0.0.1/nqn.2026-01.null:nullnic"

enum { BLOCK = 512,
       WORDS = BLOCK / 8,
       DEPTH = 8,
       QPAIRS = 3,
       PLACES = QPAIRS * DEPTH,
       REMOVALS = 20 }; /* a host has 8 places for devices */

/* A thread that polls, and what it polls: queue pairs of a group, or one on its own. */
struct worker {
	pthread_t thread;
	struct nvmfr_group *group;
	struct nvmfr_qpair *qps[QPAIRS];
	unsigned int n;
	struct nvmfr_buffer *buf;
	unsigned char *mem;
	uint64_t lbas[PLACES], turn;
	bool busy[PLACES];
	_Atomic unsigned int good, aborted, refused; /* I/Os */
	_Atomic bool stop;
};

struct rig {
	struct nvmfr_host *host;
	struct nvmfr_ctrl *ctrl;
	struct worker workers[2];
};

static void (*pull)(bool quiet);
static void (*plug)(void);
static int (*pulled)(void);
static _Atomic unsigned int no_source; /* attempts that ended for want of the source address */

static void must(int err, const char *what)
{
	cr_assert_geq(err, 0, "%s: %s (%s)", what, nvmfr_last_error(), nvmfr_strerror(err));
}

static void listen_to(void *arg, enum nvmfr_log_level level, const char *message)
{
	(void)arg;
	(void)level;
	if (strstr(message, "source address is not an address of an RDMA device"))
		atomic_fetch_add(&no_source, 1);
}

/* ---- the load --------------------------------------------------------------------------------- */

static uint64_t word_at(uint64_t word)
{
	return word / WORDS * UINT64_C(0x9e3779b97f4a7c15) + word;
}

/* Refused while the queue pair is being made anew. */
static void start_io(struct worker *w, unsigned int place)
{
	uint64_t turn = w->turn++;
	struct nvmfr_io io = { .op = turn % 3 ? NVMFR_OP_READ : NVMFR_OP_WRITE,
			       .nsid = 1,
			       .lba = (turn * 7919 + place * 31u) % (1 << 20),
			       .nblocks = 1,
			       .buf = w->buf,
			       .offset_bytes = (uint64_t)place * BLOCK,
			       .user_data = place };
	int got;

	w->lbas[place] = io.lba;
	for (uint64_t i = 0; i < WORDS; i++) {
		uint64_t word = io.op == NVMFR_OP_WRITE ? word_at(io.lba * WORDS + i) : 0;

		memcpy(w->mem + io.offset_bytes + i * 8, &word, sizeof(word));
	}
	got = nvmfr_submit(w->qps[place / DEPTH], &io, 1);
	cr_assert(got == 1 || got == -EAGAIN, "%d: %s", got, nvmfr_last_error());
	w->busy[place] = got == 1;
	if (got != 1)
		atomic_fetch_add(&w->refused, 1);
}

static void end_io(struct worker *w, const struct nvmfr_completion *done)
{
	uint64_t place = done->user_data;

	cr_assert(place < PLACES && w->busy[place], "%llu ended twice", (unsigned long long)place);
	w->busy[place] = false;
	if (done->result == -ECONNABORTED) {
		atomic_fetch_add(&w->aborted, 1);
		return;
	}
	cr_assert_eq(done->result, 0, "result %d, status 0x%x", done->result, done->status);
	for (uint64_t i = 0; i < WORDS; i++) {
		uint64_t word;

		memcpy(&word, w->mem + place * BLOCK + i * 8, sizeof(word));
		cr_assert_eq(word, word_at(w->lbas[place] * WORDS + i), "LBA %llu",
			     (unsigned long long)w->lbas[place]);
	}
	atomic_fetch_add(&w->good, 1);
}

/* Sleeps now and then: a sleeper must hear of the end, too. */
static void pass(struct worker *w, bool load)
{
	struct nvmfr_completion done[PLACES];
	bool sleeps = load && w->turn % 5 == 0;
	int got;

	for (unsigned int place = 0; load && place < w->n * DEPTH; place++)
		if (!w->busy[place])
			start_io(w, place);
	if (w->group)
		got = sleeps ? nvmfr_group_wait(w->group, done, 1, PLACES, 5)
			     : nvmfr_group_poll(w->group, done, PLACES);
	else
		got = sleeps ? nvmfr_wait(w->qps[0], done, 1, PLACES, 5)
			     : nvmfr_poll(w->qps[0], done, PLACES);
	cr_assert(got >= 0, "poll: %d: %s", got, nvmfr_last_error());
	for (int k = 0; k < got; k++)
		end_io(w, &done[k]);
}

static bool idle(const struct worker *w)
{
	for (unsigned int place = 0; place < PLACES; place++)
		if (w->busy[place])
			return false;
	return true;
}

static void *work(void *arg)
{
	struct worker *w = arg;

	while (!atomic_load(&w->stop))
		pass(w, true);
	while (!idle(w))
		pass(w, false);
	return NULL;
}

/* ---- association ------------------------------------------------------------------------------ */

static void attach(struct rig *rig, struct worker *w)
{
	struct nvmfr_qpair_opts opts;

	nvmfr_qpair_opts_init(&opts, sizeof(opts));
	opts.depth = DEPTH;
	opts.group = w->group;
	for (unsigned int i = 0; i < w->n; i++) {
		must(nvmfr_qpair_create(rig->ctrl, &opts, &w->qps[i]), "queue pair");
		must(nvmfr_qpair_wait(w->qps[i], -1), "queue pair");
	}
}

static void worker_up(struct rig *rig, struct worker *w, unsigned int n, bool grouped)
{
	struct nvmfr_group_opts gopts;

	w->n = n;
	nvmfr_group_opts_init(&gopts, sizeof(gopts));
	if (grouped)
		must(nvmfr_group_create(rig->host, &gopts, &w->group), "group");
	attach(rig, w);
	must(nvmfr_buffer_alloc(rig->host, (size_t)PLACES * BLOCK, -1, &w->buf), "buffer");
	w->mem = nvmfr_buffer_addr(w->buf);
}

static void connect_to(struct rig *rig, uint32_t loss_ms)
{
	struct nvmfr_ctrl_opts opts;

	nvmfr_ctrl_opts_init(&opts, sizeof(opts));
	opts.uri = URI;
	opts.host_traddr = "127.0.0.1";
	opts.ctrl_loss_timeout_ms = loss_ms;
	opts.reconnect_delay_ms = 5;
	must(nvmfr_connect(rig->host, &opts, &rig->ctrl), "connect");
}

static void rig_up(struct rig *rig, uint32_t flags, uint32_t loss_ms)
{
	struct nvmfr_host_opts hopts;

	*(void **)&pull = dlsym(RTLD_DEFAULT, "nullnic_remove");
	*(void **)&plug = dlsym(RTLD_DEFAULT, "nullnic_insert");
	*(void **)&pulled = dlsym(RTLD_DEFAULT, "nullnic_pulled");
	cr_assert(pull && plug && pulled, "not on the stand-in: set LD_LIBRARY_PATH");
	*rig = (struct rig){ 0 };
	nvmfr_host_opts_init(&hopts, sizeof(hopts));
	hopts.flags = flags;
	hopts.log_fn = listen_to;
	must(nvmfr_host_create(&hopts, &rig->host), "host");
	connect_to(rig, loss_ms);
	must(nvmfr_ctrl_wait(rig->ctrl, -1), "connect");
	worker_up(rig, &rig->workers[0], 1, false);
	worker_up(rig, &rig->workers[1], QPAIRS, true);
}

static void rig_down(struct rig *rig)
{
	for (unsigned int k = 0; k < 2; k++) {
		struct worker *w = &rig->workers[k];

		for (unsigned int i = 0; i < w->n; i++)
			nvmfr_qpair_destroy(w->qps[i]);
		if (w->group)
			must(nvmfr_group_destroy(w->group), "group");
		must(nvmfr_buffer_release(w->buf), "release");
	}
	must(nvmfr_disconnect(rig->ctrl, 1000), "disconnect");
	nvmfr_host_destroy(rig->host);
}

/* Until every worker's counter is beyond so many; a manual host and its workers are driven meanwhile. */
static void until(struct rig *rig, bool manual, size_t counter, const unsigned int *before,
		  unsigned int more)
{
	bool reached = false;

	while (!reached) {
		reached = true;
		for (unsigned int k = 0; k < 2; k++) {
			struct worker *w = &rig->workers[k];
			_Atomic unsigned int *at = (_Atomic unsigned int *)((char *)w + counter);

			if (manual)
				pass(w, true);
			reached = reached && atomic_load(at) - before[k] >= more;
		}
		if (manual)
			must(nvmfr_host_poll(rig->host), "host");
		else
			usleep(500);
	}
}

#define BEYOND(rig, manual, counter, more) \
	do { \
		unsigned int before_[2] = { atomic_load(&(rig)->workers[0].counter), \
					    atomic_load(&(rig)->workers[1].counter) }; \
		until(rig, manual, offsetof(struct worker, counter), before_, more); \
	} while (0)

static void remove_often(struct rig *rig, bool manual)
{
	struct nvmfr_buffer *kept = NULL, *late;

	for (unsigned int turn = 0; turn < REMOVALS; turn++) {
		unsigned int attempts = atomic_load(&no_source);

		BEYOND(rig, manual, good, 50);
		pull(turn % 2);
		BEYOND(rig, manual, refused, 1);
		/* without a device there is nothing to register on, and nothing wrong with that */
		must(nvmfr_buffer_alloc(rig->host, BLOCK, -1, &late), "buffer");
		must(nvmfr_buffer_release(kept), "release");
		kept = late;
		/* a driver may not let its device go, nor come back, before everybody has left it */
		while (atomic_load(&no_source) == attempts || pulled())
			until(rig, manual, offsetof(struct worker, good), (unsigned int[2]){ 0 }, 0);
		plug();
		BEYOND(rig, manual, good, 200);
	}
	must(nvmfr_buffer_release(kept), "release");
	cr_expect(rig->workers[0].aborted && rig->workers[1].aborted, "none was in flight");
}

static unsigned int open_descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	unsigned int n = 0;

	cr_assert_not_null(dir);
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

Test(removal, twenty_under_load)
{
	unsigned int before = open_descriptors();
	struct rig rig;

	rig_up(&rig, 0, UINT32_MAX);
	for (unsigned int k = 0; k < 2; k++)
		cr_assert_eq(pthread_create(&rig.workers[k].thread, NULL, work, &rig.workers[k]), 0);
	remove_often(&rig, false);
	for (unsigned int k = 0; k < 2; k++) {
		atomic_store(&rig.workers[k].stop, true);
		pthread_join(rig.workers[k].thread, NULL);
	}
	rig_down(&rig);
	cr_expect_leq(open_descriptors(), before + 4);
}

Test(removal, manual_host)
{
	struct rig rig;

	rig_up(&rig, NVMFR_HOST_MANUAL, UINT32_MAX);
	remove_often(&rig, true);
	for (unsigned int k = 0; k < 2; k++)
		while (!idle(&rig.workers[k]))
			pass(&rig.workers[k], false);
	rig_down(&rig);
}

/* A group whose owner polls its members one by one: the device is left all the same, while they are recovered. */
Test(removal, a_group_s_members_polled_one_by_one)
{
	struct nvmfr_completion done[PLACES];
	struct worker *w;
	struct rig rig;

	rig_up(&rig, NVMFR_HOST_MANUAL, UINT32_MAX);
	w = &rig.workers[1];
	BEYOND(&rig, true, good, 50);
	pull(false);
	for (unsigned int turn = 0; turn < 2000 && pulled(); turn++) {
		pass(&rig.workers[0], false);
		for (unsigned int i = 0; i < w->n; i++) {
			int got = nvmfr_poll(w->qps[i], done, PLACES);

			must(got, "poll");
			for (int k = 0; k < got; k++)
				end_io(w, &done[k]);
		}
		must(nvmfr_host_poll(rig.host), "host");
		usleep(100);
	}
	cr_expect(!pulled(), "somebody has it still");
	while (pulled())
		until(&rig, true, offsetof(struct worker, good), (unsigned int[2]){ 0 }, 0);
	plug();
	BEYOND(&rig, true, good, 50);
	for (unsigned int k = 0; k < 2; k++)
		while (!idle(&rig.workers[k]))
			pass(&rig.workers[k], false);
	rig_down(&rig);
}

/* ---- without a recovery ----------------------------------------------------------------------- */

/* Once it is lost for good what was in flight is told, each once; then the queue pairs can go. */
static void lose(struct worker *w)
{
	struct nvmfr_completion done[PLACES];
	int got = 0;

	while (got >= 0) {
		got = w->group ? nvmfr_group_poll(w->group, done, PLACES) : nvmfr_poll(w->qps[0], done, PLACES);
		for (int k = 0; k < got; k++)
			end_io(w, &done[k]);
		if (w->group && idle(w))
			break;
	}
	cr_expect(idle(w), "not all was told");
	for (unsigned int i = 0; i < w->n; i++) {
		cr_expect_eq(nvmfr_qpair_wait(w->qps[i], 0), -ENOTCONN);
		nvmfr_qpair_destroy(w->qps[i]);
		w->qps[i] = NULL;
	}
}

/* All I/O fails, the association is over; while there is no device a connect fails, and when it is back it works. */
Test(removal, connected_anew_by_hand)
{
	struct nvmfr_completion done;
	struct rig rig;

	rig_up(&rig, NVMFR_HOST_MANUAL, 0);
	for (unsigned int turn = 0; turn < REMOVALS; turn++) {
		BEYOND(&rig, true, good, 50);
		for (unsigned int k = 0; k < 2; k++)
			for (unsigned int place = 0; place < rig.workers[k].n * DEPTH; place++)
				if (!rig.workers[k].busy[place])
					start_io(&rig.workers[k], place);
		pull(turn % 2);
		while (nvmfr_ctrl_state(rig.ctrl) == NVMFR_STATE_LIVE)
			must(nvmfr_host_poll(rig.host), "host");
		for (unsigned int k = 0; k < 2; k++)
			lose(&rig.workers[k]);
		must(nvmfr_disconnect(rig.ctrl, 1000), "disconnect");
		/* The device is left by everybody, by a group when it is polled. */
		while (pulled()) {
			must(nvmfr_group_poll(rig.workers[1].group, &done, 1), "group");
			must(nvmfr_host_poll(rig.host), "host");
		}
		connect_to(&rig, 0);
		cr_expect_lt(nvmfr_ctrl_wait(rig.ctrl, -1), 0);
		must(nvmfr_disconnect(rig.ctrl, 1000), "disconnect");
		plug();
		connect_to(&rig, 0);
		must(nvmfr_ctrl_wait(rig.ctrl, -1), "connect");
		for (unsigned int k = 0; k < 2; k++)
			attach(&rig, &rig.workers[k]);
	}
	BEYOND(&rig, true, good, 50);
	cr_expect(rig.workers[0].aborted >= REMOVALS && rig.workers[1].aborted >= REMOVALS, "none was in flight");
	for (unsigned int k = 0; k < 2; k++)
		while (!idle(&rig.workers[k]))
			pass(&rig.workers[k], false);
	rig_down(&rig);
}
