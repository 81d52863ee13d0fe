/* problems.c -- many small systems as one kernel, each in a lane with what is around it: the bits of the steps they are otherwise,
 * whatever the dtype, the matrix, the view or the batch, on every back end. */
#include <math.h>
#include <stdlib.h>
#include "gpu.h"
#include "run/compiled.h"
#include "run/plan.h"
#include "schedule/work.h"
#include "test.h"
#include "values.h"

enum { MANY = 523, MOST_RESULTS = 4 }; /* MANY: as many as are worth a kernel, and no whole number of vectors */

typedef int story(weft_array *a, weft_array *b, weft_array *y[]); /* of matrices a [.., n, n] and sides b [.., n, m]: results */

static weft_array *turned(weft_array *a) { return weft_moveaxis(a, -1, -2); }
static weft_array *definite(weft_array *a) {
  int64_t n = weft_dim(a, weft_rank(a) - 1);
  return weft_add(weft_matmul(a, turned(a)), weft_eye(weft_dtype_of(a), n, n, 0));
}

static int factors(weft_array *a, weft_array *b, weft_array *y[]) {
  return (void)b, y[0] = weft_cholesky(a), y[1] = weft_cholesky_status(a), y[2] = weft_inverse_status(a), 3;
}
static int by_cholesky(weft_array *a, weft_array *b, weft_array *y[]) {
  weft_array *l = weft_cholesky(definite(a));
  y[0] = weft_cholesky_solve(l, weft_mul(b, weft_scalar(0.5))), y[1] = weft_tanh(weft_sub(y[0], b)), y[2] = weft_sum(y[1], -1);
  return y[3] = turned(l), 4;
}
static int by_lu(weft_array *a, weft_array *b, weft_array *y[]) {
  y[0] = weft_solve(a, b), y[1] = weft_inverse(a), y[2] = weft_matmul(weft_inverse(turned(a)), b);
  return y[3] = weft_exp(weft_neg(weft_abs(weft_sum(weft_solve(a, b), -2)))), 4;
}
static int determinants(weft_array *a, weft_array *b, weft_array *y[]) {
  return (void)b, y[0] = weft_det(a), weft_slogdet(a, &y[1], &y[2]), y[3] = weft_mul(weft_det(definite(a)), weft_scalar(3)), 4;
}
static int triangles(weft_array *a, weft_array *b, weft_array *y[]) {
  y[0] = weft_solve_triangular(a, b, 0, 0), y[1] = weft_solve_triangular(a, b, 1, 1);
  y[2] = weft_solve_triangular(weft_flip(a, -1), weft_flip(y[0], -2), 1, 0);
  return y[3] = weft_mul(weft_cholesky_solve(a, b), weft_cast(weft_unsqueeze(weft_unsqueeze(weft_solve_triangular_status(a), -1), -1), WEFT_F32)), 4;
}
/* One array is the matrix, a right side and a factor. */
static int in_all_roles(weft_array *a, weft_array *b, weft_array *y[]) {
  return (void)b, y[0] = weft_solve(a, a), y[1] = weft_mul(weft_solve(weft_mul(a, a), a), a), y[2] = weft_cholesky(weft_mul(a, a)), 3;
}
static int derivatives(weft_array *a, weft_array *b, weft_array *y[]) {
  weft_array *sign, *size, *x[] = { a, b };
  weft_slogdet(definite(a), &sign, &size);
  weft_array *f = weft_add(weft_sum(size, WEFT_ALL), weft_sum(weft_sin(weft_cholesky_solve(weft_cholesky(definite(a)), b)), WEFT_ALL));
  return weft_grad(weft_add(f, weft_sum(weft_solve(a, b), WEFT_ALL)), 2, x, y), 2;
}
/* What is behind a sum over all problems is no part of their kernel, though another problem is. */
static int through_a_sum(weft_array *a, weft_array *b, weft_array *y[]) {
  weft_array *x = weft_solve(a, b), *mean = weft_mean(x, 0), *next = weft_sub(b, mean);
  return y[0] = weft_solve(a, next), y[1] = weft_add(weft_solve(a, weft_add(x, next)), x), y[2] = mean, 3;
}

