/* SPDX-License-Identifier: BSD-3-Clause */
#include "scripted.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/err.h"
#include "base/util.h"

static __attribute__((noreturn, format(printf, 1, 2))) void breach(const char *fmt, ...)
{
	va_list args;

	fputs("# scripted fabric: ", stderr);
	va_start(args, fmt);
	vfprintf(stderr, fmt, args);
	va_end(args);
	fputc('\n', stderr);
	abort();
}

static struct scripted *of(struct fab_ep *ep)
{
	return container_of(ep, struct scripted, ep);
}

static struct scripted *of_dev(struct fab_dev *dev)
{
	return container_of(dev, struct scripted, dev);
}

static void check_running(const struct scripted *s, const char *call)
{
	if (s->stops)
		breach("%s after ep_stop", call);
}

uint64_t scripted_le(const unsigned char *bytes, unsigned int n)
{
	uint64_t v = 0;

	while (n-- > 0)
		v = v << 8 | bytes[n];
	return v;
}

uint16_t scripted_cid(const struct scripted_cmd *cmd)
{
	return (uint16_t)scripted_le(cmd->capsule + 2, 2);
}

/* ---- sends ----------------------------------------------------------------------------------- */

static uint32_t position_of(const struct scripted *s, uint32_t seq)
{
	return seq % s->ep.send_positions;
}

static bool is_list(const struct scripted *s, const struct fab_carry *carry)
{
	uint64_t at = carry->addr - (uintptr_t)s->ep.tails;

	return s->ep.tails && at < (uint64_t)FAB_TAILS * s->ep.tail_bytes;
}

/* A list has a place of its own while its SEND is not done. */
static void check_list(const struct scripted *s, const struct fab_carry *carry)
{
	uint64_t at = carry->addr - (uintptr_t)s->ep.tails;

	if (at % s->ep.tail_bytes || carry->bytes > s->ep.tail_bytes || carry->bytes % 16 ||
	    carry->lkey != s->ep.tails_lkey)
		breach("%u bytes of descriptors at %llu of the lists, %u fit", carry->bytes,
		       (unsigned long long)at, s->ep.tail_bytes);
	for (uint32_t seq = s->done; seq != s->sent; seq++) {
		const struct scripted_cmd *cmd = &s->cmds[seq & (s->keep - 1)];

		if (cmd->is_list && cmd->tail.addr == carry->addr)
			breach("a list was used again before its SEND was done");
	}
}

static void note_outstanding(struct scripted *s, uint16_t cid)
{
	if (cid == 0xffff)
		breach("CID 0xffff was sent");
	s->cmd_of[cid % SCRIPTED_SLOTS] = s->sent;
	if (s->lied)
		return;
	if (s->at[cid])
		breach("CID 0x%04x was sent while it is outstanding", cid);
	if (s->outstanding == s->depth)
		breach("more than %u commands are outstanding", s->depth);
	s->out[s->outstanding++] = cid;
	s->at[cid] = (uint16_t)s->outstanding;
	if (s->outstanding > s->most_outstanding)
		s->most_outstanding = s->outstanding;
	if (s->recv_posted < s->outstanding)
		breach("%u commands outstanding, %u receives posted", s->outstanding,
		       s->recv_posted);
}

static void take(struct scripted *s, uint32_t position, bool told)
{
	struct scripted_cmd *cmd = &s->cmds[s->sent & (s->keep - 1)];

	memcpy(cmd->capsule, s->ep.capsules + (size_t)position * FAB_CAPSULE_BYTES,
	       FAB_CAPSULE_BYTES);
	cmd->told = told;
	cmd->tail = (struct fab_carry){ 0 };
	if (s->sends[position].pieces == 2)
		cmd->tail = s->sends[position].carry;
	s->sends[position].pieces = 1;
	cmd->is_list = cmd->tail.bytes && is_list(s, &cmd->tail);
	cmd->is_data = cmd->tail.bytes && !cmd->is_list;
	memset(cmd->list, 0, sizeof(cmd->list));
	if (cmd->is_list) {
		check_list(s, &cmd->tail);
		memcpy(cmd->list, (const void *)(uintptr_t)cmd->tail.addr, cmd->tail.bytes);
	}
	note_outstanding(s, scripted_cid(cmd));
	s->sent++;
}

