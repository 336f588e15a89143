/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file cmd.h
 * Commands beyond read and write: any admin or I/O command as the specifications have it, and the usual
 * admin ones with a function each. Conventions are those of nvmfr.h.
 */
#ifndef NVMFR_CMD_H
#define NVMFR_CMD_H

#include <nvmfr/nvmfr.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Most bytes of data of an admin command; the controller's MDTS may allow fewer. */
#define NVMFR_ADMIN_MAX_BYTES (UINT32_C(1) << 20)

/**
 * One command as it stands in a submission queue entry, 64 bytes. Values of the dwords are in host byte
 * order. CID, flags (PSDT) and data pointer are the library's.
 *
 * Bits 1:0 of the opcode tell which way its data goes (NVM Express Base Specification, Opcode, Data
 * Transfer): 0 none, 1 to the controller, 2 from it, 3 both.
 */
struct nvmfr_cmd {
	uint8_t opcode;        /**< as specified */
	uint8_t reserved0[3];  /**< zero */
	uint32_t nsid;         /**< namespace; 0xffffffff: all, where the command knows that */
	uint32_t cdw2;         /**< command dword 2 */
	uint32_t cdw3;         /**< command dword 3 */
	uint32_t cdw10;        /**< command dword 10 */
	uint32_t cdw11;        /**< command dword 11 */
	uint32_t cdw12;        /**< command dword 12 */
	uint32_t cdw13;        /**< command dword 13 */
	uint32_t cdw14;        /**< command dword 14 */
	uint32_t cdw15;        /**< command dword 15 */
	uint32_t timeout_ms;   /**< of an admin command; 0: nvmfr_ctrl_opts.admin_timeout_ms. On a queue pair: zero */
	uint32_t reserved1;    /**< zero */
	uint64_t reserved2[2]; /**< zero */
};

/**
 * Sends an admin command and waits for its answer. Several threads may at once: as many commands as the
 * admin queue has room for are in flight (admin_depth less the library's own), the others wait their turn
 * within their time. With NVMFR_HOST_MANUAL it drives the host meanwhile.
 *
 * What would take from the library what it works with is refused with -EPERM: Fabrics commands, Keep Alive,
 * Asynchronous Event Request, Abort, creating and deleting queues, and Set Features of Number of Queues,
 * Asynchronous Event Configuration, Keep Alive Timer and Host Identifier.
 *
 * Data goes by way of memory of the library's, so `data` may be any. After a timeout the command is
 * still the controller's to do: its data ends in that memory, which is kept until the answer or the end of
 * the association, and `data` is the caller's again.
 *
 * @param ctrl    a live controller
 * @param cmd     read only, free again on return
 * @param data    `bytes` of it; NULL with 0. What the controller sends is there after 0 only
 * @param bytes   0, or a multiple of 4 up to NVMFR_ADMIN_MAX_BYTES and MDTS; as the command itself says it
 * @param result  receives CQE dwords 0 and 1, 0 without an answer; NULL: not wanted
 * @param status  receives the NVMe status as in nvmfr_completion.status, 0 without an answer; NULL: not wanted
 *
 * Threads: any.
 * Returns: 0; -EREMOTEIO the controller refused, status and the sentence say why; -ETIMEDOUT no answer, or no
 * room on the admin queue, within the time; -EINVAL or -ERANGE a bad argument, -EPERM not this command, -ENOSPC
 * admin_depth has no room for it, -ENOMEM: nothing was sent; -EAGAIN still connecting; -ENOTCONN lost, it was not
 * sent; -ECONNABORTED lost while it was out, outcome unknown; -EOWNERDEAD in a forked child.
 */
NVMFR_API NVMFR_MUST_CHECK int nvmfr_admin(struct nvmfr_ctrl *ctrl, const struct nvmfr_cmd *cmd, void *data,
					   size_t bytes, uint64_t *result, uint16_t *status);

/**
 * Submits any I/O command as it is given, for what nvmfr_submit() has no name for: also vendor specific ones.
 * Only its form is checked, not whether the controller knows it or its namespace is active and not write
 * protected: the controller answers. It completes like any I/O, with nvmfr_completion.cqe_result.
 *
 * Its data is named by one descriptor, so it must lie in one memory region: buffers above the device's limit
 * (1 GiB and more) have several, with an overlap of 1 MiB. None goes in the capsule.
 *
 * @param qp            the queue pair
 * @param cmd           read only, free again on return; timeout_ms is zero (io_timeout_ms holds)
 * @param buf           registered as the opcode's data needs it: bit 0 NVMFR_ACCESS_SOURCE, bit 1 NVMFR_ACCESS_TARGET;
 *                      NULL with 0 bytes
 * @param offset_bytes  any alignment
 * @param len_bytes     0, or up to nvmfr_ctrl_info.max_xfer_bytes; as the command itself says it
 * @param user_data     comes back in the completion
 *
 * Threads: the owner.
 * Returns: as nvmfr_read(); -EPERM a Fabrics command.
 */
NVMFR_API NVMFR_MUST_CHECK int nvmfr_submit_cmd(struct nvmfr_qpair *qp, const struct nvmfr_cmd *cmd,
						struct nvmfr_buffer *buf, uint64_t offset_bytes,
						uint64_t len_bytes, uint64_t user_data);

#ifdef __cplusplus
}
#endif
#endif
