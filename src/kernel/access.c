/* access.c -- which loads and stores may meet.
 *
 * par iterations and lanes run in any order, and one after the other only where the text has a loop end between them.
 * So each place has one owner: every store tells the iterations of the par loops and the lanes around it apart, and who
 * reads what is stored in the same kernel is its owner, or never meets the store. The only exception is the ordered
 * store, through a loaded index, which is alone with its buffer in its lane loop. */
#include "kernel/access.h"
#include <string.h>
#include "base/arena.h"
#include "base/text.h"

/* ---- Finding them --------------------------------------------------------------------------------------------------- */

static bool is_loop(const struct kir_stmt *s) { return s->kind == KIR_PAR || s->kind == KIR_SERIAL || s->kind == KIR_LANE; }

static void note(struct accesses *a, const struct kir_stmt *s, const struct frame *in) {
  if (a->n == a->room) {
    int room = a->room ? 2 * a->room : 32;
    struct access *list = arena_grow(a->arena, a->list, (size_t)a->n * sizeof *list, (size_t)room * sizeof *list);
    if (!list) {
      a->failed = true;
      return;
    }
    a->list = list;
    a->room = room;
  }
  a->list[a->n++] = (struct access){ s, in, frame_lane(in), false };
}

static void note_origin(struct accesses *a, const struct kir_stmt *s, const struct frame *in) {
  const struct kir_stmt *lane = frame_lane(in);
  bool leaves = (s->kind == KIR_FOLD || s->kind == KIR_PREFIX) && lane && lane == in->s;
  for (int i = 0; i < s->n_out && s->kind != KIR_NEXT; i++)
    a->of[s->out[i]] = (struct origin){ .born = ++a->clock, .lane = lane, .leaves = leaves, .by = s };
}

static void find(struct accesses *a, const struct kir_block *block, const struct frame *in) {
  for (const struct kir_stmt *s = block->first; s && !a->failed; s = s->next) {
    if (s->kind == KIR_LOAD || s->kind == KIR_STORE) note(a, s, in);
    note_origin(a, s, in);
    if (!is_loop(s) && s->kind != KIR_IF) continue;
    struct frame *f = arena_take(a->arena, sizeof *f);
    if (!f) {
      a->failed = true;
      return;
    }
    *f = (struct frame){ in, s };
    if (is_loop(s)) a->of[s->var] = (struct origin){ .born = ++a->clock, .loop = s, .lane = frame_lane(f) };
    find(a, &s->body, f);
    if (is_loop(s)) a->of[s->var].gone = ++a->clock;
  }
}

static void mark_ordered(struct accesses *a);

bool accesses_find(struct accesses *a, const struct kir_kernel *k) {
  *a = (struct accesses){ .arena = arena_new(), .k = k };
  a->of = a->arena ? arena_take(a->arena, (size_t)k->n_vals * sizeof *a->of) : NULL;
  a->failed = !a->of;
  if (!a->failed) find(a, &k->body, NULL);
  if (!a->failed) mark_ordered(a);
  return !a->failed;
}

void accesses_free(struct accesses *a) { arena_free(a->arena); }

const struct kir_stmt *frame_lane(const struct frame *f) {
  for (; f; f = f->up)
    if (f->s->kind == KIR_LANE) return f->s;
  return NULL;
}

const struct kir_private *frame_private(const struct frame *f, int buf) {
  for (; f; f = f->up)
    for (int i = 0; i < f->s->n_private; i++)
      if (f->s->private[i].buf == buf) return &f->s->private[i];
  return NULL;
}

/* ---- Axes and what is fixed ------------------------------------------------------------------------------------------- */

/* v is an axis whose iterations may run at the same time. */
static bool axis_moves(const struct accesses *a, int v) {
  const struct kir_stmt *l = a->of[v].loop;
  return l && (l->kind != KIR_SERIAL || l->extent == KIR_BLOCK);
}

