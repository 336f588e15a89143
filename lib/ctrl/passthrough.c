/* SPDX-License-Identifier: BSD-3-Clause */
#include "ctrl/passthrough.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "ctrl/notice.h"
#include "wire/admin.h"
#include "wire/status.h"

enum { REQUEST_PAGE_BYTES = 4096 };

/* ---- requests and their memory ----------------------------------------------------------------- */

/* Most that may be out: all that keep-alive, a step and the event requests leave. */
static uint32_t room(const struct nvmfr_ctrl *ctrl)
{
	uint32_t aers = nvmfr__min_u32(ctrl->id.aerl + 1u, CTRL_MAX_AERS);

	return ctrl->opts.admin_depth - nvmfr__min_u32(ctrl->opts.admin_depth, aers + 2u);
}

static uint32_t count_out(const struct nvmfr_ctrl *ctrl)
{
	uint32_t n = 0;

	for (const struct admin_request *req = ctrl->requests; req; req = req->next)
		n += req->state == REQUEST_SENT || req->state == REQUEST_GIVEN_UP;
	return n;
}

static void drop_page(struct nvmfr_ctrl *ctrl, struct admin_request *req)
{
	if (req->registered)
		ctrl->ops->mr_dereg(ctrl->ep->dev, &req->mr);
	req->registered = false;
	free(req->page);
	req->page = NULL;
	req->page_bytes = 0;
}

static int make_page(struct nvmfr_ctrl *ctrl, struct admin_request *req, uint32_t bytes)
{
	size_t wanted =
		(bytes + (size_t)REQUEST_PAGE_BYTES - 1) / REQUEST_PAGE_BYTES * REQUEST_PAGE_BYTES;
	int err;

	if (bytes == 0 || (req->registered && req->page_bytes >= bytes))
		return 0;
	drop_page(ctrl, req);
	req->page = aligned_alloc(REQUEST_PAGE_BYTES, wanted);
	if (!req->page)
		return nvmfr__fail(-ENOMEM, "no memory for %u bytes of admin data", bytes);
	req->page_bytes = wanted;
	err = ctrl->ops->mr_reg(ctrl->ep->dev, req->page, wanted,
				FAB_ACCESS_SOURCE | FAB_ACCESS_TARGET, &req->mr);
	req->registered = !err;
	return err ? nvmfr__fail_wrap(err, "memory for %u bytes of admin data", bytes) : 0;
}

/* A free one, best one whose page is long enough; else a new one. Its page is not made yet. */
static struct admin_request *find_request(struct nvmfr_ctrl *ctrl, uint32_t bytes)
{
	struct admin_request *found = NULL;

	for (struct admin_request *req = ctrl->requests; req; req = req->next)
		if (req->state == REQUEST_FREE && (!found || found->page_bytes < bytes))
			found = req;
	if (found)
		return found;
	found = calloc(1, sizeof(*found));
	if (found) {
		found->next = ctrl->requests;
		ctrl->requests = found;
	}
	return found;
}

/* ---- sending ------------------------------------------------------------------------------------- */

int nvmfr__passthrough_check(const struct nvmfr_ctrl *ctrl)
{
	if (ctrl->state == NVMFR_STATE_LIVE)
		return 0;
	if (ctrl->state == NVMFR_STATE_CONNECTING)
		return nvmfr__fail(-EAGAIN, "%s: still connecting", ctrl->target.subnqn);
	if (ctrl->state == NVMFR_STATE_RECOVERING)
		return nvmfr__fail(-EAGAIN, "%s; it is being connected anew: nvmfr_ctrl_wait()",
				   ctrl->sentence);
	return nvmfr__fail(-ENOTCONN, "%s", ctrl->sentence);
}

static int over_time(const struct nvmfr_ctrl *ctrl, const struct admin_command *cmd,
		     const char *what)
{
	return nvmfr__fail(-ETIMEDOUT, "%s: admin command %02xh: %s within %u ms",
			   ctrl->target.subnqn, cmd->sqe.opcode, what, cmd->timeout_ms);
}

/* Until it may be sent: others' commands are out, or a queue that broke waits for its last word. */
static int wait_for_room(struct nvmfr_ctrl *ctrl, const struct admin_command *cmd,
			 uint64_t deadline_ns)
{
	int err = nvmfr__passthrough_check(ctrl);

	if (!err && room(ctrl) == 0)
		return nvmfr__fail(
			-ENOSPC,
			"%s: admin_depth %u leaves no room beside keep-alive and event requests; "
			"7 suits every controller",
			ctrl->target.subnqn, ctrl->opts.admin_depth);
	while (!err && (!ctrl->admin || ctrl->admin->broken || count_out(ctrl) >= room(ctrl))) {
		if (!nvmfr__service_wait(ctrl->host, deadline_ns))
			return over_time(ctrl, cmd, "no room on the admin queue");
		err = nvmfr__passthrough_check(ctrl);
	}
	return err;
}

