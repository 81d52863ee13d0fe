/* joined.c -- a row by a matrix that two arrays make together, as keys and values that are held and those of one token more: they are
 * read where they are if nobody wants them joined, and have the bits of a plain loop. */
#include <math.h>
#include <stdlib.h>
#include "values.h"
#include "ways.h"

enum { HEADS = 3, WIDTH = 40 };

/* What a part is: an array of its own, part of a larger one, one that stands backwards, a kernel's result, or the columns of one that
 * is cut into heads. */
enum part_form { WHOLE, CUT, BACKWARDS, MADE, SPLIT, PART_FORMS };

static float number(int64_t i) { return (float)((i * 7919 + 13) % 2003 - 1001) / 512.0f; }

/* Element [head, row, column] of a part of `rows` rows. */
static float element(enum part_form f, int64_t rows, int64_t seed, int64_t h, int64_t i, int64_t j) {
  if (f == CUT) return number(seed + (h * (rows + 2) + i + 1) * (WIDTH + 3) + j + 2);
  if (f == BACKWARDS) return number(seed + (h * rows + rows - 1 - i) * WIDTH + j);
  if (f == SPLIT) return number(seed + (i * HEADS + h) * WIDTH + j) * 2;
  return number(seed + (h * rows + i) * WIDTH + j) * (f == MADE ? 2 : 1);
}

static weft_array *array_of(int64_t a, int64_t b, int64_t c, int64_t seed) {
  float *x = malloc(sizeof *x * (size_t)(a * b * c));
  for (int64_t i = 0; i < a * b * c; i++) x[i] = number(i + seed);
  weft_array *y = weft_from(WEFT_F32, WEFT_DIMS(a, b, c), x);
  free(x);
  return y;
}

static weft_array *part_of(enum part_form f, int64_t rows, int64_t seed) {
  weft_array *two = weft_scalar(2);
  switch (f) {
    case CUT: return weft_slice(weft_slice(array_of(HEADS, rows + 2, WIDTH + 3, seed), 1, 1, rows + 1, 1), 2, 2, WIDTH + 2, 1);
    case BACKWARDS: return weft_flip(array_of(HEADS, rows, WIDTH, seed), 1);
    case MADE: return weft_mul(array_of(HEADS, rows, WIDTH, seed), two);
    case SPLIT: return weft_transpose(weft_mul(array_of(rows, HEADS, WIDTH, seed), two), (int[]){ 1, 0, 2 });
    case WHOLE: case PART_FORMS: break;
  }
  return array_of(HEADS, rows, WIDTH, seed);
}

struct joined { enum part_form form[2]; int64_t rows[2]; };
static int64_t length_of(const struct joined *x) { return x->rows[0] + x->rows[1]; }

static float at(const struct joined *x, int64_t h, int64_t i, int64_t j) {
  int part = i >= x->rows[0];
  return element(x->form[part], x->rows[part], part ? 77 : 5, h, part ? i - x->rows[0] : i, j);
}

static weft_array *join(const struct joined *x) {
  weft_array *part[2] = { part_of(x->form[0], x->rows[0], 5), part_of(x->form[1], x->rows[1], 77) };
  return weft_concat(1, 2, part);
}

static weft_array *turned(weft_array *x) { return weft_transpose(x, (int[]){ 0, 2, 1 }); }

/* In the order of k, by fma, in blocks of 512. */
static float plain(const struct joined *x, bool is_turned, int64_t h, const float *row, int64_t j) {
  int64_t n = is_turned ? WIDTH : length_of(x);
  float all = 0;
  for (int64_t k = 0; k < n; k += 512) {
    float sum = 0;
    for (int64_t i = k; i < n && i < k + 512; i++) sum = fmaf(row[i], is_turned ? at(x, h, j, i) : at(x, h, i, j), sum);
    all = k ? all + sum : sum;
  }
  return all;
}

