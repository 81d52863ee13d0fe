/* blocks.c -- products of few results and many terms, such as the sums over all steps of a loop: [m,k] x [k,n], k long.
 *
 * The order of a contraction is that of blocks which start at +0 and are added in order. So the blocks are a batch of small
 * products, which read their operands where they are and which threads share, and a kernel adds them: the same bits. On a
 * device that batch is a kernel in KIR, as products are there. */
#include "backend/patch.h"
#include "schedule/draft.h"

enum {
  LEAST_BLOCKS = 8,
  LEAST_ROWS = 4,
  LEAST_COLUMNS = 16,
  LEAST_PRODUCTS = 1 << 22, /* less is not worth a thread */
  THIN = 32, THIN_BLOCKS = 4, /* on a device: fewer rows or columns have one thread each, which goes along all of k; so many blocks
                               are worth the launch that adds them. Not measured */
  SMALLEST_SHARE = 8        /* the results of all blocks are at most one in so many of the elements read */
};

/* Blocks are added as registers have them. A device rounds halves behind that, unless a library multiplies them. */
static bool may_be_sums(const struct work *w, const struct node *n) {
  weft_dtype t = (weft_dtype)n->dtype;
  if (kir_is_register(t)) return true;
  return work_is_for_device(w) && (t == WEFT_F16 || t == WEFT_BF16) && !contract_is_apart(w, n);
}

bool contract_is_long(const struct work *w, const struct node *n) {
  int64_t m, columns, k = n->in[0]->dims[n->rank - 1];
  if (!contract_is_by_patches(w, n) && !work_is_for_device(w)) return false;
  if (n->rank < 2 || !may_be_sums(w, n)) return false;
  m = n->dims[n->rank - 2], columns = n->dims[n->rank - 1];
  bool is_thin = work_is_for_device(w) && (m < THIN || columns < THIN) && (m >= THIN || columns >= THIN);
  if (node_count(n) != m * columns || (!is_thin && (m < LEAST_ROWS || columns < LEAST_COLUMNS))) return false;
  if (k < (is_thin ? THIN_BLOCKS : LEAST_BLOCKS) * KIR_PRODUCT_BLOCK) return false;
  return (double)m * (double)columns * (double)k >= LEAST_PRODUCTS &&
         m * columns <= KIR_PRODUCT_BLOCK / SMALLEST_SHARE * (m + columns);
}

/* n products of at most a block each, from block `first` on. */
static struct contraction *blocks_of(struct work *w, const struct contraction *all, int store, int64_t first, int64_t n,
                                     int64_t k) {
  struct contraction *c = work_take(w, sizeof *c);
  if (!c) return NULL;
  *c = *all;
  c->n_batch = 1, c->batch[0] = n, c->k = k;
  c->a.offset += first * KIR_PRODUCT_BLOCK * all->a.stride[1];
  c->b.offset += first * KIR_PRODUCT_BLOCK * all->b.stride[0];
  c->a.stride[0] = KIR_PRODUCT_BLOCK * all->a.stride[1], c->a.stride[1] = all->a.stride[0], c->a.stride[2] = all->a.stride[1];
  c->b.stride[0] = KIR_PRODUCT_BLOCK * all->b.stride[0], c->b.stride[1] = all->b.stride[0], c->b.stride[2] = all->b.stride[1];
  c->y = (struct binding){ .store = store, .offset = first * c->m * c->n, .stride = { c->m * c->n, c->n, 1 } };
  return c;
}

