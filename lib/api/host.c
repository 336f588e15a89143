/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <nvmfr/soft.h>

#include "api/check.h"
#include "api/identity.h"
#include "base/opts.h"
#include "ctrl/ctrl.h"
#include "queue/group.h"

void nvmfr_host_opts_init(struct nvmfr_host_opts *opts, size_t size)
{
	struct nvmfr_host_opts defaults = { .size = sizeof(defaults), .log_level = NVMFR_LOG_WARN };

	nvmfr__opts_init(opts, size, &defaults, sizeof(defaults));
}

/* The public callback's level is an enum, the base floor's an int. */
struct sink {
	nvmfr_log_fn fn;
	void *arg;
};

static void to_sink(void *arg, int level, const char *msg)
{
	const struct sink *sink = arg;

	sink->fn(sink->arg, (enum nvmfr_log_level)level, msg);
}

static int init_log(struct nvmfr_host *host, const struct nvmfr_host_opts *opts)
{
	struct sink *sink;

	if (!opts->log_fn)
		return 0;
	sink = malloc(sizeof(*sink));
	if (!sink)
		return nvmfr__fail(-ENOMEM, "no memory for a host");
	*sink = (struct sink){ opts->log_fn, opts->log_arg };
	host->log.fn = to_sink;
	host->log.arg = sink;
	host->log.level = (int)opts->log_level;
	return 0;
}

static void init_locks(struct nvmfr_host *host)
{
	pthread_condattr_t attr;

	pthread_mutex_init(&host->lock, NULL);
	pthread_mutex_init(&host->buffers_lock, NULL);
	nvmfr__events_open(&host->events);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&host->changed, &attr);
	pthread_condattr_destroy(&attr);
}

static void free_host(struct nvmfr_host *host)
{
	free(host->log.arg);
	nvmfr__wipe_free(&host->wipe_pages);
	nvmfr__events_close(&host->events);
	pthread_cond_destroy(&host->changed);
	pthread_mutex_destroy(&host->buffers_lock);
	pthread_mutex_destroy(&host->lock);
	free(host);
}

static int check_opts(const struct nvmfr_host_opts *opts)
{
	if (opts->flags & ~(uint32_t)NVMFR_HOST_MANUAL)
		return nvmfr__fail(-EINVAL, "host flags 0x%x has unknown bits", opts->flags);
	if (opts->log_level > NVMFR_LOG_DEBUG)
		return nvmfr__fail(-EINVAL, "log_level %u is not one of enum nvmfr_log_level",
				   opts->log_level);
	return 0;
}

static int init_host(struct nvmfr_host *host, const struct nvmfr_host_opts *opts)
{
	int err = nvmfr__identity(opts, host);

	host->manual = opts->flags & NVMFR_HOST_MANUAL;
	host->epoll_fd = host->wake_fd = -1;
	nvmfr__clock_init(&host->clock);
	host->fab.clock = &host->clock;
	host->fab.log = &host->log;
	if (!err)
		err = init_log(host, opts);
	if (err)
		return err;
	host->alive = nvmfr__wipe_get(&host->wipe_pages);
	if (!host->alive)
		return nvmfr__fail(-ENOMEM, "no memory for a host");
	return nvmfr__service_open(host);
}

int nvmfr_host_create(const struct nvmfr_host_opts *given, struct nvmfr_host **out)
{
	struct nvmfr_host_opts opts;
	struct nvmfr_host *host;
	int err;

	if (!out)
		return nvmfr__fail(-EINVAL, "out is NULL");
	*out = NULL;
	nvmfr_host_opts_init(&opts, sizeof(opts));
	err = given ? nvmfr__opts_import(&opts, sizeof(opts), given, given->size) : 0;
	if (err)
		return nvmfr__fail_wrap(err, "nvmfr_host_opts");
	err = check_opts(&opts);
	if (err)
		return err;
	host = calloc(1, sizeof(*host));
	if (!host)
		return nvmfr__fail(-ENOMEM, "no memory for a host");
	init_locks(host);
	err = init_host(host, &opts);
	if (err) {
		nvmfr__service_stop(host);
		nvmfr__service_close(host);
		free_host(host);
		return err;
	}
	*out = host;
	return 0;
}

int nvmfr_host_poll(struct nvmfr_host *host)
{
	int err = check_host(host);

	if (err)
		return err;
	if (!host->manual)
		return nvmfr__fail(
			-EINVAL,
			"this host has a service thread: nvmfr_host_poll() is for NVMFR_HOST_MANUAL");
	pthread_mutex_lock(&host->lock);
	nvmfr__service_pass(host);
	pthread_mutex_unlock(&host->lock);
	return 0;
}

int nvmfr_host_fd(const struct nvmfr_host *host)
{
	int err = check_host(host);

	return err ? err : host->epoll_fd;
}

int nvmfr_host_timeout_ms(const struct nvmfr_host *host)
{
	struct nvmfr_host *locked = (struct nvmfr_host *)(uintptr_t)host;
	uint64_t due, now;
	int err = check_host(host);

	if (err)
		return err;
	pthread_mutex_lock(&locked->lock);
	due = host->due_ns;
	pthread_mutex_unlock(&locked->lock);
	now = nvmfr__clock_now_ns(&host->clock);
	if (due == UINT64_MAX)
		return -1;
	return due <= now ? 0
			  : (int)nvmfr__min_u64((due - now + MS_NS(1) - 1) / MS_NS(1), INT32_MAX);
}

const char *nvmfr_host_nqn(const struct nvmfr_host *host)
{
	return host ? host->hostnqn : "";
}

static void release_left(struct nvmfr_host *host)
{
	while (host->ctrls) {
		nvmfr__log(&host->log, NVMFR_LOG_ERROR,
			   "%s: the host ends and this controller was not disconnected",
			   host->ctrls->target.subnqn);
		while (host->ctrls->entries)
			nvmfr__ioqueue_destroy(host->ctrls->entries->qp);
		nvmfr__ctrl_free(host->ctrls);
	}
	while (host->groups) {
		nvmfr__log(&host->log, NVMFR_LOG_ERROR,
			   "the host ends and a group was not destroyed");
		nvmfr__group_end(host, host->groups);
	}
	while (host->buffers) {
		nvmfr__log(&host->log, NVMFR_LOG_ERROR,
			   "the host ends and a buffer of %llu bytes was not released",
			   (unsigned long long)host->buffers->len);
		nvmfr__buffer_end(host, host->buffers);
	}
	while (host->soft_targets)
		nvmfr_soft_target_destroy(host->soft_targets);
}

void nvmfr_host_destroy(struct nvmfr_host *host)
{
	if (!host)
		return;
	if (!nvmfr__host_alive(host)) {
		/*
		 * The parent's objects and descriptors stay alone, and a thread that is not here cannot
		 * be joined. Its handles look at this memory still, in whatever order they go: it stays.
		 */
		return;
	}
	nvmfr__service_stop(host);
	nvmfr__registrar_stop(host);
	release_left(host);
	if (host->soft)
		nvmfr__fab_soft.close(host->soft);
	if (host->verbs)
		nvmfr__fab_verbs.close(host->verbs);
	nvmfr__service_close(host);
	free_host(host);
}
