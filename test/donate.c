/* donate.c -- arrays that die with an update or an evaluation are overwritten in place, and nothing else ever is. */
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/mem.h"
#include "far.h"
#include "run/compiled.h"
#include "run/plan.h"
#include "values.h"

enum { N = 1 << 20, BYTES = N * (int)sizeof(float) };

static float *some(int n) {
  float *x = malloc((size_t)n * sizeof *x);
  for (int i = 0; i < n; i++) x[i] = (float)(i % 251) * 0.5f - 60;
  return x;
}

/* Where work runs, so that to bring it there takes no bytes of a step: halves of integers, which 1 changes without rounding. */
static weft_array *there(weft_array *a) {
  if (!weft_get(WEFT_DEVICE)) return a;
  a = weft_sub(weft_add(a, weft_scalar(1)), weft_scalar(1));
  EXPECT_OK(weft_eval(1, &a));
  return a;
}

static weft_array *array_n(int n) {
  float *x = some(n);
  weft_array *a = there(weft_from(WEFT_F32, WEFT_DIMS(n), x));
  free(x);
  return a;
}

static weft_array *array(void) { return array_n(N); }

/* Bytes that doing it takes at most, beyond what is in use before. */
static int64_t grown_by(weft_scope *s, weft_status *status) {
  int64_t used = weft_get(WEFT_BYTES_USED);
  weft_set(WEFT_BYTES_PEAK, 0);
  *status = weft_scope_close(s);
  return weft_get(WEFT_BYTES_PEAK) - used;
}

static int64_t close_grows(weft_scope *s) {
  weft_status status;
  int64_t bytes = grown_by(s, &status);
  EXPECT_OK(status);
  return bytes;
}

static void expect_each(weft_array *a, int n, float (*f)(float)) {
  float *was = some(n), *got = malloc((size_t)n * sizeof *got);
  EXPECT_OK(weft_read(a, WEFT_F32, got, (size_t)n * sizeof *got));
  for (int i = 0; i < n; i++)
    if (got[i] != f(was[i])) { test_fail(__FILE__, __LINE__, "element %d is %g, not %g", i, (double)got[i], (double)f(was[i])); break; }
  free(was), free(got);
}

static float same(float x) { return x; }
static float doubled(float x) { return 2 * x; }
static float less_one(float x) { return x - 1; }
static float fourfold(float x) { return 4 * x; }

static weft_array *twice(weft_array *a) { return weft_mul(a, weft_scalar(2)); }

/* ---- What is overwritten ---- */

TEST(an_array_that_is_updated_is_overwritten_in_place) {
  weft_scope *s = weft_scope_open();
  weft_array *w = array();
  for (int i = 0; i < 2; i++) { /* the plan is made, then found */
    weft_scope *step = weft_scope_open();
    weft_update(w, twice(w));
    EXPECT_INT(close_grows(step), 0);
  }
  expect_each(w, N, fourfold);
  weft_scope_discard(s);
}

static void expect_at_most(int64_t bytes, int64_t most) {
  if (bytes > most) test_fail(__FILE__, __LINE__, "it takes %lld bytes, not %lld", (long long)bytes, (long long)most);
}

TEST(a_training_step_takes_memory_for_the_gradient_and_not_for_a_second_parameter) {
  enum { R = 1024, C = 1024, B = 64 };
  weft_scope *s = weft_scope_open();
  weft_array *x = array_n(B * R), *w = weft_mul(weft_reshape(array(), WEFT_DIMS(R, C)), weft_scalar(0.001));
  EXPECT_OK(weft_eval(1, &w));
  for (int i = 0; i < 3; i++) {
    float loss;
    weft_scope *step = weft_scope_open();
    weft_array *y = weft_tanh(weft_matmul(weft_reshape(x, WEFT_DIMS(B, R)), w)), *g, *l = weft_mean(weft_mul(y, y), WEFT_ALL);
    weft_grad(l, 1, &w, &g);
    weft_update(w, weft_sub(w, weft_mul(g, weft_scalar(0.01))));
    weft_fetch(l, WEFT_F32, &loss, sizeof loss);
    weft_cost cost;
    EXPECT_OK(weft_plan(2, (weft_array *[]){ l, g }, &cost));
    expect_at_most(close_grows(step), BYTES + BYTES / 2 + cost.scratch_bytes);
  }
  weft_scope_discard(s);
}

TEST(momentum_and_parameter_are_both_overwritten) {
  weft_scope *s = weft_scope_open();
  weft_array *w = array(), *v = array(), *mean, *g;
  for (int i = 0; i < 3; i++) {
    weft_scope *step = weft_scope_open();
    mean = weft_mean(weft_mul(w, w), WEFT_ALL);
    weft_grad(mean, 1, &w, &g);
    weft_array *m = weft_add(weft_mul(v, weft_scalar(0.9)), g);
    weft_update(v, m);
    weft_update(w, weft_sub(w, weft_mul(m, weft_scalar(0.01))));
    expect_at_most(close_grows(step), BYTES / 2);
  }
  weft_scope_discard(s);
}

