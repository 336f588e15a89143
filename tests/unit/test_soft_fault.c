/* SPDX-License-Identifier: BSD-3-Clause */
/* The soft fabric's faults and namespaces. */
#include "soft_rig.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "base/util.h"
#include "wire/logpage.h"

/* ---- faults ----------------------------------------------------------------------------------- */

Test(soft_fault, answers)
{
	struct rig rig;
	struct nvme_sqe sqe = { .opcode = 0 };
	struct nvme_cqe cqe;

	rig_up(&rig, NULL);
	sqe = rig_rw(&rig, NVME_IO_READ, 0, 1);
	rig_plan(&rig, NVMFR_SOFT_FAULT_STATUS, NVME_ST_UNRECOVERED_READ);
	cr_expect_eq(rig_status(rig_do(&rig.io, &sqe)), NVME_ST_UNRECOVERED_READ, "status");
	cr_expect_eq(rig_status(rig_do(&rig.io, &sqe)), 0, "once");
	rig_plan(&rig, NVMFR_SOFT_FAULT_RESULT, 0x1122334455667788);
	cr_expect_eq(from_le64(rig_do(&rig.io, &sqe).result), 0x1122334455667788, "result");
	rig_plan(&rig, NVMFR_SOFT_FAULT_WRONG_CID, 0xf000);
	cqe = rig_do(&rig.io, &sqe);
	cr_expect_eq(from_le16(cqe.cid), from_le16(sqe.cid) ^ 0xf000, "CID");
	rig_plan(&rig, NVMFR_SOFT_FAULT_DUPLICATE, 0);
	rig_post(&rig.io, &sqe, NULL);
	cr_expect_eq(rig_poll(&rig.io, &cqe), 2, "twice");
	rig_plan(&rig, NVMFR_SOFT_FAULT_SILENCE, 0);
	rig_post(&rig.io, &sqe, NULL);
	cr_expect_eq(rig_poll(&rig.io, &cqe), 0, "silence");
	cr_expect_eq(ops->ep_due_ns(rig.io.ep), SOFT_NEVER, "for ever");
	rig_down(&rig);
}

Test(soft_fault, delay_lets_others_pass)
{
	struct rig rig;
	struct nvme_sqe first, second;
	struct nvme_cqe cqe;

	rig_up(&rig, NULL);
	nvmfr__clock_freeze(&rig.clock);
	rig_plan(&rig, NVMFR_SOFT_FAULT_DELAY, 10);
	first = rig_rw(&rig, NVME_IO_READ, 0, 1);
	second = first;
	rig_post(&rig.io, &first, NULL);
	cqe = rig_do(&rig.io, &second);
	cr_expect_eq(from_le16(cqe.cid), from_le16(second.cid), "the second passes");
	nvmfr__clock_advance_ns(&rig.clock, 10000);
	cr_assert_eq(rig_poll(&rig.io, &cqe), 1, "then the first");
	cr_expect_eq(from_le16(cqe.cid), from_le16(first.cid), "is answered");
	rig_down(&rig);
}

/* Neither it nor what is behind it is taken, nor are their SENDs done; then all are, in order. */
Test(soft_fault, not_ready_holds_all_that_follows)
{
	struct rig rig;
	struct nvme_sqe first, second;
	struct nvme_cqe last;
	uint32_t done;

	rig_up(&rig, NULL);
	nvmfr__clock_freeze(&rig.clock);
	done = rig.io.sends_done;
	rig_plan(&rig, NVMFR_SOFT_FAULT_NOT_READY, 10);
	first = rig_rw(&rig, NVME_IO_READ, 0, 1);
	second = first;
	rig_post(&rig.io, &first, NULL);
	cr_expect_eq(rig_poll(&rig.io, &last), 0, "it waits");
	rig_post(&rig.io, &second, NULL);
	cr_expect_eq(ops->ep_due_ns(rig.io.ep), nvmfr__clock_now_ns(&rig.clock) + 10000, "due");
	nvmfr__clock_advance_ns(&rig.clock, 9999);
	cr_expect_eq(rig_poll(&rig.io, &last), 0, "not yet");
	cr_expect_eq(rig.io.sends_done, done, "no SEND is done");
	nvmfr__clock_advance_ns(&rig.clock, 1);
	cr_assert_eq(rig_poll(&rig.io, &last), 2, "both");
	cr_expect_eq(from_le16(last.cid), from_le16(second.cid), "in order");
	cr_expect_eq(rig_status(last), 0, "and well");
	rig_down(&rig);
}

