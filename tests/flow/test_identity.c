/* SPDX-License-Identifier: BSD-3-Clause */
/* Who connects, and what a good connect tells of the other side. */
#include "flow.h"

#include <stdlib.h>

/* ---- identity -------------------------------------------------------------------------------- */

static void connects_as(const char *hostnqn, const uint8_t hostid[16])
{
	struct nvmfr_host_opts opts;
	struct flow f = { .log = calloc(1, sizeof(*f.log)) };

	pthread_mutex_init(&f.log->lock, NULL);
	nvmfr_host_opts_init(&opts, sizeof(opts));
	opts.flags = NVMFR_HOST_MANUAL;
	opts.hostnqn = hostnqn;
	memcpy(opts.hostid, hostid, sizeof(opts.hostid));
	cr_assert_eq(nvmfr_host_create(&opts, &f.host), 0, "%s", nvmfr_last_error());
	if (hostnqn)
		cr_expect_str_eq(nvmfr_host_nqn(f.host), hostnqn);
	nvmfr_ctrl_opts_init(&f.opts, sizeof(f.opts));
	f.opts.uri = "nvmf+soft://t";
	flow_target(&f, NULL);
	flow_connect(&f);
	flow_down(&f); /* no violation: HOSTNQN was padded, HOSTID was not zero */
}

Test(identity, default_identity)
{
	static const uint8_t none[16];

	connects_as(NULL, none);
}

Test(identity, short_host_nqn)
{
	static const uint8_t none[16];

	connects_as("nqn.x:1", none);
}

Test(identity, longest_host_nqn)
{
	static const uint8_t id[16] = { [15] = 1 };
	char nqn[224] = "nqn.2026-12.org.example:";

	memset(nqn + strlen(nqn), 'x', 223 - strlen(nqn));
	connects_as(nqn, id);
}

Test(identity, default_identity_is_stable)
{
	char first[256];
	struct flow f;

	flow_host(&f);
	strncpy(first, nvmfr_host_nqn(f.host), sizeof(first) - 1);
	first[sizeof(first) - 1] = '\0';
	flow_down(&f);
	flow_host(&f);
	cr_expect_str_eq(nvmfr_host_nqn(f.host), first);
	flow_down(&f);
}

/* ---- what a good connect tells --------------------------------------------------------------- */

Test(identity, discovery_controller_has_no_queues)
{
	struct nvmfr_qpair *qp;
	struct flow f;

	flow_host(&f);
	flow_target(&f, NULL);
	flow_ns(&f, MIB, 512);
	f.opts.uri = "nvmf+soft://t/nqn.2014-08.org.nvmexpress.discovery";
	flow_connect(&f);
	cr_expect_eq(nvmfr_ns_next(f.ctrl, 0), 0);
	cr_expect_eq(nvmfr_qpair_create(f.ctrl, NULL, &qp), -EOPNOTSUPP);
	flow_says("discovery");
	flow_down(&f);
}

Test(identity, info_says_what_the_target_is)
{
	struct nvmfr_ctrl_info info;
	struct flow f;

	flow_up(&f, NULL);
	info = flow_ctrl_info(&f);
	cr_expect_str_eq(info.subnqn, NVMFR_SOFT_SUBNQN);
	cr_expect_str_eq(info.model, "nvmfr soft target");
	cr_expect_str_eq(info.device, "soft");
	cr_expect_eq(info.numa_node, -1, "memory is everywhere");
	cr_expect_eq(info.version, 0x010400);
	cr_expect_eq(info.ns_count, 1);
	cr_expect_eq(info.num_io_queues, 64);
	cr_expect_eq(info.max_queue_depth, 1023);
	cr_expect_eq(info.max_xfer_bytes, MIB);
	cr_expect_eq(info.max_icd_bytes, 8192);
	cr_expect_eq(info.max_sgl_descriptors, 16);
	cr_expect_eq(info.kato_ms, 10000);
	flow_down(&f);
}

