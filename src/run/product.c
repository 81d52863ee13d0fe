/* product.c -- steps that are products of matrices: what is to be multiplied, by which strategy, and the kind. See product.h. */
#include "run/product.h"
#include <stdatomic.h>
#include "base/mem.h"
#include "run/eval.h"
#include "run/show.h"

enum { APART = 1 << 30 }; /* a stride that says: neighbours are those of the other axis */

/* ---- what is to be multiplied ---- */

static void swap(int64_t *a, int64_t *b) {
  int64_t t = *a;
  *a = *b, *b = t;
}

static void find_matrix(struct matrix *x, const struct contraction *c, const struct binding *b, weft_dtype t) {
  int size = kir_width(t);
  x->dtype = t, x->row = b->stride[c->n_batch] * size, x->column = b->stride[c->n_batch + 1] * size;
  for (int i = 0; i < c->n_batch; i++) x->batch[i] = b->stride[i] * size;
}

static void turn(struct product *p) {
  struct matrix a = p->a;
  p->a = p->b, p->b = a;
  swap(&p->a.row, &p->a.column);
  swap(&p->b.row, &p->b.column);
  swap(&p->y.row, &p->y.column);
  swap(&p->m, &p->n);
  for (int i = 0; i < 2; i++) {
    struct matrix *x = i ? &p->b : &p->a;
    int axis = x->row_axis;
    x->row_axis = x->column_axis, x->column_axis = axis;
  }
}

/* An operand that is made: its strides say only where neighbours are. */
static void find_made(struct matrix *x, const struct maker *m) {
  if (!(x->maker = m)) return;
  int size = kir_width(x->dtype);
  x->row_axis = m->row_axis, x->column_axis = m->column_axis;
  x->row = m->is_by_rows ? APART : size, x->column = m->is_by_rows ? size : APART;
  for (int i = 0; i < AXES; i++) x->batch[i] = m->batch_axis[i] >= 0 ? APART : 0;
}

void product_of(struct product *p, const struct contraction *c) {
  *p = (struct product){ .c = c, .reg = kir_register_of(c->a_dtype), .m = c->m, .n = c->n, .k = c->k * (1 + c->n_more) };
  p->block = c->n_more ? c->k : KIR_PRODUCT_BLOCK;
  p->size = kir_width(p->reg);
  find_matrix(&p->a, c, &c->a, c->a_dtype);
  find_matrix(&p->b, c, &c->b, c->b_dtype);
  find_matrix(&p->y, c, &c->y, p->reg);
  p->run = c->b_run, p->first = c->b_first, p->windows = c->windows;
  find_matrix(&p->rest, c, &c->rest, c->b_dtype);
  find_made(&p->a, c->maker[0]);
  find_made(&p->b, c->maker[1]);
  if (c->is_turned) turn(p);
}

static void place(struct matrix *x, const struct binding *b, uint8_t *const base[]) {
  if (b->store >= 0) x->at = base[b->store] + b->offset * kir_width(x->dtype);
}

const struct matrix *product_operand(const struct product *p, bool is_left, int64_t k, struct matrix *room) {
  const struct contraction *c = p->c;
  if (!c->n_more || k < p->block) return is_left ? &p->a : &p->b;
  const struct addend *at = &c->more[k / p->block - 1];
  *room = (struct matrix){ 0 };
  find_matrix(room, c, is_left ? &at->a : &at->b, is_left ? c->a_dtype : c->b_dtype);
  place(room, is_left ? &at->a : &at->b, p->base);
  return room;
}

static void product_place(struct product *p, uint8_t *const base[]) {
  const struct contraction *c = p->c;
  p->base = base;
  place(&p->a, c->is_turned ? &c->b : &c->a, base);
  place(&p->b, c->is_turned ? &c->a : &c->b, base);
  place(&p->y, &c->y, base);
  place(&p->rest, &c->rest, base);
}

bool product_is_empty(const struct contraction *c) {
  for (int i = 0; i < c->n_batch; i++) if (!c->batch[i]) return true;
  return !c->m || !c->n;
}

/* Binds it to memory, and to the kernel that goes on with it. */
static void product_bind(struct product *p, const struct plan *plan, int i, const struct run *r, uint8_t *const base[],
                 struct piece_kernel *next) {
  product_place(p, base);
  piece_kernel_of(next, plan, i, p->c->n_axes, p->c->start, base);
  p->next = next, p->cancel = r->cancel;
  product_find_read(p);
}

/* The product of step i, with the kernels that make its operands and go on with it. */
void product_at(struct product *p, const struct plan *plan, int i, struct run *r, uint8_t *const base[],
                struct product_kernels *k) {
  const struct contraction *c = plan->schedule->step[i].contraction;
  product_of(p, c);
  for (int j = 0; j < 2; j++) {
    struct matrix *x = j ? &p->b : &p->a;
    if (x->maker) piece_kernel_of(x->kernel = &k->made[j], plan, x->maker->step, x->maker->n_axes, x->maker->start, base);
  }
  product_bind(p, plan, i, r, base, &k->next);
}

