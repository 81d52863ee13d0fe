/* rule.c -- applying the rules of ops. Rules speak the public API, so they need handles, and a scope that collects what
 * they make on the way; what a transform keeps of it is nodes. */
#include "base/mem.h"
#include "graph/caller.h"
#include "graph/function.h"
#include "graph/recall.h"
#include "graph/subgraph.h"
#include "op/operand.h"
#include "transform/transform.h"

struct failure *no_memory(void) { return fail(WEFT_ERR_MEMORY, scope_origin(), "weft: out of memory"); }

struct failure *no_rule(const char *fn, const struct node *n) {
  return fail(WEFT_ERR_UNSUPPORTED, n->origin, "%s: weft_%s has no derivative; give it one with weft_custom, or stop with "
              "weft_stop_gradient", fn, n->op->name);
}

struct failure *no_history(const char *fn, const struct node *n) {
  struct shape_text t;
  return fail(WEFT_ERR_NO_HISTORY, n->origin, "%s: the expression of %s %s (%s) was dropped when it was evaluated", fn,
              weft_dtype_name(n->dtype), shape_show(n, &t), n->op->name);
}

struct failure *no_float(const char *fn, const char *what, int which, const struct node *n) {
  return fail(WEFT_ERR_DTYPE, scope_origin(), "%s: %s %d is %s, and only floats can be differentiated", fn, what, which,
              weft_dtype_name(n->dtype));
}

/* ---- What expressions do not remember ---- */

bool is_name(const struct node *n) { return n->op == &op_input || n->op == &op_loop_var; }

uint64_t oldest_with_value(int n, struct node *const x[], struct node *const by[]) {
  uint64_t oldest = UINT64_MAX;
  for (int j = 0; j < n; j++)
    if ((!by || by[j]) && !is_name(x[j]) && x[j]->serial < oldest) oldest = x[j]->serial;
  return oldest;
}

/* A number leaves no trace in what is made from it: each use is a new scalar of the partner's dtype. Nor does a constant of
 * a loop, or what is made in a body: bodies have copies. */
struct failure *no_variable(const char *fn, int m, struct node *const y[], int n, struct node *const x[]) {
  for (int j = 0; j < n; j++)
    if (x[j]->weak)
      return fail(WEFT_ERR_ARG, scope_origin(),
                  "%s: x %d is a number, which no expression remembers; use weft_cast or weft_full", fn, j + 1);
  int lost = recall_lost(n, x, is_differentiable, m, y, 0, NULL);
  return lost >= 0 ? copied_inside(fn, "x", lost) : lost == -1 ? NULL : no_memory();
}

weft_array *handle_of(struct node *n) { return array_of(node_retain(n)); }

bool rule_open(struct applied *a, const struct node *n, int n_in, struct node *const in[]) {
  *a = (struct applied){ .origin = caller()->origin, .n_in = n_in };
  a->in = n_in > RULE_SMALL ? mem_alloc((size_t)n_in * sizeof *a->in) : a->small;
  a->scope = a->in ? weft_scope_open() : NULL;
  if (!a->scope) {
    if (a->in != a->small) mem_free(a->in);
    return false;
  }
  caller()->origin = n->origin;
  for (int k = 0; k < n_in; k++) a->in[k] = handle_of(in[k]);
  a->rule = (struct rule){ .node = n, .in = a->in, .n_in = n_in };
  return true;
}

void rule_close(struct applied *a) {
  caller()->origin = a->origin;
  weft_scope_discard(a->scope);
  if (a->in != a->small) mem_free(a->in);
}

static bool is_literal(weft_array *a, double value) {
  const struct node *n = a->node;
  if (n->op != &op_scalar) return false;
  return dtype_decode(WEFT_F64, scalar_bits(n, WEFT_F64)) == value;
}

weft_array *times(weft_array *d, weft_array *partial) {
  if (!d || !partial) return NULL;
  if (is_literal(partial, 1)) return d;
  if (is_literal(partial, -1)) return weft_neg(d);
  return weft_mul(d, partial);
}

