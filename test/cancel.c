/* cancel.c -- a flag stops whatever runs, soon, and nothing is lost: what was asked for is lazy again. */
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>
#include "run/compiled.h"
#include "run/plan.h"
#include "values.h"

enum { PATIENCE_MS = 100 };

/* Processor time of all threads, so that a busy machine does no harm. */
static double cpu_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

static volatile int flag;
static _Atomic double set_at;

static void *sets_the_flag(void *after_us) {
  usleep(*(useconds_t *)after_us);
  set_at = cpu_ms();
  __atomic_store_n(&flag, 1, __ATOMIC_RELAXED);
  return NULL;
}

/* Evaluates it and stops it after a moment; it must not have ended by itself. */
static void expect_stopped(const char *what, weft_array *a) {
  pthread_t t;
  useconds_t after = 15000;
  __atomic_store_n(&flag, 0, __ATOMIC_RELAXED);
  weft_cancel_when(&flag);
  pthread_create(&t, NULL, sets_the_flag, &after);
  weft_status status = weft_eval(1, &a);
  double late = cpu_ms() - set_at;
  pthread_join(t, NULL);
  weft_cancel_when(NULL);
  if (status != WEFT_ERR_CANCELLED) test_fail(__FILE__, __LINE__, "%s: status %d: %s", what, status, weft_message());
  else if (late > PATIENCE_MS * (double)weft_get(WEFT_THREADS))
    test_fail(__FILE__, __LINE__, "%s: went on for %.0f ms of processor time", what, late);
  EXPECT_OK(weft_check(a));
  EXPECT_INT(weft_state_of(a, NULL), WEFT_LAZY);
}

