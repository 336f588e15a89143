/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A controller in virtual time whose admin queue is on the scripted fabric; the test drives the
 * passes.
 */
#ifndef TESTS_UNIT_CTRL_RIG_H
#define TESTS_UNIT_CTRL_RIG_H

#include "scripted.h"
#include "testing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "ctrl/ctrl.h"

struct ctrl_rig {
	struct nvmfr_host host;
	struct nvmfr_ctrl *ctrl;
	struct scripted *s;
	_Atomic uint32_t alive;
	char log[512]; /* the last line */
	unsigned int lines;
};

enum { CTRL_RIG_DEPTH = 8, CTRL_RIG_ADMIN_MS = 1000, CTRL_RIG_KATO_MS = 10000 };

static inline void ctrl_rig_log(void *arg, int level, const char *msg)
{
	struct ctrl_rig *r = arg;

	(void)level;
	r->lines++;
	snprintf(r->log, sizeof(r->log), "%s", msg);
}

static inline void ctrl_rig_up(struct ctrl_rig *r)
{
	memset(r, 0, sizeof(*r));
	pthread_mutex_init(&r->host.lock, NULL);
	pthread_cond_init(&r->host.changed, NULL);
	atomic_init(&r->alive, 1);
	r->host.alive = &r->alive;
	r->host.manual = true;
	r->host.log = (struct nvmfr__log){ ctrl_rig_log, r, NVMFR__LOG_DEBUG };
	strcpy(r->host.hostnqn, "nqn.2014-08.org.example:host");
	nvmfr__clock_init(&r->host.clock);
	nvmfr__clock_freeze(&r->host.clock);
	cr_assert_eq(nvmfr__service_open(&r->host), 0);
	r->s = scripted_new(CTRL_RIG_DEPTH, 0, 0);
	r->ctrl = calloc(1, sizeof(*r->ctrl));
	cr_assert_not_null(r->ctrl);
	r->ctrl->host = &r->host;
	r->ctrl->state = NVMFR_STATE_CONNECTING;
	r->ctrl->opts.admin_depth = CTRL_RIG_DEPTH;
	r->ctrl->opts.admin_timeout_ms = CTRL_RIG_ADMIN_MS;
	r->ctrl->keep_alive_ns = UINT64_MAX;
	strcpy(r->ctrl->target.subnqn, "nqn.2014-08.org.example:disks");
	r->ctrl->ops = r->s->ep.ops;
	r->ctrl->ep = &r->s->ep;
	cr_assert_eq(nvmfr__admin_open(r->ctrl, r->ctrl->ep), 0, "%s", nvmfr__err_get());
}

static inline void ctrl_rig_down(struct ctrl_rig *r)
{
	nvmfr__admin_close(r->ctrl);
	nvmfr__ctrl_forget(r->ctrl);
	nvmfr__service_close(&r->host);
	scripted_free(r->s);
	pthread_cond_destroy(&r->host.changed);
	pthread_mutex_destroy(&r->host.lock);
}

static inline uint64_t ctrl_rig_now(const struct ctrl_rig *r)
{
	return nvmfr__clock_now_ns(&r->host.clock);
}

static inline void ctrl_rig_wait_ms(struct ctrl_rig *r, uint64_t ms)
{
	nvmfr__clock_advance_ns(&r->host.clock, MS_NS(ms));
}

/* Answers the last command that went out. */
static inline void ctrl_rig_answer(struct ctrl_rig *r, uint16_t status, uint64_t result)
{
	scripted_answer(r->s, scripted_cid(scripted_last(r->s, 0)), status, result);
	scripted_sends_signaled(r->s);
}

#endif
