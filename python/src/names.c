/* names.c -- the rows of a table of names as objects to call. A function of a module and a method of the array are of two types,
 * which differ in this: a function that is an attribute of a class is not bound to its instances, as those of C are not. */
#include "names.h"
#include <string.h>

enum { MOST = 13 }; /* parameters of a row */

struct named {
  PyObject_HEAD
  vectorcallfunc vectorcall;
  const struct name *row;
  PyTypeObject *array;                        /* the flavour of results, if operands have none of their own */
  const char *package;
  int n, n_required, n_by_position, rest;     /* rest: the parameter that takes what is left, or -1; it ends those by position */
  int n_without_name;                         /* before the / */
  unsigned flags;                             /* a bit for each parameter whose default is True or False */
  int device, stream;                         /* the parameters that say where the result is to be, and where it runs, or -1 */
  PyObject *parameter[MOST], *otherwise[MOST]; /* names, interned; defaults, NULL: it must be given */
};

/* ---- Signatures ---- */

/* The value of a default: Python's literals, and dtypes of the module. */
static PyObject *literal(const char *text, size_t n, PyObject *module) {
  char copy[64];
  PyObject *globals = n < sizeof copy ? PyDict_Copy(PyModule_GetDict(module)) : NULL;
  if (!globals) return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_SystemError, "the default %s is too long", text);
  memcpy(copy, text, n);
  copy[n] = 0;
  PyObject *value = PyRun_String(copy, Py_eval_input, globals, globals);
  Py_DECREF(globals);
  return value;
}

/* One item between commas. */
static int add_parameter(struct named *f, const char *text, size_t n, PyObject *module, int *is_by_name) {
  const char *equals = memchr(text, '=', n);
  size_t length = equals ? (size_t)(equals - text) : n;
  if (n == 1 && *text == '/') return f->n_without_name = f->n, 0;
  if (n == 1 && *text == '*') return *is_by_name = 1, 0;
  if (f->n == MOST) return PyErr_Format(PyExc_SystemError, "%s has too many parameters", f->row->name), -1;
  if (*text == '*') f->rest = f->n, *is_by_name = 1, text++, length--;
  f->parameter[f->n] = PyUnicode_FromStringAndSize(text, (Py_ssize_t)length);
  if (!f->parameter[f->n]) return -1;
  PyUnicode_InternInPlace(&f->parameter[f->n]);
  if (!PyUnicode_CompareWithASCIIString(f->parameter[f->n], "device") && f->row->call != call_to_device) f->device = f->n;
  if (!PyUnicode_CompareWithASCIIString(f->parameter[f->n], "stream")) f->stream = f->n;
  if (equals && !(f->otherwise[f->n] = literal(equals + 1, n - length - 1, module))) return -1;
  if (equals && PyBool_Check(f->otherwise[f->n])) f->flags |= 1u << f->n;
  if (!equals && f->rest != f->n && !*is_by_name) f->n_required = f->n + 1;
  f->n++;
  if (!*is_by_name) f->n_by_position = f->n;
  return 0;
}

/* Up to the comma or the bracket that ends an item; a tuple is part of it. */
static size_t item_length(const char *text) {
  size_t n = strcspn(text, ",()");
  if (text[n] == '(') n += strcspn(text + n, ")") + 1;
  return n;
}

static int read_signature(struct named *f, PyObject *module) {
  int is_by_name = 0;
  f->rest = f->device = f->stream = -1;
  for (const char *at = f->row->signature + 1; *at != ')';) {
    size_t n = item_length(at);
    if (add_parameter(f, at, n, module, &is_by_name)) return -1;
    at += n;
    at += strspn(at, ", ");
  }
  return 0;
}

/* ---- Calls ---- */

static int find(const struct named *f, PyObject *name) {
  for (int i = f->n_without_name; i < f->n; i++)
    if (f->parameter[i] == name || !PyUnicode_Compare(f->parameter[i], name)) return i;
  return -1;
}

