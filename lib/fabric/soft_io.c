/* SPDX-License-Identifier: BSD-3-Clause */
/* What moves data: capsules, SGLs and the NVM command set. */
#include "fabric/soft.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "wire/ranges.h"

/* ---- capsules --------------------------------------------------------------------------------- */

static bool refuse_capsule(struct soft_ep *ep, uint32_t bytes, uint64_t limit)
{
	nvmfr__soft_violation(ep, "a command capsule of %u bytes, the queue takes %llu",
			      FAB_CAPSULE_BYTES + bytes, (unsigned long long)limit);
	nvmfr__soft_ep_fail(ep, true, "a SEND failed: remote invalid request, the capsule is too long");
	return false;
}

static bool refuse_local(struct soft_ep *ep, const struct fab_carry *carry, const char *why)
{
	nvmfr__soft_violation(ep, "SEND of %u bytes at %llxh, lkey %xh: %s", carry->bytes,
			      (unsigned long long)carry->addr, carry->lkey, why);
	nvmfr__soft_ep_fail(ep, false, "a SEND failed: local protection error (%s)", why);
	return false;
}

/* Descriptors in the endpoint's own memory, which no MR covers here. */
static bool is_list(const struct soft_ep *ep, const struct fab_carry *carry)
{
	uint64_t room = (uint64_t)FAB_TAILS * ep->ep.tail_bytes;
	uint64_t at = carry->addr - (uintptr_t)ep->ep.tails;

	return room && at < room && carry->bytes <= ep->ep.tail_bytes && carry->bytes <= room - at;
}

bool nvmfr__soft_capsule(struct soft_cmd *cmd)
{
	struct soft_ep *ep = cmd->ep;
	const struct fab_carry *carry = &ep->sends[cmd->position].carry;
	/* As nvmet: an admin queue has no room behind the SQE, whatever IOCCSZ says of I/O queues. */
	uint64_t limit = ep->qid ? ep->target->opts.ioccsz * UINT64_C(16) : FAB_CAPSULE_BYTES;
	const char *why = NULL;

	cmd->capsule_bytes = carry->bytes;
	if (is_list(ep, carry)) {
		cmd->capsule = (unsigned char *)(uintptr_t)carry->addr;
	} else {
		if (!ep->in_capsule)
			return refuse_local(ep, carry, "the queue pair was made for one element a SEND");
		cmd->capsule = nvmfr__soft_mr_local(ep->fab, carry->lkey, carry->addr, carry->bytes, &why);
		if (!cmd->capsule)
			return refuse_local(ep, carry, why);
	}
	if (FAB_CAPSULE_BYTES + (uint64_t)carry->bytes > limit)
		return refuse_capsule(ep, carry->bytes, limit);
	return true;
}

/* ---- SGLs ------------------------------------------------------------------------------------- */

static bool refuse_sgl(struct soft_cmd *cmd, uint16_t status, const char *what)
{
	nvmfr__soft_violation(cmd->ep, "opcode %02xh: %s", cmd->sqe->opcode, what);
	nvmfr__soft_refuse(cmd, status);
	return false;
}

static __attribute__((noinline)) bool refuse_key(struct soft_cmd *cmd,
						 const struct nvme_sgl_keyed *keyed, const char *why)
{
	nvmfr__soft_violation(cmd->ep, "opcode %02xh, %u bytes at %llxh, rkey %xh: %s",
			      cmd->sqe->opcode, from_le24(keyed->length),
			      (unsigned long long)from_le64(keyed->addr), from_le32(keyed->key), why);
	nvmfr__soft_ep_fail(cmd->ep, true, "remote access error: %s", why);
	return false;
}

static void copy(struct soft_ep *ep, void *mem, void *host, uint32_t bytes, bool to_host)
{
	if (to_host)
		memcpy(host, mem, bytes);
	else
		memcpy(mem, host, bytes);
	nvmfr__soft_count(&ep->counts.bytes_moved, bytes);
}

/* The NIC's one copy: straight between the namespace and the initiator's buffer. */
static bool move_keyed(struct soft_cmd *cmd, const struct nvme_sgl *sgl, unsigned char *mem,
		       bool to_host)
{
	struct nvme_sgl_keyed keyed = nvme_sgl_as_keyed(sgl);
	uint32_t bytes = from_le24(keyed.length);
	const char *why = NULL;
	unsigned char *host;

	host = nvmfr__soft_mr_remote(cmd->ep->fab, from_le32(keyed.key), from_le64(keyed.addr), bytes,
				     to_host ? FAB_ACCESS_TARGET : FAB_ACCESS_SOURCE, &why);
	if (unlikely(!host))
		return refuse_key(cmd, &keyed, why);
	copy(cmd->ep, mem, host, bytes, to_host);
	return true;
}

