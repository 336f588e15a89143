/* SPDX-License-Identifier: BSD-3-Clause */
/* Which paths a thread has, and which one an I/O takes. */
#include "path/mpath.h"

#include <sched.h>

#include "base/err.h"
#include "ctrl/ana.h"

/* ---- queue pairs ----------------------------------------------------------------------------- */

static struct way *find(struct nvmfr_mqpair *mq, uint32_t serial)
{
	for (unsigned int i = 0; i < MPATH_MAX; i++)
		if (mq->ways[i].serial == serial)
			return &mq->ways[i];
	return NULL;
}

static void end_qpair(struct way *way)
{
	if (way->qp)
		nvmfr__ioqueue_destroy(way->qp);
	way->qp = NULL;
	nvmfr__ns_table_put(way->table);
	way->table = NULL;
}

/* The host's lock held. What the members are now; those that went begin to leave. */
static void take_members(struct nvmfr_mqpair *mq)
{
	struct nvmfr_mpath *mpath = mq->mpath;

	for (unsigned int i = 0; i < MPATH_MAX; i++)
		mq->ways[i].leaving = mq->ways[i].serial != 0;
	for (unsigned int i = 0; i < MPATH_MAX; i++) {
		struct mpath_member *member = &mpath->members[i];
		struct way *way = member->ctrl ? find(mq, member->serial) : NULL;

		if (member->ctrl && !way) {
			way = find(mq, 0);
			if (way)
				*way = (struct way){ .serial = member->serial, .ctrl = member->ctrl };
		}
		if (way)
			way->leaving = false;
	}
	mq->changes = atomic_load(&mpath->changes);
}

/* The host's lock held. */
static void make_qpair(struct nvmfr_mqpair *mq, struct way *way)
{
	const struct nvmfr_qpair_opts opts = {
		.size = sizeof(opts),
		.depth = mq->opts.depth,
		.max_descriptors = mq->opts.max_descriptors,
		.io_timeout_ms = mq->opts.io_timeout_ms,
		.qpair_data = (uint64_t)(way - mq->ways),
		.group = mq->group,
	};
	struct nvmfr_ctrl *ctrl = way->ctrl;

	if (ctrl->state != NVMFR_STATE_LIVE || nvmfr__ioqueue_create(ctrl, &opts, &way->qp)) {
		if (ctrl->state == NVMFR_STATE_LIVE && !way->told)
			nvmfr__log(&mq->host->log, NVMFR_LOG_WARN, "%s: no queue pair for a path yet: %s",
				   ctrl->target.subnqn, nvmfr__err_get());
		way->told = ctrl->state == NVMFR_STATE_LIVE;
		way->qp = NULL;
		mq->lacking = mq->lacking || ctrl->state != NVMFR_STATE_LOST;
		return;
	}
	way->told = false;
	way->numa_node = ctrl->numa_node;
	way->doubt_ns = nvmfr__ioqueue_doubt_ends(ctrl, 0);
	nvmfr__service_wake(mq->host);
}

/* Lost for good, and all of it told: another one may do. */
static bool is_over(const struct way *way)
{
	return way->qp && way->qp->state >= LINK_LOST && !way->qp->recovering && way->counts[WAY_IN_FLIGHT] == 0;
}

void nvmfr__ways_refresh(struct nvmfr_mqpair *mq)
{
	pthread_mutex_lock(&mq->host->lock);
	take_members(mq);
	pthread_mutex_unlock(&mq->host->lock);
	mq->lacking = false;
	for (unsigned int i = 0; i < MPATH_MAX; i++) {
		struct way *way = &mq->ways[i];

		if (!way->serial)
			continue;
		if (is_over(way) || (way->leaving && way->counts[WAY_IN_FLIGHT] == 0))
			end_qpair(way);
		if (way->qp && (way->leaving || !likely_live(way->qp)))
			mq->lacking = true;
	}
	pthread_mutex_lock(&mq->host->lock);
	for (unsigned int i = 0; i < MPATH_MAX; i++)
		if (mq->ways[i].leaving && !mq->ways[i].qp)
			mq->ways[i] = (struct way){ .serial = 0 };
	/* Members that went since then are not to be looked at: their controllers may be gone. */
	for (unsigned int i = 0; i < MPATH_MAX && mq->changes == atomic_load(&mq->mpath->changes); i++)
		if (mq->ways[i].serial && !mq->ways[i].leaving && !mq->ways[i].qp)
			make_qpair(mq, &mq->ways[i]);
	pthread_mutex_unlock(&mq->host->lock);
	mq->look_ns = nvmfr__clock_now_ns(&mq->host->clock) + MS_NS(MPATH_PAUSE_MS);
}

