#include "every_plain.h"
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "op/select.h"
#include "backend/backend.h"
#include "truth.h"

int64_t plain_off;
char plain_off_text[200];
const char *plain_missing;

/* ---- numbers ---- */

static bool is_narrow(weft_dtype t) { return t == WEFT_F16 || t == WEFT_BF16 || t == WEFT_E4M3 || t == WEFT_E5M2; }
bool plain_is_float(weft_dtype t) { return is_narrow(t) || t == WEFT_F32 || t == WEFT_F64; }
static bool is_signed(weft_dtype t) { return t >= WEFT_I8 && t <= WEFT_I64; }
static int bits_of(weft_dtype t) { return 8 * (int)weft_dtype_bytes(t); }

/* 2^e, -1022 <= e <= 1023 */
static double power_of_2(int e) {
  uint64_t bits = (uint64_t)(e + 1023) << 52;
  double x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

/* The nearest number with so many bits of mantissa, 11 at most, ties to even; beyond the largest: inf. By doubles where x is one: the
 * scaling is exact, and long doubles are slow, most of all where they are emulated. */
static double nearest(long double x, int mantissa, int lowest, double largest) {
  double d = (double)x, y;
  if (x == 0 || isnan(x) || isinf(x)) return d;
  bool is_double = d == x && fabs(d) >= DBL_MIN;
  int e = is_double ? ilogb(d) : ilogbl(x);
  int unit = (e < lowest ? lowest : e) - mantissa + 1;
  if (unit > 1000) return copysign(INFINITY, d);
  y = (is_double ? rint(d * power_of_2(-unit)) : (double)rintl(x * power_of_2(-unit))) * power_of_2(unit);
  return fabs(y) > largest ? copysign(INFINITY, d) : copysign(y, d);
}

static uint16_t half_bits(long double x, int mantissa, int bias) { /* bits behind the point: mantissa */
  int lowest = 1 - bias, top = (1 << (15 - mantissa)) - 1;
  double y = nearest(x, mantissa + 1, lowest, (2 - power_of_2(-mantissa)) * power_of_2(top - 1 - bias));
  uint16_t sign = signbit(x) ? 0x8000 : 0;
  if (isnan(x)) return (uint16_t)(sign | top << mantissa | 1 << (mantissa - 1));
  if (isinf(y)) return (uint16_t)(sign | top << mantissa);
  int e = y == 0 ? lowest - 1 : ilogb(y);
  if (e < lowest) return (uint16_t)(sign | (int)(fabs(y) * power_of_2(mantissa - lowest)));
  return (uint16_t)(sign | (e + bias) << mantissa | ((int)(fabs(y) * power_of_2(mantissa - e)) - (1 << mantissa)));
}

static double eighth_value(weft_dtype t, uint8_t b) {
  int digits = t == WEFT_E4M3 ? 3 : 2, bias = t == WEFT_E4M3 ? 7 : 15, m = b & 127, e = m >> digits, f = m & ((1 << digits) - 1);
  double x = (e ? (1 << digits) + f : f) * power_of_2((e ? e : 1) - bias - digits);
  if (t == WEFT_E4M3 ? m == 127 : m > 124) x = NAN;
  if (t == WEFT_E5M2 && m == 124) x = INFINITY;
  return b & 128 ? -x : x;
}

static double half_value(uint16_t b, int mantissa, int bias) {
  int e = b >> mantissa & ((1 << (15 - mantissa)) - 1), m = b & ((1 << mantissa) - 1), top = (1 << (15 - mantissa)) - 1;
  double x = e == top ? (m ? NAN : INFINITY) : (e ? m + (1 << mantissa) : m) * power_of_2((e ? e : 1) - bias - mantissa);
  return b & 0x8000 ? -x : x;
}

/* By a search among all of them, which ascend: the code of the number that `nearest` says; what is beyond 448 in e4m3 is nan. */
static uint8_t eighth_bits(weft_dtype t, long double x) {
  bool is_e4m3 = t == WEFT_E4M3;
  double y = is_e4m3 ? nearest(x, 4, -6, 448) : nearest(x, 3, -14, 57344);
  uint8_t sign = signbit(x) ? 0x80 : 0;
  if (isnan(y) || (is_e4m3 && isinf(y))) return sign | (is_e4m3 ? 0x7F : 0x7E);
  if (isinf(y)) return sign | 0x7C;
  int code = 0;
  for (int step = 64; step; step /= 2) if (eighth_value(t, (uint8_t)(code + step)) <= fabs(y)) code += step;
  if (eighth_value(t, (uint8_t)code) != fabs(y)) abort();
  return (uint8_t)(sign | code);
}

double plain_f(const struct plain *p, int64_t i) {
  const uint8_t *at = p->data + i * (int64_t)weft_dtype_bytes(p->dtype);
  float f;
  double d;
  uint16_t h;
  switch (p->dtype) {
    case WEFT_F16: memcpy(&h, at, 2); return half_value(h, 10, 15);
    case WEFT_BF16: memcpy(&h, at, 2); return half_value(h, 7, 127);
    case WEFT_E4M3: case WEFT_E5M2: return eighth_value(p->dtype, *at);
    case WEFT_F32: memcpy(&f, at, 4); return (double)f;
    case WEFT_F64: memcpy(&d, at, 8); return d;
    default: return (double)plain_i(p, i);
  }
}

int64_t plain_i(const struct plain *p, int64_t i) {
  int size = (int)weft_dtype_bytes(p->dtype), rest = 64 - 8 * size;
  uint64_t u = 0;
  memcpy(&u, p->data + i * size, (size_t)size);
  return is_signed(p->dtype) ? (int64_t)(u << rest) >> rest : (int64_t)u;
}

static void set_real(struct plain *p, int64_t i, long double x) { /* x + 0i */
  struct plain parts = plain_parts(p);
  plain_set_f(&parts, 2 * i, x);
  plain_set_f(&parts, 2 * i + 1, 0);
}

void plain_set_i(struct plain *p, int64_t i, int64_t x) {
  if (plain_is_complex(p->dtype)) { set_real(p, i, x); return; }
  int size = (int)weft_dtype_bytes(p->dtype);
  if (p->dtype == WEFT_BOOL) x = x != 0;
  memcpy(p->data + i * size, &x, (size_t)size);
}

static int64_t saturated(weft_dtype t, long double x) {
  int bits = bits_of(t) - is_signed(t);
  long double top = ldexpl(1, bits), low = is_signed(t) ? -top : 0;
  if (isnan(x)) return 0;
  x = truncl(x);
  if (x <= low) return is_signed(t) ? (int64_t)(UINT64_MAX << bits) : 0;
  if (x >= top) return bits == 64 ? -1 : (int64_t)(((uint64_t)1 << bits) - 1);
  return x < 0 ? (int64_t)x : (int64_t)(uint64_t)x;
}

void plain_set_f(struct plain *p, int64_t i, long double x) {
  uint8_t *at = p->data + i * (int64_t)weft_dtype_bytes(p->dtype);
  float f;
  double d;
  uint16_t h;
  switch (p->dtype) {
    case WEFT_F16: h = half_bits(x, 10, 15); memcpy(at, &h, 2); return;
    case WEFT_BF16: h = half_bits(x, 7, 127); memcpy(at, &h, 2); return;
    case WEFT_E4M3: case WEFT_E5M2: *at = eighth_bits(p->dtype, x); return;
    case WEFT_F32: f = (float)x; memcpy(at, &f, 4); return;
    case WEFT_F64: d = (double)x; memcpy(at, &d, 8); return;
    case WEFT_C64: case WEFT_C128: set_real(p, i, x); return;
    case WEFT_BOOL: plain_set_i(p, i, x != 0); return;
    default: plain_set_i(p, i, saturated(p->dtype, x)); return;
  }
}

/* ---- arrays ---- */

struct plain plain_new(weft_dtype t, int rank, const int64_t dims[]) {
  struct plain p = { .dtype = t, .rank = rank, .count = 1 };
  for (int k = 0; k < rank; k++) p.count *= p.dims[k] = dims[k];
  p.data = calloc((size_t)p.count + 1, weft_dtype_bytes(t));
  if (!p.data) abort();
  return p;
}

void plain_free(struct plain *p) {
  free(p->data);
  p->data = NULL;
}

void plain_index(const struct plain *p, int64_t i, int64_t index[]) {
  for (int k = p->rank - 1; k >= 0; k--) index[k] = i % p->dims[k], i /= p->dims[k];
}

int64_t plain_at(const struct plain *p, const int64_t index[]) {
  int64_t i = 0;
  for (int k = 0; k < p->rank; k++) i = i * p->dims[k] + index[k];
  return i;
}

static void copy_element(struct plain *to, int64_t i, const struct plain *from, int64_t j) {
  size_t size = weft_dtype_bytes(to->dtype);
  memcpy(to->data + (size_t)i * size, from->data + (size_t)j * size, size);
}

int64_t plain_differs(const struct plain *a, const void *b) {
  struct plain other = *a;
  other.data = (uint8_t *)(uintptr_t)b;
  if (plain_is_complex(a->dtype)) {
    struct plain parts = plain_parts(a);
    int64_t at = plain_differs(&parts, b);
    return at < 0 ? at : at / 2;
  }
  size_t size = weft_dtype_bytes(a->dtype);
  if (!memcmp(a->data, b, (size_t)a->count * size)) return -1;
  for (int64_t i = 0; i < a->count; i++) {
    if (!memcmp(a->data + (size_t)i * size, other.data + (size_t)i * size, size)) continue;
    if (plain_is_float(a->dtype) && isnan(plain_f(a, i)) && isnan(plain_f(&other, i))) continue;
    return i;
  }
  return -1;
}

const char *plain_text(const struct plain *p, int64_t i) {
  static char text[2][64];
  static int turn;
  char *s = text[turn = !turn];
  uint64_t bits = 0;
  if (plain_is_complex(p->dtype)) {
    struct plain parts = plain_parts(p);
    snprintf(s, 64, "(%.17g, %.17g)", plain_f(&parts, 2 * i), plain_f(&parts, 2 * i + 1));
    return s;
  }
  memcpy(&bits, p->data + i * (int64_t)weft_dtype_bytes(p->dtype), weft_dtype_bytes(p->dtype));
  if (plain_is_float(p->dtype)) snprintf(s, 64, "%.17g (%llx)", plain_f(p, i), (unsigned long long)bits);
  else snprintf(s, 64, "%lld", (long long)plain_i(p, i));
  return s;
}

struct plain plain_cast(const struct plain *x, weft_dtype t) {
  if (x->dtype != t && (plain_is_complex(x->dtype) || plain_is_complex(t))) return plain_complex_cast(x, t);
  struct plain y = plain_new(t, x->rank, x->dims);
  for (int64_t i = 0; i < x->count; i++) {
    if (x->dtype == t) copy_element(&y, i, x, i);
    else if (plain_is_float(x->dtype)) plain_set_f(&y, i, plain_f(x, i));
    else if (!plain_is_float(t)) plain_set_i(&y, i, plain_i(x, i));
    else plain_set_f(&y, i, x->dtype == WEFT_U64 ? (long double)(uint64_t)plain_i(x, i) : (long double)plain_i(x, i));
  }
  return y;
}

struct plain plain_broadcast(const struct plain *x, int rank, const int64_t dims[]) {
  struct plain y = plain_new(x->dtype, rank, dims);
  int64_t at[PLAIN_RANK], from[PLAIN_RANK];
  for (int64_t i = 0; i < y.count; i++) {
    plain_index(&y, i, at);
    for (int k = 0; k < x->rank; k++) from[k] = x->dims[k] == 1 ? 0 : at[rank - x->rank + k];
    copy_element(&y, i, x, plain_at(x, from));
  }
  return y;
}

bool plain_common(int n, const struct plain *const x[], int *rank, int64_t dims[]) {
  *rank = 0;
  for (int j = 0; j < n; j++) if (x[j]->rank > *rank) *rank = x[j]->rank;
  for (int k = 0; k < *rank; k++) {
    dims[k] = 1;
    for (int j = 0; j < n; j++) {
      int64_t d = k < *rank - x[j]->rank ? 1 : x[j]->dims[k - (*rank - x[j]->rank)];
      if (dims[k] != d && dims[k] != 1 && d != 1) return false;
      if (d != 1) dims[k] = d;
    }
  }
  return true;
}

/* ---- mathematics: the expansions of the kernel language, checked ---- */

static double rsqrt_(double x) { return (double)(1 / sqrtl(x)); }
static double sigmoid_(double x) { return (double)(x < 0 ? expl(x) / (1 + expl(x)) : 1 / (1 + expl(-x))); }
static double erfinv_(double x) { /* Newton on erf below 1/2, on erfc above */
  long double a = fabsl(x), c = 1 - a, y = a < 0.5L ? a * 0.886226925452758L : sqrtl(-logl(c * (1 + a)));
  if (!(a < 1)) return a == 1 ? copysign(INFINITY, x) : NAN;
  for (int i = 0; i < 30 && a > 0; i++) {
    long double d = (a < 0.5L ? a - erfl(y) : erfcl(y) - c) * 0.886226925452758L * expl(y * y);
    y += d / (1 - y * d);
  }
  return (double)copysignl(y, x);
}

static const struct { const char *name; double (*one)(double), (*two)(double, double), (*three)(double, double, double); } functions[] = {
#define F(name) { #name, name, NULL, NULL },
  F(exp) F(exp2) F(expm1) F(log) F(log2) F(log10) F(log1p) F(sin) F(cos) F(tan) F(asin)
  F(acos) F(atan) F(sinh) F(cosh) F(tanh) F(asinh) F(acosh) F(atanh) F(erf) F(erfc)
#undef F
  { "rsqrt", rsqrt_, NULL, NULL }, { "sigmoid", sigmoid_, NULL, NULL }, { "erfinv", erfinv_, NULL, NULL },
  { "pow", NULL, pow, NULL }, { "atan2", NULL, atan2, NULL }, { "hypot", NULL, hypot, NULL },
#define F(name) { #name, truth_##name, NULL, NULL },
  TRUTH_ONE(F)
#undef F
#define F(name) { #name, NULL, truth_##name, NULL },
  TRUTH_TWO(F)
#undef F
#define F(name) { #name, NULL, NULL, truth_##name },
  TRUTH_THREE(F)
#undef F
};
enum { FUNCTIONS = sizeof functions / sizeof *functions };
static struct { struct kir_kernel *kernel; struct code *code; } made[FUNCTIONS][2];

static int function_named(const char *op) { /* -1: no such */
  for (int f = 0; f < FUNCTIONS; f++)
    if (!strcmp(functions[f].name, op)) return f;
  return -1;
}

static struct code *math_code(int f, weft_dtype t) {
  char text[256];
  struct shape_class shape = { .stride = { { STRIDE_1 }, { STRIDE_1 }, { STRIDE_1 }, { STRIDE_1 } } };
  const char *why, *d = weft_dtype_name(t), *more = functions[f].one ? "" : functions[f].two ? ", load z[i]" : ", load z[i], load w[i]";
  struct kir_kernel *k = NULL;
  int wide = t == WEFT_F64;
  if (made[f][wide].code) return made[f][wide].code;
  snprintf(text, sizeof text, "kernel m { size N in x:%s[N], z:%s[N], w:%s[N] out y:%s[N] lane i in N { a = load x[i] b = %s(a%s) store y[i] = b } }",
           d, d, d, d, functions[f].name, more);
  if (kir_parse(text, &k, 1, NULL) != 1 || kir_verify(k) || !kir_legalise(k)) abort();
  made[f][wide].kernel = k;
  return made[f][wide].code = backend_vm.compile(k, &shape, &why);
}

void plain_end(void) {
  for (int f = 0; f < 2 * FUNCTIONS; f++) {
    if (made[f / 2][f % 2].code) backend_vm.free(made[f / 2][f % 2].code);
    kir_free(made[f / 2][f % 2].kernel);
    made[f / 2][f % 2].code = NULL, made[f / 2][f % 2].kernel = NULL;
  }
}

static bool is_near(weft_dtype t, double a, double b, double least, double units) { /* least: the size whose last place is good enough */
  if (isnan(a) || isnan(b)) return isnan(a) && isnan(b);
  if (a == b) return true;
  if (isinf(a) || isinf(b)) return t == WEFT_F32 && fabs(isinf(a) ? b : a) > 0x1.fffff0p127;
  double size = fmax(fabs(b), least), ulp = t == WEFT_F32 ? (double)(nextafterf((float)size, INFINITY) - (float)size) : nextafter(size, INFINITY) - size;
  return fabs(a - b) <= (t == WEFT_F32 ? 4 : units) * ulp;
}

static double true_value(int f, const double in[]) {
  return functions[f].one ? functions[f].one(in[0]) : functions[f].two ? functions[f].two(in[0], in[1]) : functions[f].three(in[0], in[1], in[2]);
}

/* The same numbers are asked for in every layout and dtype, and some truths are integrals: the last answers are kept. */
static double kept_truth(int f, double a, double b, double c) {
  enum { KEPT_BITS = 16 };
  static struct { double in[3], y; int f; } kept[1 << KEPT_BITS]; /* f: plus 1; 0: nothing yet */
  double in[3] = { a, functions[f].one ? 0 : b, functions[f].three ? c : 0 };
  uint64_t h = (uint64_t)f, bits[3];
  memcpy(bits, in, sizeof bits);
  for (int k = 0; k < 3; k++) h = (h ^ bits[k]) * 0x9e3779b97f4a7c15u, h ^= h >> 29;
  int at = (int)(h >> (64 - KEPT_BITS));
  if (kept[at].f != f + 1 || memcmp(kept[at].in, in, sizeof in)) {
    memcpy(kept[at].in, in, sizeof in);
    kept[at].f = f + 1, kept[at].y = true_value(f, in);
  }
  return kept[at].y;
}

/* |x f'| of a function by operand k, in whose last place accuracy is said: next to zeros and poles it is the larger. */
static double conditioned(int f, const double in[], int k) {
  const double h = 0x1p-20;
  double x[2][3];
  for (int i = 0; i < 2; i++) memcpy(x[i], in, sizeof x[i]), x[i][k] *= i ? 1 - h : 1 + h;
  double a = kept_truth(f, x[0][0], x[0][1], x[0][2]), b = kept_truth(f, x[1][0], x[1][1], x[1][2]);
  return a != TRUTH_UNKNOWN && b != TRUTH_UNKNOWN && isfinite(a - b) ? fabs(a - b) / (2 * h) : 0;
}

/* Where digests are written the bits are compared with those of another machine: truths, in long double, take minutes under
 * emulation and have been asked there. */
bool plain_asks_truths = true;
static bool asks_truth(void) {
  static int writes = -1;
  if (writes < 0) writes = getenv("WEFT_DIGESTS") != NULL;
  return plain_asks_truths && !writes;
}

/* Below 0 betaln is log |Gamma(a)| + log |Gamma(b)| - log |Gamma(a + b)|, each rounded by itself, and they may cancel. */
static double largest_term(const double in[]) {
  return fmax(fmax(fabs(lgamma(in[0])), fabs(lgamma(in[1]))), fabs(lgamma(in[0] + in[1])));
}

static bool is_off(int f, weft_dtype t, const double in[], double got) {
  if (!asks_truth()) return false;
  const char *op = functions[f].name;
  double want = kept_truth(f, in[0], in[1], in[2]), least = truth_least(op), units = truth_units(op);
  if (want == TRUTH_UNKNOWN || is_near(t, got, want, least, units)) return false;
  bool has_poles = !strcmp(op, "betaln") && (in[0] < 0 || in[1] < 0); /* also where the sum of its operands is a whole number */
  if (!functions[f].one && !has_poles) return truth_is_bounded(op, in);
  double slope = conditioned(f, in, 0) + (has_poles ? conditioned(f, in, 1) : 0);
  return !is_near(t, got, want, fmax(fmax(least, slope), has_poles ? largest_term(in) : 0), units);
}

static struct plain math3(const char *op, const struct plain *x, const struct plain *z, const struct plain *w) { /* f32 or f64 */
  struct plain y = plain_new(x->dtype, x->rank, x->dims);
  int f = function_named(op);
  struct code *code = math_code(f, x->dtype);
  struct bound buf[4] = { { .data = x->data, .stride = { 1 } }, { .data = z->data, .stride = { 1 } }, { .data = w->data, .stride = { 1 } }, { .data = y.data, .stride = { 1 } } };
  struct launch l = { .sizes = &x->count, .bufs = buf, .lo = 0, .hi = x->count };
  if (!code || backend_vm.run(code, &l)) abort();
  for (int64_t i = 0; i < x->count; i++) {
    double in[] = { plain_f(x, i), plain_f(z, i), plain_f(w, i) };
    if (!is_off(f, x->dtype, in, plain_f(&y, i))) continue;
    plain_off++;
    snprintf(plain_off_text, sizeof plain_off_text, "%s of %s %.17g, %.17g, %.17g is %.17g, not %.17g", op, weft_dtype_name(x->dtype), in[0], in[1], in[2],
             plain_f(&y, i), kept_truth(f, in[0], in[1], in[2]));
  }
  return y;
}
static struct plain math2(const char *op, const struct plain *x, const struct plain *z) { return math3(op, x, z, x); }
static struct plain math(const char *op, const struct plain *x) { return math2(op, x, x); }

/* ---- one element ---- */

#define IS(name) (*op == *name && !strcmp(op, name)) /* asked for every element, some forty times */

static double larger(double a, double b) {
  if (isnan(a) || isnan(b)) return NAN;
  return a == b ? (signbit(a) ? b : a) : a > b ? a : b;
}
static double smaller(double a, double b) { return -larger(-a, -b); }

/* Three steps as in quotient.c: what C's fmod says, or nan where they do not suffice. */
#define REMAINDER(T, name, trunc_, fma_, fabs_)                                                   \
  static double name(T a, T b) {                                                                  \
    T d = fabs_(b), r = fabs_(a);                                                                 \
    for (int i = 0; i < 3; i++) r = fma_(-trunc_(r / d), d, r);                                   \
    if (!(fabs_(r) < d)) r = NAN;                                                                 \
    if (r < 0) r += d;                                                                            \
    if (fabs_(a) < d) r = fabs_(a);                                                               \
    r = (T)copysign((double)r, (double)a);                                                        \
    plain_off += !isnan(r) && (double)r != fmod((double)a, (double)b);                            \
    return (double)r;                                                                             \
  }
REMAINDER(float, fmod_f32, truncf, fmaf, fabsf)
REMAINDER(double, fmod_f64, trunc, fma, fabs)

static double floored(double r, double b) { return r == 0 ? copysign(0, b) : (r < 0) != (b < 0) ? r + b : r; }

static double quotient_f64(double a, double b) {
  double r = fmod_f64(a, b), q = rint((a - r) / b);
  if (isnan(r)) return isfinite(a) || b == 0 ? a / b : NAN;
  if (r != 0 && (r < 0) != (b < 0)) q -= 1;
  return q == 0 ? copysign(0, a / b) : q;
}
static float quotient_f32(float a, float b) {
  float r = (float)fmod_f32(a, b), q = rintf((a - r) / b);
  if (isnan(r)) return isfinite(a) || b == 0 ? a / b : NAN;
  if (r != 0 && (r < 0) != (b < 0)) q -= 1;
  return q == 0 ? copysignf(0, a / b) : q;
}

static double in_f64(const char *op, const double x[]) {
  if (IS("sign")) return x[0] > 0 ? 1 : x[0] < 0 ? -1 : x[0];
  if (IS("floor")) return floor(x[0]);
  if (IS("ceil")) return ceil(x[0]);
  if (IS("trunc")) return trunc(x[0]);
  if (IS("round")) return rint(x[0]);
  if (IS("square")) return x[0] * x[0];
  if (IS("reciprocal")) return 1 / x[0];
  if (IS("fmod")) return fmod_f64(x[0], x[1]);
  if (IS("remainder")) return floored(fmod_f64(x[0], x[1]), x[1]);
  if (IS("floor_divide")) return quotient_f64(x[0], x[1]);
  if (IS("neg")) return -x[0];
  if (IS("abs")) return fabs(x[0]);
  if (IS("sqrt")) return sqrt(x[0]);
  if (IS("add")) return x[0] + x[1];
  if (IS("sub")) return x[0] - x[1];
  if (IS("mul")) return x[0] * x[1];
  if (IS("div")) return x[0] / x[1];
  if (IS("maximum")) return larger(x[0], x[1]);
  if (IS("minimum")) return smaller(x[0], x[1]);
  if (IS("fma")) return fma(x[0], x[1], x[2]);
  if (IS("scale")) return x[0] == 0 ? x[0] : x[0] * x[1];
  return plain_missing = op, NAN;
}

static float in_f32(const char *op, const double x[]) {
  float a = (float)x[0], b = (float)x[1], c = (float)x[2];
  if (IS("square")) return a * a;
  if (IS("reciprocal")) return 1 / a;
  if (IS("fmod")) return (float)fmod_f32(a, b);
  if (IS("remainder")) { float r = (float)fmod_f32(a, b); return r == 0 || (r < 0) == (b < 0) ? (float)floored((double)r, (double)b) : r + b; }
  if (IS("floor_divide")) return quotient_f32(a, b);
  if (IS("sqrt")) return sqrtf(a);
  if (IS("add")) return a + b;
  if (IS("sub")) return a - b;
  if (IS("mul")) return a * b;
  if (IS("div")) return a / b;
  if (IS("fma")) return fmaf(a, b, c);
  if (IS("scale")) return a == 0 ? a : a * b;
  return (float)in_f64(op, x);
}

static int compare_i(weft_dtype t, int64_t a, int64_t b) {
  if (is_signed(t)) return (a > b) - (a < b);
  return ((uint64_t)a > (uint64_t)b) - ((uint64_t)a < (uint64_t)b);
}

static int64_t on_bools(const char *op, const int64_t x[]) {
  if (IS("add") || IS("or") || IS("maximum")) return x[0] | x[1];
  if (IS("mul") || IS("and") || IS("minimum")) return x[0] & x[1];
  if (IS("sub") || IS("xor")) return x[0] ^ x[1];
  if (IS("not")) return !x[0];
  if (IS("abs") || IS("sign") || IS("floor") || IS("ceil") || IS("trunc") || IS("round") || IS("square")) return x[0];
  if (IS("floor_divide")) return x[0] & x[1];
  if (IS("pow")) return x[0] | !x[1];
  if (IS("remainder") || IS("fmod")) return x[0] & !x[1];
  if (IS("fma")) return (x[0] & x[1]) | x[2];
  return plain_missing = op, 0;
}

/* a / 0 = 0, a % 0 = a; the lowest integer / -1 is itself */
static int64_t divided(const char *op, weft_dtype t, int64_t a, int64_t b) {
  bool is_rest = !IS("floor_divide");
  if (b == 0) return is_rest ? a : 0;
  if (!is_signed(t)) return (int64_t)(is_rest ? (uint64_t)a % (uint64_t)b : (uint64_t)a / (uint64_t)b);
  if (b == -1) return is_rest ? 0 : (int64_t)(0 - (uint64_t)a);
  int64_t q = a / b, r = a % b;
  bool is_up = r && (r ^ b) < 0 && !IS("fmod");
  return is_rest ? r + (is_up ? b : 0) : q - is_up;
}

static int64_t power(weft_dtype t, int64_t x, int64_t n) {
  uint64_t y = 1, f = (uint64_t)x;
  if (is_signed(t) && n < 0) return x == 1 ? 1 : x == -1 ? (n & 1 ? -1 : 1) : 0;
  for (uint64_t rest = (uint64_t)n; rest; rest >>= 1, f *= f)
    if (rest & 1) y *= f;
  return (int64_t)y;
}

static int64_t shifted(const char *op, weft_dtype t, int64_t a, int64_t b) {
  if (b < 0 || b >= bits_of(t)) return IS("shr") && is_signed(t) && a < 0 ? -1 : 0;
  if (IS("shl")) return (int64_t)((uint64_t)a << b);
  return is_signed(t) ? a >> b : (int64_t)((uint64_t)a >> b);
}

/* threefry 2x32, 20 rounds: a key and a counter give two words. */
void plain_threefry(uint32_t k0, uint32_t k1, uint32_t x[2]) {
  static const int turn[2][4] = { { 13, 15, 26, 6 }, { 17, 29, 16, 24 } };
  uint32_t k[3] = { k0, k1, k0 ^ k1 ^ 0x1BD11BDA };
  x[0] += k0, x[1] += k1;
  for (uint32_t g = 0; g < 5; g++) {
    for (int r = 0; r < 4; r++) {
      int by = turn[g % 2][r];
      x[0] += x[1];
      x[1] = (x[1] << by | x[1] >> (32 - by)) ^ x[0];
    }
    x[0] += k[(g + 1) % 3], x[1] += k[(g + 2) % 3] + g + 1;
  }
}

/* x: the key, the number of the word, how many there are. */
static int64_t random_word(weft_dtype out, const int64_t x[]) {
  uint32_t i = (uint32_t)x[2], n = (uint32_t)x[3], half = n - n / 2, w[2] = { i, i + n };
  bool is_first = out == WEFT_U64 || i < half;
  if (out != WEFT_U64) w[0] = is_first ? i : i - half, w[1] = !is_first ? i : i + half < n ? i + half : 0;
  plain_threefry((uint32_t)x[0], (uint32_t)x[1], w);
  return out == WEFT_U64 ? (int64_t)((uint64_t)w[1] << 32 | w[0]) : (int64_t)w[!is_first];
}

static int64_t on_integers(const char *op, weft_dtype t, const int64_t x[]) {
  uint64_t a = (uint64_t)x[0], b = (uint64_t)x[1], c = (uint64_t)x[2];
  if (t == WEFT_BOOL) return on_bools(op, x);
  if (IS("neg")) return (int64_t)(0 - a);
  if (IS("abs")) return is_signed(t) && x[0] < 0 ? (int64_t)(0 - a) : x[0];
  if (IS("sign")) return compare_i(t, x[0], 0);
  if (IS("floor") || IS("ceil") || IS("trunc") || IS("round")) return x[0];
  if (IS("square")) return (int64_t)(a * a);
  if (IS("floor_divide") || IS("remainder") || IS("fmod")) return divided(op, t, x[0], x[1]);
  if (IS("pow")) return power(t, x[0], x[1]);
  if (IS("shl") || IS("shr")) return shifted(op, t, x[0], x[1]);
  if (IS("not")) return ~x[0];
  if (IS("add")) return (int64_t)(a + b);
  if (IS("sub")) return (int64_t)(a - b);
  if (IS("mul")) return (int64_t)(a * b);
  if (IS("maximum")) return compare_i(t, x[0], x[1]) >= 0 ? x[0] : x[1];
  if (IS("minimum")) return compare_i(t, x[0], x[1]) <= 0 ? x[0] : x[1];
  if (IS("and")) return x[0] & x[1];
  if (IS("or")) return x[0] | x[1];
  if (IS("xor")) return x[0] ^ x[1];
  if (IS("fma")) return (int64_t)(a * b + c);
  return plain_missing = op, 0;
}

static bool is_comparison(const char *op) { return IS("eq") || IS("ne") || IS("lt") || IS("le") || IS("gt") || IS("ge"); }

static bool is_logical(const char *op) { return !strncmp(op, "logical_", 8); }

static bool compared(const char *op, const struct plain *a, const struct plain *b, int64_t i) {
  bool is_float = plain_is_float(a->dtype);
  double x = is_float ? plain_f(a, i) : 0, y = is_float ? plain_f(b, i) : 0;
  int c = is_float ? (x > y) - (x < y) : compare_i(a->dtype, plain_i(a, i), plain_i(b, i));
  if (isnan(x) || isnan(y)) return IS("ne");
  return IS("eq") ? c == 0 : IS("ne") ? c != 0 : IS("lt") ? c < 0 : IS("le") ? c <= 0 : IS("gt") ? c > 0 : c >= 0;
}

/* max + log1p(e^-|a - b|) */
static struct plain logaddexp(const struct plain *a, const struct plain *b) {
  struct plain d = plain_new(a->dtype, a->rank, a->dims);
  for (int64_t i = 0; i < a->count; i++) {
    double x = plain_f(a, i), y = plain_f(b, i);
    plain_set_f(&d, i, x == y ? -0.0 : -fabs(a->dtype == WEFT_F64 ? x - y : (double)((float)x - (float)y)));
  }
  struct plain e = math("exp", &d), l = math("log1p", &e);
  for (int64_t i = 0; i < a->count; i++) {
    double m = larger(plain_f(a, i), plain_f(b, i)), more = plain_f(&l, i);
    plain_set_f(&d, i, a->dtype == WEFT_F64 ? m + more : (double)((float)m + (float)more));
  }
  plain_free(&e), plain_free(&l);
  return d;
}

static bool is_function(const char *op) { return function_named(op) >= 0 || IS("logaddexp"); }

static struct plain function_of(const char *op, weft_dtype out, int n, const struct plain *const x[]) {
  weft_dtype t = x[0]->dtype == WEFT_F64 ? WEFT_F64 : WEFT_F32;
  struct plain a = plain_cast(x[0], t), b = plain_cast(x[n > 1], t), c = plain_cast(x[n > 2 ? 2 : 0], t);
  struct plain y = IS("logaddexp") ? logaddexp(&a, &b) : math3(op, &a, &b, &c), z = plain_cast(&y, out);
  plain_free(&a), plain_free(&b), plain_free(&c), plain_free(&y);
  return z;
}

static struct plain same_shape(const char *op, weft_dtype out, int n, const struct plain *const x[]) {
  const struct plain *a = x[0];
  if (is_function(op) && plain_is_float(a->dtype)) return function_of(op, out, n, x);
  struct plain y = plain_new(out, a->rank, a->dims);
  for (int64_t i = 0; i < y.count; i++) {
    double f[4] = { 0 };
    int64_t g[4] = { 0 };
    for (int k = 0; k < n; k++) plain_is_float(x[k]->dtype) ? (f[k] = plain_f(x[k], i)) : (double)(g[k] = plain_i(x[k], i));
    if (IS("where") || IS("choose")) copy_element(&y, i, g[0] ? x[1] : x[2], i);
    else if (IS("gamma_draw") || IS("log_gamma_draw")) copy_element(&y, i, x[1], i);
    else if (IS("bits")) memcpy(y.data + i * (int64_t)weft_dtype_bytes(out), a->data + i * (int64_t)weft_dtype_bytes(out), weft_dtype_bytes(out));
    else if (IS("random_bits")) plain_set_i(&y, i, random_word(out, g));
    else if (IS("isnan")) plain_set_i(&y, i, isnan(f[0]));
    else if (IS("isinf")) plain_set_i(&y, i, isinf(f[0]) != 0);
    else if (IS("isfinite")) plain_set_i(&y, i, isfinite(f[0]) != 0);
    else if (is_logical(op)) plain_set_i(&y, i, IS("logical_not") ? !g[0] : IS("logical_and") ? g[0] && g[1] : IS("logical_or") ? g[0] || g[1] : !g[0] != !g[1]);
    else if (is_comparison(op)) plain_set_i(&y, i, compared(op, x[0], x[1], i));
    else if (!plain_is_float(a->dtype)) plain_set_i(&y, i, on_integers(op, a->dtype, g));
    else plain_set_f(&y, i, a->dtype == WEFT_F64 ? in_f64(op, f) : (double)in_f32(op, f));
  }
  return y;
}

struct plain plain_element(const char *op, weft_dtype out, int n, const struct plain *const x[]) {
  int64_t dims[PLAIN_RANK];
  int rank;
  struct plain wide[4], *at[4], y;
  if (plain_is_complex_element(op, n, x)) return plain_complex_element(op, out, n, x);
  if (!plain_common(n, x, &rank, dims)) abort();
  weft_dtype met = n == 3 && (IS("where") || IS("choose")) ? out : is_comparison(op) ? weft_dtype_promote(x[0]->dtype, x[1]->dtype) : IS("isnan") || IS("isinf") || IS("isfinite") || IS("random_bits") || IS("bits") ? x[0]->dtype : out;
  for (int k = 0; k < n; k++) {
    struct plain c = plain_cast(x[k], (IS("where") || IS("choose")) && k == 0 ? WEFT_BOOL : met);
    wide[k] = plain_broadcast(&c, rank, dims);
    at[k] = &wide[k];
    plain_free(&c);
  }
  y = same_shape(op, out, n, (const struct plain *const *)at);
  for (int k = 0; k < n; k++) plain_free(&wide[k]);
  return y;
}

/* Whether there is a row for it: tried on ones, as floats and as integers. */
bool plain_has_element(const char *op) {
  static struct { const char *op; bool has; } known[256];
  static int n_known;
  for (int i = 0; i < n_known; i++) if (known[i].op == op) return known[i].has;
  bool has = false;
  const char *before = plain_missing;
  for (int k = 0; !has && k < 2; k++) {
    struct plain one = plain_new(k ? WEFT_I32 : WEFT_F32, 0, NULL);
    k ? plain_set_i(&one, 0, 1) : plain_set_f(&one, 0, 1);
    plain_missing = NULL;
    struct plain y = plain_element(op, one.dtype, IS("random_bits") ? 4 : IS("where") || IS("choose") || IS("fma") ? 3 : 2, (const struct plain *[]){ &one, &one, &one, &one });
    has = !plain_missing;
    plain_free(&one), plain_free(&y);
  }
  plain_missing = before;
  if (n_known < 256) known[n_known].op = op, known[n_known++].has = has;
  return has;
}

bool plain_has_fold(const char *op) {
  static const char *const names[] = { "sum", "prod", "max", "min", "all", "any", "logsumexp", "argmax", "argmin", "cumsum", "cumprod", "cummax", "cummin" };
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) if (IS(names[i])) return true;
  return false;
}

