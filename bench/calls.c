/* calls.c -- what weft itself costs, beside the arithmetic: a tiny call, a node, a plan found or made, a kernel compiled,
 * a very long chain, loops of few and many steps, and how many kernels many sizes, starts and numbers need.
 *
 *   calls [rounds [operations of the very long chain]]
 *   calls WORK rounds    one work alone, rounds of 100 each, nothing printed: bench/instructions counts them.
 *                        WORK: call, eval, graph, product, chain, grad, first, sum, softmax, norm, normgrad, scan, logp, mlp,
 *                        block
 *
 * Times are processor time of one thread, the best of many short rounds, so that whatever else the machine does is left
 * out. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "backend/backend.h"
#include "base/text.h"
#include "run/compiled.h"
#include "run/plan.h"
#include "weft.h"

static int rounds = 200;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void must(weft_status s) {
  if (s == WEFT_OK) return;
  fprintf(stderr, "%s\n", weft_message());
  exit(1);
}

static double least(double a, double b) { return a < b ? a : b; }

static int by_value(const void *a, const void *b) {
  return *(const double *)a < *(const double *)b ? -1 : *(const double *)a > *(const double *)b;
}

static void row(const char *what, double value, const char *unit, const char *target) {
  printf("  %-66s %9.1f %-8s %s\n", what, value, unit, target);
  fflush(stdout);
}

/* ---- a tiny call ---- */

static weft_function *increment(void) {
  weft_scope *body = weft_scope_open();
  weft_array *x = weft_input(WEFT_F32, WEFT_DIMS(WEFT_ANY)), *y = weft_add(x, weft_scalar(1));
  return weft_compile(body, 1, &x, 1, &y);
}

enum { CALLS = 100 };

/* ns of a call in a scope of its own, its result read (or only stored). */
static double tiny_call(weft_function *f, weft_array *x, int reads) {
  float out[8];
  double start = now();
  for (int i = 0; i < CALLS; i++) {
    weft_scope *s = weft_scope_open();
    weft_array *y;
    weft_call(f, 1, &x, 1, &y);
    must(reads ? weft_read(y, WEFT_F32, out, sizeof out) : weft_eval(1, &y));
    weft_scope_discard(s);
  }
  return (now() - start) / CALLS;
}

/* The same without a function: the graph is made, its plan found, and run. */
static double tiny_graph(weft_array *x) {
  float out[8];
  double start = now();
  for (int i = 0; i < CALLS; i++) {
    weft_scope *s = weft_scope_open();
    must(weft_read(weft_add(x, weft_scalar(1)), WEFT_F32, out, sizeof out));
    weft_scope_discard(s);
  }
  return (now() - start) / CALLS;
}

static weft_function *product(void) {
  weft_scope *body = weft_scope_open();
  weft_array *in[] = { weft_input(WEFT_F32, WEFT_DIMS(16, 16)), weft_input(WEFT_F32, WEFT_DIMS(16, 16)) };
  weft_array *y = weft_matmul(in[0], in[1]);
  return weft_compile(body, 2, in, 1, &y);
}

static void tiny_product(weft_function *f, weft_array *a) {
  for (int i = 0; i < CALLS; i++) {
    weft_scope *s = weft_scope_open();
    weft_array *y;
    weft_call(f, 2, (weft_array *[]){ a, a }, 1, &y);
    must(weft_eval(1, &y));
    weft_scope_discard(s);
  }
}

/* 200 multiplications and additions on 1024 elements, compiled. */
static double chained_call(void) {
  static float data[1024];
  double best = 1e18;
  weft_scope *s = weft_scope_open(), *body = weft_scope_open();
  weft_array *x = weft_input(WEFT_F32, WEFT_DIMS(WEFT_ANY)), *y = x;
  for (int i = 0; i < 200; i++) y = weft_add(weft_mul(y, weft_scalar(0.5)), weft_scalar((i % 7) * 0.25));
  weft_function *f = weft_compile(body, 1, &x, 1, &y);
  x = weft_from(WEFT_F32, WEFT_DIMS(1024), data);
  for (int r = 0; r < rounds; r++) best = least(best, tiny_call(f, x, 0));
  weft_scope_discard(s);
  return best;
}

