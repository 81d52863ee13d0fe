/* convert.c -- numbers, nested lists, and whatever shows its memory (buffer protocol, __array_interface__), as arrays
 * of the open scope. Lists and numbers have no dtype of their own: bool, int32 (int64 or uint64 if need be), float32, complex64.
 * What comes with a dtype keeps it. Memory is copied unless the caller says that it may be shared. */
#include "names.h"
#include <string.h>

/* ---- Numbers ---- */

enum kind { KIND_BOOL, KIND_INTEGER, KIND_LARGE, KIND_HUGE, KIND_FLOAT, KIND_COMPLEX, N_KINDS };
static const weft_dtype kind_dtype[N_KINDS] = { WEFT_BOOL, WEFT_I32, WEFT_I64, WEFT_U64, WEFT_F32, WEFT_C64 };

/* The kind of a Python number; -1: it is none. No exception is set. */
static int kind_of(PyObject *o) {
  if (PyBool_Check(o)) return KIND_BOOL;
  if (PyLong_Check(o)) {
    int overflow;
    long long i = PyLong_AsLongLongAndOverflow(o, &overflow);
    return overflow > 0 ? KIND_HUGE : !overflow && i >= INT32_MIN && i <= INT32_MAX ? KIND_INTEGER : KIND_LARGE;
  }
  return PyFloat_Check(o) ? KIND_FLOAT : PyComplex_Check(o) ? KIND_COMPLEX : -1;
}

/* Writes one number of any kind up to `kind` to place i of a block of elements of that kind. */
static int write_number(void *block, size_t i, int kind, PyObject *o) {
  if (kind == KIND_BOOL) return ((uint8_t *)block)[i] = o == Py_True, 0;
  if (kind == KIND_FLOAT) return ((float *)block)[i] = (float)PyFloat_AsDouble(o), PyErr_Occurred() ? -1 : 0;
  if (kind == KIND_COMPLEX) {
    Py_complex c = PyComplex_AsCComplex(o);
    ((float *)block)[2 * i] = (float)c.real, ((float *)block)[2 * i + 1] = (float)c.imag;
    return PyErr_Occurred() ? -1 : 0;
  }
  if (kind == KIND_HUGE) return ((uint64_t *)block)[i] = PyLong_AsUnsignedLongLong(o), PyErr_Occurred() ? -1 : 0;
  long long v = PyLong_AsLongLong(o);
  if (kind == KIND_INTEGER) ((int32_t *)block)[i] = (int32_t)v;
  else ((int64_t *)block)[i] = v;
  return PyErr_Occurred() ? -1 : 0;
}

/* Integers that only a float can hold are floats on the way to one. */
static int kind_for(int kind, weft_dtype wanted) {
  if (kind != KIND_HUGE || wanted < WEFT_F16) return kind;
  return wanted == WEFT_C64 || wanted == WEFT_C128 ? KIND_COMPLEX : KIND_FLOAT;
}

/* Whether numbers of a kind are doubles on the way to a dtype: float32 would lose what it is meant to keep. */
static int in_doubles(weft_dtype wanted, int kind) {
  return wanted == WEFT_C128 || (wanted == WEFT_F64 && kind != KIND_COMPLEX);
}

static int write_double(double *block, size_t i, weft_dtype wanted, PyObject *o) {
  if (wanted != WEFT_C128) return block[i] = PyFloat_AsDouble(o), PyErr_Occurred() ? -1 : 0;
  Py_complex c = PyComplex_AsCComplex(o);
  block[2 * i] = c.real, block[2 * i + 1] = c.imag;
  return PyErr_Occurred() ? -1 : 0;
}

