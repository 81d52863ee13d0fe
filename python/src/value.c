/* value.c -- arrays as Python objects: numbers, lists, and memory that others look at without a copy. */
#include "core.h"
#include <string.h>

/* ---- Numbers and lists ---- */

static float bits_to_float(uint32_t u) {
  float f;
  memcpy(&f, &u, sizeof f);
  return f;
}

static double half_to_double(uint16_t h) {
  uint32_t sign = (uint32_t)(h & 0x8000) << 16, exponent = h >> 10 & 31, rest = h & 1023;
  if (exponent == 31) return bits_to_float(sign | 0x7F800000 | rest << 13);
  if (exponent) return bits_to_float(sign | (exponent + 112) << 23 | rest << 13);
  return (sign ? -1.0 : 1.0) * rest / 16777216; /* 2^-24 */
}

/* Of so many digits of the fraction; the largest exponent is inf and nan, but in e4m3, where the last code alone is nan. */
static double eighth_to_double(unsigned b, unsigned digits) {
  unsigned m = b & 127, e = m >> digits, top = 127u >> digits, rest = m & ((1u << digits) - 1);
  double sign = b & 128 ? -1.0 : 1.0, unit = digits == 3 ? 1.0 / 512 : 1.0 / 65536; /* the smallest number */
  if (digits == 3 ? m == 127 : e == top) return digits == 2 && !rest ? sign * Py_HUGE_VAL : Py_NAN;
  return sign * unit * (e ? (double)(((1u << digits) + rest)) * (double)(UINT64_C(1) << (e - 1)) : (double)rest);
}

#define AT(type) (((const type *)block)[i])
static PyObject *element(weft_dtype d, const void *block, size_t i) {
  switch (d) {
    case WEFT_BOOL: return PyBool_FromLong(AT(uint8_t));
    case WEFT_U8: return PyLong_FromLong(AT(uint8_t));
    case WEFT_U16: return PyLong_FromLong(AT(uint16_t));
    case WEFT_U32: return PyLong_FromUnsignedLong(AT(uint32_t));
    case WEFT_U64: return PyLong_FromUnsignedLongLong(AT(uint64_t));
    case WEFT_I8: return PyLong_FromLong(AT(int8_t));
    case WEFT_I16: return PyLong_FromLong(AT(int16_t));
    case WEFT_I32: return PyLong_FromLong(AT(int32_t));
    case WEFT_I64: return PyLong_FromLongLong(AT(int64_t));
    case WEFT_F16: return PyFloat_FromDouble(half_to_double(AT(uint16_t)));
    case WEFT_F32: return PyFloat_FromDouble(AT(float));
    case WEFT_F64: return PyFloat_FromDouble(AT(double));
    case WEFT_BF16: return PyFloat_FromDouble(bits_to_float((uint32_t)AT(uint16_t) << 16));
    case WEFT_E4M3: return PyFloat_FromDouble(eighth_to_double(AT(uint8_t), 3));
    case WEFT_E5M2: return PyFloat_FromDouble(eighth_to_double(AT(uint8_t), 2));
    case WEFT_C64: return PyComplex_FromDoubles(((const float *)block)[2 * i], ((const float *)block)[2 * i + 1]);
    case WEFT_C128: return PyComplex_FromDoubles(((const double *)block)[2 * i], ((const double *)block)[2 * i + 1]);
  }
  return PyErr_Format(PyExc_SystemError, "there is no dtype %d", (int)d);
}
#undef AT

static PyObject *nested(weft_dtype d, const void *block, int rank, const int64_t dims[], size_t *at) {
  if (!rank) return element(d, block, (*at)++);
  PyObject *list = PyList_New((Py_ssize_t)dims[0]);
  for (int64_t i = 0; list && i < dims[0]; i++) {
    PyObject *item = nested(d, block, rank - 1, dims + 1, at);
    if (item) PyList_SET_ITEM(list, (Py_ssize_t)i, item);
    else Py_CLEAR(list);
  }
  return list;
}