/* ---- how ---- */

static const struct strategy *strategy_of(const struct product *p) {
  static const struct strategy *const strategies[] = { &strategy_windows, &strategy_added, &strategy_dots, &strategy_tiles,
                                                     &strategy_small, &strategy_flat, &strategy_panels };
  int i = 0, form = p->run ? RIGHT_IN_RUNS : p->first ? RIGHT_IN_TWO : RIGHT_IN_ONE;
  while (!(strategies[i]->reads & form) || !strategies[i]->applies(p)) i++; /* of those that read it the last always does */
  return strategies[i];
}

static void choose_sizes(struct product *p) {
  p->threads = p->wanted;
  p->strategy->choose(p);
  product_measure(p);
}

/* is_run: its operands may be looked at, and its code is wanted. 1, 2: see product_find_code. */
static int choose(struct product *p, int wanted, bool is_run) {
  p->wanted = wanted;
  if (product_fits_tiles(p)) p->unit = p->unit->tiles;
  product_cut_patches(p);
  p->strategy = strategy_of(p);
  p->packs.together = product_most_together(p);
  if (is_run && p->packs.together > 1 && !p->unit->deep && !product_pairs_are_allowed(p, wanted)) p->packs.together = 1;
  int how = is_run ? product_find_code(p) : 0;
  if (!how) choose_sizes(p);
  return how;
}

static int choose_both(struct product *p, int wanted, const struct contractor *unit, bool is_run) {
  struct product *next = p->then;
  p->unit = unit->lanes(p->reg) ? unit : &contractor_vm;
  if (next) next->unit = unit->lanes(p->reg) && unit->lanes(next->reg) ? unit : &contractor_vm, p->unit = next->unit;
  int how = choose(p, wanted, is_run);
  if (how || !next) return how;
  how = choose(next, wanted, is_run); /* its parts are those of p, .. */
  if (!how) next->cut.cell_parts = p->cut.cell_parts, product_measure(next); /* .. its cells rows that it is given */
  return how;
}

/* Scratch that a product wants once it is chosen. Where its numbers decide when it runs whether terms go one by one or in pairs,
 * the larger of both. */
static size_t bytes_of(const struct product *p) {
  int together = p->packs.together > 1 ? 1 : product_most_together(p);
  size_t bytes = product_total_bytes(p);
  if (!kir_is_float(p->reg) || together == p->packs.together || p->unit->deep) return bytes;
  struct product other = *p;
  other.packs.together = together;
  choose_sizes(&other);
  return product_total_bytes(&other) > bytes ? product_total_bytes(&other) : bytes;
}

/* ---- running ---- */

struct failure *product_outcome(const struct product *p) {
  if (product_is_cancelled(p)) return fail(WEFT_ERR_CANCELLED, 0, "weft_eval: cancelled");
  struct failure *f = p->a.maker ? piece_outcome(p->a.kernel) : NULL;
  if (!f && p->b.maker) f = piece_outcome(p->b.kernel);
  return f ? f : piece_outcome(p->next);
}

struct failure *product_no_room(size_t bytes) {
  return fail(WEFT_ERR_MEMORY, 0, "weft_eval: out of memory: a product needs %lld bytes to work in", (long long)bytes);
}

static struct failure *run_chosen(struct product *p, size_t bytes) {
  product_run_cells(p, bytes);
  if (p->failed) return product_no_room(bytes);
  struct failure *f = product_outcome(p);
  return f || !p->then ? f : product_outcome(p->then);
}

static struct failure *run_both(struct product *p, struct run *r, int wanted) {
  if (!wanted) wanted = product_threads(p, r->threads, true);
  int how = choose_both(p, wanted, compiled_contractor(), true);
  if (how == 2) how = choose_both(p, wanted, &contractor_vm, true);
  if (how) return fail(WEFT_ERR_MEMORY, 0, "weft_eval: out of memory while compiling a product");
  return run_chosen(p, bytes_of(p));
}

/* ---- constants: of what is the same in every run, panels are kept ---- */

enum {
  KEPT_LEAST = 1 << 14, KEPT_MOST = 32 << 20 /* bytes of an operand: less is packed in no time, more is better packed by those who
                                                use it many times over than held twice */
};

struct constant { struct buffer *buf; int64_t offset; }; /* NULL: it is none, or it is not kept */

