/* SPDX-License-Identifier: BSD-3-Clause */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdint.h>
#include <string.h>

#include "base/util.h"
#include "wire/admin.h"
#include "wire/logpage.h"

#include <nvmfr/cmd.h>

static void expect_bytes(const struct nvme_sqe *sqe, const uint8_t *want, const char *name)
{
	cr_expect_arr_eq(sqe, want, sizeof(*sqe), "%s", name);
}

Test(wire_admin, identify)
{
	const uint8_t ctrl[64] = { 0x06, 0x40, [39] = 0x40, 0x01 };
	const uint8_t list[64] = { 0x06, 0x40, [4] = 4, 3, 2, 1, [39] = 0x40, 0x02 };
	const uint8_t cntid[64] = { 0x06, 0x40, [39] = 0x40, 0x13, 0, 0x34, 0x12 };
	struct nvme_sqe sqe;

	nvme_sqe_identify(&sqe, NVME_CNS_CTRL, 0, 0);
	expect_bytes(&sqe, ctrl, "controller");
	nvme_sqe_identify(&sqe, NVME_CNS_ACTIVE_LIST, 0x01020304, 0);
	expect_bytes(&sqe, list, "active list after an NSID");
	nvme_sqe_identify(&sqe, 0x13, 0, 0x1234);
	expect_bytes(&sqe, cntid, "CNTID");
}

Test(wire_admin, features)
{
	const uint8_t get[64] = { 0x0a, 0x40, [39] = 0x40, 0x0f };
	const uint8_t set[64] = { 0x09, 0x40, [39] = 0x40, 0x0f, 0, 0, 0, 4, 3, 2, 1 };
	const uint8_t aec[64] = { 0x09, 0x40, [39] = 0x40, 0x0b, 0, 0, 0, 0, 0x0b, 0, 0x80 };
	struct nvme_sqe sqe;

	nvme_sqe_get_features(&sqe, NVME_FEAT_KATO);
	expect_bytes(&sqe, get, "get KATO");
	nvme_sqe_set_features(&sqe, NVME_FEAT_KATO, 0x01020304);
	expect_bytes(&sqe, set, "set KATO");
	nvme_sqe_set_features(&sqe, NVME_FEAT_ASYNC_EVENT_CONFIG,
			      NVME_AEC_NS_ATTR | NVME_AEC_FW_ACTIVATION | NVME_AEC_ANA_CHANGE |
				      NVME_AEC_DISCOVERY_CHANGE);
	expect_bytes(&sqe, aec, "event configuration");
}

Test(wire_admin, commands_without_arguments)
{
	const uint8_t keep_alive[64] = { 0x18, 0x40, [39] = 0x40 };
	const uint8_t async_event[64] = { 0x0c, 0x40, [39] = 0x40 };
	struct nvme_sqe sqe;

	nvme_sqe_keep_alive(&sqe);
	expect_bytes(&sqe, keep_alive, "keep alive");
	nvme_sqe_async_event(&sqe);
	expect_bytes(&sqe, async_event, "async event request");
}

Test(wire_admin, abort)
{
	const uint8_t want[64] = { 0x08, 0x40, [39] = 0x40, 2, 1, 4, 3 };
	struct nvme_sqe sqe;

	nvme_sqe_abort(&sqe, 0x0102, 0x0304);
	expect_bytes(&sqe, want, "abort");
	cr_expect(nvme_abort_done(0), "bit 0 clear: aborted");
	cr_expect_not(nvme_abort_done(1), "bit 0 set: not aborted");
}

struct queues_case {
	char name[32];
	uint32_t wanted;
	uint8_t cdw11[4];
};

ParameterizedTestParameters(wire_admin, set_num_queues)
{
	/* clang-format off */
	static struct queues_case cases[] = {
		{ "one", 1, { 0, 0, 0, 0 } },
		{ "eight", 8, { 7, 0, 7, 0 } },
		{ "none is one", 0, { 0, 0, 0, 0 } },
		{ "most", 65535, { 0xfe, 0xff, 0xfe, 0xff } },
		{ "more than most", 65536, { 0xfe, 0xff, 0xfe, 0xff } },
	};
	/* clang-format on */
	return cr_make_param_array(struct queues_case, cases, ARRAY_SIZE(cases));
}

