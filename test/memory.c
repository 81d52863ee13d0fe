/* memory.c -- blocks are aligned, counted to the byte, kept for reuse, and never beyond the budget. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/mem.h"
#include "run/lot.h"
#include "run/memory.h"
#include "test.h"

static const size_t sizes[] = { 0, 1, 63, 64, 65, 511, 512, 513, 576, 577, 1000, 4096, 65537, 1 << 20, (4 << 20) - 1,
                                4 << 20, (4 << 20) + 1, 9999999, 64 << 20 };
enum { SIZES = sizeof sizes / sizeof *sizes };

TEST(blocks_are_aligned_writable_and_counted_to_the_byte) {
  for (int i = 0; i < SIZES; i++) {
    int64_t before = memory_used();
    char *p = memory_take(sizes[i]);
    EXPECT(p && (uintptr_t)p % 64 == 0);
    if (sizes[i] >= 4 << 20) EXPECT((uintptr_t)p % (2 << 20) == 0);
    EXPECT_INT(memory_used() - before, sizes[i]);
    memset(p, 7, sizes[i]);
    memory_give(p, sizes[i]);
    EXPECT_INT(memory_used(), before);
  }
  memory_set_cache_limit(0);
}

TEST(a_block_given_back_is_the_next_one_taken) {
  for (int i = 0; i < SIZES; i++) {
    void *p = memory_take(sizes[i]);
    memory_give(p, sizes[i]);
    EXPECT(memory_cached() > 0);
    void *q = memory_take(sizes[i]);
    EXPECT(p == q);
    memory_give(q, sizes[i]);
  }
  memory_set_cache_limit(0);
  EXPECT_INT(memory_cached(), 0);
}

TEST(a_kept_block_is_at_most_an_eighth_or_a_line_too_large) {
  for (size_t n = 1; n < (size_t)1 << 33; n += n / 7 + 1) {
    int64_t before = memory_cached();
    void *p = memory_take(n);
    EXPECT(p != NULL);
    memory_give(p, n);
    int64_t got = memory_cached() - before;
    EXPECT(got >= (int64_t)n && got <= (int64_t)(n + (n / 8 > 64 ? n / 8 : 64)));
    memory_set_cache_limit(0);
    memory_set_cache_limit(INT64_C(1) << 40);
  }
}

TEST(the_cache_stays_within_its_limit_and_drops_the_oldest) {
  memory_set_cache_limit(10 << 10);
  void *p[16];
  for (int i = 0; i < 16; i++) p[i] = memory_take(1024);
  for (int i = 0; i < 16; i++) {
    memory_give(p[i], 1024);
    EXPECT(memory_cached() <= 10 << 10);
  }
  EXPECT_INT(memory_cached(), 10 << 10);
  for (int i = 15; i >= 6; i--) {
    void *q = memory_take(1024);
    EXPECT(q == p[i]);
    p[i] = q;
  }
  EXPECT_INT(memory_cached(), 0);
  for (int i = 6; i < 16; i++) memory_give(p[i], 1024);
  memory_give(memory_take(1 << 20), 1 << 20);
  EXPECT_INT(memory_cached(), 0);
}

TEST(the_budget_is_hard_and_the_cache_gives_way_to_it) {
  memory_set_limit(1 << 20);
  memory_give(memory_take(900 << 10), 900 << 10);
  EXPECT(memory_cached() > 0);
  void *a = memory_take(512 << 10), *b = memory_take(512 << 10);
  EXPECT(a && b);
  EXPECT_INT(memory_cached(), 0);
  EXPECT(!memory_take(1));
  EXPECT(memory_take((size_t)1 << 60) == NULL && memory_take(SIZE_MAX) == NULL);
  EXPECT_INT(memory_used(), 1 << 20);
  memory_give(a, 512 << 10);
  void *c = memory_take(1);
  EXPECT(c != NULL);
  memory_give(b, 512 << 10), memory_give(c, 1);
  memory_set_limit(-1);
  EXPECT_INT(memory_used(), 0);
}

TEST(the_peak_is_of_the_bytes_in_use) {
  memory_set_peak(0);
  void *a = memory_take(1000), *b = memory_take(2000);
  memory_give(a, 1000);
  EXPECT_INT(memory_peak(), 3000);
  memory_set_peak(0);
  EXPECT_INT(memory_peak(), 2000);
  memory_give(b, 2000);
  EXPECT_INT(memory_peak(), 2000);
}

TEST(more_than_the_machine_can_map_is_refused_and_leaves_the_counts) {
  memory_set_limit(-1);
  memory_set_peak(0);
  EXPECT(memory_take((size_t)1 << 50) == NULL);
  EXPECT_INT(memory_used(), 0);
  EXPECT_INT(memory_peak(), 0);
}

TEST(an_injected_failure_is_a_refusal) {
  mem_fail_at(2, 0);
  void *a = memory_take(100), *b = memory_take(100), *c = memory_take(100);
  EXPECT_INT(mem_count(), 3);
  mem_fail_at(0, 0);
  EXPECT(a && !b && c);
  memory_give(a, 100), memory_give(c, 100);
  EXPECT_INT(memory_used(), 0);
}

static void *churn(void *seed) {
  unsigned r = (unsigned)(uintptr_t)seed;
  void *p[8] = { 0 };
  size_t n[8] = { 0 };
  for (int i = 0; i < 3000; i++) {
    r = r * 1103515245 + 12345;
    int k = r >> 29;
    if (p[k]) memory_give(p[k], n[k]);
    n[k] = (size_t)1 << (r >> 8) % 23;
    p[k] = memory_take(n[k]);
    if (p[k]) memset(p[k], k, n[k] < 64 ? n[k] : 64);
  }
  for (int k = 0; k < 8; k++) memory_give(p[k], n[k]);
  return NULL;
}

static void start_churning(pthread_t t[4]) {
  memory_set_cache_limit(8 << 20);
  for (int i = 0; i < 4; i++) pthread_create(&t[i], NULL, churn, (void *)(uintptr_t)(i + 1));
}

static void end_churning(pthread_t t[4]) {
  for (int i = 0; i < 4; i++) pthread_join(t[i], NULL);
  EXPECT_INT(memory_used(), 0);
  EXPECT(memory_cached() <= 8 << 20);
  memory_set_cache_limit(0);
}

TEST(four_threads_take_and_give_and_nothing_is_lost) {
  pthread_t t[4];
  start_churning(t);
  end_churning(t);
}

TEST(a_child_forked_amid_allocations_can_allocate) {
  if (UNDER_ASAN) return test_skip("the allocator of AddressSanitizer may be locked for ever in a child of several threads");
  if (UNDER_TSAN) return test_skip("ThreadSanitizer does not follow a fork of a process with several threads");
  pthread_t t[4];
  start_churning(t);
  for (int i = 0; i < 10; i++) {
    pid_t pid = fork();
    if (!pid) {
      test_watchdog(20);
      _exit(churn((void *)9) == NULL ? 0 : 1);
    }
    int status = -1;
    waitpid(pid, &status, 0);
    EXPECT_INT(status, 0);
  }
  end_churning(t);
}

/* ---- lots ---- */