/* The right operand, as it is multiplied. */
static struct constant constant_of(const struct plan *plan, const struct contraction *c, const struct run *r) {
  const struct binding *b = c->is_turned ? &c->a : &c->b;
  int leaf = b->store < 0 || c->is_fed || c->feeds || c->n_more ? -1 : plan->schedule->store[b->store].leaf;
  if (leaf < 0 || !r->leaf[leaf].is_constant || c->maker[!c->is_turned] || c->b_first) return (struct constant){ 0 };
  for (int i = 0; i < c->n_batch; i++) if (b->stride[i]) return (struct constant){ 0 };
  int64_t n = c->is_turned ? c->m : c->n, most = KEPT_MOST / kir_width(kir_register_of(c->a_dtype));
  if (c->k > most / (n ? n : 1) || c->k * n < KEPT_LEAST || !panels_may_keep(r->leaf[leaf].buf, 8 * c->k * n))
    return (struct constant){ 0 };
  weft_dtype t = c->is_turned ? c->a_dtype : c->b_dtype;
  return (struct constant){ r->leaf[leaf].buf, r->leaf[leaf].offset + b->offset * kir_width(t) };
}

/* ---- choices that are kept in the plan: of products that depend on no numbers, by one thread and by several ---- */

static const struct contractor *unit_for(const struct product *p) {
  const struct contractor *unit = compiled_contractor();
  return unit->lanes(p->reg) ? unit : &contractor_vm;
}

/* wanted: threads; 0: it has not been asked how many. */
static const struct product *recall(const struct plan *plan, int i, bool keeps, int most, int *wanted) {
  *wanted = 0;
  _Atomic(struct product *) *at = &plan->product[4 * i + 2 * keeps];
  const struct product *one = atomic_load_explicit(&at[0], memory_order_acquire),
                       *many = atomic_load_explicit(&at[1], memory_order_acquire), *any = one ? one : many;
  if (!any || any->unit != unit_for(any)) return NULL;
  *wanted = product_threads(any, most, true);
  const struct product *p = *wanted > 1 ? many : one;
  return p && p->wanted == *wanted && p->unit == any->unit ? p : NULL;
}

static void keep(const struct plan *plan, int i, const struct product *p) {
  if (p->c->is_fed || p->a.maker || p->b.maker || !p->threads || p->unit != unit_for(p) || product_most_together(p) > 1) return;
  struct product *kept = mem_alloc(sizeof *kept), *none = NULL;
  if (!kept) return; /* it will be chosen again */
  *kept = *p;
  kept->next_cell = kept->next_turn = 0;
  if (!atomic_compare_exchange_strong(&plan->product[4 * i + 2 * !!p->constant + (p->wanted > 1)], &none, kept)) mem_free(kept);
}

static struct failure *run(const struct plan *plan, int i, struct run *r, uint8_t *const base[]) {
  const struct step *s = &plan->schedule->step[i];
  if (s->contraction->feeds || product_is_empty(s->contraction)) return NULL; /* the step it feeds runs both */
  struct product_kernels kernels[2];
  struct product p, first;
  int wanted;
  struct constant b = constant_of(plan, s->contraction, r);
  const struct product *known = recall(plan, i, b.buf != NULL, r->threads, &wanted);
  if (known) {
    p = *known;
    p.constant = b.buf, p.constant_offset = b.offset;
    product_bind(&p, plan, i, r, base, &kernels[0].next);
    return run_chosen(&p, product_total_bytes(&p));
  }
  product_at(&p, plan, i, r, base, &kernels[0]);
  p.constant = b.buf, p.constant_offset = b.offset;
  if (!s->contraction->is_fed) {
    struct failure *f = run_both(&p, r, wanted);
    keep(plan, i, &p);
    return f;
  }
  product_at(&first, plan, i - 1, r, base, &kernels[1]);
  product_chain(&first, &p);
  return run_both(&first, r, 0);
}

static int64_t scratch(const struct plan *plan, int i, int threads) {
  const struct step *s = &plan->schedule->step[i];
  struct product p, first;
  if (product_is_empty(s->contraction) || s->contraction->feeds) return 0;
  product_of(&p, s->contraction);
  if (s->contraction->is_fed) product_of(&first, s[-1].contraction), product_chain(&first, &p);
  struct product *both = s->contraction->is_fed ? &first : &p;
  choose_both(both, product_threads(both, threads, false), compiled_contractor(), false);
  return (int64_t)bytes_of(both);
}

/* Two threads that share a matrix of which each reads a little of every row take longer than each with a matrix of its own: for
 * 384 x 384 from memory 24 us on Zen 4, and 15 so. Of three matrices one thread has two. */
static int abreast(const struct plan *plan, int i, int threads) {
  const struct contraction *c = plan->schedule->step[i].contraction;
  int64_t n = c->n_abreast, columns = c->is_turned ? c->m : c->n;
  if (n < 2 || threads < 2) return 1;
  int64_t rounds = divide_up(n, threads), least_run = compiled_contractor()->least_run();
  int64_t row = columns * kir_width(c->is_turned ? c->a_dtype : c->b_dtype);
  return 4 * n < 3 * rounds * threads || row >= threads * least_run ? 1 : (int)n;
}

