/* dlpack.c -- memory exchanged with other libraries through DLPack (the layout of dlpack.h, version 0), the host's and a GPU's.
 *
 * Who takes memory of a GPU names the stream on which he will use it. What weft shows is computed by then; when it is given back,
 * weft uses that memory again only after what that stream has then. What weft takes comes after what its owner has enqueued,
 * since it names its own stream. CUDA's device n is weft's n + 1. */
#include "names.h"

struct dl_device { int32_t type, id; };
struct dl_dtype { uint8_t code, bits; uint16_t lanes; };
struct dl_tensor {
  void *data;
  struct dl_device device;
  int32_t ndim;
  struct dl_dtype dtype;
  int64_t *shape, *strides; /* strides in elements; NULL: row by row */
  uint64_t byte_offset;
};
struct dl_managed {
  struct dl_tensor tensor;
  void *context;
  void (*deleter)(struct dl_managed *);
};
enum { DL_CPU = 1, DL_CUDA = 2, DL_CUDA_HOST = 3 };
enum { DL_INT = 0, DL_UINT = 1, DL_FLOAT = 2, DL_BFLOAT = 4, DL_COMPLEX = 5, DL_BOOL = 6, DL_E4M3FN = 10, DL_E5M2 = 12 };

static const struct dl_dtype types[] = {
  [WEFT_BOOL] = { DL_BOOL, 8, 1 },    [WEFT_U8] = { DL_UINT, 8, 1 },      [WEFT_U16] = { DL_UINT, 16, 1 },
  [WEFT_U32] = { DL_UINT, 32, 1 },    [WEFT_U64] = { DL_UINT, 64, 1 },    [WEFT_I8] = { DL_INT, 8, 1 },
  [WEFT_I16] = { DL_INT, 16, 1 },     [WEFT_I32] = { DL_INT, 32, 1 },     [WEFT_I64] = { DL_INT, 64, 1 },
  [WEFT_F16] = { DL_FLOAT, 16, 1 },   [WEFT_F32] = { DL_FLOAT, 32, 1 },   [WEFT_F64] = { DL_FLOAT, 64, 1 },
  [WEFT_BF16] = { DL_BFLOAT, 16, 1 }, [WEFT_E4M3] = { DL_E4M3FN, 8, 1 }, [WEFT_E5M2] = { DL_E5M2, 8, 1 },
  [WEFT_C64] = { DL_COMPLEX, 64, 1 }, [WEFT_C128] = { DL_COMPLEX, 128, 1 },
};

/* ---- Out ---- */

struct exported {
  struct dl_managed managed;
  weft_array *array; /* owned and pinned */
  int device;
  void *stream;      /* of whoever uses it, on a device */
  int64_t dims[WEFT_RANK_MAX], strides[WEFT_RANK_MAX];
};

static void export_end(struct dl_managed *m) { /* any thread; weft needs no GIL */
  struct exported *e = m->context;
  if (e->device && weft_follow(e->device, e->stream)) (void)0; /* the device is lost, and what was there */
  value_unpin(e->array);
  PyMem_RawFree(e);
}

static void capsule_end(PyObject *capsule) {
  if (!PyCapsule_IsValid(capsule, "dltensor")) return; /* somebody has taken it */
  struct dl_managed *m = PyCapsule_GetPointer(capsule, "dltensor");
  m->deleter(m);
}

static void describe(struct exported *e, const weft_block *b) {
  for (int i = 0; i < b->rank; i++) e->dims[i] = b->dims[i], e->strides[i] = b->strides[i];
  struct dl_device where = { b->device ? DL_CUDA : DL_CPU, b->device ? b->device - 1 : 0 };
  e->managed.tensor = (struct dl_tensor){ b->data, where, b->rank, types[b->dtype], e->dims, e->strides, 0 };
  e->managed.context = e;
  e->managed.deleter = export_end;
}

/* Where it is once it is computed; -1: it cannot be. */
static int place(PyObject *self) {
  weft_array *a = array_handle(self);
  int device = 0;
  if (evaluate(1, &a)) return -1;
  return weft_state_of(a, &device) == WEFT_READY ? device : 0;
}

