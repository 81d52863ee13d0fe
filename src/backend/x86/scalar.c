/* scalar.c -- what is the same in all lanes and of 64 bits: subscripts, extents, addresses, and the instructions of the
 * kernel on such values, in general registers. Also the ways between this domain and the vectors. */
#include "backend/x86/gen.h"

static int32_t scalar_slot(const struct gen *g, int val) {
  return g->k->vals[val].kind == KIR_AXIS ? g->loops[g->vals[val].loop].var : g->vals[val].home;
}

void scalar_load(struct gen *g, int reg, int val) {
  if (g->k->vals[val].kind == KIR_LIT) gpr_const(enc(g), reg, (int64_t)g->k->vals[val].bits);
  else gpr(enc(g), G_MOV, reg, in_frame(scalar_slot(g, val)));
}

static void scalar_store(struct gen *g, int val, int reg) { gpr(enc(g), G_STORE, reg, in_frame(g->vals[val].home)); }

/* ---- Subscripts and addresses ---- */

bool lin_has(const struct kir_lin *l, int val) {
  for (int i = 0; i < l->n; i++)
    for (int j = 0; j < l->term[i].n; j++)
      if (l->term[i].val[j] == val) return true;
  return false;
}

static bool term_has(const struct kir_term *t, int val) {
  for (int j = 0; j < t->n; j++)
    if (t->val[j] == val) return true;
  return false;
}

static void times_const(struct gen *g, int reg, int64_t c) {
  if (c == 1) return;
  if (c == (int32_t)c) { gpr_mul_imm(enc(g), reg, rm_reg(reg), (int32_t)c); return; }
  gpr(enc(g), G_STORE, reg, in_frame(g->scratch));
  gpr_const(enc(g), reg, c);
  gpr(enc(g), G_IMUL, reg, in_frame(g->scratch));
}

/* RAX = the term, one factor `without` left out. */
static void term_eval(struct gen *g, const struct kir_term *t, int without) {
  bool is_first = true;
  for (int j = 0; j < t->n; j++) {
    if (t->val[j] == without) {
      without = -1;
      continue;
    }
    gpr(enc(g), is_first ? G_MOV : G_IMUL, RAX, in_frame(scalar_slot(g, t->val[j])));
    is_first = false;
  }
  if (is_first) gpr_const(enc(g), RAX, t->coef);
  else times_const(g, RAX, t->coef);
}

/* reg = the sum of the terms that contain `only` (without that factor) or, if only is -1, of those that do not contain
 * `skip`; skip_lanes: nor anything that differs between lanes. False: there is none, and reg is untouched. Uses RAX. */
static bool sum_eval(struct gen *g, int reg, const struct kir_lin *l, int only, int skip, bool skip_lanes) {
  bool any = false;
  for (int i = 0; i < l->n; i++) {
    const struct kir_term *t = &l->term[i];
    if (skip_lanes && term_varies(g, t)) continue;
    if (only >= 0 ? !term_has(t, only) : term_has(t, skip)) continue;
    term_eval(g, t, only);
    gpr(enc(g), any ? G_ADD : G_MOV, reg, rm_reg(RAX));
    any = true;
  }
  return any;
}

void lin_eval(struct gen *g, int reg, const struct kir_lin *l) {
  if (!sum_eval(g, reg, l, -1, -1, false)) gpr_const(enc(g), reg, 0);
}

void lin_of_lane(struct gen *g, const struct kir_lin *l, int var) {
  if (!sum_eval(g, RCX, l, var, -1, false)) gpr_const(enc(g), RCX, 0);
  if (!sum_eval(g, RDX, l, -1, var, false)) gpr_const(enc(g), RDX, 0);
}

static void add_axis(struct gen *g, const struct gen_access *a, int axis) {
  int buf = a->stmt->buf;
  if (stride_class(g, buf, axis) == STRIDE_1) gpr(enc(g), G_LEA, RCX, rm_index(RCX, RDX, a->element, 0));
  else {
    gpr(enc(g), G_IMUL, RDX, in_frame(g->data_at[buf] + 8 + 8 * axis));
    gpr(enc(g), G_ADD, RCX, rm_reg(RDX));
  }
}