static int take_keywords(const struct named *f, PyObject *const values[], PyObject *names, PyObject *arg[]) {
  for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(names); k++) {
    PyObject *name = PyTuple_GET_ITEM(names, k);
    int i = find(f, name);
    if (i < 0) return PyErr_Format(PyExc_TypeError, "%s() got an unexpected keyword argument '%U'", f->row->name, name), -1;
    if (arg[i]) return PyErr_Format(PyExc_TypeError, "%s() got multiple values for argument '%U'", f->row->name, name), -1;
    arg[i] = values[k];
  }
  return 0;
}

static int too_many(const struct named *f, Py_ssize_t n) {
  PyErr_Format(PyExc_TypeError, "%s() takes %s%d arguments by position, not %zd: %s%s", f->row->name,
               f->n_required < f->n_by_position ? "at most " : "", f->n_by_position, n, f->row->name, f->row->signature);
  return -1;
}

/* Fills arg with what was passed and the defaults. *rest is the tuple to release, if there is one. */
static int bind(const struct named *f, PyObject *const args[], Py_ssize_t n, PyObject *names, PyObject *arg[], PyObject **rest) {
  Py_ssize_t by_position = n < f->n_by_position ? n : f->n_by_position;
  if (n > f->n_by_position && f->rest < 0) return too_many(f, n);
  memcpy(arg, args, (size_t)by_position * sizeof *arg);
  memset(arg + by_position, 0, (size_t)(f->n - by_position) * sizeof *arg);
  if (names && take_keywords(f, args + n, names, arg)) return -1;
  if (f->rest >= 0) { /* by its name: one object, as f(x, shape=(2, 3)) */
    Py_ssize_t left = n - by_position;
    if (left && arg[f->rest])
      return PyErr_Format(PyExc_TypeError, "%s() got multiple values for argument '%U'", f->row->name, f->parameter[f->rest]), -1;
    *rest = PyTuple_New(arg[f->rest] ? 1 : left);
    if (!*rest) return -1;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(*rest); i++)
      PyTuple_SET_ITEM(*rest, i, Py_NewRef(arg[f->rest] ? arg[f->rest] : args[by_position + i]));
    arg[f->rest] = *rest;
  }
  for (int i = 0; i < f->n; i++)
    if (!arg[i] && !(arg[i] = f->otherwise[i]))
      return PyErr_Format(PyExc_TypeError, "%s() misses the argument '%U': %s%s", f->row->name, f->parameter[i], f->row->name,
                          f->row->signature), -1;
  return 0;
}

/* The result on the device that was asked for. */
static PyObject *placed(PyObject *result, PyObject *device) {
  if (!result || device == Py_None) return result;
  weft_scope *s = op_begin();
  PyObject *there = op_end(s, call_to_device(NULL, (PyObject *[]){ result, device }));
  Py_DECREF(result);
  return there;
}

static PyObject *run(const struct named *f, PyObject *const arg[]);

/* The row on another device than the thread's. One that is given no array is part of whatever reads what it makes. */
static PyObject *run_at(int device, const struct named *f, PyObject *const arg[]) {
  int n = 0, failed = 0, before = place_set(-1);
  PyObject *there[MOST] = { NULL }, *result = NULL;
  for (int i = 0; i < f->n && !failed; i++)
    failed = !(there[i] = i == f->stream ? Py_NewRef(Py_None) : place_there(arg[i], device, &n));
  if (!failed) result = run(f, there);
  for (int i = 0; i < f->n; i++) Py_XDECREF(there[i]);
  if (n) result = place_away(result, device);
  place_set(before);
  return result;
}

static PyObject *run(const struct named *f, PyObject *const arg[]) {
  PyTypeObject *type = f->array == &array_type ? flavour_of(f->n, arg) : f->array;
  int device = f->stream >= 0 && arg[f->stream] != Py_None ? place_of(arg[f->stream]) : type == &mlx_array_type ? place_now() : -1;
  if (device != -1) return device < 0 ? NULL : run_at(device, f, arg);
  PyTypeObject *before = flavour_set(type);
  PyObject *result;
  if (f->row->call) {
    weft_scope *s = op_begin();
    result = op_end(s, f->row->call(f->row, arg));
  } else {
    result = f->row->made(f->row, arg);
  }
  if (f->device >= 0) result = placed(result, arg[f->device]);
  flavour_set(before);
  return result;
}

