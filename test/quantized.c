/* quantized.c -- weights of few bits: what they are packed to and what is refused. python/test/test_quantized.py compares all forms
 * with a packer of its own, and with MLX. */
#include <string.h>
#include "test.h"
#include "values.h"

#define AFFINE(group, bits) (&(weft_code_form){ WEFT_CODES_AFFINE, group, bits, NULL })

/* 0 .. 15 twice in a group of 32: the largest is the edge, so codes run from it downwards, in steps of 1. */
SCOPED(codes_stand_in_words_from_the_lowest_bits_on) {
  float w[32], back[32], scale, bias;
  uint32_t words[4];
  for (int i = 0; i < 32; i++) w[i] = (float)(i % 16);
  weft_array *a = weft_from(WEFT_F32, WEFT_DIMS(1, 32), w), *q, *s, *b;
  weft_quantize(a, AFFINE(32, 4), &q, &s, &b);
  EXPECT_OK(weft_read(q, WEFT_U32, words, sizeof words));
  EXPECT_OK(weft_read(s, WEFT_F32, &scale, sizeof scale));
  EXPECT_OK(weft_read(b, WEFT_F32, &bias, sizeof bias));
  EXPECT(scale == -1 && bias == 15);
  EXPECT(words[0] == 0x89abcdef && words[1] == 0x01234567 && words[2] == words[0] && words[3] == words[1]);
  EXPECT_OK(weft_read(weft_dequantize(q, s, b, AFFINE(32, 4), WEFT_F32), WEFT_F32, back, sizeof back));
  for (int i = 0; i < 32; i++) EXPECT(back[i] == w[i]);
  float dot;
  EXPECT_OK(weft_read(weft_quantized_matmul(a, q, s, b, 1, AFFINE(32, 4)), WEFT_F32, &dot, sizeof dot));
  EXPECT(dot == 2 * 1240);
}

SCOPED(forms_and_shapes_that_do_not_fit_are_named) {
  weft_array *w = weft_full(WEFT_F32, WEFT_DIMS(2, 96), 1), *q, *s, *b;
#define REFUSED(array, text) EXPECT(weft_check(array) != WEFT_OK); EXPECT_TEXT(weft_message(), text)
  weft_quantize(w, AFFINE(64, 4), &q, &s, &b);
  REFUSED(q, "weft_quantize: the last axis of [2,96] in parts of 64");
  weft_quantize(w, AFFINE(32, 7), &q, &s, &b);
  REFUSED(b, "weft_quantize: codes of 7 bits; 2, 3, 4, 5, 6 and 8 are possible");
  weft_quantize(w, AFFINE(48, 4), &q, &s, &b);
  REFUSED(s, "weft_quantize: groups of 48; 32, 64 and 128 are possible");
  weft_quantize(w, AFFINE(32, 3), &q, &s, &b);
  REFUSED(weft_dequantize(q, s, weft_slice(b, 1, 0, 1, 1), AFFINE(32, 3), WEFT_F32), "weft_dequantize: words [2,9] with scales or biases [2,1], of groups of 32 with 3 bits");
  REFUSED(weft_dequantize(s, s, b, AFFINE(32, 3), WEFT_F32), "weft_dequantize: words are u32, not f32");
  weft_code_form small = { .mode = WEFT_CODES_MXFP4 }, odd = { WEFT_CODES_NVFP4, 32, 4, NULL }, none = { .mode = 7 };
  REFUSED(weft_dequantize(q, s, NULL, &small, WEFT_F32), "weft_dequantize: scales of mode mxfp4 are u8, not f32");
  REFUSED(weft_dequantize(q, s, NULL, AFFINE(32, 3), WEFT_F32), "weft_dequantize: mode affine has scales and biases");
  REFUSED(weft_dequantize(q, s, b, &odd, WEFT_F32), "weft_dequantize: nvfp4 has groups of 16 and 4 bits, not 32 and 4");
  REFUSED(weft_dequantize(q, s, b, &none, WEFT_F32), "weft_dequantize: there is no mode 7");
  REFUSED(weft_dequantize(q, s, b, AFFINE(32, 3), WEFT_I32), "weft_dequantize: not of i32");
  REFUSED(weft_quantized_matmul(w, q, s, b, 0, AFFINE(32, 3)), "weft_quantized_matmul: inner lengths differ: [2,96] x words [2,9] of 3 bits");
  REFUSED(weft_quantized_matmul(q, q, s, b, 1, AFFINE(32, 3)), "weft_quantized_matmul: not of u32");
  REFUSED(weft_gather_qmm(w, q, s, b, w, NULL, 1, AFFINE(32, 3)), "weft_gather_qmm: the places are integers");
  small.global_scale = weft_full(WEFT_F32, WEFT_DIMS(0), 1);
  weft_quantize(w, &small, &q, &s, NULL);
  REFUSED(q, "weft_quantize: a global scale, in mode mxfp4");
  weft_array *places = weft_from(WEFT_I32, WEFT_DIMS(2), (int32_t[]){ 0, 1 }), *y;
  weft_quantize(w, AFFINE(32, 4), &q, &s, &b);
  EXPECT(weft_eval(1, (y = weft_gather_qmm(w, q, s, b, NULL, places, 1, AFFINE(32, 4)), &y)) == WEFT_ERR_INDEX);
}

