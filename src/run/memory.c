/* memory.c -- blocks for array data: 64-byte aligned, kept for reuse by size class, within a budget.
 *
 * Eight classes a doubling, so a block is at most 1/8 larger than what is asked for. Blocks of 2 MiB and more are
 * mappings aligned to 2 MiB, on huge pages where the kernel has them; smaller ones come from malloc. Once there are some MiB of
 * arrays, blocks of middle size stand side by side in huge pages (lot.h). A block that is
 * given back is kept, linked into the list of its class and into one list by age; the oldest go first when the cache
 * is beyond its limit or the budget is short. `used` counts the bytes asked for, `cached` the bytes of the blocks kept,
 * and used + cached <= limit unless the limit was lowered below what is in use, or hoards that are held leave no room.
 * System calls are made without the lock. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>
#include "base/mem.h"
#include "run/lot.h"
#include "run/machine.h"
#include "run/memory.h"

#if defined __SANITIZE_ADDRESS__
#define HAS_ASAN 1
#elif defined __has_feature
#if __has_feature(address_sanitizer)
#define HAS_ASAN 1
#endif
#endif
#ifdef HAS_ASAN
#include <sanitizer/asan_interface.h>
#define POISON(p, n) __asan_poison_memory_region(p, n)
enum { HAS_LOTS = false }; /* malloc has room around blocks that nobody may touch */
#define UNPOISON(p, n) __asan_unpoison_memory_region(p, n)
#else
#define POISON(p, n) ((void)(p), (void)(n))
enum { HAS_LOTS = true };
#define UNPOISON(p, n) ((void)(p), (void)(n))
#endif

#define LARGE ((size_t)2 << 20)
#define HUGE_PAGE ((size_t)2 << 20)
#define LOTS_FROM ((int64_t)4 << 20) /* bytes of arrays, used and kept; with fewer a huge page that is not full is a waste */
enum { GRAIN = 64, STEPS = 8, CLASSES = 8 + 44 * STEPS }; /* 64 .. 512, then 8 a doubling up to 2^53 */

