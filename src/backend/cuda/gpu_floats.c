/* gpu_floats.c -- products of f32 or f64 matrices by tiles: further entries for kernels that are such a product, in the same order
 * of sums.
 *
 * [m,k] x [k,n]: a block of threads computes a tile of y. 16 steps of k at a time come by cp.async into one of several stages of
 * shared memory while others are multiplied. An operand's elements stand there as they stand in memory: in rows along k, or in
 * rows of a step. They come 16 bytes at a time, or one by one where they are not aligned or end. Sums are those of the text: fma
 * in the order of k, blocks of 512 from 0, which are added in order; the totals of blocks are in local memory. What follows the sum
 * in the text is then done element by element, from shared memory.
 *
 * Of f32 a thread has 8 x 8 elements of the tile. Of f64 a warp multiplies by the tensor cores, four steps at a time, whose sums
 * are a chain of fma in the order of k as well: measured on an H200 for all shapes of mma, over normal, huge, tiny, denormal and
 * infinite numbers. There steps that are not of the matrix are -0 times 0, which leaves every sum as it is. */
#include "backend/cuda/printer.h"
#include <string.h>

enum { STEPS = 16, AHEAD = 8, MORE = 4, BLOCK = KIR_PRODUCT_BLOCK }; /* AHEAD: steps that are written one after the other; MORE:
                                     elements between rows of shared memory: rows of a warp are then in different banks */

/* Elements of a tile and of a thread, down and across; lanes of a warp that stand across; stages; blocks of threads that a
 * processor has room for. Large tiles read least of memory; small ones are for products that have too few large ones for all
 * processors. */
struct floats_form { int rows, columns, down, across, lanes_across, stages, blocks; };
static const struct floats_form forms[2][PTX_FLOATS] = {
  { { 128, 128, 8, 8, 8, 3, 2 }, { 64, 64, 8, 4, 8, 3, 4 } },
  { { 64, 64, 4, 8, 4, 3, 3 }, { 32, 32, 2, 4, 4, 3, 4 } } };

static const struct floats_form *form_of(weft_dtype d, int form) { return &forms[d == WEFT_F64][form]; }
static int threads_of(const struct floats_form *f) { return f->rows * f->columns / (f->down * f->across); }
static int stage_bytes(const struct floats_form *f, int width) { return (f->rows + f->columns) * (STEPS + MORE) * width; }
static int result_pitch(const struct floats_form *f) { return f->columns + MORE; }

static size_t shared_of(const struct floats_form *f, int width) {
  int stages = f->stages * stage_bytes(f, width), results = f->rows * result_pitch(f) * width;
  return (size_t)(stages > results ? stages : results);
}

bool ptx_has_floats(const struct survey *s) {
  const struct survey_product *x = &s->product;
  if (!x->is_there) return false;
  weft_dtype a = (weft_dtype)s->k->bufs[x->a->buf].dtype, b = (weft_dtype)s->k->bufs[x->b->buf].dtype;
  return a == b && (a == WEFT_F32 || a == WEFT_F64) && a == (weft_dtype)s->k->vals[x->total].dtype;
}

struct float_operand {
  const struct kir_stmt *load, *loop;
  const char *first;         /* of the tile, along the loop */
  bool along_k;
  int side, at, pitch;       /* elements along the loop; where in a stage it stands; elements from row to row there */
  int a_pass, passes;        /* rows that the threads copy at a time, and how often */
  const char *from, *to;     /* what this thread copies: the address of its first chunk, and an offset in a stage */
  const char *next_bytes, *pass_bytes, *step_bytes; /* to the next element of a chunk, from pass to pass, from stage to stage */
  const char *left, *steps;  /* elements of the loop, and steps of k, from this thread's first on */
  const char *lane;          /* an offset in a stage: this thread's first element of step 0 */
};

struct float_tile {
  const struct survey_product *x;
  const struct floats_form *f;
  weft_dtype d;
  int width, n;              /* bytes of an element; of a thread's elements */
  bool by_dmma, by_sixteen;  /* sixteen: rows of mma, eight where the device has not those */
  const char *tid, *lane, *base, *k, *row0, *column0, *rows, *columns;
  const char *own, *totals;  /* where this thread's first result stands in shared memory; its totals */
  const char *is_inside, *is_fast; /* all rows and columns of the tile are of the matrix; and this thread's chunks are aligned */
  struct float_operand operand[2];
  const char *acc[64];       /* element i * f->across + j; by dmma two neighbours of each of 8 x 8 */
};