static void time_tiny_calls(void) {
  float data[8] = { 0 };
  weft_scope *s = weft_scope_open();
  weft_array *x = weft_from(WEFT_F32, WEFT_DIMS(8), data);
  weft_function *f = increment();
  double eval = 1e18, graph = 1e18, *read = malloc((size_t)rounds * sizeof *read);
  if (!read) exit(1);
  for (int r = 0; r < rounds; r++) {
    eval = least(eval, tiny_call(f, x, 0));
    read[r] = tiny_call(f, x, 1);
    graph = least(graph, tiny_graph(x));
  }
  qsort(read, (size_t)rounds, sizeof *read, by_value);
  row("x + 1 on 8 elements, compiled function: scope, call, read", read[0], "ns", "< 500");
  row("  the median of all rounds", read[rounds / 2], "ns", "< 500");
  row("  the slowest in a hundred", read[rounds * 99 / 100], "ns", "");
  free(read);
  row("the same, evaluated and not read", eval, "ns", "< 500");
  row("the same as a graph of its own: scope, two nodes, plan found, read", graph, "ns", "");
  weft_scope_discard(s);
  row("200 multiplications and additions on 1024 elements, compiled", chained_call() / 1e3, "us", "< 10");
}

/* ---- nodes and plans ---- */

enum { OPS = 200, WIDTH = 16 };

/* A chain of OPS operations; bit i % 32 of `pattern` chooses the i-th. */
static weft_array *chain(weft_array *x, weft_array *a, int n, uint32_t pattern) {
  weft_array *y = x;
  for (int i = 0; i < n; i++) y = pattern >> (i % 32) & 1 ? weft_add(y, a) : weft_mul(y, a);
  return y;
}

struct cost { double build, eval, free; };

static struct cost chain_cost(int width, uint32_t pattern) {
  static float data[4 * WIDTH * 1024];
  struct cost c;
  weft_scope *s = weft_scope_open();
  weft_array *x = weft_from(WEFT_F32, WEFT_DIMS(width), data), *a = weft_from(WEFT_F32, WEFT_DIMS(width), data);
  double start = now();
  weft_array *y = chain(x, a, OPS, pattern);
  double built = now();
  must(weft_eval(1, &y));
  double done = now();
  weft_scope_discard(s);
  c.build = (built - start) / OPS, c.eval = (done - built) / OPS, c.free = (now() - done) / OPS;
  return c;
}

static struct cost best_of(struct cost a, struct cost b) {
  return (struct cost){ least(a.build, b.build), least(a.eval, b.eval), least(a.free, b.free) };
}

static void time_nodes(void) {
  struct cost hit = { 1e18, 1e18, 1e18 }, size = hit, text = hit;
  for (int r = 0; r < rounds; r++) {
    hit = best_of(hit, chain_cost(WIDTH, 0x5a5a5a5a));
    size = best_of(size, chain_cost(WIDTH + 1 + r, 0x5a5a5a5a));
    text = best_of(text, chain_cost(WIDTH, 0x9e3779b9u * (uint32_t)(r + 1)));
  }
  row("a node: to build", hit.build, "ns", "");
  row("a node: to free", hit.free, "ns", "");
  row("chain of 200 on 16, plan found: evaluation a node", hit.eval, "ns/node", "< 1000");
  row("  plan made, kernel found (another length)", size.eval, "ns/node", "");
  row("  plan made, kernel compiled (another chain)", text.eval, "ns/node", "");
}

/* ---- never seen before ---- */

