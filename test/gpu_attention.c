/* gpu_attention.c -- attention tile by tile on the GPU and its derivatives, whose sums have no order to keep, against plain C in
 * doubles: halves and floats, layouts, odd sizes, groups of heads, masks of all kinds, rows that see nothing, scales; and that it is tiles that
 * ran. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <stdio.h>
#include <unistd.h>
#include "assembling.h"
#include "backend/backend.h"
#include "gpu.h"
#include "test.h"

static uint32_t seed = 5;
static float number(void) {
  seed = seed * 1664525u + 1013904223u;
  return (float)(seed >> 8) / (1 << 23) - 1;
}

enum mask_kind { NO_MASK, SEEN, ADDED };
struct attention_case {
  int64_t batch, heads, of, T, S, d, e; /* of: heads of k and v */
  bool is_causal;
  enum mask_kind mask;
  double scale;
  bool is_split;             /* q, k, v stand side by side in one array, heads beside each other */
};

static const struct attention_case cases[] = {
  { 1, 2, 2, 64, 64, 64, 64, false, NO_MASK, 0, false },   { 1, 2, 2, 128, 192, 64, 64, true, NO_MASK, 0, false },
  { 2, 2, 2, 96, 96, 16, 16, true, NO_MASK, 0, true },     { 1, 3, 3, 65, 63, 24, 40, true, NO_MASK, 0.3, false },
  { 1, 4, 2, 33, 70, 32, 32, false, SEEN, 0, false },      { 1, 1, 1, 100, 130, 128, 128, true, NO_MASK, 0, false },
  { 1, 2, 1, 80, 80, 96, 72, true, ADDED, 0, false },      { 1, 1, 1, 40, 129, 7, 5, false, NO_MASK, -0.4, false },
  { 2, 1, 1, 129, 65, 33, 64, true, SEEN, 1, false },      { 1, 1, 1, 130, 50, 64, 48, true, NO_MASK, 0, false },
      /* rows that see nothing */
  { 1, 2, 2, 64, 64, 80, 80, false, ADDED, 0, true },      { 1, 1, 1, 16, 16, 1, 1, false, NO_MASK, 0, false },
};

struct operand { weft_array *x; float *at; };

/* [batch, heads, n, d]; as one part of an array [batch, n, 3, heads, d] if it is split. */
static struct operand operand(weft_dtype t, int64_t batch, int64_t heads, int64_t n, int64_t d, bool is_split) {
  int64_t all = batch * heads * n * d, dims[] = { batch, n, 3, heads, d }, plain[] = { batch, heads, n, d };
  float *raw = calloc((size_t)(3 * all + 1), sizeof *raw);
  struct operand o = { .at = calloc((size_t)all + 1, sizeof(float)) };
  for (int64_t i = 0; i < 3 * all; i++) raw[i] = number();
  if (is_split) {
    o.x = weft_slice(weft_cast(weft_from(WEFT_F32, 5, dims, raw), t), 2, 1, 2, 1);
    o.x = weft_transpose(weft_squeeze(o.x, 2), (const int[]){ 0, 2, 1, 3 });
  } else o.x = weft_cast(weft_from(WEFT_F32, 4, plain, raw), t);
  EXPECT_OK(weft_eval(1, &o.x));
  EXPECT_OK(weft_read(weft_cast(o.x, WEFT_F32), WEFT_F32, o.at, (size_t)all * sizeof(float)));
  free(raw);
  return o;
}

/* ---- in doubles ---- */

/* by_q, by_k: of each row, what p (dy v' - delta) is the difference of, added up: of that much derivatives by q and k are a part off,
 * however little is left. A row that sees one column has a derivative of 0. */
struct want { double *y, *dq, *dk, *dv, *by_q, *by_k; };

static double dot(const float *a, const float *b, int64_t n) {
  double s = 0;
  for (int64_t i = 0; i < n; i++) s += (double)a[i] * b[i];
  return s;
}

