/* vm_fold.c -- folds and prefixes while they run.
 *
 * Elements arrive with their position j. Row order: j goes to accumulator j mod 32, blocks of 4096, each closed by a
 * halving tree. Column order: one accumulator, blocks of 128. Blocks combine as a binary counter, older on the left, so
 * that the bits depend on positions alone. A block nobody touched counts as the start value: other lanes may have
 * touched it. A fold over the lanes has one lane beside; a fold of a serial loop has the lanes of the tile. */
#include "backend/vm/frame.h"
#include <string.h>

struct vm_folding { struct vm_frame *f; const struct vm_fold *fold; struct vm_fold_state *s; };

static int width(const struct vm_folding *r, int part) { return tile_width(r->fold->dtype[part]); }
static int n_acc(const struct vm_fold *f) { return f->is_row ? TILE_FOLD : 1; }
static int64_t block_of(const struct vm_fold *f) { return f->is_row ? KIR_ROW_BLOCK : KIR_COLUMN_BLOCK; }

/* ---- Combining tuples of tiles --------------------------------------------------------------------------------------- */

typedef char *tuple[VM_PARTS];

/* Runs the fn on n lanes; its results are in the registers of the fn. */
static void call(const struct vm_folding *r, const tuple a, const tuple b, int64_t n) {
  struct vm_frame *f = r->f;
  const struct vm_fn *fn = &f->c->fns[r->fold->fn];
  int parts = r->fold->n_parts;
  int64_t outer = f->n;
  for (int i = 0; i < parts; i++) f->ptr[fn->param[i]] = a[i], f->ptr[fn->param[parts + i]] = b[i];
  f->n = n;
  vm_exec(f, fn->begin);
  f->n = outer;
}

static void combine_part(const struct vm_folding *r, const tuple out, const tuple a, const tuple b, int64_t n) {
  if (r->fold->op != KIR_CALL) {
    r->f->tiles->op[r->fold->op][tile_reg(r->fold->dtype[0])][3](out[0], a[0], b[0], NULL, n);
    return;
  }
  call(r, a, b, n);
  const struct vm_fn *fn = &r->f->c->fns[r->fold->fn];
  for (int i = 0; i < r->fold->n_parts; i++) memcpy(out[i], r->f->ptr[fn->result[i]], (size_t)(n * width(r, i)));
}

/* out = a o b on n lanes; a fn takes at most a tile at once. */
static void combine(const struct vm_folding *r, const tuple out, const tuple a, const tuple b, int64_t n) {
  int64_t most = r->fold->op == KIR_CALL ? r->f->lanes : n;
  for (int64_t at = 0; at < n; at += most) {
    tuple o, x, y;
    for (int i = 0; i < r->fold->n_parts; i++) {
      int64_t skip = at * width(r, i);
      o[i] = out[i] + skip, x[i] = a[i] + skip, y[i] = b[i] + skip;
    }
    combine_part(r, o, x, y, n - at < most ? n - at : most);
  }
}

/* a = a o b where mask. */
static void combine_masked(const struct vm_folding *r, const tuple a, const tuple b, const uint8_t *mask, int64_t n) {
  struct vm_frame *f = r->f;
  tuple out;
  if (!mask) { combine(r, a, a, b, n); return; }
  if (r->fold->op == KIR_CALL) {
    call(r, a, b, n);
    for (int i = 0; i < r->fold->n_parts; i++) out[i] = f->ptr[f->c->fns[r->fold->fn].result[i]];
  } else {
    out[0] = f->ptr[r->fold->scratch[0]];
    combine_part(r, out, a, b, n);
  }
  for (int i = 0; i < r->fold->n_parts; i++) f->tiles->blend[width(r, i)](a[i], mask, out[i], NULL, n);
}

/* ---- Blocks ---------------------------------------------------------------------------------------------------------- */

static void fill(const struct vm_folding *r, int part, char *out, int64_t n) {
  int reg = r->fold->start[part], w = width(r, part);
  bool one = r->f->c->regs[reg].kind == VM_ONE;
  if (one) { r->f->tiles->splat[w](out, r->f->ptr[reg], NULL, NULL, n); return; }
  for (int64_t at = 0; at < n; at += r->s->n) memcpy(out + at * w, r->f->ptr[reg], (size_t)(r->s->n * w));
}

static void start_block(const struct vm_folding *r) {
  for (int i = 0; i < r->fold->n_parts; i++) fill(r, i, r->s->acc[i], n_acc(r->fold) * r->s->n);
}

static void level(const struct vm_folding *r, int64_t k, tuple at) {
  for (int i = 0; i < r->fold->n_parts; i++) at[i] = r->s->level[i] + k * r->s->n * width(r, i);
}

static void push(const struct vm_folding *r) {
  struct vm_fold_state *s = r->s;
  tuple older;
  int64_t k = 0;
  for (; s->count >> k & 1; k++) level(r, k, older), combine(r, s->acc, older, s->acc, s->n);
  level(r, k, older);
  for (int i = 0; i < r->fold->n_parts; i++) memcpy(older[i], s->acc[i], (size_t)(s->n * width(r, i)));
  s->count++;
}

