/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reading a discovery log: a job that somebody waits for, done as work of a live discovery controller
 * (notice.h). All under the host's lock.
 */
#ifndef NVMFR_CTRL_DLOG_H
#define NVMFR_CTRL_DLOG_H

#include "ctrl/ctrl.h"
#include "wire/discovery.h"

enum {
	DLOG_TRIES = 8, /* of a log that changes while it is read */
	DLOG_LOGGED = 8, /* bad entries that are logged one by one */
	DLOG_ENTRY_BYTES = sizeof(struct nvme_discovery_record),
	DLOG_AT_ONCE = CTRL_PAGE_BYTES / DLOG_ENTRY_BYTES,
	DLOG_STEPS = 3,
};

struct dlog {
	uint32_t max; /* entries that are read at most */
	uint64_t deadline_ns; /* connect_timeout_ms may end it earlier */

	struct discovery_record *records; /* those that are good; to be freed */
	uint32_t count, room;
	uint64_t generation;
	uint64_t left_out; /* entries beyond max */
	uint32_t skipped; /* bad ones */

	uint32_t at, end; /* entries read, and to be read */
	uint16_t refused; /* the status of entries that could not be read; 0: none */
	unsigned int tries;
	bool done;
	int err;
	char sentence[512];
};

extern const struct step nvmfr__dlog_steps[DLOG_STEPS];

/* Reads into job, which the caller made with max and deadline_ns set, and waits: 0 or -errno with a sentence. */
int nvmfr__dlog_read(struct nvmfr_ctrl *ctrl, struct dlog *job);
/* From notice.c: the job of ctrl is over. */
void nvmfr__dlog_ended(struct nvmfr_ctrl *ctrl, int err);

#endif