static const char *word(struct printer *p) { return ptx_own(p, OWN_WORD); }
static const char *longword(struct printer *p) { return ptx_own(p, OWN_LONG); }

static const char *plus(struct printer *p, const char *a, const char *b) {
  const char *r = longword(p);
  ptx_line(p, "add.s64 %s, %s, %s", r, a, b);
  return r;
}

static const char *minus(struct printer *p, const char *a, const char *b) {
  const char *r = longword(p);
  ptx_line(p, "sub.s64 %s, %s, %s", r, a, b);
  return r;
}

/* ---- Copying -------------------------------------------------------------------------------------------------------------- */

static int a_chunk(const struct float_tile *t) { return 16 / t->width; } /* elements */

static bool lies_along_k(struct printer *p, const struct kir_stmt *load, int step) {
  for (int d = 0; d < load->n_at; d++)
    if (survey_mentions(load->at[d], step)) return p->shape->stride[load->buf][d] == STRIDE_1;
  return false;
}

/* Where the element (index, k) of the operand is. */
static const char *element(struct printer *p, const struct float_tile *t, const struct float_operand *o, const char *index,
                           const char *k) {
  ptx_line(p, "mov.s64 %s, %s", ptx_val(p, o->loop->var), index);
  ptx_line(p, "mov.s64 %s, %s", ptx_val(p, t->x->step), k);
  const char *r = longword(p);
  ptx_line(p, "mov.s64 %s, %s", r, ptx_address(p, o->load->buf, o->load->at));
  return r;
}

/* Addresses are linear in every index, so steps between them are differences. */
static void plan_copy(struct printer *p, const struct float_tile *t, struct float_operand *o) {
  const char *row = word(p), *chunk = word(p), *wide[2] = { longword(p), longword(p) }, *index, *k, *one = "1";
  int chunks = (o->along_k ? STEPS : o->side) / a_chunk(t);
  o->a_pass = threads_of(t->f) / chunks, o->passes = (o->along_k ? o->side : STEPS) / o->a_pass;
  ptx_line(p, "shr.u32 %s, %s, %d", row, t->tid, ptx_log_2(chunks));
  ptx_line(p, "and.b32 %s, %s, %d", chunk, t->tid, chunks - 1);
  ptx_line(p, "mul.lo.u32 %s, %s, %d", chunk, chunk, a_chunk(t));
  o->to = word(p);
  ptx_line(p, "mad.lo.u32 %s, %s, %d, %s", o->to, row, o->pitch, chunk);
  ptx_line(p, "mad.lo.u32 %s, %s, %d, %d", o->to, o->to, t->width, o->at);
  ptx_line(p, "cvt.u64.u32 %s, %s", wide[0], o->along_k ? row : chunk);
  ptx_line(p, "cvt.u64.u32 %s, %s", wide[1], o->along_k ? chunk : row);
  index = plus(p, o->first, wide[0]), k = wide[1];
  const char *pass = ptx_textf(p, "%d", o->a_pass), *row_on = plus(p, o->along_k ? index : k, pass),
             *next = plus(p, o->along_k ? k : index, one);
  o->from = element(p, t, o, index, k);
  o->pass_bytes = minus(p, o->along_k ? element(p, t, o, row_on, k) : element(p, t, o, index, row_on), o->from);
  o->next_bytes = minus(p, o->along_k ? element(p, t, o, index, next) : element(p, t, o, next, k), o->from);
  o->step_bytes = minus(p, element(p, t, o, index, plus(p, k, ptx_textf(p, "%d", STEPS))), o->from);
  o->left = minus(p, ptx_lin(p, o->loop->at[0]), index);
  o->steps = minus(p, t->k, k);
}

/* t->is_fast: of tiles inside the matrix, neighbours along chunks, and all of them aligned. */
static void plan_fast(struct printer *p, struct float_tile *t) {
  t->is_fast = ptx_own(p, OWN_PRED);
  const char *bits = longword(p);
  ptx_line(p, "mov.s64 %s, 0", bits);
  for (int i = 0; i < 2; i++) {
    const struct float_operand *o = &t->operand[i];
    ptx_line(p, "or.b64 %s, %s, %s", bits, bits, o->from);
    ptx_line(p, "or.b64 %s, %s, %s", bits, bits, o->pass_bytes);
    ptx_line(p, "or.b64 %s, %s, %s", bits, bits, o->step_bytes);
  }
  ptx_line(p, "and.b64 %s, %s, 15", bits, bits);
  ptx_line(p, "setp.eq.and.s64 %s, %s, 0, %s", t->is_fast, bits, t->is_inside);
  for (int i = 0; i < 2; i++)
    ptx_line(p, "setp.eq.and.s64 %s, %s, %d, %s", t->is_fast, t->operand[i].next_bytes, t->width, t->is_fast);
}

