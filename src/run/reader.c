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

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
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
  for (int late = 0; !first && !stopping && late != ETIMEDOUT;) late = pthread_cond_timedwait(&more, &lock, &until);
  n_idle--;
  struct errand *e = first;
  if (e) take_out(e);
  return e;
}

static void *live(void *unused) {
  buffer_mark_own_thread();
  pthread_mutex_lock(&lock);
  for (struct errand *e; (e = await_errand());) {
    pthread_mutex_unlock(&lock);
    e->run(e);
    pthread_mutex_lock(&lock);
  }
  n_readers--;
  pthread_cond_broadcast(&ended);
  pthread_mutex_unlock(&lock);
  return unused;
}

static void take_lock(void) { pthread_mutex_lock(&lock); }
static void give_lock(void) { pthread_mutex_unlock(&lock); }

static void after_fork(void) {
  more = ended = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
  for (struct errand *e; (e = first);) take_out(e);
  n_readers = n_idle = 0;
  stopping = false;
  give_lock();
}

static void watch_forks(void) { pthread_atfork(take_lock, give_lock, after_fork); }

void reader_watch_forks(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, watch_forks);
}

bool reader_add(struct errand *e) {
  reader_watch_forks();
  pthread_mutex_lock(&lock);
  if (n_idle <= n_queued && n_readers < READERS_MAX && !stopping && thread_start(NULL, live, NULL)) n_readers++;
  bool ok = n_readers > 0 && !stopping;
  if (ok) append(e);
  pthread_cond_signal(&more);
  pthread_mutex_unlock(&lock);
  return ok;
}

bool reader_withdraw(struct errand *e) {
  pthread_mutex_lock(&lock);
  bool was_queued = e->is_queued;
  if (was_queued) take_out(e);
  pthread_mutex_unlock(&lock);
  return was_queued;
}

void reader_stop(void) {
  pthread_mutex_lock(&lock);
  stopping = true;
  pthread_cond_broadcast(&more);
  while (n_readers) pthread_cond_wait(&ended, &lock);
  stopping = false;
  pthread_mutex_unlock(&lock);
}
