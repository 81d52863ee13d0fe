/* sizes.c -- sizes that are not known yet: expressions of them, and slices whose bounds are cut to fit, as Python does, when
 * something tells them. What is right is said in plain integers. */
#include "base/mem.h"
#include "graph/copy.h"
#include "graph/dim.h"
#include "values.h"

/* ---- Expressions ---- */

enum { SYMBOLS = 3, VALUES = 5, CASES = VALUES * VALUES * VALUES };

struct drawn { dim d; int64_t value[CASES]; bool failed; };

static uint64_t seed;
static int draw(int n) { return (int)((seed = seed * 6364136223846793005u + 1442695040888963407u) >> 33) % n; }

static int64_t floor_of(int64_t a, int64_t b) {
  int64_t q = b ? a / b : 0;
  return b && q * b != a && (a < 0) != (b < 0) ? q - 1 : q;
}

static int64_t apply(int op, int64_t a, int64_t b) {
  switch (op) {
    case 0: return a + b;
    case 1: return a - b;
    case 2: return a * b;
    case 3: return a < b ? a : b;
    case 4: return a > b ? a : b;
    case 5: return a > b ? a - b : 0;
    default: return floor_of(a, b);
  }
}

static dim (*const rule[])(dim, dim) = { dim_add, dim_sub, dim_mul, dim_min, dim_max, dim_above, dim_quotient };

static struct drawn some(const dim symbol[], int depth) {
  struct drawn e = { 0 };
  int64_t number = draw(10);
  int which = draw(4), op = draw(7);
  if (!depth || draw(4) == 0) {
    e.d = which < SYMBOLS ? symbol[which] : number;
    for (int c = 0, place[] = { 1, VALUES, VALUES * VALUES }; c < CASES; c++)
      e.value[c] = which < SYMBOLS ? c / place[which] % VALUES * 3 : number; /* 0, 3, .. 12 */
    return e;
  }
  struct drawn a = some(symbol, depth - 1), b = some(symbol, depth - 1);
  e.d = rule[op](a.d, b.d);
  e.failed = a.failed || b.failed || e.d == DIM_BAD;
  for (int c = 0; c < CASES; c++) e.value[c] = apply(op, a.value[c], b.value[c]);
  return e;
}

TEST(expressions_of_sizes_are_what_plain_integers_say) {
  int n_open = 0;
  for (seed = 1; seed < 3000; seed++) {
    uint64_t at = seed;
    dim symbol[] = { dim_symbol(), dim_symbol(), dim_symbol() };
    struct drawn e = some(symbol, 4);
    seed = at;
    if (e.failed) continue;
    n_open += !dim_is_known(e.d);
    dim_retain(e.d);
    for (int c = 0; c < CASES; c++) {
      int64_t value[] = { c % VALUES * 3, c / VALUES % VALUES * 3, c / VALUES / VALUES * 3 };
      dim at_once = dim_substitute(e.d, SYMBOLS, symbol, value), want = e.value[c] < 0 ? DIM_BAD : e.value[c], by_one = e.d;
      for (int k = 0; k < SYMBOLS; k++) by_one = dim_substitute(by_one, 1, &symbol[k], &value[k]);
      if (at_once != want || by_one != want) {
        struct text t = { 0 };
        dim_print(e.d, &t);
        test_fail(__FILE__, __LINE__, "seed %d: %s at %d %d %d is %lld or %lld, not %lld", (int)at, text_of(&t), (int)value[0],
                  (int)value[1], (int)value[2], (long long)at_once, (long long)by_one, (long long)want);
        text_free(&t);
        return;
      }
    }
    dim_release(e.d);
  }
  EXPECT(n_open > 500);
}

/* max(x n^3 - x n^2 + x n - 7, 0) of itself, again and again: x stands in so many places that all of them written out are 3^levels.
 * All is made in a row: nobody but the thread that computes counts on it. */
static dim entangled(dim n, int levels) {
  dim x = n;
  for (int k = 0; k < levels; k++) {
    dim xn = dim_mul(x, n), xn2 = dim_mul(xn, n), part = dim_reckon(DIM_MINUS, dim_mul(xn2, n), xn2);
    x = dim_reckon(DIM_LARGEST, dim_reckon(DIM_PLUS, part, dim_reckon(DIM_MINUS, xn, dim_integer(7))), 0);
  }
  return x;
}

TEST(a_size_that_mentions_another_in_many_places_is_substituted_without_losing_any) {
  for (int levels = 1; levels <= 11; levels++) {
    dim n = dim_symbol(), m = dim_symbol(), x = entangled(n, levels), y;
    dim_retain(x);
    EXPECT(x != DIM_BAD);
    dim_retain(y = dim_substitute(x, 1, &n, &m));
    EXPECT(y == entangled(m, levels));
    EXPECT(y == dim_substitute(x, 1, &n, &m) && x == dim_substitute(y, 1, &m, &n));
    EXPECT_INT(dim_substitute(x, 1, &n, (dim[]){ 1 }), 0);
    EXPECT_INT(dim_substitute(y, 1, &m, (dim[]){ 2 }), levels == 1 ? 5 : dim_substitute(x, 1, &n, (dim[]){ 2 }));
    EXPECT(dim_sign(dim_sub(x, y)) == 0);
    dim_release(x), dim_release(y);
  }
}

static void expect_text(dim d, const char *want) {
  struct text t = { 0 };
  dim_print(d, &t);
  EXPECT_TEXT(text_of(&t), want);
  text_free(&t);
}

