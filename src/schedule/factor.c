/* factor.c -- products that a loop is given come back into it.
 *
 * x_t W of all steps is one product X W before the loop (op/loop_hoist.c), a sequence as large as X. A loop that is one kernel
 * by rows anyway (loop_rows.c) multiplies its rows itself, if nobody else reads them: X is read once, and X W stands nowhere. Bits
 * stay, since a product has the same order of sums either way. */
#include <string.h>
#include "backend/patch.h"
#include "op/loop.h"
#include "schedule/body.h"
#include "schedule/draft.h"

enum {
  LEAST_ROWS = 32,           /* of a step: work for threads */
  LARGEST = 1 << 14          /* elements of a factor: it stays near beside those that the loop has */
};

/* The product [n m, k] x [k, j] that a sequence shows as [n, m, j]; NULL: it is none, or others read it. */
static struct node *product_of(const struct node *s) {
  struct node *y = s->op == &op_reshape && s->rank == 3 && local_of(s)->n_uses == 1 ? s->in[0] : NULL;
  if (!y || y->op->kind != OP_CONTRACT || y->rank != 2 || local_of(y)->n_uses != 1 || y->dims[1] != s->dims[2]) return NULL;
  const struct node *a = y->in[0], *b = y->in[1];
  if (a->dtype != y->dtype || b->dtype != y->dtype || scalar_of(a) || scalar_of(b)) return NULL;
  return s->dims[1] >= LEAST_ROWS && a->dims[1] && a->dims[1] <= KIR_PRODUCT_BLOCK && node_count(b) <= LARGEST ? y : NULL;
}

/* Whether the loop, as it is, becomes one kernel by rows. */
static bool goes_by_rows(struct work *w, struct node *n, bool *does) {
  struct body b = { .w = w, .node = n, .loop = loop_of(n) };
  b.steps = dim_resolve(b.loop->steps);
  b.in_node = n->in + b.loop->has_steps;
  if (!body_nodes(&b)) return false;
  *does = rows_fit(&b);
  return true;
}

/* The loop with room for n more constants, those of the factors. NULL: out of memory. */
static struct loop *with_factors(struct work *w, const struct loop *l, int n) {
  struct loop *to = work_take(w, sizeof *to);
  if (!to) return NULL;
  *to = *l;
  to->factor = work_take(w, sizeof *to->factor * (size_t)(l->n_seq + 1));
  to->const_var = work_take(w, sizeof *to->const_var * (size_t)(l->n_const + n));
  if (w->no_memory) return NULL;
  for (int k = 0; k < l->n_seq; k++) to->factor[k] = -1;
  memcpy(to->const_var, l->const_var, sizeof *to->const_var * (size_t)l->n_const);
  return to;
}

/* Sequence k is X from here on, and its factor the last constant. */
static bool multiply_inside(struct work *w, struct node *n, struct loop *l, int k, struct node *y) {
  struct node *s = n->in[loop_in_seq(l, k)], *x = y->in[0], *b = y->in[1];
  dim dims[] = { s->dims[0], s->dims[1], x->dims[1] };
  if (x->op == &op_reshape && x->in[0]->rank == 3 && !memcmp(x->in[0]->dims, dims, sizeof dims)) x = x->in[0];
  else x = node_local(w->arena, &op_reshape, (weft_dtype)x->dtype, 3, dims, 1, &x, NULL, 0);
  struct node *var = node_local(w->arena, &op_loop_var, (weft_dtype)b->dtype, 2, b->dims, 0, NULL, NULL, 0);
  if (!x || !var) return !(w->no_memory = true);
  n->in[loop_in_seq(l, k)] = x, n->in[n->n_in++] = b;
  l->factor[k] = l->n_const, l->const_var[l->n_const++] = var;
  return true;
}

static bool take_in(struct work *w, struct node *n) {
  const struct loop *l = loop_of(n);
  int n_factors = 0;
  bool does = false;
  for (int k = 0; k < l->n_seq; k++) n_factors += product_of(n->in[loop_in_seq(l, k)]) != NULL;
  if (!n_factors || body_variables(l) + n_factors + l->n_all + l->n_carry > DRAFT_BUFFERS) return true;
  if (!dim_is_known(dim_resolve(l->steps))) return true;
  if (!goes_by_rows(w, n, &does)) return false;
  if (!does) return true;
  struct loop *to = with_factors(w, l, n_factors);
  struct node **in = work_take(w, sizeof *in * (size_t)(n->n_in + n_factors));
  if (!to || !in) return false;
  memcpy(in, n->in, sizeof *in * (size_t)n->n_in);
  n->in = in;
  ((struct loop_attr *)n->attr)->loop = to;
  for (int k = 0; k < l->n_seq; k++) {
    struct node *y = product_of(n->in[loop_in_seq(l, k)]);
    if (y && !multiply_inside(w, n, to, k, y)) return false;
  }
  return true;
}

bool factors_take_in(struct work *w) {
  for (int i = 0, n = w->list->n; i < n; i++)
    if (w->list->node[i]->op == &op_loop && !take_in(w, w->list->node[i])) return false;
  return true;
}
