/* pool.c -- parts run once each, whoever calls, however many threads there are or fail to be. */
#define _GNU_SOURCE
#include <sched.h>
#include "run/pool.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "base/mem.h"
#include "base/text.h"
#include "run/machine.h"
#include "test.h"

enum { PARTS = 1000 };
struct tally { atomic_int ran[PARTS]; atomic_int n; };

static void mark(void *ctx, int i) {
  struct tally *t = ctx;
  atomic_fetch_add(&t->ran[i], 1);
  atomic_fetch_add(&t->n, 1);
}

static bool ran_once(struct tally *t, int n) {
  for (int i = 0; i < PARTS; i++)
    if (atomic_load(&t->ran[i]) != (i < n)) return false;
  return true;
}

TEST(every_part_runs_once_for_any_number_of_threads) {
  static const int sizes[] = { 0, 1, 2, 3, 64, PARTS };
  for (int threads = -1; threads <= 9; threads++)
    for (int s = 0; s < 6; s++) {
      struct tally t = { 0 };
      pool_run(sizes[s], threads, mark, &t);
      EXPECT(ran_once(&t, sizes[s]));
    }
  pool_stop();
}

TEST(ten_thousand_jobs_in_a_row_lose_nothing) {
  for (int r = 0; r < 10000; r++) {
    struct tally t = { 0 };
    pool_run(1 + r % 5, 2 + r % 3, mark, &t);
    EXPECT_INT(atomic_load(&t.n), 1 + r % 5);
  }
  pool_stop();
}

TEST(jobs_after_a_sleep_of_the_threads_run_too) {
  for (int r = 0; r < 20; r++) {
    struct tally t = { 0 };
    usleep(2000);
    pool_run(100, 4, mark, &t);
    EXPECT(ran_once(&t, 100));
  }
  pool_stop();
}

struct places { pthread_t owner; int cpu; atomic_int n_others, n_beside; };

static void look_where(void *ctx, int i) {
  struct places *p = ctx;
  cpu_set_t mine;
  (void)i;
  usleep(100);
  if (pthread_equal(pthread_self(), p->owner) || sched_getaffinity(0, sizeof mine, &mine)) return;
  atomic_fetch_add(&p->n_others, 1);
  if (CPU_ISSET(p->cpu, &mine)) atomic_fetch_add(&p->n_beside, 1);
}

TEST(threads_that_sleep_are_to_be_woken_now_and_then) {
  pool_stop();
  int n = 0;
  for (int i = 0; i < 1000; i++) n += pool_is_awake();
  EXPECT(n > 0 && n < 100);
}

/* Parts that take no processor time; other threads are put aside in them, or help. */
struct crowd { pthread_t owner; bool is_crowded; };

static void be_put_aside(void *ctx, int i) {
  struct crowd *c = ctx;
  (void)i;
  usleep(pthread_equal(pthread_self(), c->owner) || !c->is_crowded ? 400 : 5000);
}

static int n_unshared(int n, bool is_crowded) {
  struct crowd c = { pthread_self(), is_crowded };
  int alone = 0;
  for (int i = 0; i < n; i++) {
    if (pool_pays(0)) pool_run(4, 2, be_put_aside, &c);
    else alone++;
  }
  return alone;
}

TEST(short_work_is_not_shared_for_a_while_where_that_takes_longer) {
  if (getenv("WEFT_THREADS")) { test_skip("WEFT_THREADS says how many threads there are"); return; }
  EXPECT(pool_pays(0));
  EXPECT(n_unshared(300, true) > 200);
  int alone = 1;
  for (int r = 0; r < 300 && alone; r++) alone = n_unshared(100, false); /* a pause, and then a trial that succeeds */
  EXPECT_INT(alone, 0);
  pool_insist();
  EXPECT_INT(n_unshared(100, true), 0);
  pool_stop();
}

TEST(threads_keep_off_the_processor_of_him_they_work_for) {
  cpu_set_t all;
  if (sched_getaffinity(0, sizeof all, &all) || CPU_COUNT(&all) < 2) { test_skip("one processor"); return; }
  for (int r = 0, seen = 0; r < 100 && seen < 3; r++) {
    struct places p = { .owner = pthread_self(), .cpu = sched_getcpu() };
    pool_run(8, 3, look_where, &p);
    if (sched_getcpu() != p.cpu || !p.n_others) continue; /* moved, or alone */
    EXPECT_INT(p.n_beside, 0);
    seen++;
  }
  pool_stop();
}

