/* device.c -- plans on a device, without one: on those of far.h. What stays there, and what goes wrong. */
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>
#include "every_recipe.h"
#include "far.h"
#include "run/device.h"
#include "test.h"

static const struct way on_device = { "on a device", "x86", true, 2, 1 };

static void begin(void) {
  far_use();
  way_take(&on_device);
}

static void end(void) {
  way_leave();
  far_leave();
}

/* ---- values ---- */

static void try_recipes(int one_in, int lag) {
  test_watchdog(120);
  far_use();
  far_refuses = one_in;
  far_lag = lag;
  for (uint64_t seed = 1; seed <= 200; seed++)
    if (!recipe_check_way(seed, &on_device, false)) test_fail(__FILE__, __LINE__, "seed %d", (int)seed);
  EXPECT(one_in == 1 || far_counts().runs > 200);
  end();
}

TEST(random_programs_on_a_device_have_the_bits_of_the_host) { try_recipes(0, FAR_AT_ONCE); }
TEST(random_programs_half_on_a_device_have_the_bits_of_the_host) { try_recipes(2, FAR_AT_ONCE); }
TEST(random_programs_that_a_device_refuses_have_the_bits_of_the_host) { try_recipes(1, FAR_AT_ONCE); }
TEST(random_programs_on_a_device_that_waits_have_the_bits_of_the_host) { try_recipes(0, FAR_WHEN_WAITED_FOR); }
TEST(random_programs_half_on_a_device_that_waits_have_the_bits_of_the_host) { try_recipes(2, FAR_WHEN_WAITED_FOR); }
TEST(random_programs_half_on_a_device_with_moods_have_the_bits_of_the_host) { try_recipes(3, FAR_NOW_AND_THEN); }

enum { N = 100000 }; /* a cumulative sum of so many is three kernels */

static weft_array *ramp(void) {
  static float x[N];
  for (int i = 0; i < N; i++) x[i] = (float)i / N;
  return weft_from(WEFT_F32, WEFT_DIMS(N), x);
}

TEST(a_run_uploads_a_buffer_once_and_downloads_outputs_alone) {
  begin();
  weft_scope *s = weft_scope_open();
  static float got[N];
  weft_array *x = ramp(), *y = weft_cumsum(weft_add(weft_mul(x, weft_flip(x, 0)), weft_slice(x, 0, 0, 1, 1)), 0);
  weft_fetch(weft_div(y, weft_sum(y, 0)), WEFT_F32, got, sizeof got);
  EXPECT_OK(weft_scope_close(s));
  EXPECT(far_counts().runs >= 4);
  EXPECT_INT(far_counts().uploads, 1);
  EXPECT_INT(far_counts().downloads, 1);
  EXPECT(got[N - 1] > got[0]);
  end();
}

/* A loop whose body is run step by step, between kernels of the device. */
TEST(loops_run_on_the_host_between_kernels_of_the_device) {
  begin();
  weft_scope *s = weft_scope_open();
  float m[64 * 64], got = 0, want = 0;
  for (int i = 0; i < 64 * 64; i++) m[i] = (float)(i % 7) / 64;
  for (int on = 0; on < 2; on++) {
    weft_set(WEFT_DEVICE, on);
    weft_array *w = weft_exp(weft_neg(weft_from(WEFT_F32, WEFT_DIMS(64, 64), m)));
    weft_loop *loop = weft_loop_open(weft_integer(5));
    weft_array *h = weft_loop_carry(loop, weft_full(WEFT_F32, WEFT_DIMS(64, 64), 0.01));
    weft_loop_next(loop, h, weft_tanh(weft_matmul(weft_softmax(h, -1), w)));
    weft_array *all = weft_loop_all(loop, h);
    weft_loop_close(loop);
    weft_array *y = weft_sum(weft_mul(all, all), WEFT_ALL);
    EXPECT(strstr(weft_show(1, &y, "plan"), "step by step"));
    EXPECT_OK(weft_read(y, WEFT_F32, on ? &got : &want, sizeof got));
  }
  EXPECT(far_counts().runs > 0);
  EXPECT(got == want);
  weft_scope_discard(s);
  end();
}