/* Offsets count from the in-capsule area, which begins ICDOFF behind the SQE. NULL: status is set. */
static unsigned char *in_capsule(struct soft_cmd *cmd, const struct nvme_sgl *sgl, uint32_t *bytes)
{
	const struct nvmfr_soft_opts *opts = &cmd->ep->target->opts;
	struct nvme_sgl_desc desc = nvme_sgl_as_desc(sgl);
	uint64_t start = from_le64(desc.addr);
	uint64_t lead = opts->icdoff * UINT64_C(16);

	*bytes = from_le32(desc.length);
	if (!(opts->sgls & NVME_SGLS_OFFSET)) {
		refuse_sgl(cmd, NVME_ST_SGL_TYPE, "an offset in an SGL, SGLS does not offer it");
		return NULL;
	}
	if (start > UINT32_MAX || lead + start + *bytes > cmd->capsule_bytes) {
		refuse_sgl(cmd, NVME_ST_SGL_OFFSET, "an SGL offset outside of the capsule");
		return NULL;
	}
	return cmd->capsule + lead + start;
}

static bool move_in_capsule(struct soft_cmd *cmd, unsigned char *mem, uint32_t bytes, bool to_host)
{
	uint32_t have;
	unsigned char *data = in_capsule(cmd, &cmd->sqe->dptr, &have);

	if (!data)
		return false;
	if (have != bytes)
		return refuse_sgl(cmd, NVME_ST_SGL_DATA_LENGTH, "in-capsule data of another length");
	if (to_host)
		return refuse_sgl(cmd, NVME_ST_SGL_TYPE, "in-capsule data where the host receives");
	copy(cmd->ep, mem, data, bytes, false);
	nvmfr__soft_count(&cmd->ep->counts.in_capsule_writes, 1);
	return true;
}

static bool check_segment(struct soft_cmd *cmd, const unsigned char *list, uint32_t count,
			  uint32_t bytes)
{
	uint64_t sum = 0;
	struct nvme_sgl sgl;

	for (uint32_t i = 0; i < count; i++) {
		memcpy(&sgl, list + i * sizeof(sgl), sizeof(sgl));
		if (nvme_sgl_type(&sgl) != NVME_SGL_KEYED)
			return refuse_sgl(cmd, NVME_ST_SGL_TYPE, "a list entry that is not keyed");
		sum += from_le24(nvme_sgl_as_keyed(&sgl).length);
	}
	if (sum != bytes)
		return refuse_sgl(cmd, NVME_ST_SGL_DATA_LENGTH, "a list of another length");
	return true;
}

static bool move_segment(struct soft_cmd *cmd, unsigned char *mem, uint32_t bytes, bool to_host)
{
	uint8_t msdbd = cmd->ep->target->opts.msdbd;
	uint32_t list_bytes, count, length;
	unsigned char *list = in_capsule(cmd, &cmd->sqe->dptr, &list_bytes);
	struct nvme_sgl sgl;

	if (!list)
		return false;
	count = list_bytes / (uint32_t)sizeof(sgl);
	if (count == 0 || list_bytes % sizeof(sgl))
		return refuse_sgl(cmd, NVME_ST_INVALID_SGL_SEGMENT, "a segment of odd length");
	if (msdbd && count > msdbd)
		return refuse_sgl(cmd, NVME_ST_INVALID_SGL_COUNT, "more descriptors than MSDBD");
	if (!check_segment(cmd, list, count, bytes))
		return false;
	for (uint32_t i = 0; i < count; i++, mem += length) {
		memcpy(&sgl, list + i * sizeof(sgl), sizeof(sgl));
		length = from_le24(nvme_sgl_as_keyed(&sgl).length);
		if (!move_keyed(cmd, &sgl, mem, to_host))
			return false;
	}
	return true;
}

bool nvmfr__soft_transfer(struct soft_cmd *cmd, void *mem, uint32_t bytes, bool to_host)
{
	const struct nvme_sgl *sgl = &cmd->sqe->dptr;

	switch (nvme_sgl_type(sgl)) {
	case NVME_SGL_KEYED:
		if (unlikely(from_le24(nvme_sgl_as_keyed(sgl).length) != bytes))
			return refuse_sgl(cmd, NVME_ST_SGL_DATA_LENGTH,
					  "a keyed descriptor of another length");
		return move_keyed(cmd, sgl, mem, to_host);
	case NVME_SGL_DATA_OFFSET:
		return move_in_capsule(cmd, mem, bytes, to_host);
	case NVME_SGL_LAST_SEGMENT_OFFSET:
		return move_segment(cmd, mem, bytes, to_host);
	case NVME_SGL_KEYED_INVALIDATE:
		return refuse_sgl(cmd, NVME_ST_SGL_TYPE, "the invalidating subtype on a lasting key");
	default:
		return refuse_sgl(cmd, NVME_ST_SGL_TYPE, "an unknown descriptor type");
	}
}

