/* SPDX-License-Identifier: BSD-3-Clause */
/* Discovery: what logs hold, well-formed and not, referrals in circles, a log that changes while it is read. */
#include "entries.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>


#define NQN_A	      "nqn.2014-08.org.example:a"

static void up(struct flow *f)
{
	flow_host(f);
	f->target = target(f, "t");
}

/* ---- asking ---------------------------------------------------------------------------------- */

static struct nvmfr_discovery *ask(const struct flow *f, uint32_t flags)
{
	struct nvmfr_discovery *d;

	cr_assert_eq(nvmfr_discover(f->host, &f->opts, flags, &d), 0, "%s", nvmfr_last_error());
	return d;
}

static struct nvmfr_discovery_info info(const struct nvmfr_discovery *d)
{
	struct nvmfr_discovery_info out = { .size = sizeof(out) };

	cr_assert_eq(nvmfr_discovery_info(d, &out), 0, "%s", nvmfr_last_error());
	return out;
}

static struct nvmfr_discovery_record get(const struct nvmfr_discovery *d, uint32_t i)
{
	struct nvmfr_discovery_record out = { .size = sizeof(out) };

	cr_assert_eq(nvmfr_discovery_get(d, i, &out), 0, "%s", nvmfr_last_error());
	return out;
}

/* ---- one log --------------------------------------------------------------------------------- */

Test(discovery, a_target_names_itself)
{
	struct nvmfr_discovery_record record;
	struct nvmfr_discovery *d;
	struct flow f;

	up(&f);
	d = ask(&f, 0);
	cr_expect(info(d).records == 1 && info(d).logs == 1 && info(d).generation == 1);
	cr_expect_null(nvmfr_discovery_ctrl(d));
	record = get(d, 0);
	cr_expect(record.trtype == LOOP && record.subtype == NVM && record.cntlid == 0xffff &&
		  record.log == 0);
	cr_expect_str_eq(record.traddr, "t");
	cr_expect_str_eq(record.subnqn, NVMFR_SOFT_SUBNQN);
	cr_expect_eq(flow_counters(&f).open_connections, 0u, "one look");
	/* What it names can be connected to. */
	f.opts.uri = record.uri;
	flow_connect(&f);
	cr_expect_eq(nvmfr_discovery_get(d, 1, &record), -ENOENT);
	nvmfr_discovery_release(d);
	flow_down(&f);
}

struct uri_case {
	struct entry entry;
	const char *uri;
};

/* clang-format off */
static const struct uri_case uris[] = {
	{ { RDMA, 1, NVM, 7, "192.168.1.2", "4420", NQN_A },
	  "nvmf+rdma://192.168.1.2:4420/nqn.2014-08.org.example:a" },
	{ { RDMA, 2, NVM, 7, "fe80::1", "4421", "nqn.2014-08.org.example:b" },
	  "nvmf+rdma://[fe80::1]:4421/nqn.2014-08.org.example:b" },
	{ { RDMA, 1, NVM, 7, "10.0.0.1", "", "nqn.2014-08.org.example:c" },
	  "nvmf+rdma://10.0.0.1:4420/nqn.2014-08.org.example:c" },
	{ { RDMA, 3, NVM, 7, "fe80::1", "4420", "nqn.2014-08.org.example:d" }, "" },
	{ { RDMA, 1, NVM, 7, "10.0.0.1/x", "4420", "nqn.2014-08.org.example:e" }, "" },
	{ { RDMA, 1, NVM, 7, "10.0.0.1", "port", "nqn.2014-08.org.example:f" }, "" },
	{ { TCP, 1, NVM, 7, "10.0.0.1", "4420", "nqn.2014-08.org.example:g" }, "" },
	{ { LOOP, 254, NVM, 7, "other", "", "nqn.2014-08.org.example:h" },
	  "nvmf+soft://other/nqn.2014-08.org.example:h" },
};
/* clang-format on */

