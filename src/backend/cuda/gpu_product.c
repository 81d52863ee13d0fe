/* gpu_product.c -- products of matrices by tiles: a second entry for kernels that are a contraction, in the same order of sums.
 *
 * [m,k] x [k,n]: a block of 256 threads computes a square tile of y, each thread a square of that in registers. 16 steps of k at a
 * time go through shared memory, while the next 16 are on their way. Sums are those of the text: fma in the order of k,
 * blocks of 512 from 0, which are added in order; the totals of blocks stand in local memory. What follows the sum in the
 * text is then done element by element. Subscripts beyond the matrix are those of its last row or column: what comes of
 * them is not stored. */
#include "backend/cuda/printer.h"
#include <string.h>

enum { TILE_THREADS = 256, TILE_STEPS = 16, BLOCK = KIR_PRODUCT_BLOCK };

/* ---- Which kernels -------------------------------------------------------------------------------------------------------- */

static bool is_literal(const struct kir_kernel *k, int v, uint64_t bits) {
  return k->vals[v].kind == KIR_LIT && k->vals[v].bits == bits;
}

struct product_sum { int result, var; const struct kir_stmt *load[2]; };

/* serial k in n { carry u = 0; a = load ..; b = load ..; next u = fma(a, b, u) or add(u, mul(a, b)) } */
static bool is_sum(const struct kir_kernel *k, const struct kir_stmt *s, struct product_sum *out) {
  const struct kir_stmt *carry, *a, *b, *op, *next;
  if (!s || s->kind != KIR_SERIAL || s->extent != KIR_N || !(carry = s->body.first) || carry->kind != KIR_CARRY) return false;
  if (!(a = carry->next) || a->kind != KIR_LOAD || !(b = a->next) || b->kind != KIR_LOAD || !(op = b->next)) return false;
  *out = (struct product_sum){ carry->out[0], s->var, { a, b } };
  if (!is_literal(k, carry->in[0], 0) || op->kind != KIR_OP) return false;
  if (op->op == KIR_FMA) {
    if (op->in[0] != a->out[0] || op->in[1] != b->out[0] || op->in[2] != out->result) return false;
  } else {
    const struct kir_stmt *mul = op;
    if (mul->op != KIR_MUL || mul->in[0] != a->out[0] || mul->in[1] != b->out[0] || !(op = mul->next)) return false;
    if (op->kind != KIR_OP || op->op != KIR_ADD || op->in[0] != out->result || op->in[1] != mul->out[0]) return false;
  }
  next = op->next;
  return next && next->kind == KIR_NEXT && next->n_in == 1 && next->in[0] == op->out[0] && !next->next;
}

static bool is_number(struct kir_lin l, int64_t n) { return l.n == 1 && l.term[0].n == 0 && l.term[0].coef == n; }

/* serial q in Q { carry v = first; ..sum..; next v = add(v, sum) } */
static bool is_between(const struct kir_kernel *k, const struct kir_stmt *s, int first, int *total) {
  const struct kir_stmt *carry, *add;
  struct product_sum inner;
  if (!s || s->kind != KIR_SERIAL || s->extent != KIR_N || !(carry = s->body.first) || carry->kind != KIR_CARRY) return false;
  if (carry->in[0] != first || !is_sum(k, carry->next, &inner) || !(add = carry->next->next)) return false;
  *total = carry->out[0];
  return add->kind == KIR_OP && add->op == KIR_ADD && add->in[0] == *total && add->in[1] == inner.result && add->next &&
         add->next->kind == KIR_NEXT && add->next->in[0] == add->out[0];
}

/* The statements that are the sum, from s on; x->rest is what follows them. */
static bool find_sum(const struct kir_kernel *k, const struct kir_stmt *s, struct survey_product *x) {
  struct product_sum first, last;
  int total;
  if (!is_sum(k, s, &first)) return false;
  x->sum = s, x->total = first.result, x->step = first.var, x->rest = s->next;
  x->a = first.load[0], x->b = first.load[1];
  if (!is_number(s->at[0], BLOCK)) return true;
  x->between = s->next;
  if (!is_between(k, x->between, first.result, &total) || !is_sum(k, x->between->next, &last)) return false;
  x->last = x->between->next;
  const struct kir_stmt *add = x->last->next;
  if (!add || add->kind != KIR_OP || add->op != KIR_ADD || add->in[0] != total || add->in[1] != last.result) return false;
  x->total = add->out[0], x->rest = add->next;
  return true;
}

static bool names(const struct kir_stmt *load, int v) {
  for (int d = 0; d < load->n_at; d++) if (survey_mentions(load->at[d], v)) return true;
  return false;
}

