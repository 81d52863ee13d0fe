/* survey.c -- decides how a kernel is spread over threads: which values and buffers pass from one thread to another.
 *
 * Iterations of par loops are independent by the rules of the language, so only lanes matter here. Two accesses of one
 * buffer conflict when they may be of one place in different threads, at least one of them stores, and their order
 * counts. */
#include "backend/cuda/survey.h"
#include <stdlib.h>
#include <string.h>

struct access_site {                    /* an access */
  const struct kir_stmt *s, *lane;
  bool in_serial;                /* in a serial loop around the lane loop */
  bool is_often;                 /* in a serial loop, or under a condition */
  struct access_site *next;
};

struct survey_walk {
  struct survey *s;
  struct arena *arena;
  struct access_site *sites;
  bool has_prefix, has_keep;
  bool has_narrow, has_wide; /* folds along lanes of nothing but elements of 1 and 2 bytes, and others */
};
struct around { const struct kir_stmt *lane; bool in_serial, is_often; int pars; };

static bool is_loop(const struct kir_stmt *s) { return s->kind == KIR_PAR || s->kind == KIR_SERIAL || s->kind == KIR_LANE; }

static void refuse(struct survey *s, const char *why) {
  if (!s->why) s->why = why;
}

bool survey_mentions(struct kir_lin l, int v) {
  for (int i = 0; i < l.n; i++)
    for (int j = 0; j < l.term[i].n; j++)
      if (l.term[i].val[j] == v) return true;
  return false;
}

bool survey_is_known_ahead(const struct kir_kernel *k, const struct kir_stmt *s) {
  for (int d = 0; d < s->n_at; d++)
    for (int i = 0; i < s->at[d].n; i++)
      for (int j = 0; j < s->at[d].term[i].n; j++)
        if (k->vals[s->at[d].term[i].val[j]].kind == KIR_RESULT) return false;
  return true;
}

static bool reads(const struct kir_stmt *s, int v) {
  for (int i = 0; i < s->n_in; i++)
    if (s->in[i] == v) return true;
  for (int i = 0; i < s->n_from; i++)
    if (s->from[i] == v) return true;
  for (int i = 0; i < s->n_at; i++)
    if (survey_mentions(s->at[i], v)) return true;
  return false;
}

bool survey_uses(const struct kir_block *b, int v) {
  for (const struct kir_stmt *s = b->first; s; s = s->next)
    if (reads(s, v) || survey_uses(&s->body, v)) return true;
  return false;
}

bool survey_is_long(const struct kir_stmt *serial) {
  bool is_open = false, carries = false;
  if (serial->extent != KIR_N) return false;
  for (int i = 0; i < serial->at[0].n; i++) is_open |= serial->at[0].term[i].n > 0;
  for (const struct kir_stmt *s = serial->body.first; s; s = s->next) carries |= s->kind == KIR_CARRY;
  return is_open && carries;
}

bool survey_keeps(const struct kir_stmt *loop, int v) {
  for (const struct kir_stmt *s = loop->body.first; s; s = s->next)
    for (int i = 0; s->kind == KIR_KEEP && i < s->n_in; i++)
      if (s->in[i] == v) return true;
  return false;
}

static const struct kir_stmt *find_loop(const struct kir_block *b, int axis) {
  for (const struct kir_stmt *s = b->first; s; s = s->next) {
    const struct kir_stmt *found = is_loop(s) && s->var == axis ? s : find_loop(&s->body, axis);
    if (found) return found;
  }
  return NULL;
}

const struct kir_stmt *survey_blocks_of(const struct kir_kernel *k, int axis) { return find_loop(&k->body, axis); }

/* ---- Conflicts ------------------------------------------------------------------------------------------------------ */

static bool same_extent(const struct kir_stmt *a, const struct kir_stmt *b) {
  if (a == b) return true;
  if (a->extent != b->extent || a->n_at != b->n_at) return false;
  for (int i = 0; i < a->n_at; i++)
    if (!kir_lin_equal(a->at[i], b->at[i])) return false;
  return a->extent != KIR_BLOCK || a->block_of == b->block_of;
}