static void copy_chunks(struct printer *p, const struct float_tile *t, const struct float_operand *o, const char *to) {
  const char *from = longword(p);
  ptx_line(p, "mov.s64 %s, %s", from, o->from);
  for (int i = 0; i < o->passes; i++) {
    ptx_line(p, "cp.async.cg.shared.global [%s+%d], [%s], 16", to, i * o->a_pass * o->pitch * t->width, from);
    if (i + 1 < o->passes) ptx_line(p, "add.s64 %s, %s, %s", from, from, o->pass_bytes);
  }
}

/* What is beyond the matrix becomes 0. A pass moves along the rows, an element along the chunk: one of them is k. */
static void copy_elements(struct printer *p, const struct float_tile *t, const struct float_operand *o, const char *to,
                          const char *k0) {
  const char *steps = minus(p, o->steps, k0), *rows = o->along_k ? o->left : steps, *elements = o->along_k ? steps : o->left,
             *pass = longword(p), *is = ptx_own(p, OWN_PRED), *is_row = ptx_own(p, OWN_PRED), *size = word(p);
  ptx_line(p, "mov.s64 %s, %s", pass, o->from);
  for (int i = 0; i < o->passes; i++) {
    const char *from = longword(p);
    ptx_line(p, "mov.s64 %s, %s", from, pass);
    ptx_line(p, "setp.gt.s64 %s, %s, %d", is_row, rows, i * o->a_pass);
    for (int e = 0; e < a_chunk(t); e++) {
      ptx_line(p, "setp.gt.and.s64 %s, %s, %d, %s", is, elements, e, is_row);
      ptx_line(p, "selp.b32 %s, %d, 0, %s", size, t->width, is);
      ptx_line(p, "cp.async.ca.shared.global [%s+%d], [%s], %d, %s", to, (i * o->a_pass * o->pitch + e) * t->width, from, t->width,
               size);
      if (e + 1 < a_chunk(t)) ptx_line(p, "add.s64 %s, %s, %s", from, from, o->next_bytes);
    }
    if (i + 1 < o->passes) ptx_line(p, "add.s64 %s, %s, %s", pass, pass, o->pass_bytes);
  }
}

/* Enqueues the stage of k0, a multiple of STEPS, and moves on to the next. */
static void enqueue(struct printer *p, const struct float_tile *t, const char *stage, const char *k0) {
  const char *is = ptx_own(p, OWN_PRED), *end = longword(p), *over = ptx_label(p, "over"), *slow = ptx_label(p, "slow"),
             *done = ptx_label(p, "copied"), *to[2] = { longword(p), longword(p) };
  ptx_line(p, "setp.ge.s64 %s, %s, %s", is, k0, t->k);
  ptx_line(p, "@%s bra %s", is, over);
  for (int i = 0; i < 2; i++) {
    ptx_line(p, "cvt.u64.u32 %s, %s", to[i], t->operand[i].to);
    ptx_line(p, "add.s64 %s, %s, %s", to[i], to[i], stage);
  }
  ptx_line(p, "add.s64 %s, %s, %d", end, k0, STEPS);
  ptx_line(p, "setp.le.and.s64 %s, %s, %s, %s", is, end, t->k, t->is_fast);
  ptx_line(p, "@!%s bra %s", is, slow);
  for (int i = 0; i < 2; i++) copy_chunks(p, t, &t->operand[i], to[i]);
  ptx_line(p, "bra %s", done);
  ptx_place(p, slow);
  for (int i = 0; i < 2; i++) copy_elements(p, t, &t->operand[i], to[i], k0);
  ptx_place(p, done);
  for (int i = 0; i < 2; i++)
    ptx_line(p, "add.s64 %s, %s, %s", t->operand[i].from, t->operand[i].from, t->operand[i].step_bytes);
  ptx_place(p, over);
  ptx_line(p, "cp.async.commit_group");
  ptx_line(p, "add.s64 %s, %s, %d", k0, k0, STEPS);
}

/* ---- Which elements ------------------------------------------------------------------------------------------------------- */

static int lanes_of(const struct float_tile *t, int side) { return side ? t->f->lanes_across : 32 / t->f->lanes_across; }

/* Element i of a thread along an axis: those of a warp take turns, one at a time in rows along k, else four neighbours at a time.
 * By dmma eight rows or columns further, two neighbours of the columns. */
