/* SPDX-License-Identifier: BSD-3-Clause */
/* Admin commands of the application's: sent as given, answered, refused, too late, lost, from many threads. */
#include "refused.h"

#include <nvmfr/cmd.h>

enum {
	OPC_GET_LOG = 0x02,
	OPC_GET_FEATURES = 0x0a,
	FID_KATO = 0x0f,
	PAGE = 4096,
	STATUS_INVALID_FIELD = 0x4002, /* do not retry */
	STATUS_INVALID_OPCODE = 0x4001,
};

static void up(struct flow *f)
{
	flow_host(f);
	flow_target(f, NULL);
	flow_ns(f, BLOCKS * BLOCK, BLOCK);
	flow_connect(f);
}

static struct nvmfr_cmd identify(uint32_t cns, uint32_t nsid)
{
	return (struct nvmfr_cmd){ .opcode = OPC_IDENTIFY, .nsid = nsid, .cdw10 = cns };
}

static int exchange(struct flow *f, const struct nvmfr_cmd *cmd, void *data, size_t bytes)
{
	return nvmfr_admin(f->ctrl, cmd, data, bytes, NULL, NULL);
}

/* ---- good ------------------------------------------------------------------------------------ */

Test(admin, data_comes_to_any_memory)
{
	struct nvmfr_cmd cmd = identify(CNS_CTRL, 0);
	struct nvmfr_ctrl_info info;
	unsigned char page[PAGE + 1];
	uint64_t result = 7;
	uint16_t status = 7;
	struct flow f;

	up(&f);
	info = flow_ctrl_info(&f);
	cr_assert_eq(nvmfr_admin(f.ctrl, &cmd, page + 1, PAGE, &result, &status), 0, "%s",
		     nvmfr_last_error());
	cr_expect_eq(result, 0u);
	cr_expect_eq(status, 0);
	cr_expect_arr_eq(page + 1 + 24, info.model, strlen(info.model));
	flow_down(&f);
}

Test(admin, result_without_data)
{
	struct nvmfr_cmd cmd = { .opcode = OPC_GET_FEATURES, .cdw10 = FID_KATO };
	uint64_t result = 0;
	struct flow f;

	up(&f);
	cr_assert_eq(nvmfr_admin(f.ctrl, &cmd, NULL, 0, &result, NULL), 0, "%s",
		     nvmfr_last_error());
	cr_expect_eq(result, f.opts.kato_ms);
	flow_down(&f);
}

/* More commands than the queue holds, one after another, of several lengths. */
Test(admin, again_and_again)
{
	static unsigned char log[2 * PAGE];
	struct nvmfr_cmd cmd = identify(CNS_NS, 1);
	struct nvmfr_cmd error = { .opcode = OPC_GET_LOG, .cdw10 = (64 / 4 - 1) << 16 | 1 };
	struct flow f;

	up(&f);
	for (unsigned int i = 0; i < 500; i++) {
		cr_assert_eq(exchange(&f, &cmd, log, PAGE), 0, "%u: %s", i, nvmfr_last_error());
		cr_assert_eq(exchange(&f, &error, log, 64), 0, "%u: %s", i, nvmfr_last_error());
	}
	flow_down(&f);
}

/* ---- refused by the controller --------------------------------------------------------------- */

Test(admin, refusal_has_status_and_sentence)
{
	struct nvmfr_cmd cmd = identify(0xfe, 0);
	unsigned char page[PAGE];
	uint64_t result;
	uint16_t status = 0;
	struct flow f;

	up(&f);
	memset(page, 0x5a, sizeof(page));
	cr_expect_eq(nvmfr_admin(f.ctrl, &cmd, page, PAGE, &result, &status), -EREMOTEIO);
	flow_says("0x4002");
	cr_expect_eq(status, STATUS_INVALID_FIELD);
	cr_expect_eq(page[0], 0x5a, "untouched");
	cmd = (struct nvmfr_cmd){ .opcode = 0xc0 };
	cr_expect_eq(nvmfr_admin(f.ctrl, &cmd, NULL, 0, NULL, &status), -EREMOTEIO);
	cr_expect_eq(status, STATUS_INVALID_OPCODE);
	f.qp = flow_qpair(&f, 8);
	flow_works(&f);
	flow_down(&f);
}

