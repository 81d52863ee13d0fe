/* gpu_thin.c -- products of few rows, as of a vector: a thread has a column of some of them, and goes along k.
 *
 * [m,k] x [k,n], m below a tile's: tiles would mostly multiply what is not there, and what counts is that b comes once, and
 * fast. Rows of a stand in shared memory, a block of 512 steps at a time, where all threads read the same ones. Where the steps
 * of b are neighbours in memory a thread asks for a chunk of them, 16 bytes at a time, before it multiplies the chunk before:
 * the threads of a warp read far apart then, and find the rest of each line in the first cache. Else a chunk of b is a stage in
 * shared memory, of which three are on their way while one is multiplied: columns that are neighbours come by 16 bytes, others
 * one by one. Sums are those of the text: fma in the order of k, blocks of 512 from 0, which are added in order. */
#include "backend/cuda/gpu_wide.h"
#include "base/least.h"

/* MOST_CHUNK: registers of a chunk; STAGED: elements of a that a thread asks for at once */
enum { BLOCK = KIR_PRODUCT_BLOCK, MOST_ROWS = 8, MOST_CHUNK = 64, STAGED = 8, STAGES = 4, STAGE_BYTES = 8 << 10, PIECE = 16,
       MOST_TOGETHER = 16 };

/* Rows and threads of a block; words of b that are asked for at a time where steps are neighbours. */
struct thin_form { int rows, threads, words; };
static const struct thin_form forms[PTX_THINS] = { { 1, 64, 32 }, { 4, 64, 16 }, { 8, 128, 8 } };

/* ---- Which kernels -------------------------------------------------------------------------------------------------------- */

static bool is_loadable(weft_dtype d) {
  return d == WEFT_F16 || d == WEFT_BF16 || d == WEFT_F32 || d == WEFT_F64 || d == WEFT_I32 || d == WEFT_I64;
}

/* Steps of k are neighbours in memory. */
static bool lies_along_k(const struct shape_class *shape, const struct survey_product *x) {
  for (int d = 0; d < x->b->n_at; d++)
    if (ptx_is_only(x->b->at[d], x->step) && shape->stride[x->b->buf][d] == STRIDE_1) return true;
  return false;
}

bool ptx_has_thin(const struct survey *s, const struct shape_class *shape, int form, struct ptx_plan *plan) {
  const struct survey_product *x = &s->product;
  if (!x->is_there && !(plan->is_of_vector && !form)) return false;
  weft_dtype a = (weft_dtype)s->k->bufs[x->a->buf].dtype, b = (weft_dtype)s->k->bufs[x->b->buf].dtype,
             sums = (weft_dtype)s->k->vals[x->total].dtype;
  plan->thin_width = kir_width(sums), plan->thin_is_staged = !lies_along_k(shape, x);
  return is_loadable(a) && is_loadable(b) && kir_register_of(a) == sums && kir_register_of(b) == sums;
}

/* ---- Registers ------------------------------------------------------------------------------------------------------------- */

struct thin {
  const struct survey_product *x;
  const struct thin_form *f;
  weft_dtype d, from;              /* of the sums; of b in memory */
  bool along_k;                    /* steps of b are neighbours in memory */
  int chunk;                       /* steps that are asked for at a time */
  const char *tid, *base, *k, *row0, *column0, *column;
  const char *at, *step_bytes;     /* of b: the next step that is asked for */
  const char *is_aligned;          /* chunks of this thread's column, or its pieces of stages, begin with whole 16 bytes */
  const char *piece, *piece_bytes, *piece_step; /* of a stage: what this thread copies, its bytes inside the matrix, its step */
  const char *stages, *in, *out;   /* where they begin, where the next goes to, and stands that is multiplied */
  const char *ahead;               /* steps that were not asked for */
  const char *f_at;                /* of a: where the next step that is multiplied stands */
  const char *acc[MOST_ROWS], *total[MOST_ROWS];
  const char *raw[2][MOST_CHUNK];  /* what was asked for, as it stands in memory */
};

static int stage_row(const struct thin *t) { return t->f->threads * kir_width(t->from); } /* bytes of a step in a stage */
static int pieces(const struct thin *t) { return stage_row(t) / PIECE; }
static int row_bytes(const struct thin *t) { return BLOCK * kir_width(t->d); }
static int a_word(const struct thin *t) { return t->along_k && kir_width(t->from) == 2 ? 2 : 1; } /* steps of a register of raw */

