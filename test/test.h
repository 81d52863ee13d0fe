/* test.h -- tests whose names are claims. A test file is a list of TEST blocks; test/main.c runs them, each under a
 * watchdog, and after each one asks that no node and no byte of an array is left. */
#ifndef WEFT_TEST_H
#define WEFT_TEST_H
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

void test_add(const char *name, const char *file, void (*run)(void));
void test_fail(const char *file, int line, const char *format, ...) __attribute__((format(printf, 3, 4)));
void test_skip(const char *why);   /* this test cannot run here; counted as skipped */
bool test_has_failed(void);        /* the current test, so far: for a child that it forks */
void test_watchdog(int seconds);   /* for the current test, on a quiet machine; the default is 60 */

/* Which sanitizer watches. */
#ifdef __SANITIZE_ADDRESS__
enum { UNDER_ASAN = true };
#else
enum { UNDER_ASAN = false };
#endif
#ifdef __SANITIZE_THREAD__
enum { UNDER_TSAN = true };
#else
enum { UNDER_TSAN = false };
#endif

#define TEST(name)                                                                                   \
  static void name(void);                                                                            \
  __attribute__((constructor)) static void add_##name(void) { test_add(#name, __FILE__, name); }     \
  static void name(void)
#define EXPECT(ok) do { if (!(ok)) test_fail(__FILE__, __LINE__, "%s", #ok); } while (0)
#define EXPECT_INT(a, b)                                                                             \
  do {                                                                                               \
    long long a_ = (long long)(a), b_ = (long long)(b);                                              \
    if (a_ != b_) test_fail(__FILE__, __LINE__, "%s is %lld, not %lld", #a, a_, b_);                 \
  } while (0)
#define EXPECT_TEXT(a, b)                                                                            \
  do {                                                                                               \
    const char *a_ = (a), *b_ = (b);                                                                 \
    if (!a_ || strcmp(a_, b_)) test_fail(__FILE__, __LINE__, "%s is \"%s\", not \"%s\"", #a, a_ ? a_ : "(null)", b_); \
  } while (0)
#define EXPECT_OK(call)                                                                              \
  do {                                                                                               \
    int s_ = (int)(call);                                                                            \
    if (s_) test_fail(__FILE__, __LINE__, "%s: status %d: %s", #call, s_, weft_message());           \
  } while (0)

#endif
