/* host.c -- functions of the host as steps: on which thread, how often, in loops, maps, functions and the background, what
 * becomes of their failures, and what they may ask for. */
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include "test.h"
#include "values.h"

/* y_i = x_i + i + base, and the sum of x: of f64 [n]. */
struct counting { _Atomic int calls, released; bool counts; int fails_at, status; double base; pthread_t thread; weft_array *asks; volatile int *flag; };

static int count_run(void *ctx, const weft_block in[], const weft_block out[]) {
  struct counting *c = ctx;
  int now = ++c->calls;
  c->thread = pthread_self();
  if (c->flag) *c->flag = 1;
  if (now == c->fails_at) return c->status;
  if (c->asks) {
    double v = 0;
    int status = (int)weft_read(c->asks, WEFT_F64, &v, sizeof v);
    if (status) return status;
    c->base = v;
  }
  const double *x = in[0].data;
  double *y = out[0].data, *sum = out[1].data;
  *sum = 0;
  if (in[0].rank != 1 || in[0].dtype != WEFT_F64 || in[0].strides[0] != 1 || out[1].rank != 0) return 77;
  for (int64_t i = 0; i < in[0].dims[0]; i++) y[i] = x[i] + (double)i + c->base, *sum += x[i];
  return 0;
}

static void count_release(void *ctx) { ((struct counting *)ctx)->released++; }

static void counted(struct counting *c, weft_array *x, int64_t n, weft_array *y[2]) {
  weft_host_function f = { c, count_run, c->counts ? count_release : NULL };
  weft_block like[] = { { .dtype = WEFT_F64, .rank = 1, .dims = &n }, { .dtype = WEFT_F64 } };
  weft_host(&f, 1, &x, 2, like, y);
}

static weft_array *three(void) { return f64s(3, (double[]){ 1, 2, 4 }); }

TEST(a_function_of_the_host_is_called_when_its_result_is_asked_for) {
  struct counting c = { .base = 100, .counts = true };
  weft_scope *s = weft_scope_open();
  weft_array *y[2], *x = weft_mul(weft_flip(three(), 0), weft_scalar(2)); /* 8 4 2, computed and reversed */
  counted(&c, x, 3, y);
  EXPECT_INT(c.calls, 0);
  EXPECT_F64(weft_add(y[0], weft_scalar(1)), 109, 106, 105);
  EXPECT_INT(c.calls, 1);
  EXPECT(pthread_equal(c.thread, pthread_self()));
  EXPECT_F64(y[1], 14);
  EXPECT(strstr(weft_show(1, (weft_array *[]){ weft_add(y[1], y[1]) }, "plan"), "steps"));
  weft_scope_discard(s);
  EXPECT_INT(c.released, 1);
}

SCOPED(a_function_is_called_once_for_every_row_of_a_map) {
  struct counting c = { 0 };
  weft_array *x = three(), *xs = weft_from(WEFT_F64, WEFT_DIMS(2, 3), (double[]){ 1, 2, 3, 4, 5, 6 }), *y[2], *ys[2], *twice[2];
  counted(&c, x, 3, y);
  weft_map(1, &x, &xs, 2, y, ys);
  EXPECT_OK(weft_eval(2, ys));
  EXPECT_INT(c.calls, 2);
  EXPECT_F64(ys[0], 1, 3, 5, 4, 6, 8);
  EXPECT_F64(ys[1], 6, 15);
  weft_array *more = weft_stack(0, 2, (weft_array *[]){ xs, weft_neg(xs) });
  weft_map(1, &xs, &more, 2, ys, twice);
  EXPECT_F64(twice[1], 6, 15, -6, -15);
}

static weft_array *called_if_positive(struct counting *c, weft_array *x) {
  weft_array *y[2];
  weft_cond *p = weft_cond_open(weft_gt(weft_sum(x, WEFT_ALL), weft_scalar(0)));
  counted(c, x, 3, y);
  weft_array *z = weft_cond_value(p, y[0], weft_mul(x, weft_scalar(10)));
  weft_cond_close(p);
  return z;
}

