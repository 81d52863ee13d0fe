/* memory.c -- blocks are aligned, counted to the byte, kept for reuse, and never beyond the budget. */
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/mem.h"
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