static void close_block(const struct vm_folding *r) {
  struct vm_fold_state *s = r->s;
  for (int64_t half = n_acc(r->fold) / 2; half; half /= 2) {
    tuple upper;
    for (int i = 0; i < r->fold->n_parts; i++) upper[i] = s->acc[i] + half * s->n * width(r, i);
    combine(r, s->acc, s->acc, upper, half * s->n);
  }
  push(r);
}

static void enter_block(const struct vm_folding *r, int64_t block) {
  struct vm_fold_state *s = r->s;
  if (s->block == block) return;
  if (s->block < 0) s->block = 0, start_block(r);
  for (; s->block < block; s->block++) close_block(r), start_block(r);
}

/* ---- Folds ----------------------------------------------------------------------------------------------------------- */

static void step_beside(const struct vm_folding *r, int64_t j, const tuple in, const uint8_t *mask) {
  tuple acc;
  enter_block(r, j / block_of(r->fold));
  for (int i = 0; i < r->fold->n_parts; i++)
    acc[i] = r->s->acc[i] + (r->fold->is_row ? j % TILE_FOLD : 0) * r->s->n * width(r, i);
  combine_masked(r, acc, in, mask, r->s->n);
}

/* Positions j .. j + n - 1 of one block, row order. */
static void lanes_row(const struct vm_folding *r, int64_t j, const tuple in, const uint8_t *mask, int64_t n) {
  const struct vm_fold *fold = r->fold;
  if (fold->op != KIR_CALL && !mask) {
    r->f->tiles->fold[fold->op][tile_reg(fold->dtype[0])](r->s->acc[0], in[0], j % TILE_FOLD, n);
    return;
  }
  for (int64_t done = 0, m; done < n; done += m) {
    tuple acc, v;
    int64_t l = (j + done) % TILE_FOLD;
    m = TILE_FOLD - l < n - done ? TILE_FOLD - l : n - done;
    for (int i = 0; i < fold->n_parts; i++) acc[i] = r->s->acc[i] + l * width(r, i), v[i] = in[i] + done * width(r, i);
    combine_masked(r, acc, v, mask ? mask + done : NULL, m);
  }
}

static void lanes_col(const struct vm_folding *r, const tuple in, const uint8_t *mask, int64_t n) {
  const struct vm_fold *fold = r->fold;
  if (fold->op != KIR_CALL && !mask) { order_of(fold->op, fold->dtype[0])->fold(r->s->acc[0], in[0], n); return; }
  for (int64_t k = 0; k < n; k++) {
    tuple v;
    for (int i = 0; i < fold->n_parts; i++) v[i] = in[i] + k * width(r, i);
    if (!mask || mask[k]) combine(r, r->s->acc, r->s->acc, v, 1);
  }
}

static void step_lanes(const struct vm_folding *r, const tuple in, const uint8_t *mask) {
  int64_t size = block_of(r->fold), first = r->f->at - r->f->zero;
  for (int64_t done = 0, m; done < r->f->n; done += m) {
    tuple v;
    int64_t j = first + done, left = size - j % size;
    m = left < r->f->n - done ? left : r->f->n - done;
    for (int i = 0; i < r->fold->n_parts; i++) v[i] = in[i] + done * width(r, i);
    enter_block(r, j / size);
    if (r->fold->is_row) lanes_row(r, j, v, mask ? mask + done : NULL, m);
    else lanes_col(r, v, mask ? mask + done : NULL, m);
  }
}

static void total(const struct vm_folding *r, char **out) {
  struct vm_fold_state *s = r->s;
  if (s->block < 0) { for (int i = 0; i < r->fold->n_parts; i++) fill(r, i, out[i], s->n); return; }
  close_block(r);
  int64_t k = __builtin_ctzll((uint64_t)s->count);
  tuple at;
  level(r, k, at);
  for (int i = 0; i < r->fold->n_parts; i++) memcpy(out[i], at[i], (size_t)(s->n * width(r, i)));
  for (k++; s->count >> k; k++)
    if (s->count >> k & 1) level(r, k, at), combine(r, out, at, out, s->n);
}

/* ---- Prefixes: in order inside blocks of 4096, blocks chained. acc: carry, offset, last. ----------------------------- */

static void prefix_places(const struct vm_folding *r, tuple carry, tuple offset, tuple last) {
  for (int i = 0; i < r->fold->n_parts; i++) {
    int64_t bytes = r->s->n * width(r, i);
    carry[i] = r->s->acc[i], offset[i] = carry[i] + bytes, last[i] = offset[i] + bytes;
  }
}
static void move(const struct vm_folding *r, const tuple out, const tuple a, int64_t n) {
  for (int i = 0; i < r->fold->n_parts; i++) memcpy(out[i], a[i], (size_t)(n * width(r, i)));
}

