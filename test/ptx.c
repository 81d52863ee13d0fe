/* ptx.c -- what the PTX writer prints: which kernels, texts that stay as they are, and that ptxas takes all of it. */
#include <stdlib.h>
#include <unistd.h>
#include "assembling.h"
#include "backend/cuda/ptx.h"
#include "base/mem.h"
#include "kernels.h"
#include "test.h"

/* Products under contention: the stored pattern decides when an update is done, so that NaN ends the loop. */
static const char scatter_prod[] =
  "kernel scatter_prod {\n"
  "  size N, S\n"
  "  in idx:i64[N], v:f32[N]\n"
  "  inout y:f32[S]\n"
  "  par q in blocks(N, 4096) private y mul {\n"
  "    lane i in block q { k = load idx[i]; check and(le(0, k), lt(k, S)) at i of k; store y[k] mul = load v[i] }\n"
  "  }\n"
  "}\n";

/* Last axes contiguous, all others any. */
static struct shape_class usual_shape(const struct kir_kernel *k) {
  struct shape_class s;
  memset(&s, 0, sizeof s);
  memset(s.stride, STRIDE_ANY, sizeof s.stride);
  for (int b = 0; b < k->n_bufs; b++)
    if (k->bufs[b].rank) s.stride[b][k->bufs[b].rank - 1] = STRIDE_1;
  return s;
}

static bool is_ready(struct kir_kernel *k) {
  const char *wrong = kir_verify(k);
  if (wrong) test_fail(__FILE__, __LINE__, "%s: %s", k->name, wrong);
  return !wrong && kir_legalise(k);
}

static bool print(struct kir_kernel *k, struct text *out, struct ptx_plan *plan, const char **why) {
  struct shape_class shape = usual_shape(k);
  return is_ready(k) && ptx_print(k, &shape, 80, out, plan, why);
}

static struct kir_kernel *parse_one(const char *text) {
  struct kir_kernel *k = NULL;
  struct text why = { 0 };
  int n = kir_parse(text, &k, 1, &why);
  if (n != 1) test_fail(__FILE__, __LINE__, "%s: %s", text, text_of(&why));
  text_free(&why);
  return n == 1 ? k : NULL;
}

/* ---- Which kernels ------------------------------------------------------------------------------------------------------ */

static const struct { const char *name, *why; } refused[] = {
  { "scatter_private_bf16", "private copies of a narrow dtype" },
  { "row_sum_beside", "a fold of rows along a serial loop" },
  { "col_sum_across", "a fold of columns along lanes" },
};

static const char *refusal(const char *name) {
  for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
    if (!strcmp(refused[i].name, name)) return refused[i].why;
  return NULL;
}

static void expect_printed(struct kir_kernel *k) {
  struct text out = { 0 };
  struct ptx_plan plan;
  const char *why = "nothing", *want = refusal(k->name);
  bool is_printed = print(k, &out, &plan, &why);
  if (is_printed && want) test_fail(__FILE__, __LINE__, "%s is printed, though it should not", k->name);
  if (!is_printed && !want) test_fail(__FILE__, __LINE__, "%s is not printed: %s", k->name, why);
  if (!is_printed && want) EXPECT_TEXT(why, want);
  if (is_printed) ptx_plan_free(&plan);
  text_free(&out);
}

TEST(ptx_of_every_kernel_but_the_listed_ones_is_printed) {
  struct kir_kernel *all[TEST_KERNELS_MAX];
  int n = test_kernels(all);
  EXPECT(n >= 59);
  for (int i = 0; i < n; i++) {
    expect_printed(all[i]);
    kir_free(all[i]);
  }
}

TEST(ptx_refuses_a_plain_store_where_the_last_lane_must_win) {
  struct kir_kernel *k = parse_one("kernel last { size N, S in idx:i64[N], v:f32[N] inout y:f32[S]\n"
                                   "  lane i in N { k = load idx[i] store y[k] = load v[i] } }");
  struct text out = { 0 };
  struct ptx_plan plan;
  const char *why = "";
  if (!k) return;
  EXPECT(!print(k, &out, &plan, &why));
  EXPECT_TEXT(why, "a plain store through a loaded index: which of several lanes is last");
  text_free(&out);
  kir_free(k);
}

