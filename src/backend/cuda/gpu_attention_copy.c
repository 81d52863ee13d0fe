/* gpu_attention_copy.c -- operands of attention, from memory to shared memory: own rows once, the other side tile by tile.
 *
 * A row of shared memory is what the tensor cores want it to be: by groups pieces of 128 bytes whose chunks of 16 are exchanged
 * (gpu_group.c), else the row and 16 bytes more. Columns beyond the matrix are 0, rows beyond it are never read. */
#include "backend/cuda/gpu_attention.h"

void attend_go(struct printer *p, const char *dst, const char *index, const char *bytes) {
  if (bytes) ptx_line(p, "mad.lo.s64 %s, %s, %s, %s", dst, index, bytes, dst);
}

const char *attend_wide(struct printer *p, const char *w) {
  const char *r = ptx_long(p);
  ptx_line(p, "cvt.s64.s32 %s, %s", r, w);
  return r;
}

const char *attend_base(struct printer *p, const struct ptx_attention *t, int buf) {
  const char *r = ptx_long(p);
  p->base_used[buf] = true;
  ptx_line(p, "mov.u64 %s, %s", r, p->base[buf]);
  for (int i = 0; i < t->a->n_batch; i++) attend_go(p, r, t->batch[i], ptx_stride(p, buf, i));
  return r;
}

const char *attend_bytes_along(struct printer *p, const struct ptx_attention *t, int buf, int axis) {
  const char *s = ptx_stride(p, buf, t->a->n_batch + axis);
  return s ? s : "0";
}

/* How many threads share a row of what is copied, 64 rows at a time: they take turns with chunks of 16 bytes. */
static int sharers(const struct ptx_attention *t) { return t->threads / ATTEND_TILE; }

/* The row of 64 that this thread copies, and which of its sharers it is. */
static void copied_row(struct printer *p, const struct ptx_attention *t, const char *row, const char *turn) {
  ptx_line(p, "shr.u32 %s, %s, %d", row, t->tid, sharers(t) == 8 ? 3 : sharers(t) == 4 ? 2 : 1);
  ptx_line(p, "and.b32 %s, %s, %d", turn, t->tid, sharers(t) - 1);
}

/* Where this thread's first chunk goes: by groups chunk c of row r of a piece stands at c ^ (r mod 8). */
static void plan_place(struct printer *p, const struct ptx_attention *t, struct ptx_operand *o, const char *row, const char *turn) {
  const char *chunk = ptx_word(p), *low = ptx_word(p);
  ptx_line(p, "mov.b32 %s, %s", chunk, turn);
  if (t->by_groups) {
    ptx_line(p, "and.b32 %s, %s, 7", low, row);
    ptx_line(p, "xor.b32 %s, %s, %s", chunk, chunk, low);
  }
  ptx_line(p, "mul.wide.u32 %s, %s, 16", o->to, chunk);
  ptx_line(p, "mad.wide.u32 %s, %s, %d, %s", o->to, row, o->pitch, o->to);
  ptx_line(p, "add.s64 %s, %s, %s", o->to, o->to, t->base);
  ptx_line(p, "add.s64 %s, %s, %d", o->to, o->to, o->at);
}

static void plan_copy(struct printer *p, const struct ptx_attention *t, struct ptx_operand *o, const char *row0,
                      const char *n_rows) {
  const char *row = ptx_word(p), *turn = ptx_word(p);
  o->padded = attend_up(o->n, 16);
  o->pitch = t->by_groups ? PTX_PIECE_ROW : attend_row_bytes(t->a, o->n, false);
  o->base = attend_base(p, t, o->buf);
  o->row_bytes = attend_bytes_along(p, t, o->buf, 0);
  o->from = ptx_long(p), o->to = ptx_long(p), o->left = ptx_word(p), o->step_bytes = ptx_long(p);
  copied_row(p, t, row, turn);
  plan_place(p, t, o, row, turn);
  ptx_line(p, "add.s32 %s, %s, %s", row, row, row0);
  ptx_line(p, "sub.s32 %s, %s, %s", o->left, n_rows, row);
  ptx_line(p, "mov.u64 %s, %s", o->from, o->base);
  attend_go(p, o->from, attend_wide(p, row), o->row_bytes);
  ptx_line(p, "mov.s64 %s, %s", o->step_bytes, o->row_bytes);
  ptx_line(p, "mul.lo.s64 %s, %s, %d", o->step_bytes, o->step_bytes, ATTEND_TILE);
}

static int a_chunk(const struct ptx_attention *t) { return 16 / t->width; } /* elements of 16 bytes */

/* How many of the 16 bytes of chunk c of a row are of the matrix. */
static int chunk_bytes(const struct ptx_attention *t, const struct ptx_operand *o, int c) {
  int left = o->n * t->width - 16 * c;
  return left < 0 ? 0 : left > 16 ? 16 : left;
}

