/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A host and its service: what answers for connections, admin queues, keep-alive and time of all its
 * controllers, in one thread or in nvmfr_host_poll().
 *
 * One lock guards the control path. No data operation of an I/O queue takes it, except to adopt news.
 */
#ifndef NVMFR_CTRL_HOST_H
#define NVMFR_CTRL_HOST_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/wipe.h"
#include "ctrl/events.h"
#include "fabric/buffer.h"
#include "fabric/fabric.h"
#include "wire/nqn.h"

struct nvmfr_ctrl;
struct nvmfr_group;
struct nvmfr_soft_target;

/* Registers buffers on a device that opened later. */
struct registrar {
	pthread_t thread;
	bool running;
	_Atomic bool done, stop;
	struct fab_dev *dev;
	int err;
	char sentence[256];
};

struct nvmfr_host {
	struct fab_host fab;
	struct nvmfr__clock clock;
	struct nvmfr__log log;
	char hostnqn[NVME_NQN_MAX + 1];
	uint8_t hostid[16];
	bool manual;

	pthread_mutex_t lock;
	pthread_cond_t changed; /* some controller or queue pair changed its state */
	uint64_t changes; /* how often */
	struct wipe_page *wipe_pages;
	_Atomic uint32_t *alive; /* 1; reads 0 in a forked child */
	struct nvmfr_ctrl *ctrls;
	struct nvmfr_group *groups;
	struct nvmfr_soft_target *soft_targets;
	struct fab *verbs, *soft; /* opened when first needed */
	bool verbs_deaf, soft_deaf; /* they fail to give events, and are not watched */

	/* the service */
	pthread_t thread;
	bool running, stopping;
	int epoll_fd, wake_fd;
	uint64_t due_ns; /* when the next pass is due; UINT64_MAX: never */
	_Atomic uint32_t tick; /* coarse time for I/O timeouts, from 1 on */
	uint64_t tick_ns; /* when tick was counted last */

	pthread_mutex_t buffers_lock; /* never taken before lock is let go, but for trylock */
	struct nvmfr_buffer *buffers;
	struct registrar registrar;
	struct host_events events;
};

enum { HOST_TICK_MS = 100, HOST_DEAF_MS = 1000 };

static inline bool nvmfr__host_alive(const struct nvmfr_host *host)
{
	return atomic_load_explicit(host->alive, memory_order_relaxed) != 0;
}

/* ---- service.c -------------------------------------------------------------------------------------- */

int nvmfr__service_open(struct nvmfr_host *host); /* descriptors, and the thread unless manual */
void nvmfr__service_stop(struct nvmfr_host *host); /* the thread; what it did is then the caller's */
void nvmfr__service_close(struct nvmfr_host *host); /* descriptors */

/* One pass of the service; the lock held. */
void nvmfr__service_pass(struct nvmfr_host *host);

/* Events of a backend, NULL: none. Returns when it wants the next look. */
uint64_t nvmfr__service_events(struct nvmfr_host *host, const struct fab_ops *ops, struct fab *fab,
			       bool *deaf);

/* Some state has changed: those who wait look again. The lock held. */
void nvmfr__service_changed(struct nvmfr_host *host);

/* Another thread has work for it. */
void nvmfr__service_wake(struct nvmfr_host *host);

/*
 * Waits, the lock held, until the service changed something or deadline_ns (host clock) is reached.
 * Manual hosts are driven meanwhile; in virtual time the clock jumps. false: the deadline is over.
 */
bool nvmfr__service_wait(struct nvmfr_host *host, uint64_t deadline_ns);

/* The backend, opened at first use. */
int nvmfr__host_fab(struct nvmfr_host *host, bool soft, const struct fab_ops **ops, struct fab **fab);

/* A descriptor that starts a pass when it is readable. */
int nvmfr__host_watch(struct nvmfr_host *host, int fd);
void nvmfr__host_unwatch(struct nvmfr_host *host, int fd);

/* ---- registrar.c ------------------------------------------------------------------------------ */

/* Registers the host's buffers on dev. 0: all are, -EAGAIN: in progress, ask again; -errno with a sentence. */
int nvmfr__host_attach_buffers(struct nvmfr_host *host, struct fab_dev *dev);
void nvmfr__registrar_stop(struct nvmfr_host *host);
/* The service: devices that went and that nobody uses any more are closed. Returns when it wants the next look. */
uint64_t nvmfr__host_free_devices(struct nvmfr_host *host);

#endif