#define ON_BOTH(make)                                     \
  for (int k_ = 0; k_ < 2; k_++) {                        \
    weft_scope *scope_ = weft_scope_open();                \
    plan_drop_all(); /* else the plan found is the vm's */ \
    compiled_use(k_ ? "x86" : "vm");                      \
    expect_stopped(k_ ? #make " on x86" : #make " on the vm", make()); \
    compiled_use(NULL);                                   \
    plan_drop_all();                                      \
    weft_scope_discard(scope_);                           \
  }

static weft_array *huge(int rank, const int64_t dims[]) { return weft_iota(weft_full(WEFT_F32, rank, dims, 0), rank - 1); }

static weft_array *long_rows_of_mathematics(void) {
  return weft_erfinv(weft_sin(weft_tan(weft_sin(weft_sin(weft_mul(huge(WEFT_DIMS(1 << 26)), weft_scalar(0.1)))))));
}
static weft_array *sum_of_one_long_row(void) { return weft_sum(weft_exp(huge(WEFT_DIMS(INT64_C(1) << 40))), 0); }
static weft_array *sum_of_many_rows(void) { return weft_sum(weft_sum(huge(WEFT_DIMS(INT64_C(1) << 24, 1000)), 1), 0); }
static weft_array *sum_of_columns(void) { return weft_sum(weft_exp(huge(WEFT_DIMS(INT64_C(1) << 30, 50))), 0); }
static weft_array *argmax_of_one_long_row(void) { return weft_argmax(huge(WEFT_DIMS(INT64_C(1) << 40)), 0); }
TEST(a_long_kernel_is_stopped) {
  ON_BOTH(long_rows_of_mathematics);
  ON_BOTH(sum_of_one_long_row);
  ON_BOTH(sum_of_many_rows);
  ON_BOTH(sum_of_columns);
  ON_BOTH(argmax_of_one_long_row);
}

/* 10^9 steps; the body is small enough to be a kernel with the loop inside. */
enum { BILLION = 1000000000 };
static weft_array *ones(int64_t n) { return weft_full(WEFT_F32, WEFT_DIMS(n), 1); }
static weft_array *bend(weft_array *c) { return weft_tanh(weft_mul(c, weft_scalar(0.999))); }
static weft_array *decay(weft_array *c) { return weft_add(weft_mul(c, weft_scalar(0.999)), weft_scalar(1)); }
static weft_array *sharpen(weft_array *c) { return weft_softmax(weft_mul(c, weft_scalar(1.01)), 0); }
static weft_array *scan(void) { return repeated(BILLION, ones(8), bend); }
static weft_array *wide_scan(void) { return repeated(BILLION, ones(100000), decay); }
static weft_array *row_scan(void) { return repeated(BILLION, ones(16), sharpen); }
static weft_array *endless(void) {
  weft_loop *l = weft_loop_open(NULL);
  weft_array *c = weft_loop_carry(l, weft_full(WEFT_F32, 0, NULL, 1));
  weft_loop_next(l, c, weft_mul(c, weft_scalar(0.5)));
  weft_loop_until(l, weft_lt(c, weft_scalar(-1)));
  weft_array *y = weft_loop_last(l, c);
  weft_loop_close(l);
  return y;
}
static weft_array *scan_of_some(weft_array *c) { return repeated(100, c, bend); }
static weft_array *endless_lanes(void) {
  weft_loop *l = weft_loop_open(NULL);
  weft_array *c = weft_loop_carry(l, ones(256)), *n = weft_loop_carry(l, weft_full(WEFT_I64, 0, NULL, 0));
  weft_loop_next(l, c, decay(c));
  weft_loop_next(l, n, weft_add(n, weft_integer(1)));
  weft_loop_until(l, weft_lt(n, weft_integer(0)));
  weft_array *y = weft_loop_last(l, c);
  weft_loop_close(l);
  return y;
}
static weft_array *endless_sum(void) { /* what ends it is a sum over the carry */
  weft_loop *l = weft_loop_open(NULL);
  weft_array *c = weft_loop_carry(l, ones(1000)), *next = decay(c);
  weft_loop_next(l, c, next);
  weft_loop_until(l, weft_lt(weft_sum(next, WEFT_ALL), weft_scalar(0)));
  weft_array *y = weft_loop_last(l, c);
  weft_loop_close(l);
  return y;
}
static weft_array *gradient_of_a_long_loop(void) { return repeated_gradient(BILLION, ones(8), bend); }
static weft_array *loops_in_a_loop(void) { return repeated(BILLION, ones(8), scan_of_some); }
static weft_array *last_rows(void) {
  weft_loop *l = weft_loop_open(weft_integer(BILLION));
  weft_array *c = weft_loop_carry(l, ones(8));
  weft_loop_next(l, c, bend(c));
  weft_array *y = weft_loop_tail(l, c, 3);
  weft_loop_close(l);
  return y;
}
TEST(a_loop_of_a_billion_steps_is_stopped) {
  ON_BOTH(gradient_of_a_long_loop);
  ON_BOTH(loops_in_a_loop);
  ON_BOTH(last_rows);
  ON_BOTH(scan);
  ON_BOTH(wide_scan);
  ON_BOTH(row_scan);
}
TEST(a_loop_that_would_never_end_is_stopped) {
  ON_BOTH(endless);
  ON_BOTH(endless_lanes);
  ON_BOTH(endless_sum);
}

static weft_array *cube(weft_array *c) { return weft_tanh(weft_matmul(c, weft_matmul(c, c))); }
static weft_array *cubed(int64_t n) { return repeated(BILLION, weft_full(WEFT_F32, WEFT_DIMS(n, n), 1), cube); }
static weft_array *small_scan(void) { return cubed(4); }
static weft_array *replay_of_small_steps(void) { return cubed(9); }
static weft_array *replay_of_large_steps(void) { return cubed(300); }
TEST(a_loop_whose_elements_are_values_of_a_kernel_is_stopped) { ON_BOTH(small_scan); }
TEST(a_loop_that_is_replayed_is_stopped) {
  ON_BOTH(replay_of_small_steps);
  ON_BOTH(replay_of_large_steps);
}

static weft_array *product(void) {
  weft_array *a = huge(WEFT_DIMS(3000, 20000)), *b = huge(WEFT_DIMS(20000, 3000));
  return weft_matmul(a, b);
}
TEST(a_matrix_product_is_stopped) { ON_BOTH(product); }

static weft_array *running_sum(void) { return weft_sum(weft_cumsum(huge(WEFT_DIMS(30, INT64_C(1) << 22)), 1), WEFT_ALL); }
static weft_array *histogram(void) {
  int64_t n = 60000000;
  weft_array *x = weft_full(WEFT_F32, WEFT_DIMS(64), 0), *i = weft_iota(weft_full(WEFT_I64, WEFT_DIMS(n), 0), 0);
  weft_array *slot = weft_and(i, weft_integer(63));
  return weft_put(x, weft_take(x, 1, &slot), weft_full(WEFT_F32, WEFT_DIMS(n), 1), WEFT_ADD);
}
static weft_array *large_scatter(void) {
  int64_t n = 60000000;
  weft_array *x = weft_full(WEFT_F32, WEFT_DIMS(1 << 22), 0), *i = weft_iota(weft_full(WEFT_I64, WEFT_DIMS(n), 0), 0);
  weft_array *slot = weft_and(weft_mul(i, weft_integer(7919)), weft_integer((1 << 22) - 1));
  return weft_put(x, weft_take(x, 1, &slot), weft_full(WEFT_F32, WEFT_DIMS(n), 1), WEFT_MAX);
}
TEST(prefixes_and_scatters_are_stopped) {
  ON_BOTH(running_sum);
  ON_BOTH(histogram);
  ON_BOTH(large_scatter);
}

static weft_array *chain(void) {
  weft_array *x = weft_full(WEFT_F32, WEFT_DIMS(1 << 20), 1);
  for (int i = 0; i < 300; i++) x = weft_exp(weft_mul(x, weft_scalar(1e-3)));
  return x;
}
TEST(many_small_kernels_are_stopped) {
  plan_use_fusing(false);
  ON_BOTH(chain);
  plan_use_fusing(true);
}

static weft_array *increment(weft_array *c) { return weft_add(c, weft_scalar(1)); }
static weft_array *counting(int64_t n) { return repeated(n, weft_full(WEFT_F64, 0, NULL, 0), increment); }

TEST(what_was_stopped_can_be_computed_later) {
  weft_scope *s = weft_scope_open();
  weft_array *y = counting(20000000);
  double got = 0;
  __atomic_store_n(&flag, 1, __ATOMIC_RELAXED);
  weft_cancel_when(&flag);
  EXPECT_INT(weft_eval(1, &y), WEFT_ERR_CANCELLED);
  EXPECT_TEXT(weft_message(), "weft_eval: cancelled");
  EXPECT_INT(weft_read(y, WEFT_F64, &got, sizeof got), WEFT_ERR_CANCELLED);
  weft_cancel_when(NULL);
  EXPECT_OK(weft_read(y, WEFT_F64, &got, sizeof got));
  EXPECT(got == 20000000);
  weft_scope_discard(s);
}

TEST(a_scope_that_is_stopped_changes_nothing) {
  weft_scope *s = weft_scope_open();
  double one = 1, got = 0, fetched = 7;
  weft_array *w = weft_from(WEFT_F64, 0, NULL, &one);
  __atomic_store_n(&flag, 1, __ATOMIC_RELAXED);
  weft_cancel_when(&flag);
  weft_scope *step = weft_scope_open();
  weft_array *y = weft_add(w, counting(1000));
  weft_update(w, y);
  weft_fetch(y, WEFT_F64, &fetched, sizeof fetched);
  EXPECT_INT(weft_scope_close(step), WEFT_ERR_CANCELLED);
  weft_cancel_when(NULL);
  EXPECT_OK(weft_read(w, WEFT_F64, &got, sizeof got));
  EXPECT(got == 1 && fetched == 7);
  weft_scope_discard(s);
}

TEST(what_is_stopped_in_the_background_is_lazy_again_and_says_so) {
  weft_scope *s = weft_scope_open();
  double got = 0;
  weft_array *y = counting(1000000000), *z = counting(1000);
  __atomic_store_n(&flag, 0, __ATOMIC_RELAXED);
  weft_cancel_when(&flag);
  EXPECT_OK(weft_eval_async(1, &y));
  EXPECT_OK(weft_eval_async(1, &z));
  weft_cancel_when(NULL);
  EXPECT_INT(weft_wait(1, &y, 0.05), WEFT_ERR_TIMEOUT);
  __atomic_store_n(&flag, 1, __ATOMIC_RELAXED);
  EXPECT_INT(weft_wait(1, &y, -1), WEFT_ERR_CANCELLED);
  EXPECT_INT(weft_state_of(y, NULL), WEFT_LAZY);
  weft_status status = weft_wait(0, NULL, -1);
  EXPECT(status == WEFT_OK || status == WEFT_ERR_CANCELLED);
  EXPECT_OK(weft_read(z, WEFT_F64, &got, sizeof got));
  EXPECT(got == 1000);
  weft_scope_discard(s);
}

TEST(what_was_stopped_says_so_to_who_waits_for_it_and_to_nobody_else) {
  weft_scope *s = weft_scope_open();
  weft_array *y = counting(1000000000), *z = counting(1000), *lazy = counting(1001), *both[] = { z, y };
  __atomic_store_n(&flag, 1, __ATOMIC_RELAXED);
  weft_cancel_when(&flag);
  EXPECT_OK(weft_eval_async(1, &y));
  weft_cancel_when(NULL);
  EXPECT_OK(weft_eval_async(1, &z));
  EXPECT_OK(weft_wait(1, &z, -1)); /* behind y, which has been given up */
  EXPECT_INT(weft_state_of(y, NULL), WEFT_LAZY);
  EXPECT_OK(weft_wait(1, &lazy, -1));
  EXPECT_INT(weft_wait(2, both, -1), WEFT_ERR_CANCELLED);
  EXPECT_OK(weft_wait(2, both, -1));
  EXPECT_OK(weft_wait(0, NULL, -1));
  weft_scope_discard(s);
}

TEST(what_is_stopped_while_it_waits_for_another_thread_gives_up_waiting) {
  weft_scope *s = weft_scope_open();
  weft_array *y = counting(1000000000), *z = weft_add(y, y);
  static volatile int other;
  __atomic_store_n(&other, 0, __ATOMIC_RELAXED);
  weft_cancel_when(&other);
  EXPECT_OK(weft_eval_async(1, &y));
  expect_stopped("waiting", z);
  EXPECT_INT(weft_state_of(y, NULL), WEFT_RUNNING);
  __atomic_store_n(&other, 1, __ATOMIC_RELAXED);
  EXPECT_INT(weft_wait(0, NULL, -1), WEFT_ERR_CANCELLED);
  weft_scope_discard(s);
}

/* ---- what takes long is announced ---- */

static void count_up(void *ctx) { ++*(int *)ctx; }

/* How often the second evaluation of f(n) announces itself: its plan is there. */
static int announcements(weft_array *(*f)(int64_t), int64_t n) {
  int count = 0;
  for (int i = 0; i < 2; i++) {
    weft_scope *s = weft_scope_open();
    weft_array *y = f(n);
    weft_before_long(count_up, &count);
    if (i == 0) EXPECT(count == 0);
    else count = 0;
    EXPECT_OK(weft_eval(1, &y));
    if (i == 0) EXPECT(count > 0); /* a plan was made */
    weft_before_long(NULL, NULL);
    weft_scope_discard(s);
  }
  return count;
}

static weft_array *halves(int64_t n) { return weft_mul(ones(n), weft_scalar(0.5)); }
static weft_array *totals(int64_t n) { return weft_cumsum(ones(n), 0); }
static weft_array *squares(int64_t n) { return weft_matmul(weft_full(WEFT_F32, WEFT_DIMS(n, n), 1), weft_full(WEFT_F32, WEFT_DIMS(n, n), 2)); }

TEST(only_work_of_more_than_a_moment_is_announced) {
  EXPECT_INT(announcements(halves, 100), 0);
  EXPECT(announcements(halves, 1000000) > 0);
  EXPECT_INT(announcements(totals, 100), 0);
  EXPECT(announcements(totals, 1000000) > 0);
  EXPECT_INT(announcements(squares, 16), 0);
  EXPECT_INT(announcements(squares, 64), 0);
  EXPECT(announcements(squares, 256) > 0);
  EXPECT_INT(announcements(counting, 10), 0);
  EXPECT(announcements(counting, 1000000) > 0);
}
