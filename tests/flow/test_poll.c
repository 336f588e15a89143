/* SPDX-License-Identifier: BSD-3-Clause */
/* Submission and completion as an application sees them: what is there, room, waiting. */
#include "flow.h"

enum { BLOCK = 512 };

static void up(struct flow *f, unsigned int depth, uint8_t mdts)
{
	struct nvmfr_soft_opts opts = flow_soft_opts();

	opts.mdts = mdts;
	flow_host(f);
	flow_target(f, &opts);
	flow_ns(f, 64 * MIB, BLOCK);
	flow_connect(f);
	f->qp = flow_qpair(f, depth);
}

/* ---- nothing means nothing ------------------------------------------------------------------- */

/* Polls of one at a time: from the first that is good to the last there is no 0. */
static void never_zero(struct flow *f, unsigned int expected)
{
	struct nvmfr_completion done;

	for (unsigned int i = 0; i < expected; i++)
		cr_expect_eq(nvmfr_poll(f->qp, &done, 1), 1, "nothing, after %u of %u", i,
			     expected);
	cr_expect_eq(nvmfr_poll(f->qp, &done, 1), 0);
}

Test(poll, one_at_a_time_of_many)
{
	struct nvmfr_buffer *buf;
	struct flow f;

	up(&f, 128, 0);
	buf = flow_alloc(&f, 128 * BLOCK);
	flow_reads(&f, buf, 128);
	never_zero(&f, 128);
	flow_release(buf);
	flow_down(&f);
}

Test(poll, never_more_than_max)
{
	struct nvmfr_completion done[7];
	struct nvmfr_buffer *buf;
	struct flow f;
	int n, sum = 0;

	up(&f, 128, 0);
	buf = flow_alloc(&f, 128 * BLOCK);
	flow_reads(&f, buf, 100);
	while ((n = nvmfr_poll(f.qp, done, 6)) > 0) {
		done[6].user_data = 0;
		cr_expect_leq(n, 6);
		sum += n;
	}
	cr_expect_eq(sum, 100);
	flow_release(buf);
	flow_down(&f);
}

/* The parts of a split read are no completions, and no reason to say that nothing is there. */
Test(poll, one_at_a_time_behind_a_split_read)
{
	struct nvmfr_buffer *buf;
	struct flow f;

	up(&f, 128, 1);
	buf = flow_alloc(&f, MIB);
	cr_assert_eq(nvmfr_read(f.qp, f.nsid, 0, 40 * 16, buf, 0, 0), 0);
	flow_reads(&f, buf, 20);
	never_zero(&f, 21);
	flow_release(buf);
	flow_down(&f);
}

Test(poll, one_at_a_time_of_split_reads)
{
	struct nvmfr_buffer *buf;
	struct flow f;

	up(&f, 128, 1);
	buf = flow_alloc(&f, MIB);
	for (unsigned int i = 0; i < 20; i++)
		cr_assert_eq(nvmfr_read(f.qp, f.nsid, 0, 5 * 16, buf, 0, i), 0);
	never_zero(&f, 20);
	flow_release(buf);
	flow_down(&f);
}

/* More commands than the queue takes: the rest of it goes out from poll, which then looks again. */
Test(poll, split_read_longer_than_the_queue_ends_by_polling_alone)
{
	struct nvmfr_completion done;
	struct nvmfr_buffer *buf;
	struct flow f;
	int n = 0;

	up(&f, 4, 1);
	buf = flow_alloc(&f, MIB);
	cr_assert_eq(nvmfr_read(f.qp, f.nsid, 0, MIB / BLOCK, buf, 0, 5), 0);
	for (unsigned int i = 0; i < 128 && n == 0; i++)
		n = nvmfr_poll(f.qp, &done, 1);
	cr_expect_eq(n, 1);
	cr_expect_eq(done.user_data, 5);
	flow_release(buf);
	flow_down(&f);
}

/* In-capsule writes need the completion of their SEND, too. */
Test(poll, one_at_a_time_of_in_capsule_writes)
{
	struct nvmfr_buffer *buf;
	struct flow f;

	up(&f, 128, 0);
	buf = flow_alloc(&f, 128 * BLOCK);
	for (unsigned int i = 0; i < 100; i++)
		cr_assert_eq(nvmfr_write(f.qp, f.nsid, i, 1, buf, i * BLOCK, i), 0);
	never_zero(&f, 100);
	cr_expect_eq(flow_counters(&f).in_capsule_writes, 100);
	flow_release(buf);
	flow_down(&f);
}

