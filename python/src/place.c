/* place.c -- where operations of MLX's flavour run, if not where the thread's work does: stream= and `with mx.stream(..)` say. An
 * array that a user holds is placed nowhere. An operation for another device gets its operands brought there, and its result away
 * again; that object keeps what was made there too, so that of operations one after the other only the ends are brought. Objects
 * of transforms are new ones, which keep nothing, so derivatives by them find them. */
#include "names.h"

static _Thread_local int set = -1; /* a device, or -1: where the thread's work runs */

int place_now(void) { return set; }

int place_set(int device) {
  int before = set;
  set = device;
  return before;
}

int place_of(PyObject *stream) {
  if (stream == Py_None) return set;
  PyObject *number = in_python("weft.mlx._device", "_number", PyTuple_Pack(1, stream));
  long n = number ? PyLong_AsLong(number) : -2;
  Py_XDECREF(number);
  return PyErr_Occurred() ? -2 : (int)n;
}

/* ---- Bringing ---- */

static PyObject *array_there(PyObject *o, int device) {
  struct array *a = (struct array *)o;
  int is_kept = a->there && a->place == device && weft_state_of(a->handle, NULL) == WEFT_LAZY;
  weft_scope *s = op_begin();
  PyObject *there = array_wrap_as(flavour_of_array(o), is_kept ? a->there : weft_to(a->handle, device));
  weft_scope_discard(s);
  return there;
}

static PyObject *array_away(PyObject *o, int device) {
  weft_scope *s = op_begin();
  PyObject *away = array_wrap_as(flavour_of_array(o), weft_to(array_handle(o), -1));
  if (away) ((struct array *)away)->there = weft_own(array_handle(o)), ((struct array *)away)->place = device;
  weft_scope_discard(s);
  return away;
}

typedef PyObject *bring(PyObject *, int device);

/* A list or a tuple with its arrays brought; *n counts them. */
static PyObject *tree_brought(PyObject *tree, bring *array_brought, int device, int *n);
static PyObject *sequence_brought(PyObject *tree, bring *array_brought, int device, int *n) {
  Py_ssize_t length = PySequence_Size(tree);
  PyObject *list = length < 0 ? NULL : PyList_New(length), *tuple;
  for (Py_ssize_t i = 0; list && i < length; i++) {
    PyObject *old = PySequence_GetItem(tree, i), *item = old ? tree_brought(old, array_brought, device, n) : NULL;
    Py_XDECREF(old);
    if (item) PyList_SET_ITEM(list, i, item);
    else Py_CLEAR(list);
  }
  if (!list || PyList_CheckExact(tree)) return list;
  tuple = PyList_AsTuple(list);
  Py_DECREF(list);
  return tuple;
}

static PyObject *dict_brought(PyObject *tree, bring *array_brought, int device, int *n) {
  PyObject *dict = PyDict_New(), *key, *value;
  for (Py_ssize_t at = 0; dict && PyDict_Next(tree, &at, &key, &value);) {
    PyObject *item = tree_brought(value, array_brought, device, n);
    if (!item || PyDict_SetItem(dict, key, item)) Py_CLEAR(dict);
    Py_XDECREF(item);
  }
  return dict;
}

static PyObject *tree_brought(PyObject *tree, bring *array_brought, int device, int *n) {
  PyObject *brought;
  if (array_check(tree)) return ++*n, array_brought(tree, device);
  if (Py_EnterRecursiveCall(" in a tree of arrays")) return NULL;
  if (PyList_CheckExact(tree) || PyTuple_CheckExact(tree)) brought = sequence_brought(tree, array_brought, device, n);
  else if (PyDict_CheckExact(tree)) brought = dict_brought(tree, array_brought, device, n);
  else brought = Py_NewRef(tree);
  Py_LeaveRecursiveCall();
  return brought;
}

PyObject *place_there(PyObject *tree, int device, int *n) { return tree_brought(tree, array_there, device, n); }

PyObject *place_away(PyObject *tree, int device) {
  int n = 0;
  PyObject *away = tree ? tree_brought(tree, array_away, device, &n) : NULL;
  Py_XDECREF(tree);
  return away;
}

/* ---- For what is written in Python ---- */

/* _run_at(device, function, args, kwargs): the function there. One that is given no array brings what it makes itself. */
static PyObject *run_at(PyObject *module, PyObject *o) {
  PyObject *function, *args, *kwargs;
  int device, n = 0;
  (void)module;
  if (!PyArg_ParseTuple(o, "iOO!O!", &device, &function, &PyTuple_Type, &args, &PyDict_Type, &kwargs)) return NULL;
  PyObject *a = place_there(args, device, &n), *k = a ? place_there(kwargs, device, &n) : NULL;
  int before = place_set(n ? -1 : device);
  PyObject *result = k ? PyObject_Call(function, a, k) : NULL;
  place_set(before);
  Py_XDECREF(a);
  Py_XDECREF(k);
  return n ? place_away(result, device) : result;
}

/* _place(stream): the device of it, -1 where the thread's work runs. _set_place(device): for this thread; what it was. */
static PyObject *get_place(PyObject *module, PyObject *stream) {
  int device = place_of(stream);
  return (void)module, device == -2 ? NULL : PyLong_FromLong(device);
}
static PyObject *set_place(PyObject *module, PyObject *device) {
  long n = PyLong_AsLong(device);
  return (void)module, n == -1 && PyErr_Occurred() ? NULL : PyLong_FromLong(place_set((int)n));
}

PyMethodDef place_functions[] = {
  { "_run_at", run_at, METH_VARARGS, "_run_at(device, function, args, kwargs): its result, computed there" },
  { "_place", get_place, METH_O, "_place(stream): the device of a stream, -1 where the thread's work runs; None: what is set" },
  { "_set_place", set_place, METH_O, "_set_place(device): where operations run from now on; what it was" },
  { 0 },
};
