/* reader.c -- a queue of errands and up to four threads that run them in order.
 *
 * Threads are detached and end after a second without work. In a child after fork there are none, and its queue is empty:
 * whoever queued an errand forgets it there (buffer.c does). */
#define _GNU_SOURCE
#include "run/reader.h"
#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <time.h>
#include "run/buffer.h"
#include "run/thread.h"

enum { READERS_MAX = 4, IDLE_SECONDS = 1 }; /* a disk is busy with a few readers; one that finds nothing for a second ends */

pthread_mutex_t reader_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t more = PTHREAD_COND_INITIALIZER, ended = PTHREAD_COND_INITIALIZER;
static struct errand *first, *last;
static int n_readers, n_idle, n_queued;
static bool stopping;

static void append(struct errand *e) {
  e->before = last;
  e->after = NULL;
  *(last ? &last->after : &first) = e;
  last = e;
  e->is_queued = true;
  n_queued++;
}

static void take_out(struct errand *e) {
  *(e->before ? &e->before->after : &first) = e->after;
  *(e->after ? &e->after->before : &last) = e->before;
  e->is_queued = false;
  n_queued--;
}

/* Waits for an errand; NULL: there was none for a while. */
static struct errand *await_errand(void) {
  struct timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += IDLE_SECONDS;
  n_idle++;
  for (int late = 0; !first && !stopping && late != ETIMEDOUT;) late = pthread_cond_timedwait(&more, &reader_mutex, &until);
  n_idle--;
  struct errand *e = first;
  if (e) take_out(e);
  return e;
}

static void *live(void *unused) {
  buffer_mark_own_thread();
  pthread_mutex_lock(&reader_mutex);
  for (struct errand *e; (e = await_errand());) {
    pthread_mutex_unlock(&reader_mutex);
    e->run(e);
    pthread_mutex_lock(&reader_mutex);
  }
  n_readers--;
  pthread_cond_broadcast(&ended);
  pthread_mutex_unlock(&reader_mutex);
  return unused;
}

void reader_after_fork(void) {
  more = ended = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
  for (struct errand *e; (e = first);) take_out(e);
  n_readers = n_idle = 0;
  stopping = false;
}

bool reader_add(struct errand *e) {
  pthread_mutex_lock(&reader_mutex);
  if (n_idle <= n_queued && n_readers < READERS_MAX && !stopping && thread_start(NULL, live, NULL)) n_readers++;
  bool ok = n_readers > 0 && !stopping;
  if (ok) append(e);
  pthread_cond_signal(&more);
  pthread_mutex_unlock(&reader_mutex);
  return ok;
}

bool reader_withdraw(struct errand *e) {
  pthread_mutex_lock(&reader_mutex);
  bool was_queued = e->is_queued;
  if (was_queued) take_out(e);
  pthread_mutex_unlock(&reader_mutex);
  return was_queued;
}

void reader_stop(void) {
  pthread_mutex_lock(&reader_mutex);
  stopping = true;
  pthread_cond_broadcast(&more);
  while (n_readers) pthread_cond_wait(&ended, &reader_mutex);
  stopping = false;
  pthread_mutex_unlock(&reader_mutex);
}
