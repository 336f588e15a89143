/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The queue floor on the scripted fabric: what owner and service tell each other, sleeping, fork.
 */
#include "decode.h"
#include "scripted.h"
#include "testing.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/util.h"
#include "wire/fabrics.h"

#define SECONDS 60

static bool readable(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, 0) == 1;
}

/* ---- before it is live ----------------------------------------------------------------------- */

/* A queue pair that the service still connects. Ends with free_young. */
static struct nvmfr_qpair *young(struct rig *rig)
{
	struct nvmfr_qpair *qp = nvmfr__qpair_new(1);

	cr_assert_not_null(qp);
	qp->host = rig;
	qp->word = &rig->word;
	qp->tick = &rig->tick;
	qp->max_descriptors = 4;
	qp->link.lock = &rig->lock;
	qp->link.word = &rig->word;
	qp->link.service_fd = -1;
	qp->link.ns = rig_namespaces();
	qp->link.limits = (struct queue_limits){ .max_xfer_bytes = 4096,
						 .zeroes_bytes = 4096,
						 .max_descriptors = 1 };
	return qp;
}

static struct rig no_rig(void)
{
	struct rig rig = { .word = 1, .tick = 1 };

	pthread_mutex_init(&rig.lock, NULL);
	rig.buf = (struct nvmfr_buffer){ .addr = RIG_ADDR, .len = RIG_BYTES, .access = 3 };
	return rig;
}

Test(queue_link, connecting)
{
	struct rig rig = no_rig();
	struct nvmfr_qpair *qp = young(&rig);
	struct nvmfr_completion cpl;
	struct nvmfr_io io = { .op = NVMFR_OP_FLUSH, .nsid = 1 };

	cr_expect_eq(nvmfr__qpair_poll(qp, &cpl, 1), 0);
	cr_expect_eq(nvmfr__qpair_submit(qp, &io, 1), -EAGAIN);
	cr_expect_eq(nvmfr__qpair_read(qp, 1, 0, 1, &rig.buf, 0, 0), -EAGAIN);
	cr_expect_eq(nvmfr__qpair_arm(qp), 0);
	cr_expect(!nvmfr__qpair_names(qp, &rig.buf));
	nvmfr__qpair_free(qp);
	pthread_mutex_destroy(&rig.lock);
}

Test(queue_link, it_never_came_up)
{
	struct rig rig = no_rig();
	struct nvmfr_qpair *qp = young(&rig);
	struct nvmfr_completion cpl;
	int fd = nvmfr__qpair_fd(qp);

	cr_assert_geq(fd, 0);
	cr_expect(!readable(fd));
	pthread_mutex_lock(&rig.lock);
	qp->link.state = LINK_CLOSED;
	qp->link.err = -ECONNREFUSED;
	strcpy(qp->link.sentence, "the target does not like us");
	nvmfr__link_publish(&qp->link);
	pthread_mutex_unlock(&rig.lock);
	cr_expect(readable(fd), "a sleeper wakes");
	cr_expect_eq(nvmfr__qpair_arm(qp), 1);
	cr_expect_eq(nvmfr__qpair_poll(qp, &cpl, 1), -ENOTCONN);
	cr_expect_str_eq(nvmfr__err_get(), "the target does not like us");
	nvmfr__err_clear();
	cr_expect_eq(nvmfr__qpair_read(qp, 1, 0, 1, &rig.buf, 0, 0), -ENOTCONN);
	cr_expect_str_eq(nvmfr__err_get(), "the target does not like us");
	cr_expect_eq(qp->err, -ECONNREFUSED);
	nvmfr__qpair_free(qp);
	pthread_mutex_destroy(&rig.lock);
}

