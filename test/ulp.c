/* ulp.c -- how far the mathematical functions are from the truth, in units of the last place, by the kernels themselves.
 *
 *   ulp [-o docs/accuracy.md] [name ..]
 *   ulp -v f32|f64 name                     values: operands from stdin, one number after the other, results to stdout
 *
 * Each function is built by its op's own rule, compiled by the vm and by the encoder for both tiers, which must agree to the bit, and compared
 * with libm: f32 with double, at every 127th pattern and around special values; f64 with long double, at random and special
 * ones. Ends with 1 if a bound is exceeded. */
#include <float.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "backend/backend.h"
#include "graph/node.h"
#include "op/op.h"

typedef long double exact;

/* ---- The truth ---- */

static exact rsqrt_(exact x) { return 1 / sqrtl(x); }
static exact sigmoid_(exact x) { return x < 0 ? expl(x) / (1 + expl(x)) : 1 / (1 + expl(-x)); }
static exact erfinv_(exact x) { /* Newton on erf below 1/2, on erfc above, from the logarithm */
  exact a = fabsl(x), c = 1 - a, y = a < 0.5L ? a * 0.886226925452758013649L : sqrtl(-logl(c * (1 + a)));
  if (a == 1 || !(a < 1)) return a == 1 ? copysignl(INFINITY, x) : NAN;
  for (int i = 0; i < 60 && a > 0; i++) {
    exact left = a < 0.5L ? a - erfl(y) : erfcl(y) - c, d = left * 0.886226925452758013649L * expl(y * y);
    y += d / (1 - y * d);
    if (fabsl(d) <= 1e-19L * y) break;
  }
  return copysignl(y, x);
}
static exact erfinv_narrow(exact x) { return erfinv_(x); }

#define IN_DOUBLE(name) static exact name##_narrow(exact x) { return (exact)name((double)x); }
IN_DOUBLE(exp) IN_DOUBLE(exp2) IN_DOUBLE(expm1) IN_DOUBLE(log) IN_DOUBLE(log2) IN_DOUBLE(log10) IN_DOUBLE(log1p)
IN_DOUBLE(sin) IN_DOUBLE(cos) IN_DOUBLE(tan) IN_DOUBLE(asin) IN_DOUBLE(acos) IN_DOUBLE(atan) IN_DOUBLE(sinh) IN_DOUBLE(cosh)
IN_DOUBLE(tanh) IN_DOUBLE(asinh) IN_DOUBLE(acosh) IN_DOUBLE(atanh) IN_DOUBLE(erf) IN_DOUBLE(erfc) IN_DOUBLE(sqrt)
static exact rsqrt_narrow(exact x) { return 1 / sqrt((double)x); }
static exact sigmoid_narrow(exact x) { return x < 0 ? exp((double)x) / (1 + exp((double)x)) : 1 / (1 + exp(-(double)x)); }

/* ---- The functions ---- */

struct function {
  const char *name;
  int n_in;
  double bound;
  exact (*wide)(exact), (*narrow)(exact), (*wide2)(exact, exact);
  double low, high; /* where something happens, for random numbers of f64 */
};

static const struct function functions[] = {
#define F(name, bound, wide, low, high) { #name, 1, bound, wide, name##_narrow, NULL, low, high },
  F(sqrt, 0.5, sqrtl, 0, 1e3) F(rsqrt, 1, rsqrt_, 0, 1e3) F(exp, 1, expl, -750, 715) F(exp2, 1, exp2l, -1080, 1030) F(expm1, 1, expm1l, -40, 715)
  F(log, 1, logl, 0, 4) F(log2, 1, log2l, 0, 4) F(log10, 1, log10l, 0, 4) F(log1p, 1, log1pl, -1, 4)
  F(sin, 2, sinl, -1e3, 1e3) F(cos, 2, cosl, -1e3, 1e3) F(tan, 2, tanl, -1e3, 1e3) F(asin, 2, asinl, -1, 1) F(acos, 2, acosl, -1, 1)
  F(atan, 2, atanl, -9, 9) F(sinh, 2, sinhl, -715, 715) F(cosh, 2, coshl, -715, 715) F(tanh, 2, tanhl, -21, 21)
  F(asinh, 2, asinhl, -9, 9) F(acosh, 2, acoshl, 1, 9) F(atanh, 2, atanhl, -1, 1) F(erf, 2, erfl, -6, 6) F(erfc, 2, erfcl, -7, 28)
  F(erfinv, 2, erfinv_, -1, 1) F(sigmoid, 2.5, sigmoid_, -750, 40)
#undef F
  { "pow", 2, 2, NULL, NULL, powl, 0, 0 }, { "atan2", 2, 2, NULL, NULL, atan2l, 0, 0 }, { "hypot", 2, 2, NULL, NULL, hypotl, 0, 0 },
};
enum { FUNCTIONS = sizeof functions / sizeof *functions, BLOCK = 8192 };

