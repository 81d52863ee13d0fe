/* steps.c -- the statements of a run, the mask each acts under, and where what it reads and writes is used next. See emission.h. */
#include "backend/nest/emission.h"
#include <string.h>

static void *filled(struct arena *a, size_t bytes, int byte) {
  void *p = arena_take(a, bytes);
  return p ? memset(p, byte, bytes) : NULL;
}

bool emission_open(struct emission *g) {
  size_t n = (size_t)g->k->n_vals + MAX_ACTIVE, copies = n * COPIES;
  g->vals = arena_take(g->arena, n * sizeof *g->vals);
  g->where = filled(g->arena, copies, 0xFF);
  g->spill = filled(g->arena, copies * sizeof *g->spill, 0xFF);
  g->next = arena_take(g->arena, copies * sizeof *g->next);
  g->upcoming = arena_take(g->arena, n * sizeof *g->upcoming);
  if (!g->vals || !g->where || !g->spill || !g->next || !g->upcoming) return false;
  for (size_t i = 0; i < n; i++) g->upcoming[i] = NEVER;
  for (int r = 0; r < REGISTERS_MOST; r++) g->holder[r] = -1;
  return true;
}

int active_value(struct emission *g) {
  if (g->n_active == MAX_ACTIVE) { nest_cannot(nest_in(g), "too many nested conditions"); return g->k->n_vals; }
  int val = g->k->n_vals + g->n_active++;
  struct gen_value *v = &g->vals[val];
  if (!v->home) v->home = nest_slot_vector(nest_in(g), COPIES);
  *v = (struct gen_value){ .domain = BOOL, .dtype = WEFT_BOOL, .lane = true, .crosses = true, .home = v->home,
                       .row = -1, .pin = -1, .want = -1, .loop = g->loop, .region = -1 };
  return val;
}

bool value_is_packed(const struct emission *g, int val) {
  if (g->short_loop < 0 || g->group <= 1 || !g->now->in_lanes) return false;
  const struct gen_value *v = &g->vals[val];
  bool is_inside = v->loop >= g->short_loop && v->loop < g->loops[g->short_loop].end;
  return !v->lane && v->domain == VECTOR && !nest_is_literal(nest_seen_in(g), val) && !v->is_fixed && is_inside;
}

/* Ends a run: a loop, a branch, or what takes turns with itself. */
bool is_apart(const struct emission *g, const struct kir_stmt *s) {
  if (s->kind == KIR_PREFIX) return true;
  return s->kind == KIR_FOLD && (s->op == KIR_CALL || fold_is_across(&g->loops[g->loop], s));
}
bool ends_run(const struct emission *g, const struct kir_stmt *s) {
  if (s->kind == KIR_IF) return !nest_aside_of(nest_seen_in(g), s);
  return s->kind == KIR_PAR || s->kind == KIR_SERIAL || s->kind == KIR_LANE || is_apart(g, s);
}

bool reads_memory(const struct kir_stmt *s) { return s->kind == KIR_LOAD || s->kind == KIR_STORE; }

/* ---- Statements and their masks ---- */

static bool is_hoisted(const struct emission *g, const struct kir_stmt *s, int site) {
  if (s->kind == KIR_CHECK) return g->hoisted_check[site];
  return (s->kind == KIR_OP || s->kind == KIR_LOAD) && g->vals[s->out[0]].hoisted;
}

/* The mask that a statement acts under. State of a loop only heeds what has happened since its iteration began. */
int mask_for(const struct emission *g, const struct kir_stmt *s, int active) {
  bool is_state = s->kind == KIR_NEXT || ((s->kind == KIR_FOLD || s->kind == KIR_PREFIX) && g->loop != g->lane_loop);
  switch ((enum kir_kind)s->kind) {
  case KIR_LOAD: case KIR_STORE: case KIR_FOLD: case KIR_PREFIX: case KIR_NEXT: case KIR_YIELD: case KIR_CHECK: case KIR_UNTIL:
    return is_state && active == g->active_at_loop && !g->loops[g->loop].has_until ? -1 : active;
  case KIR_OP: case KIR_PAR: case KIR_SERIAL: case KIR_LANE: case KIR_IF: case KIR_CARRY: case KIR_KEEP:
  case KIR_LOCALS: case KIR_KINDS: break;
  }
  return -1;
}

