/* thread.h -- how weft starts a thread of its own. */
#ifndef WEFT_THREAD_H
#define WEFT_THREAD_H
#include <pthread.h>
#include <stdbool.h>

/* Signals are the host's business: only those that a thread brings upon itself reach it. NULL for `thread`: detached.
 * false: none to be had. What lives there calls buffer_mark_own_thread first. */
bool thread_start(pthread_t *thread, void *(*live)(void *), void *arg);

#endif