Test(soft_fault, early_answer_before_the_send_is_done)
{
	struct rig rig;
	struct nvme_sqe sqe;
	struct nvme_cqe cqe;
	struct fab_carry tail;
	uint32_t done;

	rig_up(&rig, NULL);
	nvmfr__clock_freeze(&rig.clock);
	done = rig.io.sends_done;
	rig_plan(&rig, NVMFR_SOFT_FAULT_EARLY, 10);
	tail = (struct fab_carry){ .addr = (uintptr_t)rig.data, .bytes = 512, .lkey = rig.mr.lkey };
	sqe = rig_rw(&rig, NVME_IO_WRITE, 0, 1);
	sqe.dptr = nvme_sgl_icd(0, 512);
	rig_post(&rig.io, &sqe, &tail);
	cr_expect_eq(rig_poll(&rig.io, &cqe), 1, "answered");
	cr_expect_eq(rig.io.sends_done, done, "the SEND is not done");
	cr_expect_eq(ops->ep_due_ns(rig.io.ep), nvmfr__clock_now_ns(&rig.clock) + 10000, "due");
	nvmfr__clock_advance_ns(&rig.clock, 10000);
	rig_poll(&rig.io, &cqe);
	cr_expect_gt(rig.io.sends_done, done, "now it is");
	rig_down(&rig);
}

Test(soft_fault, lingering_data_comes_until_the_answer)
{
	struct rig rig;
	struct nvme_sqe sqe;
	struct nvme_cqe cqe;

	rig_up(&rig, NULL);
	nvmfr__clock_freeze(&rig.clock);
	rig_plan(&rig, NVMFR_SOFT_FAULT_LINGER, 10);
	sqe = rig_rw(&rig, NVME_IO_READ, 0, 1);
	rig_post(&rig.io, &sqe, NULL);
	for (int i = 0; i < 3; i++) {
		memset(rig.data, POISON, 512);
		cr_expect_eq(rig_poll(&rig.io, &cqe), 0, "%d: no answer", i);
		cr_expect_eq(rig.data[511], 0, "%d: data", i);
	}
	nvmfr__clock_advance_ns(&rig.clock, 10000);
	cr_expect_eq(rig_poll(&rig.io, &cqe), 1, "answered");
	memset(rig.data, POISON, 512);
	rig_poll(&rig.io, &cqe);
	cr_expect_eq(rig.data[0], POISON, "nothing comes after it");
	rig_down(&rig);
}

/* The target's thread writes what no test may look at meanwhile: what it moved is looked at. */
static bool moves(struct rig *rig, unsigned int looks)
{
	uint64_t before = rig_counters(rig).bytes_moved;
	bool moved = false;

	for (unsigned int i = 0; i < looks && !moved; i++) {
		sched_yield();
		moved = rig_counters(rig).bytes_moved != before;
	}
	return moved;
}

Test(soft_fault, lingering_data_ends_with_the_endpoint_only)
{
	struct nvmfr_soft_opts opts;
	struct rig rig;
	struct nvme_sqe sqe;

	nvmfr__soft_opts_default(&opts);
	opts.flags = NVMFR_SOFT_THREAD;
	rig_up(&rig, &opts);
	rig_plan(&rig, NVMFR_SOFT_FAULT_LINGER, UINT32_MAX);
	sqe = rig_rw(&rig, NVME_IO_READ, 0, 1);
	rig_post(&rig.io, &sqe, NULL);
	cr_expect(moves(&rig, UINT32_MAX), "live");
	nvmfr__soft_drop(rig.target);
	cr_expect(moves(&rig, UINT32_MAX), "dropped by the target");
	ops->ep_disconnect(rig.io.ep);
	cr_expect(moves(&rig, UINT32_MAX), "disconnected by this host");
	ops->ep_stop(rig.io.ep);
	cr_expect(!moves(&rig, 1000), "stopped");
	rig_down(&rig);
}

struct end_case {
	uint32_t kind;
	const char *text;
	bool io_event, admin_event;
};

