/* fork.c -- the locks a fork must not catch half-way, in the order in which they are taken, and what a child forgets.
 *
 * Whoever holds one of them may take those further down, and those of jobs, memory and kernels' names, which watch forks for
 * themselves. A fork takes them in the same order, and none before it has the first and nobody overwrites: handlers that are
 * registered later come earlier, so one that is registered when it is first needed must take no lock. In the child the other
 * threads are gone: what they were computing is lazy again. */
#include <pthread.h>
#include "backend/processor.h"
#include "graph/scope.h"
#include "run/compiled.h"
#include "run/eval.h"
#include "run/memory.h"
#include "run/reader.h"

extern pthread_mutex_t graph_mutex, pin_mutex, call_mutex, plan_mutex, compiled_mutex, spare_mutex, handle_mutex, dim_mutex,
  verdict_mutex, panels_mutex, buffer_mutex, reader_mutex, guard_mutex;
static pthread_mutex_t *const locks[] = { &graph_mutex, &pin_mutex, &call_mutex, &plan_mutex,
                                          &compiled_mutex, &spare_mutex, &handle_mutex, &dim_mutex, &verdict_mutex, &panels_mutex,
                                          &buffer_mutex, &reader_mutex, &guard_mutex };

enum { N = sizeof locks / sizeof *locks };

static void before(void) {
  pthread_mutex_lock(locks[0]);
  overwriting_await(); /* a child could finish it no more */
  for (int i = 1; i < N; i++) pthread_mutex_lock(locks[i]);
}

static void after(void) {
  for (int i = N; i-- > 0;) pthread_mutex_unlock(locks[i]);
}

static void in_child(void) {
  graph_after_fork();
  handles_after_fork();
  eval_after_fork();
  compiled_after_fork();
  reader_after_fork();
  after();
}

/* What is registered first is locked last. Memory must not be locked while a fork waits for others. */
void forks_watch(void) {
  (void)memory_used(); /* its first use registers */
  processors_watch_forks();
  jobs_watch_forks();
  pthread_atfork(before, after, in_child);
}