static void expect_exact_words(struct kir_kernel *k) {
  static const char *const never[] = { ".ftz", ".approx", "ex2.", "lg2.", "tanh.", "mad.rn", "e+", "nan,", "inf," };
  static const char *const corrected[] = { "rcp.approx.ftz.f32", "rcp.approx.ftz.f64" }; /* of what is the nearest in the end */
  struct text out = { 0 };
  struct ptx_plan plan;
  const char *why = "";
  if (!print(k, &out, &plan, &why)) return;
  char *code = strdup(strstr(text_of(&out), ".version"));
  for (int i = 0; i < 2; i++)
    for (char *at = code; (at = strstr(at, corrected[i])); ) memset(at, ' ', strlen(corrected[i]));
  for (size_t i = 0; i < sizeof never / sizeof *never; i++)
    if (strstr(code, never[i])) test_fail(__FILE__, __LINE__, "%s: %s", k->name, never[i]);
  free(code);
  ptx_plan_free(&plan);
  text_free(&out);
}

TEST(ptx_flushes_approximates_and_contracts_nothing) {
  struct kir_kernel *all[TEST_KERNELS_MAX];
  int n = test_kernels(all);
  for (int i = 0; i < n; i++) {
    expect_exact_words(all[i]);
    kir_free(all[i]);
  }
}

/* ---- ptxas -------------------------------------------------------------------------------------------------------------- */

static void add_kernel(struct assembling *a, struct kir_kernel *k) {
  struct text out = { 0 };
  struct ptx_plan plan;
  const char *why = "";
  if (!print(k, &out, &plan, &why)) {
    if (!refusal(k->name)) test_fail(__FILE__, __LINE__, "%s: %s", k->name, why);
    text_free(&out);
    return;
  }
  assembling_add(a, k->name, text_of(&out), (int)strlen(text_of(&out)));
  ptx_plan_free(&plan);
  text_free(&out);
}

TEST(ptx_of_every_kernel_is_assembled) {
  struct kir_kernel *all[TEST_KERNELS_MAX];
  struct assembling a;
  int n = test_kernels(all);
  bool is_here = assembling_begin(&a);
  for (int i = 0; i < n; i++) {
    if (is_here) add_kernel(&a, all[i]);
    kir_free(all[i]);
  }
  if (is_here) assembling_end(&a, "-O0 -arch=sm_90");
}

static const char *const registers[] = { "bool", "i32", "u32", "i64", "u64", "f32", "f64" };
static const char *const memories[] = { "bool", "u8", "i8", "u16", "i16", "i32", "u32", "i64", "u64", "f16", "bf16", "f32", "f64" };
enum { REGISTERS = sizeof registers / sizeof *registers, MEMORIES = sizeof memories / sizeof *memories };

static bool is_of_class(char cls, const char *dtype) {
  bool is_float = dtype[0] == 'f', is_bool = dtype[0] == 'b';
  switch (cls) {
  case 'F': return is_float;
  case 'I': return !is_float && !is_bool;
  case 'N': return !is_bool;
  case 'B': return !is_float;
  default: return true;
  }
}

static void add_text(struct assembling *a, struct text *t) {
  struct kir_kernel *k = parse_one(text_of(t));
  if (k) add_kernel(a, k);
  kir_free(k);
  text_free(t);
}

/* y = op(a, b, c), all dtypes in one kernel */
static void add_instruction(struct assembling *a, const struct kir_row *row) {
  struct text t = { 0 }, body = { 0 };
  text_addf(&t, "kernel %s_all { size N ", row->name);
  for (int d = 0; d < REGISTERS; d++) {
    const char *dtype = registers[d];
    if (!is_of_class(row->cls, dtype)) continue;
    text_addf(&body, "  store y_%s[i] = %s(", dtype, row->name);
    for (int i = 0; row->operands[i]; i++) {
      text_addf(&t, "in %c_%s:%s[N] ", 'a' + i, dtype, row->operands[i] == 'b' ? "bool" : dtype);
      text_addf(&body, "%sload %c_%s[i]", i ? ", " : "", 'a' + i, dtype);
    }
    text_addf(&t, "out y_%s:%s[N] ", dtype, row->result == 'b' ? "bool" : dtype);
    text_add(&body, ")\n");
  }
  text_addf(&t, "\nlane i in N {\n%s} }", text_of(&body));
  text_free(&body);
  add_text(a, &t);
}

static void add_casts(struct assembling *a, const char *from) {
  struct text t = { 0 };
  text_addf(&t, "kernel casts_of_%s { size N in a:%s[N] ", from, from);
  for (int m = 0; m < MEMORIES; m++) text_addf(&t, "out y_%s:%s[N] ", memories[m], memories[m]);
  text_add(&t, "\nlane i in N {\n  v = load a[i]\n");
  for (int m = 0; m < MEMORIES; m++) text_addf(&t, "  store y_%s[i] = cast.%s(v)\n", memories[m], memories[m]);
  text_add(&t, "} }");
  add_text(a, &t);
}

