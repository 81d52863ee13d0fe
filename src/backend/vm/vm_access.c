/* vm_access.c -- loads and stores of the interpreter: an address, a class of stride, a mask.
 *
 * Dense memory of the register dtype is used in place where the program allows it. Everything that does not move in
 * step goes through one loop an element width; narrow dtypes are converted before or after, dense. */
#include "backend/vm/frame.h"
#include "backend/vm/number.h"
#include <stddef.h>

typedef uint16_t raw_2 __attribute__((may_alias));
typedef uint8_t raw_1;
typedef num_u32 raw_4;
typedef num_u64 raw_8;

/* A place for each lane: p + i stride + scale at[i]. */
struct spread { char *p; int64_t stride, scale, limit; const int64_t *at; };

static inline char *spot(const struct spread *s, int64_t i) {
  int64_t off = i * s->stride + (s->at ? s->at[i] * s->scale : 0);
  if (s->limit && (uint64_t)off >= (uint64_t)s->limit) off = 0; /* a table read by a lane that does not count */
  return s->p + off;
}

#define RAW(w)                                                                                            \
  static void gather_##w(void *out_, const struct spread *s, const uint8_t *mask, int64_t n) {            \
    raw_##w *out = out_;                                                                                  \
    for (int64_t i = 0; i < n; i++) out[i] = !mask || mask[i] ? *(raw_##w *)spot(s, i) : 0;               \
  }                                                                                                       \
  static void scatter_##w(const struct spread *s, const void *v_, const uint8_t *mask, int64_t n) {       \
    const raw_##w *v = v_;                                                                                \
    for (int64_t i = 0; i < n; i++)                                                                       \
      if (!mask || mask[i]) *(raw_##w *)spot(s, i) = v[i];                                                \
  }
RAW(1) RAW(2) RAW(4) RAW(8)
static void (*const gathers[9])(void *, const struct spread *, const uint8_t *, int64_t) = {
  [1] = gather_1, [2] = gather_2, [4] = gather_4, [8] = gather_8};
static void (*const scatters[9])(const struct spread *, const void *, const uint8_t *, int64_t) = {
  [1] = scatter_1, [2] = scatter_2, [4] = scatter_4, [8] = scatter_8};

static inline char *address(const struct vm_frame *f, const struct vm_access *a, const struct vm_bound *b) {
  int64_t off = vm_lin_value(f, a->own);
  if (a->addr >= 0) off += vm_i64(f, a->addr);
  return b->base + off;
}
static inline int64_t lane_stride(const struct vm_frame *f, const struct vm_access *a, const struct vm_bound *b) {
  return b->lane_moves ? vm_lin_value(f, a->lane) : b->lane_stride;
}

static void gather_terms(struct vm_frame *f, const struct vm_access *a, struct spread *s) {
  struct vm_lin first = {a->gather.first, 1};
  s->at = (const int64_t *)f->ptr[f->c->terms[first.first].tile];
  s->scale = vm_lin_value(f, first);
  if (a->gather.n == 1) return;
  uint64_t *sum = (uint64_t *)f->ptr[a->sum];
  for (int64_t i = 0; i < f->n; i++) sum[i] = (uint64_t)s->at[i] * (uint64_t)s->scale;
  for (int t = 1; t < a->gather.n; t++) {
    struct vm_lin term = {a->gather.first + t, 1};
    const int64_t *at = (const int64_t *)f->ptr[f->c->terms[term.first].tile];
    uint64_t scale = (uint64_t)vm_lin_value(f, term);
    for (int64_t i = 0; i < f->n; i++) sum[i] += (uint64_t)at[i] * scale;
  }
  s->at = (const int64_t *)sum, s->scale = 1;
}

static struct spread spread_of(struct vm_frame *f, const struct vm_access *a, const struct vm_bound *b) {
  struct spread s = {.stride = lane_stride(f, a, b), .limit = b->limit};
  s.p = address(f, a, b) + s.stride * f->at;
  if (a->gather.n) gather_terms(f, a, &s);
  return s;
}

static void count(const struct vm_frame *f, const struct vm_access *a, int64_t n) {
  if (f->launch->loads) __atomic_fetch_add(&f->launch->loads[a->buf], (uint64_t)n, __ATOMIC_RELAXED);
}

/* ---- Loads ----------------------------------------------------------------------------------------------------------- */

static void load_spread(struct vm_frame *f, const struct vm_bound *b, void *out, const struct spread *s, const uint8_t *mask) {
  bool direct = b->is_same && b->dtype != WEFT_BOOL;
  gathers[b->width](direct ? out : f->raw, s, mask, f->n);
  if (!direct) f->tiles->load[b->dtype][0](out, f->raw, b->width, f->n);
}

