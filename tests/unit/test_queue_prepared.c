/* SPDX-License-Identifier: BSD-3-Clause */
/* Prepared I/Os: the same capsules as nvmfr_submit() writes, again and again, and never stale ones. */
#include "scripted.h"
#include "testing.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "queue/prepared.h"

enum { N = 6,
       PLAIN = 3 };

/* Three that one descriptor carries; what does not: a flush, a longer one, one of two pieces. */
static void fill_list(struct rig *rig, struct nvmfr_io ios[N], struct nvmfr_iov iov[2])
{
	iov[0] = (struct nvmfr_iov){ &rig->buf, 1, 500 };
	iov[1] = (struct nvmfr_iov){ &rig->buf, 4096, 524 };
	ios[0] = (struct nvmfr_io){ .op = NVMFR_OP_READ, .nsid = RIG_NS, .lba = 7, .nblocks = 3 };
	ios[1] = (struct nvmfr_io){ .op = NVMFR_OP_WRITE, .nsid = RIG_NS_4K, .nblocks = 1, .flags = NVMFR_IO_FUA };
	ios[2] = (struct nvmfr_io){ .op = NVMFR_OP_READ, .nsid = RIG_NS_READ_ONLY, .nblocks = 1, .offset_bytes = 5 };
	ios[3] = (struct nvmfr_io){ .op = NVMFR_OP_FLUSH, .nsid = RIG_NS };
	ios[4] = (struct nvmfr_io){ .op = NVMFR_OP_READ, .nsid = RIG_NS, .nblocks = 300 };
	ios[5] = (struct nvmfr_io){ .op = NVMFR_OP_READ, .flags = NVMFR_IO_VEC, .nsid = RIG_NS, .nblocks = 2 };
	for (unsigned int i = 0; i < N; i++) {
		ios[i].user_data = 100 + i;
		if (ios[i].op != NVMFR_OP_FLUSH)
			ios[i].buf = &rig->buf;
	}
	ios[5].iov = iov;
	ios[5].niov = 2;
}

/* Answers all that is out, and counts user_data of what completed. */
static unsigned int finish(struct rig *rig, unsigned int seen[N])
{
	struct nvmfr_completion cpls[16];
	unsigned int n = 0;
	int got;

	do {
		scripted_answer_all(rig->s);
		scripted_sends_signaled(rig->s);
		got = nvmfr__qpair_poll(rig->qp, cpls, 16);
		cr_assert_geq(got, 0);
		for (int i = 0; i < got; i++, n++) {
			cr_expect(cpls[i].result == 0 && cpls[i].qpair_data == RIG_TAG);
			cr_assert(cpls[i].user_data >= 100 && cpls[i].user_data < 100 + N);
			seen[cpls[i].user_data - 100]++;
		}
	} while (got || rig->s->outstanding);
	return n;
}

/* Whatever was sent, but for the CID. */
static void expect_same(const struct scripted_cmd *a, const struct scripted_cmd *b, const char *what)
{
	cr_expect(memcmp(a->capsule, b->capsule, 2) == 0 &&
			  memcmp(a->capsule + 4, b->capsule + 4, FAB_CAPSULE_BYTES - 4) == 0,
		  "%s", what);
	cr_expect(a->tail.bytes == b->tail.bytes && memcmp(a->list, b->list, sizeof(a->list)) == 0, "%s", what);
}