static void address_sum(struct gen *g, const struct gen_access *a, int only, int skip) {
  for (int d = 0; d < a->stmt->n_at; d++)
    if (stride_class(g, a->stmt->buf, d) != STRIDE_0 && sum_eval(g, RDX, &a->stmt->at[d], only, skip, a->cls == LANE_INDEX))
      add_axis(g, a, d);
  gpr(enc(g), G_MOV, RDX, rm_reg(RCX));
}

void address_eval(struct gen *g, const struct gen_access *a, int skip) {
  gpr(enc(g), G_MOV, RCX, in_frame(g->data_at[a->stmt->buf]));
  address_sum(g, a, -1, skip);
}

void address_step(struct gen *g, const struct gen_access *a, int val) {
  gpr_const(enc(g), RCX, 0);
  address_sum(g, a, val, -1);
}

/* ---- Between the domains ---- */

static bool is_scalar(const struct gen *g, int val) { return g->vals[val].domain == SCALAR; }

/* The bool in EAX (0 or 1) to all lanes. */
static void bool_from_eax(struct gen *g) {
  struct encoder *e = enc(g);
  release(g);
  int d = out_reg(g);
  gpr_unary(e, 3, RAX);
  if (e->evex) {
    vec(e, I_KMOV_FROM_GPR, 16, d - MASK_BASE, 0, rm_reg(RAX));
  } else {
    gpr(e, G_STORE, RAX, in_frame(g->scratch));
    vec(e, I_BROADCASTSS, width_of(g, WEFT_BOOL), d, 0, in_frame(g->scratch));
  }
  define(g, d);
}

void bool_test(struct gen *g, int reg) {
  struct encoder *e = enc(g);
  if (e->evex) vec(e, I_KMOV_GPR, 16, RAX, 0, rm_reg(reg - MASK_BASE));
  else vec(e, I_MOVMSKPS, 16, RAX, 0, rm_reg(reg));
  static const uint8_t test_al_1[] = { 0xA8, 1 };
  code_bytes(e, test_al_1, 2);
}

static void compare_to_bool(struct gen *g, enum cc cc) {
  gpr_setcc(enc(g), cc, RAX);
  bool_from_eax(g);
}

/* The vector way round, with as many lanes as 64 bits allow; all of them are the same. */
static void cast_by_vectors(struct gen *g, const struct kir_stmt *s) {
  struct encoder *e = enc(g);
  int lanes = g->lanes, out = s->out[0], to = g->vals[out].dtype, d = 0;
  g->lanes = g->vector_bytes / 8;
  d = cast_value(g, s);
  g->lanes = lanes;
  if (is_scalar(g, out)) {
    vec(e, I_MOVQ_TO, 16, d, 0, in_frame(g->vals[out].home));
    release(g);
  } else {
    vec(e, lane_bytes(to) == 8 ? I_PBROADCASTQ : I_PBROADCASTD, width_of(g, to), d, 0, rm_reg(d));
    release(g);
    define(g, d);
  }
}

static void to_vector(struct gen *g, const struct kir_stmt *s) {
  struct encoder *e = enc(g);
  int to = g->vals[s->out[0]].dtype, bytes = width_of(g, to);
  bool is_plain = s->op == KIR_BITS || s->dtype == to, is_float = s->op == KIR_CAST && kir_is_float((weft_dtype)to);
  if (to == WEFT_BOOL) {
    scalar_load(g, RAX, s->in[0]);
    gpr(e, G_TEST, RAX, rm_reg(RAX));
    compare_to_bool(g, CC_NE);
    return;
  }
  if (!is_plain || (is_float && g->vals[s->in[0]].dtype == WEFT_U64)) { cast_by_vectors(g, s); return; }
  scalar_load(g, RAX, s->in[0]);
  gpr(e, G_STORE, RAX, in_frame(g->scratch));
  release(g);
  int d = out_reg(g);
  if (is_float) {
    vec(e, I_PXOR, 16, d, d, rm_reg(d));
    vec(e, to == WEFT_F64 ? I_CVTSI2SD : I_CVTSI2SS, 16, d, d, in_frame(g->scratch));
    vec(e, to == WEFT_F64 ? I_BROADCASTSD : I_BROADCASTSS, bytes, d, 0, rm_reg(d));
  } else {
    vec(e, lane_bytes(to) == 8 ? I_PBROADCASTQ : I_BROADCASTSS, bytes, d, 0, in_frame(g->scratch));
  }
  define(g, d);
}