enum { LOT_BLOCKS = 200 };

static void fill_block(uint8_t *p, size_t bytes, int k) {
  for (size_t i = 0; i < bytes; i += 4096) p[i] = (uint8_t)k;
  p[bytes - 1] = (uint8_t)k;
}

static bool has_filling(const uint8_t *p, size_t bytes, int k) {
  for (size_t i = 0; i < bytes; i += 4096) if (p[i] != (uint8_t)k) return false;
  return p[bytes - 1] == (uint8_t)k;
}

TEST(blocks_of_a_lot_are_apart_and_the_last_one_takes_it_along) {
  uint8_t *p[LOT_BLOCKS] = { 0 };
  size_t n[LOT_BLOCKS] = { 0 };
  unsigned r = 7;
  for (int i = 0; i < 5000; i++) {
    r = r * 1103515245 + 12345;
    int k = (int)(r >> 8) % LOT_BLOCKS;
    if (p[k]) EXPECT(has_filling(p[k], n[k], k) && lot_give(p[k], n[k]));
    n[k] = LOT_LEAST + (r >> 10) % (i % 9 ? LOT_LEAST : LOT_MOST - LOT_LEAST);
    p[k] = lot_take(n[k]);
    EXPECT(p[k] && (uintptr_t)p[k] % 4096 == 0);
    fill_block(p[k], n[k], k);
  }
  EXPECT(lot_count() > 1);
  for (int k = 0; k < LOT_BLOCKS; k++) if (p[k]) EXPECT(has_filling(p[k], n[k], k) && lot_give(p[k], n[k]));
  EXPECT_INT(lot_count(), 0);
}

