/* SPDX-License-Identifier: BSD-3-Clause */
/* Two ports of one target, a controller by each, and both as paths. */
#ifndef NVMFR_TESTS_PATHS_H
#define NVMFR_TESTS_PATHS_H

#include "flow.h"

enum { BLOCK = 512,
       DEPTH = 64,
       BLOCKS = 256, /* that the load reads and writes */
       KATO_MS = 5000,
       NO_PATH_MS = 20000,
       ANATT_S = 10 };

struct rig {
	struct flow f; /* ctrl is the path by port 1 */
	struct nvmfr_ctrl *ctrls[2];
	struct nvmfr_mpath *mpath;
	struct nvmfr_mqpair *mq;
	struct nvmfr_buffer *buf;
	uint8_t *mem;
	uint64_t before[2]; /* sent() */
};

static inline struct nvmfr_mpath_opts defaults(uint32_t retry)
{
	struct nvmfr_mpath_opts opts;

	nvmfr_mpath_opts_init(&opts, sizeof(opts));
	opts.retry = retry;
	opts.no_path_timeout_ms = NO_PATH_MS;
	return opts;
}

static inline struct nvmfr_ctrl *connect_to(struct rig *r, unsigned int port, uint32_t loss_ms)
{
	static const char *const uris[] = { "nvmf+soft://t?port=1", "nvmf+soft://t?port=2" };
	struct nvmfr_ctrl *ctrl;

	r->f.opts.uri = uris[port - 1];
	r->f.opts.kato_ms = KATO_MS;
	r->f.opts.ctrl_loss_timeout_ms = loss_ms;
	r->f.opts.reconnect_delay_ms = 100;
	cr_assert_eq(nvmfr_connect(r->f.host, &r->f.opts, &ctrl), 0, "%s", nvmfr_last_error());
	cr_assert_eq(nvmfr_ctrl_wait(ctrl, -1), 0, "%s", nvmfr_last_error());
	return ctrl;
}

static inline void target_up(struct rig *r)
{
	struct nvmfr_soft_opts soft = flow_soft_opts();

	soft.oaes = 1 << 8 | 1 << 11;
	soft.ana_groups = 2;
	soft.anatt = ANATT_S;
	flow_target(&r->f, &soft);
	flow_ns(&r->f, MIB, BLOCK);
}

static inline void paths_up(struct rig *r, const struct nvmfr_mpath_opts *opts, uint32_t loss_ms)
{
	struct nvmfr_mqpair_opts mq_opts;

	cr_assert_eq(nvmfr_mpath_create(r->f.host, opts, &r->mpath), 0, "%s", nvmfr_last_error());
	for (unsigned int i = 0; i < 2; i++) {
		r->ctrls[i] = connect_to(r, i + 1, loss_ms);
		cr_assert_eq(nvmfr_mpath_add(r->mpath, r->ctrls[i]), 0, "%s", nvmfr_last_error());
	}
	nvmfr_mqpair_opts_init(&mq_opts, sizeof(mq_opts));
	mq_opts.depth = DEPTH;
	mq_opts.qpair_data = 77;
	cr_assert_eq(nvmfr_mqpair_create(r->mpath, &mq_opts, &r->mq), 0, "%s", nvmfr_last_error());
	flow_settle(&r->f);
}

static inline void up(struct rig *r, const struct nvmfr_mpath_opts *opts, uint32_t loss_ms)
{
	*r = (struct rig){ .mem = NULL };
	flow_host(&r->f);
	target_up(r);
	paths_up(r, opts, loss_ms);
	r->buf = flow_alloc(&r->f, BLOCKS * BLOCK);
	r->mem = nvmfr_buffer_addr(r->buf);
}

static inline void down(struct rig *r)
{
	nvmfr_mqpair_destroy(r->mq);
	cr_expect_eq(nvmfr_mpath_destroy(r->mpath), 0, "%s", nvmfr_last_error());
	for (unsigned int i = 0; i < 2; i++)
		cr_expect_eq(nvmfr_disconnect(r->ctrls[i], 1000), 0, "%s", nvmfr_last_error());
	if (r->buf)
		flow_release(r->buf);
	flow_down(&r->f);
}

#endif
