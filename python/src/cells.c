/* cells.c -- thunks: calls of compiled functions from the cells of a linker to its cells, a cell being a list with one thing in it.
 *
 * A cell that a call updates is overwritten in place if nobody else refers to its array: while the function runs the cell holds the
 * array of weft itself, of which whoever reads it meanwhile gets the old value or the new one. Else, and where the sizes of results
 * are not known before, the new value has memory of its own. What fails leaves every cell as it was. */
#include "core.h"
#include <stddef.h>
#include <string.h>

enum { LEAST_BYTES = 4096 }; /* fewer are not overwritten (gift_least): a new array costs less than to find out */

static PyObject *not_cells(void) { return PyErr_SetString(PyExc_TypeError, "a thunk takes lists of cells"), NULL; }

static PyObject *cell_at(PyObject *cells, Py_ssize_t k) { /* borrowed; NULL: there is none */
  PyObject *cell = k < PyList_GET_SIZE(cells) ? PyList_GET_ITEM(cells, k) : NULL;
  return cell && PyList_Check(cell) && PyList_GET_SIZE(cell) == 1 ? cell : NULL;
}

/* An array on a device that a cell is updated with stays there. */
static int stays(weft_array *a, int is_update) {
  int device = 0;
  return is_update && weft_state_of(a, &device) == WEFT_READY && device;
}

/* An array that is computed, in NumPy: over the same memory where nobody else can see it, else a copy; small ones are copied. */
static PyObject *given(weft_array *a, PyObject *asarray, PyObject *copy, int is_update) {
  int is_kept = stays(a, is_update);
  PyObject *small = is_kept ? NULL : numpy_small(a);
  if (small || PyErr_Occurred()) return small;
  PyObject *array = array_wrap_as(&array_type, a);
  if (!array || is_kept) return array;
  ((struct array *)array)->is_given = weft_is_only(a);
  PyObject *memory = PyObject_CallOneArg(((struct array *)array)->is_given ? asarray : copy, array);
  Py_DECREF(array);
  return memory;
}

/* ---- Memory that only a cell refers to ---- */

struct sizes { weft_dtype dtype; int rank; int64_t dims[WEFT_RANK_MAX], bytes; };

static int sizes_of(weft_array *a, struct sizes *s) {
  s->rank = weft_describe(a, &s->dtype, s->dims);
  s->bytes = (int64_t)weft_dtype_bytes(s->dtype);
  for (int k = 0; k < s->rank; k++) s->bytes *= s->dims[k];
  return s->rank >= 0;
}

static int are_equal(const struct sizes *a, const struct sizes *b) {
  return a->dtype == b->dtype && a->rank == b->rank && !memcmp(a->dims, b->dims, sizeof *a->dims * (size_t)a->rank);
}

/* Whether an array of NumPy's still shows its memory as it was made: its owner may have set its shape or dtype since. */
static int shows(PyObject *memory, const struct sizes *s) {
  Py_buffer b;
  weft_dtype dtype;
  if (PyObject_GetBuffer(memory, &b, PyBUF_FULL_RO)) return PyErr_Clear(), 0;
  int same = b.ndim == s->rank && dtype_of_format(b.format, b.itemsize, &dtype) && dtype == s->dtype;
  for (int k = 0; same && k < s->rank; k++) same = b.shape[k] == s->dims[k];
  same = same && (PyBuffer_IsContiguous(&b, 'C'));
  PyBuffer_Release(&b);
  return same;
}

/* The array of weft under an array of NumPy's to which nobody but the cell refers, with a reference; NULL: there is none. A view
 * would refer to it, and so would whoever got at its memory. */
static PyObject *under(PyObject *memory) {
  if (Py_REFCNT(memory) != 1) return NULL;
  if (Py_IS_TYPE(memory, &array_type)) return Py_NewRef(memory);
  PyObject *base = PyObject_GetAttrString(memory, "base"), *a = NULL;
  if (base && PyMemoryView_Check(base) && Py_REFCNT(base) == 2) a = PyMemoryView_GET_BASE(base);
  a = a && Py_IS_TYPE(a, &array_type) && Py_REFCNT(a) == 1 && ((struct array *)a)->is_given ? Py_NewRef(a) : NULL;
  Py_XDECREF(base);
  PyErr_Clear();
  return a;
}

/* An update of one cell: where its value comes from, and whose memory takes it. */
struct update { Py_ssize_t out, in; PyObject *cell, *taken; struct sizes sizes; };

