/* coverage.c -- writes docs/coverage.md: what each operation can do, measured. Every cell is a run of the checks that the
 * tests are made of; what fails, or is not there, needs a sentence in `reasons`, else the program fails.
 *
 *   weft-coverage                 the page, to stdout; takes minutes, and up to 6 GiB of memory
 *   weft-coverage --add FILE      the last column only where the page in FILE has none that says yes
 *   weft-coverage --check FILE    all columns but the last again, against the page in FILE; of dtypes dense arrays of every shape, and every
 *                                 other layout on a third of them: the tests (every_op.c) meet another third */
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include "every_op.h"
#include "every_recipe.h"
#include "op/op.h"
#include "test.h"
#include "values.h"

/* ---- the checks report here ---- */

static bool is_check;
static bool is_wrong;
static char said[512];

void test_add(const char *name, const char *file, void (*run)(void)) { (void)name, (void)file, (void)run; }
void test_skip(const char *why) { (void)why; }
void test_watchdog(int seconds) { (void)seconds; }
void test_fail(const char *file, int line, const char *format, ...) {
  va_list list;
  (void)file, (void)line;
  va_start(list, format);
  if (!is_wrong) vsnprintf(said, sizeof said, format, list);
  va_end(list);
  is_wrong = true;
}

static void begin(void) { is_wrong = false; }

/* ---- ops that are not rows of every_op.c: the value of x, through one of them ---- */

static weft_array *through_checkpoint(weft_array *x) {
  weft_array *y = weft_alias(x);
  return weft_checkpoint(1, &x, 1, &y), y;
}
static weft_array *through_custom(weft_array *x) {
  weft_array *y = weft_alias(x);
  return weft_custom(1, &x, 1, &y, &(weft_rules){ 0 }), y;
}
static weft_array *through_call(weft_array *x) {
  weft_scope *body = weft_scope_open();
  weft_array *p = weft_input(weft_dtype_of(x), weft_rank(x), NULL), *q = weft_alias(p), *y;
  weft_function *f = weft_compile(body, 1, &p, 1, &q);
  return weft_call(f, 1, &x, 1, &y), y;
}
static weft_array *itself(weft_array *c) { return weft_where(weft_eq(c, c), c, c); }
static weft_array *through_loop(weft_array *x) { return repeated(2, x, itself); }
static weft_array *through_depends(weft_array *x) { return weft_depends(x, 1, &x); }
static weft_array *through_complex(weft_array *x) { return weft_real(weft_complex(x, x)); }
static weft_array *through_imag(weft_array *x) { return weft_imag(weft_complex(x, x)); }
static weft_array *through_conj(weft_array *x) { return weft_real(weft_conj(weft_complex(x, x))); }

/* Those with a row in every_op.c are here for their derivatives alone. */
static const struct { const char *op; weft_array *(*same)(weft_array *); bool has_row; } bodies[] = {
  { "checkpoint", through_checkpoint }, { "custom", through_custom },       { "call", through_call },
  { "loop", through_loop },             { "item", through_loop },           { "complex", through_complex },
  { "real", through_complex, true },    { "imag", through_imag, true },     { "conj", through_conj, true },
  { "alias", weft_alias, true },        { "depends", through_depends, true },
};
enum { BODIES = sizeof bodies / sizeof *bodies };

static int smooth_body(const char *op) {
  for (int i = 0; i < BODIES; i++) if (!strcmp(bodies[i].op, op)) return i;
  return -1;
}
static int body_of(const char *op) {
  int i = smooth_body(op);
  return i < 0 || bodies[i].has_row ? -1 : i;
}

static weft_array *(*current)(weft_array *);
static weft_array *squares(weft_array *x) { return current(weft_mul(x, weft_exp(x))); }

/* ---- why a cell is not what one would like ---- */

