/* steady.c -- what a program that goes on for ever holds: looked at while its arrays live, step after step.
 *
 * Each way to compute the next state is combined with each way to evaluate it. After a few steps, nodes and bytes must stay
 * the same for as many more as one likes; nothing is asked about what is left in the end. */
#include <stdlib.h>
#include "graph/node.h"
#include "run/memory.h"
#include "run/plan.h"
#include "values.h"

enum { N = 1000, WARM = 8, STEPS = 60 };

/* ---- Ways to compute the next state ---- */

static weft_function *compile_one(void) {
  weft_scope *s = weft_scope_open();
  weft_array *x = weft_input(WEFT_F64, WEFT_DIMS(WEFT_ANY)), *y = weft_add(weft_mul(x, weft_scalar(0.5)), weft_scalar(1));
  return weft_compile(s, 1, &x, 1, &y);
}

static weft_function *compile_two(void) {
  weft_scope *s = weft_scope_open();
  weft_array *x = weft_input(WEFT_F64, WEFT_DIMS(WEFT_ANY)), *z = weft_tanh(x);
  return weft_compile(s, 1, &x, 2, (weft_array *[]){ weft_sum(z, WEFT_ALL), weft_add(z, weft_scalar(0.1)) });
}

/* A loop inside that until ends: such a function is planned part by part. */
static weft_function *compile_parts(void) {
  weft_scope *s = weft_scope_open();
  weft_array *x = weft_input(WEFT_F64, WEFT_DIMS(WEFT_ANY));
  weft_loop *l = weft_loop_open(weft_cast(weft_sum(weft_mul(x, weft_scalar(0)), WEFT_ALL), WEFT_I64));
  weft_array *c = weft_loop_carry(l, x), *y;
  weft_loop_next(l, c, weft_mul(c, weft_scalar(0.5)));
  y = weft_loop_all(l, c);
  weft_loop_close(l);
  y = weft_add(weft_mul(x, weft_scalar(0.5)), weft_at(weft_sum(y, 0), 0, weft_integer(0)));
  return weft_compile(s, 1, &x, 1, &y);
}

static weft_function *one, *two, *parts;

static weft_array *called(weft_array *x) { return weft_call(one, 1, &x, 1, &x), x; }
static weft_array *called_thrice(weft_array *x) { return called(called(called(x))); }
static weft_array *called_amid(weft_array *x) { return weft_mul(called(weft_tanh(x)), weft_scalar(0.9)); }
static weft_array *called_for_one_of_two(weft_array *x) {
  weft_array *out[2];
  return weft_call(two, 1, &x, 2, out), out[1];
}
static weft_array *called_part_by_part(weft_array *x) { return weft_call(parts, 1, &x, 1, &x), x; }
static weft_array *plain(weft_array *x) { return weft_add(weft_mul(weft_tanh(x), weft_scalar(0.5)), weft_mean(x, 0)); }
static weft_array *seen(weft_array *x) { return weft_flip(called(x), 0); }
static weft_array *halved(weft_array *c) { return weft_mul(c, weft_scalar(0.5)); }
static weft_array *looped(weft_array *x) { return repeated(3, x, halved); }
static weft_array *stopped(weft_array *x) {
  weft_loop *l = weft_loop_open(NULL);
  weft_array *c = weft_loop_carry(l, x), *y;
  weft_loop_next(l, c, weft_mul(c, weft_scalar(0.5)));
  weft_loop_until(l, weft_lt(weft_max(c, WEFT_ALL), weft_scalar(0.1)));
  y = weft_loop_last(l, c);
  weft_loop_close(l);
  return weft_add(y, weft_scalar(1));
}
static weft_array *stopped_rows(weft_array *x) { /* as many rows as it took */
  weft_loop *l = weft_loop_open(weft_integer(9));
  weft_array *c = weft_loop_carry(l, x), *y;
  weft_loop_next(l, c, weft_mul(c, weft_scalar(0.5)));
  weft_loop_until(l, weft_lt(weft_max(c, WEFT_ALL), weft_scalar(0.1)));
  y = weft_loop_all(l, c);
  weft_loop_close(l);
  return weft_mul(weft_at(weft_sum(y, 0), 0, weft_integer(0)), weft_scalar(0.5));
}
static weft_array *chosen(weft_array *x) {
  weft_cond *c = weft_cond_open(weft_gt(weft_sum(x, WEFT_ALL), weft_scalar(0)));
  weft_array *y = weft_cond_value(c, weft_mul(x, weft_scalar(0.5)), weft_add(x, weft_scalar(1)));
  weft_cond_close(c);
  return y;
}
static weft_array *differentiated(weft_array *x) {
  weft_array *y = weft_sum(weft_mul(called(x), x), WEFT_ALL), *dx;
  weft_grad(y, 1, &x, &dx);
  return dx;
}