static void pass_over(struct emission *g, const struct kir_block *b) {
  for (const struct kir_stmt *s = b->first; s; s = s->next) {
    g->memory_cursor += reads_memory(s);
    g->check_cursor += s->kind == KIR_CHECK;
    pass_over(g, &s->body);
  }
}

/* The statements up to the next loop or branch; of those hoisted, all: nothing inside a branch is. A check in lanes gives
 * the rest of the block another mask, or is expected to hold for all of them. */
int steps_collect(struct emission *g, const struct kir_stmt *s, bool hoisted) {
  int n = 0, active = g->active;
  bool in_lanes = g->lane_loop >= 0 && !hoisted;
  for (; s && (hoisted || !ends_run(g, s)); s = s->next) {
    pass_over(g, &s->body);
    int access = reads_memory(s) ? g->access_of[g->memory_cursor++] : -1;
    int site = s->kind == KIR_CHECK ? g->check_cursor++ : -1;
    if (ends_run(g, s) || is_hoisted(g, s, site) != hoisted) continue;
    if (!nest_grow(nest_in(g), (void **)&g->steps, &g->step_room, n + 1, sizeof *g->steps)) return 0;
    int mask = in_lanes ? mask_for(g, s, active) : -1;
    if (in_lanes && s->kind == KIR_CHECK && (active >= 0 || g->careful < 0)) active = active_value(g);
    const struct kir_stmt *other = s->kind == KIR_OP ? g->vals[s->out[0]].stand_in : nest_aside_of(nest_seen_in(g), s);
    g->steps[n++] = (struct gen_step){ .s = other ? other : s, .access = access, .site = site, .mask = mask, .mask_after = active };
  }
  g->active = active;
  return n;
}

static bool has_operands(const struct kir_stmt *s) { return s->kind != KIR_CARRY && s->kind != KIR_KEEP; }
bool has_result(const struct kir_stmt *s) { return s->kind == KIR_OP || s->kind == KIR_LOAD || s->kind == KIR_IF; }

/* Whether the run itself gives its result a register. */
static bool defines(const struct emission *g, const struct kir_stmt *s) {
  return has_result(s) || (g->short_loop >= 0 && s->kind == KIR_FOLD);
}

static void set_next(struct emission *g, int val, int32_t at) {
  for (int c = 0; c < (g->vals[val].lane ? g->copies : 1); c++) g->next[val * COPIES + c] = at;
}

static void set_first_use(struct emission *g, int val) {
  if (g->upcoming[val] == NEVER) return;
  set_next(g, val, g->upcoming[val]);
  g->upcoming[val] = NEVER;
}

/* Nobody will read its result: it is left out, and does not use its operands. */
static bool is_dead(const struct emission *g, const struct gen_step *t) {
  if (!defines(g, t->s)) return t->s->kind == KIR_CARRY || t->s->kind == KIR_LOCALS;
  const struct gen_value *v = &g->vals[t->s->out[0]];
  return t->next_out == NEVER && !v->crosses && v->row < 0 && v->domain != SCALAR;
}

/* From the back: where each operand and result is used next within the run. */
void steps_find_next_uses(struct emission *g, int n) {
  for (int i = n - 1; i >= 0; i--) {
    struct gen_step *t = &g->steps[i];
    const struct kir_stmt *s = t->s;
    t->next_out = defines(g, s) ? g->upcoming[s->out[0]] : NEVER;
    t->is_dead = is_dead(g, t);
    if (t->is_dead || !has_operands(s)) continue;
    for (int j = 0; j < s->n_in && j < 3; j++) t->next_in[j] = g->upcoming[s->in[j]];
    for (int j = 0; j < s->n_in; j++) g->upcoming[s->in[j]] = i;
    if (t->mask >= 0) t->next_in[MASK_USE] = g->upcoming[t->mask];
    if (t->mask >= 0) g->upcoming[t->mask] = i;
  }
  for (int i = 0; i < n; i++) {
    const struct gen_step *t = &g->steps[i];
    if (t->is_dead || !has_operands(t->s)) continue;
    for (int j = 0; j < t->s->n_in; j++) set_first_use(g, t->s->in[j]);
    if (t->mask >= 0) set_first_use(g, t->mask);
  }
}

static bool uses(const struct kir_stmt *s, int val) {
  for (int i = 0; has_operands(s) && i < s->n_in; i++)
    if (s->in[i] == val) return true;
  return false;
}

static bool may_leave(const struct kir_stmt *s) { return s->kind == KIR_UNTIL || s->kind == KIR_CHECK; }