static void take(struct update *u) {
  PyObject *memory = PyList_GET_ITEM(u->cell, 0), *a = under(memory);
  if (a && sizes_of(array_handle(a), &u->sizes) && u->sizes.bytes >= LEAST_BYTES && (a == memory || shows(memory, &u->sizes))) {
    u->taken = Py_NewRef(a);
    PyList_SetItem(u->cell, 0, a); /* the array of NumPy's goes, and with it its pin */
  } else Py_XDECREF(a);
}

/* Nothing has come of it: the cell has an array of NumPy's again, of the same memory. Who has set it since keeps that. */
static void put_back(struct update *u, PyObject *asarray, PyObject *copy) {
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  PyObject *memory = PyList_GET_ITEM(u->cell, 0) == u->taken ? given(array_handle(u->taken), asarray, copy, 1) : NULL;
  if (memory) PyList_SetItem(u->cell, 0, memory);
  Py_CLEAR(u->taken);
  PyErr_Restore(type, value, trace);
}

/* ---- Calls ---- */

struct fill {
  PyObject *ins, *outs, *asarray, *copy;
  int n_updates;
  struct update *update;
};

static const struct update *update_of(const struct fill *f, Py_ssize_t out) {
  for (int i = 0; i < f->n_updates; i++) if (f->update[i].out == out) return &f->update[i];
  return NULL;
}

/* Every result is an update: of the memory it takes over, or of an array of its sizes that is made for it and has none yet. */
static weft_array *name_for(const struct fill *f, int out, weft_array *value) {
  struct sizes s;
  const struct update *u = update_of(f, out);
  if (!sizes_of(value, &s)) return NULL;
  if (u && u->taken && are_equal(&s, &u->sizes)) return array_handle(u->taken);
  return weft_keep(weft_full(s.dtype, s.rank, s.dims, 0));
}

static int declare(const struct fill *f, int m, weft_array *const value[], weft_array *name[]) {
  for (int i = 0; i < m; i++) {
    if (!(name[i] = name_for(f, i, value[i]))) return -1;
    weft_own(name[i]);
    weft_update(name[i], value[i]);
  }
  return 0;
}

/* What the results are in NumPy, as a list. */
static PyObject *all_given(const struct fill *f, int m, weft_array *const a[]) {
  PyObject *list = PyList_New(m);
  for (int i = 0; list && i < m; i++) {
    PyObject *memory = given(a[i], f->asarray, f->copy, update_of(f, i) != NULL);
    if (memory) PyList_SET_ITEM(list, i, memory);
    else Py_CLEAR(list);
  }
  return list;
}

/* Small results are copied while the scope is open; others are NULL in the list, and owned: what is to be given away must have no
 * history, which the scope keeps for those who differentiate. How many there are, until one could not be copied. */
static int copy_small(const struct fill *f, PyObject *list, int m, weft_array *const a[]) {
  int i = 0;
  for (PyObject *memory; i < m; i++) {
    memory = stays(a[i], update_of(f, i) != NULL) ? NULL : numpy_small(a[i]);
    if (!memory && PyErr_Occurred()) break;
    if (!memory) weft_own(a[i]);
    PyList_SET_ITEM(list, i, memory);
  }
  return i;
}

/* The list with the others too; NULL: a result could not be made. */
static PyObject *with_large(const struct fill *f, PyObject *list, int n, int m, weft_array *const a[]) {
  int failed = n < m;
  for (int i = 0; i < n; i++) {
    if (PyList_GET_ITEM(list, i)) continue;
    PyObject *memory = failed ? NULL : given(a[i], f->asarray, f->copy, update_of(f, i) != NULL);
    if (memory) PyList_SET_ITEM(list, i, memory);
    else failed = 1;
    weft_disown(a[i]);
  }
  if (failed) Py_CLEAR(list);
  return list;
}

static PyObject *call(const void *f, weft_function *function, int n, weft_array *const in[], int m, weft_array *out[]) {
  weft_origin(0);
  weft_scope *s = weft_scope_open();
  weft_call(function, n, in, m, out);
  PyObject *list = evaluate_new(m, out) ? NULL : PyList_New(m);
  int n_there = list ? copy_small(f, list, m, out) : 0;
  weft_scope_discard(s);
  return list ? with_large(f, list, n_there, m, out) : NULL;
}

