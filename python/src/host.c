/* host.c -- functions in Python that compute arrays, as a step of whatever is computed. */
#include "core.h"
#include <string.h>

struct result { weft_dtype dtype; int rank; int64_t dims[WEFT_RANK_MAX]; size_t bytes; };
struct called { PyObject *function; int n, m; struct result result[]; };

/* The operands as arrays that live as long as the function wants: what the blocks show is void when it returns. */
static PyObject *operands(const struct called *c, const weft_block in[]) {
  PyObject *args = PyTuple_New(c->n);
  for (int i = 0; args && i < c->n; i++) {
    PyObject *a = array_wrap_as(&array_type, weft_from(in[i].dtype, in[i].rank, in[i].dims, in[i].data));
    if (a) PyTuple_SET_ITEM(args, i, a);
    else Py_CLEAR(args);
  }
  return args;
}

static int store(const struct result *r, int i, PyObject *value, void *data) {
  weft_array *a = convert_array(value, NULL, 1);
  int64_t dims[WEFT_RANK_MAX];
  int rank;
  if (!a || convert_dims_of(a, &rank, dims)) return -1;
  weft_dtype dtype = weft_dtype_of(a);
  if (dtype != r->dtype) {
    PyErr_Format(PyExc_TypeError, "host: result %d is %s, not %s", i, dtype_text(dtype), dtype_text(r->dtype));
    return -1;
  }
  if (rank != r->rank || memcmp(dims, r->dims, sizeof *dims * (size_t)rank)) {
    PyErr_Format(PyExc_ValueError, "host: result %d has another shape than was said", i);
    return -1;
  }
  return evaluate_into(a, data, r->bytes);
}

static int store_all(const struct called *c, PyObject *results, const weft_block out[]) {
  PyObject *list = results ? PySequence_Fast(results, "host: the function returns a list of arrays") : NULL;
  int failed = !list;
  if (list && PySequence_Fast_GET_SIZE(list) != c->m) {
    PyErr_Format(PyExc_ValueError, "host: the function returned %zd arrays, not %d", PySequence_Fast_GET_SIZE(list), c->m);
    failed = 1;
  }
  for (int i = 0; !failed && i < c->m; i++)
    failed = store(&c->result[i], i, PySequence_Fast_GET_ITEM(list, i), out[i].data);
  Py_XDECREF(list);
  return failed;
}

/* An exception stays set: whoever evaluates raises it (raise_status). */
static int run(void *ctx, const weft_block in[], const weft_block out[]) {
  const struct called *c = ctx;
  PyGILState_STATE gil = PyGILState_Ensure();
  weft_scope *s = weft_scope_open();
  PyObject *args = operands(c, in), *results = args ? PyObject_CallObject(c->function, args) : NULL;
  int failed = store_all(c, results, out);
  Py_XDECREF(args);
  Py_XDECREF(results);
  weft_scope_discard(s);
  PyGILState_Release(gil);
  return failed ? WEFT_ERR_RULE : 0;
}

static void release(void *ctx) { /* on any thread inside a call of weft */
  struct called *c = ctx;
  if (!Py_IsInitialized()) return;
  PyGILState_STATE gil = PyGILState_Ensure();
  Py_DECREF(c->function);
  PyMem_Free(c);
  PyGILState_Release(gil);
}

/* (shape, dtype) */
static int result_parse(PyObject *o, struct result *r) {
  PyObject *shape, *dtype;
  if (!PyTuple_Check(o) || !PyArg_ParseTuple(o, "OO", &shape, &dtype))
    return PyErr_SetString(PyExc_TypeError, "host: a result is said to be (shape, dtype)"), -1;
  if (convert_shape(shape, &r->rank, r->dims) || dtype_parse(dtype, &r->dtype)) return -1;
  r->bytes = weft_dtype_bytes(r->dtype);
  for (int k = 0; k < r->rank; k++) r->bytes *= (size_t)r->dims[k];
  return 0;
}

static struct called *called_make(PyObject *function, int n, PyObject *results) {
  Py_ssize_t m = PySequence_Fast_GET_SIZE(results);
  struct called *c = PyMem_Calloc(1, sizeof *c + sizeof *c->result * (size_t)m);
  if (!m) return PyMem_Free(c), PyErr_SetString(PyExc_ValueError, "host: a function without results is never called"), NULL;
  if (!c) return PyErr_NoMemory(), NULL;
  *c = (struct called){ Py_NewRef(function), n, (int)m };
  for (Py_ssize_t i = 0; i < m; i++)
    if (result_parse(PySequence_Fast_GET_ITEM(results, i), &c->result[i])) return release(c), NULL;
  return c;
}

static PyObject *call_of(struct called *c, weft_array *const x[]) {
  weft_block *like = PyMem_Calloc((size_t)c->m + 1, sizeof *like);
  weft_array **y = PyMem_Calloc((size_t)c->m + 1, sizeof *y);
  PyObject *list = NULL;
  if (!like || !y) release(c), PyErr_NoMemory();
  else {
    int m = c->m;
    for (int i = 0; i < m; i++)
      like[i] = (weft_block){ .dtype = c->result[i].dtype, .rank = c->result[i].rank, .dims = c->result[i].dims };
    weft_scope *s = op_begin();
    weft_host(&(weft_host_function){ c, run, release }, c->n, x, m, like, y);
    list = array_list(&array_type, m, y);
    weft_scope_discard(s);
  }
  PyMem_Free(like);
  PyMem_Free(y);
  return list;
}

/* host(function, arrays, [(shape, dtype), ..]) */
static PyObject *host(PyObject *module, PyObject *args) {
  PyObject *function, *inputs, *said;
  struct list x;
  (void)module;
  if (!PyArg_ParseTuple(args, "OOO", &function, &inputs, &said)) return NULL;
  if (!PyCallable_Check(function)) return PyErr_Format(PyExc_TypeError, "host: %R cannot be called", function);
  PyObject *results = PySequence_Fast(said, "host: results are a list of (shape, dtype)"), *list = NULL;
  if (!results || list_take(&x, inputs)) return Py_XDECREF(results), NULL;
  struct called *c = called_make(function, x.n, results);
  if (c) list = call_of(c, x.array);
  list_drop(&x);
  Py_DECREF(results);
  return list;
}

PyMethodDef host_functions[] = {
  { "host", host, METH_VARARGS, "host(function, arrays, results, /)\n--\n\n"
    "What the function returns of the arrays, as arrays that are computed by calling it; results: (shape, dtype) of each." },
  { 0 },
};
