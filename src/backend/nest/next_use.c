/* next_use.c -- which register holds what while a run of statements is emitted. When none is free, the value whose next
 * use is farthest goes (Belady); it is stored only if no copy of it is in memory yet. At the end of a run nothing is kept:
 * what later code needs was stored to its home when it was defined. Which registers there are, and how one is stored or
 * loaded, struct machine says (emission.h). */
#include "backend/nest/emission.h"

enum register_kind register_kind(const struct emission *g, int val) {
  return g->vals[val].domain == BOOL && g->machine->registers[IN_MASKS] ? IN_MASKS : IN_VECTORS;
}

static uint64_t bit(int reg) { return (uint64_t)1 << reg; }
static bool is_pinned(const struct emission *g, int reg) { return g->pinned >> reg & 1; }

static void forget_spills(struct emission *g) {
  while (g->n_spilled) {
    int id = g->spilled[--g->n_spilled];
    if (g->spill[id] < 0) continue;
    nest_slot_release(nest_in(g), g->spill[id]);
    g->spill[id] = -1;
  }
}

static void empty(struct emission *g, int reg) {
  if (g->holder[reg] >= 0) g->where[g->holder[reg]] = -1;
  g->holder[reg] = -1;
}

void registers_clear(struct emission *g) {
  forget_spills(g);
  uint64_t given = g->machine->registers[IN_VECTORS] | g->machine->registers[IN_MASKS]; /* others hold what is pinned, or nothing */
  for (uint64_t m = given & ~g->pinned; m; m &= m - 1) empty(g, __builtin_ctzll(m));
  g->locked = g->temps = 0;
}

void registers_forget(struct emission *g, int id) {
  if (g->where[id] >= 0) g->holder[g->where[id]] = -1;
  g->where[id] = -1;
}

bool comes_from_row(const struct emission *g, int val) {
  const struct gen_value *v = &g->vals[val];
  return v->row >= 0 && g->lane_loop >= 0 && g->loops[v->loop].lane != g->lane_loop;
}

/* A row's part of a packed value, made anew where it is wanted again. */
static bool is_spread(const struct emission *g, int val, int id) {
  return g->short_loop >= 0 && !g->vals[val].lane && id % COPIES;
}

static bool has_memory(const struct emission *g, int val, int id) {
  const struct gen_value *v = &g->vals[val];
  return nest_is_literal(nest_seen_in(g), val) || v->domain == SCALAR || v->home >= 0 || comes_from_row(g, val) ||
         g->spill[id] >= 0 || is_spread(g, val, id);
}

static void evict(struct emission *g, int reg) {
  int id = g->holder[reg], val = id / COPIES;
  if (!has_memory(g, val, id)) {
    g->spill[id] = nest_slot_spare(nest_in(g));
    if (nest_grow(nest_in(g), (void **)&g->spilled, &g->spilled_room, g->n_spilled + 1, sizeof(int)))
      g->spilled[g->n_spilled++] = id;
    g->machine->store(g, g->vals[val].dtype, reg, g->spill[id]);
  }
  empty(g, reg);
}

int registers_take(struct emission *g, enum register_kind kind) {
  uint64_t all = g->machine->registers[kind], open = all & ~(g->pinned | g->locked | g->temps);
  int victim = -1;
  for (uint64_t m = open; m; m &= m - 1) {
    int r = __builtin_ctzll(m);
    if (g->holder[r] < 0) return r;
    if (victim < 0 || g->next[g->holder[r]] > g->next[g->holder[victim]]) victim = r;
  }
  if (victim < 0) {
    nest_cannot(nest_in(g), "too many registers in one statement");
    g->is_crowded = true;
    return all ? __builtin_ctzll(all) : 0;
  }
  evict(g, victim);
  return victim;
}

int registers_lock(struct emission *g, int reg) {
  g->temps |= bit(reg);
  return reg;
}

int registers_temp(struct emission *g, enum register_kind kind) { return registers_lock(g, registers_take(g, kind)); }

static void hold(struct emission *g, int id, int reg) {
  g->where[id] = (int8_t)reg;
  g->holder[reg] = id;
}