Test(queue_prepared, as_submitted)
{
	unsigned int seen[N] = { 0 };
	struct nvmfr_prepared *list;
	struct nvmfr_iov iov[2];
	struct nvmfr_io ios[N];
	uint32_t sent, doorbells;
	struct rig rig;

	rig_up(&rig, &(struct rig_opts){ .depth = 16, .max_descriptors = 2 });
	fill_list(&rig, ios, iov);
	cr_assert_eq(nvmfr__prepare(rig.qp, ios, N, &list), 0, "%s", nvmfr__err_get());
	cr_expect(list->cmds[0].built && list->cmds[1].built && list->cmds[2].built && !list->cmds[3].built);
	cr_assert_eq(nvmfr__qpair_submit(rig.qp, ios, N), N, "%s", nvmfr__err_get());
	sent = rig.s->sent;
	cr_assert_eq(finish(&rig, seen), (unsigned int)N);
	for (unsigned int round = 1; round < 50; round++) {
		uint32_t before = rig.s->sent;
		char what[32];

		cr_assert_eq(nvmfr__prepared_post(list, 0, N), N, "%s", nvmfr__err_get());
		for (uint32_t i = 0; i < sent; i++) {
			snprintf(what, sizeof(what), "round %u, command %u", round, i);
			if (round < 2)
				expect_same(scripted_cmd(rig.s, i), scripted_cmd(rig.s, before + i), what);
		}
		cr_assert_eq(finish(&rig, seen), (unsigned int)N);
	}
	for (unsigned int i = 0; i < N; i++)
		cr_expect_eq(seen[i], 50u, "I/O %u", i);
	doorbells = rig.s->doorbells;
	cr_assert_eq(nvmfr__prepared_post(list, 0, PLAIN), PLAIN);
	cr_expect(rig.s->doorbells - doorbells <= 2, "one doorbell, two at the ring's end");
	finish(&rig, seen);
	nvmfr__prepared_free(list);
	rig_down(&rig);
}

Test(queue_prepared, as_many_as_fit)
{
	unsigned int seen[N] = { 0 };
	struct nvmfr_prepared *list;
	struct nvmfr_iov iov[2];
	struct nvmfr_io ios[N];
	struct rig rig;

	rig_up(&rig, &(struct rig_opts){ .depth = 4, .max_descriptors = 2 });
	fill_list(&rig, ios, iov);
	cr_assert_eq(nvmfr__prepare(rig.qp, ios, PLAIN, &list), 0);
	cr_expect_eq(nvmfr__prepared_post(list, 0, PLAIN), PLAIN);
	cr_expect_eq(nvmfr__prepared_post(list, 0, PLAIN), 1);
	cr_expect_eq(nvmfr__prepared_post(list, 1, 2), -EAGAIN);
	cr_assert_eq(finish(&rig, seen), 4u);
	cr_expect(seen[0] == 2 && seen[1] == 1 && seen[2] == 1);
	cr_expect_eq(nvmfr__prepared_post(list, 2, 1), 1);
	finish(&rig, seen);
	cr_expect_eq(seen[2], 2u);
	nvmfr__prepared_free(list);
	rig_down(&rig);
}

/* In-capsule data needs more than a capsule: such a write goes the long way, and is held as it should. */
Test(queue_prepared, a_write_that_carries_its_data)
{
	struct nvmfr_io io = { .op = NVMFR_OP_WRITE, .nsid = RIG_NS, .nblocks = 1, .user_data = 100 };
	struct nvmfr_prepared *list;
	struct rig rig;

	rig_up(&rig, &(struct rig_opts){ .icd_bytes = 4096 });
	io.buf = &rig.buf;
	cr_assert_eq(nvmfr__prepare(rig.qp, &io, 1, &list), 0);
	cr_assert_eq(nvmfr__prepared_post(list, 0, 1), 1);
	cr_expect(scripted_last(rig.s, 0)->is_data);
	nvmfr__prepared_free(list);
	rig_down(&rig);
}

