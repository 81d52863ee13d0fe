/* mlx_element.c -- elementwise operations that MLX has otherwise than weft. */
#include <math.h>
#include "mlx.h"

int mlx_is_complex(weft_array *a) { return weft_dtype_of(a) == WEFT_C64 || weft_dtype_of(a) == WEFT_C128; }
static int is_real(weft_array *a) { return weft_dtype_of(a) > WEFT_I64 && !mlx_is_complex(a); }
static int either_is_complex(weft_array *a, weft_array *b) { return mlx_is_complex(a) || mlx_is_complex(b); }

/* ---- Casts ---- */

/* Floats that no integer holds: what the conversions of x86-64 give, as MLX's C++ has them there. An int32 or int64 becomes the
 * smallest one; narrower ones are the low bits of an int32, and uint32 those of an int64; uint64 wraps below 0. */
static weft_array *integers_of(weft_array *x, weft_dtype d) {
  int is_wide = d == WEFT_U32 || d == WEFT_U64 || d == WEFT_I64;
  double top = is_wide ? 9223372036854775808.0 : 2147483648.0;
  if (weft_dtype_bytes(weft_dtype_of(x)) == 2) x = weft_cast(x, WEFT_F32);
  weft_dtype through = is_wide ? WEFT_I64 : WEFT_I32;
  weft_array *fits = weft_and(weft_ge(x, weft_scalar(-top)), weft_lt(x, weft_scalar(top)));
  weft_array *smallest = weft_cast(weft_integer(is_wide ? INT64_MIN : INT32_MIN), through);
  weft_array *y = weft_cast(weft_where(fits, weft_cast(x, through), smallest), d);
  if (d != WEFT_U64) return y;
  weft_array *above = weft_where(weft_lt(x, weft_scalar(2 * top)), weft_cast(x, d), weft_cast(weft_integer(0), d));
  return weft_where(weft_ge(x, weft_scalar(top)), above, y);
}

weft_array *mlx_cast(weft_array *x, weft_dtype d) {
  if (mlx_is_complex(x) && d <= WEFT_I64) x = weft_real(x);
  return is_real(x) && d != WEFT_BOOL && d <= WEFT_I64 ? integers_of(x, d) : weft_cast(x, d);
}

/* ---- Of complex numbers: what weft has of real ones alone ---- */

static weft_array *times_i(weft_array *a) { return weft_complex(weft_neg(weft_imag(a)), weft_real(a)); }
static weft_array *over_i(weft_array *a) { return weft_complex(weft_imag(a), weft_neg(weft_real(a))); }
static weft_array *times(weft_array *a, double by) { /* each part: an infinite one leaves the other alone */
  return weft_complex(weft_mul(weft_real(a), weft_scalar(by)), weft_mul(weft_imag(a), weft_scalar(by)));
}

/* 1 + a and 1 - a with the sign of a zero imaginary part, which says on which side of a cut a is */
static weft_array *one_plus(weft_array *a) { return weft_complex(weft_add(weft_scalar(1), weft_real(a)), weft_imag(a)); }
static weft_array *one_minus(weft_array *a) {
  return weft_complex(weft_sub(weft_scalar(1), weft_real(a)), weft_neg(weft_imag(a)));
}

weft_array *mlx_log1p(weft_array *a) { return mlx_is_complex(a) ? weft_log(one_plus(a)) : weft_log1p(a); }
weft_array *mlx_log2(weft_array *a) { return mlx_is_complex(a) ? times(weft_log(a), 1.44269504088896340736) : weft_log2(a); }
weft_array *mlx_log10(weft_array *a) { return mlx_is_complex(a) ? times(weft_log(a), 0.43429448190325182765) : weft_log10(a); }

/* Kahan's formulas, of the roots r = sqrt(1 - z), s = sqrt(1 + z):
 * asin z = atan2(Re z, Re(r s)) + i asinh(Im(conj(r) s)),  acos z = 2 atan2(Re r, Re s) + i asinh(Im(conj(s) r)) */
static weft_array *imaginary(weft_array *a, weft_array *b) { return weft_asinh(weft_imag(weft_mul(weft_conj(a), b))); }

