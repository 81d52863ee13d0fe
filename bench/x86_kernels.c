/* x86_kernels.c -- what the machine code of typical kernels costs: ns an element on the vm, with AVX2 and with AVX-512,
 * taking turns so that all see the same machine; and the time to compile each.
 *
 *   bench-x86-kernels [rounds] */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "backend/backend.h"
#include "base/text.h"

static const char source[] =
  "kernel muladd { size R, C in a:f32[R,C], b:f32[R,C], c:f32[R,C] out y:f32[R,C]\n"
  "  par i in R { lane j in C { store y[i,j] = add(mul(load a[i,j], load b[i,j]), load c[i,j]) } } }\n"
  "kernel add_bf16 { size R, C in a:bf16[R,C], b:bf16[R,C] out y:bf16[R,C]\n"
  "  par i in R { lane j in C { store y[i,j] = add(load a[i,j], load b[i,j]) } } }\n"
  "kernel add_f16 { size R, C in a:f16[R,C], b:f16[R,C] out y:f16[R,C]\n"
  "  par i in R { lane j in C { store y[i,j] = add(load a[i,j], load b[i,j]) } } }\n"
  "kernel abs_bf16 { size R, C in a:bf16[R,C] out y:bf16[R,C]\n"
  "  par i in R { lane j in C { store y[i,j] = abs(load a[i,j]) } } }\n"
  "kernel abs_f16 { size R, C in a:f16[R,C] out y:f16[R,C]\n"
  "  par i in R { lane j in C { store y[i,j] = abs(load a[i,j]) } } }\n"
  "kernel gelu { size R, C in x:f32[R,C] out y:f32[R,C]\n"
  "  par i in R { lane j in C {\n"
  "    x0 = load x[i,j]; u = mul(0f3f4c422a, fma(mul(mul(x0, x0), x0), 0f3d372713, x0))\n"
  "    store y[i,j] = mul(mul(0f3f000000, x0), add(0f3f800000, tanh(u))) } } }\n"
  "kernel softmax { size R, C in x:f32[R,C] out y:f32[R,C]\n"
  "  par r in R {\n"
  "    lane c in C { a = load x[r,c]; keep a; m = fold max(a) }\n"
  "    lane c in C { e = exp(sub(a, m)); keep e; s = fold add(e) }\n"
  "    lane c in C { store y[r,c] = div(e, s) } } }\n"
  "kernel rms_norm { size R, C arg eps:f32 in x:f32[R,C], w:f32[C] out y:f32[R,C]\n"
  "  n = cast.f32(C)\n"
  "  par r in R {\n"
  "    lane c in C { a = load x[r,c]; keep a; s = fold add(mul(a, a)) }\n"
  "    k = div(0f3f800000, sqrt(add(div(s, n), eps)))\n"
  "    lane c in C { store y[r,c] = mul(mul(a, k), load w[c]) } } }\n"
  "kernel transposed { size R, C in a:f32[R,C], b:f32[C,R] out y:f32[R,C]\n"
  "  par i in R { lane j in C { store y[i,j] = add(load a[i,j], load b[j,i]) } } }\n"
  "kernel col_sum { size R, C in x:f32[R,C] out y:f32[C]\n"
  "  lane c in C { serial r in R { s = fold add(load x[r,c]) } store y[c] = s } }\n"
  "kernel cumsum { size R, C in x:f32[R,C] out y:f32[R,C] par r in R { lane c in C { s = prefix add(load x[r,c]); store y[r,c] = s } } }\n"
  "kernel argmax { size R, C in x:f32[R,C] out k:i64[R]\n"
  "  fn later(a:f32, i:i64, b:f32, j:i64) -> f32, i64 { p = or(lt(a, b), and(eq(a, b), lt(j, i))); return select(p, b, a), select(p, j, i) }\n"
  "  par r in R { lane c in C { m, i = fold later(load x[r,c], c) from 0fff800000, 9223372036854775807 } store k[r] = i } }\n"
  "kernel any_bool { size R, C in x:f32[R,C] out o:bool[R] par r in R { lane c in C { p = fold or(lt(load x[r,c], 0fc0000000)) } store o[r] = p } }\n"
  "kernel take { size R, C in x:f32[C], k:i64[R,C] out y:f32[R,C] par r in R { lane c in C { j = load k[r,c]; check and(le(0, j), lt(j, C)) at c; store y[r,c] = load x[j] } } }\n"
  "kernel scatter { size R, C in k:i64[C], v:f32[C] inout y:f32[C] serial r in R { lane c in C { j = load k[c]; store y[j] add = load v[c] } } }\n"
  "kernel pad { size R, C arg lo:i64 in x:f32[C] out y:f32[R,C] par r in R { lane c in C { p = lt(lo, c); a = load x[c-lo] if p else 0f00000000 store y[r,c] = mul(a, a) } } }\n"
  "kernel idiv { size R, C in x:i32[R,C] out y:i32[R,C] par r in R { lane c in C { v = load x[r,c]; store y[r,c] = idiv(v, add(and(v, 7:i32), 1:i32)) } } }\n"
  "kernel matmul { size M, N, K in a:f32[M,K], b:f32[K,N] out y:f32[M,N]\n"
  "  par i in M { lane j in N { serial k in K { carry u = 0f00000000; next u = fma(load a[i,k], load b[k,j], u) } store y[i,j] = u } } }\n";

