/* SPDX-License-Identifier: BSD-3-Clause */
/* Devices: opened when an address leads to one, kept until the fab is closed or the device is gone. */
#include "fabric/verbs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/err.h"

/* ---- opening ---------------------------------------------------------------------------------- */

int nvmfr__verbs_numa_node(const struct ibv_device *device)
{
	char path[IBV_SYSFS_PATH_MAX + 32];
	FILE *file;
	int node;

	snprintf(path, sizeof(path), "%s/device/numa_node", device->ibdev_path);
	file = fopen(path, "re");
	if (!file)
		return -1;
	if (fscanf(file, "%d", &node) != 1 || node < 0)
		node = -1;
	fclose(file);
	return node;
}

static int watch_fd(struct verbs_fab *fab, int fd, void *what)
{
	struct epoll_event event = { .events = EPOLLIN, .data.ptr = what };

	if (fcntl(fd, F_SETFL, O_NONBLOCK) < 0 ||
	    epoll_ctl(fab->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0)
		return nvmfr__fail(-errno, "an RDMA event descriptor cannot be waited for: %s",
				   nvmfr__strerror(errno));
	return 0;
}

/* Without it a device works, only the news of it come later: from WCs and the connection manager. */
static void open_watch(struct verbs_fab *fab, struct verbs_dev *dev)
{
	dev->watch = ibv_open_device(dev->ctx->device);
	if (dev->watch && !watch_fd(fab, dev->watch->async_fd, dev))
		return;
	nvmfr__log(fab->fh->log, NVMFR__LOG_WARN, "device %s: its async events cannot be heard: %s",
		   dev->base.name, nvmfr__strerror(errno));
	if (dev->watch)
		ibv_close_device(dev->watch);
	dev->watch = NULL;
}

/* librdmacm closes the context of a device that went as soon as no id is on it; MRs may be, still. */
static void open_keeper(struct verbs_fab *fab, struct verbs_dev *dev, struct rdma_cm_id *id)
{
	struct sockaddr_storage addr = id->route.addr.src_storage;

	/* sin_port and sin6_port are at the same place */
	((struct sockaddr_in *)&addr)->sin_port = 0;
	if (!rdma_create_id(fab->channel, &dev->keeper, NULL, RDMA_PS_TCP) &&
	    !rdma_bind_addr(dev->keeper, (struct sockaddr *)&addr))
		return;
	nvmfr__log(fab->fh->log, NVMFR__LOG_DEBUG, "device %s: no idle id on it: %s",
		   dev->base.name, nvmfr__strerror(errno));
}

/* Before the first registration; a kernel that copies pinned pages at fork needs nothing. */
static void init_fork(struct verbs_fab *fab)
{
	int err = 0;

	if (ibv_is_fork_initialized() == IBV_FORK_DISABLED)
		err = ibv_fork_init();
	if (err)
		nvmfr__log(
			fab->fh->log, NVMFR__LOG_WARN,
			"ibv_fork_init: %s: registered memory may change under this process when it forks",
			nvmfr__strerror(err));
}

/* What a queue of some depth needs of a device: rings a little longer, every SEND perhaps signaled. */
static uint32_t device_depth(const struct ibv_device_attr *attr)
{
	uint32_t spare = 2 * FAB_SIGNAL_EVERY, depth = UINT32_MAX;

	if (attr->max_qp_wr > 0)
		depth = (uint32_t)attr->max_qp_wr;
	if (attr->max_cqe > 0)
		depth = nvmfr__min_u32(depth, (uint32_t)attr->max_cqe / 2);
	return depth > spare ? depth - spare : 1;
}

static int fill_dev(struct verbs_dev *dev, struct rdma_cm_id *id)
{
	const struct ibv_device *device = id->verbs->device;
	int err;

	dev->ctx = id->verbs;
	snprintf(dev->base.name, sizeof(dev->base.name), "%s", device->name);
	dev->base.ops = &nvmfr__fab_verbs;
	dev->base.numa_node = nvmfr__verbs_numa_node(device);
	err = ibv_query_device(dev->ctx, &dev->attr);
	if (err)
		return nvmfr__fail(-err, "device %s does not answer: %s", device->name,
				   nvmfr__strerror(err));
	dev->base.max_sge = (uint32_t)MAX(dev->attr.max_sge, 0);
	dev->base.max_depth = device_depth(&dev->attr);
	dev->base.max_mr_bytes = dev->attr.max_mr_size ? dev->attr.max_mr_size : UINT64_MAX;
	dev->pd = ibv_alloc_pd(dev->ctx);
	if (!dev->pd)
		return nvmfr__fail(-errno, "device %s gives no protection domain: %s", device->name,
				   nvmfr__strerror(errno));
	return 0;
}

static void close_dev(struct verbs_dev *dev)
{
	if (dev->pd)
		ibv_dealloc_pd(dev->pd);
	if (dev->watch)
		ibv_close_device(dev->watch);
	if (dev->keeper)
		rdma_destroy_id(dev->keeper);
	free(dev);
}

struct verbs_dev *nvmfr__verbs_dev_get(struct verbs_fab *fab, struct rdma_cm_id *id)
{
	struct verbs_dev *dev;

	for (dev = fab->devs; dev; dev = dev->next)
		if (dev->ctx == id->verbs && !dev->base.gone)
			return dev;
	init_fork(fab);
	dev = calloc(1, sizeof(*dev));
	if (!dev) {
		nvmfr__fail(-ENOMEM, "no memory for device %s", id->verbs->device->name);
		return NULL;
	}
	if (fill_dev(dev, id) || nvmfr__fab_dev_add(fab->fh, &dev->base)) {
		close_dev(dev);
		return NULL;
	}
	open_watch(fab, dev);
	open_keeper(fab, dev, id);
	dev->next = fab->devs;
	fab->devs = dev;
	nvmfr__log(fab->fh->log, NVMFR__LOG_INFO, "device %s opened, NUMA node %d", dev->base.name,
		   dev->base.numa_node);
	return dev;
}

/*
 * librdmacm finds out that a device went when it looks for devices, and keeps its context until then. The kernel
 * waits for that with the removal, unless the driver can take contexts back: soft-RoCE cannot. Without another device
 * librdmacm's look fails, and the context stays.
 */
static void have_rdmacm_look(void)
{
	struct ibv_context **list = rdma_get_devices(NULL);

	if (list)
		rdma_free_devices(list);
}

/* With the keeper goes the last id on its context, which librdmacm then closes. */
static void verbs_dev_close(struct fab *opaque, struct fab_dev *fdev)
{
	struct verbs_fab *fab = nvmfr__to_verbs_fab(opaque);
	struct verbs_dev *dev = nvmfr__to_verbs_dev(fdev), **at = &fab->devs;
	bool gone;

	while (*at != dev)
		at = &(*at)->next;
	*at = dev->next;
	fab->fh->devs[fdev->index] = NULL;
	nvmfr__log(fab->fh->log, NVMFR__LOG_INFO, "device %s closed", fdev->name);
	gone = fdev->gone;
	close_dev(dev);
	if (gone)
		have_rdmacm_look();
}

/* ---- async events ----------------------------------------------------------------------------- */

static void mark_gone(struct verbs_fab *fab, struct verbs_dev *dev)
{
	dev->base.gone = true;
	for (struct verbs_ep *ep = fab->eps; ep; ep = ep->next) {
		if (ep->dev != dev || ep->lost || ep->state == VERBS_DOWN)
			continue;
		ep->lost = true;
		fab->lost++;
	}
	nvmfr__verbs_groups_gone(fab);
}

void nvmfr__verbs_gone(struct verbs_fab *fab, const struct ibv_context *ctx)
{
	for (struct verbs_dev *dev = fab->devs; dev; dev = dev->next)
		if (dev->ctx == ctx)
			mark_gone(fab, dev);
}

static void take_async(struct verbs_fab *fab, struct verbs_dev *dev)
{
	struct ibv_async_event event;
	enum ibv_event_type type;
	int port;

	while (!ibv_get_async_event(dev->watch, &event)) {
		type = event.event_type;
		port = event.element.port_num;
		ibv_ack_async_event(&event);
		if (type == IBV_EVENT_DEVICE_FATAL) {
			nvmfr__log(fab->fh->log, NVMFR__LOG_ERROR, "device %s failed",
				   dev->base.name);
			mark_gone(fab, dev);
		} else {
			nvmfr__log(fab->fh->log,
				   type == IBV_EVENT_PORT_ERR ? NVMFR__LOG_WARN : NVMFR__LOG_INFO,
				   "device %s port %d: %s", dev->base.name, port,
				   ibv_event_type_str(type));
		}
	}
	if (errno == EAGAIN || errno == EINTR)
		return;
	/* the descriptor of a device that was pulled stays readable and gives nothing */
	epoll_ctl(fab->epoll_fd, EPOLL_CTL_DEL, dev->watch->async_fd, NULL);
	ibv_close_device(dev->watch);
	dev->watch = NULL;
	mark_gone(fab, dev);
}

void nvmfr__verbs_watch(struct verbs_fab *fab)
{
	for (struct verbs_dev *dev = fab->devs; dev; dev = dev->next)
		if (dev->watch)
			take_async(fab, dev);
}

/* ---- a host's verbs --------------------------------------------------------------------------- */

static void verbs_close(struct fab *opaque)
{
	struct verbs_fab *fab = nvmfr__to_verbs_fab(opaque);

	while (fab->devs)
		verbs_dev_close(opaque, &fab->devs->base);
	if (fab->channel)
		rdma_destroy_event_channel(fab->channel);
	if (fab->epoll_fd >= 0)
		close(fab->epoll_fd);
	free(fab);
}

static int open_channel(struct verbs_fab *fab)
{
	fab->channel = rdma_create_event_channel();
	if (!fab->channel)
		return nvmfr__fail(
			errno == ENOMEM ? -ENOMEM : -ENODEV,
			"no RDMA on this machine: the connection manager cannot be opened (%s); an RDMA"
			" device, its verbs provider and the kernel module rdma_ucm are needed",
			nvmfr__strerror(errno));
	return watch_fd(fab, fab->channel->fd, NULL);
}

static int verbs_open(struct fab_host *fh, struct fab **out)
{
	struct verbs_fab *fab = calloc(1, sizeof(*fab));
	int err;

	if (!fab)
		return nvmfr__fail(-ENOMEM, "no memory for the verbs backend");
	fab->fh = fh;
	fab->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (fab->epoll_fd < 0)
		err = nvmfr__fail(-errno, "no descriptor for RDMA events: %s",
				  nvmfr__strerror(errno));
	else
		err = open_channel(fab);
	if (err) {
		verbs_close((struct fab *)(void *)fab);
		return err;
	}
	*out = (struct fab *)(void *)fab;
	return 0;
}

static int verbs_fd(const struct fab *opaque)
{
	return ((const struct verbs_fab *)(const void *)opaque)->epoll_fd;
}

static uint64_t verbs_due_ns(const struct fab *opaque)
{
	return ((const struct verbs_fab *)(const void *)opaque)->lost ? 0 : UINT64_MAX;
}

static int verbs_ep_fd(const struct fab_ep *fep)
{
	const struct verbs_ep *ep = (const struct verbs_ep *)(const void *)fep;

	return ep->comp ? ep->comp->fd : -1;
}

static uint64_t verbs_ep_due_ns(const struct fab_ep *fep)
{
	(void)fep;
	return UINT64_MAX;
}

_Static_assert(offsetof(struct verbs_ep, base) == 0, "verbs_ep_fd casts");

/* What does not depend on whose CQ it is. */
/* clang-format off */
#define VERBS_COMMON                                                                         \
	.name = "verbs", .open = verbs_open, .close = verbs_close, .fd = verbs_fd,           \
	.next_event = nvmfr__verbs_next_event, .due_ns = verbs_due_ns,                       \
	.ep_create = nvmfr__verbs_ep_create, .ep_connect = nvmfr__verbs_ep_connect,          \
	.ep_disconnect = nvmfr__verbs_ep_disconnect, .ep_stop = nvmfr__verbs_stop,           \
	.ep_destroy = nvmfr__verbs_ep_destroy, .mr_reg = nvmfr__verbs_mr_reg,                \
	.mr_reg_dmabuf = nvmfr__verbs_mr_reg_dmabuf, .mr_dereg = nvmfr__verbs_mr_dereg,      \
	.dev_close = verbs_dev_close,                                                        \
	.post_send = nvmfr__verbs_post_send, .post_carrying = nvmfr__verbs_post_carrying,    \
	.post_recv = nvmfr__verbs_post_recv, .ep_fd = verbs_ep_fd,                           \
	.ep_due_ns = verbs_ep_due_ns, .group_create = nvmfr__verbs_group_create,             \
	.group_destroy = nvmfr__verbs_group_destroy, .group_adopt = nvmfr__verbs_group_adopt, \
	.group_pump = nvmfr__verbs_group_pump, .group_arm = nvmfr__verbs_group_arm
/* clang-format on */

const struct fab_ops nvmfr__fab_verbs = {
	VERBS_COMMON,
	.poll = nvmfr__verbs_poll,
	.arm = nvmfr__verbs_arm,
};

/* Of endpoints in a group: only they pay for it. */
const struct fab_ops nvmfr__fab_verbs_grouped = {
	VERBS_COMMON,
	.poll = nvmfr__verbs_group_poll,
	.arm = nvmfr__verbs_group_arm_ep,
};