/* What Fabrics Connect used goes on where it stood: CID generation, ring positions, receives. */
Test(queue_link, the_owner_moves_in_where_connect_left_off)
{
	/* clang-format off */
	static const unsigned char want[FAB_CAPSULE_BYTES] = {
		0x02, 0x40, 0, 0, 1, [24] = 0xbc, 0x9a, 0x78, 0x56, 0x34, 0x12, [33] = 0x02,
		[35] = 0x00, 0xc3, 0xb2, 0xa1, 0x40,
	};
	/* clang-format on */
	struct rig rig = no_rig();
	struct nvmfr_qpair *qp = young(&rig), *boot = nvmfr__qpair_new(1);
	struct nvmfr_completion cpl;
	struct nvme_sqe sqe;
	uint64_t one = 1;
	int fd = nvmfr__qpair_fd(qp);

	cr_assert(boot && fd >= 0);
	rig.s = scripted_new(8, 0, 0);
	rig.buf = rig_buffer(&rig, RIG_ADDR, RIG_BYTES, 3);
	boot->word = &rig.word;
	boot->tick = &rig.tick;
	boot->adopted = 1;
	cr_assert_eq(nvmfr__qpair_attach(boot, &rig.s->ep, 8), 0);
	nvme_sqe_connect(&sqe, 1, 8, 0xff, 0xffffffff);
	cr_assert_eq(nvmfr__qpair_post_raw(boot, &sqe, 1), 0);
	scripted_answer(rig.s, 0x1000, 0, 1);
	cr_assert_eq(nvmfr__qpair_poll(boot, &cpl, 1), 1);
	pthread_mutex_lock(&rig.lock);
	qp->link.boot = boot;
	qp->link.ep = &rig.s->ep;
	qp->link.state = LINK_LIVE;
	nvmfr__link_publish(&qp->link);
	pthread_mutex_unlock(&rig.lock);
	cr_expect(readable(fd), "news");
	cr_expect_eq(nvmfr__qpair_arm(qp), 1);
	for (uint32_t i = 0; i < 40; i++) {
		unsigned char got[FAB_CAPSULE_BYTES];

		cr_assert_eq(nvmfr__qpair_read(qp, 1, 0, 1, &rig.buf, 0, i), 0, "%s",
			     nvmfr__err_get());
		cr_expect_eq(scripted_cid(scripted_last(rig.s, 0)), ((i + 2) & 0xf) << 12);
		memcpy(got, scripted_last(rig.s, 0)->capsule, sizeof(got));
		memset(got + 2, 0, 2);
		cr_expect_arr_eq(got, want, sizeof(want), "read %u", i);
		scripted_answer_all(rig.s);
		scripted_sends_signaled(rig.s);
		cr_assert_eq(nvmfr__qpair_poll(qp, &cpl, 1), 1);
		cr_expect_eq(cpl.user_data, i);
		cr_expect_eq(rig.s->recv_posts, (i + 2) / FAB_RECV_BATCH,
			     "Connect's response counts");
	}
	cr_expect(!readable(fd));
	cr_assert_eq(write(rig.s->fd, &one, sizeof(one)), (ssize_t)sizeof(one));
	cr_expect(readable(fd), "the endpoint is watched, also by a descriptor that is older");
	rig_unbuffer(&rig, &rig.buf);
	nvmfr__qpair_free(qp);
	scripted_free(rig.s);
	pthread_mutex_destroy(&rig.lock);
}

/* ---- news while it is live ------------------------------------------------------------------- */

Test(queue_link, limits_are_adopted)
{
	struct rig rig;

	rig_up(&rig, &(struct rig_opts){ .max_xfer_bytes = 4096 });
	cr_assert_eq(rig_read(&rig, 0, 8, 0), 0);
	cr_expect_eq(rig.s->sent, 1u);
	pthread_mutex_lock(&rig.lock);
	rig.qp->link.limits.max_xfer_bytes = 1024;
	pthread_mutex_unlock(&rig.lock);
	rig_publish(&rig);
	cr_assert_eq(rig_read(&rig, 0, 8, 0), 0);
	cr_expect_eq(rig.s->sent, 5u);
	pthread_mutex_lock(&rig.lock);
	rig.qp->link.limits.icd_bytes = 512;
	pthread_mutex_unlock(&rig.lock);
	rig_publish(&rig);
	cr_assert_eq(rig_write(&rig, 0, 1, 0), 0);
	cr_expect_neq(scripted_last(rig.s, 0)->tail.addr, 0u);
	rig_down(&rig);
}

