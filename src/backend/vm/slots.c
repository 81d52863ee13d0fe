/* slots.c -- how long each tile lives, where it lies, and what follows from that: loads that need no copy, carried values
 * that move by exchanging pointers. */
#include "backend/vm/program.h"
#include "base/mem.h"

typedef void visitor(void *ctx, int reg, int step);

static void visit_lin(const struct code *c, struct vm_lin lin, visitor *see, void *ctx, int step) {
  for (int i = 0; i < lin.n; i++) see(ctx, c->terms[lin.first + i].tile, step);
}

static void visit_fold(const struct code *c, const struct vm_step *s, visitor *see, void *ctx, int step) {
  const struct vm_fold *f = &c->folds[s->access];
  for (int i = 0; i < f->n_parts; i++) {
    see(ctx, f->start[i], step);
    if (s->code == VM_FOLD) see(ctx, f->in[i], step), see(ctx, f->out[i], step), see(ctx, f->scratch[i], step);
    if (s->code == VM_FOLD_CLOSE) see(ctx, f->last[i], step);
  }
}

/* Shows every register a step touches (-1 for none). */
static void visit(const struct code *c, int step, visitor *see, void *ctx) {
  const struct vm_step *s = &c->steps[step];
  see(ctx, s->out, step), see(ctx, s->mask, step);
  for (int i = 0; i < 3; i++) see(ctx, s->in[i], step);
  switch ((enum vm_code)s->code) {
    case VM_LOAD: case VM_STORE: case VM_OP_STORE: case VM_LOAD_ONE: case VM_STORE_ONE:
      visit_lin(c, c->access[s->access].gather, see, ctx, step);
      see(ctx, c->access[s->access].sum, step);
      break;
    case VM_NEXT:
      for (int i = 0; i < (s->by_ref ? 2 : 4) * s->lin.n; i++) see(ctx, c->list[s->lin.first + i], step);
      break;
    case VM_FOLD_OPEN: case VM_FOLD: case VM_FOLD_CLOSE: visit_fold(c, s, see, ctx, step); break;
    case VM_END: see(ctx, c->loops[s->access].live, step); break;
    case VM_STOP: case VM_OP: case VM_OP_ONE: case VM_IOTA: case VM_ONES: case VM_ADDR: case VM_WITHIN: case VM_BEGIN: case VM_LANE:
    case VM_JUMP: case VM_UNLESS: case VM_MASK: case VM_CHECK: case VM_CHECK_ONE: case VM_UNTIL: case VM_UNTIL_ONE: case VM_CODES:
      break;
  }
}

/* ---- Lifetimes ------------------------------------------------------------------------------------------------------- */

static void extend(void *ctx, int reg, int step) {
  struct code *c = ctx;
  if (reg < 0) return;
  if (c->regs[reg].first < 0) c->regs[reg].first = step;
  c->regs[reg].last = step;
}

/* What is there before a loop and used in it must outlive the whole loop. A kept row is read part by part: a lane loop
 * never comes back to a part. */
static void extend_over_loops(struct code *c) {
  for (int l = c->n_loops - 1; l >= 0; l--) {
    const struct vm_loop *loop = &c->loops[l];
    for (int r = 0; r < c->n_regs; r++) {
      struct vm_reg *reg = &c->regs[r];
      bool part = reg->kind == VM_ROW && loop->kind == KIR_LANE;
      if (!part && reg->first < loop->begin && reg->last >= loop->begin && reg->last < loop->end) reg->last = loop->end;
    }
  }
}

static void lifetimes(struct code *c) {
  for (int r = 0; r < c->n_regs; r++) c->regs[r].first = c->regs[r].last = -1;
  for (int i = 0; i < c->n_steps; i++) visit(c, i, extend, c);
  for (int f = 0; f < c->n_fns; f++)
    for (int i = 0; i < c->fns[f].n_result; i++) extend(c, c->fns[f].result[i], c->fns[f].end);
  extend_over_loops(c);
}

/* ---- Loads in place -------------------------------------------------------------------------------------------------- */