static const struct { const char *name; story *make; } stories[] = {
  { "factors", factors }, { "by_cholesky", by_cholesky }, { "by_lu", by_lu }, { "determinants", determinants }, { "triangles", triangles },
  { "in_all_roles", in_all_roles }, { "derivatives", derivatives }, { "through_a_sum", through_a_sum },
};
enum { STORIES = sizeof stories / sizeof *stories };

/* ---- matrices ---- */

enum form { PLAIN, WHOLE, SINGULAR, REVERSED, SHARED, TWO_AXES, FORMS }; /* WHOLE: of small integers, whose pivots are often equal */

static weft_array *matrices(weft_dtype t, int64_t n, int64_t m, uint32_t seed) {
  return weft_cast(drawn_floats(3, (int64_t[]){ MANY, n, m }, seed), t);
}

/* Some are zeros, some have equal rows, a nan or an inf. */
static weft_array *spoilt(weft_array *a) {
  weft_array *i = weft_reshape(weft_arange(WEFT_I64, 0, MANY, 1), WEFT_DIMS(MANY, 1, 1)), *first = weft_slice(a, 1, 0, 1, 1);
#define EVERY(k) weft_eq(weft_remainder(i, weft_integer(k)), weft_integer(0))
  a = weft_where(EVERY(3), first, a);
  a = weft_where(EVERY(5), weft_scalar(0), a);
  a = weft_where(weft_and(EVERY(7), weft_gt(a, weft_scalar(2))), weft_scalar(NAN), a);
  return weft_where(weft_and(EVERY(11), weft_gt(a, weft_scalar(2))), weft_scalar(INFINITY), a);
#undef EVERY
}

static void make_problems(enum form form, weft_dtype t, int64_t n, int64_t m, weft_array **a, weft_array **b) {
  *a = matrices(t, n, n, 3), *b = matrices(t, n, m, 4);
  if (form == WHOLE) *a = weft_round(*a);
  if (form == SINGULAR) *a = weft_cast(spoilt(*a), t);
  if (form == REVERSED) *a = weft_flip(turned(weft_flip(*a, 0)), 1), *b = weft_flip(*b, 1);
  if (form == SHARED) *b = weft_broadcast(weft_slice(*b, 0, 0, 1, 1), WEFT_DIMS(MANY, n, m));
  EXPECT_OK(weft_eval(1, a)); EXPECT_OK(weft_eval(1, b));
  if (form == TWO_AXES) *a = weft_stack(1, 2, (weft_array *[]){ *a, *a }), *b = weft_unsqueeze(*b, 1);
}

/* ---- the comparison ---- */

struct answer { int n; double *value[MOST_RESULTS]; size_t count[MOST_RESULTS]; bool is_kernel; };

static struct answer answer_of(int k, enum form form, weft_dtype t, int64_t n, int64_t m, const char *backend, bool fuses) {
  struct answer r = { 0 };
  weft_array *a, *b, *y[MOST_RESULTS];
  weft_scope *s = weft_scope_open();
  make_problems(form, t, n, m, &a, &b);
  plan_drop_all(), plan_use_fusing(fuses), compiled_use(backend);
  r.n = stories[k].make(a, b, y);
  const char *plan = weft_show(r.n, y, "plan");
  r.is_kernel = plan && strstr(plan, "problems");
  EXPECT_OK(weft_eval(r.n, y));
  for (int i = 0; i < r.n; i++) r.value[i] = all_f64(y[i], &r.count[i]);
  compiled_use(NULL), plan_use_fusing(true), plan_drop_all();
  weft_scope_discard(s);
  return r;
}

static void answer_free(struct answer *r) { for (int i = 0; i < r->n; i++) free(r->value[i]); }

static void compare(int k, enum form form, weft_dtype t, int64_t n, int64_t m, const char *backend) {
  struct answer want = answer_of(k, form, t, n, m, NULL, false), got = answer_of(k, form, t, n, m, backend, true);
  EXPECT(!want.is_kernel);
  if (!got.is_kernel) test_fail(__FILE__, __LINE__, "%s, form %d of %lld: no kernel", stories[k].name, form, (long long)n);
  for (int i = 0; i < want.n; i++)
    if (want.count[i] != got.count[i] || !are_same(want.value[i], got.value[i], want.count[i]))
      test_fail(__FILE__, __LINE__, "%s, form %d of %lld by %lld in %s on %s: result %d has other bits", stories[k].name, form,
                (long long)n, (long long)m, weft_dtype_name(t), backend ? backend : "x86", i);
  answer_free(&want), answer_free(&got);
}

