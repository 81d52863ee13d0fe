/* What the verifier of kernels refuses and accepts, and what it derives. */
#include "kernels.h"
#include "base/mem.h"

/* Why the kernel with this body is refused, by the parser or by the verifier; "" if it is not. */
static const char *refusal(const char *body) {
  static char said[512];
  struct text source = { 0 }, why = { 0 };
  struct kir_kernel *k;
  text_addf(&source, "kernel bad { %s }", body);
  const char *bad = kir_parse(text_of(&source), &k, 1, &why) == 1 ? kir_verify(k) : text_of(&why);
  bool was_parsed = !why.n;
  snprintf(said, sizeof said, "%s", bad ? bad : "");
  if (was_parsed) kir_free(k);
  text_free(&source);
  text_free(&why);
  return said;
}

struct refused { const char *why, *body; };

static void expect_refused(const struct refused *r, size_t n) {
  for (size_t i = 0; i < n; i++) {
    const char *said = refusal(r[i].body);
    if (!strstr(said, r[i].why)) test_fail(__FILE__, __LINE__, "{ %s } gives \"%s\", not \"%s\"", r[i].body, said, r[i].why);
  }
}

#define EXPECT_REFUSED(list) expect_refused(list, sizeof list / sizeof *list)

TEST(statements_stand_only_where_they_may) {
  static const struct refused list[] = {
    { "lane loops do not nest", "size N out y:f32[N,N] lane i in N { serial t in N { lane j in N { store y[i,j] = 0f00000000 } } }" },
    { "lane loops do not nest", "size N out y:f32[N,N] lane i in N { if lt(i, 3) { lane j in N { store y[i,j] = 0f00000000 } } }" },
    { "lane may not stand in lane", "size N out y:f32[N,N] lane i in N { lane j in N { store y[i,j] = 0f00000000 } }" },
    { "par may not stand in serial", "size N out y:f32[N] serial t in N { par i in N { store y[i] = 0f00000000 } }" },
    { "par may not stand in lane", "size N lane t in N { par i in N { a = add(i, 1) } }" },
    { "par may not stand in if", "size N if lt(N, 3) { par i in N { a = add(i, 1) } }" },
    { "carry may not stand in lane", "size N lane i in N { carry a = 0 }" },
    { "carry may not stand in par", "size N par i in N { carry a = 0 }" },
    { "next may not stand in if", "size N serial i in N { carry a = 0 if lt(i, 3) { next a = i } }" },
    { "until may not stand in par", "size N par i in N { until lt(i, 3) }" },
    { "keep may not stand in serial", "size N serial i in N { a = add(i, 1) keep a }" },
    { "yield may not stand in lane", "size N lane i in N { yield a = i else 0 }" },
    { "local may not stand in serial", "size N serial i in N { local h:f32[N] }" },
    { "fold may not stand in par", "size N out y:f32[] par i in N { s = fold add(0f00000000) }" },
    { "fold may not stand in if", "size N in x:f32[N] lane i in N { if lt(i, 3) { s = fold add(0f00000000) } }" },
    { "prefix may not stand in kernel", "size N s = prefix add(0f00000000)" },
    { "store may not stand in fn", "out y:f32[] fn f(a:f32) -> f32 { store y[] = a return a }" },
    { "only until may follow next", "size N serial t in N { carry a = 0 next a = t b = add(a, 1) }" },
    { "only until may follow next", "size N serial t in N { carry a = 0 next a = t next a = t }" },
    { "carry must open its loop", "size N serial t in N { b = add(t, 1) carry a = 0 }" },
    { "next names no carry of this loop", "size N serial t in N { carry a = 0 serial u in N { carry b = 0 next a = u } }" },
    { "next a: named twice", "size N serial t in N { carry a = 0 next a = t, a = t }" },
    { "next a: dtype changes", "size N serial t in N { carry a = 0f00000000 next a = t }" },
  };
  EXPECT_REFUSED(list);
}

