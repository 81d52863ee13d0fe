/* trusted_sizes.c -- sizes that were taken to be equal, of arrays that nobody computes: whoever only asks for a size hears that
 * they were not, wherever he asks. */
#include "values.h"

#define WEFT_ARRAYS_OF(...) ((weft_array *[]){ __VA_ARGS__ })

static const double FIVE[] = { 1, 2, 3, 40, 5 };

/* Elements of v up to the first above 10. */
static weft_array *rows_of(weft_array *v) {
  weft_loop *l = weft_loop_open(NULL);
  weft_array *e = weft_loop_each(l, v);
  weft_loop_until(l, weft_gt(e, weft_scalar(10)));
  weft_array *all = weft_loop_all(l, e);
  weft_loop_close(l);
  return all;
}

/* ---- Arrays of a size that is n(v) and, on trust, that of u ---- */

static weft_array *sum_of(weft_array *v, weft_array *u) { return weft_add(rows_of(v), u); }
static weft_array *sum_turned(weft_array *v, weft_array *u) { return weft_mul(u, rows_of(v)); }
static weft_array *two_rows(weft_array *v, weft_array *u) { return weft_sub(rows_of(v), rows_of(u)); }
static weft_array *deep_below(weft_array *v, weft_array *u) {
  weft_array *x = weft_sum(weft_unsqueeze(weft_exp(sum_of(v, u)), 1), 1);
  return weft_flip(weft_squeeze(x, 1), 0);
}
static weft_array *masked(weft_array *v, weft_array *u) {
  weft_array *x = rows_of(v);
  return weft_where(weft_gt(u, weft_scalar(2)), x, x);
}
static weft_array *part_of_stack(weft_array *v, weft_array *u) {
  return weft_at(weft_stack(0, WEFT_ARRAYS(rows_of(v), u)), 0, weft_integer(0));
}
static weft_array *carried(weft_array *v, weft_array *u) {
  weft_loop *l = weft_loop_open(weft_integer(2));
  weft_array *c = weft_loop_carry(l, rows_of(v));
  weft_loop_next(l, c, u);
  weft_array *last = weft_loop_last(l, c);
  weft_loop_close(l);
  return last;
}
static weft_array *in_a_body(weft_array *v, weft_array *u) {
  weft_array *x = rows_of(v);
  weft_loop *l = weft_loop_open(weft_integer(2));
  weft_array *c = weft_loop_carry(l, x);
  weft_loop_next(l, c, weft_add(weft_mul(x, u), c));
  weft_array *last = weft_loop_last(l, c);
  weft_loop_close(l);
  return last;
}
static weft_array *chosen(weft_array *v, weft_array *u) {
  weft_array *x = rows_of(v);
  weft_cond *c = weft_cond_open(weft_gt(weft_at(v, 0, weft_integer(0)), weft_scalar(0)));
  weft_array *y = weft_cond_value(c, weft_sin(x), weft_mul(u, weft_scalar(2)));
  weft_cond_close(c);
  return y;
}
static weft_array *called(weft_array *v, weft_array *u) {
  weft_scope *s = weft_scope_open();
  weft_array *a = weft_input(WEFT_F64, WEFT_DIMS(WEFT_ANY)), *b = weft_input(WEFT_F64, WEFT_DIMS(WEFT_ANY)), *y = weft_add(a, b);
  weft_function *f = weft_compile(s, 2, WEFT_ARRAYS_OF(a, b), 1, &y);
  weft_call(f, 2, WEFT_ARRAYS_OF(rows_of(v), u), 1, &y);
  return y;
}
/* Only the size of the sum of its inputs leaves the function. */
static weft_array *size_called(weft_array *v, weft_array *u) {
  weft_scope *s = weft_scope_open();
  weft_array *a = weft_input(WEFT_F64, WEFT_DIMS(WEFT_ANY)), *b = weft_input(WEFT_F64, WEFT_DIMS(WEFT_ANY)), *y = weft_full_like(weft_add(a, b), 1);
  weft_function *f = weft_compile(s, 2, WEFT_ARRAYS_OF(a, b), 1, &y);
  weft_call(f, 2, WEFT_ARRAYS_OF(rows_of(v), u), 1, &y);
  return y;
}
static weft_array *mapped(weft_array *v, weft_array *u) {
  weft_array *x = weft_input(WEFT_F64, 0, NULL), *z = weft_input(WEFT_F64, 0, NULL), *y = weft_mul(x, z), *ys;
  weft_map(2, WEFT_ARRAYS_OF(x, z), WEFT_ARRAYS_OF(rows_of(v), u), 1, &y, &ys);
  return ys;
}
static weft_array *put(weft_array *v, weft_array *u) {
  weft_array *x = rows_of(v);
  return weft_put(x, x, u, WEFT_ADD);
}

