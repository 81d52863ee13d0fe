/* contraction.c -- products of matrices by patches of a back end: which, on what memory, and how they are turned. */
#include <string.h>
#include "backend/blas.h"
#include "schedule/work.h"

enum {
  LEAST_PRODUCTS = 512, /* smaller ones are kernels in KIR */
  FEW_TERMS = 64,       /* so are matrices of short rows by a vector */
  FEW_COLUMNS = 16,     /* less than a vector: rows become the columns */
  LONGEST_ROW = 16384,  /* of cells that have whole rows; */
  MOST_HELD = 1 << 20,  /* elements of the right operand, which each of them reads; */
  LEAST_ROWS = 256,     /* fewer leave threads without work; */
  LEAST_SINGLE = 8,     /* .. but a row for itself, a query of attention, reads a right operand of its own or of a few; */
  FEW_PRODUCTS = 1 << 21, /* unless there is little to do .. */
  FEW_HELD = 1 << 16    /* .. and little to read: elements of the right operand that one thread may as well read alone; 256 KB
                           of f32, which stand in its cache. Not measured by itself: it is for the decoder of bench/compare */
};

static int64_t rows(const struct node *n) { return n->dims[n->rank - 2]; }
static int64_t columns(const struct node *n) { return n->dims[n->rank - 1]; }
static int64_t inner(const struct node *n) { return n->in[0]->dims[n->rank - 1]; }

static int batch_axes(const struct node *n) {
  int axes = 0;
  for (int k = 0; k < n->rank - 2; k++) axes += n->dims[k] != 1;
  return axes;
}

bool contract_is_by_patches(const struct work *w, const struct node *n) {
  if (!w->by_patches || batch_axes(n) > AXES - 2) return false;
  if (columns(n) == 1 && inner(n) <= FEW_TERMS) return false; /* read once: nothing is gained by turning and packing it */
  return (double)node_count(n) * (double)inner(n) >= LEAST_PRODUCTS;
}

bool contract_is_turned(const struct node *n) { return columns(n) < FEW_COLUMNS && rows(n) > columns(n); }

bool contract_takes_rows(const struct node *n) {
  if (columns(n) == 1) return false; /* the last axis is another */
  if (contract_is_turned(n) || columns(n) > LONGEST_ROW || inner(n) > MOST_HELD / columns(n)) return false;
  if (node_count(n) >= (rows(n) == 1 ? LEAST_SINGLE : LEAST_ROWS) * columns(n)) return true;
  return inner(n) <= FEW_HELD / columns(n) && (double)node_count(n) * (double)inner(n) <= FEW_PRODUCTS;
}

/* ---- on a device ---- */

enum {
  LEAST_TILE = 32,          /* rows and columns: tiles have no use for less (backend/cuda/ptx_plan.c) */
  LEAST_TILED = 1 << 20,    /* products: fewer are done within the kernel of their rows sooner than one more is launched */
};
static const double LEAST_APART = 0x1p31; /* products: at 1024^3 weft's own tiles are as fast as cublasLt, at 4096^3 half as fast,
                                             and what follows then costs a tenth of the product (bench/device, H200) */

/* By tiles; of few rows or columns a thread goes along the others. */
bool contract_is_by_itself(const struct work *w, const struct node *n) {
  bool is_side = rows(n) >= LEAST_TILE || columns(n) >= LEAST_TILE;
  return work_is_for_device(w) && is_side && (double)node_count(n) * (double)inner(n) >= LEAST_TILED;
}

static bool is_tiled(const struct work *w, const struct node *n) {
  return contract_is_by_itself(w, n) && rows(n) >= LEAST_TILE && columns(n) >= LEAST_TILE;
}

/* What was asked to be a library's is, whatever follows. */
bool contract_is_apart(const struct work *w, const struct node *n) {
  weft_dtype a = (weft_dtype)n->in[0]->dtype;
  bool is_asked_for = w->by_library && (a == WEFT_F32 || a == WEFT_F64) && is_tiled(w, n);
  bool is_large = work_may_reorder(w, a) && (double)node_count(n) * (double)inner(n) >= LEAST_APART;
  if (!w->device || !w->device->multiplies_halves || a != n->in[1]->dtype) return false;
  return (is_asked_for || is_large) && w->device->multiplies_halves(w->device);
}

