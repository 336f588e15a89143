/* SPDX-License-Identifier: BSD-3-Clause */
/* Keys as strict as a NIC's: an index and a tag, so that a key of memory long gone finds nothing. */
#include "fabric/soft.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/err.h"

enum {
	KEY_INDEX_SHIFT = 8,
	KEY_TAG_MASK = 0x7f,
	KEY_LOCAL = 0x80,         /* an lkey is not an rkey: mixing them up must show */
};

static struct soft_mr *mr_at(struct fab *fab, uint32_t index)
{
	struct soft_mr *chunk;

	if (index / SOFT_MR_CHUNK >= SOFT_MR_CHUNKS)
		return NULL;
	chunk = atomic_load_explicit(&fab->mr_chunks[index / SOFT_MR_CHUNK], memory_order_acquire);
	return chunk ? &chunk[index % SOFT_MR_CHUNK] : NULL;
}

/* fab->mr_lock is held. */
static int add_chunk(struct fab *fab)
{
	uint32_t chunk_index = fab->mr_made / SOFT_MR_CHUNK;
	struct soft_mr *chunk;

	if (chunk_index >= SOFT_MR_CHUNKS)
		return nvmfr__fail(-ENOMEM, "soft: no memory region left, %d exist",
				   SOFT_MR_CHUNK * SOFT_MR_CHUNKS);
	chunk = calloc(SOFT_MR_CHUNK, sizeof(*chunk));
	if (!chunk)
		return nvmfr__fail(-ENOMEM, "soft: no memory for memory regions");
	for (uint32_t i = SOFT_MR_CHUNK; i-- > 0;) {
		chunk[i].index = fab->mr_made + i;
		chunk[i].tag = fab->mr_first_tag;
		chunk[i].next_free = fab->mr_free;
		fab->mr_free = &chunk[i];
	}
	fab->mr_made += SOFT_MR_CHUNK;
	atomic_store_explicit(&fab->mr_chunks[chunk_index], chunk, memory_order_release);
	return 0;
}

static struct soft_mr *mr_alloc(struct fab *fab)
{
	struct soft_mr *entry = NULL;

	pthread_mutex_lock(&fab->mr_lock);
	if (fab->mr_free || add_chunk(fab) == 0) {
		entry = fab->mr_free;
		fab->mr_free = entry->next_free;
	}
	pthread_mutex_unlock(&fab->mr_lock);
	return entry;
}

static void mr_free(struct fab *fab, struct soft_mr *entry)
{
	pthread_mutex_lock(&fab->mr_lock);
	entry->tag = (entry->tag + 1) & KEY_TAG_MASK;
	entry->next_free = fab->mr_free;
	fab->mr_free = entry;
	pthread_mutex_unlock(&fab->mr_lock);
}

static int mr_publish(struct fab_dev *dev, struct soft_mr fields, struct fab_mr *mr)
{
	struct fab *fab = container_of(dev, struct fab, dev);
	struct soft_mr *entry;
	uint32_t key;

	if (fields.bytes == 0 || fields.bytes > dev->max_mr_bytes)
		return nvmfr__fail(-EINVAL, "soft: a memory region of %llu bytes, 1 to %llu can be",
				   (unsigned long long)fields.bytes,
				   (unsigned long long)dev->max_mr_bytes);
	entry = mr_alloc(fab);
	if (!entry)
		return -ENOMEM;
	entry->access = fields.access;
	entry->iova = fields.iova;
	entry->bytes = fields.bytes;
	entry->mem = fields.mem;
	entry->map = fields.map;
	entry->map_bytes = fields.map_bytes;
	/* Index 0 gives key 100h: no key is 0, so that zeroed descriptors find nothing. */
	key = (entry->index + 1) << KEY_INDEX_SHIFT | entry->tag;
	atomic_store(&entry->key, key);
	*mr = (struct fab_mr){ .lkey = key | KEY_LOCAL, .rkey = key, .handle = entry };
	return 0;
}

