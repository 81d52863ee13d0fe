/* patch.c -- patches of products for AVX2 and AVX-512, written by the encoder when first wanted and kept.
 *
 * A patch holds rows x vectors accumulators. A step of k loads a row of b, then broadcasts each a[i,k] and adds to the
 * accumulators of its row. Rows of a and c are reached from three addresses by multiples of the stride, so operands of
 * any layout are read where they are. */
#include "backend/patch.h"
#include <stdatomic.h>
#include <stddef.h>
#include "backend/x86/cpu.h"
#include "backend/x86/encode.h"
#include "backend/x86/pack.h"
#include "backend/x86/pages.h"

enum { ROWS_AVX2 = 6, ROWS_AVX512 = 14 };

enum sort { OF_F32, OF_F64, OF_I32, OF_I64, OF_BF16_PAIRS, OF_I16_PAIRS, OF_I8_FOURS, SORTS };

struct shape { enum sort sort; bool evex, is_wide, is_masked; int rows, vectors; };

struct writer {
  struct encoder e;
  struct shape s;
  int bytes;   /* of a vector */
};

/* ---- rows of a and c ---- */

enum { ROW_0 = RAX, ROW_5 = RCX, ROW_10 = RDX, STRIDE = RSI, STRIDE_3 = R8, STEP = R9,
       B = R10, B_STEP = R11, LEFT = RBX, FETCH = RBP, PATCH = RDI };

static struct rm row_at(int row, int disp) {
  static const struct { uint8_t base; int8_t index; uint8_t scale; } of[] = {
    { ROW_0, -1, 0 }, { ROW_0, STRIDE, 0 }, { ROW_0, STRIDE, 1 }, { ROW_0, STRIDE_3, 0 }, { ROW_0, STRIDE, 2 },
    { ROW_5, -1, 0 }, { ROW_0, STRIDE_3, 1 }, { ROW_5, STRIDE, 1 }, { ROW_0, STRIDE, 3 }, { ROW_5, STRIDE, 2 },
    { ROW_10, -1, 0 }, { ROW_5, STRIDE_3, 1 }, { ROW_0, STRIDE_3, 2 }, { ROW_5, STRIDE, 3 } };
  return rm_index(of[row].base, of[row].index, of[row].scale, disp);
}

#define FIELD(name) rm_at(PATCH, (int32_t)offsetof(struct patch, name))

static void set_rows(struct writer *w, struct rm base, struct rm stride) {
  gpr(&w->e, G_MOV, ROW_0, base);
  gpr(&w->e, G_MOV, STRIDE, stride);
  gpr(&w->e, G_LEA, STRIDE_3, rm_index(STRIDE, STRIDE, 1, 0));
  if (w->s.rows <= 5) return;
  gpr(&w->e, G_LEA, ROW_5, rm_index(STRIDE, STRIDE, 2, 0));
  gpr(&w->e, G_ADD, ROW_5, rm_reg(ROW_0));
  if (w->s.rows <= 10) return;
  gpr(&w->e, G_LEA, ROW_10, rm_index(ROW_5, STRIDE, 2, 0));
  gpr(&w->e, G_ADD, ROW_10, rm_reg(STRIDE));
}

/* ---- vectors ---- */

static int sum_of(const struct writer *w, int row, int vector) { return row * w->s.vectors + vector; }
static int b_of(const struct writer *w, int vector) { return w->s.rows * w->s.vectors + vector; }
static int a_of(const struct writer *w) { return b_of(w, w->s.vectors); }
static int product_of(const struct writer *w) { return a_of(w) + 1; } /* of integers */
static bool is_integer(enum sort s) { return s == OF_I32 || s == OF_I64; }
static int mask_of(const struct writer *w) { return a_of(w) + 1 + is_integer(w->s.sort); } /* VEX; EVEX has k1 */

static bool is_cut(const struct writer *w, int vector) { return w->s.is_masked && vector == w->s.vectors - 1; }

static void load(struct writer *w, int reg, int vector, struct rm at) {
  enum insn move = I_MOVUPS + w->s.is_wide;
  if (!is_cut(w, vector)) vec(&w->e, move, w->bytes, reg, 0, at);
  else if (w->s.evex) vec_mask(&w->e, move, w->bytes, 1, true, reg, 0, at, 0);
  else vec(&w->e, I_MASKMOVPS + w->s.is_wide, w->bytes, reg, mask_of(w), at);
}