static weft_array *make_softmax(weft_array *x, weft_array *w) { return (void)w, weft_softmax(x, -1); }
static weft_array *make_norm(weft_array *x, weft_array *w) { return weft_layer_norm(x, w, w, 1e-5); }
static weft_array *make_sum(weft_array *x, weft_array *w) { return (void)w, weft_sum(x, 0); }
static weft_array *make_increment(weft_array *x, weft_array *w) { return (void)w, weft_add(x, weft_scalar(1)); }
static weft_array *make_norm_grad(weft_array *x, weft_array *w) {
  weft_array *dx, *y = weft_layer_norm(x, w, w, 1e-5);
  weft_grad(weft_mul(y, y), 1, &x, &dx);
  return dx;
}
static weft_array *make_scan(weft_array *x, weft_array *w) {
  weft_loop *l = weft_loop_open(NULL);
  weft_array *e = weft_loop_each(l, x), *h = weft_loop_carry(l, w), *next = weft_tanh(weft_fma(h, w, e));
  weft_loop_next(l, h, next);
  weft_array *all = weft_loop_all(l, next);
  weft_loop_close(l);
  return all;
}

static weft_array *make_logp(weft_array *x, weft_array *w) { /* of ten operations, and its gradient */
  weft_array *z = weft_div(weft_sub(x, w), weft_exp(w)), *half = weft_mul(weft_scalar(-0.5), weft_mul(z, z)), *dw;
  weft_array *p = weft_sub(weft_sum(weft_sub(half, w), WEFT_ALL), weft_sum(weft_mul(w, w), WEFT_ALL));
  weft_grad(p, 1, &w, &dw);
  return dw;
}
static weft_array *make_mlp_step(weft_array *x, weft_array *w) { /* two layers, loss, gradient, update */
  weft_array *w1 = weft_mul(x, weft_scalar(0.1)), *w2 = weft_mul(x, weft_scalar(0.2)), *d[2];
  weft_array *h = weft_sub(weft_matmul(weft_tanh(weft_add(weft_matmul(x, w1), w)), w2), x);
  weft_grad(weft_mean(weft_mul(h, h), WEFT_ALL), 2, (weft_array *[]){ w1, w2 }, d);
  return weft_add(weft_sub(w1, weft_mul(d[0], weft_scalar(0.1))), weft_sub(w2, weft_mul(d[1], weft_scalar(0.1))));
}
static weft_array *make_block(weft_array *x, weft_array *w) { /* of a transformer, forward, one head */
  weft_array *h = weft_rms_norm(x, w, 1e-5), *q = weft_matmul(h, x), *k = weft_matmul(h, x), *v = weft_matmul(h, x);
  weft_array *scores = weft_mul(weft_matmul(q, weft_moveaxis(k, -1, -2)), weft_scalar(0.125));
  x = weft_add(x, weft_matmul(weft_matmul(weft_softmax(scores, -1), v), x));
  h = weft_matmul(weft_rms_norm(x, w, 1e-5), x);
  return weft_add(x, weft_matmul(weft_mul(h, weft_sigmoid(h)), x));
}

/* Programs that nobody has seen; the key is how they are asked for alone. */
static const struct sample { const char *key, *name; weft_array *(*make)(weft_array *x, weft_array *w); } samples[] = {
  { "first", "x + 1", make_increment },      { "sum", "sum over rows", make_sum },
  { "softmax", "softmax", make_softmax },    { "norm", "layer_norm", make_norm },
  { "normgrad", "its gradient", make_norm_grad }, { "scan", "scan with tanh", make_scan },
  { "logp", "10-op logp, gradient", make_logp },  { "mlp", "MLP step", make_mlp_step },
  { "block", "transformer block", make_block },
};
enum { N_SAMPLES = sizeof samples / sizeof *samples };

/* us to verify, expand and encode the kernels of a text, together; their number. */
static double compile_all(const char *source, int *n) {
  struct kir_kernel *k[16];
  struct text why = { 0 };
  const struct backend *b = backend_x86.available() ? &backend_x86 : &backend_vm;
  double spent = 0;
  *n = kir_parse(source, k, 16, &why);
  text_free(&why);
  for (int i = 0; i < *n; i++) {
    struct shape_class shape = { 0 };
    const char *refusal;
    for (int j = 0; j < k[i]->n_bufs; j++)
      for (int d = 0; d < k[i]->bufs[j].rank; d++) shape.stride[j][d] = d == k[i]->bufs[j].rank - 1 ? STRIDE_1 : STRIDE_ANY;
    double start = now();
    kir_verify(k[i]);
    kir_legalise(k[i]);
    struct code *c = b->compile(k[i], &shape, &refusal);
    const struct backend *by = b;
    if (!c) c = (by = &backend_vm)->compile(k[i], &shape, &refusal);
    spent += now() - start;
    if (c) by->free(c);
    kir_free(k[i]);
  }
  return spent / 1e3;
}

