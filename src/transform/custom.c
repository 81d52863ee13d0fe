/* custom.c -- derivatives and maps by the user's own rules.
 *
 * The node passes y on. Its inputs are y, then x. A rule that is absent is the ordinary one: cotangents, tangents and rows
 * go through y. Mapped without a rule for it, the other rules stay in force: they are applied to one row that is a name,
 * and what they say is mapped in turn. */
#include <string.h>
#include "base/mem.h"
#include "op/operand.h"
#include "run/buffer.h"
#include "transform/transform.h"

struct custom {
  _Atomic int refs;
  weft_rules rules;
  struct buffer *owner; /* runs `release` when it may be run; NULL: nothing to release */
};

struct custom_attr { struct custom *custom; int n_y, n_x; };

static const struct custom_attr *attr_of(const struct node *n) { return n->attr; }
static const weft_rules *rules_of(const struct rule *r) { return &attr_of(r->node)->custom->rules; }

static void hold(const void *attr) {
  atomic_fetch_add_explicit(&((const struct custom_attr *)attr)->custom->refs, 1, memory_order_relaxed);
}

static void custom_release(struct custom *c) {
  if (atomic_fetch_sub_explicit(&c->refs, 1, memory_order_acq_rel) != 1) return;
  buffer_release(c->owner);
  mem_free(c);
}

static void drop(const void *attr) { custom_release(((const struct custom_attr *)attr)->custom); }

/* NULL: out of memory, and release has been called. */
static struct custom *custom_new(const weft_rules *rules) {
  struct custom *c = mem_alloc(sizeof *c);
  if (c) *c = (struct custom){ .refs = 1, .rules = *rules };
  if (c && rules->release) c->owner = buffer_external(NULL, 0, rules->release, rules->ctx);
  if (c && (c->owner || !rules->release)) return c;
  mem_free(c);
  if (rules->release) rules->release(rules->ctx);
  return NULL;
}

static int count(const struct node *n) { return attr_of(n)->n_y; }

static weft_dtype type(const struct node *n, int k, int *rank, dim dims[]) {
  const struct node *y = n->in[k];
  *rank = y->rank;
  for (int d = 0; d < y->rank; d++) dims[d] = y->dims[d];
  return (weft_dtype)y->dtype;
}

/* ---- Rules ---- */

static struct failure *rule_failed(const char *which, int status) {
  return fail(WEFT_ERR_RULE, scope_origin(), "weft_custom: the %s rule failed with %d", which, status);
}

/* What a rule gave must have the type of what it stands for; a number takes its dtype. */
static weft_array *checked(const char *which, weft_array *d, const struct node *like) {
  struct shape_text a, b;
  if (!d || d->node->op == &op_bad) return d;
  if (!shape_equal(d->node, like))
    return array_bad(WEFT_ERR_RULE, "weft_custom: the %s rule gave %s for %s",
                     which, shape_show(d->node, &a), shape_show(like, &b));
  return d;
}

static void vjp(const struct rule *r, const bool is_wanted[], weft_array *const dy[], weft_array *dx[]) {
  const struct custom_attr *a = attr_of(r->node);
  (void)is_wanted;
  if (!rules_of(r)->vjp) {
    for (int k = 0; k < a->n_y; k++) dx[k] = dy[k];
    return;
  }
  weft_array **all = mem_alloc((size_t)(a->n_y + a->n_x + 1) * sizeof *all), **d = all ? all + a->n_y : NULL;
  if (!all) return all_bad(a->n_y + a->n_x, dx, no_memory());
  for (int k = 0; k < a->n_y; k++) all[k] = dy[k] ? dy[k] : zeros_of(r->in[k]->node);
  int status = rules_of(r)->vjp(rules_of(r)->ctx, r->in + a->n_y, r->in, all, d);
  if (status) all_bad(a->n_x, d, rule_failed("vjp", status));
  for (int k = 0; k < a->n_x; k++) dx[a->n_y + k] = checked("vjp", d[k], r->in[a->n_y + k]->node);
  mem_free(all);
}

static void jvp(const struct rule *r, weft_array *const dx[], weft_array *dy[]) {
  const struct custom_attr *a = attr_of(r->node);
  if (!rules_of(r)->jvp) {
    for (int k = 0; k < a->n_y; k++) dy[k] = dx[k];
    return;
  }
  int status = rules_of(r)->jvp(rules_of(r)->ctx, r->in + a->n_y, dx + a->n_y, dy);
  if (status) all_bad(a->n_y, dy, rule_failed("jvp", status));
  for (int k = 0; k < a->n_y; k++) dy[k] = checked("jvp", dy[k], r->in[k]->node);
}

/* ---- Rules of one row, for all rows ---- */

struct lifted {
  struct custom *one;      /* the rules of one row; a reference */
  dim rows;
  int n_y, n_x;
  struct node **name;      /* y, x and dy of one row: names where mapped, NULL where not */
};

