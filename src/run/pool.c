/* pool.c -- one job at a time, shared by threads that join it while it is open.
 *
 * The owner of the pool writes the job, opens `seats` for other threads, and works itself. A thread joins by taking a
 * seat; only then does it look at the job. When the parts are all given out the owner shuts the seats, which tells how
 * many joined, and waits until as many have left. So nobody waits for a thread that is slow to wake up, and no thread
 * sees a job that is over. A caller that finds the pool owned, or that is itself a part of a job, works alone.
 *
 * A thread that is woken is often put on the processor of him who wakes it, where it waits until he has done the work alone.
 * So the threads keep off the owner's processor.
 *
 * Where other programs use the processors, a thread that has joined may be put aside in the middle of its part for milliseconds,
 * while the owner waits. Whether short jobs end sooner for being shared is measured: see pool_pays. */
#define _GNU_SOURCE
#include "run/pool.h"
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include "base/clock.h"
#include "run/buffer.h"
#include "run/machine.h"
#include "run/thread.h"
#ifdef __linux__
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

/* Who has nothing to do spins for longer than waking him would take, and then sleeps. RETRY_AFTER: jobs after which a refused
 * thread is asked for again. WAKE_AFTER .. WAKE_SELDOM: askings after which a sleeping thread is woken, see pool_is_awake. */
enum { THREADS_MAX = 1024, SPIN_NS = 30000, RETRY_AFTER = 256, WAKE_AFTER = 16, WAKE_SELDOM = 1024 };

/* Jobs that take less than SHORT_NS by one thread are looked at, TRIAL at a time; where they lost, as many of the next are not
 * shared as are between PAUSE and PAUSE_MOST, twice as many each time that a trial fails again. */
enum { SHORT_NS = 2000000, TRIAL = 8, PAUSE = 64, PAUSE_MOST = 1024, SHORT = 1 << 24 }; /* operations, as they are asked for */

struct pool_job {
  int n, seats;
  void (*part)(void *ctx, int i);
  void *ctx;
};

#define LINE _Alignas(64)
static LINE atomic_int seats;     /* open seats; threads sleep on it while it is 0 */
static LINE _Atomic int64_t next; /* the next part to give out; 64 bits, as each thread asks once too often */
static LINE atomic_int pending;   /* after the seats are shut: threads that still work; below 0 before */
static LINE atomic_int spinning;  /* threads that will see an opened seat without being woken */
static atomic_int sleeping;
static atomic_bool owner_sleeps, stopping, owned;
static struct pool_job job;            /* written by the owner while no seat is open */
static pthread_t threads[THREADS_MAX]; /* the rest belongs to the owner */
static int n_threads, refused;
static struct cpus home;  /* where they may run, but .. */
static int kept_off = -1; /* .. not on this processor: the first n_kept_off of them know */
static int n_kept_off;
static bool watches_forks;
static _Thread_local bool inside; /* this thread runs a part */

#ifdef __linux__
static void sleep_on(atomic_int *word, int value) { syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0); }
static void wake(atomic_int *word, int n) { syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, n, NULL, NULL, 0); }
static void forget_sleepers(void) {}
#else
static pthread_mutex_t bed_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t bed = PTHREAD_COND_INITIALIZER;
static void sleep_on(atomic_int *word, int value) {
  pthread_mutex_lock(&bed_lock);
  while (atomic_load(word) == value) pthread_cond_wait(&bed, &bed_lock);
  pthread_mutex_unlock(&bed_lock);
}
static void wake(atomic_int *word, int n) {
  (void)word, (void)n;
  pthread_mutex_lock(&bed_lock);
  pthread_cond_broadcast(&bed);
  pthread_mutex_unlock(&bed_lock);
}
static void forget_sleepers(void) {
  bed_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
  bed = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
}
#endif

static void pause_cpu(void) {
#if defined __x86_64__ || defined __i386__
  __builtin_ia32_pause();
#elif defined __aarch64__
  __asm__ volatile("yield");
#endif
}

