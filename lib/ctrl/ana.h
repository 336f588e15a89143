/* SPDX-License-Identifier: BSD-3-Clause */
/* The step that reads the ANA log into the namespace table that is being made, and what follows from it. */
#ifndef NVMFR_CTRL_ANA_H
#define NVMFR_CTRL_ANA_H

#include "ctrl/ctrl.h"

static inline bool ctrl_has_ana(const struct nvmfr_ctrl *ctrl)
{
	return (ctrl->id.cmic & NVME_CMIC_ANA) && !ctrl_is_discovery(ctrl);
}

/* While connecting, and when namespaces changed: for the table to come, where the controller has ANA. */
int nvmfr__start_ana_scan(struct nvmfr_ctrl *ctrl);
/* When it told of a change: for a copy of the table in use. */
int nvmfr__start_ana(struct nvmfr_ctrl *ctrl);
int nvmfr__answer_ana(struct nvmfr_ctrl *ctrl, uint64_t result);
int nvmfr__refused_ana(struct nvmfr_ctrl *ctrl, uint16_t status);
/* The table, if a state is another one, and the word of it. */
int nvmfr__publish_ana(struct nvmfr_ctrl *ctrl);

/* ANATT bounds the state "change": looks again when it is over. Returns when that is. */
uint64_t nvmfr__ana_pass(struct nvmfr_ctrl *ctrl);

/* A command ended with a status that the states known do not explain. The host's lock held. */
void nvmfr__ana_look(struct nvmfr_ctrl *ctrl);

#endif
