/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What happened to a host's controllers, for the application to fetch: a ring with a lock of its own,
 * so that who reads it never waits for the service. Nobody waits for room either: what does not fit is
 * counted, and the count is an event.
 */
#ifndef NVMFR_CTRL_EVENTS_H
#define NVMFR_CTRL_EVENTS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include <nvmfr/nvmfr.h>

enum { EVENTS_MAX = 256 };

struct host_events {
	pthread_mutex_t lock; /* a leaf: nothing is taken or called with it held */
	struct nvmfr_event ring[EVENTS_MAX];
	unsigned int first, count;
	uint64_t lost; /* since the ring was full; not told yet */
	bool has_fd; /* made when first asked for */
	int fd;
};

void nvmfr__events_open(struct host_events *events);
void nvmfr__events_close(struct host_events *events);
void nvmfr__events_push(struct host_events *events, const struct nvmfr_event *event);
/* At most max, oldest first; how many. */
unsigned int nvmfr__events_take(struct host_events *events, struct nvmfr_event *out, unsigned int max);
/* Nothing of this controller remains. */
void nvmfr__events_forget(struct host_events *events, const struct nvmfr_ctrl *ctrl);
/* The descriptor, or -errno with a sentence. */
int nvmfr__events_fd(struct host_events *events);

#endif
