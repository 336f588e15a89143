/* SPDX-License-Identifier: BSD-3-Clause */
/* What follows an asynchronous event: which commands go out, and what the host is told; the ring of events. */
#include "ctrl_rig.h"

#include <errno.h>
#include <unistd.h>

#include "base/util.h"
#include "ctrl/notice.h"

enum { OPCODE_GET_LOG = 0x02,
       OPCODE_IDENTIFY = 0x06,
       CNS_NS = 0,
       CNS_ACTIVE_LIST = 2 };

/* NVMe Base, AER completion dword 0: log page 23:16, information 15:8, type 2:0. */
enum { AER_NAMESPACES = 0x040002,
       AER_ANA = 0x0c0302 };

static void put_le(unsigned char *p, uint64_t v, unsigned int n)
{
	for (; n; n--, v >>= 8)
		*p++ = (unsigned char)v;
}

static uint64_t pass(struct ctrl_rig *r)
{
	return nvmfr__ctrl_pass(r->ctrl);
}

/* Live, with namespaces 1 to n of 100 blocks in the table, and an event request out. */
static void live(struct ctrl_rig *r, uint32_t n)
{
	ctrl_rig_up(r);
	nvmfr__events_open(&r->host.events);
	r->ctrl->state = NVMFR_STATE_LIVE;
	r->ctrl->ns = nvmfr__ns_table_new(n);
	cr_assert_not_null(r->ctrl->ns);
	for (uint32_t i = 0; i < n; i++)
		r->ctrl->ns->entries[i] =
			(struct ns_entry){ .blocks = 100, .nsid = i + 1, .shift = 9 };
	nvmfr__admin_arm_aers(r->ctrl);
}

static void down(struct ctrl_rig *r)
{
	nvmfr__events_close(&r->host.events);
	ctrl_rig_down(r);
}

static void tell(struct ctrl_rig *r, uint32_t aer)
{
	struct aer_result result = nvme_parse_aer(aer);

	nvmfr__notice_take(r->ctrl, &result);
	pass(r);
}

static const unsigned char *last(const struct ctrl_rig *r)
{
	return scripted_last(r->s, 0)->capsule;
}

/* The command that went out last is this one. */
static void sent(const struct ctrl_rig *r, uint8_t opcode, uint32_t nsid, uint32_t cdw10)
{
	cr_assert_eq(last(r)[0], opcode, "opcode %02x", last(r)[0]);
	cr_expect_eq(scripted_le(last(r) + 4, 4), nsid);
	cr_expect_eq(scripted_le(last(r) + 40, 4), cdw10, "CDW10 %08x",
		     (unsigned int)scripted_le(last(r) + 40, 4));
}

static void answer(struct ctrl_rig *r, uint16_t status)
{
	ctrl_rig_answer(r, status, 0);
	pass(r);
	memset(r->ctrl->page, 0, CTRL_PAGE_BYTES);
}

static void answer_list(struct ctrl_rig *r, const uint32_t *nsids, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++)
		put_le(r->ctrl->page + i * 4, nsids[i], 4);
	answer(r, 0);
}

/* Identify Namespace: NSZE 7:0, NCAP 15:8, LBADS of the first format 130. */
static void answer_ns(struct ctrl_rig *r, uint64_t blocks)
{
	put_le(r->ctrl->page, blocks, 8);
	put_le(r->ctrl->page + 8, blocks, 8);
	r->ctrl->page[130] = 9;
	answer(r, 0);
}

static void told(struct ctrl_rig *r, uint32_t type, uint32_t nsid, uint64_t value)
{
	struct nvmfr_event event = { .type = 0 };

	cr_assert_eq(nvmfr__events_take(&r->host.events, &event, 1), 1u);
	cr_expect(event.ctrl == r->ctrl && event.type == type && event.nsid == nsid &&
			  event.value == value,
		  "type %u, namespace %u, value %llu", event.type, event.nsid,
		  (unsigned long long)event.value);
}

static void told_all(struct ctrl_rig *r)
{
	struct nvmfr_event event;

	cr_expect_eq(nvmfr__events_take(&r->host.events, &event, 1), 0u);
}