/* A wrong length is the controller's to find: it knows the command. */
Test(admin, wrong_length)
{
	struct nvmfr_cmd cmd = identify(CNS_CTRL, 0);
	unsigned char page[PAGE];
	struct flow f;

	up(&f);
	f.violates = true;
	cr_expect_eq(exchange(&f, &cmd, page, 512), -EREMOTEIO);
	flow_down(&f);
}

/* ---- refused here ---------------------------------------------------------------------------- */

Test(admin, what_is_the_librarys)
{
	static const struct nvmfr_cmd owned[] = {
		{ .opcode = OPC_FABRICS },
		{ .opcode = OPC_KEEP_ALIVE },
		{ .opcode = 0x0c }, /* Asynchronous Event Request */
		{ .opcode = 0x08 }, /* Abort */
		{ .opcode = 0x00 }, /* Delete and Create I/O Submission and Completion Queue */
		{ .opcode = 0x01 },
		{ .opcode = 0x04 },
		{ .opcode = 0x05 },
		{ .opcode = OPC_SET_FEATURES, .cdw10 = FID_NUM_QUEUES },
		{ .opcode = OPC_SET_FEATURES, .cdw10 = FID_EVENT_CONFIG | 1u << 31 },
		{ .opcode = OPC_SET_FEATURES, .cdw10 = FID_KATO },
		{ .opcode = OPC_SET_FEATURES, .cdw10 = 0x81 }, /* Host Identifier */
	};
	uint64_t before;
	struct flow f;

	up(&f);
	before = flow_counters(&f).commands;
	for (unsigned int i = 0; i < ARRAY_SIZE(owned); i++)
		REFUSED(exchange(&f, &owned[i], NULL, 0), -EPERM, "admin command");
	cr_expect_eq(flow_counters(&f).commands, before, "nothing was sent");
	flow_down(&f);
}

Test(admin, bad_arguments)
{
	static unsigned char data[2 << 20];
	struct nvmfr_cmd cmd = identify(CNS_CTRL, 0), bad = cmd;
	uint64_t before, result = 7;
	uint16_t status = 7;
	struct flow f;

	up(&f);
	before = flow_counters(&f).commands;
	REFUSED(nvmfr_admin(NULL, &cmd, data, PAGE, &result, &status), -EINVAL, "ctrl");
	cr_expect_eq(result, 0u);
	cr_expect_eq(status, 0);
	REFUSED(exchange(&f, NULL, data, PAGE), -EINVAL, "cmd");
	REFUSED(exchange(&f, &cmd, NULL, PAGE), -EINVAL, "data");
	REFUSED(exchange(&f, &cmd, data, 0), -EINVAL, "data");
	REFUSED(exchange(&f, &cmd, data, 6), -EINVAL, "multiple of 4");
	REFUSED(exchange(&f, &cmd, data, NVMFR_ADMIN_MAX_BYTES + 4), -ERANGE, "at most");
	bad.opcode = 0x80;
	REFUSED(exchange(&f, &bad, data, PAGE), -EINVAL, "no data");
	bad = cmd;
	bad.reserved0[2] = 1;
	REFUSED(exchange(&f, &bad, data, PAGE), -EINVAL, "reserved");
	bad = cmd;
	bad.reserved1 = 1;
	REFUSED(exchange(&f, &bad, data, PAGE), -EINVAL, "reserved");
	bad = cmd;
	bad.reserved2[1] = 1;
	REFUSED(exchange(&f, &bad, data, PAGE), -EINVAL, "reserved");
	cr_expect_eq(flow_counters(&f).commands, before, "nothing was sent");
	flow_down(&f);
}

Test(admin, longer_than_mdts)
{
	static unsigned char data[64 << 10];
	struct nvmfr_soft_opts opts = flow_soft_opts();
	struct nvmfr_cmd cmd = { .opcode = OPC_GET_LOG };
	struct flow f;

	opts.mdts = 1;
	flow_host(&f);
	flow_target(&f, &opts);
	flow_connect(&f);
	REFUSED(exchange(&f, &cmd, data, 8192 + 4), -ERANGE, "MDTS");
	flow_down(&f);
}

