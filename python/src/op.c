/* op.c -- the frame of every operation: the user's line is noted, a scope opened, the result owned, the scope ended. */
#include "core.h"

weft_scope *op_begin(void) {
  origin_mark();
  return weft_scope_open();
}

PyObject *op_end(weft_scope *scope, weft_array *result) {
  PyObject *object = result ? array_wrap(result) : NULL;
  weft_scope_discard(scope);
  return object;
}

PyObject *in_python(const char *module, const char *name, PyObject *args) {
  PyObject *m = args ? PyImport_ImportModule(module) : NULL, *f = m ? PyObject_GetAttrString(m, name) : NULL;
  PyObject *result = f ? PyObject_CallObject(f, args) : NULL;
  Py_XDECREF(f);
  Py_XDECREF(m);
  Py_XDECREF(args);
  return result;
}

PyObject *op_on_first(method call, PyObject *args, PyObject *kwargs) {
  Py_ssize_t n = PyTuple_GET_SIZE(args);
  if (!n) return PyErr_Format(PyExc_TypeError, "the first argument, an array, is missing");
  PyObject *self = array_from(PyTuple_GET_ITEM(args, 0)), *rest = self ? PyTuple_GetSlice(args, 1, n) : NULL;
  PyObject *result = rest ? call(self, rest, kwargs) : NULL;
  Py_XDECREF(rest);
  Py_XDECREF(self);
  return result;
}
