/* blocks.c -- products of few results and many terms, such as the sums over all steps of a loop: [m,k] x [k,n], k long.
 *
 * The order of a contraction is that of blocks which start at +0 and are added in order. So the blocks are a batch of small
 * products, which read their operands where they are and which threads share, and a kernel adds them: the same bits. On a
 * device that batch is a kernel in KIR, as products are there. */
#include <string.h>
#include "backend/patch.h"
#include "schedule/draft.h"

enum {
  LEAST_BLOCKS = 8,
  LEAST_ROWS = 4,
  LEAST_COLUMNS = 16,
  LEAST_PRODUCTS = 1 << 22, /* less is not worth a thread */
  SMALLEST_SHARE = 8,       /* the results of all blocks are at most one in so many of the elements read */
  FEW_THREADS = 1 << 16, FEW_BLOCKS = 4, /* on a device: so many threads keep it busy, and so many blocks are worth the launch that
                               adds them; .. */
  FEWEST_THREADS = 1 << 14, FEWEST_BLOCKS = 2, /* .. of fewer threads two, if they are whole. Not measured */
  ROWS_A_THREAD = 8, THIN_ROWS = 32 /* of a product of few rows (backend/cuda/gpu_thin.c) */
};

/* Blocks are added as registers have them. A device rounds halves behind that, unless a library multiplies them. */
static bool may_be_sums(const struct work *w, const struct node *n) {
  weft_dtype t = (weft_dtype)n->dtype;
  if (kir_is_register(t)) return true;
  return work_is_for_device(w) && (t == WEFT_F16 || t == WEFT_BF16) && !contract_is_apart(w, n);
}

/* On a device: its threads are few, and have so many terms each that they are better shared. */
static bool has_few_threads(const struct node *n, int64_t k) {
  int64_t results = node_count(n), columns = n->dims[n->rank - 1], rows = columns ? results / columns : 0;
  int64_t threads = rows > THIN_ROWS ? results : results / (rows < ROWS_A_THREAD ? rows + !rows : ROWS_A_THREAD);
  if (!results || n->rank >= AXES) return false;
  if (threads <= FEWEST_THREADS && k >= FEWEST_BLOCKS * KIR_PRODUCT_BLOCK && k % KIR_PRODUCT_BLOCK == 0) return true;
  return threads <= FEW_THREADS && k >= FEW_BLOCKS * KIR_PRODUCT_BLOCK;
}

bool contract_is_long(const struct work *w, const struct node *n) {
  int64_t m, columns, k = n->in[0]->dims[n->rank - 1], results = node_count(n);
  if (!contract_is_by_patches(w, n) && !work_is_for_device(w)) return false;
  if (n->rank < 2 || !may_be_sums(w, n)) return false;
  if (work_is_for_device(w) && has_few_threads(n, k)) return true;
  m = n->dims[n->rank - 2], columns = n->dims[n->rank - 1];
  if (results != m * columns || m < LEAST_ROWS || columns < LEAST_COLUMNS) return false;
  if (k < LEAST_BLOCKS * KIR_PRODUCT_BLOCK) return false;
  return (double)m * (double)columns * (double)k >= LEAST_PRODUCTS &&
         m * columns <= KIR_PRODUCT_BLOCK / SMALLEST_SHARE * (m + columns);
}

/* An axis of blocks in front of all others, which goes along axis `k` of the binding. */
static void along_blocks(struct binding *x, const struct binding *all, int n_axes, int k, int64_t first) {
  x->offset += first * KIR_PRODUCT_BLOCK * all->stride[k];
  memcpy(x->stride + 1, all->stride, sizeof *x->stride * (size_t)n_axes);
  x->stride[0] = KIR_PRODUCT_BLOCK * all->stride[k];
}

static int64_t extent(const struct contraction *c, int axis) {
  return axis < c->n_batch ? c->batch[axis] : axis == c->n_batch ? c->m : c->n;
}

/* Strides of dense results, by axis. Returns how many there are. */
static int64_t dense_strides(const struct contraction *c, int64_t stride[]) {
  int64_t n = 1;
  for (int i = c->n_batch + 1; i >= 0; i--) stride[i] = n, n *= extent(c, i);
  return n;
}

