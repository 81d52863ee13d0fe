/* held.c -- what somebody holds and will want again: see held.h. */
#include "run/held.h"
#include <string.h>
#include "base/mem.h"
#include "graph/dtype.h"
#include "op/op.h"
#include "run/eval.h"

enum { FAR = 64, SMALL_BYTES = 64 << 10 }; /* FAR operations cost about what one array of memory traffic does; what is small
                                              costs less to store than its kernel costs to launch, and all of it, where
                                              a part is asked for, not much more than to plan so many operations again */

enum { FEW = 32 }; /* nodes of a list that need no memory beside the stack: a single operation costs less than an allocation */

/* What is known of the nodes of an evaluation while it is decided which to store. Arrays are by index in the list. */
struct holding {
  const struct node_list *list;
  int *uses;            /* references from nodes of the list; INT32_MAX: a target */
  uint8_t *reach;       /* REACHED | FULL | STOPS | WANTED */
  int *depth, *most;    /* operations on the longest path to stored values; at most so many lie between. Of long lists only */
  int *seen, *stack;    /* of a search: the last one that came by; nodes still to look at */
  int n_searches;
  int few[FEW + FEW / sizeof(int)]; /* uses and reach, of a short list */
};
enum { REACHED = 1, FULL = 2, STOPS = 4, WANTED = 8 }; /* a path from a target meets nothing held before it; all its elements are
                                                          computed; eval_stops, or will be stored; will be */
enum { SEARCHES = 4 }; /* so many may be wasted where one look at the whole list serves all that follow */

/* How many of its inputs are of the list. */
static int n_below(const struct holding *s, int i) { return s->reach[i] & STOPS ? 0 : s->list->node[i]->n_in; }

static bool holding_begin(struct holding *s, const struct node_list *l) {
  size_t n = (size_t)l->n + 1;
  bool is_long = l->n > FAR;
  s->list = l, s->depth = s->most = s->seen = s->stack = NULL, s->n_searches = 0;
  s->uses = n <= FEW ? memset(s->few, 0, sizeof s->few) : mem_alloc((sizeof(int) * (is_long ? 5 : 1) + 1) * n);
  if (!s->uses) return false;
  int *next = s->uses + n;
  if (is_long) s->depth = next, s->most = next + n, s->seen = next + 2 * n, s->stack = next + 3 * n, next += 4 * n;
  s->reach = (uint8_t *)next;
  for (int i = 0; i < l->n; i++) {
    const struct node *x = l->node[i];
    if (eval_stops(x)) s->reach[i] = STOPS;
    else for (int k = 0; k < x->n_in; k++) s->uses[x->in[k]->slot]++;
  }
  return true;
}

static void holding_end(struct holding *s) {
  if (s->uses != s->few) mem_free(s->uses);
}

/* ---- Who holds it ---- */

static int refs_of(const struct node *n) { return atomic_load_explicit(&n->refs, memory_order_relaxed); }

/* What has memory of its own if it is stored, and somebody outside the list refers to it. */
static inline bool is_held(const struct holding *s, int i) {
  const struct node *n = s->list->node[i];
  if (s->reach[i] & STOPS || n->op->kind == OP_VIEW || n->op->many || n->op->kind == OP_IOTA) return false;
  return refs_of(n) > s->uses[i];
}

/* All who hold it are owners, and no scope is open that it belongs to. */
static bool is_loose(const struct holding *s, int i) {
  const struct node *n = s->list->node[i];
  return node_is_loose(n) && refs_of(n) <= s->uses[i] + node_n_loose(n);
}

static bool is_small(const struct node *n) {
  dim count = dim_count(n->rank, n->dims);
  return dim_is_known(count) && count <= SMALL_BYTES / (int64_t)weft_dtype_bytes((weft_dtype)n->dtype);
}

/* ---- How far it is from stored values ---- */

