/* gpu_halves.c -- products of f16 or bf16 matrices by the tensor cores, and of f32 rounded to the 11 bits of tf32 where that is
 * asked for (WEFT_TF32): further entries for kernels that are such a product.
 *
 * [m,k] x [k,n]: a block of threads computes a tile of y, each of its warps a part of that in registers, by mma of 16 x 8 x 32
 * bytes along k, or of halves four warps together (gpu_group.c).
 * 128 bytes of each row along k at a time come by cp.async into one of several stages of shared memory while others are multiplied.
 * Sums are of f32 in the machine's order: this is the one entry whose bits are not those of the text, so WEFT_EXACT does without
 * it. What follows the sum in the text is then done element by element, from shared memory.
 *
 * An operand's elements are neighbours along k or along its other axis, and stand in shared memory as they stand in memory, in
 * rows of chunks of 16 bytes; chunk c of row r stands at c ^ (r mod 8), so that the eight rows of a fragment are in
 * different banks; of f32 across k, where a fragment is read word by word in four rows, at c ^ 2 (r mod 4). Whoever launches
 * sees to it that chunks are aligned (ptx_halves_shape). */
#include "backend/cuda/printer.h"
#include <string.h>
#include "base/least.h"

enum { DEPTH_BYTES = 128, STEPS = DEPTH_BYTES / 32 }; /* along k, of a row in a stage, which is multiplied in so many steps */
enum { CHUNK_BYTES = 16, PITCH_MORE = 8 };            /* copied at a time; columns between rows of results */
enum { PIECE_BYTES = 64 * PTX_PIECE_ROW };            /* by groups, not along k: of 64 halves in each of these rows */

/* Large tiles read least of memory; small ones are for products that have too few large ones for all processors. By groups: large
 * ones are multiplied by four warps together, 64 rows of all columns (wgmma), where the device can. Larger ones are slower: 192 x
 * 256 by three groups took 0.385 ms for 4096 on an H200, 128 x 256 by two 0.321. */
struct halves_form { int rows, columns, warps_down, warps_across, stages; bool by_groups; };
static const struct halves_form forms[2][PTX_HALVES] = { { { 128, 256, 2, 4, 4, false }, { 64, 64, 2, 2, 4, false } },
                                                         { { 128, 256, 8, 1, 4, true }, { 64, 64, 2, 2, 4, false } } };

/* Of f32 there are no groups: wgmma wants both operands along k then. */
static const struct halves_form *form_of(const struct ptx_plan *p, int form) {
  bool is_f32 = p->bufs[p->halves_bufs[0]].dtype == WEFT_F32;
  return &forms[p->by_groups && !is_f32][form];
}

static int threads_of(const struct halves_form *f) { return 32 * f->warps_down * f->warps_across; }
static int stage_bytes(const struct halves_form *f) { return (f->rows + f->columns) * DEPTH_BYTES; }

static size_t shared_of(const struct halves_form *f) {
  int stages = f->stages * stage_bytes(f), results = f->rows * (f->columns + PITCH_MORE) * 4;
  return (size_t)(stages > results ? stages : results);
}

/* ---- Which kernels -------------------------------------------------------------------------------------------------------- */

static bool is_only(struct kir_lin l, int v) {
  return l.n == 1 && l.term[0].coef == 1 && l.term[0].n == 1 && l.term[0].val[0] == v;
}

/* The axis of the load that has neighbours in memory and moves with nothing but v; -1: there is none. */
static int axis_along(const struct shape_class *shape, const struct kir_stmt *load, int v) {
  for (int d = 0; d < load->n_at; d++)
    if (shape->stride[load->buf][d] == STRIDE_1 && is_only(load->at[d], v)) return d;
  return -1;
}

/* Along k if that is one. */
static int neighbours(const struct shape_class *shape, const struct kir_stmt *load, int v, int k) {
  int d = axis_along(shape, load, k);
  return d >= 0 ? d : axis_along(shape, load, v);
}

/* Bit d: axis d of the load moves with the row or column of y, or with k. */
static unsigned tile_axes(const struct kir_stmt *load, int v, int k) {
  unsigned axes = 0;
  for (int d = 0; d < load->n_at; d++) if (survey_mentions(load->at[d], v) || survey_mentions(load->at[d], k)) axes |= 1u << d;
  return axes;
}

