/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * soak [--faults N] [--seed S] [--verbose]: random faults under load from four threads, on the embedded target.
 *
 * Each command ends once, each read shows what was written, no memory is written after its completion, and
 * whatever happened, the load goes on. The seed is printed; it repeats the faults, not the threads' timing.
 */
#include "soak.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { STUCK_SECONDS = 60,
       MOST_WAITED_FOR = 64 };

struct soak {
	uint64_t faults, seed, random;
	bool verbose, let_it_expire;
	struct nvmfr_host *host;
	struct nvmfr_soft_target *target;
	struct nvmfr_ctrl *ctrl;
	struct worker workers[WORKERS];
	atomic_bool stop;
	uint64_t events, losses;
	char name[128]; /* of the last fault */
};

static void log_line(void *arg, enum nvmfr_log_level level, const char *msg)
{
	(void)arg;
	fprintf(stderr, "%d %s\n", (int)level, msg);
}

static uint64_t chance(struct soak *s, uint64_t below)
{
	return soak_below(&s->random, below);
}

/* ---- faults ---------------------------------------------------------------------------------- */

struct kind {
	const char *name;
	uint32_t kind;
	unsigned int weight;
	uint64_t value; /* 0: as it is; else up to so much */
};

/* Those that cost a timer are rare. */
static const struct kind kinds[] = {
	{ "status", NVMFR_SOFT_FAULT_STATUS, 20, 0 },
	{ "silence", NVMFR_SOFT_FAULT_SILENCE, 2, 0 },
	{ "delay", NVMFR_SOFT_FAULT_DELAY, 20, 20000 },
	{ "wrong CID", NVMFR_SOFT_FAULT_WRONG_CID, 10, 0xffff },
	{ "duplicate", NVMFR_SOFT_FAULT_DUPLICATE, 10, 0 },
	{ "early", NVMFR_SOFT_FAULT_EARLY, 20, 5000 },
	{ "short", NVMFR_SOFT_FAULT_SHORT, 10, 15 },
	{ "disconnect", NVMFR_SOFT_FAULT_DISCONNECT, 20, 0 },
	{ "disconnect all", NVMFR_SOFT_FAULT_DISCONNECT_ALL, 20, 0 },
	{ "QP error", NVMFR_SOFT_FAULT_QP_ERROR, 20, 0 },
	{ "CM reject", NVMFR_SOFT_FAULT_CM_REJECT, 10, 0 },
	{ "CM stale", NVMFR_SOFT_FAULT_CM_STALE, 10, 0 },
	{ "CM silence", NVMFR_SOFT_FAULT_CM_SILENCE, 1, 0 },
	{ "CM unreachable", NVMFR_SOFT_FAULT_CM_UNREACHABLE, 10, 0 },
	{ "CM disconnect", NVMFR_SOFT_FAULT_CM_DISCONNECT, 10, 0 },
};

static const struct kind *choose_kind(struct soak *s)
{
	unsigned int sum = 0, at;

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		sum += kinds[i].weight;
	at = (unsigned int)chance(s, sum);
	for (const struct kind *kind = kinds;; kind++) {
		if (at < kind->weight)
			return kind;
		at -= kind->weight;
	}
}

/* The CM's kinds need a connection to be made: the present ones are dropped. */
static bool plan(struct soak *s)
{
	const struct kind *kind = choose_kind(s);
	bool cm = kind->kind >= NVMFR_SOFT_FAULT_CM_REJECT;
	struct nvmfr_soft_fault fault;

	nvmfr_soft_fault_init(&fault, sizeof(fault));
	fault.kind = kind->kind;
	fault.qid = chance(s, 8) ? 1 + (uint32_t)chance(s, WORKERS) : cm ? 0
									 : NVMFR_SOFT_ANY;
	fault.skip = (uint32_t)chance(s, cm ? 1 : 40);
	fault.value = kind->value ? 1 + chance(s, kind->value) : 0;
	if (kind->kind == NVMFR_SOFT_FAULT_STATUS)
		fault.value = 0x0281; /* unrecovered read error */
	snprintf(s->name, sizeof(s->name), "%s, queue %" PRIu32 ", after %" PRIu32 ", value %" PRIu64, kind->name,
		 fault.qid, fault.skip, fault.value);
	if (nvmfr_soft_fault_add(s->target, &fault))
		return false;
	s->let_it_expire = kind->kind == NVMFR_SOFT_FAULT_SILENCE;
	if (cm)
		nvmfr_soft_drop(s->target);
	return true;
}

