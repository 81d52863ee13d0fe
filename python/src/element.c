/* element.c -- operations element by element: operators, methods and functions from tables of names. */
#include "names.h"
#include <math.h>

typedef weft_array *(*unary)(weft_array *);
typedef weft_array *(*binary)(weft_array *, weft_array *);

static PyObject *apply_unary(unary op, PyObject *x) {
  weft_scope *s = op_begin();
  weft_array *a = convert_array(x, NULL, 0); /* a number has no partner to take a dtype from */
  return op_end_as(flavour_of(1, &x), s, a ? op(a) : NULL);
}

static PyObject *apply_binary(binary op, PyObject *x, PyObject *y) {
  weft_array *a[2];
  weft_scope *s = op_begin();
  PyTypeObject *type = flavour_of(2, (PyObject *[]){ x, y });
  return op_end_as(type, s, convert_all(2, (PyObject *[]){ x, y }, a) ? op(a[0], a[1]) : NULL);
}

/* x^n as products, by squaring; x^-n is 1 / x^n. */
static weft_array *power(weft_array *x, long n) {
  if (n == 0) return weft_broadcast_like(weft_cast(weft_integer(1), weft_dtype_of(x)), x);
  weft_array *y = NULL;
  for (unsigned long rest = n < 0 ? -(unsigned long)n : (unsigned long)n;; x = weft_mul(x, x)) {
    if (rest & 1) y = y ? weft_mul(y, x) : x;
    if (!(rest >>= 1)) break;
  }
  return n < 0 ? weft_reciprocal(y) : y;
}

/* ---- Functions ---- */

weft_array *call_unary(const struct name *row, PyObject *const arg[]) {
  weft_array *a = convert_array(arg[0], NULL, 0); /* a number has no partner to take a dtype from */
  return a ? ((unary)row->function)(a) : NULL;
}

weft_array *call_binary(const struct name *row, PyObject *const arg[]) {
  weft_array *a[2];
  return convert_all(2, arg, a) ? ((binary)row->function)(a[0], a[1]) : NULL;
}

typedef weft_array *(*ternary)(weft_array *, weft_array *, weft_array *);
weft_array *call_ternary(const struct name *row, PyObject *const arg[]) {
  weft_array *a[3];
  if (!convert_all(3, arg, a)) return NULL;
  return ((ternary)row->function)(a[0], a[1], a[2]);
}

/* (a, b, c, z) */
weft_array *call_hyp2f1(const struct name *row, PyObject *const arg[]) {
  weft_array *a[4];
  (void)row;
  return convert_all(4, arg, a) ? weft_hyp2f1(a[0], a[1], a[2], a[3]) : NULL;
}

/* (a) */
weft_array *call_positive(const struct name *row, PyObject *const arg[]) { return (void)row, convert_array(arg[0], NULL, 0); }

/* (a, a_min, a_max, min, max): by either name */
weft_array *call_clip(const struct name *row, PyObject *const arg[]) {
  weft_array *bound[2] = { NULL, NULL };
  for (int i = 0; i < 2; i++) {
    PyObject *o = arg[1 + i] == Py_None ? arg[3 + i] : arg[1 + i];
    if (arg[1 + i] != Py_None && arg[3 + i] != Py_None)
      return PyErr_SetString(PyExc_TypeError, "clip: a bound is given twice"), NULL;
    if (o != Py_None && !(bound[i] = convert_operand(o))) return NULL;
  }
  weft_array *x = convert_array(arg[0], NULL, 0);
  return x ? ((ternary)row->function)(x, bound[0], bound[1]) : NULL;
}

/* (a, decimals); integers have none */
weft_array *call_round(const struct name *row, PyObject *const arg[]) {
  weft_array *x = convert_array(arg[0], NULL, 0);
  int64_t decimals;
  (void)row;
  if (!x || convert_integer(arg[1], &decimals)) return NULL;
  if (!decimals) return weft_round(x);
  if (decimals > 0 && weft_dtype_of(x) <= WEFT_I64) return x;
  weft_array *scale = weft_scalar(pow(10, (double)decimals));
  return weft_div(weft_round(weft_mul(x, scale)), scale);
}

static weft_array *times(PyObject *o, double factor) {
  weft_array *x = convert_array(o, NULL, 0);
  return x ? weft_mul(x, weft_scalar(factor)) : NULL;
}
/* (a) */
weft_array *call_degrees(const struct name *row, PyObject *const arg[]) { return (void)row, times(arg[0], 180 / M_PI); }
weft_array *call_radians(const struct name *row, PyObject *const arg[]) { return (void)row, times(arg[0], M_PI / 180); }

