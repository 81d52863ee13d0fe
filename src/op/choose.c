/* choose.c -- choices of expressions that exist already: p ? a : b.
 *
 * Outside of functions it is a where of both, as others may hold what the sides are made of. Where nobody does, in a function and
 * in the body of a loop, and where it is transformed, what only one side needs is sunk into that side, checks and functions of
 * the host included, and the choice is that of cond.c.
 *
 * A node belongs to the innermost side that all who use it belong to. Choices by the same condition are one, so that what two
 * results share is sunk with them. Sides whose own nodes are all cheap stay where they are, one kernel with what is around. What
 * tells a size that is seen outside stays outside. */
#include <stdatomic.h>
#include <stdlib.h>
#include "base/mem.h"
#include "graph/copy.h"
#include "graph/dtype.h"
#include "graph/function.h"
#include "graph/shape.h"
#include "op/extent.h"
#include "op/loop.h"
#include "op/operand.h"

static _Atomic bool some_made; /* a choice, ever: only then is one looked for */

/* ---- Sinking: who belongs where ---- */

/* Sides, numbered: 0 is the graph itself, 1 + 2 g and 2 + 2 g those of group g. */
struct choices { int first, n, p; };    /* choices that are made as one: members, in `member`, and the condition */

struct sinking {
  struct copy c;
  int n_groups, n_sides;
  struct choices *group;
  int *member;                        /* nodes, by group */
  int *group_of;                      /* by node; -1: it is no choice that can be sunk */
  int *parent;                        /* by group: the side it stands in */
  int *owner, *pin, *level;           /* by node: the side it belongs to; -1: none so far. level: choices by one condition
                                         that it is made of */
  bool *is_heavy;                     /* by side: to be sunk */
  int *order;                         /* by group, and by node behind: what is made when; see put_in_order */
  uint64_t *from, *to;                /* by node: serials of what was made for it */
};

static int side_of(int group, int k) { return 1 + 2 * group + (k == 2); }
static int above(const struct sinking *s, int side) { return s->parent[(side - 1) / 2]; }

static int depth_of(const struct sinking *s, int side) {
  int depth = 0;
  for (; side && depth <= s->n_sides; depth++) side = above(s, side);
  return depth;
}

/* The innermost side that both stand in. */
static int common_side(const struct sinking *s, int a, int b) {
  if (a < 0 || a == b) return b;
  if (b < 0) return a;
  int i = depth_of(s, a), k = depth_of(s, b);
  for (; i > k; i--) a = above(s, a);
  for (; k > i; k--) b = above(s, b);
  while (a != b) a = above(s, a), b = above(s, b);
  return a;
}

static bool stands_in(const struct sinking *s, int inner, int outer) {
  while (inner && inner != outer) inner = above(s, inner);
  return inner == outer;
}

static int operand_at(const struct sinking *s, int i, int k) { return s->c.g.operand[s->c.g.first[i] + k]; }

/* The condition as it was before it was spread over the elements; -1: that is not to be seen any more. */
static int condition_of(const struct sinking *s, int i) {
  int at = operand_at(s, i, 0);
  while (s->c.g.node[at]->op == &op_broadcast && subgraph_arity(&s->c.g, at)) at = operand_at(s, at, 0);
  return s->c.g.node[at]->rank ? -1 : at;
}

static bool is_choice(const struct sinking *s, int i) {
  return s->c.g.node[i]->op == &op_choose && subgraph_arity(&s->c.g, i) == 3 && condition_of(s, i) >= 0;
}

/* What is sized, or begins, as this loop has steps. */
static bool has_symbol(const struct node *n, dim symbol) {
  if (dim_is_known(symbol)) return false;
  for (int k = 0; k < n->rank; k++)
    if (!dim_is_known(n->dims[k]) && dim_substitute(n->dims[k], 1, &symbol, &(dim){ 1 }) != n->dims[k]) return true;
  dim size = n->op->kind == OP_SIZE ? ((const struct size_attr *)n->attr)->size : 0;
  return !dim_is_known(size) && dim_substitute(size, 1, &symbol, &(dim){ 1 }) != size;
}

