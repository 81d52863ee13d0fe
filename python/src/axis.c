/* axis.c -- reductions and running folds. Those of weft keep the axis they reduce; here it goes unless keepdims. */
#include "names.h"
#include <math.h>
#include <string.h>

typedef weft_array *(*along)(weft_array *, int axis);

int axis_parse(PyObject *o, int rank, int *axis) {
  Py_ssize_t i = PyNumber_AsSsize_t(o, PyExc_OverflowError);
  if (i == -1 && PyErr_Occurred()) return -1;
  if (i < -rank || i >= rank) return raise_no_axis(i, rank), -1;
  *axis = (int)(i < 0 ? i + rank : i);
  return 0;
}

static void sort(int n, int axes[]) { /* by insertion: n is at most WEFT_RANK_MAX */
  for (int i = 1; i < n; i++)
    for (int k = i; k > 0 && axes[k] < axes[k - 1]; k--) {
      int held = axes[k];
      axes[k] = axes[k - 1];
      axes[k - 1] = held;
    }
}

int axes_in_order(PyObject *o, int rank, int *n, int axes[]) {
  int sorted[WEFT_RANK_MAX];
  if (convert_is_index(o)) return *n = 1, axis_parse(o, rank, axes);
  PyObject *list = PySequence_Fast(o, "axis is a number or a sequence of numbers");
  if (!list) return -1;
  Py_ssize_t count = PySequence_Fast_GET_SIZE(list);
  int wrong = count > WEFT_RANK_MAX ? (PyErr_Format(PyExc_ValueError, "%zd axes are too many", count), 1) : 0;
  for (Py_ssize_t i = 0; !wrong && i < count; i++)
    wrong = axis_parse(PySequence_Fast_GET_ITEM(list, i), rank, &axes[i]) != 0;
  Py_DECREF(list);
  if (wrong) return -1;
  *n = (int)count;
  memcpy(sorted, axes, (size_t)count * sizeof *axes);
  sort(*n, sorted);
  for (int i = 1; i < *n; i++)
    if (sorted[i] == sorted[i - 1]) {
      PyErr_Format(PyExc_ValueError, "the axis %d is named twice", sorted[i]);
      return -1;
    }
  return 0;
}

int axes_parse(PyObject *o, int rank, int *n, int axes[]) {
  if (axes_in_order(o, rank, n, axes)) return -1;
  sort(*n, axes);
  return 0;
}

/* What has been folded over these axes, without them, or over all, with them, as keepdims says. */
static weft_array *squeezed(weft_array *y, int n, const int axes[], int keeps) {
  for (int i = n; !keeps && i-- > 0;) y = weft_squeeze(y, axes[i]);
  return y;
}

static weft_array *kept_all(weft_array *y, int rank, int keeps) {
  for (int i = 0; keeps && i < rank; i++) y = weft_unsqueeze(y, 0);
  return y;
}

static weft_array *reduce(along op, weft_array *x, int n, const int axes[], int keeps) {
  return squeezed(n == 1 ? op(x, axes[0]) : weft_over(op, x, n, axes), n, axes, keeps);
}

static weft_array *reduce_all(along op, weft_array *x, int keeps) { return kept_all(op(x, WEFT_ALL), weft_rank(x), keeps); }

/* By a function of one axis. axis: None for all. */
static weft_array *reduced(along op, weft_array *x, PyObject *axis, PyObject *keepdims) {
  int n, axes[WEFT_RANK_MAX], keeps = PyObject_IsTrue(keepdims);
  if (!x || keeps < 0 || (axis != Py_None && axes_parse(axis, weft_rank(x), &n, axes))) return NULL;
  return axis == Py_None ? reduce_all(op, x, keeps) : reduce(op, x, n, axes, keeps);
}

/* The array, in a dtype if one is asked for. */
static weft_array *in_dtype(PyObject *o, PyObject *dtype) {
  weft_dtype d;
  if (dtype != Py_None && dtype_parse(dtype, &d)) return NULL;
  return convert_array(o, dtype == Py_None ? NULL : &d, 0);
}

/* A result in that dtype: sums of small integers have 32 bits. */
static weft_array *out_in(weft_array *x, PyObject *dtype) {
  weft_dtype d;
  return !x || dtype == Py_None ? x : dtype_parse(dtype, &d) ? NULL : weft_cast(x, d);
}

