/* steps.c -- what the arithmetic of some works takes on a GPU when there is nothing around it: no addresses, no loops whose lengths
 * only the launch knows, no arrays. The works themselves, as weft runs them, cannot be faster.
 *
 *   build/release/bench/steps
 *
 * Prints one line of JSON a kernel: median milliseconds of seven rounds of 20 launches, by the host's clock.
 *
 *   rnn       1000 steps of 64 rows of 64: a block of 64 threads a row, its column of the matrix in registers, the state in shared
 *             memory, one barrier a step; and each part of a step alone: the sum of 64 products in order, tanh, the way through
 *             shared memory
 *   kalman    1000 steps of 256 filters of 4 numbers, a thread each, all in registers
 *   gelu      64M elements, eight of a thread, from bf16 to bf16, made from the thread's number instead of read; and the bytes of
 *             it alone: two arrays read and one written */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "backend/cuda/driver.h"

enum { STEPS = 1000, LAUNCHES = 20, ROUNDS = 7, ELEMENTS = 1 << 26, ROOM = 1 << 18 };

static char text[ROOM];
static size_t length;

static void put(const char *format, ...) {
  va_list more;
  va_start(more, format);
  length += (size_t)vsnprintf(text + length, ROOM - length, format, more);
  va_end(more);
}

static double now_ms(void) { return 1e3 * clock_seconds(); }

static void must(result r, const char *what) {
  if (!r) return;
  printf("%s: %d\n", what, r);
  exit(1);
}

/* ---- Kernels --------------------------------------------------------------------------------------------------------------- */

static void open(void) {
  length = 0;
  put(".version 7.0\n.target sm_80\n.address_size 64\n");
  put(".visible .entry k(.param .u64 of0, .param .u64 of1, .param .u64 of2)\n.maxntid 256\n.minnctapersm 1\n{\n");
  put(".shared .align 16 .b8 state[512];\n");
  put(".reg .pred p<9>;\n.reg .b32 r<40>;\n.reg .b64 a<9>;\n.reg .f32 m<64>, h<64>, f<40>, s, t, x;\n");
  put("ld.param.u64 a0, [of0]; ld.param.u64 a1, [of1]; ld.param.u64 a2, [of2];\n");
  put("mov.u32 r0, %%tid.x; mov.u32 r1, %%ctaid.x; mov.u32 r2, %%ntid.x; mad.lo.u32 r3, r1, r2, r0;\n");
}

static void open_steps(void) { put("mov.u32 r4, %d;\nstep:\n.pragma \"nounroll\";\n", STEPS); }
static void close_steps(void) { put("sub.u32 r4, r4, 1; setp.ne.u32 p0, r4, 0; @p0 bra step;\n"); }

/* So that nothing is left out: nobody has this number. */
static void close_kernel(const char *last) {
  put("setp.eq.f32 p0, %s, 0f7ac0ffee;\n@!p0 bra done;\nst.global.f32 [a2], %s;\ndone:\nret;\n}\n", last, last);
}

/* q = a / b: the way of quotients that are neither huge nor tiny. */
static void divide(const char *q, const char *a, const char *b) {
  put("rcp.approx.ftz.f32 f30, %s; neg.f32 f31, %s; fma.rn.f32 f32, f31, f30, 0f3f800000; fma.rn.f32 f30, f30, f32, f30;\n", b, b);
  put("mul.rn.f32 f33, %s, f30; fma.rn.f32 f34, f31, f33, %s; fma.rn.f32 %s, f30, f34, f33;\n", a, a, q);
}

