/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Buffers that were registered before a device was open are registered there when it opens. That may
 * be hundreds of GB, at some tenths of a second each: a thread of its own does it, so that nobody's
 * keep-alive waits. A manual host has no threads: there the pass takes as long as it takes.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>

#include "base/err.h"
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

	while (more == 1 && !atomic_load(&host->registrar.stop))
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
	sigset_t all, old;
	int err;

	r->dev = dev;
	atomic_store(&r->done, false);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	err = pthread_create(&r->thread, NULL, registrar_main, host);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (err)
		return nvmfr__fail(nvmfr__thread_error(err), "no thread to register buffers: %s", nvmfr__strerror(err));
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
