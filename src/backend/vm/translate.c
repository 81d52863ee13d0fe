/* translate.c -- from the tree of a kernel to steps. One pass in text order; each statement kind is one function.
 *
 * What it arranges besides: the part of an address that does not change in a loop is computed before it; an operation
 * whose only use is a dense store writes into the output; uniform operands stay one value. */
#include "backend/vm/translate.h"
#include "base/mem.h"
#include <string.h>

/* Where statements stand: the mask of lanes that run, what it was when the loop body began, where the block ends. */
struct vm_place { int mask, entry, end, loop, depth; };

/* ---- Growing lists --------------------------------------------------------------------------------------------------- */

int translator_add(struct translator *t, void *list, int *n, int *room, size_t bytes) {
  void **at = list;
  if (*n == *room) {
    void *more = mem_resize(*at, bytes * (size_t)(*room ? 2 * *room : 32));
    if (!more && !*room) { t->why = ""; return -1; }
    if (!more) { t->why = ""; return *n - 1; }
    *at = more, *room = *room ? 2 * *room : 32;
  }
  memset((char *)*at + bytes * (size_t)*n, 0, bytes);
  return (*n)++;
}

void translator_refuse(struct translator *t, const char *why) { if (!t->why) t->why = why; }
static weft_dtype dtype_of(const struct translator *t, int val) { return t->k->vals[val].dtype; }
static int width_of(const struct translator *t, int val) { return tile_width(dtype_of(t, val)); }

int translator_reg(struct translator *t, int kind, int width) {
  int r = ADD(t, regs);
  t->c->regs[r] = (struct vm_reg){.kind = (uint8_t)kind, .width = (uint8_t)width, .loop = t->lane};
  if (kind == VM_ONE) t->c->regs[r].slot = t->c->n_ones++;
  return r;
}
static int reg_const(struct translator *t, weft_dtype d, uint64_t bits) {
  int r = translator_reg(t, VM_ONE, tile_width(d));
  t->c->regs[r].bits = bits;
  return r;
}
bool translator_is_one(const struct translator *t, int reg) { return t->c->regs[reg].kind == VM_ONE; }

struct vm_step *translator_emit(struct translator *t, int code) {
  int i = ADD(t, steps);
  t->last_value = -1;
  t->c->steps[i] = (struct vm_step){.code = (uint8_t)code, .out = -1, .in = {-1, -1, -1}, .mask = -1, .access = -1, .jump = -1};
  return &t->c->steps[i];
}
static int label_new(struct translator *t) {
  int l = ADD(t, labels);
  t->c->labels[l] = -1;
  return l;
}
static void label_here(struct translator *t, int label) { t->c->labels[label] = t->c->n_steps, t->last_value = -1; }

static int list_add(struct translator *t, int value) {
  int i = ADD(t, list);
  t->c->list[i] = value;
  return i;
}

/* ---- Values ---------------------------------------------------------------------------------------------------------- */

bool translator_is_fixed(const struct translator *t, int val) {
  int kind = t->k->vals[val].kind;
  return kind == KIR_LIT || kind == KIR_SIZE || kind == KIR_ARG;
}

int translator_find(const struct translator *t, int val) {
  return t->lane >= 0 && t->row[val] >= 0 ? t->row[val] : t->reg[val];
}
int translator_use(struct translator *t, int val) {
  int r = translator_find(t, val);
  if (r < 0) translator_refuse(t, "a value is used where it is not defined");
  return r < 0 ? 0 : r;
}

/* Is it known only inside the kernel? */
static bool moves(const struct translator *t, struct vm_lin lin) {
  for (int i = 0; i < lin.n; i++)
    if (t->c->terms[lin.first + i].n_moving) return true;
  return false;
}

static void check_length(struct translator *t) { /* of a row kept in the lane loop we are in */
  const struct vm_loop *l = &t->c->loops[t->lane], *of = l->of >= 0 ? &t->c->loops[l->of] : l;
  if (moves(t, of->n) || moves(t, of->b)) translator_refuse(t, "a kept row whose length is known only inside the kernel");
}

static int define(struct translator *t, int val, int tile_kind) {
  bool is_tile = t->varying[val];
  int r = translator_reg(t, !is_tile ? VM_ONE : t->kept[val] ? VM_ROW : tile_kind, width_of(t, val));
  if (t->c->regs[r].kind == VM_ROW) t->row[val] = r, check_length(t);
  return t->reg[val] = r;
}

