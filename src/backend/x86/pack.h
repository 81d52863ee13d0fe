/* pack.h -- panels of products by AVX2: rows of vectors where columns are neighbours, transposed in registers where k is. */
#ifndef WEFT_X86_PACK_H
#define WEFT_X86_PACK_H
#include "backend/patch.h"

void pack_avx2(const struct panel *);
void pairs_avx2(const struct panel *, bool is_left);
void fours_avx2(const struct panel *, bool is_left);
bool pairs_are_exact(const struct panel *);
dots_code *dots_avx2(weft_dtype, bool along_k), *dots_avx512(weft_dtype, bool along_k);

#endif
