/* bundle.c -- what it costs to hand a GPU a row of small kernels: launches with parameters, a graph of them that is started again, a
 * graph whose nodes get new parameters first, and a graph of kernels that read their parameters from a block, which is copied first.
 *
 *   build/release/bench/bundle
 *
 * Prints one line of JSON a way and a length: microseconds of the host's clock a row, to enqueue it and until it is done, medians of
 * seven rounds of 200 rows; and what single calls of the driver cost. Kernels negate 1024 numbers, each what the one before made. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "backend/cuda/driver.h"

enum { MOST = 64, ROWS = 200, ROUNDS = 7, N = 1024 };

/* Where its parameters are is the only difference. */
static const char heading[] = ".version 7.0\n.target sm_80\n.address_size 64\n";
static const char body[] =
  "  .reg .b64 a<6>;\n  .reg .b32 i<4>;\n  .reg .f32 f;\n"
  "%s"
  "  mov.u32 i0, %%tid.x; mov.u32 i1, %%ctaid.x; mov.u32 i2, %%ntid.x; mad.lo.u32 i3, i1, i2, i0;\n"
  "  mul.wide.u32 a3, i3, 4; add.u64 a4, a0, a3; add.u64 a5, a1, a3;\n"
  "  ld.global.f32 f, [a4]; neg.f32 f, f; st.global.f32 [a5], f; ret;\n}\n";

static result (*get_nodes)(handle, handle *, size_t *);

static double now(void) { return 1e6 * clock_seconds(); }

static void must(result r, const char *what) {
  if (!r) return;
  printf("%s: %d\n", what, r);
  exit(1);
}

static handle entry_of(bool is_in_block) {
  char text[2000];
  const char *own = "  ld.param.u64 a0, [p0]; ld.param.u64 a1, [p1];\n", *block = "  ld.param.u64 a2, [p0]; ld.global.v2.u64 {a0, a1}, [a2];\n";
  handle module, f;
  int n = snprintf(text, sizeof text, "%s.visible .entry k(.param .u64 p0, .param .u64 p1) {\n", heading);
  snprintf(text + n, sizeof text - (size_t)n, body, is_in_block ? block : own);
  must(cu.load(&module, text, 0, NULL, NULL), "loading");
  must(cu.find(&f, module, "k"), "finding");
  return f;
}

static struct {
  struct gpu *g;
  handle stream, plain, in_block;
  uint64_t at[MOST + 1], block;  /* arrays; pairs of addresses on the device */
  uint64_t *pinned;
  handle graph[MOST + 1], exec[MOST + 1], block_exec[MOST + 1], node[MOST + 1][MOST];
} x;

static void launch(handle f, uint64_t a, uint64_t b, handle stream) {
  must(cu.launch(f, N / 256, 1, 1, 256, 1, 1, 0, stream, (void *[]){ &a, &b }, NULL), "launching");
}

/* ---- ways ---- */

static void by_launches(int n) { for (int i = 0; i < n; i++) launch(x.plain, x.at[i], x.at[i + 1], x.stream); }
/* The same, parameters handed over as one piece of memory. */
static void by_packed(int n) {
  for (int i = 0; i < n; i++) {
    uint64_t block[2] = { x.at[i], x.at[i + 1] };
    size_t bytes = sizeof block;
    void *extra[] = { (void *)1, block, (void *)2, &bytes, (void *)0 };
    must(cu.launch(x.plain, N / 256, 1, 1, 256, 1, 1, 0, x.stream, NULL, extra), "launching");
  }
}
static void by_graph(int n) { must(cu.graph_launch(x.exec[n], x.stream), "starting"); }
static void by_updates(int n) {
  static int turn;
  turn = !turn; /* other addresses each time */
  for (int i = 0; i < n; i++) {
    void *params[] = { &x.at[turn ? i : i + 1], &x.at[turn ? i + 1 : i] };
    struct node_params p = { x.plain, { N / 256, 1, 1 }, { 256, 1, 1 }, 0, params, NULL, NULL, NULL };
    must(cu.graph_set_node(x.exec[n], x.node[n][i], &p), "setting parameters");
  }
  by_graph(n);
}
static void by_block(int n) {
  for (int i = 0; i < n; i++) x.pinned[2 * i] = x.at[i], x.pinned[2 * i + 1] = x.at[i + 1];
  must(cu.to_device(x.block, x.pinned, 16 * (size_t)n, x.stream), "copying");
  must(cu.graph_launch(x.block_exec[n], x.stream), "starting");
}