/* out = a, whatever each of them is. */
static void copy(struct translator *t, int out, int a) {
  int width = t->c->regs[out].width;
  bool splat = translator_is_one(t, a) && !translator_is_one(t, out);
  struct vm_step *s = translator_emit(t, translator_is_one(t, out) ? VM_OP_ONE : VM_OP);
  s->out = out, s->in[0] = a, s->run = splat ? t->c->tiles->splat[width] : t->c->tiles->move[width];
}

static int as_tile(struct translator *t, int reg) {
  if (!translator_is_one(t, reg)) return reg;
  int tile = translator_reg(t, VM_OWN, t->c->regs[reg].width);
  copy(t, tile, reg);
  return tile;
}

/* ---- Instructions ---------------------------------------------------------------------------------------------------- */

static void step_op(struct translator *t, int out, tile_op *run, tile_op *run_one, const int *in, int n) {
  bool any_tile = false;
  for (int i = 0; i < n; i++) any_tile |= !translator_is_one(t, in[i]);
  int target = out;
  if (!any_tile && !translator_is_one(t, out)) target = translator_reg(t, VM_ONE, t->c->regs[out].width);
  struct vm_step *s = translator_emit(t, any_tile ? VM_OP : VM_OP_ONE);
  s->out = target, s->run = any_tile ? run : run_one;
  for (int i = 0; i < n; i++) s->in[i] = in[i];
  if (!s->run) translator_refuse(t, "an instruction has no such dtype here");
  if (target != out) copy(t, out, target);
}

static void op_row(struct translator *t, const struct kir_stmt *s) {
  weft_dtype d = dtype_of(t, s->in[s->op == KIR_SELECT ? 1 : 0]);
  int in[3], shape = 0;
  for (int i = 0; i < s->n_in; i++) in[i] = translator_use(t, s->in[i]);
  if (s->op == KIR_SELECT && t->varying[s->out[0]]) in[0] = as_tile(t, in[0]);
  for (int i = 0; i < s->n_in; i++) shape |= !translator_is_one(t, in[i]) << i;
  tile_op *const *row = t->c->tiles->op[s->op][tile_reg(d)];
  step_op(t, define(t, s->out[0], VM_OWN), row[shape], row[0], in, s->n_in);
}

static void op_cast(struct translator *t, const struct kir_stmt *s) {
  tile_op *const *row = t->c->tiles->cast[tile_reg(dtype_of(t, s->in[0]))][s->dtype];
  int in = translator_use(t, s->in[0]);
  step_op(t, define(t, s->out[0], VM_OWN), row[1], row[0], &in, 1);
}

/* The same pattern under another name: no step at all, unless it is kept. */
static void op_alias(struct translator *t, const struct kir_stmt *s) {
  int in = translator_use(t, s->in[0]);
  if (t->kept[s->out[0]]) copy(t, define(t, s->out[0], VM_OWN), in);
  else t->reg[s->out[0]] = in;
}

static void op_owns(struct translator *t, const struct kir_stmt *s) {
  int in = translator_use(t, s->in[1]), loop = t->loop_of[s->in[0]];
  int out = define(t, s->out[0], VM_OWN);
  if (!translator_is_one(t, out)) in = as_tile(t, in);
  struct vm_step *step = translator_emit(t, VM_WITHIN);
  step->out = out, step->in[0] = in, step->access = loop;
}

static void stmt_op(struct translator *t, const struct kir_stmt *s) {
  bool is_copy = s->op == KIR_CAST && s->dtype == dtype_of(t, s->in[0]);
  if (s->op == KIR_CALL) translator_refuse(t, "a call that is not inlined");
  else if (s->op == KIR_BITS || is_copy) op_alias(t, s);
  else if (s->op == KIR_CAST) op_cast(t, s);
  else if (s->op == KIR_OWNS) op_owns(t, s);
  else if (s->op < KIR_CAST) {
    op_row(t, s);
    struct vm_step *last = &t->c->steps[t->c->n_steps - 1];
    if (!t->why && last->code == VM_OP) t->last_value = s->out[0];
  }
}

/* ---- Memory ---------------------------------------------------------------------------------------------------------- */