static int element_at(const struct float_tile *t, int side, int i) {
  if (t->by_dmma) return side ? i / 2 * 8 + i % 2 : 8 * i;
  if (t->operand[side].along_k) return i * lanes_of(t, side);
  return i / 4 * lanes_of(t, side) * 4 + i % 4;
}

/* Whether neighbours of a thread along the rows of results are neighbours there, and how many. */
static int together(const struct float_tile *t) { return t->by_dmma ? 2 : t->operand[1].along_k ? 1 : 4; }

/* Bytes in a stage from an element and step to others. */
static int offset_of(const struct float_tile *t, int side, int element, int step) {
  const struct float_operand *o = &t->operand[side];
  return (o->along_k ? element * o->pitch + step : step * o->pitch + element) * t->width;
}

/* ---- Multiplying ---------------------------------------------------------------------------------------------------------- */

/* v[s][i]: elements of some steps, which stand side by side in rows along k. */
static void load_steps(struct printer *p, const struct float_tile *t, const char *at, int side, int step, int n,
                       const char *v[4][8]) {
  int many = side ? t->f->across : t->f->down;
  bool along_k = t->operand[side].along_k;
  for (int s = 0; s < n; s++)
    for (int i = 0; i < many; i++) v[s][i] = word(p);
  for (int i = 0; i < many && along_k; i++) {
    int offset = offset_of(t, side, element_at(t, side, i), step);
    if (n == 1) ptx_line(p, "ld.shared.b32 %s, [%s+%d]", v[0][i], at, offset);
    else if (n == 2) ptx_line(p, "ld.shared.v2.b32 {%s, %s}, [%s+%d]", v[0][i], v[1][i], at, offset);
    else ptx_line(p, "ld.shared.v4.b32 {%s, %s, %s, %s}, [%s+%d]", v[0][i], v[1][i], v[2][i], v[3][i], at, offset);
  }
  for (int s = 0; s < n && !along_k; s++)
    for (int i = 0; i < many; i += 4)
      ptx_line(p, "ld.shared.v4.b32 {%s, %s, %s, %s}, [%s+%d]", v[s][i], v[s][i + 1], v[s][i + 2], v[s][i + 3], at,
               offset_of(t, side, element_at(t, side, i), step + s));
}

static void multiply_steps(struct printer *p, const struct float_tile *t, const char *const at[2], int step, int n) {
  const char *v[2][4][8];
  for (int side = 0; side < 2; side++) load_steps(p, t, at[side], side, step, n, v[side]);
  for (int s = 0; s < n; s++)
    for (int i = 0; i < t->f->down; i++)
      for (int j = 0; j < t->f->across; j++) {
        const char *u = t->acc[i * t->f->across + j];
        ptx_line(p, "fma.rn.f32 %s, %s, %s, %s", u, v[0][s][i], v[1][s][j], u);
      }
}

/* Four steps of k: lane l has element (l / 4, l % 4) of a, (l % 4, l / 4) of b, and two neighbours of row l / 4 of the sums; by
 * sixteen the same eight rows further. */
static void multiply_four(struct printer *p, const struct float_tile *t, const char *const at[2], int step) {
  int n[2] = { t->f->down, t->f->across / 2 };
  const char *v[2][8];
  for (int side = 0; side < 2; side++)
    for (int i = 0; i < n[side]; i++) {
      v[side][i] = longword(p);
      ptx_line(p, "ld.shared.b64 %s, [%s+%d]", v[side][i], at[side], offset_of(t, side, 8 * i, step));
    }
  for (int i = 0; i < n[0]; i += t->by_sixteen ? 2 : 1)
    for (int j = 0; j < n[1]; j++) {
      const char *const *u = &t->acc[i * t->f->across + 2 * j], *const *w = u + t->f->across;
      if (t->by_sixteen)
        ptx_line(p, "mma.sync.aligned.m16n8k4.row.col.f64.f64.f64.f64 {%s, %s, %s, %s}, {%s, %s}, {%s}, {%s, %s, %s, %s}", u[0],
                 u[1], w[0], w[1], v[0][i], v[0][i + 1], v[1][j], u[0], u[1], w[0], w[1]);
      else
        ptx_line(p, "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%s, %s}, {%s}, {%s}, {%s, %s}", u[0], u[1], v[0][i], v[1][j],
                 u[0], u[1]);
    }
}

