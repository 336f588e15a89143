/* SPDX-License-Identifier: BSD-3-Clause */
/* A command as the application gives it (struct nvmfr_cmd) as one goes out. */
#ifndef NVMFR_QUEUE_COMMAND_H
#define NVMFR_QUEUE_COMMAND_H

#include <stdbool.h>

#include <nvmfr/cmd.h>

#include "queue/qpair.h"
#include "wire/sqe.h"

_Static_assert(sizeof(struct nvmfr_cmd) == sizeof(struct nvme_sqe), "a command's size");

static inline bool nvmfr__cmd_reserved(const struct nvmfr_cmd *cmd)
{
	return cmd->reserved0[0] | cmd->reserved0[1] | cmd->reserved0[2] || cmd->reserved1 ||
	       cmd->reserved2[0] || cmd->reserved2[1];
}

/* But for CID and descriptor, which is an empty one. */
static inline void nvmfr__cmd_to_sqe(const struct nvmfr_cmd *cmd, struct nvme_sqe *sqe)
{
	nvme_sqe_init(sqe, cmd->opcode);
	sqe->nsid = to_le32(cmd->nsid);
	sqe->cdw2 = to_le32(cmd->cdw2);
	sqe->cdw3 = to_le32(cmd->cdw3);
	sqe->cdw10 = to_le32(cmd->cdw10);
	sqe->cdw11 = to_le32(cmd->cdw11);
	sqe->cdw12 = to_le32(cmd->cdw12);
	sqe->cdw13 = to_le32(cmd->cdw13);
	sqe->cdw14 = to_le32(cmd->cdw14);
	sqe->cdw15 = to_le32(cmd->cdw15);
}

/* Checks and sends one. As nvmfr_submit_cmd(). */
int nvmfr__qpair_command(struct nvmfr_qpair *qp, const struct nvmfr_cmd *cmd, struct nvmfr_buffer *buf,
			 uint64_t offset, uint64_t bytes, uint64_t user_data);

/* As nvmfr_compare_and_write(). */
int nvmfr__qpair_fused(struct nvmfr_qpair *qp, const struct nvmfr_io *pair);

/* The one descriptor of a command's data. 0 or -errno with a sentence. */
int nvmfr__command_data(const struct nvmfr_qpair *qp, const struct nvmfr_buffer *buf, uint64_t offset,
			uint64_t bytes, uint8_t opcode, struct nvme_sgl *sgl);

/* Whether the CPU may write there what the controller then reads. 0 or -errno with a sentence. */
int nvmfr__command_memory(const struct nvmfr_buffer *buf, const char *name);

/* Sends an SQE as it is, but for its CID; there is room. buf: what it names, NULL: nothing. */
int nvmfr__command_post(struct nvmfr_qpair *qp, struct nvme_sqe *sqe, const struct nvmfr_buffer *buf,
			uint64_t user_data);

#endif