#define MAKERS(X) X(sum_of) X(sum_turned) X(two_rows) X(deep_below) X(masked) X(part_of_stack) X(carried) X(in_a_body) X(chosen) X(called) \
  X(size_called) X(mapped) X(put)
typedef weft_array *maker(weft_array *, weft_array *);
static const struct { const char *name; maker *make; } makers[] = {
#define ROW(f) { #f, f },
  MAKERS(ROW)
};

/* ---- Who asks for it ---- */

static weft_array *full_like(weft_array *x) { return weft_full_like(x, 3); }
static weft_array *iota(weft_array *x) { return weft_iota(x, 0); }
static weft_array *size(weft_array *x) { return weft_cast(weft_size(x, 0), WEFT_F64); }
static weft_array *said(weft_array *x) { return weft_cast(weft_add(weft_size(x, 0), weft_integer(2)), WEFT_F64); }
static weft_array *sized(weft_array *x) { return weft_sized(WEFT_F64, 1, WEFT_ARRAYS_OF(weft_size(x, 0))); }
static weft_array *sized_twice(weft_array *x) {
  weft_array *n = weft_size(x, 0);
  return weft_sized(WEFT_F64, 2, WEFT_ARRAYS_OF(n, weft_add(n, weft_integer(1))));
}
static weft_array *broadcast_like(weft_array *x) { return weft_broadcast_like(f64_of(2), x); }
static weft_array *reshape_like(weft_array *x) { return weft_reshape_like(f64s(4, FIVE), x); }
static weft_array *cut(weft_array *x) { return weft_cut(f64s(5, FIVE), 0, NULL, weft_size(x, 0), NULL); }
static weft_array *counted(weft_array *x) {
  weft_loop *l = weft_loop_open(weft_size(x, 0));
  weft_array *c = weft_loop_carry(l, f64_of(0));
  weft_loop_next(l, c, weft_add(c, weft_scalar(1)));
  weft_array *last = weft_loop_last(l, c);
  weft_loop_close(l);
  return last;
}
static weft_array *counted_less(weft_array *x) {
  weft_loop *l = weft_loop_open(weft_sub(weft_size(x, 0), weft_integer(1)));
  weft_array *c = weft_loop_carry(l, f64_of(0));
  weft_loop_next(l, c, weft_add(c, weft_scalar(1)));
  weft_array *all = weft_loop_all(l, c);
  weft_loop_close(l);
  return all;
}
static weft_array *gone_through(weft_array *x) {
  weft_loop *l = weft_loop_open(NULL);
  weft_loop_each(l, x);
  weft_array *c = weft_loop_carry(l, f64_of(0));
  weft_loop_next(l, c, weft_add(c, weft_scalar(1)));
  weft_array *last = weft_loop_last(l, c);
  weft_loop_close(l);
  return last;
}
static weft_array *drawn(weft_array *x) { return weft_random_uniform(weft_random_key(3), x, NULL, NULL); }
static weft_array *derived(weft_array *x) {
  weft_array *y = weft_alias(x), *dy;
  weft_grad(weft_sum(y, WEFT_ALL), 1, &y, &dy);
  return dy;
}
static weft_array *pushed(weft_array *x) {
  weft_array *y = weft_alias(x), *dx = weft_full_like(y, 2), *z = weft_mul(y, weft_scalar(3)), *dz;
  weft_jvp(1, &y, &dx, 1, &z, &dz);
  return dz;
}
static weft_array *pulled(weft_array *x) {
  weft_array *p = weft_mul(f64s(4, FIVE), f64_of(2)), *y = weft_add(weft_mul(p, weft_scalar(3)), x), *dy = f64s(4, FIVE), *dp;
  weft_vjp(1, &y, &dy, 1, &p, &dp);
  return dp;
}
static weft_array *pushed_beside(weft_array *x) {
  weft_array *p = weft_mul(f64s(4, FIVE), f64_of(2)), *y = weft_add(weft_mul(p, weft_scalar(3)), x), *dp = f64s(4, FIVE), *dy;
  weft_jvp(1, &p, &dp, 1, &y, &dy);
  return dy;
}
static weft_array *in_every_row(weft_array *x) {
  weft_array *e = weft_input(WEFT_F64, 0, NULL), *y = f64_of(7), *ys;
  weft_map(1, &e, &x, 1, &y, &ys);
  return ys;
}
static weft_array *mean_of_ones(weft_array *x) { return weft_mean(weft_full_like(x, 1), WEFT_ALL); }
static weft_array *like_like(weft_array *x) { return weft_iota(weft_full_like(weft_broadcast_like(f64_of(1), x), 2), 0); }
static weft_array *size_of_more(weft_array *x) {
  return weft_cast(weft_size(weft_concat(0, WEFT_ARRAYS(x, x)), 0), WEFT_F64);
}
static weft_array *doubled(weft_array *x) { return weft_full_like(weft_repeat(x, 0, 2), 1); }
static weft_array *mesh(weft_array *x) {
  weft_array *y[2];
  weft_meshgrid(2, WEFT_ARRAYS_OF(x, f64s(2, FIVE)), false, y);
  return y[1];
}