/* So many steps, written out, and on to the next ones. */
static void multiply(struct printer *p, const struct float_tile *t, const char *const at[2], int steps) {
  int most = t->operand[0].along_k && t->operand[1].along_k ? 2 : 4, n = steps < most ? steps : most; /* as registers allow */
  for (int s = 0; s < steps; s += t->by_dmma ? 4 : n) {
    if (t->by_dmma) multiply_four(p, t, at, s);
    else multiply_steps(p, t, at, s, n);
  }
  for (int side = 0; side < 2; side++)
    ptx_line(p, "add.s64 %s, %s, %d", at[side], at[side], offset_of(t, side, 0, steps));
}

/* By dmma: the steps from n on, up to a multiple of 4, become -0 times 0. All threads of the block. */
static void fill_steps(struct printer *p, const struct float_tile *t, const char *stage, const char *n) {
  const struct float_operand *o = &t->operand[0];
  const char *again = ptx_label(p, "fill"), *filled = ptx_label(p, "filled"), *is = ptx_own(p, OWN_PRED), *left = word(p),
             *at = longword(p), *place = word(p), *s = word(p), *zero = longword(p);
  ptx_line(p, "mov.b32 %s, %s", s, n);
  ptx_line(p, "mov.b64 %s, 0x8000000000000000", zero);
  ptx_place_loop(p, again);
  ptx_line(p, "and.b32 %s, %s, 3", left, s);
  ptx_line(p, "setp.eq.u32 %s, %s, 0", is, left);
  ptx_line(p, "@%s bra %s", is, filled);
  ptx_line(p, "mad.lo.u32 %s, %s, %d, %s", place, o->along_k ? t->tid : s, o->pitch, o->along_k ? s : t->tid);
  ptx_line(p, "mad.wide.u32 %s, %s, 8, %s", at, place, stage);
  ptx_line(p, "setp.lt.u32 %s, %s, %d", is, t->tid, t->f->rows);
  ptx_line(p, "@%s st.shared.b64 [%s+%d], %s", is, at, o->at, zero);
  ptx_line(p, "add.u32 %s, %s, 1", s, s);
  ptx_line(p, "bra %s", again);
  ptx_place(p, filled);
  ptx_line(p, "bar.sync 0");
}

/* What is in a stage: AHEAD steps at a time, of the last one so many. */
static void multiply_stage(struct printer *p, const struct float_tile *t, const char *stage, const char *k1) {
  const char *at[2] = { longword(p), longword(p) }, *left = minus(p, t->k, k1), *n = word(p), *is = ptx_own(p, OWN_PRED),
             *many = ptx_label(p, "many"), *few = ptx_label(p, "few"), *done = ptx_label(p, "done"), *whole = ptx_label(p, "whole");
  int least = t->by_dmma ? 4 : 1;
  ptx_line(p, "min.s64 %s, %s, %d", left, left, STEPS);
  ptx_line(p, "cvt.u32.u64 %s, %s", n, left);
  if (t->by_dmma) {
    ptx_line(p, "setp.eq.u32 %s, %s, %d", is, n, STEPS);
    ptx_line(p, "@%s bra %s", is, whole);
    fill_steps(p, t, stage, n);
    ptx_place(p, whole);
  }
  for (int side = 0; side < 2; side++) {
    ptx_line(p, "cvt.u64.u32 %s, %s", at[side], t->operand[side].lane);
    ptx_line(p, "add.s64 %s, %s, %s", at[side], at[side], stage);
  }
  ptx_place_loop(p, many);
  ptx_line(p, "setp.lt.s32 %s, %s, %d", is, n, AHEAD);
  ptx_line(p, "@%s bra %s", is, few);
  multiply(p, t, at, AHEAD);
  ptx_line(p, "sub.s32 %s, %s, %d", n, n, AHEAD);
  ptx_line(p, "bra %s", many);
  ptx_place_loop(p, few);
  ptx_line(p, "setp.lt.s32 %s, %s, 1", is, n);
  ptx_line(p, "@%s bra %s", is, done);
  multiply(p, t, at, least);
  ptx_line(p, "sub.s32 %s, %s, %d", n, n, least);
  ptx_line(p, "bra %s", few);
  ptx_place(p, done);
}

/* ---- Sums ----------------------------------------------------------------------------------------------------------------- */

/* sum = total + sum, unless it is the first block */
static void add_totals(struct printer *p, const struct float_tile *t, const char *is_first) {
  const char *first = ptx_label(p, "first");
  ptx_line(p, "@%s bra %s", is_first, first);
  for (int e = 0; e < t->n; e++) {
    const char *total = ptx_own_of(p, t->d);
    ptx_line(p, "ld.local.%s %s, [%s+%d]", ptx_bits(t->d), total, t->totals, e * t->width);
    ptx_instruction(p, KIR_ADD, t->d, t->acc[e], (const char *[]){ total, t->acc[e] });
  }
  ptx_place(p, first);
}

