/* beside_loops.h -- the loops of beside.c for entries of BITS bits, LANES rows side by side: included once for each width. */
#define BESIDE_PASTE_(a, b, c) a##b##c
#define BESIDE_PASTE(a, b, c) BESIDE_PASTE_(a, b, c)
#define NAME(x) BESIDE_PASTE(x, _, BITS)
#define LANES (512 / BITS)

#if BITS == 32
#define lanes_mask __mmask16
#define EACH EACH_16
#define SPLAT(x) _mm512_set1_epi32((int)(x))
#define SHIFT_BY(v, n) _mm512_srl_epi32(v, _mm_cvtsi32_si128(n))
#define MINUS _mm512_sub_epi32
#define LEAST _mm512_min_epu32
#define MOST _mm512_max_epu32
#define IS_AT_LEAST _mm512_cmpge_epu32_mask
#define CHOOSE _mm512_mask_mov_epi32
#define LANES_OF(a, at, b) _mm512_permutex2var_epi32(a, at, b)
#define AT(F, h)                                                                                      \
  _mm512_set_epi32(F(15, h, 16), F(14, h, 16), F(13, h, 16), F(12, h, 16), F(11, h, 16), F(10, h, 16), \
                   F(9, h, 16), F(8, h, 16), F(7, h, 16), F(6, h, 16), F(5, h, 16), F(4, h, 16),       \
                   F(3, h, 16), F(2, h, 16), F(1, h, 16), F(0, h, 16))
#else
#define lanes_mask __mmask8
#define EACH EACH_8
#define SPLAT(x) _mm512_set1_epi64((long long)(x))
#define SHIFT_BY(v, n) _mm512_srl_epi64(v, _mm_cvtsi32_si128(n))
#define MINUS _mm512_sub_epi64
#define LEAST _mm512_min_epu64
#define MOST _mm512_max_epu64
#define IS_AT_LEAST _mm512_cmpge_epu64_mask
#define CHOOSE _mm512_mask_mov_epi64
#define LANES_OF(a, at, b) _mm512_permutex2var_epi64(a, at, b)
#define AT(F, h) _mm512_set_epi64(F(7, h, 8), F(6, h, 8), F(5, h, 8), F(4, h, 8), F(3, h, 8), F(2, h, 8), F(1, h, 8), F(0, h, 8))
#endif

/* The first n lanes, or all. */
static inline lanes_mask NAME(first)(int64_t n) { return (lanes_mask)(n < LANES ? ((unsigned)1 << n) - 1 : (unsigned)-1); }

/* ---- squares ---- */

/* LANES vectors, rows and columns exchanged: first of pairs of lanes, then of fours, .. */
#define STEP(i, h)                                                             \
  if (!((i) & (h))) {                                                          \
    __m512i a_ = v[i], b_ = v[((i) + (h)) % LANES];                            \
    v[i] = LANES_OF(a_, AT(FIRST, h), b_), v[((i) + (h)) % LANES] = LANES_OF(a_, AT(SECOND, h), b_); \
  }
BESIDE_INLINE void NAME(turn)(__m512i v[LANES]) {
  EACH(STEP, 1)
  EACH(STEP, 2)
  EACH(STEP, 4)
#if LANES == 16
  EACH(STEP, 8)
#endif
}
#undef STEP

#define TAKE(i, from) v[i] = _mm512_load_si512((from) + (i));
BESIDE_INLINE void NAME(turned)(const __m512i *from, __m512i v[LANES]) {
  EACH(TAKE, from)
  NAME(turn)(v);
}
#undef TAKE

/* ---- keys ---- */

/* Of elements of `bytes` bytes, which are the lower bits of lanes (order.h). */
struct NAME(keys) { __m512i always, below, least_nan, all; int top; };

BESIDE_INLINE struct NAME(keys) NAME(keys_of)(weft_dtype d) {
  struct order_keys k = order_keys_of(d);
  return (struct NAME(keys)){ SPLAT(k.always), SPLAT(k.below), SPLAT(k.least_nan), SPLAT(k.all), k.top };
}

/* The bits that differ between an element and its key: those of every element, and where is_turned is 1 all below its sign too. */
BESIDE_INLINE __m512i NAME(turns)(const struct NAME(keys) *k, __m512i is_turned) {
  __m512i all = MINUS(_mm512_setzero_si512(), is_turned);
  return _mm512_or_si512(k->always, _mm512_and_si512(k->below, all));
}

BESIDE_INLINE __m512i NAME(bits_of)(const struct NAME(keys) *k, __m512i key) {
  __m512i is_above = _mm512_and_si512(SHIFT_BY(key, k->top), SPLAT(1));
  return _mm512_xor_si512(key, NAME(turns)(k, _mm512_xor_si512(is_above, SPLAT(1))));
}

BESIDE_INLINE __m512i NAME(load)(const uint8_t *from, int bytes, lanes_mask m) {
#if BITS == 32
  if (bytes == 1) return _mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8(m, from));
  if (bytes == 2) return _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(m, from));
  return _mm512_maskz_loadu_epi32(m, from);
