/* siblings.c -- results of one call: whoever computes one computes those beside it that somebody holds, so that what is held and
 * not asked for keeps neither the call nor its arguments; and computes none that nobody holds.
 *
 * A state goes from step to step, and a loss beside it is held in one of several ways and never asked for. Each is combined with
 * each way to evaluate the state and each kind of function. Nodes and bytes are looked at while all of it lives. */
#include <pthread.h>
#include "graph/node.h"
#include "run/memory.h"
#include "values.h"

enum { N = 1000, WARM = 8, STEPS = 40, STATE_BYTES = N * 8 };

/* ---- Functions of a state: the next one, its loss, and something that nobody takes ---- */

static double next_of(double x) { return 0.5 * x + 0.25; }

static weft_array *next(weft_array *x) { return weft_add(weft_mul(x, weft_scalar(0.5)), weft_scalar(0.25)); }
static weft_array *loss(weft_array *x) { return weft_sum(weft_mul(x, x), WEFT_ALL); }

static weft_function *compiled(weft_array *add) {
  weft_scope *s = weft_scope_open();
  weft_array *x = weft_input(WEFT_F64, WEFT_DIMS(WEFT_ANY)), *y = next(x);
  if (add) y = weft_add(y, add);
  return weft_compile(s, 1, &x, 3, (weft_array *[]){ loss(x), y, weft_tanh(weft_mul(x, weft_scalar(7))) });
}

static weft_function *plain(void) { return compiled(NULL); }
static weft_function *capturing(void) { return compiled(weft_full(WEFT_F64, WEFT_DIMS(N), 0)); }

/* A computed number of steps inside: such a function is planned part by part. */
static weft_function *by_parts(void) {
  weft_scope *s = weft_scope_open();
  weft_array *x = weft_input(WEFT_F64, WEFT_DIMS(WEFT_ANY));
  weft_loop *l = weft_loop_open(weft_cast(weft_sum(weft_mul(x, weft_scalar(0)), WEFT_ALL), WEFT_I64));
  weft_array *c = weft_loop_carry(l, x);
  weft_loop_next(l, c, weft_mul(c, weft_scalar(0.5)));
  weft_array *rows = weft_loop_all(l, c);
  weft_loop_close(l);
  weft_array *zero = weft_sum(rows, WEFT_ALL);
  return weft_compile(s, 1, &x, 3, (weft_array *[]){ weft_add(loss(x), zero), weft_add(next(x), zero), weft_tanh(plus(x, 7)) });
}

/* Its derivative beside the loss, by which it goes on: x - (0.25 * 2 x - 0.25). */
static weft_function *differentiated(void) {
  weft_scope *s = weft_scope_open();
  weft_array *x = weft_input(WEFT_F64, WEFT_DIMS(WEFT_ANY)), *y = loss(x), *dx;
  weft_grad(y, 1, &x, &dx);
  weft_array *on = weft_sub(x, weft_sub(weft_mul(dx, weft_scalar(0.25)), weft_scalar(0.25)));
  return weft_compile(s, 1, &x, 3, (weft_array *[]){ y, on, dx });
}

/* A call inside. */
static weft_function *nested(void) {
  weft_function *f = plain();
  weft_scope *s = weft_scope_open();
  weft_array *x = weft_input(WEFT_F64, WEFT_DIMS(WEFT_ANY)), *out[3];
  weft_call(f, 1, &x, 3, out);
  return weft_compile(s, 1, &x, 3, out);
}

static const struct { const char *name; weft_function *(*make)(void); } functions[] = {
  { "plain", plain }, { "capturing", capturing }, { "by parts", by_parts }, { "differentiated", differentiated },
  { "nested", nested },
};
enum { FUNCTIONS = sizeof functions / sizeof *functions };

/* ---- Ways to hold the loss: what stays of a step is theirs ---- */

struct keeper { int n; weft_array *kept[WARM + STEPS]; };

