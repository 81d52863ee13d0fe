/* gpu_kernels.c -- the kernels of test/kernels on the GPU against the vm: the same bits, or close where floats are summed.
 *
 * Run by make gpu, which shows the time of each; skipped where there is no device. */
#include <math.h>
#include <stdlib.h>
#include "backend/cuda/cuda.h"
#include "kernels.h"
#include "run/launch.h"
#include "test.h"

enum { BUFS = 32, SIZES = 8, ARGS = 8, CHECKS = 8 };

/* What a kernel is run on: sizes and args by name, as "R=300 eps=0.5"; close: how far floats may be off; 0: same bits; SUMS: same bits
 * too, and no special values, of which nothing but nan would come. */
#define SUMS (-1)
struct trial { const char *kernel, *numbers; double close; };

static const struct trial trials[] = {
  { "muladd", "R=300 C=1000", 0 },
  { "where_const", "N=100000 zero=0 other=nan", 0 },
  { "reversed_write", "N=100001 two=2", 0 },
  { "weave", "N=100001", 0 },
  { "transposed_add", "R=300 C=77", 0 },
  { "bf16_muladd", "N=100000", 0 },
  { "complex_mul", "N=5000", 0 },
  { "mixed_widths", "N=5000 M=900", 0 },
  { "pad_consumer", "N=3000 M=4000 lo=500 fill=7", 0 },
  { "concat", "R=70 A=300 B=500", 0 },
  { "slice_update", "N=4000 M=1000 start=3990 step=-3", 0 },
  { "uniform", "N=100000 k0=1 k1=2 low=-1 span=3", 0 },
  { "exp_table", "N=100000", 0 },
  { "epilogue", "M=100 N=300 slope=0.1", 0 },
  { "merge_axes", "R=100 C=33", 0 },
  { "split_axes", "R=100 C=33", 0 },
  { "permute3", "A=30 B=50 C=40", 0 },
  { "embedding", "R=500 C=100 V=70", 0 },
  { "take", "N=5000 V=70", 0 },
  { "ar2", "T=100 N=300 p=0.5 q=-0.3", 0 },
  { "ar2_history", "T=100 N=300 p=0.5 q=-0.3", 0 },
  { "ar2_grad", "T=100 N=300 p=0.5 q=-0.3", SUMS },
  { "scan_until", "T=1000 limit=20", 0 },
  { "while_shared", "T=200 N=700 limit=30 rate=1.1", 0 },
  { "while_each", "T=200 N=700 limit=30 rate=1.1", 0 },
  { "rnn", "T=20 B=5 H=64", 0 },
  { "kalman", "T=50 N=300 dt=0.1 q0=0.1 q1=0.2 r=0.5", SUMS },
  { "softmax", "R=300 C=1000", SUMS },
  { "softmax", "R=3 C=100000", SUMS },
  { "softmax_reload", "R=300 C=1000", SUMS },
  { "softmax_inplace", "R=300 C=1000", SUMS },
  { "log_softmax_grad", "R=300 C=1000", SUMS },
  { "layer_norm", "R=300 C=1000 eps=0.001", SUMS },
  { "layer_norm_grad", "R=300 C=1000 eps=0.001", SUMS },
  { "argmax", "R=300 C=1000", 0 },
  { "welford", "R=300 C=1000", SUMS },
  { "row_sum", "R=300 C=1000", SUMS },
  { "row_sum", "R=20 C=31", SUMS },
  { "row_sum", "R=3 C=4096", SUMS },
  { "row_sum", "R=3 C=30001", SUMS },
  { "row_sum", "R=2 C=290000", SUMS },
  { "row_sum", "R=2 C=0", SUMS },
  { "col_sum", "R=1000 C=300", SUMS },
  { "col_sum", "R=20000 C=3", SUMS },
  { "col_sum_tall", "R=1000 C=300", SUMS },
  { "sum_axes_0_2", "A=30 B=40 C=50", SUMS },
  { "full_sum", "N=100000", SUMS },
  { "full_sum_par", "N=100000", SUMS },
  { "logsumexp_0", "R=1000 C=300", SUMS },
  { "cumsum_row", "R=30 C=3000", SUMS },
  { "cumsum_col", "R=3000 C=30", SUMS },
  { "cummax_row", "R=30 C=3000", 0 },
  { "cumsum_totals", "N=10000 Q=3", SUMS },
  { "cumsum_offsets", "Q=300", 0 },
  { "cumsum_offsets", "Q=0", 0 },
  { "cumsum_offsets", "Q=31", 0 },
  { "cumsum_offsets", "Q=32", 0 },
  { "cumsum_offsets", "Q=33", 0 },
  { "recurrence", "N=1", 0 },
  { "recurrence", "N=64", 0 },
  { "recurrence", "N=127", 0 },
  { "recurrence", "N=160", 0 },
  { "recurrence", "N=999", 0 },
  { "cumsum_apply", "N=10000 Q=3", SUMS },
  { "linear_scan", "R=30 C=50", SUMS },
  { "scatter_private", "N=100000 S=70", 1e-2 },
  { "scatter_private", "N=20000 S=3000", 1e-2 },
  { "scatter_owned", "N=10000 S=5000 B=100", 1e-4 },
  { "scatter_owned_lanes", "N=10000 S=5000 B=100", 1e-4 },
  { "scatter_winner", "N=100000 S=70", 0 },
  { "scatter_set_apply", "N=1000 S=70", 0 },
  { "scatter_owned_bf16", "N=1000 S=70 B=10", 0 },
  { "scatter_rows", "N=1000 S=70 C=33 B=10", 1e-3 },
};

