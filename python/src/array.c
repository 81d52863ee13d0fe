/* array.c -- the type weft.array: making, naming and freeing objects, their properties, the table of methods. */
#include "names.h"
#include <string.h>

/* ---- Flavours ---- */

static _Thread_local PyTypeObject *set; /* NULL: weft's own */

PyTypeObject *flavour(void) { return set ? set : &array_type; }

PyTypeObject *flavour_set(PyTypeObject *type) {
  PyTypeObject *before = flavour();
  set = type;
  return before;
}

PyTypeObject *flavour_of(Py_ssize_t n, PyObject *const o[]) {
  for (Py_ssize_t i = 0; i < n; i++) {
    if (mlx_check(o[i])) return &mlx_array_type;
    if ((PyTuple_CheckExact(o[i]) || PyList_CheckExact(o[i])) &&
        flavour_of(PySequence_Fast_GET_SIZE(o[i]), PySequence_Fast_ITEMS(o[i])) == &mlx_array_type)
      return &mlx_array_type;
  }
  return &array_type;
}

/* ---- Making ---- */

PyObject *array_wrap(weft_array *a) { return array_wrap_as(flavour(), a); }

PyObject *array_wrap_as(PyTypeObject *type, weft_array *a) {
  weft_status s = weft_check(a);
  if (s) return raise_status(s), raised_by(NULL), NULL;
  struct array *self = PyObject_New(struct array, type);
  if (!self) return NULL;
  self->handle = weft_own(a);
  self->weak_references = NULL;
  self->body = body_serial();
  self->is_given = self->n_shown = self->is_foreign = 0;
  self->there = NULL;
  return (PyObject *)self;
}

struct exchange { struct array *self; weft_array *handle, *there; };

static void exchange(void *of) {
  struct exchange *x = of;
  weft_array *old = x->self->handle, *there = x->self->there;
  x->self->handle = x->handle, x->self->there = NULL;
  x->self->is_given = x->self->n_shown = x->self->is_foreign = 0;
  x->handle = old, x->there = there;
}

int array_assign(PyObject *self, weft_array *a) {
  weft_status s = weft_check(a);
  if (s) return raise_status(s), -1;
  struct exchange x = { (struct array *)self, weft_own(a), NULL };
  run_apart(exchange, &x);
  weft_disown(x.handle);
  if (x.there) weft_disown(x.there);
  return 0;
}

PyObject *array_from(PyObject *o) {
  if (array_check(o)) return Py_NewRef(o);
  weft_scope *s = op_begin();
  return op_end(s, convert_array(o, NULL, 0));
}

int64_t array_word(PyObject *self, weft_dtype t, int rank) {
  return (int64_t)(mlx_check(self) != 0) << 16 | (int64_t)t << 8 | rank;
}

int array_describe(PyObject *self, int64_t word[1 + WEFT_RANK_MAX]) {
  weft_dtype t;
  int rank = weft_describe(array_handle(self), &t, word + 1);
  if (rank < 0) return -1;
  word[0] = array_word(self, t, rank);
  return 1 + rank;
}

void array_open(int open, int rank, int64_t dims[]) {
  for (int k = 0; k < rank && open; k++)
    if (open == OPEN_ALL || dims[k] != 1) dims[k] = WEFT_ANY;
}

PyObject *array_list(PyTypeObject *type, int n, weft_array *const a[]) {
  PyObject *list = PyList_New(n);
  for (int i = 0; list && i < n; i++) {
    PyObject *item = array_wrap_as(type, a[i]);
    if (item) PyList_SET_ITEM(list, i, item);
    else Py_CLEAR(list);
  }
  return list;
}

static PyObject *make(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
  static char *names[] = { "", "dtype", NULL };
  PyObject *o, *dtype = Py_None;
  weft_dtype wanted;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|O:array", names, &o, &dtype)) return NULL;
  if (dtype != Py_None && dtype_parse(dtype, &wanted)) return NULL;
  weft_scope *s = op_begin();
  return op_end_as(type, s, convert_array(o, dtype == Py_None ? NULL : &wanted, 0));
}

static void destroy(PyObject *self) { /* any thread, also while the interpreter ends */
  if (((struct array *)self)->weak_references) PyObject_ClearWeakRefs(self);
  weft_disown(array_handle(self));
  if (((struct array *)self)->there) weft_disown(((struct array *)self)->there);
  Py_TYPE(self)->tp_free(self);
}

/* ---- Properties ---- */

static PyObject *get_shape(PyObject *self, void *closure) {
  int rank;
  int64_t dims[WEFT_RANK_MAX];
  (void)closure;
  if (convert_dims(self, &rank, dims)) return NULL;
  PyObject *shape = PyTuple_New(rank);
  for (int i = 0; shape && i < rank; i++) {
    PyObject *dim = PyLong_FromLongLong(dims[i]);
    if (dim) PyTuple_SET_ITEM(shape, i, dim);
    else Py_CLEAR(shape);
  }
  return shape;
}