/* Step i of a chunk as a number. */
static const char *taken(struct printer *p, const struct thin *t, const char *const raw[], int i) {
  const char *r = ptx_own_of(p, t->d), *w = raw[i / a_word(t)];
  if (kir_width(t->from) < 4) ptx_unpack(p, t->from, r, w, i % a_word(t), true);
  else ptx_line(p, "mov.b%d %s, %s", 8 * kir_width(t->from), r, w);
  return r;
}

/* ---- Memory ---------------------------------------------------------------------------------------------------------------- */

/* Words of neighbours in memory that are not aligned, element by element. */
static void ask_by_elements(struct printer *p, const struct thin *t, int words, const char *const raw[]) {
  int bytes = kir_width(t->from) == 8 ? 8 : 4;
  for (int i = 0; i < words; i++) {
    if (a_word(t) == 1) { ptx_line(p, "ld.global.nc.b%d %s, [%s+%d]", 8 * bytes, raw[i], t->at, i * bytes); continue; }
    const char *high = ptx_word(p);
    ptx_line(p, "ld.global.nc.u16 %s, [%s+%d]", raw[i], t->at, i * bytes);
    ptx_line(p, "ld.global.nc.u16 %s, [%s+%d]", high, t->at, i * bytes + 2);
    ptx_line(p, "shl.b32 %s, %s, 16", high, high);
    ptx_line(p, "or.b32 %s, %s, %s", raw[i], raw[i], high);
  }
}

/* The next chunk of b along k; where it ends the thread is behind it. */
static void ask(struct printer *p, const struct thin *t, const char *const raw[]) {
  int words = t->chunk / a_word(t), width = kir_width(t->from);
  const char *slow = ptx_label(p, "apart"), *done = ptx_label(p, "asked");
  ptx_line(p, "@!%s bra %s", t->is_aligned, slow);
  ptx_access_pieces(p, true, ".global.nc", t->at, words, width == 8 ? 8 : 4, raw);
  ptx_line(p, "bra %s", done);
  ptx_place(p, slow);
  ask_by_elements(p, t, words, raw);
  ptx_place(p, done);
  ptx_line(p, "add.s64 %s, %s, %d", t->at, t->at, t->chunk * width);
}

static void next_stage(struct printer *p, const struct thin *t, const char *stage) {
  const char *end = ptx_long(p), *is = ptx_pred(p);
  ptx_line(p, "add.s64 %s, %s, %d", stage, stage, STAGE_BYTES);
  ptx_line(p, "add.s64 %s, %s, %d", end, t->stages, STAGES * STAGE_BYTES);
  ptx_line(p, "setp.ge.s64 %s, %s, %s", is, stage, end);
  ptx_line(p, "selp.b64 %s, %s, %s, %s", stage, t->stages, stage, is);
}

/* What is beyond the last step is neither read nor multiplied, what is beyond the last column is 0. */
static void copy_pieces(struct printer *p, const struct thin *t, const char *to) {
  int a_pass = t->f->threads / pieces(t);
  const char *is = ptx_pred(p), *step = ptx_long(p), *size = ptx_word(p), *from = ptx_long(p), *far = ptx_long(p);
  ptx_line(p, "mov.s64 %s, %s", from, t->piece);
  ptx_line(p, "mul.lo.s64 %s, %s, %d", far, t->step_bytes, a_pass);
  for (int i = 0; i < t->chunk / a_pass; i++) {
    ptx_line(p, "add.s64 %s, %s, %d", step, t->piece_step, i * a_pass);
    ptx_line(p, "setp.lt.s64 %s, %s, %s", is, step, t->ahead);
    ptx_line(p, "selp.b32 %s, %s, 0, %s", size, t->piece_bytes, is);
    ptx_line(p, "cp.async.cg.shared.global [%s+%d], [%s], %d, %s", to, i * t->f->threads * PIECE, from, PIECE, size);
    ptx_line(p, "add.s64 %s, %s, %s", from, from, far);
  }
}

