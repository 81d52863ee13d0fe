/* loop_kinds.c -- every kind of loop under every transform, against the same transform of the loop written out.
 *
 * Bits are the same where the order of operations is: values, tangents and maps always, and gradients but for the cases
 * marked. The gradient of a matrix that every step multiplies by is one product after the loop, which adds by fma; and of a
 * gradient, what the loop and its reverse contribute to a row is added when both are done, not step by step. */
#include <string.h>
#include "values.h"

enum { N = 6, MOST = 64 };
static const double POINT[N] = { 0.3, -0.8, 0.5, 1.1, -0.2, 0.7 };

static bool recomputes; /* every loop, by segments of two steps */
static weft_loop *opened(weft_array *steps) {
  weft_loop *l = weft_loop_open(steps);
  if (recomputes) weft_loop_recompute(l, 2);
  return l;
}

static weft_array *late(int64_t n) { return weft_add(i64_of(n - 1), i64_of(1)); }
static weft_array *both(weft_array *rows, weft_array *last) {
  return weft_concat(0, WEFT_ARRAYS(rows, weft_unsqueeze(last, 0)));
}
static weft_array *at(weft_array *x, int64_t i) { return weft_squeeze(weft_slice(x, 0, i, i + 1, 1), 0); }

/* ---- Kinds: functions of six numbers ---- */

/* A sequence, one state, an output of every step. */
static weft_array *sit_sot(weft_array *x) {
  weft_loop *l = opened(NULL);
  weft_array *e = weft_loop_each(l, x), *c = weft_loop_carry(l, f64_of(0.4)), *next = weft_tanh(weft_add(weft_mul(c, e), e));
  weft_loop_next(l, c, next);
  weft_array *y = weft_loop_all(l, weft_mul(next, next)), *last = weft_loop_last(l, c);
  weft_loop_close(l);
  return both(y, last);
}

/* Two taps of the sequence and of the state; a first state that is differentiated. */
static weft_array *mit_sot(weft_array *x) {
  weft_loop *l = opened(NULL);
  weft_array *e0 = weft_loop_each(l, weft_slice(x, 0, 0, N - 1, 1)), *e1 = weft_loop_each(l, weft_slice(x, 0, 1, N, 1));
  weft_array *c1 = weft_loop_carry(l, at(x, 0)), *c2 = weft_loop_carry(l, at(x, 1));
  weft_array *next = weft_sin(weft_add(weft_mul(c1, e0), weft_mul(c2, e1)));
  weft_loop_next(l, c1, next);
  weft_loop_next(l, c2, c1);
  weft_array *y = weft_loop_all(l, next), *last = weft_loop_last(l, c2);
  weft_loop_close(l);
  return both(y, last);
}

static weft_array *nit_sot(weft_array *x) {
  weft_loop *l = opened(NULL);
  weft_array *e = weft_loop_each(l, x), *y = weft_loop_all(l, weft_mul(weft_exp(e), e));
  weft_loop_close(l);
  return y;
}

/* Random numbers from a counter: its bits are mixed, the top ones are a number in [0, 1). */
static const uint64_t SEED = 12345, STRIDE = 0x9e3779b97f4a7c15, MIX[] = { 0xbf58476d1ce4e5b9, 0x94d049bb133111eb };
static weft_array *u64_of(uint64_t x) { return weft_from(WEFT_U64, 0, NULL, &x); }
static weft_array *folded(weft_array *z, int by) { return weft_xor(z, weft_shr(z, u64_of((uint64_t)by))); }
static weft_array *uniform(weft_array *key) {
  weft_array *z = weft_mul(folded(key, 30), u64_of(MIX[0]));
  z = folded(weft_mul(folded(z, 27), u64_of(MIX[1])), 31);
  return weft_mul(weft_cast(weft_shr(z, u64_of(11)), WEFT_F64), weft_scalar(0x1p-53));
}
static double uniform_in_c(uint64_t z) {
  z = (z ^ z >> 30) * MIX[0];
  z = (z ^ z >> 27) * MIX[1];
  return (double)((z ^ z >> 31) >> 11) * 0x1p-53;
}