/* Of a GPU: None is CUDA's default stream, -1 none. */
static int stream_of(PyObject *stream, void **out) {
  long long n = stream && stream != Py_None ? PyLong_AsLongLong(stream) : 1;
  if (n == -1 && PyErr_Occurred()) return -1;
  *out = (void *)(uintptr_t)(n == -1 ? 1 : n);
  return 0;
}

/* The device that dl_device asks for, a pair as __dlpack_device__ gives it: where the array is, or the CPU. */
static int asked_place(PyObject *pair, int is_there) {
  int type, id;
  if (!pair || pair == Py_None) return is_there;
  if (!PyTuple_Check(pair) || !PyArg_ParseTuple(pair, "ii;dl_device: a type and a number", &type, &id)) {
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "__dlpack__: dl_device is a type and a number");
    return -1;
  }
  int device = type == DL_CUDA ? id + 1 : type == DL_CPU ? 0 : -1;
  if (device == 0 || device == is_there) return device;
  PyErr_SetString(PyExc_BufferError, "__dlpack__: the array is not on that device");
  return -1;
}

static PyObject *export(PyObject *self, PyObject *args, PyObject *kwargs) {
  static char *const names[] = { "stream", "max_version", "dl_device", "copy", NULL };
  PyObject *stream = NULL, *version = NULL, *where = NULL, *copy = NULL; /* version 0 serves all; a copy is never needed */
  weft_block b;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|$OOOO", (char **)(uintptr_t)names, &stream, &version, &where, &copy))
    return NULL;
  int device = place(self);
  if (device >= 0) device = asked_place(where, device);
  if (device < 0) return NULL;
  struct exported *e = PyMem_RawCalloc(1, sizeof *e);
  if (!e) return PyErr_NoMemory();
  e->device = device;
  if ((device && stream_of(stream, &e->stream)) || !(e->array = value_pin(array_handle(self), device, &b)))
    return PyMem_RawFree(e), NULL;
  describe(e, &b);
  PyObject *capsule = PyCapsule_New(&e->managed, "dltensor", capsule_end);
  if (!capsule) export_end(&e->managed);
  return capsule;
}

static PyObject *device(PyObject *self, PyObject *unused) {
  int n = place(self);
  (void)unused;
  return n < 0 ? NULL : Py_BuildValue("ii", n ? DL_CUDA : DL_CPU, n ? n - 1 : 0);
}

PyMethodDef dlpack_methods[] = {
  { "__dlpack__", WITH_KEYWORDS(export), "A DLPack capsule that shows the memory." },
  { "__dlpack_device__", device, METH_NOARGS, "Where the memory is: (1, 0) is the CPU, (2, n) CUDA's device n. Computes it." },
  { 0 },
};

/* ---- In ---- */

static void import_end(void *ctx) {
  struct dl_managed *m = ctx;
  if (!m->deleter || !Py_IsInitialized()) return;
  PyGILState_STATE gil = PyGILState_Ensure(); /* other libraries expect it */
  m->deleter(m);
  PyGILState_Release(gil);
}

static int dtype_of(struct dl_dtype t, weft_dtype *d) {
  for (int i = 0; i < (int)(sizeof types / sizeof *types); i++)
    if (types[i].code == t.code && types[i].bits == t.bits && t.lanes == 1) return *d = (weft_dtype)i, 1;
  return 0;
}

static weft_array *share(struct dl_managed *m) {
  const struct dl_tensor *t = &m->tensor;
  int64_t rows[WEFT_RANK_MAX], stride = 1;
  weft_block b = { (char *)t->data + t->byte_offset, 0, WEFT_BOOL, t->ndim, t->shape, t->strides };
  if (t->device.type == DL_CUDA) b.device = t->device.id + 1;
  else if (t->device.type != DL_CPU && t->device.type != DL_CUDA_HOST)
    return PyErr_Format(PyExc_BufferError, "from_dlpack: the memory is neither the CPU's nor a GPU's"), NULL;
  if (t->ndim > WEFT_RANK_MAX)
    return PyErr_Format(PyExc_ValueError, "from_dlpack: %d axes are too many", (int)t->ndim), NULL;
  if (!dtype_of(t->dtype, &b.dtype)) return PyErr_Format(PyExc_TypeError, "from_dlpack: weft has no such dtype"), NULL;
  if (!t->strides) {
    for (int i = t->ndim; i-- > 0; stride *= t->shape[i]) rows[i] = stride;
    b.strides = rows;
  }
  return weft_external(&b, import_end, m);
}

