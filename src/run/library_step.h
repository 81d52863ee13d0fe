/* library_step.h -- what steps of library code and functions of the host share. */
#ifndef WEFT_RUN_LIBRARY_STEP_H
#define WEFT_RUN_LIBRARY_STEP_H
#include "run/plan.h"

typedef struct failure *library_runner(const struct library *, const struct library_call *, struct run *);

void library_stores(struct schedule *, struct step *, store_visitor *, void *of);
struct failure *library_run(const struct plan *, int step, struct run *, uint8_t *const base[], library_runner *);
void library_show(const struct plan *, int step, struct text *);

#endif