/* A carry that nobody reads after its next value is computed lends its register to that value. Who leaves before `next` reads
 * it: it stays what it is. */
void steps_lend_carries(struct emission *g, int n, const struct kir_stmt *next, bool on) {
  for (int i = 0; i < next->n_in; i++) {
    int carry = next->out[i], val = next->in[i], at = n - 1;
    struct gen_value *v = &g->vals[val];
    if (!on) {
      v->want = -1;
      continue;
    }
    if (g->vals[carry].pin < 0 || v->want >= 0 || v->of_loop || v->crosses) continue;
    if (v->region != g->vals[carry].region || v->lane != g->vals[carry].lane) continue;
    bool is_before = false;
    while (at >= 0 && !(has_result(g->steps[at].s) && g->steps[at].s->out[0] == val)) {
      const struct kir_stmt *s = g->steps[at].s;
      is_before |= s == next;
      at = uses(s, carry) || (is_before && may_leave(s)) ? -1 : at - 1;
    }
    if (at >= 0) v->want = g->vals[carry].pin;
  }
}

/* Whether a step is done once for all short rows side by side: loads of what is the same in all of them, and stores of sums. */
static bool is_for_all_rows(const struct emission *g, const struct gen_step *t) {
  const struct kir_stmt *s = t->s;
  return s->kind == KIR_LOAD ? g->vals[s->out[0]].repeats : s->kind == KIR_STORE && g->accesses[t->access].owner != g->short_loop;
}

int step_copies(const struct emission *g, const struct gen_step *t) {
  const struct kir_stmt *s = t->s;
  if (g->short_loop >= 0 && (s->kind == KIR_FOLD || !t->in_lanes)) return 1;
  if (g->short_loop >= 0 && is_for_all_rows(g, t)) return g->vectors;
  if (has_result(s)) return g->vals[s->out[0]].lane ? g->copies : 1;
  if (s->kind == KIR_STORE || s->kind == KIR_FOLD) return g->copies;
  return 1;
}

int steps_collect_fn(struct emission *g, const struct kir_fn *fn, int memory) {
  int n = 0;
  for (const struct kir_stmt *s = fn->body.first; s; s = s->next) {
    if (!nest_grow(nest_in(g), (void **)&g->steps, &g->step_room, n + 1, sizeof *g->steps)) return 0;
    int access = reads_memory(s) ? g->access_of[memory++] : -1;
    g->steps[n++] = (struct gen_step){ .s = s, .access = access, .site = -1, .mask = -1, .mask_after = -1 };
  }
  for (int i = 0; i < fn->n_result; i++)
    if (!nest_is_literal(nest_seen_in(g), fn->result[i])) g->upcoming[fn->result[i]] = n;
  steps_find_next_uses(g, n);
  for (int i = 0; i < fn->n_result; i++) set_first_use(g, fn->result[i]);
  return n;
}

/* Whether a statement of a short row is done for each copy of the lanes. */
static bool is_of_lanes(const struct emission *g, const struct kir_stmt *s, bool in_lanes) {
  return s->kind != KIR_IF && has_result(s) ? g->vals[s->out[0]].lane : in_lanes;
}

int steps_collect_row(struct emission *g, const struct kir_block *b, int n, bool in_lanes, bool fixed) {
  for (const struct kir_stmt *s = b->first; s; s = s->next) {
    if (s->kind == KIR_LANE) n = steps_collect_row(g, &s->body, n, true, fixed);
    if (s->kind == KIR_LANE || s->kind == KIR_KEEP) continue;
    if (!nest_grow(nest_in(g), (void **)&g->steps, &g->step_room, n + 1, sizeof *g->steps)) return 0;
    int access = reads_memory(s) ? g->access_of[g->memory_cursor++] : -1;
    bool of_lanes = is_of_lanes(g, s, in_lanes), is_masked = of_lanes && s->kind != KIR_OP && s->kind != KIR_IF;
    if ((s->kind == KIR_OP && g->vals[s->out[0]].is_fixed) != fixed) continue;
    const struct kir_stmt *aside = nest_aside_of(nest_seen_in(g), s);
    g->steps[n++] = (struct gen_step){ .s = aside ? aside : s, .access = access, .site = -1, .mask = is_masked ? g->row_mask : -1,
                                   .mask_after = -1, .in_lanes = of_lanes };
  }
  return n;
}
