/* races.c -- whether the machine of test/driver tells races of accesses that are ordered: kernels of two warps, in which every thread
 * stores its number to shared memory and reads another's, with something between. */
#include <stdlib.h>
#include "driver/machine.h"
#include "driver/races.h"
#include "test.h"

enum { THREADS = 64 };

static bool touches_all(uint64_t at, int bytes, struct stretch *around) { return *around = (struct stretch){ at, (uint64_t)bytes }, true; }

/* What the machine says of so many blocks of the body; NULL: nothing. Registers: $t the thread, $b the block, $own and $other
 * addresses of their words in shared memory (the other one `by` xor), $m of an mbarrier, $y the only parameter. */
static const char *ran(unsigned blocks, unsigned by, const char *body) {
  static char text[4000], why[300];
  static uint32_t y[THREADS];
  void *params[] = { &(void *){ y } };
  snprintf(text, sizeof text,
           ".version 8.0\n.target sm_90\n.address_size 64\n.shared .align 16 .b8 room[1024];\n.visible .entry told(\n.param .u64 p_y)\n.maxntid 64\n{\n"
           ".reg .b32 $t, $b, $o, $x, $z;\n.reg .b64 $s, $own, $other, $m, $y;\n.reg .pred $p;\n"
           "mov.u32 $t, %%tid.x;\nmov.u32 $b, %%ctaid.x;\nxor.b32 $o, $t, %u;\nmov.u64 $s, room;\ncvta.shared.u64 $s, $s;\n"
           "mad.wide.u32 $own, $t, 4, $s;\nmad.wide.u32 $other, $o, 4, $s;\nadd.s64 $m, $s, 512;\n"
           "ld.param.u64 $y, [p_y];\ncvta.to.global.u64 $y, $y;\n%s\nret;\n}\n", by, body);
  setenv("WEFT_TEST_DRIVER_RACES", "1", 1);
  struct module *m = module_parse(text, why, sizeof why);
  if (!m) { test_fail(__FILE__, __LINE__, "%s", why); return why; }
  const char *what = machine_run(m, &m->entries[0], (unsigned[]){ blocks, 1, 1 }, (unsigned[]){ THREADS, 1, 1 }, 0, params, touches_all);
  if (what) what = strncpy(why, what, sizeof why - 1);
  module_free(m);
  return what;
}

#define STORE "st.u32 [$own], $t;\n"
#define READ "ld.u32 $x, [$other];\n"
#define SHUFFLE "shfl.sync.idx.b32 $x, $t, 0, 31, -1;\n"

static void is_race(unsigned blocks, unsigned by, const char *body) {
  const char *what = ran(blocks, by, body);
  if (!what || !strstr(what, "nothing orders the two")) test_fail(__FILE__, __LINE__, "no race is told of\n%s(%s)", body, what ? what : "nothing");
}
static void is_ordered(unsigned blocks, unsigned by, const char *body) {
  const char *what = ran(blocks, by, body);
  if (what) test_fail(__FILE__, __LINE__, "of\n%sit is told: %s", body, what);
}

TEST(what_another_thread_stores_is_read_behind_a_barrier) {
  is_race(1, 63, STORE READ);
  is_race(1, 1, STORE READ);
  is_ordered(1, 0, STORE READ);
  is_ordered(1, 63, STORE "bar.sync 0;\n" READ);
}
TEST(barriers_of_a_warp_are_of_that_warp_alone) {
  is_ordered(1, 31, STORE "bar.warp.sync -1;\n" READ);
  is_race(1, 63, STORE "bar.warp.sync -1;\n" READ);
}
TEST(shuffles_order_nothing) { is_race(1, 31, STORE SHUFFLE READ); }
TEST(what_others_may_still_read_is_not_stored_to) {
  is_race(1, 31, STORE "bar.sync 0;\n" READ "add.u32 $t, $t, 1;\n" STORE);
  is_ordered(1, 31, STORE "bar.sync 0;\n" READ "add.u32 $t, $t, 1;\nbar.sync 0;\n" STORE);
  is_race(1, 63, STORE "bar.sync 0;\n" READ "add.u32 $t, $t, 1;\nbar.warp.sync -1;\n" STORE);
}
TEST(a_store_of_what_is_there_is_none) { is_ordered(1, 0, "st.u32 [$s], $b;\nst.u32 [$s], $b;\n"); }

/* All arrive; who waits for the turn knows what they have done. */
#define ARRIVES "setp.eq.u32 $p, $t, 0;\n@$p mbarrier.init.shared::cta.b64 [$m], 64;\nbar.sync 0;\n"
#define WAITS "$again:\nmbarrier.try_wait.parity.shared::cta.b64 $p, [$m], 0;\n@!$p bra $again;\n"
TEST(who_waits_at_an_mbarrier_knows_those_who_have_arrived) {
  is_ordered(1, 63, ARRIVES STORE "mbarrier.arrive.shared::cta.b64 _, [$m];\n" WAITS READ);
  is_race(1, 63, ARRIVES "mbarrier.arrive.shared::cta.b64 _, [$m];\n" STORE WAITS READ);
}
TEST(copies_on_their_way_are_waited_for_and_met) {
  const char *copy = "mad.wide.u32 $y, $t, 4, $y;\ncp.async.ca.shared.global [$own], [$y], 4, 4;\ncp.async.commit_group;\n";
  char text[600];
  snprintf(text, sizeof text, "%scp.async.wait_group 0;\nbar.sync 0;\n" READ, copy);
  is_ordered(1, 63, text);
  snprintf(text, sizeof text, "%sbar.sync 0;\n" READ "cp.async.wait_group 0;\n", copy);
  is_race(1, 63, text);
}
TEST(blocks_store_to_places_of_their_own) {
  is_race(2, 0, "st.global.u32 [$y], $b;\n");
  is_ordered(2, 0, "red.global.add.u32 [$y], $b;\n");
  is_ordered(2, 0, "mad.lo.u32 $z, $b, 64, $t;\nmad.wide.u32 $y, $t, 4, $y;\nsetp.eq.u32 $p, $b, 0;\n@$p st.global.u32 [$y], $z;\n");
}