/* Nothing is overwritten: the memory has another owner, and is there to be read. */
TEST(an_array_that_becomes_a_copy_of_itself_can_be_read) {
  weft_scope *s = weft_scope_open();
  weft_array *x = array();
  float *seen = malloc(BYTES), *was = some(N);
  for (int i = 0; i < 3; i++) {
    weft_scope *step = weft_scope_open();
    weft_array *y = weft_concat(0, WEFT_ARRAYS(x));
    weft_update(x, y);
    weft_fetch(y, WEFT_F32, seen, BYTES);
    EXPECT_OK(weft_scope_close(step));
    EXPECT(!memcmp(seen, was, BYTES));
  }
  expect_each(x, N, same);
  free(seen), free(was);
  weft_scope_discard(s);
}

TEST(two_arrays_that_change_places_are_right) {
  weft_scope *s = weft_scope_open();
  weft_array *a = array(), *b = weft_sub(array(), weft_scalar(1));
  EXPECT_OK(weft_eval(1, &b));
  weft_scope *step = weft_scope_open();
  weft_update(a, weft_mul(b, weft_scalar(1)));
  weft_update(b, weft_mul(a, weft_scalar(1)));
  EXPECT_OK(weft_scope_close(step));
  expect_each(a, N, less_one);
  expect_each(b, N, same);
  weft_scope_discard(s);
}

TEST(an_update_of_a_part_is_written_into_the_array) {
  weft_scope *s = weft_scope_open();
  weft_array *w = array();
  weft_scope *step = weft_scope_open();
  weft_update(w, weft_put(w, weft_slice(w, 0, 100, 200, 1), weft_scalar(7), WEFT_SET));
  EXPECT(close_grows(step) < BYTES / 2);
  float *got = malloc(BYTES), *was = some(N);
  EXPECT_OK(weft_read(w, WEFT_F32, got, BYTES));
  for (int i = 0; i < N; i++) if (got[i] != (i >= 100 && i < 200 ? 7 : was[i])) { EXPECT_INT(i, -1); break; }
  free(got), free(was);
  weft_scope_discard(s);
}

/* A binding: made in a scope that is discarded, owned beside it. */
static weft_array *owned(weft_array *(*f)(weft_array *), weft_array *x) {
  weft_scope *s = weft_scope_open();
  weft_array *y = weft_own(x ? f(x) : array());
  weft_scope_discard(s);
  return y;
}

TEST(what_only_an_evaluation_holds_is_overwritten_by_it) {
  weft_array *x = owned(NULL, NULL), *y = owned(twice, x);
  weft_disown(x);
  int64_t used = weft_get(WEFT_BYTES_USED);
  weft_set(WEFT_BYTES_PEAK, 0);
  EXPECT_OK(weft_eval(1, &y));
  EXPECT_INT(weft_get(WEFT_BYTES_PEAK) - used, 0);
  expect_each(y, N, doubled);
  weft_disown(y);
}

TEST(a_job_in_the_background_overwrites_what_it_alone_holds) {
  weft_scope *s = weft_scope_open();
  weft_array *x = weft_own(array());
  float one = 1;
  for (int i = 0; i < 4; i++) {
    weft_scope *step = weft_scope_open();
    weft_array *y = weft_own(weft_put(x, weft_slice(x, 0, i, i + 1, 1), weft_from(WEFT_F32, WEFT_DIMS(1), &one), WEFT_SET));
    weft_disown(x);
    x = y;
    EXPECT_OK(weft_scope_close(step));
    int64_t used = weft_get(WEFT_BYTES_USED);
    weft_set(WEFT_BYTES_PEAK, 0);
    EXPECT_OK(weft_eval_async(1, &x));
    EXPECT_OK(weft_wait(1, &x, -1));
    int64_t grown = weft_get(WEFT_BYTES_PEAK) - used;
    if (i && grown >= BYTES) test_fail(__FILE__, __LINE__, "step %d took %lld bytes", i, (long long)grown);
  }
  float got[5];
  EXPECT_OK(weft_read(weft_slice(x, 0, 0, 5, 1), WEFT_F32, got, sizeof got));
  for (int i = 0; i < 5; i++) EXPECT(got[i] == (i < 4 ? 1 : 4 * 0.5f - 60));
  weft_disown(x);
  weft_scope_discard(s);
}

TEST(what_an_owner_holds_is_not_overwritten_by_a_job_in_the_background) {
  weft_scope *s = weft_scope_open();
  weft_array *a = weft_own(array()), *z = weft_own(twice(a));
  EXPECT_OK(weft_eval_async(1, &z));
  EXPECT_OK(weft_wait(1, &z, -1));
  expect_each(z, N, doubled);
  expect_each(a, N, same);
  weft_disown(a), weft_disown(z);
  weft_scope_discard(s);
}

