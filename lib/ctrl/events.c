/* SPDX-License-Identifier: BSD-3-Clause */
#include "ctrl/events.h"

#include <errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/err.h"

void nvmfr__events_open(struct host_events *events)
{
	pthread_mutex_init(&events->lock, NULL);
}

void nvmfr__events_close(struct host_events *events)
{
	if (events->has_fd)
		close(events->fd);
	events->has_fd = false;
	pthread_mutex_destroy(&events->lock);
}

static bool is_empty(const struct host_events *events)
{
	return events->count == 0 && events->lost == 0;
}

/* Readable as long as something is there: whoever was slow, or fetched a part only, is woken again. */
static void set_readable(const struct host_events *events, bool readable)
{
	uint64_t word = 1;

	if (!events->has_fd)
		return;
	/* A full counter is readable, an empty one is not: neither is a failure. */
	if ((readable ? write(events->fd, &word, sizeof(word))
		      : read(events->fd, &word, sizeof(word))) < 0)
		return;
}

static void put(struct host_events *events, const struct nvmfr_event *event)
{
	events->ring[(events->first + events->count++) % EVENTS_MAX] = *event;
}

static struct nvmfr_event overflow(uint64_t lost)
{
	return (struct nvmfr_event){ .type = NVMFR_EVENT_OVERFLOW, .value = lost };
}

void nvmfr__events_push(struct host_events *events, const struct nvmfr_event *event)
{
	bool was_empty;

	pthread_mutex_lock(&events->lock);
	was_empty = is_empty(events);
	if (events->count + (events->lost != 0) >= EVENTS_MAX) {
		events->lost++;
	} else {
		/* The gap is told where it is: before what came after it. */
		if (events->lost) {
			struct nvmfr_event gap = overflow(events->lost);

			put(events, &gap);
			events->lost = 0;
		}
		put(events, event);
	}
	if (was_empty)
		set_readable(events, true);
	pthread_mutex_unlock(&events->lock);
}

unsigned int nvmfr__events_take(struct host_events *events, struct nvmfr_event *out,
				unsigned int max)
{
	unsigned int n = 0;

	pthread_mutex_lock(&events->lock);
	if (max && !is_empty(events)) {
		while (n < max && events->count) {
			out[n++] = events->ring[events->first];
			events->first = (events->first + 1) % EVENTS_MAX;
			events->count--;
		}
		if (n < max && events->lost) {
			out[n++] = overflow(events->lost);
			events->lost = 0;
		}
		if (is_empty(events))
			set_readable(events, false);
	}
	pthread_mutex_unlock(&events->lock);
	return n;
}

void nvmfr__events_forget(struct host_events *events, const struct nvmfr_ctrl *ctrl)
{
	unsigned int count;

	pthread_mutex_lock(&events->lock);
	count = events->count;
	events->count = 0;
	for (unsigned int i = 0; i < count; i++) {
		const struct nvmfr_event *event = &events->ring[(events->first + i) % EVENTS_MAX];

		if (event->ctrl != ctrl)
			put(events, event);
	}
	if (count && is_empty(events))
		set_readable(events, false);
	pthread_mutex_unlock(&events->lock);
}

int nvmfr__events_fd(struct host_events *events)
{
	int fd;

	pthread_mutex_lock(&events->lock);
	if (!events->has_fd) {
		events->fd = eventfd(is_empty(events) ? 0 : 1, EFD_NONBLOCK | EFD_CLOEXEC);
		events->has_fd = events->fd >= 0;
	}
	fd = events->has_fd ? events->fd : -errno;
	pthread_mutex_unlock(&events->lock);
	return fd < 0 ? nvmfr__fail(fd, "no descriptor for events: %s", nvmfr__strerror(fd)) : fd;
}