SCOPED(a_function_is_not_called_for_a_row_that_takes_the_other_side) {
  struct counting c = { .fails_at = 3, .status = 3 };
  weft_array *x = weft_input(WEFT_F64, WEFT_DIMS(3)), *y = called_if_positive(&c, x), *ys, *twice;
  weft_array *xs = weft_from(WEFT_F64, WEFT_DIMS(3, 3), (double[]){ 1, 2, 3, -4, -5, -6, 7, 8, 9 });
  weft_map(1, &x, &xs, 1, &y, &ys);
  EXPECT_F64(ys, 1, 3, 5, -40, -50, -60, 7, 9, 11);
  EXPECT_INT(c.calls, 2);
  c = (struct counting){ 0 };
  weft_array *one = weft_input(WEFT_F64, WEFT_DIMS(1, 3)), *more = weft_unsqueeze(xs, 1);
  weft_map(1, &x, &one, 1, &y, &ys);
  weft_map(1, &one, &more, 1, &ys, &twice);
  EXPECT_F64(twice, 1, 3, 5, -40, -50, -60, 7, 9, 11);
  EXPECT_INT(c.calls, 2);
}

SCOPED(a_function_is_called_in_every_step_of_a_loop) {
  struct counting c = { 0 };
  weft_loop *l = weft_loop_open(weft_integer(4));
  weft_array *v = weft_loop_carry(l, three()), *y[2];
  counted(&c, v, 3, y);
  weft_loop_next(l, v, y[0]);
  weft_array *last = weft_loop_last(l, v), *sums = weft_loop_all(l, y[1]);
  weft_loop_close(l);
  EXPECT_OK(weft_eval(2, (weft_array *[]){ last, sums }));
  EXPECT_INT(c.calls, 4);
  EXPECT_F64(last, 1, 6, 12);
  EXPECT_F64(sums, 7, 10, 13, 16);
}

SCOPED(a_compiled_function_calls_it_each_time) {
  struct counting c = { 0 };
  weft_scope *body = weft_scope_open();
  weft_array *in = weft_input(WEFT_F64, WEFT_DIMS(3)), *y[2];
  counted(&c, in, 3, y);
  weft_function *f = weft_compile(body, 1, &in, 1, &y[1]);
  for (int i = 1; i <= 3; i++) {
    weft_array *x = weft_mul(three(), weft_scalar(i)), *out;
    weft_call(f, 1, &x, 1, &out);
    EXPECT_F64(out, 7 * i);
    EXPECT_INT(c.calls, i);
  }
}

SCOPED(what_a_function_fails_with_is_what_the_caller_gets) {
  struct counting own = { .fails_at = 1, .status = 12345 }, weft = { .asks = weft_input(WEFT_F64, 0, NULL) };
  weft_array *y[2];
  uint64_t before = weft_origin(42);
  counted(&own, three(), 3, y);
  weft_origin(before);
  EXPECT_INT(weft_eval(1, y), WEFT_ERR_RULE);
  EXPECT_TEXT(weft_message(), "weft_host: the function failed with 12345");
  EXPECT_INT(weft_blame(), 42);
  EXPECT_F64(y[1], 7); /* and afterwards it does not fail */
  counted(&weft, three(), 3, y);
  EXPECT_INT(weft_eval(1, y), WEFT_ERR_NO_VALUE);
  EXPECT_TEXT(weft_message(), "weft_host: weft_read: a weft_input f64 [] is a name, not a value: call the function");
}

SCOPED(what_was_there_before_a_function_fails_stays) {
  struct counting c = { .fails_at = 1, .status = 3 };
  weft_array *w = weft_full(WEFT_F64, WEFT_DIMS(1 << 12), 2), *y[2];
  EXPECT_OK(weft_eval(1, &w));
  weft_scope *step = weft_scope_open();
  weft_array *x = weft_slice(weft_mul(w, weft_scalar(3)), 0, 0, 3, 1);
  counted(&c, x, 3, y);
  weft_update(w, weft_add(weft_mul(w, weft_scalar(2)), y[1]));
  EXPECT_INT(weft_scope_close(step), WEFT_ERR_RULE);
  EXPECT_F64(weft_slice(w, 0, 4094, WEFT_END, 1), 2, 2);
}