/* Values that are the same in all iterations of a loop; of NULL: in the whole kernel. */
static bool is_fixed(const struct accesses *a, const struct kir_stmt *loop, int v) {
  const struct origin *o = &a->of[v];
  enum kir_val_kind kind = (enum kir_val_kind)a->k->vals[v].kind;
  if (kind == KIR_LIT || kind == KIR_SIZE || kind == KIR_ARG) return true;
  if (!loop || (o->lane && !(o->leaves && o->lane != loop))) return false;
  return o->born < a->of[loop->var].born || o->born > a->of[loop->var].gone;
}

static bool same_axis(const struct accesses *, int, int);

static bool same_extent(const struct accesses *a, const struct kir_stmt *x, const struct kir_stmt *y) {
  if (x->extent != y->extent) return false;
  if (x->extent == KIR_BLOCK) return same_axis(a, x->block_of, y->block_of);
  return kir_lin_equal(x->at[0], y->at[0]) && (x->extent == KIR_N || kir_lin_equal(x->at[1], y->at[1]));
}

/* The same loop, or one that goes over the same range in the same way, so that equal values have one owner. */
static bool same_axis(const struct accesses *a, int v, int w) {
  const struct kir_stmt *x = a->of[v].loop, *y = a->of[w].loop;
  return v == w || (x && y && x->kind == y->kind && x->kind != KIR_SERIAL && same_extent(a, x, y));
}

static bool same_term(const struct accesses *a, const struct kir_term *x, const struct kir_term *y) {
  bool used[KIR_FACTORS] = { 0 };
  if (x->coef != y->coef || x->n != y->n) return false;
  for (int i = 0, j; i < x->n; i++) {
    for (j = 0; j < y->n && (used[j] || !same_axis(a, x->val[i], y->val[j])); j++) {}
    if (j == y->n) return false;
    used[j] = true;
  }
  return true;
}

static bool same_lin(const struct accesses *a, const struct kir_lin *x, const struct kir_lin *y) {
  bool used[KIR_TERMS] = { 0 };
  if (x->n != y->n) return false;
  for (int i = 0, j; i < x->n; i++) {
    for (j = 0; j < y->n && (used[j] || !same_term(a, &x->term[i], &y->term[j])); j++) {}
    if (j == y->n) return false;
    used[j] = true;
  }
  return true;
}

/* ---- One owner to a place -------------------------------------------------------------------------------------------- */

struct digit { int axis; struct kir_term weight; }; /* weight * axis in a sum */

/* The axes of l, each with its weight, if l is a sum of fixed values and of weighted axes. 0: it is not. A serial loop
 * around the loop in question stands still; one inside it is one more axis. */
static int digits(const struct accesses *a, const struct kir_stmt *loop, const struct kir_lin *l,
                  struct digit d[KIR_TERMS]) {
  int n = 0;
  for (int i = 0; i < l->n; i++) {
    struct digit x = { -1, { l->term[i].coef, 0, { 0 } } };
    for (int j = 0; j < l->term[i].n; j++) {
      int v = l->term[i].val[j];
      bool is_axis = a->of[v].loop && (loop->kind == KIR_LANE ? !is_fixed(a, loop, v) : true);
      if (is_axis && x.axis >= 0) return 0;
      if (is_axis) x.axis = v;
      else if (is_fixed(a, loop->kind == KIR_LANE ? loop : NULL, v)) x.weight.val[x.weight.n++] = v;
      else return 0;
    }
    for (int j = 0; j < n; j++)
      if (d[j].axis == x.axis) return 0;
    if (x.axis >= 0) d[n++] = x;
  }
  return n;
}

static bool weighs(const struct digit *d, const struct kir_term *w) {
  struct kir_lin x = { 1, (struct kir_term *)&d->weight }, y = { 1, (struct kir_term *)w };
  return kir_lin_equal(x, y);
}