/* One head: rows of q, k, v, dy and of the mask, which is NULL or added. */
static void one_head(const struct attention_case *c, double scale, const float *q, const float *k, const float *v, const float *dy,
                     const float *mask, double *y, double *dq, double *dk, double *dv, double *by_q, double *by_k) {
  double *p = calloc((size_t)c->S + 1, sizeof *p);
  for (int64_t i = 0; i < c->T; i++) {
    double most = -INFINITY, sum = 0, delta = 0;
    for (int64_t j = 0; j < c->S; j++) {
      p[j] = dot(q + i * c->d, k + j * c->d, c->d) * scale + (mask ? mask[i * c->S + j] : 0);
      if (c->is_causal && j > i + c->S - c->T) p[j] = -INFINITY;
      most = fmax(most, p[j]);
    }
    if (most == -INFINITY) { /* it sees nothing, and has no part in the derivatives */
      for (int64_t x = 0; x < c->e; x++) y[i * c->e + x] = NAN;
      continue;
    }
    for (int64_t j = 0; j < c->S; j++) sum += p[j] = exp(p[j] - most);
    for (int64_t j = 0; j < c->S; j++) p[j] /= sum;
    for (int64_t j = 0; j < c->S; j++) delta += p[j] * dot(dy + i * c->e, v + j * c->e, c->e);
    for (int64_t j = 0; j < c->S; j++) {
      double dp = dot(dy + i * c->e, v + j * c->e, c->e), ds = p[j] * (dp - delta) * scale;
      by_q[i] += p[j] * (fabs(dp) + fabs(delta)) * fabs(scale), by_k[j] += p[j] * (fabs(dp) + fabs(delta)) * fabs(scale);
      for (int64_t x = 0; x < c->e; x++) y[i * c->e + x] += p[j] * v[j * c->e + x], dv[j * c->e + x] += p[j] * dy[i * c->e + x];
      for (int64_t x = 0; x < c->d; x++) dq[i * c->d + x] += ds * k[j * c->d + x], dk[j * c->d + x] += ds * q[i * c->d + x];
    }
  }
  free(p);
}

static double largest(const double *x, int64_t n) {
  double most = 0;
  for (int64_t i = 0; i < n; i++) if (isfinite(x[i])) most = fmax(most, fabs(x[i]));
  return most;
}

/* As near as sums of halves are: a part of the largest, and of the element itself. Of floats a part of `least`, too. */
static void expect_near(const char *what, const struct attention_case *c, weft_dtype t, weft_array *got, const double *want,
    int64_t n, double least) {
  float *x = calloc((size_t)n + 1, sizeof *x);
  double unit = t == WEFT_F32 ? 0x1p-20 : t == WEFT_BF16 ? 0x1p-7 : 0x1p-10, most = fmax(largest(want, n), t == WEFT_F32 ? least : 0), worst = 0;
  int64_t n_wrong = 0, at = 0;
  EXPECT_OK(weft_read(weft_cast(got, WEFT_F32), WEFT_F32, x, (size_t)n * sizeof *x));
  for (int64_t i = 0; i < n; i++) {
    double off = fabs(x[i] - want[i]);
    bool is_wrong = isnan(want[i]) ? !isnan(x[i]) : !(off <= unit * (fabs(want[i]) + most));
    if (is_wrong && !n_wrong++) at = i, worst = off;
  }
  if (n_wrong)
    test_fail(__FILE__, __LINE__, "%s, %s, heads %lld of %lld, T %lld S %lld d %lld e %lld: %lld wrong, element %lld is "
              "%g, not %g (off %g)", what,
              weft_dtype_name(t), (long long)c->heads, (long long)c->of, (long long)c->T, (long long)c->S, (long long)c->d,
                  (long long)c->e,
              (long long)n_wrong, (long long)at, x[at], want[at], worst);
  free(x);
}

/* Whether there is room for its tiles. */
static bool has_tiles(enum kir_attention_part part, weft_dtype t, int64_t d, int64_t e) {
  const struct device *g = cuda_device(0);
  return g->attends(g, &(struct kir_attention){ .part = part, .dtype = (uint8_t)t, .d = (int)d, .e = (int)e });
}

static bool has_all_tiles(weft_dtype t, int64_t d, int64_t e) {
  return has_tiles(KIR_ATTEND, t, d, e) && has_tiles(KIR_ATTEND_QUERY, t, d, e) && has_tiles(KIR_ATTEND_KEY, t, d, e);
}

