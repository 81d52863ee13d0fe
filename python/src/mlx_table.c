/* mlx_table.c -- the names of the package weft.mlx.core that C serves: those of mlx.core, with its arguments. What a row calls is
 * mostly what weft's own row calls; what MLX has otherwise (dtypes of results, arguments, refusals) is a function here. What is
 * rare is written in Python, in weft/mlx/core. The argument stream is there and says nothing: work runs where its thread says. */
#include "names.h"

typedef weft_array *(*along)(weft_array *, int axis);
typedef weft_array *(*binary)(weft_array *, weft_array *);

/* ---- What MLX has otherwise ---- */

static weft_array *first(PyObject *const arg[]) { return convert_array(arg[0], NULL, 0); }
static weft_array *as(weft_array *a, weft_dtype d) { return a ? weft_cast(a, d) : NULL; }

/* An operand that vmap does not map over there, nor here. The rule is of an identity around it, so nothing else changes. */
static int mapped_refuses(void *ctx, weft_array *const xs[], const int is_mapped[], weft_array *ys[]) {
  (void)xs, (void)is_mapped, (void)ys;
  PyGILState_STATE gil = PyGILState_Ensure();
  PyErr_Format(PyExc_ValueError, "vmap: %s cannot be mapped over", (const char *)ctx);
  PyGILState_Release(gil);
  return 1;
}
static weft_array *unmapped(weft_array *a, const char *what) {
  if (!body_serial() || weft_check(a)) return a;
  weft_array *same = weft_alias(a);
  weft_custom(1, &a, 1, &same, &(weft_rules){ .ctx = (void *)(uintptr_t)what, .map = mapped_refuses });
  return same;
}

/* Indices are uint32. */
static weft_array *call_arg32(const struct name *row, PyObject *const arg[]) { return as(call_arg(row, arg), WEFT_U32); }
static weft_array *call_argsort32(const struct name *row, PyObject *const arg[]) { return as(call_sort(row, arg), WEFT_U32); }
static weft_array *search(weft_array *a, weft_array *v, int is_right) {
  return weft_searchsorted(unmapped(a, "what searchsorted searches in"), v, is_right);
}
static weft_array *call_searchsorted32(const struct name *row, PyObject *const arg[]) {
  return as(call_searchsorted(row, arg), WEFT_U32);
}

/* Sums and products of small integers and of bools have 32 bits in weft too; nothing differs but the arguments. */

static weft_array *refuse_integers(const char *name, weft_dtype d) {
  return PyErr_Format(PyExc_ValueError, "%s: only inexact types are supported, not %s", name, dtype_text(d)), NULL;
}

/* (a, b): products of integers are refused */
static weft_array *call_product(const struct name *row, PyObject *const arg[]) {
  weft_array *a[2];
  if (!convert_all(2, arg, a)) return NULL;
  weft_dtype d = weft_dtype_promote(weft_dtype_of(a[0]), weft_dtype_of(a[1]));
  return d <= WEFT_I64 ? refuse_integers(row->name, d) : ((binary)row->function)(a[0], a[1]);
}

/* (c, a, b, alpha, beta): beta c + alpha a b */
static weft_array *call_addmm(const struct name *row, PyObject *const arg[]) {
  double alpha = PyFloat_AsDouble(arg[3]), beta = PyErr_Occurred() ? 0 : PyFloat_AsDouble(arg[4]);
  weft_array *a[3];
  (void)row;
  if (PyErr_Occurred() || !convert_all(3, arg, a)) return NULL;
  weft_dtype d = weft_dtype_promote(weft_dtype_of(a[0]), weft_dtype_promote(weft_dtype_of(a[1]), weft_dtype_of(a[2])));
  if (d <= WEFT_I64) return refuse_integers("addmm", d);
  weft_array *product = weft_matmul(a[1], a[2]);
  if (alpha != 1) product = weft_mul(product, weft_scalar(alpha));
  weft_array *c = weft_broadcast_like(beta != 1 ? weft_mul(a[0], weft_scalar(beta)) : a[0], product); /* which gives the shape */
  return weft_add(c, product);
}

/* The largest, or smallest, so far, whose derivative goes to the last of equal elements; weft's goes to the first. The context of
 * the rules is the axis, counted from the end, as map puts new ones in front, and which of the two it is. */
struct ties { int axis; along op; };

