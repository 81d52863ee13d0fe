/* convolve.c -- windows and convolutions against plain loops: every option, up to three axes between, with derivatives,
 * maps, functions of unknown sizes and mistakes. */
#include "values.h"
#include "ways.h"

/* ---- windows ---- */

static weft_array *counted(int rank, const int64_t dims[]) {
  int64_t n = 1;
  for (int k = 0; k < rank; k++) n *= dims[k];
  return weft_reshape(weft_arange(WEFT_F64, 0, (double)n, 1), rank, dims);
}

TEST(windows_slide_along_an_axis_of_any_layout) {
  weft_scope *s = weft_scope_open();
  weft_array *x = counted(WEFT_DIMS(5)), *m = counted(WEFT_DIMS(3, 4));
  EXPECT_F64(weft_windows(x, 0, 3, 1, 1), 0, 1, 2, 1, 2, 3, 2, 3, 4);
  EXPECT_F64(weft_windows(x, -1, 2, 2, 2), 0, 2, 2, 4);
  EXPECT_F64(weft_windows(weft_flip(x, 0), 0, 2, 3, 1), 4, 3, 1, 0);
  EXPECT_F64(weft_windows(m, 0, 2, 1, 1), 0, 4, 1, 5, 2, 6, 3, 7, 4, 8, 5, 9, 6, 10, 7, 11);
  EXPECT_F64(weft_sum(weft_windows(weft_moveaxis(m, 0, 1), 0, 4, 1, 1), WEFT_ALL), 66);
  EXPECT_F64(weft_windows(weft_mul(x, x), 0, 5, 1, 1), 0, 1, 4, 9, 16);
  EXPECT_INT(weft_dim(weft_windows(x, 0, 2, 4, 1), 0), 1);
  weft_scope_discard(s);
}

TEST(windows_add_up_in_a_gradient_short_and_long) {
  weft_scope *s = weft_scope_open();
  weft_array *x = counted(WEFT_DIMS(6)), *dx, *long_x = weft_full(WEFT_F64, WEFT_DIMS(40), 1), *long_dx;
  weft_grad(weft_windows(x, 0, 3, 2, 1), 1, &x, &dx);
  EXPECT_F64(dx, 1, 1, 2, 1, 1, 0);
  weft_grad(weft_windows(long_x, 0, 30, 1, 1), 1, &long_x, &long_dx);
  EXPECT_F64(weft_slice(long_dx, 0, 0, 3, 1), 1, 2, 3);
  EXPECT_F64(weft_sum(long_dx, WEFT_ALL), 330);
  weft_scope_discard(s);
}

static weft_array *pairs(weft_array *x) { return weft_sum(weft_windows(x, 0, 2, 1, 1), -1); }
TEST(windows_of_an_unknown_size_are_those_of_the_call) {
  weft_scope *s = weft_scope_open();
  weft_array *x = counted(WEFT_DIMS(4)), *short_x = counted(WEFT_DIMS(1)), *y;
  weft_scope *body = weft_scope_open();
  weft_array *in = weft_input(WEFT_F64, WEFT_DIMS(WEFT_ANY)), *out = pairs(in);
  weft_function *f = weft_compile(body, 1, &in, 1, &out);
  weft_call(f, 1, &x, 1, &y);
  EXPECT_F64(weft_squeeze(y, -1), 1, 3, 5);
  weft_call(f, 1, &short_x, 1, &y);
  EXPECT_INT(weft_dim(y, 0), 0); /* no window fits */
  weft_scope_discard(s);
}

TEST(windows_that_do_not_fit_are_mistakes) {
  weft_scope *s = weft_scope_open();
  weft_array *x = counted(WEFT_DIMS(5));
  EXPECT_INT(weft_check(weft_windows(x, 0, 6, 1, 1)), WEFT_ERR_SHAPE);
  EXPECT_TEXT(weft_message(), "weft_windows: a window of 6, dilated by 1, is longer than axis 0 of [5]");
  EXPECT_INT(weft_check(weft_windows(x, 0, 3, 1, INT64_MAX)), WEFT_ERR_SHAPE);
  EXPECT_INT(weft_check(weft_windows(x, 0, 0, 1, 1)), WEFT_ERR_ARG);
  EXPECT_INT(weft_check(weft_windows(x, 1, 2, 1, 1)), WEFT_ERR_SHAPE);
  EXPECT_INT(weft_check(weft_windows(x, 0, 2, 0, 1)), WEFT_ERR_ARG);
  weft_scope_discard(s);
}