static void in_a_list(struct keeper *k, weft_array *y) { k->kept[k->n++] = weft_own(y); }
static void made_into(struct keeper *k, weft_array *y) { k->kept[k->n++] = weft_own(weft_mul(weft_scalar(1), y)); }
static void seen_by(struct keeper *k, weft_array *y) { k->kept[k->n++] = weft_own(weft_reshape(y, WEFT_DIMS(1))); }
static weft_function *square;
static void as_argument(struct keeper *k, weft_array *y) {
  weft_array *out;
  weft_call(square, 1, &y, 1, &out);
  k->kept[k->n++] = weft_own(out);
}
static void in_a_sum(struct keeper *k, weft_array *y) {
  weft_array *before = k->n ? k->kept[0] : NULL;
  k->kept[0] = weft_own(before ? weft_add(before, y) : weft_mul(weft_scalar(1), y));
  if (before) weft_disown(before);
  k->n = 1;
}
static void the_last(struct keeper *k, weft_array *y) {
  if (k->n) weft_disown(k->kept[0]);
  k->kept[0] = weft_own(y);
  k->n = 1;
}

enum what { EACH, SQUARES, SUM, LAST };
/* has_owner: of the loss itself, not of something made of it. */
static const struct { const char *name; void (*keep)(struct keeper *, weft_array *loss); enum what what; bool has_owner; } holdings[] = {
  { "in a list", in_a_list, EACH, true }, { "made into others", made_into, EACH, false }, { "seen by views", seen_by, EACH, false },
  { "as arguments of calls", as_argument, SQUARES, false }, { "in a sum", in_a_sum, SUM, false }, { "the last", the_last, LAST, true },
};
enum { HOLDINGS = sizeof holdings / sizeof *holdings };

/* ---- Ways to go on ---- */

static weft_function *f;
static int holding;

/* In a scope that ends: the next state, owned, which takes the place of x. */
static weft_array *made(weft_array *x, struct keeper *k) {
  weft_array *out[3];
  weft_scope *s = weft_scope_open();
  weft_call(f, 1, &x, 3, out);
  holdings[holding].keep(k, out[0]);
  weft_own(out[1]);
  weft_scope_discard(s);
  weft_disown(x);
  return out[1];
}

static weft_array *by_eval(weft_array *x, struct keeper *k) {
  x = made(x, k);
  EXPECT_OK(weft_eval(1, &x));
  return x;
}

static weft_array *by_eval_of_it_twice(weft_array *x, struct keeper *k) {
  x = made(x, k);
  EXPECT_OK(weft_eval(2, (weft_array *[]){ x, x }));
  return x;
}

static weft_array *by_read(weft_array *x, struct keeper *k) {
  double got[N];
  x = made(x, k);
  EXPECT_OK(weft_read(x, WEFT_F64, got, sizeof got));
  return x;
}

static weft_array *by_async(weft_array *x, struct keeper *k) {
  x = made(x, k);
  EXPECT_OK(weft_eval_async(1, &x));
  EXPECT_OK(weft_wait(0, NULL, -1));
  return x;
}

static weft_array *by_pin(weft_array *x, struct keeper *k) {
  weft_block b;
  x = made(x, k);
  EXPECT_OK(weft_pin(x, 0, &b));
  weft_unpin(x);
  return x;
}

static weft_array *every_other_step(weft_array *x, struct keeper *k) {
  x = made(made(x, k), k);
  EXPECT_OK(weft_eval(1, &x));
  return x;
}

static weft_array *with_others(weft_array *x, struct keeper *k) {
  x = made(x, k);
  expect_evaluated_beside_others(x);
  return x;
}

static weft_array *through_another(weft_array *x, struct keeper *k) { /* only a sum of it is asked for */
  double sum;
  x = made(x, k);
  weft_scope *s = weft_scope_open();
  weft_array *y = weft_own(weft_sum(x, WEFT_ALL));
  weft_scope_discard(s);
  EXPECT_OK(weft_read(y, WEFT_F64, &sum, sizeof sum));
  weft_disown(y);
  return x;
}

