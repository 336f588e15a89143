/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "ctrl/notice.h"
#include "ctrl/passthrough.h"
#include "wire/admin.h"
#include "wire/status.h"

int nvmfr__admin_open(struct nvmfr_ctrl *ctrl, struct fab_ep *ep)
{
	struct nvmfr_qpair *qp = nvmfr__qpair_new(0);
	int err;

	if (!qp)
		return nvmfr__fail(-ENOMEM, "no memory for the admin queue");
	ctrl->admin = qp;
	qp->host = ctrl->host;
	qp->word = ctrl->host->alive;
	qp->adopted = 1;
	qp->tick = &ctrl->host->tick;
	err = nvmfr__qpair_attach(qp, ep, ctrl->opts.admin_depth);
	if (!err && !ctrl->page)
		ctrl->page = aligned_alloc(CTRL_PAGE_BYTES, 2 * CTRL_PAGE_BYTES);
	if (!err && !ctrl->page)
		err = nvmfr__fail(-ENOMEM, "no memory for admin data");
	if (!err) {
		memset(ctrl->page, 0, 2 * CTRL_PAGE_BYTES);
		err = ctrl->ops->mr_reg(ep->dev, ctrl->page, 2 * CTRL_PAGE_BYTES,
					FAB_ACCESS_SOURCE | FAB_ACCESS_TARGET, &ctrl->page_mr);
		ctrl->page_registered = !err;
	}
	return err ? err : nvmfr__host_watch(ctrl->host, ctrl->ops->ep_fd(ep));
}

void nvmfr__admin_close(struct nvmfr_ctrl *ctrl)
{
	if (ctrl->ep && ctrl->admin)
		nvmfr__host_unwatch(ctrl->host, ctrl->ops->ep_fd(ctrl->ep));
	if (ctrl->page_registered) {
		struct fab_dev *dev = ctrl->ep->dev;

		/* First nobody can write there any more, then the keys go. */
		ctrl->ops->ep_stop(ctrl->ep);
		ctrl->ops->mr_dereg(dev, &ctrl->page_mr);
		nvmfr__passthrough_stop(ctrl, dev);
	}
	ctrl->page_registered = false;
	if (ctrl->ep)
		ctrl->ops->ep_destroy(ctrl->ep);
	ctrl->ep = NULL;
	nvmfr__qpair_free(ctrl->admin);
	ctrl->admin = NULL;
	ctrl->keep_alive_ns = UINT64_MAX;
	ctrl->keep_alive_deadline_ns = 0;
	ctrl->aers = ctrl->aborts = 0;
	ctrl->admin_failed = false;
	ctrl->aer_ns = 0;
	ctrl->notices = ctrl->working = 0;
	ctrl->dlog = NULL;
	ctrl->notice_ns = ctrl->end_ns = 0;
	ctrl->ana_due_ns = 0;
	ctrl->ana_overdue = false;
}

/* ---- keep-alive ------------------------------------------------------------------------------ */

/* Traffic counts as keep-alive, too. */
static bool has_tbkas(const struct nvmfr_ctrl *ctrl)
{
	return ctrl->id.ctratt & NVME_CTRATT_TBKAS;
}

static uint64_t interval(const struct nvmfr_ctrl *ctrl)
{
	return MS_NS(ctrl->kato_ms) / (has_tbkas(ctrl) ? 4 : 2);
}

void nvmfr__admin_start_keep_alive(struct nvmfr_ctrl *ctrl)
{
	/* Counted from Connect: that is where the target's clock started at the earliest. */
	if (ctrl->kato_ms)
		ctrl->keep_alive_ns = ctrl->connect_sent_ns + interval(ctrl);
}

/*
 * What the owners have submitted since the last look stands for a Keep Alive. A peer that is dead does not
 * profit by it: what it never answers fills the queues, and then nothing is submitted.
 */
static bool put_off(struct nvmfr_ctrl *ctrl, uint64_t now)
{
	uint32_t since = ctrl->traffic_tick;

	ctrl->traffic_tick = atomic_load_explicit(&ctrl->host->tick, memory_order_relaxed);
	if (!has_tbkas(ctrl) || !since || !nvmfr__ioqueue_sent_since(ctrl, since))
		return false;
	ctrl->keep_alive_ns = now + interval(ctrl);
	return true;
}