static int whole(struct emission *g, int val, int copy) {
  int id = value_id(g, val, copy), reg = g->where[id];
  if (reg < 0) {
    reg = registers_take(g, register_kind(g, val));
    uint64_t locked = g->locked;
    g->locked |= bit(reg);
    g->machine->load(g, val, copy, reg);
    g->locked = locked;
    hold(g, id, reg);
  }
  g->locked |= bit(reg);
  return reg;
}

static int part_of(struct emission *g, int val, int row) {
  int id = val * COPIES + 1 + row;
  if (g->where[id] < 0) {
    int packed = whole(g, val, 0), reg = registers_take(g, IN_VECTORS);
    g->machine->spread(g, row, reg, packed);
    hold(g, id, reg);
    g->next[id] = g->next[val * COPIES];
  }
  g->locked |= bit(g->where[id]);
  return g->where[id];
}

int registers_hold(struct emission *g, int val, int copy) {
  return value_is_packed(g, val) ? part_of(g, val, copy / g->vectors) : whole(g, val, copy);
}

/* ---- The current statement ---- */

static bool is_last_copy(const struct emission *g, int val) {
  const struct gen_value *v = &g->vals[val];
  if (v->lane && v->repeats && g->short_loop >= 0) return g->now_copy >= g->now_copies - g->vectors;
  return v->lane || g->now_copy == g->now_copies - 1;
}

static bool ends_here(const struct emission *g, int operand) {
  int val = g->now->s->in[operand];
  if (!is_last_copy(g, val)) return false;
  for (int i = 0; i < g->now->s->n_in && i < 3; i++)
    if (g->now->s->in[i] == val && g->now->next_in[i] < NEVER) return false;
  return true;
}

bool registers_operand_dies(const struct emission *g, int operand) {
  int reg = g->where[value_id(g, g->now->s->in[operand], g->now_copy)];
  if (reg < 0 || value_is_packed(g, g->now->s->in[operand])) return false;
  if (is_pinned(g, reg)) return reg == g->want;
  return ends_here(g, operand) && (g->want < 0 || reg == g->want);
}

static void drop_parts(struct emission *g, int val) {
  for (int id = val * COPIES + 1; id < (val + 1) * COPIES; id++)
    if (g->where[id] >= 0) empty(g, g->where[id]);
}

static void drop(struct emission *g, int id) {
  if (value_is_packed(g, id / COPIES)) drop_parts(g, id / COPIES);
  int reg = g->where[id];
  if (reg >= 0 && !is_pinned(g, reg)) empty(g, reg);
  if (g->spill[id] >= 0) {
    g->freed[g->n_freed++] = g->spill[id]; /* the instruction may still read it there */
    g->spill[id] = -1;
  }
}

void registers_release(struct emission *g) {
  const struct kir_stmt *s = g->now->s;
  for (int i = 0; i < s->n_in && i < 3; i++) {
    int id = value_id(g, s->in[i], g->now_copy);
    g->next[id] = is_last_copy(g, s->in[i]) ? g->now->next_in[i] : g->now_at;
    if (ends_here(g, i)) drop(g, id);
  }
  if (g->now->mask >= 0) g->next[value_id(g, g->now->mask, g->now_copy)] = g->now->next_in[MASK_USE];
  g->locked = 0;
}

void registers_end(struct emission *g) {
  while (g->n_freed) nest_slot_release(nest_in(g), g->freed[--g->n_freed]);
  g->locked = g->temps = 0;
}

int registers_result(struct emission *g) {
  return g->want >= 0 ? g->want : registers_take(g, register_kind(g, g->now->s->out[0]));
}

/* Beyond the reach of `want`, and no temporary either: the caller writes it before it has read all operands. */
int registers_fresh(struct emission *g) { return registers_temp(g, register_kind(g, g->now->s->out[0])); }

void registers_put(struct emission *g, int id, int reg) {
  if (!is_pinned(g, reg)) g->holder[reg] = id;
  g->where[id] = (int8_t)reg;
}

void registers_defined(struct emission *g, int reg) {
  g->locked = g->temps = 0;
  if (g->now->next_out == NEVER && !is_pinned(g, reg)) empty(g, reg);
}
