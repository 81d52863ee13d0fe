/* The expansions of mathematical functions against libm in long double, by an evaluator of one lane that knows nothing
 * of any back end; at special values as C says. `make ulp` sweeps the kernels themselves, and more finely. */
#include "kernels.h"
#include <math.h>

/* ---- KIR without loops, one value at a time ----------------------------------------------------------------------------- */

static float f32_of(uint64_t b) { uint32_t n = (uint32_t)b; float f; memcpy(&f, &n, 4); return f; }
static double f64_of(uint64_t b) { double d; memcpy(&d, &b, 8); return d; }
static uint64_t of_f32(float f) { uint32_t n; memcpy(&n, &f, 4); return n; }
static uint64_t of_f64(double d) { uint64_t n; memcpy(&n, &d, 8); return n; }

static double largest(double x, double y, bool is_max) { /* NaN wins, -0 < +0 */
  if (x != x || y != y) return NAN;
  if (x == 0 && y == 0) return (signbit(x) != 0) == is_max ? y : x;
  return (x < y) == is_max ? y : x;
}

static uint64_t unknown(int op, const char *dtype) {
  static bool was_told;
  if (!was_told) test_fail(__FILE__, __LINE__, "no %s on %s here", kir_rows[op].name, dtype);
  was_told = true;
  return 0;
}

static uint64_t on_f32(int op, const uint64_t in[]) {
  float x = f32_of(in[0]), y = f32_of(in[1]), z = f32_of(in[2]);
  switch (op) {
  case KIR_ADD: return of_f32(x + y);
  case KIR_SUB: return of_f32(x - y);
  case KIR_MUL: return of_f32(x * y);
  case KIR_DIV: return of_f32(x / y);
  case KIR_FMA: return of_f32(fmaf(x, y, z));
  case KIR_ABS: return in[0] & 0x7fffffff;
  case KIR_NEG: return in[0] ^ 0x80000000;
  case KIR_MIN: return of_f32((float)largest(x, y, false));
  case KIR_MAX: return of_f32((float)largest(x, y, true));
  case KIR_SQRT: return of_f32(sqrtf(x));
  case KIR_SCALE: return of_f32(x != x ? x : ldexpf(x, (int)(y - (0x1.8p23f + 254))));
  case KIR_RINT: return of_f32(rintf(x));
  case KIR_LT: return x < y;
  case KIR_EQ: return x == y;
  case KIR_NE: return x != y;
  }
  return unknown(op, "f32");
}

static uint64_t on_f64(int op, const uint64_t in[]) {
  double x = f64_of(in[0]), y = f64_of(in[1]), z = f64_of(in[2]);
  switch (op) {
  case KIR_ADD: return of_f64(x + y);
  case KIR_SUB: return of_f64(x - y);
  case KIR_MUL: return of_f64(x * y);
  case KIR_DIV: return of_f64(x / y);
  case KIR_FMA: return of_f64(fma(x, y, z));
  case KIR_ABS: return in[0] & INT64_MAX;
  case KIR_NEG: return in[0] ^ UINT64_C(1) << 63;
  case KIR_MIN: return of_f64(largest(x, y, false));
  case KIR_MAX: return of_f64(largest(x, y, true));
  case KIR_SQRT: return of_f64(sqrt(x));
  case KIR_SCALE: return of_f64(x != x ? x : ldexp(x, (int)(y - (0x1.8p52 + 2046))));
  case KIR_RINT: return of_f64(rint(x));
  case KIR_LT: return x < y;
  case KIR_EQ: return x == y;
  case KIR_NE: return x != y;
  }
  return unknown(op, "f64");
}

static uint64_t on_unsigned(int op, int bits, const uint64_t in[]) {
  uint64_t x = in[0], y = in[1], mask = bits == 64 ? UINT64_MAX : 0xffffffff;
  switch (op) {
  case KIR_ADD: return (x + y) & mask;
  case KIR_SUB: return (x - y) & mask;
  case KIR_AND: return x & y;
  case KIR_OR: return x | y;
  case KIR_XOR: return x ^ y;
  case KIR_NE: return x != y;
  case KIR_SHL: return y < (uint64_t)bits ? x << y & mask : 0;
  case KIR_SHR: return y < (uint64_t)bits ? x >> y : 0;
  }
  return unknown(op, "unsigned");
}

