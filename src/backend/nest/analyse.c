/* analyse.c -- one walk over the kernel: where each value lives and whether it crosses a loop, which loops there are,
 * and how the address of each load and store moves with them. Refuses what no encoder does. */
#include "backend/nest/nest.h"

struct analysis { struct nest *g; int loop, region, depth; bool guarded; }; /* guarded: in an if of the loop */

static int loop_lane(const struct nest *g, int loop) { return loop < 0 ? -1 : g->loops[loop].lane; }

uint8_t domain_of(int dtype, bool lane) {
  if (dtype == WEFT_BOOL) return BOOL;
  return (dtype == WEFT_I64 || dtype == WEFT_U64) && !lane ? SCALAR : VECTOR;
}

static void note_width(struct nest *g, const struct gen_value *v) {
  if (v->domain == VECTOR && dtype_bytes(v->dtype) == 8) g->wide = true;
}

static void define_at(struct analysis *w, int val, bool lane) {
  struct gen_value *v = &w->g->vals[val];
  v->lane = lane;
  v->domain = domain_of(v->dtype, lane);
  v->region = w->region;
  v->loop = w->loop;
  note_width(w->g, v);
}

static void use(struct analysis *w, int val) {
  struct nest *g = w->g;
  struct gen_value *v = &g->vals[val];
  v->is_operand = true;
  note_width(g, v);
  if (nest_is_literal(g, val)) return;
  int lane = loop_lane(g, w->loop);
  if (v->row >= 0 && loop_lane(g, v->loop) != lane) {
    if (v->row < 64 && lane >= 0) g->loops[lane].rows |= (uint64_t)1 << v->row;
    return;
  }
  if (v->region != w->region) v->crosses = true;
}

/* Inside its loop, and where it is kept, a prefix along lanes is a value of the lanes; outside it is the last one. */
void nest_view_prefixes(struct nest *g, int lane_loop) {
  for (int i = 0; i < g->n_loops; i++)
    for (int j = 0; g->loops[i].stmt->kind == KIR_LANE && j < g->loops[i].n_prefixes; j++) {
      const struct gen_fold *f = &g->loops[i].prefixes[j];
      for (int p = 0; p < f->n; p++) {
        struct gen_value *v = &g->vals[f->stmt->out[p]];
        v->lane = lane_loop == i || (lane_loop >= 0 && v->row >= 0);
        v->domain = domain_of(v->dtype, v->lane);
        v->home = v->lane ? f->home[p] : f->after[p];
      }
    }
}

bool nest_term_varies(const struct nest *g, const struct kir_term *t) {
  for (int j = 0; j < t->n; j++)
    if (g->vals[t->val[j]].lane) return true;
  return false;
}

bool fold_is_across(const struct gen_loop *l, const struct kir_stmt *s) {
  return s->kind == KIR_FOLD && s->order == (l->stmt->kind == KIR_LANE ? KIR_COL : KIR_ROW);
}

/* ---- Addresses ---- */

int nest_stride_class(const struct nest *g, int buf, int axis) {
  const struct kir_buf *b = &g->k->bufs[buf];
  if (g->is_private[buf] || b->kind == KIR_LOCAL || b->kind == KIR_TABLE) return axis == b->rank - 1 ? STRIDE_1 : STRIDE_ANY;
  return g->shape->stride[buf][axis];
}

static int times(const struct kir_term *t, int val) {
  int n = 0;
  for (int i = 0; i < t->n; i++) n += t->val[i] == val;
  return n;
}

/* Lanes differ by more than a multiple of their number. */
static bool is_indexed(const struct nest *g, const struct kir_term *t, int var) {
  int n = 0;
  for (int j = 0; j < t->n; j++) n += g->vals[t->val[j]].lane ? (t->val[j] == var ? 1 : 2) : 0;
  return n > 1;
}

