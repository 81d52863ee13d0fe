/* programs.c -- random programs of everything public (program.h), some hundreds of them; fuzz/program.c makes more. */
#include <stdlib.h>
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
