/* grad.c -- reverse mode: cotangents flow from y down to x, each node visited once, after all of its users. */
#include "base/mem.h"
#include "graph/shape.h"
#include "op/operand.h"
#include "transform/transform.h"

struct reverse {
  struct subgraph g;
  struct node **cotangent;        /* of node i; a reference. NULL: zero so far */
  struct node ***results;         /* nodes with several results: the cotangent of each. NULL: all zero */
  bool *is_asked, *depends;       /* is an x; is one or is computed from one, in floats */
  bool *is_met;                   /* all false between uses: what a walk has met */
  int *walk;                      /* places for it; NULL: none was needed yet */
  bool *is_chosen;                /* its cotangent may be 0 because something was not read or not taken. Such a 0 stays 0:
                                     beyond a branch that was not taken there may be an infinite slope */
  uint64_t oldest, oldest_valued; /* of x; of those x that are no names */
  const struct node *dropped;     /* the youngest met; NULL: none */
  struct failure *failure;
};

static bool failed(struct reverse *r, struct failure *f) {
  if (r->failure) failure_release(f);
  else r->failure = f;
  return false;
}

static struct node *operand(const struct reverse *r, int i, int k) { return r->g.node[r->g.operand[r->g.first[i] + k]]; }

/* ---- What depends on x ---- */

static bool has_rule(const struct op *op) { return op->partial || op->vjp || op->many || op->kind == OP_ITEM; }

static bool flows(const struct reverse *r, int i) {
  const struct node *n = r->g.node[i];
  if (!n->op->many && !is_differentiable(n)) return false;
  if (n->serial <= r->oldest) return false;
  if (subgraph_is_dropped(&r->g, i)) return n->serial > r->oldest_valued;
  if (!has_rule(n->op)) return false;
  for (int at = r->g.first[i]; at < r->g.first[i + 1]; at++)
    if (r->depends[r->g.operand[at]]) return true;
  return false;
}

static void mark(struct reverse *r, int m, int n) {
  for (int j = 0; j < n; j++) r->is_asked[r->g.target[m + j]] = true;
  for (int i = 0; i < r->g.n; i++) r->depends[i] = r->is_asked[i] || flows(r, i);
}

/* ---- One node ---- */

static bool give(struct reverse *r, int i, int k, weft_array *d) {
  int j = r->g.operand[r->g.first[i] + k];
  const struct op *op = r->g.node[i]->op;
  struct failure *f = NULL;
  r->is_chosen[j] |= op->chooses || op->many || (r->is_chosen[i] && op->kind != OP_CONTRACT);
  return accumulate(&r->cotangent[j], d, r->g.node[j], &f) ? true : failed(r, f);
}

static bool takes(const struct reverse *r, int i, int k) {
  return r->depends[r->g.operand[r->g.first[i] + k]] && is_differentiable(operand(r, i, k));
}

static bool apply_one(struct reverse *r, int i, struct applied *a) {
  const struct op *op = r->g.node[i]->op;
  weft_array *dy = handle_of(r->cotangent[i]), *(*product)(weft_array *, weft_array *) = r->is_chosen[i] ? times_chosen : times;
  a->rule.out = handle_of(r->g.node[i]);
  for (int k = 0; k < a->n_in; k++) {
    if (!takes(r, i, k)) continue;
    weft_array *d = op->vjp ? op->vjp(&a->rule, k, dy) : op->partial ? product(dy, op->partial(&a->rule, k)) : NULL;
    if (d && !give(r, i, k, d)) return false;
  }
  return true;
}

static bool apply_many(struct reverse *r, int i, struct applied *a) {
  const struct many *many = r->g.node[i]->op->many;
  int n_out = many->count(r->g.node[i]);
  weft_array **d = mem_alloc((size_t)(n_out + a->n_in + 1) * sizeof *d), **dx = d ? d + n_out : NULL;
  bool *is_wanted = mem_alloc((size_t)a->n_in + 1), ok = d && is_wanted;
  if (!ok) failed(r, no_memory());
  for (int k = 0; ok && k < n_out; k++) d[k] = r->results[i][k] ? handle_of(r->results[i][k]) : NULL;
  for (int k = 0; ok && k < a->n_in; k++) is_wanted[k] = takes(r, i, k);
  if (ok && !many->vjp) ok = failed(r, no_rule("weft_grad", r->g.node[i]));
  if (ok) many->vjp(&a->rule, is_wanted, d, dx);
  for (int k = 0; ok && k < a->n_in; k++)
    if (is_wanted[k] && dx[k]) ok = give(r, i, k, dx[k]);
  mem_free(d);
  mem_free(is_wanted);
  return ok;
}

