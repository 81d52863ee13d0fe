/* Kernels as text: what is printed, what is read, what is refused and where. */
#include "kernels.h"
#include <time.h>
#include "base/mem.h"

static char *print(const struct kir_kernel *k) { /* to be freed */
  struct text t = { 0 };
  kir_print(k, &t);
  EXPECT(!t.failed);
  return t.s;
}

static struct kir_kernel *parse(const char *s) {
  struct text why = { 0 };
  struct kir_kernel *k = NULL;
  if (kir_parse(s, &k, 1, &why) != 1) test_fail(__FILE__, __LINE__, "%s in:\n%s", text_of(&why), s);
  text_free(&why);
  return k;
}

TEST(printed_kernels_read_back_to_the_same_text) {
  struct kir_kernel *k[TEST_KERNELS_MAX];
  int n = test_kernels(k);
  EXPECT_INT(n, 62);
  for (int i = 0; i < n; i++) {
    char *first = print(k[i]);
    struct kir_kernel *again = parse(first);
    if (!again) return;
    char *second = print(again);
    EXPECT_TEXT(second, first);
    EXPECT(!kir_verify(again));
    kir_free(k[i]);
    kir_free(again);
    mem_free(first);
    mem_free(second);
  }
}

TEST(legalised_kernels_read_back_to_the_same_text) {
  struct kir_kernel *k[TEST_KERNELS_MAX];
  int n = test_kernels(k);
  for (int i = 0; i < n; i++) {
    EXPECT(kir_legalise(k[i]));
    char *first = print(k[i]);
    struct kir_kernel *again = parse(first);
    if (!again) return;
    char *second = print(again);
    EXPECT_TEXT(second, first);
    kir_free(k[i]);
    kir_free(again);
    mem_free(first);
    mem_free(second);
  }
}

static const char softmax[] =
  "kernel softmax {\n"
  "  size R, C\n"
  "  in x:f32[R,C]\n"
  "  out y:f32[R,C]\n"
  "  par r in R {\n"
  "    lane c in C {\n"
  "      a = load x[r,c]\n"
  "      keep a\n"
  "      m = fold max(a)\n"
  "    }\n"
  "    lane c in C {\n"
  "      %1 = sub(a, m)\n"
  "      e = exp(%1)\n"
  "      keep e\n"
  "      s = fold add(e)\n"
  "    }\n"
  "    lane c in C {\n"
  "      %2 = div(e, s)\n"
  "      store y[r,c] = %2\n"
  "    }\n"
  "  }\n"
  "}\n";

static struct kir_kernel *build_softmax(void) {
  struct kir_kernel *k = kir_new("softmax");
  struct kir_builder b;
  if (!k) return NULL;
  kir_begin(&b, k);
  struct kir_lin R = kir_lin_val(k, kir_size(k, "R")), C = kir_lin_val(k, kir_size(k, "C"));
  int x = kir_buf(k, "x", KIR_IN, WEFT_F32, 2, (struct kir_lin[]){ R, C });
  int y = kir_buf(k, "y", KIR_OUT, WEFT_F32, 2, (struct kir_lin[]){ R, C });
  struct kir_lin r = kir_lin_val(k, kir_loop(&b, KIR_PAR, "r", R));
  struct kir_lin c = kir_lin_val(k, kir_loop(&b, KIR_LANE, "c", C));
  int a = kir_load(&b, x, (struct kir_lin[]){ r, c });
  kir_name(k, a, "a");
  kir_keep(&b, a);
  int m = kir_fold(&b, KIR_MAX, KIR_PLAIN, a);
  kir_name(k, m, "m");
  kir_end(&b);
  kir_loop(&b, KIR_LANE, "c", C);
  int e = kir_op1(&b, KIR_EXP, kir_op2(&b, KIR_SUB, a, m));
  kir_name(k, e, "e");
  kir_keep(&b, e);
  int s = kir_fold(&b, KIR_ADD, KIR_PLAIN, e);
  kir_name(k, s, "s");
  kir_end(&b);
  c = kir_lin_val(k, kir_loop(&b, KIR_LANE, "c", C));
  kir_store(&b, y, (struct kir_lin[]){ r, c }, KIR_SET, kir_op2(&b, KIR_DIV, e, s));
  kir_end(&b);
  kir_end(&b);
  return k;
}

TEST(a_built_kernel_prints_as_if_written_by_hand) {
  struct kir_kernel *k = build_softmax();
  char *s = print(k);
  EXPECT_TEXT(s, softmax);
  EXPECT(!kir_verify(k));
  mem_free(s);
  kir_free(k);
}

