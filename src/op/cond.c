/* cond.c -- choices: p ? a : b, where only the side that is chosen is computed.
 *
 * A choice is a scope: what is made inside it is computed if the chosen side needs it, what was there before is computed
 * in any case if either side needs it. Inside it is two loops, of as many steps as p says, 0 or 1:
 *   y = 0;  p times: y = a;  !p times: y = b
 * so that derivatives, maps and the way it is run are those of loops. Results are promised as those of loops are. */
#include "base/mem.h"
#include "base/spare.h"
#include "graph/caller.h"
#include "graph/dtype.h"
#include "graph/shape.h"
#include "op/loop.h"
#include "op/operand.h"

struct weft_cond {
  void *next_spare;
  struct weft_scope *scope;  /* NULL: it has been closed or discarded */
  struct node *p;            /* NULL: it was no condition */
  struct failure *failure;   /* the first */
  int n;
  struct side *side;
  weft_array **promise;      /* by side; owned */
};

static struct spare spares;

/* ---- Errors ---- */

static struct failure *no_memory(const char *fn) { return fail(WEFT_ERR_MEMORY, scope_origin(), "%s: out of memory", fn); }

static struct failure *not_open(const struct weft_cond *c, const char *fn) {
  if (!c) return fail(WEFT_ERR_ARG, scope_origin(), "%s: the choice is NULL", fn);
  return c->scope ? NULL : fail(WEFT_ERR_SCOPE, scope_origin(), "%s: the choice has been closed", fn);
}

static void blame(struct weft_cond *c, struct failure *f) {
  if (c && c->scope && !c->failure) c->failure = failure_retain(f);
}

static void cond_free(struct weft_cond *c) {
  for (int i = 0; i < c->n; i++) node_release(c->side[i].a), node_release(c->side[i].b), weft_disown(c->promise[i]);
  node_release(c->p);
  failure_release(c->failure);
  mem_free(c->side);
  mem_free(c->promise);
  spare_give(&spares, c, sizeof *c);
}

static void discard(void *c) { cond_free(c); }
static const struct construct construct = { "choice", "weft_cond_value", discard };

/* ---- Opening, results ---- */

static struct failure *take_condition(struct weft_cond *c, weft_array *p) {
  struct failure *f = array_failure("weft_cond_open", 0, p);
  if (f) return f;
  struct shape_text t;
  c->p = array_node(p);
  if (!c->p->rank && c->p->dtype == WEFT_BOOL) return NULL;
  return fail(WEFT_ERR_ARG, scope_origin(), "weft_cond_open: %s %s is not a 0-d bool", weft_dtype_name(c->p->dtype),
              shape_show(c->p, &t));
}

weft_cond *weft_cond_open(weft_array *p) {
  struct weft_cond *c = spare_take(&spares, sizeof *c);
  struct weft_scope *s = c ? scope_open_body(&construct, c) : NULL;
  if (!s) {
    if (c) spare_give(&spares, c, sizeof *c);
    report(WEFT_ERR_MEMORY, "weft_cond_open: out of memory");
    return NULL;
  }
  c->scope = s;
  struct failure *f = take_condition(c, p);
  if (f) c->failure = f, scope_blame(failure_retain(f));
  return c;
}

/* Sizes that are not known yet are taken to be equal. */
static struct failure *fit(struct node *n[2]) {
  struct node *a = n[0], *b = n[1];
  struct shape_text s, t;
  dim d[WEFT_RANK_MAX];
  if (a->dtype != b->dtype)
    return fail(WEFT_ERR_DTYPE, scope_origin(), "weft_cond_value: %s or %s", weft_dtype_name(a->dtype), weft_dtype_name(b->dtype));
  if (!dims_meet("weft_cond_value", 2, n, -1, d))
    return fail(WEFT_ERR_SHAPE, scope_origin(), "weft_cond_value: %s or %s", shape_show(a, &s), shape_show(b, &t));
  for (int k = 0; k < 2; k++)
    if (!(n[k] = node_agree(n[k], -1, d))) return no_memory("weft_cond_value");
  return NULL;
}

/* Both sides in one dtype: numbers take that of the other one. */
static struct failure *take_sides(weft_array *a, weft_array *b, struct side *out) {
  struct failure *f = array_failure("weft_cond_value", 1, a);
  if (!f) f = array_failure("weft_cond_value", 2, b);
  if (f) return f;
  struct node *n[2] = { array_node(a), array_node(b) };
  weft_dtype d = WEFT_BOOL;
  if (n[0]->weak || n[1]->weak) f = common_dtype("weft_cond_value", 2, n, &d);
  for (int k = 0; !f && k < 2; k++)
    if (n[k]->weak && !(n[k] = node_cast(n[k], d))) f = no_memory("weft_cond_value");
  if (!f) f = fit(n);
  if (f) {
    for (int k = 0; k < 2; k++) node_release(n[k]);
    return f;
  }
  *out = (struct side){ n[0], n[1] };
  return NULL;
}