/* i*C*D + c*D + d with c in C, d in D: each axis weighs what the ranges below it make together. */
static bool is_mixed_radix(const struct accesses *a, int n, struct digit d[]) {
  struct kir_term w = { 1, 0, { 0 } };
  for (int left = n; left > 0; left--) {
    int i = 0;
    while (i < left && !weighs(&d[i], &w)) i++;
    if (i == left) return false;
    const struct kir_stmt *l = a->of[d[i].axis].loop;
    d[i] = d[left - 1];
    if (left == 1) return true;
    if (l->extent != KIR_N || l->at[0].n != 1) return false;
    const struct kir_term *e = &l->at[0].term[0];
    if (w.n + e->n > KIR_FACTORS || __builtin_mul_overflow(w.coef, e->coef, &w.coef)) return false;
    for (int j = 0; j < e->n; j++) { /* keep the factors sorted */
      int at = w.n++;
      for (; at && w.val[at - 1] > e->val[j]; at--) w.val[at] = w.val[at - 1];
      w.val[at] = e->val[j];
    }
  }
  return true;
}

static bool stands_for(const struct accesses *a, int v, const struct kir_stmt *loop) {
  const struct kir_stmt *l = a->of[v].loop;
  return v == loop->var || (l->extent == KIR_BLOCK && l->block_of == loop->var);
}

static bool covers_by(const struct accesses *a, const struct kir_lin *l, const struct kir_stmt *loop) {
  struct digit d[KIR_TERMS];
  int n = digits(a, loop, l, d), found = 0;
  for (int i = 0; i < n; i++) found += stands_for(a, d[i].axis, loop);
  return found && (n == 1 || is_mixed_radix(a, n, d));
}

/* Some subscript differs between any two iterations of the loop, whatever else happens. */
static bool covers(const struct accesses *a, const struct access *x, const struct kir_stmt *loop) {
  for (int i = 0; i < x->s->n_at; i++)
    if (covers_by(a, &x->s->at[i], loop)) return true;
  return false;
}

static bool uses(const struct kir_stmt *s, int v) {
  for (int i = 0; i < s->n_at; i++)
    for (int j = 0; j < s->at[i].n; j++)
      for (int f = 0; f < s->at[i].term[j].n; f++)
        if (s->at[i].term[j].val[f] == v) return true;
  return false;
}

/* Under an if on owns(q, k), with k in a subscript: the block q of targets belongs to the iteration. */
static bool is_owned(const struct accesses *a, const struct access *x, const struct kir_stmt *par) {
  for (const struct frame *f = x->in; f; f = f->up) {
    const struct kir_stmt *by = f->s->kind == KIR_IF ? a->of[f->s->in[0]].by : NULL;
    if (by && by->kind == KIR_OP && by->op == KIR_OWNS && by->in[0] == par->var && uses(x->s, by->in[1])) return true;
  }
  return false;
}

static bool moves_with_lanes(const struct accesses *a, const struct access *x, const struct kir_stmt *lane) {
  for (int i = 0; i < x->s->n_at; i++)
    for (int j = 0; j < x->s->at[i].n; j++)
      for (int f = 0; f < x->s->at[i].term[j].n; f++) {
        const struct origin *o = &a->of[x->s->at[i].term[j].val[f]];
        if (o->lane && (o->lane == lane || !o->leaves)) return true;
      }
  return false;
}

static void mark_ordered(struct accesses *a) {
  for (int i = 0; i < a->n; i++) {
    struct access *x = &a->list[i];
    x->is_ordered = x->lane && x->s->kind == KIR_STORE && moves_with_lanes(a, x, x->lane) && !covers(a, x, x->lane);
  }
}

/* ---- Two accesses ---------------------------------------------------------------------------------------------------- */

static bool all_fixed(const struct accesses *a, const struct kir_stmt *loop, const struct kir_term *t) {
  for (int i = 0; i < t->n; i++)
    if (!is_fixed(a, loop, t->val[i])) return false;
  return true;
}

