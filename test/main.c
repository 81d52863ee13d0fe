/* main.c -- runs the tests, each in a process of its own: one that crashes, hangs or leaks fails alone.
 *
 *   weft-test [options] [text ..]    runs the tests whose name or file contains one of the texts; none: all
 *     --but TEXT   not those whose name or file contains it; may be given several times
 *     --list       the tests as file: name, without running them
 *     --first      no test is begun after one has failed
 *     --in-order   those of the first text first, then those of the second, and so on
 *     --jobs N     that many at once; default: the processors there are
 *     --busy N     no test is begun after those before it have taken N seconds of the processors; then what is left is said
 *     --shard I/N  every N-th test, from the I-th (1..N) on
 *     --here       one after another in this process, for debuggers
 *     --within S   a test that has taken more than S seconds of the processors is ended and counts as skipped
 *     --patience N the watchdog waits N times as long: for programs that run under another
 *     --verbose    a line for each test, with its time and that of the processors
 *
 * The last line is exactly "N passed, N failed, N skipped". */
#include "test.h"
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "weft.h"

enum { WATCHDOG_SECONDS = 60, MAX_JOBS = 64, MAX_BUTS = 32, SLOWEST = 10 };
enum result { FAILED = 1, PASSED = 42, SKIPPED = 77 }; /* also exit statuses: a test that calls exit(0) has not passed */

struct spent { double seconds, busy; };                /* by the clock; by the processors */
struct test { const char *name, *file; void (*run)(void); bool is_begun; struct spent spent; };
struct job { pid_t pid; int test; double start; };

static struct test *tests;
static int n_tests;
static const struct test *current;
static enum result current_result;

static bool verbose, here, list_only, first, in_order;
static int n_jobs, shard = 1, n_shards = 1;
static double most_busy, all_busy, within; /* most_busy, within 0: no limit */
static int patience = 1;
static int n_left;
static const char *buts[MAX_BUTS];
static int n_buts;
static int n_passed, n_failed, n_skipped;

/* Weak, so that the runner links without the run time. */
extern int64_t weft_get(weft_setting) __attribute__((weak));
extern int64_t weft_set(weft_setting, int64_t) __attribute__((weak));
extern void mem_watch(void) __attribute__((weak));

void test_add(const char *name, const char *file, void (*run)(void)) {
  struct test *grown = realloc(tests, (size_t)(n_tests + 1) * sizeof *tests);
  if (!grown) abort();
  const char *slash = strrchr(file, '/');
  tests = grown;
  tests[n_tests++] = (struct test){ name, slash ? slash + 1 : file, run, false, { 0 } };
}

void test_fail(const char *file, int line, const char *format, ...) {
  va_list list;
  va_start(list, format);
  flockfile(stdout);
  printf("%s:%d: %s: ", file, line, current->name);
  vprintf(format, list);
  putchar('\n');
  funlockfile(stdout);
  fflush(stdout);
  va_end(list);
  current_result = FAILED;
}

bool test_has_failed(void) { return current_result == FAILED; }

void test_skip(const char *why) {
  printf("%s: skipped: %s\n", current->name, why);
  if (current_result == PASSED) current_result = SKIPPED;
}

static double busy_of(const struct rusage *u) {
  return (double)(u->ru_utime.tv_sec + u->ru_stime.tv_sec) + 1e-6 * (double)(u->ru_utime.tv_usec + u->ru_stime.tv_usec);
}

/* With the programs that this process has run to their end. */
static double busy_so_far(void) {
  struct rusage own = { 0 }, others = { 0 };
  getrusage(RUSAGE_SELF, &own);
  getrusage(RUSAGE_CHILDREN, &others);
  return busy_of(&own) + busy_of(&others);
}

/* A test hangs when it has taken so many seconds of the processors, or when so many have passed in which it hardly took any. On a machine
 * that others keep busy it may go on for longer, if it does go on. */
enum { MOST_TURNS = 20 };
static struct { unsigned seconds; int turns; double begin, last; } watch;