ParameterizedTest(struct queues_case *c, wire_admin, set_num_queues)
{
	uint8_t want[64] = { 0x09, 0x40, [39] = 0x40, 0x07 };
	struct nvme_sqe sqe;

	memcpy(want + 44, c->cdw11, sizeof(c->cdw11));
	nvme_sqe_set_num_queues(&sqe, c->wanted);
	expect_bytes(&sqe, want, c->name);
}

Test(wire_admin, num_queues_granted)
{
	cr_expect_eq(nvme_num_queues_granted(0), 1, "0's based");
	cr_expect_eq(nvme_num_queues_granted(0x00070003), 4, "fewer submission queues");
	cr_expect_eq(nvme_num_queues_granted(0x00030007), 4, "fewer completion queues");
	cr_expect_eq(nvme_num_queues_granted(0xffffffff), 65536, "all ones");
	cr_expect_eq(nvme_num_queues_granted(UINT64_C(0xffffffff00000000)), 1, "dword 0 only");
}

/* ---- Get Log Page: LID 7:0, RAE 15, NUMDL 31:16 of CDW10; NUMDU 15:0 of CDW11; LPOL, LPOU ---- */

struct log_case {
	char name[32];
	uint8_t lid;
	uint32_t nsid, bytes;
	uint64_t offset;
	bool rae;
	uint8_t want[64];
};

ParameterizedTestParameters(wire_logpage, get_log_bytes)
{
	/* clang-format off */
	static struct log_case cases[] = {
		{ "changed namespaces", NVME_LID_CHANGED_NS, NVME_NSID_ALL, 4096, 0, false,
		  { 0x02, 0x40, [4] = 0xff, 0xff, 0xff, 0xff, [39] = 0x40, 0x04, 0, 0xff, 0x03 } },
		{ "one dword, event kept", NVME_LID_ANA, 0, 4, 0, true,
		  { 0x02, 0x40, [39] = 0x40, 0x0c, 0x80, 0, 0 } },
		{ "upper half of NUMD", NVME_LID_DISCOVERY, 0, 0x00040004, 0, false,
		  { 0x02, 0x40, [39] = 0x40, 0x70, 0, 0, 0, 1 } },
		{ "offset is 64 bits", NVME_LID_DISCOVERY, 0, 8, 0x0807060504030200, false,
		  { 0x02, 0x40, [39] = 0x40, 0x70, 0, 1, 0, [48] = 0, 2, 3, 4, 5, 6, 7, 8 } },
	};
	/* clang-format on */
	return cr_make_param_array(struct log_case, cases, ARRAY_SIZE(cases));
}

ParameterizedTest(struct log_case *c, wire_logpage, get_log_bytes)
{
	struct nvme_sqe sqe;

	nvme_sqe_get_log(&sqe, c->lid, c->nsid, c->bytes, c->offset, c->rae);
	expect_bytes(&sqe, c->want, c->name);
}

struct aer_case {
	char name[32];
	uint64_t result;
	uint8_t type, info, lid;
	uint32_t parameter;
};

ParameterizedTestParameters(wire_logpage, async_event)
{
	/* clang-format off */
	static struct aer_case cases[] = {
		{ "namespace changed", 0x00040002, NVME_AER_NOTICE, NVME_NOTICE_NS_ATTR, 4, 0 },
		{ "ANA change", 0x000c0302, NVME_AER_NOTICE, NVME_NOTICE_ANA_CHANGE, 0x0c, 0 },
		{ "discovery change", 0x0070f002, NVME_AER_NOTICE, NVME_NOTICE_DISCOVERY_CHANGE,
		  0x70, 0 },
		{ "all ones", UINT64_MAX, 7, 0xff, 0xff, 0xffffffff },
	};
	/* clang-format on */
	return cr_make_param_array(struct aer_case, cases, ARRAY_SIZE(cases));
}

ParameterizedTest(struct aer_case *c, wire_logpage, async_event)
{
	struct aer_result got = nvme_parse_aer(c->result);

	cr_expect_eq(got.type, c->type, "%s: type", c->name);
	cr_expect_eq(got.info, c->info, "%s: info", c->name);
	cr_expect_eq(got.lid, c->lid, "%s: page", c->name);
	cr_expect_eq(got.parameter, c->parameter, "%s: parameter", c->name);
}

struct changed_case {
	char name[32];
	uint32_t list[3];
	int count;
};

