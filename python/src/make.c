/* make.c -- arrays out of nothing: constants, ranges; and the norms and attention, which take options. */
#include "names.h"

/* The dtype an argument names; the other one for None. */
static int dtype_or(PyObject *o, weft_dtype other, weft_dtype *d) { return o == Py_None ? (*d = other, 0) : dtype_parse(o, d); }

static int shape_of(PyObject *o, int *rank, int64_t dims[]) {
  if (convert_shape(o, rank, dims)) return -1;
  for (int i = 0; i < *rank; i++)
    if (dims[i] < 0) return PyErr_Format(PyExc_ValueError, "the size %lld of axis %d is negative", (long long)dims[i], i), -1;
  return 0;
}

/* 0 or 1 of a dtype that has them: part of the program, and not one of its inputs, as other numbers are. -1: none. */
static int constant(PyObject *value, weft_dtype d) {
  if (!PyLong_CheckExact(value) || d == WEFT_C64 || d == WEFT_C128) return -1;
  int overflow;
  long v = PyLong_AsLongAndOverflow(value, &overflow);
  return !overflow && (v == 0 || v == 1) ? (int)v : -1;
}

/* (shape, fill_value, dtype) */
weft_array *call_full(const struct name *row, PyObject *const arg[]) {
  int rank;
  int64_t dims[WEFT_RANK_MAX];
  weft_dtype d;
  weft_array *like;
  (void)row;
  if (arg[2] != Py_None && dtype_parse(arg[2], &d)) return NULL;
  int is_open = convert_sized(arg[0], WEFT_U8, NULL, &like);
  weft_array *all = is_open > 0 ? convert_array(arg[1], arg[2] == Py_None ? NULL : &d, 0) : NULL;
  if (is_open) return all ? weft_broadcast_like(all, like) : NULL;
  if (shape_of(arg[0], &rank, dims)) return NULL;
  int known = arg[2] == Py_None ? -1 : constant(arg[1], d);
  if (known >= 0) return weft_full(d, rank, dims, known);
  weft_array *v = convert_array(arg[1], arg[2] == Py_None ? NULL : &d, 0);
  return v ? weft_broadcast(v, rank, dims) : NULL;
}

static weft_array *filled(PyObject *const arg[], double value) {
  int rank;
  int64_t dims[WEFT_RANK_MAX];
  weft_dtype d;
  weft_array *zeros;
  if (dtype_or(arg[1], WEFT_F32, &d)) return NULL;
  int is_open = convert_sized(arg[0], d, NULL, &zeros);
  if (is_open) return is_open < 0 || value == 0 ? is_open < 0 ? NULL : zeros : weft_full_like(zeros, value);
  return shape_of(arg[0], &rank, dims) ? NULL : weft_full(d, rank, dims, value);
}
/* (shape, dtype) */
weft_array *call_zeros(const struct name *row, PyObject *const arg[]) { return (void)row, filled(arg, 0); }
weft_array *call_ones(const struct name *row, PyObject *const arg[]) { return (void)row, filled(arg, 1); }

static weft_array *like_in(PyObject *o, PyObject *dtype, weft_dtype *d) {
  weft_array *like = convert_array(o, NULL, 0);
  return like && !dtype_or(dtype, weft_dtype_of(like), d) ? like : NULL;
}

/* (a, fill_value, dtype) */
weft_array *call_full_like(const struct name *row, PyObject *const arg[]) {
  weft_dtype d;
  (void)row;
  weft_array *like = like_in(arg[0], arg[2], &d);
  int known = like ? constant(arg[1], d) : -1;
  if (!like || known >= 0) return like ? weft_full_like(weft_cast(like, d), known) : NULL;
  weft_array *v = convert_array(arg[1], &d, 0);
  return v ? weft_broadcast_like(v, like) : NULL;
}

/* (a, dtype) */
weft_array *call_zeros_like(const struct name *row, PyObject *const arg[]) {
  weft_dtype d;
  (void)row;
  weft_array *like = like_in(arg[0], arg[1], &d);
  return like ? weft_full_like(weft_cast(like, d), 0) : NULL;
}
weft_array *call_ones_like(const struct name *row, PyObject *const arg[]) {
  weft_dtype d;
  (void)row;
  weft_array *like = like_in(arg[0], arg[1], &d);
  return like ? weft_full_like(weft_cast(like, d), 1) : NULL;
}

