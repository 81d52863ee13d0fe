/* gpu_attention.c -- attention and its derivatives tile by tile: the entry of kernels that say they are that (kir_attention).
 *
 * A block of 128 threads has 64 or 128 rows of its own, a warp 16 or 32 of them as fragments in registers, and goes through the
 * other side in tiles of 64 rows, which come by cp.async into one of two stages of shared memory while the other is worked on.
 *
 *   part     own          tiles          what a tile adds
 *   whole    q            k, v           s = q k', p = exp(s - max so far), y += p v; the sum of p beside
 *   query    q, dy        k, v           p = exp(s - lse), ds = p (dy v' - delta), dq += ds k
 *   key      k, v         q, dy          the same of turned matrices: dv += p' dy, dk += ds' q
 *
 * Scores stand nowhere in memory. Products are of halves by mma, sums of f32 in the order of the tiles: two runs agree, but the
 * bits
 * are not those of the kernel's text. So WEFT_EXACT does without such kernels. Rows that see nothing are nan, as they are
 * there, and add nothing to derivatives.
 *
 * A row of shared memory has 16 bytes more than the elements: the eight rows of a fragment are then in different banks. Where an
 * operand is not aligned to 16 bytes, or has no neighbours along its rows, threads copy it element by element. */
#include "backend/cuda/printer.h"
#include <math.h>
#include <string.h>

enum { THREADS = 128, TILE = 64, MOST_FRAGMENTS = 16, MORE = 16 }; /* MOST_FRAGMENTS: of 8 columns; MORE: bytes between rows */

struct ptx_operand {
  int buf, n, padded;               /* elements of a row, and rounded up to fragments */
  int pitch, at;                    /* bytes from row to row in shared memory; where it begins, tiles: in a stage */
  const char *base;                 /* of this index of the batch */
  const char *from, *to, *left;     /* what this thread copies next: address, address in shared memory, rows from its own on */
  const char *row_bytes, *step_bytes; /* to the next row; to the next tile */
  const char *is_aligned;
  const char *plain, *turned;       /* where a lane reads its row of a fragment: of rows along n, or along k */
};

struct ptx_attention {
  const struct kir_attention *a;
  enum kir_attention_part part;
  bool is_key, is_grad;
  int m;                            /* fragments of 16 rows a warp has */
  int stage_bytes, stats_at;
  const char *type;                 /* of mma */
  const char *lane, *warp, *tid, *base, *stage;
  const char *own0, *at;            /* the first row of the block, and of the tile; words */
  const char *n_own, *n_across, *band; /* words */
  const char *batch[KIR_ATTENTION_AXES];
  struct ptx_operand own[2], tile[2];
  const char *fragment[2][2][MOST_FRAGMENTS / 2][4]; /* of own rows: operand, fragment of rows, step of 16 */
  const char *s[2][TILE / 8][4], *ds[2][TILE / 8][4];
  const char *sum[2][2][MOST_FRAGMENTS][4]; /* results: which, fragment of rows, of columns */
  const char *most[2][2], *total[2][2]; /* of rows: the largest score so far, and the sum */
  const char *lse[2][2], *delta[2][2]; /* of own rows, query */
  const char *limit[2][2];          /* whole,
      query: columns below it are seen; key: those from it on. Less this lane's first column */
  const char *stat;                 /* key: where this lane reads lse and delta of the tile */
  const char *mask_row[2][2], *mask_base;
};

static const char *word(struct printer *p) { return ptx_own(p, OWN_WORD); }
static const char *longword(struct printer *p) { return ptx_own(p, OWN_LONG); }
static const char *pred(struct printer *p) { return ptx_own(p, OWN_PRED); }
static int up(int n, int to) { return (n + to - 1) / to * to; }

static const char *float_text(struct printer *p, float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return ptx_textf(p, "0f%08X", bits);
}

/* ---- Sizes --------------------------------------------------------------------------------------------------------------- */

static int rows_of(const struct kir_attention *a) { return a->part == KIR_ATTEND && a->d <= 64 && a->e <= 64 ? 2 : 1; }
static int pitch_of(int n) { return up(n, 16) * 2 + MORE; }

static int stage_of(const struct kir_attention *a) {
  return TILE * (pitch_of(a->d) + pitch_of(a->e)) + (a->part == KIR_ATTEND_KEY ? 2 * TILE * 4 : 0);
}

static int own_bytes(const struct kir_attention *a) {
  return TILE * rows_of(a) * (pitch_of(a->d) + (a->part == KIR_ATTEND ? 0 : pitch_of(a->e)));
}

bool ptx_attention_shape(const struct ptx_plan *p, const int64_t sizes[], const uint64_t args[], struct ptx_shape *s) {
  const struct kir_attention *a = p->attention;
  if (!a) return false;
  int64_t rows = ptx_size(&p->attention_rows, sizes, args), a_block = TILE * rows_of(a);
  int64_t blocks = rows > 0 ? (rows - 1) / a_block + 1 : 0;
  for (int i = 0; i < a->n_batch; i++) blocks *= ptx_size(&p->attention_batch[i], sizes, args);
  s->block[0] = THREADS, s->block[1] = s->block[2] = 1;
  s->grid[0] = (unsigned)blocks, s->grid[1] = s->grid[2] = 1;
  s->shared_bytes = (size_t)(own_bytes(a) + 2 * stage_of(a));
  return true;
}

/* ---- Copying ------------------------------------------------------------------------------------------------------------- */

/* dst += index * bytes, 64 bits; bytes NULL: it does not move */
static void go(struct printer *p, const char *dst, const char *index, const char *bytes) {
  if (bytes) ptx_line(p, "mad.lo.s64 %s, %s, %s, %s", dst, index, bytes, dst);
}

static const char *wide(struct printer *p, const char *w) {
  const char *r = longword(p);
  ptx_line(p, "cvt.s64.s32 %s, %s", r, w);
  return r;
}

/* The buffer at this index of the batch. */
static const char *base_of(struct printer *p, const struct ptx_attention *t, int buf) {
  const char *r = longword(p);
  p->base_used[buf] = true;
  ptx_line(p, "mov.u64 %s, %s", r, p->base[buf]);
  for (int i = 0; i < t->a->n_batch; i++) go(p, r, t->batch[i], ptx_stride(p, buf, i));
  return r;
}

