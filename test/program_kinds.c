/* program_kinds.c -- what programs are made of: the operations of weft.h, a row each. Rows of the lists in weft.h come by
 * themselves. */
#include "program_kinds.h"
#include <stdlib.h>
#include <string.h>

#define COUNT(a) (int)(sizeof(a) / sizeof *(a))
#define MAKE(name) static bool make_##name(struct program *p, const struct kind *kind)
#define BUILD(name) static weft_array *build_##name(__attribute__((unused)) weft_array *const in[], __attribute__((unused)) const struct step *s)
static const struct form *form(const struct program *p, int i) { return &p->step[i].form; }
static int any_axis(struct program *p, int i) { return (int)any(p, (uint32_t)form(p, i)->rank); }
static int64_t signed_axis(struct program *p, int i, int axis) { return once_in(p, 3) ? axis - form(p, i)->rank : axis; }
static bool ok(int i) { return i >= 0; }

static bool is_in(const char *name, const char *const list[]) {
  for (int k = 0; list[k]; k++) if (!strcmp(name, list[k])) return true;
  return false;
}

/* ---- elements ---- */

BUILD(unary) { return ((weft_array *(*)(weft_array *))s->row->function)(in[0]); }
BUILD(binary) { return ((weft_array *(*)(weft_array *, weft_array *))s->row->function)(in[0], in[1]); }
BUILD(with_number) { /* p[0]: which side; p[1]: a whole number */
  weft_array *n = s->p[1] ? weft_integer((int64_t)s->number) : weft_scalar(s->number);
  typedef weft_array *two(weft_array *, weft_array *);
  two *f = (two *[]){ weft_add, weft_mul, weft_sub, weft_maximum, weft_div, weft_minimum }[s->p[2]];
  return s->p[0] ? f(n, in[0]) : f(in[0], n);
}
BUILD(where) { return weft_where(in[0], in[1], in[2]); }
BUILD(fma) { return weft_fma(in[0], in[1], in[2]); }
BUILD(betainc) { return (s->p[0] ? weft_betaincinv : weft_betainc)(in[0], in[1], in[2]); }
BUILD(clip) { return weft_clip(in[0], s->p[0] & 1 ? NULL : weft_scalar(-1.5), s->p[0] & 2 ? NULL : in[1]); }
BUILD(cast) { return weft_cast(in[0], (weft_dtype)s->p[0]); }
BUILD(complex) { return weft_complex(in[0], in[1]); }

MAKE(unary) {
  static const char *const smooth[] = { "weft_neg", "weft_abs", "weft_square", "weft_sin", "weft_cos", "weft_tanh", "weft_sigmoid", "weft_erf", "weft_erfc", "weft_atan",
    "weft_asinh", "weft_exp", "weft_silu", "weft_gelu", "weft_gelu_approx", "weft_softplus", "weft_relu", NULL };
  if (p->is_smooth && !is_in(kind->name, smooth)) return false;
  int a = pick(p, p->is_smooth ? FLOAT : 0);
  return ok(grow(p, kind, 1, &a, 0, NULL));
}

/* Something that may broadcast with a: another value, itself, or a leaf in which some axes are 1 or missing. */
static int partner(struct program *p, int a) {
  if (a < 0 || once_in(p, 5)) return a;
  if (!once_in(p, 3)) return pick(p, p->is_smooth ? FLOAT : 0);
  if (!is_known(form(p, a))) return leaf(p, form(p, a)->dtype, 0, NULL);
  int64_t dims[PLAIN_RANK];
  int skip = (int)any(p, (uint32_t)form(p, a)->rank + 1), rank = form(p, a)->rank - (once_in(p, 2) ? skip : 0);
  for (int k = 0; k < rank; k++) dims[k] = once_in(p, 3) ? 1 : form(p, a)->dims[form(p, a)->rank - rank + k];
  return leaf(p, form(p, a)->dtype, rank, dims);
}

MAKE(binary) {
  static const char *const smooth[] = { "weft_add", "weft_sub", "weft_mul", "weft_maximum", "weft_minimum", "weft_logaddexp", "weft_add", NULL },
                    *const often[] = { "weft_add", "weft_mul", "weft_sub", NULL };
  if (p->is_smooth && !is_in(kind->name, smooth)) return false;
  for (int tries = 0; tries < (is_in(kind->name, often) ? 6 : 3); tries++) {
    int a = pick(p, p->is_smooth ? FLOAT : 0), b = partner(p, a);
    if (ok(grow(p, kind, 2, (int[]){ a, b }, 0, NULL))) return true;
  }
  return false;
}
MAKE(with_number) {
  int a = pick(p, p->is_smooth ? FLOAT : 0), which = (int)any(p, p->is_smooth ? 4 : 6);
  static const double usual[] = { 0, 1, -1, 2, 0.5, -0.5, 3 };
  if (a < 0) return false;
  double n = usual[any(p, COUNT(usual))];
  bool is_whole = any(p, 2);
  return ok(grow_number(p, kind, a, 3, (int64_t[]){ any(p, 2), is_whole, which }, is_whole ? (double)(int)n : n));
}
MAKE(where) {
  int a = pick(p, p->is_smooth ? FLOAT : 0), b = partner(p, a), c = -1;
  if (a < 0 || b < 0) return false;
  for (int i = p->n - 1; i >= 0 && c < 0; i--) if (is_visible(p, i) && form(p, i)->rank >= 0 && form(p, i)->dtype == WEFT_BOOL && once_in(p, 2)) c = i;
  if (c < 0) c = leaf(p, WEFT_BOOL, is_known(form(p, a)) ? form(p, a)->rank : 0, form(p, a)->dims);
  return ok(grow(p, kind, 3, (int[]){ c, a, b }, 0, NULL));
}
MAKE(fma) {
  int a = pick(p, p->is_smooth ? FLOAT : 0), b = partner(p, a), c = partner(p, a);
  return ok(grow(p, kind, 3, (int[]){ a, b, c }, 0, NULL));
}
MAKE(betainc) { /* one array in all its roles */
  int a = pick(p, FLOAT);
  return ok(grow(p, kind, 3, (int[]){ a, a, a }, 1, (int64_t[]){ any(p, 2) }));
}
MAKE(clip) {
  int a = pick(p, FLOAT), b = partner(p, a);
  return ok(grow(p, kind, 2, (int[]){ a, b }, 1, (int64_t[]){ any(p, 3) }));
}
MAKE(cast) {
  static const weft_dtype to[] = { WEFT_F32, WEFT_F64, WEFT_I32, WEFT_BOOL, WEFT_F16, WEFT_BF16, WEFT_U8, WEFT_I64, WEFT_C64, WEFT_C128, WEFT_I8, WEFT_U16, WEFT_I16, WEFT_U32, WEFT_U64 };
  int a = pick(p, 0);
  return ok(grow(p, kind, 1, &a, 1, (int64_t[]){ p->is_smooth ? WEFT_F64 : to[any(p, COUNT(to))] }));
}
MAKE(complex) {
  int a = pick(p, REAL), b = partner(p, a);
  return ok(grow(p, kind, 2, (int[]){ a, b }, 0, NULL));
}

BUILD(nan_to_num) { return weft_nan_to_num(in[0], s->p[0] ? NULL : weft_integer(2), NULL, NULL); }
BUILD(isclose) { return weft_isclose(in[0], in[1], 1e-3, 1e-6, (int)s->p[0]); }
BUILD(allclose) { return weft_allclose(in[0], in[1], 1e-3, 1e-6, (int)s->p[0]); }
BUILD(array_equal) { return weft_array_equal(in[0], in[1], (int)s->p[0]); }
BUILD(gcd) { return weft_gcd(in[0], in[1]); }
BUILD(lcm) { return weft_lcm(in[0], in[1]); }
BUILD(bit_count) { return weft_bit_count(in[0]); }
MAKE(nan_to_num) {
  int a = pick(p, p->is_smooth ? FLOAT : 0);
  return ok(a < 0 ? -1 : grow(p, kind, 1, &a, 1, (int64_t[]){ any(p, 2) }));
}
MAKE(alike) {
  int a = pick(p, KNOWN), b = partner(p, a);
  return !p->is_smooth && ok(grow(p, kind, 2, (int[]){ a, b }, 1, (int64_t[]){ any(p, 2) }));
}
MAKE(whole) {
  int a = pick(p, INTEGER | SMALL), b = partner(p, a);
  return !p->is_smooth && ok(grow(p, kind, kind->one == build_bit_count ? 1 : 2, (int[]){ a, b }, 0, NULL));
}

/* ---- along an axis ---- */