/* The service's news: a namespace lost blocks. What was built before must not go out. */
Test(queue_prepared, news_build_anew)
{
	struct nvmfr_io ios[2] = { { .op = NVMFR_OP_READ, .nsid = RIG_NS, .nblocks = 1, .user_data = 100 },
				   { .op = NVMFR_OP_READ, .nsid = RIG_NS, .lba = 90, .nblocks = 8 } };
	struct nvmfr_prepared *list;
	struct ns_table *table;
	uint32_t sent;
	struct rig rig;

	rig_up(&rig, NULL);
	ios[0].buf = ios[1].buf = &rig.buf;
	cr_assert_eq(nvmfr__prepare(rig.qp, ios, 2, &list), 0);
	cr_assert_eq(nvmfr__prepared_post(list, 1, 1), 1);
	scripted_answer_all(rig.s);
	table = rig_namespaces();
	for (uint32_t i = 0; i < table->count; i++)
		if (table->entries[i].nsid == RIG_NS)
			table->entries[i].blocks = 95;
	pthread_mutex_lock(&rig.lock);
	nvmfr__ns_table_put(rig.qp->link.ns);
	rig.qp->link.ns = table;
	pthread_mutex_unlock(&rig.lock);
	rig_publish(&rig);
	sent = rig.s->sent;
	cr_expect_eq(nvmfr__prepared_post(list, 0, 2), -ERANGE);
	cr_expect(strstr(nvmfr__err_get(), "I/O 1 of the list") != NULL, "%s", nvmfr__err_get());
	cr_expect_eq(rig.s->sent, sent, "nothing went out");
	nvmfr__prepared_free(list);
	cr_assert_eq(nvmfr__prepare(rig.qp, ios, 1, &list), 0);
	rig_publish(&rig);
	cr_expect_eq(nvmfr__prepared_post(list, 0, 1), 1, "news that change nothing");
	nvmfr__prepared_free(list);
	rig_down(&rig);
}

Test(queue_prepared, holds_its_buffers)
{
	struct nvmfr_prepared *list;
	struct nvmfr_iov iov[2];
	struct nvmfr_io ios[N];
	struct rig rig;

	rig_up(&rig, &(struct rig_opts){ .depth = 16, .max_descriptors = 2 });
	fill_list(&rig, ios, iov);
	cr_assert_eq(nvmfr__prepare(rig.qp, ios, N, &list), 0);
	cr_expect_eq(rig.buf.in_use, N - 1 + 1u, "a flush has none, the vectored one two pieces");
	nvmfr__prepared_free(list);
	cr_expect_eq(rig.buf.in_use, 0u);
	ios[4].nblocks = UINT64_C(1) << 50;
	cr_expect_eq(nvmfr__prepare(rig.qp, ios, N, &list), -ERANGE);
	cr_expect_eq(rig.buf.in_use, 0u, "a list that is none holds nothing");
	iov[1].buf = NULL;
	ios[4].nblocks = 1;
	cr_expect_eq(nvmfr__prepare(rig.qp, ios, N, &list), -EINVAL);
	cr_expect(strstr(nvmfr__err_get(), "I/O 5 of the list: iov[1]") != NULL, "%s", nvmfr__err_get());
	iov[1] = (struct nvmfr_iov){ &rig.buf, 4096, 525 };
	cr_expect_eq(nvmfr__prepare(rig.qp, ios, N, &list), -EINVAL);
	cr_expect(strstr(nvmfr__err_get(), "I/O 5 of the list: the iov's lengths") != NULL, "%s", nvmfr__err_get());
	iov[1] = (struct nvmfr_iov){ &rig.buf, rig.buf.len - 523, 524 };
	cr_expect_eq(nvmfr__prepare(rig.qp, ios, N, &list), -ERANGE);
	cr_expect_eq(rig.buf.in_use, 0u);
	rig_down(&rig);
}

Test(queue_prepared, after_the_end)
{
	struct nvmfr_io io = { .op = NVMFR_OP_READ, .nsid = RIG_NS, .nblocks = 1 };
	struct nvmfr_prepared *list, *other;
	struct rig rig;

	rig_up(&rig, NULL);
	io.buf = &rig.buf;
	cr_assert_eq(nvmfr__prepare(rig.qp, &io, 1, &list), 0);
	rig_lose(&rig, -ECONNRESET, "gone");
	cr_expect_eq(nvmfr__prepared_post(list, 0, 1), -ENOTCONN);
	cr_expect_eq(nvmfr__prepare(rig.qp, &io, 1, &other), -ENOTCONN);
	nvmfr__prepared_free(list);
	rig_down(&rig);
}