#define ASKERS(X) X(full_like) X(counted_less) X(iota) X(size) X(said) X(sized) X(sized_twice) X(broadcast_like) X(reshape_like) X(cut) X(counted) \
  X(gone_through) X(drawn) X(derived) X(pushed) X(pulled) X(pushed_beside) X(in_every_row) X(mean_of_ones) X(like_like) X(size_of_more) X(doubled) X(mesh)
typedef weft_array *asker(weft_array *);
static const struct { const char *name; asker *ask; } askers[] = { ASKERS(ROW) };

/* ---- Where he asks ---- */

static weft_array *as_graph(maker *m, asker *a, weft_array *v, weft_array *u) { return a(m(v, u)); }

static weft_array *told_before(maker *m, asker *a, weft_array *v, weft_array *u) {
  weft_array *x = m(v, u), *y = a(x);
  weft_status status = weft_eval(1, &x); /* it may fail: so does what is asked of it */
  return status ? y : a(x);
}

/* The same rows are known by the time somebody asks. */
static weft_array *computed_before(maker *m, asker *a, weft_array *v, weft_array *u) {
  weft_array *r = weft_mul(rows_of(v), weft_scalar(1)), *x = m(r, u);
  EXPECT_OK(weft_eval(1, &r));
  return a(x);
}

