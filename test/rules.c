/* rules.c -- every derivative and map rule against its definition, in double, on an evaluator of its own:
 *   J u = (f(x + hu) - f(x - hu)) / 2h,   <v, J u> = <J' v, u>,   map f = f of each row. */
#include "every_graph.h"
#include "op/op.h"
#include <math.h>
#include <stdlib.h>
#include "test.h"

enum { MOST = 3, ROWS = 3 };

struct rule_case {
  const char *name;
  weft_array *(*f)(weft_array *const x[]);
  int n;
  struct { int rank; int64_t dims[3]; } shape[MOST];
  bool is_positive;
};

#define F(name) static weft_array *name(weft_array *const x[])
static weft_array *indices(weft_dtype d, int n, const int64_t values[]) {
  return weft_cast(weft_from(WEFT_I64, 1, (int64_t[]){ n }, values), d);
}

F(f_neg) { return weft_neg(x[0]); }
F(f_abs) { return weft_abs(x[0]); }
F(f_sqrt) { return weft_sqrt(x[0]); }
F(f_rsqrt) { return weft_rsqrt(x[0]); }
F(f_exp) { return weft_exp(x[0]); }
F(f_log) { return weft_log(x[0]); }
F(f_log1p) { return weft_log1p(x[0]); }
F(f_tanh) { return weft_tanh(x[0]); }
F(f_sigmoid) { return weft_sigmoid(x[0]); }
F(f_add) { return weft_add(x[0], x[1]); }
F(f_sub) { return weft_sub(x[0], x[1]); }
F(f_mul) { return weft_mul(x[0], x[1]); }
F(f_div) { return weft_div(x[0], x[1]); }
F(f_maximum) { return weft_maximum(x[0], x[1]); }
F(f_minimum) { return weft_minimum(x[0], x[1]); }
F(f_choose) { return weft_choose(weft_lt(weft_sum(x[0], WEFT_ALL), weft_sum(x[1], WEFT_ALL)), weft_cumsum(x[0], 0), weft_mul(x[1], x[1])); }
F(f_where) { return weft_where(weft_lt(x[0], x[1]), x[0], weft_mul(x[1], x[1])); }
F(f_fma) { return weft_fma(x[0], x[1], x[2]); }
F(f_sum) { return weft_sum(x[0], 1); }
F(f_sum_all) { return weft_sum(weft_mul(x[0], x[0]), WEFT_ALL); }
F(f_prod) { return weft_prod(x[0], 0); }
F(f_prod_zero) { return weft_prod(weft_sub(x[0], weft_slice(x[0], 1, 0, 1, 1)), 1); }
F(f_mean) { return weft_mean(x[0], -1); }
F(f_mean_all) { return weft_mean(x[0], WEFT_ALL); }
F(f_max) { return weft_max(x[0], 1); }
F(f_min) { return weft_min(x[0], 0); }
F(f_max_all) { return weft_max(x[0], WEFT_ALL); }
F(f_logsumexp) { return weft_logsumexp(x[0], 1); }
F(f_softmax) { return weft_softmax(x[0], 0); }
F(f_argmax) { return weft_mul(x[0], weft_cast(weft_argmax(x[0], 1), WEFT_F64)); }
F(f_sort) { return weft_sort(x[0], 1); }
F(f_sort_column) { return weft_sort(x[0], 0); }
F(f_topk) { return weft_topk(x[0], 1, 2); }
F(f_median) { return weft_median(x[0], 1); }
F(f_partition) { return weft_partition(x[0], 0, 1); }
F(f_quantile) { return weft_quantile(x[0], weft_scalar(0.3), 1, WEFT_HAZEN); }
F(f_argsort) { return weft_mul(weft_cast(weft_argsort(x[0], 1), WEFT_F64), x[0]); }
F(f_cumsum) { return weft_cumsum(x[0], 1); }
F(f_cumprod) { return weft_cumprod(x[0], 1); }
F(f_cumprod_zero) { return weft_cumprod(weft_sub(x[0], weft_slice(x[0], 0, 1, 2, 1)), 0); }
F(f_cummax) { return weft_cummax(x[0], 1); }
F(f_cummin) { return weft_cummin(x[0], 0); }
F(f_reshape) { return weft_mul(weft_reshape(x[0], WEFT_DIMS(2, 6)), weft_reshape(x[0], WEFT_DIMS(2, 6))); }
F(f_broadcast) { return weft_broadcast(x[0], WEFT_DIMS(2, 3, 4)); }
F(f_stretch) { return weft_broadcast(weft_unsqueeze(weft_slice(x[0], 1, 0, 1, 1), 0), WEFT_DIMS(2, 3, 5)); }
F(f_transpose) { return weft_transpose(x[0], (int[]){ 2, 0, 1 }); }
F(f_slice) { return weft_slice(x[0], 1, 1, 3, 1); }
F(f_reverse) { return weft_mul(weft_flip(weft_flip(x[0], 0), 1), x[0]); }
F(f_strides) { return weft_slice(weft_slice(x[0], 1, WEFT_END, WEFT_BEGIN, -2), 0, 2, 0, -1); }
F(f_at) { return weft_at(x[0], 1, weft_integer(-2)); }
F(f_take) { weft_array *i = indices(WEFT_I32, 4, (int64_t[]){ 0, 2, -1, 0 }); return weft_take(x[0], 1, &i); }
F(f_take_two) {
  weft_array *i = weft_unsqueeze(indices(WEFT_I64, 2, (int64_t[]){ 0, 2 }), 1),
             *j = indices(WEFT_U8, 3, (int64_t[]){ 3, 3, 1 });
  return weft_take(x[0], 2, (weft_array *[]){ i, j });
}
F(f_take_by_x) {
  weft_array *i = weft_argmax(x[0], 1);
  return weft_take(x[1], 1, &i);
}
F(f_take_of_mapped) {
  weft_array *i = weft_argmax(x[0], 1);
  return weft_take(weft_mul(x[0], x[0]), 1, &i);
}
F(f_window) {
  return weft_window(x[0], 1, weft_add(weft_sum(weft_argmax(x[1], WEFT_ALL), WEFT_ALL), weft_integer(-20)), 2);
}
static weft_array *put_part(weft_array *const x[], weft_how how) {
  weft_array *y = weft_mul(x[0], x[0]);
  return weft_put(y, weft_moveaxis(weft_slice(y, 1, 3, 0, -2), 0, 1), x[1], how);
}
F(f_put_set) { return put_part(x, WEFT_SET); }
F(f_put_add) { return put_part(x, WEFT_ADD); }
F(f_put_mul) { return put_part(x, WEFT_MUL); }
F(f_put_min) { return put_part(x, WEFT_MIN); }
F(f_put_max) { return put_part(x, WEFT_MAX); }
static weft_array *scatter(weft_array *const x[], weft_how how) {
  weft_array *i = indices(WEFT_I64, 4, (int64_t[]){ 1, 0, -2, 1 });
  return weft_put(x[0], weft_take(x[0], 1, &i), x[1], how);
}
F(f_scatter_set) { return scatter(x, WEFT_SET); }
F(f_scatter_add) { return scatter(x, WEFT_ADD); }
F(f_scatter_mul) { return scatter(x, WEFT_MUL); }
F(f_scatter_min) { return scatter(x, WEFT_MIN); }
F(f_scatter_max) { return scatter(x, WEFT_MAX); }
F(f_scatter_zeros) {
  return scatter((weft_array *[]){ x[0], weft_where(weft_lt(x[1], weft_scalar(0)), weft_sub(x[1], x[1]), x[1]) },
                 WEFT_MUL);
}
F(f_scatter_any) {
  weft_array *i = indices(WEFT_I64, 4, (int64_t[]){ 1, 0, -2, 1 }), *t = weft_take(weft_slice(x[0], 1, 0, 4, 2), 1, &i);
  return weft_put(x[0], weft_slice(t, 0, 1, 4, 1), x[1], WEFT_ADD);
}
F(f_scatter_axis) {
  weft_array *i = indices(WEFT_I64, 2, (int64_t[]){ 3, 1 });
  return weft_put(x[0], weft_moveaxis(weft_take(weft_moveaxis(x[0], 1, 0), 1, &i), 0, 1), x[1], WEFT_SET);
}
F(f_concat) { return weft_concat(1, WEFT_ARRAYS(x[0], weft_mul(x[1], x[0]), x[1])); }
F(f_pad) { return weft_pad(x[0], 1, 1, 2, weft_sum(x[1], WEFT_ALL)); }
F(f_matmul) { return weft_matmul(x[0], x[1]); }
F(f_matmul_batch) { return weft_matmul(x[0], weft_moveaxis(weft_broadcast(x[1], WEFT_DIMS(2, 3, 4)), -1, -2)); }
F(f_rms_norm) { return weft_rms_norm(x[0], x[1], 1e-3); }
F(f_layer_norm) { return weft_layer_norm(x[0], x[1], x[1], 1e-3); }
F(f_alias) { return weft_mul(weft_alias(x[0]), x[0]); }
F(f_depends) { return weft_depends(weft_mul(x[0], x[0]), 1, &x[1]); }
F(f_size) { return weft_mul(x[0], weft_cast(weft_mul(weft_size(x[0], 0), weft_size(x[0], 1)), WEFT_F64)); }

