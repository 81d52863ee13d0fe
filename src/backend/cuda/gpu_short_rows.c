/* gpu_short_rows.c -- many short rows that are only folded: a thread has a row, and all of its accumulators.
 *
 * The order of a row is 32 accumulators, one for every 32nd element, and then a tree (docs/kir.md section 6): a thread that has all
 * of them adds exactly so. Rows are taken 32 elements at a time. */
#include "backend/cuda/gpu_wide.h"

/* Elements at a time, the longest row, threads of a block, and rows from which on each can have a thread of its own. */
enum { SHORT_EACH = 32, SHORT_LENGTH = 256, SHORT_THREADS = 128, MANY_ROWS = 1 << 14 };

bool ptx_find_short(const struct survey *s, const struct ptx_wide *w, struct ptx_nest *r) {
  int n_folds = 0, bytes = 0, n = 0;
  *r = (struct ptx_nest){ 0 };
  if (!w->is_rows || s->is_dealt || s->n_checks || !ptx_find_nest(s->k, r)) return false;
  for (const struct kir_stmt *x = r->lane->body.first; x; x = x->next, n++) {
    if (x->kind != KIR_FOLD && x->kind != KIR_OP && x->kind != KIR_LOAD) return false;
    if (x->kind != KIR_FOLD) continue;
    if (x->n_out != 1 || x->op == KIR_CALL || s->k->vals[x->in[0]].dtype == WEFT_BOOL) return false;
    n_folds++, bytes += kir_width((weft_dtype)s->k->vals[x->in[0]].dtype);
  }
  return n_folds && bytes <= 8 && n * SHORT_EACH <= PTX_MOST_WIDE;
}

enum { MOST_SHORT_FOLDS = 8 };
struct short_folds { int n; const struct kir_stmt *fold[MOST_SHORT_FOLDS]; const char *a[MOST_SHORT_FOLDS][SHORT_EACH]; };

static void start_short(struct printer *p, const struct kir_stmt *loop, struct short_folds *f) {
  for (const struct kir_stmt *s = loop->body.first; s; s = s->next) {
    if (s->kind != KIR_FOLD) continue;
    weft_dtype d = (weft_dtype)p->k->vals[s->in[0]].dtype;
    ptx_start(p, s);
    for (int e = 0; e < SHORT_EACH; e++) ptx_mov(p, d, f->a[f->n][e] = ptx_own_of(p, d), ptx_val(p, s->out[0]));
    f->fold[f->n++] = s;
  }
}

/* a[e] = a[e] o value, where the guard says that element e is of the row. */
static void add_short(struct printer *p, const struct short_folds *f, int e, int each) {
  for (int i = 0; i < f->n; i++)
    for (int k = e; k < e + each; k++) {
      weft_dtype d = (weft_dtype)p->k->vals[f->fold[i]->in[0]].dtype;
      const char *all = ptx_own_of(p, d);
      p->reg = p->wide[k];
      ptx_instruction(p, (enum kir_op)f->fold[i]->op, d, all, (const char *[]){ f->a[i][k], ptx_val(p, f->fold[i]->in[0]) });
      ptx_line(p, "@%s mov.%s %s, %s", p->guard, ptx_bits(d), f->a[i][k], all);
    }
  p->reg = p->wide[0];
}

/* The 32 accumulators of each fold become one, halves onto halves, as the order of a row says. */
static void short_tree(struct printer *p, struct short_folds *f) {
  for (int i = 0; i < f->n; i++) {
    weft_dtype d = (weft_dtype)p->k->vals[f->fold[i]->in[0]].dtype;
    for (int half = SHORT_EACH / 2; half; half /= 2)
      for (int e = 0; e < half; e++) {
        const char *both = ptx_own_of(p, d);
        ptx_instruction(p, (enum kir_op)f->fold[i]->op, d, both, (const char *[]){ f->a[i][e], f->a[i][e + half] });
        f->a[i][e] = both;
      }
    ptx_mov(p, d, ptx_val(p, f->fold[i]->out[0]), f->a[i][0]);
  }
}