/* Integers above int64 are legal in uint64. */
static weft_array *number_as(PyObject *o, weft_dtype wanted) {
  if (in_doubles(wanted, kind_of(o))) {
    double v[2];
    return write_double(v, 0, wanted, o) ? NULL : weft_from(wanted, 0, NULL, v);
  }
  if (wanted == WEFT_U64 && PyLong_Check(o)) {
    int beyond;
    long long whole = PyLong_AsLongLongAndOverflow(o, &beyond);
    int wraps = flavour() == &mlx_array_type && !beyond; /* -1 is 2^64 - 1 there */
    uint64_t v = wraps ? (uint64_t)whole : PyLong_AsUnsignedLongLong(o);
    return v == (uint64_t)-1 && PyErr_Occurred() ? NULL : weft_from(WEFT_U64, 0, NULL, &v);
  }
  double v[2];
  int kind = kind_for(kind_of(o), wanted);
  if (write_number(v, 0, kind, o)) return NULL;
  weft_array *a = weft_from(kind_dtype[kind], 0, NULL, v);
  return wanted == kind_dtype[kind] ? a : convert_cast(a, wanted);
}

static weft_array *weak_number(PyObject *o, int kind) {
  if (kind == KIND_FLOAT) return weft_scalar(PyFloat_AS_DOUBLE(o));
  if (kind == KIND_COMPLEX) {
    Py_complex c = PyComplex_AsCComplex(o);
    return weft_complex(weft_scalar(c.real), weft_scalar(c.imag));
  }
  if (kind == KIND_BOOL) return number_as(o, kind_dtype[kind]);
  int overflow;
  long long v = PyLong_AsLongLongAndOverflow(o, &overflow);
  return overflow ? number_as(o, WEFT_U64) : weft_integer(v);
}

/* ---- Nested lists ---- */

static int is_list(PyObject *o) { return PyList_Check(o) || PyTuple_Check(o); }
static int is_range(PyObject *o) { return Py_TYPE(o) == &PyRange_Type; }

/* A list of numbers, and whether something in it is an array. */
struct nest { int rank, kind, has_arrays; int64_t dims[WEFT_RANK_MAX]; };

/* Lists that are no table, in the words of the flavour that is set. */
static void raise_uneven(const char *format, ...) {
  va_list rest;
  va_start(rest, format);
  if (flavour() == &mlx_array_type) PyErr_SetString(PyExc_ValueError, "Initialization encountered non-uniform length.");
  else PyErr_FormatV(PyExc_ValueError, format, rest);
  va_end(rest);
}

static int nest_scan(struct nest *n, PyObject *o, int depth) {
  if (!is_list(o)) {
    int kind = kind_of(o);
    if (kind < 0) n->has_arrays = 1;
    else if (kind > n->kind) n->kind = kind;
    if (!n->has_arrays && depth != n->rank) {
      raise_uneven("array: nested lists differ in depth");
      return -1;
    }
    return 0;
  }
  Py_ssize_t size = PySequence_Fast_GET_SIZE(o);
  if (depth >= n->rank || n->dims[depth] != size) {
    raise_uneven("array: nested lists differ in length");
    return -1;
  }
  for (Py_ssize_t i = 0; i < size && !n->has_arrays; i++)
    if (nest_scan(n, PySequence_Fast_GET_ITEM(o, i), depth + 1)) return -1;
  return 0;
}

/* Rank and sizes as the first elements say. */
static int nest_measure(struct nest *n, PyObject *o) {
  while (is_list(o)) {
    if (n->rank == WEFT_RANK_MAX) return PyErr_SetString(PyExc_ValueError, "array: lists are nested too deep"), -1;
    n->dims[n->rank] = PySequence_Fast_GET_SIZE(o);
    if (!n->dims[n->rank++]) break;
    o = PySequence_Fast_GET_ITEM(o, 0);
  }
  return 0;
}

/* wanted: what doubles are written for; NULL: numbers of the kind. */
static int nest_write(void *block, size_t *at, const weft_dtype *wanted, int kind, PyObject *o) {
  if (is_list(o)) {
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(o); i++)
      if (nest_write(block, at, wanted, kind, PySequence_Fast_GET_ITEM(o, i))) return -1;
    return 0;
  }
  return wanted ? write_double(block, (*at)++, *wanted, o) : write_number(block, (*at)++, kind, o);
}

