/* sort_loops.h -- where bytes are 0, for vectors of LANES places: included once for each instruction set (lanes.h). */

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