/* A state of integers that no derivative goes through, from which numbers are made. */
static weft_array *untraced(weft_array *x) {
  weft_loop *l = opened(NULL);
  weft_array *e = weft_loop_each(l, x), *c = weft_loop_carry(l, f64_of(0.1)), *key = weft_loop_carry(l, u64_of(SEED));
  weft_array *noise = uniform(key), *next = weft_tanh(weft_add(weft_mul(c, noise), e));
  weft_loop_next(l, c, next);
  weft_loop_next(l, key, weft_add(key, u64_of(STRIDE)));
  weft_array *y = weft_loop_all(l, next), *last = weft_loop_last(l, key);
  weft_loop_close(l);
  return both(y, uniform(last));
}

TEST(a_key_carried_by_a_loop_gives_the_numbers_of_its_generator) {
  weft_scope *s = weft_scope_open();
  weft_loop *l = opened(weft_integer(1000));
  weft_array *key = weft_loop_carry(l, u64_of(SEED));
  weft_loop_next(l, key, weft_add(key, u64_of(STRIDE)));
  weft_array *y = weft_loop_all(l, uniform(key)), *last = weft_loop_last(l, key);
  weft_loop_close(l);
  double got[1000];
  uint64_t end = 0, z = SEED;
  if (read_f64(y, 1000, got))
    for (int i = 0; i < 1000; i++, z += STRIDE)
      if (got[i] != uniform_in_c(z)) test_fail(__FILE__, __LINE__, "number %d is %.17g, not %.17g", i, got[i], uniform_in_c(z));
  EXPECT_OK(weft_read(last, WEFT_U64, &end, sizeof end));
  EXPECT(end == SEED + 1000 * STRIDE);
  weft_scope_discard(s);
}

static weft_array *non_sequence(weft_array *x) {
  weft_array *w = weft_exp(at(x, 2));
  weft_loop *l = opened(weft_integer(4));
  weft_array *c = weft_loop_carry(l, at(x, 0)), *next = weft_tanh(weft_add(weft_mul(w, c), at(x, 1)));
  weft_loop_next(l, c, next);
  weft_array *y = weft_loop_all(l, next), *last = weft_loop_last(l, c);
  weft_loop_close(l);
  return both(y, last);
}

static weft_array *late_steps(weft_array *x) {
  weft_loop *l = opened(late(4));
  weft_array *e = weft_loop_each(l, x), *c = weft_loop_carry(l, at(x, 5)), *next = weft_tanh(weft_add(weft_mul(c, e), e));
  weft_loop_next(l, c, next);
  weft_array *last = weft_loop_last(l, c);
  weft_loop_close(l);
  return weft_unsqueeze(last, 0);
}

static weft_array *no_steps(weft_array *x) {
  weft_loop *l = opened(weft_integer(0));
  weft_array *e = weft_loop_each(l, x), *c = weft_loop_carry(l, at(x, 5));
  weft_loop_next(l, c, weft_mul(c, e));
  weft_array *last = weft_loop_last(l, c);
  weft_loop_close(l);
  return weft_unsqueeze(last, 0);
}

static weft_array *until(weft_array *x) {
  weft_loop *l = opened(NULL);
  weft_array *e = weft_loop_each(l, x), *c = weft_loop_carry(l, at(x, 0)), *t = weft_loop_carry(l, i64_of(0));
  weft_array *next = weft_tanh(weft_add(weft_mul(c, e), e));
  weft_loop_next(l, c, next);
  weft_loop_next(l, t, weft_add(t, weft_integer(1)));
  weft_loop_until(l, weft_ge(t, weft_integer(3)));
  weft_array *y = weft_loop_all(l, next), *last = weft_loop_last(l, c);
  weft_loop_close(l);
  return weft_unsqueeze(weft_add(weft_sum(weft_mul(y, y), WEFT_ALL), last), 0);
}