/* ---- A world to run a kernel in ------------------------------------------------------------------------------------------- */

struct world {
  const struct kir_kernel *k;
  int64_t sizes[SIZES];
  uint64_t args[ARGS];
  struct bound bufs[BUFS];
  void *memory[BUFS];
  int64_t count[BUFS];
  struct finding checks[CHECKS];
};

static double number_of(const struct trial *t, const char *name, double otherwise) {
  size_t n = strlen(name);
  for (const char *s = t->numbers; s; s = strchr(s, ' ')) {
    s += *s == ' ';
    if (!strncmp(s, name, n) && s[n] == '=') return strtod(s + n + 1, NULL);
  }
  return otherwise;
}

static uint64_t pattern(weft_dtype d, double x) {
  float f = (float)x;
  uint32_t f_bits;
  uint64_t d_bits;
  memcpy(&f_bits, &f, sizeof f);
  memcpy(&d_bits, &x, sizeof x);
  return d == WEFT_F32 ? f_bits : d == WEFT_F64 ? d_bits : (uint64_t)(int64_t)x;
}

static int64_t lin(const struct world *w, struct kir_lin l) {
  int64_t sum = 0;
  for (int i = 0; i < l.n; i++) {
    int64_t x = l.term[i].coef;
    for (int j = 0; j < l.term[i].n; j++) x *= w->sizes[w->k->vals[l.term[i].val[j]].index];
    sum += x;
  }
  return sum;
}

static uint64_t state;
static uint32_t dice(void) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(state >> 33);
}

/* Special values as well, where the order of a sum does not decide what comes of them. */
static float any_float(bool with_specials) {
  static const float special[] = { NAN, INFINITY, -INFINITY, 0.0f, -0.0f, 1e-40f, -1e-40f, 3e38f, 1.0f, -1.0f };
  if (with_specials && dice() % 8 == 0) return special[dice() % 10];
  return (float)(int32_t)(dice() - (1u << 30)) / (float)(1 << 29);
}

static int64_t limit_of_indices(const struct world *w) {
  static const char *const names[] = { "S", "V", "M" };
  for (int n = 0; n < 3; n++)
    for (int i = 0; i < w->k->n_sizes; i++)
      if (!strcmp(w->k->vals[w->k->sizes[i]].name, names[n])) return w->sizes[i];
  return 2;
}