/* What there is room for goes by tiles; the rest is products and a softmax. */
static void expect_tiles(const char *plan, weft_dtype t, int64_t d, int64_t e) {
  bool is_found = has_tiles(KIR_ATTEND, t, d, e);
  EXPECT(plan && !strstr(plan, "attend_key on cuda") == !(is_found && has_tiles(KIR_ATTEND_KEY, t, d, e)));
  EXPECT(plan && !strstr(plan, "attend_query on cuda") == !(is_found && has_tiles(KIR_ATTEND_QUERY, t, d, e)));
  if (has_all_tiles(t, d, e)) EXPECT(plan && !strstr(plan, "exp"));
}

static void expect_attention(weft_dtype t, const struct attention_case *c) {
  if (!has_all_tiles(t, c->d, c->e) && c->is_causal && c->T > c->S) return; /* of rows that see nothing a softmax is nan */
  weft_scope *s = weft_scope_open();
  int64_t n_q = c->batch * c->heads * c->T, n_k = c->batch * c->of * c->S;
  struct operand q = operand(t, c->batch, c->heads, c->T, c->d, c->is_split), k = operand(t, c->batch, c->of, c->S, c->d,
      c->is_split),
                 v = operand(t, c->batch, c->of, c->S, c->e, c->is_split), dy = operand(t, c->batch, c->heads, c->T, c->e, false);
  double scale = c->scale ? c->scale : 1 / sqrt((double)c->d);
  float *mask = c->mask ? calloc((size_t)(c->T * c->S), sizeof *mask) : NULL;
  bool *seen = calloc((size_t)(c->T * c->S) + 1, 1);
  for (int64_t i = 0; mask && i < c->T * c->S; i++) {
    seen[i] = number() > -0.5f;
    mask[i] = c->mask == SEEN ? (seen[i] ? 0 : -INFINITY) : 2 * number();
  }
  struct want w = { calloc((size_t)(n_q * c->e), 8), calloc((size_t)(n_q * c->d), 8), calloc((size_t)(n_k * c->d), 8),
      calloc((size_t)(n_k * c->e), 8), calloc((size_t)n_q, 8), calloc((size_t)n_k, 8) };
  for (int64_t h = 0; h < c->batch * c->heads; h++) {
    int64_t of = h / c->heads * c->of + h % c->heads / (c->heads / c->of);
    one_head(c, scale, q.at + h * c->T * c->d, k.at + of * c->S * c->d, v.at + of * c->S * c->e, dy.at + h * c->T * c->e, mask,
             w.y + h * c->T * c->e, w.dq + h * c->T * c->d, w.dk + of * c->S * c->d, w.dv + of * c->S * c->e, w.by_q + h * c->T,
             w.by_k + of * c->S);
  }
  weft_set(WEFT_DEVICE, 1);
  int64_t dims[] = { c->T, c->S };
  weft_attention_options how = { .is_causal = c->is_causal, .scale = c->scale };
  if (c->mask) how.mask = c->mask == SEEN ? weft_from(WEFT_BOOL, 2, dims, seen) : weft_from(WEFT_F32, 2, dims, mask);
  weft_array *y = weft_attention(q.x, k.x, v.x, &how), *x[] = { q.x, k.x, v.x }, *r[4];
  weft_grad(weft_sum(weft_mul(y, dy.x), WEFT_ALL), 3, x, r);
  r[3] = y;
  expect_tiles(weft_show(3, r, "plan"), t, c->d, c->e); /* y is wanted by nobody */
  expect_tiles(weft_show(4, r, "plan"), t, c->d, c->e);
  EXPECT_OK(weft_eval(4, r));
  expect_near("y", c, t, y, w.y, n_q * c->e, 0);
  expect_near("dq", c, t, r[0], w.dq, n_q * c->d, largest(w.by_q, n_q)); /* elements of k and q are below 1 */
  expect_near("dk", c, t, r[1], w.dk, n_k * c->d, largest(w.by_k, n_k));
  expect_near("dv", c, t, r[2], w.dv, n_k * c->e, 0);
  weft_set(WEFT_DEVICE, 0);
  free(q.at), free(k.at), free(v.at), free(dy.at), free(mask), free(seen), free(w.y), free(w.dq), free(w.dk), free(w.dv);
  free(w.by_q), free(w.by_k);
  weft_scope_discard(s);
}

static size_t a_step(void) { return getenv("WEFT_TEST_FEW") ? 5 : 1; } /* under a sanitizer */

