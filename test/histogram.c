/* histogram.c -- counts of integers and of what lies between edges, against counting one by one. */
#include <math.h>
#include "test.h"
#include "values.h"

enum { MANY = 200000, MOST_BINS = 1000 };

static uint32_t state;
static double draw(void) { /* in [0, 1) */
  state = state * 1664525 + 1013904223;
  return (state >> 8) * 0x1p-24;
}

static int64_t bin_of(double x, int n, const double edge[]) {
  if (!(x >= edge[0] && x <= edge[n])) return n;
  int64_t bin = 0;
  for (int k = 0; k < n; k++) if (edge[k] <= x) bin = k;
  return bin;
}

static void expect_counts(weft_array *got, int n, const int64_t want[], const char *what) {
  int64_t *c = malloc(sizeof *c * (size_t)(n + 1));
  EXPECT_OK(weft_read(got, WEFT_I64, c, sizeof *c * (size_t)n));
  int i = 0;
  while (i < n && c[i] == want[i]) i++;
  if (i < n) test_fail(__FILE__, __LINE__, "%s: bin %d of %d: %lld, not %lld", what, i, n, (long long)c[i], (long long)want[i]);
  free(c);
}

static double x[MANY], edge[MOST_BINS + 1];
static int64_t want[MOST_BINS + 1];

static void count_plain(int64_t n_x, int n) {
  memset(want, 0, sizeof want);
  for (int64_t i = 0; i < n_x; i++) want[bin_of(x[i], n, edge)]++;
}

static const double kinds_of_edges[] = { 0, 1, 3, 7 }; /* even; on a curve; some the same; infinite ends */

static void set_edges(int kind, int n) {
  for (int i = 0; i <= n; i++) {
    double t = (double)i / n;
    edge[i] = kind == 0 ? -2 + 4 * t : kind == 1 ? 2 * t * t * t - 1 : kind == 3 ? (double)(i / 3) / n : -1 + 2 * t;
    edge[i] = (float)edge[i];
  }
  if (kind == 7) edge[0] = -INFINITY, edge[n] = INFINITY;
}

static void set_elements(int64_t n) {
  static const double special[] = { NAN, INFINITY, -INFINITY, 0, -0.0, 2, -2, 1e30, -1e30, 0x1p-149 };
  state = 7;
  for (int64_t i = 0; i < n; i++) x[i] = (float)(draw() * 5 - 2.5);
  for (int64_t i = 0; i < 10 && i < n; i++) x[n - 1 - i] = special[i];
}

SCOPED(numbers_are_counted_between_edges_of_any_kind_as_one_by_one) {
  static const int64_t lengths[] = { 0, 1, 9, 1000, MANY };
  static const int bins[] = { 1, 2, 3, 10, 100, MOST_BINS };
  for (int l = 0; l < 5; l++)
    for (int b = 0; b < 6; b++)
      for (int k = 0; k < 4; k++) {
        int n = bins[b];
        set_elements(lengths[l]);
        set_edges((int)kinds_of_edges[k], n);
        for (int64_t i = 0; i < lengths[l] && i < 2 * n; i += 2) x[i] = edge[i / 2]; /* some are edges */
        count_plain(lengths[l], n);
        weft_array *v = weft_from(WEFT_F64, WEFT_DIMS(lengths[l]), x), *e = f64s(n + 1, edge);
        expect_counts(weft_histogram(v, e, NULL, 0), n, want, "f64");
        expect_counts(weft_histogram(weft_cast(v, WEFT_F32), weft_cast(e, WEFT_F32), NULL, 0), n, want, "f32");
        expect_counts(weft_histogram(weft_flip(weft_mul(v, weft_scalar(1)), 0), e, NULL, 0), n, want, "f64 backwards");
      }
}