SCOPED(a_function_may_use_weft) {
  struct counting c = { .asks = weft_exp(weft_cast(weft_scalar(0), WEFT_F64)) };
  weft_array *y[2];
  counted(&c, three(), 3, y);
  EXPECT_F64(y[0], 2, 4, 7);
}

SCOPED(a_function_that_asks_for_what_waits_for_it_is_told_so) {
  struct counting c = { 0 };
  weft_array *y[2];
  counted(&c, three(), 3, y);
  c.asks = weft_add(y[1], weft_scalar(1));
  EXPECT_INT(weft_eval(1, y), WEFT_ERR_ARG);
  EXPECT_TEXT(weft_message(), "weft_host: the function asks for what waits for it");
  struct counting d = { 0 };
  counted(&d, three(), 3, y);
  d.asks = y[1];
  EXPECT_OK(weft_eval_async(1, &y[1]));
  EXPECT_INT(weft_wait(1, &y[1], -1), WEFT_ERR_ARG);
}

SCOPED(in_the_background_it_waits_for_somebody_who_waits) {
  struct counting c = { 0 }, d = { 0 };
  weft_array *y[2], *z[2], *w = f64_of(5), *before = weft_add(three(), weft_scalar(1));
  counted(&c, three(), 3, y);
  EXPECT_OK(weft_eval_async(1, &y[0]));
  EXPECT_OK(weft_eval_async(1, &before)); /* comes after it */
  EXPECT_OK(weft_wait(1, y, -1));
  EXPECT_INT(c.calls, 1);
  EXPECT(pthread_equal(c.thread, pthread_self()));
  EXPECT_F64(y[0], 1, 3, 6);
  EXPECT_F64(before, 2, 3, 5);
  weft_scope *step = weft_scope_open();
  counted(&d, three(), 3, z);
  weft_update(w, z[1]);
  EXPECT_OK(weft_scope_close_async(step));
  EXPECT_OK(weft_wait(0, NULL, -1));
  EXPECT_INT(d.calls, 1);
  EXPECT(pthread_equal(d.thread, pthread_self()));
  EXPECT_F64(w, 7);
}

SCOPED(reading_what_the_background_has_put_off_computes_it) {
  struct counting c = { 0 };
  weft_array *y[2];
  for (int i = 0; i < 20; i++) {
    c.calls = 0;
    counted(&c, weft_add(three(), weft_scalar(i)), 3, y);
    EXPECT_OK(weft_eval_async(1, &y[1]));
    EXPECT_F64(weft_mul(y[1], weft_scalar(2)), 14 + 6 * i);
    EXPECT_INT(c.calls, 1);
  }
  EXPECT_OK(weft_wait(0, NULL, -1));
}

/* A call waits for those of its results that a job is to compute, which has been put off: it asked for them over and over. */
SCOPED(reading_a_call_that_the_background_has_put_off_computes_it) {
  struct counting c = { 0 };
  weft_scope *body = weft_scope_open();
  weft_array *in = weft_input(WEFT_F64, WEFT_DIMS(3)), *y[2], *out[2];
  counted(&c, in, 3, y);
  weft_function *f = weft_compile(body, 1, &in, 2, y);
  for (int i = 0; i < 20; i++) {
    weft_array *x = weft_add(three(), weft_scalar(i));
    weft_call(f, 1, &x, 2, out);
    EXPECT_OK(weft_eval_async(1, &out[1]));
    if (i % 2) EXPECT_F64(weft_add(out[0], out[1]), 8 + 4 * i, 10 + 4 * i, 13 + 4 * i);
    else EXPECT_F64(out[1], 7 + 3 * i);
  }
  EXPECT_OK(weft_wait(0, NULL, -1));
}

SCOPED(a_failure_in_the_background_is_that_of_whoever_waits) {
  struct counting c = { .fails_at = 1, .status = 9999 };
  weft_array *y[2];
  counted(&c, three(), 3, y);
  EXPECT_OK(weft_eval_async(1, &y[1]));
  EXPECT_INT(weft_wait(1, &y[1], -1), WEFT_ERR_RULE);
}

