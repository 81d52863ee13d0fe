/* bundled.h -- plans on a device whose steps are handed to it at once.
 *
 * Two runs of a plan on the same addresses enqueue the same launches, to the last parameter. The second run of a plan is recorded
 * as a bundle (struct device), which is kept with it and started again for such a run; on other addresses it is renewed. */
#ifndef WEFT_BUNDLED_H
#define WEFT_BUNDLED_H
#include "run/plan.h"

struct bundled; /* what a plan keeps */
bool bundled_may(const struct plan *);                  /* its steps only enqueue, there is more than one, and the device can */
void bundled_free(struct bundled *, const struct device *); /* NULL: nothing */

/* All steps on the memory of stores there. False: nothing was enqueued, and they are to be run one after the other. *failure: it
 * went wrong. */
bool bundled_run(struct plan *, struct run *, uint8_t *const there[], struct failure **failure);

#endif