static bool is_exactly(struct kir_lin l, int v) {
  return l.n == 1 && l.term[0].coef == 1 && l.term[0].n == 1 && l.term[0].val[0] == v;
}

/* Some subscript is the lane itself in both, so that a place belongs to one thread. */
static bool same_owner(const struct access_site *a, const struct access_site *b) {
  if (!a->lane || !b->lane || !same_extent(a->lane, b->lane)) return false;
  for (int d = 0; d < a->s->n_at; d++)
    if (is_exactly(a->s->at[d], a->lane->var) && is_exactly(b->s->at[d], b->lane->var)) return true;
  return false;
}

struct address_sum { int n; struct kir_term term[3 * KIR_TERMS]; };

static bool same_factors(const struct kir_term *a, const struct kir_term *b) {
  return a->n == b->n && !memcmp(a->val, b->val, (size_t)a->n * sizeof *a->val);
}

/* to += by l, but for the term that is the value `but` alone */
static void sum_add(struct address_sum *to, struct kir_lin l, int64_t by, int but) {
  for (int i = 0; i < l.n; i++) {
    const struct kir_term *t = &l.term[i];
    int j = 0;
    if (t->n == 1 && t->val[0] == but) continue;
    while (j < to->n && !same_factors(&to->term[j], t)) j++;
    if (j == to->n) to->term[to->n++] = *t, to->term[j].coef = 0;
    to->term[j].coef = (int64_t)((uint64_t)to->term[j].coef + (uint64_t)by * (uint64_t)t->coef);
  }
}

static bool is_size(const struct kir_kernel *k, int v) { return k->vals[v].kind == KIR_SIZE; }

static bool not_negative(const struct kir_kernel *k, const struct address_sum *x) {
  for (int i = 0; i < x->n; i++) {
    if (x->term[i].coef < 0) return false;
    for (int j = 0; x->term[i].coef && j < x->term[i].n; j++)
      if (!is_size(k, x->term[i].val[j])) return false;
  }
  return true;
}

/* l = rest + lane, once */
static bool rises(struct kir_lin l, int lane) {
  int n = 0;
  for (int i = 0; i < l.n; i++)
    for (int j = 0; j < l.term[i].n; j++)
      if (l.term[i].val[j] == lane) n += l.term[i].n == 1 && l.term[i].coef == 1 ? 1 : 2;
  return n == 1;
}

/* Along some axis the lanes of a end before those of b begin: rest_a + n_a <= rest_b, as the parts of a concatenation. */
static bool before(const struct kir_kernel *k, const struct access_site *a, const struct access_site *b) {
  if (!a->lane || !b->lane || a->lane->extent != KIR_N || b->lane->extent != KIR_N) return false;
  for (int d = 0; d < a->s->n_at; d++) {
    if (!rises(a->s->at[d], a->lane->var) || !rises(b->s->at[d], b->lane->var)) continue;
    struct address_sum gap = { 0 };
    sum_add(&gap, b->s->at[d], 1, b->lane->var);
    sum_add(&gap, a->s->at[d], -1, a->lane->var);
    sum_add(&gap, a->lane->at[0], -1, -1);
    if (not_negative(k, &gap)) return true;
  }
  return false;
}

static bool stores(const struct access_site *x) { return x->s->kind == KIR_STORE; }

/* in_order: threads combine into the buffer without exchanges. */
static bool conflict(const struct kir_kernel *k, const struct access_site *a, const struct access_site *b, bool in_order) {
  if (a->s->buf != b->s->buf || (!stores(a) && !stores(b))) return false;
  if (stores(a) && stores(b) && a->s->op == b->s->op && a->s->op != KIR_SET && !in_order) return false;
  if (!a->lane && !b->lane) return !stores(a) || !stores(b); /* one thread stores for all, in order */
  if (a->lane == b->lane && !a->in_serial) return false;
  return !same_owner(a, b) && !before(k, a, b) && !before(k, b, a);
}

