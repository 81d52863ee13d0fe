/* code_product.c -- products with weights of few bits: x w and x w', of batches and of matrices that are chosen by their places.
 *
 * A library step (codes.h) reads the codes once, and what they stand for is never stored. It has the bits of the product with what
 * weft_dequantize gives in f32. Everything that does not multiply matrices side by side, one for one, is chosen by places: batches
 * that stretch, and rows of a map. */
#include <string.h>
#include "op/index.h"
#include "op/quantize.h"

/* ---- the step: in x[.., m, k], words, scales and biases [.., rows, ..], places of x and of words i64; out [.., m, n] ---- */

/* The operand that has places of x; then come those of words. */
static int at_x(const struct code_attr *a) { return 1 + code_operands(a); }
static int n_operands(const struct code_attr *a) { return at_x(a) + (a->is_gathered ? 2 : 0); }

static struct codes_product product_of(const struct library_call *c) {
  const struct library_array *x = &c->in[0], *y = &c->out[0];
  const struct code_attr *a = c->attr;
  return (struct codes_product){ .is_transposed = a->is_transposed, .m = x->dims[x->rank - 2], .k = x->dims[x->rank - 1],
                                 .n = y->dims[y->rank - 1], .each = x->dims[x->rank - 2] };
}

static int64_t n_places(const struct library_call *c) {
  const struct code_attr *a = c->attr;
  int64_t n = 1;
  for (int k = 0; a->is_gathered && k < c->in[at_x(a)].rank; k++) n *= c->in[at_x(a)].dims[k];
  return n;
}

static int64_t n_matrices(const struct library_array *x) {
  int64_t n = 1;
  for (int k = 0; k < x->rank - 2; k++) n *= x->dims[k];
  return n;
}

static int batch_axes(const void *attr) { return (int)((const struct code_attr *)attr)->batch; }
static int64_t parts(const struct library_call *c) { return codes_parts(c->out[0].dims[c->out[0].rank - 1]); }

static size_t scratch(const struct library_call *c) {
  struct codes_product p = product_of(c);
  p.m *= n_places(c);
  return codes_room(&p);
}

static double operations(const struct library_call *c) {
  struct codes_product p = product_of(c);
  double matrices = (double)c->n_problems * (double)n_places(c);
  return matrices * (double)p.n * (double)p.k * (double)(2 + p.m);
}

/* Parts from .. to - 1 of problem i. */
static void run_dense(const struct library_call *c, int64_t i, int64_t from, int64_t to, void *room) {
  struct codes_product p = product_of(c);
  p.w = codes_of_call(c, c->attr, 1, i);
  p.x = (const void *)(c->in[0].data + i * c->in[0].each), p.y = (void *)(c->out[0].data + i * c->out[0].each);
  codes_product(&p, from, to, room);
}

/* An index, counted from 0, of which matrix is multiplied, or by which. */
static struct failure *no_matrix(const struct library_call *c, int k, int64_t place, int64_t index) {
  return fail(WEFT_ERR_INDEX, c->origin, "weft_gather_qmm: the index %lld at place %lld is out of range for %lld matrices of %s",
              (long long)index, (long long)place, (long long)n_matrices(&c->in[k]), k ? "codes" : "x");
}
static struct failure *tell_x(const struct library_call *c, int64_t place, int64_t index) { return no_matrix(c, 0, place, index); }
static struct failure *tell_w(const struct library_call *c, int64_t place, int64_t index) { return no_matrix(c, 1, place, index); }
static library_tell *const tell[] = { tell_x, tell_w };

