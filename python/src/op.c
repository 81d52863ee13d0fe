/* op.c -- the frame of every operation: the user's line is noted, a scope opened, the result owned, the scope ended. */
#include "core.h"

weft_scope *op_begin(void) {
  origin_mark();
  return weft_scope_open();
}

PyObject *op_end(weft_scope *scope, weft_array *result) { return op_end_as(flavour(), scope, result); }

PyObject *op_end_as(PyTypeObject *type, weft_scope *scope, weft_array *result) {
  int is_refused = 0;
  for (int k = 0; result && type == &mlx_array_type && !is_refused && k < weft_rank(result); k++)
    is_refused = mlx_size_refuses(weft_dim(result, k));
  PyObject *object = result && !is_refused ? array_wrap_as(type, result) : NULL;
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