static bool change_namespace(struct soak *s)
{
	struct nvmfr_soft_ns_opts opts;
	int err = nvmfr_soft_ns_remove(s->target, FOREIGN_NSID);

	snprintf(s->name, sizeof(s->name), "namespace %s", err ? "added" : "removed");
	if (!err)
		return true;
	nvmfr_soft_ns_opts_init(&opts, sizeof(opts));
	opts.nsid = FOREIGN_NSID;
	opts.size_bytes = (4 + chance(s, 8)) * BLOCK;
	return nvmfr_soft_ns_add(s->target, &opts) == FOREIGN_NSID;
}

static bool inject(struct soak *s)
{
	switch (chance(s, 12)) {
	case 0:
		snprintf(s->name, sizeof(s->name), "drop");
		nvmfr_soft_drop(s->target);
		return true;
	case 1: return change_namespace(s);
	case 2:
		snprintf(s->name, sizeof(s->name), "event");
		return nvmfr_soft_notify(s->target, NVMFR_SOFT_NOTICE_HEALTH) == 0;
	default: return plan(s);
	}
}

/* ---- the load goes on ------------------------------------------------------------------------ */

static uint64_t sum(const struct soak *s, size_t offset)
{
	uint64_t all = 0;

	for (unsigned int i = 0; i < WORKERS; i++)
		all += atomic_load((const _Atomic uint64_t *)((const char *)&s->workers[i] + offset));
	return all;
}

#define SUM(s, field) sum(s, offsetof(struct worker, field))

static const char *failure(const struct soak *s)
{
	for (unsigned int i = 0; i < WORKERS; i++)
		if (atomic_load(&s->workers[i].failed))
			return s->workers[i].failure;
	return NULL;
}

static void take_events(struct soak *s)
{
	struct nvmfr_event events[32];
	int n;

	while ((n = nvmfr_host_events(s->host, events, 32)) > 0) {
		s->events += (uint64_t)n;
		for (int i = 0; i < n; i++)
			s->losses += events[i].type == NVMFR_EVENT_STATE &&
				     events[i].value == NVMFR_STATE_RECOVERING;
	}
}

/* A silence lasts for longer than io_timeout_ms; the next fault would end it earlier. */
static void expire(struct soak *s)
{
	const struct timespec pause = { .tv_nsec = 800000000 };

	if (s->let_it_expire)
		nanosleep(&pause, NULL);
	s->let_it_expire = false;
}

/* Until each worker has had so many good ones more. */
static bool goes_on(struct soak *s, uint64_t wanted)
{
	const struct timespec pause = { .tv_nsec = 500000 };
	time_t begin = time(NULL);
	uint64_t goals[WORKERS];

	for (unsigned int i = 0; i < WORKERS; i++)
		goals[i] = atomic_load(&s->workers[i].good) + wanted;
	for (unsigned int i = 0; i < WORKERS;) {
		if (failure(s))
			return false;
		take_events(s);
		if (atomic_load(&s->workers[i].good) >= goals[i])
			i++;
		else if (time(NULL) - begin > STUCK_SECONDS)
			return fprintf(stderr, "soak: worker %u is stuck\n", i), false;
		else
			nanosleep(&pause, NULL);
	}
	return true;
}

/* What a monitor would ask for meanwhile, from a thread that owns nothing. */
static const char *dumped(const struct soak *s)
{
	static char text[1 << 16];
	int need = nvmfr_ctrl_dump(s->ctrl, text, sizeof(text));

	return need > 0 && (size_t)need <= sizeof(text) ? text : NULL;
}

/* ---- the whole ------------------------------------------------------------------------------- */

static int set_up(struct soak *s)
{
	struct nvmfr_host_opts host;
	struct nvmfr_soft_opts soft;
	struct nvmfr_ctrl_opts ctrl;
	int err;

	nvmfr_host_opts_init(&host, sizeof(host));
	host.log_fn = s->verbose ? log_line : NULL;
	host.log_level = NVMFR_LOG_INFO;
	err = nvmfr_host_create(&host, &s->host);
	nvmfr_soft_opts_init(&soft, sizeof(soft));
	soft.mdts = 2; /* 16 KiB: an I/O may be several commands */
	soft.flags = chance(s, 2) ? NVMFR_SOFT_THREAD : 0;
	soft.oaes = 0x100;
	if (!err)
		err = nvmfr_soft_target_create(s->host, "t", &soft, &s->target);
	if (!err && nvmfr_soft_ns_add(s->target, NULL) != STEADY_NSID)
		err = -EIO;
	nvmfr_ctrl_opts_init(&ctrl, sizeof(ctrl));
	ctrl.uri = "nvmf+soft://t";
	ctrl.ctrl_loss_timeout_ms = UINT32_MAX;
	ctrl.reconnect_delay_ms = 1;
	ctrl.connect_timeout_ms = 2000;
	if (!err)
		err = nvmfr_connect(s->host, &ctrl, &s->ctrl);
	return err ? err : nvmfr_ctrl_wait(s->ctrl, -1);
}