/* (a, axis, keepdims) */
weft_array *call_reduce(const struct name *row, PyObject *const arg[]) {
  return reduced((along)row->function, convert_array(arg[0], NULL, 0), arg[1], arg[2]);
}

/* (a, axis, keepdims, dtype) */
weft_array *call_reduce_in(const struct name *row, PyObject *const arg[]) {
  return out_in(reduced((along)row->function, in_dtype(arg[0], arg[3]), arg[1], arg[2]), arg[3]);
}

/* (a, axis, keepdims), of one axis or of all elements in order */
weft_array *call_arg(const struct name *row, PyObject *const arg[]) {
  weft_array *x = convert_array(arg[0], NULL, 0);
  int n = 1, axes[WEFT_RANK_MAX];
  if (!x || (arg[1] != Py_None && axes_parse(arg[1], weft_rank(x), &n, axes))) return NULL;
  if (n != 1) return PyErr_Format(PyExc_ValueError, "%s: one axis is expected, not %d", row->name, n), NULL;
  return reduced((along)row->function, x, arg[1], arg[2]);
}

/* Without an axis, over all elements in order; not inclusive: of those before each. */
static weft_array *running(along op, weft_array *x, PyObject *axis, PyObject *reverse, PyObject *inclusive) {
  int backwards = PyObject_IsTrue(reverse), counts = PyObject_IsTrue(inclusive), k = 0;
  if (!x || backwards < 0 || counts < 0 || (axis != Py_None && axis_parse(axis, weft_rank(x), &k))) return NULL;
  if (axis == Py_None) x = weft_reshape(x, 1, (int64_t[]){ WEFT_ANY });
  if (counts) return backwards ? weft_backwards(op, x, k) : op(x, k);
  return backwards ? weft_flip(weft_before(op, weft_flip(x, k), k), k) : weft_before(op, x, k);
}

/* (a, axis, reverse, inclusive) */
weft_array *call_running(const struct name *row, PyObject *const arg[]) {
  return running((along)row->function, convert_array(arg[0], NULL, 0), arg[1], arg[2], arg[3]);
}

/* (a, axis, reverse, inclusive, dtype) */
weft_array *call_running_in(const struct name *row, PyObject *const arg[]) {
  return out_in(running((along)row->function, in_dtype(arg[0], arg[4]), arg[1], arg[2], arg[3]), arg[4]);
}

/* The axes that axis names, all for None. */
static int these_axes(PyObject *axis, weft_array *x, int *n, int axes[]) {
  *n = weft_rank(x);
  for (int i = 0; i < *n; i++) axes[i] = i;
  return axis == Py_None ? 0 : axes_parse(axis, *n, n, axes);
}

/* (a, axis): e^a / sum e^a over one axis, or over several as over one */
weft_array *call_softmax(const struct name *row, PyObject *const arg[]) {
  weft_array *x = convert_array(arg[0], NULL, 0);
  int n, axes[WEFT_RANK_MAX];
  (void)row;
  if (!x || these_axes(arg[1], x, &n, axes)) return NULL;
  if (n == 1) return weft_softmax(x, axes[0]);
  weft_array *largest = reduce(weft_logsumexp, x, n, axes, 1); /* or little more; -inf of none, where there is no largest */
  weft_array *shifted = weft_exp(weft_sub(x, weft_stop_gradient(largest)));
  return weft_div(shifted, reduce(weft_sum, shifted, n, axes, 1));
}

/* (a, axis): a - log sum e^a, likewise */
weft_array *call_log_softmax(const struct name *row, PyObject *const arg[]) {
  weft_array *x = convert_array(arg[0], NULL, 0);
  int n, axes[WEFT_RANK_MAX];
  (void)row;
  if (!x || these_axes(arg[1], x, &n, axes)) return NULL;
  return n == 1 ? weft_log_softmax(x, axes[0]) : weft_sub(x, reduce(weft_logsumexp, x, n, axes, 1));
}

/* log sum e^x over any number of axes where it is: what is not counts as -inf. */
static weft_array *logsumexp_over(weft_array *x, weft_array *where, int n, const int axes[], int keeps) {
  weft_array *counted = weft_where(where, x, weft_scalar(-INFINITY));
  return n ? reduce(weft_logsumexp, counted, n, axes, keeps) : counted;
}