/* Scattered, private, folded and running: one kernel each. */
static void add_combiner(struct assembling *a, const char *op, const char *d) {
  struct text t = { 0 };
  text_addf(&t, "kernel scatter_%s_%s { size N, S in idx:i64[N], v:%s[N] inout y:%s[S]\n"
                "  lane i in N { k = load idx[i] store y[k] %s = load v[i] } }", op, d, d, d, op);
  add_text(a, &t);
  text_addf(&t, "kernel private_%s_%s { size N, S in idx:i64[N], v:%s[N] out y:%s[S]\n"
                "  par q in blocks(N, 64) private y %s { lane i in block q {\n"
                "    k = load idx[i] store y[k] %s = load v[i] } } }", op, d, d, d, op, op);
  add_text(a, &t);
  text_addf(&t, "kernel fold_%s_%s { size R, C in x:%s[R,C] out y:%s[R], z:%s[R,C]\n"
                "  par r in R { lane c in C { a = load x[r,c] s = fold %s(a) p = prefix %s(a) store z[r,c] = p }\n"
                "    store y[r] = s } }", op, d, d, d, d, op, op);
  add_text(a, &t);
}

static void add_instructions(struct assembling *a, char level) {
  for (int op = 0; op < KIR_CAST; op++)
    if (kir_rows[op].level == level) add_instruction(a, &kir_rows[op]);
}

TEST(ptx_of_every_core_instruction_and_cast_on_every_dtype_is_assembled) {
  struct assembling a;
  test_watchdog(240); /* some hundred processes of ptxas, if it refuses one */
  if (!assembling_begin(&a)) return;
  add_instructions(&a, 'C');
  for (int m = 0; m < MEMORIES; m++) add_casts(&a, memories[m]);
  assembling_end(&a, "-O0 -arch=sm_90");
}

/* An expanded instruction is core instructions, up to 30,000 lines of them: ptxas looks at each, its operands and its types, and leaves
 * it at that (so it understands compute_90), as machine code for all would take ten times as long as the rest of this file. */
TEST(ptx_of_every_expanded_instruction_on_every_dtype_is_taken) {
  struct assembling a;
  test_watchdog(240);
  if (!assembling_begin(&a)) return;
  add_instructions(&a, 'E');
  assembling_end(&a, "-arch=compute_90");
}

TEST(ptx_of_every_combiner_on_every_dtype_is_assembled) {
  static const char *const combiners[] = { "add", "mul", "min", "max", "and", "or", "xor" };
  struct assembling a;
  if (!assembling_begin(&a)) return;
  for (int c = 0; c < 7; c++)
    for (int d = 0; d < REGISTERS; d++)
      if (is_of_class(c < 4 ? 'N' : 'B', registers[d])) add_combiner(&a, combiners[c], registers[d]);
  assembling_end(&a, "-O0 -arch=sm_90");
}

/* ---- Golden texts ------------------------------------------------------------------------------------------------------- */

static void compare_golden(const char *name, const char *text) {
  char path[1024], *want = calloc(1, 1 << 18);
  snprintf(path, sizeof path, TEST_FOLDER "/golden/%s.ptx", name);
  const char *mode = getenv("WEFT_GOLDEN");
  bool writes = mode && !strcmp(mode, "write");
  FILE *f = fopen(path, writes ? "w" : "r");
  if (f && writes) fputs(text, f);
  size_t n = f && !writes ? fread(want, 1, (1 << 18) - 1, f) : 0;
  if (f) fclose(f);
  if (!writes && (strlen(text) != n || memcmp(text, want, n)))
    test_fail(__FILE__, __LINE__, "%s differs from what is printed; WEFT_GOLDEN=write replaces it", path);
  free(want);
}

static void expect_golden(struct kir_kernel *k) {
  struct text out = { 0 };
  struct ptx_plan plan;
  const char *why = "";
  if (!k) return;
  bool is_printed = print(k, &out, &plan, &why);
  EXPECT(is_printed);
  if (is_printed) compare_golden(k->name, text_of(&out));
  if (is_printed) ptx_plan_free(&plan);
  text_free(&out);
  kir_free(k);
}

TEST(ptx_of_softmax_is_the_golden_one) { expect_golden(test_kernel("softmax")); }
TEST(ptx_of_layer_norm_is_the_golden_one) { expect_golden(test_kernel("layer_norm")); }
TEST(ptx_of_a_nan_constant_is_the_golden_one) { expect_golden(test_kernel("where_const")); }
TEST(ptx_of_a_scatter_of_products_is_the_golden_one) { expect_golden(parse_one(scatter_prod)); }