static int64_t count(PyObject *self) { /* -1: an exception is set */
  int rank;
  int64_t dims[WEFT_RANK_MAX], n = 1;
  if (convert_dims(self, &rank, dims)) return -1;
  for (int i = 0; i < rank; i++) n *= dims[i];
  return n;
}

static PyObject *get_size(PyObject *self, void *closure) {
  int64_t n = count(self);
  (void)closure;
  return n < 0 ? NULL : PyLong_FromLongLong(n);
}

static PyObject *get_nbytes(PyObject *self, void *closure) {
  int64_t n = count(self);
  (void)closure;
  return n < 0 ? NULL : PyLong_FromLongLong(n * (int64_t)weft_dtype_bytes(weft_dtype_of(array_handle(self))));
}

static PyObject *get_itemsize(PyObject *self, void *closure) {
  (void)closure;
  return raise_failed(self) ? NULL : PyLong_FromSize_t(weft_dtype_bytes(weft_dtype_of(array_handle(self))));
}

static PyObject *get_ndim(PyObject *self, void *closure) {
  (void)closure;
  return raise_failed(self) ? NULL : PyLong_FromLong(weft_rank(array_handle(self)));
}
static PyObject *get_dtype(PyObject *self, void *closure) {
  (void)closure;
  return raise_failed(self) ? NULL : Py_NewRef(dtype_object_as(flavour_of_array(self), weft_dtype_of(array_handle(self))));
}

static PyObject *get_transposed(PyObject *self, void *closure) {
  (void)closure;
  weft_scope *s = op_begin();
  return op_end_as(flavour_of_array(self), s, weft_transpose(array_handle(self), NULL));
}

static PyObject *get_matrices_transposed(PyObject *self, void *closure) {
  (void)closure;
  int rank = weft_rank(array_handle(self));
  if (rank < 2) return raise_failed(self) ? NULL : PyErr_Format(PyExc_ValueError, "mT: an array of %d axes", rank);
  weft_scope *s = op_begin();
  return op_end_as(flavour_of_array(self), s, weft_moveaxis(array_handle(self), -1, -2));
}
static PyObject *get_device(PyObject *self, void *closure) {
  (void)closure;
  return in_python("weft._standard", "device_of", PyTuple_Pack(1, self));
}

static PyObject *get_real(PyObject *self, void *closure) {
  (void)closure;
  weft_scope *s = op_begin();
  return op_end_as(flavour_of_array(self), s, weft_real(array_handle(self)));
}
static PyObject *get_imag(PyObject *self, void *closure) {
  (void)closure;
  weft_scope *s = op_begin();
  return op_end_as(flavour_of_array(self), s, weft_imag(array_handle(self)));
}

/* Where NumPy's operators meet an array, they leave the work to it. */
static PyObject *get_priority(PyObject *self, void *closure) {
  (void)self, (void)closure;
  return PyFloat_FromDouble(1000);
}

static PyObject *get_at(PyObject *self, void *closure) { (void)closure; return in_python("weft._at", "At", PyTuple_Pack(1, self)); }
static PyObject *represent(PyObject *self) { return in_python("weft._text", "represent", PyTuple_Pack(1, self)); }

static PyGetSetDef properties[] = {
  { "shape", get_shape, NULL, "the sizes of the axes", NULL },
  { "ndim", get_ndim, NULL, "the number of axes", NULL },
  { "size", get_size, NULL, "the number of elements", NULL },
  { "nbytes", get_nbytes, NULL, "bytes of all elements", NULL },
  { "itemsize", get_itemsize, NULL, "bytes of one element", NULL },
  { "dtype", get_dtype, NULL, "the type of the elements", NULL },
  { "T", get_transposed, NULL, "with the axes reversed", NULL },
  { "mT", get_matrices_transposed, NULL, "with the last two axes exchanged", NULL },
  { "device", get_device, NULL, "where this thread's work runs; 0 is the CPU", NULL },
  { "real", get_real, NULL, "the real part", NULL },
  { "imag", get_imag, NULL, "the imaginary part; of real numbers 0", NULL },
  { "at", get_at, NULL, "x.at[i].add(v) and its like: a new array in which equal targets combine", NULL },
  { "__array_priority__", get_priority, NULL, NULL, NULL },
  { 0 },
};

/* ---- As a sequence ---- */

static Py_ssize_t length(PyObject *self) {
  int rank;
  int64_t dims[WEFT_RANK_MAX];
  if (convert_dims(self, &rank, dims)) return -1;
  if (!rank) return PyErr_SetString(PyExc_TypeError, "a 0-d array has no len()"), raised_by(NULL), -1;
  return (Py_ssize_t)dims[0];
}