/* Some at a time, else most of the text would be this. Elements of 2 bytes are loaded and stored, as no copy is of so few. */
static void copy_elements(struct printer *p, const struct thin *t, const char *to) {
  const char *is = ptx_pred(p), *size = ptx_word(p), *from = ptx_long(p), *left = ptx_long(p), *end = ptx_long(p),
             *again = ptx_label(p, "elements");
  int width = kir_width(t->from), together = (int)least(t->chunk, MOST_TOGETHER);
  ptx_line(p, "mov.s64 %s, %s", from, t->at);
  ptx_line(p, "mov.s64 %s, %s", left, t->ahead);
  ptx_line(p, "add.s64 %s, %s, %d", end, to, STAGE_BYTES);
  ptx_place_loop(p, again);
  for (int i = 0; i < together; i++) {
    ptx_line(p, "setp.gt.s64 %s, %s, %d", is, left, i);
    if (width == 2) ptx_line(p, "@%s ld.global.nc.u16 %s, [%s]", is, t->raw[0][i], from);
    else {
      ptx_line(p, "selp.b32 %s, %d, 0, %s", size, width, is);
      ptx_line(p, "cp.async.ca.shared.global [%s+%d], [%s], %d, %s", to, i * stage_row(t), from, width, size);
    }
    ptx_line(p, "add.s64 %s, %s, %s", from, from, t->step_bytes);
  }
  for (int i = 0; i < together && width == 2; i++) ptx_line(p, "st.shared.u16 [%s+%d], %s", to, i * stage_row(t), t->raw[0][i]);
  ptx_line(p, "sub.s64 %s, %s, %d", left, left, together);
  ptx_line(p, "add.s64 %s, %s, %d", to, to, together * stage_row(t));
  ptx_line(p, "setp.lt.s64 %s, %s, %s", is, to, end);
  ptx_line(p, "@%s bra %s", is, again);
}

/* The next stage of b, on its way. */
static void enqueue(struct printer *p, const struct thin *t) {
  const char *slow = ptx_label(p, "apart"), *done = ptx_label(p, "asked"), *to = ptx_long(p), *far = ptx_long(p);
  ptx_line(p, "@!%s bra %s", t->is_aligned, slow);
  ptx_line(p, "mad.wide.u32 %s, %s, %d, %s", to, t->tid, PIECE, t->in);
  copy_pieces(p, t, to);
  ptx_line(p, "bra %s", done);
  ptx_place(p, slow);
  ptx_line(p, "mad.wide.u32 %s, %s, %d, %s", to, t->tid, kir_width(t->from), t->in);
  copy_elements(p, t, to);
  ptx_place(p, done);
  ptx_line(p, "cp.async.commit_group");
  ptx_line(p, "mul.lo.s64 %s, %s, %d", far, t->step_bytes, t->chunk);
  ptx_line(p, "add.s64 %s, %s, %s", t->piece, t->piece, far);
  ptx_line(p, "add.s64 %s, %s, %s", t->at, t->at, far);
  ptx_line(p, "sub.s64 %s, %s, %d", t->ahead, t->ahead, t->chunk);
  next_stage(p, t, t->in);
}

/* Element e of the rows of a in a block of steps: [row, step], whatever thread asks. Rows beyond the matrix are its last one. */
static const char *staged_from(struct printer *p, const struct thin *t, const char *e, const char *k0) {
  const struct survey_product *x = t->x;
  const char *wide = ptx_long(p), *w = ptx_word(p), *row = ptx_long(p), *step = ptx_long(p), *last = ptx_long(p);
  if (x->row) {
    ptx_line(p, "shr.u32 %s, %s, %d", w, e, ptx_log_2(BLOCK));
    ptx_line(p, "cvt.u64.u32 %s, %s", wide, w);
    ptx_line(p, "add.s64 %s, %s, %s", row, t->row0, wide);
    ptx_line(p, "sub.s64 %s, %s, 1", last, ptx_lin(p, x->row->at[0]));
    ptx_line(p, "min.s64 %s, %s, %s", row, row, last);
  }
  ptx_line(p, "and.b32 %s, %s, %d", w, e, BLOCK - 1);
  ptx_line(p, "cvt.u64.u32 %s, %s", wide, w);
  ptx_line(p, "add.s64 %s, %s, %s", step, k0, wide);
  ptx_line(p, "sub.s64 %s, %s, 1", last, t->k);
  ptx_line(p, "min.s64 %s, %s, %s", step, step, last);
  return ptx_product_address(p, x, x->a, x->row, row, step);
}