Test(poll, errors_and_successes_one_at_a_time)
{
	struct nvmfr_soft_fault fault = flow_fault(NVMFR_SOFT_FAULT_STATUS, 1, OPC_READ,
						   NVMFR_SOFT_ANY, STATUS_INTERNAL_ERROR);
	struct nvmfr_buffer *buf;
	struct flow f;

	up(&f, 128, 0);
	buf = flow_alloc(&f, 128 * BLOCK);
	fault.count = 30;
	fault.skip = 5;
	flow_plan(&f, &fault);
	flow_reads(&f, buf, 60);
	never_zero(&f, 60);
	flow_release(buf);
	flow_down(&f);
}

Test(poll, qpair_data_and_user_data_come_back)
{
	struct nvmfr_qpair_opts opts = flow_qpair_opts(8);
	struct nvmfr_completion done;
	struct nvmfr_buffer *buf;
	struct nvmfr_io io;
	struct flow f;

	flow_host(&f);
	flow_target(&f, NULL);
	flow_ns(&f, MIB, BLOCK);
	flow_connect(&f);
	opts.qpair_data = UINT64_C(0xfedcba9876543210);
	cr_assert_eq(flow_try_qpair(&f, &opts, &f.qp), 0);
	buf = flow_alloc(&f, BLOCK);
	io = flow_io(&f, NVMFR_OP_READ, 0, 1, buf, 0);
	io.user_data = UINT64_MAX;
	memset(&done, 0xff, sizeof(done));
	done = flow_do(f.qp, &io);
	cr_expect_eq(done.user_data, UINT64_MAX);
	cr_expect_eq(done.qpair_data, UINT64_C(0xfedcba9876543210));
	cr_expect_eq(done.result, 0);
	cr_expect_eq(done.status, 0);
	cr_expect_eq(done.flags, 0);
	flow_release(buf);
	flow_down(&f);
}

/* ---- room ------------------------------------------------------------------------------------ */

Test(poll, full_then_room_again)
{
	struct nvmfr_completion done[16];
	struct nvmfr_buffer *buf;
	struct flow f;

	up(&f, 16, 0);
	buf = flow_alloc(&f, 16 * BLOCK);
	for (unsigned int round = 0; round < 50; round++) {
		flow_reads(&f, buf, 16);
		cr_assert_eq(nvmfr_read(f.qp, f.nsid, 0, 1, buf, 0, 0), -EAGAIN);
		cr_assert_eq(nvmfr_write(f.qp, f.nsid, 0, 1, buf, 0, 0), -EAGAIN);
		flow_wait(f.qp, done, 16);
	}
	cr_expect_eq(flow_qpair_info(f.qp).commands, 800);
	flow_release(buf);
	flow_down(&f);
}

Test(poll, room_for_each_that_ended)
{
	struct nvmfr_completion done[3];
	struct nvmfr_buffer *buf;
	struct flow f;

	up(&f, 16, 0);
	buf = flow_alloc(&f, 16 * BLOCK);
	flow_reads(&f, buf, 16);
	cr_assert_eq(nvmfr_poll(f.qp, done, 3), 3);
	flow_reads(&f, buf, 3);
	cr_expect_eq(nvmfr_read(f.qp, f.nsid, 0, 1, buf, 0, 0), -EAGAIN);
	cr_expect_eq(flow_qpair_info(f.qp).in_flight, 16);
	for (unsigned int i = 0; i < 16; i++)
		flow_wait(f.qp, done, 1);
	flow_release(buf);
	flow_down(&f);
}

Test(poll, batch_is_taken_as_far_as_there_is_room)
{
	struct nvmfr_completion done[40];
	struct nvmfr_io ios[40];
	struct nvmfr_buffer *buf;
	struct flow f;

	up(&f, 16, 0);
	buf = flow_alloc(&f, 40 * BLOCK);
	for (unsigned int i = 0; i < 40; i++) {
		ios[i] = flow_io(&f, NVMFR_OP_READ, i, 1, buf, i * UINT64_C(512));
		ios[i].user_data = i;
	}
	cr_expect_eq(nvmfr_submit(f.qp, ios, 40), 16);
	cr_expect_eq(nvmfr_submit(f.qp, ios + 16, 24), -EAGAIN);
	flow_wait(f.qp, done, 16);
	cr_expect_eq(nvmfr_submit(f.qp, ios + 16, 24), 16);
	flow_wait(f.qp, done, 16);
	cr_expect_eq(nvmfr_submit(f.qp, ios + 32, 8), 8);
	flow_wait(f.qp, done, 8);
	cr_expect_eq(done[7].user_data, 39);
	flow_release(buf);
	flow_down(&f);
}

