/* lanes.h -- includes the loops in the file LOOPS once for each instruction set that vectors have here. Whoever includes it has
 * defined LOOPS, and LANE_BYTES, of an element. In the loops LANES is how many elements a vector has and NAME(x) is what x is
 * called in this set; HERE(x) is the x of the best set that the machine has. */
#define LANES (16 / LANE_BYTES)
#define NAME(x) plain_##x
#include LOOPS
#undef LANES
#undef NAME

#ifdef __x86_64__
#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma")
#endif
#define LANES (32 / LANE_BYTES)
#define NAME(x) avx2_##x
#include LOOPS
#undef LANES
#undef NAME
#ifdef __clang__
#pragma clang attribute pop
#pragma clang attribute push(__attribute__((target("avx512f,avx512dq,avx512vl"))), apply_to = function)
#else
#pragma GCC pop_options
#pragma GCC push_options
#pragma GCC target("avx512f,avx512dq,avx512vl")
#endif
#define LANES (64 / LANE_BYTES)
#define NAME(x) avx512_##x
#include LOOPS
#undef LANES
#undef NAME
#ifdef __clang__
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

static inline bool has_avx512(void) {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}
static inline bool has_avx2(void) { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }
#define HERE(x) (has_avx512() ? avx512_##x : has_avx2() ? avx2_##x : plain_##x)
#else
#define HERE(x) plain_##x
#endif
