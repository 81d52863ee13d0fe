/* nesting.c -- transforms inside transforms, in any order: every pair and every triple of gradient, vjp, jvp, map,
 * checkpoint, own rules, call and loop, on small programs. Those that change no value must change none wherever they
 * stand; those that differentiate are held against differences of what they differentiate. */
#include <math.h>
#include <stdio.h>
#include "values.h"

enum { N = 4, MOST = 64 };
static const double POINT[N] = { 0.6, -0.8, 1.1, 0.35 };

/* ---- Programs of four numbers ---- */

static weft_array *matrix(weft_array *x) { return weft_reshape(x, WEFT_DIMS(2, 2)); }
static weft_array *smooth(weft_array *x) { return weft_mul(weft_tanh(x), weft_exp(weft_mul(x, weft_scalar(-0.5)))); }
static weft_array *product(weft_array *x) {
  weft_array *m = matrix(x);
  return weft_softmax(weft_matmul(m, weft_transpose(weft_sigmoid(m), NULL)), -1);
}
static weft_array *indexed(weft_array *x) { /* repeated indices, a scatter that multiplies, a view backwards */
  weft_array *i = weft_from(WEFT_I64, WEFT_DIMS(3), (int64_t[]){ 1, 3, 1 });
  weft_array *y = weft_put(x, weft_take(x, 1, &i), weft_exp(weft_slice(x, 0, 3, 0, -1)), WEFT_MUL);
  return weft_mul(y, weft_flip(x, 0));
}
static weft_array *folded(weft_array *x) {
  weft_array *m = matrix(x);
  return weft_add(weft_mul(weft_prod(m, 1), weft_cumsum(m, 0)), weft_logsumexp(m, 0));
}
static weft_array *windowed(weft_array *x) {
  weft_array *w = weft_as_strided(x, WEFT_DIMS(3, 2), (int64_t[]){ 1, 1 }, 0);
  return weft_mul(weft_var(w, 1, 0), weft_where(weft_gt(w, weft_scalar(0)), weft_mul(w, w), weft_exp(w)));
}
static const struct { const char *name; array_function f; } programs[] = {
  { "smooth", smooth }, { "product", product }, { "indexed", indexed }, { "folded", folded }, { "windowed", windowed } };
enum { PROGRAMS = sizeof programs / sizeof *programs };

/* ---- Transforms of whatever is inside ---- */

typedef weft_array *transform(int level, weft_array *x);
struct way { const char *name; transform *apply; bool differentiates; };
static const struct way *stage[4];
static int n_stages;
static array_function innermost;

static weft_array *inside(int level, weft_array *x) {
  return level == n_stages ? innermost(x) : stage[level]->apply(level, x);
}

/* Weights in the shape of y, not all alike. */
static weft_array *weights(weft_array *y) {
  weft_array *flat = weft_iota(weft_reshape(weft_full_like(y, 0), WEFT_DIMS(WEFT_ANY)), 0);
  return weft_reshape_like(weft_sub(weft_scalar(1), weft_mul(flat, weft_scalar(0.375))), y);
}

static weft_array *by_grad(int level, weft_array *x) {
  weft_array *y = inside(level + 1, x), *dx;
  weft_grad(y, 1, &x, &dx);
  return dx;
}
static weft_array *by_vjp(int level, weft_array *x) {
  weft_array *y = inside(level + 1, x), *dy = weights(y), *dx;
  weft_vjp(1, &y, &dy, 1, &x, &dx);
  return dx;
}
static weft_array *by_jvp(int level, weft_array *x) {
  weft_array *y = inside(level + 1, x), *dx = weights(x), *dy;
  weft_jvp(1, &x, &dx, 1, &y, &dy);
  return dy;
}
static weft_array *by_map(int level, weft_array *x) { /* the last of three rows is x */
  weft_array *rows = weft_stack(0, WEFT_ARRAYS(weft_mul(x, weft_scalar(1.25)), weft_neg(x), x)), *y = inside(level + 1, x), *ys;
  weft_map(1, &x, &rows, 1, &y, &ys);
  return weft_at(ys, 0, weft_integer(2));
}
static weft_array *by_checkpoint(int level, weft_array *x) {
  weft_array *y = inside(level + 1, x);
  weft_checkpoint(1, &x, 1, &y);
  return y;
}

/* Rules that are transforms themselves. */
static const int levels[] = { 0, 1, 2, 3, 4 };
static int own_vjp(void *ctx, weft_array *const x[], weft_array *const y[], weft_array *const dy[], weft_array *dx[]) {
  (void)y;
  weft_array *again = inside(*(int *)ctx + 1, x[0]);
  weft_vjp(1, &again, dy, 1, x, dx);
  return 0;
}
static int own_jvp(void *ctx, weft_array *const x[], weft_array *const dx[], weft_array *dy[]) {
  weft_array *again = inside(*(int *)ctx + 1, x[0]);
  weft_jvp(1, x, dx, 1, &again, dy);
  return 0;
}
static weft_array *by_custom(int level, weft_array *x) {
  weft_array *y = inside(level + 1, x);
  weft_custom(1, &x, 1, &y, &(weft_rules){ .ctx = (void *)&levels[level], .vjp = own_vjp, .jvp = own_jvp });
  return y;
}
static weft_array *by_call(int level, weft_array *x) {
  weft_scope *body = weft_scope_open();
  weft_array *in = weft_input(WEFT_F64, WEFT_DIMS(N)), *out = inside(level + 1, in), *y;
  weft_function *f = weft_compile(body, 1, &in, 1, &out);
  weft_call(f, 1, &x, 1, &y);
  return y;
}
static weft_array *by_loop(int level, weft_array *x) { /* of x/2 + x/4 + x/4 after each step; the last is x */
  weft_array *quarter = weft_mul(x, weft_scalar(0.25));
  weft_loop *loop = weft_loop_open(NULL);
  weft_array *more = weft_loop_each(loop, weft_stack(0, WEFT_ARRAYS(quarter, quarter)));
  weft_array *part = weft_loop_carry(loop, weft_mul(x, weft_scalar(0.5))), *next = weft_add(part, more);
  weft_loop_next(loop, part, next);
  weft_array *all = weft_loop_all(loop, inside(level + 1, next));
  weft_loop_close(loop);
  return weft_at(all, 0, weft_integer(1));
}