TEST(values_are_used_only_where_they_are_visible) {
  static const struct refused list[] = {
    { "s is not visible here", "size N in x:f32[N] out y:f32[N] lane i in N { s = fold add(load x[i]) store y[i] = s }" },
    { "a is not visible here", "size N in x:f32[N] out y:f32[N] lane i in N { a = load x[i] } lane i in N { store y[i] = a }" },
    { "a is not visible here", "size N, M in x:f32[N] out y:f32[M] lane i in N { a = load x[i] keep a } lane i in M { store y[i] = a }" },
    { "a is not visible here", "size R, N in x:f32[N] out y:f32[] par r in R { lane i in N { a = load x[i] keep a } } lane i in N { s = fold add(a) } store y[] = s" },
    { "a is not visible here", "size N in x:f32[N] out y:f32[] lane i in N { a = load x[i] keep a } store y[] = a" },
    { "i is not visible here", "size N out y:i64[] lane i in N { a = add(i, 1) } store y[] = i" },
    { "b is not visible here", "size N out y:i64[] lane i in N { if lt(i, 3) { b = add(i, 1) } c = add(b, 1) }" },
    { "b is not visible here", "size N lane i in N { if lt(i, 3) { b = add(i, 1) yield c = b else b } }" },
    { "no value is called 'N' here", "size N fn f(a:i64) -> i64 { return add(a, N) }" },
    { "a defined twice", "size N lane i in N { a = add(i, 1) a = add(i, 2) }" },
    { "N defined twice", "size N, N" },
    { "i is taken", "size N par i in N { lane i in N { a = add(i, 1) } }" },
    { "h is not visible here", "size N par q in N { local h:f32[N] } par q in N { a = load h[0] }" },
    { "a local of outside is stored to by a par loop", "size N local h:f32[N] par q in N { store h[q] = 0f00000000 }" },
    { "calls itself", "fn f(a:i64) -> i64 { b = f(a) return b }" },
  };
  EXPECT_REFUSED(list);
}

TEST(instructions_take_the_dtypes_of_their_rows) {
  static const struct refused list[] = {
    { "add: not for f32, i64", "size N in x:f32[N] lane i in N { a = add(load x[i], i) }" },
    { "fma: not for", "size N lane i in N { a = fma(i, i, i) }" },
    { "select: not for i64, i64, i64", "size N lane i in N { a = select(i, i, i) }" },
    { "shl: not for bool, bool", "a = shl(true, true)" },
    { "idiv: not for f32, f32", "a = idiv(0f3f800000, 0f3f800000)" },
    { "no instruction foo", "size N lane i in N { a = foo(i) }" },
    { "add: takes 2 operands, not 3", "size N lane i in N { a = add(i, i, i) }" },
    { "a subscript is not i64", "size N in x:f32[N] lane i in N { a = load x[i] b = load x[a] }" },
    { "multiplies two lane values", "size N in x:f32[N], n:i64[N] lane i in N { k = load n[i] b = load x[i*k] }" },
    { "x has 1 axes, not 2", "size N in x:f32[N] lane i in N { a = load x[i,i] }" },
    { "no buffer z", "size N lane i in N { a = load z[i] }" },
    { "x is read only", "size N in x:f32[N] lane i in N { store x[i] = 0f00000000 }" },
    { "y: stores f32", "size N out y:f32[N] lane i in N { store y[i] = i }" },
    { "if needs a bool", "size N lane i in N { if i { a = add(i, 1) } }" },
    { "until needs a bool", "size N serial i in N { until i }" },
    { "check needs a bool", "size N lane i in N { check i at i }" },
    { "bits: widths differ", "size N lane i in N { a = bits.f32(i) }" },
    { "sides differ in dtype", "size N lane i in N { c = lt(i, 3) if c { yield a = i else 0f00000000 } }" },
    { "owns needs a block axis", "size N par q in N { o = owns(q, q) }" },
    { "q is not a block axis", "size N par q in N { serial i in block q { a = add(i, 1) } }" },
    { "extent must be uniform", "size N in n:i64[N] lane i in N { k = load n[i] serial t in k { b = add(t, 1) } }" },
    { "extent must be uniform", "size N in n:f32[N] a = load n[0] serial t in a { b = add(t, 1) }" },
    { "dims must be sizes", "size N arg m:i64 in x:f32[m]" },
    { "local arrays hold register dtypes", "size N local h:bf16[N]" },
    { "no such dtype: 'c64'", "size N in x:c64[N]" },
    { "a: bf16 is no dtype of a value", "arg a:bf16" },
    { "results differ from the declared", "fn f(a:i64) -> f32 { return a }" },
    { "f: not for f32", "fn f(a:i64) -> i64 { return a } b = f(0f00000000)" },
  };
  EXPECT_REFUSED(list);
}