static void compare_all(weft_dtype t, const char *backend, int64_t n, int64_t m) {
  for (int k = 0; k < STORIES; k++) for (int form = 0; form < FORMS; form++) compare(k, form, t, n, m, backend);
}

TEST(small_systems_in_lanes_have_the_bits_of_steps_in_f32) { compare_all(WEFT_F32, NULL, 3, 2), compare_all(WEFT_F32, "avx2", 4, 1); }
TEST(small_systems_in_lanes_have_the_bits_of_steps_in_f64) { compare_all(WEFT_F64, NULL, 4, 3), compare_all(WEFT_F64, "avx2", 2, 2); }
TEST(small_systems_in_lanes_have_the_bits_of_steps_when_interpreted) { compare_all(WEFT_F32, "vm", 3, 1); }
TEST(systems_of_one_and_of_eight_rows_in_lanes_have_the_bits_of_steps) { compare_all(WEFT_F32, NULL, 1, 1), compare_all(WEFT_F64, NULL, 8, 1); }

/* ---- plans ---- */

/* x' (g g' + I)^-1 x, its logarithm and the determinant: what is around is in the kernel too. */
SCOPED(small_systems_and_what_is_around_them_are_one_kernel) {
  weft_array *g = matrices(WEFT_F32, 4, 4, 1), *b = matrices(WEFT_F32, 4, 1, 2), *sign, *size;
  EXPECT_OK(weft_eval(1, &g)); EXPECT_OK(weft_eval(1, &b));
  weft_array *a = definite(g), *x = weft_solve(a, b), *y = weft_sum(weft_mul(x, b), -2);
  weft_slogdet(a, &sign, &size);
  weft_array *all = weft_add(weft_log(weft_squeeze(weft_squeeze(y, -1), -1)), weft_mul(size, weft_scalar(0.5)));
  const char *plan = weft_show(1, &all, "plan");
  EXPECT(plan && !strncmp(plan, "1 steps,", 8) && strstr(plan, "problems"));
}

SCOPED(few_systems_and_large_ones_stay_steps) {
  weft_array *few = weft_cholesky(weft_slice(matrices(WEFT_F32, 4, 4, 1), 0, 0, 100, 1)), *large = weft_cholesky(matrices(WEFT_F32, 17, 17, 1));
  const char *plan = weft_show(1, &few, "plan");
  EXPECT(plan && !strstr(plan, "problems"));
  plan = weft_show(1, &large, "plan");
  EXPECT(plan && !strstr(plan, "problems"));
}

/* A kernel has as many operations as are worth compiling: what is more is another kernel, or a step. */
SCOPED(a_long_chain_of_small_systems_is_some_kernels) {
  weft_array *a = matrices(WEFT_F64, 4, 4, 1), *x = matrices(WEFT_F64, 4, 1, 2), *y;
  weft_array *m = weft_add(weft_matmul(a, turned(a)), weft_eye(WEFT_F64, 4, 4, 0));
  y = x;
  for (int i = 0; i < 100; i++) y = weft_solve(weft_add(m, weft_eye(WEFT_F64, 4, 4, 0)), y), m = weft_mul(m, weft_scalar(1.01));
  size_t n, k;
  double *got = all_f64(y, &n);
  plan_drop_all(), plan_use_fusing(false);
  m = weft_add(weft_matmul(a, turned(a)), weft_eye(WEFT_F64, 4, 4, 0)), y = x;
  for (int i = 0; i < 100; i++) y = weft_solve(weft_add(m, weft_eye(WEFT_F64, 4, 4, 0)), y), m = weft_mul(m, weft_scalar(1.01));
  double *want = all_f64(y, &k);
  plan_use_fusing(true), plan_drop_all();
  EXPECT(n == k && are_same(got, want, n));
  free(got), free(want);
}

/* ---- functions, maps, loops ---- */

static weft_array *solved(weft_array *a) {
  weft_array *is_diagonal = weft_eq(weft_iota(a, -1), weft_iota(a, -2));
  return weft_sum(weft_solve(weft_where(is_diagonal, plus(a, 9), a), weft_slice(a, -1, 0, 1, 1)), -1);
}

