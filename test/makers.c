/* makers.c -- operands of products that are computed while they are packed: the bits of one op at a time on every back end and
 * number of threads, no copy of them in memory, and only where that pays. */
#include <stdlib.h>
#include <string.h>
#include "backend/patch.h"
#include "base/mem.h"
#include "every_recipe.h"
#include "run/compiled.h"
#include "run/plan.h"
#include "values.h"
#include "weft.h"

/* ---- operands ---- */

struct sizes { int64_t m, n, k; };
struct given { struct sizes s; weft_dtype t; weft_array *x, *w, *bytes, *mask, *scale, *index, *table; };

static uint32_t seed;
static int32_t next_number(void) { return (int32_t)((seed = seed * 1664525u + 1013904223u) >> 8) % 251 - 125; }

static weft_array *numbers(weft_dtype t, int64_t rows, int64_t columns, double unit) {
  double *x = malloc(sizeof *x * (size_t)(rows * columns));
  for (int64_t i = 0; i < rows * columns; i++) x[i] = next_number() * unit;
  weft_array *y = weft_cast(weft_from(WEFT_F64, WEFT_DIMS(rows, columns), x), t);
  free(x);
  return y;
}

static weft_array *indices(int64_t n, int64_t below) { /* some count from the end */
  int32_t *x = malloc(sizeof *x * (size_t)n);
  for (int64_t i = 0; i < n; i++) x[i] = (int32_t)((next_number() + 125) * 7919 % below - (i % 3 ? 0 : below));
  weft_array *y = weft_from(WEFT_I32, WEFT_DIMS(n), x);
  free(x);
  return y;
}

static struct given given(struct sizes s, weft_dtype t) {
  enum { ROWS = 90 };
  double unit = t == WEFT_F16 || t == WEFT_F32 || t == WEFT_F64 || t == WEFT_BF16 ? 0.0078125 : 1;
  seed = 3;
  struct given g = { s, t, numbers(t, s.m, s.k, unit), numbers(t, s.k, s.n, unit), numbers(WEFT_I8, s.n, s.k, 1),
                     weft_lt(numbers(WEFT_I32, s.m, s.k, 1), weft_integer(40)), numbers(t, s.n, 1, unit), indices(s.m, ROWS),
                     numbers(t, ROWS, s.k, unit) };
  weft_array *all[] = { g.x, g.w, g.bytes, g.mask, g.scale, g.index, g.table };
  EXPECT_OK(weft_eval(7, all));
  return g;
}

/* ---- programs ---- */

typedef weft_array *program(const struct given *);

static weft_array *turned(weft_array *x) { return weft_moveaxis(x, -1, -2); }
static weft_array *twice(weft_array *x) { return weft_add(weft_mul(x, weft_integer(2)), weft_integer(1)); }
static weft_array *weights(const struct given *g) { return weft_mul(weft_cast(g->bytes, g->t), g->scale); }