/* The same of the chunk that this thread copies, as a register: c or one of the next, which its sharers copy. */
static const char *bytes_of_chunk(struct printer *p, const struct ptx_attention *t, const struct ptx_operand *o, int c,
                                  const char *turn) {
  const char *bytes = ptx_word(p), *is = ptx_pred(p);
  ptx_line(p, "mov.u32 %s, %d", bytes, chunk_bytes(t, o, c));
  for (int k = 1; k < sharers(t); k++) {
    if (chunk_bytes(t, o, c + k) == chunk_bytes(t, o, c + k - 1)) continue;
    ptx_line(p, "setp.ge.u32 %s, %s, %d", is, turn, k);
    ptx_line(p, "selp.b32 %s, %d, %s, %s", bytes, chunk_bytes(t, o, c + k), bytes, is);
  }
  return bytes;
}

/* What is beyond the matrix becomes 0. A row that is not there is not read: its address is that of the first. */
static void copy_chunks(struct printer *p, const struct ptx_attention *t, const struct ptx_operand *o, const char *to, int more) {
  const char *from = ptx_long(p), *is = ptx_pred(p), *turn = ptx_word(p), *by = ptx_long(p);
  ptx_line(p, "setp.gt.s32 %s, %s, %d", is, o->left, more);
  ptx_line(p, "mov.s64 %s, %s", from, o->from);
  if (more) ptx_line(p, "add.s64 %s, %s, %s", from, from, o->step_bytes);
  ptx_line(p, "and.b32 %s, %s, %d", turn, t->tid, sharers(t) - 1);
  ptx_line(p, "mul.wide.u32 %s, %s, 16", by, turn);
  ptx_line(p, "add.s64 %s, %s, %s", from, from, by);
  ptx_line(p, "selp.b64 %s, %s, %s, %s", from, from, o->base, is);
  for (int c = 0; c < o->padded / a_chunk(t); c += sharers(t)) {
    const char *bytes = bytes_of_chunk(p, t, o, c, turn), *at = to;
    int offset = more * o->pitch + (t->by_groups ? c / 8 * o->piece : 16 * c);
    ptx_line(p, "selp.b32 %s, %s, 0, %s", bytes, bytes, is);
    if (t->by_groups && c % 8) ptx_line(p, "xor.b64 %s, %s, %d", at = ptx_long(p), to, 16 * (c % 8));
    ptx_line(p, "cp.async.cg.shared.global [%s+%d], [%s+%d], 16, %s", at, offset, from, 16 * c, bytes);
  }
}

/* dst: where column `column`, one of this thread's, stands, if its first chunk is at `to`. */
static void place_of(struct printer *p, const struct ptx_attention *t, const struct ptx_operand *o, const char *dst, const char *to,
                     const char *column) {
  const char *chunk = ptx_word(p), *piece = ptx_word(p), *in = ptx_long(p);
  ptx_line(p, "shr.u32 %s, %s, %d", chunk, column, t->is_f32 ? 2 : 3);
  ptx_line(p, "and.b32 %s, %s, %d", chunk, chunk, -sharers(t));
  if (t->by_groups) {
    ptx_line(p, "shr.u32 %s, %s, 3", piece, chunk);
    ptx_line(p, "and.b32 %s, %s, 7", chunk, chunk);
  }
  ptx_line(p, "mul.wide.u32 %s, %s, 16", in, chunk);
  if (t->by_groups) {
    ptx_line(p, "xor.b64 %s, %s, %s", dst, to, in);
    ptx_line(p, "mad.wide.u32 %s, %s, %d, %s", dst, piece, o->piece, dst);
  } else ptx_line(p, "add.s64 %s, %s, %s", dst, to, in);
  ptx_line(p, "and.b32 %s, %s, %d", chunk, column, a_chunk(t) - 1);
  ptx_line(p, "mad.wide.u32 %s, %s, %d, %s", dst, chunk, t->width, dst);
}

