/* pattern.c -- the bytes of elements under another dtype.
 *
 * One op keeps 8, 32 or 64 bits and changes what they mean. All else is integer arithmetic on patterns: what has 16 bits is
 * computed from f32, which holds each f16 and bf16; wider elements are cut into narrower ones, or put together of them,
 * the lowest bits first. */
#include <string.h>
#include "kernel/eighth.h"
#include "op/composed.h"
#include "op/element.h"
#undef X
#undef Y

LOWER(bits) {
  weft_dtype from = operand_dtype(n), to = (weft_dtype)n->dtype;
  if (dtype_is_f8(from)) return eighth_pattern(b, from, in[0]);
  return dtype_is_f8(to) ? eighth_value(b, to, in[0]) : kir_bits(b, to, in[0]);
}
ROW(bits, true, NONE)

/* The same bits as another dtype: 32 or 64, or 8 between u8 and a float. */
static weft_array *meant(weft_array *x, weft_dtype d) {
  struct node *n = weft_dtype_of(x) == d ? NULL : array_good_node(x);
  if (!n) return x;
  struct node *y = node_make(&op_bits, d, n->rank, n->dims, 1, &n, NULL, 0);
  node_release(n);
  return array_of(y);
}

static weft_array *whole(uint32_t n) { return weft_integer(n); }
static weft_array *left(weft_array *x, int64_t by) { return weft_shl(x, weft_integer(by)); }
static weft_array *right(weft_array *x, int64_t by) { return weft_shr(x, weft_integer(by)); }
static weft_array *low(weft_array *x, uint32_t mask) { return weft_and(x, whole(mask)); }

/* ---- Elements as unsigned patterns, and back ---- */

/* Below 2^-14 an f16 counts steps of 2^-24; else it is an f32 with another bias, and 13 bits less. */
static weft_array *f16_pattern(weft_array *x) {
  weft_array *a = weft_cast(x, WEFT_F32), *all = meant(a, WEFT_U32), *m = low(all, 0x7FFFFFFF);
  weft_array *tiny = weft_cast(weft_mul(weft_abs(a), weft_scalar(0x1p24)), WEFT_U32);
  weft_array *normal = right(weft_sub(m, whole(0x38000000)), 13), *odd = weft_or(low(right(m, 13), 0x3FF), whole(0x7C00));
  weft_array *h = weft_where(weft_ge(m, whole(0x7F800000)), odd, weft_where(weft_lt(m, whole(0x38800000)), tiny, normal));
  return weft_cast(weft_or(h, low(right(all, 16), 0x8000)), WEFT_U16);
}

static weft_array *f16_value(weft_array *pattern) {
  weft_array *h = weft_cast(pattern, WEFT_U32), *m = low(h, 0x7FFF), *e = low(h, 0x7C00);
  weft_array *tiny = meant(weft_mul(weft_cast(m, WEFT_F32), weft_scalar(0x1p-24)), WEFT_U32);
  weft_array *normal = weft_add(left(m, 13), whole(0x38000000)), *odd = weft_or(left(low(h, 0x3FF), 13), whole(0x7F800000));
  weft_array *y = weft_where(weft_eq(e, whole(0x7C00)), odd, weft_where(weft_eq(e, whole(0)), tiny, normal));
  return weft_cast(meant(weft_or(y, left(low(h, 0x8000), 16)), WEFT_F32), WEFT_F16);
}

static weft_dtype unsigned_of(size_t bytes) {
  return bytes == 1 ? WEFT_U8 : bytes == 2 ? WEFT_U16 : bytes == 4 ? WEFT_U32 : WEFT_U64;
}

static weft_array *pattern_of(weft_array *x) {
  weft_dtype d = weft_dtype_of(x);
  if (d == WEFT_F16) return f16_pattern(x);
  if (d == WEFT_BF16) return weft_cast(right(meant(weft_cast(x, WEFT_F32), WEFT_U32), 16), WEFT_U16);
  return dtype_is_float(d) ? meant(x, unsigned_of(weft_dtype_bytes(d))) : weft_cast(x, unsigned_of(weft_dtype_bytes(d)));
}

static weft_array *value_of(weft_array *pattern, weft_dtype d) {
  if (d == WEFT_F16) return f16_value(pattern);
  if (d == WEFT_BF16) return weft_cast(meant(left(weft_cast(pattern, WEFT_U32), 16), WEFT_F32), WEFT_BF16);
  return dtype_is_float(d) ? meant(pattern, d) : weft_cast(pattern, d);
}

/* ---- Wider and narrower ---- */

/* Where each of n narrow patterns stands in a wide one. */
static weft_array *places(weft_dtype d, int64_t n, size_t bytes) {
  return weft_arange(d, 0, 8.0 * (double)bytes * (double)n, 8.0 * (double)bytes);
}

static weft_array *cut(weft_array *u, size_t from, size_t to) {
  int64_t n = (int64_t)(from / to);
  weft_array *parts = weft_shr(weft_unsqueeze(u, -1), places(weft_dtype_of(u), n, to));
  return weft_flatten(weft_cast(parts, unsigned_of(to)), -2, -1);
}