/* s = tanh(s), the operations of kernel/exp.c. */
static void tanh_of_s(void) {
  put("abs.f32 f0, s; min.NaN.f32 f0, f0, 0f41200000; add.rn.f32 f1, f0, f0; fma.rn.f32 f2, f1, 0f3fb8aa3b, 0f4b40007e;\n");
  put("sub.rn.f32 f3, f2, 0f4b40007e; fma.rn.f32 f4, f3, 0fbf317200, f1; fma.rn.f32 f4, f3, 0fb5bfbe8e, f4;\n");
  put("fma.rn.f32 f5, 0f3ab6893f, f4, 0f3c090672; fma.rn.f32 f5, f5, f4, 0f3d2aaa8c; fma.rn.f32 f5, f5, f4, 0f3e2aaa6e;\n");
  put("fma.rn.f32 f5, f5, f4, 0f3f000000; mul.rn.f32 f6, f4, f4; fma.rn.f32 f6, f6, f5, f4;\n");
  put("mov.b32 r10, f2; shl.b32 r10, r10, 23; mov.b32 f7, r10; sub.rn.f32 f8, f7, 0f3f000000; fma.rn.f32 f9, f7, f6, f8;\n");
  put("add.rn.f32 f10, f9, 0f3f800000;\n");
  divide("f11", "f9", "f10");
  put("neg.f32 f12, f9; fma.rn.f32 f13, f12, f11, f9; setp.lt.f32 p1, f9, 0f3ec00000; selp.f32 f14, f13, f11, p1;\n");
  put("mov.b32 r11, s; and.b32 r11, r11, 0x80000000; mov.b32 r12, f14; or.b32 r12, r12, r11; mov.b32 s, r12;\n");
}

enum { SUM = 1, TANH = 2, SHARED = 4 };

static void write_rnn(int parts) {
  open();
  for (int k = 0; k < 64; k++) put("ld.global.f32 m%d, [a0+%d];\nld.global.f32 h%d, [a0+%d];\n", k, 4 * k, k, 4 * k + 256);
  put("ld.global.f32 x, [a0]; mov.f32 s, x; mov.u32 r5, state; mov.u32 r6, 0; shl.b32 r7, r0, 2; add.u32 r7, r7, r5;\n");
  put("st.shared.f32 [r7], x; st.shared.f32 [r7+256], x; bar.sync 0;\n");
  open_steps();
  if (parts & SHARED) put("add.u32 r8, r5, r6;\n");
  for (int k = 0; k < 64 && parts & SHARED && parts & SUM; k += 4)
    put("ld.shared.v4.f32 {h%d, h%d, h%d, h%d}, [r8+%d];\n", k, k + 1, k + 2, k + 3, 4 * k);
  if (parts & SHARED && !(parts & SUM)) put("ld.shared.f32 s, [r8];\n");
  if (parts & SUM) put(parts & SHARED ? "mov.f32 s, 0f00000000;\n" : "");
  for (int k = 0; k < 64 && parts & SUM; k++) put("fma.rn.f32 s, h%d, m%d, s;\n", k, k);
  if (parts & TANH) put("add.rn.f32 s, s, x;\n"), tanh_of_s();
  if (parts & SHARED) put("xor.b32 r6, r6, 256; add.u32 r9, r7, r6; st.shared.f32 [r9], s; bar.sync 0;\n");
  close_steps();
  close_kernel("s");
}

/* c = a b for 4 x 4, sums in order */
static void multiply(const char *c, const char *a, const char *b) {
  for (int i = 0; i < 4; i++)
    for (int j = 0; j < 4; j++) {
      put("fma.rn.f32 %s%d, %s%d, %s%d, 0f00000000;\n", c, 4 * i + j, a, 4 * i, b, j);
      for (int k = 1; k < 4; k++)
        put("fma.rn.f32 %s%d, %s%d, %s%d, %s%d;\n", c, 4 * i + j, a, 4 * i + k, b, 4 * k + j, c, 4 * i + j);
    }
}

