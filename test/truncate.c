/* truncate.c -- gradients that go back through the last steps of a loop only. */
#include "values.h"

enum { N = 8, ALL = 0 };
static const double POINT[N] = { 0.3, -0.7, 1.2, 0.9, -0.4, 0.6, 0.1, -0.2 };

struct inputs { weft_array *x, *a, *y0; };
static struct inputs inputs(void) { return (struct inputs){ f64s(N, POINT), f64_of(0.8), f64_of(0.5) }; }

static weft_array *step(weft_array *y, weft_array *a, weft_array *x) { return weft_add(weft_tanh(weft_mul(a, y)), x); }

/* y <- tanh(a y) + x_t; steps: known, computed, or ended by until after N - 2 of them. */
enum how { KNOWN, COMPUTED, UNTIL };
static weft_array *truncated(struct inputs in, int64_t k, enum how how) {
  weft_loop *l = weft_loop_open(how == COMPUTED ? weft_add(i64_of(N - 1), i64_of(1)) : NULL);
  weft_array *x = weft_loop_each(l, in.x), *y = weft_loop_carry(l, in.y0), *t = weft_loop_carry(l, i64_of(1)), *next = step(y, in.a, x);
  weft_loop_next(l, y, next);
  weft_loop_next(l, t, weft_add(t, weft_integer(1)));
  if (how == UNTIL) weft_loop_until(l, weft_ge(t, weft_integer(N - 2)));
  if (k) weft_loop_truncate(l, k);
  weft_array *all = weft_loop_all(l, weft_mul(next, next)), *last = weft_loop_last(l, y);
  weft_loop_close(l);
  return weft_add(weft_sum(all, WEFT_ALL), weft_mul(last, weft_scalar(3)));
}

/* The same written out, with the steps before the last k behind weft_stop_gradient. */
static weft_array *written_out(struct inputs in, int64_t k, enum how how) {
  int n = how == UNTIL ? N - 2 : N;
  weft_array *y = in.y0, *total = f64_of(0);
  for (int t = 0; t < n; t++) {
    weft_array *x = weft_squeeze(weft_slice(in.x, 0, t, t + 1, 1), 0);
    bool is_constant = k && t < n - k;
    y = step(k && n > k && t == n - k ? weft_stop_gradient(y) : y, in.a, x);
    weft_array *square = weft_mul(y, y);
    total = weft_add(total, is_constant ? weft_stop_gradient(square) : square);
  }
  return weft_add(total, weft_mul(y, weft_scalar(3)));
}

static void compare(int64_t k, enum how how) {
  weft_scope *s = weft_scope_open();
  struct inputs in = inputs();
  weft_array *y = truncated(in, k, how), *z = written_out(in, k, how), *by[] = { in.x, in.a, in.y0 }, *dy[3], *dz[3];
  weft_grad(y, 3, by, dy); /* before the number of steps is known */
  weft_grad(z, 3, by, dz);
  EXPECT_NEAR(one_f64(y), one_f64(z), 1e-14);
  double a[N], b[N];
  for (int i = 0; i < 3; i++)
    if (read_f64(dy[i], i ? 1 : N, a) && read_f64(dz[i], i ? 1 : N, b))
      for (int j = 0; j < (i ? 1 : N); j++)
        if (!near(a[j], b[j], 1e-14)) test_fail(__FILE__, __LINE__, "last %d, how %d: by input %d: [%d] is %.17g, not %.17g", (int)k, how, i, j, a[j], b[j]);
  weft_scope_discard(s);
}

TEST(a_truncated_gradient_goes_back_through_the_last_steps_only) {
  for (int64_t k = 1; k <= N + 1; k++) compare(k, KNOWN);
  compare(ALL, KNOWN);
}

TEST(a_truncated_gradient_of_steps_known_when_it_runs_is_the_same) {
  for (int64_t k = 1; k <= N + 1; k += 2) compare(k, COMPUTED);
}

TEST(a_truncated_gradient_begins_where_until_has_ended_the_loop) {
  for (int64_t k = 1; k <= N + 1; k += 2) compare(k, UNTIL);
}

TEST(a_truncated_gradient_inside_a_function_and_a_map_is_that_of_every_row) {
  weft_scope *s = weft_scope_open();
  struct inputs in = inputs();
  weft_array *d, *ds, *rows = weft_stack(0, WEFT_ARRAYS(in.x, weft_neg(in.x)));
  double a[2 * N], b[N];
  weft_grad(truncated(in, 3, KNOWN), 1, &in.x, &d);
  weft_map(1, &in.x, &rows, 1, &d, &ds);
  if (read_f64(ds, 2 * N, a) && read_f64(d, N, b))
    for (int i = 0; i < N; i++) EXPECT(a[i] == b[i]);
  weft_array *y = truncated(in, 3, KNOWN), *ys, *each;
  weft_map(1, &in.x, &rows, 1, &y, &ys);
  weft_grad(ys, 1, &rows, &each);
  double c[2 * N];
  if (read_f64(each, 2 * N, c))
    for (int i = 0; i < 2 * N; i++) EXPECT_NEAR(c[i], a[i], 1e-15);
  weft_scope *body = weft_scope_open();
  struct inputs names = { weft_input(WEFT_F64, WEFT_DIMS(WEFT_ANY)), in.a, in.y0 };
  weft_grad(truncated(names, 3, KNOWN), 1, &names.x, &d);
  weft_function *f = weft_compile(body, 1, &names.x, 1, &d);
  weft_call(f, 1, &in.x, 1, &ds);
  if (read_f64(ds, N, c))
    for (int i = 0; i < N; i++) EXPECT_NEAR(c[i], b[i], 1e-15);
  weft_scope_discard(s);
}

TEST(nothing_to_go_back_through_is_refused) {
  weft_scope *s = weft_scope_open();
  weft_loop *l = weft_loop_open(weft_integer(3));
  weft_array *c = weft_loop_carry(l, f64_of(1)), *last = weft_loop_last(l, c);
  weft_loop_truncate(l, 0);
  weft_loop_close(l);
  EXPECT_INT(weft_check(last), WEFT_ERR_ARG);
  weft_loop_truncate(NULL, 1);
  weft_scope_discard(s);
}