static void lifted_free(void *ctx) {
  struct lifted *l = ctx;
  custom_release(l->one);
  node_list_drop(2 * l->n_y + l->n_x, l->name);
  mem_free(l);
}

/* A row's worth of handles, and which names stand for which arrays. */
struct lifted_row { weft_array **in; struct node **name, **full; int n; };

static bool row_open(struct lifted_row *w, const struct lifted *l, weft_array *const y[], weft_array *const x[],
                     weft_array *const dy[]) {
  int n = 2 * l->n_y + l->n_x;
  *w = (struct lifted_row){ mem_alloc((size_t)(n + 1) * sizeof *w->in), node_list_new(n), node_list_new(n), 0 };
  if (!w->in || !w->name || !w->full) return false;
  for (int k = 0; k < n; k++) {
    weft_array *full = k < l->n_y ? y[k] : k < l->n_y + l->n_x ? x[k - l->n_y] : dy[k - l->n_y - l->n_x];
    w->in[k] = l->name[k] && full ? handle_of(l->name[k]) : full;
    if (!l->name[k] || !full) continue;
    w->name[w->n] = l->name[k];
    w->full[w->n++] = full->node;
  }
  return true;
}

static void row_close(struct lifted_row *w) {
  mem_free(w->in);
  mem_free(w->name);
  mem_free(w->full);
}

/* d of one row, in all rows; summed over them for what is not mapped. */
static weft_array *all_rows(const struct lifted *l, const struct lifted_row *w, weft_array *d, bool is_summed) {
  struct node *full = NULL, *one = d->node;
  struct failure *why = NULL;
  dim dims[WEFT_RANK_MAX + 1] = { l->rows };
  if (one->op == &op_bad) return d;
  if (!spread(l->rows, NULL, w->n, w->name, w->full, 1, &one, &full, &why)) return array_failed(why);
  for (int k = 0; k < one->rank; k++) dims[k + 1] = one->dims[k];
  weft_array *out = array_of(full ? full : node_broadcast(node_retain(one), one->rank + 1, dims));
  return is_summed ? weft_squeeze(weft_sum(out, 0), 0) : out;
}

static int lifted_vjp(void *ctx, weft_array *const x[], weft_array *const y[], weft_array *const dy[], weft_array *dx[]) {
  struct lifted *l = ctx;
  struct lifted_row w;
  int status = row_open(&w, l, y, x, dy) ? 0 : WEFT_ERR_MEMORY;
  if (!status) status = l->one->rules.vjp(l->one->rules.ctx, w.in + l->n_y, w.in, w.in + l->n_y + l->n_x, dx);
  for (int k = 0; !status && k < l->n_x; k++)
    if (dx[k]) dx[k] = all_rows(l, &w, dx[k], !l->name[l->n_y + k]);
  row_close(&w);
  return status;
}

/* Tangents have the types of their x, so names are made for them as they come. */
static int lifted_jvp(void *ctx, weft_array *const x[], weft_array *const dx[], weft_array *dy[]) {
  struct lifted *l = ctx;
  int n = l->n_x;
  struct lifted_row w = { mem_alloc((size_t)(2 * n + 1) * sizeof *w.in), node_list_new(2 * n), node_list_new(2 * n), 0 };
  struct node **tangent = node_list_new(n);
  int status = w.in && w.name && w.full && tangent ? 0 : WEFT_ERR_MEMORY;
  for (int k = 0; !status && k < n; k++) {
    struct node *name = l->name[l->n_y + k];
    w.in[k] = name ? handle_of(name) : x[k];
    w.in[n + k] = dx[k];
    if (!name) continue;
    w.name[w.n] = name;
    w.full[w.n++] = x[k]->node;
    if (!dx[k]) continue;
    if (!(tangent[k] = node_make(&op_input, (weft_dtype)name->dtype, name->rank, name->dims, 0, NULL, NULL, 0)))
      status = WEFT_ERR_MEMORY;
    else {
      w.in[n + k] = handle_of(tangent[k]);
      w.name[w.n] = tangent[k];
      w.full[w.n++] = dx[k]->node;
    }
  }
  if (!status) status = l->one->rules.jvp(l->one->rules.ctx, w.in, w.in + n, dy);
  for (int k = 0; !status && k < l->n_y; k++)
    if (dy[k]) dy[k] = all_rows(l, &w, dy[k], false);
  row_close(&w);
  node_list_drop(n, tangent);
  return status;
}

static struct node *name_like(const struct node *n) {
  return node_make(&op_input, (weft_dtype)n->dtype, n->rank, n->dims, 0, NULL, NULL, 0);
}