TEST(cuda_attention_by_tiles_is_near_that_of_doubles) {
  test_watchdog(400);
  for (size_t i = 0; has_gpu() && i < sizeof cases / sizeof *cases; i += a_step()) expect_attention(i % 2 ? WEFT_F16 : WEFT_BF16, &cases[i]);
}

TEST(cuda_attention_by_tiles_is_near_that_of_doubles_of_the_other_half) {
  test_watchdog(400);
  for (size_t i = 0; has_gpu() && i < sizeof cases / sizeof *cases; i += a_step()) expect_attention(i % 2 ? WEFT_BF16 : WEFT_F16, &cases[i]);
}

TEST(cuda_attention_of_floats_by_tiles_is_near_that_of_doubles) {
  test_watchdog(400);
  for (size_t i = 0; has_gpu() && i < sizeof cases / sizeof *cases; i += a_step()) expect_attention(WEFT_F32, &cases[i]);
}

/* With one scale for all of them, which is written in their kernels: they differ in the sizes of heads alone. */
/* A half among floats, elements that are put together by turns, and rotary positions of a query of halves. */
static weft_array *mixed(weft_array *const x[], int which) {
  weft_array *q = x[0], *k = x[1];
  if (which == 0) q = weft_cast(q, WEFT_F32);
  if (which == 1) k = weft_cast(k, WEFT_F32);
  if (which == 2) q = weft_repeat(weft_slice(q, 3, 0, WEFT_END, 2), 3, 2);
  if (which == 3) k = weft_reshape(weft_stack(4, 2, (weft_array *[]){ weft_slice(k, 3, 0, WEFT_END, 2), weft_slice(k, 3, 1, WEFT_END, 2) }), 4,
                                   (const int64_t[]){ 1, 2, 64, 64 });
  if (which == 4) q = weft_rope(q, NULL);
  return weft_cast(weft_attention(q, k, x[2], NULL), WEFT_F32);
}

TEST(cuda_attention_of_operands_of_two_kinds_is_near_that_of_the_host) {
  if (!has_gpu()) return;
  for (int which = 0; which < 10; which++) {
    weft_scope *s = weft_scope_open();
    weft_dtype t = which % 2 ? WEFT_F16 : WEFT_BF16;
    weft_array *x[3];
    size_t bytes;
    float *got[2];
    for (int k = 0; k < 3; k++) x[k] = weft_mul(numbers(t, 4, (int64_t[]){ 1, 2, 64, 64 }), weft_scalar(0.25 * (k + 1)));
    EXPECT_OK(weft_eval(3, x));
    for (int device = 0; device < 2; device++) weft_set(WEFT_DEVICE, device), got[device] = bits_of(mixed(x, which / 2), &bytes);
    weft_set(WEFT_DEVICE, 0);
    for (size_t i = 0; i < bytes / sizeof(float); i++) EXPECT(fabsf(got[0][i] - got[1][i]) <= 0x1p-5f * (1 + fabsf(got[0][i])));
    free(got[0]), free(got[1]);
    weft_scope_discard(s);
  }
}

/* Masks hide by adding a number that is as good as -inf, but where a row sees nothing else: that row is a mean. Every third row of
 * those of x; others see the columns before them. y, and derivatives by what is made of rows that see something. */
static int hidden_by(float number, weft_array *const x[3], weft_array *r[4]) {
  enum { T = 100, S = 70 };
  float *mask = calloc(T * S, sizeof *mask), some[T];
  for (int i = 0; i < T; i++) {
    some[i] = i % 3 != 1;
    for (int j = 0; j < S; j++) mask[i * S + j] = i % 3 == 1 || j > i ? number : j % 5 ? 0 : -1.5f;
  }
  weft_attention_options how = { .mask = weft_from(WEFT_F32, WEFT_DIMS(T, S), mask) };
  free(mask);
  r[3] = weft_cast(weft_attention(x[0], x[1], x[2], &how), WEFT_F32);
  weft_array *counts = weft_mul(r[3], weft_from(WEFT_F32, WEFT_DIMS(T, 1), some));
  weft_grad(weft_sum(weft_mul(counts, counts), WEFT_ALL), 3, x, r);
  for (int k = 0; k < 3; k++) r[k] = weft_cast(r[k], WEFT_F32);
  return 4;
}