#define ONE { { 2, { 3, 4 } } }
#define TWO { { 2, { 3, 4 } }, { 2, { 3, 4 } } }
static const struct rule_case cases[] = {
  { "neg", f_neg, 1, ONE },
  { "abs", f_abs, 1, ONE },
  { "sqrt", f_sqrt, 1, ONE, true },
  { "rsqrt", f_rsqrt, 1, ONE, true },
  { "exp", f_exp, 1, ONE },
  { "log", f_log, 1, ONE, true },
  { "log1p", f_log1p, 1, ONE, true },
  { "tanh", f_tanh, 1, ONE },
  { "sigmoid", f_sigmoid, 1, ONE },
  { "add", f_add, 2, { { 2, { 3, 4 } }, { 1, { 4 } } } },
  { "sub", f_sub, 2, { { 2, { 3, 1 } }, { 2, { 3, 4 } } } },
  { "mul", f_mul, 2, { { 2, { 3, 4 } }, { 2, { 1, 4 } } } },
  { "div", f_div, 2, TWO, true },
  { "maximum", f_maximum, 2, TWO },
  { "minimum", f_minimum, 2, TWO },
  { "where", f_where, 2, TWO },
  { "choose", f_choose, 2, TWO },
  { "fma", f_fma, 3, { { 2, { 3, 4 } }, { 1, { 4 } }, { 0, { 0 } } } },
  { "sum", f_sum, 1, ONE },
  { "sum_all", f_sum_all, 1, ONE },
  { "prod", f_prod, 1, ONE },
  { "prod_zero", f_prod_zero, 1, ONE },
  { "mean", f_mean, 1, ONE },
  { "mean_all", f_mean_all, 1, ONE },
  { "max", f_max, 1, ONE },
  { "min", f_min, 1, ONE },
  { "max_all", f_max_all, 1, ONE },
  { "logsumexp", f_logsumexp, 1, ONE },
  { "softmax", f_softmax, 1, ONE },
  { "argmax", f_argmax, 1, ONE },
  { "sort", f_sort, 1, ONE },
  { "sort_column", f_sort_column, 1, ONE },
  { "argsort", f_argsort, 1, ONE },
  { "topk", f_topk, 1, ONE },
  { "median", f_median, 1, ONE },
  { "partition", f_partition, 1, ONE },
  { "quantile", f_quantile, 1, ONE },
  { "cumsum", f_cumsum, 1, ONE },
  { "cumprod", f_cumprod, 1, ONE },
  { "cumprod_zero", f_cumprod_zero, 1, ONE },
  { "cummax", f_cummax, 1, ONE },
  { "cummin", f_cummin, 1, ONE },
  { "reshape", f_reshape, 1, ONE },
  { "broadcast", f_broadcast, 1, ONE },
  { "stretch", f_stretch, 1, ONE },
  { "transpose", f_transpose, 1, { { 3, { 2, 3, 4 } } } },
  { "slice", f_slice, 1, ONE },
  { "reverse", f_reverse, 1, ONE },
  { "strides", f_strides, 1, ONE },
  { "at", f_at, 1, ONE },
  { "take", f_take, 1, ONE },
  { "take_two", f_take_two, 1, { { 3, { 3, 4, 2 } } } },
  { "take_by_x", f_take_by_x, 2, { { 2, { 3, 4 } }, { 2, { 5, 2 } } } },
  { "take_of_mapped", f_take_of_mapped, 1, { { 2, { 4, 3 } } } },
  { "window", f_window, 2, { { 2, { 2, 40 } }, { 1, { 5 } } } },
  { "put_set", f_put_set, 2, { { 2, { 3, 4 } }, { 2, { 2, 3 } } } },
  { "put_add", f_put_add, 2, { { 2, { 3, 4 } }, { 2, { 2, 3 } } } },
  { "put_mul", f_put_mul, 2, { { 2, { 3, 4 } }, { 1, { 3 } } } },
  { "put_min", f_put_min, 2, { { 2, { 3, 4 } }, { 2, { 2, 3 } } } },
  { "put_max", f_put_max, 2, { { 2, { 3, 4 } }, { 2, { 2, 3 } } } },
  { "scatter_set", f_scatter_set, 2, { { 2, { 3, 2 } }, { 2, { 4, 2 } } } },
  { "scatter_add", f_scatter_add, 2, { { 2, { 3, 2 } }, { 2, { 4, 2 } } } },
  { "scatter_mul", f_scatter_mul, 2, { { 2, { 3, 2 } }, { 2, { 4, 2 } } } },
  { "scatter_min", f_scatter_min, 2, { { 2, { 3, 2 } }, { 2, { 4, 2 } } } },
  { "scatter_max", f_scatter_max, 2, { { 2, { 3, 2 } }, { 2, { 4, 2 } } } },
  { "scatter_zeros", f_scatter_zeros, 2, { { 2, { 3, 2 } }, { 2, { 4, 2 } } } },
  { "scatter_any", f_scatter_any, 2, { { 2, { 3, 4 } }, { 2, { 3, 2 } } } },
  { "scatter_axis", f_scatter_axis, 2, { { 2, { 3, 4 } }, { 2, { 3, 2 } } } },
  { "concat", f_concat, 2, TWO },
  { "pad", f_pad, 2, TWO },
  { "matmul", f_matmul, 2, { { 2, { 3, 4 } }, { 2, { 4, 2 } } } },
  { "matmul_1", f_matmul, 2, { { 1, { 4 } }, { 2, { 4, 2 } } } },
  { "matmul_11", f_matmul, 2, { { 1, { 4 } }, { 1, { 4 } } } },
  { "matmul_batch", f_matmul_batch, 2, { { 2, { 3, 4 } }, { 2, { 3, 4 } } } },
  { "rms_norm", f_rms_norm, 2, { { 2, { 3, 4 } }, { 1, { 4 } } } },
  { "layer_norm", f_layer_norm, 2, { { 2, { 3, 4 } }, { 1, { 4 } } } },
  { "alias", f_alias, 1, ONE },
  { "depends", f_depends, 2, TWO },
  { "size", f_size, 1, ONE },
};
enum { N_CASES = sizeof cases / sizeof *cases };

