/* thread.h -- how weft starts a thread of its own. */
#ifndef WEFT_THREAD_H
#define WEFT_THREAD_H
#include <pthread.h>
#include <stdbool.h>

/* Signals are the host's business: only those that a thread brings upon itself reach it. NULL for `thread`: detached.
 * false: none to be had. What lives there calls buffer_mark_own_thread first. */
bool thread_start(pthread_t *thread, void *(*live)(void *), void *arg);

/* Processors a thread may run on; `bits` all 0: nobody can say. */
struct cpus { unsigned long bits[8192 / (8 * sizeof(unsigned long))]; };
struct cpus thread_cpus(void); /* the caller */
int thread_cpu(void);          /* where it runs; -1: nobody can say */
/* They may run on `all` but one; if that leaves none, nothing changes. */
void thread_keep_off(int n, const pthread_t threads[], const struct cpus *all, int cpu);

#endif