/* The table is exchanged, the old one goes with its last reference; what is in flight goes on. */
Test(queue_link, namespaces_are_adopted)
{
	struct ns_table *old, *table = rig_namespaces();
	struct nvmfr_completion cpl;
	struct rig rig;

	rig_up(&rig, NULL);
	cr_assert_eq(rig_read(&rig, 50, 1, 1), 0);
	old = nvmfr__ns_table_get(rig.qp->ns);
	table->entries[0].blocks = 20;
	table->entries[4].nsid = 8;
	pthread_mutex_lock(&rig.lock);
	nvmfr__ns_table_put(rig.qp->link.ns);
	rig.qp->link.ns = table;
	pthread_mutex_unlock(&rig.lock);
	cr_expect_eq(rig_read(&rig, 50, 1, 2), 0, "nobody has told");
	rig_publish(&rig);
	cr_expect_eq(rig_read(&rig, 20, 1, 3), -ERANGE);
	cr_expect_eq(rig_read(&rig, 19, 1, 3), 0);
	cr_expect_eq(nvmfr__qpair_read(rig.qp, RIG_NS_SMALL, 0, 1, &rig.buf, 0, 0), -ENOENT);
	cr_expect_eq(nvmfr__qpair_read(rig.qp, 8, 0, 1, &rig.buf, 0, 0), 0);
	cr_expect_eq(atomic_load(&old->refs), 1u, "ours is the last");
	nvmfr__ns_table_put(old);
	scripted_answer(rig.s, 0x1000, 0, 0);
	cr_assert_eq(nvmfr__qpair_poll(rig.qp, &cpl, 1), 1);
	cr_expect_eq(cpl.user_data, 1u);
	rig_down(&rig);
}

/* 0 is a forked child's: the count of news goes around it. */
Test(queue_link, the_word_is_never_0)
{
	struct nvmfr_completion cpl;
	struct rig rig;

	rig_up(&rig, NULL);
	atomic_store(&rig.word, UINT32_MAX - 3);
	for (uint32_t i = 0; i < 8; i++) {
		rig_publish(&rig);
		cr_assert_neq(atomic_load(&rig.word), 0u);
		cr_assert_eq(rig_read(&rig, 0, 1, i), 0, "after %u", i);
		scripted_answer_all(rig.s);
		cr_assert_eq(nvmfr__qpair_poll(rig.qp, &cpl, 1), 1);
	}
	rig_down(&rig);
}

/* ---- fork ------------------------------------------------------------------------------------ */

/* The lock may be held for ever in a child, and the rings are the parent's: neither is touched. */
Test(queue_link, a_forked_child_is_told_so, .timeout = SECONDS)
{
	struct nvmfr_io io = { .op = NVMFR_OP_FLUSH, .nsid = 1 };
	struct nvmfr_completion cpl;
	uint32_t sent, polls;
	struct rig rig;

	rig_up(&rig, NULL);
	cr_assert_eq(rig_read(&rig, 0, 1, 0), 0);
	scripted_answer_all(rig.s);
	sent = rig.s->sent;
	polls = rig.s->polls;
	pthread_mutex_lock(&rig.lock);
	atomic_store(&rig.word, 0);
	cr_expect_eq(rig_read(&rig, 0, 1, 0), -EOWNERDEAD);
	cr_expect_not_null(strstr(nvmfr__err_get(), "fork"), "%s", nvmfr__err_get());
	cr_expect_eq(rig_write(&rig, 0, 1, 0), -EOWNERDEAD);
	cr_expect_eq(nvmfr__qpair_submit(rig.qp, &io, 1), -EOWNERDEAD);
	cr_expect_eq(nvmfr__qpair_poll(rig.qp, &cpl, 1), -EOWNERDEAD);
	cr_expect_eq(nvmfr__qpair_fd(rig.qp), -EOWNERDEAD);
	cr_expect_eq(nvmfr__qpair_arm(rig.qp), -EOWNERDEAD);
	cr_expect(rig.s->sent == sent && rig.s->polls == polls && rig.s->arms == 0 &&
		  rig.s->doorbells == sent);
	pthread_mutex_unlock(&rig.lock);
	rig_down(&rig);
}

Test(queue_link, forked_after_it_broke, .timeout = SECONDS)
{
	struct nvmfr_completion cpl;
	struct rig rig;

	rig_up(&rig, NULL);
	cr_assert_eq(rig_read(&rig, 0, 1, 0), 0);
	rig_lose(&rig, -ECONNABORTED, "gone");
	pthread_mutex_lock(&rig.lock);
	atomic_store(&rig.word, 0);
	cr_expect_eq(nvmfr__qpair_poll(rig.qp, &cpl, 1), -EOWNERDEAD);
	cr_expect_eq(rig_read(&rig, 0, 1, 0), -EOWNERDEAD);
	cr_expect_eq(rig.s->stops, 0u);
	pthread_mutex_unlock(&rig.lock);
	rig_down(&rig);
}

/* ---- sleeping -------------------------------------------------------------------------------- */

