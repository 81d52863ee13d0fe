/* graph.c -- random programs of arrays, evaluated fused and one op a kernel, by the vm and the encoder, on one thread and
 * on three, as functions, as updates and mapped: all with the bits of an evaluator in plain C. Their gradients have the
 * same bits in all these ways.
 *
 *   graph SECONDS SEED [COUNT]    COUNT: so many programs from that seed on, whatever the time */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include "../test/every_recipe.h"

int main(int argc, char **argv) {
  time_t end = time(NULL) + (argc > 1 ? atoi(argv[1]) : 10);
  uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1, first = seed;
  long most = argc > 3 ? atol(argv[3]) : 0, n = 0;
  bool ok = true;
  for (; ok && (most ? n < most : time(NULL) < end); seed++, n++) {
    ok = recipe_check(seed) && (seed % 4 || recipe_check_gradient(seed)) && (seed % 4 != 1 || recipe_check_forms(seed));
    if (ok && plain_off) printf("exp, log, log1p or tanh is more than 4 ulp off\n"), ok = false;
    if (ok && weft_get(WEFT_NODES)) printf("%lld nodes are left\n", (long long)weft_get(WEFT_NODES)), ok = false;
    if (!ok) printf("graph: seed %llu: graph 0 %llu 1\n", (unsigned long long)seed, (unsigned long long)seed);
  }
  plain_end();
  printf("graph: %ld programs from seed %llu on, %s\n", n, (unsigned long long)first, ok ? "no findings" : "a finding");
  return !ok;
}