/* The sum becomes the total, and begins anew. */
static void begin_block(struct printer *p, const struct float_tile *t, bool is_first) {
  for (int e = 0; e < t->n; e++) {
    if (!is_first) ptx_line(p, "st.local.%s [%s+%d], %s", ptx_bits(t->d), t->totals, e * t->width, t->acc[e]);
    ptx_mov(p, t->d, t->acc[e], ptx_number(p, t->d, 0));
  }
}

static void put_results(struct printer *p, const struct float_tile *t) {
  int n = together(t);
  for (int e = 0; e < t->n; e += n) {
    int i = e / t->f->across, j = e % t->f->across;
    int at = (element_at(t, 0, i) * result_pitch(t->f) + element_at(t, 1, j)) * t->width;
    const char *const *u = &t->acc[e];
    if (n == 1) ptx_line(p, "st.shared.b32 [%s+%d], %s", t->own, at, u[0]);
    else if (n == 2) ptx_line(p, "st.shared.v2.b64 [%s+%d], {%s, %s}", t->own, at, u[0], u[1]);
    else ptx_line(p, "st.shared.v4.b32 [%s+%d], {%s, %s, %s, %s}", t->own, at, u[0], u[1], u[2], u[3]);
  }
}

static void next_stage(struct printer *p, const struct float_tile *t, const char *stage, const char *end) {
  const char *is = ptx_own(p, OWN_PRED);
  ptx_line(p, "add.s64 %s, %s, %d", stage, stage, stage_bytes(t->f, t->width));
  ptx_line(p, "setp.ge.s64 %s, %s, %s", is, stage, end);
  ptx_line(p, "selp.b64 %s, %s, %s, %s", stage, t->base, stage, is);
}

static void sums(struct printer *p, const struct float_tile *t) {
  const char *in = longword(p), *out = longword(p), *end = longword(p), *k0 = longword(p), *k1 = longword(p), *low = longword(p),
             *is = ptx_own(p, OWN_PRED), *is_first = ptx_own(p, OWN_PRED), *again = ptx_label(p, "steps"),
             *leave = ptx_label(p, "leave");
  begin_block(p, t, true);
  ptx_line(p, "mov.s64 %s, %s", in, t->base);
  ptx_line(p, "mov.s64 %s, %s", out, t->base);
  ptx_line(p, "add.s64 %s, %s, %d", end, t->base, t->f->stages * stage_bytes(t->f, t->width));
  ptx_line(p, "mov.s64 %s, 0", k0);
  ptx_line(p, "mov.s64 %s, 0", k1);
  for (int i = 0; i + 1 < t->f->stages; i++) enqueue(p, t, in, k0), next_stage(p, t, in, end);
  ptx_line(p, "setp.ge.s64 %s, %s, %s", is, k1, t->k);
  ptx_line(p, "@%s bra %s", is, leave);
  ptx_place_loop(p, again);
  ptx_line(p, "cp.async.wait_group %d", t->f->stages - 2);
  ptx_line(p, "bar.sync 0"); /* this stage has come for all, and all are done with the one before, whose place is next */
  enqueue(p, t, in, k0);
  next_stage(p, t, in, end);
  multiply_stage(p, t, out, k1);
  next_stage(p, t, out, end);
  ptx_line(p, "add.s64 %s, %s, %d", k1, k1, STEPS);
  ptx_line(p, "setp.ge.s64 %s, %s, %s", is, k1, t->k);
  ptx_line(p, "@%s bra %s", is, leave);
  ptx_line(p, "and.b64 %s, %s, %d", low, k1, BLOCK - 1);
  ptx_line(p, "setp.ne.s64 %s, %s, 0", is, low);
  ptx_line(p, "@%s bra %s", is, again);
  ptx_line(p, "setp.eq.s64 %s, %s, %d", is_first, k1, BLOCK);
  add_totals(p, t, is_first);
  begin_block(p, t, false);
  ptx_line(p, "bra %s", again);
  ptx_place(p, leave);
  ptx_line(p, "setp.le.s64 %s, %s, %d", is_first, t->k, BLOCK);
  add_totals(p, t, is_first);
  ptx_line(p, "cp.async.wait_group 0");
  ptx_line(p, "bar.sync 0"); /* all are done with the stages: results take their place */
  put_results(p, t);
  ptx_line(p, "bar.sync 0");
}

/* ---- What follows --------------------------------------------------------------------------------------------------------- */