static void store(struct writer *w, int reg, int vector, struct rm at) {
  enum insn move = I_MOVUPS_TO + w->s.is_wide;
  if (!is_cut(w, vector)) vec(&w->e, move, w->bytes, reg, 0, at);
  else if (w->s.evex) vec_mask(&w->e, move, w->bytes, 1, false, reg, 0, at, 0);
  else vec(&w->e, I_MASKMOVPS_TO + w->s.is_wide, w->bytes, reg, mask_of(w), at);
}

/* Lanes whose bit is set in the patch's mask. */
static void make_mask(struct writer *w) {
  static const uint32_t narrow[] = { 1, 2, 4, 8, 16, 32, 64, 128 };
  static const uint64_t wide[] = { 1, 2, 4, 8 };
  if (!w->s.is_masked) return;
  if (w->s.evex) {
    vec(&w->e, I_KMOV, 16, 1, 0, FIELD(mask));
    return;
  }
  int m = mask_of(w), bits = b_of(w, 0);
  vec(&w->e, I_PBROADCASTD + w->s.is_wide, 32, m, 0, FIELD(mask));
  vec(&w->e, I_MOVUPS, 32, bits, 0, pool_vector(&w->e, w->s.is_wide ? (const void *)wide : narrow, 32));
  vec(&w->e, I_PAND, 32, m, m, rm_reg(bits));
  vec(&w->e, I_PCMPEQD + w->s.is_wide, 32, m, m, rm_reg(bits));
}

/* ---- the code ---- */

static void add_to(struct writer *w, int sum, int other) {
  bool is_float = w->s.sort <= OF_F64 || w->s.sort == OF_BF16_PAIRS;
  vec(&w->e, (is_float ? I_ADDPS : I_PADDD) + w->s.is_wide, w->bytes, sum, other, rm_reg(sum));
}

static void add_product(struct writer *w, int sum, int factor, struct rm other) {
  static const enum insn at_once[] = { [OF_F32] = I_FMA231PS, [OF_F64] = I_FMA231PD,
                                       [OF_BF16_PAIRS] = I_DPBF16PS, [OF_I16_PAIRS] = I_DPWSSD, [OF_I8_FOURS] = I_DPBUSD };
  if (!is_integer(w->s.sort)) {
    vec(&w->e, at_once[w->s.sort], w->bytes, sum, factor, other);
    return;
  }
  vec(&w->e, I_PMULLD + w->s.is_wide, w->bytes, product_of(w), factor, other);
  add_to(w, sum, product_of(w));
}

/* Each a[i,k] is used once, by an fma that spreads it itself. On Zen 4 a broadcast takes a unit that fma needs: 14 rows of one
 * vector 18.7 cycles a step with broadcasts, 14.1 so. */
static bool spreads(const struct writer *w) { return w->s.evex && w->s.vectors == 1 && w->s.rows > 1 && w->s.sort <= OF_F64; }

static struct rm spread(struct rm m) { return m.broadcast = true, m; }

static void step(struct writer *w) {
  bool in_place = w->s.rows == 1; /* each vector of b is used once */
  for (int v = 0; !in_place && v < w->s.vectors; v++) load(w, b_of(w, v), v, rm_at(B, v * w->bytes));
  for (int r = 0; spreads(w) && r < w->s.rows; r++) add_product(w, sum_of(w, r, 0), b_of(w, 0), spread(row_at(r, 0)));
  for (int r = 0; !spreads(w) && r < w->s.rows; r++) {
    vec(&w->e, I_BROADCASTSS + w->s.is_wide, w->bytes, a_of(w), 0, row_at(r, 0));
    for (int v = 0; v < w->s.vectors; v++) {
      struct rm b = rm_reg(b_of(w, v));
      if (in_place && is_cut(w, v)) load(w, b_of(w, v), v, rm_at(B, v * w->bytes));
      else if (in_place) b = rm_at(B, v * w->bytes);
      add_product(w, sum_of(w, r, v), a_of(w), b);
    }
  }
  gpr(&w->e, G_ADD, ROW_0, rm_reg(STEP));
  if (w->s.rows > 5) gpr(&w->e, G_ADD, ROW_5, rm_reg(STEP));
  if (w->s.rows > 10) gpr(&w->e, G_ADD, ROW_10, rm_reg(STEP));
  gpr(&w->e, G_ADD, B, rm_reg(B_STEP));
}

static void step_and_fetch(struct writer *w) {
  step(w);
  for (int i = 0; i < w->s.vectors * w->bytes; i += CACHE_LINE) prefetch_far(&w->e, rm_at(FETCH, i));
  gpr(&w->e, G_ADD, FETCH, FIELD(fetch_k));
}