TEST(what_an_owner_holds_is_not_overwritten_by_an_evaluation) {
  weft_array *x = owned(NULL, NULL), *y = owned(twice, x), *z = owned(twice, y);
  weft_disown(y);
  EXPECT_OK(weft_eval(1, &z));
  expect_each(z, N, fourfold);
  expect_each(x, N, same);
  weft_disown(x), weft_disown(z);
}

TEST(the_peak_of_an_evaluation_that_overwrites_is_predicted) {
  weft_array *x = owned(NULL, NULL), *y = owned(twice, x);
  weft_cost cost;
  EXPECT_OK(weft_plan(1, &y, &cost));
  EXPECT_INT(cost.peak_bytes, BYTES);
  weft_disown(x);
  EXPECT_OK(weft_plan(1, &y, &cost));
  EXPECT_INT(cost.peak_bytes, 0);
  weft_disown(y);
}

/* ---- What is not ---- */

/* Closes a scope that doubles w, in which or beside which something else was done; w's own memory must stay as it is. */
static void expect_apart(weft_scope *step, weft_array *w) {
  weft_update(w, twice(w));
  EXPECT(close_grows(step) >= BYTES);
  expect_each(w, N, doubled);
}

TEST(an_array_that_is_pinned_is_not_overwritten) {
  weft_scope *s = weft_scope_open();
  weft_array *w = array();
  weft_block b;
  float *was = some(N);
  EXPECT_OK(weft_pin(w, 0, &b));
  expect_apart(weft_scope_open(), w);
  EXPECT(!memcmp(b.data, was, BYTES));
  weft_unpin(w);
  free(was);
  weft_scope_discard(s);
}

TEST(an_array_of_which_there_is_a_view_is_not_overwritten) {
  weft_scope *s = weft_scope_open();
  weft_array *w = array(), *v = weft_slice(w, 0, 0, N, 1);
  expect_apart(weft_scope_open(), w);
  expect_each(v, N, same);
  w = array(), v = weft_flip(weft_flip(w, 0), 0);
  EXPECT_OK(weft_eval(1, &v)); /* it has a value: the memory of w */
  expect_apart(weft_scope_open(), w);
  expect_each(v, N, same);
  weft_scope_discard(s);
}

TEST(an_array_with_an_alias_is_not_overwritten) {
  weft_scope *s = weft_scope_open();
  weft_array *w = array(), *v = weft_alias(w);
  expect_apart(weft_scope_open(), w);
  expect_each(v, N, same);
  weft_scope_discard(s);
}

static void released(void *ctx) { ++*(int *)ctx; }

TEST(memory_of_others_is_not_overwritten) {
  weft_scope *s = weft_scope_open();
  float *data = some(N), *was = some(N);
  int n_released = 0;
  int64_t dims[] = { N }, strides[] = { 1 };
  weft_array *w = weft_external(&(weft_block){ data, 0, WEFT_F32, 1, dims, strides }, released, &n_released);
  expect_apart(weft_scope_open(), w);
  EXPECT(!memcmp(data, was, BYTES));
  weft_scope_discard(s);
  EXPECT_INT(n_released, 1);
  free(data), free(was);
}

TEST(what_somebody_else_will_compute_from_an_array_keeps_it_whole) {
  weft_scope *s = weft_scope_open();
  weft_array *w = array(), *later = weft_sub(w, weft_scalar(1));
  expect_apart(weft_scope_open(), w);
  expect_each(later, N, less_one);
  weft_scope *step = weft_scope_open();
  w = array();
  (void)w;
  weft_scope_discard(step);
  w = array();
  step = weft_scope_open();
  later = weft_keep(weft_sub(w, weft_scalar(1))); /* made inside */
  expect_apart(step, w);
  expect_each(later, N, less_one);
  weft_scope_discard(s);
}

TEST(what_is_kept_of_an_update_can_still_be_differentiated) {
  weft_scope *s = weft_scope_open();
  weft_array *w = array(), *d;
  weft_scope *step = weft_scope_open();
  weft_array *y = weft_keep(weft_mul(w, w));
  weft_update(w, y);
  weft_array *before = weft_keep(weft_alias(w));
  EXPECT_OK(weft_scope_close(step));
  weft_grad(weft_sum(y, WEFT_ALL), 1, &before, &d);
  expect_each(before, N, same);
  weft_scope_discard(s);
}

TEST(an_old_value_that_is_fetched_or_goes_elsewhere_is_not_overwritten) {
  weft_scope *s = weft_scope_open();
  weft_array *w = array(), *v = array(), *u = array();
  float *got = malloc(BYTES), *was = some(N);
  weft_scope *step = weft_scope_open();
  weft_update(w, twice(w));
  weft_update(v, w);
  weft_fetch(w, WEFT_F32, got, BYTES);
  EXPECT_OK(weft_scope_close(step));
  EXPECT(!memcmp(got, was, BYTES));
  expect_each(w, N, doubled);
  expect_each(v, N, same);
  step = weft_scope_open(); /* a view is fetched */
  weft_update(u, twice(u));
  weft_fetch(weft_flip(u, 0), WEFT_F32, got, BYTES);
  EXPECT_OK(weft_scope_close(step));
  for (int i = 0; i < N; i++) if (got[i] != was[N - 1 - i]) { EXPECT_INT(i, -1); break; }
  expect_each(u, N, doubled);
  free(got), free(was);
  weft_scope_discard(s);
}

