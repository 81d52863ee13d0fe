/* loop.c -- loops as one kernel where the body allows, else as a replay of the body's own schedule. */
#include "schedule/work.h"

bool step_loop(struct work *w, struct node *n) {
  return work_fail(w, fail(WEFT_ERR_UNSUPPORTED, n->origin, "weft_loop: not scheduled yet"));
}
