/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a controller tells of itself (asynchronous events), and the work that follows: sequences of
 * steps that run while it is live.
 */
#ifndef NVMFR_CTRL_NOTICE_H
#define NVMFR_CTRL_NOTICE_H

#include "ctrl/ctrl.h"
#include "wire/logpage.h"

/* Work to do: nvmfr_ctrl.notices. */
enum {
	NOTICE_NAMESPACES = 1,
	NOTICE_ANA = 2,
	NOTICE_DISCOVERY = 4,
	NOTICE_LOG_READ = 8, /* asked for by the application: dlog.h */
	NOTICE_ANA_LOOK = 16, /* as NOTICE_ANA, but nobody told of a change */
};

enum { NOTICE_RETRY_FIRST_MS = 1000, NOTICE_RETRY_MAX_MS = 60000 };

/* An answered event request. */
void nvmfr__notice_take(struct nvmfr_ctrl *ctrl, const struct aer_result *aer);
/* Begins the next piece of work, if the controller has nothing else to do. */
void nvmfr__notice_start(struct nvmfr_ctrl *ctrl);
/* When there is more to begin; 0: now. */
uint64_t nvmfr__notice_due(const struct nvmfr_ctrl *ctrl);
/* The running piece is over; err 0: well, else its sentence is the present one. */
void nvmfr__notice_ended(struct nvmfr_ctrl *ctrl, int err);

/* Get Log Page into ctrl->page, of all namespaces, as a step's command. */
int nvmfr__send_get_log(struct nvmfr_ctrl *ctrl, uint8_t lid, uint32_t bytes, uint64_t offset, bool retain);

void nvmfr__event_state(struct nvmfr_ctrl *ctrl);
void nvmfr__event_ns(struct nvmfr_ctrl *ctrl, enum nvmfr_event_type type, uint32_t nsid, uint64_t value);

#endif
