/* later.c -- op_later: an expression that is written when sizes are known (op/later.h), and its derivatives and maps.
 *
 * The derivative of what is not written yet is not written yet either: it is the derivative of what will be, taken then. So is a
 * map. Each is a form of its own that knows which other one it is of. */
#include "op/later.h"
#include <string.h>
#include "base/mem.h"
#include "op/operand.h"
#include "transform/transform.h"

/* How it is written. Derivatives and maps are `of` another one: */
struct later {
  _Atomic int refs;
  weft_array *(*write)(const struct later *, weft_array *const in[]);
  later_write *plain;      /* of: NULL */
  struct later *of;        /* a reference */
  int n_in;                /* in pulled: x.., dy. In pushed: x.., dx of those that are marked. In mapped: x.. */
  int which;               /* pulled: by which x */
  bool *is_marked;         /* by x. mapped: it has rows */
  void *options;           /* of plain */
};

struct later_attr { struct later *later; };

static struct later *later_of(const struct node *n) { return ((const struct later_attr *)n->attr)->later; }

static void later_release(struct later *l) {
  for (struct later *of; l && atomic_fetch_sub_explicit(&l->refs, 1, memory_order_acq_rel) == 1; l = of) {
    of = l->of;
    mem_free(l);
  }
}

static void hold(const void *attr) {
  atomic_fetch_add_explicit(&((const struct later_attr *)attr)->later->refs, 1, memory_order_relaxed);
}
static void drop(const void *attr) { later_release(((const struct later_attr *)attr)->later); }

/* A new one, with room behind it for its options and for so many marks. NULL: out of memory. */
static struct later *later_new(int n_in, int n_marks, size_t bytes) {
  size_t options_at = (sizeof(struct later) + 15) / 16 * 16, marks_at = options_at + bytes;
  struct later *l = mem_alloc(marks_at + (size_t)n_marks + 1);
  if (!l) return NULL;
  *l = (struct later){ .refs = 1, .n_in = n_in, .options = (char *)l + options_at, .is_marked = (bool *)l + marks_at };
  return l;
}

/* ---- Nodes ---- */

static weft_array *node_of(struct later *l, weft_array *const in[], weft_dtype d, int rank, const dim dims[]) {
  struct node **node = node_list_new(l->n_in);
  if (!node) return array_failed(no_memory());
  for (int k = 0; k < l->n_in; k++) node[k] = in[k]->node;
  struct node *y = node_make(&op_later, d, rank, dims, l->n_in, node, &(struct later_attr){ l }, sizeof(struct later_attr));
  mem_free(node);
  return array_of(y);
}

static weft_array *node_like(const struct later *l, weft_array *const in[], const struct node *like) {
  return node_of((struct later *)(uintptr_t)l, in, (weft_dtype)like->dtype, like->rank, like->dims);
}

static weft_array *write_plain(const struct later *l, weft_array *const in[]) { return l->plain(l->options, in); }

weft_array *array_later(later_write *write, const void *options, size_t bytes, int n, weft_array *const in[], weft_dtype d,
                        int rank, const dim dims[]) {
  for (int k = 0; k < n; k++) if (weft_check(in[k])) return in[k];
  struct failure *why = count_check("weft", rank, dims);
  struct later *l = why ? NULL : later_new(n, 0, bytes);
  if (!l) return array_failed(why ? why : no_memory());
  l->write = write_plain, l->plain = write;
  memcpy(l->options, options, bytes);
  weft_array *y = node_of(l, in, d, rank, dims);
  return later_release(l), y;
}

static bool are_sized(int n, weft_array *const x[]) {
  for (int k = 0; k < n; k++) if (!node_is_known(x[k]->node)) return false;
  return true;
}

bool later_is_sized(const struct node *n) {
  for (int k = 0; k < n->n_in; k++) if (!node_is_known(n->in[k])) return false;
  return true;
}

struct node *later_written(const struct node *n, struct node *const in[], struct failure **why) {
  struct applied a;
  if (!rule_open(&a, n, later_of(n)->n_in, in)) return *why = no_memory(), NULL;
  struct node *y = result_of(later_of(n)->write(later_of(n), a.in), why);
  return rule_close(&a), y;
}

