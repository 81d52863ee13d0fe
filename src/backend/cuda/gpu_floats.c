/* gpu_floats.c -- products of f32 or f64 matrices by tiles: further entries for kernels that are such a product, in the same order
 * of sums.
 *
 * [m,k] x [k,n]: a block of threads computes a tile of y. Some steps of k at a time, a stage, come by cp.async into shared memory
 * while others are multiplied; what a step needs of a stage is loaded while the step before is multiplied. Sums are those of the
 * text: fma in the order of k, blocks of 512 from 0, which are added in order; the totals of blocks are in local memory. Steps of
 * the last stage that are not of the matrix are -0 times 0, which leaves every sum as it is. What follows the sum in the text is
 * then done element by element, from shared memory.
 *
 * Of f32 a stage has rows of a step: an operand whose steps are neighbours in memory is turned on its way, element by element,
 * others come 16 bytes at a time. What counts is that the three operands of an fma are not in one bank of registers: with 128
 * registers a thread, two blocks of 256, they are in 8 % of them, with 166, three blocks of 128, in 1 %.
 *
 * Of f64 a warp multiplies by the tensor cores, four steps at a time, whose sums are a chain of fma in the order of k as well:
 * measured on an H200 for all shapes of mma, over normal, huge, tiny, denormal and infinite numbers. Elements stand in a stage as
 * they stand in memory: in rows along k, or in rows of a step. */
#include "backend/cuda/printer.h"
#include <math.h>
#include <string.h>

/* MORE: elements between rows of shared memory: rows of a warp are then in different banks; MOST: elements of a thread;
 * PORTIONS: of f32, that are written one after the other. */
enum { MORE = 4, BLOCK = KIR_PRODUCT_BLOCK, MOST = 64, LANES_ACROSS = 8, PORTIONS = 16 };

/* Elements of a tile and of a thread, down and across; steps of a stage, stages; blocks of threads that a processor has room
 * for; and how long a processor takes for a step of a tile: of f32 the instructions of a warp, as a block has four, of f64
 * in proportion. Large tiles read least of memory and have most products an instruction; small ones are for products that
 * have too few large ones for all processors, or would not fill them. */
struct floats_form { int rows, columns, down, across, steps, stages, blocks, cost; };
static const struct floats_form forms[2][PTX_FLOATS] = {
  { { 64, 128, 8, 8, 16, 3, 3, 76 }, { 64, 64, 8, 4, 16, 3, 4, 45 }, { 32, 32, 4, 2, 16, 3, 8, 16 } },
  { { 64, 64, 4, 8, 16, 3, 3, 100 }, { 32, 32, 2, 4, 16, 3, 4, 36 } } };

static const struct floats_form *form_of(weft_dtype d, int form) { return &forms[d == WEFT_F64][form]; }
bool ptx_has_floats_form(weft_dtype d, int form) { return form_of(d, form)->rows > 0; }
static int threads_of(const struct floats_form *f) { return f->rows * f->columns / (f->down * f->across); }
static int stage_bytes(const struct floats_form *f, int width) { /* of rows along k, or of a step: whatever takes more */
  int along = (f->rows + f->columns) * (f->steps + MORE), across = f->steps * (f->rows + f->columns + 2 * MORE);
  return (along > across ? along : across) * width;
}
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
  bool along_k, is_turned;   /* its steps are neighbours in memory; but not in a stage */
  int side, at, pitch;       /* elements along the loop; where in a stage it stands; elements from row to row there */
  int chunk, a_pass, passes; /* elements that a thread copies at a time; rows of memory that all copy at a time, and how often */
  const char *from, *to;     /* what this thread copies: the address of its first chunk, and an offset in a stage */
  const char *next_bytes, *pass_bytes, *step_bytes; /* to the next element of a chunk, from pass to pass, from stage to stage */
  const char *left, *steps;  /* elements of the loop, and steps of k, from this thread's first on */
  const char *lane;          /* an offset in a stage: this thread's first element of step 0 */
};

