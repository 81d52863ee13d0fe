/* gpu_runs.c -- floats added and multiplied through indices in the order of the host (WEFT_EXACT=1), on the GPU against it. Numbers
 * are such that every order shows. */
#include <math.h>
#include <string.h>
#include "every_plain.h"
#include "gpu.h"
#include "values.h"

enum { RANK = 3, MOST_RESULTS = 2 };

/* x of these dims, of which the first n_index are indexed by arrays of these dims; has_special: among the numbers are NaN, -0,
 * infinities and denormals. -1 ends dims. */
struct updates {
  int64_t dims[RANK + 1];
  int n_index;
  int64_t places[RANK + 1];
  weft_dtype t;
  weft_how how;
  bool has_special;
};

static int rank_of(const int64_t dims[]) {
  int n = 0;
  while (dims[n] >= 0) n++;
  return n;
}

/* Between 0.6 and 1.6, so that products of many stay finite; half of the numbers to be added are below 0. */
static weft_array *floats(const struct updates *u, int rank, const int64_t dims[], uint32_t seed) {
  static const float special[] = { NAN, -0.0f, INFINITY, 0.0f, -0.0f, 1e-41f, -INFINITY, -3e-42f };
  int64_t n = 1;
  for (int k = 0; k < rank; k++) n *= dims[k];
  float *x = calloc((size_t)n + 1, sizeof *x);
  for (int64_t i = 0; i < n; i++) {
    seed = seed * 1664525u + 1013904223u;
    x[i] = 0.6f + (float)(seed >> 8) / (1 << 24);
    if (u->how == WEFT_ADD && seed >> 31) x[i] *= -1.7f;
    if (u->has_special && (seed >> 9) % 61 < 8) x[i] = special[(seed >> 9) % 61];
  }
  weft_array *r = weft_cast(weft_from(WEFT_F32, rank, dims, x), u->t);
  free(x);
  return r;
}

/* Half of the places are anywhere, from the end too; a quarter are in the first few slots, a quarter all the same. */
static weft_array *indices(int rank, const int64_t dims[], int64_t below, uint32_t seed) {
  int64_t n = 1;
  for (int k = 0; k < rank; k++) n *= dims[k];
  int32_t *i = calloc((size_t)n + 1, sizeof *i);
  for (int64_t k = 0; k < n; k++) {
    seed = seed * 1664525u + 1013904223u;
    int64_t among = seed >> 31 ? below : seed >> 30 ? 1 + below / 8 : 1;
    i[k] = (int32_t)((seed >> 4) % among - (seed & 8 ? 0 : below));
  }
  weft_array *r = weft_from(WEFT_I32, rank, dims, i);
  free(i);
  return r;
}

static weft_array *updated(const struct updates *u) {
  weft_array *x = floats(u, rank_of(u->dims), u->dims, 1), *at[RANK];
  int64_t dims[2 * RANK];
  int n = rank_of(u->places);
  memcpy(dims, u->places, sizeof *dims * (size_t)n);
  for (int k = u->n_index; k < rank_of(u->dims); k++) dims[n++] = u->dims[k];
  for (int k = 0; k < u->n_index; k++) at[k] = indices(rank_of(u->places), u->places, u->dims[k], 5 + (uint32_t)k);
  return weft_put(x, weft_take(x, u->n_index, at), floats(u, n, dims, 3), u->how);
}

static struct plain plain_of(weft_array *y) {
  int64_t dims[PLAIN_RANK];
  EXPECT_OK(weft_eval(1, &y));
  for (int k = 0; k < weft_rank(y); k++) dims[k] = weft_dim(y, k);
  struct plain p = plain_new(weft_dtype_of(y), weft_rank(y), dims);
  EXPECT_OK(weft_read(y, p.dtype, p.data, (size_t)p.count * weft_dtype_bytes(p.dtype)));
  return p;
}

static void expect_same(const char *what, struct plain *host, struct plain *there) {
  int64_t at = plain_differs(host, there->data);
  if (at >= 0)
    test_fail(__FILE__, __LINE__, "%s: element %lld is %s, not %s", what, (long long)at, plain_text(there, at), plain_text(host, at));
  plain_free(host), plain_free(there);
}

