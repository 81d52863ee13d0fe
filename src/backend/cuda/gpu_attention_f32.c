/* gpu_attention_f32.c -- products of f32 by tensor cores, which multiply numbers of 11 bits: each f32 is two of those.
 *
 * x = high + low, and a b is about a.low b.high + a.high b.low + a.high b.high, up to 2^-21 of it. */
#include "backend/cuda/gpu_attention.h"

/* x = high + low, each with the 11 bits of tf32, up to 2^-23 of it; so a b is about a.high b.high + a.low b.high + a.high b.low.
 * What has no finite low part (nan, inf and the largest numbers) is high alone, and has no part in the other two products. */
struct two_parts { const char *high, *finite, *low; };

static struct two_parts split(struct printer *p, const char *x) {
  struct two_parts r = { ptx_word(p), ptx_word(p), ptx_word(p) };
  const char *size = ptx_word(p), *is = ptx_pred(p);
  ptx_line(p, "and.b32 %s, %s, 0x7fffffff", size, x);
  ptx_line(p, "setp.lt.f32 %s, %s, 0f7F7FF000", is, size);
  ptx_line(p, "mov.b32 %s, %s", r.high, x);
  ptx_line(p, "@%s add.u32 %s, %s, 0x1000", is, r.high, r.high);
  ptx_line(p, "and.b32 %s, %s, 0xffffe000", r.high, r.high);
  ptx_line(p, "sub.rn.f32 %s, %s, %s", r.low, x, r.high);
  ptx_line(p, "selp.b32 %s, %s, 0, %s", r.low, r.low, is);
  ptx_line(p, "selp.b32 %s, %s, 0, %s", r.finite, r.high, is);
  return r;
}

static struct two_parts load_split(struct printer *p, const char *at, int more) {
  const char *x = ptx_word(p);
  ptx_line(p, "ld.shared.b32 %s, [%s+%d]", x, at, more);
  return split(p, x);
}

static void multiply_tf32(struct printer *p, const char *const c[4], const char *const a[4], const char *b0, const char *b1) {
  ptx_line(p, "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%s, %s, %s, %s}, {%s, %s, %s, %s}, {%s, %s}, {%s, %s, %s, %s}",
           c[0], c[1], c[2], c[3], a[0], a[1], a[2], a[3], b0, b1, c[0], c[1], c[2], c[3]);
}

static void multiply_parts(struct printer *p, const char *const c[4], const struct two_parts a[4], const struct two_parts b[2]) {
  const char *const low[] = { a[0].low, a[1].low, a[2].low, a[3].low },
             *const high[] = { a[0].high, a[1].high, a[2].high, a[3].high },
             *const finite[] = { a[0].finite, a[1].finite, a[2].finite, a[3].finite };
  multiply_tf32(p, c, low, b[0].finite, b[1].finite);
  multiply_tf32(p, c, finite, b[0].low, b[1].low);
  multiply_tf32(p, c, high, b[0].high, b[1].high);
}

/* A loop of n steps of 8 along k: addresses move on. */
struct step_loop { const char *left, *again; };
static struct step_loop open_steps(struct printer *p, int n) {
  struct step_loop r = { ptx_word(p), ptx_label(p, "eights") };
  ptx_line(p, "mov.u32 %s, %d", r.left, n);
  ptx_place_loop(p, r.again);
  return r;
}
static void close_steps(struct printer *p, struct step_loop r) {
  const char *is = ptx_pred(p);
  ptx_line(p, "sub.u32 %s, %s, 1", r.left, r.left);
  ptx_line(p, "setp.ne.u32 %s, %s, 0", is, r.left);
  ptx_line(p, "@%s bra %s", is, r.again);
}

static const char *copy_of(struct printer *p, const char *at, const char *more) {
  const char *r = ptx_long(p);
  if (more) ptx_line(p, "add.s64 %s, %s, %s", r, at, more);
  else ptx_line(p, "mov.s64 %s, %s", r, at);
  return r;
}

/* Lane l has elements (l / 4, l % 4) of a, eight rows and four columns further, and (l % 4, l / 4) of b, four rows further. */
void attend_scores_of_f32(struct printer *p, const struct ptx_attention *t, int k, const char *x[ATTEND_TILE / 8][4]) {
  const struct ptx_operand *o = &t->tile[k], *own = &t->own[k];
  const char *at = copy_of(p, o->plain, t->stage), *from = copy_of(p, own->plain, NULL);
  struct two_parts a[4], b[2];
  struct step_loop loop = open_steps(p, o->padded / 8);
  for (int e = 0; e < 4; e++) a[e] = load_split(p, from, e % 2 * 8 * own->pitch + e / 2 * 16);
  for (int j = 0; j < ATTEND_TILE / 8; j++) {
    for (int e = 0; e < 2; e++) b[e] = load_split(p, at, 8 * j * o->pitch + 16 * e);
    multiply_parts(p, x[j], a, b);
  }
  ptx_line(p, "add.s64 %s, %s, 32", at, at);
  ptx_line(p, "add.s64 %s, %s, 32", from, from);
  close_steps(p, loop);
}

