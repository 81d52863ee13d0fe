/* tree.c -- trees of tuples, lists and dicts, taken apart: the arrays in order, and the structure, a value that is
 * equal for trees that differ in their arrays alone. A structure is "leaf" for an array, (type, keys or None,
 * structure, ..) for a container, and what the caller makes of anything else. */
#include "core.h"

static PyObject *leaf_mark(void) {
  static PyObject *mark;
  if (!mark) mark = PyUnicode_InternFromString("leaf");
  return mark;
}

static PyObject *take_leaf(PyObject *array, PyObject *leaves) {
  return PyList_Append(leaves, array) ? NULL : Py_XNewRef(leaf_mark());
}

/* What is no container: an array if `other` makes one of it. NULL: only arrays are wanted. */
static PyObject *take_other(PyObject *o, PyObject *leaves, PyObject *other) {
  if (!other) return Py_NewRef(Py_None);
  PyObject *made = PyObject_CallFunctionObjArgs(other, o, NULL);
  if (!made || !array_check(made)) return made;
  PyObject *mark = take_leaf(made, leaves);
  Py_DECREF(made);
  return mark;
}

static PyObject *take_apart(PyObject *tree, PyObject *leaves, PyObject *other);

/* NULL: it is no longer there; no exception is set. */
static PyObject *item_at(PyObject *items, Py_ssize_t i) {
#ifdef Py_GIL_DISABLED
  if (PyList_Check(items)) {
    PyObject *item = PyList_GetItemRef(items, i);
    if (!item) PyErr_Clear();
    return item;
  }
#endif
  return Py_XNewRef(i < PySequence_Fast_GET_SIZE(items) ? PySequence_Fast_GET_ITEM(items, i) : NULL);
}

/* (type, keys, structures of the items ..); takes over the reference to keys. */
static PyObject *container(PyObject *tree, PyObject *keys, PyObject *items, PyObject *leaves, PyObject *other) {
  Py_ssize_t n = PySequence_Fast_GET_SIZE(items);
  PyObject *structure = keys ? PyTuple_New(n + 2) : NULL;
  if (!structure) return Py_XDECREF(keys), NULL;
  PyTuple_SET_ITEM(structure, 0, Py_NewRef((PyObject *)Py_TYPE(tree)));
  PyTuple_SET_ITEM(structure, 1, keys);
  for (Py_ssize_t i = 0; i < n; i++) {
    PyObject *item = item_at(items, i);
    PyObject *part = item ? take_apart(item, leaves, other) : PyErr_Format(PyExc_RuntimeError, "the list changed");
    Py_XDECREF(item);
    if (!part) return Py_DECREF(structure), NULL;
    PyTuple_SET_ITEM(structure, i + 2, part);
  }
  return structure;
}

/* The keys, as a tuple; of a subclass as weft._tree.Keys, which can make another of its kind. */
static PyObject *keys_of(PyObject *dict) {
  if (!PyDict_CheckExact(dict)) return in_python("weft._tree", "keys_of", PyTuple_Pack(1, dict));
  PyObject *names = PyDict_Keys(dict), *keys = names ? PyList_AsTuple(names) : NULL;
  Py_XDECREF(names);
  return keys;
}

static PyObject *take_dict(PyObject *dict, PyObject *leaves, PyObject *other) {
  PyObject *keys = other ? keys_of(dict) : Py_NewRef(Py_None), *items = keys ? PyDict_Values(dict) : NULL;
  PyObject *structure = items ? container(dict, keys, items, leaves, other) : (Py_XDECREF(keys), NULL);
  Py_XDECREF(items);
  return structure;
}

static PyObject *take_apart(PyObject *tree, PyObject *leaves, PyObject *other) {
  if (array_check(tree)) return take_leaf(tree, leaves);
  if (!PyTuple_Check(tree) && !PyList_Check(tree) && !PyDict_Check(tree)) return take_other(tree, leaves, other);
  if (Py_EnterRecursiveCall(" in a tree of arrays")) return NULL;
  PyObject *structure =
      PyDict_Check(tree) ? take_dict(tree, leaves, other) : container(tree, Py_NewRef(Py_None), tree, leaves, other);
  Py_LeaveRecursiveCall();
  return structure;
}

static PyObject *flatten(PyObject *module, PyObject *args) {
  PyObject *tree, *other;
  (void)module;
  if (!PyArg_ParseTuple(args, "OO", &tree, &other)) return NULL;
  PyObject *leaves = PyList_New(0), *structure = leaves ? take_apart(tree, leaves, other) : NULL;
  if (structure) return Py_BuildValue("NN", leaves, structure);
  Py_XDECREF(leaves);
  return NULL;
}

PyObject *tree_arrays(Py_ssize_t n, PyObject *const trees[]) {
  PyObject *leaves = PyList_New(0);
  for (Py_ssize_t i = 0; leaves && i < n; i++) {
    PyObject *structure = take_apart(trees[i], leaves, NULL);
    if (!structure) Py_CLEAR(leaves);
    Py_XDECREF(structure);
  }
  return leaves;
}

static PyObject *arrays(PyObject *module, PyObject *const trees[], Py_ssize_t n) {
  (void)module;
  return tree_arrays(n, trees);
}

/* Dtype, rank and sizes of every array, as bytes: what a compiled function is chosen by. */
static PyObject *signature(PyObject *module, PyObject *args) {
  int64_t small[64], *out = small;
  PyObject *list;
  int open;
  (void)module;
  if (!PyArg_ParseTuple(args, "O!i", &PyList_Type, &list, &open)) return NULL;
  Py_ssize_t n = PyList_GET_SIZE(list), at = 0;
  if (n > 64 / (WEFT_RANK_MAX + 1)) out = PyMem_Malloc((size_t)n * (WEFT_RANK_MAX + 1) * sizeof *out);
  if (!out) return PyErr_NoMemory();
  PyObject *bytes = NULL;
  for (Py_ssize_t i = 0; i < n; i++) {
    PyObject *a = PyList_GET_ITEM(list, i);
    int rank;
    if (!array_check(a)) { PyErr_SetString(PyExc_TypeError, "signature: a list of arrays is expected"); goto end; }
    if (convert_open_dims(a, &rank, out + at + 1)) goto end;
    out[at] = array_word(a, weft_dtype_of(array_handle(a)), rank);
    array_open(open, rank, out + at + 1);
    at += 1 + rank;
  }
  bytes = PyBytes_FromStringAndSize((char *)out, at * (Py_ssize_t)sizeof *out);
end:
  if (out != small) PyMem_Free(out);
  return bytes;
}

PyMethodDef tree_functions[] = {
  { "flatten_tree", flatten, METH_VARARGS,
    "flatten_tree(tree, other): ([arrays], structure); other(x) makes an array or a part of the "
    "structure of whatever is no container" },
  { "arrays", (PyCFunction)(void (*)(void))arrays, METH_FASTCALL, "arrays(*trees): all arrays in the trees" },
  { "signature", signature, METH_VARARGS,
    "signature([arrays], open): their dtypes and sizes as bytes; open 1: sizes but 1 are any, 2: all are" },
  { 0 },
};