SCOPED(a_function_of_any_size_solves_small_systems_in_lanes) {
  weft_array *a = matrices(WEFT_F64, 3, 3, 5), *few = weft_slice(a, 0, 0, 40, 1);
  EXPECT_SAME(called_open(solved, a), solved(a));
  EXPECT_SAME(called_open(solved, few), weft_slice(solved(a), 0, 0, 40, 1));
  EXPECT_SAME(called_open(solved, weft_slice(a, 0, 0, 0, 1)), weft_slice(solved(a), 0, 0, 0, 1));
}

SCOPED(a_map_of_a_small_system_is_a_kernel_with_the_bits_of_its_rows) {
  weft_array *a = matrices(WEFT_F64, 3, 3, 5), *one = weft_input(WEFT_F64, WEFT_DIMS(3, 3)), *y = solved(one), *all;
  weft_map(1, &one, &a, 1, &y, &all);
  const char *plan = weft_show(1, &all, "plan");
  EXPECT(plan && strstr(plan, "problems"));
  weft_array *third = weft_squeeze(weft_slice(a, 0, 2, 3, 1), 0);
  EXPECT_SAME(weft_squeeze(weft_slice(all, 0, 2, 3, 1), 0), solved(third));
}

static weft_array *next_of(weft_array *a) { return weft_mul(weft_add(weft_inverse(definite(a)), a), weft_scalar(0.5)); }

SCOPED(a_loop_over_many_small_systems_has_the_bits_of_its_steps) {
  weft_array *a = matrices(WEFT_F32, 4, 4, 5), *y = a;
  for (int i = 0; i < 5; i++) y = next_of(y);
  EXPECT_SAME(repeated(5, a, next_of), y);
}

/* Of many one kernel, of the last of them steps: the same bits. */
static void expect_one_kernel(const char *what, weft_array *(*of)(weft_array *), weft_array *g) {
  weft_array *all = of(g), *few = of(weft_slice(g, 0, 8000, WEFT_END, 1));
  const char *plan = weft_show(1, &all, "plan");
  if (!cuda_device(0) && !(plan && !strncmp(plan, "1 steps,", 8) && strstr(plan, "problems")))
    test_fail(__FILE__, __LINE__, "%s of %s: %s", what, weft_dtype_name(weft_dtype_of(g)), plan ? plan : "no plan");
  EXPECT_SAME(weft_slice(all, 0, 8000, WEFT_END, 1), few);
}

static weft_array *side(weft_array *g) { return weft_slice(g, 2, 0, 1, 1); }
static weft_array *twice(weft_array *g) { return weft_mul(g, weft_scalar(2)); }
static weft_array *factor_of(weft_array *g) { return weft_exp(weft_cholesky(twice(g))); }
static weft_array *factor_solve(weft_array *g) { return plus(weft_cholesky_solve(weft_cholesky(twice(g)), side(g)), 1); }
static weft_array *triangle_solve(weft_array *g) { return plus(weft_solve_triangular(twice(g), side(g), 1, 0), 1); }
static weft_array *lu_solve(weft_array *g) { return plus(weft_solve(twice(g), side(g)), 1); }
static weft_array *inverted(weft_array *g) { return plus(weft_inverse(twice(g)), 1); }
static weft_array *det_of(weft_array *g) { return plus(weft_det(twice(g)), 1); }
static weft_array *log_det_of(weft_array *g) {
  weft_array *sign, *size;
  weft_slogdet(twice(g), &sign, &size);
  return weft_mul(sign, size);
}

TEST(problems_of_sixteen_rows_and_what_is_around_them_are_one_kernel_where_they_are_many) {
  static const struct { const char *name; weft_array *(*of)(weft_array *); } kinds[] = {
    { "cholesky", factor_of }, { "cholesky_solve", factor_solve }, { "solve_triangular", triangle_solve }, { "solve", lu_solve },
    { "inverse", inverted }, { "det", det_of }, { "slogdet", log_det_of },
  };
  for (int k = 0; k < (cuda_device(0) ? 2 : 14); k++) { /* on a device they are steps: one kind is enough */
    weft_scope *s = weft_scope_open();
    weft_array *g = definite(weft_cast(drawn_floats(3, (int64_t[]){ 8200, 16, 16 }, 3), k % 2 ? WEFT_F64 : WEFT_F32));
    EXPECT_OK(weft_eval(1, &g));
    expect_one_kernel(kinds[k / 2].name, kinds[k / 2].of, g);
    weft_scope_discard(s);
  }
}

