/* tables.h -- what each file of this folder has written, compiled for one tier. */
#ifndef BENCH_TABLES_H
#define BENCH_TABLES_H
#include "hand.h"

#define HAND_TABLES(X, tier) X(elements, tier) X(rows, tier) X(folds, tier) X(views, tier) X(loops, tier)
#define HAND_DECLARE(name, tier) extern const struct hand name##_##tier[];
HAND_TABLES(HAND_DECLARE, avx2)
HAND_TABLES(HAND_DECLARE, avx512)
void stream_avx2(const struct stream *, int part, int parts), stream_avx512(const struct stream *, int part, int parts);

#endif