static const char *bytes_along(struct printer *p, const struct ptx_attention *t, int buf, int axis) {
  const char *s = ptx_stride(p, buf, t->a->n_batch + axis);
  return s ? s : "0";
}

/* Rows are copied 64 at a time, by two threads each, which take turns with chunks of 16 bytes. */
static void plan_copy(struct printer *p, const struct ptx_attention *t, struct ptx_operand *o, const char *row0,
    const char *n_rows) {
  const char *row = word(p), *half = word(p), *bits = longword(p), *across = bytes_along(p, t, o->buf, 1);
  o->padded = up(o->n, 16);
  o->pitch = pitch_of(o->n);
  o->base = base_of(p, t, o->buf);
  o->row_bytes = bytes_along(p, t, o->buf, 0);
  o->from = longword(p), o->to = longword(p), o->left = word(p), o->step_bytes = longword(p), o->is_aligned = pred(p);
  ptx_line(p, "shr.u32 %s, %s, 1", row, t->tid);
  ptx_line(p, "and.b32 %s, %s, 1", half, t->tid);
  ptx_line(p, "mul.wide.u32 %s, %s, 16", o->to, half);
  ptx_line(p, "mad.wide.u32 %s, %s, %d, %s", o->to, row, o->pitch, o->to);
  ptx_line(p, "add.s64 %s, %s, %s", o->to, o->to, t->base);
  ptx_line(p, "add.s64 %s, %s, %d", o->to, o->to, o->at);
  ptx_line(p, "add.s32 %s, %s, %s", row, row, row0);
  ptx_line(p, "sub.s32 %s, %s, %s", o->left, n_rows, row);
  ptx_line(p, "mov.u64 %s, %s", o->from, o->base);
  go(p, o->from, wide(p, row), o->row_bytes);
  ptx_line(p, "mov.s64 %s, %s", o->step_bytes, o->row_bytes);
  ptx_line(p, "mul.lo.s64 %s, %s, %d", o->step_bytes, o->step_bytes, TILE);
  ptx_line(p, "or.b64 %s, %s, %s", bits, o->base, o->row_bytes);
  for (int i = 0; i < t->a->n_batch; i++) {
    const char *s = ptx_stride(p, o->buf, i);
    if (s) ptx_line(p, "or.b64 %s, %s, %s", bits, bits, s);
  }
  ptx_line(p, "and.b64 %s, %s, 15", bits, bits);
  ptx_line(p, "setp.eq.s64 %s, %s, 0", o->is_aligned, bits);
  bits = longword(p);
  ptx_line(p, "mov.s64 %s, %s", bits, across);
  ptx_line(p, "setp.eq.and.s64 %s, %s, 2, %s", o->is_aligned, bits, o->is_aligned);
}

/* Chunk c of a row has so many bytes that are of the matrix. */
static int chunk_bytes(const struct ptx_operand *o, int c) {
  int left = (o->n - 8 * c) * 2;
  return left < 0 ? 0 : left > 16 ? 16 : left;
}

/* What is beyond the matrix becomes 0. A row that is not there is not read: its address is that of the first. */
static void copy_chunks(struct printer *p, const struct ptx_attention *t, const struct ptx_operand *o, const char *to, int more) {
  const char *from = longword(p), *is = pred(p), *odd = pred(p), *half = word(p);
  ptx_line(p, "setp.gt.s32 %s, %s, %d", is, o->left, more);
  ptx_line(p, "mov.s64 %s, %s", from, o->from);
  if (more) ptx_line(p, "add.s64 %s, %s, %s", from, from, o->step_bytes);
  ptx_line(p, "and.b32 %s, %s, 1", half, t->tid);
  ptx_line(p, "setp.eq.u32 %s, %s, 1", odd, half);
  {
    const char *by = longword(p);
    ptx_line(p, "mul.wide.u32 %s, %s, 16", by, half);
    ptx_line(p, "add.s64 %s, %s, %s", from, from, by);
    ptx_line(p, "selp.b64 %s, %s, %s, %s", from, from, o->base, is);
  }
  for (int c = 0; c < o->padded / 8; c += 2) {
    const char *bytes = word(p);
    int even_bytes = chunk_bytes(o, c), odd_bytes = chunk_bytes(o, c + 1);
    if (even_bytes == odd_bytes) ptx_line(p, "mov.u32 %s, %d", bytes, even_bytes);
    else ptx_line(p, "selp.b32 %s, %d, %d, %s", bytes, odd_bytes, even_bytes, odd);
    ptx_line(p, "selp.b32 %s, %s, 0, %s", bytes, bytes, is);
    ptx_line(p, "cp.async.cg.shared.global [%s+%d], [%s+%d], 16, %s", to, more * o->pitch + 16 * c, from, 16 * c, bytes);
  }
}

/* The same element by element, in a loop. */
static void copy_elements(struct printer *p, const struct ptx_attention *t, const struct ptx_operand *o, const char *to, int more) {
  const char *i = word(p), *column = word(p), *c = word(p), *is = pred(p), *in_row = pred(p), *from = longword(p), *x = ptx_own(p,
      OWN_HALF),
             *at = longword(p), *again = ptx_label(p, "elements");
  ptx_line(p, "mov.u32 %s, 0", i);
  ptx_place(p, again);
  ptx_line(p, "shr.u32 %s, %s, 3", c, i);
  ptx_line(p, "shl.b32 %s, %s, 4", c, c);                   /* 8 elements of two chunks on */
  ptx_line(p, "and.b32 %s, %s, 7", column, i);
  ptx_line(p, "add.u32 %s, %s, %s", column, column, c);
  ptx_line(p, "mul.wide.u32 %s, %s, 2", at, column);
  ptx_line(p, "add.s64 %s, %s, %s", at, at, to);
  ptx_line(p, "and.b32 %s, %s, 1", c, t->tid);
  ptx_line(p, "mad.lo.u32 %s, %s, 8, %s", column, c, column);
  ptx_line(p, "setp.gt.s32 %s, %s, %d", in_row, o->left, more);
  ptx_line(p, "setp.lt.and.u32 %s, %s, %d, %s", is, column, o->n, in_row);
  ptx_line(p, "mov.s64 %s, %s", from, o->from);
  if (more) ptx_line(p, "add.s64 %s, %s, %s", from, from, o->step_bytes);
  go(p, from, wide(p, column), bytes_along(p, t, o->buf, 1));
  ptx_line(p, "mov.b16 %s, 0", x);
  ptx_line(p, "@%s ld.global.b16 %s, [%s]", is, x, from);
  ptx_line(p, "st.shared.b16 [%s+%d], %s", at, more * o->pitch, x);
  ptx_line(p, "add.u32 %s, %s, 1", i, i);
  ptx_line(p, "setp.lt.u32 %s, %s, %d", is, i, o->padded / 2);
  ptx_line(p, "@%s bra %s", is, again);
}