/* ---- folds: docs/kir.md, section 6 ---- */

struct state { double f, s; int64_t i; }; /* a number, or (largest, sum) of logsumexp, or (value, index) of argmax */
struct folding { const char *op; weft_dtype dtype; bool is_float; };

static double expanded(const char *op, weft_dtype t, double v) {
  struct plain x = plain_new(t == WEFT_F64 ? WEFT_F64 : WEFT_F32, 0, NULL);
  plain_set_f(&x, 0, v);
  struct plain y = math(op, &x);
  double r = plain_f(&y, 0);
  plain_free(&x);
  plain_free(&y);
  return r;
}

static double scale(const struct folding *g, double from, double to) {
  if (from == to) return 1;
  return expanded("exp", g->dtype, g->dtype == WEFT_F64 ? from - to : (double)((float)from - (float)to));
}

static struct state combine(const struct folding *g, struct state a, struct state b) {
  const char *op = g->op;
  double f[3] = { a.f, b.f };
  int64_t i[3] = { a.i, b.i };
  if (IS("logsumexp")) {
    double m = larger(a.f, b.f), ea = scale(g, a.f, m), eb = scale(g, b.f, m);
    if (g->dtype == WEFT_F64) return (struct state){ m, fma(a.s, ea, b.s * eb), 0 };
    return (struct state){ m, (double)fmaf((float)a.s, (float)ea, (float)b.s * (float)eb), 0 };
  }
  const char *as = IS("sum") ? "add" : IS("prod") ? "mul" : IS("max") ? "maximum" : IS("min") ? "minimum" : IS("all") ? "and" : "or";
  if (!g->is_float) return (struct state){ 0, 0, on_integers(as, g->dtype, i) };
  return (struct state){ g->dtype == WEFT_F64 ? in_f64(as, f) : (double)in_f32(as, f), 0, 0 };
}