Test(identity, namespace_info_says_what_the_namespace_is)
{
	struct nvmfr_ns_info info = { .size = sizeof(info) };
	struct nvmfr_soft_ns_opts opts;
	struct flow f;

	flow_host(&f);
	flow_target(&f, NULL);
	nvmfr_soft_ns_opts_init(&opts, sizeof(opts));
	opts.nsid = 7;
	opts.size_bytes = 4 * MIB;
	opts.block_bytes = 4096;
	opts.flags = NVMFR_SOFT_NS_READ_ONLY;
	cr_assert_eq(nvmfr_soft_ns_add(f.target, &opts), 7);
	flow_connect(&f);
	cr_expect_eq(nvmfr_ns_next(f.ctrl, 0), 7);
	cr_expect_eq(nvmfr_ns_next(f.ctrl, 7), 0);
	cr_assert_eq(nvmfr_ns_info(f.ctrl, 7, &info), 0);
	cr_expect_eq(info.nsid, 7);
	cr_expect_eq(info.capacity_blocks, 1024);
	cr_expect_eq(info.block_bytes, 4096);
	cr_expect_eq(info.metadata_bytes, 0);
	cr_expect_eq(info.read_only, 1);
	cr_expect_eq(nvmfr_ns_info(f.ctrl, 1, &info), -ENOENT);
	flow_says("namespace 1");
	flow_down(&f);
}

/* ---- the dump -------------------------------------------------------------------------------- */

static char dumped[16384];

static const char *dump(const struct flow *f)
{
	int need = nvmfr_ctrl_dump(f->ctrl, dumped, sizeof(dumped));

	cr_assert(need > 0 && need <= (int)sizeof(dumped), "%d", need);
	cr_expect_eq((int)strlen(dumped) + 1, need);
	return dumped;
}

static bool dump_says(const struct flow *f, const char *words)
{
	return strstr(dump(f), words) != NULL;
}

Test(identity, dump_in_every_state)
{
	struct nvmfr_qpair *qp;
	struct flow f;

	flow_up(&f, NULL);
	cr_expect(dump_says(&f, "\"state\": \"live\""), "%s", dumped);
	cr_expect(dump_says(&f, "\"queues\": [{\"qid\": 1, \"depth\": 128, \"phase\": \"live\""), "%s", dumped);
	cr_expect(dump_says(&f, "\"namespaces\": [{\"nsid\": 1, "), "%s", dumped);
	cr_assert_eq(nvmfr_qpair_create(f.ctrl, NULL, &qp), 0);
	cr_expect(dump_says(&f, "{\"qid\": 2, \"depth\": 128, \"phase\": \"waiting\""), "%s", dumped);
	cr_assert_eq(nvmfr_qpair_wait(qp, 20000), 0);
	cr_expect(dump_says(&f, "\"phase\": \"live\""), "%s", dumped);
	nvmfr_soft_drop(f.target);
	flow_settle(&f);
	cr_expect(dump_says(&f, "\"state\": \"lost\", \"reason\": \""), "%s", dumped);
	cr_expect(dump_says(&f, "\"phase\": \"lost\""), "%s", dumped);
	nvmfr_qpair_destroy(qp);
	flow_down(&f);
}

Test(identity, dump_into_little_room)
{
	char text[8] = "xxxxxxx";
	struct flow f;
	int need;

	flow_up(&f, NULL);
	need = nvmfr_ctrl_dump(f.ctrl, NULL, 0);
	cr_expect_gt(need, 8);
	cr_expect_eq(nvmfr_ctrl_dump(f.ctrl, text, 4), need);
	cr_expect(strlen(text) == 3 && text[0] == '{' && text[4] == 'x', "cut, terminated, nothing behind");
	cr_expect_eq(nvmfr_ctrl_dump(f.ctrl, NULL, 4), -EINVAL);
	cr_expect_eq(nvmfr_ctrl_dump(NULL, text, 4), -EINVAL);
	flow_down(&f);
}