/* Neighbours that chose the same codes are one product, of more rows. */
static struct failure *run_gathered(const struct library_call *c, int64_t from, int64_t to, void *room) {
  const struct code_attr *a = c->attr;
  const int64_t *x = (const void *)c->in[at_x(a)].data, *w = (const void *)c->in[at_x(a) + 1].data;
  int64_t n = n_places(c), xs = n_matrices(&c->in[0]), ws = n_matrices(&c->in[1]);
  struct codes_product p = product_of(c);
  int64_t m = p.m;
  p.w = codes_of_call(c, a, 1, 0);
  int64_t words = p.w.rows * p.w.n * a->bits / 32, scales = p.w.rows * p.w.n / a->group;
  const uint8_t *s = p.w.scales, *b = p.w.biases;
  p.x = (const void *)c->in[0].data;
  for (int64_t i = 0; i < n; i++) if (x[i] < 0 || x[i] >= xs) return tell_x(c, i, x[i]);
  for (int64_t i = 0; i < n; i++) if (w[i] < 0 || w[i] >= ws) return tell_w(c, i, w[i]);
  const uint32_t *all = p.w.words;
  for (int64_t i = 0, next; i < n; i = next) {
    for (next = i + 1; next < n && w[next] == w[i]; ) next++;
    p.m = (next - i) * m, p.at = x + i, p.y = (float *)(void *)c->out[0].data + i * m * p.n;
    p.w.words = all + w[i] * words;
    p.w.scales = s + w[i] * scales * (int64_t)weft_dtype_bytes(c->in[2].dtype);
    if (b) p.w.biases = b + w[i] * scales * (int64_t)weft_dtype_bytes(c->in[3].dtype);
    codes_product(&p, from, to, room);
  }
  return NULL;
}

static struct failure *run(const struct library_call *c, int64_t from, int64_t to, void *room) {
  int64_t each = parts(c);
  if (!c->in[0].dims[c->in[0].rank - 2]) return NULL;
  if (((const struct code_attr *)c->attr)->is_gathered) return run_gathered(c, from, to, room);
  for (int64_t i = from; i < to; ) {
    int64_t problem = i / each, end = (problem + 1) * each < to ? (problem + 1) * each : to;
    run_dense(c, problem, i - problem * each, end - problem * each, room);
    i = end;
  }
  return NULL;
}

static const struct library steps = { .batch_axes = batch_axes, .parts = parts, .operations = operations, .scratch = scratch,
                                      .run = run, .routine = "code_product", .numbers = code_numbers, .n_checks = 2,
                                      .tell = tell };

static int n_results(const struct node *n) { return (void)n, 1; }

static weft_dtype type(const struct node *n, int k, int *rank, dim dims[]) {
  const struct code_attr *a = n->attr;
  const struct node *x = n->in[0], *w = n->in[1], *s = n->in[2], *places = a->is_gathered ? n->in[at_x(a)] : x;
  int front = places->rank - (a->is_gathered ? 0 : 2);
  (void)k;
  *rank = front + 2;
  memcpy(dims, places->dims, (size_t)front * sizeof *dims);
  dims[front] = x->dims[x->rank - 2];
  dims[front + 1] = a->is_transposed ? w->dims[w->rank - 2] : dim_mul(s->dims[s->rank - 1], a->group);
  return WEFT_F32;
}

static weft_array *step(weft_array *const in[], const struct code_attr *a) {
  return library_one(&op_code_product, n_operands(a), in, a, sizeof *a, 1, 0);
}

/* ---- derivatives ---- */

static weft_array *turned(weft_array *x) { return weft_moveaxis(x, -1, -2); }
static weft_array *in_line(weft_array *at) {
  return weft_rank(at) == 1 ? at : weft_rank(at) ? weft_flatten(at, 0, -1) : weft_unsqueeze(at, 0);
}

/* What matrices at these places get: those of several places the sum. */
static weft_array *spread(weft_array *like, weft_array *at, weft_array *d) {
  weft_array *none = weft_full_like(like, 0);
  return weft_put(none, weft_take(none, 1, &at), weft_cast(d, weft_dtype_of(like)), WEFT_ADD);
}

/* y = x w': dx = dy w, dw = dy' x. y = x w: dx = dy w', dw = x' dy. */
static weft_array *weights_vjp(const struct code_attr *a, weft_array *x, weft_array *dy) {
  return a->is_transposed ? weft_matmul(turned(dy), x) : weft_matmul(turned(x), dy);
}