/* Of four lanes of a thread eight numbers are neighbours. */
TEST(ptx_of_stores_by_turns_stores_16_bytes_at_a_time) {
  static const char *const texts[] = { "y[2*i] = %1 store y[2*i+1] = %2", "y[3*i] = %1 store y[3*i+1] = %2", "y[2*i+1] = %1 store y[2*i] = %2" };
  for (int n = 0; n < 3; n++) {
    struct text t = { 0 }, out = { 0 };
    struct ptx_plan plan;
    const char *why = "";
    text_addf(&t, "kernel turns { size N in x:f32[N] out y:f32[3*N] lane i in N { %%1 = load x[i] %%2 = neg(%%1) store %s } }", texts[n]);
    struct kir_kernel *k = parse_one(text_of(&t));
    bool is_printed = k && print(k, &out, &plan, &why);
    EXPECT(is_printed);
    if (is_printed) EXPECT(!!strstr(text_of(&out), "st.global.v4.b32") == (n == 0));
    if (is_printed) ptx_plan_free(&plan);
    text_free(&t), text_free(&out);
    kir_free(k);
  }
}

/* ---- Launches ----------------------------------------------------------------------------------------------------------- */

static const struct ptx_machine h200 = { 132, 227 << 10 };

static struct ptx_shape shape_of(struct kir_kernel *k, const int64_t sizes[], struct arena *a) {
  struct text out = { 0 };
  struct ptx_plan plan;
  struct ptx_shape s = { 0 };
  const char *why = "";
  uint64_t args[8] = { 0 };
  if (print(k, &out, &plan, &why)) {
    EXPECT(ptx_shape(&plan, &h200, sizes, args, a, &s));
    ptx_plan_free(&plan);
  } else {
    test_fail(__FILE__, __LINE__, "%s: %s", k->name, why);
  }
  text_free(&out);
  return s;
}

TEST(ptx_rows_lie_in_shared_memory_until_they_are_too_long) {
  struct arena *a = arena_new();
  struct kir_kernel *k = test_kernel("softmax"), *again = test_kernel("softmax");
  struct ptx_shape fits = shape_of(k, (int64_t[]){ 8192, 4096 }, a), long_one = shape_of(again, (int64_t[]){ 8192, 1 << 20 }, a);
  EXPECT_INT(fits.shared_bytes, (4096 * 4 + 3 * 4 + 15) / 16 * 16); /* exp(x - m) has the memory of x; rows that are not aligned are shifted */
  EXPECT_INT(fits.scratch_bytes, 0);
  EXPECT_INT(fits.grid[0], 8192);
  EXPECT_INT(long_one.shared_bytes, 0);
  EXPECT_INT(long_one.row_bytes, ((4 << 20) + 3 * 4 + 15) / 16 * 16);
  EXPECT_INT(long_one.scratch_bytes, long_one.row_bytes * long_one.grid[0]);
  kir_free(k);
  kir_free(again);
  arena_free(a);
}

/* Matrices of a batch belong to blocks of threads of their own, however many axes the batch has. */
TEST(ptx_matrices_of_a_batch_have_tiles_of_their_own) {
  static const char text[] =
    "kernel heads {\n"
    "  size A, B, C, D, K\n"
    "  in x:f32[A,B,C,K], z:f32[A,B,K,D]\n"
    "  out y:f32[A,B,C,D]\n"
    "  par a in A { par b in B { par c in C { lane d in D {\n"
    "    serial k in K {\n"
    "      carry u = 0f00000000\n"
    "      %1 = load x[a,b,c,k]\n"
    "      %2 = load z[a,b,k,d]\n"
    "      %3 = fma(%1, %2, u)\n"
    "      next u = %3\n"
    "    }\n"
    "    store y[a,b,c,d] = u\n"
    "  } } } }\n"
    "}\n";
  static const int64_t sizes[][5] = { { 8, 16, 64, 64, 64 }, { 2, 1000, 56, 33, 9 }, { 1, 7, 40, 64, 1000 }, { 0, 5, 64, 64, 64 },
                                      { 1 << 20, 1 << 20, 64, 64, 4 } };
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    struct arena *a = arena_new();
    const int64_t *n = sizes[i], batch = n[0] > 1000 ? 65535 : n[0] ? n[0] * n[1] : n[1];
    struct kir_kernel *k = parse_one(text);
    struct ptx_shape s = shape_of(k, n, a);
    EXPECT(s.is_product);
    EXPECT_INT(s.grid[2], batch);
    kir_free(k);
    arena_free(a);
  }
}

