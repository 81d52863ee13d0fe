/* mlx.c -- arrays with the conventions of MLX: a second type over the struct of weft.array, of which it is a kind. What differs
 * is decided here, when a node is built: how numbers and other objects become operands, which objects are refused, which
 * exceptions are raised. The nodes are the same, and nothing behind weft.h knows of it. */
#include "mlx.h"
#include <string.h>

typedef weft_array *(*binary)(weft_array *, weft_array *);

/* ---- Operands ---- */

int mlx_is_made_of(PyObject *o) { return flavour() == &mlx_array_type && PyObject_HasAttrString(o, "__mlx_array__"); }

/* Aliases, because the object dies here and the scope must hold the array. */
weft_array *mlx_from(PyObject *o, const weft_dtype *wanted) {
  PyObject *made = PyObject_CallMethod(o, "__mlx_array__", NULL);
  weft_array *a = NULL;
  if (made && array_check(made)) a = weft_alias(array_handle(made));
  else if (made) PyErr_Format(PyExc_TypeError, "__mlx_array__ gave %.200s", Py_TYPE(made)->tp_name);
  Py_XDECREF(made);
  return a && wanted && weft_dtype_of(a) != *wanted ? weft_cast(a, *wanted) : a;
}

int mlx_size_refuses(int64_t n) {
  if ((n >= INT32_MIN && n <= INT32_MAX) || n == WEFT_ANY || flavour() != &mlx_array_type) return 0;
  PyErr_Format(PyExc_OverflowError, "Shape dimension %lld is outside the supported range [%d, %d]. MLX currently uses "
               "32-bit integers for shape dimensions.", (long long)n, INT32_MIN, INT32_MAX); /* this is what MLX says */
  return 1;
}

/* NumPy's complex128, though one of Python's complex numbers too, is memory there. */
static int is_number(PyObject *o) {
  return PyFloat_Check(o) || PyLong_Check(o) || (PyComplex_Check(o) && (PyComplex_CheckExact(o) || !PyObject_CheckBuffer(o)));
}

/* Whether an integer is in the range of a dtype of fewer than 64 bits; sets the exception. */
int mlx_fits(PyObject *o, weft_dtype d) {
  static const int bits[] = { [WEFT_U8] = 8, [WEFT_U16] = 16, [WEFT_U32] = 32, [WEFT_I8] = 7, [WEFT_I16] = 15, [WEFT_I32] = 31 };
  if (PyBool_Check(o) || !PyLong_Check(o) || d == WEFT_BOOL || d > WEFT_I32 || d == WEFT_U64) return 1;
  int overflow, is_signed = d >= WEFT_I8;
  long long v = PyLong_AsLongLongAndOverflow(o, &overflow), top = (1LL << bits[d]) - 1;
  if (!overflow && v <= top && v >= (is_signed ? -top - 1 : 0)) return 1;
  PyErr_Format(PyExc_ValueError, "converting %R to %s would result in overflow", o, dtype_text(d));
  return 0;
}

/* An object that is no array and no number and says what number it stands for (__complex__, __float__, __index__) is a complex
 * number there, as the last of the kinds that are tried. */
static int stands_for_number(PyObject *o) {
  const PyNumberMethods *m = Py_TYPE(o)->tp_as_number;
  if (o == Py_None || convert_is_possible(o) || mlx_is_made_of(o)) return 0;
  return (m && (m->nb_float || m->nb_index)) || PyObject_HasAttrString((PyObject *)Py_TYPE(o), "__complex__");
}
static PyObject *number_it_stands_for(PyObject *o) {
  Py_complex c = PyComplex_AsCComplex(o);
  return c.real == -1 && PyErr_Occurred() ? NULL : PyComplex_FromCComplex(c);
}

static weft_array *operand(PyObject *o, const weft_dtype *partner) {
  if (!is_number(o) && stands_for_number(o)) {
    PyObject *number = number_it_stands_for(o);
    weft_array *a = number ? operand(number, partner) : NULL;
    Py_XDECREF(number);
    return a;
  }
  if (PyList_Check(o) || PyTuple_Check(o) || PyRange_Check(o)) partner = NULL; /* what array(o) is: MLX takes none */
  if (!is_number(o)) return convert_array(o, partner, 0);
  if (!partner) return convert_array(o, NULL, 0);
  if (*partner == WEFT_U64 && PyLong_Check(o) && !PyBool_Check(o)) return convert_array(o, partner, 0); /* below 0 it wraps */
  return mlx_fits(o, *partner) ? convert_operand(o) : NULL;
}

