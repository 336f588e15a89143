/* SPDX-License-Identifier: BSD-3-Clause */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/util.h"
#include "repeat.h"
#include "wire/nqn.h"
#include "wire/text.h"

struct nqn_case {
	char name[40];
	char nqn[300];
	int want;
};

ParameterizedTestParameters(wire_nqn, check)
{
	static struct nqn_case cases[] = {
		{ "usual", "nqn.2014-08.org.nvmexpress:uuid:6b0c", 0 },
		{ "without the prefix", "testnqn", 0 },
		{ "one byte", "a", 0 },
		{ "UTF-8", "nqn.2014-08.org.example:\xc3\xa4", 0 },
		{ "223 bytes", REPEAT_223("x"), 0 },
		{ "224 bytes", REPEAT_224("x"), -EINVAL },
		{ "279 bytes", REPEAT_223("x") REPEAT_32("x") REPEAT_16("x") "xxxxxxxx", -EINVAL },
		{ "empty", "", -EINVAL },
		{ "blank inside", "nqn a", -EINVAL },
		{ "trailing blank", "nqn.a ", -EINVAL },
		{ "newline at the end", "nqn.a\n", -EINVAL },
		{ "tab", "nqn\ta", -EINVAL },
		{ "DEL", "nqn\x7f", -EINVAL },
	};
	return cr_make_param_array(struct nqn_case, cases, ARRAY_SIZE(cases));
}

ParameterizedTest(struct nqn_case *c, wire_nqn, check)
{
	cr_expect_eq(nvme_nqn_check("subnqn", c->nqn), c->want, "%s", c->name);
	cr_expect_eq(strncmp(nvmfr__err_get(), "subnqn: ", 8) == 0, c->want != 0, "%s: \"%s\"",
		     c->name, nvmfr__err_get());
}

Test(wire_nqn, null)
{
	cr_expect_eq(nvme_nqn_check("hostnqn", NULL), -EINVAL, "NULL");
}

/* ---- UUID ---- */

static const uint8_t uuid[16] = { 0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef,
				  0xfe, 0xdc, 0xba, 0x98, 0x76, 0x54, 0x32, 0x10 };
static const char uuid_text[] = "01234567-89ab-cdef-fedc-ba9876543210";

struct uuid_case {
	char name[32];
	char text[48];
	int want;
};

ParameterizedTestParameters(wire_uuid, parse)
{
	static struct uuid_case cases[] = {
		{ "lower case", "01234567-89ab-cdef-fedc-ba9876543210", 0 },
		{ "upper case", "01234567-89AB-CDEF-FEDC-BA9876543210", 0 },
		{ "empty", "", -EINVAL },
		{ "one digit short", "01234567-89ab-cdef-fedc-ba987654321", -EINVAL },
		{ "one digit more", "01234567-89ab-cdef-fedc-ba98765432100", -EINVAL },
		{ "newline", "01234567-89ab-cdef-fedc-ba9876543210\n", -EINVAL },
		{ "no dashes", "0123456789abcdeffedcba9876543210", -EINVAL },
		{ "dash elsewhere", "0123456-789ab-cdef-fedc-ba9876543210", -EINVAL },
		{ "not hex", "g1234567-89ab-cdef-fedc-ba9876543210", -EINVAL },
		{ "braces", "{01234567-89ab-cdef-fedc-ba9876543210}", -EINVAL },
		{ "only dashes", "-", -EINVAL },
		{ "half a byte", "0", -EINVAL },
	};
	return cr_make_param_array(struct uuid_case, cases, ARRAY_SIZE(cases));
}

ParameterizedTest(struct uuid_case *c, wire_uuid, parse)
{
	/* Of the exact size, so that a sanitizer sees a read beyond the NUL. */
	char *exact = strdup(c->text);
	uint8_t got[16] = { 0 };

	cr_assert_not_null(exact, "memory");
	cr_expect_eq(nvme_uuid_parse(exact, got), c->want, "%s", c->name);
	free(exact);
	if (c->want)
		cr_expect(nvme_hostid_is_zero(got), "%s: no effect", c->name);
	else
		cr_expect_arr_eq(got, uuid, sizeof(got), "%s", c->name);
}

