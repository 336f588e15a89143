/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fabric boundary: an RC connection, registered memory, SEND and RECV.
 *
 * CIDs, SGLs and capsules are the same code above this line on a NIC and in memory. Nothing is called
 * upwards: what a backend has to say it returns, from next_event() and poll().
 *
 * Rings. The floor above writes a 64-byte SQE into capsules[position] and asks for n consecutive
 * positions to be sent. A position may be written again only when poll() has told that it is done.
 * Responses land in responses[position], in order. Positions are counted modulo the ring's size.
 *
 * Threads. fab and control operations (create, connect, disconnect, destroy, next_event): one thread at
 * a time, the host's lock held. Data operations and ep_stop(): the endpoint's owner, without a lock.
 * Between owner and service an endpoint passes by a release store; never both at once.
 *
 * Groups. Endpoints of one owner may share what completions arrive in. Then a completion of an endpoint
 * that is still the service's is found by the owner; what poll() would have said is kept in the endpoint's
 * mail, and the service is woken to take it.
 */
#ifndef NVMFR_FABRIC_FABRIC_H
#define NVMFR_FABRIC_FABRIC_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/log.h"

enum {
	FAB_MAX_DEVICES = 8,
	FAB_SIGNAL_EVERY = 16, /* one SEND in so many is signaled: positions 15, 31, ... */
	FAB_RECV_BATCH = 16, /* the floor above reposts this many receives at a time */
	FAB_CAPSULE_BYTES = 64,
	FAB_RESPONSE_BYTES = 16,
	FAB_MAX_DESCRIPTORS = 16,
	FAB_TAILS = 32, /* descriptor lists whose SENDs are not done; a power of two */
	FAB_ERROR_TEXT = 192,
};

/* ---- memory ----------------------------------------------------------------------------------- */

enum fab_access {
	FAB_ACCESS_SOURCE = 1, /* the peer reads it (NVMe writes), or a SEND carries it */
	FAB_ACCESS_TARGET = 2, /* the peer writes it (NVMe reads) */
};

struct fab_mr {
	uint32_t lkey, rkey;
	void *handle; /* the backend's own */
};

struct fab_ops;

/* A NIC, or the soft fabric's stand-in for one. Lives until its fab is closed; one that went, until the last of
 * its users did. */
struct fab_dev {
	const struct fab_ops *ops;
	unsigned int index; /* into fab_host.devs and every buffer's keys */
	int numa_node; /* -1: unknown */
	uint64_t max_mr_bytes; /* larger memory is split over several MRs */
	uint32_t max_depth; /* commands in flight that its queues have room for; 0: not known */
	uint32_t max_sge; /* of a SEND; with 1 it carries nothing behind its SQE; 0: not known */
	uint32_t users; /* endpoints and shared CQs; the host's lock */
	_Atomic bool gone; /* the hardware went, or failed for good: nothing new is begun on it */
	char name[64];
};

/* What the backends of one host share with each other and with the floors above. */
struct fab_host {
	struct fab_dev *_Atomic devs[FAB_MAX_DEVICES];
	struct nvmfr__clock *clock;
	const struct nvmfr__log *log;
};

/* Gives dev the next free index. -ENOSPC when FAB_MAX_DEVICES are open. */
int nvmfr__fab_dev_add(struct fab_host *fh, struct fab_dev *dev);

/* ---- endpoint --------------------------------------------------------------------------------- */

struct nvmfr_soft_target;
struct fab_group;

struct fab_ep_params {
	void *owner; /* comes back in events */
	struct fab_group *group; /* NULL: polled on its own */
	uint16_t qid;
	uint16_t depth; /* commands in flight, 1-based */
	uint16_t max_descriptors; /* SGL descriptors a capsule may carry behind its SQE; 0 or 1: none */
	bool in_capsule; /* SENDs may carry data from a buffer (struct fab_carry) */
	bool want_fd; /* fd() and arm() will be used */
	uint8_t tos; /* 0: as routed */
	uint8_t ack_timeout; /* 0: the device's default; else 4.096 us * 2^n */
	uint8_t retry_count, rnr_retry_count;
	uint32_t cm_timeout_ms; /* a bound on each of: address, route */
	struct sockaddr_storage dst; /* verbs */
	struct sockaddr_storage src; /* verbs; ss_family AF_UNSPEC: routing chooses */
	struct nvmfr_soft_target *target; /* soft */
	uint8_t soft_port; /* of it, from 0 on */
};

