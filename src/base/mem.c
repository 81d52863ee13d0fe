/* mem.c -- the one allocator, whose every allocation can be made to fail: see mem.h. */
#include "base/mem.h"
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static _Atomic int64_t live, count, fail_at;
static _Atomic int fail_sticky, fail_paused;
static _Atomic bool is_watched;

int mem_should_fail(void) {
  int64_t at = atomic_load_explicit(&fail_at, memory_order_relaxed);
  if (!at || atomic_load(&fail_paused)) return 0;
  int64_t n = atomic_fetch_add(&count, 1) + 1;
  return n == at || (n > at && fail_sticky);
}

void mem_fail_at(int64_t n, int sticky) {
  atomic_store(&count, 0);
  atomic_store(&fail_sticky, sticky);
  atomic_store(&fail_at, n);
}

void mem_fail_pause(int on) { atomic_store(&fail_paused, on); }

int64_t mem_count(void) { return atomic_load(&count); }
void mem_watch(void) { atomic_store(&is_watched, true); }
int64_t mem_live(void) { return atomic_load(&live); }

/* An atomic counter costs as much as malloc itself. */
static void note(int n) { if (atomic_load_explicit(&is_watched, memory_order_relaxed)) atomic_fetch_add(&live, n); }

/* malloc has a cache of small blocks for each thread; calloc of most versions of glibc does not look there. */
static void *zeroed(size_t bytes) {
  void *p = bytes <= 1024 ? malloc(bytes ? bytes : 1) : calloc(1, bytes);
  return p && bytes <= 1024 ? memset(p, 0, bytes) : p;
}

void *mem_alloc(size_t bytes) {
  void *p = mem_should_fail() ? NULL : zeroed(bytes);
  if (p) note(1);
  return p;
}

void *mem_room(size_t bytes) {
  void *p = mem_should_fail() ? NULL : malloc(bytes ? bytes : 1);
  if (p) note(1);
  return p;
}

void *mem_resize(void *p, size_t bytes) {
  if (!p) return mem_alloc(bytes);
  return mem_should_fail() ? NULL : realloc(p, bytes ? bytes : 1);
}

char *mem_text(const char *s) {
  size_t n = strlen(s) + 1;
  char *p = mem_alloc(n);
  return p ? memcpy(p, s, n) : NULL;
}

void mem_free(void *p) {
  if (!p) return;
  note(-1);
  free(p);
}