/* Steps k0 .. of the rows of a, to shared memory; beyond the last step they are the last one, which nobody multiplies. */
static void stage(struct printer *p, const struct thin *t, const char *k0) {
  const char *e = ptx_word(p), *one = ptx_word(p), *at = ptx_long(p), *is = ptx_pred(p), *again = ptx_label(p, "stage"), *v[STAGED];
  weft_dtype from = (weft_dtype)p->k->bufs[t->x->a->buf].dtype;
  ptx_line(p, "mov.u32 %s, %s", e, t->tid);
  ptx_place_loop(p, again);
  for (int i = 0; i < STAGED; i++) {
    ptx_line(p, "add.u32 %s, %s, %d", one, e, i * t->f->threads);
    ptx_load(p, ".global.nc", from, v[i] = ptx_own_of(p, t->d), staged_from(p, t, one, k0));
  }
  ptx_line(p, "mad.wide.u32 %s, %s, %d, %s", at, e, kir_width(t->d), t->base);
  for (int i = 0; i < STAGED; i++)
    ptx_line(p, "st.shared.%s [%s+%d], %s", ptx_bits(t->d), at, i * t->f->threads * kir_width(t->d), v[i]);
  ptx_line(p, "add.u32 %s, %s, %d", e, e, STAGED * t->f->threads);
  ptx_line(p, "setp.lt.u32 %s, %s, %d", is, e, t->f->rows * BLOCK);
  ptx_line(p, "@%s bra %s", is, again);
}

/* ---- Multiplying ------------------------------------------------------------------------------------------------------------ */

static void multiply(struct printer *p, const struct thin *t, int row, const char *a, const char *b) {
  const char *u = t->acc[row], *product;
  if (kir_is_float(t->d)) { ptx_instruction(p, KIR_FMA, t->d, u, (const char *[]){ a, b, u }); return; }
  ptx_instruction(p, KIR_MUL, t->d, product = ptx_own_of(p, t->d), (const char *[]){ a, b });
  ptx_instruction(p, KIR_ADD, t->d, u, (const char *[]){ u, product });
}

/* Step i of the stage that stands at b_at, which is moved to this thread's column. */
static const char *from_stage(struct printer *p, const struct thin *t, const char *b_at, int i) {
  const char *r = ptx_own_of(p, t->d);
  ptx_load(p, ".shared", t->from, r, ptx_textf(p, "%s+%d", b_at, i * stage_row(t)));
  return r;
}

/* A chunk, from where f_at is on, and f_at behind it; b is in registers, or at b_at in shared memory. */
static void multiply_chunk(struct printer *p, const struct thin *t, const char *const raw[], const char *b_at) {
  int width = kir_width(t->d), together = 16 / width;
  const char *a[4], *b[4];
  for (int i = 0; i < t->chunk; i += together) {
    for (int j = 0; j < together; j++) {
      b[j] = b_at ? from_stage(p, t, b_at, i + j) : taken(p, t, raw, i + j);
      a[j] = ptx_own_of(p, t->d);
    }
    for (int r = 0; r < t->f->rows; r++) {
      int offset = r * row_bytes(t) + i * width;
      const char *all = together == 4 ? ptx_textf(p, "v4.b32 {%s, %s, %s, %s}", a[0], a[1], a[2], a[3])
                                      : ptx_textf(p, "v2.b64 {%s, %s}", a[0], a[1]);
      ptx_line(p, "ld.shared.%s, [%s+%d]", all, t->f_at, offset);
      for (int j = 0; j < together; j++) multiply(p, t, r, a[j], b[j]);
    }
  }
  ptx_line(p, "add.s64 %s, %s, %d", t->f_at, t->f_at, t->chunk * width);
}

/* One step, of those that are no chunk. */
static void multiply_one(struct printer *p, const struct thin *t, const char *b_at) {
  const char *a = ptx_own_of(p, t->d), *one = ptx_own_of(p, t->d);
  ptx_load(p, b_at ? ".shared" : ".global.nc", t->from, one, b_at ? b_at : t->at);
  if (b_at) ptx_line(p, "add.s64 %s, %s, %d", b_at, b_at, stage_row(t));
  else ptx_line(p, "add.s64 %s, %s, %s", t->at, t->at, t->step_bytes);
  for (int r = 0; r < t->f->rows; r++) {
    ptx_line(p, "ld.shared.%s %s, [%s+%d]", ptx_bits(t->d), a, t->f_at, r * row_bytes(t));
    multiply(p, t, r, a, one);
  }
  ptx_line(p, "add.s64 %s, %s, %d", t->f_at, t->f_at, kir_width(t->d));
}