TEST(sizes_that_are_equal_for_simple_reasons_are_equal_integers) {
  dim n = dim_symbol(), m = dim_symbol();
  EXPECT(dim_min(n, n) == n && dim_max(n, 0) == n && dim_min(n, 0) == 0 && dim_above(n, n) == 0 && dim_above(0, n) == 0);
  EXPECT(dim_min(n, m) == dim_min(m, n) || dim_add(dim_min(n, m), dim_max(n, m)) == dim_add(n, m));
  EXPECT(dim_above(dim_above(n, 3), 4) == dim_above(n, 7));                             /* x[3:][4:] is x[7:] */
  EXPECT(dim_above(dim_add(n, 5), 5) == n && dim_min(dim_add(n, 5), 5) == 5);           /* of what is at least 5 long */
  EXPECT(dim_sub(n, dim_min(n, 8)) == dim_above(n, 8));                                 /* x[:8] and x[8:] are all of x */
  EXPECT(dim_above(dim_mul(n, 2), 16) == dim_mul(2, dim_above(n, 8)));
  EXPECT(dim_quotient(dim_mul(n, 6), 3) == dim_mul(n, 2) && dim_quotient(dim_add(dim_mul(n, 2), 1), 2) == n);
  EXPECT(dim_quotient(dim_quotient(n, 2), 3) == dim_quotient(n, 6));                    /* x[::2][::3], of the floor */
  EXPECT(dim_max(dim_min(n, 8), 0) == dim_min(n, 8) && dim_above(dim_quotient(n, 2), n) == 0);
  EXPECT(dim_add(dim_quotient(n, 2), dim_quotient(dim_add(n, 1), 2)) != DIM_BAD);
  expect_text(dim_min(n, 8), "min(n1,8)");
  expect_text(dim_above(n, 8), "max(n1-8,0)");
  expect_text(dim_quotient(dim_add(n, 1), 2), "floor((n1+1)/(2))");
}

/* ---- Slices ---- */

static const int64_t bounds[] = { WEFT_BEGIN, -9, -4, -1, 0, 1, 3, 9, WEFT_END };
static const int64_t steps[] = { 1, 2, 3, INT64_MAX, -1, -2, -3, INT64_MIN };
enum { BOUNDS = sizeof bounds / sizeof *bounds, STEPS = sizeof steps / sizeof *steps, LONGEST = 6 };

/* The places that x[start:stop:step] shows, by counting; returns how many. */
static int places(int n, int64_t start, int64_t stop, int64_t step, int at[]) {
  int count = 0;
  __int128 from = start == WEFT_BEGIN || start == WEFT_END ? start : start < 0 ? start + n : start;
  __int128 to = stop == WEFT_BEGIN || stop == WEFT_END ? stop : stop < 0 ? stop + n : stop;
  if (step > 0 && from < 0) from = 0;
  if (step < 0 && from > n - 1) from = n - 1;
  for (__int128 i = from; step > 0 ? i < to && i < n : i > to && i >= 0; i += step)
    if (i >= 0 && i < n) at[count++] = (int)i;
  return count;
}

/* n numbers, of a size that only a run tells. */
static weft_array *counted(int n) {
  weft_loop *l = weft_loop_open(weft_integer(100));
  weft_array *c = weft_loop_carry(l, f64_of(0)), *next = weft_add(c, weft_scalar(1));
  weft_loop_next(l, c, next);
  weft_loop_until(l, weft_ge(next, weft_scalar(n + 1)));
  weft_array *y = weft_loop_all(l, next);
  weft_loop_close(l);
  return weft_slice(y, 0, 0, -1, 1);
}

enum { READ, WRITTEN, SLOPE, TANGENT, MAPPED, LOOPED, RESULTS };

/* What a function does with a slice of x: twice it; x with it set to ten times as much; the derivatives of the sum of its
 * squares; the same of rows; x after two steps in which 1 is added there. */
static void use(weft_array *x, weft_array *rows, int64_t start, int64_t stop, int64_t step, weft_array *out[RESULTS]) {
  weft_array *part = weft_slice(x, 0, start, stop, step), *square = weft_sum(weft_mul(part, part), WEFT_ALL);
  out[READ] = weft_mul(part, weft_scalar(2));
  out[WRITTEN] = weft_put(x, part, weft_mul(part, weft_scalar(10)), WEFT_SET);
  weft_grad(square, 1, &x, &out[SLOPE]);
  weft_jvp(1, &x, (weft_array *[]){ weft_full_like(x, 1) }, 1, &part, &out[TANGENT]);
  weft_array *row = weft_alias(weft_at(rows, 0, weft_integer(0)));
  weft_array *twice = weft_mul(weft_slice(row, 0, start, stop, step), weft_scalar(2));
  weft_map(1, &row, &rows, 1, &twice, &out[MAPPED]);
  weft_loop *l = weft_loop_open(weft_integer(2));
  weft_array *c = weft_loop_carry(l, x), *c_part = weft_slice(c, 0, start, stop, step);
  weft_loop_next(l, c, weft_put(c, c_part, weft_scalar(1), WEFT_ADD));
  out[LOOPED] = weft_loop_last(l, c);
  weft_loop_close(l);
}

static void expect_all(weft_array *y, int n, const double want[], const char *what) {
  size_t count;
  double *got = all_f64(y, &count);
  bool same = (int)count == n;
  for (int i = 0; same && i < n; i++) same = got[i] == want[i];
  if (!same)
    test_fail(__FILE__, __LINE__, "%s: %d elements, %g first; not %d, %g", what, (int)count, count ? got[0] : 0, n, n ? want[0] : 0);
  free(got);
}

