/* registers.c -- which register holds what while a run of statements is emitted. When none is free, the value whose
 * next use is farthest goes (Belady); it is stored only if no copy of it is in memory yet. At the end of a run nothing
 * is kept: what later code needs was stored to its home when it was defined. */
#include "backend/x86/gen.h"

static uint64_t class_mask(const struct gen *g, bool mask) {
  if (mask) return (uint64_t)0xFE << MASK_BASE; /* k1 .. k7 */
  return g->n_vregs == 32 ? 0xFFFFFFFFu : 0xFFFFu;
}

static bool in_mask_register(const struct gen *g, int val) { return g->e.evex && g->vals[val].domain == BOOL; }

static void forget_spills(struct gen *g) {
  while (g->n_spilled) {
    int id = g->spilled[--g->n_spilled];
    if (g->spill[id] < 0) continue;
    slot_release(g, g->spill[id]);
    g->spill[id] = -1;
  }
}

void registers_clear(struct gen *g) {
  forget_spills(g);
  for (int r = 0; r < REGISTERS; r++) {
    if (g->holder[r] < 0 || g->pinned >> r & 1) continue;
    g->where[g->holder[r]] = -1;
    g->holder[r] = -1;
  }
  g->locked = g->temps = 0;
}

void pin(struct gen *g, int reg) { g->pinned |= (uint64_t)1 << reg; }
void unpin(struct gen *g, int reg) { g->pinned &= ~((uint64_t)1 << reg); }

static void forget(struct gen *g, int reg) {
  if (g->holder[reg] >= 0) g->where[g->holder[reg]] = -1;
  g->holder[reg] = -1;
}

void move_vector(struct gen *g, int bytes, int dst, int src) {
  if (dst != src) vec(enc(g), I_MOVUPS, bytes, dst, 0, rm_reg(src));
}

struct rm home_of(struct gen *g, int val, int copy) {
  return in_frame(g->vals[val].home + (g->vals[val].lane ? copy * g->vector_bytes : 0));
}

static struct rm literal(struct gen *g, int val) {
  struct gen_value *v = &g->vals[val];
  uint64_t bits = g->k->vals[val].bits;
  if (v->domain == BOOL) return pool_scalar(enc(g), 4, bits ? 0xFFFFFFFFu : 0);
  if (!v->pool) v->pool = pool_scalar(enc(g), lane_bytes(v->dtype), bits).disp + 1;
  return (
      struct rm){ .kind = RM_POOL, .reg = -1, .base = -1, .index = -1, .disp = v->pool - 1, .broadcast = g->e.evex };
}

static struct rm kept(struct gen *g, int val, int copy) {
  struct kept_row *r = &g->rows[g->vals[val].row];
  int base = g->row_reg[g->vals[val].row], scale = r->bytes == 8 ? 3 : 2;
  if (base < 0) gpr(enc(g), G_MOV, base = RAX, in_frame(r->pointer));
  if (!g->loops[g->lane_loop].is_flat) gpr(enc(g), G_MOV, R9, in_frame(g->loops[g->lane_loop].j));
  return rm_index(base, R9, scale, copy * g->lanes * r->bytes);
}

static bool comes_from_row(const struct gen *g, int val) {
  const struct gen_value *v = &g->vals[val];
  return v->row >= 0 && g->lane_loop >= 0 && g->loops[v->loop].lane != g->lane_loop;
}

/* Lanes that are not there are no memory either. */
static bool is_masked(const struct gen *g, int val) {
  return g->tail >= 0 && comes_from_row(g, val) && g->rows[g->vals[val].row].in_place;
}

/* Where the value is in memory. */
struct rm in_memory(struct gen *g, int val, int copy) {
  struct gen_value *v = &g->vals[val];
  if (is_literal(g, val)) return literal(g, val);
  if (comes_from_row(g, val)) return kept(g, val, copy);
  if (v->domain == SCALAR || is_read_as_given(g, val)) {
    struct rm m = in_frame(v->home);
    m.broadcast = true;
    return m;
  }
  return v->home >= 0 ? home_of(g, val, copy) : in_frame(g->spill[id_of(g, val, copy)]);
}

/* A row's part of a packed value, made anew where it is wanted again. */
static bool is_spread(const struct gen *g, int val, int id) { return g->short_loop >= 0 && !g->vals[val].lane && id % COPIES; }

static bool has_memory(const struct gen *g, int val, int id) {
  const struct gen_value *v = &g->vals[val];
  return is_literal(g, val) || v->domain == SCALAR || v->home >= 0 || comes_from_row(g, val) ||
         g->spill[id] >= 0 || is_spread(g, val, id);
}

/* Registers are saved and filled whole, also while a statement works on fewer lanes (scalar.c). */
static int whole_width(const struct gen *g, int dtype) { return lane_bytes(dtype) * (g->vector_bytes / (g->wide ? 8 : 4)); }

