/* shape.c -- views, joins and casts: what changes the shape or the dtype and not the values. */
#include "core.h"

/* reshape(2, 3) and reshape((2, 3)) are the same. */
static PyObject *one_or_all(PyObject *args) {
  PyObject *first = PyTuple_GET_SIZE(args) == 1 ? PyTuple_GET_ITEM(args, 0) : args;
  return convert_is_index(first) ? args : first;
}

static int no_keywords(PyObject *kwargs) {
  if (!kwargs || !PyDict_GET_SIZE(kwargs)) return 0;
  PyErr_SetString(PyExc_TypeError, "no keyword arguments are expected");
  return -1;
}

static PyObject *method_reshape(PyObject *self, PyObject *args, PyObject *kwargs) {
  int rank;
  int64_t dims[WEFT_RANK_MAX];
  if (no_keywords(kwargs) || convert_shape(one_or_all(args), &rank, dims)) return NULL;
  for (int i = 0; i < rank; i++)
    if (dims[i] < -1) return PyErr_Format(PyExc_ValueError, "reshape: the size %lld is negative", (long long)dims[i]);
  weft_scope *s = op_begin();
  return op_end(s, weft_reshape(array_handle(self), rank, dims));
}

static PyObject *method_broadcast_to(PyObject *self, PyObject *args, PyObject *kwargs) {
  int rank;
  int64_t dims[WEFT_RANK_MAX];
  if (no_keywords(kwargs) || convert_shape(one_or_all(args), &rank, dims)) return NULL;
  for (int i = 0; i < rank; i++)
    if (dims[i] < 0)
      return PyErr_Format(PyExc_ValueError, "broadcast_to: the size %lld is negative", (long long)dims[i]);
  weft_scope *s = op_begin();
  return op_end(s, weft_broadcast(array_handle(self), rank, dims));
}

static int permutation(PyObject *o, int rank, int axes[]) {
  int sorted[WEFT_RANK_MAX], n;
  if (axes_parse(o, rank, &n, sorted)) return -1;
  if (n != rank) return PyErr_Format(PyExc_ValueError, "transpose: %d axes for an array of %d", n, rank), -1;
  if (convert_is_index(o)) return axis_parse(o, rank, axes);
  for (int i = 0; i < n; i++) {
    PyObject *item = PySequence_GetItem(o, i);
    int wrong = !item || axis_parse(item, rank, &axes[i]);
    Py_XDECREF(item);
    if (wrong) return -1;
  }
  return 0;
}

static PyObject *method_transpose(PyObject *self, PyObject *args, PyObject *kwargs) {
  int axes[WEFT_RANK_MAX] = { 0 };
  PyObject *order = one_or_all(args);
  if (no_keywords(kwargs)) return NULL;
  int reversed = order == Py_None || (order == args && !PyTuple_GET_SIZE(args));
  if (!reversed && permutation(order, weft_rank(array_handle(self)), axes)) return NULL;
  weft_scope *s = op_begin();
  return op_end(s, weft_transpose(array_handle(self), reversed ? NULL : axes));
}

static PyObject *method_moveaxis(PyObject *self, PyObject *args, PyObject *kwargs) {
  static char *names[] = { "source", "destination", NULL };
  int from, to;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "ii", names, &from, &to)) return NULL;
  weft_scope *s = op_begin();
  return op_end(s, weft_moveaxis(array_handle(self), from, to));
}

static PyObject *method_swapaxes(PyObject *self, PyObject *args, PyObject *kwargs) {
  static char *names[] = { "axis1", "axis2", NULL };
  PyObject *first, *second;
  int a, b, axes[WEFT_RANK_MAX], rank = weft_rank(array_handle(self));
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO", names, &first, &second)) return NULL;
  if (axis_parse(first, rank, &a) || axis_parse(second, rank, &b)) return NULL;
  for (int i = 0; i < rank; i++) axes[i] = i == a ? b : i == b ? a : i;
  weft_scope *s = op_begin();
  return op_end(s, weft_transpose(array_handle(self), axes));
}

