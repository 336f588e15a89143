/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The verbs backend over the stand-in (tests/standin), driven by hand: what the floors above do, in small.
 * Needs LD_LIBRARY_PATH with the stand-in; NULLNIC_DATA=ram or pattern makes it check what is moved.
 */
#include "testing.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/err.h"
#include "carry.h"
#include "fabric/buffer.h"
#include "fabric/verbs.h"
#include "wire/fabrics.h"
#include "wire/sqe.h"

enum { BLOCK = 512,
       BLOCKS = 8,
       DATA = BLOCK * BLOCKS,
       MANY = 1000,
       EVENT_MS = 5000 };

static const uint8_t hostid[16] = { 1, 2, 3 };

struct rig {
	struct nvmfr__clock clock;
	struct fab_host fh;
	struct fab *fab;
	struct fab_dev *dev;
};

/* One connection, its rings as the queue floor keeps them. */
struct line {
	struct rig *rig;
	struct fab_ep *ep;
	uint32_t send_next, recv_next, sends_done;
	uint16_t cid, answered; /* CIDs count up, and the stand-in answers in order */
	bool bad;
};

static uint64_t shim_count(const char *name)
{
	uint64_t (*count)(void);

	*(void **)&count = dlsym(RTLD_DEFAULT, name);
	return count ? count() : 0;
}

static uint64_t shim_errors(void)
{
	return shim_count("nullnic_errors");
}

static void rig_up(struct rig *rig)
{
	setenv("NULLNIC_DATA", "ram", 0);
	setenv("NULLNIC_SIZE", "1073741824", 0);
	cr_assert_not_null(dlsym(RTLD_DEFAULT, "nullnic_errors"),
			   "not on the stand-in: set LD_LIBRARY_PATH");
	*rig = (struct rig){ 0 };
	nvmfr__clock_init(&rig->clock);
	rig->fh.clock = &rig->clock;
	cr_assert_eq(nvmfr__fab_verbs.open(&rig->fh, &rig->fab), 0);
}

static void rig_down(struct rig *rig)
{
	nvmfr__fab_verbs.close(rig->fab);
	for (int i = 0; i < FAB_MAX_DEVICES; i++)
		cr_expect_null(rig->fh.devs[i]);
}

static struct fab_event next_event(struct rig *rig)
{
	struct pollfd fd = { .fd = nvmfr__fab_verbs.fd(rig->fab), .events = POLLIN };
	struct fab_event ev = { 0 };
	int got = nvmfr__fab_verbs.next_event(rig->fab, &ev);

	while (!got && poll(&fd, 1, EVENT_MS) == 1)
		got = nvmfr__fab_verbs.next_event(rig->fab, &ev);
	cr_assert_eq(got, 1, "no event within %d ms", EVENT_MS);
	return ev;
}

static struct fab_ep_params params_of(struct line *line, uint16_t qid, uint16_t depth)
{
	struct fab_ep_params params = {
		.owner = line,
		.qid = qid,
		.depth = depth,
		.max_descriptors = qid ? 4 : 1,
		.in_capsule = qid != 0,
		.want_fd = true,
		.retry_count = 7,
		.rnr_retry_count = 7,
		.tos = 32,
		.ack_timeout = 14,
		.cm_timeout_ms = 2000,
	};
	struct sockaddr_in *dst = (struct sockaddr_in *)&params.dst;
	struct sockaddr_in *src = (struct sockaddr_in *)&params.src;

	dst->sin_family = src->sin_family = AF_INET;
	dst->sin_port = htons(4420);
	dst->sin_addr.s_addr = src->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	return params;
}

static struct fab_event start(struct line *line, const struct fab_ep_params *params,
			      uint16_t cntlid)
{
	struct nvme_cm_request req = nvme_cm_request(params->qid, params->depth, cntlid);

	cr_assert_eq(nvmfr__fab_verbs.ep_create(line->rig->fab, params, &line->ep), 0);
	cr_assert_eq(nvmfr__fab_verbs.ep_connect(line->ep, &req, sizeof(req)), 0);
	return next_event(line->rig);
}

/* ---- commands --------------------------------------------------------------------------------- */

