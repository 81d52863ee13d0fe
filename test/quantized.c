/* quantized.c -- weights of few bits: what they are packed to and what is refused. python/test/test_quantized.py compares all forms
 * with a packer of its own, and with MLX. */
#include <string.h>
#include "test.h"
#include "values.h"

/* 0 .. 15 twice in a group of 32: the largest is the edge, so codes run from it downwards, in steps of 1. */
SCOPED(codes_stand_in_words_from_the_lowest_bits_on) {
  float w[32], back[32], scale, bias;
  uint32_t words[4];
  for (int i = 0; i < 32; i++) w[i] = (float)(i % 16);
  weft_array *a = weft_from(WEFT_F32, WEFT_DIMS(1, 32), w), *q, *s, *b;
  weft_quantize(a, 32, 4, &q, &s, &b);
  EXPECT_OK(weft_read(q, WEFT_U32, words, sizeof words));
  EXPECT_OK(weft_read(s, WEFT_F32, &scale, sizeof scale));
  EXPECT_OK(weft_read(b, WEFT_F32, &bias, sizeof bias));
  EXPECT(scale == -1 && bias == 15);
  EXPECT(words[0] == 0x89abcdef && words[1] == 0x01234567 && words[2] == words[0] && words[3] == words[1]);
  EXPECT_OK(weft_read(weft_dequantize(q, s, b, 32, 4), WEFT_F32, back, sizeof back));
  for (int i = 0; i < 32; i++) EXPECT(back[i] == w[i]);
  float dot;
  EXPECT_OK(weft_read(weft_quantized_matmul(a, q, s, b, 1, 32, 4), WEFT_F32, &dot, sizeof dot));
  EXPECT(dot == 2 * 1240);
}

SCOPED(forms_and_shapes_that_do_not_fit_are_named) {
  weft_array *w = weft_full(WEFT_F32, WEFT_DIMS(2, 96), 1), *q, *s, *b;
#define REFUSED(array, text) EXPECT(weft_check(array) != WEFT_OK); EXPECT_TEXT(weft_message(), text)
  weft_quantize(w, 64, 4, &q, &s, &b);
  REFUSED(q, "weft_quantize: the last axis of [2,96] in parts of 64");
  weft_quantize(w, 32, 7, &q, &s, &b);
  REFUSED(b, "weft_quantize: codes of 7 bits; 2, 3, 4, 5, 6 and 8 are possible");
  weft_quantize(w, 48, 4, &q, &s, &b);
  REFUSED(s, "weft_quantize: groups of 48; 32, 64 and 128 are possible");
  weft_quantize(w, 32, 3, &q, &s, &b);
  REFUSED(weft_dequantize(q, s, weft_slice(b, 1, 0, 1, 1), 32, 3), "weft_dequantize: scales or biases [2,1] of groups of 32 in words [2,3,3]");
  REFUSED(weft_dequantize(s, s, b, 32, 3), "weft_dequantize: not of f32");
}

/* y = sum of w with weights v: dy/ds and dy/db are sums of v q and of v over each group, forwards and backwards; rows map. */
SCOPED(derivatives_by_scales_and_biases_and_rows_of_a_map) {
  float w[2 * 64];
  for (int i = 0; i < 128; i++) w[i] = (float)(i * 37 % 41) - 20;
  for (int bits = 2; bits <= 8; bits++) {
    if (bits == 7) continue;
    weft_array *a = weft_from(WEFT_F32, WEFT_DIMS(2, 64), w), *q, *s, *b, *v = weft_cos(a), *one[2], *back[2], *dy, *ys;
    weft_quantize(a, 32, bits, &q, &s, &b);
    s = weft_alias(weft_cast(s, WEFT_F64)), b = weft_alias(weft_cast(b, WEFT_F64));
    v = weft_cast(v, WEFT_F64);
    weft_array *y = weft_dequantize(q, s, b, 32, bits), *dot = weft_sum(weft_mul(y, v), WEFT_ALL), *of[] = { s, b };
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
    weft_array *first = weft_dequantize(row[0], row[1], weft_at(b, 0, weft_integer(0)), 32, bits), *rows[] = { q, s };
    weft_map(2, row, rows, 1, &first, &ys);
    double all[128], mapped[128];
    EXPECT_OK(weft_read(y, WEFT_F64, all, sizeof all));
    EXPECT_OK(weft_read(ys, WEFT_F64, mapped, sizeof mapped));
    for (int k = 0; k < 64; k++) EXPECT(all[k] == mapped[k]);
  }
}

