/* mlx_table.c -- the names of the package weft.mlx.core that C serves: those of mlx.core, with its arguments. What a row calls is
 * mostly what weft's own row calls; what MLX has otherwise (dtypes of results, arguments, refusals) is a function here. What is
 * rare is written in Python, in weft/mlx/core. The argument stream is a matter of names.c. */
#include <math.h>
#include "mlx.h"

typedef weft_array *(*along)(weft_array *, int axis);
typedef weft_array *(*binary)(weft_array *, weft_array *);

/* ---- What MLX has otherwise ---- */

static weft_array *first(PyObject *const arg[]) { return convert_array(arg[0], NULL, 0); }
static weft_array *as(weft_array *a, weft_dtype d) { return a ? weft_cast(a, d) : NULL; }

/* Functions of numbers or arrays call what is neither a wrong value; those of arrays alone, a wrong type. */
static weft_array *of_numbers(name_call *call, int n, const struct name *row, PyObject *const arg[]) {
  weft_array *y = call(row, arg);
  int has_none = 0;
  for (int i = 0; !y && i < n; i++) has_none |= arg[i] == Py_None;
  if (!y && !has_none) mlx_as_value_error(PyExc_TypeError);
  return y;
}
static weft_array *call_unary_of(const struct name *row, PyObject *const arg[]) { return of_numbers(call_unary, 1, row, arg); }
static weft_array *call_binary_of(const struct name *row, PyObject *const arg[]) { return of_numbers(call_binary, 2, row, arg); }

/* Whether numbers are 0 is asked of each for itself: none has to fit into the dtype of the other. */
static weft_array *of_each(const struct name *row, PyObject *const arg[]) {
  weft_array *a[2];
  return convert_arrays(2, arg, a) ? ((binary)row->function)(a[0], a[1]) : NULL;
}
static weft_array *call_logical_of(const struct name *row, PyObject *const arg[]) { return of_numbers(of_each, 2, row, arg); }

/* (condition, x, y): numbers and the memory of others take the dtype of the other value, never that of the condition */
static weft_array *choose(const struct name *row, PyObject *const arg[]) {
  weft_array *condition, *a[2];
  (void)row;
  return convert_all(2, arg + 1, a) && (condition = convert_array(arg[0], NULL, 0)) ? weft_where(condition, a[0], a[1]) : NULL;
}
static weft_array *call_where_of(const struct name *row, PyObject *const arg[]) { return of_numbers(choose, 3, row, arg); }

static weft_array *call_array_equal_of(const struct name *row, PyObject *const arg[]) {
  return of_numbers(call_array_equal, 2, row, arg);
}

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
  if (!convert_arrays(2, arg, a)) return NULL;
  weft_dtype d = weft_dtype_promote(weft_dtype_of(a[0]), weft_dtype_of(a[1]));
  return d <= WEFT_I64 ? refuse_integers(row->name, d) : ((binary)row->function)(a[0], a[1]);
}

/* (a, b) */
static weft_array *call_pair(const struct name *row, PyObject *const arg[]) {
  weft_array *a[2];
  return convert_arrays(2, arg, a) ? ((binary)row->function)(a[0], a[1]) : NULL;
}

/* (c, a, b, alpha, beta): beta c + alpha a b, in the shape of the product */
static weft_array *call_addmm(const struct name *row, PyObject *const arg[]) {
  double alpha = PyFloat_AsDouble(arg[3]), beta = PyErr_Occurred() ? 0 : PyFloat_AsDouble(arg[4]);
  weft_array *a[3];
  (void)row;
  if (PyErr_Occurred() || !convert_arrays(3, arg, a)) return NULL;
  weft_dtype d = weft_dtype_promote(weft_dtype_of(a[0]), weft_dtype_promote(weft_dtype_of(a[1]), weft_dtype_of(a[2])));
  if (d <= WEFT_I64) return refuse_integers("addmm", d);
  return weft_addmm(weft_broadcast_like(a[0], weft_matmul(a[1], a[2])), a[1], a[2], alpha, beta);
}

/* ---- Weights of few bits: what MLX refuses, and weft does not ---- */

static int is_small_float(weft_dtype d) { return d == WEFT_F16 || d == WEFT_BF16 || d == WEFT_F32; }