static weft_array *as_function(maker *m, asker *a, weft_array *v, weft_array *u, int64_t n_v, int64_t n_u) {
  weft_scope *s = weft_scope_open();
  weft_array *p = weft_input(WEFT_F64, WEFT_DIMS(n_v)), *q = weft_input(WEFT_F64, WEFT_DIMS(n_u)), *y = a(m(p, q)), *z;
  weft_function *f = weft_compile(s, 2, WEFT_ARRAYS_OF(p, q), 1, &y);
  weft_call(f, 2, WEFT_ARRAYS_OF(v, u), 1, &z);
  return z;
}
static weft_array *as_open_function(maker *m, asker *a, weft_array *v, weft_array *u) { return as_function(m, a, v, u, WEFT_ANY, WEFT_ANY); }
static weft_array *as_known_function(maker *m, asker *a, weft_array *v, weft_array *u) {
  return as_function(m, a, v, u, weft_dim(v, 0), weft_dim(u, 0));
}
static weft_array *as_function_of_it(maker *m, asker *a, weft_array *v, weft_array *u) {
  weft_scope *s = weft_scope_open();
  weft_array *p = weft_input(WEFT_F64, WEFT_DIMS(WEFT_ANY)), *y = a(p), *z;
  weft_function *f = weft_compile(s, 1, &p, 1, &y);
  weft_call(f, 1, WEFT_ARRAYS_OF(m(v, u)), 1, &z);
  return z;
}
static weft_array *in_loop(maker *m, asker *a, weft_array *v, weft_array *u) {
  weft_loop *l = weft_loop_open(weft_integer(2));
  weft_array *c = weft_loop_carry(l, f64_of(0));
  weft_array *y = weft_mul(a(m(weft_add(v, weft_mul(c, weft_scalar(0))), u)), weft_scalar(1));
  weft_loop_next(l, c, weft_add(c, weft_sum(y, WEFT_ALL)));
  weft_array *last = weft_loop_last(l, c);
  weft_loop_close(l);
  return last;
}
static weft_array *asked_in_loop(maker *m, asker *a, weft_array *v, weft_array *u) {
  weft_array *x = m(v, u);
  weft_loop *l = weft_loop_open(weft_integer(2));
  weft_array *c = weft_loop_carry(l, f64_of(0));
  weft_loop_next(l, c, weft_add(c, weft_sum(a(x), WEFT_ALL)));
  weft_array *last = weft_loop_last(l, c);
  weft_loop_close(l);
  return last;
}
static weft_array *in_side(maker *m, asker *a, weft_array *v, weft_array *u) {
  weft_cond *c = weft_cond_open(weft_gt(weft_at(v, 0, weft_integer(0)), weft_scalar(0)));
  weft_array *y = weft_cond_value(c, weft_sum(a(m(v, u)), WEFT_ALL), f64_of(5));
  weft_cond_close(c);
  return y;
}
static weft_array *as_choice(maker *m, asker *a, weft_array *v, weft_array *u) {
  return weft_choose(weft_gt(weft_at(v, 0, weft_integer(0)), weft_scalar(0)), weft_sum(a(m(v, u)), WEFT_ALL), f64_of(5));
}
static weft_array *in_map(maker *m, asker *a, weft_array *v, weft_array *u) {
  weft_array *k = weft_input(WEFT_F64, 0, NULL), *y = weft_mul(weft_sum(a(m(v, u)), WEFT_ALL), k), *ks = f64s(2, FIVE), *ys;
  weft_map(1, &k, &ks, 1, &y, &ys);
  return ys;
}
static weft_array *of_mapped(maker *m, asker *a, weft_array *v, weft_array *u) {
  weft_array *row = weft_input(WEFT_F64, WEFT_DIMS(weft_dim(u, 0))), *us = weft_stack(0, WEFT_ARRAYS(u, u)), *y = weft_sum(a(m(v, row)), WEFT_ALL), *ys;
  weft_map(1, &row, &us, 1, &y, &ys);
  return ys;
}
static weft_array *checkpointed(maker *m, asker *a, weft_array *v, weft_array *u) {
  weft_array *y = a(m(v, u));
  weft_checkpoint(2, WEFT_ARRAYS_OF(v, u), 1, &y);
  return y;
}

typedef weft_array *place(maker *, asker *, weft_array *, weft_array *);
#define PLACES(X) X(as_graph) X(told_before) X(computed_before) X(as_open_function) X(as_known_function) X(as_function_of_it) X(in_loop) \
  X(asked_in_loop) X(in_side) X(as_choice) X(in_map) X(of_mapped) X(checkpointed)
static const struct { const char *name; place *at; } places[] = { PLACES(ROW) };

enum { N_MAKERS = sizeof makers / sizeof *makers, N_ASKERS = sizeof askers / sizeof *askers, N_PLACES = sizeof places / sizeof *places };

