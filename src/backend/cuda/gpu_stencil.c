/* gpu_stencil.c -- planes by small kernels, one for each channel, on a GPU: the sums of op/stencil.h, in its order.
 *
 * A thread has eight rows of one column of a channel, which share their factors; neighbours read neighbours, of planes along a row,
 * else of channels, whose factors are turned for it first. What lies outside of x is 0, which is multiplied too: something else is
 * read, and not taken. */
#include "backend/cuda/routine.h"

enum { ROWS = 8 };

/* I and S: types that count elements, unsigned and signed. */
#define TURN WRITTEN(                                                                                              \
entry stencil_turn(f32* f, f32* to, u64 outs, u64 places, u64 all) {                                               \
  u64 i = u64(block) * 256 + u64(tid);                                                                             \
  if (i < all) {                                                                                                   \
    u64 each = outs * places;                                                                                      \
    u64 k = i % each;                                                                                              \
    to[i / each * each + k % places * outs + k / places] = f[i];                                                   \
  }                                                                                                                \
}                                                                                                                  \
  )

/* Which eight rows of which column of which channel the thread has, and where its x, its factors and its results begin; from an
 * element to the next along a row there are `step`, from a factor to the next `next`. */
#define PLACE WRITTEN(                                                                                             \
    I rest = I(at);                                                                                                \
    I out = I(0);                                                                                                  \
    I column = I(0);                                                                                               \
    I groups = I((oh + 7) / 8);                                                                                    \
    I group = I(0);                                                                                                \
    if (ARE_PLANES) {                                                                                              \
      column = rest % I(ow);                                                                                       \
      rest = rest / I(ow);                                                                                         \
      group = rest % groups;                                                                                       \
      rest = rest / groups;                                                                                        \
      out = rest % I(outs);                                                                                        \
      rest = rest / I(outs);                                                                                       \
    } else {                                                                                                       \
      out = rest % I(outs);                                                                                        \
      rest = rest / I(outs);                                                                                       \
      column = rest % I(ow);                                                                                       \
      rest = rest / I(ow);                                                                                         \
      group = rest % groups;                                                                                       \
      rest = rest / groups;                                                                                        \
    }                                                                                                              \
    I plane = out / I(outs / planes);                                                                              \
    u64 problem = u64(rest) / many;                                                                                \
    u64 step = planes;                                                                                             \
    u64 next = outs;                                                                                               \
    f32* from = x;                                                                                                 \
    f32* factor = f + problem * outs * kh * kw;                                                                    \
    f32* to = y;                                                                                                   \
    if (ARE_PLANES) {                                                                                              \
      from = from + (u64(rest) * planes + u64(plane)) * h * w;                                                     \
      factor = factor + u64(out) * kh * kw;                                                                        \
      to = to + ((u64(rest) * outs + u64(out)) * oh + u64(group) * 8) * ow + u64(column);                          \
      step = 1;                                                                                                    \
      next = 1;                                                                                                    \
    } else {                                                                                                       \
      from = from + u64(rest) * h * w * planes + u64(plane);                                                       \
      factor = factor + u64(out);                                                                                  \
      to = to + ((u64(rest) * oh + u64(group) * 8) * ow + u64(column)) * outs + u64(out);                          \
    }                                                                                                              \
    if (of_x == 0) { from = f; }                                                                                   \
  )

#define LEAVE WRITTEN(                                                                                             \
    u64 row = u64(group) * 8;                                                                                      \
    repeat (k, 8) {                                                                                                \
      if (row + k < oh) { to[0] = sum[k]; }                                                                        \
      to = to + ow * (ARE_PLANES ? 1 : outs);                                                                      \
    }                                                                                                              \
  )