bool ptx_has_halves(const struct survey *s, const struct shape_class *shape, struct ptx_plan *plan) {
  const struct survey_product *x = &s->product;
  if (!x->is_there || s->is_exact) return false;
  plan->halves_bufs[0] = x->a->buf, plan->halves_axis[0] = neighbours(shape, x->a, x->row->var, x->step);
  plan->halves_bufs[1] = x->b->buf, plan->halves_axis[1] = neighbours(shape, x->b, x->lane->var, x->step);
  plan->halves_moves[0] = tile_axes(x->a, x->row->var, x->step), plan->halves_moves[1] = tile_axes(x->b, x->lane->var, x->step);
  weft_dtype a = (weft_dtype)s->k->bufs[x->a->buf].dtype, b = (weft_dtype)s->k->bufs[x->b->buf].dtype;
  bool may_reorder = a == WEFT_F32 ? shape->tf32 : (a == WEFT_F16 || a == WEFT_BF16) && !shape->in_order;
  return a == b && may_reorder && plan->halves_axis[0] >= 0 && plan->halves_axis[1] >= 0;
}

/* ---- Operands ------------------------------------------------------------------------------------------------------------- */

struct half_operand {
  const struct kir_stmt *load, *loop;
  const char *first;         /* of the tile, along the loop */
  bool is_b, along_k;
  int side, at;              /* elements along the loop; where in a stage it stands */
  int chunks, a_pass, passes; /* in a row of shared memory; rows that the threads copy at a time, and how often */
  int row_bytes;             /* from row to row there */
  const char *from, *to;     /* what this thread copies: an address, and an offset in a stage */
  const char *pass_bytes, *step_bytes;  /* from pass to pass, from stage to stage */
  const char *left;          /* along k: rows of the matrix from this thread's on; else steps of k from its row on, in all */
  const char *bytes;         /* along k: steps of k from its chunk on, in all; else bytes of its chunk that are of the matrix */
  const char *fragment[4];   /* offsets in a stage: along k by step, else by fragment */
  const char *told;          /* by groups: what tells the tensor cores of it, in the first stage */
};

struct half_tile {
  const struct survey_product *x;
  const struct halves_form *f;
  weft_dtype dtype;
  int width, chunk, depth;   /* bytes of an element; elements of a chunk; steps of k a stage */
  const char *tid, *lane, *base, *k, *n_stages;
  const char *row0, *column0, *rows, *columns;
  struct half_operand operand[2];
  int m, n;                  /* fragments of a warp: of 16 rows, of 8 columns */
  const char *acc[8][32][4];
};

/* Of f32, across k: no instruction turns words as ldmatrix turns halves. */
static bool is_by_words(const struct half_tile *t, const struct half_operand *o) { return t->width == 4 && !o->along_k; }

static const char *word(struct printer *p) { return ptx_own(p, OWN_WORD); }
static const char *longword(struct printer *p) { return ptx_own(p, OWN_LONG); }

/* r = min(max(x, 0), most), 32 bits */
static const char *clamp(struct printer *p, const char *x, int64_t most) {
  const char *wide = longword(p), *r = word(p);
  ptx_line(p, "max.s64 %s, %s, 0", wide, x);
  ptx_line(p, "min.s64 %s, %s, %lld", wide, wide, (long long)most);
  ptx_line(p, "cvt.u32.u64 %s, %s", r, wide);
  return r;
}

/* Where the element (index, k) of the operand is. */
static const char *element(struct printer *p, const struct half_tile *t, const struct half_operand *o, const char *index,
                           const char *k) {
  return ptx_product_address(p, t->x, o->load, o->loop, index, k);
}