weft_array *mlx_asin(weft_array *z) {
  if (!mlx_is_complex(z)) return weft_asin(z);
  weft_array *r = weft_sqrt(one_minus(z)), *s = weft_sqrt(one_plus(z));
  return weft_complex(weft_atan2(weft_real(z), weft_real(weft_mul(r, s))), imaginary(r, s));
}
weft_array *mlx_acos(weft_array *z) {
  if (!mlx_is_complex(z)) return weft_acos(z);
  weft_array *r = weft_sqrt(one_minus(z)), *s = weft_sqrt(one_plus(z));
  return weft_complex(weft_mul(weft_scalar(2), weft_atan2(weft_real(r), weft_real(s))), imaginary(s, r));
}
/* asinh z = asin(i z) / i */
weft_array *mlx_asinh(weft_array *z) { return mlx_is_complex(z) ? over_i(mlx_asin(times_i(z))) : weft_asinh(z); }
/* acosh z = asinh(Re(conj(sqrt(z - 1)) sqrt(z + 1))) + 2 i atan2(Im sqrt(z - 1), Re sqrt(z + 1)) */
weft_array *mlx_acosh(weft_array *z) {
  if (!mlx_is_complex(z)) return weft_acosh(z);
  weft_array *r = weft_sqrt(weft_complex(weft_sub(weft_real(z), weft_scalar(1)), weft_imag(z))), *s = weft_sqrt(one_plus(z));
  weft_array *turn = weft_mul(weft_scalar(2), weft_atan2(weft_imag(r), weft_real(s)));
  return weft_complex(weft_asinh(weft_real(weft_mul(weft_conj(r), s))), turn);
}
/* atanh(x + i y) = log1p(4 x / ((1 - x)^2 + y^2)) / 4 + i atan2(2 y, (1 - x)(1 + x) - y^2) / 2 */
weft_array *mlx_atanh(weft_array *z) {
  if (!mlx_is_complex(z)) return weft_atanh(z);
  weft_array *x = weft_real(z), *y = weft_imag(z), *left = weft_sub(weft_scalar(1), x), *right = weft_add(weft_scalar(1), x);
  weft_array *far = weft_add(weft_square(left), weft_square(y));
  weft_array *re = weft_mul(weft_log1p(weft_div(weft_mul(weft_scalar(4), x), far)), weft_scalar(0.25));
  weft_array *turn = weft_atan2(weft_mul(weft_scalar(2), y), weft_sub(weft_mul(left, right), weft_square(y)));
  return weft_complex(re, weft_mul(turn, weft_scalar(0.5)));
}
/* atan z = atanh(i z) / i */
weft_array *mlx_atan(weft_array *z) { return mlx_is_complex(z) ? over_i(mlx_atanh(times_i(z))) : weft_atan(z); }

/* Refused there, so that nobody gets the real part alone. */
static weft_array *real_alone(const char *name, weft_array *a, weft_array *(*op)(weft_array *)) {
  if (!mlx_is_complex(a)) return op(a);
  return PyErr_Format(PyExc_ValueError, "%s: not of complex numbers", name), NULL;
}
weft_array *mlx_expm1(weft_array *a) { return real_alone("expm1", a, weft_expm1); }
weft_array *mlx_sigmoid(weft_array *a) { return real_alone("sigmoid", a, weft_sigmoid); }
weft_array *mlx_erf(weft_array *a) { return real_alone("erf", a, weft_erf); }
weft_array *mlx_erfinv(weft_array *a) { return real_alone("erfinv", a, weft_erfinv); }

weft_array *mlx_logaddexp(weft_array *a, weft_array *b) {
  if (!either_is_complex(a, b)) return weft_logaddexp(a, b);
  weft_array *is_first = weft_ge(weft_real(a), weft_real(b));
  weft_array *more = weft_where(is_first, a, b), *less = weft_where(is_first, b, a);
  weft_array *is_none = weft_eq(weft_real(less), weft_scalar(-INFINITY)); /* e^-inf adds nothing, to another of its kind neither */
  weft_array *by = weft_sub(weft_where(is_none, weft_scalar(0), less), weft_where(is_none, weft_scalar(0), more));
  return weft_where(is_none, more, weft_add(more, mlx_log1p(weft_exp(by))));
}

/* z / |z|; of a real number that is nan: 0 */
weft_array *mlx_sign(weft_array *a) {
  weft_array *zero = weft_scalar(0);
  weft_dtype d = weft_dtype_of(a);
  if (is_real(a)) return weft_sub(weft_cast(weft_gt(a, zero), d), weft_cast(weft_lt(a, zero), d));
  if (!mlx_is_complex(a)) return weft_sign(a);
  weft_array *size = weft_abs(a);
  return weft_where(weft_eq(size, zero), a, weft_div(a, size));
}

/* ---- Order ---- */

