/* loop.c -- loops: a body that is traced once. What is wrong with it is raised when it ends. */
#include "core.h"

struct loop {
  PyObject_HEAD
  weft_loop *loop; /* NULL: closed */
  weft_array *first; /* of its results, owned; NULL: none. An error makes all of them bad */
};

/* Loop(steps or None). It is a scope: opened inside another, whose end ends it should the body raise. */
static PyObject *loop_open(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
  PyObject *steps;
  (void)kwargs;
  if (!PyArg_ParseTuple(args, "O", &steps)) return NULL;
  origin_mark();
  weft_array *n = steps == Py_None ? NULL : convert_operand(steps);
  struct loop *self = PyErr_Occurred() ? NULL : PyObject_New(struct loop, type);
  if (self) self->loop = weft_loop_open(n), self->first = NULL;
  return (PyObject *)self;
}

static weft_loop *opened(PyObject *self) {
  weft_loop *l = ((struct loop *)self)->loop;
  if (!l) PyErr_SetString(PyExc_RuntimeError, "the loop is closed");
  return l;
}

static PyObject *loop_call(weft_array *(*call)(weft_loop *, weft_array *), PyObject *self, PyObject *o) {
  weft_loop *l = opened(self);
  if (!l) return NULL;
  origin_mark();
  weft_array *a = convert_operand(o);
  return a ? array_wrap_as(flavour_of(1, &o), call(l, a)) : NULL;
}
static PyObject *loop_each(PyObject *self, PyObject *xs) { return loop_call(weft_loop_each, self, xs); }
static PyObject *loop_carry(PyObject *self, PyObject *init) { return loop_call(weft_loop_carry, self, init); }

static PyObject *loop_result(PyObject *self, PyObject *result) {
  struct loop *l = (struct loop *)self;
  if (result && !l->first) l->first = weft_own(array_handle(result));
  return result;
}
static PyObject *loop_all(PyObject *self, PyObject *y) { return loop_result(self, loop_call(weft_loop_all, self, y)); }
static PyObject *loop_last(PyObject *self, PyObject *carry) { return loop_result(self, loop_call(weft_loop_last, self, carry)); }

static PyObject *loop_tail(PyObject *self, PyObject *args) {
  PyObject *y;
  long long k;
  weft_loop *l = opened(self);
  if (!l || !PyArg_ParseTuple(args, "OL", &y, &k)) return NULL;
  origin_mark();
  weft_array *a = convert_operand(y);
  return a ? loop_result(self, array_wrap_as(flavour_of(1, &y), weft_loop_tail(l, a, k))) : NULL;
}

static PyObject *loop_next(PyObject *self, PyObject *args) {
  PyObject *carry, *value;
  weft_loop *l = opened(self);
  if (!l || !PyArg_ParseTuple(args, "O!O!", &array_type, &carry, &array_type, &value)) return NULL;
  origin_mark();
  weft_loop_next(l, array_handle(carry), array_handle(value));
  Py_RETURN_NONE;
}

static PyObject *loop_until(PyObject *self, PyObject *stop) {
  weft_loop *l = opened(self);
  weft_array *a = l ? convert_operand(stop) : NULL;
  if (!a) return NULL;
  origin_mark();
  weft_loop_until(l, a);
  Py_RETURN_NONE;
}

static PyObject *loop_set(void (*call)(weft_loop *, int64_t), PyObject *self, PyObject *o) {
  weft_loop *l = opened(self);
  long long n = l ? PyLong_AsLongLong(o) : -1;
  if (PyErr_Occurred()) return NULL;
  origin_mark();
  call(l, n);
  Py_RETURN_NONE;
}
static PyObject *loop_recompute(PyObject *self, PyObject *every) { return loop_set(weft_loop_recompute, self, every); }
static PyObject *loop_truncate(PyObject *self, PyObject *steps) { return loop_set(weft_loop_truncate, self, steps); }

static PyObject *loop_close(PyObject *self, PyObject *unused) {
  weft_loop *l = opened(self);
  (void)unused;
  if (!l) return NULL;
  weft_array *first = ((struct loop *)self)->first;
  ((struct loop *)self)->loop = NULL;
  weft_loop_close(l);
  weft_status s = first ? weft_check(first) : WEFT_OK;
  if (s) return raise_status(s);
  Py_RETURN_NONE;
}

static void loop_destroy(PyObject *self) {
  weft_disown(((struct loop *)self)->first);
  PyObject_Free(self);
}

static PyMethodDef loop_methods[] = {
  { "each", loop_each, METH_O, "each(xs): xs[t]" },
  { "carry", loop_carry, METH_O, "carry(init): init, then what next says" },
  { "next", loop_next, METH_VARARGS, "next(carry, value)" },
  { "until", loop_until, METH_O, "until(stop): the step where it is true is the last" },
  { "recompute", loop_recompute, METH_O, "recompute(every): reverse mode keeps the carries before every k-th step; 0: the root" },
  { "truncate", loop_truncate, METH_O, "truncate(steps): reverse mode goes back through the last steps only" },
  { "all", loop_all, METH_O, "all(y): y of every step, for use after close" },
  { "tail", loop_tail, METH_VARARGS, "tail(y, k): y of the last k steps, for use after close" },
  { "last", loop_last, METH_O, "last(carry): after the last step, for use after close" },
  { "close", loop_close, METH_NOARGS, "close(): ends the body; what was wrong with it is raised now" },
  { 0 },
};
PyTypeObject loop_type = {
  PyVarObject_HEAD_INIT(NULL, 0)
  .tp_name = "weft._core.Loop",
  .tp_basicsize = sizeof(struct loop),
  .tp_flags = Py_TPFLAGS_DEFAULT,
  .tp_dealloc = loop_destroy,
  .tp_doc = "Loop(steps or None): a body that is written once.",
  .tp_new = loop_open,
  .tp_methods = loop_methods,
};
