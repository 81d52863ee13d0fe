/* gpu_attention_multiply.c -- products of attention by the tensor cores: of halves by groups (wgmma) or by warps (mma); those
 * of f32 are gpu_attention_f32.c. All of them give a lane the same elements of the results.
 *
 * By groups a product is begun and waited for later (attend_wait_but); by warps it is done when the text goes on. */
#include "backend/cuda/gpu_attention.h"

/* dst = base + at + (8 (lane >> a & 1) + lane % 8) pitch + 16 (lane >> b & 1) */
const char *attend_row_of_lane(struct printer *p, const struct ptx_attention *t, const struct ptx_operand *o, int a, int b) {
  const char *r = ptx_long(p), *w = ptx_word(p), *row = ptx_word(p);
  ptx_line(p, "shr.u32 %s, %s, %d", row, t->lane, a);
  ptx_line(p, "and.b32 %s, %s, 1", row, row);
  ptx_line(p, "and.b32 %s, %s, 7", w, t->lane);
  ptx_line(p, "mad.lo.u32 %s, %s, 8, %s", row, row, w);
  ptx_line(p, "shr.u32 %s, %s, %d", w, t->lane, b);
  ptx_line(p, "and.b32 %s, %s, 1", w, w);
  ptx_line(p, "shl.b32 %s, %s, 4", w, w);
  ptx_line(p, "mad.lo.u32 %s, %s, %d, %s", w, row, o->pitch, w);
  ptx_line(p, "cvt.u64.u32 %s, %s", r, w);
  ptx_line(p, "add.s64 %s, %s, %s", r, r, t->base);
  ptx_line(p, "add.s64 %s, %s, %d", r, r, o->at);
  return r;
}

static void load_four(struct printer *p, const char *at, int more, bool is_turned, const char *r[4]) {
  for (int i = 0; i < 4; i++) r[i] = ptx_word(p);
  ptx_line(p, "ldmatrix.sync.aligned.m8n8.x4%s.shared.b16 {%s, %s, %s, %s}, [%s+%d]", is_turned ? ".trans" : "", r[0], r[1], r[2],
      r[3],
           at, more);
}

static void multiply(struct printer *p, const struct ptx_attention *t, const char *const c[4], const char *const a[4],
                     const char *const b[2]) {
  ptx_line(p, "mma.sync.aligned.m16n8k16.row.col.f32.%s.%s.f32 {%s, %s, %s, %s}, {%s, %s, %s, %s}, {%s, %s}, {%s, %s, %s, %s}",
           t->type, t->type, c[0], c[1], c[2], c[3], a[0], a[1], a[2], a[3], b[0], b[1], c[0], c[1], c[2], c[3]);
}

void attend_load_own(struct printer *p, struct ptx_attention *t, int k) {
  struct ptx_operand *o = &t->own[k];
  const char *at = attend_row_of_lane(p, t, o, 3, 4), *by = ptx_long(p);
  ptx_line(p, "mul.wide.u32 %s, %s, %d", by, t->warp, 16 * t->m * o->pitch);
  ptx_line(p, "add.s64 %s, %s, %s", at, at, by);
  for (int i = 0; i < t->m; i++)
    for (int s = 0; s < o->padded / 16; s++) load_four(p, at, 16 * i * o->pitch + 32 * s, false, t->fragment[k][i][s]);
}

static void zeros(struct printer *p, const struct ptx_attention *t, const char *x[2][ATTEND_TILE / 8][4]) {
  for (int i = 0; i < t->m; i++)
    for (int j = 0; j < ATTEND_TILE / 8; j++)
      for (int e = 0; e < 4; e++) ptx_line(p, "mov.f32 %s, 0f00000000", x[i][j][e]);
}

/* x = the group's own rows k times the rows of tile k, turned; begun, and not waited for */
static void group_scores(struct printer *p, const struct ptx_attention *t, int k, const char *x[2][ATTEND_TILE / 8][4]) {
  const struct ptx_operand *o = &t->tile[k], *own = &t->own[k];
  const char *to = ptx_group_list(p, (const char *const (*)[4])x[0], ATTEND_TILE / 8);
  ptx_group_begin(p);
  for (int s = 0; s < o->padded / 16; s++)
    ptx_group_multiply(p, &(struct ptx_group){ .type = t->type, .columns = ATTEND_TILE, .adds = s > 0, .sums = to,
                           .a = ptx_group_at(p, own->plain, NULL, s / 4 * own->piece + s % 4 * 32),
                           .b = ptx_group_at(p, o->plain, t->stage, s / 4 * o->piece + s % 4 * 32) });
  ptx_group_end(p);
}