/* How the address moves with the lanes: +1 or -1 element exactly, by something known at run time, or each its own way. */
static enum lane_class lane_class(struct nest *g, const struct kir_stmt *s, int var) {
  int n = 0, sign = 0;
  bool in_text = false;
  for (int d = 0; d < s->n_at; d++)
    for (int i = 0; i < s->at[d].n; i++) {
      const struct kir_term *t = &s->at[d].term[i];
      if (is_indexed(g, t, var)) return LANE_INDEX;
    }
  for (int d = 0; d < s->n_at; d++)
    for (int i = 0; i < s->at[d].n; i++) {
      const struct kir_term *t = &s->at[d].term[i];
      if (!times(t, var)) continue;
      in_text = true;
      int cls = nest_stride_class(g, s->buf, d);
      if (cls == STRIDE_0) continue;
      bool is_one = t->n == 1 && (t->coef == 1 || t->coef == -1) && cls != STRIDE_ANY;
      n++;
      sign = is_one ? (int)t->coef * (cls == STRIDE_1 ? 1 : -1) : 0;
    }
  if (!n) return in_text ? LANE_ZERO : LANE_NONE;
  return n > 1 || !sign ? LANE_ANY : sign > 0 ? LANE_UNIT : LANE_BACK;
}

/* The innermost loop whose variable is in the address. OWNER_USE if the address takes a value born inside that loop, or
 * is not linear in it: then it is computed where it is used. */
static int find_owner(struct analysis *w, const struct kir_stmt *s, bool lane_is_flat, bool is_indexed) {
  struct nest *g = w->g;
  int owner = OWNER_START;
  bool is_linear = true;
  for (int l = w->loop; l >= 0 && owner < 0; l = g->loops[l].parent) {
    if (g->loops[l].stmt->kind == KIR_LANE && (lane_is_flat || is_indexed)) continue;
    for (int d = 0; d < s->n_at; d++)
      for (int i = 0; i < s->at[d].n; i++) {
        if (is_indexed && nest_term_varies(g, &s->at[d].term[i])) continue;
        int n = times(&s->at[d].term[i], g->loops[l].stmt->var);
        if (n) owner = l;
        if (n > 1) is_linear = false;
      }
  }
  for (int d = 0; d < s->n_at; d++)
    for (int i = 0; i < s->at[d].n; i++)
      for (int j = 0; j < s->at[d].term[i].n; j++) {
        int val = s->at[d].term[i].val[j];
        const struct gen_value *v = &g->vals[val];
        if (g->k->vals[val].kind == KIR_AXIS || v->lane) continue;
        if (v->loop >= owner) return OWNER_USE;
      }
  return is_linear ? owner : OWNER_USE;
}

static void use_subscripts(struct analysis *w, const struct kir_lin *at, int n) {
  struct nest *g = w->g;
  for (int d = 0; d < n; d++)
    for (int i = 0; i < at[d].n; i++)
      for (int j = 0; j < at[d].term[i].n; j++) {
        struct gen_value *v = &g->vals[at[d].term[i].val[j]];
        if (v->domain == SCALAR && v->home < 0) v->crosses = true;
      }
}

/* Counters of loops in an address that is computed where it is used must be in memory there. */
static void use_counters(struct nest *g, const struct kir_stmt *s) {
  for (int d = 0; d < s->n_at; d++)
    for (int i = 0; i < s->at[d].n; i++)
      for (int j = 0; j < s->at[d].term[i].n; j++) {
        struct gen_value *v = &g->vals[s->at[d].term[i].val[j]];
        if (v->domain == SCALAR) v->is_operand = true;
      }
}

/* What lanes are indexed by becomes an operand, in its home or row. */
static void use_indices(struct analysis *w, const struct kir_stmt *s) {
  w->g->wide = true;
  for (int d = 0; d < s->n_at; d++)
    for (int i = 0; i < s->at[d].n; i++)
      for (int j = 0; nest_term_varies(w->g, &s->at[d].term[i]) && j < s->at[d].term[i].n; j++) {
        int val = s->at[d].term[i].val[j];
        use(w, val);
        if (w->g->vals[val].lane && w->g->vals[val].row < 0) w->g->vals[val].crosses = true;
      }
}

static bool same_subscripts(const struct kir_stmt *a, const struct kir_stmt *b) {
  if (a->buf != b->buf) return false;
  for (int d = 0; d < a->n_at; d++)
    if (!kir_lin_equal(a->at[d], b->at[d])) return false;
  return true;
}