/* n products of at most a block each, from block `first` on. */
static struct contraction *blocks_of(struct work *w, const struct contraction *all, int store, int64_t first, int64_t n,
                                     int64_t k) {
  struct contraction *c = work_take(w, sizeof *c);
  int axes = all->n_batch + 2;
  if (!c) return NULL;
  *c = *all;
  memcpy(c->batch + 1, all->batch, sizeof *c->batch * (size_t)all->n_batch);
  c->n_batch = all->n_batch + 1, c->batch[0] = n, c->k = k;
  along_blocks(&c->a, &all->a, axes, all->n_batch + 1, first);
  along_blocks(&c->b, &all->b, axes, all->n_batch, first);
  c->y = (struct binding){ .store = store };
  dense_strides(c, c->y.stride);
  c->y.offset = first * c->y.stride[0];
  return c;
}

/* y[q,..,i,j] = sum over k of a[q,..,i,k] b[q,..,k,j], as a kernel; lanes go along the columns, or along the rows where columns are
 * few. */
static bool write_product(struct work *w, const struct contraction *c, weft_dtype sums) {
  struct draft d;
  if (!draft_begin(&d, w, "matmul")) return false;
  struct kir_lin size[AXES], at[AXES], k = draft_lin(&d, draft_size(&d, "K", c->k));
  int row = c->n_batch, column = row + 1, n_axes = row + 2;
  size[0] = draft_lin(&d, draft_size(&d, "Q", extent(c, 0)));
  for (int i = 1; i < row; i++) size[i] = draft_lin(&d, draft_sized(&d, "Q", i, extent(c, i)));
  size[row] = draft_lin(&d, draft_size(&d, "R", c->m)), size[column] = draft_lin(&d, draft_size(&d, "C", c->n));
  struct reach a = { .store = c->a.store, .offset = c->a.offset }, b = { .store = c->b.store, .offset = c->b.offset },
               y = { .store = c->y.store, .offset = c->y.offset };
  for (int i = 0; i < n_axes; i++) {
    reach_along(&a, i == column ? k : size[i], c->a.stride[i]);
    reach_along(&b, i == row ? k : size[i], c->b.stride[i]);
    reach_along(&y, size[i], c->y.stride[i]);
  }
  int x0 = draft_buffer(&d, NULL, KIR_IN, c->a_dtype, &a), x1 = draft_buffer(&d, NULL, KIR_IN, c->b_dtype, &b),
      y0 = draft_buffer(&d, NULL, KIR_OUT, sums, &y);
  int lane = c->is_turned ? row : column, outer = c->is_turned ? column : row;
  for (int i = 0; i < c->n_batch; i++) at[i] = draft_lin(&d, kir_loop(&d.b, KIR_PAR, "q", size[i]));
  at[outer] = draft_lin(&d, kir_loop(&d.b, KIR_PAR, c->is_turned ? "c" : "r", size[outer]));
  at[lane] = draft_lin(&d, kir_loop(&d.b, KIR_LANE, c->is_turned ? "r" : "c", size[lane]));
  int t = kir_loop(&d.b, KIR_SERIAL, "k", k), sum = kir_carry(&d.b, "u", kir_lit(d.k, sums, 0));
  struct kir_lin of_a[AXES], of_b[AXES];
  memcpy(of_a, at, sizeof at), memcpy(of_b, at, sizeof at);
  of_a[column] = of_b[row] = draft_lin(&d, t);
  int x = kir_load(&d.b, x0, of_a), z = kir_load(&d.b, x1, of_b);
  int next = kir_is_float(sums) ? kir_op3(&d.b, KIR_FMA, x, z, sum) : kir_op2(&d.b, KIR_ADD, sum, kir_op2(&d.b, KIR_MUL, x, z));
  kir_next(&d.b, 1, &sum, &next);
  kir_end(&d.b);
  kir_store(&d.b, y0, at, KIR_SET, sum);
  for (int i = 0; i < n_axes; i++) kir_end(&d.b);
  return draft_end(&d);
}

static bool multiply_blocks(struct work *w, const struct contraction *all, weft_dtype sums, int store, int64_t first, int64_t n,
                            int64_t k) {
  struct contraction *c = blocks_of(w, all, store, first, n, k);
  if (c && work_is_for_device(w)) return write_product(w, c, sums);
  struct step *s = c ? step_new(w, &step_product) : NULL;
  if (s) s->contraction = c;
  return s;
}

/* y[..,i,j] = x[0,..,i,j] + x[1,..,i,j] + .. in this order, rounded to the dtype of y. Axes of one element have no loop: a sum
 * alone is a chain, which a device knows. */