TEST(folds_need_combiners_and_fns_their_neutral_values) {
  static const struct refused list[] = {
    { "needs its neutral values", "size N fn f(a:f32, b:f32) -> f32 { return add(a, b) } lane i in N { s = fold f(0f00000000) }" },
    { "its neutral values have another dtype", "size N fn f(a:f32, b:f32) -> f32 { return add(a, b) } lane i in N { s = fold f(0f00000000) from 0 }" },
    { "does not give back what it combines", "size N fn f(a:f32, b:f32) -> i64 { return 3 } lane i in N { s = fold f(0f00000000) from 0f00000000 }" },
    { "f: not for i64, i64", "size N fn f(a:f32, b:f32) -> f32 { return a } lane i in N { s = fold f(i) from 0 }" },
    { "sub does not combine", "size N lane i in N { s = fold sub(i) }" },
    { "and: not for f32, f32", "size N lane i in N { s = fold and(0f00000000) }" },
    { "prefix has one order", "size N serial t in N { s = prefix.row add(t) }" },
    { "a fn loads from tables only", "size N in x:f32[N] fn f(a:f32) -> f32 { b = load x[0] return b }" },
  };
  EXPECT_REFUSED(list);
}

TEST(stores_of_par_iterations_do_not_meet) {
  static const struct refused list[] = {
    { "iterations of par q may store to one place", "size N in x:f32[N] out y:f32[2] par q in N { store y[0] add = 0f00000000 }" },
    { "iterations of par q may store to one place", "size N in i:i64[N] inout y:f32[N] par q in N { k = load i[q] store y[k] add = 0f00000000 }" },
    { "iterations of par i may store to one place", "size N out y:f32[N] par i in N { lane j in N { store y[i+j] = 0f00000000 } }" },
    { "iterations of par i may store to one place", "size N, M out y:f32[N*M] par i in N { lane j in M { store y[i*N+j] = 0f00000000 } }" },
    { "iterations of par q may store to one place", "size N in i:i64[N] inout y:f32[N] par q in N { k = load i[q] store y[q+k] = 0f00000000 }" },
    { "iterations of par j may store to one place", "size N, M out y:f32[N] par i in N { par j in M { store y[i] = 0f00000000 } }" },
    { "iterations of par i may store to one place", "size N out y:f32[N] par i in N { store y[i] = 0f00000000 store y[N-1-i] = 0f3f800000 }" },
    { "iterations of par c may store to one place", "size N, C, D out y:f32[N*C*D] par i in N { par c in C { lane d in D { store y[i*C+c*D+d] = 0f00000000 } } }" },
    { "iterations of par q may store to one place", "size N, B in i:i64[N] inout y:f32[N] par q in blocks(N, B) { serial j in N { k = load i[j] m = load i[k] o = owns(q, k) if o { store y[m] = 0f00000000 } } }" },
  };
  EXPECT_REFUSED(list);
  EXPECT_TEXT(refusal("size N, C, D out y:f32[N*C*D] par i in N { par c in C { lane d in D { store y[i*C*D+c*D+d] = 0f00000000 } } }"), "");
  EXPECT_TEXT(refusal("size N out y:f32[2*N] par i in N { store y[2*i] = 0f00000000 store y[2*i+1] = 0f3f800000 }"), "");
  EXPECT_TEXT(refusal("size N out y:f32[N,2] par i in N { store y[N-1-i,0] = 0f00000000 store y[N-1-i,1] = 0f3f800000 }"), "");
}

