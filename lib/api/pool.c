/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A controller for each subsystem that a discovery controller lists, as long as it does. All of it happens in
 * nvmfr_pool_update(), in its caller's thread.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <nvmfr/nvmfr.h>

#include "api/check.h"
#include "api/discovery.h"
#include "base/opts.h"
#include "ctrl/ctrl.h"

enum { RETRY_FIRST_MS = 1000,
       RETRY_MAX_MS = 60000,
       AGAIN_MAX_MS = 300000,
       END_MS = 1000 };

struct retry {
	uint64_t due_ns;
	uint32_t pause_ms; /* doubles; 0: nothing failed */
};

struct member {
	struct member *next;
	struct nvmfr_ctrl *ctrl; /* NULL: it could not be connected, or is the application's */
	struct retry retry;
	bool listed; /* by the log last read */
	bool present; /* NVMFR_EVENT_CTRL_ADDED was told, and not yet that it leaves */
	bool leaves; /* the next update puts it away if nothing uses it */
	char uri[sizeof(((struct nvmfr_discovery_record *)0)->uri)];
};

struct nvmfr_pool {
	struct nvmfr_host *host;
	struct nvmfr_ctrl_opts from, each; /* without strings, those are: */
	char uri[4096], host_traddr[256];
	struct nvmfr_discovery *log;
	uint64_t seen; /* log_news() when it was read */
	struct retry retry;
	struct retry again; /* for logs whose changes nobody tells */
	struct member *members;
};

/* ---- time ------------------------------------------------------------------------------------ */

static uint64_t now_ns(const struct nvmfr_pool *pool)
{
	return nvmfr__clock_now_ns(&pool->host->clock);
}

static void later(const struct nvmfr_pool *pool, struct retry *retry, uint32_t most_ms)
{
	retry->pause_ms = nvmfr__min_u32(retry->pause_ms * 2, most_ms);
	retry->pause_ms = nvmfr__max_u32(retry->pause_ms, RETRY_FIRST_MS);
	retry->due_ns = now_ns(pool) + MS_NS(retry->pause_ms);
}

static bool is_due(const struct nvmfr_pool *pool, const struct retry *retry)
{
	return now_ns(pool) >= retry->due_ns;
}

/* ---- members --------------------------------------------------------------------------------- */

static void tell(const struct nvmfr_pool *pool, const struct member *member, uint32_t type)
{
	const struct nvmfr_event event = { .ctrl = member->ctrl, .type = type };

	nvmfr__events_push(&pool->host->events, &event);
}

static bool same_target(const struct target *a, const struct target *b)
{
	if (a->soft != b->soft || strcmp(a->subnqn, b->subnqn) != 0)
		return false;
	return a->soft ? strcmp(a->name, b->name) == 0
		       : strcmp(a->traddr, b->traddr) == 0 && strcmp(a->trsvcid, b->trsvcid) == 0;
}

/* Whether the application has a controller there: then it keeps it, and no other is made beside it. */
static bool is_taken(const struct nvmfr_pool *pool, const struct member *member)
{
	const struct nvmfr_ctrl_opts opts = { .uri = member->uri };
	struct target *target = malloc(sizeof(*target));
	bool taken = false;

	if (!target || nvmfr__target_parse(&opts, target)) {
		free(target);
		return false;
	}
	pthread_mutex_lock(&pool->host->lock);
	for (const struct nvmfr_ctrl *ctrl = pool->host->ctrls; ctrl && !taken; ctrl = ctrl->next)
		taken = same_target(&ctrl->target, target);
	pthread_mutex_unlock(&pool->host->lock);
	free(target);
	return taken;
}

static void connect_member(struct nvmfr_pool *pool, struct member *member)
{
	struct nvmfr_ctrl_opts opts = pool->each;

	later(pool, &member->retry, RETRY_MAX_MS);
	if (is_taken(pool, member))
		return;
	opts.uri = member->uri;
	opts.host_traddr = pool->host_traddr[0] ? pool->host_traddr : NULL;
	if (nvmfr_connect(pool->host, &opts, &member->ctrl) == 0)
		return;
	pthread_mutex_lock(&pool->host->lock);
	nvmfr__log(&pool->host->log, NVMFR_LOG_WARN, "%s, which is listed, cannot be connected to: %s",
		   member->uri, nvmfr__err_get());
	pthread_mutex_unlock(&pool->host->lock);
}

/*
 * One that is not listed any more, or lost for good. Who was told that it is there is told first that it
 * leaves, and has until the next update.
 */
static void put_away(const struct nvmfr_pool *pool, struct member *member)
{
	if (member->present) {
		member->present = false;
		member->leaves = true;
		tell(pool, member, NVMFR_EVENT_CTRL_LEAVES);
		return;
	}
	if (nvmfr_disconnect(member->ctrl, END_MS) == 0) {
		member->ctrl = NULL;
		member->leaves = false;
	}
}

