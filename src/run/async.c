/* async.c -- what runs in the background: one job after the other, on a thread that is started with the first and ends
 * when it has had nothing to do for a while.
 *
 * A job that fails stays here, first come first served, until the thread that started it looks or ends. In a child after
 * fork the thread is gone; the jobs are not, and start again when somebody waits for one. */
#include <pthread.h>
#include "base/clock.h"
#include "base/mem.h"
#include "graph/caller.h"
#include "run/buffer.h"
#include "run/eval.h"
#include "run/thread.h"
#include "run/verdict.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed;
static struct job *first, *last;           /* through `next`, as the next */
static struct job *ended;                  /* those that have failed unnoticed, and those whose verdict is open */
static struct job *running, *ending;       /* the one at work; the one whose parts are being released */
static uint64_t n_started, n_ended;        /* jobs end in the order in which they were started */
static bool is_alive;
static _Thread_local bool is_here, is_waiting, is_put_off; /* is_waiting: this thread runs jobs because it waits for one */
static _Thread_local uint64_t last_started; /* n_started after this thread's last one */

enum { IDLE_SECONDS = 2, MOST = 1024, MOST_OPEN = 64 }; /* who starts more waits until there are fewer: each holds memory */
enum { MOST_FAILED = 64 };                              /* of a thread, that are kept until it looks */

bool job_is_here(void) { return is_here; }
bool job_is_put_off(void) { return is_here && is_put_off; }
bool job_put_off(void) { return is_here && !is_waiting && (is_put_off = true); }

/* ---- The queue; lock held ---- */

static void put(struct job *j) {
  j->next = NULL;
  if (first) last->next = j;
  else first = j;
  last = j;
}

static struct job *take(void) {
  struct job *j = running = first;
  if (j) first = j->next;
  return j;
}

/* The next one, or NULL after a while without. */
static struct job *next_job(void) {
  struct timespec until = clock_after(IDLE_SECONDS);
  while (!first)
    if (pthread_cond_timedwait(&changed, &lock, &until)) break;
  return first && first->needs_caller ? NULL : take();
}

static void drop(struct job *j) {
  failure_release(j->failure);
  verdict_release(j->verdict);
  mem_free(j);
}

/* How many failures of the thread nobody has seen, and the last of them. Those that somebody has seen in an array go. */
static int unseen(uint64_t thread, struct job **newest) {
  int n = 0;
  for (struct job **at = &ended, *j; (j = *at);) {
    bool is_one = j->thread == thread && j->failure, is_seen = is_one && !j->tells_anyway && failure_seen(j->failure, false);
    if (is_seen) *at = j->next, drop(j);
    else at = &j->next, n += is_one, *newest = is_one ? j : *newest;
  }
  return n;
}

/* Somebody will want to know: the failures that nobody has seen, and what may still fail. Of very many the last that is kept
 * stands for the others. */
static bool matters(const struct job *j) {
  struct job *newest = NULL;
  if (!j->thread || !j->failure) return j->thread && verdict_is_open(j->verdict);
  if (!j->tells_anyway && failure_seen(j->failure, false)) return false;
  if (unseen(j->thread, &newest) < MOST_FAILED) return true;
  newest->tells_anyway = true;
  return false;
}

static void keep(struct job *j) {
  struct job **at = &ended;
  while (*at) at = &(*at)->next;
  j->next = NULL;
  *at = j;
}

/* The first that may still fail, out of the list, if there are too many of them; NULL: there are not. */
static struct job *take_open(void) {
  struct job **oldest = NULL, *j;
  int n = 0;
  for (struct job **at = &ended; *at; at = &(*at)->next)
    if (!(*at)->failure && n++ == 0) oldest = at;
  if (n <= MOST_OPEN) return NULL;
  j = *oldest;
  *oldest = j->next;
  return j;
}

/* ---- Running ---- */

static void perform(struct job *j) {
  struct eval_settings *mine = eval_settings(), before = *mine;
  *mine = j->settings;
  is_here = true;
  is_put_off = false;
  j->failure = j->run(j);
  is_here = false;
  *mine = before;
}

/* First again, for somebody who waits. */
static void put_back(struct job *j) {
  failure_release(j->failure);
  j->failure = NULL;
  j->needs_caller = true;
  j->next = first;
  if (!first) last = j;
  first = j;
  running = NULL;
}

/* What an ended job has enqueued is waited for, and the job kept only if that has failed. Another one that is left over, or NULL.
 * Lock held, but not meanwhile. */
static struct job *settle(struct job *j) {
  pthread_mutex_unlock(&lock);
  if (!j->failure) j->failure = verdict_await(j->verdict);
  pthread_mutex_lock(&lock);
  if (j->failure && matters(j)) return keep(j), take_open();
  pthread_mutex_unlock(&lock);
  drop(j);
  pthread_mutex_lock(&lock);
  return take_open();
}

/* The job `running`, to its end. Lock held on entry and on return. */
static void run_it(void) {
  struct job *j = running;
  pthread_mutex_unlock(&lock);
  perform(j);
  pthread_mutex_lock(&lock);
  if (is_put_off) {
    is_put_off = false;
    return put_back(j);
  }
  ending = j;
  running = NULL;
  pthread_mutex_unlock(&lock);
  j->end(j);
  pthread_mutex_lock(&lock);
  ending = NULL;
  n_ended++;
  bool is_kept = matters(j);
  if (is_kept) keep(j);
  else drop(j);
  pthread_cond_broadcast(&changed);
  for (j = is_kept ? take_open() : NULL; j;) j = settle(j);
}

