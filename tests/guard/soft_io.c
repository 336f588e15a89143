/* SPDX-License-Identifier: BSD-3-Clause */
#include "soft_io.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { NAMESPACE_BYTES = 64 << 20, LONG_SLOTS = 2, MAX_SECONDS = 120 };

static void must(int err, const char *what)
{
	if (err >= 0)
		return;
	fprintf(stderr, "%s: %s (%s)\n", what, nvmfr_last_error(), nvmfr_strerror(err));
	exit(EXIT_FAILURE);
}

/* xorshift32: the same places in every run. */
static uint32_t next_random(struct soft_io *s)
{
	s->random ^= s->random << 13;
	s->random ^= s->random >> 17;
	s->random ^= s->random << 5;
	return s->random;
}

static unsigned char *slot_bytes(struct soft_io *s, unsigned int slot, enum soft_kind kind)
{
	size_t each = kind == SOFT_READ_LONG ? SOFT_LONG_BYTES : SOFT_IO_BYTES;

	return (unsigned char *)nvmfr_buffer_addr(s->buf) + slot * each;
}

static struct nvmfr_io plain_io(struct soft_io *s, enum soft_kind kind, unsigned int slot,
				uint64_t place)
{
	size_t bytes = kind == SOFT_READ_LONG ? SOFT_LONG_BYTES : SOFT_IO_BYTES;

	return (struct nvmfr_io){
		.op = kind == SOFT_WRITE ? NVMFR_OP_WRITE : NVMFR_OP_READ,
		.nsid = s->nsid,
		.lba = place * (SOFT_IO_BYTES / s->block_bytes),
		.nblocks = bytes / s->block_bytes,
		.buf = s->buf,
		.offset_bytes = slot * bytes,
		.user_data = slot,
	};
}

/* Two pieces that change places in memory: the first block lands behind the rest. */
static void make_vector(struct soft_io *s, unsigned int slot, struct nvmfr_io *io)
{
	uint64_t start = io->offset_bytes;
	uint64_t first = SOFT_IO_BYTES / 2;

	s->iov[slot][0] = (struct nvmfr_iov){ s->buf, start + first, SOFT_IO_BYTES - first };
	s->iov[slot][1] = (struct nvmfr_iov){ s->buf, start, first };
	io->flags = NVMFR_IO_VEC;
	io->iov = s->iov[slot];
	io->niov = 2;
}

static size_t first_word_at(enum soft_kind kind)
{
	return kind == SOFT_READ_VEC ? SOFT_IO_BYTES / 2 : 0;
}

static struct nvmfr_io make_io(struct soft_io *s, enum soft_kind kind, unsigned int slot,
			       uint64_t place)
{
	struct nvmfr_io io = plain_io(s, kind, slot, place);
	unsigned char *bytes = slot_bytes(s, slot, kind);
	uint64_t before = kind == SOFT_WRITE ? place : ~place;

	if (kind == SOFT_READ_VEC)
		make_vector(s, slot, &io);
	memcpy(bytes + first_word_at(kind), &before, sizeof(before));
	s->expect[slot] = place;
	return io;
}

static uint64_t random_place(struct soft_io *s, enum soft_kind kind)
{
	uint64_t units = kind == SOFT_READ_LONG ? SOFT_LONG_BYTES / SOFT_IO_BYTES : 1;

	return next_random(s) % (s->nblocks - units + 1);
}

static int submit_slots(struct soft_io *s, enum soft_kind kind, const unsigned int *slots,
			unsigned int n)
{
	struct nvmfr_io ios[SOFT_IO_DEPTH];
	unsigned int sent = 0;

	for (unsigned int i = 0; i < n; i++)
		ios[i] = make_io(s, kind, slots[i], random_place(s, kind));
	while (sent < n) {
		int taken = nvmfr_submit(s->qp, ios + sent, n - sent);

		if (taken < 0)
			return taken;
		sent += (unsigned int)taken;
	}
	return 0;
}

static int check_completion(struct soft_io *s, enum soft_kind kind,
			    const struct nvmfr_completion *done)
{
	unsigned int slot = (unsigned int)done->user_data;
	uint64_t found;

	if (done->result)
		return done->result;
	if (done->user_data >= SOFT_IO_DEPTH)
		return -EBADMSG;
	memcpy(&found, slot_bytes(s, slot, kind) + first_word_at(kind), sizeof(found));
	return found == s->expect[slot] ? 0 : -EBADMSG;
}

