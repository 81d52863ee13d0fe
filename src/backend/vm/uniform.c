/* uniform.c -- which values differ between lanes. The rest is computed once a tile, as one value.
 *
 * A value computed from uniform values is uniform; a carried or folded one only if besides no lane can rest at the place
 * where it changes (a check or an until that differs between lanes). Kept values are tiles by definition. */
#include "backend/vm/program.h"
#include "base/mem.h"

struct uniform_walk {
  uint8_t *varying, *kept;
  int *lane_of; /* by value: the lane loop it is defined in, 0: none */
  int lane, n_lanes;
  bool changed;
};

static void set(struct uniform_walk *w, int val, bool varies) {
  if (varies && !w->varying[val]) w->varying[val] = 1, w->changed = true;
}

static bool any(const struct uniform_walk *w, const int *vals, int n) {
  for (int i = 0; i < n; i++)
    if (w->varying[vals[i]]) return true;
  return false;
}

static bool any_at(const struct uniform_walk *w, const struct kir_stmt *s) {
  for (int i = 0; i < s->n_at; i++)
    for (int t = 0; t < s->at[i].n; t++)
      if (any(w, s->at[i].term[t].val, s->at[i].term[t].n)) return true;
  return false;
}

bool vm_leaves_by_lane(const uint8_t *varying, struct kir_block b) {
  bool resting = false;
  for (const struct kir_stmt *s = b.first; s; s = s->next) {
    if (s->kind == KIR_CHECK) resting |= varying[s->in[0]];
    if (s->kind == KIR_UNTIL && (resting || varying[s->in[0]])) return true;
  }
  return false;
}

static void keep(struct uniform_walk *w, const struct kir_stmt *s) {
  for (int i = 0; i < s->n_in; i++)
    if (w->lane_of[s->in[i]] == w->lane) w->kept[s->in[i]] = 1, set(w, s->in[i], true);
}

/* A block: the loop or if it belongs to, and whether some lanes may rest in it while others go on. */
struct inside { const struct kir_stmt *of; bool resting; int depth; };
static void block(struct uniform_walk *, struct kir_block, struct inside);

static void loop(struct uniform_walk *w, const struct kir_stmt *s, int depth) {
  int outer = w->lane;
  if (s->kind == KIR_LANE) w->lane = ++w->n_lanes, set(w, s->var, true);
  block(w, s->body, (struct inside){s, vm_leaves_by_lane(w->varying, s->body), depth});
  w->lane = outer;
}

static void fold(struct uniform_walk *w, const struct kir_stmt *s, struct inside in) {
  bool over_lanes = in.of && in.of->kind == KIR_LANE;
  bool varies = in.resting || any(w, s->in, s->n_in) || any(w, s->from, s->n_from);
  for (int i = 0; i < s->n_out; i++) set(w, s->out[i], over_lanes ? s->kind == KIR_PREFIX : varies);
}

static void block(struct uniform_walk *w, struct kir_block b, struct inside in) {
  if (in.depth > VM_DEPTH) return; /* translate.c refuses it */
  for (const struct kir_stmt *s = b.first; s; s = s->next) {
    for (int i = 0; i < s->n_out && s->kind != KIR_NEXT; i++) w->lane_of[s->out[i]] = w->lane;
    switch ((enum kir_kind)s->kind) {
      case KIR_OP: for (int i = 0; i < s->n_out; i++) set(w, s->out[i], any(w, s->in, s->n_in)); break;
      case KIR_LOAD: set(w, s->out[0], any_at(w, s)); break;
      case KIR_PAR: case KIR_SERIAL: case KIR_LANE: loop(w, s, in.depth + 1); break;
      case KIR_IF: block(w, s->body, (struct inside){s, false, in.depth + 1}); break;
      case KIR_YIELD: set(w, s->out[0], in.resting || w->varying[in.of->in[0]] || any(w, s->in, s->n_in)); break;
      case KIR_CARRY: set(w, s->out[0], w->varying[s->in[0]]); break;
      case KIR_NEXT: for (int i = 0; i < s->n_out; i++) set(w, s->out[i], in.resting || w->varying[s->in[i]]); break;
      case KIR_CHECK: case KIR_UNTIL: in.resting |= w->varying[s->in[0]]; break;
      case KIR_FOLD: case KIR_PREFIX: fold(w, s, in); break;
      case KIR_KEEP: keep(w, s); break;
      case KIR_STORE: case KIR_LOCALS: case KIR_KINDS: break;
    }
  }
}

bool vm_varying(const struct kir_kernel *k, uint8_t *varying, uint8_t *kept) {
  struct uniform_walk w = {.varying = varying, .kept = kept, .lane_of = mem_alloc(sizeof(int) * (size_t)k->n_vals)};
  if (!w.lane_of) return false;
  for (int f = 0; f < k->n_fns; f++) {
    for (int i = 0; i < k->fns[f].n_param; i++) varying[k->fns[f].param[i]] = 1;
    block(&w, k->fns[f].body, (struct inside){NULL, false, 0});
  }
  do {
    w.changed = false, w.n_lanes = 0;
    block(&w, k->body, (struct inside){NULL, false, 0});
  } while (w.changed);
  mem_free(w.lane_of);
  return true;
}
