/* gpu_wide.c -- which kernels have entries whose threads take several neighbours of a lane loop: the head of gpu_wide.h lists them.
 *
 * A kernel is one of them if it is par loops around uniform statements and lane loops of one length, whose bodies load and store
 * along the lane. Nothing is printed here but the choice between spread kernels and rows. */
#include "backend/cuda/gpu_wide.h"
#include "base/least.h"

/* What is found while a kernel is looked at. */
struct wide_look {
  const struct survey *s;
  const struct shape_class *shape;
  struct ptx_wide *w;
  int n_statements, least_width;
  bool can, has_stored, has_check, is_alike; /* is_alike: as w->along says */
};

/* Whether two accesses go along rows that begin at the same element of arrays of one dtype: if the arrays are aligned alike, so are
 * the rows. */
static bool begins_alike(const struct kir_kernel *k, const struct kir_stmt *a, const struct kir_stmt *b, int axis) {
  if (k->bufs[a->buf].dtype != k->bufs[b->buf].dtype || a->n_at != b->n_at) return false;
  for (int d = 0; d < a->n_at; d++) if (d != axis && !kir_lin_equal(a->at[d], b->at[d])) return false;
  return true;
}

/* A load or store whose lanes are apart: how far is known where it is launched. */
static void note_apart(struct ptx_wide *w, const struct shape_class *shape, const struct kir_stmt *s, int lane) {
  for (int d = 0; d < s->n_at && w->n_apart < PTX_WIDE_BUFS; d++) {
    if (shape->stride[s->buf][d] != STRIDE_ANY || !ptx_is_only(s->at[d], lane)) continue;
    w->apart[w->n_apart] = s->buf;
    w->apart_axis[w->n_apart++] = d;
  }
}

/* An access of a lane loop: notes what has to be aligned for it, or that the kernel cannot go so. */
static void look_at(struct wide_look *l, const struct kir_stmt *s, const struct kir_stmt *lane) {
  int d = ptx_is_in_memory(l->s->k, s->buf) ? ptx_axis_along(l->shape, s, lane->var) : -1, woven;
  bool by_turns = d < 0 && ptx_is_woven(l->s->k, l->shape, s, lane->var, &woven);
  if (by_turns) d = woven;
  if (by_turns && l->s->is_cooperative) l->can = false; /* a row would have to be aligned from its beginning */
  if (by_turns) l->is_alike = false; /* they are as many times further from the beginning */
  int width = kir_width((weft_dtype)l->s->k->bufs[s->buf].dtype);
  struct ptx_wide *w = l->w;
  if (s->kind == KIR_STORE && survey_is_own(l->s, s->buf)) { /* into a copy, which is dense and aligned whatever the output is */
    if (!l->s->is_once || s->n_at != 1 || !ptx_is_only(s->at[0], lane->var)) l->can = false;
    l->has_stored = true;
    return;
  }
  if (s->kind == KIR_STORE && (s->op != KIR_SET || l->s->bufs[s->buf].is_shared || l->s->bufs[s->buf].is_loaded)) l->can = false;
  l->has_stored |= s->kind == KIR_STORE;
  if (d < 0 && ptx_is_in_memory(l->s->k, s->buf)) note_apart(w, l->shape, s, lane->var);
  if (d < 0) return;
  if (!w->along) w->along = s;
  l->is_alike = l->is_alike && begins_alike(l->s->k, w->along, s, d) && (!w->n_bufs || w->axis[0] == d);
  for (int i = 0; i < w->n_bufs; i++) if (w->bufs[i] == s->buf && w->axis[i] == d) return;
  if (w->n_bufs == PTX_WIDE_BUFS) { l->can = false; return; }
  w->bufs[w->n_bufs] = s->buf, w->axis[w->n_bufs++] = d;
  l->least_width = (int)least(l->least_width, width);
}

/* The body of a lane loop; is_top: not that of a condition in it. */
static void look_in_lanes(struct wide_look *l, const struct kir_block *b, const struct kir_stmt *lane, bool is_top) {
  for (const struct kir_stmt *s = b->first; s; s = s->next) {
    l->n_statements++;
    switch ((enum kir_kind)s->kind) {
    case KIR_OP: case KIR_KEEP: case KIR_YIELD: break;
    case KIR_LOAD: if (is_top) look_at(l, s, lane); break;
    case KIR_STORE: if (is_top) look_at(l, s, lane); else l->can = false; break;
    case KIR_FOLD: if (!is_top || s->n_out != 1 || s->op == KIR_CALL) l->can = false; break;
    case KIR_IF: look_in_lanes(l, &s->body, lane, false); break;
    case KIR_SERIAL:
      if (!is_top || l->s->is_cooperative || l->w->has_columns || !ptx_find_columns(l->s, l->shape, s, lane)) l->can = false;
      for (const struct kir_stmt *x = s->body.first; x && l->can; x = x->next)
        if (x->kind == KIR_LOAD) look_at(l, x, lane);
      l->w->has_columns = true;
      break;
    case KIR_PAR: case KIR_LANE: case KIR_CARRY: case KIR_NEXT: case KIR_UNTIL: case KIR_PREFIX:
    case KIR_LOCALS: case KIR_KINDS: l->can = false; break;
    case KIR_CHECK: /* where one fails, all of its neighbours begin again one by one: nothing may have been stored */
      l->has_check = true;
      if (!is_top || l->has_stored) l->can = false;
      break;
    }
  }
}