static void stmt_load(struct translator *t, const struct kir_stmt *s, struct vm_place p, struct pending pending) {
  int a = address_access(t, s, pending), out = define(t, s->out[0], VM_REF), target = out;
  bool is_lane = t->c->access[a].is_lane;
  if (!is_lane && !translator_is_one(t, out)) target = translator_reg(t, VM_ONE, t->c->regs[out].width);
  struct vm_step *step = translator_emit(t, is_lane ? VM_LOAD : VM_LOAD_ONE);
  step->out = target, step->access = a, step->mask = p.mask;
  if (target != out) copy(t, out, target);
}

/* An operation with no other use may write to memory itself. */
static bool merge_store(struct translator *t, const struct kir_stmt *s, struct vm_place p, int access) {
  struct vm_step *last = &t->c->steps[t->c->n_steps - 1];
  const struct vm_access *a = &t->c->access[access];
  if (t->last_value != s->in[0] || t->uses[s->in[0]] != 1 || s->op != KIR_SET || p.mask >= 0) return false;
  if (t->k->bufs[a->buf].dtype != a->reg_dtype || a->gather.n || !a->lane.n) return false;
  if (t->c->regs[last->out].kind != VM_OWN) return false;
  t->c->regs[last->out].kind = VM_REF;
  last->code = VM_OP_STORE, last->access = access;
  return true;
}

static void stmt_store(struct translator *t, const struct kir_stmt *s, struct vm_place p) {
  int last_value = t->last_value;
  int a = address_access(t, s, t->pending[t->next_access++]);
  t->last_value = last_value;
  if (t->lane >= 0 && merge_store(t, s, p, a)) return;
  int value = translator_use(t, s->in[0]);
  if (t->lane >= 0) value = as_tile(t, value);
  struct vm_step *step = translator_emit(t, t->lane >= 0 ? VM_STORE : VM_STORE_ONE);
  step->in[0] = value, step->access = a, step->mask = p.mask, step->op = s->op;
  if (s->op != KIR_SET && !order_has(s->op, t->c->access[a].reg_dtype))
    translator_refuse(t, "a store combines by an instruction that is no combiner");
}

/* ---- Folds ----------------------------------------------------------------------------------------------------------- */

static void fold_open(struct translator *t, const struct kir_stmt *s, int loop, bool in_lane) {
  if (s->n_in > VM_PARTS) { translator_refuse(t, "a fold of more than 8 values"); return; }
  int i = ADD(t, folds);
  struct vm_fold f = {.op = s->op, .fn = -1, .n_parts = s->n_in, .loop = loop, .is_prefix = s->kind == KIR_PREFIX};
  f.in_lane = in_lane;
  f.is_row = s->kind == KIR_PREFIX || s->order == KIR_ROW || (s->order == KIR_PLAIN && in_lane);
  for (int p = 0; p < s->n_in; p++) f.is_tile |= !in_lane && t->varying[s->out[p]];
  for (int p = 0; p < s->n_in; p++) {
    weft_dtype d = dtype_of(t, s->in[p]);
    f.dtype[p] = (uint8_t)d, f.scratch[p] = -1;
    f.start[p] = s->n_from ? translator_use(t, s->from[p])
                           : reg_const(t, d, f.is_prefix ? kir_neutral(s->op, d) : kir_empty(s->op, d));
  }
  if (s->op == KIR_CALL) f.fn = s->fn;
  else if (!order_has(s->op, f.dtype[0])) translator_refuse(t, "a fold combines by an instruction that is no combiner");
  t->c->folds[i] = f;
  translator_emit(t, VM_FOLD_OPEN)->access = i;
}

/* The folds of the body of a loop are numbered in text order from `first` on. */
static void folds_open(struct translator *t, struct kir_block b, int loop, bool in_lane) {
  for (const struct kir_stmt *s = b.first; s; s = s->next)
    if (s->kind == KIR_FOLD || s->kind == KIR_PREFIX) fold_open(t, s, loop, in_lane);
}

