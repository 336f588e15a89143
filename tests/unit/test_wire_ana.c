/* SPDX-License-Identifier: BSD-3-Clause */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "base/err.h"
#include "wire/ana.h"

enum { GROUP = sizeof(struct nvme_ana_group) };

static uint8_t bytes[65536];
static size_t used;

static void put(uint64_t value, size_t n)
{
	for (size_t i = 0; i < n; i++)
		bytes[used++] = (uint8_t)(i < sizeof(value) ? value >> 8 * i : 0);
}

static void put_header(uint64_t changes, uint16_t groups)
{
	put(changes, 8);
	put(groups, 2);
	put(0, 6);
}

static void put_group(uint32_t group, uint32_t n, uint8_t state, uint32_t first)
{
	put(group, 4);
	put(n, 4);
	put(0, 8);
	put(state, 1);
	put(0, 15);
	for (uint32_t i = 0; i < n; i++)
		put(first + i, 4);
}

/* Read in pieces of that many bytes: how many namespaces came, and each with the state of its group. */
static unsigned int read_all(struct ana_reader *reader, size_t piece)
{
	struct ana_item item;
	unsigned int n = 0;
	int more = 0;

	while (!reader->done && more == 0) {
		size_t at = 0, before = reader->offset;

		cr_assert_leq(before + piece, sizeof(bytes), "within the bytes");
		while ((more = nvme_ana_next(reader, bytes + before, piece, &at, &item)) > 0) {
			cr_expect_eq(item.group, item.nsid / 1000, "NSID %u", item.nsid);
			cr_expect_eq(item.state, item.group, "NSID %u", item.nsid);
			n++;
		}
		cr_assert(reader->done || more < 0 || reader->offset > before, "it goes on");
	}
	cr_expect_eq(more, 0, "%s", nvmfr__err_get());
	return n;
}

Test(wire_ana, pieces_of_any_size)
{
	for (size_t piece = GROUP; piece < 200; piece += 4) {
		struct ana_reader reader = { 0 };

		used = 0;
		put_header(0x0102030405060708, 4);
		put_group(1, 10, 1, 1000);
		put_group(2, 0, 2, 0);
		put_group(3, 1, 0x53, 3000);
		put_group(4, 33, 4, 4000);
		cr_expect_eq(read_all(&reader, piece), 44u, "%zu bytes", piece);
		cr_expect_eq(reader.change_count, 0x0102030405060708, "change count");
		cr_expect_eq(reader.offset, used, "all was read");
	}
}

Test(wire_ana, nothing)
{
	struct ana_reader reader = { 0 };
	struct ana_item item;
	size_t at = 0;

	used = 0;
	put_header(7, 0);
	cr_expect_eq(nvme_ana_next(&reader, bytes, 8, &at, &item), 0, "half a header");
	cr_expect_eq(reader.begun || reader.done || reader.offset, 0, "is none");
	cr_expect_eq(nvme_ana_next(&reader, bytes, 4096, &at, &item), 0, "no groups");
	cr_expect(reader.done && reader.change_count == 7, "are an answer");
}

/* Counts that a peer makes up cost no more than a log of the largest size. */
Test(wire_ana, counts_are_bounded)
{
	struct ana_reader reader = { 0 };
	struct ana_item item;
	size_t at = 0;

	used = 0;
	put_header(0, 2);
	put_group(1, 1, 1, 1000);
	put_group(2, 0, 1, 0);
	memset(bytes + used - GROUP + 4, 0xff, 4);
	cr_expect_eq(nvme_ana_next(&reader, bytes, 4096, &at, &item), 1, "the first group");
	cr_expect_eq(nvme_ana_next(&reader, bytes, 4096, &at, &item), -EPROTO, "the second one");
	cr_expect(strstr(nvmfr__err_get(), "4294967295"), "%s", nvmfr__err_get());
}