static void write_kalman(void) {
  open();
  put(".reg .f32 F<16>, G<16>, Q<16>, P<16>, U<16>, V<16>, K<4>, M<4>, A<4>;\n");
  for (int k = 0; k < 16; k++)
    for (int i = 0; i < 4; i++) put("ld.global.f32 %c%d, [a0+%d];\n", "FGQP"[i], k, 4 * k + 64 * i);
  for (int k = 0; k < 4; k++) put("ld.global.f32 M%d, [a0+%d];\n", k, 4 * k);
  open_steps();
  for (int j = 0; j < 4; j++) {
    put("fma.rn.f32 A%d, M0, G%d, 0f00000000;\n", j, j);
    for (int k = 1; k < 4; k++) put("fma.rn.f32 A%d, M%d, G%d, A%d;\n", j, k, 4 * k + j, j);
  }
  multiply("U", "F", "P");
  multiply("V", "U", "G");
  for (int k = 0; k < 16; k++) put("add.rn.f32 V%d, V%d, Q%d;\n", k, k, k);
  put("add.rn.f32 t, V0, 0f3f000000;\n");
  for (int k = 0; k < 4; k++) {
    char q[8], a[8];
    snprintf(q, sizeof q, "K%d", k), snprintf(a, sizeof a, "V%d", 4 * k);
    divide(q, a, "t");
  }
  put("sub.rn.f32 x, M3, A0;\n");
  for (int k = 0; k < 4; k++) put("mul.rn.f32 s, K%d, x; add.rn.f32 M%d, A%d, s;\n", k, k, k);
  for (int i = 0; i < 4; i++)
    for (int j = 0; j < 4; j++) put("mul.rn.f32 s, K%d, V%d; sub.rn.f32 P%d, V%d, s;\n", i, j, 4 * i + j, 4 * i + j);
  close_steps();
  put("add.rn.f32 s, M0, M1; add.rn.f32 s, s, M2; add.rn.f32 s, s, M3;\n");
  for (int k = 0; k < 16; k++) put("add.rn.f32 s, s, P%d;\n", k);
  close_kernel("s");
}

/* f20 = gelu(f20) s + f21, rounded after each to bf16, in the upper half of a word */
static void gelu_element(void) {
  put("mul.rn.f32 f0, f20, f20; mul.rn.f32 f0, f0, f20; mul.rn.f32 f0, f0, m0; add.rn.f32 f0, f20, f0; mul.rn.f32 f0, f0, m1;\n");
  put("min.NaN.f32 f0, f0, 0f41a00000; max.NaN.f32 f0, f0, 0fc2d2a000; fma.rn.f32 f1, f0, 0fbfb8aa3b, 0f4b400067;\n");
  put("sub.rn.f32 f2, f1, 0f4b400067; fma.rn.f32 f3, f2, 0f3f317200, f0; fma.rn.f32 f3, f2, 0f35bfbe8e, f3;\n");
  put("fma.rn.f32 f4, 0f3ab6893f, f3, 0fbc090672; fma.rn.f32 f4, f4, f3, 0f3d2aaa8c; fma.rn.f32 f4, f4, f3, 0fbe2aaa6e;\n");
  put("fma.rn.f32 f4, f4, f3, 0f3f000000; fma.rn.f32 f4, f4, f3, 0fbf800000; fma.rn.f32 f4, f4, f3, 0f3f800000;\n");
  put("mov.b32 r20, f1; shl.b32 r20, r20, 23; mov.b32 f5, r20; fma.rn.f32 f5, f4, f5, 0f33800000;\n");
  put("abs.f32 f7, f5; setp.ge.and.f32 p3, f7, 0f21800000, p3; setp.le.and.f32 p3, f7, 0f5d800000, p3;\n");
  put("rcp.approx.ftz.f32 f6, f5; neg.f32 f7, f5; fma.rn.f32 f7, f7, f6, 0f3f800000; fma.rn.f32 f6, f6, f7, f6;\n");
  put("mul.rn.f32 f8, f6, 0f33800000;\n");
  put("mul.rn.f32 f8, f20, f8; cvt.rn.bf16.f32 b0, f8; mov.b32 r22, {z, b0}; mov.b32 f8, r22; mul.rn.f32 f8, f8, m2;\n");
  put("cvt.rn.bf16.f32 b0, f8; mov.b32 r22, {z, b0}; mov.b32 f8, r22; add.rn.f32 f20, f8, f21;\n");
}

