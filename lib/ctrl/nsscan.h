/* SPDX-License-Identifier: BSD-3-Clause */
/* The steps that read the active namespaces: list, Identify Namespace each, descriptors each. */
#ifndef NVMFR_CTRL_NSSCAN_H
#define NVMFR_CTRL_NSSCAN_H

#include "ctrl/ctrl.h"

/* Identify with ctrl->page as its data. */
int nvmfr__send_identify(struct nvmfr_ctrl *ctrl, uint8_t cns, uint32_t nsid);

int nvmfr__start_ns_list(struct nvmfr_ctrl *ctrl);
int nvmfr__answer_ns_list(struct nvmfr_ctrl *ctrl, uint64_t result);
int nvmfr__start_ns(struct nvmfr_ctrl *ctrl);
int nvmfr__answer_ns(struct nvmfr_ctrl *ctrl, uint64_t result);
int nvmfr__refused_ns(struct nvmfr_ctrl *ctrl, uint16_t status);
int nvmfr__start_ns_descs(struct nvmfr_ctrl *ctrl);
int nvmfr__answer_ns_descs(struct nvmfr_ctrl *ctrl, uint64_t result);
int nvmfr__refused_ns_descs(struct nvmfr_ctrl *ctrl, uint16_t status);
int nvmfr__publish_ns(struct nvmfr_ctrl *ctrl);

/*
 * The Changed Namespace List came: the scan that follows reads these and new ones, and keeps what is known
 * of the others. Without it all are read.
 */
void nvmfr__ns_changed_list(struct nvmfr_ctrl *ctrl, const void *data, size_t bytes);

/* Drops what a scan that did not end has left. */
void nvmfr__ns_scan_end(struct nvmfr_ctrl *ctrl);

#endif