static bool is_operation(const struct holding *s, int i) {
  switch (s->list->node[i]->op->kind) {
    case OP_LEAF: case OP_IOTA: case OP_SIZE: case OP_VIEW: case OP_IDENTITY: case OP_ITEM: return false;
    case OP_ELEMENT: case OP_REDUCE: case OP_PREFIX: case OP_TAKE: case OP_PUT: case OP_SCATTER: case OP_CONTRACT: case OP_CONCAT:
    case OP_PAIR: case OP_PAD: case OP_LOOP: case OP_CALL: case OP_LATER: case OP_LIBRARY: break;
  }
  return !(s->reach[i] & STOPS);
}

static int at_most(int a, int b) { return a < b ? a : b; }

/* Paths that meet again are counted twice by `most`, and once by the search. */
static void measure(struct holding *s) {
  for (int i = 0; i < s->list->n; i++) {
    const struct node *n = s->list->node[i];
    int own = is_operation(s, i), depth = 0, most = 0;
    for (int k = 0; k < n_below(s, i); k++) {
      int j = n->in[k]->slot;
      depth = depth > s->depth[j] ? depth : s->depth[j];
      most = at_most(most + s->most[j], FAR + 1);
    }
    s->depth[i] = depth + own;
    s->most[i] = at_most(most + own, FAR + 1);
  }
}

/* Goes down from i until more than FAR operations are found. */
static bool search(struct holding *s, int i) {
  int found = 0, n = 0;
  s->stack[n++] = i, s->seen[i] = i + 1;
  while (n && found <= FAR) {
    int x = s->stack[--n];
    found += is_operation(s, x);
    for (int k = 0; k < n_below(s, x); k++) {
      int j = s->list->node[x]->in[k]->slot;
      if (s->seen[j] != i + 1) s->seen[j] = i + 1, s->stack[n++] = j;
    }
  }
  return found > FAR;
}

static bool is_far(struct holding *s, int i) {
  if (!s->depth) return false;
  if (s->n_searches++ < SEARCHES) return search(s, i);
  if (s->n_searches == SEARCHES + 1) measure(s);
  return s->most[i] > FAR && (s->depth[i] > FAR || search(s, i));
}

/* ---- Which of them are met first ---- */

/* Whether all elements of operand k are computed where all of n are. */
static bool needs_all(const struct node *n, int k) {
  if (n->op->kind == OP_TAKE || n->op->kind == OP_PUT) return k > 0;
  if (n->op == &op_as_strided) return false;
  if (n->op != &op_slice) return true;
  int64_t axis = ((const struct slice_attr *)n->attr)->axis;
  return n->dims[axis] == n->in[0]->dims[axis];
}

static void pass_on(struct holding *s, int i, int what) {
  const struct node *n = s->list->node[i];
  if (s->reach[i] & STOPS || n->op->kind == OP_SIZE) return;
  for (int k = 0; k < n->n_in; k++) s->reach[n->in[k]->slot] |= s->reach[i] & (needs_all(n, k) ? what : what & ~FULL);
}

static bool is_worth_it(struct holding *s, int i) {
  const struct node *n = s->list->node[i];
  if (facts_of(n)->is_heavy) return true;
  if (!(s->reach[i] & REACHED)) return false;
  if (n->was_needed) return true;
  bool is_cheap = is_small(n), is_full = s->reach[i] & FULL;
  if (is_full && is_cheap && node_is_owned(n)) return true; /* an owner may hold a view of it */
  return (is_full || is_cheap) && is_far(s, i);
}

/* Users come after what they use: from the end of the list on, all users of a node have been looked at before it. */
static int find_first(struct holding *s, bool only_looks) {
  int found = 0;
  for (int i = s->list->n; i-- > 0;) {
    if (s->uses[i] == INT32_MAX) s->reach[i] |= REACHED | FULL;
    bool held = is_held(s, i);
    pass_on(s, i, held ? FULL : REACHED | FULL);
    if (!held) continue;
    if (is_worth_it(s, i)) s->reach[i] |= WANTED, found++;
    if (!only_looks) s->list->node[i]->was_needed = true;
  }
  return found;
}

