/* SPDX-License-Identifier: BSD-3-Clause */
/* Identify, features, log pages and health, a function each; refused where the controller does not say it can. */
#include "refused.h"

#include <nvmfr/cmd.h>

enum {
	PAGE = 4096,
	FID_WRITE_CACHE = 0x06,
	FID_TIMESTAMP = 0x0e,
	FID_KATO = 0x0f,
	ID_OAES = 92,
	ID_LPA = 261,
	ID_ONCS = 520,
};

static uint64_t number(const unsigned char *bytes, unsigned int n)
{
	uint64_t value = 0;

	while (n--)
		value = value << 8 | bytes[n];
	return value;
}

/* ---- Identify -------------------------------------------------------------------------------- */

Test(helpers, identify)
{
	unsigned char page[PAGE];
	struct flow f;

	small_up(&f);
	cr_expect_eq(nvmfr_identify(f.ctrl, CNS_NS, f.nsid, 0, 0, page), 0, "%s",
		     nvmfr_last_error());
	cr_expect_eq(number(page, 8), BLOCKS, "NSZE");
	cr_expect_eq(nvmfr_identify(f.ctrl, CNS_ACTIVE_LIST, 0, 0, 0, page), 0);
	cr_expect_eq(number(page, 8), f.nsid, "one namespace");
	cr_expect_eq(nvmfr_identify(f.ctrl, 0xf0, 0, 0, 0, page), -EREMOTEIO);
	REFUSED(nvmfr_identify(f.ctrl, CNS_NS, f.nsid, 0, 0, NULL), -EINVAL, "data");
	REFUSED(nvmfr_identify(NULL, CNS_NS, f.nsid, 0, 0, page), -EINVAL, "ctrl");
	flow_down(&f);
}

/* ---- features -------------------------------------------------------------------------------- */

Test(helpers, feature_value)
{
	uint32_t value = 7;
	struct flow f;

	small_up(&f);
	cr_expect_eq(nvmfr_get_feature(f.ctrl, FID_KATO, 0, 0, 0, NULL, 0, &value), 0);
	cr_expect_eq(value, f.opts.kato_ms);
	cr_expect_eq(nvmfr_get_feature(f.ctrl, FID_WRITE_CACHE, 0, 0, 0, NULL, 0, &value), 0);
	cr_expect_eq(value, 1u);
	cr_expect_eq(nvmfr_set_feature(f.ctrl, FID_WRITE_CACHE, 0, 0, 0, NULL, 0, NULL), 0, "%s",
		     nvmfr_last_error());
	cr_expect_eq(nvmfr_get_feature(f.ctrl, FID_WRITE_CACHE, 0, 0, 0, NULL, 0, &value), 0);
	cr_expect_eq(value, 0u);
	cr_expect_eq(nvmfr_get_feature(f.ctrl, 0xee, 0, 0, 0, NULL, 0, &value), -EREMOTEIO);
	flow_down(&f);
}

Test(helpers, feature_data_both_ways)
{
	unsigned char in[8] = { 1, 2, 3, 4, 5, 6 }, out[8] = { 0 };
	struct flow f;

	small_up(&f);
	cr_expect_eq(nvmfr_get_feature(f.ctrl, FID_TIMESTAMP, 0, 0, 0, out, sizeof(out), NULL), 0,
		     "%s", nvmfr_last_error());
	cr_expect_eq(number(out, 8), 0u, "never set");
	cr_expect_eq(nvmfr_set_feature(f.ctrl, FID_TIMESTAMP, 0, 0, 0, in, sizeof(in), NULL), 0,
		     "%s", nvmfr_last_error());
	flow_idle_ms(&f, 1000);
	cr_expect_eq(nvmfr_get_feature(f.ctrl, FID_TIMESTAMP, 0, 0, 0, out, sizeof(out), NULL), 0);
	cr_expect_eq(number(out, 6), number(in, 6) + 1000);
	cr_expect_eq(out[6], 2, "from a host");
	flow_down(&f);
}

Test(helpers, features_refused)
{
	uint32_t value = 7;
	struct flow f;

	small_up(&f);
	REFUSED(nvmfr_get_feature(f.ctrl, FID_KATO, NVMFR_FEATURE_DEFAULT, 0, 0, NULL, 0, &value),
		-EOPNOTSUPP, "ONCS bit 4");
	cr_expect_eq(value, 0u);
	REFUSED(nvmfr_set_feature(f.ctrl, FID_WRITE_CACHE, 1, 0, 1, NULL, 0, NULL), -EOPNOTSUPP,
		"ONCS bit 4");
	REFUSED(nvmfr_get_feature(f.ctrl, FID_KATO, 4, 0, 0, NULL, 0, NULL), -EINVAL, "select");
	REFUSED(nvmfr_set_feature(f.ctrl, FID_KATO, 0, 0, 1, NULL, 0, NULL), -EPERM, "kato_ms");
	REFUSED(nvmfr_set_feature(NULL, FID_KATO, 0, 0, 1, NULL, 0, NULL), -EINVAL, "ctrl");
	flow_down(&f);
}

