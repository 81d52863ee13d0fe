/* said.c -- what an integer says about sizes.
 *
 * Sizes are arrays to whoever writes with them: `weft_size(x, 0)`, 1 less, the smaller of two. Where nothing but sizes and numbers
 * goes into an integer, it is an expression of sizes (dim.h), and a slice, a shape or a loop that it bounds is known as soon as the
 * sizes of inputs are. What else goes in is not looked at: then only a run tells (extent.c).
 *
 * Numbers of i32 and i64 are taken to be exact, as no size comes near their ends. Comparisons are 1 or 0. */
#include "graph/dtype.h"
#include "op/loop.h"
#include "op/parts.h"
#include "op/said.h"

extern const struct op op_floor_divide, op_remainder, op_logical_not, op_logical_and, op_logical_or;

enum { MOST = 400, CHECKS = 8, SHARED = 64 };
struct saying {
  int n_left;        /* nodes that may still be looked at */
  int n_shared;
  struct { const struct node *n; int64_t at; dim d; } shared[SHARED]; /* what was found of nodes that several may read */
  int n_checks;
  struct { const struct node *n; dim d; } check[CHECKS]; /* asserted on the way, and the integers that are to be 0 */
};

static dim said(const struct node *n, int64_t at, struct saying *s);

static dim minus(dim a, dim b) { return dim_reckon(DIM_MINUS, a, b); }

static dim scalar(const struct node *n) {
  weft_dtype d = (weft_dtype)n->dtype;
  return (dtype_is_integer(d) && d != WEFT_U64) || d == WEFT_BOOL ? dim_integer((int64_t)scalar_bits(n, WEFT_I64)) : DIM_BAD;
}

static dim cast(const struct node *n, int64_t at, struct saying *s) {
  weft_dtype to = (weft_dtype)n->dtype, from = (weft_dtype)n->in[0]->dtype;
  bool is_whole = from == WEFT_BOOL || (dtype_is_integer(from) && from != WEFT_U64), is_wide = to == WEFT_I64;
  return is_whole && (is_wide || (to == WEFT_I32 && from != WEFT_U32)) ? said(n->in[0], at, s) : DIM_BAD;
}

static dim remainder_of(dim a, dim b) {
  int64_t by;
  if (!dim_is_integer(b, &by) || by == 0) return DIM_BAD;
  return minus(a, dim_reckon(DIM_TIMES, b, dim_reckon(DIM_FLOOR, a, b)));
}

