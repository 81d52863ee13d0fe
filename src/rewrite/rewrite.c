/* rewrite.c -- one pass over the graph, inputs before users: each node is brought into its simplest form and merged with
 * an equal one, an array without elements needs no inputs; then what nobody needs is left out. Barriers hold until merging is
 * done. */
#include "rewrite/rewrite.h"
#include <string.h>
#include "base/hash.h"
#include "graph/dtype.h"
#include "rewrite/rewriting.h"

/* ---- Common expressions ---- */

static uint64_t hash_of(const struct node *n) {
  uint64_t h = hash_mix((uint64_t)(uintptr_t)n->op, (uint64_t)n->dtype | (uint64_t)n->rank << 8 | (uint64_t)n->weak << 16);
  h = hash_mix(h, hash_bytes(n->dims, n->rank * sizeof *n->dims));
  h = hash_mix(h, hash_bytes(n->attr, n->attr_bytes));
  for (int k = 0; k < n->n_in; k++) h = hash_mix(h, (uint64_t)(uintptr_t)n->in[k]);
  return h;
}

static bool is_equal(const struct node *a, const struct node *b) {
  return a->op == b->op && a->dtype == b->dtype && a->rank == b->rank && a->weak == b->weak && a->n_in == b->n_in &&
         a->attr_bytes == b->attr_bytes && !memcmp(a->dims, b->dims, a->rank * sizeof *a->dims) &&
         !memcmp(a->attr, b->attr, a->attr_bytes) && !memcmp(a->in, b->in, (size_t)a->n_in * sizeof *a->in);
}

static bool grow(struct rewriting *w) {
  int room = w->room ? 2 * w->room : 64; /* most graphs have a few dozen nodes, and what is taken is zeroed */
  struct node **table = arena_take(w->arena, (size_t)room * sizeof *table);
  uint64_t *hash = table ? arena_take(w->arena, (size_t)room * sizeof *hash) : NULL;
  if (!hash) return false;
  for (int i = 0; i < w->room; i++) {
    if (!w->table[i]) continue;
    int at = (int)(w->hash[i] & (uint64_t)(room - 1));
    while (table[at]) at = (at + 1) & (room - 1);
    table[at] = w->table[i];
    hash[at] = w->hash[i];
  }
  w->table = table;
  w->hash = hash;
  w->room = room;
  return true;
}

static bool is_mergeable(const struct node *n) { return n->op == &op_scalar || (n->op->kind != OP_LEAF && n->op != &op_barrier); }

/* An equal node seen before, or n. NULL: out of memory. */
static struct node *merged(struct rewriting *w, struct node *n) {
  if (!is_mergeable(n)) return n;
  if (2 * w->n >= w->room && !grow(w)) return NULL;
  uint64_t h = hash_of(n);
  int at = (int)(h & (uint64_t)(w->room - 1));
  for (; w->table[at]; at = (at + 1) & (w->room - 1))
    if (w->hash[at] == h && is_equal(w->table[at], n)) return w->table[at];
  w->table[at] = n;
  w->hash[at] = h;
  w->n++;
  return n;
}

/* ---- One node ---- */

static struct node *step(struct rewriting *w, struct node *n) {
  switch (n->op->kind) {
    case OP_ELEMENT: return rewrite_element(w, n);
    case OP_VIEW: return rewrite_view(w, n);
    case OP_IDENTITY: case OP_ITEM: return rewrite_identity(w, n);
    case OP_PUT: return rewrite_put(w, n);
    case OP_TAKE: return rewrite_take(w, n);
    case OP_SCATTER: return rewrite_scatter(w, n);
    case OP_LEAF: case OP_IOTA: case OP_SIZE: case OP_REDUCE: case OP_PREFIX: case OP_CONTRACT: case OP_CONCAT: case OP_PAIR:
    case OP_PAD: case OP_LOOP: case OP_CALL: case OP_LATER: case OP_LIBRARY: break;
  }
  return n;
}

/* What a rule makes is in its simplest form already, but for the form of the whole: a few rounds settle it. */
struct node *simplest(struct rewriting *w, struct node *n) {
  enum { ROUNDS = 16 };
  for (int i = 0; n && i < ROUNDS; i++) {
    struct node *now = step(w, n);
    if (now == n) break;
    n = now;
  }
  return n ? merged(w, n) : NULL;
}

struct node *made(struct rewriting *w, const struct op *op, const struct node *like, int rank, const dim dims[],
                  weft_dtype dtype, int n, struct node *const in[], const void *attr, size_t bytes) {
  struct node *x = node_local(w->arena, op, dtype, rank, dims, n, in, attr, bytes);
  if (!x) return w->no_memory = true, NULL;
  x->slot = -1;
  x->origin = like->origin;
  local_of(x)->n_uses = 1;
  return simplest(w, x);
}

struct node *number_of(struct rewriting *w, const struct node *like, uint64_t bits) {
  struct node *s = node_local(w->arena, &op_scalar, (weft_dtype)like->dtype, 0, NULL, 0, NULL,
                              &(struct scalar_attr){ bits }, sizeof bits);
  if (!s) return w->no_memory = true, NULL;
  s->slot = -1;
  s->origin = like->origin;
  s = merged(w, s);
  return s && like->rank ? made(w, &op_broadcast, like, like->rank, like->dims, (weft_dtype)like->dtype, 1, &s, NULL, 0) : s;
}

/* ---- The graph ---- */

/* A target stays what must be computed: it may become another computed node or a leaf with a value, not a number. */
static bool may_become(const struct node *now) { return !scalar_below(now) || now->op == &op_value; }