TEST(building_goes_on_harmlessly_when_memory_runs_out) {
  for (int sticky = 0; sticky < 2; sticky++)
    for (int n = 1, done = 0; !done; n++) {
      struct text t = { 0 };
      mem_fail_at(n, sticky);
      struct kir_kernel *k = build_softmax();
      bool was_hit = mem_count() >= n;
      mem_fail_at(0, 0);
      if (k && was_hit) {
        EXPECT(k->failed);
        EXPECT_TEXT(kir_verify(k), "out of memory");
        EXPECT(!kir_legalise(k));
        kir_print(k, &t);
        EXPECT(t.failed);
      }
      done = !was_hit;
      EXPECT(!done || (k && !k->failed));
      kir_free(k);
      text_free(&t);
    }
}

TEST(every_statement_has_its_text) {
  static const char all[] =
    "kernel all {\n"
    "  size N, B\n"
    "  arg f:f32, start:i64, stop:bool\n"
    "  table t:u32[2] = 13:u32 4294967295:u32\n"
    "  in x:f32[N,2*N+1], k:i64[N]\n"
    "  out y:f32[N]\n"
    "  inout z:f32[N]\n"
    "  fn pair(a:f32, i:i64, b:f32, j:i64) -> f32, i64 {\n"
    "    %1 = lt(i, j)\n"
    "    m = max(a, b)\n"
    "    return m, j\n"
    "  }\n"
    "  %2 = cast.i64(-5:i32)\n"
    "  %3 = bits.f64(%2)\n"
    "  par q in blocks(N, B) private y add, z max {\n"
    "    local h:f32[2,N]\n"
    "    serial i in block q {\n"
    "      carry c = 0d3ff0000000000000\n"
    "      carry n = 0\n"
    "      until stop\n"
    "      lane j in 2*N+1 {\n"
    "        g = load x[i,2*N-j] if stop else f\n"
    "        store h[1,j] = g if true\n"
    "        keep g\n"
    "        s = fold.col add(g)\n"
    "        u = prefix max(g)\n"
    "        w, v = fold.row pair(g, j) from 0fff800000, -9223372036854775808\n"
    "      }\n"
    "      %4 = load k[i]\n"
    "      check stop at %4\n"
    "      own = owns(q, %4)\n"
    "      if own {\n"
    "        store z[start+%4-1] max = s\n"
    "        %5 = add(n, 1)\n"
    "        yield p = %5 else n\n"
    "      }\n"
    "      next n = p, c = c\n"
    "      until false\n"
    "    }\n"
    "    store y[q] add = f\n"
    "  }\n"
    "}\n";
  struct kir_kernel *k = parse(all);
  if (!k) return;
  char *s = print(k);
  EXPECT_TEXT(s, all);
  mem_free(s);
  kir_free(k);
}

TEST(indices_print_in_one_order_however_they_were_made) {
  struct kir_kernel *k = kir_new("order");
  struct kir_builder b;
  kir_begin(&b, k);
  int N = kir_size(k, "N"), y = kir_buf(k, "y", KIR_OUT, WEFT_I64, 1, (struct kir_lin[]){ kir_lin_val(k, N) });
  int i = kir_loop(&b, KIR_LANE, "i", kir_lin_val(k, N));
  int late = kir_size(k, "A"); /* a size that is younger than the axis */
  struct kir_lin at = kir_lin_sub(k, kir_lin_mul(k, kir_lin_val(k, late), kir_lin_val(k, i)), kir_lin_val(k, i));
  at = kir_lin_add(k, at, kir_lin_sub(k, kir_lin_const(k, -1), kir_lin_scale(k, kir_lin_val(k, N), -2)));
  kir_store(&b, y, &at, KIR_SET, i);
  kir_end(&b);
  char *s = print(k);
  EXPECT(strstr(s, "store y[i*A+2*N-i-1] = i\n"));
  struct kir_kernel *again = parse(s);
  char *t = print(again);
  EXPECT_TEXT(t, s);
  mem_free(s), mem_free(t);
  kir_free(k), kir_free(again);
}