/* Where the element stood that is the result. */
static weft_array *origin_of(const struct ties *t, weft_array *x) {
  weft_array *at = weft_iota(weft_cast(x, WEFT_I64), t->axis);
  return weft_cummax(weft_where(weft_eq(x, t->op(x, t->axis)), at, weft_integer(0)), t->axis);
}
static int ties_vjp(void *ctx, weft_array *const x[], weft_array *const y[], weft_array *const dy[], weft_array *dx[]) {
  const struct ties *t = ctx;
  weft_array *none = weft_full_like(x[0], 0);
  (void)y;
  dx[0] = weft_put(none, weft_take_along(none, t->axis, origin_of(t, x[0])), dy[0], WEFT_ADD);
  return 0;
}
static int ties_jvp(void *ctx, weft_array *const x[], weft_array *const dx[], weft_array *dy[]) {
  const struct ties *t = ctx;
  dy[0] = dx[0] ? weft_take_along(dx[0], t->axis, origin_of(t, x[0])) : weft_full_like(x[0], 0);
  return 0;
}
static weft_array *to_the_last(weft_array *x, int axis, along op) {
  weft_array *y = op(x, axis);
  struct ties *t = weft_dtype_of(x) > WEFT_I64 && !weft_check(y) ? PyMem_RawMalloc(sizeof *t) : NULL;
  if (!t) return y; /* integers have no derivative */
  *t = (struct ties){ axis < 0 ? axis : axis - weft_rank(x), op };
  weft_custom(1, &x, 1, &y, &(weft_rules){ t, ties_vjp, ties_jvp, NULL, PyMem_RawFree });
  return y;
}
static weft_array *cummax_of(weft_array *x, int axis) { return to_the_last(x, axis, weft_cummax); }
static weft_array *cummin_of(weft_array *x, int axis) { return to_the_last(x, axis, weft_cummin); }

/* The sum so far without the element itself: shifted by one, with what nothing adds up to in front. */
static weft_array *without_itself(weft_array *x, along op, int axis, int backwards) {
  int64_t n = weft_dim(x, axis);
  if (n <= 0) return n < 0 ? (raise_no_size(axis), NULL) : x;
  weft_array *start = op == weft_cumsum ? weft_integer(0) : op == weft_cumprod ? weft_integer(1) : NULL;
  weft_dtype d = weft_dtype_of(x);
  if (!start && d > WEFT_I64) start = weft_scalar(op == cummax_of ? -1.0 / 0.0 : 1.0 / 0.0);
  if (!start) {
    int bits = 8 * (int)weft_dtype_bytes(d), is_signed = d >= WEFT_I8, is_max = op == cummax_of;
    int64_t top = (int64_t)(((uint64_t)1 << (bits - 1)) - 1);
    if (d == WEFT_BOOL) start = weft_integer(!is_max);
    else if (!is_signed) start = is_max ? weft_integer(0) : weft_not(weft_cast(weft_integer(0), d));
    else start = weft_integer(is_max ? -top - 1 : top);
  }
  weft_array *rest = weft_slice(x, axis, backwards ? 1 : 0, backwards ? n : n - 1, 1);
  return weft_pad(rest, axis, backwards ? 0 : 1, backwards ? 1 : 0, weft_cast(start, d));
}

/* (a, axis, reverse, inclusive, dtype) */
static weft_array *call_so_far(const struct name *row, PyObject *const arg[]) {
  weft_array *x = first(arg);
  int backwards = PyObject_IsTrue(arg[2]), is_inclusive = backwards < 0 ? -1 : PyObject_IsTrue(arg[3]), k = 0;
  weft_dtype d;
  if (!x || is_inclusive < 0 || (arg[1] != Py_None && axis_parse(arg[1], weft_rank(x), &k))) return NULL;
  if (arg[4] != Py_None && dtype_parse(arg[4], &d)) return NULL;
  if (arg[4] != Py_None) x = weft_cast(x, d);
  along op = (along)row->function;
  if (arg[1] == Py_None) x = weft_reshape(x, 1, (int64_t[]){ WEFT_ANY });
  weft_array *y = backwards ? weft_flip(op(weft_flip(x, k), k), k) : op(x, k);
  d = weft_dtype_of(x); /* narrow integers wrap around as they are; sums of bools alone are wider */
  if (weft_dtype_of(y) != d && !(d == WEFT_BOOL && op == weft_cumsum)) y = weft_cast(y, d);
  return is_inclusive ? y : without_itself(y, op, k, backwards);
}