static const char read_elsewhere[] = "a computed operand is stored first: its elements are read several times, at an index, or not at all";
static const struct { const char *op, *column, *why; } reasons[] = {
  { "value", "", "a leaf: an array that has its value" },
  { "scalar", "", "a leaf: a number" },
  { "input", "", "a leaf: a name without a value" },
  { "bad", "", "a leaf: an error" },
  { "loop_var", "", "a leaf of the body of a loop" },
  { "scale", "", "made by derivatives alone: a product that is 0 where the cotangent is, whatever it is multiplied by" },
  { "barrier", "", "made by the derivative of a checkpoint alone, which is in its row" },
  { "part", "", "half of a complex number, made when a plan is: complex numbers in the other rows go through it" },
  { "pair", "", "two halves as a complex number, likewise" },
  { "bits", "", "the same 32 or 64 bits of another dtype: inside weft_view, zero derivative, mapped and fused as any elementwise op: test/families.c" },
  { "random_bits", "", "32 or 64 bits of a key at a place; u32 and u64 inside, zero derivative, mapped and fused as any elementwise op: test/random.c" },
  { "gamma_draw", "", "a number that was drawn, as a function of the shape it was drawn with: its derivative is the quantile's, test/distributions.c" },
  { "log_gamma_draw", "", "the logarithm of such a number, which does not underflow where its shape is small: test/distributions.c" },
  { "host", "", "a function of the user's, called with dense arrays: test/host.c" },
  { "tally", "", "how many numbers are in each bin; no derivative; map: test/histogram.c" },
  { "bins", "", "in which bin each number is; no derivative, sums of weights have one; map: test/histogram.c" },
  { "dequantize", "", "codes in words, a scale a group and of whole numbers a bias, f32 or f64; derivatives by both, and map: test/quantized.c" },
  { "code_product", "", "rows by codes in words, both ways, batched and gathered, f32 inside; derivatives by the rows, scales and biases, and map: test/quantized.c" },
  { "later", "", "an expression that is written when sizes are known, and then in the other rows, with its derivatives and maps: test/later.c" },
  { "turns", "", "what a Fourier transform multiplies by, f32 and f64, where one in the body of a loop is written when sizes are known: test/later.c" },
  { "fourier", "", "rows of f32 and f64, real and imaginary parts for themselves: test/fourier.c" },
  { "depthwise", "", "the convolution of two axes with one channel a group, f32; derivatives and map are those of weft_conv: test/convolve.c" },
  { "cholesky", "", "a step of matrices, f32 and f64: test/linear.c" },
  { "cholesky_solve", "", "a step of matrices, f32 and f64: test/linear.c" },
  { "lu", "", "a step of matrices, f32 and f64; its factors have no derivatives, what is made of them has: test/linear.c" },
  { "solve", "", "a step of matrices, f32 and f64: test/linear.c" },
  { "inverse", "", "a step of matrices, f32 and f64: test/linear.c" },
  { "triangle", "", "a step of matrices, f32 and f64: test/linear.c" },
  { "determinant", "", "a step of matrices, f32 and f64: test/linear.c" },
  { "adjugate", "", "a step of matrices, f32 and f64: test/linear.c" },
  { "cofactors", "", "a step of matrices, f32 and f64: test/linear.c" },
  { "sort", "fused", "a step of its own: what is sorted is stored first, and what reads it is another kernel" },
  { "sort", "> 2^31", "not tried: sorting so many takes minutes" },
  { "select", "fused", "a step of its own: what is selected from is stored first, and what reads it is another kernel" },
  { "select", "> 2^31", "not tried: so many take minutes" },
  { "broadcast", "fused", read_elsewhere },
  { "as_strided", "fused", read_elsewhere },
  { "windows", "fused", read_elsewhere },
  { "take", "fused", read_elsewhere },
  { "assert", "fused", "the condition is folded to one number, and checked, before x goes on" },
  { "pad", "fused", read_elsewhere },
  { "put", "fused", "what is updated, and what by, is stored first: they are read at other places than they are written" },
  { "scatter", "fused", "what is updated, what by and the indices are stored first; slots are then written by whoever owns them" },
  { "concat", "fused", "operands are computed in their part of the result; what reads all of it is a kernel of its own" },
  { "matmul", "fused", "computed operands are stored first: each element is read many times" },
  { "loop", "fused", "the loop is one kernel; what makes its carries and what reads its results are others" },
  { "item", "fused", "as the loop it is taken from" },
  { "call", "fused", "a call is run by a plan of its own; its results are leaves of the rest" },
};
enum { REASONS = sizeof reasons / sizeof *reasons };

