/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <nvmfr/nvmfr.h>

#include "api/check.h"
#include "ctrl/ctrl.h"
#include "fabric/pages.h"

_Static_assert((int)NVMFR_ACCESS_SOURCE == (int)FAB_ACCESS_SOURCE &&
		       (int)NVMFR_ACCESS_TARGET == (int)FAB_ACCESS_TARGET,
	       "the fabric's access bits are the API's");

static int check_args(const struct nvmfr_host *host, size_t len, uint32_t access,
		      struct nvmfr_buffer **out)
{
	int err;

	if (out)
		*out = NULL;
	err = check_host(host);
	if (err)
		return err;
	if (!out)
		return nvmfr__fail(-EINVAL, "out is NULL");
	if (len == 0)
		return nvmfr__fail(-EINVAL, "a buffer of 0 bytes");
	if (access == 0 || access & ~(uint32_t)NVMFR_ACCESS_BOTH)
		return nvmfr__fail(
			-EINVAL,
			"access 0x%x is not made of NVMFR_ACCESS_SOURCE and NVMFR_ACCESS_TARGET",
			access);
	return 0;
}

static struct nvmfr_buffer *new_buffer(struct nvmfr_host *host, uint64_t addr, size_t len,
				       uint32_t access)
{
	struct nvmfr_buffer *buf = aligned_alloc(CACHE_LINE, (sizeof(*buf) + CACHE_LINE - 1) /
								     CACHE_LINE * CACHE_LINE);

	if (!buf) {
		nvmfr__fail(-ENOMEM, "no memory for a buffer");
		return NULL;
	}
	*buf = (struct nvmfr_buffer){
		.addr = addr, .len = len, .host = host, .access = access, .dmabuf_fd = -1
	};
	return buf;
}

static void detach_all(struct nvmfr_host *host, struct nvmfr_buffer *buf)
{
	for (unsigned int i = 0; i < FAB_MAX_DEVICES; i++) {
		struct fab_dev *dev = atomic_load(&host->fab.devs[i]);

		if (dev && buf->keys[i].count)
			nvmfr__buffer_detach(buf, dev);
	}
}

static void free_memory(struct nvmfr_buffer *buf)
{
	if (buf->flags & BUFFER_OWNED)
		munmap(buf->map, buf->map_bytes);
	if (buf->dmabuf_fd >= 0)
		close(buf->dmabuf_fd);
}

static void free_buffer(struct nvmfr_buffer *buf)
{
	free_memory(buf);
	free(buf);
}

/* On every open device, then on the host's list: a device that opens later takes it from there. */
static int add(struct nvmfr_host *host, struct nvmfr_buffer *buf)
{
	int err = 0;

	pthread_mutex_lock(&host->buffers_lock);
	for (unsigned int i = 0; !err && i < FAB_MAX_DEVICES; i++) {
		struct fab_dev *dev = atomic_load(&host->fab.devs[i]);

		if (dev)
			err = nvmfr__buffer_attach(buf, dev);
		/* none is needed there any more */
		if (err && dev->gone)
			err = 0;
	}
	if (err) {
		detach_all(host, buf);
	} else {
		buf->next = host->buffers;
		buf->prev = &host->buffers;
		if (buf->next)
			buf->next->prev = &buf->next;
		host->buffers = buf;
	}
	pthread_mutex_unlock(&host->buffers_lock);
	return err;
}

static int finish(struct nvmfr_host *host, struct nvmfr_buffer *buf, struct nvmfr_buffer **out)
{
	int err = add(host, buf);

	if (err)
		free_buffer(buf);
	else
		*out = buf;
	return err;
}

int nvmfr_buffer_register(struct nvmfr_host *host, void *addr, size_t len_bytes, uint32_t access,
			  struct nvmfr_buffer **out)
{
	int err = check_args(host, len_bytes, access, out);
	struct nvmfr_buffer *buf;

	if (!err && (!addr || len_bytes > UINTPTR_MAX - (uintptr_t)addr))
		err = nvmfr__fail(-EINVAL, "a buffer at %p of %zu bytes cannot be", addr,
				  len_bytes);
	if (!err)
		err = nvmfr__buffer_check_pages(addr, len_bytes, access);
	if (err)
		return err;
	buf = new_buffer(host, (uintptr_t)addr, len_bytes, access);
	return buf ? finish(host, buf, out) : -ENOMEM;
}

