/* vm_run.c -- binds a program to a launch and runs it: values in place, strides multiplied in, scratch laid out.
 *
 * A small launch lives on the stack; a large one takes its scratch from the cache of memory. */
#include "backend/float_mode.h"
#include "backend/vm/frame.h"
#include "run/memory.h"
#include <string.h>

enum { ON_STACK = 24 << 10, LINE = 64 };

struct room { char *at, *end; size_t taken; }; /* taken goes on counting when there is no room */

static void *take(struct room *r, size_t bytes) {
  size_t size = (bytes + LINE - 1) & ~(size_t)(LINE - 1);
  char *p = r->at;
  r->taken += size;
  if ((size_t)(r->end - r->at) < size) { r->at = r->end; return NULL; }
  r->at += size;
  return p;
}

/* ---- What is known before the first step ----------------------------------------------------------------------------- */

static bool tables(struct vm_frame *f, struct room *r, uint64_t **values) {
  const struct code *c = f->c;
  size_t regs = (size_t)c->n_regs + 1;
  char **p = take(r, sizeof(char *) * regs);
  f->home = take(r, sizeof(char *) * regs);
  f->mult = take(r, sizeof *f->mult * (size_t)c->n_terms);
  f->active = take(r, sizeof *f->active * regs);
  f->bound = take(r, sizeof *f->bound * (size_t)c->n_access);
  f->span = take(r, sizeof *f->span * (size_t)c->n_loops);
  f->fold = take(r, sizeof *f->fold * (size_t)c->n_folds);
  *values = take(r, sizeof **values * (size_t)c->n_ones);
  if (r->at == r->end) return false;
  p[0] = NULL, f->ptr = p + 1;
  return true;
}

static size_t tables_bytes(const struct code *c) {
  size_t regs = (size_t)c->n_regs + 1;
  return 8 * LINE + (sizeof(char *) * 2 + sizeof(int64_t)) * regs + sizeof(int64_t) * (size_t)c->n_terms +
         sizeof(struct vm_bound) * (size_t)c->n_access + sizeof(struct vm_span) * (size_t)c->n_loops +
         sizeof(struct vm_fold_state) * (size_t)c->n_folds + sizeof(uint64_t) * (size_t)c->n_ones;
}

static void values(struct vm_frame *f, uint64_t *ones) {
  const struct code *c = f->c;
  memcpy(ones, c->ones, sizeof *ones * (size_t)c->n_ones);
  for (int r = 0; r < c->n_regs; r++)
    if (c->regs[r].kind == VM_ONE) f->ptr[r] = (char *)&ones[c->regs[r].slot];
  for (int i = 0; i < c->n_sizes; i++) *(int64_t *)f->ptr[c->size_reg[i]] = f->launch->sizes[i];
  for (int i = 0; i < c->n_args; i++) order_put(f->ptr[c->arg_reg[i]], c->arg_dtype[i], f->launch->args[i]);
}

static void local_strides(const struct vm_frame *f, const struct vm_buf *b, int64_t *stride) {
  int64_t s = 1;
  for (int a = b->rank - 1; a >= 0; a--) stride[a] = s, s *= vm_lin_value(f, b->dims[a]);
}

static int element_bytes(const struct vm_frame *f, int buf) {
  const struct vm_buf *b = &f->c->bufs[buf];
  bool wide = b->kind < KIR_TABLE && f->launch->bufs[buf].in_register_dtype;
  return tile_width(wide ? kir_register_of(b->dtype) : b->dtype);
}

static int64_t stride_of(const struct vm_frame *f, int buf, int axis) {
  const struct vm_buf *b = &f->c->bufs[buf];
  int64_t stride[BACKEND_RANK] = {1};
  if (b->kind < KIR_TABLE) return f->launch->bufs[buf].stride[axis];
  if (b->kind == KIR_LOCAL) local_strides(f, b, stride);
  return stride[axis];
}

/* Sizes first: the strides of locals are made of them. */
static void terms(struct vm_frame *f) {
  const struct code *c = f->c;
  for (int pass = 0; pass < 2; pass++)
    for (int i = 0; i < c->n_terms; i++) {
      const struct vm_term *t = &c->terms[i];
      if ((t->buf >= 0) != pass) continue;
      uint64_t m = (uint64_t)t->coef;
      for (int j = 0; j < t->n_fixed; j++) m *= (uint64_t)vm_i64(f, t->reg[j]);
      if (pass) m *= (uint64_t)(stride_of(f, t->buf, t->axis) * element_bytes(f, t->buf));
      f->mult[i] = (int64_t)m;
    }
}

/* ---- Scratch --------------------------------------------------------------------------------------------------------- */