static void expect_uris(char pad)
{
	struct entry entries[ARRAY_SIZE(uris)];
	struct nvmfr_discovery *d;
	struct flow f;

	up(&f);
	for (size_t i = 0; i < ARRAY_SIZE(uris); i++)
		entries[i] = uris[i].entry;
	set(f.target, entries, ARRAY_SIZE(uris), pad);
	d = ask(&f, 0);
	cr_assert_eq(info(d).records, ARRAY_SIZE(uris) + 1, "%u", info(d).records);
	cr_expect_eq(info(d).generation, 2u);
	for (uint32_t i = 0; i < ARRAY_SIZE(uris); i++) {
		struct nvmfr_discovery_record record = get(d, i + 1);

		cr_expect_str_eq(record.uri, uris[i].uri);
		cr_expect_str_eq(record.traddr, uris[i].entry.traddr);
		cr_expect_str_eq(record.trsvcid, uris[i].entry.trsvcid);
		cr_expect_str_eq(record.subnqn, uris[i].entry.subnqn);
		cr_expect(record.portid == 7 && record.asqsz == 32 &&
			  record.trtype == uris[i].entry.trtype);
	}
	nvmfr_discovery_release(d);
	flow_down(&f);
}

Test(discovery, fields_that_end_with_blanks)
{
	expect_uris(' ');
}

Test(discovery, fields_that_end_with_nuls)
{
	expect_uris('\0');
}

Test(discovery, bad_records_are_left_out_and_counted)
{
	static const struct entry good = { RDMA, 1, NVM, 9, "10.0.0.1", "4420", NQN_A };
	static const struct entry bad[] = {
		{ 99, 1, NVM, 0, "10.0.0.1", "4420", NQN_A },
		{ RDMA, 77, NVM, 0, "10.0.0.1", "4420", NQN_A },
		{ RDMA, 1, 9, 0, "10.0.0.1", "4420", NQN_A },
		{ RDMA, 1, NVM, 0, "", "4420", NQN_A },
		{ RDMA, 1, NVM, 0, "10.0.\x1b[2J", "4420", NQN_A },
		{ RDMA, 1, NVM, 0, "10.0.0.1", "4420", "" },
	};
	struct entry entries[2 * ARRAY_SIZE(bad) + 1];
	struct nvmfr_discovery *d;
	struct flow f;

	up(&f);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		entries[2 * i] = good;
		entries[2 * i].portid = (uint16_t)i;
		entries[2 * i + 1] = bad[i];
	}
	entries[2 * ARRAY_SIZE(bad)] = good;
	set(f.target, entries, ARRAY_SIZE(entries), ' ');
	d = ask(&f, 0);
	cr_expect_eq(info(d).skipped, ARRAY_SIZE(bad));
	cr_assert_eq(info(d).records, ARRAY_SIZE(bad) + 2);
	for (uint32_t i = 0; i < ARRAY_SIZE(bad); i++)
		cr_expect_eq(get(d, i + 1).portid, i);
	cr_expect(flow_logged(&f, "entry 2 of the discovery log is left out"));
	nvmfr_discovery_release(d);
	flow_down(&f);
}

/* ---- odd fields ------------------------------------------------------------------------------ */

#define NQN_B	"nqn.2014-08.org.example:b"
#define NQN_UP	"nqn.2014-08.org.EXAMPLE:A"
#define LONG_8	"nnnnnnnn"
#define LONG_64 LONG_8 LONG_8 LONG_8 LONG_8 LONG_8 LONG_8 LONG_8 LONG_8

/* As bytes of the wire; what is behind a string is pad. address NULL: the record is left out. */
struct odd_case {
	const char *name;
	struct entry entry;
	char pad;
	const char *address, *subnqn; /* of its URI */
};

/* clang-format off */
static const struct odd_case odd[] = {
	{ "padded with blanks", { RDMA, 1, NVM, 1, "10.0.0.1", "4420", NQN_A }, ' ', "10.0.0.1:4420", NQN_A },
	{ "padded with NULs", { RDMA, 1, NVM, 2, "10.0.0.2", "4420", NQN_A }, '\0', "10.0.0.2:4420", NQN_A },
	{ "a blank behind each", { RDMA, 1, NVM, 3, "10.0.0.3 ", "4420 ", NQN_A " " }, '\0', "10.0.0.3:4420", NQN_A },
	{ "blanks before", { RDMA, 1, NVM, 4, " 10.0.0.4", " 4420", NQN_A }, '\0', "10.0.0.4:4420", NQN_A },
	{ "NQN in upper case", { RDMA, 1, NVM, 5, "10.0.0.5", "4420", NQN_UP }, ' ', "10.0.0.5:4420", NQN_UP },
	{ "address in upper case", { RDMA, 2, NVM, 6, "FE80::A", "4420", NQN_A }, ' ', "[FE80::A]:4420", NQN_A },
	{ "SUBNQN of 256 bytes without an end",
	  { RDMA, 1, NVM, 7, "10.0.0.7", "4420", LONG_64 LONG_64 LONG_64 LONG_64 }, ' ', NULL, NULL },
	{ "IPv6 with a scope", { RDMA, 2, NVM, 8, "fe80::8%eth0", "4420", NQN_A }, ' ', "[fe80::8%eth0]:4420", NQN_A },
	{ "unknown TRTYPE", { 77, 1, NVM, 9, "10.0.0.9", "4420", NQN_A }, ' ', NULL, NULL },
	{ "TRTYPE 0", { 0, 1, NVM, 10, "10.0.0.10", "4420", NQN_A }, ' ', NULL, NULL },
	{ "a port", { RDMA, 1, NVM, 11, "10.0.0.11", "4420", NQN_A }, ' ', "10.0.0.11:4420", NQN_A },
	{ "its PORTID elsewhere", { RDMA, 1, NVM, 11, "10.0.0.12", "4420", NQN_A }, ' ', "10.0.0.12:4420", NQN_A },
	{ "its PORTID again", { RDMA, 1, NVM, 11, "10.0.0.11", "4420", NQN_B }, ' ', "10.0.0.11:4420", NQN_B },
	{ "nothing but zeroes", { 0, 0, 0, 0, "", "", "" }, '\0', NULL, NULL },
};
/* clang-format on */

