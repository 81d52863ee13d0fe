/* gpu_columns.c -- loops in lanes, such as sums along columns, of which a thread has several neighbours: part of the entry of
 * gpu_spread.c.
 *
 * The steps of such a loop are printed once for each neighbour. Several of them at a time are loaded ahead, 16 bytes of each array
 * a step. Each neighbour has a fold of its own, in the order of the main entry: blocks of 128 steps, which a counter combines.
 *
 * Lanes with two such loops, as of logsumexp, read twice what they fold, and find part of it in a cache if threads have but one
 * column: they are none of these (8192 rows of 4096 on an H200: 0.093 ms, 0.081 without). */
#include "backend/cuda/gpu_wide.h"

enum { MOST_LOADS = 4, MOST_STEPS = 16, MOST_FOLDS = 4, MOST_PRINTED = 700 };

static bool loads_along(const struct shape_class *shape, const struct kir_stmt *s, const struct kir_stmt *lane) {
  return s->kind == KIR_LOAD && ptx_axis_along(shape, s, lane->var) >= 0;
}

bool ptx_find_columns(const struct survey *s, const struct shape_class *shape, const struct kir_stmt *loop,
                      const struct kir_stmt *lane) {
  int n_loads = 0, n_folds = 0;
  if (loop->extent == KIR_BLOCKS) return false;
  for (const struct kir_stmt *x = loop->body.first; x; x = x->next) {
    if (x->kind != KIR_OP && x->kind != KIR_LOAD && x->kind != KIR_FOLD) return false;
    if (x->kind == KIR_FOLD && (x->n_out != 1 || x->op == KIR_CALL || ++n_folds > MOST_FOLDS)) return false;
    if (x->kind != KIR_LOAD) continue;
    if (s->k->bufs[x->buf].kind != KIR_IN || !ptx_is_steady(loop, x)) return false;
    for (int d = 0; d < x->n_at; d++) if (survey_mentions(x->at[d], lane->var) && !loads_along(shape, x, lane)) return false;
    n_loads += loads_along(shape, x, lane);
  }
  return n_folds && n_loads && n_loads <= MOST_LOADS;
}

struct columns {
  const struct kir_stmt *loop, *lane;
  int each, n_loads, n_folds;
  const struct kir_stmt *load[MOST_LOADS], *fold[MOST_FOLDS];
  const char *at[MOST_LOADS], *by[MOST_LOADS]; /* the address of this step, and how far it is to the next */
  struct ptx_counter counter[MOST_FOLDS][PTX_WIDE];
  const char *raw[MOST_STEPS][MOST_LOADS][PTX_WIDE];
  struct where w;
};

/* How many steps at a time: 16 of one array (8 are as fast), fewer of several, or where the text would be long. */
static int steps_of(const struct columns *c) {
  int n = 0, steps = MOST_STEPS;
  for (const struct kir_stmt *s = c->loop->body.first; s; s = s->next) n++;
  while (steps > 2 && (steps * c->n_loads > MOST_STEPS || steps * c->each * n > MOST_PRINTED)) steps /= 2;
  return steps;
}

/* Does it for every fold of every neighbour, whose counter it has meanwhile. */
static void for_folds(struct printer *p, struct columns *c, void (*what)(struct printer *, const struct kir_stmt *)) {
  for (int f = 0; f < c->n_folds; f++)
    for (int e = 0; e < c->each; e++) {
      struct ptx_counter *own = &p->counter[c->fold[f]->out[0]];
      p->reg = p->wide[e];
      *own = c->counter[f][e];
      what(p, c->fold[f]);
      c->counter[f][e] = *own;
    }
  p->reg = p->wide[0];
}

static void find(struct printer *p, struct columns *c) {
  const char *var = ptx_val(p, c->loop->var);
  for (const struct kir_stmt *s = c->loop->body.first; s; s = s->next) {
    if (s->kind == KIR_FOLD) c->fold[c->n_folds++] = s;
    if (!loads_along(p->shape, s, c->lane)) continue;
    const char *at = ptx_own(p, OWN_LONG), *by = ptx_own(p, OWN_LONG);
    ptx_line(p, "mov.s64 %s, %s", at, ptx_address(p, s->buf, s->at));
    ptx_line(p, "add.s64 %s, %s, 1", var, var);
    ptx_line(p, "sub.s64 %s, %s, %s", by, ptx_address(p, s->buf, s->at), at);
    ptx_line(p, "sub.s64 %s, %s, 1", var, var);
    c->at[c->n_loads] = at, c->by[c->n_loads] = by, c->load[c->n_loads++] = s;
  }
}

