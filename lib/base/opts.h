/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef NVMFR_BASE_OPTS_H
#define NVMFR_BASE_OPTS_H

#include <stddef.h>

/*
 * For _init functions: the defaults as far as the caller's struct goes, its size member set to
 * that.
 */
void nvmfr__opts_init(void *dst, size_t given, const void *defaults, size_t known);

/*
 * Structs that grow start with size_t size. The caller fills dst with defaults; an older, shorter
 * src keeps them. dst's size ends as known. -EINVAL when given cannot hold the size member,
 * -E2BIG when src has a non-zero byte beyond what this version knows.
 */
int nvmfr__opts_import(void *dst, size_t known, const void *src, size_t given);

/*
 * The other way, for info structs: fills the caller's given bytes from src, zeroes what this
 * version does not know and leaves dst's size as the caller set it.
 */
void nvmfr__opts_export(void *dst, size_t given, const void *src, size_t known);

#endif