SCOPED(elements_next_to_edges_that_rounding_moves_are_in_the_bin_that_the_edges_say) {
  for (int n = 1; n <= 60; n++) {
    weft_array *e = weft_histogram_edges(weft_full(WEFT_F64, WEFT_DIMS(0), 0), n, weft_scalar(0.1), weft_scalar(0.7));
    EXPECT_OK(weft_read(e, WEFT_F64, edge, sizeof *edge * (size_t)(n + 1)));
    int64_t m = 0;
    for (int r = 0; r < 8; r++)
      for (int i = 0; i <= n; i++) x[m++] = nextafter(edge[i], -1), x[m++] = edge[i], x[m++] = nextafter(edge[i], 1);
    count_plain(m, n);
    expect_counts(weft_histogram(f64s((int)m, x), e, NULL, 0), n, want, "neighbours of edges");
  }
}

SCOPED(integers_of_every_dtype_are_counted_with_and_without_edges) {
  static const weft_dtype dtypes[] = { WEFT_BOOL, WEFT_U8, WEFT_U16, WEFT_U32, WEFT_U64, WEFT_I8, WEFT_I16, WEFT_I32, WEFT_I64 };
  enum { N = 70000 };
  static int64_t v[N];
  state = 3;
  for (int k = 0; k < 9; k++) {
    int most = dtypes[k] == WEFT_BOOL ? 2 : 100;
    memset(want, 0, sizeof want);
    for (int i = 0; i < N; i++) want[v[i] = (int64_t)(draw() * most)]++;
    weft_array *a = weft_cast(weft_from(WEFT_I64, WEFT_DIMS(N), v), dtypes[k]);
    expect_counts(weft_bincount(a, NULL, most, 0), most, want, weft_dtype_name(dtypes[k]));
    expect_counts(weft_bincount(weft_reshape(a, WEFT_DIMS(70, 1000)), NULL, 0, 1), most, want, "as many as there are");
    expect_counts(weft_bincount(a, NULL, 120, 1), 120, want, "at least 120");
    for (int i = 0; i <= most; i++) edge[i] = i - 0.5;
    expect_counts(weft_histogram(a, f64s(most + 1, edge), NULL, 0), most, want, "between halves");
  }
  int64_t big[] = { (int64_t)1 << 52, ((int64_t)1 << 52) + 1 };
  double around[] = { 0x1p52, 0x1p52 + 1, 0x1p52 + 1 };
  expect_counts(weft_histogram(weft_from(WEFT_I64, WEFT_DIMS(2), big), f64s(3, around), NULL, 0), 2, (int64_t[]){ 1, 1 }, "exact in f64");
}

/* As many bins as the largest needs are none where all are below 0, and more than can be counted of the largest integers. */
SCOPED(bins_that_no_element_can_have_are_an_error_where_their_number_is_computed) {
  static const int64_t wrong[] = { -1, -5, INT64_MIN, INT64_MAX, INT64_MAX - 1, (int64_t)1 << 62, (int64_t)1 << 50 };
  for (int i = 0; i < 7; i++)
    for (int k = 0; k < 4; k++) {
      weft_array *one = weft_from(k & 2 ? WEFT_U64 : WEFT_I64, WEFT_DIMS(1), &wrong[i]);
      weft_array *y = weft_bincount(one, k & 1 ? weft_scalar(2) : NULL, 0, 1);
      weft_status status = weft_eval(1, &y);
      if (status != (wrong[i] < 0 ? WEFT_ERR_INDEX : WEFT_ERR_MEMORY))
        test_fail(__FILE__, __LINE__, "%lld: status %d: %s", (long long)wrong[i], (int)status, weft_message());
    }
}

