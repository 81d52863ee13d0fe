#include "run/replay.h"

struct failure *replay_run(struct plan *body, const struct replay *l, struct run *r, uint8_t *const base[]) {
  (void)body, (void)l, (void)r, (void)base;
  return fail(WEFT_ERR_UNSUPPORTED, 0, "weft_loop: this body cannot be run yet");
}