static bool is_plain(const struct kir_stmt *s, const struct kir_stmt *end) {
  for (; s != end; s = s->next)
    if (s->kind != KIR_OP && s->kind != KIR_LOAD && (s->kind != KIR_STORE || s->op != KIR_SET)) return false;
  return true;
}

/* par .. { par r { ..; lane c { ..; the sum; .. } } } and nothing else; loops may be missing but for the lane loop */
static bool find_nest(const struct kir_kernel *k, struct survey_product *x) {
  const struct kir_stmt *s = k->body.first;
  for (; s && s->kind == KIR_PAR && !s->next && s->extent == KIR_N && !s->n_private; s = s->body.first) {
    if (x->row && x->n_batch == PTX_NEST_PARS) return false;
    if (x->row) x->batch[x->n_batch++] = x->row;
    x->row = s;
  }
  for (x->of_row = s; s && (s->kind == KIR_OP || s->kind == KIR_LOAD); s = s->next) {}
  if (!s || s->kind != KIR_LANE || s->next || s->extent != KIR_N) return false;
  x->lane = s, x->before = s->body.first;
  for (s = x->before; s && s->kind != KIR_SERIAL; s = s->next) {}
  return find_sum(k, s, x) && is_plain(x->before, x->sum) && is_plain(x->rest, NULL);
}

void survey_find_product(struct survey *s) {
  struct survey_product x = { 0 };
  if (s->is_cooperative || s->n_checks || !find_nest(s->k, &x)) return;
  if (names(x.a, x.lane->var)) {
    const struct kir_stmt *a = x.a;
    x.a = x.b, x.b = a;
  }
  bool is_product = names(x.b, x.lane->var) && !names(x.a, x.lane->var) &&
                    !survey_uses(&(struct kir_block){ (struct kir_stmt *)(uintptr_t)x.rest, NULL }, x.step);
  x.is_there = is_product && x.row && names(x.a, x.row->var) && !names(x.b, x.row->var);
  x.is_of_vector = is_product && !x.is_there && x.n_batch < PTX_NEST_PARS;
  if (x.is_of_vector && x.row) x.batch[x.n_batch++] = x.row, x.row = NULL;
  s->product = x;
}

/* ---- A tile --------------------------------------------------------------------------------------------------------------- */

struct ptx_tile {
  const struct survey_product *x;
  weft_dtype d;
  int each, side, pitch, fetched;    /* elements: of a thread along an axis, of a tile, of its row in shared memory, fetched by a
                                        thread */
  const char *tid, *tx, *ty, *k;     /* k: how many products; 64 bits */
  const char *row0, *column0;        /* of the tile */
  const char *acc[8][8], *from[2][8], *at[2];
  const char *to[2];                 /* of each operand: where in shared memory this thread's first element goes; .. */
  const char *first[2], *pass_bytes[2], *step_bytes[2]; /* .. where it is in memory, how far the next one is, and that of the
                                        next 16 steps */
  const char *is_inside;             /* all rows and columns of the tile are of the matrix */
};

static const char *word(struct printer *p) { return ptx_own(p, OWN_WORD); }
static const char *longword(struct printer *p) { return ptx_own(p, OWN_LONG); }
int ptx_log_2(int n) { int k = 0; while (1 << k < n) k++; return k; }

const char *ptx_plus(struct printer *p, const char *a, const char *b) {
  const char *r = longword(p);
  ptx_line(p, "add.s64 %s, %s, %s", r, a, b);
  return r;
}

const char *ptx_minus(struct printer *p, const char *a, const char *b) {
  const char *r = longword(p);
  ptx_line(p, "sub.s64 %s, %s, %s", r, a, b);
  return r;
}

const char *ptx_product_address(struct printer *p, const struct survey_product *x, const struct kir_stmt *load,
                                const struct kir_stmt *loop, const char *index, const char *k) {
  if (loop) ptx_line(p, "mov.s64 %s, %s", ptx_val(p, loop->var), index);
  ptx_line(p, "mov.s64 %s, %s", ptx_val(p, x->step), k);
  const char *r = longword(p);
  ptx_line(p, "mov.s64 %s, %s", r, ptx_address(p, load->buf, load->at));
  return r;
}

/* Tiles that run at the same time are to share operands: they are numbered down groups of 8 rows of tiles, or of as many as there
 * are. There are fewer than 2^31 tiles, so that numbers of them are words. */
