/* emit_nest.c -- the loops of a kernel, from outside in: par loops, blocks and spans, the inner loop of each phase, and what stands
 * between them. */
#include <string.h>
#include "schedule/emit.h"

/* Pieces for threads of folds with few results: nodes of the tree of blocks, so bits stay. */
enum { ROW_SPAN = 4 * KIR_ROW_BLOCK, COLUMN_SPAN = 16 * KIR_COLUMN_BLOCK };

/* How a part that folds combines; a tuple has a function instead. */
static enum kir_op combiner(const struct part *p) { return p->node->op->fold->op; }

static void open_axis(struct emit *e, enum kir_kind kind, int axis) {
  e->axes.var[axis] = kir_loop(&e->d.b, kind, emit_var_name(e, axis), emit_lin(e, e->axes.size[axis]));
}

static void fold_inside(struct emit *e, struct part *p) {
  const struct fold *f = p->node->op->fold;
  int x = emit_in_value(e, p, 0), in[4], from[4];
  if (!f->n) {
    p->result[0] = kir_fold(&e->d.b, f->op, KIR_PLAIN, x);
    return;
  }
  f->lift(&e->d.b, p->node, x, e->axes.var[e->inner], in);
  f->from(&e->d.b, p->node, from);
  kir_fold_fn(&e->d.b, p->fn, KIR_PLAIN, f->n, in, from, p->result);
}

/* A part that is the index itself is that of the loop: nobody need keep it. */
static bool is_index(const struct part *p, int var) { return p->is_inner && emit_is_ready(p) && p->value == var; }

static void open_inner(struct emit *e) {
  enum kir_kind kind = e->form == FORM_ROWS ? KIR_LANE : KIR_SERIAL;
  int before = e->axes.var[e->inner];
  if (e->is_split) e->axes.var[e->inner] = kir_loop_block(&e->d.b, kind, emit_var_name(e, e->inner), e->block_var);
  else open_axis(e, kind, e->inner);
  for (int i = 0; i < e->n_parts; i++) if (is_index(&e->part[i], before)) e->part[i].value = e->axes.var[e->inner];
}

/* One inner loop: what phase f computes, folds, keeps and stores. */
static void inner_loop(struct emit *e, int f, const bool had_part[], const bool had_access[]) {
  open_inner(e);
  for (int i = 0; i < e->n_parts; i++) {
    struct part *p = &e->part[i];
    if (p->need && !emit_is_ready(p)) emit_evaluate(e, p);
    if (emit_is_root(e, p, f) || emit_sinks_access(e, p, f)) {
      if (emit_runs_inside(e, p)) fold_inside(e, p);
      else if (emit_is_sink(e, p)) emit_store(e, p, combiner(p), emit_in_value(e, p, 0));
      else emit_store(e, p, KIR_SET, p->value);
    }
  }
  for (int i = 0; i < e->n_access; i++)
    if (e->access[i].is_kept && e->access[i].value >= 0 && !had_access[i]) kir_keep(&e->d.b, e->access[i].value);
  for (int i = 0; i < e->n_parts; i++)
    if (e->part[i].is_kept && emit_is_ready(&e->part[i]) && !had_part[i] && !is_index(&e->part[i], e->axes.var[e->inner]))
      kir_keep(&e->d.b, e->part[i].value);
  kir_end(&e->d.b);
}

static void forget_inner(struct emit *e) { /* what was not kept is gone with its loop */
  for (int i = 0; i < e->n_parts; i++) if (e->part[i].is_inner && !e->part[i].is_kept) e->part[i].value = -1;
  for (int i = 0; i < e->n_access; i++) if (e->access[i].is_inner && !e->access[i].is_kept) e->access[i].value = -1;
}

/* Whether p is a plain value that stands between the inner loops. */
static bool stands_between(const struct emit *e, const struct part *p) {
  return !p->is_inner && !emit_runs_inside(e, p) && !emit_is_sink(e, p);
}

/* The value of a fold, once its loop is over. */
static int finished(struct emit *e, struct part *p) {
  const struct fold *f = p->node->op->fold;
  int v = f->n ? f->finish(&e->d.b, p->node, p->result) : p->result[0];
  return kir_cast(&e->d.b, (weft_dtype)p->node->dtype, v);
}

/* Values between the loops of phases f - 1 and f: results of folds, and what is wanted now or stored. */
static void between(struct emit *e, int f) {
  for (int i = 0; i < e->n_parts; i++) {
    struct part *p = &e->part[i];
    if (stands_between(e, p) && p->phase == f && p->item->is_stored && !emit_stores_inside(e, p)) p->need_mid = true;
  }
  for (int i = e->n_parts - 1; i >= 0; i--) {
    struct part *p = &e->part[i];
    if (p->need_mid && stands_between(e, p) && !emit_is_ready(p)) emit_need_operands(e, p);
  }
  for (int i = 0; i < e->n_parts; i++) {
    struct part *p = &e->part[i];
    if (p->phase > f || p->is_inner) continue;
    if (emit_runs_inside(e, p) && p->phase == f && !emit_is_ready(p) && !e->is_split) p->value = finished(e, p);
    else if (p->need_mid && !emit_is_ready(p) && !emit_is_fold(p)) emit_evaluate(e, p);
    bool is_due = p->item->is_stored && !p->is_stored_already && emit_is_ready(p);
    if (is_due && !emit_stores_inside(e, p) && !emit_is_sink(e, p)) emit_store(e, p, KIR_SET, p->value);
  }
}

