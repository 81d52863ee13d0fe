/* every_graph.c -- see every_graph.h. The value of a node is found by that of its operands, from the targets down; a loop's
 * body is evaluated anew in each step, with the loop's variables given. */
#include "every_graph.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "graph/function.h"
#include "op/convolve.h"
#include "op/later.h"
#include "op/loop.h"
#include "op/select.h"
#include "run/buffer.h"

/* What has been computed of a node: several results only for loops, calls and the like. */
struct found { const struct node *node; int n; struct plain *out; };
struct sizes { int n, room; dim *symbol; int64_t *value; };

/* Loops and calls of a stage that are being computed, the innermost first. One that needs itself, for a size that is asked for
 * inside it, has no value: it would be begun again for every loop around that might tell the size, and in each of these again. */
struct under_way { const struct node *node; const struct under_way *next; };

/* One body at one time: what its leaves stand for, what is known of it so far. Sizes that it tells are forgotten with it: in the
 * next step of a loop they are others. */
struct stage {
  struct stage *outer;   /* of the loop or call whose body it is; NULL: the whole */
  int n_given;
  const struct node **given;
  const struct plain **value;
  struct found *found; /* a hash table */
  int n_found, room;
  struct sizes sizes;
  int n_targets;
  struct node *const *target; /* where loops are looked for that tell a size */
  int n_asked;
  const struct node *asked[8]; /* loops that are being run to tell one */
  const struct under_way *under_way;
};

static char why[512];
const char *plain_graph_why(void) { return why; }

__attribute__((format(printf, 1, 2))) static bool no(const char *format, ...) {
  va_list list;
  va_start(list, format);
  vsnprintf(why, sizeof why, format, list);
  va_end(list);
  return false;
}

static void *room_for(size_t n, size_t size) {
  void *p = calloc(n + 1, size);
  if (!p) abort();
  return p;
}

/* ---- sizes ---- */

static void bind(struct sizes *s, dim symbol, int64_t value) {
  if (dim_is_known(symbol) || !dim_is_symbol(symbol)) return;
  for (int i = 0; i < s->n; i++) if (s->symbol[i] == symbol) return (void)(s->value[i] = value);
  if (s->n == s->room) {
    s->room = 2 * s->room + 16;
    s->symbol = realloc(s->symbol, sizeof *s->symbol * (size_t)s->room);
    s->value = realloc(s->value, sizeof *s->value * (size_t)s->room);
    if (!s->symbol || !s->value) abort();
  }
  s->symbol[s->n] = symbol, s->value[s->n++] = value;
}

static int64_t number_of_symbol(const struct stage *s, dim d) {
  for (; s; s = s->outer)
    for (int i = 0; i < s->sizes.n; i++) if (s->sizes.symbol[i] == d) return s->sizes.value[i];
  return -1;
}

/* What is known here and around; the innermost number of a symbol counts. */
static int64_t number_of(const struct stage *s, dim d) {
  if (dim_is_known(d)) return d;
  if (dim_is_symbol(d)) {
    int64_t x = number_of_symbol(s, d);
    dim told = x < 0 ? dim_resolve(d) : d;
    return told == d ? x : number_of(s, told);
  }
  int n = 0, at = 0;
  for (const struct stage *t = s; t; t = t->outer) n += t->sizes.n;
  dim *symbol = room_for((size_t)n, sizeof *symbol);
  int64_t *value = room_for((size_t)n, sizeof *value);
  for (const struct stage *t = s; t; t = t->outer)
    for (int i = t->sizes.n - 1; i >= 0; i--) symbol[at] = t->sizes.symbol[i], value[at++] = t->sizes.value[i];
  int64_t x = dim_value(d, n, symbol, value);
  if (x < 0) x = dim_value(dim_resolve(d), n, symbol, value);
  free(symbol), free(value);
  return x;
}

static const struct found *find(struct stage *, const struct node *);
static const struct plain *value_of(struct stage *, const struct node *);

/* The number of steps of a loop, once the array that says it has a value. */
static bool bind_steps(struct stage *s, const struct node *n) {
  const struct loop *l = loop_of(n);
  if (!l->has_steps) return true;
  const struct plain *steps = value_of(s, n->in[0]);
  if (steps) bind(&s->sizes, l->steps, plain_i(steps, 0));
  return steps != NULL;
}

/* Runs a loop for the sizes it tells, unless it is being run for them: how many steps it is to make, and how many it makes. */
static void ask_loop(struct stage *s, const struct node *n, dim d) {
  enum { MOST = sizeof s->asked / sizeof *s->asked };
  if (n->op != &op_loop || s->n_asked == MOST) return;
  for (int k = 0; k < s->n_asked; k++) if (s->asked[k] == n) return;
  s->asked[s->n_asked++] = n;
  if (n->n_in) bind_steps(s, n);
  if (number_of(s, d) < 0 && number_of(s, loop_of(n)->length) < 0) find(s, n);
  s->n_asked--;
}

/* Finds out a size that nothing has told yet, here and then around. */
static int64_t size_of(struct stage *s, dim d) {
  for (; s && number_of(s, d) < 0; s = s->outer) {
    struct node_list l = { 0 };
    graph_lock();
    bool ok = walk(&l, s->n_targets, s->target, NULL);
    graph_unlock();
    for (int i = 0; ok && number_of(s, d) < 0 && i < l.n; i++) ask_loop(s, l.node[i], d);
    node_list_free(&l);
    if (!s->outer) break;
  }
  return number_of(s, d);
}

static bool shape_of(struct stage *s, const struct node *n, int64_t dims[]) {
  if (n->rank > PLAIN_RANK) return no("%s: more than %d axes", n->op->name, PLAIN_RANK);
  for (int k = 0; k < n->rank; k++)
    if ((dims[k] = size_of(s, n->dims[k])) < 0) return no("%s: the size of axis %d is not known", n->op->name, k);
  return true;
}

static bool same_dims(const struct plain *a, const struct plain *b) {
  return a->rank == b->rank && !memcmp(a->dims, b->dims, (size_t)a->rank * sizeof *a->dims);
}

/* ---- leaves ---- */

static bool stored(const struct node *n, const int64_t dims[], struct plain *y) {
  void *data;
  size_t size = weft_dtype_bytes((weft_dtype)n->dtype);
  if (buffer_hold(n->value->buf, NULL, &data, NULL)) return no("%s: its elements cannot be had", n->op->name);
  *y = plain_new((weft_dtype)n->dtype, n->rank, dims);
  for (int64_t i = 0; i < y->count; i++) {
    int64_t at[PLAIN_RANK], from = n->value->offset;
    plain_index(y, i, at);
    for (int k = 0; k < n->rank; k++) from += at[k] * n->value->stride[k];
    memcpy(y->data + (size_t)i * size, (const char *)data + from * (int64_t)size, size);
  }
  buffer_drop(n->value->buf);
  return true;
}