/* All y are mapped here; x may be or not. */
static struct custom *lift(const struct rule *r, const bool is_mapped[], dim rows) {
  const struct custom_attr *a = attr_of(r->node);
  struct lifted *l = mem_alloc(sizeof *l);
  if (!l) return NULL;
  *l = (struct lifted){ a->custom, rows, a->n_y, a->n_x, node_list_new(2 * a->n_y + a->n_x) };
  atomic_fetch_add(&a->custom->refs, 1);
  bool ok = l->name;
  for (int k = 0; ok && k < a->n_y + a->n_x; k++)
    if (k < a->n_y || is_mapped[k]) ok = (l->name[k] = name_like(r->node->in[k]));
  for (int k = 0; ok && k < a->n_y; k++) ok = (l->name[a->n_y + a->n_x + k] = name_like(r->node->in[k]));
  weft_rules rules = { l, a->custom->rules.vjp ? lifted_vjp : NULL, a->custom->rules.jvp ? lifted_jvp : NULL, NULL, lifted_free };
  if (ok) return custom_new(&rules);
  lifted_free(l);
  return NULL;
}

/* ---- Mapping ---- */

static weft_array *in_rows(weft_array *y, dim rows) {
  dim dims[WEFT_RANK_MAX + 1] = { rows };
  for (int k = 0; k < y->node->rank; k++) dims[k + 1] = y->node->dims[k];
  return array_broadcast("weft_map", y, y->node->rank + 1, dims);
}

static void batch_by_rule(const struct rule *r, const bool is_mapped[], weft_array *ys[], dim rows) {
  const struct custom_attr *a = attr_of(r->node);
  int *mapped = mem_alloc((size_t)(a->n_x + 1) * sizeof *mapped), status = 0;
  if (!mapped) return all_bad(a->n_y, ys, no_memory());
  for (int k = 0; k < a->n_x; k++) mapped[k] = is_mapped[a->n_y + k];
  status = rules_of(r)->map(rules_of(r)->ctx, r->in + a->n_y, mapped, ys);
  if (status) all_bad(a->n_y, ys, rule_failed("map", status));
  for (int k = 0; k < a->n_y; k++) {
    const struct node *like = is_mapped[k] ? r->in[k]->node : in_rows(r->in[k], rows)->node;
    ys[k] = ys[k] ? checked("map", ys[k], like) : array_bad(WEFT_ERR_RULE, "weft_custom: the map rule left y %d out", k + 1);
  }
  mem_free(mapped);
}

static void batch_by_name(const struct rule *r, const bool is_mapped[], weft_array *ys[], dim rows) {
  const struct custom_attr *a = attr_of(r->node);
  struct custom_attr attr = { lift(r, is_mapped, rows), a->n_y, a->n_x };
  struct node **in = node_list_new(a->n_y + a->n_x), *n = NULL;
  for (int k = 0; in && k < a->n_y + a->n_x; k++) in[k] = (k < a->n_y && !is_mapped[k] ? in_rows(r->in[k], rows) : r->in[k])->node;
  if (in && attr.custom) n = node_make(&op_custom, WEFT_I64, 0, NULL, a->n_y + a->n_x, in, &attr, sizeof attr);
  for (int k = 0; k < a->n_y; k++) ys[k] = array_of(n ? item_make(n, k) : NULL);
  node_release(n);
  if (attr.custom) custom_release(attr.custom);
  mem_free(in);
}

static void batch(const struct rule *r, const bool is_mapped[], weft_array *ys[], bool is_mapped_out[]) {
  const struct custom_attr *a = attr_of(r->node);
  dim rows = 0;
  for (int k = 0; k < a->n_y + a->n_x; k++)
    if (is_mapped[k]) rows = r->in[k]->node->dims[0];
  for (int k = 0; k < a->n_y; k++) is_mapped_out[k] = true;
  if (rules_of(r)->map) batch_by_rule(r, is_mapped, ys, rows);
  else batch_by_name(r, is_mapped, ys, rows);
}

static struct node *again(const struct node *n, struct node *const in[], struct failure **why) {
  return (void)why, node_make(n->op, WEFT_I64, 0, NULL, n->n_in, in, n->attr, n->attr_bytes);
}

const struct many custom_many = { count, type, vjp, jvp, batch };
const struct op op_custom = { .name = "custom", .kind = OP_IDENTITY, .again = again, .hold = hold, .drop = drop,
                              .many = &custom_many };

/* ---- The public call ---- */

void weft_custom(int n, weft_array *const x[], int m, weft_array *y[], const weft_rules *rules) {
  struct custom *c = custom_new(rules ? rules : &(weft_rules){ 0 });
  if (!has_place("weft_custom", n, m, y)) return custom_release(c);
  struct node **list = node_list_new(m + n), *made = NULL;
  weft_array *bad = NULL;
  bool ok = c && list, has_y = ok && operands("weft_custom", m, y, list, &bad),
       has_x = has_y && operands("weft_custom", n, x, list + m, &bad);
  struct custom_attr attr = { c, m, n };
  if (has_x) made = node_make(&op_custom, WEFT_I64, 0, NULL, m + n, list, &attr, sizeof attr);
  for (int k = 0; k < m; k++) y[k] = bad ? bad : array_of(made ? item_make(made, k) : NULL);
  node_release(made);
  nodes_release(has_y ? m : 0, list);
  nodes_release(has_x ? n : 0, list + m);
  if (c) custom_release(c);
  mem_free(list);
}