void ptx_find_tile(struct printer *p, const char *rows, const char *columns, int tile_rows, int tile_columns, const char *row0,
                   const char *column0) {
  const char *id = word(p), *down = word(p), *group = word(p), *first = word(p), *few = word(p), *many = longword(p), *w = word(p);
  ptx_line(p, "mov.u32 %s, %%ctaid.x", id);
  ptx_line(p, "add.s64 %s, %s, %d", many, rows, tile_rows - 1);
  ptx_line(p, "shr.s64 %s, %s, %d", many, many, ptx_log_2(tile_rows));
  ptx_line(p, "cvt.u32.u64 %s, %s", down, many);
  ptx_line(p, "add.s64 %s, %s, %d", many, columns, tile_columns - 1);
  ptx_line(p, "shr.s64 %s, %s, %d", many, many, ptx_log_2(tile_columns));
  ptx_line(p, "cvt.u32.u64 %s, %s", w, many);
  ptx_line(p, "min.u32 %s, %s, 8", few, down);
  ptx_line(p, "mul.lo.u32 %s, %s, %s", w, w, few); /* tiles of a group */
  ptx_line(p, "div.u32 %s, %s, %s", group, id, w);
  ptx_line(p, "mul.lo.u32 %s, %s, %s", w, group, w);
  ptx_line(p, "sub.u32 %s, %s, %s", id, id, w);
  ptx_line(p, "shl.b32 %s, %s, 3", first, group);
  ptx_line(p, "sub.u32 %s, %s, %s", few, down, first);
  ptx_line(p, "min.u32 %s, %s, 8", few, few);
  ptx_line(p, "div.u32 %s, %s, %s", w, id, few);
  ptx_line(p, "mul.wide.u32 %s, %s, %d", column0, w, tile_columns);
  ptx_line(p, "mul.lo.u32 %s, %s, %s", w, w, few);
  ptx_line(p, "sub.u32 %s, %s, %s", id, id, w);
  ptx_line(p, "add.u32 %s, %s, %s", id, id, first);
  ptx_line(p, "mul.wide.u32 %s, %s, %d", row0, id, tile_rows);
}

const char *ptx_product_length(struct printer *p, const struct survey_product *x) {
  const char *n = longword(p);
  if (!x->between) { ptx_line(p, "mov.s64 %s, %s", n, ptx_lin(p, x->sum->at[0])); return n; }
  ptx_line(p, "mad.lo.s64 %s, %s, %d, %d", n, ptx_lin(p, x->between->at[0]), BLOCK, BLOCK);
  ptx_line(p, "add.s64 %s, %s, %s", n, n, ptx_lin(p, x->last->at[0]));
  return n;
}

/* dst = min(base + offset, n - 1) */
static void clamped(struct printer *p, const char *dst, const char *base, const char *offset, const char *n) {
  const char *last = longword(p), *wide = longword(p);
  ptx_line(p, "cvt.u64.u32 %s, %s", wide, offset);
  ptx_line(p, "add.s64 %s, %s, %s", dst, base, wide);
  ptx_line(p, "sub.s64 %s, %s, 1", last, n);
  ptx_line(p, "min.s64 %s, %s, %s", dst, dst, last);
}

/* The axis of the load along which k moves has neighbours in memory. */
static bool lies_along_k(struct printer *p, const struct kir_stmt *load, int step) {
  for (int d = 0; d < load->n_at; d++)
    if (survey_mentions(load->at[d], step)) return p->shape->stride[load->buf][d] == STRIDE_1;
  return false;
}

/* Where element i of this thread's share of an operand is: across the tile, and which step of k. */
static void share(struct printer *p, const struct ptx_tile *t, bool along_k, int i, const char **across, const char **step) {
  *across = word(p), *step = word(p);
  if (along_k) {
    ptx_line(p, "and.b32 %s, %s, %d", *step, t->tid, TILE_STEPS - 1);
    ptx_line(p, "shr.u32 %s, %s, 4", *across, t->tid);
    ptx_line(p, "add.u32 %s, %s, %d", *across, *across, TILE_THREADS / TILE_STEPS * i);
  } else {
    ptx_line(p, "and.b32 %s, %s, %d", *across, t->tid, t->side - 1);
    ptx_line(p, "shr.u32 %s, %s, %d", *step, t->tid, t->side == 128 ? 7 : 6);
    ptx_line(p, "add.u32 %s, %s, %d", *step, *step, TILE_THREADS / t->side * i);
  }
}

/* The address of element i of this thread's share, whose steps count from k0 on. */
static const char *shared_element(struct printer *p, const struct ptx_tile *t, int side, int i, const char *k0, bool is_clamped) {
  const struct kir_stmt *load = side ? t->x->b : t->x->a, *loop = side ? t->x->lane : t->x->row;
  const char *across, *step, *base = side ? t->column0 : t->row0, *wide[2] = { longword(p), longword(p) };
  share(p, t, lies_along_k(p, load, t->x->step), i, &across, &step);
  if (is_clamped) {
    clamped(p, ptx_val(p, loop->var), base, across, ptx_lin(p, loop->at[0]));
    clamped(p, ptx_val(p, t->x->step), k0, step, t->k);
  } else {
    ptx_line(p, "cvt.u64.u32 %s, %s", wide[0], across);
    ptx_line(p, "cvt.u64.u32 %s, %s", wide[1], step);
    ptx_line(p, "add.s64 %s, %s, %s", ptx_val(p, loop->var), base, wide[0]);
    ptx_line(p, "add.s64 %s, %s, %s", ptx_val(p, t->x->step), k0, wide[1]);
  }
  return ptx_address(p, load->buf, load->at);
}

