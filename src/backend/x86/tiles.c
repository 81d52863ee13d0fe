/* tiles.c -- patches of 32 rows by 32 columns that the processor multiplies in registers of its own (AMX): four tiles of sums, and
 * of each operand two tiles of 16 rows by 64 bytes along k.
 *
 * Products of bytes are exact, so they are the same bits as any other code's. Sums of bf16 are in the machine's order, and numbers
 * that are too small count as 0: only who allows that gets them here (struct contraction, is_loose).
 *
 * A panel of b is one of pairs or fours (patch.h), with as many rows of 0 behind it as fill a tile. One of a has, for every 64
 * bytes along k, 32 rows of those side by side. Tiles are always whole, so they are set up once for a thread that comes to work;
 * patches at the edges go through memory. */
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include "backend/patch.h"
#include "backend/x86/cpu.h"
#include "backend/x86/encode.h"
#include "backend/x86/lane.h"
#include "backend/x86/pack.h"
#include "backend/x86/pages.h"

enum { TILE = 16, PATCH = 2 * TILE, DEEP = 64 }; /* rows of a tile, rows and columns of a patch, bytes of a row of a tile */

/* ---- the code of a patch ---- */

enum { FETCH = RBX, A = RAX, A_ROW = RCX, C = RDX, C_ROW = RSI, C_LOWER = R8, LEFT = R9, B = R10, B_ROW = R11, HERE = RDI };
enum { SUMS = 0, OF_A = 4, OF_B = 6 }; /* tiles: 4, 2 and 2 */

#define FIELD(name) rm_at(HERE, (int32_t)offsetof(struct patch, name))

static void tile(struct encoder *e, enum insn i, int reg, int base, int stride, int disp) {
  vec(e, i, 16, reg, 0, rm_index(base, stride, 0, disp));
}

static void each_sum(struct encoder *e, enum insn i) {
  for (int k = 0; k < 4; k++) tile(e, i, SUMS + k, k < 2 ? C : C_LOWER, C_ROW, k % 2 * DEEP);
}

static void begin_sums(struct encoder *e) {
  int fresh = label_new(e), begun = label_new(e);
  gpr(e, G_MOV, LEFT, FIELD(adds));
  gpr(e, G_TEST, LEFT, rm_reg(LEFT));
  jump_if(e, CC_E, fresh);
  each_sum(e, I_TILELOAD);
  jump_to(e, begun);
  label_here(e, fresh);
  for (int k = 0; k < 4; k++) vec(e, I_TILEZERO, 16, SUMS + k, 0, rm_reg(0));
  label_here(e, begun);
}

/* 64 bytes along k. a passes by the first cache, in which b stays for the next patch: the tiles of 1024^3 took 0.74 ms otherwise,
 * now 0.55. Meanwhile two rows of the patch come near, lest the store of a tile wait for 16 lines one after the other. */
static void step(struct encoder *e, enum insn multiply) {
  for (int k = 0; k < 2; k++) tile(e, I_TILELOAD, OF_B + k, B, B_ROW, k * DEEP);
  for (int k = 0; k < 2; k++) {
    tile(e, I_TILESTREAM, OF_A + k, A, A_ROW, k * TILE * DEEP);
    for (int j = 0; j < 2; j++) vec(e, multiply, 16, SUMS + 2 * k + j, OF_B + j, rm_reg(OF_A + k));
  }
  for (int k = 0; k < 4; k++) prefetch_written(e, k < 2 ? rm_at(FETCH, k * DEEP) : rm_index(FETCH, C_ROW, 0, k % 2 * DEEP));
  gpr(e, G_LEA, FETCH, rm_index(FETCH, C_ROW, 1, 0));
  gpr_imm(e, A_ADD, rm_reg(A), PATCH * DEEP);
  gpr_imm(e, A_ADD, rm_reg(B), TILE * PATCH * 4);
}

