/* ptx_plan.h -- how a plan comes out of a survey. */
#ifndef WEFT_PTX_PLAN_H
#define WEFT_PTX_PLAN_H
#include "backend/cuda/survey.h"

const char *plan_make_attention(struct ptx_plan *, const struct kir_kernel *); /* the same */
const char *plan_make(struct ptx_plan *, const struct kir_kernel *, const struct survey *,
                      const struct shape_class *); /* NULL, or why not */

#endif