/* The newest that carries data, and no other, is to be told; or one alone that carries nothing. */
static void check_told(const struct scripted *s, uint32_t first, uint32_t n, uint32_t told)
{
	uint32_t newest = FAB_NO_POSITION;

	for (uint32_t i = first; i < first + n && i < s->ep.send_positions; i++)
		if (s->sends[i].pieces == 2 && !is_list(s, &s->sends[i].carry))
			newest = i;
	if (newest != told && !(n == 1 && first == told && s->sends[first].pieces != 2))
		breach("position %u is to be told, %u is the newest that carries data", told, newest);
}

/* 0 also where it fails: a poll tells. */
static int post_carrying(struct fab_ep *ep, uint32_t first, uint32_t n, uint32_t told)
{
	struct scripted *s = of(ep);

	check_told(s, first, n, told);
	check_running(s, "post_send");
	s->doorbells++;
	if (n == 0 || first != position_of(s, s->posted) || n > ep->send_positions - first)
		breach("post_send(%u, %u), the next position is %u of %u", first, n,
		       position_of(s, s->posted), ep->send_positions);
	if (s->posted + n - s->told > ep->send_positions)
		breach("post_send(%u, %u): a position was used before its SEND was done", first, n);
	s->posted += n;
	for (; n && s->send_room; n--, first++) {
		s->send_room -= s->send_room != SCRIPTED_NEVER;
		take(s, first, first == told);
	}
	if (n && !s->bad) {
		snprintf(ep->error, sizeof(ep->error), "scripted: position %u did not go out",
			 first);
		s->bad = true;
	}
	return 0;
}

static int post_send(struct fab_ep *ep, uint32_t first, uint32_t n)
{
	for (uint32_t i = first; i < first + n && i < ep->send_positions; i++)
		if (of(ep)->sends[i].pieces == 2)
			breach("position %u carries something, and was posted as if not", i);
	return post_carrying(ep, first, n, FAB_NO_POSITION);
}

/* Up to its SEND's end a capsule and its descriptors are the NIC's to read. */
static void check_untouched(const struct scripted *s, uint32_t seq)
{
	const struct scripted_cmd *cmd = &s->cmds[seq & (s->keep - 1)];
	size_t position = position_of(s, seq);

	if (memcmp(cmd->capsule, s->ep.capsules + position * FAB_CAPSULE_BYTES,
		   FAB_CAPSULE_BYTES) != 0)
		breach("the capsule at position %zu changed before its SEND was done", position);
	if (cmd->is_list &&
	    memcmp(cmd->list, (const void *)(uintptr_t)cmd->tail.addr, cmd->tail.bytes) != 0)
		breach("the descriptors at position %zu changed before its SEND was done",
		       position);
}

void scripted_sends_done(struct scripted *s, uint32_t n)
{
	if (n > s->sent - s->done)
		breach("script: %u SENDs done, %u are out", n, s->sent - s->done);
	for (; n; n--, s->done++)
		check_untouched(s, s->done);
}

void scripted_sends_signaled(struct scripted *s)
{
	uint32_t newest = s->done;

	for (uint32_t seq = s->done; seq != s->sent; seq++)
		if (position_of(s, seq) % FAB_SIGNAL_EVERY == FAB_SIGNAL_EVERY - 1 ||
		    s->cmds[seq & (s->keep - 1)].told)
			newest = seq + 1;
	scripted_sends_done(s, newest - s->done);
}

const struct scripted_cmd *scripted_cmd(const struct scripted *s, uint32_t i)
{
	if (s->sent - i - 1 >= s->keep || i >= s->sent)
		breach("script: command %u is not among the last %u of %u", i, s->keep, s->sent);
	return &s->cmds[i & (s->keep - 1)];
}

const struct scripted_cmd *scripted_last(const struct scripted *s, uint32_t back)
{
	return scripted_cmd(s, s->sent - 1 - back);
}