/* ---- plain convolution ---- */

enum { BETWEEN = 3 };

struct problem {
  int axes;
  int64_t n, channels, out, groups, size[BETWEEN], kernel[BETWEEN];
  int64_t stride[BETWEEN], dilation[BETWEEN], before[BETWEEN], after[BETWEEN], spread[BETWEEN];
  int is_flipped;
};

static int64_t size_out(const struct problem *p, int k) {
  int64_t room = (p->size[k] - 1) * p->spread[k] + 1 + p->before[k] + p->after[k];
  return (room - (p->kernel[k] - 1) * p->dilation[k] - 1) / p->stride[k] + 1;
}

/* x at a place of the padded, spread array; 0: there is nothing. */
static double x_at(const struct problem *p, const double *x, int64_t n, const int64_t at[], int64_t c) {
  int64_t place = n;
  for (int k = 0; k < BETWEEN; k++) {
    int64_t i = at[k] - p->before[k];
    if (i < 0 || i % p->spread[k] || i / p->spread[k] >= p->size[k]) return 0;
    place = place * p->size[k] + i / p->spread[k];
  }
  return x[place * p->channels + c];
}

static double one_result(const struct problem *p, const double *x, const double *w, int64_t n, const int64_t i[], int64_t o) {
  int64_t of_group = p->channels / p->groups, first = o / (p->out / p->groups) * of_group, j[BETWEEN];
  double sum = 0;
  for (j[0] = 0; j[0] < p->kernel[0]; j[0]++)
    for (j[1] = 0; j[1] < p->kernel[1]; j[1]++)
      for (j[2] = 0; j[2] < p->kernel[2]; j[2]++)
        for (int64_t c = 0; c < of_group; c++) {
          int64_t at[BETWEEN], place = o;
          for (int k = 0; k < BETWEEN; k++) {
            at[k] = i[k] * p->stride[k] + j[k] * p->dilation[k];
            place = place * p->kernel[k] + (p->is_flipped ? p->kernel[k] - 1 - j[k] : j[k]);
          }
          sum += x_at(p, x, n, at, first + c) * w[place * of_group + c];
        }
  return sum;
}

static double *plain(const struct problem *p, const double *x, const double *w, int64_t *count) {
  int64_t t[BETWEEN], i[BETWEEN], at = 0;
  *count = p->n * p->out;
  for (int k = 0; k < BETWEEN; k++) *count *= t[k] = size_out(p, k);
  double *y = malloc(sizeof *y * (size_t)(*count + 1));
  for (int64_t n = 0; n < p->n; n++)
    for (i[0] = 0; i[0] < t[0]; i[0]++)
      for (i[1] = 0; i[1] < t[1]; i[1]++)
        for (i[2] = 0; i[2] < t[2]; i[2]++)
          for (int64_t o = 0; o < p->out; o++) y[at++] = one_result(p, x, w, n, i, o);
  return y;
}

/* ---- random problems ---- */

static uint64_t state;
static int64_t below(int64_t n) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (int64_t)(state >> 33) % n;
}

