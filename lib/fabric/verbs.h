/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The verbs backend's own header: only verbs_*.c and its tests include it, but for the probe.
 *
 * QPs belong to librdmacm's ids and so to librdmacm's device context, which the application may share.
 * Its async events are therefore not ours to take: a second, private context hears of the device and its
 * ports, and what befalls a single QP shows in its CQ (receives are always posted, so they are flushed).
 */
#ifndef NVMFR_FABRIC_VERBS_H
#define NVMFR_FABRIC_VERBS_H

#include <infiniband/verbs.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>

#include "base/util.h"
#include "fabric/fabric.h"
#include "wire/cm.h"

enum { VERBS_POLL_BATCH = 64 };

/* Bit 63 of a wr_id: the only thing that tells RECV from SEND in a failed WC. Bits 62 to 32 name the
 * endpoint of a group (verbs_group.c), else they are 0; the rest is the position. */
#define VERBS_RECV_TAG (UINT64_C(1) << 63)

struct verbs_ep;

/*
 * A SEND's work request: of struct ibv_send_wr the part that an RC SEND has, and its elements where the
 * original goes on with what other opcodes have. So one of them is 72 bytes, not 128 and the elements. It
 * is what the floor above knows as struct fab_send.
 */
struct verbs_send {
	uint64_t wr_id;
	struct verbs_send *next;
	struct ibv_sge *sg_list;
	int num_sge;
	enum ibv_wr_opcode opcode;
	unsigned int send_flags;
	uint32_t unused;
	struct ibv_sge sge[2];          /* the capsule; what it carries */
};

struct verbs_dev {
	struct fab_dev base;
	struct verbs_dev *next;
	struct ibv_context *ctx;        /* librdmacm's: PD, MRs, CQs and QPs are there */
	struct ibv_context *watch;      /* ours: async events of device and ports; NULL: none */
	struct rdma_cm_id *keeper;      /* an idle id, so that librdmacm never closes ctx under our MRs */
	struct ibv_pd *pd;
	struct ibv_device_attr attr;
};

struct verbs_fab {
	struct fab_host *fh;
	struct rdma_event_channel *channel;
	int epoll_fd;                   /* over the channel and every watch */
	unsigned int lost;              /* endpoints whose device went and which have not been told */
	struct verbs_dev *devs;
	struct verbs_ep *eps;
	struct verbs_group *groups;
};

enum verbs_state {
	VERBS_IDLE = 0,
	VERBS_ADDR,                     /* address being resolved */
	VERBS_ROUTE,                    /* route being resolved */
	VERBS_CONNECT,                  /* request sent */
	VERBS_UP,
	VERBS_DOWN,                     /* failed or disconnected, and the floor above was told */
};

struct verbs_ep {
	struct fab_ep base;

	/* the owner's, every batch */
	_Alignas(CACHE_LINE) struct ibv_qp *qp;
	struct ibv_cq *cq;
	struct verbs_send *sends;
	struct ibv_recv_wr *recv_wrs;
	uint64_t sticky;                /* FAB_POLL_BAD once it failed */
	uint32_t send_done;             /* the oldest position not known to be done; or their number, for 0 */
	uint32_t recv_next;             /* the oldest receive position not posted */
	uint32_t tag;                   /* of a group: what names it in a wr_id */

	/* made once, before the owner has it */
	_Alignas(CACHE_LINE) struct ibv_comp_channel *comp;
	struct verbs_dev *dev;
	struct fab_mr mr;               /* capsules, responses, tails */
	void *map;                      /* all of them, and the work requests */
	size_t map_bytes;
	struct ibv_sge *recv_sges;
	uint32_t max_sge;               /* of a SEND */
	struct verbs_cq *shared;        /* of a group: whose entries it uses */

	/* control operations, the host's lock held */
	struct verbs_fab *fab;
	struct verbs_ep *next, **prev;
	struct rdma_cm_id *id;
	enum verbs_state state;
	bool linked;                    /* was established: the peer must be told of the end */
	bool lost;                      /* its device went; FAB_EV_DEVICE_GONE is to come */
	struct fab_ep_params params;
	struct nvme_cm_request request;

	pthread_mutex_t qp_lock;        /* the owner's ep_stop against the service's ep_disconnect */
};

static inline struct verbs_fab *nvmfr__to_verbs_fab(struct fab *fab)
{
	return (struct verbs_fab *)(void *)fab;
}

static inline struct verbs_dev *nvmfr__to_verbs_dev(struct fab_dev *dev)
{
	return container_of(dev, struct verbs_dev, base);
}

static inline struct verbs_ep *nvmfr__to_verbs_ep(struct fab_ep *ep)
{
	return container_of(ep, struct verbs_ep, base);
}

