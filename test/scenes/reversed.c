/* reversed.c -- views that run backwards: read by fused kernels, written by them, differentiated, and in loops. */
#include <math.h>
#include "scene.h"

enum { MOST = 4 * 5 * 67 };
struct grid { int rank; int64_t dims[3]; int64_t n; };
static const struct grid grids[] = {
  { 1, { 7 }, 7 }, { 1, { 67 }, 67 }, { 2, { 5, 6 }, 30 }, { 2, { 3, 67 }, 201 }, { 3, { 2, 3, 4 }, 24 },
  { 3, { 4, 5, 67 }, MOST },
};
static int n_views;

/* Where element i of a row-major grid is after reversing the axes in the set. */
static int64_t mirrored(const struct grid *g, unsigned axes, int64_t i) {
  int64_t at = 0, stride = 1;
  for (int k = g->rank - 1; k >= 0; k--) {
    int64_t j = i % g->dims[k];
    at += (axes >> k & 1 ? g->dims[k] - 1 - j : j) * stride;
    stride *= g->dims[k];
    i /= g->dims[k];
  }
  return at;
}

static weft_array *reversed(weft_array *x, unsigned axes) {
  for (int k = 0; axes >> k; k++)
    if (axes >> k & 1) x = k % 2 ? weft_flip(x, k) : weft_slice(x, k, -1, WEFT_BEGIN, -1);
  return x;
}

static weft_array *grid_from(const struct grid *g, const float *x) { return weft_from(WEFT_F32, g->rank, g->dims, x); }

static void expect_all(const struct grid *g, unsigned axes, const float *got, const float *right, const char *what) {
  for (int64_t i = 0; i < g->n; i++)
    scene_expect(got[i] == right[i], "%s, rank %d, axes %u: element %d is %g, not %g", what, g->rank, axes, (int)i,
                 got[i], right[i]);
}

static bool read_grid(const struct grid *g, weft_array *y, float *got, const char *what) {
  return scene_ok(weft_read(y, WEFT_F32, got, sizeof *got * (size_t)g->n), what);
}

/* compile(2 x[::-1]) and, in one kernel, a sum with what is not reversed. */
static void compiled_read(const struct grid *g, unsigned axes, const float *x) {
  float got[MOST], right[MOST];
  weft_scope *scope = weft_scope_open();
  weft_array *value = grid_from(g, x), *out[2], *y[2];
  weft_scope *body = weft_scope_open();
  weft_array *in = weft_input(WEFT_F32, g->rank, g->dims);
  out[0] = weft_mul(reversed(in, axes), weft_scalar(2));
  out[1] = weft_add(weft_mul(reversed(in, axes), weft_scalar(2)), in);
  weft_function *f = weft_compile(body, 1, &in, 2, out);
  weft_call(f, 1, &value, 2, y);
  for (int64_t i = 0; i < g->n; i++) right[i] = 2 * x[mirrored(g, axes, i)];
  if (read_grid(g, y[0], got, "2 x[::-1]")) expect_all(g, axes, got, right, "2 x[::-1]");
  for (int64_t i = 0; i < g->n; i++) right[i] += x[i];
  if (read_grid(g, y[1], got, "2 x[::-1] + x")) expect_all(g, axes, got, right, "2 x[::-1] + x");
  weft_scope_discard(scope);
}

/* a[::-1] += 3 x, in one kernel, into an array of the scope outside. */
static void fused_write(const struct grid *g, unsigned axes, const float *x) {
  float got[MOST], right[MOST];
  weft_scope *scope = weft_scope_open();
  weft_array *a = grid_from(g, x), *v = grid_from(g, x);
  weft_scope *step = weft_scope_open();
  weft_update(a, weft_put(a, reversed(a, axes), weft_mul(v, weft_scalar(3)), WEFT_ADD));
  if (scene_ok(weft_scope_close(step), "a[::-1] += 3 x") && read_grid(g, a, got, "a[::-1] += 3 x")) {
    for (int64_t i = 0; i < g->n; i++) right[i] = x[i] + 3 * x[mirrored(g, axes, i)];
    expect_all(g, axes, got, right, "a[::-1] += 3 x");
  }
  weft_scope_discard(scope);
}

/* d/dx sum w tanh(x[::-1]) = (w (1 - tanh(x[::-1])^2))[::-1]; and of 2 x[::-1] it is exactly 2 w[::-1]. */
static void gradient(const struct grid *g, unsigned axes, const float *x, const float *w) {
  float got[MOST], right[MOST];
  weft_scope *scope = weft_scope_open();
  weft_array *in = grid_from(g, x), *weight = grid_from(g, w), *dx;
  weft_grad(weft_mul(weft_mul(reversed(in, axes), weft_scalar(2)), weight), 1, &in, &dx);
  for (int64_t i = 0; i < g->n; i++) right[i] = 2 * w[mirrored(g, axes, i)];
  if (read_grid(g, dx, got, "the gradient")) expect_all(g, axes, got, right, "the gradient");
  weft_grad(weft_mul(weft_tanh(reversed(in, axes)), weight), 1, &in, &dx);
  if (read_grid(g, dx, got, "the gradient of tanh"))
    for (int64_t i = 0; i < g->n; i++) {
      double t = tanh(x[i]), d = w[mirrored(g, axes, i)] * (1 - t * t);
      scene_expect(fabs(got[i] - d) < 1e-5, "tanh, axes %u: gradient %d is %g, not %g", axes, (int)i, got[i], d);
    }
  weft_scope_discard(scope);
}

static void nothing(void *ctx) { (void)ctx; }

