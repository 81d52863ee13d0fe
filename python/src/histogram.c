/* histogram.c -- counts of what lies between edges, with NumPy's ways to say which. */
#include "names.h"

/* n objects as arrays, NULL for None. */
static int optional(PyObject *o, weft_array **a) {
  *a = o == Py_None ? NULL : convert_operand(o);
  return o == Py_None || *a ? 0 : -1;
}

/* Numbers beside x: those that have no dtype of their own are as exact as x is, or as its values. */
static weft_array *beside(weft_array *x, PyObject *o) {
  static const weft_dtype exact = WEFT_F64;
  weft_dtype d = weft_dtype_of(x);
  int is_exact = (d == WEFT_F64 || d <= WEFT_I64) && (PyList_Check(o) || PyTuple_Check(o));
  return convert_array(o, is_exact ? &exact : NULL, 0);
}

/* (x, weights, minlength, length) */
weft_array *call_bincount(const struct name *row, PyObject *const arg[]) {
  weft_array *x = convert_array(arg[0], NULL, 0), *weights;
  int64_t least = 0, n = 0;
  (void)row;
  if (!x || optional(arg[1], &weights) || convert_integer(arg[2], &least)) return NULL;
  if (arg[3] != Py_None && convert_integer(arg[3], &n)) return NULL;
  if (least < 0) return PyErr_Format(PyExc_ValueError, "bincount: minlength is %lld", (long long)least), NULL;
  if (arg[3] != Py_None && least) return PyErr_SetString(PyExc_ValueError, "bincount: either minlength or length"), NULL;
  if (PySequence_Check(arg[0]) && !PyObject_HasAttrString(arg[0], "dtype") && PySequence_Size(arg[0]) == 0)
    x = weft_cast(x, WEFT_I32); /* [] is of no dtype */
  return weft_bincount(x, weights, arg[3] == Py_None ? least : n, arg[3] == Py_None);
}

/* (x, bins, right) */
weft_array *call_digitize(const struct name *row, PyObject *const arg[]) {
  weft_array *x = convert_array(arg[0], NULL, 0), *bins = x ? beside(x, arg[1]) : NULL;
  int is_right = bins ? PyObject_IsTrue(arg[2]) : -1;
  (void)row;
  return is_right < 0 ? NULL : weft_digitize(x, bins, is_right);
}

/* A pair of numbers, or None: NULL both. The elements of an array are objects for a moment only. */
static int range_parse(PyObject *range, weft_array **low, weft_array **high) {
  *low = *high = NULL;
  if (range == Py_None) return 0;
  if (array_check(range)) {
    int is_pair = weft_rank(array_handle(range)) == 1 && weft_dim(array_handle(range), 0) == 2;
    if (!is_pair) return PyErr_SetString(PyExc_ValueError, "histogram: the range is an array, not of two numbers"), -1;
    *low = weft_at(array_handle(range), 0, weft_integer(0)), *high = weft_at(array_handle(range), 0, weft_integer(1));
    return 0;
  }
  PyObject *pair = PySequence_Fast(range, "range is a pair of numbers");
  if (!pair) return -1;
  PyObject **item = PySequence_Fast_ITEMS(pair);
  int ok = PySequence_Fast_GET_SIZE(pair) == 2 && (*low = convert_operand(item[0])) && (*high = convert_operand(item[1]));
  if (ok && PyFloat_Check(item[0]) + PyLong_Check(item[0]) && PyFloat_Check(item[1]) + PyLong_Check(item[1])) {
    double a = PyFloat_AsDouble(item[0]), b = PyFloat_AsDouble(item[1]);
    ok = !PyErr_Occurred() && a <= b && b - a < (double)INFINITY;
  }
  if (!ok && !PyErr_Occurred())
    PyErr_Format(PyExc_ValueError, "histogram: the range is %R, not two finite numbers in order", range);
  Py_DECREF(pair);
  return ok ? 0 : -1;
}