/* ---- Numbers without ties ---- */

static double next_random(void) {
  static uint64_t state = 88172645463325252u;
  state ^= state << 13, state ^= state >> 7, state ^= state << 17;
  return (double)(state >> 11) * 0x1p-53;
}

static double *random_like(weft_array *a, bool is_positive) {
  double *x = malloc((size_t)(elements(a) + 1) * sizeof *x);
  for (int64_t i = 0; i < elements(a); i++) x[i] = is_positive ? 0.5 + next_random() : 2 * next_random() - 1;
  return x;
}

static double dot(int64_t n, const double *a, const double *b) {
  double s = 0;
  for (int64_t i = 0; i < n; i++) s += a[i] * b[i];
  return s;
}

static bool near(double a, double b, double tolerance) { return fabs(a - b) <= tolerance * (1 + fabs(a) + fabs(b)); }

struct trial { const struct rule_case *c; weft_array *x[MOST], *dx[MOST], *y, *dy; double *at[MOST], *u[MOST]; };

static void trial_open(struct trial *t, const struct rule_case *c) {
  *t = (struct trial){ .c = c };
  for (int k = 0; k < c->n; k++) {
    t->x[k] = weft_input(WEFT_F64, c->shape[k].rank, c->shape[k].dims);
    t->dx[k] = weft_input(WEFT_F64, c->shape[k].rank, c->shape[k].dims);
    t->at[k] = random_like(t->x[k], c->is_positive);
    t->u[k] = random_like(t->x[k], false);
  }
  t->y = c->f(t->x);
  if (weft_check(t->y)) test_fail(__FILE__, __LINE__, "%s: %s", c->name, weft_message());
  t->dy = weft_input(WEFT_F64, weft_rank(t->y), t->y->node->dims);
}