static struct state start_of(const struct folding *g) {
  const char *op = g->op;
  int bits = bits_of(g->dtype) - is_signed(g->dtype);
  uint64_t top = bits == 64 ? UINT64_MAX : ((uint64_t)1 << bits) - 1;
  struct state s = { 0, 0, 0 };
  if (IS("prod") || IS("all")) s.f = 1, s.i = 1;
  if (IS("max") || IS("logsumexp")) s.f = -INFINITY, s.i = is_signed(g->dtype) ? (int64_t)~top : 0;
  if (IS("min")) s.f = INFINITY, s.i = (int64_t)top;
  return s;
}

struct counter { struct state value[64]; int rank[64], n; };

static void push(const struct folding *g, struct counter *c, struct state s) {
  c->value[c->n] = s, c->rank[c->n++] = 0;
  for (; c->n > 1 && c->rank[c->n - 1] == c->rank[c->n - 2]; c->n--) {
    c->value[c->n - 2] = combine(g, c->value[c->n - 2], c->value[c->n - 1]);
    c->rank[c->n - 2]++;
  }
}

static struct state counted(const struct folding *g, struct counter *c) {
  if (!c->n) return start_of(g);
  while (c->n > 1) c->value[c->n - 2] = combine(g, c->value[c->n - 2], c->value[c->n - 1]), c->n--;
  return c->value[0];
}

