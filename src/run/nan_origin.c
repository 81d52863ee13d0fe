/* nan_origin.c -- where a nan arose: the operation, and the step of each loop around it.
 *
 * Asked for by WEFT_CHECK once a result turns out to have one. Which arrays on the way to it have one is found in one
 * evaluation. From the result the search goes back along operands that have one, to an operation whose operands have
 * none. Where several have, the one counts without which the result would have none: what where() leaves out is not to
 * blame. A loop is run once more up to its first step with a nan, and the search goes on in the body, written out on what
 * that step was given. So it does not matter by which kernels the result was computed. */
#include <string.h>
#include "base/mem.h"
#include "base/text.h"
#include "graph/function.h"
#include "graph/shape.h"
#include "op/operand.h"
#include "run/eval.h"
#include "transform/loop_rules.h"

struct search {
  int check;            /* as the setting: 1: nan, 2: inf too */
  struct node *node;    /* has one; a reference */
  struct nodes wall;    /* where the graph below it ends: what a step of a loop was given */
  struct subgraph g;    /* of node; taken anew for every body */
  bool *has;            /* by node of g: it has one */
  struct text steps;    /* of the loops around, the inner one first */
};

static weft_array *is_bad(int check, weft_array *x) { return check == 1 ? weft_isnan(x) : weft_not(weft_isfinite(x)); }
static bool may_be_bad(const struct node *n) { return is_differentiable(n) && n->op->kind != OP_LOOP; }

/* Finds which of n nodes have a nan, or an inf where that is looked for. NULL, or why that cannot be said. */
static struct failure *look(int check, int n, struct node *const node[], bool has[]) {
  weft_array **flag = mem_alloc((size_t)(n + 1) * sizeof *flag);
  uint8_t *found = mem_alloc((size_t)n + 1);
  int m = 0, at = 0;
  if (!flag || !found) return mem_free(flag), mem_free(found), no_memory();
  for (int i = 0; i < n; i++)
    if (may_be_bad(node[i])) flag[m++] = weft_unsqueeze(weft_any(is_bad(check, handle_of(node[i])), WEFT_ALL), 0);
  struct failure *f = NULL;
  weft_array *all = m ? weft_concat(0, m, flag) : NULL;
  struct node *result = all ? result_of(all, &f) : NULL;
  if (result && !eval_nodes(1, &result, &(struct eval_options){ .only_targets = true }, &f)) value_copy(result, found, &f);
  for (int i = 0; i < n; i++) has[i] = !f && may_be_bad(node[i]) && found[at++];
  node_release(result);
  mem_free(flag);
  mem_free(found);
  return f;
}

/* ---- From a result to the operation ---- */

static struct failure *take_graph(struct search *s) {
  subgraph_free(&s->g);
  mem_free(s->has);
  s->has = NULL;
  s->g = (struct subgraph){ 0 };
  if (!subgraph_take(&s->g, 1, &s->node, s->wall.n, s->wall.node, 0)) return no_memory();
  s->has = mem_alloc((size_t)s->g.n + 1);
  return s->has ? look(s->check, s->g.n, s->g.node, s->has) : no_memory();
}

/* The node whose operands i is computed from: itself, or what it is one of several results of. */
static int maker(const struct search *s, int i) {
  bool is_item = s->g.node[i]->op->kind == OP_ITEM && subgraph_arity(&s->g, i);
  return is_item ? s->g.operand[s->g.first[i]] : i;
}

/* Operands of i that have one; where[] has room for all. */
static int suspects(const struct search *s, int i, int where[]) {
  int m = maker(s, i), n = 0;
  if (m != i && s->g.node[m]->op->kind == OP_IDENTITY) { /* a checkpoint or own rules: results pass through */
    where[0] = s->g.operand[s->g.first[m] + ((const struct item_attr *)s->g.node[i]->attr)->k];
    return s->has[where[0]];
  }
  for (int at = s->g.first[m]; at < s->g.first[m + 1]; at++) {
    bool is_new = s->has[s->g.operand[at]];
    for (int k = 0; k < n; k++) is_new &= where[k] != s->g.operand[at];
    if (is_new) where[n++] = s->g.operand[at];
  }
  return n;
}

