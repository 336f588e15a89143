/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Registered memory, good for every device of its host.
 *
 * keys[] is what the data path reads: one line of it a command. Where a device caps the size of an MR,
 * the buffer has several there, which overlap by FAB_SEAM_BYTES, so that a command of at most that
 * length always lies in one; keys[] then has access 0 and the slow path looks the MR up.
 */
#ifndef NVMFR_FABRIC_BUFFER_H
#define NVMFR_FABRIC_BUFFER_H

#include "fabric/fabric.h"

enum { FAB_SEAM_BYTES = 1 << 20 };

enum buffer_flags {
	BUFFER_OWNED = 1, /* nvmfr_buffer_alloc's: unmapped at release */
	BUFFER_DMABUF = 2, /* the CPU must not touch it; never in-capsule */
};

struct buffer_key {
	uint32_t rkey, lkey;
	uint32_t access; /* enum fab_access; 0: not here, or in several MRs */
	uint32_t count; /* MRs on this device */
	uint64_t sgl; /* rkey and type where a keyed descriptor's second half has them */
};

struct nvmfr_buffer {
	uint64_t addr; /* what a descriptor names at offset 0 */
	uint64_t len;
	const void *host; /* the nvmfr_host that owns it */
	uint32_t access; /* asked for, enum fab_access */
	_Atomic uint32_t in_use; /* by I/Os of several commands or pieces; plain ones are in slots */
	uint32_t flags; /* enum buffer_flags */
	struct buffer_key keys[FAB_MAX_DEVICES];

	struct fab_mr *mrs[FAB_MAX_DEVICES]; /* keys[i].count of them */
	uint64_t stride[FAB_MAX_DEVICES]; /* MR k starts at k * stride */
	void *map; /* BUFFER_OWNED: what to unmap */
	size_t map_bytes;
	int dmabuf_fd; /* BUFFER_DMABUF: our own duplicate */
	uint64_t dmabuf_offset;
	struct nvmfr_buffer *next, **prev; /* the host's list */
};

/* Registers buf on dev; nothing to do if it is. The sentence names buffer, device and cause. */
int nvmfr__buffer_attach(struct nvmfr_buffer *buf, struct fab_dev *dev);
void nvmfr__buffer_detach(struct nvmfr_buffer *buf, struct fab_dev *dev);

/*
 * The keys for up to *bytes bytes from offset on. *bytes is cut where the MR ends, never below
 * min(*bytes, FAB_SEAM_BYTES). -EINVAL with a sentence: not registered there, or without the access.
 */
int nvmfr__buffer_keys(const struct nvmfr_buffer *buf, const struct fab_dev *dev, uint64_t offset,
		       uint64_t *bytes, uint32_t access, uint32_t *rkey, uint32_t *lkey);

/* Memory checks before any device sees it (readable, writable for TARGET): -EFAULT with a sentence. */
int nvmfr__buffer_check_pages(const void *addr, size_t bytes, uint32_t access);

/* Page-locked memory near the NIC. numa_node -1: the first device's node, else the caller's. */
int nvmfr__buffer_map(size_t bytes, int numa_node, void **addr, size_t *map_bytes);

#endif