/* By the real part, then by the imaginary one. */
static weft_array *above(weft_array *a, weft_array *b, weft_array *(*last)(weft_array *, weft_array *)) {
  weft_array *x = weft_real(a), *y = weft_real(b);
  return weft_or(weft_gt(x, y), weft_and(weft_eq(x, y), last(weft_imag(a), weft_imag(b))));
}
weft_array *mlx_greater(weft_array *a, weft_array *b) { return either_is_complex(a, b) ? above(a, b, weft_gt) : weft_gt(a, b); }
weft_array *mlx_greater_equal(weft_array *a, weft_array *b) {
  return either_is_complex(a, b) ? above(a, b, weft_ge) : weft_ge(a, b);
}
weft_array *mlx_less(weft_array *a, weft_array *b) { return either_is_complex(a, b) ? above(b, a, weft_gt) : weft_lt(a, b); }
weft_array *mlx_less_equal(weft_array *a, weft_array *b) { return either_is_complex(a, b) ? above(b, a, weft_ge) : weft_le(a, b); }

/* Where both are equal the derivative is the second one's alone; weft shares it. NaN wins all the same. */
static weft_array *second_of_equals(weft_array *a, weft_array *b, weft_array *is_first) {
  return weft_where(weft_dtype_of(a) > WEFT_I64 ? weft_or(is_first, weft_isnan(a)) : is_first, a, b);
}
weft_array *mlx_maximum(weft_array *a, weft_array *b) { return second_of_equals(a, b, mlx_greater(a, b)); }
weft_array *mlx_minimum(weft_array *a, weft_array *b) { return second_of_equals(a, b, mlx_less(a, b)); }
weft_array *mlx_clip(weft_array *x, weft_array *low, weft_array *high) {
  if (low) x = mlx_maximum(x, low);
  return high ? mlx_minimum(x, high) : x;
}

/* ---- Integers ---- */

/* Of floats the rounded quotient, rounded down: 1 // 0.1 is 10. Of complex numbers it is not rounded. */
weft_array *mlx_floor_divide(weft_array *a, weft_array *b) {
  weft_dtype d = weft_dtype_promote(weft_dtype_of(a), weft_dtype_of(b));
  if (d >= WEFT_C64) return weft_div(a, b);
  return d > WEFT_I64 ? weft_floor(weft_div(a, b)) : weft_floor_divide(a, b);
}

/* An integer to a negative power is 0, whatever the integer is. */
weft_array *mlx_power(weft_array *a, weft_array *b) {
  weft_array *y = weft_pow(a, b);
  if (weft_dtype_of(y) > WEFT_I64 || weft_dtype_of(y) < WEFT_I8 || weft_check(y)) return y;
  return weft_where(weft_lt(b, weft_integer(0)), weft_cast(weft_integer(0), weft_dtype_of(y)), y);
}

/* The functions of bits refuse floats with a RuntimeError, the operators with a ValueError. */
typedef weft_array *(*bits)(weft_array *, weft_array *);
static weft_array *of_bits(const char *name, bits op, weft_array *a, weft_array *b) {
  weft_dtype d = weft_dtype_promote(weft_dtype_of(a), weft_dtype_of(b));
  if (d <= WEFT_I64 || weft_check(a) || weft_check(b)) return op(a, b);
  return PyErr_Format(PyExc_RuntimeError, "%s: of integers or bools, not of %s", name, dtype_text(d)), NULL;
}
weft_array *mlx_and(weft_array *a, weft_array *b) { return of_bits("bitwise_and", weft_and, a, b); }
weft_array *mlx_or(weft_array *a, weft_array *b) { return of_bits("bitwise_or", weft_or, a, b); }
weft_array *mlx_xor(weft_array *a, weft_array *b) { return of_bits("bitwise_xor", weft_xor, a, b); }

/* Bools are shifted as uint8. */
static weft_array *shift(bits op, weft_array *a, weft_array *b) {
  int are_bools = weft_dtype_of(a) == WEFT_BOOL && weft_dtype_of(b) == WEFT_BOOL;
  return are_bools ? op(weft_cast(a, WEFT_U8), weft_cast(b, WEFT_U8)) : op(a, b);
}
weft_array *mlx_shl(weft_array *a, weft_array *b) { return shift(weft_shl, a, b); }
weft_array *mlx_shr(weft_array *a, weft_array *b) { return shift(weft_shr, a, b); }
weft_array *mlx_left_shift(weft_array *a, weft_array *b) { return of_bits("left_shift", mlx_shl, a, b); }
weft_array *mlx_right_shift(weft_array *a, weft_array *b) { return of_bits("right_shift", mlx_shr, a, b); }