/* So many tiles of 64 rows, into the stage: then on to the next. */
static void copy(struct printer *p, const struct ptx_attention *t, struct ptx_operand *o, const char *stage, int n) {
  const char *to = o->to, *slow = ptx_label(p, "slow"), *done = ptx_label(p, "copied");
  if (stage) {
    to = longword(p);
    ptx_line(p, "add.s64 %s, %s, %s", to, o->to, stage);
  }
  ptx_line(p, "@!%s bra %s", o->is_aligned, slow);
  for (int i = 0; i < n; i++) copy_chunks(p, t, o, to, i * TILE);
  ptx_line(p, "bra %s", done);
  ptx_place(p, slow);
  for (int i = 0; i < n; i++) copy_elements(p, t, o, to, i * TILE);
  ptx_place(p, done);
  ptx_line(p, "add.s64 %s, %s, %s", o->from, o->from, o->step_bytes);
  ptx_line(p, "sub.s32 %s, %s, %d", o->left, o->left, TILE);
}

/* Key: lse and delta of the 64 rows of a tile, half of the threads each. Those beyond the matrix are 0: what is multiplied by them
 * is 0 too. */
static void copy_stats(struct printer *p, const struct ptx_attention *t, const char *stage) {
  const char *row = word(p), *is = pred(p), *bytes = word(p), *to = longword(p), *from = longword(p), *other = longword(p),
      *is_delta = pred(p);
  const char *from_of[2] = { base_of(p, t, t->a->lse), base_of(p, t, t->a->delta) }, *w;
  ptx_line(p, "and.b32 %s, %s, 63", row, t->tid);
  ptx_line(p, "add.s32 %s, %s, %s", row, row, t->at);
  ptx_line(p, "setp.lt.s32 %s, %s, %s", is, row, t->n_across);
  ptx_line(p, "selp.b32 %s, 4, 0, %s", bytes, is);
  ptx_line(p, "selp.b32 %s, %s, 0, %s", row, row, is);
  w = wide(p, row);
  go(p, from_of[0], w, bytes_along(p, t, t->a->lse, 0));
  go(p, from_of[1], w, bytes_along(p, t, t->a->delta, 0));
  ptx_line(p, "setp.ge.u32 %s, %s, 64", is_delta, t->tid);
  ptx_line(p, "mov.s64 %s, %s", from, from_of[0]);
  ptx_line(p, "mov.s64 %s, %s", other, from_of[1]);
  ptx_line(p, "selp.b64 %s, %s, %s, %s", from, other, from, is_delta);
  ptx_line(p, "mul.wide.u32 %s, %s, 4", to, t->tid);
  ptx_line(p, "add.s64 %s, %s, %s", to, to, t->base);
  ptx_line(p, "add.s64 %s, %s, %s", to, to, stage);
  ptx_line(p, "cp.async.ca.shared.global [%s+%d], [%s], 4, %s", to, t->stats_at, from, bytes);
}

/* ---- Fragments ----------------------------------------------------------------------------------------------------------- */

/* dst = base + at + (8 (lane >> a & 1) + lane % 8) pitch + 16 (lane >> b & 1) */
static const char *row_of_lane(struct printer *p, const struct ptx_attention *t, const struct ptx_operand *o, int a, int b) {
  const char *r = longword(p), *w = word(p), *row = word(p);
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
  for (int i = 0; i < 4; i++) r[i] = word(p);
  ptx_line(p, "ldmatrix.sync.aligned.m8n8.x4%s.shared.b16 {%s, %s, %s, %s}, [%s+%d]", is_turned ? ".trans" : "", r[0], r[1], r[2],
      r[3],
           at, more);
}

static void multiply(struct printer *p, const struct ptx_attention *t, const char *const c[4], const char *const a[4],
                     const char *const b[2]) {
  ptx_line(p, "mma.sync.aligned.m16n8k16.row.col.f32.%s.%s.f32 {%s, %s, %s, %s}, {%s, %s, %s, %s}, {%s, %s}, {%s, %s, %s, %s}",
           t->type, t->type, c[0], c[1], c[2], c[3], a[0], a[1], a[2], a[3], b[0], b[1], c[0], c[1], c[2], c[3]);
}

static void load_own(struct printer *p, struct ptx_attention *t, int k) {
  struct ptx_operand *o = &t->own[k];
  const char *at = row_of_lane(p, t, o, 3, 4), *by = longword(p);
  ptx_line(p, "mul.wide.u32 %s, %s, %d", by, t->warp, 16 * t->m * o->pitch);
  ptx_line(p, "add.s64 %s, %s, %s", at, at, by);
  for (int i = 0; i < t->m; i++)
    for (int s = 0; s < o->padded / 16; s++) load_four(p, at, 16 * i * o->pitch + 32 * s, false, t->fragment[k][i][s]);
}

static void zeros(struct printer *p, const struct ptx_attention *t, const char *x[2][TILE / 8][4]) {
  for (int i = 0; i < t->m; i++)
    for (int j = 0; j < TILE / 8; j++)
      for (int e = 0; e < 4; e++) ptx_line(p, "mov.f32 %s, 0f00000000", x[i][j][e]);
}