/* Without an axis, all those of length 1. */
static PyObject *method_squeeze(PyObject *self, PyObject *args, PyObject *kwargs) {
  static char *names[] = { "axis", NULL };
  PyObject *axis = Py_None;
  int n = 0, axes[WEFT_RANK_MAX], rank;
  int64_t dims[WEFT_RANK_MAX];
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O", names, &axis)) return NULL;
  if (axis != Py_None && axes_parse(axis, weft_rank(array_handle(self)), &n, axes)) return NULL;
  if (axis == Py_None) {
    if (convert_dims(self, &rank, dims)) return NULL;
    for (int i = 0; i < rank; i++)
      if (dims[i] == 1) axes[n++] = i;
  }
  weft_scope *s = op_begin();
  weft_array *x = array_handle(self);
  while (n-- > 0) x = weft_squeeze(x, axes[n]);
  return op_end(s, x);
}

static PyObject *method_expand_dims(PyObject *self, PyObject *args, PyObject *kwargs) {
  static char *names[] = { "axis", NULL };
  PyObject *axis;
  int n = 1, axes[WEFT_RANK_MAX];
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O", names, &axis)) return NULL;
  if (!convert_is_index(axis)) {
    Py_ssize_t count = PySequence_Size(axis);
    if (count < 0) return NULL;
    n = (int)count;
  }
  int rank = weft_rank(array_handle(self)) + n;
  if (rank > WEFT_RANK_MAX) return PyErr_Format(PyExc_ValueError, "expand_dims: %d axes are too many", rank);
  if (axes_parse(axis, rank, &n, axes)) return NULL;
  weft_scope *s = op_begin();
  weft_array *x = array_handle(self);
  for (int i = 0; i < n; i++) x = weft_unsqueeze(x, axes[i]);
  return op_end(s, x);
}

static PyObject *method_flatten(PyObject *self, PyObject *args, PyObject *kwargs) {
  static char *names[] = { "start_axis", "end_axis", NULL };
  int first = 0, last = -1, rank, n = 0;
  int64_t dims[WEFT_RANK_MAX], flat[WEFT_RANK_MAX + 1];
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|ii", names, &first, &last)) return NULL;
  if (convert_dims(self, &rank, dims)) return NULL;
  if (first < 0) first += rank;
  if (last < 0) last += rank;
  if (rank && (first < 0 || last >= rank || first > last))
    return PyErr_Format(PyExc_ValueError, "flatten: there are no axes %d to %d among %d", first, last, rank);
  if (!rank) flat[n++] = 1;
  for (int i = 0; i < rank; i++)
    if (i > first && i <= last) flat[n - 1] *= dims[i];
    else flat[n++] = dims[i];
  weft_scope *s = op_begin();
  return op_end(s, weft_reshape(array_handle(self), n, flat));
}

static PyObject *method_flip(PyObject *self, PyObject *args, PyObject *kwargs) {
  static char *names[] = { "axis", NULL };
  PyObject *axis = Py_None;
  int n = weft_rank(array_handle(self)), axes[WEFT_RANK_MAX];
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O", names, &axis)) return NULL;
  for (int i = 0; i < n; i++) axes[i] = i;
  if (axis != Py_None && axes_parse(axis, n, &n, axes)) return NULL;
  weft_scope *s = op_begin();
  weft_array *x = array_handle(self);
  for (int i = 0; i < n; i++) x = weft_flip(x, axes[i]);
  return op_end(s, x);
}

static PyObject *method_astype(PyObject *self, PyObject *args, PyObject *kwargs) {
  static char *names[] = { "dtype", NULL };
  PyObject *dtype;
  weft_dtype d;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O", names, &dtype) || dtype_parse(dtype, &d)) return NULL;
  weft_scope *s = op_begin();
  return op_end(s, weft_cast(array_handle(self), d));
}

/* A copy is another name of the same value: arrays do not change, names do. */
static PyObject *method_copy(PyObject *self, PyObject *args, PyObject *kwargs) {
  (void)args, (void)kwargs;
  return array_wrap(array_handle(self));
}

AS_FUNCTION(reshape)
AS_FUNCTION(broadcast_to)
AS_FUNCTION(transpose)
AS_FUNCTION(moveaxis)
AS_FUNCTION(swapaxes)
AS_FUNCTION(squeeze)
AS_FUNCTION(expand_dims)
AS_FUNCTION(flatten)
AS_FUNCTION(flip)
AS_FUNCTION(astype)

