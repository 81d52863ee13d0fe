/* gpu_attention_mask.c -- what rows of attention see: masks that are added or that choose, bands, and the end of the matrix.
 * What is not seen has the score -inf. */
#include "backend/cuda/gpu_attention.h"
#include <math.h>
#include <string.h>

static bool has_mask(const struct ptx_attention *t) { return t->a->mask >= 0; }
bool attend_adds_mask(const struct printer *p, const struct ptx_attention *t) {
  return has_mask(t) && p->k->bufs[t->a->mask].dtype != WEFT_BOOL;
}
/* Scores are scaled before anything is added to them, or compared if that would turn their order. */
static bool is_scaled_first(const struct printer *p, const struct ptx_attention *t) {
  return attend_adds_mask(p, t) || !(t->a->scale > 0);
}

const char *attend_row_index(struct printer *p, const struct ptx_attention *t, int i, int h) {
  const char *r = ptx_word(p);
  ptx_line(p, "shr.u32 %s, %s, 2", r, t->lane);
  ptx_line(p, "mad.lo.u32 %s, %s, %d, %s", r, t->warp, 16 * t->m, r);
  ptx_line(p, "add.s32 %s, %s, %s", r, r, t->own0);
  ptx_line(p, "add.s32 %s, %s, %d", r, r, 16 * i + 8 * h);
  return r;
}

const char *attend_first_column(struct printer *p, const struct ptx_attention *t) {
  const char *r = ptx_word(p);
  ptx_line(p, "and.b32 %s, %s, 3", r, t->lane);
  ptx_line(p, "shl.b32 %s, %s, 1", r, r);
  return r;
}

void attend_plan_rows(struct printer *p, struct ptx_attention *t) {
  const char *column = attend_first_column(p, t);
  for (int i = 0; i < t->m; i++)
    for (int h = 0; h < 2; h++) {
      const char *row = attend_row_index(p, t, i, h), *limit = t->limit[i][h] = ptx_word(p);
      if (t->is_key && t->a->is_banded) ptx_line(p, "sub.s32 %s, %s, %s", limit, row, t->band);
      else if (t->is_key) ptx_line(p, "mov.s32 %s, 0", limit);
      else if (t->a->is_banded) {
        ptx_line(p, "add.s32 %s, %s, %s", limit, row, t->band);
        ptx_line(p, "add.s32 %s, %s, 1", limit, limit);
        ptx_line(p, "min.s32 %s, %s, %s", limit, limit, t->n_across);
      } else ptx_line(p, "mov.s32 %s, %s", limit, t->n_across);
      ptx_line(p, "sub.s32 %s, %s, %s", limit, limit, column);
      if (!has_mask(t)) continue;
      const char *last = ptx_word(p);
      ptx_line(p, "sub.s32 %s, %s, 1", last, t->n_own);
      ptx_line(p, "min.s32 %s, %s, %s", last, last, row);
      if (!t->mask_base) t->mask_base = attend_base(p, t, t->a->mask);
      t->mask_row[i][h] = ptx_long(p);
      ptx_line(p, "mov.s64 %s, %s", t->mask_row[i][h], t->mask_base);
      attend_go(p, t->mask_row[i][h], attend_wide(p, last), attend_bytes_along(p, t, t->a->mask, t->is_key));
    }
}