/* Where both are equal the derivative is the second one's alone, as MLX has it; weft shares it. NaN wins all the same. */
static weft_array *second_of_equals(weft_array *a, weft_array *b, weft_array *is_first) {
  return weft_where(weft_dtype_of(a) > WEFT_I64 ? weft_or(is_first, weft_isnan(a)) : is_first, a, b);
}
static weft_array *maximum_of(weft_array *a, weft_array *b) { return second_of_equals(a, b, weft_gt(a, b)); }
static weft_array *minimum_of(weft_array *a, weft_array *b) { return second_of_equals(a, b, weft_lt(a, b)); }
static weft_array *clip_of(weft_array *x, weft_array *low, weft_array *high) {
  if (low) x = maximum_of(x, low);
  return high ? minimum_of(x, high) : x;
}

/* (a, axis, precise) */
static weft_array *call_softmax_of(const struct name *row, PyObject *const arg[]) {
  weft_array *x = first(arg);
  return x ? call_softmax(row, arg) : NULL;
}

/* (a, pad_width, mode, constant_values): the value is one for all */
static weft_array *call_pad_one(const struct name *row, PyObject *const arg[]) {
  if (!array_check(arg[3])) return call_pad(row, arg);
  PyObject *value = array_wrap(unmapped(array_handle(arg[3]), "the value of pad"));
  weft_array *y = value ? call_pad(row, (PyObject *[]){ arg[0], arg[1], arg[2], value }) : NULL;
  Py_XDECREF(value);
  return y;
}

/* (a, lowest, highest): bounds by position, either may be None */
static weft_array *call_clip2(const struct name *row, PyObject *const arg[]) {
  return call_clip(row, (PyObject *[]){ arg[0], arg[1], arg[2], Py_None, Py_None });
}

/* (a, dtype): floats that no integer holds wrap, through 64 bits, where weft saturates */
static weft_array *call_cast(const struct name *row, PyObject *const arg[]) {
  weft_dtype d;
  (void)row;
  weft_array *x = dtype_parse(arg[1], &d) ? NULL : first(arg);
  if (!x) return NULL;
  weft_dtype from = weft_dtype_of(x);
  int narrows = from > WEFT_I64 && from != WEFT_C64 && from != WEFT_C128 && d != WEFT_BOOL && d <= WEFT_I32 && d != WEFT_U64;
  return weft_cast(narrows ? weft_cast(x, WEFT_I64) : x, d);
}

/* (a, shape) as (a, *shape) */
static weft_array *with_shape(name_call *call, const struct name *row, PyObject *const arg[]) {
  PyObject *rest = PyTuple_Pack(1, arg[1]);
  weft_array *a = rest ? call(row, (PyObject *[]){ arg[0], rest }) : NULL;
  Py_XDECREF(rest);
  return a;
}
static weft_array *call_broadcast(const struct name *row, PyObject *const arg[]) { return with_shape(call_broadcast_to, row, arg); }
static weft_array *call_order(const struct name *row, PyObject *const arg[]) { return with_shape(call_transpose, row, arg); }
static weft_array *call_shaped(const struct name *row, PyObject *const arg[]) { return with_shape(call_reshape, row, arg); }

/* (a, indices, axis): what is empty has nothing to take, which is found at once */
static weft_array *call_take_any(const struct name *row, PyObject *const arg[]) {
  weft_array *y = call_take(row, arg), *x = y ? first(arg) : NULL;
  int axis = 0;
  if (!x || (arg[2] != Py_None && axis_parse(arg[2], weft_rank(x), &axis))) return NULL;
  if (weft_rank(x) > 0 && weft_dim(x, axis) == 0 && weft_dim(y, axis) > 0)
    return PyErr_SetString(PyExc_ValueError, "take: from an empty axis"), NULL;
  return y;
}

/* Functions that weft has for real numbers alone, of complex ones. */
static int is_complex(weft_array *a) { return weft_dtype_of(a) == WEFT_C64 || weft_dtype_of(a) == WEFT_C128; }
static weft_array *times_i(weft_array *a) { return weft_complex(weft_neg(weft_imag(a)), weft_real(a)); }
static weft_array *one_plus(weft_array *a) { return weft_add(weft_scalar(1), a); }