/* Whoever has a size that a loop tells is as one who reads the loop. Whether that was news. */
static bool pin_loops(struct sinking *s) {
  bool is_new = false;
  for (int i = 0; i < s->c.g.n; i++) {
    const struct loop *l = s->c.g.node[i]->op == &op_loop ? loop_of(s->c.g.node[i]) : NULL;
    if (!l || l->is_branch || !(l->until || l->owns_steps)) continue;
    int pin = s->owner[i];
    for (int k = 0; k < s->c.g.n; k++)
      if (has_symbol(s->c.g.node[k], l->length) || (l->owns_steps && has_symbol(s->c.g.node[k], l->steps)))
        pin = common_side(s, pin, s->owner[k]);
    is_new |= pin != s->owner[i];
    s->pin[i] = pin;
  }
  return is_new;
}

/* A size in one side of an array that is in another side is told where both are seen: the side would take the array with it, as
 * something from outside that is computed in any case. Whether that was news. */
static bool pin_sizes(struct sinking *s) {
  bool is_new = false;
  for (int i = 0; i < s->c.g.n; i++) {
    if (s->c.g.node[i]->op->kind != OP_SIZE || !subgraph_arity(&s->c.g, i)) continue;
    int of = s->owner[operand_at(s, i, 0)], pin = common_side(s, s->owner[i], of);
    if (pin == of || pin == s->owner[i]) continue;
    s->pin[i] = pin;
    is_new = true;
  }
  return is_new;
}

/* A size needs no array, unless a loop tells it. */
static bool is_use(const struct sinking *s, int i) { return s->c.g.node[i]->op->kind != OP_SIZE; }

/* A result belongs where the node does that has several: that has no value of its own which a side could be given. */
static void stay_with_their_nodes(struct sinking *s) {
  for (int i = 0; i < s->c.g.n; i++)
    if (s->c.g.node[i]->op->kind == OP_ITEM && subgraph_arity(&s->c.g, i)) s->owner[i] = s->owner[operand_at(s, i, 0)];
}

static void find_owners(struct sinking *s, int n_walls) {
  const struct subgraph *g = &s->c.g;
  for (int i = 0; i < g->n; i++) s->owner[i] = s->pin[i];
  for (int i = 0; i < n_walls; i++) if (g->wall[i] >= 0) s->owner[g->wall[i]] = 0;
  for (int i = g->n; i-- > 0;) {
    if (s->owner[i] < 0) s->owner[i] = 0; /* what only tells a size */
    if (s->group_of[i] >= 0 && s->group[s->group_of[i]].n == 1) s->parent[s->group_of[i]] = s->owner[i];
    for (int k = 0; k < subgraph_arity(g, i) && is_use(s, i); k++) {
      int in = operand_at(s, i, k), side = s->group_of[i] >= 0 && k ? side_of(s->group_of[i], k) : s->owner[i];
      s->owner[in] = common_side(s, s->owner[in], side);
    }
  }
  stay_with_their_nodes(s);
}

/* A group stands where all its members do. Whether that was news. */
static bool find_parents(struct sinking *s) {
  bool is_new = false;
  for (int g = 0; g < s->n_groups; g++) {
    int side = -1;
    for (int k = 0; k < s->group[g].n; k++) side = common_side(s, side, s->owner[s->member[s->group[g].first + k]]);
    is_new |= side != s->parent[g];
    s->level[g] = side; /* room that is not needed any more */
  }
  for (int g = 0; g < s->n_groups; g++) s->parent[g] = s->level[g];
  return is_new;
}

/* Targets belong to the graph itself; the rest follows, until nothing is new. False: it is not clear. */
static bool find_sides(struct sinking *s, int n_targets, int n_walls) {
  enum { MOST = 32 };
  for (int i = 0; i < s->c.g.n; i++) s->pin[i] = -1;
  for (int i = 0; i < n_targets; i++) s->pin[s->c.g.target[i]] = 0;
  for (int round = 0; round < MOST; round++) {
    find_owners(s, n_walls);
    bool is_new = pin_loops(s) | pin_sizes(s);
    if (!(find_parents(s) | is_new)) return true;
    for (int i = 0; i < n_targets; i++) s->pin[s->c.g.target[i]] = 0;
  }
  return false;
}