int mlx_operands(int n, PyObject *const o[], weft_array *a[]) {
  weft_dtype d = WEFT_BOOL;
  int has_partner = 0;
  for (int i = 0; i < n && !has_partner; i++)
    if (array_check(o[i])) d = weft_dtype_of(array_handle(o[i])), has_partner = 1;
  for (int i = 0; i < n; i++)
    if (!array_check(o[i]) && !(a[i] = operand(o[i], has_partner ? &d : NULL))) return 0;
  for (int i = 0; i < n; i++)
    if (array_check(o[i])) a[i] = array_handle(o[i]);
  return 1;
}

static int is_operand(PyObject *o) {
  int is_sequence = PyList_Check(o) || PyTuple_Check(o) || PyRange_Check(o);
  return array_check(o) || (!is_sequence && convert_is_possible(o)) || mlx_is_made_of(o) || stands_for_number(o);
}

/* ---- Operators ---- */

static PyObject *refuse(PyObject *kind, PyObject *x, PyObject *y) {
  if (x == Py_None || y == Py_None) kind = PyExc_TypeError;
  return PyErr_Format(kind, "cannot operate on %.100s and %.100s", Py_TYPE(x)->tp_name, Py_TYPE(y)->tp_name);
}

/* Operands on another device than the thread's, for an operator that is then called again there. */
struct brought { int device, before; PyObject *x, *y; };

static int bring(struct brought *b, PyObject *x, PyObject *y) { /* y may be NULL; -1: an exception is set */
  int n = 0;
  *b = (struct brought){ .device = place_now(), .before = place_set(-1) };
  b->x = place_there(x, b->device, &n);
  b->y = b->x && y ? place_there(y, b->device, &n) : NULL;
  return b->x && (b->y || !y) ? 0 : -1;
}
static PyObject *take_back(struct brought *b, PyObject *result) {
  Py_XDECREF(b->x);
  Py_XDECREF(b->y);
  result = place_away(result, b->device);
  place_set(b->before);
  return result;
}

static weft_array *matmul(weft_array *, weft_array *);

/* A product with a number or a list is a mistake of types: other operators take numbers. */
static int is_no_factor(PyObject *o) {
  return PyLong_Check(o) || PyFloat_Check(o) || PyComplex_Check(o) || stands_for_number(o) || !is_operand(o);
}

/* MLX's arrays have no & | ^ << >> of something before them: that such a call fails is a matter of types there. What else
 * cannot be made an operand is a wrong value. */
static void as_mlx_calls_it(binary op, PyObject *x, PyObject *y) {
  int is_bitwise = op == weft_and || op == weft_or || op == weft_xor || op == mlx_shl || op == mlx_shr;
  if (op == matmul ? !(array_check(x) && array_check(y)) : is_bitwise && !array_check(x)) mlx_as(PyExc_ValueError, PyExc_TypeError);
  else if (x != Py_None && y != Py_None && op != matmul) mlx_as_value_error(PyExc_TypeError);
}

static PyObject *operate(binary op, PyObject *x, PyObject *y) {
  weft_array *a[2];
  struct brought b;
  if (place_now() >= 0) return take_back(&b, bring(&b, x, y) ? NULL : operate(op, b.x, b.y));
  PyTypeObject *before = flavour_set(&mlx_array_type);
  PyObject *result = NULL;
  if (op == matmul && (is_no_factor(x) || is_no_factor(y))) refuse(PyExc_TypeError, x, y);
  else if (!is_operand(x) || !is_operand(y)) refuse(PyExc_ValueError, x, y);
  else {
    weft_scope *s = op_begin();
    int (*take)(int, PyObject *const *, weft_array **) = op == matmul ? convert_arrays : mlx_operands;
    result = op_end(s, take(2, (PyObject *[]){ x, y }, a) ? op(a[0], a[1]) : NULL);
  }
  if (!result) as_mlx_calls_it(op, x, y);
  flavour_set(before);
  return result;
}

