/* scope.c -- traces: scopes of weft, as objects of `with`. One that has a name is a body: a Python function that is run once,
 * to be told what it does, and whose expressions are then run in other ways. Whoever was made outside a body keeps its value
 * in it: a change would happen once, when the body is traced, and not each time it runs. */
#include "core.h"
#include <string.h>

struct scope {
  PyObject_HEAD
  weft_scope *scope; /* NULL: not open */
  const char *name;  /* of the function whose body it is; NULL: no body */
  struct body outside;
};

static _Thread_local struct body inside; /* the innermost */

static _Thread_local int n_open;
int scope_is_open(void) { return n_open > 0; }

uint64_t body_serial(void) { return inside.serial; }

const char *body_name(void) { return inside.name; }

int body_refuses(uint64_t serial) {
  if (serial >= inside.serial) return 0;
  PyErr_Format(PyExc_ValueError, "%s: an array from outside cannot be changed in here, for this code is run once, to be traced: "
               "%s, or make a new array with a.at[..].set(..)", inside.name,
               !strcmp(inside.name, "compile") ? "name it in inputs= and outputs=" : "pass it in and return it");
  return 1;
}

/* Scope(name=None) */
static PyObject *scope_make(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
  const char *name = NULL;
  (void)kwargs;
  if (!PyArg_ParseTuple(args, "|s", &name)) return NULL; /* a literal of the package: it stays */
  struct scope *self = (struct scope *)type->tp_alloc(type, 0);
  if (self) self->name = name;
  return (PyObject *)self;
}

static PyObject *scope_enter(PyObject *self, PyObject *unused) {
  static uint64_t n_bodies; /* guarded by the GIL */
  struct scope *s = (struct scope *)self;
  (void)unused;
  s->scope = weft_scope_open();
  n_open++;
  s->outside = inside;
  if (s->name) inside = (struct body){ ++n_bodies, s->name };
  return Py_NewRef(self);
}

static PyObject *scope_exit(PyObject *self, PyObject *unused) {
  struct scope *s = (struct scope *)self;
  (void)unused;
  inside = s->outside;
  n_open--;
  if (s->scope) weft_scope_discard(s->scope);
  s->scope = NULL;
  Py_RETURN_NONE;
}

/* Ends the scope. The function is owned, so the scope outside may go. */
static PyObject *scope_compile(PyObject *self, PyObject *args) {
  PyObject *inputs, *outputs, *function = NULL;
  struct list in, out;
  struct scope *s = (struct scope *)self;
  if (!PyArg_ParseTuple(args, "OO", &inputs, &outputs) || list_take(&in, inputs)) return NULL;
  if (!list_take(&out, outputs)) {
    function = function_make(weft_compile(s->scope, in.n, in.array, out.n, out.array), out.flavour, in.n, out.n);
    s->scope = NULL;
    list_drop(&out);
  }
  list_drop(&in);
  return function;
}

static PyMethodDef scope_methods[] = {
  { "__enter__", scope_enter, METH_NOARGS, "Opens a scope of weft." },
  { "__exit__", scope_exit, METH_VARARGS, "Discards it, if it is still open." },
  { "compile", scope_compile, METH_VARARGS, "compile(inputs, outputs): ends the scope and keeps it as a function" },
  { 0 },
};
PyTypeObject scope_type = {
  PyVarObject_HEAD_INIT(NULL, 0)
  .tp_name = "weft._core.Scope",
  .tp_basicsize = sizeof(struct scope),
  .tp_flags = Py_TPFLAGS_DEFAULT,
  .tp_doc = "A trace: what is made inside keeps its history until the end.",
  .tp_new = scope_make,
  .tp_methods = scope_methods,
};
