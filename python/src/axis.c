/* axis.c -- reductions and running folds. Those of weft keep the axis they reduce; here it goes unless keepdims. */
#include "core.h"

typedef weft_array *(*along)(weft_array *, int axis);

int axis_parse(PyObject *o, int rank, int *axis) {
  Py_ssize_t i = PyNumber_AsSsize_t(o, PyExc_OverflowError);
  if (i == -1 && PyErr_Occurred()) return -1;
  if (i < -rank || i >= rank) {
    PyErr_Format(PyExc_ValueError, "there is no axis %zd among %d", i, rank);
    return -1;
  }
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

int axes_parse(PyObject *o, int rank, int *n, int axes[]) {
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
  sort(*n, axes);
  for (int i = 1; i < *n; i++)
    if (axes[i] == axes[i - 1]) {
      PyErr_Format(PyExc_ValueError, "the axis %d is named twice", axes[i]);
      return -1;
    }
  return 0;
}

static weft_array *reduce(along op, weft_array *x, int n, const int axes[], int keeps) {
  x = n == 1 ? op(x, axes[0]) : weft_over(op, x, n, axes);
  for (int i = n; !keeps && i-- > 0;) x = weft_squeeze(x, axes[i]);
  return x;
}

static weft_array *reduce_all(along op, weft_array *x, int rank, int keeps) {
  x = op(x, WEFT_ALL);
  for (int i = 0; keeps && i < rank; i++) x = weft_unsqueeze(x, 0);
  return x;
}

static PyObject *reduction(along op, int takes_one, PyObject *self, PyObject *args, PyObject *kwargs) {
  static char *names[] = { "axis", "keepdims", NULL };
  PyObject *axis = Py_None;
  int keeps = 0, n, axes[WEFT_RANK_MAX], rank = weft_rank(array_handle(self));
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|Op", names, &axis, &keeps)) return NULL;
  if (axis != Py_None && axes_parse(axis, rank, &n, axes)) return NULL;
  if (axis != Py_None && takes_one && n != 1) return PyErr_Format(PyExc_ValueError, "one axis is expected, not %d", n);
  weft_scope *s = op_begin();
  weft_array *x = array_handle(self);
  return op_end(s, axis == Py_None ? reduce_all(op, x, rank, keeps) : reduce(op, x, n, axes, keeps));
}

#define REDUCE(X) \
  X(sum, weft_sum, 0, "the sum") \
  X(prod, weft_prod, 0, "the product") \
  X(mean, weft_mean, 0, "the mean") \
  X(max, weft_max, 0, "the largest; nan wins") \
  X(min, weft_min, 0, "the smallest; nan wins") \
  X(all, weft_all, 0, "whether all are true") \
  X(any, weft_any, 0, "whether one is true") \
  X(logsumexp, weft_logsumexp, 0, "log sum e^a") \
  X(argmax, weft_argmax, 1, "the index of the first nan, else of the first largest") \
  X(argmin, weft_argmin, 1, "the index of the first nan, else of the first smallest")

#define DEFINE(name, op, takes_one, doc) \
  static PyObject *method_##name(PyObject *self, PyObject *args, PyObject *kwargs) { \
    return reduction(op, takes_one, self, args, kwargs); \
  } \
  AS_FUNCTION(name)
REDUCE(DEFINE)
#undef DEFINE

/* Without an axis, over all elements in order. */
static PyObject *running(along op, PyObject *self, PyObject *args, PyObject *kwargs) {
  static char *names[] = { "axis", "reverse", NULL };
  PyObject *axis = Py_None;
  int backwards = 0, k = 0;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O$p", names, &axis, &backwards)) return NULL;
  if (axis != Py_None && axis_parse(axis, weft_rank(array_handle(self)), &k)) return NULL;
  weft_scope *s = op_begin();
  weft_array *x = array_handle(self);
  if (axis == Py_None) x = weft_reshape(x, 1, (int64_t[]){ WEFT_ANY });
  x = backwards ? weft_flip(op(weft_flip(x, k), k), k) : op(x, k);
  return op_end(s, x);
}

#define RUNNING(X) \
  X(cumsum, weft_cumsum, "the sum so far") \
  X(cumprod, weft_cumprod, "the product so far") \
  X(cummax, weft_cummax, "the largest so far") \
  X(cummin, weft_cummin, "the smallest so far")

#define DEFINE(name, op, doc) \
  static PyObject *method_##name(PyObject *self, PyObject *args, PyObject *kwargs) { \
    return running(op, self, args, kwargs); \
  } \
  AS_FUNCTION(name)
RUNNING(DEFINE)
#undef DEFINE

/* e^x / sum e^x over one axis, or over several as over one. */
static weft_array *softmax(weft_array *x, int n, const int axes[]) {
  if (n == 1) return weft_softmax(x, axes[0]);
  weft_array *shifted = weft_exp(weft_sub(x, weft_stop_gradient(reduce(weft_max, x, n, axes, 1))));
  return weft_div(shifted, reduce(weft_sum, shifted, n, axes, 1));
}

static PyObject *method_softmax(PyObject *self, PyObject *args, PyObject *kwargs) {
  static char *names[] = { "axis", NULL };
  PyObject *axis = Py_None;
  int n = weft_rank(array_handle(self)), axes[WEFT_RANK_MAX];
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O", names, &axis)) return NULL;
  for (int i = 0; i < n; i++) axes[i] = i;
  if (axis != Py_None && axes_parse(axis, n, &n, axes)) return NULL;
  weft_scope *s = op_begin();
  return op_end(s, softmax(array_handle(self), n, axes));
}
AS_FUNCTION(softmax)

PyMethodDef axis_methods[] = {
#define ROW(name, op, takes_one, doc) METHOD_ROW(name, #name "(axis=None, keepdims=False): " doc),
  REDUCE(ROW)
#undef ROW
#define ROW(name, op, doc) METHOD_ROW(name, #name "(axis=None, *, reverse=False): " doc),
  RUNNING(ROW)
#undef ROW
  METHOD_ROW(softmax, "softmax(axis=None): e^x / sum e^x"),
  { 0 },
};

PyMethodDef axis_functions[] = {
#define ROW(name, op, takes_one, doc) FUNCTION_ROW(name, #name "(a, axis=None, keepdims=False): " doc),
  REDUCE(ROW)
#undef ROW
#define ROW(name, op, doc) FUNCTION_ROW(name, #name "(a, axis=None, *, reverse=False): " doc),
  RUNNING(ROW)
#undef ROW
  FUNCTION_ROW(softmax, "softmax(a, axis=None): e^a / sum e^a"),
  { 0 },
};