/* x += y is x = x + y inside the object: all who hold it see the sum. */
static PyObject *operate_inplace(binary op, PyObject *x, PyObject *y) {
  if (body_refuses(((struct array *)x)->body)) return NULL;
  PyObject *sum = operate(op, x, y);
  int failed = !sum || array_assign(x, array_handle(sum));
  Py_XDECREF(sum);
  return failed ? NULL : Py_NewRef(x);
}

static int is_inexact(weft_array *a) { return weft_dtype_of(a) > WEFT_I64; }

/* Products of integers are refused, as there. */
static weft_array *matmul(weft_array *a, weft_array *b) {
  weft_dtype d = weft_dtype_promote(weft_dtype_of(a), weft_dtype_of(b));
  if (d <= WEFT_I64 && !weft_check(a) && !weft_check(b))
    return PyErr_Format(PyExc_ValueError, "matmul: only inexact types are supported, not %s", dtype_text(d)), NULL;
  return weft_matmul(a, b);
}

#define OPERATORS(X) \
  X(add, weft_add) X(subtract, weft_sub) X(multiply, weft_mul) X(floor_divide, mlx_floor_divide) X(remainder, weft_remainder) \
  X(lshift, mlx_shl) X(rshift, mlx_shr) X(matrix_multiply, matmul) X(and, weft_and) X(or, weft_or) X(xor, weft_xor)
#define DEFINE(name, op) \
  static PyObject *slot_##name(PyObject *x, PyObject *y) { return operate(op, x, y); } \
  static PyObject *inplace_##name(PyObject *x, PyObject *y) { return operate_inplace(op, x, y); }
OPERATORS(DEFINE)
#undef DEFINE

static PyObject *slot_true_divide(PyObject *x, PyObject *y) { return operate(weft_div, x, y); }
static PyObject *inplace_true_divide(PyObject *x, PyObject *y) {
  if (is_inexact(array_handle(x))) return operate_inplace(weft_div, x, y);
  return PyErr_Format(PyExc_ValueError, "in-place division of an array of %s", dtype_text(weft_dtype_of(array_handle(x))));
}

static PyObject *slot_power(PyObject *x, PyObject *y, PyObject *modulus) {
  struct brought b;
  if (modulus != Py_None) Py_RETURN_NOTIMPLEMENTED;
  if (place_now() >= 0) return take_back(&b, bring(&b, x, y) ? NULL : slot_power(b.x, b.y, modulus));
  if (array_check(x) && PyLong_CheckExact(y) && is_inexact(array_handle(x))) return element_numbers.nb_power(x, y, modulus);
  return operate(mlx_power, x, y);
}
static PyObject *inplace_power(PyObject *x, PyObject *y, PyObject *modulus) {
  return modulus != Py_None ? Py_NewRef(Py_NotImplemented) : operate_inplace(mlx_power, x, y);
}

static PyObject *slot_unary(weft_array *(*op)(weft_array *), PyObject *x) {
  struct brought b;
  if (place_now() >= 0) return take_back(&b, bring(&b, x, NULL) ? NULL : slot_unary(op, b.x));
  PyTypeObject *before = flavour_set(&mlx_array_type);
  weft_scope *s = op_begin();
  PyObject *result = op_end(s, op(array_handle(x)));
  flavour_set(before);
  return result;
}
static PyObject *slot_negative(PyObject *x) { return slot_unary(weft_neg, x); }
static PyObject *slot_absolute(PyObject *x) { return slot_unary(weft_abs, x); }
static PyObject *slot_invert(PyObject *x) { return slot_unary(weft_not, x); }

static PyNumberMethods numbers = {
#define ROW(name, op) .nb_##name = slot_##name, .nb_inplace_##name = inplace_##name,
  OPERATORS(ROW)
#undef ROW
  .nb_true_divide = slot_true_divide, .nb_inplace_true_divide = inplace_true_divide, .nb_power = slot_power,
  .nb_inplace_power = inplace_power, .nb_negative = slot_negative, .nb_absolute = slot_absolute, .nb_invert = slot_invert,
};

