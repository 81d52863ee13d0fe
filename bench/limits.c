/* limits.c -- weft against kernels written by hand for the same work, on the same memory and the same threads, taking
 * turns.
 *
 *   limits [seconds a work] [text in the name of a work]
 *
 * The ratio is weft's time divided by that of the kernel by hand, the median over the rounds, and how far the quartiles
 * are from it. Bytes are those that have to be moved. Instructions and cycles an element are counted on one thread where
 * the system lets one look; else the time of an element is given. Results are compared. A line below a work says which
 * limit of the machine it has reached. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "backend/backend.h"
#include "run/compiled.h"
#include "run/pool.h"
#include "works.h"

static double seconds = 0.5;
static int threads, far, wrong;

static void print_counts(const struct bench *b, struct weft_run w, struct hand_run h) {
  double n = (double)(b->task.rows * b->task.cols);
  w.threads = h.threads = 1;
  struct counts a = counts_of(run_weft, &w), c = counts_of(run_hand, &h);
  printf("  %7.2f %7.2f  %7.2f %7.2f", a.instructions / n, c.instructions / n, a.cycles / n, c.cycles / n);
}

/* Whether it is close enough. */
static bool print_row(const struct bench *b, const struct entrant *weft, const struct entrant *hand, int rounds) {
  struct figure w = figure_of(weft->ns, rounds), h = figure_of(hand->ns, rounds), ratio = figure_ratio(weft, hand, rounds);
  char name[64];
  snprintf(name, sizeof name, "%s %lldx%lld", b->work->name, (long long)b->task.rows, (long long)b->task.cols);
  printf("  %-36s %9.1f %9.1f   %5.2f ±%2.0f%% %s %8.2f %7.1f %7.1f", name, w.middle / 1e3, h.middle / 1e3, ratio.middle,
         figure_spread(ratio),
         ratio.middle > 1.3 ? "!" : " ", b->bytes / 1e6, b->bytes / w.middle, b->bytes / h.middle);
  far += ratio.middle > 1.3;
  return ratio.middle <= 1.3;
}

/* What a work that is far away runs into. Instructions for 8 elements are counted by callgrind (AVX2, one thread, a whole call),
 * those of a vector in the listings (AVX-512). */
static const char *reason_of(const char *work, int64_t cols) {
  static const struct { const char *work; int64_t cols; const char *why; } reasons[] = {
    { "sin", 0, "33 instructions a vector, 22 by hand, where a result may be 1 + 2^-23 and that of a huge argument is wrong" },
    { "gelu+residual", 0, "41 instructions a vector, 30 by hand, for finite numbers" },
    { "softmax", 1024, "39 instructions for 8 elements, 31 by hand, for finite numbers" },
    { "rms_norm", 1024, "11 instructions for 8 elements, 13 by hand: it waits for its sum, 2 chains of 32 additions a row in the "
                        "order of all machines; by hand 4 chains of 16 fma" },
    { "rms_norm", 8, "33 instructions for 8 elements, 29 by hand" },
    { "rms_norm gradient", 64, "49 instructions for 8 elements, 39 by hand" },
    { "layer_norm gradient", 64, "72 instructions for 8 elements, 49 by hand" },
    { "logsumexp axis 0", 0, "35 instructions for 8 elements, 27 by hand, for finite numbers" },
    { "cumsum", 0, "35 instructions for 8 elements, 18 by hand: sums are in order inside blocks of 4096, by hand trees of a "
                   "vector" },
    { "scatter-add, contended", 0, "6.6 instructions an update, 1.6 of them to check its index, 8 by hand, unchecked" },
    { "AR(2) scan gradient", 0, "22 instructions for 8 elements, as by hand; 61 MB are moved, 41 by hand: y and 2 y stand in "
                                "memory" },
    { "RNN scan", 0, "1.39 times the instructions by hand" },
    { "200 chained ops", 0, "400 instructions a vector, as by hand, in 7 kernels of at most 64 operations, which are not "
                            "worth a second thread; by hand there are two" },
  };
  for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++)
    if (!strcmp(reasons[i].work, work) && (!reasons[i].cols || reasons[i].cols == cols)) return reasons[i].why;
  return NULL;
}