/* The same, where some of them take over memory. NULL without an exception: it is to be done the ordinary way. */
static PyObject *call_in_place(const void *f, weft_function *function, int n, weft_array *const in[], int m, weft_array *out[]) {
  weft_array **name = PyMem_Calloc((size_t)m + 1, sizeof *name);
  if (!name) return PyErr_NoMemory();
  weft_origin(0);
  weft_scope *outside = weft_scope_open(), *step = weft_scope_open();
  weft_call(function, n, in, m, out);
  int failed = declare(f, m, out, name);
  if (failed) weft_scope_discard(step);
  else failed = evaluate_closing(step);
  weft_scope_discard(outside);
  PyObject *list = failed ? NULL : all_given(f, m, name);
  for (int i = 0; i < m && name[i]; i++) weft_disown(name[i]);
  PyMem_Free(name);
  return list;
}

static int some_taken(const struct fill *f) {
  for (int i = 0; i < f->n_updates; i++) if (f->update[i].taken) return 1;
  return 0;
}

/* Results go to their cells, but not those that update one: a cell more that refers to an array would keep it from being
 * overwritten. */
static PyObject *leave(const struct fill *f, PyObject *results) {
  for (Py_ssize_t i = 0, m = results ? PyList_GET_SIZE(results) : 0; i < m; i++) {
    PyObject *cell = cell_at(f->outs, i);
    if (!cell) return Py_DECREF(results), not_cells();
    PyList_SetItem(cell, 0, Py_NewRef(update_of(f, i) ? Py_None : PyList_GET_ITEM(results, i)));
  }
  return results;
}

static PyObject *run(PyObject *self, const struct fill *f, Py_ssize_t n, PyObject *const in[]) {
  PyObject *results = some_taken(f) ? function_with(self, in, n, call_in_place, f) : NULL;
  for (int i = 0; !results && i < f->n_updates; i++) if (f->update[i].taken) put_back(&f->update[i], f->asarray, f->copy);
  return results || PyErr_Occurred() ? results : function_with(self, in, n, call, f);
}

/* The (out, in) pairs of a tuple. */
static int updates_from(struct fill *f, PyObject *pairs) {
  if (pairs == Py_None) return 0;
  if (!PyTuple_Check(pairs)) return not_cells(), -1;
  Py_ssize_t n = PyTuple_GET_SIZE(pairs) / 2;
  if (!(f->update = PyMem_Calloc((size_t)n + 1, sizeof *f->update))) return PyErr_NoMemory(), -1;
  for (Py_ssize_t i = 0; i < n; i++) {
    struct update *u = &f->update[i];
    u->out = PyLong_AsSsize_t(PyTuple_GET_ITEM(pairs, 2 * i)), u->in = PyLong_AsSsize_t(PyTuple_GET_ITEM(pairs, 2 * i + 1));
    if (u->out < 0 || u->in < 0 || !(u->cell = cell_at(f->ins, u->in))) return PyErr_Occurred() ? 0 : not_cells(), -1;
    f->n_updates++;
  }
  return 0;
}

/* On a device, what only a cell refers to becomes an array of weft's that stays there, until somebody looks at it. */
static void settle(PyObject *cell) {
  PyObject *memory = PyList_GET_ITEM(cell, 0);
  if (Py_REFCNT(memory) != 1 || array_check(memory)) return;
  weft_scope *s = op_begin();
  weft_array *a = convert_array(memory, NULL, 0);
  PyObject *array = a ? op_end_as(&array_type, s, a) : (weft_scope_discard(s), NULL);
  if (array) PyList_SetItem(cell, 0, array);
  PyErr_Clear();
}

static PyObject *fill(PyObject *self, struct fill *f) {
  Py_ssize_t n = PyList_GET_SIZE(f->ins), k = 0;
  PyObject *room[16], **in = n <= 16 ? room : PyMem_Malloc((size_t)n * sizeof *in), *cell;
  if (!in) return PyErr_NoMemory();
  for (int i = 0; i < f->n_updates; i++) take(&f->update[i]);
  for (int on_device = weft_get(WEFT_DEVICE) != 0; k < n && (cell = cell_at(f->ins, k)); k++) {
    if (on_device) settle(cell);
    in[k] = Py_NewRef(PyList_GET_ITEM(cell, 0));
  }
  PyObject *results = k == n ? leave(f, run(self, f, n, in)) : not_cells();
  while (k-- > 0) Py_DECREF(in[k]);
  for (int i = 0; i < f->n_updates; i++) Py_XDECREF(f->update[i].taken);
  if (in != room) PyMem_Free(in);
  return results;
}

/* ---- Thunks ---- */

/* What a linker has called: the function that is in the cell `last`, so that a call costs no Python at all; if there is none, or it
 * cannot, `otherwise`, which fills the cells too, or says what is wrong. Attributes are whoever's. */
struct thunk {
  PyObject_HEAD
  vectorcallfunc call;
  PyObject *dict, *last, *ins, *outs, *asarray, *copy, *updates, *otherwise;
};

