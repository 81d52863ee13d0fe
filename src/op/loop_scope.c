/* loop_scope.c -- the public calls that write a loop: a scope with variables, closed into a loop node.
 *
 * Results are promised before they exist: weft_loop_all and weft_loop_last return handles of the scope outside that name
 * a placeholder, and weft_loop_close gives them their nodes. The first error makes all of them bad. */
#include "base/mem.h"
#include "base/spare.h"
#include "graph/caller.h"
#include "graph/dtype.h"
#include "graph/shape.h"
#include "graph/subgraph.h"
#include "op/loop.h"
#include "op/said.h"

struct each { struct node *xs, *var; };
struct carry { struct node *init, *var, *next; };
/* body: of weft_loop_all, or of weft_loop_tail, for the last steps (0: all); NULL: the last of carry */
struct promise { weft_array *handle; struct node *body; int carry; int64_t tail; };

struct weft_loop {
  void *next_spare;
  struct weft_scope *scope;  /* NULL: it has been closed or discarded */
  struct node *steps;        /* NULL: not given */
  struct node *until;
  bool recomputes;           /* the gradient keeps carries */
  int64_t every;             /* .. before so many steps; 0: the square root of all */
  int64_t truncate;          /* the gradient goes back so many steps; 0: all */
  struct failure *failure;   /* the first */
  int n_each, n_carry, n_promises;
  struct each *each;
  struct carry *carry;
  struct promise *promise;
};

/* ---- Errors ---- */

static struct spare spares;

static void blame(struct weft_loop *l, struct failure *f) {
  if (l && l->scope && !l->failure) l->failure = failure_retain(f);
}

static weft_array *bad(struct weft_loop *l, struct failure *f) {
  blame(l, f);
  return array_failed(f);
}

/* A failure of a call that returns nothing: the loop and its scope remember it. */
static void refuse(struct weft_loop *l, struct failure *f) {
  blame(l, f);
  scope_blame(f);
}

static struct failure *not_open(const struct weft_loop *l, const char *fn) {
  if (!l) return fail(WEFT_ERR_ARG, scope_origin(), "%s: the loop is NULL", fn);
  return l->scope ? NULL : fail(WEFT_ERR_SCOPE, scope_origin(), "%s: the loop has been closed", fn);
}

/* A use of an array by the loop: its node with a reference. NULL: it is bad, and the loop is too. */
static struct node *used(struct weft_loop *l, const char *fn, weft_array *a) {
  struct failure *f = not_open(l, fn);
  if (!f) f = array_failure(fn, 0, a);
  if (!f) return array_node(a);
  refuse(l, f);
  return NULL;
}

/* Why nothing could be used; with a reference. */
static struct failure *cause(struct weft_loop *l, const char *fn) {
  return l && l->failure ? failure_retain(l->failure) : not_open(l, fn);
}

static struct failure *no_memory(const char *fn) { return fail(WEFT_ERR_MEMORY, scope_origin(), "%s: out of memory", fn); }

/* ---- Lists ---- */

static void *grown(void *list, int n, size_t bytes) { return mem_resize(list, (size_t)(n + 1) * bytes); }

static bool add_each(struct weft_loop *l, struct node *xs, struct node *var) {
  struct each *list = var ? grown(l->each, l->n_each, sizeof *list) : NULL;
  if (!list) return false;
  l->each = list;
  list[l->n_each++] = (struct each){ node_retain(xs), node_retain(var) };
  return true;
}

static bool add_carry(struct weft_loop *l, struct node *init, struct node *var) {
  struct carry *list = var ? grown(l->carry, l->n_carry, sizeof *list) : NULL;
  if (!list) return false;
  l->carry = list;
  list[l->n_carry++] = (struct carry){ node_retain(init), node_retain(var), NULL };
  return true;
}

static bool add_promise(struct weft_loop *l, struct promise p) {
  struct promise *list = grown(l->promise, l->n_promises, sizeof *list);
  if (!list) return false;
  l->promise = list;
  list[l->n_promises++] = p;
  return true;
}

