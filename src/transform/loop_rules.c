/* loop_rules.c -- derivatives of loops: loops again.
 *
 * Reverse mode. For c' = next(s, c, k), a = all(s, c, k) the cotangents of one step are those of its body:
 *   (ds, dc, dk) = J(s, c, k)' (dc', da)
 * so the reverse loop runs through the rows backward, carries dc, reads s, the carries kept by the forward loop and da, gives
 * ds of every step, and sums dk in carries of its own. The body is computed again from s and c, but for the new carries.
 *
 * Forward mode. The loop with the tangents of its carries as carries beside them. Where until ends the loop, that gives the
 * last tangents; those of stacked outputs, which have the length of the outputs, come from a loop of the tangents alone over
 * the carries kept and the rows executed. */
#include "base/mem.h"
#include "op/operand.h"
#include "transform/loop_rules.h"

static struct node *seq_of(const struct rule *r, const struct loop *l, int k) { return r->in[loop_in_seq(l, k)]->node; }
static struct node *init_of(const struct rule *r, const struct loop *l, int k) { return r->in[loop_in_carry(l, k)]->node; }
static struct node *const_of(const struct rule *r, const struct loop *l, int k) { return r->in[loop_in_const(l, k)]->node; }

/* The loop node itself: items of it are what was kept. */
static struct node *self(const struct rule *r) { return (struct node *)r->node; }

/* A loop over the rows that r's loop has gone through: its sequences, and the carries it kept, as sequences. Those of a
 * branch are its initial ones. */
static bool draft_replay(struct loop_draft *d, const struct rule *r) {
  const struct loop *l = loop_of(r->node);
  if (!draft_same_steps(d, self(r))) return false;
  for (int k = 0; k < l->n_seq; k++)
    if (!nodes_add(&d->seq, loop_cut(seq_of(r, l, k), l->length)) || !nodes_add(&d->seq_var, node_retain(l->seq_var[k])))
      return false;
  for (int k = 0; k < l->n_carry && !l->is_branch; k++)
    if (!nodes_add(&d->seq, item_make(self(r), loop_out_kept(l, k))) || !nodes_add(&d->seq_var, node_retain(l->carry_var[k])))
      return false;
  return true;
}

/* ---- Reverse ---- */

struct reversal {
  const struct rule *r;
  const struct loop *l;
  struct loop_draft d;
  struct node **body;                  /* of the loop, on its constants */
  struct node **carry;                 /* what stands for the carries before a step: variables; of a branch, the initial ones */
  struct nodes y, seed;                /* what is pulled back: next of floats, all that have a cotangent */
  struct nodes x;                      /* sequence variables, carry variables, constants */
  struct node **dx;                    /* of x */
  int *carry_at, *const_at, *seq_at;   /* which carry or stacked output of the reverse loop; -1: none */
  struct node **left;                  /* of constants whose cotangent is a sum of products: the left factors of all steps;
                                          const_at is the stacked output of right factors then. References */
  dim rows;                            /* how many the reverse loop goes through: the last ones */
  struct node *is_short;               /* reference, 0-d bool: they are not all; NULL: rows says it */
};

static bool add_x(struct reversal *v) {
  const struct loop *l = v->l;
  bool ok = true;
  for (int k = 0; ok && k < l->n_seq; k++) ok = nodes_add(&v->x, node_retain(l->seq_var[k]));
  for (int k = 0; ok && k < l->n_carry; k++) ok = nodes_add(&v->x, node_retain(v->carry[k]));
  for (int k = 0; ok && k < l->n_const; k++) ok = nodes_add(&v->x, node_retain(const_of(v->r, l, k)));
  return ok;
}

/* Carries of the reverse loop: the cotangents of the carries that are floats. */
static bool add_carries(struct reversal *v, weft_array *const dy[]) {
  const struct loop *l = v->l;
  for (int k = 0; k < l->n_carry; k++) {
    v->carry_at[k] = -1;
    if (!is_differentiable(l->carry_var[k])) continue;
    v->carry_at[k] = v->d.init.n;
    weft_array *last = dy[loop_out_last(l, k)];
    struct node *var = var_like(l->carry_var[k]);
    bool ok = nodes_add(&v->d.carry_var, var) &&
              (last ? nodes_add(&v->d.init, node_retain(last->node)) : nodes_add_zeros(&v->d.init, init_of(v->r, l, k)));
    ok = ok && nodes_add(&v->y, node_retain(v->body[k])) && nodes_add(&v->seed, node_retain(var));
    if (!ok) return false;
  }
  return true;
}

