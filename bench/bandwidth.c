/* bandwidth.c -- how much of the machine's own bandwidth weft uses: works that have little to compute, on the vm and in
 * machine code, against plain loops that read and write as much.
 *
 *   bandwidth [seconds a work]
 *
 * All take turns. A figure is the loop's time divided by weft's, the median over the rounds, and how far the quartiles
 * are from it: 1.00 means that nothing can be gained without moving fewer bytes. */
#include <stdio.h>
#include <stdlib.h>
#include "backend/backend.h"
#include "works.h"

struct size { const char *what; int64_t rows, cols; };

static double seconds = 0.7;

enum { VM_1, VM_2, X86_1, X86_2, COLUMNS };

static void row(const char *work, const struct size *z) {
  static struct entrant weft[COLUMNS], loop[2];
  struct weft_run runs[COLUMNS];
  struct stream_run streams[2];
  struct entrant *all[COLUMNS + 2];
  struct bench b;
  int n = 0;
  bench_begin(&b, work, z->rows, z->cols);
  weft_function *vm = bench_function(&b, "vm"), *x86 = backend_x86.available() ? bench_function(&b, "x86") : NULL;
  for (int t = 0; t < 2; t++) {
    streams[t] = bench_stream(&b, t + 1);
    loop[t] = (struct entrant){ .run = run_stream, .ctx = &streams[t] };
    all[n++] = &loop[t];
  }
  for (int i = 0; i < COLUMNS; i++) {
    runs[i] = (struct weft_run){ &b, i < X86_1 ? vm : x86, i % 2 + 1 };
    weft[i] = (struct entrant){ .run = run_weft, .ctx = &runs[i] };
    if (runs[i].function) all[n++] = &weft[i];
  }
  int rounds = measure_turns(n, all, seconds);
  printf("  %-20s %-9s", work, z->what);
  for (int t = 0; t < 2; t++) printf(" %7.1f", b.bytes / figure_of(loop[t].ns, rounds).middle);
  for (int i = 0; i < COLUMNS; i++) {
    struct figure f = figure_ratio(&loop[i % 2], &weft[i], rounds);
    if (runs[i].function) printf("   %5.2f ±%2.0f%%", f.middle, figure_spread(f));
    else printf("   %10s", "-");
  }
  printf("\n");
  fflush(stdout);
  bench_end();
}

int main(int argc, char **argv) {
  static const struct size sizes[] = { { "in cache", 64, 1024 }, { "beyond", 4096, 4096 } };
  static const struct size squares[] = { { "in cache", 256, 256 }, { "beyond", 4096, 4096 } };
  static const char *const works[] = {
    "a*b+c",               "gelu+residual", "softmax",  "rms_norm",   "rms_norm gradient", "layer_norm",
    "layer_norm gradient", "2*x[::-1]",     "2*x[::3]", "x + x.T", "sum axis 0",        "sum axis 1",
  };
  if (argc > 1) seconds = atof(argv[1]);
  printf("fractions of the bandwidth of plain loops (%s) with the same reads and writes; f32, %d threads at most\n", hand_tier(), 2);
  probe_print("before", 2);
  printf("  %-20s %-9s %15s   %10s   %10s   %10s   %10s\n", "", "", "GB/s 1t      2t", "vm 1t", "vm 2t", "x86 1t", "x86 2t");
  for (size_t i = 0; i < sizeof works / sizeof *works; i++)
    for (int k = 0; k < 2; k++) row(works[i], works[i][0] == 'x' ? &squares[k] : &sizes[k]);
  probe_print("after", 2);
  return 0;
}