/* x - log sum e^x over several axes, -inf where it is not. */
static weft_array *log_softmax_over(weft_array *x, weft_array *where, int n, const int axes[]) {
  return weft_where(where, weft_sub(x, logsumexp_over(x, where, n, axes, 1)), weft_scalar(-INFINITY));
}

/* (a, axis, where): of the elements where it is */
weft_array *call_softmax_where(const struct name *row, PyObject *const arg[]) {
  int is_log = row->function == (void (*)(void))weft_log_softmax, n, axes[WEFT_RANK_MAX];
  if (arg[2] == Py_None) return is_log ? call_log_softmax(row, arg) : call_softmax(row, arg);
  weft_array *x = convert_array(arg[0], NULL, 0), *where = x ? convert_operand(arg[2]) : NULL;
  if (!where || these_axes(arg[1], x, &n, axes)) return NULL;
  if (n != 1) return is_log ? log_softmax_over(x, where, n, axes) : weft_exp(log_softmax_over(x, where, n, axes));
  return is_log ? weft_log_softmax_where(x, where, axes[0]) : weft_softmax_where(x, where, axes[0]);
}

static _Thread_local weft_array *counts;
static weft_array *logsumexp_where(weft_array *x, int axis) { return weft_logsumexp_where(x, counts, axis); }

/* (a, axis, keepdims, where) */
weft_array *call_logsumexp(const struct name *row, PyObject *const arg[]) {
  if (arg[3] == Py_None) return call_reduce(row, arg);
  weft_array *x = convert_array(arg[0], NULL, 0);
  int n = 1, axes[WEFT_RANK_MAX], keeps = PyObject_IsTrue(arg[2]);
  if (!x || keeps < 0 || !(counts = convert_operand(arg[3]))) return NULL;
  if (arg[1] != Py_None && axes_parse(arg[1], weft_rank(x), &n, axes)) return NULL;
  if (n != 1) return logsumexp_over(x, counts, n, axes, keeps);
  return reduced(logsumexp_where, x, arg[1], arg[2]);
}

/* What takes ddof besides the axis, and weft_over passes an axis alone. */
typedef weft_array *spreading(weft_array *, int axis, int64_t ddof);
static _Thread_local struct { spreading *function; int64_t ddof; } spread;
static weft_array *spread_along(weft_array *x, int axis) { return spread.function(x, axis, spread.ddof); }

static weft_array *spread_over(spreading *f, weft_array *x, int n, const int axes[], int64_t ddof) {
  if (n == 1) return f(x, axes[0], ddof);
  if (f == weft_var) return weft_var_over(x, n, axes, ddof);
  if (f == weft_std) return weft_std_over(x, n, axes, ddof);
  spread.function = f, spread.ddof = ddof;
  return weft_over(spread_along, x, n, axes);
}

/* (a, axis, keepdims, ddof) */
weft_array *call_var(const struct name *row, PyObject *const arg[]) {
  weft_array *x = convert_array(arg[0], NULL, 0);
  int n, axes[WEFT_RANK_MAX], keeps = PyObject_IsTrue(arg[2]);
  int64_t ddof;
  if (!x || keeps < 0 || convert_integer(arg[3], &ddof)) return NULL;
  if (arg[1] != Py_None && axes_parse(arg[1], weft_rank(x), &n, axes)) return NULL;
  spreading *f = (spreading *)row->function;
  if (arg[1] == Py_None) return kept_all(f(x, WEFT_ALL, ddof), weft_rank(x), keeps);
  return squeezed(spread_over(f, x, n, axes, ddof), n, axes, keeps);
}

/* (a, axis, keepdims, ddof, correction): another name of ddof, which need not be a whole number: n / (n - correction) times the
 * mean square. */