/* Whether an argument can be read without running Python. */
static int is_plain(PyObject *o) {
  return array_check(o) || o == Py_None || PyLong_CheckExact(o) || PyBool_Check(o) || PyFloat_CheckExact(o) ||
         PyUnicode_CheckExact(o) || Py_TYPE(o) == &dtype_type || Py_TYPE(o) == &mlx_dtype_type;
}

/* Python that runs while arguments are read, an __index__ say, may give an array object another array: the arrays that were
 * passed are kept until the end. */
static PyObject *run_safely(const struct named *f, PyObject *const arg[]) {
  weft_array *kept[MOST];
  int n = 0, is_safe = 1;
  for (int i = 0; i < f->n; i++) is_safe &= is_plain(arg[i]);
  if (is_safe) return run(f, arg);
  for (int i = 0; i < f->n; i++)
    if (array_check(arg[i])) kept[n++] = weft_own(array_handle(arg[i]));
  PyObject *result = run(f, arg);
  while (n) weft_disown(kept[--n]);
  return result;
}

static PyObject *objects(int n, PyObject *const object[]) {
  PyObject *t = PyTuple_New(n);
  for (int i = 0; t && i < n; i++) PyTuple_SET_ITEM(t, i, Py_NewRef(object[i]));
  return t;
}

/* A call of MLX's that failed while an argument is of a type that MLX does not take: that is the mistake (weft/mlx/_blame.py). */
static void blame(const struct named *f, PyObject *const arg[]) {
  PyObject *const blamed[] = { PyExc_ValueError, PyExc_IndexError, PyExc_OverflowError };
  int is_blamed = 0;
  for (int i = 0; i < 3; i++) is_blamed |= PyErr_ExceptionMatches(blamed[i]);
  if (!is_blamed) return;
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  PyObject *text = in_python("weft.mlx._blame", "wrong_type",
                             Py_BuildValue("(sNN)", f->row->name, objects(f->n, f->parameter), objects(f->n, arg)));
  if (!text || text == Py_None) {
    PyErr_Restore(type, value, trace);
  } else {
    PyErr_SetObject(PyExc_TypeError, text);
    Py_XDECREF(type), Py_XDECREF(value), Py_XDECREF(trace);
  }
  Py_XDECREF(text);
}

/* Whether an argument, or an element of one, has failed before: that is the mistake. */
static int failed_before(int n, PyObject *const arg[]) {
  for (int i = 0; i < n; i++) {
    int is_list = PyList_CheckExact(arg[i]) || PyTuple_CheckExact(arg[i]);
    if (raise_failed(arg[i])) return 1;
    for (Py_ssize_t k = 0; is_list && k < PySequence_Fast_GET_SIZE(arg[i]); k++)
      if (raise_failed(PySequence_Fast_GET_ITEM(arg[i], k))) return 1;
  }
  return 0;
}

/* MLX takes True and False alone where one of them is meant: x.sum(0, 1) is a mistake there. */
static int flag_refuses(const struct named *f, PyObject *const arg[]) {
  for (int i = 0; f->flags >> i; i++)
    if (f->flags >> i & 1 && !PyBool_Check(arg[i]))
      return PyErr_Format(PyExc_TypeError, "%s: %U is True or False, not %.100s", f->row->name, f->parameter[i],
                          Py_TYPE(arg[i])->tp_name), 1;
  return 0;
}