static float eaten;
static float of_other(float x) { return x + eaten; }

TEST(reversed_and_shifted_reads_are_not_overwritten_while_they_are_read) {
  weft_scope *s = weft_scope_open();
  float *got = malloc(BYTES), *was = some(N);
  weft_array *w = array();
  weft_scope *step = weft_scope_open();
  weft_update(w, weft_add(weft_flip(w, 0), weft_scalar(1)));
  EXPECT(close_grows(step) >= BYTES);
  EXPECT_OK(weft_read(w, WEFT_F32, got, BYTES));
  for (int i = 0; i < N; i++) if (got[i] != was[N - 1 - i] + 1) { EXPECT_INT(i, -1); break; }
  w = array();
  step = weft_scope_open();
  weft_array *next = weft_concat(0, WEFT_ARRAYS(weft_slice(w, 0, 1, N, 1), weft_slice(w, 0, 0, 1, 1)));
  weft_update(w, weft_add(weft_mul(w, weft_scalar(0.5)), next));
  EXPECT_OK(weft_scope_close(step));
  EXPECT_OK(weft_read(w, WEFT_F32, got, BYTES));
  for (int i = 0; i < N; i++) if (got[i] != was[i] * 0.5f + was[(i + 1) % N]) { EXPECT_INT(i, -1); break; }
  w = array();
  step = weft_scope_open(); /* x[1:] = x[:-1] */
  weft_update(w, weft_put(w, weft_slice(w, 0, 1, N, 1), weft_slice(w, 0, 0, N - 1, 1), WEFT_SET));
  EXPECT_OK(weft_scope_close(step));
  EXPECT_OK(weft_read(w, WEFT_F32, got, BYTES));
  for (int i = 0; i < N; i++) if (got[i] != was[i ? i - 1 : 0]) { EXPECT_INT(i, -1); break; }
  w = array();
  step = weft_scope_open(); /* what every element needs */
  weft_array *total = weft_max(w, WEFT_ALL);
  weft_update(w, weft_add(w, total));
  weft_fetch(total, WEFT_F32, &eaten, sizeof eaten);
  EXPECT_OK(weft_scope_close(step));
  expect_each(w, N, of_other);
  free(got), free(was);
  weft_scope_discard(s);
}

/* ---- All or nothing ---- */

TEST(a_step_whose_index_is_out_of_range_leaves_the_array_whole) {
  weft_scope *s = weft_scope_open();
  weft_array *w = array(), *v = array(), *far = i64_of(N);
  float got = 7;
  weft_scope *step = weft_scope_open();
  weft_update(w, twice(w));
  weft_update(v, weft_add(v, weft_at(w, 0, far)));
  weft_fetch(weft_max(w, WEFT_ALL), WEFT_F32, &got, sizeof got);
  EXPECT_INT(weft_scope_close(step), WEFT_ERR_INDEX);
  expect_each(w, N, same);
  expect_each(v, N, same);
  EXPECT(got == 7);
  uint64_t id = weft_id(w);
  step = weft_scope_open();
  weft_update(w, weft_put(w, weft_take(w, 1, &far), weft_scalar(1), WEFT_SET));
  EXPECT_INT(weft_scope_close(step), WEFT_ERR_INDEX);
  expect_each(w, N, same);
  EXPECT(weft_id(w) == id);
  weft_scope_discard(s);
}

static weft_status double_both(weft_array *w, weft_array *v, float *sum) {
  weft_scope *step = weft_scope_open();
  weft_array *m = weft_sum(w, WEFT_ALL);
  weft_update(w, weft_add(twice(w), weft_mul(m, weft_scalar(0))));
  weft_update(v, twice(v));
  weft_fetch(m, WEFT_F32, sum, sizeof *sum);
  return weft_scope_close(step);
}

TEST(whatever_allocation_fails_all_is_updated_or_nothing) {
  enum { SMALL = 3000 };
  int64_t threads = weft_set(WEFT_THREADS, 1);
  bool failed = true;
  for (int64_t n = 1; failed && n < 2000; n++) {
    weft_scope *s = weft_scope_open();
    weft_array *w = array_n(SMALL), *v = array_n(SMALL);
    float sum = 7;
    plan_drop_all();
    compiled_drop_all();
    mem_fail_at(n, n % 2);
    weft_status status = double_both(w, v, &sum);
    failed = mem_count() >= n;
    mem_fail_at(0, 0);
    if (status) EXPECT_INT(status, WEFT_ERR_MEMORY);
    EXPECT((sum == 7) == !!status);
    expect_each(w, SMALL, status ? same : doubled);
    expect_each(v, SMALL, status ? same : doubled);
    weft_scope_discard(s);
  }
  weft_set(WEFT_THREADS, threads);
}