static void expect_odd(const struct nvmfr_discovery *d, uint32_t at, const struct odd_case *c)
{
	struct nvmfr_discovery_record record = get(d, at);
	char uri[sizeof(record.uri)];

	snprintf(uri, sizeof(uri), "nvmf+rdma://%s/%s", c->address, c->subnqn);
	cr_expect_str_eq(record.uri, uri, "%s: %s", c->name, record.uri);
	cr_expect_str_eq(record.subnqn, c->subnqn, "%s", c->name);
	cr_expect_eq(record.portid, c->entry.portid, "%s", c->name);
}

Test(discovery, odd_fields)
{
	unsigned char *bytes = calloc(ARRAY_SIZE(odd), ENTRY);
	struct nvmfr_discovery *d;
	uint32_t at = 1, bad = 0;
	struct flow f;

	up(&f);
	cr_assert_not_null(bytes);
	for (size_t i = 0; i < ARRAY_SIZE(odd); i++)
		make(bytes + i * ENTRY, &odd[i].entry, odd[i].pad);
	cr_assert_eq(nvmfr_soft_discovery_set(f.target, bytes, ARRAY_SIZE(odd)), 0);
	d = ask(&f, 0);
	for (size_t i = 0; i < ARRAY_SIZE(odd); i++) {
		bad += !odd[i].address;
		if (odd[i].address)
			expect_odd(d, at++, &odd[i]);
	}
	cr_expect(info(d).records == at && info(d).skipped == bad, "%u records, %u bad", info(d).records,
		  info(d).skipped);
	nvmfr_discovery_release(d);
	free(bytes);
	flow_down(&f);
}

/* ---- lengths --------------------------------------------------------------------------------- */

/* Each chunk and the last, whatever is left of it. */
Test(discovery, logs_of_every_length)
{
	struct entry entries[13];
	struct flow f;

	up(&f);
	for (uint16_t n = 0; n <= ARRAY_SIZE(entries); n++) {
		struct nvmfr_discovery *d;

		if (n)
			entries[n - 1] =
				(struct entry){ RDMA, 1, NVM, n, "10.0.0.1", "4420", NQN_A };
		set(f.target, entries, n, ' ');
		d = ask(&f, 0);
		cr_assert_eq(info(d).records, n + 1u);
		for (uint16_t i = 1; i <= n; i++)
			cr_expect_eq(get(d, i).portid, i);
		nvmfr_discovery_release(d);
	}
	flow_down(&f);
}

Test(discovery, more_than_are_read)
{
	unsigned char *bytes = calloc(MOST + 9, ENTRY);
	struct nvmfr_discovery *d;
	struct flow f;

	up(&f);
	cr_assert_not_null(bytes);
	for (uint16_t i = 0; i < MOST + 9; i++) {
		struct entry entry = { RDMA, 1, NVM, i, "10.0.0.1", "4420", NQN_A };

		make(bytes + i * (size_t)ENTRY, &entry, ' ');
	}
	cr_assert_eq(nvmfr_soft_discovery_set(f.target, bytes, MOST + 9), 0);
	d = ask(&f, 0);
	cr_expect(info(d).records == MOST && info(d).left_out == 10, "%u", info(d).records);
	cr_expect_eq(get(d, MOST - 1).portid, MOST - 2);
	nvmfr_discovery_release(d);
	free(bytes);
	flow_down(&f);
}