/* The launch of a kernel from x0 to y0 on rows that begin `row` elements apart. */
static struct ptx_shape wide_shape_of(struct kir_kernel *k, int64_t rows, int64_t n, int64_t row) {
  struct text out = { 0 };
  struct ptx_plan plan;
  struct ptx_shape s = { 0 };
  struct arena *a = arena_new();
  struct bound bufs[] = { { (void *)4096, { row, 1 } }, { (void *)8192, { row, 1 } } };
  const char *why = "";
  uint64_t args[8] = { 0 };
  if (print(k, &out, &plan, &why)) {
    EXPECT(ptx_shape(&plan, &h200, (int64_t[]){ rows, n }, args, a, &s));
    ptx_wide_shape(&plan, &h200, (int64_t[]){ rows, n }, args, bufs, &s);
    ptx_plan_free(&plan);
  } else {
    test_fail(__FILE__, __LINE__, "%s: %s", k->name, why);
  }
  text_free(&out), arena_free(a), kir_free(k);
  return s;
}

static struct kir_kernel *softmax_of(const char *dtype) {
  struct text t = { 0 };
  text_addf(&t, "kernel soft { size R, C in x:%s[R,C] out y:%s[R,C] par r in R { lane c in C { %%1 = load x[r,c] %%2 = fold max(%%1) keep %%1 }\n"
                "lane c in C { %%3 = sub(%%1, %%2) %%4 = exp(%%3) %%5 = fold add(%%4) keep %%4 }\n"
                "lane c in C { %%6 = div(%%4, %%5) store y[r,c] = %%6 } } }", dtype, dtype);
  struct kir_kernel *k = parse_one(text_of(&t));
  text_free(&t);
  return k;
}

static struct kir_kernel *shares_of_rows(void) { /* whose exponentials are summed, and not kept */
  return parse_one("kernel shares { size R, C in x:f32[R,C] out y:f32[R] par r in R { lane c in C { %1 = load x[r,c] %2 = fold max(%1) keep %1 }\n"
                   "lane c in C { %3 = sub(%1, %2) %4 = exp(%3) %5 = fold add(%4) } store y[r] = %5 } }");
}

TEST(ptx_rows_of_odd_lengths_go_by_16_bytes_but_for_their_ends) {
  EXPECT(wide_shape_of(softmax_of("f32"), 2048, 50257, 50257).is_shifted);
  EXPECT(wide_shape_of(softmax_of("bf16"), 2048, 50257, 50257).is_shifted);
  EXPECT(wide_shape_of(softmax_of("f16"), 2048, 4095, 4095).is_shifted);
  EXPECT(!wide_shape_of(softmax_of("bf16"), 2048, 50256, 50256).is_shifted);
  EXPECT(wide_shape_of(shares_of_rows(), 2048, 50257, 50257).is_shifted);
  EXPECT(!wide_shape_of(shares_of_rows(), 2048, 4095, 4095).is_wide); /* one warp would compute all exponentials once more */
}

/* The launch of y = a - b, [rows, n] each, of which b begins so many bytes behind a; row: elements from a row of b to the next. */
static struct ptx_shape difference_of(int64_t n, int64_t apart, int64_t row) {
  struct kir_kernel *k = parse_one("kernel less { size R, C in a:f32[R,C], b:f32[R,C] out y:f32[R,C] par r in R { lane c in C { %1 = load a[r,c] "
                                   "%2 = load b[r,c] %3 = sub(%1, %2) store y[r,c] = %3 } } }");
  struct text out = { 0 };
  struct ptx_plan plan;
  struct ptx_shape s = { 0 };
  struct arena *a = arena_new();
  struct bound bufs[] = { { (void *)((uintptr_t)1 << 30), { n, 1 } }, { (void *)(((uintptr_t)1 << 30) + (uintptr_t)apart), { row, 1 } },
                          { (void *)((uintptr_t)1 << 40), { n, 1 } } };
  const char *why = "";
  if (print(k, &out, &plan, &why)) {
    EXPECT(ptx_shape(&plan, &h200, (int64_t[]){ 8000, n }, NULL, a, &s));
    ptx_tall_shape(&plan, &h200, (int64_t[]){ 8000, n }, NULL, bufs, &s);
    ptx_wide_shape(&plan, &h200, (int64_t[]){ 8000, n }, NULL, bufs, &s);
    ptx_plan_free(&plan);
  } else {
    test_fail(__FILE__, __LINE__, "%s", why);
  }
  text_free(&out), arena_free(a), kir_free(k);
  EXPECT((int64_t)s.grid[1] * s.block[1] >= 8000);
  return s;
}