static int count_wrong(weft_array *y, const struct joined *x, bool is_turned) {
  int64_t n = is_turned ? length_of(x) : WIDTH, k = is_turned ? WIDTH : length_of(x);
  float *got = malloc(sizeof *got * (size_t)(HEADS * n)), *row = malloc(sizeof *row * (size_t)k);
  int wrong = 0;
  EXPECT_OK(weft_read(y, WEFT_F32, got, sizeof *got * (size_t)(HEADS * n)));
  for (int64_t h = 0; h < HEADS; h++) {
    for (int64_t i = 0; i < k; i++) row[i] = number(3 + h * k + i);
    for (int64_t j = 0; j < n; j++) {
      float want = plain(x, is_turned, h, row, j);
      wrong += memcmp(&want, &got[h * n + j], sizeof want) != 0;
    }
  }
  free(got);
  free(row);
  return wrong;
}

static weft_array *times(const struct joined *x, bool is_turned, weft_array *b) {
  return weft_matmul(array_of(HEADS, 1, is_turned ? WIDTH : length_of(x), 3), is_turned ? turned(b) : b);
}

static bool is_read_in_two(weft_array *y) {
  const char *plan = weft_show(1, &y, "plan");
  return strstr(plan, "from row ") || strstr(plan, "from column ");
}

static const int64_t LENGTHS[][2] = { { 512, 1 }, { 1, 120 }, { 61, 64 }, { 511, 2 }, { 513, 600 }, { 7, 1500 }, { 1100, 9 } };

SCOPED(a_row_by_two_arrays_side_by_side_has_the_bits_of_a_plain_loop) {
  for (int w = 0; w < n_ways; w++) {
    way_take(&ways[w]);
    for (int i = 0; i < (int)(sizeof LENGTHS / sizeof *LENGTHS); i++)
      for (int form = 0; form < PART_FORMS * PART_FORMS; form++)
        for (int is_turned = 0; is_turned < 2; is_turned++) {
          struct joined x = { { (enum part_form)(form / PART_FORMS), (enum part_form)(form % PART_FORMS) }, { LENGTHS[i][0], LENGTHS[i][1] } };
          EXPECT_INT(count_wrong(times(&x, is_turned, join(&x)), &x, is_turned), 0);
        }
  }
  way_leave();
}

SCOPED(two_arrays_that_only_a_row_is_multiplied_by_are_not_joined) {
  for (int form = 0; form < PART_FORMS; form++)
    for (int is_turned = 0; is_turned < 2; is_turned++) {
      struct joined x = { { WHOLE, (enum part_form)form }, { 300, 2 } };
      EXPECT(is_read_in_two(times(&x, is_turned, join(&x))));
    }
}

SCOPED(two_arrays_that_are_wanted_joined_are_joined_once) {
  struct joined x = { { WHOLE, MADE }, { 300, 2 } };
  weft_array *both = join(&x), *y[2] = { times(&x, true, both), both };
  const char *plan = weft_show(2, y, "plan");
  EXPECT(!strstr(plan, "from column "));
  EXPECT_INT(count_wrong(y[0], &x, true), 0);
  float last;
  EXPECT_OK(weft_read(weft_slice(weft_slice(weft_slice(both, 0, 2, 3, 1), 1, 301, 302, 1), 2, 39, 40, 1), WEFT_F32, &last, sizeof last));
  EXPECT(last == at(&x, 2, 301, 39));
  weft_array *two[2] = { times(&x, true, both), times(&x, false, both) };
  EXPECT(!is_read_in_two(weft_add(weft_sum(two[0], WEFT_ALL), weft_sum(two[1], WEFT_ALL))));
}

/* What is updated or given away is what it was when the row is multiplied by it. */
SCOPED(arrays_that_a_function_updates_are_multiplied_before) {
  struct joined x = { { WHOLE, MADE }, { 300, 2 } };
  for (int is_turned = 0; is_turned < 2; is_turned++)
    for (int calls = 0; calls < 3; calls++) {
      weft_scope *s = weft_scope_open();
      weft_array *in = weft_input(WEFT_F32, WEFT_DIMS(HEADS, 300, WIDTH)), *part[2] = { in, part_of(MADE, 2, 77) };
      weft_array *out[2] = { weft_put(in, weft_slice(in, 1, 0, 7, 1), weft_scalar(9), WEFT_SET),
                             times(&x, is_turned, weft_concat(1, 2, part)) };
      weft_function *f = weft_compile(s, 1, &in, 2, out);
      weft_array *held = part_of(WHOLE, 300, 5), *y[2];
      weft_call(f, 1, &held, 2, y);
      EXPECT_INT(count_wrong(y[1], &x, is_turned), 0);
    }
}