BUILD(along) { return ((weft_array *(*)(weft_array *, int))s->row->function)(in[0], (int)s->p[0]); }
BUILD(var) { return weft_var(in[0], (int)s->p[0], s->p[1]); }
BUILD(std) { return weft_std(in[0], (int)s->p[0], s->p[1]); }
BUILD(over) {
  typedef weft_array *fold(weft_array *, int);
  fold *f = (fold *[]){ weft_sum, weft_mean, weft_max, weft_logsumexp, weft_argmin, weft_any }[s->p[0]];
  return weft_over(f, in[0], (int)s->p[1], (int[]){ (int)s->p[2], (int)s->p[3] });
}
MAKE(along) {
  static const char *const smooth[] = { "weft_sum", "weft_mean", "weft_max", "weft_min", "weft_logsumexp", "weft_cumsum", "weft_cummax", "weft_softmax",
    "weft_log_softmax", "weft_flip", "weft_logcumsumexp", "weft_nansum", "weft_nanmean", "weft_nanmax", "weft_nancumsum", NULL },
    *const can_all[] = { "weft_cumsum", "weft_cumprod", "weft_cummax", "weft_cummin", "weft_softmax", "weft_log_softmax", "weft_flip", "weft_logcumsumexp", "weft_nancumsum", "weft_nancumprod", NULL },
    *const of_none[] = { "weft_max", "weft_min", "weft_argmax", "weft_argmin", "weft_nanmax", "weft_nanmin", "weft_nanargmax", "weft_nanargmin", NULL },
    *const slow[] = { "weft_logsumexp", "weft_prod", "weft_cumprod", "weft_logcumsumexp", "weft_nanprod", "weft_nancumprod", NULL };
  if (p->is_smooth && !is_in(kind->name, smooth)) return false;
  int a = pick(p, (p->is_smooth ? FLOAT : 0) | RANK_1 | (is_in(kind->name, of_none) ? FULL : 0) | (is_in(kind->name, slow) ? SMALL : 0));
  if (a < 0 || (is_in(kind->name, slow) && plain_is_complex(form(p, a)->dtype) && count_of(form(p, a)) > 100)) return false;
  int64_t axis = signed_axis(p, a, any_axis(p, a));
  if (!is_in(kind->name, can_all) && once_in(p, 4)) axis = WEFT_ALL;
  return ok(grow(p, kind, 1, &a, 1, &axis));
}
BUILD(nanvar) { return weft_nanvar(in[0], (int)s->p[0], s->p[1]); }
BUILD(nanstd) { return weft_nanstd(in[0], (int)s->p[0], s->p[1]); }
typedef weft_array *cumulative(weft_array *, int);
static cumulative *const runs[] = { weft_cumsum, weft_cummax, weft_cummin, weft_cumprod };
BUILD(backwards) { return weft_backwards(runs[s->p[1]], in[0], (int)s->p[0]); }
BUILD(before) { return weft_before(runs[s->p[1]], in[0], (int)s->p[0]); }
MAKE(run) { /* what is before the first may be infinite: not in smooth programs */
  int a = pick(p, (p->is_smooth ? FLOAT : REAL) | RANK_1 | SMALL);
  if (a < 0) return false;
  int64_t axis = signed_axis(p, a, any_axis(p, a));
  return ok(grow(p, kind, 1, &a, 2, (int64_t[]){ axis, any(p, p->is_smooth ? 1 : 4) }));
}
BUILD(diff) { return weft_diff(in[0], s->p[1], (int)s->p[0]); }
BUILD(trapezoid) { return weft_trapezoid(in[0], s->n_in > 1 ? in[1] : NULL, 0.5, (int)s->p[0]); }
BUILD(interp) { return weft_interp(in[0], weft_sort(in[1], 0), in[2], NULL, s->p[0] ? NULL : weft_integer(2)); }
BUILD(convolve) { return weft_convolve(in[0], in[1], (weft_reach)s->p[0]); }
BUILD(correlate) { return weft_correlate(in[0], in[1], (weft_reach)s->p[0]); }
MAKE(diff) {
  int a = pick(p, KNOWN | RANK_1 | (p->is_smooth ? FLOAT : 0));
  return ok(a < 0 ? -1 : grow(p, kind, 1, &a, 2, (int64_t[]){ any_axis(p, a), any(p, 3) }));
}
MAKE(trapezoid) {
  int a = pick(p, KNOWN | RANK_1 | SMALL | (p->is_smooth ? FLOAT : REAL));
  if (a < 0) return false;
  int axis = any_axis(p, a), x = leaf(p, p->is_smooth ? WEFT_F64 : WEFT_F32, 1, &p->step[a].form.dims[axis]);
  return ok(grow(p, kind, 1 + once_in(p, 2), (int[]){ a, x }, 1, (int64_t[]){ axis }));
}
MAKE(interp) {
  int a = pick(p, KNOWN | REAL | SMALL);
  if (a < 0 || p->is_smooth) return false;
  int64_t n = 1 + any(p, 6);
  int xp = leaf(p, WEFT_F32, 1, &n), fp = leaf(p, WEFT_F32, 1, &n);
  return ok(grow(p, kind, 3, (int[]){ a, xp, fp }, 1, (int64_t[]){ any(p, 2) }));
}
MAKE(convolve) {
  int64_t n[2] = { 1 + any(p, 9), 1 + any(p, 5) };
  weft_dtype t = p->is_smooth ? WEFT_F64 : once_in(p, 2) ? WEFT_F32 : WEFT_I32;
  int a = leaf(p, t, 1, &n[0]), v = leaf(p, t, 1, &n[1]);
  return ok(grow(p, kind, 2, (int[]){ a, v }, 1, (int64_t[]){ any(p, 3) }));
}

BUILD(sort) { return weft_sort(in[0], (int)s->p[0]); }
BUILD(argsort) { return weft_argsort(in[0], (int)s->p[0]); }
BUILD(searchsorted) { return weft_searchsorted(weft_sort(weft_reshape(in[0], WEFT_DIMS(WEFT_ANY)), 0), in[1], (int)s->p[0]); }
MAKE(sort) { /* not in smooth programs: equal elements have no derivative */
  int a = pick(p, REAL | RANK_1);
  if (a < 0 || p->is_smooth) return false;
  int64_t axis = signed_axis(p, a, any_axis(p, a));
  return ok(grow(p, kind, 1, &a, 1, &axis));
}
BUILD(topk) { return weft_topk(in[0], (int)s->p[0], s->p[1]); }
BUILD(argtopk) { return weft_argtopk(in[0], (int)s->p[0], s->p[1]); }
BUILD(partition) { return weft_partition(in[0], (int)s->p[0], s->p[1]); }
BUILD(argpartition) { return weft_argpartition(in[0], (int)s->p[0], s->p[1]); }
MAKE(rank) { /* k = 0 of a size that is not known, else up to its end and from it */
  int a = pick(p, REAL | RANK_1 | FULL);
  if (a < 0 || p->is_smooth) return false;
  int axis = any_axis(p, a);
  int64_t n = is_known(form(p, a)) ? form(p, a)->dims[axis] : 1, k = any(p, (uint32_t)n);
  if (kind->one == build_partition || kind->one == build_argpartition) k -= once_in(p, 2) ? n : 0;
  return ok(grow(p, kind, 1, &a, 2, (int64_t[]){ signed_axis(p, a, axis), k }));
}
BUILD(quantile) { return weft_quantile(in[0], s->p[2] ? in[1] : weft_scalar(0.3), (int)s->p[0], (weft_quantile_method)s->p[1]); }
BUILD(nanquantile) { return weft_nanquantile(in[0], s->p[2] ? in[1] : weft_scalar(0.7), (int)s->p[0], (weft_quantile_method)s->p[1]); }
MAKE(quantile) {
  int a = pick(p, REAL | RANK_1 | FULL), q = leaf(p, WEFT_F64, 1, (int64_t[]){ 3 });
  if (a < 0 || p->is_smooth) return false;
  return ok(grow(p, kind, 2, (int[]){ a, q }, 3, (int64_t[]){ once_in(p, 4) ? WEFT_ALL : any_axis(p, a), any(p, WEFT_NORMAL_UNBIASED + 1), any(p, 2) }));
}
MAKE(search) {
  int a = pick(p, REAL | RANK_1 | SMALL | KNOWN), v = pick(p, REAL | KNOWN);
  if (a < 0 || v < 0 || p->is_smooth) return false;
  return ok(grow(p, kind, 2, (int[]){ a, v }, 1, (int64_t[]){ any(p, 2) }));
}
MAKE(var) {
  int a = pick(p, FLOAT | RANK_1 | FULL | KNOWN);
  if (a < 0) return false;
  int axis = any_axis(p, a);
  int64_t ddof = any(p, 2);
  if (p->is_smooth && (form(p, a)->dims[axis] < 2 + ddof || (!strcmp(kind->name, "weft_std") || !strcmp(kind->name, "weft_nanstd")))) return false;
  return ok(grow(p, kind, 1, &a, 2, (int64_t[]){ axis, ddof }));
}
MAKE(over) {
  int a = pick(p, (p->is_smooth ? FLOAT : REAL) | RANK_2 | FULL | SMALL);
  if (a < 0) return false;
  int one = any_axis(p, a), two = (one + 1) % form(p, a)->rank;
  return ok(grow(p, kind, 1, &a, 4, (int64_t[]){ any(p, p->is_smooth ? 4 : 6), 1 + any(p, 2), one, two }));
}