/* An earlier access that always has the same address. Only the latest few are asked: this stays linear. */
static int find_same(const struct nest *g, const struct gen_access *a) {
  for (int i = g->n_accesses - 1; i >= 0 && i >= g->n_accesses - 16; i--) {
    const struct gen_access *b = &g->accesses[i];
    if (b->lane == a->lane && b->owner == a->owner && same_subscripts(a->stmt, b->stmt)) return i;
  }
  return -1;
}

static void take_slots(struct nest *g, struct gen_access *a) {
  a->pointer = nest_slot_scalar(g);
  a->entry = nest_slot_scalar(g);
  a->step = a->owner >= 0 ? nest_slot_scalar(g) : -1;
  a->lane_step = a->cls == LANE_ANY ? nest_slot_scalar(g) : -1;
}

static void add_access(struct analysis *w, const struct kir_stmt *s, bool lane_is_flat) {
  struct nest *g = w->g;
  const struct kir_buf *b = &g->k->bufs[s->buf];
  int lane = loop_lane(g, w->loop),
      bytes = g->is_private[s->buf] ? dtype_bytes(kir_register_of(b->dtype)) : dtype_bytes(b->dtype);
  if (b->rank > BACKEND_RANK) nest_cannot(g, "more axes than a bound buffer has");
  struct gen_access a = {
    .stmt = s, .lane = lane, .reg = -1, .narrow = bytes < 4, .element = __builtin_ctz((unsigned)bytes),
    .is_guarded = w->guarded
  };
  a.cls = lane < 0 ? LANE_NONE : lane_class(g, s, g->loops[lane].stmt->var);
  a.owner = find_owner(w, s, lane_is_flat, a.cls == LANE_INDEX);
  use_subscripts(w, s->at, s->n_at);
  if (a.cls == LANE_INDEX) use_indices(w, s);
  if (a.owner == OWNER_USE) use_counters(g, s);
  int i = find_same(g, &a);
  if (i >= 0) g->accesses[i].is_guarded &= w->guarded;
  if (i < 0 && nest_grow(g, (void **)&g->accesses, &g->access_room, g->n_accesses + 1, sizeof a)) {
    take_slots(g, &a);
    i = g->n_accesses++;
    a.next = a.owner >= 0 ? g->loops[a.owner].accesses : -1;
    if (a.owner >= 0) g->loops[a.owner].accesses = i;
    g->accesses[i] = a;
  }
  if (s->kind == KIR_LOAD) g->vals[s->out[0]].access = i + 1;
  if (nest_grow(g, (void **)&g->access_of, &g->memory_room, g->n_memory + 1, sizeof(int)))
    g->access_of[g->n_memory++] = i;
}

/* ---- Statements ---- */

static void walk_block(struct analysis *w, const struct kir_block *b);

static bool has_loop(const struct kir_block *b) {
  for (const struct kir_stmt *s = b->first; s; s = s->next)
    if (s->kind == KIR_PAR || s->kind == KIR_SERIAL || s->kind == KIR_LANE || (s->kind == KIR_IF && has_loop(&s->body)))
      return true;
  return false;
}

/* The lane loop whose statements that do not depend on the lane are computed before it, or NULL. */
static struct gen_loop *hoisting_loop(struct analysis *w) {
  struct gen_loop *l = w->loop >= 0 ? &w->g->loops[w->loop] : NULL;
  return l && l->is_flat && !w->guarded ? l : NULL;
}

static bool is_before_loop(struct analysis *w, int val) {
  const struct gen_value *v = &w->g->vals[val];
  return !v->lane && (v->hoisted || v->loop != w->loop);
}

static bool all_before_loop(struct analysis *w, const struct kir_stmt *s) {
  bool all = true;
  for (int i = 0; i < s->n_in; i++) all &= is_before_loop(w, s->in[i]);
  for (int d = 0; d < s->n_at; d++)
    for (int i = 0; i < s->at[d].n; i++)
      for (int j = 0; j < s->at[d].term[i].n; j++) all &= is_before_loop(w, s->at[d].term[i].val[j]);
  return all;
}

/* As if the statement stood before the lane loop. */
static struct analysis hoist(struct analysis *w, struct gen_loop *l) {
  l->n_hoisted++;
  return (struct analysis){ w->g, l->parent, l->hoist_region, w->depth, false };
}