/* ---- a GPU ---- */

TEST(cuda_has_small_systems_in_lanes_with_the_bits_of_the_host) {
  test_watchdog(300);
  if (!has_gpu()) return;
  for (int k = 0; k < STORIES; k++)
    for (int form = 0; form < FORMS; form++) {
      if (stories[k].make == derivatives && form) continue;
      weft_dtype t = form % 2 ? WEFT_F64 : WEFT_F32;
      struct answer want = answer_of(k, form, t, 3, 1, NULL, true);
      weft_set(WEFT_DEVICE, 1);
      struct answer got = answer_of(k, form, t, 3, 1, NULL, true);
      weft_set(WEFT_DEVICE, 0);
      EXPECT(got.is_kernel);
      for (int i = 0; i < want.n; i++)
        if (want.count[i] != got.count[i] || !are_same(want.value[i], got.value[i], want.count[i]))
          test_fail(__FILE__, __LINE__, "%s, form %d: result %d has other bits there", stories[k].name, form, i);
      answer_free(&want), answer_free(&got);
    }
}
/* Whatever their operations, and whether registers hold them. */
TEST(cuda_has_systems_of_sixteen_rows_in_lanes_with_the_bits_of_the_host) {
  static weft_array *(*const kinds[])(weft_array *) = { factor_solve, triangle_solve, lu_solve, inverted, log_det_of };
  test_watchdog(300);
  if (!has_gpu()) return;
  for (int k = 0; k < 10; k++) {
    weft_scope *s = weft_scope_open();
    weft_array *g = weft_cast(drawn_floats(3, (int64_t[]){ MANY, 16, 16 }, 3), k % 2 ? WEFT_F64 : WEFT_F32), *y[2];
    g = kinds[k / 2] == factor_solve ? definite(g) : g;
    EXPECT_OK(weft_eval(1, &g));
    for (int there = 0; there < 2; there++) {
      plan_drop_all(), problems_use_limit(there ? 1 << 20 : 0), weft_set(WEFT_DEVICE, there);
      y[there] = kinds[k / 2](g);
      const char *plan = weft_show(1, &y[there], "plan");
      EXPECT(!there || (plan && strstr(plan, "problems")));
      EXPECT_OK(weft_eval(1, &y[there]));
    }
    problems_use_limit(0), weft_set(WEFT_DEVICE, 0), plan_drop_all();
    EXPECT_SAME(y[1], y[0]);
    weft_scope_discard(s);
  }
}

TEST(systems_of_many_right_sides_in_lanes_have_the_bits_of_steps) {
  for (int k = 0; k < STORIES; k++) if (stories[k].make != derivatives) compare(k, k % FORMS, WEFT_F32, 2, 70, NULL);
}

/* Results stand in the memory of what they are made of, which dies. */
SCOPED(small_systems_that_are_updated_in_place_are_those_of_the_arrays_before) {
  for (int k = 0; k < 4; k++) {
    weft_dtype t = k & 1 ? WEFT_F64 : WEFT_F32;
    weft_array *a = weft_cast(definite(matrices(WEFT_F64, 4, 4, 7)), t), *first = weft_cast(definite(matrices(WEFT_F64, 4, 4, 7)), t);
    EXPECT_OK(weft_eval(1, &a)); EXPECT_OK(weft_eval(1, &first));
    for (int step = 0; step < 3; step++) {
      weft_scope *s = weft_scope_open();
      weft_update(a, k & 2 ? turned(weft_cholesky(a)) : weft_add(weft_inverse(a), turned(a)));
      EXPECT_OK(weft_scope_close(s));
    }
    plan_use_fusing(false);
    weft_array *want = first;
    for (int step = 0; step < 3; step++) want = k & 2 ? turned(weft_cholesky(want)) : weft_add(weft_inverse(want), turned(want));
    EXPECT_OK(weft_eval(1, &want));
    plan_use_fusing(true);
    EXPECT_SAME(a, want);
  }
}