static const struct { const char *name; array_function next; } expressions[] = {
  { "called", called }, { "called_thrice", called_thrice }, { "called_amid", called_amid },
  { "called_for_one_of_two", called_for_one_of_two }, { "called_part_by_part", called_part_by_part }, { "plain", plain },
  { "seen", seen }, { "looped", looped }, { "stopped", stopped }, { "stopped_rows", stopped_rows }, { "chosen", chosen },
  { "differentiated", differentiated },
};
enum { EXPRESSIONS = sizeof expressions / sizeof *expressions };

/* ---- Ways to go from x to the next: x is owned by the caller, and so is what comes back ---- */

typedef weft_array *(*way)(array_function next, weft_array *x);

static weft_array *made(array_function next, weft_array *x) { /* as a binding makes it: in a scope that is discarded */
  weft_scope *s = weft_scope_open();
  weft_array *y = weft_own(next(x));
  weft_scope_discard(s);
  weft_disown(x);
  return y;
}

static weft_array *by_eval(array_function next, weft_array *x) {
  x = made(next, x);
  EXPECT_OK(weft_eval(1, &x));
  return x;
}

static weft_array *by_read(array_function next, weft_array *x) {
  double got[N];
  x = made(next, x);
  EXPECT_OK(weft_read(x, WEFT_F64, got, sizeof got));
  return x;
}

static weft_array *by_async(array_function next, weft_array *x) {
  x = made(next, x);
  EXPECT_OK(weft_eval_async(1, &x));
  EXPECT_OK(weft_wait(1, &x, -1));
  EXPECT_OK(weft_wait(0, NULL, -1)); /* until the job itself has gone */
  return x;
}

static weft_array *by_pin(array_function next, weft_array *x) {
  weft_block b;
  x = made(next, x);
  EXPECT_OK(weft_pin(x, 0, &b));
  weft_unpin(x);
  return x;
}

static weft_array *with_others(array_function next, weft_array *x) {
  x = made(next, x);
  expect_evaluated_beside_others(x);
  return x;
}

static weft_array *inside_the_scope(array_function next, weft_array *x) { /* it has a value before its scope ends */
  weft_scope *s = weft_scope_open();
  weft_array *y = weft_own(next(x));
  EXPECT_OK(weft_eval(1, &y));
  weft_scope_discard(s);
  weft_disown(x);
  return y;
}

static weft_array *through_another(array_function next, weft_array *x) { /* only a sum of it is asked for */
  double sum;
  x = made(next, x);
  weft_scope *s = weft_scope_open();
  weft_array *y = weft_own(weft_sum(x, WEFT_ALL));
  weft_scope_discard(s);
  EXPECT_OK(weft_read(y, WEFT_F64, &sum, sizeof sum));
  weft_disown(y);
  return x;
}

static weft_array *by_update(array_function next, weft_array *x) {
  double sum;
  weft_scope *s = weft_scope_open();
  weft_array *y = next(x);
  weft_update(x, y);
  weft_fetch(weft_sum(y, WEFT_ALL), WEFT_F64, &sum, sizeof sum);
  EXPECT_OK(weft_scope_close(s));
  return x;
}

static weft_array *by_update_async(array_function next, weft_array *x) {
  weft_scope *s = weft_scope_open();
  weft_update(x, next(x));
  EXPECT_OK(weft_scope_close_async(s));
  EXPECT_OK(weft_wait(0, NULL, -1));
  return x;
}