/* x = own rows k times the rows of tile k, turned */
static void scores(struct printer *p, const struct ptx_attention *t, int k, const char *x[2][TILE / 8][4]) {
  const struct ptx_operand *o = &t->tile[k];
  const char *at = longword(p), *b[4];
  ptx_line(p, "add.s64 %s, %s, %s", at, o->plain, t->stage);
  zeros(p, t, x);
  for (int s = 0; s < o->padded / 16; s++)
    for (int j = 0; j < TILE / 16; j++) {
      load_four(p, at, 16 * j * o->pitch + 32 * s, false, b);
      for (int i = 0; i < t->m; i++)
        for (int h = 0; h < 2; h++) multiply(p, t, x[i][2 * j + h], t->fragment[k][i][s], b + 2 * h);
    }
}

/* Two numbers as halves, the first in the low ones. */
static const char *pack(struct printer *p, const struct ptx_attention *t, const char *low, const char *high) {
  const char *r = word(p);
  ptx_line(p, "cvt.rn.%sx2.f32 %s, %s, %s", t->type, r, high, low);
  return r;
}

/* sum += x times tile k */
static void add_product(struct printer *p, const struct ptx_attention *t, const char *x[2][TILE / 8][4], int k,
                        const char *sum[2][MOST_FRAGMENTS][4]) {
  const struct ptx_operand *o = &t->tile[k];
  const char *at = longword(p), *b[4], *a[2][4];
  ptx_line(p, "add.s64 %s, %s, %s", at, o->turned, t->stage);
  for (int s = 0; s < TILE / 16; s++) {
    for (int i = 0; i < t->m; i++)
      for (int e = 0; e < 4; e++) a[i][e] = pack(p, t, x[i][2 * s + e / 2][e % 2 * 2], x[i][2 * s + e / 2][e % 2 * 2 + 1]);
    for (int j = 0; j < o->padded / 16; j++) {
      load_four(p, at, 16 * s * o->pitch + 32 * j, true, b);
      for (int i = 0; i < t->m; i++)
        for (int h = 0; h < 2; h++) multiply(p, t, sum[i][2 * j + h], a[i], b + 2 * h);
    }
  }
}

/* ---- Masks --------------------------------------------------------------------------------------------------------------- */

static bool has_mask(const struct ptx_attention *t) { return t->a->mask >= 0; }
static bool is_added(const struct printer *p, const struct ptx_attention *t) {
  return has_mask(t) && p->k->bufs[t->a->mask].dtype != WEFT_BOOL;
}
/* Scores are scaled before anything is added to them, or compared if that would turn their order. */
static bool is_scaled_first(const struct printer *p, const struct ptx_attention *t) { return is_added(p, t) || !(t->a->scale > 0); }

/* The index of this lane's row of fragment i, half h. */
static const char *row_index(struct printer *p, const struct ptx_attention *t, int i, int h) {
  const char *r = word(p);
  ptx_line(p, "shr.u32 %s, %s, 2", r, t->lane);
  ptx_line(p, "mad.lo.u32 %s, %s, %d, %s", r, t->warp, 16 * t->m, r);
  ptx_line(p, "add.s32 %s, %s, %s", r, r, t->own0);
  ptx_line(p, "add.s32 %s, %s, %d", r, r, 16 * i + 8 * h);
  return r;
}

static const char *first_column(struct printer *p, const struct ptx_attention *t) {
  const char *r = word(p);
  ptx_line(p, "and.b32 %s, %s, 3", r, t->lane);
  ptx_line(p, "shl.b32 %s, %s, 1", r, r);
  return r;
}

static void plan_rows(struct printer *p, struct ptx_attention *t) {
  const char *column = first_column(p, t);
  for (int i = 0; i < t->m; i++)
    for (int h = 0; h < 2; h++) {
      const char *row = row_index(p, t, i, h), *limit = t->limit[i][h] = word(p);
      if (t->is_key && t->a->is_banded) ptx_line(p, "sub.s32 %s, %s, %s", limit, row, t->band);
      else if (t->is_key) ptx_line(p, "mov.s32 %s, 0", limit);
      else if (t->a->is_banded) {
        ptx_line(p, "add.s32 %s, %s, %s", limit, row, t->band);
        ptx_line(p, "add.s32 %s, %s, 1", limit, limit);
        ptx_line(p, "min.s32 %s, %s, %s", limit, limit, t->n_across);
      } else ptx_line(p, "mov.s32 %s, %s", limit, t->n_across);
      ptx_line(p, "sub.s32 %s, %s, %s", limit, limit, column);
      if (!has_mask(t)) continue;
      const char *last = word(p);
      ptx_line(p, "sub.s32 %s, %s, 1", last, t->n_own);
      ptx_line(p, "min.s32 %s, %s, %s", last, last, row);
      if (!t->mask_base) t->mask_base = base_of(p, t, t->a->mask);
      t->mask_row[i][h] = longword(p);
      ptx_line(p, "mov.s64 %s, %s", t->mask_row[i][h], t->mask_base);
      go(p, t->mask_row[i][h], wide(p, last), bytes_along(p, t, t->a->mask, t->is_key));
    }
}

/* Every score of the tile meets its element of the mask; subscripts beyond are those of the last. */
static void mask_scores(struct printer *p, const struct ptx_attention *t, const char *x[2][TILE / 8][4]) {
  const char *column = first_column(p, t), *last = word(p), *across = bytes_along(p, t, t->a->mask, !t->is_key);
  weft_dtype d = (weft_dtype)p->k->bufs[t->a->mask].dtype;
  ptx_line(p, "add.s32 %s, %s, %s", column, column, t->at);
  ptx_line(p, "sub.s32 %s, %s, 1", last, t->n_across);
  for (int j = 0; j < TILE / 8; j++)
    for (int e = 0; e < 2; e++) {
      const char *c = word(p), *w;
      ptx_line(p, "add.s32 %s, %s, %d", c, column, 8 * j + e);
      ptx_line(p, "min.s32 %s, %s, %s", c, c, last);
      w = wide(p, c);
      for (int i = 0; i < t->m; i++)
        for (int h = 0; h < 2; h++) {
          const char *at = longword(p), *u = x[i][j][2 * h + e], *v;
          ptx_line(p, "mad.lo.s64 %s, %s, %s, %s", at, w, across, t->mask_row[i][h]);
          if (d == WEFT_BOOL) {
            const char *is = pred(p);
            ptx_line(p, "ld.global.u8 %s, [%s]", v = word(p), at);
            ptx_line(p, "setp.ne.u32 %s, %s, 0", is, v);
            ptx_line(p, "selp.f32 %s, %s, 0fFF800000, %s", u, u, is);
          } else {
            ptx_load(p, ".global", d, v = word(p), at);
            ptx_line(p, "add.rn.f32 %s, %s, %s", u, u, v);
          }
        }
    }
}