Test(queue_sleep, arm_looks_once_more)
{
	struct nvmfr_completion cpl;
	struct rig rig;

	rig_up(&rig, NULL);
	cr_assert_eq(rig_read(&rig, 0, 1, 0), 0);
	cr_expect_eq(nvmfr__qpair_arm(rig.qp), 0);
	scripted_answer_all(rig.s);
	cr_expect_eq(nvmfr__qpair_arm(rig.qp), 1, "it came before the arming");
	cr_expect_eq(nvmfr__qpair_arm(rig.qp), 1, "and is still there");
	cr_assert_eq(nvmfr__qpair_poll(rig.qp, &cpl, 1), 1);
	cr_expect_eq(nvmfr__qpair_arm(rig.qp), 0);
	rig.s->arm_result = 1;
	cr_expect_eq(nvmfr__qpair_arm(rig.qp), 1);
	rig.s->arm_result = -EIO;
	cr_expect_eq(nvmfr__qpair_arm(rig.qp), -EIO);
	rig.s->arm_result = 0;
	rig.s->idle_more = 1;
	cr_expect_eq(nvmfr__qpair_arm(rig.qp), 1, "the CQ was not seen empty");
	rig.s->bad = true;
	cr_expect_eq(nvmfr__qpair_arm(rig.qp), 1, "a failed connection is news");
	cr_expect_eq(nvmfr__qpair_poll(rig.qp, &cpl, 1), 0);
	cr_expect_eq(rig.qp->link.fault, -ECONNABORTED);
	rig_down(&rig);
}

Test(queue_sleep, one_descriptor_for_completions_and_news)
{
	uint64_t one = 1, count;
	struct rig rig;
	int fd;

	rig_up(&rig, NULL);
	fd = nvmfr__qpair_fd(rig.qp);
	cr_assert_geq(fd, 0, "%s", nvmfr__err_get());
	cr_expect_eq(nvmfr__qpair_fd(rig.qp), fd);
	cr_expect(!readable(fd));
	cr_assert_eq(write(rig.s->fd, &one, sizeof(one)), (ssize_t)sizeof(one));
	cr_expect(readable(fd), "the endpoint's");
	cr_assert_eq(read(rig.s->fd, &count, sizeof(count)), (ssize_t)sizeof(count));
	cr_expect(!readable(fd));
	rig_publish(&rig);
	cr_expect(readable(fd), "the service's");
	cr_expect_eq(nvmfr__qpair_arm(rig.qp), 1, "news");
	cr_expect(!readable(fd), "arm took them from the descriptor");
	cr_assert_eq(rig_read(&rig, 0, 1, 0), 0);
	cr_expect_eq(nvmfr__qpair_arm(rig.qp), 0);
	rig_lose(&rig, -ECONNABORTED, "gone");
	cr_expect(readable(fd));
	cr_expect_eq(nvmfr__qpair_arm(rig.qp), 1);
	rig_down(&rig);
}

/* The service wakes a sleeper whose oldest command is over its time. */
Test(queue_sleep, the_service_knows_the_deadline)
{
	struct nvmfr_completion cpl;
	struct rig rig;

	rig_up(&rig, &(struct rig_opts){ .timeout_ticks = 10 });
	cr_expect_eq(nvmfr__qpair_arm(rig.qp), 0);
	cr_expect_eq(atomic_load(&rig.qp->link.wake_tick), 0u, "idle");
	atomic_store(&rig.tick, 100);
	cr_assert_eq(rig_read(&rig, 0, 1, 0), 0);
	atomic_store(&rig.tick, 105);
	cr_assert_eq(rig_read(&rig, 0, 1, 1), 0);
	cr_expect_eq(nvmfr__qpair_arm(rig.qp), 0);
	cr_expect_eq(atomic_load(&rig.qp->link.wake_tick), 111u);
	atomic_store(&rig.tick, 111);
	cr_expect_eq(nvmfr__qpair_poll(rig.qp, &cpl, 1), 0);
	cr_expect_eq(rig.qp->link.aborts, 1u, "that is when a poll finds it");
	rig_down(&rig);
}

/* ---- two threads ----------------------------------------------------------------------------- */

enum { NEWS = 300, AT_LEAST = 3000 };

static void answer_all(struct scripted *s)
{
	scripted_answer_all(s);
	scripted_sends_signaled(s);
}

/*
 * Limits and namespaces change, a releaser of buffers looks, time goes on: at last the connection
 * is lost.
 */