/* Every score of the tile meets its element of the mask; subscripts beyond are those of the last. */
static void mask_scores(struct printer *p, const struct ptx_attention *t, const char *x[2][ATTEND_TILE / 8][4]) {
  const char *column = attend_first_column(p, t), *last = ptx_word(p), *across = attend_bytes_along(p, t, t->a->mask, !t->is_key);
  weft_dtype d = (weft_dtype)p->k->bufs[t->a->mask].dtype;
  ptx_line(p, "add.s32 %s, %s, %s", column, column, t->at);
  ptx_line(p, "sub.s32 %s, %s, 1", last, t->n_across);
  for (int j = 0; j < ATTEND_TILE / 8; j++)
    for (int e = 0; e < 2; e++) {
      const char *c = ptx_word(p), *w;
      ptx_line(p, "add.s32 %s, %s, %d", c, column, 8 * j + e);
      ptx_line(p, "min.s32 %s, %s, %s", c, c, last);
      w = attend_wide(p, c);
      for (int i = 0; i < t->m; i++)
        for (int h = 0; h < 2; h++) {
          const char *at = ptx_long(p), *u = x[i][j][2 * h + e], *v;
          ptx_line(p, "mad.lo.s64 %s, %s, %s, %s", at, w, across, t->mask_row[i][h]);
          if (d == WEFT_BOOL) {
            const char *is = ptx_pred(p);
            ptx_line(p, "ld.global.u8 %s, [%s]", v = ptx_word(p), at);
            ptx_line(p, "setp.ne.u32 %s, %s, 0", is, v);
            ptx_line(p, "selp.f32 %s, %s, 0fFF800000, %s", u, u, is);
          } else {
            ptx_load(p, ".global", d, v = ptx_word(p), at);
            ptx_line(p, "add.rn.f32 %s, %s, %s", u, u, v);
          }
        }
    }
}

/* What a row does not see is -inf. Tiles that all rows see are told by the first and last row of the block. */
static void limit_scores(struct printer *p, const struct ptx_attention *t, const char *x[2][ATTEND_TILE / 8][4]) {
  const char *bound = ptx_word(p), *end = ptx_word(p), *is = ptx_pred(p), *all = ptx_label(p, "seen");
  if (t->is_key && !t->a->is_banded) return;
  if (t->is_key) { /* the last key of the block is seen from its row on */
    ptx_line(p, "add.s32 %s, %s, %d", bound, t->own0, t->rows - 1);
    ptx_line(p, "sub.s32 %s, %s, %s", bound, bound, t->band);
    ptx_line(p, "setp.ge.s32 %s, %s, %s", is, t->at, bound);
  } else {
    ptx_line(p, "mov.s32 %s, %s", bound, t->n_across);
    if (t->a->is_banded) {
      ptx_line(p, "add.s32 %s, %s, %s", end, t->own0, t->band);
      ptx_line(p, "add.s32 %s, %s, 1", end, end);
      ptx_line(p, "min.s32 %s, %s, %s", bound, bound, end);
    }
    ptx_line(p, "add.s32 %s, %s, %d", end, t->at, ATTEND_TILE);
    ptx_line(p, "setp.le.s32 %s, %s, %s", is, end, bound);
  }
  ptx_line(p, "@%s bra %s", is, all);
  for (int i = 0; i < t->m; i++)
    for (int h = 0; h < 2; h++) {
      const char *left = ptx_word(p);
      ptx_line(p, "sub.s32 %s, %s, %s", left, t->limit[i][h], t->at);
      for (int j = 0; j < ATTEND_TILE / 8; j++)
        for (int e = 0; e < 2; e++) {
          const char *sees = ptx_pred(p), *u = x[i][j][2 * h + e];
          ptx_line(p, "setp.%s.s32 %s, %s, %d", t->is_key ? "le" : "gt", sees, left, 8 * j + e);
          ptx_line(p, "selp.f32 %s, %s, 0fFF800000, %s", u, u, sees);
        }
    }
  ptx_place(p, all);
}

void attend_mask_scores(struct printer *p, const struct ptx_attention *t, const char *x[2][ATTEND_TILE / 8][4]) {
  const char *scale = attend_float(p, (float)t->a->scale);
  for (int i = 0; i < t->m && is_scaled_first(p, t); i++)
    for (int j = 0; j < ATTEND_TILE / 8; j++)
      for (int e = 0; e < 4; e++) ptx_line(p, "mul.rn.f32 %s, %s, %s", x[i][j][e], x[i][j][e], scale);
  if (has_mask(t)) mask_scores(p, t, x);
  limit_scores(p, t, x);
}

const char *attend_float(struct printer *p, float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return ptx_textf(p, "0f%08X", bits);
}

float attend_exponent(const struct printer *p, const struct ptx_attention *t) {
  return (float)((is_scaled_first(p, t) ? 1 : (double)(float)t->a->scale) * M_LOG2E);
}