static void dense_vjp(const struct rule *r, const bool is_wanted[], weft_array *dy, weft_array *dx[]) {
  struct code_attr other = *(const struct code_attr *)r->node->attr;
  other.is_transposed = !other.is_transposed;
  if (is_wanted[0]) dx[0] = step((weft_array *[]){ dy, r->in[1], r->in[2], r->n_in > 3 ? r->in[3] : NULL }, &other);
  if (!code_is_whole(&other) || (!is_wanted[2] && !is_wanted[3])) return;
  codes_vjp(r->node->attr, r->in + 1, weights_vjp(r->node->attr, r->in[0], dy), is_wanted + 1, dx + 1);
}

/* Derivatives by the matrices that were chosen, which are then added up where one was chosen several times. */
static void gathered_vjp(const struct rule *r, const bool is_wanted[], weft_array *dy, weft_array *dx[]) {
  struct code_attr other = *(const struct code_attr *)r->node->attr;
  int at = at_x(&other);
  weft_array *places = r->in[at], *chosen = r->in[at + 1], *in[6];
  memcpy(in, r->in, (size_t)r->n_in * sizeof *in);
  if (is_wanted[0]) {
    other.is_transposed = !other.is_transposed;
    in[0] = weft_rank(dy) == 2 ? weft_unsqueeze(dy, 0) : weft_rank(dy) == 3 ? dy : weft_flatten(dy, 0, -3);
    in[at + 1] = in_line(chosen), in[at] = weft_iota(in[at + 1], 0);
    dx[0] = spread(r->in[0], in_line(places), step(in, &other));
  }
  if (!code_is_whole(&other) || (!is_wanted[2] && !is_wanted[3])) return;
  weft_array *x = weft_take(r->in[0], 1, &places), *codes[3], *d[3] = { NULL, NULL, NULL };
  for (int k = 0; k < 3; k++) codes[k] = weft_take(r->in[1 + k], 1, &chosen);
  codes_vjp(r->node->attr, codes, weights_vjp(r->node->attr, x, dy), is_wanted + 1, d);
  for (int k = 1; k < 3; k++) if (d[k]) dx[1 + k] = spread(r->in[1 + k], chosen, d[k]);
}

static void vjp(const struct rule *r, const bool is_wanted[], weft_array *const dy[], weft_array *dx[]) {
  const struct code_attr *a = r->node->attr;
  if (dy[0]) (a->is_gathered ? gathered_vjp : dense_vjp)(r, is_wanted, dy[0], dx);
}

/* It is linear in x, and in scales and biases together. */
static void jvp(const struct rule *r, weft_array *const dx[], weft_array *dy[]) {
  const struct code_attr *a = r->node->attr;
  weft_array *in[6];
  memcpy(in, r->in, (size_t)r->n_in * sizeof *in);
  if (code_is_whole(a) && (dx[2] || dx[3])) {
    for (int k = 2; k < 4; k++) in[k] = dx[k] ? dx[k] : weft_full_like(r->in[k], 0);
    dy[0] = step(in, a);
    for (int k = 2; k < 4; k++) in[k] = r->in[k];
  }
  if (!dx[0]) return;
  in[0] = dx[0];
  dy[0] = dy[0] ? weft_add(dy[0], step(in, a)) : step(in, a);
}

/* ---- rows of a map ---- */

/* x, the same in every row of a map. */
static weft_array *in_rows(weft_array *x, dim rows) {
  const struct node *n = x->node;
  dim dims[WEFT_RANK_MAX + 1] = { rows };
  if (n->rank == WEFT_RANK_MAX)
    return array_bad(WEFT_ERR_SHAPE, "weft_map: an operand of code_product has rank %d already", n->rank);
  memcpy(dims + 1, n->dims, (size_t)n->rank * sizeof *dims);
  return array_broadcast("weft_map", x, n->rank + 1, dims);
}

/* Places of row i are among the matrices of row i, i times as many further. Rows that are not active choose the first. */
static weft_array *places_in_rows(const struct rule *r, weft_array *at, weft_array *batch, bool is_moved) {
  if (is_moved) {
    weft_array *each = array_of(node_size(node_retain(batch->node), 1, batch->node->dims[1]));
    at = weft_add(at, weft_mul(weft_iota(at, 0), each));
  }
  weft_array *active = r->active;
  if (!active) return at;
  while (weft_rank(active) >= 0 && weft_rank(active) < weft_rank(at)) active = weft_unsqueeze(active, -1);
  return weft_where(active, at, weft_integer(0));
}