static void fill(struct world *w, int b, bool with_specials) {
  const struct kir_buf *buf = &w->k->bufs[b];
  int64_t limit = limit_of_indices(w);
  for (int64_t i = 0; i < w->count[b]; i++) {
    float f = any_float(with_specials);
    double d = f;
    uint32_t bits;
    memcpy(&bits, &f, sizeof f);
    uint16_t half = (uint16_t)(bits >> 16);
    int64_t n = dice() % limit;
    if (!strcmp(buf->name, "win")) n -= 1;
    switch (buf->dtype) {
    case WEFT_F32: memcpy((float *)w->memory[b] + i, &f, 4); break;
    case WEFT_F64: memcpy((double *)w->memory[b] + i, &d, 8); break;
    case WEFT_BF16: memcpy((uint16_t *)w->memory[b] + i, &half, 2); break;
    case WEFT_I64: memcpy((int64_t *)w->memory[b] + i, &n, 8); break;
    default: ((uint8_t *)w->memory[b])[i * kir_width((weft_dtype)buf->dtype)] = n & 1; break;
    }
  }
}

/* Row by row, or backwards along every axis. */
static void bind(struct world *w, int b, bool is_reversed) {
  const struct kir_buf *buf = &w->k->bufs[b];
  int64_t n = 1;
  for (int d = buf->rank - 1; d >= 0; d--) {
    w->bufs[b].stride[d] = is_reversed ? -n : n;
    n *= lin(w, buf->dims[d]);
  }
  w->count[b] = n;
  w->memory[b] = calloc((size_t)n + 1, 8);
  w->bufs[b].data = (char *)w->memory[b] + (is_reversed && n ? (n - 1) * kir_width((weft_dtype)buf->dtype) : 0);
}

static bool is_bound(const struct kir_buf *b) { return b->kind != KIR_TABLE && b->kind != KIR_LOCAL; }

static void world_make(struct world *w, const struct kir_kernel *k, const struct trial *t, bool is_reversed) {
  *w = (struct world){ .k = k };
  state = 7;
  for (int i = 0; i < k->n_sizes; i++) w->sizes[i] = (int64_t)number_of(t, k->vals[k->sizes[i]].name, 10);
  for (int i = 0; i < k->n_args; i++) {
    const struct kir_val *v = &k->vals[k->args[i]];
    w->args[i] = pattern((weft_dtype)v->dtype, number_of(t, v->name, 0.5));
  }
  for (int b = 0; b < k->n_bufs; b++) {
    if (!is_bound(&k->bufs[b])) continue;
    bind(w, b, is_reversed);
    fill(w, b, !t->close);
  }
  for (int i = 0; i < CHECKS; i++) w->checks[i] = (struct finding){ NOTHING_FOUND, 0 };
}

static void world_free(struct world *w) {
  for (int b = 0; b < BUFS; b++) free(w->memory[b]);
}

static struct launch launch_in(struct world *w) {
  return (struct launch){ .sizes = w->sizes, .args = w->args, .bufs = w->bufs, .checks = w->checks, .hi = INT64_MAX };
}

static struct shape_class shape_of(const struct kir_kernel *k, bool is_reversed) {
  struct shape_class s;
  memset(&s, 0, sizeof s);
  memset(s.stride, STRIDE_ANY, sizeof s.stride);
  for (int b = 0; b < k->n_bufs; b++)
    if (k->bufs[b].rank) s.stride[b][k->bufs[b].rank - 1] = is_reversed ? STRIDE_MINUS_1 : STRIDE_1;
  return s;
}

/* ---- Running and comparing ------------------------------------------------------------------------------------------------ */

static bool run_on_vm(struct world *w, const struct shape_class *shape) {
  const char *why = "";
  struct code *c = backend_vm.compile(w->k, shape, &why);
  struct kir_facts facts = kir_facts(w->k);
  struct launch l = launch_in(w);
  if (!c) test_fail(__FILE__, __LINE__, "vm: %s: %s", w->k->name, why);
  int s = c ? launch_run(&backend_vm, c, w->k, &facts, &l, 2) : 1;
  if (c) backend_vm.free(c);
  return s == 0;
}

