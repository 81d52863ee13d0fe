/* guard.c -- the SIGBUS handler: installed while a mapping of ours exists, acting on our own addresses only.
 *
 * The ranges lie in a fixed table that the handler reads without a lock. A thread that faults in a range holds the
 * mapping, so the slot of that range does not change under it; slots in change (odd `turn`) are somebody else's and
 * are passed over. Any other SIGBUS goes to the handler that was there before. */
#define _GNU_SOURCE
#include "run/guard.h"
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { SLOTS = 1024 };

struct slot {
  atomic_uint turn;
  _Atomic uintptr_t start, end;
  _Atomic(atomic_int *) cut;
};

pthread_mutex_t guard_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct slot slots[SLOTS];
static bool is_used[SLOTS];
static int n_used;
static atomic_int n_seen;         /* slots in use lie below */
static bool is_installed;
static struct sigaction before;   /* written only while our handler is not installed */
static uintptr_t page_bytes;

static bool holds(struct slot *s, uintptr_t at, uintptr_t *end, atomic_int **cut) {
  unsigned turn = atomic_load(&s->turn);
  uintptr_t start = atomic_load(&s->start);
  *end = atomic_load(&s->end);
  *cut = atomic_load(&s->cut);
  return !(turn & 1) && at >= start && at < *end && atomic_load(&s->turn) == turn;
}

/* Zero pages from the one that is missing up to the end of the mapping: the file has lost them all. */
static bool patch(uintptr_t at) {
  int n = atomic_load(&n_seen);
  for (int i = 0; i < n; i++) {
    uintptr_t end, page = at & ~(page_bytes - 1);
    atomic_int *cut;
    if (!holds(&slots[i], at, &end, &cut)) continue;
    atomic_store(cut, 1);
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE;
    /* the call itself: others may be reading there, which a sanitizer would take for a race with mmap */
    return syscall(SYS_mmap, page, end - page, PROT_READ | PROT_WRITE, flags, -1, 0) != -1;
  }
  return false;
}

static void die(int sig, const siginfo_t *info) {
  struct sigaction standard = { .sa_handler = SIG_DFL };
  sigaction(sig, &standard, NULL);
  if (info->si_code <= 0) raise(sig); /* sent by somebody; a fault comes again by itself */
}

static void pass_on(int sig, siginfo_t *info, void *context) {
  bool is_sent = info->si_code <= 0;
  if (!(before.sa_flags & SA_SIGINFO)) {
    if (before.sa_handler == SIG_IGN && is_sent) return;
    if (before.sa_handler == SIG_DFL || before.sa_handler == SIG_IGN) {
      die(sig, info);
      return;
    }
  }
  sigset_t mask;
  pthread_sigmask(SIG_BLOCK, &before.sa_mask, &mask);
  if (before.sa_flags & SA_SIGINFO) before.sa_sigaction(sig, info, context);
  else before.sa_handler(sig);
  pthread_sigmask(SIG_SETMASK, &mask, NULL);
}

static void on_bus_error(int sig, siginfo_t *info, void *context) {
  int saved = errno;
  if (info->si_code <= 0 || !patch((uintptr_t)info->si_addr)) pass_on(sig, info, context);
  errno = saved;
}

static void install(void) {
  if (is_installed) return;
  page_bytes = (uintptr_t)sysconf(_SC_PAGESIZE);
  struct sigaction ours = { .sa_sigaction = on_bus_error, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART };
  sigemptyset(&ours.sa_mask);
  sigaction(SIGBUS, NULL, &before);
  is_installed = sigaction(SIGBUS, &ours, NULL) == 0;
}

/* If somebody has put a handler on top of ours, ours stays, as theirs may call it. */
static void uninstall(void) {
  struct sigaction now;
  if (sigaction(SIGBUS, NULL, &now) || !(now.sa_flags & SA_SIGINFO) || now.sa_sigaction != on_bus_error) return;
  is_installed = sigaction(SIGBUS, &before, NULL) != 0;
}

static void write_slot(struct slot *s, uintptr_t start, uintptr_t end, atomic_int *cut) {
  atomic_fetch_add(&s->turn, 1);
  atomic_store(&s->start, start);
  atomic_store(&s->end, end);
  atomic_store(&s->cut, cut);
  atomic_fetch_add(&s->turn, 1);
}

static void take_lock(void) { pthread_mutex_lock(&guard_mutex); }
static void give_lock(void) { pthread_mutex_unlock(&guard_mutex); }

static int free_slot(void) {
  for (int i = 0; i < SLOTS; i++)
    if (!is_used[i]) return i;
  return -1;
}

int guard_add(void *start, size_t bytes, atomic_int *cut) {
  take_lock();
  install();
  int i = is_installed ? free_slot() : -1;
  if (i >= 0) {
    uintptr_t end = (uintptr_t)start + ((bytes + page_bytes - 1) & ~(page_bytes - 1));
    is_used[i] = true;
    n_used++;
    if (atomic_load(&n_seen) <= i) atomic_store(&n_seen, i + 1);
    write_slot(&slots[i], (uintptr_t)start, end, cut);
  }
  give_lock();
  return i;
}

void guard_remove(int i) {
  take_lock();
  write_slot(&slots[i], 0, 0, NULL);
  is_used[i] = false;
  if (--n_used == 0) uninstall();
  give_lock();
}