/* The matrices of all rows of the map in one batch. Codes that are mapped in part are so in every part. */
static void gathered_batch(const struct rule *r, const bool is_mapped[], weft_array *ys[]) {
  const struct code_attr *a = r->node->attr;
  int at = at_x(a);
  dim rows = 0;
  weft_array *in[6];
  bool are_codes = false;
  for (int k = 0; k < r->n_in; k++) if (is_mapped[k]) rows = r->in[k]->node->dims[0];
  for (int k = 1; k < at; k++) are_codes = are_codes || is_mapped[k];
  for (int k = 0; k < r->n_in; k++) {
    bool is_in_rows = k == 0 ? is_mapped[0] : k >= at || are_codes;
    in[k] = is_in_rows && !is_mapped[k] ? in_rows(r->in[k], rows) : r->in[k];
    if (weft_check(in[k])) { ys[0] = in[k]; return; }
  }
  in[at] = places_in_rows(r, in[at], in[0], is_mapped[0]);
  in[at + 1] = places_in_rows(r, in[at + 1], in[1], are_codes);
  for (int k = 0; k < at; k++) if (k ? are_codes : is_mapped[0]) in[k] = weft_flatten(in[k], 0, 1);
  ys[0] = step(in, a);
}

/* Rows of x alone are more rows. Else each row of the map has codes of its own. */
static void dense_batch(const struct rule *r, const bool is_mapped[], weft_array *ys[], bool is_mapped_out[]) {
  struct code_attr a = *(const struct code_attr *)r->node->attr;
  int front = (int)a.batch;
  bool only_x = true;
  for (int k = 1; k < r->n_in; k++) only_x = only_x && !is_mapped[k];
  if (!only_x) {
    a.batch++;
    library_rows(r, is_mapped, &a, ys, is_mapped_out);
    return;
  }
  weft_array *in[4], *x = weft_moveaxis(r->in[0], 0, front); /* [.., rows, m, k] */
  memcpy(in, r->in, (size_t)r->n_in * sizeof *in);
  in[0] = weft_flatten(x, front, front + 1);
  weft_array *y = step(in, &a);
  if (weft_rank(y) < 0) { ys[0] = y; return; }
  dim dims[WEFT_RANK_MAX + 1];
  struct node *n = array_node(x), *m = array_node(y);
  if (n->rank > 0) memcpy(dims, n->dims, (size_t)(n->rank - 1) * sizeof *dims);
  dims[n->rank - 1] = m->dims[m->rank - 1];
  ys[0] = weft_moveaxis(array_reshape("weft_map", y, n->rank, dims), front, 0);
  node_release(n), node_release(m);
}

static void batch(const struct rule *r, const bool is_mapped[], weft_array *ys[], bool is_mapped_out[]) {
  is_mapped_out[0] = true;
  if (((const struct code_attr *)r->node->attr)->is_gathered) gathered_batch(r, is_mapped, ys);
  else dense_batch(r, is_mapped, ys, is_mapped_out);
}

static const struct many results = { n_results, type, vjp, jvp, batch };
const struct op op_code_product = { .name = "code_product", .kind = OP_LIBRARY, .again = library_again,
                                    .many = &results, .library = &steps };

/* ---- public ---- */

static dim inner_length(const struct coded *c, bool is_transposed) {
  const struct node *w = c->words->node;
  return is_transposed ? coded_length(c) : w->dims[w->rank - 2];
}

static struct failure *inner_check(const char *fn, weft_array *x, const struct coded *c, bool is_transposed) {
  const struct node *n = x->node, *w = c->words->node;
  struct shape_text s, t;
  if (!dtype_is_float(weft_dtype_of(x))) return not_of(fn, weft_dtype_of(x));
  bool ok = n->rank >= 1 && w->rank >= 2;
  if (ok) ok = sizes_meet(fn, n->dims[n->rank - 1], inner_length(c, is_transposed));
  if (ok) return NULL;
  return fail(WEFT_ERR_SHAPE, scope_origin(), "%s: inner lengths differ: %s x %swords %s of %lld bits", fn, shape_show(n, &s),
              is_transposed ? "transposed " : "", shape_show(w, &t), (long long)c->a.bits);
}