static bool add_stacked(struct reversal *v, weft_array *const dy[]) {
  const struct loop *l = v->l;
  for (int k = 0; k < l->n_all; k++) {
    if (!dy[k]) continue;
    struct node *body = v->body[l->n_carry + k], *var = var_like(body);
    bool ok = nodes_add(&v->d.seq_var, var) && nodes_add(&v->d.seq, node_retain(dy[k]->node)) &&
              nodes_add(&v->y, node_retain(body)) && nodes_add(&v->seed, node_retain(var));
    if (!ok) return false;
  }
  return true;
}

static bool add_nexts(struct reversal *v) {
  const struct loop *l = v->l;
  for (int k = 0; k < l->n_carry; k++) {
    if (v->carry_at[k] < 0) continue;
    struct node *d = v->dx[l->n_seq + k];
    if (!(d ? nodes_add(&v->d.next, node_retain(d)) : nodes_add_zeros(&v->d.next, l->carry_var[k]))) return false;
  }
  return true;
}

/* ---- What a step has made of a carry ----
 * Where the cotangents of a step need the new value of a carry, such as the tanh whose slope is 1 - tanh^2, it is not computed
 * again: it is the carry before the next step. The carries before each step and after the last are rows of one array then. */

static bool is_made(const struct reversal *v, int k) {
  for (int i = 0; i < k; i++)
    if (v->body[i] == v->body[k]) return false;
  return v->body[k]->op->kind != OP_LEAF;
}

/* Which stacked output is the new carry k of every step; -1: none. */
static int stacked_next(const struct reversal *v, int k) {
  const struct loop *l = v->l;
  for (int j = 0; j < loop_out_kept(l, 0); j++)
    if (v->body[l->n_carry + j] == v->body[k]) return j;
  return -1;
}

/* A carry before or after all steps, as a row. */
static weft_array *as_row(const struct node *var, struct node *carry) {
  dim dims[WEFT_RANK_MAX];
  for (int i = 0; i <= var->rank; i++) dims[i] = i ? var->dims[i - 1] : 1;
  return array_reshape("weft_vjp", array_of(carry), var->rank + 1, dims);
}

/* Carry k before each step, and after the last one, in the order of rows. Where the new ones are stacked anyway, they and the
 * initial one; else those kept and the last one. */
static weft_array *carries_of(const struct reversal *v, int k) {
  const struct loop *l = v->l;
  int stacked = stacked_next(v, k), rows = stacked < 0 ? loop_out_kept(l, k) : stacked;
  struct node *end = stacked < 0 ? item_make(self(v->r), loop_out_last(l, k)) : node_retain(init_of(v->r, l, k));
  weft_array *all = array_of(item_make(self(v->r), rows)), *one = as_row(l->carry_var[k], end);
  return weft_concat(0, 2, (stacked < 0) == l->is_backward ? (weft_array *[]){ one, all } : (weft_array *[]){ all, one });
}

/* The carries before and after each step become sequences of the reverse loop, the latter under a variable of their own. */
static bool read_next(struct reversal *v, int k, struct failure **why) {
  const struct loop *l = v->l;
  struct nodes *seq = &v->d.seq;
  dim n = dim_resolve(l->length);
  weft_array *rows = carries_of(v, k);
  struct node *before = result_of(array_slice(rows, 0, l->is_backward, n, 1), why);
  struct node *after = before ? result_of(array_slice(rows, 0, !l->is_backward, n, 1), why) : NULL;
  if (!after) return node_release(before), false;
  node_release(seq->node[l->n_seq + k]);
  seq->node[l->n_seq + k] = before;
  return nodes_add(seq, after) && nodes_add(&v->d.seq_var, var_like(v->body[k]));
}