static const char stencil_text[] = TURN
  WRITTEN(
entry stencil(f32* x, f32* f, f32* y, u64 all, u64 planes, u64 outs, u64 h, u64 w, u64 oh, u64 ow, u64 kh, u64 kw, u64 sh, u64 sw,
              u64 dh, u64 dw, u64 top, u64 left, u64 many, u64 of_x) {
  f32 sum[8];
  f32 part[8];
  u64 line[8];
  u32 is_row[8];
  u64 at = u64(block) * 256 + u64(tid);
  if (at < all) {
  ) PLACE WRITTEN(
    S first = S(column) * S(sw) - S(left);
    S i = S(group) * S(sh) * 8 - S(top);
    u64 p = 0;
    while (p < kh) {
      S r = i;
      repeat (k, 8) {
        part[k] = 0;
        bool is_in = r >= 0 && r < S(h);
        is_row[k] = is_in ? u32(1) : u32(0);
        line[k] = is_in ? u64(r) * w * step : u64(0);
        r = r + S(sh);
      }
      S j = first;
      u64 q = 0;
      while (q < kw) {
        f32 by = factor[0];
        bool is_column = j >= 0 && j < S(w);
        u64 c = is_column ? u64(j) * step : u64(0);
        repeat (k, 8) {
          f32 v = from[line[k] + c];
          v = is_column && is_row[k] != 0 ? v : f32(0);
          part[k] = part[k] + v * by;
        }
        factor = factor + next;
        j = j + S(dw);
        q = q + 1;
      }
      repeat (k, 8) { sum[k] = p == 0 ? part[k] : sum[k] + part[k]; }
      i = i + S(dh);
      p = p + 1;
    }
  ) LEAVE WRITTEN(
  }
}
  );

/* Of KH by KW factors, which a thread has in registers, without steps or holes, and channels side by side: a block of threads has
 * 32 channels of eight rows of eight columns, whose x it brings to shared memory first, with zeros where there is none. An element
 * is read from there once for all of the eight rows that it is a part of. Of each result a row of x is one row of products, and
 * rows come in the same order. */
static const char near_text[] = TURN
  WRITTEN(
entry stencil(f32* x, f32* f, f32* y, u64 planes, u64 outs, u64 h, u64 w, u64 oh, u64 ow, u64 top, u64 left, u64 many) of 512 {
  shared f32 tile[(KH + 7) * (KW + 7) * 32];
  f32 sum[8];
  f32 part[8];
  f32 by[KH * KW];
  I rest = I(block);
  I groups = I((outs + 31) / 32);
  u64 out = u64(rest % groups) * 32 + u64(lane);
  rest = rest / groups;
  groups = I((ow + 7) / 8);
  S first = S(rest % groups) * 8;
  rest = rest / groups;
  groups = I((oh + 7) / 8);
  S top_row = S(rest % groups) * 8;
  rest = rest / groups;
  u32 warp_of = tid / 32;
  bool is_channel = out < outs;
  S i = top_row - S(top);
  S j = first - S(left) + S(warp_of);
  bool is_left = is_channel && j >= 0 && j < S(w);
  bool is_right = is_channel && warp_of < KW - 1 && j >= 0 - 8 && j + 8 < S(w);
  f32* left_at = x + (s64(rest) * s64(h) + s64(i)) * s64(w * planes) + s64(j) * s64(planes);
  left_at = left_at + (is_channel ? out / (outs / planes) : u64(0));
  f32* right_at = left_at + planes * 8;
  u64 mine = u64(tid);
  repeat (r, KH + 7) {
    bool is_row = i >= 0 && i < S(h);
    f32 v = 0;
    f32 u = 0;
    if (is_row && is_left) { v = left_at[0]; }
    if (is_row && is_right) { u = right_at[0]; }
    tile[mine + r * (KW + 7) * 32] = v;
    if (warp_of < KW - 1) { tile[mine + (r * (KW + 7) + 8) * 32] = u; }
    left_at = left_at + w * planes;
    right_at = right_at + w * planes;
    i = i + 1;
  }
  f32* factor = f + (u64(rest) / many) * outs * (KH * KW) + (is_channel ? out : u64(0));
  repeat (k, KH * KW) {
    by[k] = factor[0];
    factor = factor + outs;
  }
  bar;
  repeat (r, KH + 7) {
    repeat (k, 8) { part[k] = 0; }
    repeat (q, KW) {
      f32 v = tile[mine + (r * (KW + 7) + q) * 32];
      repeat (k, 8) { if (k <= r && r < KH + k) { part[k] = part[k] + v * by[(r - k) * KW + q]; } }
    }
    repeat (k, 8) { if (k <= r && r < KH + k) { if (r == k) { sum[k] = part[k]; } else { sum[k] = sum[k] + part[k]; } } }
  }
  u64 column = u64(first) + u64(warp_of);
  f32* to = y + ((u64(rest) * oh + u64(top_row)) * ow + column) * outs + out;
  repeat (k, 8) {
    if (is_channel && column < ow && u64(top_row) + k < oh) { to[0] = sum[k]; }
    to = to + ow * outs;
  }
}
  );