SCOPED(cancelling_is_looked_at_around_a_function) {
  volatile int flag = 0;
  struct counting c = { .flag = &flag };
  weft_array *x = three(), *xs = weft_full(WEFT_F64, WEFT_DIMS(5, 3), 1), *y[2], *ys[2];
  counted(&c, x, 3, y);
  weft_map(1, &x, &xs, 2, y, ys);
  weft_cancel_when(&flag);
  EXPECT_INT(weft_eval(2, ys), WEFT_ERR_CANCELLED);
  weft_cancel_when(NULL);
  EXPECT_INT(c.calls, 1);
}

static int one_vjp(void *ctx, weft_array *const x[], weft_array *const y[], weft_array *const dy[], weft_array *dx[]) {
  (void)ctx, (void)y;
  return dx[0] = weft_add(dy[0], weft_mul(dy[1], weft_full_like(x[0], 1))), 0;
}

SCOPED(a_function_is_differentiated_by_rules_alone) {
  struct counting c = { 0 };
  weft_array *x = three(), *y[2], *dx;
  counted(&c, x, 3, y);
  weft_grad(y[1], 1, &x, &dx);
  EXPECT_INT(weft_check(dx), WEFT_ERR_UNSUPPORTED);
  EXPECT(strstr(weft_message(), "weft_host has no derivative"));
  weft_custom(1, &x, 2, y, &(weft_rules){ .vjp = one_vjp });
  weft_grad(weft_add(weft_sum(weft_square(y[0]), WEFT_ALL), y[1]), 1, &x, &dx);
  EXPECT_F64(dx, 3, 7, 13);
}

static int fill(void *ctx, const weft_block in[], const weft_block out[]) {
  (void)in;
  for (int i = 0; i < 4; i++) ((float *)out[0].data)[i] = *(float *)ctx;
  return 0;
}

SCOPED(a_function_of_nothing_and_of_complex_and_empty_arrays) {
  float seven = 7, got[4];
  weft_array *y;
  weft_host_function f = { &seven, fill, NULL };
  weft_block like = { .dtype = WEFT_C64, .rank = 2, .dims = (int64_t[]){ 2, 1 } };
  weft_host(&f, 0, NULL, 1, &like, &y);
  EXPECT_OK(weft_read(weft_mul(weft_real(y), weft_imag(y)), WEFT_F32, got, 8));
  EXPECT(got[0] == 49 && got[1] == 49);
  weft_host(&f, 0, NULL, 0, NULL, &y);
  like.dims = (int64_t[]){ -3, 1 };
  weft_host(&f, 0, NULL, 1, &like, &y);
  EXPECT_INT(weft_check(y), WEFT_ERR_SHAPE);
  weft_host(&(weft_host_function){ 0 }, 0, NULL, 1, &like, &y);
  EXPECT_INT(weft_check(y), WEFT_ERR_ARG);
}

SCOPED(a_function_of_nothing_on_a_side_of_a_choice_and_in_a_loop) {
  float seven = 7;
  weft_host_function f = { &seven, fill, NULL };
  weft_block like = { .dtype = WEFT_F32, .rank = 1, .dims = (int64_t[]){ 4 } };
  for (int takes = 0; takes < 2; takes++) {
    weft_array *x = f64s(4, (double[]){ 1, 2, 3, 4 }), *p = weft_from(WEFT_BOOL, 0, NULL, &(bool){ takes }), *y, *dx;
    weft_cond *c = weft_cond_open(p);
    weft_host(&f, 0, NULL, 1, &like, &y);
    weft_array *z = weft_cond_value(c, weft_mul(x, y), x);
    weft_cond_close(c);
    weft_grad(weft_sum(weft_mul(z, z), WEFT_ALL), 1, &x, &dx);
    if (takes) EXPECT_F64(dx, 98, 196, 294, 392);
    else EXPECT_F64(dx, 2, 4, 6, 8);
    if (takes) EXPECT_F64(z, 7, 14, 21, 28);
    weft_loop *l = weft_loop_open(weft_integer(2));
    weft_array *v = weft_loop_carry(l, x), *w;
    weft_host(&f, 0, NULL, 1, &like, &w);
    weft_loop_next(l, v, weft_add(v, w));
    weft_array *last = weft_loop_last(l, v);
    weft_loop_close(l);
    EXPECT_F64(last, 15, 16, 17, 18);
  }
}