/* y = sum of w with weights v: dy/ds and dy/db are sums of v q and of v over each group, forwards and backwards; rows map. */
SCOPED(derivatives_by_scales_and_biases_and_rows_of_a_map) {
  float w[2 * 64];
  for (int i = 0; i < 128; i++) w[i] = (float)(i * 37 % 41) - 20;
  for (int bits = 2; bits <= 8; bits++) {
    if (bits == 7) continue;
    weft_array *a = weft_from(WEFT_F32, WEFT_DIMS(2, 64), w), *q, *s, *b, *v = weft_cos(a), *one[2], *back[2], *dy, *ys;
    weft_quantize(a, AFFINE(32, bits), &q, &s, &b);
    s = weft_alias(weft_cast(s, WEFT_F64)), b = weft_alias(weft_cast(b, WEFT_F64));
    v = weft_cast(v, WEFT_F64);
    weft_array *y = weft_dequantize(q, s, b, AFFINE(32, bits), WEFT_F64), *dot = weft_sum(weft_mul(y, v), WEFT_ALL), *of[] = { s, b };
    weft_grad(dot, 2, of, back);
    one[0] = weft_full_like(s, 0.5), one[1] = weft_full_like(b, -2);
    weft_jvp(2, of, one, 1, &dot, &dy);
    double forward, backward, codes[4], sums[4], want[4], got[4];
    weft_array *total = weft_sub(weft_mul(weft_sum(back[0], WEFT_ALL), weft_scalar(0.5)), weft_mul(weft_sum(back[1], WEFT_ALL), weft_scalar(2)));
    EXPECT_OK(weft_read(dy, WEFT_F64, &forward, sizeof forward));
    EXPECT_OK(weft_read(total, WEFT_F64, &backward, sizeof backward));
    EXPECT(forward - backward < 1e-9 && backward - forward < 1e-9);
    weft_array *code = weft_div(weft_sub(y, weft_repeat(b, 1, 32)), weft_repeat(s, 1, 32)), *grouped = weft_reshape(weft_mul(code, v), WEFT_DIMS(2, 2, 32));
    EXPECT_OK(weft_read(back[0], WEFT_F64, codes, sizeof codes));
    EXPECT_OK(weft_read(weft_sum(grouped, 2), WEFT_F64, want, sizeof want));
    EXPECT_OK(weft_read(back[1], WEFT_F64, sums, sizeof sums));
    EXPECT_OK(weft_read(weft_sum(weft_reshape(v, WEFT_DIMS(2, 2, 32)), 2), WEFT_F64, got, sizeof got));
    for (int k = 0; k < 4; k++) EXPECT(codes[k] - want[k] < 1e-6 && want[k] - codes[k] < 1e-6 && sums[k] - got[k] < 1e-9 && got[k] - sums[k] < 1e-9);

    weft_array *row[] = { weft_alias(weft_at(q, 0, weft_integer(0))), weft_alias(weft_at(s, 0, weft_integer(0))) };
    weft_array *first = weft_dequantize(row[0], row[1], weft_at(b, 0, weft_integer(0)), AFFINE(32, bits), WEFT_F64), *rows[] = { q, s };
    weft_map(2, row, rows, 1, &first, &ys);
    double all[128], mapped[128];
    EXPECT_OK(weft_read(y, WEFT_F64, all, sizeof all));
    EXPECT_OK(weft_read(ys, WEFT_F64, mapped, sizeof mapped));
    for (int k = 0; k < 64; k++) EXPECT(all[k] == mapped[k]);
  }
}