static struct binding binding_of(const struct node *n, const struct place *p) {
  struct binding b = { .store = p->store, .offset = p->offset };
  int axis = 0;
  for (int k = 0; k < n->rank; k++) {
    bool is_one = n->dims[k] == 1;
    if (k < n->rank - 2 && is_one) continue;
    b.stride[axis++] = is_one ? 0 : p->stride[k];
  }
  return b;
}

enum { AT_A_TIME = 8 }; /* products, in the time of one operation of a kernel */

/* Makers have accounted for what they read. */
void contract_account(struct work *w, const struct contraction *c) {
  double batch = 1, a = c->maker[0] ? 0 : (double)weft_dtype_bytes(c->a_dtype);
  double b = c->maker[1] ? 0 : (double)weft_dtype_bytes(c->b_dtype);
  for (int i = 0; i < c->n_batch; i++) batch *= (double)c->batch[i];
  double k = (double)c->k * (1 + c->n_more), products = batch * (double)c->m * (double)c->n * k;
  step_add_cost(w, batch * k * (a * (double)c->m + b * (double)c->n), 2 * products, AT_A_TIME);
}

static void name_axes(const struct node *n, struct contraction *c) {
  for (int k = 0; k < n->rank - 2; k++) if (n->dims[k] != 1) c->batch[c->n_batch++] = n->dims[k];
  c->n_axes = c->n_batch;
  c->row_axis = c->m == 1 ? -1 : c->n_axes++;
  c->column_axis = c->n == 1 ? -1 : c->n_axes++;
  memset(c->start, -1, sizeof c->start);
}

/* Where operand k of the group's product stands, or who makes it. */
static bool find_operand(struct work *w, const struct group *g, int k, struct binding *b, const struct maker **maker) {
  struct place p;
  *b = (struct binding){ .store = -1 };
  if (g->made_by[k] >= 0) return *maker = w->group[g->made_by[k]].maker, true;
  if (k == 0 && g->windows) return *b = g->left, true;
  if (k == 1 && (g->run || g->first)) return *b = g->right, true;
  if (!place_needed(w, g->product->in[k], &p)) return false;
  *b = binding_of(g->product->in[k], &p);
  return true;
}

/* The products that are added to the first. */
static bool find_more(struct work *w, const struct node *n, struct contraction *c) {
  c->n_more = n->n_in / 2 - 1;
  if (c->n_more && !(c->more = work_take(w, sizeof *c->more * (size_t)c->n_more))) return false;
  for (int i = 2; i < n->n_in; i++) {
    struct place p;
    if (!place_needed(w, n->in[i], &p)) return false;
    *(i % 2 ? &c->more[i / 2 - 1].b : &c->more[i / 2 - 1].a) = binding_of(n->in[i], &p);
  }
  return true;
}

struct contraction *contraction_of(struct work *w, const struct group *g) {
  struct contraction *c = work_take(w, sizeof *c);
  const struct node *n = g->product;
  if (!c) return NULL;
  *c = (struct contraction){ .m = rows(n), .n = columns(n), .k = inner(n) };
  c->a_dtype = (weft_dtype)n->in[0]->dtype, c->b_dtype = (weft_dtype)n->in[1]->dtype;
  c->is_turned = contract_is_turned(n);
  name_axes(n, c);
  if (!find_operand(w, g, 0, &c->a, &c->maker[0]) || !find_operand(w, g, 1, &c->b, &c->maker[1]) || !find_more(w, n, c))
    return NULL;
  c->windows = g->windows;
  c->is_fed = g->fed_by >= 0, c->b_run = g->run, c->b_first = g->first, c->b_splits_rows = g->splits_rows;
  c->rest = g->first ? g->rest : (struct binding){ .store = -1 };
  c->y.store = c->cell = -1;
  return c;
}

