/* gpu_next_row.c -- long rows that are asked for early: where a processor has room for few rows, a block of threads copies its
 * part of the next row to shared memory (cp.async) as soon as it has read its own there for the last time.
 *
 * par r { .. lane c { x = load a[r,c]; keep x; .. } .. lane c { .. } }: a load of the first loop can be asked for if the row in
 * which it is kept is free in the last loop that needs it. Every thread asks for the places that it alone has read, so that
 * nobody waits. */
#include "backend/cuda/gpu_wide.h"

struct ptx_asked *ptx_asked_for(struct printer *p, const struct kir_stmt *load) {
  for (int i = 0; i < p->n_asked; i++) if (p->asked[i].load == load) return &p->asked[i];
  return NULL;
}

const struct ptx_asked *ptx_asked_in(const struct printer *p, int row) {
  for (int i = 0; i < p->n_asked; i++) if (p->asked[i].row == row) return &p->asked[i];
  return NULL;
}

/* Whether a loop keeps, or needs, a value that stands in the memory of a row. */
static bool keeps_in(const struct printer *p, const struct kir_stmt *loop, int row) {
  for (int r = 0; r < p->plan->n_rows; r++) {
    const struct ptx_row *x = &p->plan->rows[r];
    if (x->kind == PTX_KEEP && (r == row || x->shares == row) && survey_keeps(loop, x->of)) return true;
  }
  return false;
}
static bool needs(const struct printer *p, const struct kir_stmt *loop, int row) {
  for (int r = 0; r < p->plan->n_rows; r++) {
    const struct ptx_row *x = &p->plan->rows[r];
    if (x->kind == PTX_KEEP && (r == row || x->shares == row) && survey_uses(&loop->body, x->of)) return true;
  }
  return false;
}

/* The last loop that touches the memory of a row. NULL where threads read elements there that are not their own: another thread
 * could overwrite them too early. */
static const struct kir_stmt *last_of(const struct printer *p, const struct kir_stmt *first, int row) {
  const struct kir_stmt *last = first;
  for (const struct kir_stmt *s = first; s; s = s->next)
    if (s->kind == KIR_LANE && (keeps_in(p, s, row) || needs(p, s, row))) last = s;
  return keeps_in(p, last, row) || ptx_folds_again(p->k, last) ? NULL : last;
}

static bool has_doubles(const struct kir_kernel *k) {
  for (int v = 0; v < k->n_vals; v++) if (k->vals[v].dtype == WEFT_F64) return true;
  return false;
}

/* Finds the loads of the first loop whose place is free in the last one that needs it. */
void ptx_find_asked(struct printer *p) {
  const struct kir_stmt *par = p->k->body.first, *first = NULL;
  if (par->kind != KIR_PAR || par->extent != KIR_N || par->next || p->each == 1 || has_doubles(p->k)) return;
  if (!par->body.last || par->body.last->kind == KIR_PAR) return;
  for (first = par->body.first; first && first->kind != KIR_LANE; first = first->next) {}
  for (const struct kir_stmt *s = first ? first->body.first : NULL; s && p->n_asked < PTX_ASKED; s = s->next) {
    if (s->kind != KIR_LOAD || !ptx_is_early(p, s, first) || p->k->bufs[s->buf].kind != KIR_IN) continue;
    if (!survey_is_known_ahead(p->k, s)) continue;
    int row = survey_keeps(first, s->out[0]) ? ptx_kept_row(p, s->out[0]) : -1;
    if (row < 0 || p->plan->rows[row].shares >= 0) continue;
    if (kir_width(ptx_memory_of(p, s)) != 4 || !kir_is_register(ptx_memory_of(p, s))) continue;
    const struct kir_stmt *last = last_of(p, first, row);
    if (!last) continue;
    struct ptx_asked *a = &p->asked[p->n_asked++];
    *a = (struct ptx_asked){ .load = s, .last = last, .row = row, .length = ptx_own(p, OWN_LONG), .end = ptx_own(p, OWN_LONG) };
    ptx_line(p, "mov.s64 %s, 0", a->length);
  }
}