/* Large products, and rows that are taken: no kernel is all of it. n: steps, of which a check may fail in one. */
static weft_array *long_way(weft_array *n, weft_array *at, bool has_until) {
  static float m[64 * 64];
  for (int i = 0; i < 64 * 64; i++) m[i] = (float)(i % 7) / 64;
  weft_array *w = weft_from(WEFT_F32, WEFT_DIMS(64, 64), m);
  weft_loop *loop = weft_loop_open(n);
  weft_array *h = weft_loop_carry(loop, weft_full(WEFT_F32, WEFT_DIMS(64, 64), 0.01));
  weft_array *row = at ? weft_take(h, 1, (weft_array *[]){ weft_loop_each(loop, at) }) : weft_slice(h, 0, 1, 2, 1);
  weft_array *next = weft_add(weft_tanh(weft_matmul(weft_softmax(h, -1), w)), weft_sum(row, WEFT_ALL));
  weft_loop_next(loop, h, next);
  if (has_until) weft_loop_until(loop, weft_gt(weft_sum(next, WEFT_ALL), weft_scalar(1e6)));
  weft_array *all = weft_loop_all(loop, next), *last = weft_loop_last(loop, h);
  weft_loop_close(loop);
  return weft_add(weft_sum(all, WEFT_ALL), weft_sum(last, WEFT_ALL));
}

static float one_float(weft_array *y) {
  float got = -1;
  EXPECT_OK(weft_read(y, WEFT_F32, &got, sizeof got));
  return got;
}

static void try_long_ways(int lag) {
  begin();
  far_lag = lag;
  weft_scope *s = weft_scope_open();
  int64_t places[] = { 3, 0, 63, -1, 5 };
  float got[2][3];
  for (int on = 0; on < 2; on++) {
    weft_set(WEFT_DEVICE, on);
    int64_t on_host = weft_get(WEFT_KERNELS_HOST);
    weft_array *n = weft_squeeze(weft_sum(weft_from(WEFT_I64, WEFT_DIMS(5), places), 0), 0), *at = weft_from(WEFT_I64, WEFT_DIMS(5), places);
    got[on][0] = one_float(long_way(weft_integer(7), NULL, false));
    got[on][1] = one_float(long_way(weft_sub(n, weft_integer(60)), NULL, false));
    got[on][2] = one_float(long_way(weft_integer(5), at, false));
    EXPECT_INT(weft_get(WEFT_KERNELS_HOST) - on_host, 0);
  }
  for (int k = 0; k < 3; k++) EXPECT(got[0][k] == got[1][k]);
  weft_scope_discard(s);
  end();
}

TEST(loops_that_are_no_kernel_run_step_by_step_on_the_device) { try_long_ways(FAR_AT_ONCE); }
TEST(loops_that_are_no_kernel_run_step_by_step_on_a_device_that_waits) { try_long_ways(FAR_WHEN_WAITED_FOR); }
TEST(loops_that_are_no_kernel_run_step_by_step_on_a_device_with_moods) { try_long_ways(FAR_NOW_AND_THEN); }

TEST(a_loop_on_a_device_ends_where_until_says) {
  begin();
  weft_scope *s = weft_scope_open();
  float got[2];
  for (int on = 0; on < 2; on++) {
    weft_set(WEFT_DEVICE, on);
    got[on] = one_float(long_way(weft_integer(50), NULL, true));
  }
  EXPECT(got[0] == got[1]);
  weft_scope_discard(s);
  end();
}

/* A loop that ends with step number `last`, of at most `most`, and takes from a table of `length` places by the number of the step:
 * a step after the last one would be out of range. No kernel is all of it. */
