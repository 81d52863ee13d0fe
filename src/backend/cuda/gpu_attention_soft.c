/* gpu_attention_soft.c -- exponentials of attention: from scores to p, and from p and dp to ds.
 *
 * Forwards the largest score of a row is not known before the last tile. What is subtracted is about the largest so far; where
 * a tile goes far beyond it, it is raised, and what was summed is made less by the difference.
 *
 * An exponent of 2 is c s - c most, by one fma. Where a mask was added it is c (s - most): masks hide by the least number there
 * is, or by some other that is as good, and where a row sees nothing else c s is -inf, or c most is rounded by so much that an
 * exponential is infinite, or all are 0. */
#include "backend/cuda/gpu_attention.h"

void attend_over_quad(struct printer *p, const char *x, const char *op) {
  for (int by = 1; by < 4; by *= 2) {
    const char *other = ptx_word(p);
    ptx_line(p, "shfl.sync.bfly.b32 %s, %s, %d, 31, 0xffffffff", other, x, by);
    ptx_line(p, "%s.f32 %s, %s, %s", op, x, x, other);
  }
}

/* to = c (score - largest), low being what stands for the largest */
static void exponent_of(struct printer *p, const struct ptx_attention *t, const char *to, const char *score, const char *low) {
  const char *c = attend_float(p, attend_exponent(p, t));
  if (!attend_adds_mask(p, t)) { ptx_line(p, "fma.rn.f32 %s, %s, %s, %s", to, score, c, low); return; }
  ptx_line(p, "sub.rn.f32 %s, %s, %s", to, score, low);
  ptx_line(p, "mul.rn.f32 %s, %s, %s", to, to, c);
}

/* The largest score becomes what is subtracted from now on; what was summed before is worth less by the difference. */
static void raise_row(struct printer *p, const struct ptx_attention *t, int i, int h, const char *most) {
  const char *less = t->less[i][h], *is = ptx_pred(p), *low = t->low[i][h], *total = t->total[i][h];
  attend_over_quad(p, most, "max");
  ptx_line(p, "max.f32 %s, %s, %s", most, most, t->most[i][h]);
  ptx_line(p, "setp.eq.f32 %s, %s, 0fFF800000", is, most);
  ptx_line(p, "selp.f32 %s, 0f00000000, %s, %s", low, most, is); /* a row that has seen nothing yet: all of it becomes 0 */
  if (!attend_adds_mask(p, t)) ptx_line(p, "mul.rn.f32 %s, %s, %s", low, low, attend_float(p, -attend_exponent(p, t)));
  exponent_of(p, t, less, t->most[i][h], low);
  ptx_line(p, "ex2.approx.ftz.f32 %s, %s", less, less);
  ptx_line(p, "mov.f32 %s, %s", t->most[i][h], most);
  ptx_line(p, "mul.rn.f32 %s, %s, %s", total, total, less);
}

/* The sums of rows that were raised, once the product of the tile before is in them. Waiting for that on both sides of the jump
 * keeps the compiler from waiting before the exponentials, which stand in front of it. */
void attend_lower_sums(struct printer *p, const struct ptx_attention *t) {
  const char *level = ptx_label(p, "as_high");
  ptx_line(p, "@%s bra %s", t->is_level, level);
  attend_wait_but(p, t, 0);
  for (int i = 0; i < t->m; i++)
    for (int j = 0; j < t->tile[1].padded / 8; j++)
      for (int e = 0; e < 4; e++) ptx_line(p, "mul.rn.f32 %s, %s, %s", t->sum[0][i][j][e], t->sum[0][i][j][e], t->less[i][e / 2]);
  ptx_place(p, level);
  attend_wait_but(p, t, 0);
}

