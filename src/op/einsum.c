/* einsum.c -- sums of products by the names of axes. Operands are taken together two at a time, in the order that einsum_path.c
 * finds; each pair is one matmul on views, or an elementwise product where nothing is summed. */
#include "op/einsum.h"
#include <string.h>
#include "base/mem.h"
#include "op/later.h"
#include "op/operand.h"

struct named_array { weft_array *x; int rank; int name[WEFT_RANK_MAX]; };     /* an array whose axes have different names */

struct einsum {
  const char *fn, *text;           /* the subscripts as they were typed, for messages */
  int n;
  struct named_array term[EINSUM_OPERANDS];
  int out_rank, out[WEFT_RANK_MAX];
  dim size[EINSUM_NAMES];          /* -1: the name does not occur (sizes that are symbols are smaller) */
  struct failure *failure;
};

static bool wrong(struct einsum *s, struct failure *f) { return s->failure = f, false; }

static int find(const struct named_array *t, int name) {
  for (int i = 0; i < t->rank; i++) if (t->name[i] == name) return i;
  return -1;
}
static bool has(const struct named_array *t, int name) { return find(t, name) >= 0; }

static bool is_wanted(const struct einsum *s, int name) {
  for (int i = 0; i < s->out_rank; i++) if (s->out[i] == name) return true;
  return false;
}

/* ---- the text ---- */

static int letter(char c) { return c >= 'a' && c <= 'z' ? c - 'a' : c >= 'A' && c <= 'Z' ? c - 'A' + 26 : -1; }

/* Names from *text on to its end, a comma or an arrow; dots stand for `hidden` axes. -1: it is not well formed. */
static int read_names(const char **text, int hidden, int names[]) {
  int n = 0;
  bool had_dots = false;
  for (; **text && **text != ',' && **text != '-'; ++*text) {
    bool is_dots = !strncmp(*text, "...", 3);
    int name = letter(**text);
    if (**text == ' ') continue;
    if (is_dots ? had_dots || hidden < 0 || n + hidden > WEFT_RANK_MAX : name < 0 || n == WEFT_RANK_MAX) return -1;
    if (!is_dots) { names[n++] = name; continue; }
    for (int i = hidden; i--;) names[n++] = EINSUM_LETTERS + i;
    had_dots = true;
    *text += 2;
  }
  return n;
}

static int count_letters(const char *text) {
  int n = 0;
  for (; *text && *text != ',' && *text != '-'; text++) n += letter(*text) >= 0;
  return n;
}
static bool has_dots(const char *text) {
  for (; *text && *text != ',' && *text != '-'; text++) if (*text == '.') return true;
  return false;
}

static bool text_wrong(struct einsum *s, const char *text) {
  return wrong(s, fail(WEFT_ERR_ARG, scope_origin(), "%s: \"%s\" is not like \"ij,jk->ik\" with %d operands", s->fn, text, s->n));
}

/* Without an arrow: the axes under dots, then the names that occur once, by alphabet. */
static void implied(struct einsum *s, int hidden) {
  for (int i = hidden; i--;) s->out[s->out_rank++] = EINSUM_LETTERS + i;
  for (int name = 0; name < EINSUM_LETTERS; name++) {
    int n = 0;
    for (int k = 0; k < s->n; k++) for (int i = 0; i < s->term[k].rank; i++) n += s->term[k].name[i] == name;
    if (n == 1) s->out[s->out_rank++] = name;
  }
}

static bool read_text(struct einsum *s, const char *text, weft_array *const x[]) {
  const char *at = text;
  int most = 0;
  for (int k = 0; k < s->n; k++) {
    struct named_array *t = &s->term[k];
    t->x = x[k];
    t->rank = weft_rank(x[k]);
    int hidden = has_dots(at) ? t->rank - count_letters(at) : 0;
    if (hidden > most) most = hidden;
    if (read_names(&at, hidden, t->name) != t->rank) {
      struct node *n = array_node(x[k]);
      struct shape_text shape;
      wrong(s, fail(WEFT_ERR_SHAPE, scope_origin(), "%s: \"%s\": operand %d has the shape %s",
                    s->fn, text, k, shape_show(n, &shape)));
      return node_release(n), false;
    }
    if (k + 1 < s->n && *at++ != ',') return text_wrong(s, text);
  }
  if (!*at) return implied(s, most), true;
  if (strncmp(at, "->", 2)) return text_wrong(s, text);
  at += 2;
  s->out_rank = read_names(&at, most, s->out);
  if (s->out_rank < 0 || *at) return text_wrong(s, text);
  for (int i = 0; i < s->out_rank; i++)
    for (int j = 0; j < i; j++) if (s->out[i] == s->out[j]) return text_wrong(s, text);
  return true;
}

