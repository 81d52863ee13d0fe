/* compiled.c -- what weft.compile returns: a function that goes straight to weft where it can.
 *
 * It is straight when every argument is an array, by position, and a call with the same dtypes and sizes (where it is open for
 * sizes: the same ranks) was traced before and gave an array, or a tuple or list of them. Everything else, and the first call of
 * each kind, is left to a function in Python, which traces and tells what it has learnt, and what is to be forgotten. */
#include "core.h"
#include <stddef.h>
#include <string.h>
#include <structmember.h>

enum { MOST_ARGS = 8, MOST_RESULTS = 64, WORDS = MOST_ARGS * (WEFT_RANK_MAX + 1) };

GUARD(learning);
struct known {
  struct known *next;
  PyObject *function;
  PyTypeObject *container; /* of the results: tuple, list, or NULL for one array */
  int n_results, n_words;
  uint64_t used;           /* when it was called last, in calls of all */
  int64_t word[];          /* the arguments: dtype and rank, sizes */
};

struct compiled {
  PyObject_HEAD
  vectorcallfunc call;
  PyObject *otherwise, *dict, *weak_references;
  int open;                /* which sizes of arguments it is chosen by: OPEN_NONE .. */
  uint64_t now;            /* calls so far */
  struct known *known;
};

/* What a call needs to know; the function is its own, as it may be forgotten meanwhile. */
struct how_to_call { PyObject *function; PyTypeObject *container; int n_results; };

/* How many words; -1: they are not all arrays whose sizes are known. */
static int describe(int open, Py_ssize_t n, PyObject *const args[], int64_t word[WORDS]) {
  int at = 0;
  if (n > MOST_ARGS) return -1;
  for (Py_ssize_t i = 0; i < n; i++) {
    int n_words = array_check(args[i]) ? array_describe(args[i], word + at) : -1;
    if (n_words < 0) return -1;
    array_open(open, n_words - 1, word + at + 1);
    at += n_words;
  }
  return at;
}

static struct how_to_call find(struct compiled *self, Py_ssize_t n, PyObject *const args[]) {
  struct how_to_call found = { 0 };
  int64_t word[WORDS];
  int n_words = self->known ? describe(self->open, n, args, word) : -1;
  guard(learning);
  for (struct known **at = &self->known, *k; n_words >= 0 && (k = *at); at = &k->next) {
    if (k->n_words != n_words || memcmp(k->word, word, sizeof *word * (size_t)n_words)) continue;
    found = (struct how_to_call){ Py_NewRef(k->function), k->container, k->n_results };
    k->used = ++self->now;
    *at = k->next, k->next = self->known, self->known = k; /* the next call of many is like this one */
    break;
  }
  unguard(learning);
  return found;
}

static PyObject *results_of(const struct how_to_call *h, weft_array *const out[]) {
  if (!h->container) return array_wrap_as(function_flavour(h->function), out[0]);
  PyObject *list = array_list(function_flavour(h->function), h->n_results, out);
  if (!list || h->container == &PyList_Type) return list;
  PyObject *tuple = PyList_AsTuple(list);
  Py_DECREF(list);
  return tuple;
}

/* Such a call names no line, as Python would make a frame object to tell it. What fails inside names the function's lines. */
static PyObject *call_known(struct how_to_call h, Py_ssize_t n, PyObject *const args[]) {
  weft_array *in[MOST_ARGS], *out[MOST_RESULTS];
  for (Py_ssize_t i = 0; i < n; i++) in[i] = array_handle(args[i]);
  weft_origin(0);
  weft_scope *s = weft_scope_open();
  weft_call(function_of(h.function), (int)n, in, h.n_results, out);
  PyObject *results = results_of(&h, out);
  weft_scope_discard(s);
  Py_DECREF(h.function);
  return results;
}

static PyObject *call(PyObject *object, PyObject *const args[], size_t flags, PyObject *names) {
  struct compiled *self = (struct compiled *)object;
  Py_ssize_t n = PyVectorcall_NARGS(flags);
  struct how_to_call h = names && PyTuple_GET_SIZE(names) ? (struct how_to_call){ 0 } : find(self, n, args);
  return h.function ? call_known(h, n, args) : PyObject_Vectorcall(self->otherwise, args, flags, names);
}

static PyObject *make(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
  (void)args, (void)kwargs;
  struct compiled *self = (struct compiled *)type->tp_alloc(type, 0);
  if (self) self->call = call;
  return (PyObject *)self;
}

