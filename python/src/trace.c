/* trace.c -- what the transforms of the package are made of, on flat lists of arrays: scopes, aliases and inputs to
 * trace a Python function with, the transforms of expressions, compiled functions, loops, rules written in Python. */
#include "core.h"
#include <string.h>

/* ---- Scopes ---- */

struct scope {
  PyObject_HEAD
  weft_scope *scope; /* NULL: not open */
};

static PyObject *scope_enter(PyObject *self, PyObject *unused) {
  (void)unused;
  ((struct scope *)self)->scope = weft_scope_open();
  return Py_NewRef(self);
}

static PyObject *scope_exit(PyObject *self, PyObject *unused) {
  (void)unused;
  if (((struct scope *)self)->scope) weft_scope_discard(((struct scope *)self)->scope);
  ((struct scope *)self)->scope = NULL;
  Py_RETURN_NONE;
}

static PyObject *function_make(weft_function *, int n, int m);

/* Ends the scope. The function is owned, so the scope outside may go. */
static PyObject *scope_compile(PyObject *self, PyObject *args) {
  PyObject *inputs, *outputs, *function = NULL;
  struct list in, out;
  struct scope *s = (struct scope *)self;
  if (!PyArg_ParseTuple(args, "OO", &inputs, &outputs) || list_take(&in, inputs)) return NULL;
  if (!list_take(&out, outputs)) {
    function = function_make(weft_compile(s->scope, in.n, in.array, out.n, out.array), in.n, out.n);
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
static PyTypeObject scope_type = {
  PyVarObject_HEAD_INIT(NULL, 0)
  .tp_name = "weft._core.Scope",
  .tp_basicsize = sizeof(struct scope),
  .tp_flags = Py_TPFLAGS_DEFAULT,
  .tp_doc = "A trace: what is made inside keeps its history until the end.",
  .tp_new = PyType_GenericNew,
  .tp_methods = scope_methods,
};

/* ---- Functions ---- */

struct function {
  PyObject_HEAD
  weft_function *function;
  int n, m;
};
static PyTypeObject function_type;

static PyObject *function_make(weft_function *f, int n, int m) {
  struct function *self = PyObject_New(struct function, &function_type);
  if (!self) return NULL;
  self->function = weft_function_own(f);
  self->n = n, self->m = m;
  return (PyObject *)self;
}

weft_function *function_of(PyObject *o) {
  return PyObject_TypeCheck(o, &function_type) ? ((struct function *)o)->function : NULL;
}

static void function_destroy(PyObject *self) {
  weft_function_disown(((struct function *)self)->function);
  Py_TYPE(self)->tp_free(self);
}

static PyObject *call_into(struct function *f, struct list *in, weft_array *out[]) {
  weft_scope *s = op_begin();
  weft_call(f->function, in->n, in->array, f->m, out);
  PyObject *results = array_list(f->m, out);
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

static PyTypeObject function_type = {
  PyVarObject_HEAD_INIT(NULL, 0)
  .tp_name = "weft._core.Function",
  .tp_basicsize = sizeof(struct function),
  .tp_flags = Py_TPFLAGS_DEFAULT,
  .tp_doc = "A compiled function from a list of arrays to a list of arrays.",
  .tp_dealloc = function_destroy,
  .tp_call = function_call,
};

/* ---- Names to trace with; they belong to the scope that is open ---- */

static PyObject *alias(PyObject *module, PyObject *o) {
  (void)module;
  origin_mark();
  if (!array_check(o)) return PyErr_Format(PyExc_TypeError, "alias: an array is expected");
  return array_wrap(weft_alias(array_handle(o)));
}

/* input(like, skip): a name of the dtype and the sizes of like without its first axes. */
static PyObject *input(PyObject *module, PyObject *args) {
  PyObject *like;
  int rank, skip;
  int64_t dims[WEFT_RANK_MAX];
  (void)module;
  if (!PyArg_ParseTuple(args, "O!i", &array_type, &like, &skip) || convert_dims(like, &rank, dims)) return NULL;
  if (skip > rank) return PyErr_Format(PyExc_ValueError, "a 0-d array has no axis to map over");
  origin_mark();
  return array_wrap(weft_input(weft_dtype_of(array_handle(like)), rank - skip, dims + skip));
}

/* ---- Transforms of expressions ---- */

/* Three lists of arguments and one of n results, by `run`. */
typedef void (*transform)(struct list *, struct list *, struct list *, weft_array *result[]);

static PyObject *with_lists(transform run, PyObject *args, int results_like) {
  PyObject *o[3], *results = NULL;
  struct list l[3];
  int n = 0;
  if (!PyArg_UnpackTuple(args, "a transform", 3, 3, &o[0], &o[1], &o[2])) return NULL;
  while (n < 3 && !list_take(&l[n], o[n])) n++;
  weft_array **out = n == 3 ? PyMem_Malloc((size_t)(l[results_like].n + 1) * sizeof *out) : NULL;
  if (n == 3 && !out) PyErr_NoMemory();
  if (out && l[0].n != l[1].n) PyErr_Format(PyExc_ValueError, "%d arrays and %d values for them", l[0].n, l[1].n);
  else if (out) {
    weft_scope *s = op_begin();
    run(&l[0], &l[1], &l[2], out);
    results = array_list(l[results_like].n, out);
    weft_scope_discard(s);
  }
  PyMem_Free(out);
  while (n-- > 0) list_drop(&l[n]);
  return results;
}

static void run_vjp(struct list *y, struct list *dy, struct list *x, weft_array *dx[]) {
  weft_vjp(y->n, y->array, dy->array, x->n, x->array, dx);
}
static void run_jvp(struct list *x, struct list *dx, struct list *y, weft_array *dy[]) {
  weft_jvp(x->n, x->array, dx->array, y->n, y->array, dy);
}
static void run_map(struct list *x, struct list *xs, struct list *y, weft_array *ys[]) {
  weft_map(x->n, x->array, xs->array, y->n, y->array, ys);
}
static PyObject *vjp(PyObject *module, PyObject *args) { (void)module; return with_lists(run_vjp, args, 2); }
static PyObject *jvp(PyObject *module, PyObject *args) { (void)module; return with_lists(run_jvp, args, 2); }
static PyObject *map(PyObject *module, PyObject *args) { (void)module; return with_lists(run_map, args, 2); }

static PyObject *checkpoint(PyObject *module, PyObject *args) {
  PyObject *inputs, *outputs, *results = NULL;
  struct list x, y;
  (void)module;
  if (!PyArg_ParseTuple(args, "OO", &inputs, &outputs) || list_take(&x, inputs)) return NULL;
  if (!list_take(&y, outputs)) {
    weft_array **out = PyMem_Malloc((size_t)(y.n + 1) * sizeof *out); /* list_drop needs the old ones */
    if (!out) PyErr_NoMemory();
    else {
      memcpy(out, y.array, (size_t)y.n * sizeof *out);
      weft_scope *s = op_begin();
      weft_checkpoint(x.n, x.array, y.n, out);
      results = array_list(y.n, out);
      weft_scope_discard(s);
      PyMem_Free(out);
    }
    list_drop(&y);
  }
  list_drop(&x);
  return results;
}

static PyObject *depends(PyObject *module, PyObject *args) {
  PyObject *o, *on;
  struct list l;
  (void)module;
  if (!PyArg_ParseTuple(args, "O!O", &array_type, &o, &on) || list_take(&l, on)) return NULL;
  weft_scope *s = op_begin();
  PyObject *result = op_end(s, weft_depends(array_handle(o), l.n, l.array));
  list_drop(&l);
  return result;
}

/* ---- Rules written in Python ---- */

struct rules { PyObject *vjp, *jvp, *map; int n, m; };

/* Aliases of what a rule returned, because its objects die here and the scope must hold the arrays. */
static int take_results(PyObject *results, int n, weft_array *out[]) {
  struct list l;
  int failed = !results || list_take(&l, results);
  Py_XDECREF(results);
  if (failed) return 1;
  if (l.n == n)
    for (int i = 0; i < n; i++) out[i] = weft_alias(l.array[i]);
  else PyErr_Format(PyExc_ValueError, "a rule returned %d arrays, not %d", l.n, n);
  list_drop(&l);
  return PyErr_Occurred() != NULL;
}

static int rule_vjp(void *ctx, weft_array *const x[], weft_array *const y[], weft_array *const dy[], weft_array *dx[]) {
  struct rules *r = ctx;
  PyGILState_STATE gil = PyGILState_Ensure();
  PyObject *xs = array_list(r->n, x), *ys = xs ? array_list(r->m, y) : NULL, *dys = ys ? array_list(r->m, dy) : NULL;
  int failed = take_results(dys ? PyObject_CallFunctionObjArgs(r->vjp, xs, ys, dys, NULL) : NULL, r->n, dx);
  Py_XDECREF(xs);
  Py_XDECREF(ys);
  Py_XDECREF(dys);
  PyGILState_Release(gil);
  return failed;
}

static PyObject *list_or_none(int n, weft_array *const a[]) {
  PyObject *list = PyList_New(n);
  for (int i = 0; list && i < n; i++) {
    PyObject *item = a[i] ? array_wrap(a[i]) : Py_NewRef(Py_None);
    if (item) PyList_SET_ITEM(list, i, item);
    else Py_CLEAR(list);
  }
  return list;
}

static int rule_jvp(void *ctx, weft_array *const x[], weft_array *const dx[], weft_array *dy[]) {
  struct rules *r = ctx;
  PyGILState_STATE gil = PyGILState_Ensure();
  PyObject *xs = array_list(r->n, x), *dxs = xs ? list_or_none(r->n, dx) : NULL;
  int failed = take_results(dxs ? PyObject_CallFunctionObjArgs(r->jvp, xs, dxs, NULL) : NULL, r->m, dy);
  Py_XDECREF(xs);
  Py_XDECREF(dxs);
  PyGILState_Release(gil);
  return failed;
}

static PyObject *bools(int n, const int flags[]) {
  PyObject *list = PyList_New(n);
  for (int i = 0; list && i < n; i++) PyList_SET_ITEM(list, i, PyBool_FromLong(flags[i]));
  return list;
}

static int rule_map(void *ctx, weft_array *const xs[], const int is_mapped[], weft_array *ys[]) {
  struct rules *r = ctx;
  PyGILState_STATE gil = PyGILState_Ensure();
  PyObject *list = array_list(r->n, xs), *mapped = list ? bools(r->n, is_mapped) : NULL;
  int failed = take_results(mapped ? PyObject_CallFunctionObjArgs(r->map, list, mapped, NULL) : NULL, r->m, ys);
  Py_XDECREF(list);
  Py_XDECREF(mapped);
  PyGILState_Release(gil);
  return failed;
}

static void rules_release(void *ctx) { /* on any thread inside a call of weft */
  struct rules *r = ctx;
  if (!Py_IsInitialized()) return;
  PyGILState_STATE gil = PyGILState_Ensure();
  Py_DECREF(r->vjp);
  Py_DECREF(r->jvp);
  Py_DECREF(r->map);
  PyMem_Free(r);
  PyGILState_Release(gil);
}

/* custom(inputs, outputs, vjp, jvp, map): the outputs, with these rules; None is the ordinary rule. */
static PyObject *custom(PyObject *module, PyObject *args) {
  PyObject *inputs, *outputs, *rule[3], *results = NULL;
  struct list x, y;
  (void)module;
  if (!PyArg_ParseTuple(args, "OOOOO", &inputs, &outputs, &rule[0], &rule[1], &rule[2]) || list_take(&x, inputs))
    return NULL;
  if (list_take(&y, outputs)) return list_drop(&x), NULL;
  struct rules *r = PyMem_Malloc(sizeof *r);
  weft_array **out = r ? PyMem_Malloc((size_t)(y.n + 1) * sizeof *out) : NULL;
  if (!out) PyMem_Free(r), PyErr_NoMemory();
  else {
    *r = (struct rules){ Py_NewRef(rule[0]), Py_NewRef(rule[1]), Py_NewRef(rule[2]), x.n, y.n };
    memcpy(out, y.array, (size_t)y.n * sizeof *out);
    weft_scope *s = op_begin();
    weft_custom(x.n, x.array, y.n, out,
                &(weft_rules){ r, rule[0] == Py_None ? NULL : rule_vjp, rule[1] == Py_None ? NULL : rule_jvp,
                               rule[2] == Py_None ? NULL : rule_map, rules_release });
    results = array_list(y.n, out);
    weft_scope_discard(s);
    PyMem_Free(out);
  }
  list_drop(&x);
  list_drop(&y);
  return results;
}

/* ---- Loops ---- */

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
  return a ? array_wrap(call(l, a)) : NULL;
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
  return a ? loop_result(self, array_wrap(weft_loop_tail(l, a, k))) : NULL;
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
static PyTypeObject loop_type = {
  PyVarObject_HEAD_INIT(NULL, 0)
  .tp_name = "weft._core.Loop",
  .tp_basicsize = sizeof(struct loop),
  .tp_flags = Py_TPFLAGS_DEFAULT,
  .tp_dealloc = loop_destroy,
  .tp_doc = "Loop(steps or None): a body that is written once.",
  .tp_new = loop_open,
  .tp_methods = loop_methods,
};

/* ---- Choices ---- */

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
  return array_wrap(weft_cond_value(c, array_handle(a), array_handle(b)));
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
static PyTypeObject cond_type = {
  PyVarObject_HEAD_INIT(NULL, 0)
  .tp_name = "weft._core.Cond",
  .tp_basicsize = sizeof(struct cond),
  .tp_flags = Py_TPFLAGS_DEFAULT,
  .tp_doc = "Cond(p): two sides, one of which is computed.",
  .tp_new = cond_open,
  .tp_methods = cond_methods,
};

/* ---- Pieces that Python cannot do ---- */

/* become(array, other): the object array names what other names. */
static PyObject *become(PyObject *module, PyObject *args) {
  PyObject *self, *other;
  (void)module;
  if (!PyArg_ParseTuple(args, "O!O!", &array_type, &self, &array_type, &other)) return NULL;
  if (array_assign(self, array_handle(other))) return NULL;
  Py_RETURN_NONE;
}

PyMethodDef trace_functions[] = {
  { "alias", alias, METH_O, "alias(a): the same value under a new identity, to differentiate by" },
  { "input", input, METH_VARARGS, "input(like, skip): a name without value, of like's shape without the first axes" },
  { "vjp", vjp, METH_VARARGS, "vjp(y, dy, x): dx = J' dy" },
  { "jvp", jvp, METH_VARARGS, "jvp(x, dx, y): dy = J dx" },
  { "map", map, METH_VARARGS, "map(x, xs, y): y for every row of xs in place of x" },
  { "checkpoint", checkpoint, METH_VARARGS, "checkpoint(x, y): y, computed again from x by reverse mode" },
  { "depends", depends, METH_VARARGS, "depends(a, on): a, computed after these" },
  { "custom", custom, METH_VARARGS, "custom(x, y, vjp, jvp, map): y with rules of its own" },
  { "become", become, METH_VARARGS, "become(array, other)" },
  { 0 },
};

int trace_add_types(PyObject *module) {
  PyTypeObject *const types[] = { &scope_type, &function_type, &loop_type, &cond_type, &compiled_type };
  const char *const names[] = { "Scope", "Function", "Loop", "Cond", "Compiled" };
  for (int i = 0; i < 5; i++)
    if (PyType_Ready(types[i]) || PyObject_SetAttrString(module, names[i], (PyObject *)types[i])) return -1;
  return 0;
}
