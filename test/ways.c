#include "ways.h"
#include <stdlib.h>
#include "run/compiled.h"
#include "run/plan.h"
#include "weft.h"

const struct way ways[] = {
  { "fused, x86", "x86", true, 1 },
  { "fused, vm", "vm", true, 1 },
  { "one op a kernel, vm", "vm", false, 1 },
  { "one op a kernel, x86", "x86", false, 1 },
  { "fused, avx2, 3 threads", "avx2", true, 3 },
  { "fused, x86, 2 threads", "x86", true, 2 },
};
const int n_ways = (int)(sizeof ways / sizeof *ways);

const struct way fused_ways[FUSED_WAYS] = {
  { "vm", "vm", true, 3 }, { "avx2", "avx2", true, 1 }, { "the best", NULL, true, 1 }, { "the best", NULL, true, 3 },
};

void way_take(const struct way *w) {
  plan_drop_all();
  compiled_drop_all();
  plan_use_fusing(w->fuse);
  compiled_use(w->backend);
  weft_set(WEFT_THREADS, w->threads);
  const char *there = getenv("WEFT_DEVICE"); /* a fuzzer on a device: all ways are there */
  weft_set(WEFT_DEVICE, w->device || !there ? w->device : atoi(there));
}

void way_leave(void) { way_take(&(struct way){ "", NULL, true, 0 }); }
