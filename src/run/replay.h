/* replay.h -- a loop run step by step: the plan of its body on ping-pong buffers, nothing planned or allocated a step. */
#ifndef WEFT_REPLAY_H
#define WEFT_REPLAY_H
#include "run/plan.h"

struct plan *plan_of(struct arena *, struct schedule *, const struct device *, struct failure **); /* compiles the kernels
                                                                                                      of a schedule */
struct failure *plan_step(const struct plan *, int step, struct run *, uint8_t *const base[]); /* base: of stores, where it runs */
struct failure *plan_steps(const struct plan *, struct run *, uint8_t *const base[]);
struct failure *replay_run(struct plan *body, const struct replay *, struct run *, uint8_t *const base[]);

#endif
