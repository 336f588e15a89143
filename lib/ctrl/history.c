/* SPDX-License-Identifier: BSD-3-Clause */
#include "ctrl/history.h"

#include <stdio.h>

#include "ctrl/ctrl.h"

static struct loss *newest(struct ctrl_history *history)
{
	return &history->ring[(history->losses - 1) % HISTORY_MAX];
}

void nvmfr__history_lost(struct nvmfr_ctrl *ctrl, enum nvmfr_state before, int err)
{
	struct ctrl_history *history = &ctrl->history;
	struct loss *loss;

	if (before == NVMFR_STATE_CONNECTING)
		return;
	if (before == NVMFR_STATE_LIVE) {
		history->losses++;
		loss = newest(history);
		*loss = (struct loss){ .began_ns = ctrl_now(ctrl), .err = err };
		snprintf(loss->cause, sizeof(loss->cause), "%.*s", (int)sizeof(loss->cause) - 1,
			 ctrl->sentence);
	}
	loss = newest(history);
	loss->attempts = before == NVMFR_STATE_LIVE ? 0 : ctrl->recoveries;
	loss->state = ctrl->state;
	loss->ended_ns = ctrl_now(ctrl);
}

void nvmfr__history_live(struct nvmfr_ctrl *ctrl)
{
	struct ctrl_history *history = &ctrl->history;
	struct loss *loss;

	if (ctrl->state != NVMFR_STATE_RECOVERING)
		return;
	history->recoveries++;
	loss = newest(history);
	loss->attempts = ctrl->recoveries;
	loss->state = NVMFR_STATE_LIVE;
	loss->ended_ns = ctrl_now(ctrl);
	nvmfr__log(&ctrl->host->log, NVMFR_LOG_INFO, "%s: recovered after %llu ms, attempt %u",
		   ctrl->target.subnqn,
		   (unsigned long long)nvmfr__loss_ms(loss, loss->ended_ns), loss->attempts);
}

const struct loss *nvmfr__history_get(const struct ctrl_history *history, uint32_t index)
{
	if (index >= HISTORY_MAX || index >= history->losses)
		return NULL;
	return &history->ring[(history->losses - 1 - index) % HISTORY_MAX];
}

uint64_t nvmfr__loss_ms(const struct loss *loss, uint64_t now_ns)
{
	uint64_t end_ns = loss->state == NVMFR_STATE_RECOVERING ? now_ns : loss->ended_ns;

	return (end_ns - loss->began_ns) / MS_NS(1);
}