static weft_array *counted_way(int64_t last, int64_t most, int64_t length, weft_array **steps) {
  static float m[64 * 64];
  for (int i = 0; i < 64 * 64; i++) m[i] = (float)(i % 7) / 64;
  weft_array *w = weft_from(WEFT_F32, WEFT_DIMS(64, 64), m), *end = weft_from(WEFT_I64, 0, NULL, &last);
  weft_array *table = weft_cast(weft_iota(weft_full(WEFT_F32, WEFT_DIMS(length), 0), 0), WEFT_F32);
  weft_loop *loop = weft_loop_open(weft_integer(most));
  weft_array *h = weft_loop_carry(loop, weft_full(WEFT_F32, WEFT_DIMS(64, 64), 0.01));
  weft_array *i = weft_loop_carry(loop, weft_cast(weft_full(WEFT_F32, 0, NULL, 0), WEFT_I64));
  weft_array *next = weft_add(weft_tanh(weft_matmul(weft_softmax(h, -1), w)), weft_take(table, 1, &i));
  weft_array *after = weft_add(i, weft_integer(1));
  weft_loop_next(loop, h, next);
  weft_loop_next(loop, i, after);
  weft_loop_until(loop, weft_ge(after, end));
  weft_array *sums = weft_loop_all(loop, weft_sum(next, WEFT_ALL)), *hs = weft_loop_last(loop, h);
  *steps = weft_loop_last(loop, i);
  weft_loop_close(loop);
  return weft_add(weft_sum(sums, WEFT_ALL), weft_sum(hs, WEFT_ALL));
}

/* The host looks every few steps; what went too far is as if it had not been. */
static void try_ends(int lag) {
  begin();
  far_lag = lag;
  for (int64_t last = 1; last <= 40; last++) {
    weft_scope *s = weft_scope_open();
    float got[2];
    for (int on = 0; on < 2; on++) {
      int64_t on_host = weft_get(WEFT_KERNELS_HOST), n = -1;
      weft_set(WEFT_DEVICE, on);
      weft_array *steps, *y = counted_way(last, 60, last, &steps);
      EXPECT_OK(weft_eval(2, (weft_array *[]){ y, steps }));
      got[on] = one_float(y);
      EXPECT_OK(weft_read(steps, WEFT_I64, &n, sizeof n));
      EXPECT_INT(n, last);
      EXPECT_INT(weft_get(WEFT_KERNELS_HOST) - on_host, 0);
    }
    EXPECT(got[0] == got[1]);
    weft_scope_discard(s);
  }
  end();
}

TEST(a_loop_with_checks_on_a_device_ends_where_until_says) { try_ends(FAR_AT_ONCE); }
TEST(a_loop_with_checks_on_a_device_that_waits_ends_where_until_says) { try_ends(FAR_WHEN_WAITED_FOR); }

TEST(a_loop_on_a_device_is_looked_at_every_few_steps) {
  begin();
  weft_scope *s = weft_scope_open();
  weft_set(WEFT_DEVICE, 1);
  weft_array *y = long_way(weft_integer(100), NULL, true);
  int64_t before = far_counts().downloads;
  EXPECT_OK(weft_eval(1, &y));
  EXPECT(far_counts().downloads - before <= 4 + 100 / 16 + 1);
  weft_scope_discard(s);
  end();
}

TEST(an_index_out_of_range_before_until_is_told_with_its_step) {
  begin();
  for (int64_t most = 60; most <= 1000; most += 940)
    for (int on = 0; on < 2; on++) {
      weft_scope *s = weft_scope_open();
      float got;
      weft_set(WEFT_DEVICE, on);
      weft_array *steps, *y = counted_way(50, most, 23, &steps);
      EXPECT_INT(weft_read(y, WEFT_F32, &got, sizeof got), WEFT_ERR_INDEX);
      EXPECT(strstr(weft_message(), "step 23") && strstr(weft_message(), "the index 23 at place 0 is out of range for an axis of 23"));
      weft_scope_discard(s);
    }
  end();
}

