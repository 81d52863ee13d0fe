/* spare.c -- see spare.h. The list goes through the first word of its blocks. */
#include "base/spare.h"
#include <pthread.h>
#include <string.h>
#include "base/mem.h"

pthread_mutex_t spare_mutex = PTHREAD_MUTEX_INITIALIZER;

void *spare_pop(struct spare *s) {
  void **block = s->first;
  if (!block) return NULL;
  s->first = *block;
  *block = NULL;
  return block;
}

static void append(struct spare *s, void *block) {
  if (s->first) *(void **)s->last = block;
  else s->first = block;
  s->last = block;
}

void spare_push(struct spare *s, void *block, size_t bytes) {
  memset(block, 0, bytes);
  append(s, block);
}

void *spare_take(struct spare *s, size_t bytes) {
  pthread_mutex_lock(&spare_mutex);
  void *block = spare_pop(s);
  pthread_mutex_unlock(&spare_mutex);
  return block ? block : mem_alloc(bytes);
}

void spare_give(struct spare *s, void *block, size_t bytes) {
  memset(block, 0, bytes);
  pthread_mutex_lock(&spare_mutex);
  append(s, block);
  pthread_mutex_unlock(&spare_mutex);
}