/* ---- views ---- */

BUILD(reshape) { return weft_reshape(in[0], (int)s->p[0], s->p + 1); }
BUILD(reshape_like) { return weft_reshape_like(in[0], in[1]); }
BUILD(broadcast) { return weft_broadcast(in[0], (int)s->p[0], s->p + 1); }
BUILD(broadcast_like) { return weft_broadcast_like(in[0], in[1]); }
BUILD(transpose) {
  int axes[PLAIN_RANK];
  for (int k = 0; k < PLAIN_RANK; k++) axes[k] = (int)s->p[k + 1];
  return weft_transpose(in[0], s->p[0] ? NULL : axes);
}
BUILD(moveaxis) { return weft_moveaxis(in[0], (int)s->p[0], (int)s->p[1]); }
BUILD(unsqueeze) { return weft_unsqueeze(in[0], (int)s->p[0]); }
BUILD(squeeze) { return weft_squeeze(in[0], (int)s->p[0]); }
BUILD(flatten) { return weft_flatten(in[0], (int)s->p[0], (int)s->p[1]); }
BUILD(as_strided) { return weft_as_strided(in[0], 2, s->p, s->p + 2, s->p[4]); }

MAKE(reshape) {
  int a = pick(p, KNOWN);
  if (a < 0) return false;
  int64_t n = count_of(form(p, a)), q[PROGRAM_PARAMS] = { 1, n };
  if (n > 1 && once_in(p, 2))
    for (int64_t d = 2; d < 8; d++) if (n % d == 0) { q[0] = 2, q[1] = d, q[2] = once_in(p, 2) ? WEFT_ANY : n / d; break; }
  if (form(p, a)->rank && once_in(p, 5)) { /* a leading SAME */
    q[0] = 2, q[1] = WEFT_SAME, q[2] = form(p, a)->dims[0] ? n / form(p, a)->dims[0] : 1;
  }
  return ok(grow(p, kind, 1, &a, 8, q));
}
MAKE(like) {
  int a = pick(p, KNOWN), b = a < 0 ? -1 : pick(p, KNOWN);
  return ok(grow(p, kind, 2, (int[]){ a, b }, 0, NULL));
}
MAKE(broadcast) {
  int a = pick(p, KNOWN);
  if (a < 0) return false;
  int more = (int)any(p, 2), rank = form(p, a)->rank + more;
  int64_t q[PROGRAM_PARAMS] = { rank };
  if (rank > 5) return false;
  for (int k = 0; k < rank; k++) {
    int64_t d = k < more ? 1 : form(p, a)->dims[k - more];
    q[k + 1] = d == 1 ? any_length(p) : once_in(p, 3) ? WEFT_SAME : d;
  }
  return ok(grow(p, kind, 1, &a, rank + 1, q));
}
MAKE(transpose) {
  int a = pick(p, RANK_1);
  if (a < 0) return false;
  int64_t q[PROGRAM_PARAMS] = { once_in(p, 2) };
  int rank = form(p, a)->rank;
  for (int k = 0; k < rank; k++) q[k + 1] = k;
  for (int k = rank - 1; k > 0; k--) {
    int j = (int)any(p, (uint32_t)k + 1);
    int64_t t = q[k + 1];
    q[k + 1] = q[j + 1], q[j + 1] = t;
  }
  return ok(grow(p, kind, 1, &a, rank + 1, q));
}
MAKE(two_axes) {
  int a = pick(p, RANK_1);
  if (a < 0) return false;
  return ok(grow(p, kind, 1, &a, 2, (int64_t[]){ signed_axis(p, a, any_axis(p, a)), any_axis(p, a) }));
}
MAKE(unsqueeze) {
  int a = pick(p, 0);
  return ok(a < 0 ? -1 : grow(p, kind, 1, &a, 1, (int64_t[]){ any(p, (uint32_t)form(p, a)->rank + 1) }));
}
MAKE(as_strided) {
  int a = pick(p, KNOWN | FULL);
  if (a < 0) return false;
  int64_t n = count_of(form(p, a)), d0 = 1 + any(p, 4), d1 = 1 + any(p, 4), s0 = (int64_t)any(p, 5) - 2, s1 = (int64_t)any(p, 5) - 2;
  int64_t low = (s0 < 0 ? s0 * (d0 - 1) : 0) + (s1 < 0 ? s1 * (d1 - 1) : 0), high = (s0 > 0 ? s0 * (d0 - 1) : 0) + (s1 > 0 ? s1 * (d1 - 1) : 0);
  if (high - low >= n) return false;
  return ok(grow(p, kind, 1, &a, 5, (int64_t[]){ d0, d1, s0, s1, (int64_t)any(p, (uint32_t)(n - (high - low))) - low }));
}

/* ---- indexing ---- */

BUILD(slice) { return weft_slice(in[0], (int)s->p[0], s->p[1], s->p[2], s->p[3]); }
BUILD(window) { return weft_window(in[0], (int)s->p[0], in[1], s->p[1]); }
BUILD(at) { return weft_at(in[0], (int)s->p[0], in[1]); }
BUILD(take) { return weft_take(in[0], s->n_in - 1, in + 1); }
BUILD(take_along) { return weft_take_along(in[0], (int)s->p[0], in[1]); }
BUILD(diagonal) { return weft_diagonal(in[0], s->p[0], (int)s->p[1], (int)s->p[2]); }

static void bounds(struct program *p, int64_t n, int64_t q[3]) { /* as in Python, cut where they do not fit */
  static const int steps[] = { 1, 1, 1, -1, -1, 2, -2, 3, -3 };
  int64_t step = n < 0 ? (once_in(p, 2) ? 1 : -1) : steps[any(p, COUNT(steps))];
  q[0] = (int64_t)any(p, (uint32_t)(n > 0 ? n : 1)), q[2] = step;
  q[1] = step > 0 ? (once_in(p, 2) ? WEFT_END : (int64_t)any(p, (uint32_t)n + 2)) : once_in(p, 2) ? WEFT_BEGIN : (int64_t)any(p, (uint32_t)q[0] + 1) - 1;
  if (step < 0 && q[1] == -1) q[1] = WEFT_BEGIN;
  if (step < 0 && once_in(p, 2)) q[0] = n > 0 ? n - 1 : -1;
  if (n < 0) q[0] = step > 0 ? 0 : -1, q[1] = step > 0 ? WEFT_END : WEFT_BEGIN;
}
MAKE(slice) {
  int a = pick(p, RANK_1);
  if (a < 0) return false;
  int axis = any_axis(p, a);
  int64_t q[4] = { signed_axis(p, a, axis) };
  bounds(p, form(p, a)->dims[axis], q + 1);
  return ok(grow(p, kind, 1, &a, 4, q));
}
MAKE(window) {
  int a = pick(p, RANK_1 | FULL | KNOWN);
  if (a < 0) return false;
  int axis = any_axis(p, a);
  int64_t n = form(p, a)->dims[axis], length = strcmp(kind->name, "weft_at") ? (int64_t)any(p, (uint32_t)n + 1) : 1;
  int i = index_leaf(p, 0, NULL, n - length + 1);
  int64_t at = plain_i(&p->step[i].value, 0);
  if (at < 0) plain_set_i(&p->step[i].value, 0, length && length < 100 ? at - (length - 1) : at + n - length + 1); /* i8 has room */
  return ok(grow(p, kind, 2, (int[]){ a, i }, 2, (int64_t[]){ axis, length }));
}
MAKE(take) {
  int a = pick(p, RANK_1 | FULL | KNOWN);
  if (a < 0) return false;
  int rank = (int)any(p, 3), n = 1 + (form(p, a)->rank > 1 && once_in(p, 3)), in[4] = { a };
  int64_t dims[2] = { 1 + any(p, 5), any_length(p) };
  if (dims[1] > 40) dims[1] = 2;
  for (int k = 0; k < n; k++) in[k + 1] = index_leaf(p, rank, dims, p->step[a].form.dims[k]);
  return ok(grow(p, kind, n + 1, in, 0, NULL));
}
MAKE(take_along) {
  int a = pick(p, RANK_1 | FULL | KNOWN | SMALL);
  if (a < 0) return false;
  int axis = any_axis(p, a);
  int64_t dims[PLAIN_RANK], n = form(p, a)->dims[axis];
  for (int k = 0; k < form(p, a)->rank; k++) dims[k] = k == axis ? 1 + any(p, 4) : once_in(p, 4) ? 1 : form(p, a)->dims[k];
  int i = index_leaf(p, form(p, a)->rank, dims, n);
  return ok(grow(p, kind, 2, (int[]){ a, i }, 1, (int64_t[]){ axis }));
}
MAKE(diagonal) {
  int a = pick(p, RANK_2 | KNOWN);
  if (a < 0) return false;
  int one = any_axis(p, a), two = (one + 1) % form(p, a)->rank;
  return ok(grow(p, kind, 1, &a, 3, (int64_t[]){ (int64_t)any(p, 3) - 1, one, two }));
}

