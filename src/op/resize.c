/* resize.c -- an axis with another number of points, over the same stretch: the nearest element, the line between two, or the cubic
 * through four. Positions are those of the middle of an element, or of its corner. */
#include <math.h>
#include "op/composed.h"

/* Where point i of m stands among n elements: f32 has too few digits for many of them. */
static weft_array *positions(weft_array *n, weft_array *like, double scale, bool aligns) {
  weft_array *i = weft_cast(weft_iota(like, 0), WEFT_F64), *m = weft_cast(weft_size(like, 0), WEFT_F64), *one = weft_scalar(1);
  n = weft_cast(n, WEFT_F64);
  if (aligns) return weft_mul(i, weft_div(weft_sub(n, one), weft_maximum(weft_sub(m, one), one)));
  double step = 1 / scale;
  weft_array *start = weft_mul(weft_sub(weft_mul(weft_sub(m, one), weft_scalar(step)), weft_sub(n, one)), weft_scalar(0.5));
  return weft_sub(weft_mul(i, weft_scalar(step)), start);
}

/* Of more points than elements the one whose middle is nearest, halves to the even one; of fewer the one it begins in. */
static weft_array *nearest(weft_array *n, weft_array *like) {
  weft_array *i = weft_cast(weft_iota(like, 0), WEFT_F64), *m = weft_cast(weft_size(like, 0), WEFT_F64);
  n = weft_cast(n, WEFT_F64);
  weft_array *step = weft_div(n, m), *half = weft_scalar(0.5);
  weft_array *middle = weft_round(weft_sub(weft_mul(weft_add(i, half), step), half));
  return weft_where(weft_gt(m, n), middle, weft_floor(weft_mul(i, step)));
}

/* Elements at these places, which are kept within the axis, times weights. */
static weft_array *weighed(weft_array *x, int axis, weft_array *at, weft_array *weight) {
  weft_array *last = weft_sub(weft_size(x, axis), weft_integer(1));
  weft_array *i = weft_maximum(weft_minimum(weft_cast(at, WEFT_I64), last), weft_integer(0));
  weft_array *y = weft_moveaxis(weft_take(weft_moveaxis(x, axis, 0), 1, &i), 0, axis);
  if (!weight) return y;
  weight = weft_cast(weight, dtype_part(weft_dtype_of(x)));
  for (int k = axis + 1; k < weft_rank(x); k++) weight = weft_unsqueeze(weight, -1);
  return weft_mul(y, weight);
}

static weft_array *linear(weft_array *x, int axis, weft_array *p) {
  weft_array *last = weft_cast(weft_sub(weft_size(x, axis), weft_integer(1)), WEFT_F64);
  p = weft_maximum(weft_minimum(p, last), weft_scalar(0));
  weft_array *low = weft_floor(p), *far = weft_sub(p, low);
  return weft_add(weighed(x, axis, low, weft_sub(weft_scalar(1), far)), weighed(x, axis, weft_ceil(p), far));
}

/* Keys' kernel with a = -3/4: near for distances up to 1, else up to 2. */
static weft_array *cubic_weight(weft_array *t, bool is_near) {
  const double a = -0.75;
  weft_array *u;
  if (is_near) {
    u = weft_sub(weft_mul(weft_scalar(a + 2), t), weft_scalar(a + 3));
    return weft_add(weft_mul(weft_mul(u, t), t), weft_scalar(1));
  }
  u = weft_add(weft_mul(weft_sub(t, weft_scalar(5)), t), weft_scalar(8));
  return weft_mul(weft_sub(weft_mul(u, t), weft_scalar(4)), weft_scalar(a));
}

static weft_array *cubic(weft_array *x, int axis, weft_array *p) {
  weft_array *low = weft_floor(p), *far = weft_sub(p, low), *y = NULL;
  for (int k = -1; k <= 2; k++) {
    weft_array *t = k <= 0 ? weft_add(far, weft_integer(-k)) : weft_sub(weft_integer(k), far);
    weft_array *part = weighed(x, axis, weft_add(low, weft_integer(k)), cubic_weight(t, k == 0 || k == 1));
    y = y ? weft_add(y, part) : part;
  }
  return y;
}

/* floor(size scale). DIM_BAD: of a size that is not known, that can only be said if the scale is a fraction by a power of two. */
static dim scaled(dim size, double scale) {
  int shift = 0;
  if (dim_is_known(size)) return (int64_t)((double)size * scale);
  while (shift < 20 && ldexp(scale, shift) != floor(ldexp(scale, shift))) shift++;
  double over = ldexp(scale, shift);
  return over == floor(over) ? dim_quotient(dim_mul(size, (int64_t)over), (int64_t)1 << shift) : DIM_BAD;
}

/* A vector as long as the axis will be. NULL: that cannot be said. */
static weft_array *points(weft_array *x, int axis, double scale) {
  struct node *n = array_node(x);
  dim many = scaled(n->dims[axis], scale);
  node_release(n);
  struct node like = { .dtype = WEFT_I64, .rank = 1, .dims = &many };
  return many == DIM_BAD ? NULL : array_sized_by(zeros_of(&like), x);
}

weft_array *weft_resize(weft_array *x, int axis, double scale, weft_resizing how, int aligns_corners) {
  static const char fn[] = "weft_resize";
  weft_array *bad;
  if (!has_axis(fn, x, &axis, &bad)) return bad;
  if (!(scale > 0 && scale < 0x1p31)) return array_bad(WEFT_ERR_ARG, "%s: by %g", fn, scale);
  if ((unsigned)how > WEFT_RESIZE_CUBIC) return array_bad(WEFT_ERR_ARG, "%s: there is no way %d", fn, (int)how);
  struct node *node = array_node(x);
  bool is_empty = node->dims[axis] == 0;
  node_release(node);
  if (is_empty) return array_apart(x);
  weft_array *n = weft_size(x, axis), *like = points(x, axis, scale);
  if (!like)
    return array_bad(WEFT_ERR_UNSUPPORTED, "%s: an axis whose size is not known yet by %g, no fraction of 2^n", fn, scale);
  if (how == WEFT_RESIZE_NEAREST) return weighed(x, axis, nearest(n, like), NULL);
  weft_array *a = raised(x), *p = positions(n, like, scale, aligns_corners);
  return lowered(how == WEFT_RESIZE_LINEAR ? linear(a, axis, p) : cubic(a, axis, p), x);
}
