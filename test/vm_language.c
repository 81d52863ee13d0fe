/* vm_language.c -- what the kernels of test/kernels do not reach: resting lanes, odd folds, aliased memory, narrow
 * dtypes, moving strides, the state of the machine. Each kernel is a text here and its result plain C. */
#include <math.h>
#include <stdlib.h>
#include <sys/mman.h>
#include "base/mem.h"
#include "base/text.h"
#include "run/launch.h"
#include "vm_case.h"
#ifdef __x86_64__
#include <xmmintrin.h>
#endif

static struct kir_kernel *parsed(const char *text) {
  struct kir_kernel *k = NULL;
  struct text why = {0};
  if (kir_parse(text, &k, 1, &why) != 1) test_fail(__FILE__, __LINE__, "%s", text_of(&why)), k = NULL;
  text_free(&why);
  return k;
}
static struct vm_case of(const char *text, int n, const int64_t *sizes) { return case_of(parsed(text), n, sizes, 42); }
#define SIZES(...) (int)(sizeof((int64_t[]){__VA_ARGS__}) / 8), (int64_t[]){__VA_ARGS__}

static void set_in(struct vm_case *c, const char *name, const void *data, size_t bytes) {
  memcpy(case_in(c, name), data, bytes), memcpy(case_want(c, name), data, bytes);
}

/* ---- Resting lanes --------------------------------------------------------------------------------------------------- */

TEST(vm_two_checks_report_a_site_each_and_failing_lanes_store_nothing) {
  struct vm_case c = of("kernel two { size N in i:i64[N] out y:i64[N] lane j in N { a = load i[j] check lt(a, 5) at j"
                        " check le(0, a) at j store y[j] = a } }", SIZES(5));
  set_in(&c, "i", (int64_t[]){1, -1, 9, -2, 7}, 40);
  memcpy(case_want(&c, "y"), (int64_t[]){1, 77, 77, 77, 77}, 40);
  c.check[0] = 2, c.check[1] = 1;
  case_check(&c, 0);
  case_close(&c);
}

TEST(vm_lanes_that_fail_a_check_in_a_region_come_back_after_it_with_the_other_value) {
  struct vm_case c = of("kernel k { size N in i:i64[N] out y:i64[N] lane j in N { a = load i[j] p = lt(a, 10)"
                        " if p { b = mul(a, 2) check le(0, a) at j yield r = add(b, 1) else -7 } store y[j] = r } }", SIZES(1000));
  int64_t *in = case_in(&c, "i"), *want = case_want(&c, "y");
  for (int64_t j = 999; j >= 0; j--) {
    in[j] = (int64_t)(case_random() % 30) - 10;
    if (in[j] < 0) c.check[0] = j;
    want[j] = in[j] < 10 && in[j] >= 0 ? 2 * in[j] + 1 : -7;
  }
  memcpy(case_want(&c, "i"), in, 8000);
  case_check(&c, 0);
  case_close(&c);
}

TEST(vm_a_failed_check_rests_a_lane_for_one_step_of_a_serial_loop) {
  struct vm_case c = of("kernel k { size N, T in x:f32[T,N] out y:f32[N], n:i64[N], s:f32[N], p:f32[N] lane j in N { serial t in T {"
                        " carry a = 0f00000000 carry k = 0 v = load x[t,j] check le(0f00000000, v) at t"
                        " f = fold add(v) w = add(a, v) stop = lt(0f41200000, w) next a = w, k = add(k, 1) until stop }"
                        " store y[j] = a store n[j] = k store s[j] = f store p[j] = a } }", SIZES(600, 300));
  case_calm(&c);
  float *x = case_in(&c, "x"), *y = case_want(&c, "y"), *s = case_want(&c, "s"), *p = case_want(&c, "p");
  int64_t *n = case_want(&c, "n");
  for (int64_t j = 0; j < 600; j++) {
    float a = 0, block[3] = {0};
    n[j] = 0;
    for (int64_t t = 0; t < 300; t++) {
      float v = x[t * 600 + j];
      if (!(0 <= v)) { if (t < c.check[0]) c.check[0] = t; continue; }
      block[t / 128] += v, a += v, n[j]++;
      if (10 < a) break;
    }
    y[j] = p[j] = a, s[j] = (block[0] + block[1]) + block[2];
  }
  case_check(&c, 0);
  case_close(&c);
}