/* us from the first node to the stored result of a program nobody has seen. */
static double first_result(const struct sample *p, int *n_kernels) {
  static float data[64 * 64];
  weft_scope *s = weft_scope_open();
  weft_array *x = weft_from(WEFT_F32, WEFT_DIMS(64, 64), data), *w = weft_from(WEFT_F32, WEFT_DIMS(64), data);
  plan_drop_all();
  compiled_drop_all();
  int64_t before = weft_get(WEFT_KERNELS);
  double start = now();
  weft_array *y = p->make(x, w);
  must(weft_eval(1, &y));
  double spent = now() - start;
  *n_kernels = (int)(weft_get(WEFT_KERNELS) - before);
  weft_scope_discard(s);
  return spent / 1e3;
}

static double compile_time(const struct sample *p) {
  static float data[64 * 64];
  int n;
  weft_scope *s = weft_scope_open();
  weft_array *x = weft_from(WEFT_F32, WEFT_DIMS(64, 64), data), *w = weft_from(WEFT_F32, WEFT_DIMS(64), data);
  weft_array *y = p->make(x, w);
  double spent = compile_all(weft_show(1, &y, "kernels"), &n);
  weft_scope_discard(s);
  return n > 0 ? spent / n : -1;
}

static void time_first_results(void) {
  printf("\n  never seen before, on [64,64]     kernels   first result us   compiling us/kernel\n");
  for (int i = 0; i < N_SAMPLES; i++) {
    double first = 1e18, compiling = 1e18;
    int n = 0;
    for (int r = 0; r < rounds / 10 + 1; r++) {
      first = least(first, first_result(&samples[i], &n));
      compiling = least(compiling, compile_time(&samples[i]));
    }
    printf("  %-32s %8d %17.0f %21.1f\n", samples[i].name, n, first, compiling);
    fflush(stdout);
  }
  printf("\n");
}

/* ---- a million operations ---- */

static void time_long_chain(int n) {
  float data[4] = { 0.5f, 1, 1.5f, 2 }, scale[4] = { 1, 1, 1, 1 };
  weft_scope *s = weft_scope_open();
  weft_array *x = weft_from(WEFT_F32, WEFT_DIMS(4), data), *a = weft_from(WEFT_F32, WEFT_DIMS(4), scale), *dx;
  double t[5] = { now() };
  weft_array *y = chain(x, a, n, 0x55555555);
  t[1] = now();
  weft_grad(y, 1, &x, &dx);
  t[2] = now();
  must(weft_eval(2, (weft_array *[]){ y, dx }));
  t[3] = now();
  weft_scope_discard(s);
  t[4] = now();
  plan_drop_all();
  compiled_drop_all();
  const char *part[] = { "build", "differentiate", "evaluate both, plan and compile", "free" };
  printf("  a chain of %d operations\n", n);
  for (int i = 0; i < 4; i++) {
    char what[80];
    snprintf(what, sizeof what, "  %s", part[i]);
    row(what, (t[i + 1] - t[i]) / 1e6, "ms", "");
  }
}

/* ---- loops of few and many steps ---- */

enum { KEEPS_NOTHING, HAS_GRADIENT, CONTRACTS, N_LOOPS };
static const char *const LOOP[N_LOOPS] = { "a recurrence", "its gradient, recomputing", "a replay: rows of 64 by a matrix" };

/* c <- tanh(c w + 0.1), 64 numbers */
static weft_array *loop_of(int kind, int64_t steps) {
  weft_array *x = weft_full(WEFT_F32, WEFT_DIMS(64), 0.5), *w = weft_full(WEFT_F32, WEFT_DIMS(64, 64), 0.01), *dx;
  weft_loop *l = weft_loop_open(weft_integer(steps));
  weft_array *c = weft_loop_carry(l, x), *by = kind == CONTRACTS ? weft_matmul(c, w) : weft_mul(c, weft_scalar(0.5));
  weft_loop_next(l, c, weft_tanh(weft_add(by, weft_scalar(0.1))));
  if (kind == HAS_GRADIENT) weft_loop_recompute(l, 0);
  weft_array *y = weft_loop_last(l, c);
  weft_loop_close(l);
  if (kind == HAS_GRADIENT) weft_grad(y, 1, &x, &dx), y = dx;
  return y;
}