static const char *reason(const char *op, const char *column) {
  for (int i = 0; i < REASONS; i++)
    if (!strcmp(reasons[i].op, op) && (!reasons[i].column[0] || !strcmp(reasons[i].column, column))) return reasons[i].why;
  return NULL;
}

/* ---- dtypes ---- */

static const weft_dtype all_dtypes[] = { WEFT_BOOL, WEFT_U8, WEFT_U16, WEFT_U32, WEFT_U64, WEFT_I8, WEFT_I16, WEFT_I32, WEFT_I64,
                                         WEFT_E4M3, WEFT_E5M2, WEFT_F16, WEFT_BF16, WEFT_F32, WEFT_F64, WEFT_C64, WEFT_C128 };
enum { DTYPES = sizeof all_dtypes / sizeof *all_dtypes };
static bool is_complex(weft_dtype t) { return t == WEFT_C64 || t == WEFT_C128; }

static weft_array *ramp(weft_dtype t, int rank, const int64_t dims[], int shift) {
  struct plain p = plain_new(is_complex(t) ? WEFT_F64 : t, rank, dims);
  for (int64_t i = 0; i < p.count; i++) {
    if (plain_is_float(p.dtype)) plain_set_f(&p, i, 0.25 + 0.125 * (double)((i + 3 * shift) % 8));
    else plain_set_i(&p, i, t == WEFT_BOOL ? (i + shift) % 2 : 1 + (i + 3 * shift) % 8);
  }
  weft_array *a = weft_from(p.dtype, rank, dims, p.data);
  plain_free(&p);
  return is_complex(t) ? weft_cast(a, t) : a;
}

static bool same_values(weft_array *a, weft_array *b, double tolerance) {
  weft_array *d = weft_abs(weft_sub(weft_cast(a, WEFT_F64), weft_cast(b, WEFT_F64)));
  weft_array *ok = weft_all(weft_le(d, weft_scalar(tolerance)), WEFT_ALL);
  uint8_t yes = 0;
  return weft_rank(a) == weft_rank(b) && !weft_read(ok, WEFT_BOOL, &yes, 1) && yes;
}

static bool body_keeps(int body, weft_dtype t, const int64_t dims[2]) {
  weft_array *x = ramp(t, 2, dims, 0), *y = bodies[body].same(x);
  return !weft_check(y) && weft_dtype_of(y) == t && same_values(y, x, 0);
}

static bool takes(const char *op, weft_dtype t) {
  int body = body_of(op), n = 0;
  if (body >= 0) return body_keeps(body, t, (int64_t[]){ 3, 5 });
  begin();
  for (int i = 0; i < every_rows(); i++) {
    if (!every_row_is_of(i, op) || !every_row_takes(i, t)) continue;
    every_row_check(i, t, false, is_check);
    n++;
  }
  if (is_wrong) fprintf(stderr, "%s: %s\n", op, said);
  return n && !is_wrong;
}

static void say_dtypes(const char *op, char *cell) {
  static const struct { const char *name; unsigned of; } sets[] = {
    { "all", 0x1ffff }, { "all but complex", 0x7fff }, { "all but bool", 0x1fffe }, { "all but bool, complex", 0x7ffe },
    { "bool, integers", 0x1ff }, { "integers", 0x1fe }, { "floats", 0x7e00 }, { "floats, complex", 0x1fe00 }, { "none", 0 },
  };
  unsigned got = 0;
  for (int d = 0; d < DTYPES; d++) {
    weft_scope *s = weft_scope_open();
    if (takes(op, all_dtypes[d])) got |= 1u << d;
    weft_scope_discard(s);
  }
  for (size_t i = 0; i < sizeof sets / sizeof *sets; i++)
    if (sets[i].of == got) { strcpy(cell, sets[i].name); return; }
  *cell = 0;
  for (int d = 0; d < DTYPES; d++)
    if (got >> d & 1) sprintf(cell + strlen(cell), "%s%s", *cell ? " " : "", weft_dtype_name(all_dtypes[d]));
}