enum { MAX_KERNELS = 24, MAX_BUFS = 8 };
enum machine { VM, AVX2, AVX512, MACHINES };

static double now(void) { return (double)clock_ns(); }

static int64_t lin_value(const struct kir_kernel *k, struct kir_lin l, const int64_t *sizes) {
  int64_t sum = 0;
  for (int i = 0; i < l.n; i++) {
    int64_t p = l.term[i].coef;
    for (int j = 0; j < l.term[i].n; j++) p *= sizes[k->vals[l.term[i].val[j]].index];
    sum += p;
  }
  return sum;
}

/* Row-major buffers of floats around 1, and of indices into a row. */
static void make_buffers(const struct kir_kernel *k, const int64_t *sizes, struct bound *bufs, struct shape_class *s) {
  for (int b = 0; b < k->n_bufs; b++) {
    int64_t n = 1;
    for (int d = k->bufs[b].rank - 1; d >= 0; d--) {
      bufs[b].stride[d] = n;
      s->stride[b][d] = n == 1 ? STRIDE_1 : STRIDE_ANY;
      n *= lin_value(k, k->bufs[b].dims[d], sizes);
    }
    int64_t *index = NULL;
    float *p = bufs[b].data = aligned_alloc(2 << 20, ((size_t)n * 8 + (2 << 20)) >> 21 << 21);
    uint16_t *half = bufs[b].data;
    if (kir_width(k->bufs[b].dtype) == 8) index = bufs[b].data;
    for (int64_t i = 0; index && i < n; i++) index[i] = i * 7919 % sizes[1];
    if (kir_width(k->bufs[b].dtype) == 4)
      for (int64_t i = 0; i < n; i++) p[i] = (float)(i % 37) * 0.05f - 0.9f;
    else if (!index)
      for (int64_t i = 0; i < n; i++) half[i] = (uint16_t)(0x3c00 + i % 37);
  }
}

static int by_value(const void *a, const void *b) {
  return *(const double *)a < *(const double *)b ? -1 : *(const double *)a > *(const double *)b;
}

static double median(double *v, int n) {
  qsort(v, (size_t)n, sizeof *v, by_value);
  return v[n / 2];
}

static double compile_us(const struct backend *b, const struct kir_kernel *k, const struct shape_class *s) {
  double t[101];
  for (int i = 0; i < 101; i++) {
    const char *why;
    double start = now();
    struct code *c = b->compile(k, s, &why);
    t[i] = (now() - start) / 1e3;
    if (c) b->free(c);
  }
  return median(t, 101);
}