/* ---- namespaces ------------------------------------------------------------------------------ */

/* Get Log Page: LID 7:0, RAE 15, NUMDL 31:16, of 4,096 bytes: 3ffh. */
static void log_was_read(struct ctrl_rig *r)
{
	sent(r, OPCODE_GET_LOG, 0xffffffff, 0x03ff0004);
	cr_expect(last(r)[39] == 0x40 && scripted_le(last(r) + 32, 3) == 4096 &&
		  scripted_le(last(r) + 24, 8) == (uintptr_t)r->ctrl->page);
}

/* Only what changed and what is new is asked for; the rest is known. */
Test(ctrl_notice, what_is_known_is_not_read_again)
{
	static const uint32_t changed[] = { 3, 7, 9 }, active[] = { 1, 2, 3, 5, 7 };
	struct ctrl_rig r;

	live(&r, 6);
	tell(&r, AER_NAMESPACES);
	log_was_read(&r);
	answer_list(&r, changed, 3);
	sent(&r, OPCODE_IDENTIFY, 0, CNS_ACTIVE_LIST);
	answer_list(&r, active, 5);
	sent(&r, OPCODE_IDENTIFY, 3, CNS_NS);
	answer_ns(&r, 200);
	sent(&r, OPCODE_IDENTIFY, 7, CNS_NS);
	answer_ns(&r, 300);
	cr_expect(!r.ctrl->steps && r.ctrl->ns->count == 5);
	cr_expect(nvmfr__ns_find(r.ctrl->ns, 1)->blocks == 100 &&
		  nvmfr__ns_find(r.ctrl->ns, 3)->blocks == 200 &&
		  nvmfr__ns_find(r.ctrl->ns, 7)->blocks == 300);
	told(&r, NVMFR_EVENT_NS_CHANGED, 3, NVMFR_NS_CHANGE_SIZE);
	told(&r, NVMFR_EVENT_NS_REMOVED, 4, 0);
	told(&r, NVMFR_EVENT_NS_REMOVED, 6, 0);
	told(&r, NVMFR_EVENT_NS_ADDED, 7, 0);
	told_all(&r);
	down(&r);
}

/* FFFFFFFFh, a list that does not ascend, a refusal: any of them may have changed. */
Test(ctrl_notice, without_a_list_all_are_read)
{
	static const uint32_t lists[][2] = { { 0xffffffff, 0 }, { 2, 1 }, { 2, 2 }, { 0, 0 } };
	static const uint32_t active[] = { 1, 2 };

	for (unsigned int i = 0; i < ARRAY_SIZE(lists); i++) {
		struct ctrl_rig r;

		live(&r, 2);
		tell(&r, AER_NAMESPACES);
		log_was_read(&r);
		if (lists[i][0])
			answer_list(&r, lists[i], 2);
		else
			answer(&r, 0x109);
		answer_list(&r, active, 2);
		sent(&r, OPCODE_IDENTIFY, 1, CNS_NS);
		answer_ns(&r, 100);
		sent(&r, OPCODE_IDENTIFY, 2, CNS_NS);
		answer_ns(&r, 101);
		told(&r, NVMFR_EVENT_NS_CHANGED, 2, NVMFR_NS_CHANGE_SIZE);
		told_all(&r);
		down(&r);
	}
}

Test(ctrl_notice, nothing_changed)
{
	static const uint32_t active[] = { 1, 2 };
	struct ctrl_rig r;

	live(&r, 2);
	tell(&r, AER_NAMESPACES);
	answer(&r, 0);
	answer_list(&r, active, 2);
	cr_expect(!r.ctrl->steps && r.ctrl->ns->count == 2);
	told_all(&r);
	down(&r);
}