/* Those of the cotangents dx that need one of the new values, on the new variables. */
static bool substitute_next(struct reversal *v, struct nodes *dx, struct failure **why) {
  const struct loop *l = v->l;
  struct nodes made = { 0 };
  struct subgraph g;
  if (!subgraph_take(&g, dx->n, dx->node, l->n_carry, v->body, oldest_of(l->n_carry, v->body))) return false;
  bool ok = true;
  for (int k = 0; ok && k < l->n_carry; k++)
    if (g.wall[k] >= 0 && is_made(v, k)) ok = read_next(v, k, why) && nodes_add(&made, node_retain(v->body[k]));
  subgraph_free(&g);
  struct node **now = node_list_new(dx->n), **var = v->d.seq_var.node + v->d.seq_var.n - made.n;
  ok = ok && now && (!made.n || graph_substitute(made.n, made.node, var, dx->n, dx->node, now, why));
  for (int k = 0; ok && made.n && k < dx->n; k++) node_release(dx->node[k]), dx->node[k] = now[k];
  nodes_free(&made);
  mem_free(now);
  return ok;
}

static bool use_next(struct reversal *v, struct failure **why) {
  if (v->l->is_branch || v->l->until) return true;
  struct nodes dx = { 0 };
  bool ok = true;
  for (int k = 0; ok && k < v->x.n; k++) ok = !v->dx[k] || nodes_add(&dx, node_retain(v->dx[k]));
  ok = ok && substitute_next(v, &dx, why);
  for (int k = 0, at = 0; ok && k < v->x.n; k++)
    if (v->dx[k]) node_release(v->dx[k]), v->dx[k] = node_retain(dx.node[at++]);
  nodes_free(&dx);
  return ok;
}

/* ---- Sums of products over steps ----
 * The cotangent of a matrix that every step multiplies by is sum over t of a_t b_t. Where a_t is made of what was kept, the
 * b_t are stacked and the sum is one product after the loop, [m, n k] by [n k, q]. The b_t take no more memory than the
 * carries that are kept. */

static bool needs_a_carry(const struct reversal *v, struct node *n, struct failure **why) {
  struct subgraph g;
  const struct nodes *c = &v->d.carry_var;
  if (!subgraph_take(&g, 1, &n, c->n, c->node, 0)) return *why = no_memory(), true;
  bool found = false;
  for (int k = 0; k < c->n; k++) found |= g.wall[k] >= 0;
  subgraph_free(&g);
  return found;
}

static bool fits_kept(const struct reversal *v, const struct node *n) {
  dim count = dim_count(n->rank, n->dims), kept = 0;
  for (int k = 0; k < v->l->n_carry; k++) kept = dim_add(kept, dim_count(v->l->carry_var[k]->rank, v->l->carry_var[k]->dims));
  return count == kept || (dim_is_known(count) && dim_is_known(kept) && count <= kept);
}

static bool is_product(const struct reversal *v, const struct node *d, struct failure **why) {
  return d->op == &op_matmul && d->rank == 2 && d->n_in == 2 && !v->l->is_branch && !v->l->truncate &&
         d->in[0]->dtype == d->dtype && fits_kept(v, d->in[1]) && !needs_a_carry(v, d->in[0], why);
}

/* n for all steps, from the sequences of the reverse loop. */
static struct node *for_all_steps(const struct reversal *v, struct node *n, struct failure **why) {
  const struct loop_draft *d = &v->d;
  struct node *y = node_retain(n), *ys = NULL;
  bool ok = spread(d->parts.n_steps, NULL, d->seq.n, d->seq_var.node, d->seq.node, 1, &y, &ys, why);
  node_release(y);
  return ok ? ys : NULL;
}

/* Which stacked output n is, perhaps a new one. -1: out of memory. */
static int stack(struct reversal *v, struct node *n) {
  for (int k = 0; k < v->d.all.n; k++)
    if (v->d.all.node[k] == n) return k;
  return nodes_add(&v->d.all, node_retain(n)) ? v->d.all.n - 1 : -1;
}

/* *is_done: the cotangent of constant k comes from products. */
static bool add_product(struct reversal *v, int k, struct node *d, bool *is_done, struct failure **why) {
  *is_done = false;
  if (!is_product(v, d, why)) return !*why;
  v->left[k] = for_all_steps(v, d->in[0], why);
  if (!v->left[k]) return !*why; /* the same in all steps: as ever */
  v->const_at[k] = stack(v, d->in[1]);
  return *is_done = v->const_at[k] >= 0;
}

