/* async.c -- what runs in the background: one job after the other, on a thread that is started with the first and ends
 * when it has had nothing to do for a while. */
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>
#include "run/buffer.h"
#include "run/eval.h"
#include "run/thread.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct job *first, *last;
static bool is_alive, is_busy;

enum { IDLE_SECONDS = 2 };

/* The next job, or NULL after a while without one; lock held. */
static struct job *next_job(void) {
  struct timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += IDLE_SECONDS;
  while (!first)
    if (pthread_cond_timedwait(&changed, &lock, &until)) break;
  struct job *j = first;
  if (j) first = j->next;
  return j;
}

static void *live(void *unused) {
  buffer_mark_own_thread();
  pthread_mutex_lock(&lock);
  for (struct job *j; (j = next_job());) {
    is_busy = true;
    pthread_mutex_unlock(&lock);
    j->run(j);
    pthread_mutex_lock(&lock);
    is_busy = false;
    pthread_cond_broadcast(&changed);
  }
  is_alive = false;
  pthread_cond_broadcast(&changed);
  pthread_mutex_unlock(&lock);
  return unused;
}

static void after_fork(void) { /* the child has no such thread, and what it was doing is its parent's */
  pthread_mutex_init(&lock, NULL);
  pthread_cond_init(&changed, NULL);
  first = last = NULL;
  is_alive = is_busy = false;
}
static void before_fork(void) { pthread_mutex_lock(&lock); }
static void in_parent(void) { pthread_mutex_unlock(&lock); }
static void watch_forks(void) { pthread_atfork(before_fork, in_parent, after_fork); }

bool job_start(struct job *j) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, watch_forks);
  j->next = NULL;
  pthread_mutex_lock(&lock);
  bool ok = is_alive || (is_alive = thread_start(NULL, live, NULL));
  if (ok) {
    if (first) last->next = j;
    else first = j;
    last = j;
    pthread_cond_broadcast(&changed);
  }
  pthread_mutex_unlock(&lock);
  return ok;
}

void job_stop(void) {
  pthread_mutex_lock(&lock);
  while (first || is_busy) pthread_cond_wait(&changed, &lock);
  pthread_mutex_unlock(&lock);
}
