/* draft.c -- a kernel that is being written: see draft.h. */
#include "schedule/draft.h"
#include <stdatomic.h>
#include <string.h>
#include "graph/dtype.h"

/* ---- steps ---- */

struct step *step_new(struct work *w, const struct step_kind *kind) {
  struct schedule *s = w->out;
  if (s->n_steps == w->room_steps) {
    int room = w->room_steps ? 2 * w->room_steps : 8;
    struct step *more = arena_grow(w->arena, s->step, sizeof *more * (size_t)s->n_steps, sizeof *more * (size_t)room);
    if (!more) return w->no_memory = true, NULL;
    s->step = more;
    w->room_steps = room;
  }
  s->step[s->n_steps] = (struct step){ .kind = kind, .origin = w->origin, .is_for_device = work_is_for_device(w) };
  return &s->step[s->n_steps++];
}

static void *copy_of(struct work *w, const void *p, size_t bytes) {
  void *q = work_take(w, bytes);
  return q && bytes ? memcpy(q, p, bytes) : q;
}

static uint8_t stride_class(int64_t s) {
  return s == 0 ? STRIDE_0 : s == 1 ? STRIDE_1 : s == -1 ? STRIDE_MINUS_1 : STRIDE_ANY;
}

/* A length of a local array; beyond all bounds if it is not made of sizes. */
static double length_of(const struct draft *d, struct kir_lin l) {
  double sum = 0;
  for (int i = 0; i < l.n; i++) {
    double product = (double)l.term[i].coef;
    for (int j = 0; j < l.term[i].n; j++) {
      const struct kir_val *v = &d->k->vals[l.term[i].val[j]];
      product *= v->kind == KIR_SIZE ? (double)d->sizes[v->index] : (double)FEW_LOCAL_BYTES;
    }
    sum += product;
  }
  return sum;
}

static bool has_few_locals(const struct draft *d) {
  double bytes = 0;
  for (int b = 0; b < d->k->n_bufs; b++) {
    const struct kir_buf *x = &d->k->bufs[b];
    double n = x->kind == KIR_LOCAL ? (double)weft_dtype_bytes((weft_dtype)x->dtype) : 0;
    for (int k = 0; k < x->rank; k++) n *= length_of(d, x->dims[k]);
    bytes += n + 16; /* each begins where all may be loaded from */
  }
  return bytes <= FEW_LOCAL_BYTES;
}

/* From so many short rows on a GPU is busy with warps that have several. */
enum { MANY_ROWS = 1 << 14 };
static _Atomic int64_t many_rows = MANY_ROWS;

void draft_use_many_rows(int64_t rows) { atomic_store(&many_rows, rows ? rows : MANY_ROWS); }

static void fill(struct step *s, struct draft *d) {
  s->shape.in_order = work_is_for_device(d->w) && !d->w->is_loose;
  s->shape.tf32 = work_is_for_device(d->w) && d->w->tf32;
  s->shape.by_library = work_is_for_device(d->w) && d->w->by_library;
  s->shape.few_locals = work_is_for_device(d->w) && has_few_locals(d);
  shape_of_rows(&s->shape, d->row);
  if (work_is_for_device(d->w) && d->n_rows >= atomic_load(&many_rows)) shape_of_short_rows(&s->shape, d->row);
  s->n_bufs = d->n_bufs, s->n_sites = d->n_sites;
  s->sizes = copy_of(d->w, d->sizes, sizeof *d->sizes * (size_t)d->n_sizes);
  s->args = copy_of(d->w, d->arg, sizeof *d->arg * (size_t)d->n_args);
  s->bufs = copy_of(d->w, d->bind, sizeof *d->bind * (size_t)d->n_bufs);
  s->site = copy_of(d->w, d->site, sizeof *d->site * (size_t)d->n_sites);
  for (int i = 0; i < d->n_bufs; i++)
    for (int j = 0; j < AXES; j++) s->shape.stride[i][j] = stride_class(d->bind[i].stride[j]);
}

/* ---- drafts ---- */

bool draft_begin(struct draft *d, struct work *w, const char *name) {
  d->w = w;
  d->n_sizes = d->n_args = d->n_bufs = d->n_sites = 0;
  d->is_full = false;
  d->row = d->n_rows = 0;
  if (!(d->k = kir_new(name))) return !(w->no_memory = true);
  kir_begin(&d->b, d->k);
  return true;
}

void draft_drop(struct draft *d) {
  kir_free(d->k);
  d->k = NULL;
}

bool draft_end(struct draft *d) {
  struct work *w = d->w;
  struct step *s = d->is_full || d->k->failed ? NULL : step_new(w, &step_kernel);
  if (d->is_full) w->is_crowded = true;
  else if (!s) w->no_memory = true;
  if (!s) return draft_drop(d), false;
  s->kernel = d->k; /* the step's, even if there is no memory for the rest of it */
  fill(s, d);
  return !w->no_memory;
}

struct kir_lin draft_lin(struct draft *d, int value) { return kir_lin_val(d->k, value); }

/* Whether a list of a draft with n of at most `most` entries has room for one more; if not, the draft is full. */
static bool fits(struct draft *d, int n, int most) { return n < most || !(d->is_full = true); }

int draft_size(struct draft *d, const char *name, int64_t n) {
  if (!fits(d, d->n_sizes, DRAFT_SIZES)) return kir_lit_int(d->k, WEFT_I64, n);
  d->sizes[d->n_sizes++] = n;
  return kir_size(d->k, name);
}

