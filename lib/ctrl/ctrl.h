/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One association: its connect sequence, admin queue, keep-alive, namespaces and I/O queues. All of it
 * is the service's, under the host's lock.
 */
#ifndef NVMFR_CTRL_CTRL_H
#define NVMFR_CTRL_CTRL_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <nvmfr/nvmfr.h>

#include "ctrl/history.h"
#include "ctrl/host.h"
#include "ctrl/resolve.h"
#include "ctrl/target.h"
#include "queue/qpair.h"
#include "wire/ana.h"
#include "wire/discovery.h"
#include "wire/fabrics.h"
#include "wire/identify.h"
#include "wire/limits.h"

enum {
	CTRL_QID_WORDS = (UINT16_MAX + 1) / 64,
	CTRL_PAGE_BYTES = 4096,
	CTRL_PARALLEL_QUEUES = 8, /* I/O queues that connect at a time */
	CTRL_MAX_AERS = 4,
	CTRL_MAX_NAMESPACES = 1 << 20, /* more active ones are a peer's nonsense: 64 MiB of ours */
	CTRL_RETRY_FIRST_MS = 10, /* after a reject worth a retry; doubles */
	CTRL_RETRY_MAX_MS = 1000,
	CTRL_POLL_RDY_MS = 5,
	CTRL_AER_PAUSE_MS = 10,
};

/* What a step of a sequence says. */
enum step_result {
	STEP_SENT = 0, /* start: its answer will come, or an event */
	STEP_NEXT, /* done */
	STEP_AGAIN, /* start once more now */
	STEP_LATER, /* start once more after ctrl->pause_ms */
};

struct step {
	const char *name;
	int (*start)(struct nvmfr_ctrl *ctrl); /* enum step_result or -errno */
	int (*answer)(struct nvmfr_ctrl *ctrl, uint64_t result); /* to a good completion */
	int (*refused)(struct nvmfr_ctrl *ctrl, uint16_t status); /* NULL: an error */
};

/* A queue's connection attempt; admin and I/O queues alike. */
struct attempt {
	unsigned int tries;
	uint64_t retry_ns; /* when the next one may start */
};

enum entry_phase {
	ENTRY_WAITING = 1, /* for its turn, or the pause after a reject */
	ENTRY_FABRIC, /* the RC connection is being made */
	ENTRY_CONNECT, /* Fabrics Connect is out */
	ENTRY_LIVE, /* the owner's */
	ENTRY_LOST,
};

/* What the service knows of an I/O queue. */
struct entry {
	struct entry *next, **prev;
	struct nvmfr_ctrl *ctrl;
	struct nvmfr_qpair *qp;
	struct fab_ep *ep; /* while connecting; then qp->link.ep */
	struct nvmfr_qpair *boot; /* while Fabrics Connect is out */
	bool boot_failed; /* it broke; the reason may still come as an event */
	uint32_t connects; /* that it became live */
	uint64_t recover_ns; /* ENTRY_LOST: not to be connected anew before */
	uint64_t fast_fail_ns; /* lost: when that is told; 0: not, or it was */
	enum entry_phase phase;
	struct attempt attempt;
	uint64_t deadline_ns;
	uint16_t qid, depth;
	uint16_t max_descriptors;
	struct fab_group *group; /* NULL: polled on its own */
};

struct nvmfr_ctrl {
	struct nvmfr_ctrl *next;
	struct nvmfr_host *host;
	struct nvmfr_ctrl_opts opts; /* strings are in target */
	struct target target;
	struct nvmfr_soft_target *own_soft; /* made for this association */
	struct nvmfr_soft_target *soft;
	const struct fab_ops *ops;
	struct fab *fab;

	enum nvmfr_state state;
	int err;
	char sentence[512];

	/* the running sequence */
	const struct step *steps; /* NULL: none runs */
	unsigned int step, step_count;
	bool step_waits; /* for an answer or an event */
	uint64_t resume_ns; /* STEP_LATER: when */
	uint64_t deadline_ns; /* of the whole sequence */
	uint64_t command_deadline_ns; /* of the command that is out */
	uint32_t pause_ms;
	bool shut_down; /* the shutdown sequence has ended */
	bool ending; /* nvmfr_disconnect runs */

	/* lost, and being made anew */
	uint64_t give_up_ns; /* when it is lost for good */
	uint64_t recover_ns; /* when the next attempt starts */
	unsigned int recoveries; /* attempts since the loss */
	struct ctrl_history history;

	/* connecting */
	struct resolve *resolve;
	struct sockaddr_storage dst, src;
	struct attempt attempt;
	uint64_t ready_deadline_ns; /* CAP.TO */