static bool start(struct soak *s)
{
	for (unsigned int i = 0; i < WORKERS; i++) {
		struct worker *w = &s->workers[i];

		w->index = i;
		w->random = s->seed + i + 1;
		w->host = s->host;
		w->ctrl = s->ctrl;
		w->stop = &s->stop;
		if (pthread_create(&w->thread, NULL, worker_run, w))
			return false;
	}
	return goes_on(s, 1);
}

static bool run(struct soak *s)
{
	for (uint64_t i = 0; i < s->faults; i++) {
		if (!inject(s))
			return fprintf(stderr, "soak: fault %" PRIu64 ", %s: %s\n", i, s->name, nvmfr_last_error()),
			       false;
		if (s->verbose)
			fprintf(stderr, "fault %" PRIu64 ": %s\n", i, s->name);
		expire(s);
		if (!goes_on(s, chance(s, MOST_WAITED_FOR)))
			return fprintf(stderr, "soak: after fault %" PRIu64 ", %s\n", i, s->name), false;
		if (i % 16 == 15 && !dumped(s))
			return fprintf(stderr, "soak: no dump: %s\n", nvmfr_last_error()), false;
		/* What waits for a queue that did not get so far shall not pile up. */
		if (i % 64 == 63)
			nvmfr_soft_fault_clear(s->target);
	}
	nvmfr_soft_fault_clear(s->target);
	return goes_on(s, 100);
}

static bool tear_down(struct soak *s, bool good)
{
	struct nvmfr_soft_counters counters = { .size = sizeof(counters) };
	char violation[256];

	atomic_store(&s->stop, true);
	for (unsigned int i = 0; i < WORKERS; i++)
		pthread_join(s->workers[i].thread, NULL);
	if (failure(s)) {
		fprintf(stderr, "soak: %s\n", failure(s));
		good = false;
	}
	if (good && SUM(s, submitted) != SUM(s, good) + SUM(s, refused) + SUM(s, aborted) + SUM(s, timed_out)) {
		fprintf(stderr, "soak: not every I/O ended\n");
		good = false;
	}
	nvmfr_soft_read_counters(s->target, &counters);
	nvmfr_soft_last_violation(s->target, violation, sizeof(violation));
	if (counters.violations) {
		fprintf(stderr, "soak: %" PRIu64 " violations, the last: %s\n", counters.violations, violation);
		good = false;
	}
	if (nvmfr_disconnect(s->ctrl, 5000)) {
		fprintf(stderr, "soak: %s\n", nvmfr_last_error());
		good = false;
	}
	nvmfr_soft_target_destroy(s->target);
	nvmfr_host_destroy(s->host);
	return good;
}

static bool parse(int argc, char **argv, struct soak *s)
{
	static const struct option longs[] = { { "faults", required_argument, NULL, 'f' },
					       { "seed", required_argument, NULL, 's' },
					       { "verbose", no_argument, NULL, 'v' },
					       { 0 } };
	int opt;

	s->faults = 200;
	s->seed = (uint64_t)time(NULL);
	while ((opt = getopt_long(argc, argv, "f:s:v", longs, NULL)) != -1) {
		switch (opt) {
		case 'f': s->faults = strtoull(optarg, NULL, 0); break;
		case 's': s->seed = strtoull(optarg, NULL, 0); break;
		case 'v': s->verbose = true; break;
		default: return false;
		}
	}
	return optind == argc;
}

int main(int argc, char **argv)
{
	static struct soak s;
	bool good;

	if (!parse(argc, argv, &s))
		return fprintf(stderr, "usage: soak [--faults N] [--seed S] [--verbose]\n"), 2;
	s.random = s.seed;
	printf("soak: --faults %" PRIu64 " --seed %" PRIu64 "\n", s.faults, s.seed);
	fflush(stdout);
	if (set_up(&s))
		return fprintf(stderr, "soak: %s\n", nvmfr_last_error()), 1;
	good = start(&s) && run(&s);
	if (!good)
		fprintf(stderr, "%s\n", dumped(&s));
	good = tear_down(&s, good);
	printf("soak: %" PRIu64 " I/Os submitted; %" PRIu64 " good, %" PRIu64 " refused, %" PRIu64 " aborted, %" PRIu64
	       " timed out; %" PRIu64 " losses, %" PRIu64 " events: %s\n",
	       SUM(&s, submitted), SUM(&s, good), SUM(&s, refused), SUM(&s, aborted), SUM(&s, timed_out), s.losses,
	       s.events, good ? "all as it should be" : "FAILED");
	return good ? 0 : 1;
}
