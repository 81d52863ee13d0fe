/* uneven.c -- a loop in whose body sizes differ from step to step, as after loops inside that end where they like.
 *
 * Each step evaluates the body anew, on the values it is given. It is computed part by part, as a graph outside of loops is:
 * the loop inside first, then what depends on its length. So whatever can be computed can be computed in a step, for the price
 * of a copy of the body and of some plans found again. Steps leave no history, and rows are stored where they belong. */
#include <string.h>
#include "base/mem.h"
#include "graph/copy.h"
#include "graph/shape.h"
#include "op/loop.h"
#include "op/operand.h"
#include "run/buffer.h"
#include "run/eval.h"
#include "run/tape.h"
#include "run/verdict.h"

struct stacked { int k; struct buffer *buf; uint8_t *data; int64_t row_bytes; }; /* stacked output k, held */

struct uneven {
  struct node *node;
  const struct loop *l;
  int64_t most, taken;     /* steps */
  int n_vars, n_bodies, n_stacks;
  struct node **value;     /* by variable: what stands for it in this step. References */
  struct node **body;      /* next, stacked outputs that somebody wants, until */
  struct node **now;       /* what they are in this step. References */
  struct stacked *stack;
};

static struct failure *no_memory(void) { return fail(WEFT_ERR_MEMORY, 0, "weft_eval: out of memory"); }

static void replace(struct node **at, struct node *n) {
  node_release(*at);
  *at = n;
}

/* ---- What a step is given ---- */

/* A value without the history of how it came about. */
static struct node *value_of(struct node *n) {
  if (n->op == &op_scalar) return node_retain(n);
  return value_node((weft_dtype)n->dtype, n->rank, n->dims, buffer_retain(n->value->buf), n->value->offset, n->value->stride);
}

static struct node *row_of(struct node *n, int64_t row) {
  const struct value *v = n->value;
  return value_node((weft_dtype)n->dtype, n->rank - 1, n->dims + 1, buffer_retain(v->buf), v->offset + row * v->stride[0],
                    v->stride + 1);
}

static int64_t row_now(const struct uneven *u) { return u->l->is_backward ? u->most - 1 - u->taken : u->taken; }

static bool take_rows(struct uneven *u) {
  for (int k = 0; k < u->l->n_seq; k++) {
    replace(&u->value[k], row_of(u->node->in[loop_in_seq(u->l, k)], row_now(u)));
    if (!u->value[k]) return false;
  }
  return true;
}

/* ---- What it leaves ---- */

static struct failure *keep_carries(struct uneven *u) {
  for (int k = 0; k < u->l->n_carry; k++) {
    struct shape_text a, b;
    const struct node *before = u->value[u->l->n_seq + k];
    if (!shape_equal(before, u->now[k]))
      return fail(WEFT_ERR_SHAPE, u->now[k]->origin, "weft_loop_next: the carry is %s, the value %s", shape_show(before, &a),
                  shape_show(u->now[k], &b));
  }
  for (int k = 0; k < u->l->n_carry; k++) {
    replace(&u->value[u->l->n_seq + k], value_of(u->now[k]));
    if (!u->value[u->l->n_seq + k]) return no_memory();
  }
  return NULL;
}

static int64_t bytes_of(const struct node *n, int first) {
  dim count = dim_count(n->rank - first, n->dims + first);
  return dim_is_known(count) ? count * (int64_t)weft_dtype_bytes((weft_dtype)n->dtype) : -1;
}

static struct failure *keep_rows(struct uneven *u) {
  struct failure *f = NULL;
  for (int i = 0; !f && i < u->n_stacks; i++) {
    const struct stacked *s = &u->stack[i];
    const struct node *row = u->now[u->l->n_carry + i];
    if (bytes_of(row, 0) != s->row_bytes)
      return fail(WEFT_ERR_SHAPE, row->origin, "weft_loop_all: the size of a row differs from step to step");
    value_copy(row, s->data + row_now(u) * s->row_bytes, &f);
  }
  return f;
}

static struct failure *is_last(const struct uneven *u, bool *stop) {
  struct failure *f = NULL;
  uint8_t byte = 0;
  if (u->l->until) value_copy(u->now[u->n_bodies - 1], &byte, &f);
  *stop = byte;
  return f;
}

/* ---- Steps ---- */

static struct failure *run_body(struct uneven *u, bool *stop) {
  struct failure *f = NULL;
  if (!take_rows(u)) return no_memory();
  if (!graph_substitute(u->n_vars, u->l->seq_var, u->value, u->n_bodies, u->body, u->now, &f)) return f ? f : no_memory();
  eval_nodes(u->n_bodies, u->now, &(struct eval_options){ .only_targets = true }, &f);
  if (!f) f = keep_rows(u);
  if (!f) f = is_last(u, stop);
  if (!f) f = keep_carries(u);
  nodes_release(u->n_bodies, u->now);
  return f;
}

static struct failure *step(struct uneven *u, bool *stop) {
  struct failure *f = plan_stopped(eval_settings()->cancel);
  return f ? f : run_body(u, stop);
}