struct float_tile {
  const struct survey_product *x;
  const struct floats_form *f;
  weft_dtype d;
  int width, n;              /* bytes of an element; how many a thread has */
  int portion;               /* steps that are multiplied at a time */
  bool by_dmma, by_sixteen;  /* sixteen: rows of mma, eight where the device has not those */
  const char *tid, *lane, *base, *k, *row0, *column0, *rows, *columns;
  const char *own, *totals;  /* where this thread's first result stands in shared memory; its totals */
  const char *is_inside, *is_fast; /* all rows and columns of the tile are of the matrix; and this thread's chunks are aligned */
  struct float_operand operand[2];
  const char *acc[MOST];     /* element i * f->across + j; by dmma two neighbours of each of 8 x 8 */
  const char *v[2][2][16];   /* of this portion and of the next, by side: elements of the operands */
};

static const char *word(struct printer *p) { return ptx_own(p, OWN_WORD); }
static const char *longword(struct printer *p) { return ptx_own(p, OWN_LONG); }

/* ---- Copying -------------------------------------------------------------------------------------------------------------- */

static bool in_rows_of_k(const struct float_operand *o) { return o->along_k && !o->is_turned; } /* in a stage */

static bool lies_along_k(struct printer *p, const struct kir_stmt *load, int step) {
  for (int d = 0; d < load->n_at; d++)
    if (survey_mentions(load->at[d], step)) return p->shape->stride[load->buf][d] == STRIDE_1;
  return false;
}

/* Where the element (index, k) of the operand is. */
static const char *element(struct printer *p, const struct float_tile *t, const struct float_operand *o, const char *index,
                           const char *k) {
  return ptx_product_address(p, t->x, o->load, o->loop, index, k);
}

/* Bytes in a stage from an element and step to others. */
static int offset_of(const struct float_tile *t, int side, int element, int step) {
  const struct float_operand *o = &t->operand[side];
  return (in_rows_of_k(o) ? element * o->pitch + step : step * o->pitch + element) * t->width;
}

/* Bytes in a stage from pass to pass. */
static int passed(const struct float_tile *t, const struct float_operand *o) {
  return o->a_pass * (o->is_turned ? 1 : o->pitch) * t->width;
}

/* Addresses are linear in every index, so steps between them are differences. */
static void plan_copy(struct printer *p, const struct float_tile *t, struct float_operand *o) {
  const char *row = word(p), *first = word(p), *wide[2] = { longword(p), longword(p) }, *index, *k, *one = "1";
  int chunks = (o->along_k ? t->f->steps : o->side) / o->chunk;
  o->a_pass = threads_of(t->f) / chunks, o->passes = (o->along_k ? o->side : t->f->steps) / o->a_pass;
  ptx_line(p, "shr.u32 %s, %s, %d", row, t->tid, ptx_log_2(chunks));
  ptx_line(p, "and.b32 %s, %s, %d", first, t->tid, chunks - 1);
  ptx_line(p, "mul.lo.u32 %s, %s, %d", first, first, o->chunk);
  o->to = word(p);
  ptx_line(p, "mad.lo.u32 %s, %s, %d, %s", o->to, o->is_turned ? first : row, o->pitch, o->is_turned ? row : first);
  ptx_line(p, "mad.lo.u32 %s, %s, %d, %d", o->to, o->to, t->width, o->at);
  ptx_line(p, "cvt.u64.u32 %s, %s", wide[0], o->along_k ? row : first);
  ptx_line(p, "cvt.u64.u32 %s, %s", wide[1], o->along_k ? first : row);
  index = ptx_plus(p, o->first, wide[0]), k = wide[1];
  const char *pass = ptx_textf(p, "%d", o->a_pass), *row_on = ptx_plus(p, o->along_k ? index : k, pass),
             *next = ptx_plus(p, o->along_k ? k : index, one);
  o->from = element(p, t, o, index, k);
  o->pass_bytes = ptx_minus(p, o->along_k ? element(p, t, o, row_on, k) : element(p, t, o, index, row_on), o->from);
  o->next_bytes = ptx_minus(p, o->along_k ? element(p, t, o, index, next) : element(p, t, o, next, k), o->from);
  o->step_bytes = ptx_minus(p, element(p, t, o, index, ptx_plus(p, k, ptx_textf(p, "%d", t->f->steps))), o->from);
  o->left = ptx_minus(p, ptx_lin(p, o->loop->at[0]), index);
  o->steps = ptx_minus(p, t->k, k);
}