/* ---- Through functions ---- */

/* (x, y) -> 2 x, reversed y, twice the first element of y */
static weft_function *step_function(void) {
  weft_scope *body = weft_scope_open();
  weft_array *in[2] = { weft_input(WEFT_F32, WEFT_DIMS(WEFT_ANY)), weft_input(WEFT_F32, WEFT_DIMS(WEFT_ANY)) };
  weft_array *out[3] = { twice(in[0]), weft_flip(in[1], 0), twice(weft_slice(in[1], 0, 0, 1, 1)) };
  return weft_compile(body, 2, in, 3, out);
}

TEST(an_argument_that_is_updated_by_the_result_of_a_call_is_overwritten_in_place) {
  weft_scope *s = weft_scope_open();
  weft_function *f = step_function();
  weft_array *w = array(), *v = array(), *y[3];
  for (int i = 0; i < 2; i++) {
    float sum = 0;
    weft_scope *step = weft_scope_open();
    weft_call(f, 2, (weft_array *[]){ w, v }, 3, y);
    weft_update(w, y[0]);
    weft_fetch(y[2], WEFT_F32, &sum, sizeof sum);
    expect_at_most(close_grows(step), BYTES / 16);
    EXPECT_INT((int)sum, -120);
  }
  expect_each(w, N, fourfold);
  expect_each(v, N, same);
  weft_scope_discard(s);
}

/* Results of step_function in arrays that only owners hold: nothing of theirs has a history once they are computed. */
static void call_owned(weft_function *f, weft_array *x, weft_array *y, weft_array *out[3]) {
  weft_scope *s = weft_scope_open();
  weft_call(f, 2, (weft_array *[]){ x, y }, 3, out);
  for (int i = 0; i < 3; i++) weft_own(out[i]);
  weft_scope_discard(s);
}

/* what: 0: nobody else has x; 1: an owner; 2: a view; 3: another result of the call is held, and computed with it; 4: the other
 * argument. */
static void argument_goes_with_its_call(weft_function *f, int what) {
  weft_array *x = owned(NULL, NULL), *v = what == 4 ? weft_own(x) : owned(NULL, NULL), *out[3], *view = NULL;
  if (what == 2) {
    weft_scope *s = weft_scope_open();
    view = weft_own(weft_flip(x, 0));
    weft_scope_discard(s);
  }
  call_owned(f, x, v, out);
  if (what != 1) weft_disown(x);
  if (what != 3) weft_disown(out[2]); /* made of v */
  weft_disown(out[1]);
  int64_t used = weft_get(WEFT_BYTES_USED);
  weft_set(WEFT_BYTES_PEAK, 0);
  EXPECT_OK(weft_eval(1, &out[0]));
  int64_t grown = weft_get(WEFT_BYTES_PEAK) - used;
  if (!what || what == 3) EXPECT(grown <= (what ? BYTES / 16 : 0));
  else EXPECT(grown >= BYTES);
  expect_each(out[0], N, doubled);
  if (what == 1) expect_each(x, N, same);
  float one = 0;
  if (what == 2) EXPECT_OK(weft_read(weft_slice(view, 0, N - 1, N, 1), WEFT_F32, &one, sizeof one));
  if (what == 3) EXPECT_OK(weft_read(out[2], WEFT_F32, &one, sizeof one));
  if (what == 2 || what == 3) EXPECT_INT((int)one, what == 2 ? -60 : -120);
  if (what == 1) weft_disown(x);
  if (what == 3) weft_disown(out[2]);
  weft_disown(out[0]), weft_disown(v), weft_disown(view);
}

TEST(an_argument_that_only_a_call_holds_is_overwritten_when_its_result_is_evaluated) {
  weft_scope *s = weft_scope_open();
  weft_function *f = step_function();
  for (int again = 0; again < 2; again++)
    for (int what = 0; what < 5; what++) argument_goes_with_its_call(f, what);
  weft_scope_discard(s);
}

TEST(an_argument_of_a_call_that_is_given_twice_or_held_elsewhere_is_not_overwritten) {
  weft_scope *s = weft_scope_open();
  weft_function *f = step_function();
  weft_array *w = array(), *was = array(), *y[3];
  float *got = malloc(BYTES), *before = some(N);
  weft_scope *step = weft_scope_open();
  weft_call(f, 2, (weft_array *[]){ w, w }, 3, y); /* the flipped one is read after or while the doubled one is written */
  weft_update(w, y[0]);
  weft_update(was, y[1]);
  EXPECT_OK(weft_scope_close(step));
  expect_each(w, N, doubled);
  EXPECT_OK(weft_read(was, WEFT_F32, got, BYTES));
  for (int i = 0; i < N; i++) if (got[i] != before[N - 1 - i]) { EXPECT_INT(i, -1); break; }
  weft_array *kept = twice(w); /* lazy: it needs the old value */
  weft_scope *more = weft_scope_open();
  weft_call(f, 2, (weft_array *[]){ w, was }, 3, y);
  weft_update(w, y[0]);
  EXPECT_OK(weft_scope_close(more));
  expect_each(kept, N, fourfold);
  expect_each(w, N, fourfold);
  free(got), free(before);
  weft_scope_discard(s);
}

