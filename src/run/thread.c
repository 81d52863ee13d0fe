/* thread.c -- threads of the library: see thread.h. */
#define _GNU_SOURCE
#include "run/thread.h"
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include "base/mem.h"

static void block_signals(sigset_t *before) {
  static const int own[] = { SIGBUS, SIGSEGV, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS };
  sigset_t all;
  sigfillset(&all);
  for (size_t i = 0; i < sizeof own / sizeof *own; i++) sigdelset(&all, own[i]);
  pthread_sigmask(SIG_SETMASK, &all, before);
}

bool thread_start(pthread_t *thread, void *(*live)(void *), void *arg) {
  if (mem_should_fail()) return false;
  sigset_t before;
  pthread_t t;
  block_signals(&before);
  bool ok = pthread_create(&t, NULL, live, arg) == 0;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (ok && thread) *thread = t;
  if (ok && !thread) pthread_detach(t);
  return ok;
}

#ifdef __linux__
struct cpus thread_cpus(void) {
  struct cpus c = { { 0 } };
  sched_getaffinity(0, sizeof c.bits, (cpu_set_t *)c.bits);
  return c;
}

int thread_cpu(void) { return sched_getcpu(); }

void thread_keep_off(int n, const pthread_t threads[], const struct cpus *all, int cpu) {
  struct cpus c = *all;
  cpu_set_t *set = (cpu_set_t *)c.bits;
  CPU_CLR_S((size_t)cpu, sizeof c.bits, set);
  for (int i = 0; i < n && CPU_COUNT_S(sizeof c.bits, set); i++) pthread_setaffinity_np(threads[i], sizeof c.bits, set);
}
#else
struct cpus thread_cpus(void) { return (struct cpus){ { 0 } }; }
int thread_cpu(void) { return -1; }
void thread_keep_off(int n, const pthread_t threads[], const struct cpus *all, int cpu) {
  (void)n, (void)threads, (void)all, (void)cpu;
}
#endif