/* What y should be: asked of four numbers that are there. */
static weft_array *four(weft_array *v, weft_array *u) { return weft_mul(weft_slice(v, 0, 0, 4, 1), u); }
static void expect_like_known(int p, int m, int a, weft_array *y) {
  size_t n = 0, n_known = 0;
  weft_array *known = places[p].at(four, askers[a].ask, f64s(5, FIVE), f64s(4, FIVE));
  double *is = all_f64(y, &n), *should = all_f64(known, &n_known);
  if (n != n_known || !are_same(is, should, n))
    test_fail(__FILE__, __LINE__, "%s(%s) %s: not what it is of known sizes", askers[a].name, makers[m].name, places[p].name);
  free(is), free(should);
}

/* v has four rows. u as many: what is asked for is computed. Fewer: it is an error. */
static void try(int p, int m, int a) {
  for (int n = 4; n >= 2; n--) {
    weft_scope *s = weft_scope_open();
    weft_array *v = f64s(5, FIVE), *u = f64s(n, FIVE), *y = places[p].at(makers[m].make, askers[a].ask, v, u);
    weft_status status = weft_eval(1, &y);
    if (n == 4 && status) test_fail(__FILE__, __LINE__, "%s(%s) %s: %s", askers[a].name, makers[m].name, places[p].name, weft_message());
    if (n < 4 && status != WEFT_ERR_SHAPE)
      test_fail(__FILE__, __LINE__, "%s(%s) %s of %d: status %d, %s", askers[a].name, makers[m].name, places[p].name, n, (int)status, status ? weft_message() : "no error");
    if (n == 4 && !status) expect_like_known(p, m, a, y);
    weft_scope_discard(s);
  }
}

TEST(a_size_that_was_trusted_is_looked_at_by_whoever_asks_for_it) {
  for (int p = 0; p < N_PLACES; p++)
    for (int m = 0; m < N_MAKERS; m++)
      for (int a = 0; a < N_ASKERS; a++) try(p, m, a);
}

/* ---- Operations that want two sizes to be equal ----
 * x has as many rows as v tells, y as many as u does; both only when they run. Where they differ it is an error, of what is computed
 * and of its size. */

#define OPS(X)                                                                                                                    \
  X(matmul, weft_matmul(x, y)) X(matmul_mm, weft_matmul(row(x), column(y))) X(einsum, weft_einsum("i,i->", WEFT_ARRAYS(x, y)))    \
  X(inner, weft_inner(x, y)) X(tensordot, weft_tensordot(x, y, 1, (int[]){ 0 }, (int[]){ 0 }))                                     \
  X(addmm, weft_addmm(x, row(x), weft_matmul(column(x), row(y)), 1, 1)) X(compress, weft_compress(x, weft_gt(y, weft_scalar(2))))  \
  X(interp, weft_interp(x, x, y, NULL, NULL)) X(trapezoid, weft_trapezoid(x, y, 1, 0))                                            \
  X(solve, weft_solve(square(x), y)) X(solve_triangular, weft_solve_triangular(square(x), y, 0, 0))                               \
  X(cholesky, weft_cholesky(oblong(x, y))) X(inverse, weft_inverse(oblong(x, y))) X(det, weft_det(oblong(x, y)))                   \
  X(matrix_power, weft_matrix_power(oblong(x, y), 2)) X(cholesky_solve, weft_cholesky_solve(square(x), y))                         \
  X(choice, weft_random_choice(weft_random_key(1), NULL, x, weft_softmax(y, 0), 0))                                               \
  X(take_along, weft_take_along(square(x), 0, weft_iota(weft_cast(row(y), WEFT_I64), 1))) X(put_part, weft_put(x, weft_flip(x, 0), y, WEFT_SET)) \
  X(scatter, weft_put(x, weft_take(x, WEFT_ARRAYS(weft_iota(weft_cast(x, WEFT_I64), 0))), y, WEFT_ADD))                            \
  X(concat, weft_concat(1, WEFT_ARRAYS(column(x), column(y)))) X(stack, weft_stack(0, WEFT_ARRAYS(x, y)))                          \
  X(equal, weft_array_equal(x, y, 0)) X(close, weft_allclose(x, y, 0, 0, 0)) X(fma, weft_fma(x, y, x))                              \
  X(where, weft_where(weft_gt(y, weft_scalar(2)), x, x)) \
  X(rms_norm, weft_rms_norm(x, y, 0)) X(layer_norm, weft_layer_norm(x, y, x, 0)) X(softmax_where, weft_softmax_where(x, weft_gt(y, weft_scalar(2)), 0)) \
  X(histogram, weft_histogram(x, f64s(3, FIVE), y, 0)) X(bincount, weft_bincount(weft_cast(x, WEFT_I64), y, 50, 0))                 \
  X(attention, weft_attention(column(x), column(x), column(y), NULL)) X(attention_k, weft_attention(row(x), row(y), row(y), NULL))  \
  X(normal, weft_random_multivariate_normal(weft_random_key(1), NULL, x, square(y)))                                              \
  X(complex, weft_abs(weft_complex(x, y))) X(broadcast_to, weft_broadcast_like(x, y)) X(reshape_to, weft_reshape_like(x, y))                 \
  X(gather, weft_take(square(x), WEFT_ARRAYS(weft_iota(weft_cast(x, WEFT_I64), 0), weft_iota(weft_cast(y, WEFT_I64), 0))))          \
  X(draws, weft_random_normal(weft_random_key(1), NULL, x, y)) X(binomial, weft_random_binomial(weft_random_key(1), NULL, x, weft_softmax(y, 0))) \
  X(kept, weft_random_normal(weft_random_key(1), x, y, NULL))

