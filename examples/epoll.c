/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * epoll URI [COUNT [DEPTH]]: reads without spinning. The thread sleeps in epoll_wait() while reads
 * are under way, so its processor time stays far below the wall time when the target is slow.
 *
 * The order matters: poll until 0, arm, and sleep only if arm answers 0. What completed in between
 * makes arm answer 1.
 */
#include "common.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#define IO_BYTES 4096

struct reader {
	struct session session;
	struct nvmfr_qpair *qp;
	struct nvmfr_buffer *buf;
	struct nvmfr_ns_info ns;
	int epoll_fd;
	uint64_t depth, count;
	uint64_t submitted, completed, sleeps;
};

static int submit(struct reader *r)
{
	uint64_t io_blocks = IO_BYTES / r->ns.block_bytes;
	uint64_t places = r->ns.capacity_blocks / io_blocks;

	while (r->submitted < r->count && r->submitted - r->completed < r->depth) {
		uint64_t slot = r->submitted % r->depth;
		uint64_t lba = r->submitted * 7919 % places * io_blocks;
		int err = nvmfr_read(r->qp, r->ns.nsid, lba, io_blocks, r->buf, slot * IO_BYTES, slot);

		if (err == -EAGAIN)
			return 0;
		if (err)
			return complain("read"), err;
		r->submitted++;
	}
	return 0;
}

/* Returns how many completed. */
static int collect(struct reader *r)
{
	struct nvmfr_completion done[32];
	int n = nvmfr_poll(r->qp, done, ARRAY_SIZE(done));

	if (n < 0)
		return complain("poll"), n;
	for (int i = 0; i < n; i++) {
		if (done[i].result) {
			fprintf(stderr, "epoll: read failed: %s\n", completion_text(&done[i]));
			return done[i].result;
		}
	}
	r->completed += (uint64_t)n;
	return n;
}

static int sleep_until_ready(struct reader *r)
{
	struct epoll_event event;
	int again = nvmfr_qpair_arm(r->qp);

	if (again < 0)
		return complain("arm"), again;
	if (again)
		return 0;
	r->sleeps++;
	/* The library ends a command that is never answered, which wakes us too: no timeout here. */
	if (epoll_wait(r->epoll_fd, &event, 1, -1) < 0 && errno != EINTR)
		return perror("epoll: epoll_wait"), -errno;
	return 0;
}

static int loop(struct reader *r)
{
	int err = 0;

	while (err >= 0 && r->completed < r->count) {
		err = submit(r);
		if (!err)
			err = collect(r);
		if (!err)
			err = sleep_until_ready(r);
	}
	return err < 0 ? err : 0;
}

static int watch(struct reader *r)
{
	struct epoll_event event = { .events = EPOLLIN };
	int fd = nvmfr_qpair_fd(r->qp);

	if (fd < 0)
		return complain("descriptor"), fd;
	r->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (r->epoll_fd < 0 || epoll_ctl(r->epoll_fd, EPOLL_CTL_ADD, fd, &event))
		return perror("epoll: epoll_create1"), -errno;
	return 0;
}

static int set_up(struct reader *r, const char *uri)
{
	int err = session_open(&r->session, uri);

	if (!err)
		err = session_namespace(&r->session, 0, &r->ns);
	if (!err)
		err = session_qpair(&r->session, (unsigned int)r->depth, 0, &r->qp);
	if (!err)
		err = nvmfr_buffer_alloc(r->session.host, r->depth * IO_BYTES, -1, &r->buf);
	if (err)
		return complain("set-up"), err;
	if (r->ns.block_bytes > IO_BYTES || r->ns.capacity_blocks * r->ns.block_bytes < IO_BYTES) {
		fprintf(stderr, "epoll: the namespace does not hold %d-byte reads\n", IO_BYTES);
		return -EINVAL;
	}
	return watch(r);
}

static void tear_down(struct reader *r)
{
	nvmfr_qpair_destroy(r->qp);
	if (r->epoll_fd >= 0)
		close(r->epoll_fd);
	if (nvmfr_buffer_release(r->buf))
		complain("release");
	session_close(&r->session);
}

int main(int argc, char **argv)
{
	struct reader r = { .epoll_fd = -1, .count = 10000, .depth = 8 };
	uint64_t wall, cpu;
	int err;

	if (argc < 2 || argc > 4)
		return fprintf(stderr, "usage: epoll URI [COUNT [DEPTH]]\n"), 2;
	if ((argc > 2 && !parse_bytes("COUNT", argv[2], 1, UINT32_MAX, &r.count)) ||
	    (argc > 3 && !parse_bytes("DEPTH", argv[3], 1, 4095, &r.depth)))
		return 2;
	err = set_up(&r, argv[1]);
	if (!err) {
		wall = clock_ns(CLOCK_MONOTONIC);
		cpu = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
		err = loop(&r);
		cpu = clock_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu;
		wall = clock_ns(CLOCK_MONOTONIC) - wall;
		printf("%" PRIu64 " reads of %d bytes, up to %" PRIu64 " at a time, %" PRIu64
		       " sleeps\nwall time %.2f ms, processor time %.2f ms\n",
		       r.completed, IO_BYTES, r.depth, r.sleeps, (double)wall / 1e6, (double)cpu / 1e6);
	}
	tear_down(&r);
	return err ? 1 : 0;
}