/* ---- What is of another one: its x under names of their own, so that derivatives end there ---- */

struct later_names { int n; struct node **x; weft_array **in; };

static struct node *name_of(struct node *x) {
  return node_make(&op_alias, (weft_dtype)x->dtype, x->rank, x->dims, 1, &x, NULL, 0);
}

/* One row of it. */
static struct node *name_of_row(struct node *xs) {
  return node_make(&op_input, (weft_dtype)xs->dtype, xs->rank - 1, xs->dims + 1, 0, NULL, NULL, 0);
}

static bool names_open(struct later_names *m, int n, weft_array *const x[], const bool has_rows[]) {
  *m = (struct later_names){ n, node_list_new(n), mem_alloc((size_t)(n + 1) * sizeof *m->in) };
  bool ok = m->x && m->in;
  for (int k = 0; ok && k < n; k++) {
    m->x[k] = has_rows && has_rows[k] ? name_of_row(x[k]->node) : name_of(x[k]->node);
    if ((ok = m->x[k])) m->in[k] = handle_of(m->x[k]);
  }
  return ok;
}

static void names_close(struct later_names *m) {
  node_list_drop(m->x ? m->n : 0, m->x);
  mem_free(m->in);
}

/* ---- Reverse mode ---- */

static weft_array *pulled(const struct later *l, struct later_names *m, weft_array *dy, struct node *like) {
  weft_array *y = l->of->write(l->of, m->in), *out = y;
  struct node **dx = node_list_new(m->n);
  struct failure *why = NULL;
  if (!dx) return array_failed(no_memory());
  if (!weft_check(y)) {
    bool ok = pull(1, &y->node, &dy->node, m->n, m->x, true, dx, NULL, &why);
    out = !ok ? array_failed(why) : dx[l->which] ? handle_of(dx[l->which]) : zeros_of(like);
  }
  return node_list_drop(m->n, dx), out;
}

static weft_array *write_pulled(const struct later *l, weft_array *const in[]) {
  struct later_names m;
  int n = l->of->n_in;
  if (!are_sized(l->n_in, in)) return node_like(l, in, in[l->which]->node);
  bool ok = names_open(&m, n, in, NULL);
  weft_array *dx = ok ? pulled(l, &m, in[n], in[l->which]->node) : array_failed(no_memory());
  return names_close(&m), dx;
}

static struct later *derived(struct later *of, int n_in, weft_array *(*write)(const struct later *, weft_array *const[])) {
  struct later *l = later_new(n_in, of->n_in, 0);
  if (!l) return NULL;
  atomic_fetch_add_explicit(&of->refs, 1, memory_order_relaxed);
  l->of = of, l->write = write;
  return l;
}

static weft_array *vjp(const struct rule *r, int k, weft_array *dy) {
  if (!is_differentiable(r->in[k]->node)) return NULL;
  struct later *l = derived(later_of(r->node), r->n_in + 1, write_pulled);
  weft_array **in = mem_alloc((size_t)(r->n_in + 1) * sizeof *in), *dx = NULL;
  if (l && in) {
    memcpy(in, r->in, (size_t)r->n_in * sizeof *in);
    in[r->n_in] = dy, l->which = k;
    dx = node_like(l, in, in[k]->node);
  }
  return later_release(l), mem_free(in), dx ? dx : array_failed(no_memory());
}

/* ---- Forward mode ---- */

static weft_array *pushed(const struct later *l, struct later_names *m, weft_array *const dx[]) {
  weft_array *y = l->of->write(l->of, m->in), *out = y;
  struct node **x = node_list_new(2 * m->n), **d = x ? x + m->n : NULL, *dy = NULL;
  struct failure *why = NULL;
  int n = 0;
  if (!x) return array_failed(no_memory());
  for (int k = 0; k < m->n; k++) if (l->is_marked[k]) x[n] = m->x[k], d[n] = dx[n]->node, n++;
  if (!weft_check(y)) {
    bool ok = push(n, x, d, 1, &y->node, &dy, &why);
    out = !ok ? array_failed(why) : dy ? array_of(dy) : zeros_of(y->node);
  }
  return mem_free(x), out;
}