TEST(equal_indices_are_equal_and_cancel) {
  struct kir_kernel *k = kir_new("lin");
  struct kir_lin a = kir_lin_val(k, kir_size(k, "A")), b = kir_lin_val(k, kir_size(k, "B")), one = kir_lin_const(k, 1);
  struct kir_lin left = kir_lin_mul(k, kir_lin_add(k, a, one), kir_lin_add(k, b, one));
  struct kir_lin right = kir_lin_add(k, kir_lin_add(k, kir_lin_mul(k, b, a), a), kir_lin_add(k, one, b));
  EXPECT(kir_lin_equal(left, right));
  EXPECT_INT(kir_lin_sub(k, left, right).n, 0);
  EXPECT_INT(kir_lin_scale(k, left, 0).n, 0);
  EXPECT(!k->failed);
  kir_lin_scale(k, kir_lin_const(k, INT64_MAX), 2);
  EXPECT_TEXT(kir_verify(k), "a number in an index is too large");
  kir_free(k);
}

TEST(names_are_unique_and_never_words_of_the_language) {
  struct kir_kernel *k = kir_new("names!");
  struct kir_builder b;
  kir_begin(&b, k);
  int n = kir_size(k, "x");
  const char *want[] = { "x2", "x3", "load2", "exp2", "_1a", "a_b", "y" };
  const char *wish[] = { "x", "x", "load", "exp", "1a", "a.b", "y" };
  for (int i = 0; i < 7; i++) {
    int v = kir_op2(&b, KIR_ADD, n, n);
    kir_name(k, v, wish[i]);
    EXPECT_TEXT(k->vals[v].name, want[i]);
  }
  EXPECT_TEXT(k->name, "names_");
  int outer = kir_loop(&b, KIR_PAR, "i", kir_lin_val(k, n)), inner = kir_loop(&b, KIR_LANE, "i", kir_lin_val(k, n));
  EXPECT_TEXT(k->vals[outer].name, "i");
  EXPECT_TEXT(k->vals[inner].name, "i2");
  kir_end(&b);
  kir_end(&b);
  EXPECT_TEXT(k->vals[kir_loop(&b, KIR_PAR, "i", kir_lin_val(k, n))].name, "i"); /* the loops before are over */
  kir_free(k);
}

TEST(equal_literals_are_one_value) {
  struct kir_kernel *k = kir_new("lit");
  EXPECT_INT(kir_lit(k, WEFT_F32, 0x3f800000), kir_lit_int(k, WEFT_F32, 1));
  EXPECT_INT(kir_lit_int(k, WEFT_I32, -1), kir_lit(k, WEFT_I32, 0xffffffff));
  EXPECT(kir_lit(k, WEFT_I32, 1) != kir_lit(k, WEFT_U32, 1));
  EXPECT(kir_lit(k, WEFT_F64, 0) != kir_lit(k, WEFT_F64, UINT64_C(1) << 63));
  EXPECT_INT(kir_lit_int(k, WEFT_F64, -2), kir_lit(k, WEFT_F64, 0xc000000000000000));
  EXPECT_INT(kir_lit_int(k, WEFT_BOOL, 7), kir_lit(k, WEFT_BOOL, 1));
  kir_free(k);
}

TEST(literals_of_every_dtype_keep_their_bits) {
  static const char text[] =
    "kernel literals {\n"
    "  a = add(9223372036854775807, -9223372036854775808)\n"
    "  b = add(18446744073709551615:u64, 0:u64)\n"
    "  c = add(-2147483648:i32, 2147483647:i32)\n"
    "  d = add(4294967295:u32, 0:u32)\n"
    "  e = add(0f7fc00001, 0f80000000)\n"
    "  f = add(0dfff8000000000001, 0d0000000000000001)\n"
    "  g = and(true, false)\n"
    "}\n";
  struct kir_kernel *k = parse(text);
  char *s = print(k);
  EXPECT_TEXT(s, text);
  mem_free(s);
  kir_free(k);
}

static void expect_error(const char *source, const char *want) {
  struct text why = { 0 };
  struct kir_kernel *k[2];
  int n = kir_parse(source, k, 2, &why);
  EXPECT_INT(n, -1);
  EXPECT_TEXT(text_of(&why), want);
  while (n > 0) kir_free(k[--n]);
  text_free(&why);
}

