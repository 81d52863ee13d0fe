/* vm_kernels.c -- every kernel of test/kernels on the vm against plain C.
 *
 * A row is a kernel, the sizes to try, what to put in beyond random numbers, and what should come out. Sums are written
 * here a second time, straight from docs/kir.md, and compared by bits; what goes through exp, log or tanh is compared
 * with libm, closely. vm_case.c runs each in all the ways that must not matter. */
#include <math.h>
#include <stdlib.h>
#include "kernels.h"
#include "graph/dtype.h"
#include "vm_case.h"

#define F(name) float *name = case_in(c, #name)
#define WANT(name) float *name = case_want(c, #name)
#define N(name) int64_t name = case_size(c, #name)

/* ---- The orders of sums ---------------------------------------------------------------------------------------------- */

/* Blocks combine as a binary counter: split at the largest power of two below their number. */
static float counter(const float *part, int64_t n) {
  if (n == 1) return part[0];
  int64_t p = 1;
  while (2 * p < n) p *= 2;
  return counter(part, p) + counter(part + p, n - p);
}
static float in_blocks(const float *x, int64_t n, int64_t stride, int64_t size, int accs) {
  float *part = malloc(sizeof(float) * (size_t)(n / size + 1)), r;
  int64_t m = 0;
  if (!n) { free(part); return 0; }
  for (int64_t b = 0; b < n; b += size) {
    float acc[32] = {0};
    for (int64_t j = b; j < n && j < b + size; j++) acc[j % accs] += x[j * stride];
    for (int h = accs / 2; h; h /= 2)
      for (int l = 0; l < h; l++) acc[l] += acc[l + h];
    part[m++] = acc[0];
  }
  r = counter(part, m);
  free(part);
  return r;
}
static float row_sum(const float *x, int64_t n, int64_t stride) { return in_blocks(x, n, stride, 4096, 32); }
static float col_sum(const float *x, int64_t n, int64_t stride) { return in_blocks(x, n, stride, 128, 1); }

static void running_sum(const float *x, float *y, int64_t n, int64_t stride) {
  float offset = 0, local = 0;
  for (int64_t j = 0; j < n; j++) {
    if (j && j % 4096 == 0) offset = y[(j - 1) * stride];
    local = j % 4096 ? local + x[j * stride] : x[j * stride];
    y[j * stride] = j < 4096 ? local : offset + local;
  }
}

static float largest(float a, float b) { /* IEEE maximum */
  if (a != a || b != b) return NAN;
  return a == 0 && b == 0 ? (signbit(a) ? b : a) : a > b ? a : b;
}

/* ---- Elementwise ----------------------------------------------------------------------------------------------------- */