static void on_op(struct analysis *w, const struct kir_stmt *s) {
  struct gen_loop *l = hoisting_loop(w);
  struct analysis before, *at = w;
  bool lane = false;
  for (int i = 0; i < s->n_in; i++) lane |= w->g->vals[s->in[i]].lane;
  if (l && all_before_loop(w, s)) {
    before = hoist(w, l);
    at = &before;
    w->g->vals[s->out[0]].hoisted = true;
  }
  if (w->g->is_latent && w->loop >= 0) s = nest_note_guess(w->g, s);
  for (int i = 0; i < s->n_in; i++) use(at, s->in[i]);
  if (s->op == KIR_CALL) nest_cannot(w->g, "a call");
  define_at(at, s->out[0], lane);
  w->g->vals[s->out[0]].is_magnitude = s->op == KIR_ABS;
}

static void on_load(struct analysis *w, const struct kir_stmt *s) {
  int lane = loop_lane(w->g, w->loop);
  add_access(w, s, lane >= 0 && w->g->loops[lane].is_flat);
  bool moves = false;
  for (int d = 0; d < s->n_at; d++)
    for (int i = 0; i < s->at[d].n; i++) moves |= lane >= 0 && nest_term_varies(w->g, &s->at[d].term[i]);
  struct gen_loop *l = hoisting_loop(w);
  if (l && !l->has_lane_check && w->g->k->bufs[s->buf].kind == KIR_IN && all_before_loop(w, s)) {
    struct analysis before = hoist(w, l);
    w->g->vals[s->out[0]].hoisted = true;
    define_at(&before, s->out[0], false);
  } else {
    define_at(w, s->out[0], moves);
  }
}

static void on_store(struct analysis *w, const struct kir_stmt *s) {
  int lane = loop_lane(w->g, w->loop);
  if (lane >= 0) w->g->loops[lane].has_effects = true;
  use(w, s->in[0]);
  if (lane >= 0 && dtype_bytes(w->g->vals[s->in[0]].dtype) == 8) w->g->wide = true; /* a scalar fills vectors too */
  add_access(w, s, lane >= 0 && w->g->loops[lane].is_flat);
}

/* Used by a statement that is not part of a run. */
static void use_apart(struct analysis *w, int val) {
  use(w, val);
  if (!nest_is_literal(w->g, val) && w->g->vals[val].row < 0) w->g->vals[val].crosses = true;
}

/* Operands and results of a fold or prefix. By a fn it happens between runs. */
static void use_parts(struct analysis *w, const struct kir_stmt *s, bool is_apart) {
  for (int i = 0; i < s->n_in; i++) {
    if (is_apart) use_apart(w, s->in[i]);
    else use(w, s->in[i]);
    if (lane_bytes(w->g->vals[s->in[i]].dtype) == 8) w->g->wide = true;
  }
  for (int i = 0; i < s->n_from; i++) use_apart(w, s->from[i]);
  if (is_apart) w->region = ++w->g->n_regions;
}

static struct gen_fold *add_fold(struct nest *g, struct gen_fold **folds, int *n, int *room, const struct kir_stmt *s) {
  if (s->n_in > PARTS) nest_cannot(g, "a fold of more than 8 values");
  if (g->why || !nest_grow(g, (void **)folds, room, *n + 1, sizeof **folds)) return NULL;
  (*folds)[*n] = (struct gen_fold){ .stmt = s, .n = s->n_in, .pin = -1 };
  return &(*folds)[(*n)++];
}

static bool add_across(struct nest *g, struct gen_loop *l, const struct kir_stmt *s) {
  if (s->n_in > PARTS) nest_cannot(g, "a fold of more than 8 values");
  if (g->why || !nest_grow(g, (void **)&l->across, &l->across_room, l->n_across + 1, sizeof *l->across)) return false;
  l->across[l->n_across++] = (struct across){ .fold = { .stmt = s, .n = s->n_in, .pin = -1 } };
  return true;
}