/* y[q,i,j] = sum over k of a[q,i,k] b[q,k,j], as a kernel; lanes go along the columns, or along the rows where columns are few. */
static bool write_product(struct work *w, const struct contraction *c, weft_dtype sums) {
  struct draft d;
  if (!draft_begin(&d, w, "matmul")) return false;
  struct kir_lin q = draft_lin(&d, draft_size(&d, "Q", c->batch[0])), m = draft_lin(&d, draft_size(&d, "R", c->m)),
                 n = draft_lin(&d, draft_size(&d, "C", c->n)), k = draft_lin(&d, draft_size(&d, "K", c->k));
  struct reach a = { .store = c->a.store, .offset = c->a.offset }, b = { .store = c->b.store, .offset = c->b.offset },
               y = { .store = c->y.store, .offset = c->y.offset };
  reach_along(&a, q, c->a.stride[0]), reach_along(&a, m, c->a.stride[1]), reach_along(&a, k, c->a.stride[2]);
  reach_along(&b, q, c->b.stride[0]), reach_along(&b, k, c->b.stride[1]), reach_along(&b, n, c->b.stride[2]);
  reach_along(&y, q, c->y.stride[0]), reach_along(&y, m, c->y.stride[1]), reach_along(&y, n, c->y.stride[2]);
  int x0 = draft_buffer(&d, NULL, KIR_IN, c->a_dtype, &a), x1 = draft_buffer(&d, NULL, KIR_IN, c->b_dtype, &b),
      y0 = draft_buffer(&d, NULL, KIR_OUT, sums, &y);
  struct kir_lin vq = draft_lin(&d, kir_loop(&d.b, KIR_PAR, "q", q)),
                 outer = draft_lin(&d, kir_loop(&d.b, KIR_PAR, c->is_turned ? "c" : "r", c->is_turned ? n : m)),
                 lane = draft_lin(&d, kir_loop(&d.b, KIR_LANE, c->is_turned ? "r" : "c", c->is_turned ? m : n)),
                 vi = c->is_turned ? lane : outer, vj = c->is_turned ? outer : lane;
  int t = kir_loop(&d.b, KIR_SERIAL, "k", k), sum = kir_carry(&d.b, "u", kir_lit(d.k, sums, 0));
  int x = kir_load(&d.b, x0, (struct kir_lin[]){ vq, vi, draft_lin(&d, t) }), z = kir_load(&d.b, x1,
      (struct kir_lin[]){ vq, draft_lin(&d, t), vj });
  int next = kir_is_float(sums) ? kir_op3(&d.b, KIR_FMA, x, z, sum) : kir_op2(&d.b, KIR_ADD, sum, kir_op2(&d.b, KIR_MUL, x, z));
  kir_next(&d.b, 1, &sum, &next);
  kir_end(&d.b);
  kir_store(&d.b, y0, (struct kir_lin[]){ vq, vi, vj }, KIR_SET, sum);
  for (int i = 0; i < 3; i++) kir_end(&d.b);
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

/* y[i,j] = x[0,i,j] + x[1,i,j] + .. in this order, rounded to the dtype of y. */
static bool add_blocks(struct work *w, const struct contraction *c, weft_dtype t, weft_dtype to, int store, int64_t n) {
  struct draft d;
  if (!draft_begin(&d, w, "blocks")) return false;
  struct kir_lin later = draft_lin(&d, draft_size(&d, "B", n - 1)), m = draft_lin(&d, draft_size(&d, "M", c->m)),
                 columns = draft_lin(&d, draft_size(&d, "N", c->n));
  struct reach first = { .store = store }, rest = { .store = store, .offset = c->m * c->n },
               y = { .store = c->y.store, .offset = c->y.offset };
  reach_along(&rest, later, c->m * c->n);
  reach_along(&first, m, c->n), reach_along(&rest, m, c->n), reach_along(&y, m, c->y.stride[0]);
  reach_along(&first, columns, 1), reach_along(&rest, columns, 1), reach_along(&y, columns, c->y.stride[1]);
  int x0 = draft_buffer(&d, NULL, KIR_IN, t, &first), x1 = draft_buffer(&d, NULL, KIR_IN, t, &rest),
      y0 = draft_buffer(&d, NULL, KIR_OUT, to, &y);
  int i = kir_loop(&d.b, KIR_PAR, "i", m), j = kir_loop(&d.b, KIR_LANE, "j", columns);
  struct kir_lin at[] = { draft_lin(&d, i), draft_lin(&d, j) };
  int begin = kir_load(&d.b, x0, at), b = kir_loop(&d.b, KIR_SERIAL, "b", later), sum = kir_carry(&d.b, NULL, begin);
  int next = kir_op2(&d.b, KIR_ADD, sum, kir_load(&d.b, x1, (struct kir_lin[]){ draft_lin(&d, b), at[0], at[1] }));
  kir_next(&d.b, 1, &sum, &next);
  kir_end(&d.b);
  kir_store(&d.b, y0, at, KIR_SET, to == t ? sum : kir_cast(&d.b, to, sum));
  kir_end(&d.b);
  kir_end(&d.b);
  return draft_end(&d);
}

bool step_blocks(struct work *w, const struct contraction *c, weft_dtype to) {
  weft_dtype t = kir_register_of(to);
  int64_t whole = c->k / KIR_PRODUCT_BLOCK, rest = c->k % KIR_PRODUCT_BLOCK, n = whole + (rest > 0);
  int store = store_new(w, n * c->m * c->n * (int64_t)weft_dtype_bytes(t));
  if (store < 0 || !multiply_blocks(w, c, t, store, 0, whole, KIR_PRODUCT_BLOCK)) return false;
  if (rest && !multiply_blocks(w, c, t, store, whole, 1, rest)) return false;
  return add_blocks(w, c, t, to, store, n);
}