static bool leaf(struct stage *s, const struct node *n, struct plain *y) {
  int64_t dims[PLAIN_RANK];
  if (!shape_of(s, n, dims)) return false;
  if (n->op != &op_scalar) return n->value ? stored(n, dims, y) : no("%s: a name without a value", n->op->name);
  uint64_t bits = scalar_bits(n, (weft_dtype)n->dtype);
  *y = plain_new((weft_dtype)n->dtype, 0, NULL);
  memcpy(y->data, &bits, weft_dtype_bytes(y->dtype));
  return true;
}

/* ---- one op ---- */

static bool element(const struct node *n, const struct plain *const in[], struct plain *y) {
  weft_dtype out = (weft_dtype)n->dtype;
  for (int k = 1; k < n->n_in; k++)
    if (!same_dims(in[k], in[0])) return no("%s: operands have different shapes", n->op->name);
  if (n->op == &op_cast) return *y = plain_cast(in[0], out), true;
  if (n->op == &op_complex) {
    if (n->n_in == 2) return *y = plain_pair(in[0], in[1]), true;
    struct plain parts;
    *y = plain_new(out, 0, NULL);
    parts = plain_parts(y);
    plain_set_f(&parts, 0, ((const struct complex_attr *)n->attr)->re);
    plain_set_f(&parts, 1, ((const struct complex_attr *)n->attr)->im);
    return true;
  }
  if (!plain_has_element(n->op->name)) return no("%s: no row in test/every_plain.c", n->op->name);
  *y = plain_element(n->op->name, out, n->n_in, in);
  return true;
}

static struct plain strided(const struct node *n, const int64_t dims[], const struct plain *x) {
  const struct strided_attr *a = n->attr;
  struct plain numbers = plain_new(WEFT_I64, n->rank, dims);
  for (int64_t i = 0; i < numbers.count; i++) {
    int64_t at[PLAIN_RANK], from = a->offset;
    plain_index(&numbers, i, at);
    for (int k = 0; k < n->rank; k++) from += at[k] * a->stride[k];
    plain_set_i(&numbers, i, from);
  }
  struct plain flat = plain_reshape(x, 1, &x->count), y = plain_take(&flat, 1, (const struct plain *[]){ &numbers });
  plain_free(&flat), plain_free(&numbers);
  return y;
}

static struct plain windows(const struct node *n, const int64_t dims[], const struct plain *x) {
  const struct windows_attr *a = n->attr;
  struct plain y = plain_new(x->dtype, n->rank, dims);
  size_t size = weft_dtype_bytes(x->dtype);
  for (int64_t i = 0; i < y.count; i++) {
    int64_t at[PLAIN_RANK];
    plain_index(&y, i, at);
    at[a->axis] = at[a->axis] * a->step + at[n->rank - 1] * a->dilation;
    memcpy(y.data + (size_t)i * size, x->data + (size_t)plain_at(x, at) * size, size);
  }
  return y;
}

static bool view(struct stage *s, const struct node *n, const struct plain *x, struct plain *y) {
  int64_t dims[PLAIN_RANK], count = 1;
  if (!shape_of(s, n, dims)) return false;
  for (int k = 0; k < n->rank; k++) count *= dims[k];
  if (n->op == &op_reshape) {
    if (count != x->count) return no("reshape: sizes that were taken to be equal: %lld elements, not %lld", (long long)x->count, (long long)count);
    *y = plain_reshape(x, n->rank, dims);
  } else if (n->op == &op_broadcast) *y = plain_broadcast(x, n->rank, dims);
  else if (n->op == &op_transpose) *y = plain_transpose(x, n->attr);
  else if (n->op == &op_as_strided) *y = strided(n, dims, x);
  else if (n->op == &op_windows) *y = windows(n, dims, x);
  else if (n->op == &op_slice) {
    const struct slice_attr *a = n->attr;
    int64_t start = size_of(s, a->start), last = start + (dims[a->axis] - 1) * a->step;
    bool is_inside = !dims[a->axis] || (start >= 0 && start < x->dims[a->axis] && last >= 0 && last < x->dims[a->axis]);
    if (!is_inside) return no("weft_slice: %lld:+%lld:%lld of %lld", (long long)start, (long long)dims[a->axis], (long long)a->step, (long long)x->dims[a->axis]);
    *y = plain_slice(x, (int)a->axis, start, dims[a->axis], a->step);
  } else return no("%s: only plans have it", n->op->name);
  return true;
}

static bool in_range(const struct plain *x, int n, const struct plain *const index[]) {
  for (int k = 0; k < n; k++)
    for (int64_t i = 0; i < index[k]->count; i++) {
      int64_t j = plain_i(index[k], i);
      if (j < -x->dims[k] || j >= x->dims[k]) return no("index %lld is out of range: %lld elements", (long long)j, (long long)x->dims[k]);
    }
  return true;
}

static struct plain numbers_of(const struct plain *x) {
  struct plain n = plain_new(WEFT_I64, x->rank, x->dims);
  for (int64_t i = 0; i < n.count; i++) plain_set_i(&n, i, i);
  return n;
}

static bool put(struct stage *s, const struct node *n, const struct plain *const in[], struct plain *y) {
  const struct put_attr *a = n->attr;
  struct plain part = numbers_of(in[0]);
  for (int k = 0; k < n->rank; k++) {
    int64_t start = size_of(s, a->start[k]), length = in[1]->dims[k], last = start + (length - 1) * a->step[k];
    if (length && (start < 0 || start >= in[0]->dims[k] || last < 0 || last >= in[0]->dims[k])) {
      plain_free(&part);
      return no("weft_put: the part does not lie inside");
    }
    struct plain less = plain_slice(&part, k, start, length, a->step[k]);
    plain_free(&part);
    part = less;
  }
  *y = plain_put(in[0], &part, in[1], (weft_how)a->how);
  plain_free(&part);
  return true;
}

static bool scatter(const struct node *n, const struct plain *const in[], struct plain *y) {
  const struct scatter_attr *a = n->attr;
  if (!in_range(in[0], a->n, in + 2)) return false;
  struct plain all = numbers_of(in[0]), part = plain_take(&all, a->n, in + 2);
  *y = plain_put(in[0], &part, in[1], a->how);
  plain_free(&all), plain_free(&part);
  return true;
}

static bool iota(struct stage *s, const struct node *n, struct plain *y) {
  int64_t dims[PLAIN_RANK];
  if (!shape_of(s, n, dims)) return false;
  *y = plain_iota((weft_dtype)n->dtype, n->rank, dims, ((const struct axis_attr *)n->attr)->axis);
  return true;
}

static bool size(struct stage *s, const struct node *n, const struct plain *const in[], struct plain *y) {
  const struct size_attr *a = n->attr;
  int64_t is = in[0] ? (a->axis < 0 ? in[0]->count : in[0]->dims[a->axis]) : size_of(s, a->size);
  *y = plain_new(WEFT_I64, 0, NULL);
  plain_set_i(y, 0, is);
  return is >= 0 || no("weft_size: not known");
}

static bool is_linear(const struct op *op) {
  static const struct op *const all[] = { &op_cholesky, &op_cholesky_solve, &op_triangle, &op_lu, &op_solve, &op_inverse, &op_determinant, &op_adjugate,
                                          &op_cofactors };
  for (size_t k = 0; k < sizeof all / sizeof *all; k++) if (op == all[k]) return true;
  return false;
}

