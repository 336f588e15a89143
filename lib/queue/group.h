/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Queue pairs of one thread that are polled together. A poll looks at what completions arrive in and at
 * those queue pairs that have something; the others cost nothing.
 *
 * All of it is the owner's. The service changes `word` (release) whenever it published something to a
 * member, and when time has moved; then every member is looked at.
 */
#ifndef NVMFR_QUEUE_GROUP_H
#define NVMFR_QUEUE_GROUP_H

#include "queue/qpair.h"

enum { GROUP_FABS = 2 }; /* verbs and soft */

struct nvmfr_group {
	/* every poll */
	_Alignas(CACHE_LINE) const _Atomic uint32_t *word; /* on a page that fork wipes */
	uint32_t plain; /* *word while there is one fabric and nobody to ask again; else WORD_NEVER */
	struct fab_group *fabs[GROUP_FABS];

	/* else */
	uint32_t seen; /* *word at the last look at all */
	uint32_t seen_tick;
	const _Atomic uint32_t *tick;
	struct nvmfr_qpair *again, **again_tail; /* have something inside, oldest first */
	unsigned int fab_count;
	struct nvmfr_qpair *members;
	struct wait_pace pace; /* nvmfr_group_wait's */
	const void *host;
	int epoll_fd; /* over owner_fd and what the fabrics add */
	int owner_fd; /* eventfd that wakes the owner */
	struct fab_group_params params;
	struct nvmfr_group *next, **prev; /* the host's list */
};

/* Without a word: the caller's. NULL with a sentence. */
struct nvmfr_group *nvmfr__group_new(const void *host, const _Atomic uint32_t *tick,
				     const struct fab_group_params *params);
/* Accepts NULL. No member may be left; the host's lock held, unless this is a forked child. */
void nvmfr__group_free(struct nvmfr_group *group);

/* What the endpoints of this backend share, made when first needed; the host's lock held. */
int nvmfr__group_fab(struct nvmfr_group *group, const struct fab_ops *ops, struct fab *fab,
		     struct fab_group **out);

/* The owner: a member comes and goes. */
void nvmfr__group_join(struct nvmfr_group *group, struct nvmfr_qpair *qp);
void nvmfr__group_leave(struct nvmfr_qpair *qp);

int nvmfr__group_poll(struct nvmfr_group *group, struct nvmfr_completion *out, unsigned int max);
/* Takes what has arrived, for all; completions stay inside. */
void nvmfr__group_pump(struct nvmfr_group *group);
/* As nvmfr__qpair_arm(). */
int nvmfr__group_arm(struct nvmfr_group *group);
/* A completion of any will wake who sleeps: also of a member that connects. 0 or -errno. */
int nvmfr__group_arm_fabs(struct nvmfr_group *group);
/* The service: time has moved. The host's lock held. */
void nvmfr__group_tick(struct nvmfr_group *group);
/* Whether a completion, or the end of a connect, is still to come. */
bool nvmfr__group_pending(const struct nvmfr_group *group);
uint64_t nvmfr__group_due_ns(const struct nvmfr_group *group);
int nvmfr__group_state_error(void);

static inline bool nvmfr__group_forked(const struct nvmfr_group *group)
{
	return atomic_load_explicit(group->word, memory_order_relaxed) == 0;
}

#endif
