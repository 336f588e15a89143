/* SPDX-License-Identifier: BSD-3-Clause */
/* A group on the soft fabric: its owner looks at each endpoint in turn. */
#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>

#include "base/err.h"
#include "fabric/soft.h"

struct soft_group {
	struct fab_group base;
	int epoll_fd;
	struct soft_ep *eps;
};

static struct soft_group *to_group(struct fab_group *base)
{
	return container_of(base, struct soft_group, base);
}

int nvmfr__soft_group_create(struct fab *fab, const struct fab_group_params *params,
			     struct fab_group **out)
{
	struct soft_group *group = calloc(1, sizeof(*group));

	(void)fab;
	if (!group)
		return nvmfr__fail(-ENOMEM, "soft: no memory for a group");
	nvmfr__fab_group_init(&group->base, &nvmfr__fab_soft);
	group->base.alone = true;
	group->epoll_fd = params->epoll_fd;
	*out = &group->base;
	return 0;
}

void nvmfr__soft_group_destroy(struct fab_group *base)
{
	free(to_group(base));
}

int nvmfr__soft_group_adopt(struct fab_ep *base, void *member)
{
	struct soft_group *group = to_group(base->group);
	struct soft_ep *ep = nvmfr__soft_ep(base);
	struct epoll_event event = { .events = EPOLLIN };

	if (epoll_ctl(group->epoll_fd, EPOLL_CTL_ADD, ep->timer_fd, &event))
		return nvmfr__fail(-errno, "%s: its descriptor cannot be watched: %s", base->peer,
				   nvmfr__strerror(errno));
	base->member = member;
	ep->group_next = group->eps;
	ep->group_prev = &group->eps;
	if (group->eps)
		group->eps->group_prev = &ep->group_next;
	group->eps = ep;
	return 0;
}

void nvmfr__soft_group_disown(struct soft_ep *ep)
{
	/* To close it would do, but for a forked child that has it, too. */
	epoll_ctl(to_group(ep->ep.group)->epoll_fd, EPOLL_CTL_DEL, ep->timer_fd, NULL);
	*ep->group_prev = ep->group_next;
	if (ep->group_next)
		ep->group_next->group_prev = ep->group_prev;
	nvmfr__fab_group_drop_ready(ep->ep.group, &ep->ep);
	ep->ep.member = NULL;
}

struct fab_ep *nvmfr__soft_group_pump(struct fab_group *base)
{
	for (struct soft_ep *ep = to_group(base)->eps; ep; ep = ep->group_next)
		if (nvmfr__soft_may_have_news(ep))
			fab_group_add_ready(base, &ep->ep);
	return NULL;
}

int nvmfr__soft_group_arm(struct fab_group *base)
{
	int result = 0;

	for (struct soft_ep *ep = to_group(base)->eps; ep; ep = ep->group_next) {
		int armed = nvmfr__soft_arm_alone(ep);

		if (armed < 0)
			return armed;
		result |= armed;
	}
	return result;
}

/* What another one has shall not keep awake who sleeps for this one. */
void nvmfr__soft_group_hush(const struct soft_ep *ep)
{
	for (struct soft_ep *other = to_group(ep->ep.group)->eps; other; other = other->group_next)
		if (other != ep)
			nvmfr__soft_disarm(other);
}