static struct nvme_sqe *capsule(struct line *line)
{
	return (struct nvme_sqe *)(void *)(line->ep->capsules +
					   line->send_next * FAB_CAPSULE_BYTES);
}

/* Writes sqe at the next position, posts it, and gives the position. */
static uint32_t post(struct line *line, struct nvme_sqe *sqe, const struct fab_carry *carry)
{
	uint32_t at = line->send_next;
	const struct verbs_send *wr;
	int result;

	sqe->cid = to_le16(line->cid++);
	*capsule(line) = *sqe;
	if (carry)
		put_carry(line->ep, at, carry);
	result = carry ? nvmfr__fab_verbs.post_carrying(line->ep, at, 1, at)
		       : nvmfr__fab_verbs.post_send(line->ep, at, 1);
	cr_assert_eq(result, 0, "%s", line->ep->error);
	wr = &nvmfr__to_verbs_ep(line->ep)->sends[at];
	cr_expect(wr->num_sge == 1 && wr->send_flags == (at % 16 == 15 ? IBV_SEND_SIGNALED : 0u));
	line->send_next = (at + 1) % line->ep->send_positions;
	return at;
}

static struct nvme_cqe next_response(struct line *line)
{
	struct nvme_cqe cqe;

	memcpy(&cqe, line->ep->responses + line->recv_next * FAB_RESPONSE_BYTES, sizeof(cqe));
	cr_expect_eq(from_le16(cqe.cid), line->answered, "receive position %u", line->recv_next);
	line->answered++;
	line->recv_next = (line->recv_next + 1) % line->ep->recv_positions;
	return cqe;
}

/* Polls until want responses are there, looks at each and posts its receive again; gives the last. */
static struct nvme_cqe take(struct line *line, uint32_t want)
{
	struct nvme_cqe cqe = { 0 };
	uint32_t got = 0;

	for (int spins = 0; got < want && !line->bad && spins < 1000000; spins++) {
		uint64_t word = nvmfr__fab_verbs.poll(line->ep);
		uint32_t n = FAB_POLL_RESPONSES(word);

		line->bad = (word & FAB_POLL_BAD) != 0;
		line->sends_done += FAB_POLL_SENDS(word);
		for (uint32_t i = 0; i < n; i++)
			cqe = next_response(line);
		got += n;
		if (n && !line->bad)
			cr_assert_eq(nvmfr__fab_verbs.post_recv(line->ep, n), 0);
	}
	cr_assert(got == want || line->bad, "%u of %u responses", got, want);
	return cqe;
}

static uint64_t admin(struct line *line, struct nvme_sqe *sqe)
{
	struct nvme_cqe cqe;

	post(line, sqe, NULL);
	cqe = take(line, 1);
	cr_assert_eq(from_le16(cqe.status) >> 1, 0, "opcode 0x%x", sqe->opcode);
	return from_le64(cqe.result);
}

static uint16_t fabrics_connect(struct line *line, uint16_t qid, uint16_t depth, uint16_t cntlid)
{
	static struct nvme_connect_data data;
	struct nvme_sqe sqe;
	struct fab_mr mr;
	uint16_t got;

	cr_assert_eq(nvme_connect_data_init(&data, hostid, cntlid, "nqn.2026-01.test:sub",
					    "nqn.2026-01.test:host"),
		     0);
	cr_assert_eq(
		nvmfr__fab_verbs.mr_reg(line->ep->dev, &data, sizeof(data), FAB_ACCESS_SOURCE, &mr),
		0);
	nvme_sqe_connect(&sqe, qid, depth, 0, 0);
	sqe.dptr = nvme_sgl_keyed((uintptr_t)&data, sizeof(data), mr.rkey);
	got = nvme_connect_cntlid(admin(line, &sqe));
	nvmfr__fab_verbs.mr_dereg(line->ep->dev, &mr);
	return got;
}

