/* emit.c -- writes the kernel of a group, and makes a step of it: the head of emit.h says how. Here are the kernel's header and
 * what the step tells of itself. */
#include <string.h>
#include "schedule/emit.h"

/* Along n axes, of sizes (0) and of variables that go along them (1). */
static const char *axis_name(int n, int i, int kind) {
  static const char *const one[] = { "N", "i" }, *const two[][2] = { { "R", "C" }, { "r", "c" } };
  static const char *const more[][AXES] = { { "A", "B", "C", "D", "E", "F", "G", "H", "I", "J", "K", "L" },
                                            { "a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l" } };
  _Static_assert(AXES == 12, "a letter for each axis");
  return n == 1 ? one[kind] : n == 2 ? two[kind][i] : more[kind][i];
}

const char *emit_var_name(struct emit *e, int axis) {
  const struct axes *x = &e->axes;
  for (int i = 0; i < x->n_live; i++) if (x->live[i] == axis) return axis_name(x->n_live, i, 1);
  return "i";
}

/* Indexed axes first, then the axes it moves along. */
static void declare_access(struct emit *e, struct emit_access *a) {
  struct reach r = { .store = a->store, .offset = a->offset };
  for (int j = 0; j < a->n_index; j++) {
    a->index_val[j] = draft_sized(&e->d, "V", e->d.n_sizes, a->index_size[j]);
    reach_along(&r, emit_lin(e, a->index_val[j]), a->index_stride[j]);
  }
  axes_reach(&e->axes, &e->d, a->stride, &r);
  a->buf = draft_buffer(&e->d, NULL, KIR_IN, a->dtype, &r);
}

static void declare_stored(struct emit *e, struct part *p) {
  struct reach r = { .store = p->item->place.store, .offset = p->item->place.offset };
  int64_t stride[AXES];
  emit_stored_strides(p, stride);
  axes_reach(&e->axes, &e->d, stride, &r);
  p->buf = draft_buffer(&e->d, NULL, KIR_OUT, (weft_dtype)p->node->dtype, &r);
}

static void kernel_name(struct emit *e, char name[48]) {
  int n = 0;
  const char *last = "";
  for (int i = 0; i < e->n_parts; i++) {
    const char *s = e->part[i].node->op->name;
    if (!strcmp(s, last) || n + (int)strlen(s) + 1 > 40) continue;
    last = s;
    if (n) name[n++] = '_';
    for (; *s; s++) name[n++] = *s;
  }
  name[n] = 0;
}

static bool declare(struct emit *e) {
  struct axes *x = &e->axes;
  char name[48];
  kernel_name(e, name);
  if (!draft_begin(&e->d, e->w, name)) return false;
  for (int i = 0; i < x->n_live; i++)
    x->size[x->live[i]] = draft_size(&e->d, axis_name(x->n_live, i, 0), x->extent[x->live[i]]);
  for (int i = 0; i < e->n_access; i++) declare_access(e, &e->access[i]);
  for (int i = 0; i < e->n_parts; i++) if (e->part[i].item->is_stored) declare_stored(e, &e->part[i]);
  return true;
}

static double walked(const struct emit *e, const int64_t stride[]) {
  double n = 1;
  for (int i = 0; i < e->axes.n_live; i++) if (stride[e->axes.live[i]]) n *= (double)e->axes.extent[e->axes.live[i]];
  return n;
}

static void account(struct emit *e) {
  const struct schedule *s = e->w->out;
  int64_t stride[AXES];
  double points = 1, bytes = 0;
  for (int i = 0; i < e->n_access; i++)
    bytes += walked(e, e->access[i].stride) * (double)weft_dtype_bytes(e->access[i].dtype);
  for (int i = 0; i < e->n_parts; i++)
    if (e->part[i].item->is_stored && s->store[e->part[i].item->place.store].bytes) {
      emit_stored_strides(&e->part[i], stride);
      bytes += walked(e, stride) * (double)weft_dtype_bytes((weft_dtype)e->part[i].node->dtype);
    }
  for (int i = 0; i < e->axes.n_live; i++) points *= (double)e->axes.extent[e->axes.live[i]];
  step_add_cost(e->w, bytes, points * e->n_parts, 1);
}

/* What the runner has to know about rows of cells. */
static void name_rows(struct emit *e) {
  struct contraction *c = e->product;
  c->has_whole_rows = e->g->has_row || e->g->feeds;
  c->feeds = e->g->feeds;
  for (int axis = 0; axis < c->n_axes; axis++)
    if (!(c->has_whole_rows && axis == c->column_axis) && !emit_all_move(e, axis)) c->has_still = true;
  for (int i = 0; c->feeds && i < e->n_parts; i++) {
    if (!e->part[i].item->is_stored) continue;
    c->fed = e->part[i].buf;
    c->is_banded = chain_is_banded(e->w, e->part[i].node, &c->band);
  }
}

static void name_piece(struct emit *e) {
  struct schedule *s = e->w->out;
  e->maker->step = s->n_steps - 1;
  s->step[s->n_steps - 1].kind = &step_maker;
  for (int i = 0; i < e->n_parts; i++) if (e->part[i].item->is_stored) e->maker->piece = e->part[i].buf;
}

/* How long the rows are that are folded, and how many: those of a column are one after the other. */
static void name_row(struct emit *e) {
  e->d.row = e->axes.extent[e->inner], e->d.n_rows = 1;
  for (int i = 0; i < e->axes.n_live; i++) {
    int a = e->axes.live[i];
    if (a != e->inner && a != e->column && __builtin_mul_overflow(e->d.n_rows, e->axes.extent[a], &e->d.n_rows)) e->d.n_rows = 0;
  }
}

bool step_group(struct work *w, struct group *g) {
  struct emit *e = w->emit; /* one for all groups: it is large */
  if (e) memset(e, 0, sizeof *e);
  else e = w->emit = work_take(w, sizeof *e);
  if (!e) return false;
  e->w = w;
  e->g = g;
  memset(e->first, -1, sizeof e->first);
  if (g->product) {
    const struct item *x = &w->item[g->product->slot];
    if (!(e->product = contraction_of(w, g))) return false;
    if (g->n_items == 1 && contraction_fits(w, e->product, x)) return step_contract(w, e->product, x);
  }
  e->maker = g->maker;
  e->start = g->maker ? g->maker->start : e->product ? e->product->start : NULL;
  if (!emit_collect(e)) return false;
  emit_choose_form(e);
  emit_find_phases(e);
  axes_merge(&e->axes, emit_may_merge, e);
  e->is_split = emit_splits(e);
  if (!emit_find_kept(e) || !declare(e)) return false;
  if (!emit_nest(e) || !draft_is_relayed(&e->d, g)) return draft_drop(&e->d), false;
  bool folds_rows = e->form == FORM_ROWS && e->g->has_row && e->axes.n_live > 1;
  if (folds_rows && !e->product) name_row(e); /* cells of a product have extents of their own */
  if (!draft_end(&e->d)) return false;
  account(e);
  if (e->maker) name_piece(e);
  if (e->product) {
    struct step *s = &w->out->step[w->out->n_steps - 1];
    e->product->cell = e->access[e->cell].buf;
    name_rows(e);
    s->kind = &step_product, s->contraction = e->product;
    contract_account(w, e->product);
  }
  return true;
}