int nvmfr__soft_mr_reg(struct fab_dev *dev, void *addr, size_t bytes, uint32_t access,
		       struct fab_mr *mr)
{
	struct soft_mr fields = {
		.access = access,
		.iova = (uint64_t)(uintptr_t)addr,
		.bytes = bytes,
		.mem = addr,
	};

	return mr_publish(dev, fields, mr);
}

int nvmfr__soft_mr_reg_dmabuf(struct fab_dev *dev, int fd, uint64_t offset, size_t bytes,
			      uint64_t iova, uint32_t access, struct fab_mr *mr)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	uint64_t lead = offset % page;
	int prot = access & FAB_ACCESS_TARGET ? PROT_READ | PROT_WRITE : PROT_READ;
	struct soft_mr fields = { .access = access, .iova = iova, .bytes = bytes };
	int err;

	if (bytes == 0 || bytes > SIZE_MAX - lead || offset > INT64_MAX)
		return nvmfr__fail(-EINVAL, "soft: a dma-buf range of %zu bytes", bytes);
	fields.map_bytes = bytes + lead;
	fields.map = mmap(NULL, fields.map_bytes, prot, MAP_SHARED, fd, (off_t)(offset - lead));
	if (fields.map == MAP_FAILED) {
		err = -errno;
		return nvmfr__fail(err, "soft: the dma-buf cannot be mapped: %s",
				   nvmfr__strerror(err));
	}
	fields.mem = (unsigned char *)fields.map + lead;
	err = mr_publish(dev, fields, mr);
	if (err)
		munmap(fields.map, fields.map_bytes);
	return err;
}

void nvmfr__soft_mr_dereg(struct fab_dev *dev, struct fab_mr *mr)
{
	struct fab *fab = container_of(dev, struct fab, dev);
	struct soft_mr *entry = mr->handle;

	if (!entry)
		return;
	atomic_store(&entry->key, 0);
	pthread_mutex_lock(&fab->ep_lock);
	for (struct soft_ep *ep = fab->eps; ep; ep = ep->fab_next)
		nvmfr__soft_wait_pass(ep);
	pthread_mutex_unlock(&fab->ep_lock);
	if (entry->map)
		munmap(entry->map, entry->map_bytes);
	entry->map = NULL;
	mr_free(fab, entry);
	*mr = (struct fab_mr){ 0 };
}

void nvmfr__soft_mr_fini(struct fab *fab)
{
	for (uint32_t i = 0; i < SOFT_MR_CHUNKS; i++)
		free(atomic_load(&fab->mr_chunks[i]));
}

static unsigned char *mr_find(struct fab *fab, uint32_t key, uint64_t addr, uint64_t bytes,
			      uint32_t access, const char **why)
{
	uint32_t index = (key >> KEY_INDEX_SHIFT) - 1;
	struct soft_mr *entry = mr_at(fab, index);

	if (unlikely(!entry || atomic_load(&entry->key) != key)) {
		*why = "no memory region has this key";
		return NULL;
	}
	if (unlikely(addr < entry->iova || addr - entry->iova > entry->bytes ||
		     bytes > entry->bytes - (addr - entry->iova))) {
		*why = "outside of the memory region";
		return NULL;
	}
	if (unlikely((entry->access & access) != access)) {
		*why = "the memory region does not allow this access";
		return NULL;
	}
	return entry->mem + (addr - entry->iova);
}

unsigned char *nvmfr__soft_mr_remote(struct fab *fab, uint32_t rkey, uint64_t addr, uint64_t bytes,
				     uint32_t access, const char **why)
{
	if (unlikely(rkey & KEY_LOCAL)) {
		*why = "not an rkey";
		return NULL;
	}
	return mr_find(fab, rkey, addr, bytes, access, why);
}

unsigned char *nvmfr__soft_mr_local(struct fab *fab, uint32_t lkey, uint64_t addr, uint64_t bytes,
				    const char **why)
{
	if (unlikely(!(lkey & KEY_LOCAL))) {
		*why = "not an lkey";
		return NULL;
	}
	return mr_find(fab, lkey & ~(uint32_t)KEY_LOCAL, addr, bytes, FAB_ACCESS_SOURCE, why);
}