bool contraction_fits(const struct work *w, const struct contraction *c, const struct item *x) {
  const struct node *n = x->node;
  if (work_is_for_device(w)) return true; /* kernels that add its blocks: see blocks.c */
  int across = n->rank - (c->is_turned ? 2 : 1);
  return kir_is_register((weft_dtype)n->dtype) && (n->dims[across] == 1 || x->place.stride[across] == 1);
}

bool step_contract(struct work *w, struct contraction *c, const struct item *x) {
  c->y = binding_of(x->node, &x->place);
  struct step *s = NULL;
  bool is_long = !c->b_run && contract_is_long(w, x->node);
  if (!(is_long ? step_blocks(w, c, (weft_dtype)x->node->dtype) : (s = step_new(w, &step_product)) != NULL)) return false;
  if (s) s->contraction = c;
  contract_account(w, c);
  step_add_cost(w, (double)node_count(x->node) * (double)weft_dtype_bytes((weft_dtype)x->node->dtype), 0, 1);
  return true;
}

/* ---- by a library ---- */

enum { LEAST_FOR_LIBRARY = 1 << 15 }; /* products: below, a call and its checks are a good part of the time (64^3 takes 5 us) */

static struct blas_product as_blas(const struct contraction *c) {
  int row = c->n_batch, column = c->n_batch + 1;
  const struct binding *a = c->is_turned ? &c->b : &c->a, *b = c->is_turned ? &c->a : &c->b;
  if (c->is_turned) row = c->n_batch + 1, column = c->n_batch;
  int64_t m = c->is_turned ? c->n : c->m, n = c->is_turned ? c->m : c->n;
  return (struct blas_product){ .dtype = kir_register_of(c->a_dtype), .m = m, .n = n, .k = c->k, .a_row = a->stride[row],
                                .a_column = a->stride[column], .b_row = b->stride[row], .b_column = b->stride[column],
                                .c_row = c->y.store >= 0 ? c->y.stride[row] : n };
}

static bool is_for_library(const struct contraction *c) {
  if (c->feeds || c->is_fed || c->maker[0] || c->maker[1] || c->windows || c->n_more || c->b_run || c->b_first)
    return false;
  if ((double)c->m * (double)c->n * (double)c->k < LEAST_FOR_LIBRARY) return false;
  struct blas_product p = as_blas(c);
  int64_t c_column = c->y.stride[c->n_batch + !c->is_turned];
  return c->a_dtype == p.dtype && c->b_dtype == p.dtype && blas_takes(&p) && (c->y.store < 0 || c_column == 1 || p.n == 1);
}

void contractions_to_library(struct schedule *s) {
  for (int i = 0; i < s->n_steps; i++)
    if (s->step[i].kind == &step_product && is_for_library(s->step[i].contraction)) s->step[i].kind = &step_library_product;
}

void contractions_loosen(struct schedule *s) {
  for (int i = 0; i < s->n_steps; i++)
    if (s->step[i].kind == &step_product) s->step[i].contraction->is_loose = s->step[i].contraction->a_dtype == WEFT_BF16;
}

/* ---- from afar ---- */

enum { FAR_BYTES = 4 << 20 }; /* of all right operands: a decoder that reads 42 MB of weights, most of them 384^2, takes 3.4 ms of a
                                 processor if it asks for what is next, and 3.8 else */

static double right_bytes(const struct contraction *c) {
  double n = (double)c->k * (double)(c->is_turned ? c->m : c->n) * kir_width(c->is_turned ? c->a_dtype : c->b_dtype);
  const struct binding *b = c->is_turned ? &c->a : &c->b;
  for (int i = 0; i < c->n_batch; i++) if (b->stride[i]) n *= (double)c->batch[i];
  return n;
}

void contractions_find_far(struct schedule *s) {
  double bytes = 0;
  for (int i = 0; i < s->n_steps; i++) if (s->step[i].kind == &step_product) bytes += right_bytes(s->step[i].contraction);
  for (int i = 0; i < s->n_steps; i++) if (s->step[i].kind == &step_product) s->step[i].contraction->is_far = bytes > FAR_BYTES;
}