void test_watchdog(int seconds) {
  watch.seconds = (unsigned)(patience * seconds * (UNDER_TSAN ? 5 : UNDER_ASAN ? 3 : 1));
  watch.turns = 0, watch.begin = watch.last = busy_so_far();
  alarm(watch.seconds);
}

static bool goes_on(void) {
  double now = busy_so_far(), taken = now - watch.last;
  watch.last = now;
  return ++watch.turns < MOST_TURNS && now - watch.begin < watch.seconds && taken > 0.004 * watch.seconds;
}

static void say(const char *text) {
  if (write(STDOUT_FILENO, text, strlen(text)) < 0) _exit(FAILED);
}

static void hung(int signal) {
  (void)signal;
  if (goes_on()) {
    alarm(watch.seconds);
    return;
  }
  say(current->file);
  say(": ");
  say(current->name);
  say(": hung\n");
  _exit(FAILED);
}

static void too_long(int signal) {
  (void)signal;
  _exit(SKIPPED);
}

/* Ends this process when it has been busy for so long; 0: never. */
static void end_within(double seconds) {
  struct itimerval t = { .it_value = { (time_t)seconds, (suseconds_t)(1e6 * (seconds - (double)(time_t)seconds)) } };
  signal(SIGPROF, too_long);
  setitimer(ITIMER_PROF, &t, NULL);
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Work in the background lets go of its arrays a moment after it has told that they are ready. */
static void await_background(void) {
  for (int i = 0; i < 200 && weft_get(WEFT_NODES); i++) usleep(5000);
}

static void expect_nothing_left(void) {
  if (!weft_get || !weft_set) return;
  await_background();
  int64_t nodes = weft_get(WEFT_NODES), there = weft_get(WEFT_BYTES_USED), bytes;
  weft_set(WEFT_DEVICE, 0);
  bytes = weft_get(WEFT_BYTES_USED);
  if (nodes) test_fail(current->file, 0, "%lld nodes are left", (long long)nodes);
  if (bytes) test_fail(current->file, 0, "%lld bytes of arrays are left", (long long)bytes);
  if (there && !bytes) test_fail(current->file, 0, "%lld bytes are left on the device", (long long)there);
  int64_t on_host = getenv("WEFT_EXPECT_DEVICE") ? weft_get(WEFT_KERNELS_HOST) : 0; /* tools/gpu asks for it */
  if (on_host) test_fail(current->file, 0, "%lld steps of work for a device ran on the host", (long long)on_host);
}

static enum result run_here(const struct test *t) {
  current = t;
  current_result = PASSED;
  signal(SIGALRM, hung);
  test_watchdog(WATCHDOG_SECONDS);
  t->run();
  expect_nothing_left();
  alarm(0);
  fflush(stdout);
  return current_result;
}

static double busy_here(void) {
  struct rusage u = { 0 };
  getrusage(RUSAGE_SELF, &u);
  return busy_of(&u);
}

static void count(struct test *t, enum result r, struct spent spent) {
  t->spent = spent;
  all_busy += spent.busy;
  *(r == PASSED ? &n_passed : r == SKIPPED ? &n_skipped : &n_failed) += 1;
  if (verbose)
    printf("%7.3f s %7.3f s busy  %-7s %s: %s\n", spent.seconds, spent.busy, r == PASSED ? "passed" : r == SKIPPED ? "skipped" : "FAILED", t->file, t->name);
  fflush(stdout);
}

/* exit, not _exit: the leak checker of a sanitizer reports there, by an exit status of its own. */
static bool start(struct job *job, int i) {
  *job = (struct job){ .test = i, .start = now() };
  fflush(stdout);
  job->pid = fork();
  if (job->pid == 0) end_within(within), exit(run_here(&tests[i]));
  if (job->pid < 0) job->pid = 0;
  return job->pid != 0;
}

static enum result verdict(const struct test *t, int status) {
  if (WIFSIGNALED(status)) {
    printf("%s: %s: ended by signal %d, %s\n", t->file, t->name, WTERMSIG(status), strsignal(WTERMSIG(status)));
    return FAILED;
  }
  int code = WEXITSTATUS(status);
  if (code == PASSED || code == SKIPPED) return (enum result)code;
  if (code != FAILED) printf("%s: %s: exit status %d\n", t->file, t->name, code);
  return FAILED;
}

static void finish_one(struct job jobs[]) {
  int status;
  struct rusage u = { 0 };
  pid_t pid = wait4(-1, &status, 0, &u);
  for (int j = 0; j < n_jobs; j++) {
    if (pid <= 0 || jobs[j].pid != pid) continue;
    struct test *t = &tests[jobs[j].test];
    count(t, verdict(t, status), (struct spent){ now() - jobs[j].start, busy_of(&u) });
    jobs[j].pid = 0;
  }
}

static struct job *free_job(struct job jobs[]) {
  for (int j = 0; j < n_jobs; j++)
    if (!jobs[j].pid) return &jobs[j];
  return NULL;
}

static bool any_running(const struct job jobs[]) {
  for (int j = 0; j < n_jobs; j++)
    if (jobs[j].pid) return true;
  return false;
}

static bool wanted(const struct test *t, int n_texts, char **texts) {
  for (int i = 0; i < n_buts; i++)
    if (strstr(t->name, buts[i]) || strstr(t->file, buts[i])) return false;
  for (int i = 0; i < n_texts; i++)
    if (strstr(t->name, texts[i]) || strstr(t->file, texts[i])) return true;
  return n_texts == 0;
}

static void run_or_list(struct job jobs[], int i) {
  if (list_only) {
    printf("%s: %s\n", tests[i].file, tests[i].name);
    return;
  }
  if (here) {
    struct spent begin = { now(), busy_here() };
    enum result r = run_here(&tests[i]);
    count(&tests[i], r, (struct spent){ now() - begin.seconds, busy_here() - begin.busy });
    return;
  }
  while (!free_job(jobs)) finish_one(jobs);
  if (start(free_job(jobs), i)) return;
  printf("%s: %s: cannot fork\n", tests[i].file, tests[i].name);
  count(&tests[i], FAILED, (struct spent){ 0 });
}

/* The longest tests begin first, so that none of them is alone at the end: files and names, as texts are given; here, on a device, and on
 * one whose driver interprets PTX. */
static void put_longest_first(void) {
  static const char *const longest[] = { "a_chain_of_a_million", "every_op.c", "failing.c", "ptx.c", "limits.c", "loop_views.c", "are_assembled",
    "is_not_serialized", "distributions.c", "eight_threads", "trigonometry", "cuda_programs_give", "second.c", "cuda_factors", "cuda_products",
    "gpu_attention.c", "cuda_multiplies", "cuda_convolves" };
  struct test *sorted = malloc((size_t)(n_tests + 1) * sizeof *sorted);
  if (!sorted) abort();
  int n = 0;
  enum { LONGEST = sizeof longest / sizeof *longest };
  for (int k = 0; k <= LONGEST; k++)
    for (int i = 0; i < n_tests; i++) {
      int rank = 0;
      while (rank < LONGEST && !strstr(tests[i].file, longest[rank]) && !strstr(tests[i].name, longest[rank])) rank++;
      if (rank == k) sorted[n++] = tests[i];
    }
  free(tests);
  tests = sorted;
}

/* Begins those of this shard that are called so and have not been begun yet; returns how many are called so. */
static int run_those(struct job jobs[], int n_texts, char **texts) {
  int n = 0;
  for (int i = 0; i < n_tests && !(first && n_failed); i++) {
    if (tests[i].is_begun || !wanted(&tests[i], n_texts, texts)) continue;
    tests[i].is_begun = true;
    if (n++ % n_shards != shard - 1) continue;
    if (most_busy > 0 && all_busy > most_busy) n_left++;
    else run_or_list(jobs, i);
  }
  return n;
}

static int slower(const void *a, const void *b) {
  double x = ((const struct test *)a)->spent.busy, y = ((const struct test *)b)->spent.busy;
  return (x < y) - (x > y);
}

/* Where the time of the processors goes, of a run of all tests. */
static void show_slowest(void) {
  double all = 0;
  for (int i = 0; i < n_tests; i++) all += tests[i].spent.busy;
  qsort(tests, (size_t)n_tests, sizeof *tests, slower);
  printf("the slowest, of %.0f s of one processor:\n", all);
  for (int i = 0; i < n_tests && i < SLOWEST; i++) printf("%7.1f s  %s: %s\n", tests[i].spent.busy, tests[i].file, tests[i].name);
}

static int usage(void) {
  fputs("usage: weft-test [--but TEXT] [--list] [--first] [--in-order] [--jobs N] [--busy N] [--shard I/N] [--here]\n"
        "                 [--within S] [--patience N] [--verbose] [text ..]\n", stderr);
  return 2;
}

/* Takes the options off the front; returns how many arguments they were, or -1. */
static int options(int n, char **arg) {
  int i = 0;
  for (; i < n && !strncmp(arg[i], "--", 2); i++) {
    const char *value = i + 1 < n ? arg[i + 1] : "";
    if (!strcmp(arg[i], "--list")) list_only = true;
    else if (!strcmp(arg[i], "--here")) here = true;
    else if (!strcmp(arg[i], "--verbose")) verbose = true;
    else if (!strcmp(arg[i], "--first")) first = true;
    else if (!strcmp(arg[i], "--in-order")) in_order = true;
    else if (!strcmp(arg[i], "--but") && *value && n_buts < MAX_BUTS) buts[n_buts++] = value, i++;
    else if (!strcmp(arg[i], "--busy") && sscanf(value, "%lf", &most_busy) == 1) i++;
    else if (!strcmp(arg[i], "--within") && sscanf(value, "%lf", &within) == 1) i++;
    else if (!strcmp(arg[i], "--patience") && sscanf(value, "%d", &patience) == 1) i++;
    else if (!strcmp(arg[i], "--jobs") && sscanf(value, "%d", &n_jobs) == 1) i++;
    else if (!strcmp(arg[i], "--shard") && sscanf(value, "%d/%d", &shard, &n_shards) == 2) i++;
    else return -1;
  }
  return shard >= 1 && shard <= n_shards && patience >= 1 ? i : -1;
}

int main(int argc, char **argv) {
  int n_options = options(argc - 1, argv + 1);
  if (n_options < 0) return usage();
  setenv("WEFT_CACHE", "off", 0); /* tests of the cache on disk have folders of their own */
  if (mem_watch) mem_watch();
  if (n_jobs < 1) n_jobs = (int)sysconf(_SC_NPROCESSORS_ONLN);
  if (n_jobs < 1) n_jobs = 1;
  if (n_jobs > MAX_JOBS) n_jobs = MAX_JOBS;

  put_longest_first();
  struct job jobs[MAX_JOBS] = { 0 };
  int n_texts = argc - 1 - n_options, n_wanted = 0;
  char **texts = argv + 1 + n_options;
  if (in_order) for (int i = 0; i < n_texts; i++) n_wanted += run_those(jobs, 1, texts + i);
  else n_wanted = run_those(jobs, n_texts, texts);
  while (any_running(jobs)) finish_one(jobs);
  if (list_only) return 0;
  if (!weft_get) printf("no weft_get in this program: what tests leave behind was not checked\n");
  if (n_texts && !n_wanted) printf("no test is called so\n");
  if (n_left) printf("%d tests are left: the others have taken %.0f s of the processors\n", n_left, all_busy);
  if (!n_texts) show_slowest();
  printf("%d passed, %d failed, %d skipped\n", n_passed, n_failed, n_skipped);
  free(tests);
  return n_failed || (n_texts && !n_wanted);
}