static void store_register(struct gen *g, int dtype, int reg, struct rm m) {
  if (reg >= MASK_BASE) vec(enc(g), I_KMOV_TO, 16, reg - MASK_BASE, 0, m);
  else vec(enc(g), I_MOVUPS_TO, whole_width(g, dtype), reg, 0, m);
}

static void fill_mask(struct gen *g, int val, int reg, struct rm m) {
  struct encoder *e = enc(g);
  if (comes_from_row(g, val)) { /* rows hold 32 bits a bool */
    uint64_t before = g->temps;
    int t = temp(g);
    vec(e, I_MOVUPS, whole_width(g, WEFT_I32), t, 0, m);
    vec(e, I_PMOVD2M, whole_width(g, WEFT_I32), reg - MASK_BASE, 0, rm_reg(t));
    g->temps = before;
    return;
  }
  if (!is_literal(g, val)) { vec(e, I_KMOV, 16, reg - MASK_BASE, 0, m); return; }
  gpr_const(e, RAX, g->k->vals[val].bits ? -1 : 0);
  vec(e, I_KMOV_FROM_GPR, 16, reg - MASK_BASE, 0, rm_reg(RAX));
}

void fill_register(struct gen *g, int val, int copy, int reg, struct rm m) {
  int dtype = g->vals[val].dtype;
  bool is_64 = lane_bytes(dtype) == 8;
  if (reg >= MASK_BASE) { fill_mask(g, val, reg, m); return; }
  if (is_masked(g, val)) { load_masked(g, dtype, g->tail, copy, reg, m); return; }
  if (m.kind != RM_REG && m.broadcast) {
    m.broadcast = false;
    vec(enc(g), is_64 ? I_PBROADCASTQ : I_BROADCASTSS, whole_width(g, dtype), reg, 0, m);
  } else {
    vec(enc(g), I_MOVUPS, whole_width(g, dtype), reg, 0, m);
  }
}

static void evict(struct gen *g, int reg) {
  int id = g->holder[reg], val = id / COPIES;
  if (!has_memory(g, val, id)) {
    g->spill[id] = slot_spare(g);
    if (gen_grow(g, (void **)&g->spilled, &g->spilled_room, g->n_spilled + 1, sizeof(int)))
      g->spilled[g->n_spilled++] = id;
    store_register(g, g->vals[val].dtype, reg, in_frame(g->spill[id]));
  }
  forget(g, reg);
}

int take_register(struct gen *g, bool mask) {
  uint64_t open = class_mask(g, mask) & ~(g->pinned | g->locked | g->temps);
  int victim = -1;
  for (uint64_t m = open; m; m &= m - 1) {
    int r = __builtin_ctzll(m);
    if (g->holder[r] < 0) return r;
    if (victim < 0 || g->next[g->holder[r]] > g->next[g->holder[victim]]) victim = r;
  }
  if (victim < 0) {
    gen_cannot(g, "too many registers in one statement");
    g->is_crowded = true;
    return mask ? MASK_BASE + 1 : 0;
  }
  evict(g, victim);
  return victim;
}

int lock_register(struct gen *g, int reg) {
  g->temps |= (uint64_t)1 << reg;
  return reg;
}
int temp(struct gen *g) { return lock_register(g, take_register(g, false)); }
int temp_mask(struct gen *g) { return lock_register(g, take_register(g, true)) - MASK_BASE; }

void reserve(struct gen *g) {
  uint64_t before = g->temps;
  for (int i = 0; i < COMBINE_TEMPS; i++) temp(g);
  if (g->e.evex) temp_mask(g);
  g->temps = before;
}

static int held_in(struct gen *g, int val, int copy) {
  int id = id_of(g, val, copy), reg = g->where[id];
  if (reg < 0) {
    reg = take_register(g, in_mask_register(g, val));
    uint64_t locked = g->locked;
    g->locked |= (uint64_t)1 << reg;
    fill_register(g, val, copy, reg, in_memory(g, val, copy));
    g->locked = locked;
    g->where[id] = (int8_t)reg;
    g->holder[reg] = id;
  }
  g->locked |= (uint64_t)1 << reg;
  return reg;
}

static int part_of(struct gen *g, int val, int row) {
  int id = val * COPIES + 1 + row;
  if (g->where[id] < 0) {
    int packed = held_in(g, val, 0), reg = take_register(g, false);
    row_spread(g, row, reg, packed);
    g->where[id] = (int8_t)reg;
    g->holder[reg] = id;
    g->next[id] = g->next[val * COPIES];
  }
  g->locked |= (uint64_t)1 << g->where[id];
  return g->where[id];
}

int in_reg(struct gen *g, int val, int copy) {
  return is_packed(g, val) ? part_of(g, val, copy / g->vectors) : held_in(g, val, copy);
}