bool plain_knows(const struct op *op) {
  switch (op->kind) {
  case OP_ELEMENT: return op == &op_cast || op == &op_complex || plain_has_element(op->name);
  case OP_REDUCE: case OP_PREFIX: return plain_has_fold(op->name);
  case OP_VIEW: return op == &op_reshape || op == &op_broadcast || op == &op_transpose || op == &op_slice || op == &op_as_strided || op == &op_windows;
  case OP_LIBRARY: return op == &op_sort || op == &op_select || op == &op_tally || op == &op_bins || op == &op_dequantize || op == &op_code_product ||
                          op == &op_depthwise || op == &op_fourier || op == &op_turns || op == &op_host || is_linear(op);
  case OP_PAIR: return false;
  case OP_LEAF: case OP_IOTA: case OP_SIZE: case OP_TAKE: case OP_PUT: case OP_SCATTER: case OP_CONTRACT: case OP_CONCAT:
  case OP_PAD: case OP_IDENTITY: case OP_LOOP: case OP_CALL: case OP_LATER: case OP_ITEM: return true;
  }
  return false;
}

static bool compute(struct stage *s, const struct node *n, const struct plain *const in[], struct plain *y) {
  int axis = n->attr_bytes >= sizeof(int) ? ((const struct axis_attr *)n->attr)->axis : 0;
  weft_dtype out = (weft_dtype)n->dtype;
  if (!plain_knows(n->op)) return no("%s: the plain evaluator does not know it", n->op->name);
  switch (n->op->kind) {
  case OP_LEAF: return leaf(s, n, y);
  case OP_ELEMENT: return element(n, in, y);
  case OP_IOTA: return iota(s, n, y);
  case OP_SIZE: return size(s, n, in, y);
  case OP_REDUCE:
    if (!in[0]->dims[axis] && ((const struct axis_attr *)n->attr)->needs_one) return no("%s of nothing", n->op->name);
    return *y = plain_reduce(n->op->name, out, in[0], axis), true;
  case OP_PREFIX: return *y = plain_prefix(n->op->name, out, in[0], axis), true;
  case OP_VIEW: return view(s, n, in[0], y);
  case OP_TAKE: return in_range(in[0], n->n_in - 1, in + 1) && (*y = plain_take(in[0], n->n_in - 1, in + 1), true);
  case OP_PUT: return put(s, n, in, y);
  case OP_SCATTER: return scatter(n, in, y);
  case OP_CONTRACT: return *y = plain_matmul(in[0], in[1], out), true;
  case OP_CONCAT: return *y = plain_concat(axis, n->n_in, in), true;
  case OP_PAD: {
    const struct pad_attr *a = n->attr;
    return *y = plain_pad(in[0], (int)a->axis, a->before, a->after, in[1]), true;
  }
  case OP_IDENTITY: return *y = plain_cast(in[0], out), true;
  case OP_PAIR: case OP_LOOP: case OP_CALL: case OP_LATER: case OP_ITEM: case OP_LIBRARY: break;
  }
  return no("%s: not one op", n->op->name);
}

/* ---- bodies ---- */

static bool evaluate(struct stage *outer, int n_given, const struct node **given, const struct plain **value, int n,
                     struct node *const target[], struct plain out[]);

static struct plain row_of(const struct plain *xs, int64_t t) {
  struct plain y = plain_new(xs->dtype, xs->rank - 1, xs->dims + 1);
  size_t bytes = (size_t)y.count * weft_dtype_bytes(y.dtype);
  memcpy(y.data, xs->data + (size_t)t * bytes, bytes);
  return y;
}

static struct plain stacked(struct stage *s, const struct node *body, int64_t n, struct plain rows[], bool is_backward) {
  int64_t dims[PLAIN_RANK + 1] = { n };
  if (!n && !shape_of(s, body, dims + 1)) memset(dims, 0, sizeof dims);
  if (n) memcpy(dims + 1, rows[0].dims, (size_t)body->rank * sizeof *dims);
  struct plain y = plain_new((weft_dtype)body->dtype, body->rank + 1, dims);
  for (int64_t t = 0; t < n; t++) {
    size_t bytes = (size_t)rows[t].count * weft_dtype_bytes(y.dtype);
    memcpy(y.data + (size_t)(is_backward ? n - 1 - t : t) * bytes, rows[t].data, bytes);
    plain_free(&rows[t]);
  }
  return y;
}

/* The results of a loop: all steps of n_all, the last of n_carry, how many there were. */
static bool loop(struct stage *s, const struct node *n, const struct plain *const in[], struct found *f) {
  enum { LONGEST = 1 << 20 };
  const struct loop *l = loop_of(n);
  int n_body = l->n_carry + l->n_all + (l->until != NULL), n_var = l->n_seq + l->n_carry + l->n_const;
  int64_t steps = l->has_steps ? plain_i(in[0], 0) : l->steps == INT64_MAX ? LONGEST : size_of(s, l->steps), done = 0;
  if (steps < 0) return no("a loop of %lld steps", (long long)steps);
  if (steps > LONGEST) steps = LONGEST;
  if (l->has_steps) bind(&s->sizes, l->steps, steps);
  struct node **body = room_for((size_t)n_body, sizeof *body);
  const struct node **var = room_for((size_t)n_var, sizeof *var);
  const struct plain **value = room_for((size_t)n_var, sizeof *value);
  struct plain *carry = room_for((size_t)l->n_carry, sizeof *carry), *row = room_for((size_t)l->n_seq, sizeof *row),
               *now = room_for((size_t)n_body, sizeof *now), **all = room_for((size_t)l->n_all, sizeof *all);
  int v = 0, room = 0;
  for (int k = 0; k < l->n_carry; k++) body[k] = l->next[k], carry[k] = plain_cast(in[loop_in_carry(l, k)], in[loop_in_carry(l, k)]->dtype);
  for (int k = 0; k < l->n_all; k++) body[l->n_carry + k] = l->all[k];
  if (l->until) body[n_body - 1] = l->until;
  for (int k = 0; k < l->n_seq; k++) var[v] = l->seq_var[k], value[v++] = &row[k];
  for (int k = 0; k < l->n_carry; k++) var[v] = l->carry_var[k], value[v++] = &carry[k];
  for (int k = 0; k < l->n_const; k++) var[v] = l->const_var[k], value[v++] = in[loop_in_const(l, k)];
  bool ok = true;
  for (int64_t t = 0, is_over = 0; ok && t < steps && !is_over; t++) {
    if (t == room) {
      room = 2 * room + 16;
      for (int k = 0; k < l->n_all; k++) if (!(all[k] = realloc(all[k], sizeof **all * (size_t)room))) abort();
    }
    for (int k = 0; k < l->n_seq; k++) row[k] = row_of(in[loop_in_seq(l, k)], l->is_backward ? steps - 1 - t : t);
    ok = evaluate(s, n_var, var, value, n_body, body, now);
    for (int k = 0; k < l->n_seq; k++) plain_free(&row[k]);
    if (!ok) break;
    for (int k = 0; k < l->n_carry; k++) plain_free(&carry[k]), carry[k] = now[k];
    for (int k = 0; k < l->n_all; k++) all[k][done] = now[l->n_carry + k];
    done++;
    if (l->until) is_over = plain_i(&now[n_body - 1], 0), plain_free(&now[n_body - 1]);
  }
  bind(&s->sizes, l->length, done);
  f->n = l->n_all + l->n_carry + 1;
  f->out = room_for((size_t)f->n, sizeof *f->out);
  for (int k = 0; k < l->n_all; k++) f->out[k] = stacked(s, l->all[k], done, all[k], l->is_backward), free(all[k]);
  for (int k = 0; k < l->n_carry; k++) f->out[l->n_all + k] = carry[k];
  f->out[f->n - 1] = plain_new(WEFT_I64, 0, NULL);
  plain_set_i(&f->out[f->n - 1], 0, done);
  free(body), free(var), free(value), free(carry), free(row), free(now), free(all);
  return ok;
}