/* The chunks of a block, of which the first was asked for; left: steps of the block. */
static void chunks(struct printer *p, const struct thin *t, const char *left) {
  const char *again = ptx_label(p, "chunks"), *leave = ptx_label(p, "no_chunk"), *is = ptx_pred(p);
  ptx_line(p, "setp.lt.s32 %s, %s, %d", is, left, t->chunk);
  ptx_line(p, "@%s bra %s", is, leave);
  ptx_place_loop(p, again);
  for (int turn = 0; turn < 2; turn++) {
    const char *last = ptx_label(p, "last");
    ptx_line(p, "sub.s32 %s, %s, %d", left, left, t->chunk);
    ptx_line(p, "setp.lt.s32 %s, %s, %d", is, left, t->chunk);
    ptx_line(p, "@%s bra %s", is, last);
    ask(p, t, t->raw[!turn]);
    ptx_place(p, last);
    multiply_chunk(p, t, t->raw[turn], NULL);
    ptx_line(p, "@%s bra %s", is, leave);
  }
  ptx_line(p, "bra %s", again);
  ptx_place(p, leave);
}

static void rest(struct printer *p, const struct thin *t, const char *left, const char *b_at) {
  const char *again = ptx_label(p, "one"), *leave = ptx_label(p, "none"), *is = ptx_pred(p);
  ptx_place_loop(p, again);
  ptx_line(p, "setp.lt.s32 %s, %s, 1", is, left);
  ptx_line(p, "@%s bra %s", is, leave);
  multiply_one(p, t, b_at);
  ptx_line(p, "sub.s32 %s, %s, 1", left, left);
  ptx_line(p, "bra %s", again);
  ptx_place(p, leave);
}

/* The stages of a block of steps, of which `left` are left. A stage that was multiplied by all is the next to fill. */
static void stages(struct printer *p, const struct thin *t, const char *left) {
  const char *again = ptx_label(p, "stages"), *leave = ptx_label(p, "no_stage"), *few = ptx_label(p, "part"), *is = ptx_pred(p),
             *b_at = ptx_long(p);
  ptx_place_loop(p, again);
  ptx_line(p, "setp.lt.s32 %s, %s, 1", is, left);
  ptx_line(p, "@%s bra %s", is, leave);
  ptx_line(p, "cp.async.wait_group %d", STAGES - 2);
  ptx_line(p, "bar.sync 0");
  enqueue(p, t);
  ptx_line(p, "mad.wide.u32 %s, %s, %d, %s", b_at, t->tid, kir_width(t->from), t->out);
  next_stage(p, t, t->out);
  ptx_line(p, "setp.lt.s32 %s, %s, %d", is, left, t->chunk);
  ptx_line(p, "@%s bra %s", is, few);
  multiply_chunk(p, t, NULL, b_at);
  ptx_line(p, "sub.s32 %s, %s, %d", left, left, t->chunk);
  ptx_line(p, "bra %s", again);
  ptx_place(p, few);
  rest(p, t, left, b_at);
  ptx_place(p, leave);
}

/* As many stages of the matrix as are on their way at a time. */
static void begin_stages(struct printer *p, const struct thin *t) {
  const char *is = ptx_pred(p), *last = ptx_long(p), *again = ptx_label(p, "begin");
  ptx_line(p, "mov.s64 %s, %s", t->in, t->stages);
  ptx_line(p, "mov.s64 %s, %s", t->out, t->stages);
  ptx_line(p, "mov.s64 %s, %s", t->ahead, t->k);
  ptx_line(p, "add.s64 %s, %s, %d", last, t->stages, (STAGES - 1) * STAGE_BYTES);
  ptx_line(p, "bar.sync 0"); /* the matrix before was read by all */
  ptx_place_loop(p, again);
  enqueue(p, t);
  ptx_line(p, "setp.lt.s64 %s, %s, %s", is, t->in, last);
  ptx_line(p, "@%s bra %s", is, again);
}

