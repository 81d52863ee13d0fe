/* gpu_flat.c -- nests of short rows without folds, as the three channels of an image: a further entry that goes along all elements
 * of the nest as if they were one row.
 *
 * par .. { uniform; lane c { load; .. store } }. The main entry has a thread for every lane of a row, and where a row is short and
 * its arrays are not aligned a thread does little more than find out which element it has. Here a thread has `each` elements, 256
 * apart, so that neighbours read neighbours and all loads are under way together. Element q of all is q mod C of row q / C, and so
 * on outwards; a quotient by a length is a product with 2^32 / C, which is the quotient or one less. What the text computes once a
 * row is computed for each element. */
#include "backend/cuda/gpu_wide.h"
#include "base/least.h"

/* MOST_LANES: of longer rows the main entry is as fast; MOST_STATEMENTS: printed, for all elements of a thread, at most */
enum { THREADS = 256, MOST_LANES = 512, MOST_STATEMENTS = 192, MOST_EACH = 8, LEAST_EACH = 2, BLOCKS_A_PROCESSOR = 16 };

/* ---- Which kernels ------------------------------------------------------------------------------------------------------- */

static bool is_plain(const struct survey *s, const struct kir_block *b, bool is_top, int *n) {
  for (const struct kir_stmt *x = b->first; x; x = x->next, ++*n)
    switch ((enum kir_kind)x->kind) {
    case KIR_OP: case KIR_LOAD: case KIR_YIELD: break;
    case KIR_STORE: if (!is_top || x->op != KIR_SET || s->bufs[x->buf].is_shared || s->bufs[x->buf].is_loaded) return false; break;
    case KIR_IF: if (!is_plain(s, &x->body, false, n)) return false; break;
    case KIR_PAR: case KIR_SERIAL: case KIR_LANE: case KIR_CARRY: case KIR_NEXT: case KIR_UNTIL: case KIR_PREFIX: case KIR_FOLD:
    case KIR_KEEP: case KIR_CHECK: case KIR_LOCALS: case KIR_KINDS: return false;
    }
  return true;
}

bool ptx_find_flat(const struct survey *s, struct ptx_flat *f) {
  int n = 0;
  *f = (struct ptx_flat){ 0 };
  if (s->owned || s->private_loop || s->product.is_there || s->is_single || s->is_cooperative || s->n_checks) return false;
  if (!ptx_find_nest(s->k, &f->nest) || f->nest.lane->next || !is_plain(s, &f->nest.lane->body, true, &n)) return false;
  for (int i = 0; i < f->nest.n_pars; i++)
    for (const struct kir_stmt *x = f->nest.par[i]->body.first; x; x = x->next) n++;
  for (f->each = MOST_EACH; f->each > LEAST_EACH && f->each * n > MOST_STATEMENTS;) f->each /= 2;
  return f->each * n <= MOST_STATEMENTS;
}

/* ---- Printing ------------------------------------------------------------------------------------------------------------ */

struct flat_loop { const char *n, *minus, *of; int var; }; /* its length, minus that, 2^32 / length: words */
struct flat { const struct ptx_nest *nest; struct flat_loop loop[PTX_NEST_PARS + 1]; int n_loops; const char *all; };

static void find_loop(struct printer *p, struct flat *f, const struct kir_stmt *s) {
  struct flat_loop *l = &f->loop[f->n_loops++];
  *l = (struct flat_loop){ ptx_word(p), ptx_word(p), ptx_word(p), s->var };
  ptx_line(p, "cvt.u32.u64 %s, %s", l->n, ptx_lin(p, s->at[0]));
  ptx_line(p, "neg.s32 %s, %s", l->minus, l->n);
  ptx_line(p, "div.u32 %s, -1, %s", l->of, l->n);
  ptx_line(p, "mul.lo.u32 %s, %s, %s", f->all, f->all, l->n);
}

/* The indices of element q of all. */
static void find_indices(struct printer *p, const struct flat *f, const char *q, const char *const reg[]) {
  for (int i = f->n_loops - 1; i > 0; i--) {
    const struct flat_loop *l = &f->loop[i];
    const char *above = ptx_word(p), *rest = ptx_word(p), *is = ptx_pred(p);
    ptx_line(p, "mul.hi.u32 %s, %s, %s", above, q, l->of);
    ptx_line(p, "mad.lo.u32 %s, %s, %s, %s", rest, above, l->minus, q);
    ptx_line(p, "setp.ge.u32 %s, %s, %s", is, rest, l->n);
    ptx_line(p, "@%s add.u32 %s, %s, 1", is, above, above);
    ptx_line(p, "@%s add.u32 %s, %s, %s", is, rest, rest, l->minus);
    ptx_line(p, "cvt.u64.u32 %s, %s", reg[l->var], rest);
    q = above;
  }
  ptx_line(p, "cvt.u64.u32 %s, %s", reg[f->loop[0].var], q);
}