/* t->is_fast: of tiles inside the matrix, whose chunks are neighbours and aligned. */
static void plan_fast(struct printer *p, struct float_tile *t) {
  t->is_fast = ptx_own(p, OWN_PRED);
  const char *bits = longword(p);
  ptx_line(p, "mov.s64 %s, 0", bits);
  for (int i = 0; i < 2; i++) {
    const struct float_operand *o = &t->operand[i];
    if (o->chunk == 1) continue;
    ptx_line(p, "or.b64 %s, %s, %s", bits, bits, o->from);
    ptx_line(p, "or.b64 %s, %s, %s", bits, bits, o->pass_bytes);
    ptx_line(p, "or.b64 %s, %s, %s", bits, bits, o->step_bytes);
  }
  ptx_line(p, "and.b64 %s, %s, 15", bits, bits);
  ptx_line(p, "setp.eq.and.s64 %s, %s, 0, %s", t->is_fast, bits, t->is_inside);
  for (int i = 0; i < 2; i++)
    if (t->operand[i].chunk > 1)
      ptx_line(p, "setp.eq.and.s64 %s, %s, %d, %s", t->is_fast, t->operand[i].next_bytes, t->width, t->is_fast);
}

static void copy_chunks(struct printer *p, const struct float_tile *t, const struct float_operand *o, const char *to) {
  const char *from = longword(p), *how = o->chunk > 1 ? "cg" : "ca";
  ptx_line(p, "mov.s64 %s, %s", from, o->from);
  for (int i = 0; i < o->passes; i++) {
    ptx_line(p, "cp.async.%s.shared.global [%s+%d], [%s], %d", how, to, i * passed(t, o), from, o->chunk * t->width);
    if (i + 1 < o->passes) ptx_line(p, "add.s64 %s, %s, %s", from, from, o->pass_bytes);
  }
}

/* What is beyond the matrix becomes 0. A pass moves along the rows, an element along the chunk: one of them is k. */
static void copy_elements(struct printer *p, const struct float_tile *t, const struct float_operand *o, const char *to,
                          const char *k0) {
  const char *steps = ptx_minus(p, o->steps, k0), *rows = o->along_k ? o->left : steps, *elements = o->along_k ? steps : o->left,
             *pass = longword(p), *is = ptx_own(p, OWN_PRED), *is_row = ptx_own(p, OWN_PRED), *size = word(p);
  ptx_line(p, "mov.s64 %s, %s", pass, o->from);
  for (int i = 0; i < o->passes; i++) {
    const char *from = longword(p);
    ptx_line(p, "mov.s64 %s, %s", from, pass);
    ptx_line(p, "setp.gt.s64 %s, %s, %d", is_row, rows, i * o->a_pass);
    for (int e = 0; e < o->chunk; e++) {
      ptx_line(p, "setp.gt.and.s64 %s, %s, %d, %s", is, elements, e, is_row);
      ptx_line(p, "selp.b32 %s, %d, 0, %s", size, t->width, is);
      ptx_line(p, "cp.async.ca.shared.global [%s+%d], [%s], %d, %s", to, i * passed(t, o) + e * t->width, from, t->width, size);
      if (e + 1 < o->chunk) ptx_line(p, "add.s64 %s, %s, %s", from, from, o->next_bytes);
    }
    if (i + 1 < o->passes) ptx_line(p, "add.s64 %s, %s, %s", pass, pass, o->pass_bytes);
  }
}

