/* arena.c -- blocks of memory that go together: see arena.h. */
#include "base/arena.h"
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include "base/mem.h"

struct chunk { struct chunk *older; size_t used, bytes; };
struct arena { struct chunk *newest, *given; }; /* given: a chunk of the caller's, as the arena is then; NULL: none */

enum { FIRST_BYTES = 4096, HEAD = (sizeof(struct chunk) + 15) & ~15 };

struct arena *arena_new(void) { return mem_alloc(sizeof(struct arena)); }

struct arena *arena_in(struct arena_room *r) {
  enum { OWN = (sizeof(struct arena) + 15) & ~15 };
  struct arena *a = (void *)r->bytes;
  a->newest = a->given = (void *)(r->bytes + OWN);
  *a->given = (struct chunk){ NULL, HEAD, sizeof r->bytes - OWN };
  return a;
}

/* Most pieces come from a chunk that is there, and only who needs a new one can be refused. In the hard build each can, so that
 * tests that let allocations fail meet every caller. */
static bool is_refused(void) {
#ifdef WEFT_HARD
  return mem_should_fail();
#else
  return false;
#endif
}

static struct chunk *chunk_for(struct arena *a, size_t bytes) {
  struct chunk *c = a->newest;
  if (c && c->bytes - c->used >= bytes) return is_refused() ? NULL : c;
  size_t size = c ? 2 * c->bytes : FIRST_BYTES;
  while (size < bytes + HEAD) size *= 2;
  struct chunk *n = mem_room(size);
  if (!n) return NULL;
  *n = (struct chunk){ c, HEAD, size };
  return a->newest = n;
}

/* Room that is not cleared: a chunk is cleared piece by piece, as it is taken, since most of it may never be. */
static void *room(struct arena *a, size_t bytes) {
  if (bytes > SIZE_MAX / 4) return NULL;
  bytes = (bytes + 15) & ~(size_t)15;
  struct chunk *c = chunk_for(a, bytes);
  if (!c) return NULL;
  void *p = (char *)c + c->used;
  c->used += bytes;
  return p;
}

void *arena_take(struct arena *a, size_t bytes) {
  void *p = room(a, bytes);
  return p ? memset(p, 0, bytes) : NULL;
}

void *arena_grow(struct arena *a, void *old, size_t old_bytes, size_t bytes) {
  char *p = room(a, bytes);
  if (p && old_bytes) memcpy(p, old, old_bytes);
  if (p) memset(p + old_bytes, 0, bytes - old_bytes);
  return p;
}

char *arena_text(struct arena *a, const char *s) {
  size_t n = strlen(s) + 1;
  char *p = room(a, n);
  return p ? memcpy(p, s, n) : NULL;
}

size_t arena_bytes(const struct arena *a) {
  size_t bytes = sizeof *a;
  for (const struct chunk *c = a->newest; c; c = c->older) bytes += c->bytes;
  return a->given ? bytes - a->given->bytes - sizeof *a : bytes;
}

void arena_free(struct arena *a) {
  if (!a) return;
  for (struct chunk *c = a->newest, *older; c; c = older) {
    older = c->older;
    if (c != a->given) mem_free(c);
  }
  if (!a->given) mem_free(a);
}