static void loop_free(struct weft_loop *l) {
  for (int i = 0; i < l->n_each; i++) node_release(l->each[i].xs), node_release(l->each[i].var);
  for (int i = 0; i < l->n_carry; i++)
    node_release(l->carry[i].init), node_release(l->carry[i].var), node_release(l->carry[i].next);
  for (int i = 0; i < l->n_promises; i++) node_release(l->promise[i].body), weft_disown(l->promise[i].handle);
  node_release(l->steps);
  node_release(l->until);
  failure_release(l->failure);
  mem_free(l->each);
  mem_free(l->carry);
  mem_free(l->promise);
  spare_give(&spares, l, sizeof *l);
}

static void discard(void *l) { loop_free(l); }
static const struct construct construct = { "loop", "weft_loop_all, weft_loop_tail, weft_loop_last", discard };

/* ---- Opening, variables ---- */

static void set_steps(struct weft_loop *l, weft_array *steps) {
  struct node *n = used(l, "weft_loop_open", steps);
  if (!n) return;
  struct shape_text t;
  if (n->rank || !dtype_is_integer(n->dtype))
    refuse(l, fail(WEFT_ERR_ARG, scope_origin(), "weft_loop_open: steps is %s %s, not an integer", weft_dtype_name(n->dtype),
                   shape_show(n, &t)));
  l->steps = n;
}

weft_loop *weft_loop_open(weft_array *steps) {
  struct weft_loop *l = spare_take(&spares, sizeof *l);
  struct weft_scope *s = l ? scope_open_body(&construct, l) : NULL;
  if (!s) {
    if (l) spare_give(&spares, l, sizeof *l);
    report(WEFT_ERR_MEMORY, "weft_loop_open: out of memory");
    return NULL;
  }
  l->scope = s;
  if (steps) set_steps(l, steps);
  return l;
}

weft_array *weft_loop_each(weft_loop *l, weft_array *xs) {
  struct node *n = used(l, "weft_loop_each", xs);
  if (!n) return array_failed(cause(l, "weft_loop_each"));
  weft_array *out = NULL;
  if (!n->rank) out = bad(l, fail(WEFT_ERR_SHAPE, scope_origin(), "weft_loop_each: a 0-d array has no elements to go through"));
  struct node *var = out ? NULL : loop_var(n->dtype, n->rank - 1, n->dims + 1);
  if (!out && !add_each(l, n, var)) out = bad(l, no_memory("weft_loop_each"));
  if (!out) out = array_of(node_retain(var));
  node_release(var);
  node_release(n);
  return out;
}

/* A number without dtype of its own starts a carry of the dtype it has alone. */
static struct node *strong(struct node *n) {
  if (!n->weak) return n;
  return array_node(weft_cast(array_of(n), n->dtype));
}

/* What a variable of the loop is a row of (*rows: 1), or begins with (0). NULL: it is none of its variables. */
static struct node *outside(const struct weft_loop *l, const struct node *var, int *rows) {
  *rows = 1;
  for (int i = 0; i < l->n_each; i++) if (l->each[i].var == var) return l->each[i].xs;
  *rows = 0;
  for (int i = 0; i < l->n_carry; i++) if (l->carry[i].var == var) return l->carry[i].init;
  return NULL;
}

/* Sizes that an initial carry asks of variables of its loop are asked of what is outside: it is computed before the loop. Takes
 * over the reference, gives one. NULL: *why, or there is no memory. */