Test(admin, queue_without_room)
{
	struct nvmfr_cmd cmd = { .opcode = OPC_GET_FEATURES, .cdw10 = FID_KATO };
	struct flow f;

	flow_host(&f);
	flow_target(&f, NULL);
	f.opts.admin_depth = 6; /* the target takes four event requests */
	flow_connect(&f);
	REFUSED(exchange(&f, &cmd, NULL, 0), -ENOSPC, "admin_depth");
	cr_expect_eq(nvmfr_disconnect(f.ctrl, 1000), 0);
	f.opts.admin_depth = 7;
	flow_connect(&f);
	cr_expect_eq(exchange(&f, &cmd, NULL, 0), 0, "%s", nvmfr_last_error());
	flow_down(&f);
}

Test(admin, discovery_controller_too)
{
	struct nvmfr_cmd cmd = identify(CNS_CTRL, 0);
	unsigned char page[PAGE];
	struct flow f;

	flow_host(&f);
	flow_target(&f, NULL);
	f.opts.uri = "nvmf+soft://t/nqn.2014-08.org.nvmexpress.discovery";
	flow_connect(&f);
	cr_assert_eq(exchange(&f, &cmd, page, PAGE), 0, "%s", nvmfr_last_error());
	cr_expect_eq(page[111], 2, "CNTRLTYPE");
	flow_down(&f);
}

/* ---- time ------------------------------------------------------------------------------------ */

/* Given up, and answered later: the next ones work, and do not see its data. */
Test(admin, too_late)
{
	struct nvmfr_soft_fault fault =
		flow_fault(NVMFR_SOFT_FAULT_DELAY, 0, OPC_IDENTIFY, NVMFR_SOFT_ANY, 5000000);
	struct nvmfr_cmd cmd = identify(CNS_CTRL, 0);
	unsigned char page[PAGE], other[PAGE];
	struct flow f;

	up(&f);
	flow_plan(&f, &fault);
	cmd.timeout_ms = 1000;
	memset(page, 0x5a, sizeof(page));
	REFUSED(exchange(&f, &cmd, page, PAGE), -ETIMEDOUT, "1000 ms");
	for (unsigned int i = 0; i < PAGE; i++)
		cr_assert_eq(page[i], 0x5a, "byte %u was touched", i);
	cr_expect_eq(exchange(&f, &cmd, other, PAGE), 0, "%s", nvmfr_last_error());
	flow_idle_ms(&f, 6000);
	cr_expect_eq(nvmfr_ctrl_state(f.ctrl), NVMFR_STATE_LIVE);
	cr_expect_eq(exchange(&f, &cmd, other, PAGE), 0, "%s", nvmfr_last_error());
	flow_down(&f);
}

Test(admin, time_of_the_options)
{
	struct nvmfr_soft_fault fault =
		flow_fault(NVMFR_SOFT_FAULT_SILENCE, 0, OPC_IDENTIFY, NVMFR_SOFT_ANY, 0);
	struct nvmfr_cmd cmd = identify(CNS_CTRL, 0);
	unsigned char page[PAGE];
	struct flow f;

	flow_host(&f);
	flow_target(&f, NULL);
	f.opts.admin_timeout_ms = 321;
	flow_connect(&f);
	flow_plan(&f, &fault);
	REFUSED(exchange(&f, &cmd, page, PAGE), -ETIMEDOUT, "321 ms");
	flow_down(&f);
}