/* name, then a number below a thousand. */
static void numbered(char out[8], const char *name, int number) {
  int n = 0;
  for (; n < 4 && name[n]; n++) out[n] = name[n];
  for (int unit = number >= 100 ? 100 : number >= 10 ? 10 : 1; unit; unit /= 10) out[n++] = (char)('0' + number / unit % 10);
  out[n] = 0;
}

int draft_sized(struct draft *d, const char *name, int number, int64_t n) {
  char full[8];
  numbered(full, name, number);
  return draft_size(d, full, n);
}

int draft_number(struct draft *d, const struct node *scalar) {
  weft_dtype own = (weft_dtype)scalar->dtype, t = kir_register_of(own);
  uint64_t bits = dtype_widen(own, scalar_bits(scalar, own));
  for (int i = 0; i < d->n_args && !d->k->failed; i++)
    if (d->arg[i] == bits && d->k->vals[d->k->args[i]].dtype == t) return d->k->args[i];
  if (!fits(d, d->n_args, DRAFT_NUMBERS)) return kir_lit(d->k, t, 0);
  char name[8];
  numbered(name, "s", d->n_args);
  d->arg[d->n_args++] = bits;
  return kir_arg(d->k, name, t);
}

/* A user's message is told when its node may be gone: in the background, on a device. So the plan has its own. */
static const char *kept(struct draft *d, const char *text) {
  char *copy = work_take(d->w, strlen(text) + 1);
  return copy ? strcpy(copy, text) : "";
}

void draft_check(struct draft *d, int ok, struct kir_lin at, int of, struct site site) {
  if (!fits(d, d->n_sites, DRAFT_SITES)) return;
  if (site.is_told) site.text = kept(d, site.text);
  d->site[d->n_sites++] = site;
  kir_check(&d->b, ok, at, of);
}

void draft_next(struct draft *d, int n, const int carry[], const int next[], int stop) {
  bool is_carry = false;
  for (int i = 0; i < n; i++) is_carry |= carry[i] == stop;
  if (is_carry) stop = kir_op2(&d->b, KIR_OR, stop, stop);
  if (n) kir_next(&d->b, n, carry, next);
  if (stop >= 0) kir_until(&d->b, stop);
}

/* One statement an instruction: the order in which C evaluates arguments must not show in a kernel. */
int draft_place(struct draft *d, int i, int size, int *is_there) {
  struct kir_builder *b = &d->b;
  int zero = kir_lit_int(d->k, WEFT_I64, 0), k = kir_cast(b, WEFT_I64, i);
  int is_below = kir_op2(b, KIR_LT, k, zero), from_end = kir_op2(b, KIR_ADD, k, size);
  k = kir_op3(b, KIR_SELECT, is_below, from_end, k);
  int place = kir_cast(b, WEFT_U64, k), end = kir_cast(b, WEFT_U64, size); /* what is still below 0 is beyond any end */
  *is_there = kir_op2(b, KIR_LT, place, end);
  return k;
}

int draft_index(struct draft *d, int i, int size, struct kir_lin at, struct site site) {
  int is_there, k = draft_place(d, i, size, &is_there);
  draft_check(d, is_there, at, site.is_told ? kir_lit_int(d->k, WEFT_I64, 0) : k, site);
  return k;
}

static int count_alike(const struct kir_kernel *k, enum kir_buf_kind kind) {
  int n = 0;
  for (int i = 0; i < k->n_bufs; i++) n += (k->bufs[i].kind == KIR_IN) == (kind == KIR_IN);
  return n;
}

void reach_along(struct reach *r, struct kir_lin size, int64_t stride) {
  r->dims[r->rank] = size;
  r->stride[r->rank++] = stride;
}

int draft_buffer(struct draft *d, const char *name, enum kir_buf_kind kind, weft_dtype dtype, const struct reach *r) {
  char made[8];
  if (r->rank > AXES || !fits(d, d->n_bufs, DRAFT_BUFFERS)) {
    d->is_full = true; /* a buffer all the same, bound to nothing: whoever reads it finds its rank and dtype */
    return kir_buf(d->k, "none", kind, dtype, r->rank, r->dims);
  }
  struct binding *b = &d->bind[d->n_bufs++];
  *b = (struct binding){ .store = r->store, .offset = r->offset,
                         .use = kind == KIR_IN ? STORE_READ : kind == KIR_OUT ? STORE_WRITTEN : STORE_BOTH };
  memcpy(b->stride, r->stride, sizeof *b->stride * (size_t)r->rank);
  if (!name) numbered(made, kind == KIR_IN ? "x" : "y", count_alike(d->k, kind));
  return kir_buf(d->k, name ? name : made, kind, dtype, r->rank, r->dims);
}

/* ---- axes ---- */

void axes_merge(struct axes *x, bool (*may_merge)(void *of, int a, int b), void *of) {
  for (int i = x->n_live - 2; i >= 0; i--) {
    int a = x->live[i], b = x->live[i + 1];
    if (!may_merge(of, a, b)) continue;
    x->extent[b] *= x->extent[a];
    for (int j = i; j + 1 < x->n_live; j++) x->live[j] = x->live[j + 1];
    x->n_live--;
  }
}

int axes_reach(const struct axes *x, struct draft *d, const int64_t stride[], struct reach *r) {
  for (int i = 0; i < x->n_live; i++) {
    int a = x->live[i];
    if (stride[a]) reach_along(r, draft_lin(d, x->size[a]), stride[a]);
  }
  return r->rank;
}

int axes_subscripts(const struct axes *x, struct draft *d, const int64_t stride[], int rank, struct kir_lin at[]) {
  for (int i = 0; i < x->n_live; i++)
    if (stride[x->live[i]]) at[rank++] = draft_lin(d, x->var[x->live[i]]);
  return rank;
}