static void trial_close(struct trial *t) {
  for (int k = 0; k < t->c->n; k++) free(t->at[k]), free(t->u[k]);
}

/* f at x + h u */
static double *shifted(struct trial *t, double h) {
  struct binding b[MOST];
  double *moved[MOST];
  for (int k = 0; k < t->c->n; k++) {
    moved[k] = malloc((size_t)(elements(t->x[k]) + 1) * sizeof(double));
    for (int64_t i = 0; i < elements(t->x[k]); i++) moved[k][i] = t->at[k][i] + h * t->u[k][i];
    b[k] = (struct binding){ t->x[k], moved[k] };
  }
  double *y = reference(t->y, t->c->n, b);
  for (int k = 0; k < t->c->n; k++) free(moved[k]);
  return y;
}

static double *evaluated(struct trial *t, weft_array *a, const double *v) {
  struct binding b[2 * MOST + 1];
  int n = 0;
  for (int k = 0; k < t->c->n; k++)
    b[n++] = (struct binding){ t->x[k], t->at[k] }, b[n++] = (struct binding){ t->dx[k], t->u[k] };
  if (v) b[n++] = (struct binding){ t->dy, v };
  double *y = reference(a, n, b);
  if (!y) test_fail(__FILE__, __LINE__, "%s: %s", t->c->name, weft_check(a) ? weft_message() : "cannot be evaluated");
  return y ? y : calloc((size_t)(weft_check(a) ? 64 : elements(a) + 1), sizeof *y);
}

