/* float_mode.h -- kernels compute with round-to-nearest, denormals kept and exceptions masked, whatever the host has
 * set; the host's mode is restored afterwards. */
#ifndef WEFT_FLOAT_MODE_H
#define WEFT_FLOAT_MODE_H
#include <stdint.h>
#if defined(__x86_64__) || defined(__SSE__)
#include <xmmintrin.h>
static inline uint64_t float_mode_enter(void) {
  uint32_t old = _mm_getcsr();
  if ((old & ~0x3fu) != 0x1f80) _mm_setcsr(0x1f80);
  return old;
}
static inline void float_mode_leave(uint64_t old) {
  if ((old & ~0x3full) != 0x1f80) _mm_setcsr((uint32_t)old);
}
#elif defined(__aarch64__)
static inline uint64_t float_mode_enter(void) {
  uint64_t old;
  __asm__ volatile("mrs %0, fpcr" : "=r"(old));
  if (old) __asm__ volatile("msr fpcr, %0" : : "r"((uint64_t)0));
  return old;
}
static inline void float_mode_leave(uint64_t old) {
  if (old) __asm__ volatile("msr fpcr, %0" : : "r"(old));
}
#else
static inline uint64_t float_mode_enter(void) { return 0; }
static inline void float_mode_leave(uint64_t old) { (void)old; }
#endif
#endif
