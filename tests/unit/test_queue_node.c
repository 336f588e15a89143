/* SPDX-License-Identifier: BSD-3-Clause */
/* From which NUMA node a queue pair is polled, and whether the service hears of it. */
#include "scripted.h"
#include "testing.h"

#include <sched.h>

static int here(void)
{
	unsigned int cpu, node;

	cr_assert_eq(getcpu(&cpu, &node), 0);
	return (int)node;
}

/* Polls that see so many ticks. */
static void poll_ticks(struct rig *rig, unsigned int n)
{
	struct nvmfr_completion cpl;

	for (unsigned int i = 0; i < n; i++) {
		atomic_fetch_add(&rig->tick, 1);
		cr_assert_eq(nvmfr__qpair_poll(rig->qp, &cpl, 1), 0);
	}
}

static int told(struct rig *rig)
{
	return atomic_load(&rig->qp->link.far_node);
}

Test(queue_node, an_owner_on_another_node_is_told_of_once)
{
	struct rig rig;

	rig_up(&rig, NULL);
	rig.s->dev.numa_node = here() + 1;
	(void)rig_service_rung(&rig);
	poll_ticks(&rig, FAR_LOOKS - 1);
	cr_expect_eq(told(&rig), -1, "it may only pass by");
	cr_expect(!rig_service_rung(&rig));
	poll_ticks(&rig, 1);
	cr_expect_eq(told(&rig), here());
	cr_expect(rig_service_rung(&rig));
	atomic_store(&rig.qp->link.far_node, -1);
	poll_ticks(&rig, 5 * FAR_LOOKS);
	cr_expect_eq(told(&rig), -1, "once is enough");
	cr_expect(!rig_service_rung(&rig));
	rig_down(&rig);
}

Test(queue_node, an_owner_that_comes_back_is_not)
{
	struct rig rig;

	rig_up(&rig, NULL);
	for (unsigned int i = 0; i < 5; i++) {
		rig.s->dev.numa_node = here() + 1;
		poll_ticks(&rig, FAR_LOOKS - 1);
		rig.s->dev.numa_node = here();
		poll_ticks(&rig, 1);
	}
	cr_expect_eq(told(&rig), -1);
	rig_down(&rig);
}

Test(queue_node, a_device_of_an_unknown_node_is_never_far)
{
	struct rig rig;

	rig_up(&rig, NULL);
	poll_ticks(&rig, 5 * FAR_LOOKS);
	cr_expect_eq(told(&rig), -1);
	rig_down(&rig);
}