/* What is written when sizes are known is written of names that have those of the operands. */
static bool later(struct stage *s, const struct node *n, const struct plain *const in[], struct found *f) {
  struct node **name = room_for((size_t)n->n_in, sizeof *name), *y = NULL;
  struct failure *cause = NULL;
  bool ok = true;
  for (int k = 0; k < n->n_in; k++) ok &= (name[k] = node_make(&op_input, in[k]->dtype, in[k]->rank, in[k]->dims, 0, NULL, NULL, 0)) != NULL;
  if (ok && !(y = later_written(n, name, &cause))) ok = no("%s", failure_message(cause));
  failure_release(cause);
  f->n = ok, f->out = room_for(1, sizeof *f->out);
  ok = ok && evaluate(s, n->n_in, (const struct node **)name, (const struct plain **)(uintptr_t)in, 1, &y, f->out);
  if (!ok) f->n = 0;
  node_release(y), nodes_release(n->n_in, name), free(name);
  return ok;
}

/* A call is its body on what it is given; sizes of its inputs are those of the arguments. */
static bool call(struct stage *s, const struct node *n, const struct plain *const in[], struct found *f) {
  const struct weft_function *g = ((const struct call_attr *)n->attr)->function;
  const struct node **given = room_for((size_t)g->n_in, sizeof *given);
  const struct plain **value = room_for((size_t)g->n_in, sizeof *value);
  for (int i = 0; i < g->n_in; i++) given[i] = g->in[i], value[i] = in[i];
  f->n = g->n_out;
  f->out = room_for((size_t)f->n, sizeof *f->out);
  bool ok = evaluate(s, g->n_in, given, value, g->n_out, g->out, f->out);
  if (!ok) f->n = 0;
  free(given), free(value);
  return ok;
}

/* ---- graphs ---- */

static struct found *slot(struct stage *s, const struct node *n) {
  size_t at = ((uintptr_t)n >> 4) * 0x9e3779b97f4a7c15u % (size_t)s->room;
  while (s->found[at].node && s->found[at].node != n) at = (at + 1) % (size_t)s->room;
  return &s->found[at];
}

static void note(struct stage *s, struct found f) {
  if (2 * s->n_found >= s->room) {
    struct found *old = s->found;
    int n = s->room;
    s->room = 2 * n + 64;
    s->found = room_for((size_t)s->room, sizeof *s->found);
    for (int i = 0; i < n; i++) if (old[i].node) *slot(s, old[i].node) = old[i];
    free(old);
  }
  *slot(s, f.node) = f;
  s->n_found++;
}

static const struct plain *given_to(const struct stage *s, const struct node *n) {
  for (int i = 0; i < s->n_given; i++) if (s->given[i] == n) return s->value[i];
  return NULL;
}

static const struct plain *value_of(struct stage *s, const struct node *n) {
  const struct plain *is_given = given_to(s, n);
  if (is_given) return is_given;
  int k = n->op == &op_item && !n->value ? ((const struct item_attr *)n->attr)->k : 0;
  const struct found *f = find(s, n->op == &op_item && !n->value ? n->in[0] : n);
  return f ? &f->out[k] : NULL;
}

/* Checkpoints and own rules pass their first operands on, one for each result. */
static bool pass(const struct node *n, const struct plain *const in[], struct found *f) {
  f->n = n->op->many->count(n);
  f->out = room_for((size_t)f->n, sizeof *f->out);
  for (int k = 0; k < f->n; k++) f->out[k] = plain_cast(in[k], in[k]->dtype);
  return true;
}

static double eighth(int64_t q) { /* e4m3 */
  int64_t e = q >> 3 & 15, m = q & 7;
  if (e == 15 && m == 7) return (double)NAN;
  return (q & 128 ? -1 : 1) * (e ? ldexp((double)(8 + m), (int)e - 10) : ldexp((double)m, -9));
}

/* Codes in words, of groups with a scale each; attr: the length of a group, the bits, the mode. */
static struct plain plain_codes(const struct plain *const in[], const int64_t *attr) {
  static const double quarter[] = { 0, 0.5, 1, 1.5, 2, 3, 4, 6 };
  int64_t dims[PLAIN_RANK], group = attr[0], bits = attr[1], mode = attr[2];
  for (int k = 0; k < in[1]->rank; k++) dims[k] = in[1]->dims[k];
  dims[in[1]->rank - 1] *= group;
  struct plain y = plain_new(in[1]->dtype == WEFT_F64 ? WEFT_F64 : WEFT_F32, in[1]->rank, dims);
  for (int64_t i = 0; i < y.count; i++) {
    int64_t code = 0;
    for (int64_t k = 0; k < bits; k++) code |= (plain_i(in[0], (i * bits + k) / 32) >> (i * bits + k) % 32 & 1) << k;
    if (mode == WEFT_CODES_AFFINE) {
      double s = plain_f(in[1], i / group), b = plain_f(in[2], i / group);
      plain_set_f(&y, i, y.dtype == WEFT_F32 ? (double)((float)code * (float)s + (float)b) : (double)code * s + b);
      continue;
    }
    double q = bits == 8 ? eighth(code) : (code & 8 ? -1 : 1) * quarter[code & 7];
    double s = in[1]->dtype == WEFT_U8 ? mode == WEFT_CODES_NVFP4 ? eighth(plain_i(in[1], i / group))
             : ldexp(1, (int)plain_i(in[1], i / group) - 127) : plain_f(in[1], i / group);
    plain_set_f(&y, i, (double)((float)q * (float)s));
  }
  return y;
}

/* x w or x w' with what codes stand for, of matrices side by side or at the places of the last two operands; attr: as above, then
 * whether it is transposed, and whether there are places. Added in the order of all products. */