/* ---- Regions ---- */

static void meet(struct reverse *r, int *n, int i) {
  if (r->is_met[i]) return;
  r->is_met[i] = true;
  r->walk[(*n)++] = i;
}

static bool is_region(const struct reverse *r, int i) { return r->g.node[i]->op == &op_checkpoint && subgraph_arity(&r->g, i); }

/* Whether an x lies between the y and the other inputs of the checkpoint at i, where its rule, which computes the region
 * again, does not come by. Its expanded y are no end of the region: where a copy has become what it is of, they are y. -1: out of
 * memory. */
static int has_asked_inside(struct reverse *r, int i) {
  const struct node *region = r->g.node[i];
  int n_y = region->op->many->count(region), first = r->g.first[i], end = r->g.first[i + 1] - checkpoint_expanded(region);
  int n = 0, from, found = false;
  if (!r->walk) r->walk = mem_alloc((size_t)r->g.n * sizeof *r->walk);
  if (!r->walk) return -1;
  for (int at = first + n_y; at < end; at++) meet(r, &n, r->g.operand[at]);
  from = n;
  for (int k = 0; k < n_y; k++) meet(r, &n, r->g.operand[first + k]);
  for (int j = from; j < n && !found; j++) {
    int k = r->walk[j];
    found = r->is_asked[k];
    for (int at = r->g.first[k]; r->depends[k] && at < r->g.first[k + 1]; at++) meet(r, &n, r->g.operand[at]);
  }
  for (int j = 0; j < n; j++) r->is_met[r->walk[j]] = false;
  return found;
}

/* The checkpoint at i as the identity it is: what was asked for is on the way. */
static bool pass_on(struct reverse *r, int i) {
  struct weft_scope *s = weft_scope_open();
  bool ok = s ? true : failed(r, no_memory());
  for (int k = 0; ok && k < r->g.node[i]->op->many->count(r->g.node[i]); k++)
    if (r->results[i][k] && takes(r, i, k)) ok = give(r, i, k, handle_of(r->results[i][k]));
  if (s) weft_scope_discard(s);
  return ok;
}

static bool apply(struct reverse *r, int i) {
  struct applied a;
  int n_in = subgraph_arity(&r->g, i);
  struct node *few[RULE_SMALL], **in = n_in > RULE_SMALL ? mem_alloc((size_t)n_in * sizeof *in) : few;
  for (int k = 0; in && k < n_in; k++) in[k] = operand(r, i, k);
  bool ok = in && rule_open(&a, r->g.node[i], n_in, in);
  if (in != few) mem_free(in);
  if (!ok) return failed(r, no_memory());
  ok = r->g.node[i]->op->many ? apply_many(r, i, &a) : apply_one(r, i, &a);
  rule_close(&a);
  return ok;
}

/* A cotangent of one result joins those of its producer. */
static bool hand_over(struct reverse *r, int i) {
  int p = r->g.operand[r->g.first[i]], k = ((const struct item_attr *)r->g.node[i]->attr)->k;
  const struct node *producer = r->g.node[p];
  if (!r->results[p]) r->results[p] = node_list_new(producer->op->many->count(producer));
  if (!r->results[p]) return failed(r, no_memory());
  struct weft_scope *s = weft_scope_open();
  if (!s) return failed(r, no_memory());
  struct failure *f = NULL;
  bool ok = accumulate(&r->results[p][k], handle_of(r->cotangent[i]), r->g.node[i], &f) || failed(r, f);
  weft_scope_discard(s);
  return ok;
}

static void meet_dropped(struct reverse *r, const struct node *n) {
  if (!r->dropped || n->serial > r->dropped->serial) r->dropped = n;
}