TEST(vm_uniform_conditions_skip_a_region_as_a_whole) {
  for (uint64_t on = 0; on < 2; on++) {
    struct vm_case c = of("kernel k { size N arg p:bool, q:f32 in x:f32[N] out y:f32[N], z:f32[] if p { store z[] = q }"
                          " lane i in N { a = load x[i] o = neg(a) w = neg(o) if p { b = mul(a, q) yield r = b else w yield u = q else 0f3f800000 }"
                          " store y[i] = select(p, add(r, u), r) } }", SIZES(700));
    float *x = case_in(&c, "x"), *y = case_want(&c, "y");
    case_arg(&c, "p", on), case_arg_f32(&c, "q", 3);
    if (on) ((float *)case_want(&c, "z"))[0] = 3;
    for (int i = 0; i < 700; i++) y[i] = on ? x[i] * 3 + 3 : x[i];
    case_check(&c, 0);
    case_close(&c);
  }
}

/* ---- Folds in odd places --------------------------------------------------------------------------------------------- */

static float tree(const float *acc) {
  float a[32];
  memcpy(a, acc, sizeof a);
  for (int h = 16; h; h /= 2)
    for (int l = 0; l < h; l++) a[l] += a[l + h];
  return a[0];
}

TEST(vm_folds_skip_lanes_that_rest_but_keep_their_positions) {
  struct vm_case c = of("kernel k { size N in x:f32[N] out y:f32[], z:f32[], m:f32[] lane i in N { a = load x[i] check le(0f00000000, a) at i"
                        " s = fold add(a) t = fold.col add(a) u = fold max(a) } store y[] = s store z[] = t store m[] = u }", SIZES(5000));
  case_calm(&c);
  float *x = case_in(&c, "x"), acc[2][32] = {{0}}, col[40] = {0}, m = -INFINITY;
  for (int64_t i = 4999; i >= 0; i--)
    if (!(x[i] >= 0)) c.check[0] = i;
  for (int64_t i = 0; i < 5000; i++) {
    if (!(x[i] >= 0)) continue;
    acc[i / 4096][i % 32] += x[i], col[i / 128] += x[i];
    if (x[i] > m) m = x[i];
  }
  float sum[64];
  memcpy(sum, col, sizeof col); /* 40 blocks: 32 and 8, halves by halves */
  for (int h = 1; h < 32; h *= 2)
    for (int i = 0; i + h < 40; i += 2 * h) sum[i] += sum[i + h];
  ((float *)case_want(&c, "y"))[0] = tree(acc[0]) + tree(acc[1]);
  ((float *)case_want(&c, "z"))[0] = sum[0] + sum[32];
  ((float *)case_want(&c, "m"))[0] = m;
  case_check(&c, 0);
  case_close(&c);
}

static const char *const best =
  "fn better(av:f32, ai:i64, bv:f32, bi:i64) -> f32, i64 { t = or(lt(av, bv), and(eq(av, bv), lt(bi, ai)))"
  " return select(t, bv, av), select(t, bi, ai) } ";

TEST(vm_tuple_folds_give_the_same_in_lanes_and_beside_in_row_and_column_order) {
  static const char *const body[] = {
    "par r in R { lane c in C { v, i = fold better(load x[r,c], c) from 0fff800000, 9223372036854775807 } store y[r] = i }",
    "par r in R { lane c in C { v, i = fold.col better(load x[r,c], c) from 0fff800000, 9223372036854775807 } store y[r] = i }",
    "lane r in R { serial c in C { v, i = fold better(load x[r,c], c) from 0fff800000, 9223372036854775807 } store y[r] = i }",
    "lane r in R { serial c in C { v, i = fold.row better(load x[r,c], c) from 0fff800000, 9223372036854775807 } store y[r] = i }",
    "par r in R { serial c in C { v, i = fold better(load x[r,c], c) from 0fff800000, 9223372036854775807 } store y[r] = i }"};
  for (int b = 0; b < 5; b++) {
    char text[1000];
    snprintf(text, sizeof text, "kernel k { size R, C in x:f32[R,C] out y:i64[R] %s %s }", best, body[b]);
    struct vm_case c = of(text, SIZES(40, 700));
    case_calm(&c);
    float *x = case_in(&c, "x");
    int64_t *y = case_want(&c, "y");
    for (int r = 0; r < 40; r++)
      for (int j = (int)(y[r] = 0); j < 700; j++)
        if (x[r * 700 + j] > x[r * 700 + y[r]]) y[r] = j;
    case_check(&c, 0);
    case_close(&c);
  }
}