/* (a, b, rtol, atol, equal_nan): as the row's function does */
weft_array *call_isclose(const struct name *row, PyObject *const arg[]) {
  double rtol = PyFloat_AsDouble(arg[2]), atol = PyErr_Occurred() ? 0 : PyFloat_AsDouble(arg[3]);
  int equal_nan = PyErr_Occurred() ? -1 : PyObject_IsTrue(arg[4]);
  weft_array *x[2];
  if (equal_nan < 0 || !convert_all(2, arg, x)) return NULL;
  return ((weft_array * (*)(weft_array *, weft_array *, double, double, int)) row->function)(x[0], x[1], rtol, atol, equal_nan);
}

/* (a, b, equal_nan) */
weft_array *call_array_equal(const struct name *row, PyObject *const arg[]) {
  int equal_nan = PyObject_IsTrue(arg[2]);
  weft_array *x[2];
  (void)row;
  for (int i = 0; i < 2; i++)
    if (equal_nan < 0 || !(x[i] = convert_array(arg[i], NULL, 0))) return NULL;
  return weft_array_equal(x[0], x[1], equal_nan);
}

/* (a, b): the quotient and the remainder */
PyObject *make_divmod(const struct name *row, PyObject *const arg[]) {
  (void)row;
  PyObject *quotient = apply_binary(weft_floor_divide, arg[0], arg[1]);
  PyObject *rest = quotient ? apply_binary(weft_remainder, arg[0], arg[1]) : NULL;
  return rest ? Py_BuildValue("NN", quotient, rest) : (Py_XDECREF(quotient), NULL);
}

/* ---- Operators ---- */

static PyObject *operate(binary op, PyObject *x, PyObject *y) {
  if (!convert_is_possible(x) || !convert_is_possible(y)) Py_RETURN_NOTIMPLEMENTED;
  return apply_binary(op, x, y);
}

/* x += y is x = x + y inside the object: all who hold it see the sum. */
static PyObject *operate_inplace(binary op, PyObject *x, PyObject *y) {
  if (!convert_is_possible(y)) Py_RETURN_NOTIMPLEMENTED;
  if (body_refuses(((struct array *)x)->body)) return NULL;
  weft_scope *s = op_begin();
  weft_array *b = convert_operand(y);
  int failed = !b || array_assign(x, op(array_handle(x), b));
  weft_scope_discard(s);
  return failed ? NULL : Py_NewRef(x);
}

#define OPERATORS(X) \
  X(add, weft_add) X(subtract, weft_sub) X(multiply, weft_mul) X(true_divide, weft_div) \
  X(floor_divide, weft_floor_divide) X(remainder, weft_remainder) X(lshift, weft_shl) X(rshift, weft_shr) \
  X(matrix_multiply, weft_matmul) X(and, weft_and) X(or, weft_or) X(xor, weft_xor)
#define DEFINE(name, op) \
  static PyObject *slot_##name(PyObject *x, PyObject *y) { return operate(op, x, y); } \
  static PyObject *inplace_##name(PyObject *x, PyObject *y) { return operate_inplace(op, x, y); }
OPERATORS(DEFINE)
#undef DEFINE

static PyObject *slot_negative(PyObject *x) { return apply_unary(weft_neg, x); }
static PyObject *slot_positive(PyObject *x) { return Py_NewRef(x); }
static PyObject *slot_absolute(PyObject *x) { return apply_unary(weft_abs, x); }
static PyObject *slot_invert(PyObject *x) { return apply_unary(weft_not, x); }

/* Powers that are products: x ** n for an integer n. Others are those of weft_pow. */
static PyObject *slot_power(PyObject *x, PyObject *y, PyObject *modulus) {
  if (modulus != Py_None) Py_RETURN_NOTIMPLEMENTED;
  if (!array_check(x) || !PyLong_Check(y)) return operate(weft_pow, x, y);
  long n = PyLong_AsLong(y);
  if (n == -1 && PyErr_Occurred()) return NULL;
  weft_scope *s = op_begin();
  return op_end_as(flavour_of_array(x), s, power(array_handle(x), n));
}

