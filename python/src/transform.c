/* transform.c -- what transforms of Python functions are made of, on flat lists of arrays: names to trace with, which
 * belong to the scope that is open, and the transforms of expressions. */
#include "names.h"
#include <limits.h>
#include <string.h>

/* ---- Names to trace with; they belong to the scope that is open ---- */

static PyObject *alias(PyObject *module, PyObject *o) {
  (void)module;
  origin_mark();
  if (!array_check(o)) return PyErr_Format(PyExc_TypeError, "alias: an array is expected");
  return array_wrap_as(flavour_of_array(o), weft_alias(array_handle(o)));
}

static PyObject *told(PyObject *module, PyObject *o) {
  int64_t number;
  (void)module;
  if (!array_check(o)) return PyErr_Format(PyExc_TypeError, "told: an array is expected");
  int by = weft_is_size(array_handle(o), &number);
  return by == 2 ? PyLong_FromLongLong(number) : PyBool_FromLong(by);
}

/* The sizes that a shape says, None for any, of an array that has so many axes. */
static int sizes_said(PyObject *shape, int rank, int64_t dims[]) {
  PyObject *list = PySequence_Fast(shape, "compile: a shape is a sequence of sizes, None for any");
  Py_ssize_t n = list ? PySequence_Fast_GET_SIZE(list) : -1;
  int failed = n != rank;
  if (list && failed) PyErr_Format(PyExc_ValueError, "compile: a shape of %zd axes for an argument that has %d", n, rank);
  for (int k = 0; k < rank && !failed; k++) {
    PyObject *size = PySequence_Fast_GET_ITEM(list, k);
    if (size == Py_None) dims[k] = WEFT_ANY;
    else if (!(failed = convert_integer(size, &dims[k])) && dims[k] < 0)
      failed = (PyErr_Format(PyExc_ValueError, "compile: the size %lld of axis %d is negative", (long long)dims[k], k), 1);
  }
  Py_XDECREF(list);
  return failed ? -1 : 0;
}

/* Zeros of the sizes of a row of like, which may have no rows. */
static weft_array *row_like(weft_array *like, int rank) {
  weft_array *sizes[WEFT_RANK_MAX];
  for (int k = 1; k < rank; k++) sizes[k - 1] = weft_size(like, k);
  return weft_sized(weft_dtype_of(like), rank - 1, sizes);
}

/* input(like, skip, open=0, shape=None): a name of the dtype and the sizes of like without its first axes; of any size where it
 * is open; or of the sizes that the shape says. */
static PyObject *input(PyObject *module, PyObject *args) {
  PyObject *like, *shape = Py_None;
  int rank, skip, open = OPEN_NONE;
  int64_t dims[WEFT_RANK_MAX];
  (void)module;
  if (!PyArg_ParseTuple(args, "O!i|iO", &array_type, &like, &skip, &open, &shape) || convert_open_dims(like, &rank, dims))
    return NULL;
  if (skip > rank) return PyErr_Format(PyExc_ValueError, "a 0-d array has no axis to map over");
  if (shape != Py_None && sizes_said(shape, rank, dims)) return NULL;
  if (shape == Py_None) array_open(open, rank, dims);
  int is_known = 1;
  for (int k = skip; k < rank; k++) is_known &= dims[k] >= 0;
  origin_mark();
  if (skip && !is_known) return array_wrap_as(flavour_of_array(like), weft_alias(row_like(array_handle(like), rank)));
  return array_wrap_as(flavour_of_array(like), weft_input(weft_dtype_of(array_handle(like)), rank - skip, dims + skip));
}

/* ---- Transforms of expressions ---- */

/* Three lists of arguments and one of n results, by `run`. */
typedef void (*transform)(struct list *, struct list *, struct list *, weft_array *result[]);

static PyObject *with_lists(transform run, PyObject *args, int results_like) {
  PyObject *o[3], *results = NULL;
  struct list l[3];
  int n = 0;
  if (!PyArg_UnpackTuple(args, "a transform", 3, 3, &o[0], &o[1], &o[2])) return NULL;
  while (n < 3 && !list_take(&l[n], o[n])) n++;
  weft_array **out = n == 3 ? PyMem_Malloc((size_t)(l[results_like].n + 1) * sizeof *out) : NULL;
  if (n == 3 && !out) PyErr_NoMemory();
  if (out && l[0].n != l[1].n) PyErr_Format(PyExc_ValueError, "%d arrays and %d values for them", l[0].n, l[1].n);
  else if (out) {
    weft_scope *s = op_begin();
    run(&l[0], &l[1], &l[2], out);
    results = array_list(flavour_of(3, o), l[results_like].n, out);
    weft_scope_discard(s);
  }
  PyMem_Free(out);
  while (n-- > 0) list_drop(&l[n]);
  return results;
}