static weft_array *inside_the_scope(weft_array *x, struct keeper *k) {
  weft_array *out[3];
  weft_scope *s = weft_scope_open();
  weft_call(f, 1, &x, 3, out);
  holdings[holding].keep(k, out[0]);
  weft_own(out[1]);
  EXPECT_OK(weft_eval(1, &out[1]));
  weft_scope_discard(s);
  weft_disown(x);
  return out[1];
}

static void close_with(weft_array *x, struct keeper *k, bool waits) {
  weft_array *out[3];
  weft_scope *s = weft_scope_open();
  weft_call(f, 1, &x, 3, out);
  holdings[holding].keep(k, out[0]);
  weft_update(x, out[1]);
  EXPECT_OK(waits ? weft_scope_close(s) : weft_scope_close_async(s));
  EXPECT_OK(weft_wait(0, NULL, -1));
}

static weft_array *by_update(weft_array *x, struct keeper *k) { return close_with(x, k, true), x; }
static weft_array *by_update_async(weft_array *x, struct keeper *k) { return close_with(x, k, false), x; }

static weft_array *in_a_trace(weft_array *x, struct keeper *k) { /* values are asked for while history is kept */
  weft_scope *trace = weft_scope_open();
  weft_array *y = by_eval(weft_own(weft_alias(x)), k);
  weft_scope_discard(trace);
  weft_disown(x);
  return y;
}

/* has_names: when the step is over a scope is open by whose names one can ask how things were made. */
static const struct { const char *name; weft_array *(*go)(weft_array *x, struct keeper *); int steps; bool has_names; } ways[] = {
  { "eval", by_eval, 1 }, { "eval of it twice", by_eval_of_it_twice, 1 }, { "read", by_read, 1 }, { "async", by_async, 1 },
  { "pin", by_pin, 1 }, { "every other step", every_other_step, 2 }, { "with others", with_others, 1 },
  { "through another", through_another, 1 }, { "inside the scope", inside_the_scope, 1 }, { "update", by_update, 1 },
  { "update async", by_update_async, 1 }, { "in a trace", in_a_trace, 1, true },
};
enum { WAYS = sizeof ways / sizeof *ways };

/* ---- The claim ---- */

/* What was kept, by plain C. */
static void expect_kept(const struct keeper *k) {
  double x[N], sum = 0, of[WARM + STEPS];
  for (int i = 0; i < N; i++) x[i] = 1 + i % 7;
  for (int step = 0; step < WARM + STEPS; step++) {
    of[step] = 0;
    for (int i = 0; i < N; i++) of[step] += x[i] * x[i], x[i] = next_of(x[i]);
    sum += of[step];
  }
  enum what what = holdings[holding].what;
  for (int i = 0; i < k->n; i++) {
    double got, want = what == SUM ? sum : what == LAST ? of[WARM + STEPS - 1] : what == SQUARES ? of[i] * of[i] : of[i];
    EXPECT_OK(weft_read(k->kept[i], WEFT_F64, &got, sizeof got));
    EXPECT_NEAR(got, want, 1e-12);
  }
}

static void go(int fn, int w) {
  double start[N];
  struct keeper k = { 0 };
  for (int i = 0; i < N; i++) start[i] = 1 + i % 7;
  weft_scope *s = weft_scope_open();
  weft_array *x = weft_own(f64s(N, start));
  weft_scope_discard(s);
  int64_t bytes = 0, nodes = 0;
  for (int i = 0; i < WARM + STEPS; i += ways[w].steps) {
    x = ways[w].go(x, &k);
    if (i + ways[w].steps == WARM) bytes = memory_used(), nodes = node_live();
  }
  bytes = memory_used() - bytes, nodes = node_live() - nodes;
  if (bytes > 2 * STATE_BYTES || nodes > 5 * STEPS) /* a loss has 64 bytes */
    test_fail(__FILE__, __LINE__, "%s, %s, %s: %d steps have left %lld nodes and %lld bytes", functions[fn].name,
              holdings[holding].name, ways[w].name, STEPS, (long long)nodes, (long long)bytes);
  expect_kept(&k);
  for (int i = 0; i < k.n; i++) weft_disown(k.kept[i]);
  weft_disown(x);
}