/* Addresses are linear in every index: those of a tile inside the matrix are sums. */
static void plan_fetch(struct printer *p, struct ptx_tile *t) {
  const char *end = longword(p);
  t->is_inside = ptx_own(p, OWN_PRED);
  ptx_line(p, "add.s64 %s, %s, %d", end, t->row0, t->side);
  ptx_line(p, "setp.le.s64 %s, %s, %s", t->is_inside, end, ptx_lin(p, t->x->row->at[0]));
  ptx_line(p, "add.s64 %s, %s, %d", end, t->column0, t->side);
  ptx_line(p, "setp.le.and.s64 %s, %s, %s, %s", t->is_inside, end, ptx_lin(p, t->x->lane->at[0]), t->is_inside);
  for (int side = 0; side < 2; side++) {
    t->first[side] = longword(p), t->pass_bytes[side] = longword(p), t->step_bytes[side] = longword(p);
    ptx_line(p, "mov.s64 %s, %s", t->first[side], shared_element(p, t, side, 0, "0", false));
    ptx_line(p, "sub.s64 %s, %s, %s", t->pass_bytes[side], shared_element(p, t, side, 1, "0", false), t->first[side]);
    ptx_line(p, "sub.s64 %s, %s, %s", t->step_bytes[side], shared_element(p, t, side, 0, ptx_textf(p, "%d", TILE_STEPS), false),
             t->first[side]);
  }
}

/* Both operands of 16 steps from k0 on, into registers. */
static void fetch(struct printer *p, const struct ptx_tile *t, const char *k0) {
  const char *end = longword(p), *is = ptx_own(p, OWN_PRED), *edge = ptx_label(p, "edge"), *done = ptx_label(p, "fetched");
  weft_dtype d[2] = { (weft_dtype)p->k->bufs[t->x->a->buf].dtype, (weft_dtype)p->k->bufs[t->x->b->buf].dtype };
  ptx_line(p, "add.s64 %s, %s, %d", end, k0, TILE_STEPS);
  ptx_line(p, "setp.le.and.s64 %s, %s, %s, %s", is, end, t->k, t->is_inside);
  ptx_line(p, "@!%s bra %s", is, edge);
  for (int side = 0; side < 2; side++) {
    const char *at = longword(p);
    ptx_line(p, "mov.s64 %s, %s", at, t->first[side]);
    for (int i = 0; i < t->fetched; i++) {
      ptx_load(p, ".global.nc", d[side], t->from[side][i], at);
      if (i + 1 < t->fetched) ptx_line(p, "add.s64 %s, %s, %s", at, at, t->pass_bytes[side]);
    }
    ptx_line(p, "add.s64 %s, %s, %s", t->first[side], t->first[side], t->step_bytes[side]);
  }
  ptx_line(p, "bra %s", done);
  ptx_place(p, edge);
  for (int side = 0; side < 2; side++)
    for (int i = 0; i < t->fetched; i++)
      ptx_load(p, ".global.nc", d[side], t->from[side][i], shared_element(p, t, side, i, k0, true));
  ptx_place(p, done);
}

/* Where element 0 of this thread's share goes; the others are a fixed number of bytes further. */
static void plan_put(struct printer *p, struct ptx_tile *t) {
  for (int side = 0; side < 2; side++) {
    const char *across, *step, *i = word(p);
    share(p, t, lies_along_k(p, side ? t->x->b : t->x->a, t->x->step), 0, &across, &step);
    t->to[side] = longword(p);
    ptx_line(p, "mad.lo.u32 %s, %s, %d, %s", i, step, t->pitch, across);
    ptx_line(p, "mov.u64 %s, tiles", t->to[side]);
    if (side) ptx_line(p, "add.u64 %s, %s, %d", t->to[side], t->to[side], TILE_STEPS * t->pitch * kir_width(t->d));
    ptx_line(p, "mad.wide.u32 %s, %s, %d, %s", t->to[side], i, kir_width(t->d), t->to[side]);
  }
}