static void find_conflicts(struct survey_walk *w) {
  for (const struct access_site *a = w->sites; a; a = a->next)
    for (const struct access_site *b = a; b; b = b->next)
      if (conflict(w->s->k, a, b, survey_is_own(w->s, a->s->buf))) w->s->bufs[a->s->buf].is_shared = true;
}

/* ---- The walk ------------------------------------------------------------------------------------------------------- */

static void access(struct survey_walk *w, const struct kir_stmt *s, struct around a) {
  struct access_site *x = arena_take(w->arena, sizeof *x);
  if (!x) { refuse(w->s, ""); return; }
  *x = (struct access_site){ s, a.lane, a.in_serial, a.is_often, w->sites };
  w->sites = x;
  struct survey_buf *b = &w->s->bufs[s->buf];
  *(s->kind == KIR_STORE ? &b->is_stored : &b->is_loaded) = true;
  if (s->kind != KIR_STORE || s->op != KIR_SET || !a.lane) return;
  for (int d = 0; d < s->n_at; d++)
    if (survey_mentions(s->at[d], a.lane->var)) return;
  refuse(w->s, "a plain store through a loaded index: which of several lanes is last");
}

static void private(struct survey_walk *w, const struct kir_stmt *s, struct around a) {
  if (!s->n_private) return;
  if (a.pars) refuse(w->s, "private on an inner par loop");
  if (w->s->private_loop) refuse(w->s, "two private loops");
  w->s->private_loop = s;
  for (int i = 0; i < s->n_private; i++) {
    w->s->bufs[s->private[i].buf].private_op = s->private[i].op;
    if (s->private[i].op == KIR_CALL) refuse(w->s, "private with a fn");
  }
}

static void visit(struct survey_walk *w, const struct kir_block *b, struct around a);

/* A lane loop that folds nothing but elements of 1 and 2 bytes. */
static bool folds_narrow(const struct kir_kernel *k, const struct kir_stmt *lane) {
  bool folds = false, loads = false;
  for (const struct kir_stmt *s = lane->body.first; s; s = s->next) {
    if (s->kind != KIR_OP && s->kind != KIR_LOAD && s->kind != KIR_FOLD) return false;
    folds |= s->kind == KIR_FOLD, loads |= s->kind == KIR_LOAD;
    if (s->kind == KIR_LOAD && kir_width((weft_dtype)k->bufs[s->buf].dtype) > 2) return false;
  }
  return folds && loads;
}

static void lane_loop(struct survey_walk *w, const struct kir_stmt *s, struct around a) {
  int folded = 0, scanned = 0;
  w->s->has_lane = true;
  w->s->is_recurrent |= a.in_serial;
  for (const struct kir_stmt *x = s->body.first; x; x = x->next) {
    if (x->kind == KIR_FOLD) folded += x->n_out;
    if (x->kind == KIR_PREFIX && x->n_out > scanned) scanned = x->n_out;
    if (x->kind == KIR_FOLD || x->kind == KIR_PREFIX || x->kind == KIR_KEEP) w->s->is_cooperative = true;
    if (x->kind == KIR_FOLD && x->order == KIR_COL) refuse(w->s, "a fold of columns along lanes");
    if ((x->kind == KIR_FOLD || x->kind == KIR_PREFIX) && ptx_is_ordered(w->s->k, x)) w->s->is_ordered = true;
    if (x->kind == KIR_FOLD) *(folds_narrow(w->s->k, s) ? &w->has_narrow : &w->has_wide) = true;
    if (x->kind == KIR_PREFIX) w->has_prefix = true, w->s->n_prefixes++;
    if (x->kind == KIR_KEEP) w->has_keep = true;
  }
  if (folded < scanned) folded = scanned;
  if (w->s->n_partials < folded) w->s->n_partials = folded;
  a.lane = s;
  visit(w, &s->body, a);
}