/* What this thread copies of an operand. */
static void plan_copy(struct printer *p, const struct half_tile *t, struct half_operand *o) {
  const char *row = word(p), *chunk = word(p), *mixed = word(p), *index = longword(p), *k = longword(p), *wide = longword(p);
  o->chunks = (o->along_k ? t->depth : o->side) / t->chunk;
  o->a_pass = threads_of(t->f) / o->chunks, o->passes = (o->along_k ? o->side : t->depth) / o->a_pass;
  ptx_line(p, "shr.u32 %s, %s, %d", row, t->tid, ptx_log_2(o->chunks));
  ptx_line(p, "and.b32 %s, %s, %d", chunk, t->tid, o->chunks - 1);
  ptx_line(p, "and.b32 %s, %s, %d", mixed, row, is_by_words(t, o) ? 3 : 7);
  if (is_by_words(t, o)) ptx_line(p, "shl.b32 %s, %s, 1", mixed, mixed);
  ptx_line(p, "xor.b32 %s, %s, %s", mixed, mixed, chunk);
  o->row_bytes = t->f->by_groups ? PTX_PIECE_ROW : o->chunks * CHUNK_BYTES;
  if (t->f->by_groups) {
    const char *piece = word(p);
    ptx_line(p, "shr.u32 %s, %s, 3", piece, mixed);
    ptx_line(p, "and.b32 %s, %s, 7", mixed, mixed);
    ptx_line(p, "mad.lo.u32 %s, %s, %d, %s", mixed, piece, PIECE_BYTES / CHUNK_BYTES, mixed);
  }
  ptx_line(p, "shl.b32 %s, %s, 4", mixed, mixed);
  ptx_line(p, "mad.lo.u32 %s, %s, %d, %s", mixed, row, o->row_bytes, mixed);
  ptx_line(p, "add.u32 %s, %s, %d", mixed, mixed, o->at);
  o->to = mixed;
  ptx_line(p, "shl.b32 %s, %s, %d", chunk, chunk, ptx_log_2(t->chunk));
  ptx_line(p, "cvt.u64.u32 %s, %s", wide, o->along_k ? row : chunk);
  ptx_line(p, "add.s64 %s, %s, %s", index, o->first, wide);
  ptx_line(p, "cvt.u64.u32 %s, %s", k, o->along_k ? chunk : row);
  o->from = element(p, t, o, index, k);
  const char *pass = ptx_textf(p, "%d", o->a_pass), *row_further = ptx_plus(p, o->along_k ? index : k, pass);
  o->pass_bytes = ptx_minus(p, o->along_k ? element(p, t, o, row_further, k) : element(p, t, o, index, row_further), o->from);
  o->step_bytes = ptx_minus(p, element(p, t, o, index, ptx_plus(p, k, ptx_textf(p, "%d", t->depth))), o->from);
  const char *n = ptx_lin(p, o->loop->at[0]);
  o->left = o->along_k ? clamp(p, ptx_minus(p, n, index), 1 << 20) : ptx_minus(p, t->k, k);
  if (o->along_k) o->bytes = ptx_minus(p, t->k, k);
  else {
    o->bytes = clamp(p, ptx_minus(p, n, index), t->chunk);
    ptx_line(p, "shl.b32 %s, %s, %d", o->bytes, o->bytes, ptx_log_2(t->width));
  }
}

/* Enqueues stage k0, a multiple of the depth, and moves on to the next. What is beyond the matrix becomes 0. */
static void copy_stage(struct printer *p, const struct half_tile *t, const struct half_operand *o, const char *stage,
                       const char *k0) {
  const char *to = longword(p), *from = longword(p), *is = ptx_own(p, OWN_PRED), *size = word(p), *all, *left;
  if (o->along_k) {
    all = clamp(p, ptx_minus(p, o->bytes, k0), t->chunk), left = o->left;
    ptx_line(p, "shl.b32 %s, %s, %d", all, all, ptx_log_2(t->width));
  } else {
    all = o->bytes, left = clamp(p, ptx_minus(p, o->left, k0), t->depth);
  }
  ptx_line(p, "cvt.u64.u32 %s, %s", to, o->to);
  ptx_line(p, "add.s64 %s, %s, %s", to, to, stage);
  ptx_line(p, "mov.s64 %s, %s", from, o->from);
  for (int i = 0; i < o->passes; i++) {
    ptx_line(p, "setp.gt.s32 %s, %s, %d", is, left, i * o->a_pass);
    ptx_line(p, "selp.b32 %s, %s, 0, %s", size, all, is);
    ptx_line(p, "cp.async.cg.shared.global [%s+%d], [%s], 16, %s", to, i * o->a_pass * o->row_bytes, from, size);
    if (i + 1 < o->passes) ptx_line(p, "add.s64 %s, %s, %s", from, from, o->pass_bytes);
  }
  ptx_line(p, "add.s64 %s, %s, %s", o->from, o->from, o->step_bytes);
}

/* ---- Fragments ------------------------------------------------------------------------------------------------------------ */

/* By words: lane l has k = l % 4 and 4 more, and of 16 along the other axis l / 4 and 8 more. Those are two chunks further, and as
 * l % 4 mixes chunks by 2 bits above the lowest, 32 bytes up or down (load_words). */
