/* loop_hoist.c -- products of matrices that depend on sequences alone are computed for all steps at once, before the loop:
 * x_t W of every step is one product X W, and so is its gradient. Bits stay: a product has the same order of sums either
 * way. What is done so is limited by memory: a step's result is not much larger than what the step reads. */
#include "base/mem.h"
#include "graph/subgraph.h"
#include "op/loop.h"
#include "op/operand.h"

enum { MOST_TIMES = 4 }; /* as many elements as the rows of the sequences it is made of */

struct hoisting {
  const struct loop_parts *p;
  struct subgraph g;
  int n_bodies;
  bool *moves;               /* by node: depends on sequences, and on nothing but them and constants */
  bool *stays;               /* depends on a carry, or on what must be done in its step */
  dim *reads;                /* elements of the rows it is made of; 0: none */
  struct hoist *h;
};

static bool is_plain(const struct node *n) {
  enum op_kind k = n->op->kind;
  return k == OP_VIEW || k == OP_ELEMENT || k == OP_CONTRACT || k == OP_REDUCE;
}

static void look(struct hoisting *s) {
  const struct loop_parts *p = s->p;
  for (int k = 0; k < p->n_seq; k++)
    if (s->g.wall[k] >= 0)
      s->moves[s->g.wall[k]] = true, s->reads[s->g.wall[k]] = dim_count(p->seq_var[k]->rank, p->seq_var[k]->dims);
  for (int k = 0; k < p->n_carry; k++)
    if (s->g.wall[p->n_seq + k] >= 0) s->stays[s->g.wall[p->n_seq + k]] = true;
  for (int i = 0; i < s->g.n; i++) {
    for (int at = s->g.first[i]; at < s->g.first[i + 1]; at++) {
      int j = s->g.operand[at];
      s->moves[i] |= s->moves[j], s->stays[i] |= s->stays[j];
      if (s->reads[j] && s->reads[i] != DIM_BAD) s->reads[i] = s->reads[i] ? dim_add(s->reads[i], s->reads[j]) : s->reads[j];
    }
    s->stays[i] |= s->moves[i] && subgraph_arity(&s->g, i) && !is_plain(s->g.node[i]);
  }
}

static bool is_small(const struct hoisting *s, int i) {
  dim n = dim_count(s->g.node[i]->rank, s->g.node[i]->dims), reads = s->reads[i], times;
  if (n == DIM_BAD || reads == DIM_BAD) return false;
  if (dim_is_known(n) && dim_is_known(reads)) return n / MOST_TIMES <= reads;
  return n == reads || (dim_divide(n, reads, &times) && dim_is_known(times) && times <= MOST_TIMES);
}

static bool is_hoisted(const struct hoisting *s, int i) {
  return s->g.node[i]->op->kind == OP_CONTRACT && s->moves[i] && !s->stays[i] && is_small(s, i);
}

static int sequence_index(const struct hoisting *s, const struct node *var) {
  for (int k = 0; k < s->p->n_seq; k++)
    if (s->p->seq_var[k] == var) return k;
  return -1;
}

/* x_t W for rows x_t of [m,k]: one product of [n m, k] and W, whose gradient by W is one product too. */
static bool is_one_product(const struct hoisting *s, int i) {
  const struct node *y = s->g.node[i];
  return y->rank == 2 && subgraph_arity(&s->g, i) == 2 && sequence_index(s, y->in[0]) >= 0 &&
         !s->moves[s->g.operand[s->g.first[i] + 1]];
}

static struct node *as_one_product(const struct hoisting *s, struct node *y) { /* NULL: out of memory */
  struct node *xs = s->p->seq[sequence_index(s, y->in[0])];
  dim rows[2] = { dim_mul(xs->dims[0], xs->dims[1]), xs->dims[2] }, dims[3] = { xs->dims[0], y->dims[0], y->dims[1] };
  if (rows[0] == DIM_BAD) return NULL;
  weft_array *flat = array_reshape("weft_matmul", array_of(node_retain(xs)), 2, rows);
  return array_good_node(array_reshape("weft_matmul", weft_matmul(flat, array_of(node_retain(y->in[1]))), 3, dims));
}

/* The node for all steps. NULL: out of memory. */
static struct node *for_all_steps(const struct hoisting *s, struct node *y) {
  int n = s->p->n_seq;
  weft_array **x = mem_alloc((size_t)(2 * n + 1) * sizeof *x), *one = array_of(node_retain(y)), *all = NULL;
  for (int k = 0; x && k < n; k++) x[k] = array_of(node_retain(s->p->seq_var[k])), x[n + k] = array_of(node_retain(s->p->seq[k]));
  if (x) weft_map(n, x, x + n, 1, &one, &all);
  mem_free(x);
  return x ? array_good_node(all) : NULL;
}