static void connect_line(struct line *line, struct rig *rig, uint16_t qid, uint16_t depth,
			 uint16_t cntlid)
{
	struct fab_ep_params params;
	struct fab_event ev;

	*line = (struct line){ .rig = rig };
	params = params_of(line, qid, depth);
	ev = start(line, &params, cntlid);
	cr_assert_eq(ev.type, FAB_EV_CONNECTED, "%s", ev.text);
	cr_expect(ev.owner == line && ev.ep == line->ep);
	cr_expect_eq(ev.crqsize, depth + 1);
	cr_expect_str_eq(line->ep->peer, "127.0.0.1:4420");
	cr_expect(line->ep->send_positions >= depth + 16u && line->ep->send_positions % 16 == 0);
	cr_expect_geq(line->ep->recv_positions, depth + 16u);
	rig->dev = line->ep->dev;
}

static void connect_both(struct rig *rig, struct line *a, struct line *io, uint16_t depth)
{
	struct nvme_sqe sqe;
	uint16_t cntlid;

	connect_line(a, rig, 0, 31, NVME_CNTLID_DYNAMIC);
	cntlid = fabrics_connect(a, 0, 31, NVME_CNTLID_DYNAMIC);
	nvme_sqe_property_set(&sqe, NVME_PROP_CC, false,
			      NVME_CC_EN | NVME_CC_IOSQES_64 | NVME_CC_IOCQES_16);
	admin(a, &sqe);
	connect_line(io, rig, 1, depth, cntlid);
	cr_expect_eq(fabrics_connect(io, 1, depth, cntlid), cntlid);
}

static void close_line(struct line *line)
{
	nvmfr__fab_verbs.ep_stop(line->ep);
	nvmfr__fab_verbs.ep_disconnect(line->ep);
	nvmfr__fab_verbs.ep_destroy(line->ep);
}

/* ---- data ------------------------------------------------------------------------------------- */

/* What the stand-in's pattern mode holds at 8-byte word w of the namespace. */
static uint64_t pattern(uint64_t w)
{
	return (w >> 6) * UINT64_C(0x9e3779b97f4a7c15) + w;
}

static void fill(uint64_t *words, uint64_t lba)
{
	for (uint64_t i = 0; i < DATA / 8; i++)
		words[i] = pattern(lba * (BLOCK / 8) + i);
}

static void rw_sqe(struct nvme_sqe *sqe, uint8_t opcode, uint64_t lba)
{
	nvme_sqe_init(sqe, opcode);
	sqe->nsid = to_le32(1);
	sqe->cdw10 = to_le32((uint32_t)lba);
	sqe->cdw11 = to_le32((uint32_t)(lba >> 32));
	sqe->cdw12 = to_le32(BLOCKS - 1);
}

struct area {
	uint64_t *out, *in;
	struct nvmfr_buffer buf;
	uint32_t rkey, lkey;
};