TEST(ptx_blocks_of_threads_are_rows_high_where_rows_are_read_again) {
  enum { N = 8190, ROW = 4 * N };
  static const int64_t tall[] = { ROW, -ROW, 2 * ROW, -2 * ROW + 4, ROW - 4, 8 * ROW }, others[] = { 0, 4, -8, 1000, ROW / 3, 9 * ROW, 1 << 29 };
  for (size_t i = 0; i < sizeof tall / sizeof *tall; i++) {
    struct ptx_shape s = difference_of(N, tall[i], N);
    EXPECT(s.block[0] == 32 && s.block[1] == 8 && s.is_wide == (tall[i] % 16 == 0)); /* all begin alike then, and go by 16 bytes */
  }
  for (size_t i = 0; i < sizeof others / sizeof *others; i++) EXPECT_INT(difference_of(N, others[i], N).block[1], 1);
  EXPECT_INT(difference_of(N, ROW, N + 1).block[1], 1); /* of another pitch: another array */
  EXPECT_INT(difference_of(N, ROW, -N).block[1], 1);
  EXPECT_INT(difference_of(N, ROW, 0).block[1], 1);
  struct ptx_shape s = difference_of(8192, 4 * 8192, 8192);
  EXPECT(s.block[0] == 32 && s.block[1] == 8 && s.is_wide);
}

/* Of a kernel whose x is apart by so much. */
static bool takes_neighbours(int64_t by) {
  struct kir_kernel *k = parse_one("kernel twice { size N in x:f32[N] out y:f32[N] lane i in N { %1 = load x[i] %2 = add(%1, %1) store y[i] = %2 } }");
  struct shape_class class = usual_shape(k);
  struct text out = { 0 };
  struct ptx_plan plan;
  struct ptx_shape s = { 0 };
  struct arena *a = arena_new();
  struct bound bufs[] = { { (void *)4096, { by } }, { (void *)8192, { 1 } } };
  const char *why = "";
  uint64_t args[8] = { 0 };
  class.stride[0][0] = STRIDE_ANY;
  bool is_printed = is_ready(k) && ptx_print(k, &class, 80, &out, &plan, &why);
  EXPECT(is_printed);
  if (is_printed) EXPECT(ptx_shape(&plan, &h200, (int64_t[]){ 1 << 20 }, args, a, &s));
  if (is_printed) ptx_wide_shape(&plan, &h200, (int64_t[]){ 1 << 20 }, args, bufs, &s), ptx_plan_free(&plan);
  text_free(&out), arena_free(a), kir_free(k);
  return s.is_wide;
}

TEST(ptx_lanes_a_few_bytes_apart_take_an_element_each) {
  EXPECT(!takes_neighbours(2));
  EXPECT(!takes_neighbours(-4));
  EXPECT(takes_neighbours(5));
  EXPECT(takes_neighbours(4096));
}

/* Whichever of the loops is the long one, there are as many threads as elements, or enough for all processors. */
TEST(ptx_loops_inside_each_other_share_the_rows_of_the_grid) {
  static const char text[] =
    "kernel turned {\n"
    "  size A, B, C, D\n"
    "  in x:f32[A,B,C,D]\n"
    "  out y:f32[A,B,C,D]\n"
    "  par a in A { par b in B { par c in C { lane d in D {\n"
    "    %1 = load x[a,b,c,d]\n"
    "    store y[a,b,c,d] = %1\n"
    "  } } } }\n"
    "}\n";
  static const int64_t sizes[][4] = { { 8, 16, 4096, 64 }, { 4096, 16, 8, 64 }, { 1, 65536, 1, 64 }, { 2, 2, 1 << 20, 4 },
                                      { 1 << 20, 2, 2, 1 }, { 3, 5, 7, 2 }, { 0, 1 << 30, 1 << 30, 9 } };
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    struct arena *a = arena_new();
    const int64_t *n = sizes[i];
    struct kir_kernel *k = parse_one(text);
    struct ptx_shape s = shape_of(k, n, a);
    int64_t threads = 1, enough = 132 * 1024;
    for (int axis = 0; axis < 3; axis++) threads *= (int64_t)s.grid[axis] * s.block[axis];
    if (n[0] * n[1] * n[2] * n[3] < enough) enough = n[0] * n[1] * n[2] * n[3];
    EXPECT(threads >= enough);
    kir_free(k);
    arena_free(a);
  }
}

/* The launch of a kernel of rows x [..] -> y, dense; row: of so many elements, many of them, 0: few; begin: bytes from where x would be
 * aligned. */