static void write_patch(struct encoder *e, enum insn multiply) {
  int again = label_new(e);
  gpr_push(e, FETCH);
  gpr(e, G_MOV, C, FIELD(c));
  gpr(e, G_MOV, FETCH, rm_reg(C));
  gpr(e, G_MOV, C_ROW, FIELD(c_row));
  gpr(e, G_LEA, C_LOWER, rm_index(C_ROW, C_ROW, 0, 0));
  gpr(e, G_LEA, C_LOWER, rm_index(C, C_LOWER, 3, 0));
  begin_sums(e);
  gpr(e, G_MOV, A, FIELD(a));
  gpr(e, G_MOV, B, FIELD(b));
  gpr(e, G_MOV, B_ROW, FIELD(b_k));
  gpr_const(e, A_ROW, DEEP);
  gpr(e, G_MOV, LEFT, FIELD(k));
  code_align(e, 32);
  label_here(e, again);
  step(e, multiply);
  gpr_imm(e, A_SUB, rm_reg(LEFT), TILE);
  jump_if(e, CC_G, again);
  each_sum(e, I_TILESTORE);
  gpr_pop(e, FETCH);
  code_bytes(e, (uint8_t[]){ 0xC3 }, 1);
}

enum tile_sort { OF_SIGNED, OF_UNSIGNED, OF_BF16, TILE_SORTS };
static _Atomic(patch_code *) known[TILE_SORTS];

static bool find(enum tile_sort s, bool *is_forbidden) {
  static const enum insn multiply[] = { I_TDPBSSD, I_TDPBUUD, I_TDPBF16PS };
  struct encoder e = { .evex = false };
  patch_code *none = NULL, *code;
  *is_forbidden = false;
  if (atomic_load_explicit(&known[s], memory_order_acquire)) return true;
  write_patch(&e, multiply[s]);
  size_t total = encoder_pool_at(&e) + e.n_pool;
  code = encoder_finish(&e) ? (patch_code *)pages_new(e.code, e.n, e.pool, encoder_pool_at(&e), e.n_pool, is_forbidden) : NULL;
  encoder_free(&e);
  if (code && !atomic_compare_exchange_strong(&known[s], &none, code)) pages_free((void *)code, total); /* somebody was faster */
  return code || none;
}

/* ---- patches ---- */

static void copy_rows(const struct patch *t, void *to, int64_t to_row, const void *from, int64_t from_row) {
  for (int64_t i = 0; i < t->rows; i++)
    memcpy((char *)to + i * to_row, (const char *)from + i * from_row, (size_t)t->columns * 4);
}

static void at_edge(const struct patch *t, patch_code *code) {
  int32_t whole[PATCH * PATCH] __attribute__((aligned(64)));
  struct patch u = *t;
  u.c = whole, u.c_row = PATCH * 4;
  if (t->adds) memset(whole, 0, sizeof whole), copy_rows(t, whole, u.c_row, t->c, t->c_row);
  code(&u);
  copy_rows(t, t->c, t->c_row, whole, u.c_row);
}

static void run_patch(const struct patch *t, enum tile_sort s) {
  patch_code *code = atomic_load_explicit(&known[s], memory_order_relaxed);
  if (t->rows == PATCH && t->columns == PATCH) code(t);
  else at_edge(t, code);
}
static void patch_signed(const struct patch *t) { run_patch(t, OF_SIGNED); }
static void patch_unsigned(const struct patch *t) { run_patch(t, OF_UNSIGNED); }
static void patch_bf16(const struct patch *t) { run_patch(t, OF_BF16); }

static patch_code *code(weft_dtype t, int rows, int vectors, bool is_masked, bool *is_forbidden) {
  static patch_code *const of[] = { patch_signed, patch_unsigned, patch_bf16 };
  enum tile_sort s = t == WEFT_BF16 ? OF_BF16 : t == WEFT_U8 ? OF_UNSIGNED : OF_SIGNED;
  return (void)rows, (void)vectors, (void)is_masked, find(s, is_forbidden) ? of[s] : NULL;
}

/* ---- panels ---- */

AVX2 static inline void copy_deep(char *to, address from, bool swaps) { /* pairs of b have their halves the other way round */
  for (int i = 0; i < DEEP; i += 32) {
    __m256i x = _mm256_loadu_si256((const __m256i *)(const void *)(from + i));
    if (swaps) x = _mm256_or_si256(_mm256_slli_epi32(x, 16), _mm256_srli_epi32(x, 16));
    _mm256_storeu_si256((__m256i *)(void *)(to + i), x);
  }
}

/* Rows of the left operand whose elements along k are neighbours. */
static void left_along_k(const struct panel *p, int64_t size) {
  bool swaps = size == 2;
  for (int64_t i = 0; i < p->n; i++) {
    address from = (address)p->from + i * p->stride;
    char *to = (char *)p->to + i * DEEP, last[DEEP] = { 0 };
    int64_t left = p->k * size;
    for (; left >= DEEP; left -= DEEP, from += DEEP, to += PATCH * DEEP) copy_deep(to, from, swaps);
    if (left) memcpy(last, from, (size_t)left), copy_deep(to, last, swaps);
  }
}