static bool is_fixed(const struct code *c, struct vm_lin lin) {
  for (int i = 0; i < lin.n; i++)
    if (c->terms[lin.first + i].n_moving) return false;
  return true;
}

/* The most iterations a loop can have, or -1 if that is known only inside the kernel. */
static int64_t most(const struct vm_frame *f, const struct vm_loop *l) {
  const struct vm_loop *of = l->of >= 0 ? &f->c->loops[l->of] : l;
  if (!is_fixed(f->c, of->n) || !is_fixed(f->c, of->b)) return -1;
  int64_t n = vm_lin_value(f, of->n), b = l->extent == KIR_N ? 0 : vm_lin_value(f, of->b);
  if (l->extent == KIR_BLOCKS) n = b > 0 && n > 0 ? (n - 1) / b + 1 : 0;
  if (l->extent == KIR_BLOCK && b < n) n = b;
  if (l->is_outer && f->launch->hi - f->launch->lo < n) n = f->launch->hi - f->launch->lo;
  return n < 0 ? 0 : n;
}

static int64_t lanes(const struct vm_frame *f) {
  int64_t longest = TILE_FOLD;
  for (int l = 0; l < f->c->n_loops; l++) {
    if (f->c->loops[l].kind != KIR_LANE) continue;
    int64_t n = most(f, &f->c->loops[l]);
    if (n < 0 || n > f->c->tile) return f->c->tile;
    if (n > longest) longest = n;
  }
  return longest < f->c->tile ? longest : f->c->tile;
}

static void fold_places(struct vm_frame *f, struct room *r, int i, int64_t room) {
  const struct vm_fold *fold = &f->c->folds[i];
  int64_t n = most(f, &f->c->loops[fold->loop]), per = fold->is_row ? KIR_ROW_BLOCK : KIR_COLUMN_BLOCK, levels = ORDER_LEVELS;
  int64_t beside = fold->is_tile ? room : 1, accs = fold->is_prefix ? 3 : fold->is_row ? TILE_FOLD : 1;
  if (n >= 0) levels = 65 - __builtin_clzll((uint64_t)(n / per + 1));
  for (int p = 0; p < fold->n_parts; p++) {
    size_t bytes = (size_t)beside * (size_t)tile_width(fold->dtype[p]);
    f->fold[i].acc[p] = take(r, bytes * (size_t)accs);
    f->fold[i].level[p] = fold->is_prefix ? NULL : take(r, bytes * (size_t)levels);
  }
}

static size_t local_bytes(const struct vm_frame *f, const struct vm_buf *b) {
  int64_t n = tile_width(b->dtype);
  for (int a = 0; a < b->rank; a++) {
    int64_t d = vm_lin_value(f, b->dims[a]);
    if (d <= 0) return 0;
    if (__builtin_mul_overflow(n, d, &n) || n > INT64_MAX / 4) return SIZE_MAX / 4;
  }
  return (size_t)n;
}

static bool is_in_row(const struct vm_reg *r, int row) { return r->kind == VM_ROW && r->slot == row; }

/* As long as the longest loop that keeps something in it. */
static char *row_take(const struct vm_frame *f, struct room *r, int row) {
  int64_t longest = 0;
  for (int g = 0; g < f->c->n_regs; g++) {
    int64_t n = is_in_row(&f->c->regs[g], row) ? most(f, &f->c->loops[f->c->regs[g].loop]) : 0;
    if (n > longest) longest = n;
  }
  if (longest <= INT64_MAX / 64) return take(r, (size_t)longest * f->c->row_width[row]);
  r->taken = SIZE_MAX / 4;
  return NULL;
}

static void rows(struct vm_frame *f, struct room *r) {
  for (int i = 0; i < f->c->n_rows; i++) {
    char *row = row_take(f, r, i);
    for (int g = 0; g < f->c->n_regs; g++)
      if (is_in_row(&f->c->regs[g], i)) f->home[g] = row;
  }
}

/* Tiles are a line longer than their lanes, so that they do not all start at the same place of a page. */
static void tiles(struct vm_frame *f, struct room *r) {
  const struct code *c = f->c;
  char *first[9] = {0};
  size_t size[9] = {0};
  for (int w = 1; w <= 8; w *= 2) {
    size[w] = (((size_t)f->lanes * (size_t)w + LINE - 1) & ~(size_t)(LINE - 1)) + LINE;
    first[w] = c->n_tiles[w] ? take(r, size[w] * (size_t)c->n_tiles[w]) : NULL;
  }
  for (int g = 0; g < c->n_regs && f->ptr; g++) {
    const struct vm_reg *reg = &c->regs[g];
    if ((reg->kind == VM_OWN || reg->kind == VM_REF) && first[reg->width])
      f->ptr[g] = f->home[g] = first[reg->width] + size[reg->width] * (size_t)reg->slot;
  }
}

