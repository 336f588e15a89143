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

static int attach_all(struct nvmfr_host *host, struct fab_dev *dev)
{
	struct nvmfr_buffer *buf;
	int err = 0;

	while (!err && (buf = next_missing(host, dev)) != NULL)
		err = nvmfr__buffer_attach(buf, dev);
	return err;
}

static void *registrar_main(void *arg)
{
	struct nvmfr_host *host = arg;
	struct registrar *r = &host->registrar;

	pthread_mutex_lock(&host->buffers_lock);
	r->err = attach_all(host, r->dev);
	if (r->err)
		snprintf(r->sentence, sizeof(r->sentence), "%s", nvmfr__err_get());
	pthread_mutex_unlock(&host->buffers_lock);
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
		return nvmfr__fail(-err, "no thread to register buffers: %s", nvmfr__strerror(err));
	r->running = true;
	return -EAGAIN;
}

void nvmfr__registrar_join(struct nvmfr_host *host)
{
	if (host->registrar.running)
		pthread_join(host->registrar.thread, NULL);
	host->registrar.running = false;
}

/* What the thread found out. Another device's failure is told when that device asks again. */
static int finish(struct nvmfr_host *host, const struct fab_dev *dev)
{
	struct registrar *r = &host->registrar;

	if (!atomic_load(&r->done))
		return -EAGAIN;
	nvmfr__registrar_join(host);
	if (r->dev != dev || !r->err)
		return -EAGAIN;
	nvmfr__err_set(r->sentence);
	return r->err;
}

int nvmfr__host_attach_buffers(struct nvmfr_host *host, struct fab_dev *dev)
{
	const struct nvmfr_buffer *missing;
	int err = 0;

	if (host->registrar.running)
		return finish(host, dev);
	/* Busy: the application registers, on this device, too. */
	if (pthread_mutex_trylock(&host->buffers_lock))
		return -EAGAIN;
	missing = next_missing(host, dev);
	if (missing && host->manual)
		err = attach_all(host, dev);
	pthread_mutex_unlock(&host->buffers_lock);
	return missing && !host->manual ? start(host, dev) : err;
}