/* ---- names and sizes ---- */

static void drop(struct named_array *t, int axis) {
  t->x = weft_squeeze(t->x, axis);
  memmove(&t->name[axis], &t->name[axis + 1], sizeof *t->name * (size_t)(--t->rank - axis));
}

struct name_text { char of[2]; };

static const char *name_show(int name, struct name_text *t) {
  if (name >= EINSUM_LETTERS) return "...";
  *t = (struct name_text){ { (char)(name < 26 ? 'a' + name : 'A' + name - 26) } };
  return t->of;
}

/* An axis of length 1 goes with any other of its name, as it does in broadcasting. */
static bool note_size(struct einsum *s, int name, dim d) {
  struct name_text t;
  if (s->size[name] == -1 || s->size[name] == 1) s->size[name] = d;
  else if (d != 1 && !sizes_meet(s->fn, d, s->size[name]))
    return wrong(s, fail(WEFT_ERR_SHAPE, scope_origin(), "%s: \"%s\": the axis %s has %lld elements, and %lld elsewhere", s->fn,
                         s->text, name_show(name, &t), (long long)s->size[name], (long long)d));
  return true;
}

static bool note_sizes(struct einsum *s) {
  struct name_text t;
  memset(s->size, -1, sizeof s->size);
  for (int k = 0; k < s->n; k++) {
    struct node *n = array_node(s->term[k].x);
    for (int i = 0; i < n->rank && !s->failure; i++) note_size(s, s->term[k].name[i], n->dims[i]);
    node_release(n);
  }
  for (int i = 0; i < s->out_rank && !s->failure; i++)
    if (s->size[s->out[i]] == -1)
      return wrong(s, fail(WEFT_ERR_ARG, scope_origin(), "%s: \"%s\": no operand has the axis %s of the result", s->fn, s->text,
                           name_show(s->out[i], &t)));
  return !s->failure;
}

/* A name that occurs twice is a diagonal; weft_diagonal puts it last. */
static void take_diagonals(struct named_array *t) {
  for (int i = 0; i < t->rank; i++)
    for (int j = i + 1; j < t->rank; j++) {
      if (t->name[i] != t->name[j]) continue;
      int name = t->name[i];
      t->x = weft_diagonal(t->x, 0, i, j);
      memmove(&t->name[j], &t->name[j + 1], sizeof *t->name * (size_t)(t->rank - j - 1));
      memmove(&t->name[i], &t->name[i + 1], sizeof *t->name * (size_t)(t->rank - i - 2));
      t->rank--;
      t->name[t->rank - 1] = name;
      i = -1;
      break;
    }
}

static void drop_ones(const struct einsum *s, struct named_array *t) {
  struct node *n = array_node(t->x);
  for (int i = n->rank; i--;) if (n->dims[i] == 1 && s->size[t->name[i]] != 1) drop(t, i);
  node_release(n);
}

/* ---- one operand, two operands ---- */

static void sum_over(struct named_array *t, int axis) {
  t->x = weft_sum(t->x, axis);
  drop(t, axis);
}

/* The names in `order`, one axis for each; what the term does not have becomes an axis of length 1. */
static weft_array *arranged(const struct einsum *s, const struct named_array *t, int n, const int order[]) {
  int axes[WEFT_RANK_MAX], there = 0;
  dim dims[WEFT_RANK_MAX];
  for (int i = 0; i < n; i++) {
    int axis = find(t, order[i]);
    dims[i] = axis < 0 ? 1 : s->size[order[i]];
    if (axis >= 0) axes[there++] = axis;
  }
  return array_reshape(s->fn, weft_transpose(t->x, axes), n, dims);
}

struct name_set { int n, name[WEFT_RANK_MAX]; };

static void add(struct name_set *s, int name) { s->name[s->n++] = name; }
static dim product_of(const struct einsum *s, const struct name_set *of) {
  dim d = 1;
  for (int i = 0; i < of->n; i++) d = dim_mul(d, s->size[of->name[i]]);
  return d;
}

/* Names of t that are neighbours at its end can be one axis; those before them are batch axes, over which the other operand
 * is broadcast. */
static void keep_neighbours(const struct named_array *t, struct name_set *free, struct name_set *batch) {
  int first = free->n - 1;
  while (first > 0 && find(t, free->name[first - 1]) == find(t, free->name[first]) - 1) first--;
  for (int i = 0; i < first; i++) add(batch, free->name[i]);
  if (first <= 0) return;
  free->n -= first;
  memmove(free->name, free->name + first, sizeof *free->name * (size_t)free->n);
}