static const struct recorded { weft_code_mode mode; int group, bits; uint32_t is[3]; } recorded[] = {
{ WEFT_CODES_AFFINE, 32, 2, { 0x6fecaaed, 0x669981fc, 0x4554034e } },
  { WEFT_CODES_AFFINE, 64, 2, { 0xb0682c60, 0x8db5f65c, 0xbe21d512 } },
  { WEFT_CODES_AFFINE, 128, 2, { 0xdaea2b74, 0x8bd768d8, 0xc535acb8 } },
  { WEFT_CODES_AFFINE, 32, 3, { 0x7460488f, 0x9c0d73b8, 0xa05b5c94 } },
  { WEFT_CODES_AFFINE, 64, 3, { 0xa5dd96f9, 0x03951912, 0x7b064fbd } },
  { WEFT_CODES_AFFINE, 128, 3, { 0x89041ac6, 0x8c1d5cc4, 0xc7173ad6 } },
  { WEFT_CODES_AFFINE, 32, 4, { 0x5c1f952b, 0x5e53771b, 0x8b0cf03a } },
  { WEFT_CODES_AFFINE, 64, 4, { 0x090ae4f7, 0xaf17ae7b, 0x679f14f7 } },
  { WEFT_CODES_AFFINE, 128, 4, { 0x7447f782, 0x46952021, 0xf1ab3150 } },
  { WEFT_CODES_AFFINE, 32, 5, { 0x7c9425c2, 0x81195877, 0x660353ce } },
  { WEFT_CODES_AFFINE, 64, 5, { 0x00b11bf1, 0x7730539a, 0x1a9350f4 } },
  { WEFT_CODES_AFFINE, 128, 5, { 0x3565ed52, 0xb2e58e12, 0x6f7cb51f } },
  { WEFT_CODES_AFFINE, 32, 6, { 0xe61fbb8b, 0x7b797e63, 0xd78a2fd0 } },
  { WEFT_CODES_AFFINE, 64, 6, { 0x6ca6a377, 0x89b38fc6, 0x6e37ef0a } },
  { WEFT_CODES_AFFINE, 128, 6, { 0x8d3b72c9, 0x1970ebb6, 0x987dd289 } },
  { WEFT_CODES_AFFINE, 32, 8, { 0x8e0e2ec8, 0x5b9856fc, 0x8ca151e5 } },
  { WEFT_CODES_AFFINE, 64, 8, { 0x1d0aed71, 0x550ccad7, 0xc70b8fd5 } },
  { WEFT_CODES_AFFINE, 128, 8, { 0x625fbb55, 0x168e9f77, 0x3ed99057 } },
  { WEFT_CODES_MXFP4, 32, 4, { 0x31d01524, 0x31d01524, 0x3f7260b4 } },
  { WEFT_CODES_MXFP8, 32, 8, { 0x4a234c83, 0x4a234c83, 0x6aa61312 } },
  { WEFT_CODES_NVFP4, 16, 4, { 0x3c6ad5e6, 0x3c6ad5e6, 0x7328d943 } },
};

static int64_t n_elements(weft_array *x) {
  int64_t n = 1;
  for (int k = 0; k < weft_rank(x); k++) n *= weft_dim(x, k);
  return n;
}