/* ---- Ranges ---- */

/* An end or a step: a whole number if it is one, else a float. */
struct bound { int is_whole; int64_t whole; double value; };

static int bound_of(PyObject *o, struct bound *b) {
  PyObject *i = PyIndex_Check(o) ? PyNumber_Index(o) : NULL;
  if (!i && PyErr_Occurred() && !PyErr_ExceptionMatches(PyExc_TypeError)) return -1;
  PyErr_Clear();
  b->is_whole = i != NULL;
  if (i) b->whole = PyLong_AsLongLong(i);
  b->value = i ? (double)b->whole : PyFloat_AsDouble(o);
  Py_XDECREF(i);
  return PyErr_Occurred() ? -1 : 0;
}

/* Whole numbers are exact, also beyond 2^53, which weft_arange, a function of doubles, is not. */
static weft_array *whole_range(int64_t start, int64_t stop, int64_t step, const weft_dtype *wanted) {
  __int128 distance = (__int128)stop - start, n = (distance + (step > 0 ? step - 1 : step + 1)) / step;
  int is_large = start < -INT32_MAX || start > INT32_MAX || stop < -INT32_MAX || stop > INT32_MAX;
  weft_array *i = weft_iota(weft_full(WEFT_I64, 1, (int64_t[]){ n > 0 ? (int64_t)n : 0 }, 0), 0);
  weft_array *values = weft_add(weft_mul(i, weft_integer(step)), weft_integer(start));
  return weft_cast(values, wanted ? *wanted : is_large ? WEFT_I64 : WEFT_I32);
}

/* Whether an end is a 0-d array of integers, of which others may be numbers. */
static int is_open_bound(PyObject *o) {
  return array_check(o) && !weft_rank(array_handle(o)) && weft_dtype_of(array_handle(o)) <= WEFT_I64;
}

/* Of computed integers: as many as there are when they are known, -floor((start - stop) / step). */
static weft_array *open_range(PyObject *const arg[]) {
  weft_array *a[3];
  weft_dtype d;
  PyObject *zero = PyLong_FromLong(0), *one = PyLong_FromLong(1);
  int has_start = arg[1] != Py_None;
  PyObject *const given[] = { has_start ? arg[0] : zero, has_start ? arg[1] : arg[0], arg[2] == Py_None ? one : arg[2] };
  int failed = !zero || !one || (arg[3] != Py_None && dtype_parse(arg[3], &d)) || !convert_all(3, given, a);
  Py_XDECREF(zero);
  Py_XDECREF(one);
  if (failed) return NULL;
  if (arg[3] == Py_None) d = weft_dtype_of(weft_add(weft_add(a[0], a[1]), a[2]));
  for (int k = 0; k < 3; k++) a[k] = weft_cast(a[k], WEFT_I64);
  weft_array *n = weft_maximum(weft_neg(weft_floor_divide(weft_sub(a[0], a[1]), a[2])), weft_integer(0));
  return weft_cast(weft_add(weft_mul(weft_iota(weft_sized(WEFT_I64, 1, &n), 0), a[2]), a[0]), d);
}

/* (start, stop, step, dtype) */
weft_array *call_arange(const struct name *row, PyObject *const arg[]) {
  struct bound start = { 1, 0, 0 }, stop, step = { 1, 1, 1 };
  weft_dtype d;
  (void)row;
  if (is_open_bound(arg[0]) || is_open_bound(arg[1]) || is_open_bound(arg[2])) return open_range(arg);
  if (arg[1] == Py_None ? bound_of(arg[0], &stop) : bound_of(arg[0], &start) || bound_of(arg[1], &stop)) return NULL;
  if ((arg[2] != Py_None && bound_of(arg[2], &step)) || (arg[3] != Py_None && dtype_parse(arg[3], &d))) return NULL;
  if (step.value == 0) return PyErr_SetString(PyExc_ValueError, "arange: the step is 0"), NULL;
  if (start.is_whole && stop.is_whole && step.is_whole)
    return whole_range(start.whole, stop.whole, step.whole, arg[3] == Py_None ? NULL : &d);
  return weft_arange(arg[3] == Py_None ? WEFT_F32 : d, start.value, stop.value, step.value);
}

