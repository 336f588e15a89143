/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <string.h>

#include <nvmfr/nvmfr.h>

#include "api/check.h"
#include "base/opts.h"
#include "ctrl/ctrl.h"

void nvmfr_ctrl_opts_init(struct nvmfr_ctrl_opts *opts, size_t size)
{
	struct nvmfr_ctrl_opts defaults = {
		.size = sizeof(defaults),
		.kato_ms = 10000,
		.connect_timeout_ms = 30000,
		.admin_timeout_ms = 10000,
		.num_io_queues = 128,
		.admin_depth = 31,
		.retry_count = 7,
		.rnr_retry_count = 7,
		.reconnect_delay_ms = 1000,
	};

	nvmfr__opts_init(opts, size, &defaults, sizeof(defaults));
}

static int check_ctrl(const struct nvmfr_ctrl *ctrl)
{
	return ctrl ? check_host(ctrl->host) : nvmfr__fail(-EINVAL, "ctrl is NULL");
}

/* const is the caller's view; the lock is ours. */
static struct nvmfr_host *lock(const struct nvmfr_ctrl *ctrl)
{
	pthread_mutex_lock(&ctrl->host->lock);
	return ctrl->host;
}

int nvmfr_connect(struct nvmfr_host *host, const struct nvmfr_ctrl_opts *given,
		  struct nvmfr_ctrl **out)
{
	struct nvmfr_ctrl_opts opts;
	int err;

	if (out)
		*out = NULL;
	err = check_host(host);

	if (!err && (!given || !out))
		err = nvmfr__fail(-EINVAL, "%s is NULL", given ? "out" : "opts");
	if (err)
		return err;
	nvmfr_ctrl_opts_init(&opts, sizeof(opts));
	err = nvmfr__opts_import(&opts, sizeof(opts), given, given->size);
	if (err)
		return nvmfr__fail_wrap(err, "nvmfr_ctrl_opts");
	pthread_mutex_lock(&host->lock);
	err = nvmfr__ctrl_create(host, &opts, out);
	pthread_mutex_unlock(&host->lock);
	if (!err)
		nvmfr__service_wake(host);
	return err;
}

static int ctrl_result(const struct nvmfr_ctrl *ctrl)
{
	if (ctrl->state == NVMFR_STATE_LIVE)
		return 0;
	if (ctrl->state == NVMFR_STATE_LOST) {
		nvmfr__err_set(ctrl->sentence);
		return ctrl->err;
	}
	if (ctrl->state == NVMFR_STATE_RECOVERING && !ctrl->steps)
		return nvmfr__fail(-ETIMEDOUT, "%s: lost, the next attempt is due: %s",
				   ctrl->target.subnqn, ctrl->sentence);
	return nvmfr__fail(-ETIMEDOUT, "%s: still connecting, at step '%s'", ctrl->target.subnqn,
			   nvmfr__sequence_step(ctrl));
}

int nvmfr_ctrl_wait(struct nvmfr_ctrl *ctrl, int timeout_ms)
{
	uint64_t deadline;
	struct nvmfr_host *host;
	int err = check_ctrl(ctrl);

	if (err)
		return err;
	host = lock(ctrl);
	deadline = timeout_ms < 0 ? UINT64_MAX : ctrl_now(ctrl) + MS_NS(timeout_ms);
	while (ctrl_is_coming(ctrl) && nvmfr__service_wait(host, deadline))
		;
	err = ctrl_result(ctrl);
	pthread_mutex_unlock(&host->lock);
	return err;
}

int nvmfr_ctrl_state(const struct nvmfr_ctrl *ctrl)
{
	struct nvmfr_host *host;
	int state = check_ctrl(ctrl);

	if (state)
		return state;
	host = lock(ctrl);
	state = (int)ctrl->state;
	pthread_mutex_unlock(&host->lock);
	return state;
}

static void describe(const struct nvmfr_ctrl *ctrl, struct nvmfr_ctrl_info *info)
{
	*info = (struct nvmfr_ctrl_info){
		.size = sizeof(*info),
		.cntlid = ctrl->cntlid,
		.num_io_queues = ctrl->granted,
		.max_queue_depth = (uint16_t)nvme_clamp_depth(
			NVME_MAX_DEPTH, nvme_cap_mqes(ctrl->cap), ctrl->id.maxcmd),
		.max_sgl_descriptors = (uint16_t)ctrl->limits.max_descriptors,
		.max_xfer_bytes = (uint32_t)ctrl->limits.max_xfer_bytes,
		.max_icd_bytes = ctrl->limits.icd_bytes,
		.ns_count = ctrl->ns ? ctrl->ns->count : 0,
		.kato_ms = ctrl->kato_ms,
		.version = ctrl->vs,
		.vid = ctrl->id.vid,
		.oncs = ctrl->id.oncs,
		.mdts = ctrl->id.mdts,
		.numa_node = ctrl->numa_node,
	};
	memcpy(info->serial, ctrl->id.sn, sizeof(info->serial));
	memcpy(info->model, ctrl->id.mn, sizeof(info->model));
	memcpy(info->firmware, ctrl->id.fr, sizeof(info->firmware));
	memcpy(info->subnqn, ctrl->target.subnqn, sizeof(info->subnqn));
	memcpy(info->device, ctrl->device, sizeof(info->device));
}