static uint32_t digest(weft_array *x, uint32_t all) {
  static uint8_t bytes[4096];
  size_t n = (size_t)n_elements(x) * weft_dtype_bytes(weft_dtype_of(x));
  uint32_t h = 2166136261u;
  EXPECT_OK(weft_read(x, weft_dtype_of(x), bytes, n));
  for (size_t i = 0; i < n; i++) h = (h ^ bytes[i]) * 16777619u;
  return all * 31 + h;
}

/* What MLX 0.32.4 gave for words, scales and biases: of f32, f16 and bf16. */
SCOPED(codes_scales_and_biases_are_those_of_mlx_to_the_bit) {
  static const weft_dtype dtypes[] = { WEFT_F32, WEFT_F16, WEFT_BF16 };
  float w[4 * 256];
  for (int i = 0; i < 1024; i++) w[i] = (float)(i * 7919 % 1009 - i * i % 613) / 64;
  for (int i = 0; i < 64; i++) w[256 + i] = 0, w[512 + 64 + i] = 3;
  for (int i = 768; i < 1024; i++) w[i] = (w[i] < 0 ? -w[i] : w[i]) / 512;
  weft_array *a = weft_from(WEFT_F32, WEFT_DIMS(4, 256), w), *q, *s, *b;
  for (size_t k = 0; k < sizeof recorded / sizeof *recorded; k++)
    for (int d = 0; d < 3; d++) {
      const struct recorded *r = &recorded[k];
      weft_quantize(weft_cast(a, dtypes[d]), &(weft_code_form){ r->mode, r->group, r->bits, NULL }, &q, &s, &b);
      uint32_t is = digest(s, digest(q, 0));
      if (b) is = digest(b, is);
      if (is != r->is[d]) test_fail(__FILE__, __LINE__, "mode %d, groups of %d, %d bits, %s", r->mode, r->group, r->bits, weft_dtype_name(dtypes[d]));
    }
  weft_array *most = weft_squeeze(weft_reshape(weft_max(weft_abs(a), WEFT_ALL), WEFT_DIMS(1)), 0);
  weft_quantize(a, &(weft_code_form){ .mode = WEFT_CODES_NVFP4, .global_scale = most }, &q, &s, NULL);
  EXPECT_INT(digest(s, digest(q, 0)), 0xf1703f4du);
}

/* Of all forms, of rows that are few and many, both ways, of blocks that fill vectors and blocks that do not, of scales of all dtypes:
 * the bits of the product with what codes stand for. */
SCOPED(products_with_codes_are_products_with_what_they_stand_for) {
  static const int counts[] = { 1, 2, 3, 4, 5, 13, 250 };
  static const weft_dtype dtypes[] = { WEFT_F32, WEFT_F16, WEFT_BF16 };
  for (size_t k = 0; k < sizeof recorded / sizeof *recorded; k++) {
    const struct recorded *r = &recorded[k];
    weft_code_form form = { r->mode, r->group, r->bits, NULL };
    for (int t = 0; t < 2; t++) {
      weft_scope *scope = weft_scope_open();
      int64_t rows = t ? 21 : 530, length = t ? 512 + 3 * r->group : 3 * r->group, inner = t ? length : rows;
      weft_array *w = weft_random_normal(weft_random_key(k), weft_full(WEFT_F32, WEFT_DIMS(rows, length), 0), weft_scalar(0), weft_scalar(1)), *q, *s, *b;
      weft_quantize(weft_cast(w, dtypes[k % 3]), &form, &q, &s, &b);
      weft_array *plain = weft_dequantize(q, s, b, &form, WEFT_F32);
      if (t) plain = weft_moveaxis(plain, -1, -2);
      for (int c = 0; c < 7; c++) {
        weft_array *x = weft_random_normal(weft_random_key(9), weft_full(WEFT_F32, WEFT_DIMS(counts[c], inner), 0), weft_scalar(0), weft_scalar(1));
        weft_array *y = weft_cast(weft_quantized_matmul(x, q, s, b, t, &form), WEFT_F32), *want = weft_matmul(x, plain);
        bool differs = true;
        EXPECT(!!strstr(weft_show(1, &y, "plan"), "code_product by weft"));
        EXPECT_OK(weft_read(weft_any(weft_ne(y, want), WEFT_ALL), WEFT_BOOL, &differs, sizeof differs));
        if (differs) test_fail(__FILE__, __LINE__, "mode %d, groups of %d, %d bits, %d rows, transposed %d", r->mode, r->group, r->bits, counts[c], t);
      }
      weft_scope_discard(scope);
    }
  }
}

