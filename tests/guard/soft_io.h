/* SPDX-License-Identifier: BSD-3-Clause */
/* A target, the embedded one or another, and a stream of checked I/O on it, for guards that watch the data path. */
#ifndef NVMFR_GUARD_SOFT_IO_H
#define NVMFR_GUARD_SOFT_IO_H

#include <stdbool.h>

#include <nvmfr/nvmfr.h>

#define SOFT_IO_URI "nvmf+soft:?size=64M"

enum { SOFT_IO_BYTES = 4096, SOFT_IO_DEPTH = 32, SOFT_LONG_BYTES = 8 << 20, SOFT_IO_IDLE = 7 };

struct soft_io {
	struct nvmfr_host *host;
	struct nvmfr_ctrl *ctrl;
	struct nvmfr_qpair *qp;
	struct nvmfr_group *group;            /* of qp and idle ones; NULL: qp alone */
	struct nvmfr_qpair *idle[SOFT_IO_IDLE];
	struct nvmfr_buffer *buf;
	uint64_t nblocks;                     /* of the namespace, in units of SOFT_IO_BYTES */
	uint32_t nsid;
	uint32_t block_bytes;
	uint32_t random;
	struct nvmfr_iov iov[SOFT_IO_DEPTH][2];
	uint64_t expect[SOFT_IO_DEPTH];       /* what the first word of a slot's read must be */
};

/* Kinds of I/O in a stream. */
enum soft_kind { SOFT_READ, SOFT_WRITE, SOFT_READ_VEC, SOFT_READ_LONG };

/*
 * Connects and writes each block's number into its first word, in the first 64 MiB. Ends the program
 * on failure.
 */
void soft_io_open(struct soft_io *s, const char *uri, bool grouped);
void soft_io_close(struct soft_io *s);

/* Submits and polls count I/Os in random places and checks the data. 0, or the first error. */
int soft_io_run(struct soft_io *s, enum soft_kind kind, uint64_t count);

#endif