static const struct kir_term *partner(const struct kir_lin *l, const struct kir_term *t) {
  struct kir_term same = *t;
  for (int i = 0; i < l->n; i++) {
    same.coef = l->term[i].coef;
    if (kir_lin_equal((struct kir_lin){ 1, &same }, (struct kir_lin){ 1, &l->term[i] })) return &l->term[i];
  }
  return NULL;
}

static uint64_t gcd(uint64_t x, uint64_t y) {
  while (y) {
    uint64_t r = x % y;
    x = y;
    y = r;
  }
  return x;
}

static uint64_t size_of(__int128 x) { return (uint64_t)(x < 0 ? -x : x); }

/* x - y is never 0: the gcd of its coefficients does not divide its constant. What is not fixed may differ on the two
 * sides and does not cancel. */
static bool never_equal(const struct accesses *a, const struct kir_stmt *loop, const struct kir_lin *x,
                        const struct kir_lin *y) {
  __int128 c = 0;
  uint64_t g = 0;
  for (int side = 0; side < 2; side++) {
    const struct kir_lin *l = side ? y : x, *other = side ? x : y;
    for (int i = 0; i < l->n; i++) {
      const struct kir_term *t = &l->term[i], *p = all_fixed(a, loop, t) ? partner(other, t) : NULL;
      __int128 coef = (__int128)t->coef - (p ? p->coef : 0);
      if (!t->n) c = side && !p ? -coef : side ? c : coef;
      else if (!(side && p)) g = gcd(g, size_of(coef));
    }
  }
  return g ? size_of(c) % g != 0 : c != 0;
}

static bool are_apart(const struct accesses *a, const struct kir_stmt *loop, const struct access *x,
                      const struct access *y) {
  for (int i = 0; i < x->s->n_at; i++)
    if (never_equal(a, loop, &x->s->at[i], &y->s->at[i])) return true;
  return false;
}

/* Only axes and fixed values; *moves: some axis may run at the same time as itself. */
static bool is_plain(const struct accesses *a, const struct kir_stmt *loop, const struct kir_lin *l, bool *moves) {
  for (int i = 0; i < l->n; i++)
    for (int j = 0; j < l->term[i].n; j++) {
      int v = l->term[i].val[j];
      if (!a->of[v].loop && !is_fixed(a, loop, v)) return false;
      *moves |= axis_moves(a, v);
    }
  return true;
}

static bool have_one_owner(const struct accesses *a, const struct kir_stmt *loop, const struct access *x,
                           const struct access *y) {
  for (int i = 0; i < x->s->n_at; i++) {
    bool moves = false;
    const struct kir_lin *l = &x->s->at[i], *m = &y->s->at[i];
    if (!is_plain(a, loop, l, &moves) || !is_plain(a, loop, m, &moves)) return false;
    if (moves && !same_lin(a, l, m)) return false;
  }
  return true;
}

static bool has_axis(const struct accesses *a, const struct kir_lin *l) {
  for (int i = 0; i < l->n; i++)
    for (int j = 0; j < l->term[i].n; j++)
      if (a->of[l->term[i].val[j]].loop) return true;
  return false;
}

bool accesses_same_place(const struct accesses *a, const struct access *x, const struct access *y) {
  for (int i = 0; i < x->s->n_at; i++) {
    const struct kir_lin *l = &x->s->at[i], *m = &y->s->at[i];
    if ((has_axis(a, l) || has_axis(a, m)) && !same_lin(a, l, m)) return false;
  }
  return true;
}

/* ---- The rules -------------------------------------------------------------------------------------------------------- */

static const char *refuse(struct accesses *a, const struct access *x, const char *what) {
  struct text t = { 0 };
  text_addf(&t, "%s: %s", a->k->bufs[x->s->buf].name, what);
  const char *s = t.failed ? NULL : arena_text(a->arena, t.s);
  text_free(&t);
  return s ? s : "out of memory";
}

static bool is_local(const struct accesses *a, const struct access *x) { return a->k->bufs[x->s->buf].kind == KIR_LOCAL; }