static void each_sum(struct writer *w, void (*f)(struct writer *, int row, int vector)) {
  for (int r = 0; r < w->s.rows; r++)
    for (int v = 0; v < w->s.vectors; v++) f(w, r, v);
}

static void clear(struct writer *w, int r, int v) {
  int sum = sum_of(w, r, v);
  vec(&w->e, I_PXOR, w->bytes, sum, sum, rm_reg(sum));
}

static void load_start(struct writer *w, int r, int v) { load(w, sum_of(w, r, v), v, row_at(r, v * w->bytes)); }

static void begin_sums(struct writer *w) {
  int fresh = label_new(&w->e), begun = label_new(&w->e);
  gpr(&w->e, G_MOV, LEFT, FIELD(start));
  gpr(&w->e, G_TEST, LEFT, rm_reg(LEFT));
  jump_if(&w->e, CC_E, fresh);
  set_rows(w, FIELD(start), FIELD(start_row));
  each_sum(w, load_start);
  jump_to(&w->e, begun);
  label_here(&w->e, fresh);
  each_sum(w, clear);
  label_here(&w->e, begun);
}

/* Steps until none is LEFT, which the flags say if there is none. */
static void steps(struct writer *w, void (*one)(struct writer *)) {
  int again = label_new(&w->e), done = label_new(&w->e);
  jump_if(&w->e, CC_E, done);
  code_align(&w->e, 32);
  label_here(&w->e, again);
  one(w);
  gpr_imm(&w->e, A_SUB, rm_reg(LEFT), 1);
  jump_if(&w->e, CC_NE, again);
  label_here(&w->e, done);
}

static void sum_over_k(struct writer *w) {
  set_rows(w, FIELD(a), FIELD(a_row));
  gpr(&w->e, G_MOV, STEP, FIELD(a_k));
  gpr(&w->e, G_MOV, B, FIELD(b));
  gpr(&w->e, G_MOV, B_STEP, FIELD(b_k));
  gpr(&w->e, G_MOV, FETCH, FIELD(fetch));
  gpr(&w->e, G_MOV, LEFT, FIELD(fetch_n));
  gpr(&w->e, G_TEST, LEFT, rm_reg(LEFT));
  steps(w, step_and_fetch);
  gpr(&w->e, G_MOV, LEFT, FIELD(k));
  gpr(&w->e, G_SUB, LEFT, FIELD(fetch_n));
  steps(w, step);
}

static void add_c(struct writer *w, int r, int v) {
  load(w, a_of(w), v, row_at(r, v * w->bytes));
  add_to(w, sum_of(w, r, v), a_of(w));
}

static void store_c(struct writer *w, int r, int v) { store(w, sum_of(w, r, v), v, row_at(r, v * w->bytes)); }

static void write_patch(struct writer *w) {
  int fresh = label_new(&w->e);
  gpr_push(&w->e, LEFT);
  gpr_push(&w->e, FETCH);
  make_mask(w);
  begin_sums(w);
  sum_over_k(w);
  set_rows(w, FIELD(c), FIELD(c_row));
  gpr(&w->e, G_MOV, LEFT, FIELD(adds));
  gpr(&w->e, G_TEST, LEFT, rm_reg(LEFT));
  jump_if(&w->e, CC_E, fresh);
  each_sum(w, add_c);
  label_here(&w->e, fresh);
  each_sum(w, store_c);
  gpr_pop(&w->e, FETCH);
  gpr_pop(&w->e, LEFT);
  vec(&w->e, I_ZEROUPPER, 16, 0, 0, rm_reg(0));
  code_bytes(&w->e, (uint8_t[]){ 0xC3 }, 1);
}

/* total: bytes of its pages. */
static patch_code *compile(struct shape s, size_t *total, bool *is_forbidden) {
  struct writer w = { .e = { .evex = s.evex }, .s = s, .bytes = s.evex ? 64 : 32 };
  write_patch(&w);
  *total = encoder_pool_at(&w.e) + w.e.n_pool;
  void *code = encoder_finish(&w.e) ? pages_new(w.e.code, w.e.n, w.e.pool, encoder_pool_at(&w.e), w.e.n_pool, is_forbidden) : NULL;
  encoder_free(&w.e);
  return (patch_code *)code;
}

/* ---- those that were wanted: kept for good, as there are few shapes ---- */

static _Atomic(patch_code *) known[2][SORTS][ROWS_AVX512 + 1][PATCH_VECTORS + 1][2];