static void statement(struct survey_walk *w, const struct kir_stmt *s, struct around a) {
  switch ((enum kir_kind)s->kind) {
  case KIR_LOAD: case KIR_STORE: access(w, s, a); break;
  case KIR_CHECK: w->s->n_checks++; break;
  case KIR_LOCALS: w->s->is_cooperative = true; break;
  case KIR_LANE: lane_loop(w, s, a); break;
  case KIR_IF: visit(w, &s->body, (struct around){ a.lane, a.in_serial, true, a.pars }); break;
  case KIR_SERIAL:
    for (const struct kir_stmt *x = s->body.first; x; x = x->next)
      if (x->kind == KIR_FOLD && x->order == KIR_ROW && ptx_is_ordered(w->s->k, x))
        refuse(w->s, "a fold of rows along a serial loop");
    visit(w, &s->body, (struct around){ a.lane, a.in_serial || !a.lane, true, a.pars }); break;
  case KIR_PAR:
    private(w, s, a);
    visit(w, &s->body, (struct around){ a.lane, a.in_serial, a.is_often, a.pars + 1 });
    break;
  case KIR_OP:
    if (s->op < KIR_CAST && kir_rows[s->op].level == 'E') refuse(w->s, "an instruction that the legaliser left");
    break;
  case KIR_FOLD: case KIR_PREFIX: case KIR_KEEP: break; /* their loop has looked at them */
  case KIR_YIELD: case KIR_CARRY: case KIR_NEXT: case KIR_UNTIL: case KIR_KINDS: break;
  }
}

static void visit(struct survey_walk *w, const struct kir_block *b, struct around a) {
  for (const struct kir_stmt *s = b->first; s; s = s->next) statement(w, s, a);
}

/* ---- Owners --------------------------------------------------------------------------------------------------------- */

/* The block axis q is read by owns(q, k) alone, and under it everything combines. */
static bool only_owns(const struct kir_block *b, int q) {
  for (const struct kir_stmt *s = b->first; s; s = s->next) {
    bool owns = s->kind == KIR_OP && s->op == KIR_OWNS && s->in[1] != q;
    if (!owns && reads(s, q)) return false;
    if (s->kind == KIR_STORE && s->op == KIR_SET) return false;
    if (is_loop(s) && s->extent == KIR_BLOCK && s->block_of == q) return false;
    if (!only_owns(&s->body, q)) return false;
  }
  return true;
}

static bool is_order_free(const struct kir_stmt *loop) {
  for (const struct kir_stmt *s = loop->body.first; s; s = s->next)
    if (s->kind == KIR_CARRY || s->kind == KIR_NEXT || s->kind == KIR_UNTIL || s->kind == KIR_FOLD || s->kind == KIR_PREFIX ||
        s->kind == KIR_KEEP || s->kind == KIR_SERIAL)
      return false;
  return true;
}

/* par q in blocks(S, B) { serial i in N { .. if owns(q, k) { store y[k] add = .. } } }: where combining in memory is to
 * be had, every update goes to its place at once and nobody owns anything. */
static void find_owners(struct survey *s) {
  const struct kir_stmt *par = s->k->body.last;
  if (!par || par->kind != KIR_PAR || par->extent != KIR_BLOCKS || par->n_private) return;
  const struct kir_stmt *loop = par->body.first;
  if (!loop || loop->next || (loop->kind != KIR_SERIAL && loop->kind != KIR_LANE)) return;
  if (!is_order_free(loop) || !only_owns(&par->body, par->var)) return;
  for (int b = 0; b < s->k->n_bufs; b++)
    if (s->bufs[b].is_stored && (s->bufs[b].is_loaded || s->k->bufs[b].kind == KIR_LOCAL)) return;
  for (const struct kir_stmt *x = s->k->body.first; x != par; x = x->next)
    if (x->kind == KIR_STORE || is_loop(x)) return;
  s->owned = par;
  s->swept = loop;
}

/* ---- The decision ---------------------------------------------------------------------------------------------------- */