/* What a row does not see is -inf. Tiles that all rows see are told by the first and last row of the block. */
static void limit_scores(struct printer *p, const struct ptx_attention *t, const char *x[2][TILE / 8][4]) {
  const char *bound = word(p), *end = word(p), *is = pred(p), *all = ptx_label(p, "seen");
  if (t->is_key && !t->a->is_banded) return;
  if (t->is_key) { /* the last key of the block is seen from its row on */
    ptx_line(p, "add.s32 %s, %s, %d", bound, t->own0, TILE * t->m - 1);
    ptx_line(p, "sub.s32 %s, %s, %s", bound, bound, t->band);
    ptx_line(p, "setp.ge.s32 %s, %s, %s", is, t->at, bound);
  } else {
    ptx_line(p, "mov.s32 %s, %s", bound, t->n_across);
    if (t->a->is_banded) {
      ptx_line(p, "add.s32 %s, %s, %s", end, t->own0, t->band);
      ptx_line(p, "add.s32 %s, %s, 1", end, end);
      ptx_line(p, "min.s32 %s, %s, %s", bound, bound, end);
    }
    ptx_line(p, "add.s32 %s, %s, %d", end, t->at, TILE);
    ptx_line(p, "setp.le.s32 %s, %s, %s", is, end, bound);
  }
  ptx_line(p, "@%s bra %s", is, all);
  for (int i = 0; i < t->m; i++)
    for (int h = 0; h < 2; h++) {
      const char *left = word(p);
      ptx_line(p, "sub.s32 %s, %s, %s", left, t->limit[i][h], t->at);
      for (int j = 0; j < TILE / 8; j++)
        for (int e = 0; e < 2; e++) {
          const char *sees = pred(p), *u = x[i][j][2 * h + e];
          ptx_line(p, "setp.%s.s32 %s, %s, %d", t->is_key ? "le" : "gt", sees, left, 8 * j + e);
          ptx_line(p, "selp.f32 %s, %s, 0fFF800000, %s", u, u, sees);
        }
    }
  ptx_place(p, all);
}

static void masked_scores(struct printer *p, const struct ptx_attention *t, const char *x[2][TILE / 8][4]) {
  const char *scale = float_text(p, (float)t->a->scale);
  for (int i = 0; i < t->m && is_scaled_first(p, t); i++)
    for (int j = 0; j < TILE / 8; j++)
      for (int e = 0; e < 4; e++) ptx_line(p, "mul.rn.f32 %s, %s, %s", x[i][j][e], x[i][j][e], scale);
  if (has_mask(t)) mask_scores(p, t, x);
  limit_scores(p, t, x);
}

/* What a score is multiplied by to be an exponent of 2. */
static float exponent(const struct printer *p, const struct ptx_attention *t) {
  return (float)((is_scaled_first(p, t) ? 1 : (double)(float)t->a->scale) * M_LOG2E);
}

/* ---- Exponentials -------------------------------------------------------------------------------------------------------- */

static void over_quad(struct printer *p, const char *x, const char *op) {
  for (int by = 1; by < 4; by *= 2) {
    const char *other = word(p);
    ptx_line(p, "shfl.sync.bfly.b32 %s, %s, %d, 31, 0xffffffff", other, x, by);
    ptx_line(p, "%s.f32 %s, %s, %s", op, x, x, other);
  }
}

/* p = 2^(c (s - most)), where most is the largest so far; what was summed before is worth less by the difference. */
static void soft(struct printer *p, const struct ptx_attention *t) {
  const char *c = float_text(p, exponent(p, t));
  for (int i = 0; i < t->m; i++)
    for (int h = 0; h < 2; h++) {
      const char *most = word(p), *less = word(p), *low = word(p), *is = pred(p), *total = t->total[i][h];
      ptx_line(p, "max.f32 %s, %s, %s", most, t->s[i][0][2 * h], t->s[i][0][2 * h + 1]);
      for (int j = 1; j < TILE / 8; j++)
        for (int e = 0; e < 2; e++) ptx_line(p, "max.f32 %s, %s, %s", most, most, t->s[i][j][2 * h + e]);
      over_quad(p, most, "max");
      ptx_line(p, "max.f32 %s, %s, %s", most, most, t->most[i][h]);
      ptx_line(p, "setp.eq.f32 %s, %s, 0fFF800000", is, most);
      ptx_line(p, "selp.f32 %s, 0f00000000, %s, %s", low, most, is); /* a row that has seen nothing yet: all of it becomes 0 */
      ptx_line(p, "mul.rn.f32 %s, %s, %s", low, low, float_text(p, -exponent(p, t)));
      ptx_line(p, "fma.rn.f32 %s, %s, %s, %s", less, t->most[i][h], c, low);
      ptx_line(p, "ex2.approx.ftz.f32 %s, %s", less, less);
      ptx_line(p, "mov.f32 %s, %s", t->most[i][h], most);
      ptx_line(p, "mul.rn.f32 %s, %s, %s", total, total, less);
      for (int j = 0; j < TILE / 8; j++)
        for (int e = 0; e < 2; e++) {
          const char *u = t->s[i][j][2 * h + e];
          ptx_line(p, "fma.rn.f32 %s, %s, %s, %s", u, u, c, low);
          ptx_line(p, "ex2.approx.ftz.f32 %s, %s", u, u);
          ptx_line(p, "add.rn.f32 %s, %s, %s", total, total, u);
        }
      for (int j = 0; j < t->tile[1].padded / 8; j++)
        for (int e = 0; e < 2; e++)
          ptx_line(p, "mul.rn.f32 %s, %s, %s", t->sum[0][i][j][2 * h + e], t->sum[0][i][j][2 * h + e], less);
    }
}

