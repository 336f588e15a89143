/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One test source, two programs. As a rule this is Criterion. With NVMFR_PLAIN (see testing.c) the
 * same tests run one after another in one ordinary process, because Criterion 2.4 does not start
 * under ThreadSanitizer and hides leaks from LeakSanitizer. Such tests use only what stands here.
 */
#ifndef NVMFR_TESTS_TESTING_H
#define NVMFR_TESTS_TESTING_H

#ifndef NVMFR_PLAIN
#include <criterion/criterion.h>
#else

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

struct plain_test {
	const char *name;
	void (*run)(void);
	void (*init)(void), (*fini)(void);
	double timeout;                       /* seconds */
	struct plain_test *next;
	bool last;
};

struct plain_place {
	const char *file, *text;
	int line;
	bool fatal;
};

void nvmfr__plain_add(struct plain_test *test);
/* More arguments: a printf format and its values, and a null pointer in any case. */
void nvmfr__plain_check(const struct plain_place *place, int good, ...);

#define Test(...) PLAIN_TEST(__VA_ARGS__, .last = true)
#define PLAIN_TEST(Suite, Name, ...)                                                               \
	static void Suite##_##Name(void);                                                          \
	static struct plain_test Suite##_##Name##_test = {                                         \
		.name = #Suite "::" #Name, .run = Suite##_##Name, __VA_ARGS__                      \
	};                                                                                         \
	__attribute__((constructor)) static void Suite##_##Name##_add(void)                        \
	{                                                                                          \
		nvmfr__plain_add(&Suite##_##Name##_test);                                          \
	}                                                                                          \
	static void Suite##_##Name(void)

#define PLAIN_CHECK(Fatal, Text, Good, ...)                                                        \
	nvmfr__plain_check(&(const struct plain_place){ __FILE__, Text, __LINE__, Fatal },         \
			   !!(Good), __VA_ARGS__)
#define PLAIN_COMPARE(Fatal, A, Op, B, ...)                                                        \
	PLAIN_CHECK(Fatal, #A " " #Op " " #B, (A) Op (B), __VA_ARGS__)
#define PLAIN_STR_EQ(Fatal, A, B, ...)                                                             \
	PLAIN_CHECK(Fatal, #A " equals " #B, strcmp((A), (B)) == 0, __VA_ARGS__)
#define PLAIN_ARR_EQ(Fatal, A, B, Bytes, ...)                                                      \
	PLAIN_CHECK(Fatal, #A " equals " #B, memcmp((A), (B), (Bytes)) == 0, __VA_ARGS__)
#define PLAIN_EQ(Fatal, A, ...) PLAIN_COMPARE(Fatal, A, ==, __VA_ARGS__)
#define PLAIN_NEQ(Fatal, A, ...) PLAIN_COMPARE(Fatal, A, !=, __VA_ARGS__)
#define PLAIN_LT(Fatal, A, ...) PLAIN_COMPARE(Fatal, A, <, __VA_ARGS__)
#define PLAIN_LEQ(Fatal, A, ...) PLAIN_COMPARE(Fatal, A, <=, __VA_ARGS__)
#define PLAIN_GT(Fatal, A, ...) PLAIN_COMPARE(Fatal, A, >, __VA_ARGS__)
#define PLAIN_GEQ(Fatal, A, ...) PLAIN_COMPARE(Fatal, A, >=, __VA_ARGS__)

#define cr_assert(...) PLAIN_CHECK(true, #__VA_ARGS__, __VA_ARGS__, NULL)
#define cr_assert_fail(...) PLAIN_CHECK(true, "fail", false, __VA_ARGS__, NULL)
#define cr_assert_null(...) PLAIN_EQ(true, (void *)NULL, __VA_ARGS__, NULL)
#define cr_assert_not_null(...) PLAIN_NEQ(true, (void *)NULL, __VA_ARGS__, NULL)
#define cr_assert_eq(...) PLAIN_EQ(true, __VA_ARGS__, NULL)
#define cr_assert_neq(...) PLAIN_NEQ(true, __VA_ARGS__, NULL)
#define cr_assert_lt(...) PLAIN_LT(true, __VA_ARGS__, NULL)
#define cr_assert_leq(...) PLAIN_LEQ(true, __VA_ARGS__, NULL)
#define cr_assert_gt(...) PLAIN_GT(true, __VA_ARGS__, NULL)
#define cr_assert_geq(...) PLAIN_GEQ(true, __VA_ARGS__, NULL)
#define cr_assert_str_eq(...) PLAIN_STR_EQ(true, __VA_ARGS__, NULL)
#define cr_assert_arr_eq(...) PLAIN_ARR_EQ(true, __VA_ARGS__, NULL)

#define cr_expect(...) PLAIN_CHECK(false, #__VA_ARGS__, __VA_ARGS__, NULL)
#define cr_expect_null(...) PLAIN_EQ(false, (void *)NULL, __VA_ARGS__, NULL)
#define cr_expect_not_null(...) PLAIN_NEQ(false, (void *)NULL, __VA_ARGS__, NULL)
#define cr_expect_eq(...) PLAIN_EQ(false, __VA_ARGS__, NULL)
#define cr_expect_neq(...) PLAIN_NEQ(false, __VA_ARGS__, NULL)
#define cr_expect_lt(...) PLAIN_LT(false, __VA_ARGS__, NULL)
#define cr_expect_leq(...) PLAIN_LEQ(false, __VA_ARGS__, NULL)
#define cr_expect_gt(...) PLAIN_GT(false, __VA_ARGS__, NULL)
#define cr_expect_geq(...) PLAIN_GEQ(false, __VA_ARGS__, NULL)
#define cr_expect_str_eq(...) PLAIN_STR_EQ(false, __VA_ARGS__, NULL)
#define cr_expect_arr_eq(...) PLAIN_ARR_EQ(false, __VA_ARGS__, NULL)

#endif
#endif