/* ---- updates: part by what reads it ---- */

enum { BY_SLICE, BY_TAKE, BY_AT, BY_WINDOW, BY_TRANSPOSE, BY_ALONG, BY_DIAGONAL, BY_KINDS };
static weft_array *part_of(weft_array *x, weft_array *const in[], const struct step *s) {
  switch (s->p[1]) {
    case BY_SLICE: return weft_slice(x, (int)s->p[2], s->p[3], s->p[4], s->p[5]);
    case BY_TAKE: return weft_take(x, 1, in + 2);
    case BY_AT: return weft_at(x, (int)s->p[2], in[2]);
    case BY_WINDOW: return weft_window(x, (int)s->p[2], in[2], s->p[3]);
    case BY_TRANSPOSE: return weft_slice(weft_transpose(x, NULL), 0, s->p[3], s->p[4], s->p[5]);
    case BY_ALONG: return weft_take_along(x, (int)s->p[2], in[2]);
    default: return weft_diagonal(x, 0, 0, 1);
  }
}
BUILD(put) { return weft_put(in[0], part_of(in[0], in, s), in[1], (weft_how)s->p[0]); }
MAKE(put) {
  int a = pick(p, RANK_1 | FULL | KNOWN | (p->is_smooth ? FLOAT | SMALL : SMALL)), by = (int)any(p, BY_KINDS), index = -1;
  if (a < 0 || (by == BY_DIAGONAL && form(p, a)->rank < 2)) return false;
  int axis = by == BY_TAKE ? 0 : any_axis(p, a);
  int64_t q[PROGRAM_PARAMS] = { any(p, p->is_smooth ? 2 : 5), by, axis }, n = form(p, a)->dims[axis];
  if (by == BY_SLICE) bounds(p, n, q + 3);
  if (by == BY_TRANSPOSE) bounds(p, form(p, a)->dims[form(p, a)->rank - 1], q + 3);
  if (by == BY_WINDOW) q[3] = 1;
  if (by == BY_AT || by == BY_WINDOW) index = index_leaf(p, 0, NULL, n);
  if (by == BY_TAKE) index = index_leaf(p, 1, (int64_t[]){ 1 + any(p, 5) }, n);
  if (by == BY_ALONG) {
    int64_t dims[PLAIN_RANK];
    for (int k = 0; k < form(p, a)->rank; k++) dims[k] = k == axis ? 1 + any(p, 3) : form(p, a)->dims[k];
    index = index_leaf(p, form(p, a)->rank, dims, n);
  }
  int v = once_in(p, 2) ? leaf(p, p->is_smooth ? WEFT_F64 : form(p, a)->dtype, 0, NULL) : pick(p, p->is_smooth ? FLOAT : REAL);
  return ok(grow(p, kind, index < 0 ? 2 : 3, (int[]){ a, v, index }, 8, q));
}

/* ---- joining ---- */

BUILD(concat) { return weft_concat((int)s->p[0], s->n_in, in); }
BUILD(stack) { return weft_stack((int)s->p[0], s->n_in, in); }
BUILD(split) {
  weft_array *part[4];
  weft_split(in[0], (int)s->p[0], (int)s->p[1], part);
  return part[s->p[2]];
}
BUILD(pad) { return weft_pad(in[0], (int)s->p[0], s->p[1], s->p[2], s->n_in > 1 ? in[1] : weft_integer(s->p[3])); }
BUILD(repeat) { return weft_repeat(in[0], (int)s->p[0], s->p[1]); }
BUILD(tile) { return weft_tile(in[0], 2, s->p); }
BUILD(roll) { return weft_roll(in[0], (int)s->p[0], s->p[1]); }
BUILD(diag) { return weft_diag(in[0], s->p[0]); }
BUILD(tril) { return weft_tril(in[0], s->p[0]); }
BUILD(triu) { return weft_triu(in[0], s->p[0]); }