/* Rows are raised when a score is beyond what was the largest by so much that 2^8 times as much is added: rarely. */
static void raise_rows(struct printer *p, const struct ptx_attention *t) {
  const char *most[2][2], *beyond = ptx_word(p), *votes = ptx_word(p), *is = ptx_pred(p), *level = ptx_label(p, "level");
  ptx_line(p, "mov.f32 %s, 0f00000000", beyond);
  for (int i = 0; i < t->m; i++)
    for (int h = 0; h < 2; h++) {
      const char *m = most[i][h] = ptx_word(p), *by = ptx_word(p);
      ptx_line(p, "max.f32 %s, %s, %s", m, t->s[i][0][2 * h], t->s[i][0][2 * h + 1]);
      for (int j = 1; j < ATTEND_TILE / 8; j++)
        for (int e = 0; e < 2; e++) ptx_line(p, "max.f32 %s, %s, %s", m, m, t->s[i][j][2 * h + e]);
      ptx_line(p, "sub.rn.f32 %s, %s, %s", by, m, t->most[i][h]); /* of a row that sees nothing: nan, which loses */
      ptx_line(p, "max.f32 %s, %s, %s", beyond, beyond, by);
    }
  ptx_line(p, "setp.gt.f32 %s, %s, %s", is, beyond, attend_float(p, 8 / attend_exponent(p, t)));
  ptx_line(p, "vote.sync.ballot.b32 %s, %s, 0xffffffff", votes, is);
  ptx_line(p, "setp.eq.u32 %s, %s, 0", t->is_level, votes);
  ptx_line(p, "@%s bra %s", t->is_level, level);
  for (int i = 0; i < t->m; i++)
    for (int h = 0; h < 2; h++) raise_row(p, t, i, h, most[i][h]);
  ptx_place(p, level);
}

/* p = 2^(c (s - most)), where most is about the largest so far */
void attend_soft(struct printer *p, const struct ptx_attention *t) {
  raise_rows(p, t);
  for (int i = 0; i < t->m; i++)
    for (int h = 0; h < 2; h++)
      for (int j = 0; j < ATTEND_TILE / 8; j++)
        for (int e = 0; e < 2; e++) {
          const char *u = t->s[i][j][2 * h + e];
          exponent_of(p, t, u, u, t->low[i][h]);
          ptx_line(p, "ex2.approx.ftz.f32 %s, %s", u, u);
          ptx_line(p, "add.rn.f32 %s, %s, %s", t->total[i][h], t->total[i][h], u);
        }
}

/* p = 2^(c s - lse / ln 2) */
void attend_soft_again(struct printer *p, const struct ptx_attention *t) {
  const char *c = attend_float(p, attend_exponent(p, t));
  for (int j = 0; j < ATTEND_TILE / 8; j++) {
    struct attend_stats x = t->is_key ? attend_stats_of(p, t, j) : (struct attend_stats){ 0 };
    for (int i = 0; i < t->m; i++)
      for (int e = 0; e < 4; e++) {
        const char *u = t->s[i][j][e];
        ptx_line(p, "fma.rn.f32 %s, %s, %s, %s", u, u, c, t->is_key ? x.lse[e % 2] : t->lse[i][e / 2]);
        ptx_line(p, "ex2.approx.ftz.f32 %s, %s", u, u);
      }
  }
}

/* ds = p (dp - delta): dp is in ds before */
void attend_soft_derivative(struct printer *p, const struct ptx_attention *t) {
  for (int j = 0; j < ATTEND_TILE / 8; j++) {
    struct attend_stats x = t->is_key ? attend_stats_of(p, t, j) : (struct attend_stats){ 0 };
    for (int i = 0; i < t->m; i++)
      for (int e = 0; e < 4; e++) {
        const char *v = t->ds[i][j][e];
        ptx_line(p, "sub.rn.f32 %s, %s, %s", v, v, t->is_key ? x.delta[e % 2] : t->delta[i][e / 2]);
        ptx_line(p, "mul.rn.f32 %s, %s, %s", v, v, t->s[i][j][e]);
      }
  }
}