/* Commands that are never answered fill the queue: others end in their time, the association lives on. */
Test(admin, full_of_silence)
{
	struct nvmfr_soft_fault fault =
		flow_fault(NVMFR_SOFT_FAULT_SILENCE, 0, OPC_GET_FEATURES, NVMFR_SOFT_ANY, 0);
	struct nvmfr_cmd cmd = { .opcode = OPC_GET_FEATURES, .cdw10 = FID_KATO, .timeout_ms = 10 };
	struct flow f;

	up(&f);
	fault.count = 0;
	flow_plan(&f, &fault);
	for (unsigned int i = 0; i < 31 - 6; i++)
		REFUSED(exchange(&f, &cmd, NULL, 0), -ETIMEDOUT, "no answer");
	REFUSED(exchange(&f, &cmd, NULL, 0), -ETIMEDOUT, "no room");
	flow_idle_ms(&f, 30000);
	cr_expect_eq(nvmfr_ctrl_state(f.ctrl), NVMFR_STATE_LIVE, "keep-alive has its place");
	f.qp = flow_qpair(&f, 8);
	flow_works(&f);
	flow_down(&f);
}

/* ---- loss ------------------------------------------------------------------------------------ */

Test(admin, lost_while_waiting)
{
	struct nvmfr_soft_fault fault =
		flow_fault(NVMFR_SOFT_FAULT_DISCONNECT_ALL, 0, OPC_IDENTIFY, NVMFR_SOFT_ANY, 0);
	struct nvmfr_cmd cmd = identify(CNS_CTRL, 0);
	unsigned char page[PAGE];
	uint16_t status = 7;
	struct flow f;

	up(&f);
	flow_plan(&f, &fault);
	REFUSED(nvmfr_admin(f.ctrl, &cmd, page, PAGE, NULL, &status), -ECONNABORTED,
		"outcome unknown");
	cr_expect_eq(status, 0, "not dressed as an NVMe status");
	REFUSED(exchange(&f, &cmd, page, PAGE), -ENOTCONN, "closed every connection");
	flow_down(&f);
}

/* While it is made anew it says so at once, and then works as before. */
Test(admin, lost_and_made_anew)
{
	struct nvmfr_soft_fault fault =
		flow_fault(NVMFR_SOFT_FAULT_DISCONNECT_ALL, 0, OPC_IDENTIFY, NVMFR_SOFT_ANY, 0);
	struct nvmfr_cmd cmd = identify(CNS_CTRL, 0);
	unsigned char page[PAGE];
	struct flow f;

	flow_host(&f);
	flow_target(&f, NULL);
	f.opts.ctrl_loss_timeout_ms = 60000;
	flow_connect(&f);
	cr_expect_eq(exchange(&f, &cmd, page, PAGE), 0, "%s", nvmfr_last_error());
	flow_plan(&f, &fault);
	REFUSED(exchange(&f, &cmd, page, PAGE), -ECONNABORTED, "outcome unknown");
	REFUSED(exchange(&f, &cmd, page, PAGE), -EAGAIN, "anew");
	REFUSED(nvmfr_get_log(f.ctrl, 1, ~0u, 0, 0, page, 64), -EAGAIN, "anew");
	cr_assert_eq(nvmfr_ctrl_wait(f.ctrl, FLOW_WAIT_MS), 0, "%s", nvmfr_last_error());
	cr_expect_eq(exchange(&f, &cmd, page, PAGE), 0, "%s", nvmfr_last_error());
	cr_expect_eq(page[111], 1, "CNTRLTYPE");
	flow_down(&f);
}

Test(admin, still_connecting)
{
	struct nvmfr_cmd cmd = identify(CNS_CTRL, 0);
	unsigned char page[PAGE];
	struct flow f;

	flow_host(&f);
	flow_target(&f, NULL);
	cr_assert_eq(nvmfr_connect(f.host, &f.opts, &f.ctrl), 0);
	REFUSED(exchange(&f, &cmd, page, PAGE), -EAGAIN, "still connecting");
	flow_down(&f);
}

/* ---- threads --------------------------------------------------------------------------------- */

struct caller {
	struct flow *f;
	unsigned int rounds, lost;
	int err;
	char sentence[256];
};