/* Par loops that the grid may run: each alone among statements that any number of threads may repeat. */
static int perfect_depth(const struct kir_block *b) {
  const struct kir_stmt *par = NULL;
  for (const struct kir_stmt *s = b->first; s; s = s->next) {
    if (s->kind == KIR_PAR ? par != NULL
                           : s->kind != KIR_OP && s->kind != KIR_LOAD && s->kind != KIR_CHECK && s->kind != KIR_LOCALS)
      return 0;
    if (s->kind == KIR_PAR) par = s;
  }
  return par ? 1 + perfect_depth(&par->body) : 0;
}

/* How often it runs is known before the kernel is. */
static bool is_counted(const struct kir_kernel *k, const struct kir_stmt *loop) {
  struct kir_lin l = loop->at[0];
  for (int i = 0; i < l.n; i++)
    for (int j = 0; j < l.term[i].n; j++) {
      int kind = k->vals[l.term[i].val[j]].kind;
      if (kind != KIR_SIZE && kind != KIR_ARG) return false;
    }
  return loop->extent == KIR_N;
}

/* Where threads need not meet, loops that have nothing but each other are one: whichever of them is the long one, threads are
 * enough. */
static int count_together(const struct survey *s) {
  const struct kir_block *b = &s->k->body;
  int n = 0;
  for (; !s->is_cooperative && n < s->grid_depth && n < PTX_NEST_PARS; n++) {
    const struct kir_stmt *par = b->first;
    while (par->kind != KIR_PAR) par = par->next;
    if (!is_counted(s->k, par) || par->n_private || par == s->owned) break;
    b = &par->body;
  }
  return n > 1 ? n : 0;
}

static void find_blocks(struct survey *s) {
  const struct kir_stmt *p = s->private_loop;
  if (p && !s->in_order) s->may_reblock = p->extent == KIR_BLOCKS && !survey_uses(&p->body, p->var);
}

static bool is_computed(const struct kir_kernel *k, struct kir_lin l) {
  for (int i = 0; i < l.n; i++)
    for (int j = 0; j < l.term[i].n; j++)
      if (k->vals[l.term[i].val[j]].kind == KIR_RESULT) return true;
  return false;
}

/* The subscripts are the variables of loops as long as the axes. */
static bool covers(const struct kir_kernel *k, const struct kir_stmt *store) {
  const struct kir_buf *b = &k->bufs[store->buf];
  for (int d = 0; d < store->n_at; d++) {
    struct kir_lin l = store->at[d];
    if (l.n != 1 || l.term[0].coef != 1 || l.term[0].n != 1) return false;
    const struct kir_stmt *loop = find_loop(&k->body, l.term[0].val[0]);
    if (!loop || loop->kind == KIR_SERIAL || loop->extent != KIR_N || !kir_lin_equal(loop->at[0], b->dims[d])) return false;
    for (int c = 0; c < d; c++) if (kir_lin_equal(store->at[c], l)) return false;
  }
  return true;
}

static bool is_stored_once(const struct survey_walk *w, int buf) {
  int n = 0;
  for (const struct access_site *a = w->sites; a; a = a->next)
    if (a->s->buf == buf) n += a->s->kind == KIR_STORE && !a->is_often && covers(w->s->k, a->s) ? 1 : 2;
  return n == 1;
}

static bool all_are_stored_once(const struct survey_walk *w) {
  const struct kir_stmt *loop = w->s->private_loop;
  for (int i = 0; loop && i < loop->n_private; i++) if (!is_stored_once(w, loop->private[i].buf)) return false;
  return loop != NULL;
}

/* Private copies that combine floats have an order, but for those that are scattered into. Each place of a copy belongs to one
 * thread: the subscripts name its lane. Those of columns, each place of which is stored once, are combined in order whatever they
 * are: a block of threads has no use for a copy of them all, which few threads fill, and which is combined into the output over and
 * over. */