static void stmt_fold(struct translator *t, const struct kir_stmt *s, struct vm_place p, int index) {
  if (t->why) return;
  int in[VM_PARTS], out[VM_PARTS], scratch[VM_PARTS];
  bool wants_tile = t->c->folds[index].in_lane || t->c->folds[index].is_tile;
  for (int i = 0; i < s->n_in; i++) in[i] = wants_tile ? as_tile(t, translator_use(t, s->in[i])) : translator_use(t, s->in[i]);
  for (int i = 0; i < s->n_in; i++) {
    out[i] = scratch[i] = -1;
    if (s->kind == KIR_PREFIX) out[i] = define(t, s->out[i], VM_OWN);
    if (p.mask != p.entry && wants_tile) scratch[i] = translator_reg(t, VM_OWN, width_of(t, s->in[i]));
  }
  struct vm_fold *f = &t->c->folds[index];
  for (int i = 0; i < s->n_in; i++) f->in[i] = in[i], f->out[i] = out[i], f->scratch[i] = scratch[i];
  struct vm_step *step = translator_emit(t, VM_FOLD);
  step->access = index, step->mask = p.mask != p.entry ? p.mask : -1;
}

static void folds_close(struct translator *t, struct kir_block b, int index) {
  for (const struct kir_stmt *s = b.first; s && !t->why; s = s->next) {
    if (s->kind != KIR_FOLD && s->kind != KIR_PREFIX) continue;
    struct vm_fold *f = &t->c->folds[index];
    for (int i = 0; i < s->n_out; i++) {
      int r = translator_reg(t, !f->is_tile ? VM_ONE : t->kept[s->out[i]] ? VM_ROW : VM_OWN, width_of(t, s->out[i]));
      t->reg[s->out[i]] = r, f->last[i] = r;
      if (t->c->regs[r].kind == VM_ROW) t->row[s->out[i]] = r, check_length(t);
    }
    translator_emit(t, VM_FOLD_CLOSE)->access = index++;
  }
}

/* ---- Blocks ---------------------------------------------------------------------------------------------------------- */

static void block(struct translator *, struct kir_block, struct vm_place, int fold);

static bool has_kind(struct kir_block b, int kind) {
  for (const struct kir_stmt *s = b.first; s; s = s->next)
    if (s->kind == kind) return true;
  return false;
}

static void yields_define(struct translator *t, struct kir_block b) {
  for (const struct kir_stmt *s = b.first; s; s = s->next)
    if (s->kind == KIR_YIELD) define(t, s->out[0], VM_OWN);
}
static void yields_else(struct translator *t, struct kir_block b) {
  for (const struct kir_stmt *s = b.first; s; s = s->next)
    if (s->kind == KIR_YIELD) copy(t, translator_use(t, s->out[0]), translator_use(t, s->in[1]));
}

/* Skipped regions land on a pad that gives yields their other value; a region with a check gives it beforehand, since it
 * may be left anywhere. */
static void stmt_if(struct translator *t, const struct kir_stmt *s, struct vm_place p) {
  int cond = translator_use(t, s->in[0]), end = label_new(t), pad = end;
  bool has_yield = has_kind(s->body, KIR_YIELD), has_check = has_kind(s->body, KIR_CHECK);
  yields_define(t, s->body);
  if (has_yield && has_check) yields_else(t, s->body);
  else if (has_yield) pad = label_new(t);
  struct vm_place inner = p;
  inner.depth++, inner.end = end, inner.entry = p.mask;
  if (translator_is_one(t, cond)) {
    struct vm_step *step = translator_emit(t, VM_UNLESS);
    step->in[0] = cond, step->jump = pad;
  } else {
    int mask = translator_reg(t, VM_OWN, 1);
    struct vm_step *step = translator_emit(t, VM_MASK);
    step->out = inner.mask = mask, step->in[0] = cond, step->mask = p.mask, step->jump = pad;
  }
  block(t, s->body, inner, 0);
  if (pad != end) {
    translator_emit(t, VM_JUMP)->jump = end;
    label_here(t, pad);
    yields_else(t, s->body);
  }
  label_here(t, end);
}

static void stmt_yield(struct translator *t, const struct kir_stmt *s, struct vm_place p) {
  int out = translator_use(t, s->out[0]);
  if (p.mask == p.entry || translator_is_one(t, out)) { copy(t, out, translator_use(t, s->in[0])); return; }
  int in[3] = {p.mask, translator_use(t, s->in[0]), translator_use(t, s->in[1])}, shape = 1;
  for (int i = 1; i < 3; i++) shape |= !translator_is_one(t, in[i]) << i;
  tile_op *run = t->c->tiles->op[KIR_SELECT][tile_reg(dtype_of(t, s->out[0]))][shape];
  step_op(t, out, run, run, in, 3);
}