TEST(an_index_out_of_range_in_a_loop_on_a_device_is_told_with_its_step) {
  begin();
  weft_scope *s = weft_scope_open();
  int64_t places[] = { 3, 0, 64, 1 };
  for (int on = 0; on < 2; on++) {
    weft_set(WEFT_DEVICE, on);
    float got;
    weft_array *y = long_way(weft_integer(4), weft_from(WEFT_I64, WEFT_DIMS(4), places), false);
    EXPECT_INT(weft_read(y, WEFT_F32, &got, sizeof got), WEFT_ERR_INDEX);
    EXPECT(strstr(weft_message(), "step 2") && strstr(weft_message(), "the index 64 at place 0 is out of range for an axis of 64"));
  }
  weft_scope_discard(s);
  end();
}

TEST(a_function_has_a_plan_for_each_device) {
  begin();
  weft_scope *s = weft_scope_open();
  weft_array *in = weft_mul(ramp(), weft_scalar(0.5)), *out;
  weft_scope *body = weft_scope_open();
  weft_array *x = weft_input(WEFT_F32, WEFT_DIMS(WEFT_ANY)), *y = weft_sum(weft_exp(x), 0);
  weft_function *f = weft_compile(body, 1, &x, 1, &y);
  float got[4];
  for (int i = 0; i < 4; i++) {
    int64_t before = far_counts().runs;
    weft_set(WEFT_DEVICE, i % 2);
    weft_call(f, 1, &in, 1, &out);
    EXPECT_OK(weft_read(out, WEFT_F32, &got[i], sizeof got[i]));
    EXPECT(i % 2 ? far_counts().runs > before : far_counts().runs == before);
    EXPECT(got[i] == got[0]);
  }
  weft_scope_discard(s);
  end();
}

/* ---- failures ---- */

static weft_array *chain(void) {
  weft_array *x = weft_cumsum(ramp(), 0);
  return weft_sum(weft_div(x, weft_sum(x, WEFT_ALL)), WEFT_ALL);
}

static void expect_works(void) {
  weft_scope *s = weft_scope_open();
  float got = 0;
  EXPECT_OK(weft_read(chain(), WEFT_F32, &got, sizeof got));
  EXPECT(fabsf(got - 1) < 1e-3f);
  weft_scope_discard(s);
}

TEST(want_of_device_memory_is_a_status_and_the_next_run_works) {
  begin();
  for (int left = 0;; left++) {
    weft_scope *s = weft_scope_open();
    float got;
    far_takes_left = left;
    weft_status status = weft_read(chain(), WEFT_F32, &got, sizeof got);
    far_takes_left = -1;
    if (status) {
      EXPECT_INT(status, WEFT_ERR_MEMORY);
      EXPECT(strstr(weft_message(), "weft_read: out of memory on device 1 (test): ") && strstr(weft_message(), " bytes for "));
    }
    weft_scope_discard(s);
    EXPECT_INT(far_counts().bytes, 0);
    if (!status) { EXPECT(left > 1); break; }
  }
  expect_works();
  end();
}

TEST(a_device_that_fails_says_so_and_leaves_the_graph_as_it_was) {
  begin();
  weft_scope *s = weft_scope_open();
  weft_array *y = chain();
  float got;
  far_launches_left = 1;
  EXPECT_INT(weft_read(y, WEFT_F32, &got, sizeof got), WEFT_ERR_DEVICE);
  EXPECT_TEXT(weft_message(), "weft_read: test: it was asked to fail");
  far_launches_left = -1;
  EXPECT_OK(weft_read(y, WEFT_F32, &got, sizeof got));
  weft_scope_discard(s);
  end();
}