TEST(whatever_allocation_of_a_call_fails_its_argument_is_updated_or_not) {
  enum { SMALL = 3000 };
  int64_t threads = weft_set(WEFT_THREADS, 1);
  bool failed = true;
  for (int64_t n = 1; failed && n < 2000; n++) {
    weft_scope *s = weft_scope_open();
    weft_function *f = step_function();
    weft_array *w = array_n(SMALL), *v = array_n(SMALL), *y[3];
    float sum = 7;
    plan_drop_all();
    compiled_drop_all();
    mem_fail_at(n, n % 2);
    weft_scope *step = weft_scope_open();
    weft_call(f, 2, (weft_array *[]){ w, v }, 3, y);
    weft_update(w, y[0]);
    weft_fetch(y[2], WEFT_F32, &sum, sizeof sum);
    weft_status status = weft_scope_close(step);
    failed = mem_count() >= n;
    mem_fail_at(0, 0);
    EXPECT((sum == 7) == !!status);
    expect_each(w, SMALL, status ? same : doubled);
    expect_each(v, SMALL, same);
    weft_scope_discard(s);
  }
  weft_set(WEFT_THREADS, threads);
}

TEST(a_step_that_is_stopped_leaves_all_arrays_whole) {
  volatile int flag = 1;
  float sum = 7;
  weft_scope *s = weft_scope_open();
  weft_array *w = array(), *v = array();
  weft_cancel_when(&flag);
  EXPECT_INT(double_both(w, v, &sum), WEFT_ERR_CANCELLED);
  weft_cancel_when(NULL);
  EXPECT(sum == 7);
  expect_each(w, N, same);
  expect_each(v, N, same);
  EXPECT_OK(double_both(w, v, &sum));
  expect_each(w, N, doubled);
  weft_scope_discard(s);
}

struct late { int flag, after_us; };

static void *stop_later(void *arg) {
  struct late *l = arg;
  usleep((unsigned)l->after_us);
  __atomic_store_n(&l->flag, 1, __ATOMIC_RELAXED);
  return NULL;
}

TEST(a_step_that_is_stopped_at_any_moment_is_done_or_not) {
  for (int i = 0; i < 60; i++) {
    weft_scope *s = weft_scope_open();
    weft_array *w = array(), *v = array();
    struct late l = { 0, i * 40 };
    float sum;
    pthread_t t;
    if (pthread_create(&t, NULL, stop_later, &l)) { test_skip("no threads"); return; }
    weft_cancel_when(&l.flag);
    weft_status status = double_both(w, v, &sum);
    pthread_join(t, NULL);
    weft_cancel_when(NULL);
    if (status) EXPECT_INT(status, WEFT_ERR_CANCELLED);
    expect_each(w, N, status ? same : doubled);
    expect_each(v, N, status ? same : doubled);
    weft_scope_discard(s);
  }
}

/* ---- Parts that are written back ---- */

enum { ROWS = 512, WIDE = 512, KEYS_BYTES = ROWS * WIDE * (int)sizeof(float) };

static weft_array *keys_of(void) {
  float *x = some(ROWS * WIDE);
  weft_array *a = there(weft_from(WEFT_F32, WEFT_DIMS(ROWS, WIDE), x));
  free(x);
  return a;
}

/* A row is put into the keys at `row`, a product is taken with all of them, and then something is read at `index`, which may not be
 * there: the copy cannot be the last thing that happens. */
static weft_status attend(weft_array *keys, int row, int64_t index, float *sum) {
  weft_scope *step = weft_scope_open();
  float sevens[WIDE];
  for (int i = 0; i < WIDE; i++) sevens[i] = 7;
  weft_array *q = weft_mul(weft_full(WEFT_F32, WEFT_DIMS(4, WIDE), 1), weft_scalar(0.5)), *at = i64_of(index);
  weft_array *one = weft_from(WEFT_F32, WEFT_DIMS(1, WIDE), sevens);
  weft_array *next = weft_put(keys, weft_slice(keys, 0, row, row + 1, 1), one, WEFT_SET);
  weft_array *scores = weft_matmul(q, weft_transpose(next, (int[]){ 1, 0 }));
  weft_update(keys, next);
  weft_fetch(weft_at(weft_sum(scores, 0), 1, at), WEFT_F32, sum, sizeof *sum);
  return weft_scope_close(step);
}