static struct plain plain_code_product(const struct plain *const in[], const int64_t *attr) {
  const struct plain *x = in[0], *at = attr[4] ? in[attr[2] == WEFT_CODES_AFFINE ? 4 : 3] : NULL;
  struct plain w = plain_codes(in + 1, attr);
  int64_t m = x->dims[x->rank - 2], k = x->dims[x->rank - 1], rows = w.dims[w.rank - 2], each = w.dims[w.rank - 1];
  int64_t n = attr[3] ? rows : each, dims[PLAIN_RANK];
  const struct plain *front = at ? at : x;
  int rank = front->rank - (at ? 0 : 2);
  for (int i = 0; i < rank; i++) dims[i] = front->dims[i];
  dims[rank] = m, dims[rank + 1] = n;
  struct plain y = plain_new(WEFT_F32, rank + 2, dims);
  for (int64_t i = 0; i < y.count; i++) {
    int64_t problem = i / (m * n), of_x = at ? plain_i(at, problem) : problem;
    int64_t of_w = at ? plain_i(in[attr[2] == WEFT_CODES_AFFINE ? 5 : 4], problem) : problem;
    float total = -0.0f, sum = 0;
    for (int64_t j = 0; j < k; j++) {
      if (j && j % 512 == 0) total += sum, sum = 0;
      int64_t column = i % n, row = attr[3] ? column * each + j : j * each + column;
      sum = fmaf((float)plain_f(x, (of_x * m + i / n % m) * k + j), (float)plain_f(&w, of_w * rows * each + row), sum);
    }
    plain_set_f(&y, i, (double)(total + sum));
  }
  plain_free(&w);
  return y;
}

/* Rounded to the dtype after every operation, as there. */
static double rounded(weft_dtype d, double x) { return d == WEFT_F32 ? (double)(float)x : x; }

/* The passes of op/fourier.h as its formula has them: A_l[k, b] at k n / l + b. */
static void plain_fourier(const struct plain *const in[], int n_in, struct plain out[2]) {
  const struct plain *x = in[0], *turns = in[n_in - 1];
  weft_dtype d = x->dtype;
  int64_t n = x->dims[x->rank - 1], half = turns->count / 2;
  double *a = calloc((size_t)n * 4, sizeof *a), *b = a + 2 * n;
  for (int k = 0; k < 2; k++) out[k] = plain_new(d, x->rank, x->dims);
  for (int64_t row = 0; row < x->count / n; row++) {
    for (int64_t i = 0; i < n; i++) a[2 * i] = plain_f(x, row * n + i), a[2 * i + 1] = n_in == 3 ? plain_f(in[1], row * n + i) : 0;
    for (int64_t l = 1, r, at = 0; l < n; l *= r) {
      int64_t left = n / l, odd = left;
      while (odd % 2 == 0) odd /= 2;
      for (r = odd > 1 ? 3 : left % 4 ? 2 : 4; odd > 1 && odd % r; r += 2) continue;
      int64_t rest = n / (l * r);
      for (int64_t k = 0; k < l; k++)
        for (int64_t i = 0; i < rest; i++) {
          double z[4][2];
          for (int64_t v = 0; v < r && r % 2 == 0; v++) {
            const double *from = a + 2 * (k * left + i + v * rest);
            double c = v && l > 1 ? plain_f(turns, at + (v - 1) * l + k) : 1, s = v && l > 1 ? plain_f(turns, half + at + (v - 1) * l + k) : 0;
            bool is_turned = v && l > 1;
            z[v][0] = is_turned ? rounded(d, rounded(d, from[0] * c) - rounded(d, from[1] * s)) : from[0];
            z[v][1] = is_turned ? rounded(d, rounded(d, from[0] * s) + rounded(d, from[1] * c)) : from[1];
          }
          for (int64_t u = 0; u < r; u++) {
            double *to = b + 2 * ((k + l * u) * rest + i);
            if (r == 2) {
              for (int q = 0; q < 2; q++) to[q] = rounded(d, u ? z[0][q] - z[1][q] : z[0][q] + z[1][q]);
            } else if (r == 4) {
              double p[2], m[2];
              for (int q = 0; q < 2; q++) p[q] = rounded(d, u % 2 ? z[0][q] - z[2][q] : z[0][q] + z[2][q]), m[q] = rounded(d, u % 2 ? z[1][q] - z[3][q] : z[1][q] + z[3][q]);
              to[0] = rounded(d, u == 0 ? p[0] + m[0] : u == 1 ? p[0] + m[1] : u == 2 ? p[0] - m[0] : p[0] - m[1]);
              to[1] = rounded(d, u == 0 ? p[1] + m[1] : u == 1 ? p[1] - m[0] : u == 2 ? p[1] - m[1] : p[1] + m[0]);
            } else {
              to[0] = a[2 * (k * left + i)], to[1] = a[2 * (k * left + i) + 1];
              for (int64_t v = 1; v < r; v++) {
                const double *from = a + 2 * (k * left + i + v * rest);
                int64_t j = v * (k + l * u) % (l * r);
                double c = plain_f(turns, at + j), s = plain_f(turns, half + at + j);
                to[0] = rounded(d, to[0] + rounded(d, rounded(d, from[0] * c) - rounded(d, from[1] * s)));
                to[1] = rounded(d, to[1] + rounded(d, rounded(d, from[0] * s) + rounded(d, from[1] * c)));
              }
            }
          }
        }
      at += r % 2 ? r * l : (r - 1) * l;
      double *t = a;
      a = b, b = t;
    }
    for (int64_t i = 0; i < n; i++) for (int k = 0; k < 2; k++) plain_set_f(&out[k], row * n + i, a[2 * i + k]);
  }
  free(a < b ? a : b);
}

/* Sums over the columns of a kernel, in single precision and in order, and those of its rows added in order. */
static struct plain plain_depthwise(const struct node *n, const struct plain *const in[]) {
  const struct depthwise_attr *a = n->attr;
  const struct plain *x = in[0], *w = in[1];
  dim dims[WEFT_RANK_MAX];
  int64_t wide[PLAIN_RANK];
  int rank, at = a->are_planes ? 2 : 1, channel = a->are_planes ? 1 : 3;
  n->op->many->type(n, 0, &rank, dims);
  for (int k = 0; k < rank; k++) wide[k] = dims[k];
  struct plain y = plain_new(WEFT_F32, rank, wide);
  const int64_t *size = x->dims + rank - 4, *kernel = w->dims + rank - 4, *out = wide + rank - 4;
  for (int64_t i = 0; i < y.count; i++) {
    int64_t place[4], rest = i, groups = size[channel], batch;
    for (int k = 3; k >= 0; k--) place[k] = rest % out[k], rest /= out[k];
    batch = rest;
    int64_t o = place[channel], c = o / (kernel[0] / groups);
    float sum = 0;
    for (int64_t p = 0; p < kernel[1]; p++) {
      float one = 0;
      for (int64_t k = 0; k < kernel[2]; k++) {
        int64_t r = place[at] * a->c.stride[0] + p * a->c.dilation[0] - a->c.before[0], s = place[at + 1] * a->c.stride[1] + k * a->c.dilation[1] - a->c.before[1];
        bool is_there = r >= 0 && r < size[at] && s >= 0 && s < size[at + 1];
        int64_t of = a->are_planes ? ((place[0] * groups + c) * size[2] + r) * size[3] + s : ((place[0] * size[1] + r) * size[2] + s) * groups + c;
        float v = is_there ? (float)plain_f(x, batch * size[0] * size[1] * size[2] * size[3] + of) : 0;
        float f = (float)plain_f(w, ((batch * kernel[0] + o) * kernel[1] + p) * kernel[2] + k);
        one = one + v * f;
      }
      sum = p ? sum + one : one;
    }
    plain_set_f(&y, i, (double)sum);
  }
  return y;
}