/* Scales at which products leave the numbers. The first 64 rows have moderate ones, which go another way; each row behind them has
 * one group that is large, infinite or NaN, and no code 0, so that it does not become NaN by 0 times infinity. With biases of both
 * zeros, x that is positive, x of both signs and zeros, and one that is infinite once. */
SCOPED(products_with_codes_of_any_scale_are_products_with_what_they_stand_for) {
  enum { ROWS = 150, LENGTH = 1024 + 192, GROUPS = LENGTH / 64, N = ROWS * GROUPS, FROM = 64 };
  static const float scales[] = { 0, -0.f, 1e-42f, -3e-40f, 0.3f, -1.7f, 1e20f, 0x1.fffffep103f };
  static const float large[] = { 0x1p104f, -0x1.8p105f, 0x1p110f, 3e38f, INFINITY, -INFINITY, NAN };
  static const float biases[] = { 0, -0.f, 1e-42f, 0.1f, -7 }, xs[] = { 0, -0.f, 1, -0.7f, 1e-30f, 3 };
  static float s[N], b[N], x[3 * LENGTH], y[3 * ROWS], want[3 * ROWS];
  static uint32_t q[ROWS * LENGTH / 4];
  uint32_t bits = 3;
#define NEXT (bits = bits * 1664525u + 1013904223u, bits >> 12)
  for (int i = 0; i < N; i++) s[i] = scales[NEXT % (i < FROM * GROUPS ? 8 : 6)], b[i] = biases[NEXT % 5];
  for (int i = FROM; i < ROWS; i++) s[i * GROUPS + i % GROUPS] = large[i % 7];
  for (int i = 0; i < 3 * LENGTH; i++) x[i] = i < LENGTH ? 0.01f * (float)(1 + i % 7) : xs[NEXT % 6];
  x[2 * LENGTH + 100] = INFINITY;
#undef NEXT
  for (int k = 0; k < 6; k++) {
    int64_t width = 2 << k / 2, rows = k % 2 ? 3 : 1, wrong = 0, words = LENGTH * width / 32;
    for (int i = 0; i < ROWS * words; i++) q[i] = (bits = bits * 1664525u + 1013904223u, bits ^ bits >> 15) | (i < FROM * words ? 0 : 0x55555555);
    weft_code_form form = { WEFT_CODES_AFFINE, 64, (int)width, NULL };
    weft_array *w = weft_from(WEFT_U32, WEFT_DIMS(ROWS, words), q), *scale = weft_from(WEFT_F32, WEFT_DIMS(ROWS, GROUPS), s);
    weft_array *bias = weft_from(WEFT_F32, WEFT_DIMS(ROWS, GROUPS), b), *in = weft_from(WEFT_F32, WEFT_DIMS(rows, LENGTH), x);
    weft_array *plain = weft_dequantize(w, scale, bias, &form, WEFT_F32);
    EXPECT_OK(weft_eval(1, &plain));
    EXPECT_OK(weft_read(weft_quantized_matmul(in, w, scale, bias, true, &form), WEFT_F32, y, sizeof *y * (size_t)(rows * ROWS)));
    EXPECT_OK(weft_read(weft_matmul(in, weft_moveaxis(plain, -1, -2)), WEFT_F32, want, sizeof *y * (size_t)(rows * ROWS)));
    for (int i = 0; i < rows * ROWS; i++) wrong += memcmp(y + i, want + i, 4) && !(y[i] != y[i] && want[i] != want[i]);
    if (wrong) test_fail(__FILE__, __LINE__, "%d bits, %d rows: %d differ", (int)width, (int)rows, (int)wrong);
  }
}