static weft_array *log1p_of(weft_array *a) { return is_complex(a) ? weft_log(one_plus(a)) : weft_log1p(a); }
static weft_array *log2_of(weft_array *a) {
  return is_complex(a) ? weft_mul(weft_log(a), weft_scalar(1.44269504088896340736)) : weft_log2(a);
}
static weft_array *log10_of(weft_array *a) {
  return is_complex(a) ? weft_mul(weft_log(a), weft_scalar(0.43429448190325182765)) : weft_log10(a);
}
/* asin z = -i log(i z + sqrt(1 - z^2)) */
static weft_array *asin_of(weft_array *a) {
  if (!is_complex(a)) return weft_asin(a);
  return weft_neg(times_i(weft_log(weft_add(times_i(a), weft_sqrt(one_plus(weft_neg(weft_mul(a, a))))))));
}
static weft_array *acos_of(weft_array *a) {
  return is_complex(a) ? weft_sub(weft_scalar(1.57079632679489661923), asin_of(a)) : weft_acos(a);
}
/* atan z = i / 2 (log(1 - i z) - log(1 + i z)) */
static weft_array *atan_of(weft_array *a) {
  if (!is_complex(a)) return weft_atan(a);
  weft_array *iz = times_i(a);
  return weft_mul(times_i(weft_sub(weft_log(one_plus(weft_neg(iz))), weft_log(one_plus(iz)))), weft_scalar(0.5));
}
/* Refused there, so that nobody gets the real part alone. */
static weft_array *real_alone(const char *name, weft_array *a, weft_array *(*op)(weft_array *)) {
  if (!is_complex(a)) return op(a);
  return PyErr_Format(PyExc_ValueError, "%s: not of complex numbers", name), NULL;
}
static weft_array *expm1_of(weft_array *a) { return real_alone("expm1", a, weft_expm1); }
static weft_array *sigmoid_of(weft_array *a) { return real_alone("sigmoid", a, weft_sigmoid); }
static weft_array *erf_of(weft_array *a) { return real_alone("erf", a, weft_erf); }
static weft_array *erfinv_of(weft_array *a) { return real_alone("erfinv", a, weft_erfinv); }

/* The largest or smallest complex number, by the real part, then by the imaginary one; one with a nan wins. */
static weft_array *extreme(weft_array *a, int axis, along op, double worst) {
  weft_array *re = weft_real(a), *im = weft_imag(a), *most = op(re, axis);
  if (axis == WEFT_ALL) most = weft_broadcast_like(most, re);
  weft_array *is_nan = weft_or(weft_isnan(re), weft_isnan(im)), *is_best = weft_or(weft_eq(re, most), is_nan);
  weft_array *bad = weft_any(is_nan, axis), *second = op(weft_where(is_best, im, weft_scalar(worst)), axis);
  weft_array *nan = weft_scalar(0.0 / 0.0);
  return weft_complex(weft_where(bad, nan, op(re, axis)), weft_where(bad, nan, second));
}
static weft_array *max_of(weft_array *a, int axis) {
  return is_complex(a) ? extreme(a, axis, weft_max, -1.0 / 0.0) : weft_max(a, axis);
}
static weft_array *min_of(weft_array *a, int axis) {
  return is_complex(a) ? extreme(a, axis, weft_min, 1.0 / 0.0) : weft_min(a, axis);
}

/* z / |z| */
static weft_array *sign_of(weft_array *a) {
  if (!is_complex(a)) return weft_sign(a);
  weft_array *size = weft_abs(a);
  return weft_where(weft_eq(size, weft_scalar(0)), a, weft_div(a, size));
}
static weft_array *logaddexp_of(weft_array *a, weft_array *b) {
  if (!is_complex(a) && !is_complex(b)) return weft_logaddexp(a, b);
  weft_array *is_first = weft_ge(weft_real(a), weft_real(b));
  weft_array *more = weft_where(is_first, a, b), *less = weft_where(is_first, b, a);
  return weft_add(more, log1p_of(weft_exp(weft_sub(less, more))));
}

/* In order by the real part, then by the imaginary one: two sorts, of which the second keeps the order of the first. */
static weft_array *argsort_of(weft_array *a, int axis) {
  if (!is_complex(a)) return weft_argsort(a, axis);
  weft_array *nan = weft_scalar(0.0 / 0.0), *is_nan = weft_or(weft_isnan(weft_real(a)), weft_isnan(weft_imag(a)));
  weft_array *first = weft_argsort(weft_imag(a), axis), *re = weft_where(is_nan, nan, weft_real(a));
  return weft_take_along(first, axis, weft_argsort(weft_take_along(re, axis, first), axis));
}
static weft_array *sort_of(weft_array *a, int axis) {
  return is_complex(a) ? weft_take_along(a, axis, argsort_of(a, axis)) : weft_sort(a, axis);
}