static weft_array *in_a_trace(array_function next, weft_array *x) { /* values are asked for while history is kept */
  weft_scope *trace = weft_scope_open();
  weft_array *y = by_eval(next, weft_own(weft_alias(x)));
  weft_scope_discard(trace);
  weft_disown(x);
  return y;
}

static const struct { const char *name; way go; } ways[] = {
  { "eval", by_eval }, { "read", by_read }, { "async", by_async }, { "pin", by_pin }, { "with others", with_others },
  { "inside the scope", inside_the_scope }, { "through another", through_another }, { "update", by_update },
  { "update async", by_update_async }, { "in a trace", in_a_trace },
};
enum { WAYS = sizeof ways / sizeof *ways };

/* ---- The claim ---- */

struct held { int64_t nodes, bytes; };
static struct held now(void) { return (struct held){ node_live(), memory_used() }; }

static void go(int e, int w) {
  double start[N];
  for (int i = 0; i < N; i++) start[i] = 1 + i % 7;
  weft_scope *s = weft_scope_open();
  weft_array *x = weft_own(f64s(N, start));
  weft_scope_discard(s);
  struct held warm = { 0 }, most = { 0 };
  for (int i = 0; i < WARM + STEPS; i++) {
    x = ways[w].go(expressions[e].next, x);
    struct held h = now();
    struct held *m = i < WARM ? &warm : &most;
    m->nodes = h.nodes > m->nodes ? h.nodes : m->nodes;
    m->bytes = h.bytes > m->bytes ? h.bytes : m->bytes;
  }
  weft_disown(x);
  if (most.nodes > warm.nodes || most.bytes > warm.bytes)
    test_fail(__FILE__, __LINE__, "%s by %s: %lld nodes and %lld bytes became %lld and %lld", expressions[e].name, ways[w].name,
              (long long)warm.nodes, (long long)warm.bytes, (long long)most.nodes, (long long)most.bytes);
}

TEST(a_program_that_goes_on_holds_the_same_nodes_and_bytes_at_every_step) {
  weft_scope *s = weft_scope_open();
  one = compile_one(), two = compile_two(), parts = compile_parts();
  for (int w = 0; w < WAYS; w++)
    for (int e = 0; e < EXPRESSIONS; e++) go(e, w);
  weft_scope_discard(s);
}

/* ---- Arrays that are held, and never asked for themselves ---- */

static weft_array *waves(weft_array *s) { return weft_add(weft_mul(weft_sin(s), weft_scalar(1.5)), weft_scalar(0.1)); } /* 3 operations */

struct step_figures { int64_t operations, kernels, stored; }; /* operations an element; bytes of arrays that are there afterwards */

/* Asks for the sum of x, and says what that took. */
static struct step_figures sum_of(weft_array *x, int64_t n) {
  weft_cost c;
  double sum;
  int64_t before = memory_used();
  weft_scope *s = weft_scope_open();
  weft_array *y = weft_sum(x, WEFT_ALL);
  EXPECT_OK(weft_plan(1, &y, &c));
  EXPECT_OK(weft_read(y, WEFT_F64, &sum, sizeof sum));
  weft_scope_discard(s);
  return (struct step_figures){ c.operations / n, c.kernels, memory_used() - before };
}

/* In memory: a number would be folded. */
static weft_array *zeros(weft_dtype d, int64_t n) {
  void *data = calloc((size_t)n, weft_dtype_bytes(d));
  weft_array *x = weft_from(d, WEFT_DIMS(n), data);
  free(data);
  return x;
}

static weft_array *owned_zeros(int64_t n) {
  weft_scope *s = weft_scope_open();
  weft_array *x = weft_own(zeros(WEFT_F64, n));
  weft_scope_discard(s);
  return x;
}

/* What the sum of the last one is, by plain C. */
static double wave_sum(int64_t n, int steps) {
  double x = 0;
  for (int i = 0; i < steps; i++) x = sin(x) * 1.5 + 0.1;
  return x * (double)n;
}