static void muladd(struct vm_case *c) {
  F(a); F(b); WANT(y);
  float *z = case_in(c, "c");
  for (int64_t i = 0; i < case_size(c, "R") * case_size(c, "C"); i++) y[i] = a[i] * b[i] + z[i];
}
static void where_const(struct vm_case *c) {
  F(z); WANT(y);
  case_arg_f32(c, "zero", 0), case_arg_f32(c, "other", NAN);
  for (int64_t i = 0; i < case_size(c, "N"); i++) y[i] = z[i] >= 0 ? z[i] : NAN;
}
static void reversed_write(struct vm_case *c) {
  F(x); WANT(y); N(N);
  case_arg_f32(c, "two", 2);
  for (int64_t i = 0; i < N; i++) y[N - 1 - i] = 2 * x[i];
}
static void weave(struct vm_case *c) {
  F(a); F(b); WANT(y); N(N);
  for (int64_t i = 0; i < N; i++) y[3 * i] = a[i], y[3 * i + 1] = b[i], y[3 * i + 2] = -a[i];
}
static void transposed_add(struct vm_case *c) {
  F(a); F(b); WANT(y); N(R); N(C);
  for (int64_t i = 0; i < R * C; i++) y[i] = a[i] + b[i % C * R + i / C];
}
static float round_bf16(float x) { return case_from_bf16(case_to_bf16(x)); }
static void bf16_muladd(struct vm_case *c) {
  uint16_t *a = case_in(c, "a"), *b = case_in(c, "b"), *z = case_in(c, "c"), *y = case_want(c, "y");
  for (int64_t i = 0; i < case_size(c, "N"); i++)
    y[i] = case_to_bf16(round_bf16(case_from_bf16(a[i]) * case_from_bf16(b[i])) + case_from_bf16(z[i]));
}
static void complex_mul(struct vm_case *c) {
  F(a); F(b); WANT(y);
  for (int64_t i = 0; i < 2 * case_size(c, "N"); i += 2) {
    y[i] = a[i] * b[i] - a[i + 1] * b[i + 1];
    y[i + 1] = a[i] * b[i + 1] + a[i + 1] * b[i];
  }
}
static void mixed_widths(struct vm_case *c) {
  uint8_t *keepit = case_in(c, "keepit"), *half = case_want(c, "half");
  int64_t *idx = case_in(c, "idx");
  F(x); F(z); WANT(y); N(N); N(M);
  for (int64_t i = 0; i < N; i++) {
    keepit[i] = M && case_random() % 2 ? keepit[i] | 1 : 0;
    ((uint8_t *)case_want(c, "keepit"))[i] = keepit[i];
    idx[i] = keepit[i] ? (int64_t)(case_random() % (uint64_t)M) : -5;
    ((int64_t *)case_want(c, "idx"))[i] = idx[i];
    y[i] = keepit[i] ? x[idx[i]] : z[i];
    half[i] = (uint8_t)(keepit[i] * 3);
  }
}
static void pad_consumer(struct vm_case *c) {
  F(x); F(z); WANT(y); N(N); N(M); N(lo);
  case_arg_f32(c, "fill", NAN);
  for (int64_t i = 0; i < M; i++) {
    float a = lo <= i && i - lo < N ? x[i - lo] : NAN;
    y[i] = a * a + z[i];
  }
}
static void concat(struct vm_case *c) {
  F(a); F(b); WANT(y); N(R); N(A); N(B);
  for (int64_t r = 0; r < R; r++) {
    for (int64_t i = 0; i < A; i++) y[r * (A + B) + i] = a[r * A + i];
    for (int64_t i = 0; i < B; i++) y[r * (A + B) + A + i] = -b[r * B + i];
  }
}
static void slice_update(struct vm_case *c) {
  F(v); WANT(y); N(N); N(M);
  int64_t step = M > 1 ? -((N - 1) / (M - 1)) : 1, start = N - 1;
  case_arg(c, "start", (uint64_t)start), case_arg(c, "step", (uint64_t)step);
  for (int64_t i = 0; i < M; i++) y[start + step * i] = v[i];
}
static uint32_t threefry(uint32_t k0, uint32_t k1, uint32_t count) {
  static const int rot[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
  uint32_t k[3] = {k0, k1, k0 ^ k1 ^ 0x1BD11BDA}, x = count + k0, y = k1;
  for (uint32_t g = 0; g < 5; g++) {
    for (int r = 0; r < 4; r++) x += y, y = (y << rot[g % 2][r] | y >> (32 - rot[g % 2][r])) ^ x;
    x += k[(g + 1) % 3], y += k[(g + 2) % 3] + g + 1;
  }
  return x;
}
static void uniform(struct vm_case *c) {
  WANT(y);
  case_arg(c, "k0", 7), case_arg(c, "k1", 9), case_arg_f32(c, "low", -1), case_arg_f32(c, "span", 2);
  EXPECT_INT(threefry(0, 0, 0), 0x6b200159); /* the published vector */
  for (int64_t i = 0; i < case_size(c, "N"); i++) {
    uint32_t u = threefry(7, 9, (uint32_t)i) >> 9 | 0x3f800000;
    float f;
    memcpy(&f, &u, 4);
    y[i] = -1 + 2 * (f - 1);
  }
}
static void exp_table(struct vm_case *c) {
  F(x); WANT(y); N(N);
  for (int64_t i = 0; i < N; i++) x[i] = i % 7 ? -104 + 193 * (float)i / (float)N : x[i];
  memcpy(case_want(c, "x"), x, sizeof(float) * (size_t)N);
  for (int64_t i = 0; i < N; i++) y[i] = (float)exp(x[i]);
}
static void epilogue(struct vm_case *c) {
  F(acc); F(bias); N(M); N(N);
  uint16_t *res = case_in(c, "res"), *y = case_want(c, "y");
  case_arg_f32(c, "slope", 0.1f);
  for (int64_t i = 0; i < M * N; i++) {
    float h = round_bf16(acc[i] + bias[i % N]), g = round_bf16(h < 0 ? h * 0.1f : h);
    y[i] = case_to_bf16(g + case_from_bf16(res[i]));
  }
}
static void twice(struct vm_case *c) {
  F(x); WANT(y);
  for (int64_t i = 0; i < c->n[case_buf(c, "x")]; i++) y[i] = x[i] + x[i];
}
static void permute3(struct vm_case *c) {
  F(x); WANT(y); N(A); N(B); N(C);
  for (int64_t a = 0; a < A; a++)
    for (int64_t b = 0; b < B; b++)
      for (int64_t k = 0; k < C; k++) y[(k * A + a) * B + b] = x[(a * B + b) * C + k];
}

/* ---- Rows ------------------------------------------------------------------------------------------------------------ */

static void softmax(struct vm_case *c) {
  N(R); N(C); WANT(y);
  const float *x = case_in(c, c->k->bufs[0].kind == KIR_IN ? "x" : "y");
  for (int64_t r = 0; r < R; r++, x += C, y += C) {
    float m = -INFINITY, *e = malloc(sizeof(float) * (size_t)(C + 1));
    for (int64_t j = 0; j < C; j++) m = largest(m, x[j]);
    for (int64_t j = 0; j < C; j++) e[j] = expf(x[j] - m);
    float s = row_sum(e, C, 1);
    for (int64_t j = 0; j < C; j++) y[j] = e[j] / s;
    free(e);
  }
}
static void log_softmax_grad(struct vm_case *c) {
  F(y); F(dy); WANT(dx); N(R); N(C);
  for (int64_t r = 0; r < R; r++) {
    float s = row_sum(dy + r * C, C, 1);
    for (int64_t j = r * C; j < (r + 1) * C; j++) dx[j] = dy[j] - expf(y[j]) * s;
  }
}
static float *moments(const float *x, int64_t C, float eps, float *s) { /* x - mean, and 1 / sqrt(variance + eps) */
  float *d = malloc(sizeof(float) * (size_t)(C + 1)), *sq = malloc(sizeof(float) * (size_t)(C + 1)), mu = row_sum(x, C, 1) / (float)C;
  for (int64_t j = 0; j < C; j++) d[j] = x[j] - mu, sq[j] = d[j] * d[j];
  *s = 1 / sqrtf(row_sum(sq, C, 1) / (float)C + eps);
  free(sq);
  return d;
}
static void layer_norm(struct vm_case *c) {
  F(x); F(w); F(b); WANT(y); N(R); N(C);
  case_arg_f32(c, "eps", 1e-5f);
  for (int64_t r = 0; r < R; r++) {
    float s, *d = moments(x + r * C, C, 1e-5f, &s);
    for (int64_t j = 0; j < C; j++) y[r * C + j] = fmaf(d[j] * s, w[j], b[j]);
    free(d);
  }
}
static void layer_norm_grad(struct vm_case *c) {
  F(x); F(dy); F(w); WANT(dx); WANT(dw); WANT(db); N(R); N(C);
  float *gh = calloc((size_t)(R * C + 1), 4), *k = calloc((size_t)C + 1, 4), *kh = calloc((size_t)C + 1, 4);
  case_arg_f32(c, "eps", 1e-5f);
  for (int64_t r = 0; r < R; r++) {
    float s, *d = moments(x + r * C, C, 1e-5f, &s);
    for (int64_t j = 0; j < C; j++) {
      float g = dy[r * C + j], h = d[j] * s;
      gh[r * C + j] = g * h, k[j] = g * w[j], kh[j] = k[j] * h;
    }
    float pn = row_sum(k, C, 1) / (float)C, tn = row_sum(kh, C, 1) / (float)C;
    for (int64_t j = 0; j < C; j++) dx[r * C + j] = s * ((k[j] - pn) - (d[j] * s) * tn);
    free(d);
  }
  for (int64_t j = 0; j < C; j++) dw[j] = col_sum(gh + j, R, C), db[j] = col_sum(dy + j, R, C);
  free(gh), free(k), free(kh);
}
static void argmax(struct vm_case *c) {
  F(x); N(R); N(C);
  int64_t *y = case_want(c, "y");
  for (int64_t i = 0; i < R * C; i++) x[i] = x[i] == x[i] ? roundf(x[i]) : x[i], ((float *)case_want(c, "x"))[i] = x[i];
  for (int64_t r = 0; r < R; r++) {
    y[r] = C ? 0 : INT64_MAX;
    for (int64_t j = 1; j < C; j++) {
      float best = x[r * C + y[r]], v = x[r * C + j];
      if (best == best && (v != v || v > best)) y[r] = j;
    }
  }
}
static void welford(struct vm_case *c) {
  F(x); WANT(mean); WANT(var); N(R); N(C);
  for (int64_t r = 0; r < R; r++) {
    double m = 0, v = 0;
    for (int64_t j = 0; j < C; j++) m += x[r * C + j] / (double)C;
    for (int64_t j = 0; j < C; j++) v += (x[r * C + j] - m) * (x[r * C + j] - m) / (double)C;
    mean[r] = (float)m, var[r] = C ? (float)v : NAN;
  }
}
static void sum_rows(struct vm_case *c) {
  F(x); WANT(y); N(C);
  for (int64_t r = 0; r < case_size(c, "R"); r++) y[r] = row_sum(x + r * C, C, 1);
}
static void sum_cols(struct vm_case *c) {
  F(x); WANT(y); N(C);
  for (int64_t j = 0; j < C; j++) y[j] = col_sum(x + j, case_size(c, "R"), C);
}
static void sum_axes_0_2(struct vm_case *c) {
  F(x); WANT(y); N(A); N(B); N(C);
  float *s = malloc(sizeof(float) * (size_t)(A + 1));
  for (int64_t b = 0; b < B; b++) {
    for (int64_t a = 0; a < A; a++) s[a] = row_sum(x + (a * B + b) * C, C, 1);
    y[b] = col_sum(s, A, 1);
  }
  free(s);
}
static void full_sum(struct vm_case *c) { F(x); WANT(y); y[0] = row_sum(x, case_size(c, "N"), 1); }
static void logsumexp_0(struct vm_case *c) {
  F(x); WANT(y); N(R); N(C);
  for (int64_t j = 0; j < C; j++) {
    double m = -INFINITY, s = 0;
    for (int64_t r = 0; r < R; r++) m = largest((float)m, x[r * C + j]);
    for (int64_t r = 0; r < R; r++) s += x[r * C + j] == m ? 1 : exp(x[r * C + j] - m);
    y[j] = (float)(m + log(s));
  }
}
static void cumsum_row(struct vm_case *c) {
  F(x); WANT(y); N(C);
  for (int64_t r = 0; r < case_size(c, "R"); r++) running_sum(x + r * C, y + r * C, C, 1);
}
static void cumsum_col(struct vm_case *c) {
  F(x); WANT(y); N(C);
  for (int64_t j = 0; j < C; j++) running_sum(x + j, y + j, case_size(c, "R"), C);
}
static void cummax_row(struct vm_case *c) {
  F(x); WANT(y); N(C);
  for (int64_t i = 0; i < case_size(c, "R") * C; i++) y[i] = i % C ? largest(y[i - 1], x[i]) : x[i];
}
static void cumsum_totals(struct vm_case *c) {
  F(x); WANT(t); N(N);
  for (int64_t i = 0; i < N; i++) t[i / 4096] = i % 4096 ? t[i / 4096] + x[i] : x[i];
}
static void cumsum_offsets(struct vm_case *c) {
  F(t); WANT(o); N(Q);
  float a = -0.0f;
  for (int64_t q = 0; q < Q; q++) o[q] = a, a += t[q];
}
static void cumsum_apply(struct vm_case *c) {
  F(x); F(o); WANT(y); N(N);
  float local = 0;
  for (int64_t i = 0; i < N; i++) local = i % 4096 ? local + x[i] : x[i], y[i] = o[i / 4096] + local;
}
static void recurrence(struct vm_case *c) {
  F(a); WANT(h); WANT(last); N(N);
  double *b = case_in(c, "b"), *g = case_want(c, "g"), *total = case_want(c, "total"), t = 0;
  int32_t *n = case_in(c, "n");
  int64_t *m = case_want(c, "m"), u = 0;
  float s = 1;
  for (int64_t i = 0; i < N; i++) a[i] *= 0.3f;
  memcpy(case_want(c, "a"), a, sizeof(float) * (size_t)N);
  for (int64_t i = 0, j = N - 1; i < N; i++, j--) g[j] = t, t += b[j], s = fmaf(s, a[i], (float)b[j]), h[i] = s, m[i] = u += n[i];
  *last = s, *total = t;
}
static void linear_scan(struct vm_case *c) {
  F(a); F(b); WANT(h); N(R); N(C);
  for (int64_t i = 0; i < R * C; i++) a[i] *= 0.3f;
  memcpy(case_want(c, "a"), a, sizeof(float) * (size_t)(R * C));
  for (int64_t r = 0; r < R; r++) {
    float pa = 0, pb = 0, oa = 0, ob = 0;
    for (int64_t i = r * C, j = 0; j < C; j++, i++) {
      if (j && j % 4096 == 0) oa = j == 4096 ? pa : oa * pa, ob = j == 4096 ? pb : fmaf(ob, pa, pb);
      if (j % 4096 == 0) pa = a[i], pb = b[i];
      else pb = fmaf(pb, a[i], b[i]), pa *= a[i];
      h[i] = j < 4096 ? pb : fmaf(ob, pa, pb);
    }
  }
}

/* ---- Gathers and scatters -------------------------------------------------------------------------------------------- */

static int64_t *indices(struct vm_case *c, int64_t n, int64_t slots, bool wild) {
  int64_t *idx = case_in(c, "idx");
  for (int64_t i = 0; i < n; i++) {
    idx[i] = slots ? (int64_t)(case_random() % (uint64_t)slots) : 0;
    if (wild && (i % 11 == 5 || !slots)) idx[i] = i % 2 ? slots + 3 : -slots - 1;
  }
  memcpy(case_want(c, "idx"), idx, sizeof(int64_t) * (size_t)n);
  return idx;
}
static void failing(struct vm_case *c, const int64_t *idx, int64_t n, int64_t lo, int64_t hi) {
  for (int64_t i = n - 1; i >= 0; i--)
    if (idx[i] < lo || idx[i] >= hi) c->check[0] = i, c->check_of[0] = lo < 0 && idx[i] < 0 ? idx[i] + hi : idx[i];
}
static void embedding(struct vm_case *c) {
  F(w); WANT(y); N(R); N(C); N(V);
  int64_t *idx = indices(c, R, V, true);
  failing(c, idx, R, -V, V);
  for (int64_t r = 0; r < R; r++) {
    int64_t k = idx[r] < 0 ? idx[r] + V : idx[r];
    if (k >= 0 && k < V) memcpy(y + r * C, w + k * C, sizeof(float) * (size_t)C);
  }
}
static void take(struct vm_case *c) {
  F(x); WANT(y); N(N); N(V);
  int64_t *idx = indices(c, N, V, true);
  failing(c, idx, N, 0, V);
  for (int64_t i = 0; i < N; i++)
    if (idx[i] >= 0 && idx[i] < V) y[i] = x[idx[i]];
}
/* Index order inside 4096 updates from -0, then the counter over blocks, then onto y. */
static void scatter_blocks(const int64_t *idx, const float *v, int64_t n, float *y, int64_t slots) {
  int64_t blocks = (n + 4095) / 4096;
  float *part = malloc(sizeof(float) * (size_t)(blocks + 1));
  for (int64_t s = 0; s < slots && blocks; s++) {
    for (int64_t b = 0; b < blocks; b++) {
      part[b] = -0.0f;
      for (int64_t i = b * 4096; i < n && i < (b + 1) * 4096; i++) part[b] += idx[i] == s ? v[i] : -0.0f;
    }
    y[s] += counter(part, blocks);
  }
  free(part);
}
static void scatter_private(struct vm_case *c) {
  F(v); WANT(y); N(N); N(S);
  int64_t *idx = indices(c, N, S, true);
  failing(c, idx, N, 0, S);
  scatter_blocks(idx, v, N, y, S);
}
static float from_f16(uint16_t x) { return (float)dtype_decode(WEFT_F16, x); }
static uint16_t to_f16(float x) { return (uint16_t)dtype_encode(WEFT_F16, (double)x); }
static float round_f16(float x) { return from_f16(to_f16(x)); }

static void crowded_by_a_cast(struct vm_case *c) {
  N(A); N(B); N(C); N(n);
  uint16_t *x = case_in(c, "x"), *y = case_in(c, "y"), *z = case_want(c, "z");
  uint8_t *m = case_in(c, "m");
  for (int64_t i = 0; i < A * C; i++) {
    float sum = 0;
    for (int64_t b = 0; b < B; b++) { /* less than a block of the order of sums */
      int64_t at = (i / C * B + b) * C + i % C;
      float k = round_f16((float)b), v = round_f16(fmaf(k, from_f16(x[at]), from_f16(y[i / C * B + b])));
      sum += rintf(m[at] ? v : k);
    }
    z[i] = to_f16(sum / (float)n);
  }
}

static void scatter_private_bf16(struct vm_case *c) {
  N(N); N(S);
  uint16_t *v = case_in(c, "v"), *y = case_want(c, "y");
  int64_t *idx = indices(c, N, S, false);
  float *wide = calloc((size_t)(N + S + 1), 4), *sum = wide + N;
  for (int64_t i = 0; i < N; i++) wide[i] = case_from_bf16(v[i]);
  for (int64_t s = 0; s < S; s++) sum[s] = case_from_bf16(y[s]);
  scatter_blocks(idx, wide, N, sum, S);
  for (int64_t s = 0; s < S; s++) y[s] = case_to_bf16(sum[s]);
  free(wide);
}
static void scatter_owned(struct vm_case *c) {
  F(v); WANT(y); N(N); N(S);
  int64_t *idx = indices(c, N, S, true);
  for (int64_t i = 0; i < N; i++)
    if (idx[i] >= 0 && idx[i] < S) y[idx[i]] += v[i];
}
static void scatter_owned_bf16(struct vm_case *c) {
  N(N); N(S);
  uint16_t *v = case_in(c, "v"), *y = case_want(c, "y");
  int64_t *idx = indices(c, N, S, true);
  float *sum = calloc((size_t)S + 1, 4);
  for (int64_t s = 0; s < S; s++) sum[s] = case_from_bf16(y[s]);
  for (int64_t i = 0; i < N; i++)
    if (idx[i] >= 0 && idx[i] < S) sum[idx[i]] += case_from_bf16(v[i]);
  for (int64_t s = 0; s < S; s++) y[s] = case_to_bf16(sum[s]);
  free(sum);
}
static void scatter_winner(struct vm_case *c) {
  N(N); N(S);
  int64_t *idx = indices(c, N, S, false), *win = case_want(c, "win");
  for (int64_t s = 0; s < S; s++) win[s] = INT64_MIN;
  for (int64_t i = 0; i < N; i++) win[idx[i]] = i;
}
static void scatter_set_apply(struct vm_case *c) {
  F(v); WANT(y); N(N); N(S);
  int64_t *win = case_in(c, "win");
  for (int64_t s = 0; s < S; s++) {
    win[s] = N && s % 3 ? (int64_t)(case_random() % (uint64_t)N) : INT64_MIN;
    ((int64_t *)case_want(c, "win"))[s] = win[s];
    if (win[s] >= 0) y[s] = v[win[s]];
  }
}
static void scatter_rows(struct vm_case *c) {
  F(v); WANT(y); N(N); N(S); N(C);
  int64_t *idx = indices(c, N, S, true);
  for (int64_t i = 0; i < N; i++)
    for (int64_t j = 0; j < C && idx[i] >= 0 && idx[i] < S; j++) y[idx[i] * C + j] += v[i * C + j];
}

/* ---- Loops ----------------------------------------------------------------------------------------------------------- */

static void ar_args(struct vm_case *c) { case_arg_f32(c, "p", 0.5f), case_arg_f32(c, "q", -0.3f); }
static void ar2(struct vm_case *c) {
  F(x); F(y0); WANT(y); N(T); N(N);
  ar_args(c);
  for (int64_t j = 0; j < N; j++) {
    float b = y0[j], a = y0[N + j], w;
    for (int64_t t = 0; t < T; t++, b = a, a = w) y[t * N + j] = w = fmaf(0.5f, a, fmaf(-0.3f, b, x[t * N + j]));
  }
}
static void ar2_history(struct vm_case *c) {
  F(x); WANT(y); N(T); N(N);
  ar_args(c);
  for (int64_t t = 0; t < T; t++)
    for (int64_t j = 0; j < N; j++)
      y[(t + 2) * N + j] = fmaf(0.5f, y[(t + 1) * N + j], fmaf(-0.3f, y[t * N + j], x[t * N + j]));
}
static void ar2_grad(struct vm_case *c) {
  F(dy); F(h); WANT(dx); WANT(dy0); WANT(dp); WANT(dq); N(T); N(N);
  float *u = calloc((size_t)(2 * T + 1), 4), *v = u + T;
  ar_args(c);
  for (int64_t j = 0; j < N; j++) {
    float a = 0, b = 0;
    for (int64_t t = 0; t < T; t++) {
      float g = fmaf(0.5f, a, fmaf(-0.3f, b, dy[(T - 1 - t) * N + j]));
      dx[(T - 1 - t) * N + j] = g;
      u[t] = g * h[(T - t) * N + j], v[t] = g * h[(T - 1 - t) * N + j];
      b = a, a = g;
    }
    dy0[N + j] = fmaf(0.5f, a, -0.3f * b), dy0[j] = -0.3f * a;
    dp[j] = col_sum(u, T, 1), dq[j] = col_sum(v, T, 1);
  }
  free(u);
}
static void scan_until(struct vm_case *c) {
  F(x); WANT(y); N(T);
  float s = 0;
  int64_t t = 0;
  case_arg_f32(c, "limit", 3);
  while (t < T) {
    y[t] = s += x[t];
    t++;
    if (s > 3) break;
  }
  ((int64_t *)case_want(c, "n"))[0] = t;
}
static void while_shared(struct vm_case *c) {
  F(x); WANT(y); N(T); N(N);
  int64_t t = 0;
  case_arg_f32(c, "limit", 3), case_arg_f32(c, "rate", 1.25f);
  memcpy(y, x, sizeof(float) * (size_t)N);
  for (; t < T; t++) {
    bool go = false;
    for (int64_t j = 0; j < N; j++) go |= y[j] < 3;
    if (!go) break;
    for (int64_t j = 0; j < N; j++) y[j] *= 1.25f;
  }
  ((int64_t *)case_want(c, "n"))[0] = t;
}
static void while_each(struct vm_case *c) {
  F(x); WANT(y); N(T); N(N);
  int64_t *n = case_want(c, "n");
  case_arg_f32(c, "limit", 3), case_arg_f32(c, "rate", 1.25f);
  for (int64_t j = 0; j < N; j++)
    for (n[j] = 0, y[j] = x[j]; n[j] < T && !(3 <= y[j]); n[j]++) y[j] *= 1.25f;
}
static void rnn(struct vm_case *c) {
  F(xw); F(w); F(h0); WANT(y); N(T); N(B); N(H);
  for (int64_t i = 0; i < H * H; i++) w[i] *= 0.2f;
  memcpy(case_want(c, "w"), w, sizeof(float) * (size_t)(H * H));
  for (int64_t t = 0; t < T; t++)
    for (int64_t b = 0; b < B; b++)
      for (int64_t j = 0; j < H; j++) {
        float u = xw[(t * B + b) * H + j], *h = t ? y + ((t - 1) * B + b) * H : h0 + b * H;
        for (int64_t k = 0; k < H; k++) u = fmaf(h[k], w[k * H + j], u);
        y[(t * B + b) * H + j] = tanhf(u);
      }
}
static void kalman(struct vm_case *c) {
  F(z); WANT(m); WANT(ll); N(T); N(N);
  const float dt = 0.1f, q0 = 0.01f, q1 = 0.02f, r = 0.5f;
  case_arg_f32(c, "dt", dt), case_arg_f32(c, "q0", q0), case_arg_f32(c, "q1", q1), case_arg_f32(c, "r", r);
  for (int64_t j = 0; j < N; j++) {
    float x0 = 0, x1 = 0, p00 = 1, p01 = 0, p11 = 1;
    double l = 0;
    for (int64_t t = 0; t < T; t++) {
      float a0 = fmaf(dt, x1, x0), s01 = fmaf(dt, p11, p01), s00 = fmaf(dt, p01 + s01, p00) + q0, s11 = p11 + q1;
      float f = s00 + r, e = z[t * N + j] - a0, k0 = s00 / f, k1 = s01 / f;
      m[(t * 2) * N + j] = x0 = fmaf(k0, e, a0), m[(t * 2 + 1) * N + j] = x1 = fmaf(k1, e, x1);
      l += log(f) + e * e / f;
      p00 = s00 - k0 * s00, p01 = s01 - k0 * s01, p11 = s11 - k1 * s01;
    }
    ll[j] = (float)(-0.5 * l);
  }
}
static void igamma_series(struct vm_case *c) {
  double *a = case_in(c, "a"), *x = case_in(c, "x"), *y = case_want(c, "y");
  int64_t *n = case_want(c, "n");
  for (int64_t i = 0; i < case_size(c, "N"); i++) {
    a[i] = fabs(a[i]) * 4 + 0.1, x[i] = i % 5 == 4 ? -1 : fabs(x[i]) * 3;
    ((double *)case_want(c, "a"))[i] = a[i], ((double *)case_want(c, "x"))[i] = x[i];
    y[i] = NAN, n[i] = 0;
    if (!(0 < x[i] && x[i] < a[i] + 1)) continue;
    double term = 1 / a[i], sum = term, d = a[i];
    while (n[i] < 200) {
      d += 1, term *= x[i] / d, sum += term, n[i]++;
      if (term < sum * 0x1p-52) break;
    }
    y[i] = sum * exp(a[i] * log(x[i]) - x[i]);
  }
}

/* ---- The table ------------------------------------------------------------------------------------------------------- */

struct row {
  const char *name;
  void (*expect)(struct vm_case *);
  double tolerance;      /* 0: bits */
  bool calm;             /* no special values: the reference is not exact about them */
  const char *once;      /* inputs of which each element is loaded once */
  int64_t sizes[7][4];   /* a set a line; those of a kernel with fewer sizes are cut; a line of -1 ends */
};
#define LENGTHS {{0}, {1}, {33}, {4097}, {20001}, {-1}}
#define SHORTER {{0}, {1}, {33}, {1000}, {-1}}
#define SHAPES {{0, 5}, {3, 0}, {1, 1}, {5, 33}, {2, 4100}, {300, 7}, {-1}}
#define FEWER {{0, 5}, {3, 0}, {1, 1}, {5, 33}, {2, 1100}, {300, 7}, {-1}}
#define TIMES {{0, 3}, {3, 0}, {1, 1}, {40, 5}, {7, 600}, {300, 2}, {-1}}

static const struct row rows[] = {
  {"muladd", muladd, 0, 0, "a b c", FEWER},
  {"where_const", where_const, 0, 0, "z", SHORTER},
  {"reversed_write", reversed_write, 0, 0, "x", LENGTHS},
  {"weave", weave, 0, 0, "a b", LENGTHS},
  {"transposed_add", transposed_add, 0, 0, "a b", FEWER},
  {"bf16_muladd", bf16_muladd, 0, 0, "a b c", SHORTER},
  {"complex_mul", complex_mul, 0, 0, "a b", SHORTER},
  {"mixed_widths", mixed_widths, 0, 0, "keepit idx", {{0, 9}, {1, 1}, {33, 0}, {1000, 9}, {-1}}},
  {"pad_consumer", pad_consumer, 0, 0, "x z", {{0, 0, 0}, {0, 5, 2}, {33, 38, 2}, {1000, 1000, 0}, {600, 1300, 700}, {-1}}},
  {"concat", concat, 0, 0, "a b", {{3, 0, 0}, {3, 0, 3}, {0, 2, 2}, {3, 4, 1}, {2, 600, 33}, {-1}}},
  {"slice_update", slice_update, 0, 0, "v", {{10, 10}, {10, 3}, {10, 1}, {10, 0}, {3000, 700}, {-1}}},
  {"uniform", uniform, 0, 0, "", SHORTER},
  {"exp_table", exp_table, 2e-7, 0, "x", LENGTHS},
  {"epilogue", epilogue, 0, 0, "acc res", FEWER},
  {"merge_axes", twice, 0, 0, "x", FEWER},
  {"split_axes", twice, 0, 0, "x", FEWER},
  {"permute3", permute3, 0, 0, "x", {{0, 1, 2}, {2, 3, 4}, {3, 1, 33}, {2, 600, 3}, {-1}}},
  {"softmax", softmax, 3e-6, 0, "x", SHAPES},
  {"softmax_reload", softmax, 3e-6, 0, "", SHAPES},
  {"softmax_inplace", softmax, 3e-6, 0, "y", SHAPES},
  {"log_softmax_grad", log_softmax_grad, 1e-5, 1, "y dy", SHAPES},
  {"layer_norm", layer_norm, 0, 0, "x", SHAPES},
  {"layer_norm_grad", layer_norm_grad, 0, 0, "x dy", SHAPES},
  {"argmax", argmax, 0, 0, "x", SHAPES},
  {"welford", welford, 1e-4, 1, "x", SHAPES},
  {"row_sum", sum_rows, 0, 0, "x", {{0, 3}, {3, 0}, {2, 31}, {3, 33}, {1, 4097}, {2, 13000}, {-1}}},
  {"row_sum_beside", sum_rows, 0, 0, "x", {{0, 3}, {3, 0}, {600, 31}, {3, 33}, {1, 4097}, {2, 13000}, {-1}}},
  {"col_sum", sum_cols, 0, 0, "x", {{0, 3}, {3, 0}, {127, 2}, {129, 600}, {1000, 2}, {-1}}},
  {"col_sum_tall", sum_cols, 0, 0, "x", {{0, 3}, {3, 0}, {127, 2}, {129, 600}, {1000, 2}, {-1}}},
  {"col_sum_across", sum_cols, 0, 0, "x", {{0, 3}, {3, 0}, {127, 2}, {129, 60}, {1000, 2}, {-1}}},
  {"sum_axes_0_2", sum_axes_0_2, 0, 0, "x", {{0, 2, 3}, {2, 0, 3}, {2, 3, 0}, {1, 1, 1}, {130, 2, 40}, {3, 2, 5000}, {-1}}},
  {"full_sum", full_sum, 0, 0, "x", LENGTHS},
  {"full_sum_par", full_sum, 0, 0, "x", LENGTHS},
  {"logsumexp_0", logsumexp_0, 1e-5, 0, "x", {{0, 2}, {1, 3}, {200, 5}, {3, 600}, {-1}}},
  {"cumsum_row", cumsum_row, 0, 0, "x", {{0, 3}, {3, 0}, {2, 1}, {3, 33}, {2, 9000}, {-1}}},
  {"cumsum_col", cumsum_col, 0, 0, "x", {{0, 3}, {3, 0}, {1, 2}, {33, 3}, {9000, 2}, {5, 600}, {-1}}},
  {"crowded_by_a_cast", crowded_by_a_cast, 0, 0, "", {{0, 3, 5, 2}, {2, 0, 3, 1}, {3, 7, 33, 4}, {2, 100, 20, 3}, {-1}}},
  {"cummax_row", cummax_row, 0, 0, "x", SHAPES},
  {"cumsum_totals", cumsum_totals, 0, 0, "x", {{0, 0}, {1, 1}, {4096, 1}, {4097, 2}, {20001, 5}, {-1}}},
  {"cumsum_offsets", cumsum_offsets, 0, 0, "t", SHORTER},
  {"cumsum_apply", cumsum_apply, 0, 0, "x o", {{0, 0}, {1, 1}, {4096, 1}, {4097, 2}, {20001, 5}, {-1}}},
  {"recurrence", recurrence, 0, 1, "a b n", SHORTER},
  {"linear_scan", linear_scan, 0, 1, "a b", {{0, 3}, {3, 0}, {2, 1}, {3, 33}, {2, 9000}, {-1}}},
  {"embedding", embedding, 0, 0, "idx", {{0, 3, 4}, {6, 3, 4}, {40, 600, 9}, {3, 2, 0}, {5, 0, 2}, {-1}}},
  {"take", take, 0, 0, "idx", {{0, 4}, {1, 1}, {40, 9}, {3, 0}, {1300, 50}, {-1}}},
  {"scatter_private", scatter_private, 0, 0, "idx", {{0, 3}, {1, 1}, {300, 7}, {20000, 5}, {3, 0}, {-1}}},
  {"scatter_owned", scatter_owned, 0, 0, "", {{0, 3, 2}, {1, 1, 1}, {200, 7, 3}, {50, 40, 64}, {30, 0, 4}, {-1}}},
  {"scatter_owned_lanes", scatter_owned, 0, 0, "", {{0, 3, 2}, {1, 1, 1}, {1200, 7, 3}, {50, 40, 64}, {30, 0, 4}, {-1}}},
  {"scatter_winner", scatter_winner, 0, 0, "idx", {{0, 3}, {1, 1}, {300, 7}, {9000, 50}, {-1}}},
  {"scatter_set_apply", scatter_set_apply, 0, 0, "win", {{0, 3}, {1, 1}, {300, 7}, {9000, 1300}, {-1}}},
  {"scatter_owned_bf16", scatter_owned_bf16, 0, 0, "", {{0, 3, 2}, {1, 1, 1}, {400, 7, 3}, {50, 40, 64}, {-1}}},
  {"scatter_private_bf16", scatter_private_bf16, 0, 0, "idx v", {{0, 3}, {1, 1}, {400, 7}, {9000, 5}, {-1}}},
  {"scatter_rows", scatter_rows, 0, 0, "", {{0, 3, 5, 2}, {4, 3, 33, 2}, {40, 9, 600, 4}, {4, 3, 0, 1}, {-1}}},
  {"ar2", ar2, 0, 0, "x y0", TIMES},
  {"ar2_history", ar2_history, 0, 0, "x", TIMES},
  {"ar2_grad", ar2_grad, 0, 0, "dy", TIMES},
  {"scan_until", scan_until, 0, 0, "", {{0}, {1}, {33}, {1000}, {-1}}},
  {"while_shared", while_shared, 0, 1, "x", {{0, 3}, {3, 0}, {20, 5}, {20, 1300}, {-1}}},
  {"while_each", while_each, 0, 0, "x", {{0, 3}, {3, 0}, {20, 5}, {20, 1300}, {-1}}},
  {"rnn", rnn, 1e-5, 1, "xw h0", {{0, 2, 3}, {3, 0, 2}, {3, 2, 1}, {5, 3, 40}, {2, 2, 600}, {-1}}},
  {"kalman", kalman, 1e-4, 1, "z", TIMES},
  {"igamma_series", igamma_series, 1e-12, 1, "a x", SHORTER},
};
enum { ROWS = sizeof rows / sizeof rows[0] };

static void loads_once(const struct vm_case *c, const char *names) {
  char list[100], *save, *name;
  snprintf(list, sizeof list, "%s", names);
  for (name = strtok_r(list, " ", &save); name; name = strtok_r(NULL, " ", &save)) {
    int b = case_buf(c, name);
    if (c->loads[b] != (uint64_t)c->n[b])
      test_fail(__FILE__, __LINE__, "%s: %lld loads of %s, which has %lld elements", c->k->name, (long long)c->loads[b], name, (long long)c->n[b]);
  }
}

static void try_row(const struct row *row) {
  for (int i = 0; row->sizes[i][0] >= 0; i++) {
    struct kir_kernel *k = test_kernel(row->name);
    if (!k) return;
    struct vm_case c = case_of(k, k->n_sizes, row->sizes[i], (uint64_t)i + 1);
    if (row->calm) case_calm(&c);
    row->expect(&c);
    case_check(&c, row->tolerance);
    loads_once(&c, row->once);
    case_close(&c);
  }
}

static void try_file(const char *file) {
  struct kir_kernel *k[TEST_KERNELS_MAX];
  int n = test_kernels_of(file, k, 0);
  EXPECT(n > 0);
  for (int i = 0; i < n; i++) {
    int r = 0;
    while (r < ROWS && strcmp(rows[r].name, k[i]->name)) r++;
    if (r == ROWS) test_fail(__FILE__, __LINE__, "%s has no reference", k[i]->name);
    else try_row(&rows[r]);
    kir_free(k[i]);
  }
}

TEST(vm_elementwise_kernels_give_what_plain_c_gives_on_any_view_tile_and_thread) { try_file("elementwise.kir"); }
TEST(vm_row_kernels_keep_the_orders_of_sums_and_read_their_inputs_once) { try_file("rows.kir"); }
TEST(vm_gathers_and_scatters_act_in_index_order_and_report_the_lowest_bad_index) { try_file("index.kir"); }
TEST(vm_loops_carry_stop_and_fold_as_plain_c_does) { try_file("loops.kir"); }
