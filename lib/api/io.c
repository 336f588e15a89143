/* SPDX-License-Identifier: BSD-3-Clause */
/* The data path's entry points: a look at the pointers, then one call down. */
#include <errno.h>

#include <nvmfr/cmd.h>

#include "base/err.h"
#include "queue/command.h"
#include "queue/prepared.h"
#include "queue/ranges.h"
#include "queue/reserve.h"

static __attribute__((noinline, cold)) int bad(const char *what)
{
	return nvmfr__fail(-EINVAL, "%s", what);
}

int nvmfr_read(struct nvmfr_qpair *qp, uint32_t nsid, uint64_t lba, uint64_t nblocks,
	       struct nvmfr_buffer *buf, uint64_t offset_bytes, uint64_t user_data)
{
	if (unlikely(!qp))
		return bad("qp is NULL");
	return nvmfr__qpair_read(qp, nsid, lba, nblocks, buf, offset_bytes, user_data);
}

int nvmfr_write(struct nvmfr_qpair *qp, uint32_t nsid, uint64_t lba, uint64_t nblocks,
		struct nvmfr_buffer *buf, uint64_t offset_bytes, uint64_t user_data)
{
	if (unlikely(!qp))
		return bad("qp is NULL");
	return nvmfr__qpair_write(qp, nsid, lba, nblocks, buf, offset_bytes, user_data);
}

int nvmfr_submit(struct nvmfr_qpair *qp, const struct nvmfr_io *ios, unsigned int n)
{
	if (unlikely(!qp || !ios || (int)n <= 0))
		return bad("qp or ios is NULL, or n is 0 or too large");
	return nvmfr__qpair_submit(qp, ios, n);
}

int nvmfr_submit_cmd(struct nvmfr_qpair *qp, const struct nvmfr_cmd *cmd, struct nvmfr_buffer *buf,
		     uint64_t offset_bytes, uint64_t len_bytes, uint64_t user_data)
{
	if (!qp || !cmd)
		return bad("qp or cmd is NULL");
	return nvmfr__qpair_command(qp, cmd, buf, offset_bytes, len_bytes, user_data);
}

int nvmfr_deallocate(struct nvmfr_qpair *qp, uint32_t nsid, const struct nvmfr_range *ranges, unsigned int n,
		     struct nvmfr_buffer *list, uint64_t list_offset_bytes, uint64_t user_data)
{
	if (!qp || !ranges)
		return bad("qp or ranges is NULL");
	return nvmfr__qpair_deallocate(qp, nsid, ranges, n, list, list_offset_bytes, user_data);
}

int nvmfr_copy(struct nvmfr_qpair *qp, uint32_t nsid, uint64_t lba, const struct nvmfr_range *ranges, unsigned int n,
	       struct nvmfr_buffer *list, uint64_t list_offset_bytes, uint64_t user_data)
{
	if (!qp || !ranges)
		return bad("qp or ranges is NULL");
	return nvmfr__qpair_copy(qp, nsid, lba, ranges, n, list, list_offset_bytes, user_data);
}

int nvmfr_compare_and_write(struct nvmfr_qpair *qp, const struct nvmfr_io *pair)
{
	if (!qp || !pair)
		return bad("qp or pair is NULL");
	return nvmfr__qpair_fused(qp, pair);
}

int nvmfr_reserve(struct nvmfr_qpair *qp, const struct nvmfr_reserve *what, struct nvmfr_buffer *keys,
		  uint64_t keys_offset_bytes, uint64_t user_data)
{
	if (!qp || !what)
		return bad("qp or what is NULL");
	return nvmfr__qpair_reserve(qp, what, keys, keys_offset_bytes, user_data);
}

int nvmfr_report_reservations(struct nvmfr_qpair *qp, uint32_t nsid, struct nvmfr_buffer *buf, uint64_t offset_bytes,
			      uint64_t len_bytes, uint64_t user_data)
{
	if (!qp)
		return bad("qp is NULL");
	return nvmfr__qpair_report(qp, nsid, buf, offset_bytes, len_bytes, user_data);
}

int nvmfr_prepare(struct nvmfr_qpair *qp, const struct nvmfr_io *ios, unsigned int n,
		  struct nvmfr_prepared **out)
{
	if (out)
		*out = NULL;
	if (!qp || !ios || !out || (int)n <= 0)
		return bad("qp, ios or out is NULL, or n is 0 or too large");
	return nvmfr__prepare(qp, ios, n, out);
}

int nvmfr_post(struct nvmfr_prepared *list, unsigned int first, unsigned int n)
{
	if (unlikely(!list || n == 0))
		return bad("list is NULL, or n is 0");
	if (unlikely(first >= list->n || n > list->n - first))
		return nvmfr__fail(-ERANGE, "I/Os %u and %u more are not all in a list of %u", first, n - 1, list->n);
	return nvmfr__prepared_post(list, first, n);
}

void nvmfr_prepared_release(struct nvmfr_prepared *list)
{
	nvmfr__prepared_free(list);
}

int nvmfr_poll(struct nvmfr_qpair *qp, struct nvmfr_completion *out, unsigned int max)
{
	if (unlikely(!qp || !out || (int)max <= 0))
		return bad("qp or out is NULL, or max is 0 or too large");
	return nvmfr__qpair_poll(qp, out, max);
}