/* ---- derivatives and maps ---- */

typedef void check(const char *name, array_function, int n, const double x[]);
static const double above_0[] = { 0.7, 1.3, 0.4, 2.1, 0.9, 1.7 };

static bool is_of(const char *name, const char *op) {
  size_t n = strlen(op);
  return !strncmp(name, op, n) && (name[n] == 0 || name[n] == '_');
}

/* A row of every_op.c whose result is a float, for floats; -1: there is none. */
static int float_row(const char *op) {
  for (int i = 0; i < every_rows(); i++) {
    if (!every_row_is_of(i, op) || !every_row_takes(i, WEFT_F64)) continue;
    weft_scope *s = weft_scope_open();
    weft_array *x[3];
    for (int k = 0; k < 3; k++) x[k] = ramp(WEFT_F64, WEFT_DIMS(3, 5), k);
    bool is_float = plain_is_float(weft_dtype_of(every_row_make(i, x)));
    weft_scope_discard(s);
    if (is_float) return i;
  }
  return -1;
}

static bool is_zero_gradient(int row) {
  weft_array *x[3], *dx;
  for (int k = 0; k < 3; k++) x[k] = ramp(WEFT_F64, WEFT_DIMS(3, 5), k);
  weft_grad(every_row_make(row, x), 1, x, &dx);
  return !weft_check(dx) && same_values(dx, weft_mul(x[0], weft_scalar(0)), 0);
}

static const char *derivative(const char *op, check *c, bool is_map) {
  int n = 0, body = smooth_body(op), row;
  begin();
  if (body >= 0) current = bodies[body].same, c(op, squares, 6, above_0), n++;
  for (int i = 0; i < every_derivatives(); i++) {
    const char *name;
    const double *x;
    array_function f = every_derivative(i, &name, &x);
    if (is_of(name, op)) c(name, f, 6, x), n++;
  }
  if (is_wrong) return fprintf(stderr, "%s: %s\n", op, said), "no";
  if (n) return "yes";
  if ((row = float_row(op)) < 0) return is_map ? "" : "none";
  weft_scope *s = weft_scope_open();
  bool is_zero = !is_map && is_zero_gradient(row);
  weft_scope_discard(s);
  return is_zero ? "zero" : "";
}

/* What has no derivative may have rows: mapped over the first axis of its first operand. */
static bool maps(int row, weft_dtype t) {
  weft_array *x[3], *xs = ramp(t, WEFT_DIMS(2, 3, 5), 1), *y, *ys;
  for (int k = 0; k < 3; k++) x[k] = ramp(t, WEFT_DIMS(3, 5), k);
  y = every_row_make(row, x);
  weft_map(1, x, &xs, 1, &y, &ys);
  for (int r = 0; r < 2; r++) {
    weft_array *in[3] = { weft_at(xs, 0, weft_integer(r)), x[1], x[2] };
    if (weft_check(ys) || !same_values(weft_at(ys, 0, weft_integer(r)), every_row_make(row, in), 0)) return false;
  }
  return true;
}

static const char *mapped(const char *op) {
  const char *by_row = derivative(op, check_map, true);
  bool ok = true;
  int n = 0;
  if (*by_row) return by_row;
  for (int i = 0; i < every_rows(); i++) {
    if (!every_row_is_of(i, op)) continue;
    weft_scope *s = weft_scope_open();
    ok &= maps(i, every_row_takes(i, WEFT_F64) ? WEFT_F64 : WEFT_I32), n++;
    weft_scope_discard(s);
  }
  return n ? ok ? "yes" : "no" : "";
}

/* ---- fused: computed operands and a user of the result, in one kernel ---- */

