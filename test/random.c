/* random.c -- random draws: streams that were recorded from MLX, the same draws however they are computed, and what they follow. */
#include <math.h>
#include <stdlib.h>
#include "every_recipe.h"
#include "values.h"

static weft_array *of(weft_dtype d, int64_t n) { return weft_full(d, 1, &n, 0); }

/* ---- Recorded ---- */

#define EXPECT_U32(a, ...)                                                                           \
  do {                                                                                               \
    uint32_t want_[] = { __VA_ARGS__ }, got_[sizeof want_ / sizeof *want_];                          \
    EXPECT_OK(weft_read(a, WEFT_U32, got_, sizeof got_));                                            \
    for (size_t i_ = 0; i_ < sizeof want_ / sizeof *want_; i_++) EXPECT_INT(got_[i_], want_[i_]);    \
  } while (0)

#define EXPECT_F32(a, ulps, ...)                                                                     \
  do {                                                                                               \
    float want_[] = { __VA_ARGS__ }, got_[sizeof want_ / sizeof *want_];                             \
    EXPECT_OK(weft_read(weft_cast(a, WEFT_F32), WEFT_F32, got_, sizeof got_));                       \
    for (size_t i_ = 0; i_ < sizeof want_ / sizeof *want_; i_++)                                     \
      if (!(fabsf(got_[i_] - want_[i_]) <= (ulps) * (nextafterf(fabsf(want_[i_]), INFINITY) - fabsf(want_[i_])))) \
        test_fail(__FILE__, __LINE__, "%s[%d] is %a, not %a", #a, (int)i_, got_[i_], want_[i_]);     \
  } while (0)

TEST(keys_and_their_bits_are_those_recorded) {
  weft_scope *s = weft_scope_open();
  EXPECT_U32(weft_random_key(UINT64_C(0x10000000005)), 256, 5);
  EXPECT_U32(weft_random_bits(weft_random_key(0), weft_full(WEFT_U32, 0, NULL, 0)), 1797259609u);
  EXPECT_U32(weft_random_bits(weft_random_key(0), of(WEFT_U32, 2)), 928981903u, 3453687069u);
  EXPECT_U32(weft_random_bits(weft_random_key(0), of(WEFT_U32, 3)), 4146024105u, 1351547692u, 2718843009u);
  EXPECT_U32(weft_random_split(weft_random_key(7), 3), 276534068u, 861967409u, 1905761346u, 1641862660u, 2900896126u, 1402713516u);
  EXPECT_U32(weft_random_split(weft_random_key(UINT64_C(0x10000000005)), 2), 2588430962u, 1672726310u, 3246284531u, 1850734787u);
  weft_scope_discard(s);
}

TEST(uniform_draws_are_those_recorded) {
  weft_scope *s = weft_scope_open();
  EXPECT_F32(weft_random_uniform(weft_random_key(11), weft_full(WEFT_F32, WEFT_DIMS(3, 3), 0), NULL, NULL), 0, 0x1.26a9dep-3,
             0x1.20a482p-1, 0x1.bf0ad2p-1, 0x1.46bb8ep-1, 0x1.1a82dcp-1, 0x1.ad18d8p-2, 0x1.55328ap-1, 0x1.381132p-3, 0x1.e5c81ep-1);
  EXPECT_F32(weft_random_uniform(weft_random_key(12), of(WEFT_F32, 5), weft_scalar(-2.5), weft_scalar(5.1)), 0, -0x1.5b4340p-1,
             0x1.93031cp+1, 0x1.628f5cp+0, -0x1.2dc59ap+1, 0x1.91bb6cp+1);
  EXPECT_F32(weft_random_uniform(weft_random_key(13), of(WEFT_F16, 5), NULL, NULL), 0, 0x1.46p-3, 0x1.928p-1, 0x1.f5p-2, 0x1.b2p-1,
             0x1.e18p-1);
  EXPECT_F32(weft_random_uniform(weft_random_key(13), of(WEFT_BF16, 5), NULL, NULL), 0, 0x1.46p-3, 0x1.92p-1, 0x1.f6p-2, 0x1.b2p-1,
             0x1.e2p-1);
  weft_scope_discard(s);
}

TEST(integers_and_truths_are_those_recorded) {
  weft_scope *s = weft_scope_open();
  weft_array *low = weft_integer(-5), *high = weft_integer(10), *wide = weft_integer(INT64_C(1) << 40);
  EXPECT_F64(weft_cast(weft_random_randint(weft_random_key(3), of(WEFT_I32, 12), low, high), WEFT_F64), 7, 3, 9, 1, 5, 8, 6, -2, 0, 2,
             -4, 2);
  EXPECT_F64(weft_cast(weft_random_randint(weft_random_key(3), of(WEFT_I64, 4), NULL, wide), WEFT_F64), 262274957312, 12225966080,
             666571571200, 368118464512);
  EXPECT_F64(weft_cast(weft_random_bernoulli(weft_random_key(4), of(WEFT_BOOL, 16), weft_scalar(0.3)), WEFT_F64), 1, 1, 1, 0, 1, 0, 0,
             0, 0, 0, 0, 0, 1, 0, 0, 0);
  low = weft_from(WEFT_I32, WEFT_DIMS(1), (int32_t[]){ -5 }), high = weft_from(WEFT_I32, WEFT_DIMS(1), (int32_t[]){ -3 });
  EXPECT_F64(weft_cast(weft_random_randint(weft_random_key(3), of(WEFT_U16, 6), low, high), WEFT_F64), 65531, 65531, 65531, 65532,
             65532, 65532);
  weft_scope_discard(s);
}

/* Words within rounding of p 2^32: recorded of keys and places where one of them falls. */
TEST(truths_whose_word_is_all_but_p_are_those_recorded) {
  static const struct { uint64_t seed; int64_t n, place; double p; } at[] = {
    { 2147483648u, 65537, 56576, 0.3 }, { 19, 262144, 92544, 0.5 }, { 3, 262144, 240522, 0.7 }, { 2, 262144, 120247, 0.9 },
    { 3, 262144, 49741, 0.9 } };
  weft_scope *s = weft_scope_open();
  for (int i = 0; i < 5; i++) {
    weft_array *y = weft_random_bernoulli(weft_random_key(at[i].seed), of(WEFT_BOOL, at[i].n), weft_scalar(at[i].p));
    EXPECT_F64(weft_cast(weft_slice(y, 0, at[i].place, at[i].place + 1, 1), WEFT_F64), 1);
  }
  weft_scope_discard(s);
}

/* Of all words theirs is up to 3.88 ulp off the quantile, ours 2.11, and they lie up to 4 floats apart: docs/mlx.md. */
TEST(normal_draws_are_near_those_recorded) {
  weft_scope *s = weft_scope_open();
  EXPECT_F32(weft_random_normal(weft_random_key(6), of(WEFT_F32, 8), NULL, NULL), 4, 0x1.0b7382p-1, 0x1.4ba186p-2, 0x1.1a9d54p-2,
             -0x1.950d4ap-4, -0x1.d15e32p-3, -0x1.bbfcbap-2, 0x1.5a5698p-6, -0x1.dda59cp-4);
  weft_scope_discard(s);
}

/* ---- However they are computed ---- */

static weft_array *draws_of(weft_array *key) {
  weft_array *u = weft_random_uniform(key, weft_full(WEFT_F32, WEFT_DIMS(3, 37), 0), NULL, NULL);
  weft_array *z = weft_random_normal(key, weft_full(WEFT_F64, WEFT_DIMS(37), 0), NULL, weft_scalar(2));
  weft_array *b = weft_random_bits(key, weft_full(WEFT_I16, WEFT_DIMS(37), 0));
  return weft_add(weft_add(weft_cast(u, WEFT_F64), z), weft_cast(b, WEFT_F64));
}

TEST(draws_have_the_same_bits_in_every_way_of_evaluation) {
  double *first = NULL;
  for (int i = 0; i < 5; i++) {
    size_t n;
    way_take(&ways[i]);
    weft_scope *s = weft_scope_open();
    double *x = all_f64(draws_of(weft_random_key(42)), &n);
    if (first && !are_same(first, x, n)) test_fail(__FILE__, __LINE__, "%s draws others than %s", ways[i].name, ways[0].name);
    weft_scope_discard(s);
    way_leave();
    if (first) free(x);
    else first = x;
  }
  free(first);
}

TEST(draws_mapped_over_keys_are_those_of_each_key) {
  weft_scope *s = weft_scope_open();
  weft_array *keys = weft_random_split(weft_random_key(1), 5), *key = weft_input(WEFT_U32, WEFT_DIMS(2)), *y = draws_of(key), *ys;
  weft_map(1, &key, &keys, 1, &y, &ys);
  for (int64_t i = 0; i < 5; i++) EXPECT_SAME(weft_at(ys, 0, weft_integer(i)), draws_of(weft_at(keys, 0, weft_integer(i))));
  weft_scope_discard(s);
}

TEST(a_key_that_a_loop_carries_draws_the_same) {
  weft_scope *s = weft_scope_open();
  weft_array *key = weft_random_key(5), *pair, *want = weft_full(WEFT_F64, WEFT_DIMS(3, 37), 0);
  weft_loop *loop = weft_loop_open(weft_integer(4));
  weft_array *k = weft_loop_carry(loop, key), *sum = weft_loop_carry(loop, want);
  pair = weft_random_split(k, 2);
  weft_loop_next(loop, k, weft_at(pair, 0, weft_integer(0)));
  weft_loop_next(loop, sum, weft_add(sum, draws_of(weft_at(pair, 0, weft_integer(1)))));
  weft_array *got = weft_loop_last(loop, sum);
  weft_loop_close(loop);
  for (int i = 0; i < 4; i++) {
    pair = weft_random_split(key, 2);
    key = weft_at(pair, 0, weft_integer(0));
    want = weft_add(want, draws_of(weft_at(pair, 0, weft_integer(1))));
  }
  EXPECT_SAME(got, want);
  weft_scope_discard(s);
}

static weft_array *noisy(weft_array *key, weft_array *x) { return weft_add(x, weft_random_normal(key, x, NULL, NULL)); }

TEST(draws_of_sizes_that_a_call_tells_are_those_of_known_sizes) {
  weft_scope *s = weft_scope_open(), *body = weft_scope_open();
  weft_array *in[2] = { weft_input(WEFT_U32, WEFT_DIMS(2)), weft_input(WEFT_F32, WEFT_DIMS(WEFT_ANY, WEFT_ANY)) };
  weft_array *out = noisy(in[0], in[1]), *y;
  weft_function *f = weft_compile(body, 2, in, 1, &out);
  for (int64_t n = 0; n < 40; n += 13) {
    weft_array *x = weft_full(WEFT_F32, WEFT_DIMS(n, 7), 0.5), *key = weft_random_key((uint64_t)n);
    weft_call(f, WEFT_ARRAYS(key, x), 1, &y);
    EXPECT_SAME(y, noisy(key, x));
  }
  weft_scope_discard(s);
}

static int kernels_of(weft_array *y) {
  weft_cost cost = { 0 };
  EXPECT_OK(weft_plan(1, &y, &cost));
  return cost.kernels;
}

TEST(draws_are_computed_in_the_kernel_that_uses_them) {
  weft_scope *s = weft_scope_open();
  float *some = calloc(64 * 300, sizeof *some);
  weft_array *x = weft_from(WEFT_F32, WEFT_DIMS(64, 300), some), *key = weft_random_key(3);
  EXPECT_INT(kernels_of(noisy(key, x)), 1);
  EXPECT_INT(kernels_of(weft_sum(weft_mul(noisy(key, x), x), -1)), 1);
  EXPECT_INT(kernels_of(weft_where(weft_random_bernoulli(key, x, weft_scalar(0.9)), weft_mul(x, weft_scalar(2)), weft_scalar(0))), 1);
  weft_cost cost = { 0 };
  weft_array *y = weft_sum(noisy(key, x), WEFT_ALL);
  EXPECT_OK(weft_plan(1, &y, &cost));
  EXPECT(cost.moved_bytes < 2 * 64 * 300 * 4); /* x is read, no draw is stored */
  free(some);
  weft_scope_discard(s);
}

/* ---- Nonsense ---- */

#define EXPECT_BAD(a, text)                                                                          \
  do {                                                                                               \
    if (weft_check(a) == WEFT_OK) test_fail(__FILE__, __LINE__, "%s is not bad", #a);                \
    else EXPECT_TEXT(weft_message(), text);                                                          \
  } while (0)

TEST(random_nonsense_is_named) {
  weft_scope *s = weft_scope_open();
  weft_array *key = weft_random_key(0), *f = of(WEFT_F32, 3), *i = of(WEFT_I32, 3);
  EXPECT_BAD(weft_random_normal(f, f, NULL, NULL), "weft_random_normal: a key is u32 [2], not f32 [3]; see weft_random_key");
  EXPECT_BAD(weft_random_normal(key, f, NULL, weft_scalar(-1)), "weft_random_normal: sd is -1, not at least 0");
  EXPECT_BAD(weft_random_bernoulli(key, NULL, weft_scalar(1.5)), "weft_random_bernoulli: p is 1.5, not in [0, 1]");
  EXPECT_BAD(weft_random_normal(key, i, NULL, NULL), "weft_random_normal: not of i32");
  EXPECT_BAD(weft_random_bits(key, f), "weft_random_bits: not of f32");
  EXPECT_BAD(weft_random_randint(key, i, weft_integer(4), weft_integer(4)), "weft_random_randint: there is no integer from 4 to below 4");
  EXPECT_BAD(weft_random_randint(key, of(WEFT_U8, 9), NULL, weft_integer(300)),
             "weft_random_randint: from 0 to below 300 is beyond u8");
  EXPECT_BAD(weft_random_randint(key, of(WEFT_U16, 9), weft_integer(-5), weft_integer(3)),
             "weft_random_randint: from -5 to below 3 is beyond u16");
  EXPECT_BAD(weft_random_uniform(key, weft_full(WEFT_F32, WEFT_DIMS(1 << 20, 1 << 20), 0), NULL, NULL),
             "weft_random_uniform: 1099511627776 draws of one key, of which there are 2^32; split it");
  EXPECT_BAD(weft_random_split(key, -1), "weft_random_split: the size -1 on axis 0 is negative");
  weft_array *sd = weft_from(WEFT_F32, WEFT_DIMS(3), (float[]){ 1, -1, 0 });
  float z[3];
  EXPECT_OK(weft_read(weft_random_normal(key, NULL, NULL, sd), WEFT_F32, z, sizeof z));
  EXPECT(isfinite(z[0]) && isnan(z[1]) && z[2] == 0);
  weft_scope_discard(s);
}
