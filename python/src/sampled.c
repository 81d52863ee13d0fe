/* sampled.c -- values at points of an axis: differences, integrals, lines between points, products with what is moved along. */
#include "names.h"

/* n objects as arrays, NULL for None. */
static int optional(int n, PyObject *const o[], weft_array *a[]) {
  for (int i = 0; i < n; i++) {
    a[i] = o[i] == Py_None ? NULL : convert_operand(o[i]);
    if (o[i] != Py_None && !a[i]) return -1;
  }
  return 0;
}


/* A number where the axis of x has one element, in the dtype that both have together. */
static weft_array *one_of(weft_array *number, weft_array *x, int axis) {
  weft_array *zero = weft_cast(weft_integer(0), weft_dtype_of(x)), *longer = weft_pad(x, axis, 1, 0, zero);
  number = weft_where(weft_cast(weft_integer(1), WEFT_BOOL), number, zero);
  return weft_broadcast_like(number, weft_slice(longer, axis, 0, 1, 1));
}

/* x with what comes before and after it along the axis, if anything does: a number stands for one element everywhere. */
static weft_array *between(weft_array *before, weft_array *x, weft_array *after, int axis) {
  weft_array *part[3], *given[3] = { before, x, after };
  int n = 0;
  for (int i = 0; i < 3; i++) {
    if (!given[i]) continue;
    part[n++] = i != 1 && !weft_rank(given[i]) ? one_of(given[i], x, axis) : given[i];
  }
  return n > 1 ? weft_concat(axis, n, part) : x;
}

/* (a, n, axis, prepend, append) */
weft_array *call_diff(const struct name *row, PyObject *const arg[]) {
  weft_array *x = convert_array(arg[0], NULL, 0), *more[2];
  int64_t n;
  int axis;
  (void)row;
  if (!x || convert_integer(arg[1], &n) || axis_parse(arg[2], weft_rank(x), &axis) || optional(2, arg + 3, more)) return NULL;
  return weft_diff(between(more[0], x, more[1], axis), n, axis);
}

/* (a, to_end, to_begin): of all elements in order */
weft_array *call_ediff1d(const struct name *row, PyObject *const arg[]) {
  weft_array *x = convert_array(arg[0], NULL, 0), *more[2];
  (void)row;
  return !x || optional(2, arg + 1, more) ? NULL : weft_ediff(x, more[1], more[0]);
}

/* (y, x, dx, axis) */
weft_array *call_trapezoid(const struct name *row, PyObject *const arg[]) {
  weft_array *y = convert_array(arg[0], NULL, 0), *x;
  double dx = y ? PyFloat_AsDouble(arg[2]) : 0;
  int axis;
  (void)row;
  if (!y || PyErr_Occurred() || axis_parse(arg[3], weft_rank(y), &axis) || optional(1, arg + 1, &x)) return NULL;
  return weft_squeeze(weft_trapezoid(y, x, dx, axis), axis);
}

/* One period, the last point in front of it and the first behind. */
static void around(double period, weft_array **x, weft_array **xp, weft_array **fp) {
  weft_array *length = weft_scalar(period < 0 ? -period : period);
  *x = weft_remainder(*x, length);
  weft_array *at = weft_remainder(*xp, length), *order = weft_argsort(at, 0);
  at = weft_take(at, 1, &order), *fp = weft_take(*fp, 1, &order);
  weft_array *last = weft_sub(weft_slice(at, 0, -1, WEFT_END, 1), length), *first = weft_add(weft_slice(at, 0, 0, 1, 1), length);
  *xp = weft_concat(0, 3, (weft_array *[]){ last, at, first });
  *fp = weft_concat(0, 3, (weft_array *[]){ weft_slice(*fp, 0, -1, WEFT_END, 1), *fp, weft_slice(*fp, 0, 0, 1, 1) });
}

/* (x, xp, fp, left, right, period) */
weft_array *call_interp(const struct name *row, PyObject *const arg[]) {
  weft_array *a[3], *side[2];
  double period = arg[5] == Py_None ? 1 : PyFloat_AsDouble(arg[5]);
  (void)row;
  for (int i = 0; i < 3; i++)
    if (PyErr_Occurred() || !(a[i] = convert_array(arg[i], NULL, 0))) return NULL;
  if (optional(2, arg + 3, side)) return NULL;
  if (period == 0) return PyErr_SetString(PyExc_ValueError, "interp: the period is 0"), NULL;
  if (arg[5] == Py_None) return weft_interp(a[0], a[1], a[2], side[0], side[1]);
  if (weft_rank(a[1]) == 1 && weft_rank(a[2]) == 1) around(period, &a[0], &a[1], &a[2]);
  return weft_interp(a[0], a[1], a[2], NULL, NULL);
}

/* (a, v, mode): as the row's function does */
weft_array *call_convolve(const struct name *row, PyObject *const arg[]) {
  static const char *const mode[] = { "full", "same", "valid" };
  weft_array *a[2];
  int reach = -1;
  for (int i = 0; i < 3; i++)
    if (PyUnicode_Check(arg[2]) && !PyUnicode_CompareWithASCIIString(arg[2], mode[i])) reach = i;
  if (reach < 0)
    return PyErr_Format(PyExc_ValueError, "%s: the mode is 'full', 'same' or 'valid', not %R", row->name, arg[2]), NULL;
  for (int i = 0; i < 2; i++)
    if (!(a[i] = convert_array(arg[i], NULL, 0))) return NULL;
  return ((weft_array * (*)(weft_array *, weft_array *, weft_reach)) row->function)(a[0], a[1], (weft_reach)reach);
}

/* (a, nan, posinf, neginf) */
weft_array *call_nan_to_num(const struct name *row, PyObject *const arg[]) {
  weft_array *x = convert_array(arg[0], NULL, 0), *by[3];
  (void)row;
  return !x || optional(3, arg + 1, by) ? NULL : weft_nan_to_num(x, by[0], by[1], by[2]);
}
