/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef NVMFR_WIRE_TEXT_H
#define NVMFR_WIRE_TEXT_H

#include <stddef.h>

/*
 * Copies a fixed-size text field into dst, which holds bytes + 1: up to the first NUL or the
 * field's end, without the blanks around it, each byte outside printable ASCII as '?'. Returns
 * how many bytes were replaced.
 */
size_t nvme_text_copy(char *dst, const char *src, size_t bytes);

#endif