/* Enqueues the stage of k0, a multiple of its steps, and moves on to the next. */
static void enqueue(struct printer *p, const struct float_tile *t, const char *stage, const char *k0) {
  const char *is = ptx_own(p, OWN_PRED), *end = longword(p), *over = ptx_label(p, "over"), *slow = ptx_label(p, "slow"),
             *done = ptx_label(p, "copied"), *to[2] = { longword(p), longword(p) };
  ptx_line(p, "setp.ge.s64 %s, %s, %s", is, k0, t->k);
  ptx_line(p, "@%s bra %s", is, over);
  for (int i = 0; i < 2; i++) {
    ptx_line(p, "cvt.u64.u32 %s, %s", to[i], t->operand[i].to);
    ptx_line(p, "add.s64 %s, %s, %s", to[i], to[i], stage);
  }
  ptx_line(p, "add.s64 %s, %s, %d", end, k0, t->f->steps);
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
  ptx_line(p, "add.s64 %s, %s, %d", k0, k0, t->f->steps);
}

/* ---- Which elements ------------------------------------------------------------------------------------------------------- */

static int lanes_of(int side) { return side ? LANES_ACROSS : 32 / LANES_ACROSS; }

/* Of f32: the elements that a thread has side by side along an axis. */
static int together(const struct float_tile *t, int side) {
  int n = side ? t->f->across : t->f->down;
  return n < 4 ? n : 4;
}

/* Element i of a thread along an axis: those of a warp take turns, some neighbours at a time. By dmma eight rows or columns
 * further, two neighbours of the columns. */
static int element_at(const struct float_tile *t, int side, int i) {
  int n = together(t, side);
  if (t->by_dmma) return side ? i / 2 * 8 + i % 2 : 8 * i;
  return i / n * lanes_of(side) * n + i % n;
}

/* ---- Multiplying ---------------------------------------------------------------------------------------------------------- */

/* What the portion that begins with this step needs: t->v[which]. */
static void load_portion(struct printer *p, const struct float_tile *t, const char *const at[2], int step, int which) {
  int many[2] = { t->f->down, t->by_dmma ? t->f->across / 2 : t->f->across };
  for (int side = 0; side < 2; side++) {
    const char *const *v = t->v[which][side];
    for (int i = 0; i < many[side]; i += t->by_dmma ? 1 : together(t, side)) {
      int offset = offset_of(t, side, t->by_dmma ? 8 * i : element_at(t, side, i), step);
      if (t->by_dmma) ptx_line(p, "ld.shared.b64 %s, [%s+%d]", v[i], at[side], offset);
      else if (together(t, side) == 2) ptx_line(p, "ld.shared.v2.b32 {%s, %s}, [%s+%d]", v[i], v[i + 1], at[side], offset);
      else ptx_line(p, "ld.shared.v4.b32 {%s, %s, %s, %s}, [%s+%d]", v[i], v[i + 1], v[i + 2], v[i + 3], at[side], offset);
    }
  }
}

/* There and back along the rows: neighbours share an operand, which is then read once. */
static void multiply_step(struct printer *p, const struct float_tile *t, int which) {
  for (int i = 0; i < t->f->down; i++)
    for (int e = 0; e < t->f->across; e++) {
      int j = i % 2 ? t->f->across - 1 - e : e;
      const char *u = t->acc[i * t->f->across + j];
      ptx_line(p, "fma.rn.f32 %s, %s, %s, %s", u, t->v[which][0][i], t->v[which][1][j], u);
    }
}

/* Four steps of k: lane l has element (l / 4, l % 4) of a, (l % 4, l / 4) of b, and two neighbours of row l / 4 of the sums; by
 * sixteen the same eight rows further. */