static void write_slow(void *ctx, int i) {
  usleep(100);
  ((int *)ctx)[i] = i + 1;
}

TEST(plain_writes_of_the_parts_are_seen_by_the_caller) {
  int out[50] = { 0 };
  pool_run(50, 4, write_slow, out);
  for (int i = 0; i < 50; i++) EXPECT_INT(out[i], i + 1);
  pool_stop();
}

/* Some parts take long: whoever is done first must not be counted twice, nor anybody who was not asked to come. */
static void one_is_slow(void *ctx, int i) {
  if (i % 3 == 1) usleep(300);
  atomic_fetch_add((_Atomic int *)ctx, 1);
}

TEST(a_job_is_done_when_its_last_part_is_and_idle_threads_do_nothing) {
  for (int round = 0; round < 300; round++) {
    _Atomic int done = 0;
    pool_run(4, 4, one_is_slow, &done);
    EXPECT_INT(done, 4);
  }
  struct timespec before, after;
  usleep(20000); /* they spin for a moment, then sleep */
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &before);
  usleep(100000);
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &after);
  double used = (double)(after.tv_sec - before.tv_sec) + 1e-9 * (double)(after.tv_nsec - before.tv_nsec);
  if (used > 0.05) test_fail(__FILE__, __LINE__, "idle threads used %g s of processor time", used);
}

static void nest(void *ctx, int i) {
  struct tally *t = (struct tally *)ctx + i;
  pool_run(PARTS, 4, mark, t);
}

TEST(a_nested_call_runs_on_its_caller) {
  struct tally *t = calloc(8, sizeof *t);
  pool_run(8, 4, nest, t);
  for (int i = 0; i < 8; i++) EXPECT(ran_once(&t[i], PARTS));
  free(t);
  pool_stop();
}

static void *call_often(void *result) {
  for (int r = 0; r < 300; r++) {
    struct tally t = { 0 };
    pool_run(40, 3, mark, &t);
    if (!ran_once(&t, 40)) *(bool *)result = false;
  }
  return NULL;
}

TEST(eight_callers_at_once_each_get_their_parts) {
  pthread_t thread[8];
  bool right[8];
  for (int i = 0; i < 8; i++) right[i] = true, pthread_create(&thread[i], NULL, call_often, &right[i]);
  for (int i = 0; i < 8; i++) {
    pthread_join(thread[i], NULL);
    EXPECT(right[i]);
  }
  pool_stop();
}

TEST(stopping_between_jobs_starts_again) {
  pool_stop();
  for (int r = 0; r < 50; r++) {
    struct tally t = { 0 };
    pool_run(10, 3, mark, &t);
    EXPECT(ran_once(&t, 10));
    pool_stop();
  }
}

TEST(a_refused_thread_means_fewer_threads) {
  for (int at = 1; at <= 4; at++) {
    struct tally t = { 0 };
    mem_fail_at(at, 1);
    pool_run(100, 4, mark, &t);
    mem_fail_at(0, 0);
    EXPECT(ran_once(&t, 100));
    pool_stop();
  }
}

static int run_in_child(void) {
  test_watchdog(20);
  struct tally t = { 0 };
  pool_run(100, 4, mark, &t);
  return ran_once(&t, 100) ? 0 : 1;
}

TEST(a_child_after_fork_has_a_pool_of_its_own) {
  if (UNDER_TSAN) return test_skip("ThreadSanitizer does not follow a fork of a process with several threads");
  struct tally t = { 0 };
  pool_run(100, 4, mark, &t);
  for (int r = 0; r < 10; r++) {
    pid_t pid = fork();
    if (!pid) _exit(run_in_child());
    int status = -1;
    waitpid(pid, &status, 0);
    EXPECT_INT(status, 0);
    pool_run(100, 4, mark, &t);
  }
  pool_stop();
}

static void *keep_busy(void *stop) {
  struct tally t = { 0 };
  while (!atomic_load((atomic_bool *)stop)) pool_run(PARTS, 2, mark, &t);
  return NULL;
}

