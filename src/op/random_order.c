/* random_order.c -- what stands somewhere, in an order that is drawn: sorted by words of the key. */
#include "op/index.h"
#include "op/random.h"

/* The places 0 .. n - 1 in an order that is drawn: i64 [n], as MLX draws it. like: x, whose axis is so long. */
static weft_array *drawn_order(const char *fn, weft_array *key, weft_array *x, dim n) {
  weft_array *bad;
  struct draw d = { .in = WEFT_F32 };
  if (!random_open(&d, fn, key, x, 1, &n, &bad)) return bad;
  return weft_argsort(random_word(WEFT_U32, d.k0, d.k1, d.places, d.n), 0);
}

static weft_array *rows_at(weft_array *x, int axis, weft_array *at) {
  weft_array *first = weft_moveaxis(x, axis, 0);
  return weft_moveaxis(weft_take(first, 1, &at), 0, axis);
}

static weft_array *permuted(weft_array *key, weft_array *x, int axis) {
  static const char fn[] = "weft_random_permutation";
  struct node *n;
  weft_array *bad;
  if (!operands(fn, 1, &x, &n, &bad)) return bad;
  struct failure *why = axis_check(fn, n, &axis);
  if (why) return array_of_bad(why, 1, &n);
  dim size = n->dims[axis];
  x = array_of(n);
  return rows_at(x, axis, drawn_order(fn, key, x, size));
}

static weft_array *shuffled(weft_array *key, weft_array *x, int axis) {
  static const char fn[] = "weft_random_shuffle";
  struct node *n;
  weft_array *bad;
  if (!operands(fn, 1, &x, &n, &bad)) return bad;
  struct failure *why = axis_check(fn, n, &axis);
  if (why) return array_of_bad(why, 1, &n);
  x = array_of(n);
  return weft_take_along(x, axis, weft_argsort(weft_random_bits(key, weft_cast(x, WEFT_U32)), axis));
}

/* ---- one of several, or several of them ---- */

/* p as f64, looked at: enough of what is drawn has a chance. */
static weft_array *chances(const struct draw *d, weft_array *p, int is_once) {
  p = weft_cast(p, WEFT_F64);
  weft_array *zero = number_like(p, 0), *are_shares = weft_and(weft_ge(p, zero), weft_isfinite(weft_sum(p, 0)));
  weft_array *n = weft_sum(weft_cast(weft_gt(p, zero), WEFT_I64), 0);
  p = array_assert(p, are_shares, WEFT_ERR_ARG, "weft_random_choice: p has a number below 0, a nan, or a sum that is not finite");
  if (!is_once) return array_assert(p, weft_ge(n, weft_integer(1)), WEFT_ERR_ARG, "weft_random_choice: no p is above 0");
  return array_assert(p, weft_ge(n, weft_cast(d->n_draws, WEFT_I64)), WEFT_ERR_ARG,
                      "weft_random_choice: fewer p are above 0 than different rows are drawn");
}

/* With probability p, each draw by itself: where a share of the sum lies among the sums so far; of equal chances the share
 * itself. The sum is the last of these, so that a share of it lies below one that p makes larger. */
static weft_array *drawn_again(const struct draw *d, weft_array *x, weft_array *p) {
  weft_array *u = random_unit(d, 0, 1), *size = weft_cast(weft_size(x, 0), WEFT_F64);
  weft_array *last = weft_sub(weft_size(x, 0), weft_integer(1));
  if (!p) return weft_minimum(weft_cast(weft_floor(weft_mul(u, size)), WEFT_I64), last);
  weft_array *sums = weft_cumsum(p, 0), *all = weft_at(sums, 0, last);
  return weft_minimum(weft_searchsorted(sums, weft_mul(u, all), true), last);
}

/* Without p an order that is drawn; with it the largest of log p + gumbel come first: an order in which each is the next with its
 * share of what is left. */
static weft_array *drawn_once(const struct draw *d, weft_array *key, weft_array *x, weft_array *p, dim n) {
  weft_array *order, *bad;
  if (!p) order = drawn_order(d->fn, key, x, n);
  else {
    struct draw each = { .in = WEFT_F64 };
    if (!random_open(&each, d->fn, key, x, 1, &n, &bad)) return bad;
    weft_array *gumbel = weft_neg(weft_log(weft_neg(weft_log(random_open_unit(&each, 0, 1)))));
    order = weft_argsort(weft_neg(weft_add(gumbel, weft_log(p))), 0);
  }
  return random_shaped(d, array_slice(order, 0, 0, d->count, 1));
}

static struct failure *choice_check(const char *fn, const struct node *x, const struct node *p, dim n_draws, bool is_once) {
  struct shape_text s, t;
  if (x->rank < 1) return fail(WEFT_ERR_SHAPE, scope_origin(), "%s: x is a number, and has no rows", fn);
  if (p && dtype_is_complex(p->dtype)) return not_of(fn, (weft_dtype)p->dtype);
  if (p && (p->rank != 1 || !sizes_meet(fn, p->dims[0], x->dims[0])))
    return fail(WEFT_ERR_SHAPE, scope_origin(), "%s: p %s of x %s", fn, shape_show(p, &s), shape_show(x, &t));
  if (x->dims[0] == 0 && n_draws != 0)
    return fail(WEFT_ERR_SHAPE, scope_origin(), "%s: there is nothing to choose from in %s", fn, shape_show(x, &s));
  if (is_once && !slice_meets(fn, WEFT_ERR_SHAPE, x->dims[0], 0, n_draws, 1))
    return fail(WEFT_ERR_SHAPE, scope_origin(), "%s: %lld different rows of %s", fn, (long long)n_draws, shape_show(x, &s));
  return NULL;
}

static weft_array *chosen(weft_array *key, weft_array *like, weft_array *x, weft_array *p, int is_once) {
  static const char fn[] = "weft_random_choice";
  struct draw d = { .in = WEFT_F64 };
  struct node *n = NULL, *shape = NULL, *chance = NULL;
  weft_array *bad;
  if (!operands(fn, 1, &x, &n, &bad)) return bad;
  if (like && !operands(fn, 1, &like, &shape, &bad)) return node_release(n), bad;
  if (p && !operands(fn, 1, &p, &chance, &bad)) return node_release(n), node_release(shape), bad;
  dim count = shape ? dim_count(shape->rank, shape->dims) : 1, size = n->rank ? n->dims[0] : 0;
  struct failure *why = choice_check(fn, n, chance, count, is_once);
  bool ok = !why && random_open(&d, fn, key, like, shape ? shape->rank : 0, shape ? shape->dims : NULL, &bad);
  node_release(shape), node_release(chance);
  if (why) return array_of_bad(why, 1, &n);
  x = array_of(n);
  if (!ok) return bad;
  if (p) p = chances(&d, array_with_size(p, 0, size), is_once);
  weft_array *at = is_once ? drawn_once(&d, key, x, p, size) : drawn_again(&d, x, p);
  return array_take(x, 1, &at, BY_CHOICE);
}

weft_array *weft_random_permutation(weft_array *key, weft_array *x, int axis) { return COMPOSED(permuted(key, x, axis)); }
weft_array *weft_random_shuffle(weft_array *key, weft_array *x, int axis) { return COMPOSED(shuffled(key, x, axis)); }
weft_array *weft_random_choice(weft_array *key, weft_array *like, weft_array *x, weft_array *p, int is_once) {
  return COMPOSED(chosen(key, like, x, p, is_once));
}