static bool begin_in_order(void) {
  if (!has_gpu()) return false;
  setenv("WEFT_EXACT", "1", 1);
  weft_set(WEFT_DEVICE, 0);
  return true;
}

static void check_updates(const struct updates *u) {
  struct plain y[2];
  char what[100];
  int64_t left = weft_get(WEFT_KERNELS_HOST);
  snprintf(what, sizeof what, "%s of %s, %lld places of %lld.., %d indices", u->how == WEFT_ADD ? "sums" : "products",
           weft_dtype_name(u->t), (long long)u->places[0], (long long)u->dims[0], u->n_index);
  for (int device = 0; device < 2; device++) {
    weft_scope *s = weft_scope_open();
    weft_set(WEFT_DEVICE, device);
    y[device] = plain_of(updated(u));
    weft_scope_discard(s);
  }
  weft_set(WEFT_DEVICE, 0);
  expect_same(what, &y[0], &y[1]);
  EXPECT_INT(weft_get(WEFT_KERNELS_HOST), left);
}

/* One slot, few slots in whole and broken blocks of updates, more slots than blocks have copies for, more slots than updates; rows;
 * two index arrays, of several axes; nothing at all. */
static const struct { int64_t dims[RANK + 1]; int n_index; int64_t places[RANK + 1]; } shapes[] = {
  { { 1, -1 }, 1, { 1, -1 } },          { { 1, -1 }, 1, { 3000, -1 } },       { { 1, -1 }, 1, { 9000, -1 } },
  { { 200, -1 }, 1, { 8192, -1 } },     { { 200, -1 }, 1, { 8193, -1 } },     { { 300, -1 }, 1, { 4097, -1 } },
  { { 5000, -1 }, 1, { 9000, -1 } },    { { 70000, -1 }, 1, { 300, -1 } },    { { 255, -1 }, 1, { 900, -1 } },
  { { 256, -1 }, 1, { 5000, -1 } },     { { 20, 33, -1 }, 1, { 700, -1 } },   { { 300, 2, -1 }, 1, { 11, -1 } },
  { { 7, 9, -1 }, 2, { 500, -1 } },     { { 7, 9, 5, -1 }, 2, { 20, 30, -1 } }, { { 4, 3, -1 }, 1, { 2, 3, 50, -1 } },
  { { 40, 30, -1 }, 2, { 90, 50, -1 } }, { { 10, -1 }, 1, { 0, -1 } },        { { 5, 0, -1 }, 1, { 4, -1 } },
  { { 0, 4, -1 }, 1, { 0, -1 } },       { { 65536, -1 }, 1, { 4100, -1 } },
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

static void check_shapes(weft_dtype t, bool has_special) {
  for (int k = 0; k < 2 * SHAPES; k++) {
    struct updates u = { .n_index = shapes[k / 2].n_index, .t = t, .how = k % 2 ? WEFT_MUL : WEFT_ADD, .has_special = has_special };
    memcpy(u.dims, shapes[k / 2].dims, sizeof u.dims);
    memcpy(u.places, shapes[k / 2].places, sizeof u.places);
    check_updates(&u);
  }
}

TEST(cuda_exact_updates_of_f32_have_the_bits_of_the_host) {
  test_watchdog(200);
  if (begin_in_order()) check_shapes(WEFT_F32, false);
}

TEST(cuda_exact_updates_with_nan_and_zeros_have_the_bits_of_the_host) {
  test_watchdog(200);
  if (begin_in_order()) check_shapes(WEFT_F32, true);
}

TEST(cuda_exact_updates_of_f64_have_the_bits_of_the_host) {
  test_watchdog(200);
  if (begin_in_order()) check_shapes(WEFT_F64, true);
}

TEST(cuda_exact_updates_of_every_other_float_have_the_bits_of_the_host) {
  static const weft_dtype dtypes[] = { WEFT_F16, WEFT_BF16, WEFT_E4M3, WEFT_E5M2, WEFT_C64, WEFT_C128 };
  static const struct updates of[] = { { .dims = { 30, -1 }, .n_index = 1, .places = { 5000, -1 } },
    { .dims = { 30, 7, -1 }, .n_index = 1, .places = { 90, -1 } }, { .dims = { 6, 5, -1 }, .n_index = 2, .places = { 11, 9, -1 } } };
  test_watchdog(200);
  if (!begin_in_order()) return;
  for (int k = 0; k < 36; k++) {
    struct updates u = of[k / 12];
    u.t = dtypes[k / 2 % 6], u.how = k % 2 ? WEFT_MUL : WEFT_ADD;
    if (u.how == WEFT_ADD || u.t < WEFT_C64) check_updates(&u);
  }
}

/* ---- in other programs ---- */

enum { T = 4, PLACES = 60 };

/* Updates of a state, step by step; of rows and of single elements. */
static int in_a_loop(weft_array *y[]) {
  weft_array *x = drawn_floats(WEFT_DIMS(12, 5), 1), *flat = drawn_floats(WEFT_DIMS(300), 4), *v = drawn_floats(WEFT_DIMS(T, PLACES, 5), 2);
  weft_array *i = weft_reshape(drawn_indices(T * PLACES, 12, 3), WEFT_DIMS(T, PLACES));
  weft_loop *l = weft_loop_open(NULL);
  weft_array *a = weft_loop_carry(l, x), *b = weft_loop_carry(l, flat), *u = weft_loop_each(l, v), *at = weft_loop_each(l, i);
  weft_loop_next(l, a, weft_put(a, weft_take(a, 1, &at), u, WEFT_ADD));
  weft_loop_next(l, b, weft_put(b, weft_take(b, 1, &at), weft_reshape(weft_slice(u, 1, 2, 3, 1), WEFT_DIMS(PLACES)), WEFT_MUL));
  y[0] = weft_loop_last(l, a), y[1] = weft_loop_last(l, b);
  weft_loop_close(l);
  return 2;
}

static int in_a_map(weft_array *y[]) {
  weft_array *xs[] = { drawn_floats(WEFT_DIMS(6, 40), 1), weft_reshape(drawn_indices(6 * 900, 40, 2), WEFT_DIMS(6, 900)),
                       drawn_floats(WEFT_DIMS(6, 900), 3) };
  weft_array *x[] = { weft_input(WEFT_F32, WEFT_DIMS(40)), weft_input(WEFT_I32, WEFT_DIMS(900)), weft_input(WEFT_F32, WEFT_DIMS(900)) };
  weft_array *each = weft_put(x[0], weft_take(x[0], 1, &x[1]), x[2], WEFT_ADD);
  return weft_map(3, x, xs, 1, &each, y), 1;
}

/* What is taken often: its derivative adds up through the indices; and the second one. */
static int of_a_gradient(weft_array *y[]) {
  weft_array *x = drawn_floats(WEFT_DIMS(50, 6), 1), *i = drawn_indices(800, 50, 2), *flat = drawn_floats(WEFT_DIMS(90), 3);
  weft_array *j = drawn_indices(6000, 90, 4), *t = weft_take(x, 1, &i), *f = weft_take(flat, 1, &j);
  weft_grad(weft_sum(weft_mul(weft_exp(t), weft_sin(t)), WEFT_ALL), 1, &x, &y[0]);
  weft_grad(weft_sum(weft_mul(f, weft_tanh(f)), WEFT_ALL), 1, &flat, &y[1]);
  weft_grad(weft_sum(weft_mul(y[1], y[1]), WEFT_ALL), 1, &flat, &y[1]);
  return 2;
}

/* What is updated is computed on the way, so that its memory is overwritten; updates and indices are views. */
static int in_place(weft_array *y[]) {
  weft_array *x = drawn_floats(WEFT_DIMS(9, 4), 1), *i = weft_slice(drawn_indices(100, 9, 2), 0, 1, 100, 3);
  weft_array *v = weft_transpose(drawn_floats(WEFT_DIMS(4, 33), 3), NULL), *z = weft_mul(x, weft_scalar(3));
  return y[0] = weft_exp(weft_put(z, weft_take(z, 1, &i), v, WEFT_ADD)), 1;
}

static void check_program(const char *what, int (*make)(weft_array *[])) {
  struct plain y[2][MOST_RESULTS];
  int64_t left = weft_get(WEFT_KERNELS_HOST);
  int n = 0;
  for (int device = 0; device < 2; device++) {
    weft_scope *s = weft_scope_open();
    weft_array *out[MOST_RESULTS];
    weft_set(WEFT_DEVICE, device);
    n = make(out);
    for (int k = 0; k < n; k++) y[device][k] = plain_of(out[k]);
    weft_scope_discard(s);
  }
  weft_set(WEFT_DEVICE, 0);
  for (int k = 0; k < n; k++) expect_same(what, &y[0][k], &y[1][k]);
  EXPECT_INT(weft_get(WEFT_KERNELS_HOST), left);
}

TEST(cuda_exact_updates_in_loops_maps_and_gradients_have_the_bits_of_the_host) {
  test_watchdog(200);
  if (!begin_in_order()) return;
  check_program("in a loop", in_a_loop);
  check_program("in a map", in_a_map);
  check_program("of a gradient", of_a_gradient);
  check_program("in place", in_place);
}

/* A function that is called again, as a bundle of launches from the second call on, with other indices each time. */
TEST(cuda_exact_updates_of_a_function_that_is_called_again_have_the_bits_of_the_host) {
  struct plain y[2][T];
  if (!begin_in_order()) return;
  for (int device = 0; device < 2; device++) {
    weft_scope *all = weft_scope_open(), *body = weft_scope_open();
    weft_set(WEFT_DEVICE, device);
    weft_array *x[] = { weft_input(WEFT_F32, WEFT_DIMS(70)), weft_input(WEFT_I32, WEFT_DIMS(5000)), weft_input(WEFT_F32, WEFT_DIMS(5000)) };
    weft_array *out = weft_put(x[0], weft_take(x[0], 1, &x[1]), x[2], WEFT_ADD);
    weft_function *f = weft_compile(body, 3, x, 1, &out);
    for (uint32_t k = 0; k < T; k++) {
      weft_array *in[] = { drawn_floats(WEFT_DIMS(70), k), drawn_indices(5000, 70, k), drawn_floats(WEFT_DIMS(5000), 9 + k) }, *r;
      weft_call(f, 3, in, 1, &r);
      y[device][k] = plain_of(r);
    }
    weft_scope_discard(all);
  }
  weft_set(WEFT_DEVICE, 0);
  for (int k = 0; k < T; k++) expect_same("a call", &y[0][k], &y[1][k]);
}

/* An index that is not there is the error that the host has, with its number and its place: of rows and single elements, of the
 * first and the second of two, in a block that is not whole. */
TEST(cuda_exact_updates_out_of_range_are_found) {
  static const struct { struct updates of; int wrong; int32_t index; int64_t place; } cases[] = {
    { { .dims = { 100, -1 }, .n_index = 1, .places = { 5000, -1 } }, 0, 100, 4999 },
    { { .dims = { 100, -1 }, .n_index = 1, .places = { 5000, -1 } }, 0, -101, 0 },
    { { .dims = { 256, -1 }, .n_index = 1, .places = { 300, -1 } }, 0, 256, 17 },
    { { .dims = { 10, 4, -1 }, .n_index = 1, .places = { 300, -1 } }, 0, INT32_MAX, 299 },
    { { .dims = { 10, 4, -1 }, .n_index = 2, .places = { 300, -1 } }, 1, -5, 3 },
    { { .dims = { 10, 4, -1 }, .n_index = 2, .places = { 300, -1 } }, 0, INT32_MIN, 150 } };
  for (size_t c = 0; begin_in_order() && c < sizeof cases / sizeof *cases; c++) {
    const struct updates *u = &cases[c].of;
    char said[2][400];
    for (int device = 0; device < 2; device++) {
      weft_scope *s = weft_scope_open();
      int32_t i[2][5000] = { { 0 } };
      i[cases[c].wrong][cases[c].place] = cases[c].index;
      weft_set(WEFT_DEVICE, device);
      weft_array *x = weft_full(WEFT_F32, rank_of(u->dims), u->dims, 1), *at[2];
      for (int k = 0; k < u->n_index; k++) at[k] = weft_from(WEFT_I32, 1, u->places, i[k]);
      weft_array *y = weft_put(x, weft_take(x, u->n_index, at), weft_scalar(2), WEFT_ADD);
      EXPECT_INT(weft_eval(1, &y), WEFT_ERR_INDEX);
      snprintf(said[device], sizeof said[device], "%s", weft_message());
      weft_scope_discard(s);
    }
    weft_set(WEFT_DEVICE, 0);
    EXPECT_TEXT(said[1], said[0]);
  }
}