/*
 * What a SEND carries behind its SQE: the caller's own registered bytes (in-capsule data), or a list of
 * descriptors in tails.
 */
struct fab_carry {
	uint64_t addr;
	uint32_t bytes;
	uint32_t lkey;
};

/*
 * A position's SEND as the backend built it. What it carries is written in place, with pieces 2, and goes
 * out with the next post; that makes it plain again.
 */
struct fab_send {
	uint64_t built[3];
	uint32_t pieces; /* 2: the capsule and what it carries */
	uint32_t built_too[3];
	uint64_t built_last[2];
	struct fab_carry carry;
};
#define FAB_NO_POSITION UINT32_MAX

struct fab_ep {
	const struct fab_ops *ops;
	/* valid from FAB_EV_CONNECTED on */
	unsigned char *capsules; /* send_positions * FAB_CAPSULE_BYTES, zeroed */
	unsigned char *tails; /* FAB_TAILS * tail_bytes: room for lists of SGL descriptors; NULL: none */
	unsigned char *sends; /* send_positions * sizeof(struct fab_send) */
	unsigned char *responses; /* recv_positions * FAB_RESPONSE_BYTES */
	uint32_t tail_bytes; /* 16 * max_descriptors, or 0 */
	uint32_t tails_lkey;
	uint32_t send_positions; /* a multiple of FAB_SIGNAL_EVERY, >= depth + FAB_SIGNAL_EVERY */
	uint32_t recv_positions; /* >= depth + FAB_RECV_BATCH */
	struct fab_dev *dev;
	void *owner;
	/* of a group; the owner's from group_adopt on, before that under the host's lock */
	struct fab_group *group;
	void *member; /* the owner's name for it; NULL: it is the service's still */
	uint64_t mail; /* poll's answer to come */
	struct fab_ep *next_ready;
	bool ready; /* in the group's list */
	void *meter; /* the owner's: what stands between it and these operations */
	char error[FAB_ERROR_TEXT]; /* the owner's: why poll() or post_send() said bad */
	char peer[96]; /* "10.0.0.1:4420", "soft target 'x'": for sentences */
};

/* ---- groups ----------------------------------------------------------------------------------- */

struct fab_group_params {
	pthread_mutex_t *lock; /* the host's */
	int service_fd; /* eventfd: written when an endpoint of the service's got mail */
	int epoll_fd; /* over what the group sleeps on */
	int owner_fd; /* eventfd: written when the owner is to pump, though there is no completion */
	uint32_t max_endpoints; /* room is made for so many; more need more */
};

/* Endpoints of one owner. The list is the owner's: adopted endpoints that poll() has something from. */
struct fab_group {
	const struct fab_ops *ops;
	struct fab_ep *ready, **ready_tail;
	bool more; /* the last pump that named no endpoint left something */
	bool alone; /* poll() of an endpoint finds nothing of the others */
};

static inline void fab_group_add_ready(struct fab_group *group, struct fab_ep *ep)
{
	if (ep->ready)
		return;
	ep->ready = true;
	ep->next_ready = NULL;
	*group->ready_tail = ep;
	group->ready_tail = &ep->next_ready;
}

static inline struct fab_ep *fab_group_take_ready(struct fab_group *group)
{
	struct fab_ep *ep = group->ready;

	group->ready = ep->next_ready;
	if (!group->ready)
		group->ready_tail = &group->ready;
	ep->ready = false;
	return ep;
}

void nvmfr__fab_group_init(struct fab_group *group, const struct fab_ops *ops);
void nvmfr__fab_group_drop_ready(struct fab_group *group, struct fab_ep *ep);

/* ---- events ----------------------------------------------------------------------------------- */

enum fab_event_type {
	FAB_EV_NONE = 0,
	FAB_EV_CONNECTED, /* rings and dev are valid, receives are posted, SENDs may be */
	FAB_EV_FAILED, /* the connect ended: err, text, and for a reject its NVMe status */
	FAB_EV_DISCONNECTED, /* the peer or the fabric ended a connection */
	FAB_EV_DEVICE_GONE,
};

struct fab_event {
	enum fab_event_type type;
	struct fab_ep *ep;
	void *owner;
	int err; /* -errno */
	uint16_t reject_status; /* RDMA transport specification's reject status, 0: none told */
	bool retryable; /* stale connection, no resources: worth another try after a pause */
	uint16_t crqsize; /* FAB_EV_CONNECTED: the peer's word, informative */
	char text[FAB_ERROR_TEXT];
};

