/* SPDX-License-Identifier: BSD-3-Clause */
/* Buffers over a device of our own, which keeps account of its memory regions. */
#include "testing.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/err.h"
#include "base/util.h"
#include "fabric/buffer.h"
#include "fabric/pages.h"

#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)

enum { PAGE = 4096, MAX_PIECES = 64 };

/* ---- the device ------------------------------------------------------------------------------- */

struct piece {
	uint64_t start, bytes;
	bool live;
};

static struct fake {
	struct piece pieces[MAX_PIECES];
	uint32_t count, live, calls;
	uint32_t fail_at; /* the n-th call, 1-based */
	int fail_err;
	uint64_t refuse_above; /* bytes of an MR; 0: takes any */
	uint64_t dmabuf_offset; /* of the last */
	uint32_t access;
} fake;

static int take_piece(uint64_t start, size_t bytes, uint32_t access, struct fab_mr *mr)
{
	fake.calls++;
	fake.access = access;
	if (fake.calls == fake.fail_at || (fake.refuse_above && bytes > fake.refuse_above))
		return nvmfr__fail(fake.fail_err, "the device's sentence");
	fake.pieces[fake.count] = (struct piece){ start, bytes, true };
	*mr = (struct fab_mr){ .lkey = 100 + fake.count,
			       .rkey = 200 + fake.count,
			       .handle = &fake.pieces[fake.count] };
	fake.count++;
	fake.live++;
	return 0;
}

static int fake_reg(struct fab_dev *dev, void *addr, size_t bytes, uint32_t access,
		    struct fab_mr *mr)
{
	(void)dev;
	return take_piece((uintptr_t)addr, bytes, access, mr);
}

static int fake_reg_dmabuf(struct fab_dev *dev, int fd, uint64_t offset, size_t bytes,
			   uint64_t iova, uint32_t access, struct fab_mr *mr)
{
	(void)dev;
	(void)fd;
	fake.dmabuf_offset = offset;
	return take_piece(iova, bytes, access, mr);
}

static void fake_dereg(struct fab_dev *dev, struct fab_mr *mr)
{
	struct piece *piece = mr->handle;

	(void)dev;
	cr_expect(piece && piece->live);
	piece->live = false;
	fake.live--;
	*mr = (struct fab_mr){ 0 };
}

static const struct fab_ops ops = {
	.name = "fake",
	.mr_reg = fake_reg,
	.mr_reg_dmabuf = fake_reg_dmabuf,
	.mr_dereg = fake_dereg,
};

static struct fab_dev fake_dev(uint64_t max_mr_bytes)
{
	fake = (struct fake){ 0 };
	return (struct fab_dev){
		.ops = &ops, .index = 2, .max_mr_bytes = max_mr_bytes, .name = "fake0"
	};
}

/* No memory is behind it: nobody looks. */
static struct nvmfr_buffer buffer_of(uint64_t len)
{
	return (struct nvmfr_buffer){
		.addr = 0x10000123,
		.len = len,
		.access = FAB_ACCESS_SOURCE | FAB_ACCESS_TARGET,
	};
}

/* ---- attach and keys -------------------------------------------------------------------------- */

Test(buffer, one_region)
{
	struct fab_dev dev = fake_dev(UINT64_MAX);
	struct nvmfr_buffer buf = buffer_of(700 * GIB + 5);

	cr_assert_eq(nvmfr__buffer_attach(&buf, &dev), 0);
	cr_expect_eq(fake.count, 1u);
	cr_expect_eq(fake.access, 3u);
	cr_expect(fake.pieces[0].start == buf.addr && fake.pieces[0].bytes == buf.len);
	cr_expect_eq(buf.keys[2].access, 3u);
	cr_expect_eq(buf.keys[2].lkey, 100u);
	cr_expect_eq(buf.keys[2].rkey, 200u);
	cr_expect_eq(buf.keys[2].count, 1u);
	cr_assert_eq(nvmfr__buffer_attach(&buf, &dev), 0);
	cr_expect_eq(fake.calls, 1u, "attached twice, registered once");
	nvmfr__buffer_detach(&buf, &dev);
	cr_expect(!fake.live && !buf.keys[2].count && !buf.keys[2].access && !buf.mrs[2]);
	nvmfr__buffer_detach(&buf, &dev);
}