static struct node *initial(const struct weft_loop *l, struct node *n, struct failure **why) {
  uint64_t first = l->n_each ? l->each[0].var->serial : l->n_carry ? l->carry[0].var->serial : UINT64_MAX;
  if (n->serial < first) return n;
  struct subgraph g;
  struct node *now = NULL, *xs;
  int n_sizes = 0, rows;
  if (!subgraph_take(&g, 1, &n, 0, NULL, first)) return node_release(n), NULL;
  struct node **from = mem_alloc((size_t)(2 * g.n + 1) * sizeof *from), **to = from ? from + g.n : NULL;
  bool ok = from;
  for (int i = 0; ok && i < g.n; i++) {
    const struct size_attr *a = g.node[i]->attr;
    if (g.node[i]->op != &op_size || g.is_end[i] || !(xs = outside(l, g.node[i]->in[0], &rows)) || (rows && a->axis < 0)) continue;
    from[n_sizes] = g.node[i];
    ok = (to[n_sizes] = node_size(node_retain(xs), (int)a->axis + rows, a->size));
    n_sizes += ok;
  }
  if (ok) graph_substitute(n_sizes, from, to, 1, &n, &now, why);
  nodes_release(n_sizes, to);
  mem_free(from);
  subgraph_free(&g);
  node_release(n);
  return now;
}

weft_array *weft_loop_carry(weft_loop *l, weft_array *init) {
  struct node *n = used(l, "weft_loop_carry", init);
  struct failure *why = NULL;
  if (!n) return array_failed(cause(l, "weft_loop_carry"));
  n = initial(l, strong(n), &why);
  if (!n) return bad(l, why ? why : no_memory("weft_loop_carry"));
  struct node *var = loop_var(n->dtype, n->rank, n->dims);
  weft_array *out = add_carry(l, n, var) ? array_of(node_retain(var)) : bad(l, no_memory("weft_loop_carry"));
  node_release(var);
  node_release(n);
  return out;
}

static int carry_index(const struct weft_loop *l, const struct node *var) {
  for (int i = 0; i < l->n_carry; i++)
    if (l->carry[i].var == var) return i;
  return -1;
}

static struct failure *not_next(const struct node *carry, const struct node *value, int k) {
  struct shape_text a, b;
  if (k < 0) return fail(WEFT_ERR_ARG, scope_origin(), "weft_loop_next: the first array is not a carry of this loop");
  if (carry->dtype != value->dtype && !value->weak)
    return fail(WEFT_ERR_DTYPE, scope_origin(), "weft_loop_next: the carry is %s, the value %s", weft_dtype_name(carry->dtype),
                weft_dtype_name(value->dtype));
  if (!shapes_meet("weft_loop_next", carry, value))
    return fail(WEFT_ERR_SHAPE, scope_origin(), "weft_loop_next: the carry is %s, the value %s", shape_show(carry, &a),
                shape_show(value, &b));
  return NULL;
}

void weft_loop_next(weft_loop *l, weft_array *carry, weft_array *value) {
  struct node *c = used(l, "weft_loop_next", carry), *v = c ? used(l, "weft_loop_next", value) : NULL;
  if (v) {
    int k = carry_index(l, c);
    struct failure *f = not_next(c, v, k);
    if (f) refuse(l, f);
    else {
      if (v->weak) v = array_node(weft_cast(array_of(v), c->dtype));
      v = array_node(array_of(node_agree(v, -1, c->dims)));
      node_release(l->carry[k].next);
      l->carry[k].next = node_retain(v);
    }
  }
  node_release(c);
  node_release(v);
}

void weft_loop_until(weft_loop *l, weft_array *stop) {
  struct node *n = used(l, "weft_loop_until", stop);
  if (!n) return;
  struct shape_text t;
  if (n->rank || n->dtype != WEFT_BOOL) {
    refuse(l, fail(WEFT_ERR_ARG, scope_origin(), "weft_loop_until: %s %s is not a 0-d bool", weft_dtype_name(n->dtype),
                   shape_show(n, &t)));
  } else {
    node_release(l->until);
    l->until = node_retain(n);
  }
  node_release(n);
}