static weft_array *nest_numbers(const struct nest *n, PyObject *o, const weft_dtype *wanted) {
  int kind = n->kind < 0 ? KIND_FLOAT : wanted ? kind_for(n->kind, *wanted) : n->kind;
  int as_double = wanted && in_doubles(*wanted, kind);
  weft_dtype dtype = as_double ? *wanted : kind_dtype[kind];
  size_t count = 1, at = 0;
  for (int i = 0; i < n->rank; i++) count *= (size_t)n->dims[i];
  void *block = PyMem_Calloc(count ? count : 1, weft_dtype_bytes(dtype));
  if (!block) return (weft_array *)PyErr_NoMemory();
  weft_array *a = nest_write(block, &at, as_double ? wanted : NULL, kind, o) ? NULL : weft_from(dtype, n->rank, n->dims, block);
  PyMem_Free(block);
  return a && wanted && *wanted != dtype ? convert_cast(a, *wanted) : a;
}

/* Whether elements of a list, arrays among them, are of other ranks or sizes; those that are not known yet fit. */
static int are_uneven(weft_array *a, weft_array *b, Py_ssize_t place) {
  if (weft_check(a) || weft_check(b)) return 0; /* what is wrong with one of them is said */
  int uneven = weft_rank(a) != weft_rank(b);
  for (int i = 0; !uneven && i < weft_rank(a); i++)
    uneven = weft_dim(a, i) >= 0 && weft_dim(b, i) >= 0 && weft_dim(a, i) != weft_dim(b, i);
  if (uneven) raise_uneven("array: nested lists differ in shape: elements 0 and %zd are not alike", place);
  return uneven;
}

/* A list with arrays in it: the elements, one above the other. */
static weft_array *nest_arrays(PyObject *list, const weft_dtype *wanted) {
  PyObject *o = PySequence_Tuple(list); /* converting may run Python, which may change the list */
  if (!o) return NULL;
  Py_ssize_t n = PyTuple_GET_SIZE(o);
  weft_array **part = PyMem_Malloc((size_t)n * sizeof *part), *a = NULL;
  if (!part) PyErr_NoMemory();
  for (Py_ssize_t i = 0; part && i < n; i++) {
    a = convert_array(PyTuple_GET_ITEM(o, i), wanted, 0);
    if (!a) break;
    part[i] = weft_unsqueeze(a, 0);
    if (are_uneven(part[0], part[i], i)) { a = NULL; break; }
  }
  if (a) a = weft_concat(0, (int)n, part);
  PyMem_Free(part);
  Py_DECREF(o);
  return a;
}

static weft_array *from_list(PyObject *o, const weft_dtype *wanted) {
  struct nest n = { .kind = -1 };
  if (Py_EnterRecursiveCall(" in weft.array")) return NULL;
  weft_array *a = NULL;
  if (!nest_measure(&n, o) && !nest_scan(&n, o, 0))
    a = n.has_arrays ? nest_arrays(o, wanted) : nest_numbers(&n, o, wanted);
  Py_LeaveRecursiveCall();
  return a;
}

/* ---- Memory of others ---- */

/* What weft calls when it needs the memory no more: on a thread inside a call of weft, with or without the GIL. */
static void release_buffer(void *ctx) {
  if (!Py_IsInitialized()) return;
  PyGILState_STATE gil = PyGILState_Ensure();
  PyBuffer_Release(ctx);
  PyMem_Free(ctx);
  PyGILState_Release(gil);
}

static int is_aligned(const Py_buffer *b) {
  if ((uintptr_t)b->buf % (size_t)b->itemsize) return 0;
  for (int i = 0; i < b->ndim; i++)
    if (b->strides[i] % b->itemsize) return 0;
  return 1;
}

/* Takes over the buffer, which was allocated with PyMem_Malloc. */
static weft_array *share(Py_buffer *b, weft_dtype dtype) {
  int64_t dims[WEFT_RANK_MAX], strides[WEFT_RANK_MAX];
  for (int i = 0; i < b->ndim; i++) dims[i] = b->shape[i], strides[i] = b->strides[i] / b->itemsize;
  weft_block block = { b->buf, 0, dtype, b->ndim, dims, strides };
  return weft_external(&block, release_buffer, b);
}