/* The job before it takes a while, so that somebody waits already when the function's job comes, and cannot call it. */
SCOPED(who_waits_when_a_job_is_put_off_goes_on_with_it) {
  struct counting c = { .base = 1 };
  test_watchdog(20);
  weft_loop *l = weft_loop_open(weft_integer(20000000));
  weft_array *v = weft_loop_carry(l, weft_full(WEFT_F64, 0, NULL, 1)), *y[2];
  weft_loop_next(l, v, weft_sqrt(weft_add(v, weft_scalar(1))));
  weft_array *slow = weft_loop_last(l, v);
  weft_loop_close(l);
  counted(&c, three(), 3, y);
  EXPECT_OK(weft_eval_async(1, &slow));
  EXPECT_OK(weft_eval_async(2, y));
  EXPECT_F64(y[0], 2, 4, 7);
  EXPECT_INT(c.calls, 1);
  EXPECT(pthread_equal(c.thread, pthread_self()));
}

/* The same, with sizes that an array tells. */
static void counted_like(struct counting *c, weft_array *x, weft_array *y[2]) {
  weft_host_function f = { c, count_run, c->counts ? count_release : NULL };
  weft_host_like(&f, 1, &x, 2, (weft_array *[]){ weft_neg(x), weft_full(WEFT_F64, 0, NULL, 0) }, y);
}

SCOPED(sizes_of_what_a_function_of_the_host_gives_may_be_open) {
  struct counting c = { 0 };
  weft_scope *body = weft_scope_open();
  weft_array *x = weft_input(WEFT_F64, WEFT_DIMS(WEFT_ANY)), *y[2], *out[2];
  counted_like(&c, weft_slice(x, 0, 1, INT64_MAX, 1), y);
  weft_array *outs[] = { weft_mul(y[0], weft_scalar(2)), weft_add(y[1], weft_sum(y[0], WEFT_ALL)) };
  weft_function *f = weft_compile(body, 1, &x, 2, outs);
  for (int64_t n = 4; n > 0; n--) {
    double v[] = { 9, 1, 2, 3 }, twice = 0, sum = 0;
    weft_array *a = weft_from(WEFT_F64, WEFT_DIMS(n), v);
    weft_call(f, 1, &a, 2, out);
    EXPECT_OK(weft_eval(2, out));
    for (int64_t i = 0; i < n - 1; i++) twice += 2 * (v[i + 1] + (double)i), sum += v[i + 1];
    EXPECT_F64(weft_sum(out[0], WEFT_ALL), twice);
    EXPECT_F64(out[1], sum + twice / 2);
    EXPECT_INT(weft_dim(out[0], 0), n - 1);
  }
  EXPECT_INT(c.calls, 4);
}

SCOPED(a_function_of_open_size_is_mapped_and_looped_over) {
  struct counting c = { 0 };
  weft_array *x = weft_input(WEFT_F64, WEFT_DIMS(WEFT_ANY)), *y[2], *ys[2];
  weft_array *xs = weft_from(WEFT_F64, WEFT_DIMS(2, 3), (double[]){ 1, 2, 3, 4, 5, 6 });
  counted_like(&c, x, y);
  weft_map(1, &x, &xs, 2, y, ys);
  EXPECT_F64(ys[0], 1, 3, 5, 4, 6, 8);
  EXPECT_F64(ys[1], 6, 15);
  weft_scope *body = weft_scope_open();
  weft_array *in = weft_input(WEFT_F64, WEFT_DIMS(WEFT_ANY)), *out;
  weft_loop *l = weft_loop_open(weft_integer(4));
  weft_array *v = weft_loop_carry(l, in);
  counted_like(&c, v, y);
  weft_loop_next(l, v, y[0]);
  weft_array *last = weft_loop_last(l, v);
  weft_loop_close(l);
  weft_function *f = weft_compile(body, 1, &in, 1, &last);
  for (int64_t n = 3; n > 0; n--) {
    weft_array *a = weft_from(WEFT_F64, WEFT_DIMS(n), (double[]){ 1, 2, 4 });
    weft_call(f, 1, &a, 1, &out);
    EXPECT_INT(weft_dim(out, 0), n);
    EXPECT_F64(weft_sum(out, WEFT_ALL), n == 3 ? 19 : n == 2 ? 7 : 1);
  }
}

