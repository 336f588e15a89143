/* SPDX-License-Identifier: BSD-3-Clause */
#include "path/mpath.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"

/* ---- identity -------------------------------------------------------------------------------- */

static bool is_zero(const uint8_t *id, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		if (id[i])
			return false;
	return true;
}

/* 1: the same, -1: another, 0: one of them does not tell. */
static int compare_id(const uint8_t *a, const uint8_t *b, size_t bytes)
{
	if (is_zero(a, bytes) || is_zero(b, bytes))
		return 0;
	return memcmp(a, b, bytes) == 0 ? 1 : -1;
}

/* All that both tell is the same, and something is told by both. */
static bool is_same(const struct mpath_ns *space, const struct ns_entry *entry)
{
	int nguid = compare_id(space->nguid, entry->nguid, sizeof(space->nguid));
	int uuid = compare_id(space->uuid, entry->uuid, sizeof(space->uuid));
	int eui64 = compare_id(space->eui64, entry->eui64, sizeof(space->eui64));

	return nguid >= 0 && uuid >= 0 && eui64 >= 0 && (nguid || uuid || eui64);
}

static uint32_t place_of(const struct nvmfr_mpath *mpath, uint32_t nsid)
{
	uint32_t from = 0, to = mpath->space_count;

	while (from < to) {
		uint32_t middle = from + (to - from) / 2;

		if (mpath->spaces[middle].nsid < nsid)
			from = middle + 1;
		else
			to = middle;
	}
	return from;
}

static bool make_room(struct nvmfr_mpath *mpath)
{
	uint32_t room = nvmfr__max_u32(16, mpath->space_room * 2);
	struct mpath_ns *spaces;

	if (mpath->space_count < mpath->space_room)
		return true;
	spaces = realloc(mpath->spaces, room * sizeof(*spaces));
	if (!spaces)
		return false;
	mpath->spaces = spaces;
	mpath->space_room = room;
	return true;
}

bool nvmfr__mpath_saw(const struct nvmfr_mpath *mpath, uint32_t nsid)
{
	uint32_t place = place_of(mpath, nsid);

	return place < mpath->space_count && mpath->spaces[place].nsid == nsid;
}

bool nvmfr__mpath_knows(struct nvmfr_mpath *mpath, const struct ns_entry *entry)
{
	uint32_t place = place_of(mpath, entry->nsid);
	struct mpath_ns *space;

	if (nvmfr__mpath_saw(mpath, entry->nsid))
		return is_same(&mpath->spaces[place], entry);
	if (!make_room(mpath))
		return false;
	space = &mpath->spaces[place];
	memmove(space + 1, space, (mpath->space_count++ - place) * sizeof(*space));
	space->nsid = entry->nsid;
	memcpy(space->nguid, entry->nguid, sizeof(space->nguid));
	memcpy(space->uuid, entry->uuid, sizeof(space->uuid));
	memcpy(space->eui64, entry->eui64, sizeof(space->eui64));
	return is_same(space, entry);
}

/* ---- members --------------------------------------------------------------------------------- */

static struct mpath_member *find(struct nvmfr_mpath *mpath, const struct nvmfr_ctrl *ctrl)
{
	for (unsigned int i = 0; i < MPATH_MAX; i++)
		if (mpath->members[i].ctrl == ctrl)
			return &mpath->members[i];
	return NULL;
}

static int check_ctrl(struct nvmfr_mpath *mpath, const struct nvmfr_ctrl *ctrl)
{
	if (ctrl->host != mpath->host)
		return nvmfr__fail(-EINVAL, "the controller is another host's");
	if (ctrl->state == NVMFR_STATE_LOST)
		return nvmfr__fail(-ENOTCONN, "the controller is lost");
	if (find(mpath, ctrl))
		return nvmfr__fail(-EEXIST, "the controller is a path already");
	if (strcmp(ctrl->target.subnqn, NVME_DISCOVERY_NQN) == 0)
		return nvmfr__fail(-EINVAL, "a discovery controller has no namespaces");
	if (mpath->subnqn[0] && strcmp(ctrl->target.subnqn, mpath->subnqn) != 0)
		return nvmfr__fail(-EINVAL, "the controller is of subsystem %s, the paths before are of %s",
				   ctrl->target.subnqn, mpath->subnqn);
	for (uint32_t i = 0; ctrl->ns && i < ctrl->ns->count; i++)
		if (!nvmfr__mpath_knows(mpath, &ctrl->ns->entries[i]))
			return nvmfr__fail(-EINVAL,
					   "namespace %u is not the one that the paths before have, or has no identity",
					   ctrl->ns->entries[i].nsid);
	return 0;
}