static int slot_bool(PyObject *self) {
  int64_t n = value_count(self);
  if (n < 0) return -1;
  if (n != 1)
    return PyErr_Format(PyExc_ValueError, "an array of %lld elements is neither true nor false: any() or all() of it is",
                        (long long)n), raised_by(NULL), -1;
  PyObject *value = value_item(self);
  int truth = value ? PyObject_IsTrue(value) : -1;
  Py_XDECREF(value);
  return truth;
}

static PyObject *number_by(PyObject *(*convert)(PyObject *), PyObject *self) {
  PyObject *value = value_item(self), *number = value ? convert(value) : NULL;
  Py_XDECREF(value);
  return number;
}
static PyObject *slot_int(PyObject *self) { return number_by(PyNumber_Long, self); }
static PyObject *slot_float(PyObject *self) { return number_by(PyNumber_Float, self); }

/* As an index, a size or a bound of range(): one integer, 0-d, for an array of one element is a list of indices. */
static PyObject *slot_index(PyObject *self) {
  weft_dtype d = weft_dtype_of(array_handle(self));
  if (weft_rank(array_handle(self)) || d == WEFT_BOOL || d > WEFT_I64)
    return PyErr_Format(PyExc_TypeError, "only a 0-d array of integers is an index, not one of %s with %d axes", dtype_text(d),
                        weft_rank(array_handle(self))), raised_by(NULL), NULL;
  return value_item(self);
}

static PyObject *slot_divmod(PyObject *x, PyObject *y) {
  PyObject *quotient = operate(weft_floor_divide, x, y);
  if (!quotient || quotient == Py_NotImplemented) return quotient;
  PyObject *rest = operate(weft_remainder, x, y);
  return rest ? Py_BuildValue("NN", quotient, rest) : (Py_DECREF(quotient), NULL);
}

static PyObject *as_complex(PyObject *self, PyObject *unused) {
  (void)unused;
  PyObject *value = value_item(self), *number = NULL;
  if (value) number = PyObject_CallFunctionObjArgs((PyObject *)&PyComplex_Type, value, NULL);
  Py_XDECREF(value);
  return number;
}

/* A number as numbers are; of other arrays only the plain text. Without a spec a number is its text too, but for MLX's. */
static PyObject *format(PyObject *self, PyObject *spec) {
  if (!PyUnicode_Check(spec)) return PyErr_Format(PyExc_TypeError, "__format__: a text is expected");
  int is_number = mlx_check(self) && !weft_rank(array_handle(self));
  if (!PyUnicode_GET_LENGTH(spec) && !is_number) return PyObject_Str(self);
  if (weft_rank(array_handle(self)))
    return PyErr_Format(PyExc_TypeError, "'%U' formats one number, not an array of %d axes", spec, weft_rank(array_handle(self)));
  PyObject *value = value_item(self), *text = value ? PyObject_Format(value, spec) : NULL;
  Py_XDECREF(value);
  return text;
}

/* round(a, n): to n decimals, as an array. */
static PyObject *rounded(PyObject *self, PyObject *args) {
  PyObject *decimals = Py_None;
  if (!PyArg_ParseTuple(args, "|O", &decimals)) return NULL;
  if (decimals == Py_None) return apply_unary(weft_round, self);
  weft_scope *s = op_begin();
  return op_end_as(flavour_of_array(self), s, call_round(NULL, (PyObject *[]){ self, decimals }));
}

PyMethodDef element_methods[] = {
  { "__complex__", as_complex, METH_NOARGS, "complex(a)" },
  { "__format__", format, METH_O, "format(a, spec): of a number" },
  { "__round__", rounded, METH_VARARGS, "round(a, decimals)" },
  { 0 },
};

PyNumberMethods element_numbers = {
#define ROW(name, op) .nb_##name = slot_##name, .nb_inplace_##name = inplace_##name,
  OPERATORS(ROW)
#undef ROW
  .nb_negative = slot_negative, .nb_positive = slot_positive, .nb_absolute = slot_absolute, .nb_invert = slot_invert,
  .nb_power = slot_power, .nb_bool = slot_bool, .nb_int = slot_int, .nb_float = slot_float,
  .nb_index = slot_index, .nb_divmod = slot_divmod,
};

PyObject *element_compare(PyObject *x, PyObject *y, int op) {
  static const binary ops[] = { [Py_LT] = weft_lt, [Py_LE] = weft_le, [Py_EQ] = weft_eq, [Py_NE] = weft_ne,
                                [Py_GT] = weft_gt, [Py_GE] = weft_ge };
  return operate(ops[op], x, y);
}