TEST(stores_of_lanes_do_not_meet_or_are_ordered_and_alone) {
  static const struct refused list[] = {
    { "y: all lanes store to one place", "size N out y:f32[2] lane i in N { store y[0] = 0f00000000 }" },
    { "y: all lanes store to one place", "size N, M inout y:f32[2] par q in M private y add { lane i in N { store y[0] add = 0f00000000 } }" },
    { "two stores of a lane loop may meet", "size N out y:f32[N] lane j in N { store y[j] = 0f00000000 store y[N-1-j] = 0f3f800000 }" },
    { "an ordered store must be the only access", "size N in i:i64[N] inout y:f32[N] lane j in N { k = load i[j] a = load y[k] store y[k] = a }" },
    { "an ordered store must be the only access", "size N in i:i64[N] inout y:f32[N] lane j in N { k = load i[j] store y[k] = 0f00000000 store y[j] = 0f00000000 }" },
    { "an ordered store must be the only access", "size N in i:i64[N] inout y:f32[N] lane j in N { k = load i[j] store y[j+k] = 0f00000000 store y[j] = 0f00000000 }" },
    { "an ordered store may not stand in a serial", "size N in i:i64[N] inout y:f32[N] lane j in N { k = load i[j] serial t in N { store y[k] add = 0f00000000 } }" },
    { "an ordered store may not stand in a serial", "size N inout y:f32[N] lane j in N { serial t in N { store y[t+j] add = 0f00000000 } }" },
  };
  EXPECT_REFUSED(list);
  EXPECT_TEXT(refusal("size N, T out y:f32[N*T] lane j in N { serial t in T { store y[t*N+j] = 0f00000000 } }"), "");
  EXPECT_TEXT(refusal("size N, M out y:f32[N,2] lane j in N { store y[j,0] = 0f00000000 store y[j,1] = 0f00000000 }"), "");
}

TEST(what_is_stored_is_read_only_by_its_owner) {
  static const struct refused list[] = {
    { "a lane may read what another stores", "size N inout y:f32[N] lane i in N-1 { store y[i+1] = load y[i] }" },
    { "a lane may read what another stores", "size N inout y:f32[N] lane i in N { store y[N-1-i] = load y[i] }" },
    { "a lane may read what another stores", "size N in x:f32[N] local h:f32[N] lane j in N { store h[j] = load h[N-1-j] }" },
    { "a lane may read what another stores", "size N in k:i64[N] inout y:f32[N] par i in N { j = load k[i] store y[i] = load y[j] }" },
    { "a lane may read what another stores", "size R, C inout y:f32[R,C] par r in R { lane c in C { a = load y[0,c] store y[r,c] = a } }" },
    { "a lane may read what another stores", "size H local h:f32[2,H] lane j in H { store h[0,j] = 0f00000000 } serial t in H { carry p = 0 lane j in H { serial k in H { carry u = 0f00000000 next u = add(u, load h[p,k]) } store h[p,j] = u } next p = sub(1, p) }" },
  };
  EXPECT_REFUSED(list);
  EXPECT_TEXT(refusal("size R, C inout y:f32[R,C] par r in R { lane c in C { m = fold max(load y[r,c]) } lane d in C { store y[r,d] = m } }"), "");
  EXPECT_TEXT(refusal("size H local h:f32[H] lane j in H { store h[j] = 0f00000000 } lane j in H { a = load h[H-1-j] }"), "");
}

TEST(private_and_narrow_outputs_combine_as_they_may) {
  static const struct refused list[] = {
    { "combining in memory would round", "size N inout y:bf16[N] lane i in N { store y[i] add = 0f00000000 }" },
    { "set has no neutral element", "size N out y:f32[2] par q in N private y set { store y[0] = 0f00000000 }" },
    { "sub has no neutral element", "size N out y:f32[2] par q in N private y sub { store y[0] sub = 0f00000000 }" },
    { "y is private add", "size N out y:f32[2] par q in N private y add { store y[0] max = 0f00000000 }" },
    { "y is private add", "size N out y:f32[2] par q in N private y add { store y[0] = 0f00000000 }" },
    { "copies of 8 bits are not merged", "size N out y:e4m3[2] par q in N private y add { store y[0] add = 0f00000000 }" },
    { "y: is private and cannot be read", "size N inout y:f32[2] par q in N private y add { a = load y[0] store y[0] add = a }" },
    { "an output of a par loop", "size N in x:f32[2] par q in N private x add { a = add(q, 1) }" },
    { "an output of a par loop", "size N out y:f32[2] serial q in N private y add { a = add(q, 1) }" },
    { "no store mode sub", "size N out y:f32[N] lane i in N { store y[i] sub = 0f00000000 }" },
    { "or: not for f32, f32", "size N out y:f32[N] lane i in N { store y[i] or = 0f00000000 }" },
  };
  EXPECT_REFUSED(list);
}

