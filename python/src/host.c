/* host.c -- functions in Python that compute arrays, as a step of whatever is computed. */
#include "core.h"
#include <stdlib.h>
#include <string.h>

struct called { PyObject *function; int n, m; };

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

static int store(int i, PyObject *value, const weft_block *out) {
  weft_array *a = convert_array(value, NULL, 1);
  int64_t dims[WEFT_RANK_MAX];
  int rank;
  if (!a || convert_dims_of(a, &rank, dims)) return -1;
  weft_dtype dtype = weft_dtype_of(a);
  size_t bytes = weft_dtype_bytes(out->dtype);
  for (int k = 0; k < out->rank; k++) bytes *= (size_t)out->dims[k];
  if (dtype != out->dtype) {
    PyErr_Format(PyExc_TypeError, "host: result %d is %s, not %s", i, dtype_text(dtype), dtype_text(out->dtype));
    return -1;
  }
  if (rank != out->rank || memcmp(dims, out->dims, sizeof *dims * (size_t)rank)) {
    PyErr_Format(PyExc_ValueError, "host: result %d has another shape than was said", i);
    return -1;
  }
  return evaluate_into(a, out->data, bytes);
}

static int store_all(const struct called *c, PyObject *results, const weft_block out[]) {
  PyObject *list = results ? PySequence_Fast(results, "host: the function returns a list of arrays") : NULL;
  int failed = !list;
  if (list && PySequence_Fast_GET_SIZE(list) != c->m) {
    PyErr_Format(PyExc_ValueError, "host: the function returned %zd arrays, not %d", PySequence_Fast_GET_SIZE(list), c->m);
    failed = 1;
  }
  for (int i = 0; !failed && i < c->m; i++)
    failed = store(i, PySequence_Fast_GET_ITEM(list, i), &out[i]);
  Py_XDECREF(list);
  return failed;
}

/* ---- What it raised ----
 * A function is called by who waits, perhaps for another job than its own, so an exception is put aside under a number, which is
 * the status that the function fails with and thus stands in the message. Who is told of it first raises the exception, who asks
 * again one of the same class made of the same arguments, so that nothing here holds the frames of a failure that was seen. Those
 * of the last MOST_RAISED failures are kept, and of the last MOST_TOLD what they said. The GIL is held, or `aside`. */
enum { MOST_RAISED = 16, MOST_TOLD = 128, FIRST_RAISED = 1000000 };
GUARD(aside);
static struct raised { int number; PyObject *type, *value, *trace, *args; } raised[MOST_RAISED];
static struct told { int number; char text[120]; } told[MOST_TOLD];

/* "LookupError: no", as it stands below a traceback. */
static void tell(struct told *t, PyObject *value) {
  PyObject *text = value ? PyObject_Str(value) : NULL;
  const char *s = text ? PyUnicode_AsUTF8(text) : NULL;
  snprintf(t->text, sizeof t->text, "%s%s%s", value ? Py_TYPE(value)->tp_name : "an exception", s && *s ? ": " : "", s ? s : "");
  Py_XDECREF(text);
  PyErr_Clear();
}

static int put_aside(void) {
  static int n_raised;
  struct raised new = { 0 };
  struct told said;
  PyErr_Fetch(&new.type, &new.value, &new.trace);
  PyErr_NormalizeException(&new.type, &new.value, &new.trace);
  if (new.trace) PyException_SetTraceback(new.value, new.trace);
  new.args = PyObject_GetAttrString(new.value, "args");
  PyErr_Clear();
  tell(&said, new.value);
  guard(aside);
  n_raised = n_raised % FIRST_RAISED + 1;
  said.number = new.number = FIRST_RAISED + n_raised;
  struct raised *r = &raised[new.number % MOST_RAISED], old = *r;
  *r = new;
  told[said.number % MOST_TOLD] = said;
  unguard(aside);
  Py_XDECREF(old.type), Py_XDECREF(old.value), Py_XDECREF(old.trace), Py_XDECREF(old.args);
  return said.number;
}

/* Of an exception that is no longer kept. */
static int raise_told(const struct told *t) {
  PyObject *line = origin_text(weft_blame());
  if (line == Py_None) PyErr_Format(PyExc_RuntimeError, "host: the function raised %s", t->text);
  else if (line) PyErr_Format(PyExc_RuntimeError, "host: the function raised %s (%U)", t->text, line);
  Py_XDECREF(line);
  return -1;
}