SCOPED(results_of_the_host_that_cannot_be_are_refused) {
  struct counting c = { 0 };
  weft_array *x = three(), *bad = weft_add(x, f64s(2, (double[]){ 1, 2 })), *y[2] = { 0 };
  weft_host_function f = { &c, count_run, NULL };
  weft_host_like(&f, 1, &x, 1, &bad, y);
  EXPECT_INT(weft_check(y[0]), WEFT_ERR_SHAPE);
  int64_t dims[WEFT_RANK_MAX];
  for (int k = 0; k < WEFT_RANK_MAX; k++) dims[k] = 1;
  weft_array *high = weft_full(WEFT_F64, WEFT_RANK_MAX, dims, 0);
  weft_host_like(&f, 1, &x, 1, &high, y);
  EXPECT_INT(weft_check(y[0]), WEFT_ERR_SHAPE);
  weft_host_like(NULL, 1, &x, 1, &x, y);
  EXPECT_INT(weft_check(y[0]), WEFT_ERR_ARG);
  EXPECT_TEXT(weft_message(), "weft_host_like: no function");
  EXPECT_INT(c.calls, 0);
}

/* ---- Somebody else computes its result meanwhile ---- */

enum { LONG = 50000 }; /* more than what is stored for its owner beside what was asked for */
struct crossed { _Atomic int calls, released; int released_inside; weft_array *y; pthread_t other; };

static void *evaluates_it(void *arg) {
  struct crossed *c = arg;
  EXPECT_OK(weft_eval(1, &c->y));
  return NULL;
}

/* The first call lasts until another thread has asked for the result itself, and been given it by the second. */
static int crossed_run(void *ctx, const weft_block in[], const weft_block out[]) {
  struct crossed *c = ctx;
  if (++c->calls == 1) {
    pthread_create(&c->other, NULL, evaluates_it, c);
    pthread_join(c->other, NULL);
    c->released_inside = c->released;
  }
  for (int64_t i = 0; i < LONG; i++) ((float *)out[0].data)[i] = ((const float *)in[0].data)[i] + 1;
  return 0;
}

static void crossed_release(void *ctx) { ((struct crossed *)ctx)->released++; }

static weft_array *crossed_in(struct crossed *c, weft_array *x) {
  weft_array *y;
  weft_host(&(weft_host_function){ c, crossed_run, crossed_release }, 1, &x, 1,
            &(weft_block){ .dtype = WEFT_F32, .rank = 1, .dims = (int64_t[]){ LONG } }, &y);
  return y;
}

static weft_array *crossed_in_loop(struct crossed *c, weft_array *x) {
  weft_loop *l = weft_loop_open(weft_integer(1));
  weft_array *v = weft_loop_carry(l, x);
  weft_loop_next(l, v, crossed_in(c, v));
  weft_array *last = weft_loop_last(l, v);
  weft_loop_close(l);
  return last;
}

TEST(a_function_of_the_host_lives_while_it_is_called_though_another_thread_has_its_result) {
  for (int is_loop = 0; is_loop < 2; is_loop++) {
    static struct crossed c;
    float v = 0;
    c = (struct crossed){ 0 };
    weft_scope *s = weft_scope_open();
    weft_array *x = weft_full(WEFT_F32, WEFT_DIMS(LONG), 2);
    c.y = weft_own(is_loop ? crossed_in_loop(&c, x) : crossed_in(&c, x));
    weft_scope_discard(s);
    s = weft_scope_open();
    weft_fetch(weft_mean(weft_mul(c.y, weft_scalar(2)), WEFT_ALL), WEFT_F32, &v, sizeof v); /* and stores nothing else */
    EXPECT_OK(weft_scope_close(s));
    EXPECT(v == 6);
    EXPECT_INT(c.calls, 2);
    EXPECT_INT(c.released_inside, 0);
    weft_disown(c.y);
    EXPECT_INT(c.released, 1);
  }
}