TEST(a_small_array_that_an_owner_holds_is_computed_once) {
  enum { SIZE = 8192 }; /* 64 KiB */
  weft_array *x = owned_zeros(SIZE);
  for (int i = 0; i < 300; i++) {
    x = made(waves, x);
    struct step_figures t = sum_of(x, SIZE);
    EXPECT(t.operations <= 4);
    EXPECT_INT(t.kernels, 1);
    if (i > 1) EXPECT_INT(t.stored, 0); /* the one before goes */
  }
  weft_scope *s = weft_scope_open();
  EXPECT_NEAR(one_f64(weft_sum(x, WEFT_ALL)), wave_sum(SIZE, 300), 1e-9);
  weft_scope_discard(s);
  weft_disown(x);
}

TEST(a_large_array_that_an_owner_holds_is_computed_again_from_at_most_64_operations_ago) {
  enum { SIZE = 8193 };
  weft_array *x = owned_zeros(SIZE);
  int n_stored = 0;
  for (int i = 0; i < 300; i++) {
    x = made(waves, x);
    struct step_figures t = sum_of(x, SIZE);
    EXPECT(t.operations <= 64 + 3 + 1);
    EXPECT(t.kernels <= 2);
    EXPECT(memory_used() <= 3 * SIZE * 8);
    n_stored += t.stored > 0;
  }
  EXPECT(n_stored <= 300 * 3 / 64 + 1);
  weft_disown(x);
}

TEST(arrays_of_one_scope_are_stored_once_every_64_operations_and_not_every_node) {
  enum { SIZE = 10000, STEPS_HERE = 300 };
  weft_scope *s = weft_scope_open();
  weft_array *x = zeros(WEFT_F64, SIZE);
  int64_t before = memory_used();
  for (int i = 0; i < STEPS_HERE; i++) {
    x = waves(x);
    struct step_figures t = sum_of(x, SIZE);
    EXPECT(t.operations <= 64 + 3 + 1);
    EXPECT(t.kernels <= 2);
    EXPECT(t.stored <= SIZE * 8);
  }
  EXPECT((memory_used() - before) / (SIZE * 8) <= STEPS_HERE * 3 / 64 + 1);
  EXPECT_NEAR(one_f64(weft_sum(x, WEFT_ALL)), wave_sum(SIZE, STEPS_HERE), 1e-9);
  weft_scope_discard(s);
}

TEST(an_array_of_which_a_part_is_asked_for_is_not_computed_in_full_for_its_own_sake) {
  weft_array *x = owned_zeros(1000);
  weft_scope *s = weft_scope_open();
  weft_array *y = weft_own(waves(x)), *part = weft_own(weft_slice(y, 0, 3, 4, 1));
  weft_scope_discard(s);
  weft_cost c;
  EXPECT_OK(weft_plan(1, &part, &c));
  EXPECT(c.operations <= 3);
  EXPECT_OK(weft_eval(1, &part));
  EXPECT_INT(weft_state_of(y, NULL), WEFT_LAZY);
  weft_disown(part);
  weft_disown(y);
  weft_disown(x);
}

TEST(a_small_array_of_which_parts_are_asked_for_is_computed_from_at_most_64_operations_ago) {
  weft_array *x = owned_zeros(1000);
  for (int i = 0; i < 400; i++) {
    weft_scope *s = weft_scope_open();
    weft_array *next = weft_own(waves(x)), *part = weft_slice(next, 0, 3, 4, 1);
    weft_cost c;
    double got;
    EXPECT_OK(weft_plan(1, &part, &c));
    EXPECT(c.operations <= 70 * 1000);
    EXPECT_OK(weft_read(part, WEFT_F64, &got, sizeof got));
    weft_scope_discard(s);
    weft_disown(x);
    x = next;
    EXPECT(weft_get(WEFT_NODES) < 300);
  }
  weft_disown(x);
}

/* n additions, all of whose results the scope holds. */
static weft_array *long_chain(weft_array *x, int n) {
  for (int i = 0; i < n; i++) x = i % 2 ? weft_sub(x, weft_scalar(0.5)) : weft_add(x, weft_scalar(1));
  return x;
}

