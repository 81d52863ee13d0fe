/* half.c -- f16 and bf16 to f32 and back, to nearest even. A NaN keeps its sign and what fits of its payload; only where
 * nothing of that would be left is it made quiet. `exact` takes the instructions that signalling NaNs need, which the
 * machine's f16 conversions make quiet: values that arithmetic makes, or takes, do without. */
#include "backend/x86/gen.h"

static struct rm number(struct gen *g, uint32_t bits) { return pool_scalar(enc(g), 4, bits); }

/* ---- bf16: the upper half of an f32 ---- */

void bf16_widen(struct gen *g, int d, struct rm m, int k) {
  int bytes = width_of(g, WEFT_F32);
  vec_mask(enc(g), I_PMOVZXWD, bytes, k, k != 0, d, 0, m, 0);
  vec_imm(enc(g), I_PSHIFTD, bytes, 6, d, rm_reg(d), 16);
}

/* Adds t to a; to a NaN 0, or, exact, the quiet bit if its upper half has no payload. */
static void add_avx512(struct gen *g, int d, int a, int t, bool exact) {
  struct encoder *e = enc(g);
  int bytes = width_of(g, WEFT_F32), k = temp_mask(g);
  vec(e, I_PADDD, bytes, d, a, rm_reg(t));
  vec_imm(e, I_CMPPS, bytes, k, a, rm_reg(a), CMP_UNORD);
  vec_mask(e, I_MOVUPS, bytes, k, false, d, 0, rm_reg(a), 0);
  if (!exact) return;
  vec_mask(e, I_PTESTNMD, bytes, k, false, k, a, number(g, 0x7F0000), 0);
  vec_mask(e, I_POR, bytes, k, false, d, d, number(g, 0x400000), 0);
}

static void add_avx2(struct gen *g, int d, int a, int t, bool exact) {
  struct encoder *e = enc(g);
  int bytes = width_of(g, WEFT_F32), nan = temp(g);
  vec_imm(e, I_CMPPS, bytes, nan, a, rm_reg(a), CMP_UNORD);
  vec(e, I_PANDN, bytes, t, nan, rm_reg(t));
  if (exact) {
    vec(e, I_PAND, bytes, d, a, number(g, INT32_MAX));
    vec(e, I_PCMPGTD, bytes, d, d, number(g, 0x7F80FFFF)); /* a payload in the upper half */
    vec(e, I_PANDN, bytes, d, d, rm_reg(nan));
    vec(e, I_PAND, bytes, d, d, number(g, 0x400000));
    vec(e, I_POR, bytes, t, t, rm_reg(d));
  }
  vec(e, I_PADDD, bytes, d, a, rm_reg(t));
}

/* The upper halves of d; what is below is left over. */
static void bf16_round(struct gen *g, int d, int a, bool exact) {
  struct encoder *e = enc(g);
  int bytes = width_of(g, WEFT_F32), t = temp(g);
  vec_imm(e, I_PSHIFTD, bytes, 2, t, rm_reg(a), 16);
  vec(e, I_PAND, bytes, t, t, number(g, 1));
  vec(e, I_PADDD, bytes, t, t, number(g, 0x7FFF));
  if (e->evex) add_avx512(g, d, a, t, exact);
  else add_avx2(g, d, a, t, exact);
}

void bf16_narrow(struct gen *g, int d, int a, bool exact) {
  bf16_round(g, d, a, exact);
  vec_imm(enc(g), I_PSHIFTD, width_of(g, WEFT_F32), 2, d, rm_reg(d), 16);
}

void cast_f32_to_bf16(struct gen *g, int d, int a, int to) {
  (void)to;
  bf16_round(g, d, a, !g->vals[g->now->s->in[0]].is_quiet);
  vec(enc(g), I_PAND, width_of(g, WEFT_F32), d, d, number(g, 0xFFFF0000));
}

/* ---- f16 ---- */

/* Takes the quiet bit out of what was infinite or a signalling NaN. */
static void unquiet_wide(struct gen *g, int d, int words) {
  struct encoder *e = enc(g);
  int bytes = width_of(g, WEFT_F32);
  vec(e, I_PAND, bytes, words, words, number(g, 0x7E00));
  if (e->evex) {
    int k = temp_mask(g);
    vec_imm(e, I_PCMPD, bytes, k, words, number(g, 0x7C00), CMP_EQ);
    vec_mask(e, I_PAND, bytes, k, false, d, d, number(g, ~0x400000u), 0);
    return;
  }
  vec(e, I_PCMPEQD, bytes, words, words, number(g, 0x7C00));
  vec(e, I_PAND, bytes, words, words, number(g, 0x400000));
  vec(e, I_PANDN, bytes, d, words, rm_reg(d));
}

void f16_widen(struct gen *g, int d, struct rm m, bool exact, int k) {
  int bytes = width_of(g, WEFT_F32), words = exact ? temp(g) : -1;
  if (exact) vec_mask(enc(g), I_PMOVZXWD, bytes, k, k != 0, words, 0, m, 0);
  vec_mask(enc(g), I_CVTPH2PS, bytes, k, k != 0, d, 0, m, 0);
  if (exact) unquiet_wide(g, d, words);
}

/* Takes the quiet bit out of the words in d where a is a signalling NaN and the word has more of a payload than that. */
static void unquiet_avx512(struct gen *g, int d, int a) {
  struct encoder *e = enc(g);
  uint16_t quiet[16];
  int bytes = width_of(g, WEFT_F32), k = temp_mask(g);
  for (int i = 0; i < 16; i++) quiet[i] = 0x200;
  vec_imm(e, I_FPCLASSPS, bytes, k, 0, rm_reg(a), 0x80);
  vec_mask(e, I_PTESTMD, bytes, k, false, k, a, number(g, 0x3FE000), 0);
  vec_mask(e, I_PSUBW, bytes / 2, k, false, d, d, pool_vector(e, quiet, bytes / 2), 0);
}

static void unquiet_avx2(struct gen *g, int d, int a) {
  struct encoder *e = enc(g);
  int bytes = width_of(g, WEFT_F32), t = temp(g), most = temp(g);
  vec_imm(e, I_PSHIFTD, bytes, 6, t, rm_reg(a), 1);       /* no sign: FF004000 .. FF7FFFFF */
  vec(e, I_PSUBD, bytes, t, t, number(g, 0xFF004000));
  vec(e, I_PMINUD, bytes, most, t, number(g, 0x7FBFFF));
  vec(e, I_PCMPEQD, bytes, t, t, rm_reg(most));
  if (bytes == 32) vec_imm(e, I_EXTRACTI128, 32, t, 0, rm_reg(most), 1);
  vec(e, I_PACKSSDW, 16, t, t, rm_reg(bytes == 32 ? most : t));
  vec(e, I_PAND, 16, t, t, number(g, 0x02000200));
  vec(e, I_PANDN, 16, d, t, rm_reg(d));
}

void f16_narrow(struct gen *g, int d, int a, bool exact) {
  vec_imm(enc(g), I_CVTPS2PH, width_of(g, WEFT_F32), a, 0, rm_reg(d), 0);
  if (exact && g->e.evex) unquiet_avx512(g, d, a);
  else if (exact) unquiet_avx2(g, d, a);
}

void cast_f32_to_f16(struct gen *g, int d, int a, int to) {
  bool exact = !g->vals[g->now->s->in[0]].is_quiet;
  (void)to;
  f16_narrow(g, d, a, exact);
  f16_widen(g, d, rm_reg(d), exact, 0);
}