/* Memory of others that runs backwards already: negative strides from the start. */
static void foreign(const struct grid *g, unsigned axes, float *x) {
  float got[MOST], right[MOST];
  int64_t strides[3], stride = 1;
  float *first = x;
  for (int k = g->rank - 1; k >= 0; k--) {
    bool is_back = axes >> k & 1;
    strides[k] = is_back ? -stride : stride;
    if (is_back) first += (g->dims[k] - 1) * stride;
    stride *= g->dims[k];
  }
  weft_scope *scope = weft_scope_open();
  weft_block block = { first, 0, WEFT_F32, g->rank, g->dims, strides };
  weft_array *y = weft_mul(weft_external(&block, nothing, NULL), weft_scalar(2));
  for (int64_t i = 0; i < g->n; i++) right[i] = 2 * x[mirrored(g, axes, i)];
  if (read_grid(g, y, got, "2 x, x backwards in memory")) expect_all(g, axes, got, right, "2 x, x backwards in memory");
  weft_scope_discard(scope);
}

/* Other element types, whose elements have other widths. */
static void other_types(void) {
  static const weft_dtype types[] = { WEFT_F64, WEFT_F16, WEFT_BF16, WEFT_I64, WEFT_I32, WEFT_I16, WEFT_U8 };
  for (int t = 0; t < 7; t++) {
    float x[67], got[67];
    for (int i = 0; i < 67; i++) x[i] = (float)i;
    weft_scope *scope = weft_scope_open();
    weft_array *in = weft_cast(weft_from(WEFT_F32, WEFT_DIMS(67), x), types[t]);
    if (scene_ok(weft_eval(1, &in), "a cast")) {
      weft_array *y = weft_cast(weft_mul(weft_flip(in, 0), weft_integer(2)), WEFT_F32);
      if (scene_ok(weft_read(y, WEFT_F32, got, sizeof got), "2 x[::-1]"))
        for (int i = 0; i < 67; i++)
          scene_expect(got[i] == 2 * x[66 - i], "%s: element %d is %g", weft_dtype_name(types[t]), i, got[i]);
    }
    weft_scope_discard(scope);
  }
}

/* h_t = tanh(a h_{t-1} + x_t): the gradient walks the trace from its end. */
static void loop_gradient(int steps) {
  enum { LONGEST = 1000 };
  float x[LONGEST], w[LONGEST], dx[LONGEST], da, a = 0.7f;
  double h[LONGEST + 1] = { 0 }, back = 0, right_da = 0, right_dx[LONGEST];
  for (int t = 0; t < steps; t++) x[t] = (float)sin(t), w[t] = (float)cos(3 * t);
  for (int t = 0; t < steps; t++) h[t + 1] = tanh(a * h[t] + x[t]);
  for (int t = steps - 1; t >= 0; t--) {
    right_dx[t] = (back + w[t]) * (1 - h[t + 1] * h[t + 1]);
    right_da += right_dx[t] * h[t];
    back = right_dx[t] * a;
  }
  weft_scope *scope = weft_scope_open();
  weft_array *in[2] = { weft_from(WEFT_F32, WEFT_DIMS(steps), x), weft_from(WEFT_F32, 0, NULL, &a) }, *d[2];
  weft_loop *loop = weft_loop_open(NULL);
  weft_array *x_t = weft_loop_each(loop, in[0]), *h_t = weft_loop_carry(loop, weft_full(WEFT_F32, 0, NULL, 0));
  weft_array *next = weft_tanh(weft_add(weft_mul(in[1], h_t), x_t));
  weft_loop_next(loop, h_t, next);
  weft_array *trace = weft_loop_all(loop, next);
  weft_loop_close(loop);
  weft_grad(weft_mul(trace, weft_from(WEFT_F32, WEFT_DIMS(steps), w)), 2, in, d);
  if (scene_ok(weft_read(d[0], WEFT_F32, dx, sizeof *dx * (size_t)steps), "the gradient of a loop") &&
      scene_ok(weft_read(d[1], WEFT_F32, &da, sizeof da), "the gradient of a loop")) {
    for (int t = 0; t < steps; t++)
      scene_expect(fabs(dx[t] - right_dx[t]) < 1e-4, "%d steps: dx[%d] is %g, not %g", steps, t, dx[t], right_dx[t]);
    double room = 1e-3 * (1 + fabs(right_da));
    scene_expect(fabs(da - right_da) < room, "%d steps: da is %g, not %g", steps, da, right_da);
  }
  weft_scope_discard(scope);
}

int main(int argc, char **argv) {
  static float x[MOST], w[MOST];
  scene_start(argc, argv, "compile(2 x[::-1]) gives zeros; a fused write into a[::-1] writes one element");
  bool is_gpu = argc > 1 && !strcmp(argv[1], "gpu");
  for (int i = 0; i < MOST; i++) x[i] = (float)(i % 251) / 64 - 2, w[i] = (float)(i * 7 % 113) - 50;
  for (int i = 0; i < (int)(sizeof grids / sizeof *grids); i++)
    for (unsigned axes = 1; axes < 1u << grids[i].rank; axes++, n_views++) {
      compiled_read(&grids[i], axes, x);
      fused_write(&grids[i], axes, x);
      gradient(&grids[i], axes, x, w);
      if (!is_gpu) foreign(&grids[i], axes, x);
    }
  if (!is_gpu) other_types();
  static const int steps[] = { 1, 2, 37, 1000 };
  for (int i = 0; i < 4; i++) loop_gradient(steps[i]);
  return scene_end("%d reversed views are read, written and differentiated element by element, and the trace of a loop",
                   n_views);
}