static void *service(void *arg)
{
	struct rig *rig = arg;
	struct qpair_link *link = &rig->qp->link;
	struct nvmfr_buffer other = { .len = 1 };

	for (uint32_t i = 0; i < NEWS; i++) {
		struct ns_table *table = rig_namespaces();

		pthread_mutex_lock(&rig->lock);
		nvmfr__ns_table_put(link->ns);
		link->ns = table;
		link->limits.max_xfer_bytes = UINT64_C(1024) << i % 4;
		link->limits.icd_bytes = i % 3 * 512;
		nvmfr__link_publish(link);
		cr_expect(!nvmfr__qpair_names(rig->qp, &other));
		pthread_mutex_unlock(&rig->lock);
		atomic_fetch_add(&rig->tick, 1);
	}
	rig_lose(rig, -ECONNABORTED, "the service ends it");
	return NULL;
}

static uint32_t submit_some(struct rig *rig, uint32_t i)
{
	struct nvmfr_io io = {
		.op = i % 2 ? NVMFR_OP_READ : NVMFR_OP_WRITE,
		.nsid = RIG_NS,
		.nblocks = 1 + i % 5,
		.buf = &rig->buf,
		.user_data = i,
	};
	int n = i % 3 ? nvmfr__qpair_submit(rig->qp, &io, 1) : rig_write(rig, 0, 1, i) == 0;

	return n == 1;
}

/* Runs until the service ends it: as many completions as were accepted, whatever came between. */
Test(queue_link, owner_and_service, .timeout = SECONDS)
{
	struct nvmfr_completion cpls[16];
	uint32_t accepted = 0, completed = 0, i = 0;
	pthread_t thread;
	struct rig rig;
	int got = 0;

	rig_up(&rig,
	       &(struct rig_opts){ .depth = 16, .max_descriptors = 2, .timeout_ticks = 1000000 });
	cr_assert_geq(nvmfr__qpair_fd(rig.qp), 0);
	rig.s->before_poll = answer_all;
	for (; i < AT_LEAST; i++) {
		accepted += submit_some(&rig, i);
		got = nvmfr__qpair_poll(rig.qp, cpls, 16);
		completed += got > 0 ? (uint32_t)got : 0;
	}
	cr_assert_eq(pthread_create(&thread, NULL, service, &rig), 0);
	for (; got >= 0; i++) {
		accepted += submit_some(&rig, i);
		if (i % 64 == 0)
			nvmfr__qpair_arm(rig.qp);
		got = nvmfr__qpair_poll(rig.qp, cpls, 1 + i % 16);
		completed += got > 0 ? (uint32_t)got : 0;
	}
	pthread_join(thread, NULL);
	cr_expect_eq(got, -ENOTCONN);
	cr_expect_eq(accepted, completed, "%u accepted, %u completed", accepted, completed);
	cr_expect(accepted >= AT_LEAST / 2);
	rig_down(&rig);
}

enum { PIECES = 64 };

static void *releaser(void *arg)
{
	struct rig *rig = arg;
	struct nvmfr_buffer other = { .len = 1 };

	while (atomic_load(&rig->tick) == 1) {
		pthread_mutex_lock(&rig->lock);
		cr_expect(!nvmfr__qpair_names(rig->qp, &other));
		pthread_mutex_unlock(&rig->lock);
	}
	return NULL;
}

/*
 * The iov array is the caller's again at the completion: who looks for a buffer must not read it
 * any more.
 */
Test(queue_link, a_releaser_and_pieces_that_come_and_go, .timeout = SECONDS)
{
	struct nvmfr_completion cpl;
	pthread_t thread;
	struct rig rig;

	rig_up(&rig, &(struct rig_opts){ .max_descriptors = 16 });
	rig.s->before_poll = answer_all;
	cr_assert_eq(pthread_create(&thread, NULL, releaser, &rig), 0);
	for (uint32_t i = 0; i < 20000; i++) {
		uint64_t niov = 1 + i % PIECES;
		struct nvmfr_iov *iov = calloc(niov, sizeof(*iov));
		struct nvmfr_io io = { .op = NVMFR_OP_READ,
				       .flags = NVMFR_IO_VEC,
				       .nsid = RIG_NS,
				       .nblocks = niov,
				       .iov = iov,
				       .niov = niov };

		cr_assert_not_null(iov);
		for (uint64_t k = 0; k < niov; k++)
			iov[k] = (struct nvmfr_iov){ .buf = &rig.buf, .len_bytes = 512 };
		cr_assert_eq(nvmfr__qpair_submit(rig.qp, &io, 1), 1);
		while (nvmfr__qpair_poll(rig.qp, &cpl, 1) == 0)
			;
		memset(iov, 0xff, niov * sizeof(*iov));
		free(iov);
	}
	atomic_store(&rig.tick, 2);
	pthread_join(thread, NULL);
	rig_down(&rig);
}