/* Behind what is met first, which gradients hold: parameters and moments of a training of which only losses are asked for. They
 * will be computed again, as owners or expressions have them: those that are far from what is stored, or will be. */
static __attribute__((noinline)) int find_behind(struct holding *s) {
  int found = 0;
  for (int i = 0; i < s->list->n; i++) {
    bool may_be = !(s->reach[i] & WANTED) && is_held(s, i) && (s->reach[i] & FULL || is_small(s->list->node[i]));
    if (may_be && search(s, i)) s->reach[i] |= WANTED, found++;
    if (s->reach[i] & WANTED) s->reach[i] |= STOPS;
  }
  return found;
}

/* Not for names of a scope: those of a long program are all still there. */
static int choose(struct holding *s, bool only_looks, bool has_names, int wanted[]) {
  int found = find_first(s, only_looks), at = 0;
  if (s->depth && !has_names) found += find_behind(s);
  for (int i = s->list->n; at < found; ) if (s->reach[--i] & WANTED) wanted[at++] = i;
  return found;
}

static bool put_down(struct held *h, const struct holding *s, int n, const int wanted[], bool has_names) {
  if (!n) return true;
  h->node = mem_alloc((sizeof *h->node + sizeof *h->forgets) * (size_t)(n + 1));
  if (!h->node) return false;
  h->forgets = (bool *)(h->node + n + 1);
  for (h->n = 0; h->n < n; h->n++) {
    int i = wanted[n - 1 - h->n]; /* in the order of the list */
    h->node[h->n] = s->list->node[i];
    h->forgets[h->n] = !has_names || is_loose(s, i);
  }
  return true;
}

bool held_find(struct held *h, const struct node_list *l, int n, struct node *const target[], bool only_looks, bool has_names) {
  struct holding s;
  int few[FEW], *wanted = l->n <= FEW ? few : mem_alloc(sizeof *wanted * (size_t)(l->n + 1));
  *h = (struct held){ 0 };
  bool ok = holding_begin(&s, l) && wanted;
  if (ok) {
    for (int i = 0; i < n; i++) s.uses[target[i]->slot] = INT32_MAX;
    ok = put_down(h, &s, choose(&s, only_looks, has_names, wanted), wanted, has_names);
  }
  holding_end(&s);
  if (wanted != few) mem_free(wanted);
  return ok;
}

void held_free(struct held *h) { mem_free(h->node); }

/* ---- What may be forgotten ---- */

static bool has_history(const struct node *n) { return n->n_in && atomic_load(&n->state) == NODE_READY; }

/* reach: in an open scope somebody may ask for its history, having it or something made of it. */
static void find_scoped(struct holding *s) {
  for (int i = s->list->n; i-- > 0;) {
    const struct node *n = s->list->node[i];
    if (s->uses[i] != INT32_MAX && refs_of(n) > s->uses[i] + node_n_loose(n)) s->reach[i] |= REACHED;
    for (int k = 0; s->reach[i] & REACHED && k < n_below(s, i); k++) s->reach[n->in[k]->slot] |= REACHED;
  }
}

bool held_forget(const struct node_list *l, int n, struct node *const target[], const bool forgets[], bool has_names) {
  struct holding s;
  bool some = false;
  for (int i = 0; i < l->n; i++) some |= has_history(l->node[i]);
  if (!some) return true;
  if (!holding_begin(&s, l)) return false;
  for (int i = 0; i < n; i++) s.uses[target[i]->slot] = INT32_MAX, s.reach[target[i]->slot] |= forgets[i] ? 0 : REACHED;
  if (has_names) find_scoped(&s);
  for (int i = 0; i < l->n; i++) if (has_history(l->node[i]) && !(s.reach[i] & REACHED)) node_forget(l->node[i]);
  holding_end(&s);
  return true;
}
