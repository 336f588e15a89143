/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Endpoints that share CQs, at the fabric boundary over the stand-in: whose a WC is, what becomes of those
 * of endpoints that connect still or are no more, and failures. One thread is both owner and service.
 */
#include "testing.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/err.h"
#include "fabric/verbs.h"
#include "wire/fabrics.h"
#include "wire/sqe.h"

enum { DEPTH = 31,
       EVENT_MS = 5000 };

static const uint8_t hostid[16] = { 1, 2, 3 };

struct rig {
	struct nvmfr__clock clock;
	struct fab_host fh;
	struct fab *fab;
	pthread_mutex_t lock;
	int service_fd, epoll_fd;
	struct fab_group *group;
	struct nvme_connect_data data;
	struct fab_mr mr;
};

static void rig_up(struct rig *rig, uint32_t max_endpoints)
{
	struct fab_group_params params = { .max_endpoints = max_endpoints };

	cr_assert_not_null(dlsym(RTLD_DEFAULT, "nullnic_errors"),
			   "not on the stand-in: set LD_LIBRARY_PATH");
	*rig = (struct rig){ .service_fd = eventfd(0, EFD_NONBLOCK), .epoll_fd = epoll_create1(0) };
	pthread_mutex_init(&rig->lock, NULL);
	nvmfr__clock_init(&rig->clock);
	rig->fh.clock = &rig->clock;
	cr_assert_eq(nvmfr__fab_verbs.open(&rig->fh, &rig->fab), 0);
	params.lock = &rig->lock;
	params.service_fd = rig->service_fd;
	params.epoll_fd = rig->epoll_fd;
	cr_assert_eq(nvmfr__fab_verbs.group_create(rig->fab, &params, &rig->group), 0);
}