static weft_function *compile_square(void) {
  weft_scope *s = weft_scope_open();
  weft_array *x = weft_input(WEFT_F64, 0, NULL), *y = weft_mul(x, x);
  return weft_function_own(weft_compile(s, 1, &x, 1, &y));
}

TEST(a_result_that_is_held_and_not_asked_for_keeps_no_arguments_of_its_call) {
  test_watchdog(300);
  weft_scope *own = weft_scope_open();
  square = compile_square();
  weft_scope_discard(own);
  for (int fn = 0; fn < FUNCTIONS; fn++) {
    weft_scope *s = weft_scope_open();
    f = functions[fn].make();
    weft_function_own(f);
    weft_scope_discard(s);
    for (holding = 0; holding < HOLDINGS; holding++)
      for (int w = 0; w < WAYS; w++) if (holdings[holding].has_owner || !ways[w].has_names) go(fn, w);
    weft_function_disown(f);
  }
  weft_function_disown(square);
}

/* ---- What is computed, and what is not ---- */

/* Two results of x: x + 1, and what `aside` makes of it. Owned. */
static void call_with_aside(weft_array *(*aside)(weft_array *), weft_array *x, weft_array *out[2]) {
  weft_scope *s = weft_scope_open(), *body = weft_scope_open();
  weft_array *in = weft_input(WEFT_F64, WEFT_DIMS(WEFT_ANY));
  weft_function *g = weft_compile(body, 1, &in, 2, (weft_array *[]){ plus(in, 1), aside(in) });
  weft_call(g, 1, &x, 2, out);
  weft_own(out[0]), weft_own(out[1]);
  weft_scope_discard(s);
}

static weft_array *owned_three(void) {
  weft_scope *s = weft_scope_open();
  weft_array *x = weft_own(f64s(3, (double[]){ 1, 2, 4 }));
  weft_scope_discard(s);
  return x;
}

static int n_runs, fails; /* of the function of the host */

static int count_run(void *ctx, const weft_block in[], const weft_block out[]) {
  (void)ctx;
  n_runs++;
  if (fails) return WEFT_ERR_ARG;
  for (int i = 0; i < 3; i++) ((double *)out[0].data)[i] = 2 * ((const double *)in[0].data)[i];
  return 0;
}

static weft_array *counted(weft_array *x) {
  weft_host_function h = { NULL, count_run, NULL };
  weft_array *y;
  weft_host_like(&h, 1, &x, 1, &x, &y);
  return y;
}

static void expect_three(weft_array *y, double a, double b, double c) {
  double got[3] = { 0 };
  EXPECT_OK(weft_read(y, WEFT_F64, got, sizeof got));
  EXPECT(got[0] == a && got[1] == b && got[2] == c);
}

TEST(a_result_that_is_held_is_computed_once_and_one_that_nobody_holds_is_not) {
  for (int is_held = 0; is_held < 2; is_held++) {
    weft_array *x = owned_three(), *out[2];
    call_with_aside(counted, x, out);
    if (!is_held) weft_disown(out[1]);
    n_runs = 0;
    expect_three(out[0], 2, 3, 5);
    EXPECT_INT(n_runs, is_held);
    if (is_held) {
      EXPECT_INT(weft_state_of(out[1], NULL), WEFT_READY);
      expect_three(out[1], 2, 4, 8);
      EXPECT_INT(n_runs, 1);
      weft_disown(out[1]);
    }
    weft_disown(out[0]);
    weft_disown(x);
  }
}

