/* problems.c -- small systems and factors as kernels: a problem a lane, with what is around them.
 *
 * A library step on many small problems is memory in, memory out for each op. Where the op says how its elements become values of
 * a kernel (`struct library_values`), such ops, the elements, views, folds and products that their results go into, and what is
 * made for them alone, become one node, op_problems, and that one kernel (small.c) with the same bits. Lanes are told apart by the
 * first axis, as in lane.c; problems of several axes are seen as a batch of one.
 * It does nothing for few problems, nor where one has too many operations: those stay steps. */
#include <stdatomic.h>
#include <string.h>
#include "graph/dtype.h"
#include "schedule/body.h"

enum {
  LEAST_LANES = 512,   /* problems: a step takes 20 to 80 us for so many of 4 to 8 rows, a kernel a half to a quarter of that, but
                          0.4 to 4 ms to be compiled once */
  FEW_OPERATIONS = 1536, /* of a problem with what is around it: they are compiled one by one, at 2 us each */
  MOST_THERE = 3584,     /* .. on a device: its driver's compiler takes 0.15 to 0.25 ms each, and up to 0.7 where they no longer fit
                            the registers: seconds, for twice to five times the routine's speed (bench/problems on an H200) */
  OPERATIONS_A_LANE = 4, /* on the CPU: with so many for each problem there is, what compiling them takes is won back in about ten
                            evaluations, at 0.05 to 0.15 ns for an operation of a problem */
  MOST_OPERATIONS = 18432, /* an inverse of 16 rows and what is around it: 0.5 to 0.9 of the time of the steps */
  MOST_MEMORY = 24,    /* arrays that the kernel reads and writes: with room to spare in a draft */
  MOST_NUMBERS = 64,   /* scalars that it is given */
  MOST_ROUNDS = 64,    /* kernels that are looked for in a plan, .. */
  MOST_LOOKED = 1 << 20 /* .. each among all nodes: so many in all, after the first */
};

/* ---- the node that stands for it ---- */

static int count(const struct node *n) { return ((const struct problems_attr *)n->attr)->of->n_targets; }

static weft_dtype type(const struct node *n, int k, int *rank, dim dims[]) {
  const struct node *x = ((const struct problems_attr *)n->attr)->of->target[k];
  *rank = x->rank;
  memcpy(dims, x->dims, sizeof *dims * (size_t)x->rank);
  return (weft_dtype)x->dtype;
}

static const struct many problems_many = { .count = count, .type = type };
const struct op op_problems = { .name = "problems", .kind = OP_LIBRARY, .many = &problems_many };

/* ---- what belongs together ---- */

enum member { APART, BEHIND, TOGETHER }; /* BEHIND: made of what is together, and not with it */

struct problem_search {
  struct work *w;
  int n;                  /* nodes */
  int64_t lanes;
  int64_t left;           /* operations that it may still have */
  int first;              /* the problem it begins with */
  enum member *is;        /* by slot, as all of these */
  bool *is_pure;          /* made of counts and numbers: to be computed again rather than read */
  int *n_inside;          /* uses by what is together */
  int *n_targets;         /* .. and by who asks for the value: it can be stored */
};

static struct node *node_at(const struct problem_search *s, int i) { return s->w->list->node[i]; }

static bool is_problem(const struct node *n) {
  return n->op->kind == OP_LIBRARY && n->op->library && n->op->library->values && n->in[0]->rank >= n->op->library->core + 1;
}

static int64_t problems_of(const struct node *n) {
  int64_t all = 1;
  for (int k = 0; k < n->in[0]->rank - n->op->library->core; k++) all *= n->in[0]->dims[k];
  return all;
}

static bool takes_eighths(const struct node *n) {
  bool folds = n->op->kind == OP_REDUCE || n->op->kind == OP_PREFIX || n->op->kind == OP_CONTRACT;
  bool is = kir_is_f8((weft_dtype)n->dtype);
  for (int k = 0; k < n->n_in; k++) is |= kir_is_f8((weft_dtype)n->in[k]->dtype);
  return folds && is; /* they are of f32, rounded once: prepare.c */
}