static struct state fold_row(const struct folding *g, int64_t n, const struct state x[]) {
  struct counter c = { .n = 0 };
  for (int64_t b = 0; b < n; b += 4096) {
    struct state a[32];
    for (int l = 0; l < 32; l++) a[l] = start_of(g);
    for (int64_t j = b; j < n && j < b + 4096; j++) a[j % 32] = combine(g, a[j % 32], x[j]);
    for (int w = 16; w; w /= 2)
      for (int l = 0; l < w; l++) a[l] = combine(g, a[l], a[l + w]);
    push(g, &c, a[0]);
  }
  return counted(g, &c);
}

static struct state fold_column(const struct folding *g, int64_t n, const struct state x[]) {
  struct counter c = { .n = 0 };
  for (int64_t b = 0; b < n; b += 128) {
    struct state a = start_of(g);
    for (int64_t j = b; j < n && j < b + 128; j++) a = combine(g, a, x[j]);
    push(g, &c, a);
  }
  return counted(g, &c);
}

/* More than 64 for logsumexp: op/logsumexp.c. s e^f of all, relative to the largest. */
static struct state at_once(const struct folding *g, bool is_row, int64_t n, const struct state x[]) {
  struct folding add = { "sum", g->dtype, true };
  struct state *e = calloc((size_t)n, sizeof *e), r;
  double most = g->dtype == WEFT_F64 ? DBL_MAX : (double)FLT_MAX, m = -INFINITY;
  for (int64_t j = 0; j < n; j++) m = larger(m, x[j].f);
  double top = m > most ? most : m < -most ? -most : m;
  for (int64_t j = 0; j < n; j++) {
    double y = expanded("exp", g->dtype, g->dtype == WEFT_F64 ? x[j].f - top : (double)((float)x[j].f - (float)top));
    e[j].f = g->dtype == WEFT_F64 ? x[j].s * y : (double)((float)x[j].s * (float)y);
  }
  r = is_row ? fold_row(&add, n, e) : fold_column(&add, n, e);
  free(e);
  return (struct state){ m, r.f, 0 };
}

