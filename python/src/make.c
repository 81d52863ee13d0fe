/* make.c -- arrays out of nothing: constants, ranges; and the norms and attention, which take options. */
#include "core.h"

/* 0 or 1 of a dtype that has them: part of the program, and not one of its inputs, as other numbers are. -1: none. */
static int constant(PyObject *value, weft_dtype d) {
  if (!PyLong_CheckExact(value) || d == WEFT_C64 || d == WEFT_C128) return -1;
  int overflow;
  long v = PyLong_AsLongAndOverflow(value, &overflow);
  return !overflow && (v == 0 || v == 1) ? (int)v : -1;
}

static PyObject *full(PyObject *module, PyObject *args) {
  PyObject *shape, *value, *dtype;
  int rank;
  int64_t dims[WEFT_RANK_MAX];
  weft_dtype d;
  (void)module;
  if (!PyArg_ParseTuple(args, "OOO", &shape, &value, &dtype) || convert_shape(shape, &rank, dims)) return NULL;
  if (dtype != Py_None && dtype_parse(dtype, &d)) return NULL;
  for (int i = 0; i < rank; i++)
    if (dims[i] < 0)
      return PyErr_Format(PyExc_ValueError, "the size %lld of axis %d is negative", (long long)dims[i], i);
  weft_scope *s = op_begin();
  int known = dtype == Py_None ? -1 : constant(value, d);
  if (known >= 0) return op_end(s, weft_full(d, rank, dims, known));
  weft_array *v = convert_array(value, dtype == Py_None ? NULL : &d, 0);
  return op_end(s, v ? weft_broadcast(v, rank, dims) : NULL);
}

/* start + step i for n values of i, in dtype; in between float64 or int64. */
static PyObject *range(PyObject *module, PyObject *args) {
  PyObject *start, *step, *dtype;
  long long n;
  weft_dtype d;
  (void)module;
  if (!PyArg_ParseTuple(args, "OOLO", &start, &step, &n, &dtype) || dtype_parse(dtype, &d)) return NULL;
  weft_dtype wide = PyFloat_Check(start) || PyFloat_Check(step) ? WEFT_F64 : WEFT_I64;
  weft_scope *s = op_begin();
  weft_array *a = convert_array(start, &wide, 0), *b = a ? convert_array(step, &wide, 0) : NULL;
  if (!b) return op_end(s, NULL);
  weft_array *i = weft_iota(weft_full(wide, 1, (int64_t[]){ n }, 0), 0);
  return op_end(s, weft_cast(weft_add(weft_mul(i, b), a), d));
}

static weft_array *optional(PyObject *o, int *failed) {
  if (o == Py_None) return NULL;
  weft_array *a = convert_operand(o);
  *failed |= !a;
  return a;
}

static PyObject *rms_norm(PyObject *module, PyObject *args, PyObject *kwargs) {
  static char *names[] = { "x", "weight", "eps", NULL };
  PyObject *x, *weight = Py_None;
  double eps = 1e-5;
  int failed = 0;
  (void)module;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|Od", names, &x, &weight, &eps)) return NULL;
  weft_scope *s = op_begin();
  weft_array *a = convert_operand(x), *w = a ? optional(weight, &failed) : NULL;
  return op_end(s, a && !failed ? weft_rms_norm(a, w, eps) : NULL);
}

static PyObject *layer_norm(PyObject *module, PyObject *args, PyObject *kwargs) {
  static char *names[] = { "x", "weight", "bias", "eps", NULL };
  PyObject *x, *weight = Py_None, *bias = Py_None;
  double eps = 1e-5;
  int failed = 0;
  (void)module;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|OOd", names, &x, &weight, &bias, &eps)) return NULL;
  weft_scope *s = op_begin();
  weft_array *a = convert_operand(x), *w = a ? optional(weight, &failed) : NULL,
             *b = a && !failed ? optional(bias, &failed) : NULL;
  return op_end(s, a && !failed ? weft_layer_norm(a, w, b, eps) : NULL);
}

static PyObject *attention(PyObject *module, PyObject *args, PyObject *kwargs) {
  static char *names[] = { "q", "k", "v", "scale", "mask", NULL };
  PyObject *o[3], *mask = Py_None, *scale = Py_None;
  weft_array *x[3];
  weft_attention_options how = { 0 };
  int failed = 0;
  (void)module;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OOO|$OO", names, &o[0], &o[1], &o[2], &scale, &mask)) return NULL;
  if (scale != Py_None && (how.scale = PyFloat_AsDouble(scale)) == -1 && PyErr_Occurred()) return NULL;
  if (PyUnicode_Check(mask) && PyUnicode_CompareWithASCIIString(mask, "causal"))
    return PyErr_Format(PyExc_ValueError, "attention: the mask is an array, 'causal' or None, not %R", mask);
  how.is_causal = PyUnicode_Check(mask);
  weft_scope *s = op_begin();
  for (int i = 0; i < 3 && !failed; i++) failed |= !(x[i] = convert_operand(o[i]));
  how.mask = failed || how.is_causal ? NULL : optional(mask, &failed);
  return op_end(s, failed ? NULL : weft_attention(x[0], x[1], x[2], &how));
}

static PyObject *promote(PyObject *module, PyObject *args) {
  PyObject *a, *b;
  weft_dtype x, y;
  (void)module;
  if (!PyArg_ParseTuple(args, "OO", &a, &b) || dtype_parse(a, &x) || dtype_parse(b, &y)) return NULL;
  return Py_NewRef(dtype_object(weft_dtype_promote(x, y)));
}

PyMethodDef make_functions[] = {
  { "full", full, METH_VARARGS, "full(shape, value, dtype or None)" },
  { "range", range, METH_VARARGS, "range(start, step, n, dtype)" },
  { "rms_norm", WITH_KEYWORDS(rms_norm), "rms_norm(x, weight=None, eps=1e-5): over the last axis" },
  { "layer_norm", WITH_KEYWORDS(layer_norm),
    "layer_norm(x, weight=None, bias=None, eps=1e-5): over the last axis" },
  { "attention", WITH_KEYWORDS(attention),
    "attention(q, k, v, *, scale=None, mask=None): softmax(q k' scale + mask) v; scale None: 1 / sqrt(d); the mask is an "
    "array, 'causal' or None" },
  { "promote", promote, METH_VARARGS, "promote(dtype, dtype): the dtype two arrays meet in" },
  { 0 },
};