/* lse becomes what is added to an exponent of 2. Where a row sees nothing its scores are -inf and stay it: p and ds are 0. */
static void as_exponent(struct printer *p, const char *lse, const char *delta) {
  const char *sees = pred(p);
  ptx_line(p, "setp.neu.f32 %s, %s, 0fFF800000", sees, lse);
  ptx_line(p, "mul.rn.f32 %s, %s, %s", lse, lse, float_text(p, (float)-M_LOG2E));
  ptx_line(p, "selp.f32 %s, %s, 0f00000000, %s", lse, lse, sees);
  ptx_line(p, "selp.f32 %s, %s, 0f00000000, %s", delta, delta, sees);
}

/* p = 2^(c s - lse / ln 2), ds = p (dp - delta): dp is in ds before */
static void soft_again(struct printer *p, const struct ptx_attention *t) {
  const char *c = float_text(p, exponent(p, t));
  for (int j = 0; j < TILE / 8; j++) {
    const char *lse[2] = { 0 }, *delta[2] = { 0 };
    if (t->is_key) {
      const char *at = longword(p);
      for (int e = 0; e < 2; e++) lse[e] = word(p), delta[e] = word(p);
      ptx_line(p, "add.s64 %s, %s, %s", at, t->stat, t->stage);
      ptx_line(p, "ld.shared.v2.b32 {%s, %s}, [%s+%d]", lse[0], lse[1], at, 32 * j);
      ptx_line(p, "ld.shared.v2.b32 {%s, %s}, [%s+%d]", delta[0], delta[1], at, 32 * j + 4 * TILE);
      for (int e = 0; e < 2; e++) as_exponent(p, lse[e], delta[e]);
    }
    for (int i = 0; i < t->m; i++)
      for (int e = 0; e < 4; e++) {
        const char *u = t->s[i][j][e], *v = t->ds[i][j][e];
        ptx_line(p, "fma.rn.f32 %s, %s, %s, %s", u, u, c, t->is_key ? lse[e % 2] : t->lse[i][e / 2]);
        ptx_line(p, "ex2.approx.ftz.f32 %s, %s", u, u);
        ptx_line(p, "sub.rn.f32 %s, %s, %s", v, v, t->is_key ? delta[e % 2] : t->delta[i][e / 2]);
        ptx_line(p, "mul.rn.f32 %s, %s, %s", v, v, u);
      }
  }
}

/* ---- Results ------------------------------------------------------------------------------------------------------------- */