BUILD(pad_with) { return weft_pad_with(in[0], (int)s->p[0], s->p[1], s->p[2], (weft_padding)s->p[3], NULL); }
BUILD(resize) { return weft_resize(in[0], (int)s->p[0], 0.5 * (double)s->p[1], (weft_resizing)s->p[2], (int)s->p[3]); }
MAKE(pad_with) {
  int a = pick(p, KNOWN | RANK_1 | FULL | SMALL | (p->is_smooth ? FLOAT : REAL));
  if (a < 0) return false;
  return ok(grow(p, kind, 1, &a, 4, (int64_t[]){ any_axis(p, a), any(p, 4), any(p, 4), any(p, 8) }));
}
MAKE(resize) {
  int a = pick(p, KNOWN | RANK_1 | FULL | SMALL | (p->is_smooth ? FLOAT : REAL));
  if (a < 0) return false;
  return ok(grow(p, kind, 1, &a, 4, (int64_t[]){ any_axis(p, a), 1 + any(p, 5), any(p, 3), any(p, 2) }));
}
BUILD(max_pool) {
  weft_pool_options how = { s->p, s->p + 2, s->p + 4, s->p + 4, NULL, 0 };
  return weft_max_pool(in[0], &how);
}
BUILD(mean_pool) {
  weft_pool_options how = { s->p, NULL, s->p + 4, s->p + 4, NULL, (int)s->p[6] };
  return weft_mean_pool(in[0], &how);
}
MAKE(pool) {
  int64_t dims[] = { 1 + any(p, 2), 3 + any(p, 4), 1 + any(p, 3) };
  int a = leaf(p, p->is_smooth ? WEFT_F64 : WEFT_F32, 3, dims);
  return ok(grow(p, kind, 1, &a, 7, (int64_t[]){ 1 + any(p, 3), 1, 1 + any(p, 2), 1, any(p, 2), 0, any(p, 2) }));
}
BUILD(view) { return weft_view(in[0], (weft_dtype)s->p[0]); }
BUILD(to_f8) { return weft_to_f8(in[0], (weft_f8)s->p[1]); }
BUILD(from_f8) { return weft_from_f8(in[0], (weft_f8)s->p[1], WEFT_F32); }
MAKE(view) { /* to as many bytes or fewer: they always fit. A nan has many patterns, so not of floats but for those of one's own */
  static const weft_dtype to[] = { WEFT_U8, WEFT_I8, WEFT_U16, WEFT_I16, WEFT_U32, WEFT_I32 };
  int64_t dims[] = { 1 + any(p, 3), 2 * (1 + any(p, 3)) };
  bool is_pattern = kind->one == build_from_f8;
  int a = leaf(p, is_pattern ? WEFT_U8 : once_in(p, 2) ? WEFT_F32 : WEFT_U32, 2, dims);
  return !p->is_smooth && ok(grow(p, kind, 1, &a, 2, (int64_t[]){ to[any(p, COUNT(to))], any(p, 2) }));
}
BUILD(softmax_where) { return weft_softmax_where(in[0], in[1], (int)s->p[0]); }
BUILD(log_softmax_where) { return weft_log_softmax_where(in[0], in[1], (int)s->p[0]); }
BUILD(logsumexp_where) { return weft_logsumexp_where(in[0], in[1], (int)s->p[0]); }
MAKE(where_counts) {
  int a = pick(p, KNOWN | FLOAT | RANK_1 | SMALL);
  if (a < 0 || p->is_smooth) return false;
  int mask = leaf(p, WEFT_BOOL, form(p, a)->rank, p->step[a].form.dims);
  return ok(grow(p, kind, 2, (int[]){ a, mask }, 1, (int64_t[]){ any_axis(p, a) }));
}
BUILD(rope) {
  weft_rope_options how = { .neighbours = (int)s->p[0], .base = 100, .offset = weft_integer(s->p[1]) };
  return weft_rope(in[0], &how);
}
MAKE(rope) {
  int64_t dims[] = { 1 + any(p, 2), 1 + any(p, 4), 2 + 2 * any(p, 3) };
  int a = leaf(p, p->is_smooth ? WEFT_F64 : WEFT_F32, 3, dims);
  return ok(grow(p, kind, 1, &a, 2, (int64_t[]){ any(p, 2), any(p, 3) }));
}
BUILD(inner) { return weft_inner(in[0], in[1]); }
BUILD(outer) { return weft_outer(in[0], in[1]); }
BUILD(addmm) { return weft_addmm(in[1], weft_outer(in[0], in[0]), weft_outer(in[0], in[1]), 0.5, 2); }
BUILD(matrix_power) { return weft_matrix_power(in[2], s->p[0]); }
BUILD(hadamard) { return weft_hadamard(in[2], s->p[0] ? 0.5 : 0); }
BUILD(gather_mm) { return weft_gather_mm(in[2], in[2], weft_full(WEFT_I32, WEFT_DIMS(2), 0), NULL); }
BUILD(block_masked_mm) { return weft_block_masked_mm(in[2], in[2], 2, NULL, weft_full(WEFT_BOOL, WEFT_DIMS(1, 1), (double)s->p[0]), NULL); }
BUILD(segmented_mm) { return weft_segmented_mm(in[2], in[2], weft_from(WEFT_I32, WEFT_DIMS(2, 2), (int32_t[]){ 0, 1, (int32_t)(s->p[0] & 1), 2 })); }
MAKE(small_product) { /* two vectors of the same length, and a matrix */
  weft_dtype t = p->is_smooth ? WEFT_F64 : WEFT_F32;
  int64_t n = 1 + any(p, 5);
  int a = leaf(p, t, 1, &n), b = leaf(p, t, 1, &n), c = leaf(p, t, 2, (int64_t[]){ 2, 2 });
  return ok(grow(p, kind, 3, (int[]){ a, b, c }, 1, (int64_t[]){ any(p, 4) }));
}
BUILD(rot90) { return weft_rot90(in[0], s->p[0], (int)s->p[1], (int)s->p[2]); }
BUILD(meshgrid) {
  weft_array *y[2];
  weft_meshgrid(2, in, (int)s->p[0], y);
  return y[s->p[1]];
}
BUILD(kron) { return weft_kron(in[0], in[1]); }
MAKE(rot90) {
  int a = pick(p, RANK_2);
  if (a < 0) return false;
  int one = any_axis(p, a), two = (one + 1) % form(p, a)->rank;
  return ok(grow(p, kind, 1, &a, 3, (int64_t[]){ (int64_t)any(p, 9) - 4, one, two }));
}
MAKE(kron) { /* all pairs of elements */
  int a = pick(p, KNOWN | SMALL | (p->is_smooth ? FLOAT : 0)), b = leaf(p, p->is_smooth ? WEFT_F64 : WEFT_F32, 1, (int64_t[]){ 1 + any(p, 4) });
  if (a < 0 || count_of(form(p, a)) > 400) return false;
  return ok(grow(p, kind, 2, (int[]){ a, b }, 2, (int64_t[]){ any(p, 2), any(p, 2) }));
}
MAKE(join) {
  int a = pick(p, KNOWN), n = 1 + (int)any(p, 3), in[3] = { a, a, a };
  if (a < 0) return false;
  for (int k = 1; k < n; k++) { int b = pick(p, KNOWN); if (b >= 0 && form(p, b)->rank == form(p, a)->rank && once_in(p, 2)) in[k] = b; }
  return ok(grow(p, kind, n, in, 1, (int64_t[]){ any(p, (uint32_t)form(p, a)->rank + (kind->one == build_stack)) }));
}
MAKE(split) {
  int a = pick(p, KNOWN | RANK_1);
  if (a < 0) return false;
  int axis = any_axis(p, a);
  int64_t n = form(p, a)->dims[axis] % 3 == 0 ? 3 : form(p, a)->dims[axis] % 2 == 0 ? 2 : 1;
  return ok(grow(p, kind, 1, &a, 3, (int64_t[]){ axis, n, any(p, (uint32_t)n) }));
}
MAKE(pad) {
  int a = pick(p, KNOWN | RANK_1), n = 1 + (int)any(p, 2);
  if (a < 0) return false;
  int v = leaf(p, form(p, a)->dtype, 0, NULL);
  return ok(grow(p, kind, n, (int[]){ a, v }, 4, (int64_t[]){ any_axis(p, a), any(p, 4), any(p, 4), any(p, 3) }));
}
MAKE(by_number) {
  int a = pick(p, KNOWN | RANK_1 | SMALL);
  if (a < 0) return false;
  bool is_roll = kind->one == build_roll;
  return ok(grow(p, kind, 1, &a, 2, (int64_t[]){ any_axis(p, a), is_roll ? (int64_t)any(p, 9) - 4 : (int64_t)any(p, 4) }));
}
MAKE(tile) {
  int a = pick(p, KNOWN | SMALL);
  return ok(grow(p, kind, 1, &a, 2, (int64_t[]){ 1 + any(p, 2), any(p, 3) }));
}
MAKE(diag) {
  int a = pick(p, KNOWN | RANK_1 | SMALL);
  return ok(grow(p, kind, 1, &a, 1, (int64_t[]){ (int64_t)any(p, 5) - 2 }));
}

/* ---- contractions ---- */

BUILD(matmul) { return weft_matmul(in[0], in[1]); }
BUILD(tensordot) { return weft_tensordot(in[0], in[1], 1, (int[]){ (int)s->p[0] }, (int[]){ (int)s->p[1] }); }
static const char *const subscripts[] = { "ij,kj->ik", "ij,ij->i", "i,j->ij", "ii->i", "ij->ji", "...i,i->...", "bij,bjk->bik", "ij,jk,kl->il", "ii" };
BUILD(einsum) { return weft_einsum(subscripts[s->p[0]], s->n_in, in); }

static weft_dtype product_dtype(const struct program *p, int a) { return form(p, a)->dtype == WEFT_BOOL ? WEFT_I32 : form(p, a)->dtype; }
MAKE(matmul) {
  int a = pick(p, KNOWN | RANK_1 | (p->is_smooth ? FLOAT : 0)), b = once_in(p, 3) ? a : pick(p, KNOWN | RANK_1 | (p->is_smooth ? FLOAT : 0));
  if (a < 0) return false;
  if (count_of(form(p, a)) <= 8000 && ok(grow(p, kind, 2, (int[]){ a, b }, 0, NULL))) return true;
  int rank = form(p, a)->rank;
  int64_t k = form(p, a)->dims[rank - 1], dims[2] = { k, k > 600 ? 1 : 1 + any(p, 5) };
  if (count_of(form(p, a)) * dims[1] > 30000) return false;
  b = leaf(p, product_dtype(p, a), 1 + (int)any(p, 2), dims);
  return ok(grow(p, kind, 2, (int[]){ a, b }, 0, NULL));
}
/* Two dot products of very different lengths, added: one kernel. */
MAKE(dots) {
  static const int lengths[] = { 1, 2, 3, 17, 512, 513, 600, 1030 };
  weft_dtype t = p->is_smooth ? WEFT_F64 : WEFT_F32;
  int side[2];
  for (int k = 0; k < 2; k++) {
    int a = leaf(p, t, 1, (int64_t[]){ lengths[any(p, COUNT(lengths))] });
    side[k] = grow(p, kind, 2, (int[]){ a, a }, 0, NULL);
  }
  const struct kind *add = NULL;
  for (int k = 0; program_kinds[k]; k++) if (!strcmp(program_kinds[k]->name, "weft_add")) add = program_kinds[k];
  return ok(grow(p, add, 2, side, 0, NULL));
}
MAKE(tensordot) {
  int a = pick(p, KNOWN | RANK_1 | SMALL | (p->is_smooth ? FLOAT : 0));
  if (a < 0) return false;
  int axis = any_axis(p, a);
  int64_t dims[2] = { 1 + any(p, 4), p->step[a].form.dims[axis] };
  int b = leaf(p, product_dtype(p, a), 2, dims);
  return ok(grow(p, kind, 2, (int[]){ a, b }, 2, (int64_t[]){ axis, 1 }));
}
MAKE(einsum) {
  int a = pick(p, KNOWN | RANK_1 | SMALL | (p->is_smooth ? FLOAT : 0)), which = (int)any(p, COUNT(subscripts)), n = 1, in[3] = { a, a, a };
  for (const char *c = subscripts[which]; *c != '-' && *c; c++) n += *c == ',';
  for (int k = 1; k < n; k++) if (once_in(p, 2)) in[k] = pick(p, KNOWN | RANK_1 | SMALL | (p->is_smooth ? FLOAT : 0));
  return ok(grow(p, kind, n, in, 1, (int64_t[]){ which }));
}