static bool may_overwrite(const struct code *c, int store, int load_buf) {
  const struct vm_step *s = &c->steps[store];
  if (s->code != VM_STORE && s->code != VM_STORE_ONE && s->code != VM_OP_STORE) return false;
  int buf = c->access[s->access].buf;
  bool local = c->bufs[buf].kind == KIR_LOCAL, load_local = c->bufs[load_buf].kind == KIR_LOCAL;
  return local || load_local ? buf == load_buf : c->bufs[load_buf].kind != KIR_TABLE;
}

/* Memory may stand for the value if nothing is stored that could be the same memory while the value lives: buffers of
 * different names may share memory when an input is donated. */
static void loads_in_place(struct code *c) {
  for (int i = 0; i < c->n_steps; i++) {
    struct vm_step *s = &c->steps[i];
    if (s->code != VM_LOAD || s->mask >= 0 || c->regs[s->out].kind != VM_REF) continue;
    const struct vm_access *a = &c->access[s->access];
    s->by_ref = a->reg_dtype != WEFT_BOOL && !a->gather.n;
    for (int j = i + 1; s->by_ref && j < c->regs[s->out].last; j++) s->by_ref = !may_overwrite(c, j, a->buf);
  }
}

/* ---- Carried values -------------------------------------------------------------------------------------------------- */

static int index_of(const int *regs, int n, int reg) {
  for (int i = 0; i < n; i++)
    if (regs[i] == reg) return i;
  return -1;
}

/* Pointers can take the place of copies if each source is another carried value or a tile that dies here, and feeds one
 * target only. */
static bool can_rotate(const struct code *c, int at, const int *to, const int *from, int n) {
  int begin = c->loops[c->steps[at].access].begin;
  for (int i = 0; i < n; i++) {
    const struct vm_reg *t = &c->regs[to[i]], *f = &c->regs[from[i]];
    if (t->kind != VM_OWN || f->kind != VM_OWN || index_of(from, i, from[i]) >= 0) return false;
    if (index_of(to, n, from[i]) < 0 && (f->first <= begin || f->last != at)) return false;
  }
  return true;
}

/* A source that dies takes the memory at the end of the chain of targets that it starts. */
static void rotate(struct code *c, struct vm_step *s, const int *to, const int *from, int n) {
  int *pair = &c->list[s->lin.first], m = 0;
  for (int i = 0; i < n; i++) pair[2 * m] = to[i], pair[2 * m++ + 1] = from[i];
  for (int i = 0; i < n; i++) {
    if (index_of(to, n, from[i]) >= 0) continue;
    int last = i;
    for (int j; (j = index_of(from, n, to[last])) >= 0;) last = j;
    pair[2 * m] = from[i], pair[2 * m++ + 1] = to[last];
  }
  s->by_ref = true, s->lin.n = m;
}

static void rotations(struct code *c, uint8_t *exclusive) {
  for (int at = 0; at < c->n_steps; at++) {
    struct vm_step *s = &c->steps[at];
    int to[16], from[16], n = s->lin.n;
    if (s->code != VM_NEXT || s->mask >= 0 || n > 16) continue;
    for (int i = 0; i < n; i++) to[i] = c->list[s->lin.first + 4 * i], from[i] = c->list[s->lin.first + 4 * i + 1];
    if (!can_rotate(c, at, to, from, n)) continue;
    rotate(c, s, to, from, n);
    for (int i = 0; i < n; i++) exclusive[to[i]] = exclusive[from[i]] = 1;
  }
}

/* ---- Places ---------------------------------------------------------------------------------------------------------- */

struct pool { int *free[9], n_free[9]; };

static void give(struct pool *p, const struct vm_reg *r) { p->free[r->width][p->n_free[r->width]++] = r->slot; }
static void take(struct code *c, struct pool *p, struct vm_reg *r, bool fresh) {
  int w = r->width;
  r->slot = !fresh && p->n_free[w] ? p->free[w][--p->n_free[w]] : c->n_tiles[w]++;
}

static bool is_tile(const struct vm_reg *r) { return r->kind == VM_OWN || r->kind == VM_REF; }

/* A tile may take the place of one that dies in the same step if the step reads lane i before it writes lane i. */
static bool in_place(const struct vm_step *s) { return s->code == VM_OP || s->code == VM_OP_STORE; }

/* order[]: registers by first step. A register that ends without being the operand of an in-place step is free from the
 * next step on. */
