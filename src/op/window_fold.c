/* window_fold.c -- pooling: windows that slide along the axes between the first and the last, folded to their largest element or to
 * their mean. One axis after the other, so a window of k x k costs 2 k. */
#include <math.h>
#include "op/composed.h"

struct pooling { int64_t size, stride, before, after, dilation; };

static struct pooling on_axis(const weft_pool_options *o, int k) {
  return (struct pooling){ o->size[k], o->stride ? o->stride[k] : o->size[k], o->before ? o->before[k] : 0,
                           o->after ? o->after[k] : 0, o->dilation ? o->dilation[k] : 1 };
}

static struct failure *pool_check(const char *fn, const struct node *x, const weft_pool_options *o) {
  struct shape_text s;
  if (x->rank < 3) return fail(WEFT_ERR_SHAPE, scope_origin(), "%s: x is [N, s.., C], not %s", fn, shape_show(x, &s));
  if (!o || !o->size) return fail(WEFT_ERR_ARG, scope_origin(), "%s: the sizes of the windows are not given", fn);
  for (int k = 0; k < x->rank - 2; k++) {
    struct pooling p = on_axis(o, k);
    if (p.size < 1 || p.stride < 1 || p.dilation < 1 || p.before < 0 || p.after < 0)
      return fail(WEFT_ERR_ARG, scope_origin(), "%s: size %lld, stride %lld, dilation %lld, padding %lld and %lld on axis %d", fn,
                  (long long)p.size, (long long)p.stride, (long long)p.dilation, (long long)p.before, (long long)p.after, k + 1);
    __int128 span = (__int128)(p.size - 1) * p.dilation + 1, room = (__int128)p.before + p.after;
    if (dim_is_known(x->dims[k + 1]) && span > room + x->dims[k + 1])
      return fail(WEFT_ERR_SHAPE, scope_origin(), "%s: on axis %d a window of %lld is longer than %s with its padding", fn, k + 1,
                  (long long)p.size, shape_show(x, &s));
  }
  return NULL;
}

/* x folded along one axis, outside of which it is `none`. */
static weft_array *folded(weft_array *x, int axis, struct pooling p, weft_array *fold(weft_array *, int), weft_array *none) {
  if (p.before || p.after) x = weft_pad(x, axis, p.before, p.after, none);
  return weft_squeeze(fold(weft_windows(x, axis, p.size, p.stride, p.dilation), -1), -1);
}

static weft_array *pooled(const weft_pool_options *o, weft_array *x, weft_array *fold(weft_array *, int), weft_array *none) {
  for (int k = 0; k < weft_rank(x) - 2; k++) x = folded(x, k + 1, on_axis(o, k), fold, none);
  return x;
}

static bool is_poolable(const char *fn, weft_array *x, const weft_pool_options *o, weft_array **bad) {
  struct node *n;
  if (!operands(fn, 1, &x, &n, bad)) return false;
  struct failure *why = pool_check(fn, n, o);
  if (why) return *bad = array_of_bad(why, 1, &n), false;
  return node_release(n), true;
}

weft_array *weft_max_pool(weft_array *x, const weft_pool_options *o) {
  weft_array *bad;
  if (!is_ordered("weft_max_pool", x, &bad) || !is_poolable("weft_max_pool", x, o, &bad)) return bad;
  weft_array *a = with_infinities(x);
  return weft_cast(pooled(o, a, weft_max, number_like(a, weft_dtype_of(a) == WEFT_BOOL ? 0 : -INFINITY)), weft_dtype_of(x));
}

/* The sum of a window over the number of its elements: all of them, or those that are not padding. */
weft_array *weft_mean_pool(weft_array *x, const weft_pool_options *o) {
  static const char fn[] = "weft_mean_pool";
  weft_array *bad, *many;
  if (!arrays_ok(fn, 1, &x, &bad) || !is_poolable(fn, x, o, &bad)) return bad;
  weft_array *a = raised(x), *sum = pooled(o, a, weft_sum, number_like(a, 0));
  if (o->without_padding) many = pooled(o, weft_full_like(a, 1), weft_sum, number_like(a, 0));
  else {
    double n = 1;
    for (int k = 0; k < weft_rank(x) - 2; k++) n *= (double)o->size[k];
    many = weft_scalar(n);
  }
  return lowered(weft_div(sum, many), x);
}