static uint64_t step(const struct kir_kernel *k, const struct kir_stmt *s, const uint64_t in[3]) {
  int from = k->vals[s->in[0]].dtype;
  if (s->op == KIR_BITS) return in[0];
  if (s->op == KIR_SELECT) return in[0] ? in[1] : in[2];
  if (s->op == KIR_CAST && s->dtype == WEFT_F32 && from == WEFT_I32) return of_f32((float)(int32_t)in[0]);
  if (s->op == KIR_CAST && s->dtype == WEFT_F32 && from == WEFT_F64) return of_f32((float)f64_of(in[0]));
  if (s->op == KIR_CAST && s->dtype == WEFT_F64 && from == WEFT_F32) return of_f64((double)f32_of(in[0]));
  if (from == WEFT_BOOL) return s->op == KIR_NOT ? !in[0] : s->op == KIR_AND ? in[0] & in[1] : in[0] | in[1];
  if (from == WEFT_I32 && s->op == KIR_LT) return (int32_t)in[0] < (int32_t)in[1];
  if (from == WEFT_I64 && s->op == KIR_LT) return (int64_t)in[0] < (int64_t)in[1];
  if (from == WEFT_F32) return on_f32(s->op, in);
  if (from == WEFT_F64) return on_f64(s->op, in);
  return on_unsigned(s->op, from == WEFT_U64 ? 64 : 32, in);
}

static void run(const struct kir_kernel *k, const struct kir_block *b, uint64_t v[]) {
  for (const struct kir_stmt *s = b->first; s; s = s->next) {
    uint64_t in[3] = { 0 };
    for (int i = 0; i < s->n_in; i++) in[i] = v[s->in[i]];
    for (const struct kir_stmt *y = s->body.first; y; y = y->next)
      if (y->kind == KIR_YIELD) v[y->out[0]] = v[y->in[1]];
    if (s->kind == KIR_IF && in[0]) run(k, &s->body, v);
    if (s->kind == KIR_YIELD) v[s->out[0]] = in[0];
    if (s->kind == KIR_OP) v[s->out[0]] = step(k, s, in);
  }
}

/* A kernel of args whose one loop ends in the store of the result. */
static uint64_t evaluate(const struct kir_kernel *k, uint64_t v[], uint64_t x) {
  const struct kir_block *lane = &k->body.first->body;
  v[k->args[0]] = x;
  run(k, lane, v);
  return v[lane->last->in[0]];
}

/* ---- Sweeps ------------------------------------------------------------------------------------------------------------ */

enum { VALS_MAX = 1024 };
struct sweep { const char *name; weft_dtype dtype; long double (*exact)(long double); double ulp; int instructions; };

static struct kir_kernel *expanded(const struct sweep *w, uint64_t v[VALS_MAX]) {
  char source[200];
  struct text why = { 0 };
  struct kir_kernel *k = NULL;
  const char *d = kir_dtype_name(w->dtype);
  snprintf(source, sizeof source, "kernel m { arg x:%s out y:%s[1] lane i in 1 { store y[i] = %s(x) } }", d, d, w->name);
  EXPECT_INT(kir_parse(source, &k, 1, &why), 1);
  EXPECT(kir_legalise(k));
  EXPECT(!kir_verify(k));
  EXPECT(k->n_vals <= VALS_MAX);
  for (int i = 0; i < k->n_vals; i++) v[i] = k->vals[i].bits;
  text_free(&why);
  return k;
}

/* The distance of got from the exact value, in units of the last place of a result of that size. */
static double error_in_ulp(const struct sweep *w, long double want, uint64_t got) {
  int digits = w->dtype == WEFT_F32 ? 24 : 53, least = w->dtype == WEFT_F32 ? -149 : -1074, e;
  long double g = w->dtype == WEFT_F32 ? (long double)f32_of(got) : (long double)f64_of(got);
  long double rounded = w->dtype == WEFT_F32 ? (long double)(float)want : (long double)(double)want;
  if (rounded != rounded) return g != g ? 0 : INFINITY;
  if (g == rounded && signbit(g) == signbit(rounded) && (isinf(g) || g == 0)) return 0;
  if (isinf(rounded) || isinf(g) || g != g || want == 0 || (g == 0 && rounded == 0)) return INFINITY;
  frexpl(want, &e);
  int unit = e - digits > least ? e - digits : least;
  return (double)(fabsl(g - want) / ldexpl(1, unit));
}

struct worst { double ulp; uint64_t x; };

static void try(const struct sweep *w, const struct kir_kernel *k, uint64_t v[], uint64_t x, struct worst *worst) {
  long double at = w->dtype == WEFT_F32 ? (long double)f32_of(x) : (long double)f64_of(x);
  uint64_t got = evaluate(k, v, x);
  double e = error_in_ulp(w, w->exact(at), got);
  if (e > worst->ulp) *worst = (struct worst){ e, x };
}

