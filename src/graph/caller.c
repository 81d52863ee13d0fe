/* caller.c -- the state of a calling thread, and its end. */
#include "graph/caller.h"
#include <pthread.h>
#include <stdatomic.h>
#include "graph/scope.h"

_Thread_local struct caller caller_self;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static bool has_key;
static _Atomic uint64_t last_id;

static void leave(void *c) {
  struct caller *me = c;
  scope_leave();
  jobs_leave();
  handles_leave();
  failure_release(me->last);
  *me = (struct caller){ 0 };
}

static void make_key(void) {
  has_key = pthread_key_create(&key, leave) == 0;
  forks_watch();
}

/* Without a key the thread's last arrays are not freed when it ends; nothing else is lost. */
struct caller *caller_enter(void) {
  caller_self.id = atomic_fetch_add(&last_id, 1) + 1;
  pthread_once(&once, make_key);
  if (has_key) pthread_setspecific(key, &caller_self);
  return &caller_self;
}
