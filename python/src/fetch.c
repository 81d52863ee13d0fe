/* fetch.c -- results in memory of the caller's: arrays of NumPy's, memoryviews, whatever else shows memory that may be written to.
 *
 * All arrays are computed together, and nothing is written before all of them are there. */
#include "core.h"

/* What is written where; the first n_seen buffers are to be given back. */
struct fetched { struct list from; PyObject *outs; Py_buffer *buffer; int n_seen; };

static int has_shape_of(weft_array *a, const Py_buffer *b) {
  int64_t dims[WEFT_RANK_MAX];
  int rank;
  if (convert_dims_of(a, &rank, dims)) return -1;
  int is_same = rank == b->ndim;
  for (int k = 0; is_same && k < rank; k++) is_same = dims[k] == b->shape[k];
  if (!is_same) PyErr_SetString(PyExc_ValueError, "fetch: the memory has another shape than the array");
  return is_same ? 0 : -1;
}

static int has_dtype_of(weft_array *a, const Py_buffer *b) {
  weft_dtype there;
  if (dtype_of_format(b->format, b->itemsize, &there) && there == weft_dtype_of(a)) return 0;
  PyErr_Format(PyExc_TypeError, "fetch: the array is %s, elements of the memory have the format '%s'", dtype_text(weft_dtype_of(a)),
               b->format ? b->format : "B");
  return -1;
}

static int take_buffer(struct fetched *f, int i) {
  Py_buffer *b = &f->buffer[i];
  if (PyObject_GetBuffer(PySequence_Fast_GET_ITEM(f->outs, i), b, PyBUF_WRITABLE | PyBUF_STRIDES | PyBUF_FORMAT)) return -1;
  f->n_seen++;
  if (!PyBuffer_IsContiguous(b, 'C')) {
    PyErr_SetString(PyExc_ValueError, "fetch: rows of the memory do not follow one another: a dense array is expected");
    return -1;
  }
  return has_dtype_of(f->from.array[i], b) || has_shape_of(f->from.array[i], b) ? -1 : 0;
}

static int fetch_all(struct fetched *f) {
  int n = f->from.n;
  if (PySequence_Fast_GET_SIZE(f->outs) != n) {
    PyErr_Format(PyExc_ValueError, "fetch: %d arrays, memory for %zd", n, PySequence_Fast_GET_SIZE(f->outs));
    return -1;
  }
  for (int i = 0; i < n; i++)
    if (take_buffer(f, i)) return -1;
  for (int i = 0; i < n; i++) {
    weft_status s = weft_read(f->from.array[i], weft_dtype_of(f->from.array[i]), f->buffer[i].buf, (size_t)f->buffer[i].len);
    if (s) return raise_status(s), -1;
  }
  return 0;
}

/* fetch(arrays, outs) */
static PyObject *fetch(PyObject *module, PyObject *args) {
  PyObject *arrays, *outs;
  struct fetched f = { 0 };
  (void)module;
  if (!PyArg_ParseTuple(args, "OO", &arrays, &outs) || list_take(&f.from, arrays)) return NULL;
  f.outs = PySequence_Fast(outs, "fetch: a list of places is expected");
  f.buffer = PyMem_Calloc((size_t)f.from.n + 1, sizeof *f.buffer);
  if (!f.buffer) PyErr_NoMemory();
  int failed = !f.outs || !f.buffer || evaluate(f.from.n, f.from.array) || fetch_all(&f);
  while (f.n_seen > 0) PyBuffer_Release(&f.buffer[--f.n_seen]);
  PyMem_Free(f.buffer);
  Py_XDECREF(f.outs);
  list_drop(&f.from);
  if (failed) return NULL;
  Py_RETURN_NONE;
}

PyMethodDef fetch_functions[] = {
  { "fetch", fetch, METH_VARARGS, "fetch(arrays, outs): computes the arrays into memory of the caller's" },
  { 0 },
};