/* What is no array nor number is not equal, and not smaller either. */
static PyObject *compare(PyObject *x, PyObject *y, int op) {
  static const binary ops[] = { [Py_LT] = mlx_less, [Py_LE] = mlx_less_equal, [Py_EQ] = weft_eq, [Py_NE] = weft_ne,
                                [Py_GT] = mlx_greater, [Py_GE] = mlx_greater_equal };
  if (op == Py_EQ || op == Py_NE) {
    PyTypeObject *before = flavour_set(&mlx_array_type);
    int can = is_operand(y);
    flavour_set(before);
    if (!can) return PyBool_FromLong(op == Py_NE);
  }
  return operate(ops[op], x, y);
}

/* ---- Indices ---- */

void mlx_as(PyObject *kind, PyObject *other) {
  PyObject *type, *value, *trace;
  if (!PyErr_Occurred() || !PyErr_ExceptionMatches(kind) || PyErr_ExceptionMatches(other)) return;
  PyErr_Fetch(&type, &value, &trace);
  PyObject *text = value ? PyObject_Str(value) : NULL;
  if (text) PyErr_SetObject(other, text);
  Py_XDECREF(text);
  Py_XDECREF(type);
  Py_XDECREF(value);
  Py_XDECREF(trace);
}

/* There an index that does not fit, or is none, is a ValueError. */
void mlx_as_value_error(PyObject *kind) { mlx_as(kind, PyExc_ValueError); }

/* Bounds of slices have 32 bits there. */
static int is_far(PyObject *bound) {
  int overflow;
  if (!PyLong_CheckExact(bound)) return 0;
  long long n = PyLong_AsLongLongAndOverflow(bound, &overflow);
  return overflow || n < INT32_MIN || n > INT32_MAX;
}
static int index_refuses(PyObject *index) {
  Py_ssize_t n = PyTuple_CheckExact(index) ? PyTuple_GET_SIZE(index) : 1;
  for (Py_ssize_t i = 0; i < n; i++) {
    PyObject *item = PyTuple_CheckExact(index) ? PyTuple_GET_ITEM(index, i) : index;
    PySliceObject *s = PySlice_Check(item) ? (PySliceObject *)item : NULL;
    if (s && (is_far(s->start) || is_far(s->stop) || is_far(s->step)))
      return PyErr_Format(PyExc_ValueError, "slices are bounded by integers of 32 bits, not %R", item), 1;
  }
  return 0;
}

static PyObject *get(PyObject *self, PyObject *index) {
  if (index_refuses(index)) return NULL;
  struct brought b;
  if (place_now() >= 0) return take_back(&b, bring(&b, self, NULL) ? NULL : get(b.x, index));
  PyTypeObject *before = flavour_set(&mlx_array_type);
  PyObject *part = index_get(self, index);
  if (!part) mlx_as_value_error(PyExc_IndexError), mlx_as_value_error(PyExc_TypeError);
  flavour_set(before);
  return part;
}

/* Whether an index is one bool for all elements: a number, or 0-d. */
static int is_for_all(PyObject *index) {
  return PyBool_Check(index) || (array_check(index) && !weft_rank(array_handle(index)) &&
                                 weft_dtype_of(array_handle(index)) == WEFT_BOOL);
}

static int put_all(PyObject *self, PyObject *mask, PyObject *value) {
  if (body_refuses(((struct array *)self)->body)) return -1;
  weft_scope *s = op_begin();
  weft_array *a[2], *m, *x = array_handle(self);
  int failed = !mlx_operands(2, (PyObject *[]){ value, self }, a) || !(m = convert_array(mask, NULL, 0)) ||
               array_assign(self, weft_broadcast_like(weft_where(m, mlx_cast(a[0], weft_dtype_of(x)), x), x));
  weft_scope_discard(s);
  return failed ? -1 : 0;
}

