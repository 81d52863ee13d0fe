/* walk.c -- looking through expressions that are not computed: what an array is computed from. */
#include "core.h"
#include <string.h>

/* Nodes to look at, owned, and the ids of those that were. */
struct walk {
  weft_array **todo;
  int n, room;
  PyObject *seen;
};

/* Takes a node in hand unless it was before. */
static int walk_push(struct walk *w, weft_array *a) {
  PyObject *id = PyLong_FromUnsignedLongLong(weft_id(a));
  int is_known = id ? PySet_Contains(w->seen, id) : -1, failed = is_known < 0 || (!is_known && PySet_Add(w->seen, id));
  Py_XDECREF(id);
  if (failed || is_known) return failed ? -1 : 0;
  if (w->n == w->room) {
    int room = 2 * w->room + 64;
    weft_array **more = PyMem_Realloc(w->todo, (size_t)room * sizeof *more);
    if (!more) return PyErr_NoMemory(), -1;
    w->todo = more, w->room = room;
  }
  w->todo[w->n++] = weft_own(a);
  return 0;
}

static int walk_push_operands(struct walk *w, weft_array *a) {
  int n = weft_operands(a, 0, NULL), failed = 0;
  weft_array **in = PyMem_Malloc((size_t)(n ? n : 1) * sizeof *in);
  if (!in) return PyErr_NoMemory(), -1;
  int n_given = weft_operands(a, n, in);
  if (n_given < n) n = n_given; /* it was computed meanwhile */
  for (int i = 0; i < n && !failed; i++) failed = walk_push(w, in[i]);
  PyMem_Free(in);
  return failed;
}

/* Calls see(ctx, node) for every node that the arrays are computed from, themselves included: 0: go on to its operands, 1: not to
 * these, 2: it is found. Whether it was; -1: an exception is set. */
static int walk(const struct list *from, int (*see)(const void *ctx, weft_array *), const void *ctx) {
  struct walk w = { .seen = PySet_New(NULL) };
  int found = 0, failed = !w.seen;
  weft_scope *s = weft_scope_open(); /* of the operands that are taken in hand */
  for (int i = 0; i < from->n && !failed; i++) failed = walk_push(&w, from->array[i]);
  while (w.n && !failed && !found) {
    weft_array *a = w.todo[--w.n];
    int what = see(ctx, a);
    found = what == 2;
    failed = what == 0 && walk_push_operands(&w, a);
    weft_disown(a);
  }
  while (w.n) weft_disown(w.todo[--w.n]);
  weft_scope_discard(s);
  PyMem_Free(w.todo);
  Py_XDECREF(w.seen);
  return failed ? -1 : found;
}

static int is_source(const void *ctx, weft_array *a) {
  const struct list *sources = ctx;
  for (int i = 0; i < sources->n; i++)
    if (weft_id(sources->array[i]) == weft_id(a)) return 2;
  const char *op = weft_op(a);
  return op && !strcmp(op, "stop_gradient");
}
static PyObject *reaches(PyObject *module, PyObject *args) {
  PyObject *arrays, *sources;
  struct list from, to;
  (void)module;
  if (!PyArg_ParseTuple(args, "OO", &arrays, &sources) || list_take(&from, arrays)) return NULL;
  if (list_take(&to, sources)) return list_drop(&from), NULL;
  int found = walk(&from, is_source, &to);
  list_drop(&to);
  list_drop(&from);
  return found < 0 ? NULL : PyBool_FromLong(found);
}

/* One number everywhere is no work. */
static int is_work(const void *ctx, weft_array *a) {
  (void)ctx;
  if (weft_state_of(a, NULL) != WEFT_LAZY) return 1;
  const char *op = weft_op(a);
  return op && (!strcmp(op, "broadcast") || !strcmp(op, "scalar")) ? 0 : 2;
}
static PyObject *are_expressions(PyObject *module, PyObject *arrays) {
  struct list from;
  (void)module;
  if (list_take(&from, arrays)) return NULL;
  int found = walk(&from, is_work, NULL);
  list_drop(&from);
  return found < 0 ? NULL : PyBool_FromLong(found);
}

PyMethodDef walk_functions[] = {
  { "reaches", reaches, METH_VARARGS,
    "reaches(arrays, sources): whether they are computed from one of the sources, but for stop_gradient" },
  { "are_expressions", are_expressions, METH_O,
    "are_expressions(arrays): whether one of them is still to be computed, and is more than a number everywhere" },
  { 0 },
};
