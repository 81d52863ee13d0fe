/* rules.c -- functions with derivatives of their own, written in Python. */
#include "core.h"
#include <string.h>

struct rules { PyObject *vjp, *jvp, *map; int n, m; PyTypeObject *flavour; };

/* Aliases of what a rule returned, because its objects die here and the scope must hold the arrays. */
static int take_results(PyObject *results, int n, weft_array *out[]) {
  struct list l;
  int failed = !results || list_take(&l, results);
  Py_XDECREF(results);
  if (failed) return 1;
  if (l.n == n)
    for (int i = 0; i < n; i++) out[i] = weft_alias(l.array[i]);
  else PyErr_Format(PyExc_ValueError, "a rule returned %d arrays, not %d", l.n, n);
  list_drop(&l);
  return PyErr_Occurred() != NULL;
}

static int rule_vjp(void *ctx, weft_array *const x[], weft_array *const y[], weft_array *const dy[], weft_array *dx[]) {
  struct rules *r = ctx;
  PyGILState_STATE gil = PyGILState_Ensure();
  PyObject *xs = array_list(r->flavour, r->n, x), *ys = xs ? array_list(r->flavour, r->m, y) : NULL;
  PyObject *dys = ys ? array_list(r->flavour, r->m, dy) : NULL;
  int failed = take_results(dys ? PyObject_CallFunctionObjArgs(r->vjp, xs, ys, dys, NULL) : NULL, r->n, dx);
  Py_XDECREF(xs);
  Py_XDECREF(ys);
  Py_XDECREF(dys);
  PyGILState_Release(gil);
  return failed;
}

static PyObject *list_or_none(PyTypeObject *type, int n, weft_array *const a[]) {
  PyObject *list = PyList_New(n);
  for (int i = 0; list && i < n; i++) {
    PyObject *item = a[i] ? array_wrap_as(type, a[i]) : Py_NewRef(Py_None);
    if (item) PyList_SET_ITEM(list, i, item);
    else Py_CLEAR(list);
  }
  return list;
}

static int rule_jvp(void *ctx, weft_array *const x[], weft_array *const dx[], weft_array *dy[]) {
  struct rules *r = ctx;
  PyGILState_STATE gil = PyGILState_Ensure();
  PyObject *xs = array_list(r->flavour, r->n, x), *dxs = xs ? list_or_none(r->flavour, r->n, dx) : NULL;
  int failed = take_results(dxs ? PyObject_CallFunctionObjArgs(r->jvp, xs, dxs, NULL) : NULL, r->m, dy);
  Py_XDECREF(xs);
  Py_XDECREF(dxs);
  PyGILState_Release(gil);
  return failed;
}

static PyObject *bools(int n, const int flags[]) {
  PyObject *list = PyList_New(n);
  for (int i = 0; list && i < n; i++) PyList_SET_ITEM(list, i, PyBool_FromLong(flags[i]));
  return list;
}

static int rule_map(void *ctx, weft_array *const xs[], const int is_mapped[], weft_array *ys[]) {
  struct rules *r = ctx;
  PyGILState_STATE gil = PyGILState_Ensure();
  PyObject *list = array_list(r->flavour, r->n, xs), *mapped = list ? bools(r->n, is_mapped) : NULL;
  int failed = take_results(mapped ? PyObject_CallFunctionObjArgs(r->map, list, mapped, NULL) : NULL, r->m, ys);
  Py_XDECREF(list);
  Py_XDECREF(mapped);
  PyGILState_Release(gil);
  return failed;
}

static void rules_release(void *ctx) { /* on any thread inside a call of weft */
  struct rules *r = ctx;
  if (!Py_IsInitialized()) return;
  PyGILState_STATE gil = PyGILState_Ensure();
  Py_DECREF(r->vjp);
  Py_DECREF(r->jvp);
  Py_DECREF(r->map);
  PyMem_Free(r);
  PyGILState_Release(gil);
}

/* custom(inputs, outputs, vjp, jvp, map): the outputs, with these rules; None is the ordinary rule. */
static PyObject *custom(PyObject *module, PyObject *args) {
  PyObject *inputs, *outputs, *rule[3], *results = NULL;
  struct list x, y;
  (void)module;
  if (!PyArg_ParseTuple(args, "OOOOO", &inputs, &outputs, &rule[0], &rule[1], &rule[2]) || list_take(&x, inputs))
    return NULL;
  if (list_take(&y, outputs)) return list_drop(&x), NULL;
  struct rules *r = PyMem_Malloc(sizeof *r);
  weft_array **out = r ? PyMem_Malloc((size_t)(y.n + 1) * sizeof *out) : NULL;
  if (!out) PyMem_Free(r), PyErr_NoMemory();
  else {
    PyTypeObject *type = flavour_of(2, (PyObject *[]){ inputs, outputs });
    *r = (struct rules){ Py_NewRef(rule[0]), Py_NewRef(rule[1]), Py_NewRef(rule[2]), x.n, y.n, type };
    memcpy(out, y.array, (size_t)y.n * sizeof *out);
    weft_scope *s = op_begin();
    weft_custom(x.n, x.array, y.n, out,
                &(weft_rules){ r, rule[0] == Py_None ? NULL : rule_vjp, rule[1] == Py_None ? NULL : rule_jvp,
                               rule[2] == Py_None ? NULL : rule_map, rules_release });
    results = array_list(y.flavour, y.n, out);
    weft_scope_discard(s);
    PyMem_Free(out);
  }
  list_drop(&x);
  list_drop(&y);
  return results;
}

PyMethodDef rules_functions[] = {
  { "custom", custom, METH_VARARGS, "custom(x, y, vjp, jvp, map): y with rules of its own" },
  { 0 },
};
