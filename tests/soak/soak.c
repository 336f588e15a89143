/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * soak [--faults N] [--seed S] [--paths] [--verbose]: random faults under load from four threads, on the embedded
 * target; half of them while it has a thread of its own, half while it works inside of polls.
 *
 * Each command ends once, and as documented for what is to be issued again; each read shows what was written; no
 * memory is written after its completion; nothing piles up; and whatever happened, the load goes on. With --paths it
 * goes over two controllers by two ports, whose ANA states change. The seed is printed; it repeats the faults, not
 * the threads' timing.
 */
#include "soak.h"

#include <dirent.h>
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { STUCK_SECONDS = 60,
       MOST_WAITED_FOR = 64,
       ALL_WAITED_FOR = 16, /* faults; else who waits for writes that are in doubt is not waited for */
       KATO_MS = 300, /* short: a write in doubt waits for twice as long */
       MAY_PILE_UP = 1 << 18 };

struct soak {
	uint64_t faults, seed;
	bool verbose, by_paths;
	struct faults plan;
	struct nvmfr_host *host;
	struct nvmfr_soft_target *target;
	struct nvmfr_ctrl *ctrls[PATHS];
	struct nvmfr_mpath *mpaths[NVMFR_RETRY_ALL + 1]; /* by what they issue again */
	struct worker workers[WORKERS];
	atomic_bool stop;
	uint64_t events, losses;
	size_t heap; /* when a part of the faults was over */
};

/* Each worker has another mode; two of them the hardest, one of these in a group. */
static const uint32_t retries[WORKERS] = { NVMFR_RETRY_NONE, NVMFR_RETRY_READS, NVMFR_RETRY_ALL, NVMFR_RETRY_ALL };

static void log_line(void *arg, enum nvmfr_log_level level, const char *msg)
{
	(void)arg;
	fprintf(stderr, "%d %s\n", (int)level, msg);
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

	if (s->plan.let_it_expire)
		nanosleep(&pause, NULL);
	s->plan.let_it_expire = false;
}

/* Until each worker, or each that issues no write again, has had so many good ones more. */
static bool goes_on(struct soak *s, uint64_t wanted, bool all)
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
		if (atomic_load(&s->workers[i].good) >= goals[i] || (!all && retries[i] == NVMFR_RETRY_ALL))
			i++;
		else if (time(NULL) - begin > STUCK_SECONDS)
			return fprintf(stderr, "soak: worker %u is stuck\n", i), false;
		else
			nanosleep(&pause, NULL);
	}
	return true;
}

/* What a monitor would ask for meanwhile, from a thread that owns nothing. */
static bool dump(const struct soak *s, bool print)
{
	static char text[1 << 16];
	bool good = true;

	for (unsigned int i = 0; i < PATHS && s->ctrls[i]; i++) {
		int need = nvmfr_ctrl_dump(s->ctrls[i], text, sizeof(text));

		good = good && need > 0 && (size_t)need <= sizeof(text);
		if (print && good)
			fprintf(stderr, "%s\n", text);
	}
	return good;
}

/* ---- nothing piles up ------------------------------------------------------------------------ */

static unsigned int open_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	unsigned int n = 0;

	while (dir && readdir(dir))
		n++;
	if (dir)
		closedir(dir);
	return n;
}

static size_t heap_bytes(void)
{
	struct mallinfo2 info = mallinfo2();

	return info.uordblks + info.hblkhd;
}

static bool piles_up(const struct soak *s)
{
	size_t now = heap_bytes();

	if (now <= s->heap + MAY_PILE_UP)
		return false;
	fprintf(stderr, "soak: %zu bytes of heap, there were %zu\n", now, s->heap);
	return true;
}

/* ---- the whole ------------------------------------------------------------------------------- */

static int set_up_target(struct soak *s, uint32_t flags)
{
	struct nvmfr_soft_opts soft;
	int err;

	nvmfr_soft_opts_init(&soft, sizeof(soft));
	soft.mdts = 2; /* 16 KiB: an I/O may be several commands */
	soft.flags = flags;
	soft.oaes = 1 << 8;
	if (s->by_paths) {
		soft.oaes |= 1 << 11;
		soft.ana_groups = 1;
		soft.anatt = 1;
	}
	err = nvmfr_soft_target_create(s->host, "t", &soft, &s->target);
	if (!err && nvmfr_soft_ns_add(s->target, NULL) != STEADY_NSID)
		err = -EIO;
	s->plan.target = s->target;
	s->plan.paths = s->by_paths ? PATHS : 0;
	return err;
}

