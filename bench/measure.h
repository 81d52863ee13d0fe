/* measure.h -- times of things that take turns, so that all of them see the same machine; medians and their spread. */
#ifndef BENCH_MEASURE_H
#define BENCH_MEASURE_H
#include <stdbool.h>
#include <stdint.h>
#include <stddef.h>

enum { ROUNDS_MAX = 101 };

/* Something to be timed: run(ctx), so often in a round that the clock can see it. */
struct entrant {
  void (*run)(void *ctx);
  void *ctx;
  int repeats;            /* in a round; found by measure_turns */
  double ns[ROUNDS_MAX];  /* of one run, by round */
};

struct figure { double middle, low, high; }; /* median and quartiles */

double clock_ns(void);
extern bool measures_processor; /* turns are timed by what the process computed for, not by the clock: for a machine that others use */

/* Rounds until `seconds` have passed, at least 5; in each round every entrant has its turn. Returns how many rounds. */
int measure_turns(int n, struct entrant *const entrants[], double seconds);
struct figure figure_of(const double *v, int n);
struct figure figure_ratio(const struct entrant *a, const struct entrant *b, int rounds); /* a / b, round by round */
double figure_spread(struct figure); /* half the distance of the quartiles, in percent of the median */

/* Memory on huge pages, filled with 0; never given back. Ends the program if there is none. */
void *measure_memory(size_t bytes);

/* What the processor counts itself, for this thread, where the system lets one look. */
struct counts { double instructions, cycles; };
bool counts_are_there(void);
struct counts counts_of(void (*run)(void *ctx), void *ctx);

/* The state of the machine: it changes within minutes and nothing here controls it. */
struct probe { double pool_ns, copy_gbs, read_gbs; };
struct probe probe_now(int threads);
void probe_print(const char *when, int threads);

#endif