TEST(a_chain_of_100000_operations_on_a_million_elements_stores_one_array_for_each_root) {
  enum { SIZE = 1 << 20, CHAIN = 100000 };
  test_watchdog(300);
  weft_scope *s = weft_scope_open();
  weft_array *x = zeros(WEFT_F32, SIZE), *y = long_chain(x, CHAIN), *z = long_chain(y, CHAIN / 100);
  float got;
  weft_cost c;
  weft_set(WEFT_BYTES_PEAK, 0);
  EXPECT_OK(weft_read(weft_max(y, WEFT_ALL), WEFT_F32, &got, sizeof got));
  EXPECT_NEAR(got, 25000, 0);
  EXPECT(memory_used() <= 2 * 4 * SIZE + 1000); /* x, and y */
  weft_array *root = weft_max(z, WEFT_ALL);
  EXPECT_OK(weft_plan(1, &root, &c));
  EXPECT(c.operations / SIZE <= CHAIN / 100 + 2);
  EXPECT_OK(weft_read(root, WEFT_F32, &got, sizeof got));
  EXPECT_NEAR(got, 25250, 0);
  EXPECT(memory_used() <= 3 * 4 * SIZE + 1000);
  EXPECT(weft_get(WEFT_BYTES_PEAK) <= 8 * 4 * SIZE);
  weft_scope_discard(s);
}

/* ---- composed functions ---- */

static weft_array *mean_last(weft_array *x) { return weft_mean(x, -1); }
static weft_array *softmax_last(weft_array *x) { return weft_softmax(x, -1); }
static weft_array *log_softmax_last(weft_array *x) { return weft_log_softmax(x, -1); }
static weft_array *std_first(weft_array *x) { return weft_std(x, 0, 1); }
static weft_array *rms_norm(weft_array *x) { return weft_rms_norm(x, NULL, 1e-5); }
static weft_array *layer_norm(weft_array *x) { return weft_layer_norm(x, NULL, NULL, 1e-5); }
static weft_array *three_factors(weft_array *x) { return weft_einsum("ij,jk,kl->il", 3, (weft_array *[]){ x, x, x }); }
static weft_array *attended(weft_array *x) { return weft_attention(x, x, x, NULL); }
static weft_array *gaps(weft_array *x) { return weft_searchsorted(weft_squeeze(weft_slice(x, 0, 0, 1, 1), 0), x, 0); }

static int n_steps_shown(weft_array *y) { return atoi(weft_show(1, &y, "plan")); } /* it begins with "7 steps" */

TEST(composed_functions_leave_nothing_but_their_result_and_the_plan_that_is_shown_is_the_one_that_is_run) {
  static const struct { const char *name; weft_array *(*f)(weft_array *); } functions[] = {
    { "mean", mean_last }, { "softmax", softmax_last }, { "log_softmax", log_softmax_last }, { "std", std_first },
    { "rms_norm", rms_norm }, { "layer_norm", layer_norm }, { "einsum", three_factors }, { "attention", attended },
    { "searchsorted", gaps }, { "gelu", weft_gelu }, { "silu", weft_silu } };
  enum { SIZE = 48 };
  weft_scope *outside = weft_scope_open();
  weft_array *x = weft_full(WEFT_F32, WEFT_DIMS(SIZE, SIZE), 1);
  x = weft_add(weft_iota(x, 1), x);
  EXPECT_OK(weft_eval(1, &x));
  for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
    weft_scope *s = weft_scope_open();
    int64_t bytes = weft_get(WEFT_BYTES_USED), nodes = weft_get(WEFT_NODES);
    weft_array *y = functions[i].f(x);
    weft_cost cost;
    EXPECT_OK(weft_plan(1, &y, &cost));
    if (cost.kernels != n_steps_shown(y))
      test_fail(__FILE__, __LINE__, "%s: %d steps are planned, %d shown", functions[i].name, (int)cost.kernels, n_steps_shown(y));
    EXPECT_OK(weft_eval(1, &y));
    int64_t size = (int64_t)weft_dtype_bytes(weft_dtype_of(y)), left = weft_get(WEFT_BYTES_USED) - bytes;
    for (int k = 0; k < weft_rank(y); k++) size *= weft_dim(y, k);
    if (left > size + 64)
      test_fail(__FILE__, __LINE__, "%s: %lld bytes are left, the result has %lld", functions[i].name, (long long)left, (long long)size);
    weft_scope_discard(s);
    EXPECT_INT(weft_get(WEFT_NODES), nodes);
  }
  weft_scope_discard(outside);
}

