/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <stdatomic.h>

#include "base/err.h"
#include "fabric/fabric.h"

void nvmfr__fab_group_init(struct fab_group *group, const struct fab_ops *ops)
{
	group->ops = ops;
	group->ready = NULL;
	group->ready_tail = &group->ready;
}

void nvmfr__fab_group_drop_ready(struct fab_group *group, struct fab_ep *ep)
{
	struct fab_ep **at = &group->ready;

	ep->mail = 0;
	if (!ep->ready)
		return;
	while (*at != ep)
		at = &(*at)->next_ready;
	*at = ep->next_ready;
	if (!*at)
		group->ready_tail = at;
	ep->ready = false;
}

int nvmfr__fab_dev_add(struct fab_host *fh, struct fab_dev *dev)
{
	for (unsigned int i = 0; i < FAB_MAX_DEVICES; i++) {
		struct fab_dev *none = NULL;

		dev->index = i;
		if (atomic_compare_exchange_strong(&fh->devs[i], &none, dev))
			return 0;
	}
	return nvmfr__fail(-ENOSPC, "device %s: %d devices are open already, more are not supported",
			   dev->name, FAB_MAX_DEVICES);
}