static struct problem problem_of(uint64_t seed) {
  state = seed * 2654435761u + 12345;
  struct problem p = { .axes = 1 + (int)below(3), .n = 1 + below(3), .groups = 1, .is_flipped = (int)below(2) };
  int64_t of_group = 1 + below(4), out = 1 + below(4);
  if (below(2)) p.groups = 1 + below(3);
  if (below(8) == 0) of_group = 60; /* products by rows, read where they are */
  p.channels = of_group * p.groups;
  p.out = out * p.groups;
  for (int k = 0; k < BETWEEN; k++) {
    bool is_there = k >= BETWEEN - p.axes;
    p.stride[k] = is_there ? 1 + below(2) : 1;
    p.dilation[k] = is_there && below(3) == 0 ? 2 : 1;
    p.spread[k] = is_there && below(3) == 0 ? 2 : 1;
    p.kernel[k] = is_there ? 1 + below(3) : 1;
    p.size[k] = is_there ? 1 + below(below(4) == 0 ? 20 : 6) : 1;
    p.before[k] = is_there ? below(3) : 0;
    p.after[k] = is_there ? below(4) - 1 : 0;
    while (is_there && (p.size[k] - 1) * p.spread[k] + p.before[k] + p.after[k] < (p.kernel[k] - 1) * p.dilation[k]) p.size[k]++;
  }
  return p;
}

static weft_array *random_of(int rank, const int64_t dims[]) {
  int64_t n = 1;
  for (int k = 0; k < rank; k++) n *= dims[k];
  double *v = malloc(sizeof *v * (size_t)n);
  for (int64_t i = 0; i < n; i++) v[i] = (double)(below(2001) - 1000) / 256;
  weft_array *x = weft_from(WEFT_F64, rank, dims, v);
  free(v);
  return x;
}

static void shapes_of(const struct problem *p, int64_t x[], int64_t w[]) {
  int first = BETWEEN - p->axes;
  x[0] = p->n, w[0] = p->out;
  for (int k = 0; k < p->axes; k++) x[k + 1] = p->size[first + k], w[k + 1] = p->kernel[first + k];
  x[p->axes + 1] = p->channels, w[p->axes + 1] = p->channels / p->groups;
}

static weft_array *conv_of(const struct problem *p, weft_array *x, weft_array *w) {
  int first = BETWEEN - p->axes;
  return weft_conv(x, w, &(weft_conv_options){ .stride = p->stride + first, .dilation = p->dilation + first, .before = p->before + first,
                   .after = p->after + first, .spread = p->spread + first, .groups = p->groups, .is_flipped = p->is_flipped });
}

static void expect_close(uint64_t seed, const char *what, const double *a, const double *b, int64_t n) {
  for (int64_t i = 0; i < n; i++)
    if (!near(a[i], b[i], 1e-11)) {
      test_fail(__FILE__, __LINE__, "%s of problem %llu differs at %lld: %.17g, not %.17g", what, (unsigned long long)seed, (long long)i, b[i], a[i]);
      return;
    }
}

static double inner(weft_array *a, weft_array *b) { return one_f64(weft_sum(weft_mul(a, b), WEFT_ALL)); }

/* <v, J u> = <J' v, u>, for x, w and both; and J u is linear in each operand, so it is a convolution. */
static void check_derivatives(uint64_t seed, const struct problem *p, weft_array *x, weft_array *w, const int64_t xd[], const int64_t wd[]) {
  int rank = p->axes + 2;
  weft_array *y = conv_of(p, x, w), *in[] = { x, w }, *u[] = { random_of(rank, xd), random_of(rank, wd) }, *dy, *dx[2];
  weft_array *v = weft_sin(y);
  weft_jvp(2, in, u, 1, &y, &dy);
  weft_vjp(1, &y, &v, 2, in, dx);
  size_t n, m;
  weft_array *expected = weft_add(conv_of(p, u[0], w), conv_of(p, x, u[1]));
  double *a = all_f64(expected, &n), *b = all_f64(dy, &m);
  expect_close(seed, "tangent", a, b, (int64_t)n);
  free(a), free(b);
  double forward = inner(v, dy), backward = inner(dx[0], u[0]) + inner(dx[1], u[1]);
  if (!near(forward, backward, 1e-10)) test_fail(__FILE__, __LINE__, "problem %llu: %.17g forward, %.17g backward", (unsigned long long)seed, forward, backward);
}

