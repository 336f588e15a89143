/* SPDX-License-Identifier: BSD-3-Clause */
/* Admin commands of the application's: what may not be sent is refused here. */
#include <errno.h>
#include <string.h>

#include <nvmfr/cmd.h>

#include "api/check.h"
#include "ctrl/passthrough.h"
#include "queue/command.h"
#include "wire/admin.h"

/* Why a command is not the application's to send; NULL: it is. */
static const char *owned(const struct nvmfr_cmd *cmd)
{
	switch (cmd->opcode) {
	case NVME_FABRICS_OPCODE: return "Fabrics commands make and end the connection";
	case NVME_ADMIN_KEEP_ALIVE: return "Keep Alive is sent by the library";
	case NVME_ADMIN_ASYNC_EVENT_REQUEST:
		return "Asynchronous Event Requests are sent by the library";
	case NVME_ADMIN_ABORT: return "Abort names CIDs, which are the library's";
	case NVME_ADMIN_CREATE_SQ:
	case NVME_ADMIN_CREATE_CQ:
	case NVME_ADMIN_DELETE_SQ:
	case NVME_ADMIN_DELETE_CQ:
		return "queues are made and ended with nvmfr_qpair_create() and _destroy()";
	case NVME_ADMIN_SET_FEATURES: break;
	default: return NULL;
	}
	switch (cmd->cdw10 & 0xff) {
	case NVME_FEAT_NUM_QUEUES: return "Number of Queues is set by the library (num_io_queues)";
	case NVME_FEAT_ASYNC_EVENT_CONFIG:
		return "Asynchronous Event Configuration is set by the library";
	case NVME_FEAT_KATO: return "the Keep Alive Timer is set by the library (kato_ms)";
	case NVME_FEAT_HOST_ID: return "the Host Identifier is set by the library (hostid)";
	default: return NULL;
	}
}

static int check_cmd(const struct nvmfr_cmd *cmd, const void *data, size_t bytes)
{
	const char *why;

	if (!cmd)
		return nvmfr__fail(-EINVAL, "cmd is NULL");
	if (nvmfr__cmd_reserved(cmd))
		return nvmfr__fail(-EINVAL, "a reserved field of struct nvmfr_cmd is not zero");
	why = owned(cmd);
	if (why)
		return nvmfr__fail(-EPERM, "admin command %02xh: %s", cmd->opcode, why);
	if (!data != !bytes)
		return nvmfr__fail(-EINVAL, "data is %s, and bytes is %zu",
				   data ? "not NULL" : "NULL", bytes);
	if (bytes && nvme_opcode_transfer(cmd->opcode) == NVME_TRANSFER_NONE)
		return nvmfr__fail(
			-EINVAL, "admin command %02xh moves no data (bits 1:0 of its opcode are 0)",
			cmd->opcode);
	if (bytes % 4)
		return nvmfr__fail(-EINVAL, "%zu bytes of data: they are no multiple of 4", bytes);
	if (bytes > NVMFR_ADMIN_MAX_BYTES)
		return nvmfr__fail(-ERANGE, "%zu bytes of data: an admin command takes %u at most",
				   bytes, NVMFR_ADMIN_MAX_BYTES);
	return 0;
}

static int exchange(struct nvmfr_ctrl *ctrl, struct admin_command *cmd)
{
	int err;

	pthread_mutex_lock(&ctrl->host->lock);
	if (ctrl->state == NVMFR_STATE_LIVE && cmd->bytes > ctrl->limits.max_xfer_bytes)
		err = nvmfr__fail(-ERANGE, "%u bytes of data: MDTS allows a command %llu",
				  cmd->bytes, (unsigned long long)ctrl->limits.max_xfer_bytes);
	else
		err = nvmfr__passthrough(ctrl, cmd);
	pthread_mutex_unlock(&ctrl->host->lock);
	return err;
}

int nvmfr_admin(struct nvmfr_ctrl *ctrl, const struct nvmfr_cmd *cmd, void *data, size_t bytes,
		uint64_t *result, uint16_t *status)
{
	struct admin_command command = { .data = data };
	int err = ctrl ? check_host(ctrl->host) : nvmfr__fail(-EINVAL, "ctrl is NULL");

	if (!err)
		err = check_cmd(cmd, data, bytes);
	if (!err) {
		nvmfr__cmd_to_sqe(cmd, &command.sqe);
		command.to_ctrl = nvme_opcode_transfer(cmd->opcode) & NVME_TRANSFER_TO_CTRL;
		command.from_ctrl = nvme_opcode_transfer(cmd->opcode) & NVME_TRANSFER_FROM_CTRL;
		command.bytes = (uint32_t)bytes;
		command.timeout_ms = cmd->timeout_ms;
		err = exchange(ctrl, &command);
	}
	if (result)
		*result = command.result;
	if (status)
		*status = command.status;
	return err;
}