static bool same_length(const struct kir_stmt *a, const struct kir_stmt *b) {
  return a->extent == KIR_N && b->extent == KIR_N && kir_lin_equal(a->at[0], b->at[0]);
}

/* par .. { uniform statements and lane loops of one length }; the first loop, or NULL. */
static const struct kir_stmt *look(struct wide_look *l) {
  const struct kir_stmt *first = NULL;
  const struct kir_block *b = &l->s->k->body;
  for (const struct kir_stmt *s = b->first, *next; s && l->can; s = next) {
    next = s->next;
    if (s->kind == KIR_PAR) {
      if (next || ((s->n_private || s->extent != KIR_N) && !(l->s->is_once && s == l->s->private_loop))) l->can = false;
      next = s->body.first;
    } else if (s->kind == KIR_LANE) {
      if (!first) first = s;
      if (!same_length(first, s)) l->can = false;
      look_in_lanes(l, &s->body, s, true);
    } else if (s->kind == KIR_IF || s->kind == KIR_SERIAL || s->kind == KIR_LOCALS) {
      l->can = false;
    }
  }
  return l->can ? first : NULL;
}

/* Whether rows may be longer than registers hold: kept values lie in shared memory then, so they are whole words, and a fold
 * that has an order can be computed from what is kept. */
static bool can_be_long(const struct kir_kernel *k, const struct ptx_plan *plan, const struct kir_block *b) {
  for (const struct kir_stmt *s = b->first; s; s = s->next) {
    for (int i = 0; s->kind == KIR_KEEP && i < s->n_in; i++)
      if (kir_width((weft_dtype)k->vals[s->in[i]].dtype) < 4 || k->vals[s->in[i]].kind != KIR_RESULT) return false;
    if (s->kind == KIR_LANE && ptx_folds_again(k, s) && !ptx_can_fold_again(k, plan, s)) return false;
    if (!can_be_long(k, plan, &s->body)) return false;
  }
  return true;
}

const struct kir_stmt *ptx_find_wide(const struct survey *s, const struct ptx_plan *plan, const struct shape_class *shape,
                                     struct ptx_wide *w) {
  struct wide_look l = { .s = s, .shape = shape, .w = w, .least_width = 16, .can = true, .is_alike = true };
  *w = (struct ptx_wide){ 0 };
  if (s->owned || s->product.is_there || s->is_single || s->is_one_warp) return NULL;
  if (s->private_loop && (!s->is_once || s->is_cooperative)) return NULL;
  if (s->is_cooperative && !s->is_ordered) return NULL; /* few such kernels keep anything */
  const struct kir_stmt *first = look(&l);
  if (!first || !w->n_bufs || (l.has_check && s->is_cooperative)) return NULL;
  w->each = l.least_width <= 2 ? 8 : 16 / l.least_width;
  w->is_rows = s->is_cooperative;
  w->n_folds = ptx_most_folds(s->k, &s->k->body);
  w->fold_bytes = ptx_fold_bytes(s->k, &s->k->body);
  if (w->is_rows ? l.n_statements * PTX_ROW_EACH > PTX_MOST_ROWS : l.n_statements * w->each > PTX_MOST_WIDE) return NULL;
  w->can_be_long = w->is_rows && s->is_dealt && can_be_long(s->k, plan, &s->k->body);
  w->again = w->can_be_long ? ptx_most_again(s->k, plan, &s->k->body) : 0;
  if (!l.is_alike || l.least_width < 2 || l.least_width > 8) w->along = NULL;
  return first;
}

/* The first lane loop: what is before it in the row is uniform. */
const struct kir_stmt *ptx_first_lane_loop(const struct printer *p) {
  const struct kir_stmt *s = p->k->body.first;
  while (s && s->kind != KIR_LANE) s = s->kind == KIR_PAR ? s->body.first : s->next;
  return s;
}

void ptx_wide_body(struct printer *p) { (p->plan->wide.is_rows ? ptx_rows_body : ptx_spread_body)(p); }
