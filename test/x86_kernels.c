/* x86_kernels.c -- machine code against the vm: equal bits for every kernel the encoder takes, on both instruction
 * sets, for all stride classes, awkward sizes, special values and cuts of the outermost loop. Buffers end or begin at
 * pages that must not be touched, so a lane too many is a crash. */
#include <elf.h>
#include <math.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include "backend/backend.h"
#include "backend/x86/debug.h"
#include "base/mem.h"
#include "kernels.h"

enum { PAGE = 4096, MAX_BUFS = 24 };
enum layout { ROW_MAJOR, LAST_REVERSED, LAST_SPREAD, ALL_REVERSED, COLUMN_MAJOR, LAYOUTS };

static uint64_t seed = 88172645463325252u;
static uint64_t random_bits(void) {
  seed ^= seed << 13;
  seed ^= seed >> 7;
  return seed ^= seed << 17;
}

/* ---- Buffers ---- */

struct memory {
  char *map;
  size_t map_bytes;
  char *first;               /* lowest byte of the buffer */
  size_t bytes;
  weft_dtype dtype;          /* of its elements */
  struct bound bound;
  struct finding checks[8];  /* of the first buffer: the slots of the launch */
};

static int element_bytes(weft_dtype d) {
  switch (d) {
  case WEFT_BOOL: case WEFT_U8: case WEFT_I8: return 1;
  case WEFT_U16: case WEFT_I16: case WEFT_F16: case WEFT_BF16: return 2;
  case WEFT_U32: case WEFT_I32: case WEFT_F32: return 4;
  default: return 8;
  }
}

static int64_t lin_value(const struct kir_kernel *k, struct kir_lin l, const int64_t *sizes) {
  int64_t sum = 0;
  for (int i = 0; i < l.n; i++) {
    int64_t p = l.term[i].coef;
    for (int j = 0; j < l.term[i].n; j++) p *= sizes[k->vals[l.term[i].val[j]].index];
    sum += p;
  }
  return sum;
}

static void choose_strides(enum layout layout, int rank, const int64_t *dims, int64_t *stride) {
  int64_t step = 1;
  for (int i = 0; i < rank; i++) {
    int d = layout == COLUMN_MAJOR ? i : rank - 1 - i;
    if (layout == LAST_SPREAD && d == rank - 1) step *= 3;
    bool back = layout == ALL_REVERSED || (layout == LAST_REVERSED && d == rank - 1);
    stride[d] = back ? -step : step;
    step *= dims[d] > 0 ? dims[d] : 1;
  }
}