/* Operations of a node in one lane; -1: it cannot be there. */
static int64_t cost_of(const struct problem_search *s, const struct node *n) {
  if (n->op->kind == OP_LEAF || n->op->kind == OP_LOOP || takes_eighths(n) || local_of(n)->is_alone) return -1;
  return small_cost(s->w, n, s->lanes);
}

static bool is_laned(const struct problem_search *s, const struct node *n) {
  const struct node *x = n->op->kind == OP_LIBRARY ? n->in[0] : n;
  return x->rank && x->dims[0] == s->lanes;
}

static bool take_in(struct problem_search *s, int i, int64_t cost) {
  if (cost < 0 || cost > s->left) return false;
  s->left -= cost;
  s->is[i] = TOGETHER;
  return true;
}

/* A problem, and what is made of its results. Nothing that is together needs what is behind it. */
static void take_users(struct problem_search *s) {
  for (int i = 0; i < s->n; i++) {
    const struct node *n = node_at(s, i);
    bool goes_on = false, is_behind = false;
    for (int k = 0; k < n->n_in; k++) {
      goes_on |= s->is[n->in[k]->slot] == TOGETHER;
      is_behind |= s->is[n->in[k]->slot] == BEHIND;
    }
    bool may = !is_behind && (goes_on || i == s->first) && is_laned(s, n);
    if (!(may && take_in(s, i, cost_of(s, n))) && (goes_on || is_behind)) s->is[i] = BEHIND;
  }
}

/* What is made for them alone. A view that nobody inside looks through shows a result: it stays outside. */
static void take_makers(struct problem_search *s) {
  for (int t = 0; t < s->w->n_targets; t++) s->n_targets[s->w->target[t]->slot]++;
  for (int i = s->n - 1; i >= 0; i--) {
    const struct node *n = node_at(s, i);
    bool is_view = n->op->kind == OP_VIEW;
    if (s->is[i] == TOGETHER && is_view && !s->n_inside[i]) s->is[i] = BEHIND;
    bool is_theirs = s->is_pure[i] || (is_laned(s, n) && s->n_inside[i] + s->n_targets[i] == local_of(n)->n_uses);
    if (s->is[i] == APART && s->n_inside[i] && is_theirs && !is_problem(n) && n->op->kind != OP_ITEM) take_in(s, i, cost_of(s, n));
    for (int k = 0; s->is[i] == TOGETHER && k < n->n_in; k++) s->n_inside[n->in[k]->slot]++;
  }
}

/* Views of what is read from memory need not be inside, unless it is read there anyway. */
static void drop_views(struct problem_search *s) {
  for (int i = 0; i < s->n; i++) {
    const struct node *n = node_at(s, i), *x = n->n_in ? n->in[0] : NULL;
    if (n->op->kind != OP_VIEW || s->is[i] != TOGETHER || s->is[x->slot] == TOGETHER) continue;
    bool is_read_anyway = s->n_inside[x->slot] > 1 && node_count(x) == node_count(n);
    if (!is_read_anyway) s->is[i] = APART;
  }
}

/* ---- the node in their place ---- */

struct found { struct node **in, **made, **result; int n_in, n_results, n_numbers; struct node_list body; };

static bool is_result(const struct problem_search *s, const bool is_read[], int i) {
  return s->is[i] == TOGETHER && is_read[i] && !s->is_pure[i] && !facts_of(node_at(s, i))->is_several;
}

/* Nodes that others read, or that are targets. */
static bool *find_read(const struct problem_search *s) {
  bool *is_read = work_take(s->w, (size_t)s->n + 1);
  for (int i = 0; is_read && i < s->n; i++)
    for (int k = 0; s->is[i] != TOGETHER && k < node_at(s, i)->n_in; k++) is_read[node_at(s, i)->in[k]->slot] = true;
  for (int t = 0; is_read && t < s->w->n_targets; t++) is_read[s->w->target[t]->slot] = true;
  return is_read;
}

