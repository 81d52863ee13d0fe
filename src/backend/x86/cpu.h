/* cpu.h -- what this machine can run, asked once. */
#ifndef WEFT_X86_CPU_H
#define WEFT_X86_CPU_H
#include <stdbool.h>

bool cpu_has_avx2(void);   /* AVX2, FMA, F16C and BMI, and a system that saves their registers */
bool cpu_has_avx512(void); /* F, BW, DQ, VL besides */
bool cpu_has_vnni(void);   /* AVX-512, and products of integers in pairs */
bool cpu_has_bf16(void);   /* AVX-512, and products of bf16 in pairs at the rate of fma */
bool cpu_has_tiles(void);  /* AMX for bytes and bf16, and a system that lets this process use it: it is asked for that */
bool cpu_is_slow_with_tiny(void); /* arithmetic whose result is denormal, or too small even for that, takes a hundred cycles */
bool cpu_fetches_beyond(void); /* who reads a part of each row of a matrix gets much of what is behind it, too, in vain */
bool cpu_foresees_many(void); /* sixteen runs of memory that are read side by side, each from page to page */
/* For tests: 0 or 1; -1: what it is. */
void cpu_pretend(int is_slow_with_tiny);
void cpu_pretend_to_foresee(int many);

#endif