/* Fills slots with those that are free again. The count, or -errno. */
static int collect(struct soft_io *s, enum soft_kind kind, unsigned int *slots)
{
	struct nvmfr_completion done[SOFT_IO_DEPTH];
	int n = s->group ? nvmfr_group_poll(s->group, done, SOFT_IO_DEPTH)
			 : nvmfr_poll(s->qp, done, SOFT_IO_DEPTH);

	for (int i = 0; i < n; i++) {
		int err = check_completion(s, kind, &done[i]);

		if (err)
			return err;
		slots[i] = (unsigned int)done[i].user_data;
	}
	return n;
}

int soft_io_run(struct soft_io *s, enum soft_kind kind, uint64_t count)
{
	uint64_t submitted = 0, completed = 0;
	unsigned int depth = kind == SOFT_READ_LONG ? LONG_SLOTS : SOFT_IO_DEPTH;
	unsigned int slots[SOFT_IO_DEPTH], n = depth;

	for (unsigned int i = 0; i < depth; i++)
		slots[i] = i;
	for (;;) {
		int got;

		if (n > count - submitted)
			n = (unsigned int)(count - submitted);
		got = submit_slots(s, kind, slots, n);
		if (got)
			return got;
		submitted += n;
		got = collect(s, kind, slots);
		if (got < 0)
			return got;
		n = (unsigned int)got;
		completed += n;
		if (completed == count)
			return 0;
	}
}

static void open_qpairs(struct soft_io *s, bool grouped)
{
	struct nvmfr_qpair_opts opts;

	nvmfr_qpair_opts_init(&opts, sizeof(opts));
	/* An 8 MiB I/O takes several commands. */
	opts.depth = 2 * SOFT_IO_DEPTH;
	if (grouped)
		must(nvmfr_group_create(s->host, NULL, &s->group), "group");
	opts.group = s->group;
	must(nvmfr_qpair_create(s->ctrl, &opts, &s->qp), "queue pair");
	must(nvmfr_qpair_wait(s->qp, -1), "queue pair");
	for (unsigned int i = 0; grouped && i < SOFT_IO_IDLE; i++) {
		must(nvmfr_qpair_create(s->ctrl, &opts, &s->idle[i]), "queue pair");
		must(nvmfr_qpair_wait(s->idle[i], -1), "queue pair");
	}
}

static void connect_target(struct soft_io *s, const char *uri)
{
	struct nvmfr_ctrl_opts ctrl_opts;

	must(nvmfr_host_create(NULL, &s->host), "host");
	nvmfr_ctrl_opts_init(&ctrl_opts, sizeof(ctrl_opts));
	ctrl_opts.uri = uri;
	must(nvmfr_connect(s->host, &ctrl_opts, &s->ctrl), "connect");
	must(nvmfr_ctrl_wait(s->ctrl, -1), "connect");
}

static void fill_namespace(struct soft_io *s)
{
	struct nvmfr_ns_info info = { .size = sizeof(info) };
	struct nvmfr_completion done;
	unsigned char *bytes = nvmfr_buffer_addr(s->buf);

	s->nsid = nvmfr_ns_next(s->ctrl, 0);
	must(nvmfr_ns_info(s->ctrl, s->nsid, &info), "namespace");
	s->block_bytes = info.block_bytes;
	s->nblocks = NAMESPACE_BYTES / SOFT_IO_BYTES;
	for (uint64_t i = 0; i < s->nblocks; i++) {
		memcpy(bytes, &i, sizeof(i));
		must(nvmfr_write(s->qp, s->nsid, i * (SOFT_IO_BYTES / s->block_bytes),
				 SOFT_IO_BYTES / s->block_bytes, s->buf, 0, 0), "write");
		must(nvmfr_wait(s->qp, &done, 1, 1, -1), "write");
		must(done.result, "write");
	}
}

void soft_io_open(struct soft_io *s, const char *uri, bool grouped)
{
	*s = (struct soft_io){ .random = 0x2545f491 };
	/* Whatever hangs ends here; a filter on system calls does not stop a signal. */
	alarm(MAX_SECONDS);
	connect_target(s, uri);
	open_qpairs(s, grouped);
	must(nvmfr_buffer_alloc(s->host, (size_t)LONG_SLOTS * SOFT_LONG_BYTES, -1, &s->buf),
	     "buffer");
	fill_namespace(s);
}

void soft_io_close(struct soft_io *s)
{
	nvmfr_qpair_destroy(s->qp);
	for (unsigned int i = 0; i < SOFT_IO_IDLE; i++)
		nvmfr_qpair_destroy(s->idle[i]);
	must(nvmfr_group_destroy(s->group), "group");
	must(nvmfr_buffer_release(s->buf), "release");
	must(nvmfr_disconnect(s->ctrl, 1000), "disconnect");
	nvmfr_host_destroy(s->host);
}
