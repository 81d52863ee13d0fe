/* stencil_block.h -- WIDTH columns of a plane, by vectors of as many floats: included by stencil_loops.h for each width that its
 * instruction set has. OF(x) is what x is called for this one; SPREADS how its multiplication spreads a float, if it does. */
#define vector OF(vector)
typedef float vector __attribute__((vector_size(4 * WIDTH), aligned(4), may_alias));

/* x by a factor in memory. A multiplication of AVX-512 spreads it while it loads; to do that alone takes as long as to multiply. */
ALWAYS vector OF(by)(vector x, const float *f) {
#ifdef SPREADS
  vector y;
  __asm__("vmulps %2%{" SPREADS "%}, %1, %0" : "=v"(y) : "v"(x), "m"(*f));
  return y;
#else
  return x * (*f - (vector){ 0 });
#endif
}

/* The sum over k of a row of factors, of the vectors that have been loaded for each k, is added to those of the rows before. It
 * begins with its first product, and what it is added to with +0: that not both do makes no difference. */
ALWAYS void OF(add_row)(const vector x[], const float *f, int kw, const float *from, float *to) {
  vector sum = OF(by)(x[0], f);
  _Pragma("GCC unroll 8") for (int k = 1; k < kw; k++) sum += OF(by)(x[k], f + k);
  *(vector *)to = *(const vector *)from + sum;
}

/* .. of a row of x whose vectors are too many to be held. */
ALWAYS void OF(add_long_row)(const struct stencil *s, const float *x, const float *f, const float *from, float *to) {
  vector sum = OF(by)(*(const vector *)x, f);
  for (int64_t k = 1; k < s->kw; k++) sum += OF(by)(*(const vector *)(x + place_of(s, k * s->dw)), f + k);
  *(vector *)to = *(const vector *)from + sum;
}

/* .. by all rows of a kernel of as many, to as many rows of sums, the last one to y. */
ALWAYS void OF(add_rows)(const vector x[], const float *f, int kw, float *sum, float *y) {
  _Pragma("GCC unroll 8") for (int p = 0; p < kw; p++)
    OF(add_row)(x, f + p * kw, kw, p ? sum - p * WIDE : no_sum, p < kw - 1 ? sum - p * WIDE : y);
}

/* Rows of y: each row of x by each p with which it belongs to one of them. */
ALWAYS void OF(block)(const struct plane *at, int kw, int64_t j) {
  const struct stencil *s = at->s;
  bool is_held = kw <= MOST_HELD, is_dense = s->sh == 1 && s->dh == 1, is_whole = s->ow - j >= WIDTH;
  int64_t kh = s->kh, dh = s->dh, sh = s->sh, rows = at->rows, n = rows_for(s, rows), step = plane_row(s), shift[MOST_HELD];
  int64_t y_row = is_whole ? s->ow : WIDE, n_before = j / WIDTH * n;
  const float *x = at->x + j, *f = at->f, *next_x = at->next_x + n_before * LINE, *next_y = at->next_y + n_before * LINE;
  float *sums = at->sums, *y = is_whole ? at->y + j : sums;
  for (int k = 0; is_held && k < kw; k++) shift[k] = place_of(s, k * s->dw);
  for (int64_t r = 0; r < n; r++, x += step, next_x += LINE, next_y += LINE) {
    vector v[MOST_HELD];
    if (is_held) _Pragma("GCC unroll 8") for (int k = 0; k < kw; k++) v[k] = *(const vector *)(x + shift[k]);
    __builtin_prefetch(next_x, 0, 2);
    __builtin_prefetch(next_y, 1, 2);
    if (is_held && is_dense && kh == kw && r >= kw - 1 && r < rows) {
      OF(add_rows)(v, f, kw, sums + r * WIDE, y + (r - kw + 1) * y_row);
      continue;
    }
    for (int64_t p = 0, d = r; p < kh && d >= 0; p++, d -= dh) {
      int64_t i = is_dense ? d : d / sh;
      if (i >= rows || (!is_dense && i * sh != d)) continue;
      const float *from = p ? sums + i * WIDE : no_sum;
      float *to = p < kh - 1 ? sums + i * WIDE : y + i * y_row;
      if (is_held) OF(add_row)(v, f + p * kw, kw, from, to);
      else OF(add_long_row)(s, x, f + p * s->kw, from, to);
    }
  }
  for (int64_t i = 0; !is_whole && i < rows; i++)
    for (int64_t k = 0; k < s->ow - j; k++) at->y[i * s->ow + j + k] = sums[i * WIDE + k];
}
#undef vector