static const char *fused(const char *op, char *cell) {
  int most = 0, n = 0, body = body_of(op);
  bool is_refused = false;
  for (int i = 0; i < (body < 0 ? every_rows() : 1); i++) {
    if (body < 0 && !every_row_is_of(i, op)) continue;
    weft_scope *s = weft_scope_open();
    weft_dtype t = body >= 0 || every_row_takes(i, WEFT_F32) ? WEFT_F32 : WEFT_I32;
    weft_array *x[3], *c = ramp(WEFT_BOOL, WEFT_DIMS(64, 48), 0);
    weft_cost cost = { 0 };
    for (int k = 0; k < 3; k++) x[k] = weft_where(c, ramp(t, WEFT_DIMS(64, 48), k), ramp(t, WEFT_DIMS(64, 48), k + 3));
    weft_array *y = weft_ne(body < 0 ? every_row_make(i, x) : bodies[body].same(x[0]), weft_integer(1));
    if (weft_plan(1, &y, &cost)) is_refused = true;
    if (cost.kernels > most) most = cost.kernels;
    weft_scope_discard(s);
    n++;
  }
  if (!n || is_refused) return n ? "no" : "";
  if (most <= 1) return "yes";
  return sprintf(cell, "%d kernels", most), cell;
}

/* ---- empty ---- */

static const char *empty(const char *op) {
  int n = 0, body = body_of(op);
  begin();
  if (body >= 0) {
    weft_scope *s = weft_scope_open();
    bool ok = body_keeps(body, WEFT_F32, (int64_t[]){ 0, 4 });
    return weft_scope_discard(s), ok ? "yes" : "no";
  }
  for (int i = 0; i < every_rows(); i++) {
    if (!every_row_is_of(i, op)) continue;
    weft_dtype t = every_row_takes(i, WEFT_F32) ? WEFT_F32 : WEFT_I32;
    n += every_row_check(i, t, true, false);
  }
  return !n ? "" : is_wrong ? "no" : "yes";
}

/* ---- more than 2^31 elements: 0-d results that are 1 if all is right ---- */

enum { LENGTH_LOW = 16 };
#define LENGTH ((INT64_C(1) << 31) + LENGTH_LOW)
static const int64_t SPIKE = LENGTH - 3; /* an element beyond 2^31 */

static weft_array *long_of(weft_dtype t) { return weft_full(t, WEFT_DIMS(LENGTH), 0); }
static weft_array *count(void) { return weft_iota(long_of(WEFT_I64), 0); }
static weft_array *at_spike(void) { return weft_eq(count(), weft_integer(SPIKE)); }
static weft_array *spike(weft_dtype t, double there, double elsewhere) {
  return weft_cast(weft_where(at_spike(), weft_scalar(there), weft_scalar(elsewhere)), t);
}
static weft_array *total(weft_array *x) { return weft_sum(weft_cast(x, WEFT_I64), WEFT_ALL); }
static weft_array *is(weft_array *x, double v) { return weft_eq(weft_cast(weft_sum(x, WEFT_ALL), WEFT_F64), weft_cast(weft_scalar(v), WEFT_F64)); }
static weft_array *part_of(weft_array *x, int64_t from) { return weft_slice(x, 0, from, WEFT_END, 1); }

#define BIG(name, expression) static weft_array *big_##name(void) { return (expression); }
BIG(sum, is(weft_sum(weft_cast(weft_add(weft_and(count(), weft_integer(1)), spike(WEFT_I64, 5, 0)), WEFT_I64), 0), LENGTH / 2 + 5.0))
BIG(prod, is(weft_prod(spike(WEFT_I64, 3, 1), 0), 3))
BIG(max, is(weft_max(spike(WEFT_I32, 9, 1), 0), 9))
BIG(min, is(weft_min(spike(WEFT_I32, -9, 1), 0), -9))
BIG(all, weft_not(weft_squeeze(weft_all(weft_not(at_spike()), 0), 0)))
BIG(any, weft_squeeze(weft_any(at_spike(), 0), 0))
BIG(logsumexp, is(weft_logsumexp(spike(WEFT_F32, 2.5, -INFINITY), 0), 2.5))
BIG(argmax, is(weft_argmax(spike(WEFT_F32, 2, 1), 0), (double)SPIKE))
BIG(argmin, is(weft_argmin(spike(WEFT_F32, -2, 1), 0), (double)SPIKE))

