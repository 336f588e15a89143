/* SPDX-License-Identifier: BSD-3-Clause */
#include "wire/text.h"

#include <string.h>

size_t nvme_text_copy(char *dst, const char *src, size_t bytes)
{
	const char *end = src + strnlen(src, bytes);
	size_t replaced = 0;

	while (src < end && *src == ' ')
		src++;
	while (src < end && end[-1] == ' ')
		end--;
	for (; src < end; src++) {
		unsigned char byte = (unsigned char)*src;
		int printable = byte >= 0x20 && byte <= 0x7e;

		*dst++ = printable ? (char)byte : '?';
		replaced += !printable;
	}
	*dst = '\0';
	return replaced;
}