static void expect_keys(weft_array *keys, int n_written) {
  float *was = some(ROWS * WIDE), *got = malloc(KEYS_BYTES);
  EXPECT_OK(weft_read(keys, WEFT_F32, got, KEYS_BYTES));
  for (int i = 0; i < ROWS * WIDE; i++)
    if (got[i] != (i / WIDE < n_written ? 7 : was[i])) {
      test_fail(__FILE__, __LINE__, "element %d of row %d is %g", i % WIDE, i / WIDE, (double)got[i]);
      break;
    }
  free(was), free(got);
}

TEST(a_row_is_written_in_place_though_products_follow) {
  if (weft_get(WEFT_DEVICE)) return test_skip("on a device nothing is written back, so the keys are copied");
  weft_set(WEFT_THREADS, 2); /* each has 64 KiB to multiply in: of 16 that is as much as the keys */
  weft_scope *s = weft_scope_open();
  weft_array *keys = keys_of();
  float sum;
  for (int row = 0; row < 5; row++) {
    int64_t used = weft_get(WEFT_BYTES_USED);
    weft_set(WEFT_BYTES_PEAK, 0);
    EXPECT_OK(attend(keys, row, row, &sum));
    EXPECT(sum == 4 * 0.5f * 7 * WIDE);
    int64_t grown = weft_get(WEFT_BYTES_PEAK) - used;
    if (grown >= KEYS_BYTES) test_fail(__FILE__, __LINE__, "row %d took %lld bytes", row, (long long)grown);
  }
  expect_keys(keys, 5);
  weft_scope_discard(s);
}

TEST(a_row_that_was_written_in_place_is_written_back_if_a_later_step_fails) {
  weft_scope *s = weft_scope_open();
  weft_array *keys = keys_of();
  float sum = 7;
  EXPECT_INT(attend(keys, 0, ROWS, &sum), WEFT_ERR_INDEX);
  EXPECT(sum == 7);
  expect_keys(keys, 0);
  EXPECT_OK(attend(keys, 0, 0, &sum));
  EXPECT_INT(attend(keys, 1, -ROWS - 1, &sum), WEFT_ERR_INDEX);
  expect_keys(keys, 1);
  weft_scope_discard(s);
}

TEST(a_row_is_written_or_not_whatever_allocation_fails) {
  bool failed = true;
  int64_t threads = weft_set(WEFT_THREADS, 1);
  for (int64_t n = 1; failed && n < 2000; n++) {
    weft_scope *s = weft_scope_open();
    weft_array *keys = keys_of();
    float sum;
    plan_drop_all();
    compiled_drop_all();
    mem_fail_at(n, n % 2);
    weft_status status = attend(keys, 0, 0, &sum);
    failed = mem_count() >= n;
    mem_fail_at(0, 0);
    if (status) EXPECT_INT(status, WEFT_ERR_MEMORY);
    expect_keys(keys, !status);
    weft_scope_discard(s);
  }
  weft_set(WEFT_THREADS, threads);
}

TEST(a_row_is_written_or_not_when_it_is_stopped_at_any_moment) {
  for (int i = 0; i < 40; i++) {
    weft_scope *s = weft_scope_open();
    weft_array *keys = keys_of();
    struct late l = { 0, i * 10 };
    float sum;
    pthread_t t;
    if (pthread_create(&t, NULL, stop_later, &l)) { test_skip("no threads"); return; }
    weft_cancel_when(&l.flag);
    weft_status status = attend(keys, 0, 0, &sum);
    pthread_join(t, NULL);
    weft_cancel_when(NULL);
    if (status) EXPECT_INT(status, WEFT_ERR_CANCELLED);
    expect_keys(keys, !status);
    weft_scope_discard(s);
  }
}

/* ---- Others meanwhile ---- */

struct reader { weft_array *w; int stop, bad; };

static void *read_on(void *arg) {
  struct reader *r = arg;
  float *got = malloc(BYTES);
  while (!__atomic_load_n(&r->stop, __ATOMIC_RELAXED)) {
    weft_scope *s = weft_scope_open();
    weft_array *x = weft_neg(r->w); /* asked for once: the next time it may be the next value */
    weft_array *y = weft_sub(x, weft_slice(x, 0, 0, 1, 1)); /* all elements are equal at any time */
    if (weft_read(y, WEFT_F32, got, BYTES)) r->bad = 1;
    for (int i = 0; i < N; i += 997) if (got[i] != 0) r->bad = 1;
    weft_scope_discard(s);
  }
  free(got);
  return NULL;
}

TEST(whoever_reads_an_array_while_it_is_updated_sees_the_old_value_or_the_new_one) {
  weft_scope *s = weft_scope_open();
  weft_array *w = weft_add(weft_mul(array(), weft_scalar(0)), weft_scalar(1));
  EXPECT_OK(weft_eval(1, &w));
  struct reader r = { .w = w };
  pthread_t t;
  if (pthread_create(&t, NULL, read_on, &r)) { test_skip("no threads"); return; }
  for (int i = 0; i < 200; i++) {
    weft_scope *step = weft_scope_open();
    weft_update(w, weft_add(w, weft_scalar(1)));
    EXPECT_OK(weft_scope_close(step));
  }
  __atomic_store_n(&r.stop, 1, __ATOMIC_RELAXED);
  pthread_join(t, NULL);
  EXPECT_INT(r.bad, 0);
  weft_scope_discard(s);
}