/* x goes through shared memory, where its columns can be counted. Of its two neighbours there a lane takes one as column l % 4 and
 * the other as four further; the rows of b are taken so too, since the order of k is free. The tensor cores cut what they add, so
 * the sums of a tile begin anew and are rounded when they are added. */
void attend_product_of_f32(struct printer *p, const struct ptx_attention *t, const char *x[ATTEND_TILE / 8][4], int k,
                           const char *sum[ATTEND_FRAGMENTS][4]) {
  const struct ptx_operand *o = &t->tile[k];
  const char *at = copy_of(p, o->turned, t->stage), *from = copy_of(p, t->turn, NULL), *c[ATTEND_FRAGMENTS][4], *v[4];
  struct two_parts a[4], b[2];
  ptx_line(p, "bar.warp.sync 0xffffffff"); /* all are done with what was there */
  for (int j = 0; j < ATTEND_TILE / 8; j++)
    for (int h = 0; h < 2; h++)
      ptx_line(p, "st.shared.v2.b32 [%s+%d], {%s, %s}", from, 8 * h * ATTEND_TURN_PITCH + 32 * j, x[j][2 * h], x[j][2 * h + 1]);
  ptx_line(p, "bar.warp.sync 0xffffffff");
  for (int j = 0; j < o->padded / 8; j++)
    for (int e = 0; e < 4; e++) ptx_line(p, "mov.f32 %s, 0f00000000", c[j][e] = ptx_word(p));
  struct step_loop loop = open_steps(p, ATTEND_TILE / 8);
  for (int h = 0; h < 2; h++)
    ptx_line(p, "ld.shared.v2.b32 {%s, %s}, [%s+%d]", v[h] = ptx_word(p), v[2 + h] = ptx_word(p), from, 8 * h * ATTEND_TURN_PITCH);
  for (int e = 0; e < 4; e++) a[e] = split(p, v[e]);
  for (int j = 0; j < o->padded / 8; j++) {
    for (int e = 0; e < 2; e++) b[e] = load_split(p, at, e * o->pitch + 32 * j);
    multiply_parts(p, c[j], a, b);
  }
  ptx_line(p, "add.s64 %s, %s, %d", at, at, 8 * o->pitch);
  ptx_line(p, "add.s64 %s, %s, 32", from, from);
  close_steps(p, loop);
  for (int j = 0; j < o->padded / 8; j++)
    for (int e = 0; e < 4; e++) ptx_line(p, "add.rn.f32 %s, %s, %s", sum[j][e], sum[j][e], c[j][e]);
}

/* Where a lane reads: row l / 4 and column l % 4, or turned row 2 (l % 4) and column l / 4; own rows are those of its warp. */
const char *attend_place_of_lane(struct printer *p, const struct ptx_attention *t, const struct ptx_operand *o, bool is_own,
                                 bool is_turned) {
  const char *r = ptx_long(p), *row = ptx_word(p), *column = ptx_word(p), *quad = ptx_word(p);
  ptx_line(p, "shr.u32 %s, %s, 2", quad, t->lane);
  ptx_line(p, "and.b32 %s, %s, 3", column, t->lane);
  ptx_line(p, "mov.b32 %s, %s", row, quad);
  if (is_own) ptx_line(p, "mad.lo.u32 %s, %s, 16, %s", row, t->warp, row);
  if (is_turned) {
    ptx_line(p, "shl.b32 %s, %s, 1", row, column);
    ptx_line(p, "mov.b32 %s, %s", column, quad);
  }
  ptx_line(p, "mul.wide.u32 %s, %s, 4", r, column);
  ptx_line(p, "mad.wide.u32 %s, %s, %d, %s", r, row, o->pitch, r);
  ptx_line(p, "add.s64 %s, %s, %s", r, r, t->base);
  ptx_line(p, "add.s64 %s, %s, %d", r, r, o->at);
  return r;
}

/* Where this lane puts its first scores when they become a factor, behind all stages: row l / 4, column 2 (l % 4) of the warp's. */
void attend_plan_turn(struct printer *p, struct ptx_attention *t) {
  const char *row = ptx_word(p), *column = ptx_word(p), *r = t->turn = ptx_long(p);
  ptx_line(p, "shr.u32 %s, %s, 2", row, t->lane);
  ptx_line(p, "mad.lo.u32 %s, %s, 16, %s", row, t->warp, row);
  ptx_line(p, "and.b32 %s, %s, 3", column, t->lane);
  ptx_line(p, "mul.wide.u32 %s, %s, 8", r, column);
  ptx_line(p, "mad.wide.u32 %s, %s, %d, %s", r, row, ATTEND_TURN_PITCH, r);
  ptx_line(p, "add.s64 %s, %s, %s", r, r, t->base);
  ptx_line(p, "add.s64 %s, %s, %d", r, r, attend_own_bytes(t->a, t->by_groups) + 2 * t->stage_bytes);
}