static const double specials[] = { 0.0, -0.0, 1, -1, 2, 0.5, -0.5, 1.5, 10, -10, 20, 100, -100, 88.72283, 88.7228394,
  -87.33654, -103.97, -104, 709.782712893384, 709.7827128933841, -708.39641853226, -745.13321910194, -745.2, 1e10, -1e10,
  1e300, -1e300, 1e38, 3.4028234e38, 1.17549435e-38, 1e-40, -1e-40, 1e-45, -1e-45, 2.2250738585072014e-308, 1e-310,
  5e-324, -5e-324, 0.70710678, 1.41421356, 0.66666667, 1.33333333, 0x1p-24, -0x1p-24, 0x1p-25, 0x1p-53, -0x1p-53, -0.99999994, -0.9999999999999999, 0x1.fffffep-1, 0x1.000002p0,
  0x1.fffffffffffffp-1, 0x1.0000000000001p0, 0.3465736, 0.34657359, 0.6931472, 0.69314718055994531, 9.01, 19.06, 22 };

static void try_specials(const struct sweep *w, const struct kir_kernel *k, uint64_t v[], struct worst *worst) {
  bool is_narrow = w->dtype == WEFT_F32;
  uint64_t quiet = is_narrow ? 0x7fc00000 : 0x7ff8000000000000, sign = is_narrow ? 0x80000000 : UINT64_C(1) << 63;
  for (size_t i = 0; i < sizeof specials / sizeof *specials; i++)
    try(w, k, v, is_narrow ? of_f32((float)specials[i]) : of_f64(specials[i]), worst);
  try(w, k, v, is_narrow ? of_f32(INFINITY) : of_f64(INFINITY), worst);
  try(w, k, v, is_narrow ? of_f32(-INFINITY) : of_f64(-INFINITY), worst);
  for (int bit = 0; bit < (is_narrow ? 22 : 51); bit++) /* NaNs of many payloads, of both signs */
    for (int s = 0; s < 2; s++) {
      uint64_t nan = (quiet | UINT64_C(1) << bit | (s ? sign : 0));
      uint64_t got = evaluate(k, v, nan);
      if (is_narrow ? f32_of(got) == f32_of(got) : f64_of(got) == f64_of(got))
        test_fail(__FILE__, __LINE__, "%s of NaN %llx is a number", w->name, (unsigned long long)nan);
    }
}