/* Ends in every row of a map after another step. */
static weft_array *grown(weft_array *x, weft_array *steps) {
  weft_loop *l = opened(steps);
  weft_array *c = weft_loop_carry(l, x), *next = weft_mul(weft_add(c, weft_mul(c, c)), weft_scalar(1.25));
  weft_loop_next(l, c, next);
  weft_loop_until(l, weft_gt(weft_sum(weft_mul(next, next), WEFT_ALL), weft_scalar(40)));
  weft_array *last = weft_loop_last(l, c);
  weft_loop_close(l);
  return last;
}

static weft_array *while_loop(weft_array *x) { return grown(x, NULL); } /* only until ends it */
static weft_array *bounded_while(weft_array *x) { return grown(x, weft_integer(20)); }

static weft_array *last_rows(weft_array *x) {
  weft_loop *l = opened(NULL);
  weft_array *e = weft_loop_each(l, x), *c = weft_loop_carry(l, f64_of(0.4)), *next = weft_tanh(weft_add(weft_mul(c, e), e));
  weft_loop_next(l, c, next);
  weft_array *y = weft_loop_tail(l, next, 2);
  weft_loop_close(l);
  return y;
}

/* A row of three by a matrix. */
static weft_array *contraction(weft_array *x) {
  weft_array *w = weft_from(WEFT_F64, WEFT_DIMS(3, 3), (double[]){ 0.5, -0.2, 0.1, 0.3, 0.4, -0.6, 0.2, 0.1, 0.7 });
  weft_array *v = weft_mul(w, weft_slice(x, 0, 0, 3, 1));
  weft_loop *l = opened(weft_integer(3));
  weft_array *c = weft_loop_carry(l, weft_slice(x, 0, 3, 6, 1)), *next = weft_tanh(weft_matmul(c, v));
  weft_loop_next(l, c, next);
  weft_array *y = weft_loop_all(l, next);
  weft_loop_close(l);
  return weft_reshape(y, WEFT_DIMS(9));
}

static weft_array *nested(weft_array *x) {
  weft_loop *outer = opened(weft_integer(2));
  weft_array *c = weft_loop_carry(outer, at(x, 0));
  weft_loop *inner = opened(NULL);
  weft_array *e = weft_loop_each(inner, x), *d = weft_loop_carry(inner, c);
  weft_loop_next(inner, d, weft_tanh(weft_add(weft_mul(d, e), c)));
  weft_array *end = weft_loop_last(inner, d);
  weft_loop_close(inner);
  weft_loop_next(outer, c, end);
  weft_array *y = weft_loop_all(outer, end);
  weft_loop_close(outer);
  return y;
}

static weft_array *recomputed_for(weft_array *x, weft_array *steps) {
  weft_loop *l = opened(steps);
  weft_array *e = weft_loop_each(l, x), *c = weft_loop_carry(l, f64_of(0.4)), *next = weft_tanh(weft_add(weft_mul(c, e), e));
  weft_loop_next(l, c, next);
  if (!recomputes) weft_loop_recompute(l, 2);
  weft_array *y = weft_loop_all(l, next);
  weft_loop_close(l);
  return y;
}

static weft_array *recomputed(weft_array *x) { return recomputed_for(x, NULL); }
static weft_array *recomputed_late(weft_array *x) { return weft_unsqueeze(weft_sum(recomputed_for(x, late(5)), WEFT_ALL), 0); }

static weft_array *backwards(weft_array *x) { return weft_flip(sit_sot(weft_flip(x, 0)), 0); }