BUILD(windows) { return weft_windows(in[0], (int)s->p[0], s->p[1], s->p[2], s->p[3]); }
BUILD(conv) {
  weft_conv_options o = { .stride = s->p, .dilation = s->p + 1, .before = s->p + 2, .after = s->p + 3, .spread = s->p + 4, .is_flipped = (int)s->p[5] };
  return weft_conv(in[0], in[1], s->p[6] ? NULL : &o);
}
MAKE(windows) {
  int a = pick(p, KNOWN | RANK_1 | SMALL);
  return ok(a < 0 ? -1 : grow(p, kind, 1, &a, 4, (int64_t[]){ any_axis(p, a), 1 + any(p, 3), 1 + any(p, 2), 1 + any(p, 2) }));
}
MAKE(conv) {
  int a = pick(p, KNOWN | RANK_2 | SMALL | FLOAT | FULL);
  if (a < 0 || form(p, a)->rank != 3) return false;
  int w = leaf(p, form(p, a)->dtype, 3, (int64_t[]){ 1 + any(p, 3), 1 + any(p, 3), p->step[a].form.dims[2] });
  return ok(grow(p, kind, 2, (int[]){ a, w }, 7, (int64_t[]){ 1 + any(p, 2), 1 + any(p, 2), any(p, 2), any(p, 3), 1 + any(p, 2), any(p, 2), any(p, 2) }));
}

/* ---- random numbers ---- */

BUILD(random_key) { return weft_random_key((uint64_t)s->p[0]); }
BUILD(random_split) { return weft_random_split(in[0], s->p[0]); }
BUILD(random_bits) { return weft_random_bits(in[0], in[1]); }
BUILD(random_randint) { return weft_random_randint(in[0], in[1], weft_integer(-3), weft_integer(9)); }
BUILD(random1) { return ((weft_array *(*)(weft_array *, weft_array *, weft_array *))s->row->function)(in[0], in[1], weft_scalar(0.5)); }
BUILD(random2) { return ((weft_array *(*)(weft_array *, weft_array *, weft_array *, weft_array *))s->row->function)(in[0], in[1], weft_scalar(0.5), weft_scalar(0.75)); }
BUILD(random3) { return ((weft_array *(*)(weft_array *, weft_array *, weft_array *, weft_array *, weft_array *))s->row->function)(in[0], in[1], weft_scalar(0.5), weft_scalar(0.75), weft_scalar(2)); }
BUILD(random_categorical) { return weft_random_categorical(in[0], NULL, in[1], -1); }
BUILD(random_permutation) { return weft_random_permutation(in[0], in[1], 0); }
BUILD(random_shuffle) { return weft_random_shuffle(in[0], in[1], -1); }
BUILD(random_choice) { return weft_random_choice(in[0], weft_full(WEFT_I32, WEFT_DIMS(1), 0), in[1], NULL, weft_rank(in[1]) > 1); }
BUILD(random_dirichlet) { return weft_random_dirichlet(in[0], NULL, weft_add(weft_mul(in[1], in[1]), weft_scalar(0.5))); }
BUILD(random_multinomial) { return weft_random_multinomial(in[0], NULL, weft_integer(5), weft_add(weft_mul(in[1], in[1]), weft_scalar(0.5))); }
extern const struct kind kind_random_key;
MAKE(random_key) { return ok(p->is_smooth ? -1 : grow(p, kind, 0, NULL, 1, (int64_t[]){ any(p, 100) })); }
MAKE(random_split) {
  int key = p->is_smooth ? -1 : grow(p, &kind_random_key, 0, NULL, 1, (int64_t[]){ any(p, 100) });
  return ok(grow(p, kind, 1, &key, 1, (int64_t[]){ any(p, 4) }));
}
MAKE(random) {
  bool is_whole = kind->one == build_random_bits || kind->one == build_random_randint;
  int like = pick(p, is_whole ? INTEGER : REAL), key = like < 0 || p->is_smooth ? -1 : grow(p, &kind_random_key, 0, NULL, 1, (int64_t[]){ any(p, 100) });
  return ok(grow(p, kind, 2, (int[]){ key, like }, 0, NULL));
}
MAKE(random_axis) {
  int x = pick(p, RANK_1 | FLOAT | FULL | SMALL), key = x < 0 || p->is_smooth ? -1 : grow(p, &kind_random_key, 0, NULL, 1, (int64_t[]){ any(p, 100) });
  return ok(grow(p, kind, 2, (int[]){ key, x }, 0, NULL));
}

/* ---- composed ---- */

BUILD(rms_norm) { return weft_rms_norm(in[0], s->n_in > 1 ? in[1] : NULL, 1e-2); }
BUILD(layer_norm) { return weft_layer_norm(in[0], s->n_in > 1 ? in[1] : NULL, s->n_in > 2 ? in[2] : NULL, 1e-2); }
BUILD(attention) {
  weft_attention_options o = { .scale = s->p[0] ? 0.7 : 0, .is_causal = (int)s->p[1], .mask = s->p[2] ? in[3] : NULL };
  return weft_attention(in[0], in[1], in[2], &o);
}
MAKE(norm) {
  int a = pick(p, KNOWN | RANK_1 | FLOAT | FULL), n = 1 + (int)any(p, kind->one == build_layer_norm ? 3 : 2);
  if (a < 0) return false;
  int64_t d = form(p, a)->dims[form(p, a)->rank - 1];
  int in[3] = { a, leaf(p, form(p, a)->dtype, 1, &d), leaf(p, form(p, a)->dtype, 1, &d) };
  return ok(grow(p, kind, n, in, 0, NULL));
}
MAKE(attention) {
  int a = pick(p, KNOWN | RANK_2 | FLOAT | SMALL | FULL), in[4] = { a, a, a, a };
  if (a < 0) return false;
  int64_t dims[2] = { 1 + any(p, 20), form(p, a)->dims[form(p, a)->rank - 1] }, mask[2] = { form(p, a)->dims[form(p, a)->rank - 2], dims[0] };
  weft_dtype t = form(p, a)->dtype;
  bool has_mask = once_in(p, 2) && !p->is_smooth, is_self = once_in(p, 3);
  if (!is_self && form(p, a)->rank == 2) in[1] = leaf(p, t, 2, dims), in[2] = once_in(p, 2) ? in[1] : leaf(p, t, 2, dims);
  else mask[1] = mask[0];
  if (has_mask) in[3] = leaf(p, once_in(p, 2) ? WEFT_BOOL : t, 2, mask);
  return ok(grow(p, kind, has_mask ? 4 : 3, in, 3, (int64_t[]){ any(p, 2), any(p, 2), has_mask }));
}

/* Of a x x' + 2 that every value gives: [3, 3] of its mean and spread. */
static weft_array *definite(weft_array *x) {
  weft_array *i = weft_iota(weft_full(WEFT_F64, WEFT_DIMS(3, 3), 0), 0), *m = weft_sin(weft_add(i, weft_mul(weft_transpose(i, NULL), weft_tanh(weft_mean(weft_cast(x, WEFT_F64), WEFT_ALL)))));
  return weft_add(weft_matmul(m, weft_transpose(m, NULL)), weft_mul(weft_eye(WEFT_F64, 3, 3, 0), weft_scalar(2)));
}
BUILD(cholesky) { return weft_cholesky(definite(in[0])); }
BUILD(cholesky_status) { return weft_cholesky_status(weft_sub(definite(in[0]), weft_scalar(2))); }
BUILD(solve) { return weft_solve(definite(in[0]), weft_triu(definite(in[0]), 0)); }
BUILD(cholesky_solve) { return weft_cholesky_solve(definite(in[0]), weft_triu(definite(in[0]), 0)); }
BUILD(solve_triangular) { return weft_solve_triangular(definite(in[0]), definite(in[0]), (int)s->p[0], (int)s->p[1]); }
BUILD(inverse) { return weft_inverse(definite(in[0])); }
BUILD(inverse_status) { return weft_inverse_status(definite(in[0])); }
BUILD(det) { return weft_det(definite(in[0])); }
BUILD(slogdet) {
  weft_array *sign, *log;
  weft_slogdet(weft_sub(definite(in[0]), weft_scalar(s->p[1] ? 2 : 0)), &sign, &log);
  return s->p[0] ? sign : log;
}
BUILD(random_multivariate_normal) { return weft_random_multivariate_normal(weft_random_key((uint64_t)s->p[0]), NULL, weft_full(WEFT_F64, WEFT_DIMS(3), 1), definite(in[0])); }
MAKE(linear) {
  int a = p->is_smooth ? -1 : pick(p, FLOAT | FULL);
  return ok(grow(p, kind, 1, &a, 2, (int64_t[]){ any(p, 2), any(p, 2) }));
}