/* Two neighbours of a row; n: columns of the matrix. */
static void store_two(struct printer *p, const struct ptx_attention *t, int buf, const char *row, const char *column, int j, int n,
                      const char *const x[2]) {
  weft_dtype d = (weft_dtype)p->k->bufs[buf].dtype;
  int width = kir_width(d);
  const char *is = pred(p), *skip = ptx_label(p, "beyond");
  if (8 * j >= n) return;
  if (8 * j + 8 > n) {
    ptx_line(p, "setp.ge.s32 %s, %s, %d", is, column, n - 8 * j);
    ptx_line(p, "@%s bra %s", is, skip);
  }
  if (n % 2 == 0 && d != WEFT_F32) ptx_line(p, "st.global.b32 [%s+%d], %s", row, 8 * j * width, pack(p, t, x[0], x[1]));
  else if (n % 2 == 0) ptx_line(p, "st.global.v2.b32 [%s+%d], {%s, %s}", row, 8 * j * width, x[0], x[1]);
  else for (int e = 0; e < 2; e++) {
    const char *both = d == WEFT_F32 ? NULL : pack(p, t, x[e], x[e]), *low = both ? ptx_own(p, OWN_HALF) : NULL;
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
  const char *base = base_of(p, t, buf), *column = first_column(p, t);
  int width = kir_width((weft_dtype)p->k->bufs[buf].dtype);
  for (int i = 0; i < t->m; i++)
    for (int h = 0; h < 2; h++) {
      const char *row = row_index(p, t, i, h), *is = pred(p), *next = ptx_label(p, "next"), *at = longword(p), *w = longword(p);
      ptx_line(p, "setp.ge.s32 %s, %s, %s", is, row, t->n_own);
      ptx_line(p, "@%s bra %s", is, next);
      ptx_line(p, "mul.wide.u32 %s, %s, %d", w, column, width);
      ptx_line(p, "add.s64 %s, %s, %s", at, base, w);
      go(p, at, wide(p, row), bytes_along(p, t, buf, 0));
      for (int j = 0; j < up(n, 16) / 8; j++) {
        const char *const *x = &t->sum[which][i][j][2 * h];
        for (int e = 0; e < 2 && by; e++) ptx_line(p, "mul.rn.f32 %s, %s, %s", x[e], x[e], by[i][h]);
        store_two(p, t, buf, at, column, j, n, x);
      }
      ptx_place(p, next);
    }
}

/* y = sum / total, lse = most + log(total) */
static void store_whole(struct printer *p, const struct ptx_attention *t) {
  const char *by[2][2], *c = float_text(p, exponent(p, t)), *base = base_of(p, t, t->a->lse), *first = word(p);
  ptx_line(p, "and.b32 %s, %s, 3", first, t->lane);
  for (int i = 0; i < t->m; i++)
    for (int h = 0; h < 2; h++) {
      const char *row = row_index(p, t, i, h), *is = pred(p), *lse = word(p), *at = longword(p), *low = word(p), *is_low = pred(p);
      over_quad(p, t->total[i][h], "add.rn");
      by[i][h] = word(p);
      ptx_line(p, "div.rn.f32 %s, 0f3F800000, %s", by[i][h], t->total[i][h]);
      ptx_line(p, "setp.eq.f32 %s, %s, 0fFF800000", is_low, t->most[i][h]);
      ptx_line(p, "selp.f32 %s, 0f00000000, %s, %s", low, t->most[i][h], is_low);
      ptx_line(p, "lg2.approx.ftz.f32 %s, %s", lse, t->total[i][h]);
      ptx_line(p, "fma.rn.f32 %s, %s, %s, %s", lse, low, c, lse);
      ptx_line(p, "mul.rn.f32 %s, %s, %s", lse, lse, float_text(p, (float)M_LN2));
      ptx_line(p, "setp.lt.s32 %s, %s, %s", is, row, t->n_own);
      ptx_line(p, "setp.eq.and.u32 %s, %s, 0, %s", is, first, is);
      ptx_line(p, "mov.s64 %s, %s", at, base);
      go(p, at, wide(p, row), bytes_along(p, t, t->a->lse, 0));
      ptx_line(p, "@%s st.global.b32 [%s], %s", is, at, lse);
    }
  store_sums(p, t, 0, t->a->y, t->a->e, by);
}

static void store_results(struct printer *p, const struct ptx_attention *t) {
  const char *scale = float_text(p, (float)t->a->scale), *by[2][2] = { { scale, scale }, { scale, scale } };
  if (!t->is_grad) { store_whole(p, t); return; }
  store_sums(p, t, 0, t->is_key ? t->a->dk : t->a->dq, t->a->d, by);
  if (t->is_key) store_sums(p, t, 1, t->a->dv, t->a->e, NULL);
}

/* ---- The entry ----------------------------------------------------------------------------------------------------------- */

static const char *size_word(struct printer *p, int size) {
  const char *r = word(p);
  ptx_line(p, "cvt.u32.u64 %s, %s", r, ptx_val(p, size));
  return r;
}

/* Blocks of one index of the batch follow each other; those with most to do come first. */
static void find_block(struct printer *p, struct ptx_attention *t) {
  const char *id = longword(p), *tiles = longword(p), *in = longword(p), *w = word(p);
  int rows = TILE * t->m;
  ptx_line(p, "mov.u32 %s, %%ctaid.x", w);
  ptx_line(p, "cvt.u64.u32 %s, %s", id, w);
  ptx_line(p, "add.s64 %s, %s, %d", tiles, ptx_val(p, t->is_key ? t->a->columns : t->a->rows), rows - 1);
  ptx_line(p, "div.s64 %s, %s, %d", tiles, tiles, rows);
  ptx_line(p, "rem.s64 %s, %s, %s", in, id, tiles);
  ptx_line(p, "div.s64 %s, %s, %s", id, id, tiles);
  if (!t->is_key) {
    ptx_line(p, "sub.s64 %s, %s, %s", in, tiles, in);
    ptx_line(p, "sub.s64 %s, %s, 1", in, in);
  }
  t->own0 = word(p);
  ptx_line(p, "cvt.u32.u64 %s, %s", t->own0, in);
  ptx_line(p, "mul.lo.u32 %s, %s, %d", t->own0, t->own0, rows);
  for (int i = t->a->n_batch - 1; i >= 0; i--) {
    const char *n = ptx_val(p, t->a->batch[i]);
    t->batch[i] = longword(p);
    ptx_line(p, "rem.s64 %s, %s, %s", t->batch[i], id, n);
    ptx_line(p, "div.s64 %s, %s, %s", id, id, n);
  }
}

/* Where tiles begin and end: t->at and *end, words. */
static void find_tiles(struct printer *p, struct ptx_attention *t, const char **end) {
  const char *e = *end = word(p);
  t->at = word(p);
  ptx_line(p, "mov.s32 %s, 0", t->at);
  ptx_line(p, "mov.s32 %s, %s", e, t->n_across);
  if (!t->a->is_banded) return;
  if (t->is_key) {
    ptx_line(p, "sub.s32 %s, %s, %s", t->at, t->own0, t->band);
    ptx_line(p, "max.s32 %s, %s, 0", t->at, t->at);
    ptx_line(p, "and.b32 %s, %s, %d", t->at, t->at, -TILE);
  } else {
    ptx_line(p, "add.s32 %s, %s, %s", e, t->own0, t->band);
    ptx_line(p, "add.s32 %s, %s, %d", e, e, TILE * t->m);
    ptx_line(p, "min.s32 %s, %s, %s", e, e, t->n_across);
  }
}

static void plan_operands(struct printer *p, struct ptx_attention *t) {
  const struct kir_attention *a = t->a;
  int own[2] = { t->is_key ? a->k : a->q, t->is_key ? a->v : a->dy }, tile[2] = { t->is_key ? a->q : a->k,
      t->is_key ? a->dy : a->v };
  int n[2] = { a->d, a->e }, at = 0;
  for (int k = 0; k < (t->is_grad ? 2 : 1); k++) {
    t->own[k] = (struct ptx_operand){ .buf = own[k], .n = n[k], .at = at };
    plan_copy(p, t, &t->own[k], t->own0, t->n_own);
    at += TILE * t->m * t->own[k].pitch;
  }
  for (int k = 0; k < 2; k++) {
    t->tile[k] = (struct ptx_operand){ .buf = tile[k], .n = n[k], .at = at };
    plan_copy(p, t, &t->tile[k], t->at, t->n_across);
    t->tile[k].plain = row_of_lane(p, t, &t->tile[k], 4, 3);
    t->tile[k].turned = row_of_lane(p, t, &t->tile[k], 3, 4);
    at += TILE * t->tile[k].pitch;
  }
  t->stats_at = at;
  t->stage_bytes = stage_of(a);
}

static void take_registers(struct printer *p, struct ptx_attention *t) {
  for (int i = 0; i < t->m; i++) {
    for (int j = 0; j < TILE / 8; j++)
      for (int e = 0; e < 4; e++) t->s[i][j][e] = word(p), t->ds[i][j][e] = word(p);
    for (int k = 0; k < 2; k++)
      for (int j = 0; j < MOST_FRAGMENTS; j++)
        for (int e = 0; e < 4; e++) ptx_line(p, "mov.f32 %s, 0f00000000", t->sum[k][i][j][e] = word(p));
    for (int h = 0; h < 2; h++) {
      ptx_line(p, "mov.f32 %s, 0fFF800000", t->most[i][h] = word(p));
      ptx_line(p, "mov.f32 %s, 0f00000000", t->total[i][h] = word(p));
    }
  }
}

/* Query: of own rows. Rows beyond the matrix have those of the last. */
static void load_stats(struct printer *p, struct ptx_attention *t) {
  const char *base[2] = { base_of(p, t, t->a->lse), base_of(p, t, t->a->delta) }, *last = word(p);
  ptx_line(p, "sub.s32 %s, %s, 1", last, t->n_own);
  for (int i = 0; i < t->m; i++)
    for (int h = 0; h < 2; h++) {
      const char *row = row_index(p, t, i, h), *at[2] = { longword(p), longword(p) }, *w;
      t->lse[i][h] = word(p), t->delta[i][h] = word(p);
      ptx_line(p, "min.s32 %s, %s, %s", row, row, last);
      w = wide(p, row);
      for (int k = 0; k < 2; k++) {
        ptx_line(p, "mov.s64 %s, %s", at[k], base[k]);
        go(p, at[k], w, bytes_along(p, t, k ? t->a->delta : t->a->lse, 0));
        ptx_line(p, "ld.global.nc.b32 %s, [%s]", k ? t->delta[i][h] : t->lse[i][h], at[k]);
      }
      as_exponent(p, t->lse[i][h], t->delta[i][h]);
    }
}

static void copy_tile(struct printer *p, struct ptx_attention *t, const char *stage) {
  for (int k = 0; k < 2; k++) copy(p, t, &t->tile[k], stage, 1);
  if (t->is_key) copy_stats(p, t, stage);
  ptx_line(p, "cp.async.commit_group");
}

static void one_tile(struct printer *p, struct ptx_attention *t) {
  scores(p, t, 0, t->s);
  masked_scores(p, t, t->s);
  if (!t->is_grad) {
    soft(p, t);
    add_product(p, t, t->s, 1, t->sum[0]);
    return;
  }
  scores(p, t, 1, t->ds);
  soft_again(p, t);
  if (t->is_key) add_product(p, t, t->s, 1, t->sum[1]);
  add_product(p, t, t->ds, 0, t->sum[0]);
}

/* t->at names the tile whose copies are asked for while a tile is worked on, so the one before is 64 less. */
static void all_tiles(struct printer *p, struct ptx_attention *t, const char *end) {
  const char *is = pred(p), *leave = ptx_label(p, "leave"), *again = ptx_label(p, "tiles"), *no_more = ptx_label(p, "last"),
      *next = longword(p);
  ptx_line(p, "setp.ge.s32 %s, %s, %s", is, t->at, end);
  ptx_line(p, "@%s bra %s", is, leave);
  copy_tile(p, t, t->stage);
  ptx_place(p, again);
  ptx_line(p, "cp.async.wait_group 0");
  ptx_line(p, "bar.sync 0"); /* the tile has come for all, and all are done with the one before */
  ptx_line(p, "add.s32 %s, %s, %d", t->at, t->at, TILE);
  ptx_line(p, "setp.ge.s32 %s, %s, %s", is, t->at, end);
  ptx_line(p, "@%s bra %s", is, no_more);
  ptx_line(p, "sub.s64 %s, %d, %s", next, t->stage_bytes, t->stage);
  copy_tile(p, t, next);
  ptx_place(p, no_more);
  ptx_line(p, "sub.s32 %s, %s, %d", t->at, t->at, TILE);
  one_tile(p, t);
  ptx_line(p, "sub.s64 %s, %d, %s", t->stage, t->stage_bytes, t->stage);
  ptx_line(p, "add.s32 %s, %s, %d", t->at, t->at, TILE);
  ptx_line(p, "setp.lt.s32 %s, %s, %s", is, t->at, end);
  ptx_line(p, "@%s bra %s", is, again);
  ptx_place(p, leave);
}

void ptx_attention(struct printer *p) {
  const struct kir_attention *a = p->k->attention;
  struct ptx_attention t = { .a = a, .part = a->part, .is_key = a->part == KIR_ATTEND_KEY, .is_grad = a->part != KIR_ATTEND,
      .m = rows_of(a),
                             .type = a->dtype == WEFT_BF16 ? "bf16" : "f16", .tid = word(p), .lane = word(p), .warp = word(p),
                             .base = longword(p), .stage = longword(p) };
  const char *end;
  ptx_line(p, "mov.u32 %s, %%tid.x", t.tid);
  ptx_line(p, "and.b32 %s, %s, 31", t.lane, t.tid);
  ptx_line(p, "shr.u32 %s, %s, 5", t.warp, t.tid);
  ptx_line(p, "mov.u64 %s, halves", t.base);
  ptx_line(p, "mov.u64 %s, 0", t.stage);
  t.n_own = size_word(p, t.is_key ? a->columns : a->rows), t.n_across = size_word(p, t.is_key ? a->rows : a->columns);
  if (a->is_banded) {
    t.band = word(p);
    if (a->band_is_difference) ptx_line(p, "sub.s32 %s, %s, %s", t.band, t.is_key ? t.n_own : t.n_across,
        t.is_key ? t.n_across : t.n_own);
    else ptx_line(p, "mov.s32 %s, %lld", t.band, (long long)a->band);
  }
  find_block(p, &t);
  find_tiles(p, &t, &end);
  plan_operands(p, &t);
  take_registers(p, &t);
  for (int k = 0; k < (t.is_grad ? 2 : 1); k++) copy(p, &t, &t.own[k], NULL, t.m);
  ptx_line(p, "cp.async.commit_group");
  ptx_line(p, "cp.async.wait_group 0");
  ptx_line(p, "bar.sync 0");
  for (int k = 0; k < (t.is_grad ? 2 : 1); k++) load_own(p, &t, k);
  plan_rows(p, &t);
  if (t.part == KIR_ATTEND_QUERY) load_stats(p, &t);
  if (t.is_key) {
    const char *column = first_column(p, &t);
    t.stat = longword(p);
    ptx_line(p, "mul.wide.u32 %s, %s, 4", t.stat, column);
    ptx_line(p, "add.s64 %s, %s, %s", t.stat, t.stat, t.base);
    ptx_line(p, "add.s64 %s, %s, %d", t.stat, t.stat, t.stats_at);
  }
  all_tiles(p, &t, end);
  store_results(p, &t);
}