static bool visit(struct reverse *r, int i) {
  const struct node *n = r->g.node[i];
  if (!r->depends[i] || !(n->op->many ? r->results[i] != NULL : r->cotangent[i] != NULL)) return true;
  if (!r->is_asked[i] && subgraph_is_dropped(&r->g, i)) return meet_dropped(r, n), true;
  if (!subgraph_arity(&r->g, i)) return true;
  int is_kept = is_region(r, i) ? has_asked_inside(r, i) : false;
  if (is_kept) return is_kept > 0 ? pass_on(r, i) : failed(r, no_memory());
  return n->op == &op_item ? hand_over(r, i) : apply(r, i);
}

/* What a node has received is not needed once it has been passed on. */
static void forget(struct reverse *r, int i) {
  if (!r->is_asked[i]) {
    node_release(r->cotangent[i]);
    r->cotangent[i] = NULL;
  }
  if (r->results[i]) {
    node_list_drop(r->g.node[i]->op->many->count(r->g.node[i]), r->results[i]);
    r->results[i] = NULL;
  }
}

/* ---- All of it ---- */

/* is_body: of a loop, call or checkpoint, where nobody knows what has become of dy outside. */
static bool seed(struct reverse *r, int m, struct node *const dy[], bool is_body) {
  struct weft_scope *s = weft_scope_open();
  bool ok = s ? true : failed(r, no_memory());
  for (int j = 0; ok && j < m; j++) {
    int i = r->g.target[j];
    struct failure *f = NULL;
    r->is_chosen[i] |= is_body;
    if (dy[j] && r->depends[i]) ok = accumulate(&r->cotangent[i], handle_of(dy[j]), r->g.node[i], &f) || failed(r, f);
  }
  if (s) weft_scope_discard(s);
  return ok;
}

static bool prepare(struct reverse *r, int m, struct node *const y[], int n, struct node *const x[], bool is_wall) {
  struct node **targets = node_list_new(m + n);
  if (!targets) return failed(r, no_memory());
  for (int j = 0; j < m; j++) targets[j] = y[j];
  for (int j = 0; j < n; j++) targets[m + j] = x[j];
  r->oldest = oldest_of(n, x);
  r->oldest_valued = oldest_with_value(n, x, NULL);
  bool ok = subgraph_take(&r->g, m + n, targets, is_wall ? n : 0, x, r->oldest);
  mem_free(targets);
  if (ok) {
    r->cotangent = node_list_new(r->g.n);
    r->results = mem_alloc((size_t)r->g.n * sizeof *r->results);
    r->is_asked = mem_alloc((size_t)r->g.n);
    r->depends = mem_alloc((size_t)r->g.n);
    r->is_chosen = mem_alloc((size_t)r->g.n);
    r->is_met = mem_alloc((size_t)r->g.n);
    ok = r->cotangent && r->results && r->is_asked && r->depends && r->is_chosen && r->is_met;
  }
  return ok ? true : failed(r, no_memory());
}

static void finish(struct reverse *r) {
  for (int i = 0; r->cotangent && r->results && r->is_asked && i < r->g.n; i++) {
    r->is_asked[i] = false;
    forget(r, i);
  }
  mem_free(r->cotangent);
  mem_free(r->results);
  mem_free(r->is_asked);
  mem_free(r->depends);
  mem_free(r->is_chosen);
  mem_free(r->is_met);
  mem_free(r->walk);
  subgraph_free(&r->g);
}

/* The cotangent of an x. Of a body it is taken away: two inputs of a loop or call may have become one node, and whoever asks
 * adds up what the inputs get, so that the first of them gets all of it and the other nothing. */
static struct node *result(struct reverse *r, int i, bool is_body) {
  struct node *d = r->cotangent[i];
  if (d && is_body) r->cotangent[i] = NULL;
  else if (d) node_retain(d);
  return d;
}

static bool run(struct reverse *r, int m, struct node *const dy[], int n, bool is_body, struct node *dx[]) {
  mark(r, m, n);
  if (!seed(r, m, dy, is_body)) return false;
  for (int i = r->g.n - 1; i >= 0; i--) {
    if (!visit(r, i)) return false;
    forget(r, i);
  }
  for (int j = 0; j < n; j++) dx[j] = result(r, r->g.target[m + j], is_body);
  return true;
}