/* ---- responses ------------------------------------------------------------------------------- */

static void no_longer_outstanding(struct scripted *s, uint16_t cid)
{
	uint16_t at = s->at[cid], last;

	s->lied = s->lied || !at;
	if (!at)
		return;
	last = s->out[--s->outstanding];
	s->out[at - 1] = last;
	s->at[last] = at;
	s->at[cid] = 0;
}

void scripted_answer_dword(struct scripted *s, uint32_t dword3, uint64_t result)
{
	unsigned char *p = s->ep.responses + (size_t)s->recv_at * FAB_RESPONSE_BYTES;
	le64 low = to_le64(result);
	le32 high = to_le32(dword3);

	if (!s->recv_posted)
		breach("script: no receive is posted for the response");
	s->recv_posted--;
	memcpy(p, &low, sizeof(low));
	memset(p + 8, 0x5a, 4);
	memcpy(p + 12, &high, sizeof(high));
	s->recv_at = (s->recv_at + 1) % s->ep.recv_positions;
	s->answered++;
	no_longer_outstanding(s, (uint16_t)dword3);
}

void scripted_answer(struct scripted *s, uint16_t cid, uint16_t status, uint64_t result)
{
	scripted_answer_dword(s, cid | (uint32_t)status << 17, result);
}

void scripted_answer_all(struct scripted *s)
{
	uint32_t span = nvmfr__min_u32(s->keep, s->sent);

	for (uint32_t i = s->sent - span; i != s->sent && s->outstanding; i++) {
		uint16_t cid = scripted_cid(scripted_cmd(s, i));

		if (s->at[cid] && s->cmd_of[cid % SCRIPTED_SLOTS] == i)
			scripted_answer(s, cid, 0, 0);
	}
}

static uint64_t poll_ring(struct fab_ep *ep)
{
	struct scripted *s = of(ep);
	uint64_t word;
	uint32_t n;

	check_running(s, "poll");
	s->polls++;
	if (s->before_poll)
		s->before_poll(s);
	n = nvmfr__min_u32(s->answered, s->per_poll);
	word = n | (uint64_t)(s->done - s->told) << 16;
	s->answered -= n;
	s->recv_used += n;
	s->told = s->done;
	if (s->answered || s->idle_more)
		word |= FAB_POLL_MORE;
	else if (s->bad)
		word |= FAB_POLL_BAD;
	s->idle_more -= s->idle_more != 0;
	if ((word & FAB_POLL_BAD) && !ep->error[0])
		snprintf(ep->error, sizeof(ep->error), "scripted: the connection failed");
	return word;
}

static int post_recv(struct fab_ep *ep, uint32_t n)
{
	struct scripted *s = of(ep);

	check_running(s, "post_recv");
	s->recv_posts++;
	if (n == 0 || n > s->recv_used)
		breach("post_recv(%u), %u were used", n, s->recv_used);
	if (s->recv_room == 0) {
		snprintf(ep->error, sizeof(ep->error), "scripted: receives were refused");
		s->bad = true;
		return 0;
	}
	s->recv_room -= s->recv_room != SCRIPTED_NEVER;
	s->recv_used -= n;
	s->recv_posted += n;
	/* The NIC's again: whoever reads them now reads nonsense. */
	for (; n; n--, s->repost_at = (s->repost_at + 1) % ep->recv_positions)
		memset(ep->responses + (size_t)s->repost_at * FAB_RESPONSE_BYTES, 0xee,
		       FAB_RESPONSE_BYTES);
	return 0;
}

/* ---- the rest of the boundary ---------------------------------------------------------------- */

static int arm(struct fab_ep *ep)
{
	struct scripted *s = of(ep);

	check_running(s, "arm");
	s->arms++;
	return s->arm_result;
}

static int ep_fd(const struct fab_ep *ep)
{
	const char *base = (const char *)ep - offsetof(struct scripted, ep);

	return ((const struct scripted *)(const void *)base)->fd;
}

static uint64_t ep_due_ns(const struct fab_ep *ep)
{
	(void)ep;
	return UINT64_MAX;
}