SCOPED(what_is_no_bin_is_an_error_that_says_which_element) {
  if (weft_get(WEFT_DEVICE)) return test_skip("a device does not say what the element is: see cuda_says_what_is_in_no_bin");
  weft_array *a = weft_from(WEFT_I32, WEFT_DIMS(3), (int32_t[]){ 0, -4, 9 }), *y = weft_bincount(a, NULL, 0, 1);
  EXPECT_INT(weft_eval(1, &y), WEFT_ERR_INDEX);
  EXPECT_TEXT(weft_message(), "weft_bincount: element 1 is -4: below 0");
  y = weft_bincount(a, weft_scalar(2), 20, 0);
  EXPECT_INT(weft_eval(1, &y), WEFT_ERR_INDEX);
  y = weft_bincount(weft_abs(a), NULL, 9, 0);
  EXPECT_INT(weft_eval(1, &y), WEFT_ERR_INDEX);
  EXPECT_TEXT(weft_message(), "weft_bincount: element 2 is 9, and there are 9 bins");
  y = weft_histogram(f64s(2, (double[]){ 1, 2 }), f64s(3, (double[]){ 0, 2, 1 }), NULL, 0);
  EXPECT_INT(weft_eval(1, &y), WEFT_ERR_ARG);
  EXPECT_TEXT(weft_message(), "weft_histogram: edges ascend: edge 2 is nan, or below the one before");
  y = weft_histogram(f64s(1, (double[]){ 1 }), weft_histogram_edges(f64s(2, (double[]){ 1, NAN }), 2, NULL, NULL), NULL, 0);
  EXPECT_INT(weft_eval(1, &y), WEFT_ERR_ARG);
  y = weft_digitize(f64s(1, (double[]){ 1 }), f64s(3, (double[]){ 0, 2, 1 }), 0);
  EXPECT_INT(weft_eval(1, &y), WEFT_ERR_ARG);
  EXPECT_TEXT(weft_message(), "weft_digitize: the bins neither ascend nor descend");
  EXPECT_INT(weft_check(weft_bincount(f64s(1, (double[]){ 1 }), NULL, 1, 0)), WEFT_ERR_DTYPE);
  EXPECT_INT(weft_check(weft_bincount(a, NULL, -1, 0)), WEFT_ERR_ARG);
  EXPECT_INT(weft_check(weft_bincount(a, weft_full(WEFT_F32, WEFT_DIMS(2), 1), 20, 0)), WEFT_ERR_SHAPE);
  EXPECT_INT(weft_check(weft_histogram(a, f64s(1, edge), NULL, 0)), WEFT_ERR_SHAPE);
  EXPECT_INT(weft_check(weft_histogram(a, weft_full(WEFT_F32, WEFT_DIMS(2, 2), 1), NULL, 0)), WEFT_ERR_SHAPE);
  EXPECT_INT(weft_check(weft_histogram_edges(a, 0, NULL, NULL)), WEFT_ERR_ARG);
  EXPECT_INT(weft_check(weft_histogram(weft_full(WEFT_C64, WEFT_DIMS(2), 1), a, NULL, 0)), WEFT_ERR_DTYPE);
  EXPECT_INT(weft_check(weft_histogramdd(0, NULL, NULL, NULL, 0)), WEFT_ERR_SHAPE);
}

SCOPED(weights_are_added_in_bins_and_have_derivatives) {
  const double v[] = { 0.5, 1.5, 1.5, 3, 9, NAN }, e[] = { 0, 1, 2, 3 }, w[] = { 1, 2, 4, 8, 16, 32 }, g[] = { 3, 5, 7 };
  const double sums[] = { 1, 6, 8 }, by_weight[] = { 3, 5, 5, 7, 0, 0 };
  double got[6];
  weft_array *weights = f64s(6, w), *y = weft_histogram(f64s(6, v), f64s(4, e), weights, 0), *d;
  EXPECT_OK(weft_read(y, WEFT_F64, got, 3 * sizeof *got));
  for (int i = 0; i < 3; i++) EXPECT(got[i] == sums[i]);
  weft_grad(weft_sum(weft_mul(y, f64s(3, g)), WEFT_ALL), 1, &weights, &d);
  EXPECT_OK(weft_read(d, WEFT_F64, got, sizeof got));
  for (int i = 0; i < 6; i++) EXPECT(got[i] == by_weight[i]);
  y = weft_bincount(weft_from(WEFT_I8, WEFT_DIMS(6), (int8_t[]){ 2, 0, 2, 1, 2, 0 }), weights, 0, 1);
  EXPECT_OK(weft_read(y, WEFT_F64, got, 3 * sizeof *got));
  EXPECT(got[0] == 34 && got[1] == 8 && got[2] == 21);
  y = weft_histogram(f64s(6, v), f64s(4, e), weights, 1);
  EXPECT_OK(weft_read(y, WEFT_F64, got, 3 * sizeof *got));
  EXPECT(got[0] == 1.0 / 15 && got[1] == 6.0 / 15 && got[2] == 8.0 / 15);
}

