/* base.c -- allocation that can be made to fail, arenas, growing text. */
#include "base/arena.h"
#include "base/mem.h"
#include "base/text.h"
#include "test.h"

TEST(allocations_are_zeroed_and_counted) {
  int64_t before = mem_live();
  char *p = mem_alloc(1000);
  EXPECT(p);
  for (int i = 0; p && i < 1000; i++) EXPECT_INT(p[i], 0);
  EXPECT_INT(mem_live(), before + 1);
  mem_free(p);
  mem_free(NULL);
  EXPECT_INT(mem_live(), before);
}

TEST(the_nth_allocation_fails_once_or_from_then_on) {
  mem_fail_at(2, 0);
  void *a = mem_alloc(1), *b = mem_alloc(1), *c = mem_alloc(1);
  EXPECT(a && !b && c);
  mem_fail_at(2, 1);
  void *d = mem_alloc(1), *e = mem_alloc(1), *f = mem_alloc(1);
  EXPECT(d && !e && !f);
  mem_fail_at(0, 0);
  void *all[] = { a, b, c, d, e, f };
  for (int i = 0; i < 6; i++) mem_free(all[i]);
}

TEST(a_resize_that_fails_leaves_the_old_block) {
  char *p = mem_text("abc");
  mem_fail_at(1, 0);
  char *q = mem_resize(p, 1 << 20);
  mem_fail_at(0, 0);
  EXPECT(!q);
  EXPECT_TEXT(p, "abc");
  mem_free(p);
}

TEST(arena_blocks_are_aligned_apart_and_zeroed) {
  struct arena *a = arena_new();
  EXPECT(a);
  char *last = NULL;
  for (size_t n = 0; a && n < 3000; n += 7) {
    char *p = arena_take(a, n);
    EXPECT(p && (uintptr_t)p % 16 == 0 && p != last);
    for (size_t i = 0; p && i < n; i++) EXPECT_INT(p[i], 0);
    if (p) memset(p, 1, n);
    last = n ? p : NULL;
  }
  EXPECT(!arena_take(a, SIZE_MAX));
  arena_free(a);
  arena_free(NULL);
}

TEST(an_arena_survives_a_failed_allocation) {
  int64_t before = mem_live();
  struct arena *a = arena_new();
  mem_fail_at(1, 0);
  EXPECT(!arena_take(a, 1 << 20));
  mem_fail_at(0, 0);
  EXPECT_TEXT(arena_text(a, "still here"), "still here");
  arena_free(a);
  EXPECT_INT(mem_live(), before);
}

TEST(text_grows_and_is_always_ended) {
  struct text t = { 0 };
  EXPECT_TEXT(text_of(&t), "");
  for (int i = 0; i < 1000; i++) text_addf(&t, "%d,", i % 10);
  EXPECT_INT(strlen(text_of(&t)), 2000);
  text_clear(&t);
  text_add(&t, "a");
  text_bytes(&t, "bcd", 2);
  EXPECT_TEXT(text_of(&t), "abc");
  text_free(&t);
}

TEST(text_out_of_memory_is_marked_and_harmless) {
  struct text t = { 0 };
  mem_fail_at(1, 1);
  text_add(&t, "lost");
  text_addf(&t, "%d", 1);
  mem_fail_at(0, 0);
  EXPECT(t.failed);
  EXPECT_TEXT(text_of(&t), "");
  text_free(&t);
}