static void run_vjp(struct list *y, struct list *dy, struct list *x, weft_array *dx[]) {
  weft_vjp(y->n, y->array, dy->array, x->n, x->array, dx);
}
static void run_jvp(struct list *x, struct list *dx, struct list *y, weft_array *dy[]) {
  weft_jvp(x->n, x->array, dx->array, y->n, y->array, dy);
}
static void run_map(struct list *x, struct list *xs, struct list *y, weft_array *ys[]) {
  weft_map(x->n, x->array, xs->array, y->n, y->array, ys);
}
static PyObject *vjp(PyObject *module, PyObject *args) { (void)module; return with_lists(run_vjp, args, 2); }
static PyObject *jvp(PyObject *module, PyObject *args) { (void)module; return with_lists(run_jvp, args, 2); }
static PyObject *map(PyObject *module, PyObject *args) { (void)module; return with_lists(run_map, args, 2); }

static PyObject *checkpoint(PyObject *module, PyObject *args) {
  PyObject *inputs, *outputs, *results = NULL;
  struct list x, y;
  (void)module;
  if (!PyArg_ParseTuple(args, "OO", &inputs, &outputs) || list_take(&x, inputs)) return NULL;
  if (!list_take(&y, outputs)) {
    weft_array **out = PyMem_Malloc((size_t)(y.n + 1) * sizeof *out); /* list_drop needs the old ones */
    if (!out) PyErr_NoMemory();
    else {
      memcpy(out, y.array, (size_t)y.n * sizeof *out);
      weft_scope *s = op_begin();
      weft_checkpoint(x.n, x.array, y.n, out);
      results = array_list(y.flavour, y.n, out);
      weft_scope_discard(s);
      PyMem_Free(out);
    }
    list_drop(&y);
  }
  list_drop(&x);
  return results;
}

/* (a, on) */
weft_array *call_depends(const struct name *row, PyObject *const arg[]) {
  struct list on;
  (void)row;
  if (list_take(&on, arg[1])) return NULL;
  weft_array *x = convert_array(arg[0], NULL, 0), *after = x ? weft_depends(x, on.n, on.array) : NULL;
  list_drop(&on);
  return after;
}

/* (a, condition, message) */
weft_array *call_assert(const struct name *row, PyObject *const arg[]) {
  (void)row;
  const char *message = PyUnicode_Check(arg[2]) ? PyUnicode_AsUTF8(arg[2]) : NULL;
  if (!message && !PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "assert_: the message is no str");
  weft_array *x = message ? convert_array(arg[0], NULL, 0) : NULL, *p = x ? convert_array(arg[1], NULL, 0) : NULL;
  return p ? weft_assert(x, p, message) : NULL;
}

/* (a, device); numbers beyond those of devices stay beyond them */
weft_array *call_to_device(const struct name *row, PyObject *const arg[]) {
  int64_t device;
  weft_array *x = convert_array(arg[0], NULL, 0);
  (void)row;
  if (!x || convert_integer(arg[1], &device)) return NULL;
  return weft_to(x, device < -1 || device > INT_MAX ? INT_MAX : (int)device);
}

/* become(array, other): the object array names what other names, and belongs to the body that is being traced. */
static PyObject *become(PyObject *module, PyObject *args) {
  PyObject *self, *other;
  (void)module;
  if (!PyArg_ParseTuple(args, "O!O!", &array_type, &self, &array_type, &other)) return NULL;
  if (array_assign(self, array_handle(other))) return NULL;
  ((struct array *)self)->body = body_serial();
  Py_RETURN_NONE;
}

/* constant(shape, number, dtype): part of the program, as a number in its kernels. weft.full has numbers that are inputs, so that a
 * line which is run with many of them is compiled once. */
static PyObject *constant(PyObject *module, PyObject *args) {
  PyObject *shape, *dtype;
  double value;
  int rank;
  int64_t dims[WEFT_RANK_MAX];
  weft_dtype d;
  (void)module;
  if (!PyArg_ParseTuple(args, "OdO", &shape, &value, &dtype)) return NULL;
  if (dtype_parse(dtype, &d) || convert_shape(shape, &rank, dims)) return NULL;
  weft_scope *s = op_begin();
  PyObject *made = array_wrap(weft_full(d, rank, dims, value));
  weft_scope_discard(s);
  return made;
}

PyMethodDef transform_functions[] = {
  { "constant", constant, METH_VARARGS, "constant(shape, number, dtype): an array that is a number in the kernels that read it" },
  { "told", told, METH_O, "told(n): the number that n is whatever sizes are; True: sizes tell it; False: only a run does" },
  { "alias", alias, METH_O, "alias(a): the same value under a new identity, to differentiate by" },
  { "input", input, METH_VARARGS, "input(like, skip): a name without value, of like's shape without the first axes" },
  { "vjp", vjp, METH_VARARGS, "vjp(y, dy, x): dx = J' dy" },
  { "jvp", jvp, METH_VARARGS, "jvp(x, dx, y): dy = J dx" },
  { "map", map, METH_VARARGS, "map(x, xs, y): y for every row of xs in place of x" },
  { "checkpoint", checkpoint, METH_VARARGS, "checkpoint(x, y): y, computed again from x by reverse mode" },
  { "become", become, METH_VARARGS, "become(array, other)" },
  { 0 },
};
