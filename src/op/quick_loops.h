/* quick_loops.h -- the loops of quick.c for keys of BITS bits: included once for each width. */
#define QUICK_PASTE_(a, b, c) a##b##c
#define QUICK_PASTE(a, b, c) QUICK_PASTE_(a, b, c)
#define NAME(x) QUICK_PASTE(x, _, BITS)
#define WORD QUICK_PASTE(uint, BITS, _t)
#define LANES (512 / BITS)
#define VECTORS (QUICK_FEW / LANES)

/* The first n lanes. */
#define LANES_MASK(n) ((lanes_mask)(((uint64_t)1 << (n)) - 1))
#if BITS == 32
#define lanes_mask __mmask16
#define IS_BELOW _mm512_cmplt_epu32_mask
#define IS_NOT_ABOVE _mm512_cmple_epu32_mask
#define IS_EQUAL _mm512_cmpeq_epu32_mask
#define SPLAT(x) _mm512_set1_epi32((int)(x))
#define SOME(m, p) _mm512_maskz_loadu_epi32(m, p)
#define TOGETHER(m, v) _mm512_maskz_compress_epi32(m, v)
#define MORE(r, m) _mm512_mask_add_epi32(r, m, r, _mm512_set1_epi32(1))
#define TO_RANKS(p, m, r, v) _mm512_mask_i32scatter_epi32(p, m, r, v, 4)
#else
#define lanes_mask __mmask8
#define IS_BELOW _mm512_cmplt_epu64_mask
#define IS_NOT_ABOVE _mm512_cmple_epu64_mask
#define IS_EQUAL _mm512_cmpeq_epu64_mask
#define SPLAT(x) _mm512_set1_epi64((long long)(x))
#define SOME(m, p) _mm512_maskz_loadu_epi64(m, p)
#define TOGETHER(m, v) _mm512_maskz_compress_epi64(m, v)
#define MORE(r, m) _mm512_mask_add_epi64(r, m, r, _mm512_set1_epi64(1))
#define TO_RANKS(p, m, r, v) _mm512_mask_i64scatter_epi64(p, m, r, v, 8)
#endif

/* At most QUICK_FEW keys: each is compared with all, and goes to the place which that says; equal ones as they stood. `to` may be
 * where they stand. */
QUICK_TARGET static void NAME(by_ranks)(const WORD *from, int n, WORD *to) {
  __m512i x[VECTORS], rank[VECTORS];
  int vectors = (n + LANES - 1) / LANES;
  for (int v = 0; v < vectors; v++) {
    int left = n - v * LANES;
    x[v] = SOME(LANES_MASK(left < LANES ? left : LANES), from + v * LANES), rank[v] = _mm512_setzero_si512();
  }
  for (int v = 0; v < vectors; v++) {
    int first = v * LANES, end = n - first < LANES ? n : first + LANES, j = 0;
    for (; j < first; j++) rank[v] = MORE(rank[v], IS_NOT_ABOVE(SPLAT(from[j]), x[v]));
    for (; j < end; j++) {
      lanes_mask is_later = (lanes_mask)(~(uint64_t)1 << (j - first)), is_equal = IS_EQUAL(SPLAT(from[j]), x[v]);
      rank[v] = MORE(rank[v], (lanes_mask)(IS_BELOW(SPLAT(from[j]), x[v]) | (is_equal & is_later)));
    }
    for (; j < n; j++) rank[v] = MORE(rank[v], IS_BELOW(SPLAT(from[j]), x[v]));
  }
  for (int v = 0; v < vectors; v++) {
    int left = n - v * LANES;
    TO_RANKS(to, LANES_MASK(left < LANES ? left : LANES), rank[v], x[v]);
  }
}

/* The middle one of some. */
QUICK_TARGET static WORD NAME(pivot)(const WORD *a, int64_t n) {
  WORD some[QUICK_FEW];
  int m = n < 1024 ? 8 : QUICK_FEW;
  for (int64_t i = 0, step = n / m; i < m; i++) some[i] = a[i * step + step / 2];
  NAME(by_ranks)(some, m, some);
  return some[m / 2];
}

/* a to b: first those below the pivot, how many is returned, then the others, which are gathered at the front of a before. Both
 * are stored as whole vectors: what is too much is behind them, where nobody has been yet. takes_equal: those equal to the pivot
 * are with those below. */
QUICK_TARGET static inline __attribute__((always_inline)) int64_t NAME(part_by)(WORD *a, int64_t n, WORD pivot, bool takes_equal,
                                                                               WORD *b) {
  __m512i p = SPLAT(pivot);
  int64_t low = 0, high = 0, i = 0;
  for (; i + LANES <= n; i += LANES) {
    __m512i v = _mm512_loadu_si512(a + i);
    lanes_mask is_low = takes_equal ? IS_NOT_ABOVE(v, p) : IS_BELOW(v, p);
    int k = __builtin_popcount(is_low);
    _mm512_storeu_si512(b + low, TOGETHER(is_low, v));
    _mm512_storeu_si512(a + high, TOGETHER((lanes_mask)~is_low, v));
    low += k, high += LANES - k;
  }
  for (; i < n; i++) {
    WORD x = a[i];
    bool is_low = takes_equal ? x <= pivot : x < pivot;
    *(is_low ? &b[low] : &a[high]) = x;
    low += is_low, high += !is_low;
  }
  memcpy(b + low, a, (size_t)high * sizeof *a);
  return low;
}

QUICK_TARGET static int64_t NAME(part)(WORD *a, int64_t n, WORD pivot, WORD *b) { return NAME(part_by)(a, n, pivot, false, b); }
QUICK_TARGET static int64_t NAME(part_equal)(WORD *a, int64_t n, WORD pivot, WORD *b) {
  return NAME(part_by)(a, n, pivot, true, b);
}

/* Keys that no pivot brings apart soon, by their digits. */
static void NAME(by_digits)(WORD *a, WORD *b, int64_t n, bool into_b, int64_t count[]) {
  uint8_t *e = digits_sort((uint8_t *)a, (uint8_t *)b, n, sizeof *a, 0, count);
  WORD *to = into_b ? b : a;
  if (e != (uint8_t *)to) memcpy(to, e, (size_t)n * sizeof *to);
}

/* The keys stand in a and end in a, or in b; the other is used up. */
QUICK_TARGET static void NAME(sort)(WORD *a, WORD *b, int64_t n, bool into_b, int depth, int64_t count[]) {
  while (n > QUICK_FEW) {
    if (!depth--) { NAME(by_digits)(a, b, n, into_b, count); return; }
    WORD pivot = NAME(pivot)(a, n), *was = a;
    int64_t k = NAME(part)(a, n, pivot, b);
    if (k) NAME(sort)(b, a, k, !into_b, depth, count);
    else { /* nothing is below it: those equal to it are in order */
      k = NAME(part_equal)(a, n, pivot, b);
      if (!into_b) memcpy(a, b, (size_t)k * sizeof *a);
    }
    a = b + k, b = was + k, n -= k, into_b = !into_b;
  }
  if (n) NAME(by_ranks)(a, (int)n, into_b ? b : a);
}

#undef lanes_mask
#undef LANES_MASK
#undef IS_BELOW
#undef IS_NOT_ABOVE
#undef IS_EQUAL
#undef SPLAT
#undef SOME
#undef TOGETHER
#undef MORE
#undef TO_RANKS
#undef VECTORS
#undef LANES
#undef WORD
#undef NAME
#undef QUICK_PASTE
#undef QUICK_PASTE_