TEST(cuda_attention_of_rows_that_a_mask_of_numbers_hides_is_near_that_of_the_host) {
  static const float numbers_that_hide[] = { -3.40282347e38f, -1e30f, -1e10f, -1e9f };
  if (!has_gpu()) return;
  for (int i = 0; i < 3 * 4; i++) {
    weft_scope *s = weft_scope_open();
    weft_dtype t = i % 3 ? i % 3 == 1 ? WEFT_F16 : WEFT_BF16 : WEFT_F32;
    weft_array *x[3];
    for (int k = 0; k < 3; k++)
      x[k] = weft_mul(numbers(t, 4, (int64_t[]){ 1, 2, k ? 70 : 100, 32 }), weft_cast(weft_scalar(0.25), t));
    EXPECT_OK(weft_eval(3, x));
    float *got[2][4], unit = t == WEFT_F32 ? 0x1p-16f : 0x1p-5f;
    size_t bytes[4];
    for (int device = 0; device < 2; device++) {
      weft_array *r[4];
      weft_set(WEFT_DEVICE, device);
      int n = hidden_by(numbers_that_hide[i / 3], x, r);
      if (device) expect_tiles(weft_show(n, r, "plan"), t, 32, 32);
      for (int k = 0; k < n; k++) got[device][k] = bits_of(r[k], &bytes[k]);
    }
    weft_set(WEFT_DEVICE, 0);
    for (int k = 0; k < 4; k++) {
      float most = 1;
      for (size_t j = 0; j < bytes[k] / sizeof(float); j++) most = fmaxf(most, fabsf(got[0][k][j]));
      for (size_t j = 0; j < bytes[k] / sizeof(float); j++)
        if (!(fabsf(got[0][k][j] - got[1][k][j]) <= unit * most)) {
          test_fail(__FILE__, __LINE__, "%s hidden by %g, result %d, element %zu: %g, not %g", weft_dtype_name(t),
                    (double)numbers_that_hide[i / 3], k, j, (double)got[1][k][j], (double)got[0][k][j]);
          break;
        }
      free(got[0][k]), free(got[1][k]);
    }
    weft_scope_discard(s);
  }
}

TEST(cuda_attention_by_tiles_of_heads_of_other_sizes_is_another_kernel) {
  static const weft_dtype types[] = { WEFT_F32, WEFT_BF16 };
  static const struct attention_case sized[] = {
    { 1, 2, 1, 64, 66, 48, 48, false, NO_MASK, 0.3, false }, { 1, 2, 1, 64, 66, 32, 48, false, NO_MASK, 0.3, false },
    { 1, 2, 1, 64, 66, 32, 24, false, NO_MASK, 0.3, false }, { 1, 2, 1, 64, 66, 80, 24, false, NO_MASK, 0.3, false },
  };
  test_watchdog(400);
  for (int t = 0; t < 2; t++)
    for (size_t i = 0; has_gpu() && i < sizeof sized / sizeof *sized; i++) expect_attention(types[t], &sized[i]);
}

/* ---- results in parts of an array ---- */

/* Part k of x [batch, T, first + 3 heads d] as [batch, heads, T, d]. */
static weft_array *part_of(weft_array *x, int k, int64_t first, int64_t heads, int64_t d) {
  weft_array *part = weft_slice(x, 2, first + k * heads * d, first + (k + 1) * heads * d, 1);
  return weft_moveaxis(weft_reshape(part, 4, (int64_t[]){ weft_dim(x, 0), weft_dim(x, 1), heads, d }), 2, 1);
}

/* The derivative by one array that queries, keys and values are parts of has the bits of those by each. It is written there at once
 * where parts are aligned, and `first` columns before them are not looked at. */
