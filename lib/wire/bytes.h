/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef NVMFR_WIRE_BYTES_H
#define NVMFR_WIRE_BYTES_H

#include <stdint.h>
#include <string.h>

/*
 * Little-endian integers as bytes with a type: they have no alignment and cannot be added to,
 * compared or assigned without a conversion. The memcpy form compiles to single moves; a byte
 * loop does not.
 */
typedef struct {
	uint8_t b[2];
} le16;
typedef struct {
	uint8_t b[3];
} le24;
typedef struct {
	uint8_t b[4];
} le32;
typedef struct {
	uint8_t b[8];
} le64;

_Static_assert(sizeof(le16) == 2 && sizeof(le24) == 3, "wire integers have no padding");
_Static_assert(sizeof(le32) == 4 && sizeof(le64) == 8, "wire integers have no padding");

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define SWAP_LE16(v) (v)
#define SWAP_LE32(v) (v)
#define SWAP_LE64(v) (v)
#elif __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#define SWAP_LE16(v) __builtin_bswap16(v)
#define SWAP_LE32(v) __builtin_bswap32(v)
#define SWAP_LE64(v) __builtin_bswap64(v)
#else
#error "unknown byte order"
#endif

static inline le16 to_le16(uint16_t v)
{
	le16 r;

	v = SWAP_LE16(v);
	memcpy(&r, &v, sizeof(r));
	return r;
}

/* Bits 31:24 of v are dropped. */
static inline le24 to_le24(uint32_t v)
{
	le24 r;

	v = SWAP_LE32(v);
	memcpy(&r, &v, sizeof(r));
	return r;
}

static inline le32 to_le32(uint32_t v)
{
	le32 r;

	v = SWAP_LE32(v);
	memcpy(&r, &v, sizeof(r));
	return r;
}

static inline le64 to_le64(uint64_t v)
{
	le64 r;

	v = SWAP_LE64(v);
	memcpy(&r, &v, sizeof(r));
	return r;
}

static inline uint16_t from_le16(le16 r)
{
	uint16_t v;

	memcpy(&v, &r, sizeof(r));
	return SWAP_LE16(v);
}

static inline uint32_t from_le24(le24 r)
{
	uint32_t v = 0;

	memcpy(&v, &r, sizeof(r));
	return SWAP_LE32(v);
}

static inline uint32_t from_le32(le32 r)
{
	uint32_t v;

	memcpy(&v, &r, sizeof(r));
	return SWAP_LE32(v);
}

static inline uint64_t from_le64(le64 r)
{
	uint64_t v;

	memcpy(&v, &r, sizeof(r));
	return SWAP_LE64(v);
}

#endif