/* x is 1, 2, .. n, rows are x and 2 x. */
static void expect_used(weft_array *const out[RESULTS], int n, int64_t start, int64_t stop, int64_t step) {
  int at[LONGEST], m = places(n, start, stop, step, at);
  double read[LONGEST], written[LONGEST], slope[LONGEST], tangent[LONGEST], mapped[2 * LONGEST], looped[LONGEST];
  for (int i = 0; i < n; i++) written[i] = looped[i] = i + 1, slope[i] = 0;
  for (int i = 0; i < m; i++) {
    read[i] = mapped[i] = 2 * (at[i] + 1), mapped[m + i] = 4 * (at[i] + 1), tangent[i] = 1;
    written[at[i]] = 10 * (at[i] + 1), slope[at[i]] = 2 * (at[i] + 1), looped[at[i]] = at[i] + 3;
  }
  expect_all(out[READ], m, read, "read");
  expect_all(out[WRITTEN], n, written, "written");
  expect_all(out[SLOPE], n, slope, "slope");
  expect_all(out[TANGENT], m, tangent, "tangent");
  expect_all(out[MAPPED], 2 * m, mapped, "mapped");
  expect_all(out[LOOPED], n, looped, "looped");
}

static void each_slice(void (*check)(int64_t start, int64_t stop, int64_t step)) {
  for (int i = 0; i < BOUNDS; i++)
    for (int j = 0; j < BOUNDS; j++)
      for (int k = 0; k < STEPS; k++) check(bounds[i], bounds[j], steps[k]);
}

static weft_array *numbers_to(int n) { return weft_add(weft_iota(weft_full(WEFT_F64, WEFT_DIMS(n), 0), 0), weft_scalar(1)); }
static weft_array *and_twice(weft_array *x) { return weft_stack(0, WEFT_ARRAYS(x, weft_mul(x, weft_scalar(2)))); }

static void in_a_function(int64_t start, int64_t stop, int64_t step) {
  weft_scope *outer = weft_scope_open(), *s = weft_scope_open();
  weft_array *in[] = { weft_input(WEFT_F64, WEFT_DIMS(WEFT_ANY)), weft_input(WEFT_F64, WEFT_DIMS(2, WEFT_ANY)) }, *out[RESULTS];
  use(in[0], in[1], start, stop, step, out);
  weft_function *f = weft_compile(s, 2, in, RESULTS, out);
  for (int n = 0; n <= LONGEST; n++) {
    weft_scope *call = weft_scope_open();
    weft_array *x = numbers_to(n);
    weft_call(f, 2, (weft_array *[]){ x, and_twice(x) }, RESULTS, out);
    expect_used(out, n, start, stop, step);
    weft_scope_discard(call);
  }
  weft_scope_discard(outer);
}

static void of_a_loop(int64_t start, int64_t stop, int64_t step) {
  for (int n = 0; n <= LONGEST; n += 3) {
    weft_scope *s = weft_scope_open();
    weft_array *out[RESULTS], *x = counted(n);
    use(x, and_twice(x), start, stop, step, out);
    expect_used(out, n, start, stop, step);
    weft_scope_discard(s);
  }
}

TEST(slices_of_inputs_of_any_size_are_cut_as_python_does) {
  test_watchdog(120);
  each_slice(in_a_function);
}

TEST(slices_of_what_only_a_run_tells_are_cut_as_python_does) {
  test_watchdog(120);
  each_slice(of_a_loop);
}

TEST(windows_in_steps_count_themselves_when_the_size_is_known) {
  weft_scope *outer = weft_scope_open(), *s = weft_scope_open();
  weft_array *x = weft_input(WEFT_F64, WEFT_DIMS(WEFT_ANY)), *y = weft_windows(x, 0, 3, 2, 1), *dx, *conv;
  weft_array *w = f64s(3, (double[]){ 1, 10, 100 });
  weft_grad(weft_sum(weft_mul(y, w), WEFT_ALL), 1, &x, &dx);
  conv = weft_conv(weft_unsqueeze(weft_unsqueeze(x, 0), 2), weft_reshape(w, WEFT_DIMS(1, 3, 1)),
                   &(weft_conv_options){ .stride = (int64_t[]){ 2 } });
  weft_function *f = weft_compile(s, 1, &x, 3, (weft_array *[]){ y, dx, conv });
  for (int n = 1; n <= 8; n++) {
    weft_scope *call = weft_scope_open();
    weft_array *in = numbers_to(n), *out[3];
    weft_call(f, 1, &in, 3, out);
    double want[12], slope[8] = { 0 }, sum[4];
    int m = n < 3 ? 0 : (n - 3) / 2 + 1;
    for (int i = 0; i < m; i++) {
      for (int j = 0; j < 3; j++) want[3 * i + j] = 2 * i + j + 1, slope[2 * i + j] += (double[]){ 1, 10, 100 }[j];
      sum[i] = want[3 * i] + 10 * want[3 * i + 1] + 100 * want[3 * i + 2];
    }
    if (n < 3) EXPECT_INT(weft_eval(3, out), WEFT_ERR_SHAPE);
    else expect_all(out[0], 3 * m, want, "windows"), expect_all(out[1], n, slope, "slope"), expect_all(out[2], m, sum, "conv");
    weft_scope_discard(call);
  }
  weft_scope_discard(outer);
}

