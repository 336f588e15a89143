/* SPDX-License-Identifier: BSD-3-Clause */
/* Lists of I/Os that are checked and built once and submitted again and again. */
#ifndef NVMFR_QUEUE_PREPARED_H
#define NVMFR_QUEUE_PREPARED_H

#include "queue/qpair.h"

/* A command as its capsule will have it, but for the CID; one cache line. */
struct prepared_cmd {
	uint64_t head, sgl[2], lba, cdw12;
	uint64_t user_data;
	const struct nvmfr_buffer *buf;
	bool built; /* false: it goes the way of nvmfr_submit() */
};
_Static_assert(sizeof(struct prepared_cmd) == CACHE_LINE, "one line a command");

struct nvmfr_prepared {
	struct nvmfr_qpair *qp;
	struct prepared_cmd *cmds;
	struct nvmfr_io *ios; /* as given: what news of the connection makes new commands of */
	uint32_t n;
	uint32_t stamp; /* qp->adopted as of the building */
};

int nvmfr__prepare(struct nvmfr_qpair *qp, const struct nvmfr_io *ios, unsigned int n,
		   struct nvmfr_prepared **out);
int nvmfr__prepared_post(struct nvmfr_prepared *list, unsigned int first, unsigned int n);
void nvmfr__prepared_free(struct nvmfr_prepared *list); /* accepts NULL */

#endif
