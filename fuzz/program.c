/* program.c -- random programs of everything public (test/program.h): values against the plain evaluator and against the
 * program written out by hand, derivatives against differences, maps against rows, functions, steps that are repeated.
 *
 *   program SECONDS SEED [COUNT [SHRINKING]]    COUNT: so many programs from that seed on, whatever the time; 0: print it,
 *                                               check nothing. SHRINKING: seconds to make a finding smaller; default 60
 *
 * Programs run in processes of their own, some hundreds each, so that one that crashes or hangs is a finding like others. A
 * program that fails is made smaller as long as it fails, and printed. The counts at the end say what programs were made of;
 * what 10,000 of them have not used is a finding too.
 * SIGTERM ends it early, with its counts. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "../test/program.h"

enum { BATCH = 200, LONGEST = 60, PATIENCE = 5 }; /* programs a process; seconds of processors a program; by the clock so many times that */
enum { ENOUGH = 10000 };                           /* in so many programs everything must have been used */
enum { FINE = 0, WRONG = 1, NO_PROCESS = 77 };
static const rlim_t MOST_BYTES = (rlim_t)16 << 30;
static int shrink_seconds = 60;
static struct { volatile uint64_t seed, done; volatile sig_atomic_t is_over; char told[1000]; } *shared; /* told: what was found first */

/* On a busy machine a program may wait long for a processor: one that takes too much of them is a finding, or that does nothing at
 * all for much longer. */
static void limit(int seconds) {
  setitimer(ITIMER_PROF, &(struct itimerval){ .it_value.tv_sec = seconds }, NULL);
  alarm((unsigned)(PATIENCE * seconds));
}
static bool is_late(int outcome) { return outcome == -SIGALRM || outcome == -SIGPROF; }

static void end_early(int signal) { (void)signal, shared->is_over = 1; }

static int batch(uint64_t first, uint64_t n, time_t end) {
  static struct program p;
  for (uint64_t seed = first; seed < first + n && !shared->is_over && (!end || time(NULL) < end); seed++) {
    shared->seed = seed;
    limit(LONGEST);
    program_make(&p, seed);
    shared->told[0] = 0;
    FILE *out = fmemopen(shared->told, sizeof shared->told, "w");
    bool ok = program_check(&p, out);
    fclose(out);
    program_free(&p);
    if (!ok) return WRONG;
    shared->done++;
  }
  return FINE;
}

/* How it ends in a process of its own: 0, 1, or minus the signal. */
static int outcome(int (*run)(void *), void *ctx) {
  fflush(stdout);
  pid_t pid = fork();
  if (pid == 0) {
    setrlimit(RLIMIT_AS, &(struct rlimit){ MOST_BYTES, MOST_BYTES }); /* or the system ends whom it likes */
    int r = run(ctx);
    fflush(stdout);
    _exit(r);
  }
  int status = 0;
  while (pid < 0 || waitpid(pid, &status, 0) < 0)
    if (pid < 0 || errno != EINTR) return perror("program: fork"), NO_PROCESS;
  return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

struct range { uint64_t first, n; time_t end; };
static int run_batch(void *ctx) {
  const struct range *r = ctx;
  return batch(r->first, r->n, r->end);
}

static int run_quietly(void *ctx) {
  FILE *none = fopen("/dev/null", "w");
  limit(10);
  program_counts = false;
  return !program_check(ctx, none);
}
static int run_aloud(void *ctx) {
  limit(LONGEST);
  program_counts = false;
  return !program_check(ctx, stdout);
}
static int print_it(void *ctx) { return program_print(ctx, stdout), 0; }

/* Smaller, as long as it ends in the same way. */
static void shrink(struct program *p, int as) {
  static struct program less;
  time_t end = time(NULL) + shrink_seconds;
  for (bool is_smaller = true; is_smaller && !shared->is_over && time(NULL) < end;) {
    is_smaller = false;
    for (int way = 0; !shared->is_over && time(NULL) < end; way++) {
      program_copy(&less, p);
      bool can = program_cut(&less, way);
      if (can && program_size(&less) < program_size(p) && outcome(run_quietly, &less) == as) {
        struct program t = *p;
        *p = less, less = t;
        is_smaller = true, way--;
      }
      program_free(&less);
      if (!can) break;
    }
  }
}

struct finding { uint64_t seed; int as; };
static int run_finding(void *ctx) {
  const struct finding *f = ctx;
  static struct program p;
  program_make(&p, f->seed);
  shrink(&p, f->as);
  if (shrink_seconds) outcome(print_it, &p);
  int now = outcome(run_aloud, &p);
  if (now < 0) printf("program %llu: signal %d%s\n", (unsigned long long)f->seed, -now, is_late(now) ? " (it hangs)" : "");
  if (now == FINE)
    printf("program %llu: outcome %d, and nothing the second time; the first time: %s\n", (unsigned long long)f->seed, f->as,
           shared->told[0] ? shared->told : "nothing told");
  program_free(&p);
  return FINE;
}

/* In a process of its own too: making a program, or making it smaller, may be what ends by a signal. */
static void tell(uint64_t seed, int as) {
  int how = outcome(run_finding, &(struct finding){ seed, as });
  if (how) printf("program %llu: outcome %d, and %d while it was made smaller\n", (unsigned long long)seed, as, how);
  printf("program: seed %llu: program 0 %llu 1\n", (unsigned long long)seed, (unsigned long long)seed);
}

int main(int argc, char **argv) {
  time_t end = time(NULL) + (argc > 1 ? atoi(argv[1]) : 10);
  uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1, first = seed, most = argc > 3 ? strtoull(argv[3], NULL, 10) : 0;
  int n_findings = 0, is_only_printed = argc > 3 && !most;
  if (is_only_printed) {
    static struct program p;
    program_make(&p, seed);
    program_print(&p, stdout);
    program_free(&p);
    return 0;
  }
  if (argc > 4) shrink_seconds = atoi(argv[4]);
  shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  signal(SIGTERM, end_early);
  program_used("weft_add"); /* counts are shared from here on */
  while (!shared->is_over && (most ? seed < first + most : time(NULL) < end)) {
    struct range r = { seed, most && first + most - seed < BATCH ? first + most - seed : BATCH, most ? 0 : end };
    shared->seed = seed;
    int as = outcome(run_batch, &r);
    if (as == FINE) { seed += r.n; continue; }
    n_findings++;
    seed = shared->seed;
    tell(seed++, as);
    if (n_findings >= (shrink_seconds ? 20 : 400)) break;
  }
  int n_unused = 0;
  if (shared->done >= 100) printf("what the programs used:\n"), n_unused = program_print_uses(stdout);
  if (n_unused && shared->done >= ENOUGH) printf("program: %d rows are used by none of more than %d programs\n", n_unused, ENOUGH), n_findings++;
  printf("program: %llu programs, seeds %llu to %llu, %d findings\n", (unsigned long long)shared->done, (unsigned long long)first, (unsigned long long)shared->seed, n_findings);
  return n_findings != 0;
}