static int send_command(struct nvmfr_ctrl *ctrl, struct admin_command *cmd,
			struct admin_request **out)
{
	struct admin_request *req = find_request(ctrl, cmd->bytes);
	int err;

	if (!req)
		return nvmfr__fail(-ENOMEM, "no memory for an admin command");
	err = make_page(ctrl, req, cmd->bytes);
	if (err)
		return err;
	if (cmd->bytes) {
		/* A target that answers well and sends nothing leaves zeroes, not what was here before. */
		memset(req->page, 0, cmd->bytes);
		if (cmd->to_ctrl)
			memcpy(req->page, cmd->data, cmd->bytes);
		cmd->sqe.dptr = nvme_sgl_keyed((uintptr_t)req->page, cmd->bytes, req->mr.rkey);
	}
	err = nvmfr__qpair_post_raw(ctrl->admin, &cmd->sqe, (uintptr_t)req);
	if (err)
		return nvmfr__fail(err, "%s: the admin queue is full", ctrl->target.subnqn);
	req->state = REQUEST_SENT;
	req->takes_changes = cmd->sqe.opcode == NVME_ADMIN_GET_LOG_PAGE &&
			     (from_le32(cmd->sqe.cdw10) & 0xff) == NVME_LID_CHANGED_NS;
	*out = req;
	nvmfr__service_wake(ctrl->host);
	return 0;
}

/* ---- the answer ---------------------------------------------------------------------------------- */

static int report(const struct nvmfr_ctrl *ctrl, struct admin_command *cmd,
		  const struct admin_request *req)
{
	cmd->result = req->result;
	cmd->status = req->status;
	if (req->err == -EREMOTEIO)
		return nvmfr__fail(-EREMOTEIO,
				   "%s: admin command %02xh: refused with status 0x%04x, %s",
				   ctrl->target.subnqn, cmd->sqe.opcode, req->status,
				   nvme_status_name(req->status));
	if (req->err)
		return nvmfr__fail(-ECONNABORTED,
				   "%s: admin command %02xh: lost with the connection, "
				   "outcome unknown: %s",
				   ctrl->target.subnqn, cmd->sqe.opcode, ctrl->sentence);
	if (cmd->from_ctrl && cmd->bytes)
		memcpy(cmd->data, req->page, cmd->bytes);
	return 0;
}

int nvmfr__passthrough(struct nvmfr_ctrl *ctrl, struct admin_command *cmd)
{
	struct admin_request *req = NULL;
	uint64_t deadline_ns;
	int err;

	if (cmd->timeout_ms == 0)
		cmd->timeout_ms = ctrl->opts.admin_timeout_ms;
	deadline_ns = ctrl_now(ctrl) + MS_NS(cmd->timeout_ms);
	err = wait_for_room(ctrl, cmd, deadline_ns);
	if (!err)
		err = send_command(ctrl, cmd, &req);
	if (err)
		return err;
	while (req->state == REQUEST_SENT && nvmfr__service_wait(ctrl->host, deadline_ns))
		;
	if (req->state == REQUEST_SENT) {
		req->state = REQUEST_GIVEN_UP;
		return over_time(ctrl, cmd, "no answer");
	}
	err = report(ctrl, cmd, req);
	req->state = REQUEST_FREE;
	return err;
}

void nvmfr__passthrough_answered(struct nvmfr_ctrl *ctrl, struct admin_request *req,
				 const struct nvmfr_completion *cpl)
{
	req->err = cpl->result;
	req->status = cpl->status;
	req->result = cpl->cqe_result;
	req->state = req->state == REQUEST_GIVEN_UP ? REQUEST_FREE : REQUEST_ENDED;
	if (req->takes_changes) {
		ctrl->scan_all = true;
		ctrl->notices |= NOTICE_NAMESPACES;
	}
	nvmfr__service_changed(ctrl->host);
}

void nvmfr__passthrough_stop(struct nvmfr_ctrl *ctrl, struct fab_dev *dev)
{
	for (struct admin_request *req = ctrl->requests; req; req = req->next) {
		if (req->registered)
			ctrl->ops->mr_dereg(dev, &req->mr);
		req->registered = false;
		if (req->state == REQUEST_GIVEN_UP)
			req->state = REQUEST_FREE;
		if (req->state != REQUEST_SENT)
			continue;
		req->err = -ECONNABORTED;
		req->status = 0;
		req->result = 0;
		req->state = REQUEST_ENDED;
	}
}

void nvmfr__passthrough_free(struct nvmfr_ctrl *ctrl)
{
	while (ctrl->requests) {
		struct admin_request *req = ctrl->requests;

		ctrl->requests = req->next;
		free(req->page);
		free(req);
	}
}