/* A buffer that a step reads at several taps and writes at others, one of them both. */
static weft_array *mit_mot(weft_array *x) {
  weft_loop *l = opened(weft_integer(4));
  weft_array *b = weft_loop_carry(l, x), *t = weft_loop_carry(l, i64_of(0));
  weft_array *b0 = weft_at(b, 0, t), *b1 = weft_at(b, 0, weft_add(t, weft_integer(1)));
  weft_array *first = weft_put(b, weft_window(b, 0, t, 1), weft_unsqueeze(weft_sin(weft_mul(b0, b1)), 0), WEFT_SET);
  weft_array *second = weft_window(first, 0, weft_add(t, weft_integer(2)), 1);
  weft_loop_next(l, b, weft_put(first, second, weft_unsqueeze(weft_mul(b0, weft_scalar(0.5)), 0), WEFT_ADD));
  weft_loop_next(l, t, weft_add(t, weft_integer(1)));
  weft_array *y = weft_loop_last(l, b);
  weft_loop_close(l);
  return y;
}

/* A state over the elements of x, all of it. */
static weft_array *over(weft_array *x, weft_array *(*step)(weft_array *e, weft_array *c)) {
  weft_loop *l = opened(NULL);
  weft_array *e = weft_loop_each(l, x), *c = weft_loop_carry(l, f64_of(0.4)), *next = step(e, c);
  weft_loop_next(l, c, next);
  weft_array *y = weft_loop_all(l, next);
  weft_loop_close(l);
  return y;
}

static weft_array *choice(weft_array *e, weft_array *c) {
  weft_cond *p = weft_cond_open(weft_gt(e, weft_scalar(0.1)));
  weft_array *next = weft_cond_value(p, weft_tanh(weft_mul(c, e)), weft_add(c, weft_exp(e)));
  weft_cond_close(p);
  return next;
}
static weft_array *choosing(weft_array *x) { return over(x, choice); }

/* ---- Loops in loops ---- */

/* Newton's steps to the root of c: a number of them, or as many as it takes. */
static weft_array *root(weft_array *c, weft_array *steps) {
  weft_loop *l = opened(steps);
  weft_array *d = weft_loop_carry(l, weft_add(c, weft_scalar(1))), *next = weft_mul(weft_add(d, weft_div(c, d)), weft_scalar(0.5));
  weft_loop_next(l, d, next);
  weft_loop_until(l, weft_lt(weft_abs(weft_sub(weft_mul(next, next), c)), weft_scalar(0.05)));
  weft_array *last = weft_loop_last(l, d);
  weft_loop_close(l);
  return last;
}
static weft_array *positive(weft_array *x) { return weft_add(weft_mul(x, x), weft_scalar(0.3)); }

static weft_array *while_in_scan(weft_array *x) {
  weft_loop *l = opened(NULL);
  weft_array *e = weft_loop_each(l, x), *c = weft_loop_carry(l, f64_of(0.4));
  weft_array *next = root(weft_add(positive(weft_mul(e, weft_scalar(3))), weft_mul(c, c)), weft_integer(9));
  weft_loop_next(l, c, next);
  weft_array *y = weft_loop_all(l, weft_mul(next, e)), *last = weft_loop_last(l, c);
  weft_loop_close(l);
  return both(y, last);
}

static weft_array *while_in_while(weft_array *x) {
  weft_loop *l = opened(weft_integer(8));
  weft_array *c = weft_loop_carry(l, x);
  weft_array *next = weft_mul(c, root(positive(weft_sum(c, WEFT_ALL)), weft_integer(12)));
  weft_loop_next(l, c, next);
  weft_loop_until(l, weft_gt(weft_sum(weft_mul(next, next), WEFT_ALL), weft_scalar(50)));
  weft_array *last = weft_loop_last(l, c);
  weft_loop_close(l);
  return last;
}

/* Rows of as many steps as it took, used in the step. */
static weft_array *mean_of_rows(weft_array *e, weft_array *c) {
  weft_loop *inner = opened(weft_integer(7));
  weft_array *d = weft_loop_carry(inner, weft_add(positive(e), c)), *more = weft_mul(d, weft_scalar(1.5));
  weft_loop_next(inner, d, more);
  weft_loop_until(inner, weft_gt(more, weft_scalar(3)));
  weft_array *rows = weft_loop_all(inner, weft_sin(more));
  weft_loop_close(inner);
  return weft_mean(rows, WEFT_ALL);
}
static weft_array *rows_in_scan(weft_array *x) { return over(x, mean_of_rows); }

