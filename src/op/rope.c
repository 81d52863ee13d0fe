/* rope.c -- rotary positions: pairs of elements of the last axis are turned by an angle that grows with the place on the axis
 * before it, each pair at a speed of its own. */
#include <math.h>
#include "op/composed.h"
#include "op/later.h"

/* Angle of place t for pair j: (t + offset) scale speed_j, as [.., T, half], of the dtype of x, which is f32 or f64. */
static weft_array *angles(weft_array *x, int64_t half, const weft_rope_options *o) {
  weft_dtype d = weft_dtype_of(x);
  weft_array *like = weft_full_like(x, 0), *j = weft_arange(d, 0, (double)half, 1), *speed;
  if (o->periods) speed = weft_div(weft_scalar(1), weft_cast(o->periods, d));
  else speed = weft_exp(weft_mul(j, weft_scalar(-log(o->base ? o->base : 10000) / (double)half)));
  weft_array *t = weft_slice(weft_iota(like, -2), -1, 0, half, 1);
  weft_array *offset = o->offset ? weft_cast(o->offset, d) : weft_scalar(0);
  for (int k = 1; o->offset && weft_rank(o->offset) == 1 && k < weft_rank(x); k++) offset = weft_unsqueeze(offset, -1);
  return weft_mul(weft_mul(weft_add(t, offset), weft_scalar(o->scale ? o->scale : 1)), speed);
}

static struct failure *rope_check(const struct node *x, int64_t *dims, const weft_rope_options *o) {
  struct shape_text s;
  dim last = x->rank ? dim_resolve(x->dims[x->rank - 1]) : 0;
  if (x->rank < 2) return fail(WEFT_ERR_SHAPE, scope_origin(), "weft_rope: x is [.., T, d], not %s", shape_show(x, &s));
  *dims = o->dims ? o->dims : last;
  if (dim_is_known(last) && (*dims < 2 || *dims % 2 || *dims > last))
    return fail(WEFT_ERR_ARG, scope_origin(), "weft_rope: %lld elements of %s are turned in pairs", (long long)*dims,
                shape_show(x, &s));
  if (!dtype_is_float((weft_dtype)x->dtype)) return not_of("weft_rope", (weft_dtype)x->dtype);
  if (o->offset && weft_rank(o->offset) > 1)
    return fail(WEFT_ERR_SHAPE, scope_origin(), "weft_rope: the offset is a number, or one for each of axis 0");
  dim periods = o->periods && weft_rank(o->periods) == 1 ? dim_resolve(o->periods->node->dims[0]) : DIM_BAD;
  if (o->periods && (weft_rank(o->periods) != 1 || (dim_is_known(*dims) && dim_is_known(periods) && periods != *dims / 2)))
    return fail(WEFT_ERR_SHAPE, scope_origin(), "weft_rope: a period for each of %lld pairs", (long long)*dims / 2);
  return NULL;
}

/* Of a length that is not known yet: the arrays of the options are operands, those that there are. */
static weft_array *write_rope(const void *options, weft_array *const in[]) {
  weft_rope_options o = *(const weft_rope_options *)options;
  int at = 1;
  if (o.offset) o.offset = in[at++];
  if (o.periods) o.periods = in[at++];
  return weft_rope(in[0], &o);
}

static weft_array *rope_later(weft_array *x, const struct node *n, const weft_rope_options *o) {
  weft_array *in[3] = { x };
  int n_in = 1;
  if (o->offset) in[n_in++] = o->offset;
  if (o->periods) in[n_in++] = o->periods;
  return array_later(write_rope, o, sizeof *o, n_in, in, (weft_dtype)n->dtype, n->rank, n->dims);
}

weft_array *weft_rope(weft_array *x, const weft_rope_options *options) {
  struct node *n;
  weft_array *bad;
  int64_t dims = 0;
  weft_rope_options o = options ? *options : (weft_rope_options){ 0 };
  weft_array *given[] = { x, o.offset ? o.offset : x, o.periods ? o.periods : x };
  if (!arrays_ok("weft_rope", 3, given, &bad) || !operands("weft_rope", 1, &x, &n, &bad)) return bad;
  struct failure *why = rope_check(n, &dims, &o);
  if (why) return array_of_bad(why, 1, &n);
  bool is_known = dim_is_known(dim_resolve(n->dims[n->rank - 1])) &&
                  (!o.periods || dim_is_known(dim_resolve(o.periods->node->dims[0])));
  weft_array *later = is_known ? NULL : rope_later(x, n, &o);
  node_release(n);
  if (later) return later;
  weft_array *a = raised(x), *angle = angles(a, dims / 2, &o);
  weft_array *c = weft_cos(angle), *s = weft_sin(angle);
  int64_t half = dims / 2, step = o.neighbours ? 2 : 1, second = o.neighbours ? 1 : half;
  weft_array *u = weft_slice(a, -1, 0, o.neighbours ? dims : half, step), *v = weft_slice(a, -1, second, dims, step);
  weft_array *p = weft_sub(weft_mul(u, c), weft_mul(v, s)), *q = weft_add(weft_mul(u, s), weft_mul(v, c));
  weft_array *turned = o.neighbours ? weft_flatten(weft_stack(-1, 2, (weft_array *[]){ p, q }), -2, -1)
                                    : weft_concat(-1, 2, (weft_array *[]){ p, q });
  weft_array *rest = weft_slice(a, -1, dims, WEFT_END, 1);
  return lowered(weft_dim(rest, -1) ? weft_concat(-1, 2, (weft_array *[]){ turned, rest }) : turned, x);
}