/* Whole weights [4, 64] of so many bits, the least and the largest in every group: their scale is 1, and sums are exact in any order. */
static weft_array *whole_weights(int bits) {
  weft_array *i = weft_iota(weft_full(WEFT_I32, WEFT_DIMS(4, 64), 0), 1), *at = weft_remainder(i, weft_integer(32));
  weft_array *w = weft_remainder(weft_mul(i, weft_integer(7)), weft_integer(1 << bits));
  w = weft_where(weft_eq(at, weft_integer(1)), weft_integer((1 << bits) - 1), weft_where(weft_eq(at, weft_integer(0)), weft_integer(0), w));
  return weft_cast(w, WEFT_F32);
}

/* Weights of any values, and back; or the product of whole ones with a row of x. */
static weft_array *quantized(weft_array *x, const struct step *s, bool is_product) {
  weft_array *w = weft_sin(weft_iota(weft_full(WEFT_F32, WEFT_DIMS(4, 64), 0), 1)), *words, *scales, *biases;
  weft_array *mean = weft_mean(x, WEFT_ALL), *few = weft_cast(weft_clip(weft_round(mean), weft_scalar(-8), weft_scalar(8)), WEFT_F32);
  int bits = (int)s->p[0], group = s->p[1] ? 64 : 32;
  weft_quantize(is_product ? whole_weights(bits) : weft_add(w, mean), group, bits, &words, &scales, &biases);
  if (!is_product) return weft_dequantize(words, scales, biases, group, bits);
  weft_array *rows = weft_add(weft_full(WEFT_F32, WEFT_DIMS(2, s->p[2] ? 64 : 4), 1), few);
  return weft_quantized_matmul(rows, words, scales, biases, (int)s->p[2], group, bits);
}
BUILD(quantized_matmul) { return quantized(in[0], s, true); }
BUILD(dequantize) { return quantized(in[0], s, false); }
MAKE(quantized) {
  static const int bits[] = { 2, 3, 4, 5, 6, 8 };
  int a = p->is_smooth ? -1 : pick(p, FLOAT | FULL);
  return ok(grow(p, kind, 1, &a, 3, (int64_t[]){ bits[any(p, 6)], any(p, 2), any(p, 2) }));
}

/* ---- making ---- */

BUILD(full) { return weft_full((weft_dtype)s->p[0], (int)s->p[1], s->p + 2, (double)s->p[5]); }
BUILD(full_like) { return weft_full_like(in[0], (double)s->p[0]); }
BUILD(iota) { return weft_iota(in[0], (int)s->p[0]); }
BUILD(size) { return weft_size(in[0], (int)s->p[0]); }
BUILD(sized) { return weft_sized((weft_dtype)s->p[0], 2, (weft_array *[]){ weft_size(in[0], 0), weft_integer(2) }); }
BUILD(arange) { return weft_arange((weft_dtype)s->p[0], (double)s->p[1], (double)s->p[2], 0.5 * (double)s->p[3]); }
BUILD(linspace) { return weft_linspace((weft_dtype)s->p[0], (double)s->p[1], (double)s->p[2], s->p[3]); }
BUILD(eye) { return weft_eye((weft_dtype)s->p[0], s->p[1], s->p[2], s->p[3]); }
BUILD(tri) { return weft_tri((weft_dtype)s->p[0], s->p[1], s->p[2], s->p[3]); }

/* Sizes that are computed, but the same in every row of a map: of the size of an axis, and of its places. */
static weft_array *places_of(weft_array *x) { return weft_iota(weft_sized(WEFT_I64, WEFT_ARRAYS(weft_size(x, 0))), 0); }
static weft_array *every(weft_array *x, int64_t n, int64_t k) {
  return weft_eq(weft_remainder(places_of(x), weft_integer(n + 1)), weft_integer(k));
}
BUILD(cut) {
  weft_array *n = weft_size(in[0], (int)s->p[1]), *from = weft_sub(n, weft_integer(s->p[0] + 1)), *to = weft_floor_divide(n, weft_integer(2));
  return weft_cut(in[0], (int)s->p[1], s->p[2] ? from : NULL, s->p[2] == 1 ? NULL : to, weft_integer(s->p[3]));
}
BUILD(compress) { return weft_compress(in[0], every(in[0], s->p[0], s->p[2])); }
BUILD(flatnonzero) { return weft_flatnonzero(every(in[0], s->p[0], s->p[2])); }
BUILD(nonzero) { /* of rows and columns, one of the two lists */
  weft_array *row = weft_unsqueeze(every(in[0], s->p[0], s->p[2]), 0), *at[2];
  weft_nonzero(weft_concat(0, 2, (weft_array *[]){ row, row }), at);
  return at[s->p[3] > 1];
}
BUILD(unique) { return weft_unique(weft_floor_divide(places_of(in[0]), weft_integer(s->p[0] + 1)), NULL, NULL, NULL); }
MAKE(chosen) {
  static const int64_t steps[] = { 1, 1, -1, 2, -3 };
  int a = pick(p, RANK_1);
  return ok(a < 0 ? -1 : grow(p, kind, 1, &a, 4, (int64_t[]){ any(p, 3), any_axis(p, a), any(p, 3), steps[any(p, COUNT(steps))] }));
}

static int64_t any_dtype(struct program *p) {
  static const weft_dtype of[] = { WEFT_F32, WEFT_F64, WEFT_I32, WEFT_BF16 };
  return p->is_smooth ? WEFT_F64 : of[any(p, COUNT(of))];
}
MAKE(full) { return ok(grow(p, kind, 0, NULL, 6, (int64_t[]){ any_dtype(p), any(p, 3), 1 + any(p, 4), 1 + any(p, 4), 0, any(p, 3) })); }
MAKE(full_like) {
  int a = pick(p, p->is_smooth ? FLOAT : 0);
  return ok(grow(p, kind, 1, &a, 1, (int64_t[]){ any(p, 4) }));
}
MAKE(iota) {
  int a = pick(p, RANK_1);
  return ok(a < 0 ? -1 : grow(p, kind, 1, &a, 1, (int64_t[]){ any_axis(p, a) }));
}
MAKE(sized) {
  int a = pick(p, RANK_1);
  return ok(a < 0 ? -1 : grow(p, kind, 1, &a, 1, (int64_t[]){ any_dtype(p) }));
}
MAKE(series) { return ok(grow(p, kind, 0, NULL, 4, (int64_t[]){ any_dtype(p), any(p, 5), 5 + any(p, 5), 1 + any(p, 4) })); }

/* ---- functions of the host ---- */

static int twice_and_one(void *ctx, const weft_block in[], const weft_block out[]) {
  int64_t n = 1;
  for (int k = 0; k < in->rank; k++) n *= in->dims[k];
  for (int64_t i = 0; i < n; i++) ((double *)out->data)[i] = 2 * ((const double *)in->data)[i] + 1;
  return (void)ctx, 0;
}
BUILD(host) {
  weft_array *y, *x = weft_cast(in[0], WEFT_F64);
  weft_host(&(weft_host_function){ .run = twice_and_one }, 1, &x, 1, &(weft_block){ .dtype = WEFT_F64, .rank = (int)s->p[0], .dims = s->p + 1 }, &y);
  return y;
}
MAKE(host) {
  int a = pick(p, FLOAT | KNOWN);
  if (a < 0 || p->is_smooth) return false;
  int64_t q[PROGRAM_PARAMS] = { form(p, a)->rank };
  for (int k = 0; k < form(p, a)->rank; k++) q[k + 1] = form(p, a)->dims[k];
  return ok(grow(p, kind, 1, &a, 1 + form(p, a)->rank, q));
}

/* ---- the same value ---- */

BUILD(stop_gradient) { return weft_stop_gradient(in[0]); }
BUILD(assert) { return weft_assert(in[0], weft_eq(places_of(in[0]), places_of(in[0])), "as it must be"); }
BUILD(to) { return weft_to(in[0], 0); }
BUILD(alias) { return weft_alias(in[0]); }
BUILD(depends) { return weft_depends(in[0], 1, in + 1); }
MAKE(same) {
  int a = pick(p, 0), b = a < 0 ? -1 : pick(p, KNOWN);
  if (p->is_smooth && kind->one == build_stop_gradient) return false;
  return ok(grow(p, kind, kind->one == build_depends ? 2 : 1, (int[]){ a, b }, 0, NULL));
}