TEST(a_result_that_only_its_scope_names_is_not_computed_beside_another) {
  weft_scope *s = weft_scope_open();
  weft_array *x = f64s(3, (double[]){ 1, 2, 4 }), *out[2];
  weft_scope *body = weft_scope_open();
  weft_array *in = weft_input(WEFT_F64, WEFT_DIMS(WEFT_ANY));
  weft_function *g = weft_compile(body, 1, &in, 2, (weft_array *[]){ plus(in, 1), counted(in) });
  weft_call(g, 1, &x, 2, out);
  n_runs = 0;
  EXPECT_F64(out[0], 2, 3, 5);
  EXPECT_INT(n_runs, 0);
  EXPECT_F64(out[1], 2, 4, 8);
  EXPECT_INT(n_runs, 1);
  weft_scope_discard(s);
}

static weft_array *asserted(weft_array *x) {
  return weft_assert(x, weft_gt(weft_sum(x, WEFT_ALL), weft_scalar(100)), "the sum is small");
}

static weft_array *out_of_range(weft_array *x) { return weft_take(x, 1, (weft_array *[]){ weft_cast(x, WEFT_I64) }); }

TEST(a_result_does_not_fail_because_one_beside_it_does) {
  static weft_array *(*const asides[])(weft_array *) = { asserted, out_of_range, counted };
  fails = 1;
  for (int i = 0; i < 3; i++)
    for (int in_background = 0; in_background < 2; in_background++) {
      weft_array *x = owned_three(), *out[2];
      double got[3];
      call_with_aside(asides[i], x, out);
      EXPECT_OK(in_background ? weft_eval_async(1, out) : weft_eval(1, out));
      EXPECT_OK(weft_wait(1, out, -1));
      expect_three(out[0], 2, 3, 5);
      EXPECT(weft_read(out[1], WEFT_F64, got, sizeof got) != WEFT_OK); /* it says so itself */
      weft_disown(out[0]), weft_disown(out[1]), weft_disown(x);
    }
  EXPECT_OK(weft_wait(0, NULL, -1)); /* until the last job has gone */
  fails = 0;
}

/* ---- Names: an input of a function, or a variable of a loop, that is being written, and that the function of a call has captured ----
 * One result reads it, the other does not. Whatever is asked meanwhile, the name's reader has no value yet, and does not fail: it is
 * used in what is being written. */

static weft_function *with_name(weft_array *name) {
  weft_scope *body = weft_scope_open();
  weft_array *in = weft_input(WEFT_F64, WEFT_DIMS(3));
  return weft_compile(body, 1, &in, 2, (weft_array *[]){ plus(in, 1), weft_mul(in, name) });
}

static void once(weft_array *name, weft_array *x, weft_array *out[2]) { weft_call(with_name(name), 1, &x, 2, out); }

/* What the function has captured is made of a name. */
static void of_another(weft_array *name, weft_array *x, weft_array *out[2]) { once(weft_mul(name, weft_scalar(1)), x, out); }

/* What the function has captured is what another call gave. */
static void twice(weft_array *name, weft_array *x, weft_array *out[2]) {
  weft_array *one = weft_full(WEFT_F64, WEFT_DIMS(3), 1), *inner[2];
  weft_call(with_name(name), 1, &one, 2, inner);
  weft_call(with_name(inner[1]), 1, &x, 2, out);
}