/* In groups, and these again, until there are few enough; x is overwritten. */
static struct state in_groups(const struct folding *g, bool is_row, int64_t n, struct state x[]) {
  int64_t longest = is_row ? 4096 : 64, group;
  for (; n > (is_row ? 16384 : 512); n = (n + group - 1) / group) {
    for (group = longest; n % group && 2 * group >= longest;) group--;
    if (n % group) group = longest;
    for (int64_t j = 0; j < n; j += group) x[j / group] = at_once(g, is_row, n - j < group ? n - j : group, x + j);
  }
  return at_once(g, is_row, n, x);
}

/* The first nan, else the first that no other beats. */
static int64_t best(bool is_float, bool is_max, weft_dtype t, int64_t n, const struct state x[]) {
  int64_t at = 0;
  for (int64_t j = 1; j < n; j++) {
    if (is_float && isnan(x[at].f)) return at;
    bool wins = is_float ? isnan(x[j].f) || (is_max ? x[j].f > x[at].f : x[j].f < x[at].f)
                         : is_max ? compare_i(t, x[j].i, x[at].i) > 0 : compare_i(t, x[j].i, x[at].i) < 0;
    if (wins) at = j;
  }
  return at;
}

static struct state *line_of(const struct plain *x, int64_t base, int axis) {
  int64_t stride = 1, n = x->dims[axis];
  struct state *s = calloc((size_t)n + 1, sizeof *s);
  for (int k = axis + 1; k < x->rank; k++) stride *= x->dims[k];
  for (int64_t j = 0; j < n; j++) {
    if (plain_is_float(x->dtype)) s[j] = (struct state){ plain_f(x, base + j * stride), 1, 0 };
    else s[j].i = plain_i(x, base + j * stride);
  }
  return s;
}