/* total = is_first ? sum : total + sum */
static void add_totals(struct printer *p, const struct thin *t, const char *is_first) {
  for (int r = 0; r < t->f->rows; r++) {
    const char *both = ptx_own_of(p, t->d);
    ptx_instruction(p, KIR_ADD, t->d, both, (const char *[]){ t->total[r], t->acc[r] });
    ptx_line(p, "selp.%s %s, %s, %s, %s", ptx_bits(t->d), t->total[r], t->acc[r], both, is_first);
  }
}

static void sums(struct printer *p, const struct thin *t) {
  const char *k0 = ptx_long(p), *steps = ptx_long(p), *left = ptx_word(p), *is = ptx_pred(p), *is_first = ptx_pred(p),
             *again = ptx_label(p, "block"), *leave = ptx_label(p, "leave"), *few = ptx_label(p, "few");
  for (int r = 0; r < t->f->rows; r++) ptx_mov(p, t->d, t->total[r], ptx_number(p, t->d, 0));
  ptx_line(p, "mov.s64 %s, 0", k0);
  if (!t->along_k) begin_stages(p, t);
  ptx_place_loop(p, again);
  ptx_line(p, "setp.ge.s64 %s, %s, %s", is, k0, t->k);
  ptx_line(p, "@%s bra %s", is, leave);
  ptx_line(p, "sub.s64 %s, %s, %s", steps, t->k, k0);
  ptx_line(p, "min.s64 %s, %s, %d", steps, steps, BLOCK);
  ptx_line(p, "cvt.u32.u64 %s, %s", left, steps);
  if (t->along_k) {
    ptx_line(p, "setp.lt.s32 %s, %s, %d", is, left, t->chunk);
    ptx_line(p, "@%s bra %s", is, few);
    ask(p, t, t->raw[0]);
    ptx_place(p, few);
  }
  ptx_line(p, "bar.sync 0"); /* the block before was read by all */
  stage(p, t, k0);
  ptx_line(p, "bar.sync 0");
  ptx_line(p, "mov.s64 %s, %s", t->f_at, t->base);
  for (int r = 0; r < t->f->rows; r++) ptx_mov(p, t->d, t->acc[r], ptx_number(p, t->d, 0));
  if (t->along_k) chunks(p, t, left), rest(p, t, left, NULL);
  else stages(p, t, left);
  ptx_line(p, "setp.eq.s64 %s, %s, 0", is_first, k0);
  add_totals(p, t, is_first);
  ptx_line(p, "add.s64 %s, %s, %d", k0, k0, BLOCK);
  ptx_line(p, "bra %s", again);
  ptx_place(p, leave);
  if (!t->along_k) ptx_line(p, "cp.async.wait_group 0");
}

/* ---- The entry -------------------------------------------------------------------------------------------------------------- */

/* Of every row that is of the matrix, one after the other, from local memory: what follows is printed once. */
static void finish(struct printer *p, const struct thin *t) {
  const struct survey_product *x = t->x;
  const char *r = ptx_word(p), *wide = ptx_long(p), *at = ptx_long(p), *is = ptx_pred(p), *again = ptx_label(p, "row"),
             *next = ptx_label(p, "next"), *column = ptx_val(p, x->lane->var);
  ptx_line(p, "mov.u64 %s, stack", at);
  for (int i = 0; i < t->f->rows; i++) ptx_line(p, "st.local.%s [%s+%d], %s", ptx_bits(t->d), at, i * 8, t->total[i]);
  ptx_line(p, "mov.u32 %s, 0", r);
  ptx_place_loop(p, again);
  ptx_line(p, "mov.s64 %s, %s", column, t->column);
  ptx_line(p, "setp.lt.s64 %s, %s, %s", is, column, ptx_lin(p, x->lane->at[0]));
  if (x->row) {
    const char *row = ptx_val(p, x->row->var);
    ptx_line(p, "cvt.u64.u32 %s, %s", wide, r);
    ptx_line(p, "add.s64 %s, %s, %s", row, t->row0, wide);
    ptx_line(p, "setp.lt.and.s64 %s, %s, %s, %s", is, row, ptx_lin(p, x->row->at[0]), is);
  }
  ptx_line(p, "@!%s bra %s", is, next);
  ptx_line(p, "mov.u64 %s, stack", at);
  ptx_line(p, "mad.wide.u32 %s, %s, 8, %s", at, r, at);
  ptx_line(p, "ld.local.%s %s, [%s]", ptx_bits(t->d), ptx_val(p, x->total), at);
  ptx_finish_product(p, x, (struct where){ .lane = x->lane, .rest = next });
  ptx_place(p, next);
  ptx_line(p, "add.u32 %s, %s, 1", r, r);
  ptx_line(p, "setp.lt.u32 %s, %s, %d", is, r, t->f->rows);
  ptx_line(p, "@%s bra %s", is, again);
}

