/* products.c -- sums of products over named or numbered axes. */
#include "core.h"

static PyObject *einsum(PyObject *module, PyObject *args) {
  (void)module;
  Py_ssize_t n = PyTuple_GET_SIZE(args);
  PyObject *rest;
  struct list l;
  const char *text = n ? PyUnicode_Check(PyTuple_GET_ITEM(args, 0)) ? PyUnicode_AsUTF8(PyTuple_GET_ITEM(args, 0)) : NULL : NULL;
  if (!text)
    return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_TypeError, "einsum: the first argument is a text like \"ij,jk->ik\"");
  if (!(rest = PyTuple_GetSlice(args, 1, n))) return NULL;
  int failed = list_take(&l, rest);
  Py_DECREF(rest);
  if (failed) return NULL;
  weft_scope *s = op_begin();
  PyObject *result = op_end(s, weft_einsum(text, l.n, l.array));
  list_drop(&l);
  return result;
}

static int axes_of(PyObject *o, int *n, int axes[]) {
  PyObject *all = PySequence_Fast(o, "tensordot: axes are a number or two sequences");
  if (!all) return -1;
  *n = (int)PySequence_Fast_GET_SIZE(all);
  for (int i = 0; i < *n && i < WEFT_RANK_MAX; i++) {
    long axis = PyLong_AsLong(PySequence_Fast_GET_ITEM(all, i));
    axes[i] = axis > 1000 || axis < -1000 ? 1000 : (int)axis;
    if (PyErr_Occurred()) break;
  }
  Py_DECREF(all);
  if (!PyErr_Occurred() && *n > WEFT_RANK_MAX) PyErr_SetString(PyExc_ValueError, "tensordot: too many axes");
  return PyErr_Occurred() ? -1 : 0;
}

static PyObject *tensordot_axes(PyObject *module, PyObject *args) {
  PyObject *a, *b, *a_axes, *b_axes;
  int n, m, i[WEFT_RANK_MAX], j[WEFT_RANK_MAX];
  (void)module;
  if (!PyArg_ParseTuple(args, "OOOO", &a, &b, &a_axes, &b_axes) || axes_of(a_axes, &n, i) || axes_of(b_axes, &m, j)) return NULL;
  if (n != m) return PyErr_Format(PyExc_ValueError, "tensordot: %d axes of a, %d of b", n, m);
  weft_scope *s = op_begin();
  weft_array *x = convert_operand(a), *y = x ? convert_operand(b) : NULL;
  return op_end(s, y ? weft_tensordot(x, y, n, i, j) : NULL);
}

PyMethodDef contract_functions[] = {
  { "einsum", einsum, METH_VARARGS, "einsum(subscripts, *arrays): a sum of products by the names of axes, \"ij,jk->ik\"" },
  { "tensordot_axes", tensordot_axes, METH_VARARGS, "tensordot_axes(a, b, a_axes, b_axes)" },
  { 0 },
};