struct updater { weft_array *w; int stop, device; };

static void *update_on(void *arg) {
  struct updater *u = arg;
  weft_set(WEFT_DEVICE, u->device);
  while (!__atomic_load_n(&u->stop, __ATOMIC_RELAXED)) {
    weft_scope *step = weft_scope_open();
    weft_update(u->w, weft_add(u->w, weft_scalar(1)));
    EXPECT_OK(weft_scope_close(step));
  }
  return NULL;
}

static bool is_even(weft_array *w) {
  float *got = malloc(BYTES);
  bool ok = !weft_read(w, WEFT_F32, got, BYTES);
  for (int i = 1; ok && i < N; i++) ok = got[i] == got[0];
  free(got);
  return ok;
}

TEST(a_child_of_fork_finds_arrays_whole_that_another_thread_overwrites) {
  if (weft_get(WEFT_DEVICE)) return test_skip("a child of fork has no device");
  if (UNDER_ASAN || UNDER_TSAN) return test_skip("no fork among threads under a sanitizer");
  weft_scope *s = weft_scope_open();
  weft_array *w = weft_add(weft_mul(array(), weft_scalar(0)), weft_scalar(1));
  EXPECT_OK(weft_eval(1, &w));
  struct updater u = { .w = w };
  pthread_t t;
  if (pthread_create(&t, NULL, update_on, &u)) { test_skip("no threads"); return; }
  for (int i = 0; i < 20; i++) {
    pid_t child = fork();
    if (!child) _exit(!is_even(w));
    int how = -1;
    waitpid(child, &how, 0);
    EXPECT(WIFEXITED(how) && !WEXITSTATUS(how));
  }
  __atomic_store_n(&u.stop, 1, __ATOMIC_RELAXED);
  pthread_join(t, NULL);
  weft_scope_discard(s);
}

/* Who overwrites there takes locks of buffers before it ends: a fork that had them already would wait for ever. */
TEST(a_fork_ends_while_another_thread_overwrites_on_a_device) {
  if (UNDER_ASAN || UNDER_TSAN) return test_skip("no fork among threads under a sanitizer");
  far_begin(FAR_WHEN_WAITED_FOR);
  weft_scope *s = weft_scope_open();
  struct updater u[2];
  pthread_t t[2];
  int n = 0;
  for (int i = 0; i < 2; i++) u[i] = (struct updater){ .w = weft_add(far_ramp(200000), weft_scalar(1)), .device = 1 };
  while (n < 2 && !pthread_create(&t[n], NULL, update_on, &u[n])) n++;
  for (int i = 0; i < 300; i++) {
    pid_t child = fork();
    if (!child) _exit(0);
    EXPECT_INT(waitpid(child, NULL, 0), child);
  }
  for (int i = 0; i < 2; i++) __atomic_store_n(&u[i].stop, 1, __ATOMIC_RELAXED);
  while (n > 0) pthread_join(t[--n], NULL);
  weft_scope_discard(s);
  far_end();
}

/* ---- What may be written to ---- */

SCOPED(an_array_is_the_only_one_at_its_memory_if_nothing_else_can_read_it) {
  weft_array *x = array_n(6), *y = twice(x);
  EXPECT_INT(weft_is_only(y), 0); /* not computed */
  EXPECT_OK(weft_eval(1, &y));
  EXPECT_INT(weft_is_only(y), 1);
  weft_array *z = weft_transpose(weft_reshape(y, WEFT_DIMS(2, 3)), NULL);
  EXPECT_INT(weft_is_only(y), 0); /* an expression reads it */
  EXPECT_OK(weft_eval(1, &z));
  EXPECT_INT(weft_is_only(z), 0); /* a view of it */
  weft_block b;
  weft_array *w = twice(x);
  EXPECT_OK(weft_pin(w, 0, &b));
  EXPECT_INT(weft_is_only(w), 0);
  weft_unpin(w);
  EXPECT_INT(weft_is_only(w), 1);
  weft_array *same = weft_alias(w);
  EXPECT_OK(weft_eval(1, &same));
  EXPECT_INT(weft_is_only(same), 0);
  EXPECT_INT(weft_is_only(weft_scalar(1)), 0);
  EXPECT_INT(weft_is_only(weft_add(x, array_n(5))), 0); /* bad */
}

SCOPED(elements_that_share_a_place_are_not_apart) {
  weft_array *row = twice(array_n(3)), *rows = weft_broadcast(row, WEFT_DIMS(4, 3));
  EXPECT_OK(weft_eval(1, &rows));
  if (weft_is_only(rows)) { /* stored, or its first row would be changed four times */
    weft_block b;
    EXPECT_OK(weft_pin(rows, 0, &b));
    EXPECT(b.strides[0] != 0 && b.strides[1] != 0);
    weft_unpin(rows);
  }
}