/* A function of open sizes lives on: what its calls and others compute with sizes must not. */
TEST(sizes_of_calls_that_have_ended_are_forgotten) {
  weft_scope *outer = weft_scope_open(), *s = weft_scope_open();
  weft_array *x = weft_input(WEFT_F64, WEFT_DIMS(WEFT_ANY)), *y = weft_sum(weft_slice(x, 0, 1, -1, 2), WEFT_ALL);
  weft_function *f = weft_compile(s, 1, &x, 1, &y);
  int64_t live[3];
  for (int i = 0; i < 1500; i++) {
    weft_scope *call = weft_scope_open();
    weft_array *rows = counted(3 + i % 3), *part = weft_slice(weft_slice(rows, 0, -2, WEFT_END, 1), 0, 1, 9, 1), *z;
    weft_call(f, 1, &rows, 1, &z);
    EXPECT_NEAR(one_f64(z), 2, 2);
    EXPECT_NEAR(one_f64(weft_sum(part, WEFT_ALL)), 3 + i % 3, 0);
    weft_scope_discard(call);
    if (i % 500 == 499) live[i / 500] = mem_live();
  }
  EXPECT_INT(live[2], live[1]);
  weft_scope_discard(outer);
}

/* ---- Sizes that are computed ---- */

static weft_array *open_f64(void) { return weft_input(WEFT_F64, WEFT_DIMS(WEFT_ANY)); }
static weft_array *open_i64(void) { return weft_input(WEFT_I64, 0, NULL); }

/* x[start:stop:step] of four inputs, and its uses. */
static weft_function *cut_by_inputs(void) {
  weft_scope *s = weft_scope_open();
  weft_array *in[] = { open_f64(), open_i64(), open_i64(), open_i64() }, *out[4], *x = in[0];
  weft_array *part = weft_cut(x, 0, in[1], in[2], in[3]), *row = weft_alias(x);
  out[0] = weft_mul(part, weft_scalar(2));
  out[1] = weft_put(x, part, weft_mul(part, weft_scalar(10)), WEFT_SET);
  weft_grad(weft_sum(weft_mul(part, part), WEFT_ALL), 1, &x, &out[2]);
  weft_array *rows = weft_stack(0, WEFT_ARRAYS(x, weft_mul(x, weft_scalar(2)))), *mapped = weft_cut(row, 0, in[1], in[2], in[3]);
  weft_map(1, &row, &rows, 1, &mapped, &out[3]);
  return weft_compile(s, 4, in, 4, out);
}

TEST(slices_by_computed_bounds_are_those_by_numbers) {
  static const int64_t at[] = { INT64_MIN, -9, -4, -1, 0, 1, 3, 9, INT64_MAX }, by[] = { 1, 2, -1, -3, INT64_MAX, INT64_MIN };
  test_watchdog(120);
  weft_scope *outer = weft_scope_open();
  weft_function *f = cut_by_inputs();
  for (int n = 0; n <= LONGEST; n += 3)
    for (int i = 0; i < 9; i++)
      for (int j = 0; j < 9; j++)
        for (int k = 0; k < 6; k++) {
          weft_scope *call = weft_scope_open();
          int place[LONGEST], m = places(n, at[i], at[j], by[k], place);
          double read[LONGEST], written[LONGEST], slope[LONGEST] = { 0 }, mapped[2 * LONGEST];
          for (int p = 0; p < n; p++) written[p] = p + 1;
          for (int p = 0; p < m; p++) {
            read[p] = 2 * (place[p] + 1), written[place[p]] = 10 * (place[p] + 1), slope[place[p]] = 2 * (place[p] + 1);
            mapped[p] = place[p] + 1, mapped[m + p] = 2 * (place[p] + 1);
          }
          weft_array *in[] = { numbers_to(n), i64_of(at[i]), i64_of(at[j]), i64_of(by[k]) }, *out[4];
          weft_call(f, 4, in, 4, out);
          expect_all(out[0], m, read, "read"), expect_all(out[1], n, written, "written"), expect_all(out[2], n, slope, "slope");
          expect_all(out[3], 2 * m, mapped, "mapped");
          weft_scope_discard(call);
        }
  weft_array *in[] = { numbers_to(3), i64_of(0), i64_of(3), i64_of(0) }, *out[4];
  weft_call(f, 4, in, 4, out);
  EXPECT_INT(weft_eval(4, out), WEFT_ERR_ARG); /* a step of 0 */
  weft_array *x = numbers_to(3);
  EXPECT_INT(weft_check(weft_cut(x, 0, weft_scalar(1), NULL, NULL)), WEFT_ERR_ARG);
  EXPECT_INT(weft_check(weft_cut(x, 1, NULL, NULL, NULL)), WEFT_ERR_SHAPE);
  EXPECT_INT(weft_check(weft_cut(x, 0, NULL, NULL, weft_integer(0))), WEFT_ERR_ARG);
  EXPECT_INT(weft_dim(weft_cut(x, 0, weft_integer(-2), NULL, NULL), 0), 2);
  weft_scope_discard(outer);
}

TEST(arrays_are_as_long_as_an_input_says) {
  weft_scope *outer = weft_scope_open(), *s = weft_scope_open();
  weft_array *in[] = { open_i64(), open_i64() }, *x = weft_sized(WEFT_F64, WEFT_ARRAYS(in[0], in[1])), *out[3];
  out[0] = weft_add(weft_mul(weft_iota(x, 0), weft_scalar(10)), weft_iota(x, 1));
  out[1] = weft_sum(weft_reshape_like(out[0], weft_sized(WEFT_F64, WEFT_ARRAYS(in[1], in[0]))), 0);
  out[2] = weft_broadcast_like(weft_cast(in[0], WEFT_F64), x);
  weft_function *f = weft_compile(s, 2, in, 3, out);
  for (int n = 0; n < 4; n++)
    for (int m = 0; m < 4; m++) {
      weft_scope *call = weft_scope_open();
      double iota[16], sum[4] = { 0 }, all[16];
      for (int i = 0; i < n * m; i++) iota[i] = i / m * 10 + i % m, all[i] = n;
      for (int i = 0; i < n * m; i++) sum[i % n] += iota[i];
      weft_call(f, 2, (weft_array *[]){ i64_of(n), i64_of(m) }, 3, out);
      expect_all(out[0], n * m, iota, "iota"), expect_all(out[1], n, sum, "sum"), expect_all(out[2], n * m, all, "all");
      weft_scope_discard(call);
    }
  weft_call(f, 2, (weft_array *[]){ i64_of(-1), i64_of(2) }, 3, out);
  EXPECT_INT(weft_eval(3, out), WEFT_ERR_ARG);
  weft_scope_discard(outer);
}