static bool send_keep_alive(struct nvmfr_ctrl *ctrl, uint64_t now)
{
	struct nvme_sqe sqe;

	nvme_sqe_keep_alive(&sqe);
	if (nvmfr__qpair_post_raw(ctrl->admin, &sqe, TAG_KEEP_ALIVE))
		return false;
	ctrl->history.keep_alives++;
	ctrl->keep_alive_ns = now + interval(ctrl);
	ctrl->keep_alive_deadline_ns = now + MS_NS(ctrl->kato_ms);
	return true;
}

static uint64_t keep_alive_pass(struct nvmfr_ctrl *ctrl, uint64_t now)
{
	if (ctrl->keep_alive_deadline_ns && now >= ctrl->keep_alive_deadline_ns) {
		nvmfr__ctrl_lose(ctrl, -ETIMEDOUT, "%s: no answer to a Keep Alive for %u ms",
				 ctrl->target.subnqn, ctrl->kato_ms);
		return UINT64_MAX;
	}
	if (ctrl->keep_alive_deadline_ns)
		return ctrl->keep_alive_deadline_ns;
	if (now >= ctrl->keep_alive_ns && !put_off(ctrl, now) && !send_keep_alive(ctrl, now))
		return now + MS_NS(10);
	return ctrl->keep_alive_deadline_ns ? ctrl->keep_alive_deadline_ns : ctrl->keep_alive_ns;
}

static void keep_alive_answered(struct nvmfr_ctrl *ctrl, const struct nvmfr_completion *cpl)
{
	ctrl->keep_alive_deadline_ns = 0;
	if (cpl->result)
		nvmfr__ctrl_lose(ctrl, -ECONNABORTED,
				 "%s: Keep Alive was refused with status 0x%04x, %s",
				 ctrl->target.subnqn, cpl->status, nvme_status_name(cpl->status));
}

/* ---- asynchronous events --------------------------------------------------------------------- */

void nvmfr__admin_arm_aers(struct nvmfr_ctrl *ctrl)
{
	/* Two slots stay for a step and the keep-alive. */
	unsigned int room = ctrl->opts.admin_depth - 2u;
	unsigned int wanted = nvmfr__min_u32(nvmfr__min_u32(ctrl->id.aerl + 1u, CTRL_MAX_AERS), room);
	struct nvme_sqe sqe;

	nvme_sqe_async_event(&sqe);
	while (ctrl->aers < wanted && nvmfr__qpair_post_raw(ctrl->admin, &sqe, TAG_AER) == 0)
		ctrl->aers++;
}

static void aer_answered(struct nvmfr_ctrl *ctrl, const struct nvmfr_completion *cpl)
{
	struct aer_result event = nvme_parse_aer(cpl->cqe_result);

	ctrl->aers--;
	if (cpl->result) {
		/* A controller that takes fewer than it says: those which are out stay. */
		nvmfr__log(&ctrl->host->log, NVMFR_LOG_WARN,
			   "%s: asynchronous event request refused: %s", ctrl->target.subnqn,
			   nvme_status_name(cpl->status));
		return;
	}
	ctrl->history.events++;
	nvmfr__log(&ctrl->host->log, NVMFR_LOG_INFO,
		   "%s: asynchronous event, type %u, information 0x%02x, log page 0x%02x",
		   ctrl->target.subnqn, event.type, event.info, event.lid);
	nvmfr__notice_take(ctrl, &event);
	/* A peer that answers at once shall not keep the service busy: a pause between rounds. */
	if (!ctrl->aer_ns)
		ctrl->aer_ns = ctrl_now(ctrl) + MS_NS(CTRL_AER_PAUSE_MS);
}

static uint64_t aer_pass(struct nvmfr_ctrl *ctrl)
{
	if (!ctrl->aer_ns)
		return UINT64_MAX;
	if (ctrl_now(ctrl) < ctrl->aer_ns)
		return ctrl->aer_ns;
	ctrl->aer_ns = 0;
	nvmfr__admin_arm_aers(ctrl);
	return UINT64_MAX;
}

/* ---- abort ----------------------------------------------------------------------------------- */

