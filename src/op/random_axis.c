/* random_axis.c -- draws along an axis: one of several, how often each of them, shares of a whole. */
#include <math.h>
#include "op/random.h"

/* The node of an array of floats, or integers made so; f16 and bf16 are raised. NULL: *bad. */
static struct node *real_node(const char *fn, weft_array *x, weft_array **bad) {
  struct node *n;
  if (!operands(fn, 1, &x, &n, bad)) return NULL;
  weft_dtype t = (weft_dtype)n->dtype;
  if (dtype_is_complex(t)) return *bad = array_of_bad(not_of(fn, t), 1, &n), NULL;
  n = node_cast(n, dtype_float(t) == WEFT_F64 ? WEFT_F64 : WEFT_F32);
  if (!n) *bad = array_of(NULL);
  return n;
}

static struct failure *no_axis(const char *fn, const char *name) {
  return fail(WEFT_ERR_SHAPE, scope_origin(), "%s: %s is a number and has no axis", fn, name);
}

/* ---- One of several ---- */

/* The shape of all scores: `like`, with the axis of the logits put in. *at: where it stands. */
static struct failure *scores_shape(const char *fn, const struct node *logits, int axis, const struct node *like, int *rank,
                                    dim dims[], int *at) {
  struct shape_text s, t;
  *rank = like ? like->rank + 1 : logits->rank;
  *at = *rank - logits->rank + axis;
  if (*at < 0 || *rank > WEFT_RANK_MAX)
    return fail(WEFT_ERR_SHAPE, scope_origin(), "%s: draws of shape %s of logits %s", fn, shape_show(like, &s),
                shape_show(logits, &t));
  for (int k = 0; k < *rank; k++)
    dims[k] = !like ? logits->dims[k] : k == *at ? logits->dims[axis] : like->dims[k < *at ? k : k - 1];
  return NULL;
}

/* The largest of logits + gumbel: one kernel, nothing stored. */
static weft_array *categorical(weft_array *key, weft_array *like, weft_array *logits, int axis) {
  static const char fn[] = "weft_random_categorical";
  struct draw d = { 0 };
  weft_array *bad;
  struct node *x = real_node(fn, logits, &bad), *n = NULL;
  if (!x) return bad;
  if (like && !operands(fn, 1, &like, &n, &bad)) return node_release(x), bad;
  int rank = 0, at = 0;
  dim dims[WEFT_RANK_MAX];
  struct failure *why = x->rank ? axis_check(fn, x, &axis) : no_axis(fn, "logits");
  if (!why) why = scores_shape(fn, x, axis, n, &rank, dims, &at);
  if (!why && dim_is_known(dims[at]) && dims[at] == 0)
    why = fail(WEFT_ERR_SHAPE, scope_origin(), "%s: there is nothing to choose from along axis %d", fn, axis);
  weft_dtype as = n ? (weft_dtype)n->dtype : WEFT_I32;
  if (!why && !dtype_is_integer(as)) why = not_of(fn, as);
  node_release(n);
  if (why) return array_of_bad(why, 1, &x);
  if (!random_open(&d, fn, key, like, rank, dims, &bad)) return node_release(x), bad;
  d.in = (weft_dtype)x->dtype;
  weft_array *gumbel = weft_neg(weft_log(weft_neg(weft_log(random_open_unit(&d, 0, 1)))));
  weft_array *given = array_broadcast(fn, array_of(x), rank, dims), *scores = weft_stop_gradient(weft_add(gumbel, given));
  weft_array *most = weft_max(weft_stop_gradient(given), at), *is_some = weft_gt(most, number_like(most, -INFINITY)); /* nan wins */
  return weft_cast(weft_squeeze(weft_where(is_some, weft_argmax(scores, at), weft_integer(-1)), at), as);
}

weft_array *weft_random_categorical(weft_array *key, weft_array *like, weft_array *logits, int axis) {
  return COMPOSED(categorical(key, like, logits, axis));
}

/* ---- Shares of a whole ---- */

/* Gamma draws over their sum, by their logarithms. */
static weft_array *dirichlet(weft_array *key, weft_array *like, weft_array *alpha) {
  static const char fn[] = "weft_random_dirichlet";
  struct draw d = { 0 };
  weft_array *bad;
  struct node *a = real_node(fn, alpha, &bad), *n = NULL;
  if (!a) return bad;
  if (like && !operands(fn, 1, &like, &n, &bad)) return node_release(a), bad;
  const struct node *shape = n ? n : a;
  weft_dtype as = n ? (weft_dtype)n->dtype : dtype_float(weft_dtype_of(alpha));
  struct failure *why = a->rank && shape->rank ? NULL : no_axis(fn, a->rank ? "like" : "alpha");
  if (!why && !dtype_is_float(as)) why = not_of(fn, as);
  bool ok = !why && random_open(&d, fn, key, like, shape->rank, shape->dims, &bad);
  node_release(n);
  if (why) return array_of_bad(why, 1, &a);
  if (!ok) return node_release(a), bad;
  d.in = as == WEFT_F64 ? WEFT_F64 : WEFT_F32;
  weft_array *p = weft_cast(array_of(a), d.in), *nan = number_like(p, NAN);
  p = array_broadcast(fn, weft_where(weft_gt(p, number_like(p, 0)), p, nan), d.rank, d.dims);
  return weft_cast(weft_softmax(random_gamma(&d, p, 0, 1, true), -1), as);
}

weft_array *weft_random_dirichlet(weft_array *key, weft_array *like, weft_array *alpha) {
  return COMPOSED(dirichlet(key, like, alpha));
}

/* ---- How often each ---- */

