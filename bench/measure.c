#define _GNU_SOURCE
#include "measure.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#ifdef __linux__
#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#endif
#include "hand/hand.h"
#include "run/pool.h"

enum { ROUNDS_MIN = 5, TURN_NS = 300000, REPEATS_MAX = 100000 };

bool measures_processor;

static double now(clockid_t clock) {
  struct timespec t;
  clock_gettime(clock, &t);
  return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

double clock_ns(void) { return now(CLOCK_MONOTONIC); }

/* ---- turns ---- */

static double turn(struct entrant *e) {
  clockid_t clock = measures_processor ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC;
  double start = now(clock);
  for (int i = 0; i < e->repeats; i++) e->run(e->ctx);
  return (now(clock) - start) / e->repeats;
}

static void calibrate(struct entrant *e) {
  e->run(e->ctx); /* plans, pages */
  e->repeats = 1;
  while (e->repeats < REPEATS_MAX && turn(e) * e->repeats < TURN_NS) e->repeats *= 2;
}

int measure_turns(int n, struct entrant *const entrants[], double seconds) {
  int round = 0;
  for (int i = 0; i < n; i++) calibrate(entrants[i]);
  for (double end = clock_ns() + 1e9 * seconds; round < ROUNDS_MIN || (round < ROUNDS_MAX && clock_ns() < end); round++)
    for (int i = 0; i < n; i++) {
      entrants[i]->run(entrants[i]->ctx); /* its own data is what the caches hold */
      entrants[i]->ns[round] = turn(entrants[i]);
    }
  return round;
}

static int by_value(const void *a, const void *b) {
  return *(const double *)a < *(const double *)b ? -1 : *(const double *)a > *(const double *)b;
}

struct figure figure_of(const double *v, int n) {
  double sorted[ROUNDS_MAX];
  memcpy(sorted, v, sizeof *v * (size_t)n);
  qsort(sorted, (size_t)n, sizeof *sorted, by_value);
  return (struct figure){ sorted[n / 2], sorted[n / 4], sorted[n - 1 - n / 4] };
}

struct figure figure_ratio(const struct entrant *a, const struct entrant *b, int rounds) {
  double ratio[ROUNDS_MAX];
  for (int i = 0; i < rounds; i++) ratio[i] = a->ns[i] / b->ns[i];
  return figure_of(ratio, rounds);
}

double figure_spread(struct figure f) { return 50 * (f.high - f.low) / f.middle; }

void *measure_memory(size_t bytes) {
  size_t page = 2 << 20, rounded = (bytes + page - 1) / page * page;
  void *p = aligned_alloc(page, rounded);
  if (!p) exit((fprintf(stderr, "bench: out of memory\n"), 1));
  madvise(p, rounded, MADV_HUGEPAGE);
  return memset(p, 0, rounded);
}

/* ---- the processor's own counters ---- */

#ifdef __linux__
static int counter(uint64_t what, int group) {
  struct perf_event_attr a = { .type = PERF_TYPE_HARDWARE, .size = sizeof a, .config = what, .disabled = group < 0,
                               .exclude_kernel = 1, .exclude_hv = 1, .read_format = PERF_FORMAT_GROUP };
  return (int)syscall(SYS_perf_event_open, &a, 0, -1, group, 0);
}

static int counters(void) {
  static int leader = -2;
  if (leader != -2) return leader;
  leader = counter(PERF_COUNT_HW_INSTRUCTIONS, -1);
  if (leader >= 0 && counter(PERF_COUNT_HW_CPU_CYCLES, leader) < 0) close(leader), leader = -1;
  return leader;
}

bool counts_are_there(void) { return counters() >= 0; }

struct counts counts_of(void (*run)(void *ctx), void *ctx) {
  uint64_t got[3] = { 0 };
  int fd = counters();
  run(ctx);
  ioctl(fd, PERF_EVENT_IOC_RESET, PERF_IOC_FLAG_GROUP);
  ioctl(fd, PERF_EVENT_IOC_ENABLE, PERF_IOC_FLAG_GROUP);
  run(ctx);
  ioctl(fd, PERF_EVENT_IOC_DISABLE, PERF_IOC_FLAG_GROUP);
  if (read(fd, got, sizeof got) != sizeof got) return (struct counts){ 0 };
  return (struct counts){ (double)got[1], (double)got[2] };
}
#else
bool counts_are_there(void) { return false; }
struct counts counts_of(void (*run)(void *ctx), void *ctx) { return run(ctx), (struct counts){ 0 }; }
#endif

/* ---- the state of the machine ---- */

enum { PROBE_FLOATS = 16 << 20 };

struct streams { struct stream stream; int threads; };

static void empty(void *ctx, int part) { (void)ctx, (void)part; }
static void wake_pool(void *ctx) { pool_run(*(int *)ctx, *(int *)ctx, empty, NULL); }
static void stream_part(void *ctx, int part) {
  struct streams *s = ctx;
  hand_stream(&s->stream, part, s->threads);
}
static void stream(void *ctx) {
  struct streams *s = ctx;
  pool_run(s->threads, s->threads, stream_part, s);
}

struct probe probe_now(int threads) {
  static float *from, *to;
  if (!from) from = measure_memory(PROBE_FLOATS * sizeof *from), to = measure_memory(PROBE_FLOATS * sizeof *to);
  struct streams copy = { { .in = { from }, .n_in = 1, .out = to, .n = PROBE_FLOATS, .write_every = 1, .is_large = true }, threads };
  struct streams read = { { .in = { from }, .n_in = 1, .out = to, .n = PROBE_FLOATS, .is_large = true }, threads };
  struct entrant e[3] = { { .run = wake_pool, .ctx = &threads }, { .run = stream, .ctx = &copy }, { .run = stream, .ctx = &read } };
  int n = measure_turns(3, (struct entrant *[]){ &e[0], &e[1], &e[2] }, 0.2);
  double bytes = PROBE_FLOATS * sizeof *from;
  return (struct probe){ figure_of(e[0].ns, n).middle, 2 * bytes / figure_of(e[1].ns, n).middle, bytes / figure_of(e[2].ns, n).middle };
}

void probe_print(const char *when, int threads) {
  struct probe p = probe_now(threads);
  printf("machine %s: pool round trip %.0f ns, copy %.1f GB/s, read %.1f GB/s (%d threads, 64 MB arrays)\n", when, p.pool_ns,
         p.copy_gbs, p.read_gbs, threads);
  fflush(stdout);
}
