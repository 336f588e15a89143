/* SPDX-License-Identifier: BSD-3-Clause */
/* What the service does with a backend that fails to give events, and with what an owner tells. */
#include "ctrl_rig.h"

#include <errno.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* Its descriptor is readable, as that of a broken channel may be for ever. */
struct broken {
	struct fab_ops ops;
	int fd, answer;
	unsigned int asked;
};
static struct broken broken;

static int broken_fd(const struct fab *fab)
{
	(void)fab;
	return broken.fd;
}

static int broken_next_event(struct fab *fab, struct fab_event *ev)
{
	(void)fab;
	(void)ev;
	broken.asked++;
	return broken.answer < 0 ? nvmfr__fail(broken.answer, "the channel gives no events") : 0;
}

static uint64_t broken_due_ns(const struct fab *fab)
{
	(void)fab;
	return UINT64_MAX;
}

static uint64_t pass(struct ctrl_rig *r)
{
	struct fab *fab = (struct fab *)(void *)&broken;

	return nvmfr__service_events(&r->host, &broken.ops, fab, &r->host.verbs_deaf);
}

static bool service_rings(const struct ctrl_rig *r)
{
	struct pollfd fd = { .fd = r->host.epoll_fd, .events = POLLIN };

	return poll(&fd, 1, 0) == 1;
}

static void up(struct ctrl_rig *r)
{
	ctrl_rig_up(r);
	broken = (struct broken){
		.fd = eventfd(1, EFD_CLOEXEC),
		.ops = { .name = "broken",
			 .fd = broken_fd,
			 .next_event = broken_next_event,
			 .due_ns = broken_due_ns },
	};
	cr_assert_eq(nvmfr__host_watch(&r->host, broken.fd), 0);
}

static void down(struct ctrl_rig *r)
{
	close(broken.fd);
	ctrl_rig_down(r);
}

Test(ctrl_service, a_dead_channel_is_told_once_and_does_not_keep_the_service_busy)
{
	struct ctrl_rig r;

	up(&r);
	cr_assert(service_rings(&r));
	broken.answer = -EIO;
	cr_expect_eq(pass(&r), ctrl_rig_now(&r) + MS_NS(HOST_DEAF_MS));
	cr_expect_eq(broken.asked, 1u);
	cr_expect(!service_rings(&r));
	cr_expect_eq(r.lines, 1u);
	cr_expect_not_null(strstr(r.log, "the channel gives no events"), "%s", r.log);
	cr_expect_not_null(strstr(r.log, "make a new host"), "%s", r.log);
	ctrl_rig_wait_ms(&r, HOST_DEAF_MS);
	cr_expect_eq(pass(&r), ctrl_rig_now(&r) + MS_NS(HOST_DEAF_MS), "asked again, and later again");
	cr_expect_eq(broken.asked, 2u);
	cr_expect_eq(r.lines, 1u, "said once: %s", r.log);
	down(&r);
}

Test(ctrl_service, a_channel_that_recovers_is_watched_again)
{
	struct ctrl_rig r;

	up(&r);
	broken.answer = -ENOMEM;
	(void)pass(&r);
	broken.answer = 0;
	cr_expect_eq(pass(&r), UINT64_MAX);
	cr_expect(service_rings(&r));
	cr_expect_eq(r.lines, 2u);
	cr_expect(!r.host.verbs_deaf);
	broken.answer = -EIO;
	(void)pass(&r);
	cr_expect_eq(r.lines, 3u, "a new failure is news");
	down(&r);
}

/* ---- what an owner tells ----------------------------------------------------------------------- */

Test(ctrl_service, an_owner_on_another_node_is_logged_once)
{
	struct nvmfr_qpair *qp = nvmfr__qpair_new(3);
	_Atomic uint32_t word = 1;
	struct ctrl_rig r;
	struct entry entry;

	ctrl_rig_up(&r);
	r.s->dev.numa_node = 1;
	qp->link.ep = &r.s->ep;
	qp->link.word = &word;
	entry = (struct entry){ .ctrl = r.ctrl, .qp = qp, .phase = ENTRY_LIVE, .qid = 3 };
	r.ctrl->entries = &entry;
	nvmfr__ioqueue_pass(r.ctrl);
	cr_expect_eq(r.lines, 0u);
	atomic_store(&qp->link.far_node, 0);
	nvmfr__ioqueue_pass(r.ctrl);
	cr_expect_eq(r.lines, 1u);
	cr_expect_not_null(strstr(r.log, "queue 3 is polled from NUMA node 0, device scripted0 is on node 1"),
			   "%s", r.log);
	cr_expect_not_null(strstr(r.log, "numactl --cpunodebind=1"), "%s", r.log);
	nvmfr__ioqueue_pass(r.ctrl);
	cr_expect_eq(r.lines, 1u);
	r.ctrl->entries = NULL;
	nvmfr__qpair_free(qp);
	ctrl_rig_down(&r);
}