static bool add(struct weft_cond *c, struct side s, weft_array *promise) {
  struct side *sides = mem_resize(c->side, (size_t)(c->n + 1) * sizeof *sides);
  if (sides) c->side = sides;
  weft_array **promises = sides ? mem_resize(c->promise, (size_t)(c->n + 1) * sizeof *promises) : NULL;
  if (!promises) return false;
  c->promise = promises;
  c->side[c->n] = s;
  c->promise[c->n++] = weft_own(promise);
  return true;
}

/* A handle of the scope outside for a placeholder, or a bad one. */
static weft_array *outside(const struct weft_cond *c, struct failure *f) {
  struct weft_scope *here = caller()->current;
  if (c && c->scope) caller()->current = c->scope->outside;
  weft_array *a = f ? array_failed(f) : array_of(loop_var(WEFT_BOOL, 0, NULL));
  caller()->current = here;
  return a;
}

weft_array *weft_cond_value(weft_cond *c, weft_array *a, weft_array *b) {
  struct side s = { 0 };
  struct failure *f = not_open(c, "weft_cond_value");
  if (!f) f = take_sides(a, b, &s);
  weft_array *y = f ? NULL : outside(c, NULL);
  if (y && y->node->op != &op_bad && add(c, s, y)) return y;
  if (!f) f = no_memory("weft_cond_value");
  blame(c, f);
  node_release(s.a);
  node_release(s.b);
  return outside(c, f);
}

/* ---- Closing ---- */

struct branch {
  struct node **init, **var, **next, *steps;
  int n;
};

static struct node *steps_if(struct node *p, bool is) {
  weft_array *a = array_of(node_retain(p));
  return array_node(weft_cast(is ? a : weft_not(a), WEFT_I64));
}

static struct node *branch_make(const struct choice *c, const struct branch *b, bool is_second, struct failure **failure) {
  struct loop_parts p = { .steps = b->steps, .n_steps = dim_symbol(), .owns_steps = true, .n_carry = b->n, .init = b->init,
                          .carry_var = b->var, .next = b->next, .since = c->since, .n_own = c->n_own[is_second],
                          .own = c->own[is_second] };
  return loop_make(&p, failure);
}

/* The loop of one side. before: the loop of the other one; NULL: this is the first. */
static struct node *branch(const struct choice *c, struct node *before, struct failure **failure) {
  struct branch b = { .n = c->n, .steps = steps_if(c->p, !before) };
  b.init = mem_alloc((size_t)(3 * c->n + 1) * sizeof *b.init);
  bool ok = b.init;
  b.var = ok ? b.init + c->n : NULL;
  b.next = ok ? b.var + c->n : NULL;
  for (int i = 0; ok && i < c->n; i++) {
    struct node *like = c->side[i].a;
    b.init[i] = before ? item_make(before, loop_out_last(loop_of(before), i)) : array_node(zeros_of(like));
    b.var[i] = loop_var(like->dtype, like->rank, like->dims);
    b.next[i] = before ? c->side[i].b : like;
    ok = b.init[i] && b.var[i];
  }
  struct node *loop = ok ? branch_make(c, &b, before, failure) : NULL;
  if (!ok) *failure = no_memory("weft_cond_close");
  for (int i = 0; b.init && i < 2 * c->n; i++) node_release(b.init[i]);
  node_release(b.steps);
  mem_free(b.init);
  return loop;
}

struct node *choice_make(const struct choice *c, struct failure **failure) {
  struct node *first = branch(c, NULL, failure), *second = first ? branch(c, first, failure) : NULL;
  node_release(first);
  return second;
}

/* In the scope outside, where the choice's own has ended. */
static void fulfil(const struct weft_cond *c, struct node *loop) {
  for (int i = 0; i < c->n; i++) {
    struct node *y = c->failure ? NULL : item_make(loop, loop_out_last(loop_of(loop), i));
    if (!y) y = array_node(array_failed(c->failure ? failure_retain(c->failure) : no_memory("weft_cond_close")));
    node_release(array_swap(c->promise[i], y));
  }
}

void weft_cond_close(weft_cond *c) {
  struct failure *ended = not_open(c, "weft_cond_close");
  if (ended) return scope_blame(ended);
  if (scope_check("weft_cond_close", c->scope) != WEFT_OK) return;
  struct choice what = { .p = c->p, .n = c->n, .side = c->side, .since = c->scope->born + 1 };
  struct node *loop = c->failure || !c->n ? NULL : choice_make(&what, &c->failure);
  if (loop && !c->failure) c->failure = node_torn(loop, "weft_cond_close");
  c->scope->construct = NULL;
  scope_end(c->scope);
  if (c->failure) scope_blame(failure_retain(c->failure));
  fulfil(c, loop);
  node_release(loop);
  cond_free(c);
}