enum { NEAR = 7, FEW_CHANNELS = 16 }; /* the side of factors of which a thread has all in registers; fewer leave most lanes idle */

static int64_t parts_of(int64_t n, int64_t each) { return (n + each - 1) / each; }

/* Arrays: x, f, y. number: whether x is of planes, then strides, dilations, and what is before, down and across. */
int stencil_there(struct gpu *g, const struct routine_call *c, bool only_asks) {
  const struct routine_array *x = &c->array[0], *f = &c->array[1], *y = &c->array[2];
  const int64_t *d = x->dims + x->rank - 4, *e = f->dims + f->rank - 4, *t = y->dims + y->rank - 4, *n = c->number;
  bool are_planes = n[0] != 0;
  int64_t h = d[1 + are_planes], w = d[2 + are_planes], planes = d[are_planes ? 1 : 3];
  int64_t oh = t[1 + are_planes], ow = t[2 + are_planes], factors = c->n_problems * e[0] * e[1] * e[2];
  int64_t all = c->n_problems * t[0] * e[0] * ow * ((oh + ROWS - 1) / ROWS);
  bool is_wide = all > INT32_MAX || (oh + ROWS) * n[1] + e[1] * n[3] > INT32_MAX / 2 || ow * n[2] + e[2] * n[4] > INT32_MAX / 2;
  bool is_near = !are_planes && !is_wide && e[0] >= FEW_CHANNELS && e[1] > 0 && e[2] > 0 && e[1] <= NEAR && e[2] <= NEAR;
  for (int i = 1; i <= 4; i++) is_near = is_near && n[i] == 1;
  const struct written_name types[] = { { "I", 0, is_wide ? "u64" : "u32" }, { "S", 0, is_wide ? "s64" : "s32" } };
  const struct written_name names[] = { types[0], types[1], { "ARE_PLANES", are_planes, NULL }, { NULL, 0, NULL } };
  const struct written_name near[] = { types[0], types[1], { "KH", e[1], NULL }, { "KW", e[2], NULL }, { NULL, 0, NULL } };
  struct routine_room room = { .gpu = g };
  struct routine_module *m;
  uint64_t by = f->at;
  int how = is_near ? routine_load(g, near_text, near, &m) : routine_load(g, stencil_text, names, &m);
  if (how || only_asks || !all) return how;
  if (!are_planes && factors) how = room_take(&room, (size_t)factors * 4, &by);
  if (!how && by != f->at)
    how = LAUNCH(g, m, "stencil_turn", (factors - 1) / 256 + 1, 256, f->at, by, (uint64_t)e[0], (uint64_t)(e[1] * e[2]),
                 (uint64_t)factors);
  if (!how && is_near)
    how = LAUNCH(g, m, "stencil", c->n_problems * t[0] * parts_of(oh, ROWS) * parts_of(ow, 8) * parts_of(e[0], 32), 256, x->at, by,
                 y->at, (uint64_t)planes, (uint64_t)e[0], (uint64_t)h, (uint64_t)w, (uint64_t)oh, (uint64_t)ow, (uint64_t)n[5],
                 (uint64_t)n[6], (uint64_t)t[0]);
  else if (!how)
    how = LAUNCH(g, m, "stencil", (all - 1) / 256 + 1, 256, x->at, by, y->at, (uint64_t)all, (uint64_t)planes, (uint64_t)e[0],
                 (uint64_t)h, (uint64_t)w, (uint64_t)oh, (uint64_t)ow, (uint64_t)e[1], (uint64_t)e[2], (uint64_t)n[1],
                 (uint64_t)n[2], (uint64_t)n[3], (uint64_t)n[4], (uint64_t)n[5], (uint64_t)n[6], (uint64_t)t[0],
                 (uint64_t)(d[0] * h * w * planes));
  return room_give(&room), how;
}