static void on_prefix(struct analysis *w, const struct kir_stmt *s) {
  struct nest *g = w->g;
  struct gen_loop *l = &g->loops[w->loop];
  struct gen_fold *f = add_fold(g, &l->prefixes, &l->n_prefixes, &l->prefix_room, s);
  if (!f) return;
  use_parts(w, s, true);
  l->has_effects = true;
  g->vals[l->stmt->var].is_operand |= l->stmt->kind != KIR_LANE;
  for (int i = 0; i < s->n_in; i++) {
    struct gen_value *v = &g->vals[s->out[i]];
    define_at(w, s->out[i], l->lane >= 0);
    v->crosses = v->of_loop = true;
    if (l->stmt->kind != KIR_LANE) continue;
    v->home = f->home[i] = nest_slot_vector(g, COPIES);
    f->after[i] = nest_slot_vector(g, 1);
  }
}

static void on_fold(struct analysis *w, const struct kir_stmt *s) {
  struct nest *g = w->g;
  struct gen_loop *l = &g->loops[w->loop];
  bool in_lane = l->stmt->kind == KIR_LANE;
  bool is_across = fold_is_across(l, s);
  if (is_across ? !add_across(g, l, s) : !add_fold(g, &l->folds, &l->n_folds, &l->fold_room, s)) return;
  if (is_across) g->vals[l->stmt->var].is_operand |= !in_lane;
  use_parts(w, s, is_across || s->op == KIR_CALL);
  l->has_effects = true;
  for (int i = 0; i < s->n_in; i++) {
    define_at(w, s->out[i], !in_lane && l->lane >= 0);
    g->vals[s->out[i]].crosses = g->vals[s->out[i]].of_loop = true;
  }
}

/* ---- Kept rows ---- */

/* Whether val is used from s on, in text order, after a store that could be to the place it was loaded from: an output may
 * have the memory of an input if their subscripts are the same. */
static bool is_used_late(const struct nest *g, const struct kir_stmt *s, int val, const struct kir_stmt *load, bool *is_stored) {
  for (; s; s = s->next) {
    for (int i = 0; *is_stored && i < s->n_in; i++)
      if (s->in[i] == val) return true;
    if (is_used_late(g, s->body.first, val, load, is_stored)) return true;
    *is_stored |= s->kind == KIR_STORE && s->n_at == load->n_at && g->k->bufs[s->buf].dtype == g->k->bufs[load->buf].dtype;
  }
  return false;
}

/* An input that lies side by side is read again instead of being copied. */
static bool may_read_again(const struct nest *g, const struct gen_loop *l, const struct gen_value *v, int val) {
  const struct gen_access *a = v->access ? &g->accesses[v->access - 1] : NULL;
  bool is_stored = false;
  return a && l->is_flat && !l->is_outer && l->stmt->extent == KIR_N && a->cls == LANE_UNIT && a->owner != OWNER_USE &&
         !a->narrow && !a->is_guarded && v->dtype != WEFT_BOOL && g->k->bufs[a->stmt->buf].kind == KIR_IN &&
         !is_used_late(g, l->stmt, val, a->stmt, &is_stored);
}

static void on_keep(struct analysis *w, const struct kir_stmt *s) {
  struct nest *g = w->g;
  g->loops[w->loop].has_effects = true;
  for (int i = 0; i < s->n_in; i++) {
    struct gen_value *v = &g->vals[s->in[i]];
    if (!v->lane) {
      v->crosses = true;
      continue;
    }
    if (v->row >= 0 || !nest_grow(g, (void **)&g->rows, &g->row_room, g->n_rows + 1, sizeof *g->rows)) continue;
    struct kept_row row = { s->in[i], w->loop, lane_bytes(v->dtype), -1, may_read_again(g, &g->loops[w->loop], v, s->in[i]) };
    row.pointer = row.in_place ? g->accesses[v->access - 1].pointer : nest_slot_scalar(g);
    g->rows[g->n_rows] = row;
    if (g->n_rows < 64) g->loops[w->g->loops[w->loop].lane].rows |= (uint64_t)1 << g->n_rows;
    v->row = g->n_rows++;
  }
}