/* x[mask] = v without the values of the mask: its k-th true element gets the k-th of v. */
static int put_in_order(PyObject *self, PyObject *mask, PyObject *value) {
  weft_scope *s = op_begin();
  weft_array *x = array_handle(self), *m = array_handle(mask), *v = convert_array(value, NULL, 0);
  int rest = weft_rank(x) - weft_rank(m), failed = !v || rest < 0;
  if (v && rest < 0) PyErr_SetString(PyExc_ValueError, "a mask has more axes than the array");
  if (!failed) {
    for (int i = 0; i < rest; i++) m = weft_unsqueeze(m, weft_rank(m));
    m = weft_broadcast_like(m, x);
    weft_array *flat = weft_reshape(m, 1, (int64_t[]){ WEFT_ANY }), *from = weft_reshape(v, 1, (int64_t[]){ WEFT_ANY });
    weft_array *at = weft_sub(weft_cumsum(weft_cast(flat, WEFT_I32), 0), weft_integer(1));
    at = weft_clip(at, weft_integer(0), weft_sub(weft_size(from, 0), weft_integer(1)));
    weft_array *chosen = weft_reshape_like(weft_take(from, 1, &at), x);
    failed = array_assign(self, weft_where(m, mlx_cast(chosen, weft_dtype_of(x)), x));
  }
  weft_scope_discard(s);
  return failed ? -1 : 0;
}

static int64_t count(weft_array *a, int first) { /* elements of the axes from there on */
  int64_t n = 1;
  for (int k = first; k < weft_rank(a); k++) n *= weft_dim(a, k);
  return n;
}

/* Whether there are values for all elements that a mask, whose values are known, wants, and more. */
static int has_more(PyObject *self, PyObject *mask, PyObject *value) {
  if (!value || weft_rank(array_handle(mask)) > weft_rank(array_handle(self))) return 0;
  PyObject *type, *error, *trace;
  int64_t chosen = 0;
  PyErr_Fetch(&type, &error, &trace);
  weft_scope *s = weft_scope_open();
  weft_array *v = convert_array(value, NULL, 0), *n = weft_own(weft_sum(weft_cast(array_handle(mask), WEFT_I64), WEFT_ALL));
  int failed = !v || evaluate_into(n, &chosen, sizeof chosen);
  int64_t n_values = failed ? 0 : count(v, 0), wanted = chosen * count(array_handle(self), weft_rank(array_handle(mask)));
  weft_disown(n);
  weft_scope_discard(s);
  PyErr_Restore(type, error, trace); /* which is what is said if there are not */
  return !failed && wanted > 0 && n_values >= wanted;
}

static int is_mask(PyObject *index) {
  return array_check(index) && weft_rank(array_handle(index)) > 0 && weft_dtype_of(array_handle(index)) == WEFT_BOOL;
}

/* Whether a mask has no value yet, and is given several: which of them it takes is known when it is. -1: it failed. */
static int wants_order(PyObject *index, PyObject *value) {
  if (!array_check(value) || !weft_rank(array_handle(value))) return 0;
  weft_array *mask = weft_own(array_handle(index));
  int failed = evaluate(1, &mask);
  weft_disown(mask);
  if (!failed) return 0;
  if (!raised_no_value()) return -1;
  return PyErr_Clear(), 1;
}

/* Arrays that were changed and not computed since: {address: weak reference}. A cache that a program writes into is not what it
 * asks for, but what it will ask with: were it not computed along, each step would compute all steps before it again. */
static PyObject *changed;

static int note_change(PyObject *self) {
  if (body_serial()) return 0; /* it has no value */
  PyObject *key = PyLong_FromVoidPtr(self), *reference = key ? PyWeakref_NewRef(self, NULL) : NULL;
  int failed = !reference || PyDict_SetItem(changed, key, reference);
  Py_XDECREF(key);
  Py_XDECREF(reference);
  return failed ? -1 : 0;
}

/* _changed(): a list of them, which are forgotten with it. */
static PyObject *take_changed(PyObject *module, PyObject *unused) {
  (void)module, (void)unused;
  PyObject *list = PyList_New(0), *references = list ? PyDict_Values(changed) : NULL;
  for (Py_ssize_t i = 0; references && i < PyList_GET_SIZE(references); i++) {
    PyObject *o = PyObject_CallNoArgs(PyList_GET_ITEM(references, i)); /* None: it is gone */
    if (!o || (o != Py_None && PyList_Append(list, o))) Py_CLEAR(list);
    Py_XDECREF(o);
    if (!list) break;
  }
  Py_XDECREF(references);
  PyDict_Clear(changed);
  return list;
}