TEST(a_fork_while_others_use_the_pool_does_not_hang_the_child) {
  if (UNDER_TSAN) return test_skip("ThreadSanitizer does not follow a fork of a process with several threads");
  atomic_bool stop = false;
  pthread_t busy;
  pthread_create(&busy, NULL, keep_busy, &stop);
  for (int r = 0; r < 20; r++) {
    pid_t pid = fork();
    if (!pid) _exit(run_in_child());
    int status = -1;
    waitpid(pid, &status, 0);
    EXPECT_INT(status, 0);
  }
  atomic_store(&stop, true);
  pthread_join(busy, NULL);
  pool_stop();
}

TEST(weft_threads_says_how_many) {
  pid_t pid = fork(); /* the answer is kept, so each needs a process */
  if (!pid) {
    setenv("WEFT_THREADS", "3", 1);
    _exit(pool_threads() == 3 ? 0 : 1);
  }
  int status = -1;
  waitpid(pid, &status, 0);
  EXPECT_INT(status, 0);
  EXPECT(pool_threads() >= 1);
}

static char root[64];

static void put(const char *path, const char *content) {
  struct text t = { 0 };
  text_addf(&t, "%s/%s", root, path);
  for (char *s = t.s + strlen(root) + 1; (s = strchr(s, '/')); s++) *s = 0, mkdir(t.s, 0700), *s = '/';
  FILE *f = fopen(t.s, "w");
  if (f) fputs(content, f), fclose(f);
  EXPECT(f != NULL);
  text_free(&t);
}

static void new_root(void) {
  strcpy(root, "/tmp/weft-machine-XXXXXX");
  EXPECT(mkdtemp(root) != NULL);
}

static void drop_root(void) {
  struct text t = { 0 };
  text_addf(&t, "rm -rf %s", root);
  EXPECT_INT(system(t.s), 0);
  text_free(&t);
}

TEST(a_machine_without_cgroups_has_cpus_and_memory) {
  new_root();
  EXPECT(machine_cpus(root) >= 1);
  EXPECT(machine_memory(root) > 1 << 20);
  drop_root();
}

TEST(the_affinity_mask_says_how_many_threads_there_are_at_most) {
  cpu_set_t all, one;
  if (sched_getaffinity(0, sizeof all, &all)) { test_skip("no affinity"); return; }
  int first = 0;
  while (!CPU_ISSET(first, &all)) first++;
  CPU_ZERO(&one);
  CPU_SET(first, &one);
  EXPECT_INT(machine_cpus("/nowhere"), CPU_COUNT(&all));
  EXPECT_INT(sched_setaffinity(0, sizeof one, &one), 0);
  EXPECT_INT(machine_cpus("/nowhere"), 1);
  EXPECT_INT(sched_setaffinity(0, sizeof all, &all), 0);
}

TEST(the_quota_of_cgroup_2_is_rounded_up_and_inherited) {
  new_root();
  put("proc/self/cgroup", "0::/a/b\n");
  put("sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
  int all = machine_cpus(root);
  put("sys/fs/cgroup/a/cpu.max", "50000 100000\n");
  EXPECT_INT(machine_cpus(root), 1);
  put("sys/fs/cgroup/a/cpu.max", "150000 100000\n");
  EXPECT_INT(machine_cpus(root), all < 2 ? all : 2);
  put("sys/fs/cgroup/a/memory.max", "max\n");
  put("sys/fs/cgroup/a/b/memory.max", "123456789\n");
  EXPECT_INT(machine_memory(root), 123456789);
  drop_root();
}

TEST(the_quota_of_cgroup_1_is_found_though_the_group_is_not_visible) {
  new_root();
  put("proc/self/cgroup", "5:memory:/docker/abc\n4:cpu,cpuacct:/docker/abc\n1:name=systemd:/x\n");
  put("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "90000\n");
  put("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  put("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_INT(machine_cpus(root), 1);
  int64_t ram = machine_memory(root);
  put("sys/fs/cgroup/memory/memory.limit_in_bytes", "55555555\n");
  EXPECT(ram > 55555555);
  EXPECT_INT(machine_memory(root), 55555555);
  put("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
  EXPECT(machine_cpus(root) >= 1);
  drop_root();
}