/* ---- Kernels ---- */

static const struct op *op_named(const char *name) {
  for (const struct op *const *o = op_table; *o; o++)
    if (!strcmp((*o)->name, name)) return *o;
  return NULL;
}

static int operands_of(const char *name) { /* those of the instruction that has the op's name */
  for (int o = 0; o < KIR_CAST; o++)
    if (!strcmp(kir_rows[o].name, name)) return (int)strlen(kir_rows[o].operands);
  return 1;
}

static struct kir_kernel *kernel_of(const struct function *f, weft_dtype d) {
  struct node leaf = { .dtype = (uint8_t)d }, *in[4] = { &leaf, &leaf, &leaf, &leaf }, n = { .dtype = (uint8_t)d, .n_in = f->n_in, .in = in };
  struct kir_kernel *k = kir_new(f->name);
  struct kir_builder b;
  int x[4], buf[4];
  if (!k) abort();
  struct kir_lin size = kir_lin_val(k, kir_size(k, "N"));
  for (int i = 0; i < f->n_in; i++) buf[i] = kir_buf(k, (const char *[]){ "a", "b", "c", "d" }[i], KIR_IN, d, 1, &size);
  int out = kir_buf(k, "y", KIR_OUT, d, 1, &size);
  kir_begin(&b, k);
  struct kir_lin at = kir_lin_val(k, kir_loop(&b, KIR_LANE, "i", size));
  for (int i = 0; i < f->n_in; i++) x[i] = kir_load(&b, buf[i], &at);
  kir_store(&b, out, &at, KIR_SET, op_named(f->name)->lower(&b, &n, x));
  kir_end(&b);
  if (kir_verify(k) || !kir_legalise(k)) abort();
  return k;
}

/* ---- A sweep ---- */

struct sweep {
  const struct function *f;
  weft_dtype d;
  struct kir_kernel *kernel;
  struct code *vm, *x86[2]; /* AVX-512 where it is there, AVX2 */
  int n, n_instructions;
  void *in[4], *out[2];
  double worst, total;
  uint64_t at[2];
  int64_t count, unequal;
  char why[200];
};

static bool narrow(const struct sweep *s) { return s->d == WEFT_F32; }

static exact value(const struct sweep *s, const void *from, int i) {
  return narrow(s) ? (exact)((const float *)from)[i] : (exact)((const double *)from)[i];
}

static uint64_t pattern(const struct sweep *s, const void *from, int i) {
  return narrow(s) ? ((const uint32_t *)from)[i] : ((const uint64_t *)from)[i];
}

/* Beyond the largest number an infinity stands for the next power of two. */
static double error_in_ulp(const struct sweep *s, exact want, exact got) {
  int digits = narrow(s) ? 24 : 53, least = narrow(s) ? -149 : -1074, e;
  if (want != want) return got != got ? 0 : INFINITY;
  if (got != got) return INFINITY;
  if (isinf(want) || (want == 0 && got == 0)) return got == want && signbit(got) == signbit(want) ? 0 : INFINITY;
  if (isinf(got)) got = copysignl(ldexpl(1, narrow(s) ? 128 : 1024), got);
  if (signbit(got) != signbit(want) && got == 0) return INFINITY;
  frexpl(want, &e);
  int top = narrow(s) ? 128 : 1024, unit = (e > top ? top : e) - digits;
  if (fabsl(want) > ldexpl(1, top)) want = copysignl(ldexpl(1, top), want);
  return (double)(fabsl(got - want) / ldexpl(1, unit > least ? unit : least));
}

static exact truth(const struct sweep *s, int i) {
  exact x = value(s, s->in[0], i);
  if (s->f->n_in == 2) return s->f->wide2(x, value(s, s->in[1], i));
  return narrow(s) ? s->f->narrow(x) : s->f->wide(x);
}

static void run(struct sweep *s, const struct backend *b, struct code *code, void *out) {
  struct bound buf[5];
  for (int i = 0; i < s->f->n_in; i++) buf[i] = (struct bound){ .data = s->in[i], .stride = { 1 } };
  buf[s->f->n_in] = (struct bound){ .data = out, .stride = { 1 } };
  int64_t n = s->n;
  struct launch l = { .sizes = &n, .bufs = buf, .lo = 0, .hi = n };
  if (b->run(code, &l)) abort();
}