/* One step more of the sequence in every step. */
static weft_array *longer_and_longer(weft_array *x) {
  weft_loop *l = opened(weft_integer(4));
  weft_array *c = weft_loop_carry(l, at(x, 0)), *t = weft_loop_carry(l, i64_of(0));
  weft_loop *inner = opened(t);
  weft_array *e = weft_loop_each(inner, x), *d = weft_loop_carry(inner, c);
  weft_loop_next(inner, d, weft_tanh(weft_add(weft_mul(d, e), e)));
  weft_array *end = weft_loop_last(inner, d);
  weft_loop_close(inner);
  weft_loop_next(l, c, end);
  weft_loop_next(l, t, weft_add(t, weft_integer(1)));
  weft_array *y = weft_loop_all(l, end);
  weft_loop_close(l);
  return y;
}

static weft_array *root_or_product(weft_array *e, weft_array *c) {
  weft_cond *p = weft_cond_open(weft_gt(e, weft_scalar(0)));
  weft_array *next = weft_cond_value(p, root(weft_add(e, positive(c)), weft_integer(9)), weft_mul(c, e));
  weft_cond_close(p);
  return next;
}
static weft_array *while_in_choice(weft_array *x) { return over(x, root_or_product); }

static weft_array *choice_of_whiles(weft_array *x) {
  weft_cond *p = weft_cond_open(weft_gt(at(x, 3), weft_scalar(0.6)));
  weft_array *y = weft_cond_value(p, root(positive(at(x, 0)), weft_integer(9)), weft_sin(root(positive(at(x, 4)), weft_integer(9))));
  weft_cond_close(p);
  return weft_unsqueeze(y, 0);
}

/* The last two of as many rows as it takes. */
static weft_array *last_rows_until(weft_array *x) {
  weft_loop *l = opened(NULL);
  weft_array *e = weft_loop_each(l, x), *c = weft_loop_carry(l, f64_of(0.4)), *next = weft_tanh(weft_add(weft_mul(c, e), e));
  weft_loop_next(l, c, next);
  weft_loop_until(l, weft_gt(e, weft_scalar(1)));
  weft_array *y = weft_loop_tail(l, next, 2);
  weft_loop_close(l);
  return weft_unsqueeze(weft_sum(weft_mul(y, y), WEFT_ALL), 0);
}

static weft_array *recomputed_whiles(weft_array *x) {
  weft_loop *l = opened(NULL);
  weft_array *e = weft_loop_each(l, x), *c = weft_loop_carry(l, f64_of(0.4)), *next = root(weft_add(positive(e), weft_mul(c, c)), weft_integer(9));
  weft_loop_next(l, c, next);
  if (!recomputes) weft_loop_recompute(l, 2);
  weft_array *y = weft_loop_all(l, next);
  weft_loop_close(l);
  return y;
}