TEST(vm_integer_and_bool_folds_wrap_and_combine) {
  struct vm_case c = of("kernel k { size N in x:i32[N], u:u64[N] out s:i32[], m:u64[], a:u64[], o:u64[], e:u64[], b:bool[], h:i32[] lane i in N {"
                        " v = load x[i] w = load u[i] p = fold add(v) q = fold max(w) r = fold and(w) t = fold or(w) z = fold xor(w)"
                        " d = fold and(lt(v, 0:i32)) l = fold min(v) } store s[] = p store m[] = q store a[] = r store o[] = t store e[] = z"
                        " store b[] = d store h[] = l }", SIZES(4500));
  int32_t *x = case_in(&c, "x"), least = INT32_MAX;
  uint64_t *u = case_in(&c, "u"), m = 0, a = UINT64_MAX, o = 0, e = 0;
  uint32_t s = 0;
  for (int i = 0; i < 4500; i++) {
    s += (uint32_t)x[i], m = u[i] > m ? u[i] : m, a &= u[i], o |= u[i], e ^= u[i];
    if (x[i] < least) least = x[i];
  }
  memcpy(case_want(&c, "s"), &s, 4), memcpy(case_want(&c, "m"), &m, 8), memcpy(case_want(&c, "a"), &a, 8);
  memcpy(case_want(&c, "o"), &o, 8), memcpy(case_want(&c, "e"), &e, 8), memcpy(case_want(&c, "h"), &least, 4);
  *(uint8_t *)case_want(&c, "b") = 0;
  case_check(&c, 0);
  case_close(&c);
}

TEST(vm_a_kept_prefix_is_a_row_in_lanes_and_its_last_value_outside) {
  struct vm_case c = of("kernel k { size R, C in x:i64[R,C] out y:i64[R,C], t:i64[R] par r in R { lane c in C { p = prefix add(load x[r,c]) keep p }"
                        " store t[r] = p lane c in C { store y[r,c] = mul(p, 3) } } }", SIZES(3, 5000));
  int64_t *x = case_in(&c, "x"), *y = case_want(&c, "y"), *t = case_want(&c, "t");
  for (int r = 0; r < 3; r++) {
    t[r] = 0;
    for (int j = 0; j < 5000; j++) t[r] += x[r * 5000 + j], y[r * 5000 + j] = 3 * t[r];
  }
  case_check(&c, 0);
  case_close(&c);
}

TEST(vm_uniform_and_reinterpreted_values_can_be_kept) {
  struct vm_case c = of("kernel k { size N arg q:f32 in x:f32[N] out y:u32[N], z:f32[N] lane i in N { a = load x[i] b = bits.u32(a) u = mul(q, q)"
                        " keep b, u, a m = fold max(a) } lane i in N { store y[i] = xor(b, 5:u32) store z[i] = add(u, mul(a, m)) } }", SIZES(900));
  case_calm(&c);
  float *x = case_in(&c, "x"), *z = case_want(&c, "z"), m = -INFINITY;
  uint32_t *y = case_want(&c, "y");
  case_arg_f32(&c, "q", 3);
  for (int i = 0; i < 900; i++) m = x[i] > m ? x[i] : m;
  for (int i = 0; i < 900; i++) memcpy(&y[i], &x[i], 4), y[i] ^= 5, z[i] = 9 + x[i] * m;
  case_check(&c, 0);
  case_close(&c);
}