static void multiply_four(struct printer *p, const struct float_tile *t, int which) {
  const char *const *a = t->v[which][0], *const *b = t->v[which][1];
  for (int i = 0; i < t->f->down; i += t->by_sixteen ? 2 : 1)
    for (int j = 0; j < t->f->across / 2; j++) {
      const char *const *u = &t->acc[i * t->f->across + 2 * j], *const *w = u + t->f->across;
      if (t->by_sixteen)
        ptx_line(p, "mma.sync.aligned.m16n8k4.row.col.f64.f64.f64.f64 {%s, %s, %s, %s}, {%s, %s}, {%s}, {%s, %s, %s, %s}", u[0],
                 u[1], w[0], w[1], a[i], a[i + 1], b[j], u[0], u[1], w[0], w[1]);
      else
        ptx_line(p, "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%s, %s}, {%s}, {%s}, {%s, %s}", u[0], u[1], a[i], b[j], u[0],
                 u[1]);
    }
}

/* Steps of the stage from n on become -0 times 0. All threads of the block. */
static void fill_steps(struct printer *p, const struct float_tile *t, const char *stage, const char *n) {
  const struct float_operand *o = &t->operand[0];
  const char *again = ptx_label(p, "fill"), *is = ptx_own(p, OWN_PRED), *at = longword(p), *row = word(p), *place = word(p),
             *s = word(p), *zero = ptx_own_of(p, t->d), *next = ptx_label(p, "filled");
  ptx_line(p, "mov.b32 %s, %s", s, n);
  ptx_line(p, t->width == 8 ? "mov.b64 %s, 0x8000000000000000" : "mov.b32 %s, 0x80000000", zero);
  ptx_place_loop(p, again);
  for (int row0 = 0; row0 < o->side; row0 += threads_of(t->f)) {
    ptx_line(p, "add.u32 %s, %s, %d", row, t->tid, row0);
    ptx_line(p, "mad.lo.u32 %s, %s, %d, %s", place, in_rows_of_k(o) ? row : s, o->pitch, in_rows_of_k(o) ? s : row);
    ptx_line(p, "mad.wide.u32 %s, %s, %d, %s", at, place, t->width, stage);
    ptx_line(p, "setp.ge.u32 %s, %s, %d", is, row, o->side);
    ptx_line(p, "@%s bra %s", is, next);
    ptx_line(p, "st.shared.%s [%s+%d], %s", ptx_bits(t->d), at, o->at, zero);
  }
  ptx_place(p, next);
  ptx_line(p, "add.u32 %s, %s, 1", s, s);
  ptx_line(p, "setp.lt.u32 %s, %s, %d", is, s, t->f->steps);
  ptx_line(p, "@%s bra %s", is, again);
  ptx_line(p, "bar.sync 0");
}

/* Of a stage that ends beyond the matrix; at: as find_stage says. Its first step is always of the matrix, the first portion, which
 * was loaded, maybe not. */
static void fill_last(struct printer *p, const struct float_tile *t, const char *stage, const char *k1, const char *const at[2]) {
  const char *left = ptx_minus(p, t->k, k1), *n = word(p), *is = ptx_own(p, OWN_PRED), *whole = ptx_label(p, "whole");
  ptx_line(p, "setp.ge.s64 %s, %s, %d", is, left, t->f->steps);
  ptx_line(p, "@%s bra %s", is, whole);
  ptx_line(p, "cvt.u32.u64 %s, %s", n, left);
  if (t->portion > 1) ptx_line(p, "bar.sync 0"); /* all have loaded what is filled now, and will load it again */
  fill_steps(p, t, stage, n);
  if (t->portion > 1) load_portion(p, t, at, 0, 0);
  ptx_place(p, whole);
}