static void find_order(struct survey_walk *w) {
  struct survey *s = w->s;
  bool is_scatter = false, is_owned = true, is_of_columns = true;
  for (int i = 0; s->private_loop && i < s->private_loop->n_private; i++) {
    const struct kir_private *x = &s->private_loop->private[i];
    weft_dtype d = (weft_dtype)s->k->bufs[x->buf].dtype;
    if (((x->op == KIR_ADD || x->op == KIR_MUL) && kir_is_float(kir_register_of(d))) || !kir_is_register(d)) s->in_order = true;
  }
  for (const struct access_site *a = w->sites; a; a = a->next) {
    if (a->s->kind != KIR_STORE || s->bufs[a->s->buf].private_op == KIR_OPS) continue;
    bool names_lane = !a->lane;
    for (int d = 0; d < a->s->n_at; d++) {
      if (is_computed(s->k, a->s->at[d])) is_scatter = true;
      if (a->lane && survey_mentions(a->s->at[d], a->lane->var)) names_lane = true;
    }
    if (!names_lane) is_owned = false;
    if (!a->lane && s->has_lane) is_of_columns = false;
  }
  if (is_owned && is_of_columns && all_are_stored_once(w)) s->in_order = true;
  if (is_scatter) s->in_order = false;
  s->leaves = s->private_loop && !s->in_order && s->private_loop->n_private == 1 && s->private_loop->private[0].op == KIR_MUL;
  s->is_once = s->in_order && all_are_stored_once(w);
  if (s->in_order && !is_owned) refuse(s, "private copies that several lanes combine into in order");
  for (int i = 0; s->private_loop && !s->in_order && i < s->private_loop->n_private; i++)
    if (!kir_is_register((weft_dtype)s->k->bufs[s->private_loop->private[i].buf].dtype))
      refuse(s, "private copies of a narrow dtype");
}

/* Folds of narrow elements that have no order go as if they had one: there lanes load words of them (nest_words.c), and a row has
 * no more threads than that takes. Nobody asks for blocks of 4096 then. */
enum { WITHOUT_ORDER = 2048 };

static void take_order(struct survey_walk *w) {
  bool takes = w->has_narrow && !w->has_wide && !w->has_keep && !w->has_prefix && !w->s->private_loop;
  w->s->a_warp = takes && !w->s->is_ordered ? WITHOUT_ORDER : KIR_ROW_BLOCK;
  w->s->is_ordered |= takes;
}

static void decide(struct survey_walk *w) {
  struct survey *s = w->s;
  take_order(w);
  find_order(w);
  find_conflicts(w);
  find_owners(s);
  find_blocks(s);
  for (int b = 0; b < s->k->n_bufs && !s->owned; b++) {
    if (!s->has_lane) s->bufs[b].is_shared = false;
    if (s->bufs[b].is_shared) s->is_cooperative = true;
  }
  s->has_private = s->private_loop != NULL;
  s->is_one_warp = s->is_ordered && w->has_prefix;
  s->is_dealt = s->is_ordered && w->has_keep && !w->has_prefix;
  s->is_cooperative |= s->has_private && !s->is_once;
  s->grid_depth = perfect_depth(&s->k->body);
  s->n_together = count_together(s);
  s->is_single = s->is_cooperative && !s->grid_depth;
  if (s->has_private && s->is_single) refuse(s, "a private loop that is not alone in its kernel");
}

bool survey_nothing(struct survey *s, const struct kir_kernel *k, struct arena *arena) {
  *s = (struct survey){ .k = k, .bufs = arena_take(arena, (size_t)(k->n_bufs + 1) * sizeof *s->bufs) };
  if (!s->bufs) return s->why = "", false;
  for (int b = 0; b < k->n_bufs; b++) s->bufs[b].private_op = KIR_OPS;
  return true;
}

bool survey_make(struct survey *s, const struct kir_kernel *k, struct arena *arena) {
  struct survey_walk w = { .s = s, .arena = arena };
  const char *exact = getenv("WEFT_EXACT");
  if (!survey_nothing(s, k, arena)) return false;
  s->is_exact = exact && !strcmp(exact, "1");
  visit(&w, &k->body, (struct around){ 0 });
  if (!s->why) decide(&w);
  if (!s->why) survey_find_product(s);
  return !s->why;
}