weft_array *times_chosen(weft_array *d, weft_array *partial) {
  bool is_plain = !d || !partial || partial->node->op == &op_scalar || dtype_is_complex(weft_dtype_of(partial)) ||
                  dtype_is_complex(weft_dtype_of(d));
  return is_plain ? times(d, partial) : array_scale(d, partial);
}

bool is_differentiable(const struct node *n) { return dtype_is_inexact((weft_dtype)n->dtype); }

struct node *result_of(weft_array *a, struct failure **failure) {
  struct node *n = array_node(a);
  if (n->op != &op_bad) return n;
  *failure = failure_retain(n->failure);
  node_release(n);
  return NULL;
}

/* d has the sizes of `like`, or gets them: in a copy of a loop they have other names. */
static bool has_shape_of(weft_array **d, struct node *like, struct failure **failure) {
  struct shape_text a, b;
  const struct node *n = (*d)->node;
  if (n->op == &op_bad || shape_equal(n, like)) return true;
  bool may_be = n->rank == like->rank, is_known = node_is_known(n) && node_is_known(like);
  for (int k = 0; may_be && k < n->rank; k++) may_be = !dim_differs(dim_resolve(n->dims[k]), dim_resolve(like->dims[k]));
  if (may_be && !is_known) return *d = array_agrees(*d, handle_of(like)), true;
  *failure = fail(WEFT_ERR_INTERNAL, like->origin, "weft: the derivative of %s has the shape %s, not %s", like->op->name,
                  shape_show(n, &a), shape_show(like, &b));
  return false;
}

static bool has_size(const struct node *n, dim size) {
  bool has = dim_is_known(size);
  for (int k = 0; k < n->rank; k++) has |= dim_same(n->dims[k], size);
  return has;
}

/* A cotangent may be an array of the user, or of a rule of his: what it is made of is looked at under the lock, and is not there if
 * it has been evaluated. */

/* A number in every place reads no array that could tell its sizes, and what is taken to have the sizes of another reads one that
 * tells its own. */
static bool is_untold(const struct node *d) {
  bool is_untold = d->op == &op_broadcast && !node_is_known(d);
  if (d->op != &op_reshape) return is_untold;
  graph_lock();
  for (int k = 0; d->n_in && k < d->rank; k++) is_untold |= !has_size(d->in[0], d->dims[k]);
  graph_unlock();
  return is_untold;
}

static bool is_zero(const struct node *n) {
  while (n->n_in && (n->op == &op_broadcast || n->op == &op_reshape || n->op == &op_cast)) n = n->in[0];
  return n->op == &op_scalar && !((const struct scalar_attr *)n->attr)->bits;
}

/* Zeros but for a part that was set: what the derivative of a slice gives. */
static bool is_part(const struct node *n) {
  bool is_set = n->op == &op_put && n->n_in && ((const struct put_attr *)n->attr)->how == WEFT_SET;
  return is_set && node_is_known(n) && node_is_known(n->in[1]);
}

/* Along some axis one ends before the other begins. */
static bool are_apart(const struct node *a, const struct node *b) {
  const struct put_attr *x = a->attr, *y = b->attr;
  for (int k = 0; k < a->rank; k++) {
    if (x->start[k] < 0 || y->start[k] < 0 || x->step[k] < 1 || y->step[k] < 1) return false; /* not known, or backwards */
    if (x->start[k] + (a->in[1]->dims[k] - 1) * x->step[k] < y->start[k] ||
        y->start[k] + (b->in[1]->dims[k] - 1) * y->step[k] < x->start[k])
      return true;
  }
  return false;
}

/* The part of d, where sum and d are each 0 where the other is not; else NULL. Lock held. */
static struct node *part_beside(const struct node *sum, const struct node *d) {
  const struct node *s = sum;
  if (!is_part(d) || !is_zero(d->in[0]) || sum->dtype != d->dtype || !shape_equal(sum, d)) return NULL;
  for (; is_part(s); s = s->in[0]) if (!are_apart(s, d)) return NULL;
  return s == sum || !is_zero(s) ? NULL : d->in[1];
}