/* Bad ones of each kind at each place: those before it are taken, it says why when it is the first. */
static void batch_with(struct flow *f, struct nvmfr_buffer *buf, const struct nvmfr_io *bad,
		       int err)
{
	struct nvmfr_completion done[8];
	struct nvmfr_io ios[8];

	for (unsigned int at = 0; at < 8; at++) {
		for (unsigned int i = 0; i < 8; i++)
			ios[i] = flow_io(f, i % 2 ? NVMFR_OP_READ : NVMFR_OP_WRITE, i, 1, buf, 0);
		ios[at] = *bad;
		cr_expect_eq(nvmfr_submit(f->qp, ios, 8), at ? (int)at : err,
			     "the bad one is number %u", at);
		if (at == 0)
			continue;
		cr_expect_eq(nvmfr_submit(f->qp, ios + at, 8 - at), err);
		flow_wait(f->qp, done, at);
	}
	cr_expect_eq(flow_qpair_info(f->qp).in_flight, 0);
}

Test(poll, batch_is_taken_up_to_a_bad_one)
{
	struct nvmfr_buffer *buf;
	struct nvmfr_io bad;
	struct flow f;

	up(&f, 16, 0);
	buf = flow_alloc(&f, 8 * BLOCK);
	bad = flow_io(&f, NVMFR_OP_READ, 64 * MIB / BLOCK, 1, buf, 0);
	batch_with(&f, buf, &bad, -ERANGE);
	bad = flow_io(&f, NVMFR_OP_WRITE, 0, 1, NULL, 0);
	batch_with(&f, buf, &bad, -EINVAL);
	bad = flow_io(&f, 77, 0, 1, buf, 0);
	batch_with(&f, buf, &bad, -EINVAL);
	bad = flow_io(&f, NVMFR_OP_READ, 0, 1, buf, 0);
	bad.nsid = 9;
	batch_with(&f, buf, &bad, -ENOENT);
	bad.nsid = 1;
	bad.reserved1[1] = 1;
	batch_with(&f, buf, &bad, -EINVAL);
	flow_release(buf);
	flow_down(&f);
}

Test(poll, batch_of_every_kind)
{
	struct nvmfr_completion done[6];
	struct nvmfr_iov iov[2];
	struct nvmfr_buffer *buf;
	struct nvmfr_io ios[6];
	struct flow f;

	up(&f, 16, 1);
	buf = flow_alloc(&f, MIB);
	iov[0] = (struct nvmfr_iov){ buf, 1, 100 };
	iov[1] = (struct nvmfr_iov){ buf, 200, BLOCK - 100 };
	ios[0] = flow_io(&f, NVMFR_OP_READ, 0, 1, buf, 0);
	ios[1] = flow_io(&f, NVMFR_OP_READ, 0, 20, buf, 0);
	ios[2] = flow_io(&f, NVMFR_OP_FLUSH, 0, 0, NULL, 0);
	ios[3] = flow_io(&f, NVMFR_OP_WRITE_ZEROES, 9, 100, NULL, 0);
	ios[4] = flow_io(&f, NVMFR_OP_WRITE, 0, 1, NULL, 0);
	ios[4].flags = NVMFR_IO_VEC | NVMFR_IO_FUA;
	ios[4].iov = iov;
	ios[4].niov = 2;
	ios[5] = flow_io(&f, NVMFR_OP_WRITE, 5, 1, buf, 0);
	for (unsigned int i = 0; i < 6; i++)
		ios[i].user_data = i;
	cr_expect_eq(nvmfr_submit(f.qp, ios, 6), 6);
	flow_wait(f.qp, done, 6);
	for (unsigned int i = 0; i < 6; i++)
		cr_expect_eq(done[i].result, 0, "number %llu: %04x",
			     (unsigned long long)done[i].user_data, done[i].status);
	flow_release(buf);
	flow_down(&f);
}

/* ---- waiting --------------------------------------------------------------------------------- */