/* Softmax of the scores is folded by the product's own kernel, or both products run together, and what follows reads the values in two
 * places. */
SCOPED(attention_of_one_token_reads_what_is_held_where_it_is) {
  struct joined x = { { WHOLE, SPLIT }, { 512, 1 } };
  for (int w = 0; w < n_ways; w++) {
    way_take(&ways[w]);
    weft_array *k = join(&x), *v = join(&x);
    weft_array *y = weft_matmul(weft_softmax(weft_mul(times(&x, true, k), weft_scalar(0.125)), -1), v);
    const char *plan = weft_show(1, &y, "plan");
    EXPECT_INT(strstr(plan, "from column 512 on") && strstr(plan, "from row 512 on"), ways[w].fuse);
    weft_array *joined = join(&x), *q = array_of(HEADS, 1, WIDTH, 3);
    EXPECT_OK(weft_eval(1, &joined));
    weft_array *want = weft_matmul(weft_softmax(weft_mul(weft_matmul(q, turned(joined)), weft_scalar(0.125)), -1), joined);
    EXPECT_SAME(y, want);
  }
  way_leave();
}

static weft_array *attended(weft_array *scores, weft_array *v) {
  weft_array *inside = weft_le(weft_iota(scores, 2), weft_scalar(299));
  return weft_matmul(weft_softmax(weft_where(inside, scores, weft_scalar(-INFINITY)), -1), v);
}

/* What lies beyond a diagonal is 0, and not multiplied only where that is finite. */
SCOPED(attention_of_one_token_to_some_keys_is_that_of_joined_ones) {
  for (int w = 0; w < n_ways; w++)
    for (int is_infinite = 0; is_infinite < 2; is_infinite++) {
      way_take(&ways[w]);
      struct joined x = { { WHOLE, SPLIT }, { 512, 1 } };
      weft_array *v[2] = { part_of(WHOLE, 512, 5), weft_mul(part_of(WHOLE, 1, 9), weft_scalar(is_infinite ? INFINITY : 1)) };
      weft_array *y = attended(times(&x, true, join(&x)), weft_concat(1, 2, v));
      weft_array *k = join(&x), *both = weft_concat(1, 2, v), *q = array_of(HEADS, 1, WIDTH, 3);
      EXPECT_OK(weft_eval(1, &k));
      EXPECT_OK(weft_eval(1, &both));
      EXPECT_SAME(y, attended(weft_matmul(q, turned(k)), both));
      double *all, is_nan = 0;
      size_t n;
      all = all_f64(y, &n);
      for (size_t i = 0; i < n; i++) is_nan += isnan(all[i]);
      EXPECT_INT(is_nan, is_infinite ? HEADS * WIDTH : 0);
      free(all);
    }
  way_leave();
}

/* One more row a step, in a loop: what is joined is the loop's own. */
SCOPED(a_loop_joins_rows_to_what_it_carries) {
  for (int w = 0; w < n_ways; w++) {
    way_take(&ways[w]);
    weft_array *held = part_of(WHOLE, 300, 5), *q = array_of(HEADS, 1, WIDTH, 3);
    weft_loop *l = weft_loop_open(weft_integer(4));
    weft_array *c = weft_loop_carry(l, part_of(WHOLE, 1, 77)), *part[2] = { held, weft_mul(c, weft_scalar(0.5)) };
    weft_array *y = weft_sum(weft_matmul(q, turned(weft_concat(1, 2, part))), 2);
    weft_loop_next(l, c, weft_add(c, weft_scalar(1)));
    weft_array *all = weft_loop_all(l, y);
    weft_loop_close(l);
    for (int step = 0; step < 4; step++) {
      weft_array *row = weft_mul(weft_add(part_of(WHOLE, 1, 77), weft_scalar(step)), weft_scalar(0.5));
      weft_array *both[2] = { held, row }, *joined = weft_concat(1, 2, both);
      EXPECT_OK(weft_eval(1, &joined));
      weft_array *want = weft_sum(weft_matmul(q, turned(joined)), 2);
      EXPECT_SAME(weft_slice(all, 0, step, step + 1, 1), weft_reshape(want, WEFT_DIMS(1, HEADS, 1)));
    }
  }
  way_leave();
}
