/* SPDX-License-Identifier: BSD-3-Clause */
/* What a target's URI means, and what is said about one that means nothing. */
#include "repeat.h"
#include "testing.h"

#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "base/util.h"
#include "ctrl/target.h"

#define NQN "nqn.2014-08.org.example:disks"

static int parse(const char *uri, struct target *out)
{
	struct nvmfr_ctrl_opts opts = { .size = sizeof(opts), .uri = uri };

	nvmfr__err_clear();
	memset(out, 0xa5, sizeof(*out));
	return nvmfr__target_parse(&opts, out);
}

/* ---- RDMA ------------------------------------------------------------------------------------ */

struct rdma_case {
	const char *uri, *traddr, *trsvcid, *subnqn;
};

/* clang-format off */
static const struct rdma_case rdma[] = {
	{ "nvmf+rdma://192.168.1.2/" NQN, "192.168.1.2", "4420", NQN },
	{ "nvmf+rdma://192.168.1.2:4421/" NQN, "192.168.1.2", "4421", NQN },
	{ "nvmf+rdma://192.168.1.2:65535/" NQN, "192.168.1.2", "65535", NQN },
	{ "nvmf+rdma://192.168.1.2:1/" NQN, "192.168.1.2", "1", NQN },
	{ "nvmf+rdma://192.168.1.2:/" NQN, "192.168.1.2", "4420", NQN },
	{ "nvmf+rdma://storage.example.org/" NQN, "storage.example.org", "4420", NQN },
	{ "nvmf+rdma://[2001:db8::1]/" NQN, "2001:db8::1", "4420", NQN },
	{ "nvmf+rdma://[2001:db8::1]:5000/" NQN, "2001:db8::1", "5000", NQN },
	{ "nvmf+rdma://[2001:db8::1]:/" NQN, "2001:db8::1", "4420", NQN },
	{ "nvmf+rdma://[fe80::1%eth0]:4420/" NQN, "fe80::1%eth0", "4420", NQN },
	{ "nvmf+rdma://[::]/" NQN, "::", "4420", NQN },
	{ "nvmf+rdma://h/x", "h", "4420", "x" },
	{ "nvmf+rdma://h/a:b/c?d=%20", "h", "4420", "a:b/c?d=%20" },
	{ "nvmf+rdma://h/" REPEAT_223("q"), "h", "4420", REPEAT_223("q") },
};
/* clang-format on */

Test(target_uri, rdma)
{
	for (size_t i = 0; i < ARRAY_SIZE(rdma); i++) {
		struct target t;

		cr_assert_eq(parse(rdma[i].uri, &t), 0, "%s: %s", rdma[i].uri, nvmfr__err_get());
		cr_expect(!t.soft, "%s", rdma[i].uri);
		cr_expect_str_eq(t.traddr, rdma[i].traddr);
		cr_expect_str_eq(t.trsvcid, rdma[i].trsvcid);
		cr_expect_str_eq(t.subnqn, rdma[i].subnqn);
		cr_expect(!t.host_traddr[0] && !t.name[0] && !t.path[0], "%s", rdma[i].uri);
	}
}

/* ---- soft ------------------------------------------------------------------------------------ */

struct soft_case {
	const char *uri, *name, *path, *subnqn;
	uint64_t size_bytes;
	uint32_t block_bytes;
	bool read_only;
};

#define SOFT "nvmf+soft:"

/* clang-format off */
static const struct soft_case soft[] = {
	{ SOFT, "", "", "", 0, 512, false },
	{ SOFT "//", "", "", "", 0, 512, false },
	{ SOFT "///", "", "", "", 0, 512, false },
	{ SOFT "?", "", "", "", 0, 512, false },
	{ SOFT "?size=64M", "", "", "", UINT64_C(64) << 20, 512, false },
	{ SOFT "?size=1GiB&block=4096&ro=1", "", "", "", UINT64_C(1) << 30, 4096, true },
	{ SOFT "?block=4K&&size=2T", "", "", "", UINT64_C(2) << 40, 4096, false },
	{ SOFT "?ro=0&size=12345", "", "", "", 12345, 512, false },
	{ SOFT "///var/lib/disk.img", "", "/var/lib/disk.img", "", 0, 512, false },
	{ SOFT "///var/lib/disk.img?block=4096", "", "/var/lib/disk.img", "", 0, 4096, false },
	{ SOFT "/var/lib/disk.img", "", "/var/lib/disk.img", "", 0, 512, false },
	{ SOFT "disk.img?ro=1", "", "disk.img", "", 0, 512, true },
	{ SOFT "a%20b%3fc%25", "", "a b?c%", "", 0, 512, false },
	{ SOFT "///a%2Fb%2fc", "", "/a/b/c", "", 0, 512, false },
	{ SOFT "%ff", "", "\xff", "", 0, 512, false },
	{ SOFT "//name", "name", "", "", 0, 512, false },
	{ SOFT "//name/", "name", "", "", 0, 512, false },
	{ SOFT "//name/" NQN, "name", "", NQN, 0, 512, false },
	{ SOFT "//name/a/b", "name", "", "a/b", 0, 512, false },
	{ SOFT "//" REPEAT_32("n") REPEAT_16("n") REPEAT_15("n"),
	  REPEAT_32("n") REPEAT_16("n") REPEAT_15("n"), "", "", 0, 512,
	  false },
};
/* clang-format on */