static const char *refuse_par(struct accesses *a, const struct access *x, const struct kir_stmt *par) {
  struct text t = { 0 };
  text_addf(&t, "iterations of par %s may store to one place", a->k->vals[par->var].name ? a->k->vals[par->var].name : "");
  const char *s = refuse(a, x, text_of(&t));
  text_free(&t);
  return s;
}

static const char *store_alone(struct accesses *a, const struct access *x) {
  if (x->lane && !moves_with_lanes(a, x, x->lane)) return refuse(a, x, "all lanes store to one place");
  for (const struct frame *f = x->in; f; f = f->up) {
    bool is_free = is_local(a, x) || frame_private(x->in, x->s->buf);
    if (f->s->kind == KIR_PAR && !is_free && !covers(a, x, f->s) && !is_owned(a, x, f->s)) return refuse_par(a, x, f->s);
  }
  if (!x->is_ordered) return NULL;
  for (const struct frame *f = x->in; f->s != x->lane; f = f->up)
    if (f->s->kind == KIR_SERIAL) return refuse(a, x, "an ordered store may not stand in a serial loop of a lane");
  return NULL;
}

/* Both stores are in this par loop, and tell its iterations apart by the same subscript. */
static bool share_owner(const struct accesses *a, const struct access *x, const struct access *y,
                        const struct kir_stmt *par) {
  if (is_owned(a, x, par) && is_owned(a, y, par)) return true;
  for (int i = 0; i < x->s->n_at; i++)
    if (covers_by(a, &x->s->at[i], par) && same_lin(a, &x->s->at[i], &y->s->at[i])) return true;
  return false;
}

static const char *two_stores(struct accesses *a, const struct access *x, const struct access *y) {
  if (x->lane && x->lane == y->lane && !are_apart(a, x->lane, x, y) && !have_one_owner(a, x->lane, x, y))
    return refuse(a, x, "two stores of a lane loop may meet");
  if (is_local(a, x) || frame_private(x->in, x->s->buf)) return NULL;
  for (const struct frame *f = x->in; f; f = f->up)
    for (const struct frame *g = y->in; g; g = g->up)
      if (f->s == g->s && f->s->kind == KIR_PAR && !share_owner(a, x, y, f->s) && !are_apart(a, NULL, x, y))
        return refuse_par(a, x, f->s);
  return NULL;
}

static const char *load_and_store(struct accesses *a, const struct access *load, const struct access *store) {
  if (frame_private(store->in, store->s->buf)) return refuse(a, store, "is private and cannot be read");
  const struct kir_stmt *loop = is_local(a, store) ? store->lane : NULL;
  if (is_local(a, store) && !(loop && loop == load->lane)) return NULL; /* phases are apart */
  if (are_apart(a, loop, load, store) || have_one_owner(a, loop, load, store)) return NULL;
  return refuse(a, load, "a lane may read what another stores");
}

static const char *pair(struct accesses *a, const struct access *x, const struct access *y) {
  if (x->s->buf != y->s->buf) return NULL;
  if (x->lane && x->lane == y->lane && (x->is_ordered || y->is_ordered))
    return refuse(a, x, "an ordered store must be the only access in its lane loop");
  if (x->s->kind == KIR_STORE && y->s->kind == KIR_STORE) return two_stores(a, x, y);
  if (x->s->kind == KIR_STORE) return load_and_store(a, y, x);
  return y->s->kind == KIR_STORE ? load_and_store(a, x, y) : NULL;
}

const char *accesses_race(struct accesses *a) {
  const char *why = NULL;
  for (int i = 0; i < a->n && !why; i++)
    if (a->list[i].s->kind == KIR_STORE) why = store_alone(a, &a->list[i]);
  for (int i = 0; i < a->n && !why; i++)
    for (int j = 0; j < i && !why; j++) why = pair(a, &a->list[i], &a->list[j]);
  return why;
}