TEST(errors_say_the_line_and_what_was_expected) {
  expect_error("kernel", "line 1: expected a name but the text ends");
  expect_error("kernel a {\n  size N\n  lane i in N {\n    b = add(i, 1]\n  }\n}", "line 4: expected ')' but found ']'");
  expect_error("kernel a {\n size N\n\n in x:f32[N\n}", "line 5: expected ']' but found '}'");
  expect_error("kernel a { lane i in 3 {\n", "line 2: expected a statement but the text ends");
  expect_error("kernel a {\n x = mul(1, 2) +\n}", "line 2: expected a statement but found '+'");
  expect_error("kernel a { size load }", "line 1: 'load' is a word of the language");
  expect_error("kernel a { size N } kernel b { size } ", "line 1: expected a size but found '}'");
  expect_error("kernel a { a = add(99999999999, 3:i32) b = add(3:u8, 1) }", "line 1: a literal cannot be of dtype u8");
  expect_error("kernel a { a = add(3:i32, 2147483648:i32) }", "line 1: 2147483648 does not fit i32");
  expect_error("kernel a { a = add(9223372036854775808, 1) }", "line 1: 9223372036854775808 does not fit i64");
  expect_error("kernel a { a = add(0f123, 1) }", "line 1: expected a number but found '0f123'");
  expect_error("kernel a { a = add(b, 1) }", "line 1: no value is called 'b' here");
  expect_error("kernel a { a, b = add(1, 1) }", "line 1: 2 names for 1 values");
  expect_error("kernel a { table t:f32[2] = 0f00000000 1 }", "line 1: a i64 in a table of f32");
  expect_error("kernel a { table t:f32[0] = }", "line 1: a table has one axis of 1 to 65536 numbers");
  expect_error("kernel a { size N x = add(N, cast(N)) }", "line 1: cast.DTYPE takes 1 operand");
  expect_error("kernel a { } kernel b { } kernel c { }", "line 1: more than 2 kernels");
  expect_error("kernel a { size N in x:f32[N*N*N*N*N] }", "line 1: a product in an index is too long");
  expect_error("\xff\x01", "line 1: expected 'kernel' but found '\xff'");
}

TEST(deep_nesting_is_refused_and_does_not_overflow) {
  static char deep[200000];
  struct text why = { 0 };
  struct kir_kernel *k;
  strcpy(deep, "kernel a { size N x = ");
  size_t n = strlen(deep);
  for (int i = 0; i < 30000; i++) memcpy(deep + n + 4 * i, "not(", 5);
  EXPECT_INT(kir_parse(deep, &k, 1, &why), -1);
  EXPECT(strstr(text_of(&why), "nested too deeply"));
  text_clear(&why);
  strcpy(deep, "kernel a { size N ");
  for (int i = 0; i < 1000; i++) sprintf(deep + strlen(deep), "if lt(N, %d) {", i);
  EXPECT_INT(kir_parse(deep, &k, 1, &why), -1);
  EXPECT_TEXT(text_of(&why), "line 1: blocks are nested too deeply");
  text_free(&why);
}

/* Whatever is cut from or changed in a text, the parser and the verifier come back with an answer. */
TEST(damaged_texts_are_answered) {
  struct kir_kernel *k[2];
  char text[sizeof softmax];
  unsigned seed = 1;
  for (int i = 0; i < 20000; i++) {
    strcpy(text, softmax);
    for (int change = 0; change < 3; change++) {
      seed = seed * 1103515245 + 12345;
      size_t at = (seed >> 8) % (sizeof softmax - 1), from = (seed >> 4) % (sizeof softmax - 1);
      text[at] = (seed & 7) ? softmax[from] : (char)(seed >> 24);
    }
    struct text why = { 0 };
    int n = kir_parse(text, k, 2, &why);
    EXPECT(n >= 0 || why.n);
    for (int j = 0; j < n; j++) {
      if (!kir_verify(k[j])) EXPECT(kir_legalise(k[j]));
      kir_free(k[j]);
    }
    text_free(&why);
  }
}

static double microseconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return 1e6 * (double)t.tv_sec + 1e-3 * (double)t.tv_nsec;
}

/* The text is a key, made for every kernel that is looked up: generous bounds that still catch a quadratic printer. */
TEST(building_and_printing_take_microseconds) {
  struct text t = { 0 };
  double best_build = 1e9, best_print = 1e9;
  for (int i = 0; i < 200; i++) {
    double start = microseconds();
    struct kir_kernel *k = build_softmax();
    double built = microseconds();
    text_clear(&t);
    kir_print(k, &t);
    double printed = microseconds();
    if (built - start < best_build) best_build = built - start;
    if (printed - built < best_print) best_print = printed - built;
    kir_free(k);
  }
  if (best_build > 100) test_fail(__FILE__, __LINE__, "building softmax took %.1f us", best_build);
  if (best_print > 100) test_fail(__FILE__, __LINE__, "printing softmax took %.1f us", best_print);
  text_free(&t);
}