Test(helpers, features_saved_where_they_can_be)
{
	const uint8_t oncs = 1 << 4;
	uint32_t value;
	struct flow f;

	flow_host(&f);
	flow_target(&f, NULL);
	flow_patch(&f, CNS_CTRL, NVMFR_SOFT_ANY, ID_ONCS, &oncs, 1);
	flow_connect(&f);
	cr_expect_eq(
		nvmfr_get_feature(f.ctrl, FID_KATO, NVMFR_FEATURE_SAVED, 0, 0, NULL, 0, &value), 0,
		"%s", nvmfr_last_error());
	cr_expect_eq(nvmfr_set_feature(f.ctrl, FID_WRITE_CACHE, 1, 0, 1, NULL, 0, &value), 0, "%s",
		     nvmfr_last_error());
	flow_down(&f);
}

/* ---- log pages ------------------------------------------------------------------------------- */

Test(helpers, error_log)
{
	unsigned char log[64];
	struct flow f;

	small_up(&f);
	cr_expect_eq(nvmfr_get_log(f.ctrl, NVMFR_LOG_PAGE_ERROR, ~0u, 0, 0, log, sizeof(log)), 0,
		     "%s", nvmfr_last_error());
	cr_expect_eq(nvmfr_get_log(f.ctrl, 0xc5, ~0u, 0, 0, log, sizeof(log)), -EREMOTEIO);
	flow_says("0x4109");
	flow_down(&f);
}

/* In pieces where it is long; each lands in its place. */
Test(helpers, effects_log_and_a_part_of_it)
{
	static unsigned char log[2 * PAGE];
	unsigned char part[4];
	uint64_t before;
	struct flow f;

	small_up(&f);
	memset(log, 0x5a, sizeof(log));
	before = flow_counters(&f).commands;
	cr_expect_eq(nvmfr_get_log(f.ctrl, NVMFR_LOG_PAGE_EFFECTS, 0, 0, 0, log, PAGE + 4), 0, "%s",
		     nvmfr_last_error());
	cr_expect_eq(flow_counters(&f).commands, before + 2);
	cr_expect_eq(number(log + 4 * OPC_IDENTIFY, 4), 1u, "supported");
	cr_expect_eq(number(log + 1024 + 4 * OPC_WRITE, 4), 3u, "supported, changes content");
	cr_expect_eq(number(log + 1024 + 4 * OPC_READ, 4), 1u);
	cr_expect_eq(number(log + 4 * 0xc0, 4), 0u);
	cr_expect_eq(number(log + PAGE, 4), 0u, "behind the page");
	cr_expect_eq(log[PAGE + 4], 0x5a, "not beyond what was asked for");
	cr_expect_eq(
		nvmfr_get_log(f.ctrl, NVMFR_LOG_PAGE_EFFECTS, 0, 0, 1024 + 4 * OPC_WRITE, part, 4),
		0);
	cr_expect_eq(number(part, 4), 3u);
	flow_down(&f);
}

static unsigned int count_added(const struct flow *f, uint32_t nsid)
{
	struct nvmfr_event events[8];
	unsigned int found = 0;
	int n = nvmfr_host_events(f->host, events, ARRAY_SIZE(events));

	for (int i = 0; i < n; i++)
		found += events[i].type == NVMFR_EVENT_NS_ADDED && events[i].nsid == nsid;
	return found;
}

/* Whoever reads the page takes what it tells, and the library learns of the change all the same. */
Test(helpers, changed_namespaces)
{
	unsigned char log[PAGE];
	struct flow f;

	small_up(&f);
	flow_ns(&f, MIB, BLOCK);
	cr_expect_eq(nvmfr_get_log(f.ctrl, NVMFR_LOG_PAGE_CHANGED_NS, ~0u, 0, 0, log, PAGE), 0, "%s",
		     nvmfr_last_error());
	cr_expect_eq(number(log, 8), 2u, "the second one is new");
	flow_idle_ms(&f, 100);
	cr_expect_eq(count_added(&f, 2), 1u);
	cr_expect_eq(nvmfr_get_log(f.ctrl, NVMFR_LOG_PAGE_CHANGED_NS, ~0u, 0, 0, log, PAGE), 0);
	cr_expect_eq(number(log, 8), 0u);
	flow_down(&f);
}