static weft_array *copy(Py_buffer *b, weft_dtype dtype) {
  int64_t dims[WEFT_RANK_MAX];
  for (int i = 0; i < b->ndim; i++) dims[i] = b->shape[i];
  if (PyBuffer_IsContiguous(b, 'C')) return weft_from(dtype, b->ndim, dims, b->buf);
  void *rows = PyMem_Malloc(b->len ? (size_t)b->len : 1);
  if (!rows) return (weft_array *)PyErr_NoMemory();
  weft_array *a = PyBuffer_ToContiguous(rows, b, b->len, 'C') ? NULL : weft_from(dtype, b->ndim, dims, rows);
  PyMem_Free(rows);
  return a;
}

/* From an object with the buffer protocol; `as`, if not NULL, is what its elements really are. */
static weft_array *from_buffer(PyObject *o, const weft_dtype *as, int may_share) {
  weft_dtype dtype;
  weft_array *a = NULL;
  Py_buffer *b = PyMem_Calloc(1, sizeof *b);
  if (!b) return (weft_array *)PyErr_NoMemory();
  if (PyObject_GetBuffer(o, b, PyBUF_FULL_RO)) return PyMem_Free(b), NULL;
  if (as) dtype = *as;
  else if (!dtype_of_format(b->format, b->itemsize, &dtype)) {
    PyErr_Format(PyExc_TypeError, "array: weft has no elements of the format '%s'", b->format);
    goto end;
  }
  for (int i = 0; i < b->ndim; i++)
    if (mlx_size_refuses(b->shape[i])) goto end;
  if (b->ndim > WEFT_RANK_MAX) PyErr_Format(PyExc_ValueError, "array: %d axes are too many", b->ndim);
  else if (may_share && !b->suboffsets && is_aligned(b)) return share(b, dtype);
  else a = copy(b, dtype);
end:
  PyBuffer_Release(b);
  PyMem_Free(b);
  return a;
}

/* PyErr_Occurred() stays as it is. */
static int has_dlpack(PyObject *o) {
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  int has = PyObject_HasAttrString(o, "__dlpack__");
  PyErr_Restore(type, value, trace);
  return has;
}

/* An object without the buffer protocol, or without a format for it: bfloat16 and floats of 8 bits are read as the integers they
 * are stored in; torch's, which NumPy has not, through DLPack. */
static weft_array *from_interface(PyObject *o, int may_share) {
  weft_dtype dtype = WEFT_BF16;
  PyObject *type = PyObject_GetAttrString(o, "dtype"), *bits = NULL;
  int is_unknown = type && !dtype_parse(type, &dtype) && !dtype_format(dtype); /* to NumPy */
  Py_XDECREF(type);
  PyErr_Clear();
  if (is_unknown) bits = PyObject_CallMethod(o, "view", "s", weft_dtype_bytes(dtype) == 1 ? "uint8" : "uint16");
  else bits = PyObject_CallMethod(o, "__array__", NULL);
  weft_array *a = NULL;
  if (!bits && PyErr_ExceptionMatches(PyExc_TypeError) && has_dlpack(o)) return PyErr_Clear(), dlpack_array(o, may_share);
  if (bits && bits != o) a = from_buffer(bits, is_unknown ? &dtype : NULL, may_share);
  Py_XDECREF(bits);
  return a;
}

/* An object that only has __array_interface__: NumPy, which defines it, reads it. */
static weft_array *from_numpy(PyObject *o, int may_share) {
  PyObject *numpy = PyImport_ImportModule("numpy");
  PyObject *view = numpy ? PyObject_CallMethod(numpy, "asarray", "O", o) : NULL;
  weft_array *a = view ? from_buffer(view, NULL, may_share) : NULL;
  Py_XDECREF(view);
  Py_XDECREF(numpy);
  return a;
}