Test(target_uri, soft)
{
	for (size_t i = 0; i < ARRAY_SIZE(soft); i++) {
		const struct soft_case *c = &soft[i];
		struct target t;

		cr_assert_eq(parse(c->uri, &t), 0, "%s: %s", c->uri, nvmfr__err_get());
		cr_expect(t.soft, "%s", c->uri);
		cr_expect_str_eq(t.name, c->name);
		cr_expect_str_eq(t.path, c->path);
		cr_expect_str_eq(t.subnqn, c->subnqn);
		cr_expect_eq(t.size_bytes, c->size_bytes, "%s", c->uri);
		cr_expect_eq(t.block_bytes, c->block_bytes, "%s", c->uri);
		cr_expect_eq(t.read_only, c->read_only, "%s", c->uri);
	}
}

/* ---- nonsense: the sentence quotes what is wrong --------------------------------------------- */

struct bad_case {
	const char *uri, *sentence;
};

#define R "nvmf+rdma://"
/* clang-format off */
static const struct bad_case bad[] = {
	{ "", "URI ''" },
	{ "http://h/x", "'http://h/x'" },
	{ "nvmf+tcp://h/" NQN, "nvmf+tcp" },
	{ "nvmf+rdma:h/" NQN, "nvmf+rdma:h" },
	{ "NVMF+RDMA://h/" NQN, "begins with neither" },
	{ " " R "h/" NQN, "begins with neither" },
	{ R, "names no subsystem" },
	{ R "h", "names no subsystem" },
	{ R "h/", "names no subsystem" },
	{ R "h:4420/", "names no subsystem" },
	{ R "/" NQN, "no address" },
	{ R ":4420/" NQN, "no address" },
	{ R "[]/" NQN, "no address" },
	{ R "[]:4420/" NQN, "no address" },
	{ R "[::1/" NQN, "bracket" },
	{ R "[::1/x]:1/" NQN, "bracket" },
	{ R "[::1]4420/" NQN, "bracket" },
	{ R "::1/" NQN, "brackets" },
	{ R "2001:db8::1:4420/" NQN, "brackets" },
	{ R "h:0/" NQN, "port '0'" },
	{ R "h:65536/" NQN, "port '65536'" },
	{ R "h:-1/" NQN, "port '-1'" },
	{ R "h:+1/" NQN, "port '+1'" },
	{ R "h: 1/" NQN, "port ' 1'" },
	{ R "h:4420x/" NQN, "port '4420x'" },
	{ R "h:nvme/" NQN, "port 'nvme'" },
	{ R "h:99999999999999999999/" NQN, "port" },
	{ R "[::1]:x/" NQN, "port 'x'" },
	{ R REPEAT_256("a") "/" NQN, "256 bytes" },
	{ R "h/" REPEAT_224("q"), "subnqn" },
	{ R "h/a b", "blank" },
	{ R "h/a\tb", "control" },
	{ SOFT "?size", "'size'" },
	{ SOFT "?size=", "size" },
	{ SOFT "?size=x", "'x'" },
	{ SOFT "?size=-5", "'-5'" },
	{ SOFT "?size= -5", "' -5'" },
	{ SOFT "?size= 5", "' 5'" },
	{ SOFT "?size=+5", "'+5'" },
	{ SOFT "?size=64MB", "'64MB'" },
	{ SOFT "?size=64Mi", "'64Mi'" },
	{ SOFT "?size=64MiBx", "'64MiBx'" },
	{ SOFT "?size=64 M", "'64 M'" },
	{ SOFT "?size=64E", "'64E'" },
	{ SOFT "?size=0x10", "'0x10'" },
	{ SOFT "?size=18446744073709551616", "18446744073709551616" },
	{ SOFT "?size=16777216T", "16777216T" },
	{ SOFT "?block=513", "513" },
	{ SOFT "?block=0", "0" },
	{ SOFT "?block=8192", "8192" },
	{ SOFT "?colour=red", "colour" },
	{ SOFT "?=5", "''" },
	{ SOFT "?Size=5", "Size" },
	{ SOFT "?ro=yes", "ro" },
	{ SOFT "//name?size=64M", "size=64M" },
	{ SOFT "//name?port=0", "port=0" },
	{ SOFT "//name?port=1&ro=1", "ro=1" },
	{ SOFT "?port=1", "'port'" },
	{ SOFT "//name/" NQN "?ro=1", "ro=1" },
	{ SOFT "//" REPEAT_32("n") REPEAT_32("n"), "64 bytes" },
	{ SOFT "//n/" REPEAT_224("q"), "subnqn" },
	{ SOFT "//n/a b", "blank" },
	{ SOFT "a%", "'a%'" },
	{ SOFT "a%2", "'a%2'" },
	{ SOFT "a%zz", "'a%zz'" },
	{ SOFT "a%2g", "'a%2g'" },
	{ SOFT "a%00b", "'a%00b'" },
};
/* clang-format on */