TEST(vm_column_folds_combine_in_index_order_with_the_older_on_the_left) {
  static const char *const body[] = { /* x -> a x + b composes: associative, exactly neutral at (1, 0), not commutative */
    "par r in R { lane c in C { u, v = fold.col then(load a[r,c], load b[r,c]) from 1, 0 } store y[r] = v store z[r] = u }",
    "lane r in R { serial c in C { u, v = fold then(load a[r,c], load b[r,c]) from 1, 0 } store y[r] = v store z[r] = u }"};
  for (int k = 0; k < 2; k++) {
    char text[500];
    snprintf(text, sizeof text, "kernel k { size R, C in a:i64[R,C], b:i64[R,C] out y:i64[R], z:i64[R]"
             " fn then(pa:i64, pb:i64, qa:i64, qb:i64) -> i64, i64 { return mul(pa, qa), add(mul(pb, qa), qb) } %s }", body[k]);
    struct vm_case c = of(text, SIZES(3, 900));
    uint64_t *a = case_in(&c, "a"), *b = case_in(&c, "b"), *y = case_want(&c, "y"), *z = case_want(&c, "z");
    for (int i = 0; i < 2700; i++) a[i] = ((uint64_t *)case_want(&c, "a"))[i] = a[i] * 2 + 3;
    for (int r = 0; r < 3; r++) {
      y[r] = 0, z[r] = 1;
      for (int j = r * 900; j < (r + 1) * 900; j++) z[r] *= a[j], y[r] = y[r] * a[j] + b[j];
    }
    case_check(&c, 0);
    case_close(&c);
  }
}

TEST(vm_blocks_that_all_lanes_of_a_tile_sat_out_still_have_their_place_in_the_counter) {
  struct vm_case c = of("kernel k { size N, T in x:f32[T,N] out y:f32[N] lane j in N { serial t in T { v = load x[t,j]"
                        " check le(0f00000000, v) at t s = fold add(v) } store y[j] = s } }", SIZES(70, 600));
  case_calm(&c);
  float *x = case_in(&c, "x"), *y = case_want(&c, "y");
  for (int t = 0; t < 600; t++)
    for (int j = 0; j < 70; j++) {
      float v = fabsf(x[t * 70 + j]);
      x[t * 70 + j] = ((float *)case_want(&c, "x"))[t * 70 + j] = t / 128 == 1 && j < 64 ? -1 : v;
    }
  c.check[0] = 128;
  for (int j = 0; j < 70; j++) {
    float b[5] = {0};
    for (int t = 0; t < 600; t++)
      if (x[t * 70 + j] >= 0) b[t / 128] += x[t * 70 + j];
    y[j] = ((b[0] + b[1]) + (b[2] + b[3])) + b[4];
  }
  case_check(&c, 0);
  case_close(&c);
}

/* ---- Carried values -------------------------------------------------------------------------------------------------- */

TEST(vm_carried_values_that_pass_each_other_on_keep_the_old_ones_readable) {
  struct vm_case c = of("kernel k { size N, T in x:f32[T,N] out y:f32[T,N], z:f32[N] lane j in N { serial t in T {"
                        " carry a = 0f00000000 carry b = 0f3f800000 carry d = 0f40000000 carry e = 0f40400000"
                        " w = add(mul(a, 0f3f000000), load x[t,j]) u = sub(w, b) v = add(u, d) store y[t,j] = add(v, e)"
                        " next a = w, b = a, d = e, e = d } store z[j] = add(sub(a, b), mul(d, e)) } }", SIZES(600, 9));
  case_calm(&c);
  float *x = case_in(&c, "x"), *y = case_want(&c, "y"), *z = case_want(&c, "z");
  for (int j = 0; j < 600; j++) {
    float a = 0, b = 1, d = 2, e = 3;
    for (int t = 0; t < 9; t++) {
      float w = a * 0.5f + x[t * 600 + j], swap = d;
      y[t * 600 + j] = ((w - b) + d) + e;
      b = a, a = w, d = e, e = swap;
    }
    z[j] = (a - b) + d * e;
  }
  case_check(&c, 0);
  case_close(&c);
}

TEST(vm_many_carried_values_rotate_beside_a_kept_row) {
  char text[3000];
  int n = snprintf(text, sizeof text, "kernel k { size N, T in x:f32[N] out y:f32[N] lane j in N { a = load x[j] keep a serial t in T {");
  for (int i = 0; i < 16; i++) n += snprintf(text + n, sizeof text - (size_t)n, " carry c%d = a", i);
  for (int i = 0; i < 16; i++) n += snprintf(text + n, sizeof text - (size_t)n, " n%d = add(c%d, a)", i, (i + 1) % 16);
  n += snprintf(text + n, sizeof text - (size_t)n, " next c0 = n0");
  for (int i = 1; i < 16; i++) n += snprintf(text + n, sizeof text - (size_t)n, ", c%d = n%d", i, i);
  snprintf(text + n, sizeof text - (size_t)n, " } b = add(c0, c15) keep b } lane j in N { store y[j] = add(a, b) } }");
  struct vm_case c = of(text, SIZES(600, 3));
  case_calm(&c);
  float *x = case_in(&c, "x"), *y = case_want(&c, "y");
  for (int j = 0; j < 600; j++) {
    float s = ((x[j] + x[j]) + x[j]) + x[j];
    y[j] = x[j] + (s + s);
  }
  case_check(&c, 0);
  case_close(&c);
}

