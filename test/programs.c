/* programs.c -- random programs of everything public (program.h), some hundreds of them; fuzz/program.c makes more. */
#include <stdlib.h>
#include "base/mem.h"
#include "program_kinds.h"
#include "test.h"

static void check_programs(uint64_t first, uint64_t n) {
  static struct program p;
  test_watchdog(120);
  for (uint64_t seed = first; seed < first + n; seed++) {
    program_make(&p, seed);
    if (!program_check(&p, stdout)) {
      program_print(&p, stdout);
      test_fail(__FILE__, __LINE__, "program %llu: build/release/fuzz/program 0 %llu 1 makes it smaller", (unsigned long long)seed, (unsigned long long)seed);
    }
    program_free(&p);
  }
  plain_end();
}

TEST(random_programs_are_what_the_plain_evaluator_says) { check_programs(100000, 200); }
TEST(random_programs_are_what_the_plain_evaluator_says_2) { check_programs(200000, 200); }
TEST(random_programs_are_what_the_plain_evaluator_says_3) { check_programs(300000, 200); }

/* The larger of two numbers 1.1e-6 apart, less than the step of the differences (if programs are still drawn as they were). */
TEST(a_corner_nearer_than_the_step_of_differences_is_no_finding) { check_programs(9185100000148867, 1); }

/* ---- Writing a program while memory is short ---- */

/* Builds it, with every size open or none, and lets allocation n fail, alone or with all after it (0: none). What it came to: OK, or the
 * status of the first array that is bad. Whether there were so many allocations. */
static bool build_failing(const struct program *p, bool is_open, int64_t n, weft_status *status, char *said, size_t room) {
  static struct build b;
  memset(&b, 0, sizeof b);
  b.p = p, b.is_open = is_open;
  weft_scope *s = weft_scope_open();
  mem_fail_at(n, (int)(n % 2));
  program_build(&b);
  bool came = n && mem_count() >= n;
  mem_fail_at(0, 0);
  *status = WEFT_OK;
  for (int i = 0; i < p->n && !*status; i++) /* what is made in bodies has gone with them */
    for (int k = 0; k < PROGRAM_OUTS && !p->step[i].block && b.at[i][k] && !*status; k++) *status = weft_check(b.at[i][k]);
  if (*status) snprintf(said, room, "%s", weft_message());
  weft_scope_discard(s);
  return came;
}

static void fail_programs(uint64_t first, uint64_t n) {
  static struct program p;
  test_watchdog(120);
  program_counts = false;
  for (uint64_t seed = first; seed < first + n; seed++) {
    bool is_open = seed % 2;
    weft_status as_it_is, status;
    char said[256] = "";
    program_make(&p, seed);
    build_failing(&p, is_open, 0, &as_it_is, said, sizeof said);
    for (int64_t at = 1; build_failing(&p, is_open, at, &status, said, sizeof said); at += 1 + at / 8)
      if (status && status != WEFT_ERR_MEMORY && status != as_it_is)
        test_fail(__FILE__, __LINE__, "program %llu, allocation %lld: status %d: %s", (unsigned long long)seed, (long long)at, (int)status, said);
    EXPECT_INT(weft_get(WEFT_NODES), 0);
    program_free(&p);
  }
  plain_end();
}

TEST(programs_that_are_written_without_memory_say_so) { fail_programs(400000, 1200); }