static weft_array *write_pushed(const struct later *l, weft_array *const in[]) {
  struct later_names m;
  bool ok = names_open(&m, l->of->n_in, in, NULL), is_sized = are_sized(l->n_in, in);
  weft_array *dy = !ok ? array_failed(no_memory()) : is_sized ? pushed(l, &m, in + m.n) : l->of->write(l->of, m.in);
  if (ok && !is_sized && !weft_check(dy)) dy = node_like(l, in, dy->node);
  return names_close(&m), dy;
}

static weft_array *jvp(const struct rule *r, weft_array *const dx[]) {
  int n = r->n_in, n_dx = 0;
  for (int k = 0; k < n; k++) n_dx += dx[k] != NULL;
  struct later *l = derived(later_of(r->node), n + n_dx, write_pushed);
  weft_array **in = mem_alloc((size_t)(n + n_dx) * sizeof *in), *dy = NULL;
  if (l && in) {
    memcpy(in, r->in, (size_t)n * sizeof *in);
    for (int k = 0, at = n; k < n; k++) if ((l->is_marked[k] = dx[k])) in[at++] = dx[k];
    dy = node_like(l, in, r->node);
  }
  return later_release(l), mem_free(in), dy ? dy : array_failed(no_memory());
}

/* ---- Map ---- */

static dim rows_of(const struct later *l, weft_array *const xs[]) {
  int k = 0;
  while (!l->is_marked[k]) k++;
  return xs[k]->node->dims[0];
}

/* y, or a row of it, with an axis of rows in front: its sizes. */
static int with_rows(const struct node *y, dim rows, dim dims[]) {
  dims[0] = rows;
  memcpy(dims + 1, y->dims, (size_t)y->rank * sizeof *dims);
  return y->rank + 1;
}

static weft_array *node_of_rows(struct later *l, weft_array *const xs[], const struct node *row) {
  dim dims[WEFT_RANK_MAX + 1];
  int rank = with_rows(row, rows_of(l, xs), dims);
  if (rank > WEFT_RANK_MAX) return array_bad(WEFT_ERR_SHAPE, "weft_map: a result has rank %d already", WEFT_RANK_MAX);
  return node_of(l, xs, (weft_dtype)row->dtype, rank, dims);
}

static weft_array *mapped(const struct later *l, struct later_names *m, weft_array *const xs[]) {
  weft_array *y = l->of->write(l->of, m->in);
  struct node **full = node_list_new(m->n), *ys = NULL;
  struct failure *why = NULL;
  dim dims[WEFT_RANK_MAX + 1];
  if (!full || weft_check(y)) return mem_free(full), full ? y : array_failed(no_memory());
  for (int k = 0; k < m->n; k++) full[k] = l->is_marked[k] ? xs[k]->node : NULL;
  bool ok = spread(rows_of(l, xs), NULL, m->n, m->x, full, 1, &y->node, &ys, &why);
  mem_free(full);
  if (!ok) return array_failed(why);
  return ys ? array_of(ys) : array_broadcast("weft_map", y, with_rows(y->node, rows_of(l, xs), dims), dims);
}

static weft_array *write_mapped(const struct later *l, weft_array *const xs[]) {
  struct later_names m;
  bool ok = names_open(&m, l->n_in, xs, l->is_marked), is_sized = are_sized(l->n_in, xs);
  weft_array *ys = !ok ? array_failed(no_memory()) : is_sized ? mapped(l, &m, xs) : l->of->write(l->of, m.in);
  if (ok && !is_sized && !weft_check(ys)) ys = node_of_rows((struct later *)(uintptr_t)l, xs, ys->node);
  return names_close(&m), ys;
}

static weft_array *batch(const struct rule *r, const bool is_mapped[]) {
  struct later *l = derived(later_of(r->node), r->n_in, write_mapped);
  if (!l) return array_failed(no_memory());
  memcpy(l->is_marked, is_mapped, (size_t)r->n_in * sizeof *is_mapped);
  weft_array *ys = node_of_rows(l, r->in, r->node);
  return later_release(l), ys;
}

const struct op op_later = { .name = "later", .kind = OP_LATER, .chooses = true, .vjp = vjp, .push = jvp, .batch = batch,
                             .again = later_written, .hold = hold, .drop = drop };
