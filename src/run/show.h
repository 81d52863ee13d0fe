/* show.h -- plans as text. */
#ifndef WEFT_SHOW_H
#define WEFT_SHOW_H
#include "base/text.h"
#include "run/plan.h"

void plan_show(const struct plan *, const char *what, struct text *); /* what: "plan", "kernels", "asm" */
void plan_show_if_asked(const struct plan *);                         /* the environment variable WEFT_SHOW */

#endif