static void check_problem(uint64_t seed) {
  weft_scope *s = weft_scope_open();
  struct problem p = problem_of(seed);
  int64_t xd[BETWEEN + 2], wd[BETWEEN + 2], count;
  shapes_of(&p, xd, wd);
  weft_array *x = random_of(p.axes + 2, xd), *w = random_of(p.axes + 2, wd), *y = conv_of(&p, x, w);
  size_t nx, nw, ny;
  if (weft_check(y)) test_fail(__FILE__, __LINE__, "problem %llu: %s", (unsigned long long)seed, weft_message());
  else {
    double *xs = all_f64(x, &nx), *ws = all_f64(w, &nw), *ys = all_f64(y, &ny), *want = plain(&p, xs, ws, &count);
    EXPECT_INT(ny, count);
    expect_close(seed, "value", want, ys, count);
    free(xs), free(ws), free(ys), free(want);
    check_derivatives(seed, &p, x, w, xd, wd);
  }
  weft_scope_discard(s);
}

TEST(convolutions_are_the_plain_sums_with_every_option) {
  for (uint64_t seed = 0; seed < 150; seed++) check_problem(seed);
}

TEST(second_derivatives_of_a_convolution_are_those_of_a_product) {
  weft_scope *s = weft_scope_open();
  weft_array *x = counted(WEFT_DIMS(1, 4, 1)), *w = counted(WEFT_DIMS(1, 2, 1)), *y = weft_conv(x, w, NULL), *g, *h;
  weft_array *z = weft_sum(weft_mul(y, y), WEFT_ALL);
  weft_grad(z, 1, &w, &g);
  weft_grad(weft_sum(weft_mul(g, g), WEFT_ALL), 1, &x, &h);
  /* g_j = 2 sum_i y_i x_{i+j}, y = (1, 2, 3): g = (16, 28) */
  EXPECT_F64(weft_reshape(g, WEFT_DIMS(2)), 16, 28);
  /* dh/dx_t = sum_j 2 g_j 2 (y_{t-j} + sum_j' w_j' x_{t-j'+j}) */
  EXPECT_F64(weft_reshape(h, WEFT_DIMS(4)), 64, 352, 704, 800);
  weft_scope_discard(s);
}

TEST(maps_of_convolutions_are_those_of_each_row) {
  for (uint64_t seed = 1000; seed < 1030; seed++) {
    weft_scope *s = weft_scope_open();
    struct problem p = problem_of(seed);
    int64_t xd[BETWEEN + 3] = { 3 }, wd[BETWEEN + 3] = { 3 };
    int rank = p.axes + 2;
    shapes_of(&p, xd + 1, wd + 1);
    weft_array *xs = random_of(rank + 1, xd), *ws = random_of(rank + 1, wd);
    weft_array *x = weft_at(xs, 0, weft_integer(0)), *w = weft_at(ws, 0, weft_integer(0));
    for (int which = 1; which < 4; which++) {
      weft_array *a = weft_alias(x), *b = weft_alias(w), *y = conv_of(&p, a, b), *ys;
      weft_array *from[2], *to[2];
      int n = 0;
      if (which & 1) from[n] = a, to[n++] = xs;
      if (which & 2) from[n] = b, to[n++] = ws;
      weft_map(n, from, to, 1, &y, &ys);
      for (int r = 0; r < 3; r++) {
        weft_array *i = weft_integer(r), *one = conv_of(&p, which & 1 ? weft_at(xs, 0, i) : x, which & 2 ? weft_at(ws, 0, i) : w);
        size_t n1, n2;
        double *want = all_f64(one, &n1), *got = all_f64(weft_at(ys, 0, i), &n2);
        EXPECT_INT(n2, n1);
        EXPECT(n1 == n2 && are_same(want, got, n1));
        free(want), free(got);
      }
    }
    weft_scope_discard(s);
  }
}

/* ---- one channel a group ---- */

