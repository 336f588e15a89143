/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <limits.h>

#include <nvmfr/nvmfr.h>

#include "api/check.h"
#include "api/wait.h"
#include "base/opts.h"
#include "ctrl/ctrl.h"
#include "queue/group.h"

enum { MAX_QPAIRS = 65535 };

void nvmfr_group_opts_init(struct nvmfr_group_opts *opts, size_t size)
{
	struct nvmfr_group_opts defaults = { .size = sizeof(defaults), .max_qpairs = 64 };

	nvmfr__opts_init(opts, size, &defaults, sizeof(defaults));
}

static int check_opts(const struct nvmfr_group_opts *opts)
{
	if (opts->max_qpairs == 0 || opts->max_qpairs > MAX_QPAIRS)
		return nvmfr__fail(-EINVAL, "max_qpairs %u is not from 1 to %d", opts->max_qpairs,
				   MAX_QPAIRS);
	if (opts->flags)
		return nvmfr__fail(-EINVAL, "flags of nvmfr_group_opts must be zero");
	return 0;
}

/* The host's lock held. */
static int enlist(struct nvmfr_host *host, struct nvmfr_group *group)
{
	group->word = nvmfr__wipe_get(&host->wipe_pages);
	if (!group->word)
		return nvmfr__fail(-ENOMEM, "no memory for a group");
	group->next = host->groups;
	group->prev = &host->groups;
	if (host->groups)
		host->groups->prev = &group->next;
	host->groups = group;
	return 0;
}

int nvmfr_group_create(struct nvmfr_host *host, const struct nvmfr_group_opts *given,
		       struct nvmfr_group **out)
{
	struct nvmfr_group_opts opts;
	struct fab_group_params params;
	struct nvmfr_group *group;
	int err;

	if (out)
		*out = NULL;
	err = out ? check_host(host) : nvmfr__fail(-EINVAL, "out is NULL");
	if (err)
		return err;
	nvmfr_group_opts_init(&opts, sizeof(opts));
	err = given ? nvmfr__opts_import(&opts, sizeof(opts), given, given->size) : 0;
	if (err)
		return nvmfr__fail_wrap(err, "nvmfr_group_opts");
	err = check_opts(&opts);
	if (err)
		return err;
	params = (struct fab_group_params){ .lock = &host->lock,
					    .service_fd = host->wake_fd,
					    .epoll_fd = -1,
					    .max_endpoints = opts.max_qpairs };
	errno = 0;
	group = nvmfr__group_new(host, &host->tick, &params);
	if (!group)
		return errno == EMFILE || errno == ENFILE ? -errno : -ENOMEM;
	pthread_mutex_lock(&host->lock);
	err = enlist(host, group);
	pthread_mutex_unlock(&host->lock);
	if (err)
		nvmfr__group_free(group);
	else
		*out = group;
	return err;
}

int nvmfr_group_destroy(struct nvmfr_group *group)
{
	struct nvmfr_host *host;

	if (!group)
		return 0;
	/* In a forked child its queue pairs go in whatever order. */
	if (nvmfr__group_forked(group)) {
		nvmfr__group_free(group);
		return 0;
	}
	if (group->members)
		return nvmfr__fail(-EBUSY,
				   "the group has queue pairs still: nvmfr_qpair_destroy() first");
	host = (struct nvmfr_host *)(uintptr_t)group->host;
	pthread_mutex_lock(&host->lock);
	nvmfr__group_end(host, group);
	pthread_mutex_unlock(&host->lock);
	/* a device that went may have waited for its CQs */
	nvmfr__service_wake(host);
	return 0;
}

static __attribute__((noinline, cold)) int bad(const char *what)
{
	return nvmfr__fail(-EINVAL, "%s", what);
}

static int check_group(const struct nvmfr_group *group)
{
	if (!group)
		return bad("group is NULL");
	return nvmfr__group_forked(group) ? nvmfr__group_state_error() : 0;
}

int nvmfr_group_fd(const struct nvmfr_group *group)
{
	int err = check_group(group);

	return err ? err : group->epoll_fd;
}

int nvmfr_group_arm(struct nvmfr_group *group)
{
	return group ? nvmfr__group_arm(group) : bad("group is NULL");
}

int nvmfr_group_poll(struct nvmfr_group *group, struct nvmfr_completion *out, unsigned int max)
{
	if (unlikely(!group || !out || max - 1 >= INT_MAX))
		return bad("group or out is NULL, or max is 0 or too large");
	return nvmfr__group_poll(group, out, max);
}

/* ---- waiting --------------------------------------------------------------------------------- */

static int wait_poll(void *object, struct nvmfr_completion *out, unsigned int max)
{
	return nvmfr__group_poll(object, out, max);
}

static int wait_fd(void *object)
{
	const struct nvmfr_group *group = object;

	return group->epoll_fd;
}

static int wait_arm(void *object)
{
	return nvmfr__group_arm(object);
}

static bool wait_pending(void *object)
{
	return nvmfr__group_pending(object);
}

static uint64_t wait_due(void *object)
{
	return nvmfr__group_due_ns(object);
}

int nvmfr_group_wait(struct nvmfr_group *group, struct nvmfr_completion *out, unsigned int min,
		     unsigned int max, int timeout_ms)
{
	struct wait_source source = { .object = group,
				      .poll = wait_poll,
				      .fd = wait_fd,
				      .arm = wait_arm,
				      .pending = wait_pending,
				      .due_ns = wait_due };
	int err = check_group(group);

	if (!err)
		err = nvmfr__wait_check(out, min, max);
	if (err)
		return err;
	source.host = (struct nvmfr_host *)(uintptr_t)group->host;
	source.pace = &group->pace;
	return nvmfr__wait(&source, out, min, max, timeout_ms);
}