static void put(struct printer *p, const struct ptx_tile *t) {
  for (int side = 0; side < 2; side++) {
    bool along_k = lies_along_k(p, side ? t->x->b : t->x->a, t->x->step);
    int further = (along_k ? TILE_THREADS / TILE_STEPS : TILE_THREADS / t->side * t->pitch) * kir_width(t->d);
    for (int i = 0; i < t->fetched; i++)
      ptx_line(p, "st.shared.%s [%s+%d], %s", ptx_bits(t->d), t->to[side], i * further, t->from[side][i]);
  }
}

/* The elements of a thread along an axis: four neighbours, and four half a tile further. */
static int element_at(const struct ptx_tile *t, int i) { return i / 4 * (t->side / 2) + i % 4; }

/* One step of k, `ahead` steps behind where the thread's addresses are. */
static void multiply(struct printer *p, const struct ptx_tile *t, int ahead) {
  const char *v[2][8];
  int w = kir_width(t->d), together = 16 / w;
  for (int side = 0; side < 2; side++)
    for (int i = 0; i < t->each; i += together) {
      int offset = (ahead * t->pitch + element_at(t, i)) * w;
      for (int j = 0; j < together; j++) v[side][i + j] = ptx_own_of(p, t->d);
      if (together == 4)
        ptx_line(p, "ld.shared.v4.%s {%s, %s, %s, %s}, [%s+%d]", ptx_bits(t->d), v[side][i], v[side][i + 1], v[side][i + 2],
                 v[side][i + 3], t->at[side], offset);
      else ptx_line(p, "ld.shared.v2.%s {%s, %s}, [%s+%d]", ptx_bits(t->d), v[side][i], v[side][i + 1], t->at[side], offset);
    }
  for (int i = 0; i < t->each; i++)
    for (int j = 0; j < t->each; j++) {
      const char *u = t->acc[i][j], *product = u;
      if (kir_is_float(t->d)) { ptx_instruction(p, KIR_FMA, t->d, u, (const char *[]){ v[0][i], v[1][j], u }); continue; }
      ptx_instruction(p, KIR_MUL, t->d, product = ptx_own_of(p, t->d), (const char *[]){ v[0][i], v[1][j] });
      ptx_instruction(p, KIR_ADD, t->d, u, (const char *[]){ u, product });
    }
}

static void forward(struct printer *p, const struct ptx_tile *t, int steps) {
  for (int side = 0; side < 2; side++)
    ptx_line(p, "add.u64 %s, %s, %d", t->at[side], t->at[side], steps * t->pitch * kir_width(t->d));
}

/* What is in shared memory: n steps, four at a time, then one by one. */
static void multiply_all(struct printer *p, const struct ptx_tile *t, const char *n) {
  const char *four = ptx_label(p, "four"), *one = ptx_label(p, "one"), *done = ptx_label(p, "done"), *is = ptx_own(p, OWN_PRED);
  const char *ys[2] = { t->ty, t->tx };
  for (int side = 0; side < 2; side++) {
    ptx_line(p, "mov.u64 %s, tiles", t->at[side]);
    if (side) ptx_line(p, "add.u64 %s, %s, %d", t->at[1], t->at[1], TILE_STEPS * t->pitch * kir_width(t->d));
    ptx_line(p, "mad.wide.u32 %s, %s, %d, %s", t->at[side], ys[side], 4 * kir_width(t->d), t->at[side]);
  }
  ptx_place(p, four);
  ptx_line(p, "setp.lt.s32 %s, %s, 4", is, n);
  ptx_line(p, "@%s bra %s", is, one);
  for (int i = 0; i < 4; i++) multiply(p, t, i);
  forward(p, t, 4);
  ptx_line(p, "sub.s32 %s, %s, 4", n, n);
  ptx_line(p, "bra %s", four);
  ptx_place(p, one);
  ptx_line(p, "setp.lt.s32 %s, %s, 1", is, n);
  ptx_line(p, "@%s bra %s", is, done);
  multiply(p, t, 0);
  forward(p, t, 1);
  ptx_line(p, "sub.s32 %s, %s, 1", n, n);
  ptx_line(p, "bra %s", one);
  ptx_place(p, done);
}

/* total = is_first ? sum : total + sum, and the sum begins anew */
static void flush(struct printer *p, const struct ptx_tile *t, const char *is_first) {
  const char *total = ptx_own_of(p, t->d), *both = ptx_own_of(p, t->d), *at = longword(p), *bits = ptx_bits(t->d);
  ptx_line(p, "mov.u64 %s, stack", at);
  for (int i = 0; i < t->each; i++)
    for (int j = 0; j < t->each; j++) {
      int offset = (i * t->each + j) * 8;
      ptx_line(p, "ld.local.%s %s, [%s+%d]", bits, total, at, offset);
      ptx_instruction(p, KIR_ADD, t->d, both, (const char *[]){ total, t->acc[i][j] });
      ptx_line(p, "selp.%s %s, %s, %s, %s", bits, both, t->acc[i][j], both, is_first);
      ptx_line(p, "st.local.%s [%s+%d], %s", bits, at, offset, both);
      ptx_mov(p, t->d, t->acc[i][j], ptx_number(p, t->d, 0));
    }
}