static void set_state(struct plain *y, int64_t i, const struct state *s) {
  if (plain_is_float(y->dtype)) plain_set_f(y, i, s->f);
  else plain_set_i(y, i, s->i);
}

struct plain plain_reduce(const char *op, weft_dtype out, const struct plain *given, int axis) {
  if (plain_is_complex(given->dtype)) return plain_complex_reduce(op, out, given, axis);
  bool is_arg = IS("argmax") || IS("argmin");
  weft_dtype met = is_arg ? given->dtype : out;
  struct plain x = plain_cast(given, met);
  struct folding g = { op, is_narrow(met) ? WEFT_F32 : met, plain_is_float(met) };
  int64_t dims[PLAIN_RANK], at[PLAIN_RANK];
  memcpy(dims, x.dims, sizeof dims);
  dims[axis] = 1;
  struct plain y = plain_new(out, x.rank, dims);
  for (int64_t i = 0; i < y.count; i++) {
    plain_index(&y, i, at);
    struct state *s = line_of(&x, plain_at(&x, at), axis), r;
    if (is_arg) plain_set_i(&y, i, best(g.is_float, IS("argmax"), met, x.dims[axis], s));
    else {
      bool is_row = axis == x.rank - 1, is_many = IS("logsumexp") && x.dims[axis] > 64;
      r = is_many ? in_groups(&g, is_row, x.dims[axis], s) : is_row ? fold_row(&g, x.dims[axis], s) : fold_column(&g, x.dims[axis], s);
      if (IS("logsumexp")) {
        double l = expanded("log", g.dtype, r.s);
        r.f = g.dtype == WEFT_F64 ? r.f + l : (double)((float)r.f + (float)l);
      }
      set_state(&y, i, &r);
    }
    free(s);
  }
  plain_free(&x);
  return y;
}

