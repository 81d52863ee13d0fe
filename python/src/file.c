/* file.c -- arrays in files. */
#include "core.h"
#include <string.h>

static PyObject *metadata(weft_file *f) {
  PyObject *meta = PyDict_New();
  const char *key, *value;
  for (int i = 0; meta && weft_file_meta(f, i, &key, &value); i++) {
    PyObject *text = PyUnicode_DecodeUTF8(value, (Py_ssize_t)strlen(value), "replace");
    if (!text || PyDict_SetItemString(meta, key, text)) Py_CLEAR(meta);
    Py_XDECREF(text);
  }
  return meta;
}

static PyObject *arrays(weft_file *f, int n) {
  PyObject *dict = PyDict_New();
  for (int i = 0; dict && i < n; i++) {
    const char *name = weft_file_name(f, i);
    PyObject *key = PyUnicode_DecodeUTF8(name ? name : "", (Py_ssize_t)(name ? strlen(name) : 0), "surrogateescape");
    PyObject *a = key ? array_wrap(weft_file_get(f, name)) : NULL;
    if (!a || PyDict_SetItem(dict, key, a)) Py_CLEAR(dict);
    Py_XDECREF(a);
    Py_XDECREF(key);
  }
  return dict;
}

/* load(path): (arrays by name, metadata). */
static PyObject *load(PyObject *module, PyObject *path) {
  PyObject *bytes, *dict = NULL, *meta = NULL;
  (void)module;
  if (!PyUnicode_FSConverter(path, &bytes)) return NULL;
  weft_scope *s = op_begin();
  weft_file *f = weft_file_open(PyBytes_AS_STRING(bytes));
  int n = weft_file_count(f);
  if (n < 0) raise_status(WEFT_ERR_FILE);
  else if ((dict = arrays(f, n))) meta = metadata(f);
  weft_scope_discard(s);
  Py_DECREF(bytes);
  return meta ? Py_BuildValue("NN", dict, meta) : (Py_XDECREF(dict), NULL);
}

/* C strings of a list of str; the list keeps them. PyMem_Free the table. */
static const char **strings(PyObject *list, Py_ssize_t n) {
  const char **text = PyMem_Calloc((size_t)n + 1, sizeof *text);
  if (!text) return (const char **)PyErr_NoMemory();
  for (Py_ssize_t i = 0; i < n; i++)
    if (!(text[i] = PyUnicode_AsUTF8(PyList_GET_ITEM(list, i)))) return PyMem_Free(text), NULL;
  return text;
}

/* save(path, names, arrays, [key, value, ..]) */
static PyObject *save(PyObject *module, PyObject *args) {
  PyObject *path, *names, *list, *meta;
  const char **name = NULL, **pairs = NULL;
  struct list l;
  weft_status s = WEFT_OK;
  (void)module;
  static PyTypeObject *const lists = &PyList_Type;
  if (!PyArg_ParseTuple(args, "O&O!OO!", PyUnicode_FSConverter, &path, lists, &names, &list, lists, &meta)) return NULL;
  if (list_take(&l, list)) return Py_DECREF(path), NULL;
  if (PyList_GET_SIZE(names) != l.n) PyErr_SetString(PyExc_ValueError, "save: each array has one name");
  else if ((name = strings(names, l.n)) && (pairs = strings(meta, PyList_GET_SIZE(meta))) && !evaluate(l.n, l.array)) {
    weft_scope *scope = weft_scope_open();
    Py_BEGIN_ALLOW_THREADS
    s = weft_save(PyBytes_AS_STRING(path), l.n, name, l.array, PyList_GET_SIZE(meta) ? pairs : NULL);
    Py_END_ALLOW_THREADS
    if (s) raise_status(s);
    weft_scope_discard(scope);
  }
  PyMem_Free(pairs);
  PyMem_Free(name);
  list_drop(&l);
  Py_DECREF(path);
  if (PyErr_Occurred()) return NULL;
  Py_RETURN_NONE;
}

PyMethodDef file_functions[] = {
  { "load", load, METH_O, "load(path): the arrays of a file by name, read when they are needed, and its metadata" },
  { "save", save, METH_VARARGS, "save(path, names, arrays, [key, value, ..])" },
  { 0 },
};