void nvmfr__ways_end(struct nvmfr_mqpair *mq)
{
	for (unsigned int i = 0; i < MPATH_MAX; i++)
		end_qpair(&mq->ways[i]);
}

/* ---- choice ---------------------------------------------------------------------------------- */

static enum way_rank rank_of_state(uint8_t state)
{
	switch (state) {
	case NVME_ANA_NONE:
	case NVME_ANA_OPTIMIZED: return WAY_OPTIMIZED;
	case NVME_ANA_NON_OPTIMIZED: return WAY_OTHER;
	case NVME_ANA_CHANGE: return WAY_CHANGE;
	default: return WAY_NONE;
	}
}

/* NSID alone says nothing: it must be the same namespace. */
static struct way_ns look_up(struct nvmfr_mqpair *mq, const struct ns_entry *entry, uint32_t nsid)
{
	struct way_ns known = { .nsid = nsid, .rank = WAY_NONE };
	bool same;

	if (!entry)
		return known;
	pthread_mutex_lock(&mq->host->lock);
	same = nvmfr__mpath_knows(mq->mpath, entry);
	if (!same)
		nvmfr__log(&mq->host->log, NVMFR_LOG_WARN,
			   "%s: namespace %u is another one on this path, or has no identity: it is not used there",
			   mq->mpath->subnqn, nsid);
	pthread_mutex_unlock(&mq->host->lock);
	if (same)
		known.rank = (uint8_t)rank_of_state(entry->ana_state);
	known.shift = (uint8_t)entry->shift;
	return known;
}

static struct way_ns *cached(struct way *way, uint32_t nsid)
{
	return &way->cache[nsid % MPATH_CACHE];
}

static enum way_rank rank_of(struct nvmfr_mqpair *mq, struct way *way, uint32_t nsid)
{
	struct nvmfr_qpair *qp = way->qp;
	struct way_ns *known = cached(way, nsid);

	if (!qp || way->leaving)
		return WAY_NONE;
	if (qpair_has_news(qp))
		nvmfr__qpair_adopt(qp);
	if (!likely_live(qp)) {
		mq->lacking = true;
		return WAY_NONE;
	}
	if (nsid == NVME_NSID_ALL)
		return WAY_OPTIMIZED;
	if (way->table != qp->ns) {
		nvmfr__ns_table_put(way->table);
		way->table = nvmfr__ns_table_get(qp->ns);
		memset(way->cache, 0, sizeof(way->cache));
	}
	if (known->nsid != nsid)
		*known = look_up(mq, nvmfr__ns_find(qp->ns, nsid), nsid);
	return (enum way_rank)known->rank;
}

bool nvmfr__ways_lack(const struct nvmfr_mqpair *mq, uint32_t nsid)
{
	bool live = false, saw;

	for (unsigned int i = 0; i < MPATH_MAX; i++)
		live = live || (mq->ways[i].qp && likely_live(mq->ways[i].qp));
	pthread_mutex_lock(&mq->host->lock);
	saw = nvmfr__mpath_saw(mq->mpath, nsid);
	pthread_mutex_unlock(&mq->host->lock);
	return live && !saw && nsid != NVME_NSID_ALL;
}

unsigned int nvmfr__way_shift(const struct way *way, uint32_t nsid)
{
	return way->cache[nsid % MPATH_CACHE].nsid == nsid ? way->cache[nsid % MPATH_CACHE].shift : 0;
}

static int this_node(const struct nvmfr_mqpair *mq)
{
	unsigned int cpu, node;

	return mq->mpath->opts.policy == NVMFR_MPATH_NUMA && getcpu(&cpu, &node) == 0 ? (int)node : -1;
}

int nvmfr__ways_pick(struct nvmfr_mqpair *mq, uint32_t nsid, uint32_t avoid, enum way_rank *best)
{
	enum way_rank least = WAY_CHANGE;
	uint64_t cost = UINT64_MAX;
	int found = -1, node = this_node(mq);

	*best = WAY_NONE;
	for (unsigned int i = 0; i < MPATH_MAX; i++) {
		unsigned int at = (mq->turn + i) % MPATH_MAX;
		struct way *way = &mq->ways[at];
		enum way_rank rank = way->serial ? rank_of(mq, way, nsid) : WAY_NONE;
		uint64_t own = way_cost(mq->mpath->opts.policy, way, node);

		*best = rank < *best ? rank : *best;
		if (avoid >> at & 1 || rank >= WAY_CHANGE || rank > least || (rank == least && own >= cost))
			continue;
		found = (int)at;
		least = rank;
		cost = own;
	}
	if (found >= 0)
		mq->turn = ((unsigned int)found + 1) % MPATH_MAX;
	return found;
}