static void plan_words(struct printer *p, const struct half_tile *t, struct half_operand *o, const char *warp, int a_warp) {
  const char *k = word(p), *mixed = word(p), *index = word(p), *low = word(p);
  ptx_line(p, "and.b32 %s, %s, 3", k, t->lane);
  ptx_line(p, "shl.b32 %s, %s, 1", mixed, k);
  ptx_line(p, "shr.u32 %s, %s, 2", low, t->lane);
  ptx_line(p, "shr.u32 %s, %s, 2", index, low);
  ptx_line(p, "mad.lo.u32 %s, %s, %d, %s", index, warp, a_warp / t->chunk, index);
  ptx_line(p, "and.b32 %s, %s, 3", low, low);
  ptx_line(p, "shl.b32 %s, %s, 2", low, low);
  ptx_line(p, "mad.lo.u32 %s, %s, %d, %s", low, k, o->row_bytes, low);
  for (int i = 0; i < a_warp / 16; i++) {
    const char *chunk = word(p);
    o->fragment[i] = word(p);
    ptx_line(p, "add.u32 %s, %s, %d", chunk, index, i * 16 / t->chunk);
    ptx_line(p, "xor.b32 %s, %s, %s", chunk, chunk, mixed);
    ptx_line(p, "mad.lo.u32 %s, %s, %d, %s", o->fragment[i], chunk, CHUNK_BYTES, low);
    ptx_line(p, "add.u32 %s, %s, %d", o->fragment[i], o->fragment[i], o->at);
  }
}

/* Lane l gives ldmatrix row l % 8 of a matrix of 8 rows of a chunk: bit 3 of l says that it is 8 further along the rows of a, or a
 * chunk along k of b; bit 4 the other axis. */
static void plan_fragments(struct printer *p, const struct half_tile *t, struct half_operand *o, const char *warp, int a_warp) {
  if (is_by_words(t, o)) { plan_words(p, t, o, warp, a_warp); return; }
  const char *index = word(p), *k = word(p), *low = word(p);
  ptx_line(p, "shr.u32 %s, %s, %d", index, t->lane, o->is_b ? 4 : 3);
  ptx_line(p, "and.b32 %s, %s, 1", index, index);
  ptx_line(p, "shr.u32 %s, %s, %d", k, t->lane, o->is_b ? 3 : 4);
  ptx_line(p, "and.b32 %s, %s, 1", k, k);
  ptx_line(p, "and.b32 %s, %s, 7", low, t->lane);
  int n = o->along_k ? STEPS : a_warp / 16;
  for (int i = 0; i < n; i++) {
    const char *row = word(p), *chunk = word(p);
    o->fragment[i] = word(p);
    if (o->along_k) { /* row: 8 index + low, and the warp's first; chunk 2 i + k */
      ptx_line(p, "mad.lo.u32 %s, %s, 8, %s", row, index, low);
      ptx_line(p, "mad.lo.u32 %s, %s, %d, %s", row, warp, a_warp, row);
      ptx_line(p, "add.u32 %s, %s, %d", chunk, k, 2 * i);
    } else { /* row: 8 k + low; chunk 2 i + index, and the warp's first */
      ptx_line(p, "mad.lo.u32 %s, %s, 8, %s", row, k, low);
      ptx_line(p, "mad.lo.u32 %s, %s, %d, %s", chunk, warp, a_warp / t->chunk, index);
      ptx_line(p, "add.u32 %s, %s, %d", chunk, chunk, 2 * i);
    }
    ptx_line(p, "xor.b32 %s, %s, %s", chunk, chunk, low);
    ptx_line(p, "shl.b32 %s, %s, 4", chunk, chunk);
    ptx_line(p, "mad.lo.u32 %s, %s, %d, %s", o->fragment[i], row, o->row_bytes, chunk);
    ptx_line(p, "add.u32 %s, %s, %d", o->fragment[i], o->fragment[i], o->at);
  }
}

/* The nearest of the 11 bits of tf32, the larger of two; the tensor cores do not look at the other bits. A nan becomes the
 * machine's, which has all bits, and what would become inf stays as it is. */
static void round_to_tf32(struct printer *p, const char *x) {
  const char *size = word(p), *is = ptx_own(p, OWN_PRED);
  ptx_line(p, "add.rn.f32 %s, %s, 0f80000000", x, x);
  ptx_line(p, "abs.f32 %s, %s", size, x);
  ptx_line(p, "setp.lt.f32 %s, %s, 0f7F7FF000", is, size);
  ptx_line(p, "@%s add.u32 %s, %s, 0x1000", is, x, x);
}