static weft_array *row(weft_array *x) { return weft_unsqueeze(x, 0); }
static weft_array *column(weft_array *x) { return weft_unsqueeze(x, 1); }
/* [n,n], x x' + 100 on the diagonal, and [n,m]. */
static weft_array *oblong(weft_array *x, weft_array *y) {
  weft_array *all = weft_mul(column(x), row(y)), *i = weft_iota(all, 0), *k = weft_iota(all, 1);
  return weft_add(all, weft_where(weft_eq(i, k), weft_scalar(100), weft_scalar(0)));
}
static weft_array *square(weft_array *x) { return oblong(x, x); }

typedef weft_array *pair_op(weft_array *, weft_array *);
#define FUNCTION(name, expression) static weft_array *op_##name(weft_array *x, weft_array *y) { return expression; }
OPS(FUNCTION)
#define PAIR(name, expression) { #name, op_##name },
static const struct { const char *name; pair_op *of; } ops[] = { OPS(PAIR) };

static weft_array *as_it_is(weft_array *x) { return x; }
static weft_array *its_shape(weft_array *x) { return weft_rank(x) ? weft_mean(weft_full_like(x, 1), WEFT_ALL) : x; } /* a number has none */
static pair_op *now_of;
static weft_array *of_rows(weft_array *v, weft_array *u) { return now_of(rows_of(v), rows_of(u)); }
static weft_array *of_rows_and_known(weft_array *v, weft_array *u) { return now_of(rows_of(v), u); }
static weft_array *of_known_and_rows(weft_array *v, weft_array *u) { return now_of(weft_slice(v, 0, 0, 4, 1), rows_of(u)); }

static void try_op(int k, place *at, maker *rows, asker *ask, const char *how) {
  for (int n = 4; n >= 2; n--) {
    weft_scope *s = weft_scope_open();
    now_of = ops[k].of;
    weft_array *y = at(rows, ask, f64s(5, FIVE), f64s(n, FIVE));
    weft_status status = weft_eval(1, &y);
    if (n == 4 ? status : !status || status == WEFT_ERR_INTERNAL || status == WEFT_ERR_MEMORY)
      test_fail(__FILE__, __LINE__, "%s of %d %s: status %d, %s", ops[k].name, n, how, (int)status, status ? weft_message() : "no error");
    weft_scope_discard(s);
  }
}