/* (start, stop, num, endpoint, dtype); without the end: one more, which is left out */
weft_array *call_linspace(const struct name *row, PyObject *const arg[]) {
  double start = PyFloat_AsDouble(arg[0]), stop = PyErr_Occurred() ? 0 : PyFloat_AsDouble(arg[1]);
  int64_t n;
  weft_dtype d;
  (void)row;
  if (PyErr_Occurred() || convert_integer(arg[2], &n) || dtype_or(arg[4], WEFT_F32, &d)) return NULL;
  int ends = PyObject_IsTrue(arg[3]);
  if (n < 0) return PyErr_Format(PyExc_ValueError, "linspace: %lld values", (long long)n), NULL;
  return ends < 0 ? NULL : ends ? weft_linspace(d, start, stop, n) : weft_slice(weft_linspace(d, start, stop, n + 1), 0, 0, n, 1);
}

/* (n, m, k, dtype): as the row's function does */
weft_array *call_eye(const struct name *row, PyObject *const arg[]) {
  int64_t n, m, k;
  weft_dtype d;
  if (convert_integer(arg[0], &n) || convert_integer(arg[1] == Py_None ? arg[0] : arg[1], &m)) return NULL;
  if (convert_integer(arg[2], &k) || dtype_or(arg[3], WEFT_F32, &d)) return NULL;
  return ((weft_array * (*)(weft_dtype, int64_t, int64_t, int64_t)) row->function)(d, n, m, k);
}

/* (n, dtype) */
weft_array *call_identity(const struct name *row, PyObject *const arg[]) {
  int64_t n;
  weft_dtype d;
  (void)row;
  return convert_integer(arg[0], &n) || dtype_or(arg[1], WEFT_F32, &d) ? NULL : weft_eye(d, n, n, 0);
}

/* ---- Norms and attention ---- */

/* n objects as arrays, NULL for None. */
static int optional(int n, PyObject *const o[], weft_array *a[]) {
  for (int i = 0; i < n; i++) {
    a[i] = o[i] == Py_None ? NULL : convert_operand(o[i]);
    if (o[i] != Py_None && !a[i]) return -1;
  }
  return 0;
}

/* (x, weight, eps) */
weft_array *call_rms_norm(const struct name *row, PyObject *const arg[]) {
  double eps = PyFloat_AsDouble(arg[2]);
  weft_array *a[2];
  (void)row;
  return PyErr_Occurred() || optional(2, arg, a) ? NULL : weft_rms_norm(a[0], a[1], eps);
}

/* (x, weight, bias, eps) */
weft_array *call_layer_norm(const struct name *row, PyObject *const arg[]) {
  double eps = PyFloat_AsDouble(arg[3]);
  weft_array *a[3];
  (void)row;
  return PyErr_Occurred() || optional(3, arg, a) ? NULL : weft_layer_norm(a[0], a[1], a[2], eps);
}

/* (q, k, v, scale, mask) */
weft_array *call_attention(const struct name *row, PyObject *const arg[]) {
  weft_array *x[3];
  weft_attention_options how = { 0 };
  PyObject *scale = arg[3], *mask = arg[4];
  (void)row;
  if (scale != Py_None && (how.scale = PyFloat_AsDouble(scale)) == -1 && PyErr_Occurred()) return NULL;
  how.is_causal = PyUnicode_Check(mask);
  if (how.is_causal && PyUnicode_CompareWithASCIIString(mask, "causal"))
    return PyErr_Format(PyExc_ValueError, "attention: the mask is an array, 'causal' or None, not %R", mask), NULL;
  if (optional(3, arg, x) || (!how.is_causal && optional(1, &mask, &how.mask))) return NULL;
  return weft_attention(x[0], x[1], x[2], &how);
}
