/* window_operand.c -- left operands of products that are windows of an array, as a convolution multiplies them.
 *
 * Windows overlap, so rows and terms of the product are several axes each, and prepare.c copies them side by side. If that is all
 * that is done with the copy, the product reads them where they are (run/product_windows.c), and knows which of them are zeros that
 * pad the array. No choice made here changes a bit. */
#include <string.h>
#include "backend/patch.h"
#include "schedule/work.h"

enum {
  FEWEST_ROWS = 6, MOST_ROWS = 28, /* of the last axis: patches of fewer are poor ones, more go place by place (op/convolve.c) */
  LEAST_RUN = 96,               /* terms side by side: sums wait in memory between two runs */
  LEAST_ELEMENTS = 1 << 16,     /* of the copy: fewer are copied in no time */
  MOST_BLOCKS = 1 << 16         /* that are asked whether they are zeros */
};

static bool may_be_windows(const struct work *w, const struct group *g) {
  const struct node *n = g->product, *a = n->in[0];
  if (work_is_for_device(w) || g->feeds || g->made_by[0] >= 0 || g->made_by[1] >= 0 || contract_is_turned(n)) return false;
  if (node_count(n) != n->dims[n->rank - 2] * n->dims[n->rank - 1] || (contract_is_long(w, n) && !g->run)) return false;
  if (a->dtype != n->in[1]->dtype || (a->dtype != WEFT_F32 && a->dtype != WEFT_F64)) return false;
  return node_count(a) >= LEAST_ELEMENTS;
}

/* The copy that an operand shows row by row, and that nobody else wants. */
static const struct node *rows_copied(struct work *w, const struct node *operand) {
  const struct node *copy = edge_of(operand).base;
  struct place p;
  if (copy->op != &op_cast || !local_of(copy)->is_alone || copy->in[0]->dtype != copy->dtype) return NULL;
  for (const struct node *x = operand;; x = x->in[0]) {
    if (local_of(x)->n_uses != 1 || w->item[x->slot].is_target) return NULL;
    if (x == copy) break;
  }
  const struct place *dense = &w->item[copy->slot].place;
  bool is_there = node_count(copy) == node_count(operand) && place_of(w, operand, &p) && p.store == dense->store;
  int last = operand->rank - 1;
  return is_there && p.offset == dense->offset && p.stride[last] == 1 && p.stride[last - 1] == operand->dims[last] ? copy : NULL;
}

/* ---- their axes ---- */

/* One more axis of rows or terms, behind those there are; it may go on with the last of them. false: they are too many. */
static bool add_axis(int *n, int64_t length[], int64_t stride[], int64_t l, int64_t s) {
  if (l == 1) return true;
  if (*n && stride[*n - 1] == l * s) return length[*n - 1] *= l, stride[*n - 1] = s, true;
  if (*n == WINDOW_AXES) return false;
  length[*n] = l, stride[(*n)++] = s;
  return true;
}

/* The axes of what is copied are those of m rows, then those of terms. */
static bool find_axes(const struct node *copy, const struct place *p, int64_t m, struct windows *x) {
  int64_t rows = 1;
  *x = (struct windows){ 0 };
  for (int i = 0; i < copy->rank; i++) {
    bool is_row = rows < m;
    if (!(is_row ? add_axis(&x->n_rows, x->rows, x->row, copy->dims[i], p->stride[i])
                 : add_axis(&x->n_terms, x->terms, x->term, copy->dims[i], p->stride[i]))) return false;
    if (is_row) rows *= copy->dims[i];
  }
  if (rows != m || !x->n_rows || !x->n_terms) return false;
  return x->rows[x->n_rows - 1] >= FEWEST_ROWS && x->rows[x->n_rows - 1] < MOST_ROWS && x->term[x->n_terms - 1] == 1 &&
         x->terms[x->n_terms - 1] >= LEAST_RUN;
}

/* ---- zeros around the array ---- */

/* The array, dense, and where along its axes it is padded: everywhere but from .. to. */
struct padding { int n; int64_t stride[WINDOW_AXES], length[WINDOW_AXES], from[WINDOW_AXES], to[WINDOW_AXES]; };

static bool pads_with_zeros(const struct node *x) {
  const struct node *value = x->op == &op_pad ? scalar_of(x->in[1]) : NULL;
  return value && !(scalar_bits(value, WEFT_F64) << 1);
}

