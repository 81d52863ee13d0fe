/* streams.c -- what the memory of the machine gives: reads and writes with next to nothing in between. */
#include "tables.h"
#include "vec.h"

enum { UNROLL = 4, BLOCK = UNROLL * LANES };

/* n_in, write_every and is_large are constants where it is inlined. */
INLINE void run(const struct stream *s, int part, int parts, int n_in, int write_every, bool is_large) {
  int64_t lo = part_begin(s->n, 3 * BLOCK, part, parts), hi = part_begin(s->n, 3 * BLOCK, part + 1, parts);
  vec sum[UNROLL] = { v_set(0) };
  for (int64_t i = lo, turn = 0; i < hi; i += BLOCK, turn++) {
    for (int k = 0; k < UNROLL; k++) {
      vec x = v_load(s->in[0] + i + k * LANES);
      if (n_in > 1) x += v_load(s->in[1] + i + k * LANES);
      if (n_in > 2) x += v_load(s->in[2] + i + k * LANES);
      if (write_every == 1) v_put(s->out + i + k * LANES, x, is_large);
      else sum[k] += x;
    }
    if (write_every == 3 && turn % 3 == 2)
      for (int k = 0; k < UNROLL; k++) v_put(s->out + (i / 3 & -BLOCK) + k * LANES, sum[k], is_large);
  }
  if (!write_every) v_store(s->out + part * LANES, sum[0] + sum[1] + sum[2] + sum[3]);
  _mm_sfence();
}

void HAND(stream)(const struct stream *s, int part, int parts) {
#define CASE(r, w) \
  if (s->n_in == r && s->write_every == w) return s->is_large ? run(s, part, parts, r, w, true) : run(s, part, parts, r, w, false);
  CASE(1, 0) CASE(1, 1) CASE(1, 3) CASE(2, 0) CASE(2, 1) CASE(3, 1)
#undef CASE
}
