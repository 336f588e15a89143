/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The soft fabric: both ends of a connection in one process.
 *
 * fab and endpoints stand for the NIC of this host, nvmfr_soft_target for NIC and controller of the
 * peer. Whoever serves an endpoint (its owner inside poll(), or the target's thread) makes passes over
 * it; within a pass registered memory and namespaces are touched.
 *
 * Locks, outermost first: target.lock (endpoints, controllers; held during every pass of the thread and
 * of an admin queue), fab.ep_lock, then the leaves fab.event_lock and target.plan_lock. An I/O queue
 * that its owner serves is passed over without target.lock.
 *
 * Passes. soft_ep.pass is odd inside one. Who takes away something that a pass may use (a key, a
 * namespace) makes it unfindable first and then waits until no endpoint is in a pass that began
 * before. All of these accesses are sequentially consistent.
 */
#ifndef NVMFR_FABRIC_SOFT_H
#define NVMFR_FABRIC_SOFT_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <nvmfr/soft.h>

#include "base/util.h"
#include "fabric/fabric.h"
#include "wire/fabrics.h"
#include "wire/identify.h"
#include "wire/logpage.h"
#include "wire/nqn.h"
#include "wire/sqe.h"
#include "wire/status.h"

enum {
	SOFT_MR_CHUNK = 256,
	SOFT_MR_CHUNKS = 1024,
	SOFT_MAX_DEPTH = 32768,
	SOFT_PASS_COMMANDS = 32,  /* a pass is bounded, so that nobody waits long for its end */
	SOFT_AERS = 4,
	SOFT_ANA_GROUPS = 8,
	SOFT_NOTICES = 8,         /* that wait for a request, a controller */
	SOFT_COPY_RANGES = 128,   /* MSRC, MSSRL, MCL */
	SOFT_COPY_RANGE_BLOCKS = 32768,
	SOFT_COPY_BLOCKS = 65536,
	SOFT_PATCHES = 64,
	SOFT_PATCH_BYTES = 16,
	SOFT_VIOLATION_TEXT = 192,
	SOFT_VERSION = 0x010400,  /* VS: 1.4 */
};

#define SOFT_NEVER UINT64_MAX
#define SOFT_DNR UINT16_C(0x4000)

/* ---- this host's side ------------------------------------------------------------------------- */

struct soft_mr {
	_Atomic uint32_t key;     /* as rkey; 0: free */
	uint32_t index;
	uint32_t tag;
	uint32_t access;          /* enum fab_access */
	uint64_t iova;
	uint64_t bytes;
	unsigned char *mem;
	void *map;                /* a dma-buf's mapping */
	size_t map_bytes;
	struct soft_mr *next_free;
};

struct soft_event {
	struct fab_event event;
	struct soft_event *next;
	bool queued;
};

struct soft_ep;

struct fab {
	struct fab_host *fh;
	struct fab_dev dev;
	int event_fd;

	pthread_mutex_t event_lock;
	struct soft_event *event_head, *event_tail;

	pthread_mutex_t ep_lock;
	struct soft_ep *eps;

	pthread_mutex_t mr_lock;
	struct soft_mr *_Atomic mr_chunks[SOFT_MR_CHUNKS];
	struct soft_mr *mr_free;
	uint32_t mr_made;
	uint32_t mr_first_tag;
};

/* One writer (whoever serves the endpoint), any reader: stored and loaded, never added to atomically. */
struct soft_counts {
	_Atomic uint64_t commands;
	_Atomic uint64_t reads;
	_Atomic uint64_t writes;
	_Atomic uint64_t in_capsule_writes;
	_Atomic uint64_t bytes_moved;
	_Atomic uint64_t violations;
	_Atomic uint64_t keep_alives;
	_Atomic uint64_t max_outstanding;
};

static inline void nvmfr__soft_count(_Atomic uint64_t *counter, uint64_t n)
{
	uint64_t old = atomic_load_explicit(counter, memory_order_relaxed);

	atomic_store_explicit(counter, old + n, memory_order_relaxed);
}

/* A response that a fault holds back. */
struct soft_delayed {
	uint64_t due_ns;
	struct nvme_cqe cqe;
};

/* A Read whose data keeps coming. */
struct soft_linger {
	uint64_t until_ns;
	struct nvme_sqe sqe;
};

#define SOFT_STUCK   UINT32_C(0x10000)
#define SOFT_ABORTED UINT32_C(0x20000)

enum soft_fail_state { SOFT_OK = 0, SOFT_FAILING, SOFT_FAILED };

struct soft_ctrl;

struct soft_ep {
	struct fab_ep ep;         /* first */
	struct fab *fab;
	struct nvmfr_soft_target *target;
	uint64_t latency_ns;
	bool threaded;
	bool in_capsule;
	uint8_t port;             /* from 0 on */
	uint16_t qid;
	struct fab_send *sends;
	uint64_t *due_ns;         /* by position, written by post_send; only with a latency */

	/* written by the owner */
	_Alignas(CACHE_LINE) _Atomic uint64_t posted;
	_Atomic uint64_t recv_posted;
	uint64_t scanned;         /* SENDs whose completion was looked at */
	uint64_t done;            /* of these told to the owner */
	uint64_t reported;        /* responses told to the owner */
	uint32_t post_position;
	uint32_t scan_position;

	/* written by whoever serves */
	_Alignas(CACHE_LINE) _Atomic uint64_t pass;
	_Atomic uint64_t produced;
	_Atomic uint64_t sent;    /* SENDs completed */
	_Atomic uint32_t stuck;   /* a CID that a fault holds, with SOFT_STUCK; Abort makes it SOFT_ABORTED */
	uint64_t received;        /* commands the target has seen */
	uint64_t taken;           /* and has executed */
	uint32_t receive_position;
	uint32_t take_position;
	uint32_t response_position;
	uint32_t outstanding;
	uint64_t *cids;           /* outstanding ones, a bit each */
	bool fused_waits;         /* a fused Compare came, its Write did not */
	struct soft_ctrl *ctrl;   /* from Connect on */
	struct soft_delayed *delayed;
	struct soft_linger *linger; /* NULL: none */
	uint32_t n_delayed;
	bool holding;             /* SEND completions are held back until hold_ns */
	bool drop_all;            /* found in a pass: the association ends after it */
	bool no_flow_control;
	uint16_t sqsize;          /* 0's based */
	uint16_t sqhd;
	uint16_t cm_cntlid;
	uint64_t hold_ns;
	uint64_t not_ready_ns;    /* nothing is taken before; 0: it is */
	struct nvme_sqe fused;    /* that Compare */
	struct soft_counts counts;

	/* cold */
	_Alignas(CACHE_LINE) _Atomic int fail_state; /* enum soft_fail_state */
	_Atomic bool armed;
	_Atomic uint64_t kato_due_ns; /* admin queue: when the target loses patience */
	int timer_fd;             /* -1: params.want_fd was not set */
	bool attached;            /* in target.eps; target.lock */
	char fail_text[FAB_ERROR_TEXT];
	struct soft_event answer;
	struct soft_event goodbye;
	struct soft_ep *fab_next, **fab_prev;
	struct soft_ep *target_next, **target_prev;
	struct soft_ep *group_next, **group_prev; /* while ep.member is set; the owner's */
};
_Static_assert(offsetof(struct soft_ep, ep) == 0, "a fab_ep is the start of a soft_ep");

static inline struct soft_ep *nvmfr__soft_ep(struct fab_ep *ep)
{
	return (struct soft_ep *)(void *)ep;
}

/* An Abort is to be carried out. */
static inline bool nvmfr__soft_aborts(const struct soft_ep *ep)
{
	return atomic_load_explicit(&ep->stuck, memory_order_relaxed) & SOFT_ABORTED;
}

static inline bool nvmfr__soft_failed(const struct soft_ep *ep)
{
	return atomic_load_explicit(&ep->fail_state, memory_order_relaxed) != SOFT_OK;
}

/* ---- the target's side ------------------------------------------------------------------------ */

struct soft_ns {
	uint32_t nsid;
	uint32_t shift;           /* of the block */
	uint64_t blocks;
	unsigned char *mem;
	uint64_t file_bytes;      /* beyond it a file namespace reads as zero */
	size_t map_bytes;
	size_t room_bytes;        /* of memory, for a resize: mapped behind it, and not accessible */
	bool is_file;
	bool read_only;
	uint32_t ana_group;       /* from 1 on */
	struct soft_reserve *reserve; /* registrations and reservation */
};

/* Replaced as a whole, never changed. Ascending by NSID. */
struct soft_ns_table {
	uint32_t count;
	struct soft_ns *ns[];
};

/* One association. target.lock, but for the atomics. */
struct soft_ctrl {
	struct soft_ctrl *next, **prev;
	struct soft_ep *admin;    /* NULL when it is gone */
	uint32_t refs;            /* endpoints */
	uint16_t cntlid;
	bool discovery;
	bool dead;
	bool fatal;               /* CSTS.CFS */
	_Atomic bool traffic;     /* since the keep-alive timer began */
	uint32_t cc;
	_Atomic uint64_t ready_at_ns; /* SOFT_NEVER: not enabled; 0: ready */
	uint32_t kato_ms;
	uint32_t event_config;
	bool write_cache_off;
	uint64_t timestamp_ms, timestamp_set_ns; /* 0: never set */
	uint16_t aers[SOFT_AERS];
	uint32_t n_aers;
	uint32_t notices[SOFT_NOTICES]; /* not announced yet: dword 0 of what they will complete with */
	uint32_t n_notices;
	uint64_t masked[4];       /* by log page: announced, and not read yet */
	uint32_t n_changed;
	uint32_t changed[NVME_CHANGED_NS_MAX];
	uint8_t hostid[16];
	char hostnqn[NVME_NQN_FIELD_BYTES];
};

struct soft_planned {
	struct nvmfr_soft_fault fault;
	uint32_t passed;          /* matches let through, of fault.skip */
	uint32_t applied;         /* of fault.count */
};

struct soft_patch {
	uint32_t cns, nsid, offset, len;
	uint8_t bytes[SOFT_PATCH_BYTES];
};

struct nvmfr_soft_target {
	struct nvmfr_soft_target *next; /* next and owner are the api floor's */
	char name[64];
	void *owner;

	struct fab_host *fh;
	struct nvmfr_soft_opts opts;
	char subnqn[NVME_NQN_MAX + 1];
	_Atomic uint32_t refs;

	pthread_mutex_t lock;
	_Atomic uint32_t waiting; /* for lock: the thread lets them in */
	bool dead;
	uint16_t last_cntlid;
	bool shut[NVMFR_SOFT_PORTS];
	_Atomic uint8_t ana[NVMFR_SOFT_PORTS][SOFT_ANA_GROUPS]; /* enum nvmfr_ana_state */
	struct soft_ep *eps;
	struct soft_ctrl *ctrls;
	struct soft_ns_table *_Atomic namespaces;
	struct soft_counts retired; /* of endpoints that are gone */
	unsigned char *entries;   /* of the discovery log, behind the target's own */
	uint32_t n_entries;
	uint64_t log_changes;     /* change count of the ANA and the discovery log */
	uint64_t connections;

	bool threaded;
	bool stop;
	_Atomic bool sleeping;
	pthread_cond_t wake;
	pthread_t thread;

	pthread_mutex_t plan_lock;
	_Atomic uint32_t n_faults;
	struct soft_planned *plan;
	uint32_t n_patches;
	struct soft_patch patches[SOFT_PATCHES];
	char violation[SOFT_VIOLATION_TEXT];
	_Atomic bool violation_unlogged;
	pthread_mutex_t reserve_lock, fused_lock; /* leaves, but for what a fused pair itself takes */
};

void nvmfr__soft_opts_default(struct nvmfr_soft_opts *opts);
void nvmfr__soft_ns_opts_default(struct nvmfr_soft_ns_opts *opts);

/* opts are complete (imported). The sentence of a failure is set. */
int nvmfr__soft_target_new(struct fab_host *fh, const char *name, const struct nvmfr_soft_opts *opts,
			   struct nvmfr_soft_target **out);
/* Drops all; the memory goes with the last reference. */
void nvmfr__soft_target_free(struct nvmfr_soft_target *target);
/* For who keeps a pointer: what it names may be dead, and then refuses connections. */
struct nvmfr_soft_target *nvmfr__soft_target_get(struct nvmfr_soft_target *target);
void nvmfr__soft_target_put(struct nvmfr_soft_target *target);

void nvmfr__soft_drop(struct nvmfr_soft_target *target);
void nvmfr__soft_counters(struct nvmfr_soft_target *target, struct nvmfr_soft_counters *out);

/* The NSID, or -errno with a sentence. */
int nvmfr__soft_ns_add(struct nvmfr_soft_target *target, const struct nvmfr_soft_ns_opts *opts);
int nvmfr__soft_ns_remove(struct nvmfr_soft_target *target, uint32_t nsid);
int nvmfr__soft_ns_resize(struct nvmfr_soft_target *target, uint32_t nsid, uint64_t size_bytes);
int nvmfr__soft_discovery_set(struct nvmfr_soft_target *target, const void *entries, uint32_t count);
void nvmfr__soft_notify(struct nvmfr_soft_target *target, uint32_t notice);
void nvmfr__soft_port_set(struct nvmfr_soft_target *target, uint32_t port, bool up);
void nvmfr__soft_ana_set(struct nvmfr_soft_target *target, uint32_t port, uint32_t group, uint8_t state);

int nvmfr__soft_fault_add(struct nvmfr_soft_target *target, const struct nvmfr_soft_fault *fault);
void nvmfr__soft_fault_clear(struct nvmfr_soft_target *target);
int nvmfr__soft_patch_identify(struct nvmfr_soft_target *target, uint32_t cns, uint32_t nsid,
			       uint32_t offset, const void *bytes, uint32_t len);
void nvmfr__soft_last_violation(struct nvmfr_soft_target *target, char *text, size_t bytes);

/* ---- between the files of the soft fabric ------------------------------------------------------ */

/* soft_mr.c */
int nvmfr__soft_mr_reg(struct fab_dev *dev, void *addr, size_t bytes, uint32_t access,
		       struct fab_mr *mr);
int nvmfr__soft_mr_reg_dmabuf(struct fab_dev *dev, int fd, uint64_t offset, size_t bytes,
			      uint64_t iova, uint32_t access, struct fab_mr *mr);
void nvmfr__soft_mr_dereg(struct fab_dev *dev, struct fab_mr *mr);
void nvmfr__soft_mr_fini(struct fab *fab);
/* In a pass. NULL, and why in words. */
unsigned char *nvmfr__soft_mr_remote(struct fab *fab, uint32_t rkey, uint64_t addr, uint64_t bytes,
				     uint32_t access, const char **why);
unsigned char *nvmfr__soft_mr_local(struct fab *fab, uint32_t lkey, uint64_t addr, uint64_t bytes,
				    const char **why);

/* soft_fabric.c: events */
void nvmfr__soft_push(struct soft_ep *ep, struct soft_event *node);
/* The first failure counts. tell: by an event too. Any thread. */
void nvmfr__soft_ep_fail(struct soft_ep *ep, bool tell, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* Makes the descriptor readable. Any thread. */
void nvmfr__soft_ep_wake(struct soft_ep *ep);

/* soft_ring.c: the owner's data operations */
int nvmfr__soft_post_send(struct fab_ep *base, uint32_t first, uint32_t n);
int nvmfr__soft_post_carrying(struct fab_ep *base, uint32_t first, uint32_t n, uint32_t told);
int nvmfr__soft_post_recv(struct fab_ep *base, uint32_t n);
uint64_t nvmfr__soft_poll(struct fab_ep *base);
int nvmfr__soft_arm(struct fab_ep *base);
int nvmfr__soft_arm_alone(struct soft_ep *ep);
void nvmfr__soft_disarm(struct soft_ep *ep);
/* Whether a poll may find something: by the look of it, without a pass. */
bool nvmfr__soft_may_have_news(const struct soft_ep *ep);
uint64_t nvmfr__soft_ep_due_ns(const struct fab_ep *base);

/* soft_serve.c: passes over an endpoint */
struct soft_cmd {
	struct soft_ep *ep;
	const struct nvme_sqe *sqe;
	unsigned char *capsule;   /* what came behind the SQE */
	uint32_t position;
	uint32_t capsule_bytes;
	uint16_t cid;
	uint16_t status;          /* as in enum nvme_status, with SOFT_DNR or without */
	bool held;                /* no answer now */
	bool close;               /* the connection ends after the answer */
	bool wait;                /* it is taken later, and what follows it */
	uint64_t result;
	const struct nvmfr_soft_fault *fault; /* NULL: none was looked for */
};

/* True: more is due already. target.lock held unless it is an I/O queue that its owner serves. */
bool nvmfr__soft_pass(struct soft_ep *ep);
/* When the next thing of this endpoint is due; 0: now; SOFT_NEVER. */
uint64_t nvmfr__soft_next_due(const struct soft_ep *ep, uint64_t posted);
/* Puts a response on the ring; target.lock or in a pass. */
void nvmfr__soft_respond(struct soft_ep *ep, uint16_t cid, uint64_t result, uint16_t status);
void nvmfr__soft_violation(struct soft_ep *ep, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
/* Nothing of target locked: the sink may call us. */
void nvmfr__soft_log_violation(struct nvmfr_soft_target *target);
/* Waits until no endpoint is in a pass that began before; target.lock held. */
void nvmfr__soft_quiesce(struct nvmfr_soft_target *target);
void nvmfr__soft_wait_pass(struct soft_ep *ep);

/* soft_fused.c: a command that is one of a fused pair, or the one behind its first */
void nvmfr__soft_fused(struct soft_cmd *cmd);

/* soft_reserve.c */
struct soft_reserve *nvmfr__soft_reserve_new(void);
void nvmfr__soft_reserve_free(struct soft_reserve *reserve);
/* A look, without the lock. */
bool nvmfr__soft_reserved(const struct soft_reserve *reserve);
bool nvmfr__soft_reserve_allows(struct soft_cmd *cmd, const struct soft_ns *ns);
void nvmfr__soft_reserve(struct soft_cmd *cmd, const struct soft_ns *ns);
void nvmfr__soft_reserve_report(struct soft_cmd *cmd, const struct soft_ns *ns);

/* In the name of another host; the NVMe status, or -errno with a sentence. */
int nvmfr__soft_reserve_as(struct nvmfr_soft_target *target, const struct nvme_sqe *sqe, const uint8_t hostid[16],
			   uint64_t key, uint64_t other);

/* soft_group.c: the owner's; adopt and disown may be called with the host's lock held */
int nvmfr__soft_group_create(struct fab *fab, const struct fab_group_params *params,
			     struct fab_group **out);
void nvmfr__soft_group_destroy(struct fab_group *base);
int nvmfr__soft_group_adopt(struct fab_ep *base, void *member);
void nvmfr__soft_group_disown(struct soft_ep *ep);
struct fab_ep *nvmfr__soft_group_pump(struct fab_group *base);
int nvmfr__soft_group_arm(struct fab_group *base);
void nvmfr__soft_group_hush(const struct soft_ep *ep);

/* soft_target.c */
void nvmfr__soft_lock(struct nvmfr_soft_target *target);
void nvmfr__soft_unlock(struct nvmfr_soft_target *target);
void nvmfr__soft_connect(struct soft_ep *ep, const void *req, size_t bytes);
/* The endpoint has gone down: target.lock held. */
void nvmfr__soft_settle(struct soft_ep *ep);
void nvmfr__soft_detach(struct soft_ep *ep);
void nvmfr__soft_expire(struct nvmfr_soft_target *target, uint64_t now);
static inline uint64_t nvmfr__soft_now(const struct nvmfr_soft_target *target)
{
	return nvmfr__clock_now_ns(target->fh->clock);
}

/* soft_thread.c */
int nvmfr__soft_thread_start(struct nvmfr_soft_target *target);
void nvmfr__soft_thread_join(struct nvmfr_soft_target *target);
void nvmfr__soft_thread_wake(struct nvmfr_soft_target *target);

/* soft_ctrl.c: Fabrics commands and associations; target.lock held */
void nvmfr__soft_fabrics(struct soft_cmd *cmd);
void nvmfr__soft_ctrl_drop(struct nvmfr_soft_target *target, struct soft_ctrl *ctrl, const char *why);
void nvmfr__soft_ctrl_leave(struct nvmfr_soft_target *target, struct soft_ep *ep);
struct soft_ctrl *nvmfr__soft_ctrl_find(struct nvmfr_soft_target *target, uint16_t cntlid);
void nvmfr__soft_kato_restart(struct nvmfr_soft_target *target, struct soft_ctrl *ctrl);
bool nvmfr__soft_ctrl_ready(struct nvmfr_soft_target *target, const struct soft_ctrl *ctrl);

/* soft_admin.c: target.lock held */
void nvmfr__soft_admin(struct soft_cmd *cmd);
void nvmfr__soft_ns_changed(struct nvmfr_soft_target *target, uint32_t nsid);
void nvmfr__soft_tell(struct nvmfr_soft_target *target, uint32_t notice);
void nvmfr__soft_tell_one(struct soft_ctrl *ctrl, uint32_t notice);

/* soft_log.c: target.lock held */
/* Room bytes of the discovery log from offset on, zeroes behind its end. Returns the bytes of the whole log. */
uint64_t nvmfr__soft_discovery_log(const struct nvmfr_soft_target *target, uint64_t offset, unsigned char *out,
				   size_t room);

/* soft_ana.c */
/* Room bytes of the ANA log of a port from offset on, as nvmfr__soft_discovery_log(). */
uint64_t nvmfr__soft_ana_log(const struct nvmfr_soft_target *target, uint8_t port, uint64_t offset, unsigned char *out,
			     size_t room);
/* 0, or the status of a state in which nothing is read or written. */
uint16_t nvmfr__soft_ana_status(const struct soft_ep *ep, const struct soft_ns *ns);

/* soft_identify.c: target.lock held; page is NVME_IDENTIFY_BYTES, zeroed */
uint16_t nvmfr__soft_identify(struct nvmfr_soft_target *target, const struct soft_ctrl *ctrl,
			      uint32_t cns, uint32_t nsid, unsigned char *page);

/* soft_io.c */
/* The SEND carries more than an SQE: finds it. False: the connection failed. */
bool nvmfr__soft_capsule(struct soft_cmd *cmd);
void nvmfr__soft_io(struct soft_cmd *cmd);
/* The data of a Read that was done, once more. */
void nvmfr__soft_read_again(struct soft_cmd *cmd);
/* Moves exactly bytes between mem and what the SGL names. False: status is set, or the connection failed. */
bool nvmfr__soft_transfer(struct soft_cmd *cmd, void *mem, uint32_t bytes, bool to_host);

/* soft_ns.c */
struct soft_ns *nvmfr__soft_ns_find(struct nvmfr_soft_target *target, uint32_t nsid);
void nvmfr__soft_ns_remove_all(struct nvmfr_soft_target *target);

/* soft_fault.c */
/* The fault that applies now, kind 0 when none does. sqe NULL: a connection request. */
struct nvmfr_soft_fault nvmfr__soft_fault_match(struct nvmfr_soft_target *target, uint16_t qid,
						const struct nvme_sqe *sqe);
void nvmfr__soft_patch_apply(struct nvmfr_soft_target *target, uint32_t cns, uint32_t nsid,
			     unsigned char *page);

static inline void nvmfr__soft_refuse(struct soft_cmd *cmd, uint16_t status)
{
	cmd->status = status | SOFT_DNR;
}

#endif
