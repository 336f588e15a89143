/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <stdatomic.h>

#include "base/err.h"
#include "fabric/fabric.h"

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