static void step_member(struct nvmfr_pool *pool, struct member *member)
{
	int state;

	if (!member->ctrl && member->listed && is_due(pool, &member->retry))
		connect_member(pool, member);
	if (!member->ctrl)
		return;
	state = nvmfr_ctrl_state(member->ctrl);
	if (!member->listed || state == NVMFR_STATE_LOST) {
		put_away(pool, member);
	} else if (state == NVMFR_STATE_LIVE && !member->present) {
		member->present = true;
		member->leaves = false;
		member->retry = (struct retry){ 0 };
		tell(pool, member, NVMFR_EVENT_CTRL_ADDED);
	}
}

static void step_members(struct nvmfr_pool *pool)
{
	struct member **at = &pool->members;

	while (*at) {
		struct member *member = *at;

		step_member(pool, member);
		if (member->listed || member->ctrl) {
			at = &member->next;
			continue;
		}
		*at = member->next;
		free(member);
	}
}

/* ---- the log --------------------------------------------------------------------------------- */

static int list_member(struct nvmfr_pool *pool, const char *uri)
{
	struct member **at = &pool->members;

	while (*at && strcmp((*at)->uri, uri) != 0)
		at = &(*at)->next;
	if (!*at)
		*at = calloc(1, sizeof(**at));
	if (!*at)
		return nvmfr__fail(-ENOMEM, "no memory for a controller");
	(*at)->listed = true;
	snprintf((*at)->uri, sizeof((*at)->uri), "%s", uri);
	return 0;
}

/* Several records may name one controller: other ports' of an address, or of several logs. */
static int take_log(struct nvmfr_pool *pool)
{
	struct nvmfr_discovery_record record = { .size = sizeof(record) };
	int err = 0;

	for (struct member *member = pool->members; member; member = member->next)
		member->listed = false;
	for (uint32_t i = 0; !err && nvmfr_discovery_get(pool->log, i, &record) == 0; i++)
		if (record.subtype == NVME_DISC_NVM && record.uri[0])
			err = list_member(pool, record.uri);
	return err;
}

/* Grows with all after which the log may be another. 0: it cannot be read now. */
static uint64_t log_news(const struct nvmfr_pool *pool)
{
	const struct nvmfr_ctrl *ctrl = nvmfr_discovery_ctrl(pool->log);
	uint64_t news = 0;

	pthread_mutex_lock(&pool->host->lock);
	if (ctrl->state == NVMFR_STATE_LIVE)
		news = ctrl->history.events + ctrl->history.recoveries + ctrl->referred_news + 1;
	pthread_mutex_unlock(&pool->host->lock);
	return news;
}

static int open_log(struct nvmfr_pool *pool)
{
	struct nvmfr_ctrl_opts opts = pool->from;

	opts.uri = pool->uri;
	opts.host_traddr = pool->host_traddr[0] ? pool->host_traddr : NULL;
	return nvmfr_discover(pool->host, &opts, NVMFR_DISCOVER_PERSISTENT, &pool->log);
}

static bool is_lost(const struct nvmfr_pool *pool)
{
	const struct nvmfr_ctrl *ctrl = nvmfr_discovery_ctrl(pool->log);

	/* Without one: it could not be connected anew. */
	return !ctrl || nvmfr_ctrl_state(ctrl) == NVMFR_STATE_LOST;
}

static int reopen_log(struct nvmfr_pool *pool)
{
	pool->seen = 0;
	return nvmfr__discovery_anew(pool->log);
}

static bool has_unfollowed(const struct nvmfr_pool *pool)
{
	struct nvmfr_discovery_info info = { .size = sizeof(info) };

	return nvmfr_discovery_info(pool->log, &info) == 0 && info.unfollowed;
}

static int read_log(struct nvmfr_pool *pool)
{
	bool first = pool->seen == 0;
	uint64_t news = log_news(pool);
	int err = 0;

	if (!pool->again.due_ns && has_unfollowed(pool))
		later(pool, &pool->again, AGAIN_MAX_MS);
	if (!news || (news == pool->seen && (!pool->again.due_ns || !is_due(pool, &pool->again))))
		return 0;
	/* What it opened with has been read; what comes meanwhile is news again. */
	if (!first || news > 1)
		err = nvmfr_discovery_refresh(pool->log);
	if (!err)
		err = take_log(pool);
	if (err)
		return err;
	pool->seen = news;
	if (has_unfollowed(pool))
		later(pool, &pool->again, AGAIN_MAX_MS);
	else
		pool->again = (struct retry){ 0 };
	return 0;
}

/* What there is stays as it is while the log cannot be read: that it is gone is not known. */
static int follow_log(struct nvmfr_pool *pool)
{
	int err = 0;

	if (!is_due(pool, &pool->retry))
		return 0;
	if (is_lost(pool))
		err = reopen_log(pool);
	if (!err)
		err = read_log(pool);
	if (err)
		later(pool, &pool->retry, RETRY_MAX_MS);
	else
		pool->retry = (struct retry){ 0 };
	return err;
}

/* ---- the object ------------------------------------------------------------------------------ */

static int check_pool(const struct nvmfr_pool *pool)
{
	return pool ? check_host(pool->host) : nvmfr__fail(-EINVAL, "pool is NULL");
}