static PyObject *call(PyObject *self, PyObject *const args[], size_t flags, PyObject *names) {
  const struct named *f = (struct named *)self;
  Py_ssize_t n = PyVectorcall_NARGS(flags);
  PyObject *arg[MOST], *rest = NULL, *const *given = args, *result = NULL;
  int is_bound = (n == f->n && n == f->n_by_position && !names) || (given = arg, !bind(f, args, n, names, arg, &rest));
  int is_mlx = f->array == &mlx_array_type;
  if (is_bound && is_mlx && f->flags && flag_refuses(f, given)) is_bound = 0;
  if (is_bound && !(result = run_safely(f, given)) && !failed_before(f->n, given)) {
    char name[64];
    int is_private = f->row->name[0] == '_', is_random = !strcmp(f->package, "weft.random");
    if (is_mlx && !is_private) blame(f, given);
    snprintf(name, sizeof name, "%s%s", is_random ? "random." : "", f->row->name);
    raised_by(is_private ? NULL : name);
  }
  Py_XDECREF(rest);
  return result;
}

/* ---- The types ---- */

static PyObject *get_name(PyObject *self, void *closure) {
  (void)closure;
  return PyUnicode_FromString(((struct named *)self)->row->name);
}
static PyObject *get_module(PyObject *self, void *closure) {
  (void)closure;
  return PyUnicode_FromString(((struct named *)self)->package);
}
static PyObject *get_signature(PyObject *self, void *closure) {
  (void)closure;
  return PyUnicode_FromString(((struct named *)self)->row->signature);
}
static PyObject *get_inspected(PyObject *self, void *closure) { /* what inspect.signature gives */
  (void)closure;
  return in_python("weft._text", "signature", Py_BuildValue("(s)", ((struct named *)self)->row->signature));
}
/* Itself, or the row of weft's own table that says what it is. */
static const struct name *described(const struct name *row) {
  for (const struct name *r = weft_names; !row->doc && r->name; r++)
    if (!strcmp(r->name, row->name)) return r;
  return row;
}
static PyObject *get_doc(PyObject *self, void *closure) {
  const struct name *r = described(((struct named *)self)->row);
  (void)closure;
  if (!r->doc) return PyUnicode_FromFormat("%s%s", r->name, ((struct named *)self)->row->signature);
  return PyUnicode_FromFormat("%s%s: %s\n\n    >>> %s.%s.tolist()\n    %s\n", r->name,
                              ((struct named *)self)->row->signature, r->doc, ((struct named *)self)->package, r->example,
                              r->result);
}
static PyObject *represent(PyObject *self) {
  const struct named *f = (struct named *)self;
  return PyUnicode_FromFormat("<function %s.%s%s>", f->package, f->row->name, f->row->signature);
}
static PyObject *reduce(PyObject *self, PyObject *unused) { return (void)unused, get_name(self, NULL); } /* by its name */

static PyObject *bound(PyObject *self, PyObject *instance, PyObject *type) {
  (void)type;
  return !instance || instance == Py_None ? Py_NewRef(self) : PyMethod_New(self, instance);
}

static PyGetSetDef properties[] = {
  { "__name__", get_name, NULL, NULL, NULL },       { "__qualname__", get_name, NULL, NULL, NULL },
  { "__module__", get_module, NULL, NULL, NULL },   { "__text_signature__", get_signature, NULL, NULL, NULL },
  { "__signature__", get_inspected, NULL, NULL, NULL }, { "__doc__", get_doc, NULL, NULL, NULL },
  { 0 },
};
static PyMethodDef methods[] = {
  { "__reduce__", reduce, METH_NOARGS, "The name of the global it is." },
  { 0 },
};

static PyTypeObject function = {
  PyVarObject_HEAD_INIT(NULL, 0)
  .tp_name = "weft.function",
  .tp_basicsize = sizeof(struct named),
  .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL,
  .tp_repr = represent,
  .tp_call = PyVectorcall_Call,
  .tp_vectorcall_offset = offsetof(struct named, vectorcall),
  .tp_getset = properties,
  .tp_methods = methods,
};
static PyTypeObject method = {
  PyVarObject_HEAD_INIT(NULL, 0)
  .tp_name = "weft.method",
  .tp_basicsize = sizeof(struct named),
  .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR,
  .tp_repr = represent,
  .tp_call = PyVectorcall_Call,
  .tp_vectorcall_offset = offsetof(struct named, vectorcall),
  .tp_descr_get = bound,
  .tp_getset = properties,
  .tp_methods = methods,
};