/* verbs_dev.c: the device behind an id that has an address, opened at its first use; NULL with a sentence. */
struct verbs_dev *nvmfr__verbs_dev_get(struct verbs_fab *fab, struct rdma_cm_id *id);
int nvmfr__verbs_numa_node(const struct ibv_device *device); /* -1: unknown */
/* The device of a context went: it is not used again, and its endpoints are marked. */
void nvmfr__verbs_gone(struct verbs_fab *fab, const struct ibv_context *ctx);
/* Takes the async events that there are; marks endpoints of devices that went. */
void nvmfr__verbs_watch(struct verbs_fab *fab);

/* verbs_ep.c: rings, CQ and QP of an endpoint whose id has a route; receives are posted. */
int nvmfr__verbs_queue_create(struct verbs_ep *ep);
void nvmfr__verbs_queue_destroy(struct verbs_ep *ep);
void nvmfr__verbs_stop(struct fab_ep *ep);

/* verbs_group.c */
int nvmfr__verbs_group_create(struct fab *fab, const struct fab_group_params *params,
			      struct fab_group **out);
void nvmfr__verbs_group_destroy(struct fab_group *group);
int nvmfr__verbs_group_adopt(struct fab_ep *ep, void *member);
struct fab_ep *nvmfr__verbs_group_pump(struct fab_group *group);
int nvmfr__verbs_group_arm(struct fab_group *group);
/* The service: a shared CQ with room for an endpoint of known size, and a name. */
int nvmfr__verbs_group_join(struct verbs_ep *ep);
void nvmfr__verbs_group_leave(struct verbs_ep *ep);
/* A device went: who has CQs on it lets them go as soon as no endpoint uses them. The host's lock is held. */
void nvmfr__verbs_groups_gone(struct verbs_fab *fab);
/* Whoever has the endpoint: it failed outside of a CQ; the next poll tells. */
void nvmfr__verbs_group_failed(struct verbs_ep *ep);
/* The owner ends an endpoint that it adopted. */
void nvmfr__verbs_group_disown(struct verbs_ep *ep);
uint64_t nvmfr__verbs_group_poll(struct fab_ep *ep);
int nvmfr__verbs_group_arm_ep(struct fab_ep *ep);
extern const struct fab_ops nvmfr__fab_verbs_grouped;

/* verbs_cm.c */
int nvmfr__verbs_next_event(struct fab *fab, struct fab_event *ev);
int nvmfr__verbs_ep_create(struct fab *fab, const struct fab_ep_params *params, struct fab_ep **out);
int nvmfr__verbs_ep_connect(struct fab_ep *ep, const void *req, size_t req_bytes);
void nvmfr__verbs_ep_disconnect(struct fab_ep *ep);
void nvmfr__verbs_ep_destroy(struct fab_ep *ep);

/* verbs_text.c: causes in words. Each writes a sentence to text and returns the -errno that it means. */
int nvmfr__verbs_addr_text(char *text, size_t bytes, int status, const struct verbs_ep *ep);
int nvmfr__verbs_reject_text(struct fab_event *ev, int status, const void *data, size_t bytes,
			     const struct verbs_ep *ep);
const char *nvmfr__verbs_wc_hint(enum ibv_wc_status status);

/* verbs_mr.c */
int nvmfr__verbs_mr_reg(struct fab_dev *dev, void *addr, size_t bytes, uint32_t access,
			struct fab_mr *mr);
int nvmfr__verbs_mr_reg_dmabuf(struct fab_dev *dev, int fd, uint64_t offset, size_t bytes,
			       uint64_t iova, uint32_t access, struct fab_mr *mr);
void nvmfr__verbs_mr_dereg(struct fab_dev *dev, struct fab_mr *mr);

/* verbs_data.c */
void nvmfr__verbs_rings_build(struct verbs_ep *ep);
int nvmfr__verbs_post_send(struct fab_ep *ep, uint32_t first, uint32_t n);
int nvmfr__verbs_post_carrying(struct fab_ep *ep, uint32_t first, uint32_t n, uint32_t told);
int nvmfr__verbs_post_recv(struct fab_ep *ep, uint32_t n);
/* A failed WC makes the endpoint bad, with a sentence. */
void nvmfr__verbs_bad_wc(struct verbs_ep *ep, const struct ibv_wc *wc);
uint64_t nvmfr__verbs_poll(struct fab_ep *ep);
int nvmfr__verbs_arm(struct fab_ep *ep);

/* verbs_probe.c: what this machine offers, as JSON; the bytes that all of it needs, NUL included. */
int nvmfr__verbs_probe(char *text, size_t bytes);

#endif
