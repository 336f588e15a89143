/* SPDX-License-Identifier: BSD-3-Clause */
#include "wire/ana.h"

#include <errno.h>
#include <string.h>

#include "base/err.h"

/* Takes n bytes; false: the piece has no more, the next one begins here. */
static bool take(struct ana_reader *reader, const void *piece, size_t bytes, size_t *at, void *out, size_t n)
{
	if (bytes - *at < n)
		return false;
	memcpy(out, (const unsigned char *)piece + *at, n);
	*at += n;
	reader->offset += n;
	return true;
}

static int begin_group(struct ana_reader *reader, const struct nvme_ana_group *group)
{
	reader->groups--;
	reader->group = from_le32(group->anagrpid);
	reader->state = group->state & 0xf;
	reader->nsids = from_le32(group->nnsids);
	if (reader->nsids > NVME_ANA_MAX_NSIDS - reader->nsids_read)
		return nvmfr__fail(-EPROTO, "the ANA log has more than %d namespaces: group %u alone has %u",
				   NVME_ANA_MAX_NSIDS, reader->group, reader->nsids);
	reader->nsids_read += reader->nsids;
	return 0;
}

int nvme_ana_next(struct ana_reader *reader, const void *piece, size_t bytes, size_t *at, struct ana_item *item)
{
	struct nvme_ana_header header;
	struct nvme_ana_group group;
	le32 nsid;
	int err;

	if (!reader->begun) {
		if (!take(reader, piece, bytes, at, &header, sizeof(header)))
			return 0;
		reader->begun = true;
		reader->change_count = from_le64(header.chgcnt);
		reader->groups = from_le16(header.ngrps);
	}
	while (reader->nsids == 0) {
		reader->done = reader->groups == 0;
		if (reader->done || !take(reader, piece, bytes, at, &group, sizeof(group)))
			return 0;
		err = begin_group(reader, &group);
		if (err)
			return err;
	}
	if (!take(reader, piece, bytes, at, &nsid, sizeof(nsid)))
		return 0;
	reader->nsids--;
	*item = (struct ana_item){ .nsid = from_le32(nsid), .group = reader->group, .state = reader->state };
	return 1;
}