static PyObject *tolist(PyObject *self, PyObject *unused) {
  weft_array *a = array_handle(self);
  weft_dtype d = weft_dtype_of(a);
  int rank;
  int64_t dims[WEFT_RANK_MAX];
  size_t n = 1, at = 0;
  (void)unused;
  if (convert_dims(self, &rank, dims)) return NULL;
  for (int i = 0; i < rank; i++) n *= (size_t)dims[i];
  void *block = PyMem_Malloc(n ? n * weft_dtype_bytes(d) : 1);
  if (!block) return PyErr_NoMemory();
  PyObject *list = evaluate_into(a, block, n * weft_dtype_bytes(d)) ? NULL : nested(d, block, rank, dims, &at);
  PyMem_Free(block);
  return list;
}

int64_t value_count(PyObject *self) {
  int rank;
  int64_t dims[WEFT_RANK_MAX], n = 1;
  if (convert_dims(self, &rank, dims)) return -1;
  for (int i = 0; i < rank; i++) n *= dims[i];
  return n;
}

static PyObject *only_element(PyObject *self) {
  weft_array *a = array_handle(self);
  weft_dtype d = weft_dtype_of(a);
  int64_t n = value_count(self);
  double room[2];
  if (n < 0) return NULL;
  if (n != 1) {
    PyErr_Format(PyExc_ValueError, "an array of %lld elements is not one number", (long long)n);
    return raised_by(NULL), NULL;
  }
  return evaluate_into(a, room, weft_dtype_bytes(d)) ? NULL : element(d, room, 0);
}

PyObject *value_item(PyObject *self) {
  PyTypeObject *before = flavour_set(Py_TYPE(self)); /* whose words an error has */
  PyObject *number = only_element(self);
  flavour_set(before);
  return number;
}

static PyObject *item(PyObject *self, PyObject *unused) { (void)unused; return value_item(self); }

/* ---- Memory ---- */

/* What a view of the buffer protocol needs: it shows the array that the object named when it was made. */
struct shown {
  weft_array *array;
  Py_ssize_t dims[WEFT_RANK_MAX], strides[WEFT_RANK_MAX];
};

static int has_rows(const weft_block *b) { /* row by row, without gaps */
  int64_t stride = 1;
  for (int i = b->rank; i-- > 0; stride *= b->dims[i])
    if (b->dims[i] > 1 && b->strides[i] != stride) return 0;
  return 1;
}

static int refuse(const char *why) { return PyErr_SetString(PyExc_BufferError, why), -1; }

/* MLX calls 8 bytes "long long", and shows bfloat16 under its name. */
static const char *format_of(weft_dtype d, int is_mlx) {
  if (is_mlx && (d == WEFT_I64 || d == WEFT_U64)) return d == WEFT_I64 ? "q" : "Q";
  return is_mlx && d == WEFT_BF16 ? "bfloat16" : dtype_format(d);
}

static int fill(Py_buffer *out, struct shown *shown, const weft_block *b, int flags, int is_mlx) {
  Py_ssize_t size = (Py_ssize_t)weft_dtype_bytes(b->dtype), n = size;
  if ((flags & PyBUF_STRIDES) != PyBUF_STRIDES && !has_rows(b)) return refuse("the array has strides");
  for (int i = 0; i < b->rank; i++) {
    shown->dims[i] = (Py_ssize_t)b->dims[i];
    shown->strides[i] = (Py_ssize_t)b->strides[i] * size;
    n *= shown->dims[i];
  }
  *out = (Py_buffer){ .buf = b->data, .len = n, .itemsize = size, .ndim = b->rank, .readonly = 1, .internal = shown,
                      .format = flags & PyBUF_FORMAT ? (char *)(uintptr_t)format_of(b->dtype, is_mlx) : NULL,
                      .shape = flags & PyBUF_ND ? shown->dims : NULL,
                      .strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES ? shown->strides : NULL };
  return 0;
}