/* Those who wait for nodes see that a job has been put off. No lock held. */
static void tell(void) {
  graph_lock();
  graph_changed();
  graph_unlock();
}

static void *live(void *unused) {
  buffer_mark_own_thread();
  pthread_mutex_lock(&lock);
  while (next_job()) run_it();
  is_alive = false;
  bool is_left = first;
  pthread_cond_broadcast(&changed);
  pthread_mutex_unlock(&lock);
  if (is_left) tell();
  return unused;
}

/* ---- Forks ---- */

static void make_changed(void) { clock_condition(&changed); }

static void before_fork(void) { pthread_mutex_lock(&lock); }
static void in_parent(void) { pthread_mutex_unlock(&lock); }

static void in_child(void) {
  make_changed();
  is_alive = false;
  if (ending) n_ended++; /* it was over */
  ending = NULL;
  if (running) {
    running->next = first;
    if (!first) last = running;
    first = running;
  }
  running = NULL;
  pthread_mutex_unlock(&lock);
}

void jobs_watch_forks(void) {
  make_changed();
  pthread_atfork(before_fork, in_parent, in_child);
}

/* ---- For others ---- */

/* Without a thread the jobs run here, as do those that need somebody who waits. Lock held, but not while they do. */
static void go_on(bool waits) {
  bool needs_caller = first && first->needs_caller;
  if (!first || is_alive || (needs_caller && !waits)) return;
  if (!needs_caller && (is_alive = thread_start(NULL, live, NULL))) return;
  bool before = is_waiting;
  is_alive = true;
  is_waiting = waits;
  while (!(first && first->needs_caller && !waits) && take()) run_it();
  is_waiting = before;
  is_alive = false;
  pthread_cond_broadcast(&changed);
}

void job_start(struct job *j) {
  j->settings = *eval_settings();
  j->thread = caller()->id;
  pthread_mutex_lock(&lock);
  while (n_started - n_ended >= MOST && is_alive && !is_here) pthread_cond_wait(&changed, &lock);
  put(j);
  last_started = ++n_started;
  pthread_cond_broadcast(&changed);
  go_on(false);
  bool is_left = first && !is_alive;
  pthread_mutex_unlock(&lock);
  if (is_left) tell();
}

bool job_is_stuck(void) {
  pthread_mutex_lock(&lock);
  bool yes = first && !is_alive;
  pthread_mutex_unlock(&lock);
  return yes;
}

void job_resume(void) {
  pthread_mutex_lock(&lock);
  go_on(true);
  pthread_mutex_unlock(&lock);
}

bool job_wait(double seconds) {
  struct timespec until = clock_after(seconds >= 0 ? seconds : 0);
  bool in_time = true;
  pthread_mutex_lock(&lock);
  go_on(true);
  while (in_time && n_ended < last_started) {
    if (!(seconds >= 0)) pthread_cond_wait(&changed, &lock);
    else in_time = pthread_cond_timedwait(&changed, &lock, &until) == 0;
    go_on(true); /* one of them may have been put off */
  }
  in_time = n_ended >= last_started;
  pthread_mutex_unlock(&lock);
  return in_time;
}

/* The first of this thread, out of the list. */
static struct job *take_ended(void) {
  struct job **at = &ended, *j;
  uint64_t me = caller()->id;
  pthread_mutex_lock(&lock);
  while ((j = *at) && j->thread != me) at = &j->next;
  if (j) *at = j->next;
  pthread_mutex_unlock(&lock);
  return j;
}

/* The others are those of arrays, which say so. */
struct failure *job_failure(void) {
  struct failure *first_one = NULL;
  for (struct job *j; (j = take_ended());) {
    struct failure *f = j->failure ? failure_retain(j->failure) : verdict_await(j->verdict);
    bool is_news = f && !first_one && (j->tells_anyway || !failure_seen(f, false));
    drop(j);
    if (is_news) first_one = f;
    else failure_release(f);
  }
  return first_one;
}

static bool is_started_for(const struct job *j, const struct node *n) {
  int i = 0;
  while (i < j->n && j->serial[i] != n->serial) i++;
  return i < j->n;
}

/* The job stays: once its failure has been told it is one that has been seen, and goes as those do. */
struct failure *job_failure_of(const struct node *n) {
  uint64_t me = caller()->id;
  pthread_mutex_lock(&lock);
  struct job *j = ended;
  while (j && !(j->thread == me && j->failure && !failure_seen(j->failure, false) && is_started_for(j, n))) j = j->next;
  struct failure *f = j ? failure_retain(j->failure) : NULL;
  pthread_mutex_unlock(&lock);
  return f;
}

/* Nobody will look: its jobs go on without a master. */
void jobs_leave(void) {
  uint64_t me = caller()->id;
  for (struct job *j; (j = take_ended());) drop(j);
  pthread_mutex_lock(&lock);
  for (struct job *j = first; j; j = j->next) if (j->thread == me) j->thread = 0;
  if (running && running->thread == me) running->thread = 0;
  if (ending && ending->thread == me) ending->thread = 0;
  pthread_mutex_unlock(&lock);
}