static double *forward(struct trial *t) {
  weft_array *jvp;
  weft_jvp(t->c->n, t->x, t->dx, 1, &t->y, &jvp);
  return evaluated(t, jvp, NULL);
}

TEST(forward_derivatives_are_differences) {
  for (int i = 0; i < N_CASES; i++) {
    weft_scope *s = weft_scope_open();
    struct trial t;
    trial_open(&t, &cases[i]);
    double h = 1e-6, *ju = forward(&t), *up = shifted(&t, h), *down = shifted(&t, -h);
    for (int64_t j = 0; up && down && j < elements(t.y); j++)
      if (!near(ju[j], (up[j] - down[j]) / (2 * h), 1e-6))
        test_fail(__FILE__, __LINE__, "%s: element %lld: %g, by differences %g", cases[i].name, (long long)j, ju[j],
                  (up[j] - down[j]) / (2 * h));
    EXPECT(up && down);
    free(ju), free(up), free(down);
    trial_close(&t);
    weft_scope_discard(s);
  }
}

TEST(backward_derivatives_are_the_transpose_of_forward_ones) {
  for (int i = 0; i < N_CASES; i++) {
    weft_scope *s = weft_scope_open();
    struct trial t;
    weft_array *vjp[MOST];
    trial_open(&t, &cases[i]);
    double *v = random_like(t.y, false), *ju = forward(&t), right = 0;
    weft_vjp(1, &t.y, &t.dy, t.c->n, t.x, vjp);
    for (int k = 0; k < t.c->n; k++) {
      double *jv = evaluated(&t, vjp[k], v);
      right += dot(elements(t.x[k]), jv, t.u[k]);
      free(jv);
    }
    double left = dot(elements(t.y), v, ju);
    if (!near(left, right, 1e-12))
      test_fail(__FILE__, __LINE__, "%s: <v, Ju> = %.17g, <J'v, u> = %.17g", cases[i].name, left, right);
    free(v), free(ju);
    trial_close(&t);
    weft_scope_discard(s);
  }
}

/* ---- Map ---- */

