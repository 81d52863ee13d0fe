/* mapping.c -- maps of operations with several operands: over each operand alone, over every set of them, and a map inside a
 * map. Each row must be what the operation gives for the operands of that row. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "values.h"

enum { OPERANDS = 3, ROWS = 3, MOST = 4096 };

/* sizes: digits, one an axis; "" is 0-d. An operand named i has integers 0 and 1, c bools, x floats. */
struct program { const char *name, *kinds, *sizes[OPERANDS]; weft_array *(*make)(weft_array *const x[]); };

#define MAKE(name, expression) static weft_array *make_##name(weft_array *const x[]) { return (expression); }
static weft_array *part_of(weft_array *x) { return weft_slice(x, 0, 2, WEFT_BEGIN, -2); }
static weft_array *at_indices(weft_array *x, weft_array *i) { return weft_take(x, 1, &i); }
MAKE(add, weft_add(x[0], x[1]))
MAKE(where, weft_where(x[0], x[1], x[2]))
MAKE(matmul, weft_matmul(x[0], x[1]))
MAKE(batched, weft_matmul(x[0], x[1]))
MAKE(vector, weft_matmul(x[0], x[1]))
MAKE(dot, weft_matmul(x[0], x[1]))
MAKE(concat, weft_concat(1, WEFT_ARRAYS(x[0], x[1], x[2])))
MAKE(stack, weft_stack(1, WEFT_ARRAYS(x[0], x[1])))
MAKE(pad, weft_pad(x[0], 1, 1, 2, x[1]))
MAKE(take, weft_take(x[0], 1, x + 1))
MAKE(take_two, weft_take(x[0], 2, x + 1))
MAKE(along, weft_take_along(x[0], 1, x[1]))
MAKE(at, weft_at(x[0], 1, x[1]))
MAKE(window, weft_window(x[0], 0, x[1], 2))
MAKE(norm, weft_layer_norm(x[0], x[1], x[2], 1e-5))
MAKE(clip, weft_clip(x[0], x[1], x[2]))
MAKE(diagonal, weft_mul(weft_diagonal(x[0], 0, 0, 1), x[1]))
MAKE(strided, weft_mul(weft_as_strided(x[0], WEFT_DIMS(3, 3), (int64_t[]){ 2, -1 }, 2), x[1]))
MAKE(roll, weft_mul(weft_roll(x[0], 1, 1), weft_tril(x[1], 0)))
MAKE(repeat, weft_add(weft_repeat(x[0], 0, 2), weft_tile(x[1], WEFT_DIMS(2, 1))))
MAKE(variance, weft_div(weft_over(weft_mean, x[0], WEFT_AXES(0, 2)), weft_std(x[1], 0, 1)))
#define PUTS(how)                                                                      \
  MAKE(put_##how, weft_put(x[0], part_of(x[0]), x[1], WEFT_##how))                     \
  MAKE(scatter_##how, weft_put(x[0], at_indices(x[0], x[2]), x[1], WEFT_##how))        \
  MAKE(along_##how, weft_put(x[0], weft_take_along(x[0], 1, x[2]), x[1], WEFT_##how))
PUTS(SET) PUTS(ADD) PUTS(MUL) PUTS(MIN) PUTS(MAX)

static const struct program programs[] = {
#define P(name, kinds, ...) { #name, kinds, { __VA_ARGS__ }, make_##name },
  P(add, "xx", "23", "3") P(where, "cxx", "23", "3", "23") P(matmul, "xx", "23", "32") P(batched, "xx", "223", "32") P(vector, "xx", "23", "3")
  P(dot, "xx", "3", "3") P(concat, "xxx", "22", "21", "23") P(stack, "xx", "23", "23") P(pad, "xx", "22", "") P(take, "xi", "32", "22")
  P(take_two, "xii", "222", "3", "3") P(along, "xi", "23", "21") P(at, "xi", "23", "") P(window, "xi", "32", "") P(norm, "xxx", "23", "3", "3")
  P(clip, "xxx", "23", "3", "") P(diagonal, "xx", "33", "3") P(strided, "xx", "33", "3") P(roll, "xx", "23", "23") P(repeat, "xx", "22", "22")
  P(variance, "xx", "232", "3")
#define PUT_ROWS(how) P(put_##how, "xx", "32", "22") P(scatter_##how, "xxi", "22", "32", "3") P(along_##how, "xxi", "23", "22", "22")
  PUT_ROWS(SET) PUT_ROWS(ADD) PUT_ROWS(MUL) PUT_ROWS(MIN) PUT_ROWS(MAX)
};
enum { PROGRAMS = sizeof programs / sizeof *programs };

/* ---- Operands of every row ---- */

static double number(const struct program *p, int k, int64_t i) {
  uint32_t bits = (uint32_t)(i * 2654435761u + (unsigned)k * 40503u + 77u) >> 7;
  return p->kinds[k] == 'x' ? (double)(bits % 512) / 128 - 2 : bits % 2;
}

static weft_dtype dtype_of(char kind) { return kind == 'x' ? WEFT_F64 : kind == 'i' ? WEFT_I64 : WEFT_BOOL; }

/* Operand k with `more` axes of ROWS in front; element 0 is number `first` of all rows. */
static weft_array *operand(const struct program *p, int k, int more, int64_t first) {
  int64_t dims[8], n = 1;
  int rank = 0;
  for (; rank < more; rank++) n *= dims[rank] = ROWS;
  for (const char *s = p->sizes[k]; *s; s++) n *= dims[rank++] = *s - '0';
  double v[MOST];
  for (int64_t i = 0; i < n; i++) v[i] = number(p, k, first + i);
  return weft_cast(weft_from(WEFT_F64, rank, dims, v), dtype_of(p->kinds[k]));
}

static int64_t size_of(const struct program *p, int k) {
  int64_t n = 1;
  for (const char *s = p->sizes[k]; *s; s++) n *= *s - '0';
  return n;
}

static int64_t count_of(weft_array *y) {
  int64_t n = 1;
  for (int k = 0; k < weft_rank(y); k++) n *= weft_dim(y, k);
  return n;
}

/* What the program gives for row r of the outer, q of the inner map, for the operands that are mapped by them. */
static int64_t row(const struct program *p, unsigned outer, unsigned inner, int r, int q, double out[]) {
  weft_scope *s = weft_scope_open();
  weft_array *x[OPERANDS];
  for (int k = 0; p->kinds[k]; k++) {
    int64_t at = 0;
    if (outer >> k & 1) at = r;
    if (inner >> k & 1) at = (outer >> k & 1 ? at * ROWS : 0) + q;
    x[k] = operand(p, k, 0, at * size_of(p, k));
  }
  weft_array *y = p->make(x);
  int64_t n = weft_check(y) ? 0 : count_of(y);
  if (!n) test_fail(__FILE__, __LINE__, "%s: %s", p->name, weft_message());
  else read_f64(y, (int)n, out);
  weft_scope_discard(s);
  return n;
}

/* The program with a map over `inner` inside a map over `outer`; sets of operands. 0: no such map. */
static weft_array *mapped(const struct program *p, unsigned outer, unsigned inner) {
  weft_array *x[OPERANDS], *in[OPERANDS], *rows[OPERANDS], *y, *ys;
  int n = (int)strlen(p->kinds), m = 0;
  for (int k = 0; k < n; k++) x[k] = operand(p, k, 0, 0);
  y = p->make(x);
  for (int k = 0; k < n; k++) {
    if (!(inner >> k & 1)) continue;
    in[m] = x[k];
    x[k] = rows[m++] = operand(p, k, 1, 0);
  }
  if (m) weft_map(m, in, rows, 1, &y, &ys), y = ys;
  m = 0;
  for (int k = 0; k < n; k++) {
    if (!(outer >> k & 1)) continue;
    in[m] = x[k];
    rows[m++] = operand(p, k, 1 + (inner >> k & 1), 0);
  }
  if (m) weft_map(m, in, rows, 1, &y, &ys), y = ys;
  return y;
}

static void check(const struct program *p, unsigned outer, unsigned inner) {
  weft_scope *s = weft_scope_open();
  static double got[MOST];
  double want[512];
  weft_array *ys = mapped(p, outer, inner);
  int n_outer = outer ? ROWS : 1, n_inner = inner ? ROWS : 1;
  if (weft_check(ys)) test_fail(__FILE__, __LINE__, "%s, map %u of %u: %s", p->name, outer, inner, weft_message());
  else if (read_f64(ys, (int)count_of(ys), got))
    for (int r = 0; r < n_outer; r++)
      for (int q = 0; q < n_inner; q++) {
        int64_t n = row(p, outer, inner, r, q, want);
        for (int64_t i = 0; i < n; i++) {
          double is = got[(r * n_inner + q) * n + i];
          if (!near(want[i], is, 1e-12))
            test_fail(__FILE__, __LINE__, "%s, map %u of %u, row %d %d: %.12g, not %.12g", p->name, outer, inner, r, q, is, want[i]);
        }
      }
  weft_scope_discard(s);
}

TEST(a_map_over_any_operands_is_the_operation_on_every_row) {
  test_watchdog(300);
  for (int i = 0; i < PROGRAMS; i++)
    for (unsigned set = 1; set < 1u << strlen(programs[i].kinds); set++) check(&programs[i], set, 0);
}

TEST(a_map_of_a_map_is_the_operation_on_every_row_of_rows) {
  test_watchdog(300);
  for (int i = 0; i < PROGRAMS; i++)
    for (unsigned inner = 1; inner < 1u << strlen(programs[i].kinds); inner++)
      for (unsigned outer = 1; outer < 1u << strlen(programs[i].kinds); outer++) check(&programs[i], outer, inner);
}

/* ---- Results of one node of which only some depend on what is mapped ---- */

/* sums of z, and powers of 2 that do not depend on it, by one loop. */
static void sums_and_powers(weft_array *z, weft_array **sums, weft_array **powers, weft_array **last) {
  weft_loop *loop = weft_loop_open(NULL);
  weft_array *z_t = weft_loop_each(loop, z), *s = weft_loop_carry(loop, weft_full(WEFT_F64, 0, NULL, 0));
  weft_array *p = weft_loop_carry(loop, weft_full(WEFT_F64, 0, NULL, 1)), *s_next = weft_add(s, z_t);
  weft_loop_next(loop, s, s_next);
  weft_loop_next(loop, p, weft_mul(p, weft_scalar(2)));
  *sums = weft_loop_all(loop, s_next);
  *powers = weft_loop_all(loop, p);
  *last = weft_loop_last(loop, p);
  weft_loop_close(loop);
}

TEST(a_loops_result_that_does_not_depend_on_the_mapped_name_is_the_same_in_every_row) {
  weft_scope *scope = weft_scope_open();
  weft_array *z = weft_input(WEFT_F64, WEFT_DIMS(3)), *zs = weft_from(WEFT_F64, WEFT_DIMS(2, 3), (double[]){ 1, 2, 3, 4, 5, 6 });
  weft_array *y[4], *ys[4];
  sums_and_powers(z, &y[0], &y[1], &y[2]);
  y[3] = weft_mul(y[0], y[1]);
  weft_map(1, &z, &zs, 4, y, ys);
  EXPECT_F64(ys[0], 1, 3, 6, 4, 9, 15);
  EXPECT_F64(ys[1], 1, 2, 4, 1, 2, 4);
  EXPECT_F64(ys[2], 8, 8);
  EXPECT_F64(ys[3], 1, 6, 24, 4, 18, 60);
  weft_scope_discard(scope);
}

TEST(a_calls_result_that_does_not_depend_on_the_mapped_name_is_the_same_in_every_row) {
  weft_scope *scope = weft_scope_open();
  weft_scope *body = weft_scope_open();
  weft_array *in[2] = { weft_input(WEFT_F64, 0, NULL), weft_input(WEFT_F64, 0, NULL) };
  weft_function *f = weft_compile(body, 2, in, WEFT_ARRAYS(weft_neg(in[0]), weft_square(in[1])));
  weft_array *x = weft_input(WEFT_F64, 0, NULL), *xs = weft_from(WEFT_F64, WEFT_DIMS(2), (double[]){ 1, 2 }), *y[2], *ys[2];
  weft_call(f, WEFT_ARRAYS(x, weft_full(WEFT_F64, 0, NULL, 3)), 2, y);
  weft_map(1, &x, &xs, 2, y, ys);
  EXPECT_F64(ys[0], -1, -2);
  EXPECT_F64(ys[1], 9, 9);
  weft_scope_discard(scope);
}

/* f(a, b) = b size(a), of which nobody reads a. */
static weft_function *times_size(void) {
  weft_scope *body = weft_scope_open();
  weft_array *in[] = { weft_input(WEFT_F64, WEFT_DIMS(WEFT_ANY)), weft_input(WEFT_F64, WEFT_DIMS(3)) };
  return weft_compile(body, 2, in, WEFT_ARRAYS(weft_mul(in[1], weft_cast(weft_size(in[0], 0), WEFT_F64))));
}

/* b size(x[i + 6]) in every row of i, written out or called; twice: by a call of what another has given. */
static weft_array *mapped_sizes(weft_function *f, bool is_called, bool is_twice, weft_array *i, weft_array *rows) {
  weft_array *x = f64s(6, (double[]){ 1, 2, 3, 4, 5, 6 }), *b = f64s(3, (double[]){ 1, 2, 3 }), *y = b, *ys;
  weft_array *a = at_indices(x, weft_add(i, weft_integer(6)));
  for (int k = 0; k <= is_twice; k++) {
    if (is_called) weft_call(f, WEFT_ARRAYS(a, y), 1, &y);
    else y = weft_mul(y, weft_cast(weft_size(a, 0), WEFT_F64));
  }
  weft_map(1, &i, &rows, 1, &y, &ys);
  return ys;
}

/* Zeros, which stand in the place of a name, are out of range, too. */
TEST(a_map_of_a_call_looks_at_what_is_read_in_its_rows_alone_as_if_it_was_written_out) {
  const int64_t bad[] = { 0, 9 }, good[] = { -1, -6 }, rows[][4] = { { -1, -2, -6, -5 }, { -1, -2, 0, 9 } };
  for (int how = 0; how < 16; how++) {
    weft_scope *scope = weft_scope_open();
    bool is_name = how & 1, is_called = how & 2, is_twice = how & 4, has_bad_row = how & 8;
    weft_array *i = is_name ? weft_input(WEFT_I64, WEFT_DIMS(2)) : weft_from(WEFT_I64, WEFT_DIMS(2), has_bad_row ? good : bad);
    weft_array *to = weft_from(WEFT_I64, WEFT_DIMS(2, 2), rows[has_bad_row]);
    weft_array *ys = mapped_sizes(times_size(), is_called, is_twice, i, to);
    if (is_twice) EXPECT_F64(ys, 4, 8, 12, 4, 8, 12);
    else EXPECT_F64(ys, 2, 4, 6, 2, 4, 6);
    weft_scope_discard(scope);
  }
}

TEST(a_loop_inside_a_mapped_loop_may_have_results_that_are_not_mapped) {
  weft_scope *scope = weft_scope_open();
  weft_array *z = weft_input(WEFT_F64, WEFT_DIMS(2, 2));
  weft_array *zs = weft_from(WEFT_F64, WEFT_DIMS(2, 2, 2), (double[]){ 1, 2, 3, 4, 5, 6, 7, 8 }), *sums, *powers, *last, *ys;
  weft_loop *loop = weft_loop_open(NULL);
  weft_array *row = weft_loop_each(loop, z), *a = weft_loop_carry(loop, weft_full(WEFT_F64, 0, NULL, 1));
  sums_and_powers(row, &sums, &powers, &last);
  weft_loop_next(loop, a, weft_mul(a, last));
  weft_array *y = weft_loop_all(loop, a);
  weft_loop_close(loop);
  weft_map(1, &z, &zs, 1, &y, &ys);
  EXPECT_F64(ys, 1, 4, 1, 4);
  weft_scope_discard(scope);
}

TEST(a_mapped_loop_may_stop_by_what_is_the_same_in_every_row) {
  weft_scope *scope = weft_scope_open();
  weft_array *z = weft_input(WEFT_F64, WEFT_DIMS(4)), *zs = weft_from(WEFT_F64, WEFT_DIMS(2, 4), (double[]){ 1, 2, 3, 4, 5, 6, 7, 8 });
  weft_loop *loop = weft_loop_open(NULL);
  weft_array *z_t = weft_loop_each(loop, z), *s = weft_loop_carry(loop, weft_full(WEFT_F64, 0, NULL, 0));
  weft_array *n = weft_loop_carry(loop, weft_full(WEFT_F64, 0, NULL, 1));
  weft_loop_next(loop, s, weft_add(s, z_t));
  weft_loop_next(loop, n, weft_add(n, weft_scalar(1)));
  weft_loop_until(loop, weft_ge(n, weft_scalar(3)));
  weft_array *y[2] = { weft_loop_last(loop, s), weft_loop_last(loop, n) }, *ys[2];
  weft_loop_close(loop);
  weft_map(1, &z, &zs, 2, y, ys);
  EXPECT_F64(ys[0], 6, 18);
  EXPECT_F64(ys[1], 4, 4);
  weft_scope_discard(scope);
}