/* ---- the kind ---- */

void product_stores(struct schedule *s, struct step *p, store_visitor *v, void *of) {
  struct contraction *c = p->contraction;
  kernel_stores(s, p, v, of);
  see_store(&c->a.store, STORE_READ, v, of);
  see_store(&c->b.store, STORE_READ, v, of);
  see_store(&c->rest.store, STORE_READ, v, of);
  for (int i = 0; i < 2 * c->n_more; i++)
    see_store(i % 2 ? &c->more[i / 2].b.store : &c->more[i / 2].a.store, STORE_READ, v, of);
  see_store(&c->y.store, STORE_WRITTEN, v, of);
  for (int k = 0; k < 2; k++) if (c->maker[k]) kernel_stores(s, &s->step[c->maker[k]->step], v, of);
  if (c->is_fed) product_stores(s, p - 1, v, of); /* they run together */
}

/* Not where makers, or the other one of two that run together, may read it later. */
bool product_may_overwrite(const struct step *p, int from, int to) {
  const struct contraction *c = p->contraction;
  if (c->is_fed || c->feeds || c->maker[0] || c->maker[1]) return false;
  bool is_left = c->a.store == from || c->a.store == to, is_right = c->b.store == from || c->b.store == to;
  bool is_rest = c->b_first && (c->rest.store == from || c->rest.store == to);
  for (int i = 0; i < c->n_more; i++) {
    const struct addend *x = &c->more[i];
    is_left |= x->a.store == from || x->a.store == to, is_right |= x->b.store == from || x->b.store == to;
  }
  return !is_left && !is_right && !is_rest && p->kernel && kernel_may_overwrite(p, from, to);
}

bool product_compile(struct plan *p, int i, struct failure **failure) {
  return !p->schedule->step[i].kernel || kernel_compile(p, i, NULL, failure);
}

static void show_operand(const struct schedule *s, const struct maker *m, const struct binding *b, struct text *t) {
  if (m) text_addf(t, "pieces of step %d", m->step);
  else store_show(s, b->store, t);
}

static void show_contraction(const struct schedule *s, const struct contraction *c, const char *by, struct text *t) {
  text_addf(t, by ? "product by %s(%s" : "product%s(%s", by ? by : "", weft_dtype_name(c->a_dtype));
  if (c->b_dtype != c->a_dtype) text_addf(t, " x %s", weft_dtype_name(c->b_dtype));
  for (int i = 0; i < c->n_batch; i++) text_addf(t, ", batch=%lld", (long long)c->batch[i]);
  text_addf(t, ", M=%lld, N=%lld, K=%lld, a=", (long long)c->m, (long long)c->n, (long long)c->k);
  if (c->is_fed) text_add(t, "rows of the step before");
  else text_add(t, c->windows ? "windows of " : ""), show_operand(s, c->maker[0], &c->a, t);
  text_add(t, ", b=");
  show_operand(s, c->maker[1], &c->b, t);
  if (c->b_run) text_addf(t, " in runs of %lld", (long long)c->b_run);
  if (c->b_first) {
    text_addf(t, ", from %s %lld on ", c->b_splits_rows ? "row" : "column", (long long)c->b_first);
    store_show(s, c->rest.store, t);
  }
  for (int i = 0; i < c->n_more; i++) {
    text_add(t, ", and a="), store_show(s, c->more[i].a.store, t);
    text_add(t, ", b="), store_show(s, c->more[i].b.store, t);
  }
  if (c->y.store >= 0) text_add(t, ", y="), store_show(s, c->y.store, t);
  text_add(t, ")");
}

static const char *cell_or_rows(const struct step *s, int buf) {
  const struct contraction *c = s->contraction;
  return c->feeds && buf == c->fed ? "rows" : s->bufs[buf].store < 0 ? "cell" : NULL;
}

void product_show(const struct plan *p, int i, const char *by, struct text *t) {
  text_addf(t, "%d: ", i);
  show_contraction(p->schedule, p->schedule->step[i].contraction, by, t);
  text_add(t, p->code[i] ? ", cell by cell:\n  " : "\n");
  if (p->code[i]) kernel_show(p, i, cell_or_rows, t);
}

static void show(const struct plan *p, int i, struct text *t) { product_show(p, i, NULL, t); }

const struct step_kind step_product = {
  .name = "product", .where = STEP_ON_HOST, .stores = product_stores, .may_overwrite = product_may_overwrite, .drop = kernel_drop,
  .compile = product_compile, .run = run, .abreast = abreast, .scratch = scratch, .show = show,
};