static handle record(int n, bool is_in_block, handle *graph) {
  handle stream, exec;
  must(cu.stream_new(&stream, NON_BLOCKING), "recording");
  must(cu.capture_begin(stream, 2), "recording");
  for (int i = 0; i < n; i++)
    launch(is_in_block ? x.in_block : x.plain, is_in_block ? x.block + 16 * (uint64_t)i : x.at[i], x.at[i + 1], stream);
  must(cu.capture_end(stream, graph), "recording");
  must(cu.graph_instantiate(&exec, *graph, 0), "instantiating");
  return exec;
}

static int by_size(const void *a, const void *b) {
  double p = *(const double *)a, q = *(const double *)b;
  return (p > q) - (p < q);
}

static void measure(const char *name, void (*way)(int), int n) {
  double put[ROUNDS], done[ROUNDS];
  for (int r = -1; r < ROUNDS; r++) {
    double begin = now(), end;
    for (int i = 0; i < ROWS; i++) way(n);
    end = now();
    must(cu.wait(x.stream), "waiting");
    if (r >= 0) put[r] = (end - begin) / ROWS, done[r] = (now() - begin) / ROWS;
  }
  qsort(put, ROUNDS, sizeof *put, by_size);
  qsort(done, ROUNDS, sizeof *done, by_size);
  printf("{\"way\": \"%s\", \"kernels\": %d, \"enqueue_us\": %.2f, \"us\": %.2f}\n", name, n, put[ROUNDS / 2], done[ROUNDS / 2]);
}

/* ---- single calls ---- */

static handle event;
static void call_record(int n) { (void)n, must(cu.event_record(event, x.stream), "recording"); }
static void call_current(int n) { (void)n, must(cu.set_current(x.g->context), "entering"); }
static void call_ask(int n) { (void)n, (void)cu.event_ask(event); }

int main(void) {
  static const int lengths[] = { 1, 4, 16, 64 };
  x.g = cuda_gpu(0);
  if (!cuda_available() || cuda_enter(x.g, "measuring")) { printf("no GPU\n"); return 0; }
  void *lib = dlopen("libcuda.so.1", RTLD_NOW), *f = dlsym(lib, "cuGraphGetNodes");
  if (f) memcpy(&get_nodes, &f, sizeof f);
  x.plain = entry_of(false), x.in_block = entry_of(true);
  must(cu.stream_new(&x.stream, NON_BLOCKING), "a stream");
  must(cu.event_new(&event, UNTIMED), "an event");
  for (int i = 0; i <= MOST; i++) must(cu.alloc(&x.at[i], 4 * N), "memory");
  must(cu.alloc(&x.block, 16 * MOST), "memory");
  void *pinned;
  must(cu.host_alloc(&pinned, 16 * MOST, 0), "memory");
  x.pinned = pinned;
  measure("point", call_record, 1), measure("asking", call_ask, 1), measure("entering", call_current, 1);
  for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
    int n = lengths[i];
    size_t count = (size_t)n;
    handle of_block;
    double begin = now();
    x.exec[n] = record(n, false, &x.graph[n]);
    printf("{\"way\": \"recording\", \"kernels\": %d, \"us\": %.0f}\n", n, now() - begin);
    x.block_exec[n] = record(n, true, &of_block);
    measure("launches", by_launches, n);
    measure("launches, parameters packed", by_packed, n);
    measure("a graph", by_graph, n);
    if (get_nodes) {
      must(get_nodes(x.graph[n], x.node[n], &count), "nodes");
      measure("a graph, nodes updated", by_updates, n);
    }
    measure("a graph, a block copied", by_block, n);
  }
  return 0;
}
