/* SPDX-License-Identifier: BSD-3-Clause */
/* What became of an association: counts, and the last losses with their cause, and how each ended. */
#ifndef NVMFR_CTRL_HISTORY_H
#define NVMFR_CTRL_HISTORY_H

#include <stdint.h>

#include <nvmfr/nvmfr.h>

struct nvmfr_ctrl;

enum { HISTORY_MAX = 16 };

struct loss {
	uint64_t began_ns, ended_ns;
	uint32_t attempts;
	int32_t err;
	enum nvmfr_state state; /* RECOVERING: it goes on */
	char cause[256];
};

struct ctrl_history {
	uint64_t losses; /* ring[losses % HISTORY_MAX] is the next one's */
	uint64_t recoveries, attempts, admin_commands, keep_alives, events, aborts;
	struct loss ring[HISTORY_MAX];
};

/* The state before was `before`, the present one is set; the controller's sentence is the cause. */
void nvmfr__history_lost(struct nvmfr_ctrl *ctrl, enum nvmfr_state before, int err);
/* Before the state becomes LIVE. */
void nvmfr__history_live(struct nvmfr_ctrl *ctrl);
/* index 0: the newest. NULL: there was none, or it is too long ago. */
const struct loss *nvmfr__history_get(const struct ctrl_history *history, uint32_t index);
/* How long until it was over, or has been going on. */
uint64_t nvmfr__loss_ms(const struct loss *loss, uint64_t now_ns);

#endif
