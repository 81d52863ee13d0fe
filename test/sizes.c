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
