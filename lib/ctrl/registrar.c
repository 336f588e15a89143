/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Buffers that were registered before a device was open are registered there when it opens. That may
 * be hundreds of GB, at some tenths of a second each: a thread of its own does it, so that nobody's
 * keep-alive waits. A manual host has no threads: there the pass takes as long as it takes.
 *
 * A device that went is closed by the service when the last endpoint on it is destroyed: then no owner reads
 * the keys there any more. Its MRs are quickly let go, the kernel unpinned the memory when the device went.
 */
#include <errno.h>
#include <stdio.h>

#include "base/err.h"
#include "base/thread.h"
#include "ctrl/ctrl.h"

/* The next buffer that dev lacks; buffers_lock held. */
static struct nvmfr_buffer *next_missing(const struct nvmfr_host *host, const struct fab_dev *dev)
{
	struct nvmfr_buffer *buf = host->buffers;

	while (buf && buf->keys[dev->index].count)
		buf = buf->next;
	return buf;
}

/* One buffer at a time under the lock, so that the application's own calls come between. 1: one was done. */
static int attach_one(struct nvmfr_host *host, struct fab_dev *dev)
{
	struct nvmfr_buffer *buf;
	int err = 0;

	pthread_mutex_lock(&host->buffers_lock);
	buf = next_missing(host, dev);
	if (buf)
		err = nvmfr__buffer_attach(buf, dev);
	pthread_mutex_unlock(&host->buffers_lock);
	return err ? err : buf != NULL;
}

static int attach_all(struct nvmfr_host *host, struct fab_dev *dev)
{
	int more = 1;

	while (more == 1 && !atomic_load(&host->registrar.stop) && !dev->gone)
		more = attach_one(host, dev);
	return more < 0 ? more : 0;
}

static void *registrar_main(void *arg)
{
	struct nvmfr_host *host = arg;
	struct registrar *r = &host->registrar;

	r->err = attach_all(host, r->dev);
	if (r->err)
		snprintf(r->sentence, sizeof(r->sentence), "%s", nvmfr__err_get());
	atomic_store(&r->done, true);
	nvmfr__service_wake(host);
	return NULL;
}

static int start(struct nvmfr_host *host, struct fab_dev *dev)
{
	struct registrar *r = &host->registrar;
	int err;

	r->dev = dev;
	atomic_store(&r->done, false);
	err = nvmfr__thread_start(&r->thread, registrar_main, host);
	if (err)
		return nvmfr__fail(err, "no thread to register buffers: %s", nvmfr__strerror(err));
	r->running = true;
	return -EAGAIN;
}

static void join(struct nvmfr_host *host)
{
	if (host->registrar.running)
		pthread_join(host->registrar.thread, NULL);
	host->registrar.running = false;
}

void nvmfr__registrar_stop(struct nvmfr_host *host)
{
	atomic_store(&host->registrar.stop, true);
	join(host);
}

/* What the thread found out. Another device's failure is told when that device asks again. */
static int finish(struct nvmfr_host *host, const struct fab_dev *dev)
{
	struct registrar *r = &host->registrar;

	if (!atomic_load(&r->done))
		return -EAGAIN;
	join(host);
	if (r->dev != dev || !r->err)
		return -EAGAIN;
	nvmfr__err_set(r->sentence);
	return r->err;
}

int nvmfr__host_attach_buffers(struct nvmfr_host *host, struct fab_dev *dev)
{
	const struct nvmfr_buffer *missing;

	if (host->registrar.running)
		return finish(host, dev);
	/* Busy: the application registers, on this device, too. */
	if (pthread_mutex_trylock(&host->buffers_lock))
		return -EAGAIN;
	missing = next_missing(host, dev);
	pthread_mutex_unlock(&host->buffers_lock);
	if (missing && !host->manual)
		return start(host, dev);
	return missing ? attach_all(host, dev) : 0;
}

/* false: somebody registers on it, or holds the list. */
static bool free_device(struct nvmfr_host *host, struct fab_dev *dev)
{
	struct registrar *r = &host->registrar;

	if (r->running && r->dev == dev) {
		if (!atomic_load(&r->done))
			return false;
		join(host);
	}
	if (pthread_mutex_trylock(&host->buffers_lock))
		return false;
	for (struct nvmfr_buffer *buf = host->buffers; buf; buf = buf->next)
		nvmfr__buffer_detach(buf, dev);
	dev->ops->dev_close(host->verbs, dev);
	pthread_mutex_unlock(&host->buffers_lock);
	return true;
}

uint64_t nvmfr__host_free_devices(struct nvmfr_host *host)
{
	uint64_t due = UINT64_MAX;

	for (unsigned int i = 0; i < FAB_MAX_DEVICES; i++) {
		struct fab_dev *dev = atomic_load(&host->fab.devs[i]);

		if (dev && dev->gone && !dev->users && !free_device(host, dev))
			due = nvmfr__clock_now_ns(&host->clock) + MS_NS(CTRL_POLL_RDY_MS);
	}
	return due;
}
