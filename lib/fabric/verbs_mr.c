/* SPDX-License-Identifier: BSD-3-Clause */
/* Registration, and why it fails. */
#include "fabric/verbs.h"

#include <errno.h>
#include <stdio.h>

#include "base/err.h"
#include "fabric/pages.h"

/* SOURCE alone asks for no write access: read-only memory can then be pinned. */
static unsigned int access_flags(uint32_t access)
{
	unsigned int flags = 0;

	if (access & FAB_ACCESS_SOURCE)
		flags |= IBV_ACCESS_REMOTE_READ;
	if (access & FAB_ACCESS_TARGET)
		flags |= IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
	return flags;
}

static int no_memory(const struct fab_dev *dev, size_t bytes)
{
	uint64_t limit = nvmfr__pages_lock_limit();

	if (limit == UINT64_MAX)
		return nvmfr__fail(-ENOMEM,
				   "device %s cannot register %zu bytes: it or the kernel is out of"
				   " memory regions or memory",
				   dev->name, bytes);
	return nvmfr__fail(
		-ENOMEM,
		"device %s cannot register %zu bytes: the limit of locked memory is %llu bytes;"
		" raise it (ulimit -l, memlock in /etc/security/limits.conf, LimitMEMLOCK= of a"
		" service, --ulimit memlock of a container)",
		dev->name, bytes, (unsigned long long)limit);
}

static int reg_failed(const struct fab_dev *dev, const void *addr, size_t bytes, int err)
{
	const char *cause = nvmfr__strerror(err);

	switch (err) {
	case ENOMEM:
	case EAGAIN: return no_memory(dev, bytes);
	case EFAULT:
		cause = "a page is not mapped, not writable, or of a kind that cannot be pinned (a device's memory,"
			" a file that the kernel writes back): copy it, or register a dma-buf";
		break;
	case EINVAL: cause = "the device takes no memory region of this size or kind"; break;
	case EOPNOTSUPP: cause = "the kernel cannot pin this kind of memory"; break;
	case EACCES:
	case EPERM: cause = "no permission to pin it as asked"; break;
	default: break;
	}
	return nvmfr__fail(err > 0 ? -err : -EIO, "device %s cannot register %zu bytes at %p: %s",
			   dev->name, bytes, addr, cause);
}

static void take_mr(struct fab_mr *mr, struct ibv_mr *handle)
{
	*mr = (struct fab_mr){ .lkey = handle->lkey, .rkey = handle->rkey, .handle = handle };
}

int nvmfr__verbs_mr_reg(struct fab_dev *fdev, void *addr, size_t bytes, uint32_t access,
			struct fab_mr *mr)
{
	struct verbs_dev *dev = nvmfr__to_verbs_dev(fdev);
	struct ibv_mr *handle = ibv_reg_mr(dev->pd, addr, bytes, access_flags(access));

	if (!handle)
		return reg_failed(fdev, addr, bytes, errno);
	take_mr(mr, handle);
	return 0;
}

static int dmabuf_failed(const struct fab_dev *dev, int fd, size_t bytes, int err)
{
	const char *cause = nvmfr__strerror(err);

	switch (err) {
	case ENOMEM: return no_memory(dev, bytes);
	case EOPNOTSUPP:
	case ENOSYS:
	case EPROTONOSUPPORT:
		cause = "the device's driver or this kernel has no dma-buf registration";
		err = EOPNOTSUPP;
		break;
	case EBADF: cause = "the descriptor is closed or no dma-buf"; break;
	case EINVAL:
		cause = "the range is not inside the dma-buf, or the descriptor is no dma-buf";
		break;
	default: break;
	}
	return nvmfr__fail(err > 0 ? -err : -EIO,
			   "device %s cannot register %zu bytes of dma-buf %d: %s", dev->name,
			   bytes, fd, cause);
}

int nvmfr__verbs_mr_reg_dmabuf(struct fab_dev *fdev, int fd, uint64_t offset, size_t bytes,
			       uint64_t iova, uint32_t access, struct fab_mr *mr)
{
	struct verbs_dev *dev = nvmfr__to_verbs_dev(fdev);
	struct ibv_mr *handle;

	/* the device translates whole pages: address and place must lie alike in theirs */
	if ((offset ^ iova) % PAGE_BYTES)
		return nvmfr__fail(
			-EINVAL,
			"device %s: dma-buf offset %llu and address 0x%llx differ within their"
			" pages",
			fdev->name, (unsigned long long)offset, (unsigned long long)iova);
	handle = ibv_reg_dmabuf_mr(dev->pd, offset, bytes, iova, fd, (int)access_flags(access));
	if (!handle)
		return dmabuf_failed(fdev, fd, bytes, errno);
	take_mr(mr, handle);
	return 0;
}

void nvmfr__verbs_mr_dereg(struct fab_dev *dev, struct fab_mr *mr)
{
	(void)dev;
	if (mr->handle)
		ibv_dereg_mr(mr->handle);
	*mr = (struct fab_mr){ 0 };
}