/* ---- referrals ------------------------------------------------------------------------------- */

static struct entry referral(const char *name)
{
	return (struct entry){ LOOP, 254, REFERRAL, 0, name, "", DISCOVERY_NQN };
}

/* t -> a -> b -> a, t, itself; twice the same; and one that is not there. */
Test(discovery, referrals_in_circles)
{
	const struct entry shared = {
		RDMA, 1, NVM, 5, "10.0.0.1", "4420", "nqn.2014-08.org.example:shared"
	};
	struct entry of_t[] = { referral("a"), referral("a"), shared };
	struct entry of_a[] = { shared, referral("b"), referral("t") };
	struct entry of_b[] = { referral("a"), referral("t"), referral("b"), referral("nowhere"),
				shared };
	struct nvmfr_soft_target *a, *b;
	unsigned int shares = 0;
	struct nvmfr_discovery *d;
	struct flow f;

	up(&f);
	a = target(&f, "a");
	b = target(&f, "b");
	set(f.target, of_t, ARRAY_SIZE(of_t), ' ');
	set(a, of_a, ARRAY_SIZE(of_a), ' ');
	set(b, of_b, ARRAY_SIZE(of_b), ' ');
	d = ask(&f, 0);
	cr_expect(info(d).logs == 3 && info(d).unreached == 1, "%u logs, %u unreached",
		  info(d).logs, info(d).unreached);
	cr_expect(flow_logged(&f, "nowhere"));
	for (uint32_t i = 0; i < info(d).records; i++) {
		shares += strcmp(get(d, i).subnqn, shared.subnqn) == 0;
		cr_expect_lt(get(d, i).log, 3u);
	}
	cr_expect_eq(shares, 1u, "in three logs, told once");
	/* t, a and b themselves; referrals to a, b, t, nowhere; and what they share. */
	cr_expect_eq(info(d).records, 8u, "%u", info(d).records);
	nvmfr_discovery_release(d);
	d = ask(&f, NVMFR_DISCOVER_NO_REFERRALS);
	cr_expect(info(d).logs == 1 && info(d).records == 4 && info(d).unreached == 0);
	nvmfr_discovery_release(d);
	nvmfr_soft_target_destroy(a);
	nvmfr_soft_target_destroy(b);
	flow_down(&f);
}

/* However many a log refers to, the places that are asked have a bound. */
Test(discovery, referrals_without_end)
{
	enum { MANY = 200 };
	struct entry *entries = calloc(MANY, sizeof(*entries));
	char names[MANY][16];
	struct nvmfr_discovery *d;
	struct flow f;

	up(&f);
	cr_assert_not_null(entries);
	for (int i = 0; i < MANY; i++) {
		snprintf(names[i], sizeof(names[i]), "none-%d", i);
		entries[i] = referral(names[i]);
	}
	set(f.target, entries, MANY, ' ');
	d = ask(&f, 0);
	cr_expect(info(d).logs == 1 && info(d).unreached == MANY && info(d).records == MANY + 1);
	cr_expect(!flow_logged(&f, "none-100"), "the first ones are enough");
	nvmfr_discovery_release(d);
	free(entries);
	flow_down(&f);
}

Test(discovery, referrals_of_other_transports)
{
	const struct entry entries[] = {
		{ TCP, 1, REFERRAL, 0, "10.0.0.1", "8009", DISCOVERY_NQN },
		{ RDMA, 3, REFERRAL, 0, "fe80::1", "4420", DISCOVERY_NQN },
	};
	struct nvmfr_discovery *d;
	struct flow f;

	up(&f);
	set(f.target, entries, ARRAY_SIZE(entries), ' ');
	d = ask(&f, 0);
	cr_expect(info(d).logs == 1 && info(d).unreached == 2 && info(d).records == 3);
	nvmfr_discovery_release(d);
	flow_down(&f);
}

/* ---- persistent ------------------------------------------------------------------------------ */

static void expect_change(const struct flow *f, const struct nvmfr_discovery *d,
			  uint64_t generation)
{
	struct nvmfr_event event = { .type = 0 };

	for (int i = 0; i < 2000 && nvmfr_host_events(f->host, &event, 1) == 0; i++)
		flow_idle_ms(f, 10);
	cr_expect(event.type == NVMFR_EVENT_DISCOVERY_CHANGED &&
			  event.ctrl == nvmfr_discovery_ctrl(d) && event.value == generation,
		  "type %u, value %llu", event.type, (unsigned long long)event.value);
}