/* Whether it has the attribute, or raises something else than that it has not: whoever asks for it next meets that. */
static int has(PyObject *o, const char *name) {
  PyObject *found = PyObject_GetAttrString(o, name);
  int is_there = found || !PyErr_ExceptionMatches(PyExc_AttributeError);
  Py_XDECREF(found);
  PyErr_Clear();
  return is_there;
}

static weft_array *from_memory(PyObject *o, int may_share) {
  if (PyObject_CheckBuffer(o)) {
    weft_array *a = from_buffer(o, NULL, may_share);
    if (a || PyErr_ExceptionMatches(PyExc_MemoryError)) return a;
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace); /* before attributes are asked for: NumPy's scalars forget an exception that is set */
    a = PyObject_HasAttrString(o, "dtype") ? from_interface(o, may_share) : NULL;
    if (a) Py_XDECREF(type), Py_XDECREF(value), Py_XDECREF(trace);
    else PyErr_Restore(type, value, trace);
    return a;
  }
  return has(o, "__array__") ? from_interface(o, may_share) : from_numpy(o, may_share);
}

/* MLX takes bytes for numbers of 8 bits. */
static int has_memory(PyObject *o) {
  if (PyBytes_Check(o) || PyByteArray_Check(o)) return flavour() == &mlx_array_type;
  if (PyType_Check(o)) return 0;
  return PyObject_CheckBuffer(o) || has(o, "__array_interface__") || has(o, "__array__");
}

/* ---- All together ---- */

int convert_is_possible(PyObject *o) { return array_check(o) || kind_of(o) >= 0 || is_list(o) || is_range(o) || has_memory(o); }

/* numpy.float64 and complex128 are Python's numbers too, and have a dtype. */
static int is_numpy_number(PyObject *o) { return !PyFloat_CheckExact(o) && !PyComplex_CheckExact(o) && PyObject_CheckBuffer(o); }

/* MLX has float32 and complex64 of NumPy's doubles unless it is told otherwise. */
static weft_array *in_flavour(weft_array *a, const weft_dtype *wanted) {
  if (!a || wanted || flavour() == &array_type) return a;
  weft_dtype d = weft_dtype_of(a);
  return d == WEFT_F64 ? weft_cast(a, WEFT_F32) : d == WEFT_C128 ? weft_cast(a, WEFT_C64) : a;
}

weft_array *convert_array(PyObject *o, const weft_dtype *wanted, int may_share) {
  int kind = is_numpy_number(o) ? -1 : kind_of(o);
  weft_array *a;
  if (kind >= 0) return number_as(o, wanted ? *wanted : kind_dtype[kind]);
  if (is_list(o)) return from_list(o, wanted);
  if (is_range(o)) {
    PyObject *list = PySequence_List(o);
    a = list ? from_list(list, wanted) : NULL;
    Py_XDECREF(list);
    return a;
  }
  if (array_check(o)) a = array_handle(o);
  else if (has_memory(o)) a = in_flavour(from_memory(o, may_share), wanted);
  else if (mlx_is_made_of(o)) return mlx_from(o, wanted);
  else return PyErr_Format(PyExc_TypeError, "an array cannot be made of %.200s", Py_TYPE(o)->tp_name), NULL;
  return a && wanted && weft_dtype_of(a) != *wanted ? convert_cast(a, *wanted) : a;
}

weft_array *convert_cast(weft_array *a, weft_dtype d) { return flavour() == &mlx_array_type ? mlx_cast(a, d) : weft_cast(a, d); }

weft_array *convert_operand(PyObject *o) {
  if (array_check(o)) return array_handle(o);
  int kind = kind_of(o);
  return kind >= 0 ? weak_number(o, kind) : convert_array(o, NULL, 0);
}

/* What is no array comes first: converting it may run Python, which may give an array object another array. */
int convert_all(int n, PyObject *const o[], weft_array *a[]) {
  if (flavour() == &mlx_array_type) return mlx_operands(n, o, a);
  for (int i = 0; i < n; i++)
    if (!array_check(o[i]) && !(a[i] = convert_operand(o[i]))) return 0;
  for (int i = 0; i < n; i++)
    if (array_check(o[i])) a[i] = array_handle(o[i]);
  return 1;
}

