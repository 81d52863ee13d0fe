/* lot.c -- lots: 32 MiB of addresses each, on huge pages where the kernel has them, in which blocks of 64 KiB to 4 MiB stand side
 * by side. In pages of 4 KiB the processor waits for addresses as they are read: a product of one row reads weights at 20 GB/s from
 * those, at 29 from huge pages (one thread of a Zen 4).
 *
 * A lot is a multiple of 8 KiB grains, of which a bit each says whether it is taken; a block stands in the first gap that is long
 * enough, of the oldest lot that has one, so that the huge pages in use are few and full. What is given back goes back to the
 * system at once, though the block's neighbours stay, and a lot with no block does as a whole: a lot that few blocks are left in
 * costs what these do. The first grain is the lot's own.
 *
 * The lock is held while bits are looked at, not while the system is asked. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include "run/lot.h"

enum { GRAIN_BYTES = 8 << 10, GRAINS = 4096, BITS = 64, WORDS = GRAINS / BITS };
#define LOT_BYTES ((size_t)GRAINS * GRAIN_BYTES)

struct lot {
  struct lot *next;       /* younger */
  int n_taken;            /* grains of blocks */
  uint64_t taken[WORDS];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct lot *lots;

void lot_before_fork(void) { pthread_mutex_lock(&lock); }
void lot_after_fork(void) { pthread_mutex_unlock(&lock); }

static int grains_of(size_t bytes) { return (int)((bytes + GRAIN_BYTES - 1) / GRAIN_BYTES); }

/* ---- grains of a lot ---- */

/* The first one from `from` on that is taken, or that is not; GRAINS: there is none. */
static int next_grain(const struct lot *l, int from, bool is_taken) {
  for (int w = from / BITS; w < WORDS; w++) {
    uint64_t is = is_taken ? l->taken[w] : ~l->taken[w];
    if (w == from / BITS) is &= ~(uint64_t)0 << from % BITS;
    if (is) return w * BITS + __builtin_ctzll(is);
  }
  return GRAINS;
}

/* Where the first gap of n grains begins; GRAINS: there is none. */
static int gap(const struct lot *l, int n) {
  if (GRAINS - l->n_taken < n) return GRAINS;
  for (int from = next_grain(l, 0, false), to; from + n <= GRAINS; from = next_grain(l, to, false)) {
    to = next_grain(l, from, true);
    if (to - from >= n) return from;
  }
  return GRAINS;
}

/* n grains from `from` on are taken now, or were until now. */
static void turn(struct lot *l, int from, int n, bool is_taken) {
  for (int i = from; i < from + n; i++) l->taken[i / BITS] ^= (uint64_t)1 << i % BITS;
  l->n_taken += is_taken ? n : -n;
}

static void *take_from(struct lot *l, int n) {
  int at = gap(l, n);
  if (at == GRAINS) return NULL;
  turn(l, at, n, true);
  return (char *)l + (size_t)at * GRAIN_BYTES;
}

/* ---- lots ---- */

/* At a multiple of its size, so that the address of a block tells its lot. */
static struct lot *map_lot(void) {
  char *p = mmap(NULL, 2 * LOT_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) return NULL;
  size_t head = -(uintptr_t)p & (LOT_BYTES - 1), tail = LOT_BYTES - head;
  if (head) munmap(p, head);
  if (tail) munmap(p + head + LOT_BYTES, tail);
  struct lot *l = (struct lot *)(void *)(p + head);
#ifdef MADV_HUGEPAGE
  madvise(l, LOT_BYTES, MADV_HUGEPAGE);
#endif
  l->taken[0] = 1;
  return l;
}

static struct lot **last_lot(void) {
  struct lot **at = &lots;
  while (*at) at = &(*at)->next;
  return at;
}

void *lot_take(size_t bytes) {
  int n = grains_of(bytes);
  void *block = NULL;
  pthread_mutex_lock(&lock);
  for (struct lot *l = lots; l && !block; l = l->next) block = take_from(l, n);
  pthread_mutex_unlock(&lock);
  struct lot *more = block ? NULL : map_lot();
  if (!more) return block;
  block = take_from(more, n);
  pthread_mutex_lock(&lock);
  *last_lot() = more;
  pthread_mutex_unlock(&lock);
  return block;
}

static struct lot **lot_at(const void *block) {
  struct lot **at = &lots;
  while (*at && (uintptr_t)*at != ((uintptr_t)block & ~(LOT_BYTES - 1))) at = &(*at)->next;
  return at;
}

static bool is_of_lot(const void *block) {
  pthread_mutex_lock(&lock);
  bool is = *lot_at(block);
  pthread_mutex_unlock(&lock);
  return is;
}

/* Its grains are free only after the system has them back: until then nobody can take them. */
bool lot_give(void *block, size_t bytes) {
  int n = grains_of(bytes), from = (int)(((uintptr_t)block & (LOT_BYTES - 1)) / GRAIN_BYTES);
  if (!is_of_lot(block)) return false;
  madvise(block, (size_t)n * GRAIN_BYTES, MADV_DONTNEED);
  pthread_mutex_lock(&lock);
  struct lot **at = lot_at(block), *l = *at;
  turn(l, from, n, false);
  bool is_empty = !l->n_taken;
  if (is_empty) *at = l->next;
  pthread_mutex_unlock(&lock);
  if (is_empty) munmap(l, LOT_BYTES);
  return true;
}

int lot_count(void) {
  int n = 0;
  pthread_mutex_lock(&lock);
  for (struct lot *l = lots; l; l = l->next) n++;
  pthread_mutex_unlock(&lock);
  return n;
}
