/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TESTS_UNIT_REPEAT_H
#define TESTS_UNIT_REPEAT_H

/* String literals of a given length, for tables of test cases. */
#define REPEAT_15(s)  s s s s s s s s s s s s s s s
#define REPEAT_16(s)  REPEAT_15(s) s
#define REPEAT_32(s)  REPEAT_16(s) REPEAT_16(s)
#define REPEAT_96(s)  REPEAT_32(s) REPEAT_32(s) REPEAT_32(s)
#define REPEAT_223(s) REPEAT_96(s) REPEAT_96(s) REPEAT_16(s) REPEAT_15(s)
#define REPEAT_224(s) REPEAT_223(s) s
#define REPEAT_256(s) REPEAT_224(s) REPEAT_32(s)

#endif