static void ask_eval(weft_array *out[2]) { EXPECT_OK(weft_eval(1, out)); }
static void ask_read(weft_array *out[2]) { expect_three(out[0], 2, 3, 5); }
static void ask_size(weft_array *out[2]) { EXPECT_INT(weft_dim(out[0], 0), 3); }
static void ask_async(weft_array *out[2]) {
  EXPECT_OK(weft_eval_async(1, out));
  EXPECT_OK(weft_wait(1, out, -1));
  EXPECT_OK(weft_wait(0, NULL, -1));
}
static void ask_reader(weft_array *out[2]) { EXPECT_INT(weft_eval(1, out + 1), WEFT_ERR_NO_VALUE); }
static void ask_reader_async(weft_array *out[2]) {
  EXPECT_INT(weft_eval_async(1, out + 1), WEFT_ERR_NO_VALUE);
  EXPECT_OK(weft_wait(0, NULL, -1));
}
static void ask_made_of_reader_async(weft_array *out[2]) {
  weft_array *y = plus(out[1], 1);
  EXPECT_INT(weft_eval_async(1, &y), WEFT_ERR_NO_VALUE);
  EXPECT_OK(weft_check(y));
}
static void ask_both_async(weft_array *out[2]) { EXPECT_INT(weft_eval_async(2, out), WEFT_ERR_NO_VALUE); }
static void ask_other_after_reader(weft_array *out[2]) { ask_reader_async(out), ask_async(out), ask_reader(out), ask_read(out); }

static void (*const asks_meanwhile[])(weft_array *[2]) = {
  ask_eval, ask_read, ask_size, ask_async, ask_reader, ask_reader_async, ask_made_of_reader_async, ask_both_async,
  ask_other_after_reader,
};

static weft_array *meanwhile(void (*make)(weft_array *, weft_array *, weft_array *[2]), int how, bool is_held, weft_array *name) {
  weft_array *x = f64s(3, (double[]){ 1, 2, 4 }), *out[2];
  make(name, x, out);
  if (is_held) weft_own(out[0]), weft_own(out[1]);
  asks_meanwhile[how](out);
  EXPECT_OK(weft_check(out[0]));
  EXPECT_OK(weft_check(out[1]));
  EXPECT_INT(weft_state_of(out[1], NULL), WEFT_LAZY);
  weft_array *sum = weft_add(out[0], out[1]);
  if (is_held) weft_disown(out[0]), weft_disown(out[1]);
  return sum;
}

TEST(a_result_that_reads_a_name_is_not_computed_beside_another_and_does_not_fail) {
  static void (*const makes[])(weft_array *, weft_array *, weft_array *[2]) = { once, of_another, twice };
  int n_ways = (int)(sizeof asks_meanwhile / sizeof *asks_meanwhile);
  for (int i = 0; i < 3 * 2 * n_ways; i++) {
    weft_scope *s = weft_scope_open(), *body = weft_scope_open();
    weft_array *in = weft_input(WEFT_F64, WEFT_DIMS(3)), *y = meanwhile(makes[i % 3], i / 6, i / 3 % 2, in);
    weft_function *g = weft_compile(body, 1, &in, 1, &y);
    weft_call(g, 1, (weft_array *[]){ weft_full(WEFT_F64, WEFT_DIMS(3), 1) }, 1, &y);
    expect_three(y, 3, 5, 9);
    weft_loop *l = weft_loop_open(weft_integer(2));
    weft_array *c = weft_loop_carry(l, weft_full(WEFT_F64, WEFT_DIMS(3), 1));
    weft_loop_next(l, c, meanwhile(makes[i % 3], i / 6, i / 3 % 2, c));
    weft_array *last = weft_loop_last(l, c);
    weft_loop_close(l);
    expect_three(last, 5, 13, 41);
    weft_scope_discard(s);
  }
}