/* r: of a by the other axis, then by k, of b the other way round, as ldmatrix has them. */
static void load_words(struct printer *p, const struct half_operand *o, const char *at, int s, const char *const r[4]) {
  const char *far = longword(p);
  ptx_line(p, "xor.b64 %s, %s, 32", far, at);
  for (int j = 0; j < 4; j++) {
    int is_far = o->is_b ? j / 2 : j % 2, k = 8 * s + 4 * (o->is_b ? j % 2 : j / 2);
    ptx_line(p, "ld.shared.b32 %s, [%s+%d]", r[j], is_far ? far : at, k * o->row_bytes);
  }
}

/* Fragment i of 16 along the warp's part, at step s of the stage. */
static void load_fragment(struct printer *p, const struct half_tile *t, const struct half_operand *o, const char *stage,
                          int i, int s, const char *r[4]) {
  const char *at = longword(p);
  int more = (o->along_k ? i : s) * 16 * o->row_bytes;
  ptx_line(p, "cvt.u64.u32 %s, %s", at, o->fragment[o->along_k ? s : i]);
  ptx_line(p, "add.s64 %s, %s, %s", at, at, stage);
  for (int j = 0; j < 4; j++) r[j] = word(p);
  if (is_by_words(t, o)) { load_words(p, o, at, s, r); return; }
  ptx_line(p, "ldmatrix.sync.aligned.m8n8.x4%s.shared.b16 {%s, %s, %s, %s}, [%s+%d]", o->along_k ? "" : ".trans",
           r[0], r[1], r[2], r[3], at, more);
}

struct half_fragments { const char *a[8][4], *b[4][4]; };

static void load_fragments(struct printer *p, const struct half_tile *t, const char *stage, int s, struct half_fragments *f) {
  for (int i = 0; i < t->m; i++) load_fragment(p, t, &t->operand[0], stage, i, s, f->a[i]);
  for (int j = 0; j < t->n / 2; j++) load_fragment(p, t, &t->operand[1], stage, j, s, f->b[j]);
}

static void round_fragments(struct printer *p, const struct half_tile *t, const struct half_fragments *f) {
  for (int i = 0; i < t->m; i++)
    for (int e = 0; e < 4; e++) round_to_tf32(p, f->a[i][e]);
  for (int j = 0; j < t->n / 2; j++)
    for (int e = 0; e < 4; e++) round_to_tf32(p, f->b[j][e]);
}

/* By groups: while a stage is multiplied the next one is waited for. The first step of k sets the sums. */
static void group_stage(struct printer *p, const struct half_tile *t, const char *stage, const char *k1) {
  const char *sums = ptx_group_list(p, (const char *const (*)[4])t->acc[0], t->n), *by = longword(p),
             *is_more = ptx_own(p, OWN_PRED);
  ptx_line(p, "setp.gt.s64 %s, %s, 0", is_more, k1);
  ptx_line(p, "sub.s64 %s, %s, %s", by, stage, t->base);
  ptx_group_begin(p);
  for (int s = 0; s < STEPS; s++) {
    const char *of[2];
    for (int i = 0; i < 2; i++) of[i] = ptx_group_at(p, t->operand[i].told, by, t->operand[i].along_k ? 32 * s : 2 * s * PTX_ATOM);
    ptx_group_multiply(p, &(struct ptx_group){ .type = t->dtype == WEFT_BF16 ? "bf16" : "f16", .columns = t->f->columns,
                           .adds = true, .adds_if = s ? NULL : is_more, .sums = sums, .a = of[0],
                           .a_is_turned = !t->operand[0].along_k, .b = of[1], .b_is_turned = !t->operand[1].along_k });
  }
  ptx_group_end(p);
  ptx_group_wait(p, 1);
}