void weft_loop_recompute(weft_loop *l, int64_t every) {
  struct failure *f = not_open(l, "weft_loop_recompute");
  if (!f && every < 0) f = fail(WEFT_ERR_ARG, scope_origin(), "weft_loop_recompute: every %lld steps", (long long)every);
  if (f) return refuse(l, f);
  l->recomputes = true;
  l->every = every;
}

void weft_loop_truncate(weft_loop *l, int64_t steps) {
  struct failure *f = not_open(l, "weft_loop_truncate");
  if (!f && steps < 1) f = fail(WEFT_ERR_ARG, scope_origin(), "weft_loop_truncate: %lld steps", (long long)steps);
  if (f) return refuse(l, f);
  l->truncate = steps;
}

/* ---- Promises ---- */

/* Results belong to the scope outside, bad ones too. Makes it the current one; returns the one that was. */
static struct weft_scope *step_outside(const struct weft_loop *l) {
  struct weft_scope *here = caller()->current;
  if (l && l->scope) caller()->current = l->scope->outside;
  return here;
}

static weft_array *outside_handle(struct weft_loop *l, struct node *n) {
  struct weft_scope *here = step_outside(l);
  weft_array *a = array_of(n);
  caller()->current = here;
  return a;
}

static weft_array *bad_result(struct weft_loop *l, struct failure *f) {
  blame(l, f);
  struct weft_scope *here = step_outside(l);
  weft_array *a = array_failed(f);
  caller()->current = here;
  return a;
}

static weft_array *promise(struct weft_loop *l, const char *fn, struct node *body, int carry, int64_t tail) {
  struct node *placeholder = loop_var(WEFT_BOOL, 0, NULL);
  weft_array *a = placeholder ? outside_handle(l, placeholder) : bad_result(l, no_memory(fn));
  if (a->node->op == &op_bad) return a;
  if (!add_promise(l, (struct promise){ a, body, carry, tail })) return bad_result(l, no_memory(fn));
  if (body) node_retain(body);
  return weft_own(a);
}

static weft_array *stacked(weft_loop *l, const char *fn, weft_array *y, int64_t tail) {
  struct node *n = used(l, fn, y);
  if (!n) return bad_result(l, cause(l, fn));
  n = strong(n);
  weft_array *a = promise(l, fn, n, -1, tail);
  node_release(n);
  return a;
}

weft_array *weft_loop_all(weft_loop *l, weft_array *y) { return stacked(l, "weft_loop_all", y, 0); }

weft_array *weft_loop_tail(weft_loop *l, weft_array *y, int64_t k) {
  struct failure *f = not_open(l, "weft_loop_tail");
  if (!f && k < 1) f = fail(WEFT_ERR_ARG, scope_origin(), "weft_loop_tail: the last %lld steps", (long long)k);
  return f ? bad_result(l, f) : stacked(l, "weft_loop_tail", y, k);
}

weft_array *weft_loop_last(weft_loop *l, weft_array *carry) {
  struct node *n = used(l, "weft_loop_last", carry);
  if (!n) return bad_result(l, cause(l, "weft_loop_last"));
  int k = carry_index(l, n);
  node_release(n);
  if (k < 0) return bad_result(l, fail(WEFT_ERR_ARG, scope_origin(), "weft_loop_last: the array is not a carry of this loop"));
  return promise(l, "weft_loop_last", NULL, k, 0);
}

/* ---- How many steps ---- */

struct step_bound { struct node *steps; dim n; bool owns; }; /* steps: borrowed, or NULL if n says it all */

static int64_t scalar_integer(const struct node *n) {
  uint64_t bits = ((const struct scalar_attr *)n->attr)->bits;
  return n->weak ? (int64_t)bits : (int64_t)dtype_decode(n->dtype, bits);
}

/* What the user says: a number, arithmetic of sizes, or an integer that only the run tells. The integer itself is left out where
 * the first sequence waits for the same sizes. */