/* Gauss, with the largest pivot of each column: the rows of [a b] in order, then a's triangle. Returns the pivot that is 0. */
static int64_t eliminate(int64_t n, int64_t m, double *a, double *b, double *sign) {
  int64_t zero = 0;
  *sign = 1;
  for (int64_t k = 0; k < n; k++) {
    int64_t p = k;
    for (int64_t i = k + 1; i < n; i++) if (fabs(a[i * n + k]) > fabs(a[p * n + k])) p = i;
    for (int64_t j = 0; p != k && j < n; j++) { double t = a[k * n + j]; a[k * n + j] = a[p * n + j], a[p * n + j] = t; }
    for (int64_t j = 0; p != k && j < m; j++) { double t = b[k * m + j]; b[k * m + j] = b[p * m + j], b[p * m + j] = t; }
    if (p != k) *sign = -*sign;
    if (!zero && !(fabs(a[k * n + k]) > 0)) zero = k + 1;
    for (int64_t i = k + 1; i < n && a[k * n + k] != 0; i++) {
      double f = a[i * n + k] / a[k * n + k];
      for (int64_t j = k + 1; j < n; j++) a[i * n + j] -= f * a[k * n + j];
      for (int64_t j = 0; j < m; j++) b[i * m + j] -= f * b[k * m + j];
    }
  }
  return zero;
}

/* t x = b by substitution, from the last row or the first. */
static void substitute(int64_t n, int64_t m, const double *a, double *b, bool is_upper, bool is_unit) {
  for (int64_t s = 0; s < n; s++) {
    int64_t i = is_upper ? n - 1 - s : s;
    for (int64_t k = is_upper ? i + 1 : 0; k < (is_upper ? n : i); k++)
      for (int64_t j = 0; j < m; j++) b[i * m + j] -= a[i * n + k] * b[k * m + j];
    for (int64_t j = 0; j < m && !is_unit; j++) b[i * m + j] /= a[i * n + i];
  }
}

/* The first of the diagonal that is no number to divide by. */
static int64_t missing_pivot(int64_t n, const double *a) {
  for (int64_t i = 0; i < n; i++) if (a[i * n + i] == 0 || isnan(a[i * n + i])) return i + 1;
  return 0;
}

/* Crout's order: an element at a time, of the rows that `order` names; the pivot is the largest of what is left of a column. */
static int64_t lu_factor(int64_t n, double *a, double *order) {
  int64_t zero = 0;
  for (int64_t i = 0; i < n; i++) order[i] = (double)i;
  for (int64_t j = 0; j < n; j++) {
    int64_t best = j;
    for (int64_t i = 0; i < n; i++) {
      for (int64_t k = 0; k < i && k < j; k++) a[i * n + j] -= a[i * n + k] * a[k * n + j];
      if (i > j && fabs(a[i * n + j]) > fabs(a[best * n + j])) best = i;
    }
    for (int64_t k = 0; k < n && best != j; k++) { double t = a[j * n + k]; a[j * n + k] = a[best * n + k], a[best * n + k] = t; }
    double t = order[j];
    order[j] = order[best], order[best] = t;
    if (!zero && !(fabs(a[j * n + j]) > 0)) zero = j + 1;
    for (int64_t i = j + 1; i < n && a[j * n + j] != 0; i++) a[i * n + j] /= a[j * n + j];
  }
  return zero;
}

static void turn(int64_t n, double *a) {
  for (int64_t i = 0; i < n; i++)
    for (int64_t k = 0; k < i; k++) { double t = a[i * n + k]; a[i * n + k] = a[k * n + i], a[k * n + i] = t; }
}

static int64_t lower_factor(int64_t n, double *a) {
  for (int64_t j = 0; j < n; j++) { /* column by column */
    double d = a[j * n + j];
    for (int64_t k = 0; k < j; k++) d -= a[j * n + k] * a[j * n + k];
    if (!(d > 0)) return j + 1;
    a[j * n + j] = sqrt(d);
    for (int64_t i = j + 1; i < n; i++) {
      double s = a[i * n + j];
      for (int64_t k = 0; k < j; k++) s -= a[i * n + k] * a[j * n + k];
      a[i * n + j] = s / a[j * n + j];
    }
  }
  return 0;
}

/* By Laplace: the determinant of what is left of a [n, n] without a row and a column, with its sign. */
static double cofactor(int64_t n, const double *a, int64_t row, int64_t column) {
  int64_t m = n - 1;
  double *rest = calloc((size_t)(m * m + 1), sizeof *rest), sign, det;
  for (int64_t i = 0; i < m * m; i++) rest[i] = a[(i / m + (i / m >= row)) * n + i % m + (i % m >= column)];
  eliminate(m, 0, rest, rest, &sign);
  det = (row + column) % 2 ? -sign : sign;
  for (int64_t i = 0; i < m; i++) det *= rest[i * m + i];
  free(rest);
  return det;
}

/* A determinant is linear in every row: its derivative in k directions is the sum over all ways to take k rows of it from these,
 * one of each. is_taken: rows that are not of a any more. */
static double cofactor_change(int64_t n, double *a, int k, const double *e, int64_t row, int64_t column, bool is_taken[]) {
  double sum = 0, *own = calloc((size_t)n + 1, sizeof *own);
  if (!k) sum = cofactor(n, a, row, column);
  for (int64_t i = 0; i < n && k; i++) {
    if (i == row || is_taken[i]) continue;
    memcpy(own, a + i * n, (size_t)n * sizeof *own);
    memcpy(a + i * n, e + ((k - 1) * n + i) * n, (size_t)n * sizeof *own);
    is_taken[i] = true;
    sum += cofactor_change(n, a, k - 1, e, row, column, is_taken);
    is_taken[i] = false;
    memcpy(a + i * n, own, (size_t)n * sizeof *own);
  }
  free(own);
  return sum;
}

static void plain_cofactors(const struct node *node, const struct plain *const in[], struct plain *y) {
  int64_t n = y->dims[y->rank - 1], each = n * n;
  int k = node->n_in - 1;
  double *a = calloc((size_t)(each * (k + 1)) + 1, sizeof *a);
  bool *is_taken = calloc((size_t)n + 1, sizeof *is_taken);
  for (int64_t p = 0; each && p < y->count / each; p++) {
    for (int64_t i = 0; i < each * (k + 1); i++) a[i] = plain_f(in[i / each], p * each + i % each);
    for (int64_t i = 0; i < each; i++) plain_set_f(y, p * each + i, cofactor_change(n, a, k, a + each, i % n, i / n, is_taken));
  }
  free(a);
  free(is_taken);
}

