/* element.c -- operations element by element: operators, methods and functions from tables of names. */
#include "core.h"

typedef weft_array *(*unary)(weft_array *);
typedef weft_array *(*binary)(weft_array *, weft_array *);

static PyObject *apply_unary(unary op, PyObject *x) {
  weft_scope *s = op_begin();
  weft_array *a = convert_array(x, NULL, 0); /* a number has no partner to take a dtype from */
  return op_end(s, a ? op(a) : NULL);
}

/* What is no array comes first: converting it may run Python, which may give an array object another array. */
static int convert_all(int n, PyObject *const o[], weft_array *a[]) {
  for (int i = 0; i < n; i++)
    if (!array_check(o[i]) && !(a[i] = convert_operand(o[i]))) return 0;
  for (int i = 0; i < n; i++)
    if (array_check(o[i])) a[i] = array_handle(o[i]);
  return 1;
}

static PyObject *apply_binary(binary op, PyObject *x, PyObject *y) {
  weft_array *a[2];
  weft_scope *s = op_begin();
  return op_end(s, convert_all(2, (PyObject *[]){ x, y }, a) ? op(a[0], a[1]) : NULL);
}

/* ---- Compositions ---- */

static weft_array *positive(weft_array *x) { return x; }

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

/* ---- Functions and methods ---- */

#define UNARY(X) \
  X(negative, weft_neg, "-a") \
  X(positive, positive, "+a") \
  X(abs, weft_abs, "|a|") \
  X(sign, weft_sign, "-1, 0 or 1; nan stays") \
  X(floor, weft_floor, "the largest whole number not above a") \
  X(ceil, weft_ceil, "the smallest whole number not below a") \
  X(trunc, weft_trunc, "the nearest whole number towards 0") \
  X(round, weft_round, "the nearest whole number; halves to the even one") \
  X(square, weft_square, "a a") \
  X(sqrt, weft_sqrt, "the square root; nan below 0") \
  X(rsqrt, weft_rsqrt, "1 / the square root") \
  X(reciprocal, weft_reciprocal, "1 / a") \
  X(exp, weft_exp, "e^a") \
  X(log, weft_log, "the natural logarithm") \
  X(log1p, weft_log1p, "log(1 + a)") \
  X(tanh, weft_tanh, "the hyperbolic tangent") \
  X(exp2, weft_exp2, "2^a") \
  X(expm1, weft_expm1, "e^a - 1") \
  X(log2, weft_log2, "the logarithm to base 2") \
  X(log10, weft_log10, "the logarithm to base 10") \
  X(sin, weft_sin, "the sine") \
  X(cos, weft_cos, "the cosine") \
  X(tan, weft_tan, "the tangent") \
  X(arcsin, weft_asin, "the inverse sine") \
  X(arccos, weft_acos, "the inverse cosine") \
  X(arctan, weft_atan, "the inverse tangent") \
  X(sinh, weft_sinh, "the hyperbolic sine") \
  X(cosh, weft_cosh, "the hyperbolic cosine") \
  X(arcsinh, weft_asinh, "the inverse hyperbolic sine") \
  X(arccosh, weft_acosh, "the inverse hyperbolic cosine") \
  X(arctanh, weft_atanh, "the inverse hyperbolic tangent") \
  X(erf, weft_erf, "the error function") \
  X(erfc, weft_erfc, "1 - erf(a)") \
  X(erfinv, weft_erfinv, "the inverse of erf") \
  X(sigmoid, weft_sigmoid, "1 / (1 + e^-a)") \
  X(isnan, weft_isnan, "where a is nan") \
  X(real, weft_real, "the real part") \
  X(imag, weft_imag, "the imaginary part; of real numbers 0") \
  X(conj, weft_conj, "the complex conjugate") \
  X(isinf, weft_isinf, "where a is inf or -inf") \
  X(isfinite, weft_isfinite, "where a is neither nan nor infinite") \
  X(logical_not, weft_logical_not, "where a is 0") \
  X(bitwise_invert, weft_not, "all bits the other way") \
  X(stop_gradient, weft_stop_gradient, "a, with derivative 0")