static struct failure *steps(struct uneven *u) {
  bool stop = false;
  for (; u->taken < u->most && !stop; u->taken++) {
    struct failure *f = step(u, &stop);
    if (f) return u->l->is_branch ? f : failure_in_step(f, u->taken, u->l->is_backward);
  }
  return NULL;
}

/* ---- Opening and closing ---- */

static struct failure *open_stack(struct uneven *u, const struct node *item, int k) {
  struct stacked *s = &u->stack[u->n_stacks];
  *s = (struct stacked){ .k = k, .row_bytes = bytes_of(item, 1) };
  if (s->row_bytes < 0) return fail(WEFT_ERR_INTERNAL, item->origin, "weft_loop_all: rows of unknown size");
  dim bytes = dim_mul(s->row_bytes, u->most);
  void *data = NULL;
  if (bytes == DIM_BAD || !(s->buf = buffer_new((size_t)bytes))) return no_memory();
  u->n_stacks++;
  buffer_hold(s->buf, NULL, &data, NULL);
  s->data = data;
  u->body[u->n_bodies++] = u->l->all[k];
  return NULL;
}

static bool has_stack(const struct uneven *u, int k) {
  for (int i = 0; i < u->n_stacks; i++)
    if (u->stack[i].k == k) return true;
  return false;
}

static struct failure *open_stacks(struct uneven *u, int n, struct node *const item[]) {
  struct failure *f = NULL;
  for (int i = 0; !f && i < n; i++) {
    int k = ((const struct item_attr *)item[i]->attr)->k;
    if (k < u->l->n_all && !has_stack(u, k)) f = open_stack(u, item[i], k);
  }
  return f;
}

static struct failure *uneven_open(struct uneven *u, int n, struct node *const item[]) {
  const struct loop *l = u->l;
  u->n_vars = l->n_seq + l->n_carry + l->n_const;
  u->most = dim_resolve(l->steps);
  u->value = mem_alloc((size_t)(u->n_vars + 1) * sizeof *u->value);
  u->body = mem_alloc(2 * (size_t)(l->n_carry + l->n_all + 1) * sizeof *u->body);
  u->stack = mem_alloc((size_t)(l->n_all + 1) * sizeof *u->stack);
  if (!u->value || !u->body || !u->stack) return no_memory();
  u->now = u->body + l->n_carry + l->n_all + 1;
  for (int k = l->n_seq; k < u->n_vars; k++)
    if (!(u->value[k] = value_of(u->node->in[l->has_steps + k]))) return no_memory();
  for (int k = 0; k < l->n_carry; k++) u->body[u->n_bodies++] = l->next[k];
  struct failure *f = open_stacks(u, n, item);
  if (!f && l->until) u->body[u->n_bodies++] = l->until;
  return f;
}

static void uneven_close(struct uneven *u) {
  for (int i = 0; i < u->n_stacks; i++) buffer_drop(u->stack[i].buf), buffer_release(u->stack[i].buf);
  if (u->value) nodes_release(u->n_vars, u->value);
  mem_free(u->value);
  mem_free(u->body);
  mem_free(u->stack);
}

static struct node *stacked(const struct uneven *u, const struct node *item, int k) {
  dim dims[WEFT_RANK_MAX];
  const struct stacked *s = u->stack;
  while (s->k != k) s++;
  for (int i = 0; i < item->rank; i++) dims[i] = i ? dim_resolve(item->dims[i]) : u->taken;
  return value_node((weft_dtype)item->dtype, item->rank, dims, buffer_retain(s->buf), 0, NULL);
}

static struct node *result(const struct uneven *u, const struct node *item) {
  int k = ((const struct item_attr *)item->attr)->k;
  if (k < u->l->n_all) return stacked(u, item, k);
  if (k < loop_out_length(u->l)) return node_retain(u->value[u->l->n_seq + k - u->l->n_all]);
  return scalar_node(WEFT_I64, (uint64_t)u->taken, false);
}

static struct failure *give_out(const struct uneven *u, int n, struct node *item[]) {
  struct node **made = mem_alloc((size_t)(n + 1) * sizeof *made);
  bool ok = made;
  for (int i = 0; ok && i < n; i++) ok = (made[i] = result(u, item[i]));
  struct failure *f = !ok ? no_memory() : u->l->until ? eval_bind(u->l->length, u->taken) : NULL;
  if (!f) f = eval_hand_over(n, item, made); /* whoever finds the rows finds how many they are */
  if (made) nodes_release(n, made);
  mem_free(made);
  return f;
}

struct failure *eval_uneven(struct node *node, int n, struct node *item[]) {
  tape_spoil();
  struct uneven u = { .node = node, .l = loop_of(node) };
  struct failure *f = NULL;
  if (node->n_in && eval_nodes(node->n_in, node->in, &(struct eval_options){ .only_targets = true }, &f)) return f;
  for (int k = 0; !f && k < node->n_in; k++) f = node_verdict(node->in[k]);
  if (!f) f = uneven_open(&u, n, item);
  if (!f) f = steps(&u);
  if (!f) f = give_out(&u, n, item);
  uneven_close(&u);
  return f;
}