/* (w, group_size, bits, mode, global_scale) */
static PyObject *make_quantized(const struct name *row, PyObject *const arg[]) {
  weft_scope *s = op_begin();
  weft_array *w = convert_array(arg[0], NULL, 0);
  weft_dtype d = w ? weft_dtype_of(w) : WEFT_F32;
  int rank = w ? weft_rank(w) : 2;
  weft_scope_discard(s);
  if (!w) return NULL;
  if (rank < 2) return PyErr_Format(PyExc_ValueError, "quantize: a matrix is expected, not an array of %d axes", rank);
  if (!is_small_float(d))
    return PyErr_Format(PyExc_ValueError, "quantize: a matrix of floats is expected, not of %s", dtype_text(d));
  return make_quantize(row, arg);
}

/* (x, words, scales, biases, lhs_indices, rhs_indices, transpose, group_size, bits, mode, global_scale): weft multiplies by codes
 * without a global scale; those that have one are unpacked. */
static weft_array *call_gather_qmm_in(const struct name *row, PyObject *const arg[]) {
  if (arg[10] == Py_None) return call_gather_qmm(row, arg);
  weft_array *w = call_dequantize(row, (PyObject *[]){ arg[1], arg[2], arg[3], arg[7], arg[8], arg[9], arg[10],
                                                       dtype_object(WEFT_F32) });
  weft_array *x = w ? first(arg) : NULL, *at[2] = { NULL, NULL };
  int is_transposed = x ? PyObject_IsTrue(arg[6]) : -1;
  for (int k = 0; k < 2 && is_transposed >= 0; k++)
    if (arg[4 + k] != Py_None && !(at[k] = convert_array(arg[4 + k], NULL, 0))) return NULL;
  if (is_transposed < 0) return NULL;
  weft_array *y = weft_gather_mm(weft_cast(x, WEFT_F32), is_transposed ? weft_moveaxis(w, -1, -2) : w, at[0], at[1]);
  return weft_cast(y, weft_dtype_of(x));
}

