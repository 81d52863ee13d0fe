/* x86_function.c -- the function that a kernel becomes: what it saves, what it computes once from its arguments, the kernel's
 * block, and the way out. */
#include "backend/x86/loops.h"

static void broadcast_arg(struct gen *g, int val) {
  struct encoder *e = enc(g);
  const struct gen_value *v = &g->vals[val];
  struct rm m = in_frame(FRAME_VALUES + 8 * (g->k->n_sizes + g->k->vals[val].index));
  if (v->domain == BOOL) {
    gpr(e, G_MOV, RAX, m);
    gpr_unary(e, 3, RAX);
    gpr(e, G_STORE, RAX, in_frame(g->scratch));
    m = in_frame(g->scratch);
  }
  vec(e, lane_bytes(v->dtype) == 8 ? I_BROADCASTSD : I_BROADCASTSS, width_of(g, v->dtype), 0, 0, m);
  vec(e, I_MOVUPS_TO, width_of(g, v->dtype), 0, 0, in_frame(v->home));
  if (v->divides) guess_reciprocal(g, val);
}

/* Tables follow the constants, elements as in memory. */
static void place_table(struct gen *g, int buf) {
  struct encoder *e = enc(g);
  const struct kir_buf *b = &g->k->bufs[buf];
  gpr(e, G_LEA, RAX, pool_table(e, dtype_bytes(b->dtype), b->data, b->n_data));
  gpr(e, G_STORE, RAX, in_frame(g->data_at[buf]));
  gpr_store_imm(e, in_frame(g->data_at[buf] + 8), dtype_bytes(b->dtype));
}

static void prologue(struct gen *g) {
  struct encoder *e = enc(g);
  static const uint8_t saved[] = { RBX, RBP, R12, R13, R14, R15 };
  for (int i = 0; i < 6; i++) gpr_push(e, saved[i]);
  gpr(e, G_MOV, RBX, rm_reg(RDI));
  for (int b = 0; b < g->k->n_bufs; b++)
    if (g->k->bufs[b].kind == KIR_TABLE) place_table(g, b);
  for (int i = 0; i < g->k->n_args; i++) {
    int val = g->k->args[i];
    if (g->vals[val].domain != SCALAR && g->vals[val].home >= 0 && !is_read_as_given(g, val)) broadcast_arg(g, val);
  }
  for (int i = 0; i < g->n_accesses; i++) {
    const struct gen_access *a = &g->accesses[i];
    int owner_var = a->owner >= 0 ? g->loops[a->owner].stmt->var : -1,
        lane_var = a->lane >= 0 ? g->loops[a->lane].stmt->var : -1;
    if (a->owner == OWNER_START) eval_pointer(g, a, flat_axis(g, a));
    if (owner_var >= 0 && owner_var != lane_var && step_is_fixed(g, a, owner_var)) eval_step(g, a, owner_var, a->step);
    if (a->cls == LANE_ANY && step_is_fixed(g, a, lane_var)) eval_step(g, a, lane_var, a->lane_step);
  }
}

static void epilogue(struct gen *g) {
  struct encoder *e = enc(g);
  static const uint8_t saved[] = { R15, R14, R13, R12, RBP, RBX }, ret[] = { 0xC3 }, sfence[] = { 0x0F, 0xAE, 0xF8 };
  label_here(e, g->finish);
  if (g->has_streams) code_bytes(e, sfence, 3);
  vec(e, I_ZEROUPPER, 16, 0, 0, rm_reg(0));
  for (int i = 0; i < 6; i++) gpr_pop(e, saved[i]);
  code_bytes(e, ret, 1);
}

void emit_kernel(struct gen *g) {
  g->finish = label_new(enc(g));
  g->lane_loop = g->loop = g->active = g->active_at_loop = g->tail = g->short_loop = g->careful = -1;
  g->copies = g->group = 1;
  g->memory_cursor = g->first_memory;
  prologue(g);
  emit_block(g, &g->k->body);
  if (g->n_asides) jump_to(enc(g), g->finish);
  asides_emit(g);
  epilogue(g);
}
