/* SPDX-License-Identifier: BSD-3-Clause */
/* Bad input to the embedded target. */
#include "refused.h"

Test(args, soft_targets)
{
	struct nvmfr_soft_opts opts = flow_soft_opts();
	struct nvmfr_soft_target *target;
	char *nqn = name_of(224);
	struct flow f;

	small_up(&f);
	REFUSED(nvmfr_soft_target_create(f.host, "t", NULL, &target), -EEXIST, "'t'");
	cr_expect_null(target);
	REFUSED(nvmfr_soft_target_create(f.host, "", NULL, &target), -EINVAL, "name");
	REFUSED(nvmfr_soft_target_create(f.host, NULL, NULL, &target), -EINVAL, "name");
	REFUSED(nvmfr_soft_target_create(f.host, "a/b", NULL, &target), -EINVAL, "a/b");
	REFUSED(nvmfr_soft_target_create(f.host, nqn, NULL, &target), -EINVAL, "63");
	REFUSED(nvmfr_soft_target_create(NULL, "x", NULL, &target), -EINVAL, "host is NULL");
	REFUSED(nvmfr_soft_target_create(f.host, "x", NULL, NULL), -EINVAL, "out is NULL");
	opts.flags = 0x100;
	REFUSED(nvmfr_soft_target_create(f.host, "x", &opts, &target), -EINVAL, "100");
	opts = flow_soft_opts();
	opts.reserved[0] = 1;
	REFUSED(nvmfr_soft_target_create(f.host, "x", &opts, &target), -EINVAL, "reserved");
	opts = flow_soft_opts();
	opts.subnqn = nqn;
	REFUSED(nvmfr_soft_target_create(f.host, "x", &opts, &target), -EINVAL, "223");
	free(nqn);
	flow_works(&f);
	flow_down(&f);
}

Test(args, soft_namespaces)
{
	struct nvmfr_soft_ns_opts good, opts;
	struct flow f;

	small_up(&f);
	nvmfr_soft_ns_opts_init(&good, sizeof(good));
	opts = good;
	opts.nsid = 1;
	REFUSED(nvmfr_soft_ns_add(f.target, &opts), -EEXIST, "namespace 1");
	opts = good;
	opts.nsid = 1025;
	REFUSED(nvmfr_soft_ns_add(f.target, &opts), -EINVAL, "NN");
	opts = good;
	opts.block_bytes = 520;
	REFUSED(nvmfr_soft_ns_add(f.target, &opts), -EINVAL, "520");
	opts = good;
	opts.size_bytes = 1000;
	REFUSED(nvmfr_soft_ns_add(f.target, &opts), -EINVAL, "1000");
	opts = good;
	opts.flags = 2;
	REFUSED(nvmfr_soft_ns_add(f.target, &opts), -EINVAL, "flags");
	opts = good;
	opts.path = "/nowhere/to/be/found";
	REFUSED(nvmfr_soft_ns_add(f.target, &opts), -ENOENT, "/nowhere/to/be/found");
	opts = good;
	opts.path = "/dev/null";
	REFUSED(nvmfr_soft_ns_add(f.target, &opts), -ENOTBLK, "/dev/null");
	REFUSED(nvmfr_soft_ns_add(NULL, &good), -EINVAL, "NULL");
	REFUSED(nvmfr_soft_ns_remove(f.target, 7), -ENOENT, "namespace 7");
	REFUSED(nvmfr_soft_ns_remove(NULL, 1), -EINVAL, "NULL");
	flow_works(&f);
	flow_down(&f);
}

Test(args, soft_faults)
{
	struct nvmfr_soft_fault fault = flow_fault(0, 0, 0, 0, 0);
	struct flow f;

	small_up(&f);
	REFUSED(nvmfr_soft_fault_add(f.target, &fault), -EINVAL, "kind 0");
	fault.kind = NVMFR_SOFT_FAULT_LINGER + 1;
	REFUSED(nvmfr_soft_fault_add(f.target, &fault), -EINVAL, "kind 23");
	fault.kind = NVMFR_SOFT_FAULT_SHORT;
	fault.value = 16;
	REFUSED(nvmfr_soft_fault_add(f.target, &fault), -EINVAL, "16");
	REFUSED(nvmfr_soft_fault_add(NULL, &fault), -EINVAL, "NULL");
	REFUSED(nvmfr_soft_fault_add(f.target, NULL), -EINVAL, "NULL");
	REFUSED(nvmfr_soft_patch_identify(f.target, 0, 1, 0, "", 0), -EINVAL, "0 bytes");
	REFUSED(nvmfr_soft_patch_identify(f.target, 0, 1, 0, "0123456789abcdef", 17), -EINVAL,
		"17 bytes");
	REFUSED(nvmfr_soft_patch_identify(f.target, 0, 1, 4095, "01", 2), -EINVAL, "4095");
	REFUSED(nvmfr_soft_patch_identify(f.target, 0, 1, UINT32_MAX, "01", 2), -EINVAL,
		"4294967295");
	REFUSED(nvmfr_soft_patch_identify(NULL, 0, 1, 0, "0", 1), -EINVAL, "NULL");
	REFUSED(nvmfr_soft_patch_identify(f.target, 0, 1, 0, NULL, 1), -EINVAL, "NULL");
	flow_works(&f);
	flow_down(&f);
}

Test(args, soft_patches_run_out)
{
	struct flow f;
	int got = 0;

	small_up(&f);
	for (unsigned int i = 0; i < 1000 && got == 0; i++)
		got = nvmfr_soft_patch_identify(f.target, 0x99, 1, 0, "0", 1);
	cr_expect_eq(got, -ENOSPC);
	flow_says("64");
	flow_down(&f);
}

Test(args, soft_counters)
{
	struct nvmfr_soft_counters none = { .size = 0 };
	char text[8] = "xxxxxxx";
	struct flow f;

	small_up(&f);
	REFUSED(nvmfr_soft_read_counters(f.target, &none), -EINVAL, "size");
	REFUSED(nvmfr_soft_read_counters(f.target, NULL), -EINVAL, "NULL");
	REFUSED(nvmfr_soft_read_counters(NULL, &none), -EINVAL, "NULL");
	nvmfr_soft_last_violation(NULL, text, sizeof(text));
	cr_expect_str_eq(text, "");
	nvmfr_soft_last_violation(f.target, NULL, 0);
	flow_down(&f);
}

Test(args, soft_clock)
{
	struct nvmfr_host_opts opts;
	struct nvmfr_host *host;
	struct flow f;

	flow_host_thread(&f);
	REFUSED(nvmfr_soft_clock_freeze(f.host), -EINVAL, "thread");
	REFUSED(nvmfr_soft_clock_advance_us(f.host, 1), -EINVAL, "frozen");
	REFUSED(nvmfr_soft_clock_freeze(NULL), -EINVAL, "NULL");
	REFUSED(nvmfr_soft_clock_advance_us(NULL, 1), -EINVAL, "NULL");
	flow_down(&f);
	nvmfr_host_opts_init(&opts, sizeof(opts));
	opts.flags = NVMFR_HOST_MANUAL;
	cr_assert_eq(nvmfr_host_create(&opts, &host), 0);
	REFUSED(nvmfr_soft_clock_advance_us(host, 1), -EINVAL, "frozen");
	nvmfr_host_destroy(host);
}