/* ---- Sizes that only data tell ---- */

enum { CHOSEN, PLACES, ROW, COLUMN, SLOPE_OF_CHOSEN, SET, CHOICES };

static void choose(weft_array *x, weft_array *mask, weft_array *out[CHOICES]) {
  out[CHOSEN] = weft_compress(x, mask);
  out[PLACES] = weft_flatnonzero(mask);
  weft_nonzero(mask, &out[ROW]);
  weft_grad(weft_sum(weft_mul(out[CHOSEN], out[CHOSEN]), WEFT_ALL), 1, &x, &out[SLOPE_OF_CHOSEN]);
  out[SET] = weft_put(x, out[CHOSEN], weft_mul(out[CHOSEN], weft_scalar(10)), WEFT_SET);
}

static void expect_chosen(weft_array *const out[CHOICES], int n, int m) {
  double chosen[16], at[16], row[16], column[16], slope[16], set[16];
  int k = 0;
  for (int i = 0; i < n * m; i++) {
    bool is_true = i * 7 % 5 < 2;
    slope[i] = is_true ? 2 * i : 0, set[i] = is_true ? 10 * i : i;
    if (is_true) chosen[k] = i, at[k] = i, row[k] = i / m, column[k++] = i % m;
  }
  expect_all(out[CHOSEN], k, chosen, "chosen"), expect_all(out[PLACES], k, at, "places"), expect_all(out[ROW], k, row, "row");
  expect_all(out[COLUMN], k, column, "column"), expect_all(out[SLOPE_OF_CHOSEN], n * m, slope, "slope");
  expect_all(out[SET], n * m, set, "set");
}

static weft_array *matrix(int n, int m) {
  return weft_reshape(weft_sub(numbers_to(n * m), weft_scalar(1)), WEFT_DIMS(n, m));
}

TEST(a_mask_chooses_what_it_is_true_for) {
  weft_scope *outer = weft_scope_open(), *s = weft_scope_open();
  weft_array *x = weft_input(WEFT_F64, WEFT_DIMS(WEFT_ANY, WEFT_ANY)), *out[CHOICES];
  weft_array *mask = weft_lt(weft_remainder(weft_mul(x, weft_scalar(7)), weft_scalar(5)), weft_scalar(2));
  choose(x, mask, out);
  weft_function *f = weft_compile(s, 1, &x, CHOICES, out);
  for (int n = 0; n < 5; n++)
    for (int m = 0; m < 4; m++) {
      weft_scope *call = weft_scope_open();
      weft_array *in = matrix(n, m);
      weft_call(f, 1, &in, CHOICES, out);
      expect_chosen(out, n, m);
      mask = weft_lt(weft_remainder(weft_mul(in, weft_scalar(7)), weft_scalar(5)), weft_scalar(2));
      choose(in, mask, out);
      expect_chosen(out, n, m);
      weft_scope_discard(call);
    }
  weft_array *known = matrix(4, 3), *by_rows = weft_compress(known, weft_ge(weft_squeeze(weft_sum(known, 1), 1), weft_scalar(20)));
  expect_all(by_rows, 6, (double[]){ 6, 7, 8, 9, 10, 11 }, "rows");
  EXPECT_INT(weft_check(weft_compress(known, known)), WEFT_ERR_DTYPE);
  EXPECT_INT(weft_check(weft_compress(known, weft_cast(numbers_to(3), WEFT_BOOL))), WEFT_ERR_SHAPE);
  weft_array *row = weft_alias(weft_at(known, 0, weft_integer(0))), *odd = weft_compress(row, weft_gt(row, weft_scalar(4))), *mapped;
  weft_map(1, &row, &known, 1, &odd, &mapped);
  EXPECT(weft_eval(1, &mapped) != WEFT_OK); /* rows of different sizes are no array */
  weft_scope_discard(outer);
}

/* Each step has a size of its own: the sum of x over places below t. */
TEST(a_loop_chooses_anew_in_every_step) {
  weft_scope *s = weft_scope_open();
  weft_array *x = numbers_to(5);
  weft_loop *l = weft_loop_open(weft_integer(6));
  weft_array *t = weft_loop_carry(l, i64_of(0)), *total = weft_loop_carry(l, f64_of(0));
  weft_array *below = weft_compress(x, weft_lt(weft_iota(weft_cast(x, WEFT_I64), 0), t)), *cut = weft_cut(x, 0, NULL, t, NULL);
  weft_loop_next(l, t, weft_add(t, weft_integer(1)));
  weft_loop_next(l, total, weft_add(total, weft_sub(weft_sum(below, WEFT_ALL), weft_mul(weft_sum(cut, WEFT_ALL), weft_scalar(0.5)))));
  weft_array *sum = weft_loop_last(l, total);
  weft_loop_close(l);
  EXPECT_NEAR(one_f64(sum), (0 + 1 + 3 + 6 + 10 + 15) * 0.5, 0);
  weft_scope_discard(s);
}

