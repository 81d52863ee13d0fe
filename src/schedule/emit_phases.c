/* emit_phases.c -- what each phase needs: which parts its inner loop computes and stores, and which values are kept for later
 * phases instead of being computed again. Nothing is written here. */
#include <string.h>
#include "schedule/emit.h"

enum { KEEP_LIMIT = 16384 }; /* longer rows are loaded and computed again, unless a device has room to keep them */

static bool moves_inside(const struct emit *e, const struct part *p) { /* where it is stored; its value may stand still */
  int64_t s[AXES];
  if (!p->item->is_stored || e->inner < 0) return false;
  emit_stored_strides(p, s);
  return s[e->inner] != 0;
}

bool emit_stores_inside(const struct emit *e, const struct part *p) { return !emit_is_fold(p) && moves_inside(e, p); }

void emit_need_operands(struct emit *e, struct part *p) {
  for (int k = 0; k < p->n_in; k++) {
    if (p->in[k].from == FROM_PART) {
      struct part *q = &e->part[p->in[k].i];
      *(q->is_inner ? &q->need : &q->need_mid) = true;
    } else if (p->in[k].from == FROM_ACCESS) {
      struct emit_access *a = &e->access[p->in[k].i];
      if (!a->n_index) *(a->is_inner ? &a->need : &a->need_mid) = true;
    }
  }
}

/* Whether part p has something to do in the inner loop of phase f. */
bool emit_is_root(const struct emit *e, const struct part *p, int f) {
  if (emit_runs_inside(e, p)) return p->fold_phase == f;
  if (emit_is_sink(e, p)) return p->fold_phase == f && p->in[0].from != FROM_ACCESS && moves_inside(e, p);
  return emit_stores_inside(e, p) && p->phase == f;
}
bool emit_sinks_access(const struct emit *e, const struct part *p, int f) { /* a fold straight from memory */
  return emit_is_sink(e, p) && p->in[0].from == FROM_ACCESS && p->fold_phase == f && moves_inside(e, p);
}

/* Marks what the inner loop of phase f computes. false: nothing to do there. */
bool emit_need_phase(struct emit *e, int f, const bool had_part[]) {
  bool any = false;
  for (int i = 0; i < e->n_parts; i++) {
    struct part *p = &e->part[i];
    if (!emit_is_root(e, p, f) && !emit_sinks_access(e, p, f)) continue;
    any = true;
    if (emit_is_fold(p)) emit_need_operands(e, p);
    else if (p->is_inner) p->need = true;
    else p->need_mid = true;
  }
  for (int i = e->n_parts - 1; i >= 0; i--) {
    struct part *p = &e->part[i];
    if (p->need && !(had_part[i] && e->keeps)) emit_need_operands(e, p);
  }
  return any;
}

/* Which values of one phase a later one uses again: those are kept, if any are. */
static bool mark_kept(struct emit *e) {
  bool *had_part = work_take(e->w, (size_t)e->n_parts), *had_access = work_take(e->w, MOST_ACCESSES);
  if (!had_part || !had_access) return false;
  for (int f = 0; f < e->n_phases; f++) {
    emit_need_phase(e, f, had_part);
    for (int i = 0; i < e->n_parts; i++) {
      struct part *p = &e->part[i];
      if (p->need && had_part[i] && e->keeps) p->is_kept = true, p->kept_to = f;
      if (p->need && !had_part[i]) p->kept_from = f;
      had_part[i] |= p->need;
      p->need = p->need_mid = false;
    }
    for (int i = 0; i < e->n_access; i++) {
      struct emit_access *a = &e->access[i];
      if (a->need && had_access[i] && e->keeps) a->is_kept = true, a->kept_to = f;
      if (a->need && !had_access[i]) a->kept_from = f;
      had_access[i] |= a->need;
      a->need = a->need_mid = false;
    }
  }
  return true;
}

static int64_t bytes_in_row(weft_dtype t) { return kir_width(t) < 4 ? 4 : kir_width(t); }

/* Of all that is kept from a phase to the next, for an element of the row, where that is most. */
static int64_t most_kept(const struct emit *e) {
  int64_t most = 0;
  for (int f = 0; f < e->n_phases; f++) {
    int64_t all = 0;
    for (int i = 0; i < e->n_parts; i++)
      if (e->part[i].is_kept && e->part[i].kept_from <= f && f < e->part[i].kept_to) all += bytes_in_row(e->part[i].node->dtype);
    for (int i = 0; i < e->n_access; i++)
      if (e->access[i].is_kept && e->access[i].kept_from <= f && f < e->access[i].kept_to) all += bytes_in_row(e->access[i].dtype);
    if (all > most) most = all;
  }
  return most;
}

/* Rows that are long are kept if the device has room for them near its threads. */
bool emit_find_kept(struct emit *e) {
  bool is_rows = e->form == FORM_ROWS && e->inner >= 0, is_short = is_rows && e->axes.extent[e->inner] <= KEEP_LIMIT;
  int64_t room = is_rows && !e->is_split && e->w->device ? (int64_t)e->w->device->row_bytes : 0;
  e->keeps = is_short || room;
  if (!mark_kept(e)) return false;
  if (is_short || !e->keeps || most_kept(e) <= room / e->axes.extent[e->inner]) return true;
  e->keeps = false;
  for (int i = 0; i < e->n_parts; i++) e->part[i].is_kept = false;
  for (int i = 0; i < e->n_access; i++) e->access[i].is_kept = false;
  return true;
}