static void area_up(struct area *area, struct fab_dev *dev)
{
	uint64_t bytes = 2 * DATA;

	*area = (struct area){ 0 };
	area->out =
		mmap(NULL, 2 * DATA, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	cr_assert(area->out != MAP_FAILED);
	area->in = area->out + DATA / 8;
	area->buf = (struct nvmfr_buffer){
		.addr = (uintptr_t)area->out,
		.len = 2 * DATA,
		.access = FAB_ACCESS_SOURCE | FAB_ACCESS_TARGET,
	};
	cr_assert_eq(nvmfr__buffer_attach(&area->buf, dev), 0, "%s", nvmfr__err_get());
	cr_assert_eq(nvmfr__buffer_keys(&area->buf, dev, 0, &bytes, FAB_ACCESS_SOURCE, &area->rkey,
					&area->lkey),
		     0);
	cr_expect_eq(bytes, 2 * DATA);
}

static void area_down(struct area *area, struct fab_dev *dev)
{
	nvmfr__buffer_detach(&area->buf, dev);
	munmap(area->out, 2 * DATA);
}

static void read_back(struct line *line, struct area *area, uint64_t lba)
{
	struct nvme_sqe sqe;
	struct nvme_cqe cqe;

	memset(area->in, 0xee, DATA);
	fill(area->out, lba);
	rw_sqe(&sqe, NVME_IO_READ, lba);
	sqe.dptr = nvme_sgl_keyed((uintptr_t)area->in, DATA, area->rkey);
	post(line, &sqe, NULL);
	cqe = take(line, 1);
	cr_expect_eq(from_le16(cqe.status), 0);
	cr_expect_arr_eq(area->in, area->out, DATA, "LBA %llu", (unsigned long long)lba);
}

static void write_keyed(struct line *line, struct area *area, uint64_t lba)
{
	struct nvme_sqe sqe;

	fill(area->out, lba);
	rw_sqe(&sqe, NVME_IO_WRITE, lba);
	sqe.dptr = nvme_sgl_keyed((uintptr_t)area->out, DATA, area->rkey);
	post(line, &sqe, NULL);
	cr_expect_eq(from_le16(take(line, 1).status), 0);
}

/* ---- tests ------------------------------------------------------------------------------------ */

Test(verbs, data_round_trips, .timeout = 60)
{
	uint64_t errors = shim_errors();
	struct rig rig;
	struct line a, io;
	struct area area;

	rig_up(&rig);
	connect_both(&rig, &a, &io, 40);
	area_up(&area, rig.dev);
	for (uint64_t i = 0; i < MANY; i++) {
		write_keyed(&io, &area, i * 16);
		read_back(&io, &area, i * 16);
	}
	/* one SEND in 16 is signaled, and each tells of the 15 before it */
	cr_expect(2 * MANY + 1 - io.sends_done < FAB_SIGNAL_EVERY, "%u done", io.sends_done);
	area_down(&area, rig.dev);
	close_line(&io);
	close_line(&a);
	rig_down(&rig);
	cr_expect_eq(shim_errors(), errors);
}

/* Batches as large as the ring's end allows; positions are reused only when they are done. */
Test(verbs, batches_keep_the_ring_rules, .timeout = 60)
{
	uint64_t errors = shim_errors();
	struct rig rig;
	struct line a, io;
	struct area area;
	struct nvme_sqe sqe;
	uint32_t sent = 1, n;

	rig_up(&rig);
	connect_both(&rig, &a, &io, 128);
	area_up(&area, rig.dev);
	fill(area.out, 0);
	while (sent < 20 * MANY) {
		uint32_t first = io.send_next;

		n = nvmfr__min_u32(io.ep->send_positions - first, sent % 128 + 1);
		n = nvmfr__min_u32(n, io.ep->send_positions - (sent - io.sends_done));
		cr_assert_geq(n, 1u);
		for (uint32_t i = 0; i < n; i++, io.send_next++) {
			rw_sqe(&sqe, i & 1 ? NVME_IO_READ : NVME_IO_WRITE, 0);
			sqe.cid = to_le16(io.cid++);
			sqe.dptr = nvme_sgl_keyed((uintptr_t)(i & 1 ? area.in : area.out), DATA,
						  area.rkey);
			*capsule(&io) = sqe;
		}
		cr_assert_eq(nvmfr__fab_verbs.post_send(io.ep, first, n), 0);
		io.send_next %= io.ep->send_positions;
		take(&io, n);
		sent += n;
	}
	cr_expect(!io.bad);
	area_down(&area, rig.dev);
	close_line(&io);
	close_line(&a);
	rig_down(&rig);
	cr_expect_eq(shim_errors(), errors);
}

/* A tail is for one use: the next command from the same position has none. */
Test(verbs, tails_carry_data_and_descriptors, .timeout = 60)
{
	uint64_t errors = shim_errors();
	struct rig rig;
	struct line a, io;
	struct area area;
	struct nvme_sqe sqe;
	struct fab_carry tail;

	rig_up(&rig);
	connect_both(&rig, &a, &io, 40);
	area_up(&area, rig.dev);
	for (uint64_t i = 0; i < MANY; i++) {
		unsigned char *place = io.ep->tails + i / 2 % FAB_TAILS * io.ep->tail_bytes;
		uint32_t done = io.sends_done;
		struct nvme_sgl list[2] = {
			nvme_sgl_keyed((uintptr_t)area.out, BLOCK, area.rkey),
			nvme_sgl_keyed((uintptr_t)area.out + BLOCK, DATA - BLOCK, area.rkey),
		};

		fill(area.out, i * 16);
		rw_sqe(&sqe, NVME_IO_WRITE, i * 16);
		if (i & 1) {
			sqe.dptr = nvme_sgl_icd(0, DATA);
			tail = (struct fab_carry){ (uintptr_t)area.out, DATA, area.lkey };
		} else {
			memcpy(place, list, sizeof(list));
			sqe.dptr = nvme_sgl_last_seg(0, sizeof(list));
			tail = (struct fab_carry){ (uintptr_t)place, sizeof(list),
						   io.ep->tails_lkey };
		}
		post(&io, &sqe, &tail);
		cr_expect_eq(from_le16(take(&io, 1).status), 0);
		cr_expect_geq(io.sends_done - done, 1u, "a tail's SEND is signaled");
		read_back(&io, &area, i * 16);
	}
	for (uint64_t i = 0; i < MANY; i++)
		read_back(&io, &area, i * 16);
	area_down(&area, rig.dev);
	close_line(&io);
	close_line(&a);
	rig_down(&rig);
	cr_expect_eq(shim_errors(), errors);
}

Test(verbs, a_sleeper_wakes, .timeout = 60)
{
	uint64_t errors = shim_errors();
	struct rig rig;
	struct line a;
	struct nvme_sqe sqe;
	struct pollfd fd = { .events = POLLIN };

	rig_up(&rig);
	connect_line(&a, &rig, 0, 31, NVME_CNTLID_DYNAMIC);
	fabrics_connect(&a, 0, 31, NVME_CNTLID_DYNAMIC);
	fd.fd = nvmfr__fab_verbs.ep_fd(a.ep);
	for (int i = 0; i < 100; i++) {
		cr_assert_eq(nvmfr__fab_verbs.arm(a.ep), 0);
		cr_assert_eq(poll(&fd, 1, 0), 0, "nothing was sent");
		nvme_sqe_property_get(&sqe, NVME_PROP_CAP, true);
		post(&a, &sqe, NULL);
		cr_assert_eq(poll(&fd, 1, EVENT_MS), 1);
		take(&a, 1);
	}
	close_line(&a); /* the last event is not acknowledged yet */
	rig_down(&rig);
	cr_expect_eq(shim_errors(), errors);
}

Test(verbs, a_reject_is_decoded, .timeout = 60)
{
	struct rig rig;
	struct line a = { .rig = &rig };
	struct fab_ep_params params = params_of(&a, 5000, 31);
	struct fab_event ev;

	rig_up(&rig);
	ev = start(&a, &params, 1);
	cr_expect_eq(ev.type, FAB_EV_FAILED);
	cr_expect_eq(ev.err, -ECONNREFUSED);
	cr_expect_eq(ev.reject_status, NVME_CM_INVALID_QID);
	cr_expect(!ev.retryable);
	cr_expect_not_null(strstr(ev.text, "127.0.0.1:4420"), "%s", ev.text);
	nvmfr__fab_verbs.ep_destroy(a.ep);
	rig_down(&rig);
}

Test(verbs, a_broken_connection_says_why, .timeout = 60)
{
	struct rig rig;
	struct line a, io;
	struct area area;
	struct nvme_sqe sqe;
	struct fab_carry tail;
	struct fab_event ev;

	rig_up(&rig);
	connect_both(&rig, &a, &io, 40);
	area_up(&area, rig.dev);
	tail = (struct fab_carry){ (uintptr_t)area.out, DATA, area.lkey ^ 1 };
	rw_sqe(&sqe, NVME_IO_WRITE, 0);
	sqe.dptr = nvme_sgl_icd(0, DATA);
	post(&io, &sqe, &tail);
	take(&io, 1);
	cr_expect(io.bad);
	cr_expect_not_null(strstr(io.ep->error, "not registered"), "%s", io.ep->error);
	cr_expect(nvmfr__fab_verbs.poll(io.ep) & FAB_POLL_BAD, "and stays bad");
	cr_expect_not_null(strstr(io.ep->error, "not registered"),
			   "a flush does not hide the cause");
	ev = next_event(&rig);
	cr_expect_eq(ev.type, FAB_EV_DISCONNECTED);
	cr_expect(ev.ep == io.ep);
	area_down(&area, rig.dev);
	close_line(&io);
	close_line(&a);
	rig_down(&rig);
}

Test(verbs, disconnect_flushes, .timeout = 60)
{
	uint64_t errors = shim_errors();
	struct rig rig;
	struct line a;

	rig_up(&rig);
	connect_line(&a, &rig, 0, 31, NVME_CNTLID_DYNAMIC);
	nvmfr__fab_verbs.ep_disconnect(a.ep);
	cr_expect(nvmfr__fab_verbs.poll(a.ep) & FAB_POLL_BAD);
	cr_expect_not_null(strstr(a.ep->error, "connection closed"), "%s", a.ep->error);
	cr_expect_eq(next_event(&rig).type, FAB_EV_DISCONNECTED);
	nvmfr__fab_verbs.ep_destroy(a.ep);
	rig_down(&rig);
	cr_expect_eq(shim_errors(), errors);
}

/* In every state, also with events on the way. */
Test(verbs, destroy_in_any_state, .timeout = 60)
{
	uint64_t errors = shim_errors();
	struct rig rig;
	struct line l = { .rig = &rig };
	struct fab_ep_params params = params_of(&l, 0, 31);
	struct nvme_cm_request req = nvme_cm_request(0, 31, NVME_CNTLID_DYNAMIC);
	struct fab_event ev;

	rig_up(&rig);
	for (int steps = -1; steps < 4; steps++) {
		cr_assert_eq(nvmfr__fab_verbs.ep_create(rig.fab, &params, &l.ep), 0);
		if (steps >= 0)
			cr_assert_eq(nvmfr__fab_verbs.ep_connect(l.ep, &req, sizeof(req)), 0);
		for (int i = 0; i < steps; i++)
			nvmfr__fab_verbs.next_event(rig.fab, &ev);
		nvmfr__fab_verbs.ep_destroy(l.ep);
		cr_expect_eq(nvmfr__fab_verbs.next_event(rig.fab, &ev), 0,
			     "no event after destroy");
	}
	rig_down(&rig);
	cr_expect_eq(shim_errors(), errors);
}

Test(verbs, a_failed_device_is_told_to_each_of_its_endpoints, .timeout = 60)
{
	struct ibv_async_event fatal = { .event_type = IBV_EVENT_DEVICE_FATAL };
	struct ibv_async_event port = { .element.port_num = 1, .event_type = IBV_EVENT_PORT_ERR };
	struct rig rig;
	struct line a, b;
	struct fab_event ev;
	int fd;

	rig_up(&rig);
	connect_line(&a, &rig, 0, 31, NVME_CNTLID_DYNAMIC);
	connect_line(&b, &rig, 0, 31, NVME_CNTLID_DYNAMIC);
	/* the stand-in keeps the writing end of its async descriptor there */
	fd = nvmfr__to_verbs_dev(rig.dev)->watch->cmd_fd;
	cr_assert_eq(write(fd, &port, sizeof(port)), sizeof(port));
	cr_assert_eq(nvmfr__fab_verbs.next_event(rig.fab, &ev), 0, "a port's news is for the log");
	cr_assert_eq(write(fd, &fatal, sizeof(fatal)), sizeof(fatal));
	cr_expect_eq(next_event(&rig).type, FAB_EV_DEVICE_GONE);
	cr_expect_eq(nvmfr__fab_verbs.due_ns(rig.fab), 0, "one more is to come");
	cr_expect_eq(next_event(&rig).type, FAB_EV_DEVICE_GONE);
	cr_expect_eq(nvmfr__fab_verbs.due_ns(rig.fab), UINT64_MAX);
	close_line(&a);
	close_line(&b);
	rig_down(&rig);
}

/* ---- limits and texts ------------------------------------------------------------------------- */

Test(verbs, device_limits_are_said, .timeout = 60)
{
	struct rig rig;
	struct line a, b = { .rig = &rig };
	struct fab_ep_params params = params_of(&b, 0, 31);
	struct ibv_device_attr *attr, good;
	struct fab_event ev;

	rig_up(&rig);
	connect_line(&a, &rig, 0, 31, NVME_CNTLID_DYNAMIC);
	attr = &nvmfr__to_verbs_dev(rig.dev)->attr;
	good = *attr;
	attr->max_qp_wr = 40;
	ev = start(&b, &params, NVME_CNTLID_DYNAMIC);
	cr_expect_eq(ev.type, FAB_EV_FAILED);
	cr_expect_not_null(strstr(ev.text, "device null0 allows 40"), "%s", ev.text);
	nvmfr__fab_verbs.ep_destroy(b.ep);
	*attr = good;
	attr->max_cqe = 50;
	ev = start(&b, &params, NVME_CNTLID_DYNAMIC);
	cr_expect_not_null(strstr(ev.text, "completion entries"), "%s", ev.text);
	nvmfr__fab_verbs.ep_destroy(b.ep);
	*attr = good;
	attr->max_sge = 1;
	params.in_capsule = true;
	ev = start(&b, &params, NVME_CNTLID_DYNAMIC);
	cr_expect_not_null(strstr(ev.text, "2 SGEs"), "%s", ev.text);
	nvmfr__fab_verbs.ep_destroy(b.ep);
	close_line(&a);
	rig_down(&rig);
}

Test(verbs, bad_parameters, .timeout = 60)
{
	struct rig rig;
	struct line l = { .rig = &rig };
	struct fab_ep_params params = params_of(&l, 0, 0);

	rig_up(&rig);
	cr_expect_eq(nvmfr__fab_verbs.ep_create(rig.fab, &params, &l.ep), -EINVAL);
	params = params_of(&l, 0, 31);
	params.dst.ss_family = AF_UNIX;
	cr_expect_eq(nvmfr__fab_verbs.ep_create(rig.fab, &params, &l.ep), -EAFNOSUPPORT);
	params = params_of(&l, 0, 31);
	params.src.ss_family = AF_INET6;
	cr_expect_eq(nvmfr__fab_verbs.ep_create(rig.fab, &params, &l.ep), -EINVAL);
	rig_down(&rig);
}

struct reject_case {
	const char *name;
	int status;
	size_t bytes;
	uint8_t data[8];
	int err;
	uint16_t reject_status;
	bool retryable;
	const char *text;
};

Test(verbs, reject_reasons)
{
	static const struct reject_case cases[] = {
		{ "no listener, zero padding",
		  8,
		  148,
		  { 0 },
		  -ECONNREFUSED,
		  0,
		  false,
		  "nothing listens at peer" },
		{ "stale", 10, 148, { 0 }, -ECONNREFUSED, 0, true, "still holds" },
		{ "no resources of the CM", 3, 0, { 0 }, -ECONNREFUSED, 0, true, "no resources" },
		{ "no reason", 28, 148, { 0 }, -ECONNREFUSED, 0, false, "without a reason" },
		{ "record format", 28, 148, { 0, 0, 2, 0 }, -ECONNREFUSED, 2, false, "status 2" },
		{ "HSQSIZE", 28, 148, { 0, 0, 4, 0 }, -ECONNREFUSED, 4, false, "status 4" },
		{ "no resources of the target",
		  28,
		  148,
		  { 0, 0, 6, 0 },
		  -ECONNREFUSED,
		  6,
		  true,
		  "status 6" },
		{ "short data",
		  28,
		  3,
		  { 0, 0, 6, 0 },
		  -ECONNREFUSED,
		  0,
		  false,
		  "without a reason" },
		{ "no data", 28, 0, { 0 }, -ECONNREFUSED, 0, false, "without a reason" },
		{ "iWARP", -ECONNREFUSED, 0, { 0 }, -ECONNREFUSED, 0, false, "nothing listens" },
		{ "other", 12, 0, { 0 }, -ECONNREFUSED, 0, false, "reason 12" },
	};
	struct verbs_ep ep = { .base.peer = "peer" };

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const struct reject_case *c = &cases[i];
		struct fab_event ev = { 0 };
		uint8_t data[256] = { 0 };

		memcpy(data, c->data, sizeof(c->data));
		cr_expect_eq(nvmfr__verbs_reject_text(&ev, c->status, data, c->bytes, &ep), c->err,
			     "%s", c->name);
		cr_expect_eq(ev.reject_status, c->reject_status, "%s", c->name);
		cr_expect_eq(ev.retryable, c->retryable, "%s", c->name);
		cr_expect_not_null(strstr(ev.text, c->text), "%s: %s", c->name, ev.text);
	}
}

