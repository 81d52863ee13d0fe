/* product.h -- runs the contractions of a plan: cuts a product into cells, copies what is better copied, multiplies patch by
 * patch, and gives each finished cell to the kernel that goes on with it. No choice made here changes a bit. */
#ifndef WEFT_PRODUCT_H
#define WEFT_PRODUCT_H
#include "run/plan.h"

struct failure *contract_run(const struct plan *, int step, struct run *, uint8_t *const base[]);
int64_t contract_scratch(const struct plan *, int step, int threads); /* bytes it takes to work in, whatever the numbers are */
bool contract_is_for_blas(const struct plan *, int step); /* as this thread's WEFT_BLAS is set */

#endif