Test(target_uri, nonsense)
{
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct target t;

		cr_expect_eq(parse(bad[i].uri, &t), -EINVAL, "'%s'", bad[i].uri);
		cr_expect_not_null(strstr(nvmfr__err_get(), bad[i].sentence), "'%s': %s",
				   bad[i].uri, nvmfr__err_get());
	}
}

Test(target_uri, paths_of_any_length)
{
	static char uri[2 * sizeof(((struct target *)NULL)->path)];
	struct target t;

	for (size_t length = 4000; length < sizeof(uri) - 1; length += length < 4200 ? 1 : 500) {
		memset(uri, 'p', length);
		memcpy(uri, SOFT, strlen(SOFT));
		uri[length] = '\0';
		cr_expect_eq(parse(uri, &t), length - strlen(SOFT) < sizeof(t.path) ? 0 : -EINVAL,
			     "%zu bytes", length);
	}
}

/* ---- the fields ------------------------------------------------------------------------------ */

static int parse_fields(struct nvmfr_ctrl_opts opts, struct target *out)
{
	nvmfr__err_clear();
	return nvmfr__target_parse(&opts, out);
}

#define FIELDS(...) \
	((struct nvmfr_ctrl_opts){ .size = sizeof(struct nvmfr_ctrl_opts), __VA_ARGS__ })

Test(target_fields, good)
{
	struct target t;

	cr_assert_eq(parse_fields(FIELDS(.traddr = "fe80::1%ib0", .subnqn = NQN), &t), 0);
	cr_expect_str_eq(t.traddr, "fe80::1%ib0");
	cr_expect_str_eq(t.trsvcid, "4420");
	cr_assert_eq(parse_fields(FIELDS(.traddr = "10.0.0.1", .trsvcid = "1234", .subnqn = NQN,
					 .host_traddr = "10.0.0.2"),
				  &t),
		     0);
	cr_expect_str_eq(t.trsvcid, "1234");
	cr_expect_str_eq(t.host_traddr, "10.0.0.2");
	cr_expect_str_eq(t.subnqn, NQN);
	cr_assert_eq(parse_fields(FIELDS(.uri = R "h/" NQN, .host_traddr = "10.0.0.2"), &t), 0,
		     "a local address goes with a URI");
	cr_expect_str_eq(t.host_traddr, "10.0.0.2");
}

Test(target_fields, bad)
{
	static const struct {
		struct nvmfr_ctrl_opts opts;
		const char *sentence;
	} cases[] = {
		{ { .size = 0 }, "needs a uri" },
		{ { .traddr = "h" }, "needs a uri" },
		{ { .subnqn = NQN }, "needs a uri" },
		{ { .uri = R "h/" NQN, .traddr = "h" }, "one of them" },
		{ { .uri = R "h/" NQN, .trsvcid = "1" }, "one of them" },
		{ { .uri = R "h/" NQN, .subnqn = NQN }, "one of them" },
		{ { .traddr = "", .subnqn = NQN }, "empty" },
		{ { .traddr = "h", .subnqn = "" }, "subnqn" },
		{ { .traddr = "h", .subnqn = REPEAT_224("q") }, "subnqn" },
		{ { .traddr = "h", .subnqn = "a b" }, "subnqn" },
		{ { .traddr = REPEAT_256("h"), .subnqn = NQN }, "traddr" },
		{ { .traddr = "h", .trsvcid = "70000", .subnqn = NQN }, "70000" },
		{ { .traddr = "h", .trsvcid = "0123456789012345", .subnqn = NQN }, "trsvcid" },
		{ { .traddr = "h", .subnqn = NQN, .host_traddr = REPEAT_256("h") }, "host_traddr" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct target t;

		cr_expect_eq(parse_fields(cases[i].opts, &t), -EINVAL, "case %zu", i);
		cr_expect_not_null(strstr(nvmfr__err_get(), cases[i].sentence), "case %zu: %s", i,
				   nvmfr__err_get());
	}
}

/* ---- bytes ----------------------------------------------------------------------------------- */

Test(target_bytes, units)
{
	static const struct {
		const char *text;
		uint64_t bytes;
	} cases[] = {
		{ "0", 0 },
		{ "1", 1 },
		{ "007", 7 },
		{ "1k", 1024 },
		{ "1K", 1024 },
		{ "3KiB", 3072 },
		{ "2m", 2 << 20 },
		{ "1G", 1 << 30 },
		{ "1t", UINT64_C(1) << 40 },
		{ "16777215T", UINT64_C(16777215) << 40 },
		{ "18446744073709551615", UINT64_MAX },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		uint64_t got = 42;

		cr_expect_eq(nvmfr__parse_bytes(cases[i].text, &got), 0, "%s", cases[i].text);
		cr_expect_eq(got, cases[i].bytes, "%s", cases[i].text);
	}
}
