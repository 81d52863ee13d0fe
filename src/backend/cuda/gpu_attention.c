/* gpu_attention.c -- attention and its derivatives tile by tile: the entry of kernels that say they are that (kir_attention).
 *
 * A block of threads has 64 or 128 rows of its own and goes through the other side in tiles of 64 rows, which come by cp.async into
 * a stage of shared memory while another is worked on. The first comes together with the own rows.
 *
 *   part     own          tiles          what a tile adds
 *   whole    q            k, v           s = q k', p = exp(s - about the largest so far), y += p v; the sum of p beside
 *   query    q, dy        k, v           p = exp(s - lse), ds = p (dy v' - delta), dq += ds k
 *   key      k, v         q, dy          the same of turned matrices: dv += p' dy, dk += ds' q
 *
 * Scores stand nowhere in memory. Sums are of f32 in the order of the tiles: two runs agree, but the bits are not those of the
 * kernel's text, so WEFT_EXACT does without such kernels. Rows that see nothing are nan, as they are there, and add nothing to
 * derivatives. There are three ways to multiply, which give lanes the same elements of scores and sums:
 *   by groups (gpu_group.c): halves, where the device can; four warps have 64 rows, of which they read no fragments;
 *   by warps: halves by mma, a warp has 16 or 32 rows as fragments in registers;
 *   of f32: each number is two of tf32, and three products by mma are one of f32 up to 2^-21 of it.
 *
 * By warps and of f32 a row of shared memory has 16 bytes more than the elements: the eight rows of a fragment are then in
 * different banks. Where an operand is not aligned to 16 bytes, or has no neighbours along its rows, threads of another entry copy
 * all of them element by element. */
#include "backend/cuda/printer.h"
#include <math.h>
#include <string.h>

enum { GROUP = 128, TILE = 64, MOST_FRAGMENTS = 16, MORE = 16 }; /* GROUP: threads; MOST_FRAGMENTS: of 8 columns; MORE: bytes
                                     between rows */

/* By groups: groups of a block of threads, which share the tiles, and blocks that are to find room on a processor, which they do
 * with heads of up to 64 elements (ptxas 13.0: 123, 122 and 168 registers). On an H200, 8 x 16 heads of 4096 rows, causal:
 * attention takes 0.71 ms so, 1.00 by one group a block, which waits for tiles, 0.85 by four, which wait for each other. With its
 * derivatives it takes 2.79, 3.02 with one group a block by queries, 2.91 with two by keys, where a processor has no third one. */
struct attention_form { int groups, blocks; };
static const struct attention_form form_of_large_heads = { 2, 0 }, form_by_warps = { 1, 0 }, forms[] = {
  [KIR_ATTEND] = { 2, 2 }, [KIR_ATTEND_QUERY] = { 2, 2 }, [KIR_ATTEND_KEY] = { 1, 3 }
};

/* Rows of the other side, over all indices of the batch, whose blocks run at a time: of heads of 64 halves 16 MB of operands, which
 * stay in the cache. */
enum { SECTION_ROWS = 1 << 16 };

/* Scores of f32 that become a factor are turned in shared memory: bytes of a row of them, and of all. */
enum { TURN_PITCH = (TILE + 8) * 4, TURN_BYTES = 64 * TURN_PITCH };

struct ptx_operand {
  int buf, n, padded;               /* elements of a row, and rounded up to fragments */
  int pitch, at;                    /* bytes from row to row in shared memory; where it begins, tiles: in a stage */
  int piece;                        /* by groups: bytes from piece to piece */
  const char *base;                 /* of this index of the batch */
  const char *from, *to, *left;     /* what this thread copies next: address, address in shared memory, rows from its own on */
  const char *row_bytes, *step_bytes; /* to the next row; to the next tile */
  const char *plain, *turned;       /* where a lane reads its row of a fragment: of rows along n, or along k; by groups what tells
                                       the tensor cores */
};