/* A buffer between two pages without access, flush with one of them. */
static struct memory memory_new(const struct kir_kernel *k, int buf, const int64_t *sizes, enum layout layout,
                                bool at_end, bool is_private) {
  const struct kir_buf *b = &k->bufs[buf];
  struct memory m = { .dtype = is_private ? kir_register_of(b->dtype) : b->dtype };
  int64_t dims[BACKEND_RANK], low = 0, high = 0;
  bool is_empty = false;
  for (int d = 0; d < b->rank; d++) is_empty |= (dims[d] = lin_value(k, b->dims[d], sizes)) <= 0;
  choose_strides(layout, b->rank, dims, m.bound.stride);
  for (int d = 0; d < b->rank && !is_empty; d++) {
    int64_t reach = (dims[d] - 1) * m.bound.stride[d];
    low += reach < 0 ? reach : 0;
    high += reach > 0 ? reach : 0;
  }
  int size = element_bytes(m.dtype);
  m.bytes = is_empty ? 0 : (size_t)(high - low + 1) * (size_t)size;
  size_t inside = (m.bytes + PAGE - 1) / PAGE * PAGE;
  m.map_bytes = inside + 2 * PAGE;
  m.map = mmap(NULL, m.map_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  mprotect(m.map, PAGE, PROT_NONE);
  mprotect(m.map + PAGE + inside, PAGE, PROT_NONE);
  m.first = at_end ? m.map + PAGE + inside - m.bytes : m.map + PAGE;
  m.bound.data = m.first - low * size;
  return m;
}

static void memory_free(struct memory *m) { munmap(m->map, m->map_bytes); }

static const uint32_t special_floats[] = { 0,          0x80000000, 0x7F800000, 0xFF800000, 0x7FC00000,
                                           0xFFC12345, 1,          0x80000001, 0x007FFFFF, 0x3F800000,
                                           0xBF800000, 0x7F7FFFFF, 0xFF7FFFFF, 0x4F000000, 0xCF000000,
                                           0x4F800000, 0x42B17218, 0xC2CFF1B5, 0x3F000000, 0x4EFFFFFF };
enum { SPECIALS = sizeof special_floats / sizeof *special_floats };

static uint32_t float_bits(float f) {
  uint32_t u;
  memcpy(&u, &f, 4);
  return u;
}
static float random_float(void) { return ((float)(random_bits() % 20001) - 10000) * 0.0007f; }

static uint64_t random_value(weft_dtype dtype, bool specials) {
  bool special = specials && random_bits() % 8 == 0;
  uint32_t f = special ? special_floats[random_bits() % SPECIALS] : float_bits(random_float());
  double wide;
  float narrow;
  uint64_t bits;
  switch (dtype) {
  case WEFT_BOOL: return random_bits() & 1;
  case WEFT_F32: return f;
  case WEFT_BF16: return f >> 16;
  case WEFT_F16: return random_bits() & 0xFFFF;
  case WEFT_I64: /* mostly an index */
    return !special ? random_bits() % 30 - 4 : random_bits() % 2 ? random_bits() : (uint64_t)1 << (random_bits() % 64);
  case WEFT_F64:
    memcpy(&narrow, &f, 4);
    wide = narrow;
    memcpy(&bits, &wide, 8);
    return special && random_bits() % 4 == 0 ? random_bits() : bits;
  default:
    return special ? (random_bits() % 3 ? (uint64_t)1 << (random_bits() % 64) : random_bits() % 2 ? random_bits() : UINT64_MAX)
                   : random_bits() % 2001 - 1000;
  }
}

static void memory_fill(struct memory *m, bool specials) {
  int size = element_bytes(m->dtype);
  for (size_t i = 0; i < m->bytes; i += (size_t)size) {
    uint64_t v = random_value(m->dtype, specials);
    memcpy(m->first + i, &v, (size_t)size);
  }
}

static bool is_nan(weft_dtype dtype, uint64_t v) {
  switch (dtype) {
  case WEFT_F32: return (v & 0x7FFFFFFF) > 0x7F800000;
  case WEFT_F64: return (v & INT64_MAX) > (uint64_t)0x7FF << 52;
  case WEFT_BF16: return (v & 0x7FFF) > 0x7F80;
  case WEFT_F16: return (v & 0x7FFF) > 0x7C00;
  default: return false;
  }
}

/* Element at which the two differ, or -1. NaN equals NaN: arithmetic may choose its payload. */
static int64_t memory_difference(const struct memory *a, const struct memory *b) {
  size_t size = (size_t)element_bytes(a->dtype);
  for (size_t i = 0; i < a->bytes; i += size) {
    uint64_t x = 0, y = 0;
    memcpy(&x, a->first + i, size);
    memcpy(&y, b->first + i, size);
    if (x != y && !(is_nan(a->dtype, x) && is_nan(a->dtype, y))) return (int64_t)(i / size);
  }
  return -1;
}

/* ---- Both back ends on one problem ---- */

struct problem {
  const struct kir_kernel *k;
  int64_t sizes[8];
  uint64_t args[16];
  enum layout layout;
  bool specials, avx2_only, at_end;
  int unroll;
  int64_t index_from, n_indices; /* what a buffer k holds; 0: whatever comes */
};

static int64_t outer_extent(const struct problem *p, const struct kir_facts *f) {
  if (!f->outer) return 0;
  int64_t n = lin_value(p->k, f->outer->at[0], p->sizes);
  if (f->outer->extent == KIR_BLOCKS) {
    int64_t b = lin_value(p->k, f->outer->at[1], p->sizes);
    n = (n + b - 1) / b;
  }
  return n < 0 ? 0 : n;
}

static bool is_private(const struct kir_facts *f, int buf) {
  for (int i = 0; f->is_private && i < f->outer->n_private; i++)
    if (f->outer->private[i].buf == buf) return true;
  return false;
}

static uint8_t class_of(int64_t stride) {
  return stride == 0 ? STRIDE_0 : stride == 1 ? STRIDE_1 : stride == -1 ? STRIDE_MINUS_1 : STRIDE_ANY;
}

static int run_part(const struct backend *b, const struct code *c, const struct problem *p, struct memory *m,
                    int64_t lo, int64_t hi) {
  struct bound bufs[MAX_BUFS];
  for (int i = 0; i < p->k->n_bufs; i++) bufs[i] = m[i].bound;
  struct launch l = { .sizes = p->sizes, .args = p->args, .bufs = bufs, .checks = m[0].checks, .lo = lo, .hi = hi };
  return b->run(c, &l);
}

/* x86 runs a divisible loop in three parts, the last first. */
static void run_in_parts(const struct code *c, const struct problem *p, const struct kir_facts *f, struct memory *m) {
  int64_t n = outer_extent(p, f), a = n / 3, b = n - n / 4;
  if (!f->divisible || n < 3) {
    EXPECT_INT(run_part(&backend_x86, c, p, m, 0, n), 0);
    return;
  }
  EXPECT_INT(run_part(&backend_x86, c, p, m, b, n), 0);
  EXPECT_INT(run_part(&backend_x86, c, p, m, 0, a), 0);
  EXPECT_INT(run_part(&backend_x86, c, p, m, a, b), 0);
}

static void report(const struct problem *p, int buf, int64_t at) {
  char text[256];
  int n = 0;
  for (int i = 0; i < p->k->n_sizes && n < 200; i++)
    n += snprintf(text + n, sizeof text - (size_t)n, " %lld", (long long)p->sizes[i]);
  test_fail(__FILE__, __LINE__, "%s on %s: %s differs at element %lld; sizes%s, layout %d, specials %d, unroll %d",
            p->k->name, p->avx2_only ? "AVX2" : "AVX-512", p->k->bufs[buf].name, (long long)at, text, p->layout,
            p->specials, p->unroll);
}

static void compare(const struct problem *p, struct memory *vm, struct memory *x86) {
  for (int i = 0; i < 8; i++) EXPECT_INT(x86[0].checks[i].place, vm[0].checks[i].place);
  for (int i = 0; i < 8; i++) EXPECT_INT(x86[0].checks[i].value, vm[0].checks[i].value);
  for (int i = 0; i < p->k->n_bufs; i++) {
    int64_t at = memory_difference(&vm[i], &x86[i]);
    if (at >= 0) report(p, i, at);
  }
}

static struct shape_class class_for(const struct problem *p, const struct memory *m) {
  struct shape_class s = { .set = p->avx2_only ? SET_AVX2 : SET_BEST, .unroll = p->unroll };
  for (int i = 0; i < p->k->n_bufs; i++)
    for (int d = 0; d < p->k->bufs[i].rank; d++) s.stride[i][d] = class_of(m[i].bound.stride[d]);
  return s;
}

static void fill_indices(const struct problem *p, struct memory *m) {
  int size = element_bytes(m->dtype);
  for (size_t i = 0; i < m->bytes; i += (size_t)size) {
    int64_t v = p->index_from + (int64_t)(random_bits() % (uint64_t)p->n_indices);
    memcpy(m->first + i, &v, (size_t)size);
  }
}

/* Private buffers are row-major copies; here both back ends add to one copy that starts at random values. */
static void fill_both(const struct problem *p, const struct kir_facts *f, struct memory *vm, struct memory *x86) {
  for (int i = 0; i < p->k->n_bufs; i++) {
    enum layout layout = is_private(f, i) ? ROW_MAJOR : p->layout;
    vm[i] = memory_new(p->k, i, p->sizes, layout, p->at_end ^ (i & 1), is_private(f, i));
    x86[i] = memory_new(p->k, i, p->sizes, layout, p->at_end ^ (i & 1), is_private(f, i));
    memory_fill(&vm[i], p->specials);
    if (p->n_indices && !strcmp(p->k->bufs[i].name, "k")) fill_indices(p, &vm[i]);
    memcpy(x86[i].first, vm[i].first, vm[i].bytes);
    for (int j = 0; j < 8; j++) vm[i].checks[j] = x86[i].checks[j] = (struct finding){ NOTHING_FOUND, 0 };
    vm[i].bound.in_register_dtype = x86[i].bound.in_register_dtype = is_private(f, i);
  }
}

/* False: the encoder does not take it. */
static bool same_bits(const struct problem *p) {
  struct memory vm[MAX_BUFS], x86[MAX_BUFS];
  struct kir_facts f = kir_facts(p->k);
  const char *why = NULL;
  fill_both(p, &f, vm, x86);
  struct shape_class s = class_for(p, vm);
  struct code *machine = backend_x86.compile(p->k, &s, &why);
  struct code *oracle = machine ? backend_vm.compile(p->k, &s, &why) : NULL;
  if (machine && !oracle) test_fail(__FILE__, __LINE__, "%s: the vm: %s", p->k->name, why);
  if (machine && oracle) {
    EXPECT_INT(run_part(&backend_vm, oracle, p, vm, 0, outer_extent(p, &f)), 0);
    run_in_parts(machine, p, &f, x86);
    compare(p, vm, x86);
  }
  backend_x86.free(machine);
  if (oracle) backend_vm.free(oracle);
  for (int i = 0; i < p->k->n_bufs; i++) {
    memory_free(&vm[i]);
    memory_free(&x86[i]);
  }
  return machine != NULL;
}

static void random_args(struct problem *p) {
  for (int i = 0; i < p->k->n_args; i++) {
    weft_dtype d = p->k->vals[p->k->args[i]].dtype;
    p->args[i] = d == WEFT_I64 ? 1 : random_value(d, p->specials);
  }
}

static bool is_any_of(const char *name, const char *const *names) {
  for (; *names; names++)
    if (!strcmp(name, *names)) return true;
  return false;
}

/* Sizes of these are tied to each other or to data. */
static const char *const tied[] = { "slice_update", "cumsum_totals", "cumsum_apply", "pad_consumer",
                                    "scatter_set_apply", NULL };
static const char *const in_blocks[] = { "scatter_owned", "scatter_owned_lanes", "scatter_rows", "scatter_owned_bf16",
                                         NULL }; /* the last size is b > 0 */
static const char *const costly[] = { "scatter_owned", "scatter_owned_lanes", "scatter_rows", "scatter_owned_bf16",
                                      "rnn", NULL }; /* work grows as the square */

static const int64_t lengths[] = { 0, 1, 7, 8, 9, 15, 16, 17, 31, 33, 64, 100, 4096, 4097, 13000 };
enum { N_LENGTHS = sizeof lengths / sizeof *lengths };

/* One size runs through all lengths while the others are small; 300 rows cross a block of 128. A length over 100 is
 * tried with one layout. */
static bool all_lengths(struct problem *p, int long_axis) {
  static const int64_t small[] = { 3, 1, 0, 2, 5, 300, 129 };
  for (int i = 0; i < N_LENGTHS; i++) {
    if (lengths[i] > 100 && is_any_of(p->k->name, costly)) continue;
    if (lengths[i] > 100 && (i + long_axis) % LAYOUTS != (int)p->layout) continue;
    bool is_large = lengths[i] > 20 || p->k->n_sizes > 2;
    for (int s = 0; s < p->k->n_sizes; s++) p->sizes[s] = small[(i + s) % (is_large ? 5 : 7)];
    p->sizes[long_axis] = lengths[i];
    if (long_axis == 0 && i == 3) p->sizes[p->k->n_sizes - 1] = 300;
    if (is_any_of(p->k->name, in_blocks)) p->sizes[p->k->n_sizes - 1] = 1 + lengths[i] % 7;
    p->at_end = i & 1;
    random_args(p);
    if (!same_bits(p)) return false;
  }
  return true;
}

static bool has_machine(void) {
  if (backend_x86.available()) return true;
  test_skip("no AVX2 here");
  return false;
}

static void sweep(struct kir_kernel *k, bool avx2_only) {
  for (int layout = 0; layout < LAYOUTS; layout++)
    for (int axis = 0; axis < k->n_sizes; axis++) {
      struct problem p = { .k = k, .layout = (enum layout)layout, .avx2_only = avx2_only, .specials = layout & 1 };
      if (!all_lengths(&p, axis)) return;
    }
}

static void sweep_all(bool avx2_only) {
  struct kir_kernel *all[TEST_KERNELS_MAX];
  test_watchdog(300);
  int n = test_kernels(all);
  for (int i = 0; i < n; i++) {
    EXPECT(kir_legalise(all[i]));
    if (!is_any_of(all[i]->name, tied)) sweep(all[i], avx2_only);
    kir_free(all[i]);
  }
}

TEST(kernels_on_avx2_give_the_bits_of_the_vm) {
  if (has_machine()) sweep_all(true);
}

TEST(kernels_on_the_best_instructions_here_give_the_bits_of_the_vm) {
  if (has_machine()) sweep_all(false);
}

static struct code *compile_for(const struct kir_kernel *k, bool avx2_only, const char **why) {
  struct shape_class s = { .set = avx2_only ? SET_AVX2 : SET_BEST };
  for (int i = 0; i < 32; i++)
    for (int d = 0; d < BACKEND_RANK; d++)
      s.stride[i][d] = i < k->n_bufs && d == k->bufs[i].rank - 1 ? STRIDE_1 : STRIDE_ANY;
  return backend_x86.compile(k, &s, why);
}

/* ---- Nests and dtypes beyond the kernels of test/kernels ---- */

static const char nests[] =
  "kernel softmax64 { size R, C in x:f64[R,C] out y:f64[R,C] par r in R {\n"
  "  lane c in C { a = load x[r,c]; keep a; m = fold max(a) } lane c in C { e = exp(sub(a, m)); keep e; s = fold add(e) }\n"
  "  lane c in C { store y[r,c] = div(e, s) } } }\n"
  "kernel norm64_32 { size R, C in x:f32[R,C], w:f64[C] out y:f64[R,C], z:f32[R,C] par r in R {\n"
  "  lane c in C { a = cast.f64(load x[r,c]); b = load x[r,c]; keep a, b; m = fold add(a); n = fold max(b); k = fold min(b) }\n"
  "  d = sub(n, k)\n"
  "  lane c in C { store y[r,c] = mul(sub(a, m), load w[c]); store z[r,c] = mul(b, d) } } }\n"
  "kernel col_sum64 { size R, C in x:f64[R,C] out y:f64[C], z:f64[C] lane c in C {\n"
  "  serial r in R { v = load x[r,c]; s = fold add(v); m = fold mul(v) } store y[c] = s store z[c] = m } }\n"
  "kernel int_folds { size R, C in x:i32[R,C], u:u32[R,C] out s:i32[R], m:i32[R], n:i32[R], p:u32[R], q:u32[R], o:i32[R]\n"
  "  par r in R { lane c in C { a = load x[r,c]; b = load u[r,c]; v = fold add(a); w = fold max(a); k = fold min(a)\n"
  "      f = fold max(b); g = fold mul(b); h = fold or(a) }\n"
  "    store s[r] = v store m[r] = w store n[r] = k store p[r] = f store q[r] = g store o[r] = h } }\n"
  "kernel many_folds { size R, C in x:f32[R,C] out y:f32[R,C] par r in R {\n"
  "  lane c in C { a = load x[r,c]; keep a; s = fold add(a); t = fold mul(a); m = fold max(a); n = fold min(a); q = fold add(mul(a, a)); p = fold max(mul(a, a)) }\n"
  "  lane c in C { store y[r,c] = add(add(fma(a, s, t), sub(m, n)), mul(q, p)) } } }\n"
  "kernel narrow { size N in a:u8[N], b:i8[N], c:u16[N], d:i16[N], e:f16[N], f:bf16[N], g:bool[N]\n"
  "  out p:u8[N], q:i8[N], r:u16[N], s:i16[N], t:f16[N], u:bf16[N], v:bool[N] lane i in N {\n"
  "  k = load g[i]; x = add(load a[i], load b[i]); w = mul(load c[i], load d[i]); z = mul(load e[i], load f[i])\n"
  "  store p[i] = cast.u8(x) store q[i] = cast.i8(w) store r[i] = cast.u16(select(k, x, w)) store s[i] = cast.i16(cast.f32(w))\n"
  "  store t[i] = cast.f16(z) store u[i] = cast.bf16(add(z, cast.f32(x))) store v[i] = or(not(k), lt(x, w)) } }\n"
  "kernel narrow_rows { size R, C in x:bf16[R,C], k:bool[R], b:u8[R] out y:bf16[R,C], s:bf16[R], h:f16[R], o:bool[R], g:u8[R] par r in R {\n"
  "  p = load k[r]; i = load b[r]\n"
  "  lane c in C { a = load x[r,c]; keep a; m = fold add(a) }\n"
  "  store s[r] = m store h[r] = select(p, m, neg(m)) store o[r] = and(p, lt(m, 0f00000000)) store g[r] = cast.u8(add(i, i))\n"
  "  lane c in C { store y[r,c] = mul(a, select(p, m, cast.f32(i))) } } }\n"
  "kernel fold_of_carried { size R, N, T in x:f32[T,N], w:f32[R,N] out y:f32[R,N], z:f32[R] par r in R {\n"
  "  lane j in N { b = load w[r,j]; serial t in T { carry u = b; next u = fma(load x[t,j], b, u) } keep u, b; s = fold add(u); m = fold max(u) }\n"
  "  store z[r] = add(s, m)\n"
  "  lane j in N { serial t in T { carry v = u; next v = add(mul(v, b), s) } store y[r,j] = v } } }\n"
  "kernel deep_carry { size N, T, S arg p:f32 in x:f32[N,T] out y:f32[N], k:i32[N], o:bool[N] lane j in N {\n"
  "  serial t in T { carry a = p; carry n = 0:i32; carry b = true; v = load x[j,t]\n"
  "    serial s in S { carry c = a; carry d = v; carry e = p; next c = d, d = e, e = c }\n"
  "    next a = add(c, d), n = add(n, cast.i32(lt(a, c))), b = xor(b, lt(e, v)) }\n"
  "  store y[j] = a store k[j] = n store o[j] = b } }\n"
  "kernel uniform_carry { size R, C, T in x:f32[T,C] out y:f32[T,C], k:i64[T], z:f32[] \n"
  "  serial t in T { carry a = 0f3f800000; carry b = 0f40000000; carry i = 3; carry h = false\n"
  "    lane c in C { v = load x[t,c]; s = fold add(v); store y[t,c] = add(mul(v, a), select(h, b, v)) }\n"
  "    store k[t] = max(min(i, 40), sub(t, 2)); q = fold add(s)\n"
  "    next a = b, b = mul(s, a), i = add(mul(i, 3), xor(t, and(i, 7))), h = lt(s, a) } store z[] = add(q, a) }\n"
  "kernel index_values { size R, C in x:f64[R,C] out y:f64[R,C], k:i64[R,C], u:u32[R,C], f:f32[R,C]\n"
  "  par r in R { n = mul(r, C); lane c in C { i = add(n, c); store k[r,c] = i store u[r,c] = cast.u32(c)\n"
  "    store f[r,c] = cast.f32(r) store y[r,c] = select(lt(i, 20), load x[r,c], cast.f64(cast.i32(i))) } } }\n"
  "kernel combine_any { size R, C in x:f32[R,C] inout y:f32[R,C], m:f32[R,C], z:i32[R] par r in R {\n"
  "  lane c in C { v = load x[r,c]; store y[r,c] add = v store m[r,c] max = v; k = fold add(cast.i32(v)) } store z[r] add = k } }\n"
  "kernel four_axes { size A, B, C, D in x:f32[A,B,C,D], y:f32[D,C,B,A] out z:f32[C,A,D,B]\n"
  "  par a in A { par b in B { par c in C { lane d in D { store z[c,a,d,b] = add(load x[a,b,c,d], load y[d,c,b,a]) } } } } }\n"
  "kernel matmul { size M, N, K in a:f32[M,K], b:f32[K,N] out y:f32[M,N]\n"
  "  par i in M { lane j in N { serial k in K { carry u = 0f00000000; next u = fma(load a[i,k], load b[k,j], u) } store y[i,j] = u } } }\n"
  "kernel indexed_rows { size R, C, K in k:i64[K], x:f32[R,C] out y:f32[R,C]\n"
  "  par r in R { lane c in C { store y[r,c] = load x[R-1-r,C-1-c] } } }\n"
  "kernel bool_args { size N arg p:bool, q:i32, h:f64 in x:f32[N], y:f64[N] out z:f32[N], w:f64[N]\n"
  "  lane i in N { store z[i] = select(p, load x[i], cast.f32(q)) store w[i] = select(p, h, load y[i]) } }\n"
  "kernel take_rows { size R, C, V in x:f32[V,C], k:i64[R] out y:f32[R,C], z:f32[R] par r in R { i = load k[r]; lane c in C {\n"
  "  n = select(lt(i, 0), add(i, V), i); check and(le(0, n), lt(n, V)) at r of n\n"
  "  v = exp(load x[n,c]); store y[r,c] = v; s = fold add(v) } store z[r] = s } }\n"
  "kernel shifted { size R, C in x:f32[R+3,C], w:f32[R] out y:f32[R,C] par r in R { lane c in C {\n"
  "  i = add(r, 2); b = mul(load w[r], load w[R-1-r]); store y[r,c] = fma(load x[i,c], b, load x[i+1,c]) } } }\n"
  "kernel literal_64 { size N in x:f32[N] out y:f32[N] lane i in N {\n"
  "  store y[i] = select(lt(0d3ff0000000000000, 0d4000000000000000), add(load x[i], cast.f32(0d3ff8000000000000)), load x[i]) } }\n"
  "kernel uniform_64 { size N in x:i32[] out y:i64[N]  %1 = load x[] %2 = cast.i64(%1) lane i in N { store y[i] = %2 } }\n"
  "kernel branches { size R, C in k:i64[R], x:f32[R,C], p:f32[R] out y:f32[R,C], z:f32[R], n:i64[R] par r in R {\n"
  "  i = load k[r]; a = load p[r]; c0 = lt(a, 0f00000000)\n"
  "  if c0 { lane c in C { v = load x[r,c]; s = fold add(v) } check le(0, i) at r of i; yield t = add(s, a) else a; yield m = add(i, 1) else i }\n"
  "  store z[r] = t store n[r] = m; check lt(i, R) at i; lane c in C { store y[r,c] = mul(load x[r,c], t) } } }\n"
  "kernel local_rows { size R, C in x:f32[R,C] out y:f32[R,C], o:bool[R,C] par r in R {\n"
  "  local a:f32[2,C] local b:bool[C]\n"
  "  lane c in C { v = load x[r,c]; store a[0,c] = v store a[1,c] = mul(v, v) store b[c] = lt(v, 0f00000000) }\n"
  "  lane c in C { store y[r,c] = add(load a[0,C-1-c], load a[1,c]) store o[r,c] = not(load b[C-1-c]) } } }\n"
  "kernel late_check { size R, C in k:i64[R] inout y:f32[R,C], z:f32[R,C] par r in R { i = load k[r]; lane c in C {\n"
  "  store y[r,c] = 0f3f800000; check le(0, i) at r of i; store z[r,c] = 0f40000000 } } }\n"
  "kernel lane_branches { size N, M in k:i64[N], x:f32[M], z:f32[N], b:f16[M] out y:f32[N], n:i32[N], h:f16[N], o:bool[N] lane i in N {\n"
  "  j = load k[i]; a = load z[i]; p = and(le(0, j), lt(j, M)); q = lt(a, 0f00000000)\n"
  "  if p { v = load x[j]; u = load b[M-1-j]; v2 = add(v, v); if q { yield w = add(v2, u) else v } check lt(w, 0f40a00000) at i of j; store h[i] = u\n"
  "    yield s = w else a; yield c = add(cast.i32(j), 1:i32) else -7:i32; yield t = lt(v, u) else q }\n"
  "  store y[i] = s store n[i] = c store o[i] = t } }\n"
  "kernel lane_until { size N, T in x:f32[N], z:f32[T,N] out y:f32[N], n:i32[N], s:f32[N] lane i in N { a = load x[i]\n"
  "  serial t in T { carry u = a; carry k = 0:i32; v = load z[t,i]; r = fold add(v)\n"
  "    until lt(0f40000000, u); next u = fma(v, v, u), k = add(k, 1:i32) }\n"
  "  store y[i] = u store n[i] = k store s[i] = r } }\n"
  "kernel lane_nest { size N, T, S in x:f32[N], z:f64[T,N] out y:f32[N], d:f64[N], k:i64[N] lane i in N { a = load x[i]; p = lt(a, 0f3f800000)\n"
  "  if p { serial t in T { carry e = 0d3ff0000000000000; carry m = 3; check lt(a, 0f40000000) at i\n"
  "      serial s in S { carry f = e; g = load z[t,i]; h = lt(g, 0d0000000000000000); until lt(0d4010000000000000, f); next f = add(f, g) until h }\n"
  "      next e = f, m = add(m, cast.i64(p)) } yield q = m else 0; yield w = e else 0d4000000000000000 }\n"
  "  store y[i] = a store d[i] = w store k[i] = q } }\n"
  "kernel lane_scatter { size N, M in k:i64[N], x:f32[N], u:i64[N] inout y:f32[M], c:i64[M], o:bool[M], s:f32[M] lane i in N {\n"
  "  j = load k[i]; p = and(le(0, j), lt(j, M)); a = load x[i]\n"
  "  store y[j] add = a if p store c[M-1-j] max = load u[i] if p store o[j] xor = lt(a, 0f00000000) if p store s[j] = a if p } }\n"
  "kernel lane_table { size N table t:f32[4] = 0f3f800000 0f40000000 0f40400000 0f40800000 table b:bool[4] = true false false true\n"
  "  in k:i64[N] out y:f32[N], z:f32[N], o:bool[N] lane i in N { j = and(load k[i], 3); store y[i] = load t[j] store z[i] = load t[2] store o[i] = load b[j] } }\n"
  "kernel kept_bools { size R, C in x:f32[R,C], z:bool[R] out y:f32[R,C], o:bool[R,C] par r in R { q = load z[r]\n"
  "  lane c in C { a = load x[r,c]; p = lt(a, 0f00000000); keep a, p; m = fold max(a) }\n"
  "  lane c in C { store y[r,c] = select(p, m, a) store o[r,c] = xor(p, q) } } }\n"
  "kernel squares { size N, M in x:f32[N] inout y:f32[N], o:bool[N], c:i64[] lane i in N { store y[i] = load x[i*i-i*i+i] store o[i] and = lt(load x[i], 0f00000000) }\n"
  "  store c[] add = mul(N, 3) store c[] min = M }\n"
  "kernel counter_in_index { size R, C, V in x:f32[V,R,C], k:i64[] out y:f32[R,C] lane r in R { i = load k[]\n"
  "  serial c in C { n = select(lt(i, 0), add(i, V), i); check and(le(0, n), lt(n, V)) at 0; store y[r,c] = load x[n,r,c] } } }\n"
  "kernel takes_by_place { size R, C, V in x:f32[V], k:i64[R,C] out y:f32[R,C], z:f32[R], w:f32[C,R] par r in R {\n"
  "  lane c in C { j = load k[r,c]; check lt(cast.u64(j), cast.u64(V)) at r*C+c of j; v = load x[j]; store y[r,c] = v; s = fold add(v) }\n"
  "  store z[r] = s; lane c in C { serial t in 3 { j2 = load k[r,c]; check le(-3, j2) at 3*C*r+c+C*t of add(j2, t) }\n"
  "    store w[C-1-c,r] = load y[r,c] } } }\n"
  "kernel along_rows { size R, C in x:f32[20*R,C], k:i32[20*R,C], w:f32[20*R] out y:f32[20*R,C], z:i32[20*R,C], t:f32[20*R]\n"
  "  lane r in 20*R { b = load w[r]; serial c in C { carry a = b; carry m = 0:i32; n = add(mul(a, b), load x[r,c]); o = max(m, load k[r,c])\n"
  "    store y[r,c] = add(b, n); store z[r,c] = o; next a = n, m = o } store t[r] = a } }\n"
  "kernel some_along_rows { size R, C in x:f32[20*R,C], w:f32[20*R] out y:f32[20*R,C] lane r in 20*R { u = load w[r]; p = lt(u, 0f3f000000)\n"
  "  if p { serial c in C { store y[r,c] = mul(load x[r,c], u) } } } }\n"
  "kernel hoisted_behind_if { size R, C, V in x:f32[V], w:f32[R] out y:f32[R,C] par r in R { lane c in C {\n"
  "  p = lt(c, V); a = load x[c] if p else 0f00000000 b = mul(load w[r], load w[R-1-r]); store y[r,c] = add(a, exp(b)) } } }\n"
  "kernel crowded { size N, T in x:f64[T,N], k:u64[T,N] out y:bf16[N], z:f64[N], a:f64[N], b:f64[N], c:f64[N] lane i in N {\n"
  "  serial t in T { carry p = 0d3ff0000000000000; carry q = p; carry r = p; carry s = p; v = load x[t,i]; w = load k[t,i]\n"
  "    e = fold add(v); f = fold mul(v); h = fold max(v); m = max(w, load k[T-1-t,i]); g = cast.f64(cast.bf16(m))\n"
  "    next p = add(q, g), q = mul(r, v), r = sub(s, p), s = cast.f64(cast.f16(fma(p, v, v))) }\n"
  "  store y[i] = cast.bf16(p) store z[i] = add(q, e) store a[i] = add(r, f) store b[i] = add(s, h) store c[i] = p } }\n"
  "kernel fold_kinds { size R, C in x:f32[R,C], k:i64[R,C], u:u64[R,C], b:bool[R,C] out s:i64[R], m:u64[R], o:bool[R], a:bool[R], p:bool[R], n:u64[R]\n"
  "  par r in R { lane c in C { v = load k[r,c]; w = load u[r,c]; q = load b[r,c]; e = fold add(v); f = fold max(w); g = fold or(q); h = fold and(q); i = fold xor(q); j = fold mul(w) }\n"
  "    store s[r] = e store m[r] = f store o[r] = g store a[r] = h store p[r] = i store n[r] = j } }\n"
  "kernel fold_kinds_down { size R, C in k:i64[R,C], b:bool[R,C], d:i64[R] out s:i64[C], o:bool[C], t:i64[], h:bool[]\n"
  "  lane c in C { serial r in R { e = fold min(load k[r,c]); g = fold or(load b[r,c]) } store s[c] = e store o[c] = g }\n"
  "  serial r in R { v = load d[r]; f = fold max(v); w = lt(v, 3); a = fold and(w) } store t[] = f store h[] = a }\n"
  "kernel argmax { size R, C in x:f32[R,C] out y:f32[R], k:i64[R], z:f32[C], n:i64[C]\n"
  "  fn later(a:f32, i:i64, b:f32, j:i64) -> f32, i64 { p = or(lt(a, b), and(eq(a, b), lt(j, i))); return select(p, b, a), select(p, j, i) }\n"
  "  par r in R { lane c in C { m, i = fold later(load x[r,c], c) from 0fff800000, 9223372036854775807 } store y[r] = m store k[r] = i }\n"
  "  lane c in C { serial r in R { m2, i2 = fold later(load x[r,c], r) from 0fff800000, 9223372036854775807 } store z[c] = m2 store n[c] = i2 } }\n"
  "kernel fn_of_bools { size R, C in x:f32[R,C], g:f32[R] out o:bool[R], s:f32[R], e:bool[], f:f32[]\n"
  "  table t:f32[2] = 0f3f800000 0f40000000\n"
  "  fn both(p:bool, a:f32, q:bool, b:f32) -> bool, f32 { r = xor(p, q); i = cast.i64(r); return r, add(add(a, b), mul(load t[i], 0f00000000)) }\n"
  "  par r in R { lane c in C { v = load x[r,c]; w, z = fold both(lt(v, 0f00000000), v) from false, 0f00000000 } store o[r] = w store s[r] = z }\n"
  "  serial r in R { u = load g[r]; w2, z2 = fold both(lt(u, 0f3f800000), u) from false, 0f00000000 } store e[] = w2 store f[] = z2 }\n"
  "kernel prefixes { size R, C in x:f32[R,C], k:i64[R,C], b:bool[R,C] out y:f32[R,C], z:f32[R], n:i64[R,C], m:i64[R], o:bool[R,C], w:f32[R,C]\n"
  "  par r in R { lane c in C { s = prefix add(load x[r,c]); t = prefix max(load k[r,c]); p = prefix xor(load b[r,c]); keep s\n"
  "      store y[r,c] = s store n[r,c] = t store o[r,c] = p } store z[r] = s store m[r] = t\n"
  "    lane c in C { store w[r,c] = mul(s, 0f40000000) } } }\n"
  "kernel prefixes_down { size R, C in x:f64[R,C], b:bool[R,C], k:i64[R] out y:f64[R,C], z:f64[C], o:bool[R,C], n:i64[R], m:i64[]\n"
  "  lane c in C { serial r in R { s = prefix add(load x[r,c]); p = prefix and(load b[r,c]); store y[r,c] = s store o[r,c] = p } store z[c] = s }\n"
  "  serial r in R { t = prefix mul(load k[r]); store n[r] = t } store m[] = t }\n"
  "kernel across { size R, C in x:f32[R,C], b:bool[R,C], k:i64[R,C], d:f32[R] out s:f32[R], o:bool[R], n:i64[C], y:f32[C], z:f32[], m:i64[R]\n"
  "  fn later(a:f32, i:i64, b:f32, j:i64) -> f32, i64 { p = or(lt(a, b), and(eq(a, b), lt(j, i))); return select(p, b, a), select(p, j, i) }\n"
  "  par r in R { lane c in C { e = fold.col add(load x[r,c]); f = fold.col or(load b[r,c]); g, h = fold.col later(load x[r,c], c) from 0fff800000, 9 }\n"
  "    store s[r] = add(e, g) store o[r] = f store m[r] = h }\n"
  "  lane c in C { serial r in R { u = fold.row add(load x[r,c]); v = fold.row max(load k[r,c]); w = fold mul(load x[r,c]) } store n[c] = v store y[c] = add(u, w) }\n"
  "  serial r in R { t = fold.row add(load d[r]); q, i = fold.row later(load d[r], r) from 0fff800000, 9 } store z[] = add(t, add(q, cast.f32(i))) }\n"
  "kernel prefix_until { size N, T in x:f32[T,N] out y:f32[N], s:f32[N] lane i in N {\n"
  "  serial t in T { v = load x[t,i]; p = prefix add(v); f = fold add(v) until lt(0f40800000, p) } store y[i] = p store s[i] = f } }\n"
  "kernel leaves_before_next { size T in x:f32[T], w:f32[] out y:f32[] c = load w[]; serial t in T { carry u = c; v = add(u, load x[t])\n"
  "  m = mul(v, v); until lt(0f3f000000, m); next u = m } store y[] = u }\n"
  "kernel checks_before_next { size T in x:f32[T], w:f32[] out y:f32[] c = load w[]; serial t in T { carry u = c; v = add(u, load x[t])\n"
  "  m = mul(v, v); check lt(m, 0f3f000000) at t; next u = m } store y[] = u }\n"
  "kernel leaves_after_next { size T in x:f32[T], w:f32[] out y:f32[] c = load w[]; serial t in T { carry u = c; v = add(u, load x[t])\n"
  "  m = mul(v, v); h = lt(0f3f000000, m); next u = m until h } store y[] = u }\n"
  "kernel lone_block { size N in x:f32[N] out y:f32[N], s:f32[N] par q in blocks(N, 100) {\n"
  "  lane i in block q { a = load x[i]; keep a; m = fold max(a) } lane i in block q { store y[i] = sub(a, m) }\n"
  "  serial j in block q { store s[j] = mul(m, load x[j]) } } }\n";

static void sweep_nests(bool avx2_only) {
  struct kir_kernel *k[64];
  struct text why = { 0 };
  int n = kir_parse(nests, k, 64, &why);
  if (n < 0) test_fail(__FILE__, __LINE__, "%s", text_of(&why));
  for (int i = 0; i < n; i++) {
    const char *wrong = kir_verify(k[i]), *cannot = "";
    if (wrong) test_fail(__FILE__, __LINE__, "%s: %s", k[i]->name, wrong);
    EXPECT(kir_legalise(k[i]));
    struct code *c = compile_for(k[i], avx2_only, &cannot);
    if (!c) test_fail(__FILE__, __LINE__, "%s: cannot: %s", k[i]->name, cannot);
    backend_x86.free(c);
    if (!wrong) sweep(k[i], avx2_only);
    kir_free(k[i]);
  }
  text_free(&why);
}

TEST(nests_and_dtypes_on_avx2_give_the_bits_of_the_vm) {
  test_watchdog(300);
  if (has_machine()) sweep_nests(true);
}

TEST(nests_and_dtypes_on_the_best_instructions_here_give_the_bits_of_the_vm) {
  test_watchdog(300);
  if (has_machine()) sweep_nests(false);
}

/* ---- What must be encodable ---- */

TEST(every_kernel_of_the_tests_is_encoded_on_both_tiers) {
  if (!has_machine()) return;
  struct kir_kernel *all[TEST_KERNELS_MAX];
  int n = test_kernels(all);
  EXPECT(n >= 59);
  for (int i = 0; i < n; i++) {
    EXPECT(kir_legalise(all[i]));
    for (int avx2 = 0; avx2 < 2; avx2++) {
      const char *why = NULL;
      struct code *c = compile_for(all[i], avx2, &why);
      if (!c) test_fail(__FILE__, __LINE__, "%s: cannot: %s", all[i]->name, why);
      backend_x86.free(c);
    }
    kir_free(all[i]);
  }
}

TEST(slice_update_stores_with_any_step) {
  if (!has_machine()) return;
  struct kir_kernel *k = test_kernel("slice_update");
  EXPECT(k && kir_legalise(k));
  for (int i = 0; i < 2 * N_LENGTHS; i++) {
    int64_t m = lengths[i / 2];
    struct problem p = { .k = k, .layout = (enum layout)(i % LAYOUTS), .avx2_only = i & 1, .sizes = { 3 * m + 5, m } };
    p.args[0] = (uint64_t)(i % 3 ? 2 : 3 * m + 2);
    p.args[1] = (uint64_t)(int64_t)(i % 3 ? 2 : -3);
    EXPECT(same_bits(&p));
  }
  kir_free(k);
}

/* Rows of 16 and lanes of 256 make a tile: all its ends, and arrays that end at a page. */
TEST(arrays_read_across_have_the_same_bits_by_tiles) {
  static const char text[] =
    "kernel two { size A, R, C in x:f32[A,C,R], y:i32[C,R], z:f64[A,R,C], w:f32[C,R,A] out o:f64[A,R,C] par a in A { par r in R {\n"
    "  lane c in C { p = lt(c, 300); v = load w[c,r,a] if p else 0f3f800000\n"
    "    store o[a,r,c] = add(load z[a,r,c], cast.f64(mul(v, add(load x[a,c,r], cast.f32(load y[c,r]))))) } } } }\n"
    "kernel one { size A, R, C in x:f32[A,C,R], y:u32[C,R] out o:f32[A,R,C] par a in A { par r in R {\n"
    "  lane c in C { store o[a,r,c] = add(load x[a,c,r], cast.f32(load y[c,r])) } } } }\n";
  static const int64_t sizes[][2] = { { 16, 256 }, { 15, 300 }, { 17, 16 }, { 33, 15 }, { 64, 513 }, { 40, 263 },
                                      { 2, 30 },   { 3, 40 },   { 5, 16 },   { 7, 49 },  { 9, 512 },  { 12, 33 },
                                      { 8, 8 },    { 100, 0 },  { 0, 100 }, { 31, 17 }, { 16, 1 },   { 1, 1000 } };
  if (!has_machine()) return;
  struct kir_kernel *k[2];
  struct text why = { 0 };
  EXPECT_INT(kir_parse(text, k, 2, &why), 2);
  for (int i = 0; i < 2; i++) {
    EXPECT(!kir_verify(k[i]) && kir_legalise(k[i]));
    for (int n = 0; n < 4 * (int)(sizeof sizes / sizeof *sizes); n++) {
      struct problem p = { .k = k[i], .layout = n & 2 ? COLUMN_MAJOR : ROW_MAJOR, .avx2_only = n & 1, .at_end = n & 4,
                           .sizes = { 2, sizes[n / 4][0], sizes[n / 4][1] } };
      EXPECT(same_bits(&p));
    }
    kir_free(k[i]);
  }
  text_free(&why);
}

#define INDEXED(name, index, dtype, how)                                                                                   \
  "kernel " name " { size N, S in k:" index "[N], v:" dtype "[N] inout y:" dtype "[S] lane i in N {\n"                     \
  "  j = cast.i64(load k[i]); n = select(lt(j, 0), add(j, S), j); check lt(cast.u64(n), cast.u64(S)) at i of n\n"          \
  "  store y[n] " how " = load v[i] } }\n"

/* All indices from 0 on, some from the end, few beyond it: each has a way of its own through the code. */
TEST(stores_through_an_index_have_the_same_bits_whatever_the_indices) {
  static const char text[] =
    INDEXED("a", "i32", "f32", "add") INDEXED("b", "i64", "f32", "mul") INDEXED("c", "i32", "f64", "max")
    INDEXED("d", "i64", "i64", "min") INDEXED("e", "i32", "i32", "") INDEXED("f", "i16", "u32", "xor")
    INDEXED("g", "i32", "bf16", "") INDEXED("h", "i64", "i64", "mul") INDEXED("i", "i32", "bool", "or")
    "kernel j { size N, S in k:i32[N], v:f32[N] inout y:f32[S], z:f32[N] lane i in N {\n"
    "  j = cast.i64(load k[i]); check le(0, j) at i of j; check lt(j, S) at sub(N, i) of j; a = load v[i]; store z[i] = mul(a, a) store y[j] add = a } }\n"
    "kernel l { size N, S in k:i32[N], v:f32[N] inout y:f32[S] par q in blocks(N, 4096) private y add { lane i in block q {\n"
    "  j = cast.i64(load k[i]); p = and(le(0, j), lt(j, S)); check p at 2*i+N of j; store y[j] add = load v[i] } } }\n"
    "kernel m { size N, S in k:i64[N], x:f32[S] out y:f32[N] lane i in N {\n"
    "  j = load k[i]; p = and(le(0, j), lt(j, S)); check p at N-i of add(j, 1); a = load x[j]; check lt(a, 0f40a00000) at i of S; store y[i] = a } }\n";
  enum { S = 1000, KERNELS = 12 };
  static const int64_t ranges[][2] = { { 0, S }, { -S, 2 * S }, { -S - 1, 2 * S + 1 }, { 0, S + 1 }, { -1, S + 2 }, { S, 5 } };
  if (!has_machine()) return;
  struct kir_kernel *k[KERNELS];
  struct text why = { 0 };
  if (kir_parse(text, k, KERNELS, &why) != KERNELS) test_fail(__FILE__, __LINE__, "%s", text_of(&why));
  for (int i = 0; i < KERNELS; i++) {
    const char *wrong = kir_verify(k[i]);
    if (wrong) test_fail(__FILE__, __LINE__, "%s: %s", k[i]->name, wrong);
    EXPECT(kir_legalise(k[i]));
    for (int n = 0; n < 2 * N_LENGTHS * 6; n++) {
      const int64_t *range = ranges[n / 2 % 6];
      struct problem p = { .k = k[i], .layout = n % 7 ? ROW_MAJOR : ALL_REVERSED, .avx2_only = n & 1, .at_end = n & 2,
                           .specials = n & 4, .sizes = { lengths[n / 12], S }, .index_from = range[0], .n_indices = range[1] };
      EXPECT(same_bits(&p));
    }
    kir_free(k[i]);
  }
  text_free(&why);
}

/* Quotients are guessed there, and limits are looked at: right whatever the number, its reciprocal and the root are. */
TEST(numbers_of_a_loop_by_others_and_by_roots_have_the_same_bits) {
  static const char text[] =
    "kernel f { size T arg p:f32, q:f32 in x:f32[T] out a:f32[T], b:f32[T], c:f32[T], d:f32[T], e:f32[T], z:f32[] serial t in T {\n"
    "  carry u = p; v = load x[t]; store a[t] = div(v, p) r = sqrt(v); s = div(q, r) store b[t] = s w = div(s, sqrt(r))\n"
    "  store c[t] = max(abs(v), abs(u)) store d[t] = min(max(w, p), q) store e[t] = max(min(p, v), q)\n"
    "  next u = add(mul(u, p), v) } store z[] = u }\n"
    "kernel g { size T arg p:f64, q:f64 in x:f64[T] out a:f64[T], b:f64[T], c:f64[T], d:f64[T], e:f64[T], z:f64[] serial t in T {\n"
    "  carry u = p; v = load x[t]; store a[t] = div(v, p) r = sqrt(v); s = div(q, r) store b[t] = s w = div(s, sqrt(r))\n"
    "  store c[t] = max(abs(v), abs(u)) store d[t] = min(max(w, p), q) store e[t] = max(min(p, v), q)\n"
    "  next u = add(mul(u, p), v) } store z[] = u }\n"
    "kernel h { size T in x:f32[T], w:f32[T] out y:f32[T] lane t in T { store y[t] = max(abs(load x[t]), abs(load w[t])) } }\n";
  static const double numbers[] = { 1e-3, 0, -0.0, 1, -1, 3, 0.9, 1e-40, 3e38, -1e-38, INFINITY, -INFINITY, NAN, 1e-320, 0x1.fffffep0 };
  enum { NUMBERS = sizeof numbers / sizeof *numbers };
  if (!has_machine()) return;
  struct kir_kernel *k[3];
  struct text why = { 0 };
  if (kir_parse(text, k, 3, &why) != 3) test_fail(__FILE__, __LINE__, "%s", text_of(&why));
  for (int i = 0; i < 3; i++) {
    EXPECT(!kir_verify(k[i]) && kir_legalise(k[i]));
    for (int n = 0; n < 4 * NUMBERS * NUMBERS; n++) {
      struct problem p = { .k = k[i], .avx2_only = n & 1, .specials = n & 2, .sizes = { 100 } };
      for (int a = 0; a < k[i]->n_args; a++) {
        double wide = numbers[a ? n / 4 % NUMBERS : n / 4 / NUMBERS];
        float narrow = (float)wide;
        memcpy(&p.args[a], i ? (void *)&wide : &narrow, i ? sizeof wide : sizeof narrow);
      }
      EXPECT(same_bits(&p));
    }
    kir_free(k[i]);
  }
  text_free(&why);
}

/* Outputs of more than 16 MiB are stored around the caches, rows that are not aligned are not. */
TEST(outputs_larger_than_the_cache_have_the_same_bits) {
  static const char text[] = "kernel twice { size R, C in x:f32[C] out y:f32[R,C] par r in R { lane c in C { a = load x[c]; store y[r,c] = add(a, a) } } }";
  if (!has_machine()) return;
  struct kir_kernel *k;
  struct text why = { 0 };
  EXPECT_INT(kir_parse(text, &k, 1, &why), 1);
  for (int i = 0; i < 4; i++) {
    struct problem p = { .k = k, .avx2_only = i & 1, .sizes = { 5, (1 << 20) + (i & 2 ? 16 : 5) } };
    EXPECT(same_bits(&p));
  }
  text_free(&why);
  kir_free(k);
}

/* ---- Random programs ---- */

static const enum kir_op float_ops[] = { KIR_ADD, KIR_SUB, KIR_MUL, KIR_FMA,   KIR_DIV,  KIR_SQRT,  KIR_MIN,
                                         KIR_MAX, KIR_NEG, KIR_ABS, KIR_FLOOR, KIR_CEIL, KIR_TRUNC, KIR_RINT };
static const enum kir_op int_ops[] = { KIR_ADD, KIR_SUB, KIR_MUL, KIR_MIN, KIR_MAX, KIR_AND,
                                       KIR_OR,  KIR_XOR, KIR_NOT, KIR_SHL, KIR_SHR, KIR_MULHI,
                                       KIR_IDIV, KIR_IREM };
static const enum kir_op compare_ops[] = { KIR_EQ, KIR_NE, KIR_LT, KIR_LE };
static const enum kir_op bool_ops[] = { KIR_AND, KIR_OR, KIR_XOR, KIR_NOT };

#define PICK(a) (a)[random_bits() % (sizeof(a) / sizeof *(a))]

/* Values by register dtype: the first four are those of 32 bits. */
static const weft_dtype pool_dtypes[] = { WEFT_F32, WEFT_I32, WEFT_U32, WEFT_BOOL, WEFT_F64, WEFT_I64, WEFT_U64 };
static const weft_dtype cast_dtypes[] = { WEFT_F32, WEFT_I32, WEFT_U32, WEFT_BOOL, WEFT_U8,   WEFT_I8,  WEFT_U16,
                                          WEFT_I16, WEFT_F16, WEFT_BF16, WEFT_F64, WEFT_I64, WEFT_U64 };
enum { POOL_F, POOL_I, POOL_U, POOL_B, NARROW_KINDS, KINDS = 7, NARROW_CASTS = 10, CASTS = 13 };
struct pool { int val[KINDS][256], n[KINDS]; };

static int kind_of(weft_dtype d) {
  int i = 0;
  while (pool_dtypes[i] != kir_register_of(d)) i++;
  return i;
}

static int draw(struct kir_kernel *k, struct pool *p, int kind) {
  weft_dtype dtype = pool_dtypes[kind];
  if (kind != POOL_B && random_bits() % 6 == 0) {
    uint64_t bits = random_value(dtype, true);
    return kir_lit(k, dtype, kir_width(dtype) == 4 ? bits & UINT32_MAX : bits);
  }
  return p->val[kind][random_bits() % (uint64_t)p->n[kind]];
}

static void give(struct pool *p, int kind, int val) {
  if (p->n[kind] < 256) p->val[kind][p->n[kind]++] = val;
}

static int arity(enum kir_op op) { return (int)strlen(kir_rows[op].operands); }

static int random_op(struct kir_builder *b, struct pool *p, enum kir_op op, int kind) {
  int in[3];
  for (int i = 0; i < arity(op); i++) in[i] = draw(b->k, p, kind);
  return kir_apply(b, op, arity(op), in);
}

static int any_kind(bool wide) { return (int)(random_bits() % (wide ? KINDS : NARROW_KINDS)); }
static bool is_float_kind(int kind) { return kir_is_float(pool_dtypes[kind]); }

static void random_cast(struct kir_builder *b, struct pool *p, bool wide) {
  weft_dtype to = cast_dtypes[random_bits() % (wide ? CASTS : NARROW_CASTS)];
  give(p, kind_of(to), kir_cast(b, to, draw(b->k, p, any_kind(wide))));
}

/* The pattern of a NaN that arithmetic made is unspecified. */
static void random_bits_of(struct kir_builder *b, struct pool *p) {
  int x = draw(b->k, p, POOL_F);
  give(p, POOL_I, kir_bits(b, WEFT_I32, kir_op3(b, KIR_SELECT, kir_op2(b, KIR_EQ, x, x), x, kir_lit(b->k, WEFT_F32, 0))));
}

static void random_statement(struct kir_builder *b, struct pool *p, bool wide) {
  int kind = any_kind(wide), other = kind == POOL_B ? POOL_I : kind;
  enum kir_op op = kind == POOL_B ? PICK(bool_ops) : is_float_kind(kind) ? PICK(float_ops) : PICK(int_ops);
  switch (random_bits() % 8) {
  case 0: case 1: case 2: give(p, kind, random_op(b, p, op, kind)); break;
  case 3: give(p, POOL_B, random_op(b, p, PICK(compare_ops), other)); break;
  case 4:
    give(p, kind, kir_op3(b, KIR_SELECT, draw(b->k, p, POOL_B), draw(b->k, p, kind), draw(b->k, p, kind)));
    break;
  case 5: case 6: random_cast(b, p, wide); break;
  default: random_bits_of(b, p); break;
  }
}

/* Arrays and single numbers of every dtype, a random body outside lanes and inside, out all of its last values. */
static struct kir_kernel *random_kernel(int statements, bool wide) {
  struct kir_kernel *k = kir_new("random");
  struct kir_builder b;
  struct pool p = { 0 };
  int n_kinds = wide ? KINDS : NARROW_KINDS, in[KINDS], one[KINDS], out[KINDS];
  struct kir_lin n = kir_lin_val(k, kir_size(k, "N"));
  for (int i = 0; i < n_kinds; i++) {
    in[i] = kir_buf(k, "in", KIR_IN, pool_dtypes[i], 1, &n);
    one[i] = kir_buf(k, "one", KIR_IN, pool_dtypes[i], 0, NULL);
    out[i] = kir_buf(k, "out", KIR_OUT, pool_dtypes[i], 1, &n);
  }
  kir_begin(&b, k);
  for (int i = 0; i < n_kinds; i++) give(&p, i, kir_load(&b, one[i], NULL));
  for (int i = 0; i < statements / 3; i++) random_statement(&b, &p, wide);
  struct kir_lin at = kir_lin_val(k, kir_loop(&b, KIR_LANE, "j", n));
  for (int i = 0; i < n_kinds; i++) give(&p, i, kir_load(&b, in[i], &at));
  for (int i = 0; i < statements; i++) random_statement(&b, &p, wide);
  for (int i = 0; i < n_kinds; i++) kir_store(&b, out[i], &at, KIR_SET, p.val[i][p.n[i] - 1]);
  kir_end(&b);
  return k;
}

static void random_programs(bool wide) {
  for (int i = 0; i < 400; i++) {
    struct kir_kernel *k = random_kernel(4 + i % 60, wide);
    struct problem p = {
      .k = k, .layout = (enum layout)(i % LAYOUTS), .specials = true, .sizes = { (int64_t)(random_bits() % 150) }
    };
    const char *wrong = kir_verify(k);
    if (wrong) test_fail(__FILE__, __LINE__, "%s", wrong);
    for (int avx2 = 0; avx2 < 2; avx2++) {
      p.avx2_only = avx2;
      p.unroll = i % 3 ? 0 : 1 << i % 4;
      EXPECT(same_bits(&p));
    }
    kir_free(k);
  }
}

TEST(random_programs_of_32_bits_give_the_bits_of_the_vm) {
  if (has_machine()) random_programs(false);
}

TEST(random_programs_of_all_dtypes_give_the_bits_of_the_vm) {
  if (has_machine()) random_programs(true);
}

/* ---- The host's state ---- */

#if defined __x86_64__
TEST(a_host_that_flushes_denormals_gets_the_same_bits_and_its_mode_back) {
  if (!has_machine()) return;
  struct kir_kernel *k = test_kernel("muladd");
  const uint32_t tiny = 0x00000400, one = 0x3F800000, zero = 0;
  uint32_t a[40], b[40], c[40], y[40];
  for (int i = 0; i < 40; i++) a[i] = tiny, b[i] = one, c[i] = zero, y[i] = 7;
  struct bound bufs[4] = {
    { a, { 40, 1 }, false }, { b, { 40, 1 }, false }, { c, { 40, 1 }, false }, { y, { 40, 1 }, false }
  };
  int64_t sizes[] = { 1, 40 };
  struct launch l = { .sizes = sizes, .bufs = bufs, .lo = 0, .hi = 1 };
  const char *why;
  EXPECT(k && kir_legalise(k));
  struct code *code = compile_for(k, false, &why);
  unsigned before = __builtin_ia32_stmxcsr(), flush = before | 0x8040;
  __builtin_ia32_ldmxcsr(flush);
  int status = backend_x86.run(code, &l);
  unsigned after = __builtin_ia32_stmxcsr();
  __builtin_ia32_ldmxcsr(before);
  EXPECT_INT(status, 0);
  EXPECT_INT(after, flush);
  for (int i = 0; i < 40; i++) EXPECT_INT(y[i], tiny);
  backend_x86.free(code);
  kir_free(k);
}
#endif

TEST(a_cancelled_kernel_stops_at_the_next_outer_iteration) {
  if (!has_machine()) return;
  struct kir_kernel *k = test_kernel("softmax");
  static float x[64 * 8], y[64 * 8];
  struct bound bufs[2] = { { x, { 8, 1 }, false }, { y, { 8, 1 }, false } };
  int64_t sizes[] = { 64, 8 };
  volatile int flag = 1;
  struct cancel cancel = { &flag, 0 };
  struct launch l = { .sizes = sizes, .bufs = bufs, .lo = 0, .hi = 64, .cancel = &cancel };
  const char *why;
  EXPECT(k && kir_legalise(k));
  struct code *code = compile_for(k, false, &why);
  EXPECT_INT(backend_x86.run(code, &l), 0);
  EXPECT(y[63 * 8] == 0);
  EXPECT(cancel.is_seen);
  flag = 0;
  EXPECT(cancel_is_set(&cancel)); /* it was not finished, whatever the flag says afterwards */
  cancel.is_seen = 0;
  EXPECT_INT(backend_x86.run(code, &l), 0);
  EXPECT(!cancel.is_seen);
  EXPECT(y[63 * 8] == 0.125f);
  backend_x86.free(code);
  kir_free(k);
}

/* ---- What others are told of a kernel ---- */

static bool file_has_line(const char *path, const char *end) {
  char line[256];
  bool found = false;
  FILE *f = fopen(path, "r");
  while (f && fgets(line, sizeof line, f)) found |= strlen(line) > strlen(end) && !strcmp(line + strlen(line) - strlen(end), end);
  if (f) fclose(f);
  return found;
}

TEST(perf_is_told_the_names_of_kernels_only_if_asked) {
  if (!has_machine()) return;
  struct kir_kernel *k = test_kernel("softmax");
  const char *why;
  char path[64];
  snprintf(path, sizeof path, "/tmp/perf-%ld.map", (long)getpid());
  EXPECT(k && kir_legalise(k));
  unsetenv("WEFT_PERF");
  backend_x86.free(compile_for(k, false, &why));
  EXPECT(!file_has_line(path, " weft_softmax\n"));
  setenv("WEFT_PERF", "1", 1);
  backend_x86.free(compile_for(k, false, &why));
  unsetenv("WEFT_PERF");
  EXPECT(file_has_line(path, " weft_softmax\n"));
  unlink(path);
  kir_free(k);
}

TEST(gdb_finds_an_object_file_for_every_kernel_that_lives) {
  if (!has_machine()) return;
  struct kir_kernel *k = test_kernel("softmax");
  const char *why;
  EXPECT(k && kir_legalise(k));
  const struct debug_entry *before = __jit_debug_descriptor.first;
  struct code *a = compile_for(k, false, &why), *b = compile_for(k, true, &why);
  const struct debug_entry *e = __jit_debug_descriptor.first;
  EXPECT(e && e->next && e->next->next == before);
  const char *file = e->file;
  const Elf64_Ehdr *head = e->file;
  const Elf64_Shdr *section = (const void *)(file + head->e_shoff);
  const Elf64_Sym *symbol = (const void *)(file + section[3].sh_offset);
  EXPECT(!memcmp(file, "\177ELF", 4) && head->e_shnum == 6);
  EXPECT_TEXT(file + section[4].sh_offset + symbol[1].st_name, "weft_softmax");
  EXPECT_TEXT(file + section[5].sh_offset + section[2].sh_name, ".eh_frame");
  EXPECT(symbol[1].st_size == section[1].sh_size && section[1].sh_addr);
  backend_x86.free(a);
  EXPECT(__jit_debug_descriptor.first == e && e->next == before);
  backend_x86.free(b);
  EXPECT(__jit_debug_descriptor.first == before);
  kir_free(k);
}

/* Every mapping of this process that may be executed must not be writable. */
TEST(no_page_is_writable_and_executable) {
  if (!has_machine()) return;
  struct kir_kernel *k = test_kernel("softmax");
  const char *why;
  char line[512];
  EXPECT(k && kir_legalise(k));
  struct code *c = compile_for(k, false, &why);
  FILE *maps = fopen("/proc/self/maps", "r");
  while (maps && fgets(line, sizeof line, maps)) EXPECT(!strstr(line, " rwx"));
  if (maps) fclose(maps);
  backend_x86.free(c);
  kir_free(k);
}

/* ---- Memory, listing ---- */

TEST(every_failed_allocation_of_a_compilation_is_reported_and_leaves_nothing) {
  if (!has_machine()) return;
  struct kir_kernel *k = test_kernel("layer_norm_grad");
  const char *why = NULL;
  EXPECT(k && kir_legalise(k));
  int64_t live = mem_live();
  struct code *c = NULL;
  for (int64_t n = 1; !c && n < 10000; n++) {
    mem_fail_at(n, 0);
    c = compile_for(k, false, &why);
    mem_fail_at(0, 0);
    if (!c) EXPECT_TEXT(why, "");
    if (!c) EXPECT_INT(mem_live(), live);
  }
  EXPECT(c != NULL);
  backend_x86.free(c);
  EXPECT_INT(mem_live(), live);
  kir_free(k);
}

/* In a child: what is forbidden stays forbidden. 0: refused with the reason, 1: not, 2: this kernel cannot forbid it. */
static int forbid_code_and_compile(const struct kir_kernel *k) {
  enum { SET_MDWE = 65, REFUSE_EXEC_GAIN = 1 };
  const char *why = NULL;
  if (prctl(SET_MDWE, REFUSE_EXEC_GAIN, 0, 0, 0)) return 2;
  return compile_for(k, false, &why) || strcmp(why, "executable memory on this system");
}

TEST(a_system_that_forbids_new_code_gets_a_reason_and_not_an_out_of_memory) {
  if (!has_machine()) return;
  struct kir_kernel *k = test_kernel("muladd");
  int status = 0;
  EXPECT(k && kir_legalise(k));
  pid_t child = fork();
  if (!child) _exit(forbid_code_and_compile(k));
  EXPECT(waitpid(child, &status, 0) == child && WIFEXITED(status));
  if (WEXITSTATUS(status) == 2) test_skip("this kernel cannot forbid code");
  else EXPECT_INT(WEXITSTATUS(status), 0);
  kir_free(k);
}

static void expect_listing(struct kir_kernel *k, bool avx2_only) {
  struct text t = { 0 };
  const char *why;
  struct code *c = compile_for(k, avx2_only, &why);
  backend_x86.show(c, &t);
  const char *unknown = strstr(text_of(&t), "? ");
  if (unknown) test_fail(__FILE__, __LINE__, "%s: an instruction without a name: %.40s", k->name, unknown);
  EXPECT(strstr(text_of(&t), "ret\n"));
  if (!strcmp(k->name, "softmax")) EXPECT(strstr(text_of(&t), "; m = fold max(a)"));
  text_free(&t);
  backend_x86.free(c);
}

TEST(a_listing_names_every_instruction_and_statement) {
  if (!has_machine()) return;
  struct kir_kernel *all[TEST_KERNELS_MAX];
  int n = test_kernels(all);
  for (int i = 0; i < n; i++) {
    EXPECT(kir_legalise(all[i]));
    for (int avx2 = 0; avx2 < 2; avx2++) expect_listing(all[i], avx2);
    kir_free(all[i]);
  }
}