	/* the admin queue */
	struct fab_ep *ep;
	struct nvmfr_qpair *admin;
	unsigned char *page; /* CTRL_PAGE_BYTES for the step's data, then Connect data of I/O queues */
	unsigned char data[CTRL_PAGE_BYTES]; /* the answer's data, out of the peer's reach */
	struct fab_mr page_mr;
	bool page_registered;
	bool admin_failed; /* its queue broke; the reason may still come as an event */
	uint64_t connect_sent_ns; /* Fabrics Connect: the keep-alive timer's start */
	uint64_t keep_alive_ns; /* next one; UINT64_MAX: none */
	uint64_t keep_alive_deadline_ns; /* of the one that is out; 0: none is */
	uint32_t traffic_tick; /* at the last look for traffic, which counts as keep-alive (TBKAS) */
	unsigned int aborts; /* that are out */
	unsigned int aers;
	uint64_t aer_ns; /* when those that were answered go out again; 0: none was */
	bool no_health; /* it refused to be asked for health events */
	struct admin_request *requests; /* passthrough.h: the application's, in any state */

	/* what it told, and the work that follows; see notice.h */
	unsigned int notices; /* to be done */
	unsigned int working; /* what the running sequence does; 0: it connects or ends */
	uint64_t notice_ns; /* when the next may begin; 0: at once */
	uint32_t notice_pause_ms; /* after a failure; doubles */
	struct dlog *dlog; /* the job that somebody waits for; NULL: none */
	bool quiet; /* the application does not know this controller: no events of its state */
	struct nvmfr_ctrl *told_as; /* changes of its log are told in the name of that one; NULL: its own */
	bool stays; /* its end, or that it is back, is told as a change */
	unsigned int referred_news; /* changes that were told as this one's */
	uint64_t lost_ns; /* fast_io_fail_ms begins, for all queues that were lost together */
	uint64_t end_ns; /* nvmfr_disconnect() waits for the work's end, until then; 0: no */

	/* what it said */
	char device[65];
	int numa_node; /* the device's; -1: unknown */
	uint64_t cap;
	uint32_t vs;
	uint16_t cntlid;
	struct ctrl_data id;
	struct queue_limits limits;
	uint16_t granted;
	uint32_t kato_ms;

	/* namespaces */
	struct ns_table *ns;
	uint32_t ns_generation; /* of ns */
	uint32_t *nsids; /* while the list is read */
	uint32_t nsid_count, nsid_at;
	struct ns_table *ns_gone; /* what had an NSID that nobody has now; NULL: none */
	struct ns_table *ns_next;
	uint32_t *changed; /* of these the rest is known still; NULL: all are read */
	uint32_t changed_count;
	bool scan_all; /* what changed was told once and could not be read */
	uint8_t scan_refusals; /* reads in a row that ended at a refusal which may pass */

	/* ANA; see ana.h */
	struct ana_reader ana; /* while the log is read */
	uint64_t ana_count; /* its change count; 0: it could not be read */
	uint64_t ana_due_ns; /* a namespace is in transition: until then at most; 0: none is */
	bool ana_overdue; /* one was for longer than that */

	unsigned int mpaths; /* handles that it is a path of */
	struct entry *entries;
	unsigned int connecting; /* entries in ENTRY_FABRIC and ENTRY_CONNECT */
	unsigned int waiting; /* in ENTRY_WAITING */
	uint64_t qids[CTRL_QID_WORDS]; /* in use, a bit each */
};

#define TAG_STEP       UINT64_C(1)
#define TAG_KEEP_ALIVE UINT64_C(2)
#define TAG_AER	       UINT64_C(3)
#define TAG_ABORT      UINT64_C(4) /* QID << 32, CID << 48 */

static inline uint64_t ctrl_now(const struct nvmfr_ctrl *ctrl)
{
	return nvmfr__clock_now_ns(&ctrl->host->clock);
}

/* Neither live nor lost for good. */
static inline bool ctrl_is_coming(const struct nvmfr_ctrl *ctrl)
{
	return ctrl->state == NVMFR_STATE_CONNECTING || ctrl->state == NVMFR_STATE_RECOVERING;
}

static inline bool ctrl_is_discovery(const struct nvmfr_ctrl *ctrl)
{
	/* Before NVMe 1.4 controllers did not tell their type. */
	if (ctrl->id.cntrltype == 0)
		return strcmp(ctrl->target.subnqn, NVME_DISCOVERY_NQN) == 0;
	return ctrl->id.cntrltype == NVME_CNTRLTYPE_DISCOVERY;
}

static inline struct nvmfr_host *qpair_host(const struct nvmfr_qpair *qp)
{
	const struct entry *entry = qp->link.entry;

	return entry->ctrl->host;
}

#define MS_NS(ms) ((uint64_t)(ms)*UINT64_C(1000000))

/* ---- ctrl.c: life ------------------------------------------------------------------------------------ */

int nvmfr__ctrl_create(struct nvmfr_host *host, const struct nvmfr_ctrl_opts *opts, struct nvmfr_ctrl **out);
void nvmfr__ctrl_free(struct nvmfr_ctrl *ctrl);
/* In a forked child: the heap's part only, what the kernel and the peer know stays the parent's. */
void nvmfr__ctrl_forget(struct nvmfr_ctrl *ctrl);

/* The association is over, or to be made anew: sentence kept, queues told, endpoint gone. Idempotent once it
 * is lost for good; the first reason stays. */