TEST(a_result_is_computed_where_there_is_no_room_for_one_beside_it) {
  enum { ROWS = 1 << 10 };
  weft_scope *s = weft_scope_open(), *body = weft_scope_open();
  weft_array *in = weft_input(WEFT_F64, WEFT_DIMS(ROWS)), *out[2];
  weft_array *wide = weft_mul(weft_reshape(in, WEFT_DIMS(ROWS, 1)), in); /* 8 MiB */
  weft_function *g = weft_compile(body, 1, &in, 2, (weft_array *[]){ plus(in, 1), wide });
  weft_array *x = weft_full(WEFT_F64, WEFT_DIMS(ROWS), 1);
  EXPECT_OK(weft_eval(1, &x));
  weft_call(g, 1, &x, 2, out);
  weft_own(out[1]);
  int64_t most = weft_set(WEFT_BYTES_LIMIT, weft_get(WEFT_BYTES_USED) + (1 << 20));
  EXPECT_OK(weft_eval(1, out));
  EXPECT_INT(weft_state_of(out[1], NULL), WEFT_LAZY);
  weft_set(WEFT_BYTES_LIMIT, most);
  EXPECT_NEAR(one_f64(weft_max(out[0], WEFT_ALL)), 2, 0);
  EXPECT_NEAR(one_f64(weft_sum(out[1], WEFT_ALL)), (double)ROWS * ROWS, 0);
  weft_disown(out[1]);
  weft_scope_discard(s);
}

/* ---- Threads ---- */

static weft_function *shared;

/* Calls whose results are asked for, given up and held by turns: in every thread some end while others look for them. */
static void *calls_and_drops(void *of) {
  weft_array *held[8] = { 0 }, *x = owned_three();
  for (int i = 0; i < 3000; i++) {
    weft_array *out[3];
    weft_scope *s = weft_scope_open();
    weft_call(shared, 1, &x, 3, out);
    for (int k = 0; k < 3; k++) weft_own(out[k]);
    weft_scope_discard(s);
    if (i % 3 == 0) weft_disown(held[i % 8]), held[i % 8] = weft_own(out[0]);
    if (i % 4 == 1 && weft_eval_async(1, &out[2])) *(int *)of += 1;
    if (i % 2) weft_disown(out[0]);
    if (weft_eval(1, &out[1])) *(int *)of += 1;
    if (i % 2 == 0) weft_disown(out[0]);
    weft_disown(out[1]), weft_disown(out[2]);
  }
  for (int k = 0; k < 8; k++) {
    double got = 0;
    if (held[k] && (weft_read(held[k], WEFT_F64, &got, sizeof got) || got != 21)) *(int *)of += 1;
    weft_disown(held[k]);
  }
  weft_disown(x);
  if (weft_wait(0, NULL, -1)) *(int *)of += 1;
  return NULL;
}

TEST(results_end_in_one_thread_while_others_look_for_them) {
  pthread_t t[4];
  int wrong[4] = { 0 };
  int64_t nodes = node_live();
  weft_scope *s = weft_scope_open();
  shared = plain();
  for (int i = 0; i < 4; i++) pthread_create(&t[i], NULL, calls_and_drops, &wrong[i]);
  for (int i = 0; i < 4; i++) pthread_join(t[i], NULL);
  for (int i = 0; i < 4; i++) EXPECT_INT(wrong[i], 0);
  weft_scope_discard(s);
  EXPECT_INT(node_live(), nodes);
}

/* One call, whose results every thread asks for: another one each, and drops it. */
static void *asks(void *a) {
  weft_array *y = a;
  weft_status status = weft_eval(1, &y);
  weft_disown(y);
  return (void *)(intptr_t)status;
}

TEST(threads_ask_for_the_results_of_one_call) {
  weft_scope *s = weft_scope_open();
  shared = plain();
  for (int i = 0; i < 300; i++) {
    pthread_t t[3];
    void *status;
    weft_array *x = owned_three(), *out[3];
    weft_scope *call = weft_scope_open();
    weft_call(shared, 1, &x, 3, out);
    for (int k = 0; k < 3; k++) weft_own(out[k]);
    weft_scope_discard(call);
    for (int k = 0; k < 3; k++) pthread_create(&t[k], NULL, asks, out[k]);
    for (int k = 0; k < 3; k++) {
      pthread_join(t[k], &status);
      EXPECT_INT((int)(intptr_t)status, 0);
    }
    weft_disown(x);
  }
  weft_scope_discard(s);
}