/* Who sleeps takes it up, too. */
static void changed(struct nvmfr_mpath *mpath)
{
	atomic_fetch_add(&mpath->changes, 1);
	for (struct nvmfr_mqpair *mq = mpath->users; mq; mq = mq->next)
		nvmfr__mqpair_wake(mq);
}

int nvmfr__mpath_add(struct nvmfr_mpath *mpath, struct nvmfr_ctrl *ctrl)
{
	struct mpath_member *member = find(mpath, NULL);
	int err = check_ctrl(mpath, ctrl);

	if (err)
		return err;
	if (!member)
		return nvmfr__fail(-ENOSPC, "%d paths are the most", MPATH_MAX);
	memcpy(mpath->subnqn, ctrl->target.subnqn, sizeof(mpath->subnqn));
	*member = (struct mpath_member){ .ctrl = ctrl, .serial = ++mpath->last_serial };
	ctrl->mpaths++;
	changed(mpath);
	return 0;
}

int nvmfr__mpath_remove(struct nvmfr_mpath *mpath, const struct nvmfr_ctrl *ctrl)
{
	struct mpath_member *member = find(mpath, ctrl);

	if (!member)
		return nvmfr__fail(-ENOENT, "the controller is no path of this handle");
	member->ctrl->mpaths--;
	*member = (struct mpath_member){ .ctrl = NULL };
	changed(mpath);
	return 0;
}

/* ---- counts ---------------------------------------------------------------------------------- */

static void add_counts(const struct nvmfr_mqpair *mq, const struct mpath_member *member, uint64_t sum[WAY_COUNTS])
{
	for (unsigned int i = 0; i < MPATH_MAX; i++)
		for (unsigned int k = 0; mq->ways[i].serial == member->serial && k < WAY_COUNTS; k++)
			sum[k] += meter_read(&mq->ways[i].counts[k]);
}

void nvmfr__mpath_counts(const struct nvmfr_mpath *mpath, const struct mpath_member *member,
			 uint64_t sum[WAY_COUNTS])
{
	memcpy(sum, member->counts, sizeof(member->counts));
	for (const struct nvmfr_mqpair *mq = mpath->users; mq; mq = mq->next)
		add_counts(mq, member, sum);
}

void nvmfr__mpath_enter(struct nvmfr_mpath *mpath, struct nvmfr_mqpair *mq)
{
	mq->next = mpath->users;
	mq->prev = &mpath->users;
	if (mq->next)
		mq->next->prev = &mq->next;
	mpath->users = mq;
}

void nvmfr__mpath_leave(struct nvmfr_mqpair *mq)
{
	*mq->prev = mq->next;
	if (mq->next)
		mq->next->prev = mq->prev;
	for (unsigned int i = 0; i < MPATH_MAX; i++) {
		struct mpath_member *member = &mq->mpath->members[i];

		if (!member->ctrl)
			continue;
		add_counts(mq, member, member->counts);
		member->counts[WAY_IN_FLIGHT] = member->counts[WAY_BYTES_IN_FLIGHT] = 0;
	}
}

/* ---- the end --------------------------------------------------------------------------------- */

void nvmfr__mpath_free(struct nvmfr_mpath *mpath)
{
	/* In a forked child the controllers may be gone before it. */
	for (unsigned int i = 0; i < MPATH_MAX && nvmfr__host_alive(mpath->host); i++)
		if (mpath->members[i].ctrl)
			mpath->members[i].ctrl->mpaths--;
	free(mpath->spaces);
	free(mpath);
}