/* ---- commands --------------------------------------------------------------------------------- */

struct range {
	unsigned char *mem;
	uint64_t start; /* bytes into the namespace */
	uint64_t bytes;
};

static bool set_range(struct soft_cmd *cmd, const struct soft_ns *ns, uint64_t lba, uint64_t nblocks,
		      struct range *range)
{
	if (unlikely(lba > ns->blocks || nblocks > ns->blocks - lba)) {
		nvmfr__soft_refuse(cmd, NVME_ST_LBA_RANGE);
		return false;
	}
	*range = (struct range){
		.mem = ns->mem + (lba << ns->shift),
		.start = lba << ns->shift,
		.bytes = nblocks << ns->shift,
	};
	return true;
}

static uint64_t cmd_lba(const struct nvme_sqe *sqe)
{
	return from_le32(sqe->cdw10) | (uint64_t)from_le32(sqe->cdw11) << 32;
}

static bool find_range(struct soft_cmd *cmd, const struct soft_ns *ns, struct range *range)
{
	uint64_t nblocks = (from_le32(cmd->sqe->cdw12) & 0xffff) + UINT64_C(1);

	return set_range(cmd, ns, cmd_lba(cmd->sqe), nblocks, range);
}

/* MDTS 0 names no limit; one of 4 GiB and more is above what NLB can say. */
static bool check_mdts(struct soft_cmd *cmd, uint64_t bytes)
{
	const struct nvmfr_soft_opts *opts = &cmd->ep->target->opts;
	unsigned int shift = opts->mdts + opts->mpsmin + 12u;

	if (likely(opts->mdts == 0 || shift >= 32 || bytes <= UINT64_C(1) << shift))
		return true;
	return refuse_sgl(cmd, NVME_ST_INVALID_FIELD, "a transfer longer than MDTS");
}

static uint16_t sync_file(const struct soft_ns *ns, uint64_t start, uint64_t bytes)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	uint64_t lead = start % page;

	if (!ns->is_file || ns->read_only)
		return NVME_ST_SUCCESS;
	return msync(ns->mem + start - lead, bytes + lead, MS_SYNC) ? NVME_ST_WRITE_FAULT
								    : NVME_ST_SUCCESS;
}

/* The part of the last block that the file does not have reads as zero, whatever is written there. */
static void finish_write(struct soft_cmd *cmd, const struct soft_ns *ns, const struct range *range)
{
	uint64_t end = range->start + range->bytes;

	if (likely(!ns->is_file))
		return;
	if (end > ns->file_bytes) {
		uint64_t from = nvmfr__max_u64(range->start, ns->file_bytes);

		memset(ns->mem + from, 0, end - from);
	}
	if (from_le32(cmd->sqe->cdw12) & NVME_RW_FUA)
		cmd->status = sync_file(ns, range->start, range->bytes);
}

static void do_read(struct soft_cmd *cmd, const struct soft_ns *ns)
{
	struct range range;

	if (!find_range(cmd, ns, &range) || !check_mdts(cmd, range.bytes))
		return;
	if (nvmfr__soft_transfer(cmd, range.mem, (uint32_t)range.bytes, true))
		nvmfr__soft_count(&cmd->ep->counts.reads, 1);
}

void nvmfr__soft_read_again(struct soft_cmd *cmd)
{
	const struct soft_ns *ns = nvmfr__soft_ns_find(cmd->ep->target, from_le32(cmd->sqe->nsid));
	struct range range;

	if (ns && find_range(cmd, ns, &range))
		nvmfr__soft_transfer(cmd, range.mem, (uint32_t)range.bytes, true);
}

static void do_write(struct soft_cmd *cmd, const struct soft_ns *ns)
{
	struct range range;

	if (!find_range(cmd, ns, &range) || !check_mdts(cmd, range.bytes))
		return;
	if (ns->read_only) {
		nvmfr__soft_refuse(cmd, NVME_ST_NS_WRITE_PROTECTED);
		return;
	}
	if (!nvmfr__soft_transfer(cmd, range.mem, (uint32_t)range.bytes, false))
		return;
	nvmfr__soft_count(&cmd->ep->counts.writes, 1);
	finish_write(cmd, ns, &range);
}