/* ---- the table ---- */

#define ROW(name_, doc) static const struct kind kind_##name_ = { "weft_" #name_, 1, true, make_unary, build_unary, NULL, (void *)weft_##name_ };
WEFT_UNARY(ROW) WEFT_ACTIVATION(ROW)
#undef ROW
#define ROW(name_, doc) static const struct kind kind_##name_ = { "weft_" #name_, 2, true, make_binary, build_binary, NULL, (void *)weft_##name_ };
WEFT_BINARY(ROW)
#undef ROW
#define ROW(name_, doc) static const struct kind kind_##name_ = { "weft_" #name_, 2, true, make_along, build_along, NULL, (void *)weft_##name_ };
WEFT_REDUCE(ROW) WEFT_ALONG(ROW)
#undef ROW
/* name, weight, is_smooth, how it is chosen */
#define ROWS(X)                                                                                                              \
  X(where, 4, true, where) X(fma, 3, true, fma) X(betainc, 2, false, betainc) X(clip, 2, false, clip) X(cast, 5, false, cast) X(complex, 2, false, complex)  \
  X(nan_to_num, 2, true, nan_to_num) X(isclose, 1, false, alike) X(allclose, 1, false, alike) X(array_equal, 1, false, alike)       \
  X(gcd, 1, false, whole) X(lcm, 1, false, whole) X(bit_count, 1, false, whole) X(nanvar, 1, true, var) X(nanstd, 1, true, var)       \
  X(backwards, 2, true, run) X(before, 2, true, run) X(diff, 2, true, diff) X(trapezoid, 2, true, trapezoid)                         \
  X(interp, 1, false, interp) X(convolve, 1, true, convolve) X(correlate, 1, true, convolve)                                         \
  X(pad_with, 2, true, pad_with) X(resize, 2, true, resize) X(max_pool, 1, true, pool) X(mean_pool, 1, true, pool) X(rope, 1, true, rope) \
  X(softmax_where, 1, false, where_counts) X(log_softmax_where, 1, false, where_counts) X(logsumexp_where, 1, false, where_counts)    \
  X(view, 2, false, view) X(to_f8, 1, false, view) X(from_f8, 1, false, view)                                                        \
  X(inner, 1, true, small_product) X(outer, 1, true, small_product) X(addmm, 1, true, small_product) X(matrix_power, 1, true, small_product) \
  X(hadamard, 1, true, small_product) X(gather_mm, 1, true, small_product) X(block_masked_mm, 1, true, small_product)                 \
  X(segmented_mm, 1, true, small_product)                                                                                            \
  X(rot90, 2, true, rot90) X(meshgrid, 2, true, kron) X(kron, 2, true, kron)                                                         \
  X(sort, 3, false, sort) X(argsort, 1, false, sort) X(searchsorted, 1, false, search) X(topk, 1, false, rank) X(argtopk, 1, false, rank) \
  X(partition, 1, false, rank) X(argpartition, 1, false, rank) X(quantile, 1, false, quantile) X(nanquantile, 1, false, quantile)                                        \
  X(var, 2, true, var) X(std, 1, true, var) X(over, 3, true, over)                                                            \
  X(reshape, 5, true, reshape) X(reshape_like, 2, true, like) X(broadcast, 5, true, broadcast)                                \
  X(broadcast_like, 2, true, like) X(transpose, 5, true, transpose) X(moveaxis, 2, true, two_axes)                            \
  X(unsqueeze, 2, true, unsqueeze) X(squeeze, 4, true, two_axes) X(flatten, 2, true, two_axes)                                \
  X(as_strided, 3, true, as_strided)                                                                                          \
  X(cut, 2, true, chosen) X(compress, 1, true, chosen) X(flatnonzero, 1, false, chosen) X(nonzero, 1, false, chosen) X(unique, 1, false, chosen)              \
  X(slice, 9, true, slice) X(window, 3, true, window) X(at, 4, true, window) X(take, 4, true, take)                           \
  X(take_along, 2, true, take_along) X(diagonal, 2, true, diagonal) X(put, 9, true, put)                                      \
  X(concat, 4, true, join) X(stack, 3, true, join) X(split, 3, true, split) X(pad, 3, true, pad)                              \
  X(repeat, 2, true, by_number) X(tile, 2, true, tile) X(roll, 3, true, by_number) X(diag, 2, true, diag)                     \
  X(tril, 2, true, diag) X(triu, 2, true, diag)                                                                               \
  X(matmul, 8, true, matmul) X(tensordot, 2, true, tensordot) X(einsum, 3, true, einsum)                                      \
  X(rms_norm, 2, true, norm) X(layer_norm, 2, true, norm) X(attention, 2, true, attention)                                    \
  X(full, 2, true, full) X(full_like, 2, true, full_like) X(iota, 2, false, iota) X(size, 2, false, iota)                     \
  X(sized, 2, true, sized) X(arange, 1, true, series) X(linspace, 1, true, series) X(eye, 1, true, series) X(tri, 1, true, series) \
  X(windows, 3, true, windows) X(conv, 3, true, conv) X(random_split, 1, false, random_split)                                \
  X(random_bits, 2, false, random) X(random_randint, 1, false, random)                                                       \
  X(random_categorical, 1, false, random_axis) X(random_permutation, 1, false, random_axis) X(random_shuffle, 1, false, random_axis) X(random_choice, 1, false, random_axis) \
  X(random_dirichlet, 1, false, random_axis) X(random_multinomial, 1, false, random_axis) \
  X(cholesky, 1, false, linear) X(cholesky_status, 1, false, linear) X(cholesky_solve, 1, false, linear) X(solve, 1, false, linear) X(solve_triangular, 1, false, linear) \
  X(inverse, 1, false, linear) X(inverse_status, 1, false, linear) X(det, 1, false, linear) X(slogdet, 1, false, linear) X(random_multivariate_normal, 1, false, linear) \
  X(dequantize, 1, false, quantized) X(quantized_matmul, 1, false, quantized)                                                 \
  X(host, 1, false, host) X(stop_gradient, 1, true, same) X(alias, 1, true, same) X(to, 1, true, same) X(assert, 1, true, same) X(depends, 1, true, same)
#define X(name_, weight, smooth, how) static const struct kind kind_##name_ = { "weft_" #name_, weight, smooth, make_##how, build_##name_, NULL, NULL };
ROWS(X)
#undef X
const struct kind kind_random_key = { "weft_random_key", 1, false, make_random_key, build_random_key, NULL, NULL };
#define X1(id, a, doc) static const struct kind kind_random_##id = { "weft_random_" #id, 1, false, make_random, build_random1, NULL, (void *)weft_random_##id };
#define X2(id, a, b, doc) static const struct kind kind_random_##id = { "weft_random_" #id, 1, false, make_random, build_random2, NULL, (void *)weft_random_##id };
#define X3(id, a, b, c, doc) static const struct kind kind_random_##id = { "weft_random_" #id, 1, false, make_random, build_random3, NULL, (void *)weft_random_##id };
WEFT_RANDOM(X1, X2, X3)
#undef X1
#undef X2
#undef X3
static const struct kind kind_with_number = { "weft_scalar", 12, true, make_with_number, build_with_number, NULL, NULL };
static const struct kind kind_dots = { "weft_matmul", 2, true, make_dots, build_matmul, NULL, NULL };

extern const struct kind kind_loop, kind_cond, kind_call, kind_map, kind_grad, kind_jvp, kind_checkpoint, kind_custom; /* program_build.c */
const struct kind *const program_kinds[] = {
#define ROW(name, doc) &kind_##name,
  WEFT_UNARY(ROW) WEFT_ACTIVATION(ROW) WEFT_BINARY(ROW) WEFT_REDUCE(ROW) WEFT_ALONG(ROW)
#undef ROW
#define X(name, weight, smooth, how) &kind_##name,
  ROWS(X)
#undef X
#define X1(id, a, doc) &kind_random_##id,
#define X2(id, a, b, doc) &kind_random_##id,
#define X3(id, a, b, c, doc) &kind_random_##id,
  WEFT_RANDOM(X1, X2, X3) &kind_random_key,
#undef X1
#undef X2
#undef X3
  &kind_with_number, &kind_dots, &kind_loop, &kind_cond, &kind_call, &kind_map, &kind_grad, &kind_jvp, &kind_checkpoint, &kind_custom, NULL
};
