/* processor.h -- the processors that kernels can be compiled for, in order of preference: what translates kernels there, and what
 * multiplies matrices. Whoever writes another encoder adds a row to processor.c; nobody else names an instruction set. */
#ifndef WEFT_PROCESSOR_H
#define WEFT_PROCESSOR_H
#include "backend/backend.h"
#include "backend/patch.h"

struct processor {
  const char *name, *text;               /* as WEFT_JIT names it; in words */
  const struct backend *backend;
  const struct contractor *contractor;
  int set;                               /* struct shape_class: which of the back end's instruction sets */
};

const struct processor *processor_named(const char *); /* that one, or the best behind it that is here; NULL: the best */
const struct processor *processor_any(void);           /* the last, which is always here and takes every kernel */
void processors_watch_forks(void);                     /* each back end once */

#endif