/* ---- Trees that no text can give ---------------------------------------------------------------------------------------- */

static struct kir_kernel *whole(void) {
  struct kir_kernel *k = NULL;
  struct text why = { 0 };
  kir_parse("kernel whole { size N table t:f32[1] = 0f00000000 in x:f32[N] out y:f32[N] "
            "fn f(a:f32, b:f32) -> f32 { return max(a, b) } fn g(a:f32, b:f32) -> f32 { c = f(a, b) return c } "
            "par q in blocks(N, 128) { local h:f32[N] "
            "  lane i in block q { a = load x[i] b = f(a, a) c = cast.f32(b) s = fold g(c) from 0fff800000 p = prefix add(c) store y[i] = c } } }",
            &k, 1, &why);
  EXPECT_TEXT(text_of(&why), "");
  EXPECT(k && !kir_verify(k));
  text_free(&why);
  return k;
}

static struct kir_stmt *first(struct kir_block *block, int kind) {
  for (struct kir_stmt *s = block->first; s; s = s->next) {
    struct kir_stmt *inside = s->kind == kind ? s : first(&s->body, kind);
    if (inside) return inside;
  }
  return NULL;
}

static void then_says(struct kir_kernel *k, const char *why) {
  const char *said = kir_verify(k);
  if (!said || !strstr(said, why)) test_fail(__FILE__, __LINE__, "\"%s\", not \"%s\"", said ? said : "", why);
  kir_free(k);
}

TEST(malformed_trees_are_refused_not_trusted) {
  struct kir_kernel *k = whole();
  first(&k->body, KIR_LOAD)->out[0] = 0, then_says(k, "gives no value");
  k = whole(), first(&k->body, KIR_OP)->out[0] = first(&k->body, KIR_LOAD)->out[0], then_says(k, "a defined twice");
  k = whole(), k->vals[first(&k->body, KIR_LOAD)->out[0]].dtype = WEFT_F64, then_says(k, "a is f64, not f32");
  k = whole(), first(&k->body, KIR_OP)->in[0] = 1000000, then_says(k, "no such value");
  k = whole(), first(&k->body, KIR_OP)->op = KIR_SET, then_says(k, "set does not combine");
  k = whole(), first(&k->body, KIR_OP)->op = KIR_NEG, then_says(k, "neg: takes 1 operands");
  k = whole(), first(&k->fns[1].body, KIR_OP)->fn = 1, then_says(k, "not defined yet");
  k = whole(), first(&k->body, KIR_OP)->n_out = 0, then_says(k, "f gives 1 values");
  k = whole(), first(&k->body, KIR_OP)->next->n_in = 0, then_says(k, "cast needs a dtype");
  k = whole(), first(&k->body, KIR_LOAD)->buf = 99, then_says(k, "no such buffer");
  k = whole(), first(&k->body, KIR_LOAD)->n_at = 0, then_says(k, "x has 1 axes, not 0");
  k = whole(), first(&k->body, KIR_FOLD)->n_from = 0, then_says(k, "g: needs its neutral values");
  k = whole(), first(&k->body, KIR_FOLD)->n_out = 0, then_says(k, "as many values as it takes");
  k = whole(), first(&k->body, KIR_PREFIX)->order = KIR_ROW, then_says(k, "prefix has one order");
  k = whole(), first(&k->body, KIR_PAR)->kind = KIR_SERIAL, then_says(k, "only par goes over blocks");
  k = whole(), first(&k->body, KIR_LANE)->var = k->sizes[0], then_says(k, "a variable of its own");
  k = whole(), first(&k->body, KIR_LANE)->var = first(&k->body, KIR_PAR)->var, then_says(k, "a variable of its own");
  k = whole(), first(&k->body, KIR_STORE)->kind = KIR_KINDS, then_says(k, "no such statement");
  k = whole(), k->fns[0].n_result = 0, then_says(k, "f gives nothing");
  k = whole(), k->bufs[1].dtype = WEFT_C64, then_says(k, "x: c64 is no dtype of a kernel");
  k = whole(), k->bufs[0].dtype = WEFT_BF16, then_says(k, "t: tables hold register dtypes");
  k = whole();
  struct kir_stmt *local = first(&k->body, KIR_LOCALS), again = *local;
  again.next = local->next, local->next = &again, then_says(k, "h defined twice");
}