/* (a, k, axis): along an axis, or of all elements in order */
static weft_array *ranked(PyObject *const arg[], int is_size, weft_array *(*op)(weft_array *, int, int64_t)) {
  weft_array *x = first(arg);
  int64_t k;
  int axis = 0;
  if (!x || convert_integer(arg[1], &k) || (arg[2] != Py_None && axis_parse(arg[2], weft_rank(x), &axis))) return NULL;
  if (arg[2] == Py_None) x = weft_reshape(x, 1, (int64_t[]){ WEFT_ANY });
  int64_t n = weft_dim(x, axis);
  if (n >= 0 && (is_size ? k < 0 || k > n : k < -n || k >= n))
    return PyErr_Format(PyExc_ValueError, "there is no %lld among %lld elements", (long long)k, (long long)n), NULL;
  return op(x, axis, k);
}
static weft_array *call_partition(const struct name *row, PyObject *const arg[]) {
  return (void)row, ranked(arg, 0, weft_partition);
}
static weft_array *call_argpartition(const struct name *row, PyObject *const arg[]) {
  return (void)row, as(ranked(arg, 0, weft_argpartition), WEFT_U32);
}
static weft_array *smallest_first(weft_array *x, int axis, int64_t k) { return weft_flip(weft_topk(x, axis, k), axis); }
static weft_array *call_topk(const struct name *row, PyObject *const arg[]) { return (void)row, ranked(arg, 1, smallest_first); }
/* Of complex numbers: the middle of the order that sort_of has; one with a nan makes it nan. */
static weft_array *median_of(weft_array *a, int axis) {
  if (!is_complex(a)) return weft_median(a, axis);
  if (axis == WEFT_ALL) return weft_squeeze(median_of(weft_reshape(a, 1, (int64_t[]){ WEFT_ANY }), 0), 0);
  int64_t n = weft_dim(a, axis);
  if (n < 0) return raise_no_size(axis), NULL;
  weft_array *y = sort_of(a, axis), *nan = weft_scalar(0.0 / 0.0);
  weft_array *bad = weft_any(weft_or(weft_isnan(weft_real(a)), weft_isnan(weft_imag(a))), axis);
  weft_array *middle = weft_mean(weft_slice(y, axis, (n - 1) / 2, n / 2 + 1, 1), axis);
  return weft_where(bad, weft_complex(nan, nan), middle);
}
/* (a, axis, keepdims) */
static weft_array *call_median(const struct name *row, PyObject *const arg[]) {
  weft_array *x = first(arg);
  for (int k = 0; x && k < weft_rank(x); k++)
    if (weft_dim(x, k) == 0) return PyErr_SetString(PyExc_ValueError, "median: of no elements"), NULL;
  return x ? call_reduce(row, arg) : NULL;
}

/* (a, decimals): both parts of a complex number; integers stay what they are */
static weft_array *call_round_parts(const struct name *row, PyObject *const arg[]) {
  weft_array *x = first(arg);
  if (!x || !is_complex(x)) {
    weft_array *y = x ? call_round(row, arg) : NULL;
    return y && weft_dtype_of(x) <= WEFT_I64 ? weft_cast(y, weft_dtype_of(x)) : y;
  }
  if (PyLong_Check(arg[1]) && PyLong_AsLong(arg[1]) == 0) return weft_complex(weft_round(weft_real(x)), weft_round(weft_imag(x)));
  return PyErr_SetString(PyExc_ValueError, "round: decimals of complex numbers"), NULL;
}

/* (a, b): an integer to a negative power is 0, whatever the integer is */
static weft_array *pow_of(weft_array *a, weft_array *b) {
  weft_array *y = weft_pow(a, b);
  if (weft_dtype_of(y) > WEFT_I64 || weft_dtype_of(y) < WEFT_I8 || weft_check(y)) return y;
  return weft_where(weft_lt(b, weft_integer(0)), weft_cast(weft_integer(0), weft_dtype_of(y)), y);
}

