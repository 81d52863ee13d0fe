/* dtype.c -- element types as objects: weft.float32 and its like, one object each, alive as long as the module. */
#include "mlx.h"
#include <string.h>

/* NumPy's int64 is the long of C where that has 64 bits; its long long is equal to it, but no instance of np.int64. */
enum { IS_LONG = sizeof(long) == 8 };

/* Name, character of the struct module (the buffer protocol's format), NumPy's kind. */
static const struct row { const char *name, *format; } rows[] = {
  [WEFT_BOOL] = { "bool", "?" },      [WEFT_U8] = { "uint8", "B" },       [WEFT_U16] = { "uint16", "H" },
  [WEFT_U32] = { "uint32", "I" },     [WEFT_U64] = { "uint64", IS_LONG ? "L" : "Q" },     [WEFT_I8] = { "int8", "b" },
  [WEFT_I16] = { "int16", "h" },      [WEFT_I32] = { "int32", "i" },      [WEFT_I64] = { "int64", IS_LONG ? "l" : "q" },
  [WEFT_F16] = { "float16", "e" },    [WEFT_F32] = { "float32", "f" },    [WEFT_F64] = { "float64", "d" },
  [WEFT_BF16] = { "bfloat16", NULL }, [WEFT_E4M3] = { "float8_e4m3fn", NULL }, [WEFT_E5M2] = { "float8_e5m2", NULL },
  [WEFT_C64] = { "complex64", "Zf" }, [WEFT_C128] = { "complex128", "Zd" },
};
enum { N_DTYPES = sizeof rows / sizeof rows[0] };

struct dtype {
  PyObject_HEAD
  weft_dtype value;
};
static PyObject *objects[2][N_DTYPES]; /* weft's, MLX's */

PyObject *dtype_object_as(PyTypeObject *array, weft_dtype d) { return objects[array == &mlx_array_type][d]; }
PyObject *dtype_object(weft_dtype d) { return dtype_object_as(flavour(), d); }
const char *dtype_format(weft_dtype d) { return rows[d].format; }
const char *dtype_text(weft_dtype d) { return rows[d].name; }

const char *dtype_text_of_c(const char *c, size_t n) {
  for (int d = 0; d < N_DTYPES; d++)
    if (!strncmp(weft_dtype_name((weft_dtype)d), c, n) && !weft_dtype_name((weft_dtype)d)[n]) return rows[d].name;
  return NULL;
}

static weft_dtype value(PyObject *o) { return ((struct dtype *)o)->value; }

static PyObject *represent(PyObject *self) {
  if (Py_TYPE(self) == &mlx_dtype_type) return PyUnicode_FromFormat("mlx.core.%s", rows[value(self)].name);
  return PyUnicode_FromFormat("weft.%s%s", rows[value(self)].name, value(self) == WEFT_BOOL ? "_" : "");
}

static PyObject *get_name(PyObject *self, void *closure) {
  (void)closure;
  return PyUnicode_FromString(rows[value(self)].name);
}
static PyObject *get_size(PyObject *self, void *closure) {
  (void)closure;
  return PyLong_FromSize_t(weft_dtype_bytes(value(self)));
}

static PyObject *reduce(PyObject *self, PyObject *unused) {
  (void)unused;
  return PyUnicode_FromFormat("%s%s", rows[value(self)].name, value(self) == WEFT_BOOL ? "_" : "");
}

/* numpy.dtype(weft.float32) asks for it; what NumPy itself has not, ml_dtypes has for it where it is installed. */
static PyObject *get_numpy(PyObject *self, void *closure) {
  const char *name = rows[value(self)].name;
  PyObject *other = NULL;
  (void)closure;
  if (!rows[value(self)].format) {
    PyObject *module = PyImport_ImportModule("ml_dtypes");
    other = module ? PyObject_GetAttrString(module, name) : NULL;
    Py_XDECREF(module);
    PyErr_Clear();
    if (!other) return PyErr_Format(PyExc_AttributeError, "NumPy has no %s; ml_dtypes, which is not installed, has it", name);
  }
  PyObject *numpy = PyImport_ImportModule("numpy");
  PyObject *dtype = !numpy ? NULL : PyObject_CallMethod(numpy, "dtype", other ? "O" : "s", other ? (void *)other : (void *)name);
  Py_XDECREF(other);
  Py_XDECREF(numpy);
  return dtype;
}