int host_raise(const char *message) {
  static const char words[] = "the function failed with ";
  const char *at = strstr(message, words);
  int number = at ? atoi(at + sizeof words - 1) : 0;
  struct raised *r = &raised[(unsigned)number % MOST_RAISED];
  struct told said;
  PyObject *value = NULL, *trace = NULL, *type = NULL, *args = NULL;
  guard(aside);
  if (number >= FIRST_RAISED && r->number == number) {
    value = r->value, trace = r->trace, type = Py_NewRef(r->type), args = Py_XNewRef(r->args);
    r->value = r->trace = NULL;
  }
  said = told[(unsigned)number % MOST_TOLD];
  unguard(aside);
  if (!value && args) value = PyObject_Call(type, args, NULL);
  Py_XDECREF(type), Py_XDECREF(args);
  if (!value) return PyErr_Clear(), number >= FIRST_RAISED && said.number == number ? raise_told(&said) : 0;
  PyErr_Restore(Py_NewRef(Py_TYPE(value)), value, trace);
  return -1;
}

static int run(void *ctx, const weft_block in[], const weft_block out[]) {
  const struct called *c = ctx;
  PyGILState_STATE gil = PyGILState_Ensure();
  weft_scope *s = weft_scope_open();
  PyObject *args = operands(c, in), *results = args ? PyObject_CallObject(c->function, args) : NULL;
  int failed = store_all(c, results, out) ? put_aside() : 0;
  Py_XDECREF(args);
  Py_XDECREF(results);
  weft_scope_discard(s);
  PyGILState_Release(gil);
  return failed;
}

static void release(void *ctx) { /* on any thread inside a call of weft */
  struct called *c = ctx;
  if (!Py_IsInitialized()) return;
  PyGILState_STATE gil = PyGILState_Ensure();
  Py_DECREF(c->function);
  PyMem_Free(c);
  PyGILState_Release(gil);
}

/* (shape, dtype), of which sizes may be open, as an array that nobody computes; NULL: the exception. */
static weft_array *like_parse(PyObject *o) {
  PyObject *shape, *type;
  weft_array *like = NULL;
  weft_dtype dtype;
  int rank;
  int64_t dims[WEFT_RANK_MAX];
  if (!PyTuple_Check(o) || !PyArg_ParseTuple(o, "OO", &shape, &type))
    return PyErr_SetString(PyExc_TypeError, "host: a result is said to be (shape, dtype)"), NULL;
  if (dtype_parse(type, &dtype)) return NULL;
  int is_open = convert_sized(shape, dtype, NULL, &like);
  if (is_open) return is_open < 0 ? NULL : like;
  return convert_shape(shape, &rank, dims) ? NULL : weft_full(dtype, rank, dims, 0);
}

/* What the function returns, as arrays of the open scope. */
static PyObject *call_of(PyObject *function, const struct list *x, PyObject *results) {
  Py_ssize_t m = PySequence_Fast_GET_SIZE(results), k = 0;
  if (!m) return PyErr_SetString(PyExc_ValueError, "host: a function without results is never called"), NULL;
  weft_array **like = PyMem_Calloc(2 * (size_t)m, sizeof *like);
  struct called *c = PyMem_Calloc(1, sizeof *c);
  PyObject *list = NULL;
  if (!like || !c) PyErr_NoMemory(), PyMem_Free(c);
  else {
    weft_scope *s = op_begin();
    *c = (struct called){ Py_NewRef(function), x->n, (int)m };
    while (k < m && (like[k] = like_parse(PySequence_Fast_GET_ITEM(results, k)))) k++;
    if (k < m) release(c);
    else {
      weft_host_like(&(weft_host_function){ c, run, release }, x->n, x->array, (int)m, like, like + m);
      list = array_list(&array_type, (int)m, like + m);
    }
    weft_scope_discard(s);
  }
  PyMem_Free(like);
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
  list = call_of(function, &x, results);
  list_drop(&x);
  Py_DECREF(results);
  return list;
}

PyMethodDef host_functions[] = {
  { "host", host, METH_VARARGS, "host(function, arrays, results, /)\n--\n\n"
    "What the function returns of the arrays, as arrays that are computed by calling it; results: (shape, dtype) of each.\n"
    "Sizes may be open: those of names, and what is computed of them." },
  { 0 },
};
