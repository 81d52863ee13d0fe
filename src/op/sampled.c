/* sampled.c -- functions that are known at points of an axis: differences, integrals, values between the points, and sums of
 * products of one with another that is moved along it. */
#include "op/composed.h"
#include "op/later.h"

static weft_array *from(weft_array *x, int axis, int64_t first) { return weft_slice(x, axis, first, WEFT_END, 1); }
static weft_array *but_last(weft_array *x, int axis) { return weft_slice(x, axis, 0, -1, 1); }

/* ---- Differences and integrals ---- */

enum { FEW_TIMES = 1000 }; /* differences of differences, each a node, which no length ends */

static bool is_known(weft_array *x, int axis) {
  struct node *n = array_good_node(x);
  bool is = !n || dim_is_known(n->dims[axis]);
  node_release(n);
  return is;
}

static bool is_empty(weft_array *x, int axis) {
  struct node *n = array_good_node(x);
  bool is = !n || n->dims[axis] == 0;
  node_release(n);
  return is;
}

/* The difference of two bools is whether they differ. */
weft_array *weft_diff(weft_array *x, int64_t n, int axis) {
  weft_array *bad;
  if (!has_axis("weft_diff", x, &axis, &bad)) return bad;
  if (n < 0) return array_bad(WEFT_ERR_ARG, "weft_diff: %lld times", (long long)n);
  if (n > FEW_TIMES && !is_known(x, axis))
    return array_bad(WEFT_ERR_UNSUPPORTED, "weft_diff: %lld times along a size that is not known yet", (long long)n);
  weft_array *(*less)(weft_array *, weft_array *) = weft_dtype_of(x) == WEFT_BOOL ? weft_ne : weft_sub;
  weft_array *y = n ? x : array_apart(x);
  while (n-- > 0 && !is_empty(y, axis)) y = less(from(y, axis, 1), but_last(y, axis));
  return y;
}

static weft_array *flat(weft_array *x) { return weft_reshape(x, 1, (int64_t[]){ WEFT_ANY }); }

weft_array *weft_ediff(weft_array *x, weft_array *before, weft_array *after) {
  static const char fn[] = "weft_ediff";
  weft_array *bad, *given[] = { x, before ? before : x, after ? after : x }, *part[3];
  if (!arrays_ok(fn, 3, given, &bad)) return bad;
  weft_array *d = weft_diff(flat(x), 1, 0), *ends[] = { before, d, after };
  int n = 0;
  for (int i = 0; i < 3; i++) if (ends[i]) part[n++] = i == 1 ? d : weft_cast(flat(ends[i]), weft_dtype_of(d));
  return n == 1 ? d : weft_concat(0, n, part);
}

/* A vector as long as y's axis stands along it; other arrays broadcast with y as they are. */
static weft_array *standing(weft_array *x, weft_array *y, int axis) {
  if (weft_rank(x) != 1) return x;
  for (int k = axis + 1; k < weft_rank(y); k++) x = weft_unsqueeze(x, -1);
  return x;
}

/* x with as many points as y has along the axis. */
static struct failure *points_wrong(weft_array *y, int axis, weft_array **x) {
  struct node *n = array_node(*x), *m = array_node(y);
  struct shape_text a, b;
  int at = n->rank == 1 ? 0 : axis - m->rank + n->rank;
  dim have = at >= 0 && n->rank ? n->dims[at] : 1, want = m->dims[axis];
  struct failure *why = !sizes_meet("weft_trapezoid", dim_resolve(have), dim_resolve(want))
                            ? fail(WEFT_ERR_SHAPE, scope_origin(), "weft_trapezoid: the points are %s, for axis %d of %s",
                                   shape_show(n, &a), axis, shape_show(m, &b))
                            : NULL;
  if (!why && at >= 0 && n->rank) *x = array_with_size(*x, at, want);
  node_release(n), node_release(m);
  return why;
}

weft_array *weft_trapezoid(weft_array *y, weft_array *x, double dx, int axis) {
  static const char fn[] = "weft_trapezoid";
  weft_array *bad;
  if (!has_axis(fn, y, &axis, &bad) || (x && !arrays_ok(fn, 1, &x, &bad))) return bad;
  struct failure *why = x ? points_wrong(y, axis, &x) : NULL;
  if (why) return array_failed(why);
  weft_dtype out = dtype_float(x ? weft_dtype_promote(weft_dtype_of(x), weft_dtype_of(y)) : weft_dtype_of(y));
  weft_array *a = weft_cast(y, dtype_is_narrow_float(out) ? WEFT_F32 : out);
  if (x && weft_dtype_of(x) == WEFT_BOOL) x = weft_cast(x, WEFT_I32);
  if (x) x = standing(x, y, axis);
  weft_array *d = x ? weft_diff(x, 1, axis - weft_rank(y)) : weft_scalar(dx);
  weft_array *middle = weft_mul(weft_add(from(a, axis, 1), but_last(a, axis)), weft_scalar(0.5));
  return weft_cast(weft_sum(weft_mul(d, middle), axis), out);
}

