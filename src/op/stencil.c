/* stencil.c -- the loops of stencil.h, and how they are cut into parts.
 *
 * The rows of x that a part needs are copied with their zeros, so that loops know no edges. Planes: lanes are columns, and a
 * vector of a row of x, shifted by each k, is loaded once for all p; lines of the part that comes next are fetched meanwhile.
 * Channels side by side: lanes are 16 channels, eight columns at a time. 96 planes of 56^2 by 7x7 take 0.36 ms of a thread of Zen
 * 4, of which its multiplications alone are 0.26; as one kernel with a pointer for each p, behind two that pad and turn, it was
 * 1.8 of two. */
#include "op/stencil.h"
#include <string.h>
#include "base/least.h"
#ifdef __x86_64__
#include <immintrin.h>
#endif

#ifndef __clang__
#pragma GCC optimize("O3")
#endif
#define IN_VECTORS __attribute__((no_sanitize("address")))  /* local vectors: see codes.c */
#define ALWAYS static inline __attribute__((always_inline)) IN_VECTORS

enum {
  LINE = 16,       /* floats of a line of the cache, of which rows are whole ones */
  WIDE = 16,       /* columns of a plane that are computed together, at most: a vector of AVX-512 */
  MOST_HELD = 7,   /* columns of a kernel whose vectors of x are held in registers */
  CHANNELS = 16,   /* of a part */
  COLUMNS = 8,     /* of a part of channels, at a time */
  PLANE_ROWS = 64, CHANNEL_ROWS = 16 /* rows of y, of a part: those of x that it needs stay in the second cache */
};

static int64_t up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }
static int64_t part_rows(const struct stencil *s) { return s->are_planes ? PLANE_ROWS : CHANNEL_ROWS; }
static int64_t row_parts(const struct stencil *s) { return (s->oh + part_rows(s) - 1) / part_rows(s); }
static int64_t channel_parts(const struct stencil *s) { return s->are_planes ? s->c : (s->c + CHANNELS - 1) / CHANNELS; }
int64_t stencil_parts(const struct stencil *s) { return s->n * channel_parts(s) * row_parts(s); }

/* Rows of x for so many of y. */
static int64_t rows_for(const struct stencil *s, int64_t rows) { return (rows - 1) * s->sh + (s->kh - 1) * s->dh + 1; }

/* Columns of a plane stand by their remainder of sw: those that neighbours of y meet are neighbours. */
static int64_t phase_length(const struct stencil *s) { return up(up(s->ow, WIDE) + (s->kw - 1) * s->dw / s->sw + 1, LINE); }
static int64_t place_of(const struct stencil *s, int64_t column) {
  return column % s->sw * phase_length(s) + column / s->sw;
}
static int64_t plane_row(const struct stencil *s) { return phase_length(s) * s->sw; }
static int64_t channel_columns(const struct stencil *s) { return (up(s->ow, COLUMNS) - 1) * s->sw + (s->kw - 1) * s->dw + 1; }

static int64_t row_floats(const struct stencil *s) { return s->are_planes ? plane_row(s) : channel_columns(s) * CHANNELS; }

size_t stencil_room(const struct stencil *s) {
  int64_t rows = least(s->oh, part_rows(s)), more = s->are_planes ? rows * WIDE : s->kh * s->kw * CHANNELS;
  return sizeof(float) * (size_t)(rows_for(s, rows) * row_floats(s) + more + LINE);
}

/* ---- copies with zeros around ---- */

/* Columns from .. to - 1 of a row with its zeros are x; all of them if it is a row of x at all. */
static void range_of(const struct stencil *s, int64_t row, int64_t columns, int64_t *from, int64_t *to) {
  bool is_inside = row >= s->top && row - s->top < s->h;
  *from = s->left > 0 ? least(s->left, columns) : 0;
  *to = least(columns, s->w + s->left);
  if (!is_inside || *to < *from) *to = *from;
}

static void copy_channel_row(const struct stencil *s, const float *x, int64_t row, int64_t channels, float *to) {
  int64_t columns = channel_columns(s), from, end;
  range_of(s, row, columns, &from, &end);
  memset(to, 0, sizeof *to * (size_t)(columns * CHANNELS));
  for (int64_t c = from; c < end; c++)
    memcpy(to + c * CHANNELS, x + ((row - s->top) * s->w + c - s->left) * s->c, sizeof *to * (size_t)channels);
}

/* Rows of y of a plane. x: those that they need, with their zeros. sums: room for WIDE columns of them. next: what is fetched for
 * the part that comes next, a line with every row of x. */
struct plane {
  const struct stencil *s;
  int64_t rows;
  const float *x, *f, *next_x, *next_y;
  float *sums, *y;
};
static const float no_sum[WIDE];

#define LOOPS "op/stencil_loops.h"
#define LANE_BYTES 4
#include "op/lanes.h"

/* ---- parts ---- */

/* Sums stand before the rows of x, so that those of parts of fewer rows do not stand where others have zeros. */
static float *plane_rows(const struct stencil *s, float *room) {
  return room + least(s->oh, PLANE_ROWS) * WIDE + (s->left > 0 ? up(s->left, LINE) - s->left : 0);
}

static void run_plane(const struct stencil *s, int64_t plane, int64_t first, int64_t rows, bool is_last, float *room) {
  int64_t ahead = is_last ? 0 : 1;
  const float *x = s->x + plane * s->h * s->w;
  HERE(copy_rows)(s, x, first * s->sh, rows_for(s, rows), plane_rows(s, room));
  for (int64_t k = 0; k < s->o; k++) {
    int64_t out = plane * s->o + k, kernel = plane % s->c * s->o + k;
    float *y = s->y + (out * s->oh + first) * s->ow;
    HERE(plane)(&(struct plane){
      .s = s, .rows = rows, .x = plane_rows(s, room), .f = s->f + kernel * s->kh * s->kw, .sums = room, .y = y,
      .next_x = x + ahead * s->h * s->w / row_parts(s), .next_y = y + ahead * s->oh * s->ow / row_parts(s) });
  }
}

static void run_channels(const struct stencil *s, int64_t i, int64_t c, int64_t first, int64_t rows, float *room) {
  int64_t n = rows_for(s, rows), channels = least(CHANNELS, s->c - c), places = s->kh * s->kw;
  float *factor = room + n * row_floats(s);
  for (int64_t r = 0; r < n; r++)
    copy_channel_row(s, s->x + i * s->h * s->w * s->c + c, first * s->sh + r, channels, room + r * row_floats(s));
  for (int64_t k = 0; k < s->o; k++) {
    for (int64_t p = 0; p < places; p++)
      for (int64_t l = 0; l < CHANNELS; l++)
        factor[p * CHANNELS + l] = l < channels ? s->f[((c + l) * s->o + k) * places + p] : 0;
    HERE(channels)(s, room, factor, channels, rows, s->y + (i * s->oh + first) * s->ow * s->c * s->o + c * s->o + k);
  }
}

void stencil_run(const struct stencil *s, int64_t from, int64_t to, void *room) {
  if (s->are_planes) memset(plane_rows(s, room), 0, sizeof(float) * (size_t)(rows_for(s, least(s->oh, PLANE_ROWS)) * plane_row(s)));
  for (int64_t i = from; i < to; i++) {
    int64_t first = i % row_parts(s) * part_rows(s), rows = least(part_rows(s), s->oh - first), what = i / row_parts(s);
    if (s->are_planes) run_plane(s, what, first, rows, i + 1 == to, room);
    else run_channels(s, what / channel_parts(s), what % channel_parts(s) * CHANNELS, first, rows, room);
  }
}
