/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Verified load that goes on while somebody breaks things. Standard input has orders, a letter each:
 *	f	a fault comes now: times are counted from here
 *	v	as soon as I/O moves tells the times; then ends what is in flight, reads back everything, and
 *		tells "verified" when all is well
 *	e	ends. So does the end of the input
 * Events are told as they come.
 */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "vmcheck.h"

uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void endure_moved(struct session *s)
{
	uint64_t now;

	pthread_mutex_lock(&s->lock);
	now = now_ns();
	if (now - s->last_ns > s->stall_ns) {
		s->stall_ns = now - s->last_ns;
		s->stall_end_ns = now;
	}
	if (s->live_ns && !s->again_ns)
		s->again_ns = now;
	s->last_ns = now;
	pthread_mutex_unlock(&s->lock);
}

int endure(struct worker *w)
{
	struct session *s = w->session;
	int err = verify_open(w);

	while (!err && !atomic_load(&s->over)) {
		err = verify_round(w, UINT_MAX);
		w->rounds++;
		if (!err && atomic_fetch_add(&s->verified, 1) + 1 == s->threads * w->rounds)
			printf("verified\n");
	}
	return err ? err : worker_close(w);
}

/* ---- events -------------------------------------------------------------------------------------- */

static void tell_state(struct session *s, const struct nvmfr_event *e)
{
	struct nvmfr_ctrl_info info = { .size = sizeof(info) };

	if (e->value == NVMFR_STATE_RECOVERING)
		printf("event: recovering\n");
	else if (e->value == NVMFR_STATE_LIVE && nvmfr_ctrl_info(s->ctrl, &info) == 0) {
		pthread_mutex_lock(&s->lock);
		s->live_ns = now_ns();
		pthread_mutex_unlock(&s->lock);
		printf("event: live, %u queues\n", info.num_io_queues);
	} else
		printf("event: state %" PRIu64 ", result %d\n", e->value, e->result);
}

static void tell_namespace(const struct session *s, const struct nvmfr_event *e, const char *what)
{
	struct nvmfr_ns_info ns = { .size = sizeof(ns) };

	if (nvmfr_ns_info(s->ctrl, e->nsid, &ns))
		printf("event: namespace %u %s\n", e->nsid, what);
	else
		printf("event: namespace %u %s, value %" PRIu64 ", %" PRIu64 " blocks\n", e->nsid, what, e->value,
		       ns.capacity_blocks);
}

static void tell(struct session *s, const struct nvmfr_event *e)
{
	if (e->type == NVMFR_EVENT_STATE)
		tell_state(s, e);
	else if (e->type == NVMFR_EVENT_NS_ADDED)
		tell_namespace(s, e, "added");
	else if (e->type == NVMFR_EVENT_NS_REMOVED)
		tell_namespace(s, e, "removed");
	else if (e->type == NVMFR_EVENT_NS_CHANGED)
		tell_namespace(s, e, "changed");
	else
		printf("event: type %u, value %" PRIu64 "\n", e->type, e->value);
}

static void tell_all(struct session *s)
{
	struct nvmfr_event events[8];
	int n;

	while ((n = nvmfr_host_events(s->host, events, 8)) > 0)
		for (int i = 0; i < n; i++)
			tell(s, &events[i]);
}

/* ---- orders -------------------------------------------------------------------------------------- */

static void begin_fault(struct session *s)
{
	pthread_mutex_lock(&s->lock);
	s->fault_ns = s->last_ns = now_ns();
	s->stall_ns = s->live_ns = s->again_ns = 0;
	pthread_mutex_unlock(&s->lock);
	printf("fault\n");
}

static double seconds(const struct session *s, uint64_t at_ns)
{
	return (double)(at_ns - s->fault_ns) / 1e9;
}

/* True: I/O has moved since it was asked for, and the workers know. */
static bool begin_verification(struct session *s, uint64_t asked_ns)
{
	bool moves;

	pthread_mutex_lock(&s->lock);
	moves = s->last_ns > asked_ns;
	/* Of a loss the longest pause says nothing: a thread may wait for its writes in doubt. */
	if (moves && s->fault_ns && s->again_ns)
		printf("first I/O again %.3f s after the fault, live after %.3f s\n", seconds(s, s->again_ns),
		       seconds(s, s->live_ns));
	else if (moves && s->fault_ns)
		printf("never lost; longest pause %.3f s, I/O again %.3f s after the fault\n",
		       (double)s->stall_ns / 1e9, seconds(s, s->stall_end_ns));
	pthread_mutex_unlock(&s->lock);
	if (moves)
		atomic_fetch_add(&s->rounds, 1);
	return moves;
}

int endure_orders(struct session *s)
{
	struct pollfd fds[2] = { { .fd = STDIN_FILENO, .events = POLLIN },
				 { .fd = nvmfr_host_event_fd(s->host), .events = POLLIN } };
	uint64_t asked_ns = 0;
	char order;

	while (!atomic_load(&s->over)) {
		if (poll(fds, 2, 100) < 0 && errno != EINTR)
			return fail(-errno, "poll");
		tell_all(s);
		if (asked_ns && begin_verification(s, asked_ns))
			asked_ns = 0;
		if (!fds[0].revents)
			continue;
		if (read(STDIN_FILENO, &order, 1) != 1 || order == 'e')
			atomic_store(&s->over, true);
		else if (order == 'f')
			begin_fault(s);
		else if (order == 'v')
			asked_ns = now_ns();
	}
	atomic_fetch_add(&s->rounds, 1);
	return 0;
}
