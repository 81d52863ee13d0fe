/* jvp.c -- forward mode: tangents flow from x up to y, each node visited once, after its operands. An x that depends on
 * another one is a variable of its own here: its tangent is the one given. */
#include "base/mem.h"
#include "graph/shape.h"
#include "op/operand.h"
#include "transform/images.h"

/* The operand that tells a size may be one without a tangent. */
static bool wait(struct images *f, int i) {
  struct failure *why = NULL;
  if (!f->image[i] || node_is_known(f->image[i])) return true;
  struct node *t = result_of(array_sized_by(array_of(f->image[i]), handle_of(f->g.node[i])), &why);
  f->image[i] = t;
  return t ? true : images_fail(f, why);
}

static bool apply_at_once(struct images *f, int i, struct applied *a) {
  weft_array **dx = mem_alloc((size_t)a->n_in * sizeof *dx);
  struct failure *why = NULL;
  if (!dx) return images_fail(f, no_memory());
  for (int k = 0; k < a->n_in; k++) {
    struct node *t = f->image[images_operand(f, i, k)];
    dx[k] = t ? handle_of(t) : NULL;
  }
  bool ok = accumulate(&f->image[i], f->g.node[i]->op->push(&a->rule, dx), f->g.node[i], &why) || images_fail(f, why);
  mem_free(dx);
  return ok;
}

static bool apply_one(struct images *f, int i, struct applied *a) {
  const struct op *op = f->g.node[i]->op;
  bool has_all = true;
  a->rule.out = handle_of(f->g.node[i]);
  if (op->push) return apply_at_once(f, i, a);
  for (int k = 0; k < a->n_in; k++) {
    struct node *t = f->image[images_operand(f, i, k)];
    has_all &= t != NULL;
    if (!t) continue;
    weft_array *dx = handle_of(t);
    weft_array *d = op->jvp ? op->jvp(&a->rule, k, dx) : op->partial ? times(dx, op->partial(&a->rule, k)) : NULL;
    struct failure *why = NULL;
    if (!accumulate(&f->image[i], d, f->g.node[i], &why)) return images_fail(f, why);
    has_all &= d != NULL;
  }
  return has_all || wait(f, i);
}

static bool keep_results(struct images *f, int i, int n_out, weft_array *const dy[]) {
  f->results[i] = node_list_new(n_out);
  if (!f->results[i]) return images_fail(f, no_memory());
  for (int k = 0; k < n_out; k++) {
    struct failure *why = NULL;
    if (dy[k] && !(f->results[i][k] = result_of(dy[k], &why))) return images_fail(f, why);
  }
  return true;
}

static bool apply_many(struct images *f, int i, struct applied *a) {
  const struct many *many = f->g.node[i]->op->many;
  int n_out = many->count(f->g.node[i]);
  weft_array **dy = mem_alloc((size_t)(n_out + a->n_in + 1) * sizeof *dy), **dx = dy ? dy + n_out : NULL;
  if (!dy) return images_fail(f, no_memory());
  for (int k = 0; k < a->n_in; k++) {
    struct node *t = f->image[images_operand(f, i, k)];
    dx[k] = t ? handle_of(t) : NULL;
  }
  bool ok = many->jvp || images_fail(f, no_rule("weft_jvp", f->g.node[i]));
  if (ok) many->jvp(&a->rule, dx, dy);
  ok = ok && keep_results(f, i, n_out, dy);
  mem_free(dy);
  return ok;
}

static bool apply(struct images *f, int i) {
  struct applied a;
  int n_in = subgraph_arity(&f->g, i);
  struct node **in = node_list_new(n_in);
  for (int k = 0; in && k < n_in; k++) in[k] = f->g.node[images_operand(f, i, k)];
  bool ok = in && rule_open(&a, f->g.node[i], n_in, in);
  mem_free(in);
  if (!ok) return images_fail(f, no_memory());
  ok = f->g.node[i]->op->many ? apply_many(f, i, &a) : apply_one(f, i, &a);
  rule_close(&a);
  return ok;
}

static bool visit(struct images *f, int i, uint64_t oldest) {
  const struct node *n = f->g.node[i];
  if (f->is_given[i]) return true;
  if (n->serial > oldest && subgraph_is_dropped(&f->g, i) && is_differentiable(n)) return images_fail(f, no_history("weft_jvp", n));
  if (!images_move(f, i) || !(n->op->many || is_differentiable(n))) return true;
  if (n->op == &op_item) {
    struct node *t = images_item(f, i);
    f->image[i] = t ? node_retain(t) : NULL;
    return true;
  }
  return apply(f, i);
}

bool push(int n, struct node *const x[], struct node *const dx[], int m, struct node *const y[], struct node *dy[],
          struct failure **failure) {
  for (int j = 0; j < m; j++) dy[j] = NULL;
  if (!n || !m) return true;
  struct images f = { 0 };
  bool ok = images_begin(&f, n, x, dx, m, y);
  uint64_t oldest = oldest_with_value(n, x, dx);
  for (int i = 0; ok && i < f.g.n; i++) ok = visit(&f, i, oldest);
  for (int j = 0; ok && j < m; j++) {
    struct node *t = f.image[f.g.target[j]];
    dy[j] = t ? node_retain(t) : NULL;
  }
  images_end(&f);
  *failure = f.failure;
  return ok;
}

/* ---- The public call ---- */

static struct failure *not_tangent(const struct node *x, const struct node *dx, int j) {
  struct shape_text a, b;
  if (!is_differentiable(x)) return no_float("weft_jvp", "x", j + 1, x);
  if (!shapes_meet("weft_jvp", x, dx))
    return fail(WEFT_ERR_SHAPE, scope_origin(), "weft_jvp: x %d is %s, dx %s", j + 1, shape_show(x, &a), shape_show(dx, &b));
  return NULL;
}

/* Tangents in the dtype and sizes of their x. */
static bool fit_tangents(int n, struct node *const x[], struct node *dx[], struct failure **why) {
  for (int j = 0; j < n; j++)
    if ((*why = not_tangent(x[j], dx[j], j)) || !node_fit(&dx[j], x[j], why)) return false;
  return true;
}

static weft_array *tangent_of(struct node *y, struct node *dy, int j) {
  if (!is_differentiable(y)) return array_failed(no_float("weft_jvp", "y", j + 1, y));
  return dy ? array_sized_by(handle_of(dy), handle_of(y)) : zeros_like(handle_of(y));
}

static void forward_mode(int n, struct node *const x[], struct node *dx[], int m, struct node *const y[], weft_array *out[]) {
  struct failure *why = no_variable("weft_jvp", m, y, n, x);
  struct node **dy = node_list_new(m);
  if (dy && !why && fit_tangents(n, x, dx, &why) && push(n, x, dx, m, y, dy, &why))
    for (int j = 0; j < m; j++) out[j] = tangent_of(y[j], dy[j], j);
  else all_bad(m, out, why ? why : no_memory());
  node_list_drop(m, dy);
}

void weft_jvp(int n, weft_array *const x[], weft_array *const dx[], int m, weft_array *const y[], weft_array *dy[]) {
  struct given g;
  if (!has_place("weft_jvp", n, m, dy)) return;
  if (given_take(&g, "weft_jvp", 3, (int[]){ n, n, m }, (weft_array *const *const[]){ x, dx, y }, m, dy)) {
    struct failure *why = transform_ready(n, g.of[0], m, g.of[2]);
    if (why) all_bad(m, dy, why);
    else forward_mode(n, g.of[0], g.of[1], m, g.of[2], dy);
  }
  given_drop(&g);
}