static struct node *cleaned(const struct search *s, struct node *x, struct failure **why) {
  weft_array *a = handle_of(x);
  return result_of(weft_where(is_bad(s->check, a), weft_full_like(a, 1), a), why);
}

/* i on operands of which but one have none: *has says whether it still has one. */
static struct failure *retry(const struct search *s, int i, int n, const int where[], int keep, bool *has) {
  int m = maker(s, i), arity = subgraph_arity(&s->g, m);
  struct nodes from = { 0 }, to = { 0 };
  struct failure *f = NULL;
  struct node *again = NULL;
  bool ok = true;
  for (int k = 0; ok && k < arity; k++) {
    int at = s->g.operand[s->g.first[m] + k];
    bool is_cleaned = false;
    for (int j = 0; j < n; j++) is_cleaned |= where[j] == at && j != keep;
    struct node *x = s->g.node[at];
    ok = nodes_add(&from, node_retain(x)) && nodes_add(&to, is_cleaned ? cleaned(s, x, &f) : node_retain(x));
  }
  ok = ok && graph_substitute(from.n, from.node, to.node, 1, &s->g.node[i], &again, &f);
  if (ok) f = look(s->check, 1, &again, has);
  node_release(again);
  nodes_free(&from);
  nodes_free(&to);
  return ok || f ? f : no_memory();
}

/* Several operands of i have a nan: goes on with the one without which i would have none, or with the first, if none is that. */
static struct failure *choose(const struct search *s, int i, int n, const int where[], int *next) {
  struct failure *f = NULL;
  bool has = false;
  *next = where[0];
  for (int k = 0; !f && !has && k < n; k++)
    if (!(f = retry(s, i, n, where, k, &has)) && has) *next = where[k];
  return f;
}

/* *at: the node at which it arose. */
static struct failure *go_back(const struct search *s, int *at) {
  struct failure *f = NULL;
  int *where = mem_alloc((size_t)(s->g.n + 1) * sizeof *where);
  if (!where) return no_memory();
  for (int n; !f && (n = suspects(s, *at, where));) {
    if (n > 1) f = choose(s, *at, n, where, at);
    else *at = where[0];
  }
  mem_free(where);
  return f;
}

/* ---- Into a loop ---- */

static weft_array *or(weft_array *a, weft_array *b) { return a ? weft_or(a, b) : b; }

/* Ends after the first step that makes one, or as ever. */
static struct node *stop_of(const struct search *s, const struct loop *l, struct node *const body[], struct failure **why) {
  weft_array *stop = l->until ? handle_of(body[n_bodies_of(l) - 1]) : NULL;
  for (int k = 0; k < l->n_carry + l->n_all; k++)
    if (may_be_bad(body[k])) stop = or(stop, weft_any(is_bad(s->check, handle_of(body[k])), WEFT_ALL));
  return result_of(stop, why);
}

/* The loop with what each step was given as carries beside. */
static bool draft_probe(struct loop_draft *d, struct node *loop, struct node *const body[]) {
  const struct loop *l = loop_of(loop);
  d->parts.n_steps = l->steps;
  d->parts.owns_steps = l->owns_steps;
  d->parts.steps = l->has_steps ? loop->in[0] : NULL;
  d->parts.is_backward = l->is_backward;
  bool ok = true;
  for (int k = 0; ok && k < l->n_seq; k++) ok = draft_seq(d, loop->in[loop_in_seq(l, k)], l->seq_var[k]);
  for (int k = 0; ok && k < l->n_carry; k++) ok = draft_carry(d, loop->in[loop_in_carry(l, k)], l->carry_var[k], body[k]);
  for (int k = 0; ok && k < l->n_carry; k++) {
    struct node *before = var_like(l->carry_var[k]);
    ok = before && draft_carry(d, loop->in[loop_in_carry(l, k)], before, l->carry_var[k]);
    node_release(before);
  }
  return ok;
}