TEST(a_block_of_another_kind_is_no_lots) {
  static uint8_t other[64];
  EXPECT(!lot_give(other, LOT_LEAST));
  void *p = lot_take(LOT_LEAST);
  EXPECT(!lot_give(other, LOT_LEAST));
  EXPECT(lot_give(p, LOT_LEAST));
}

static long resident_kb(void) {
  char text[256] = "";
  long pages = 0;
  FILE *f = fopen("/proc/self/statm", "r");
  if (!f) return 0;
  if (fgets(text, sizeof text, f)) sscanf(text, "%*s %ld", &pages);
  fclose(f);
  return pages * 4;
}

/* One block of 64 KiB is left of 25 MiB. */
TEST(a_lot_that_one_block_is_left_in_costs_little_more_than_the_block) {
  if (UNDER_ASAN || UNDER_TSAN) return test_skip("a sanitizer has memory of its own");
  uint8_t *p[400];
  for (int k = 0; k < 400; k++) fill_block(p[k] = lot_take(LOT_LEAST), LOT_LEAST, k);
  long all = resident_kb();
  for (int k = 0; k < 400; k++) if (k != 200) lot_give(p[k], LOT_LEAST);
  long left = resident_kb();
  EXPECT(lot_count() == 1 && has_filling(p[200], LOT_LEAST, 200));
  if (all && all - left < 20 << 10) test_fail(__FILE__, __LINE__, "%ld kB with 400 blocks, %ld kB with one", all, left);
  lot_give(p[200], LOT_LEAST);
}

/* A program of few arrays has no lot, one of many has its blocks in few; all counts are as they are without. */
TEST(lots_are_for_programs_of_some_arrays) {
  if (UNDER_ASAN) return test_skip("blocks come from malloc there");
  void *p[64], *one = memory_take(LOT_LEAST);
  EXPECT_INT(lot_count(), 0);
  for (int k = 0; k < 64; k++) p[k] = memory_take(300 << 10);
  EXPECT_INT(lot_count(), 1);
  EXPECT_INT(memory_used(), LOT_LEAST + 64 * (300 << 10));
  memory_give(one, LOT_LEAST);
  for (int k = 0; k < 64; k++) memory_give(p[k], 300 << 10);
  EXPECT_INT(memory_used(), 0);
  EXPECT(memory_cached() >= 64 * (300 << 10));
  memory_set_cache_limit(0);
  EXPECT_INT(memory_cached(), 0);
  EXPECT_INT(lot_count(), 0);
}

/* Where there are no addresses for a lot, blocks come from elsewhere; where there are none at all, that is a refusal. */
TEST(without_addresses_for_a_lot_blocks_are_taken_elsewhere) {
  if (UNDER_ASAN || UNDER_TSAN) return test_skip("a sanitizer has addresses of its own");
  struct rlimit was;
  char text[256] = "";
  long pages = 0;
  void *large = memory_take(8 << 20), *p[100];
  FILE *f = fopen("/proc/self/statm", "r");
  if (!f || !fgets(text, sizeof text, f) || sscanf(text, "%ld", &pages) != 1) return test_skip("no /proc/self/statm");
  fclose(f);
  getrlimit(RLIMIT_AS, &was);
  setrlimit(RLIMIT_AS, &(struct rlimit){ (rlim_t)pages * 4096 + (16 << 20), was.rlim_max });
  int n = 0;
  while (n < 100 && (p[n] = memory_take(1 << 20))) n++;
  setrlimit(RLIMIT_AS, &was);
  EXPECT(n > 0 && n < 100);
  EXPECT_INT(lot_count(), 0);
  EXPECT_INT(memory_used(), (8 << 20) + ((int64_t)n << 20));
  while (n) memory_give(p[--n], 1 << 20);
  memory_give(large, 8 << 20);
}
