/* sort_loops.h -- words of keys and places, and where bytes are 0, for vectors of LANES of them: included once for each instruction
 * set (lanes.h). */

/* Elements of four bytes, from .. to - 1, as words. */
static struct span NAME(fill_words)(const struct row *r, struct order_keys k, int64_t from, int64_t to) {
  struct span s = { UINT64_MAX, 0, 0 };
#if LANES == 8
  __m512i least = _mm512_set1_epi64(-1), most = _mm512_setzero_si512(), below = _mm512_set1_epi64((long long)k.below);
  __m512i here = _mm512_add_epi64(_mm512_set_epi64(7, 6, 5, 4, 3, 2, 1, 0), _mm512_set1_epi64(from));
  for (; from + LANES <= to; from += LANES, here = _mm512_add_epi64(here, _mm512_set1_epi64(LANES))) {
    __m512i bits = _mm512_cvtepu32_epi64(_mm256_loadu_si256((const void *)(r->from + 4 * from)));
    __m512i is_below = _mm512_sub_epi64(_mm512_setzero_si512(), _mm512_srli_epi64(bits, 31));
    __mmask8 is_nan = _mm512_cmpge_epu64_mask(_mm512_and_si512(bits, below), _mm512_set1_epi64((long long)k.least_nan));
    __m512i turned = _mm512_or_si512(_mm512_set1_epi64((long long)k.always), _mm512_and_si512(below, is_below));
    __m512i key = _mm512_mask_set1_epi64(_mm512_xor_si512(bits, turned), is_nan, (long long)k.all);
    __m512i word = _mm512_or_si512(_mm512_slli_epi64(key, 32), here);
    least = _mm512_min_epu64(least, word), most = _mm512_max_epu64(most, word);
    _mm512_storeu_si512(r->e + 8 * from, word);
  }
  s = (struct span){ _mm512_reduce_min_epu64(least), _mm512_reduce_max_epu64(most), 0 };
#endif
  struct span rest = fill(r, k, 4, WORDS, from, to);
  return (struct span){ rest.least < s.least ? rest.least : s.least, rest.most > s.most ? rest.most : s.most, 0 };
}

/* The first n of the places from `from` on whose bytes are 0; those behind the last of them are not looked at. */
static void NAME(zeros)(const uint8_t *x, int64_t from, int64_t n, int64_t *to) {
  int64_t at = 0;
#if LANES == 8
  __m512i here = _mm512_add_epi64(_mm512_set_epi64(7, 6, 5, 4, 3, 2, 1, 0), _mm512_set1_epi64(from));
  for (; at + LANES <= n; from += LANES, here = _mm512_add_epi64(here, _mm512_set1_epi64(LANES))) {
    unsigned is = zeros_among(x + from);
    _mm512_storeu_si512(to + at, _mm512_maskz_compress_epi64((__mmask8)is, here));
    at += __builtin_popcount(is);
  }
#endif
  for (; at < n; from++) to[at] = from, at += !x[from];
}