static void do_write_zeroes(struct soft_cmd *cmd, const struct soft_ns *ns)
{
	struct range range;

	if (!find_range(cmd, ns, &range))
		return;
	if (ns->read_only) {
		nvmfr__soft_refuse(cmd, NVME_ST_NS_WRITE_PROTECTED);
		return;
	}
	memset(range.mem, 0, range.bytes);
	finish_write(cmd, ns, &range);
}

static void do_verify(struct soft_cmd *cmd, const struct soft_ns *ns)
{
	struct range range;

	/* What lies in memory can be read. */
	find_range(cmd, ns, &range);
}

static void do_compare(struct soft_cmd *cmd, const struct soft_ns *ns)
{
	struct range range;
	void *data;

	if (!find_range(cmd, ns, &range) || !check_mdts(cmd, range.bytes))
		return;
	data = malloc(range.bytes);
	if (!data)
		nvmfr__soft_refuse(cmd, NVME_ST_INTERNAL_ERROR);
	else if (nvmfr__soft_transfer(cmd, data, (uint32_t)range.bytes, false) &&
		 memcmp(data, range.mem, range.bytes) != 0)
		nvmfr__soft_refuse(cmd, NVME_ST_COMPARE_FAILURE);
	free(data);
}

/* Gives whole pages back, for a file by a hole; what is left of the range, or all of it, is zeroed. */
static void give_back(const struct soft_ns *ns, const struct range *range)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), begin = (uintptr_t)range->mem;
	uintptr_t from = (begin + page - 1) / page * page, to = (begin + range->bytes) / page * page;
	int advice = ns->is_file ? MADV_REMOVE : MADV_DONTNEED;

	if (from >= to || madvise((void *)from, to - from, advice)) {
		memset(range->mem, 0, range->bytes);
		return;
	}
	memset(range->mem, 0, from - begin);
	memset((void *)to, 0, begin + range->bytes - to);
}

static void do_dsm(struct soft_cmd *cmd, const struct soft_ns *ns)
{
	uint32_t n = (from_le32(cmd->sqe->cdw10) & 0xff) + 1;
	struct nvme_dsm_range list[NVME_MAX_RANGES];
	struct range range;

	if (!nvmfr__soft_transfer(cmd, list, n * (uint32_t)sizeof(list[0]), false))
		return;
	/* None is done unless all can be. */
	for (uint32_t i = 0; i < n; i++)
		if (!set_range(cmd, ns, from_le64(list[i].slba), from_le32(list[i].nlb), &range))
			return;
	if (!(from_le32(cmd->sqe->cdw11) & NVME_DSM_DEALLOCATE))
		return;
	if (ns->read_only) {
		nvmfr__soft_refuse(cmd, NVME_ST_NS_WRITE_PROTECTED);
		return;
	}
	for (uint32_t i = 0; i < n; i++) {
		set_range(cmd, ns, from_le64(list[i].slba), from_le32(list[i].nlb), &range);
		give_back(ns, &range);
	}
}

/* Looks at all of a Copy before anything is written. */
static bool check_copy(struct soft_cmd *cmd, const struct soft_ns *ns, const struct nvme_copy_range *list,
		       uint32_t n, struct range *to)
{
	uint64_t blocks = 0;
	struct range from;

	for (uint32_t i = 0; i < n; i++) {
		uint32_t nlb = from_le16(list[i].nlb) + 1u;

		blocks += nlb;
		if (nlb > SOFT_COPY_RANGE_BLOCKS || blocks > SOFT_COPY_BLOCKS)
			return refuse_sgl(cmd, NVME_ST_COMMAND_SIZE_LIMIT, "more to copy than MSSRL or MCL");
		if (!set_range(cmd, ns, from_le64(list[i].slba), nlb, &from))
			return false;
	}
	return set_range(cmd, ns, cmd_lba(cmd->sqe), blocks, to);
}

