/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "ctrl/ctrl.h"
#include "wire/cm.h"
#include "wire/status.h"

int nvmfr__attempt_start(struct nvmfr_ctrl *ctrl, uint16_t qid, uint16_t depth,
			 uint16_t max_descriptors, void *owner, struct fab_group *group,
			 struct fab_ep **out)
{
	struct nvme_cm_request req = nvme_cm_request(qid, depth, qid ? ctrl->cntlid : 0);
	struct fab_ep_params params = {
		.owner = owner,
		.group = group,
		.qid = qid,
		.depth = depth,
		.max_descriptors = max_descriptors,
		.in_capsule = qid && ctrl->limits.icd_bytes,
		.want_fd = true,
		.tos = ctrl->opts.tos,
		.ack_timeout = ctrl->opts.ack_timeout,
		.retry_count = ctrl->opts.retry_count,
		.rnr_retry_count = ctrl->opts.rnr_retry_count,
		.cm_timeout_ms = 3000,
		.dst = ctrl->dst,
		.src = ctrl->src,
		.target = ctrl->soft,
		.soft_port = ctrl->target.soft_port,
	};
	int err = ctrl->ops->ep_create(ctrl->fab, &params, out);

	if (err)
		return err;
	err = ctrl->ops->ep_connect(*out, &req, sizeof(req));
	if (err) {
		ctrl->ops->ep_destroy(*out);
		*out = NULL;
	}
	return err;
}

bool nvmfr__attempt_again(struct nvmfr_ctrl *ctrl, struct attempt *attempt,
			  const struct fab_event *ev, uint64_t deadline_ns)
{
	uint32_t pause = (uint32_t)CTRL_RETRY_FIRST_MS << nvmfr__min_u32(attempt->tries, 7);
	uint64_t at = ctrl_now(ctrl) + MS_NS(nvmfr__min_u32(pause, CTRL_RETRY_MAX_MS));

	if (!ev->retryable || at >= deadline_ns)
		return false;
	attempt->tries++;
	attempt->retry_ns = at;
	nvmfr__log(&ctrl->host->log, NVMFR_LOG_INFO, "%s: %s; trying again", ctrl->target.subnqn,
		   ev->text);
	return true;
}

int nvmfr__connect_refused(struct nvmfr_ctrl *ctrl, uint16_t qid, uint16_t status)
{
	switch (nvme_status_code(status)) {
	case NVME_ST_CONNECT_INVALID_HOST:
		return nvmfr__fail(
			-EACCES,
			"the target does not allow host %s to connect to %s (Connect Invalid Host)",
			ctrl->host->hostnqn, ctrl->target.subnqn);
	case NVME_ST_CONNECT_INVALID_PARAM:
		if (qid == 0)
			return nvmfr__fail(
				-ENOENT,
				"the target has no subsystem %s, or refuses another parameter of Connect "
				"(Connect Invalid Parameters)",
				ctrl->target.subnqn);
		return nvmfr__fail(
			-EPROTO,
			"queue %u: the target refuses a parameter of Connect; the controller may be gone",
			qid);
	case NVME_ST_CONNECT_CTRL_BUSY:
		return nvmfr__fail(-EBUSY, "queue %u: the controller is busy", qid);
	case NVME_ST_AUTH_REQUIRED:
		return nvmfr__fail(
			-EACCES,
			"queue %u: the target demands authentication, which this version cannot do",
			qid);
	default:
		return nvmfr__fail(-ECONNREFUSED,
				   "queue %u: Connect was refused with status 0x%04x, %s", qid,
				   status, nvme_status_name(status));
	}
}