/* So many rows of 2048 elements, all the same in memory. */
enum { MANY = (1 << 20) + 1 };
static weft_array *many(weft_array *row) { return weft_broadcast(row, WEFT_DIMS(MANY, 2048)); }
static weft_array *first(double there, double elsewhere) {
  weft_array *i = weft_iota(weft_full(WEFT_I32, WEFT_DIMS(2048), 0), 0);
  weft_array *row = weft_cast(weft_where(weft_eq(i, weft_integer(0)), weft_scalar(there), weft_scalar(elsewhere)), WEFT_F16);
  return weft_eval(1, &row) ? row : many(row);
}
BIG(cumsum, is(total(weft_cumsum(first(3, 0), 1)), 3 * 2048.0 * MANY))
BIG(cumprod, is(total(weft_cumprod(first(2, 1), 1)), 2 * 2048.0 * MANY))
BIG(cummax, is(total(weft_cummax(spike(WEFT_U8, 1, 0), 0)), 3))
BIG(cummin, is(total(weft_cummin(spike(WEFT_U8, 0, 1), 0)), (double)LENGTH - 3))
BIG(iota, is(weft_max(count(), 0), (double)LENGTH - 1))
BIG(size, is(weft_size(long_of(WEFT_U8), 0), (double)LENGTH))

/* In memory: zeros, which take none until they are written, and a 5 at the spike. */
static weft_array *bytes(void) {
  uint8_t *x = calloc((size_t)LENGTH, 1);
  if (x) x[SPIKE] = 5;
  weft_block b = { x, 0, WEFT_U8, 1, (int64_t[]){ LENGTH }, (int64_t[]){ 1 } };
  return weft_external(&b, free, x);
}
BIG(reshape, is(total(weft_reshape(bytes(), WEFT_DIMS(16, WEFT_ANY))), 5))
BIG(broadcast, is(total(weft_broadcast(weft_from(WEFT_U8, WEFT_DIMS(1), (uint8_t[]){ 3 }), WEFT_DIMS(LENGTH))), 3.0 * LENGTH))
BIG(transpose, is(weft_max(weft_add(weft_transpose(weft_iota(weft_full(WEFT_I64, WEFT_DIMS(65537, 32769), 0), 0), NULL), weft_integer(1)), WEFT_ALL), 65537))
BIG(as_strided, is(total(weft_as_strided(weft_from(WEFT_U8, WEFT_DIMS(2), (uint8_t[]){ 1, 3 }), WEFT_DIMS(2, LENGTH / 2), (int64_t[]){ 1, 0 }, 0)), 2.0 * LENGTH))
BIG(windows, is(weft_max(weft_at(weft_windows(bytes(), 0, 4, 1, 1), 0, weft_integer(LENGTH - 4)), WEFT_ALL), 5))
BIG(slice, is(weft_slice(count(), 0, -2, LENGTH - 4, -1), 2.0 * LENGTH - 5))
BIG(take, is(weft_at(bytes(), 0, weft_integer(-3)), 5))
static weft_array *put_end(weft_array *x) { return weft_put(x, part_of(x, SPIKE), weft_integer(1), WEFT_SET); }
static weft_array *scatter_ends(weft_array *x) {
  weft_array *i = weft_from(WEFT_I64, WEFT_DIMS(3), (int64_t[]){ SPIKE, 0, -1 });
  return weft_put(x, weft_take(x, 1, &i), weft_integer(1), WEFT_SET);
}
BIG(put, is(total(put_end(bytes())), 3))
BIG(scatter, is(total(scatter_ends(bytes())), 3))
static weft_array *lengthened(weft_array *x) { return weft_concat(0, WEFT_ARRAYS(weft_slice(x, 0, 0, 7, 1), x)); }
BIG(concat, is(weft_max(lengthened(bytes()), 0), 5))
BIG(pad, is(total(weft_pad(bytes(), 0, 2, 3, weft_integer(1))), 10))
BIG(matmul, is(weft_matmul(many(weft_cast(weft_from(WEFT_U8, WEFT_DIMS(1), (uint8_t[]){ 1 }), WEFT_F32)), weft_full(WEFT_F32, WEFT_DIMS(2048, 1), 1)), 2048.0 * MANY))
BIG(loop, is(total(through_loop(bytes())), 5))
BIG(call, is(total(through_call(bytes())), 5))