/* Every range of at most a seam's length, wherever it begins, lies in the MR that keys names. */
static void check_range(const struct nvmfr_buffer *buf, const struct fab_dev *dev, uint64_t offset,
			uint64_t bytes)
{
	uint64_t got = bytes;
	uint32_t rkey, lkey;
	struct piece *p;

	cr_assert_eq(nvmfr__buffer_keys(buf, dev, offset, &got, FAB_ACCESS_TARGET, &rkey, &lkey),
		     0);
	p = &fake.pieces[rkey - 200];
	cr_expect_eq(lkey, rkey - 100);
	cr_expect(got <= bytes && got >= nvmfr__min_u64(bytes, FAB_SEAM_BYTES));
	cr_expect(buf->addr + offset >= p->start && buf->addr + offset + got <= p->start + p->bytes,
		  "offset %llu", (unsigned long long)offset);
}

static void check_split(uint64_t len, uint64_t max_mr_bytes)
{
	struct fab_dev dev = fake_dev(max_mr_bytes);
	struct nvmfr_buffer buf = buffer_of(len);
	uint64_t stride;

	cr_assert_eq(nvmfr__buffer_attach(&buf, &dev), 0, "%s", nvmfr__err_get());
	stride = buf.stride[2];
	cr_expect_eq(buf.keys[2].access, 0u, "the fast path must not take the first key for all");
	for (uint32_t k = 0; k < fake.count; k++) {
		cr_expect_leq(fake.pieces[k].bytes, max_mr_bytes);
		for (uint64_t at = k * stride, back = 0; back < 3; back++) {
			if (at >= back && at - back < len)
				check_range(&buf, &dev, at - back,
					    nvmfr__min_u64(FAB_SEAM_BYTES, len - (at - back)));
			if (at + back < len)
				check_range(&buf, &dev, at + back, len - at - back);
		}
	}
	cr_expect_gt(fake.pieces[fake.count - 1].bytes, (uint64_t)FAB_SEAM_BYTES, "the last is needed");
	check_range(&buf, &dev, len - 1, 1);
	check_range(&buf, &dev, 0, len);
	nvmfr__buffer_detach(&buf, &dev);
	cr_expect_eq(fake.live, 0u);
}

Test(buffer, split_with_overlap)
{
	check_split(2 * MIB + 1, 2 * MIB);
	check_split(3 * MIB, 2 * MIB);
	check_split(3 * MIB + 1, 2 * MIB);
	check_split(3 * MIB - 1, 2 * MIB);
	check_split(20 * MIB + 17, 4 * MIB + 1234);
	check_split(100 * GIB + 77, 2 * GIB);
}

Test(buffer, a_device_with_tiny_regions_is_refused)
{
	struct fab_dev dev = fake_dev(MIB);
	struct nvmfr_buffer buf = buffer_of(2 * MIB);

	cr_expect_eq(nvmfr__buffer_attach(&buf, &dev), -EOPNOTSUPP);
	cr_expect_eq(fake.calls, 0u);
	buf.len = MIB;
	cr_expect_eq(nvmfr__buffer_attach(&buf, &dev), 0, "it fits in one");
	nvmfr__buffer_detach(&buf, &dev);
}

/* Devices exist that do not tell of their 2 GiB. */
Test(buffer, smaller_pieces_after_a_failure)
{
	struct fab_dev dev = fake_dev(UINT64_MAX);
	struct nvmfr_buffer buf = buffer_of(5 * GIB);

	fake.refuse_above = 2 * GIB - 1;
	fake.fail_err = -EINVAL;
	cr_assert_eq(nvmfr__buffer_attach(&buf, &dev), 0);
	cr_expect_gt(fake.count, 4u);
	nvmfr__buffer_detach(&buf, &dev);
	cr_expect_eq(fake.live, 0u);
	dev = fake_dev(UINT64_MAX);
	buf = buffer_of(GIB);
	fake.refuse_above = 1;
	fake.fail_err = -EINVAL;
	cr_expect_eq(nvmfr__buffer_attach(&buf, &dev), -EINVAL);
	cr_expect_eq(fake.calls, 1u, "a small one is not tried again");
}

Test(buffer, a_failure_in_the_middle_leaves_nothing)
{
	struct fab_dev dev = fake_dev(2 * MIB);
	struct nvmfr_buffer buf = buffer_of(10 * MIB);

	fake.fail_at = 4;
	fake.fail_err = -ENOMEM;
	cr_expect_eq(nvmfr__buffer_attach(&buf, &dev), -ENOMEM);
	cr_expect(!fake.live && !buf.keys[2].count && !buf.mrs[2]);
	cr_expect_not_null(strstr(nvmfr__err_get(), "the device's sentence"), "%s",
			   nvmfr__err_get());
	cr_expect_not_null(strstr(nvmfr__err_get(), "0x10000123"), "%s", nvmfr__err_get());
}