void ptx_await_asked(struct printer *p) {
  if (p->n_asked) ptx_line(p, "cp.async.wait_group 0");
  for (int i = 0; i < p->n_asked; i++) {
    struct ptx_asked *a = &p->asked[i];
    if (p->shift.by) ptx_line(p, "add.s64 %s, %s, %s", a->end, a->length, p->shift.head);
    else ptx_line(p, "mov.s64 %s, %s", a->end, a->length);
  }
}

/* Before the last loop: where the next row of this block of threads begins, and how many of its elements stand in whole 16
 * bytes both in memory and in the place they come to. */
static void begin_asking(struct printer *p, struct ptx_asked *a, const char *n) {
  const struct kir_stmt *par = p->k->body.first, *s = a->load;
  const char *next = ptx_own(p, OWN_LONG), *row = ptx_val(p, par->var), *is = ptx_own(p, OWN_PRED), *at;
  int axis = ptx_axis_along(p->shape, s, ptx_first_lane_loop(p)->var);
  p->uses_thread[PTX_ROWS] = true;
  ptx_line(p, "add.s64 %s, %s, $rows", next, row);
  ptx_line(p, "setp.lt.s64 %s, %s, %s", is, next, ptx_lin(p, par->at[0]));
  ptx_line(p, "mov.s64 %s, 0", ptx_val(p, s->at[axis].term[0].val[0]));
  p->reg[par->var] = next;
  at = ptx_address(p, s->buf, s->at);
  p->reg[par->var] = row;
  a->from = at;
  ptx_line(p, "mov.s64 %s, %s", a->length, n);
  if (p->shift.by) {
    const char *own = ptx_own(p, OWN_LONG);
    ptx_line(p, "or.b64 %s, %s, 15", a->from = ptx_own(p, OWN_LONG), at);
    ptx_line(p, "add.s64 %s, %s, 1", a->from, a->from);
    ptx_line(p, "sub.s64 %s, %s, %s", own, a->from, at);
    ptx_line(p, "shr.u64 %s, %s, 2", own, own);
    ptx_line(p, "sub.s64 %s, %s, %s", a->length, n, own);
    ptx_line(p, "and.b64 %s, %s, -4", a->length, a->length);
    ptx_line(p, "sub.s64 %s, %s, %s", own, p->shift.end, p->shift.head);
    ptx_line(p, "min.s64 %s, %s, %s", a->length, a->length, own);
  }
  ptx_line(p, "selp.s64 %s, %s, 0, %s", a->length, a->length, is);
}

/* Elements e .. e + each - 1 of the next row take the place of those of this one, which this thread has read. */
void ptx_ask(struct printer *p, const struct ptx_asked *a, const struct kir_stmt *loop, int e, int each) {
  const char *c = p->wide[e][loop->var], *to = ptx_own(p, OWN_LONG), *at = ptx_own(p, OWN_LONG), *is = ptx_own(p, OWN_PRED);
  int width = p->plan->rows[a->row].width;
  ptx_line(p, "mad.lo.s64 %s, %s, %d, $row%d", to, c, width, a->row);
  if (p->shift.by) {
    const char *far = ptx_own(p, OWN_LONG);
    ptx_line(p, "sub.s64 %s, %s, %s", far, c, p->shift.head);
    c = far;
  }
  ptx_line(p, "mad.lo.s64 %s, %s, %d, %s", at, c, width, a->from);
  ptx_line(p, "setp.lt.and.s64 %s, %s, %s, %s", is, c, a->length, p->guard);
  for (int i = 0; i < each * width; i += 16) ptx_line(p, "@%s cp.async.cg.shared.global [%s+%d], [%s+%d], 16", is, to, i, at, i);
}

bool ptx_begin_asking(struct printer *p, const struct kir_stmt *loop, const char *n) {
  bool asks = false;
  for (int i = 0; i < p->n_asked; i++) {
    if (p->asked[i].last != loop) continue;
    begin_asking(p, &p->asked[i], n);
    asks = true;
  }
  return asks;
}