static void finish(struct printer *p, const struct float_tile *t) {
  const struct survey_product *x = t->x;
  const char *e = word(p), *i = word(p), *j = word(p), *at = longword(p), *wide = longword(p), *is = ptx_own(p, OWN_PRED),
             *again = ptx_label(p, "element"), *next = ptx_label(p, "next");
  const char *row = ptx_val(p, x->row->var), *column = ptx_val(p, x->lane->var);
  ptx_line(p, "mov.u32 %s, %s", e, t->tid);
  ptx_place_loop(p, again);
  ptx_line(p, "shr.u32 %s, %s, %d", i, e, ptx_log_2(t->f->columns));
  ptx_line(p, "and.b32 %s, %s, %d", j, e, t->f->columns - 1);
  ptx_line(p, "cvt.u64.u32 %s, %s", wide, i);
  ptx_line(p, "add.s64 %s, %s, %s", row, t->row0, wide);
  ptx_line(p, "cvt.u64.u32 %s, %s", wide, j);
  ptx_line(p, "add.s64 %s, %s, %s", column, t->column0, wide);
  ptx_line(p, "setp.lt.s64 %s, %s, %s", is, row, t->rows);
  ptx_line(p, "setp.lt.and.s64 %s, %s, %s, %s", is, column, t->columns, is);
  ptx_line(p, "@!%s bra %s", is, next);
  ptx_line(p, "mad.lo.u32 %s, %s, %d, %s", i, i, result_pitch(t->f), j);
  ptx_line(p, "mad.wide.u32 %s, %s, %d, %s", at, i, t->width, t->base);
  ptx_line(p, "ld.shared.%s %s, [%s]", ptx_bits(t->d), ptx_val(p, x->total), at);
  struct where w = { .lane = x->lane, .rest = next };
  ptx_statements(p, x->before, x->sum, w);
  ptx_statements(p, x->rest, NULL, w);
  ptx_place(p, next);
  ptx_line(p, "add.u32 %s, %s, %d", e, e, threads_of(t->f));
  ptx_line(p, "setp.lt.u32 %s, %s, %d", is, e, t->f->rows * t->f->columns);
  ptx_line(p, "@%s bra %s", is, again);
}

/* ---- The entry ------------------------------------------------------------------------------------------------------------ */

/* Which tile the block has, and whether all of it is inside the matrix. */
static void find_tile(struct printer *p, struct float_tile *t) {
  ptx_find_tile(p, t->rows, t->columns, t->f->rows, t->f->columns, t->row0, t->column0);
  const char *end = longword(p);
  t->is_inside = ptx_own(p, OWN_PRED);
  ptx_line(p, "add.s64 %s, %s, %d", end, t->row0, t->f->rows);
  ptx_line(p, "setp.le.s64 %s, %s, %s", t->is_inside, end, t->rows);
  ptx_line(p, "add.s64 %s, %s, %d", end, t->column0, t->f->columns);
  ptx_line(p, "setp.le.and.s64 %s, %s, %s, %s", t->is_inside, end, t->columns, t->is_inside);
}

/* Which elements of the tile are this thread's: where it reads operands, and where its first result stands. */
static void find_own(struct printer *p, struct float_tile *t) {
  const struct floats_form *f = t->f;
  int lanes_across = t->by_dmma ? 4 : f->lanes_across, a_warp[2] = { f->down * (32 / lanes_across), f->across * lanes_across };
  const char *warp = word(p), *lane[2] = { word(p), word(p) }, *first[2] = { word(p), word(p) }, *at = word(p);
  ptx_line(p, "shr.u32 %s, %s, 5", warp, t->tid);
  ptx_line(p, "shr.u32 %s, %s, %d", first[0], warp, ptx_log_2(f->columns / a_warp[1]));
  ptx_line(p, "and.b32 %s, %s, %d", first[1], warp, f->columns / a_warp[1] - 1);
  ptx_line(p, "shr.u32 %s, %s, %d", lane[0], t->lane, ptx_log_2(lanes_across));
  ptx_line(p, "and.b32 %s, %s, %d", lane[1], t->lane, lanes_across - 1);
  for (int side = 0; side < 2; side++) {
    struct float_operand *o = &t->operand[side];
    const char *element = word(p);
    int apart = t->by_dmma || o->along_k ? 1 : 4;
    o->lane = word(p);
    ptx_line(p, "mul.lo.u32 %s, %s, %d", first[side], first[side], a_warp[side]);
    ptx_line(p, "mad.lo.u32 %s, %s, %d, %s", element, t->by_dmma ? lane[0] : lane[side], apart, first[side]);
    ptx_line(p, "mul.lo.u32 %s, %s, %d", o->lane, element, offset_of(t, side, 1, 0));
    if (t->by_dmma) ptx_line(p, "mad.lo.u32 %s, %s, %d, %s", o->lane, lane[1], offset_of(t, side, 0, 1), o->lane);
    ptx_line(p, "add.u32 %s, %s, %d", o->lane, o->lane, o->at);
    ptx_line(p, "mad.lo.u32 %s, %s, %d, %s", first[side], lane[side], t->by_dmma && side ? 2 : apart, first[side]);
  }
  t->own = longword(p), t->totals = longword(p);
  ptx_line(p, "mad.lo.u32 %s, %s, %d, %s", at, first[0], result_pitch(f), first[1]);
  ptx_line(p, "mad.wide.u32 %s, %s, %d, %s", t->own, at, t->width, t->base);
  ptx_line(p, "mov.u32 %s, %%ctaid.y", at); /* which is 0, but nobody knows: totals are not to become registers */
  ptx_line(p, "mov.u64 %s, stack", t->totals);
  ptx_line(p, "mad.wide.u32 %s, %s, 8, %s", t->totals, at, t->totals);
  p->stack_bytes = t->n * t->width;
}