static bool place_varies(const struct translator *t, const struct kir_stmt *s) {
  bool does = !s->n_at && !translator_is_one(t, translator_find(t, s->in[2]));
  for (int i = 0; s->n_at && i < s->at[0].n; i++)
    for (int j = 0; j < s->at[0].term[i].n; j++) does |= t->lane >= 0 && s->at[0].term[i].val[j] == t->lane_var;
  return does;
}

static void stmt_check(struct translator *t, const struct kir_stmt *s, struct vm_place *p) {
  int ok = translator_use(t, s->in[0]), of = translator_use(t, s->in[1]), at = s->n_at ? -1 : translator_use(t, s->in[2]);
  bool one = translator_is_one(t, ok) && translator_is_one(t, of) && !place_varies(t, s);
  if (!one) ok = as_tile(t, ok);
  int mask = one ? -1 : translator_reg(t, VM_OWN, 1);
  struct vm_step *step = translator_emit(t, one ? VM_CHECK_ONE : VM_CHECK);
  step->in[0] = ok, step->in[1] = of, step->in[2] = at, step->mask = p->mask, step->out = mask;
  step->access = t->n_sites++, step->jump = p->end;
  if (s->n_at) address_place(t, s, step);
  if (!one) p->mask = mask;
}

static void stmt_until(struct translator *t, const struct kir_stmt *s, struct vm_place *p) {
  int stop = translator_use(t, s->in[0]), live = t->c->loops[p->loop].live;
  if (live < 0) {
    struct vm_step *step = translator_emit(t, VM_UNTIL_ONE);
    step->in[0] = stop, step->jump = p->end, step->access = p->loop;
    return;
  }
  stop = as_tile(t, stop);
  int go = translator_reg(t, VM_OWN, 1);
  struct vm_step *step = translator_emit(t, VM_UNTIL);
  step->in[0] = stop, step->in[1] = live, step->mask = p->mask, step->out = go, step->jump = p->end;
  p->mask = go;
}

/* The carried values of one kind, all at once: a source that another entry overwrites is saved first, unless pointers
 * rotate (slots.c). */
static void next_entries(struct translator *t, const struct kir_stmt *s, struct vm_place p, const int *from, bool ones) {
  struct vm_lin lin = {t->c->n_list, 0};
  for (int i = 0; i < s->n_out; i++) {
    int c = translator_use(t, s->out[i]), save = -1;
    if (translator_is_one(t, c) != ones) continue;
    for (int j = 0; j < s->n_out && save < 0; j++)
      if (j != i && from[i] == translator_use(t, s->out[j])) save = translator_reg(t, ones ? VM_ONE : VM_OWN, t->c->regs[c].width);
    list_add(t, c), list_add(t, from[i]), list_add(t, save);
    list_add(t, -1); /* slots.c may need room for two pairs */
    lin.n++;
  }
  if (!lin.n) return;
  struct vm_step *step = translator_emit(t, VM_NEXT);
  step->lin = lin, step->mask = p.mask != p.entry ? p.mask : -1, step->access = p.loop;
}

static void stmt_next(struct translator *t, const struct kir_stmt *s, struct vm_place p) {
  int from[64];
  if (s->n_out > 64) { translator_refuse(t, "more than 64 carried values"); return; }
  for (int i = 0; i < s->n_out; i++) {
    from[i] = translator_use(t, s->in[i]);
    if (!translator_is_one(t, translator_use(t, s->out[i]))) from[i] = as_tile(t, from[i]);
  }
  next_entries(t, s, p, from, false);
  next_entries(t, s, p, from, true);
}

/* ---- Loops ----------------------------------------------------------------------------------------------------------- */

static bool mentions(struct kir_block b, int val, int depth) { /* as an operand, not in a subscript */
  if (depth > VM_DEPTH) return true;
  for (const struct kir_stmt *s = b.first; s; s = s->next) {
    for (int i = 0; i < s->n_in; i++)
      if (s->in[i] == val) return true;
    if (mentions(s->body, val, depth + 1)) return true;
  }
  return false;
}

/* The launcher makes and merges the copies, so it must see the loop and count its iterations. */
static void check_private(struct translator *t, const struct kir_stmt *s, const struct vm_loop *l) {
  if (!s->n_private) return;
  if (s != t->facts.outer) translator_refuse(t, "private on a par that is not the outermost loop");
  if (!t->facts.is_private) translator_refuse(t, "private beside statements that act");
  if (moves(t, l->n) || moves(t, l->b)) translator_refuse(t, "private blocks whose number is known only inside the kernel");
}