static bool is_light(const struct node *n) {
  const struct op *op = n->op;
  return op->kind == OP_LEAF || op->kind == OP_VIEW || op->kind == OP_IOTA || op->kind == OP_SIZE || op == &op_choose ||
         (op->kind == OP_ELEMENT && op->is_cheap);
}

/* What is in a side is in those around it. */
static bool find_heavy(struct sinking *s) {
  bool some = false;
  for (int i = 0; i < s->c.g.n; i++)
    for (int side = is_light(s->c.g.node[i]) || s->c.g.is_end[i] ? 0 : s->owner[i]; side && !s->is_heavy[side];
         side = above(s, side))
      s->is_heavy[side] = some = true;
  return some;
}

static bool is_sunk(const struct sinking *s, int g) { return s->is_heavy[1 + 2 * g] || s->is_heavy[2 + 2 * g]; }

/* ---- Groups ---- */

/* Choices by one condition are one, if none of them is made of another: they have as many of them below. */
static void find_levels(struct sinking *s, int p) {
  for (int i = 0; i < s->c.g.n; i++) {
    s->level[i] = 0;
    for (int k = 0; k < subgraph_arity(&s->c.g, i); k++) {
      int in = s->level[operand_at(s, i, k)];
      if (in > s->level[i]) s->level[i] = in;
    }
    s->level[i] += is_choice(s, i) && condition_of(s, i) == p;
  }
}

/* Alone: each choice is a group of its own. */
static void find_groups(struct sinking *s, bool alone) {
  int n = 0;
  s->n_groups = 0;
  for (int i = 0; i < s->c.g.n; i++) s->group_of[i] = -1;
  for (int i = 0; i < s->c.g.n; i++) {
    if (!is_choice(s, i) || s->group_of[i] >= 0) continue;
    int p = condition_of(s, i), more = 0;
    for (int k = i + 1; !alone && k < s->c.g.n; k++) more += is_choice(s, k) && condition_of(s, k) == p;
    if (more) find_levels(s, p);
    for (int k = i; k < (more ? s->c.g.n : i + 1); k++) {
      if (!is_choice(s, k) || condition_of(s, k) != p || s->group_of[k] >= 0) continue;
      int g = -1;
      for (int j = 0; j < s->n_groups && more; j++)
        if (s->group[j].p == p && s->level[s->member[s->group[j].first]] == s->level[k]) g = j;
      if (g < 0) s->group[g = s->n_groups++] = (struct choices){ .p = p };
      s->group_of[k] = g;
      s->group[g].n++;
      s->member[n++] = k; /* sorted below */
      if (s->group[g].n == 1) s->group[g].first = n - 1;
    }
  }
  for (int g = 0, at = 0; g < s->n_groups; g++) {
    s->group[g].first = at;
    for (int i = 0; i < s->c.g.n; i++) if (s->group_of[i] == g) s->member[at++] = i;
  }
  s->n_sides = 1 + 2 * s->n_groups;
  for (int g = 0; g < s->n_groups; g++) s->parent[g] = 0;
}