static PyObject *contents(PyObject *cells) {
  Py_ssize_t n = PyList_GET_SIZE(cells);
  PyObject *list = PyList_New(n);
  for (Py_ssize_t i = 0; list && i < n; i++) {
    PyObject *cell = cell_at(cells, i);
    if (!cell) return Py_DECREF(list), not_cells();
    PyList_SET_ITEM(list, i, Py_NewRef(PyList_GET_ITEM(cell, 0)));
  }
  return list;
}

static PyObject *thunk_call(PyObject *self, PyObject *const args[], size_t n, PyObject *names) {
  struct thunk *t = (struct thunk *)self;
  if (PyVectorcall_NARGS(n) || names) return (void)args, PyErr_SetString(PyExc_TypeError, "a thunk takes no arguments"), NULL;
  PyObject *function = PyList_GET_SIZE(t->last) ? Py_NewRef(PyList_GET_ITEM(t->last, 0)) : NULL, *results = NULL;
  if (function && function_of(function)) {
    struct fill f = { t->ins, t->outs, t->asarray, t->copy, 0, NULL };
    results = updates_from(&f, t->updates) ? NULL : fill(function, &f);
    PyMem_Free(f.update);
  }
  Py_XDECREF(function);
  if (results || (PyErr_Occurred() && !PyErr_ExceptionMatches(PyExc_Exception))) return results;
  PyErr_Clear(); /* other shapes; or what failed fails again, and says what and where */
  PyObject *done = PyObject_CallNoArgs(t->otherwise);
  Py_XDECREF(done);
  return done ? contents(t->outs) : NULL;
}

static PyObject *thunk_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
  PyObject *last, *ins, *outs, *asarray, *copy, *updates, *otherwise;
  if (kwargs && PyDict_GET_SIZE(kwargs)) return PyErr_SetString(PyExc_TypeError, "a thunk is made without keywords"), NULL;
  if (!PyArg_ParseTuple(args, "O!O!O!OOOO", &PyList_Type, &last, &PyList_Type, &ins, &PyList_Type, &outs, &asarray, &copy, &updates,
                        &otherwise)) return NULL;
  struct thunk *t = (struct thunk *)type->tp_alloc(type, 0);
  if (!t) return NULL;
  t->call = thunk_call;
  t->last = Py_NewRef(last), t->ins = Py_NewRef(ins), t->outs = Py_NewRef(outs), t->asarray = Py_NewRef(asarray);
  t->copy = Py_NewRef(copy), t->updates = Py_NewRef(updates), t->otherwise = Py_NewRef(otherwise);
  return (PyObject *)t;
}

static int thunk_traverse(PyObject *self, visitproc visit, void *arg) {
  struct thunk *t = (struct thunk *)self;
  PyObject *const all[] = { t->dict, t->last, t->ins, t->outs, t->asarray, t->copy, t->updates, t->otherwise };
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) Py_VISIT(all[i]);
  return 0;
}

static int thunk_clear(PyObject *self) {
  struct thunk *t = (struct thunk *)self;
  PyObject **const all[] = { &t->dict, &t->last, &t->ins, &t->outs, &t->asarray, &t->copy, &t->updates, &t->otherwise };
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) Py_CLEAR(*all[i]);
  return 0;
}

static void thunk_destroy(PyObject *self) {
  PyObject_GC_UnTrack(self);
  thunk_clear(self);
  Py_TYPE(self)->tp_free(self);
}

static PyGetSetDef thunk_attributes[] = { { "__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, NULL, NULL }, { 0 } };

PyTypeObject thunk_type = {
  PyVarObject_HEAD_INIT(NULL, 0)
  .tp_name = "weft._core.Thunk",
  .tp_basicsize = sizeof(struct thunk),
  .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
  .tp_doc = "Thunk(last, ins, outs, asarray, copy, updates, otherwise): called, it runs the Function in the cell last from the "
            "cells ins to the cells outs, and gives the results, as asarray or copy makes them, in a list too; otherwise() where "
            "there is none, or it fails. updates, a tuple or None: out, in, out, in ..: which results are for cells of ins, and "
            "may overwrite what is there.",
  .tp_vectorcall_offset = offsetof(struct thunk, call),
  .tp_call = PyVectorcall_Call,
  .tp_dictoffset = offsetof(struct thunk, dict),
  .tp_getset = thunk_attributes,
  .tp_new = thunk_new,
  .tp_traverse = thunk_traverse,
  .tp_clear = thunk_clear,
  .tp_dealloc = thunk_destroy,
};