static void sums(struct printer *p, const struct ptx_tile *t) {
  const char *k0 = longword(p), *k1 = longword(p), *left = longword(p), *n = word(p), *is = ptx_own(p, OWN_PRED),
             *more = ptx_own(p, OWN_PRED),
             *is_first = ptx_own(p, OWN_PRED), *again = ptx_label(p, "steps"), *no_more = ptx_label(p, "last"),
                 *same = ptx_label(p, "same"),
             *leave = ptx_label(p, "leave");
  for (int i = 0; i < t->each; i++)
    for (int j = 0; j < t->each; j++) ptx_mov(p, t->d, t->acc[i][j], ptx_number(p, t->d, 0));
  ptx_line(p, "mov.s64 %s, 0", k0);
  ptx_line(p, "setp.le.s64 %s, %s, 0", is, t->k);
  ptx_line(p, "@%s bra %s", is, leave);
  fetch(p, t, k0);
  ptx_place(p, again);
  put(p, t);
  ptx_line(p, "bar.sync 0");
  ptx_line(p, "add.s64 %s, %s, %d", k1, k0, TILE_STEPS);
  ptx_line(p, "setp.lt.s64 %s, %s, %s", more, k1, t->k);
  ptx_line(p, "@!%s bra %s", more, no_more);
  fetch(p, t, k1);
  ptx_place(p, no_more);
  ptx_line(p, "sub.s64 %s, %s, %s", left, t->k, k0);
  ptx_line(p, "min.s64 %s, %s, %d", left, left, TILE_STEPS);
  ptx_line(p, "cvt.u32.u64 %s, %s", n, left);
  multiply_all(p, t, n);
  ptx_line(p, "bar.sync 0");
  ptx_line(p, "mov.s64 %s, %s", k0, k1);
  ptx_line(p, "and.b64 %s, %s, %d", left, k0, BLOCK - 1);
  ptx_line(p, "setp.eq.and.s64 %s, %s, 0, %s", is, left, more);
  ptx_line(p, "@!%s bra %s", is, same);
  ptx_line(p, "setp.eq.s64 %s, %s, %d", is_first, k0, BLOCK);
  flush(p, t, is_first);
  ptx_place(p, same);
  ptx_line(p, "@%s bra %s", more, again);
  ptx_place(p, leave);
  ptx_line(p, "setp.le.s64 %s, %s, %d", is_first, t->k, BLOCK);
  flush(p, t, is_first);
}

/* ---- What follows --------------------------------------------------------------------------------------------------------- */

void ptx_finish_product(struct printer *p, const struct survey_product *x, struct where w) {
  ptx_statements(p, x->of_row, x->lane, w);
  ptx_statements(p, x->before, x->sum, w);
  ptx_statements(p, x->rest, NULL, w);
}

void ptx_statements(struct printer *p, const struct kir_stmt *s, const struct kir_stmt *end, struct where w) {
  for (; s != end; s = s->next) {
    struct kir_stmt alone = *s;
    alone.next = NULL;
    ptx_block(p, &(struct kir_block){ &alone, &alone }, w);
  }
}

/* For every element of the tile that is of the matrix, strided over the threads: its sum, and what follows. */
void ptx_finish_tile(struct printer *p, const struct ptx_results *t) {
  const struct survey_product *x = t->x;
  const char *e = word(p), *i = word(p), *j = word(p), *at = longword(p), *wide = longword(p), *is = ptx_own(p, OWN_PRED),
             *again = ptx_label(p, "element"), *next = ptx_label(p, "next");
  const char *row = ptx_val(p, x->row->var), *column = ptx_val(p, x->lane->var);
  ptx_line(p, "mov.u32 %s, %s", e, t->tid);
  ptx_place_loop(p, again);
  ptx_line(p, "shr.u32 %s, %s, %d", i, e, ptx_log_2(t->tile_columns));
  ptx_line(p, "and.b32 %s, %s, %d", j, e, t->tile_columns - 1);
  ptx_line(p, "cvt.u64.u32 %s, %s", wide, i);
  ptx_line(p, "add.s64 %s, %s, %s", row, t->row0, wide);
  ptx_line(p, "cvt.u64.u32 %s, %s", wide, j);
  ptx_line(p, "add.s64 %s, %s, %s", column, t->column0, wide);
  ptx_line(p, "setp.lt.s64 %s, %s, %s", is, row, t->rows);
  ptx_line(p, "setp.lt.and.s64 %s, %s, %s, %s", is, column, t->columns, is);
  ptx_line(p, "@!%s bra %s", is, next);
  ptx_line(p, "mad.lo.u32 %s, %s, %d, %s", i, i, t->pitch, j);
  ptx_line(p, "mad.wide.u32 %s, %s, %d, %s", at, i, kir_width(t->d), t->base);
  ptx_line(p, "ld.shared.%s %s, [%s]", ptx_bits(t->d), ptx_val(p, x->total), at);
  ptx_finish_product(p, x, (struct where){ .lane = x->lane, .rest = next });
  ptx_place(p, next);
  ptx_line(p, "add.u32 %s, %s, %d", e, e, t->threads);
  ptx_line(p, "setp.lt.u32 %s, %s, %d", is, e, t->tile_rows * t->tile_columns);
  ptx_line(p, "@%s bra %s", is, again);
}

