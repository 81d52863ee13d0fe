/* gpu_pairs.c -- random draws on the GPU against the host: two elements of a thread share their words where counts are even, in
 * rows and without; the same bits for every count, shape and dtype, beside whatever else the kernel does. */
#include <string.h>
#include "gpu.h"

static weft_array *drawn_by(int what, weft_array *like) {
  weft_array *key = weft_random_key(5), *u = weft_random_uniform(key, like, weft_scalar(-1), weft_scalar(2));
  switch (what) {
    case 0: return u;
    case 1: return weft_random_normal(key, like, weft_scalar(0), weft_scalar(1));
    case 2: return weft_mul(like, weft_cast(weft_random_bernoulli(key, like, weft_scalar(0.3)), weft_dtype_of(like)));
    case 3: return weft_sub(u, weft_random_uniform(weft_random_key(6), like, weft_scalar(0), weft_scalar(1)));
    case 4: return weft_add(u, weft_flip(like, weft_rank(like) - 1));
    case 5: return weft_mul(u, weft_iota(like, 0));
    default: return weft_random_bits(key, weft_cast(like, WEFT_U32));
  }
}

static void expect_same(weft_dtype t, int rank, const int64_t dims[], int what) {
  weft_scope *s = weft_scope_open();
  size_t bytes = 0;
  void *got[2];
  for (int device = 0; device < 2; device++) {
    weft_set(WEFT_DEVICE, device);
    got[device] = bits_of(drawn_by(what, numbers(t, rank, dims)), &bytes);
  }
  weft_set(WEFT_DEVICE, 0);
  if (memcmp(got[0], got[1], bytes))
    test_fail(__FILE__, __LINE__, "%s of rank %d, first length %lld, draw %d", weft_dtype_name(t), rank, (long long)dims[0], what);
  free(got[0]), free(got[1]);
  weft_scope_discard(s);
}

TEST(cuda_draws_have_the_bits_of_the_host) {
  static const struct { int rank; int64_t dims[3]; } shapes[] = {
    { 1, { 1 } }, { 1, { 2 } }, { 1, { 7 } }, { 1, { 64 } }, { 1, { 1000 } }, { 1, { 1001 } }, { 2, { 4, 5 } }, { 2, { 5, 4 } },
    { 2, { 2, 1 } }, { 2, { 6, 33 } }, { 2, { 2, 300 } }, { 3, { 2, 3, 4 } }, { 3, { 4, 2, 6 } }, { 1, { 0 } }, { 2, { 2, 0 } },
  };
  static const weft_dtype dtypes[] = { WEFT_F32, WEFT_BF16, WEFT_F64 };
  test_watchdog(200);
  for (size_t k = 0; has_gpu() && k < sizeof shapes / sizeof *shapes; k++)
    for (size_t what = 0; what < 7; what++)
      expect_same(dtypes[(k + what) % 5 < 3 ? 0 : (k + what) % 5 - 2], shapes[k].rank, shapes[k].dims, (int)what);
}

/* The entry is there, and is the one that a count of words asks for. */
TEST(ptx_of_draws_computes_words_once) {
  weft_scope *s = weft_scope_open();
  weft_array *y = weft_random_uniform(weft_random_key(1), weft_full(WEFT_F32, WEFT_DIMS(64), 0), NULL, NULL);
  const char *text = weft_show(1, &y, "ptx");
  const char *at = strstr(text, "_pairs(");
  int n = 0;
  EXPECT(at != NULL);
  for (const char *x = at; x && (x = strstr(x, "shl.b32")); x++) n++;
  EXPECT_INT(n, 20); /* the rounds of one threefry */
  weft_scope_discard(s);
}