int nvmfr_ctrl_info(const struct nvmfr_ctrl *ctrl, struct nvmfr_ctrl_info *info)
{
	struct nvmfr_ctrl_info full;
	struct nvmfr_host *host;
	int err = check_ctrl(ctrl);

	if (!err)
		err = check_info(info, info ? info->size : 0, "nvmfr_ctrl_info");
	if (err)
		return err;
	host = lock(ctrl);
	if (ctrl->state == NVMFR_STATE_CONNECTING)
		err = nvmfr__fail(-EAGAIN, "%s: still connecting", ctrl->target.subnqn);
	else
		describe(ctrl, &full);
	pthread_mutex_unlock(&host->lock);
	if (!err)
		nvmfr__opts_export(info, info->size, &full, sizeof(full));
	return err;
}

uint32_t nvmfr_ns_next(const struct nvmfr_ctrl *ctrl, uint32_t after_nsid)
{
	const struct ns_entry *entry;
	struct nvmfr_host *host;
	uint32_t nsid;

	if (check_ctrl(ctrl))
		return 0;
	host = lock(ctrl);
	entry = nvmfr__ns_after(ctrl->ns, after_nsid);
	nsid = entry ? entry->nsid : 0;
	pthread_mutex_unlock(&host->lock);
	return nsid;
}

static void describe_ns(const struct ns_entry *entry, struct nvmfr_ns_info *info)
{
	*info = (struct nvmfr_ns_info){
		.size = sizeof(*info),
		.capacity_blocks = entry->blocks,
		.nsid = entry->nsid,
		.block_bytes = 1u << entry->shift,
		.metadata_bytes = entry->metadata_bytes,
		.read_only = entry->write_protected,
		.ana_state = entry->ana_state,
		.ana_group = entry->ana_group,
	};
	memcpy(info->nguid, entry->nguid, sizeof(info->nguid));
	memcpy(info->uuid, entry->uuid, sizeof(info->uuid));
	memcpy(info->eui64, entry->eui64, sizeof(info->eui64));
}

int nvmfr_ns_info(const struct nvmfr_ctrl *ctrl, uint32_t nsid, struct nvmfr_ns_info *info)
{
	const struct ns_entry *entry;
	struct nvmfr_ns_info full;
	struct nvmfr_host *host;
	int err = check_ctrl(ctrl);

	if (!err)
		err = check_info(info, info ? info->size : 0, "nvmfr_ns_info");
	if (err)
		return err;
	host = lock(ctrl);
	entry = nvmfr__ns_find(ctrl->ns, nsid);
	if (entry)
		describe_ns(entry, &full);
	else
		err = nvmfr__fail(-ENOENT, "namespace %u is not active on this controller", nsid);
	pthread_mutex_unlock(&host->lock);
	if (!err)
		nvmfr__opts_export(info, info->size, &full, sizeof(full));
	return err;
}

int nvmfr_disconnect(struct nvmfr_ctrl *ctrl, int timeout_ms)
{
	struct nvmfr_host *host;
	uint64_t deadline;

	if (!ctrl)
		return 0;
	if (!nvmfr__host_alive(ctrl->host)) {
		nvmfr__ctrl_forget(ctrl);
		return 0;
	}
	host = lock(ctrl);
	if (ctrl->mpaths) {
		pthread_mutex_unlock(&host->lock);
		return nvmfr__fail(-EBUSY, "the controller is a path: nvmfr_mpath_remove() first");
	}
	if (ctrl->entries) {
		pthread_mutex_unlock(&host->lock);
		return nvmfr__fail(-EBUSY,
				   "the controller has queue pairs: nvmfr_qpair_destroy() first");
	}
	deadline = ctrl_now(ctrl) + MS_NS(timeout_ms < 0 ? 0 : timeout_ms);
	if (timeout_ms > 0) {
		nvmfr__ctrl_shut_down(ctrl, deadline);
		nvmfr__service_wake(host);
		while (!ctrl->shut_down && nvmfr__service_wait(host, deadline))
			;
	}
	nvmfr__log(&host->log, NVMFR_LOG_INFO, "%s: disconnected%s", ctrl->target.subnqn,
		   ctrl->shut_down ? "" : ", without a shutdown");
	nvmfr__ctrl_free(ctrl);
	pthread_mutex_unlock(&host->lock);
	return 0;
}