/* dst = base + 4 y + i % 4 + (i / 4) half a tile */
static void own_index(struct printer *p, const struct ptx_tile *t, const char *dst, const char *base, const char *y,
    const char *i) {
  const char *low = word(p), *high = word(p), *wide = longword(p);
  ptx_line(p, "and.b32 %s, %s, 3", low, i);
  ptx_line(p, "shr.u32 %s, %s, 2", high, i);
  ptx_line(p, "mad.lo.u32 %s, %s, %d, %s", low, high, t->side / 2, low);
  ptx_line(p, "mad.lo.u32 %s, %s, 4, %s", low, y, low);
  ptx_line(p, "cvt.u64.u32 %s, %s", wide, low);
  ptx_line(p, "add.s64 %s, %s, %s", dst, base, wide);
}

static void finish(struct printer *p, const struct ptx_tile *t) {
  const struct survey_product *x = t->x;
  const char *e = word(p), *i = word(p), *j = word(p), *at = longword(p), *is = ptx_own(p, OWN_PRED), *inside = ptx_own(p,
             OWN_PRED);
  const char *again = ptx_label(p, "element"), *next = ptx_label(p, "next"), *row = ptx_val(p, x->row->var),
             *column = ptx_val(p, x->lane->var);
  ptx_line(p, "mov.u32 %s, 0", e);
  ptx_place(p, again);
  ptx_line(p, "shr.u32 %s, %s, %d", i, e, t->each == 8 ? 3 : 2);
  ptx_line(p, "and.b32 %s, %s, %d", j, e, t->each - 1);
  own_index(p, t, row, t->row0, t->ty, i);
  own_index(p, t, column, t->column0, t->tx, j);
  ptx_line(p, "setp.lt.s64 %s, %s, %s", inside, row, ptx_lin(p, x->row->at[0]));
  ptx_line(p, "setp.lt.and.s64 %s, %s, %s, %s", inside, column, ptx_lin(p, x->lane->at[0]), inside);
  ptx_line(p, "@!%s bra %s", inside, next);
  ptx_line(p, "mov.u64 %s, stack", at);
  ptx_line(p, "mad.wide.u32 %s, %s, 8, %s", at, e, at);
  ptx_line(p, "ld.local.%s %s, [%s]", ptx_bits(t->d), ptx_val(p, x->total), at);
  ptx_finish_product(p, x, (struct where){ .lane = x->lane, .rest = next });
  ptx_place(p, next);
  ptx_line(p, "add.u32 %s, %s, 1", e, e);
  ptx_line(p, "setp.lt.u32 %s, %s, %d", is, e, t->each * t->each);
  ptx_line(p, "@%s bra %s", is, again);
}

/* ---- The entry ------------------------------------------------------------------------------------------------------------ */

/* for (var = by index; var < n; ..), all threads of the block together */
static void tiles_along(struct printer *p, const char *var, const char *n, const char *index, int by, const char **again,
                        const char **leave) {
  const char *is = ptx_own(p, OWN_PRED), *w = word(p);
  *again = ptx_label(p, "tiles"), *leave = ptx_label(p, "leave");
  ptx_line(p, "mov.u32 %s, %s", w, index);
  ptx_line(p, "mul.wide.u32 %s, %s, %d", var, w, by);
  ptx_place(p, *again);
  ptx_line(p, "setp.ge.s64 %s, %s, %s", is, var, n);
  ptx_line(p, "@%s bra %s", is, *leave);
}

static void next_tiles(struct printer *p, const char *var, const char *count, int by, const char *again, const char *leave) {
  const char *w = word(p), *step = longword(p);
  ptx_line(p, "mov.u32 %s, %s", w, count);
  ptx_line(p, "mul.wide.u32 %s, %s, %d", step, w, by);
  ptx_line(p, "add.s64 %s, %s, %s", var, var, step);
  ptx_line(p, "bra %s", again);
  ptx_place(p, leave);
}