/* The same element by element, in a loop over this thread's chunks. */
static void copy_elements(struct printer *p, const struct ptx_attention *t, const struct ptx_operand *o, const char *to, int more) {
  const char *i = ptx_word(p), *column = ptx_word(p), *c = ptx_word(p), *is = ptx_pred(p), *in_row = ptx_pred(p);
  const char *from = ptx_long(p),
             *x = ptx_own(p, t->is_f32 ? OWN_WORD : OWN_HALF), *at = ptx_long(p), *again = ptx_label(p, "elements"),
             *type = t->is_f32 ? "b32" : "b16";
  int shift = t->is_f32 ? 2 : 3;
  ptx_line(p, "and.b32 %s, %s, %d", c, t->tid, sharers(t) - 1);
  ptx_line(p, "shl.b32 %s, %s, %d", c, c, shift);
  ptx_line(p, "mov.u32 %s, 0", i);
  ptx_place_loop(p, again);
  ptx_line(p, "shr.u32 %s, %s, %d", column, i, shift);
  ptx_line(p, "mad.lo.u32 %s, %s, %d, %s", column, column, a_chunk(t) * (sharers(t) - 1), i); /* so many of each of its chunks */
  ptx_line(p, "add.u32 %s, %s, %s", column, column, c);
  place_of(p, t, o, at, to, column);
  ptx_line(p, "setp.gt.s32 %s, %s, %d", in_row, o->left, more);
  ptx_line(p, "setp.lt.and.u32 %s, %s, %d, %s", is, column, o->n, in_row);
  ptx_line(p, "mov.s64 %s, %s", from, o->from);
  if (more) ptx_line(p, "add.s64 %s, %s, %s", from, from, o->step_bytes);
  attend_go(p, from, attend_wide(p, column), attend_bytes_along(p, t, o->buf, 1));
  ptx_line(p, "mov.%s %s, 0", type, x);
  ptx_line(p, "@%s ld.global.%s %s, [%s]", is, type, x, from);
  ptx_line(p, "setp.lt.u32 %s, %s, %d", is, column, o->padded);
  ptx_line(p, "@%s st.shared.%s [%s+%d], %s", is, type, at, more * o->pitch, x);
  ptx_line(p, "add.u32 %s, %s, 1", i, i);
  ptx_line(p, "setp.lt.u32 %s, %s, %d", is, i, attend_up(o->padded / sharers(t), a_chunk(t)));
  ptx_line(p, "@%s bra %s", is, again);
}

void attend_copy(struct printer *p, const struct ptx_attention *t, struct ptx_operand *o, const char *stage, int n) {
  const char *to = o->to;
  if (stage) {
    to = ptx_long(p);
    ptx_line(p, "add.s64 %s, %s, %s", to, o->to, stage);
  }
  for (int i = 0; i < n; i++) (t->is_aligned ? copy_chunks : copy_elements)(p, t, o, to, i * ATTEND_TILE);
  ptx_line(p, "add.s64 %s, %s, %s", o->from, o->from, o->step_bytes);
  ptx_line(p, "sub.s32 %s, %s, %d", o->left, o->left, ATTEND_TILE);
}

/* The descriptor by which wgmma finds an operand in shared memory. group: the number of the group of threads whose 64 rows are
 * meant; NULL: a tile, which all groups share. */
static const char *told(struct printer *p, const struct ptx_attention *t, const struct ptx_operand *o, const char *group) {
  const char *at = ptx_long(p), *by = ptx_long(p);
  ptx_line(p, "add.s64 %s, %s, %d", at, t->base, o->at);
  if (group) {
    ptx_line(p, "mul.wide.u32 %s, %s, %d", by, group, ATTEND_TILE * PTX_PIECE_ROW);
    ptx_line(p, "add.s64 %s, %s, %s", at, at, by);
  }
  return ptx_group_told(p, at, o->piece);
}

void attend_plan_operands(struct printer *p, struct ptx_attention *t) {
  const struct kir_attention *a = t->a;
  int own[2] = { t->is_key ? a->k : a->q, t->is_key ? a->v : a->dy };
  int tile[2] = { t->is_key ? a->q : a->k, t->is_key ? a->dy : a->v };
  int n[2] = { a->d, a->e }, at = 0;
  const char *group = ptx_word(p);
  ptx_line(p, "shr.u32 %s, %s, 7", group, t->tid);
  for (int k = 0; k < t->n_operands; k++) {
    t->own[k] = (struct ptx_operand){ .buf = own[k], .n = n[k], .at = at, .piece = t->rows * PTX_PIECE_ROW };
    plan_copy(p, t, &t->own[k], t->own0, t->n_own);
    if (t->by_groups) t->own[k].plain = told(p, t, &t->own[k], group);
    if (t->is_f32) t->own[k].plain = attend_place_of_lane(p, t, &t->own[k], true, false);
    at += t->rows * attend_row_bytes(a, n[k], t->by_groups);
  }
  for (int k = 0; k < 2; k++) {
    struct ptx_operand *o = &t->tile[k];
    *o = (struct ptx_operand){ .buf = tile[k], .n = n[k], .at = at, .piece = ATTEND_TILE * PTX_PIECE_ROW };
    plan_copy(p, t, o, t->at, t->n_across);
    if (t->by_groups) o->plain = o->turned = told(p, t, o, NULL);
    else if (t->is_f32) {
      o->plain = attend_place_of_lane(p, t, o, false, false);
      o->turned = attend_place_of_lane(p, t, o, false, true);
    } else o->plain = attend_row_of_lane(p, t, o, 4, 3), o->turned = attend_row_of_lane(p, t, o, 3, 4);
    at += ATTEND_TILE * attend_row_bytes(a, n[k], t->by_groups);
  }
  t->stats_at = at;
  t->stage_bytes = attend_stage_bytes(a, t->by_groups);
  if (t->is_f32) attend_plan_turn(p, t);
}