/* learn(args, function, container or None, n): a call with such arguments has n results. */
static PyObject *learn(PyObject *object, PyObject *arguments) {
  struct compiled *self = (struct compiled *)object;
  PyObject *args, *function, *container;
  int n_results;
  int64_t word[WORDS];
  if (!PyArg_ParseTuple(arguments, "O!OOi", &PyTuple_Type, &args, &function, &container, &n_results)) return NULL;
  int n_words = describe(self->open, PyTuple_GET_SIZE(args), PySequence_Fast_ITEMS(args), word);
  if (n_words < 0 || n_results > MOST_RESULTS || !function_of(function)) Py_RETURN_NONE;
  struct known *k = PyMem_Malloc(sizeof *k + sizeof *word * (size_t)n_words);
  if (!k) return PyErr_NoMemory();
  *k = (struct known){ NULL, Py_NewRef(function), container == Py_None ? NULL : (PyTypeObject *)container, n_results, n_words, 0 };
  memcpy(k->word, word, sizeof *word * (size_t)n_words);
  guard(learning);
  k->next = self->known;
  self->known = k;
  unguard(learning);
  Py_RETURN_NONE;
}

/* tick(): the number of this call, which did not come straight from here. */
static PyObject *tick(PyObject *object, PyObject *unused) {
  struct compiled *self = (struct compiled *)object;
  (void)unused;
  guard(learning);
  uint64_t now = ++self->now;
  unguard(learning);
  return PyLong_FromUnsignedLongLong(now);
}

/* used(function): the number of the last call that came here and went straight to it; 0: none. */
static PyObject *used(PyObject *object, PyObject *function) {
  struct compiled *self = (struct compiled *)object;
  uint64_t last = 0;
  guard(learning);
  for (const struct known *k = self->known; k; k = k->next) if (k->function == function && k->used > last) last = k->used;
  unguard(learning);
  return PyLong_FromUnsignedLongLong(last);
}

static void known_free(struct known *k) {
  for (struct known *next; k; k = next) {
    next = k->next;
    Py_DECREF(k->function);
    PyMem_Free(k);
  }
}

/* forget(function): what was learnt of it. What goes is let go of last, as that may run other code. */
static PyObject *forget(PyObject *object, PyObject *function) {
  struct compiled *self = (struct compiled *)object;
  struct known *gone = NULL;
  guard(learning);
  for (struct known **at = &self->known, *k; (k = *at);) {
    if (k->function != function) { at = &k->next; continue; }
    *at = k->next;
    k->next = gone, gone = k;
  }
  unguard(learning);
  known_free(gone);
  Py_RETURN_NONE;
}

static PyObject *bind(PyObject *self, PyObject *instance, PyObject *type) { /* as a method of a class */
  (void)type;
  return !instance || instance == Py_None ? Py_NewRef(self) : PyMethod_New(self, instance);
}

static int traverse(PyObject *object, visitproc visit, void *arg) {
  struct compiled *self = (struct compiled *)object;
  Py_VISIT(self->otherwise);
  Py_VISIT(self->dict);
  return 0;
}

static int clear(PyObject *object) {
  struct compiled *self = (struct compiled *)object;
  Py_CLEAR(self->otherwise);
  Py_CLEAR(self->dict);
  return 0;
}

static void destroy(PyObject *object) {
  struct compiled *self = (struct compiled *)object;
  PyObject_GC_UnTrack(object);
  if (self->weak_references) PyObject_ClearWeakRefs(object);
  known_free(self->known);
  clear(object);
  Py_TYPE(object)->tp_free(object);
}

static PyMethodDef methods[] = {
  { "learn", learn, METH_VARARGS, "learn(args, function, container or None, n): how a call with such arguments is done" },
  { "tick", tick, METH_NOARGS, "tick(): the number of this call, among all" },
  { "used", used, METH_O, "used(function): the number of the last call that went straight to it, 0 if there was none" },
  { "forget", forget, METH_O, "forget(function): what was learnt of it" },
  { 0 },
};
static PyMemberDef members[] = {
  { "otherwise", T_OBJECT, offsetof(struct compiled, otherwise), 0, "the function in Python" },
  { "open", T_INT, offsetof(struct compiled, open), 0, "0: it is traced for every size; 1: but 1 for none; 2: for none" },
  { 0 },
};
static PyGetSetDef properties[] = {
  { "__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, NULL, NULL },
  { 0 },
};

PyTypeObject compiled_type = {
  PyVarObject_HEAD_INIT(NULL, 0)
  .tp_name = "weft._core.Compiled",
  .tp_basicsize = sizeof(struct compiled),
  .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR,
  .tp_doc = "A compiled function. What it has not learnt goes to its attribute `otherwise`.",
  .tp_new = make,
  .tp_dealloc = destroy,
  .tp_traverse = traverse,
  .tp_clear = clear,
  .tp_call = PyVectorcall_Call,
  .tp_vectorcall_offset = offsetof(struct compiled, call),
  .tp_dictoffset = offsetof(struct compiled, dict),
  .tp_weaklistoffset = offsetof(struct compiled, weak_references),
  .tp_descr_get = bind,
  .tp_methods = methods,
  .tp_members = members,
  .tp_getset = properties,
};
