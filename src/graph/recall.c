/* recall.c -- see recall.h. */
#include "graph/recall.h"
#include <stdlib.h>
#include "base/mem.h"
#include "graph/scope.h"
#include "graph/subgraph.h"
#include "op/op.h"

_Atomic bool copies_some;

static struct failure *no_memory(void) { return fail(WEFT_ERR_MEMORY, scope_origin(), "weft: out of memory"); }

/* ---- Copies that have its value ---- */

struct recalled { uint64_t same; struct node *node; };

static int by_same(const void *a, const void *b) {
  const struct recalled *x = a, *y = b;
  return (x->same > y->same) - (x->same < y->same);
}

/* Which x, of n in order, it is a copy of. NULL: of none, or it is one of them. */
static struct node *recalled_by(int n, const struct recalled x[], const struct node *c) {
  const struct recalled *at = bsearch(&(struct recalled){ c->same_as, NULL }, x, (size_t)n, sizeof *x, by_same);
  if (!at) return NULL;
  while (at > x && at[-1].same == c->same_as) at--;
  struct node *first = at->node;
  for (; at < x + n && at->same == c->same_as; at++) if (at->node == c) return NULL;
  return first;
}

/* Pairs of copies and what they are of; how many. -1: out of memory. Both lists are then the caller's. */
static int find_copies(int n, struct node *const x[], int m, struct node *const all[], struct subgraph *g, struct node ***copy) {
  struct recalled *in_order = mem_alloc((size_t)(n + 1) * sizeof *in_order);
  int found = 0;
  bool ok = in_order && subgraph_take(g, m, all, 0, NULL, oldest_of(n, x));
  *copy = ok ? mem_alloc((size_t)(2 * g->n + 1) * sizeof **copy) : NULL;
  for (int j = 0; *copy && j < n; j++) in_order[j] = (struct recalled){ node_same(x[j]), x[j] };
  if (*copy) qsort(in_order, (size_t)n, sizeof *in_order, by_same);
  for (int i = 0; *copy && i < g->n; i++) {
    struct node *is = g->node[i]->same_as ? recalled_by(n, in_order, g->node[i]) : NULL;
    if (is) (*copy)[found] = g->node[i], (*copy)[g->n + found++] = is;
  }
  mem_free(in_order);
  if (ok && !*copy) subgraph_free(g);
  return *copy ? found : -1;
}

/* What a copy becomes may be made of copies of other x: until there are none. all: y, then x; with references. */
static struct failure *recall_all(int m, int n, struct node *all[]) {
  struct failure *why = NULL;
  struct node **now = mem_alloc((size_t)(m + n) * sizeof *now);
  if (!now) return no_memory();
  for (int left = 1; left && !why;) {
    struct subgraph g;
    struct node **copy;
    left = find_copies(n, all + m, m + n, all, &g, &copy);
    if (left < 0) {
      why = no_memory();
      break;
    }
    if (left && graph_repeat(left, copy, copy + g.n, m + n, all, now, &why))
      for (int j = 0; j < m + n; j++) node_release(all[j]), all[j] = now[j];
    mem_free(copy);
    subgraph_free(&g);
  }
  mem_free(now);
  return why;
}

/* Bodies copy scalars, iotas and what is made inside them, and nobody copies other leaves. */
static bool may_be_copied(const struct node *x) { return x->n_in || x->op == &op_scalar || x->op->kind != OP_LEAF; }

struct failure *recall(int n, struct node *x[], int m, struct node *y[]) {
  bool may_be = false;
  if (!atomic_load_explicit(&copies_some, memory_order_relaxed)) return NULL;
  for (int j = 0; j < n; j++) may_be |= may_be_copied(x[j]);
  if (!may_be) return NULL;
  struct node **all = mem_alloc((size_t)(m + n) * sizeof *all);
  if (!all) return no_memory();
  for (int j = 0; j < m; j++) all[j] = y[j];
  for (int j = 0; j < n; j++) all[m + j] = x[j];
  struct failure *why = recall_all(m, n, all);
  for (int j = 0; j < m; j++) y[j] = all[j];
  for (int j = 0; j < n; j++) x[j] = all[m + j];
  mem_free(all);
  return why;
}

/* ---- Copies that do not ---- */

struct asked { int n; struct node *const *x; bool (*is_one)(const struct node *); uint64_t oldest, youngest; int found; };

static bool is_copy(const struct node *c, const struct node *x) {
  return c->copy_of && (c->copy_of == x->serial || (x->same_as && c->copy_of == x->same_as));
}

static void look_for(struct asked *a, const struct node *c) {
  if (!c->copy_of || c->copy_of < a->oldest || c->copy_of > a->youngest) return;
  for (int j = 0; j < a->n && a->found < 0; j++)
    if (is_copy(c, a->x[j]) && c != a->x[j] && (!a->is_one || a->is_one(a->x[j]))) a->found = j;
}

static int n_bodies(const struct loop *l) { return l->n_carry + l->n_all; }

/* Outside of bodies, what has the value of its node has become that. false: out of memory. */
static bool look_inside(struct asked *a, const struct subgraph *g, bool is_body) {
  bool ok = true;
  for (int i = 0; ok && i < g->n && a->found < 0; i++) {
    const struct node *n = g->node[i];
    const struct loop *l = n->op == &op_loop && !g->is_end[i] ? ((const struct loop_attr *)n->attr)->loop : NULL;
    struct subgraph body;
    if (is_body || !n->same_as) look_for(a, n);
    for (int part = 0; l && ok && part < 2; part++) { /* nothing is differentiated that ends a loop */
      if (part ? !l->until || a->is_one : !n_bodies(l)) continue;
      if (!(ok = subgraph_take(&body, part ? 1 : n_bodies(l), part ? &l->until : l->next, 0, NULL, 0))) break;
      ok = look_inside(a, &body, true);
      subgraph_free(&body);
    }
  }
  return ok;
}

int recall_lost(int n, struct node *const x[], bool (*is_one)(const struct node *), int m, struct node *const y[], int n_walls,
                struct node *const wall[]) {
  struct asked a = { n, x, is_one, UINT64_MAX, 0, -1 };
  for (int j = 0; j < n; j++) {
    uint64_t first = node_same(x[j]);
    if (first < a.oldest) a.oldest = first;
    if (x[j]->serial > a.youngest && may_be_copied(x[j])) a.youngest = x[j]->serial;
  }
  struct subgraph g;
  if (!m || !a.youngest) return -1;
  if (!subgraph_take(&g, m, y, n_walls, wall, oldest_of(n, x))) return -2;
  bool ok = look_inside(&a, &g, false);
  subgraph_free(&g);
  return ok ? a.found : -2;
}

struct failure *copied_inside(const char *fn, const char *what, int which) {
  return fail(WEFT_ERR_ARG, scope_origin(), "%s: %s %d was copied into a loop or choice, which does not remember it: it is a "
              "constant, or was made inside; use a weft_alias of it, made before, or ask for it already where the first "
              "derivative or map is taken", fn, what, which + 1);
}