/* [.., n] as [.., n / by, by]; by divides n. */
static weft_array *in_groups(weft_array *x, int64_t by) {
  dim dims[WEFT_RANK_MAX];
  int rank = weft_rank(x);
  if (weft_check(x)) return x;
  memcpy(dims, x->node->dims, sizeof *dims * (size_t)rank);
  dims[rank - 1] = dim_quotient(dims[rank - 1], by), dims[rank] = by;
  return array_reshape("weft_view", array_with_size(x, rank - 1, dim_mul(dims[rank - 1], by)), rank + 1, dims);
}

static weft_array *joined(weft_array *u, size_t from, size_t to) {
  int64_t n = (int64_t)(to / from);
  weft_dtype d = unsigned_of(to);
  weft_array *parts = weft_shl(weft_cast(in_groups(u, n), d), places(d, n, from));
  return weft_cast(weft_squeeze(weft_sum(parts, -1), -1), d);
}

/* ---- weft_view ---- */

static struct failure *view_check(const struct node *x, weft_dtype d) {
  struct shape_text s;
  struct failure *why = dtype_check("weft_view", d);
  if (why) return why;
  int64_t from = (int64_t)weft_dtype_bytes((weft_dtype)x->dtype), to = (int64_t)weft_dtype_bytes(d);
  dim last = x->rank ? x->dims[x->rank - 1] : 1;
  bool fits = from % to == 0 ? from == to || x->rank
                             : x->rank && sizes_meet("weft_view", last, dim_mul(dim_quotient(last, to / from), to / from));
  if (x->rank == WEFT_RANK_MAX) return fail(WEFT_ERR_SHAPE, scope_origin(), "weft_view: too many axes: %d", x->rank);
  return fits ? NULL
              : fail(WEFT_ERR_SHAPE, scope_origin(), "weft_view: the last axis of %s of %s is no whole number of %s",
                     shape_show(x, &s), weft_dtype_name((weft_dtype)x->dtype), weft_dtype_name(d));
}

weft_array *weft_view(weft_array *x, weft_dtype d) {
  struct node *n;
  weft_array *bad;
  if (!operands("weft_view", 1, &x, &n, &bad)) return bad;
  struct failure *why = view_check(n, d);
  if (why) return array_of_bad(why, 1, &n);
  bool is_number = n->rank == 0;
  weft_dtype from = (weft_dtype)n->dtype, part = dtype_part(d);
  x = is_number ? weft_unsqueeze(array_of(n), 0) : array_of(n);
  if (from == d) return is_number ? weft_squeeze(x, 0) : array_apart(x);
  if (dtype_is_complex(from)) x = weft_flatten(weft_stack(-1, 2, (weft_array *[]){ weft_real(x), weft_imag(x) }), -2, -1);
  size_t wide = weft_dtype_bytes(weft_dtype_of(x)), to = weft_dtype_bytes(part);
  weft_array *u = pattern_of(x);
  u = value_of(wide > to ? cut(u, wide, to) : wide < to ? joined(u, wide, to) : u, part);
  if (part != d) {
    weft_array *pairs = in_groups(u, 2);
    u = weft_complex(weft_at(pairs, -1, weft_integer(0)), weft_at(pairs, -1, weft_integer(1)));
  }
  return is_number ? weft_squeeze(u, 0) : u;
}

/* ---- Floats of 8 bits ---- */

static struct failure *f8_check(const char *fn, weft_array *x, weft_dtype f8, bool is_pattern) {
  weft_dtype d = weft_dtype_of(x);
  if (!dtype_is_f8(f8))
    return fail(WEFT_ERR_DTYPE, scope_origin(), "%s: %s is no float of 8 bits: e4m3 and e5m2 are", fn, weft_dtype_name(f8));
  return dtype_is_complex(d) || (is_pattern && d != WEFT_U8) ? not_of(fn, d) : NULL;
}

/* As MLX has it, what is beyond 448 becomes 448. */
weft_array *weft_to_f8(weft_array *x, weft_dtype f8) {
  weft_array *bad;
  if (!arrays_ok("weft_to_f8", 1, &x, &bad)) return bad;
  struct failure *why = f8_check("weft_to_f8", x, f8, false);
  if (why) return array_failed(why);
  x = weft_cast(x, WEFT_F32);
  if (f8 == WEFT_E4M3) { /* chosen, not computed: a nan keeps its sign */
    weft_array *most = weft_scalar(448), *least = weft_scalar(-448);
    x = weft_where(weft_gt(x, most), most, weft_where(weft_lt(x, least), least, x));
  }
  return weft_view(weft_cast(x, f8), WEFT_U8);
}

weft_array *weft_from_f8(weft_array *x, weft_dtype f8, weft_dtype d) {
  weft_array *bad;
  if (!arrays_ok("weft_from_f8", 1, &x, &bad)) return bad;
  struct failure *why = f8_check("weft_from_f8", x, f8, true);
  if (!why) why = dtype_check("weft_from_f8", d);
  if (!why && !dtype_is_float(d)) why = not_of("weft_from_f8", d);
  return why ? array_failed(why) : weft_cast(weft_view(x, f8), d);
}