/* All nodes, operands before users and the members of a group next to each other. False: groups need each other. */
static bool put_in_order(struct sinking *s) {
  const struct subgraph *g = &s->c.g;
  int *left = s->level, done = 0; /* operands that are not there yet; of a group: at its first member */
  int *user_at = mem_alloc((size_t)(g->n + 2) * sizeof *user_at), *user = mem_alloc((size_t)(g->first[g->n] + 1) * sizeof *user);
  bool ok = user_at && user;
  for (int i = 0; ok && i < g->n; i++) left[i] = 0;
#define UNIT(i) (s->group_of[i] < 0 ? (i) : s->member[s->group[s->group_of[i]].first])
  for (int i = 0; ok && i < g->n; i++) {
    left[UNIT(i)] += subgraph_arity(g, i);
    for (int at = g->first[i]; at < g->first[i + 1]; at++) user_at[g->operand[at] + 2]++;
  }
  for (int i = 0; ok && i < g->n; i++) user_at[i + 2] += user_at[i + 1];
  for (int i = 0; ok && i < g->n; i++)
    for (int at = g->first[i]; at < g->first[i + 1]; at++) user[user_at[g->operand[at] + 1]++] = i;
  int n = 0;
  for (int i = 0; ok && i < g->n; i++) if (UNIT(i) == i && !left[i]) s->order[n++] = i;
  for (; ok && done < n; done++) {
    int first = s->order[done], m = s->group_of[first] < 0 ? 1 : s->group[s->group_of[first]].n;
    for (int k = 0; k < m; k++) {
      int i = s->group_of[first] < 0 ? first : s->member[s->group[s->group_of[first]].first + k];
      for (int at = user_at[i]; at < user_at[i + 1]; at++) if (!--left[UNIT(user[at])]) s->order[n++] = UNIT(user[at]);
    }
  }
  int units = 0;
  for (int i = 0; i < g->n; i++) units += UNIT(i) == i;
#undef UNIT
  mem_free(user_at);
  mem_free(user);
  return ok && n == units;
}

/* ---- The choice as that of cond.c ---- */

static bool no_memory(struct sinking *s) { return copy_fail(&s->c, fail(WEFT_ERR_MEMORY, 0, "weft_choose: out of memory")); }

static int by_start(const void *a, const void *b) {
  const struct serials *x = a, *y = b;
  return x->from < y->from ? -1 : x->from > y->from;
}

/* What is computed inside a side: serials of what its nodes have become. */
static struct serials *own_of(const struct sinking *s, int side, int *n) {
  *n = 0;
  for (int i = 0; i < s->c.g.n; i++) *n += stands_in(s, s->owner[i], side);
  struct serials *own = mem_alloc((size_t)(*n + 1) * sizeof *own);
  *n = 0;
  for (int i = 0; own && i < s->c.g.n; i++)
    if (s->from[i] && subgraph_arity(&s->c.g, i) && stands_in(s, s->owner[i], side))
      own[(*n)++] = (struct serials){ s->from[i], s->to[i] };
  if (own) qsort(own, (size_t)*n, sizeof *own, by_start);
  return own;
}

static bool sink(struct sinking *s, int g) {
  const struct choices *group = &s->group[g];
  struct side *side = mem_alloc((size_t)group->n * sizeof *side);
  struct choice c = { .p = copy_of(&s->c, group->p), .n = group->n, .side = side };
  struct serials *own[2] = { own_of(s, side_of(g, 1), &c.n_own[0]), own_of(s, side_of(g, 2), &c.n_own[1]) };
  bool ok = side && own[0] && own[1];
  c.since = node_serial() + 1;
  for (int k = 0; ok && k < 2; k++) {
    c.own[k] = own[k];
    if (c.n_own[k] && own[k][0].from < c.since) c.since = own[k][0].from;
  }
  for (int k = 0; ok && k < group->n; k++) {
    int i = s->member[group->first + k];
    side[k] = (struct side){ copy_of(&s->c, operand_at(s, i, 1)), copy_of(&s->c, operand_at(s, i, 2)) };
  }
  struct failure *why = NULL;
  struct node *loop = ok ? choice_make(&c, &why) : NULL;
  for (int k = 0; ok && loop && k < group->n; k++) {
    int i = s->member[group->first + k];
    ok = copy_replace(&s->c, i, item_make(loop, loop_out_last(loop_of(loop), k)));
  }
  ok = ok && loop;
  node_release(loop);
  mem_free(side);
  mem_free(own[0]);
  mem_free(own[1]);
  return ok ? true : why ? copy_fail(&s->c, why) : no_memory(s);
}

static void note_serials(struct sinking *s, int i, uint64_t before) {
  bool is_new = s->c.now[i];
  s->from[i] = is_new ? before + 1 : s->c.g.node[i]->serial;
  s->to[i] = (is_new ? node_serial() : s->c.g.node[i]->serial) + 1;
}