static struct node *cast_of(struct rewriting *w, const struct node *n, struct node *number) {
  struct node *x = node_local(w->arena, &op_cast, (weft_dtype)n->dtype, n->rank, n->dims, 1, &number, NULL, 0);
  if (!x) return w->no_memory = true, NULL;
  x->slot = -1;
  x->origin = n->origin;
  return x;
}

/* What computes a target that has become a number: the node itself, or, where it moved the number through, a cast of it. */
static struct node *computed(struct rewriting *w, struct node *n, struct node *number) {
  return n->op->kind != OP_IDENTITY && n->op->kind != OP_ITEM ? n : cast_of(w, n, number);
}

/* An array without elements: nothing of what it is made of is needed, and no check on the way there counts. What has several
 * results runs for the others. */
static bool is_nothing(const struct node *n) {
  bool is_empty = false;
  for (int k = 0; k < n->rank && !dtype_is_complex((weft_dtype)n->dtype); k++) is_empty |= n->dims[k] == 0; /* its parts are */
  switch (n->op->kind) {
    case OP_ELEMENT: case OP_VIEW: case OP_IDENTITY: case OP_IOTA: case OP_REDUCE: case OP_PREFIX: case OP_TAKE: case OP_PUT:
    case OP_SCATTER: case OP_CONTRACT: case OP_CONCAT: case OP_PAD: return is_empty;
    case OP_LEAF: case OP_SIZE: case OP_PAIR: case OP_LOOP: case OP_CALL: case OP_LATER: case OP_ITEM: case OP_LIBRARY:
      break;
  }
  return false;
}

/* In its place: as many numbers. */
static struct node *nothing(struct rewriting *w, const struct node *n, bool is_target) {
  struct node *number = number_of(w, n, 0);
  return number && is_target ? cast_of(w, n, number) : number;
}

static bool pass(struct rewriting *w, const struct node_list *list, const bool is_target[], struct node **now) {
  for (int i = 0; i < list->n; i++) {
    struct node *n = list->node[i];
    for (int k = 0; k < n->n_in; k++) n->in[k] = now[n->in[k]->slot];
    now[i] = is_nothing(n) ? nothing(w, n, is_target[i]) : simplest(w, n);
    if (now[i] && is_target[i] && now[i] != n && !may_become(now[i]) && !scalar_below(n)) now[i] = computed(w, n, now[i]);
    if (!now[i]) return false;
  }
  return true;
}

static struct node *behind_barriers(struct node *n) {
  while (n->op == &op_barrier) n = n->in[0];
  return n;
}

/* Lists what the targets need, inputs before users; slot: -1 not seen, -2 on the stack. */

static bool order(struct rewriting *w, struct node_list *list, int n, struct node *const target[], int most) {
  struct visit *stack = arena_take(w->arena, (size_t)(most + 1) * sizeof *stack);
  struct node **out = arena_take(w->arena, (size_t)(most + 1) * sizeof *out);
  if (!stack || !out) return false;
  int n_out = 0, depth = 0;
  for (int t = 0; t < n; t++) {
    if (target[t]->slot == -1) target[t]->slot = -2, stack[depth++] = (struct visit){ target[t], 0 };
    while (depth) {
      struct visit *f = &stack[depth - 1];
      if (f->next < f->node->n_in) {
        struct node **in = &f->node->in[f->next++];
        *in = behind_barriers(*in);
        if ((*in)->slot == -1) (*in)->slot = -2, stack[depth++] = (struct visit){ *in, 0 };
        continue;
      }
      f->node->slot = n_out;
      out[n_out++] = f->node;
      depth--;
    }
  }
  *list = (struct node_list){ out, n_out, most + 1 };
  return true;
}

static void count_uses(const struct node_list *list, int n, struct node *const target[]) {
  for (int i = 0; i < list->n; i++) local_of(list->node[i])->n_uses = 0;
  for (int i = 0; i < list->n; i++)
    for (int k = 0; k < list->node[i]->n_in; k++) local_of(list->node[i]->in[k])->n_uses++;
  for (int t = 0; t < n; t++) local_of(target[t])->n_uses++;
}

/* Marks every node there is as not seen; returns how many there are: those of the list and those made on the way. */
static int forget_slots(struct rewriting *w, const struct node_list *list, struct node *const now[]) {
  int n = 0;
  for (int i = 0; i < list->n; i++) list->node[i]->slot = now[i]->slot = -1;
  for (int i = 0; i < w->room; i++)
    if (w->table[i]) w->table[i]->slot = -1, n++;
  return n + 2 * list->n;
}

bool rewrite(struct arena *arena, struct node_list *list, int n, struct node *target[], enum rule_tag allowed) {
  struct rewriting w = { .arena = arena, .most = allowed };
  if (!split_complex(arena, list, n, target)) return false;
  struct node **now = arena_take(arena, (size_t)(list->n + 1) * sizeof *now);
  bool *is_target = arena_take(arena, (size_t)list->n + 1);
  if (!now || !is_target) return false;
  for (int i = 0; i < list->n; i++) list->node[i]->slot = i;
  for (int t = 0; t < n; t++) is_target[target[t]->slot] = true;
  count_uses(list, n, target);
  if (!pass(&w, list, is_target, now)) return false;
  for (int t = 0; t < n; t++) target[t] = behind_barriers(now[target[t]->slot]);
  int most = forget_slots(&w, list, now);
  if (!order(&w, list, n, target, most)) return false;
  if (!shrink_loops(&w, list->n, list->node)) return false;
  for (int i = 0; i < list->n; i++) list->node[i]->slot = -1;
  if (!order(&w, list, n, target, most)) return false;
  count_uses(list, n, target);
  return !w.no_memory;
}