static struct node *probe(const struct search *s, struct node *loop, struct failure **why) {
  const struct loop *l = loop_of(loop);
  struct loop_draft d = { 0 };
  draft_branch(&d, l);
  struct node **body = bodies_of(l, NULL, loop->in + loop_in_const(l, 0), why);
  struct node *stop = body ? stop_of(s, l, body, why) : NULL;
  d.parts.until = stop;
  struct node *made = stop && draft_probe(&d, loop, body) ? draft_make(&d, why) : NULL;
  if (!made && !*why) *why = no_memory();
  node_release(stop);
  node_list_drop(n_bodies_of(l), body);
  draft_free(&d);
  return made;
}

/* Its results are stored: the carries before the last step executed, and how many steps that were. */
static struct failure *run_probe(struct node *made, const struct loop *l, struct nodes *given, int64_t *steps) {
  struct failure *f = NULL;
  bool ok = true;
  for (int k = 0; ok && k < l->n_carry; k++) ok = nodes_add(given, item_make(made, loop_out_last(loop_of(made), l->n_carry + k)));
  ok = ok && nodes_add(given, item_make(made, loop_out_length(loop_of(made))));
  if (!ok) return no_memory();
  if (eval_nodes(given->n, given->node, &(struct eval_options){ .only_targets = true }, &f)) return f;
  value_copy(given->node[l->n_carry], steps, &f);
  return f;
}

static struct node *row_of(struct node *xs, const struct loop *l, int64_t step, struct failure **why) {
  weft_array *a = handle_of(xs);
  int64_t row = l->is_backward ? weft_dim(a, 0) - 1 - step : step;
  return result_of(weft_at(a, 0, weft_integer(row)), why);
}

/* What the bodies are computed from in that step, and the bodies themselves: n_bodies_of. */
static struct node **step_bodies(struct search *s, struct node *loop, struct node *const carry[], int64_t step,
                                 struct failure **why) {
  const struct loop *l = loop_of(loop);
  struct node **body = bodies_of(l, carry, loop->in + loop_in_const(l, 0), why), **out = NULL;
  struct nodes row = { 0 };
  bool ok = body && (out = node_list_new(n_bodies_of(l)));
  for (int k = 0; ok && k < l->n_seq; k++) ok = nodes_add(&row, row_of(loop->in[loop_in_seq(l, k)], l, step, why));
  ok = ok && graph_substitute(l->n_seq, l->seq_var, row.node, n_bodies_of(l), body, out, why);
  nodes_free(&s->wall);
  for (int k = 0; ok && k < l->n_seq; k++) ok = nodes_add(&s->wall, node_retain(row.node[k]));
  for (int k = 0; ok && k < l->n_carry; k++) ok = nodes_add(&s->wall, node_retain(carry[k]));
  for (int k = 0; ok && k < l->n_const; k++) ok = nodes_add(&s->wall, node_retain(loop->in[loop_in_const(l, k)]));
  node_list_drop(n_bodies_of(l), body);
  nodes_free(&row);
  if (ok) return out;
  if (!*why) *why = no_memory();
  node_list_drop(n_bodies_of(l), out);
  return NULL;
}

static void name_step(struct search *s, const struct loop *l, int64_t step) {
  struct text t = { 0 };
  if (l->is_branch) return;
  text_add_step(&t, step, l->is_backward);
  text_add(&t, text_of(&s->steps));
  text_free(&s->steps);
  s->steps = t;
}

/* The search goes on from the body that had one first. */
static struct failure *enter_step(struct search *s, struct node *loop, struct node *const carry[], int64_t step) {
  const struct loop *l = loop_of(loop);
  struct failure *f = NULL;
  int n = l->n_carry + l->n_all;
  struct node **body = step_bodies(s, loop, carry, step, &f);
  bool *has = body ? mem_alloc((size_t)n + 1) : NULL;
  if (body) f = has ? look(s->check, n, body, has) : no_memory();
  for (int k = 0; !f && k < n; k++) {
    if (!has[k]) continue;
    node_release(s->node);
    s->node = node_retain(body[k]);
    break;
  }
  name_step(s, l, step);
  mem_free(has);
  node_list_drop(n_bodies_of(l), body);
  return f;
}

static struct failure *enter_loop(struct search *s, struct node *loop) {
  struct failure *f = NULL;
  struct nodes given = { 0 };
  int64_t steps = 0;
  struct node *made = probe(s, loop, &f);
  if (made) f = run_probe(made, loop_of(loop), &given, &steps);
  if (!f && !steps) f = fail(WEFT_ERR_INTERNAL, loop->origin, "weft_eval: a loop of no steps has made a nan");
  if (!f) f = enter_step(s, loop, given.node, steps - 1);
  node_release(made);
  nodes_free(&given);
  return f;
}