static weft_array *sum_of_products(const struct reversal *v, struct node *back, int k) {
  struct node *a = v->left[k];
  struct node *b = item_of(back, v->const_at[k]);
  if (!b) return array_of(NULL);
  dim inner = dim_mul(a->dims[0], a->dims[2]), left[2] = { a->dims[1], inner }, right[2] = { inner, b->dims[2] };
  if (inner == DIM_BAD) return node_release(b), array_of(NULL);
  weft_array *rows = array_reshape("weft_vjp", weft_moveaxis(handle_of(a), 0, 1), 2, left);
  return weft_matmul(rows, array_reshape("weft_vjp", array_of(b), 2, right));
}

static bool add_sums(struct reversal *v, const bool is_wanted[], struct failure **why) {
  const struct loop *l = v->l;
  for (int k = 0; k < l->n_const; k++) {
    struct node *d = v->dx[l->n_seq + l->n_carry + k], *like = const_of(v->r, l, k);
    v->const_at[k] = -1;
    if (!d || !is_wanted[loop_in_const(l, k)]) continue;
    bool is_done;
    if (!add_product(v, k, d, &is_done, why)) return false;
    if (is_done) continue;
    v->const_at[k] = v->d.init.n;
    struct node *var = var_like(like);
    if (!nodes_add(&v->d.carry_var, var) || !nodes_add_zeros(&v->d.init, like)) return false;
    struct node *sum = result_of(weft_add(handle_of(var), handle_of(d)), why);
    if (!nodes_add(&v->d.next, sum)) return false;
  }
  return true;
}

static bool add_outputs(struct reversal *v, const bool is_wanted[]) {
  for (int k = 0; k < v->l->n_seq; k++) {
    v->seq_at[k] = -1;
    if (!v->dx[k] || !is_wanted[loop_in_seq(v->l, k)]) continue;
    if ((v->seq_at[k] = stack(v, v->dx[k])) < 0) return false;
  }
  return true;
}

/* An initial carry under an identity of its own: it may be one of the constants too. */
static struct node *alias(struct node *n) {
  return node_make(&op_alias, (weft_dtype)n->dtype, n->rank, n->dims, 1, &n, NULL, 0);
}

static bool find_carries(struct reversal *v) {
  const struct loop *l = v->l;
  v->carry = node_list_new(l->n_carry);
  for (int k = 0; v->carry && k < l->n_carry; k++)
    if (!(v->carry[k] = l->is_branch ? alias(init_of(v->r, l, k)) : node_retain(l->carry_var[k]))) return false;
  return v->carry;
}

static bool find_bodies(struct reversal *v, struct failure **why) {
  const struct loop *l = v->l;
  struct node **constant = node_list_new(l->n_const);
  for (int k = 0; constant && k < l->n_const; k++) constant[k] = const_of(v->r, l, k);
  draft_branch(&v->d, l);
  v->body = constant ? bodies_of(l, v->carry, constant, why) : NULL;
  mem_free(constant);
  return v->body;
}

/* ---- Truncation: the reverse loop goes through the last rows only ---- */

/* How many steps were executed, as an array. */
static weft_array *executed(const struct reversal *v) {
  const struct loop *l = v->l;
  if (l->until) return array_of(item_make(self(v->r), loop_out_length(l)));
  if (l->has_steps) return weft_cast(v->r->in[0], WEFT_I64);
  return array_of(node_size(node_retain(seq_of(v->r, l, 0)), 0, l->length));
}

/* The number of rows is known only when the loop has run. */
static bool find_rows_later(struct reversal *v, struct failure **why) {
  weft_array *n = executed(v), *most = weft_cast(weft_integer(v->l->truncate), WEFT_I64);
  v->is_short = result_of(weft_gt(n, most), why);
  node_release(v->d.length);
  v->d.parts.steps = v->d.length = v->is_short ? result_of(weft_minimum(n, most), why) : NULL;
  v->d.parts.owns_steps = true;
  v->rows = dim_symbol();
  return v->d.length;
}

static bool find_rows(struct reversal *v, struct failure **why) {
  dim length = dim_resolve(v->l->length);
  v->rows = length;
  if (!v->l->truncate || (dim_is_known(length) && length <= v->l->truncate)) return true;
  if (v->l->truncate == LOOP_CONSTANT) v->rows = 0, v->d.parts.steps = NULL, v->d.parts.owns_steps = false;
  else if (dim_is_known(length)) v->rows = v->l->truncate;
  else if (!find_rows_later(v, why)) return false;
  v->d.parts.n_steps = v->rows;
  return true;
}