static void compare(struct sweep *s, struct code *x86) {
  if (x86) run(s, &backend_x86, x86, s->out[1]);
  for (int i = 0; x86 && i < s->n; i++) {
    exact want = value(s, s->out[0], i), got = value(s, s->out[1], i);
    s->unequal += pattern(s, s->out[0], i) != pattern(s, s->out[1], i) && !(want != want && got != got);
  }
}

static void measure(struct sweep *s) {
  run(s, &backend_vm, s->vm, s->out[0]);
  for (int i = 0; i < s->n; i++) {
    exact got = value(s, s->out[0], i);
    double e = error_in_ulp(s, truth(s, i), got);
    if (e > s->worst) s->worst = e, s->at[0] = pattern(s, s->in[0], i), s->at[1] = s->f->n_in == 2 ? pattern(s, s->in[1], i) : 0;
    s->total += e < 1e9 ? e : 0;
  }
  for (int t = 0; t < 2; t++) compare(s, s->x86[t]);
  s->count += s->n;
  s->n = 0;
}

static void try(struct sweep *s, uint64_t x, uint64_t y) {
  uint64_t v[2] = { x, y };
  for (int k = 0; k < s->f->n_in; k++)
    if (narrow(s)) ((uint32_t *)s->in[k])[s->n] = (uint32_t)v[k];
    else ((uint64_t *)s->in[k])[s->n] = v[k];
  if (++s->n == BLOCK) measure(s);
}

/* ---- What is tried ---- */

static uint64_t bits_of(const struct sweep *s, double x) {
  float f = (float)x;
  uint32_t n;
  uint64_t w;
  memcpy(&n, &f, 4), memcpy(&w, &x, 8);
  return narrow(s) ? n : w;
}

static uint64_t random_bits(uint64_t *state) {
  uint64_t z = *state += 0x9E3779B97F4A7C15u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}
static double fraction(uint64_t *state) { return (double)(random_bits(state) >> 11) * 0x1p-53; }

static const double special[] = {
  0, 0.25, 0.375, 0.4142135623730951, 0.45, 0.5, 0.5493061443340549, 0.6931471805599453, 0.34657359027997264, 0.7071067811865476, 0.75, 0.7853981633974483, 1, 1.5,
  1.4142135623730951, 1.5707963267948966, 2, 2.414213562373095, 2.5, 3, 3.141592653589793, 4, 5, 7, 8, 8.31776616671934, 9.010913347279288, 10, 11, 15, 16, 17.32867951399863, 18.714973875118524, 19.061547465398496,
  20, 22, 26.5, 27.226017111108362, 28, 30, 37, 40, 64, 87.3365447505531, 88.02969193111305, 88.72283905206835, 89.41598629223294, 100, 103.27892990343185, 103.97207708399179, 104, 126, 127, 128, 149, 150, 709.782712893384,
  708.3964185322641, 710.4758600739439, 745.1332191019411, 744.4400719213812, 1022, 1023, 1024, 1074, 1075, 1e4, 1e5, 1048576, 1e7, 16777216, 1e10, 1e16, 1e22, 0x1p59, 0x1p80, 0x1p91, 0x1p123, 3e38, 0x1p127,
  0x1p146, 0x1p236, 0x1p326, 0x1p416, 0x1p500, 0x1p506, 0x1p596, 0x1p686, 0x1p776, 0x1p866, 0x1p956, 1e300, 0x1p1023, 6381956970095103.0 * 0x1p797, 0x1p-1, 0x1p-12, 0x1p-13, 0x1p-14, 0x1p-25, 0x1p-26, 0x1p-27, 0x1p-28,
  0x1p-53, 0x1p-54, 0x1p-55, 0x1p-60, 0x1p-126, 0x1p-127, 0x1p-140, 0x1p-149, 0x1p-500, 0x1p-1000, 0x1p-1022, 0x1p-1074, 1e-3, 0.1, 0.9, 0.99, 0.9999 };
enum { SPECIAL = sizeof special / sizeof *special };

static void try_unary_specials(struct sweep *s) {
  uint64_t sign = narrow(s) ? UINT64_C(1) << 31 : UINT64_C(1) << 63, top = bits_of(s, INFINITY);
  for (int i = 0; i <= SPECIAL; i++) {
    uint64_t x = i < SPECIAL ? bits_of(s, special[i]) : top;
    for (int d = -40; d <= 40; d++) {
      if (d < 0 && x < (uint64_t)-d) continue;
      uint64_t near = x + (uint64_t)d;
      try(s, near, 0), try(s, near | sign, 0);
    }
  }
}