/* ---- What is said ---- */

/* Where the first one stands: "[1,0]". */
static struct failure *place_of(const struct search *s, struct node *n, struct text *t) {
  struct failure *f = NULL;
  int64_t at = 0, index[WEFT_RANK_MAX];
  struct node *first = result_of(weft_argmax(weft_cast(is_bad(s->check, handle_of(n)), WEFT_I32), WEFT_ALL), &f);
  if (first && !eval_nodes(1, &first, &(struct eval_options){ .only_targets = true }, &f)) value_copy(first, &at, &f);
  node_release(first);
  for (int k = n->rank - 1; k >= 0; k--) {
    int64_t d = weft_dim(handle_of(n), k);
    index[k] = d > 0 ? at % d : 0;
    if (d > 0) at /= d;
  }
  for (int k = 0; k < n->rank; k++) text_addf(t, "%s%lld%s", k ? "," : " at [", (long long)index[k], k == n->rank - 1 ? "]" : "");
  return f;
}

static struct failure *describe(const struct search *s, int i) {
  struct node *n = s->g.node[i];
  struct text place = { 0 };
  struct shape_text shape;
  struct failure *f = place_of(s, n, &place);
  if (!f && (place.failed || s->steps.failed)) f = no_memory();
  const char *what = s->check == 1 ? "a nan" : "a nan or inf", *dtype = weft_dtype_name((weft_dtype)n->dtype);
  const char *name = s->g.node[maker(s, i)]->op->name;
  if (!f && subgraph_arity(&s->g, i))
    f = fail(WEFT_ERR_NAN, n->origin, "weft_eval: %s arises in weft_%s: %s %s%s%s", what, name, dtype, shape_show(n, &shape),
             text_of(&place), text_of(&s->steps));
  else if (!f)
    f = fail(WEFT_ERR_NAN, n->origin, "weft_eval: %s is in what was given: %s %s%s%s", what, dtype, shape_show(n, &shape),
             text_of(&place), text_of(&s->steps));
  text_free(&place);
  return f;
}

static struct failure *trace(struct search *s) {
  for (;;) {
    struct failure *f = take_graph(s);
    int at = f ? 0 : s->g.target[0];
    if (!f) f = go_back(s, &at);
    if (f) return f;
    struct node *source = s->g.node[maker(s, at)];
    if (source->op->kind != OP_LOOP || !source->n_in) return describe(s, at);
    if ((f = enter_loop(s, source))) return f;
  }
}

static struct failure *locate(int check, struct node *n) {
  struct search s = { .check = check, .node = node_retain(n) };
  struct failure *f = expand_calls_since(0, 1, &s.node);
  if (!f) f = trace(&s);
  node_release(s.node);
  nodes_free(&s.wall);
  subgraph_free(&s.g);
  mem_free(s.has);
  text_free(&s.steps);
  return f;
}

/* What was given as it is may be anything. */
static bool is_computed(const struct node *n) { return n->op->kind != OP_LEAF && n->n_in; }

static struct failure *find(int check, int n, struct node *const target[]) {
  struct nodes made = { 0 };
  bool ok = true;
  for (int i = 0; ok && i < n; i++)
    if (is_computed(target[i])) ok = nodes_add(&made, node_retain(target[i]));
  bool *has = mem_alloc((size_t)made.n + 1);
  struct failure *f = ok && has ? look(check, made.n, made.node, has) : no_memory();
  for (int i = 0; !f && i < made.n; i++)
    if (has[i]) f = locate(check, made.node[i]);
  mem_free(has);
  nodes_free(&made);
  return f;
}

struct failure *nan_find(int n, struct node *const target[]) {
  int check = eval_settings()->check;
  struct weft_scope *scope = weft_scope_open();
  if (!scope) return no_memory();
  eval_settings()->check = 0; /* of what is computed on the way */
  struct failure *f = find(check, n, target);
  eval_settings()->check = check;
  weft_scope_discard(scope);
  return f;
}