/* [batch, one, other] with the last two groups of names as one axis each. */
static weft_array *as_matrices(const struct einsum *s, const struct named_array *t, const struct name_set *batch,
                               const struct name_set *one, const struct name_set *other) {
  struct name_set all = *batch;
  dim dims[WEFT_RANK_MAX];
  for (int i = 0; i < batch->n; i++) dims[i] = has(t, batch->name[i]) ? s->size[batch->name[i]] : 1;
  for (int i = 0; i < one->n; i++) add(&all, one->name[i]);
  for (int i = 0; i < other->n; i++) add(&all, other->name[i]);
  dims[batch->n] = product_of(s, one);
  dims[batch->n + 1] = product_of(s, other);
  return array_reshape(s->fn, arranged(s, t, all.n, all.name), batch->n + 2, dims);
}

static struct named_array matrices(const struct einsum *s, const struct named_array *a, const struct named_array *b,
                                   const struct name_set *batch, const struct name_set *left, const struct name_set *inner,
                                   const struct name_set *right) {
  struct named_array y = { .rank = 0 };
  dim dims[WEFT_RANK_MAX];
  const struct name_set *groups[] = { batch, left, right };
  for (int g = 0; g < 3; g++)
    for (int i = 0; i < groups[g]->n; i++) {
      dims[y.rank] = s->size[groups[g]->name[i]];
      y.name[y.rank++] = groups[g]->name[i];
    }
  weft_array *x = weft_matmul(as_matrices(s, a, batch, left, inner), as_matrices(s, b, batch, inner, right));
  y.x = array_reshape(s->fn, x, y.rank, dims);
  return y;
}

static struct named_array elementwise(const struct einsum *s, const struct named_array *a, const struct named_array *b) {
  struct named_array y = *a;
  for (int i = 0; i < b->rank; i++) if (!has(a, b->name[i])) y.name[y.rank++] = b->name[i];
  y.x = weft_mul(arranged(s, a, y.rank, y.name), arranged(s, b, y.rank, y.name));
  return y;
}

static double length(const struct einsum *s, int name) { return dim_is_known(s->size[name]) ? (double)s->size[name] : 64; }

static double elements(const struct einsum *s, const struct named_array *t) {
  double n = 1;
  for (int i = 0; i < t->rank; i++) n *= length(s, t->name[i]);
  return n;
}

/* Whether an operand other than a and b, or the result, needs the name. */
static bool is_needed(const struct einsum *s, int name, const struct named_array *a, const struct named_array *b) {
  for (int k = 0; k < s->n; k++) if (&s->term[k] != a && &s->term[k] != b && has(&s->term[k], name)) return true;
  return is_wanted(s, name);
}

static struct named_array together(const struct einsum *s, struct named_array *a, struct named_array *b) {
  struct name_set batch = { 0 }, left = { 0 }, inner = { 0 }, right = { 0 };
  for (int i = a->rank; i--;) if (!has(b, a->name[i]) && !is_needed(s, a->name[i], a, b)) sum_over(a, i);
  for (int i = b->rank; i--;) if (!has(a, b->name[i]) && !is_needed(s, b->name[i], a, b)) sum_over(b, i);
  const struct named_array *larger = elements(s, a) >= elements(s, b) ? a : b; /* summed in its order: the other may be copied */
  for (int i = 0; i < a->rank; i++) {
    if (!has(b, a->name[i])) add(&left, a->name[i]);
    else if (is_needed(s, a->name[i], a, b)) add(&batch, a->name[i]);
  }
  for (int i = 0; i < b->rank; i++) if (!has(a, b->name[i])) add(&right, b->name[i]);
  for (int i = 0; i < larger->rank; i++) {
    int name = larger->name[i];
    if (has(a, name) && has(b, name) && !is_needed(s, name, a, b)) add(&inner, name);
  }
  if (!inner.n || batch.n + left.n + right.n > WEFT_RANK_MAX - 2) return elementwise(s, a, b);
  keep_neighbours(a, &left, &batch);
  keep_neighbours(b, &right, &batch);
  return matrices(s, a, b, &batch, &left, &inner, &right);
}

/* ---- which two ---- */

