/* hand.c -- chooses the tier. */
#include <stddef.h>
#include <string.h>
#include "tables.h"

#define ROW(name, tier) name##_##tier,
static const struct hand *const wide[] = { HAND_TABLES(ROW, avx512) }, *const narrow[] = { HAND_TABLES(ROW, avx2) };

static bool is_wide(void) { return __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw"); }

const char *hand_tier(void) { return is_wide() ? "AVX-512" : "AVX2"; }

const struct hand *hand_find(const char *work, int64_t cols) {
  const struct hand *const *tables = is_wide() && cols % 16 == 0 ? wide : narrow;
  for (size_t i = 0; i < sizeof wide / sizeof *wide; i++)
    for (const struct hand *h = tables[i]; h->work; h++)
      if (!strcmp(h->work, work)) return h;
  return NULL;
}

void hand_stream(const struct stream *s, int part, int parts) {
  if (is_wide()) stream_avx512(s, part, parts);
  else stream_avx2(s, part, parts);
}