ParameterizedTestParameters(wire_logpage, changed_list)
{
	static struct changed_case cases[] = {
		{ "none", { 0 }, 0 },
		{ "some", { 1, 2, 0xfffffffe }, 3 },
		{ "more than fit", { 0xffffffff }, -1 },
		{ "more than fit, later", { 1, 0xffffffff }, -1 },
		{ "descending", { 2, 1 }, -1 },
		{ "twice", { 2, 2 }, -1 },
		{ "what is behind the end", { 1, 0, 5 }, 1 },
	};
	return cr_make_param_array(struct changed_case, cases, ARRAY_SIZE(cases));
}

ParameterizedTest(struct changed_case *c, wire_logpage, changed_list)
{
	unsigned char page[NVME_CHANGED_NS_BYTES] = { 0 };
	uint32_t got[NVME_CHANGED_NS_MAX];
	int n;

	for (size_t i = 0; i < ARRAY_SIZE(c->list); i++) {
		le32 nsid = to_le32(c->list[i]);

		memcpy(page + i * sizeof(nsid), &nsid, sizeof(nsid));
	}
	n = nvme_parse_changed_ns(page, got);
	cr_expect_eq(n, c->count, "%s: %d", c->name, n);
	for (int i = 0; i < n; i++)
		cr_expect_eq(got[i], c->list[i], "%s: entry %d", c->name, i);
}

Test(wire_logpage, a_full_changed_list)
{
	unsigned char page[NVME_CHANGED_NS_BYTES];
	uint32_t got[NVME_CHANGED_NS_MAX];

	for (uint32_t i = 0; i < NVME_CHANGED_NS_MAX; i++) {
		le32 nsid = to_le32(i + 1);

		memcpy(page + i * sizeof(nsid), &nsid, sizeof(nsid));
	}
	cr_expect_eq(nvme_parse_changed_ns(page, got), NVME_CHANGED_NS_MAX);
	cr_expect_eq(got[NVME_CHANGED_NS_MAX - 1], (uint32_t)NVME_CHANGED_NS_MAX);
}

/* NVM Express Base Specification, SMART / Health Information: each byte is its offset, modulo 251. */
Test(wire_logpage, smart)
{
	struct nvmfr_smart got;
	uint8_t page[NVME_SMART_LOG_BYTES];

	for (size_t i = 0; i < sizeof(page); i++)
		page[i] = (uint8_t)(i % 251);
	memset(&got, 0xee, sizeof(got));
	nvme_parse_smart(page, &got);
	cr_expect_eq(got.critical_warning, 0);
	cr_expect_eq(got.temperature_kelvin, 0x0201);
	cr_expect_eq(got.spare_percent, 3);
	cr_expect_eq(got.spare_threshold_percent, 4);
	cr_expect_eq(got.used_percent, 5);
	cr_expect_eq(got.endurance_warning, 6);
	cr_expect_eq(got.reserved, 0);
	cr_expect_eq(got.data_units_read[0], 0x2726252423222120);
	cr_expect_eq(got.data_units_read[1], 0x2f2e2d2c2b2a2928);
	cr_expect_eq(got.data_units_written[0], 0x3736353433323130);
	cr_expect_eq(got.host_reads[0], 0x4746454443424140);
	cr_expect_eq(got.host_writes[0], 0x5756555453525150);
	cr_expect_eq(got.busy_minutes[1], 0x6f6e6d6c6b6a6968);
	cr_expect_eq(got.power_cycles[0], 0x7776757473727170);
	cr_expect_eq(got.power_on_hours[0], 0x8786858483828180);
	cr_expect_eq(got.unsafe_shutdowns[0], 0x9796959493929190);
	cr_expect_eq(got.media_errors[0], 0xa7a6a5a4a3a2a1a0);
	cr_expect_eq(got.error_log_entries[0], 0xb7b6b5b4b3b2b1b0);
	cr_expect_eq(got.warning_minutes, 0xc3c2c1c0);
	cr_expect_eq(got.critical_minutes, 0xc7c6c5c4);
	cr_expect_eq(got.sensor_kelvin[0], 0xc9c8);
	cr_expect_eq(got.sensor_kelvin[7], 0xd7d6);
	cr_expect_eq(got.thermal_transitions[0], 0xdbdad9d8);
	cr_expect_eq(got.thermal_transitions[1], 0xdfdedddc);
	cr_expect_eq(got.thermal_seconds[0], 0xe3e2e1e0);
	cr_expect_eq(got.thermal_seconds[1], 0xe7e6e5e4);
}