/* (a, part, v): a with the part, which was made from it, set to v */
static weft_array *call_put(const struct name *row, PyObject *const arg[]) {
  (void)row;
  if (!array_check(arg[0]) || !array_check(arg[1]) || !array_check(arg[2]))
    return PyErr_SetString(PyExc_TypeError, "_put: arrays are expected"), NULL;
  weft_array *x = array_handle(arg[0]);
  return weft_put(x, array_handle(arg[1]), weft_cast(array_handle(arg[2]), weft_dtype_of(x)), WEFT_SET);
}

/* ---- The table ---- */

#define S ", *, stream=None)"
#define FUNCTION(name, signature, call, c) { #name, signature, #c, (void (*)(void))c, call, NULL, 0, NULL, NULL, NULL }
#define METHOD(name, signature, call, c) { #name, signature, #c, (void (*)(void))c, call, NULL, 1, NULL, NULL, NULL }
#define OWN(name, signature, call) { #name, signature, "", NULL, call, NULL, 0, NULL, NULL, NULL }
#define OWN_METHOD(name, signature, call) { #name, signature, "", NULL, call, NULL, 1, NULL, NULL, NULL }
#define METHOD_ALONE(name, signature, call, c) { #name, signature, #c, (void (*)(void))c, call, NULL, 2, NULL, NULL, NULL }
#define UNARY(name, c) FUNCTION(name, "(a, /" S, call_unary, c)
#define UNARY_METHOD(name, c) METHOD(name, "(a, /" S, call_unary, c)
#define BINARY(name, c) FUNCTION(name, "(a, b, stream=None)", call_binary, c)
#define REDUCE(name, c) METHOD(name, "(a, /, axis=None, keepdims=False" S, call_reduce, c)
#define SO_FAR(name, c) METHOD(name, "(a, /, axis=None, *, reverse=False, inclusive=True, dtype=None, stream=None)", call_so_far, c)