void nvmfr__ctrl_lose(struct nvmfr_ctrl *ctrl, int err, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* One pass over a controller. Returns when it wants the next. */
uint64_t nvmfr__ctrl_pass(struct nvmfr_ctrl *ctrl);
void nvmfr__ctrl_event(struct nvmfr_host *host, const struct fab_event *ev);

/* Starts the orderly end; ctrl->shut_down tells when it is over. */
void nvmfr__ctrl_shut_down(struct nvmfr_ctrl *ctrl, uint64_t deadline_ns);

/* ---- steps.c: the sequences -------------------------------------------------------------------------- */

extern const struct step nvmfr__connect_steps[];
extern const unsigned int nvmfr__connect_step_count;
extern const struct step nvmfr__shutdown_steps[];
extern const unsigned int nvmfr__shutdown_step_count;

/* ---- sequence.c: the generic loop -------------------------------------------------------------------- */

void nvmfr__sequence_start(struct nvmfr_ctrl *ctrl, const struct step *steps, unsigned int count, uint64_t deadline_ns);
/* Goes on from where the running step stands. Returns when it wants to be called again. */
uint64_t nvmfr__sequence_pass(struct nvmfr_ctrl *ctrl);
void nvmfr__sequence_answer(struct nvmfr_ctrl *ctrl, const struct nvmfr_completion *cpl);
/* The event that a step waited for: enum step_result or -errno. */
void nvmfr__sequence_event(struct nvmfr_ctrl *ctrl, int result);
const char *nvmfr__sequence_step(const struct nvmfr_ctrl *ctrl);
/* Sends the step's command. STEP_SENT or -errno. */
int nvmfr__sequence_send(struct nvmfr_ctrl *ctrl, const struct nvme_sqe *sqe);

/* ---- admin.c: the admin queue in service ------------------------------------------------------------- */

int nvmfr__admin_open(struct nvmfr_ctrl *ctrl, struct fab_ep *ep);
void nvmfr__admin_close(struct nvmfr_ctrl *ctrl);
/* Completions, keep-alive. Returns when it wants to be called again. */
uint64_t nvmfr__admin_pass(struct nvmfr_ctrl *ctrl);
void nvmfr__admin_take(struct nvmfr_ctrl *ctrl); /* completions only */
/* After all that may send: the next completion will start a pass. 0: there may be one already. */
uint64_t nvmfr__admin_arm(struct nvmfr_ctrl *ctrl);
void nvmfr__admin_start_keep_alive(struct nvmfr_ctrl *ctrl);
void nvmfr__admin_arm_aers(struct nvmfr_ctrl *ctrl);
/* False: not now, the controller has as many as it takes. */
bool nvmfr__admin_abort(struct nvmfr_ctrl *ctrl, uint16_t qid, uint16_t cid);

/* ---- ioqueue.c: I/O queues --------------------------------------------------------------------------- */

int nvmfr__ioqueue_create(struct nvmfr_ctrl *ctrl, const struct nvmfr_qpair_opts *opts, struct nvmfr_qpair **out);
/* The owner, lock not held. */
void nvmfr__ioqueue_destroy(struct nvmfr_qpair *qp);
/* The owner, the lock held; frees a group without members. */
void nvmfr__group_end(struct nvmfr_host *host, struct nvmfr_group *group);
/* The controller's namespace table, for all of its queues to adopt. */
void nvmfr__ioqueue_publish_ns(struct nvmfr_ctrl *ctrl);
uint64_t nvmfr__ioqueue_pass(struct nvmfr_ctrl *ctrl);
void nvmfr__ioqueue_event(struct entry *entry, const struct fab_event *ev);
void nvmfr__ioqueue_lose_all(struct nvmfr_ctrl *ctrl);
/* Until when a controller that is lost now may carry out what was sent to it; UINT64_MAX: nobody knows. */
uint64_t nvmfr__ioqueue_doubt_ends(const struct nvmfr_ctrl *ctrl, uint64_t now);
/* The Abort of that command was answered with no. */
void nvmfr__ioqueue_not_aborted(struct nvmfr_ctrl *ctrl, uint16_t qid, uint16_t cid);
/* Whether any queue's owner has submitted something at this tick or later. */
bool nvmfr__ioqueue_sent_since(const struct nvmfr_ctrl *ctrl, uint32_t tick);

/* ---- attempt.c: making an RC connection --------------------------------------------------------------- */

/* Fills what admin and I/O queues have in common and starts. */
int nvmfr__attempt_start(struct nvmfr_ctrl *ctrl, uint16_t qid, uint16_t depth, uint16_t max_descriptors,
			 void *owner, struct fab_group *group, struct fab_ep **out);
/* Whether a failed attempt is worth another one before deadline_ns; then retry_ns is set. */
bool nvmfr__attempt_again(struct nvmfr_ctrl *ctrl, struct attempt *attempt, const struct fab_event *ev,
			  uint64_t deadline_ns);

/* A Fabrics Connect status as errno and sentence. */
int nvmfr__connect_refused(struct nvmfr_ctrl *ctrl, uint16_t qid, uint16_t status);

#endif