TEST(a_run_on_a_device_is_cancelled_between_kernels) {
  begin();
  weft_scope *s = weft_scope_open();
  static volatile int flag;
  weft_array *y = chain();
  float got;
  flag = 0;
  weft_cancel_when(&flag);
  far_cancel_after_run = &flag;
  EXPECT_INT(weft_read(y, WEFT_F32, &got, sizeof got), WEFT_ERR_CANCELLED);
  EXPECT_INT(far_counts().runs, 1);
  far_cancel_after_run = NULL;
  flag = 0;
  EXPECT_OK(weft_read(y, WEFT_F32, &got, sizeof got));
  weft_cancel_when(NULL);
  weft_scope_discard(s);
  end();
}

TEST(an_index_out_of_range_is_found_on_a_device) {
  begin();
  weft_scope *s = weft_scope_open();
  int32_t at[] = { 0, 5, N, 3 };
  weft_array *i = weft_from(WEFT_I32, WEFT_DIMS(4), at), *y = weft_take(ramp(), 1, &i);
  EXPECT_INT(weft_eval(1, &y), WEFT_ERR_INDEX);
  EXPECT_TEXT(weft_message(), "weft_take: the index 100000 at place 2 is out of range for an axis of 100000");
  weft_scope_discard(s);
  end();
}

/* ---- settings ---- */

static void *device_of_thread(void *unused) { return (void)unused, (void *)(intptr_t)weft_get(WEFT_DEVICE); }

/* Who asks for a GPU where none can be used is told what is in the way, by every function that takes a number of a device. */
TEST(a_device_that_is_not_there_says_why) {
  const char *why = cuda_absence();
  if (!why) return test_skip("there is a GPU");
  weft_block b = { .device = 1 };
  struct text expected = { 0 };
  EXPECT_INT(weft_set(WEFT_DEVICE, 1), -1);
  text_addf(&expected, "weft_set: there is no device 1: %s", why);
  EXPECT_TEXT(weft_message(), text_of(&expected));
  weft_scope *s = weft_scope_open();
  weft_array *x = weft_scalar(1);
  EXPECT_INT(weft_check(weft_to(x, 1)), WEFT_ERR_DEVICE);
  EXPECT(strstr(weft_message(), "weft_to: there is no device 1: ") && strstr(weft_message(), why));
  EXPECT_INT(weft_pin(x, 1, &b), WEFT_ERR_DEVICE);
  EXPECT(strstr(weft_message(), "weft_pin: there is no device 1: ") && strstr(weft_message(), why));
  EXPECT_INT(weft_follow(1, NULL), WEFT_ERR_DEVICE);
  EXPECT(strstr(weft_message(), "weft_follow: there is no device 1: ") && strstr(weft_message(), why));
  weft_scope_discard(s);
  text_free(&expected);
}

TEST(the_device_is_chosen_by_each_thread) {
  begin();
  pthread_t other;
  void *there = NULL;
  EXPECT_INT(weft_get(WEFT_DEVICE), 1);
  EXPECT_INT(weft_get(WEFT_DEVICE_COUNT), 3);
  EXPECT_TEXT(weft_device_text(1), "a device of the tests");
  EXPECT_TEXT(weft_device_text(2), "another device of the tests");
  EXPECT(weft_device_text(3) == NULL && weft_device_text(-1) == NULL);
  EXPECT_INT(weft_set(WEFT_DEVICE, 3), -1);
  EXPECT_TEXT(weft_message(), "weft_set: there is no device 3: there are 0 to 2");
  EXPECT_INT(weft_set(WEFT_DEVICE, -1), -1);
  EXPECT_INT(weft_get(WEFT_BYTES_LIMIT), INT64_C(1) << 40);
  EXPECT_INT(pthread_create(&other, NULL, device_of_thread, NULL), 0);
  pthread_join(other, &there);
  EXPECT_INT((intptr_t)there, device_default());
  EXPECT_INT(weft_set(WEFT_DEVICE, 0), 1);
  end();
}