Test(buffer, dmabuf_pieces_keep_offset_and_address_together)
{
	struct fab_dev dev = fake_dev(2 * MIB);
	struct nvmfr_buffer buf = buffer_of(7 * MIB);

	buf.flags = BUFFER_DMABUF;
	buf.dmabuf_offset = 0x5123;
	cr_assert_eq(nvmfr__buffer_attach(&buf, &dev), 0);
	cr_expect_eq(fake.dmabuf_offset - buf.dmabuf_offset,
		     fake.pieces[fake.count - 1].start - buf.addr);
	cr_expect_eq((fake.dmabuf_offset ^ fake.pieces[fake.count - 1].start) % PAGE, 0u);
	nvmfr__buffer_detach(&buf, &dev);
}

Test(buffer, keys_refuse)
{
	struct fab_dev dev = fake_dev(UINT64_MAX), other = fake_dev(UINT64_MAX);
	struct nvmfr_buffer buf = buffer_of(8192);
	uint32_t rkey, lkey;
	uint64_t bytes = 4096;

	other.index = 3;
	buf.access = FAB_ACCESS_SOURCE;
	cr_assert_eq(nvmfr__buffer_attach(&buf, &dev), 0);
	cr_expect_eq(nvmfr__buffer_keys(&buf, &dev, 4096, &bytes, FAB_ACCESS_SOURCE, &rkey, &lkey),
		     0);
	cr_expect_eq(nvmfr__buffer_keys(&buf, &dev, 4097, &bytes, FAB_ACCESS_SOURCE, &rkey, &lkey),
		     -EINVAL);
	cr_expect_eq(
		nvmfr__buffer_keys(&buf, &dev, UINT64_MAX, &bytes, FAB_ACCESS_SOURCE, &rkey, &lkey),
		-EINVAL);
	cr_expect_eq(nvmfr__buffer_keys(&buf, &dev, 0, &bytes, FAB_ACCESS_TARGET, &rkey, &lkey),
		     -EINVAL);
	cr_expect_not_null(strstr(nvmfr__err_get(), "a target of reads"), "%s", nvmfr__err_get());
	cr_expect_eq(nvmfr__buffer_keys(&buf, &other, 0, &bytes, FAB_ACCESS_SOURCE, &rkey, &lkey),
		     -EINVAL);
	nvmfr__buffer_detach(&buf, &dev);
}

/* ---- pages ------------------------------------------------------------------------------------ */

static unsigned char *map_pages(unsigned int pages)
{
	unsigned char *map = mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE,
				  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	cr_assert(map != MAP_FAILED);
	return map;
}

static int check(const void *addr, size_t bytes, uint32_t access)
{
	return nvmfr__buffer_check_pages(addr, bytes, access);
}

Test(buffer, pages_holes_and_protection)
{
	unsigned char *map = map_pages(8);
	unsigned char local[100] = { 0 };

	cr_expect_eq(check(map + 1, 8 * PAGE - 1, 3), 0, "%s", nvmfr__err_get());
	cr_expect_eq(check(local, sizeof(local), 3), 0);
	mprotect(map + 4 * PAGE, PAGE, PROT_READ);
	cr_expect_eq(check(map, 8 * PAGE, FAB_ACCESS_SOURCE), 0,
		     "read-only memory can be a source");
	cr_expect_eq(check(map, 8 * PAGE, FAB_ACCESS_TARGET), -EFAULT);
	cr_expect_not_null(strstr(nvmfr__err_get(), "not writable"), "%s", nvmfr__err_get());
	cr_expect_eq(check(map, 4 * PAGE, FAB_ACCESS_TARGET), 0);
	cr_expect_eq(check(map, 4 * PAGE + 1, FAB_ACCESS_TARGET), -EFAULT);
	mprotect(map + 4 * PAGE, PAGE, PROT_NONE);
	cr_expect_eq(check(map, 8 * PAGE, FAB_ACCESS_SOURCE), -EFAULT);
	munmap(map + 6 * PAGE, PAGE);
	cr_expect_eq(check(map + 5 * PAGE, 3 * PAGE, FAB_ACCESS_SOURCE), -EFAULT);
	cr_expect_not_null(strstr(nvmfr__err_get(), "no memory is mapped at"), "%s",
			   nvmfr__err_get());
	cr_expect_eq(check(map + 5 * PAGE, PAGE, 3), 0);
	cr_expect_eq(check(map + 7 * PAGE, PAGE, 3), 0);
	munmap(map, 8 * PAGE);
	cr_expect_eq(check(NULL, PAGE, 1), -EFAULT);
	cr_expect_eq(check(map, 0, 1), -EFAULT);
	cr_expect_eq(check((void *)(UINTPTR_MAX - 10), 100, 1), -EFAULT);
}