/* The j-th of those that are left, each with its share of the probability that is left. */
static weft_array *multinomial(weft_array *key, weft_array *like, weft_array *n, weft_array *p) {
  static const char fn[] = "weft_random_multinomial";
  struct node *shape = NULL, *in[2];
  weft_array *bad, *all[2] = { n, p };
  if (!operands(fn, 2, all, in, &bad)) return bad;
  if (like && !operands(fn, 1, &like, &shape, &bad)) return nodes_release(2, in), bad;
  if (!shape) shape = node_retain(in[1]);
  weft_dtype as = like ? (weft_dtype)shape->dtype : WEFT_I32;
  struct failure *why = in[1]->rank && shape->rank ? NULL : no_axis(fn, in[1]->rank ? "like" : "p");
  if (!why && (dtype_is_complex((weft_dtype)in[0]->dtype) || dtype_is_complex((weft_dtype)in[1]->dtype) || dtype_is_complex(as)))
    why = fail(WEFT_ERR_DTYPE, scope_origin(), "%s: not of complex numbers", fn);
  if (!why) why = random_number_wrong(fn, &(struct parameter){ "n", COUNT, NAN }, in[0]);
  int rank = shape->rank;
  dim dims[WEFT_RANK_MAX];
  for (int k = 0; k < rank; k++) dims[k] = shape->dims[k];
  node_release(shape);
  if (why) return array_of_bad(why, 2, in);
  nodes_release(2, in);

  weft_array *each = array_broadcast(fn, weft_cast(p, WEFT_F64), rank, dims), *keys = random_keys(fn, key, like, dims[rank - 1]);
  weft_loop *loop = weft_loop_open(NULL);
  weft_array *now = weft_loop_each(loop, weft_moveaxis(each, -1, 0)), *one = weft_loop_each(loop, keys);
  weft_array *trials = array_broadcast(fn, random_where_in(COUNT, weft_floor(weft_cast(n, WEFT_F64))), rank - 1, dims);
  weft_array *whole = weft_squeeze(weft_sum(each, -1), -1), *zero = weft_cast(weft_scalar(0), WEFT_F64);
  weft_array *most = weft_cast(weft_scalar(1 + 0x1p-20), WEFT_F64); /* as much as rounding may add */
  weft_array *is_share = weft_squeeze(weft_all(weft_and(weft_ge(each, zero), weft_le(each, most)), -1), -1);
  weft_array *is_whole = weft_and(weft_gt(whole, zero), weft_isfinite(whole));
  trials = weft_where(weft_and(is_share, is_whole), trials, number_like(trials, NAN));
  weft_array *left = weft_loop_carry(loop, trials), *rest = weft_loop_carry(loop, whole), *k;
  weft_array *share = weft_minimum(weft_div(now, rest), weft_cast(weft_scalar(1), WEFT_F64));
  share = weft_where(weft_gt(left, zero), share, zero);
  struct draw d = { .in = WEFT_F64 };
  if (random_open(&d, fn, one, NULL, rank - 1, dims, &k)) k = random_binomial(&d, left, share); /* else k is bad, of this scope */
  weft_loop_next(loop, left, weft_sub(left, k));
  weft_loop_next(loop, rest, weft_sub(rest, now));
  weft_array *counts = weft_loop_all(loop, k);
  weft_loop_close(loop);
  counts = weft_moveaxis(counts, 0, -1);
  if (!dtype_is_float(as)) counts = weft_where(weft_isnan(counts), number_like(counts, -1), counts);
  return weft_cast(weft_stop_gradient(counts), as);
}

weft_array *weft_random_multinomial(weft_array *key, weft_array *like, weft_array *n, weft_array *p) {
  return COMPOSED(multinomial(key, like, n, p));
}

/* ---- Several that go together ---- */

/* cov is [..,n,n] of mean [..,n]. */
static struct failure *vectors_wrong(const char *fn, weft_array *mean, weft_array *cov) {
  struct node *m = array_node(mean), *c = array_node(cov);
  struct shape_text a, b;
  bool fits = c->rank >= 2;
  for (int k = 1; k <= 2 && fits; k++) fits = !dim_differs(dim_resolve(c->dims[c->rank - k]), dim_resolve(m->dims[m->rank - 1]));
  struct failure *why = NULL;
  if (!fits) why = fail(WEFT_ERR_SHAPE, scope_origin(), "%s: mean %s and cov %s", fn, shape_show(m, &a), shape_show(c, &b));
  node_release(m), node_release(c);
  return why;
}

static weft_array *together(weft_array *key, weft_array *like, weft_array *mean, weft_array *cov) {
  static const char fn[] = "weft_random_multivariate_normal";
  weft_array *bad;
  if (!arrays_ok(fn, 3, (weft_array *[]){ key, mean, cov }, &bad)) return bad;
  if (weft_rank(mean) < 1) return array_failed(no_axis(fn, "mean"));
  struct failure *why = vectors_wrong(fn, mean, cov);
  if (why) return array_failed(why);
  weft_dtype in = dtype_float(weft_dtype_promote(weft_dtype_of(mean), weft_dtype_of(cov)));
  weft_array *z = weft_random_normal(key, like ? like : weft_cast(mean, in), NULL, NULL), *l = weft_cholesky(weft_cast(cov, in));
  weft_array *y = weft_add(weft_cast(mean, in), weft_squeeze(weft_matmul(l, weft_unsqueeze(z, -1)), -1));
  return like ? weft_cast(y, weft_dtype_of(like)) : y;
}

weft_array *weft_random_multivariate_normal(weft_array *key, weft_array *like, weft_array *mean, weft_array *cov) {
  return COMPOSED(together(key, like, mean, cov));
}