/* weft.float32 == numpy.float32, numpy.dtype("float32"), "float32". */
static PyObject *compare(PyObject *self, PyObject *other, int op) {
  weft_dtype d;
  if (op != Py_EQ && op != Py_NE) Py_RETURN_NOTIMPLEMENTED;
  int same = self == other;
  if (!same && Py_TYPE(other) != &dtype_type) {
    if (other == Py_None || dtype_parse(other, &d)) PyErr_Clear();
    else same = d == value(self);
  }
  return PyBool_FromLong(same == (op == Py_EQ));
}

static PyGetSetDef properties[] = {
  { "dtype", get_numpy, NULL, "NumPy's dtype of this name", NULL },
  { "name", get_name, NULL, "\"float32\"", NULL },
  { "size", get_size, NULL, "bytes of an element", NULL },
  { "itemsize", get_size, NULL, "bytes of an element", NULL },
  { 0 },
};
static PyMethodDef methods[] = {
  { "__reduce__", reduce, METH_NOARGS, "The name of the global it is." },
  { 0 },
};

PyTypeObject dtype_type = {
  PyVarObject_HEAD_INIT(NULL, 0)
  .tp_name = "weft.Dtype",
  .tp_basicsize = sizeof(struct dtype),
  .tp_flags = Py_TPFLAGS_DEFAULT,
  .tp_doc = "The type of an array's elements.",
  .tp_repr = represent,
  .tp_getset = properties,
  .tp_richcompare = compare,
  .tp_methods = methods,
};

/* MLX's equal nothing but themselves; the same one by its name is the same object. */
static PyObject *mlx_compare(PyObject *self, PyObject *other, int op) {
  if (op != Py_EQ && op != Py_NE) Py_RETURN_NOTIMPLEMENTED;
  int same = self == other || (Py_TYPE(other) == &dtype_type && value(self) == value(other));
  return PyBool_FromLong(same == (op == Py_EQ));
}

PyTypeObject mlx_dtype_type = {
  PyVarObject_HEAD_INIT(NULL, 0)
  .tp_name = "weft.mlx.core.Dtype",
  .tp_basicsize = sizeof(struct dtype),
  .tp_flags = Py_TPFLAGS_DEFAULT,
  .tp_doc = "The type of an array's elements.",
  .tp_repr = represent,
  .tp_getset = properties,
  .tp_richcompare = mlx_compare,
  .tp_methods = methods,
};

static int by_name(const char *name, weft_dtype *d) {
  for (int i = 0; i < N_DTYPES; i++)
    if (!strcmp(rows[i].name, name)) return *d = (weft_dtype)i, 1;
  return !strcmp(name, "bool_") ? (*d = WEFT_BOOL, 1) : 0;
}

/* The dtype that an object's .name or a NumPy scalar type's __name__ says. */
static int by_attribute(PyObject *o, const char *attribute, weft_dtype *d) {
  PyObject *name = PyObject_GetAttrString(o, attribute);
  const char *text = name && PyUnicode_Check(name) ? PyUnicode_AsUTF8(name) : NULL;
  int found = text && by_name(text, d);
  Py_XDECREF(name);
  PyErr_Clear();
  return found;
}

int dtype_parse(PyObject *o, weft_dtype *d) {
  if (Py_TYPE(o) == &dtype_type || Py_TYPE(o) == &mlx_dtype_type) return *d = value(o), 0;
  if (o == (PyObject *)&PyFloat_Type) return *d = WEFT_F32, 0;
  if (o == (PyObject *)&PyLong_Type) return *d = WEFT_I32, 0;
  if (o == (PyObject *)&PyBool_Type) return *d = WEFT_BOOL, 0;
  if (PyUnicode_Check(o)) {
    const char *text = PyUnicode_AsUTF8(o);
    if (text && by_name(text, d)) return 0;
  } else if (by_attribute(o, PyType_Check(o) ? "__name__" : "name", d)) {
    return 0;
  }
  if (!PyErr_Occurred()) PyErr_Format(PyExc_TypeError, "%R is not a dtype of weft", o);
  return -1;
}