static int loop_new(struct translator *t, const struct kir_stmt *s) {
  int i = ADD(t, loops);
  struct vm_loop l = {.kind = s->kind, .extent = s->extent, .is_outer = s == t->facts.outer, .of = -1, .live = -1};
  if (s->extent == KIR_BLOCK) l.of = t->loop_of[s->block_of];
  else l.n = address_extent(t, s->at[0]);
  if (s->extent == KIR_BLOCKS) l.b = address_extent(t, s->at[1]);
  t->loop_of[s->var] = i;
  t->c->loops[i] = l;
  check_private(t, s, &l);
  return i;
}

static void carries(struct translator *t, struct kir_block b) {
  for (const struct kir_stmt *s = b.first; s; s = s->next)
    if (s->kind == KIR_CARRY) { int init = translator_use(t, s->in[0]); copy(t, define(t, s->out[0], VM_OWN), init); }
}

static void stmt_loop(struct translator *t, const struct kir_stmt *s, struct vm_place p) {
  bool is_lane = s->kind == KIR_LANE;
  int at = t->next_access, loop = loop_new(t, s), end = label_new(t), outer_lane = t->lane, outer_var = t->lane_var;
  address_hoist(t, s->body, &at, p.depth);
  carries(t, s->body);
  int fold = t->c->n_folds;
  folds_open(t, s->body, loop, is_lane);
  struct vm_place inner = {.mask = p.mask, .end = end, .loop = loop, .depth = p.depth + 1};
  if (s->kind == KIR_SERIAL && t->lane >= 0 && vm_leaves_by_lane(t->varying, s->body)) {
    inner.mask = t->c->loops[loop].live = translator_reg(t, VM_OWN, 1);
    struct vm_step *step = translator_emit(t, VM_ONES);
    step->out = inner.mask, step->mask = p.mask;
  }
  inner.entry = p.mask;
  if (is_lane) t->lane = loop, t->lane_var = s->var;
  else t->reg[s->var] = t->c->loops[loop].var = translator_reg(t, VM_ONE, 8);
  t->c->loops[loop].begin = t->c->n_steps;
  struct vm_step *begin = translator_emit(t, is_lane ? VM_LANE : VM_BEGIN);
  begin->access = loop;
  if (is_lane && mentions(s->body, s->var, p.depth)) translator_emit(t, VM_IOTA)->out = define(t, s->var, VM_OWN);
  block(t, s->body, inner, fold);
  label_here(t, end);
  t->c->loops[loop].end = t->c->n_steps;
  translator_emit(t, VM_END)->access = loop;
  t->lane = outer_lane, t->lane_var = outer_var;
  t->reg[s->var] = -1;
  folds_close(t, s->body, fold);
}

static void block(struct translator *t, struct kir_block b, struct vm_place p, int fold) {
  if (p.depth > VM_DEPTH) { translator_refuse(t, "loops nest too deep"); return; }
  for (const struct kir_stmt *s = b.first; s && !t->why; s = s->next) switch ((enum kir_kind)s->kind) {
    case KIR_OP: stmt_op(t, s); break;
    case KIR_LOAD: stmt_load(t, s, p, t->pending[t->next_access++]); break;
    case KIR_STORE: stmt_store(t, s, p); break;
    case KIR_PAR: case KIR_SERIAL: case KIR_LANE: stmt_loop(t, s, p); break;
    case KIR_IF: stmt_if(t, s, p); break;
    case KIR_YIELD: stmt_yield(t, s, p); break;
    case KIR_NEXT: stmt_next(t, s, p); break;
    case KIR_UNTIL: stmt_until(t, s, &p); break;
    case KIR_FOLD: case KIR_PREFIX: stmt_fold(t, s, p, fold++); break;
    case KIR_CHECK: stmt_check(t, s, &p); break;
    /* carries are made with their loop; keep and local are properties of values and buffers */
    case KIR_CARRY: case KIR_KEEP: case KIR_LOCALS: case KIR_KINDS: break;
  }
}

/* ---- Fns: combiners of folds, run on tiles --------------------------------------------------------------------------- */

