/* SPDX-License-Identifier: BSD-3-Clause */
/* Buffers and their memory regions on each device. */
#include "fabric/buffer.h"

#include <errno.h>
#include <stdlib.h>

#include "base/err.h"
#include "wire/sqe.h"
#include "base/util.h"
#include "fabric/pages.h"

/* Some devices fail at 2 GiB without saying so in max_mr_bytes: then pieces of half of it are tried. */
#define BIG_PIECE_BYTES	 (UINT64_C(2) << 30)
#define SAFE_PIECE_BYTES (UINT64_C(1) << 30)

/* ---- attach ----------------------------------------------------------------------------------- */

static uint64_t piece_bytes(const struct nvmfr_buffer *buf, unsigned int dev, uint32_t k)
{
	uint64_t left = buf->len - k * buf->stride[dev];

	return nvmfr__min_u64(left, buf->stride[dev] + FAB_SEAM_BYTES);
}

static int reg_piece(struct nvmfr_buffer *buf, struct fab_dev *dev, uint32_t k)
{
	uint64_t start = k * buf->stride[dev->index], bytes = piece_bytes(buf, dev->index, k);
	struct fab_mr *mr = &buf->mrs[dev->index][k];

	if (buf->flags & BUFFER_DMABUF)
		return dev->ops->mr_reg_dmabuf(dev, buf->dmabuf_fd, buf->dmabuf_offset + start,
					       bytes, buf->addr + start, buf->access, mr);
	/* registration does not write through it: a SOURCE may be const memory */
	return dev->ops->mr_reg(dev, (void *)(uintptr_t)(buf->addr + start), bytes, buf->access,
				mr);
}

static void drop_mrs(struct nvmfr_buffer *buf, struct fab_dev *dev)
{
	for (uint32_t k = 0; k < buf->keys[dev->index].count; k++)
		dev->ops->mr_dereg(dev, &buf->mrs[dev->index][k]);
	free(buf->mrs[dev->index]);
	buf->mrs[dev->index] = NULL;
	buf->stride[dev->index] = 0;
	buf->keys[dev->index] = (struct buffer_key){ 0 };
}

/* max_bytes: of one MR. A stride of whole pages keeps dma-buf offsets and addresses alike in theirs. */
static int reg_pieces(struct nvmfr_buffer *buf, struct fab_dev *dev, uint64_t max_bytes)
{
	unsigned int i = dev->index;
	uint64_t count = 1;
	int err;

	buf->stride[i] = buf->len;
	if (buf->len > max_bytes) {
		buf->stride[i] = (max_bytes - FAB_SEAM_BYTES) / PAGE_BYTES * PAGE_BYTES;
		count = (buf->len - FAB_SEAM_BYTES + buf->stride[i] - 1) / buf->stride[i];
	}
	buf->mrs[i] = calloc(count, sizeof(*buf->mrs[i]));
	if (!buf->mrs[i])
		return nvmfr__fail(-ENOMEM, "no memory for %llu memory regions",
				   (unsigned long long)count);
	for (uint32_t k = 0; k < count; k++) {
		err = reg_piece(buf, dev, k);
		if (err) {
			drop_mrs(buf, dev);
			return err;
		}
		buf->keys[i].count = k + 1;
	}
	return 0;
}

static bool smaller_may_do(const struct nvmfr_buffer *buf, uint64_t max_bytes, int err)
{
	return (err == -EINVAL || err == -ENOMEM) &&
	       nvmfr__min_u64(buf->len, max_bytes) >= BIG_PIECE_BYTES &&
	       buf->len <= nvmfr__pages_lock_limit();
}

/* Why the kernel would not pin a mapping of a file; NULL: not for being one. */
static const char *file_cause(const struct pages_map *map, uint32_t access)
{
	if (!map->shared)
		return NULL;
	if (!map->writable)
		return "a read-only shared mapping cannot be pinned before Linux 6.2: map it private, or"
		       " writable";
	if (access & FAB_ACCESS_TARGET)
		return "this kernel does not let a device write to files of that file system: copy, or"
		       " use memory, memfd or a private mapping";
	return NULL;
}