static bool take_out(struct hoisting *s, int i) {
  struct hoist *h = s->h;
  struct node *y = s->g.node[i];
  h->from[h->n] = node_retain(y);
  h->seq[h->n] = is_one_product(s, i) ? as_one_product(s, y) : for_all_steps(s, y);
  h->var[h->n] = loop_var((weft_dtype)y->dtype, y->rank, y->dims);
  h->n++;
  return h->seq[h->n - 1] && h->var[h->n - 1];
}

static struct node **list_new(int n) { return mem_alloc((size_t)(n + 1) * sizeof(struct node *)); }

/* The bodies on the new variables, and the lists of a loop that has them. */
static bool rewrite_parts(struct hoisting *s, struct node *const body[], struct failure **failure) {
  struct hoist *h = s->h;
  const struct loop_parts *p = s->p;
  h->body = list_new(s->n_bodies), h->all_seq = list_new(p->n_seq + h->n), h->all_var = list_new(p->n_seq + h->n);
  if (!h->body || !h->all_seq || !h->all_var) return false;
  if (!graph_substitute(h->n, h->from, h->var, s->n_bodies, body, h->body, failure)) return false;
  h->n_bodies = s->n_bodies;
  for (int k = 0; k < p->n_seq + h->n; k++) {
    h->all_seq[k] = k < p->n_seq ? p->seq[k] : h->seq[k - p->n_seq];
    h->all_var[k] = k < p->n_seq ? p->seq_var[k] : h->var[k - p->n_seq];
  }
  h->parts = *p;
  h->parts.n_seq += h->n, h->parts.seq = h->all_seq, h->parts.seq_var = h->all_var;
  h->parts.next = h->body, h->parts.all = h->body + p->n_carry;
  return true;
}

static bool hoist(struct hoisting *s, struct node *const body[], struct node *const wall[], struct failure **failure) {
  const struct loop_parts *p = s->p;
  int n_walls = p->n_seq + p->n_carry;
  if (!subgraph_take(&s->g, s->n_bodies, body, n_walls, wall, oldest_of(n_walls, wall))) return false;
  size_t n = (size_t)s->g.n + 1;
  s->moves = mem_alloc(2 * n), s->stays = s->moves + n, s->reads = mem_alloc(n * sizeof *s->reads);
  s->h->from = list_new(s->g.n), s->h->var = list_new(s->g.n), s->h->seq = list_new(s->g.n);
  bool ok = s->moves && s->reads && s->h->from && s->h->var && s->h->seq;
  if (ok) look(s);
  for (int i = 0; ok && i < s->g.n; i++) ok = !is_hoisted(s, i) || take_out(s, i);
  if (ok && s->h->n) ok = rewrite_parts(s, body, failure);
  subgraph_free(&s->g);
  return ok;
}

bool loop_hoist(const struct loop_parts *p, struct hoist *h, struct failure **failure) {
  *h = (struct hoist){ .parts = *p };
  if (p->until || !p->n_seq) return true;
  struct hoisting s = { .p = p, .n_bodies = p->n_carry + p->n_all, .h = h };
  struct node **body = list_new(s.n_bodies), **wall = list_new(p->n_seq + p->n_carry);
  bool ok = body && wall;
  for (int k = 0; ok && k < s.n_bodies; k++) body[k] = k < p->n_carry ? p->next[k] : p->all[k - p->n_carry];
  for (int k = 0; ok && k < p->n_seq + p->n_carry; k++) wall[k] = k < p->n_seq ? p->seq_var[k] : p->carry_var[k - p->n_seq];
  ok = ok && hoist(&s, body, wall, failure);
  if (!ok && !*failure) *failure = fail(WEFT_ERR_MEMORY, scope_origin(), "weft_loop_close: out of memory");
  mem_free(body);
  mem_free(wall);
  mem_free(s.moves);
  mem_free(s.reads);
  return ok;
}

static void list_drop(int n, struct node **list) {
  for (int i = 0; list && i < n; i++) node_release(list[i]);
  mem_free(list);
}

void hoist_free(struct hoist *h) {
  list_drop(h->n, h->from);
  list_drop(h->n, h->var);
  list_drop(h->n, h->seq);
  list_drop(h->n_bodies, h->body);
  mem_free(h->all_seq);
  mem_free(h->all_var);
}