/* (x, dtype) */
static weft_array *call_to_fp8(const struct name *row, PyObject *const arg[]) {
  weft_array *x = first(arg);
  (void)row;
  return x ? weft_to_f8(x, WEFT_E4M3) : NULL;
}
static weft_array *call_from_fp8(const struct name *row, PyObject *const arg[]) {
  weft_array *x = first(arg);
  weft_dtype as = WEFT_BF16;
  (void)row;
  return !x || (arg[1] != Py_None && dtype_parse(arg[1], &as)) ? NULL : weft_from_f8(x, WEFT_E4M3, as);
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

/* (a, axis, keepdims): over no axes it is the array as it is, in its own dtype */
static weft_array *call_total(const struct name *row, PyObject *const arg[]) {
  weft_array *x = first(arg);
  int n = x ? weft_rank(x) : 0, axes[WEFT_RANK_MAX];
  if (!x || (arg[1] != Py_None && axes_parse(arg[1], n, &n, axes))) return NULL;
  return n ? call_reduce(row, arg) : x;
}

/* log sum e^x so far, step by step: with the largest of the row taken away from all, e^x of those far below it would be 0. */
static weft_array *logcumsumexp_of(weft_array *x, int axis) {
  if (!mlx_is_complex(x)) return weft_logcumsumexp(x, axis);
  weft_array *none = weft_sub(weft_squeeze(weft_sum(weft_full_like(x, 0), axis), axis), weft_scalar(INFINITY));
  weft_loop *loop = weft_loop_open(NULL);
  weft_array *x_i = weft_loop_each(loop, weft_moveaxis(x, axis, 0));
  weft_array *y = weft_loop_carry(loop, none), *next = mlx_logaddexp(y, x_i);
  weft_loop_next(loop, y, next);
  weft_array *all = weft_loop_all(loop, next);
  weft_loop_close(loop);
  return weft_moveaxis(all, 0, axis);
}

/* The sum so far without the element itself: shifted by one, with what nothing adds up to in front. */
static weft_array *without_itself(weft_array *x, along op, int axis, int backwards) {
  weft_array *start = op == weft_cumsum ? weft_integer(0) : op == weft_cumprod ? weft_integer(1) : NULL;
  weft_dtype d = weft_dtype_of(x);
  if (!start && d > WEFT_I64) start = weft_scalar(op == cummin_of ? 1.0 / 0.0 : -1.0 / 0.0);
  if (!start) {
    int bits = 8 * (int)weft_dtype_bytes(d), is_signed = d >= WEFT_I8, is_max = op == cummax_of;
    int64_t top = (int64_t)(((uint64_t)1 << (bits - 1)) - 1);
    if (d == WEFT_BOOL) start = weft_integer(!is_max);
    else if (!is_signed) start = is_max ? weft_integer(0) : weft_not(weft_cast(weft_integer(0), d));
    else start = weft_integer(is_max ? -top - 1 : top);
  }
  weft_array *more = weft_pad(x, axis, !backwards, backwards, weft_cast(start, d));
  return backwards ? weft_slice(more, axis, 1, WEFT_END, 1) : weft_slice(more, axis, 0, -1, 1);
}

/* x so far (axis, reverse, inclusive): over all elements in order without an axis */
static weft_array *so_far(along op, weft_array *x, PyObject *const arg[]) {
  int backwards = PyObject_IsTrue(arg[1]), is_inclusive = backwards < 0 ? -1 : PyObject_IsTrue(arg[2]), k = 0;
  if (is_inclusive < 0 || (arg[0] != Py_None && axis_parse(arg[0], weft_rank(x), &k))) return NULL;
  if (arg[0] == Py_None) x = weft_reshape(x, 1, (int64_t[]){ WEFT_ANY });
  weft_array *y = backwards ? weft_flip(op(weft_flip(x, k), k), k) : op(x, k);
  weft_dtype d = weft_dtype_of(x); /* narrow integers wrap around as they are; sums of bools alone are wider, logarithms float */
  int is_wider = op == logcumsumexp_of || (d == WEFT_BOOL && op == weft_cumsum);
  if (weft_dtype_of(y) != d && !is_wider) y = weft_cast(y, d);
  return is_inclusive ? y : without_itself(y, op, k, backwards);
}

/* (a, axis, reverse, inclusive, dtype) */
static weft_array *call_so_far(const struct name *row, PyObject *const arg[]) {
  weft_array *x = first(arg);
  weft_dtype d;
  if (!x || (arg[4] != Py_None && dtype_parse(arg[4], &d))) return NULL;
  return so_far((along)row->function, arg[4] == Py_None ? x : mlx_cast(x, d), arg + 1);
}

/* (a, axis, reverse, inclusive) */
static weft_array *call_logcumsumexp(const struct name *row, PyObject *const arg[]) {
  weft_array *x = first(arg);
  return x ? so_far((along)row->function, x, arg + 1) : NULL;
}

/* (a, axis, keepdims, ddof, correction): another name of ddof, which wins */
static weft_array *call_spread(const struct name *row, PyObject *const arg[]) {
  return call_var(row, (PyObject *[]){ arg[0], arg[1], arg[2], arg[4] == Py_None ? arg[3] : arg[4] });
}

/* (a, pad_width, mode, constant_values): the value is one for all */
static weft_array *call_pad_one(const struct name *row, PyObject *const arg[]) {
  if (!array_check(arg[3])) return call_pad(row, arg);
  PyObject *value = array_wrap(unmapped(array_handle(arg[3]), "the value of pad"));
  weft_array *y = value ? call_pad(row, (PyObject *[]){ arg[0], arg[1], arg[2], value }) : NULL;
  Py_XDECREF(value);
  return y;
}

/* (a, lowest, highest): either may be None; each takes the dtype of a, as the operand of an operator does */
static weft_array *between(const struct name *row, PyObject *const arg[]) {
  weft_array *pair[2], *bound[2] = { NULL, NULL };
  (void)row;
  for (int i = 0; i < 2; i++) {
    if (arg[1 + i] == Py_None) continue;
    if (!convert_all(2, (PyObject *[]){ arg[0], arg[1 + i] }, pair)) return NULL;
    bound[i] = pair[1];
  }
  weft_array *x = first(arg);
  return x ? mlx_clip(x, bound[0], bound[1]) : NULL;
}
static weft_array *call_clip2(const struct name *row, PyObject *const arg[]) { return of_numbers(between, 1, row, arg); }

/* (a, dtype) */
static weft_array *call_cast(const struct name *row, PyObject *const arg[]) {
  weft_dtype d;
  (void)row;
  weft_array *x = dtype_parse(arg[1], &d) ? NULL : first(arg);
  return x ? mlx_cast(x, d) : NULL;
}

/* (shape, vals, dtype): arrays keep the dtype they have, and numbers take one that is of their kind */
static weft_array *call_full_of(const struct name *row, PyObject *const arg[]) {
  weft_dtype d;
  PyObject *v = arg[1], *dtype = arg[2];
  if (dtype != Py_None && (dtype_parse(dtype, &d) || !mlx_fits(v, d))) return NULL;
  if (array_check(v)) dtype = Py_None;
  else if (dtype != Py_None && PyLong_Check(v) && !PyBool_Check(v) && d == WEFT_BOOL) dtype = dtype_object(WEFT_I32);
  else if (dtype != Py_None && PyFloat_Check(v) && (d <= WEFT_I64 || d == WEFT_C64 || d == WEFT_C128))
    dtype = dtype_object(WEFT_F32);
  else if (dtype != Py_None && PyComplex_CheckExact(v) && d != WEFT_C128) dtype = dtype_object(WEFT_C64);
  return of_numbers(call_full, 2, row, (PyObject *[]){ arg[0], v, dtype });
}
static weft_array *call_full_like_of(const struct name *row, PyObject *const arg[]) {
  weft_dtype d = array_check(arg[0]) ? weft_dtype_of(array_handle(arg[0])) : WEFT_F32;
  if ((arg[2] != Py_None && dtype_parse(arg[2], &d)) || !mlx_fits(arg[1], d)) return NULL;
  return array_check(arg[0]) ? of_numbers(call_full_like, 2, row, arg) : call_full_like(row, arg);
}
static weft_array *call_degrees_of(const struct name *row, PyObject *const arg[]) { return of_numbers(call_degrees, 1, row, arg); }
static weft_array *call_radians_of(const struct name *row, PyObject *const arg[]) { return of_numbers(call_radians, 1, row, arg); }

/* Sizes below 0 are 0. */
static weft_array *tri_of(weft_dtype d, int64_t n, int64_t m, int64_t k) { return weft_tri(d, n < 0 ? 0 : n, m < 0 ? 0 : m, k); }

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
  int is_one = arg[2] != Py_None ? weft_rank(y) < weft_rank(x) : weft_rank(y) == 0; /* at one place: that axis is gone */
  if (weft_rank(x) > 0 && weft_dim(x, axis) == 0 && (is_one || weft_dim(y, axis) > 0))
    return PyErr_SetString(PyExc_ValueError, "take: from an empty axis"), NULL;
  return y;
}

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
  return mlx_is_complex(a) ? extreme(a, axis, weft_max, -1.0 / 0.0) : weft_max(a, axis);
}
static weft_array *min_of(weft_array *a, int axis) {
  return mlx_is_complex(a) ? extreme(a, axis, weft_min, 1.0 / 0.0) : weft_min(a, axis);
}

