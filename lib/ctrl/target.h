/* SPDX-License-Identifier: BSD-3-Clause */
/* What a URI or the address fields of nvmfr_ctrl_opts name. */
#ifndef NVMFR_CTRL_TARGET_H
#define NVMFR_CTRL_TARGET_H

#include <stdbool.h>
#include <stdint.h>

#include <nvmfr/nvmfr.h>

#include "wire/nqn.h"

struct target {
	bool soft;
	char subnqn[NVME_NQN_MAX + 1]; /* soft: may be "", then the target's own */
	/* rdma */
	char traddr[256]; /* without brackets, with %scope */
	char trsvcid[16];
	char host_traddr[256]; /* "": routing chooses */
	/* soft */
	char name[64]; /* "": a target of its own for this association */
	char path[4096]; /* "": RAM */
	uint32_t block_bytes;
	uint64_t size_bytes;
	uint32_t latency_us;
	bool read_only;
	uint8_t soft_port; /* of the one with a name, from 0 on */
};

#define TARGET_DEFAULT_PORT "4420"
#define TARGET_SOFT_BYTES   (UINT64_C(64) << 20)

/* -EINVAL with a sentence that quotes what is wrong. */
int nvmfr__target_parse(const struct nvmfr_ctrl_opts *opts, struct target *out);

/* "64M", "1GiB", "4096": bytes. */
int nvmfr__parse_bytes(const char *text, uint64_t *out);

#endif