bool nvmfr__admin_abort(struct nvmfr_ctrl *ctrl, uint16_t qid, uint16_t cid)
{
	struct nvme_sqe sqe;

	/* ACL is 0's based. */
	nvme_sqe_abort(&sqe, qid, cid);
	if (ctrl->aborts > ctrl->id.acl ||
	    nvmfr__qpair_post_raw(ctrl->admin, &sqe, TAG_ABORT | (uint64_t)qid << 32 | (uint64_t)cid << 48))
		return false;
	ctrl->aborts++;
	ctrl->history.aborts++;
	nvmfr__log(&ctrl->host->log, NVMFR_LOG_WARN,
		   "%s: queue %u: a command is over its time (io_timeout_ms): Abort of CID 0x%04x",
		   ctrl->target.subnqn, qid, cid);
	return true;
}

static void abort_answered(struct nvmfr_ctrl *ctrl, const struct nvmfr_completion *cpl)
{
	ctrl->aborts--;
	if (cpl->result || !nvme_abort_done(cpl->cqe_result))
		nvmfr__ioqueue_not_aborted(ctrl, (uint16_t)(cpl->user_data >> 32),
					   (uint16_t)(cpl->user_data >> 48));
}

/* ---- completions ----------------------------------------------------------------------------- */

static void dispatch(struct nvmfr_ctrl *ctrl, const struct nvmfr_completion *cpl)
{
	if (cpl->user_data == TAG_STEP)
		nvmfr__sequence_answer(ctrl, cpl);
	else if (cpl->user_data == TAG_KEEP_ALIVE)
		keep_alive_answered(ctrl, cpl);
	else if ((uint32_t)cpl->user_data == TAG_ABORT)
		abort_answered(ctrl, cpl);
	else if (cpl->user_data == TAG_AER)
		aer_answered(ctrl, cpl);
	else
		nvmfr__passthrough_answered(ctrl, (struct admin_request *)(uintptr_t)cpl->user_data, cpl);
}

/* Bounded: a peer that answers event requests at once could keep us here for ever. */
void nvmfr__admin_take(struct nvmfr_ctrl *ctrl)
{
	struct nvmfr_completion cpls[8];
	int n = 1;

	for (int left = 64; left > 0 && n > 0 && ctrl->admin; left -= n) {
		n = nvmfr__qpair_poll(ctrl->admin, cpls, ARRAY_SIZE(cpls));
		for (int i = 0; i < n && ctrl->admin; i++)
			dispatch(ctrl, &cpls[i]);
	}
}

/*
 * The queue failed. The fabric's event tells why it did, if it is on its way: one more pass for it.
 * What the peer answered wrongly needs no other word.
 */
static bool failure_waits(struct nvmfr_ctrl *ctrl)
{
	bool first = !ctrl->admin_failed;

	ctrl->admin_failed = true;
	return first && ctrl->admin->err == -ECONNABORTED;
}

uint64_t nvmfr__admin_pass(struct nvmfr_ctrl *ctrl)
{
	nvmfr__admin_take(ctrl);
	if (!ctrl->admin)
		return UINT64_MAX;
	if (!ctrl->admin->broken)
		return nvmfr__min_u64(aer_pass(ctrl), keep_alive_pass(ctrl, ctrl_now(ctrl)));
	if (failure_waits(ctrl))
		return 0;
	nvmfr__ctrl_lose(ctrl, ctrl->admin->err, "%s: %s: %s", ctrl->target.subnqn,
			 ctrl->steps ? nvmfr__sequence_step(ctrl) : "admin queue",
			 ctrl->admin->sentence);
	return UINT64_MAX;
}

uint64_t nvmfr__admin_arm(struct nvmfr_ctrl *ctrl)
{
	int armed;

	if (!ctrl->admin || ctrl->admin_failed)
		return UINT64_MAX;
	armed = nvmfr__qpair_arm(ctrl->admin);
	if (armed < 0) {
		nvmfr__ctrl_lose(ctrl, armed, "%s: admin queue: %s", ctrl->target.subnqn,
				 nvmfr__err_get());
		return UINT64_MAX;
	}
	return armed ? 0 : ctrl->ops->ep_due_ns(ctrl->ep);
}