static void on_loop(struct analysis *w, const struct kir_stmt *s) {
  struct nest *g = w->g;
  if (w->depth == MAX_DEPTH) { nest_cannot(g, "too many nested loops"); return; }
  if (!nest_grow(g, (void **)&g->loops, &g->loop_room, g->n_loops + 1, sizeof *g->loops)) return;
  int id = g->n_loops++, lane = loop_lane(g, w->loop);
  struct gen_loop *l = &g->loops[id];
  *l = (struct gen_loop){ .stmt = s, .parent = w->loop, .depth = w->depth, .lane = s->kind == KIR_LANE ? id : lane };
  l->accesses = -1;
  l->first_memory = g->n_memory;
  l->first_check = g->n_checks;
  l->access_first = g->n_accesses;
  l->has_inner = has_loop(&s->body);
  l->is_outer = s == g->outer;
  l->in_lane = lane >= 0;
  l->is_flat = s->kind == KIR_LANE && !l->has_inner;
  int32_t *slots[] = { &l->var, &l->last, &l->extent, &l->block, &l->count, &l->j, &l->limit, &l->first };
  for (int i = 0; i < 8; i++) *slots[i] = nest_slot_scalar(g);
  if (w->loop >= 0) g->loops[w->loop].has_inner = true;
  if (s->extent != KIR_BLOCK) use_subscripts(w, s->at, s->extent == KIR_BLOCKS ? 2 : 1);
  struct gen_value *v = &g->vals[s->var];
  *v = (struct gen_value){ .dtype = WEFT_I64, .row = -1, .pin = -1, .want = -1, .loop = id, .home = l->var, .region = -1 };
  if (s->kind == KIR_LANE) {
    v->domain = VECTOR;
    v->lane = true;
    v->home = -1;
  }
  l->hoist_region = ++g->n_regions;
  struct analysis in = { g, id, ++g->n_regions, w->depth + 1, false };
  if (s->kind == KIR_LANE) nest_view_prefixes(g, id);
  walk_block(&in, &s->body);
  if (s->kind == KIR_LANE) nest_view_prefixes(g, -1);
  g->loops[id].end = g->n_loops;
  g->loops[id].access_end = g->n_accesses;
  w->region = ++g->n_regions;
}

static void on_carry(struct analysis *w, const struct kir_stmt *s) {
  struct nest *g = w->g;
  int init = s->in[0];
  define_at(w, s->out[0], loop_lane(g, w->loop) >= 0);
  struct gen_value *v = &g->vals[s->out[0]];
  v->of_loop = v->crosses = true;
  if (!nest_is_literal(g, init)) g->vals[init].crosses = true;
  note_width(g, &g->vals[init]);
}

static void on_until(struct analysis *w, const struct kir_stmt *s) {
  w->g->loops[w->loop].has_until = true;
  use(w, s->in[0]);
}

/* One that is a statement of its run. */
static void on_aside(struct analysis *w, const struct kir_stmt *s, const struct kir_stmt *aside) {
  bool outer = w->guarded;
  for (int i = 0; i < aside->n_in; i++) use(w, aside->in[i]);
  w->guarded = true;
  walk_block(w, &s->body);
  w->guarded = outer;
}

static void on_if(struct analysis *w, const struct kir_stmt *s) {
  bool outer = w->guarded;
  if (loop_lane(w->g, w->loop) >= 0 && nest_note_aside(w->g, s)) {
    on_aside(w, s, nest_aside_of(w->g, s));
    return;
  }
  for (const struct kir_stmt *y = s->body.first; y; y = y->next)
    if (y->kind == KIR_YIELD) use_apart(w, y->in[1]);
  use_apart(w, s->in[0]);
  w->region = ++w->g->n_regions;
  w->guarded = true;
  walk_block(w, &s->body);
  w->guarded = outer;
  w->region = ++w->g->n_regions;
}

static void on_yield(struct analysis *w, const struct kir_stmt *s) {
  use(w, s->in[0]);
  define_at(w, s->out[0], loop_lane(w->g, w->loop) >= 0);
  if (!w->g->vals[s->out[0]].stand_in) w->g->vals[s->out[0]].crosses = w->g->vals[s->out[0]].of_loop = true;
}

/* A place of axes and sizes is counted once a check fails: counters must be in memory there, the lane's need not be a value. */
static void use_place(struct analysis *at, const struct kir_stmt *check) {
  use_subscripts(at, check->at, check->n_at);
  use_counters(at->g, check);
  if (!check->n_at) use(at, check->in[2]);
}