static weft_array *last_rows(const struct reversal *v, weft_array *xs) {
  dim start = dim_sub(dim_resolve(v->l->length), v->rows);
  return start == DIM_BAD ? array_of(NULL) : array_slice(xs, 0, start, v->rows, 1);
}

static bool truncate(struct reversal *v, struct failure **why) {
  if (!find_rows(v, why)) return false;
  for (int k = 0; k < v->d.seq.n && v->rows != dim_resolve(v->l->length); k++) {
    struct node *part = result_of(last_rows(v, handle_of(v->d.seq.node[k])), why);
    if (!part) return false;
    node_release(v->d.seq.node[k]);
    v->d.seq.node[k] = part;
  }
  return true;
}

/* Rows that were not gone through have no cotangent. */
static weft_array *all_rows(const struct reversal *v, weft_array *ds) {
  if (v->rows == dim_resolve(v->l->length)) return ds;
  dim dims[WEFT_RANK_MAX];
  for (int k = 0; k < ds->node->rank; k++) dims[k] = k ? ds->node->dims[k] : dim_resolve(v->l->length);
  weft_array *zero = array_broadcast("weft_vjp", number_like(ds, 0), ds->node->rank, dims);
  return weft_put(zero, last_rows(v, zero), ds, WEFT_SET);
}

static weft_array *of_initial(const struct reversal *v, weft_array *dc) {
  if (v->is_short) return weft_where(handle_of(v->is_short), zeros_of(dc->node), dc);
  return v->rows == dim_resolve(v->l->length) ? dc : NULL;
}

static bool reversal_open(struct reversal *v, struct failure **why) {
  const struct loop *l = v->l;
  if (!find_carries(v) || !find_bodies(v, why)) return false;
  v->carry_at = mem_alloc((size_t)(l->n_carry + l->n_const + l->n_seq + 1) * sizeof(int));
  v->dx = node_list_new(l->n_seq + l->n_carry + l->n_const);
  v->left = node_list_new(l->n_const);
  if (!v->carry_at || !v->dx || !v->left) return false;
  v->const_at = v->carry_at + l->n_carry;
  v->seq_at = v->const_at + l->n_const;
  v->d.parts.is_backward = !l->is_backward;
  return draft_replay(&v->d, v->r) && add_x(v);
}

static void reversal_close(struct reversal *v) {
  node_list_drop(n_bodies_of(v->l), v->body);
  node_list_drop(v->l->n_carry, v->carry);
  node_list_drop(v->l->n_const, v->left);
  node_list_drop(v->l->n_seq + v->l->n_carry + v->l->n_const, v->dx);
  node_release(v->is_short);
  nodes_free(&v->y);
  nodes_free(&v->seed);
  nodes_free(&v->x);
  draft_free(&v->d);
  mem_free(v->carry_at);
}

/* A sequence that was cut receives zeros behind the cut: the derivative of the slice. */
static weft_array *uncut(const struct rule *r, int k, weft_array *ds, dim length) {
  struct node *seq = r->in[k]->node, *part = loop_cut(seq, length);
  if (!part) return array_of(NULL);
  if (part == seq) return node_release(part), ds;
  return part->op->vjp(&(struct rule){ part, &r->in[k], array_of(part) }, 0, ds);
}

static void give_out(struct reversal *v, struct node *back, weft_array *dx[]) {
  const struct loop *l = v->l;
  for (int k = 0; k < l->n_seq; k++)
    if (v->seq_at[k] >= 0)
      dx[loop_in_seq(l, k)] = uncut(v->r, loop_in_seq(l, k), all_rows(v, array_of(item_of(back, v->seq_at[k]))), l->length);
  for (int k = 0; k < l->n_carry; k++)
    if (v->carry_at[k] >= 0)
      dx[loop_in_carry(l, k)] = of_initial(v, array_of(item_of(back, loop_out_last(loop_of(back), v->carry_at[k]))));
  for (int k = 0; k < l->n_const; k++)
    if (v->left[k]) dx[loop_in_const(l, k)] = sum_of_products(v, back, k);
    else if (v->const_at[k] >= 0) dx[loop_in_const(l, k)] = array_of(item_of(back, loop_out_last(loop_of(back), v->const_at[k])));
}