/* The order of pairs. An axis of length 1 that others of its name are longer than counts for nothing. */
static void find_path(const struct einsum *s, struct einsum_path *path) {
  struct name_bits names[EINSUM_OPERANDS] = { 0 }, wanted = { { 0 } };
  double lengths[EINSUM_NAMES];
  for (int name = 0; name < EINSUM_NAMES; name++) lengths[name] = length(s, name);
  for (int i = 0; i < s->out_rank; i++) name_bits_add(&wanted, s->out[i]);
  for (int k = 0; k < s->n; k++) {
    struct node *n = array_node(s->term[k].x);
    const int *name = s->term[k].name;
    for (int i = 0; i < n->rank; i++) if (n->dims[i] != 1 || s->size[name[i]] == 1) name_bits_add(&names[k], name[i]);
    node_release(n);
  }
  einsum_find_path(path, s->n, names, wanted, lengths);
}

static void leave(struct einsum *s, int k) {
  s->n--;
  memmove(&s->term[k], &s->term[k + 1], sizeof *s->term * (size_t)(s->n - k));
}

/* Both leave, and what comes of them is last. */
static void join(struct einsum *s, const int pair[2]) {
  struct named_array y = together(s, &s->term[pair[0]], &s->term[pair[1]]);
  leave(s, pair[1]);
  leave(s, pair[0]);
  s->term[s->n++] = y;
}

static weft_array *finish(struct einsum *s) {
  struct named_array *t = &s->term[0];
  for (int i = t->rank; i--;) if (!is_wanted(s, t->name[i])) sum_over(t, i);
  return arranged(s, t, s->out_rank, s->out);
}

/* Operands in the dtype of the result, so that it does not depend on which two are taken together first. */
static void cast_all(struct einsum *s) {
  weft_dtype d = weft_dtype_of(s->term[0].x);
  for (int k = 1; k < s->n; k++) d = weft_dtype_promote(d, weft_dtype_of(s->term[k].x));
  for (int k = 0; k < s->n; k++) if (!s->term[k].x->node->weak) s->term[k].x = weft_cast(s->term[k].x, d);
}

static weft_array *compute(struct einsum *s) {
  struct einsum_path path;
  find_path(s, &path);
  if (s->n > 2) cast_all(s);
  for (int k = 0; k < s->n; k++) drop_ones(s, &s->term[k]), take_diagonals(&s->term[k]);
  for (int k = 0; s->n > 1; k++) join(s, path.pair[k]);
  return finish(s);
}

/* ---- public ---- */

/* Reads the text, and sizes by name. The failure is the caller's. */
static struct failure *read_all(struct einsum *s, const char *subscripts, weft_array *const x[]) {
  weft_array *bad;
  if (!subscripts) return fail(WEFT_ERR_ARG, scope_origin(), "%s: the subscripts are NULL", s->fn);
  if (s->n < 1 || s->n > EINSUM_OPERANDS)
    return fail(WEFT_ERR_ARG, scope_origin(), "%s: %d operands; from 1 to %d are possible", s->fn, s->n, EINSUM_OPERANDS);
  if (!arrays_ok(s->fn, s->n, x, &bad)) return array_failure(s->fn, 0, bad);
  return read_text(s, subscripts, x) && note_sizes(s) ? NULL : s->failure;
}

/* Which two are taken together, and in which order they are summed, is a matter of sizes: floats have other bits in another one. */
struct spelled { int n; char subscripts[]; };

static weft_array *write_einsum(const void *options, weft_array *const in[]) {
  const struct spelled *o = options;
  return weft_einsum(o->subscripts, o->n, in);
}

static int n_summed(const struct einsum *s, const struct named_array *a, const struct named_array *b) {
  int n = 0;
  for (int i = 0; i < a->rank; i++) n += has(b, a->name[i]) && !is_wanted(s, a->name[i]);
  return n;
}

static bool is_written_later(const struct einsum *s, weft_dtype *d) {
  bool is_open = false, is_weak = false;
  *d = weft_dtype_of(s->term[0].x);
  for (int k = 0; k < s->n; k++) {
    struct node *n = array_node(s->term[k].x);
    *d = weft_dtype_promote(*d, (weft_dtype)n->dtype);
    is_weak |= n->weak;
    for (int i = 0; i < n->rank; i++) is_open |= !dim_is_known(dim_resolve(n->dims[i]));
    node_release(n);
  }
  bool has_orders = s->n > 2 || (s->n == 2 && n_summed(s, &s->term[0], &s->term[1]) > 1);
  return is_open && has_orders && !is_weak && (dtype_is_float(*d) || dtype_is_complex(*d));
}

static weft_array *einsum_later(const struct einsum *s, const char *subscripts, weft_array *const x[], weft_dtype d) {
  size_t bytes = sizeof(struct spelled) + strlen(subscripts) + 1;
  struct spelled *o = mem_alloc(bytes);
  dim dims[WEFT_RANK_MAX];
  if (!o) return array_of(NULL);
  o->n = s->n;
  strcpy(o->subscripts, subscripts);
  for (int i = 0; i < s->out_rank; i++) dims[i] = s->size[s->out[i]];
  weft_array *y = array_later(write_einsum, o, bytes, s->n, x, d, s->out_rank, dims);
  mem_free(o);
  return y;
}