/* What is told while the page is read may be in it or not: once more, then. */
Test(ctrl_notice, told_again_meanwhile)
{
	static const uint32_t active[] = { 1 };
	struct ctrl_rig r;

	live(&r, 1);
	tell(&r, AER_NAMESPACES);
	tell(&r, AER_NAMESPACES);
	tell(&r, AER_ANA);
	answer(&r, 0);
	answer_list(&r, active, 1);
	cr_expect_eq(pass(&r) > 0, true);
	log_was_read(&r);
	answer(&r, 0);
	answer_list(&r, active, 1);
	pass(&r);
	sent(&r, OPCODE_GET_LOG, 0xffffffff, 0x03ff000c);
	put_le(r.ctrl->page, 77, 8);
	answer(&r, 0);
	told(&r, NVMFR_EVENT_ANA_CHANGED, 0, 77);
	told_all(&r);
	cr_expect_null((void *)(uintptr_t)r.ctrl->steps);
	down(&r);
}

/* The list was told once. What could not be read then is read later, all of it. */
Test(ctrl_notice, failures_are_tried_again_with_pauses_that_grow)
{
	static const uint32_t changed[] = { 1 }, active[] = { 1, 2 };
	uint32_t pause = NOTICE_RETRY_FIRST_MS;
	struct ctrl_rig r;

	live(&r, 2);
	tell(&r, AER_NAMESPACES);
	for (unsigned int i = 0; i < 10; i++) {
		uint32_t before;

		log_was_read(&r);
		answer_list(&r, changed, 1);
		answer(&r, 0x0006);
		cr_expect(!r.ctrl->steps && r.ctrl->state == NVMFR_STATE_LIVE &&
			  !r.ctrl->shut_down);
		cr_expect_not_null(strstr(r.log, "active namespaces"), "%s", r.log);
		before = r.s->sent;
		cr_expect_eq(pass(&r), ctrl_rig_now(&r) + MS_NS(pause));
		ctrl_rig_wait_ms(&r, pause - 1);
		pass(&r);
		cr_expect_eq(r.s->sent, before);
		ctrl_rig_wait_ms(&r, 1);
		pass(&r);
		pause = nvmfr__min_u32(2 * pause, NOTICE_RETRY_MAX_MS);
	}
	answer(&r, 0);
	answer_list(&r, active, 2);
	answer_ns(&r, 100);
	answer_ns(&r, 50);
	told(&r, NVMFR_EVENT_NS_CHANGED, 2, NVMFR_NS_CHANGE_SIZE);
	told_all(&r);
	/* And from then on as ever. */
	tell(&r, AER_NAMESPACES);
	answer_list(&r, changed, 1);
	answer_list(&r, active, 2);
	sent(&r, OPCODE_IDENTIFY, 1, CNS_NS);
	answer_ns(&r, 100);
	told(&r, NVMFR_EVENT_NS_CHANGED, 1, 0);
	cr_expect(!r.ctrl->steps && pass(&r) == UINT64_MAX);
	down(&r);
}

Test(ctrl_notice, no_answer_ends_the_association)
{
	struct ctrl_rig r;

	live(&r, 1);
	tell(&r, AER_NAMESPACES);
	ctrl_rig_wait_ms(&r, CTRL_RIG_ADMIN_MS);
	pass(&r);
	cr_expect_eq(r.ctrl->state, NVMFR_STATE_LOST);
	cr_expect_not_null(strstr(r.ctrl->sentence, "changed namespace list"), "%s",
			   r.ctrl->sentence);
	told(&r, NVMFR_EVENT_STATE, 0, NVMFR_STATE_LOST);
	cr_expect_eq(pass(&r), UINT64_MAX);
	down(&r);
}

/* Not while it connects; what was told meanwhile is done then. */
Test(ctrl_notice, a_connect_is_not_disturbed)
{
	struct ctrl_rig r;

	live(&r, 1);
	r.ctrl->state = NVMFR_STATE_CONNECTING;
	r.s->sent = 0;
	tell(&r, AER_NAMESPACES);
	cr_expect_eq(r.s->sent, 0u);
	r.ctrl->state = NVMFR_STATE_LIVE;
	pass(&r);
	log_was_read(&r);
	down(&r);
}