TEST(unique_elements_stand_in_order_and_say_where_they_were) {
  static const double v[] = { 3, 0, NAN, 3, -1, -0.0, 3, NAN, 7 };
  weft_scope *outer = weft_scope_open(), *s = weft_scope_open();
  weft_array *x = open_f64(), *out[4];
  out[0] = weft_unique(x, &out[1], &out[2], &out[3]);
  weft_function *f = weft_compile(s, 1, &x, 4, out);
  for (int n = 0; n <= 9; n++) {
    double value[9], first[9], which[9], count[9];
    int m = 0;
    for (int i = 0; i < n; i++) {
      int at = 0, k = 0;
      for (int j = 0; j < n; j++) at += v[j] < v[i] || (isnan(v[i]) && !isnan(v[j]));
      for (int j = 0; j < i; j++) k |= v[j] == v[i] || (isnan(v[j]) && isnan(v[i]));
      which[i] = at; /* how many are less, for now */
      if (!k) value[m] = v[i], first[m] = i, count[m++] = 0;
    }
    for (int i = 0; i < m; i++) /* in order */
      for (int j = i + 1; j < m; j++)
        if (which[(int)first[j]] < which[(int)first[i]]) {
          double t = value[i];
          value[i] = value[j], value[j] = t, t = first[i], first[i] = first[j], first[j] = t;
        }
    for (int i = 0; i < n; i++) {
      int k = 0;
      while (which[(int)first[k]] != which[i]) k++;
      count[k]++;
    }
    double inverse[9];
    for (int i = 0; i < n; i++)
      for (int k = 0; k < m; k++) if (which[(int)first[k]] == which[i]) inverse[i] = k;
    weft_scope *call = weft_scope_open();
    weft_array *in = f64s(n, v), *got[4];
    weft_call(f, 1, &in, 4, got);
    if (m && isnan(value[m - 1])) got[0] = weft_where(weft_ne(got[0], got[0]), weft_scalar(99), got[0]), value[m - 1] = 99;
    expect_all(got[0], m, value, "values"), expect_all(got[1], m, first, "first"), expect_all(got[2], n, inverse, "inverse");
    expect_all(got[3], m, count, "counts");
    weft_scope_discard(call);
  }
  weft_scope_discard(outer);
}

/* ---- Integers that sizes tell ---- */

/* An integer made of the sizes n, m and numbers, and what it is for the sizes at hand. */
struct reckoned { weft_array *a; int64_t value[36]; };

static const int64_t lengths[] = { 0, 1, 2, 3, 5, 9 };

static struct reckoned reckon(weft_array *n, weft_array *m, int depth) {
  struct reckoned e;
  int which = draw(3), op = draw(14);
  int64_t number = draw(9) - 4;
  if (!depth || draw(5) == 0) {
    e.a = which == 0 ? n : which == 1 ? m : weft_cast(weft_integer(number), WEFT_I64);
    for (int c = 0; c < 36; c++) e.value[c] = which == 0 ? lengths[c / 6] : which == 1 ? lengths[c % 6] : number;
    return e;
  }
  struct reckoned x = reckon(n, m, depth - 1), y = reckon(n, m, depth - 1);
  weft_array *by = weft_cast(weft_integer(1 + number * number), WEFT_I64), *two = weft_stack(0, WEFT_ARRAYS(x.a, y.a));
  switch (op) {
    case 0: e.a = weft_add(x.a, y.a); break;
    case 1: e.a = weft_sub(x.a, y.a); break;
    case 2: e.a = depth > 1 ? weft_neg(x.a) : weft_mul(x.a, y.a); break;
    case 3: e.a = weft_minimum(x.a, y.a); break;
    case 4: e.a = weft_maximum(x.a, y.a); break;
    case 5: e.a = weft_floor_divide(x.a, by); break;
    case 6: e.a = weft_remainder(x.a, by); break;
    case 7: e.a = weft_where(weft_lt(x.a, y.a), weft_add(x.a, m), y.a); break;
    case 8: e.a = weft_where(weft_logical_not(weft_le(x.a, y.a)), x.a, n); break;
    case 9: e.a = weft_add(weft_cast(weft_eq(x.a, y.a), WEFT_I64), weft_abs(x.a)); break;
    case 10: e.a = weft_at(two, 0, weft_integer(1)); break;
    case 11: e.a = weft_at(weft_broadcast(weft_slice(two, 0, 0, 1, 1), WEFT_DIMS(3)), 0, weft_integer(1)); break; /* the first, thrice */
    case 12: e.a = weft_at(weft_slice(two, 0, 1, -3, -1), 0, weft_integer(1)); break; /* backwards */
    default: e.a = weft_at(weft_reshape(weft_broadcast(weft_reshape(two, WEFT_DIMS(2)), WEFT_DIMS(2)), WEFT_DIMS(2)), 0, weft_integer(1)); break;
  }
  for (int c = 0; c < 36; c++) {
    int64_t a = x.value[c], b = y.value[c], k = 1 + number * number;
    e.value[c] = op == 0 ? a + b : op == 1 ? a - b : op == 2 ? (depth > 1 ? -a : a * b) : op == 3 ? (a < b ? a : b)
               : op == 4 ? (a > b ? a : b) : op == 5 ? floor_of(a, k) : op == 6 ? a - k * floor_of(a, k)
               : op == 7 ? (a < b ? a + lengths[c % 6] : b) : op == 8 ? (a > b ? a : lengths[c / 6])
               : op == 9 ? (a == b) + (a < 0 ? -a : a) : op == 11 || op == 12 ? a : b;
  }
  return e;
}