/* The dtype of the result: that in which x and scales meet, or of x where scales are u8. */
static weft_dtype dtype_of_product(weft_array *x, const struct coded *c) {
  weft_dtype d = weft_dtype_of(x);
  return !c->biases ? d : weft_dtype_promote(d, weft_dtype_promote(weft_dtype_of(c->scales), weft_dtype_of(c->biases)));
}

static weft_array *with_dims(const char *fn, weft_array *y, int rank, const dim dims[]) {
  return weft_rank(y) < 0 ? y : array_reshape(fn, y, rank, dims);
}

/* All rows of x by one matrix. */
static weft_array *rows_by_one(const char *fn, weft_array *x, const struct coded *c) {
  dim dims[WEFT_RANK_MAX];
  weft_array *in[] = { x, c->words, c->scales, c->biases };
  int rank = weft_rank(x);
  if (rank == 2) return step(in, &c->a);
  in[0] = rank == 1 ? weft_unsqueeze(x, 0) : weft_flatten(x, 0, -2);
  weft_array *y = step(in, &c->a);
  if (weft_rank(y) < 0) return y;
  memcpy(dims, x->node->dims, (size_t)rank * sizeof *dims);
  dims[rank - 1] = y->node->dims[1];
  return with_dims(fn, y, rank, dims);
}

/* 0, 1 .. in the shape of the axes in front of matrices, counted row by row. */
static weft_array *places_of(const char *fn, weft_array *x) {
  struct node *n = array_node(x);
  dim count = 1;
  for (int k = 0; k < n->rank - 2; k++) count = dim_mul(count, n->dims[k]);
  weft_array *line = weft_iota(array_broadcast(fn, array_of(number_node(WEFT_I64, 0, 0)), 1, &count), 0);
  weft_array *y = weft_rank(line) < 0 ? line : array_reshape(fn, line, n->rank - 2, n->dims);
  node_release(n);
  return y;
}

/* Places as they were given, in range or an error; counted from the end where they are negative. */
static weft_array *given_places(const char *fn, weft_array *x, weft_array *at) {
  weft_array *all = places_of(fn, x);
  if (weft_rank(all) < 0) return all;
  if (weft_rank(all) > 1) all = weft_flatten(all, 0, -1);
  if (weft_rank(all) == 0) all = weft_unsqueeze(all, 0);
  return array_take(all, 1, &at, BY_GATHER_QMM);
}

static weft_array *as_batch(weft_array *x) {
  return weft_rank(x) == 2 ? weft_unsqueeze(x, 0) : weft_rank(x) == 3 ? x : weft_flatten(x, 0, -3);
}

static weft_array *gathered(const char *fn, weft_array *x, const struct coded *c, weft_array *lhs, weft_array *rhs) {
  struct node *n[2];
  weft_array *bad;
  dim dims[WEFT_RANK_MAX];
  int rank;
  if (!operands(fn, 2, (weft_array *[]){ lhs, rhs }, n, &bad)) return bad;
  struct failure *why = common_dims(fn, 2, n, &rank, dims);
  if (!why && rank + 2 > WEFT_RANK_MAX) why = fail(WEFT_ERR_SHAPE, scope_origin(), "%s: places of %d axes", fn, rank);
  if (why) return array_of_bad(why, 2, n);
  nodes_release(2, n);
  struct code_attr a = c->a;
  a.is_gathered = 1, a.batch = 0;
  lhs = array_broadcast(fn, lhs, rank, dims), rhs = array_broadcast(fn, rhs, rank, dims);
  weft_array *in[6] = { as_batch(x), as_batch(c->words), as_batch(c->scales) };
  if (c->biases) in[3] = as_batch(c->biases);
  in[at_x(&a)] = lhs, in[at_x(&a) + 1] = rhs;
  return step(in, &a);
}