static struct ptx_shape launch_of(const char *text, int64_t row, const int64_t sizes[], int begin) {
  struct kir_kernel *k = parse_one(text);
  struct shape_class shape = usual_shape(k);
  struct text out = { 0 };
  struct arena *a = arena_new();
  struct ptx_plan plan;
  struct ptx_shape s = { 0 };
  const char *why = "";
  struct bound bufs[2] = { { .data = (void *)(uintptr_t)(4096 + begin) }, { .data = (void *)(uintptr_t)4096 } };
  shape_of_short_rows(&shape, row);
  if (is_ready(k) && ptx_print(k, &shape, 80, &out, &plan, &why)) {
    for (int b = 0; b < 2; b++) {
      int64_t stride = 1;
      for (int d = plan.bufs[b].rank - 1; d >= 0; stride *= ptx_size(&plan.bufs[b].dims[d--], sizes, NULL)) bufs[b].stride[d] = stride;
    }
    EXPECT(ptx_shape(&plan, &h200, sizes, NULL, a, &s));
    ptx_wide_shape(&plan, &h200, sizes, NULL, bufs, &s);
    s.row_at = NULL;
    ptx_plan_free(&plan);
  } else {
    test_fail(__FILE__, __LINE__, "%s", why);
  }
  text_free(&out);
  kir_free(k);
  arena_free(a);
  return s;
}

/* Whatever is folded, and however rows stand: no warp is one row's if there are many. */
TEST(ptx_many_short_rows_share_warps) {
  static const char *const folds[] = { "m = fold max(a)\n } store y[r] = m", "m = fold add(a)\n } store y[r] = m", "is = ne(a, a)\n m = fold or(is)\n } store z[r] = m",
                                       "m = fold max(a)\n keep a\n } lane c in C { d = sub(a, m)\n s = fold add(d)\n } store y[r] = s" };
  static const int64_t lengths[] = { 2, 3, 4, 8, 16, 31, 64, 100, 256 };
  for (size_t f = 0; f < sizeof folds / sizeof *folds; f++)
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
      for (int begin = 0; begin <= 4; begin += 4) {
        char text[400];
        snprintf(text, sizeof text, "kernel rows {\n size R, C\n in x:f32[R,C]\n out %s[R]\n par r in R {\n lane c in C {\n a = load x[r,c]\n %s\n }\n}\n",
                 f == 2 ? "z:bool" : "y:f32", folds[f]);
        struct ptx_shape many = launch_of(text, lengths[i], (int64_t[]){ 1 << 17, lengths[i] }, begin);
        struct ptx_shape few = launch_of(text, 0, (int64_t[]){ 1000, lengths[i] }, begin);
        unsigned threads = many.block[0] * many.block[1], rows = ((1 << 17) + many.grid[0] - 1) / many.grid[0];
        EXPECT(threads >= 128 && rows >= threads / 8 && rows * lengths[i] >= threads);
        EXPECT_INT(few.is_short, false);
      }
}

TEST(ptx_windows_of_an_image_are_a_thread_each) {
  static const char text[] =
    "kernel pool {\n"
    "  size A, B, C, D\n"
    "  in x:f32[A,B,C,D]\n"
    "  out y:f32[A,C]\n"
    "  par a in A { par c in C {\n"
    "    serial b in B {\n"
    "      lane d in D { v = load x[a,b,c,d]; row = fold add(v) }\n"
    "      sum = fold add(row)\n"
    "    }\n"
    "    store y[a,c] = sum\n"
    "  } }\n"
    "}\n";
  struct ptx_shape s = launch_of(text, 2, (int64_t[]){ 114688, 2, 56, 2 }, 0);
  EXPECT_INT(s.block[0] * s.block[1], 128);
  EXPECT_INT(s.grid[0], 114688 * 56 / 128);
}

/* A predicate is no memory: copies of bools are bytes, wherever they are merged. */
TEST(ptx_private_bools_are_bytes_in_memory) {
  static const char text[] =
    "kernel all_beside_sum {\n"
    "  size R, C\n"
    "  in x:f32[R,C]\n"
    "  out y0:bool[], y1:f32[]\n"
    "  par q in blocks(R, 128) private y0 and, y1 add {\n"
    "    serial r in block q {\n"
    "      lane c in C { a = load x[r,c]; b = fold and(ne(a, a)); m = fold add(a) }\n"
    "      store y0[] and = b\n"
    "      store y1[] add = m\n"
    "    }\n"
    "  }\n"
    "}\n";
  struct kir_kernel *k = parse_one(text);
  struct text out = { 0 };
  struct ptx_plan plan;
  const char *why = NULL;
  if (!k) return;
  if (print(k, &out, &plan, &why)) ptx_plan_free(&plan);
  else test_fail(__FILE__, __LINE__, "%s", why ? why : "not printed");
  const char *const wrong[] = { "ld.local.pred", "st.local.pred", "ld.shared.pred", "st.shared.pred" };
  for (int i = 0; i < 4; i++) EXPECT(!strstr(text_of(&out), wrong[i]));
  EXPECT(strstr(text_of(&out), "merged") != NULL);
  text_free(&out);
  kir_free(k);
}