Test(ctrl_notice, the_end_waits_for_what_is_out)
{
	enum { OPCODE_FABRICS = 0x7f };
	struct ctrl_rig r;

	live(&r, 1);
	tell(&r, AER_NAMESPACES);
	nvmfr__ctrl_shut_down(r.ctrl, ctrl_rig_now(&r) + MS_NS(500));
	cr_expect(!r.ctrl->shut_down);
	pass(&r);
	log_was_read(&r);
	answer(&r, 0);
	cr_expect_eq(last(&r)[0], OPCODE_FABRICS, "CC.SHN, and no list");
	ctrl_rig_wait_ms(&r, 500);
	pass(&r);
	cr_expect(r.ctrl->shut_down && r.ctrl->state == NVMFR_STATE_LIVE);
	told_all(&r);
	down(&r);
}

/* ---- the ring -------------------------------------------------------------------------------- */

static struct nvmfr_event numbered(struct nvmfr_ctrl *ctrl, uint64_t i)
{
	return (struct nvmfr_event){ .ctrl = ctrl, .type = NVMFR_EVENT_OTHER, .value = i };
}

static void push(struct host_events *events, struct nvmfr_ctrl *ctrl, uint64_t first, uint64_t n)
{
	for (uint64_t i = first; i < first + n; i++) {
		struct nvmfr_event event = numbered(ctrl, i);

		nvmfr__events_push(events, &event);
	}
}

static void take_numbers(struct host_events *events, uint64_t first, uint64_t n)
{
	struct nvmfr_event event;

	for (uint64_t i = first; i < first + n; i++) {
		cr_assert_eq(nvmfr__events_take(events, &event, 1), 1u);
		cr_assert(event.type == NVMFR_EVENT_OTHER && event.value == i,
			  "%llu instead of %llu", (unsigned long long)event.value,
			  (unsigned long long)i);
	}
}

static void take_gap(struct host_events *events, uint64_t lost)
{
	struct nvmfr_event event;

	cr_assert_eq(nvmfr__events_take(events, &event, 1), 1u);
	cr_expect(event.type == NVMFR_EVENT_OVERFLOW && event.value == lost && !event.ctrl, "%llu",
		  (unsigned long long)event.value);
}

Test(ctrl_notice, the_gap_stands_where_it_is)
{
	static struct host_events events;
	struct nvmfr_event event;

	memset(&events, 0, sizeof(events));
	nvmfr__events_open(&events);
	push(&events, NULL, 0, EVENTS_MAX + 10);
	take_numbers(&events, 0, 1);
	/* Room for one: not for the word of the gap and an event behind it. */
	push(&events, NULL, 1000, 1);
	take_numbers(&events, 1, 1);
	push(&events, NULL, 2000, 2);
	take_numbers(&events, 2, EVENTS_MAX - 2);
	take_gap(&events, 11);
	take_numbers(&events, 2000, 1);
	take_gap(&events, 1);
	cr_expect_eq(nvmfr__events_take(&events, &event, 1), 0u);
	push(&events, NULL, 1, 3 * EVENTS_MAX);
	take_numbers(&events, 1, EVENTS_MAX);
	take_gap(&events, 2 * EVENTS_MAX);
	nvmfr__events_close(&events);
}

Test(ctrl_notice, a_controller_is_forgotten)
{
	static struct host_events events;
	struct nvmfr_ctrl *one = calloc(1, sizeof(*one)), *two = calloc(1, sizeof(*two));
	uint64_t word;
	int fd;

	cr_assert(one && two);
	memset(&events, 0, sizeof(events));
	nvmfr__events_open(&events);
	fd = nvmfr__events_fd(&events);
	push(&events, NULL, 0, EVENTS_MAX - 3);
	take_numbers(&events, 0, EVENTS_MAX - 3);
	for (uint64_t i = 0; i < 5; i++) {
		push(&events, one, 100 + i, 1);
		push(&events, two, i, 1);
	}
	nvmfr__events_forget(&events, one);
	take_numbers(&events, 0, 5);
	push(&events, one, 0, 3);
	nvmfr__events_forget(&events, one);
	cr_expect_lt(read(fd, &word, sizeof(word)), 0, "readable for nothing");
	nvmfr__events_close(&events);
	free(one);
	free(two);
}
