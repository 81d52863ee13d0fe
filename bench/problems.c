/* problems.c -- many small systems on a device: as one kernel, a thread a problem (schedule/problems.c), and as routines, in turns.
 *
 *   build/release/bench/problems [text ..]    only works whose name contains a text; WEFT_DEVICE says which device. With
 *                                             WEFT_CACHE=off and CUDA_CACHE_DISABLE=1 the time of the first call has the assembling
 *
 * Prints one line of JSON a work: milliseconds of an evaluation, the median of seven rounds, and of the first call, each way. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weft.h>
#include "base/clock.h"
#include "run/plan.h"
#include "schedule/work.h"

enum { ROUNDS = 7, ROUND_MS = 10, MOST_REPEATS = 50, HELD = 4, WHATEVER = 1 << 20 };

typedef weft_array *work(weft_array *a, weft_array *b);
enum way { ONE_KERNEL, ROUTINES, WAYS };

static weft_array *by_cholesky(weft_array *a, weft_array *b) { return weft_cholesky_solve(weft_cholesky(a), b); }
static weft_array *by_lu(weft_array *a, weft_array *b) { return weft_solve(a, b); }
static weft_array *by_triangle(weft_array *a, weft_array *b) { return weft_solve_triangular(a, b, 0, 0); }
static weft_array *factor(weft_array *a, weft_array *b) { return (void)b, weft_cholesky(a); }
static weft_array *inverse(weft_array *a, weft_array *b) { return (void)b, weft_inverse(a); }
static weft_array *determinant(weft_array *a, weft_array *b) { return (void)b, weft_det(a); }

static const struct { const char *name; work *make; } works[] = {
  { "triangle", by_triangle }, { "cholesky", factor }, { "cholesky_solve", by_cholesky }, { "det", determinant }, { "lu_solve", by_lu },
  { "inverse", inverse },
};
enum { WORKS = sizeof works / sizeof *works };

static double now_ms(void) { return 1e3 * clock_seconds(); }

static void must(weft_status s) {
  if (s == WEFT_OK) return;
  fprintf(stderr, "%s\n", weft_message());
  exit(1);
}

static weft_array *noise(int64_t problems, int64_t n, int64_t m) {
  weft_array *like = weft_full(WEFT_F32, WEFT_DIMS(problems, n, m), 0);
  return weft_random_uniform(weft_random_key(7), like, weft_scalar(-1), weft_scalar(1));
}

/* Positive definite matrices and right sides, in memory that stays there. */
static void make_problems(weft_dtype t, int64_t problems, int64_t n, weft_array *x[2]) {
  weft_array *g = noise(problems, n, n);
  plan_use_fusing(true);
  x[0] = weft_cast(weft_add(weft_matmul(g, weft_moveaxis(g, -1, -2)), weft_eye(WEFT_F32, n, n, 0)), t);
  x[1] = weft_cast(noise(problems, n, 1), t);
  must(weft_eval(2, x));
}

/* So many evaluations, one enqueued after the other; a result is dropped when HELD later ones are on their way. */
static double round_ms(work *make, weft_array *a, weft_array *b, int repeats) {
  weft_array *y[MOST_REPEATS];
  double begin = now_ms();
  for (int i = 0; i < repeats + HELD; i++) {
    int old = i - HELD;
    if (i < repeats) {
      weft_scope *one = weft_scope_open();
      weft_own(y[i] = make(a, b));
      must(weft_eval_async(1, &y[i]));
      weft_scope_discard(one);
    }
    if (old < 0) continue;
    must(weft_eval(1, &y[old]));
    weft_disown(y[old]);
  }
  return (now_ms() - begin) / repeats;
}

static int repeats_of(double ms) { return ms * MOST_REPEATS < ROUND_MS ? MOST_REPEATS : ms > ROUND_MS ? 1 : (int)(ROUND_MS / ms); }

static int by_size(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

struct times { double first, median; };

static struct times measured(work *make, weft_array *a, weft_array *b, enum way way) {
  double ms[ROUNDS];
  plan_drop_all(), plan_use_fusing(way == ONE_KERNEL), problems_use_limit(WHATEVER);
  struct times t = { .first = round_ms(make, a, b, 1) };
  int repeats = repeats_of(round_ms(make, a, b, 1));
  for (int i = 0; i < ROUNDS; i++) ms[i] = round_ms(make, a, b, repeats);
  qsort(ms, ROUNDS, sizeof *ms, by_size);
  t.median = ms[ROUNDS / 2];
  return t;
}

static void run(int k, weft_dtype t, int64_t n, int64_t problems) {
  struct times of[WAYS];
  weft_scope *s = weft_scope_open();
  weft_array *x[2];
  make_problems(t, problems, n, x);
  for (int way = 0; way < WAYS; way++) of[way] = measured(works[k].make, x[0], x[1], way);
  printf("{\"work\": \"%s-%d-%s\", \"problems\": %d, \"kernel_ms\": %.4f, \"routine_ms\": %.4f, \"ratio\": %.2f, "
         "\"kernel_first_ms\": %.0f, \"routine_first_ms\": %.0f}\n", works[k].name, (int)n, weft_dtype_name(t), (int)problems,
         of[ONE_KERNEL].median, of[ROUTINES].median, of[ROUTINES].median / of[ONE_KERNEL].median, of[ONE_KERNEL].first,
         of[ROUTINES].first);
  fflush(stdout);
  weft_scope_discard(s);
}

static bool is_wanted(int n, char **texts, const char *name) {
  bool is = n < 2;
  for (int k = 1; k < n; k++) is |= strstr(name, texts[k]) != NULL;
  return is;
}

int main(int n, char **texts) {
  static const int rows[] = { 4, 6, 8, 10, 12, 14, 16 }, problems[] = { 100000, 10000, 1000 };
  for (int r = 0; r < 7; r++)
    for (int k = 0; k < WORKS; k++)
      for (int d = 0; d < 2; d++)
        for (int p = 0; p < 3; p++) {
          char name[64];
          snprintf(name, sizeof name, "%s-%d-%s-%d", works[k].name, rows[r], d ? "f64" : "f32", problems[p]);
          if (is_wanted(n, texts, name)) run(k, d ? WEFT_F64 : WEFT_F32, rows[r], problems[p]);
        }
  return 0;
}