/* Column folds of values that stand between the loops: private stores, or folds of the loop over the column axis. */
static void sink_values(struct emit *e, int f) {
  for (int i = 0; i < e->n_parts; i++) {
    struct part *p = &e->part[i];
    if (!emit_is_sink(e, p) || p->fold_phase != f || emit_is_root(e, p, f) || emit_sinks_access(e, p, f)) continue;
    int v = emit_in_value(e, p, 0);
    if (e->is_private) emit_store(e, p, combiner(p), v);
    else p->result[0] = kir_fold(&e->d.b, combiner(p), KIR_PLAIN, v);
  }
}

static bool phases(struct emit *e) {
  bool *had_part = work_take(e->w, (size_t)e->n_parts), *had_access = work_take(e->w, MOST_ACCESSES);
  if (!had_part || !had_access) return false;
  for (int f = 0; f < e->n_phases; f++) {
    bool any = emit_need_phase(e, f, had_part);
    for (int i = 0; i < e->n_parts; i++) { /* column folds of this phase want their operand */
      struct part *p = &e->part[i];
      bool is_between = emit_is_sink(e, p) && p->fold_phase == f;
      if (is_between && !emit_is_root(e, p, f) && !emit_sinks_access(e, p, f)) emit_need_operands(e, p);
    }
    for (int i = 0; i < e->n_access; i++) /* loads that do not vary stand before the loop */
      if (e->access[i].need_mid && e->access[i].value < 0 && !e->access[i].is_inner)
        e->access[i].value = emit_load(e, &e->access[i]);
    between(e, f);
    sink_values(e, f);
    if (any) inner_loop(e, f, had_part, had_access);
    for (int i = 0; i < e->n_parts; i++) had_part[i] |= e->part[i].need;
    for (int i = 0; i < e->n_access; i++) had_access[i] |= e->access[i].need;
    forget_inner(e);
    for (int i = 0; i < e->n_parts; i++) e->part[i].need = e->part[i].need_mid = false;
    for (int i = 0; i < e->n_access; i++) e->access[i].need = e->access[i].need_mid = false;
  }
  return true;
}

static void make_fns(struct emit *e) {
  for (int i = 0; i < e->n_parts; i++) {
    struct part *p = &e->part[i];
    if (emit_is_fold(p) && p->node->op->fold->n) p->fn = p->node->op->fold->combine(&e->d.b, p->node);
  }
}

/* Blocks of an axis, each with copies of what is folded over it; merged in order. */
static int open_blocks(struct emit *e, int axis, int width) {
  int q = kir_loop_blocks(&e->d.b, "q", emit_lin(e, e->axes.size[axis]), kir_lin_const(e->d.k, width));
  for (int i = 0; i < e->n_parts; i++) {
    struct part *p = &e->part[i];
    if (e->is_split ? emit_is_fold(p) : emit_is_sink(e, p)) kir_private(&e->d.b, p->buf, combiner(p));
  }
  return q;
}

static int64_t span_of(const struct emit *e) {
  return e->form == FORM_ROWS ? ROW_SPAN : e->w->by_patches ? COLUMN_SPAN : KIR_COLUMN_BLOCK;
}

/* Opens the loops around the phases; how many. */
static int open_loops(struct emit *e) {
  int opened = 0;
  if (e->is_split) e->block_var = open_blocks(e, e->inner, span_of(e)), opened++;
  for (int i = 0; i < e->axes.n_live; i++) {
    int a = e->axes.live[i];
    if (a != e->inner && a != e->lane && a != e->column) open_axis(e, KIR_PAR, a), opened++;
  }
  if (e->column >= 0 && e->is_private) {
    int q = open_blocks(e, e->column, KIR_COLUMN_BLOCK);
    e->axes.var[e->column] = kir_loop_block(&e->d.b, KIR_SERIAL, emit_var_name(e, e->column), q);
    opened += 2;
  } else if (e->column >= 0) open_axis(e, KIR_SERIAL, e->column), opened++;
  if (e->lane >= 0) open_axis(e, KIR_LANE, e->lane), opened++;
  return opened;
}

bool emit_nest(struct emit *e) {
  make_fns(e);
  int opened = open_loops(e);
  if (!phases(e)) return false;
  for (int i = 0; e->is_split && i < e->n_parts; i++) /* into the copies of the block */
    if (emit_is_fold(&e->part[i])) emit_store(e, &e->part[i], combiner(&e->part[i]), e->part[i].result[0]);
  if (e->column >= 0 && !e->is_private) {
    kir_end(&e->d.b);
    opened--;
    for (int i = 0; i < e->n_parts; i++)
      if (emit_is_sink(e, &e->part[i])) emit_store(e, &e->part[i], KIR_SET, finished(e, &e->part[i]));
  }
  while (opened--) kir_end(&e->d.b);
  return true;
}
