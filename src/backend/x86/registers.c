/* registers.c -- how the registers of x86 are filled from memory and stored there, for the allocation of nest/next_use.c:
 * sixteen vectors, or thirty-two and the masks k1 to k7 with AVX-512. */
#include "backend/x86/gen.h"

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

static bool from_row(const struct gen *g, int val) { return comes_from_row(emission_seen(g), val); }

/* Lanes that are not there are no memory either. */
static bool is_masked(const struct gen *g, int val) {
  return g->tail >= 0 && from_row(g, val) && g->rows[g->vals[val].row].in_place;
}

/* Where the value is in memory. */
struct rm in_memory(struct gen *g, int val, int copy) {
  struct gen_value *v = &g->vals[val];
  if (is_literal(g, val)) return literal(g, val);
  if (from_row(g, val)) return kept(g, val, copy);
  if (v->domain == SCALAR || is_read_as_given(g, val)) {
    struct rm m = in_frame(v->home);
    m.broadcast = true;
    return m;
  }
  return v->home >= 0 ? home_of(g, val, copy) : in_frame(g->spill[id_of(g, val, copy)]);
}

/* Registers are saved and filled whole, also while a statement works on fewer lanes (scalar.c). */
static int whole_width(const struct gen *g, int dtype) { return lane_bytes(dtype) * (g->vector_bytes / (g->wide ? 8 : 4)); }

static void store_register(struct gen *g, int dtype, int reg, struct rm m) {
  if (reg >= MASK_BASE) vec(enc(g), I_KMOV_TO, 16, reg - MASK_BASE, 0, m);
  else vec(enc(g), I_MOVUPS_TO, whole_width(g, dtype), reg, 0, m);
}

static void fill_mask(struct gen *g, int val, int reg, struct rm m) {
  struct encoder *e = enc(g);
  if (from_row(g, val)) { /* rows hold 32 bits a bool */
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

/* ---- The machine ---- */

static void store(struct emission *r, int dtype, int reg, int32_t slot) {
  store_register((struct gen *)r, dtype, reg, in_frame(slot));
}

static void load(struct emission *r, int val, int copy, int reg) {
  struct gen *g = (struct gen *)r;
  fill_register(g, val, copy, reg, in_memory(g, val, copy));
}

static void spread(struct emission *r, int row, int reg, int packed) { row_spread((struct gen *)r, row, reg, packed); }

const struct machine avx2_machine = { { 0xFFFF }, store, load, spread };
const struct machine avx512_machine = { { 0xFFFFFFFF, (uint64_t)0xFE << MASK_BASE }, store, load, spread }; /* k0: no mask at all */

void reserve(struct gen *g) {
  uint64_t before = g->temps;
  for (int i = 0; i < COMBINE_TEMPS; i++) temp(g);
  if (g->e.evex) temp_mask(g);
  g->temps = before;
}

struct rm in_rm(struct gen *g, int val, int copy) {
  if (is_packed(g, val)) return rm_reg(in_reg(g, val, copy));
  int id = id_of(g, val, copy);
  if (g->where[id] >= 0) {
    g->locked |= (uint64_t)1 << g->where[id];
    return rm_reg(g->where[id]);
  }
  bool is_scalar = g->vals[val].domain == SCALAR && !is_literal(g, val), is_mask = register_kind(emission_seen(g), val) == IN_MASKS;
  return is_mask || (is_scalar && !g->e.evex) || is_masked(g, val) ? rm_reg(in_reg(g, val, copy)) : in_memory(g, val, copy);
}

static void store_row(struct gen *g, int val, int copy, int reg) {
  if (g->vals[val].row < 0 || from_row(g, val) || g->short_loop >= 0 || g->rows[g->vals[val].row].in_place) return;
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
  registers_put(emission_of(g), id_of(g, val, copy), reg);
  struct gen_value *v = &g->vals[val];
  if (v->crosses && v->home >= 0) store_register(g, v->dtype, reg, home_of(g, val, copy));
  store_row(g, val, copy, reg);
}

void define(struct gen *g, int reg) {
  int val = g->now->s->out[0];
  g->next[id_of(g, val, g->now_copy)] = g->now->next_out;
  define_value(g, val, g->now_copy, reg);
  registers_defined(emission_of(g), reg);
}