static bool run_on_gpu(struct world *w, const struct shape_class *shape, double *ms) {
  const char *why = "";
  struct code *c = backend_cuda.compile(w->k, shape, &why);
  struct launch l = launch_in(w);
  if (!c) test_fail(__FILE__, __LINE__, "cuda: %s: %s", w->k->name, why);
  int s = c ? cuda_run(c, &l, ms) : 1;
  if (c && s) test_fail(__FILE__, __LINE__, "cuda: %s: %s", w->k->name, cuda_message());
  if (c) backend_cuda.free(c);
  return s == 0;
}

static double as_number(const struct world *w, int b, int64_t i) {
  float f;
  double d;
  uint32_t bits;
  switch (w->k->bufs[b].dtype) {
  case WEFT_F32: memcpy(&f, (float *)w->memory[b] + i, 4); return f;
  case WEFT_F64: memcpy(&d, (double *)w->memory[b] + i, 8); return d;
  case WEFT_BF16: bits = (uint32_t)((uint16_t *)w->memory[b])[i] << 16; memcpy(&f, &bits, 4); return f;
  default: return 0;
  }
}

static bool same(const struct world *x, const struct world *y, int b, int64_t i, double close) {
  weft_dtype d = (weft_dtype)x->k->bufs[b].dtype;
  size_t width = (size_t)kir_width(d), at = (size_t)i * width;
  if (!memcmp((char *)x->memory[b] + at, (char *)y->memory[b] + at, width)) return true;
  if (!kir_is_float(d)) return false;
  double p = as_number(x, b, i), q = as_number(y, b, i);
  if (isnan(p) && isnan(q)) return true;
  return close > 0 && fabs(p - q) <= close * fmax(1, fabs(q));
}

static void compare(const struct world *gpu, const struct world *vm, double close) {
  int n_wrong = 0;
  for (int b = 0; b < vm->k->n_bufs; b++) {
    if (vm->k->bufs[b].kind != KIR_OUT && vm->k->bufs[b].kind != KIR_INOUT) continue;
    for (int64_t i = 0; i < vm->count[b] && n_wrong < 3; i++)
      if (!same(gpu, vm, b, i, close) && ++n_wrong)
        test_fail(__FILE__, __LINE__, "%s: %s at %lld: %.9g, not %.9g", vm->k->name, vm->k->bufs[b].name, (long long)i,
                  as_number(gpu, b, i), as_number(vm, b, i));
  }
  for (int i = 0; i < CHECKS; i++) EXPECT_INT(gpu->checks[i].place, vm->checks[i].place);
  for (int i = 0; i < CHECKS; i++) EXPECT_INT(gpu->checks[i].value, vm->checks[i].value);
}

static void try(struct kir_kernel *k, const struct trial *t, bool is_reversed) {
  struct world gpu, vm;
  struct shape_class shape = shape_of(k, is_reversed);
  double ms = 0;
  world_make(&gpu, k, t, is_reversed);
  world_make(&vm, k, t, is_reversed);
  if (run_on_vm(&vm, &shape) && run_on_gpu(&gpu, &shape, &ms)) compare(&gpu, &vm, t->close);
  if (!is_reversed) printf("%9.4f ms  %s %s\n", ms, t->kernel, t->numbers);
  world_free(&gpu);
  world_free(&vm);
}

static struct kir_kernel *ready(struct kir_kernel *k) {
  if (k && !kir_verify(k) && kir_legalise(k)) return k;
  test_fail(__FILE__, __LINE__, "a kernel of the test is not ready");
  kir_free(k);
  return NULL;
}

static void try_all(bool is_reversed) {
  for (size_t i = 0; i < sizeof trials / sizeof *trials; i++) {
    struct kir_kernel *k = ready(test_kernel(trials[i].kernel));
    if (k) try(k, &trials[i], is_reversed);
    kir_free(k);
  }
}