/* ns to write the loop, plan it and compile its kernels, none of which is there. */
static double compile_loop(int kind, int64_t steps) {
  double best = 1e18;
  for (int i = 0; i < rounds; i++) {
    plan_drop_all();
    compiled_drop_all();
    weft_scope *s = weft_scope_open();
    weft_cost cost;
    double start = now();
    weft_array *y = loop_of(kind, steps);
    must(weft_plan(1, &y, &cost));
    best = least(best, now() - start);
    weft_scope_discard(s);
  }
  return best;
}

static double resident_kb(void) {
  char text[256] = "";
  FILE *f = fopen("/proc/self/statm", "r");
  long pages = 0;
  if (!f) return 0;
  if (fgets(text, sizeof text, f)) sscanf(text, "%*s %ld", &pages);
  fclose(f);
  return (double)pages * 4;
}

static double run_loop(int kind, int64_t steps) {
  weft_scope *s = weft_scope_open();
  weft_array *y = loop_of(kind, steps);
  must(weft_eval(1, &y));
  weft_scope_discard(s);
  return resident_kb();
}

static void time_loops(void) {
  for (int kind = 0; kind < N_LOOPS; kind++) {
    int64_t many = kind == CONTRACTS ? 100000 : 1000000;
    char what[80];
    double few_ns = compile_loop(kind, 10), many_ns = compile_loop(kind, many);
    double few_kb = run_loop(kind, 10), many_kb = run_loop(kind, many);
    snprintf(what, sizeof what, "%s: written, planned, compiled for 10 steps", LOOP[kind]);
    row(what, few_ns / 1e3, "us", "");
    snprintf(what, sizeof what, "  for %lld steps", (long long)many);
    row(what, many_ns / 1e3, "us", "the same");
    snprintf(what, sizeof what, "  resident memory that %lld steps add to that of 10", (long long)many);
    row(what, many_kb - few_kb, "kB", kind == HAS_GRADIENT ? "2 sqrt(n) rows: 512" : "0");
  }
}

/* c <- 1.5 c until it is above 100: the state at the end, or the sum of the last two rows, as a function. */
static weft_function *function_until(bool is_tail) {
  weft_scope *s = weft_scope_open();
  weft_array *x = weft_input(WEFT_F64, 0, NULL);
  weft_loop *l = weft_loop_open(weft_integer(100));
  weft_array *c = weft_loop_carry(l, x), *next = weft_mul(c, weft_scalar(1.5));
  weft_loop_next(l, c, next);
  weft_loop_until(l, weft_gt(next, weft_scalar(100)));
  weft_array *y = is_tail ? weft_loop_tail(l, next, 2) : weft_loop_last(l, c);
  weft_loop_close(l);
  if (is_tail) y = weft_sum(y, WEFT_ALL);
  return weft_compile(s, 1, &x, 1, &y);
}

static void time_until(void) {
  for (int is_tail = 0; is_tail < 2; is_tail++) {
    weft_scope *outer = weft_scope_open();
    weft_function *f = function_until(is_tail);
    double best = 1e18, one = 1;
    for (int i = 0; i < 1000 + rounds; i++) {
      weft_scope *s = weft_scope_open();
      weft_array *x = weft_from(WEFT_F64, 0, NULL, &one), *y;
      double start = now();
      weft_call(f, 1, &x, 1, &y);
      must(weft_eval(1, &y));
      best = least(best, now() - start);
      weft_scope_discard(s);
    }
    row(is_tail ? "  its last two rows, which are as many as it has steps" : "a call of a loop that until ends: its last state", best / 1e3, "us", "");
    weft_scope_discard(outer);
  }
}

/* ---- how many kernels ---- */