static void *call_often(void *arg)
{
	struct nvmfr_cmd ctrl = identify(CNS_CTRL, 0), ns = identify(CNS_NS, 1);
	struct caller *c = arg;
	unsigned char page[PAGE];

	for (unsigned int i = 0; i < c->rounds && !c->err; i++) {
		c->err = exchange(c->f, i % 2 ? &ctrl : &ns, page, PAGE);
		if (c->err)
			strncpy(c->sentence, nvmfr_last_error(), sizeof(c->sentence) - 1);
		else if (i % 2 ? page[111] != 1 : page[130] != 9) /* CNTRLTYPE, LBADS */
			c->err = -EPROTO;
	}
	return NULL;
}

static void in_threads(struct flow *f, struct caller callers[8], unsigned int rounds)
{
	pthread_t threads[8];

	for (unsigned int i = 0; i < 8; i++) {
		callers[i] = (struct caller){ .f = f, .rounds = rounds };
		cr_assert_eq(pthread_create(&threads[i], NULL, call_often, &callers[i]), 0);
	}
	for (unsigned int i = 0; i < 8; i++)
		pthread_join(threads[i], NULL);
}

static void up_in_real_time(struct flow *f, uint32_t soft_flags, uint16_t depth)
{
	struct nvmfr_soft_opts opts = flow_soft_opts();

	opts.flags = soft_flags;
	flow_host_thread(f);
	f->opts.admin_depth = depth;
	flow_target(f, &opts);
	flow_ns(f, BLOCKS * BLOCK, BLOCK);
	flow_connect(f);
}

static void many_callers(uint32_t soft_flags, uint16_t depth)
{
	struct caller callers[8];
	struct flow f;

	up_in_real_time(&f, soft_flags, depth);
	in_threads(&f, callers, 100);
	for (unsigned int i = 0; i < 8; i++)
		cr_expect_eq(callers[i].err, 0, "%d: %s", callers[i].err, callers[i].sentence);
	flow_down(&f);
}

Test(admin, many_threads, .timeout = 60)
{
	many_callers(0, 31);
}

Test(admin, many_threads_and_a_target_of_its_own, .timeout = 60)
{
	many_callers(NVMFR_SOFT_THREAD, 31);
}

Test(admin, many_threads_and_room_for_one, .timeout = 60)
{
	many_callers(NVMFR_SOFT_THREAD, 7);
}

/* Each of them learns of the loss. */
Test(admin, lost_under_many_threads, .timeout = 60)
{
	struct nvmfr_soft_fault fault =
		flow_fault(NVMFR_SOFT_FAULT_DISCONNECT_ALL, 0, OPC_IDENTIFY, NVMFR_SOFT_ANY, 0);
	struct caller callers[8];
	struct flow f;

	up_in_real_time(&f, NVMFR_SOFT_THREAD, 9);
	fault.skip = 100;
	flow_plan(&f, &fault);
	in_threads(&f, callers, 1000);
	for (unsigned int i = 0; i < 8; i++)
		cr_expect(callers[i].err == -ECONNABORTED || callers[i].err == -ENOTCONN, "%d: %s",
			  callers[i].err, callers[i].sentence);
	flow_down(&f);
}

/* A manual host that two threads drive at once. */
Test(admin, manual_host_in_many_threads, .timeout = 60)
{
	struct caller callers[8];
	struct nvmfr_host_opts opts;
	struct nvmfr_host *host;
	struct flow f;

	nvmfr_host_opts_init(&opts, sizeof(opts));
	opts.flags = NVMFR_HOST_MANUAL;
	cr_assert_eq(nvmfr_host_create(&opts, &host), 0);
	f = (struct flow){ .host = host };
	nvmfr_ctrl_opts_init(&f.opts, sizeof(f.opts));
	f.opts.uri = "nvmf+soft:?size=1M";
	cr_assert_eq(nvmfr_connect(host, &f.opts, &f.ctrl), 0);
	cr_assert_eq(nvmfr_ctrl_wait(f.ctrl, -1), 0);
	in_threads(&f, callers, 50);
	for (unsigned int i = 0; i < 8; i++)
		cr_expect_eq(callers[i].err, 0, "%d: %s", callers[i].err, callers[i].sentence);
	cr_expect_eq(nvmfr_disconnect(f.ctrl, 1000), 0);
	nvmfr_host_destroy(host);
}