static void measure(struct kir_kernel *k, const int64_t *sizes, double elements, int rounds) {
  struct bound bufs[MAX_BUFS];
  struct shape_class shape = { 0 };
  const struct backend *backends[MACHINES] = { &backend_vm, &backend_x86, &backend_x86 };
  struct code *code[MACHINES];
  uint64_t args[] = { 0x3727C5AC };
  struct finding checks[8] = { { 0 } };
  double *t[MACHINES], compiled[MACHINES];
  make_buffers(k, sizes, bufs, &shape);
  shape_of_rows(&shape, sizes[1]); /* the last axis, wherever rows are folded here */
  struct kir_facts f = kir_facts(k);
  struct launch l = { .sizes = sizes, .args = args, .bufs = bufs, .checks = checks, .hi = lin_value(k, f.outer->at[0], sizes) };
  int repeats = elements < 1e5 ? (int)(1e5 / elements) + 1 : 1;
  for (int m = 0; m < MACHINES; m++) {
    const char *why;
    shape.set = m == AVX2 ? SET_AVX2 : SET_BEST;
    code[m] = backends[m]->compile(k, &shape, &why);
    compiled[m] = compile_us(backends[m], k, &shape);
    t[m] = malloc((size_t)rounds * sizeof(double));
  }
  for (int r = 0; r < rounds; r++)
    for (int m = 0; m < MACHINES; m++) {
      if (!code[m]) continue;
      backends[m]->run(code[m], &l);
      double start = now();
      for (int i = 0; i < repeats; i++) backends[m]->run(code[m], &l);
      t[m][r] = (now() - start) / repeats;
    }
  printf("%-10s", k->name);
  for (int i = 0; i < 3; i++) printf(i < k->n_sizes ? " %6lld" : "       ", (long long)sizes[i]);
  for (int m = 0; m < MACHINES; m++) printf("  %8.3f", code[m] ? median(t[m], rounds) / elements : -1.0);
  printf("   ");
  for (int m = 0; m < MACHINES; m++) printf("  %7.1f", compiled[m]);
  printf("\n");
  fflush(stdout);
  for (int m = 0; m < MACHINES; m++) {
    if (code[m]) backends[m]->free(code[m]);
    free(t[m]);
  }
  for (int b = 0; b < k->n_bufs; b++) free(bufs[b].data);
}

int main(int argc, char **argv) {
  static const struct { const char *name; int64_t sizes[3];
  } cases[] = {
    { "muladd", { 4096, 4096, 0 } },   { "muladd", { 1, 4096, 0 } },     { "gelu", { 1024, 1024, 0 } },
    { "add_bf16", { 4096, 4096, 0 } }, { "add_bf16", { 1, 4096, 0 } },   { "add_f16", { 4096, 4096, 0 } },
    { "add_f16", { 1, 4096, 0 } },     { "abs_bf16", { 1, 4096, 0 } },   { "abs_f16", { 1, 4096, 0 } },
    { "gelu", { 1, 4096, 0 } },        { "softmax", { 4096, 1024, 0 } }, { "softmax", { 16, 1024, 0 } },
    { "softmax", { 1024, 8, 0 } },     { "softmax", { 1024, 16, 0 } },   { "softmax", { 1024, 64, 0 } },
    { "rms_norm", { 4096, 1024, 0 } }, { "rms_norm", { 64, 1024, 0 } },  { "rms_norm", { 1024, 8, 0 } },
    { "rms_norm", { 1024, 16, 0 } },   { "rms_norm", { 1024, 64, 0 } },  { "transposed", { 1024, 1024, 0 } },
    { "cumsum", { 64, 1024, 0 } },     { "argmax", { 64, 1024, 0 } },    { "argmax", { 1024, 16, 0 } },
    { "any_bool", { 64, 1024, 0 } },   { "take", { 64, 1024, 0 } },      { "scatter", { 64, 1024, 0 } },
    { "pad", { 64, 1024, 0 } },        { "idiv", { 64, 1024, 0 } },      { "col_sum", { 1024, 1024, 0 } },  { "matmul", { 64, 64, 64 } },     { "matmul", { 256, 256, 256 } }
  };
  int rounds = argc > 1 ? atoi(argv[1]) : 15;
  struct kir_kernel *k[MAX_KERNELS];
  struct text why = { 0 };
  int n = kir_parse(source, k, MAX_KERNELS, &why);
  if (n < 0) return fprintf(stderr, "%s\n", text_of(&why)), 1;
  for (int i = 0; i < n; i++) kir_legalise(k[i]);
  printf("kernel     sizes                  ns/element: vm   avx2    avx512      compile us: vm    avx2    avx512\n");
  for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
    for (int i = 0; i < n; i++) {
      if (strcmp(k[i]->name, cases[c].name)) continue;
      double elements =
          (double)(cases[c].sizes[0] * cases[c].sizes[1]) * (k[i]->n_sizes > 2 ? (double)cases[c].sizes[2] : 1);
      measure(k[i], cases[c].sizes, elements, rounds < 1 ? 1 : rounds);
    }
  for (int i = 0; i < n; i++) kir_free(k[i]);
  return 0;
}