/* Sizes decide among integers: 'l' is four or eight bytes. */
int dtype_of_format(const char *f, Py_ssize_t size, weft_dtype *d) {
  if (!f) f = "B";
  if (*f == '@' || *f == '=' || *f == '<' || (*f == '|' && size == 1)) f++;
  const char *integers = strchr("bhilqn", *f), *naturals = strchr("BHILQN", *f);
  if (!*f || (f[1] && strcmp(f, "Zf") && strcmp(f, "Zd"))) return 0;
  if (integers || naturals) {
    int power = size == 1 ? 0 : size == 2 ? 1 : size == 4 ? 2 : size == 8 ? 3 : -1;
    return power >= 0 && (*d = (weft_dtype)((integers ? WEFT_I8 : WEFT_U8) + power), 1);
  }
  for (int i = 0; i < N_DTYPES; i++)
    if (rows[i].format && !strcmp(rows[i].format, f)) return *d = (weft_dtype)i, 1;
  return 0;
}

static int add(PyObject *module, PyTypeObject *type, int i) {
  struct dtype *d = PyObject_New(struct dtype, type);
  char name[32];
  if (!d) return -1;
  d->value = (weft_dtype)i;
  objects[type == &mlx_dtype_type][i] = (PyObject *)d;
  PyOS_snprintf(name, sizeof name, "%s%s", rows[i].name, i == WEFT_BOOL ? "_" : "");
  return PyObject_SetAttrString(module, name, (PyObject *)d);
}

int dtype_add_all(PyObject *module, PyTypeObject *array) {
  PyTypeObject *type = array == &mlx_array_type ? &mlx_dtype_type : &dtype_type;
  type->tp_hash = PyBaseObject_Type.tp_hash; /* by identity, as NumPy's differ from those of the texts they equal */
  if (PyType_Ready(type) || PyObject_SetAttrString(module, "Dtype", (PyObject *)type)) return -1;
  for (int i = 0; i < N_DTYPES; i++)
    if (add(module, type, i)) return -1;
  return 0;
}

static int is_number(PyObject *o) { return PyLong_Check(o) || PyFloat_Check(o) || PyComplex_Check(o); }

/* The dtype that a Python number takes among arrays of a dtype: that of the arrays, if they have its kind. */
static weft_dtype with_number(weft_dtype d, PyObject *number) {
  if (PyComplex_Check(number)) return weft_dtype_promote(d, WEFT_C64);
  if (PyFloat_Check(number) && d <= WEFT_I64) return WEFT_F32;
  if (!PyBool_Check(number) && PyLong_Check(number) && d == WEFT_BOOL) return WEFT_I32;
  return d;
}

/* (*arrays_and_dtypes), and Python's numbers among them */
PyObject *make_result_type(const struct name *row, PyObject *const arg[]) {
  weft_dtype all = WEFT_BOOL, one;
  int is_of_numbers = 1;
  (void)row;
  PyObject *kind = flavour() == &mlx_array_type ? PyExc_ValueError : PyExc_TypeError;
  if (!PyTuple_GET_SIZE(arg[0])) return PyErr_Format(kind, "result_type: of one array or dtype at least");
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(arg[0]); i++) {
    PyObject *o = PyTuple_GET_ITEM(arg[0], i);
    if (is_number(o)) continue;
    if (array_check(o)) one = weft_dtype_of(array_handle(o));
    else if (dtype_parse(o, &one)) return kind == PyExc_ValueError ? (mlx_as_value_error(PyExc_TypeError), NULL) : NULL;
    all = is_of_numbers ? one : weft_dtype_promote(all, one);
    is_of_numbers = 0;
  }
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(arg[0]); i++)
    if (is_number(PyTuple_GET_ITEM(arg[0], i))) all = with_number(all, PyTuple_GET_ITEM(arg[0], i));
  return Py_NewRef(dtype_object(all));
}