/* Factor `which` of a product is x, as halves. */
void attend_set_factor(struct printer *p, const struct ptx_attention *t, int which, const char *x[ATTEND_TILE / 8][4]) {
  for (int s = 0; s < ATTEND_TILE / 16; s++)
    for (int e = 0; e < 4; e++)
      ptx_line(p, "cvt.rn.%sx2.f32 %s, %s, %s", t->type, t->factor[which][s][e], x[2 * s + e / 2][e % 2 * 2 + 1],
               x[2 * s + e / 2][e % 2 * 2]);
}

/* sum += that factor times operand k of the tile in that stage; begun, and not waited for */
void attend_group_product(struct printer *p, const struct ptx_attention *t, int which, int k, const char *stage,
                          const char *const sum[ATTEND_FRAGMENTS][4]) {
  const struct ptx_operand *o = &t->tile[k];
  const char *to = ptx_group_list(p, sum, o->padded / 8), *(*const a)[4] = (const char *(*)[4])t->factor[which];
  ptx_group_begin(p);
  for (int s = 0; s < ATTEND_TILE / 16; s++)
    ptx_group_multiply(p, &(struct ptx_group){ .type = t->type, .columns = o->padded, .adds = true, .sums = to,
                           .a = ptx_textf(p, "{%s, %s, %s, %s}", a[s][0], a[s][1], a[s][2], a[s][3]), .a_in_registers = true,
                           .b = ptx_group_at(p, o->turned, stage, 2 * s * PTX_ATOM), .b_is_turned = true });
  ptx_group_end(p);
}

void attend_wait_but(struct printer *p, const struct ptx_attention *t, int n) {
  if (t->by_groups) ptx_group_wait(p, n);
}

void attend_scores(struct printer *p, const struct ptx_attention *t, int k, const char *x[2][ATTEND_TILE / 8][4]) {
  if (t->by_groups) { group_scores(p, t, k, x); return; }
  const struct ptx_operand *o = &t->tile[k];
  const char *at = ptx_long(p), *b[4];
  zeros(p, t, x);
  if (t->is_f32) { attend_scores_of_f32(p, t, k, x[0]); return; }
  ptx_line(p, "add.s64 %s, %s, %s", at, o->plain, t->stage);
  for (int s = 0; s < o->padded / 16; s++)
    for (int j = 0; j < ATTEND_TILE / 16; j++) {
      load_four(p, at, 16 * j * o->pitch + 32 * s, false, b);
      for (int i = 0; i < t->m; i++)
        for (int h = 0; h < 2; h++) multiply(p, t, x[i][2 * j + h], t->fragment[k][i][s], b + 2 * h);
    }
}

/* Two numbers as halves of a word, the first in its low one. */
const char *attend_pack(struct printer *p, const struct ptx_attention *t, const char *low, const char *high) {
  const char *r = ptx_word(p);
  ptx_line(p, "cvt.rn.%sx2.f32 %s, %s, %s", t->type, r, high, low);
  return r;
}

void attend_add_product(struct printer *p, const struct ptx_attention *t, const char *x[2][ATTEND_TILE / 8][4], int k,
                        const char *sum[2][ATTEND_FRAGMENTS][4]) {
  if (t->is_f32) { attend_product_of_f32(p, t, x[0], k, sum[0]); return; }
  const struct ptx_operand *o = &t->tile[k];
  const char *at = ptx_long(p), *b[4], *a[2][4];
  ptx_line(p, "add.s64 %s, %s, %s", at, o->turned, t->stage);
  for (int s = 0; s < ATTEND_TILE / 16; s++) {
    for (int i = 0; i < t->m; i++)
      for (int e = 0; e < 4; e++) a[i][e] = attend_pack(p, t, x[i][2 * s + e / 2][e % 2 * 2], x[i][2 * s + e / 2][e % 2 * 2 + 1]);
    for (int j = 0; j < o->padded / 16; j++) {
      load_four(p, at, 16 * s * o->pitch + 32 * j, true, b);
      for (int i = 0; i < t->m; i++)
        for (int h = 0; h < 2; h++) multiply(p, t, sum[i][2 * j + h], a[i], b + 2 * h);
    }
  }
}