static void write_gelu(void) {
  open();
  put(".reg .b16 b<2>, z;\nmov.u16 z, 0; setp.eq.u32 p3, r0, r0; ld.global.f32 m0, [a0]; ld.global.f32 m1, [a0+4];\n");
  put("ld.global.f32 m2, [a0+8]; mov.u32 r30, -1;\n");
  for (int k = 0; k < 4; k++) {
    put("mad.lo.u32 r31, r3, %d, 0x3e803f00; shl.b32 r32, r31, 16; mov.b32 f20, r32; mov.b32 f21, r32;\n", 2 * k + 1);
    gelu_element();
    put("mov.f32 h0, f20; and.b32 r33, r31, 0xffff0000; mov.b32 f20, r33; mov.b32 f21, r33;\n");
    gelu_element();
    put("cvt.rn.bf16x2.f32 r34, f20, h0; and.b32 r30, r30, r34;\n");
  }
  put("mov.b32 s, r30;\n@!p3 mov.f32 s, 0f00000000;\n");
  close_kernel("s");
}

static void write_bytes(void) {
  open();
  put("mul.wide.u32 a3, r3, 16; add.u64 a4, a0, a3; add.u64 a5, a1, a3; add.u64 a6, a2, a3;\n");
  put("ld.global.nc.v4.b32 {r10, r11, r12, r13}, [a4]; ld.global.nc.v4.b32 {r14, r15, r16, r17}, [a5];\n");
  for (int k = 0; k < 4; k++) put("xor.b32 r%d, r%d, r%d;\n", 10 + k, 10 + k, 14 + k);
  put("st.global.v4.b32 [a6], {r10, r11, r12, r13};\nret;\n}\n");
}

/* ---- Times ----------------------------------------------------------------------------------------------------------------- */

static struct { struct gpu *g; handle stream; uint64_t at[3]; } x;

static int by_size(const void *a, const void *b) {
  double p = *(const double *)a, q = *(const double *)b;
  return (p > q) - (p < q);
}

static void measure(const char *name, unsigned grid, unsigned block) {
  handle module, f;
  double ms[ROUNDS];
  must(cu.load(&module, text, 0, NULL, NULL), name);
  must(cu.find(&f, module, "k"), name);
  for (int r = -1; r < ROUNDS; r++) {
    double begin = now_ms();
    for (int i = 0; i < LAUNCHES; i++)
      must(cu.launch(f, grid, 1, 1, block, 1, 1, 0, x.stream, (void *[]){ &x.at[0], &x.at[1], &x.at[2] }, NULL), "launching");
    must(cu.wait(x.stream), "waiting");
    if (r >= 0) ms[r] = (now_ms() - begin) / LAUNCHES;
  }
  qsort(ms, ROUNDS, sizeof *ms, by_size);
  printf("{\"kernel\": \"%s\", \"ms\": %.4f}\n", name, ms[ROUNDS / 2]);
  cu.unload(module);
}

/* Numbers that neither grow nor vanish, at the front of the first array. */
static void fill(void) {
  float few[256];
  for (int i = 0; i < 256; i++) few[i] = 0.1f * (float)(i % 7 - 3);
  for (int i = 0; i < 16; i++) few[48 + i] = i % 5 ? 0.01f : 0.5f, few[32 + i] = i % 5 ? 0 : 0.1f;
  must(cu.to_device(x.at[0], few, sizeof few, x.stream), "copying");
  must(cu.wait(x.stream), "waiting");
}

int main(void) {
  static const struct { const char *name; int parts; } rnn[] = {
    { "rnn: a step", SUM | TANH | SHARED }, { "rnn: the sum alone", SUM }, { "rnn: tanh alone", TANH },
    { "rnn: the way through shared memory alone", SHARED },
  };
  if (!cuda_available() || cuda_enter(x.g = cuda_gpu(0), "measuring")) { printf("no GPU\n"); return 0; }
  must(cu.stream_new(&x.stream, NON_BLOCKING), "making a stream");
  for (int i = 0; i < 3; i++) must(cuda_take_room(x.g, (size_t)ELEMENTS * 2, &x.at[i]), "memory");
  fill();
  for (size_t i = 0; i < sizeof rnn / sizeof *rnn; i++) write_rnn(rnn[i].parts), measure(rnn[i].name, 64, 64);
  write_kalman(), measure("kalman: a step", 8, 32);
  write_gelu(), measure("gelu: the arithmetic of 64M bf16", ELEMENTS / 8 / 256, 256);
  write_bytes(), measure("gelu: the bytes of 64M bf16", ELEMENTS / 8 / 256, 256);
  return 0;
}