struct ptx_attention {
  const struct kir_attention *a;
  enum kir_attention_part part;
  bool is_key, is_grad;
  int n_operands;                   /* of own rows */
  bool by_groups;                   /* wgmma */
  bool is_late;                     /* p is multiplied by its tile together with the scores of the next, while exponentials of those
                                       are computed */
  bool is_aligned;                  /* operands come by chunks of 16 bytes, else element by element */
  bool is_f32;                      /* by three products of tf32 */
  int width;                        /* bytes of an element */
  int m;                            /* fragments of 16 rows a warp has */
  int threads, rows;                /* of a block */
  int stage_bytes, stats_at;
  const char *type;                 /* of mma */
  const char *lane, *warp, *tid, *base;
  const char *stage, *next, *behind; /* where the tile stands that is worked on, the one that is asked for, and the one before */
  const char *has_behind;           /* there is one before */
  const char *own0, *at;            /* the first row of the block, and of the tile; words */
  const char *n_own, *n_across, *band; /* words */
  const char *batch[KIR_ATTENTION_AXES];
  struct ptx_operand own[2], tile[2];
  const char *fragment[2][2][MOST_FRAGMENTS / 2][4]; /* of own rows: operand, fragment of rows, step of 16 */
  const char *s[2][TILE / 8][4], *ds[2][TILE / 8][4];
  const char *sum[2][2][MOST_FRAGMENTS][4]; /* results: which, fragment of rows, of columns */
  const char *most[2][2], *total[2][2]; /* of rows: about the largest score so far, and the sum */
  const char *low[2][2];            /* of rows: what is added to an exponent of 2 */
  const char *lse[2][2], *delta[2][2]; /* of own rows, query */
  const char *limit[2][2];          /* whole,
      query: columns below it are seen; key: those from it on. Less this lane's first column */
  const char *turn;                 /* of f32: where this lane's first scores stand when they become a factor */
  const char *factor[2][TILE / 16][4]; /* by groups: p and ds as halves, two in each */
  const char *less[2][2], *is_level; /* whole: what sums of a row are worth less by; no row of this warp was raised */
  const char *stat;                 /* key: where this lane reads lse and delta of the tile */
  const char *stat_row, *stat_to, *has_stat, *new_lse, *new_delta; /* key: what this thread loads of the next tile */
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

static bool is_by_groups(const struct ptx_plan *p, const struct kir_attention *a) { return p->by_groups && a->dtype != WEFT_F32; }
static struct attention_form form_of(const struct kir_attention *a, bool by_groups) {
  return !by_groups ? form_by_warps : a->d <= 64 && a->e <= 64 ? forms[a->part] : form_of_large_heads;
}
static bool is_late(const struct kir_attention *a, bool by_groups) { return by_groups && a->part == KIR_ATTEND; }
static int stages_of(const struct kir_attention *a, bool by_groups) { return is_late(a, by_groups) ? 3 : 2; }
static int fragments_of(const struct kir_attention *a, bool by_groups) {
  return !by_groups && a->dtype != WEFT_F32 && a->part == KIR_ATTEND && a->d <= 64 && a->e <= 64 ? 2 : 1;
}
static int rows_of(const struct kir_attention *a, bool by_groups) {
  return TILE * fragments_of(a, by_groups) * form_of(a, by_groups).groups;
}
/* Bytes that a row of n elements takes, over all pieces. */
static int row_bytes_of(const struct kir_attention *a, int n, bool by_groups) {
  return by_groups ? up(n, 64) * 2 : a->dtype == WEFT_F32 ? up(n, 32) * 4 + MORE : up(n, 16) * 2 + MORE;
}

static int stage_of(const struct kir_attention *a, bool by_groups) {
  int stats = a->part != KIR_ATTEND_KEY ? 0 : by_groups ? PTX_ATOM : 2 * TILE * 4;
  return TILE * (row_bytes_of(a, a->d, by_groups) + row_bytes_of(a, a->e, by_groups)) + stats;
}

static int own_bytes(const struct kir_attention *a, bool by_groups) {
  int e_bytes = a->part == KIR_ATTEND ? 0 : row_bytes_of(a, a->e, by_groups);
  return rows_of(a, by_groups) * (row_bytes_of(a, a->d, by_groups) + e_bytes);
}

static int shared_bytes(const struct kir_attention *a, bool by_groups) {
  int turn_bytes = a->dtype == WEFT_F32 ? TURN_BYTES : 0;
  return own_bytes(a, by_groups) + stages_of(a, by_groups) * stage_of(a, by_groups) + turn_bytes;
}

bool ptx_attention_shape(const struct ptx_plan *p, const int64_t sizes[], const uint64_t args[], struct ptx_shape *s) {
  const struct kir_attention *a = p->attention;
  if (!a) return false;
  bool by_groups = is_by_groups(p, a);
  int64_t rows = ptx_size(&p->attention_rows, sizes, args), a_block = rows_of(a, by_groups);
  int64_t blocks = rows > 0 ? (rows - 1) / a_block + 1 : 0;
  for (int i = 0; i < a->n_batch; i++) blocks *= ptx_size(&p->attention_batch[i], sizes, args);
  s->block[0] = (unsigned)(GROUP * form_of(a, by_groups).groups), s->block[1] = s->block[2] = 1;
  s->grid[0] = (unsigned)blocks, s->grid[1] = s->grid[2] = 1;
  s->shared_bytes = (size_t)shared_bytes(a, by_groups);
  return true;
}

/* The operands stand in chunks of 16 bytes, aligned at any index. */
bool ptx_attention_aligned_shape(const struct ptx_plan *p, const struct bound bufs[], struct ptx_shape *s) {
  const struct kir_attention *a = p->attention;
  if (!a) return false;
  int operand[] = { a->q, a->k, a->v, a->dy }, width = kir_width((weft_dtype)a->dtype);
  for (int i = 0; i < 4; i++) {
    const struct bound *x = operand[i] < 0 ? NULL : &bufs[operand[i]];
    if (!x) continue;
    if ((uintptr_t)x->data % 16 || x->stride[a->n_batch + 1] != 1) return false;
    for (int d = 0; d <= a->n_batch; d++) if (x->stride[d] * width % 16) return false;
  }
  return s->is_aligned = true;
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

/* How many threads share a row of what is copied, 64 rows at a time: they take turns with chunks of 16 bytes. */
static int sharers(const struct ptx_attention *t) { return t->threads / TILE; }

/* The row of 64 that this thread copies, and which of its sharers it is. */
static void copied_row(struct printer *p, const struct ptx_attention *t, const char *row, const char *turn) {
  ptx_line(p, "shr.u32 %s, %s, %d", row, t->tid, sharers(t) == 8 ? 3 : sharers(t) == 4 ? 2 : 1);
  ptx_line(p, "and.b32 %s, %s, %d", turn, t->tid, sharers(t) - 1);
}

/* Where this thread's first chunk goes: by groups chunk c of row r of a piece stands at c ^ (r mod 8). */
static void plan_place(struct printer *p, const struct ptx_attention *t, struct ptx_operand *o, const char *row, const char *turn) {
  const char *chunk = word(p), *low = word(p);
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
  const char *row = word(p), *turn = word(p);
  o->padded = up(o->n, 16);
  o->pitch = t->by_groups ? PTX_PIECE_ROW : row_bytes_of(t->a, o->n, false);
  o->base = base_of(p, t, o->buf);
  o->row_bytes = bytes_along(p, t, o->buf, 0);
  o->from = longword(p), o->to = longword(p), o->left = word(p), o->step_bytes = longword(p);
  copied_row(p, t, row, turn);
  plan_place(p, t, o, row, turn);
  ptx_line(p, "add.s32 %s, %s, %s", row, row, row0);
  ptx_line(p, "sub.s32 %s, %s, %s", o->left, n_rows, row);
  ptx_line(p, "mov.u64 %s, %s", o->from, o->base);
  go(p, o->from, wide(p, row), o->row_bytes);
  ptx_line(p, "mov.s64 %s, %s", o->step_bytes, o->row_bytes);
  ptx_line(p, "mul.lo.s64 %s, %s, %d", o->step_bytes, o->step_bytes, TILE);
}

/* Chunk c of a row has so many bytes that are of the matrix. */
static int a_chunk(const struct ptx_attention *t) { return 16 / t->width; } /* elements */
static int chunk_bytes(const struct ptx_attention *t, const struct ptx_operand *o, int c) {
  int left = o->n * t->width - 16 * c;
  return left < 0 ? 0 : left > 16 ? 16 : left;
}

/* The bytes of the chunk that this thread copies, c or one of those its sharers have. */
static const char *bytes_of_chunk(struct printer *p, const struct ptx_attention *t, const struct ptx_operand *o, int c,
                                  const char *turn) {
  const char *bytes = word(p), *is = pred(p);
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
  const char *from = longword(p), *is = pred(p), *turn = word(p), *by = longword(p);
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
    if (t->by_groups && c % 8) ptx_line(p, "xor.b64 %s, %s, %d", at = longword(p), to, 16 * (c % 8));
    ptx_line(p, "cp.async.cg.shared.global [%s+%d], [%s+%d], 16, %s", at, offset, from, 16 * c, bytes);
  }
}

/* dst: where column `column`, one of this thread's, stands, if its first chunk is at `to`. */
static void place_of(struct printer *p, const struct ptx_attention *t, const struct ptx_operand *o, const char *dst, const char *to,
                     const char *column) {
  const char *chunk = word(p), *piece = word(p), *in = longword(p);
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
  const char *i = word(p), *column = word(p), *c = word(p), *is = pred(p), *in_row = pred(p), *from = longword(p),
             *x = ptx_own(p, t->is_f32 ? OWN_WORD : OWN_HALF), *at = longword(p), *again = ptx_label(p, "elements"),
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
  go(p, from, wide(p, column), bytes_along(p, t, o->buf, 1));
  ptx_line(p, "mov.%s %s, 0", type, x);
  ptx_line(p, "@%s ld.global.%s %s, [%s]", is, type, x, from);
  ptx_line(p, "setp.lt.u32 %s, %s, %d", is, column, o->padded);
  ptx_line(p, "@%s st.shared.%s [%s+%d], %s", is, type, at, more * o->pitch, x);
  ptx_line(p, "add.u32 %s, %s, 1", i, i);
  ptx_line(p, "setp.lt.u32 %s, %s, %d", is, i, up(o->padded / sharers(t), a_chunk(t)));
  ptx_line(p, "@%s bra %s", is, again);
}

/* So many tiles of 64 rows, into the stage: then on to the next. */
static void copy(struct printer *p, const struct ptx_attention *t, struct ptx_operand *o, const char *stage, int n) {
  const char *to = o->to;
  if (stage) {
    to = longword(p);
    ptx_line(p, "add.s64 %s, %s, %s", to, o->to, stage);
  }
  for (int i = 0; i < n; i++) (t->is_aligned ? copy_chunks : copy_elements)(p, t, o, to, i * TILE);
  ptx_line(p, "add.s64 %s, %s, %s", o->from, o->from, o->step_bytes);
  ptx_line(p, "sub.s32 %s, %s, %d", o->left, o->left, TILE);
}

/* Key: a thread each for the 64 rows of a tile has lse and delta of its row in registers until the tile's turn comes. */
static void plan_stats(struct printer *p, struct ptx_attention *t) {
  t->stat_row = word(p), t->stat_to = longword(p), t->has_stat = pred(p), t->new_lse = word(p), t->new_delta = word(p);
  ptx_line(p, "add.s32 %s, %s, %s", t->stat_row, t->tid, t->at);
  ptx_line(p, "setp.lt.u32 %s, %s, %d", t->has_stat, t->tid, TILE);
  ptx_line(p, "mul.wide.u32 %s, %s, 4", t->stat_to, t->tid);
  ptx_line(p, "add.s64 %s, %s, %s", t->stat_to, t->stat_to, t->base);
}

/* Of rows beyond the matrix they are 0: what is multiplied by them is 0 too. */
static void load_next_stats(struct printer *p, const struct ptx_attention *t) {
  const char *is = pred(p), *lse_at = base_of(p, t, t->a->lse), *delta_at = base_of(p, t, t->a->delta), *w = wide(p, t->stat_row);
  go(p, lse_at, w, bytes_along(p, t, t->a->lse, 0));
  go(p, delta_at, w, bytes_along(p, t, t->a->delta, 0));
  ptx_line(p, "setp.lt.and.s32 %s, %s, %s, %s", is, t->stat_row, t->n_across, t->has_stat);
  ptx_line(p, "mov.f32 %s, 0f00000000", t->new_lse);
  ptx_line(p, "mov.f32 %s, 0f00000000", t->new_delta);
  ptx_line(p, "@%s ld.global.nc.b32 %s, [%s]", is, t->new_lse, lse_at);
  ptx_line(p, "@%s ld.global.nc.b32 %s, [%s]", is, t->new_delta, delta_at);
  ptx_line(p, "add.s32 %s, %s, %d", t->stat_row, t->stat_row, TILE);
}

static void as_exponent(struct printer *p, const char *lse, const char *delta);

static void store_stats(struct printer *p, const struct ptx_attention *t, const char *stage) {
  const char *to = longword(p);
  as_exponent(p, t->new_lse, t->new_delta);
  ptx_line(p, "add.s64 %s, %s, %s", to, t->stat_to, stage);
  ptx_line(p, "@%s st.shared.b32 [%s+%d], %s", t->has_stat, to, t->stats_at, t->new_lse);
  ptx_line(p, "@%s st.shared.b32 [%s+%d], %s", t->has_stat, to, t->stats_at + 4 * TILE, t->new_delta);
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

/* ---- By groups ----------------------------------------------------------------------------------------------------------- */

/* x = the group's own rows k times the rows of tile k, turned; begun, and not waited for */
static void group_scores(struct printer *p, const struct ptx_attention *t, int k, const char *x[2][TILE / 8][4]) {
  const struct ptx_operand *o = &t->tile[k], *own = &t->own[k];
  const char *to = ptx_group_list(p, (const char *const (*)[4])x[0], TILE / 8);
  ptx_group_begin(p);
  for (int s = 0; s < o->padded / 16; s++)
    ptx_group_multiply(p, &(struct ptx_group){ .type = t->type, .columns = TILE, .adds = s > 0, .sums = to,
                           .a = ptx_group_at(p, own->plain, NULL, s / 4 * own->piece + s % 4 * 32),
                           .b = ptx_group_at(p, o->plain, t->stage, s / 4 * o->piece + s % 4 * 32) });
  ptx_group_end(p);
}

/* Factor `which` of a product is x, as halves. */
static void set_factor(struct printer *p, const struct ptx_attention *t, int which, const char *x[TILE / 8][4]) {
  for (int s = 0; s < TILE / 16; s++)
    for (int e = 0; e < 4; e++)
      ptx_line(p, "cvt.rn.%sx2.f32 %s, %s, %s", t->type, t->factor[which][s][e], x[2 * s + e / 2][e % 2 * 2 + 1],
               x[2 * s + e / 2][e % 2 * 2]);
}

/* sum += that factor times operand k of the tile in that stage; begun, and not waited for */
static void group_product(struct printer *p, const struct ptx_attention *t, int which, int k, const char *stage,
                          const char *const sum[MOST_FRAGMENTS][4]) {
  const struct ptx_operand *o = &t->tile[k];
  const char *to = ptx_group_list(p, sum, o->padded / 8), *(*const a)[4] = (const char *(*)[4])t->factor[which];
  ptx_group_begin(p);
  for (int s = 0; s < TILE / 16; s++)
    ptx_group_multiply(p, &(struct ptx_group){ .type = t->type, .columns = o->padded, .adds = true, .sums = to,
                           .a = ptx_textf(p, "{%s, %s, %s, %s}", a[s][0], a[s][1], a[s][2], a[s][3]), .a_in_registers = true,
                           .b = ptx_group_at(p, o->turned, stage, 2 * s * PTX_ATOM), .b_is_turned = true });
  ptx_group_end(p);
}

/* ---- Of f32 -------------------------------------------------------------------------------------------------------------- */

/* x = high + low, each with the 11 bits of tf32, up to 2^-23 of it; so a b is about a.high b.high + a.low b.high + a.high b.low.
 * What has no finite low part (nan, inf and the largest numbers) is high alone, and has no part in the other two products. */
struct two_parts { const char *high, *finite, *low; };

static struct two_parts split(struct printer *p, const char *x) {
  struct two_parts r = { word(p), word(p), word(p) };
  const char *size = word(p), *is = pred(p);
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
  const char *x = word(p);
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
  struct step_loop r = { word(p), ptx_label(p, "eights") };
  ptx_line(p, "mov.u32 %s, %d", r.left, n);
  ptx_place_loop(p, r.again);
  return r;
}
static void close_steps(struct printer *p, struct step_loop r) {
  const char *is = pred(p);
  ptx_line(p, "sub.u32 %s, %s, 1", r.left, r.left);
  ptx_line(p, "setp.ne.u32 %s, %s, 0", is, r.left);
  ptx_line(p, "@%s bra %s", is, r.again);
}

static const char *copy_of(struct printer *p, const char *at, const char *more) {
  const char *r = longword(p);
  if (more) ptx_line(p, "add.s64 %s, %s, %s", r, at, more);
  else ptx_line(p, "mov.s64 %s, %s", r, at);
  return r;
}

/* Lane l has elements (l / 4, l % 4) of a, eight rows and four columns further, and (l % 4, l / 4) of b, four rows further. */
static void scores_of_f32(struct printer *p, const struct ptx_attention *t, int k, const char *x[TILE / 8][4]) {
  const struct ptx_operand *o = &t->tile[k], *own = &t->own[k];
  const char *at = copy_of(p, o->plain, t->stage), *from = copy_of(p, own->plain, NULL);
  struct two_parts a[4], b[2];
  struct step_loop loop = open_steps(p, o->padded / 8);
  for (int e = 0; e < 4; e++) a[e] = load_split(p, from, e % 2 * 8 * own->pitch + e / 2 * 16);
  for (int j = 0; j < TILE / 8; j++) {
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
static void product_of_f32(struct printer *p, const struct ptx_attention *t, const char *x[TILE / 8][4], int k,
                           const char *sum[MOST_FRAGMENTS][4]) {
  const struct ptx_operand *o = &t->tile[k];
  const char *at = copy_of(p, o->turned, t->stage), *from = copy_of(p, t->turn, NULL), *c[MOST_FRAGMENTS][4], *v[4];
  struct two_parts a[4], b[2];
  ptx_line(p, "bar.warp.sync 0xffffffff"); /* all are done with what was there */
  for (int j = 0; j < TILE / 8; j++)
    for (int h = 0; h < 2; h++)
      ptx_line(p, "st.shared.v2.b32 [%s+%d], {%s, %s}", from, 8 * h * TURN_PITCH + 32 * j, x[j][2 * h], x[j][2 * h + 1]);
  ptx_line(p, "bar.warp.sync 0xffffffff");
  for (int j = 0; j < o->padded / 8; j++)
    for (int e = 0; e < 4; e++) ptx_line(p, "mov.f32 %s, 0f00000000", c[j][e] = word(p));
  struct step_loop loop = open_steps(p, TILE / 8);
  for (int h = 0; h < 2; h++)
    ptx_line(p, "ld.shared.v2.b32 {%s, %s}, [%s+%d]", v[h] = word(p), v[2 + h] = word(p), from, 8 * h * TURN_PITCH);
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
static const char *place_of_lane(struct printer *p, const struct ptx_attention *t, const struct ptx_operand *o, bool is_own,
                                 bool is_turned) {
  const char *r = longword(p), *row = word(p), *column = word(p), *quad = word(p);
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

/* ---- By warps ------------------------------------------------------------------------------------------------------------ */

/* By groups all but so many of what was begun are waited for. */
static void wait_but(struct printer *p, const struct ptx_attention *t, int n) {
  if (t->by_groups) ptx_group_wait(p, n);
}

/* x = own rows k times the rows of tile k, turned; by groups it is begun */
static void scores(struct printer *p, const struct ptx_attention *t, int k, const char *x[2][TILE / 8][4]) {
  if (t->by_groups) { group_scores(p, t, k, x); return; }
  const struct ptx_operand *o = &t->tile[k];
  const char *at = longword(p), *b[4];
  zeros(p, t, x);
  if (t->is_f32) { scores_of_f32(p, t, k, x[0]); return; }
  ptx_line(p, "add.s64 %s, %s, %s", at, o->plain, t->stage);
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

/* sum += x times tile k, not by groups */
static void add_product(struct printer *p, const struct ptx_attention *t, const char *x[2][TILE / 8][4], int k,
                        const char *sum[2][MOST_FRAGMENTS][4]) {
  if (t->is_f32) { product_of_f32(p, t, x[0], k, sum[0]); return; }
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

/* The largest score becomes what is subtracted from now on; what was summed before is worth less by the difference. */
static void raise_row(struct printer *p, const struct ptx_attention *t, int i, int h, const char *most) {
  const char *less = t->less[i][h], *is = pred(p), *low = t->low[i][h], *total = t->total[i][h];
  over_quad(p, most, "max");
  ptx_line(p, "max.f32 %s, %s, %s", most, most, t->most[i][h]);
  ptx_line(p, "setp.eq.f32 %s, %s, 0fFF800000", is, most);
  ptx_line(p, "selp.f32 %s, 0f00000000, %s, %s", low, most, is); /* a row that has seen nothing yet: all of it becomes 0 */
  ptx_line(p, "mul.rn.f32 %s, %s, %s", low, low, float_text(p, -exponent(p, t)));
  ptx_line(p, "fma.rn.f32 %s, %s, %s, %s", less, t->most[i][h], float_text(p, exponent(p, t)), low);
  ptx_line(p, "ex2.approx.ftz.f32 %s, %s", less, less);
  ptx_line(p, "mov.f32 %s, %s", t->most[i][h], most);
  ptx_line(p, "mul.rn.f32 %s, %s, %s", total, total, less);
}

/* The sums of rows that were raised, once the product of the tile before is in them. Waiting for that on both sides of the jump
 * keeps the compiler from waiting before the exponentials, which stand in front of it. */
static void lower_sums(struct printer *p, const struct ptx_attention *t) {
  const char *level = ptx_label(p, "as_high");
  ptx_line(p, "@%s bra %s", t->is_level, level);
  wait_but(p, t, 0);
  for (int i = 0; i < t->m; i++)
    for (int j = 0; j < t->tile[1].padded / 8; j++)
      for (int e = 0; e < 4; e++) ptx_line(p, "mul.rn.f32 %s, %s, %s", t->sum[0][i][j][e], t->sum[0][i][j][e], t->less[i][e / 2]);
  ptx_place(p, level);
  wait_but(p, t, 0);
}

/* Rows are raised when a score is beyond what was the largest by so much that 2^8 times as much is added: rarely. */
static void raise_rows(struct printer *p, const struct ptx_attention *t) {
  const char *most[2][2], *beyond = word(p), *votes = word(p), *is = pred(p), *level = ptx_label(p, "level");
  ptx_line(p, "mov.f32 %s, 0f00000000", beyond);
  for (int i = 0; i < t->m; i++)
    for (int h = 0; h < 2; h++) {
      const char *m = most[i][h] = word(p), *by = word(p);
      ptx_line(p, "max.f32 %s, %s, %s", m, t->s[i][0][2 * h], t->s[i][0][2 * h + 1]);
      for (int j = 1; j < TILE / 8; j++)
        for (int e = 0; e < 2; e++) ptx_line(p, "max.f32 %s, %s, %s", m, m, t->s[i][j][2 * h + e]);
      ptx_line(p, "sub.rn.f32 %s, %s, %s", by, m, t->most[i][h]); /* of a row that sees nothing: nan, which loses */
      ptx_line(p, "max.f32 %s, %s, %s", beyond, beyond, by);
    }
  ptx_line(p, "setp.gt.f32 %s, %s, %s", is, beyond, float_text(p, 8 / exponent(p, t)));
  ptx_line(p, "vote.sync.ballot.b32 %s, %s, 0xffffffff", votes, is);
  ptx_line(p, "setp.eq.u32 %s, %s, 0", t->is_level, votes);
  ptx_line(p, "@%s bra %s", t->is_level, level);
  for (int i = 0; i < t->m; i++)
    for (int h = 0; h < 2; h++) raise_row(p, t, i, h, most[i][h]);
  ptx_place(p, level);
}

/* p = 2^(c (s - most)), where most is about the largest so far */
static void soft(struct printer *p, const struct ptx_attention *t) {
  const char *c = float_text(p, exponent(p, t));
  raise_rows(p, t);
  for (int i = 0; i < t->m; i++)
    for (int h = 0; h < 2; h++)
      for (int j = 0; j < TILE / 8; j++)
        for (int e = 0; e < 2; e++) {
          const char *u = t->s[i][j][2 * h + e];
          ptx_line(p, "fma.rn.f32 %s, %s, %s, %s", u, u, c, t->low[i][h]);
          ptx_line(p, "ex2.approx.ftz.f32 %s, %s", u, u);
          ptx_line(p, "add.rn.f32 %s, %s, %s", t->total[i][h], t->total[i][h], u);
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

/* Lse and delta of this lane's two rows of fragment j: of the tile, or of its own rows. */
struct row_stats { const char *lse[2], *delta[2]; };
static struct row_stats stats_of(struct printer *p, const struct ptx_attention *t, int j) {
  struct row_stats r;
  const char *at = longword(p);
  for (int e = 0; e < 2; e++) r.lse[e] = word(p), r.delta[e] = word(p);
  ptx_line(p, "add.s64 %s, %s, %s", at, t->stat, t->stage);
  ptx_line(p, "ld.shared.v2.b32 {%s, %s}, [%s+%d]", r.lse[0], r.lse[1], at, 32 * j);
  ptx_line(p, "ld.shared.v2.b32 {%s, %s}, [%s+%d]", r.delta[0], r.delta[1], at, 32 * j + 4 * TILE);
  return r;
}

/* p = 2^(c s - lse / ln 2) */
static void soft_again(struct printer *p, const struct ptx_attention *t) {
  const char *c = float_text(p, exponent(p, t));
  for (int j = 0; j < TILE / 8; j++) {
    struct row_stats x = t->is_key ? stats_of(p, t, j) : (struct row_stats){ 0 };
    for (int i = 0; i < t->m; i++)
      for (int e = 0; e < 4; e++) {
        const char *u = t->s[i][j][e];
        ptx_line(p, "fma.rn.f32 %s, %s, %s, %s", u, u, c, t->is_key ? x.lse[e % 2] : t->lse[i][e / 2]);
        ptx_line(p, "ex2.approx.ftz.f32 %s, %s", u, u);
      }
  }
}

/* ds = p (dp - delta): dp is in ds before */
static void soft_derivative(struct printer *p, const struct ptx_attention *t) {
  for (int j = 0; j < TILE / 8; j++) {
    struct row_stats x = t->is_key ? stats_of(p, t, j) : (struct row_stats){ 0 };
    for (int i = 0; i < t->m; i++)
      for (int e = 0; e < 4; e++) {
        const char *v = t->ds[i][j][e];
        ptx_line(p, "sub.rn.f32 %s, %s, %s", v, v, t->is_key ? x.delta[e % 2] : t->delta[i][e / 2]);
        ptx_line(p, "mul.rn.f32 %s, %s, %s", v, v, t->s[i][j][e]);
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
      ptx_line(p, "rcp.approx.ftz.f32 %s, %s", by[i][h], t->total[i][h]); /* a division is a call: wgmma would be waited for */
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

/* q = x / n, x = the rest; words */
static void divide(struct printer *p, const char *q, const char *x, const char *n) {
  const char *by = word(p);
  ptx_line(p, "div.u32 %s, %s, %s", q, x, n);
  ptx_line(p, "mul.lo.u32 %s, %s, %s", by, q, n);
  ptx_line(p, "sub.u32 %s, %s, %s", x, x, by);
}

/* Finds which index of the batch this block has, id, and which of its `tiles` blocks of rows, in. There are at most 2^31 blocks, so
 * that all of this is words. Where rows see more or less of the other side, indices of the batch come by sections, whose blocks of
 * rows with most to do come first: those that run last have little. */
static void find_rows(struct printer *p, const struct ptx_attention *t, const char *id, const char *in, const char *tiles) {
  const char *n = word(p), *all = word(p), *width = word(p), *blocks = word(p), *first = word(p), *rest = word(p);
  ptx_line(p, "mov.u32 %s, %%ctaid.x", in);
  if (!t->a->is_banded) { divide(p, id, in, tiles); return; }
  ptx_line(p, "mov.u32 %s, %%nctaid.x", blocks);
  ptx_line(p, "div.u32 %s, %s, %s", all, blocks, tiles);
  ptx_line(p, "div.u32 %s, %d, %s", n, SECTION_ROWS, t->n_across); /* indices of a section, but the last may have fewer */
  ptx_line(p, "max.u32 %s, %s, 1", n, n);
  ptx_line(p, "min.u32 %s, %s, %s", n, n, all);
  ptx_line(p, "mul.lo.u32 %s, %s, %s", blocks, n, tiles);
  divide(p, first, in, blocks);
  ptx_line(p, "mul.lo.u32 %s, %s, %s", first, first, n);
  ptx_line(p, "sub.u32 %s, %s, %s", width, all, first);
  ptx_line(p, "min.u32 %s, %s, %s", width, width, n);
  ptx_line(p, "mov.u32 %s, %s", rest, in);
  divide(p, in, rest, width);
  ptx_line(p, "add.u32 %s, %s, %s", id, first, rest);
}

/* Blocks with most to do come first. */
static void find_block(struct printer *p, struct ptx_attention *t) {
  const char *id = word(p), *tiles = word(p), *in = word(p), *rest = word(p);
  ptx_line(p, "add.u32 %s, %s, %d", tiles, t->n_own, t->rows - 1);
  ptx_line(p, "shr.u32 %s, %s, %d", tiles, tiles, ptx_log_2(t->rows));
  find_rows(p, t, id, in, tiles);
  if (!t->is_key) {
    ptx_line(p, "sub.u32 %s, %s, %s", in, tiles, in);
    ptx_line(p, "sub.u32 %s, %s, 1", in, in);
  }
  t->own0 = word(p);
  ptx_line(p, "mul.lo.u32 %s, %s, %d", t->own0, in, t->rows);
  for (int i = t->a->n_batch - 1; i >= 0; i--) {
    ptx_line(p, "mov.u32 %s, %s", rest, id);
    divide(p, id, rest, size_word(p, t->a->batch[i]));
    t->batch[i] = longword(p);
    ptx_line(p, "cvt.u64.u32 %s, %s", t->batch[i], rest);
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
    ptx_line(p, "add.s32 %s, %s, %d", e, e, t->rows);
    ptx_line(p, "min.s32 %s, %s, %s", e, e, t->n_across);
  }
}

/* What tells the tensor cores of an operand; group: of its 64 rows of it. */
static const char *told(struct printer *p, const struct ptx_attention *t, const struct ptx_operand *o, const char *group) {
  const char *at = longword(p), *by = longword(p);
  ptx_line(p, "add.s64 %s, %s, %d", at, t->base, o->at);
  if (group) {
    ptx_line(p, "mul.wide.u32 %s, %s, %d", by, group, TILE * PTX_PIECE_ROW);
    ptx_line(p, "add.s64 %s, %s, %s", at, at, by);
  }
  return ptx_group_told(p, at, o->piece);
}

static void plan_operands(struct printer *p, struct ptx_attention *t) {
  const struct kir_attention *a = t->a;
  int own[2] = { t->is_key ? a->k : a->q, t->is_key ? a->v : a->dy }, tile[2] = { t->is_key ? a->q : a->k,
      t->is_key ? a->dy : a->v };
  int n[2] = { a->d, a->e }, at = 0;
  const char *group = word(p);
  ptx_line(p, "shr.u32 %s, %s, 7", group, t->tid);
  for (int k = 0; k < t->n_operands; k++) {
    t->own[k] = (struct ptx_operand){ .buf = own[k], .n = n[k], .at = at, .piece = t->rows * PTX_PIECE_ROW };
    plan_copy(p, t, &t->own[k], t->own0, t->n_own);
    if (t->by_groups) t->own[k].plain = told(p, t, &t->own[k], group);
    if (t->is_f32) t->own[k].plain = place_of_lane(p, t, &t->own[k], true, false);
    at += t->rows * row_bytes_of(a, n[k], t->by_groups);
  }
  for (int k = 0; k < 2; k++) {
    struct ptx_operand *o = &t->tile[k];
    *o = (struct ptx_operand){ .buf = tile[k], .n = n[k], .at = at, .piece = TILE * PTX_PIECE_ROW };
    plan_copy(p, t, o, t->at, t->n_across);
    if (t->by_groups) o->plain = o->turned = told(p, t, o, NULL);
    else if (t->is_f32) o->plain = place_of_lane(p, t, o, false, false), o->turned = place_of_lane(p, t, o, false, true);
    else o->plain = row_of_lane(p, t, o, 4, 3), o->turned = row_of_lane(p, t, o, 3, 4);
    at += TILE * row_bytes_of(a, n[k], t->by_groups);
  }
  t->stats_at = at;
  t->stage_bytes = stage_of(a, t->by_groups);
  if (t->is_f32) { /* behind all stages; row l / 4, column 2 (l % 4) of the warp's */
    const char *row = word(p), *column = word(p), *r = t->turn = longword(p);
    ptx_line(p, "shr.u32 %s, %s, 2", row, t->lane);
    ptx_line(p, "mad.lo.u32 %s, %s, 16, %s", row, t->warp, row);
    ptx_line(p, "and.b32 %s, %s, 3", column, t->lane);
    ptx_line(p, "mul.wide.u32 %s, %s, 8", r, column);
    ptx_line(p, "mad.wide.u32 %s, %s, %d, %s", r, row, TURN_PITCH, r);
    ptx_line(p, "add.s64 %s, %s, %s", r, r, t->base);
    ptx_line(p, "add.s64 %s, %s, %d", r, r, own_bytes(a, t->by_groups) + 2 * t->stage_bytes);
  }
}

static void take_registers(struct printer *p, struct ptx_attention *t) {
  for (int k = 0; k < 2; k++)
    for (int s = 0; s < TILE / 16; s++)
      for (int e = 0; e < 4; e++) t->factor[k][s][e] = word(p);
  for (int i = 0; i < t->m; i++) {
    for (int j = 0; j < TILE / 8; j++)
      for (int e = 0; e < 4; e++) t->s[i][j][e] = word(p), t->ds[i][j][e] = word(p);
    for (int k = 0; k < 2; k++)
      for (int j = 0; j < MOST_FRAGMENTS; j++)
        for (int e = 0; e < 4; e++) ptx_line(p, "mov.f32 %s, 0f00000000", t->sum[k][i][j][e] = word(p));
    for (int h = 0; h < 2; h++) {
      ptx_line(p, "mov.f32 %s, 0fFF800000", t->most[i][h] = word(p));
      ptx_line(p, "mov.f32 %s, 0f00000000", t->total[i][h] = word(p));
      ptx_line(p, "mov.f32 %s, 0f00000000", t->low[i][h] = word(p));
      t->less[i][h] = word(p);
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
  if (t->is_key) load_next_stats(p, t);
  ptx_line(p, "cp.async.commit_group");
}

/* p of the tile before times that tile. */
static void late_product(struct printer *p, const struct ptx_attention *t) {
  group_product(p, t, 0, 1, t->behind, (const char *const (*)[4])t->sum[0][0]);
}

/* The product of the tile before begins behind the scores of this one, which are waited for. Both ways round the jump wait for
 * themselves: where they meet the compiler would not know what is under way, and would have all of it wait for each other. */
static void begin_late_product(struct printer *p, const struct ptx_attention *t) {
  const char *first = ptx_label(p, "first"), *begun = ptx_label(p, "begun");
  ptx_line(p, "@!%s bra %s", t->has_behind, first);
  late_product(p, t);
  wait_but(p, t, 1);
  ptx_line(p, "bra %s", begun);
  ptx_place(p, first);
  wait_but(p, t, 0);
  ptx_place(p, begun);
}

static void whole_tile(struct printer *p, struct ptx_attention *t) {
  scores(p, t, 0, t->s);
  if (t->is_late) begin_late_product(p, t);
  masked_scores(p, t, t->s);
  soft(p, t);
  lower_sums(p, t);
  if (t->is_late) set_factor(p, t, 0, t->s[0]);
  else add_product(p, t, t->s, 1, t->sum[0]);
}

/* dv += p' dy of derivatives by keys, dk += ds' q or dq += ds k. By groups both factors are there before a product begins: else
 * they take registers that a third block of threads on the processor has. */
static void grad_products(struct printer *p, struct ptx_attention *t) {
  if (!t->by_groups) {
    if (t->is_key) add_product(p, t, t->s, 1, t->sum[1]);
    add_product(p, t, t->ds, 0, t->sum[0]);
    return;
  }
  if (t->is_key) set_factor(p, t, 0, t->s[0]);
  set_factor(p, t, 1, t->ds[0]);
  if (t->is_key) group_product(p, t, 0, 1, t->stage, (const char *const (*)[4])t->sum[1][0]);
  group_product(p, t, 1, 0, t->stage, (const char *const (*)[4])t->sum[0][0]);
  wait_but(p, t, 0);
}

/* By groups dp is multiplied beside the exponentials of p. */
static void grad_tile(struct printer *p, struct ptx_attention *t) {
  scores(p, t, 0, t->s);
  scores(p, t, 1, t->ds);
  wait_but(p, t, 1);
  masked_scores(p, t, t->s);
  soft_again(p, t);
  wait_but(p, t, 0);
  soft_derivative(p, t);
  grad_products(p, t);
}

/* All threads meet. What they have copied, the tensor cores may read too. */
static void copies_have_come(struct printer *p, const struct ptx_attention *t, const char *stage) {
  if (t->is_key) store_stats(p, t, stage);
  ptx_line(p, "cp.async.wait_group 0");
  if (t->by_groups) ptx_line(p, "fence.proxy.async.shared::cta");
  ptx_line(p, "bar.sync 0");
}

/* The stage that comes next. Of three the tile before the one that is worked on has one, too. */
static void find_next_stage(struct printer *p, const struct ptx_attention *t) {
  const char *is = pred(p);
  if (!t->is_late) { ptx_line(p, "sub.s64 %s, %d, %s", t->next, t->stage_bytes, t->stage); return; }
  ptx_line(p, "add.s64 %s, %s, %d", t->next, t->stage, t->stage_bytes);
  ptx_line(p, "setp.eq.s64 %s, %s, %d", is, t->next, 3 * t->stage_bytes);
  ptx_line(p, "selp.b64 %s, 0, %s, %s", t->next, t->next, is);
}

static void leave_behind(struct printer *p, const struct ptx_attention *t) {
  ptx_line(p, "mov.s64 %s, %s", t->behind, t->stage);
  ptx_line(p, "setp.eq.u32 %s, 0, 0", t->has_behind);
}

/* The first tile is there, if there is one. The next is asked for while it is worked on. */
static void all_tiles(struct printer *p, struct ptx_attention *t, const char *end) {
  const char *is_last = pred(p), *leave = ptx_label(p, "leave"), *again = ptx_label(p, "tiles"), *asked = ptx_label(p, "asked"),
             *after = word(p), *last = ptx_label(p, "last");
  ptx_line(p, "setp.ge.s32 %s, %s, %s", is_last, t->at, end);
  ptx_line(p, "@%s bra %s", is_last, leave);
  ptx_line(p, "setp.ne.u32 %s, 0, 0", t->has_behind);
  ptx_place_loop(p, again);
  find_next_stage(p, t);
  ptx_line(p, "add.s32 %s, %s, %d", after, t->at, TILE);
  ptx_line(p, "setp.ge.s32 %s, %s, %s", is_last, after, end);
  ptx_line(p, "@%s bra %s", is_last, asked);
  copy_tile(p, t, t->next);
  ptx_place(p, asked);
  (t->is_grad ? grad_tile : whole_tile)(p, t);
  if (t->is_late) leave_behind(p, t);
  ptx_line(p, "@%s bra %s", is_last, last);
  copies_have_come(p, t, t->next); /* and all are done with this tile */
  ptx_line(p, "mov.s64 %s, %s", t->stage, t->next);
  ptx_line(p, "mov.s32 %s, %s", t->at, after);
  ptx_line(p, "bra %s", again);
  ptx_place(p, last);
  if (t->is_late) late_product(p, t), wait_but(p, t, 0);
  ptx_place(p, leave);
}

/* Key: where this lane reads lse and delta of the rows of a tile. */
static void plan_stat_columns(struct printer *p, struct ptx_attention *t) {
  const char *column = first_column(p, t);
  t->stat = longword(p);
  ptx_line(p, "mul.wide.u32 %s, %s, 4", t->stat, column);
  ptx_line(p, "add.s64 %s, %s, %s", t->stat, t->stat, t->base);
  ptx_line(p, "add.s64 %s, %s, %d", t->stat, t->stat, t->stats_at);
}

static void find_band(struct printer *p, struct ptx_attention *t) {
  const char *rows = t->is_key ? t->n_across : t->n_own, *columns = t->is_key ? t->n_own : t->n_across;
  t->band = word(p);
  if (t->a->band_is_difference) ptx_line(p, "sub.s32 %s, %s, %s", t->band, columns, rows);
  else ptx_line(p, "mov.s32 %s, %lld", t->band, (long long)t->a->band);
}

static void attention_body(struct printer *p, bool is_aligned) {
  const struct kir_attention *a = p->k->attention;
  bool by_groups = is_by_groups(p->plan, a);
  struct attention_form form = form_of(a, by_groups);
  struct ptx_attention t = { .a = a, .part = a->part, .is_key = a->part == KIR_ATTEND_KEY, .is_grad = a->part != KIR_ATTEND,
                             .n_operands = a->part == KIR_ATTEND ? 1 : 2, .by_groups = by_groups, .is_late = is_late(a, by_groups),
                             .is_aligned = is_aligned, .is_f32 = a->dtype == WEFT_F32, .width = kir_width((weft_dtype)a->dtype),
                             .m = fragments_of(a, by_groups), .rows = rows_of(a, by_groups), .threads = GROUP * form.groups,
                             .type = a->dtype == WEFT_BF16 ? "bf16" : "f16", .tid = word(p), .lane = word(p), .warp = word(p),
                             .has_behind = pred(p), .is_level = pred(p), .base = longword(p), .stage = longword(p),
                             .next = longword(p), .behind = longword(p) };
  const char *end;
  p->threads = t.threads;
  if (a->mask < 0) p->blocks = form.blocks;
  ptx_line(p, "mov.u32 %s, %%tid.x", t.tid);
  ptx_line(p, "and.b32 %s, %s, 31", t.lane, t.tid);
  ptx_line(p, "shr.u32 %s, %s, 5", t.warp, t.tid);
  ptx_line(p, "mov.u64 %s, halves", t.base);
  ptx_line(p, "mov.u64 %s, 0", t.stage);
  t.n_own = size_word(p, t.is_key ? a->columns : a->rows), t.n_across = size_word(p, t.is_key ? a->rows : a->columns);
  if (a->is_banded) find_band(p, &t);
  find_block(p, &t);
  find_tiles(p, &t, &end);
  plan_operands(p, &t);
  if (t.is_key) plan_stats(p, &t);
  for (int k = 0; k < t.n_operands; k++) copy(p, &t, &t.own[k], NULL, t.rows / TILE);
  copy_tile(p, &t, t.stage);
  take_registers(p, &t);
  plan_rows(p, &t);
  if (t.part == KIR_ATTEND_QUERY) load_stats(p, &t);
  if (t.is_key) plan_stat_columns(p, &t);
  copies_have_come(p, &t, t.stage);
  for (int k = 0; k < t.n_operands && !t.by_groups && !t.is_f32; k++) load_own(p, &t, k);
  all_tiles(p, &t, end);
  store_results(p, &t);
}

void ptx_attention(struct printer *p) { attention_body(p, false); }
void ptx_attention_aligned(struct printer *p) { attention_body(p, true); }