/* Of stages: which piece this thread copies, and whether pieces are 16 bytes of neighbours, in every step. */
static void plan_pieces(struct printer *p, const struct thin *t) {
  const struct survey_product *x = t->x;
  const char *w = ptx_word(p), *column = ptx_long(p), *next = ptx_long(p), *bits = ptx_long(p), *bytes = ptx_long(p);
  int width = kir_width(t->from);
  ptx_line(p, "and.b32 %s, %s, %d", w, t->tid, pieces(t) - 1);
  ptx_line(p, "mul.wide.u32 %s, %s, %d", column, w, PIECE / width);
  ptx_line(p, "add.s64 %s, %s, %s", column, column, t->column0);
  ptx_line(p, "add.s64 %s, %s, 1", next, column);
  const char *first = ptx_product_address(p, x, x->b, x->lane, column, "0");
  ptx_line(p, "mov.s64 %s, %s", t->piece, first);
  ptx_line(p, "sub.s64 %s, %s, %s", next, ptx_product_address(p, x, x->b, x->lane, next, "0"), first);
  ptx_line(p, "or.b64 %s, %s, %s", bits, first, t->step_bytes);
  ptx_line(p, "and.b64 %s, %s, %d", bits, bits, PIECE - 1);
  ptx_line(p, "setp.eq.s64 %s, %s, 0", t->is_aligned, bits);
  ptx_line(p, "setp.eq.and.s64 %s, %s, %d, %s", t->is_aligned, next, width, t->is_aligned);
  ptx_line(p, "sub.s64 %s, %s, %s", bytes, ptx_lin(p, x->lane->at[0]), column);
  ptx_line(p, "max.s64 %s, %s, 0", bytes, bytes);
  ptx_line(p, "min.s64 %s, %s, %d", bytes, bytes, PIECE / width);
  ptx_line(p, "mul.lo.s64 %s, %s, %d", bytes, bytes, width);
  ptx_line(p, "cvt.u32.u64 %s, %s", t->piece_bytes, bytes);
  ptx_line(p, "shr.u32 %s, %s, %d", w, t->tid, ptx_log_2(pieces(t)));
  ptx_line(p, "cvt.u64.u32 %s, %s", t->piece_step, w);
  ptx_line(p, "mad.lo.s64 %s, %s, %s, %s", t->piece, t->piece_step, t->step_bytes, t->piece);
}

/* Columns beyond the matrix read the last one. */
static void one_matrix(struct printer *p, void *of) {
  struct thin *t = of;
  const struct survey_product *x = t->x;
  const char *last = ptx_long(p), *column = ptx_long(p);
  ptx_line(p, "sub.s64 %s, %s, 1", last, ptx_lin(p, x->lane->at[0]));
  ptx_line(p, "min.s64 %s, %s, %s", column, t->column, last);
  const char *first = ptx_product_address(p, x, x->b, x->lane, column, "0");
  ptx_line(p, "sub.s64 %s, %s, %s", t->step_bytes, ptx_product_address(p, x, x->b, x->lane, column, "1"), first);
  ptx_line(p, "mov.s64 %s, %s", t->at, first);
  ptx_line(p, "and.b64 %s, %s, 15", last, first);
  ptx_line(p, "setp.eq.s64 %s, %s, 0", t->is_aligned, last);
  if (!t->along_k) plan_pieces(p, t);
  sums(p, t);
  finish(p, t);
}