static void count_kernels(void) {
  static float data[2000];
  int64_t before = weft_get(WEFT_KERNELS);
  for (int i = 1; i <= 500; i++) {
    weft_scope *s = weft_scope_open();
    weft_array *x = weft_from(WEFT_F32, WEFT_DIMS(i + 100), data), *y = weft_exp(weft_mul(x, x));
    must(weft_eval(1, &y));
    weft_scope_discard(s);
  }
  row("500 lengths", (double)(weft_get(WEFT_KERNELS) - before), "kernels", "1");
  before = weft_get(WEFT_KERNELS);
  for (int i = 0; i < 500; i++) {
    weft_scope *s = weft_scope_open();
    weft_array *x = weft_from(WEFT_F32, WEFT_DIMS(2000), data), *part = weft_slice(x, 0, i, i + 300, 1);
    weft_array *y = weft_put(x, part, weft_tanh(part), WEFT_SET);
    must(weft_eval(1, &y));
    weft_scope_discard(s);
  }
  row("500 starts of a slice that is read and set: a copy, a set", (double)(weft_get(WEFT_KERNELS) - before), "kernels", "2");
  before = weft_get(WEFT_KERNELS);
  for (int i = 0; i < 500; i++) {
    weft_scope *s = weft_scope_open();
    weft_array *x = weft_from(WEFT_F32, WEFT_DIMS(300), data), *y = weft_mul(weft_sigmoid(x), weft_scalar(3 + 0.37 * i));
    must(weft_eval(1, &y));
    weft_scope_discard(s);
  }
  row("500 numbers", (double)(weft_get(WEFT_KERNELS) - before), "kernels", "1");
}

/* ---- one work alone ---- */

/* A chain of OPS operations differentiated. */
static void chain_grad(void) {
  static float data[WIDTH];
  weft_scope *s = weft_scope_open();
  weft_array *x = weft_from(WEFT_F32, WEFT_DIMS(WIDTH), data), *a = weft_from(WEFT_F32, WEFT_DIMS(WIDTH), data), *dx;
  weft_grad(chain(x, a, OPS, 0x55555555), 1, &x, &dx);
  weft_scope_discard(s);
}

static bool alone(const char *work, int times) {
  float data[16 * 16] = { 0 };
  weft_scope *outer = weft_scope_open();
  weft_array *x = weft_from(WEFT_F32, WEFT_DIMS(8), data), *square = weft_from(WEFT_F32, WEFT_DIMS(16, 16), data);
  weft_function *f = increment(), *by = product();
  const struct sample *p = NULL;
  bool is_known = true;
  int unused;
  for (int i = 0; i < N_SAMPLES; i++) if (!strcmp(samples[i].key, work)) p = &samples[i];
  for (int i = 0; i < times && is_known; i++) {
    if (!strcmp(work, "call")) tiny_call(f, x, 1);
    else if (!strcmp(work, "eval")) tiny_call(f, x, 0);
    else if (!strcmp(work, "graph")) tiny_graph(x);
    else if (!strcmp(work, "product")) tiny_product(by, square);
    else if (!strcmp(work, "chain")) for (int k = 0; k < CALLS; k++) chain_cost(WIDTH, 0x5a5a5a5a);
    else if (!strcmp(work, "grad")) for (int k = 0; k < CALLS; k++) chain_grad();
    else if (p) for (int k = 0; k < CALLS; k++) first_result(p, &unused);
    else is_known = false;
  }
  weft_scope_discard(outer);
  return is_known;
}

int main(int argc, char **argv) {
  if (argc == 3 && !atoi(argv[1])) return weft_set(WEFT_THREADS, 1), alone(argv[1], atoi(argv[2])) ? 0 : 2;
  if (argc > 1 && (rounds = atoi(argv[1])) < 1) rounds = 1;
  weft_set(WEFT_THREADS, 1);
  time_tiny_calls();
  time_nodes();
  time_first_results();
  time_loops();
  time_until();
  time_long_chain(argc > 2 && atoi(argv[2]) > 0 ? atoi(argv[2]) : 1000000);
  printf("\n");
  count_kernels();
  return 0;
}
