/* program_elements.c -- steps of random programs that go element by element or along an axis: how each is chosen and built. */
#include <stdlib.h>
#include <string.h>
#include "program_rows.h"

/* ---- elements ---- */

BUILD(unary) { return ((weft_array *(*)(weft_array *))s->row->function)(in[0]); }
BUILD(binary) { return ((weft_array *(*)(weft_array *, weft_array *))s->row->function)(in[0], in[1]); }
BUILD(ternary) { return ((weft_array *(*)(weft_array *, weft_array *, weft_array *))s->row->function)(in[0], in[1], in[2]); }
BUILD(with_number) { /* p[0]: which side; p[1]: a whole number */
  if (s->p[1]) used("weft_integer");
  weft_array *n = s->p[1] ? weft_integer((int64_t)s->number) : weft_scalar(s->number);
  typedef weft_array *two(weft_array *, weft_array *);
  two *f = (two *[]){ weft_add, weft_mul, weft_sub, weft_maximum, weft_div, weft_minimum }[s->p[2]];
  return s->p[0] ? f(n, in[0]) : f(in[0], n);
}
/* Where the first side is taken, the other has no derivative: it is that of sqrt(x - x). */
BUILD(choose) {
  weft_dtype d = weft_dtype_of(in[1]);
  weft_array *other = weft_rank(in[1]) > 0 ? weft_cumsum(in[1], 0) : weft_add(in[1], in[1]), *one = weft_cast(weft_scalar(1), d);
  if (d != WEFT_F32 && d != WEFT_F64) return weft_choose(in[0], in[1], other);
  weft_array *none = weft_sub(weft_sqrt(weft_where(in[0], weft_sub(in[1], in[1]), one)), one);
  return weft_choose(in[0], in[1], weft_add(other, none));
}
BUILD(where) { return weft_where(in[0], in[1], in[2]); }
BUILD(fma) { return weft_fma(in[0], in[1], in[2]); }
BUILD(hyp2f1) { /* where few terms suffice */
  weft_array *z = weft_mul(weft_tanh(in[0]), weft_scalar(s->p[0] ? 0.5 : -0.75));
  return weft_hyp2f1(weft_scalar(1.5), weft_scalar(2.5), weft_scalar(3), z);
}
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
MAKE(choose) {
  int a = pick(p, p->is_smooth ? FLOAT : 0), c = a < 0 ? -1 : leaf(p, WEFT_BOOL, 0, NULL);
  return c >= 0 && ok(grow(p, kind, 2, (int[]){ c, a }, 0, NULL));
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
MAKE(ternary) { /* one array in all its roles, or in two of them */
  int a = pick(p, FLOAT), b = once_in(p, 2) ? a : partner(p, a);
  return ok(grow(p, kind, 3, (int[]){ a, b, a }, 0, NULL));
}
MAKE(hyp2f1) { /* its loop of some hundred steps is slow in the plain evaluator: 59 s for 4097 elements */
  int a = pick(p, FLOAT);
  return a >= 0 && count_of(form(p, a)) <= 256 && ok(grow(p, kind, 1, &a, 1, (int64_t[]){ any(p, 2) }));
}
MAKE(clip) {
  int a = pick(p, FLOAT), b = partner(p, a);
  return ok(grow(p, kind, 2, (int[]){ a, b }, 1, (int64_t[]){ any(p, 3) }));
}
MAKE(cast) {
  static const weft_dtype to[] = { WEFT_F32, WEFT_F64, WEFT_I32, WEFT_BOOL, WEFT_F16, WEFT_BF16, WEFT_U8, WEFT_I64, WEFT_C64, WEFT_C128, WEFT_I8, WEFT_U16, WEFT_I16, WEFT_U32, WEFT_U64, WEFT_E4M3, WEFT_E5M2 };
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
BUILD(var_over) { return weft_var_over(in[0], (int)s->p[1], (int[]){ (int)s->p[2], (int)s->p[3] }, s->p[0]); }
BUILD(std_over) { return weft_std_over(in[0], (int)s->p[1], (int[]){ (int)s->p[2], (int)s->p[3] }, s->p[0]); }
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
BUILD(ediff) { return weft_ediff(in[0], s->p[1] ? NULL : weft_integer(2), s->p[1] == 2 ? NULL : in[0]); }
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
/* Shares of any numbers, nan among them, but where an integer is chosen: there they are between 0 and 1, or it is an error. */
static weft_array *any_shares(const struct step *s, weft_array *const in[], double share) {
  weft_array *q = in[1], *is_one = weft_and(weft_ge(q, weft_scalar(0)), weft_le(q, weft_scalar(1)));
  if (!s->p[2]) return weft_scalar(share);
  return plain_is_float(weft_dtype_of(in[0])) ? q : weft_where(is_one, q, weft_scalar(share));
}
BUILD(quantile) { return weft_quantile(in[0], any_shares(s, in, 0.3), (int)s->p[0], (weft_quantile_method)s->p[1]); }
BUILD(nanquantile) { return weft_nanquantile(in[0], any_shares(s, in, 0.7), (int)s->p[0], (weft_quantile_method)s->p[1]); }
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
static weft_array *fixed_edges(void) { return weft_from(WEFT_F32, WEFT_DIMS(5), (float[]){ -1, 0, 0.5f, 0.5f, 2 }); }
BUILD(bincount) {
  weft_array *weights = s->p[0] ? weft_mul(weft_cast(in[0], WEFT_F64), weft_scalar(0.5)) : NULL;
  return weft_bincount(weft_remainder(in[0], weft_integer(7)), weights, 7, (int)s->p[1]); /* as long in every row of a map */
}
BUILD(histogram) { return weft_histogram(in[0], fixed_edges(), s->p[0] ? weft_integer(3) : NULL, (int)s->p[1]); }
BUILD(histogram_edges) { return weft_histogram_edges(in[0], 1 + s->p[0], s->p[1] ? weft_scalar(-3) : NULL, NULL); }
BUILD(histogramdd) {
  weft_array *x[] = { in[0], weft_sub(weft_integer(1), weft_cast(in[0], WEFT_F32)) }, *edges[] = { fixed_edges(), fixed_edges() };
  return weft_histogramdd(2, x, edges, s->p[0] ? weft_integer(3) : NULL, (int)s->p[1]);
}
BUILD(digitize) { return weft_digitize(in[0], s->p[0] ? fixed_edges() : weft_flip(fixed_edges(), 0), (int)s->p[1]); }
MAKE(bins) {
  int a = pick(p, (kind->one == build_bincount ? INTEGER : REAL) | SMALL);
  if (a < 0 || p->is_smooth) return false;
  return ok(grow(p, kind, 1, &a, 2, (int64_t[]){ any(p, 2), any(p, 2) }));
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
MAKE(var_over) {
  int a = pick(p, FLOAT | RANK_2 | FULL | KNOWN);
  if (a < 0 || (p->is_smooth && !strcmp(kind->name, "weft_std_over"))) return false;
  int one = any_axis(p, a), two = (one + 1) % form(p, a)->rank;
  int64_t ddof = any(p, 2);
  if (p->is_smooth && form(p, a)->dims[one] < 2 + ddof) return false;
  return ok(grow(p, kind, 1, &a, 4, (int64_t[]){ ddof, 1 + any(p, 2), one, two }));
}