SCOPED(edges_reach_from_the_least_to_the_largest_also_of_one_or_none) {
  double got[5];
  weft_array *e = weft_histogram_edges(f64s(3, (double[]){ 4, 2, 3 }), 4, NULL, NULL);
  EXPECT_OK(weft_read(e, WEFT_F64, got, sizeof got));
  for (int i = 0; i < 5; i++) EXPECT(got[i] == 2 + 0.5 * i);
  EXPECT_OK(weft_read(weft_histogram_edges(f64s(2, (double[]){ 4, 4 }), 2, NULL, NULL), WEFT_F64, got, 3 * sizeof *got));
  EXPECT(got[0] == 3.5 && got[1] == 4 && got[2] == 4.5);
  EXPECT_OK(weft_read(weft_histogram_edges(weft_full(WEFT_I32, WEFT_DIMS(0), 0), 2, NULL, NULL), WEFT_F64, got, 3 * sizeof *got));
  EXPECT(got[0] == 0 && got[1] == 0.5 && got[2] == 1);
}

SCOPED(rows_of_a_map_and_sizes_that_are_not_known_are_counted_likewise) {
  const double rows[] = { 0, 1, 2, 2, 2, 2, 1, 0 };
  weft_array *row = f64s(4, rows), *all = weft_from(WEFT_F64, WEFT_DIMS(2, 4), rows), *e = f64s(4, (double[]){ 0, 1, 2, 3 });
  weft_array *y = weft_histogram(row, e, NULL, 0), *ys;
  weft_map(1, &row, &all, 1, &y, &ys);
  expect_counts(ys, 6, (int64_t[]){ 1, 1, 2, 1, 1, 2 }, "rows");
  weft_scope *body = weft_scope_open();
  weft_array *in = weft_input(WEFT_I32, WEFT_DIMS(WEFT_ANY));
  weft_array *out[] = { weft_bincount(in, NULL, 2, 1), weft_bincount(in, weft_scalar(0.5), 6, 0),
                        weft_histogram(in, weft_histogram_edges(in, 2, NULL, NULL), NULL, 0) };
  weft_function *f = weft_compile(body, 1, &in, 3, out);
  const int32_t v[] = { 1, 5, 1 };
  const int64_t counts[4][6] = { { 0 }, { 0, 1 }, { 0, 1, 0, 0, 0, 1 }, { 0, 2, 0, 0, 0, 1 } }, halves[4][2] = { { 0 }, { 0, 1 }, { 1, 1 }, { 2, 1 } };
  for (int n = 0; n <= 3; n++) {
    weft_array *got[3], *a = weft_from(WEFT_I32, WEFT_DIMS(n), v);
    weft_call(f, 1, &a, 3, got);
    EXPECT_INT(weft_dim(got[0], 0), n < 2 ? 2 : 6);
    expect_counts(got[0], n < 2 ? 2 : 6, counts[n], "as many as there are");
    expect_counts(weft_cast(weft_mul(got[1], weft_scalar(2)), WEFT_I64), 6, counts[n], "weights");
    expect_counts(got[2], 2, halves[n], "two bins");
  }
}