/* As many steps inside as is computed, by elements that go side by side: of no vector of the kernel, but the same for all. */
static weft_array *counted(weft_array *c, weft_array *from) {
  weft_loop *l = opened(weft_where(weft_lt(from, weft_integer(4)), weft_integer(9), weft_integer(0)));
  weft_array *d = weft_loop_carry(l, c), *t = weft_loop_carry(l, from), *next = weft_add(t, weft_integer(1));
  weft_loop_next(l, d, weft_mul(weft_add(weft_mul(d, d), weft_scalar(1)), weft_scalar(0.45)));
  weft_loop_next(l, t, next);
  weft_loop_until(l, weft_ge(next, weft_integer(4)));
  weft_array *last = weft_loop_last(l, d);
  weft_loop_close(l);
  return last;
}
static weft_array *counted_inside(weft_array *x) {
  weft_loop *l = opened(weft_integer(2));
  weft_array *c = weft_loop_carry(l, x), *from = weft_loop_carry(l, weft_cast(weft_gt(at(x, 3), weft_scalar(1)), WEFT_I64));
  weft_loop_next(l, c, weft_mul(counted(c, from), counted(weft_mul(c, weft_scalar(0.5)), weft_mul(from, weft_integer(7)))));
  weft_loop_next(l, from, weft_sub(weft_integer(1), from));
  weft_array *y = weft_loop_last(l, c);
  weft_loop_close(l);
  return y;
}
/* The reverse loops inside make as many steps as loops that no row of a map changes: those are outside of the map's. */
static weft_array *counted_from_0(weft_array *x) {
  weft_loop *l = opened(weft_integer(2));
  weft_array *c = weft_loop_carry(l, x);
  weft_loop_next(l, c, counted(c, i64_of(0)));
  weft_array *y = weft_loop_last(l, c);
  weft_loop_close(l);
  return y;
}
static weft_array *counted_twice_from_0(weft_array *x) { return repeated(2, x, counted_from_0); }
static weft_array *counted_in_choice(weft_array *x) {
  weft_cond *p = weft_cond_open(weft_gt(weft_sum(x, WEFT_ALL), weft_scalar(0)));
  weft_array *y = weft_cond_value(p, counted_inside(x), weft_mul(x, weft_scalar(2)));
  weft_cond_close(p);
  return weft_tanh(y);
}

/* ---- Transforms: of an expression y of x ---- */

static weft_array *weights(weft_array *y) { return weft_add(weft_mul(weft_iota(y, weft_rank(y) - 1), weft_scalar(0.5)), weft_scalar(1)); }
static weft_array *direction(weft_array *x) { return weft_sub(weft_scalar(1), weft_mul(weft_iota(x, 0), weft_scalar(0.4))); }

static weft_array *value(weft_array *x, weft_array *y) { return (void)x, y; }
static weft_array *gradient(weft_array *x, weft_array *y) {
  weft_array *dx;
  weft_grad(weft_mul(y, weights(y)), 1, &x, &dx);
  return dx;
}
static weft_array *tangent(weft_array *x, weft_array *y) {
  weft_array *d = direction(x), *dy;
  weft_jvp(1, &x, &d, 1, &y, &dy);
  return dy;
}
/* Two rows, of which many a loop makes different numbers of steps. */
static weft_array *other(weft_array *x) { return weft_mul(weft_flip(x, 0), weft_scalar(1.25)); }
static weft_array *map(weft_array *x, weft_array *y) {
  weft_array *xs = weft_stack(0, WEFT_ARRAYS(x, other(x))), *ys;
  weft_map(1, &x, &xs, 1, &y, &ys);
  return weft_flatten(ys, 0, -1);
}
static weft_array *map_of_gradient(weft_array *x, weft_array *y) { return map(x, gradient(x, y)); }
static weft_array *map_of_tangent(weft_array *x, weft_array *y) { return map(x, tangent(x, y)); }
static weft_array *gradient_of_map(weft_array *x, weft_array *y) { return gradient(x, map(x, y)); }
static weft_array *gradient_of_gradient(weft_array *x, weft_array *y) { return gradient(x, gradient(x, y)); }
static weft_array *tangent_of_gradient(weft_array *x, weft_array *y) { return tangent(x, gradient(x, y)); }

/* The same written out: of a map, each row on its own. */
static weft_array *each_row(array_function of, weft_array *(*t)(weft_array *, weft_array *), weft_array *x) {
  weft_array *second = weft_alias(other(x));
  return weft_concat(0, WEFT_ARRAYS(t(x, unrolled(of(x))), t(second, unrolled(of(second)))));
}
static weft_array *plain_map(array_function of, weft_array *x) { return each_row(of, value, x); }
static weft_array *plain_map_of_gradient(array_function of, weft_array *x) { return each_row(of, gradient, x); }
static weft_array *plain_map_of_tangent(array_function of, weft_array *x) { return each_row(of, tangent, x); }
static weft_array *plain_gradient_of_map(array_function of, weft_array *x) {
  return gradient(x, weft_concat(0, WEFT_ARRAYS(unrolled(of(x)), unrolled(of(other(x))))));
}