void vm_load(struct vm_frame *f, const struct vm_step *step) {
  const struct vm_access *a = &f->c->access[step->access];
  const struct vm_bound *b = &f->bound[step->access];
  const uint8_t *mask = vm_mask(f, step->mask);
  struct spread s = spread_of(f, a, b);
  count(f, a, step->mask < 0 ? f->n : f->active[step->mask]);
  if (step->by_ref && b->is_same && s.stride == b->width) { f->ptr[step->out] = s.p; return; }
  if (f->c->regs[step->out].kind == VM_REF) f->ptr[step->out] = f->home[step->out];
  void *out = f->ptr[step->out];
  if (mask || s.at || s.limit) load_spread(f, b, out, &s, mask);
  else f->tiles->load[b->dtype][s.stride != b->width](out, s.p, s.stride, f->n);
}

void vm_load_one(struct vm_frame *f, const struct vm_step *step) {
  const struct vm_access *a = &f->c->access[step->access];
  const struct vm_bound *b = &f->bound[step->access];
  const char *p = address(f, a, b);
  char *out = f->ptr[step->out];
  count(f, a, 1);
  if (b->is_same && b->width == 4) *(raw_4 *)out = *(const raw_4 *)p;
  else if (b->is_same && b->width == 8) *(raw_8 *)out = *(const raw_8 *)p;
  else f->tiles->load[b->dtype][1](out, p, 0, 1);
}

/* ---- Stores ---------------------------------------------------------------------------------------------------------- */

/* Combining into a narrow dtype that is not a private copy: one element after the other, rounded each time. */
static void meet_narrow(struct vm_frame *f, const struct vm_step *step, const struct vm_bound *b, weft_dtype reg,
                        const struct spread *s, const uint8_t *mask, int64_t n) {
  const char *v = f->ptr[step->in[0]];
  for (int64_t i = 0; i < n; i++) {
    if (mask && !mask[i]) continue;
    uint64_t old;
    f->tiles->load[b->dtype][1](&old, spot(s, i), 0, 1);
    f->tiles->op[step->op][tile_reg(reg)][0](&old, &old, v + i * tile_width(reg), NULL, 1);
    f->tiles->store[b->dtype][1](spot(s, i), 0, &old, 1);
  }
}

static void combine(struct vm_frame *f, const struct vm_step *step, const struct vm_access *a, const struct vm_bound *b,
                    const struct spread *s, const uint8_t *mask, int64_t n) {
  const void *v = f->ptr[step->in[0]];
  bool dense = !mask && !s->at && s->stride == b->width;
  if (!b->is_same) meet_narrow(f, step, b, a->reg_dtype, s, mask, n);
  else if (dense) f->tiles->op[step->op][tile_reg(a->reg_dtype)][3](s->p, s->p, v, NULL, n);
  else order_of(step->op, a->reg_dtype)->meet(s->p, s->stride, s->at, s->scale, v, mask, n);
}

static void set_spread(struct vm_frame *f, const struct vm_bound *b, const void *v, const struct spread *s, const uint8_t *mask) {
  if (!b->is_same) f->tiles->store[b->dtype][0](f->raw, b->width, v, f->n), v = f->raw;
  scatters[b->width](s, v, mask, f->n);
}

void vm_store(struct vm_frame *f, const struct vm_step *step) {
  const struct vm_access *a = &f->c->access[step->access];
  const struct vm_bound *b = &f->bound[step->access];
  const uint8_t *mask = vm_mask(f, step->mask);
  struct spread s = spread_of(f, a, b);
  if (step->op != KIR_SET) combine(f, step, a, b, &s, mask, f->n);
  else if (mask || s.at) set_spread(f, b, f->ptr[step->in[0]], &s, mask);
  else f->tiles->store[b->dtype][s.stride != b->width](s.p, s.stride, f->ptr[step->in[0]], f->n);
}

void vm_store_one(struct vm_frame *f, const struct vm_step *step) {
  const struct vm_access *a = &f->c->access[step->access];
  const struct vm_bound *b = &f->bound[step->access];
  struct spread s = {.p = address(f, a, b)};
  if (step->op != KIR_SET && b->is_same) f->tiles->op[step->op][tile_reg(a->reg_dtype)][0](s.p, s.p, f->ptr[step->in[0]], NULL, 1);
  else if (step->op != KIR_SET) combine(f, step, a, b, &s, NULL, 1);
  else if (b->is_same && b->width == 4) *(raw_4 *)s.p = *(const raw_4 *)f->ptr[step->in[0]];
  else if (b->is_same && b->width == 8) *(raw_8 *)s.p = *(const raw_8 *)f->ptr[step->in[0]];
  else f->tiles->store[b->dtype][1](s.p, 0, f->ptr[step->in[0]], 1);
}

/* An operation whose result is born in memory, if that is dense. */
void vm_op_store(struct vm_frame *f, const struct vm_step *step) {
  const struct vm_access *a = &f->c->access[step->access];
  const struct vm_bound *b = &f->bound[step->access];
  struct spread s = spread_of(f, a, b);
  bool dense = b->is_same && s.stride == b->width;
  char **p = f->ptr;
  void *out = dense ? s.p : f->home[step->out];
  step->run(out, step->in[0] < 0 ? NULL : p[step->in[0]], step->in[1] < 0 ? NULL : p[step->in[1]],
            step->in[2] < 0 ? NULL : p[step->in[2]], f->n);
  if (!dense) f->tiles->store[b->dtype][1](s.p, s.stride, out, f->n);
}
