/* stencil_loops.h -- the loops of stencil.c, for vectors of LANES floats: included once for each instruction set (lanes.h). */
typedef float NAME(floats) __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
#define floats NAME(floats)
enum { NAME(SLICES) = CHANNELS / LANES };

ALWAYS floats NAME(splat)(float x) { return x - (floats){ 0 }; }

ALWAYS void NAME(put)(float *to, floats v, bool is_first) {
  if (!is_first) v = *(const floats *)to + v;
  *(floats *)to = v;
}

/* The sums over k of one p, of two vectors that have been loaded for each k, are added to those of the p before. */
ALWAYS void NAME(add_place)(const floats x[][2], const float *f, int kw, bool is_first, float *sums) {
  floats a = NAME(splat)(0), b = a;
  _Pragma("GCC unroll 8") for (int k = 0; k < kw; k++) {
    floats v = NAME(splat)(f[k]);
    a += x[k][0] * v, b += x[k][1] * v;
  }
  NAME(put)(sums, a, is_first);
  NAME(put)(sums + LANES, b, is_first);
}

/* Row r of x, from column j of y on, two vectors: by each p with which it belongs to a row of y. at: where column k dw stands. */
ALWAYS void NAME(row_of_plane)(const struct stencil *s, const float *x, const int64_t *at, int64_t r, const float *f, int kw,
                               int64_t rows, float *sums) {
  floats v[MOST_HELD][2];
  if (kw <= MOST_HELD)
    _Pragma("GCC unroll 8") for (int k = 0; k < kw; k++)
      v[k][0] = *(const floats *)(x + at[k]), v[k][1] = *(const floats *)(x + at[k] + LANES);
  for (int64_t p = 0, d = r; p < s->kh && d >= 0; p++, d -= s->dh, f += s->kw) {
    int64_t i = s->sh == 1 ? d : d / s->sh;
    if (i >= rows || i * s->sh != d) continue;
    if (kw <= MOST_HELD) { NAME(add_place)(v, f, kw, p == 0, sums + i * WIDE); continue; }
    floats a = NAME(splat)(0), b = a;
    for (int64_t k = 0; k < s->kw; k++) {
      const float *from = x + place_of(s, k * s->dw);
      floats one = NAME(splat)(f[k]);
      a += *(const floats *)from * one, b += *(const floats *)(from + LANES) * one;
    }
    NAME(put)(sums + i * WIDE, a, p == 0);
    NAME(put)(sums + i * WIDE + LANES, b, p == 0);
  }
}

ALWAYS void NAME(plane_by)(const struct stencil *s, const float *x, const float *f, int kw, float *sums, int64_t rows, float *y) {
  int64_t n = rows_for(s, rows), step = plane_row(s), at[MOST_HELD];
  for (int k = 0; k < MOST_HELD && k < kw; k++) at[k] = place_of(s, k * s->dw);
  for (int64_t j = 0; j < s->ow; j += 2 * LANES) {
    int64_t columns = least(2 * LANES, s->ow - j);
    for (int64_t r = 0; r < n; r++) NAME(row_of_plane)(s, x + r * step + j, at, r, f, kw, rows, sums);
    for (int64_t i = 0; i < rows; i++) memcpy(y + i * s->ow + j, sums + i * WIDE, sizeof *y * (size_t)columns);
  }
}

/* Rows of y of a plane; sums: room for them. */
static IN_VECTORS void NAME(plane)(const struct stencil *s, const float *x, const float *f, float *sums, int64_t rows, float *y) {
  switch (s->kw) {
    case 3: NAME(plane_by)(s, x, f, 3, sums, rows, y); break;
    case 5: NAME(plane_by)(s, x, f, 5, sums, rows, y); break;
    case 7: NAME(plane_by)(s, x, f, 7, sums, rows, y); break;
    default: NAME(plane_by)(s, x, f, MOST_HELD + 1, sums, rows, y);
  }
}

/* COLUMNS of a row of y, LANES channels of each. */
ALWAYS void NAME(columns)(const struct stencil *s, const float *x, const float *f, floats y[COLUMNS]) {
  int64_t step = channel_columns(s) * CHANNELS * s->dh, next = s->sw * CHANNELS;
  for (int64_t p = 0; p < s->kh; p++, x += step) {
    floats sum[COLUMNS];
    const float *at = x;
    for (int j = 0; j < COLUMNS; j++) sum[j] = NAME(splat)(0);
    for (int64_t k = 0; k < s->kw; k++, at += s->dw * CHANNELS, f += CHANNELS) {
      floats v = *(const floats *)f;
      _Pragma("GCC unroll 8") for (int j = 0; j < COLUMNS; j++) sum[j] += *(const floats *)(at + j * next) * v;
    }
    for (int j = 0; j < COLUMNS; j++) {
      if (p) y[j] += sum[j];
      else y[j] = sum[j];
    }
  }
}

static IN_VECTORS void NAME(channels)(const struct stencil *s, const float *x, const float *f, int64_t channels, int64_t rows,
                                      float *y) {
  for (int64_t i = 0; i < rows; i++)
    for (int64_t j = 0; j < s->ow; j += COLUMNS)
      for (int u = 0; u < NAME(SLICES) && u * LANES < channels; u++) {
        floats v[COLUMNS];
        const float *from = x + (i * s->sh * channel_columns(s) + j * s->sw) * CHANNELS + u * LANES;
        NAME(columns)(s, from, f + u * LANES, v);
        int64_t some = least(LANES, channels - u * LANES);
        for (int64_t k = 0; k < COLUMNS && j + k < s->ow; k++) {
          float *to = y + ((i * s->ow + j + k) * s->c + u * LANES) * s->o, lane[LANES];
          if (s->o == 1 && some == LANES) { *(floats *)to = v[k]; continue; }
          memcpy(lane, &v[k], sizeof lane);
          for (int64_t l = 0; l < some; l++) to[l * s->o] = lane[l];
        }
      }
}
#undef floats