/* In single precision, as it is documented: sums over the last axis of a kernel from +0 on, and those added in order. */
static float one_of_channel(const struct problem *p, const float *x, const float *w, int64_t n, const int64_t i[], int64_t o) {
  int64_t c = o / (p->out / p->groups);
  float sum = 0;
  for (int64_t r = 0; r < p->kernel[1]; r++) {
    float row = 0;
    for (int64_t k = 0; k < p->kernel[2]; k++) {
      int64_t y = i[1] * p->stride[1] + r * p->dilation[1] - p->before[1], at = i[2] * p->stride[2] + k * p->dilation[2] - p->before[2];
      bool is_there = y >= 0 && y < p->size[1] && at >= 0 && at < p->size[2];
      int64_t fr = p->is_flipped ? p->kernel[1] - 1 - r : r, fk = p->is_flipped ? p->kernel[2] - 1 - k : k;
      float v = is_there ? x[((n * p->size[1] + y) * p->size[2] + at) * p->channels + c] : 0, f = w[(o * p->kernel[1] + fr) * p->kernel[2] + fk];
      row = row + v * f;
    }
    sum = r ? sum + row : row;
  }
  return sum;
}

static float rough(void) {
  static const float odd[] = { 0.0f, -0.0f, INFINITY, -INFINITY, NAN, 1e-40f, -1e-40f, 1e-30f, 3e38f };
  return below(40) == 0 ? odd[below(9)] : (float)(below(2001) - 1000) / 257;
}

static struct problem channels_of(uint64_t seed) {
  static const int64_t kernels[] = { 1, 2, 3, 3, 4, 5, 7, 7, 9 };
  state = seed * 2654435761u + 777;
  struct problem p = { .axes = 2, .n = 1 + below(3), .groups = 2 + below(seed % 3 ? 5 : 40), .is_flipped = (int)below(2), .size = { 1 }, .kernel = { 1 } };
  p.channels = p.groups, p.out = p.groups * (1 + below(2));
  for (int k = 0; k < BETWEEN; k++) {
    p.stride[k] = k && below(3) == 0 ? 2 + below(2) : 1, p.dilation[k] = k && below(4) == 0 ? 2 : 1, p.spread[k] = 1;
    if (!k) continue;
    p.kernel[k] = kernels[below(9)], p.size[k] = 1 + below(below(4) == 0 ? 80 : 12);
    p.before[k] = below(5) - 1, p.after[k] = below(5) - 1;
    while (p.size[k] + p.before[k] + p.after[k] < (p.kernel[k] - 1) * p.dilation[k] + 1) p.size[k]++;
  }
  return p;
}

/* The order is told, so every bit is; whether channels or places lie side by side, of whole vectors or of less, by any threads. */
TEST(one_channel_a_group_is_added_in_the_order_of_its_kernel_by_planes_and_by_channels) {
  for (uint64_t seed = 0; seed < 150; seed++) {
    weft_scope *s = weft_scope_open();
    struct problem p = channels_of(seed);
    int64_t xd[4], wd[4], pd[4], t[BETWEEN], at = 0;
    shapes_of(&p, xd, wd);
    pd[0] = xd[0], pd[1] = xd[3], pd[2] = xd[1], pd[3] = xd[2];
    int64_t area = p.size[1] * p.size[2], nx = p.n * area * p.channels, nw = p.out * p.kernel[1] * p.kernel[2];
    float *x = malloc(sizeof *x * (size_t)nx), *planes = malloc(sizeof *x * (size_t)nx), *w = malloc(sizeof *w * (size_t)nw);
    for (int64_t i = 0; i < nx; i++) x[i] = rough();
    for (int64_t i = 0; i < nw; i++) w[i] = rough();
    for (int64_t i = 0; i < nx; i++) planes[(i / p.channels / area * p.channels + i % p.channels) * area + i / p.channels % area] = x[i];
    weft_array *kernel = weft_from(WEFT_F32, 4, wd, w), *shown = weft_transpose(weft_from(WEFT_F32, 4, pd, planes), (int[]){ 0, 2, 3, 1 });
    weft_array *both[] = { conv_of(&p, weft_from(WEFT_F32, 4, xd, x), kernel), conv_of(&p, shown, kernel) };
    int64_t count = p.n * p.out;
    for (int k = 0; k < BETWEEN; k++) count *= t[k] = size_out(&p, k);
    float *y[2] = { malloc(sizeof **y * (size_t)count), malloc(sizeof **y * (size_t)count) };
    for (int k = 0; k < 2; k++) EXPECT_INT(weft_read(both[k], WEFT_F32, y[k], sizeof **y * (size_t)count), WEFT_OK);
    int64_t wrong = 0;
    for (int64_t n = 0; n < p.n; n++)
      for (int64_t i = 0; i < t[1]; i++)
        for (int64_t j = 0; j < t[2]; j++)
          for (int64_t o = 0; o < p.out; o++, at++) {
            float want = one_of_channel(&p, x, w, n, (int64_t[]){ 0, i, j }, o);
            for (int k = 0; k < 2; k++) wrong += isnan(want) ? !isnan(y[k][at]) : memcmp(&want, &y[k][at], sizeof want) != 0;
          }
    if (wrong) test_fail(__FILE__, __LINE__, "problem %llu: %lld of %lld elements differ", (unsigned long long)seed, (long long)wrong, (long long)(2 * count));
    free(x), free(planes), free(w), free(y[0]), free(y[1]);
    weft_scope_discard(s);
  }
}