/* The rules that have a name are NumPy's, of the values. */
static weft_array *edges_by_name(PyObject *a, PyObject *name, PyObject *range, PyObject *weights) {
  PyObject *numpy = PyImport_ImportModule("numpy"), *x = numpy ? PyObject_CallMethod(numpy, "asarray", "O", a) : NULL;
  PyObject *e = x ? PyObject_CallMethod(numpy, "histogram_bin_edges", "OOOO", x, name, range, weights) : NULL;
  weft_array *edges = e ? convert_array(e, NULL, 0) : NULL;
  Py_XDECREF(numpy), Py_XDECREF(x), Py_XDECREF(e);
  return edges;
}

/* bins: how many, edges, or the name of a rule. a: the object that x was made of. fn: what was called. */
static weft_array *edges_of(const char *fn, weft_array *x, PyObject *a, PyObject *bins, PyObject *range, PyObject *weights) {
  weft_array *low, *high;
  int64_t n;
  if (PyUnicode_Check(bins)) return edges_by_name(a, bins, range, weights);
  if (!convert_is_index(bins)) return beside(x, bins);
  if (convert_integer(bins, &n) || range_parse(range, &low, &high)) return NULL;
  if (n < 1) return PyErr_Format(PyExc_ValueError, "%s: %lld bins", fn, (long long)n), NULL;
  return weft_histogram_edges(x, n, low, high);
}

/* (a, bins, range, weights) */
weft_array *call_histogram_bin_edges(const struct name *row, PyObject *const arg[]) {
  weft_array *x = convert_array(arg[0], NULL, 0);
  return x ? edges_of(row->name, x, arg[0], arg[1], arg[2], arg[3]) : NULL;
}

static PyObject *tuple_of(int n, weft_array *const y[]) {
  PyObject *list = array_list(flavour(), n, y), *tuple = list ? PyList_AsTuple(list) : NULL;
  Py_XDECREF(list);
  return tuple;
}

/* (a, bins, range, weights, density) */
PyObject *make_histogram(const struct name *row, PyObject *const arg[]) {
  weft_scope *s = op_begin();
  weft_array *x = convert_array(arg[0], NULL, 0), *weights, *edges;
  int is_density = arg[4] == Py_None ? 0 : PyObject_IsTrue(arg[4]);
  PyObject *pair = NULL;
  if (x && is_density >= 0 && !optional(arg[3], &weights) && (edges = edges_of(row->name, x, arg[0], arg[1], arg[2], arg[3])))
    pair = tuple_of(2, (weft_array *[]){ weft_histogram(x, edges, weights, is_density), edges });
  weft_scope_discard(s);
  return pair;
}

/* Object k of a sequence with one for each of n coordinates; what is no such sequence is the same for all. */
static PyObject *for_each(PyObject *o, int n, int k) {
  if (o == Py_None || convert_is_index(o) || PyUnicode_Check(o)) return Py_NewRef(o);
  if (PySequence_Check(o) && PySequence_Size(o) == n) return PySequence_GetItem(o, k);
  if (!PyErr_Occurred()) PyErr_Format(PyExc_ValueError, "histogramdd: %R is not one for each of %d coordinates", o, n);
  return NULL;
}

/* D of an array [N,D], where that is not known yet: bins or ranges may say it. -1: they do not. */
static int64_t said_by(PyObject *bins, PyObject *range) {
  PyObject *of[] = { bins, range };
  Py_ssize_t n = -1;
  for (int k = 0; k < 2 && n < 0; k++)
    if (PyList_Check(of[k]) || PyTuple_Check(of[k])) n = PySequence_Size(of[k]);
  return n;
}