/* One problem: a [n, n] and b [n, m], both its own. Systems and determinants are computed from the matrix, not from its factors. */
static void plain_problem(const struct node *node, int64_t p, int64_t n, int64_t m, double *a, double *b, struct plain out[]) {
  double sign;
  int64_t status = 0;
  if (node->op == &op_cholesky) {
    status = lower_factor(n, a);
    for (int64_t i = 0; i < n * n; i++) plain_set_f(&out[0], p * n * n + i, i % n > i / n ? 0 : status ? NAN : a[i]);
    plain_set_i(&out[1], p, status);
  } else if (node->op == &op_lu) {
    status = lu_factor(n, a, b);
    for (int64_t i = 0; i < n * n; i++) plain_set_f(&out[0], p * n * n + i, a[i]);
    for (int64_t i = 0; i < n; i++) plain_set_i(&out[1], p * n + i, (int64_t)b[i]);
    plain_set_i(&out[2], p, status);
  } else if (node->op == &op_adjugate) {
    for (int64_t i = 0; i < n * n; i++) plain_set_f(&out[0], p * n * n + i, cofactor(n, a, i % n, i / n));
  } else if (node->op == &op_determinant) {
    eliminate(n, 0, a, a, &sign);
    double det = sign;
    for (int64_t i = 0; i < n; i++) {
      double d = a[i * n + i];
      plain_set_f(&out[1], p * n + i, fabs(d));
      det *= d, sign = isnan(d) || d == 0 ? d : d < 0 ? -sign : sign;
    }
    plain_set_f(&out[0], p, sign == 0 ? 0 : sign), plain_set_f(&out[2], p, det);
  } else {
    const int64_t *t = node->attr;
    if (node->op == &op_cholesky_solve) {
      status = missing_pivot(n, a);
      substitute(n, m, a, b, false, false);
      turn(n, a);
      substitute(n, m, a, b, true, false);
    } else if (node->op == &op_triangle) status = t[1] ? 0 : missing_pivot(n, a), substitute(n, m, a, b, t[0], t[1]);
    else status = eliminate(n, m, a, b, &sign), substitute(n, m, a, b, true, false);
    for (int64_t i = 0; i < n * m; i++) plain_set_f(&out[0], p * n * m + i, status ? NAN : b[i]);
    if (node->op != &op_solve && node->op != &op_inverse) plain_set_i(&out[1], p, status);
  }
}

static void plain_linear(const struct node *node, const struct plain *const in[], struct plain out[]) {
  const struct plain *x = in[0], *right = node->op == &op_solve ? in[4] : node->op == &op_triangle || node->op == &op_cholesky_solve ? in[1] : NULL;
  int64_t n = x->dims[x->rank - 1], m = right ? right->dims[right->rank - 1] : n, batch = 1;
  dim dims[PLAIN_RANK];
  int64_t known[PLAIN_RANK];
  for (int k = 0, rank; k < node->op->many->count(node); k++) {
    weft_dtype d = node->op->many->type(node, k, &rank, dims);
    for (int i = 0; i < rank; i++) known[i] = i < x->rank - 2 ? x->dims[i] : i == rank - 1 && rank == x->rank ? m : n;
    out[k] = plain_new(d, rank, known);
  }
  if (node->op == &op_cofactors) return plain_cofactors(node, in, &out[0]);
  for (int k = 0; k < x->rank - 2; k++) batch *= x->dims[k];
  double *a = calloc((size_t)(n * n + n * m + 1), sizeof *a), *b = a + n * n;
  for (int64_t p = 0; p < batch; p++) {
    for (int64_t i = 0; i < n * n; i++) a[i] = plain_f(x, p * n * n + i);
    for (int64_t i = 0; i < n * m; i++) b[i] = right ? plain_f(right, p * n * m + i) : i / m == i % m;
    if (node->op == &op_solve && *(const int64_t *)node->attr) turn(n, a);
    plain_problem(node, p, n, m, a, b, out);
  }
  free(a);
}

/* The bin of x: the last edge but one that is not above it; without edges, x. n: none. */
static int64_t plain_bin(const struct plain *x, int64_t i, const struct plain *edges, int64_t from, int64_t n) {
  if (!edges) return plain_i(x, i);
  double v = plain_is_float(x->dtype) ? plain_f(x, i) : x->dtype == WEFT_U64 ? (double)(uint64_t)plain_i(x, i) : (double)plain_i(x, i);
  int64_t bin = n;
  if (!n || !(v <= plain_f(edges, from + n))) return n;
  for (int64_t k = 0; k < n && plain_f(edges, from + k) <= v; k++) bin = k;
  return bin;
}

/* All counts stand in the first of the parts that are added afterwards. */
static struct plain plain_bins(const struct node *node, const struct plain *const in[]) {
  const struct plain *x = in[0], *ruler = in[1], *edges = *(const int *)node->attr ? ruler : NULL;
  int64_t dims[PLAIN_RANK], length = x->dims[x->rank - 1], each = ruler->dims[ruler->rank - 1], n = each - (edges && each), batch = 1;
  int64_t least = 8 * n > 1 << 16 ? 8 * n : 1 << 16, parts = length / least < 15 ? 1 + length / least : 16;
  bool counts = node->op == &op_tally;
  memcpy(dims, x->dims, sizeof *dims * (size_t)x->rank);
  for (int k = 0; k < x->rank - 1; k++) batch *= x->dims[k];
  if (counts) dims[x->rank - 1] = parts, dims[x->rank] = n;
  struct plain y = plain_new(WEFT_I64, x->rank + counts, dims);
  for (int64_t i = 0; counts && i < y.count; i++) plain_set_i(&y, i, 0);
  for (int64_t p = 0; p < batch; p++)
    for (int64_t i = 0; i < length; i++) {
      int64_t bin = plain_bin(x, p * length + i, edges, p * each, n), at = p * parts * n + bin;
      if (!counts) plain_set_i(&y, p * length + i, bin);
      else if (bin < n) plain_set_i(&y, at, plain_i(&y, at) + 1);
    }
  return y;
}