/* Of all forms, of rows that share a pass and rows that do not, of blocks that fill vectors and that do not: the same as the product
 * with what is unpacked first. */
SCOPED(few_rows_by_codes_are_products_with_what_they_stand_for) {
  static const int lengths[] = { 128, 384, 640 }, counts[] = { 1, 3, 4, 9, 17 };
  for (int bits = 2; bits <= 8; bits++)
    for (int group = 32; group <= 128 && bits != 7; group *= 2)
      for (int l = 0; l < 3; l++) {
        weft_scope *scope = weft_scope_open();
        weft_array *w = weft_random_normal(weft_random_key((uint64_t)(bits * group)), weft_full(WEFT_F32, WEFT_DIMS(5, lengths[l]), 0), weft_scalar(0), weft_scalar(1)), *q, *s, *b;
        weft_quantize(w, group, bits, &q, &s, &b);
        for (int c = 0; c < 5; c++) {
          weft_array *x = weft_cos(weft_iota(weft_full(WEFT_F32, WEFT_DIMS(counts[c], lengths[l]), 0), 1));
          x = weft_add(x, weft_sin(weft_iota(weft_full(WEFT_F32, WEFT_DIMS(counts[c], lengths[l]), 0), 0)));
          weft_array *y = weft_quantized_matmul(x, q, s, b, 1, group, bits);
          weft_array *want = weft_matmul(weft_cast(x, WEFT_F64), weft_transpose(weft_cast(weft_dequantize(q, s, b, group, bits), WEFT_F64), NULL));
          weft_array *off = weft_max(weft_abs(weft_sub(y, want)), WEFT_ALL);
          double worst = 1;
          EXPECT(!!strstr(weft_show(1, &y, "plan"), "codes_product by weft") == (counts[c] <= 16));
          EXPECT_OK(weft_read(weft_cast(off, WEFT_F64), WEFT_F64, &worst, sizeof worst));
          EXPECT(worst < 2e-3);
        }
        weft_scope_discard(scope);
      }
}

/* Of rows alone, of codes alone, and of both; forwards and backwards, against the composed product. */
SCOPED(derivatives_and_maps_of_few_rows_by_codes) {
  weft_array *w = weft_sin(weft_reshape(weft_iota(weft_full(WEFT_F32, WEFT_DIMS(192), 0), 0), WEFT_DIMS(3, 64))), *q, *s, *b;
  weft_quantize(w, 32, 4, &q, &s, &b);
  s = weft_alias(s), b = weft_alias(b);
  weft_array *x = weft_alias(weft_cos(weft_reshape(weft_iota(weft_full(WEFT_F32, WEFT_DIMS(128), 0), 0), WEFT_DIMS(2, 64))));
  weft_array *of[] = { x, s, b }, *one[] = { weft_sin(x), weft_cos(s), weft_cos(b) }, *back[2][3], *along[2], *mapped[2];
  weft_array *row = weft_alias(weft_squeeze(weft_slice(x, 0, 1, 2, 1), 0));
  for (int k = 0; k < 2; k++) {
    weft_array *plain = weft_transpose(weft_dequantize(q, s, b, 32, 4), NULL);
    weft_array *y = k ? weft_matmul(x, plain) : weft_quantized_matmul(x, q, s, b, 1, 32, 4), *square = weft_sum(weft_mul(y, y), WEFT_ALL);
    weft_grad(square, 3, of, back[k]);
    weft_jvp(3, of, one, 1, &y, &along[k]);
    weft_array *of_row = k ? weft_matmul(row, plain) : weft_quantized_matmul(row, q, s, b, 1, 32, 4);
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