TEST(cuda_kernels_give_what_the_vm_gives) {
  test_watchdog(120);
  if (!cuda_available()) test_skip("there is no device");
  else try_all(false);
}

TEST(cuda_kernels_on_reversed_memory_give_what_the_vm_gives) {
  test_watchdog(120);
  if (!cuda_available()) test_skip("there is no device");
  else try_all(true);
}

/* A number of each block: as many as threads of the merging kernel have one, 8, 16 or more of, and some that fill neither. */
static const char *const numbers[] = {
  "kernel sums { size N in x:f32[N] out y:f32[]\n"
  "  par q in blocks(N, 32) private y add { lane i in block q { s = fold add(load x[i]) } store y[] add = s } }",
  "kernel products { size N in x:f64[N] out y:f64[]\n"
  "  par q in blocks(N, 8) private y mul {\n"
  "    lane i in block q { s = fold mul(add(0d3ff0000000000000, mul(0d3f50624dd2f1a9fc, load x[i]))) } store y[] mul = s } }",
  "kernel others { size N in x:f32[N] inout y:f32[]\n"
  "  par q in blocks(N, 31) private y add { lane i in block q { s = fold add(load x[i]) } store y[] add = s } }",
};

TEST(cuda_numbers_of_many_blocks_are_merged_in_order) {
  static const int blocks[] = { 0, 1, 2, 3, 7, 8, 9, 17, 31, 33, 127, 255, 256, 257, 511, 2049, 4095, 4097 };
  static const int lengths[] = { 32, 8, 31 };
  if (!cuda_available()) { test_skip("there is no device"); return; }
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
    struct kir_kernel *k = NULL;
    struct text why = { 0 };
    EXPECT_INT(kir_parse(numbers[i], &k, 1, &why), 1);
    for (size_t b = 0; (k = b ? k : ready(k)) && b < sizeof blocks / sizeof *blocks; b++) {
      char n[32];
      snprintf(n, sizeof n, "N=%d", blocks[b] * lengths[i] - (blocks[b] && b % 2));
      try(k, &(struct trial){ k->name, n, SUMS }, false);
    }
    text_free(&why);
    kir_free(k);
  }
}

/* ---- Stopping -------------------------------------------------------------------------------------------------------------- */

/* A kernel that is told to end before it begins: whatever its threads do together they end, and no row was written. */
static void stop(const struct trial *t) {
  struct kir_kernel *k = ready(test_kernel(t->kernel));
  struct shape_class shape = shape_of(k, false);
  struct world gpu, before;
  const char *why = "";
  world_make(&gpu, k, t, false);
  world_make(&before, k, t, false);
  struct code *c = backend_cuda.compile(k, &shape, &why);
  struct launch l = { .sizes = gpu.sizes, .args = gpu.args, .bufs = gpu.bufs, .checks = gpu.checks };
  EXPECT(c != NULL);
  EXPECT_INT(cuda_stop_open(cuda_gpu(0), &l.stop), CUDA_OK);
  EXPECT_INT(cuda_upload(cuda_gpu(0), QUEUE_COMPUTE, l.stop.at, &l.stop.number, sizeof l.stop.number), CUDA_OK);
  if (c) EXPECT_INT(cuda_run(c, &l, NULL), CUDA_OK);
  compare(&gpu, &before, 0);
  if (c) backend_cuda.free(c);
  world_free(&gpu);
  world_free(&before);
  kir_free(k);
}

TEST(cuda_loops_that_are_told_to_end_do) {
  static const struct trial loops[] = {
    { "ar2", "T=100 N=300 p=0.5 q=-0.3", 0 }, { "scan_until", "T=1000 limit=20", 0 }, { "while_shared", "T=200 N=700 limit=30 rate=1.1", 0 },
    { "while_each", "T=200 N=700 limit=30 rate=1.1", 0 }, { "rnn", "T=20 B=5 H=64", 0 }, { "kalman", "T=50 N=300 dt=0.1 q0=0.1 q1=0.2 r=0.5", 0 },
  };
  if (!cuda_available()) return test_skip("there is no device");
  for (size_t i = 0; i < sizeof loops / sizeof *loops; i++) stop(&loops[i]);
}