static int set_up_ctrl(struct soak *s, const char *uri, struct nvmfr_ctrl **out)
{
	struct nvmfr_ctrl_opts opts;
	int err;

	nvmfr_ctrl_opts_init(&opts, sizeof(opts));
	opts.uri = uri;
	opts.kato_ms = KATO_MS;
	opts.ctrl_loss_timeout_ms = UINT32_MAX;
	opts.reconnect_delay_ms = 1;
	opts.connect_timeout_ms = 2000;
	err = nvmfr_connect(s->host, &opts, out);
	return err ? err : nvmfr_ctrl_wait(*out, -1);
}

static int set_up_paths(struct soak *s)
{
	static const char *const uris[PATHS] = { "nvmf+soft://t?port=1", "nvmf+soft://t?port=2" };
	int err = 0;

	for (unsigned int i = 0; !err && i < PATHS; i++)
		err = set_up_ctrl(s, uris[i], &s->ctrls[i]);
	for (uint32_t retry = 0; !err && retry <= NVMFR_RETRY_ALL; retry++) {
		struct nvmfr_mpath_opts opts;

		nvmfr_mpath_opts_init(&opts, sizeof(opts));
		opts.policy = retry ? NVMFR_MPATH_ROUND_ROBIN : NVMFR_MPATH_LEAST_BYTES;
		opts.retry = retry;
		opts.no_path_timeout_ms = 1000 * STUCK_SECONDS;
		err = nvmfr_mpath_create(s->host, &opts, &s->mpaths[retry]);
		for (unsigned int i = 0; !err && i < PATHS; i++)
			err = nvmfr_mpath_add(s->mpaths[retry], s->ctrls[i]);
	}
	return err;
}

static int set_up(struct soak *s, uint32_t flags)
{
	struct nvmfr_host_opts host;
	int err;

	nvmfr_host_opts_init(&host, sizeof(host));
	host.log_fn = s->verbose ? log_line : NULL;
	host.log_level = NVMFR_LOG_INFO;
	err = nvmfr_host_create(&host, &s->host);
	if (!err)
		err = set_up_target(s, flags);
	if (!err)
		err = s->by_paths ? set_up_paths(s) : set_up_ctrl(s, "nvmf+soft://t", &s->ctrls[0]);
	return err;
}

static bool start(struct soak *s)
{
	for (unsigned int i = 0; i < WORKERS; i++) {
		struct worker *w = &s->workers[i];

		*w = (struct worker){ .index = i, .random = s->seed + i + 1, .host = s->host, .stop = &s->stop };
		w->retry = retries[i];
		w->mpath = s->mpaths[w->retry];
		memcpy(w->ctrls, s->ctrls, sizeof(w->ctrls));
		if (pthread_create(&w->thread, NULL, worker_run, w))
			return false;
	}
	return goes_on(s, 1, true);
}

static bool inject(struct soak *s)
{
	unsigned int index = (unsigned int)soak_below(&s->plan.random, WORKERS);

	if (soak_below(&s->plan.random, 16))
		return faults_inject(&s->plan);
	snprintf(s->plan.name, sizeof(s->plan.name), "worker %u ends its queue pair", index);
	atomic_store(&s->workers[index].reopen, true);
	return true;
}

static bool one_fault(struct soak *s, uint64_t i)
{
	bool all = i % ALL_WAITED_FOR == ALL_WAITED_FOR - 1;

	if (!inject(s)) {
		fprintf(stderr, "soak: fault %" PRIu64 ", %s: %s\n", i, s->plan.name, nvmfr_last_error());
		return false;
	}
	if (s->verbose)
		fprintf(stderr, "fault %" PRIu64 ": %s\n", i, s->plan.name);
	expire(s);
	if (!goes_on(s, soak_below(&s->plan.random, MOST_WAITED_FOR), all)) {
		fprintf(stderr, "soak: after fault %" PRIu64 ", %s\n", i, s->plan.name);
		return false;
	}
	if (!all)
		return true;
	/* What waits for a queue that did not get so far shall not pile up. */
	if (i / ALL_WAITED_FOR % 4 == 3)
		nvmfr_soft_fault_clear(s->target);
	if (dump(s, false))
		return true;
	fprintf(stderr, "soak: no dump: %s\n", nvmfr_last_error());
	return false;
}

static bool run(struct soak *s)
{
	const uint64_t first_part = s->faults / 4;

	for (uint64_t i = 0; i < s->faults; i++) {
		if (!one_fault(s, i))
			return false;
		if (i == first_part)
			s->heap = heap_bytes();
	}
	return faults_clear(&s->plan) && goes_on(s, 100, true) && !piles_up(s);
}

static bool complain(bool bad, const char *what)
{
	if (bad)
		fprintf(stderr, "soak: %s\n", what);
	return !bad;
}