weft_array *call_var_corrected(const struct name *row, PyObject *const arg[]) {
  if (arg[4] == Py_None) return call_var(row, arg);
  double correction = PyFloat_AsDouble(arg[4]);
  if (correction == -1 && PyErr_Occurred()) return NULL;
  PyObject *none = PyLong_FromLong(0);
  weft_array *x = none ? convert_array(arg[0], NULL, 0) : NULL;
  weft_array *plain = x ? call_var(row, (PyObject *[]){ arg[0], arg[1], arg[2], none }) : NULL;
  Py_XDECREF(none);
  if (!plain || correction == 0) return plain;
  int n, axes[WEFT_RANK_MAX];
  if (these_axes(arg[1], x, &n, axes)) return NULL;
  weft_array *count = weft_integer(1);
  for (int i = 0; i < n; i++) count = weft_mul(count, weft_size(x, axes[i]));
  count = weft_cast(count, WEFT_F64);
  weft_array *factor = weft_div(count, weft_maximum(weft_sub(count, weft_scalar(correction)), weft_scalar(0)));
  if (row->function == (void (*)(void))weft_std) factor = weft_sqrt(factor);
  return weft_cast(weft_mul(plain, factor), weft_dtype_of(plain));
}

/* ---- Order ---- */

/* (a, axis), as the row's function does; without an axis, of all elements in order */
weft_array *call_sort(const struct name *row, PyObject *const arg[]) {
  weft_array *x = convert_array(arg[0], NULL, 0);
  int axis = 0;
  if (!x || (arg[1] != Py_None && axis_parse(arg[1], weft_rank(x), &axis))) return NULL;
  return ((along)row->function)(arg[1] == Py_None ? weft_reshape(x, 1, (int64_t[]){ WEFT_ANY }) : x, axis);
}

/* (a, axis, descending, stable): the other way round equal elements stay as they stood too; nan is first then */
weft_array *call_sort_either(const struct name *row, PyObject *const arg[]) {
  int is_down = PyObject_IsTrue(arg[2]), axis = 0;
  if (is_down <= 0) return is_down < 0 ? NULL : call_sort(row, arg);
  weft_array *x = convert_array(arg[0], NULL, 0);
  if (!x || (arg[1] != Py_None && axis_parse(arg[1], weft_rank(x), &axis))) return NULL;
  if (arg[1] == Py_None) x = weft_reshape(x, 1, (int64_t[]){ WEFT_ANY });
  weft_array *sorted = weft_flip(((along)row->function)(weft_flip(x, axis), axis), axis);
  if (row->function == (void (*)(void))weft_sort) return sorted;
  return weft_sub(weft_cast(weft_sub(weft_size(x, axis), weft_integer(1)), weft_dtype_of(sorted)), sorted);
}

/* (a, k, axis) */
weft_array *call_rank(const struct name *row, PyObject *const arg[]) {
  weft_array *x = convert_array(arg[0], NULL, 0);
  int axis = 0;
  int64_t k;
  if (!x || convert_integer(arg[1], &k) || (arg[2] != Py_None && axis_parse(arg[2], weft_rank(x), &axis))) return NULL;
  if (arg[2] == Py_None) x = weft_reshape(x, 1, (int64_t[]){ WEFT_ANY });
  return ((weft_array * (*)(weft_array *, int, int64_t)) row->function)(x, axis, k);
}

static const char *const methods[] = { "linear", "lower", "higher", "nearest", "midpoint", "inverted_cdf", "averaged_inverted_cdf",
  "closest_observation", "interpolated_inverted_cdf", "hazen", "weibull", "median_unbiased", "normal_unbiased" };

static int method_parse(const char *fn, PyObject *o) {
  for (int i = 0; PyUnicode_Check(o) && i < (int)(sizeof methods / sizeof *methods); i++)
    if (!PyUnicode_CompareWithASCIIString(o, methods[i])) return i;
  PyErr_Format(PyExc_ValueError, "%s: there is no method %R", fn, o);
  return -1;
}

static _Thread_local struct {
  weft_array *(*function)(weft_array *, weft_array *, int, weft_quantile_method);
  weft_array *q;
  int method;
} share;
static weft_array *share_along(weft_array *x, int axis) {
  return share.function(x, share.q, axis, (weft_quantile_method)share.method);
}

/* With these axes as one, the last. */
static weft_array *axes_last(weft_array *x, int n, const int axes[]) {
  int rank = weft_rank(x), order[WEFT_RANK_MAX], at = 0;
  for (int k = 0, i = 0; k < rank; k++)
    if (i < n && axes[i] == k) order[rank - n + i++] = k;
    else order[at++] = k;
  x = weft_transpose(x, order);
  return n ? weft_flatten(x, rank - n, rank - 1) : weft_unsqueeze(x, -1);
}