static void short_row(struct printer *p, const struct kir_stmt *loop, const char *n, struct where w) {
  const char *is = ptx_own(p, OWN_PRED), *again = ptx_label(p, "part"), *active[SHORT_EACH];
  struct short_folds f = { 0 };
  int each = p->each;
  start_short(p, loop, &f);
  ptx_line(p, "mov.s64 %s, 0", p->wide[0][loop->var]);
  ptx_val(p, loop->var);
  ptx_place_loop(p, again);
  for (int e = 0; e < SHORT_EACH; e += each) {
    if (e) ptx_line(p, "add.s64 %s, %s, %d", p->wide[e][loop->var], p->wide[0][loop->var], e);
    ptx_number_elements(p, loop, e, each);
    ptx_line(p, "setp.lt.s64 %s, %s, %s", active[e] = ptx_own(p, OWN_PRED), p->wide[e][loop->var], n);
  }
  for (int e = 0; e < SHORT_EACH; e += each) p->guard = active[e], ptx_early_loads(p, loop, e, each);
  for (int e = 0; e < SHORT_EACH; e += each) p->guard = active[e], ptx_element_body(p, loop, e, each, w), add_short(p, &f, e, each);
  p->guard = NULL;
  ptx_line(p, "add.s64 %s, %s, %d", p->wide[0][loop->var], p->wide[0][loop->var], SHORT_EACH);
  ptx_line(p, "setp.lt.s64 %s, %s, %s", is, p->wide[0][loop->var], n);
  ptx_line(p, "@%s bra %s", is, again);
  short_tree(p, &f);
}

void ptx_short_body(struct printer *p) {
  const struct ptx_nest *r = &p->plan->shorts;
  struct where alone = { .lane = r->lane, .lo = "0", .rest = "$done" };
  const char *q = ptx_own(p, OWN_WORD), *by = ptx_own(p, OWN_WORD), *tid = ptx_own(p, OWN_WORD), *is = ptx_own(p, OWN_PRED);
  p->threads = SHORT_THREADS, p->each = p->plan->wide.each;
  if (!ptx_name_elements(p, SHORT_EACH)) return;
  ptx_line(p, "mov.u32 %s, %%ctaid.x", q);
  ptx_line(p, "mov.u32 %s, %%ntid.x", by);
  ptx_line(p, "mov.u32 %s, %%tid.x", tid);
  ptx_line(p, "mad.lo.u32 %s, %s, %s, %s", q, q, by, tid);
  ptx_line(p, "setp.ge.u32 %s, %s, %s", is, q, ptx_nest_indices(p, r, q));
  ptx_line(p, "@%s bra $done", is);
  ptx_nest_before(p, r, alone);
  short_row(p, r->lane, ptx_lin(p, r->lane->at[0]), alone);
  ptx_statements(p, r->lane->next, NULL, alone);
  ptx_place(p, "$done");
}

bool ptx_short_shape(const struct ptx_plan *p, int64_t n, const int64_t sizes[], const uint64_t args[], struct ptx_shape *s) {
  int64_t rows = p->short_entry && n <= SHORT_LENGTH ? 1 : 0;
  for (int i = 0; i < p->shorts.n_pars; i++) {
    int64_t m = ptx_size(&p->shorts.pars[i], sizes, args);
    if (m < 1 || __builtin_mul_overflow(rows, m, &rows) || rows > INT32_MAX / 2) return false;
  }
  if (rows < MANY_ROWS) return false;
  s->block[0] = SHORT_THREADS, s->block[1] = s->block[2] = 1;
  s->grid[0] = (unsigned)ptx_parts(rows, SHORT_THREADS), s->grid[1] = s->grid[2] = 1;
  s->shared_bytes = s->row_bytes = s->scratch_bytes = 0;
  return true;
}