/* The operand as a variable of the body. */
static struct node *variable(const struct problem_search *s, struct found *f, struct node *x) {
  struct node *leaf = f->made[x->slot];
  if (leaf) return leaf;
  if (!(leaf = work_node(s->w, &op_value, (weft_dtype)x->dtype, x->rank, x->dims, 0, NULL, NULL, 0))) return NULL;
  local_of(leaf)->leaf = f->n_in;
  f->n_numbers += scalar_of(x) != NULL;
  f->in[f->n_in++] = x;
  return f->body.node[f->body.n++] = f->made[x->slot] = leaf;
}

static bool copy_inside(const struct problem_search *s, struct found *f, struct node *x) {
  struct node **in = work_take(s->w, sizeof *in * (size_t)(x->n_in + 1));
  for (int k = 0; in && k < x->n_in; k++)
    if (!(in[k] = s->is[x->in[k]->slot] == TOGETHER ? f->made[x->in[k]->slot] : variable(s, f, x->in[k]))) return false;
  struct node *y = in ? work_node(s->w, x->op, (weft_dtype)x->dtype, x->rank, x->dims, x->n_in, in, x->attr, x->attr_bytes) : NULL;
  if (!y) return false;
  y->origin = x->origin;
  f->body.node[f->body.n++] = f->made[x->slot] = y;
  return true;
}

static bool copy_all(const struct problem_search *s, struct found *f, const bool is_read[]) {
  size_t n = (size_t)s->n + 1;
  f->in = work_take(s->w, sizeof *f->in * n), f->made = work_take(s->w, sizeof *f->made * n);
  f->result = work_take(s->w, sizeof *f->result * n), f->body.node = work_take(s->w, sizeof *f->body.node * 2 * n);
  for (int i = 0; !s->w->no_memory && i < s->n; i++) {
    if (s->is[i] != TOGETHER) continue;
    if (!copy_inside(s, f, node_at(s, i))) return false;
    if (is_result(s, is_read, i)) f->result[f->n_results++] = node_at(s, i);
  }
  return !s->w->no_memory;
}

/* Nodes that others read become results of the new one. */
static bool replace(const struct problem_search *s, const struct found *f) {
  struct work *w = s->w;
  struct problems *p = work_take(w, sizeof *p);
  struct node **target = work_take(w, sizeof *target * (size_t)(f->n_results + 1));
  if (!p || !target) return false;
  for (int k = 0; k < f->n_results; k++) target[k] = f->made[f->result[k]->slot];
  *p = (struct problems){ f->body, target, f->n_results, s->lanes };
  struct problems_attr attr = { p };
  struct node *n = work_node(w, &op_problems, WEFT_I64, 0, NULL, f->n_in, f->in, &attr, sizeof attr);
  for (int k = 0; n && k < f->n_results; k++) {
    struct node *x = f->result[k];
    struct item_attr which = { k };
    struct node *item = work_node(w, &op_item, (weft_dtype)x->dtype, x->rank, x->dims, 1, &n, &which, sizeof which);
    if (!item) return false;
    item->origin = x->origin;
    local_become(x, item);
  }
  return n != NULL;
}

/* ---- looking ---- */

static void find_pure(struct problem_search *s) {
  for (int i = 0; i < s->n; i++) {
    const struct node *n = node_at(s, i);
    enum op_kind kind = n->op->kind;
    bool is = kind == OP_ELEMENT || (kind == OP_VIEW && !scalar_of(n));
    for (int k = 0; k < n->n_in; k++) is &= s->is_pure[n->in[k]->slot] || scalar_of(n->in[k]);
    s->is_pure[i] = is || kind == OP_IOTA;
  }
}