static void ep_stop(struct fab_ep *ep)
{
	struct scripted *s = of(ep);

	if (s->stops++)
		breach("ep_stop twice");
}

/* The script ends it itself: what a test posted is looked at after the connection is gone. */
static void ep_leave(struct fab_ep *ep)
{
	(void)ep;
}

static int mr_reg(struct fab_dev *dev, void *addr, size_t bytes, uint32_t access, struct fab_mr *mr)
{
	struct scripted *s = of_dev(dev);
	uint32_t k = s->mr_count;

	if (k == SCRIPTED_MRS || bytes > dev->max_mr_bytes)
		breach("mr_reg: %zu bytes, number %u", bytes, k);
	s->mrs[s->mr_count++] = (struct scripted_mr){ (uintptr_t)addr, bytes, access, true };
	*mr = (struct fab_mr){ .lkey = SCRIPTED_LKEY + k,
			       .rkey = SCRIPTED_RKEY + k,
			       .handle = &s->mrs[k] };
	return 0;
}

static void mr_dereg(struct fab_dev *dev, struct fab_mr *mr)
{
	struct scripted_mr *record = mr->handle;

	(void)dev;
	if (!record->live)
		breach("mr_dereg twice");
	record->live = false;
}

const struct scripted_mr *scripted_mr_of(const struct scripted *s, uint32_t rkey)
{
	uint32_t k = rkey - SCRIPTED_RKEY;

	return k < s->mr_count && s->mrs[k].live ? &s->mrs[k] : NULL;
}

static const struct fab_ops ops = {
	.name = "scripted",
	.ep_disconnect = ep_leave,
	.ep_stop = ep_stop,
	.ep_destroy = ep_leave,
	.mr_reg = mr_reg,
	.mr_dereg = mr_dereg,
	.post_send = post_send,
	.post_carrying = post_carrying,
	.post_recv = post_recv,
	.poll = poll_ring,
	.arm = arm,
	.ep_fd = ep_fd,
	.ep_due_ns = ep_due_ns,
};

static void make_rings(struct scripted *s, uint32_t max_descriptors)
{
	struct fab_ep *ep = &s->ep;

	/* The least that fabric.h promises: an off-by-one in the floor above finds no slack. */
	ep->send_positions =
		(s->depth + 2 * FAB_SIGNAL_EVERY - 1) / FAB_SIGNAL_EVERY * FAB_SIGNAL_EVERY;
	ep->recv_positions = s->depth + FAB_RECV_BATCH;
	ep->tail_bytes = max_descriptors > 1 ? 16 * max_descriptors : 0;
	ep->capsules = calloc(ep->send_positions, FAB_CAPSULE_BYTES);
	ep->responses = malloc((size_t)ep->recv_positions * FAB_RESPONSE_BYTES);
	ep->tails = ep->tail_bytes ? calloc(FAB_TAILS, ep->tail_bytes) : NULL;
	ep->tails_lkey = SCRIPTED_LKEY - 1;
	s->sends = calloc(ep->send_positions, sizeof(*s->sends));
	ep->sends = (unsigned char *)s->sends;
	for (s->keep = 64; s->keep < 2 * ep->send_positions;)
		s->keep *= 2;
	s->cmds = calloc(s->keep, sizeof(*s->cmds));
	if (!ep->capsules || !ep->responses || !s->sends || !s->cmds ||
	    (ep->tail_bytes && !ep->tails))
		breach("no memory");
	memset(ep->responses, 0xee, (size_t)ep->recv_positions * FAB_RESPONSE_BYTES);
	s->recv_posted = ep->recv_positions;
}

struct scripted *scripted_new(uint32_t depth, uint32_t max_descriptors, uint64_t max_mr_bytes)
{
	struct scripted *s = calloc(1, sizeof(*s));