Test(poll, wait_for_fewer_than_there_are)
{
	struct nvmfr_completion done[64];
	struct nvmfr_buffer *buf;
	struct flow f;
	int n;

	up(&f, 64, 0);
	buf = flow_alloc(&f, 64 * BLOCK);
	flow_reads(&f, buf, 20);
	n = nvmfr_wait(f.qp, done, 3, 64, -1);
	cr_expect(n >= 3 && n <= 20, "%d", n);
	flow_wait(f.qp, done, 20 - (unsigned int)n);
	flow_release(buf);
	flow_down(&f);
}

/* It could end only with the association, hours later. */
Test(poll, wait_for_ever_with_nothing_in_flight_is_refused)
{
	struct nvmfr_completion done[8];
	struct nvmfr_buffer *buf;
	struct flow f;

	up(&f, 8, 0);
	cr_expect_eq(nvmfr_wait(f.qp, done, 1, 1, -1), -EINVAL);
	flow_says("nothing is in flight");
	flow_works(&f);
	cr_expect_eq(nvmfr_wait(f.qp, done, 1, 1, -1), -EINVAL, "all is collected");
	buf = flow_alloc(&f, 8 * BLOCK);
	flow_reads(&f, buf, 3);
	cr_expect_eq(nvmfr_wait(f.qp, done, 8, 8, -1), 3, "as many as there can be");
	flow_release(buf);
	flow_down(&f);
}

/* There the end of the connect is still to come. */
Test(poll, wait_for_ever_on_a_queue_that_connects)
{
	struct nvmfr_completion done;
	struct nvmfr_qpair *qp;
	struct flow f;

	up(&f, 8, 0);
	cr_assert_eq(nvmfr_qpair_create(f.ctrl, NULL, &qp), 0);
	cr_expect_eq(flow_qpair_info(qp).state, NVMFR_STATE_CONNECTING);
	cr_expect_eq(nvmfr_wait(qp, &done, 1, 1, -1), -EINVAL);
	cr_expect_eq(flow_qpair_info(qp).state, NVMFR_STATE_LIVE);
	nvmfr_qpair_destroy(qp);
	cr_assert_eq(nvmfr_qpair_create(f.ctrl, NULL, &qp), 0);
	nvmfr_soft_drop(f.target);
	cr_expect_eq(nvmfr_wait(qp, &done, 1, 1, -1), -ENOTCONN);
	nvmfr_qpair_destroy(qp);
	flow_down(&f);
}

/* In virtual time a wait takes as long as it says, and no longer. */
Test(poll, wait_ends_with_its_time)
{
	struct nvmfr_soft_opts opts = flow_soft_opts();
	struct nvmfr_completion done[2];
	struct nvmfr_buffer *buf;
	struct flow f;

	opts.latency_us = 5000;
	flow_up(&f, &opts);
	buf = flow_alloc(&f, 2 * BLOCK);
	flow_reads(&f, buf, 1);
	cr_expect_eq(nvmfr_wait(f.qp, done, 1, 1, 4), 0, "4 ms are not 5");
	cr_expect_eq(nvmfr_wait(f.qp, done, 1, 1, 1), 1);
	flow_reads(&f, buf, 1);
	cr_expect_eq(nvmfr_wait(f.qp, done, 2, 2, 100), 1, "one came of two");
	flow_release(buf);
	flow_down(&f);
}

Test(poll, wait_with_nothing_in_flight_ends)
{
	struct nvmfr_completion done;
	struct flow f;

	up(&f, 8, 0);
	cr_expect_eq(nvmfr_wait(f.qp, &done, 1, 1, 0), 0);
	cr_expect_eq(nvmfr_wait(f.qp, &done, 1, 1, 60000), 0);
	flow_works(&f);
	flow_down(&f);
}

Test(poll, wait_in_real_time)
{
	struct nvmfr_soft_opts opts = flow_soft_opts();
	struct nvmfr_completion done;
	struct nvmfr_buffer *buf;
	struct flow f;

	opts.latency_us = 3000;
	flow_up_thread(&f, &opts);
	buf = flow_alloc(&f, BLOCK);
	for (unsigned int i = 0; i < 10; i++) {
		flow_reads(&f, buf, 1);
		cr_expect_eq(nvmfr_wait(f.qp, &done, 1, 1, -1), 1);
	}
	cr_expect_eq(nvmfr_wait(f.qp, &done, 1, 1, 10), 0);
	flow_release(buf);
	flow_down(&f);
}