static uint64_t random_bits(uint64_t *state) {
  *state += 0x9E3779B97F4A7C15u;
  uint64_t z = *state;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

static void sweep(const struct sweep *w) {
  uint64_t v[VALS_MAX], state = 42;
  struct kir_kernel *k = expanded(w, v);
  struct worst worst = { 0, 0 };
  int n = 0;
  try_specials(w, k, v, &worst);
  if (w->dtype == WEFT_F32)
    for (uint64_t x = 0; x < UINT64_C(1) << 32; x += 9973) try(w, k, v, x, &worst);
  else
    for (int i = 0; i < 300000; i++) {
      uint64_t r = random_bits(&state);
      double near = ((double)(r >> 11) * 0x1p-53 - 0.5) * (i % 3 ? 40 : 1500); /* where something happens */
      try(w, k, v, i % 4 ? of_f64(near) : r, &worst);
      if (i % 4 == 3) try(w, k, v, of_f64(1 + ldexp(near, -(int)(r & 63))), &worst); /* round 1 */
      if (i % 4 == 2) try(w, k, v, of_f64(ldexp(near, -(int)(r & 63))), &worst);     /* round 0 */
    }
  for (const struct kir_stmt *s = k->body.first->body.first; s; s = s->next) n += s->kind == KIR_OP && s->op != KIR_BITS;
  const char *dtype = kir_dtype_name(w->dtype);
  if (!(worst.ulp <= w->ulp))
    test_fail(__FILE__, __LINE__, "%s.%s: %.3f ulp at %llx", w->name, dtype, worst.ulp, (unsigned long long)worst.x);
  if (n > w->instructions) test_fail(__FILE__, __LINE__, "%s.%s: %d instructions", w->name, dtype, n);
  kir_free(k);
}

/* In f32 and f64, with so many instructions at most each for ordinary numbers. */
static void sweep_both(const char *name, long double (*exact)(long double), double ulp, int of_f32, int of_f64) {
  sweep(&(struct sweep){ name, WEFT_F32, exact, ulp, of_f32 });
  sweep(&(struct sweep){ name, WEFT_F64, exact, ulp, of_f64 });
}

static long double rsqrt(long double x) { return 1 / sqrtl(x); }
static long double sigmoid(long double x) { return x < 0 ? expl(x) / (1 + expl(x)) : 1 / (1 + expl(-x)); }

TEST(exponentials_and_logarithms_are_within_an_ulp) {
  sweep_both("exp", expl, 1, 18, 24);
  sweep_both("exp2", exp2l, 1, 23, 29);
  sweep_both("expm1", expm1l, 1, 42, 47);
  sweep_both("log", logl, 1, 18, 38);
  sweep_both("log2", log2l, 1, 35, 41);
  sweep_both("log10", log10l, 1, 37, 43);
  sweep_both("log1p", log1pl, 1, 44, 50);
  sweep_both("rsqrt", rsqrt, 1, 20, 20);
}

TEST(trigonometry_is_within_two_ulp_for_arguments_of_any_size) {
  sweep_both("sin", sinl, 2, 24, 49);
  sweep_both("cos", cosl, 2, 22, 47);
  sweep_both("tan", tanl, 2, 60, 66);
  sweep_both("asin", asinl, 2, 74, 81);
  sweep_both("acos", acosl, 2, 79, 86);
  sweep_both("atan", atanl, 2, 60, 67);
}

/* Beside lanes, and in a fn, everything is computed. */
TEST(rare_numbers_are_branched_to_in_lanes_and_selected_elsewhere) {
  static const char *const forms[] = { "lane i in 1 { store y[i] = sin(x) }", "lane i in 1 { store y[i] = f(x) }",
                                       "s = sin(x) lane i in 1 { store y[i] = s }" };
  static const float at[] = { 1, -0.f, 0x1p18f, 0x1.000002p18f, -1e30f, INFINITY, NAN };
  for (int i = 0; i < 3; i++) {
    char source[200];
    struct kir_kernel *k = NULL;
    snprintf(source, sizeof source, "kernel m { arg x:f32 out y:f32[1] fn f(a:f32) -> f32 { b = sin(a) return b } %s }", forms[i]);
    EXPECT_INT(kir_parse(source, &k, 1, NULL), 1);
    EXPECT(!kir_verify(k) && kir_legalise(k) && !kir_verify(k));
    int n_branches = 0;
    for (const struct kir_stmt *s = k->body.last->body.first; s; s = s->next) n_branches += s->kind == KIR_IF;
    EXPECT_INT(n_branches, i == 0);
    for (const struct kir_stmt *s = k->body.first; s; s = s->next) EXPECT(s->kind != KIR_IF);
    uint64_t v[VALS_MAX];
    for (int j = 0; j < k->n_vals; j++) v[j] = k->vals[j].bits;
    for (size_t j = 0; j < sizeof at / sizeof *at; j++) {
      float want = (float)sin((double)at[j]);
      v[k->args[0]] = of_f32(at[j]);
      run(k, &k->body, v);
      run(k, &k->body.last->body, v);
      float got = f32_of(v[k->body.last->body.last->in[0]]);
      EXPECT(want != want ? got != got : fabsf(got - want) <= 0x1p-23f * fabsf(want) && signbit(got) == signbit(want));
    }
    kir_free(k);
  }
}

TEST(hyperbolic_functions_are_within_two_ulp_and_sigmoid_within_two_and_a_half) {
  sweep_both("sinh", sinhl, 2, 55, 60);
  sweep_both("cosh", coshl, 2, 45, 50);
  sweep_both("tanh", tanhl, 2, 24, 61);
  sweep_both("asinh", asinhl, 2, 67, 73);
  sweep_both("acosh", acoshl, 2, 65, 71);
  sweep_both("atanh", atanhl, 2, 56, 62);
  sweep_both("sigmoid", sigmoid, 2.5, 15, 21);
}

TEST(the_error_function_is_within_two_ulp) {
  sweep_both("erf", erfl, 2, 29, 79);
  sweep_both("erfc", erfcl, 2, 39, 119);
}

/* From 500 numbers below the seam to 500 above. */
static void expect_odd_and_rising(weft_dtype d, double seam) {
  uint64_t v[VALS_MAX], first = (d == WEFT_F32 ? of_f32((float)seam) : of_f64(seam)) - 500;
  struct kir_kernel *k = expanded(&(struct sweep){ .name = "erf", .dtype = d }, v);
  double last = 0;
  int n_wrong = 0;
  for (uint64_t i = 0; i <= 1000; i++) {
    uint64_t up = evaluate(k, v, first + i), down = evaluate(k, v, (first + i) | UINT64_C(1) << (d == WEFT_F32 ? 31 : 63));
    double y = d == WEFT_F32 ? (double)f32_of(up) : f64_of(up), z = d == WEFT_F32 ? (double)f32_of(down) : f64_of(down);
    n_wrong += z != -y || y < last;
    last = y;
  }
  EXPECT_INT(n_wrong, 0);
  kir_free(k);
}

TEST(erf_is_odd_and_does_not_fall_where_its_two_forms_meet) {
  expect_odd_and_rising(WEFT_F32, 1), expect_odd_and_rising(WEFT_F64, 0.75);
}

/* ---- Special values, as in Annex F of C -------------------------------------------------------------------------------- */

static uint64_t at(const char *name, weft_dtype d, int n, const double x[]) {
  char source[200];
  uint64_t v[VALS_MAX];
  struct kir_kernel *k = NULL;
  const char *t = kir_dtype_name(d);
  snprintf(source, sizeof source, "kernel m { arg x:%s, z:%s out y:%s[1] lane i in 1 { store y[i] = %s(x%s) } }", t, t, t, name,
           n == 2 ? ", z" : "");
  EXPECT_INT(kir_parse(source, &k, 1, NULL), 1);
  EXPECT(kir_legalise(k) && k->n_vals <= VALS_MAX);
  for (int i = 0; i < k->n_vals; i++) v[i] = k->vals[i].bits;
  if (n == 2) v[k->args[1]] = d == WEFT_F32 ? of_f32((float)x[1]) : of_f64(x[1]);
  uint64_t y = evaluate(k, v, d == WEFT_F32 ? of_f32((float)x[0]) : of_f64(x[0]));
  kir_free(k);
  return y;
}

static void expect_same(const char *name, int n, const double x[], double want) {
  static const weft_dtype dtypes[] = { WEFT_F32, WEFT_F64 };
  for (int i = 0; i < 2; i++) {
    uint64_t bits = at(name, dtypes[i], n, x);
    double got = dtypes[i] == WEFT_F32 ? (double)f32_of(bits) : f64_of(bits);
    double rounded = dtypes[i] == WEFT_F32 ? (double)(float)want : want;
    bool is_same = want != want ? got != got : got == rounded && signbit(got) == signbit(rounded);
    if (!is_same) test_fail(__FILE__, __LINE__, "%s.%s of %g, %g: %g, not %g", name, kir_dtype_name(dtypes[i]), x[0], n == 2 ? x[1] : 0, got, want);
  }
}

static const double ends[] = { 0.0, -0.0, 1, -1, 2, -2, 3, -3, 0.5, -0.5, INFINITY, -INFINITY, NAN, 2.5, -2.5 };
enum { ENDS = sizeof ends / sizeof *ends };
static bool is_end(double y) { return y != y || isinf(y) || y == 0 || y == 1 || y == -1; }

TEST(functions_of_special_values_are_what_c_says) {
  static const struct { const char *name; double (*f)(double); } functions[] = {
#define F(name) { #name, name },
    F(exp) F(exp2) F(expm1) F(log) F(log2) F(log10) F(log1p) F(sin) F(cos) F(tan) F(asin) F(acos) F(atan) F(sinh) F(cosh) F(tanh)
    F(asinh) F(acosh) F(atanh) F(erf) F(erfc)
#undef F
  };
  for (size_t f = 0; f < sizeof functions / sizeof *functions; f++)
    for (int i = 0; i < ENDS; i++)
      if (is_end(functions[f].f(ends[i]))) expect_same(functions[f].name, 1, &ends[i], functions[f].f(ends[i]));
  expect_same("erfinv", 1, (double[]){ 1 }, INFINITY), expect_same("erfinv", 1, (double[]){ -1 }, -INFINITY);
  expect_same("erfinv", 1, (double[]){ 1.5 }, NAN), expect_same("erfinv", 1, (double[]){ -0.0 }, -0.0);
  expect_same("rsqrt", 1, (double[]){ 0 }, INFINITY), expect_same("rsqrt", 1, (double[]){ INFINITY }, 0);
  expect_same("sigmoid", 1, (double[]){ -INFINITY }, 0), expect_same("sigmoid", 1, (double[]){ INFINITY }, 1);
}

TEST(functions_of_two_special_values_are_what_c_says) {
  static const struct { const char *name; double (*f)(double, double); } functions[] = { { "pow", pow }, { "atan2", atan2 }, { "hypot", hypot } };
  for (int f = 0; f < 3; f++)
    for (int i = 0; i < ENDS; i++)
      for (int k = 0; k < ENDS; k++) {
        double y = functions[f].f(ends[i], ends[k]);
        if (is_end(y) || f != 1) expect_same(functions[f].name, 2, (double[]){ ends[i], ends[k] }, y);
      }
}