static void fn_body(struct translator *t, const struct kir_fn *f) {
  for (const struct kir_stmt *s = f->body.first; s && !t->why; s = s->next) {
    if (s->kind == KIR_OP) stmt_op(t, s);
    else if (s->kind == KIR_LOAD) stmt_load(t, s, (struct vm_place){.mask = -1}, (struct pending){-1, 0});
    else translator_refuse(t, "a statement that may not stand in a fn");
  }
}

static int fold_fn(struct translator *t, int fn) {
  const struct kir_fn *f = &t->k->fns[fn];
  struct vm_fn r = {.begin = t->c->n_steps, .n_param = f->n_param, .n_result = f->n_result};
  if (f->n_param > 2 * VM_PARTS || f->n_result > VM_PARTS) { translator_refuse(t, "a fold of more than 8 values"); return -1; }
  for (int i = 0; i < f->n_param; i++) r.param[i] = t->reg[f->param[i]] = translator_reg(t, VM_REF, width_of(t, f->param[i]));
  fn_body(t, f);
  for (int i = 0; i < f->n_result && !t->why; i++) {
    int own = r.result[i] = translator_use(t, f->result[i]);
    for (int j = 0; j < i; j++) if (r.result[j] == own) own = -1;
    if (own >= 0 && t->c->regs[own].kind == VM_OWN) continue;
    own = translator_reg(t, VM_OWN, width_of(t, f->result[i]));
    copy(t, own, r.result[i]);
    r.result[i] = own;
  }
  r.end = t->c->n_steps;
  translator_emit(t, VM_STOP);
  int i = ADD(t, fns);
  if (!t->why) t->c->fns[i] = r;
  return i;
}

static void folds_fn(struct translator *t) {
  int made[64];
  int n = t->k->n_fns < 64 ? t->k->n_fns : 64;
  for (int i = 0; i < n; i++) made[i] = -1;
  for (int i = 0; i < t->c->n_folds && !t->why; i++) {
    struct vm_fold *f = &t->c->folds[i];
    if (f->op != KIR_CALL) continue;
    if (f->fn >= n) { translator_refuse(t, "more than 64 fns"); return; }
    if (made[f->fn] < 0) made[f->fn] = fold_fn(t, f->fn);
    t->c->folds[i].fn = made[t->c->folds[i].fn];
  }
}

/* ---- The whole ------------------------------------------------------------------------------------------------------- */

static int count_accesses(struct kir_block b, int *uses, int depth) {
  int n = 0;
  if (depth > VM_DEPTH) return 0;
  for (const struct kir_stmt *s = b.first; s; s = s->next) {
    n += (s->kind == KIR_LOAD || s->kind == KIR_STORE) + count_accesses(s->body, uses, depth + 1);
    for (int i = 0; i < s->n_in; i++) uses[s->in[i]]++;
    for (int i = 0; i < s->n_from; i++) uses[s->from[i]]++;
    for (int a = 0; a < s->n_at; a++)
      for (int i = 0; i < s->at[a].n; i++)
        for (int v = 0; v < s->at[a].term[i].n; v++) uses[s->at[a].term[i].val[v]]++;
  }
  return n;
}

static void fixed_values(struct translator *t) {
  const struct kir_kernel *k = t->k;
  for (int v = 0; v < k->n_vals; v++) {
    t->reg[v] = t->row[v] = t->loop_of[v] = -1;
    if (!translator_is_fixed(t, v)) continue;
    t->reg[v] = reg_const(t, dtype_of(t, v), k->vals[v].kind == KIR_LIT ? k->vals[v].bits : 0);
  }
  for (int i = 0; i < k->n_sizes; i++) t->c->size_reg[i] = t->reg[k->sizes[i]];
  for (int i = 0; i < k->n_args; i++) t->c->arg_reg[i] = t->reg[k->args[i]], t->c->arg_dtype[i] = k->vals[k->args[i]].dtype;
}

static void table(struct translator *t, struct vm_buf *b, const struct kir_buf *from) {
  int width = tile_width(from->dtype);
  b->n_data = from->n_data;
  b->data = mem_alloc((size_t)width * (size_t)(from->n_data ? from->n_data : 1));
  if (!b->data) { t->why = ""; return; }
  for (int i = 0; i < from->n_data; i++) order_put((char *)b->data + i * width, from->dtype, from->data[i]);
}

