/* stencil_loops.h -- the loops of stencil.c, for vectors of LANES floats: included once for each instruction set (lanes.h). */
typedef float NAME(floats) __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
#define floats NAME(floats)
enum { NAME(SLICES) = CHANNELS / LANES };

ALWAYS floats NAME(splat)(float x) { return x - (floats){ 0 }; }

/* n floats, of which the last ones are copied twice if they are no whole vector. */
ALWAYS void NAME(copy)(float *to, const float *from, int64_t n) {
  int64_t i = 0;
  for (; i + LANES <= n; i += LANES) *(floats *)(to + i) = *(const floats *)(from + i);
  if (i < n && n >= LANES) i = n - LANES, *(floats *)(to + i) = *(const floats *)(from + i), i = n;
  for (; i < n; i++) to[i] = from[i];
}

/* Rows of a plane from `first` on, with their zeros. Those beside a row stand there already, where they were for other parts. */
static IN_VECTORS void NAME(copy_rows)(const struct stencil *s, const float *plane, int64_t first, int64_t n, float *to) {
  int64_t columns = plane_row(s), from, end;
  for (int64_t row = first; row < first + n; row++, to += columns) {
    range_of(s, row, columns, &from, &end);
    const float *x = from < end ? plane + (row - s->top) * s->w - s->left : NULL;
    if (!x) memset(to, 0, sizeof *to * (size_t)columns);
    else if (s->sw == 1) NAME(copy)(to + from, x + from, end - from);
    else for (int64_t c = from; c < end; c++) to[place_of(s, c)] = x[c];
  }
}

#if LANES == 16
#define SPREADS "1to16"
#endif
#define WIDTH LANES
#define OF(x) NAME(x)
#include "op/stencil_block.h"
#undef WIDTH
#undef OF
#if LANES == 16
#undef SPREADS
#define SPREADS "1to8"
#define WIDTH 8
#define OF(x) NAME(half_##x)
#include "op/stencil_block.h"
#undef WIDTH
#undef OF
#undef SPREADS
#endif

ALWAYS void NAME(columns_by)(const struct plane *at, int kw) {
  int64_t ow = at->s->ow;
  for (int64_t j = 0; j < ow; j += LANES) {
#if LANES == 16
    if (ow - j <= LANES / 2) { NAME(half_block)(at, kw, j); continue; }
#endif
    NAME(block)(at, kw, j);
  }
}

static IN_VECTORS void NAME(plane)(const struct plane *at) {
  switch (at->s->kw) {
    case 3: NAME(columns_by)(at, 3); break;
    case 5: NAME(columns_by)(at, 5); break;
    case 7: NAME(columns_by)(at, 7); break;
    default: NAME(columns_by)(at, MOST_HELD + 1);
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