static weft_array *scaled_bytes(const struct given *g) { return weft_matmul(g->x, turned(weights(g))); }
static weft_array *scaled_bytes_left(const struct given *g) { return weft_matmul(weights(g), turned(g->x)); }
static weft_array *masked(const struct given *g) { return weft_matmul(weft_where(g->mask, g->x, weft_integer(0)), g->w); }
static weft_array *triangular(const struct given *g) {
  weft_array *like = weft_full(WEFT_I32, WEFT_DIMS(g->s.m, g->s.k), 0);
  return weft_matmul(weft_where(weft_le(weft_iota(like, 1), weft_iota(like, 0)), g->x, weft_integer(0)), g->w);
}
static weft_array *triangular_right(const struct given *g) {
  weft_array *like = weft_full(WEFT_I32, WEFT_DIMS(g->s.k, g->s.n), 0);
  return weft_matmul(g->x, weft_where(weft_le(weft_iota(like, 1), weft_iota(like, 0)), g->w, weft_integer(0)));
}
static weft_array *rows(const struct given *g) { return weft_take(g->table, WEFT_ARRAYS(g->index)); }
static weft_array *gathered(const struct given *g) { return weft_matmul(rows(g), g->w); }
static weft_array *gathered_right(const struct given *g) {
  return weft_matmul(turned(g->w), turned(rows(g)));
}
static weft_array *gathered_and_masked(const struct given *g) {
  return weft_matmul(weft_where(g->mask, twice(rows(g)), weft_integer(3)), g->w);
}
static weft_array *both(const struct given *g) { return weft_matmul(twice(g->x), weft_mul(g->w, g->w)); }
static weft_array *left_turned(const struct given *g) { return weft_matmul(turned(twice(g->w)), turned(g->x)); }
static weft_array *reversed(const struct given *g) {
  weft_array *x = weft_slice(weft_slice(g->x, 0, -1, INT64_MIN, -1), 1, -1, INT64_MIN, -1);
  return weft_matmul(twice(x), twice(g->w));
}
static weft_array *padded(const struct given *g) {
  weft_array *x = weft_slice(g->x, 1, 2, g->s.k, 1);
  return weft_matmul(weft_pad(weft_mul(x, x), 1, 1, 1, weft_integer(1)), g->w);
}
static weft_array *still(const struct given *g) { /* does not move along the rows */
  weft_array *v = twice(weft_slice(g->x, 0, 0, 1, 1));
  return weft_matmul(weft_broadcast(v, WEFT_DIMS(g->s.m, g->s.k)), twice(g->w));
}
static weft_array *batched(const struct given *g) {
  weft_array *x = weft_stack(0, WEFT_ARRAYS(g->x, weft_neg(g->x))), *all[] = { x };
  EXPECT_OK(weft_eval(1, all));
  return weft_matmul(twice(x), twice(g->w));
}
static weft_array *with_rest(const struct given *g) {
  return weft_softmax(weft_add(weft_matmul(twice(g->x), twice(g->w)), turned(g->scale)), -1);
}
static weft_array *dear(const struct given *g) { return weft_matmul(weft_tanh(g->x), weft_exp(g->w)); }
static weft_array *gradient(const struct given *g) {
  weft_array *x = g->table, *dx, *y = weft_matmul(weft_where(g->mask, weft_take(x, WEFT_ARRAYS(g->index)), weft_integer(0)), weft_mul(g->w, g->w));
  weft_grad(weft_mul(y, y), 1, &x, &dx);
  return dx;
}
static weft_array *gradient_right(const struct given *g) {
  weft_array *s = g->scale, *ds, *y = weft_matmul(g->x, turned(weights(g)));
  weft_grad(weft_mul(y, y), 1, &s, &ds);
  return ds;
}

static const struct { const char *name; program *f; bool is_of_floats; } programs[] = {
  { "scaled bytes", scaled_bytes, false }, { "scaled bytes on the left", scaled_bytes_left, false }, { "masked", masked, false },
  { "triangular", triangular, false }, { "triangular on the right", triangular_right, false }, { "gathered", gathered, false },
  { "gathered on the right", gathered_right, false }, { "gathered and masked", gathered_and_masked, false }, { "both", both, false },
  { "left, turned", left_turned, false }, { "reversed", reversed, false }, { "padded", padded, false }, { "still", still, false },
  { "batched", batched, false }, { "with the rest", with_rest, true }, { "dear", dear, true }, { "gradient", gradient, true },
  { "gradient on the right", gradient_right, true },
};
enum { PROGRAMS = sizeof programs / sizeof *programs };

/* ---- the same bits ---- */

static void use(const char *backend, bool fuses, int threads) { way_take(&(struct way){ "", backend, fuses, threads }); }

static double *bits_of(int i, struct sizes s, weft_dtype t, size_t *n) {
  weft_scope *scope = weft_scope_open();
  struct given g = given(s, t);
  double *out = all_f64(programs[i].f(&g), n);
  weft_scope_discard(scope);
  return out;
}

static void check(int i, struct sizes s, weft_dtype t) {
  size_t n, m;
  use("vm", false, 1);
  double *want = bits_of(i, s, t, &n);
  for (int k = 0; k < FUSED_WAYS; k++) {
    if (k == 1 && !contractor_avx2.available()) continue;
    way_take(&fused_ways[k]);
    double *got = bits_of(i, s, t, &m);
    if (n != m || memcmp(got, want, sizeof *got * n))
      test_fail(__FILE__, __LINE__, "%s, %s [%d,%d,%d] on %s", programs[i].name, weft_dtype_name(t), (int)s.m, (int)s.n, (int)s.k,
                fused_ways[k].name);
    free(got);
  }
  free(want);
}

static const struct sizes shapes[] = { { 150, 530, 600 }, { 5, 700, 300 }, { 900, 3, 90 }, { 1, 300, 700 }, { 40, 70, 30 } };
enum { SHAPES = sizeof shapes / sizeof *shapes };

static void check_all(weft_dtype t, bool is_float, int n_shapes) {
  int64_t threads = weft_get(WEFT_THREADS);
  test_watchdog(120);
  for (int i = 0; i < PROGRAMS; i++)
    for (int s = 0; s < n_shapes; s++) if (is_float || !programs[i].is_of_floats) check(i, shapes[s], t);
  use(NULL, true, (int)threads);
}