static bool library(const struct node *n, const struct plain *const in[], struct found *f) {
  if (!plain_knows(n->op)) return no("%s: the plain evaluator does not know it", n->op->name);
  if (is_linear(n->op)) {
    f->n = n->op->many->count(n);
    f->out = room_for((size_t)f->n, sizeof *f->out);
    plain_linear(n, in, f->out);
    return true;
  }
  if (n->op == &op_tally || n->op == &op_bins) {
    f->n = 1;
    f->out = room_for(1, sizeof *f->out);
    f->out[0] = plain_bins(n, in);
    return true;
  }
  if (n->op == &op_code_product) {
    f->n = 1;
    f->out = room_for(1, sizeof *f->out);
    f->out[0] = plain_code_product(in, n->attr);
    return true;
  }
  if (n->op == &op_turns) { /* which plain_fourier does not read */
    int64_t dims[PLAIN_RANK];
    int rank;
    weft_dtype d = n->op->many->type(n, 0, &rank, dims);
    f->n = 1;
    f->out = room_for(1, sizeof *f->out);
    f->out[0] = plain_new(d, rank, dims);
    return true;
  }
  if (n->op == &op_fourier) {
    f->n = 2;
    f->out = room_for(2, sizeof *f->out);
    plain_fourier(in, n->n_in, f->out);
    return true;
  }
  if (n->op == &op_depthwise) {
    f->n = 1;
    f->out = room_for(1, sizeof *f->out);
    f->out[0] = plain_depthwise(n, in);
    return true;
  }
  if (n->op == &op_host) { /* the one function that random programs call (program_composed.c): 2 x + 1 */
    f->n = 1;
    f->out = room_for(1, sizeof *f->out);
    f->out[0] = plain_new(in[0]->dtype, in[0]->rank, in[0]->dims);
    for (int64_t i = 0; i < in[0]->count; i++) plain_set_f(&f->out[0], i, 2 * plain_f(in[0], i) + 1);
    return true;
  }
  if (n->op == &op_dequantize) {
    f->n = 1;
    f->out = room_for(1, sizeof *f->out);
    f->out[0] = plain_codes(in, n->attr);
    return true;
  }
  f->n = 2;
  f->out = room_for(2, sizeof *f->out);
  for (int k = 0; k < 2; k++) {
    struct plain sorted = plain_sort(in[0], in[0]->rank - 1, k);
    f->out[k] = n->op == &op_sort ? sorted : plain_ranks(&sorted, in[0]->rank - 1, n->attr);
    if (n->op != &op_sort) plain_free(&sorted);
  }
  return true;
}

static bool is_under_way(const struct stage *s, const struct node *n) {
  for (const struct under_way *u = s->under_way; u; u = u->next) if (u->node == n) return true;
  return false;
}

static const struct found *find(struct stage *s, const struct node *n) {
  if (s->room && slot(s, n)->node) return slot(s, n);
  if (is_under_way(s, n)) return no("%s: it waits for a size of its own, which is not known", n->op->name), NULL;
  bool is_leaf = n->value || n->op->kind == OP_LEAF, ok = true;
  const struct plain **in = room_for((size_t)n->n_in, sizeof *in);
  struct found f = { .node = n };
  if (n->op == &op_loop && n->n_in) ok = bind_steps(s, n);
  struct under_way here = { n, s->under_way };
  if (n->op == &op_loop || n->op == &op_call) s->under_way = &here;
  bool is_told = n->op == &op_size && number_of(s, ((const struct size_attr *)n->attr)->size) >= 0;
  for (int k = 0; ok && !is_leaf && !is_told && k < n->n_in; k++) {
    struct plain copy; /* the table may grow, but elements stay where they are */
    const struct plain *x = value_of(s, n->in[k]);
    if (!(ok = x != NULL)) break;
    copy = *x;
    in[k] = memcpy(room_for(1, sizeof copy), &copy, sizeof copy);
  }
  if (ok && is_leaf) f.n = 1, f.out = room_for(1, sizeof *f.out), ok = leaf(s, n, f.out);
  else if (ok && n->op == &op_loop) ok = loop(s, n, in, &f);
  else if (ok && n->op == &op_call) ok = call(s, n, in, &f);
  else if (ok && n->op == &op_later) ok = later(s, n, in, &f);
  else if (ok && n->op->kind == OP_LIBRARY) ok = library(n, in, &f);
  else if (ok && n->op->many) ok = pass(n, in, &f);
  else if (ok) f.n = 1, f.out = room_for(1, sizeof *f.out), ok = compute(s, n, in, f.out);
  s->under_way = here.next;
  for (int k = 0; !is_leaf && k < n->n_in; k++) free((void *)(uintptr_t)in[k]);
  free(in);
  if (ok) return note(s, f), slot(s, n);
  for (int k = 0; k < f.n; k++) plain_free(&f.out[k]);
  free(f.out);
  return NULL;
}

static bool evaluate(struct stage *outer, int n_given, const struct node **given, const struct plain **value, int n,
                     struct node *const target[], struct plain out[]) {
  struct stage s = { .outer = outer, .n_given = n_given, .given = given, .value = value, .n_targets = n, .target = target };
  bool ok = true;
  int i = 0;
  for (int k = 0; k < n_given; k++)
    for (int j = 0; j < given[k]->rank; j++) bind(&s.sizes, given[k]->dims[j], value[k]->dims[j]);
  for (; ok && i < n; i++) {
    const struct plain *x = value_of(&s, target[i]);
    if ((ok = x != NULL)) out[i] = plain_cast(x, x->dtype);
    else break;
  }
  for (int k = 0; !ok && k < i; k++) plain_free(&out[k]);
  for (int j = 0; j < s.room; j++) {
    for (int k = 0; s.found[j].node && k < s.found[j].n; k++) plain_free(&s.found[j].out[k]);
    if (s.found[j].node) free(s.found[j].out);
  }
  free(s.found), free(s.sizes.symbol), free(s.sizes.value);
  return ok;
}

bool plain_graph(int n, weft_array *const y[], int n_given, const struct plain_given given[], struct plain out[]) {
  const struct node **node = room_for((size_t)n_given, sizeof *node);
  const struct plain **value = room_for((size_t)n_given, sizeof *value);
  struct node **target = room_for((size_t)n, sizeof *target);
  bool ok = true;
  for (int i = 0; i < n_given; i++) node[i] = given[i].x->node, value[i] = given[i].value;
  for (int i = 0; ok && i < n; i++) {
    if (weft_check(y[i])) ok = no("%s", weft_message());
    else target[i] = y[i]->node;
  }
  ok = ok && evaluate(NULL, n_given, node, value, n, target, out);
  free(node), free(value), free(target);
  return ok;
}

/* ---- as doubles ---- */

int64_t elements(weft_array *a) { return dim_count(a->node->rank, a->node->dims); }

static struct plain from_doubles(const struct node *n, const double *x) {
  struct plain y = plain_new((weft_dtype)n->dtype, n->rank, n->dims);
  for (int64_t i = 0; i < y.count; i++) plain_is_float(y.dtype) ? plain_set_f(&y, i, x[i]) : plain_set_i(&y, i, (int64_t)x[i]);
  return y;
}

double *reference(weft_array *y, int n, const struct binding given[]) {
  struct plain_given *g = room_for((size_t)n, sizeof *g);
  struct plain *x = room_for((size_t)n, sizeof *x), z;
  double *out = NULL;
  for (int i = 0; i < n; i++) x[i] = from_doubles(given[i].x->node, given[i].data), g[i] = (struct plain_given){ given[i].x, &x[i] };
  if (plain_graph(1, &y, n, g, &z)) {
    out = room_for((size_t)z.count, sizeof *out);
    for (int64_t i = 0; i < z.count; i++) out[i] = z.dtype == WEFT_U64 ? (double)(uint64_t)plain_i(&z, i) : plain_f(&z, i);
    plain_free(&z);
  }
  for (int i = 0; i < n; i++) plain_free(&x[i]);
  free(x), free(g);
  plain_end();
  return out;
}
