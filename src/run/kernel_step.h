/* kernel_step.h -- a step that is a kernel; what kernels that run as part of a product share with it. */
#ifndef WEFT_RUN_KERNEL_STEP_H
#define WEFT_RUN_KERNEL_STEP_H
#include "run/plan.h"

/* The memory a step's kernel is given in a run: NULL where it stands nowhere; base NULL: all of it. */
void step_bind(const struct step *, const struct kir_kernel *, uint8_t *const base[], struct bound[]);
struct failure *step_index_failure(const struct step *, int site, struct finding, bool has_value); /* what a check has found */
struct failure *step_first_failure(const struct step *, const struct finding[]); /* that of the first site; NULL: nothing */

/* What all kinds of steps that have a kernel share. */
void kernel_stores(struct schedule *, struct step *, store_visitor *, void *of);
bool kernel_may_overwrite(const struct step *, int from, int to);
void kernel_drop(struct step *);
bool kernel_compile(struct plan *, int step, const struct device *, struct failure **); /* device NULL: for the host */
void kernel_show(const struct plan *, int step, const char *(*of_buffer)(const struct step *, int buf), struct text *);
                 /* of_buffer: what stands for a buffer that is in no store; NULL: it is in one */

#endif