/* Spins until *word is on the wanted side of 0; false: it took too long. */
static bool spin(atomic_int *word, bool for_zero) {
  for (int64_t start = 0;;) {
    for (int i = 0; i < 64; i++) {
      int v = atomic_load_explicit(word, memory_order_acquire);
      if (for_zero ? v == 0 : v > 0) return true;
      pause_cpu();
    }
    if (!start) start = clock_ns();
    else if (clock_ns() - start > SPIN_NS) return false;
  }
}

static bool take_seat(void) {
  int open = atomic_load(&seats);
  while (open > 0)
    if (atomic_compare_exchange_weak(&seats, &open, open - 1)) return true;
  return false;
}

static void await_seat(void) {
  while (!take_seat()) {
    atomic_fetch_add(&spinning, 1);
    bool seen = spin(&seats, false);
    atomic_fetch_sub(&spinning, 1);
    if (seen) continue;
    atomic_fetch_add(&sleeping, 1);
    sleep_on(&seats, 0);
    atomic_fetch_sub(&sleeping, 1);
  }
}

/* How many parts this thread did. */
static int work(const struct pool_job *j) {
  int done = 0;
  for (int64_t i; (i = atomic_fetch_add_explicit(&next, 1, memory_order_relaxed)) < j->n; done++) j->part(j->ctx, (int)i);
  return done;
}

static void leave(void) {
  if (atomic_fetch_sub(&pending, 1) == 1 && atomic_load(&owner_sleeps)) wake(&pending, 1);
}

static void *live(void *unused) {
  inside = true;
  buffer_mark_own_thread();
  for (;;) {
    await_seat();
    if (atomic_load(&stopping)) return unused;
    work(&job);
    leave();
  }
}

/* The threads are gone in a child. A job the forking thread was inside of ends as if nobody had joined. */
static void after_fork(void) {
  n_threads = n_kept_off = 0;
  atomic_store(&seats, inside ? job.seats : 0);
  atomic_store(&pending, 0);
  atomic_store(&spinning, 0);
  atomic_store(&sleeping, 0);
  atomic_store(&stopping, false);
  if (!inside) atomic_store(&owned, false);
  forget_sleepers();
}

static void watch_forks(void) {
  if (!watches_forks) watches_forks = pthread_atfork(NULL, NULL, after_fork) == 0;
}

/* As many threads as can be had; a refusal is not asked about again for a while. */
static void start_threads(int wanted) {
  if (n_threads >= wanted || (refused && refused--)) return;
  watch_forks();
  if (!n_threads) home = thread_cpus();
  while (watches_forks && n_threads < wanted && thread_start(&threads[n_threads], live, NULL)) n_threads++;
  if (n_threads < wanted) refused = RETRY_AFTER;
}

static void leave_cpu_to_owner(void) {
  int cpu = thread_cpu();
  if (cpu < 0 || (cpu == kept_off && n_kept_off == n_threads)) return;
  thread_keep_off(n_threads, threads, &home, cpu);
  kept_off = cpu, n_kept_off = n_threads;
}

static void open_seats(int k) {
  atomic_store(&seats, k);
  int asleep = atomic_load(&sleeping), short_of = k - atomic_load(&spinning);
  if (asleep && short_of > 0) wake(&seats, short_of);
}

static void await_leavers(void) {
  if (spin(&pending, true)) return;
  atomic_store(&owner_sleeps, true);
  for (int left; (left = atomic_load(&pending)) != 0;) sleep_on(&pending, left);
  atomic_store(&owner_sleeps, false);
}

static void shut_seats(void) {
  int joined = job.seats - atomic_exchange(&seats, 0);
  if (atomic_fetch_add(&pending, joined) + joined) await_leavers();
}

/* ---- does it pay? ---- */

static atomic_int unshared;    /* short jobs that are not to be shared, still */
static atomic_bool is_told;    /* somebody said how many threads there are: he has them */
static struct { int64_t shared, alone; int n, pause; } trial; /* ns that jobs took, and would have; the owner's */

