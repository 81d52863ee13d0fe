/* shape.c -- dims in messages, and what may be asked about an array without computing it. */
#include "graph/shape.h"
#include <string.h>
#include "base/mem.h"
#include "graph/scope.h"
#include "op/op.h"

const char *dims_show(int rank, const dim dims[], struct shape_text *out) {
  struct text t = { 0 };
  for (int i = 0; i < rank; i++) text_add(&t, i ? "," : "["), dim_print(dims[i], &t);
  text_add(&t, rank ? "]" : "[]");
  size_t n = t.failed ? 0 : t.n < sizeof out->s ? t.n : sizeof out->s - 1;
  memcpy(out->s, n ? t.s : "", n);
  out->s[n] = 0;
  if (t.n > n && n) memcpy(out->s + n - 3, "...", 3);
  text_free(&t);
  return out->s;
}

const char *shape_show(const struct node *n, struct shape_text *t) { return dims_show(n->rank, n->dims, t); }

/* A symbol and the number it has been bound to since are the same size. */
bool dims_equal(int rank_a, const dim a[], int rank_b, const dim b[]) {
  if (rank_a != rank_b) return false;
  for (int k = 0; k < rank_a; k++)
    if (a[k] != b[k] && dim_resolve(a[k]) != dim_resolve(b[k])) return false;
  return true;
}

bool shape_equal(const struct node *a, const struct node *b) { return dims_equal(a->rank, a->dims, b->rank, b->dims); }

/* ---- Questions about arrays ---- */

int weft_version(void) { return WEFT_VERSION; }

/* The node of an array that can be asked, with a reference; NULL: bad. */
static struct node *asked(weft_array *a) {
  struct failure *why = NULL;
  struct node *n = array_usable("weft", 0, a, &why);
  failure_release(why);
  return n;
}

weft_dtype weft_dtype_of(weft_array *a) {
  const struct node *n = array_look(a);
  if (!n) return WEFT_BOOL;
  weft_dtype d = (weft_dtype)n->dtype;
  array_looked(a);
  return d;
}

int weft_rank(weft_array *a) {
  const struct node *n = array_look(a);
  if (!n) return -1;
  int rank = n->rank;
  array_looked(a);
  return rank;
}

/* Whether sizes that were taken to be equal are. Of what cannot be computed yet (a function is being written) its calls look. */
static bool is_size(weft_array *a, int axis) {
  weft_scope *s = weft_scope_open();
  weft_array *size = weft_size(a, axis);
  weft_status status = weft_eval(1, &size);
  weft_scope_discard(s);
  return status == WEFT_OK || status == WEFT_ERR_NO_VALUE;
}

/* A size that only a loop can tell is known once the loop has run. -1: it is not known, or none. */
static int64_t size_of(weft_array *a, const struct node *n, int axis) {
  dim d = dim_resolve(n->dims[axis]);
  if (!dim_is_known(d) && weft_eval(1, &a) == WEFT_OK) d = dim_resolve(n->dims[axis]);
  else if (dim_is_known(d) && node_is_trusting(n) && !is_size(a, axis)) d = -1;
  return dim_is_known(d) ? d : -1;
}

int64_t weft_dim(weft_array *a, int axis) {
  struct node *n = asked(a);
  if (!n) return -1;
  if (axis < 0) axis += n->rank;
  int64_t d = axis >= 0 && axis < n->rank ? size_of(a, n, axis) : -1;
  node_release(n);
  return d;
}

/* Sizes that are numbers as they stand, and no others were taken to equal them; -1: not all are, or it is no array. */
static int describe_known(weft_array *a, weft_dtype *dtype, int64_t dims[]) {
  const struct node *n = array_look(a);
  if (!n) return -1;
  int rank = n->rank;
  *dtype = (weft_dtype)n->dtype;
  for (int i = 0; i < n->rank; i++) if ((dims[i] = n->dims[i]) < 0) rank = -1;
  if (node_is_trusting(n)) rank = -1;
  array_looked(a);
  return rank;
}

int weft_describe(weft_array *a, weft_dtype *dtype, int64_t dims[WEFT_RANK_MAX]) {
  int known = describe_known(a, dtype, dims);
  if (known >= 0) return known;
  struct node *n = asked(a);
  int rank = n ? n->rank : -1;
  if (n) *dtype = (weft_dtype)n->dtype;
  for (int i = 0; n && i < n->rank; i++) if ((dims[i] = size_of(a, n, i)) < 0) rank = -1;
  node_release(n);
  return rank;
}

uint64_t weft_id(weft_array *a) {
  struct node *n = asked(a);
  uint64_t id = n ? n->serial : 0;
  node_release(n);
  return id;
}

const char *weft_op(weft_array *a) {
  struct node *n = asked(a);
  const char *name = n ? n->op->name : "bad";
  node_release(n);
  return name;
}

/* Under the lock, for evaluation may drop the history in the meantime. */
static int operands(struct node *n, int max, struct node *in[]) {
  graph_lock();
  int n_in = n->n_in;
  for (int i = 0; i < n_in && i < max; i++) in[i] = node_retain(n->in[i]);
  graph_unlock();
  return n_in;
}

int weft_operands(weft_array *a, int max, weft_array *in[]) {
  struct node *n = asked(a);
  if (!in) max = 0;
  struct node **some = n && max > 0 ? mem_alloc((size_t)max * sizeof *some) : NULL;
  int n_in = n ? operands(n, some ? max : 0, some) : 0;
  for (int i = 0; i < n_in && i < max; i++) in[i] = array_of(some ? some[i] : NULL);
  mem_free(some);
  node_release(n);
  return n_in;
}