/* ---- the same program, built again, is found by its plan ---- */

static int own_vjp(void *ctx, weft_array *const x[], weft_array *const y[], weft_array *const dy[], weft_array *dx[]) {
  return (void)ctx, (void)y, dx[0] = weft_mul(dy[0], x[0]), 0;
}
static weft_array *with_own_rules(weft_array *x) {
  weft_array *y = weft_tanh(x);
  return weft_custom(1, &x, 1, &y, &(weft_rules){ .vjp = own_vjp }), y;
}
static weft_array *slope(weft_array *(*f)(weft_array *), weft_array *x) {
  weft_array *d;
  return weft_grad(weft_sum(f(x), WEFT_ALL), 1, &x, &d), d;
}
static weft_array *own_slope(weft_array *x) { return slope(with_own_rules, x); }
static weft_array *mapped_own(weft_array *x) {
  weft_array *row = weft_squeeze(weft_slice(x, 0, 0, 1, 1), 0), *y = with_own_rules(row), *ys;
  return weft_map(1, &row, &x, 1, &y, &ys), ys;
}
static weft_array *looped_own(weft_array *x) { return repeated(3, x, with_own_rules); }
static weft_array *looped_slope(weft_array *x) { return slope(looped_own, x); }
static weft_array *filtered(weft_array *x) {
  weft_array *image = weft_reshape(x, WEFT_DIMS(2, 8, 6, 3)), *w = weft_reshape(weft_slice(weft_reshape(x, WEFT_DIMS(288)), 0, 0, 108, 1), WEFT_DIMS(4, 3, 3, 3));
  return weft_conv(image, w, &(weft_conv_options){ .before = (int64_t[]){ 1, 1 }, .after = (int64_t[]){ 1, 1 } });
}
static weft_array *filtered_slope(weft_array *x) { return slope(filtered, x); }
static weft_array *kept_not(weft_array *x) {
  weft_array *y = weft_tanh(weft_exp(x));
  return weft_checkpoint(1, &x, 1, &y), y;
}
static weft_array *checkpoint_slope(weft_array *x) { return slope(kept_not, x); }
static weft_array *attended_slope(weft_array *x) { return slope(attended, x); }
static weft_array *transformed_back(weft_array *x) { return weft_irfft(weft_slice(weft_fft(x, 0, 1), -1, 0, 9, 1), 16, 1); }

TEST(a_program_that_is_built_again_is_planned_once) {
  static const struct { const char *name; weft_array *(*f)(weft_array *); } functions[] = {
    { "own rules", with_own_rules }, { "their slope", own_slope }, { "own rules in a map", mapped_own },
    { "own rules in a loop", looped_own }, { "its slope", looped_slope }, { "conv", filtered }, { "its slope", filtered_slope },
    { "checkpoint", kept_not }, { "its slope", checkpoint_slope }, { "attention", attended }, { "its slope", attended_slope },
    { "fft", transformed_back }, { "until", stopped }, { "layer_norm", layer_norm } };
  for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
    size_t after[3];
    weft_scope *all = weft_scope_open(); /* all three live at the end: nothing of one stands where another was */
    plan_drop_all();
    for (int k = 0; k < 3; k++) {
      weft_array *x = weft_full(WEFT_F32, WEFT_DIMS(18, 16), 0.3);
      EXPECT_OK(weft_eval(1, &x));
      weft_array *y = functions[i].f(x);
      EXPECT_OK(weft_eval(1, &y));
      after[k] = plan_table_bytes();
    }
    weft_scope_discard(all);
    if (after[1] != after[0] || after[2] != after[0])
      test_fail(__FILE__, __LINE__, "%s: plans take %zu bytes, and %zu and %zu when it is built again", functions[i].name, after[0], after[1], after[2]);
  }
}
