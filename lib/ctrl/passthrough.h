/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Admin commands of the application's, beside the library's own on the same queue.
 *
 * Whoever holds the host's lock may post one and then waits as for any other change. Data lies in a
 * request's own registered memory. A request that is given up (its time is over) stays out with it: the
 * peer may still write there, so the memory is used again or freed only when the answer is in or the
 * endpoint has stopped.
 */
#ifndef NVMFR_CTRL_PASSTHROUGH_H
#define NVMFR_CTRL_PASSTHROUGH_H

#include "ctrl/ctrl.h"

enum request_state {
	REQUEST_FREE = 0,
	REQUEST_SENT, /* someone waits for it */
	REQUEST_GIVEN_UP, /* nobody does */
	REQUEST_ENDED, /* whoever waits has not looked yet */
};

struct admin_request {
	struct admin_request *next;
	enum request_state state;
	int32_t err; /* as nvmfr_completion.result */
	uint16_t status;
	uint64_t result;
	unsigned char *page; /* NULL: none yet */
	size_t page_bytes;
	struct fab_mr mr;
	bool registered;
	bool takes_changes; /* what changed is told once: after it the library looks at all namespaces */
};

struct admin_command {
	struct nvme_sqe sqe; /* but for its descriptor and CID */
	bool to_ctrl, from_ctrl;
	void *data;
	uint32_t bytes;
	uint32_t timeout_ms;
	uint64_t result; /* out */
	uint16_t status; /* out */
};

/* Whether a command may be sent: 0, or -errno with a sentence. The host's lock held. */
int nvmfr__passthrough_check(const struct nvmfr_ctrl *ctrl);

/* Sends it and waits, the host's lock held (let go while waiting). 0 or -errno with a sentence. */
int nvmfr__passthrough(struct nvmfr_ctrl *ctrl, struct admin_command *cmd);

void nvmfr__passthrough_answered(struct nvmfr_ctrl *ctrl, struct admin_request *req,
				 const struct nvmfr_completion *cpl);
/* The endpoint has stopped: nothing will be answered, nobody can write to pages any more. */
void nvmfr__passthrough_stop(struct nvmfr_ctrl *ctrl, struct fab_dev *dev);
void nvmfr__passthrough_free(struct nvmfr_ctrl *ctrl);

#endif