static int put(PyObject *self, PyObject *index, PyObject *value) {
  if (index_refuses(index)) return -1;
  if (value && !array_check(value) && !is_number(value) && stands_for_number(value)) {
    PyObject *number = number_it_stands_for(value);
    int failed = number ? put(self, index, number) : -1;
    Py_XDECREF(number);
    return failed;
  }
  PyTypeObject *before = flavour_set(&mlx_array_type);
  int in_order = value && is_mask(index) ? wants_order(index, value) : 0;
  int failed = in_order < 0 || (value && !mlx_fits(value, weft_dtype_of(array_handle(self)))) ? -1
               : in_order                                               ? put_in_order(self, index, value)
               : value && is_for_all(index)                             ? put_all(self, index, value)
                                                                        : index_set(self, index, value);
  if (failed && is_mask(index) && has_more(self, index, value)) {
    PyErr_Clear();
    failed = put_in_order(self, index, value);
  }
  if (!failed) failed = note_change(self);
  else mlx_as_value_error(PyExc_IndexError);
  if (failed && value != Py_None) mlx_as_value_error(PyExc_TypeError);
  flavour_set(before);
  return failed;
}

/* self[index] = value on another device: of a copy, whose array self then has. */
static int put_there(PyObject *self, PyObject *index, PyObject *value) {
  if (body_refuses(((struct array *)self)->body)) return -1;
  struct brought b;
  PyObject *made = take_back(&b, bring(&b, self, NULL) || put(b.x, index, value) ? NULL : Py_NewRef(b.x));
  int failed = !made || array_assign(self, array_handle(made)) || note_change(self);
  Py_XDECREF(made);
  return failed ? -1 : 0;
}
static int put_anywhere(PyObject *self, PyObject *index, PyObject *value) {
  if (!value) return PyErr_SetString(PyExc_AttributeError, "__delitem__"), -1; /* which MLX's arrays do not have */
  return place_now() >= 0 ? put_there(self, index, value) : put(self, index, value);
}

static PyMappingMethods mapping = { .mp_subscript = get, .mp_ass_subscript = put_anywhere };

/* ---- The type ---- */

static PyObject *make(PyObject *args, PyObject *kwargs) {
  static char *names[] = { "val", "dtype", NULL };
  PyObject *o, *dtype = Py_None;
  weft_dtype wanted;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|O:array", names, &o, &dtype)) return NULL;
  if (dtype != Py_None && dtype_parse(dtype, &wanted)) return NULL;
  int is_bytes = PyBytes_Check(o) || PyByteArray_Check(o);
  PyTypeObject *before = flavour_set(&mlx_array_type);
  PyObject *source = is_bytes ? PyMemoryView_FromObject(o) : Py_NewRef(o);
  weft_scope *s = op_begin();
  PyObject *array = op_end(s, source ? convert_array(source, dtype == Py_None ? NULL : &wanted, 0) : NULL);
  Py_XDECREF(source);
  flavour_set(before);
  if (!array && o != Py_None) mlx_as_value_error(PyExc_TypeError);
  return array;
}

/* Types that users derive make theirs in __init__, which may have arguments of its own; until then it is a number. */
static PyObject *new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
  if (type == &mlx_array_type) return make(args, kwargs);
  struct array *self = (struct array *)type->tp_alloc(type, 0);
  if (!self) return NULL;
  weft_scope *s = weft_scope_open();
  self->handle = weft_own(weft_integer(0));
  weft_scope_discard(s);
  self->body = body_serial();
  self->there = NULL;
  return (PyObject *)self;
}
static int init(PyObject *self, PyObject *args, PyObject *kwargs) {
  if (Py_TYPE(self) == &mlx_array_type) return 0;
  PyObject *made = make(args, kwargs);
  int failed = !made || array_assign(self, array_handle(made));
  Py_XDECREF(made);
  return failed ? -1 : 0;
}