/* ---- Contention ------------------------------------------------------------------------------------------------------------ */

enum { UPDATES = 1000000, SLOTS = 3 };

/* Values that any order combines to the same, or to something in reach. */
static float update_of(const char *op, int i) {
  if (!strcmp(op, "mul")) return i % 2 ? -1.0f : 1.0f;
  return i % 2 ? 1.25f : 0.8f;
}

/* All updates go to slot 1; the others must stay as they are, to the bit. */
static void contend(const char *kernel, const char *op, bool with_nan, float in_memory) {
  struct text source = { 0 }, why = { 0 };
  struct kir_kernel *k = NULL;
  for (const char *c = kernel; *c; c++) /* @ stands for the combiner */
    if (*c == '@') text_add(&source, op);
    else text_bytes(&source, c, 1);
  if (kir_parse(text_of(&source), &k, 1, &why) != 1) test_fail(__FILE__, __LINE__, "%s", text_of(&why));
  struct trial t = { op, "N=1000000 S=3", 1 };
  struct world w;
  struct shape_class shape;
  double ms = 0;
  if (!(k = ready(k))) return;
  shape = shape_of(k, false);
  world_make(&w, k, &t, false);
  for (int i = 0; i < UPDATES; i++) {
    ((int64_t *)w.memory[0])[i] = 1;
    ((float *)w.memory[1])[i] = with_nan && i % 1000 == 7 ? NAN : update_of(op, i);
  }
  uint32_t y[SLOTS] = { 0x7fc12345u, 0, 0x80000000u };
  memcpy(&y[1], &in_memory, 4);
  memcpy(w.memory[2], y, sizeof y);
  if (run_on_gpu(&w, &shape, &ms)) {
    const uint32_t *now = w.memory[2];
    float middle = ((float *)w.memory[2])[1];
    EXPECT_INT(now[0], y[0]);
    EXPECT_INT(now[2], y[2]);
    if (with_nan || isnan(in_memory)) EXPECT(isnan(middle));
    else EXPECT(!strcmp(op, "mul") ? middle == in_memory : !strcmp(op, "max") ? middle == 1.25f : middle != in_memory);
  }
  printf("%9.4f ms  1000000 updates of one slot, %s%s%s\n", ms, op, with_nan ? ", NaN among them" : "", isnan(in_memory) ? ", NaN in memory" : "");
  world_free(&w);
  kir_free(k);
  text_free(&source);
  text_free(&why);
}

static const char in_blocks[] = "kernel few { size N, S in idx:i64[N], v:f32[N] inout y:f32[S]\n"
  "  par q in blocks(N, 4096) private y @ { lane i in block q { k = load idx[i] store y[k] @ = load v[i] } } }";
static const char by_owner[] = "kernel many { size N, S in idx:i64[N], v:f32[N] inout y:f32[S]\n"
  "  par q in blocks(S, 2) { serial i in N { k = load idx[i]; o = owns(q, k); if o { store y[k] @ = load v[i] } } } }";

static void contend_all(const char *kernel) {
  static const char *const ops[] = { "mul", "add", "max", "min" };
  for (int i = 0; i < 4; i++) {
    contend(kernel, ops[i], false, 1.0f);
    contend(kernel, ops[i], true, 1.0f);
    contend(kernel, ops[i], false, NAN);
  }
}

TEST(cuda_scatters_with_nan_under_contention_end) {
  test_watchdog(10);
  if (!cuda_available()) test_skip("there is no device");
  else contend_all(in_blocks);
}

TEST(cuda_scatters_without_private_copies_end_too) {
  test_watchdog(10);
  if (!cuda_available()) test_skip("there is no device");
  else contend_all(by_owner);
}

