/* library_plan.c -- the step of an OP_LIBRARY node: its operands are copied where they do not stand dense, its results stand where
 * its items do, and in memory for the meantime where nobody wants them. */
#include <string.h>
#include "graph/dtype.h"
#include "op/sort.h"
#include "schedule/work.h"

static int64_t size_of(const struct node *n) { return (int64_t)weft_dtype_bytes((weft_dtype)n->dtype); }

/* Complex elements are copied part by part. */
static bool copy(struct work *w, const struct node *x, const struct place *from, const struct place *to) {
  weft_dtype t = (weft_dtype)x->dtype;
  if (!dtype_is_complex(t)) return step_copy(w, t, x->rank, x->dims, from, to);
  for (int k = 0; k < 2; k++) {
    struct place a, b;
    place_part(from, x->rank, k, &a);
    place_part(to, x->rank, k, &b);
    if (!step_copy(w, dtype_part(t), x->rank, x->dims, &a, &b)) return false;
  }
  return true;
}

static bool dense_operand(struct work *w, const struct node *x, struct place *p) {
  if (!place_needed(w, x, p)) return false;
  if (place_is_dense(x, p) || !node_count(x)) return true;
  struct place from = *p;
  int s = store_new(w, node_count(x) * size_of(x));
  if (s < 0) return false;
  place_dense(x, s, p);
  return copy(w, x, &from, p);
}

static const struct node *item_of(const struct work *w, const struct node *n, int k) {
  for (int i = n->slot + 1; i < w->list->n; i++) {
    const struct node *x = w->list->node[i];
    if (x->op->kind == OP_ITEM && x->in[0] == n && ((const struct item_attr *)x->attr)->k == k) return x;
  }
  return NULL;
}

static bool describe(struct work *w, struct library_array *a, weft_dtype t, int rank, const dim dims[]) {
  dim *d = work_take(w, sizeof *d * (size_t)(rank + 1));
  if (!d) return false;
  if (rank) memcpy(d, dims, sizeof *d * (size_t)rank);
  *a = (struct library_array){ .dtype = t, .rank = rank, .dims = d };
  return true;
}

static int64_t bytes_of(const struct library_array *a) {
  int64_t n = (int64_t)weft_dtype_bytes(a->dtype);
  for (int k = 0; k < a->rank; k++) n *= a->dims[k];
  return n;
}

/* Where the results go: to the places of items, and to memory of their own where nobody wants them. */
static bool find_results(struct work *w, const struct node *n, struct library_step *s, struct library_array *a) {
  for (int k = 0; k < s->call.n_out; k++) {
    dim dims[WEFT_RANK_MAX];
    int rank, at = s->call.n_in + k;
    const struct node *item = item_of(w, n, k);
    weft_dtype t = n->op->many->type(n, k, &rank, dims);
    if (!describe(w, &a[at], t, rank, dims)) return false;
    a[at].is_wanted = item != NULL;
    s->store[at] = item ? w->item[item->slot].place.store : store_new(w, bytes_of(&a[at]));
    s->offset[at] = item ? w->item[item->slot].place.offset * size_of(item) : 0;
    if (s->store[at] < 0) return false;
  }
  return true;
}

static bool find_operands(struct work *w, const struct node *n, struct library_step *s, struct library_array *a) {
  for (int k = 0; k < n->n_in; k++) {
    const struct node *x = n->in[k];
    struct place p;
    if (!describe(w, &a[k], (weft_dtype)x->dtype, x->rank, x->dims) || !dense_operand(w, x, &p)) return false;
    s->store[k] = p.store;
    s->offset[k] = p.offset * size_of(x);
  }
  return true;
}

static void count_problems(struct library_call *c, struct library_array *a, const struct library *l) {
  int batch = l->batch_axes ? l->batch_axes(c->attr) : a->rank - l->core;
  c->n_problems = 1;
  for (int k = 0; k < batch; k++) c->n_problems *= a->dims[k];
  for (int k = 0; c->n_problems && k < c->n_in + c->n_out; k++) a[k].each = bytes_of(&a[k]) / c->n_problems;
}

/* A library step whose arrays are to be found yet; they begin at *a. NULL: out of memory. */
static struct library_step *step_begin(struct work *w, const struct op *op, const void *attr, size_t attr_bytes, int n_in,
                                       int n_out, struct library_array **a) {
  size_t all = (size_t)(n_in + n_out);
  struct library_step *s = work_take(w, sizeof *s);
  void *own = work_take(w, attr_bytes + 1);
  *a = work_take(w, sizeof **a * (all + 1));
  if (!s || !*a || !own) return NULL;
  if (attr_bytes) memcpy(own, attr, attr_bytes);
  *s = (struct library_step){ .op = op, .store = work_take(w, sizeof *s->store * (all + 1)),
                              .offset = work_take(w, sizeof *s->offset * (all + 1)) };
  s->call = (struct library_call){ .attr = own, .n_in = n_in, .n_out = n_out, .in = *a, .out = *a + n_in,
                                   .is_by_blas = w->by_library && !w->device, .origin = w->origin };
  return w->no_memory ? NULL : s;
}

static bool step_end(struct work *w, struct library_step *s, struct library_array *a) {
  const struct library *l = s->op->library;
  count_problems(&s->call, a, l);
  struct step *p = step_new(w, l->is_callers ? &step_host : &step_library);
  if (!p) return false;
  p->library = s;
  p->n_sites = l->n_checks;
  double bytes = 0;
  for (int k = 0; k < s->call.n_in + s->call.n_out; k++) bytes += (double)bytes_of(&a[k]);
  step_add_cost(w, bytes, s->call.n_problems ? l->operations(&s->call) : 0, 1);
  return true;
}

bool step_of_library(struct work *w, struct node *n) {
  struct library_array *a;
  struct library_step *s = step_begin(w, n->op, n->attr, n->attr_bytes, n->n_in, n->op->many->count(n), &a);
  return s && find_operands(w, n, s, a) && find_results(w, n, s, a) && step_end(w, s, a);
}

bool step_sort(struct work *w, weft_dtype t, int64_t rows, int64_t n, int from, int sorted, int order) {
  const struct sort_attr attr = { .is_front = false };
  const int store[] = { from, sorted, order };
  struct library_array *a;
  struct library_step *s = step_begin(w, &op_sort, &attr, sizeof attr, 1, 2, &a);
  for (int k = 0; s && k < 3; k++) {
    if (!describe(w, &a[k], k < 2 ? t : WEFT_I64, 2, (dim[]){ rows, n })) return false;
    a[k].is_wanted = k > 0;
    s->store[k] = store[k], s->offset[k] = 0;
  }
  return s && step_end(w, s, a);
}