static weft_array *einsum(const char *subscripts, int n, weft_array *const x[]) {
  struct einsum s = { "weft_einsum", subscripts, n };
  struct failure *why = read_all(&s, subscripts, x);
  weft_dtype d;
  if (why) return array_failed(why);
  return is_written_later(&s, &d) ? einsum_later(&s, subscripts, x, d) : compute(&s);
}

weft_array *weft_einsum(const char *subscripts, int n, weft_array *const x[]) { return COMPOSED(einsum(subscripts, n, x)); }

weft_status weft_einsum_path(const char *subscripts, int n, weft_array *const x[], int pairs[][2], double *products) {
  struct einsum s = { "weft_einsum_path", subscripts, n };
  struct failure *why = read_all(&s, subscripts, x);
  if (why) return failure_tell(why);
  struct einsum_path path;
  find_path(&s, &path);
  if (pairs) memcpy(pairs, path.pair, sizeof *path.pair * (size_t)(n - 1));
  if (products) *products = path.products;
  return WEFT_OK;
}

static struct failure *pairs_check(const struct node *a, const struct node *b, int n, const int i[], const int j[]) {
  struct shape_text s, t;
  for (int k = 0; k < n; k++)
    if (!sizes_meet("weft_tensordot", a->dims[i[k]], b->dims[j[k]]))
      return fail(WEFT_ERR_SHAPE, scope_origin(), "weft_tensordot: axis %d of %s and axis %d of %s",
                  i[k], shape_show(a, &s), j[k], shape_show(b, &t));
  return NULL;
}

/* x, whose axes i meet the axes j of y, in the sizes that y knows and x does not. */
static weft_array *meeting(weft_array *x, int n, const int i[], const struct node *y, const int j[]) {
  struct node *node = array_node(x);
  dim dims[WEFT_RANK_MAX];
  for (int k = 0; k < node->rank; k++) dims[k] = node->dims[k];
  for (int p = 0; p < n; p++) if (!dim_is_known(dims[i[p]]) && dim_is_known(y->dims[j[p]])) dims[i[p]] = y->dims[j[p]];
  return array_of(node_agree(node, -1, dims));
}

static weft_array *tensordot(weft_array *a, weft_array *b, int n, const int a_axes[], const int b_axes[]) {
  struct einsum s = { "weft_tensordot", "", 2 };
  weft_array *bad, *x[] = { a, b };
  struct node *node[2];
  int i[WEFT_RANK_MAX], j[WEFT_RANK_MAX], next = 0;
  if (!operands("weft_tensordot", 2, x, node, &bad)) return bad;
  struct failure *why = axes_check("weft_tensordot", node[0], n, a_axes, i);
  if (!why) why = axes_check("weft_tensordot", node[1], n, b_axes, j);
  if (!why) why = pairs_check(node[0], node[1], n, i, j);
  if (why) return array_of_bad(why, 2, node);
  x[0] = meeting(x[0], n, i, node[1], j), x[1] = meeting(x[1], n, j, node[0], i);
  for (int k = 0; k < 2; k++) {
    struct named_array *t = &s.term[k];
    *t = (struct named_array){ .x = x[k], .rank = node[k]->rank };
    for (int axis = 0; axis < t->rank; axis++) {
      t->name[axis] = next++;
      for (int p = 0; p < n; p++) if ((k ? j : i)[p] == axis) t->name[axis] = k ? s.term[0].name[i[p]] : t->name[axis];
    }
  }
  for (int k = 0; k < 2; k++)
    for (int axis = 0; axis < s.term[k].rank; axis++) {
      bool is_summed = false;
      for (int p = 0; p < n; p++) is_summed |= (k ? j : i)[p] == axis;
      if (!is_summed && s.out_rank < WEFT_RANK_MAX) s.out[s.out_rank++] = s.term[k].name[axis];
    }
  int rank = node[0]->rank + node[1]->rank - 2 * n;
  nodes_release(2, node);
  if (rank > WEFT_RANK_MAX)
    return array_failed(fail(WEFT_ERR_SHAPE, scope_origin(), "weft_tensordot: the result has %d axes", rank));
  return note_sizes(&s) ? compute(&s) : array_failed(s.failure);
}

weft_array *weft_tensordot(weft_array *a, weft_array *b, int n, const int a_axes[], const int b_axes[]) {
  return COMPOSED(tensordot(a, b, n, a_axes, b_axes));
}
