/* gpu_attention_store.c -- results of attention, from registers to memory: y and lse, dq, or dk and dv. */
#include "backend/cuda/gpu_attention.h"
#include <math.h>

/* Two neighbours of a row; n: columns of the matrix. */
static void store_two(struct printer *p, const struct ptx_attention *t, int buf, const char *row, const char *column, int j, int n,
                      const char *const x[2]) {
  weft_dtype d = (weft_dtype)p->k->bufs[buf].dtype;
  int width = kir_width(d);
  const char *is = ptx_pred(p), *skip = ptx_label(p, "beyond");
  if (8 * j >= n) return;
  if (8 * j + 8 > n) {
    ptx_line(p, "setp.ge.s32 %s, %s, %d", is, column, n - 8 * j);
    ptx_line(p, "@%s bra %s", is, skip);
  }
  if (n % 2 == 0 && d != WEFT_F32) ptx_line(p, "st.global.b32 [%s+%d], %s", row, 8 * j * width, attend_pack(p, t, x[0], x[1]));
  else if (n % 2 == 0) ptx_line(p, "st.global.v2.b32 [%s+%d], {%s, %s}", row, 8 * j * width, x[0], x[1]);
  else for (int e = 0; e < 2; e++) {
    const char *both = d == WEFT_F32 ? NULL : attend_pack(p, t, x[e], x[e]), *low = both ? ptx_own(p, OWN_HALF) : NULL;
    if (e) {
      ptx_line(p, "setp.ge.s32 %s, %s, %d", is, column, n - 8 * j - 1);
      ptx_line(p, "@%s bra %s", is, skip);
    }
    if (both) ptx_line(p, "cvt.u16.u32 %s, %s", low, both);
    ptx_line(p, "st.global.%s [%s+%d], %s", both ? "b16" : "b32", row, (8 * j + e) * width, both ? low : x[e]);
  }
  ptx_place(p, skip);
}

/* Sums of the block's rows, each times by[i][h], to memory. */
static void store_sums(struct printer *p, const struct ptx_attention *t, int which, int buf, int n, const char *by[2][2]) {
  const char *base = attend_base(p, t, buf), *column = attend_first_column(p, t);
  int width = kir_width((weft_dtype)p->k->bufs[buf].dtype);
  for (int i = 0; i < t->m; i++)
    for (int h = 0; h < 2; h++) {
      const char *row = attend_row_index(p, t, i, h), *is = ptx_pred(p), *next = ptx_label(p, "next");
      const char *at = ptx_long(p), *w = ptx_long(p);
      ptx_line(p, "setp.ge.s32 %s, %s, %s", is, row, t->n_own);
      ptx_line(p, "@%s bra %s", is, next);
      ptx_line(p, "mul.wide.u32 %s, %s, %d", w, column, width);
      ptx_line(p, "add.s64 %s, %s, %s", at, base, w);
      attend_go(p, at, attend_wide(p, row), attend_bytes_along(p, t, buf, 0));
      for (int j = 0; j < attend_up(n, 16) / 8; j++) {
        const char *const *x = &t->sum[which][i][j][2 * h];
        for (int e = 0; e < 2 && by; e++) ptx_line(p, "mul.rn.f32 %s, %s, %s", x[e], x[e], by[i][h]);
        store_two(p, t, buf, at, column, j, n, x);
      }
      ptx_place(p, next);
    }
}

/* Below it log(total) is lost beside a score: rows that see nothing but what an added mask has hidden so. */
static const float FAR = -0x1p20f;

/* y = sum / total, lse = most + log(total), or -inf where all scores are far below 0: the row has no part in derivatives then. */
static void store_whole(struct printer *p, const struct ptx_attention *t) {
  const char *by[2][2], *c = attend_float(p, attend_exponent(p, t)), *base = attend_base(p, t, t->a->lse), *first = ptx_word(p);
  ptx_line(p, "and.b32 %s, %s, 3", first, t->lane);
  for (int i = 0; i < t->m; i++)
    for (int h = 0; h < 2; h++) {
      const char *row = attend_row_index(p, t, i, h), *is = ptx_pred(p), *lse = ptx_word(p), *at = ptx_long(p);
      const char *low = ptx_word(p), *is_low = ptx_pred(p);
      attend_over_quad(p, t->total[i][h], "add.rn");
      by[i][h] = ptx_word(p);
      ptx_line(p, "rcp.approx.ftz.f32 %s, %s", by[i][h], t->total[i][h]); /* a division is a call: wgmma would be waited for */
      ptx_line(p, "setp.eq.f32 %s, %s, 0fFF800000", is_low, t->most[i][h]);
      ptx_line(p, "selp.f32 %s, 0f00000000, %s, %s", low, t->most[i][h], is_low);
      ptx_line(p, "lg2.approx.ftz.f32 %s, %s", lse, t->total[i][h]);
      ptx_line(p, "fma.rn.f32 %s, %s, %s, %s", lse, low, c, lse);
      ptx_line(p, "mul.rn.f32 %s, %s, %s", lse, lse, attend_float(p, (float)M_LN2));
      if (attend_adds_mask(p, t)) {
        ptx_line(p, "setp.lt.f32 %s, %s, %s", is_low, t->most[i][h], attend_float(p, FAR));
        ptx_line(p, "selp.f32 %s, 0fFF800000, %s, %s", lse, lse, is_low);
      }
      ptx_line(p, "setp.lt.s32 %s, %s, %s", is, row, t->n_own);
      ptx_line(p, "setp.eq.and.u32 %s, %s, 0, %s", is, first, is);
      ptx_line(p, "mov.s64 %s, %s", at, base);
      attend_go(p, at, attend_wide(p, row), attend_bytes_along(p, t, t->a->lse, 0));
      ptx_line(p, "@%s st.global.b32 [%s], %s", is, at, lse);
    }
  store_sums(p, t, 0, t->a->y, t->a->e, by);
}

void attend_store_results(struct printer *p, const struct ptx_attention *t) {
  const char *scale = attend_float(p, (float)t->a->scale), *by[2][2] = { { scale, scale }, { scale, scale } };
  if (!t->is_grad) { store_whole(p, t); return; }
  store_sums(p, t, 0, t->is_key ? t->a->dk : t->a->dq, t->a->d, by);
  if (t->is_key) store_sums(p, t, 1, t->a->dv, t->a->e, NULL);
}