/* ---- windows that a product reads where they are ---- */

/* Images of 28 columns or more go place by place: several products, which are added as one. */
static struct problem many_places_of(uint64_t seed) {
  state = seed * 2654435761u + 2424;
  struct problem p = { .axes = below(4) ? 2 : 3, .n = 1 + below(3), .groups = 1, .is_flipped = (int)below(2) };
  p.channels = 20 + below(seed % 4 ? 40 : 200), p.out = 16 + below(seed % 3 ? 20 : 90);
  for (int k = 0; k < BETWEEN; k++) {
    bool is_there = k >= BETWEEN - p.axes, is_last = k == BETWEEN - 1;
    p.stride[k] = is_there && below(4) == 0 ? 2 : 1, p.dilation[k] = is_there && !is_last && below(4) == 0 ? 2 : 1, p.spread[k] = 1;
    p.kernel[k] = is_there ? 1 + below(4) : 1, p.size[k] = !is_there ? 1 : is_last ? (28 + below(10)) * p.stride[k] + 4 : 4 + below(5);
    p.before[k] = is_there ? below(4) - 1 : 0, p.after[k] = is_there ? below(4) - 1 : 0;
    while (p.size[k] + p.before[k] + p.after[k] < (p.kernel[k] - 1) * p.dilation[k] + 1) p.size[k]++;
  }
  return p;
}

static struct problem few_places_of(uint64_t seed) {
  state = seed * 2654435761u + 4242;
  struct problem p = { .axes = below(4) ? 2 : 1, .n = 1 + below(3), .groups = 1, .is_flipped = (int)below(2) };
  p.channels = 48 + below(seed % 4 ? 120 : 600), p.out = 16 + below(seed % 3 ? 60 : 200);
  for (int k = 0; k < BETWEEN; k++) {
    bool is_there = k >= BETWEEN - p.axes;
    p.stride[k] = is_there && below(3) == 0 ? 2 : 1, p.dilation[k] = is_there && below(4) == 0 ? 2 : 1, p.spread[k] = 1;
    p.kernel[k] = is_there ? 2 + below(4) : 1, p.size[k] = is_there ? 6 + below(p.axes == 1 ? 40 : 18) : 1;
    p.before[k] = is_there ? below(4) - 1 : 0, p.after[k] = is_there ? below(4) - 1 : 0;
    while (p.size[k] + p.before[k] + p.after[k] < (p.kernel[k] - 1) * p.dilation[k] + 1) p.size[k]++;
  }
  return p;
}

static weft_array *rough_of(weft_dtype t, int rank, const int64_t dims[]) {
  int64_t n = 1;
  for (int k = 0; k < rank; k++) n *= dims[k];
  float *v = malloc(sizeof *v * (size_t)n);
  for (int64_t i = 0; i < n; i++) v[i] = below(900) ? (float)(below(2001) - 1000) / 257 : rough();
  weft_array *x = weft_cast(weft_from(WEFT_F32, rank, dims, v), t);
  free(v);
  return x;
}