/* x[start:stop:step] of 0, 1, .. n - 1, as Python has it. */
static int cut_plainly(int64_t n, int64_t start, int64_t stop, int64_t step, double out[]) {
  int64_t low = step < 0 ? -1 : 0, high = step < 0 ? n - 1 : n, bound[] = { start, stop };
  int count = 0;
  for (int k = 0; k < 2; k++) {
    if (bound[k] < 0) bound[k] += n;
    bound[k] = bound[k] < low ? low : bound[k] > high ? high : bound[k];
  }
  for (int64_t i = bound[0]; step < 0 ? i > bound[1] : i < bound[1]; i += step) out[count++] = (double)i;
  return count;
}

/* How many steps a loop of k makes, as it counts them. */
static weft_array *steps_counted(weft_array *k) {
  weft_loop *l = weft_loop_open(k);
  weft_array *c = weft_loop_carry(l, weft_cast(weft_integer(0), WEFT_I64)), *last = weft_loop_last(l, c);
  weft_loop_next(l, c, weft_add(c, weft_integer(1)));
  return weft_loop_close(l), last;
}

TEST(integers_that_sizes_tell_bound_slices_shapes_and_loops) {
  static const int64_t strides[] = { 1, 2, -1, -3 };
  int n_told = 0;
  for (uint64_t round = 1; round <= 60; round++) {
    seed = round * 7919;
    weft_scope *outer = weft_scope_open(), *s = weft_scope_open();
    weft_array *in[] = { open_f64(), open_f64() }, *n = weft_size(in[0], 0), *m = weft_size(in[1], 0), *out[4];
    struct reckoned from = reckon(n, m, 3), to = reckon(n, m, 3);
    int64_t step = strides[draw(4)];
    weft_array *count = weft_maximum(to.a, weft_integer(0)), *length = weft_minimum(count, weft_integer(20));
    out[0] = weft_cut(in[0], 0, from.a, to.a, weft_integer(step));
    out[1] = weft_iota(weft_sized(WEFT_F64, 1, &length), 0);
    out[2] = steps_counted(length);
    out[3] = weft_depends(from.a, 2, in);
    n_told += weft_is_size(from.a, NULL) && weft_is_size(length, NULL);
    weft_function *f = weft_compile(s, 2, in, 4, out);
    for (int c = 0; c < 36; c++) {
      double x[20], want[20];
      int64_t k = to.value[c] < 0 ? 0 : to.value[c] > 20 ? 20 : to.value[c];
      for (int i = 0; i < 20; i++) x[i] = i;
      weft_scope *call = weft_scope_open();
      weft_array *arg[] = { f64s(lengths[c / 6], x), f64s(lengths[c % 6], x) }, *got[4];
      weft_call(f, 2, arg, 4, got);
      expect_all(got[0], cut_plainly(lengths[c / 6], from.value[c], to.value[c], step, want), want, "slice");
      expect_all(got[1], (int)k, x, "shape");
      int64_t made, is;
      EXPECT_INT(weft_read(got[2], WEFT_I64, &made, sizeof made), WEFT_OK);
      EXPECT_INT(weft_read(got[3], WEFT_I64, &is, sizeof is), WEFT_OK);
      EXPECT_INT(made, k);
      EXPECT_INT(is, from.value[c]);
      weft_scope_discard(call);
    }
    weft_scope_discard(outer);
  }
  EXPECT(n_told >= 50); /* the others are too long to be told */
}

/* [[n, n+1, n+2], [n+3, n+4, n+5]] as it is and transposed: every element, picked by slices, is a length. */
TEST(an_integer_picked_from_a_matrix_of_sizes_is_the_one_picked) {
  for (int is_turned = 0; is_turned < 2; is_turned++)
    for (int k = 0; k < 6; k++) {
      weft_scope *outer = weft_scope_open(), *s = weft_scope_open();
      weft_array *x = open_f64(), *n = weft_size(x, 0), *all[6];
      for (int i = 0; i < 6; i++) all[i] = weft_add(n, weft_integer(i));
      weft_array *m = weft_reshape(weft_stack(0, 6, all), WEFT_DIMS(2, 3));
      if (is_turned) m = weft_transpose(m, NULL);
      int row = is_turned ? k % 3 : k / 3, column = is_turned ? k / 3 : k % 3;
      weft_array *one = weft_slice(weft_slice(m, 0, row, row + 1, 1), 1, column, column + 1, 1);
      weft_array *length = weft_reshape(one, 0, NULL), *out[] = { weft_sized(WEFT_F64, 1, &length), length };
      weft_function *f = weft_compile(s, 1, &x, 2, out);
      weft_array *got[2], *arg = f64s(3, (double[]){ 0, 0, 0 });
      weft_call(f, 1, &arg, 2, got);
      int64_t is = -1;
      EXPECT_INT(weft_read(got[1], WEFT_I64, &is, sizeof is), WEFT_OK);
      EXPECT_INT(is, 3 + k);
      EXPECT_INT(weft_eval(1, got), WEFT_OK);
      EXPECT_INT(weft_dim(got[0], 0), 3 + k);
      weft_scope_discard(outer);
    }
}

TEST(what_tells_an_integer_can_be_asked) {
  int64_t k = 0;
  weft_scope *s = weft_scope_open();
  weft_array *x = open_f64(), *i = weft_input(WEFT_I64, 0, NULL), *n = weft_size(x, 0), *one = weft_integer(1);
  EXPECT_INT(weft_is_size(weft_add(n, one), &k), 1);
  EXPECT_INT(weft_is_size(weft_sub(weft_add(n, one), weft_size(weft_concat(0, WEFT_ARRAYS(x, x)), 0)), &k), 1);
  EXPECT_INT(weft_is_size(weft_sub(n, weft_add(n, weft_integer(5))), &k), 2);
  EXPECT_INT(k, -5);
  EXPECT_INT(weft_is_size(weft_integer(7), &k), 2);
  EXPECT_INT(k, 7);
  EXPECT_INT(weft_is_size(weft_add(i, n), &k), 0);
  EXPECT_INT(weft_is_size(weft_cast(n, WEFT_F64), &k), 0);
  EXPECT_INT(weft_is_size(x, &k), 0);
  EXPECT_INT(weft_is_size(weft_at(x, 3, n), &k), 0);
  weft_scope_discard(s);
}