/* log sum e^a of complex numbers, too, from the largest on. */
static weft_array *logsumexp_of(weft_array *a, int axis) {
  if (!mlx_is_complex(a)) return weft_logsumexp(a, axis);
  weft_array *most = weft_stop_gradient(max_of(a, axis));
  weft_array *from = weft_sub(a, axis == WEFT_ALL ? weft_broadcast_like(most, a) : most);
  return weft_add(weft_log(weft_sum(weft_exp(from), axis)), most);
}

/* (a, axis, precise) */
static weft_array *call_softmax_of(const struct name *row, PyObject *const arg[]) {
  const struct name total = { .function = (void (*)(void))logsumexp_of };
  weft_array *x = first(arg), *sum = x && mlx_is_complex(x) ? call_reduce(&total, (PyObject *[]){ arg[0], arg[1], Py_True }) : NULL;
  return !x ? NULL : mlx_is_complex(x) ? (sum ? weft_exp(weft_sub(x, sum)) : NULL) : call_softmax(row, arg);
}

/* Where it is, the first of several. */
static weft_array *place_of_extreme(weft_array *a, int axis, along op, along place, double worst) {
  weft_array *re = weft_real(a), *most = op(re, axis);
  if (axis == WEFT_ALL) most = weft_broadcast_like(most, re);
  return place(weft_where(weft_eq(re, most), weft_imag(a), weft_scalar(worst)), axis);
}
static weft_array *argmax_of(weft_array *a, int axis) {
  return mlx_is_complex(a) ? place_of_extreme(a, axis, weft_max, weft_argmax, -1.0 / 0.0) : weft_argmax(a, axis);
}
static weft_array *argmin_of(weft_array *a, int axis) {
  return mlx_is_complex(a) ? place_of_extreme(a, axis, weft_min, weft_argmin, 1.0 / 0.0) : weft_argmin(a, axis);
}