TEST(vm_values_from_before_a_loop_last_until_its_final_step) {
  struct vm_case c = of("kernel k { size N, T in x:f32[N] out y:f32[N] lane j in N { a = load x[j] b = mul(a, a) d = add(b, a) serial t in T {"
                        " carry s = 0f3f800000 u = mul(s, b) v = add(u, d) w = mul(v, 0f3f000000) z = sub(w, u) r = mul(z, 0f3e800000)"
                        " next s = add(r, w) } store y[j] = s } }", SIZES(600, 5));
  case_calm(&c);
  float *x = case_in(&c, "x"), *y = case_want(&c, "y");
  for (int j = 0; j < 600; j++) {
    float b = x[j] * x[j], d = b + x[j];
    y[j] = 1;
    for (int t = 0; t < 5; t++) {
      float u = y[j] * b, w = (u + d) * 0.5f;
      y[j] = (w - u) * 0.25f + w;
    }
  }
  case_check(&c, 0);
  case_close(&c);
}

/* ---- Memory ---------------------------------------------------------------------------------------------------------- */

TEST(vm_a_loaded_value_is_not_changed_by_a_store_into_donated_memory) {
  struct kir_kernel *k = parsed("kernel k { size N in x:f32[N] out y:f32[N], z:f32[N] lane i in N { a = load x[i] store y[i] = mul(a, a) store z[i] = add(a, a) } }");
  if (!k) return;
  EXPECT(!kir_verify(k) && kir_legalise(k) && kir_may_donate(k, 0, 1));
  const char *why;
  struct code *code = backend_vm.compile(k, NULL, &why);
  float x[100], z[100];
  for (int i = 0; i < 100; i++) x[i] = (float)i;
  struct bound b[] = {{x, {1}, false}, {x, {1}, false}, {z, {1}, false}};
  EXPECT_INT(backend_vm.run(code, &(struct launch){.sizes = (int64_t[]){100}, .bufs = b, .hi = INT64_MAX}), 0);
  for (int i = 0; i < 100; i++) EXPECT(x[i] == (float)(i * i) && z[i] == (float)(2 * i));
  backend_vm.free(code), kir_free(k);
}

TEST(vm_narrow_memory_dtypes_load_widen_and_store_narrowed) {
  static const struct { const char *name; weft_dtype d; } mems[] = {{"u8", WEFT_U8}, {"i8", WEFT_I8}, {"u16", WEFT_U16}, {"i16", WEFT_I16}};
  for (int m = 0; m < 4; m++) {
    char text[300];
    snprintf(text, sizeof text, "kernel k { size N in x:%s[N] out y:%s[N], z:i32[N] lane i in N { a = load x[i] store z[i] = a"
             " store y[i] = cast.%s(mul(a, 3:i32)) } }", mems[m].name, mems[m].name, mems[m].name);
    struct vm_case c = of(text, SIZES(600));
    for (int i = 0; i < 600; i++) {
      void *x = case_in(&c, "x"), *y = case_want(&c, "y");
      int32_t a = 0;
      switch (mems[m].d) {
        case WEFT_U8: a = ((uint8_t *)x)[i], ((uint8_t *)y)[i] = (uint8_t)(a * 3); break;
        case WEFT_I8: a = ((int8_t *)x)[i], ((int8_t *)y)[i] = (int8_t)(a * 3); break;
        case WEFT_U16: a = ((uint16_t *)x)[i], ((uint16_t *)y)[i] = (uint16_t)(a * 3); break;
        default: a = ((int16_t *)x)[i], ((int16_t *)y)[i] = (int16_t)(a * 3);
      }
      ((int32_t *)case_want(&c, "z"))[i] = a;
    }
    case_check(&c, 0);
    case_close(&c);
  }
}