SCOPED(what_fails_in_a_row_that_takes_the_other_side_counts_for_nothing) {
  const int32_t rows[] = { 0, 1, -1, 5 };
  int64_t got[4];
  weft_array *row = weft_from(WEFT_I32, WEFT_DIMS(2), rows), *all = weft_from(WEFT_I32, WEFT_DIMS(2, 2), rows), *ys;
  weft_cond *choice = weft_cond_open(weft_ge(weft_min(row, WEFT_ALL), weft_integer(0)));
  weft_array *y = weft_cond_value(choice, weft_bincount(row, NULL, 2, 0), weft_full(WEFT_I64, WEFT_DIMS(2), 7));
  weft_cond_close(choice);
  weft_map(1, &row, &all, 1, &y, &ys);
  EXPECT_OK(weft_read(ys, WEFT_I64, got, sizeof got));
  EXPECT(got[0] == 1 && got[1] == 1 && got[2] == 7 && got[3] == 7);
}

SCOPED(points_are_counted_in_boxes) {
  enum { N = 5000, A = 4, B = 3 };
  static double p[N], q[N];
  double e[] = { 0, 0.2, 0.5, 0.6, 1 }, f[] = { 0.1, 0.3, 0.9, 0.95 };
  memset(want, 0, sizeof want);
  state = 11;
  for (int i = 0; i < N; i++) {
    p[i] = draw(), q[i] = draw();
    int64_t a = bin_of(p[i], A, e), b = bin_of(q[i], B, f);
    if (a < A && b < B) want[a * B + b]++;
  }
  weft_array *at[] = { f64s(N, p), f64s(N, q) }, *edges[] = { f64s(A + 1, e), f64s(B + 1, f) };
  expect_counts(weft_histogramdd(2, at, edges, NULL, 0), A * B, want, "boxes");
  expect_counts(weft_cast(weft_histogramdd(2, at, edges, weft_scalar(1), 0), WEFT_I64), A * B, want, "boxes by weight");
  weft_array *density = weft_histogramdd(2, at, edges, NULL, 1), *area;
  area = weft_mul(weft_unsqueeze(weft_diff(edges[0], 1, 0), 1), weft_diff(edges[1], 1, 0));
  double sum;
  EXPECT_OK(weft_read(weft_sum(weft_mul(density, area), WEFT_ALL), WEFT_F64, &sum, sizeof sum));
  EXPECT(fabs(sum - 1) < 1e-12);
}

SCOPED(digits_are_places_among_bins_that_ascend_or_descend) {
  const double v[] = { -1, 0, 0.5, 1, 2, 5, NAN }, up[] = { 0, 1, 2 }, down[] = { 2, 1, 0 };
  weft_array *a = f64s(7, v), *u = f64s(3, up), *d = f64s(3, down);
  expect_counts(weft_digitize(a, u, 0), 7, (int64_t[]){ 0, 1, 1, 2, 3, 3, 3 }, "up");
  expect_counts(weft_digitize(a, u, 1), 7, (int64_t[]){ 0, 0, 1, 1, 2, 3, 3 }, "up, right");
  expect_counts(weft_digitize(a, d, 0), 7, (int64_t[]){ 3, 2, 2, 1, 0, 0, 0 }, "down");
  expect_counts(weft_digitize(a, d, 1), 7, (int64_t[]){ 3, 3, 2, 2, 1, 0, 0 }, "down, right");
  expect_counts(weft_digitize(a, f64s(3, (double[]){ up[0], up[1], NAN }), 0), 7, (int64_t[]){ 0, 1, 1, 2, 2, 2, 3 }, "up to nan");
  weft_array *fall = f64s(3, (double[]){ NAN, up[1], up[0] });
  expect_counts(weft_digitize(a, fall, 0), 7, (int64_t[]){ 3, 2, 2, 1, 1, 1, 0 }, "down from nan");
  expect_counts(weft_digitize(a, f64s(0, up), 0), 7, (int64_t[]){ 0, 0, 0, 0, 0, 0, 0 }, "none");
}
