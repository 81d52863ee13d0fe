/* clock.h -- waiting by a clock that nobody sets: what it says, a moment from now on, and conditions that wait by it. */
#ifndef WEFT_CLOCK_H
#define WEFT_CLOCK_H
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <time.h>

static inline int64_t clock_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static inline double clock_seconds(void) { return 1e-9 * (double)clock_ns(); }

/* So many seconds from now, at most some thirty years. */
static inline struct timespec clock_after(double seconds) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  if (seconds > 1e9) seconds = 1e9;
  t.tv_sec += (time_t)seconds;
  t.tv_nsec += (long)((seconds - (double)(time_t)seconds) * 1e9);
  if (t.tv_nsec >= 1000000000) t.tv_sec++, t.tv_nsec -= 1000000000;
  return t;
}

/* What is left of so many seconds that end then, by clock_seconds; -1: they are below 0, which means for ever. */
static inline double clock_left(double seconds, double end) {
  double left = seconds >= 0 ? end - clock_seconds() : -1;
  return seconds >= 0 && left < 0 ? 0 : left;
}

/* Between two looks at what somebody waits for since `began`. Linux wakes who sleeps 50 µs late, so in the first 100 nobody sleeps,
 * and others have their turn; later an eighth of the time that has passed, up to 64 µs. */
static inline void clock_nap(int64_t began) {
  int64_t passed = clock_ns() - began;
  if (passed < 100000) { sched_yield(); return; }
  nanosleep(&(struct timespec){ .tv_nsec = (long)(passed < 8 * 64000 ? passed / 8 : 64000) }, NULL);
}

/* A condition whose timed waits go by this clock. */
static inline void clock_condition(pthread_cond_t *c) {
  pthread_condattr_t attr;
  pthread_condattr_init(&attr);
  pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
  pthread_cond_init(c, &attr);
  pthread_condattr_destroy(&attr);
}

#endif