static void buffers(struct translator *t) {
  for (int i = 0; i < t->k->n_bufs && !t->why; i++) {
    const struct kir_buf *from = &t->k->bufs[i];
    struct vm_buf *b = &t->c->bufs[i];
    b->kind = from->kind, b->dtype = from->dtype, b->rank = from->rank;
    if (from->rank > BACKEND_RANK) { translator_refuse(t, "a buffer of more than 12 axes"); return; }
    if (from->kind == KIR_TABLE) table(t, b, from);
    if (from->kind != KIR_LOCAL) continue;
    for (int a = 0; a < from->rank; a++) {
      b->dims[a] = address_extent(t, from->dims[a]);
      if (moves(t, b->dims[a])) translator_refuse(t, "a local whose size is known only inside the kernel");
    }
  }
}

static bool ones(struct translator *t) {
  struct code *c = t->c;
  c->ones = mem_alloc(sizeof *c->ones * (size_t)(c->n_ones ? c->n_ones : 1));
  if (!c->ones) return false;
  for (int i = 0; i < c->n_regs; i++)
    if (c->regs[i].kind == VM_ONE)
      switch (c->regs[i].width) {
        case 1: *(uint8_t *)&c->ones[c->regs[i].slot] = (uint8_t)c->regs[i].bits; break;
        case 4: memcpy(&c->ones[c->regs[i].slot], &(uint32_t){(uint32_t)c->regs[i].bits}, 4); break;
        default: c->ones[c->regs[i].slot] = c->regs[i].bits;
      }
  return true;
}

static void labels(struct code *c) {
  for (int i = 0; i < c->n_steps; i++)
    if (c->steps[i].jump >= 0) c->steps[i].jump = c->labels[c->steps[i].jump];
}

static bool take(struct translator *t) {
  const struct kir_kernel *k = t->k;
  struct code *c = t->c;
  size_t n = (size_t)k->n_vals + 1;
  t->reg = mem_alloc(n * sizeof(int)), t->row = mem_alloc(n * sizeof(int));
  t->loop_of = mem_alloc(n * sizeof(int)), t->uses = mem_alloc(n * sizeof(int));
  c->size_reg = mem_alloc(sizeof(int) * (size_t)(k->n_sizes + 1)), c->arg_reg = mem_alloc(sizeof(int) * (size_t)(k->n_args + 1));
  c->arg_dtype = mem_alloc((size_t)k->n_args + 1), c->bufs = mem_alloc(sizeof *c->bufs * (size_t)(k->n_bufs + 1));
  if (!t->reg || !t->row || !t->loop_of || !t->uses || !c->size_reg || !c->arg_reg || !c->arg_dtype || !c->bufs) return false;
  c->n_bufs = k->n_bufs, c->n_sizes = k->n_sizes, c->n_args = k->n_args;
  int n_access = count_accesses(k->body, t->uses, 0);
  t->pending = mem_alloc(sizeof *t->pending * (size_t)(n_access + 1));
  for (int i = 0; t->pending && i < n_access; i++) t->pending[i].addr = -1;
  return t->pending && ADD(t, regs) == 0 && ADD(t, terms) == 0 && ADD(t, access) == 0 && ADD(t, loops) == 0 &&
         ADD(t, folds) == 0 && ADD(t, fns) == 0 && ADD(t, list) == 0 && ADD(t, labels) == 0 && ADD(t, steps) == 0;
}

static void whole(struct translator *t) {
  t->c->n_regs = t->c->n_terms = t->c->n_access = t->c->n_loops = t->c->n_folds = t->c->n_fns = t->c->n_list = t->c->n_labels = 0;
  t->c->n_steps = 0;
  fixed_values(t);
  buffers(t);
  int end = label_new(t);
  if (!t->why) block(t, t->k->body, (struct vm_place){.mask = -1, .entry = -1, .end = end, .loop = -1}, 0);
  label_here(t, end);
  translator_emit(t, VM_STOP);
  folds_fn(t);
  if (!t->why && !ones(t)) t->why = "";
  if (!t->why) labels(t->c);
}

const char *vm_translate(struct code *c, const struct kir_kernel *k, const uint8_t *varying, const uint8_t *kept) {
  struct translator t = {.c = c, .k = k, .varying = varying, .kept = kept, .lane = -1, .lane_var = -1, .last_value = -1};
  t.facts = kir_facts(k);
  if (take(&t)) whole(&t);
  else t.why = "";
  mem_free(t.reg), mem_free(t.row), mem_free(t.loop_of), mem_free(t.uses), mem_free(t.pending);
  return t.why;
}