static void load_step(struct printer *p, struct columns *c, int step) {
  for (int i = 0; i < c->n_loads; i++) {
    ptx_load_raw(p, c->load[i], ".global.nc", c->at[i], c->each, c->raw[step][i]);
    ptx_line(p, "add.s64 %s, %s, %s", c->at[i], c->at[i], c->by[i]);
  }
}

static void compute_step(struct printer *p, struct columns *c, int step) {
  int element[PTX_WIDE], i = 0;
  for (int e = 0; e < c->each; e++) element[e] = e;
  for (const struct kir_stmt *s = c->loop->body.first; s; s = s->next) {
    if (s->kind == KIR_FOLD) {
      for (int e = 0; e < c->each; e++) p->reg = p->wide[e], ptx_accumulate(p, s);
      p->reg = p->wide[0];
    } else if (i < c->n_loads && s == c->load[i]) {
      ptx_take_raw(p, s, c->each, element, c->raw[step][i++]);
    } else {
      ptx_wide_statement(p, s, c->lane, 0, c->each, c->w);
    }
  }
  ptx_line(p, "add.s64 %s, %s, 1", ptx_val(p, c->loop->var), ptx_val(p, c->loop->var));
}

/* So many steps at a time, while there are as many before `end`. */
static void together(struct printer *p, struct columns *c, const char *end, int steps) {
  const char *far = ptx_own(p, OWN_LONG), *is = ptx_own(p, OWN_PRED);
  const char *again = ptx_label(p, "steps"), *leave = ptx_label(p, "leave");
  ptx_place_loop(p, again);
  ptx_line(p, "add.s64 %s, %s, %d", far, ptx_val(p, c->loop->var), steps);
  ptx_line(p, "setp.gt.s64 %s, %s, %s", is, far, end);
  ptx_line(p, "@%s bra %s", is, leave);
  for (int i = 0; i < steps; i++) load_step(p, c, i);
  for (int i = 0; i < steps; i++) compute_step(p, c, i);
  ptx_line(p, "bra %s", again);
  ptx_place(p, leave);
}

static bool has_order(struct printer *p, const struct columns *c) {
  for (int f = 0; f < c->n_folds; f++) if (ptx_is_ordered(p->k, c->fold[f])) return true;
  return false;
}

/* Up to r.hi; blocks of 128 steps where a fold has an order. */
static void steps(struct printer *p, struct columns *c, struct ptx_range r) {
  const char *var = ptx_val(p, c->loop->var), *end = r.hi, *is = ptx_own(p, OWN_PRED);
  const char *again = ptx_label(p, "block"), *first = ptx_label(p, "first"), *over = ptx_label(p, "over");
  bool in_blocks = has_order(p, c);
  if (in_blocks) {
    ptx_place_loop(p, again);
    ptx_line(p, "setp.ge.s64 %s, %s, %s", is, var, r.hi);
    ptx_line(p, "@%s bra %s", is, over);
    ptx_line(p, "setp.eq.s64 %s, %s, %s", is, var, r.lo);
    ptx_line(p, "@%s bra %s", is, first);
    for_folds(p, c, ptx_serial_block);
    ptx_place(p, first);
    ptx_line(p, "add.s64 %s, %s, %d", end = ptx_own(p, OWN_LONG), var, KIR_COLUMN_BLOCK);
    ptx_line(p, "min.s64 %s, %s, %s", end, end, r.hi);
  }
  together(p, c, end, steps_of(c));
  together(p, c, end, 1);
  if (in_blocks) ptx_line(p, "bra %s", again), ptx_place(p, over);
}

void ptx_columns(struct printer *p, const struct kir_stmt *loop, const struct kir_stmt *lane, int each, struct where w) {
  struct columns *c = arena_take(p->arena, sizeof *c);
  if (!c) { ptx_refuse(p, ""); return; }
  *c = (struct columns){ .loop = loop, .lane = lane, .each = each, .w = w };
  struct ptx_range r = ptx_range_of(p, loop);
  ptx_line(p, "mov.s64 %s, %s", ptx_val(p, loop->var), r.lo);
  find(p, c);
  for_folds(p, c, ptx_serial_start);
  steps(p, c, r);
  for_folds(p, c, ptx_serial_end);
}