/* Itself, or the same number in memory: a number that is part of the program has none. Owned by the caller. */
static weft_array *with_memory(weft_array *a) {
  double room[2];
  const char *op = weft_op(a);
  if (!op || strcmp(op, "scalar")) return weft_own(a);
  weft_dtype d = weft_dtype_of(a);
  if (evaluate_into(a, room, weft_dtype_bytes(d))) return NULL;
  weft_scope *s = weft_scope_open();
  weft_array *value = weft_own(weft_from(d, 0, NULL, room));
  weft_scope_discard(s);
  return value;
}

/* One element that stands for many, as in zeros, and not in memory that somebody else has given so. */
static int is_one_for_all(weft_array *a, const weft_block *b) {
  int64_t n = 1;
  if (!strcmp(weft_op(a), "value")) return 0;
  for (int i = 0; i < b->rank; n *= b->dims[i++])
    if (b->dims[i] > 1 && b->strides[i]) return 0;
  return n > 1;
}

/* The same elements one after the other. Owned by the caller. */
static weft_array *spread(weft_array *a, const weft_block *of) {
  int64_t strides[WEFT_RANK_MAX], n = 1;
  weft_block b = *of;
  b.strides = strides;
  for (int i = b.rank; i-- > 0; n *= b.dims[i]) strides[i] = n;
  size_t bytes = (size_t)n * weft_dtype_bytes(b.dtype);
  if (!(b.data = PyMem_RawMalloc(bytes))) return (weft_array *)PyErr_NoMemory();
  if (evaluate_into(a, b.data, bytes)) return PyMem_RawFree(b.data), NULL;
  weft_scope *s = weft_scope_open();
  weft_array *dense = weft_own(weft_external(&b, PyMem_RawFree, b.data));
  weft_scope_discard(s);
  return dense;
}

/* A copy on the host of what is shown elsewhere. Owned by the caller. */
static weft_array *brought(weft_array *a) {
  int64_t dims[WEFT_RANK_MAX];
  weft_block b = { .dims = dims };
  b.rank = weft_describe(a, &b.dtype, dims);
  return spread(a, &b);
}

weft_array *value_pin(weft_array *a, int device, weft_block *b) {
  weft_array *shown = with_memory(a);
  if (!shown) return NULL;
  weft_status s = evaluate(1, &shown) ? WEFT_ERR_CANCELLED : weft_pin(shown, device, b);
  int is_elsewhere = s == WEFT_ERR_UNSUPPORTED && !device; /* as a GPU's memory that others have, or were given */
  int is_one = !s && !b->device && is_one_for_all(a, b);   /* others expect memory for each element, and may write into it */
  if (is_elsewhere || is_one) {
    weft_array *dense = is_one ? spread(shown, b) : brought(shown);
    if (is_one) value_unpin(shown);
    else weft_disown(shown);
    if (!(shown = dense)) return NULL;
    s = weft_pin(shown, device, b);
  }
  if (!s) return shown;
  raise_status(s);
  weft_disown(shown);
  return NULL;
}

void value_unpin(weft_array *a) {
  weft_unpin(a);
  weft_disown(a);
}

/* The axes in the order in which they stand in memory, the farthest apart first. */
static void axes_in_memory(const weft_block *b, int axes[]) {
  for (int i = 0; i < b->rank; i++) {
    int k = i;
    for (; k > 0 && llabs(b->strides[axes[k - 1]]) < llabs(b->strides[i]); k--) axes[k] = axes[k - 1];
    axes[k] = i;
  }
}

/* Whether the elements stand side by side, the axes in this order. */
static int is_dense_by(const weft_block *b, const int axes[]) {
  int64_t stride = 1;
  for (int i = b->rank; i-- > 0; stride *= b->dims[axes[i]])
    if (b->dims[axes[i]] > 1 && b->strides[axes[i]] != stride) return 0;
  return 1;
}

/* What is in a block without gaps, in memory of its own, with the axes in the same order. Bad if there is no memory. */
static weft_array *copied(const weft_block *b, const int axes[]) {
  int back[WEFT_RANK_MAX];
  int64_t dims[WEFT_RANK_MAX];
  for (int i = 0; i < b->rank; i++) back[axes[i]] = i, dims[i] = b->dims[axes[i]];
  weft_array *rows = weft_from(b->dtype, b->rank, dims, b->data);
  return b->rank ? weft_transpose(rows, back) : rows;
}