	if (!s)
		breach("no memory");
	s->depth = depth;
	s->per_poll = UINT16_MAX;
	s->send_room = s->recv_room = SCRIPTED_NEVER;
	s->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	s->dev = (struct fab_dev){
		.ops = &ops,
		.index = SCRIPTED_DEV_INDEX,
		.numa_node = -1,
		.max_mr_bytes = max_mr_bytes ? max_mr_bytes : UINT64_MAX,
		.name = "scripted0",
	};
	s->ep.ops = &ops;
	s->ep.dev = &s->dev;
	snprintf(s->ep.peer, sizeof(s->ep.peer), "script");
	make_rings(s, max_descriptors);
	return s;
}

void scripted_free(struct scripted *s)
{
	free(s->ep.capsules);
	free(s->ep.tails);
	free(s->ep.responses);
	free(s->sends);
	free(s->cmds);
	close(s->fd);
	free(s);
}

/* ---- the rig --------------------------------------------------------------------------------- */

struct ns_table *rig_namespaces(void)
{
	static const struct ns_entry entries[] = {
		{ .nsid = RIG_NS,
		  .shift = 9,
		  .blocks = RIG_NS_BLOCKS,
		  .copy_ranges = 4,
		  .copy_range_blocks = 1000,
		  .copy_blocks = 2500 },
		{ .nsid = RIG_NS_4K, .shift = 12, .blocks = RIG_NS_BLOCKS },
		{ .nsid = RIG_NS_READ_ONLY,
		  .shift = 9,
		  .blocks = RIG_NS_BLOCKS,
		  .write_protected = true },
		{ .nsid = RIG_NS_REFUSED,
		  .shift = 9,
		  .blocks = RIG_NS_BLOCKS,
		  .refusal = "the test says so" },
		{ .nsid = RIG_NS_SMALL, .shift = 9, .blocks = RIG_SMALL_BLOCKS },
	};
	struct ns_table *table = nvmfr__ns_table_new(ARRAY_SIZE(entries));

	if (!table)
		breach("no memory");
	memcpy(table->entries, entries, sizeof(entries));
	return table;
}

struct nvmfr_buffer rig_buffer(struct rig *rig, uint64_t addr, uint64_t bytes, uint32_t access)
{
	struct nvmfr_buffer buf = { .addr = addr, .len = bytes, .host = rig, .access = access };

	if (nvmfr__buffer_attach(&buf, &rig->s->dev))
		breach("buffer: %s", nvmfr__err_get());
	return buf;
}

void rig_unbuffer(struct rig *rig, struct nvmfr_buffer *buf)
{
	nvmfr__buffer_detach(buf, &rig->s->dev);
}

static struct queue_limits limits_of(const struct rig_opts *opts)
{
	return (struct queue_limits){
		.max_xfer_bytes = opts->max_xfer_bytes ? opts->max_xfer_bytes : UINT64_C(128) << 10,
		.zeroes_bytes = opts->zeroes_bytes ? opts->zeroes_bytes : UINT64_MAX,
		.icd_bytes = opts->icd_bytes,
		.max_descriptors = opts->max_descriptors ? opts->max_descriptors : 1,
		.verify_bytes = opts->verify_bytes ? opts->verify_bytes : UINT64_MAX,
		.dsm_blocks = opts->dsm_blocks ? opts->dsm_blocks : UINT64_MAX,
		.dsm_range_blocks = opts->dsm_range_blocks ? opts->dsm_range_blocks : UINT32_MAX,
		.dsm_ranges = opts->dsm_ranges ? opts->dsm_ranges : 256,
		.write_zeroes = !opts->no_write_zeroes,
		.compare = !opts->no_optional,
		.verify = !opts->no_optional,
		.dsm = !opts->no_optional,
		.copy = !opts->no_optional,
		.reservations = !opts->no_optional,
		.fused = !opts->no_optional,
	};
}

static void make_qpair(struct rig *rig, const struct rig_opts *opts)
{
	struct nvmfr_qpair *qp = nvmfr__qpair_new(1);

	if (!qp)
		breach("no memory");
	qp->host = rig;
	qp->word = &rig->word;
	qp->tick = &rig->tick;
	qp->qpair_data = RIG_TAG;
	qp->max_descriptors = FAB_MAX_DESCRIPTORS;
	qp->timeout_ticks = opts->timeout_ticks;
	qp->link.lock = &rig->lock;
	qp->link.word = &rig->word;
	qp->link.service_fd = rig->service_fd;
	qp->link.limits = limits_of(opts);
	qp->link.ns = rig_namespaces();
	rig->qp = qp;
}