static PyObject *item(PyObject *self, Py_ssize_t i) {
  PyObject *index = PyLong_FromSsize_t(i), *r = index ? index_get(self, index) : NULL;
  Py_XDECREF(index);
  return r;
}

static PyObject *iterate(PyObject *self) {
  if (weft_rank(array_handle(self)) > 0) return PySeqIter_New(self);
  if (!raise_failed(self)) PyErr_SetString(PyExc_TypeError, "a 0-d array cannot be iterated over"), raised_by(NULL);
  return NULL;
}

static PyMappingMethods mapping = { .mp_length = length, .mp_subscript = index_get, .mp_ass_subscript = index_set };
static PySequenceMethods sequence = { .sq_length = length, .sq_item = item };

/* ---- The type ---- */

PyTypeObject array_type = {
  PyVarObject_HEAD_INIT(NULL, 0)
  .tp_name = "weft.array",
  .tp_basicsize = sizeof(struct array),
  .tp_flags = Py_TPFLAGS_DEFAULT,
  .tp_doc =
      "array(value, dtype=None): an n-dimensional array, computed when somebody needs its values. Made of numbers, "
      "nested lists, NumPy arrays and whatever has the buffer protocol; the memory is copied (asarray shares it).",
  .tp_new = make,
  .tp_dealloc = destroy,
  .tp_repr = represent,
  .tp_weaklistoffset = offsetof(struct array, weak_references),
  .tp_as_number = &element_numbers,
  .tp_as_mapping = &mapping,
  .tp_as_sequence = &sequence,
  .tp_as_buffer = &value_buffer,
  .tp_richcompare = element_compare,
  .tp_iter = iterate,
  .tp_getset = properties,
};

/* The methods of all families in one table, which the type wants. */
static int gather_methods(void) {
  static PyMethodDef all[32];
  PyMethodDef *const families[] = { element_methods, shape_methods, value_methods, dlpack_methods };
  size_t n = 0;
  for (size_t f = 0; f < sizeof families / sizeof *families; f++)
    for (PyMethodDef *m = families[f]; m->ml_name; m++) {
      if (n + 1 >= sizeof all / sizeof *all) return PyErr_SetString(PyExc_SystemError, "too many methods"), -1;
      all[n++] = *m;
    }
  array_type.tp_methods = all;
  return 0;
}

static int add_functions(PyObject *module) {
  PyMethodDef *const families[] = { origin_functions, names_functions, evaluate_functions, index_functions, transform_functions,
                                    rules_functions, tree_functions,   file_functions,     host_functions,  walk_functions,
                                    fetch_functions };
  for (size_t f = 0; f < sizeof families / sizeof *families; f++)
    if (PyModule_AddFunctions(module, families[f])) return -1;
  return 0;
}

static int add_types(PyObject *module) {
  PyTypeObject *const types[] = { &array_type, &scope_type, &function_type, &thunk_type, &loop_type, &cond_type, &compiled_type };
  for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
    const char *name = strrchr(types[i]->tp_name, '.') + 1;
    if (PyType_Ready(types[i]) || PyObject_SetAttrString(module, name, (PyObject *)types[i])) return -1;
  }
  return 0;
}

static struct PyModuleDef definition = { PyModuleDef_HEAD_INIT, .m_name = "weft._core", .m_size = -1,
                                         .m_doc = "The C part of weft; the package weft is what to import." };

/* The names of weft.random are a module of their own inside. */
static int add_random(PyObject *module) {
  PyObject *random = PyModule_New("weft.random");
  if (!random || names_install(random_names, random, &array_type, "weft.random")) return Py_XDECREF(random), -1;
  return PyModule_AddObject(module, "_random", random);
}

/* Makes the module weft.linalg, with its names. */
static int add_linalg(PyObject *module) {
  PyObject *linalg = PyModule_New("weft.linalg");
  if (!linalg || names_install(linalg_names, linalg, &array_type, "weft.linalg")) return Py_XDECREF(linalg), -1;
  return PyModule_AddObject(module, "_linalg", linalg);
}

PyMODINIT_FUNC PyInit__core(void); /* found by name */
PyMODINIT_FUNC PyInit__core(void) {
  array_type.tp_hash = PyBaseObject_Type.tp_hash; /* by identity, although == compares elements */
  if (gather_methods()) return NULL;
  PyObject *module = PyModule_Create(&definition);
  if (!module) return NULL;
  if (!error_add_types(module) && !dtype_add_all(module, &array_type) && !add_types(module) && !add_functions(module) &&
      !names_install(weft_names, module, &array_type, "weft") && !add_random(module) && !add_linalg(module) && !mlx_add(module))
    return module;
  Py_DECREF(module);
  return NULL;
}
