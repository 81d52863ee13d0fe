/* select_loops.h -- the look of select.c at a long row, for vectors of LANES words of 32 bits: included once for each instruction
 * set (lanes.h). Most blocks of elements have none that is wanted, and what comes before is only counted. */
#define SCAN(bits, WORD, N)                                                                                                   \
  typedef WORD NAME(words_##bits) __attribute__((vector_size(bits / 8 * (N)), aligned(bits / 8), may_alias));                 \
  static int64_t NAME(scan_##bits)(const struct scan *s, int64_t *below) {                                                    \
    typedef NAME(words_##bits) words;                                                                                         \
    const WORD low = (WORD)s->between.low, span = (WORD)(s->between.high < s->keys.all ? s->between.high : s->keys.all) - low;\
    const WORD always = (WORD)s->keys.always, turned = (WORD)s->keys.below, nan = (WORD)s->keys.least_nan;                    \
    int64_t m = 0, i = s->begin, before = 0;                                                                                  \
    for (; i + BLOCK <= s->end; i += BLOCK) {                                                                                 \
      words any = { 0 }, less = { 0 };                                                                                        \
      WORD all[N], sum = 0, some = 0;                                                                                         \
      for (int k = 0; k < BLOCK; k += (N)) {                                                                                  \
        words x = *(const words *)(const void *)(s->from + (i + k) * (bits / 8));                                             \
        words key = (x ^ (always | (turned & (0 - (x >> (bits - 1)))))) | (words)((x & turned) >= nan);                       \
        any |= (words)(key - low <= span), less -= (words)(key < low);                                                        \
      }                                                                                                                       \
      memcpy(all, &any, sizeof all);                                                                                          \
      for (int k = 0; k < (N); k++) some |= all[k];                                                                           \
      memcpy(all, &less, sizeof all);                                                                                         \
      for (int k = 0; k < (N); k++) sum += all[k];                                                                            \
      before += (int64_t)sum;                                                                                                 \
      if (some) m = take_between(s, bits / 8, i, i + BLOCK, m, &(int64_t){ 0 });                                              \
    }                                                                                                                         \
    *below = before;                                                                                                          \
    return take_between(s, bits / 8, i, s->end, m, below);                                                                    \
  }

SCAN(32, uint32_t, LANES)
SCAN(64, uint64_t, LANES / 2)
#undef SCAN