Test(verbs, address_errors)
{
	struct verbs_ep ep = { .base.peer = "10.0.0.1:4420" };
	char text[FAB_ERROR_TEXT];

	cr_expect_eq(nvmfr__verbs_addr_text(text, sizeof(text), -ENODEV, &ep), -ENODEV);
	cr_expect_not_null(strstr(text, "10.0.0.1:4420: address not resolved: no RDMA device"),
			   "%s", text);
	cr_expect_eq(nvmfr__verbs_addr_text(text, sizeof(text), -ETIMEDOUT, &ep), -ETIMEDOUT);
	cr_expect_eq(nvmfr__verbs_addr_text(text, sizeof(text), 0, &ep), -EHOSTUNREACH);
}

/* ---- dma-buf: the verbs function is ours ------------------------------------------------------ */

static struct {
	uint64_t offset, iova;
	size_t bytes;
	int fd, access, fail, calls;
	struct ibv_mr mr;
} dmabuf;

struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova,
				 int fd, int access)
{
	dmabuf.calls++;
	dmabuf.offset = offset;
	dmabuf.iova = iova;
	dmabuf.bytes = length;
	dmabuf.fd = fd;
	dmabuf.access = access;
	if (dmabuf.fail) {
		errno = dmabuf.fail;
		return NULL;
	}
	/* a real one, so that it can be given back */
	return ibv_reg_mr(pd, &dmabuf, sizeof(dmabuf), IBV_ACCESS_LOCAL_WRITE);
}