void pool_insist(void) { atomic_store_explicit(&is_told, true, memory_order_relaxed); }

bool pool_pays(double operations) {
  if (operations >= SHORT || atomic_load_explicit(&unshared, memory_order_relaxed) <= 0) return true;
  if (atomic_load_explicit(&is_told, memory_order_relaxed)) return true;
  atomic_fetch_sub_explicit(&unshared, 1, memory_order_relaxed);
  return false;
}

static int twice(int pause) { return pause < PAUSE ? PAUSE : pause < PAUSE_MOST ? 2 * pause : PAUSE_MOST; }

/* A job of n parts took so long, the owner's share of them so long. All would have taken him in proportion. */
static void weigh(int64_t took, int64_t own, int n_own, int n) {
  int64_t alone = n_own ? own * n / n_own : took;
  if (alone > SHORT_NS) return;
  trial.shared += took, trial.alone += alone;
  if (++trial.n < TRIAL && trial.shared - trial.alone < SHORT_NS) return;
  trial.pause = trial.shared > trial.alone ? twice(trial.pause) : 0;
  atomic_store_explicit(&unshared, trial.pause, memory_order_relaxed);
  trial.shared = trial.alone = trial.n = 0;
}

static void run_alone(int n, void (*part)(void *ctx, int i), void *ctx) {
  for (int i = 0; i < n; i++) part(ctx, i);
}

void pool_run(int n, int max_threads, void (*part)(void *ctx, int i), void *ctx) {
  int others = (max_threads < n ? max_threads : n) - 1;
  if (others > THREADS_MAX) others = THREADS_MAX;
  if (others < 1 || inside || atomic_exchange(&owned, true)) {
    run_alone(n, part, ctx);
    return;
  }
  inside = true;
  start_threads(others);
  job = (struct pool_job){ n, others < n_threads ? others : n_threads, part, ctx };
  atomic_store(&next, 0);
  leave_cpu_to_owner();
  int64_t start = clock_ns();
  open_seats(job.seats);
  int64_t begin = clock_ns();
  int n_own = work(&job);
  int64_t end = clock_ns();
  shut_seats();
  weigh(clock_ns() - start, end - begin, n_own, n);
  inside = false;
  atomic_store(&owned, false);
}

/* Waking pays if the next one asks before the thread sleeps again; while it does not, it is tried half as often each time. */
bool pool_is_awake(void) {
  static atomic_int asked, patience = WAKE_AFTER;
  int most = atomic_load_explicit(&patience, memory_order_relaxed);
  if (atomic_load_explicit(&spinning, memory_order_relaxed) > 0) {
    if (most > WAKE_AFTER) atomic_store_explicit(&patience, WAKE_AFTER, memory_order_relaxed);
    return true;
  }
  if (atomic_fetch_add_explicit(&asked, 1, memory_order_relaxed) + 1 < most) return false;
  atomic_store_explicit(&asked, 0, memory_order_relaxed);
  atomic_store_explicit(&patience, most < WAKE_SELDOM ? 2 * most : most, memory_order_relaxed);
  return true;
}

int pool_threads(void) {
  static atomic_int known;
  int n = atomic_load(&known);
  if (n) return n;
  const char *wish = getenv("WEFT_THREADS");
  long asked = wish ? strtol(wish, NULL, 10) : 0;
  if (asked > 0) pool_insist();
  n = asked > 0 ? asked < THREADS_MAX ? (int)asked : THREADS_MAX : machine_cpus("");
  atomic_store(&known, n);
  return n;
}

void pool_stop(void) {
  if (inside) return;
  while (atomic_exchange(&owned, true)) sched_yield();
  atomic_store(&stopping, true);
  atomic_store(&seats, n_threads);
  wake(&seats, INT_MAX);
  for (int i = 0; i < n_threads; i++) pthread_join(threads[i], NULL);
  n_threads = n_kept_off = refused = 0;
  atomic_store(&seats, 0);
  atomic_store(&stopping, false);
  atomic_store(&owned, false);
}