static void expect_parts(weft_dtype t, int64_t first, int64_t heads, int64_t d, bool is_at_once) {
  enum { BATCH = 2, T = 80 };
  weft_scope *s = weft_scope_open();
  int64_t columns = first + 3 * heads * d, n = BATCH * T * columns, dims[] = { BATCH, T, columns };
  float *raw = calloc((size_t)n, sizeof *raw), *got[3], *want[3];
  for (int64_t i = 0; i < n; i++) raw[i] = number();
  weft_array *all = weft_cast(weft_from(WEFT_F32, 3, dims, raw), t), *x[3], *y, *r[3], *by;
  struct operand dy = operand(t, BATCH, heads, T, d, false);
  weft_set(WEFT_DEVICE, 1);
  for (int k = 0; k < 3; k++) x[k] = part_of(all, k, first, heads, d);
  y = weft_attention(x[0], x[1], x[2], &(weft_attention_options){ .is_causal = true });
  weft_grad(weft_sum(weft_mul(y, dy.x), WEFT_ALL), 1, &all, &by);
  const char *plan = weft_show(1, &by, "plan");
  expect_tiles(plan, t, d, d);
  is_at_once &= !strstr(plan, "exp");
  EXPECT(plan && !strstr(plan, "copy on cuda") == is_at_once);
  EXPECT_OK(weft_eval(1, &by));
  EXPECT_OK(weft_eval(3, x));
  y = weft_attention(x[0], x[1], x[2], &(weft_attention_options){ .is_causal = true });
  weft_grad(weft_sum(weft_mul(y, dy.x), WEFT_ALL), 3, x, r);
  EXPECT_OK(weft_eval(3, r));
  size_t bytes = (size_t)(BATCH * T * heads * d) * sizeof(float);
  for (int k = 0; k < 3; k++) {
    got[k] = malloc(bytes), want[k] = malloc(bytes);
    EXPECT_OK(weft_read(weft_cast(part_of(by, k, first, heads, d), WEFT_F32), WEFT_F32, got[k], bytes));
    EXPECT_OK(weft_read(weft_cast(r[k], WEFT_F32), WEFT_F32, want[k], bytes));
    EXPECT(!memcmp(got[k], want[k], bytes));
    free(got[k]), free(want[k]);
  }
  for (int64_t i = 0; i < BATCH * T && first; i++) { /* columns that nothing reads */
    weft_array *row = weft_slice(weft_reshape(by, 2, (int64_t[]){ BATCH * T, columns }), 0, i, i + 1, 1);
    float before[8];
    EXPECT_OK(weft_read(weft_cast(weft_slice(row, 1, 0, first, 1), WEFT_F32), WEFT_F32, before, (size_t)first * sizeof(float)));
    for (int64_t k = 0; k < first; k++) EXPECT(before[k] == 0);
    if (i) i = BATCH * T - 1; /* two will do */
  }
  weft_set(WEFT_DEVICE, 0);
  free(raw), free(dy.at);
  weft_scope_discard(s);
}

TEST(cuda_derivatives_of_attention_are_written_where_their_array_stands) {
  static const weft_dtype types[] = { WEFT_BF16, WEFT_F16, WEFT_F32 };
  test_watchdog(400);
  for (int t = 0; has_gpu() && t < 3; t++) {
    expect_parts(types[t], 0, 2, 64, true);
    expect_parts(types[t], 0, 3, 24, true);
    expect_parts(types[t], 0, 1, 16, true);
    expect_parts(types[t], 0, 2, 20, false);
    expect_parts(types[t], 0, 1, 7, false);
    expect_parts(types[t], 1, 2, 64, false);
  }
}

/* Layers that share their weights: the body of a loop is planned for the device as what stands outside. */
TEST(cuda_attention_in_a_loop_goes_by_tiles_with_the_bits_of_the_same_outside) {
  enum { LAYERS = 3 };
  if (!has_gpu()) return;
  weft_scope *s = weft_scope_open();
  struct operand x = operand(WEFT_F32, 1, 2, 40, 16, false), k = operand(WEFT_F32, 1, 2, 48, 16, false), v = operand(WEFT_F32, 1, 2, 48, 16, false);
  size_t bytes;
  weft_set(WEFT_DEVICE, 1);
  weft_loop *l = weft_loop_open(weft_integer(LAYERS));
  weft_array *a = weft_loop_carry(l, x.x), *plain = x.x;
  weft_loop_next(l, a, weft_attention(a, k.x, v.x, NULL));
  weft_array *y = weft_loop_last(l, a);
  weft_loop_close(l);
  for (int i = 0; i < LAYERS; i++) plain = weft_attention(plain, k.x, v.x, NULL);
  const char *plan = weft_show(1, &y, "plan");
  EXPECT(plan && strstr(plan, "attend on cuda"));
  void *got = bits_of(y, &bytes), *want = bits_of(plain, &bytes);
  EXPECT(!memcmp(got, want, bytes));
  free(got), free(want), free(x.at), free(k.at), free(v.at);
  weft_set(WEFT_DEVICE, 0);
  weft_scope_discard(s);
}