TEST(vm_indices_from_two_loads_and_strides_that_move_find_their_elements) {
  struct vm_case c = of("kernel k { size N, R, C in a:i64[N], b:i64[N], x:f32[R,C] out y:f32[N], z:f32[N] lane i in N {"
                        " p = load a[i] q = load b[i] store y[i] = load x[p,q]"
                        " serial t in 3 { carry s = 0f00000000 next s = add(s, load x[t,t*i]) } store z[i] = s } }", SIZES(40, 5, 100));
  case_calm(&c);
  int64_t *a = case_in(&c, "a"), *b = case_in(&c, "b");
  float *x = case_in(&c, "x"), *y = case_want(&c, "y"), *z = case_want(&c, "z");
  for (int i = 0; i < 40; i++) y[i] = x[a[i] * 100 + b[i]], z[i] = ((0 + x[0]) + x[100 + i]) + x[200 + 2 * i];
  case_check(&c, 0);
  case_close(&c);
}

TEST(vm_elements_lie_more_than_two_to_the_32_bytes_apart) {
  struct kir_kernel *k = parsed("kernel k { size N in x:f32[N] out y:f32[N] lane i in N { store y[N-1-i] = add(load x[i], load x[i]) } }");
  int64_t far = 3ll << 31;
  size_t bytes = (size_t)(4 * far + 4096);
  char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) { test_skip("no room for a sparse mapping"); kir_free(k); return; }
  if (!k) return;
  EXPECT(!kir_verify(k) && kir_legalise(k));
  const char *why;
  struct code *code = backend_vm.compile(k, NULL, &why);
  float y[2] = {0};
  *(float *)memory = 3, *(float *)(memory + 4 * far) = 5;
  struct bound b[] = {{memory + 4 * far, {-far}, false}, {y, {1}, false}};
  EXPECT_INT(backend_vm.run(code, &(struct launch){.sizes = (int64_t[]){2}, .bufs = b, .hi = INT64_MAX}), 0);
  EXPECT(y[1] == 10 && y[0] == 6);
  munmap(memory, bytes);
  backend_vm.free(code), kir_free(k);
}

/* Every combiner, owned and private, with NaN, infinities and signed zeros among updates and targets. */
static float combined(const char *mode, float a, float b) {
  if (!strcmp(mode, "=")) return b;
  if (!strcmp(mode, "add =")) return a + b;
  if (!strcmp(mode, "mul =")) return a * b;
  if (a != a || b != b) return NAN;
  bool max = !strcmp(mode, "max =");
  if (a == b) return signbit(a) == max ? b : a;
  return (a > b) == max ? a : b;
}

TEST(vm_scatters_of_every_mode_act_as_if_one_after_the_other) {
  static const char *const modes[] = {"=", "add =", "mul =", "min =", "max ="};
  for (int m = 0; m < 5; m++)
    for (int lanes = 0; lanes < 2; lanes++) {
      char text[400];
      snprintf(text, sizeof text, "kernel k { size N, S, B in idx:i64[N], v:f32[N] inout y:f32[S] par q in blocks(S, B) { %s i in N {"
               " k = load idx[i] o = owns(q, k) if o { store y[k] %s load v[i] } } } }", lanes ? "lane" : "serial", modes[m]);
      struct vm_case c = of(text, SIZES(700, 40, 9));
      int64_t *idx = case_in(&c, "idx");
      float *v = case_in(&c, "v"), *y = case_want(&c, "y");
      for (int i = 0; i < 700; i++) {
        idx[i] = ((int64_t *)case_want(&c, "idx"))[i] = (int64_t)(case_random() % 45) - 2;
        if (idx[i] >= 0 && idx[i] < 40) y[idx[i]] = combined(modes[m], y[idx[i]], v[i]);
      }
      case_check(&c, 0);
      case_close(&c);
    }
}

TEST(vm_slots_that_no_update_touches_keep_their_bits) {
  struct vm_case c = case_open("scatter_private", SIZES(2, 9), 1);
  set_in(&c, "idx", (int64_t[]){8, 3}, 16);
  set_in(&c, "v", (float[]){1, -0.0f}, 8);
  set_in(&c, "y", (float[]){NAN, INFINITY, -INFINITY, -0.0f, -0.0f, 1e-45f, 3e38f, 0, 1.5f}, 36);
  ((float *)case_want(&c, "y"))[8] = 2.5f;
  case_check(&c, 0);
  case_close(&c);
}