/* Memory of a GPU is asked for with the stream on which weft will use it. */
static PyObject *capsule_of(PyObject *x) {
  int type = DL_CPU, id = 0;
  PyObject *where = PyObject_HasAttrString(x, "__dlpack_device__") ? PyObject_CallMethod(x, "__dlpack_device__", NULL) : NULL;
  if (PyErr_Occurred()) return NULL;
  if (where && (!PyTuple_Check(where) || PyTuple_GET_SIZE(where) != 2)) type = -1;
  else if (where) {
    type = (int)PyLong_AsLong(PyTuple_GET_ITEM(where, 0)), id = (int)PyLong_AsLong(PyTuple_GET_ITEM(where, 1));
  }
  Py_XDECREF(where);
  if (PyErr_Occurred()) return NULL;
  if (type != DL_CUDA) return PyObject_CallMethod(x, "__dlpack__", NULL);
  void *stream = weft_stream(id + 1);
  if (!stream) return PyErr_Format(PyExc_BufferError, "from_dlpack: weft sees no CUDA device %d", id);
  PyObject *call = PyObject_GetAttrString(x, "__dlpack__"), *none = PyTuple_New(0);
  PyObject *named = Py_BuildValue("{s:K}", "stream", (unsigned long long)(uintptr_t)stream);
  PyObject *capsule = call && none && named ? PyObject_Call(call, none, named) : NULL;
  Py_XDECREF(call), Py_XDECREF(none), Py_XDECREF(named);
  return capsule;
}

/* Once the capsule is renamed, the memory is ours to release: weft_external does that, also if it refuses the block. */
static weft_array *shared_of(PyObject *x) {
  PyObject *capsule = capsule_of(x);
  if (capsule && !PyCapsule_IsValid(capsule, "dltensor"))
    PyErr_SetString(PyExc_ValueError, "from_dlpack: this is no capsule of DLPack, or it was consumed before");
  struct dl_managed *m = capsule && !PyErr_Occurred() ? PyCapsule_GetPointer(capsule, "dltensor") : NULL;
  weft_array *a = m ? share(m) : NULL;
  if (a) PyCapsule_SetName(capsule, "used_dltensor");
  Py_XDECREF(capsule);
  return a;
}

/* The values in memory of their own. */
static weft_array *copied(weft_array *a) {
  weft_array *copy = NULL;
  int64_t dims[WEFT_RANK_MAX];
  size_t bytes = weft_dtype_bytes(weft_dtype_of(a));
  for (int i = 0; i < weft_rank(a); i++) bytes *= (size_t)(dims[i] = weft_dim(a, i));
  void *values = PyMem_Malloc(bytes ? bytes : 1);
  if (!values) PyErr_NoMemory();
  else if (!evaluate_into(a, values, bytes)) copy = weft_from(weft_dtype_of(a), weft_rank(a), dims, values);
  PyMem_Free(values);
  return copy;
}

weft_array *dlpack_array(PyObject *x, int may_share) {
  weft_array *a = shared_of(x);
  return !a || may_share ? a : copied(a);
}

/* (x, device, copy) */
PyObject *make_from_dlpack(const struct name *row, PyObject *const arg[]) {
  int copies = arg[2] == Py_None ? 0 : PyObject_IsTrue(arg[2]);
  (void)row;
  if (copies < 0) return NULL;
  weft_scope *s = op_begin();
  PyObject *result = op_end(s, dlpack_array(arg[0], !copies));
  if (result) ((struct array *)result)->is_foreign = !copies;
  return result;
}