Test(soft_fault, endings)
{
	static const struct end_case cases[] = {
		{ NVMFR_SOFT_FAULT_DISCONNECT, "closed", true, false },
		{ NVMFR_SOFT_FAULT_DISCONNECT_ALL, "closed", true, true },
		{ NVMFR_SOFT_FAULT_QP_ERROR, "retry counter", false, false },
		{ NVMFR_SOFT_FAULT_SHORT, "response of 8 bytes", false, false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const struct end_case *c = &cases[i];
		bool io_event = false, admin_event = false;
		struct fab_event ev;
		struct nvme_sqe sqe;
		struct rig rig;

		rig_up(&rig, NULL);
		rig_plan(&rig, c->kind, 8);
		sqe = rig_rw(&rig, NVME_IO_READ, 0, 1);
		rig_do(&rig.io, &sqe);
		cr_expect(rig.io.bad, "kind %u: bad", c->kind);
		cr_expect_not_null(strstr(rig.io.ep->error, c->text), "kind %u: %s", c->kind,
				   rig.io.ep->error);
		while (ops->next_event(rig.fab, &ev)) {
			io_event |= ev.ep == rig.io.ep;
			admin_event |= ev.ep == rig.admin.ep;
		}
		cr_expect_eq(io_event, c->io_event, "kind %u: event", c->kind);
		cr_expect_eq(admin_event, c->admin_event, "kind %u: event of the admin queue", c->kind);
		rig_down(&rig);
	}
}

Test(soft_fault, the_plan_is_looked_at_in_order)
{
	struct rig rig;
	struct nvmfr_soft_fault fault = rig_fault(NVMFR_SOFT_FAULT_STATUS, 0x281);
	struct nvme_sqe sqe;

	rig_up(&rig, NULL);
	fault.qid = 1;
	fault.opcode = NVME_IO_READ;
	fault.skip = 1;
	fault.count = 2;
	nvmfr__soft_fault_add(rig.target, &fault);
	fault.opcode = NVME_ADMIN_IDENTIFY;
	fault.qid = 0;
	fault.detail = NVME_CNS_ACTIVE_LIST;
	fault.skip = 0;
	fault.count = 0;
	fault.value = 6;
	nvmfr__soft_fault_add(rig.target, &fault);
	sqe = rig_rw(&rig, NVME_IO_READ, 0, 1);
	cr_expect_eq(rig_status(rig_do(&rig.io, &sqe)), 0, "skipped");
	cr_expect_eq(rig_status(rig_do(&rig.io, &sqe)), 0x281, "first");
	cr_expect_eq(rig_status(rig_do(&rig.io, &sqe)), 0x281, "second");
	cr_expect_eq(rig_status(rig_do(&rig.io, &sqe)), 0, "used up");
	for (int i = 0; i < 3; i++)
		cr_expect_eq(rig_status(rig_identify(&rig, NVME_CNS_ACTIVE_LIST, 0)), 6, "always");
	cr_expect_eq(rig_status(rig_identify(&rig, NVME_CNS_CTRL, 0)), 0, "another CNS");
	nvmfr__soft_fault_clear(rig.target);
	cr_expect_eq(rig_status(rig_identify(&rig, NVME_CNS_ACTIVE_LIST, 0)), 0, "cleared");
	rig_down(&rig);
}

/* ---- namespaces ------------------------------------------------------------------------------- */

Test(soft_ns, a_file_and_its_tail)
{
	char path[] = "/tmp/nvmfr-soft-XXXXXX";
	int fd = mkstemp(path);
	struct nvmfr_soft_ns_opts ns;
	struct nvme_sqe sqe;
	struct rig rig;
	unsigned char got[5000];

	memset(got, 'f', sizeof(got));
	cr_assert_eq(write(fd, got, sizeof(got)), (ssize_t)sizeof(got), "file");
	rig_up(&rig, NULL);
	nvmfr__soft_ns_opts_default(&ns);
	ns.path = path;
	ns.block_bytes = 4096;
	cr_assert_eq(nvmfr__soft_ns_add(rig.target, &ns), 2, "%s", nvmfr__err_get());
	sqe = rig_rw(&rig, NVME_IO_READ, 0, 2);
	sqe.nsid = to_le32(2);
	sqe.dptr = rig_sgl(&rig, 0, 8192);
	cr_expect_eq(rig_status(rig_do(&rig.io, &sqe)), 0, "read");
	cr_expect(rig.data[4999] == 'f' && rig.data[5000] == 0 && rig.data[8191] == 0, "zero behind the file");
	memset(rig.data, 'w', 8192);
	sqe.opcode = NVME_IO_WRITE;
	cr_expect_eq(rig_status(rig_do(&rig.io, &sqe)), 0, "write");
	sqe.opcode = NVME_IO_READ;
	cr_expect_eq(rig_status(rig_do(&rig.io, &sqe)), 0, "read");
	cr_expect(rig.data[4999] == 'w' && rig.data[5000] == 0, "still zero behind the file");
	sqe.opcode = NVME_IO_WRITE;
	sqe.cdw12 = to_le32(1 | NVME_RW_FUA);
	cr_expect_eq(rig_status(rig_do(&rig.io, &sqe)), 0, "write through");
	cr_expect_eq(pread(fd, got, sizeof(got), 0), (ssize_t)sizeof(got), "the file");
	cr_expect(got[0] == 'w' && got[4999] == 'w', "has the data");
	cr_expect_eq(lseek(fd, 0, SEEK_END), 5000, "and its size");
	ns.flags = NVMFR_SOFT_NS_READ_ONLY;
	cr_assert_eq(nvmfr__soft_ns_add(rig.target, &ns), 3, "%s", nvmfr__err_get());
	sqe.opcode = NVME_IO_WRITE;
	sqe.nsid = to_le32(3);
	cr_expect_eq(rig_status(rig_do(&rig.io, &sqe)), NVME_ST_NS_WRITE_PROTECTED, "read only");
	close(fd);
	unlink(path);
	rig_down(&rig);
}

struct ns_case {
	const char *path;
	uint64_t bytes;
	uint32_t nsid, block_bytes;
	int want;
};

Test(soft_ns, bad_options)
{
	static const struct ns_case cases[] = {
		{ NULL, 4096, 0, 1024, -EINVAL },     { NULL, 4097, 0, 512, -EINVAL },
		{ NULL, 4096, 1, 512, -EEXIST },      { NULL, 4096, 5000, 512, -EINVAL },
		{ "/nonexistent", 0, 0, 512, -ENOENT }, { "/tmp", 0, 0, 512, -EISDIR },
		{ "/dev/null", 0, 0, 512, -ENOTBLK },
	};
	struct rig rig;

	rig_up(&rig, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const struct ns_case *c = &cases[i];
		struct nvmfr_soft_ns_opts ns;

		nvmfr__soft_ns_opts_default(&ns);
		ns.path = c->path;
		ns.size_bytes = c->bytes;
		ns.nsid = c->nsid;
		ns.block_bytes = c->block_bytes;
		nvmfr__err_clear();
		cr_expect_eq(nvmfr__soft_ns_add(rig.target, &ns), c->want, "case %zu", i);
		cr_expect_neq(nvmfr__err_get()[0], '\0', "case %zu: a sentence", i);
	}
	rig_down(&rig);
}

struct churn {
	struct rig *rig;
	_Atomic bool stop;
};

static void *add_and_remove(void *arg)
{
	struct churn *churn = arg;
	struct nvmfr_soft_ns_opts ns;

	nvmfr__soft_ns_opts_default(&ns);
	ns.size_bytes = 1 << 16;
	ns.nsid = 2;
	while (!churn->stop) {
		nvmfr__soft_ns_add(churn->rig->target, &ns);
		sched_yield();
		nvmfr__soft_ns_remove(churn->rig->target, 2);
	}
	return NULL;
}

/* Each announcement is answered as a host does: read the page, wait for the next. */
static void follow_events(struct rig *rig)
{
	struct nvme_sqe sqe;
	struct nvme_cqe cqe;

	if (!rig_poll(&rig->admin, &cqe))
		return;
	nvme_sqe_async_event(&sqe);
	rig_post(&rig->admin, &sqe, NULL);
	nvme_sqe_get_log(&sqe, NVME_LID_CHANGED_NS, NVME_NSID_ALL, 4096, 0, false);
	sqe.dptr = rig_sgl(rig, 65536, 4096);
	rig_do(&rig->admin, &sqe);
}

static void churn(uint32_t flags)
{
	struct nvmfr_soft_opts opts;
	struct rig rig;
	struct churn churn = { .rig = &rig };
	struct nvme_sqe events;
	pthread_t thread;
	uint32_t found = 0;

	nvmfr__soft_opts_default(&opts);
	opts.flags = flags;
	rig_up(&rig, &opts);
	nvme_sqe_set_features(&events, NVME_FEAT_ASYNC_EVENT_CONFIG, NVME_AEC_NS_ATTR);
	cr_assert_eq(rig_status(rig_do(&rig.admin, &events)), 0, "enable");
	nvme_sqe_async_event(&events);
	rig_post(&rig.admin, &events, NULL);
	cr_assert_eq(pthread_create(&thread, NULL, add_and_remove, &churn), 0, "thread");
	for (int i = 0; i < 5000 || !found; i++) {
		struct nvme_sqe sqe = rig_rw(&rig, NVME_IO_WRITE, 0, 16);
		uint16_t status;

		follow_events(&rig);
		sqe.nsid = to_le32(2);
		status = rig_status(rig_do(&rig.io, &sqe));
		cr_assert(status == 0 || status == NVME_ST_INVALID_NAMESPACE, "status %x", status);
		found += status == 0;
	}
	churn.stop = true;
	pthread_join(thread, NULL);
	rig_down(&rig);
}

Test(soft_ns, come_and_go_beside_io_inline)
{
	churn(0);
}

Test(soft_ns, come_and_go_beside_io_in_thread)
{
	churn(NVMFR_SOFT_THREAD);
}