/* To touch what lies behind a file's end would be SIGBUS. */
Test(buffer, pages_of_files)
{
	char path[] = "/tmp/nvmfr-test-XXXXXX";
	int fd = mkstemp(path);
	unsigned char *shared, *private;
	struct pages_map found;

	cr_assert(fd >= 0 && !ftruncate(fd, 2 * PAGE + 10));
	shared = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	private = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, PAGE);
	cr_assert(shared != MAP_FAILED && private != MAP_FAILED);
	cr_expect_eq(check(shared, 3 * PAGE, 3), 0, "%s", nvmfr__err_get());
	cr_expect_eq(check(shared, 3 * PAGE + 1, 3), -EFAULT);
	cr_expect_not_null(strstr(nvmfr__err_get(), "behind the end of the file"), "%s",
			   nvmfr__err_get());
	cr_expect_eq(check(private, PAGE, 3), 0);
	cr_assert(nvmfr__pages_find((uintptr_t)shared + 5, &found));
	cr_expect(found.shared && found.readable && found.writable);
	cr_expect_str_eq(found.path, path);
	cr_assert(nvmfr__pages_find((uintptr_t) private, &found));
	cr_expect(!found.shared && found.file_offset == PAGE);
	unlink(path);
	close(fd);
	munmap(shared, 4 * PAGE);
	munmap(private, PAGE);
}

static void check_refusal(FILE *file, int prot, int flags, uint32_t access, const char *text)
{
	struct fab_dev dev = fake_dev(UINT64_MAX);
	struct nvmfr_buffer buf = buffer_of(PAGE);
	void *map = mmap(NULL, PAGE, prot, flags, fileno(file), 0);

	cr_assert(map != MAP_FAILED);
	buf.addr = (uintptr_t)map;
	buf.access = access;
	fake.fail_at = 1;
	fake.fail_err = -EFAULT;
	cr_expect_eq(nvmfr__buffer_attach(&buf, &dev), -EFAULT);
	cr_expect_not_null(strstr(nvmfr__err_get(), text), "%s", nvmfr__err_get());
	munmap(map, PAGE);
}

/* Which files a kernel pins depends on its version and the file system: the sentence must say so. */
Test(buffer, a_refused_file_mapping_is_explained)
{
	FILE *file = tmpfile();

	cr_assert(file && !ftruncate(fileno(file), PAGE));
	check_refusal(file, PROT_READ | PROT_WRITE, MAP_SHARED, FAB_ACCESS_TARGET,
		      "does not let a device write to files");
	check_refusal(file, PROT_READ, MAP_SHARED, FAB_ACCESS_SOURCE, "a read-only shared mapping");
	check_refusal(file, PROT_READ, MAP_PRIVATE, FAB_ACCESS_SOURCE, "the device's sentence");
	check_refusal(file, PROT_READ | PROT_WRITE, MAP_SHARED, FAB_ACCESS_SOURCE, "the device's sentence");
	fclose(file);
}

/* ---- memory of our own ------------------------------------------------------------------------ */

static void check_map(size_t bytes)
{
	unsigned char *map = NULL;
	size_t map_bytes = 0;
	void *addr = NULL;

	cr_assert_eq(nvmfr__buffer_map(bytes, 0, &addr, &map_bytes), 0, "%s", nvmfr__err_get());
	map = addr;
	cr_expect_geq(map_bytes, bytes);
	cr_expect_eq((uintptr_t)map % PAGE, 0u);
	for (size_t i = 0; i < bytes; i += 511)
		cr_assert_eq(map[i], 0);
	memset(map, 0xaa, bytes);
	cr_expect_eq(munmap(addr, map_bytes), 0);
}

Test(buffer, own_memory)
{
	void *addr = NULL;
	size_t map_bytes;

	check_map(1);
	check_map(PAGE + 1);
	check_map(2 * MIB);
	check_map(5 * MIB + 3);
	cr_expect_eq(nvmfr__buffer_map(0, -1, &addr, &map_bytes), -EINVAL);
	cr_expect_eq(nvmfr__buffer_map(SIZE_MAX, -1, &addr, &map_bytes), -EINVAL);
	cr_expect_eq(nvmfr__buffer_map(SIZE_MAX / 4, -1, &addr, &map_bytes), -ENOMEM);
	cr_expect_null(addr);
}

Test(buffer, own_memory_on_no_such_node)
{
	void *addr = NULL;
	size_t map_bytes;

	cr_expect_eq(nvmfr__buffer_map(PAGE, 100000, &addr, &map_bytes), -EINVAL);
	cr_expect_not_null(strstr(nvmfr__err_get(), "NUMA node 100000"), "%s", nvmfr__err_get());
}
