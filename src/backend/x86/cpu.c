/* cpu.c -- which instructions this processor has, and the system lets us use: see cpu.h. */
#include "backend/x86/cpu.h"
#include <cpuid.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { FEATURES_KNOWN = 1, HAS_AVX2 = 2, HAS_AVX512 = 4, HAS_VNNI = 8, HAS_BF16 = 16, IS_AMD = 32 };

static uint64_t saved_by_system(void) { /* XCR0 */
  uint32_t low, high;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (uint64_t)high << 32 | low;
}

static bool all(uint32_t word, uint32_t bits) { return (word & bits) == bits; }

static bool is_amd(void) {
  uint32_t a, b = 0, c = 0, d = 0;
  return __get_cpuid(0, &a, &b, &c, &d) && b == 0x68747541 && d == 0x69746E65 && c == 0x444D4163; /* AuthenticAMD */
}

static int ask(void) {
  uint32_t a, b, c, d;
  const int amd = is_amd() ? IS_AMD : 0;
  if (!__get_cpuid(1, &a, &b, &c, &d)) return 0;
  const uint32_t fma = 1u << 12, osxsave = 1u << 27, avx = 1u << 28, f16c = 1u << 29;
  if (!all(c, fma | osxsave | avx | f16c)) return 0;
  uint64_t saved = saved_by_system();
  if ((saved & 6) != 6 || !__get_cpuid_count(7, 0, &a, &b, &c, &d)) return 0;
  const uint32_t bmi = 1u << 3, avx2 = 1u << 5, f = 1u << 16, dq = 1u << 17, bw = 1u << 30, vl = 1u << 31;
  if (!all(b, avx2 | bmi)) return 0;
  if (!all(b, f | dq | bw | vl) || (saved & 0xE6) != 0xE6) return HAS_AVX2 | amd;
  const uint32_t vnni = 1u << 11, bf16 = 1u << 5;
  int more = all(c, vnni) ? HAS_VNNI : 0;
  /* Elsewhere pairs of bf16 take four times as long as an fma (Sapphire Rapids). */
  if (amd && __get_cpuid_count(7, 1, &a, &b, &c, &d) && all(a, bf16)) more |= HAS_BF16;
  return HAS_AVX2 | HAS_AVX512 | amd | more;
}

/* Every thread that asks gets the same answer, so a race writes the same word. */
static int features(void) {
  static int known;
  int f = __atomic_load_n(&known, __ATOMIC_RELAXED);
  if (!f) __atomic_store_n(&known, f = FEATURES_KNOWN | ask(), __ATOMIC_RELAXED);
  return f;
}

bool cpu_has_avx2(void) { return features() & HAS_AVX2; }
bool cpu_has_avx512(void) { return features() & HAS_AVX512; }
bool cpu_has_vnni(void) { return features() & HAS_VNNI; }
bool cpu_has_bf16(void) { return features() & HAS_BF16; }

/* The system keeps tiles only for processes that have asked it (Linux). */
static bool may_use_tiles(void) {
#ifdef SYS_arch_prctl
  enum { ARCH_REQ_XCOMP_PERM = 0x1023, TILE_DATA = 18 };
  return !syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, TILE_DATA);
#else
  return false;
#endif
}

static bool ask_for_tiles(void) {
  uint32_t a, b, c, d;
  const uint32_t bf16 = 1u << 22, tile = 1u << 24, bytes = 1u << 25;
  if (!cpu_has_avx512() || (saved_by_system() >> 17 & 3) != 3) return false;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) && all(d, bf16 | tile | bytes) && may_use_tiles();
}

bool cpu_has_tiles(void) {
  static int known; /* 1: no, 2: yes */
  int k = __atomic_load_n(&known, __ATOMIC_RELAXED);
  if (!k) __atomic_store_n(&known, k = 1 + ask_for_tiles(), __ATOMIC_RELAXED);
  return k == 2;
}

bool cpu_fetches_beyond(void) { return features() & IS_AMD; }

/* What tests say that it is; below 0: nothing. */
static int slow_with_tiny = -1, foresees_many = -1;

static bool pretended(const int *said, bool is) {
  int p = __atomic_load_n(said, __ATOMIC_RELAXED);
  return p < 0 ? is : p;
}
bool cpu_is_slow_with_tiny(void) { return pretended(&slow_with_tiny, !(features() & IS_AMD)); }
bool cpu_foresees_many(void) { return pretended(&foresees_many, !(features() & IS_AMD)); }
void cpu_pretend(int is_slow_with_tiny) { __atomic_store_n(&slow_with_tiny, is_slow_with_tiny, __ATOMIC_RELAXED); }
void cpu_pretend_to_foresee(int many) { __atomic_store_n(&foresees_many, many, __ATOMIC_RELAXED); }