static struct failure *bound_of(const struct weft_loop *l, struct step_bound *b) {
  struct node *steps = l->steps;
  dim n = dim_said(steps);
  int64_t number = 0;
  bool is_number = dim_is_integer(n, &number);
  if (!is_number && steps->op == &op_scalar) is_number = true, number = scalar_integer(steps);
  if (is_number) *b = (struct step_bound){ NULL, number, false };
  else if (n == DIM_BAD) *b = (struct step_bound){ steps, dim_symbol(), true };
  else {
    bool is_told = l->n_each && dim_mentions_only(n, 1, l->each[0].xs->dims);
    *b = (struct step_bound){ is_told ? NULL : steps, n, false };
  }
  bool is_below = is_number ? number < 0 : n != DIM_BAD && !size_meets("weft_loop_open", WEFT_ERR_ARG, n);
  return is_below ? fail(WEFT_ERR_ARG, scope_origin(), "weft_loop_open: %lld steps", (long long)number) : NULL;
}

/* The shortest sequence; where sizes are not known, the smallest of them when it runs. */
static struct step_bound shortest(struct weft_loop *l) {
  struct step_bound b = { NULL, l->each[0].xs->dims[0], false };
  bool is_known = true, is_same = true;
  for (int i = 0; i < l->n_each; i++) {
    dim d = l->each[i].xs->dims[0];
    is_known &= dim_is_known(d);
    is_same &= d == l->each[0].xs->dims[0];
    if (is_known && d < b.n) b.n = d;
  }
  if (is_known || is_same) return b;
  weft_array *least = NULL;
  dim n = b.n;
  for (int i = 0; i < l->n_each; i++) {
    weft_array *size = weft_size(array_of(node_retain(l->each[i].xs)), 0);
    least = least ? weft_minimum(least, size) : size;
    n = n == DIM_BAD ? n : dim_min(n, l->each[i].xs->dims[0]);
  }
  l->steps = array_node(least);
  return n == DIM_BAD ? (struct step_bound){ l->steps, dim_symbol(), true } : (struct step_bound){ l->steps, n, false };
}

static struct failure *find_bound(struct weft_loop *l, struct step_bound *b) {
  struct failure *why = NULL;
  if (l->steps) why = bound_of(l, b);
  else if (l->n_each) *b = shortest(l);
  else if (l->until) *b = (struct step_bound){ NULL, INT64_MAX, false };
  else why = fail(WEFT_ERR_ARG, scope_origin(), "weft_loop_close: nothing ends the loop: no steps, no sequence, no until");
  if (why) return why;
  for (int i = 0; b->n == INT64_MAX && i < l->n_promises; i++)
    if (l->promise[i].body && !l->promise[i].tail)
      return fail(WEFT_ERR_ARG, scope_origin(), "weft_loop_all: needs a bound: steps or a sequence");
  return NULL;
}

/* xs with n rows: a node with a reference. */
static struct node *cut(struct node *xs, dim n, struct failure **failure) {
  if (dim_is_known(xs->dims[0]) && dim_is_known(n) && xs->dims[0] < n) {
    *failure = fail(WEFT_ERR_SHAPE, scope_origin(), "weft_loop_each: the sequence has %lld rows, the loop %lld steps",
                    (long long)xs->dims[0], (long long)n);
    return NULL;
  }
  struct node *part = loop_cut(xs, n);
  if (!part) *failure = no_memory("weft_loop_each");
  return part;
}

/* ---- Closing ---- */

static void gather(const struct weft_loop *l, struct loop_parts *p, struct node **at) {
  p->n_seq = l->n_each;
  p->n_carry = l->n_carry;
  p->seq_var = at;
  for (int i = 0; i < l->n_each; i++) *at++ = l->each[i].var;
  p->init = at;
  for (int i = 0; i < l->n_carry; i++) *at++ = l->carry[i].init;
  p->carry_var = at;
  for (int i = 0; i < l->n_carry; i++) *at++ = l->carry[i].var;
  p->next = at;
  for (int i = 0; i < l->n_carry; i++) *at++ = l->carry[i].next ? l->carry[i].next : l->carry[i].var;
  p->all = at;
  for (int i = 0; i < l->n_promises; i++)
    if (l->promise[i].body) *at++ = l->promise[i].body;
  p->n_all = (int)(at - p->all);
}