/* ---- Speed ------------------------------------------------------------------------------------------------------------------ */

static const struct trial fast[] = {
  { "muladd", "R=4096 C=4096", 1 },
  { "softmax", "R=8192 C=4096", 1 },
  { "layer_norm", "R=8192 C=4096 eps=0.001", 1 },
  { "layer_norm_grad", "R=8192 C=4096 eps=0.001", 1 },
  { "col_sum", "R=8192 C=4096", 1 },
  { "full_sum_par", "N=16777216", 1 },
  { "scatter_private", "N=16777216 S=1024", 1 },
  { "scatter_private", "N=16777216 S=1048576", 1 },
  { "ar2", "T=10000 N=256 p=0.5 q=-0.3", 1 },
  { "rnn", "T=1000 B=64 H=64", 1 },
};

TEST(cuda_kernels_take_this_long) {
  test_watchdog(120);
  if (!cuda_available()) { test_skip("there is no device"); return; }
  for (size_t i = 0; i < sizeof fast / sizeof *fast; i++) {
    struct kir_kernel *k = ready(test_kernel(fast[i].kernel));
    struct world w;
    double ms = 0, again = 0;
    if (!k) continue;
    struct shape_class shape = shape_of(k, false);
    world_make(&w, k, &fast[i], false);
    EXPECT(run_on_gpu(&w, &shape, &ms) && run_on_gpu(&w, &shape, &again));
    printf("%9.4f ms  %s %s\n", ms < again ? ms : again, fast[i].kernel, fast[i].numbers);
    world_free(&w);
    kir_free(k);
  }
}

/* ---- Without a device ------------------------------------------------------------------------------------------------------- */

TEST(cuda_without_a_device_fails_with_a_text) {
  struct cuda_module *m = NULL;
  uint64_t at, since;
  if (cuda_available()) { test_skip("there is a device"); return; }
  EXPECT_INT(cuda_take(cuda_gpu(0), 16, &at, &since), CUDA_FAILED);
  EXPECT(!strncmp(cuda_message(), "cuda: taking memory: ", 21));
  EXPECT_INT(cuda_load(cuda_gpu(0), ".version 7.0", &m), CUDA_FAILED);
  EXPECT(!strncmp(cuda_message(), "cuda: loading PTX: ", 19));
  EXPECT(!backend_cuda.available());
}

/* Rows of halves, every other of which begins between two words, by a fold whose bits know left from right: as many lanes further as
 * they loaded, its accumulators would give others (nest_words.c). */
TEST(cuda_narrow_rows_fold_from_left_to_right) {
  static const char text[] =
    "kernel sides { size R, C in x:bf16[R,C] out y:f32[R], z:f32[R]\n"
    "  fn sides(am:f32, as:f32, bm:f32, bs:f32) -> f32, f32 {\n"
    "    m = max(am, bm)\n"
    "    ea = sub(0f3f800000, mul(0f3dcccccd, sub(m, am)))\n" /* 1 - (m - a) / 10 */
    "    eb = sub(0f3f800000, mul(0f3dcccccd, sub(m, bm)))\n"
    "    return m, fma(as, ea, mul(bs, eb)) }\n"
    "  par r in R { lane c in C { m, s = fold sides(load x[r,c], 0f3f800000) from 0fc0800000, 0f00000000 }\n"
    "    store y[r] = m store z[r] = s } }";
  static const int lengths[] = { 4097, 31, 333, 1000, 1001, 9001 };
  struct kir_kernel *k = NULL;
  struct text why = { 0 };
  if (!cuda_available()) { test_skip("there is no device"); return; }
  EXPECT_INT(kir_parse(text, &k, 1, &why), 1);
  for (size_t i = 0; (k = i ? k : ready(k)) && i < sizeof lengths / sizeof *lengths; i++) {
    char n[32];
    snprintf(n, sizeof n, "R=4 C=%d", lengths[i]);
    try(k, &(struct trial){ k->name, n, SUMS }, false);
  }
  text_free(&why);
  kir_free(k);
}