const struct name mlx_names[] = {
  UNARY_METHOD(abs, weft_abs), UNARY_METHOD(square, weft_square), UNARY_METHOD(sqrt, weft_sqrt),
  UNARY_METHOD(rsqrt, weft_rsqrt), UNARY_METHOD(reciprocal, weft_reciprocal), UNARY_METHOD(exp, weft_exp),
  UNARY_METHOD(log, weft_log), UNARY_METHOD(log2, log2_of), UNARY_METHOD(log10, log10_of),
  UNARY_METHOD(log1p, log1p_of), UNARY_METHOD(sin, weft_sin), UNARY_METHOD(cos, weft_cos),
  METHOD(conj, "(a" S, call_unary, weft_conj), FUNCTION(conjugate, "(a" S, call_unary, weft_conj),
  UNARY(sign, sign_of), UNARY(negative, weft_neg), UNARY(expm1, expm1_of), UNARY(tan, weft_tan),
  UNARY(arcsin, asin_of), UNARY(arccos, acos_of), UNARY(arctan, atan_of), UNARY(sinh, weft_sinh),
  UNARY(cosh, weft_cosh), UNARY(tanh, weft_tanh), UNARY(arcsinh, weft_asinh), UNARY(arccosh, weft_acosh),
  UNARY(arctanh, weft_atanh), UNARY(erf, erf_of), UNARY(erfinv, erfinv_of), UNARY(sigmoid, sigmoid_of),
  UNARY(floor, weft_floor), UNARY(ceil, weft_ceil), UNARY(trunc, weft_trunc), UNARY(real, weft_real),
  UNARY(imag, weft_imag), UNARY(logical_not, weft_logical_not), UNARY(stop_gradient, weft_stop_gradient),
  FUNCTION(isnan, "(a, stream=None)", call_unary, weft_isnan), FUNCTION(isinf, "(a, stream=None)", call_unary, weft_isinf),
  FUNCTION(isfinite, "(a, stream=None)", call_unary, weft_isfinite),
  FUNCTION(bitwise_invert, "(a, stream=None)", call_unary, weft_not),
  OWN(positive, "(a, /" S, call_positive), OWN(degrees, "(a, /" S, call_degrees), OWN(radians, "(a, /" S, call_radians),
  METHOD(round, "(a, /, decimals=0, stream=None)", call_round_parts, weft_round),

  BINARY(add, weft_add), BINARY(subtract, weft_sub), BINARY(multiply, weft_mul), BINARY(divide, weft_div),
  BINARY(floor_divide, weft_floor_divide), BINARY(remainder, weft_remainder), BINARY(power, pow_of),
  BINARY(maximum, maximum_of), BINARY(minimum, minimum_of), BINARY(logaddexp, logaddexp_of),
  BINARY(arctan2, weft_atan2), BINARY(equal, weft_eq), BINARY(not_equal, weft_ne), BINARY(less, weft_lt),
  BINARY(less_equal, weft_le), BINARY(greater, weft_gt), BINARY(greater_equal, weft_ge),
  BINARY(logical_and, weft_logical_and), BINARY(logical_or, weft_logical_or), BINARY(logical_xor, weft_logical_xor),
  BINARY(bitwise_and, weft_and), BINARY(bitwise_or, weft_or), BINARY(bitwise_xor, weft_xor), BINARY(left_shift, weft_shl),
  BINARY(right_shift, weft_shr),
  FUNCTION(where, "(condition, x, y, /" S, call_ternary, weft_where),
  FUNCTION(clip, "(a, /, a_min=None, a_max=None" S, call_clip2, clip_of),
  FUNCTION(isclose, "(a, b, /, rtol=1e-05, atol=1e-08, equal_nan=False, *, stream=None)", call_isclose, weft_isclose),
  FUNCTION(allclose, "(a, b, /, rtol=1e-05, atol=1e-08, equal_nan=False, *, stream=None)", call_isclose, weft_allclose),
  FUNCTION(array_equal, "(a, b, equal_nan=False, stream=None)", call_array_equal, weft_array_equal),

  REDUCE(sum, weft_sum), REDUCE(prod, weft_prod), REDUCE(mean, weft_mean), REDUCE(max, max_of), REDUCE(min, min_of),
  REDUCE(all, weft_all), REDUCE(any, weft_any), REDUCE(logsumexp, weft_logsumexp),
  METHOD(argmax, "(a, /, axis=None, keepdims=False" S, call_arg32, weft_argmax),
  METHOD(argmin, "(a, /, axis=None, keepdims=False" S, call_arg32, weft_argmin),
  METHOD(var, "(a, /, axis=None, keepdims=False, ddof=0" S, call_var, weft_var),
  METHOD(std, "(a, /, axis=None, keepdims=False, ddof=0" S, call_var, weft_std),
  SO_FAR(cumsum, weft_cumsum), SO_FAR(cumprod, weft_cumprod), SO_FAR(cummax, cummax_of), SO_FAR(cummin, cummin_of),
  FUNCTION(sort, "(a, /, axis=-1" S, call_sort, sort_of), FUNCTION(argsort, "(a, /, axis=-1" S, call_argsort32, argsort_of),
  OWN(partition, "(a, /, kth, axis=-1" S, call_partition), OWN(argpartition, "(a, /, kth, axis=-1" S, call_argpartition),
  OWN(topk, "(a, /, k, axis=-1" S, call_topk),
  FUNCTION(median, "(a, /, axis=None, keepdims=False" S, call_median, median_of),
  FUNCTION(searchsorted, "(a, v, /, side='left'" S, call_searchsorted32, search),
  FUNCTION(softmax, "(a, /, axis=None, *, precise=False, stream=None)", call_softmax_of, weft_softmax),

  FUNCTION(reshape, "(a, /, shape" S, call_shaped, weft_reshape),
  METHOD_ALONE(reshape, "(a, /, *shape, stream=None)", call_reshape, weft_reshape),
  METHOD_ALONE(transpose, "(a, /, *axes, stream=None)", call_transpose, weft_transpose),
  FUNCTION(broadcast_to, "(a, /, shape" S, call_broadcast, weft_broadcast),
  FUNCTION(transpose, "(a, /, axes=None" S, call_order, weft_transpose),
  METHOD(moveaxis, "(a, /, source, destination" S, call_moveaxis, weft_moveaxis),
  OWN_METHOD(swapaxes, "(a, /, axis1, axis2" S, call_swapaxes),
  METHOD(squeeze, "(a, /, axis=None" S, call_squeeze, weft_squeeze),
  FUNCTION(expand_dims, "(a, /, axis" S, call_expand_dims, weft_unsqueeze),
  METHOD(flatten, "(a, /, start_axis=0, end_axis=-1" S, call_flatten, weft_flatten),
  FUNCTION(flip, "(a, /, axis=None" S, call_flip, weft_flip),
  METHOD(astype, "(a, dtype, stream=None)", call_cast, weft_cast),
  FUNCTION(concatenate, "(arrays, axis=0" S, call_join, weft_concat),
  FUNCTION(stack, "(arrays, axis=0" S, call_join, weft_stack),
  { "split", "(a, /, indices_or_sections, axis=0" S, "weft_split", (void (*)(void))weft_split, NULL, make_split, 1, NULL,
    NULL, NULL },
  FUNCTION(as_strided, "(a, /, shape=None, strides=None, offset=0" S, call_as_strided, weft_as_strided),
  FUNCTION(pad, "(a, pad_width, mode='constant', constant_values=0" S, call_pad_one, weft_pad),
  FUNCTION(repeat, "(array, repeats, axis=None" S, call_repeat, weft_repeat),
  FUNCTION(tile, "(a, reps, /" S, call_tile, weft_tile),
  FUNCTION(roll, "(a, shift, axis=None, /" S, call_roll, weft_roll),
  METHOD(diag, "(a, /, k=0" S, call_diag, weft_diag),
  METHOD(diagonal, "(a, offset=0, axis1=0, axis2=1, stream=None)", call_diagonal, weft_diagonal),
  FUNCTION(tril, "(x, k=0" S, call_triangle, weft_tril), FUNCTION(triu, "(x, k=0" S, call_triangle, weft_triu),
  FUNCTION(take, "(a, /, indices, axis=None" S, call_take_any, weft_take),

  FUNCTION(matmul, "(a, b, /" S, call_product, weft_matmul),
  OWN(addmm, "(c, a, b, /, alpha=1.0, beta=1.0" S, call_addmm),
  FUNCTION(tensordot, "(a, b, /, axes=2" S, call_tensordot, weft_tensordot),
  FUNCTION(outer, "(a, b, /" S, call_binary, weft_outer),
  FUNCTION(einsum, "(subscripts, *operands, stream=None)", call_einsum, weft_einsum),
  FUNCTION(_conv, "(x, w, stride, padding, dilation, groups, flip, spread)", call_conv, weft_conv),
  FUNCTION(_attention, "(q, k, v, scale, mask)", call_attention, weft_attention),
  FUNCTION(_rms_norm, "(x, weight, eps)", call_rms_norm, weft_rms_norm),
  FUNCTION(_layer_norm, "(x, weight, bias, eps)", call_layer_norm, weft_layer_norm),

  FUNCTION(full, "(shape, vals, dtype=None" S, call_full, weft_full),
  OWN(zeros, "(shape, dtype=float32" S, call_zeros), OWN(ones, "(shape, dtype=float32" S, call_ones),
  FUNCTION(full_like, "(a, vals, dtype=None" S, call_full_like, weft_full_like),
  OWN(zeros_like, "(a, /, dtype=None" S, call_zeros_like), OWN(ones_like, "(a, /, dtype=None" S, call_ones_like),
  FUNCTION(eye, "(n, m=None, k=0, dtype=float32" S, call_eye, weft_eye),
  FUNCTION(tri, "(n, m=None, k=0, dtype=float32" S, call_eye, weft_tri),
  OWN(identity, "(n, dtype=float32" S, call_identity),
  FUNCTION(linspace, "(start, stop, num=50, endpoint=True, dtype=float32, stream=None)", call_linspace, weft_linspace),
  FUNCTION(_arange, "(start, stop=None, step=None, dtype=None)", call_arange, weft_arange),
  FUNCTION(_take_along, "(a, indices, axis)", call_take_along, weft_take_along),
  OWN(_put_along, "(a, indices, values, axis)", call_put_along),
  FUNCTION(_depends, "(a, on, /)", call_depends, weft_depends),
  OWN(_view, "(a, dtype)", call_view_as), OWN(_put, "(a, part, v)", call_put),
  FUNCTION(_complex, "(a, b, /)", call_binary, weft_complex), FUNCTION(_exp2, "(a, /)", call_unary, weft_exp2),
  FUNCTION(_window, "(a, /, start, n, axis=0)", call_window, weft_window),
  FUNCTION(_windows, "(a, /, n, axis, step=1, dilation=1)", call_windows, weft_windows),
  { "result_type", "(*arrays_and_dtypes)", "", NULL, NULL, make_result_type, 0, NULL, NULL, NULL },
  { 0 },
};
