/* resident.c -- what a million steps keep in memory, as the system counts it: no more than ten. */
#include <stdio.h>
#include "values.h"

enum { MANY = 1000000, SLACK_KB = 1500 }; /* a number of every step would be 8000 kB */

static long resident_kb(void) {
  char text[256] = "";
  long pages = 0;
  FILE *f = fopen("/proc/self/statm", "r");
  if (!f) return -1;
  if (fgets(text, sizeof text, f)) sscanf(text, "%*s %ld", &pages);
  fclose(f);
  return pages * 4;
}

typedef weft_array *(*loop_function)(int64_t steps);

static long after(loop_function make, int64_t steps) {
  weft_scope *s = weft_scope_open();
  weft_array *y = make(steps);
  EXPECT_OK(weft_eval(1, &y));
  weft_scope_discard(s);
  return resident_kb();
}

static void expect_flat(const char *what, loop_function make) {
  if (UNDER_ASAN || UNDER_TSAN) return test_skip("a sanitizer has memory of its own, and keeps what was freed");
  long few = after(make, 10), many = after(make, MANY);
  if (few < 0) { test_skip("no /proc/self/statm"); return; }
  if (many > few + SLACK_KB) test_fail(__FILE__, __LINE__, "%s: %ld kB after 10 steps, %ld kB after %d", what, few, many, MANY);
}

static weft_array *bent(weft_array *c) { return weft_add(weft_mul(c, weft_scalar(0.5)), weft_scalar(1)); }
static weft_array *carried(int64_t steps) { return repeated(steps, f64s(4, (double[]){ 1, 2, 3, 4 }), bent); }

/* Numbers made from a counter, in the body. */
static weft_array *generated(int64_t steps) {
  weft_loop *l = weft_loop_open(weft_integer(steps));
  weft_array *key = weft_loop_carry(l, i64_of(1)), *c = weft_loop_carry(l, f64_of(1));
  weft_array *next = weft_and(weft_add(weft_mul(key, weft_integer(1103515245)), weft_integer(12345)), weft_integer(0x7fffffff));
  weft_loop_next(l, key, next);
  weft_loop_next(l, c, weft_add(weft_mul(c, weft_scalar(0.5)), weft_mul(weft_cast(next, WEFT_F64), weft_scalar(0x1p-31))));
  weft_array *y = weft_loop_last(l, c);
  weft_loop_close(l);
  return y;
}

static weft_array *sequence; /* of a million; a loop of ten steps reads the first of them */
static weft_array *streamed(int64_t steps) {
  weft_loop *l = weft_loop_open(weft_integer(steps));
  weft_array *e = weft_loop_each(l, sequence), *c = weft_loop_carry(l, f64_of(1));
  weft_loop_next(l, c, weft_add(weft_mul(c, weft_scalar(0.5)), e));
  weft_array *y = weft_loop_last(l, c);
  weft_loop_close(l);
  return y;
}

static weft_array *ended(int64_t steps) {
  weft_loop *l = weft_loop_open(NULL);
  weft_array *n = weft_loop_carry(l, i64_of(0)), *c = weft_loop_carry(l, f64_of(1)), *next = weft_add(n, weft_integer(1));
  weft_loop_next(l, n, next);
  weft_loop_next(l, c, bent(c));
  weft_loop_until(l, weft_ge(next, weft_cast(weft_integer(steps), WEFT_I64)));
  weft_array *y = weft_loop_last(l, c);
  weft_loop_close(l);
  return y;
}

static weft_array *last_rows(int64_t steps) {
  weft_loop *l = weft_loop_open(weft_integer(steps));
  weft_array *c = weft_loop_carry(l, f64_of(1));
  weft_loop_next(l, c, bent(c));
  weft_array *y = weft_loop_tail(l, c, 5);
  weft_loop_close(l);
  return y;
}

static weft_array *recomputed_gradient(int64_t steps) { return repeated_gradient(steps, f64_of(0.5), weft_sin); }

TEST(a_million_steps_of_carries_stay_in_the_memory_of_ten) { expect_flat("carries", carried); }
TEST(a_million_numbers_made_in_the_body_stay_in_the_memory_of_ten) { expect_flat("generated", generated); }
TEST(a_million_elements_of_a_sequence_need_no_memory_but_its_own) {
  weft_scope *s = weft_scope_open();
  sequence = weft_exp(weft_full(WEFT_F64, WEFT_DIMS(MANY), 0.5));
  EXPECT_OK(weft_eval(1, &sequence));
  expect_flat("streamed", streamed);
  weft_scope_discard(s);
}
TEST(a_million_steps_until_something_stay_in_the_memory_of_ten) { expect_flat("until", ended); }
TEST(the_last_rows_of_a_million_steps_stay_in_the_memory_of_ten) { expect_flat("last rows", last_rows); }
TEST(a_gradient_that_recomputes_a_million_steps_keeps_the_root_of_them) { expect_flat("gradient", recomputed_gradient); }
