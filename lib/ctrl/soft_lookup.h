/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef NVMFR_CTRL_SOFT_LOOKUP_H
#define NVMFR_CTRL_SOFT_LOOKUP_H

struct nvmfr_ctrl;

/* Finds, or makes, the embedded target that ctrl->target names; fills in the subsystem's NQN. */
int nvmfr__soft_lookup(struct nvmfr_ctrl *ctrl);
void nvmfr__soft_let_go(struct nvmfr_ctrl *ctrl);

#endif