static void try_unary(struct sweep *s) {
  uint64_t state = 42;
  try_unary_specials(s);
  if (narrow(s)) {
    for (uint64_t x = 0; x < UINT64_C(1) << 32; x += 127) try(s, x, 0);
    return;
  }
  for (int i = 0; i < 400000; i++) {
    double near = s->f->low + fraction(&state) * (s->f->high - s->f->low), tiny = ldexp(near, -(int)(random_bits(&state) & 63));
    try(s, random_bits(&state), 0);
    try(s, bits_of(s, near), 0);
    try(s, bits_of(s, tiny), 0);
    try(s, bits_of(s, 1 + (i & 1 ? tiny : -fabs(tiny))), 0); /* round 1 */
  }
}

static void try_binary(struct sweep *s) {
  uint64_t state = 42, sign = narrow(s) ? UINT64_C(1) << 31 : UINT64_C(1) << 63;
  for (int i = 0; i < 4 * SPECIAL + 8; i++)
    for (int k = 0; k < 4 * SPECIAL + 8; k++) {
      double a = i / 4 < SPECIAL ? special[i / 4] : i & 4 ? INFINITY : NAN, b = k / 4 < SPECIAL ? special[k / 4] : k & 4 ? INFINITY : NAN;
      try(s, (bits_of(s, a) + (i & 1)) | (i & 2 ? sign : 0), (bits_of(s, b) + (k & 1)) | (k & 2 ? sign : 0));
    }
  for (int i = 0; i < (narrow(s) ? 3000000 : 500000); i++) {
    double x = fraction(&state) * 4, y = (fraction(&state) - 0.5) * 64;
    uint64_t r = random_bits(&state), q = random_bits(&state);
    try(s, narrow(s) ? r >> 32 : r, narrow(s) ? q >> 32 : q);
    try(s, bits_of(s, x), bits_of(s, y));
    try(s, bits_of(s, 1 + ldexp(x - 2, -(int)(r & 31))), bits_of(s, ldexp(y, (int)(q & 31)))); /* powers of numbers near 1 */
    try(s, bits_of(s, ldexp(x, (int)(r & 255) - 127)), bits_of(s, ldexp(y, (int)(r & 255) - 127 + (int)(q & 7))));
    try(s, bits_of(s, -(double)(int)(x * 8)), bits_of(s, rint(y)));
  }
}

static void translate(struct sweep *s) {
  struct shape_class shape = { .stride = { { STRIDE_1 }, { STRIDE_1 }, { STRIDE_1 }, { STRIDE_1 }, { STRIDE_1 } } };
  const char *why = NULL;
  s->kernel = kernel_of(s->f, s->d);
  for (const struct kir_stmt *t = s->kernel->body.first->body.first; t; t = t->next) s->n_instructions += t->kind == KIR_OP && t->op != KIR_BITS;
  s->vm = backend_vm.compile(s->kernel, &shape, &why);
  if (!s->vm) abort();
  for (int t = 0; t < 2; t++) {
    shape.set = t ? SET_AVX2 : SET_BEST;
    s->x86[t] = backend_x86.compile(s->kernel, &shape, &why);
  }
  if (!s->x86[0] || !s->x86[1]) snprintf(s->why, sizeof s->why, "%s", why ? why : "");
  for (int i = 0; i < 4; i++) s->in[i] = malloc(BLOCK * 8);
  for (int i = 0; i < 2; i++) s->out[i] = malloc(BLOCK * 8);
}

static void release(struct sweep *s) {
  for (int i = 0; i < 4; i++) free(s->in[i]);
  for (int i = 0; i < 2; i++) free(s->out[i]);
  backend_vm.free(s->vm);
  for (int t = 0; t < 2; t++)
    if (s->x86[t]) backend_x86.free(s->x86[t]);
  kir_free(s->kernel);
}

static void sweep(struct sweep *s) {
  translate(s);
  s->f->n_in == 2 ? try_binary(s) : try_unary(s);
  if (s->n) measure(s);
  release(s);
}

/* ---- Values for others to judge: those whose truth libm does not know (test/special.py) ---- */