static patch_code *find(struct shape s, bool *is_forbidden) {
  _Atomic(patch_code *) *at = &known[s.evex][s.sort][s.rows][s.vectors][s.is_masked];
  size_t total;
  *is_forbidden = false;
  patch_code *code = atomic_load_explicit(at, memory_order_acquire), *first = NULL;
  if (code || !(code = compile(s, &total, is_forbidden)) || atomic_compare_exchange_strong(at, &first, code)) return code;
  pages_free((void *)code, total); /* somebody was faster */
  return first;
}

/* How elements are multiplied: by their register dtype, but pairs and fours by the dtype they have in memory. */
static enum sort sort_of(weft_dtype t) {
  switch (t) {
    case WEFT_F64: return OF_F64;
    case WEFT_I32: case WEFT_U32: return OF_I32;
    case WEFT_I64: case WEFT_U64: return OF_I64;
    case WEFT_BF16: return OF_BF16_PAIRS;
    case WEFT_I8: return OF_I8_FOURS;
    case WEFT_U8: case WEFT_I16: return OF_I16_PAIRS;
    default: return OF_F32;
  }
}

static struct shape shape_of(weft_dtype t, bool evex, bool is_masked, int rows, int vectors) {
  enum sort s = sort_of(t);
  return (struct shape){ s, evex, s == OF_F64 || s == OF_I64, is_masked, rows, vectors };
}

static int lanes_avx2(weft_dtype t) { return kir_width(t) == 4 ? 8 : t == WEFT_F64 ? 4 : 0; } /* no product of 64 bits */
static int lanes_avx512(weft_dtype t) { return kir_width(t) == 4 ? 16 : 8; }
static int rows_avx2(void) { return ROWS_AVX2; }
static int rows_avx512(void) { return ROWS_AVX512; }

/* Of 16 registers one is for a, one for the mask and one for products of integers; of 32 one for a, one for those. */
static int at_most(int vectors) { return vectors < PATCH_VECTORS ? vectors : PATCH_VECTORS; }
static int vectors_avx2(weft_dtype t, int rows) { return at_most((kir_is_float(t) ? 14 : 13) / (rows + 1)); }
static int vectors_avx512(weft_dtype t, int rows) { return at_most((kir_is_float(t) ? 31 : 30) / (rows + 1)); }

static int one_avx2(weft_dtype t) { return (void)t, 1; }
static int together_avx512(weft_dtype t) {
  if (t == WEFT_BF16) return cpu_has_bf16() ? 2 : 1;
  if (!cpu_has_vnni()) return 1;
  return t == WEFT_I8 ? 4 : t == WEFT_U8 || t == WEFT_I16 ? 2 : 1;
}
static void pack_together(const struct panel *p, bool is_left) { (p->dtype == WEFT_I8 ? fours_avx2 : pairs_avx2)(p, is_left); }

static patch_code *code_avx2(weft_dtype t, int rows, int vectors, bool is_masked, bool *is_forbidden) {
  return find(shape_of(t, false, is_masked, rows, vectors), is_forbidden);
}
static patch_code *code_avx512(weft_dtype t, int rows, int vectors, bool is_masked, bool *is_forbidden) {
  return find(shape_of(t, true, is_masked, rows, vectors), is_forbidden);
}

/* Halves of the rows of 384 x 384 from memory, two threads: 24 us on Zen 4, where one alone takes 19; 17 on Sapphire Rapids, where
 * one alone takes 25, and six with 256 bytes each 13. */
static int least_run(void) { return cpu_fetches_beyond() ? 2048 : 256; }

/* Where columns are asked for before they are needed, the first ones of each turn are not. */
static int turn_columns(void) { return cpu_foresees_many() ? 16 : 128; }

const struct contractor contractor_avx2 = {
  .name = "avx2", .available = cpu_has_avx2, .lanes = lanes_avx2, .rows = rows_avx2, .vectors = vectors_avx2,
  .together = one_avx2, .code = code_avx2, .pack = pack_avx2, .least_run = least_run, .dots = dots_avx2,
  .turn_columns = turn_columns
};
const struct contractor contractor_avx512 = {
  .name = "avx512", .available = cpu_has_avx512, .lanes = lanes_avx512, .rows = rows_avx512, .vectors = vectors_avx512,
  .together = together_avx512, .code = code_avx512, .pack = pack_avx2, .pack_together = pack_together,
  .pairs_are_exact = pairs_are_exact, .tiles = &contractor_tiles, .least_run = least_run, .dots = dots_avx512,
  .turn_columns = turn_columns
};