/* 32 bytes along k at a time; the fragments of the next are on their way. */
static void multiply_stage(struct printer *p, const struct half_tile *t, const char *stage, const char *k1) {
  if (t->f->by_groups) { group_stage(p, t, stage, k1); return; }
  const char *type = t->width == 4 ? "tf32" : t->dtype == WEFT_BF16 ? "bf16" : "f16";
  struct half_fragments f[2];
  load_fragments(p, t, stage, 0, &f[0]);
  for (int s = 0; s < STEPS; s++) {
    if (s + 1 < STEPS) load_fragments(p, t, stage, s + 1, &f[(s + 1) % 2]);
    if (t->width == 4) round_fragments(p, t, &f[s % 2]);
    for (int i = 0; i < t->m; i++)
      for (int j = 0; j < t->n; j++) {
        const char *const *c = t->acc[i][j], *const *a = f[s % 2].a[i], *const *r = &f[s % 2].b[j / 2][j % 2 * 2];
        ptx_line(p, "mma.sync.aligned.m16n8k%d.row.col.f32.%s.%s.f32 "
                    "{%s, %s, %s, %s}, {%s, %s, %s, %s}, {%s, %s}, {%s, %s, %s, %s}", 32 / t->width, type, type, c[0], c[1], c[2],
                 c[3], a[0], a[1], a[2], a[3], r[0], r[1], c[0], c[1], c[2], c[3]);
      }
  }
}

/* ---- All stages ----------------------------------------------------------------------------------------------------------- */

/* stage moves on by one, round */
static void next_stage(struct printer *p, const struct half_tile *t, const char *stage, const char *end) {
  const char *is = ptx_own(p, OWN_PRED);
  ptx_line(p, "add.s64 %s, %s, %d", stage, stage, stage_bytes(t->f));
  ptx_line(p, "setp.ge.s64 %s, %s, %s", is, stage, end);
  ptx_line(p, "selp.b64 %s, %s, %s, %s", stage, t->base, stage, is);
}

static void enqueue(struct printer *p, const struct half_tile *t, const char *stage, const char *k0, const char *n) {
  const char *is = ptx_own(p, OWN_PRED), *over = ptx_label(p, "over");
  ptx_line(p, "setp.ge.s64 %s, %s, %s", is, k0, n);
  ptx_line(p, "@%s bra %s", is, over);
  for (int i = 0; i < 2; i++) copy_stage(p, t, &t->operand[i], stage, k0);
  ptx_place(p, over);
  ptx_line(p, "cp.async.commit_group");
  ptx_line(p, "add.s64 %s, %s, %d", k0, k0, t->depth);
}

/* In every turn a stage is enqueued and one multiplied, but in the first ones, which only enqueue. A sum of nothing is one stage of
 * zeros. */
static void sums(struct printer *p, const struct half_tile *t) {
  const char *in = longword(p), *out = longword(p), *end = longword(p), *k0 = longword(p), *k1 = longword(p), *n = longword(p),
             *most = longword(p), *is = ptx_own(p, OWN_PRED), *is_early = ptx_own(p, OWN_PRED), *again = ptx_label(p, "steps"),
             *early = ptx_label(p, "early");
  for (int i = 0; i < t->m && !t->f->by_groups; i++)
    for (int j = 0; j < t->n; j++)
      for (int e = 0; e < 4; e++) ptx_line(p, "mov.f32 %s, 0f00000000", t->acc[i][j][e]);
  int ahead = t->f->by_groups ? t->f->stages - 2 : t->f->stages - 1; /* by groups the stage before may still be multiplied */
  ptx_line(p, "mov.s64 %s, %s", in, t->base);
  ptx_line(p, "mov.s64 %s, %s", out, t->base);
  ptx_line(p, "add.s64 %s, %s, %d", end, t->base, t->f->stages * stage_bytes(t->f));
  ptx_line(p, "mov.s64 %s, 0", k0);
  ptx_line(p, "mov.s64 %s, 0", k1);
  ptx_line(p, "mov.s64 %s, %d", most, ahead * t->depth);
  ptx_line(p, "max.s64 %s, %s, 1", n, t->k);
  ptx_place_loop(p, again);
  ptx_line(p, "setp.lt.s64 %s, %s, %s", is_early, k0, most);
  ptx_line(p, "@%s bra %s", is_early, early);
  ptx_line(p, "cp.async.wait_group %d", ahead - 1);
  if (t->f->by_groups) ptx_line(p, "fence.proxy.async.shared::cta");
  ptx_line(p, "bar.sync 0"); /* this stage has come for all, and all are done with the one whose place is next */
  ptx_place(p, early);
  enqueue(p, t, in, k0, n);
  next_stage(p, t, in, end);
  ptx_line(p, "@%s bra %s", is_early, again);
  multiply_stage(p, t, out, k1);
  next_stage(p, t, out, end);
  ptx_line(p, "add.s64 %s, %s, %d", k1, k1, t->depth);
  ptx_line(p, "add.s64 %s, %s, %d", most, most, t->depth);
  ptx_line(p, "setp.lt.s64 %s, %s, %s", is, k1, n);
  ptx_line(p, "@%s bra %s", is, again);
  if (t->f->by_groups) ptx_group_wait(p, 0);
  ptx_line(p, "cp.async.wait_group 0");
  ptx_line(p, "bar.sync 0");
}