static void map_one(const struct rule_case *c, int mask) {
  struct trial t;
  weft_array *xs[MOST], *mapped[MOST], *ys;
  double *all[MOST], *rows[MOST] = { 0 };
  struct binding b[2 * MOST];
  int m = 0, n = 0;
  trial_open(&t, c);
  for (int k = 0; k < c->n; k++) {
    b[n++] = (struct binding){ t.x[k], t.at[k] };
    if (!(mask >> k & 1)) continue;
    int64_t dims[4] = { ROWS };
    memcpy(dims + 1, c->shape[k].dims, 3 * sizeof *dims);
    mapped[m] = t.x[k];
    xs[m] = weft_input(WEFT_F64, c->shape[k].rank + 1, dims);
    rows[k] = all[m] = random_like(xs[m], c->is_positive);
    b[n++] = (struct binding){ xs[m], all[m] };
    m++;
  }
  weft_map(m, mapped, xs, 1, &t.y, &ys);
  double *got = reference(ys, n, b);
  if (!got)
    test_fail(__FILE__, __LINE__, "%s, mask %d: %s", c->name, mask,
              weft_check(ys) ? weft_message() : "cannot be evaluated");
  for (int r = 0; got && r < ROWS; r++) {
    struct binding one[MOST];
    for (int k = 0; k < c->n; k++)
      one[k] = (struct binding){ t.x[k], rows[k] ? rows[k] + r * elements(t.x[k]) : t.at[k] };
    double *want = reference(t.y, c->n, one);
    for (int64_t j = 0; want && j < elements(t.y); j++)
      if (!near(got[r * elements(t.y) + j], want[j], 1e-13)) {
        test_fail(__FILE__, __LINE__, "%s, mask %d, row %d: %g, alone %g", c->name, mask, r, got[r * elements(t.y) + j],
                  want[j]);
        break;
      }
    free(want);
  }
  free(got);
  for (int k = 0; k < m; k++) free(all[k]);
  trial_close(&t);
}

TEST(a_map_is_the_function_of_every_row) {
  for (int i = 0; i < N_CASES; i++)
    for (int mask = 1; mask < 1 << cases[i].n; mask++) {
      weft_scope *s = weft_scope_open();
      map_one(&cases[i], mask);
      weft_scope_discard(s);
    }
}

/* ---- The library itself ---- */

static weft_array *value_of(const struct rule_case *c, int k, weft_dtype d) {
  weft_array *shape = weft_input(WEFT_F64, c->shape[k].rank, c->shape[k].dims);
  double *x = random_like(shape, c->is_positive);
  weft_array *a = weft_cast(weft_from(WEFT_F64, c->shape[k].rank, c->shape[k].dims, x), d);
  free(x);
  return a;
}

static void compare(const char *name, weft_array *y, double tolerance) {
  double *want = reference(y, 0, NULL), *got = calloc((size_t)elements(y) + 1, sizeof *got);
  EXPECT(want);
  weft_status status = weft_read(weft_cast(y, WEFT_F64), WEFT_F64, got, (size_t)elements(y) * sizeof *got);
  if (status) test_fail(__FILE__, __LINE__, "%s: %s", name, weft_message());
  for (int64_t i = 0; want && !status && i < elements(y); i++)
    if (!near(got[i], want[i], tolerance)) {
      test_fail(__FILE__, __LINE__, "%s: element %lld is %.17g, by the reference %.17g", name, (long long)i, got[i], want[i]);
      break;
    }
  free(want), free(got);
}

static void compute(const struct rule_case *c, weft_dtype d, double tolerance) {
  weft_array *x[MOST], *dx[MOST];
  for (int k = 0; k < c->n; k++) x[k] = value_of(c, k, d);
  weft_array *y = c->f(x);
  compare(c->name, y, tolerance);
  weft_grad(y, c->n, x, dx);
  for (int k = 0; k < c->n; k++) compare(c->name, dx[k], tolerance);
}

TEST(values_and_gradients_are_those_of_the_reference) {
  for (int i = 0; i < N_CASES; i++)
    for (int k = 0; k < 2; k++) {
      weft_scope *s = weft_scope_open();
      compute(&cases[i], k ? WEFT_F32 : WEFT_F64, k ? 2e-5 : 1e-12);
      weft_scope_discard(s);
    }
}