/* Channels last, or in front and shown so, of x and of w; some are gone on with. */
static double *places(struct problem p, uint64_t seed, const char *way, size_t *n, int *n_so) {
  weft_scope *s = weft_scope_open();
  weft_dtype t = seed % 5 ? WEFT_F32 : WEFT_F64;
  int64_t xd[BETWEEN + 2], wd[BETWEEN + 2];
  int rank = p.axes + 2;
  shapes_of(&p, xd, wd);
  weft_array *x = rough_of(t, rank, xd), *w = rough_of(t, rank, wd);
  weft_array *given[] = { seed & 1 ? weft_neg(weft_moveaxis(x, -1, 1)) : x, seed & 2 ? weft_neg(weft_moveaxis(w, -1, 1)) : w };
  EXPECT_OK(weft_eval(2, given));
  x = seed & 1 ? weft_moveaxis(given[0], 1, -1) : given[0], w = seed & 2 ? weft_moveaxis(given[1], 1, -1) : given[1];
  weft_array *y = conv_of(&p, x, w);
  if (seed % 4 == 3) y = weft_maximum(weft_add(y, weft_scalar(0.25)), weft_integer(0));
  if (seed % 8 == 5) y = weft_softmax(y, -1);
  *n_so += strstr(weft_show(1, &y, "plan"), way) != NULL;
  double *v = all_f64(y, n);
  weft_scope_discard(s);
  return v;
}

static void check_places(struct problem (*of)(uint64_t), int n_seeds, const char *way, int least) {
  int64_t threads = weft_get(WEFT_THREADS);
  int n_so = 0, none = 0;
  test_watchdog(240);
  for (uint64_t seed = 0; seed < (uint64_t)n_seeds; seed++) {
    size_t n, m;
    way_take(&(struct way){ "", "vm", false, 1 });
    double *want = places(of(seed), seed, way, &n, &none);
    for (int k = 0; k <= FUSED_WAYS; k++) {
      way_take(k < FUSED_WAYS ? &fused_ways[k] : &(struct way){ "16 threads", NULL, true, 16 });
      double *got = places(of(seed), seed, way, &m, &n_so);
      if (n != m || !are_same(got, want, n))
        test_fail(__FILE__, __LINE__, "problem %llu on %s", (unsigned long long)seed, k < FUSED_WAYS ? fused_ways[k].name : "16 threads");
      free(got);
    }
    free(want);
  }
  if (n_so < least) test_fail(__FILE__, __LINE__, "only %d went by %s", n_so, way);
  EXPECT_INT(none, 0);
  way_take(&(struct way){ "", NULL, true, (int)threads });
}

/* Zeros around the array are not multiplied one by one; inf and nan among the weights show that they are multiplied. */
TEST(windows_of_few_places_are_read_where_they_are_with_the_bits_of_one_op_at_a_time) { check_places(few_places_of, 60, "windows of", 60); }
TEST(products_of_many_places_are_added_as_one_with_the_bits_of_one_op_at_a_time) { check_places(many_places_of, 60, ", and a=", 60); }

/* What else is done with the array is done to what it was. */
TEST(windows_of_an_array_that_is_updated_are_multiplied_first) {
  enum { SIZE = 10, CHANNELS = 96, OUT = 32 };
  for (int i = 0; i < 2; i++) {
    weft_scope *s = weft_scope_open(), *body = weft_scope_open();
    weft_array *in[] = { weft_input(WEFT_F32, WEFT_DIMS(1, SIZE, SIZE, CHANNELS)), weft_input(WEFT_F32, WEFT_DIMS(OUT, 3, 3, CHANNELS)) };
    weft_array *x = i ? weft_add(in[0], weft_scalar(0)) : in[0];
    weft_array *out[] = { weft_put(x, weft_slice(x, 1, 0, 7, 1), weft_scalar(9), WEFT_SET), weft_conv(x, in[1], NULL) };
    weft_function *f = weft_compile(body, 2, in, 2, out);
    weft_array *given[] = { weft_full(WEFT_F32, WEFT_DIMS(1, SIZE, SIZE, CHANNELS), 1), weft_full(WEFT_F32, WEFT_DIMS(OUT, 3, 3, CHANNELS), 1) }, *y[2];
    EXPECT_OK(weft_eval(2, given));
    weft_call(f, 2, given, 2, y);
    EXPECT_F64(weft_cast(weft_min(weft_flatten(y[1], 0, -1), 0), WEFT_F64), 9 * CHANNELS);
    EXPECT_F64(weft_cast(weft_max(weft_flatten(y[1], 0, -1), 0), WEFT_F64), 9 * CHANNELS);
    EXPECT_F64(weft_cast(weft_sum(y[0], WEFT_ALL), WEFT_F64), 7 * SIZE * CHANNELS * 9 + 3 * SIZE * CHANNELS);
    weft_scope_discard(s);
  }
}

