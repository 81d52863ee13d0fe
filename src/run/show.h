/* show.h -- plans as text. */
#ifndef WEFT_SHOW_H
#define WEFT_SHOW_H
#include "base/text.h"
#include "run/plan.h"

struct plan_set;

void store_show(const struct schedule *, int store, struct text *);       /* leaf0, out1, tmp@64 */
void plan_show(const struct plan *, const char *what, struct text *); /* what: "plan", "kernels", "asm", "ptx" */
void plan_set_show(const struct plan_set *, const char *what, struct text *); /* NULL: nothing */
void plan_show_if_asked(const struct plan *);                         /* the environment variable WEFT_SHOW */

#endif