/* Gives an array memory that nobody else can come to, so that it may be written to: the array has what was written. Elements that
 * stand in one place, or with gaps between them, stay there, and are shown read-only. */
static int have_own(PyObject *self) {
  weft_block b;
  int axes[WEFT_RANK_MAX], failed = 0;
  weft_array *shown = value_pin(array_handle(self), 0, &b);
  if (!shown) return -1;
  axes_in_memory(&b, axes);
  int is_dense = is_dense_by(&b, axes);
  weft_scope *s = weft_scope_open();
  if (is_dense) failed = array_assign(self, copied(&b, axes)) || evaluate(1, &array_handle(self));
  weft_scope_discard(s);
  value_unpin(shown);
  if (!failed) ((struct array *)self)->is_given = is_dense;
  return failed ? -1 : 0;
}

/* MLX's arrays are shown to be written to. Those inside a transform, whose history is wanted, those of a GPU, those that share
 * memory of others, and broadcast ones are not. While views are out it stays as it is: arrays that are made of its memory meanwhile
 * have what is written, as there. */
static int let_write(PyObject *self) {
  struct array *a = (struct array *)self;
  int device = 0;
  if (!mlx_check(self) || a->n_shown || a->is_foreign) return 0;
  a->is_given = 0;
  if (scope_is_open()) return 0;
  if (evaluate(1, &a->handle)) return -1;
  if (weft_state_of(a->handle, &device) != WEFT_READY || device) return 0;
  return weft_is_only(a->handle) ? a->is_given = 1, 0 : have_own(self);
}

/* NumPy takes no interest in why there is no buffer, and asks for __array__ next: an interrupt would be lost. */
static const PyObject *interrupted; /* the array that was being computed; never followed */

static int show(PyObject *self, Py_buffer *out, int flags) {
  interrupted = NULL;
  weft_block b;
  out->obj = NULL;
  if (let_write(self)) {
    if (PyErr_ExceptionMatches(PyExc_KeyboardInterrupt)) interrupted = self;
    return -1;
  }
  weft_array *a = array_handle(self);
  int is_given = ((struct array *)self)->is_given;
  if (flags & PyBUF_WRITABLE && !is_given) return refuse("arrays are values: their memory is read-only");
  if (!format_of(weft_dtype_of(a), mlx_check(self)))
    return PyErr_Format(PyExc_BufferError, "the buffer protocol has no %s: use astype(weft.float32)",
                        dtype_text(weft_dtype_of(a))), -1;
  struct shown *shown = PyMem_Malloc(sizeof *shown);
  if (!shown) return PyErr_NoMemory(), -1;
  if (!(shown->array = value_pin(a, 0, &b))) {
    if (PyErr_ExceptionMatches(PyExc_KeyboardInterrupt)) interrupted = self;
    return PyMem_Free(shown), -1;
  }
  if (fill(out, shown, &b, flags, mlx_check(self))) {
    value_unpin(shown->array);
    PyMem_Free(shown);
    return -1;
  }
  out->readonly = !is_given;
  out->obj = Py_NewRef(self);
  if (is_given) ((struct array *)self)->n_shown++;
  return 0;
}

static void unshow(PyObject *self, Py_buffer *out) {
  struct shown *shown = out->internal;
  struct array *a = (struct array *)self;
  if (a->n_shown && a->handle == shown->array) a->n_shown--; /* else it names another array by now */
  value_unpin(shown->array);
  PyMem_Free(shown);
}
PyBufferProcs value_buffer = { show, unshow };

