/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef EXAMPLES_ZEROCOPY_H
#define EXAMPLES_ZEROCOPY_H

#include "common.h"
#include "count_syscalls.h"

#define BULK_BYTES   (128u * 1024)
#define SINGLE_BYTES 4096u
#define SINGLES	     2000u
#define BULK_DEPTH   16u
#define BULK_NS	     500000000u /* at least so long */

/*
 * One thread with one queue pair reads its share of the namespace, in order, to the same place of the
 * buffer; then single blocks, one at a time. A run without counter takes the time, one with it counts.
 */
struct reader {
	struct nvmfr_qpair *qp;
	struct nvmfr_buffer *buf;
	uint32_t nsid, block_bytes;
	uint64_t first_block, blocks;
	struct syscall_counter *counter;
	uint64_t start_ns, end_ns; /* of the bulk reads */
	uint64_t bulk_reads, bulk_bytes;
	uint64_t bulk_calls, single_calls; /* between the first submit and the last completion */
	uint64_t planted_calls; /* counted for one call made on purpose */
	uint64_t single_ns[SINGLES];
	char failure[512];
	pthread_t thread;
};

void *zerocopy_reader(void *arg);

#endif