static void find_stage(struct printer *p, const struct float_tile *t, const char *stage, const char *const at[2]) {
  for (int side = 0; side < 2; side++) {
    ptx_line(p, "cvt.u64.u32 %s, %s", at[side], t->operand[side].lane);
    ptx_line(p, "add.s64 %s, %s, %s", at[side], at[side], stage);
  }
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

static void put_results(struct printer *p, const struct float_tile *t) {
  int n = t->by_dmma ? 2 : together(t, 1);
  for (int e = 0; e < t->n; e += n) {
    int i = e / t->f->across, j = e % t->f->across;
    int at = (element_at(t, 0, i) * result_pitch(t->f) + element_at(t, 1, j)) * t->width;
    const char *const *u = &t->acc[e];
    if (n == 2) ptx_line(p, "st.shared.v2.%s [%s+%d], {%s, %s}", ptx_bits(t->d), t->own, at, u[0], u[1]);
    else ptx_line(p, "st.shared.v4.b32 [%s+%d], {%s, %s, %s, %s}", t->own, at, u[0], u[1], u[2], u[3]);
  }
}

static void next_stage(struct printer *p, const struct float_tile *t, const char *stage, const char *end) {
  const char *is = ptx_own(p, OWN_PRED);
  ptx_line(p, "add.s64 %s, %s, %d", stage, stage, stage_bytes(t->f, t->width));
  ptx_line(p, "setp.ge.s64 %s, %s, %s", is, stage, end);
  ptx_line(p, "selp.b64 %s, %s, %s, %s", stage, t->base, stage, is);
}

/* What is in the stage `out`, whose first portion is in t->v[0]; then the first portion of the next one is. So many portions are
 * written out, which go round: the compiler takes as long as there are instructions. */
static void multiply_stage(struct printer *p, const struct float_tile *t, const char *out, const char *end,
                           const char *const at[2]) {
  const char *again = ptx_label(p, "portions"), *more = ptx_label(p, "more"), *left = word(p), *is = ptx_own(p, OWN_PRED);
  int a_round = t->by_dmma ? 4 : PORTIONS, rounds = t->f->steps / t->portion / a_round; /* a_round: an even number */
  ptx_line(p, "mov.u32 %s, %d", left, rounds);
  if (rounds > 1) ptx_place_loop(p, again);
  for (int i = 0; i < a_round; i++) {
    if (i + 1 < a_round) load_portion(p, t, at, (i + 1) * t->portion, (i + 1) % 2);
    else {
      if (rounds > 1) {
        for (int side = 0; side < 2; side++)
          ptx_line(p, "add.s64 %s, %s, %d", at[side], at[side], offset_of(t, side, 0, a_round * t->portion));
        ptx_line(p, "sub.u32 %s, %s, 1", left, left);
        ptx_line(p, "setp.ne.u32 %s, %s, 0", is, left);
        ptx_line(p, "@%s bra %s", is, more);
      }
      next_stage(p, t, out, end);
      find_stage(p, t, out, at);
      ptx_line(p, "cp.async.wait_group %d", t->f->stages - 2);
      ptx_line(p, "bar.sync 0"); /* the next stage has come for all, and all have read this one, whose place is the next to fill */
      ptx_place(p, more);
      load_portion(p, t, at, 0, 0);
    }
    if (t->by_dmma) multiply_four(p, t, i % 2);
    else multiply_step(p, t, i % 2);
  }
  if (rounds > 1) ptx_line(p, "@%s bra %s", is, again);
}

/* In every turn a stage is enqueued and one multiplied; but in the first ones, until there are as many as have room. */
static void sums(struct printer *p, const struct float_tile *t) {
  const char *in = longword(p), *out = longword(p), *end = longword(p), *k0 = longword(p), *k1 = longword(p), *low = longword(p),
             *most = longword(p), *at[2] = { longword(p), longword(p) }, *is = ptx_own(p, OWN_PRED),
             *is_last = ptx_own(p, OWN_PRED), *begin = ptx_label(p, "begin"), *again = ptx_label(p, "steps"),
             *go_on = ptx_label(p, "on"), *leave = ptx_label(p, "leave");
  ptx_line(p, "mov.s64 %s, %s", in, t->base);
  ptx_line(p, "mov.s64 %s, %s", out, t->base);
  ptx_line(p, "add.s64 %s, %s, %d", end, t->base, t->f->stages * stage_bytes(t->f, t->width));
  ptx_line(p, "mov.s64 %s, 0", k0);
  ptx_line(p, "mov.s64 %s, 0", k1);
  ptx_line(p, "mov.s64 %s, %d", most, t->f->stages * t->f->steps);
  ptx_place_loop(p, begin);
  for (int e = 0; e < t->n; e++) ptx_mov(p, t->d, t->acc[e], ptx_number(p, t->d, 0));
  ptx_line(p, "setp.ge.s64 %s, %s, %s", is, k1, t->k);
  ptx_line(p, "@%s bra %s", is, leave);
  ptx_place_loop(p, again);
  enqueue(p, t, in, k0);
  next_stage(p, t, in, end);
  ptx_line(p, "setp.lt.s64 %s, %s, %s", is, k0, most);
  ptx_line(p, "@%s bra %s", is, again);
  ptx_line(p, "add.s64 %s, %s, %d", most, most, t->f->steps);
  ptx_line(p, "setp.ne.s64 %s, %s, 0", is, k1);
  ptx_line(p, "@%s bra %s", is, go_on);
  ptx_line(p, "cp.async.wait_group %d", t->f->stages - 1);
  ptx_line(p, "bar.sync 0");
  find_stage(p, t, out, at);
  load_portion(p, t, at, 0, 0);
  ptx_place(p, go_on);
  fill_last(p, t, out, k1, at);
  multiply_stage(p, t, out, end, at);
  ptx_line(p, "add.s64 %s, %s, %d", k1, k1, t->f->steps);
  ptx_line(p, "setp.ge.s64 %s, %s, %s", is_last, k1, t->k);
  ptx_line(p, "and.b64 %s, %s, %d", low, k1, BLOCK - 1);
  ptx_line(p, "setp.eq.or.s64 %s, %s, 0, %s", is, low, is_last);
  ptx_line(p, "@!%s bra %s", is, again);
  ptx_line(p, "setp.le.s64 %s, %s, %d", is, k1, BLOCK);
  add_totals(p, t, is);
  ptx_line(p, "@%s bra %s", is_last, leave);
  for (int e = 0; e < t->n; e++) ptx_line(p, "st.local.%s [%s+%d], %s", ptx_bits(t->d), t->totals, e * t->width, t->acc[e]);
  ptx_line(p, "bra %s", begin);
  ptx_place(p, leave);
  ptx_line(p, "cp.async.wait_group 0");
  ptx_line(p, "bar.sync 0"); /* all are done with the stages: results take their place */
  put_results(p, t);
  ptx_line(p, "bar.sync 0");
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

/* Where a lane stands in its warp, down and across: in turns, so that neighbours share what they read. */
static void find_lane(struct printer *p, const struct float_tile *t, const char *const at[2]) {
  const char *bit = word(p);
  if (t->by_dmma) {
    ptx_line(p, "shr.u32 %s, %s, 2", at[0], t->lane);
    ptx_line(p, "and.b32 %s, %s, 3", at[1], t->lane);
    return;
  }
  for (int side = 0; side < 2; side++) { /* across: bits 0, 2 and 4; down: 1 and 3 */
    ptx_line(p, "mov.u32 %s, 0", at[side]);
    for (int i = 0; i < (side ? 3 : 2); i++) {
      ptx_line(p, "shr.u32 %s, %s, %d", bit, t->lane, i + !side);
      ptx_line(p, "and.b32 %s, %s, %d", bit, bit, 1 << i);
      ptx_line(p, "or.b32 %s, %s, %s", at[side], at[side], bit);
    }
  }
}

/* Which elements of the tile are this thread's: where it reads operands, and where its first result stands. */
static void find_own(struct printer *p, struct float_tile *t) {
  const struct floats_form *f = t->f;
  int lanes_across = t->by_dmma ? 4 : LANES_ACROSS, a_warp[2] = { f->down * (32 / lanes_across), f->across * lanes_across };
  const char *warp = word(p), *lane[2] = { word(p), word(p) }, *first[2] = { word(p), word(p) }, *at = word(p);
  ptx_line(p, "shr.u32 %s, %s, 5", warp, t->tid);
  ptx_line(p, "shr.u32 %s, %s, %d", first[0], warp, ptx_log_2(f->columns / a_warp[1]));
  ptx_line(p, "and.b32 %s, %s, %d", first[1], warp, f->columns / a_warp[1] - 1);
  find_lane(p, t, lane);
  for (int side = 0; side < 2; side++) {
    struct float_operand *o = &t->operand[side];
    const char *element = word(p);
    int apart = t->by_dmma ? 1 : together(t, side);
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
  struct ptx_results results = { t->x, t->d, t->f->rows, t->f->columns, result_pitch(t->f), threads_of(t->f), t->tid, t->base,
                                 t->row0, t->column0, t->rows, t->columns };
  ptx_finish_tile(p, &results);
  ptx_line(p, "bar.sync 0");
}

void ptx_floats(struct printer *p, int form) {
  const struct survey_product *x = &p->survey.product;
  weft_dtype d = (weft_dtype)p->k->bufs[x->a->buf].dtype;
  const struct floats_form *f = form_of(d, form);
  struct float_tile t = { .x = x, .f = f, .d = d, .width = kir_width(d), .n = f->down * f->across, .by_dmma = d == WEFT_F64,
                          .by_sixteen = p->plan->capability >= 90, .portion = d == WEFT_F64 ? 4 : 1,
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
                                 .side = i ? f->columns : f->rows };
    o->along_k = lies_along_k(p, o->load, x->step);
    o->is_turned = o->along_k && d == WEFT_F32;
    o->chunk = o->is_turned ? 1 : 16 / t.width;
    o->pitch = (in_rows_of_k(o) ? f->steps : o->side) + MORE;
    if (i) o->at = (in_rows_of_k(&t.operand[0]) ? f->rows : f->steps) * t.operand[0].pitch * t.width;
  }
  find_own(p, &t);
  for (int e = 0; e < t.n; e++) t.acc[e] = ptx_own_of(p, d);
  for (int e = 0; e < 64; e++) t.v[e / 32][e / 16 % 2][e % 16] = ptx_own_of(p, d);
  ptx_along_batch(p, x, one_tile, &t);
}

/* ---- Launching ------------------------------------------------------------------------------------------------------------ */

/* What a step of k takes: the tiles of that processor which has most, and half a tile more, as few warps wait for each other. Of
 * 64 x 128 and 64 x 64, f32, the larger is faster from 1.5 tiles a processor on (measured on an H200), as it is by this. */
static double cost_of(const struct floats_form *f, double tiles, const struct ptx_machine *m) {
  return f->cost * (ceil(tiles / m->n_processors) + 0.5);
}

bool ptx_floats_shape(const struct ptx_plan *p, const struct ptx_machine *m, const int64_t sizes[], const uint64_t args[],
                      struct ptx_shape *s) {
  if (!p->floats[0] || !s->is_product) return false;
  int64_t rows = ptx_size(&p->product_rows, sizes, args), columns = ptx_size(&p->product_columns, sizes, args);
  double least = 0;
  for (int form = 0; form < PTX_FLOATS && p->floats[form]; form++) {
    const struct floats_form *f = form_of(p->floats_dtype, form);
    int64_t tiles = ptx_parts(rows, f->rows) * ptx_parts(columns, f->columns);
    double cost = tiles <= INT32_MAX ? cost_of(f, (double)tiles * s->grid[2], m) : INFINITY;
    if (cost == INFINITY || (s->is_floats && cost >= least)) continue;
    least = cost, s->floats_form = form, s->is_floats = true;
    s->block[0] = (unsigned)threads_of(f);
    s->grid[0] = (unsigned)tiles, s->grid[1] = 1;
    s->shared_bytes = shared_of(f, kir_width(p->floats_dtype));
  }
  return s->is_floats;
}