/* Along an axis that is there, or along a new one. */
static PyObject *join(PyObject *args, PyObject *kwargs, int is_new) {
  static char *names[] = { "", "axis", NULL };
  PyObject *arrays;
  struct list l;
  int axis = 0;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|i", names, &arrays, &axis) || list_take(&l, arrays)) return NULL;
  weft_array **part = PyMem_Malloc((size_t)(l.n ? l.n : 1) * sizeof *part);
  if (!part) return list_drop(&l), PyErr_NoMemory();
  weft_scope *s = op_begin();
  for (int i = 0; i < l.n; i++) part[i] = is_new ? weft_unsqueeze(l.array[i], axis) : l.array[i];
  PyObject *result = op_end(s, weft_concat(axis, l.n, part));
  PyMem_Free(part);
  list_drop(&l);
  return result;
}
static PyObject *concatenate(PyObject *module, PyObject *args, PyObject *kwargs) {
  (void)module;
  return join(args, kwargs, 0);
}
static PyObject *stack(PyObject *module, PyObject *args, PyObject *kwargs) {
  (void)module;
  return join(args, kwargs, 1);
}

static PyObject *pad_axis(PyObject *module, PyObject *args) {
  PyObject *o, *value;
  int axis;
  long long before, after;
  (void)module;
  if (!PyArg_ParseTuple(args, "OiLLO", &o, &axis, &before, &after, &value)) return NULL;
  weft_scope *s = op_begin();
  weft_array *x = convert_operand(o), *v = x ? convert_operand(value) : NULL;
  return op_end(s, v ? weft_pad(x, axis, before, after, weft_cast(v, weft_dtype_of(x))) : NULL);
}

static PyObject *strided(PyObject *module, PyObject *args) {
  PyObject *o, *shape, *strides;
  long long offset;
  int rank, n;
  int64_t dims[WEFT_RANK_MAX], steps[WEFT_RANK_MAX];
  (void)module;
  if (!PyArg_ParseTuple(args, "OOOL", &o, &shape, &strides, &offset)) return NULL;
  if (convert_shape(shape, &rank, dims) || convert_shape(strides, &n, steps)) return NULL;
  if (n != rank) return PyErr_Format(PyExc_ValueError, "as_strided: %d strides for %d axes", n, rank);
  weft_scope *s = op_begin();
  weft_array *x = convert_operand(o);
  return op_end(s, x ? weft_as_strided(x, rank, dims, steps, offset) : NULL);
}

#define BOTH(X) \
  X(reshape, "another shape for the same elements in order; one size may be -1") \
  X(broadcast_to, "repeated along new axes and those of length 1") \
  X(transpose, "with the axes in another order, reversed by default") \
  X(moveaxis, "(source, destination): with one axis elsewhere") \
  X(swapaxes, "(axis1, axis2): with two axes exchanged") \
  X(squeeze, "(axis=None): without axes of length 1") \
  X(expand_dims, "(axis): with new axes of length 1") \
  X(flatten, "(start_axis=0, end_axis=-1): with these axes as one") \
  X(flip, "(axis=None): backwards") \
  X(astype, "(dtype): converted; floats to integers saturate, nan becomes 0")

PyMethodDef shape_methods[] = {
#define ROW(name, doc) METHOD_ROW(name, doc),
  BOTH(ROW)
#undef ROW
  METHOD_ROW(copy, "copy(): another name of the same value"),
  { "__copy__", WITH_KEYWORDS(method_copy), "copy()" },
  { "__deepcopy__", WITH_KEYWORDS(method_copy), "copy()" },
  { 0 },
};

PyMethodDef shape_functions[] = {
#define ROW(name, doc) FUNCTION_ROW(name, doc),
  BOTH(ROW)
#undef ROW
  { "concatenate", WITH_KEYWORDS(concatenate), "concatenate(arrays, axis=0)" },
  { "stack", WITH_KEYWORDS(stack), "stack(arrays, axis=0): along a new axis" },
  { "strided", strided, METH_VARARGS, "strided(a, shape, strides, offset)" },
  { "pad_axis", pad_axis, METH_VARARGS, "pad_axis(a, axis, before, after, value)" },
  { 0 },
};