TEST(sizes_below_0_are_an_error_of_the_call) {
  weft_scope *outer = weft_scope_open(), *s = weft_scope_open();
  weft_array *x = open_f64(), *less = weft_sub(weft_size(x, 0), weft_integer(2));
  weft_array *out[] = { weft_sized(WEFT_F64, 1, &less), steps_counted(less) };
  weft_function *f = weft_compile(s, 1, &x, 2, out);
  for (int n = 0; n < 4; n++) {
    double v[4] = { 0 };
    int64_t made;
    weft_scope *call = weft_scope_open();
    weft_array *in = f64s(n, v), *got[2];
    weft_call(f, 1, &in, 2, got);
    weft_status status = weft_read(got[1], WEFT_I64, &made, sizeof made);
    if (n < 2) EXPECT((status == WEFT_ERR_SHAPE || status == WEFT_ERR_ARG) && strstr(weft_message(), "negative"));
    else EXPECT(status == WEFT_OK && made == n - 2);
    weft_scope_discard(call);
  }
  weft_scope_discard(outer);
}

TEST(reshape_takes_open_sizes_to_divide) {
  weft_scope *outer = weft_scope_open(), *s = weft_scope_open();
  weft_array *x = open_f64(), *y = weft_sum(weft_reshape(x, 2, (int64_t[]){ WEFT_ANY, 3 }), 1);
  weft_function *f = weft_compile(s, 1, &x, 1, &y);
  for (int n = 0; n < 10; n++) {
    double v[10], want[3];
    for (int i = 0; i < 10; i++) v[i] = i;
    for (int i = 0; i < 3; i++) want[i] = 9 * i + 3;
    weft_scope *call = weft_scope_open();
    weft_array *in = f64s(n, v), *got;
    weft_call(f, 1, &in, 1, &got);
    if (n % 3) EXPECT_INT(weft_eval(1, &got), WEFT_ERR_SHAPE);
    else expect_all(got, n / 3, want, "rows");
    weft_scope_discard(call);
  }
  weft_scope_discard(outer);
}

TEST(what_is_asserted_of_an_integer_holds_where_it_bounds_something) {
  weft_scope *outer = weft_scope_open(), *s = weft_scope_open();
  weft_array *in[] = { open_f64(), open_f64() }, *n = weft_size(in[0], 0), *m = weft_size(in[1], 0);
  weft_array *equal = weft_assert(n, weft_eq(n, m), "as long"), *out[3];
  EXPECT_INT(weft_is_size(equal, NULL), 1);
  out[0] = weft_sized(WEFT_F64, 1, &equal);
  out[1] = weft_cut(in[0], 0, weft_sub(equal, weft_integer(1)), NULL, NULL);
  out[2] = steps_counted(equal);
  weft_function *f = weft_compile(s, 2, in, 3, out);
  for (int i = 0; i < 3; i++)
    for (int k = 0; k < 3; k++)
      for (int j = 0; j < 3; j++) {
        double v[3] = { 1, 2, 3 };
        weft_scope *call = weft_scope_open();
        weft_array *arg[] = { f64s(i, v), f64s(k, v) }, *got[3];
        weft_call(f, 2, arg, 3, got);
        EXPECT_INT(weft_eval(1, &got[j]), i == k ? WEFT_OK : WEFT_ERR_ASSERT);
        weft_scope_discard(call);
      }
  weft_scope_discard(outer);
}

/* A masked scatter: the part that a mask shows is put to like any other, with as many values as it holds, or one for all. */
SCOPED(what_a_mask_shows_is_put_to) {
  double x[] = { 0, 1, 2, 3, 4, 5 }, v[] = { 10, 20, 30 };
  uint8_t m[] = { 1, 0, 1, 1, 0, 0 };
  weft_array *a = f64s(6, x), *mask = weft_from(WEFT_BOOL, WEFT_DIMS(6), m), *by = f64s(3, v), *d[2], *in[] = { a, by };
  EXPECT_F64(weft_put(a, weft_compress(a, mask), by, WEFT_SET), 10, 1, 20, 30, 4, 5);
  EXPECT_F64(weft_put(a, weft_compress(a, mask), by, WEFT_ADD), 10, 1, 22, 33, 4, 5);
  EXPECT_F64(weft_put(a, weft_compress(a, mask), weft_scalar(7), WEFT_SET), 7, 1, 7, 7, 4, 5);
  weft_array *y = weft_mul(weft_put(a, weft_compress(a, mask), by, WEFT_SET), f64s(6, x));
  weft_grad(y, 2, in, d);
  EXPECT_F64(d[0], 0, 1, 0, 0, 4, 5);
  EXPECT_F64(d[1], 0, 2, 3);
  weft_array *rows = weft_from(WEFT_F64, WEFT_DIMS(3, 2), x), *some = weft_from(WEFT_BOOL, WEFT_DIMS(3), (uint8_t[]){ 0, 1, 1 });
  EXPECT_F64(weft_put(rows, weft_compress(rows, some), weft_from(WEFT_F64, WEFT_DIMS(2, 2), x), WEFT_SET), 0, 1, 0, 1, 2, 3);
}