/* ---- ptxas ---- */

/* The compiler has wgmma wait for each other in a kernel with calls, as divisions are. */
TEST(cuda_attention_by_groups_has_no_calls) {
  if (!has_gpu()) return;
  weft_scope *s = weft_scope_open();
  struct operand q = operand(WEFT_BF16, 1, 1, 64, 64, false);
  weft_set(WEFT_DEVICE, 1);
  weft_array *y = weft_attention(q.x, q.x, q.x, NULL), *dq;
  weft_grad(weft_sum(y, WEFT_ALL), 1, &q.x, &dq);
  const char *text = weft_show(1, &dq, "ptx");
  for (const char *at = strstr(text, "\n.version"), *end; at; at = end) {
    end = strstr(at + 1, "\n.version");
    const char *group = strstr(at, "wgmma"), *quotient = strstr(at, "div.rn.f");
    if (group && (!end || group < end)) EXPECT(!quotient || (end && quotient > end));
  }
  weft_set(WEFT_DEVICE, 0);
  free(q.at);
  weft_scope_discard(s);
}

/* Adds each module of a text. */
static void add_modules(struct assembling *a, const char *text) {
  for (const char *s = strstr(text, "\n.version"), *end; s; s = end) {
    end = strstr(s + 1, "\n.version");
    assembling_add(a, "module", s, end ? (int)(end - s) : (int)strlen(s));
  }
}

TEST(cuda_attention_by_tiles_is_assembled) {
  static const weft_dtype types[] = { WEFT_BF16, WEFT_F16, WEFT_F32 };
  struct assembling a;
  test_watchdog(200);
  if (!has_gpu() || !assembling_begin(&a)) return;
  for (int i = 0; i < 3; i++) {
    weft_scope *s = weft_scope_open();
    int64_t d = has_tiles(KIR_ATTEND, types[i], 64, 64) && has_tiles(KIR_ATTEND_QUERY, types[i], 64, 64) ? 64 : 24;
    struct operand q = operand(types[i], 1, 1, 64, d, false), dy = operand(types[i], 1, 1, 64, d, false);
    weft_set(WEFT_DEVICE, 1);
    weft_array *y = weft_attention(q.x, q.x, q.x, &(weft_attention_options){ .is_causal = true }), *dq;
    weft_grad(weft_sum(weft_mul(y, dy.x), WEFT_ALL), 1, &q.x, &dq);
    int before = a.n_texts;
    add_modules(&a, weft_show(1, &dq, "ptx"));
    EXPECT(a.n_texts >= before + 3);
    weft_set(WEFT_DEVICE, 0);
    free(q.at), free(dy.at);
    weft_scope_discard(s);
  }
  assembling_end(&a, "-O1 -arch=sm_90a");
}

/* Products that the compiler has wait for each other, as where registers are too few or a jump leaves open what is under way, give
 * the same later. */
TEST(cuda_attention_by_groups_is_not_serialized) {
  struct assembling a;
  char command[200];
  test_watchdog(200);
  if (!has_gpu() || !assembling_begin(&a)) return;
  for (int i = 0; i < 4; i++) {
    weft_scope *s = weft_scope_open();
    int64_t d = i < 2 ? 64 : 128;
    struct operand q = operand(WEFT_BF16, 1, 1, 64, d, false), k = operand(WEFT_BF16, 1, 1, 64, d, false);
    weft_set(WEFT_DEVICE, 1);
    weft_array *x[] = { q.x, k.x }, *y = weft_attention(q.x, k.x, k.x, &(weft_attention_options){ .is_causal = i % 2 }), *r[2];
    weft_grad(weft_sum(weft_mul(y, y), WEFT_ALL), 2, x, r);
    add_modules(&a, weft_show(2, r, "ptx"));
    weft_set(WEFT_DEVICE, 0);
    free(q.at), free(k.at);
    weft_scope_discard(s);
  }
  snprintf(command, sizeof command,
           "cd %s && ! for f in *.ptx; do ptxas -v -arch=sm_90a $f -o out.cubin 2>&1; done | grep serialized", a.folder);
  EXPECT_INT(system(command), 0);
  assembling_end(&a, "-O0 -arch=sm_90a");
}
