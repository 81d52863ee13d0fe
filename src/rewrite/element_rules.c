/* element_rules.c -- rows applied to elementwise nodes; operations on numbers; functions of concatenations. */
#include <math.h>
#include <string.h>
#include "graph/dtype.h"
#include "rewrite/fold.h"
#include "rewrite/rules.h"
#include "rewrite/rewriting.h"

const struct node *scalar_below(const struct node *n) {
  while (n->op == &op_broadcast) n = n->in[0];
  return n->op == &op_scalar ? n : NULL;
}

/* ---- Matching ---- */

static bool find_number(const struct node *n, double *out) {
  const struct node *s = scalar_below(n);
  if (s) *out = dtype_decode((weft_dtype)s->dtype, scalar_bits(s, (weft_dtype)s->dtype));
  return s;
}

static bool is_number(const struct node *n, double value) {
  double v;
  if (!find_number(n, &v)) return false;
  if (value != value) return v != v;
  return !memcmp(&v, &value, sizeof v);
}

static bool is_ordinary(const struct node *n) {
  double v, most = dtype_is_f8((weft_dtype)n->dtype) ? 16 : n->dtype == WEFT_F16 ? 1e4 : 1e37;
  return find_number(n, &v) && fabs(v) < most && fabs(v) > 1 / most;
}

/* Depth first with the pattern's own tree, which is bounded. */
static bool matches(const struct pattern *p, int at, struct node *n, struct node *var[]) {
  const struct pattern_node *q = &p->node[at];
  if (q->op) {
    if (n->op != q->op || n->n_in != q->n) return false;
    for (int k = 0; k < q->n; k++)
      if (!matches(p, q->in[k], n->in[k], var)) return false;
    return true;
  }
  if (q->var < 0) return is_number(n, q->number);
  if (var[q->var]) return var[q->var] == n;
  if (q->var == PATTERN_K && !is_ordinary(n)) return false;
  var[q->var] = n;
  return true;
}

static bool is_on(char on, const struct node *x) {
  weft_dtype d = (weft_dtype)x->dtype;
  switch (on) {
    case 'f': return dtype_is_float(d);
    case 'i': return dtype_is_integer(d);
    case 'b': return d == WEFT_BOOL;
    case 'n': return dtype_is_float(d) || dtype_is_integer(d);
    default: return true;
  }
}

/* ---- Replacing ---- */

enum { MOST_FOLDS = 64 }; /* numbers computed while a graph is rewritten: rules that make new ones come to an end */

/* A comparison gives bools, all others have the dtype of the node that is replaced. */
static weft_dtype dtype_of(const struct pattern *p, int at, const struct node *like) {
  return p->node[at].op == &op_le ? WEFT_BOOL : (weft_dtype)like->dtype;
}

static struct node *replacement(struct rewriting *w, const struct pattern *p, int at, struct node *like, struct node *const var[]) {
  const struct pattern_node *q = &p->node[at];
  if (!q->op && q->var >= 0) return var[q->var];
  if (!q->op) return number_of(w, like, dtype_encode((weft_dtype)like->dtype, q->number));
  struct node *in[3];
  for (int k = 0; k < q->n; k++)
    if (!(in[k] = replacement(w, p, q->in[k], like, var))) return NULL;
  return made(w, q->op, like, like->rank, like->dims, dtype_of(p, at, like), q->n, in, NULL, 0);
}

/* Whether something may fail while x is computed: an index, what is asserted, a step with a status, a loop. That is more than a
 * value: a row may not drop it, as mul(x, 0) would. Of more than a few nodes it is taken for so. */
static bool may_fail(const struct node *x) {
  enum { FEW = 64 };
  const struct node *open[FEW];
  int n = 0, n_seen = 0;
  for (open[n++] = x; n > 0;) {
    const struct node *at = open[--n];
    const struct kind_facts *is = &kind_facts[at->op->kind];
    if (is->may_be_blamed || is->is_several || at->op == &op_assert || ++n_seen > FEW || n + at->n_in > FEW) return true;
    for (int k = 0; k < at->n_in; k++) open[n++] = at->in[k];
  }
  return false;
}

static bool mentions(const struct pattern *p, int var) {
  for (int i = 0; i < p->n; i++) if (!p->node[i].op && p->node[i].var == var) return true;
  return false;
}

/* Whether a row would leave out something that may fail. */
static bool drops_check(const struct pattern *after, struct node *const var[]) {
  for (int v = 0; v < PATTERN_VARS; v++)
    if (var[v] && !mentions(after, v) && may_fail(var[v])) return true;
  return false;
}

static struct node *apply_rows(struct rewriting *w, struct node *n) {
  int n_rules;
  const struct rule_compiled *r = rules_compiled(&n_rules);
  for (int i = 0; i < n_rules; i++) {
    struct node *var[PATTERN_VARS] = { 0 };
    if (r[i].before.node[0].op != n->op || r[i].tag > w->most) continue;
    if (!matches(&r[i].before, 0, n, var) || !var[0] || !is_on(r[i].on, var[0])) continue;
    if (var[PATTERN_K] && w->n_folds == MOST_FOLDS) continue; /* what becomes of it is to be a number */
    if (drops_check(&r[i].after, var)) continue;
    return replacement(w, &r[i].after, 0, n, var);
  }
  return n;
}

/* ---- Numbers ---- */

static struct node *fold(struct rewriting *w, struct node *n) {
  const struct node *scalar[ELEMENT_MOST];
  if (n->n_in < 1 || n->n_in > ELEMENT_MOST || w->n_folds == MOST_FOLDS) return n;
  for (int k = 0; k < n->n_in; k++)
    if (!(scalar[k] = scalar_below(n->in[k]))) return n;
  uint64_t bits;
  w->n_folds++;
  return fold_element(n, scalar, &bits) ? number_of(w, n, bits) : n;
}

/* ---- f(concat(a, b)) = concat(f(a), f(b)), where nobody else needs the concatenation ---- */

static struct node *through_concat(struct rewriting *w, struct node *n) {
  enum { MOST = 64 };
  struct node *c = n->in[0], *part[MOST];
  if (n->n_in != 1 || c->op != &op_concat || local_of(c)->n_uses != 1 || c->n_in > MOST) return n;
  for (int k = 0; k < c->n_in; k++) {
    struct node *x = c->in[k];
    part[k] = made(w, n->op, n, x->rank, x->dims, (weft_dtype)n->dtype, 1, &x, n->attr, n->attr_bytes);
    if (!part[k]) return NULL;
  }
  return made(w, &op_concat, n, n->rank, n->dims, (weft_dtype)n->dtype, c->n_in, part, c->attr, c->attr_bytes);
}

struct node *rewrite_element(struct rewriting *w, struct node *n) {
  struct node *now = n->op == &op_cast ? rewrite_cast(w, n) : n;
  if (now == n) now = fold(w, n);
  if (now == n) now = apply_rows(w, n);
  if (now == n) now = through_concat(w, n);
  return now;
}
