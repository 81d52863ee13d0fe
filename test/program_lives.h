/* program_lives.h -- a check of random programs: see program_lives.c. */
#ifndef WEFT_TEST_PROGRAM_LIVES_H
#define WEFT_TEST_PROGRAM_LIVES_H
#include "program_kinds.h"

bool program_lives(struct program *, char why[300], bool *is_skipped); /* false: a finding */

#endif
