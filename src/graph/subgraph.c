/* subgraph.c -- see subgraph.h. While the walk runs, node->mark is its epoch and node->slot the index of a node that is
 * finished, PENDING for one on the stack, or WALL. */
#include "graph/subgraph.h"
#include "base/mem.h"

enum { PENDING = -1, WALL = -2 };

struct snapshot_walk {
  struct subgraph *g;
  struct visit *stack;
  int depth, room_stack, room_nodes, room_operands;
  uint64_t epoch, oldest;
};

static bool reserve(void **block, int *room, int n, size_t bytes) {
  if (n < *room) return true;
  int more = *room ? 2 * *room : 64;
  void *p = mem_resize(*block, (size_t)more * bytes);
  if (!p) return false;
  *block = p;
  *room = more;
  return true;
}

static int arity(const struct snapshot_walk *w, const struct node *n) {
  bool is_end = n->slot == WALL || n->serial < w->oldest;
  return is_end ? 0 : n->n_in;
}

static bool push(struct snapshot_walk *w, struct node *n) {
  if (!reserve((void **)&w->stack, &w->room_stack, w->depth, sizeof *w->stack)) return false;
  if (n->mark != w->epoch) n->slot = PENDING;
  n->mark = w->epoch;
  w->stack[w->depth++] = (struct visit){ n, 0 };
  return true;
}

static bool is_new(const struct snapshot_walk *w, const struct node *n) { return n->mark != w->epoch || n->slot == WALL; }

static bool add_operand(struct snapshot_walk *w, int at, const struct node *n) {
  if (!reserve((void **)&w->g->operand, &w->room_operands, at, sizeof(int))) return false;
  w->g->operand[at] = n->slot;
  return true;
}

/* `first` has one entry more than there are nodes. */
static bool reserve_node(struct snapshot_walk *w) {
  struct subgraph *g = w->g;
  if (g->n + 1 < w->room_nodes) return true;
  int room = w->room_nodes ? 2 * w->room_nodes : 64;
  struct node **node = mem_resize(g->node, (size_t)room * sizeof *node);
  if (node) g->node = node;
  int *first = node ? mem_resize(g->first, (size_t)room * sizeof *first) : NULL;
  if (first) g->first = first;
  bool *is_end = first ? mem_resize(g->is_end, (size_t)room * sizeof *is_end) : NULL;
  if (!is_end) return false;
  g->is_end = is_end;
  w->room_nodes = room;
  return true;
}

static bool finish(struct snapshot_walk *w, struct node *n) {
  struct subgraph *g = w->g;
  if (!reserve_node(w)) return false;
  int at = g->n ? g->first[g->n] : 0, n_in = arity(w, n);
  for (int k = 0; k < n_in; k++)
    if (!add_operand(w, at + k, n->in[k])) return false;
  g->first[g->n] = at;
  g->first[g->n + 1] = at + n_in;
  g->is_end[g->n] = !n_in && (n->n_in || n->history_dropped);
  g->node[g->n] = node_retain(n);
  n->slot = g->n++;
  return true;
}

static bool visit(struct snapshot_walk *w, struct node *target) {
  if (is_new(w, target) && !push(w, target)) return false;
  while (w->depth) {
    struct visit *f = &w->stack[w->depth - 1];
    struct node *n = f->node;
    if (f->next < arity(w, n)) {
      struct node *in = n->in[f->next++];
      if (is_new(w, in) && !push(w, in)) return false;
      continue;
    }
    if (n->slot < 0 && !finish(w, n)) return false;
    w->depth--;
  }
  return true;
}

static void find(const struct snapshot_walk *w, int n, struct node *const node[], int where[]) {
  for (int i = 0; i < n; i++) where[i] = node[i]->mark == w->epoch && node[i]->slot >= 0 ? node[i]->slot : -1;
}

static bool visit_all(struct snapshot_walk *w, int n, struct node *const target[], int n_walls, struct node *const wall[]) {
  w->epoch = graph_epoch();
  for (int i = 0; i < n_walls; i++) {
    wall[i]->mark = w->epoch;
    wall[i]->slot = WALL;
  }
  for (int i = 0; i < n; i++)
    if (!visit(w, target[i])) return false;
  find(w, n, target, w->g->target);
  find(w, n_walls, wall, w->g->wall);
  return true;
}

static bool take(struct snapshot_walk w, int n, struct node *const target[], int n_walls, struct node *const wall[]) {
  struct subgraph *g = w.g;
  *g = (struct subgraph){ 0 };
  g->target = mem_alloc((size_t)(n + n_walls) * sizeof(int));
  if (g->target) g->wall = g->target + n;
  bool ok = g->target && reserve_node(&w);
  if (ok) {
    g->first[0] = 0;
    graph_lock();
    ok = visit_all(&w, n, target, n_walls, wall);
    graph_unlock();
  }
  mem_free(w.stack);
  if (!ok) subgraph_free(g);
  return ok;
}

bool subgraph_take(struct subgraph *g, int n, struct node *const target[], int n_walls, struct node *const wall[],
                   uint64_t oldest) {
  return take((struct snapshot_walk){ .g = g, .oldest = oldest }, n, target, n_walls, wall);
}

void subgraph_free(struct subgraph *g) {
  for (int i = 0; i < g->n; i++) node_release(g->node[i]);
  mem_free(g->node);
  mem_free(g->first);
  mem_free(g->operand);
  mem_free(g->is_end);
  mem_free(g->target);
  *g = (struct subgraph){ 0 };
}

uint64_t oldest_of(int n, struct node *const node[]) {
  uint64_t oldest = UINT64_MAX;
  for (int i = 0; i < n; i++)
    if (node[i]->serial < oldest) oldest = node[i]->serial;
  return oldest;
}
