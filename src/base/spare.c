/* spare.c -- see spare.h. The list goes through the first word of its blocks. */
#include "base/spare.h"
#include <pthread.h>
#include <string.h>
#include "base/mem.h"

pthread_mutex_t spare_mutex = PTHREAD_MUTEX_INITIALIZER;

void *spare_take(struct spare *s, size_t bytes) {
  pthread_mutex_lock(&spare_mutex);
  void **block = s->first;
  if (block) s->first = *block;
  pthread_mutex_unlock(&spare_mutex);
  if (block) *block = NULL;
  return block ? block : mem_alloc(bytes);
}

void spare_give(struct spare *s, void *block, size_t bytes) {
  memset(block, 0, bytes);
  pthread_mutex_lock(&spare_mutex);
  if (s->first) *(void **)s->last = block;
  else s->first = block;
  s->last = block;
  pthread_mutex_unlock(&spare_mutex);
}