int nvmfr_buffer_register_dmabuf(struct nvmfr_host *host, int fd, uint64_t offset_bytes,
				 size_t len_bytes, uint32_t access, struct nvmfr_buffer **out)
{
	int err = check_args(host, len_bytes, access, out), own;
	struct nvmfr_buffer *buf;

	if (!err && len_bytes > UINT64_MAX - offset_bytes)
		err = nvmfr__fail(-EINVAL,
				  "%zu bytes from offset %llu on are more than 64 bits count",
				  len_bytes, (unsigned long long)offset_bytes);
	if (err)
		return err;
	own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (own < 0)
		return nvmfr__fail(-errno, "dma-buf descriptor %d: %s", fd, nvmfr__strerror(errno));
	/* Descriptors name it by its offset: the address that the NIC sees is ours to choose. */
	buf = new_buffer(host, offset_bytes, len_bytes, access);
	if (!buf) {
		close(own);
		return -ENOMEM;
	}
	buf->flags = BUFFER_DMABUF;
	buf->dmabuf_fd = own;
	buf->dmabuf_offset = offset_bytes;
	return finish(host, buf, out);
}

/* The first device's node: where its DMA ends soonest. */
static int first_node(struct nvmfr_host *host)
{
	int node = -1;

	pthread_mutex_lock(&host->buffers_lock);
	for (unsigned int i = 0; node < 0 && i < FAB_MAX_DEVICES; i++) {
		const struct fab_dev *dev = atomic_load(&host->fab.devs[i]);

		if (dev)
			node = dev->numa_node;
	}
	pthread_mutex_unlock(&host->buffers_lock);
	return node;
}

int nvmfr_buffer_alloc(struct nvmfr_host *host, size_t len_bytes, int numa_node,
		       struct nvmfr_buffer **out)
{
	int err = check_args(host, len_bytes, NVMFR_ACCESS_BOTH, out);
	struct nvmfr_buffer *buf;
	size_t map_bytes;
	void *map;

	if (!err)
		err = nvmfr__buffer_map(len_bytes, numa_node >= 0 ? numa_node : first_node(host),
					&map, &map_bytes);
	if (err)
		return err;
	if (map_bytes > nvmfr__pages_lock_limit())
		nvmfr__log(&host->log, NVMFR_LOG_WARN,
			   "a buffer of %zu bytes is above the memlock limit and not locked; raise it with "
			   "ulimit -l",
			   map_bytes);
	buf = new_buffer(host, (uintptr_t)map, len_bytes, NVMFR_ACCESS_BOTH);
	if (!buf) {
		munmap(map, map_bytes);
		return -ENOMEM;
	}
	buf->flags = BUFFER_OWNED;
	buf->map = map;
	buf->map_bytes = map_bytes;
	return finish(host, buf, out);
}

void *nvmfr_buffer_addr(const struct nvmfr_buffer *buf)
{
	return buf && !(buf->flags & BUFFER_DMABUF) ? (void *)(uintptr_t)buf->addr : NULL;
}

size_t nvmfr_buffer_size(const struct nvmfr_buffer *buf)
{
	return buf ? buf->len : 0;
}

static bool in_flight(struct nvmfr_host *host, const struct nvmfr_buffer *buf)
{
	bool found = atomic_load_explicit(&buf->in_use, memory_order_relaxed) != 0;

	pthread_mutex_lock(&host->lock);
	for (const struct nvmfr_ctrl *ctrl = host->ctrls; ctrl && !found; ctrl = ctrl->next)
		for (const struct entry *entry = ctrl->entries; entry && !found;
		     entry = entry->next)
			found = nvmfr__qpair_names(entry->qp, buf);
	pthread_mutex_unlock(&host->lock);
	return found;
}

static void unlist(struct nvmfr_host *host, struct nvmfr_buffer *buf)
{
	pthread_mutex_lock(&host->buffers_lock);
	detach_all(host, buf);
	*buf->prev = buf->next;
	if (buf->next)
		buf->next->prev = buf->prev;
	pthread_mutex_unlock(&host->buffers_lock);
}

int nvmfr_buffer_release(struct nvmfr_buffer *buf)
{
	struct nvmfr_host *host;

	if (!buf)
		return 0;
	host = (struct nvmfr_host *)(uintptr_t)buf->host;
	if (!nvmfr__host_alive(host)) {
		/* In a forked child: keys and descriptor are the parent's, our copy of the memory
		 * goes. */
		free_buffer(buf);
		return 0;
	}
	if (in_flight(host, buf))
		return nvmfr__fail(
			-EBUSY,
			"a command in flight or a prepared list names this buffer: poll for"
			" the completion, or release the list first");
	unlist(host, buf);
	free_buffer(buf);
	return 0;
}

void nvmfr__buffer_end(struct nvmfr_host *host, struct nvmfr_buffer *buf)
{
	unlist(host, buf);
	free_memory(buf);
	buf->host = NULL;
	/* Prepared lists that are left, too, name it still: the last one frees it. */
	if (!atomic_load_explicit(&buf->in_use, memory_order_relaxed))
		free(buf);
}