/* sum + d, of which each is 0 where the other is not, is sum with the part of d set too: no zeros are added. NULL: they are not
 * so. */
static weft_array *with_part(struct node *sum, const struct node *d) {
  if (d->op != &op_put) return NULL;
  graph_lock();
  struct node *part = part_beside(sum, d);
  if (part) node_retain(part);
  graph_unlock();
  if (!part) return NULL;
  struct node *both = node_make(&op_put, (weft_dtype)d->dtype, d->rank, d->dims, 2, (struct node *[]){ sum, part }, d->attr,
                                d->attr_bytes);
  node_release(part);
  return array_of(both);
}

bool accumulate(struct node **sum, weft_array *d, struct node *like, struct failure **failure) {
  if (!d) return true;
  if (!has_shape_of(&d, like, failure)) return false;
  bool rests = node_is_trusting(like) || node_is_told(like);
  if (is_untold(d->node) || (d->node->op == &op_broadcast && rests)) d = array_sized_by(d, handle_of(like));
  if (d->node->dtype != like->dtype || d->node->weak) d = weft_cast(d, (weft_dtype)like->dtype);
  if (*sum) {
    weft_array *both = with_part(*sum, d->node);
    d = both ? both : weft_add(handle_of(*sum), d);
  }
  struct node *now = result_of(d, failure);
  if (!now) return false;
  node_release(*sum);
  *sum = now;
  return true;
}

bool node_fit(struct node **d, struct node *like, struct failure **failure) {
  bool rests = node_is_trusting(like) || node_is_told(like);
  if ((*d)->dtype == like->dtype && !(*d)->weak && shape_equal(*d, like) && !rests) return true;
  struct weft_scope *s = weft_scope_open();
  if (!s) return *failure = no_memory(), false;
  struct node *fit = result_of(weft_cast(array_agrees(handle_of(*d), handle_of(like)), (weft_dtype)like->dtype), failure);
  weft_scope_discard(s);
  if (!fit) return false;
  node_release(*d);
  *d = fit;
  return true;
}

struct failure *transform_ready(int n, struct node *x[], int m, struct node *y[]) {
  struct failure *why = expand_captors(n, x, m, y);
  if (!why) why = recall(n, x, m, y);
  return why ? why : choose_sink(oldest_of(n, x), n, x, m, y);
}

struct node **node_list_new(int n) { return mem_alloc((size_t)(n > 0 ? n : 1) * sizeof(struct node *)); }

void node_list_drop(int n, struct node **list) {
  if (list) nodes_release(n, list);
  mem_free(list);
}

void all_bad(int n, weft_array *out[], struct failure *f) {
  for (int i = 0; i < n; i++) out[i] = array_failed(failure_retain(f));
  failure_release(f);
}

bool has_place(const char *fn, int m, int n, weft_array *out[]) {
  if (m >= 0 && n >= 0 && (out || !n)) return true;
  struct failure *f = m < 0 || n < 0
                          ? fail(WEFT_ERR_ARG, scope_origin(), "%s: %d arrays", fn, m < 0 ? m : n)
                          : fail(WEFT_ERR_ARG, scope_origin(), "%s: the list for %d results is NULL", fn, n);
  if (out && n > 0) all_bad(n, out, f);
  else scope_blame(f);
  return false;
}

bool given_take(struct given *g, const char *fn, int lists, const int n[], weft_array *const *const a[], int m, weft_array *out[]) {
  weft_array *bad = NULL;
  int total = 0;
  for (int k = 0; k < lists; k++) total += n[k];
  *g = (struct given){ .all = node_list_new(total) };
  if (!g->all) return all_bad(m, out, no_memory()), false;
  for (struct node **at = g->all; g->lists < lists && arrays_nodes(fn, n[g->lists], a[g->lists], at, &bad); at += n[g->lists++])
    g->n[g->lists] = n[g->lists], g->of[g->lists] = at;
  for (int j = 0; bad && j < m; j++) out[j] = bad;
  return !bad;
}

void given_drop(struct given *g) {
  for (int k = 0; k < g->lists; k++) nodes_release(g->n[k], g->of[k]);
  mem_free(g->all);
}