/* Inside lanes a check that all share, and that nothing precedes that could be seen, decides for the whole loop. */
static void on_check(struct analysis *w, const struct kir_stmt *s) {
  struct gen_loop *l = hoisting_loop(w);
  bool is_hoisted = false;
  if (!nest_grow(w->g, (void **)&w->g->hoisted_check, &w->g->check_room, w->g->n_checks + 1, sizeof(bool))) return;
  struct analysis before, *at = w;
  if (l && !l->has_effects && all_before_loop(w, s)) {
    before = hoist(w, l);
    at = &before;
    l->has_check = true;
    is_hoisted = true;
  }
  w->g->hoisted_check[w->g->n_checks++] = is_hoisted;
  if (!is_hoisted && loop_lane(w->g, w->loop) >= 0) {
    struct gen_loop *lane = &w->g->loops[loop_lane(w->g, w->loop)];
    lane->has_effects = lane->has_lane_check = true;
  }
  use(at, s->in[0]);
  use(at, s->in[1]);
  use_place(at, s);
}

static void walk_block(struct analysis *w, const struct kir_block *b) {
  struct nest *g = w->g;
  for (const struct kir_stmt *s = b->first; s && !g->why && !g->no_memory; s = s->next) switch ((enum kir_kind)s->kind) {
    case KIR_OP: on_op(w, s); break;
    case KIR_LOAD: on_load(w, s); break;
    case KIR_STORE: on_store(w, s); break;
    case KIR_PAR: case KIR_SERIAL: case KIR_LANE: on_loop(w, s); break;
    case KIR_FOLD: on_fold(w, s); break;
    case KIR_CARRY: on_carry(w, s); break;
    case KIR_NEXT: for (int i = 0; i < s->n_in; i++) use(w, s->in[i]); break;
    case KIR_UNTIL: on_until(w, s); break;
    case KIR_KEEP: on_keep(w, s); break;
    case KIR_IF: on_if(w, s); break;
    case KIR_YIELD: on_yield(w, s); break;
    case KIR_PREFIX: on_prefix(w, s); break;
    case KIR_CHECK: on_check(w, s); break;
    case KIR_LOCALS: case KIR_KINDS: break;
    }
}

/* ---- The frame ---- */

static void note_private(struct nest *g, const struct kir_block *b) {
  for (const struct kir_stmt *s = b->first; s; s = s->next) {
    if (s->kind != KIR_PAR) continue;
    for (int i = 0; i < s->n_private; i++) g->is_private[s->private[i].buf] = true;
    note_private(g, &s->body);
  }
}

/* ---- Fns ---- */

/* A fn loads from tables alone, by an index of each lane, which stands in its home. */
static void note_table(struct nest *g, const struct kir_stmt *s) {
  int bytes = dtype_bytes(g->k->bufs[s->buf].dtype);
  struct gen_access a = { .stmt = s, .owner = OWNER_FN, .lane = -1, .cls = LANE_INDEX, .reg = -1, .next = -1,
                      .element = __builtin_ctz((unsigned)bytes), .narrow = bytes < 4 };
  g->wide = true;
  for (int i = 0; i < s->at[0].n; i++)
    for (int j = 0; j < s->at[0].term[i].n; j++)
      if (g->vals[s->at[0].term[i].val[j]].lane) g->vals[s->at[0].term[i].val[j]].crosses = true;
  if (!nest_grow(g, (void **)&g->accesses, &g->access_room, g->n_accesses + 1, sizeof a)) return;
  if (!nest_grow(g, (void **)&g->access_of, &g->memory_room, g->n_memory + 1, sizeof(int))) return;
  g->accesses[g->n_accesses] = a;
  g->access_of[g->n_memory++] = g->n_accesses++;
}

static void note_lane(struct nest *g, int val) {
  struct gen_value *v = &g->vals[val];
  v->lane = true;
  v->domain = v->dtype == WEFT_BOOL ? BOOL : VECTOR;
  note_width(g, v);
}