/* ---- poll's answer, one packed word ------------------------------------------------------------ */

#define FAB_POLL_RESPONSES(w) ((uint32_t)(w)&0xffffu) /* new ones in the receive ring */
#define FAB_POLL_SENDS(w)     ((uint32_t)((w) >> 16) & 0xffffu) /* positions newly done, oldest first */
#define FAB_POLL_BAD	      (1ull << 32) /* connection failed: see ep->error */
#define FAB_POLL_MORE	      (1ull << 33) /* the CQ was not seen empty */

struct fab; /* a backend, opened for one host */

struct fab_ops {
	const char *name;

	int (*open)(struct fab_host *fh, struct fab **out);
	void (*close)(struct fab *fab); /* no endpoint and no MR may be left */
	int (*fd)(const struct fab *fab); /* readable when next_event has something */
	int (*next_event)(struct fab *fab, struct fab_event *ev); /* 1: one, 0: none, -errno */
	uint64_t (*due_ns)(const struct fab *fab); /* when next_event will have something of its own; UINT64_MAX */

	int (*ep_create)(struct fab *fab, const struct fab_ep_params *params, struct fab_ep **out);
	/* Starts; ends in FAB_EV_CONNECTED or FAB_EV_FAILED. req: 32 bytes of CM private data. */
	int (*ep_connect)(struct fab_ep *ep, const void *req, size_t req_bytes);
	/* QP to error, the peer is told; does not wait. Its events may still come. */
	void (*ep_disconnect)(struct fab_ep *ep);
	/* When it returns no peer can touch memory through this endpoint. No data operation after it. */
	void (*ep_stop)(struct fab_ep *ep);
	/* In any state; includes ep_stop. No event of ep comes after it. */
	void (*ep_destroy)(struct fab_ep *ep);

	/* On failure: -errno and a sentence with the cause in words. */
	int (*mr_reg)(struct fab_dev *dev, void *addr, size_t bytes, uint32_t access, struct fab_mr *mr);
	/* iova is what descriptors will name; fd stays the caller's. */
	int (*mr_reg_dmabuf)(struct fab_dev *dev, int fd, uint64_t offset, size_t bytes, uint64_t iova,
			     uint32_t access, struct fab_mr *mr);
	void (*mr_dereg)(struct fab_dev *dev, struct fab_mr *mr);
	/* One that is gone, without users and MRs: its place in fab_host.devs is free. */
	void (*dev_close)(struct fab *fab, struct fab_dev *dev);

	/* first .. first + n - 1 must not wrap, n >= 1. Answers 0 always, so that a submit can end in it:
	 * what did not go out is told by the next poll (FAB_POLL_BAD, ep->error). post_recv alike. */
	int (*post_send)(struct fab_ep *ep, uint32_t first, uint32_t n);
	/* The same where some of these SENDs carry something. Position `told`, or FAB_NO_POSITION, is signaled
	 * as well: when it is done, what it and those before it carried is the caller's again. */
	int (*post_carrying)(struct fab_ep *ep, uint32_t first, uint32_t n, uint32_t told);
	/* The n oldest receive positions that poll() reported are free again. */
	int (*post_recv)(struct fab_ep *ep, uint32_t n);
	uint64_t (*poll)(struct fab_ep *ep);
	/* The fd becomes readable at the next completion (soft: at the next due time). 1: there may be
	 * something already, poll again; 0: sleep; -errno. Consumes what made the fd readable before. */
	int (*arm)(struct fab_ep *ep);
	int (*ep_fd)(const struct fab_ep *ep);
	/* soft in virtual time: when the next response is due; UINT64_MAX: nothing is, or not known */
	uint64_t (*ep_due_ns)(const struct fab_ep *ep);

	/* By the owner, the host's lock held; so is group_adopt, which takes over a connected endpoint. */
	int (*group_create)(struct fab *fab, const struct fab_group_params *params, struct fab_group **out);
	void (*group_destroy)(struct fab_group *group); /* no endpoint may be left */
	int (*group_adopt)(struct fab_ep *ep, void *member);
	/* By the owner, without a lock: the one endpoint that has something, not on the list, if nothing is
	 * left; else NULL, and on the list who has something. */
	struct fab_ep *(*group_pump)(struct fab_group *group);
	/* The group's epoll descriptor becomes readable at the next completion of any. As arm(). */
	int (*group_arm)(struct fab_group *group);
};

extern const struct fab_ops nvmfr__fab_verbs;
extern const struct fab_ops nvmfr__fab_soft;

#endif