static bool has_tails(const struct weft_loop *l) {
  for (int i = 0; i < l->n_promises; i++)
    if (l->promise[i].tail) return true;
  return false;
}

/* Steps between carries that the gradient keeps; 0: it keeps them all. */
static struct failure *find_segment(const struct weft_loop *l, const struct loop_parts *p, int64_t *k) {
  *k = 0;
  if (!l->recomputes) return NULL;
  if (l->truncate)
    return fail(WEFT_ERR_ARG, scope_origin(), "weft_loop_recompute: a loop that is truncated keeps few steps as it is");
  bool is_late = l->until || !dim_is_known(p->n_steps);
  if (is_late && (!l->every || has_tails(l)))
    return fail(WEFT_ERR_UNSUPPORTED, scope_origin(), l->every ?
                "weft_loop_recompute: with weft_loop_tail the number of steps must be known when the loop is closed" :
                "weft_loop_recompute: before how many steps carries are kept must be given where their number is not known");
  if (is_late) return *k = l->every, NULL;
  for (*k = l->every; !*k || (!l->every && *k * *k < p->n_steps);) ++*k;
  if (*k >= p->n_steps) *k = 0;
  return NULL;
}

static bool make_loop(const struct loop_parts *p, struct node *out[], struct failure **failure) {
  struct node *loop = loop_make(p, failure);
  bool ok = loop && loop_items(loop, p->n_all, p->n_carry, out);
  if (loop && !ok) *failure = no_memory("weft_loop_close");
  node_release(loop);
  return ok;
}

/* How many steps the run will make, as an array with a reference. */
static struct node *count_of(const struct weft_loop *l) {
  return l->steps ? node_retain(l->steps) : array_good_node(weft_size(array_of(node_retain(l->each[0].xs)), 0));
}

/* Outputs of the last steps only. Where the number of steps comes with the run, sequences are cut stretch by stretch. */
static bool make_tails(struct weft_loop *l, struct loop_parts *p, int64_t every, struct node *out[], struct failure **failure) {
  int64_t *tail = mem_alloc((size_t)(p->n_all + 1) * sizeof *tail);
  bool is_known = dim_is_known(p->n_steps) || l->until;
  struct node *count = NULL;
  bool ok = tail;
  for (int i = 0, at = 0; ok && i < l->n_promises; i++)
    if (l->promise[i].body) tail[at++] = l->promise[i].tail;
  if (ok && !is_known) ok = (count = count_of(l));
  if (ok) ok = loop_in_stretches(p, tail, every, count, out, failure);
  else *failure = no_memory("weft_loop_close");
  node_release(count);
  mem_free(tail);
  return ok;
}

/* Likewise, segment by segment. A loop that until ends is run once for the number of steps alone. */
static bool make_segments(struct weft_loop *l, struct loop_parts *p, int64_t k, struct node *out[], struct failure **failure) {
  struct node *count = l->until ? loop_count_until(p, failure) : count_of(l);
  p->until = NULL;
  bool ok = count && loop_in_segments(p, k, count, out, failure);
  if (!count && !*failure) *failure = no_memory("weft_loop_close");
  node_release(count);
  return ok;
}