/* ---- What follows --------------------------------------------------------------------------------------------------------- */

/* Results to shared memory: lane l has columns 2 (l % 4) and the next of rows l / 4 and l / 4 + 8 of a fragment. */
static void put_results(struct printer *p, const struct half_tile *t, const char *down, const char *across) {
  int pitch = t->f->columns + PITCH_MORE;
  const char *row = word(p), *column = word(p), *at = longword(p);
  ptx_line(p, "shr.u32 %s, %s, 2", row, t->lane);
  ptx_line(p, "mad.lo.u32 %s, %s, %d, %s", row, down, 16 * t->m, row);
  ptx_line(p, "and.b32 %s, %s, 3", column, t->lane);
  ptx_line(p, "shl.b32 %s, %s, 1", column, column);
  ptx_line(p, "mad.lo.u32 %s, %s, %d, %s", column, across, 8 * t->n, column);
  ptx_line(p, "mad.lo.u32 %s, %s, %d, %s", row, row, pitch, column);
  ptx_line(p, "mad.wide.u32 %s, %s, 4, %s", at, row, t->base);
  for (int i = 0; i < t->m; i++)
    for (int j = 0; j < t->n; j++)
      for (int e = 0; e < 4; e += 2)
        ptx_line(p, "st.shared.v2.b32 [%s+%d], {%s, %s}", at, ((16 * i + 4 * e) * pitch + 8 * j) * 4, t->acc[i][j][e],
                 t->acc[i][j][e + 1]);
  ptx_line(p, "bar.sync 0");
}

/* ---- The entry ------------------------------------------------------------------------------------------------------------ */

/* By groups: a group has 64 rows of a, and all of b. */
static void tell(struct printer *p, const struct half_tile *t, struct half_operand *o) {
  const char *at = longword(p), *group = word(p);
  ptx_line(p, "add.s64 %s, %s, %d", at, t->base, o->at);
  ptx_line(p, "shr.u32 %s, %s, 7", group, t->tid);
  if (!o->is_b) ptx_line(p, "mad.wide.u32 %s, %s, %d, %s", at, group, 64 * PTX_PIECE_ROW, at);
  o->told = ptx_group_told(p, at, PIECE_BYTES);
}

static void one_tile(struct printer *p, struct half_tile *t) {
  const char *warp = word(p), *down = word(p), *across = word(p);
  t->m = t->f->rows / t->f->warps_down / 16, t->n = t->f->columns / t->f->warps_across / 8;
  ptx_line(p, "shr.u32 %s, %s, 5", warp, t->tid);
  ptx_line(p, "shr.u32 %s, %s, %d", down, warp, ptx_log_2(t->f->warps_across));
  ptx_line(p, "and.b32 %s, %s, %d", across, warp, t->f->warps_across - 1);
  for (int i = 0; i < 2; i++) {
    const struct survey_product *x = t->x;
    struct half_operand *o = &t->operand[i];
    *o = (struct half_operand){ .load = i ? x->b : x->a, .loop = i ? x->lane : x->row, .first = i ? t->column0 : t->row0,
                                .is_b = i, .side = i ? t->f->columns : t->f->rows, .at = i ? t->f->rows * DEPTH_BYTES : 0 };
    o->along_k = axis_along(p->shape, o->load, x->step) >= 0;
    plan_copy(p, t, o);
    if (t->f->by_groups) tell(p, t, o);
    else plan_fragments(p, t, o, i ? across : down, i ? 8 * t->n : 16 * t->m);
  }
  for (int i = 0; i < t->m; i++)
    for (int j = 0; j < t->n; j++)
      for (int e = 0; e < 4; e++) t->acc[i][j][e] = word(p);
  sums(p, t);
  put_results(p, t, down, across);
  struct ptx_results results = { t->x, WEFT_F32, t->f->rows, t->f->columns, t->f->columns + PITCH_MORE, threads_of(t->f), t->tid,
                                 t->base, t->row0, t->column0, t->rows, t->columns };
  ptx_finish_tile(p, &results);
  ptx_line(p, "bar.sync 0");
}