/* Batches, batches that stretch, chosen matrices, vectors; their derivatives by x, scales and biases, and rows of a map over any of
 * them, against the product with what codes stand for. */
SCOPED(batched_and_gathered_products_their_derivatives_and_maps) {
  weft_array *w = weft_sin(weft_reshape(weft_iota(weft_full(WEFT_F32, WEFT_DIMS(3 * 5 * 64), 0), 0), WEFT_DIMS(3, 5, 64))), *q, *s, *b;
  weft_array *x = weft_alias(weft_cos(weft_reshape(weft_iota(weft_full(WEFT_F32, WEFT_DIMS(4 * 2 * 64), 0), 0), WEFT_DIMS(4, 2, 64))));
  weft_array *at_x = weft_from(WEFT_I32, WEFT_DIMS(2, 3), (int32_t[]){ 0, 3, 3, 1, -2, 0 });
  weft_array *at_w = weft_alias(weft_from(WEFT_U32, WEFT_DIMS(3), (uint32_t[]){ 2, 2, 0 }));
  weft_quantize(w, AFFINE(32, 4), &q, &s, &b);
  s = weft_alias(s), b = weft_alias(b);
  weft_array *plain = weft_moveaxis(weft_dequantize(q, s, b, AFFINE(32, 4), WEFT_F32), -1, -2), *first = weft_at(x, 0, weft_integer(0));
  weft_array *wide = weft_unsqueeze(x, 1), *three = weft_slice(x, 0, 0, 3, 1), *vector = weft_at(first, 0, weft_integer(1));
  weft_array *got[] = {
    weft_quantized_matmul(three, q, s, b, 1, AFFINE(32, 4)), weft_quantized_matmul(wide, q, s, b, 1, AFFINE(32, 4)),
    weft_quantized_matmul(first, q, s, b, 1, AFFINE(32, 4)), weft_quantized_matmul(vector, q, s, b, 1, AFFINE(32, 4)),
    weft_gather_qmm(x, q, s, b, at_x, at_w, 1, AFFINE(32, 4)), weft_gather_qmm(x, q, s, b, NULL, weft_at(at_w, 0, weft_integer(0)), 1, AFFINE(32, 4)),
    weft_gather_qmm(weft_slice(x, 2, 0, 5, 1), q, s, b, at_x, at_w, 0, AFFINE(32, 4)),
  };
  weft_array *want[] = {
    weft_matmul(three, plain), weft_matmul(wide, plain), weft_matmul(first, plain), weft_matmul(vector, plain),
    weft_gather_mm(x, plain, at_x, at_w), weft_gather_mm(x, plain, NULL, weft_at(at_w, 0, weft_integer(0))),
    weft_gather_mm(weft_slice(x, 2, 0, 5, 1), weft_moveaxis(plain, -1, -2), at_x, at_w),
  };
  for (int k = 0; k < 7; k++) {
    weft_array *of[] = { x, s, b }, *one[] = { weft_sin(x), weft_cos(s), weft_cos(b) }, *found[2][5];
    for (int j = 0; j < 2; j++) {
      weft_array *y = j ? want[k] : got[k];
      found[j][0] = y;
      weft_grad(weft_sum(weft_mul(y, weft_sin(y)), WEFT_ALL), 3, of, found[j] + 1);
      weft_jvp(3, of, one, 1, &y, &found[j][4]);
    }
    for (int j = 0; j < 5; j++) {
      float off = 1, size = 0;
      EXPECT_INT(n_elements(found[0][j]), n_elements(found[1][j]));
      EXPECT_OK(weft_read(weft_max(weft_abs(weft_sub(found[0][j], found[1][j])), WEFT_ALL), WEFT_F32, &off, sizeof off));
      EXPECT_OK(weft_read(weft_max(weft_abs(found[1][j]), WEFT_ALL), WEFT_F32, &size, sizeof size));
      if (!(size > 0 && off <= (j ? 4e-5f : 0) * size)) test_fail(__FILE__, __LINE__, "product %d, result %d: off by %g of %g", k, j, (double)off, (double)size);
    }
  }
  for (int k = 0; k < 7; k++) /* rows of a map over x, words, scales, places of x, places of words */
    for (int over = 1; over < 32; over++) {
      if (k != 4 && over > 7) continue;
      weft_array *in[] = { x, q, s, weft_alias(at_x), at_w }, *names[5], *rows[5], *maps[2], *y = got[k];
      int n = 0;
      for (int j = 0; j < 5; j++)
        if (over >> j & 1) names[n] = in[j], rows[n++] = weft_stack(0, 2, (weft_array *[]){ in[j], weft_flip(in[j], 0) });
      if (over >> 3 & 1) y = weft_gather_qmm(x, q, s, b, in[3], at_w, 1, AFFINE(32, 4));
      weft_map(n, names, rows, 1, &y, &maps[0]);
      y = want[k];
      if (over >> 3 & 1) y = weft_gather_mm(x, plain, in[3], at_w);
      weft_map(n, names, rows, 1, &y, &maps[1]);
      bool differs = true;
      EXPECT_OK(weft_read(weft_any(weft_ne(maps[0], maps[1]), WEFT_ALL), WEFT_BOOL, &differs, sizeof differs));
      if (differs) test_fail(__FILE__, __LINE__, "product %d mapped over %d", k, over);
    }
}