/* Problems of several axes, or of none that is the first, as a batch of one axis. */
static struct node *reshaped(struct work *w, struct node *x, int batch, int64_t n) {
  dim dims[WEFT_RANK_MAX] = { n };
  int rank = x->rank - batch + 1;
  if (rank > 1) memcpy(dims + 1, x->dims + batch, sizeof *dims * (size_t)(rank - 1));
  struct node *from = x->op == &op_reshape ? x->in[0] : NULL;
  if (from && from->rank == rank && !memcmp(from->dims, dims, sizeof *dims * (size_t)rank)) return from;
  return work_node(w, &op_reshape, (weft_dtype)x->dtype, rank, dims, 1, &x, NULL, 0);
}

static bool flatten(struct work *w, struct node *n, int end) {
  int batch = n->in[0]->rank - n->op->library->core;
  int64_t all = problems_of(n);
  for (int k = 0; k < n->n_in; k++) if (!(n->in[k] = reshaped(w, n->in[k], batch, all))) return false;
  for (int i = n->slot + 1; i < end; i++) {
    struct node *x = w->list->node[i], *shown;
    if (x->op->kind != OP_ITEM || x->in[0] != n) continue;
    dim dims[WEFT_RANK_MAX];
    int rank;
    weft_dtype t = n->op->many->type(n, ((const struct item_attr *)x->attr)->k, &rank, dims);
    struct node *item = work_node(w, &op_item, t, rank, dims, 1, &n, x->attr, x->attr_bytes);
    if (!item || !(shown = work_node(w, &op_reshape, t, x->rank, x->dims, 1, &item, NULL, 0))) return false;
    item->origin = x->origin;
    local_become(x, shown);
  }
  return true;
}

/* Whether all of a problem is small enough to be values. */
static bool is_small_problem(const struct node *n) {
  int batch = n->in[0]->rank - n->op->library->core;
  for (int k = 0; k < n->n_in; k++) {
    int64_t all = 1;
    for (int i = batch; i < n->in[k]->rank; i++) all *= n->in[k]->dims[i];
    if (all > SMALL_ELEMENTS) return false;
  }
  return true;
}

static bool is_candidate(const struct node *n) {
  return is_problem(n) && problems_of(n) >= LEAST_LANES && is_small_problem(n) && !local_of(n)->is_alone;
}

static bool flatten_all(struct work *w, bool *any) {
  for (int i = 0, n = w->list->n; i < n; i++) {
    struct node *x = w->list->node[i];
    if (!is_candidate(x)) continue;
    *any = true;
    if (x->in[0]->rank > x->op->library->core + 1 && !flatten(w, x, n)) return false;
  }
  return true;
}

/* The operations of a problem that are worth compiling for so many of them, on the CPU. */
static int64_t operations_for(int64_t lanes) {
  int64_t worth = lanes < MOST_OPERATIONS ? lanes * OPERATIONS_A_LANE : MOST_OPERATIONS;
  return worth < FEW_OPERATIONS ? FEW_OPERATIONS : worth > MOST_OPERATIONS ? MOST_OPERATIONS : worth;
}

static _Atomic int64_t most_there = MOST_THERE;

void problems_use_limit(int64_t operations) { atomic_store(&most_there, operations ? operations : MOST_THERE); }

/* Looks for the first problem that fits, and for what follows from it; s->first is -1 if there is none. False: out of memory. */
static bool search(struct problem_search *s, struct work *w) {
  size_t n = (size_t)w->list->n + 1;
  *s = (struct problem_search){ .w = w, .n = w->list->n, .first = -1 };
  for (int i = 0; i < s->n && s->first < 0; i++) {
    const struct node *x = node_at(s, i);
    if (!is_candidate(x)) continue;
    s->lanes = x->in[0]->dims[0];
    s->left = work_is_for_device(w) ? atomic_load(&most_there) : operations_for(s->lanes);
    int64_t cost = cost_of(s, x);
    if (cost >= 0 && cost <= s->left) s->first = i;
  }
  s->is = work_take(w, sizeof *s->is * n), s->is_pure = work_take(w, n);
  s->n_inside = work_take(w, sizeof *s->n_inside * n), s->n_targets = work_take(w, sizeof *s->n_targets * n);
  if (w->no_memory) return false;
  find_pure(s), take_users(s), take_makers(s), drop_views(s);
  return true;
}