/* 16 rows of 32 dwords to 32 of 16. */
AVX2 static void turn_block(const float *from, float *to) {
  for (int i = 0; i < TILE; i += 8)
    for (int j = 0; j < PATCH; j += 8) {
      const float *x = from + i * PATCH + j;
      float *y = to + j * TILE + i;
      __m256 r0 = _mm256_loadu_ps(x), r1 = _mm256_loadu_ps(x + PATCH), r2 = _mm256_loadu_ps(x + 2 * PATCH),
             r3 = _mm256_loadu_ps(x + 3 * PATCH), r4 = _mm256_loadu_ps(x + 4 * PATCH), r5 = _mm256_loadu_ps(x + 5 * PATCH),
             r6 = _mm256_loadu_ps(x + 6 * PATCH), r7 = _mm256_loadu_ps(x + 7 * PATCH);
      LANE_TURN;
      _mm256_storeu_ps(y, c0), _mm256_storeu_ps(y + TILE, c1), _mm256_storeu_ps(y + 2 * TILE, c2);
      _mm256_storeu_ps(y + 3 * TILE, c3), _mm256_storeu_ps(y + 4 * TILE, c4), _mm256_storeu_ps(y + 5 * TILE, c5);
      _mm256_storeu_ps(y + 6 * TILE, c6), _mm256_storeu_ps(y + 7 * TILE, c7);
    }
}

static void right(const struct panel *p, int64_t size) {
  int64_t together = 4 / size, rows = (p->k + together - 1) / together, all = (rows + TILE - 1) / TILE * TILE;
  if (size == 2) pairs_avx2(p, false);
  else fours_avx2(p, false);
  memset((char *)p->to + rows * p->width * 4, 0, (size_t)((all - rows) * p->width * 4));
}

/* Any others of the left operand: a block of them as one of the right, then turned. */
static void left_of_any(const struct panel *p, int64_t size) {
  float block[TILE * PATCH + PANEL_SLACK / 4] __attribute__((aligned(64)));
  int64_t deep = DEEP / size;
  for (int64_t k = 0; k < p->k; k += deep) {
    struct panel q = *p;
    q.from = (address)p->from + k * p->k_stride, q.to = block, q.k = p->k - k < deep ? p->k - k : deep, q.width = PATCH;
    right(&q, size);
    turn_block(block, (float *)p->to + k / deep * PATCH * TILE);
  }
}

static void pack_tiles(const struct panel *p, bool is_left) {
  int64_t size = p->dtype == WEFT_BF16 ? 2 : 1;
  if (!is_left) right(p, size);
  else if (p->k_stride == size) left_along_k(p, size);
  else left_of_any(p, size);
}

/* ---- what it offers ---- */

static int lanes(weft_dtype t) { return kir_width(t) == 4 ? TILE : 0; }
static int rows(void) { return PATCH; }
static int vectors(weft_dtype t, int rows) { return (void)t, (void)rows, PATCH / TILE; }
static int together(weft_dtype t) { return t == WEFT_I8 || t == WEFT_U8 ? 4 : t == WEFT_BF16 ? 2 : 1; }

/* Eight tiles of 16 rows of 64 bytes, as LDTILECFG reads it. */
static void enter(void) {
  struct { uint8_t palette, start, unused[14]; uint16_t bytes[16]; uint8_t rows[16]; } all = { .palette = 1 };
  for (int i = 0; i < 8; i++) all.bytes[i] = DEEP, all.rows[i] = TILE;
  __asm__ volatile(".byte 0xC4, 0xE2, 0x78, 0x49, 0x07" : : "D"(&all), "m"(all)); /* ldtilecfg [rdi] */
}
static void leave(void) { __asm__ volatile(".byte 0xC4, 0xE2, 0x78, 0x49, 0xC0" : : : "memory"); } /* tilerelease */

static int are_left;
void contractor_leave_tiles(bool leaves) { __atomic_store_n(&are_left, leaves, __ATOMIC_RELAXED); }
static bool available(void) { return !__atomic_load_n(&are_left, __ATOMIC_RELAXED) && cpu_has_tiles(); }

const struct contractor contractor_tiles = {
  .name = "tiles", .available = available, .lanes = lanes, .rows = rows, .vectors = vectors, .together = together, .code = code,
  .pack_together = pack_tiles, .high = PATCH, .deep = TILE, .enter = enter, .leave = leave
};