/* From `first` up to `end`, on elements 0 .. each - 1 of the thread. */
static void on_elements(struct printer *p, const struct kir_stmt *first, const struct kir_stmt *end, int each, struct where w) {
  for (const struct kir_stmt *s = first; s != end; s = s->next)
    for (int e = 0; e < each; e++) {
      if (e && ptx_is_same_for_all(p, s)) break;
      p->reg = p->wide[e];
      ptx_statements(p, s, s->next, w);
    }
  p->reg = p->wide[0];
}

static void elements(struct printer *p, const struct flat *f, int each) {
  const struct ptx_nest *x = f->nest;
  struct where w = { .lane = x->lane, .lo = "0", .rest = "$done" };
  for (int i = 0; i < x->n_pars; i++)
    on_elements(p, x->par[i]->body.first, i + 1 < x->n_pars ? x->par[i + 1] : x->lane, each, w);
  on_elements(p, x->lane->body.first, NULL, each, w);
}

/* The elements of all from q on that this thread has, so many as there are. */
static void last_elements(struct printer *p, const struct flat *f, const char *q) {
  const char *again = ptx_label(p, "last"), *is = ptx_pred(p);
  ptx_place_loop(p, again);
  ptx_line(p, "setp.ge.u32 %s, %s, %s", is, q, f->all);
  ptx_line(p, "@%s bra $done", is);
  find_indices(p, f, q, p->wide[0]);
  elements(p, f, 1);
  ptx_line(p, "add.u32 %s, %s, %d", q, q, THREADS);
  ptx_line(p, "bra %s", again);
}

void ptx_flat_body(struct printer *p) {
  int each = p->plan->flat.each;
  struct flat f = { .nest = &p->plan->flat.nest, .all = ptx_word(p) };
  const char *q = ptx_word(p), *own = ptx_word(p), *step = ptx_word(p), *left = ptx_word(p), *is = ptx_pred(p),
             *again = ptx_label(p, "flat"), *last = ptx_label(p, "few");
  p->threads = THREADS;
  if (!ptx_name_nest(p, each, f.nest)) return;
  ptx_line(p, "mov.u32 %s, 1", f.all);
  for (int i = 0; i < f.nest->n_pars; i++) find_loop(p, &f, f.nest->par[i]);
  find_loop(p, &f, f.nest->lane);
  ptx_statements(p, p->k->body.first, p->k->body.last, (struct where){ 0 });
  ptx_line(p, "mov.u32 %s, %%tid.x", own);
  ptx_line(p, "mov.u32 %s, %%ctaid.x", q);
  ptx_line(p, "mul.lo.u32 %s, %s, %d", q, q, each * THREADS);
  ptx_line(p, "mov.u32 %s, %%nctaid.x", step);
  ptx_line(p, "mul.lo.u32 %s, %s, %d", step, step, each * THREADS);
  ptx_place_loop(p, again);
  ptx_line(p, "setp.ge.u32 %s, %s, %s", is, q, f.all);
  ptx_line(p, "@%s bra $done", is);
  ptx_line(p, "sub.u32 %s, %s, %s", left, f.all, q);
  ptx_line(p, "setp.lt.u32 %s, %s, %d", is, left, each * THREADS);
  ptx_line(p, "@%s bra %s", is, last);
  for (int e = 0; e < each; e++) {
    const char *one = ptx_word(p);
    ptx_line(p, "add.u32 %s, %s, %s", one, q, own);
    ptx_line(p, "add.u32 %s, %s, %d", one, one, e * THREADS);
    find_indices(p, &f, one, p->wide[e]);
  }
  elements(p, &f, each);
  ptx_line(p, "add.u32 %s, %s, %s", q, q, step);
  ptx_line(p, "bra %s", again);
  ptx_place(p, last);
  ptx_line(p, "add.u32 %s, %s, %s", q, q, own);
  last_elements(p, &f, q);
  ptx_place(p, "$done");
}

/* ---- Launching ----------------------------------------------------------------------------------------------------------- */

/* Instead of the main entry alone, and where all processors have work. */
bool ptx_flat_shape(const struct ptx_plan *p, const struct ptx_machine *m, const int64_t sizes[], const uint64_t args[],
                    struct ptx_shape *s) {
  const struct ptx_flat *f = &p->flat;
  int64_t all = p->flat_entry ? ptx_size(&f->length, sizes, args) : 0, a_block = f->each * THREADS;
  if (all < 1 || all > MOST_LANES || s->is_wide || s->is_turned || s->is_paired || s->is_running || s->is_relayed) return false;
  for (int i = 0; i < f->nest.n_pars; i++) {
    int64_t n = ptx_size(&f->nest.pars[i], sizes, args);
    if (n < 1 || __builtin_mul_overflow(all, n, &all) || all > INT32_MAX) return false;
  }
  if (all < a_block * m->n_processors) return false;
  s->block[0] = THREADS, s->block[1] = s->block[2] = 1;
  s->grid[0] = (unsigned)least(ptx_parts(all, a_block), BLOCKS_A_PROCESSOR * (int64_t)m->n_processors);
  s->grid[1] = s->grid[2] = 1;
  return s->is_flat = true;
}