static bool make_all(struct sinking *s) {
  bool ok = true;
  for (int k = 0, made = 0; ok && made < s->c.g.n; k++) {
    int i = s->order[k], g = s->group_of[i];
    uint64_t before = node_serial();
    bool sinks = g >= 0 && is_sunk(s, g);
    ok = sinks ? sink(s, g) : true;
    for (int m = 0; ok && m < (g < 0 ? 1 : s->group[g].n); m++, made++) {
      int at = g < 0 ? i : s->member[s->group[g].first + m];
      if (!sinks) ok = copy_node(&s->c, at);
      note_serials(s, at, before);
    }
  }
  return ok;
}

static bool changes(const struct copy *c, int i) {
  const struct sinking *s = (const struct sinking *)c;
  return s->group_of[i] >= 0 && is_sunk(s, s->group_of[i]);
}

static bool has_room(struct sinking *s) {
  size_t n = (size_t)s->c.g.n + 1;
  int *room = mem_alloc(n * 8 * sizeof *room);
  s->group = mem_alloc(n * sizeof *s->group);
  s->is_heavy = mem_alloc(2 * n);
  s->from = mem_alloc(2 * n * sizeof *s->from);
  s->member = room;
  if (!room || !s->group || !s->is_heavy || !s->from) return false;
  s->group_of = room + n, s->parent = room + 2 * n, s->owner = room + 3 * n, s->pin = room + 4 * n, s->level = room + 5 * n;
  s->order = room + 6 * n;
  s->to = s->from + n;
  return true;
}

static bool has_choice(const struct sinking *s) {
  for (int i = 0; i < s->c.g.n; i++) if (is_choice(s, i)) return true;
  return false;
}

static bool is_to_sink(struct sinking *s, int n_targets, int n_walls) {
  for (int alone = 0; alone < 2; alone++) {
    find_groups(s, alone);
    if (find_sides(s, n_targets, n_walls) && find_heavy(s) && put_in_order(s)) return true;
    for (int i = 0; i < s->n_sides; i++) s->is_heavy[i] = false;
  }
  return false;
}

/* Whether a side that is sunk has a call: it is to be expanded first, as bodies have none, and what it becomes is the side's. */
static bool sinks_call(const struct sinking *s) {
  for (int i = 0; i < s->c.g.n; i++)
    for (int side = call_is_whole(&s->c.g, i) ? s->owner[i] : 0; side; side = above(s, side)) if (s->is_heavy[side]) return true;
  return false;
}

/* has_call: whether nothing was sunk, as calls are to be expanded. */
static bool sunk(uint64_t oldest, int n_walls, struct node *const wall[], int n, struct node *const target[], struct node *out[],
                 bool *has_call, struct failure **failure) {
  struct sinking s = { 0 };
  bool ok = copy_begin(&s.c, n, target, n_walls, wall, oldest);
  s.c.kind = COPY_SAME;
  *has_call = false;
  if (ok && has_choice(&s)) {
    ok = has_room(&s) || no_memory(&s);
    bool sinks = ok && is_to_sink(&s, n, n_walls);
    *has_call = sinks && sinks_call(&s);
    if (sinks && !*has_call) ok = copy_renew(&s.c, changes) && make_all(&s);
  }
  mem_free(s.member);
  mem_free(s.group);
  mem_free(s.is_heavy);
  mem_free(s.from);
  return copy_end(&s.c, n, out, failure);
}

struct failure *choose_sink(uint64_t oldest, int n_walls, struct node *const wall[], int n, struct node *target[]) {
  struct failure *why = NULL;
  if (!atomic_load(&some_made) || !n) return NULL;
  struct node **out = mem_alloc((size_t)n * sizeof *out);
  if (!out) return fail(WEFT_ERR_MEMORY, scope_origin(), "weft_choose: out of memory");
  for (bool has_call = true; has_call && !why;) {
    if (sunk(oldest, n_walls, wall, n, target, out, &has_call, &why))
      for (int i = 0; i < n; i++) node_release(target[i]), target[i] = out[i];
    if (has_call && !why) why = expand_calls_within(oldest, n_walls, wall, n, target);
  }
  mem_free(out);
  return why;
}

