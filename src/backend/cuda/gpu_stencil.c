/* gpu_stencil.c -- planes by small kernels, one for each channel, on a GPU: the sums of op/stencil.h, in its order.
 *
 * A thread has an element of the result; neighbours read neighbours, and a kernel's factors are the same address for a warp of one
 * plane. What lies outside of x is 0, which is multiplied too. */
#include "backend/cuda/routine.h"

/* I: an unsigned type that counts the elements of each array; S: the signed one. */
static const char stencil_text[] =
  WRITTEN(
entry stencil(f32* x, f32* f, f32* y, u64 all, u64 planes, u64 o, u64 h, u64 w, u64 oh, u64 ow, u64 kh, u64 kw, u64 sh, u64 sw,
              u64 dh, u64 dw, u64 top, u64 left, u64 of_x, u64 of_f, u64 of_y) {
  u64 at = u64(block) * 256 + u64(tid);
  if (at < all) {
    I rest = I(at);
    I problem = rest / I(of_y);
    I out = I(0);
    I row = I(0);
    I column = I(0);
    rest = rest - problem * I(of_y);
    if (ARE_PLANES) {
      column = rest % I(ow);
      rest = rest / I(ow);
      row = rest % I(oh);
      rest = rest / I(oh);
      out = rest % I(planes * o);
      rest = rest / I(planes * o);
    } else {
      out = rest % I(planes * o);
      rest = rest / I(planes * o);
      column = rest % I(ow);
      rest = rest / I(ow);
      row = rest % I(oh);
      rest = rest / I(oh);
    }
    I plane = out / I(o);
    f32* from = x + u64(problem) * of_x;
    f32* factor = f + u64(problem) * of_f + u64(out) * kh * kw;
    u64 step = planes;
    if (ARE_PLANES) {
      from = from + (u64(rest) * planes + u64(plane)) * h * w;
      step = 1;
    } else {
      from = from + u64(rest) * h * w * planes + u64(plane);
    }
    S i = S(row) * S(sh) - S(top);
    S first = S(column) * S(sw) - S(left);
    f32 sum = 0;
    u64 p = 0;
    while (p < kh) {
      f32 part = 0;
      bool is_row = i >= S(0) && i < S(h);
      S j = first;
      f32* line = from + u64(i) * w * step;
      u64 k = 0;
      while (k < kw) {
        f32 v = 0;
        if (is_row && j >= S(0) && j < S(w)) { v = line[u64(j) * step]; }
        part = part + v * factor[k];
        j = j + S(dw);
        k = k + 1;
      }
      sum = p == 0 ? part : sum + part;
      factor = factor + kw;
      i = i + S(dh);
      p = p + 1;
    }
    y[at] = sum;
  }
}
  );

/* Arrays: x, f, y. number: whether x is of planes, then strides, dilations, and what is before, down and across. */
int stencil_there(struct gpu *g, const struct routine_call *c, bool only_asks) {
  const struct routine_array *x = &c->array[0], *f = &c->array[1], *y = &c->array[2];
  const int64_t *d = x->dims + x->rank - 4, *e = f->dims + f->rank - 4, *t = y->dims + y->rank - 4, *n = c->number;
  bool are_planes = n[0] != 0;
  int64_t planes = d[are_planes ? 1 : 3], of_x = d[0] * d[1] * d[2] * d[3], of_f = e[0] * e[1] * e[2];
  int64_t of_y = t[0] * t[1] * t[2] * t[3], all = of_y * c->n_problems, h = d[1 + are_planes], w = d[2 + are_planes];
  bool is_wide = all > INT32_MAX || t[1 + are_planes] * n[1] + e[1] * n[3] > INT32_MAX / 2 ||
                 t[2 + are_planes] * n[2] + e[2] * n[4] > INT32_MAX / 2;
  const struct written_name names[] = { { "I", 0, is_wide ? "u64" : "u32" }, { "S", 0, is_wide ? "s64" : "s32" },
                                        { "ARE_PLANES", are_planes, NULL }, { NULL, 0, NULL } };
  struct routine_module *m;
  int how = routine_load(g, stencil_text, names, &m);
  if (how || only_asks || !all) return how;
  return LAUNCH(g, m, "stencil", (all - 1) / 256 + 1, 256, x->at, f->at, y->at, (uint64_t)all, (uint64_t)planes,
                (uint64_t)(planes ? e[0] / planes : 0), (uint64_t)h, (uint64_t)w, (uint64_t)t[1 + are_planes],
                (uint64_t)t[2 + are_planes], (uint64_t)e[1], (uint64_t)e[2], (uint64_t)n[1], (uint64_t)n[2], (uint64_t)n[3],
                (uint64_t)n[4], (uint64_t)n[5], (uint64_t)n[6], (uint64_t)of_x, (uint64_t)of_f, (uint64_t)of_y);
}