static bool is_one_for_one(weft_array *x, weft_array *w) {
  const struct node *a = x->node, *b = w->node;
  return a->rank == b->rank && !memcmp(a->dims, b->dims, (size_t)(a->rank - 2) * sizeof *a->dims);
}

/* x by the coded matrix: of f64 by the values that codes stand for, in f64; of others in f32, rounded once at the end. */
static weft_array *product(const char *fn, weft_array *x, struct coded *c, int is_transposed, weft_array *lhs, weft_array *rhs) {
  weft_dtype as = dtype_of_product(x, c);
  c->a.is_transposed = is_transposed != 0;
  if (as == WEFT_F64) {
    weft_array *w = coded_values(c, WEFT_F64);
    if (weft_rank(w) >= 0 && is_transposed) w = turned(w);
    x = weft_cast(x, WEFT_F64);
    return lhs ? weft_gather_mm(x, w, lhs, rhs) : weft_matmul(x, w);
  }
  x = weft_cast(x, WEFT_F32);
  weft_array *y;
  if (lhs) y = gathered(fn, x, c, lhs, rhs);
  else if (weft_rank(c->words) == 2) y = rows_by_one(fn, x, c);
  else if (weft_rank(x) == 1)
    y = weft_squeeze(gathered(fn, weft_unsqueeze(x, 0), c, array_of(number_node(WEFT_I64, 0, 0)), places_of(fn, c->words)), -2);
  else if (is_one_for_one(x, c->words)) {
    c->a.batch = weft_rank(x) - 2;
    y = step((weft_array *[]){ x, c->words, c->scales, c->biases }, &c->a);
  } else y = gathered(fn, x, c, places_of(fn, x), places_of(fn, c->words));
  return weft_cast(y, as);
}

static weft_array *checked_product(const char *fn, weft_array *x, weft_array *words, weft_array *scales, weft_array *biases,
                                   weft_array *lhs, weft_array *rhs, int is_transposed, const weft_code_form *form) {
  weft_array *bad, *given[] = { x, words, scales, biases ? biases : x, lhs ? lhs : x, rhs ? rhs : x };
  struct coded c;
  if (!arrays_ok(fn, 6, given, &bad)) return bad;
  struct failure *why = coded_of(fn, words, scales, biases, form, &c);
  if (!why) why = inner_check(fn, x, &c, is_transposed);
  bool is_gathered = lhs || rhs;
  if (!why && is_gathered && weft_rank(x) < 2)
    why = fail(WEFT_ERR_SHAPE, scope_origin(), "%s: of matrices, not of arrays of %d axes", fn, weft_rank(x));
  for (int k = 0; !why && k < 2; k++) {
    weft_array *at = k ? rhs : lhs;
    if (at && !dtype_is_integer(weft_dtype_of(at))) why = fail(WEFT_ERR_DTYPE, scope_origin(), "%s: the places are integers", fn);
  }
  if (why) return array_failed(why);
  x = array_with_size(x, -1, inner_length(&c, is_transposed));
  if (is_gathered) {
    lhs = lhs ? given_places(fn, x, lhs) : places_of(fn, x);
    rhs = rhs ? given_places(fn, words, rhs) : places_of(fn, words);
    if (weft_rank(lhs) < 0 || weft_rank(rhs) < 0) return weft_rank(lhs) < 0 ? lhs : rhs;
  }
  return product(fn, x, &c, is_transposed, lhs, rhs);
}

weft_array *weft_quantized_matmul(weft_array *x, weft_array *words, weft_array *scales, weft_array *biases, int is_transposed,
                                  const weft_code_form *form) {
  return COMPOSED(checked_product("weft_quantized_matmul", x, words, scales, biases, NULL, NULL, is_transposed, form));
}

weft_array *weft_gather_qmm(weft_array *x, weft_array *words, weft_array *scales, weft_array *biases, weft_array *at_x,
                            weft_array *at_words, int is_transposed, const weft_code_form *form) {
  return COMPOSED(checked_product("weft_gather_qmm", x, words, scales, biases, at_x, at_words, is_transposed, form));
}