struct block {             /* lies in the first bytes of a block that is kept */
  struct memory_link by_class, by_age;
  int class;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct memory_link kept[CLASSES], ages, hoards; /* the newest follows the head */
static int64_t used, cached, peak, limit, cache_limit;
static int64_t hoarded; /* of what is cached, hoards */

static void join(struct memory_link *head, struct memory_link *l) {
  *l = (struct memory_link){ head, head->after };
  head->after->before = l;
  head->after = l;
}

static void part(struct memory_link *l) {
  l->before->after = l->after;
  l->after->before = l->before;
}

static void take_lock(void) { pthread_mutex_lock(&lock); }
static void give_lock(void) { pthread_mutex_unlock(&lock); }
static void before_fork(void) { take_lock(), lot_before_fork(); }
static void after_fork(void) { lot_after_fork(), give_lock(); }

static void begin(void) {
  for (int c = 0; c < CLASSES; c++) kept[c] = (struct memory_link){ &kept[c], &kept[c] };
  ages = (struct memory_link){ &ages, &ages };
  hoards = (struct memory_link){ &hoards, &hoards };
  limit = machine_memory("");
  cache_limit = limit / 4;
  pthread_atfork(before_fork, after_fork, after_fork);
}

static void enter(void) {
  pthread_once(&once, begin);
  take_lock();
}

/* bytes <= 512: multiples of 64. Above, with 2^k < bytes <= 2^(k+1): multiples of 2^(k-3). */
static int class_of(size_t bytes) {
  if (bytes <= GRAIN * STEPS) return bytes ? (int)((bytes - 1) / GRAIN) : 0;
  int k = 63 - __builtin_clzll(bytes - 1);
  return STEPS * (k - 8) + (int)((bytes - 1) >> (k - 3)) - STEPS;
}

static size_t class_bytes(int c) {
  if (c < STEPS) return (size_t)GRAIN * (size_t)(c + 1);
  int k = c / STEPS + 8;
  return (size_t)(c % STEPS + STEPS + 1) << (k - 3);
}

/* Bytes to map: up to the end of the last huge page, if half of it or more is used. */
static size_t mapped_bytes(size_t bytes) {
  size_t tail = bytes % HUGE_PAGE;
  return tail >= HUGE_PAGE / 2 ? bytes + HUGE_PAGE - tail : bytes;
}

static void *map_large(size_t bytes) {
  bytes = mapped_bytes(bytes);
  char *p = mmap(NULL, bytes + HUGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) return NULL;
  size_t head = -(uintptr_t)p & (HUGE_PAGE - 1), tail = HUGE_PAGE - head;
  if (head) munmap(p, head);
  if (tail) munmap(p + head + bytes, tail);
#ifdef MADV_HUGEPAGE
  madvise(p + head, bytes, MADV_HUGEPAGE);
#endif
  return p + head;
}

static bool fits_lot(size_t bytes) { return HAS_LOTS && bytes >= LOT_LEAST && bytes < LOT_MOST; }

static void *system_take(size_t bytes, bool from_lots) {
  void *p = from_lots && fits_lot(bytes) ? lot_take(bytes) : NULL;
  return p ? p : bytes >= LARGE ? map_large(bytes) : aligned_alloc(GRAIN, bytes);
}

static void system_give(void *p, size_t bytes) {
  UNPOISON(p, bytes);
  if (fits_lot(bytes) && lot_give(p, bytes)) return;
  if (bytes >= LARGE) munmap(p, mapped_bytes(bytes));
  else free(p);
}

static struct block *at_class(struct memory_link *l) { return (struct block *)l; }
static struct block *at_age(struct memory_link *l) { return (struct block *)(l - 1); }

static void unlink_block(struct block *b) {
  part(&b->by_class);
  part(&b->by_age);
  cached -= (int64_t)class_bytes(b->class);
}

static void keep(struct block *b, int class) {
  b->class = class;
  join(&kept[class], &b->by_class);
  join(&ages, &b->by_age);
  cached += (int64_t)class_bytes(class);
}

/* What was in it is lost. */
static struct block *empty(struct hoard *h) {
  struct block *b = h->at;
  UNPOISON(b, sizeof *b);
  b->class = class_of(h->bytes);
  part(&h->by_age);
  h->at = NULL;
  cached -= (int64_t)class_bytes(b->class), hoarded -= (int64_t)class_bytes(b->class);
  return b;
}

static struct block *chained(struct block *b, struct block *chain) {
  b->by_age.after = chain ? &chain->by_age : NULL;
  return b;
}

/* Takes the oldest blocks out of the cache until no more than `most` bytes are in it. Free the chain with give_chain, without the
 * lock. */
static struct block *evict_blocks(int64_t most) {
  struct block *chain = NULL;
  while (cached > most && ages.before != &ages) {
    struct block *b = at_age(ages.before);
    unlink_block(b);
    chain = chained(b, chain);
  }
  return chain;
}

/* The same, then hoards that nobody holds. */
static struct block *evict(int64_t most) {
  struct block *chain = evict_blocks(most);
  for (struct memory_link *l = hoards.before, *next; cached > most && l != &hoards; l = next) {
    struct hoard *h = (struct hoard *)l;
    next = l->before;
    if (!h->holds) chain = chained(empty(h), chain);
  }
  return chain;
}

static void give_chain(struct block *b) {
  for (struct block *rest; b; b = rest) {
    rest = b->by_age.after ? at_age(b->by_age.after) : NULL;
    system_give(b, class_bytes(b->class));
  }
}

static void count(int64_t bytes) {
  used += bytes;
  if (used > peak) peak = used;
}

static void *take_kept(int class) {
  if (kept[class].after == &kept[class]) return NULL;
  struct block *b = at_class(kept[class].after);
  unlink_block(b);
  return b;
}

/* A block from the system; if there is none, the cache is given back and the system asked once more. */
static void *take_fresh(size_t bytes, bool from_lots) {
  void *p = system_take(bytes, from_lots);
  if (p) return p;
  enter();
  struct block *chain = evict(0);
  give_lock();
  give_chain(chain);
  return system_take(bytes, from_lots);
}

static void uncount(int64_t bytes, int64_t peak_before) {
  enter();
  used -= bytes;
  if (peak == used + bytes) peak = peak_before > used ? peak_before : used;
  give_lock();
}

/* `counted` of the bytes are used from now on: all, or none. */
static void *take(size_t bytes, int64_t counted) {
  if (mem_should_fail() || bytes > (size_t)1 << 52) return NULL;
  int class = class_of(bytes);
  size_t whole = class_bytes(class);
  int64_t n = (int64_t)bytes;
  enter();
  if (n > limit - used) return give_lock(), NULL;
  void *p = take_kept(class);
  struct block *chain = p ? NULL : evict(limit - used - n);
  int64_t peak_before = peak;
  count(counted);
  bool from_lots = used + cached >= LOTS_FROM;
  give_lock();
  give_chain(chain);
  if (!p) p = take_fresh(whole, from_lots);
  if (!p) return uncount(counted, peak_before), NULL;
  UNPOISON(p, bytes);
  POISON((char *)p + bytes, whole - bytes);
  return p;
}

void *memory_take(size_t bytes) { return take(bytes, (int64_t)bytes); }
void *memory_borrow(size_t bytes) { return take(bytes, 0); }

static void give(void *p, size_t bytes, int64_t counted) {
  if (!p) return;
  int class = class_of(bytes);
  size_t whole = class_bytes(class);
  UNPOISON(p, sizeof(struct block));
  enter();
  used -= counted;
  keep(p, class);
  int64_t most = limit - used < cache_limit ? limit - used : cache_limit;
  POISON((char *)p + sizeof(struct block), whole - sizeof(struct block));
  struct block *chain = evict(most);
  give_lock();
  give_chain(chain);
}

void memory_give(void *p, size_t bytes) { give(p, bytes, (int64_t)bytes); }
void memory_return(void *p, size_t bytes) { give(p, bytes, 0); }

/* ---- hoards ---- */

/* Lock held. Hoards make no room for others: where there are more than the cache may have, each would drive out the next one that
 * is needed. */
static int64_t free_for_hoards(void) {
  return (limit - used < cache_limit ? limit - used : cache_limit) - hoarded;
}

int64_t memory_for_hoards(void) {
  enter();
  int64_t bytes = free_for_hoards();
  give_lock();
  return bytes;
}

bool memory_hoard(struct hoard *h, void *p, size_t bytes) {
  int64_t whole = (int64_t)class_bytes(class_of(bytes));
  enter();
  bool has_room = whole <= free_for_hoards();
  struct block *chain = has_room ? evict_blocks(cache_limit - whole) : NULL;
  if (has_room) {
    *h = (struct hoard){ .at = p, .bytes = bytes, .holds = 1 };
    join(&hoards, &h->by_age);
    cached += whole, hoarded += whole;
  }
  give_lock();
  give_chain(chain);
  return has_room;
}

bool memory_has(struct hoard *h) {
  enter();
  bool is_there = h->at != NULL;
  give_lock();
  return is_there;
}

void *memory_hold(struct hoard *h) {
  enter();
  void *at = h->at;
  if (at) h->holds++, part(&h->by_age), join(&hoards, &h->by_age);
  give_lock();
  return at;
}

void memory_let_go(struct hoard *h) {
  enter();
  h->holds--;
  struct block *chain = evict(limit - used < cache_limit ? limit - used : cache_limit);
  give_lock();
  give_chain(chain);
}

void memory_drop(struct hoard *h) {
  enter();
  struct block *b = h->at ? empty(h) : NULL;
  size_t bytes = h->bytes;
  give_lock();
  if (b) memory_return(b, bytes);
}

static int64_t look(const int64_t *value) {
  enter();
  int64_t v = *value;
  give_lock();
  return v;
}

int64_t memory_used(void) { return look(&used); }
int64_t memory_cached(void) { return look(&cached); }
int64_t memory_peak(void) { return look(&peak); }
int64_t memory_limit(void) { return look(&limit); }
int64_t memory_cache_limit(void) { return look(&cache_limit); }

void memory_set_peak(int64_t bytes) {
  enter();
  peak = bytes > used ? bytes : used;
  give_lock();
}

static void set(int64_t *value, int64_t bytes) {
  enter();
  *value = bytes < 0 ? INT64_MAX : bytes;
  int64_t most = limit - used < cache_limit ? limit - used : cache_limit;
  struct block *chain = evict(most > 0 ? most : 0);
  give_lock();
  give_chain(chain);
}

void memory_set_limit(int64_t bytes) { set(&limit, bytes); }
void memory_set_cache_limit(int64_t bytes) { set(&cache_limit, bytes); }