/* Loops of the batch are one: how many matrices there are, and which places of the loops belong to number `number` of them. */
static const char *matrices(struct printer *p, const struct survey_product *x) {
  const char *all = longword(p);
  ptx_line(p, "mov.s64 %s, %s", all, ptx_lin(p, x->batch[0]->at[0]));
  for (int i = 1; i < x->n_batch; i++) ptx_line(p, "mul.lo.s64 %s, %s, %s", all, all, ptx_lin(p, x->batch[i]->at[0]));
  return all;
}

static void find_matrix(struct printer *p, const struct survey_product *x, const char *all, const char *number) {
  const char *left = longword(p), *are_words = ptx_own(p, OWN_PRED);
  ptx_line(p, "setp.lt.u64 %s, %s, 4294967296", are_words, all);
  ptx_line(p, "mov.s64 %s, %s", left, number);
  for (int i = x->n_batch - 1; i > 0; i--) ptx_take_place(p, x->batch[i], left, are_words);
  ptx_line(p, "mov.s64 %s, %s", ptx_val(p, x->batch[0]->var), left);
}

/* Made of its places again, so that no register keeps it while a tile is computed. */
static void number_matrix(struct printer *p, const struct survey_product *x, const char *number) {
  ptx_line(p, "mov.s64 %s, %s", number, ptx_val(p, x->batch[0]->var));
  for (int i = 1; i < x->n_batch; i++)
    ptx_line(p, "mad.lo.s64 %s, %s, %s, %s", number, number, ptx_lin(p, x->batch[i]->at[0]), ptx_val(p, x->batch[i]->var));
}

void ptx_along_batch(struct printer *p, const struct survey_product *x, void (*tiles)(struct printer *, void *), void *of) {
  const char *again, *leave;
  if (!x->n_batch) { tiles(p, of); return; }
  bool is_one = x->n_batch == 1;
  const char *number = is_one ? ptx_val(p, x->batch[0]->var) : longword(p), *all = matrices(p, x);
  tiles_along(p, number, all, "%ctaid.z", 1, &again, &leave);
  if (!is_one) find_matrix(p, x, all, number);
  tiles(p, of);
  if (!is_one) number_matrix(p, x, number);
  next_tiles(p, number, "%nctaid.z", 1, again, leave);
}

static void rows_of_tiles(struct printer *p, void *of) {
  struct ptx_tile *t = of;
  const char *again, *leave;
  tiles_along(p, t->row0, ptx_lin(p, t->x->row->at[0]), "%ctaid.y", t->side, &again, &leave);
  plan_fetch(p, t);
  sums(p, t);
  finish(p, t);
  next_tiles(p, t->row0, "%nctaid.y", t->side, again, leave);
}

size_t ptx_tile_bytes(weft_dtype d) {
  int w = kir_width(d), side = w == 8 ? 64 : 128;
  return (size_t)(2 * TILE_STEPS * (side + 16 / w) * w);
}

void ptx_product(struct printer *p) {
  const struct survey_product *x = &p->survey.product;
  struct ptx_tile t = { .x = x, .d = (weft_dtype)p->k->vals[x->a->out[0]].dtype };
  t.each = kir_width(t.d) == 8 ? 4 : 8, t.side = 16 * t.each, t.pitch = t.side + 16 / kir_width(t.d);
  t.fetched = t.side * TILE_STEPS / TILE_THREADS;
  t.tid = word(p), t.tx = word(p), t.ty = word(p), t.row0 = longword(p), t.column0 = longword(p);
  t.at[0] = longword(p), t.at[1] = longword(p);
  for (int i = 0; i < t.each; i++)
    for (int j = 0; j < t.each; j++) t.acc[i][j] = ptx_own_of(p, t.d);
  for (int side = 0; side < 2; side++)
    for (int i = 0; i < t.fetched; i++) t.from[side][i] = ptx_own_of(p, t.d);
  p->stack_bytes = t.each * t.each * 8;
  ptx_line(p, "mov.u32 %s, %%tid.x", t.tid);
  ptx_line(p, "and.b32 %s, %s, 15", t.tx, t.tid);
  ptx_line(p, "shr.u32 %s, %s, 4", t.ty, t.tid);
  plan_put(p, &t);
  t.k = ptx_product_length(p, x);
  const char *w = word(p);
  ptx_line(p, "mov.u32 %s, %%ctaid.x", w);
  ptx_line(p, "mul.wide.u32 %s, %s, %d", t.column0, w, t.side);
  ptx_along_batch(p, x, rows_of_tiles, &t);
}