/* Combined in any order or not: threads of blocks of 128 rows store what they have found, and an entry behind combines it. */
TEST(ptx_extremes_of_columns_are_merged_as_sums_are) {
  static const char *const combiners[] = { "add", "mul", "max" };
  for (int i = 0; i < 3; i++) {
    char text[512];
    snprintf(text, sizeof text, "kernel columns {\n  size R, C\n  in x:f32[R,C]\n  out y:f32[C]\n"
             "  par q in blocks(R, 128) private y %s {\n"
             "    lane c in C { serial r in block q { a = load x[r,c]; b = fold %s(a) } store y[c] %s = b }\n"
             "  }\n}\n", combiners[i], combiners[i], combiners[i]);
    struct arena *a = arena_new();
    struct kir_kernel *k = parse_one(text);
    struct ptx_shape s = shape_of(k, (int64_t[]){ 1 << 20, 8 }, a);
    EXPECT_INT(s.copies_bytes, 8192 * 32);
    EXPECT_INT(s.shared_bytes, 0);
    EXPECT_INT((int64_t)s.grid[0] * s.grid[1] * s.block[0] * s.block[1], 8192 * 8);
    EXPECT_INT(s.merge_block[0], 8);
    kir_free(k);
    arena_free(a);
  }
}

TEST(ptx_copies_of_private_outputs_are_left_out_where_they_do_not_fit) {
  struct arena *a = arena_new();
  struct kir_kernel *k = parse_one(scatter_prod), *again = parse_one(scatter_prod);
  struct ptx_shape few = shape_of(k, (int64_t[]){ 1 << 24, 1024 }, a), many = shape_of(again, (int64_t[]){ 1 << 24, 1 << 20 }, a);
  EXPECT_INT(few.row_at[0], 0);
  EXPECT_INT(few.sets, 32); /* of 4096 bytes: one block of threads has them for itself */
  EXPECT_INT(few.shared_bytes, 32 * 4096);
  EXPECT_INT(few.block[0], 1024);
  EXPECT(few.grid[0] <= 132);
  EXPECT_INT(many.row_at[0], -1);
  EXPECT_INT(many.shared_bytes, 0);
  kir_free(k);
  kir_free(again);
  arena_free(a);
}

TEST(ptx_grids_of_empty_and_of_huge_kernels_are_legal) {
  struct arena *a = arena_new();
  static const int64_t rows[] = { 0, 1, 3, 70000, INT64_C(1) << 33 };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    for (int axis = 0; axis < 2; axis++) {
      struct kir_kernel *k = test_kernel("muladd");
      struct ptx_shape s = shape_of(k, (int64_t[]){ axis ? 5 : rows[i], axis ? rows[i] : 5 }, a);
      EXPECT(s.grid[0] >= 1 && s.grid[1] >= 1 && s.grid[1] <= 65535 && s.grid[2] == 1);
      EXPECT(s.block[0] * s.block[1] >= 1 && s.block[0] * s.block[1] <= 256);
      kir_free(k);
    }
  arena_free(a);
}

/* ---- Out of memory ------------------------------------------------------------------------------------------------------ */

static void print_with_failures(struct kir_kernel *k) {
  struct shape_class shape = usual_shape(k);
  shape_of_short_rows(&shape, 20);
  bool done = false;
  for (int64_t n = 1; !done && n < 100000; n++) {
    struct text out = { 0 };
    struct ptx_plan plan;
    const char *why = "nothing";
    int64_t live = mem_live();
    mem_fail_at(n, 0);
    done = ptx_print(k, &shape, 80, &out, &plan, &why);
    mem_fail_at(0, 0);
    if (done) ptx_plan_free(&plan);
    else EXPECT_TEXT(why, "");
    text_free(&out);
    EXPECT_INT(mem_live(), live);
  }
  EXPECT(done);
}

TEST(ptx_printing_survives_every_failed_allocation) {
  static const char *const names[] = { "muladd", "layer_norm_grad", "linear_scan", "scatter_winner", "while_shared" };
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    struct kir_kernel *k = test_kernel(names[i]);
    if (k && is_ready(k)) print_with_failures(k);
    kir_free(k);
  }
}