static void dmabuf_failures(struct fab_dev *dev, struct nvmfr_buffer *buf)
{
	static const struct {
		int err, want;
		const char *text;
	} cases[] = {
		{ EOPNOTSUPP, -EOPNOTSUPP, "no dma-buf registration" },
		{ ENOSYS, -EOPNOTSUPP, "no dma-buf registration" },
		{ EBADF, -EBADF, "no dma-buf" },
		{ EINVAL, -EINVAL, "not inside the dma-buf" },
		{ ENOMEM, -ENOMEM, "memory" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		dmabuf.fail = cases[i].err;
		cr_expect_eq(nvmfr__buffer_attach(buf, dev), cases[i].want);
		cr_expect_not_null(strstr(nvmfr__err_get(), cases[i].text), "%s", nvmfr__err_get());
		cr_expect_eq(buf->keys[dev->index].count, 0u);
	}
	dmabuf.fail = 0;
}

Test(verbs, dmabuf_registration, .timeout = 60)
{
	struct rig rig;
	struct line a;
	int fd[2];
	struct nvmfr_buffer buf = {
		.addr = 0x1234,
		.len = 10000,
		.flags = BUFFER_DMABUF,
		.dmabuf_offset = 0x7000234,
		.access = FAB_ACCESS_TARGET,
	};
	struct fab_mr mr;

	rig_up(&rig);
	connect_line(&a, &rig, 0, 31, NVME_CNTLID_DYNAMIC);
	cr_assert_eq(pipe(fd), 0);
	buf.dmabuf_fd = fd[0];
	memset(&dmabuf, 0, sizeof(dmabuf));
	dmabuf_failures(rig.dev, &buf);
	cr_assert_eq(nvmfr__buffer_attach(&buf, rig.dev), 0, "%s", nvmfr__err_get());
	cr_expect(dmabuf.offset == 0x7000234 && dmabuf.iova == 0x1234 && dmabuf.bytes == 10000);
	cr_expect_eq(dmabuf.fd, fd[0]);
	cr_expect_eq(dmabuf.access, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	nvmfr__buffer_detach(&buf, rig.dev);
	cr_expect_eq(close(fd[0]), 0, "the descriptor stays the caller's");
	close(fd[1]);
	dmabuf.calls = 0;
	cr_expect_eq(nvmfr__verbs_mr_reg_dmabuf(rig.dev, 0, 0x1000, 4096, 0x2200, FAB_ACCESS_TARGET,
						&mr),
		     -EINVAL);
	cr_expect_eq(dmabuf.calls, 0, "offset and address lie differently in their pages");
	close_line(&a);
	rig_down(&rig);
}