#else
  if (bytes == 1) return _mm512_cvtepu8_epi64(_mm_maskz_loadu_epi8(m, from));
  if (bytes == 2) return _mm512_cvtepu16_epi64(_mm_maskz_loadu_epi16(m, from));
  if (bytes == 4) return _mm512_cvtepu32_epi64(_mm256_maskz_loadu_epi32(m, from));
  return _mm512_maskz_loadu_epi64(m, from);
#endif
}

BESIDE_INLINE void NAME(store)(uint8_t *to, int bytes, lanes_mask m, __m512i v) {
#if BITS == 32
  if (bytes == 1) _mm_mask_storeu_epi8(to, m, _mm512_cvtepi32_epi8(v));
  else if (bytes == 2) _mm256_mask_storeu_epi16(to, m, _mm512_cvtepi32_epi16(v));
  else _mm512_mask_storeu_epi32(to, m, v);
#else
  (void)bytes;
  _mm512_mask_storeu_epi64(to, m, v);
#endif
}

/* ---- rows to places and back ---- */

/* Elements c, c + 1, .. of a row as entries; those behind its end come last of all. */
BESIDE_INLINE __m512i NAME(entries)(const struct NAME(keys) *k, const uint8_t *from, int bytes, bool are_words, int64_t c,
                                    lanes_mask m, int64_t *n_nan) {
  __m512i bits = NAME(load)(from + c * bytes, bytes, m);
  lanes_mask is_nan = IS_AT_LEAST(_mm512_and_si512(bits, k->below), k->least_nan);
  __m512i key = CHOOSE(_mm512_xor_si512(bits, NAME(turns)(k, SHIFT_BY(bits, k->top))), is_nan, k->all);
  *n_nan += __builtin_popcount(is_nan);
#if BITS == 64
  if (are_words) {
    __m512i here = _mm512_add_epi64(_mm512_set_epi64(7, 6, 5, 4, 3, 2, 1, 0), SPLAT(c));
    key = _mm512_or_si512(_mm512_slli_epi64(key, 32), here);
  }
#else
  (void)are_words;
#endif
  return CHOOSE(SPLAT(-1), m, key);
}

/* Places of all rows, to b->room: a multiple of LANES of them. */
#define FILL(i, c, m) v[i] = NAME(entries)(&k, b->from + (i) * b->from_each, bytes, are_words, c, m, &n_nan[i]);
#define KEEP(i, to) _mm512_store_si512((to) + (i), v[i]);
BESIDE_INLINE void NAME(fill)(const struct beside_rows *b, int bytes, bool are_words, int64_t n_nan[LANES]) {
  struct NAME(keys) k = NAME(keys_of)(b->dtype);
  __m512i *e = b->room, v[LANES];
  memset(n_nan, 0, sizeof *n_nan * LANES);
  for (int64_t c = 0; c < b->n; c += LANES) {
    lanes_mask m = NAME(first)(b->n - c);
    EACH(FILL, c, m)
    NAME(turn)(v);
    EACH(KEEP, e + c)
  }
}
#undef FILL

#define EXCHANGE(x, y)                            \
  do {                                            \
    __m512i a_ = (x), b_ = (y);                   \
    (x) = LEAST(a_, b_), (y) = MOST(a_, b_);      \
  } while (0)
#define EXCHANGE_PLACES(i, k) EXCHANGE(e[i], e[k])
#define TAKE(i, from) v[i] = _mm512_load_si512((from) + (i));

/* Up to 8 or 16 places in registers: those behind the n-th come last of all. */
BESIDE_TARGET static void NAME(order)(__m512i *e, int64_t n) {
  __m512i v[16];
  if (n <= 8) {
    EACH_8(TAKE, e)
    NETWORK_8
    EACH_8(KEEP, e)
  } else if (n <= 16) {
    EACH_16(TAKE, e)
    NETWORK_16
    EACH_16(KEEP, e)
  } else {
    NETWORK(n, EXCHANGE_PLACES)
  }
}

#define PUT(i, c, m) NAME(store)(b->y + (i) * b->y_each + (c) * bytes, bytes, m, NAME(bits_of)(&k, v[i]));
BESIDE_INLINE void NAME(sort_keys)(const struct beside_rows *b, int bytes, int64_t n_nan[LANES]) {
  NAME(fill)(b, bytes, false, n_nan);
  NAME(order)(b->room, b->n);
  struct NAME(keys) k = NAME(keys_of)(b->dtype);
  for (int64_t c = 0; c < b->n; c += LANES) {
    __m512i v[LANES];
    lanes_mask m = NAME(first)(b->n - c);
    NAME(turned)((const __m512i *)b->room + c, v);
    EACH(PUT, c, m)
  }
}
#undef PUT
#undef KEEP
#undef TAKE
#undef EXCHANGE_PLACES
#undef EXCHANGE

#undef lanes_mask
#undef EACH
#undef SPLAT
#undef SHIFT_BY
#undef MINUS
#undef LEAST
#undef MOST
#undef IS_AT_LEAST
#undef CHOOSE
#undef LANES_OF
#undef AT
#undef LANES
#undef NAME
#undef BESIDE_PASTE
#undef BESIDE_PASTE_