#define BINARY(X) \
  X(add, weft_add, "a + b") \
  X(subtract, weft_sub, "a - b") \
  X(multiply, weft_mul, "a b") \
  X(divide, weft_div, "a / b; integers give float32") \
  X(floor_divide, weft_floor_divide, "a / b rounded down; integers: a // 0 is 0") \
  X(remainder, weft_remainder, "a - b floor(a / b); integers: a % 0 is a") \
  X(fmod, weft_fmod, "a - b trunc(a / b), with the sign of a") \
  X(power, weft_pow, "a^b; integers stay integers") \
  X(arctan2, weft_atan2, "the angle of (b, a)") \
  X(hypot, weft_hypot, "sqrt(a^2 + b^2)") \
  X(logaddexp, weft_logaddexp, "log(e^a + e^b)") \
  X(maximum, weft_maximum, "the larger; nan wins") \
  X(minimum, weft_minimum, "the smaller; nan wins") \
  X(equal, weft_eq, "a == b") \
  X(not_equal, weft_ne, "a != b") \
  X(less, weft_lt, "a < b") \
  X(less_equal, weft_le, "a <= b") \
  X(greater, weft_gt, "a > b") \
  X(greater_equal, weft_ge, "a >= b") \
  X(logical_and, weft_logical_and, "where both are not 0") \
  X(logical_or, weft_logical_or, "where one is not 0") \
  X(logical_xor, weft_logical_xor, "where exactly one is not 0") \
  X(bitwise_and, weft_and, "of bools or of bits") \
  X(bitwise_or, weft_or, "of bools or of bits") \
  X(bitwise_xor, weft_xor, "of bools or of bits") \
  X(complex, weft_complex, "a + 1j b, of real numbers") \
  X(left_shift, weft_shl, "a 2^b; 0 if b is the width or more") \
  X(right_shift, weft_shr, "a / 2^b rounded down") \
  X(matmul, weft_matmul, "the matrix product, 1-d as in NumPy")

#define DEFINE(name, op, doc) \
  static PyObject *unary_##name(PyObject *module, PyObject *x) { (void)module; return apply_unary(op, x); }
UNARY(DEFINE)
#undef DEFINE

static int two(PyObject *args, PyObject **x, PyObject **y) {
  return PyArg_UnpackTuple(args, "a function of two arrays", 2, 2, x, y);
}
#define DEFINE(name, op, doc) \
  static PyObject *binary_##name(PyObject *module, PyObject *args) { \
    PyObject *x, *y; \
    (void)module; \
    return two(args, &x, &y) ? apply_binary(op, x, y) : NULL; \
  }
BINARY(DEFINE)
#undef DEFINE

static PyObject *apply_ternary(weft_array *(*op)(weft_array *, weft_array *, weft_array *), PyObject *args) {
  PyObject *o[3];
  weft_array *a[3];
  if (!PyArg_UnpackTuple(args, "a function of three arrays", 3, 3, &o[0], &o[1], &o[2])) return NULL;
  weft_scope *s = op_begin();
  return op_end(s, convert_all(3, o, a) ? op(a[0], a[1], a[2]) : NULL);
}
static PyObject *where(PyObject *module, PyObject *args) { (void)module; return apply_ternary(weft_where, args); }
static PyObject *fma_(PyObject *module, PyObject *args) { (void)module; return apply_ternary(weft_fma, args); }

PyMethodDef element_functions[] = {
#define ROW(name, op, doc) { #name, unary_##name, METH_O, #name "(a): " doc },
  UNARY(ROW)
#undef ROW
#define ROW(name, op, doc) { #name, binary_##name, METH_VARARGS, #name "(a, b): " doc },
  BINARY(ROW)
#undef ROW
  { "where", where, METH_VARARGS, "where(condition, a, b): a where the condition holds, else b" },
  { "fma", fma_, METH_VARARGS, "fma(a, b, c): a b + c, rounded once" },
  { 0 },
};

#define METHODS(X) \
  X(abs) X(sign) X(floor) X(ceil) X(square) X(sqrt) X(rsqrt) X(reciprocal) X(exp) X(log) X(log1p) \
  X(log2) X(log10) X(sin) X(cos) X(tanh) X(sigmoid) X(conj)
#define DEFINE(name) \
  static PyObject *self_##name(PyObject *self, PyObject *unused) { return unary_##name(unused, self); }
METHODS(DEFINE)
#undef DEFINE

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
  return op_end(s, power(array_handle(x), n));
}

static int slot_bool(PyObject *self) {
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
                        weft_rank(array_handle(self)));
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

/* A number as numbers are; of other arrays only the plain text. */
static PyObject *format(PyObject *self, PyObject *spec) {
  if (!PyUnicode_Check(spec)) return PyErr_Format(PyExc_TypeError, "__format__: a text is expected");
  if (!PyUnicode_GET_LENGTH(spec)) return PyObject_Str(self);
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
  return in_python("weft._numpy", "rounded", decimals == Py_None ? PyTuple_Pack(1, self) : PyTuple_Pack(2, self, decimals));
}

PyMethodDef element_methods[] = {
#define ROW(name) { #name, self_##name, METH_NOARGS, "The function of this name." },
  METHODS(ROW)
#undef ROW
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
