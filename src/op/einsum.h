/* einsum.h -- in which order the operands of a sum of products are taken together, two at a time (einsum_path.c). */
#ifndef WEFT_OP_EINSUM_H
#define WEFT_OP_EINSUM_H
#include <stdint.h>
#include "weft.h"

enum { EINSUM_LETTERS = 52, EINSUM_NAMES = EINSUM_LETTERS + WEFT_RANK_MAX, EINSUM_OPERANDS = 32 }; /* names beyond letters: axes
                                                                              under "..", the last first */

/* Names of axes, a bit each. */
struct name_bits { uint64_t word[2]; };
static inline void name_bits_add(struct name_bits *s, int name) { s->word[name / 64] |= UINT64_C(1) << name % 64; }

/* Pairs by the places of their operands among those that are left: both leave, and what comes of them is last. */
struct einsum_path { int pair[EINSUM_OPERANDS][2]; double products; };

/* names: of the operands; wanted: of the result; length: by name. */
void einsum_find_path(struct einsum_path *, int n, const struct name_bits names[], struct name_bits wanted, const double length[]);

#endif