/* In order by the real part, then by the imaginary one: two sorts, of which the second keeps the order of the first. */
static weft_array *argsort_of(weft_array *a, int axis) {
  if (!mlx_is_complex(a)) return weft_argsort(weft_dtype_of(a) > WEFT_I64 ? weft_add(a, weft_scalar(0)) : a, axis); /* -0 is 0 */
  weft_array *nan = weft_scalar(0.0 / 0.0), *is_nan = weft_or(weft_isnan(weft_real(a)), weft_isnan(weft_imag(a)));
  weft_array *first = weft_argsort(weft_imag(a), axis), *re = weft_where(is_nan, nan, weft_real(a));
  return weft_take_along(first, axis, weft_argsort(weft_take_along(re, axis, first), axis));
}
static weft_array *sort_of(weft_array *a, int axis) {
  return mlx_is_complex(a) ? weft_take_along(a, axis, argsort_of(a, axis)) : weft_sort(a, axis);
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
/* MLX says nothing about the order on either side: where all are sorted as soon, they are. */
static int is_sorted_as_soon(weft_array *x, int axis) {
  return mlx_is_complex(x) || (weft_dim(x, axis) >= 0 && weft_dim(x, axis) <= 4096);
}
static weft_array *partition_of(weft_array *x, int axis, int64_t k) {
  return is_sorted_as_soon(x, axis) ? sort_of(x, axis) : weft_partition(x, axis, k);
}
static weft_array *argpartition_of(weft_array *x, int axis, int64_t k) {
  return is_sorted_as_soon(x, axis) ? argsort_of(x, axis) : weft_argpartition(x, axis, k);
}
static weft_array *call_partition(const struct name *row, PyObject *const arg[]) {
  return (void)row, ranked(arg, 0, partition_of);
}
static weft_array *call_argpartition(const struct name *row, PyObject *const arg[]) {
  return (void)row, as(ranked(arg, 0, argpartition_of), WEFT_U32);
}
static weft_array *smallest_first(weft_array *x, int axis, int64_t k) {
  if (!mlx_is_complex(x)) return weft_flip(weft_topk(x, axis, k), axis);
  return weft_slice(sort_of(x, axis), axis, weft_dim(x, axis) - k, WEFT_END, 1);
}
static weft_array *call_topk(const struct name *row, PyObject *const arg[]) { return (void)row, ranked(arg, 1, smallest_first); }
/* Of complex numbers: the middle of the order that sort_of has; one with a nan makes it nan. */
static weft_array *median_of(weft_array *a, int axis) {
  if (!mlx_is_complex(a)) return weft_median(a, axis);
  if (axis == WEFT_ALL) return weft_squeeze(median_of(weft_reshape(a, 1, (int64_t[]){ WEFT_ANY }), 0), 0);
  int64_t n = weft_dim(a, axis);
  if (n < 0) return raise_no_size(a, axis), NULL;
  weft_array *y = sort_of(a, axis), *nan = weft_scalar(0.0 / 0.0);
  weft_array *bad = weft_any(weft_or(weft_isnan(weft_real(a)), weft_isnan(weft_imag(a))), axis);
  weft_array *middle = weft_mean(weft_slice(y, axis, (n - 1) / 2, n / 2 + 1, 1), axis);
  return weft_where(bad, weft_complex(nan, nan), middle);
}
/* (a, axis, keepdims) */
static weft_array *call_median(const struct name *row, PyObject *const arg[]) {
  weft_array *x = first(arg);
  int n = x ? weft_rank(x) : 0, axes[WEFT_RANK_MAX];
  for (int k = 0; k < n; k++) axes[k] = k;
  if (!x || (arg[1] != Py_None && axes_parse(arg[1], n, &n, axes))) return NULL;
  for (int k = 0; k < n; k++)
    if (weft_dim(x, axes[k]) == 0) return PyErr_SetString(PyExc_ValueError, "median: of no elements"), NULL;
  return call_reduce(row, arg);
}

/* (a, decimals): both parts of a complex number; integers stay what they are */
static weft_array *call_round_parts(const struct name *row, PyObject *const arg[]) {
  weft_array *x = first(arg);
  if (!x || !mlx_is_complex(x)) {
    weft_array *y = x ? call_round(row, arg) : NULL;
    return y && weft_dtype_of(x) <= WEFT_I64 ? weft_cast(y, weft_dtype_of(x)) : y;
  }
  if (PyLong_Check(arg[1]) && PyLong_AsLong(arg[1]) == 0) return weft_complex(weft_round(weft_real(x)), weft_round(weft_imag(x)));
  return PyErr_SetString(PyExc_ValueError, "round: decimals of complex numbers"), NULL;
}

/* (arrays, axis) */
static weft_array *call_join_at(const struct name *row, PyObject *const arg[]) {
  PyObject *parts = PySequence_Fast(arg[0], "a list of arrays is expected");
  PyObject *one = parts && PySequence_Fast_GET_SIZE(parts) ? PySequence_Fast_GET_ITEM(parts, 0) : NULL;
  int is_new = (binary)row->function == (binary)weft_stack, axis, wrong = !parts;
  if (one && array_check(one) && arg[1] != Py_None) wrong = axis_parse(arg[1], weft_rank(array_handle(one)) + is_new, &axis);
  weft_array *y = wrong ? NULL : call_join(row, arg);
  Py_XDECREF(parts);
  return y;
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
#define DESCRIBED(name, signature, call, c, doc, example, result) \
  { #name, signature, #c, (void (*)(void))c, call, NULL, 0, doc, example, result }
#define UNARY(name, c) FUNCTION(name, "(a, /" S, call_unary_of, c)
#define UNARY_METHOD(name, c) METHOD(name, "(a, /" S, call_unary_of, c)
#define BINARY(name, c) FUNCTION(name, "(a, b, stream=None)", call_binary_of, c)
#define LOGICAL(name) FUNCTION(name, "(a, b, stream=None)", call_logical_of, weft_##name)
#define REDUCE(name, c) METHOD(name, "(a, /, axis=None, keepdims=False" S, call_reduce, c)
#define TOTAL(name, c) METHOD(name, "(a, /, axis=None, keepdims=False" S, call_total, c)
#define SO_FAR(name, c) METHOD(name, "(a, /, axis=None, *, reverse=False, inclusive=True, dtype=None, stream=None)", call_so_far, c)

const struct name mlx_names[] = {
  UNARY_METHOD(abs, weft_abs), UNARY_METHOD(square, weft_square), UNARY_METHOD(sqrt, weft_sqrt),
  UNARY_METHOD(rsqrt, weft_rsqrt), UNARY_METHOD(reciprocal, weft_reciprocal), UNARY_METHOD(exp, weft_exp),
  UNARY_METHOD(log, weft_log), UNARY_METHOD(log2, mlx_log2), UNARY_METHOD(log10, mlx_log10),
  UNARY_METHOD(log1p, mlx_log1p), UNARY_METHOD(sin, weft_sin), UNARY_METHOD(cos, weft_cos),
  METHOD(conj, "(a" S, call_unary_of, weft_conj), 
  DESCRIBED(conjugate, "(a" S, call_unary_of, weft_conj, "the complex conjugate", "conjugate(1 + 2j)", "(1-2j)"),
  UNARY(sign, mlx_sign), UNARY(negative, weft_neg), UNARY(expm1, mlx_expm1), UNARY(tan, weft_tan),
  UNARY(arcsin, mlx_asin), UNARY(arccos, mlx_acos), UNARY(arctan, mlx_atan), UNARY(sinh, weft_sinh),
  UNARY(cosh, weft_cosh), UNARY(tanh, weft_tanh), UNARY(arcsinh, mlx_asinh), UNARY(arccosh, mlx_acosh),
  UNARY(arctanh, mlx_atanh), UNARY(erf, mlx_erf), UNARY(erfinv, mlx_erfinv), UNARY(sigmoid, mlx_sigmoid),
  UNARY(floor, weft_floor), UNARY(ceil, weft_ceil), UNARY(trunc, weft_trunc), UNARY(real, weft_real),
  UNARY(imag, weft_imag), UNARY(logical_not, weft_logical_not), FUNCTION(stop_gradient, "(a, /" S, call_unary, weft_stop_gradient),
  FUNCTION(isnan, "(a, stream=None)", call_unary_of, weft_isnan), FUNCTION(isinf, "(a, stream=None)", call_unary_of, weft_isinf),
  FUNCTION(isfinite, "(a, stream=None)", call_unary_of, weft_isfinite),
  FUNCTION(bitwise_invert, "(a, stream=None)", call_unary_of, weft_not),
  OWN(positive, "(a, /" S, call_positive), OWN(degrees, "(a, /" S, call_degrees_of), OWN(radians, "(a, /" S, call_radians_of),
  METHOD(round, "(a, /, decimals=0, stream=None)", call_round_parts, weft_round),

  BINARY(add, weft_add), BINARY(subtract, weft_sub), BINARY(multiply, weft_mul), BINARY(divide, weft_div),
  BINARY(floor_divide, mlx_floor_divide), BINARY(remainder, weft_remainder), BINARY(power, mlx_power),
  BINARY(maximum, mlx_maximum), BINARY(minimum, mlx_minimum), BINARY(logaddexp, mlx_logaddexp),
  BINARY(arctan2, weft_atan2), BINARY(equal, weft_eq), BINARY(not_equal, weft_ne), BINARY(less, mlx_less),
  BINARY(less_equal, mlx_less_equal), BINARY(greater, mlx_greater), BINARY(greater_equal, mlx_greater_equal),
  LOGICAL(logical_and), LOGICAL(logical_or), LOGICAL(logical_xor),
  BINARY(bitwise_and, mlx_and), BINARY(bitwise_or, mlx_or), BINARY(bitwise_xor, mlx_xor), BINARY(left_shift, mlx_left_shift),
  BINARY(right_shift, mlx_right_shift),
  FUNCTION(where, "(condition, x, y, /" S, call_where_of, weft_where),
  FUNCTION(clip, "(a, /, a_min=None, a_max=None" S, call_clip2, mlx_clip),
  FUNCTION(isclose, "(a, b, /, rtol=1e-05, atol=1e-08, equal_nan=False, *, stream=None)", call_isclose, weft_isclose),
  FUNCTION(allclose, "(a, b, /, rtol=1e-05, atol=1e-08, equal_nan=False, *, stream=None)", call_isclose, weft_allclose),
  FUNCTION(array_equal, "(a, b, equal_nan=False, stream=None)", call_array_equal_of, weft_array_equal),

  TOTAL(sum, weft_sum), TOTAL(prod, weft_prod), REDUCE(mean, weft_mean), REDUCE(max, max_of), REDUCE(min, min_of),
  REDUCE(all, weft_all), REDUCE(any, weft_any), REDUCE(logsumexp, logsumexp_of),
  METHOD(argmax, "(a, /, axis=None, keepdims=False" S, call_arg32, argmax_of),
  METHOD(argmin, "(a, /, axis=None, keepdims=False" S, call_arg32, argmin_of),
  METHOD(var, "(a, /, axis=None, keepdims=False, ddof=0, *, correction=None, stream=None)", call_spread, weft_var),
  METHOD(std, "(a, /, axis=None, keepdims=False, ddof=0, *, correction=None, stream=None)", call_spread, weft_std),
  SO_FAR(cumsum, weft_cumsum), SO_FAR(cumprod, weft_cumprod), SO_FAR(cummax, cummax_of), SO_FAR(cummin, cummin_of),
  METHOD(logcumsumexp, "(a, /, axis=None, *, reverse=False, inclusive=True, stream=None)", call_logcumsumexp, logcumsumexp_of),
  FUNCTION(sort, "(a, /, axis=-1" S, call_sort, sort_of), FUNCTION(argsort, "(a, /, axis=-1" S, call_argsort32, argsort_of),
  OWN(partition, "(a, /, kth, axis=-1" S, call_partition), OWN(argpartition, "(a, /, kth, axis=-1" S, call_argpartition),
  DESCRIBED(topk, "(a, /, k, axis=-1" S, call_topk, weft_topk, "the k largest along the axis, the smallest of them first",
            "topk([3, 1, 2], 2)", "[2, 3]"),
  FUNCTION(median, "(a, /, axis=None, keepdims=False" S, call_median, median_of),
  FUNCTION(searchsorted, "(sorted_sequence, values, /, side='left'" S, call_searchsorted32, search),
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
  FUNCTION(concatenate, "(arrays, axis=0" S, call_join_at, weft_concat),
  FUNCTION(stack, "(arrays, axis=0" S, call_join_at, weft_stack),
  { "split", "(a, /, indices_or_sections, axis=0" S, "weft_split", (void (*)(void))weft_split, NULL, make_split, 1, NULL,
    NULL, NULL },
  FUNCTION(as_strided, "(a, /, shape=None, strides=None, offset=0" S, call_as_strided, weft_as_strided),
  FUNCTION(pad, "(a, pad_width, mode='constant', constant_values=0" S, call_pad_one, weft_pad),
  FUNCTION(repeat, "(array, repeats, axis=None" S, call_repeat, weft_repeat),
  FUNCTION(tile, "(a, reps, /" S, call_tile, weft_tile),
  FUNCTION(roll, "(a, shift, axis=None" S, call_roll, weft_roll),
  METHOD(diag, "(a, /, k=0" S, call_diag, weft_diag),
  METHOD(diagonal, "(a, offset=0, axis1=0, axis2=1, stream=None)", call_diagonal, weft_diagonal),
  FUNCTION(tril, "(x, k=0" S, call_triangle, weft_tril), FUNCTION(triu, "(x, k=0" S, call_triangle, weft_triu),
  FUNCTION(take, "(a, /, indices, axis=None" S, call_take_any, weft_take),

  DESCRIBED(matmul, "(a, b, /" S, call_product, weft_matmul, "the matrix product, of floats",
            "matmul([[1.0, 2.0], [3.0, 4.0]], [1.0, 1.0])", "[3.0, 7.0]"),
  OWN(addmm, "(c, a, b, /, alpha=1.0, beta=1.0" S, call_addmm),
  { "quantize", "(w, /, group_size=None, bits=None, mode='affine', *, global_scale=None, stream=None)", "weft_quantize", NULL, NULL,
    make_quantized, 0, "[packed, scales, biases] of a matrix, or [packed, scales] in the modes of small floats",
    "quantize(mx.zeros((1, 32)), mode='mxfp4')[1]", "[[127]]" },
  FUNCTION(dequantize, "(w, /, scales, biases=None, group_size=None, bits=None, mode='affine', global_scale=None, dtype=None" S,
    call_dequantize, weft_dequantize),
  FUNCTION(quantized_matmul, "(x, w, /, scales, biases=None, transpose=True, group_size=None, bits=None, mode='affine'" S,
    call_quantized_matmul, weft_quantized_matmul),
  FUNCTION(gather_qmm, "(x, w, /, scales, biases=None, lhs_indices=None, rhs_indices=None, transpose=True, group_size=None, "
    "bits=None, mode='affine', global_scale=None, *, sorted_indices=False, stream=None)", call_gather_qmm_in, weft_gather_qmm),
  DESCRIBED(to_fp8, "(x" S, call_to_fp8, weft_to_f8, "the nearest e4m3 float, as a uint8", "to_fp8(mx.array([1.0]))",
    "[56]"),
  DESCRIBED(from_fp8, "(x, dtype=None" S, call_from_fp8, weft_from_f8, "the numbers of e4m3 bytes",
    "from_fp8(mx.array([56], mx.uint8), mx.float32)", "[1.0]"),
  FUNCTION(tensordot, "(a, b, /, axes=2" S, call_tensordot, weft_tensordot),
  FUNCTION(outer, "(a, b, /" S, call_pair, weft_outer),
  FUNCTION(einsum, "(subscripts, *operands, stream=None)", call_einsum, weft_einsum),
  FUNCTION(_conv, "(x, w, stride, padding, dilation, groups, flip, spread)", call_conv, weft_conv),
  FUNCTION(_attention, "(q, k, v, scale, mask)", call_attention, weft_attention),
  FUNCTION(_hadamard, "(x, scale)", call_hadamard, weft_hadamard),
  FUNCTION(_fft, "(x, inverse, scale)", call_fft, weft_fft),
  FUNCTION(_irfft, "(x, n, scale)", call_irfft, weft_irfft),
  FUNCTION(_rope, "(x, dims, traditional, base, scale, offset, freqs)", call_rope, weft_rope),
  FUNCTION(_rms_norm, "(x, weight, eps)", call_rms_norm, weft_rms_norm),
  FUNCTION(_layer_norm, "(x, weight, bias, eps)", call_layer_norm, weft_layer_norm),

  FUNCTION(full, "(shape, vals, dtype=None" S, call_full_of, weft_full),
  OWN(zeros, "(shape, dtype=float32" S, call_zeros), OWN(ones, "(shape, dtype=float32" S, call_ones),
  FUNCTION(full_like, "(a, vals, dtype=None" S, call_full_like_of, weft_full_like),
  OWN(zeros_like, "(a, /, dtype=None" S, call_zeros_like), OWN(ones_like, "(a, /, dtype=None" S, call_ones_like),
  FUNCTION(eye, "(n, m=None, k=0, dtype=float32" S, call_eye, weft_eye),
  FUNCTION(tri, "(n, m=None, k=0, dtype=float32" S, call_eye, tri_of),
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