Test(discovery, a_persistent_one_hears_of_changes)
{
	struct entry entry = { RDMA, 1, NVM, 0, "10.0.0.1", "4420", NQN_A };
	struct nvmfr_event event;
	struct nvmfr_discovery *d;
	struct flow f;

	up(&f);
	d = ask(&f, NVMFR_DISCOVER_PERSISTENT);
	cr_assert_not_null(nvmfr_discovery_ctrl(d));
	cr_expect_eq(nvmfr_host_events(f.host, &event, 1), 0, "nothing of its own connecting");
	cr_expect_eq(flow_counters(&f).open_connections, 1u);
	for (uint16_t i = 1; i <= 3; i++) {
		entry.portid = i;
		set(f.target, &entry, 1, ' ');
		expect_change(&f, d, i + 1u);
		cr_expect_eq(info(d).generation, i, "as it was");
		cr_assert_eq(nvmfr_discovery_refresh(d), 0, "%s", nvmfr_last_error());
		cr_expect(info(d).generation == i + 1u && info(d).records == 2 &&
			  get(d, 1).portid == i);
	}
	/* Longer than its keep-alive timeout. */
	flow_idle_ms(&f, 30000);
	cr_expect_gt(flow_counters(&f).keep_alives, 0u);
	cr_expect_eq(nvmfr_discovery_refresh(d), 0);
	nvmfr_soft_drop(f.target);
	flow_idle_ms(&f, 100);
	cr_assert_eq(nvmfr_host_events(f.host, &event, 1), 1);
	cr_expect(event.type == NVMFR_EVENT_STATE && event.value == NVMFR_STATE_LOST &&
		  event.ctrl == nvmfr_discovery_ctrl(d));
	cr_expect_eq(nvmfr_discovery_refresh(d), -ENOTCONN);
	cr_expect_eq(info(d).records, 2u, "what was found stays");
	nvmfr_discovery_release(d);
	flow_down(&f);
}

/* Changes of what it refers to are told as its own, as is that such a place is gone, and is back. */
Test(discovery, a_persistent_one_hears_of_changes_further_on)
{
	const struct nvmfr_soft_fault vendor =
		flow_fault(NVMFR_SOFT_FAULT_RESULT, 0, OPC_EVENT_REQUEST, NVMFR_SOFT_ANY, NVMFR_SOFT_NOTICE_VENDOR);
	struct entry of_t = referral("a"), of_a = { RDMA, 1, NVM, 1, "10.0.0.1", "4420", NQN_A };
	struct nvmfr_soft_target *a;
	struct nvmfr_discovery *d;
	struct nvmfr_event event;
	struct flow f;

	up(&f);
	a = target(&f, "a");
	set(f.target, &of_t, 1, ' ');
	f.opts.ctrl_loss_timeout_ms = 10000;
	f.opts.reconnect_delay_ms = 100;
	d = ask(&f, 0);
	cr_expect_eq(info(d).unfollowed, 2u, "nobody stays for the next look");
	nvmfr_discovery_release(d);
	d = ask(&f, NVMFR_DISCOVER_PERSISTENT);
	cr_expect(info(d).logs == 2 && info(d).records == 3 && info(d).unfollowed == 0);
	cr_expect_eq(nvmfr_host_events(f.host, &event, 1), 0, "nothing of its connecting");
	cr_assert_eq(nvmfr_soft_fault_add(a, &vendor), 0);
	set(a, &of_a, 1, ' ');
	expect_change(&f, d, 0);
	cr_assert_eq(nvmfr_discovery_refresh(d), 0, "%s", nvmfr_last_error());
	cr_expect(info(d).records == 4 && info(d).unfollowed == 0);
	/* Events that are only passed on are of a controller that the application does not know. */
	flow_idle_ms(&f, 1000);
	cr_expect_eq(nvmfr_host_events(f.host, &event, 1), 0, "type %u", event.type);
	nvmfr_soft_drop(a);
	expect_change(&f, d, 0);
	cr_assert_eq(nvmfr_discovery_refresh(d), 0, "%s", nvmfr_last_error());
	cr_expect(info(d).records == 4 && info(d).unfollowed == 0);
	/* It does not come back within its time. */
	nvmfr_soft_target_destroy(a);
	expect_change(&f, d, 0);
	cr_expect_eq(info(d).unfollowed, 1u);
	cr_assert_eq(nvmfr_discovery_refresh(d), 0, "%s", nvmfr_last_error());
	cr_expect(info(d).unreached == 1 && info(d).unfollowed == 1 && info(d).records == 4, "what was found stays");
	nvmfr_discovery_release(d);
	flow_down(&f);
}