int convert_arrays(int n, PyObject *const o[], weft_array *a[]) {
  if (flavour() != &mlx_array_type) return convert_all(n, o, a);
  for (int i = 0; i < n; i++)
    if (!array_check(o[i]) && !(a[i] = convert_array(o[i], NULL, 0))) return 0;
  for (int i = 0; i < n; i++)
    if (array_check(o[i])) a[i] = array_handle(o[i]);
  return 1;
}

int convert_integer(PyObject *o, int64_t *dim) {
  PyObject *i = PyNumber_Index(o);
  if (!i) return -1;
  *dim = PyLong_AsLongLong(i);
  Py_DECREF(i);
  return *dim == -1 && PyErr_Occurred() ? -1 : 0;
}

/* Arrays have __index__, but are one number only if they are 0-d. */
int convert_is_index(PyObject *o) {
  if (!PyIndex_Check(o)) return 0;
  if (array_check(o)) return weft_rank(array_handle(o)) == 0;
  if (!PyObject_CheckBuffer(o) || !PySequence_Check(o)) return 1;
  Py_ssize_t n = PySequence_Size(o); /* of a 0-d array: none */
  if (n < 0) PyErr_Clear();
  return n < 0;
}

int convert_shape(PyObject *o, int *rank, int64_t dims[]) {
  if (convert_is_index(o)) return *rank = 1, convert_integer(o, dims) || mlx_size_refuses(*dims) ? -1 : 0;
  PyObject *list = PySequence_Fast(o, "a shape is a number or a sequence of numbers");
  if (!list) return -1;
  Py_ssize_t n = PySequence_Fast_GET_SIZE(list);
  int wrong = n > WEFT_RANK_MAX;
  if (wrong) PyErr_Format(PyExc_ValueError, "%zd axes are too many", n);
  for (Py_ssize_t i = 0; !wrong && i < n; i++)
    wrong = convert_integer(PySequence_Fast_GET_ITEM(list, i), &dims[i]) || mlx_size_refuses(dims[i]);
  *rank = (int)n;
  Py_DECREF(list);
  return wrong ? -1 : 0;
}

/* ---- Shapes whose sizes are computed ---- */

static weft_array *size_in(weft_array *x) {
  weft_array *n = weft_cast(weft_integer(1), WEFT_I64);
  for (int k = 0; k < weft_rank(x); k++) n = weft_mul(n, weft_size(x, k));
  return n;
}

/* The sizes as arrays; *any is where one is -1, or -1. */
static int sizes_of(PyObject *list, Py_ssize_t n, weft_array *size[], int *any) {
  *any = -1;
  for (Py_ssize_t i = 0; i < n; i++) {
    PyObject *item = PySequence_Fast_GET_ITEM(list, i);
    int64_t number;
    if (array_check(item)) {
      size[i] = array_handle(item);
      continue;
    }
    if (convert_integer(item, &number)) return -1;
    if (number == -1 && *any < 0) *any = (int)i;
    size[i] = weft_cast(weft_integer(number == -1 ? 1 : number), WEFT_I64);
  }
  return 0;
}

static int names_arrays(PyObject *list, Py_ssize_t n) {
  for (Py_ssize_t i = 0; i < n; i++)
    if (array_check(PySequence_Fast_GET_ITEM(list, i))) return 1;
  return 0;
}