static void note_fn(struct nest *g, int fn) {
  const struct kir_fn *f = &g->k->fns[fn];
  if (g->fn_memory[fn] >= 0) return;
  g->fn_memory[fn] = g->n_memory;
  for (int i = 0; i < f->n_param; i++) note_lane(g, f->param[i]);
  for (const struct kir_stmt *s = f->body.first; s; s = s->next) {
    for (int i = 0; i < s->n_in; i++)
      if (lane_bytes(g->vals[s->in[i]].dtype) == 8) g->wide = true;
    note_lane(g, s->out[0]);
    if (s->kind == KIR_LOAD) note_table(g, s);
  }
}

/* The fns that combine. */
static void note_fns(struct nest *g, const struct kir_block *b) {
  for (const struct kir_stmt *s = b->first; s && !g->no_memory; s = s->next) {
    if ((s->kind == KIR_FOLD || s->kind == KIR_PREFIX) && s->op == KIR_CALL) note_fn(g, s->fn);
    note_fns(g, &s->body);
  }
}

static void place_inputs(struct nest *g) {
  const struct kir_kernel *k = g->k;
  g->frame = FRAME_VALUES + 8 * (k->n_sizes + k->n_args);
  for (int b = 0; b < k->n_bufs; b++) {
    g->data_at[b] = g->frame;
    g->frame += 8 + 8 * k->bufs[b].rank;
  }
  for (int v = 0; v < k->n_vals; v++) {
    const struct kir_val *kv = &k->vals[v];
    struct gen_value *x = &g->vals[v];
    *x = (struct gen_value){ .dtype = kv->dtype, .row = -1, .home = -1, .pin = -1, .want = -1, .loop = -2, .region = -1 };
    x->domain = domain_of(kv->dtype, false);
    if (x->domain != SCALAR && !nest_reads_as_given(g, v)) continue;
    if (kv->kind == KIR_SIZE) x->home = FRAME_VALUES + 8 * kv->index;
    if (kv->kind == KIR_ARG) x->home = FRAME_VALUES + 8 * (k->n_sizes + kv->index);
  }
}

static bool is_arithmetic(const struct kir_stmt *s) {
  if (s->kind != KIR_OP) return s->kind == KIR_FOLD;
  return s->op != KIR_SELECT && s->op != KIR_NEG && s->op != KIR_ABS && s->op != KIR_BITS && s->op != KIR_CAST;
}

static bool all_quiet(const struct nest *g, const struct kir_stmt *s) {
  bool all = s->kind == KIR_OP ? s->op != KIR_BITS : s->kind == KIR_YIELD;
  for (int i = 0; i < s->n_in; i++) all &= g->vals[s->in[i]].is_quiet;
  return all;
}

static void note_moves(struct nest *g, const struct kir_block *b) {
  for (const struct kir_stmt *s = b->first; s; s = s->next) {
    bool is_made = is_arithmetic(s), is_quiet = is_made || all_quiet(g, s);
    for (int i = 0; i < s->n_in; i++) g->vals[s->in[i]].moves |= !is_made;
    for (int i = 0; i < s->n_out && s->kind != KIR_NEXT; i++) g->vals[s->out[i]].is_quiet = is_quiet;
    note_moves(g, &s->body);
  }
}

/* Values that cross get their homes once it is known which do; a lane value has one a copy. */
void nest_place_homes(struct nest *g) {
  for (int i = 0; i < g->k->n_vals; i++) {
    struct gen_value *v = &g->vals[i];
    int kind = g->k->vals[i].kind;
    if (v->home >= 0 || kind == KIR_LIT) continue;
    if (kind == KIR_AXIS && v->is_operand) v->crosses = true;
    if (v->domain == SCALAR) v->home = nest_slot_scalar(g);
    else if (v->crosses || (kind == KIR_ARG && v->is_operand)) v->home = nest_slot_vector(g, v->lane ? COPIES : v->divides ? 3 : 1);
  }
}

void nest_find(struct nest *g) {
  if (g->k->n_bufs > 32) { nest_cannot(g, "more than 32 buffers"); return; }
  if (g->k->n_sizes + g->k->n_args > 1024) { nest_cannot(g, "more than 1024 sizes and args"); return; }
  note_private(g, &g->k->body);
  place_inputs(g);
  note_moves(g, &g->k->body);
  note_fns(g, &g->k->body);
  g->first_memory = g->n_memory;
  struct analysis w = { g, -1, ++g->n_regions, 0, false };
  walk_block(&w, &g->k->body);
}