static PyObject *represent(PyObject *self) { return in_python("weft.mlx._text", "represent", PyTuple_Pack(1, self)); }
static PyObject *reduce(PyObject *self, PyObject *unused) {
  (void)unused;
  return in_python("weft.mlx._text", "reduce", PyTuple_Pack(1, self));
}
static PyObject *namespace(PyObject *self, PyObject *args, PyObject *kwargs) {
  (void)self;
  PyObject *module = PyImport_ImportModule("weft.mlx._text"), *f = module ? PyObject_GetAttrString(module, "namespace") : NULL;
  PyObject *result = f ? PyObject_Call(f, args, kwargs) : NULL;
  Py_XDECREF(f);
  Py_XDECREF(module);
  return result;
}

/* as_mlx(a): the same array in this flavour, as as_weft(a) is in the other. */
static PyObject *as_mlx(PyObject *module, PyObject *o) {
  (void)module;
  if (!array_check(o)) return PyErr_Format(PyExc_TypeError, "an array is expected, not %.200s", Py_TYPE(o)->tp_name);
  if (mlx_check(o)) return Py_NewRef(o);
  PyObject *same = array_wrap_as(&mlx_array_type, array_handle(o));
  if (same) ((struct array *)same)->is_foreign = ((struct array *)o)->is_foreign;
  return same;
}
static PyObject *as_weft(PyObject *module, PyObject *o) {
  (void)module;
  if (!array_check(o)) return PyErr_Format(PyExc_TypeError, "an array is expected, not %.200s", Py_TYPE(o)->tp_name);
  return Py_TYPE(o) == &array_type ? Py_NewRef(o) : array_wrap_as(&array_type, array_handle(o));
}

/* _add_method(name, function): what is written in Python. */
static PyObject *add_method(PyObject *module, PyObject *args) {
  PyObject *name, *function;
  (void)module;
  if (!PyArg_ParseTuple(args, "UO", &name, &function) || PyDict_SetItem(mlx_array_type.tp_dict, name, function)) return NULL;
  PyType_Modified(&mlx_array_type);
  Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
  { "_changed", take_changed, METH_NOARGS, "_changed(): arrays that were changed and not computed since, which are forgotten" },
  { "_add_method", add_method, METH_VARARGS, "_add_method(name, function): a method of arrays that is written in Python" },
  { "as_mlx", as_mlx, METH_O, "as_mlx(a): the same array with MLX's conventions" },
  { "as_weft", as_weft, METH_O, "as_weft(a): the same array with weft's conventions" },
  { 0 },
};
static PyMethodDef methods[] = {
  { "__reduce__", reduce, METH_NOARGS, "How to pickle it: by value." },
  { "__array_namespace__", WITH_KEYWORDS(namespace), "The module mlx.core." },
  { 0 },
};

PyTypeObject mlx_array_type = {
  PyVarObject_HEAD_INIT(NULL, 0)
  .tp_name = "weft.mlx.core.array",
  .tp_base = &array_type,
  .tp_basicsize = sizeof(struct array),
  .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
  .tp_doc = "array(val, dtype=None): an n-dimensional array with the conventions of MLX.",
  .tp_new = new,
  .tp_init = init,
  .tp_repr = represent,
  .tp_as_number = &numbers,
  .tp_as_mapping = &mapping,
  .tp_richcompare = compare,
  .tp_methods = methods,
};

int mlx_add(PyObject *module) {
  PyObject *mlx = PyModule_New("weft.mlx.core");
  mlx_array_type.tp_hash = PyBaseObject_Type.tp_hash; /* by identity */
  if (!mlx || !(changed = PyDict_New()) || PyType_Ready(&mlx_array_type) ||
      PyObject_SetAttrString(mlx, "array", (PyObject *)&mlx_array_type) ||
      dtype_add_all(mlx, &mlx_array_type) || PyModule_AddFunctions(mlx, functions) || PyModule_AddFunctions(mlx, place_functions) ||
      names_install(mlx_names, mlx, &mlx_array_type, "weft.mlx.core"))
    return Py_XDECREF(mlx), -1;
  return PyModule_AddObject(module, "_mlx", mlx);
}