Test(wire_uuid, format)
{
	char text[NVME_UUID_TEXT_BYTES];
	char nqn[NVME_NQN_MAX + 1];

	nvme_uuid_format(uuid, text);
	cr_expect_str_eq(text, uuid_text, "lower case");
	nvme_nqn_from_uuid(uuid, nqn);
	cr_expect_str_eq(nqn,
			 "nqn.2014-08.org.nvmexpress:uuid:01234567-89ab-cdef-fedc-ba9876543210",
			 "host NQN");
}

/* ---- host ID; C25: never zero, stable ---- */

Test(wire_hostid, the_uuid_of_the_name)
{
	uint8_t got[16];

	nvme_hostid_from_nqn("nqn.2014-08.org.nvmexpress:uuid:01234567-89ab-cdef-fedc-ba9876543210",
			     got);
	cr_expect_arr_eq(got, uuid, sizeof(got), "taken over");
}

struct hostid_case {
	char nqn[80];
};

ParameterizedTestParameters(wire_hostid, hashed)
{
	static struct hostid_case cases[] = {
		{ "" },
		{ "a" },
		{ "nqn.2014-08.org.example:host" },
		{ "nqn.a:uuid:01234567-89ab-cdef-fedc-ba987654321" },
		{ "nqn.a:uuid:01234567-89ab-cdef-fedc-ba9876543210x" },
		{ "nqn.a:uuid:00000000-0000-0000-0000-000000000000" },
	};
	return cr_make_param_array(struct hostid_case, cases, ARRAY_SIZE(cases));
}

ParameterizedTest(struct hostid_case *c, wire_hostid, hashed)
{
	uint8_t first[16], again[16];

	nvme_hostid_from_nqn(c->nqn, first);
	nvme_hostid_from_nqn(c->nqn, again);
	cr_expect_arr_eq(first, again, sizeof(first), "%s: stable", c->nqn);
	cr_expect_not(nvme_hostid_is_zero(first), "%s: not zero", c->nqn);
	cr_expect_eq(first[6] >> 4, 8, "%s: version", c->nqn);
	cr_expect_eq(first[8] >> 6, 2, "%s: variant", c->nqn);
}

Test(wire_hostid, differs_by_name)
{
	uint8_t a[16], b[16];

	nvme_hostid_from_nqn("nqn.2014-08.org.example:host1", a);
	nvme_hostid_from_nqn("nqn.2014-08.org.example:host2", b);
	cr_expect_arr_neq(a, b, 8, "first half");
	cr_expect_arr_neq(a + 8, b + 8, 8, "second half");
}

Test(wire_hostid, does_not_change_between_releases)
{
	/* FNV-1a of "a" is af63dc4c8601ec8c (its published test vector), then version 8. */
	const uint8_t want[8] = { 0xaf, 0x63, 0xdc, 0x4c, 0x86, 0x01, 0x8c, 0x8c };
	uint8_t got[16];

	nvme_hostid_from_nqn("a", got);
	cr_expect_arr_eq(got, want, sizeof(want), "first half");
}

/* ---- text fields ---- */

struct text_case {
	char name[32];
	size_t bytes;
	char field[16];
	char want[16];
	size_t want_replaced;
};

ParameterizedTestParameters(wire_text, copy)
{
	static struct text_case cases[] = {
		{ "fills its field", 4, "abcdef", "abcd", 0 },
		{ "blank padded", 8, "ab      ", "ab", 0 },
		{ "NUL padded", 8, "ab", "ab", 0 },
		{ "blanks, then NULs", 8, "ab  ", "ab", 0 },
		{ "blanks around", 8, "  ab cd ", "ab cd", 0 },
		{ "blanks only", 8, "        ", "", 0 },
		{ "NULs only", 8, "", "", 0 },
		{ "text behind a NUL", 8, "ab\0cd", "ab", 0 },
		{ "control characters", 8, "a\nb\x7f", "a?b?", 2 },
		{ "bytes above 7Eh", 8, "a\xff\x80", "a??", 2 },
		{ "no bytes", 0, "abc", "", 0 },
	};
	return cr_make_param_array(struct text_case, cases, ARRAY_SIZE(cases));
}

ParameterizedTest(struct text_case *c, wire_text, copy)
{
	char got[17];

	cr_expect_eq(nvme_text_copy(got, c->field, c->bytes), c->want_replaced, "%s", c->name);
	cr_expect_str_eq(got, c->want, "%s", c->name);
}