enum { VALUE, GRADIENT, TANGENT, MAP, MAP_OF_GRADIENT, MAP_OF_TANGENT, GRADIENT_OF_MAP, GRADIENT_OF_GRADIENT, TANGENT_OF_GRADIENT,
       N_TRANSFORMS };
static const struct transform {
  const char *name;
  weft_array *(*of)(weft_array *x, weft_array *y);
  weft_array *(*plain)(array_function, weft_array *x); /* NULL: `of` the graph written out */
} TRANSFORM[N_TRANSFORMS] = {
  { "value", value }, { "gradient", gradient }, { "tangent", tangent }, { "map", map, plain_map },
  { "map of gradient", map_of_gradient, plain_map_of_gradient }, { "map of tangent", map_of_tangent, plain_map_of_tangent },
  { "gradient of map", gradient_of_map, plain_gradient_of_map }, { "gradient of gradient", gradient_of_gradient },
  { "tangent of gradient", tangent_of_gradient },
};

/* refused, refused_again: bits of transforms that say why they cannot be, and of those of loops that recompute. rounds: of those that add in another order than written out.
 * is_ragged: rows of a map make different numbers of steps, so that each is written out on its own. */
enum { REVERSE = 1 << GRADIENT | 1 << MAP_OF_GRADIENT | 1 << GRADIENT_OF_MAP | 1 << GRADIENT_OF_GRADIENT | 1 << TANGENT_OF_GRADIENT,
       EVERY = (1 << N_TRANSFORMS) - 1, TWICE = 1 << GRADIENT_OF_GRADIENT, TWICE_OR_MAPPED = TWICE | 1 << GRADIENT_OF_MAP };
static const struct kind { const char *name; array_function of; int refused, rounds; bool is_ragged; int refused_again; } KIND[] = {
  { "sit-sot", sit_sot, 0, TWICE }, { "mit-sot", mit_sot, 0, TWICE }, { "nit-sot", nit_sot, 0, 0 }, { "untraced", untraced, 0, 0 },
  { "non-sequence", non_sequence, 0, 0 }, { "late steps", late_steps, 0, 0 }, { "no steps", no_steps, 0, 0 },
  { "until", until, 0, TWICE }, { "while", while_loop, REVERSE, 0, true }, { "bounded while", bounded_while, 0, 1 << GRADIENT_OF_MAP, true },
  { "last rows", last_rows, 0, TWICE }, { "contraction", contraction, 0, REVERSE }, { "nested", nested, 0, TWICE },
  { "recomputed", recomputed, 0, TWICE }, { "recomputed late", recomputed_late, 0, TWICE }, { "backwards", backwards, 0, TWICE },
  { "mit-mot", mit_mot, 0, TWICE },
  { "choosing", choosing, 0, TWICE }, { "while in scan", while_in_scan, 0, TWICE_OR_MAPPED, true }, { "while in while", while_in_while, 0, TWICE_OR_MAPPED, true },
  { "rows in scan", rows_in_scan, 0, TWICE_OR_MAPPED, true }, { "longer and longer", longer_and_longer, 0, TWICE_OR_MAPPED },
  { "while in choice", while_in_choice, 0, TWICE_OR_MAPPED, true }, { "choice of whiles", choice_of_whiles, 0, TWICE_OR_MAPPED, true },
  { "last rows until", last_rows_until, 0, TWICE_OR_MAPPED, true, EVERY }, { "recomputed whiles", recomputed_whiles, 0, TWICE_OR_MAPPED, true },
  { "counted inside", counted_inside, 0, REVERSE, true }, { "counted in choice", counted_in_choice, 0, REVERSE, true },
  { "counted from 0", counted_from_0, 0, REVERSE, true }, { "counted twice from 0", counted_twice_from_0, 0, REVERSE, true },
};

