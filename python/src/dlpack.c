/* dlpack.c -- memory exchanged with other libraries through DLPack (the layout of dlpack.h, version 0). */
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
enum { DL_CPU = 1, DL_INT = 0, DL_UINT = 1, DL_FLOAT = 2, DL_BFLOAT = 4, DL_COMPLEX = 5, DL_BOOL = 6 };

static const struct dl_dtype types[] = {
  [WEFT_BOOL] = { DL_BOOL, 8, 1 },    [WEFT_U8] = { DL_UINT, 8, 1 },      [WEFT_U16] = { DL_UINT, 16, 1 },
  [WEFT_U32] = { DL_UINT, 32, 1 },    [WEFT_U64] = { DL_UINT, 64, 1 },    [WEFT_I8] = { DL_INT, 8, 1 },
  [WEFT_I16] = { DL_INT, 16, 1 },     [WEFT_I32] = { DL_INT, 32, 1 },     [WEFT_I64] = { DL_INT, 64, 1 },
  [WEFT_F16] = { DL_FLOAT, 16, 1 },   [WEFT_F32] = { DL_FLOAT, 32, 1 },   [WEFT_F64] = { DL_FLOAT, 64, 1 },
  [WEFT_BF16] = { DL_BFLOAT, 16, 1 }, [WEFT_C64] = { DL_COMPLEX, 64, 1 }, [WEFT_C128] = { DL_COMPLEX, 128, 1 },
};

/* ---- Out ---- */

struct exported {
  struct dl_managed managed;
  weft_array *array; /* owned and pinned */
  int64_t dims[WEFT_RANK_MAX], strides[WEFT_RANK_MAX];
};

static void export_end(struct dl_managed *m) { /* any thread; weft needs no GIL */
  struct exported *e = m->context;
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
  e->managed.tensor = (struct dl_tensor){ b->data, { DL_CPU, 0 }, b->rank, types[b->dtype], e->dims, e->strides, 0 };
  e->managed.context = e;
  e->managed.deleter = export_end;
}

static PyObject *export(PyObject *self, PyObject *args, PyObject *kwargs) {
  weft_block b;
  (void)args, (void)kwargs; /* the CPU has no streams; a copy is never needed */
  struct exported *e = PyMem_RawCalloc(1, sizeof *e);
  if (!e) return PyErr_NoMemory();
  if (!(e->array = value_pin(array_handle(self), &b))) return PyMem_RawFree(e), NULL;
  describe(e, &b);
  PyObject *capsule = PyCapsule_New(&e->managed, "dltensor", capsule_end);
  if (!capsule) export_end(&e->managed);
  return capsule;
}

static PyObject *device(PyObject *self, PyObject *unused) {
  (void)self, (void)unused;
  return Py_BuildValue("ii", DL_CPU, 0);
}

PyMethodDef dlpack_methods[] = {
  { "__dlpack__", WITH_KEYWORDS(export), "A DLPack capsule that shows the memory." },
  { "__dlpack_device__", device, METH_NOARGS, "(1, 0): the CPU." },
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
  if (t->device.type != DL_CPU)
    return PyErr_Format(PyExc_BufferError, "from_dlpack: the memory is not the CPU's"), NULL;
  if (t->ndim > WEFT_RANK_MAX)
    return PyErr_Format(PyExc_ValueError, "from_dlpack: %d axes are too many", (int)t->ndim), NULL;
  if (!dtype_of(t->dtype, &b.dtype)) return PyErr_Format(PyExc_TypeError, "from_dlpack: weft has no such dtype"), NULL;
  if (!t->strides) {
    for (int i = t->ndim; i-- > 0; stride *= t->shape[i]) rows[i] = stride;
    b.strides = rows;
  }
  return weft_external(&b, import_end, m);
}

/* Once the capsule is renamed, the memory is ours to release: weft_external does that, also if it refuses the block. */
PyObject *make_from_dlpack(const struct name *row, PyObject *const arg[]) {
  (void)row;
  PyObject *capsule = PyObject_CallMethod(arg[0], "__dlpack__", NULL);
  struct dl_managed *m = capsule ? PyCapsule_GetPointer(capsule, "dltensor") : NULL;
  PyObject *result = NULL;
  if (m) {
    weft_scope *s = op_begin();
    weft_array *a = share(m);
    if (a) PyCapsule_SetName(capsule, "used_dltensor");
    result = op_end(s, a);
  }
  Py_XDECREF(capsule);
  return result;
}