static const struct { const char *op; weft_array *(*make)(void); } long_rows[] = {
#define B(name) { #name, big_##name },
  B(sum) B(prod) B(max) B(min) B(all) B(any) B(logsumexp) B(argmax) B(argmin) B(cumsum) B(cumprod) B(cummax) B(cummin) B(iota) B(size)
  B(reshape) B(broadcast) B(transpose) B(slice) B(as_strided) B(windows) B(take) B(put) B(scatter) B(concat) B(pad) B(matmul) B(loop) B(call) { "item", big_loop },
};

/* Operands that have the same 2048 elements in each of many rows; so has the result. */
static weft_array *long_element(int row, int body) {
  weft_dtype t = body >= 0 || every_row_takes(row, WEFT_F32) ? WEFT_F32 : WEFT_I32;
  weft_array *x[3], *few[3];
  for (int k = 0; k < 3; k++) {
    few[k] = ramp(t, WEFT_DIMS(2048), k);
    x[k] = many(few[k]);
  }
  weft_array *y = body < 0 ? every_row_make(row, x) : bodies[body].same(x[0]);
  weft_array *want = body < 0 ? every_row_make(row, few) : few[0];
  if (weft_eval(1, &want)) return want;
  weft_array *all = many(want), *nans = weft_and(weft_ne(y, y), weft_ne(all, all));
  return is(total(weft_or(weft_eq(y, all), nans)), 2048.0 * MANY);
}

static weft_array *long_row(const struct op *op) {
  int body = body_of(op->name);
  for (size_t i = 0; i < sizeof long_rows / sizeof *long_rows; i++)
    if (!strcmp(long_rows[i].op, op->name)) return long_rows[i].make();
  if (body >= 0) return long_element(-1, body);
  for (int i = 0; i < every_rows(); i++)
    if ((op->kind == OP_ELEMENT || op->kind == OP_IDENTITY) && every_row_is_of(i, op->name)) return long_element(i, -1);
  return NULL;
}

static const char *long_cell(const struct op *op) {
  int64_t before = weft_set(WEFT_BYTES_LIMIT, INT64_C(6) << 30);
  weft_scope *s = weft_scope_open();
  weft_array *ok = long_row(op);
  uint8_t yes = 0;
  if (ok && weft_read(ok, WEFT_BOOL, &yes, 1)) fprintf(stderr, "%s: %s\n", op->name, weft_message());
  weft_scope_discard(s);
  weft_set(WEFT_BYTES_LIMIT, before);
  return !ok ? "" : yes ? "yes" : "no";
}

/* ---- the page ---- */

enum { COLUMNS = 7, NOTES = 64 };
static const char *const columns[] = { "dtypes", "vjp", "jvp", "map", "fused", "empty", "> 2^31" };
static const char *notes[NOTES];
static int n_notes, n_unexplained;
static bool measures_long = true; /* the last column */

static int note(const char *why) {
  for (int i = 0; i < n_notes; i++) if (!strcmp(notes[i], why)) return i + 1;
  if (n_notes == NOTES) abort();
  notes[n_notes] = why;
  return ++n_notes;
}

/* A cell that is not as one would like gets the number of its reason. */
static void explain(const char *op, int column, char *cell) {
  static const char *const good[] = { "yes", "zero", "none" };
  bool is_good = column == 0 && *cell && strcmp(cell, "none");
  for (int i = 0; i < 3; i++) is_good |= column > 0 && !strcmp(cell, good[i]);
  if (is_good) return;
  const char *why = reason(op, columns[column]);
  if (!why) fprintf(stderr, "coverage: %s, %s: \"%s\" without a reason\n", op, columns[column], cell), n_unexplained++;
  else sprintf(cell + strlen(cell), "%s(%d)", *cell ? " " : "", note(why));
}