static struct padding frame_of(const struct node *x) {
  struct padding f = { 0 };
  struct place dense;
  place_dense(x, 0, &dense);
  for (; pads_with_zeros(x) && f.n < WINDOW_AXES; x = x->in[0]) {
    const struct pad_attr *a = x->attr;
    for (int i = 0; i < f.n; i++) if (f.stride[i] == dense.stride[a->axis]) return f; /* the same axis once more */
    f.stride[f.n] = dense.stride[a->axis], f.length[f.n] = x->dims[a->axis];
    f.from[f.n] = a->before, f.to[f.n++] = x->dims[a->axis] - a->after;
  }
  return f;
}

/* How many elements from `at` on are zeros, or are not. */
static bool is_padding(const struct padding *f, int64_t at, int64_t *n) {
  bool is_zero = false;
  *n = f->stride[0];
  for (int i = 0; i < f->n; i++) {
    int64_t index = at / f->stride[i] % f->length[i];
    is_zero |= index < f->from[i] || index >= f->to[i];
    if (f->stride[i] < *n) *n = f->stride[i];
  }
  *n -= at % *n;
  return is_zero;
}

static int64_t counted_to(int n, const int64_t length[], const int64_t stride[], int64_t i) {
  int64_t at = 0;
  for (; n-- > 0; i /= length[n]) at += i % length[n] * stride[n];
  return at;
}

/* All of n terms from k on, of the row that begins at `at`. */
static bool are_padding(const struct windows *x, const struct padding *f, int64_t at, int64_t k, int64_t n) {
  int64_t run = x->terms[x->n_terms - 1];
  for (int64_t i = k, zeros, here; i < k + n; i += zeros < here ? zeros : here) {
    here = run - i % run;
    if (!is_padding(f, at + counted_to(x->n_terms, x->terms, x->term, i), &zeros)) return false;
  }
  return true;
}

/* Rows after which padding is the same: axes in front go from image to image. */
static int64_t period_of(const struct windows *x, const struct padding *f, int64_t m) {
  int64_t image = 0;
  for (int i = 0; i < f->n; i++) if (f->stride[i] * f->length[i] > image) image = f->stride[i] * f->length[i];
  for (int i = 0; i < x->n_rows && x->row[i] % image == 0; i++) m /= x->rows[i];
  return m;
}

/* offset: of the windows in the array. */
static bool find_zeros(struct work *w, const struct node *base, int64_t offset, int64_t m, int64_t k, struct windows *x) {
  struct padding f = frame_of(base);
  int64_t blocks = (k - 1) / KIR_PRODUCT_BLOCK + 1;
  if (!f.n || !place_is_dense(base, &w->item[base->slot].place)) return true;
  x->period = period_of(x, &f, m);
  if (x->period > MOST_BLOCKS / blocks) return true;
  uint8_t *is_zero = work_take(w, (size_t)(x->period * blocks)), any = 0;
  for (int64_t i = 0; is_zero && i < x->period; i++)
    for (int64_t b = 0; b < blocks; b++) {
      int64_t first = b * KIR_PRODUCT_BLOCK, n = k - first < KIR_PRODUCT_BLOCK ? k - first : KIR_PRODUCT_BLOCK;
      any |= is_zero[i * blocks + b] = are_padding(x, &f, offset + counted_to(x->n_rows, x->rows, x->row, i), first, n);
    }
  if (any) x->is_zero = is_zero;
  return is_zero != NULL;
}

bool windows_find(struct work *w, struct group *g) {
  const struct node *operand = g->product->in[0], *copy = may_be_windows(w, g) ? rows_copied(w, operand) : NULL;
  int64_t m = operand->dims[operand->rank - 2], k = operand->dims[operand->rank - 1];
  struct place from;
  struct windows x;
  int h = copy ? w->item[copy->slot].group : -1;
  if (h < 0 || w->group[h].n_items != 1 || !place_of(w, copy->in[0], &from) || !find_axes(copy, &from, m, &x)) return true;
  const struct node *base = edge_of(copy->in[0]).base;
  if (!find_zeros(w, base, from.offset - w->item[base->slot].place.offset, m, k, &x)) return false;
  if (!(g->windows = work_take(w, sizeof x))) return false;
  *g->windows = x;
  g->left = (struct binding){ .store = from.store, .offset = from.offset };
  w->group[h].is_dead = true;
  w->out->store[w->item[copy->slot].place.store].bytes = 0;
  return true;
}
