/* graph.c -- random programs of arrays, evaluated fused and one op a kernel, by the vm and the encoder in both its widths, on
 * one to three threads, as functions, as updates, mapped, in loops and behind checkpoints: all with the bits of an evaluator
 * in plain C. Their gradients and tangents have the same bits in all these ways.
 *
 *   graph SECONDS SEED [COUNT [STEPS]]    COUNT: so many programs from that seed on, whatever the time; STEPS: no longer
 *
 * A program that fails is cut to as few steps as still fail, and printed: what is wrong, its graph and its kernels. With
 * WEFT_EXPECT_DEVICE in the environment it fails too if a step of work for a device runs on the host. Who ends it with SIGTERM, as
 * timeout does where a program takes long, is told how many there were, too. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
#include "../test/every_recipe.h"

static int64_t steps_on_host; /* so far */

static bool check(uint64_t seed) {
  int64_t left = weft_get(WEFT_KERNELS_VM);
  plain_off = 0; /* of this program alone */
  bool ok = recipe_check(seed) && (seed % 4 || recipe_check_gradient(seed)) && (seed % 4 != 1 || recipe_check_forms(seed));
  if (ok && plain_off) printf("beyond its bound: %s\n", plain_off_text), ok = false;
  if (ok && weft_get(WEFT_KERNELS_VM) != left) printf("the encoder left a kernel to the vm\n"), ok = false;
  int64_t on_host = getenv("WEFT_EXPECT_DEVICE") ? weft_get(WEFT_KERNELS_HOST) : 0;
  if (ok && on_host != steps_on_host) printf("%lld steps ran on the host\n", (long long)(on_host - steps_on_host)), ok = false;
  steps_on_host = on_host;
  for (int i = 0; ok && i < 200 && weft_get(WEFT_NODES); i++) usleep(5000); /* work in the background lets go a moment later */
  if (ok && weft_get(WEFT_NODES)) printf("%lld nodes are left\n", (long long)weft_get(WEFT_NODES)), ok = false;
  return ok;
}

static bool check_quietly(uint64_t seed) {
  fflush(stdout);
  int out = dup(STDOUT_FILENO), none = open("/dev/null", O_WRONLY);
  dup2(none, STDOUT_FILENO);
  bool ok = check(seed);
  fflush(stdout);
  dup2(out, STDOUT_FILENO);
  close(out), close(none);
  return ok;
}

/* The shortest beginning of the program that fails. */
static void shrink(uint64_t seed) {
  int most = recipe_most;
  for (recipe_most = 1; recipe_most < most && check_quietly(seed); recipe_most++) {}
  check(seed);
  printf("graph: seed %llu: graph 0 %llu 1 %d\n", (unsigned long long)seed, (unsigned long long)seed, recipe_most);
}

static struct { int out; long n; uint64_t first; bool has_found; } so_far; /* what a handler may read at any time */

static char *put_number(char *end, uint64_t x) {
  do *--end = (char)('0' + x % 10); while (x /= 10);
  return end;
}

static void say(const char *text, size_t n) {
  if (write(so_far.out, text, n) < 0) _exit(2);
}

static void say_number(uint64_t x) {
  char digits[20], *end = digits + sizeof digits, *at = put_number(end, x);
  say(at, (size_t)(end - at));
}

#define SAY(text) say(text, sizeof text - 1)

/* By write alone, to where the output was when the program began: inside a check it goes nowhere. */
static void end_early(int signal) {
  (void)signal;
  SAY("graph: "), say_number((uint64_t)so_far.n), SAY(" programs from seed "), say_number(so_far.first);
  if (so_far.has_found) SAY(" on, a finding, cut while it was made shorter\n");
  else SAY(" on, no findings, cut in the next one\n");
  _exit(so_far.has_found);
}

int main(int argc, char **argv) {
  time_t end = time(NULL) + (argc > 1 ? atoi(argv[1]) : 10);
  uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1, first = seed;
  long most = argc > 3 ? atol(argv[3]) : 0, n = 0;
  bool ok = true;
  if (argc > 4) recipe_most = atoi(argv[4]);
  so_far.out = dup(STDOUT_FILENO), so_far.first = first;
  signal(SIGTERM, end_early);
  for (; ok && (most ? n < most : time(NULL) < end); seed++, so_far.n = ++n)
    if (!(ok = check_quietly(seed))) so_far.has_found = true, shrink(seed);
  plain_end();
  printf("graph: %ld programs from seed %llu on, %s\n", n, (unsigned long long)first, ok ? "no findings" : "a finding");
  return !ok;
}