static void from_vector(struct gen *g, const struct kir_stmt *s) {
  struct encoder *e = enc(g);
  int from = g->vals[s->in[0]].dtype;
  if (s->op == KIR_CAST && kir_is_float((weft_dtype)from)) { cast_by_vectors(g, s); return; }
  int reg = in_reg(g, s->in[0], 0);
  if (from == WEFT_BOOL) {
    bool_test(g, reg);
    gpr_setcc(e, CC_NE, RAX);
  } else {
    vec(e, I_MOVQ_TO, 16, reg, 0, in_frame(g->scratch));
    if (from == WEFT_I32) gpr(e, G_MOVSXD, RAX, in_frame(g->scratch));
    else if (from == WEFT_U32) gpr32(e, G_MOV, RAX, in_frame(g->scratch));
    else gpr(e, G_MOV, RAX, in_frame(g->scratch));
  }
  release(g);
  scalar_store(g, s->out[0], RAX);
}

/* ---- Instructions ---- */

static void choose(struct gen *g, enum cc cc) {
  gpr(enc(g), G_CMP, RAX, rm_reg(RCX));
  gpr(enc(g), G_CMOV | (int)cc, RAX, rm_reg(RCX));
}

/* Counts from 64 on give 0, or the sign: the count is clamped to 63 and for the other two the result replaced. */
static void shift(struct gen *g, int op, bool is_signed) {
  struct encoder *e = enc(g);
  static const uint8_t shl_cl[] = { 0x48, 0xD3, 0xE0 }, shr_cl[] = { 0x48, 0xD3, 0xE8 },
                       sar_cl[] = { 0x48, 0xD3, 0xF8 };
  bool is_arithmetic = op == KIR_SHR && is_signed;
  gpr_const(e, RDX, is_arithmetic ? 63 : 0);
  gpr_imm(e, A_CMP, rm_reg(RCX), 63);
  if (is_arithmetic) gpr(e, G_CMOV | CC_A, RCX, rm_reg(RDX));
  else gpr(e, G_CMOV | CC_A, RAX, rm_reg(RDX));
  code_bytes(e, op == KIR_SHL ? shl_cl : is_arithmetic ? sar_cl : shr_cl, 3);
}

static void compare(struct gen *g, const struct kir_stmt *s, bool is_signed) {
  gpr(enc(g), G_CMP, RAX, rm_reg(RCX));
  compare_to_bool(g, s->op == KIR_EQ   ? CC_E
                     : s->op == KIR_NE ? CC_NE
                     : s->op == KIR_LT ? (is_signed ? CC_L : CC_B)
                     : is_signed       ? CC_LE
                                       : CC_BE);
}

static void select_scalar(struct gen *g, const struct kir_stmt *s) {
  int reg = in_reg(g, s->in[0], 0);
  scalar_load(g, RDX, s->in[1]); /* before the test: loading a literal may change the flags */
  scalar_load(g, RCX, s->in[2]);
  bool_test(g, reg);
  gpr(enc(g), G_MOV, RAX, rm_reg(RDX));
  gpr(enc(g), G_CMOV | CC_E, RAX, rm_reg(RCX));
  release(g);
  scalar_store(g, s->out[0], RAX);
}

void scalar_combine(struct gen *g, int op, bool is_signed) {
  struct encoder *e = enc(g);
  switch (op) {
  case KIR_ADD: gpr(e, G_ADD, RAX, rm_reg(RCX)); break;
  case KIR_SUB: gpr(e, G_SUB, RAX, rm_reg(RCX)); break;
  case KIR_MUL: gpr(e, G_IMUL, RAX, rm_reg(RCX)); break;
  case KIR_AND: gpr(e, G_AND, RAX, rm_reg(RCX)); break;
  case KIR_OR: gpr(e, G_OR, RAX, rm_reg(RCX)); break;
  case KIR_XOR: gpr(e, G_XOR, RAX, rm_reg(RCX)); break;
  case KIR_NOT: gpr_unary(e, 2, RAX); break;
  case KIR_MIN: choose(g, is_signed ? CC_G : CC_A); break;
  case KIR_MAX: choose(g, is_signed ? CC_L : CC_B); break;
  case KIR_SHL: case KIR_SHR: shift(g, op, is_signed); break;
  case KIR_MULHI:
    gpr_unary(e, is_signed ? 5 : 4, RCX);
    gpr(e, G_MOV, RAX, rm_reg(RDX));
    break;
  case KIR_IDIV: case KIR_IREM: divide_scalar(g, op == KIR_IREM, is_signed); break;
  default: break; /* casts between i64 and u64 */
  }
}