TEST(every_kernel_is_accepted_and_still_is_when_legal) {
  struct kir_kernel *k[TEST_KERNELS_MAX];
  int n = test_kernels(k);
  EXPECT_INT(n, 62);
  for (int i = 0; i < n; i++) {
    const char *why = kir_verify(k[i]);
    if (why) test_fail(__FILE__, __LINE__, "%s", why);
    EXPECT(kir_legalise(k[i]));
    why = kir_verify(k[i]);
    if (why) test_fail(__FILE__, __LINE__, "legalised: %s", why);
    kir_free(k[i]);
  }
}

static int buffer(const struct kir_kernel *k, const char *name) {
  for (int i = 0; i < k->n_bufs; i++)
    if (!strcmp(k->bufs[i].name, name)) return i;
  test_fail(__FILE__, __LINE__, "%s has no %s", k->name, name);
  return 0;
}

static bool may_donate(const char *kernel, const char *in, const char *out) {
  struct kir_kernel *k = test_kernel(kernel);
  bool may = kir_may_donate(k, buffer(k, in), buffer(k, out));
  kir_free(k);
  return may;
}

TEST(an_output_takes_the_memory_of_an_input_that_each_owner_reads_first) {
  static const char *const yes[][3] = { { "softmax", "x", "y" }, { "softmax_reload", "x", "y" }, { "muladd", "c", "y" },
    { "layer_norm_grad", "x", "dx" }, { "layer_norm_grad", "dy", "dx" }, { "ar2", "x", "y" }, { "ar2_grad", "dy", "dx" },
    { "cumsum_row", "x", "y" }, { "transposed_add", "a", "y" }, { "complex_mul", "a", "y" } };
  static const char *const no[][3] = { { "reversed_write", "x", "y" }, { "transposed_add", "b", "y" }, { "layer_norm_grad", "w", "dw" },
    { "rnn", "h0", "y" }, { "embedding", "w", "y" }, { "bf16_muladd", "a", "a" }, { "mixed_widths", "z", "half" } };
  for (size_t i = 0; i < sizeof yes / sizeof *yes; i++)
    if (!may_donate(yes[i][0], yes[i][1], yes[i][2])) test_fail(__FILE__, __LINE__, "%s: %s may be %s", yes[i][0], yes[i][2], yes[i][1]);
  for (size_t i = 0; i < sizeof no / sizeof *no; i++)
    if (may_donate(no[i][0], no[i][1], no[i][2])) test_fail(__FILE__, __LINE__, "%s: %s may not be %s", no[i][0], no[i][2], no[i][1]);
}

static bool is_one_of(const char *name, const char *const list[]) {
  for (; *list; list++)
    if (!strcmp(*list, name)) return true;
  return false;
}

TEST(outer_loops_that_may_be_cut_are_known) {
  static const char *const not_cut[] = { "scatter_private", "scatter_winner", "scatter_private_bf16", "layer_norm_grad",
    "col_sum_tall", "full_sum", "full_sum_par", "cumsum_offsets", "recurrence", "scan_until",
    "while_shared", NULL };
  static const char *const private[] = { "scatter_private", "scatter_winner", "scatter_private_bf16", "layer_norm_grad",
    "col_sum_tall", "full_sum_par", NULL };
  struct kir_kernel *k[TEST_KERNELS_MAX];
  int n = test_kernels(k), n_cut = 0;
  for (int i = 0; i < n; i++) {
    struct kir_facts f = kir_facts(k[i]);
    n_cut += f.divisible;
    if (f.divisible == is_one_of(k[i]->name, not_cut)) test_fail(__FILE__, __LINE__, "%s: divisible is %d", k[i]->name, f.divisible);
    if (f.is_private != is_one_of(k[i]->name, private)) test_fail(__FILE__, __LINE__, "%s: is_private is %d", k[i]->name, f.is_private);
    if ((f.divisible || f.is_private) && !f.outer) test_fail(__FILE__, __LINE__, "%s: no outer loop", k[i]->name);
    kir_free(k[i]);
  }
  EXPECT_INT(n_cut, 51);
}