/* numpy.asarray(memory, dtype, copy); what NumPy has not, bfloat16 and floats of 8 bits, as float32. */
static PyObject *to_numpy(PyObject *self, PyObject *args, PyObject *kwargs) {
  static char *names[] = { "dtype", "copy", NULL };
  PyObject *dtype = Py_None, *copy = Py_None, *memory, *numpy, *array = NULL;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|OO", names, &dtype, &copy)) return NULL;
  if (interrupted == self) return interrupted = NULL, PyErr_SetNone(PyExc_KeyboardInterrupt), NULL;
  PyObject *source = Py_NewRef(self);
  if (weft_rank(array_handle(self)) >= 0 && !dtype_format(weft_dtype_of(array_handle(self)))) {
    Py_DECREF(source);
    weft_scope *s = op_begin();
    source = op_end_as(&array_type, s, weft_cast(array_handle(self), WEFT_F32));
  }
  numpy = source ? PyImport_ImportModule("numpy") : NULL;
  memory = numpy ? PyMemoryView_FromObject(source) : NULL;
  if (memory && copy == Py_True) array = PyObject_CallMethod(numpy, "array", "OO", memory, dtype);
  else if (memory) array = PyObject_CallMethod(numpy, "asarray", "OO", memory, dtype);
  Py_XDECREF(memory);
  Py_XDECREF(numpy);
  Py_XDECREF(source);
  return array;
}

/* As weft._text.rebuild(list, shape, dtype). */
static PyObject *reduce(PyObject *self, PyObject *unused) {
  (void)unused;
  return in_python("weft._text", "reduce", PyTuple_Pack(1, self));
}

/* What NumPy's functions do with an array is written in Python. */
static PyObject *array_function(PyObject *self, PyObject *args) {
  (void)self;
  return in_python("weft._numpy", "array_function", Py_NewRef(args));
}
static PyObject *array_ufunc(PyObject *self, PyObject *args, PyObject *kwargs) {
  (void)self;
  return in_python("weft._numpy", "array_ufunc", Py_BuildValue("(OO)", args, kwargs ? kwargs : Py_None));
}

/* __array_namespace__(*, api_version=None) and to_device(device, /, *, stream=None), as the array API standard has them. */
static PyObject *namespace(PyObject *self, PyObject *args, PyObject *kwargs) {
  PyObject *module = PyImport_ImportModule("weft._standard"), *f = module ? PyObject_GetAttrString(module, "namespace") : NULL;
  PyObject *all = f && !PyTuple_GET_SIZE(args) ? PyTuple_Pack(1, self) : NULL, *result = all ? PyObject_Call(f, all, kwargs) : NULL;
  if (f && PyTuple_GET_SIZE(args)) PyErr_SetString(PyExc_TypeError, "__array_namespace__: api_version is named");
  Py_XDECREF(all);
  Py_XDECREF(f);
  Py_XDECREF(module);
  return result;
}
static PyObject *to_device(PyObject *self, PyObject *args, PyObject *kwargs) {
  static char *names[] = { "", "stream", NULL };
  int device;
  PyObject *stream = Py_None;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "i|$O:to_device", names, &device, &stream)) return NULL;
  if (stream != Py_None) return PyErr_Format(PyExc_ValueError, "to_device: there are no streams");
  weft_scope *s = op_begin();
  return op_end_as(flavour_of_array(self), s, weft_to(array_handle(self), device));
}

PyMethodDef value_methods[] = {
  { "__array_namespace__", WITH_KEYWORDS(namespace), "The module weft." },
  { "to_device", WITH_KEYWORDS(to_device), "to_device(device, /, *, stream=None): on that device, and what is computed from it" },
  { "item", item, METH_NOARGS, "item(): the one element as a number" },
  { "tolist", tolist, METH_NOARGS, "tolist(): the elements as nested lists" },
  { "__array__", WITH_KEYWORDS(to_numpy), "A NumPy array that shows the memory." },
  { "__array_function__", array_function, METH_VARARGS, "numpy.f(a): weft's function of this name, or NumPy's of the values." },
  { "__array_ufunc__", WITH_KEYWORDS(array_ufunc), "numpy.f(a): weft's function of this name, or NumPy's of the values." },
  { "__reduce__", reduce, METH_NOARGS, "How to pickle it: by value." },
  { 0 },
};