static void patched_up(struct flow *f, uint32_t offset, uint8_t value)
{
	flow_host(f);
	flow_target(f, NULL);
	flow_ns(f, BLOCKS * BLOCK, BLOCK);
	flow_patch8(f, CNS_CTRL, offset, value);
	flow_connect(f);
}

Test(helpers, pages_that_are_not_there)
{
	static unsigned char log[5 * PAGE];
	struct flow f;

	patched_up(&f, ID_LPA, 0);
	REFUSED(nvmfr_get_log(f.ctrl, NVMFR_LOG_PAGE_EFFECTS, 0, 0, 0, log, PAGE), -EOPNOTSUPP,
		"LPA bit 1");
	REFUSED(nvmfr_get_log(f.ctrl, NVMFR_LOG_PAGE_SMART, 1, 0, 0, log, 512), -EOPNOTSUPP,
		"LPA bit 0");
	REFUSED(nvmfr_get_log(f.ctrl, NVMFR_LOG_PAGE_ANA, ~0u, 0, 0, log, 512), -EOPNOTSUPP,
		"CMIC bit 3");
	REFUSED(nvmfr_get_log(f.ctrl, NVMFR_LOG_PAGE_ERROR, ~0u, 0, 4, log, 60), -EOPNOTSUPP,
		"LPA bit 2");
	REFUSED(nvmfr_get_log(f.ctrl, NVMFR_LOG_PAGE_ERROR, ~0u, 0, 0, log, 4 * PAGE + 4),
		-EOPNOTSUPP, "LPA bit 2");
	cr_expect_eq(nvmfr_get_log(f.ctrl, NVMFR_LOG_PAGE_ERROR, ~0u, 0, 0, log, 64), 0);
	flow_down(&f);
	patched_up(&f, ID_OAES + 1, 0);
	REFUSED(nvmfr_get_log(f.ctrl, NVMFR_LOG_PAGE_CHANGED_NS, ~0u, 0, 0, log, PAGE), -EOPNOTSUPP,
		"OAES bit 8");
	flow_down(&f);
}

Test(helpers, bad_log_arguments)
{
	unsigned char log[64];
	struct flow f;

	small_up(&f);
	REFUSED(nvmfr_get_log(f.ctrl, 1, ~0u, 0, 0, NULL, 64), -EINVAL, "data");
	REFUSED(nvmfr_get_log(f.ctrl, 1, ~0u, 0, 0, log, 0), -EINVAL, "bytes");
	REFUSED(nvmfr_get_log(f.ctrl, 1, ~0u, 0, 0, log, 6), -EINVAL, "multiples");
	REFUSED(nvmfr_get_log(f.ctrl, 1, ~0u, 0, 2, log, 64), -EINVAL, "multiples");
	REFUSED(nvmfr_get_log(f.ctrl, 1, ~0u, 2, 0, log, 64), -EINVAL, "flags");
	REFUSED(nvmfr_get_log(NULL, 1, ~0u, 0, 0, log, 64), -EINVAL, "ctrl");
	flow_down(&f);
}

/* ---- health ---------------------------------------------------------------------------------- */

Test(helpers, smart)
{
	struct nvmfr_smart smart = { .size = sizeof(smart) };
	struct flow f;

	small_up(&f);
	flow_works(&f);
	cr_expect_eq(nvmfr_read_smart(f.ctrl, ~0u, &smart), 0, "%s", nvmfr_last_error());
	cr_expect_eq(smart.temperature_kelvin, 313);
	cr_expect_eq(smart.sensor_kelvin[0], 313);
	cr_expect_eq(smart.spare_percent, 100);
	cr_expect_eq(smart.host_reads[0], flow_counters(&f).reads);
	cr_expect_eq(smart.host_writes[0], flow_counters(&f).writes);
	cr_expect_gt(smart.host_writes[0], 0u);
	smart = (struct nvmfr_smart){ .size = offsetof(struct nvmfr_smart, spare_percent) };
	smart.spare_percent = 77;
	cr_expect_eq(nvmfr_read_smart(f.ctrl, ~0u, &smart), 0);
	cr_expect_eq(smart.spare_percent, 77, "not beyond its size");
	smart.size = 0;
	REFUSED(nvmfr_read_smart(f.ctrl, ~0u, &smart), -EINVAL, "size");
	REFUSED(nvmfr_read_smart(f.ctrl, ~0u, NULL), -EINVAL, "NULL");
	smart.size = sizeof(smart);
	REFUSED(nvmfr_read_smart(f.ctrl, 1, &smart), -EOPNOTSUPP, "LPA bit 0");
	flow_down(&f);
}