static weft_array *axes_kept(weft_array *y, int first, int n, const int axes[]) {
  for (int i = 0; i < n; i++) y = weft_unsqueeze(y, first + axes[i]);
  return y;
}

/* y, whose first axis runs through the elements of q, with the axes of q instead. rest has the sizes of the others. */
static weft_array *axes_of(weft_array *q, weft_array *y, weft_array *rest) {
  weft_array *like = weft_cast(q, WEFT_U8);
  for (int k = weft_rank(rest); k > 0; k--) like = weft_unsqueeze(like, -1);
  return weft_reshape_like(y, weft_add(like, rest));
}

/* (a, q, axis, keepdims, method): the axes of q come first */
weft_array *call_quantile(const struct name *row, PyObject *const arg[]) {
  weft_dtype exact = WEFT_F64;
  int is_number = PyFloat_Check(arg[1]) || PyLong_Check(arg[1]), keeps = PyObject_IsTrue(arg[3]), n, axes[WEFT_RANK_MAX];
  weft_array *x = convert_array(arg[0], NULL, 0), *q = NULL;
  if (x) q = is_number ? convert_operand(arg[1]) : convert_array(arg[1], &exact, 0);
  if (!q || keeps < 0 || (share.method = method_parse(row->name, arg[4])) < 0) return NULL;
  share.function = (weft_array * (*)(weft_array *, weft_array *, int, weft_quantile_method)) row->function;
  share.q = q;
  if (weft_rank(x) < 0 || weft_rank(q) <= 0) return reduced(share_along, weft_rank(x) ? x : weft_unsqueeze(x, 0), arg[2], arg[3]);
  if (these_axes(arg[2], x, &n, axes)) return NULL;
  weft_array *last = axes_last(x, n, axes), *sizes = weft_squeeze(weft_sum(weft_cast(weft_full_like(last, 0), WEFT_U8), -1), -1);
  share.q = weft_reshape(q, 1, (int64_t[]){ WEFT_ANY });
  weft_array *y = weft_moveaxis(share_along(last, weft_rank(last) - 1), -1, 0);
  if (keeps) y = axes_kept(y, 1, n, axes), sizes = axes_kept(sizes, 0, n, axes);
  return weft_rank(q) == 1 ? y : axes_of(q, y, weft_cast(sizes, WEFT_U8));
}

/* (a, v, side) */
weft_array *call_searchsorted(const struct name *row, PyObject *const arg[]) {
  int is_left = PyUnicode_Check(arg[2]) && !PyUnicode_CompareWithASCIIString(arg[2], "left");
  int is_right = PyUnicode_Check(arg[2]) && !PyUnicode_CompareWithASCIIString(arg[2], "right");
  weft_array *a[2];
  if (!is_left && !is_right)
    return PyErr_Format(PyExc_ValueError, "searchsorted: the side is 'left' or 'right', not %R", arg[2]), NULL;
  return convert_arrays(2, arg, a) ? ((weft_array *(*)(weft_array *, weft_array *, int))row->function)(a[0], a[1], is_right) : NULL;
}

/* (a, v, side, sorter): of a in the order of sorter */
weft_array *call_searchsorted_by(const struct name *row, PyObject *const arg[]) {
  if (arg[3] == Py_None) return call_searchsorted(row, arg);
  weft_array *a = convert_array(arg[0], NULL, 0), *order = a ? convert_array(arg[3], NULL, 0) : NULL;
  if (!order) return NULL;
  int64_t n = weft_rank(a) == 1 && weft_rank(order) == 1 ? weft_dim(a, 0) : -1, m = n < 0 ? -1 : weft_dim(order, 0);
  if (n >= 0 && m >= 0 && n != m)
    return PyErr_Format(PyExc_ValueError, "searchsorted: a sorter of %lld places for %lld elements", (long long)m,
                        (long long)n), NULL;
  PyObject *sorted = array_wrap(weft_take(a, 1, &order));
  weft_array *found = sorted ? call_searchsorted(row, (PyObject *[]){ sorted, arg[1], arg[2] }) : NULL;
  Py_XDECREF(sorted);
  return found;
}
