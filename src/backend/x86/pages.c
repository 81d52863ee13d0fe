/* pages.c -- pages that may be executed: see pages.h. */
#include "backend/x86/pages.h"
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include "base/mem.h"

void *pages_new(const void *code, size_t n, const void *pool, size_t at, size_t n_pool, bool *is_forbidden) {
  *is_forbidden = false;
  if (mem_should_fail()) return NULL;
  char *p = mmap(NULL, at + n_pool, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) return NULL;
  memcpy(p, code, n);
  if (n_pool) memcpy(p + at, pool, n_pool);
  if (!mprotect(p, at + n_pool, PROT_READ | PROT_EXEC)) return p;
  *is_forbidden = errno == EACCES || errno == EPERM;
  munmap(p, at + n_pool);
  return NULL;
}

void pages_free(void *p, size_t total) {
  if (p) munmap(p, total);
}
