/* launch.h -- runs a compiled kernel: cuts its outermost loop into parts for the pool, and gives `private` buffers a
 * neutral copy a block, merged in the order of docs/kir.md. The bits do not depend on the number of threads. */
#ifndef WEFT_LAUNCH_H
#define WEFT_LAUNCH_H
#include "backend/backend.h"

/* What one thread has found is brought together with what others have: the lowest place stays. lock: 0 while nobody does so. */
void findings_clear(struct finding[], int n);
void findings_join(struct finding to[], const struct finding[], int n, int *lock);

/* 0: done. 1: out of memory. 2: cancelled. launch->lo and hi are ignored: the whole kernel runs. */
int launch_run(const struct backend *, const struct code *, const struct kir_kernel *, const struct kir_facts *,
               const struct launch *, int threads);

/* Whether a launch takes memory to work in, for want of which it might end. */
bool launch_borrows(const struct backend *, const struct code *, const struct kir_kernel *, const struct kir_facts *,
                    const struct launch *);

#endif