static bool add_blocks(struct work *w, const struct contraction *c, weft_dtype t, weft_dtype to, int store, int64_t n) {
  struct draft d;
  struct kir_lin at[AXES], of_rest[AXES];
  int64_t dense[AXES], a_block = dense_strides(c, dense);
  int n_axes = 0;
  if (!draft_begin(&d, w, "blocks")) return false;
  struct kir_lin later = draft_lin(&d, draft_size(&d, "B", n - 1));
  struct reach first = { .store = store }, rest = { .store = store, .offset = a_block },
               y = { .store = c->y.store, .offset = c->y.offset };
  reach_along(&rest, later, a_block);
  for (int i = 0; i < c->n_batch + 2; i++) {
    int64_t n_i = extent(c, i);
    if (n_i == 1) continue;
    int size = i < c->n_batch ? draft_sized(&d, "A", i, n_i) : draft_size(&d, i == c->n_batch ? "M" : "N", n_i);
    at[n_axes++] = draft_lin(&d, size);
    reach_along(&first, at[n_axes - 1], dense[i]), reach_along(&rest, at[n_axes - 1], dense[i]);
    reach_along(&y, at[n_axes - 1], c->y.stride[i]);
  }
  int x0 = draft_buffer(&d, NULL, KIR_IN, t, &first), x1 = draft_buffer(&d, NULL, KIR_IN, t, &rest),
      y0 = draft_buffer(&d, NULL, KIR_OUT, to, &y);
  for (int i = 0; i < n_axes; i++) {
    bool is_last = i == n_axes - 1;
    at[i] = draft_lin(&d, kir_loop(&d.b, is_last ? KIR_LANE : KIR_PAR, is_last ? "j" : "i", at[i]));
  }
  memcpy(of_rest + 1, at, sizeof *at * (size_t)n_axes);
  int begin = kir_load(&d.b, x0, at), b = kir_loop(&d.b, KIR_SERIAL, "b", later), sum = kir_carry(&d.b, NULL, begin);
  of_rest[0] = draft_lin(&d, b);
  int next = kir_op2(&d.b, KIR_ADD, sum, kir_load(&d.b, x1, of_rest));
  kir_next(&d.b, 1, &sum, &next);
  kir_end(&d.b);
  kir_store(&d.b, y0, at, KIR_SET, to == t ? sum : kir_cast(&d.b, to, sum));
  for (int i = 0; i < n_axes; i++) kir_end(&d.b);
  return draft_end(&d);
}

/* Axis q of a batch, its last, and the rows are one axis of the binding. */
static bool joins(const struct binding *x, int q, int64_t m) { return m == 1 || x->stride[q] == m * x->stride[q + 1]; }

/* Without axis q, of which the next one takes the place; is_row: that goes on as it did. */
static void leave_axis(struct binding *x, int q, bool is_row) {
  if (!is_row) x->stride[q + 1] = x->stride[q];
  x->stride[q] = x->stride[q + 1], x->stride[q + 1] = x->stride[q + 2];
}

/* The product with axes of the batch that only the left operand has as rows, so that the right one is read once. */
static struct contraction rows_joined(const struct contraction *c) {
  struct contraction x = *c;
  while (x.n_batch && !x.b.stride[x.n_batch - 1] && joins(&x.a, x.n_batch - 1, x.m) && joins(&x.y, x.n_batch - 1, x.m)) {
    int q = --x.n_batch;
    leave_axis(&x.a, q, x.m > 1), leave_axis(&x.y, q, x.m > 1), leave_axis(&x.b, q, true);
    x.m *= x.batch[q];
  }
  x.is_turned = x.n < THIN_ROWS && x.m > x.n; /* what is long goes along lanes */
  return x;
}

bool step_blocks(struct work *w, const struct contraction *all, weft_dtype to) {
  struct contraction joined = work_is_for_device(w) ? rows_joined(all) : *all, *c = &joined;
  weft_dtype t = kir_register_of(c->a_dtype); /* of 8 and 16 bits unsigned: the result is a wider one */
  int64_t whole = c->k / KIR_PRODUCT_BLOCK, rest = c->k % KIR_PRODUCT_BLOCK, n = whole + (rest > 0);
  int64_t dense[AXES];
  int store = store_new(w, n * dense_strides(c, dense) * (int64_t)weft_dtype_bytes(t));
  if (store < 0 || !multiply_blocks(w, c, t, store, 0, whole, KIR_PRODUCT_BLOCK)) return false;
  if (rest && !multiply_blocks(w, c, t, store, whole, 1, rest)) return false;
  return add_blocks(w, c, t, to, store, n);
}