/* seq: room for the sequences cut to length. */
static bool make(struct weft_loop *l, struct node **seq, struct node **lists, struct node *out[], struct failure **failure) {
  struct step_bound b = { 0 };
  int64_t k;
  if ((*failure = find_bound(l, &b))) return false;
  bool cuts_later = !dim_is_known(b.n) && !l->until && (has_tails(l) || l->recomputes);
  for (int i = 0; i < l->n_each; i++)
    if (!(seq[i] = cuts_later ? node_retain(l->each[i].xs) : cut(l->each[i].xs, b.n, failure))) return false;
  struct loop_parts p = { .steps = b.steps, .n_steps = b.n, .owns_steps = b.owns, .until = l->until, .seq = seq,
                          .truncate = l->truncate };
  gather(l, &p, lists);
  if ((*failure = find_segment(l, &p, &k))) return false;
  if (has_tails(l) && (l->until || cuts_later)) return make_tails(l, &p, k, out, failure);
  if (cuts_later || (k && l->until)) return make_segments(l, &p, k, out, failure);
  struct hoist h;
  bool ok = loop_hoist(&p, &h, failure);
  if (ok && has_tails(l)) ok = make_tails(l, &h.parts, k, out, failure);
  else if (ok) ok = k ? loop_in_segments(&h.parts, k, NULL, out, failure) : make_loop(&h.parts, out, failure);
  hoist_free(&h);
  return ok;
}

static bool build(struct weft_loop *l, struct node *out[], struct failure **failure) {
  int n_lists = l->n_each + 3 * l->n_carry + l->n_promises + 1;
  struct node **seq = mem_alloc((size_t)(l->n_each + 1) * sizeof *seq);
  struct node **lists = mem_alloc((size_t)n_lists * sizeof *lists);
  bool ok = seq && lists;
  if (ok) ok = make(l, seq, lists, out, failure);
  else *failure = no_memory("weft_loop_close");
  if (seq) nodes_release(l->n_each, seq);
  mem_free(seq);
  mem_free(lists);
  return ok;
}

static int n_stacked(const struct weft_loop *l) {
  int n = 0;
  for (int i = 0; i < l->n_promises; i++) n += l->promise[i].body != NULL;
  return n;
}

/* What says how many steps there are may have done so on trust, and need not be an input of the loop. Takes over the reference. */
static struct node *beside_bounds(const struct weft_loop *l, struct node *item) {
  bool is_trusting = l->steps && node_is_trusting(l->steps);
  for (int i = 0; i < l->n_each; i++) is_trusting |= node_is_trusting(l->each[i].xs);
  if (!is_trusting) return item;
  weft_array *y = array_of(item);
  if (l->steps) y = array_said_by(y, array_of(node_retain(l->steps)));
  for (int i = 0; i < l->n_each; i++)
    if (node_is_trusting(l->each[i].xs)) y = array_said_by(y, weft_size(array_of(node_retain(l->each[i].xs)), 0));
  return array_node(y);
}

/* In the scope outside, where the loop's own has ended. */
static void fulfil(struct weft_loop *l, struct node *const out[]) {
  int n_all = n_stacked(l), at = 0;
  for (int i = 0; i < l->n_promises; i++) {
    struct promise *p = &l->promise[i];
    struct node *item = l->failure ? NULL : out[p->body ? at++ : n_all + p->carry];
    item = item ? beside_bounds(l, node_retain(item)) : array_node(array_failed(failure_retain(l->failure)));
    node_release(array_swap(p->handle, item));
  }
}

void weft_loop_close(weft_loop *l) {
  struct failure *ended = not_open(l, "weft_loop_close");
  if (ended) return scope_blame(ended);
  if (scope_check("weft_loop_close", l->scope) != WEFT_OK) return;
  int n = n_stacked(l) + l->n_carry;
  struct node **out = mem_alloc((size_t)(n + 1) * sizeof *out);
  if (!out && !l->failure) l->failure = no_memory("weft_loop_close");
  if (!l->failure) build(l, out, &l->failure);
  for (int i = 0; i < n && !l->failure; i++) l->failure = node_torn(out[i], "weft_loop_close");
  l->scope->construct = NULL;
  scope_end(l->scope);
  if (l->failure) scope_blame(failure_retain(l->failure));
  fulfil(l, out);
  for (int i = 0; out && i < n; i++) node_release(out[i]);
  mem_free(out);
  loop_free(l);
}