static struct node *reverse(struct reversal *v, const bool is_wanted[], weft_array *const dy[], struct failure **why) {
  bool ok = reversal_open(v, why) && add_carries(v, dy) && add_stacked(v, dy) &&
            pull(v->y.n, v->y.node, v->seed.node, v->x.n, v->x.node, true, v->dx, NULL, why) && use_next(v, why) &&
            add_nexts(v) && add_sums(v, is_wanted, why) && add_outputs(v, is_wanted) && truncate(v, why);
  return ok ? draft_make(&v->d, why) : NULL;
}

static void vjp(const struct rule *r, const bool is_wanted[], weft_array *const dy[], weft_array *dx[]) {
  struct reversal v = { .r = r, .l = loop_of(r->node) };
  struct failure *why = NULL;
  if (v.l->steps == INT64_MAX)
    return all_bad(r->node->n_in, dx, fail(WEFT_ERR_UNSUPPORTED, r->node->origin,
                                           "weft_vjp: a loop that only until ends keeps no steps to go back; give it a bound, "
                                           "or weft_loop_recompute"));
  struct node *back = reverse(&v, is_wanted, dy, &why);
  if (back) give_out(&v, back, dx);
  else all_bad(r->node->n_in, dx, why ? why : no_memory());
  node_release(back);
  reversal_close(&v);
}

/* ---- Forward ---- */

struct advance {
  const struct rule *r;
  const struct loop *l;
  weft_array *const *dx;
  struct loop_draft d;
  struct node **body, **dbody;       /* dbody: tangents of next and all; NULL: zero */
  struct node **x, **tangent;        /* variables and constants, and their tangents; references in tangent only */
  bool *is_live;                     /* carries that have a tangent */
  bool replays;                      /* over the rows executed */
};

static bool fresh_tangents(struct advance *a) {
  const struct loop *l = a->l;
  for (int k = 0; k < l->n_seq; k++)
    if (a->dx[loop_in_seq(l, k)] && !a->tangent[k] && !(a->tangent[k] = var_like(l->seq_var[k]))) return false;
  for (int k = 0; k < l->n_carry; k++)
    if (a->is_live[k] && !a->tangent[l->n_seq + k] && !(a->tangent[l->n_seq + k] = var_like(l->carry_var[k]))) return false;
  for (int k = 0; k < l->n_const; k++) {
    weft_array *d = a->dx[loop_in_const(l, k)];
    struct node **t = &a->tangent[l->n_seq + l->n_carry + k];
    if (d && !*t) *t = node_retain(d->node);
  }
  return true;
}

/* The tangents of one step. A carry whose next has a tangent must have one too: tried until none is found. */
static bool differentiate(struct advance *a, struct failure **why) {
  const struct loop *l = a->l;
  int n_x = l->n_seq + l->n_carry + l->n_const, n_y = l->n_carry + l->n_all;
  for (bool is_settled = false; !is_settled;) {
    nodes_release(n_y, a->dbody);
    for (int k = 0; k < n_y; k++) a->dbody[k] = NULL;
    if (!fresh_tangents(a) || !push(n_x, a->x, a->tangent, n_y, a->body, a->dbody, why)) return false;
    is_settled = true;
    for (int k = 0; k < l->n_carry; k++) {
      if (!a->dbody[k] || a->is_live[k]) continue;
      a->is_live[k] = true;
      is_settled = false;
    }
  }
  return true;
}

static bool add_primal(struct advance *a) {
  const struct loop *l = a->l;
  if (a->replays) return draft_replay(&a->d, a->r);
  a->d.parts.n_steps = l->steps;
  a->d.parts.truncate = l->truncate;
  a->d.parts.owns_steps = l->owns_steps;
  a->d.parts.steps = l->has_steps ? a->r->in[0]->node : NULL;
  a->d.parts.until = l->until ? a->body[l->n_carry + l->n_all] : NULL;
  for (int k = 0; k < l->n_seq; k++)
    if (!draft_seq(&a->d, seq_of(a->r, l, k), l->seq_var[k])) return false;
  for (int k = 0; k < l->n_carry; k++)
    if (!draft_carry(&a->d, init_of(a->r, l, k), l->carry_var[k], a->body[k])) return false;
  return true;
}

