/* pool.h -- the library's own threads: started when first needed, spinning a little, then asleep; fork-safe. */
#ifndef WEFT_POOL_H
#define WEFT_POOL_H
#include <stdbool.h>

/* Runs part(ctx, i) once for every i in [0, n), on at most `threads` threads, the caller among them; returns when all
 * are done. Parts are handed out in order. Any number of callers at once; a nested call runs on its caller alone. */
void pool_run(int n, int threads, void (*part)(void *ctx, int i), void *ctx);
/* A thread would join a job at once; or it is time to wake one again, since work that is only shared with those that are awake
 * would never find one. */
bool pool_is_awake(void);
/* Whether work of so many operations is to be shared. Of less than about a millisecond: not for a while after such work has ended
 * later for being shared, as it does where other programs use the processors. To be asked once for each. Always if somebody said
 * how many threads there are. */
bool pool_pays(double operations);
void pool_insist(void); /* somebody did */
int pool_threads(void); /* how many make sense here: affinity mask and cgroup quota; at least 1 */
void pool_stop(void);   /* joins the threads (tests, leak checkers); they start again when needed */

#endif
