/* numpy.c -- arrays of NumPy's, seen and made without the buffer protocol, which takes longer than a small function does.
 *
 * NumPy's table of functions and the head of its arrays are part of its binary interface, the same since version 1.7. They are
 * asked for when first needed, and tried once on an array of Python's making: where NumPy is absent, or not as expected, nothing
 * here finds an array, and whoever asks goes by the buffer protocol. */
#include "core.h"
#include <string.h>

enum { SMALL_BYTES = 1024 }; /* copied rather than shared: to share costs a callback, to show a pin */

struct descr { PyObject_HEAD PyTypeObject *of; char kind, type, byteorder, flags; int number; };
struct memory { PyObject_HEAD char *data; int rank; Py_ssize_t *dims, *strides; PyObject *base; struct descr *descr; int flags; };
typedef PyObject *maker(PyTypeObject *, int rank, const Py_ssize_t *dims, int number, const Py_ssize_t *strides, void *data,
                        int itemsize, int flags, PyObject *like);

static PyTypeObject *type; /* numpy.ndarray; NULL: not there */
static maker *make;
static enum { UNKNOWN, ABSENT, THERE } state;

static const int8_t number_of[] = { /* NumPy's, of a dtype */
  [WEFT_BOOL] = 0, [WEFT_I8] = 1, [WEFT_U8] = 2, [WEFT_I16] = 3, [WEFT_U16] = 4, [WEFT_I32] = 5, [WEFT_U32] = 6, [WEFT_I64] = 7,
  [WEFT_U64] = 8, [WEFT_F32] = 11, [WEFT_F64] = 12, [WEFT_C64] = 14, [WEFT_C128] = 15, [WEFT_F16] = 23, [WEFT_BF16] = -1,
  [WEFT_E4M3] = -1, [WEFT_E5M2] = -1 };

/* -1: weft has none. 9 and 10 are long long. */
static int dtype_of(const struct descr *d) {
  if (d->byteorder != '=' && d->byteorder != '|') return -1;
  int number = d->number == 9 ? 7 : d->number == 10 ? 8 : d->number;
  for (int t = 0; t < (int)(sizeof number_of / sizeof *number_of); t++) if (number_of[t] == number) return t;
  return -1;
}

/* Whether an array that NumPy has made for Python is as the struct has it: arange(6.0).reshape(2, 3)[:, ::-1]. */
static int is_as_expected(PyObject *numpy) {
  PyObject *a = PyRun_String("arange(6.0).reshape(2, 3)[:, ::-1]", Py_eval_input, PyModule_GetDict(numpy), PyModule_GetDict(numpy));
  const struct memory *m = (const struct memory *)a;
  int is = a && Py_IS_TYPE(a, type) && sizeof(long) == 8 && m->rank == 2 && m->dims[0] == 2 && m->dims[1] == 3 &&
           m->strides[0] == 24 && m->strides[1] == -8 && dtype_of(m->descr) == WEFT_F64 && *(double *)m->data == 2;
  Py_XDECREF(a);
  return is;
}

static void look(void) {
  PyObject *numpy = PyImport_ImportModule("numpy"), *core = numpy ? PyImport_ImportModule("numpy._core.multiarray") : NULL;
  PyObject *capsule = core ? PyObject_GetAttrString(core, "_ARRAY_API") : NULL;
  void **table = capsule && PyCapsule_CheckExact(capsule) ? PyCapsule_GetPointer(capsule, NULL) : NULL;
  state = ABSENT;
  if (table) {
    type = table[2];
    memcpy(&make, &table[93], sizeof make);
    if (is_as_expected(numpy)) state = THERE;
  }
  Py_XDECREF(capsule);
  Py_XDECREF(core);
  Py_XDECREF(numpy);
  PyErr_Clear();
}

static int is_there(void) {
  if (state == UNKNOWN) look();
  return state == THERE;
}

static void let_go(void *memory) {
  if (!Py_IsInitialized()) return;
  PyGILState_STATE gil = PyGILState_Ensure();
  Py_DECREF((PyObject *)memory);
  PyGILState_Release(gil);
}

weft_array *numpy_share(PyObject *o) {
  if (!is_there() || !Py_IS_TYPE(o, type)) return NULL;
  const struct memory *m = (const struct memory *)o;
  int dtype = dtype_of(m->descr), is_dense = 1;
  if (dtype < 0 || m->rank > WEFT_RANK_MAX) return NULL;
  int64_t size = (int64_t)weft_dtype_bytes((weft_dtype)dtype), dims[WEFT_RANK_MAX], strides[WEFT_RANK_MAX], bytes = size;
  if ((uintptr_t)m->data % (size_t)size) return NULL;
  for (int k = m->rank; k-- > 0; bytes *= dims[k]) {
    if (m->strides[k] % size) return NULL;
    dims[k] = m->dims[k], strides[k] = m->strides[k] / size;
    is_dense &= m->strides[k] == bytes || dims[k] == 1;
  }
  if (is_dense && bytes <= SMALL_BYTES && bytes) return weft_from((weft_dtype)dtype, m->rank, dims, m->data);
  return weft_external(&(weft_block){ m->data, 0, (weft_dtype)dtype, m->rank, dims, strides }, let_go, Py_NewRef(o));
}

PyObject *numpy_small(weft_array *a) {
  weft_dtype dtype;
  int64_t dims[WEFT_RANK_MAX];
  Py_ssize_t sizes[WEFT_RANK_MAX];
  int rank = is_there() ? weft_describe(a, &dtype, dims) : -1;
  if (rank < 0 || number_of[dtype] < 0) return NULL;
  size_t bytes = weft_dtype_bytes(dtype);
  for (int k = 0; k < rank; k++) bytes *= (size_t)dims[k], sizes[k] = (Py_ssize_t)dims[k];
  if (bytes > SMALL_BYTES) return NULL;
  PyObject *copy = make(type, rank, sizes, number_of[dtype], NULL, NULL, 0, 0, NULL);
  weft_status s = copy ? weft_read(a, dtype, ((struct memory *)copy)->data, bytes) : WEFT_OK;
  if (!s) return copy;
  Py_DECREF(copy);
  return raise_status(s);
}
