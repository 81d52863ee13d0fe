#define _GNU_SOURCE
#include "run/thread.h"
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
