/* values.h -- reading arrays in tests, and functions of arrays checked against differences. */
#ifndef WEFT_TEST_VALUES_H
#define WEFT_TEST_VALUES_H
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "test.h"
#include "weft.h"

static inline weft_array *f64s(int n, const double *x) { return weft_from(WEFT_F64, WEFT_DIMS(n), x); }
static inline weft_array *plus(weft_array *x, double c) { return weft_add(x, weft_scalar(c)); }
static inline weft_array *f64_of(double x) { return weft_from(WEFT_F64, 0, NULL, &x); }
static inline weft_array *i64_of(int64_t x) { return weft_from(WEFT_I64, 0, NULL, &x); }

/* Floats from -3 to 3, and indices of `below` elements, from the end too: the same for the same seed (values.c). */
weft_array *drawn_floats(int rank, const int64_t dims[], uint32_t seed);
weft_array *drawn_indices(int64_t n, int32_t below, uint32_t seed);

/* 1.5 c, 2.25 c .. until their sum is above 3, in at most 7 steps: rows whose number only a run tells. */
static inline weft_array *rows_below_three(weft_array *c) {
  weft_loop *l = weft_loop_open(weft_integer(7));
  weft_array *d = weft_loop_carry(l, c), *more = weft_mul(d, weft_scalar(1.5));
  weft_loop_next(l, d, more);
  weft_loop_until(l, weft_gt(weft_sum(more, WEFT_ALL), weft_scalar(3)));
  weft_array *rows = weft_loop_all(l, more);
  weft_loop_close(l);
  return rows;
}
weft_array *unrolled(weft_array *); /* the same without loops (unroll.c) */
extern bool reads_unrolled;          /* whether read_f64 evaluates loops written out */

static inline bool read_f64(weft_array *a, int n, double *out) {
  for (int i = 0; i < n; i++) out[i] = -12345;
  if (reads_unrolled && weft_rank(a) >= 0) a = unrolled(a);
  int status = (int)weft_read(a, WEFT_F64, out, (size_t)n * sizeof *out);
  if (status) test_fail(__FILE__, __LINE__, "status %d: %s", status, weft_message());
  return !status;
}

static inline double one_f64(weft_array *a) {
  double x = 0;
  read_f64(a, 1, &x);
  return x;
}

/* All elements, computed in their own dtype first; to be freed. */
static inline double *all_f64(weft_array *y, size_t *n) {
  *n = 1;
  for (int k = 0; k < weft_rank(y); k++) *n *= (size_t)weft_dim(y, k);
  double *out = malloc(sizeof *out * *n);
  EXPECT_OK(weft_eval(1, &y));
  EXPECT_OK(weft_read(weft_cast(y, WEFT_F64), WEFT_F64, out, sizeof *out * *n));
  return out;
}

/* Bit by bit; one NaN is as good as another. */
static inline bool are_same(const double *a, const double *b, size_t n) {
  bool same = true;
  for (size_t i = 0; i < n; i++) same &= (isnan(a[i]) && isnan(b[i])) || !memcmp(&a[i], &b[i], sizeof *a);
  return same;
}

static inline void expect_same_bits(const char *file, int line, weft_array *a, weft_array *b) {
  size_t n, m;
  double *x = all_f64(a, &n), *y = all_f64(b, &m);
  if (n != m || !are_same(x, y, n)) test_fail(file, line, "they differ");
  free(x);
  free(y);
}
#define EXPECT_SAME(a, b) expect_same_bits(__FILE__, __LINE__, a, b)

/* A test whose arrays belong to a scope of its own. */
#define SCOPED(name)                      \
  static void in_scope_##name(void);      \
  TEST(name) {                            \
    weft_scope *s_ = weft_scope_open();   \
    in_scope_##name();                    \
    weft_scope_discard(s_);               \
  }                                       \
  static void in_scope_##name(void)

static inline bool near(double a, double b, double tolerance) {
  double size = 1 + (a < 0 ? -a : a);
  double d = a - b;
  return d <= tolerance * size && -d <= tolerance * size;
}

#define EXPECT_NEAR(a, b, tolerance)                                                                 \
  do {                                                                                               \
    double a_ = (a), b_ = (b);                                                                       \
    if (!near(a_, b_, tolerance)) test_fail(__FILE__, __LINE__, "%s is %.17g, not %.17g", #a, a_, b_); \
  } while (0)

#define EXPECT_F64(a, ...)                                                                           \
  do {                                                                                               \
    double want_[] = { __VA_ARGS__ }, got_[sizeof want_ / sizeof *want_];                            \
    int n_ = (int)(sizeof want_ / sizeof *want_);                                                    \
    if (read_f64(a, n_, got_))                                                                       \
      for (int i_ = 0; i_ < n_; i_++)                                                                \
        if (!near(want_[i_], got_[i_], 1e-12))                                                       \
          test_fail(__FILE__, __LINE__, "%s[%d] is %.17g, not %.17g", #a, i_, got_[i_], want_[i_]);  \
  } while (0)

/* A function of one f64 [n] array, whatever its result. */
typedef weft_array *(*array_function)(weft_array *x);

/* f compiled for unknown sizes and called with x. */
static inline weft_array *called_open(array_function f, weft_array *x) {
  weft_scope *body = weft_scope_open();
  weft_array *in = weft_input(weft_dtype_of(x), weft_rank(x), NULL), *out = f(in), *y;
  weft_function *function = weft_compile(body, 1, &in, 1, &out);
  weft_call(function, 1, &x, 1, &y);
  return y;
}

/* body(body(.. x)), n times, by a loop. */
static inline weft_array *repeated(int64_t n, weft_array *x, array_function body) {
  weft_loop *l = weft_loop_open(weft_integer(n));
  weft_array *c = weft_loop_carry(l, x);
  weft_loop_next(l, c, body(c));
  weft_array *y = weft_loop_last(l, c);
  weft_loop_close(l);
  return y;
}

/* The gradient of that, which computes steps again. */
static inline weft_array *repeated_gradient(int64_t n, weft_array *x, array_function body) {
  weft_array *dx;
  weft_loop *l = weft_loop_open(weft_integer(n));
  weft_array *c = weft_loop_carry(l, x);
  weft_loop_next(l, c, body(c));
  weft_loop_recompute(l, 0);
  weft_array *y = weft_loop_last(l, c);
  weft_loop_close(l);
  weft_grad(y, 1, &x, &dx);
  return dx;
}

/* x, an array of an owner's, together with what is made of it: an array of its size and a number, which go again. */
static inline void expect_evaluated_beside_others(weft_array *x) {
  weft_scope *s = weft_scope_open();
  weft_array *also = weft_own(weft_mul(x, weft_scalar(3))), *sum = weft_own(weft_sum(x, WEFT_ALL));
  weft_scope_discard(s);
  EXPECT_OK(weft_eval(3, (weft_array *[]){ sum, x, also }));
  weft_disown(also);
  weft_disown(sum);
}

/* f at x against central differences of itself, or rows alone; failures are test failures. */
void check_vjp(const char *name, array_function f, int n, const double x[]);
void check_jvp(const char *name, array_function f, int n, const double x[]);
void check_map(const char *name, array_function f, int n, const double x[]);

/* Gradient, jvp, their agreement, map over rows and second derivatives of f at x against central differences. */
void check_function(const char *name, array_function f, int n, const double x[]);

#endif