/* In order inside blocks of 4096, the first standing alone; blocks chained in order. */
struct plain plain_prefix(const char *op, weft_dtype out, const struct plain *given, int axis) {
  if (plain_is_complex(out)) return plain_complex_prefix(op, given, axis);
  weft_dtype met = out;
  struct plain x = plain_cast(given, met), y = plain_new(out, x.rank, x.dims);
  struct folding g = { IS("cumsum") ? "sum" : IS("cumprod") ? "prod" : IS("cummax") ? "max" : "min",
                       is_narrow(met) ? WEFT_F32 : met, plain_is_float(met) };
  int64_t at[PLAIN_RANK], stride = 1, n = x.dims[axis];
  for (int k = axis + 1; k < x.rank; k++) stride *= x.dims[k];
  for (int64_t i = 0; i < y.count; i++) {
    plain_index(&y, i, at);
    if (at[axis]) continue;
    struct state *s = line_of(&x, i, axis), before = { 0 }, inside = { 0 };
    for (int64_t j = 0; j < n; j++) {
      if (j && j % 4096 == 0) before = j == 4096 ? inside : combine(&g, before, inside);
      inside = j % 4096 ? combine(&g, inside, s[j]) : s[j];
      struct state r = j < 4096 ? inside : combine(&g, before, inside);
      set_state(&y, i + j * stride, &r);
    }
    free(s);
  }
  plain_free(&x);
  return y;
}

/* Which of two elements comes first: -0 before 0, nan last, equal ones in order. */
static bool comes_before(const struct plain *x, int64_t i, int64_t j) {
  if (x->dtype == WEFT_U64) return (uint64_t)plain_i(x, i) < (uint64_t)plain_i(x, j);
  if (!plain_is_float(x->dtype)) return plain_i(x, i) < plain_i(x, j);
  double a = plain_f(x, i), b = plain_f(x, j);
  if (a == 0 && b == 0) return signbit(a) && !signbit(b);
  return a < b || (!isnan(a) && isnan(b));
}

/* By insertion: each element goes before those that it comes before. */
struct plain plain_sort(const struct plain *x, int axis, bool is_order) {
  struct plain y = plain_new(is_order ? WEFT_I64 : x->dtype, x->rank, x->dims);
  int64_t at[PLAIN_RANK], stride = 1, n = x->dims[axis], *from = malloc(sizeof *from * (size_t)(n + 1));
  for (int k = axis + 1; k < x->rank; k++) stride *= x->dims[k];
  for (int64_t i = 0; i < y.count; i++) {
    plain_index(&y, i, at);
    if (at[axis]) continue;
    for (int64_t j = 0, k; j < n; j++) {
      for (k = j; k > 0 && comes_before(x, i + j * stride, i + from[k - 1] * stride); k--) from[k] = from[k - 1];
      from[k] = j;
    }
    for (int64_t j = 0; j < n; j++) {
      if (is_order) plain_set_i(&y, i + j * stride, from[j]);
      else copy_element(&y, i + j * stride, x, i + from[j] * stride);
    }
  }
  free(from);
  return y;
}

/* The ranks of what is sorted; those beyond an end are the element there. */
struct plain plain_ranks(const struct plain *sorted, int axis, const struct select_attr *a) {
  int64_t n = sorted->dims[axis], dims[PLAIN_RANK], at[PLAIN_RANK], first = (int64_t)floor((double)(n * a->times + a->plus) / (double)a->over);
  for (int k = 0; k < sorted->rank; k++) dims[k] = k == axis ? a->count : sorted->dims[k];
  struct plain y = plain_new(sorted->dtype, sorted->rank, dims);
  size_t size = weft_dtype_bytes(y.dtype);
  for (int64_t i = 0; n && i < y.count; i++) {
    plain_index(&y, i, at);
    at[axis] = first + at[axis] < 0 ? 0 : first + at[axis] >= n ? n - 1 : first + at[axis];
    memcpy((char *)y.data + (size_t)i * size, (char *)sorted->data + (size_t)plain_at(sorted, at) * size, size);
  }
  return y;
}

/* ---- moving ---- */