/* Lays everything out; with too little room it only counts. */
static void scratch(struct vm_frame *f, struct room *r, char **local) {
  tiles(f, r);
  bool narrow = false;
  for (int i = 0; i < f->c->n_bufs; i++) {
    narrow |= f->c->bufs[i].dtype != kir_register_of(f->c->bufs[i].dtype) || f->c->bufs[i].dtype == WEFT_BOOL;
    if (f->c->bufs[i].kind == KIR_LOCAL) local[i] = take(r, local_bytes(f, &f->c->bufs[i]));
  }
  f->raw = narrow ? take(r, (size_t)f->lanes * 8) : NULL;
  for (int i = 0; i < f->c->n_folds; i++) fold_places(f, r, i, f->lanes);
  rows(f, r);
}

/* ---- Accesses -------------------------------------------------------------------------------------------------------- */

static void bind(struct vm_frame *f, int i, char *const *local) {
  const struct vm_access *a = &f->c->access[i];
  const struct vm_buf *buf = &f->c->bufs[a->buf];
  struct vm_bound *b = &f->bound[i];
  char *data = buf->kind == KIR_LOCAL ? local[a->buf] : buf->kind == KIR_TABLE ? buf->data : f->launch->bufs[a->buf].data;
  bool wide = buf->kind < KIR_TABLE && f->launch->bufs[a->buf].in_register_dtype;
  b->dtype = wide ? a->reg_dtype : buf->dtype;
  b->width = tile_width(b->dtype);
  b->is_same = b->dtype == a->reg_dtype;
  b->limit = buf->kind == KIR_TABLE ? (int64_t)buf->n_data * b->width : 0;
  b->base = (char *)((uintptr_t)data + (uintptr_t)vm_lin_value(f, a->base));
  b->lane_moves = !is_fixed(f->c, a->lane);
  b->lane_stride = b->lane_moves ? 0 : vm_lin_value(f, a->lane);
}

static int bind_and_run(struct vm_frame *f, struct room *room, uint64_t *ones) {
  const struct code *c = f->c;
  char *some[16], **local = some;
  void *more = NULL, *list = NULL;
  size_t bytes = 0;
  values(f, ones);
  terms(f);
  f->lanes = lanes(f);
  if (c->n_bufs > 16 && !(local = list = memory_borrow(sizeof(char *) * (size_t)c->n_bufs))) return 1;
  struct room r = {room->at, room->end, 0};
  scratch(f, &r, local);
  if (r.taken >= SIZE_MAX / 4 || (r.at == r.end && !(more = memory_borrow(bytes = r.taken + LINE)))) {
    memory_return(list, list ? sizeof(char *) * (size_t)c->n_bufs : 0);
    return 1;
  }
  if (more) r = (struct room){more, (char *)more + bytes, 0}, scratch(f, &r, local);
  for (int i = 0; i < c->n_access; i++) bind(f, i, local);
  vm_exec(f, 0);
  if (more) memory_return(more, bytes);
  if (list) memory_return(list, sizeof(char *) * (size_t)c->n_bufs);
  return 0;
}

bool vm_borrows(const struct code *c, const struct launch *launch) {
  _Alignas(LINE) char stack[ON_STACK];
  char *local[16];
  struct vm_frame f = {.c = c, .tiles = c->tiles, .launch = launch};
  struct room room = {stack, stack + ON_STACK, 0};
  uint64_t *ones;
  if (c->n_bufs > 16 || tables_bytes(c) + LINE > ON_STACK - LINE || !tables(&f, &room, &ones)) return true;
  values(&f, ones);
  terms(&f);
  f.lanes = lanes(&f);
  scratch(&f, &room, local);
  return room.at == room.end;
}

int vm_run(const struct code *c, const struct launch *launch) {
  _Alignas(LINE) char stack[ON_STACK];
  struct vm_frame f = {.c = c, .tiles = c->tiles, .launch = launch};
  struct room room = {stack, stack + ON_STACK, 0};
  uint64_t *ones, mode = float_mode_enter();
  void *large = NULL;
  size_t bytes = tables_bytes(c) + LINE;
  int failed = 1;
  if (bytes > ON_STACK - LINE && (large = memory_borrow(bytes))) room = (struct room){large, (char *)large + bytes, 0};
  if ((bytes <= ON_STACK - LINE || large) && tables(&f, &room, &ones)) failed = bind_and_run(&f, &room, ones);
  if (large) memory_return(large, bytes);
  float_mode_leave(mode);
  return failed;
}