static void one_tile(struct printer *p, void *of) {
  struct float_tile *t = of;
  for (int i = 0; i < 2; i++) plan_copy(p, t, &t->operand[i]);
  plan_fast(p, t);
  sums(p, t);
  finish(p, t);
  ptx_line(p, "bar.sync 0");
}

void ptx_floats(struct printer *p, int form) {
  const struct survey_product *x = &p->survey.product;
  weft_dtype d = (weft_dtype)p->k->bufs[x->a->buf].dtype;
  const struct floats_form *f = form_of(d, form);
  struct float_tile t = { .x = x, .f = f, .d = d, .width = kir_width(d), .n = f->down * f->across, .by_dmma = d == WEFT_F64,
                          .by_sixteen = p->plan->capability >= 90,
                          .tid = word(p), .lane = word(p), .base = longword(p), .row0 = longword(p), .column0 = longword(p) };
  p->threads = threads_of(f), p->blocks = f->blocks;
  ptx_line(p, "mov.u32 %s, %%tid.x", t.tid);
  ptx_line(p, "and.b32 %s, %s, 31", t.lane, t.tid);
  ptx_line(p, "mov.u64 %s, floats", t.base);
  t.k = ptx_product_length(p, x);
  t.rows = ptx_lin(p, x->row->at[0]), t.columns = ptx_lin(p, x->lane->at[0]);
  find_tile(p, &t);
  for (int i = 0; i < 2; i++) {
    struct float_operand *o = &t.operand[i];
    *o = (struct float_operand){ .load = i ? x->b : x->a, .loop = i ? x->lane : x->row, .first = i ? t.column0 : t.row0,
                                 .side = i ? f->columns : f->rows, .at = i ? f->rows * (STEPS + MORE) * t.width : 0 };
    o->along_k = lies_along_k(p, o->load, x->step);
    o->pitch = (o->along_k ? STEPS : o->side) + MORE;
  }
  find_own(p, &t);
  for (int e = 0; e < t.n; e++) t.acc[e] = ptx_own_of(p, d);
  ptx_along_batch(p, x, p->k->body.first, one_tile, &t);
}

/* ---- Launching ------------------------------------------------------------------------------------------------------------ */

static int64_t parts(int64_t n, int64_t b) { return n > 0 ? (n - 1) / b + 1 : 0; }

bool ptx_floats_shape(const struct ptx_plan *p, const struct ptx_machine *m, const int64_t sizes[], const uint64_t args[],
                      struct ptx_shape *s) {
  if (!p->floats[0] || !s->is_product) return false;
  int64_t rows = ptx_size(&p->product_rows, sizes, args), columns = ptx_size(&p->product_columns, sizes, args);
  for (int form = 0; form < PTX_FLOATS; form++) {
    const struct floats_form *f = form_of(p->floats_dtype, form);
    int64_t tiles = parts(rows, f->rows) * parts(columns, f->columns);
    if (tiles > INT32_MAX) continue;
    if (form < PTX_FLOATS - 1 && 2 * tiles * s->grid[2] < 3 * (int64_t)m->n_processors) continue;
    s->floats_form = form, s->is_floats = true;
    s->block[0] = (unsigned)threads_of(f);
    s->grid[0] = (unsigned)tiles, s->grid[1] = 1;
    s->shared_bytes = shared_of(f, kir_width(p->floats_dtype));
    return true;
  }
  return false;
}