int convert_sized(PyObject *o, weft_dtype d, weft_array *of, weft_array **zeros) {
  if (array_check(o) ? weft_rank(array_handle(o)) != 0 : !PyTuple_Check(o) && !PyList_Check(o)) return 0;
  PyObject *list = array_check(o) ? PyTuple_Pack(1, o) : PySequence_Fast(o, "a shape is a sequence");
  Py_ssize_t n = list ? PySequence_Fast_GET_SIZE(list) : -1;
  weft_array *size[WEFT_RANK_MAX];
  int any, found = n < 0 ? -1 : n <= WEFT_RANK_MAX && names_arrays(list, n);
  if (found > 0 && sizes_of(list, n, size, &any)) found = -1;
  if (found > 0 && any >= 0 && !of) found = (PyErr_SetString(PyExc_ValueError, "the size -1 is negative"), -1);
  if (found > 0) {
    weft_array *others = weft_cast(weft_integer(1), WEFT_I64);
    for (Py_ssize_t i = 0; any >= 0 && i < n; i++) others = weft_mul(others, weft_cast(size[i], WEFT_I64));
    if (any >= 0) size[any] = weft_floor_divide(size_in(of), others);
    *zeros = weft_sized(d, (int)n, size);
  }
  Py_XDECREF(list);
  return found;
}

/* WEFT_ANY for a size that only a call will tell. */
static int open_dims(weft_array *a, int *rank, int64_t dims[]) {
  *rank = weft_rank(a);
  if (*rank < 0) return raise_status(weft_check(a)), -1;
  for (int i = 0; i < *rank; i++) {
    dims[i] = weft_dim(a, i);
    if (dims[i] >= 0) continue;
    weft_status s = weft_eval(1, &a); /* what is in the way, unless it is a name */
    if (s && s != WEFT_ERR_NO_VALUE) return raise_status(s), -1;
    dims[i] = s ? WEFT_ANY : weft_dim(a, i); /* what was in the way once, as a device that failed, may be so no more */
  }
  return 0;
}

int convert_dims(PyObject *array, int *rank, int64_t dims[]) { return convert_dims_of(array_handle(array), rank, dims); }

int convert_dims_of(weft_array *a, int *rank, int64_t dims[]) {
  if (open_dims(a, rank, dims)) return -1;
  for (int i = 0; i < *rank; i++)
    if (dims[i] < 0) return raise_no_size(a, i), -1;
  return 0;
}

int convert_open_dims(PyObject *array, int *rank, int64_t dims[]) { return open_dims(array_handle(array), rank, dims); }

/* Numbers and the like first: making arrays of them may run Python, which may give an object another array. */
static PyObject *all_arrays(PyObject *sequence) {
  PyObject *list = PySequence_List(sequence);
  for (Py_ssize_t i = 0; list && i < PyList_GET_SIZE(list); i++) {
    PyObject *array = array_from(PyList_GET_ITEM(list, i));
    if (!array || PyList_SetItem(list, i, array)) Py_CLEAR(list);
  }
  return list;
}

int list_take(struct list *l, PyObject *sequence) {
  PyObject *list = all_arrays(sequence);
  *l = (struct list){ .flavour = &array_type };
  if (!list) return -1;
  l->flavour = flavour_of(PyList_GET_SIZE(list), PySequence_Fast_ITEMS(list));
  Py_ssize_t n = PyList_GET_SIZE(list);
  l->array = PyMem_Malloc((size_t)(n ? n : 1) * sizeof *l->array);
  if (!l->array) PyErr_NoMemory();
  for (; l->array && l->n < n; l->n++) l->array[l->n] = weft_own(array_handle(PyList_GET_ITEM(list, l->n)));
  Py_DECREF(list);
  return l->array ? 0 : -1;
}

void list_drop(struct list *l) {
  for (int i = 0; i < l->n; i++) weft_disown(l->array[i]);
  PyMem_Free(l->array);
}

/* ---- asarray ---- */

/* (a, dtype, copy) */
PyObject *make_asarray(const struct name *row, PyObject *const arg[]) {
  PyObject *o = arg[0];
  weft_dtype wanted;
  int copies = arg[2] == Py_None ? 0 : PyObject_IsTrue(arg[2]), has_dtype = arg[1] != Py_None;
  (void)row;
  if (copies < 0 || (has_dtype && dtype_parse(arg[1], &wanted))) return NULL;
  if (array_check(o) && !copies && (!has_dtype || weft_dtype_of(array_handle(o)) == wanted)) return Py_NewRef(o);
  weft_scope *s = op_begin();
  return op_end(s, convert_array(o, has_dtype ? &wanted : NULL, !copies));
}