/* ---- Values between points ---- */

/* x_i <= x < x_(i+1): how many points are not beyond x, less one, within the first and the last but one. */
static weft_array *interval(weft_array *points, weft_array *x) {
  weft_array *i = weft_sub(weft_searchsorted(points, x, 1), weft_integer(1));
  weft_array *last = weft_sub(weft_size(points, 0), weft_integer(2));
  return weft_maximum(weft_minimum(i, last), weft_integer(0));
}

/* Along the line through two points. Where one of them is infinite the line from the other one may be known, or none is needed. */
static weft_array *on_line(weft_array *x, weft_array *x0, weft_array *x1, weft_array *y0, weft_array *y1) {
  weft_array *slope = weft_div(weft_sub(y1, y0), weft_sub(x1, x0));
  weft_array *y = weft_add(weft_mul(slope, weft_sub(x, x0)), y0), *back = weft_add(weft_mul(slope, weft_sub(x, x1)), y1);
  return weft_where(weft_logical_not(weft_isnan(y)), y, weft_where(weft_eq(y0, y1), y0, back));
}

static struct failure *interp_check(weft_array *xp, weft_array *fp) {
  struct node *a = array_node(xp), *b = array_node(fp);
  struct shape_text s, t;
  struct failure *why = NULL;
  dim d[WEFT_RANK_MAX];
  if (a->rank != 1 || b->rank != 1 || !dims_meet("weft_interp", 2, (struct node *[]){ a, b }, -1, d))
    why = fail(WEFT_ERR_SHAPE, scope_origin(), "weft_interp: points %s and values %s are no two vectors of the same length",
               shape_show(a, &s), shape_show(b, &t));
  else if (a->dims[0] == 0) why = fail(WEFT_ERR_SHAPE, scope_origin(), "weft_interp: there are no points");
  node_release(a), node_release(b);
  return why;
}

static weft_array *taken(weft_array *x, weft_array *i) { return weft_take(x, 1, &i); }

/* Between the points on the line through its neighbours; before the first left, after the last right. */
weft_array *weft_interp(weft_array *x, weft_array *xp, weft_array *fp, weft_array *left, weft_array *right) {
  static const char fn[] = "weft_interp";
  weft_array *bad, *given[] = { x, xp, fp, left ? left : fp, right ? right : fp };
  if (!arrays_ok(fn, 5, given, &bad) || !is_ordered(fn, x, &bad) || !is_ordered(fn, xp, &bad)) return bad;
  struct failure *why = interp_check(xp, fp);
  if (why) return array_failed(why);
  weft_dtype of_x = dtype_float(weft_dtype_promote(weft_dtype_of(x), weft_dtype_of(xp)));
  weft_dtype out = weft_dtype_promote(of_x, dtype_float(weft_dtype_of(fp))), wide = dtype_is_narrow_float(out) ? WEFT_F32 : out;
  fp = array_with_size(fp, 0, xp->node->dims[0]);
  x = weft_cast(x, dtype_part(wide)), xp = weft_cast(xp, dtype_part(wide)), fp = weft_cast(fp, wide);
  weft_array *i = interval(xp, x), *next = weft_minimum(weft_add(i, weft_integer(1)), weft_sub(weft_size(xp, 0), weft_integer(1)));
  weft_array *y = on_line(x, taken(xp, i), taken(xp, next), taken(fp, i), taken(fp, next));
  weft_array *zero = weft_integer(0), *back = weft_integer(-1), *first = weft_at(xp, 0, zero), *last = weft_at(xp, 0, back);
  weft_array *begin = weft_at(fp, 0, zero), *end = weft_at(fp, 0, back);
  y = weft_where(weft_eq(x, last), end, y);
  y = weft_where(weft_gt(x, last), right ? weft_cast(right, wide) : end, y);
  y = weft_where(weft_lt(x, first), left ? weft_cast(left, wide) : begin, y);
  return weft_cast(weft_where(weft_isnan(x), weft_cast(x, wide), y), out);
}