static bool add_tangents(struct advance *a) {
  const struct loop *l = a->l;
  for (int k = 0; k < l->n_seq; k++) {
    weft_array *d = a->dx[loop_in_seq(l, k)];
    if (!d) continue;
    struct node *seq = a->replays ? loop_cut(d->node, l->length) : node_retain(d->node);
    if (!nodes_add(&a->d.seq, seq) || !nodes_add(&a->d.seq_var, node_retain(a->tangent[k]))) return false;
  }
  for (int k = 0; k < l->n_carry; k++) {
    if (!a->is_live[k]) continue;
    weft_array *d = a->dx[loop_in_carry(l, k)];
    struct node *next = a->dbody[k];
    bool ok = d ? nodes_add(&a->d.init, node_retain(d->node)) : nodes_add_zeros(&a->d.init, init_of(a->r, l, k));
    ok = ok && nodes_add(&a->d.carry_var, node_retain(a->tangent[l->n_seq + k])) &&
         (next ? nodes_add(&a->d.next, node_retain(next)) : nodes_add_zeros(&a->d.next, l->carry_var[k]));
    if (!ok) return false;
  }
  for (int k = 0; k < l->n_all; k++) {
    struct node *d = a->dbody[l->n_carry + k];
    if (d && !nodes_add(&a->d.all, node_retain(d))) return false;
  }
  return true;
}

static bool advance_open(struct advance *a, struct failure **why) {
  const struct loop *l = a->l;
  int n_x = l->n_seq + l->n_carry + l->n_const;
  a->x = node_list_new(n_x);
  a->tangent = node_list_new(n_x);
  a->dbody = node_list_new(l->n_carry + l->n_all);
  a->is_live = mem_alloc((size_t)l->n_carry + 1);
  if (!a->x || !a->tangent || !a->dbody || !a->is_live) return false;
  for (int k = 0; k < n_x; k++) a->x[k] = k < l->n_seq + l->n_carry ? l->seq_var[k] : const_of(a->r, l, k - l->n_seq - l->n_carry);
  for (int k = 0; k < l->n_carry; k++) a->is_live[k] = a->dx[loop_in_carry(l, k)];
  draft_branch(&a->d, l);
  a->body = bodies_of(l, NULL, a->x + l->n_seq + l->n_carry, why);
  a->d.parts.is_backward = l->is_backward;
  return a->body;
}

static void advance_close(struct advance *a) {
  const struct loop *l = a->l;
  mem_free(a->x);
  mem_free(a->is_live);
  node_list_drop(l->n_seq + l->n_carry + l->n_const, a->tangent);
  node_list_drop(l->n_carry + l->n_all, a->dbody);
  node_list_drop(n_bodies_of(l), a->body);
  draft_free(&a->d);
}

static void hand_out_all(const struct advance *a, struct node *made, weft_array *dy[]) {
  const struct loop *l = a->l;
  for (int k = 0, at = 0; k < l->n_all; k++)
    if (a->dbody[l->n_carry + k]) dy[k] = array_of(item_of(made, at++));
}

static void hand_out_last(const struct advance *a, struct node *made, weft_array *dy[]) {
  const struct loop *l = a->l;
  for (int k = 0, at = l->n_carry; k < l->n_carry; k++)
    if (a->is_live[k]) dy[loop_out_last(l, k)] = array_of(item_of(made, loop_out_last(loop_of(made), at++)));
}

static bool ends_early(const struct loop *l) { return l->until && l->steps != INT64_MAX; }

static bool advance(const struct rule *r, bool replays, weft_array *const dx[], weft_array *dy[], struct failure **why) {
  struct advance a = { .r = r, .l = loop_of(r->node), .dx = dx, .replays = replays };
  bool ok = advance_open(&a, why) && differentiate(&a, why) && add_primal(&a) && add_tangents(&a);
  struct node *made = ok ? draft_make(&a.d, why) : NULL;
  if (made && (replays || !ends_early(a.l))) hand_out_all(&a, made, dy);
  if (made && !replays) hand_out_last(&a, made, dy);
  node_release(made);
  advance_close(&a);
  return made;
}

static void jvp(const struct rule *r, weft_array *const dx[], weft_array *dy[]) {
  struct failure *why = NULL;
  const struct loop *l = loop_of(r->node);
  bool ok = advance(r, false, dx, dy, &why) && (!ends_early(l) || advance(r, true, dx, dy, &why));
  if (!ok) all_bad(loop_count(r->node), dy, why ? why : no_memory());
}

const struct many loop_many = { loop_count, loop_type, vjp, jvp, loop_batch };