static bool all_accounted_for(const struct soak *s)
{
	uint64_t ended = SUM(s, good) + SUM(s, refused) + SUM(s, aborted) + SUM(s, timed_out) + SUM(s, forgotten);

	return complain(SUM(s, submitted) != ended, "not every I/O ended") &&
	       complain(SUM(s, spoilt) > s->plan.spoilers + SUM(s, timed_out),
			"I/Os were told as lost that were to be issued again");
}

static bool end_target(struct soak *s)
{
	struct nvmfr_soft_counters counters = { .size = sizeof(counters) };
	char violation[256];
	bool good;

	nvmfr_soft_read_counters(s->target, &counters);
	nvmfr_soft_last_violation(s->target, violation, sizeof(violation));
	good = complain(counters.violations != 0, violation) &&
	       complain(counters.open_connections != 0, "connections are left open");
	nvmfr_soft_target_destroy(s->target);
	return good;
}

static bool tear_down(struct soak *s)
{
	bool good;

	atomic_store(&s->stop, true);
	for (unsigned int i = 0; i < WORKERS; i++)
		if (s->workers[i].host)
			pthread_join(s->workers[i].thread, NULL);
	good = complain(failure(s) != NULL, failure(s)) && all_accounted_for(s);
	for (uint32_t i = 0; i <= NVMFR_RETRY_ALL; i++)
		good = complain(nvmfr_mpath_destroy(s->mpaths[i]) != 0, nvmfr_last_error()) && good;
	for (unsigned int i = 0; i < PATHS && s->ctrls[i]; i++)
		good = complain(nvmfr_disconnect(s->ctrls[i], 5000) != 0, nvmfr_last_error()) && good;
	good = end_target(s) && good;
	nvmfr_host_destroy(s->host);
	return good;
}

/* Threads may never end: no more is asked of them. */
static _Noreturn void give_up(const struct soak *s)
{
	(void)complain(failure(s) != NULL, failure(s));
	(void)dump(s, true);
	_exit(1);
}

static bool round_of(const struct soak *settings, uint32_t flags)
{
	static struct soak s;
	unsigned int fds = open_fds();
	bool good;

	s = *settings;
	s.plan.random = s.seed + flags;
	if (set_up(&s, flags))
		return fprintf(stderr, "soak: %s\n", nvmfr_last_error()), false;
	good = start(&s) && run(&s);
	if (!good)
		give_up(&s);
	good = tear_down(&s);
	good = complain(open_fds() != fds, "descriptors are left open") && good;
	printf("soak: %" PRIu64 " faults%s%s; %" PRIu64 " I/Os: %" PRIu64 " good, %" PRIu64 " refused, %" PRIu64
	       " aborted, %" PRIu64 " timed out, %" PRIu64 " forgotten; %" PRIu64 " losses, %" PRIu64 " events: %s\n",
	       s.faults, s.by_paths ? ", by paths" : "", flags ? ", the target's thread" : "", SUM(&s, submitted),
	       SUM(&s, good), SUM(&s, refused), SUM(&s, aborted), SUM(&s, timed_out), SUM(&s, forgotten), s.losses,
	       s.events, good ? "all as it should be" : "FAILED");
	return good;
}

static bool parse(int argc, char **argv, struct soak *s)
{
	static const struct option longs[] = { { "faults", required_argument, NULL, 'f' },
					       { "seed", required_argument, NULL, 's' },
					       { "paths", no_argument, NULL, 'p' },
					       { "verbose", no_argument, NULL, 'v' },
					       { 0 } };
	int opt;

	s->faults = 200;
	s->seed = (uint64_t)time(NULL);
	while ((opt = getopt_long(argc, argv, "f:ps:v", longs, NULL)) != -1) {
		switch (opt) {
		case 'f': s->faults = strtoull(optarg, NULL, 0); break;
		case 's': s->seed = strtoull(optarg, NULL, 0); break;
		case 'p': s->by_paths = true; break;
		case 'v': s->verbose = true; break;
		default: return false;
		}
	}
	return optind == argc;
}

int main(int argc, char **argv)
{
	static struct soak s;

	if (!parse(argc, argv, &s))
		return fprintf(stderr, "usage: soak [--faults N] [--seed S] [--paths] [--verbose]\n"), 2;
	printf("soak: --faults %" PRIu64 " --seed %" PRIu64 "%s\n", s.faults, s.seed, s.by_paths ? " --paths" : "");
	fflush(stdout);
	s.faults = (s.faults + 1) / 2;
	return round_of(&s, NVMFR_SOFT_THREAD) && round_of(&s, 0) ? 0 : 1;
}