/* The backend said what the errno may mean; of host memory we know more. */
static int explain(const struct nvmfr_buffer *buf, const struct fab_dev *dev, int err)
{
	const void *addr = (const void *)(uintptr_t)buf->addr;
	const char *cause;
	struct pages_map map;

	if (buf->flags & BUFFER_DMABUF || err == -ENOMEM ||
	    !nvmfr__pages_find(buf->addr, &map) || map.path[0] != '/')
		return nvmfr__fail_wrap(err, "buffer of %llu bytes at 0x%llx",
					(unsigned long long)buf->len,
					(unsigned long long)buf->addr);
	cause = file_cause(&map, buf->access);
	if (!cause)
		return nvmfr__fail_wrap(err, "buffer %p, a mapping of %s", addr, map.path);
	return nvmfr__fail(err, "device %s cannot register buffer %p, a mapping of %s: %s",
			   dev->name, addr, map.path, cause);
}

int nvmfr__buffer_attach(struct nvmfr_buffer *buf, struct fab_dev *dev)
{
	struct buffer_key *key = &buf->keys[dev->index];
	int err;

	if (key->count)
		return 0;
	if (buf->len > dev->max_mr_bytes && dev->max_mr_bytes < 2 * FAB_SEAM_BYTES)
		return nvmfr__fail(-EOPNOTSUPP,
				   "device %s takes memory regions of %llu bytes at most: too small"
				   " for a buffer of %llu",
				   dev->name, (unsigned long long)dev->max_mr_bytes,
				   (unsigned long long)buf->len);
	err = reg_pieces(buf, dev, dev->max_mr_bytes);
	if (smaller_may_do(buf, dev->max_mr_bytes, err))
		err = reg_pieces(buf, dev, SAFE_PIECE_BYTES);
	if (err)
		return explain(buf, dev, err);
	if (key->count == 1) {
		key->rkey = buf->mrs[dev->index][0].rkey;
		key->lkey = buf->mrs[dev->index][0].lkey;
		key->access = buf->access;
		key->sgl = (uint64_t)key->rkey << 24 | (uint64_t)NVME_SGL_KEYED << 56;
	}
	return 0;
}

void nvmfr__buffer_detach(struct nvmfr_buffer *buf, struct fab_dev *dev)
{
	drop_mrs(buf, dev);
}

/* ---- keys ------------------------------------------------------------------------------------- */

static const char *access_name(uint32_t access)
{
	return access & FAB_ACCESS_TARGET ? "a target of reads" : "a source of writes";
}

static __attribute__((noinline, cold)) int refuse(const struct nvmfr_buffer *buf,
						   const struct fab_dev *dev, uint64_t offset,
						   uint64_t bytes, uint32_t access)
{
	if (!buf->keys[dev->index].count)
		return nvmfr__fail(-EINVAL, "the buffer is not registered on device %s", dev->name);
	if (access & ~buf->access)
		return nvmfr__fail(-EINVAL, "the buffer was not registered as %s",
				   access_name(access & ~buf->access));
	return nvmfr__fail(-EINVAL, "%llu bytes at offset %llu end outside the buffer of %llu",
			   (unsigned long long)bytes, (unsigned long long)offset,
			   (unsigned long long)buf->len);
}

static void piece_keys(const struct nvmfr_buffer *buf, unsigned int dev, uint64_t offset,
		       uint64_t *bytes, uint32_t *rkey, uint32_t *lkey)
{
	uint64_t stride = buf->stride[dev];
	uint64_t k = nvmfr__min_u64(offset / stride, buf->keys[dev].count - 1);

	*bytes = nvmfr__min_u64(*bytes, k * stride + piece_bytes(buf, dev, (uint32_t)k) - offset);
	*rkey = buf->mrs[dev][k].rkey;
	*lkey = buf->mrs[dev][k].lkey;
}

int nvmfr__buffer_keys(const struct nvmfr_buffer *buf, const struct fab_dev *dev, uint64_t offset,
		       uint64_t *bytes, uint32_t access, uint32_t *rkey, uint32_t *lkey)
{
	const struct buffer_key *key = &buf->keys[dev->index];

	if (unlikely(!key->count || access & ~buf->access || offset > buf->len ||
		     *bytes > buf->len - offset))
		return refuse(buf, dev, offset, *bytes, access);
	if (unlikely(key->count > 1)) {
		piece_keys(buf, dev->index, offset, bytes, rkey, lkey);
		return 0;
	}
	*rkey = key->rkey;
	*lkey = key->lkey;
	return 0;
}