/* As ctrl/ioqueue.c does it: connected in a qpair of its own, which the owner moves in. */
static void hand_over(struct rig *rig)
{
	struct nvmfr_qpair *boot = nvmfr__qpair_new(1);

	if (!boot)
		breach("no memory");
	boot->word = &rig->word;
	boot->adopted = 1;
	boot->tick = &rig->tick;
	if (nvmfr__qpair_attach(boot, &rig->s->ep, rig->s->depth))
		breach("attach: %s", nvmfr__err_get());
	pthread_mutex_lock(&rig->lock);
	rig->qp->link.ep = &rig->s->ep;
	rig->qp->link.boot = boot;
	rig->qp->link.state = LINK_LIVE;
	nvmfr__link_publish(&rig->qp->link);
	pthread_mutex_unlock(&rig->lock);
	nvmfr__qpair_adopt(rig->qp);
}

void rig_up(struct rig *rig, const struct rig_opts *given)
{
	struct rig_opts opts = given ? *given : (struct rig_opts){ 0 };

	memset(rig, 0, sizeof(*rig));
	pthread_mutex_init(&rig->lock, NULL);
	atomic_init(&rig->word, 1);
	atomic_init(&rig->tick, 1);
	rig->service_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	rig->s = scripted_new(opts.depth ? opts.depth : 8, opts.max_descriptors, opts.max_mr_bytes);
	make_qpair(rig, &opts);
	hand_over(rig);
	if (!opts.max_mr_bytes)
		rig->buf =
			rig_buffer(rig, RIG_ADDR, RIG_BYTES, FAB_ACCESS_SOURCE | FAB_ACCESS_TARGET);
}

void rig_down(struct rig *rig)
{
	if (rig->buf.len)
		rig_unbuffer(rig, &rig->buf);
	for (uint32_t k = 0; k < rig->s->mr_count; k++)
		if (rig->s->mrs[k].live)
			breach("MR %u is left", k);
	nvmfr__qpair_free(rig->qp);
	scripted_free(rig->s);
	close(rig->service_fd);
	pthread_mutex_destroy(&rig->lock);
}

void rig_publish(struct rig *rig)
{
	pthread_mutex_lock(&rig->lock);
	nvmfr__link_publish(&rig->qp->link);
	pthread_mutex_unlock(&rig->lock);
}

void rig_lose(struct rig *rig, int err, const char *sentence)
{
	struct qpair_link *link = &rig->qp->link;

	pthread_mutex_lock(&rig->lock);
	link->state = LINK_LOST;
	link->err = err;
	snprintf(link->sentence, sizeof(link->sentence), "%s", sentence);
	nvmfr__link_publish(link);
	pthread_mutex_unlock(&rig->lock);
}

bool rig_service_rung(struct rig *rig)
{
	uint64_t count;

	return read(rig->service_fd, &count, sizeof(count)) == sizeof(count);
}

int rig_read(struct rig *rig, uint64_t lba, uint64_t nblocks, uint64_t user_data)
{
	return nvmfr__qpair_read(rig->qp, RIG_NS, lba, nblocks, &rig->buf, 0, user_data);
}

int rig_write(struct rig *rig, uint64_t lba, uint64_t nblocks, uint64_t user_data)
{
	return nvmfr__qpair_write(rig->qp, RIG_NS, lba, nblocks, &rig->buf, 0, user_data);
}

int rig_drain(struct rig *rig, struct nvmfr_completion *out, unsigned int room, unsigned int max,
	      unsigned int *n)
{
	int got;

	*n = 0;
	do {
		got = nvmfr__qpair_poll(rig->qp, out + *n, nvmfr__min_u32(max, room - *n));
		*n += got > 0 ? (unsigned int)got : 0;
	} while (got > 0 && *n < room);
	return got;
}
