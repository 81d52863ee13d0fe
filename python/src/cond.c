/* cond.c -- choices: two sides, both traced, of which one is computed. */
#include "core.h"

struct cond {
  PyObject_HEAD
  weft_cond *cond; /* NULL: closed */
};

/* Cond(p). A scope, as a loop is. */
static PyObject *cond_open(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
  PyObject *p;
  (void)kwargs;
  if (!PyArg_ParseTuple(args, "O", &p)) return NULL;
  origin_mark();
  weft_array *a = convert_operand(p);
  struct cond *self = a ? PyObject_New(struct cond, type) : NULL;
  if (self) self->cond = weft_cond_open(a);
  return (PyObject *)self;
}

static weft_cond *choosing(PyObject *self) {
  weft_cond *c = ((struct cond *)self)->cond;
  if (!c) PyErr_SetString(PyExc_RuntimeError, "the choice is closed");
  return c;
}

static PyObject *cond_value(PyObject *self, PyObject *args) {
  PyObject *a, *b;
  weft_cond *c = choosing(self);
  if (!c || !PyArg_ParseTuple(args, "O!O!", &array_type, &a, &array_type, &b)) return NULL;
  origin_mark();
  return array_wrap_as(flavour_of(2, (PyObject *[]){ a, b }), weft_cond_value(c, array_handle(a), array_handle(b)));
}

static PyObject *cond_close(PyObject *self, PyObject *unused) {
  weft_cond *c = choosing(self);
  (void)unused;
  if (!c) return NULL;
  ((struct cond *)self)->cond = NULL;
  weft_cond_close(c);
  Py_RETURN_NONE;
}

static PyMethodDef cond_methods[] = {
  { "value", cond_value, METH_VARARGS, "value(a, b): a if p, else b, for use after close" },
  { "close", cond_close, METH_NOARGS, "close(): ends both sides" },
  { 0 },
};
PyTypeObject cond_type = {
  PyVarObject_HEAD_INIT(NULL, 0)
  .tp_name = "weft._core.Cond",
  .tp_basicsize = sizeof(struct cond),
  .tp_flags = Py_TPFLAGS_DEFAULT,
  .tp_doc = "Cond(p): two sides, one of which is computed.",
  .tp_new = cond_open,
  .tp_methods = cond_methods,
};