/* The problems of a search that cannot be one kernel stay steps. */
static void leave_alone(const struct problem_search *s) {
  for (int i = 0; i < s->n; i++) if (s->is[i] == TOGETHER && is_problem(node_at(s, i))) local_of(node_at(s, i))->is_alone = true;
}

bool problems_find(struct work *w) {
  bool any = false;
  if (!flatten_all(w, &any) || (any && !nodes_order(w))) return false;
  for (int round = 0; any && round < MOST_ROUNDS && (int64_t)round * w->list->n <= MOST_LOOKED; round++) {
    struct problem_search s;
    struct found f = { 0 };
    if (!search(&s, w)) return false;
    bool *is_read = s.first < 0 ? NULL : find_read(&s);
    if (s.first < 0) return true;
    if (!is_read || !copy_all(&s, &f, is_read)) return false;
    if (f.n_in - f.n_numbers + f.n_results > MOST_MEMORY || f.n_numbers > MOST_NUMBERS) leave_alone(&s);
    else if (!replace(&s, &f) || !nodes_order(w)) return false;
  }
  return true;
}

/* ---- the step ---- */

static void find_results(struct body *b) {
  for (int i = 0; i < b->w->list->n; i++) {
    const struct node *n = b->w->list->node[i];
    if (n->op->kind == OP_ITEM && n->in[0] == b->node) b->all[((const struct item_attr *)n->attr)->k] = &b->w->item[i].place;
  }
}

static bool find_operands(struct body *b) {
  for (int k = 0; k < b->node->n_in; k++) {
    b->in_node[k] = b->node->in[k];
    if (scalar_of(b->in_node[k])) b->in[k].store = -1;
    else if (!place_needed(b->w, b->in_node[k], &b->in[k])) return false;
  }
  return true;
}

/* Operations of all lanes, and every array once. */
static void account(const struct body *b, const struct problems *p) {
  double points = 0, bytes = 0;
  for (int i = 0; i < p->body.n; i++) {
    const struct node *n = p->body.node[i];
    bool is_moved = n->op == &op_value;
    for (int k = 0; k < p->n_targets; k++) is_moved |= p->target[k] == n;
    if (is_moved) bytes += (double)node_count(n) * (double)weft_dtype_bytes((weft_dtype)n->dtype);
    int64_t cost = small_cost(b->w, n, p->lanes);
    if (cost > 0) points += (double)cost * (double)p->lanes;
  }
  step_add_cost(b->w, bytes, points, 1);
}

bool step_problems(struct work *w, struct node *n) {
  const struct problems *p = ((const struct problems_attr *)n->attr)->of;
  struct body *b = work_take(w, sizeof *b);
  struct loop *l = work_take(w, sizeof *l);
  if (!b || !l) return false;
  l->n_const = n->n_in, l->n_all = p->n_targets;
  *b = (struct body){ .w = w, .node = n, .loop = l, .steps = 1, .rows = 1, .is_once = true, .list = p->body,
                      .target = p->target, .n_targets = p->n_targets };
  b->in = work_take(w, sizeof *b->in * (size_t)(n->n_in + 1));
  b->in_node = work_take(w, sizeof *b->in_node * (size_t)(n->n_in + 1));
  b->all = work_take(w, sizeof *b->all * (size_t)(p->n_targets + 1)), b->last = work_take(w, sizeof *b->last);
  if (w->no_memory || !find_operands(b)) return false;
  find_results(b);
  for (int i = 0; i < b->list.n; i++) b->list.node[i]->slot = i;
  bool done = false;
  if (!small_lanes(b, p->lanes, &done)) return false;
  if (!done) return work_fail(w, fail(WEFT_ERR_INTERNAL, n->origin, "weft_eval: small problems that are no kernel"));
  return account(b, p), true;
}