/* ---- Sums of products with what is moved along ---- */

static dim length(weft_array *x) {
  struct node *n = array_node(x);
  dim d = dim_resolve(n->dims[0]);
  node_release(n);
  return d;
}

static struct failure *moved_check(const char *fn, weft_array *a, weft_array *v, weft_reach reach) {
  if (weft_rank(a) != 1 || weft_rank(v) != 1)
    return fail(WEFT_ERR_SHAPE, scope_origin(), "%s: of two vectors, not of arrays of %d and %d axes", fn, weft_rank(a),
                weft_rank(v));
  if (length(a) == 0 || length(v) == 0)
    return fail(WEFT_ERR_SHAPE, scope_origin(), "%s: a vector is empty", fn);
  if ((unsigned)reach > WEFT_REACH_VALID) return fail(WEFT_ERR_ARG, scope_origin(), "%s: there is no reach %d", fn, (int)reach);
  return NULL;
}

/* How many results there are, of vectors of n and m elements. */
static dim moved_length(dim n, dim m, weft_reach reach) {
  if (reach == WEFT_REACH_FULL) return dim_add(n, dim_above(m, 1));
  return reach == WEFT_REACH_SAME ? dim_max(n, m) : dim_add(dim_above(dim_max(n, m), dim_min(n, m)), 1);
}

static weft_array *moved(const char *fn, weft_array *a, weft_array *v, weft_reach reach, bool begins_late);

struct moved_options { const char *fn; weft_reach reach; bool begins_late; };

static weft_array *write_moved(const void *options, weft_array *const in[]) {
  const struct moved_options *o = options;
  return moved(o->fn, in[0], in[1], o->reach, o->begins_late);
}

/* Which one is longer is not known yet. */
static weft_array *moved_later(const char *fn, weft_array *a, weft_array *v, weft_reach reach, bool begins_late) {
  struct moved_options o = { fn, reach, begins_late };
  dim many = moved_length(length(a), length(v), reach);
  weft_dtype met = weft_dtype_promote(weft_dtype_of(a), weft_dtype_of(v));
  return array_later(write_moved, &o, sizeof o, 2, (weft_array *[]){ a, v }, met, 1, &many);
}

/* [n] as [1, n, 1] */
static weft_array *as_line(weft_array *x) { return weft_unsqueeze(weft_unsqueeze(x, 0), 2); }

/* sum a[i] v[k - i]: a slides under the shorter of the two, turned round. A result of the length of the longer begins so many
 * elements after the first of all. */
static weft_array *moved(const char *fn, weft_array *a, weft_array *v, weft_reach reach, bool begins_late) {
  weft_array *bad;
  if (!arrays_ok(fn, 2, (weft_array *[]){ a, v }, &bad)) return bad;
  struct failure *why = moved_check(fn, a, v, reach);
  if (why) return array_failed(why);
  weft_dtype met = weft_dtype_promote(weft_dtype_of(a), weft_dtype_of(v));
  if (met == WEFT_BOOL) a = weft_cast(a, WEFT_I32);
  if (!dim_is_known(length(a)) || !dim_is_known(length(v))) return moved_later(fn, a, v, reach, begins_late);
  bool swaps = length(v) > length(a);
  weft_array *longer = swaps ? v : a, *shorter = swaps ? a : v;
  int64_t over = length(shorter) - 1, skipped = (over + (begins_late && swaps)) / 2;
  int64_t before = reach == WEFT_REACH_FULL ? over : reach == WEFT_REACH_SAME ? over - skipped : 0;
  int64_t after = reach == WEFT_REACH_FULL ? over : reach == WEFT_REACH_SAME ? skipped : 0;
  weft_conv_options how = { .before = &before, .after = &after, .is_flipped = 1 };
  weft_array *y = weft_conv(as_line(longer), as_line(shorter), &how);
  return weft_squeeze(weft_squeeze(y, 2), 0);
}

weft_array *weft_convolve(weft_array *a, weft_array *v, weft_reach reach) { return moved("weft_convolve", a, v, reach, false); }

/* Convolution with the conjugate of v, turned round. */
weft_array *weft_correlate(weft_array *a, weft_array *v, weft_reach reach) {
  weft_array *bad;
  if (!arrays_ok("weft_correlate", 2, (weft_array *[]){ a, v }, &bad)) return bad;
  if (weft_rank(v) != 1) return moved("weft_correlate", a, v, reach, true);
  return moved("weft_correlate", a, weft_conj(weft_flip(v, 0)), reach, true);
}
