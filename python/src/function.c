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

/* Memory of NumPy's is shared for the call. From the first operand on that has to be converted, which may run Python, arrays are
 * owned; until then the scope of the call is enough, and takes no lock. */
static int operands(struct function *f, PyObject *const args[], weft_array *in[], int *are_owned) {
  int i = 0;
  for (weft_array *a; i < f->n; in[i++] = *are_owned ? weft_own(a) : a) {
    a = numpy_share(args[i]);
    if (a || PyErr_Occurred()) { if (a) continue; else break; }
    for (int k = 0; !*are_owned && k < i; k++) weft_own(in[k]);
    *are_owned = 1;
    if (!(a = convert_array(args[i], NULL, 1))) break;
  }
  return i;
}

static void disown_all(int n, weft_array *const a[]) {
  for (int i = 0; i < n; i++) weft_disown(a[i]);
}

/* Results are owned until they are objects: evaluation may run Python, and what is computed is stored as their own. */
static PyObject *run_into(const void *of, weft_function *f, int n, weft_array *const in[], int m, weft_array *out[]) {
  (void)of;
  weft_origin(0);
  weft_scope *s = weft_scope_open();
  weft_call(f, n, in, m, out);
  for (int i = 0; i < m; i++) weft_own(out[i]);
  weft_scope_discard(s);
  PyObject *list = evaluate(m, out) ? NULL : array_list(&array_type, m, out);
  disown_all(m, out);
  for (int i = 0; list && i < m; i++) { /* no owner but the objects is left */
    struct array *a = (struct array *)PyList_GET_ITEM(list, i);
    a->is_given = weft_is_only(a->handle);
  }
  return list;
}

/* The function of NumPy's arrays, called in a way of the caller's: its results, as a list. */
PyObject *function_with(PyObject *self, PyObject *const args[], Py_ssize_t n, function_caller *call, const void *of) {
  struct function *f = (struct function *)self;
  weft_array *room[16], **in = room;
  if (n != f->n) return PyErr_Format(PyExc_TypeError, "the function takes %d arrays, not %zd", f->n, n);
  if (f->n + f->m > 16 && !(in = PyMem_Malloc((size_t)(f->n + f->m) * sizeof *in))) return PyErr_NoMemory();
  weft_scope *s = weft_scope_open();
  int are_owned = 0, n_taken = operands(f, args, in, &are_owned);
  PyObject *list = n_taken == f->n ? call(of, f->function, f->n, in, f->m, in + f->n) : NULL;
  if (are_owned) disown_all(n_taken, in);
  weft_scope_discard(s);
  if (in != room) PyMem_Free(in);
  return list;
}

/* run(*memory): computed. A result whose memory nobody else can see may be written to. */
PyObject *function_run(PyObject *self, PyObject *const args[], Py_ssize_t n) {
  return function_with(self, args, n, run_into, NULL);
}

/* show(what): "graph", "plan", "kernels", ..: of the calls there have been. */
static PyObject *function_show(PyObject *self, PyObject *what) {
  const char *name = PyUnicode_Check(what) ? PyUnicode_AsUTF8(what) : "graph";
  weft_scope *s = op_begin();
  const char *text = weft_function_show(((struct function *)self)->function, name);
  PyObject *shown = text ? PyUnicode_FromString(text) : raise_status(WEFT_ERR_ARG);
  weft_scope_discard(s);
  return shown;
}

static PyMethodDef function_methods[] = {
  { "show", function_show, METH_O, "show(what): graph, plan, kernels, asm: those of the calls so far, as text." },
  { "run", (PyCFunction)(void (*)(void))function_run, METH_FASTCALL,
    "run(*memory): the results, computed, of memory that is shared for the call. Those that nobody else sees may be written to." },
  { 0 },
};

PyTypeObject function_type = {
  PyVarObject_HEAD_INIT(NULL, 0)
  .tp_name = "weft._core.Function",
  .tp_basicsize = sizeof(struct function),
  .tp_flags = Py_TPFLAGS_DEFAULT,
  .tp_doc = "A compiled function from a list of arrays to a list of arrays.",
  .tp_dealloc = function_destroy,
  .tp_call = function_call,
  .tp_methods = function_methods,
};