static void tile_of_batch(struct printer *p, void *of) { one_tile(p, of); }

void ptx_halves(struct printer *p, int form) {
  const struct survey_product *x = &p->survey.product;
  weft_dtype dtype = (weft_dtype)p->k->bufs[x->a->buf].dtype;
  int width = kir_width(dtype);
  struct half_tile t = { .x = x, .f = form_of(p->plan, form), .dtype = dtype, .width = width, .chunk = CHUNK_BYTES / width,
                         .depth = DEPTH_BYTES / width, .tid = word(p), .lane = word(p), .base = longword(p),
                         .row0 = longword(p), .column0 = longword(p) };
  p->threads = threads_of(t.f);
  p->has_groups = t.f->by_groups;
  ptx_line(p, "mov.u32 %s, %%tid.x", t.tid);
  ptx_line(p, "and.b32 %s, %s, 31", t.lane, t.tid);
  ptx_line(p, "mov.u64 %s, halves", t.base);
  t.k = ptx_product_length(p, x);
  t.rows = ptx_lin(p, x->row->at[0]), t.columns = ptx_lin(p, x->lane->at[0]);
  ptx_find_tile(p, t.rows, t.columns, t.f->rows, t.f->columns, t.row0, t.column0);
  ptx_along_batch(p, x, tile_of_batch, &t);
}

/* ---- Launching ------------------------------------------------------------------------------------------------------------ */

/* Chunks of 16 bytes are aligned: those of an operand's first element, and steps along all axes but the one with neighbours. A
 * tile goes beyond the matrix: no byte is read there, but addresses are to be aligned all the same, also along an axis of one. */
static bool is_aligned(const struct ptx_plan *p, int i, const struct bound bufs[], const int64_t sizes[], const uint64_t args[]) {
  const struct ptx_buf *b = &p->bufs[p->halves_bufs[i]];
  const struct bound *x = &bufs[p->halves_bufs[i]];
  int chunk = CHUNK_BYTES / kir_width((weft_dtype)b->dtype);
  if ((uintptr_t)x->data % CHUNK_BYTES) return false;
  for (int d = 0; d < b->rank; d++) {
    bool moves = p->halves_moves[i] >> d & 1 || ptx_size(&b->dims[d], sizes, args) > 1;
    if (d != p->halves_axis[i] && x->stride[d] % chunk && moves) return false;
  }
  return true;
}

/* How many elements the tiles of a form have in all. */
static double covered(const struct halves_form *f, int64_t rows, int64_t columns) {
  return (double)ptx_parts(rows, f->rows) * f->rows * (double)ptx_parts(columns, f->columns) * f->columns;
}

/* Half of what large tiles compute, or more, would be beyond the matrix. */
static bool is_wasteful(const struct ptx_plan *p, int form, int64_t rows, int64_t columns) {
  return covered(form_of(p, form), rows, columns) > 2 * covered(form_of(p, PTX_HALVES - 1), rows, columns);
}

bool ptx_halves_shape(const struct ptx_plan *p, const struct ptx_machine *m, const int64_t sizes[], const uint64_t args[],
                      const struct bound bufs[], struct ptx_shape *s) {
  if (!p->halves[0] || !s->is_product) return false;
  for (int i = 0; i < 2; i++)
    if (!is_aligned(p, i, bufs, sizes, args)) return false;
  int64_t rows = ptx_size(&p->product_rows, sizes, args), columns = ptx_size(&p->product_columns, sizes, args), tiles = 0;
  int form = 0;
  for (; form < PTX_HALVES; form++) {
    const struct halves_form *f = form_of(p, form);
    bool is_last = form == PTX_HALVES - 1;
    tiles = ptx_parts(rows, f->rows) * ptx_parts(columns, f->columns);
    if (shared_of(f) > m->shared_bytes || tiles > INT32_MAX || is_wasteful(p, form, rows, columns)) continue;
    if (is_last || 4 * tiles * s->grid[2] >= 3 * (int64_t)m->n_processors) break;
  }
  if (form == PTX_HALVES) return false;
  s->halves_form = form, s->is_halves = true;
  const struct halves_form *f = form_of(p, form);
  s->block[0] = (unsigned)threads_of(f);
  s->grid[0] = (unsigned)tiles, s->grid[1] = 1;
  s->shared_bytes = shared_of(f);
  return true;
}