/* Columns of an array [N,D], or a sequence of D coordinates. */
static int coordinates(PyObject *sample, PyObject *bins, PyObject *range, weft_array *x[]) {
  if (PyList_Check(sample) || PyTuple_Check(sample)) {
    Py_ssize_t n = PySequence_Size(sample);
    if (n < 1 || n > WEFT_RANK_MAX) return PyErr_Format(PyExc_ValueError, "histogramdd: %zd coordinates", n), -1;
    for (Py_ssize_t k = 0; k < n; k++) {
      PyObject *item = PySequence_GetItem(sample, k);
      x[k] = item ? convert_array(item, NULL, 0) : NULL;
      Py_XDECREF(item);
      if (!x[k]) return -1;
    }
    return (int)n;
  }
  weft_array *all = convert_array(sample, NULL, 0);
  if (!all) return -1;
  int64_t n = weft_rank(all) == 2 ? weft_dim(all, 1) : 0;
  if (n < 0) n = said_by(bins, range);
  if (n < 0)
    return PyErr_SetString(PyExc_ValueError, "histogramdd: how many columns the sample has is not known yet, and the result has an "
                                             "axis for each: give bins or ranges for each, or a list of the columns"), -1;
  weft_array *full = n < 1 || n > WEFT_RANK_MAX ? all : weft_reshape(all, 2, (int64_t[]){ WEFT_SAME, n });
  if (n < 1 || n > WEFT_RANK_MAX) return PyErr_SetString(PyExc_ValueError, "histogramdd: the sample is no array [N,D]"), -1;
  for (int64_t k = 0; k < n; k++) x[k] = weft_at(full, 1, weft_integer(k));
  return (int)n;
}

/* Of n coordinates: the counts, and then the edges. 0: done. */
static int boxes(int n, weft_array *const x[], PyObject *bins, PyObject *range, PyObject *density, PyObject *weights,
                 weft_array *y[]) {
  int is_density = density == Py_None ? 0 : PyObject_IsTrue(density);
  weft_array *w;
  if (is_density < 0 || optional(weights, &w)) return -1;
  for (int k = 0; k < n; k++) {
    PyObject *of_bins = for_each(bins, n, k), *of_range = of_bins ? for_each(range, n, k) : NULL;
    if (of_range && PyUnicode_Check(of_bins)) PyErr_SetString(PyExc_TypeError, "histogramdd: bins are numbers or edges");
    int is_row = array_check(bins) && weft_rank(array_handle(bins)) > 1; /* an object for a moment only */
    y[1 + k] = !of_range || PyErr_Occurred() ? NULL : is_row ? weft_at(array_handle(bins), 0, weft_integer(k)) :
               edges_of("histogramdd", x[k], NULL, of_bins, of_range, Py_None);
    Py_XDECREF(of_bins), Py_XDECREF(of_range);
    if (!y[1 + k]) return -1;
  }
  y[0] = weft_histogramdd(n, x, y + 1, w, is_density);
  return 0;
}

/* (sample, bins, range, density, weights) */
PyObject *make_histogramdd(const struct name *row, PyObject *const arg[]) {
  weft_scope *s = op_begin();
  weft_array *x[WEFT_RANK_MAX], *y[WEFT_RANK_MAX + 1];
  int n = coordinates(arg[0], arg[1], arg[2], x);
  (void)row;
  PyObject *all = n < 0 || boxes(n, x, arg[1], arg[2], arg[3], arg[4], y) ? NULL : array_list(flavour(), 1 + n, y);
  weft_scope_discard(s);
  PyObject *edges = all ? PyList_GetSlice(all, 1, 1 + n) : NULL;
  PyObject *pair = edges ? PyTuple_Pack(2, PyList_GET_ITEM(all, 0), edges) : NULL;
  Py_XDECREF(all), Py_XDECREF(edges);
  return pair;
}

/* (x, y, bins, range, density, weights); bins that are no pair are the edges of both */
PyObject *make_histogram2d(const struct name *row, PyObject *const arg[]) {
  weft_scope *s = op_begin();
  weft_array *x[2], *y[3];
  int is_pair = convert_is_index(arg[2]) || (PySequence_Check(arg[2]) && PySequence_Size(arg[2]) <= 2);
  PyObject *bins = PyErr_Occurred() ? NULL : is_pair ? Py_NewRef(arg[2]) : PyTuple_Pack(2, arg[2], arg[2]), *all = NULL;
  (void)row;
  if (bins && (x[0] = convert_array(arg[0], NULL, 0)) && (x[1] = convert_array(arg[1], NULL, 0)) &&
      !boxes(2, x, bins, arg[3], arg[4], arg[5], y))
    all = tuple_of(3, y);
  weft_scope_discard(s);
  Py_XDECREF(bins);
  return all;
}
