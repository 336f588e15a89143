/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Several controllers as ways to the same namespaces. What they are is guarded by the host's lock; a thread's
 * queue pairs are its own, and find out about changes by one number.
 */
#ifndef NVMFR_PATH_MPATH_H
#define NVMFR_PATH_MPATH_H

#include <stdatomic.h>

#include "base/pace.h"
#include "ctrl/ctrl.h"
#include "queue/group.h"
#include "queue/meter.h"

enum {
	MPATH_MAX = 16, /* controllers */
	MPATH_CACHE = 16, /* namespaces whose way is known without a search */
	MPATH_LOSSES = 8, /* that one I/O outlives: it may be what kills them */
	MPATH_PAUSE_MS = 100, /* after all paths refused, and between looks at one that is not there */
};

/* What identifies a namespace: NSIDs do not. */
struct mpath_ns {
	uint32_t nsid;
	uint8_t nguid[16], uuid[16], eui64[8];
};

/* What went by a path. The owner writes, anyone may read, value by value. */
enum way_count {
	WAY_IOS,
	WAY_BYTES,
	WAY_REFUSED,
	WAY_ABORTED,
	WAY_TIMED_OUT,
	WAY_REISSUED, /* of the three before */
	WAY_IN_FLIGHT,
	WAY_BYTES_IN_FLIGHT,
	WAY_COUNTS
};

struct mpath_member {
	struct nvmfr_ctrl *ctrl; /* NULL: free */
	uint32_t serial; /* another one for each add */
	uint64_t counts[WAY_COUNTS]; /* of threads' handles that ended */
};

struct nvmfr_mpath {
	struct nvmfr_host *host;
	struct nvmfr_mpath_opts opts;
	_Atomic uint32_t changes; /* of members */
	uint32_t last_serial;
	struct nvmfr_mqpair *users; /* threads' handles */
	char subnqn[NVME_NQN_MAX + 1]; /* of the first one */
	struct mpath_member members[MPATH_MAX];
	struct mpath_ns *spaces; /* as first seen; NSID ascending */
	uint32_t space_count, space_room;
};

/* How good a way is; the lower the better. */
enum way_rank { WAY_OPTIMIZED, WAY_OTHER, WAY_CHANGE, WAY_NONE };

struct way_ns {
	uint32_t nsid; /* 0: free */
	uint8_t rank; /* enum way_rank */
	uint8_t shift; /* of its blocks */
};

/* A thread's path. */
struct way {
	struct nvmfr_qpair *qp; /* NULL: not made yet */
	struct ns_table *table; /* that cache is of; a reference */
	struct way_ns cache[MPATH_CACHE];
	uint64_t counts[WAY_COUNTS];
	uint32_t serial; /* 0: free */
	bool leaving;
	bool told; /* why it has no queue pair */
	int numa_node;
	uint64_t doubt_ns; /* how long a controller may still do what was sent this way; UINT64_MAX: nobody knows */
	uint64_t look_ns; /* the ANA log is not to be asked for again before */
	struct nvmfr_ctrl *ctrl; /* valid under the host's lock while the member is */
};

/* An accepted I/O. */
struct mio {
	struct nvmfr_io io;
	struct mio *next;
	uint64_t user_data;
	uint64_t bytes;
	uint64_t since_ns; /* without a path; 0: not so */
	uint64_t not_before_ns;
	uint32_t avoid; /* ways that refused it, a bit each */
	uint32_t losses;
	uint8_t way;
	bool doubt; /* it may have been done */
};

struct nvmfr_mqpair {
	struct nvmfr_mqpair *next, **prev; /* of the mpath; the host's lock */
	struct nvmfr_host *host;
	struct nvmfr_mpath *mpath;
	struct nvmfr_group *group;
	struct mio *ios, *free;
	struct mio *held, **held_tail; /* wait for a path */
	unsigned int turn; /* the way after the last one taken */
	uint32_t changes; /* as seen */
	uint32_t in_flight;
	uint64_t waiting; /* as way_count */
	bool lacking; /* a way is not as it should be: looked at again at look_ns */
	uint64_t look_ns;
	uint64_t reissued;
	struct way ways[MPATH_MAX];
	struct nvmfr_mqpair_opts opts;
	struct wait_pace pace;
	int epoll_fd, timer_fd; /* over the group's and the timer */
	bool timed; /* the timer is set */
};

/* What a policy says of a way among those of the best rank; the least is taken, in turn where several are. */
static inline uint64_t way_cost(uint32_t policy, const struct way *way, int node)
{
	if (policy == NVMFR_MPATH_LEAST_BYTES)
		return way->counts[WAY_BYTES_IN_FLIGHT];
	return policy == NVMFR_MPATH_NUMA && way->numa_node >= 0 && way->numa_node != node;
}

/* ---- mpath.c: the host's lock held ------------------------------------------------------------ */

int nvmfr__mpath_add(struct nvmfr_mpath *mpath, struct nvmfr_ctrl *ctrl);
int nvmfr__mpath_remove(struct nvmfr_mpath *mpath, const struct nvmfr_ctrl *ctrl);
void nvmfr__mpath_free(struct nvmfr_mpath *mpath);
/* A thread's handle comes; and goes: what it counted stays. */
void nvmfr__mpath_enter(struct nvmfr_mpath *mpath, struct nvmfr_mqpair *mq);
void nvmfr__mpath_leave(struct nvmfr_mqpair *mq);
/* What all threads did by way of a member. */
void nvmfr__mpath_counts(const struct nvmfr_mpath *mpath, const struct mpath_member *member,
			 uint64_t sum[WAY_COUNTS]);
/* Whether there ever was one of that NSID. */
bool nvmfr__mpath_saw(const struct nvmfr_mpath *mpath, uint32_t nsid);
/* Whether it is the namespace that was first seen under its NSID. Who has no identity is none. */
bool nvmfr__mpath_knows(struct nvmfr_mpath *mpath, const struct ns_entry *entry);

/* ---- mqpair.c: the owner ---------------------------------------------------------------------- */

/* All but mpath, group, host and opts is made. 0 or -errno. */
int nvmfr__mqpair_open(struct nvmfr_mqpair *mq);
/* Accepts one that is half open. The group stays. */
void nvmfr__mqpair_close(struct nvmfr_mqpair *mq);
int nvmfr__mqpair_submit(struct nvmfr_mqpair *mq, const struct nvmfr_io *ios, unsigned int n);
int nvmfr__mqpair_poll(struct nvmfr_mqpair *mq, struct nvmfr_completion *out, unsigned int max);
int nvmfr__mqpair_arm(struct nvmfr_mqpair *mq);
void nvmfr__mqpair_wake(const struct nvmfr_mqpair *mq); /* any thread */
/* When a poll is due for what waits. */
uint64_t nvmfr__mqpair_due_ns(const struct nvmfr_mqpair *mq);

/* ---- ways.c: the owner ------------------------------------------------------------------------ */

/* Members that came and went; queue pairs that can be made, or are done with. */
void nvmfr__ways_refresh(struct nvmfr_mqpair *mq);
void nvmfr__ways_end(struct nvmfr_mqpair *mq);
/* The way to take, or -1; *best is the best rank there is, of those to avoid also. */
int nvmfr__ways_pick(struct nvmfr_mqpair *mq, uint32_t nsid, uint32_t avoid, enum way_rank *best);
/* Whether a path is live, and none ever had such a namespace. */
bool nvmfr__ways_lack(const struct nvmfr_mqpair *mq, uint32_t nsid);
/* log2 of a block of what was picked. */
unsigned int nvmfr__way_shift(const struct way *way, uint32_t nsid);

#endif