/* The last cell of the op's row in a page that is there; nothing if that is but the number of a reason. */
static void old_cell(const char *page, const char *op, char *cell) {
  char start[64], *first = cell;
  snprintf(start, sizeof start, "\n| %s |", op);
  const char *row = strstr(page, start), *end = row ? strchr(row + 1, '\n') : NULL, *from = end;
  *cell = 0;
  if (!end) return;
  for (int bars = 0; from > row && bars < 2; from--) bars += from[-1] == '|';
  while (*++from == ' ') {}
  while (*from != ' ' && *from != '|') *cell++ = *from++;
  *cell = 0;
  if (*first == '(') *first = 0;
}

static void print_row(FILE *out, const struct op *op, const char *page) {
  char cell[COLUMNS][256] = { "" }, number[32];
  const char *why = reason(op->name, "all");
  fprintf(stderr, "%s\n", op->name);
  fprintf(out, "| %s |", op->name);
  if (!why) {
    say_dtypes(op->name, cell[0]);
    strcpy(cell[1], derivative(op->name, check_vjp, false));
    strcpy(cell[2], derivative(op->name, check_jvp, false));
    strcpy(cell[3], mapped(op->name));
    strcpy(cell[4], fused(op->name, number));
    strcpy(cell[5], empty(op->name));
    if (page) old_cell(page, op->name, cell[6]);
    if (measures_long && strcmp(cell[6], "yes")) strcpy(cell[6], long_cell(op));
  }
  for (int c = 0; c < COLUMNS; c++) {
    if (why) sprintf(cell[c], "(%d)", note(why));
    else explain(op->name, c, cell[c]);
    fprintf(out, " %s |", cell[c]);
  }
  fputc('\n', out);
}

static void print_page(FILE *out, const char *page) {
  fputs("# What each operation can do\n\n"
        "Written by `make coverage`, which runs what it says; the operations are those of the op table.\n\n"
        "- **dtypes**: the results have the bits of plain C in every layout of memory\n"
        "- **vjp**, **jvp**: the derivative agrees with differences; *zero*: it is zero; *none*: the result is no float\n"
        "- **map**: rows of the mapped result are those of each row alone\n"
        "- **fused**: with computed operands and a user of the result it is one kernel, else how many\n"
        "- **empty**: arrays without elements\n"
        "- **> 2^31**: a run over more than 2^31 elements in which those at the end count\n\n"
        "| op | dtypes | vjp | jvp | map | fused | empty | > 2^31 |\n|---|---|---|---|---|---|---|---|\n", out);
  for (const struct op *const *op = op_table; *op; op++) {
    bool is_new = true;
    for (const struct op *const *p = op_table; p < op; p++) is_new &= *p != *op;
    if (is_new) print_row(out, *op, page);
  }
  fputs("\n", out);
  for (int i = 0; i < n_notes; i++) fprintf(out, "%d. %s\n", i + 1, notes[i]);
}

static char *page_in(const char *path) {
  FILE *f = fopen(path, "r");
  char *text = calloc(1, 1 << 20);
  if (!f || !text) return NULL;
  if (!fread(text, 1, (1 << 20) - 1, f)) *text = 0;
  fclose(f);
  return text;
}

/* 0: it is the same. Else the first line that differs is shown. */
static int compare(const char *was, const char *is_now) {
  const char *line = is_now;
  for (const char *a = was, *b = is_now; *a || *b; a++, b++) {
    if (*a != *b) return printf("coverage: the page is out of date; make coverage ADD=1 writes it anew. Now:\n%.*s\n", (int)strcspn(line, "\n"), line), 1;
    if (*b == '\n') line = b + 1;
  }
  return 0;
}

int main(int argc, char **argv) {
  is_check = argc > 2 && !strcmp(argv[1], "--check");
  char *page = argc > 2 ? page_in(argv[2]) : NULL, *text = NULL;
  size_t size;
  measures_long = !is_check;
  plain_asks_truths = false; /* how near functions are to them is said elsewhere (docs/accuracy.md) */
  if (argc > 2 && !page) return fprintf(stderr, "coverage: cannot read %s\n", argv[2]), 1;
  FILE *out = is_check ? open_memstream(&text, &size) : stdout;
  print_page(out, page);
  int wrong = n_unexplained;
  if (is_check) fclose(out), wrong += compare(page, text);
  free(page), free(text);
  plain_end();
  return wrong != 0;
}