/* ---- Tables ---- */

/* Rows live as long as the process, and so do these objects. */
static PyObject *named(PyTypeObject *type, const struct name *row, PyObject *module, PyTypeObject *array, const char *package) {
  struct named *f = (struct named *)type->tp_alloc(type, 0);
  if (!f) return NULL;
  f->vectorcall = call;
  f->row = row;
  f->array = array;
  f->package = package;
  return read_signature(f, module) ? NULL : (PyObject *)f;
}

static PyObject *describe(const struct name *r) {
  return Py_BuildValue("{szszszszszszsO}", "name", r->name, "signature", r->signature, "c", r->c, "doc", r->doc, "example",
                       r->example, "result", r->result, "is_method", r->is_method ? Py_True : Py_False);
}

static int install(const struct name *row, PyObject *module, PyTypeObject *array, const char *package, PyObject *rows) {
  PyObject *f = named(&function, row, module, array, package);
  PyObject *m = f && row->is_method ? named(&method, row, module, array, package) : NULL;
  PyObject *text = f ? describe(row) : NULL;
  int is_function = row->is_method != 2;
  int failed = !text || (is_function && (PyObject_SetAttrString(module, row->name, f) || PyList_Append(rows, text))) ||
               (row->is_method && (!m || PyDict_SetItemString(array->tp_dict, row->name, m)));
  Py_XDECREF(text);
  return failed ? -1 : 0;
}

int names_install(const struct name *rows, PyObject *module, PyTypeObject *array, const char *package) {
  PyObject *list = PyList_New(0);
  if (!list || PyType_Ready(&function) || PyType_Ready(&method)) return -1;
  for (const struct name *r = rows; r->name; r++)
    if (install(r, module, array, package, list)) return -1;
  PyType_Modified(array);
  return PyModule_AddObject(module, "names", list);
}

/* Names that functions of a table have beside their own: rows live as long as the process. */
static PyObject *also(PyObject *module, PyObject *args) {
  const char *name;
  PyObject *of;
  (void)module;
  if (!PyArg_ParseTuple(args, "sO!", &name, &function, &of)) return NULL;
  struct named *f = (struct named *)function.tp_alloc(&function, 0);
  struct name *row = PyMem_Malloc(sizeof *row + strlen(name) + 1);
  if (!f || !row) return Py_XDECREF(f), PyMem_Free(row), PyErr_NoMemory();
  struct named was = *(struct named *)of;
  was.ob_base = f->ob_base;
  *f = was;
  *row = *f->row;
  row->name = strcpy((char *)(row + 1), name);
  f->row = row;
  for (int i = 0; i < f->n; i++) Py_XINCREF(f->parameter[i]), Py_XINCREF(f->otherwise[i]);
  return (PyObject *)f;
}

PyMethodDef names_functions[] = {
  { "also", also, METH_VARARGS, "also(name, function): the same function under another name, which its messages begin with." },
  { 0 },
};

int names_public(const char *name, size_t n) {
  static const struct name *const tables[] = { weft_names, linalg_names, random_names, mlx_names };
  const char *dot = memchr(name, '.', n);
  size_t skipped = dot ? (size_t)(dot - name) + 1 : 0;
  for (int t = 0; t < 4; t++)
    for (const struct name *r = tables[t]; r->name; r++)
      if (strlen(r->name) == n - skipped && !memcmp(r->name, name + skipped, n - skipped)) return 1;
  return 0;
}

const char *names_of_c(const char *c, size_t n) {
  for (const struct name *r = weft_names; r->name; r++)
    if (!strncmp(r->c, "weft_", 5) && strlen(r->c + 5) == n && !memcmp(r->c + 5, c, n)) return r->name;
  return NULL;
}