TEST(a_convolution_in_a_function_takes_any_batch_and_any_size) {
  weft_scope *s = weft_scope_open();
  weft_array *w = counted(WEFT_DIMS(2, 2, 1)), *x = counted(WEFT_DIMS(1, 3, 1)), *x2 = counted(WEFT_DIMS(2, 2, 1)), *y;
  weft_scope *body = weft_scope_open();
  weft_array *in = weft_input(WEFT_F64, WEFT_DIMS(WEFT_ANY, WEFT_ANY, 1)), *out = weft_conv(in, w, NULL);
  weft_function *f = weft_compile(body, 1, &in, 1, &out);
  weft_call(f, 1, &x, 1, &y);
  EXPECT_F64(y, 1, 3, 2, 8);
  weft_call(f, 1, &x2, 1, &y);
  EXPECT_F64(y, 1, 3, 3, 13);
  weft_scope_discard(s);
}

TEST(halves_are_convolved_in_single_precision_and_rounded_once) {
  weft_scope *s = weft_scope_open();
  weft_array *x = weft_full(WEFT_F16, WEFT_DIMS(1, 16, 16, 16), 1), *w = weft_full(WEFT_F16, WEFT_DIMS(1, 3, 3, 16), 1);
  weft_array *y = weft_conv(x, weft_put(w, weft_slice(w, 1, 0, 1, 1), weft_scalar(50), WEFT_SET), NULL);
  EXPECT_INT(weft_dtype_of(y), WEFT_F16);
  EXPECT_F64(weft_cast(weft_at(weft_flatten(y, 0, -1), 0, weft_integer(3)), WEFT_F64), 2496); /* 3 * 16 * (50 + 1 + 1) */
  weft_scope_discard(s);
}

TEST(nonsense_convolutions_say_what_is_wrong) {
  weft_scope *s = weft_scope_open();
  weft_array *x = counted(WEFT_DIMS(2, 5, 4)), *w = counted(WEFT_DIMS(6, 3, 4));
  int64_t zero = 0, far = -3;
  EXPECT_INT(weft_check(weft_conv(x, counted(WEFT_DIMS(6, 3, 3)), NULL)), WEFT_ERR_SHAPE);
  EXPECT_TEXT(weft_message(), "weft_conv: [2,5,4] has 4 channels, and [6,3,3] wants 3 in 1 groups");
  EXPECT_INT(weft_check(weft_conv(x, w, &(weft_conv_options){ .groups = 3 })), WEFT_ERR_SHAPE);
  EXPECT_TEXT(weft_message(), "weft_conv: 3 groups do not divide the channels of [2,5,4] and [6,3,4]");
  EXPECT_INT(weft_check(weft_conv(x, counted(WEFT_DIMS(6, 6, 4)), NULL)), WEFT_ERR_SHAPE);
  EXPECT_TEXT(weft_message(), "weft_conv: on axis 1 the kernel [6,6,4] is longer than [2,5,4] with its padding");
  EXPECT_INT(weft_check(weft_conv(x, w, &(weft_conv_options){ .stride = &zero })), WEFT_ERR_ARG);
  EXPECT_INT(weft_check(weft_conv(x, w, &(weft_conv_options){ .before = &far })), WEFT_ERR_SHAPE);
  EXPECT_INT(weft_check(weft_conv(counted(WEFT_DIMS(2, 4)), w, NULL)), WEFT_ERR_SHAPE);
  EXPECT_INT(weft_check(weft_conv(x, weft_at(x, 7, weft_integer(0)), NULL)), WEFT_ERR_SHAPE);
  weft_scope_discard(s);
}
