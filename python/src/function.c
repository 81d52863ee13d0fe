/* function.c -- functions that weft has compiled, from a list of arrays to a list of arrays. */
#include "core.h"

struct function {
  PyObject_HEAD
  weft_function *function;
  int n, m;
  PyTypeObject *flavour;
};

PyObject *function_make(weft_function *f, PyTypeObject *flavour, int n, int m) {
  struct function *self = PyObject_New(struct function, &function_type);
  if (!self) return NULL;
  self->function = weft_function_own(f);
  self->n = n, self->m = m;
  self->flavour = flavour;
  return (PyObject *)self;
}

weft_function *function_of(PyObject *o) {
  return PyObject_TypeCheck(o, &function_type) ? ((struct function *)o)->function : NULL;
}

PyTypeObject *function_flavour(PyObject *function) { return ((struct function *)function)->flavour; }

static void function_destroy(PyObject *self) {
  weft_function_disown(((struct function *)self)->function);
  Py_TYPE(self)->tp_free(self);
}

static PyObject *call_into(struct function *f, struct list *in, weft_array *out[]) {
  weft_scope *s = op_begin();
  weft_call(f->function, in->n, in->array, f->m, out);
  PyObject *results = array_list(f->flavour, f->m, out);
  weft_scope_discard(s);
  return results;
}

static PyObject *function_call(PyObject *self, PyObject *args, PyObject *kwargs) {
  struct function *f = (struct function *)self;
  PyObject *arrays;
  struct list in;
  (void)kwargs;
  if (!PyArg_ParseTuple(args, "O", &arrays) || list_take(&in, arrays)) return NULL;
  weft_array **out = PyMem_Malloc((size_t)(f->m ? f->m : 1) * sizeof *out);
  PyObject *results = !out ? PyErr_NoMemory()
                      : in.n != f->n ? PyErr_Format(PyExc_TypeError, "the function takes %d arrays, not %d", f->n, in.n)
                                     : call_into(f, &in, out);
  PyMem_Free(out);
  list_drop(&in);
  return results;
}

PyTypeObject function_type = {
  PyVarObject_HEAD_INIT(NULL, 0)
  .tp_name = "weft._core.Function",
  .tp_basicsize = sizeof(struct function),
  .tp_flags = Py_TPFLAGS_DEFAULT,
  .tp_doc = "A compiled function from a list of arrays to a list of arrays.",
  .tp_dealloc = function_destroy,
  .tp_call = function_call,
};