static const struct way ways[] = {
  { "grad", by_grad, true }, { "vjp", by_vjp, true }, { "jvp", by_jvp, true }, { "map", by_map, false },
  { "checkpoint", by_checkpoint, false }, { "own rules", by_custom, false }, { "call", by_call, false }, { "loop", by_loop, false }
};
enum { WAYS = sizeof ways / sizeof *ways };

/* ---- Checking ---- */

static int size_of(weft_array *a) {
  int n = 1;
  for (int k = 0; k < weft_rank(a); k++) n *= (int)weft_dim(a, k);
  return n;
}

/* What the stages make of the program at x; returns the number of elements, 0 if it failed. */
static int evaluated(const double x[], double y[]) {
  weft_scope *s = weft_scope_open();
  weft_array *out = inside(0, f64s(N, x));
  int n = weft_rank(out) < 0 ? 0 : size_of(out);
  if (n > MOST || n < 1) test_fail(__FILE__, __LINE__, "%d elements: %s", n, weft_check(out) ? weft_message() : ""), n = 0;
  if (n && !read_f64(out, n, y)) n = 0;
  weft_scope_discard(s);
  return n;
}

static void use(int n, const struct way *const list[]) {
  n_stages = n;
  for (int i = 0; i < n; i++) stage[i] = list[i];
}

static const char *named(int n, const struct way *const list[], int program) {
  static char text[128];
  int at = 0;
  for (int i = 0; i < n; i++) at += snprintf(text + at, sizeof text - (size_t)at, "%s of ", list[i]->name);
  snprintf(text + at, sizeof text - (size_t)at, "%s", programs[program].name);
  return text;
}

static void expect_same(const char *name, int n, const double got[], const double want[], double tolerance) {
  for (int i = 0; i < n; i++)
    if (!near(want[i], got[i], tolerance))
      test_fail(__FILE__, __LINE__, "%s: element %d is %.12g, not %.12g", name, i, got[i], want[i]);
}

/* Without the stages that change no value it is the same. */
static void check_values(int n, const struct way *const list[], int program) {
  const struct way *rest[4];
  int n_rest = 0;
  double got[MOST], want[MOST];
  for (int i = 0; i < n; i++)
    if (list[i]->differentiates) rest[n_rest++] = list[i];
  innermost = programs[program].f;
  use(n_rest, rest);
  int m = evaluated(POINT, want);
  use(n, list);
  if (evaluated(POINT, got) != m) test_fail(__FILE__, __LINE__, "%s: another number of elements", named(n, list, program));
  else expect_same(named(n, list, program), m, got, want, 1e-11);
}

/* column j of the Jacobian of what is inside the first stage, by differences. */
static int column(int n, const struct way *const list[], int j, double d[]) {
  double up[N], down[N], a[MOST], b[MOST];
  for (int i = 0; i < N; i++) up[i] = POINT[i] + 1e-5 * (i == j), down[i] = POINT[i] - 1e-5 * (i == j);
  use(n - 1, list + 1);
  int m = evaluated(up, a);
  evaluated(down, b);
  for (int i = 0; i < m; i++) d[i] = (a[i] - b[i]) / 2e-5;
  return m;
}

/* What differentiates first, against differences of the rest. */
static void check_differences(int n, const struct way *const list[], int program) {
  double want[MOST] = { 0 }, got[MOST], d[MOST];
  bool is_forward = list[0]->apply == by_jvp;
  innermost = programs[program].f;
  int m = 0;
  for (int j = 0; j < N; j++) {
    m = column(n, list, j, d);
    if (!is_forward) want[j] = 0;
    for (int i = 0; i < m; i++) {
      double weight = list[0]->apply == by_grad ? 1 : 1 - 0.375 * (is_forward ? j : i);
      want[is_forward ? i : j] += weight * d[i];
    }
  }
  use(n, list);
  if (evaluated(POINT, got) == (is_forward ? m : N)) expect_same(named(n, list, program), is_forward ? m : N, got, want, 1e-6);
  else test_fail(__FILE__, __LINE__, "%s: another number of elements", named(n, list, program));
}

TEST(every_transform_of_every_program_is_right) {
  for (int p = 0; p < PROGRAMS; p++)
    for (int i = 0; i < WAYS; i++) {
      check_values(1, (const struct way *[]){ &ways[i] }, p);
      if (ways[i].differentiates) check_differences(1, (const struct way *[]){ &ways[i] }, p);
    }
}

TEST(every_transform_of_every_transform_is_right) {
  test_watchdog(300);
  for (int p = 0; p < PROGRAMS; p++)
    for (int i = 0; i < WAYS * WAYS; i++) {
      const struct way *list[] = { &ways[i / WAYS], &ways[i % WAYS] };
      check_values(2, list, p);
      if (list[0]->differentiates) check_differences(2, list, p);
    }
}

TEST(three_transforms_nest_in_any_order) {
  test_watchdog(300);
  for (int i = 0; i < WAYS * WAYS * WAYS; i++) {
    const struct way *list[] = { &ways[i / WAYS / WAYS], &ways[i / WAYS % WAYS], &ways[i % WAYS] };
    check_values(3, list, i % PROGRAMS);
  }
}