struct plain plain_reshape(const struct plain *x, int rank, const int64_t dims[]) {
  struct plain y = plain_new(x->dtype, rank, dims);
  memcpy(y.data, x->data, (size_t)x->count * weft_dtype_bytes(x->dtype));
  return y;
}

struct plain plain_transpose(const struct plain *x, const int axes[]) {
  int64_t dims[PLAIN_RANK], at[PLAIN_RANK], from[PLAIN_RANK];
  for (int k = 0; k < x->rank; k++) dims[k] = x->dims[axes[k]];
  struct plain y = plain_new(x->dtype, x->rank, dims);
  for (int64_t i = 0; i < y.count; i++) {
    plain_index(&y, i, at);
    for (int k = 0; k < x->rank; k++) from[axes[k]] = at[k];
    copy_element(&y, i, x, plain_at(x, from));
  }
  return y;
}

struct plain plain_slice(const struct plain *x, int axis, int64_t start, int64_t length, int64_t step) {
  int64_t dims[PLAIN_RANK], at[PLAIN_RANK];
  memcpy(dims, x->dims, sizeof dims);
  dims[axis] = length;
  struct plain y = plain_new(x->dtype, x->rank, dims);
  for (int64_t i = 0; i < y.count; i++) {
    plain_index(&y, i, at);
    at[axis] = start + at[axis] * step;
    copy_element(&y, i, x, plain_at(x, at));
  }
  return y;
}

struct plain plain_take(const struct plain *x, int n, const struct plain *const index[]) {
  int64_t dims[2 * PLAIN_RANK], at[PLAIN_RANK], from[PLAIN_RANK];
  int r = index[0]->rank;
  for (int k = 0; k < r; k++) dims[k] = index[0]->dims[k];
  for (int k = n; k < x->rank; k++) dims[r + k - n] = x->dims[k];
  struct plain y = plain_new(x->dtype, r + x->rank - n, dims);
  for (int64_t i = 0; i < y.count; i++) {
    plain_index(&y, i, at);
    for (int k = 0; k < n; k++) {
      int64_t j = plain_i(index[k], plain_at(index[k], at));
      from[k] = j < 0 ? j + x->dims[k] : j;
    }
    for (int k = n; k < x->rank; k++) from[k] = at[r + k - n];
    copy_element(&y, i, x, plain_at(x, from));
  }
  return y;
}

/* Rounded to x's dtype once, after the last update. */
struct plain plain_put(const struct plain *x, const struct plain *number, const struct plain *v, weft_how how) {
  static const char *const ops[] = { "", "sum", "prod", "min", "max" };
  if (plain_is_complex(x->dtype) && how != WEFT_SET) return plain_complex_put(x, number, v, how);
  weft_dtype wide = is_narrow(x->dtype) ? WEFT_F32 : x->dtype;
  struct folding g = { wide == WEFT_BOOL && how != WEFT_SET ? (how == WEFT_ADD || how == WEFT_MAX ? "any" : "all") : ops[how], wide, plain_is_float(wide) };
  struct plain y = plain_cast(x, x->dtype), all = plain_cast(x, wide), part = plain_cast(v, wide);
  for (int64_t i = 0; i < v->count; i++) {
    int64_t j = plain_i(number, i);
    if (how == WEFT_SET) { copy_element(&y, j, v, i); continue; }
    struct state a = { plain_f(&all, j), 0, g.is_float ? 0 : plain_i(&all, j) }, b = { plain_f(&part, i), 0, g.is_float ? 0 : plain_i(&part, i) };
    a = combine(&g, a, b);
    set_state(&all, j, &a);
    struct plain one = { .dtype = wide, .rank = 0, .count = 1, .data = all.data + j * (int64_t)weft_dtype_bytes(wide) };
    struct plain rounded = plain_cast(&one, x->dtype);
    copy_element(&y, j, &rounded, 0);
    plain_free(&rounded);
  }
  plain_free(&all);
  plain_free(&part);
  return y;
}

struct plain plain_concat(int axis, int n, const struct plain *const x[]) {
  int64_t dims[PLAIN_RANK], at[PLAIN_RANK], start = 0;
  memcpy(dims, x[0]->dims, sizeof dims);
  for (int k = 1; k < n; k++) dims[axis] += x[k]->dims[axis];
  struct plain y = plain_new(x[0]->dtype, x[0]->rank, dims);
  for (int k = 0; k < n; start += x[k++]->dims[axis])
    for (int64_t i = 0; i < x[k]->count; i++) {
      plain_index(x[k], i, at);
      at[axis] += start;
      copy_element(&y, plain_at(&y, at), x[k], i);
    }
  return y;
}

struct plain plain_pad(const struct plain *x, int axis, int64_t before, int64_t after, const struct plain *value) {
  int64_t dims[PLAIN_RANK], at[PLAIN_RANK];
  memcpy(dims, x->dims, sizeof dims);
  dims[axis] += before + after;
  struct plain y = plain_new(x->dtype, x->rank, dims);
  for (int64_t i = 0; i < y.count; i++) {
    plain_index(&y, i, at);
    at[axis] -= before;
    bool is_inside = at[axis] >= 0 && at[axis] < x->dims[axis];
    copy_element(&y, i, is_inside ? x : value, is_inside ? plain_at(x, at) : 0);
  }
  return y;
}

/* In blocks of 512, in order; integers wrap. */
struct plain plain_matmul(const struct plain *a, const struct plain *b, weft_dtype out) {
  int64_t dims[PLAIN_RANK], at[PLAIN_RANK], bt[PLAIN_RANK];
  int r = a->rank;
  if (plain_is_complex(out)) return plain_complex_matmul(a, b);
  memcpy(dims, a->dims, sizeof dims);
  dims[r - 1] = b->dims[r - 1];
  struct plain y = plain_new(out, r, dims);
  for (int64_t i = 0; i < y.count; i++) {
    double s = 0, total = 0;
    uint64_t whole = 0;
    plain_index(&y, i, at);
    memcpy(bt, at, sizeof bt);
    for (int64_t k = 0; k < a->dims[r - 1]; k++) {
      at[r - 1] = bt[r - 2] = k;
      int64_t ia = plain_at(a, at), ib = plain_at(b, bt);
      if (!plain_is_float(out)) { whole += (uint64_t)plain_i(a, ia) * (uint64_t)plain_i(b, ib); continue; }
      if (k && k % 512 == 0) total = k == 512 ? s : out == WEFT_F64 ? total + s : (double)((float)total + (float)s), s = 0;
      double u = plain_f(a, ia), v = plain_f(b, ib);
      s = out == WEFT_F64 ? fma(u, v, s) : (double)fmaf((float)u, (float)v, (float)s);
    }
    if (a->dims[r - 1] > 512) s = out == WEFT_F64 ? total + s : (double)((float)total + (float)s);
    if (plain_is_float(out)) plain_set_f(&y, i, s);
    else plain_set_i(&y, i, (int64_t)whole);
  }
  return y;
}

struct plain plain_iota(weft_dtype t, int rank, const int64_t dims[], int axis) {
  struct plain y = plain_new(t, rank, dims);
  int64_t at[PLAIN_RANK];
  for (int64_t i = 0; i < y.count; i++) {
    plain_index(&y, i, at);
    if (plain_is_float(t)) plain_set_f(&y, i, at[axis]);
    else plain_set_i(&y, i, at[axis]);
  }
  return y;
}