static void assign(struct code *c, const int *order, int n, const uint8_t *exclusive, struct pool *p, int *ending) {
  int main_end = c->n_fns ? c->fns[0].begin : c->n_steps, next = 0, n_live = 0;
  for (int i = 0; i < c->n_steps; i++) {
    if (i == main_end) p->n_free[1] = p->n_free[4] = p->n_free[8] = 0; /* fns run while the tiles of the kernel live */
    int kept = 0;
    for (int j = 0; j < n_live; j++) {
      struct vm_reg *r = &c->regs[ending[j]];
      if (r->last > i || (r->last == i && !in_place(&c->steps[i]))) ending[kept++] = ending[j];
      else if (!exclusive[ending[j]]) give(p, r);
    }
    n_live = kept;
    for (; next < n && c->regs[order[next]].first == i; next++) {
      take(c, p, &c->regs[order[next]], exclusive[order[next]]);
      ending[n_live++] = order[next];
    }
  }
}

static int by_first(struct code *c, int *order) { /* tiles that are used at all, by counting */
  int n = 0;
  for (int r = 0; r < c->n_regs; r++)
    if (is_tile(&c->regs[r]) && c->regs[r].first >= 0) order[n++] = r;
  for (int i = 1; i < n; i++) /* nearly sorted already */
    for (int j = i; j && c->regs[order[j]].first < c->regs[order[j - 1]].first; j--) {
      int swap = order[j];
      order[j] = order[j - 1], order[j - 1] = swap;
    }
  return n;
}

static bool tiles(struct code *c, const uint8_t *exclusive) {
  size_t n = (size_t)c->n_regs + 1;
  int *room = mem_alloc(5 * n * sizeof(int));
  if (!room) return false;
  struct pool p = {.free = {[1] = room, [4] = room + n, [8] = room + 2 * n}};
  int *order = room + 3 * n;
  assign(c, order, by_first(c, order), exclusive, &p, room + 4 * n);
  mem_free(room);
  return true;
}

/* ---- Kept rows ------------------------------------------------------------------------------------------------------- */

struct rows_of { struct code *c; int loop; bool failed; };
static void see_row(void *ctx, int reg, int step) {
  struct rows_of *w = ctx;
  struct code *c = w->c;
  (void)step;
  if (reg < 0 || c->regs[reg].kind != VM_ROW || w->failed) return;
  struct vm_loop *l = &c->loops[w->loop];
  if (index_of(&c->list[l->first_row], l->n_rows, reg) >= 0) return;
  if (c->n_list == c->room_list) {
    int *more = mem_resize(c->list, sizeof(int) * 2 * (size_t)c->room_list);
    if (!more) { w->failed = true; return; }
    c->list = more, c->room_list *= 2;
  }
  c->list[c->n_list++] = reg, l->n_rows++;
}

/* Rows whose lives do not meet share their memory. */
static void row_place(struct code *c, int reg) {
  struct vm_reg *r = &c->regs[reg];
  for (int i = 0; i < c->n_rows; i++) {
    bool taken = c->row_width[i] != r->width;
    for (int o = 0; o < reg && !taken; o++)
      taken = c->regs[o].kind == VM_ROW && c->regs[o].slot == i && c->regs[o].first <= r->last && r->first <= c->regs[o].last;
    if (!taken) { r->slot = i; return; }
  }
  r->slot = c->n_rows;
  c->row_width[c->n_rows++] = r->width;
}

static bool kept_rows(struct code *c) {
  c->row_width = mem_alloc((size_t)c->n_regs + 1);
  if (!c->row_width) return false;
  for (int r = 0; r < c->n_regs; r++)
    if (c->regs[r].kind == VM_ROW) row_place(c, r);
  for (int l = 0; l < c->n_loops; l++) {
    struct rows_of w = {c, l, false};
    c->loops[l].first_row = c->n_list;
    if (c->loops[l].kind != KIR_LANE) continue;
    for (int i = c->loops[l].begin; i < c->loops[l].end; i++) visit(c, i, see_row, &w);
    if (w.failed) return false;
  }
  return true;
}

bool vm_place(struct code *c) {
  uint8_t *exclusive = mem_alloc((size_t)c->n_regs + 1);
  if (!exclusive) return false;
  lifetimes(c);
  loads_in_place(c);
  rotations(c, exclusive);
  bool ok = tiles(c, exclusive) && kept_rows(c);
  mem_free(exclusive);
  return ok;
}