Test(discovery, a_one_shot_asked_again)
{
	struct entry entry = { RDMA, 1, NVM, 3, "10.0.0.1", "4420", NQN_A };
	struct nvmfr_event event;
	struct nvmfr_discovery *d;
	struct flow f;

	up(&f);
	d = ask(&f, 0);
	set(f.target, &entry, 1, ' ');
	cr_assert_eq(nvmfr_discovery_refresh(d), 0, "%s", nvmfr_last_error());
	cr_expect(info(d).records == 2 && get(d, 1).portid == 3);
	cr_expect_eq(flow_counters(&f).open_connections, 0u);
	cr_expect_eq(flow_counters(&f).keep_alives, 0u);
	cr_expect_eq(nvmfr_host_events(f.host, &event, 1), 0);
	nvmfr_discovery_release(d);
	flow_down(&f);
}

/* ---- a log that changes while it is read ----------------------------------------------------- */

struct changer {
	struct flow *f;
	_Atomic bool stop;
};

static void *keeps_changing(void *arg)
{
	struct changer *c = arg;
	struct entry entries[40];

	for (uint16_t round = 1; !c->stop; round++) {
		for (size_t i = 0; i < ARRAY_SIZE(entries); i++)
			entries[i] =
				(struct entry){ RDMA, 1, NVM, round, "10.0.0.1", "4420", NQN_A };
		set(c->f->target, entries, ARRAY_SIZE(entries) - round % 7, ' ');
		usleep(500);
	}
	return NULL;
}

/* What comes is of one generation, or it is refused: never a mixture. */
static void never_a_mixture(uint32_t soft_flags)
{
	struct nvmfr_soft_opts opts = flow_soft_opts();
	struct changer changer = { .stop = false };
	pthread_t thread;
	struct flow f;

	opts.flags = soft_flags;
	flow_host_thread(&f);
	flow_target(&f, &opts);
	changer.f = &f;
	cr_assert_eq(pthread_create(&thread, NULL, keeps_changing, &changer), 0);
	for (unsigned int i = 0; i < 30; i++) {
		struct nvmfr_discovery *d;
		int err = nvmfr_discover(f.host, &f.opts, 0, &d);

		cr_assert(err == 0 || err == -EAGAIN, "%s", nvmfr_last_error());
		if (err)
			continue;
		for (uint32_t k = 2; k < info(d).records; k++)
			cr_expect_eq(get(d, k).portid, get(d, 1).portid);
		nvmfr_discovery_release(d);
	}
	changer.stop = true;
	pthread_join(thread, NULL);
	flow_down(&f);
}

/* The nth read of the log, counted from 1, and for ever after that if so. A log of one piece is read three times. */
struct change_case {
	const char *name;
	uint32_t at[2]; /* 0: none */
	bool on_and_on;
	int err;
	unsigned int reads;
};