bool pull(int m, struct node *const y[], struct node *const dy[], int n, struct node *const x[], bool is_wall,
          struct node *dx[], struct dropped *dropped, struct failure **failure) {
  for (int j = 0; j < n; j++) dx[j] = NULL;
  if (!n) return true;
  struct reverse r = { 0 };
  if (prepare(&r, m, y, n, x, is_wall)) run(&r, m, dy, n, is_wall, dx);
  if (r.dropped && !r.failure) {
    struct failure *why = no_history("weft_vjp", r.dropped);
    if (dropped) *dropped = (struct dropped){ r.dropped->serial, why };
    else failed(&r, why);
  }
  for (int j = 0; r.failure && j < n; j++) node_release(dx[j]), dx[j] = NULL;
  finish(&r);
  *failure = r.failure;
  return !r.failure;
}

/* ---- The public calls ---- */

static struct failure *not_seed(const char *fn, const struct node *y, const struct node *dy) {
  struct shape_text a, b;
  if (!is_differentiable(y))
    return fail(WEFT_ERR_DTYPE, scope_origin(), "%s: y is %s, and only floats can be differentiated",
                fn, weft_dtype_name(y->dtype));
  if (!shapes_meet(fn, y, dy))
    return fail(WEFT_ERR_SHAPE, scope_origin(), "%s: y is %s, dy %s", fn, shape_show(y, &a), shape_show(dy, &b));
  if (!dy->weak && !is_differentiable(dy))
    return fail(WEFT_ERR_DTYPE, scope_origin(), "%s: dy is %s", fn, weft_dtype_name(dy->dtype));
  return NULL;
}

static void give_out(const char *fn, int n, struct node *const x[], struct node *const dx[], const struct dropped *dropped,
                     weft_array *out[]) {
  for (int j = 0; j < n; j++) {
    if (!is_differentiable(x[j])) out[j] = array_failed(no_float(fn, "x", j + 1, x[j]));
    else if (x[j]->serial < dropped->serial) out[j] = array_failed(failure_retain(dropped->why));
    else out[j] = dx[j] ? array_sized_by(handle_of(dx[j]), handle_of(x[j])) : zeros_like(handle_of(x[j]));
  }
}

/* dy: references, which become those of cotangents with the sizes of y. */
static void reverse_mode(const char *fn, int m, struct node *const y[], struct node *dy[], int n, struct node *const x[],
                         weft_array *out[]) {
  struct failure *why = no_variable(fn, m, y, n, x);
  for (int j = 0; !why && j < m; j++) why = not_seed(fn, y[j], dy[j]);
  for (int j = 0; !why && j < m; j++) node_fit(&dy[j], y[j], &why);
  struct dropped dropped = { 0 };
  struct node **dx = why ? NULL : node_list_new(n);
  if (!why && !dx) why = no_memory();
  if (!why && pull(m, y, dy, n, x, false, dx, &dropped, &why)) give_out(fn, n, x, dx, &dropped, out);
  node_list_drop(n, dx);
  failure_release(dropped.why);
  if (why) all_bad(n, out, why);
}

void weft_vjp(int m, weft_array *const y[], weft_array *const dy[], int n, weft_array *const x[], weft_array *dx[]) {
  struct given g;
  if (!has_place("weft_vjp", m, n, dx)) return;
  if (given_take(&g, "weft_vjp", 3, (int[]){ m, m, n }, (weft_array *const *const[]){ y, dy, x }, n, dx)) {
    struct failure *why = transform_ready(n, g.of[2], m, g.of[0]);
    if (why) all_bad(n, dx, why);
    else reverse_mode("weft_vjp", m, g.of[0], g.of[1], n, g.of[2], dx);
  }
  given_drop(&g);
}

void weft_grad(weft_array *y, int n, weft_array *const x[], weft_array *dx[]) {
  struct given g;
  if (!has_place("weft_grad", 1, n, dx)) return;
  if (given_take(&g, "weft_grad", 2, (int[]){ 1, n }, (weft_array *const *const[]){ &y, x }, n, dx)) {
    struct node *one = array_node(array_broadcast("weft_grad", number_like(y, 1), g.of[0][0]->rank, g.of[0][0]->dims));
    struct failure *why = one->op == &op_bad ? failure_retain(one->failure) : transform_ready(n, g.of[1], 1, g.of[0]);
    if (why) all_bad(n, dx, why);
    else reverse_mode("weft_grad", 1, g.of[0], &one, n, g.of[1], dx);
    node_release(one);
  }
  given_drop(&g);
}
