/* SPDX-License-Identifier: BSD-3-Clause */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "base/err.h"
#include "base/util.h"
#include "wire/cm.h"

/* C11: admin with 31 commands in flight says 32 and 31. */
Test(wire_cm, request_bytes)
{
	const uint8_t admin[32] = { 0, 0, 0, 0, 32, 0, 31, 0, 0xff, 0xff };
	const uint8_t io[32] = { 0, 0, 2, 1, 0x00, 0x10, 0xff, 0x0f, 4, 3 };
	struct nvme_cm_request got = nvme_cm_request(0, 31, 0xffff);

	cr_expect_arr_eq(&got, admin, sizeof(got), "admin");
	got = nvme_cm_request(0x0102, 4095, 0x0304);
	cr_expect_arr_eq(&got, io, sizeof(got), "deepest I/O queue");
}

Test(wire_cm, accept_and_reject_bytes)
{
	const uint8_t accepted[32] = { 0, 0, 0x34, 0x12 };
	const uint8_t rejected[4] = { 0, 0, 6, 0 };
	struct nvme_cm_accept accept = nvme_cm_accept(0x1234);
	struct nvme_cm_reject reject = nvme_cm_reject(NVME_CM_NO_RESOURCES);

	cr_expect_arr_eq(&accept, accepted, sizeof(accept), "accept");
	cr_expect_arr_eq(&reject, rejected, sizeof(reject), "reject");
}

struct parse_case {
	char name[40];
	size_t bytes;
	uint8_t data[256];
	int want_err;
};

static struct parse_case parse_cases[] = {
	{ "nothing", 0, { 0 }, -EPROTO },
	{ "one byte", 1, { 0 }, -EPROTO },
	{ "one byte short", 31, { 0 }, -EPROTO },
	{ "exact", 32, { 0, 0, 2, 1, 4, 3, 6, 5, 8, 7 }, 0 },
	{ "padded by the CM", 196, { 0, 0, 2, 1, 4, 3, 6, 5, 8, 7, [32] = 0xee, [195] = 0xee }, 0 },
	{ "unknown format", 32, { 1, 0, 2, 1 }, -EOPNOTSUPP },
	{ "unknown format, high byte", 32, { 0, 1, 2, 1 }, -EOPNOTSUPP },
};

ParameterizedTestParameters(wire_cm, parse_request)
{
	return cr_make_param_array(struct parse_case, parse_cases, ARRAY_SIZE(parse_cases));
}

ParameterizedTest(struct parse_case *c, wire_cm, parse_request)
{
	struct cm_request got;

	cr_assert_eq(nvme_parse_cm_request(c->data, c->bytes, &got), c->want_err, "%s", c->name);
	if (c->want_err) {
		cr_expect_neq(nvmfr__err_get()[0], '\0', "%s: says why", c->name);
		return;
	}
	cr_expect_eq(got.qid, 0x0102, "%s: QID", c->name);
	cr_expect_eq(got.hrqsize, 0x0304, "%s: HRQSIZE", c->name);
	cr_expect_eq(got.hsqsize, 0x0506, "%s: HSQSIZE", c->name);
	cr_expect_eq(got.cntlid, 0x0708, "%s: CNTLID", c->name);
}

ParameterizedTestParameters(wire_cm, parse_accept)
{
	return cr_make_param_array(struct parse_case, parse_cases, ARRAY_SIZE(parse_cases));
}

ParameterizedTest(struct parse_case *c, wire_cm, parse_accept)
{
	uint16_t crqsize = 0xdead;

	cr_assert_eq(nvme_parse_cm_accept(c->data, c->bytes, &crqsize), c->want_err, "%s", c->name);
	cr_expect_eq(crqsize, c->want_err ? 0xdead : 0x0102, "%s", c->name);
}

/* C12: the reject also comes padded, and C14: with no private data at all. */
ParameterizedTestParameters(wire_cm, parse_reject)
{
	static struct parse_case cases[] = {
		{ "nothing", 0, { 0 }, -EPROTO },
		{ "one byte short", 3, { 0, 0, 6 }, -EPROTO },
		{ "exact", 4, { 0, 0, 6, 0 }, 0 },
		{ "padded by the CM", 148, { 0, 0, 6, 0, 0xee, [147] = 0xee }, 0 },
		{ "unknown format", 4, { 2, 0, 6, 0 }, -EOPNOTSUPP },
	};
	return cr_make_param_array(struct parse_case, cases, ARRAY_SIZE(cases));
}

ParameterizedTest(struct parse_case *c, wire_cm, parse_reject)
{
	uint16_t sts = 0xdead;

	cr_assert_eq(nvme_parse_cm_reject(c->data, c->bytes, &sts), c->want_err, "%s", c->name);
	cr_expect_eq(sts, c->want_err ? 0xdead : 6, "%s", c->name);
}

Test(wire_cm, no_private_data_pointer)
{
	uint16_t sts;

	cr_expect_eq(nvme_parse_cm_reject(NULL, 148, &sts), -EPROTO, "NULL is not read");
	cr_expect_eq(nvme_parse_cm_reject(NULL, 0, &sts), -EPROTO, "NULL and nothing");
}

struct sts_case {
	uint16_t sts;
	bool retryable, smaller;
	char want[40];
};

ParameterizedTestParameters(wire_cm, status_names)
{
	static struct sts_case cases[] = {
		{ 0, false, false, "unknown reject status" },
		{ 1, false, false, "invalid private data length" },
		{ 2, false, false, "invalid record format" },
		{ 3, false, false, "invalid queue ID" },
		{ 4, false, true, "invalid host send queue size" },
		{ 5, false, true, "invalid host receive queue size" },
		{ 6, true, false, "no resources" },
		{ 7, false, false, "invalid inbound read depth" },
		{ 8, false, false, "invalid outbound read depth" },
		{ 9, false, false, "invalid controller ID" },
		{ 10, false, false, "unknown reject status" },
		{ 0xffff, false, false, "unknown reject status" },
	};
	return cr_make_param_array(struct sts_case, cases, ARRAY_SIZE(cases));
}

ParameterizedTest(struct sts_case *c, wire_cm, status_names)
{
	cr_expect_str_eq(nvme_cm_status_name(c->sts), c->want, "%u", c->sts);
	cr_expect_eq(nvme_cm_status_retryable(c->sts), c->retryable, "%u: retry", c->sts);
	cr_expect_eq(nvme_cm_status_retry_smaller(c->sts), c->smaller, "%u: smaller", c->sts);
}
