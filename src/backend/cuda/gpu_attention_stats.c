/* gpu_attention_stats.c -- lse and delta of rows, which derivatives of attention read: a query's of own rows, a key's of each tile.
 *
 * p = exp(s - lse), ds = p (dp - delta). Rows that see nothing have lse -inf: they get 0 in its place, since their scores are -inf
 * and p is 0 whatever is subtracted. */
#include "backend/cuda/gpu_attention.h"
#include <math.h>

/* lse becomes what is added to an exponent of 2. Where a row sees nothing its scores are -inf and stay it: p and ds are 0. */
static void as_exponent(struct printer *p, const char *lse, const char *delta) {
  const char *sees = ptx_pred(p);
  ptx_line(p, "setp.neu.f32 %s, %s, 0fFF800000", sees, lse);
  ptx_line(p, "mul.rn.f32 %s, %s, %s", lse, lse, attend_float(p, (float)-M_LOG2E));
  ptx_line(p, "selp.f32 %s, %s, 0f00000000, %s", lse, lse, sees);
  ptx_line(p, "selp.f32 %s, %s, 0f00000000, %s", delta, delta, sees);
}

/* By keys: each of 64 threads has lse and delta of one row of the next tile in registers, until it is that tile's turn. */
void attend_plan_stats(struct printer *p, struct ptx_attention *t) {
  t->stat_row = ptx_word(p), t->stat_to = ptx_long(p), t->has_stat = ptx_pred(p);
  t->new_lse = ptx_word(p), t->new_delta = ptx_word(p);
  ptx_line(p, "add.s32 %s, %s, %s", t->stat_row, t->tid, t->at);
  ptx_line(p, "setp.lt.u32 %s, %s, %d", t->has_stat, t->tid, ATTEND_TILE);
  ptx_line(p, "mul.wide.u32 %s, %s, 4", t->stat_to, t->tid);
  ptx_line(p, "add.s64 %s, %s, %s", t->stat_to, t->stat_to, t->base);
}

/* Rows beyond the matrix have 0 for both: what is multiplied by them is 0 as well. */
void attend_load_next_stats(struct printer *p, const struct ptx_attention *t) {
  const char *is = ptx_pred(p), *lse_at = attend_base(p, t, t->a->lse), *delta_at = attend_base(p, t, t->a->delta);
  const char *w = attend_wide(p, t->stat_row);
  attend_go(p, lse_at, w, attend_bytes_along(p, t, t->a->lse, 0));
  attend_go(p, delta_at, w, attend_bytes_along(p, t, t->a->delta, 0));
  ptx_line(p, "setp.lt.and.s32 %s, %s, %s, %s", is, t->stat_row, t->n_across, t->has_stat);
  ptx_line(p, "mov.f32 %s, 0f00000000", t->new_lse);
  ptx_line(p, "mov.f32 %s, 0f00000000", t->new_delta);
  ptx_line(p, "@%s ld.global.nc.b32 %s, [%s]", is, t->new_lse, lse_at);
  ptx_line(p, "@%s ld.global.nc.b32 %s, [%s]", is, t->new_delta, delta_at);
  ptx_line(p, "add.s32 %s, %s, %d", t->stat_row, t->stat_row, ATTEND_TILE);
}

void attend_store_stats(struct printer *p, const struct ptx_attention *t, const char *stage) {
  const char *to = ptx_long(p);
  as_exponent(p, t->new_lse, t->new_delta);
  ptx_line(p, "add.s64 %s, %s, %s", to, t->stat_to, stage);
  ptx_line(p, "@%s st.shared.b32 [%s+%d], %s", t->has_stat, to, t->stats_at, t->new_lse);
  ptx_line(p, "@%s st.shared.b32 [%s+%d], %s", t->has_stat, to, t->stats_at + 4 * ATTEND_TILE, t->new_delta);
}

/* By queries: lse and delta of the own rows. Rows beyond the matrix read those of the last, and are not stored. */
void attend_load_stats(struct printer *p, struct ptx_attention *t) {
  const char *base[2] = { attend_base(p, t, t->a->lse), attend_base(p, t, t->a->delta) }, *last = ptx_word(p);
  ptx_line(p, "sub.s32 %s, %s, 1", last, t->n_own);
  for (int i = 0; i < t->m; i++)
    for (int h = 0; h < 2; h++) {
      const char *row = attend_row_index(p, t, i, h), *at[2] = { ptx_long(p), ptx_long(p) }, *w;
      t->lse[i][h] = ptx_word(p), t->delta[i][h] = ptx_word(p);
      ptx_line(p, "min.s32 %s, %s, %s", row, row, last);
      w = attend_wide(p, row);
      for (int k = 0; k < 2; k++) {
        ptx_line(p, "mov.s64 %s, %s", at[k], base[k]);
        attend_go(p, at[k], w, attend_bytes_along(p, t, k ? t->a->delta : t->a->lse, 0));
        ptx_line(p, "ld.global.nc.b32 %s, [%s]", k ? t->delta[i][h] : t->lse[i][h], at[k]);
      }
      as_exponent(p, t->lse[i][h], t->delta[i][h]);
    }
}

/* Key: where this lane reads lse and delta of the rows of a tile. */
void attend_plan_stat_columns(struct printer *p, struct ptx_attention *t) {
  const char *column = attend_first_column(p, t);
  t->stat = ptx_long(p);
  ptx_line(p, "mul.wide.u32 %s, %s, 4", t->stat, column);
  ptx_line(p, "add.s64 %s, %s, %s", t->stat, t->stat, t->base);
  ptx_line(p, "add.s64 %s, %s, %d", t->stat, t->stat, t->stats_at);
}

/* Lse and delta of this lane's two rows of fragment j: of the tile, or of its own rows. */
struct attend_stats attend_stats_of(struct printer *p, const struct ptx_attention *t, int j) {
  struct attend_stats r;
  const char *at = ptx_long(p);
  for (int e = 0; e < 2; e++) r.lse[e] = ptx_word(p), r.delta[e] = ptx_word(p);
  ptx_line(p, "add.s64 %s, %s, %s", at, t->stat, t->stage);
  ptx_line(p, "ld.shared.v2.b32 {%s, %s}, [%s+%d]", r.lse[0], r.lse[1], at, 32 * j);
  ptx_line(p, "ld.shared.v2.b32 {%s, %s}, [%s+%d]", r.delta[0], r.delta[1], at, 32 * j + 4 * ATTEND_TILE);
  return r;
}
