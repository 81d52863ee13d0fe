/* settings.c -- weft_get, weft_set, and what the machine is. */
#include "graph/node.h"
#include "run/buffer.h"
#include "run/eval.h"
#include "run/pool.h"

int64_t weft_get(weft_setting s) {
  switch (s) {
    case WEFT_DEVICE: return 0;
    case WEFT_DEVICE_COUNT: return 1;
    case WEFT_THREADS: return eval_settings()->threads ? eval_settings()->threads : pool_threads();
    case WEFT_EXACT: return eval_settings()->exact;
    case WEFT_BYTES_LIMIT: return memory_limit();
    case WEFT_BYTES_CACHE: return memory_cache_limit();
    case WEFT_BYTES_USED: return memory_used();
    case WEFT_BYTES_CACHED: return memory_cached();
    case WEFT_BYTES_PEAK: return memory_peak();
    case WEFT_NODES: return node_live();
    case WEFT_KERNELS: return compiled_count();
    case WEFT_KERNELS_VM: return compiled_fallbacks();
  }
  return -1;
}

int64_t weft_set(weft_setting s, int64_t v) {
  int64_t before = weft_get(s);
  switch (s) {
    case WEFT_DEVICE: return v == 0 ? before : -1;
    case WEFT_THREADS:
      if (v < 1 || v > 1024) return -1;
      eval_settings()->threads = (int)v;
      return before;
    case WEFT_EXACT: eval_settings()->exact = v != 0; return before;
    case WEFT_BYTES_LIMIT: memory_set_limit(v); return before;
    case WEFT_BYTES_CACHE: memory_set_cache_limit(v); return before;
    case WEFT_BYTES_PEAK: memory_set_peak(v); return before;
    default: return -1;
  }
}