/* Of sizes that are numbers: the first four of y are wanted, or that there are two. */
static weft_array *topk(weft_array *x) { return weft_topk(x, 0, 4); }
static weft_array *argtopk(weft_array *x) { return weft_argtopk(x, 0, 4); }
static weft_array *partition(weft_array *x) { return weft_partition(x, 0, 3); }
static weft_array *partition_back(weft_array *x) { return weft_argpartition(x, 0, -4); }
static weft_array *at_known(weft_array *x) { return weft_at(x, 0, weft_integer(3)); }
static weft_array *at_back(weft_array *x) { return weft_at(x, 0, weft_integer(-4)); }
static weft_array *window(weft_array *x) { return weft_window(x, 0, weft_integer(0), 4); }
static weft_array *squeezed(weft_array *x) { return weft_squeeze(weft_slice(x, 0, 3, WEFT_END, 1), 0); }
static weft_array *drawn_once(weft_array *x) { return weft_random_choice(weft_random_key(1), weft_full(WEFT_F64, WEFT_DIMS(4), 0), x, NULL, 1); }
static weft_array *key(weft_array *x) { return weft_random_uniform(weft_cast(weft_slice(x, 0, 2, WEFT_END, 1), WEFT_U32), f64s(3, FIVE), NULL, NULL); }
static weft_array *windows(weft_array *x) { return weft_windows(x, 0, 4, 1, 1); }
static weft_array *of_function(weft_array *x) {
  weft_scope *s = weft_scope_open();
  weft_array *p = weft_input(WEFT_F64, WEFT_DIMS(4)), *y = weft_full_like(p, 2);
  weft_function *f = weft_compile(s, 1, &p, 1, &y);
  weft_call(f, 1, &x, 1, &y);
  return y;
}
static weft_array *largest_left(weft_array *x) { return weft_max(weft_slice(x, 0, 3, WEFT_END, 1), WEFT_ALL); }
#define FOURS(X) X(topk) X(argtopk) X(partition) X(partition_back) X(at_known) X(at_back) X(window) X(squeezed) X(drawn_once) X(key) X(windows) \
  X(of_function) X(largest_left)
static const struct { const char *name; asker *ask; } fours[] = { FOURS(ROW) };
static asker *four_of;
static weft_array *of_u(weft_array *v, weft_array *u) { return (void)v, four_of(rows_of(u)); }

TEST(operations_that_want_so_many_elements_fail_where_a_run_tells_fewer) {
  place *const at[] = { as_graph, as_open_function, in_loop };
  for (int k = 0; k < (int)(sizeof fours / sizeof *fours); k++)
    for (int p = 0; p < 3; p++)
      for (int shape = 0; shape < 2; shape++)
        for (int n = 4; n >= 2; n--) {
          weft_scope *s = weft_scope_open();
          four_of = fours[k].ask;
          weft_array *y = at[p](of_u, shape ? its_shape : as_it_is, f64s(5, FIVE), f64s(n, FIVE));
          weft_status status = weft_eval(1, &y);
          if (n == 4 ? status : status != WEFT_ERR_SHAPE && status != WEFT_ERR_INDEX)
            test_fail(__FILE__, __LINE__, "%s%s of %d at %d: status %d, %s", fours[k].name, shape ? ", its shape," : "", n, p, (int)status,
                      status ? weft_message() : "no error");
          weft_scope_discard(s);
        }
}

TEST(operations_that_want_equal_sizes_fail_where_a_run_tells_others) {
  static maker *const rows[] = { of_rows, of_rows_and_known, of_known_and_rows };
  static const char *const names[] = { "rows", "rows and known", "known and rows" };
  for (int k = 0; k < (int)(sizeof ops / sizeof *ops); k++)
    for (int r = 0; r < 3; r++) {
      char how[80];
      place *const at[] = { as_graph, as_open_function, in_loop };
      for (int p = 0; p < 3; p++) {
        snprintf(how, sizeof how, "of %s at %d", names[r], p);
        try_op(k, at[p], rows[r], as_it_is, how);
        snprintf(how, sizeof how, "its shape, of %s at %d", names[r], p);
        try_op(k, at[p], rows[r], its_shape, how);
      }
    }
}