/* ---- The public call ---- */

static const char fn[] = "weft_choose";

static weft_array *number(int64_t n) { return weft_cast(weft_integer(n), WEFT_I64); }

/* The size along an axis: a number, or what the array will say. Of a bad array: itself. */
static weft_array *size_of(weft_array *x, int axis) {
  struct node *n = array_good_node(x);
  if (!n) return x;
  dim d = dim_resolve(n->dims[axis]);
  node_release(n);
  return dim_is_known(d) ? number(d) : weft_size(x, axis);
}

/* Sides that differ along one axis: as much as there is to be of each, one after the other. */
static weft_array *choose_length(weft_array *p, weft_array *a, weft_array *b, int axis) {
  weft_array *none = number(0), *of_a = weft_where(p, size_of(a, axis), none), *of_b = weft_where(p, none, size_of(b, axis));
  weft_array *x = array_choose(p, a, zeros_like(a)), *y = array_choose(p, zeros_like(b), b);
  return weft_concat(axis, 2, (weft_array *[]){ weft_cut(x, axis, NULL, of_a, NULL), weft_cut(y, axis, NULL, of_b, NULL) });
}

static weft_array *flat(weft_array *x) { return weft_reshape(x, 1, (int64_t[]){ WEFT_ANY }); }

static weft_array *choose_shape(weft_array *p, weft_array *a, weft_array *b) {
  weft_array *size[WEFT_RANK_MAX];
  int rank = a->node->rank;
  for (int k = 0; k < rank; k++) size[k] = weft_where(p, size_of(a, k), size_of(b, k));
  return weft_reshape_like(choose_length(p, flat(a), flat(b), 0), weft_sized((weft_dtype)a->node->dtype, rank, size));
}

static struct failure *misfit(const struct node *p, const struct node *a, const struct node *b) {
  struct shape_text s, t;
  if (p->rank || p->dtype != WEFT_BOOL)
    return fail(WEFT_ERR_ARG, scope_origin(), "%s: %s %s is not a 0-d bool", fn, weft_dtype_name(p->dtype), shape_show(p, &s));
  if (a->rank == b->rank || (a->weak && !a->rank) || (b->weak && !b->rank)) return NULL;
  return fail(WEFT_ERR_SHAPE, scope_origin(), "%s: %s or %s", fn, shape_show(a, &s), shape_show(b, &t));
}

/* Along how many axes sizes differ, or are not known to be the same. */
static int n_differ(const struct node *a, const struct node *b, int *axis) {
  int n = 0;
  for (int k = 0; k < a->rank && a->rank == b->rank; k++)
    if (dim_resolve(a->dims[k]) != dim_resolve(b->dims[k])) *axis = k, n++;
  return n;
}

static weft_array *choose(weft_array *p, weft_array *a, weft_array *b) {
  struct node *n[3];
  weft_array *bad;
  weft_dtype d;
  int axis = 0;
  if (!arrays_nodes(fn, 3, (weft_array *[]){ p, a, b }, n, &bad)) return bad;
  struct failure *why = misfit(n[0], n[1], n[2]);
  if (!why) why = common_dtype(fn, 2, n + 1, &d);
  int differ = n_differ(n[1], n[2], &axis);
  nodes_release(3, n);
  if (why) return array_failed(why);
  if (!differ) return array_choose(p, a, b);
  a = weft_cast(a, d), b = weft_cast(b, d);
  if (!arrays_ok(fn, 2, (weft_array *[]){ a, b }, &bad)) return bad;
  return differ == 1 ? choose_length(p, a, b, axis) : choose_shape(p, a, b);
}

weft_array *weft_choose(weft_array *p, weft_array *a, weft_array *b) {
  atomic_store(&some_made, true);
  return COMPOSED(choose(p, a, b));
}