static int import_opts(struct nvmfr_ctrl_opts *out, const struct nvmfr_ctrl_opts *given)
{
	int err;

	nvmfr_ctrl_opts_init(out, sizeof(*out));
	err = given ? nvmfr__opts_import(out, sizeof(*out), given, given->size) : 0;
	return err ? nvmfr__fail_wrap(err, "nvmfr_ctrl_opts") : 0;
}

static int take_opts(struct nvmfr_pool *pool, const struct nvmfr_ctrl_opts *from,
		     const struct nvmfr_ctrl_opts *each)
{
	int err = import_opts(&pool->from, from);

	if (!err)
		err = import_opts(&pool->each, each);
	if (err)
		return err;
	if (!pool->from.uri || strlen(pool->from.uri) >= sizeof(pool->uri))
		return nvmfr__fail(-EINVAL, "a pool needs the uri of a discovery controller");
	if (pool->from.host_traddr && strlen(pool->from.host_traddr) >= sizeof(pool->host_traddr))
		return nvmfr__fail(-EINVAL, "host_traddr is too long");
	if (each && (each->uri || each->traddr || each->subnqn))
		return nvmfr__fail(-EINVAL, "the options of a pool's controllers name a target; the log does");
	snprintf(pool->uri, sizeof(pool->uri), "%s", pool->from.uri);
	snprintf(pool->host_traddr, sizeof(pool->host_traddr), "%s",
		 pool->from.host_traddr ? pool->from.host_traddr : "");
	pool->from.uri = pool->from.host_traddr = pool->each.host_traddr = NULL;
	pool->from.traddr = pool->from.trsvcid = pool->from.subnqn = pool->each.trsvcid = NULL;
	return 0;
}

int nvmfr_pool_create(struct nvmfr_host *host, const struct nvmfr_ctrl_opts *from,
		      const struct nvmfr_ctrl_opts *each, struct nvmfr_pool **out)
{
	int err = check_host(host);
	struct nvmfr_pool *pool;

	if (out)
		*out = NULL;
	if (!err && (!from || !out))
		err = nvmfr__fail(-EINVAL, "%s is NULL", from ? "out" : "from");
	if (err)
		return err;
	pool = calloc(1, sizeof(*pool));
	if (!pool)
		return nvmfr__fail(-ENOMEM, "no memory for a pool");
	pool->host = host;
	err = take_opts(pool, from, each);
	if (!err)
		err = open_log(pool);
	if (!err)
		err = follow_log(pool);
	if (err) {
		nvmfr_discovery_release(pool->log);
		free(pool);
		return err;
	}
	step_members(pool);
	*out = pool;
	return 0;
}

int nvmfr_pool_update(struct nvmfr_pool *pool)
{
	int err = check_pool(pool);

	if (err)
		return err;
	err = follow_log(pool);
	step_members(pool);
	return err;
}

int nvmfr_pool_timeout_ms(const struct nvmfr_pool *pool)
{
	uint64_t due = UINT64_MAX, now;
	int err = check_pool(pool);

	if (err)
		return err;
	now = now_ns(pool);
	if (pool->retry.due_ns)
		due = pool->retry.due_ns;
	else if (pool->again.due_ns && log_news(pool)) /* while it cannot be read, an event tells when it can */
		due = pool->again.due_ns;
	for (const struct member *member = pool->members; member; member = member->next) {
		if (!member->ctrl)
			due = nvmfr__min_u64(due, member->retry.due_ns);
		else if (member->leaves)
			due = nvmfr__min_u64(due, now + MS_NS(RETRY_FIRST_MS));
	}
	if (due == UINT64_MAX)
		return -1;
	return due > now ? (int)((due - now + MS_NS(1) - 1) / MS_NS(1)) : 0;
}

struct nvmfr_ctrl *nvmfr_pool_ctrl(const struct nvmfr_pool *pool, uint32_t index)
{
	const struct member *member = check_pool(pool) ? NULL : pool->members;

	for (; member; member = member->next)
		if (member->present && index-- == 0)
			return member->ctrl;
	return NULL;
}

/* In a forked child the controllers' own calls do what is to be done. */
static bool in_use(const struct nvmfr_pool *pool)
{
	bool used = false;

	if (!nvmfr__host_alive(pool->host))
		return false;
	pthread_mutex_lock(&pool->host->lock);
	for (const struct member *member = pool->members; member; member = member->next)
		used |= member->ctrl && (member->ctrl->entries || member->ctrl->mpaths);
	pthread_mutex_unlock(&pool->host->lock);
	return used;
}

int nvmfr_pool_release(struct nvmfr_pool *pool)
{
	if (!pool)
		return 0;
	if (in_use(pool))
		return nvmfr__fail(-EBUSY, "a controller of the pool has queue pairs, or is a path: "
					   "nvmfr_qpair_destroy() and nvmfr_mpath_remove() first");
	nvmfr_discovery_release(pool->log);
	while (pool->members) {
		struct member *member = pool->members;

		(void)nvmfr_disconnect(member->ctrl, END_MS);
		pool->members = member->next;
		free(member);
	}
	free(pool);
	return 0;
}