/* A counter that moves between header and entries, or entries and the second look at it: all is read anew. */
Test(discovery, a_counter_that_moves)
{
	static const struct change_case cases[] = {
		{ "never", { 0, 0 }, false, 0, 3 },
		{ "before all of it", { 1, 0 }, false, 0, 3 },
		{ "between header and entries", { 2, 0 }, false, 0, 6 },
		{ "behind the entries", { 3, 0 }, false, 0, 6 },
		{ "twice", { 2, 5 }, false, 0, 9 },
		{ "always", { 2, 0 }, true, -EAGAIN, 24 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct nvmfr_soft_fault fault =
			flow_fault(NVMFR_SOFT_FAULT_LOG_CHANGE, 0, OPC_GET_LOG, LID_DISCOVERY, 0);
		struct entry entry = { RDMA, 1, NVM, 3, "10.0.0.1", "4420", NQN_A };
		uint64_t idle, commands;
		struct nvmfr_discovery *d;
		struct flow f;
		int err;

		up(&f);
		set(f.target, &entry, 1, ' ');
		nvmfr_discovery_release(ask(&f, NVMFR_DISCOVER_NO_REFERRALS));
		idle = flow_counters(&f).commands - 3;
		/* A match that passes the first entry is not looked at by it again. */
		for (unsigned int k = 0; k < 2 && cases[i].at[k]; k++) {
			fault.skip = cases[i].at[k] - 1 - k;
			fault.count = cases[i].on_and_on ? 0 : 1;
			flow_plan(&f, &fault);
		}
		err = nvmfr_discover(f.host, &f.opts, NVMFR_DISCOVER_NO_REFERRALS, &d);
		commands = flow_counters(&f).commands - idle - idle - 3;
		cr_expect_eq(err, cases[i].err, "%s: %d", cases[i].name, err);
		cr_expect_eq(commands, cases[i].reads, "%s: %lu reads", cases[i].name, (unsigned long)commands);
		if (!err)
			cr_expect(info(d).records == 2 && get(d, 1).portid == 3, "%s", cases[i].name);
		nvmfr_discovery_release(d);
		flow_down(&f);
	}
}

#define WORD(Offset, Value) (UINT64_C(Offset) << 32 | (Value))

/* Headers that cannot be: GENCTR at 0, NUMREC at 8, RECFMT at 16. */
Test(discovery, a_header_of_nonsense)
{
	static const struct {
		const char *name;
		uint64_t word;
		uint32_t kind;
		int err;
		const char *says;
	} cases[] = {
		{ "no records", WORD(8, 0), NVMFR_SOFT_FAULT_LOG_WORD, 0, NULL },
		{ "2^40 records", WORD(12, 256), NVMFR_SOFT_FAULT_LOG_WORD, -EIO, "entries from" },
		{ "more records than there are", WORD(8, 9), NVMFR_SOFT_FAULT_LOG_WORD, -EIO, "entries from 8 on" },
		{ "another format", WORD(16, 1), NVMFR_SOFT_FAULT_LOG_WORD, -EOPNOTSUPP, "record format 1" },
		{ "the offset is ignored", 0, NVMFR_SOFT_FAULT_LOG_START, -EPROTO, "ignores the offset" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct nvmfr_soft_fault fault =
			flow_fault(cases[i].kind, 0, OPC_GET_LOG, LID_DISCOVERY, cases[i].word);
		struct entry entries[3];
		struct nvmfr_discovery *d;
		struct flow f;
		int err;

		up(&f);
		for (uint16_t k = 0; k < ARRAY_SIZE(entries); k++)
			entries[k] = (struct entry){ RDMA, 1, NVM, k, "10.0.0.1", "4420", NQN_A };
		set(f.target, entries, ARRAY_SIZE(entries), ' ');
		fault.count = 0;
		flow_plan(&f, &fault);
		err = nvmfr_discover(f.host, &f.opts, 0, &d);
		cr_expect_eq(err, cases[i].err, "%s: %d", cases[i].name, err);
		if (cases[i].says)
			flow_says(cases[i].says);
		else
			cr_expect(info(d).records == 0 && info(d).logs == 1, "%s", cases[i].name);
		nvmfr_discovery_release(d);
		flow_down(&f);
	}
}

Test(discovery, never_a_mixture, .timeout = 60)
{
	never_a_mixture(0);
}

Test(discovery, never_a_mixture_from_a_target_thread, .timeout = 60)
{
	never_a_mixture(NVMFR_SOFT_THREAD);
}

/* ---- what goes wrong ------------------------------------------------------------------------- */

Test(discovery, a_refused_or_silent_log)
{
	struct nvmfr_soft_fault fault = flow_fault(NVMFR_SOFT_FAULT_STATUS, 0, OPC_GET_LOG,
						   LID_DISCOVERY, STATUS_INTERNAL_ERROR);
	struct nvmfr_discovery *d;
	struct flow f;

	up(&f);
	flow_plan(&f, &fault);
	cr_expect_eq(nvmfr_discover(f.host, &f.opts, 0, &d), -EIO);
	flow_says("discovery log header");
	cr_expect_null(d);
	/* The first is the header; entries are refused though nothing changed. */
	fault.skip = 1;
	flow_plan(&f, &fault);
	cr_expect_eq(nvmfr_discover(f.host, &f.opts, 0, &d), -EIO);
	flow_says("entries from 0 on were refused with status");
	fault.kind = NVMFR_SOFT_FAULT_SILENCE;
	flow_plan(&f, &fault);
	cr_expect_eq(nvmfr_discover(f.host, &f.opts, NVMFR_DISCOVER_PERSISTENT, &d), -ENOTCONN);
	flow_says("admin_timeout_ms");
	nvmfr_soft_fault_clear(f.target);
	d = ask(&f, 0);
	nvmfr_discovery_release(d);
	flow_down(&f);
}

Test(discovery, who_is_no_discovery_controller)
{
	struct nvmfr_discovery *d;
	struct flow f;

	up(&f);
	f.opts.uri = "nvmf+soft://t/" NVMFR_SOFT_SUBNQN;
	cr_expect_eq(nvmfr_discover(f.host, &f.opts, 0, &d), -EINVAL);
	flow_says("is not a discovery controller");
	f.opts.uri = "nvmf+soft://nowhere";
	cr_expect_eq(nvmfr_discover(f.host, &f.opts, 0, &d), -ENOENT);
	flow_says("nowhere");
	flow_down(&f);
}

/* Before NVMe 1.4 CNTRLTYPE was 0; the NQN tells. */
Test(discovery, an_old_discovery_controller)
{
	enum { CNTRLTYPE = 111 };
	struct nvmfr_discovery *d;
	struct flow f;

	up(&f);
	flow_patch8(&f, CNS_CTRL, CNTRLTYPE, 0);
	f.opts.uri = "nvmf+soft://t/";
	d = ask(&f, 0);
	cr_expect_eq(info(d).records, 1u);
	nvmfr_discovery_release(d);
	flow_down(&f);
}

Test(discovery, bad_arguments)
{
	struct nvmfr_discovery_record record = { .size = sizeof(record) };
	struct nvmfr_discovery_info none = { .size = 0 };
	struct nvmfr_ctrl_opts opts;
	struct nvmfr_discovery *d;
	char text[5000];
	struct flow f;

	up(&f);
	cr_expect_eq(nvmfr_discover(NULL, &f.opts, 0, &d), -EINVAL);
	cr_expect_eq(nvmfr_discover(f.host, NULL, 0, &d), -EINVAL);
	cr_expect_eq(nvmfr_discover(f.host, &f.opts, 0, NULL), -EINVAL);
	cr_expect_eq(nvmfr_discover(f.host, &f.opts, 4, &d), -EINVAL);
	opts = f.opts;
	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	opts.uri = text;
	cr_expect_eq(nvmfr_discover(f.host, &opts, 0, &d), -EINVAL);
	opts.uri = NULL;
	cr_expect_eq(nvmfr_discover(f.host, &opts, 0, &d), -EINVAL, "no address");
	opts.traddr = text;
	cr_expect_eq(nvmfr_discover(f.host, &opts, 0, &d), -EINVAL);
	cr_expect_eq(nvmfr_discovery_refresh(NULL), -EINVAL);
	cr_expect_null(nvmfr_discovery_ctrl(NULL));
	cr_expect_eq(nvmfr_discovery_get(NULL, 0, &record), -EINVAL);
	nvmfr_discovery_release(NULL);
	d = ask(&f, 0);
	cr_expect_eq(nvmfr_discovery_info(d, NULL), -EINVAL);
	cr_expect_eq(nvmfr_discovery_info(d, &none), -EINVAL);
	cr_expect_eq(nvmfr_discovery_get(d, 0, NULL), -EINVAL);
	cr_expect_eq(nvmfr_soft_discovery_set(NULL, NULL, 0), -EINVAL);
	cr_expect_eq(nvmfr_soft_discovery_set(f.target, NULL, 1), -EINVAL);
	cr_expect_eq(nvmfr_soft_discovery_set(f.target, text, 65537), -EINVAL);
	nvmfr_discovery_release(d);
	flow_down(&f);
}

Test(discovery, in_a_forked_child)
{
	struct nvmfr_discovery_record record = { .size = sizeof(record) };
	struct nvmfr_discovery_info numbers = { .size = sizeof(numbers) };
	struct entry of_t = referral("a");
	struct nvmfr_discovery *d, *other;
	struct nvmfr_soft_target *a;
	int status = 0;
	struct flow f;
	pid_t pid;

	up(&f);
	set(f.target, &of_t, 1, ' ');
	a = target(&f, "a");
	d = ask(&f, NVMFR_DISCOVER_PERSISTENT);
	pid = fork();
	if (pid == 0) {
		bool dead = nvmfr_discovery_refresh(d) == -EOWNERDEAD && !nvmfr_discovery_ctrl(d) &&
			    nvmfr_discovery_info(d, &numbers) == -EOWNERDEAD &&
			    nvmfr_discovery_get(d, 0, &record) == -EOWNERDEAD &&
			    nvmfr_discover(f.host, &f.opts, 0, &other) == -EOWNERDEAD;

		nvmfr_discovery_release(d);
		_exit(!dead);
	}
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	cr_expect_eq(nvmfr_discovery_refresh(d), 0, "%s", nvmfr_last_error());
	nvmfr_discovery_release(d);
	nvmfr_soft_target_destroy(a);
	flow_down(&f);
}