void ptx_thin(struct printer *p, int form) {
  const struct survey_product *x = &p->survey.product;
  struct thin t = { .x = x, .f = &forms[form], .d = (weft_dtype)p->k->vals[x->total].dtype,
                    .from = (weft_dtype)p->k->bufs[x->b->buf].dtype, .along_k = lies_along_k(p->shape, x), .tid = ptx_word(p),
                    .base = ptx_long(p), .row0 = ptx_long(p), .column = ptx_long(p), .at = ptx_long(p), .step_bytes = ptx_long(p),
                    .f_at = ptx_long(p), .is_aligned = ptx_pred(p), .piece = ptx_long(p), .piece_bytes = ptx_word(p),
                    .piece_step = ptx_long(p), .column0 = ptx_long(p), .stages = ptx_long(p), .in = ptx_long(p), .out = ptx_long(p),
                    .ahead = ptx_long(p) };
  int width = kir_width(t.from);
  t.chunk = t.along_k ? t.f->words * 4 / width : STAGE_BYTES / stage_row(&t);
  p->threads = t.f->threads, p->stack_bytes = t.f->rows * 8;
  for (int r = 0; r < t.f->rows; r++) t.acc[r] = ptx_own_of(p, t.d), t.total[r] = ptx_own_of(p, t.d);
  for (int i = 0; i < t.chunk / a_word(&t); i++)
    for (int turn = 0; turn < 1 + t.along_k; turn++) t.raw[turn][i] = ptx_own(p, width == 8 ? OWN_LONG : OWN_WORD);
  const char *w = ptx_word(p);
  ptx_line(p, "mov.u32 %s, %%tid.x", t.tid);
  ptx_line(p, "mov.u64 %s, thin", t.base);
  ptx_line(p, "add.u64 %s, %s, %d", t.stages, t.base, t.f->rows * row_bytes(&t));
  ptx_line(p, "mov.u32 %s, %%ctaid.x", w);
  ptx_line(p, "mul.wide.u32 %s, %s, %d", t.column0, w, t.f->threads);
  ptx_line(p, "mad.lo.u32 %s, %s, %d, %s", w, w, t.f->threads, t.tid);
  ptx_line(p, "cvt.u64.u32 %s, %s", t.column, w);
  ptx_line(p, "mov.u32 %s, %%ctaid.y", w);
  ptx_line(p, "mul.wide.u32 %s, %s, %d", t.row0, w, t.f->rows);
  t.k = ptx_product_length(p, x);
  ptx_along_batch(p, x, one_matrix, &t);
}

/* ---- Launching -------------------------------------------------------------------------------------------------------------- */

enum { LEAST_COLUMNS = 4, LEAST_STEPS = 32 };
static const double LEAST_READ = 0x1p12; /* elements of b: less is read as soon by one thread for each result */

/* As many rows a thread as there are, as b is then read least; but fewer where that leaves processors without work. */
static int form_for(const struct ptx_machine *m, int64_t rows, int64_t columns, int64_t n) {
  int form = 0;
  while (forms[form].rows < least(rows, MOST_ROWS)) form++;
  while (form && ptx_parts(columns, forms[form].threads) * ptx_parts(rows, forms[form].rows) * n < m->n_processors) form--;
  return form;
}

bool ptx_thin_shape(const struct ptx_plan *p, const struct ptx_machine *m, const int64_t sizes[], const uint64_t args[],
                    struct ptx_shape *s) {
  if (!p->thin[0] || s->is_product) return false;
  int64_t rows = p->is_of_vector ? 1 : ptx_size(&p->product_rows, sizes, args), steps = ptx_steps(p, sizes, args),
          columns = ptx_size(&p->product_columns, sizes, args), n = ptx_matrices(p, sizes, args);
  if (rows < 1 || rows > 4 * MOST_ROWS || columns < LEAST_COLUMNS || columns > INT32_MAX || steps < LEAST_STEPS) return false;
  if ((double)n * (double)columns * (double)steps < LEAST_READ) return false;
  s->thin_form = form_for(m, rows, columns, n), s->is_thin = true;
  const struct thin_form *f = &forms[s->thin_form];
  s->block[0] = (unsigned)f->threads, s->block[1] = s->block[2] = 1;
  s->grid[0] = (unsigned)ptx_parts(columns, f->threads), s->grid[1] = (unsigned)ptx_parts(rows, f->rows), s->grid[2] = (unsigned)n;
  s->shared_bytes = (size_t)f->rows * BLOCK * (size_t)p->thin_width + (p->thin_is_staged ? STAGES * STAGE_BYTES : 0);
  return true;
}