static void row(const char *work, int64_t rows, int64_t cols) {
  static struct entrant weft, hand;
  struct bench b;
  const struct hand *kernel = hand_find(work, cols);
  bench_begin(&b, work, rows, cols);
  int64_t refused = weft_get(WEFT_KERNELS_VM);
  struct weft_run w = { &b, bench_function(&b, backend_x86.available() ? "x86" : "vm"), threads };
  struct hand_run h = { &b, kernel, threads };
  double difference = bench_difference(&b, &w, &h);
  weft = (struct entrant){ .run = run_weft, .ctx = &w }, hand = (struct entrant){ .run = run_hand, .ctx = &h };
  int rounds = measure_turns(2, (struct entrant *[]){ &weft, &hand }, seconds);
  bool is_close = print_row(&b, &weft, &hand, rounds);
  if (counts_are_there()) print_counts(&b, w, h);
  if (weft_get(WEFT_KERNELS_VM) > refused) printf("  on the vm");
  if (difference > b.work->tolerance) wrong++, printf("  DIFFERS by %.2g", difference);
  const char *why = is_close ? NULL : reason_of(work, cols);
  if (why) printf("\n    %s", why);
  printf("\n");
  fflush(stdout);
  bench_end();
}

int main(int argc, char **argv) {
  static const struct { const char *work; int64_t rows, cols; } cases[] = {
    { "a*b+c", 4096, 4096 },             { "a*b+c", 64, 1024 },           { "gelu+residual", 4096, 4096 },
    { "gelu+residual", 64, 1024 },       { "exp", 4096, 4096 },           { "exp", 64, 1024 },
    { "log", 4096, 4096 },               { "log", 64, 1024 },             { "tanh", 4096, 4096 },
    { "tanh", 64, 1024 },                { "sigmoid", 4096, 4096 },       { "sin", 4096, 4096 },
    { "sin", 64, 1024 },                 { "softmax", 4096, 4096 },       { "softmax", 64, 1024 },
    { "softmax", 262144, 64 },           { "softmax", 524288, 32 },       { "softmax", 1048576, 16 },
    { "softmax", 2097152, 8 },           { "rms_norm", 4096, 4096 },      { "rms_norm", 64, 1024 },
    { "rms_norm", 262144, 64 },          { "rms_norm", 524288, 32 },      { "rms_norm", 1048576, 16 },
    { "rms_norm", 2097152, 8 },          { "layer_norm", 4096, 4096 },    { "layer_norm", 262144, 64 },
    { "rms_norm gradient", 4096, 4096 }, { "rms_norm gradient", 262144, 64 },
    { "layer_norm gradient", 4096, 4096 }, { "layer_norm gradient", 262144, 64 }, { "logsumexp axis 0", 4096, 4096 },
    { "sum all", 4096, 4096 },           { "sum axis 0", 4096, 4096 },    { "sum axis 1", 4096, 4096 },
    { "cumsum", 4096, 4096 },            { "2*x[::-1]", 4096, 4096 },     { "2*x[::3]", 4096, 4096 },
    { "x + x.T", 4096, 4096 },           { "gather", 4096, 4096 },        { "scatter-add, contended", 4096, 1024 },
    { "AR(2) scan", 10000, 256 },        { "AR(2) scan gradient", 10000, 256 }, { "RNN scan", 1000, 64 },
    { "while", 10000, 256 },             { "200 chained ops", 1, 1024 },
  };
  if (argc > 1) seconds = atof(argv[1]);
  threads = pool_threads();
  printf("weft and kernels by hand (%s), f32, %d threads\n", hand_tier(), threads);
  probe_print("before", threads);
  printf("  %-36s %9s %9s   %12s %10s %7s %7s%s\n", "", "weft us", "hand us", "ratio", "MB", "GB/s", "hand",
         counts_are_there() ? "   instr.    hand   cycles    hand" : "   (instructions and cycles cannot be counted here)");
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    if (argc < 3 || strstr(cases[i].work, argv[2])) row(cases[i].work, cases[i].rows, cases[i].cols);
  probe_print("after", threads);
  printf("%d works are further than 1.3 from the kernel by hand (!), %d differ\n", far, wrong);
  return wrong > 0;
}