TEST(checks_and_lane_loops_are_counted) {
  struct kir_kernel *k = test_kernel("softmax");
  EXPECT_INT(kir_facts(k).n_lanes, 3);
  EXPECT_INT(kir_facts(k).n_checks, 0);
  kir_free(k);
  k = test_kernel("take");
  EXPECT_INT(kir_facts(k).n_checks, 1);
  kir_free(k);
}

TEST(combiners_know_where_to_start) {
  EXPECT_INT(kir_empty(KIR_ADD, WEFT_F32), 0);
  EXPECT_INT(kir_neutral(KIR_ADD, WEFT_F32), 0x80000000);
  EXPECT_INT(kir_neutral(KIR_ADD, WEFT_F64), INT64_MIN);
  EXPECT_INT(kir_neutral(KIR_ADD, WEFT_I64), 0);
  EXPECT_INT(kir_neutral(KIR_MUL, WEFT_F64), 0x3ff0000000000000);
  EXPECT_INT(kir_neutral(KIR_MUL, WEFT_U32), 1);
  EXPECT_INT(kir_empty(KIR_MAX, WEFT_F32), 0xff800000);
  EXPECT_INT(kir_empty(KIR_MIN, WEFT_F64), 0x7ff0000000000000);
  EXPECT_INT(kir_empty(KIR_MAX, WEFT_I32), 0x80000000);
  EXPECT_INT(kir_empty(KIR_MIN, WEFT_I64), INT64_MAX);
  EXPECT_INT(kir_empty(KIR_MAX, WEFT_U64), 0);
  EXPECT_INT(kir_empty(KIR_MIN, WEFT_U32), 0xffffffff);
  EXPECT_INT(kir_empty(KIR_AND, WEFT_BOOL), 1);
  EXPECT_INT(kir_empty(KIR_AND, WEFT_I32), 0xffffffff);
  EXPECT_INT(kir_empty(KIR_OR, WEFT_BOOL), 0);
  EXPECT(!kir_is_combiner(KIR_SUB) && !kir_is_combiner(KIR_SET) && kir_is_combiner(KIR_XOR));
}

TEST(running_out_of_memory_anywhere_leaves_a_reason) {
  const char *source = "kernel s { size R, C in x:f32[R,C] out y:f32[R,C] fn f(a:f32, b:f32) -> f32 { return max(a, b) } "
                       "par r in R { lane c in C { a = load x[r,c] keep a m = fold f(a) from 0fff800000 } "
                       "lane c in C { e = exp(sub(a, m)) store y[r,c] = tanh(e) } } }";
  int64_t live = mem_live();
  for (int n = 1; n < 200; n++) {
    struct text why = { 0 }, shown = { 0 };
    struct kir_kernel *k = NULL;
    mem_fail_at(n, 1);
    bool is_parsed = kir_parse(source, &k, 1, &why) == 1;
    const char *bad = is_parsed ? kir_verify(k) : text_of(&why);
    bool is_legal = is_parsed && !bad && kir_legalise(k);
    if (is_parsed) kir_print(k, &shown);
    mem_fail_at(0, 0);
    bool is_done = is_legal && !shown.failed;
    if (bad && !why.failed && !strstr(bad, "out of memory")) test_fail(__FILE__, __LINE__, "allocation %d: %s", n, bad);
    if (is_parsed) kir_free(k);
    text_free(&why);
    text_free(&shown);
    EXPECT_INT(mem_live(), live);
    if (is_done) return;
  }
  test_fail(__FILE__, __LINE__, "it never got through");
}