/* RCX = q*b, RAX = min(n, q*b + b) */
static void block_ends(struct gen *g, int var) {
  struct encoder *e = enc(g);
  const struct gen_loop *q = &g->loops[g->vals[var].loop];
  gpr(e, G_MOV, RCX, in_frame(q->var));
  gpr(e, G_IMUL, RCX, in_frame(q->block));
  gpr(e, G_MOV, RAX, rm_reg(RCX));
  gpr(e, G_ADD, RAX, in_frame(q->block));
  gpr(e, G_CMP, RAX, in_frame(q->extent));
  gpr(e, G_CMOV | CC_G, RAX, in_frame(q->extent));
}

/* RCX <= k < RAX, lane by lane. */
static void owns_lanes(struct gen *g, const struct kir_stmt *s) {
  struct encoder *e = enc(g);
  int k = in_reg(g, s->in[1], g->now_copy), low = temp(g), high = temp(g), bytes = width_of(g, WEFT_I64),
      d = fresh_reg(g);
  block_ends(g, s->in[0]);
  gpr(e, G_STORE, RCX, in_frame(g->saved));
  gpr(e, G_STORE, RAX, in_frame(g->saved + 8));
  vec(e, I_PBROADCASTQ, bytes, low, 0, in_frame(g->saved));
  vec(e, I_PBROADCASTQ, bytes, high, 0, in_frame(g->saved + 8));
  if (e->evex) {
    vec_imm(e, I_PCMPQ, bytes, d - MASK_BASE, k, rm_reg(low), 5);
    vec_mask(e, I_PCMPQ, bytes, d - MASK_BASE, false, d - MASK_BASE, k, rm_reg(high), 1);
  } else {
    vec(e, I_PCMPGTQ, bytes, low, low, rm_reg(k));
    vec(e, I_PCMPGTQ, bytes, high, high, rm_reg(k));
    vec(e, I_PANDN, bytes, d, low, rm_reg(high));
    narrow_mask(g, WEFT_I64, d);
  }
  release(g);
  define(g, d);
}

static void owns(struct gen *g, const struct kir_stmt *s) {
  struct encoder *e = enc(g);
  if (g->vals[s->out[0]].lane) { owns_lanes(g, s); return; }
  scalar_load(g, RDX, s->in[1]);
  block_ends(g, s->in[0]);
  gpr(e, G_CMP, RDX, rm_reg(RAX));
  gpr_setcc(e, CC_L, RAX);
  gpr(e, G_STORE, RAX, in_frame(g->scratch));
  gpr(e, G_CMP, RDX, rm_reg(RCX));
  gpr_setcc(e, CC_GE, RAX);
  gpr(e, G_AND, RAX, in_frame(g->scratch));
  bool_from_eax(g);
}

bool scalar_op(struct gen *g, const struct kir_stmt *s) {
  int out = s->out[0], first = s->in[0];
  bool is_signed = g->vals[s->in[s->n_in - 1]].dtype == WEFT_I64;
  if (s->op == KIR_OWNS) return owns(g, s), true;
  if (g->vals[out].lane) return false;
  if (s->op == KIR_SELECT) {
    if (!is_scalar(g, out)) return false;
    select_scalar(g, s);
    return true;
  }
  if (!is_scalar(g, out) && !is_scalar(g, first)) return false;
  if (s->op == KIR_CAST || s->op == KIR_BITS) {
    if (!is_scalar(g, out)) return to_vector(g, s), true;
    if (!is_scalar(g, first)) return from_vector(g, s), true;
  }
  scalar_load(g, RAX, first);
  if (s->n_in > 1) scalar_load(g, RCX, s->in[1]);
  if (!is_scalar(g, out)) return compare(g, s, is_signed), true;
  scalar_combine(g, s->op, is_signed);
  release(g);
  scalar_store(g, out, RAX);
  return true;
}