/* ---- The machine ----------------------------------------------------------------------------------------------------- */

#ifdef __x86_64__
TEST(vm_keeps_denormals_under_a_host_that_flushes_them_and_gives_its_mode_back) {
  struct vm_case c = of("kernel k { size N arg h:f32 in x:f32[N] out y:f32[N], s:f32[] lane i in N { a = mul(load x[i], h) store y[i] = a t = fold add(a) }"
                        " store s[] = t }", SIZES(3));
  set_in(&c, "x", (float[]){1e-38f, 1e-40f, 4}, 12);
  case_arg_f32(&c, "h", 0.25f);
  unsigned before = _mm_getcsr(), flushing = 0x1f80 | 0x8040 | 0x6000;
  for (int i = 0; i < 3; i++) ((float *)case_want(&c, "y"))[i] = ((float *)case_in(&c, "x"))[i] * 0.25f;
  ((float *)case_want(&c, "s"))[0] = 1 + (1e-38f * 0.25f + 1e-40f * 0.25f);
  _mm_setcsr(flushing);
  case_check(&c, 0);
  EXPECT_INT(_mm_getcsr() & ~0x3fu, flushing);
  _mm_setcsr(before);
  case_close(&c);
}
#endif

TEST(vm_stops_inside_a_long_loop_when_asked) {
  struct kir_kernel *k = parsed("kernel k { size T out y:i64[] serial t in T { carry a = 0 next a = add(a, t) } store y[] = a }");
  if (!k) return;
  EXPECT(!kir_verify(k) && kir_legalise(k));
  const char *why;
  struct code *code = backend_vm.compile(k, NULL, &why);
  struct kir_facts facts = kir_facts(k);
  int64_t y = 5;
  struct cancel stop = { &(volatile int){ 1 }, 0 };
  struct bound b = {&y, {0}, false};
  struct launch l = {.sizes = (int64_t[]){INT64_MAX}, .bufs = &b, .cancel = &stop};
  EXPECT_INT(launch_run(&backend_vm, code, k, &facts, &l, 1), 2);
  EXPECT_INT(y, 5);
  backend_vm.free(code), kir_free(k);
}

TEST(vm_says_what_it_cannot_translate) {
  struct kir_kernel *k = parsed("kernel k { size R, N in x:f32[R,N] out y:f32[N] par r in R { par q in blocks(N, 8) private y add {"
                                " lane i in block q { store y[i] add = load x[r,i] } } } }");
  const char *why = NULL;
  if (!k) return;
  struct code *code = backend_vm.compile(k, NULL, &why);
  EXPECT(!code);
  EXPECT_TEXT(why, "private on a par that is not the outermost loop");
  kir_free(k);
}

TEST(vm_lists_its_program) {
  struct kir_kernel *k = parsed("kernel k { size N in x:f32[N] out y:f32[N] lane i in N { store y[i] = neg(load x[i]) } }");
  const char *why;
  struct text t = {0};
  if (!k) return;
  struct code *code = backend_vm.compile(k, NULL, &why);
  backend_vm.show(code, &t);
  EXPECT_TEXT(text_of(&t), "   0  lane       #0\n   1  load       m0.4 #0 in place\n   2  op store   m0.4 = m0.4 #1\n"
                           "   3  end        #0\n   4  stop      \n");
  text_free(&t);
  backend_vm.free(code), kir_free(k);
}

TEST(vm_survives_every_failed_allocation_of_a_compilation) {
  struct kir_kernel *k = parsed("kernel k { size R, C in x:f32[R,C] out y:f32[R,C] par r in R { lane c in C { a = load x[r,c] keep a m = fold max(a) }"
                                " lane c in C { store y[r,c] = exp(sub(a, m)) } } }");
  if (!k) return;
  EXPECT(!kir_verify(k) && kir_legalise(k));
  int64_t live = mem_live();
  struct code *code = NULL;
  for (int n = 1; !code && n < 1000; n++) {
    const char *why = NULL;
    mem_fail_at(n, n % 2);
    code = backend_vm.compile(k, NULL, &why);
    mem_fail_at(0, 0);
    if (!code) {
      EXPECT_TEXT(why, "");
      EXPECT_INT(mem_live(), live);
    }
  }
  EXPECT(code != NULL);
  backend_vm.free(code), kir_free(k);
}
