/* integer.c -- of whole numbers: common divisors and multiples, and how many bits are set. */
#include "op/composed.h"
#include "op/random.h"

static weft_dtype unsigned_of(weft_dtype d) { return dtype_is_signed(d) ? (weft_dtype)(d - WEFT_I8 + WEFT_U8) : d; }

/* |x| without a sign: of the lowest number too. */
static weft_array *magnitude(weft_array *x) { return weft_cast(weft_abs(x), unsigned_of(weft_dtype_of(x))); }

/* Both usable, integers, and in the dtype in which they meet. */
static bool both(const char *fn, weft_array *x[2], weft_array **bad) {
  struct node *n[2];
  weft_dtype met;
  if (!arrays_nodes(fn, 2, x, n, bad)) return false;
  struct failure *why = common_dtype(fn, 2, n, &met);
  if (!why && !dtype_is_integer(met)) why = not_of(fn, met);
  if (why) return *bad = array_of_bad(why, 2, n), false;
  for (int k = 0; k < 2; k++) x[k] = array_of(node_cast(n[k], met));
  return true;
}

/* Euclid's: (a, b) becomes (b, a mod b) until b is 0. Elements leave one by one; the longest way has 93 steps. */
static weft_array *euclid(const void *ctx, weft_array *const x[]) {
  (void)ctx;
  weft_loop *loop = weft_loop_open(NULL);
  weft_array *a = weft_loop_carry(loop, x[0]), *b = weft_loop_carry(loop, x[1]), *rest = weft_remainder(a, b);
  weft_loop_next(loop, a, b);
  weft_loop_next(loop, b, rest);
  weft_loop_until(loop, weft_eq(rest, weft_integer(0)));
  weft_array *last = weft_loop_last(loop, a);
  weft_loop_close(loop);
  return last;
}

/* Without a sign. */
static weft_array *divisor(const char *fn, weft_array *const x[2]) {
  return lanes_map(fn, 2, (weft_array *[]){ magnitude(x[0]), magnitude(x[1]) }, euclid, NULL);
}

weft_array *weft_gcd(weft_array *a, weft_array *b) {
  weft_array *bad, *x[2] = { a, b };
  if (!both("weft_gcd", x, &bad)) return bad;
  return weft_cast(divisor("weft_gcd", x), weft_dtype_of(x[0]));
}

/* |a| / gcd |b|; 0 / 0 is 0 here. */
weft_array *weft_lcm(weft_array *a, weft_array *b) {
  weft_array *bad, *x[2] = { a, b };
  if (!both("weft_lcm", x, &bad)) return bad;
  weft_array *y = weft_mul(weft_floor_divide(magnitude(x[0]), divisor("weft_lcm", x)), magnitude(x[1]));
  return weft_cast(y, weft_dtype_of(x[0]));
}

/* ---- Bits ---- */

static weft_array *pattern(weft_dtype d, uint64_t byte) {
  return weft_cast(weft_integer((int64_t)(byte * 0x0101010101010101u)), d);
}

/* The bits of every pair, of every four, of every byte are counted where they stand; a product adds the bytes in the highest. */
weft_array *weft_bit_count(weft_array *x) {
  weft_array *bad;
  if (!arrays_ok("weft_bit_count", 1, &x, &bad)) return bad;
  weft_dtype d = weft_dtype_of(x);
  if (!dtype_is_integer(d) && d != WEFT_BOOL) return array_failed(not_of("weft_bit_count", d));
  if (d == WEFT_BOOL) return weft_cast(x, WEFT_U8);
  weft_dtype in = weft_dtype_bytes(d) == 8 ? WEFT_U64 : WEFT_U32;
  weft_array *n = weft_cast(magnitude(x), in), *by_4 = pattern(in, 0x33), *ones = pattern(in, 0x01);
  n = weft_sub(n, weft_and(weft_shr(n, weft_integer(1)), pattern(in, 0x55)));
  n = weft_add(weft_and(n, by_4), weft_and(weft_shr(n, weft_integer(2)), by_4));
  n = weft_and(weft_add(n, weft_shr(n, weft_integer(4))), pattern(in, 0x0F));
  return weft_cast(weft_shr(weft_mul(n, ones), weft_integer(in == WEFT_U64 ? 56 : 24)), WEFT_U8);
}