static int64_t count(weft_array *a) { return weft_rank(a) == 1 ? weft_dim(a, 0) : -1; }

static weft_array *written_out(const struct kind *k, int t, weft_array *x) {
  bool again = recomputes;
  recomputes = false;
  weft_array *y = k->is_ragged && TRANSFORM[t].plain ? TRANSFORM[t].plain(k->of, x) : TRANSFORM[t].of(x, unrolled(k->of(x)));
  recomputes = again;
  return y;
}

static void compare(const struct kind *k, int t) {
  weft_scope *s = weft_scope_open();
  weft_array *x = f64s(N, POINT), *y = k->of(x), *loop = TRANSFORM[t].of(x, y);
  double got[MOST], want[MOST];
  if ((recomputes ? k->refused_again : k->refused) >> t & 1) {
    if (weft_check(loop) != WEFT_ERR_UNSUPPORTED) test_fail(__FILE__, __LINE__, "%s, %s: not refused", k->name, TRANSFORM[t].name);
    weft_scope_discard(s);
    return;
  }
  weft_array *plain = written_out(k, t, x);
  int64_t n = count(plain), m = count(loop);
  if (n < 0 || n > MOST || m != n)
    test_fail(__FILE__, __LINE__, "%s, %s: %lld numbers, not %lld: %s", k->name, TRANSFORM[t].name, (long long)m, (long long)n, weft_message());
  else if (read_f64(loop, (int)n, got) && read_f64(plain, (int)n, want)) {
    bool same = !memcmp(got, want, (size_t)n * sizeof *got);
    if (!same && !recomputes && !(k->rounds >> t & 1)) test_fail(__FILE__, __LINE__, "%s, %s: other bits", k->name, TRANSFORM[t].name);
    for (int i = 0; i < n; i++)
      if (!near(want[i], got[i], 1e-12))
        test_fail(__FILE__, __LINE__, "%s, %s: [%d] is %.17g, not %.17g", k->name, TRANSFORM[t].name, i, got[i], want[i]);
  }
  weft_scope_discard(s);
}

static void compare_all(int t) {
  for (size_t i = 0; i < sizeof KIND / sizeof *KIND; i++) compare(&KIND[i], t);
}

TEST(the_value_of_every_kind_of_loop_is_that_of_the_loop_written_out) { compare_all(VALUE); }
TEST(the_gradient_of_every_kind_of_loop_is_that_of_the_loop_written_out) { compare_all(GRADIENT); }
TEST(the_tangent_of_every_kind_of_loop_is_that_of_the_loop_written_out) { compare_all(TANGENT); }
TEST(the_map_of_every_kind_of_loop_is_that_of_the_loop_written_out) { compare_all(MAP); }
TEST(maps_of_gradients_of_every_kind_of_loop_are_those_of_the_loop_written_out) { compare_all(MAP_OF_GRADIENT); }
TEST(maps_of_tangents_of_every_kind_of_loop_are_those_of_the_loop_written_out) { compare_all(MAP_OF_TANGENT); }
TEST(gradients_of_maps_of_every_kind_of_loop_are_those_of_the_loop_written_out) { compare_all(GRADIENT_OF_MAP); }
TEST(second_gradients_of_every_kind_of_loop_are_those_of_the_loop_written_out) { compare_all(GRADIENT_OF_GRADIENT); }
TEST(tangents_of_gradients_of_every_kind_of_loop_are_those_of_the_loop_written_out) { compare_all(TANGENT_OF_GRADIENT); }

TEST(derivatives_of_every_kind_of_loop_that_recomputes_are_those_of_the_loop_written_out) {
  recomputes = true;
  for (int t = 0; t < N_TRANSFORMS; t++) compare_all(t);
  recomputes = false;
}