struct rm in_rm(struct gen *g, int val, int copy) {
  if (is_packed(g, val)) return rm_reg(in_reg(g, val, copy));
  int id = id_of(g, val, copy);
  if (g->where[id] >= 0) {
    g->locked |= (uint64_t)1 << g->where[id];
    return rm_reg(g->where[id]);
  }
  bool is_scalar = g->vals[val].domain == SCALAR && !is_literal(g, val);
  if (in_mask_register(g, val) || (is_scalar && !g->e.evex) || is_masked(g, val)) return rm_reg(in_reg(g, val, copy));
  return in_memory(g, val, copy);
}

/* ---- The current statement ---- */

static bool is_last_copy(const struct gen *g, int val) {
  const struct gen_value *v = &g->vals[val];
  if (v->lane && v->repeats && g->short_loop >= 0) return g->now_copy >= g->now_copies - g->vectors;
  return v->lane || g->now_copy == g->now_copies - 1;
}

static bool ends_here(const struct gen *g, int operand) {
  int val = g->now->s->in[operand];
  if (!is_last_copy(g, val)) return false;
  for (int i = 0; i < g->now->s->n_in && i < 3; i++)
    if (g->now->s->in[i] == val && g->now->next_in[i] < NEVER) return false;
  return true;
}

bool is_dying(struct gen *g, int operand) {
  int reg = g->where[id_of(g, g->now->s->in[operand], g->now_copy)];
  if (reg < 0 || is_packed(g, g->now->s->in[operand])) return false;
  if (g->pinned >> reg & 1) return reg == g->want;
  return ends_here(g, operand) && (g->want < 0 || reg == g->want);
}

static void drop_parts(struct gen *g, int val) {
  for (int id = val * COPIES + 1; id < (val + 1) * COPIES; id++)
    if (g->where[id] >= 0) forget(g, g->where[id]);
}

static void drop(struct gen *g, int id) {
  if (is_packed(g, id / COPIES)) drop_parts(g, id / COPIES);
  int reg = g->where[id];
  if (reg >= 0 && !(g->pinned >> reg & 1)) forget(g, reg);
  if (g->spill[id] >= 0) {
    g->freed[g->n_freed++] = g->spill[id]; /* the instruction may still read it there */
    g->spill[id] = -1;
  }
}

void release(struct gen *g) {
  const struct kir_stmt *s = g->now->s;
  for (int i = 0; i < s->n_in && i < 3; i++) {
    int id = id_of(g, s->in[i], g->now_copy);
    g->next[id] = is_last_copy(g, s->in[i]) ? g->now->next_in[i] : g->now_at;
    if (ends_here(g, i)) drop(g, id);
  }
  if (g->now->mask >= 0) g->next[id_of(g, g->now->mask, g->now_copy)] = g->now->next_in[MASK_USE];
  g->locked = 0;
}

void statement_end(struct gen *g) {
  while (g->n_freed) slot_release(g, g->freed[--g->n_freed]);
  g->locked = g->temps = 0;
}

int out_reg(struct gen *g) {
  if (g->want >= 0) return g->want;
  return take_register(g, in_mask_register(g, g->now->s->out[0]));
}

/* Beyond the reach of `want`, and no temporary either: the caller writes it before it has read all operands. */
int fresh_reg(struct gen *g) { return lock_register(g, take_register(g, in_mask_register(g, g->now->s->out[0]))); }

static void store_row(struct gen *g, int val, int copy, int reg) {
  if (g->vals[val].row < 0 || comes_from_row(g, val) || g->short_loop >= 0 || g->rows[g->vals[val].row].in_place) return;
  uint64_t before = g->temps;
  if (reg >= MASK_BASE) {
    int t = temp(g);
    vec(enc(g), I_PMOVM2D, width_of(g, WEFT_I32), t, 0, rm_reg(reg - MASK_BASE));
    reg = t;
  }
  g->temps = before;
  vec(enc(g), I_MOVUPS_TO, width_of(g, g->vals[val].dtype), reg, 0, kept(g, val, copy));
}

void keep_value(struct gen *g, int val) {
  for (int c = 0; c < g->copies; c++) {
    store_row(g, val, c, in_reg(g, val, c));
    g->locked = 0;
  }
}

void define_value(struct gen *g, int val, int copy, int reg) {
  int id = id_of(g, val, copy);
  if (!(g->pinned >> reg & 1)) g->holder[reg] = id;
  g->where[id] = (int8_t)reg;
  struct gen_value *v = &g->vals[val];
  if (v->crosses && v->home >= 0) store_register(g, v->dtype, reg, home_of(g, val, copy));
  store_row(g, val, copy, reg);
}

void define(struct gen *g, int reg) {
  int val = g->now->s->out[0], id = id_of(g, val, g->now_copy);
  g->next[id] = g->now->next_out;
  define_value(g, val, g->now_copy, reg);
  g->locked = g->temps = 0;
  if (g->now->next_out == NEVER && !(g->pinned >> reg & 1)) forget(g, reg);
}