static dim arithmetic(const struct op *op, dim a, dim b) {
  static const struct { const struct op *op; enum dim_rule rule; } rows[] = {
    { &op_add, DIM_PLUS }, { &op_sub, DIM_MINUS }, { &op_mul, DIM_TIMES }, { &op_minimum, DIM_LEAST }, { &op_maximum, DIM_LARGEST },
    { &op_floor_divide, DIM_FLOOR },
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (op == rows[i].op) return dim_reckon(rows[i].rule, a, b);
  return op == &op_remainder ? remainder_of(a, b) : DIM_BAD;
}

/* Of two integers: x where a op b holds, else y. */
static dim compared(const struct op *op, dim a, dim b, dim x, dim y) {
  if (op == &op_lt) return dim_choose(minus(b, a), x, y);
  if (op == &op_le) return dim_choose(minus(a, b), y, x);
  if (op == &op_ne) return compared(&op_eq, a, b, y, x);
  return dim_choose(minus(b, a), y, dim_choose(minus(a, b), y, x)); /* eq */
}

static bool is_comparison(const struct node *n) {
  bool compares = n->op == &op_lt || n->op == &op_le || n->op == &op_eq || n->op == &op_ne;
  return compares && dtype_is_integer((weft_dtype)n->in[0]->dtype);
}

/* Whether sizes tell if what is asserted holds. Where it does not, nothing comes of what is asserted of. */
static bool asserted(const struct node *n, struct saying *s) {
  dim fails = n->n_in == 2 && s->n_checks < CHECKS ? said(n->in[1], 0, s) : DIM_BAD;
  if (fails != DIM_BAD) s->check[s->n_checks].n = n, s->check[s->n_checks++].d = fails;
  return fails != DIM_BAD;
}

static dim where(const struct node *n, int64_t at, struct saying *s) {
  const struct node *c = n->in[0];
  if (c->op == &op_assert) return asserted(c, s) ? said(n->in[1], at, s) : DIM_BAD;
  dim x = said(n->in[1], at, s), y = x == DIM_BAD ? x : said(n->in[2], at, s);
  if (y == DIM_BAD) return y;
  if (!is_comparison(c)) {
    dim p = said(c, at, s);
    return p == DIM_BAD ? p : dim_choose(p, x, y);
  }
  dim a = said(c->in[0], at, s), b = a == DIM_BAD ? a : said(c->in[1], at, s);
  return b == DIM_BAD ? b : compared(c->op, a, b, x, y);
}

static dim logic(const struct op *op, dim a, dim b) {
  dim both = dim_reckon(DIM_TIMES, a, b);
  if (op == &op_and || op == &op_logical_and) return both;
  return op == &op_or || op == &op_logical_or ? minus(dim_reckon(DIM_PLUS, a, b), both) : DIM_BAD;
}

static dim element_said(const struct node *n, int64_t at, struct saying *s) {
  bool is_bool = n->dtype == WEFT_BOOL;
  if (n->op == &op_cast) return cast(n, at, s);
  if (n->op == &op_where) return where(n, at, s);
  if (!is_bool && n->dtype != WEFT_I64 && n->dtype != WEFT_I32) return DIM_BAD;
  if (n->n_in < 1 || n->n_in > 2 || (is_bool && n->n_in == 2 && n->in[0]->dtype != WEFT_BOOL && !is_comparison(n))) return DIM_BAD;
  dim a = said(n->in[0], at, s), b = n->n_in == 1 || a == DIM_BAD ? a : said(n->in[1], at, s);
  if (b == DIM_BAD) return b;
  if (n->n_in == 1 && n->op == &op_neg) return minus(0, a);
  if (n->n_in == 1 && n->op == &op_abs) return dim_reckon(DIM_LARGEST, a, minus(0, a));
  if (n->n_in == 1) return n->op == &op_logical_not ? minus(1, a) : DIM_BAD;
  if (is_comparison(n)) return compared(n->op, a, b, 1, 0);
  return is_bool ? logic(n->op, a, b) : arithmetic(n->op, a, b);
}

/* Element `at` of parts one after the other. */
static dim concat_said(const struct node *n, int64_t at, struct saying *s) {
  for (int i = 0; i < n->n_in; i++) {
    dim size = n->in[i]->rank == 1 ? n->in[i]->dims[0] : DIM_BAD;
    if (!dim_is_known(size)) return DIM_BAD;
    if (at < size) return said(n->in[i], at, s);
    at -= size;
  }
  return DIM_BAD;
}

static dim view_said(const struct node *n, int64_t at, struct saying *s) {
  const struct node *x = n->in[0];
  if (n->op == &op_slice) {
    const struct slice_attr *a = n->attr;
    return dim_is_known(a->start) ? said(x, a->start + at * a->step, s) : DIM_BAD;
  }
  if (n->op == &op_broadcast) return said(x, !x->rank || x->dims[0] == 1 ? 0 : at, s);
  return n->op == &op_reshape ? said(x, at, s) : DIM_BAD; /* of rank 0 or 1, so that elements stay where they are */
}

static dim said_again(const struct node *n, int64_t at, struct saying *s) {
  if (n->op == &op_size) return ((const struct size_attr *)n->attr)->size;
  if (n->op == &op_scalar) return scalar(n);
  if (!n->n_in) return DIM_BAD;
  if (loop_is_length(n)) return loop_of(n->in[0])->length;
  if (n->op == &op_alias || n->op == &op_stop_gradient || n->op == &op_depends) return said(n->in[0], at, s);
  if (n->op == &op_concat) return concat_said(n, at, s);
  if (n->op->kind == OP_VIEW) return view_said(n, at, s);
  return n->op->kind == OP_ELEMENT ? element_said(n, at, s) : DIM_BAD;
}

/* Choices read their operands more than once, so that their choices would be looked at exponentially often. */
static dim said(const struct node *n, int64_t at, struct saying *s) {
  if (n->rank > 1 || --s->n_left < 0) return DIM_BAD;
  for (int i = 0; i < s->n_shared; i++)
    if (s->shared[i].n == n && s->shared[i].at == at) return s->shared[i].d;
  dim d = said_again(n, at, s);
  bool is_kept = n->n_in > 1 && s->n_shared < SHARED;
  if (is_kept) s->shared[s->n_shared].n = n, s->shared[s->n_shared].at = at, s->shared[s->n_shared++].d = d;
  return d;
}

static dim said_by(const struct node *n, struct saying *s) {
  return n->rank || !dtype_is_integer((weft_dtype)n->dtype) ? DIM_BAD : said(n, 0, s);
}

dim array_said(weft_array *a) {
  struct node *n = array_node(a);
  graph_lock();
  dim d = said_by(n, &(struct saying){ .n_left = MOST });
  graph_unlock();
  node_release(n);
  return d;
}

dim dim_said(struct node *n) {
  struct saying s = { .n_left = MOST };
  graph_lock();
  dim d = said_by(n, &s);
  graph_unlock();
  for (int i = 0; d != DIM_BAD && i < s.n_checks; i++)
    if (!size_holds(assert_text(s.check[i].n), assert_status(s.check[i].n), minus(0, s.check[i].d))) d = DIM_BAD;
  return d;
}

dim array_bound(weft_array *a) {
  struct node *n = array_node(a);
  dim d = dim_said(n);
  node_release(n);
  return d;
}

static bool is_trusting(weft_array *a) {
  struct node *n = array_node(a);
  bool is = node_is_trusting(n);
  node_release(n);
  return is;
}

int weft_is_size(weft_array *a, int64_t *number) {
  weft_array *bad;
  int64_t found;
  if (!arrays_ok("weft_is_size", 1, &a, &bad)) return 0;
  dim d = array_said(a);
  if (!dim_is_integer(d, &found)) d = dim_resolve(d); /* which is for sizes: a number below 0 is none */
  if (!dim_is_integer(d, &found) || is_trusting(a)) return d != DIM_BAD;
  if (number) *number = found;
  return 2;
}