static void rig_down(struct rig *rig)
{
	if (rig->mr.handle)
		nvmfr__fab_verbs.mr_dereg(rig->fh.devs[0], &rig->mr);
	nvmfr__fab_verbs.group_destroy(rig->group);
	nvmfr__fab_verbs.close(rig->fab);
	pthread_mutex_destroy(&rig->lock);
	close(rig->service_fd);
	close(rig->epoll_fd);
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

/* An admin queue, as every connection may be one. */
static struct fab_ep *try_connect(struct rig *rig, struct fab_event *ev)
{
	struct fab_ep_params params = {
		.group = rig->group,
		.depth = DEPTH,
		.max_descriptors = 1,
		.want_fd = true,
		.retry_count = 7,
		.rnr_retry_count = 7,
		.cm_timeout_ms = 2000,
	};
	struct nvme_cm_request req = nvme_cm_request(0, DEPTH, NVME_CNTLID_DYNAMIC);
	struct sockaddr_in *dst = (struct sockaddr_in *)&params.dst;
	struct fab_ep *ep;

	dst->sin_family = AF_INET;
	dst->sin_port = htons(4420);
	dst->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	cr_assert_eq(nvmfr__fab_verbs.ep_create(rig->fab, &params, &ep), 0);
	cr_assert_eq(nvmfr__fab_verbs.ep_connect(ep, &req, sizeof(req)), 0);
	*ev = next_event(rig);
	return ep;
}

static struct fab_ep *connected(struct rig *rig)
{
	struct fab_event ev;
	struct fab_ep *ep = try_connect(rig, &ev);

	cr_assert_eq(ev.type, FAB_EV_CONNECTED, "%s", ev.text);
	return ep;
}

/* Fabrics Connect, of which the answer is waited for elsewhere. */
static void send_connect(struct rig *rig, struct fab_ep *ep)
{
	struct nvme_sqe sqe;

	if (!rig->mr.handle) {
		cr_assert_eq(nvme_connect_data_init(&rig->data, hostid, NVME_CNTLID_DYNAMIC,
						    "nqn.2026-01.test:sub", "nqn.2026-01.test:host"),
			     0);
		cr_assert_eq(nvmfr__fab_verbs.mr_reg(ep->dev, &rig->data, sizeof(rig->data),
						     FAB_ACCESS_SOURCE, &rig->mr),
			     0);
	}
	nvme_sqe_connect(&sqe, 0, DEPTH, 0, 0);
	sqe.dptr = nvme_sgl_keyed((uintptr_t)&rig->data, sizeof(rig->data), rig->mr.rkey);
	memcpy(ep->capsules, &sqe, sizeof(sqe));
	cr_assert_eq(ep->ops->post_send(ep, 0, 1), 0);
}

static bool service_rung(const struct rig *rig)
{
	uint64_t count;

	return read(rig->service_fd, &count, sizeof(count)) > 0;
}

static void adopt(struct fab_ep *ep)
{
	cr_assert_eq(ep->ops->group_adopt(ep, ep), 0);
}

static void end(struct fab_ep *ep)
{
	ep->ops->ep_stop(ep);
	nvmfr__fab_verbs.ep_destroy(ep);
}

Test(verbs_group, the_answer_to_a_connect_is_the_services, .timeout = 60)
{
	struct rig rig;
	struct fab_ep *a, *b;

	rig_up(&rig, 4);
	a = connected(&rig);
	b = connected(&rig);
	cr_expect(nvmfr__to_verbs_ep(a)->cq == nvmfr__to_verbs_ep(b)->cq);
	send_connect(&rig, a);
	send_connect(&rig, b);
	cr_expect_eq(a->ops->poll(a), 0, "the service never looks at the CQ");
	cr_expect_eq(a->ops->arm(a), 0);
	adopt(b);
	cr_expect_null(rig.group->ops->group_pump(rig.group));
	cr_expect(service_rung(&rig));
	cr_expect(rig.group->ready == b, "its owner has it");
	cr_expect_eq(a->ops->arm(a), 1);
	cr_expect_eq(a->ops->poll(a), 1);
	cr_expect_eq(a->ops->poll(a), 0);
	cr_expect_eq(b->ops->poll(b), 1);
	end(a);
	end(b);
	cr_expect_null(rig.group->ready);
	rig_down(&rig);
}

Test(verbs_group, mail_that_came_between_is_the_owners, .timeout = 60)
{
	struct rig rig;
	struct fab_ep *a;

	rig_up(&rig, 1);
	a = connected(&rig);
	send_connect(&rig, a);
	cr_expect_null(rig.group->ops->group_pump(rig.group));
	adopt(a);
	cr_expect(rig.group->ready == a);
	cr_expect_eq(a->ops->poll(a), 1);
	end(a);
	rig_down(&rig);
}

Test(verbs_group, one_fails_the_other_goes_on, .timeout = 60)
{
	struct rig rig;
	struct fab_ep *a, *b;

	rig_up(&rig, 4);
	a = connected(&rig);
	b = connected(&rig);
	adopt(a);
	adopt(b);
	nvmfr__fab_verbs.ep_disconnect(a);
	send_connect(&rig, b);
	while (!rig.group->ops->group_pump(rig.group) && rig.group->more)
		;
	cr_expect(a->ready);
	cr_expect(a->ops->poll(a) & FAB_POLL_BAD);
	cr_expect_not_null(strstr(a->error, "connection closed"), "%s", a->error);
	cr_expect(a->ops->poll(a) & FAB_POLL_BAD, "and stays bad");
	cr_expect_eq(b->ops->poll(b), 1);
	end(a);
	end(b);
	rig_down(&rig);
}

/* What is left of one that went names nobody: not the one that has its place either. */
Test(verbs_group, a_place_is_used_again_under_another_name, .timeout = 60)
{
	struct rig rig;
	struct fab_ep *a, *b;
	uint32_t tag;

	rig_up(&rig, 1);
	a = connected(&rig);
	adopt(a);
	tag = nvmfr__to_verbs_ep(a)->tag;
	nvmfr__fab_verbs.ep_disconnect(a);
	end(a);
	b = connected(&rig);
	adopt(b);
	cr_expect_neq(nvmfr__to_verbs_ep(b)->tag, tag);
	cr_expect_eq(nvmfr__to_verbs_ep(b)->tag & 0xffffu, tag & 0xffffu);
	nvmfr__to_verbs_ep(b)->sends[0].wr_id = (uint64_t)tag << 32;
	nvmfr__to_verbs_ep(b)->sends[0].send_flags = IBV_SEND_SIGNALED;
	send_connect(&rig, b);
	(void)rig.group->ops->group_pump(rig.group);
	cr_expect_eq(b->ops->poll(b), 1, "the response, and no SEND");
	end(b);
	rig_down(&rig);
}

static int poll_nothing(struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
	(void)cq;
	(void)n;
	(void)wc;
	return -EIO;
}

Test(verbs_group, a_cq_that_cannot_be_polled_fails_all, .timeout = 60)
{
	int (*poll_cq)(struct ibv_cq *, int, struct ibv_wc *);
	struct ibv_context *ctx;
	struct rig rig;
	struct fab_ep *a, *b;

	rig_up(&rig, 4);
	a = connected(&rig);
	b = connected(&rig);
	adopt(a);
	ctx = nvmfr__to_verbs_ep(a)->cq->context;
	poll_cq = ctx->ops.poll_cq;
	ctx->ops.poll_cq = poll_nothing;
	cr_expect_null(rig.group->ops->group_pump(rig.group));
	cr_expect(service_rung(&rig));
	cr_expect_null(rig.group->ops->group_pump(rig.group));
	cr_expect(!service_rung(&rig), "it knows");
	ctx->ops.poll_cq = poll_cq;
	cr_expect(rig.group->ready == a);
	cr_expect(a->ops->poll(a) & FAB_POLL_BAD);
	cr_expect_not_null(strstr(a->error, "cannot be polled"), "%s", a->error);
	cr_expect(b->ops->poll(b) & FAB_POLL_BAD);
	end(a);
	end(b);
	rig_down(&rig);
}

/* A device of small CQs gets several, and each that has room is used. */
Test(verbs_group, as_many_cqs_as_it_takes, .timeout = 60)
{
	struct ibv_device_attr *attr;
	struct fab_ep *eps[8], *late;
	struct ibv_cq *first;
	struct rig rig;
	uint32_t entries;

	rig_up(&rig, 64);
	eps[0] = connected(&rig);
	attr = &nvmfr__to_verbs_dev(eps[0]->dev)->attr;
	first = nvmfr__to_verbs_ep(eps[0])->cq;
	entries = eps[0]->send_positions + eps[0]->recv_positions;
	cr_expect_geq(first->cqe, 64 * (int)entries);
	end(eps[0]);
	nvmfr__fab_verbs.group_destroy(rig.group);
	cr_assert_eq(nvmfr__fab_verbs.group_create(
			     rig.fab,
			     &(struct fab_group_params){ .lock = &rig.lock,
							 .service_fd = rig.service_fd,
							 .epoll_fd = rig.epoll_fd,
							 .max_endpoints = 64 },
			     &rig.group),
		     0);
	attr->max_cqe = 2 * (int)entries + 10;
	for (unsigned int i = 0; i < 8; i++) {
		eps[i] = connected(&rig);
		adopt(eps[i]);
		cr_expect(i % 2 == 0 || nvmfr__to_verbs_ep(eps[i])->cq ==
						nvmfr__to_verbs_ep(eps[i - 1])->cq);
		cr_expect(i % 2 || !i ||
			  nvmfr__to_verbs_ep(eps[i])->cq != nvmfr__to_verbs_ep(eps[i - 1])->cq);
	}
	for (unsigned int i = 0; i < 8; i++)
		send_connect(&rig, eps[i]);
	cr_expect_null(rig.group->ops->group_pump(rig.group));
	for (unsigned int i = 0; i < 8; i++)
		cr_expect_eq(eps[i]->ops->poll(eps[i]), 1);
	first = nvmfr__to_verbs_ep(eps[2])->cq;
	end(eps[2]);
	late = connected(&rig);
	cr_expect(nvmfr__to_verbs_ep(late)->cq == first, "where the one that went was");
	end(late);
	for (unsigned int i = 0; i < 8; i++)
		if (i != 2)
			end(eps[i]);
	rig_down(&rig);
}