static void do_copy(struct soft_cmd *cmd, const struct soft_ns *ns)
{
	uint32_t cdw12 = from_le32(cmd->sqe->cdw12), n = (cdw12 & 0xff) + 1;
	struct nvme_copy_range list[NVME_MAX_RANGES];
	struct range from = { .bytes = 0 }, to;
	unsigned char *at;

	if (cdw12 & NVME_COPY_FORMAT_MASK) {
		nvmfr__soft_refuse(cmd, NVME_ST_INVALID_FIELD);
		return;
	}
	if (n > SOFT_COPY_RANGES) {
		refuse_sgl(cmd, NVME_ST_COMMAND_SIZE_LIMIT, "more ranges to copy than MSRC");
		return;
	}
	if (!nvmfr__soft_transfer(cmd, list, n * (uint32_t)sizeof(list[0]), false) ||
	    !check_copy(cmd, ns, list, n, &to))
		return;
	if (ns->read_only) {
		nvmfr__soft_refuse(cmd, NVME_ST_NS_WRITE_PROTECTED);
		return;
	}
	at = to.mem;
	for (uint32_t i = 0; i < n; i++, at += from.bytes) {
		set_range(cmd, ns, from_le64(list[i].slba), from_le16(list[i].nlb) + UINT64_C(1), &from);
		memmove(at, from.mem, from.bytes);
	}
	finish_write(cmd, ns, &to);
}

/* Commands that a controller need not have. */
static void do_optional(struct soft_cmd *cmd, const struct soft_ns *ns)
{
	static const struct {
		uint8_t opcode;
		uint16_t oncs;
		void (*run)(struct soft_cmd *cmd, const struct soft_ns *ns);
	} optional[] = {
		{ NVME_IO_WRITE_ZEROES, NVME_ONCS_WRITE_ZEROES, do_write_zeroes },
		{ NVME_IO_COMPARE, NVME_ONCS_COMPARE, do_compare },
		{ NVME_IO_VERIFY, NVME_ONCS_VERIFY, do_verify },
		{ NVME_IO_DSM, NVME_ONCS_DSM, do_dsm },
		{ NVME_IO_COPY, NVME_ONCS_COPY, do_copy },
		{ NVME_IO_RESV_REGISTER, NVME_ONCS_RESERVATIONS, nvmfr__soft_reserve },
		{ NVME_IO_RESV_ACQUIRE, NVME_ONCS_RESERVATIONS, nvmfr__soft_reserve },
		{ NVME_IO_RESV_RELEASE, NVME_ONCS_RESERVATIONS, nvmfr__soft_reserve },
		{ NVME_IO_RESV_REPORT, NVME_ONCS_RESERVATIONS, nvmfr__soft_reserve_report },
	};

	for (size_t i = 0; i < ARRAY_SIZE(optional); i++) {
		if (optional[i].opcode != cmd->sqe->opcode ||
		    !(cmd->ep->target->opts.oncs & optional[i].oncs))
			continue;
		optional[i].run(cmd, ns);
		return;
	}
	nvmfr__soft_refuse(cmd, NVME_ST_INVALID_OPCODE);
}

static void flush_all(struct soft_cmd *cmd)
{
	const struct soft_ns_table *table = atomic_load(&cmd->ep->target->namespaces);

	for (uint32_t i = 0; i < table->count && !cmd->status; i++)
		cmd->status = sync_file(table->ns[i], 0, table->ns[i]->blocks << table->ns[i]->shift);
}

void nvmfr__soft_io(struct soft_cmd *cmd)
{
	struct nvmfr_soft_target *target = cmd->ep->target;
	uint32_t nsid = from_le32(cmd->sqe->nsid);
	const struct soft_ns *ns;

	if (unlikely(!nvmfr__soft_ctrl_ready(target, cmd->ep->ctrl))) {
		nvmfr__soft_violation(cmd->ep, "opcode %02xh while the controller is not ready",
				      cmd->sqe->opcode);
		nvmfr__soft_refuse(cmd, NVME_ST_SEQUENCE_ERROR);
		return;
	}
	if (unlikely(cmd->sqe->opcode == NVME_IO_FLUSH && nsid == NVME_NSID_ALL)) {
		flush_all(cmd);
		return;
	}
	ns = nvmfr__soft_ns_find(target, nsid);
	if (unlikely(!ns)) {
		nvmfr__soft_refuse(cmd, NVME_ST_INVALID_NAMESPACE);
		return;
	}
	if (unlikely(target->opts.ana_groups)) {
		cmd->status = nvmfr__soft_ana_status(cmd->ep, ns);
		if (cmd->status)
			return;
	}
	if (unlikely(nvmfr__soft_reserved(ns->reserve)) && !nvmfr__soft_reserve_allows(cmd, ns)) {
		nvmfr__soft_refuse(cmd, NVME_ST_RESERVATION_CONFLICT);
		return;
	}
	switch (cmd->sqe->opcode) {
	case NVME_IO_READ:
		do_read(cmd, ns);
		return;
	case NVME_IO_WRITE:
		do_write(cmd, ns);
		return;
	case NVME_IO_FLUSH:
		cmd->status = sync_file(ns, 0, ns->blocks << ns->shift);
		return;
	default:
		do_optional(cmd, ns);
	}
}