static void prefix_beside(const struct vm_folding *r, int64_t j, const tuple in, const tuple out, const uint8_t *mask) {
  struct vm_fold_state *s = r->s;
  tuple carry, offset, last;
  prefix_places(r, carry, offset, last);
  if (s->block != j / KIR_ROW_BLOCK) {
    if (s->block >= 0) move(r, offset, last, s->n);
    move(r, carry, in, s->n);
    s->count = s->block >= 0 ? 1 : 0, s->block = j / KIR_ROW_BLOCK;
  } else combine(r, carry, carry, in, s->n);
  if (s->count) combine(r, out, offset, carry, s->n);
  else move(r, out, carry, s->n);
  if (!mask) { move(r, last, out, s->n); return; }
  for (int i = 0; i < r->fold->n_parts; i++) r->f->tiles->blend[width(r, i)](last[i], mask, out[i], NULL, s->n);
}

/* n lanes of one block; the first one may open it. */
static void prefix_run(const struct vm_folding *r, const tuple in, const tuple out, int64_t n, bool opens) {
  struct vm_fold_state *s = r->s;
  const struct vm_fold *fold = r->fold;
  tuple carry, offset, last;
  prefix_places(r, carry, offset, last);
  for (int64_t k = 0; k < n; k++) { /* a simple combiner does all after the opening lane at once */
    tuple v, o;
    for (int i = 0; i < fold->n_parts; i++) v[i] = in[i] + k * width(r, i), o[i] = out[i] + k * width(r, i);
    if (opens && k == 0) move(r, carry, v, 1), move(r, o, v, 1);
    else if (fold->op == KIR_CALL) combine(r, carry, carry, v, 1), move(r, o, carry, 1);
    else { order_of(fold->op, fold->dtype[0])->run(o[0], carry[0], v[0], n - k); break; }
  }
  if (s->count && fold->op == KIR_CALL)
    for (int64_t k = 0; k < n; k++) {
      tuple o;
      for (int i = 0; i < fold->n_parts; i++) o[i] = out[i] + k * width(r, i);
      combine(r, o, offset, o, 1);
    }
  else if (s->count) r->f->tiles->op[fold->op][tile_reg(fold->dtype[0])][2](out[0], offset[0], out[0], NULL, n);
  for (int i = 0; i < fold->n_parts; i++) memcpy(last[i], out[i] + (n - 1) * width(r, i), (size_t)width(r, i));
}

static void prefix_lanes(const struct vm_folding *r, const tuple in, const tuple out) {
  struct vm_fold_state *s = r->s;
  int64_t first = r->f->at - r->f->zero;
  for (int64_t done = 0, m; done < r->f->n; done += m) {
    tuple v, o, carry, offset, last;
    int64_t j = first + done, left = KIR_ROW_BLOCK - j % KIR_ROW_BLOCK;
    m = left < r->f->n - done ? left : r->f->n - done;
    for (int i = 0; i < r->fold->n_parts; i++) v[i] = in[i] + done * width(r, i), o[i] = out[i] + done * width(r, i);
    bool opens = s->block != j / KIR_ROW_BLOCK;
    prefix_places(r, carry, offset, last);
    if (opens && s->block >= 0) move(r, offset, last, 1), s->count = 1;
    s->block = j / KIR_ROW_BLOCK;
    prefix_run(r, v, o, m, opens);
  }
}

/* ---- Steps ----------------------------------------------------------------------------------------------------------- */

void vm_fold_open(struct vm_frame *f, int fold) {
  struct vm_fold_state *s = &f->fold[fold];
  s->block = -1, s->count = 0, s->n = f->c->folds[fold].is_tile ? f->n : 1;
}

void vm_fold_step(struct vm_frame *f, int index, int mask_reg) {
  const struct vm_fold *fold = &f->c->folds[index];
  struct vm_folding r = {f, fold, &f->fold[index]};
  const uint8_t *mask = vm_mask(f, mask_reg);
  tuple in, out;
  for (int i = 0; i < fold->n_parts; i++) in[i] = f->ptr[fold->in[i]], out[i] = fold->out[i] < 0 ? NULL : f->ptr[fold->out[i]];
  int64_t j = fold->in_lane ? 0 : f->span[fold->loop].at - f->span[fold->loop].lo;
  if (fold->is_prefix && fold->in_lane) prefix_lanes(&r, in, out);
  else if (fold->is_prefix) prefix_beside(&r, j, in, out, mask);
  else if (fold->in_lane) step_lanes(&r, in, mask);
  else step_beside(&r, j, in, mask);
}

void vm_fold_close(struct vm_frame *f, int index) {
  const struct vm_fold *fold = &f->c->folds[index];
  struct vm_folding r = {f, fold, &f->fold[index]};
  tuple out, carry, offset, last;
  for (int i = 0; i < fold->n_parts; i++) out[i] = f->ptr[fold->last[i]];
  prefix_places(&r, carry, offset, last);
  if (!fold->is_prefix) total(&r, out);
  else if (r.s->block >= 0) move(&r, out, last, r.s->n);
  else for (int i = 0; i < fold->n_parts; i++) fill(&r, i, out[i], r.s->n);
}