TEST(operands_made_while_they_are_packed_have_the_bits_of_one_op_at_a_time) { check_all(WEFT_F32, true, SHAPES); }
TEST(operands_of_f64_made_while_they_are_packed_have_the_bits_of_one_op_at_a_time) { check_all(WEFT_F64, true, 2); }
TEST(operands_of_bf16_made_while_they_are_packed_have_the_bits_of_one_op_at_a_time) { check_all(WEFT_BF16, true, 3); }
TEST(operands_of_integers_made_while_they_are_packed_are_exact) {
  check_all(WEFT_I8, false, 2);
  check_all(WEFT_I32, false, 2);
  check_all(WEFT_I64, false, 1);
}


/* ---- what is stored, and what is not ---- */

static const char *plan_of(program *f, struct sizes s) {
  struct given g = given(s, WEFT_F32);
  weft_array *y = f(&g);
  return weft_show(1, &y, "plan");
}

static void expect_plan(const char *name, program *f, struct sizes s, const char *what, bool has_it) {
  weft_scope *scope = weft_scope_open();
  const char *plan = plan_of(f, s);
  if (!strstr(plan, what) == has_it) test_fail(__FILE__, __LINE__, "%s: %s \"%s\" in\n%s", name, has_it ? "no" : "a", what, plan);
  weft_scope_discard(scope);
}

static const struct sizes large = { 300, 400, 700 };

TEST(what_only_a_product_wants_is_never_whole) {
  expect_plan("scaled bytes", scaled_bytes, large, "b=pieces of step 0", true);
  expect_plan("masked", masked, large, "a=pieces of step 0", true);
  expect_plan("triangular", triangular, large, "a=pieces of step 0", true);
  expect_plan("gathered", gathered, large, "a=pieces of step", true);
  expect_plan("both", both, large, "a=pieces of step 0, b=pieces of step 1", true);
  expect_plan("the gradient of rows", gradient, large, "a=pieces of step", true);
  expect_plan("bytes by one row", scaled_bytes, (struct sizes){ 1, 700, 300 }, "b=pieces of step 0", true);
}

static weft_array *dear_for_many(const struct given *g) { return weft_matmul(weft_exp(weft_tanh(g->x)), g->w); }
static weft_array *also_read(const struct given *g) {
  weft_array *x = twice(g->x);
  return weft_add(weft_sum(x, -1), weft_sum(weft_matmul(x, g->w), -1));
}

TEST(what_would_be_computed_too_often_is_stored) {
  expect_plan("functions for many columns", dear_for_many, (struct sizes){ 150, 3000, 700 }, "pieces", false);
  expect_plan("read by others too", also_read, large, "pieces", false);
  expect_plan("cut into blocks", masked, (struct sizes){ 60, 60, 6000 }, "pieces", false);
  expect_plan("small", masked, (struct sizes){ 40, 70, 30 }, "pieces", false);
}

/* One op at a time and made: the same complaint, about the same place. */
TEST(an_index_out_of_range_is_found_while_an_operand_is_made) {
  weft_scope *scope = weft_scope_open();
  int32_t at[300] = { 0 };
  float y[300 * 400];
  char first[200];
  struct given g = given(large, WEFT_F32);
  at[211] = 90, at[270] = -91;
  g.index = weft_from(WEFT_I32, WEFT_DIMS(300), at);
  for (int fuses = 0; fuses < 2; fuses++) {
    use(NULL, fuses, 3);
    EXPECT_INT(weft_read(gathered(&g), WEFT_F32, y, sizeof y), WEFT_ERR_INDEX);
    if (!fuses) snprintf(first, sizeof first, "%s", weft_message());
    else EXPECT_TEXT(weft_message(), first);
  }
  EXPECT_OK(weft_eval(1, &g.x));
  weft_scope_discard(scope);
}

/* masked, in which allocation n fails. Whether it got that far. */
static bool fails_at(int64_t n) {
  static float y[300 * 400];
  weft_scope *scope = weft_scope_open();
  struct given g = given(large, WEFT_F32);
  weft_array *x = both(&g);
  mem_fail_at(n, 0);
  weft_status status = weft_read(x, WEFT_F32, y, sizeof y);
  int64_t made = mem_count();
  mem_fail_at(0, 0);
  if (status) EXPECT_INT(status, WEFT_ERR_MEMORY);
  weft_scope_discard(scope);
  plan_drop_all();
  compiled_drop_all();
  return made >= n;
}

TEST(a_product_of_made_operands_survives_each_failing_allocation) {
  test_watchdog(100);
  for (int64_t n = 1; fails_at(n); n++) {}
}