static int values(const char *dtype, const char *name) {
  const struct op *o = op_named(name);
  if (!o) return fprintf(stderr, "%s is no op\n", name), 1;
  struct function f = { .name = name, .n_in = operands_of(name) };
  struct sweep s = { .f = &f, .d = !strcmp(dtype, "f32") ? WEFT_F32 : WEFT_F64 };
  size_t size = narrow(&s) ? 4 : 8;
  translate(&s);
  for (;;) {
    for (s.n = 0; s.n < BLOCK; s.n++)
      for (int k = 0; k < f.n_in; k++)
        if (!fread((char *)s.in[k] + (size_t)s.n * size, size, 1, stdin)) goto last;
  last:
    if (!s.n) break;
    run(&s, &backend_vm, s.vm, s.out[0]);
    for (int t = 0; t < 2; t++) compare(&s, s.x86[t]);
    fwrite(s.out[0], size, (size_t)s.n, stdout);
  }
  fprintf(stderr, "%d instructions, %lld different, %s\n", s.n_instructions, (long long)s.unequal, s.x86[0] && s.x86[1] ? "encoded" : s.why);
  int bad = s.unequal != 0;
  release(&s);
  return bad;
}

/* ---- All of them, on two threads ---- */

static struct sweep sweeps[2 * FUNCTIONS];
static int n_sweeps;
static atomic_int next_sweep;

static void *work(void *unused) {
  for (int i; (i = atomic_fetch_add(&next_sweep, 1)) < n_sweeps;) sweep(&sweeps[i]);
  return unused;
}

static bool is_good(const struct sweep *s) { return s->worst <= s->f->bound && !s->unequal; }

static void input_text(const struct sweep *s, char *text, size_t room) {
  double v[2];
  for (int k = 0; k < 2; k++) {
    uint32_t n = (uint32_t)s->at[k];
    float f;
    memcpy(&f, &n, 4), memcpy(&v[k], &s->at[k], 8);
    if (narrow(s)) v[k] = (double)f;
  }
  if (s->f->n_in == 2) snprintf(text, room, "%a, %a", v[0], v[1]);
  else snprintf(text, room, "%a", v[0]);
}

static void print(FILE *to, const struct sweep *s) {
  char at[80];
  input_text(s, at, sizeof at);
  fprintf(to, "| `%s` | %s | %g | %.3f | %.3f | %s | %d | %.1f |%s\n", s->f->name, narrow(s) ? "f32" : "f64", s->f->bound, s->worst,
          s->total / (double)s->count, at, s->n_instructions, (double)s->count / 1e6, is_good(s) ? "" : " **too much**");
  if (to != stdout) return;
  if (s->unequal) fprintf(to, "  %lld results of the encoder differ from the vm's\n", (long long)s->unequal);
  if (!s->x86[0] || !s->x86[1]) fprintf(to, "  not by the encoder: %s\n", s->why);
}

static const char head[] =
    "# Accuracy\n\n"
    "Written by `make ulp` (`test/ulp.c`). Errors are in units of the last place of the result, against libm: f32 against double, at\n"
    "every 127th bit pattern and around special values; f64 against long double (64 bits of mantissa, so to about 0.001 ulp), at random\n"
    "and special values. Functions of two numbers: pairs of special values and random ones. The vm and the encoder, for\n"
    "AVX-512 and AVX2, gave the same bits at every one of them; PTX is printed from the same instructions.\n\n"
    "f16 and bf16 are correctly rounded from the f32 value: within 0.5003 ulp of their own, e4m3 and e5m2 within 0.5001.\n"
    "`logaddexp` has the absolute error of its larger operand. Instructions are those of the expansion, `bits` not counted,\n"
    "and what only rare numbers need neither.\n\n"
    "| function | dtype | bound | max | mean | at | instructions | values, 10^6 |\n|---|---|---|---|---|---|---|---|\n";

int main(int argc, char **argv) {
  if (argc == 4 && !strcmp(argv[1], "-v")) return values(argv[2], argv[3]);
  const char *path = argc > 2 && !strcmp(argv[1], "-o") ? argv[2] : NULL;
  int first = path ? 3 : 1, bad = 0;
  for (int i = 0; i < 2 * FUNCTIONS; i++) {
    bool is_asked = first >= argc;
    for (int k = first; k < argc; k++) is_asked |= !strcmp(argv[k], functions[i / 2].name);
    if (is_asked) sweeps[n_sweeps++] = (struct sweep){ .f = &functions[i / 2], .d = i & 1 ? WEFT_F64 : WEFT_F32 };
  }
  pthread_t other;
  bool has_other = !pthread_create(&other, NULL, work, NULL);
  work(NULL);
  if (has_other) pthread_join(other, NULL);
  FILE *to = path ? fopen(path, "w") : NULL;
  if (path && !to) return perror(path), 1;
  if (to) fputs(head, to);
  for (int i = 0; i < n_sweeps; i++) {
    print(stdout, &sweeps[i]);
    if (to) print(to, &sweeps[i]);
    bad += !is_good(&sweeps[i]);
  }
  if (to) fclose(to);
  printf("%d of %d are within their bounds\n", n_sweeps - bad, n_sweeps);
  return bad != 0;
}