/* Of rows alone, of codes alone, and of both; forwards and backwards, against the composed product. */
SCOPED(derivatives_and_maps_of_few_rows_by_codes) {
  weft_array *w = weft_sin(weft_reshape(weft_iota(weft_full(WEFT_F32, WEFT_DIMS(192), 0), 0), WEFT_DIMS(3, 64))), *q, *s, *b;
  weft_quantize(w, AFFINE(32, 4), &q, &s, &b);
  s = weft_alias(s), b = weft_alias(b);
  weft_array *x = weft_alias(weft_cos(weft_reshape(weft_iota(weft_full(WEFT_F32, WEFT_DIMS(128), 0), 0), WEFT_DIMS(2, 64))));
  weft_array *of[] = { x, s, b }, *one[] = { weft_sin(x), weft_cos(s), weft_cos(b) }, *back[2][3], *along[2], *mapped[2];
  weft_array *row = weft_alias(weft_squeeze(weft_slice(x, 0, 1, 2, 1), 0));
  for (int k = 0; k < 2; k++) {
    weft_array *plain = weft_transpose(weft_dequantize(q, s, b, AFFINE(32, 4), WEFT_F32), NULL);
    weft_array *y = k ? weft_matmul(x, plain) : weft_quantized_matmul(x, q, s, b, 1, AFFINE(32, 4)), *square = weft_sum(weft_mul(y, y), WEFT_ALL);
    weft_grad(square, 3, of, back[k]);
    weft_jvp(3, of, one, 1, &y, &along[k]);
    weft_array *of_row = k ? weft_matmul(row, plain) : weft_quantized_matmul(row, q, s, b, 1, AFFINE(32, 4));
    weft_map(1, &row, &x, 1, &of_row, &mapped[k]);
  }
  weft_array *got[] = { along[0], mapped[0], back[0][0], back[0][1], back[0][2] };
  weft_array *want[] = { along[1], mapped[1], back[1][0], back[1][1], back[1][2] };
  for (int k = 0; k < 5; k++) {
    float off = 1, size = 0;
    EXPECT_OK(weft_read(weft_max(weft_abs(weft_sub(got[k], want[k])), WEFT_ALL), WEFT_F32, &off, sizeof off));
    EXPECT_OK(weft_read(weft_max(weft_abs(want[k]), WEFT_ALL), WEFT_F32, &size, sizeof size));
    EXPECT(size > 0 && off < 2e-6f * size);
  }
}
