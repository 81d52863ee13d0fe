/* threads.c -- any thread may use any array; threads come and go, also by fork. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "base/mem.h"
#include "test.h"
#include "weft.h"

enum { THREADS = 8 };

enum { ROUNDS = UNDER_TSAN ? 40 : 150 };

static void run_threads(void *(*live)(void *), void *arg, size_t size) {
  pthread_t t[THREADS];
  for (int i = 0; i < THREADS; i++) pthread_create(&t[i], NULL, live, (char *)arg + (size_t)i * size);
  for (int i = 0; i < THREADS; i++) pthread_join(t[i], NULL);
}

static weft_array *floats(int64_t n, float first) {
  float x[64];
  for (int64_t i = 0; i < n; i++) x[i] = first + (float)i;
  return weft_from(WEFT_F32, WEFT_DIMS(n), x);
}

static float sum_of(weft_array *a) {
  float x = -1;
  EXPECT_OK(weft_read(weft_sum(a, WEFT_ALL), WEFT_F32, &x, sizeof x));
  return x;
}

struct guest { weft_array **shared; int n; float want; };

/* The same lazy nodes for all, in another order for each, and own ones beside them. */
static void *evaluates(void *arg) {
  struct guest *g = arg;
  unsigned seed = (unsigned)(uintptr_t)arg;
  for (int r = 0; r < ROUNDS; r++) {
    weft_scope *s = weft_scope_open();
    weft_array *x = g->shared[rand_r(&seed) % (unsigned)g->n], *own = weft_add(floats(16, (float)r), x);
    float got = sum_of(own), want = 16 * (float)r + 120 + g->want;
    if (got != want) test_fail(__FILE__, __LINE__, "round %d: %g, not %g", r, got, want);
    weft_array *some[] = { g->shared[rand_r(&seed) % (unsigned)g->n], own, x };
    if (r % 3 == 0) EXPECT_OK(weft_eval_async(3, some));
    if (r % 3 == 1) EXPECT_OK(weft_eval(3, some));
    (void)weft_state_of(some[0], NULL);
    if (r % 5 == 0) EXPECT_OK(weft_wait(3, some, 30));
    if (r % 7 == 0) EXPECT_OK(weft_wait(0, NULL, 30));
    weft_scope_discard(s);
  }
  EXPECT_OK(weft_wait(0, NULL, 30));
  return NULL;
}

TEST(eight_threads_evaluate_shared_and_own_graphs) {
  weft_scope *s = weft_scope_open();
  enum { N = 40 };
  weft_array *shared[N], *x = floats(16, 0); /* sums to 120, and every shared one to that */
  for (int i = 0; i < N; i++) shared[i] = i % 2 ? weft_flip(weft_add(weft_mul(x, weft_scalar(1)), weft_scalar(0)), 0)
                                                : weft_reshape(weft_cumsum(weft_add(x, weft_full(WEFT_F32, WEFT_DIMS(1), 0)), 0), WEFT_DIMS(16));
  for (int i = 0; i < N; i += 2) shared[i] = weft_add(x, weft_mul(shared[i], weft_scalar(0)));
  struct guest g[THREADS];
  for (int i = 0; i < THREADS; i++) g[i] = (struct guest){ shared, N, 120 };
  run_threads(evaluates, g, sizeof *g);
  weft_scope_discard(s);
}

/* Rows whose number only a run tells, read by all at once: whoever finds them computed must find how many they are. */
struct rows { weft_array *y; pthread_barrier_t *begin; int who; };

static void *reads_rows(void *arg) {
  struct rows *r = arg;
  weft_scope *s = weft_scope_open();
  weft_array *some = r->who % 2 ? weft_add(r->y, weft_scalar(1)) : weft_cumsum(weft_mul(r->y, r->y), 0);
  float v[6] = { [5] = 77 };
  pthread_barrier_wait(r->begin);
  if (r->who % 3 == 2) { /* whoever finds them there reads them without a look at the graph */
    if (weft_read(r->y, WEFT_F32, v, 5 * sizeof *v)) test_fail(__FILE__, __LINE__, "%s", weft_message());
    for (int i = 0; i < 5; i++) if (v[i] != (float)i + 1 || v[5] != 77) test_fail(__FILE__, __LINE__, "row %d is %g", i, v[i]);
  }
  weft_status status = weft_eval(1, &some);
  if (status) test_fail(__FILE__, __LINE__, "%s", weft_message());
  else if (weft_dim(some, 0) != 5) test_fail(__FILE__, __LINE__, "%lld rows", (long long)weft_dim(some, 0));
  weft_scope_discard(s);
  return NULL;
}

static weft_array *rows_until(bool is_uneven) {
  weft_loop *l = weft_loop_open(weft_integer(64));
  weft_array *c = weft_loop_carry(l, weft_scalar(0)), *n = weft_add(c, weft_scalar(1));
  weft_loop_next(l, c, n);
  weft_loop_until(l, weft_ge(is_uneven ? weft_sum(weft_flatnonzero(weft_lt(weft_arange(WEFT_I64, 0, 16, 1), n)), WEFT_ALL) : n, weft_scalar(is_uneven ? 10 : 5)));
  weft_array *y = weft_loop_all(l, n);
  weft_loop_close(l);
  return y;
}

static void share_rows(bool is_uneven) {
  for (int round = 0; round < 4 * ROUNDS; round++) {
    weft_scope *s = weft_scope_open();
    pthread_barrier_t begin;
    pthread_barrier_init(&begin, NULL, THREADS);
    weft_array *y = rows_until(is_uneven);
    struct rows r[THREADS];
    for (int i = 0; i < THREADS; i++) r[i] = (struct rows){ y, &begin, i };
    run_threads(reads_rows, r, sizeof *r);
    pthread_barrier_destroy(&begin);
    weft_scope_discard(s);
  }
}
static void *takes_a_handle(void *at) {
  struct rows *r = at;
  weft_scope *s = weft_scope_open();
  pthread_barrier_wait(r->begin);
  EXPECT_OK(weft_check(weft_add(weft_scalar(1), weft_scalar(2))));
  pthread_barrier_wait(r->begin);
  weft_scope_discard(s);
  return NULL;
}

TEST(threads_that_come_and_go_together_leave_no_memory_behind) {
  pthread_barrier_t begin;
  struct rows r[THREADS];
  int64_t after_ten = 0;
  mem_watch();
  pthread_barrier_init(&begin, NULL, THREADS);
  for (int i = 0; i < THREADS; i++) r[i] = (struct rows){ NULL, &begin, i };
  for (int round = 0; round < 30; round++) {
    run_threads(takes_a_handle, r, sizeof *r);
    if (round == 9) after_ten = mem_live();
  }
  pthread_barrier_destroy(&begin);
  if (mem_live() > after_ten) test_fail(__FILE__, __LINE__, "%lld blocks, then %lld", (long long)after_ten, (long long)mem_live());
}

TEST(eight_threads_find_the_number_of_rows_with_the_rows) { share_rows(false); }
TEST(eight_threads_find_the_number_of_rows_of_uneven_steps_with_the_rows) { share_rows(true); }

/* A size that is computed, of arrays of each thread's own: nothing but the size is shared, and one of them tells it. */
struct counted { weft_array *place; pthread_barrier_t *begin; int who; };

static void *takes_counted(void *arg) {
  struct counted *c = arg;
  weft_scope *s = weft_scope_open();
  weft_array *y = weft_add(c->place, weft_integer(c->who));
  int64_t v[3] = { 0 };
  pthread_barrier_wait(c->begin);
  for (volatile int wait = 0; wait < c->who * 300; wait++) { }
  weft_status status = weft_read(y, WEFT_I64, v, sizeof v);
  if (status) test_fail(__FILE__, __LINE__, "%s", weft_message());
  else if (v[0] != 1 + c->who || v[1] != 2 + c->who || v[2] != 4 + c->who) test_fail(__FILE__, __LINE__, "%lld", (long long)v[0]);
  weft_scope_discard(s);
  return NULL;
}

TEST(eight_threads_plan_with_a_size_that_one_of_them_tells) {
  for (int round = 0; round < 2 * ROUNDS; round++) {
    weft_scope *s = weft_scope_open();
    pthread_barrier_t begin;
    pthread_barrier_init(&begin, NULL, THREADS);
    weft_array *place = weft_flatnonzero(weft_from(WEFT_I32, WEFT_DIMS(6), (int32_t[]){ 0, 1, 1, 0, 1, 0 }));
    struct counted c[THREADS];
    for (int i = 0; i < THREADS; i++) c[i] = (struct counted){ place, &begin, i };
    run_threads(takes_counted, c, sizeof *c);
    pthread_barrier_destroy(&begin);
    weft_scope_discard(s);
  }
}

/* A loop that one thread runs for its carry, without asking how often, while another is told how often: the plan of the one is
 * for any number of steps, and the next round has another number. */
struct told { weft_array *y; pthread_barrier_t *begin; };

static void *reads_one(void *arg) {
  struct told *t = arg;
  pthread_barrier_wait(t->begin);
  if (weft_eval(1, &t->y)) test_fail(__FILE__, __LINE__, "%s", weft_message());
  return NULL;
}

TEST(a_plan_for_any_number_of_steps_is_not_made_with_the_one_that_another_thread_is_told) {
  for (int round = 0; round < ROUNDS; round++) {
    double scale = 2 + round; /* other constants are another plan: each is made here, and used once more with more steps */
    for (int more = 0; more < 2; more++) {
      weft_scope *s = weft_scope_open();
      pthread_barrier_t begin;
      pthread_barrier_init(&begin, NULL, 2);
      bool is_four = more;
      weft_array *n = weft_where(weft_from(WEFT_BOOL, 0, NULL, &is_four), weft_integer(4), weft_integer(3));
      weft_loop *l = weft_loop_open(n);
      weft_array *c = weft_loop_carry(l, weft_full(WEFT_F64, WEFT_DIMS(2), 1)), *next = weft_mul(c, weft_scalar(scale));
      weft_loop_next(l, c, next);
      weft_array *all = weft_loop_all(l, next), *last = weft_loop_last(l, c);
      weft_loop_close(l);
      struct told t[2] = { { last, &begin }, { all, &begin } };
      pthread_t other;
      if (!more) pthread_create(&other, NULL, reads_one, &t[1]), reads_one(&t[0]), pthread_join(other, NULL);
      double v[2], want = more ? scale * scale * scale * scale : scale * scale * scale;
      EXPECT_OK(weft_read(last, WEFT_F64, v, sizeof v));
      if (v[0] != want || v[1] != want) test_fail(__FILE__, __LINE__, "round %d: %g, not %g", round, v[0], want);
      pthread_barrier_destroy(&begin);
      weft_scope_discard(s);
    }
  }
}

/* The moment they are there. */
TEST(rows_that_are_computed_in_the_background_are_read_as_soon_as_they_are_there) {
  for (int round = 0; round < 20 * ROUNDS; round++) {
    weft_scope *s = weft_scope_open();
    weft_array *y = rows_until(round % 8 == 0);
    float v[6] = { [5] = 77 };
    EXPECT_OK(weft_eval_async(1, &y));
    while (weft_state_of(y, NULL) != WEFT_READY) {}
    EXPECT_OK(weft_read(y, WEFT_F32, v, 5 * sizeof *v));
    for (int i = 0; i < 5; i++) if (v[i] != (float)i + 1 || v[5] != 77) test_fail(__FILE__, __LINE__, "row %d is %g", i, v[i]);
    weft_scope_discard(s);
  }
}

/* One thread commits updates, the others build on the array and read it: they see some commit, never a half. */
struct page { weft_array *w; _Atomic bool *is_over; };

static void *builds(void *arg) {
  struct page *p = arg;
  float last = 0;
  while (!*p->is_over) {
    weft_scope *s = weft_scope_open();
    float x[64];
    weft_status status = weft_read(weft_add(p->w, weft_scalar(0)), WEFT_F32, x, sizeof x);
    if (status) test_fail(__FILE__, __LINE__, "%s", weft_message());
    for (int i = 1; i < 64; i++) if (x[i] != x[0]) test_fail(__FILE__, __LINE__, "%g beside %g", x[0], x[i]);
    if (x[0] < last) test_fail(__FILE__, __LINE__, "%g after %g", x[0], last);
    last = x[0];
    weft_scope_discard(s);
  }
  return NULL;
}

static void commit_beside_readers(bool waits) {
  weft_scope *s = weft_scope_open();
  _Atomic bool is_over = false;
  float zeros[64] = { 0 };
  weft_array *w = weft_from(WEFT_F32, WEFT_DIMS(64), zeros);
  struct page p = { w, &is_over };
  pthread_t t[3];
  for (int i = 0; i < 3; i++) pthread_create(&t[i], NULL, builds, &p);
  for (int r = 0; r < ROUNDS; r++) {
    weft_scope *step = weft_scope_open();
    weft_update(w, weft_add(w, weft_scalar(1)));
    EXPECT_OK(waits ? weft_scope_close(step) : weft_scope_close_async(step));
  }
  EXPECT_OK(weft_wait(1, &w, 30));
  is_over = true;
  for (int i = 0; i < 3; i++) pthread_join(t[i], NULL);
  EXPECT(sum_of(w) == 64 * ROUNDS);
  EXPECT_OK(weft_wait(0, NULL, 30));
  weft_scope_discard(s);
}
TEST(threads_build_on_an_array_while_another_commits_it) { commit_beside_readers(true); }
TEST(threads_build_on_an_array_while_another_commits_it_without_waiting) { commit_beside_readers(false); }

static void *leaves_scopes_open(void *shared) {
  for (int k = 0; k < 3; k++) {
    weft_scope *s = weft_scope_open();
    weft_array *x = weft_exp(weft_add(shared, floats(16, 1)));
    weft_update(shared, x);
    if (k == 1) (void)weft_loop_open(weft_integer(3));
    if (k == 2) EXPECT_OK(weft_eval_async(1, &x));
    EXPECT(s != NULL);
  }
  return NULL;
}
/* Who evaluates, without a scope of his own, what is made of arrays in a scope of another thread. */
enum { EVALUATES, STARTS, READS };
struct passer { weft_array *y; int how; };

static void *computes(void *arg) {
  struct passer *p = arg;
  float x[16];
  weft_status status = p->how == EVALUATES ? weft_eval(1, &p->y) : p->how == STARTS ? weft_eval_async(1, &p->y)
                     : weft_read(p->y, WEFT_F32, x, sizeof x);
  EXPECT_OK(status);
  EXPECT_OK(weft_wait(1, &p->y, -1));
  return NULL;
}

/* y2 = x x and y3 = x x x, of a function. */
static void call_powers(weft_array *x, weft_array *y[2]) {
  weft_scope *body = weft_scope_open();
  weft_array *a = weft_input(WEFT_F32, WEFT_DIMS(16)), *p[2] = { weft_mul(a, a) };
  p[1] = weft_mul(p[0], a);
  weft_call(weft_compile(body, 1, &a, 2, p), 1, &x, 2, y);
}

TEST(arrays_of_an_open_scope_keep_their_history_whichever_thread_evaluates) {
  for (int how = EVALUATES; how <= READS; how++) {
    weft_scope *s = weft_scope_open();
    weft_array *x = floats(16, 0), *w = weft_mul(x, x), *y[2], *g;
    EXPECT_OK(weft_eval(1, &w));
    struct passer p[THREADS] = { { weft_tanh(w), how } };
    call_powers(x, y);
    for (int i = 1; i < THREADS; i++) p[i] = (struct passer){ i & 1 ? y[0] : p[0].y, how };
    run_threads(computes, p, sizeof *p);
    weft_grad(w, 1, &x, &g);
    EXPECT(sum_of(g) == 2 * 120);
    weft_grad(weft_sub(y[1], y[0]), 1, &x, &g);
    EXPECT(sum_of(g) == 3 * 1240 - 2 * 120);
    weft_scope_discard(s);
  }
}

TEST(a_thread_may_end_with_scopes_and_loops_open) {
  weft_scope *s = weft_scope_open();
  weft_array *x = floats(16, 0), *many[THREADS];
  for (int i = 0; i < THREADS; i++) many[i] = x;
  pthread_t t[THREADS];
  for (int i = 0; i < THREADS; i++) pthread_create(&t[i], NULL, leaves_scopes_open, many[i]);
  for (int i = 0; i < THREADS; i++) pthread_join(t[i], NULL);
  EXPECT(sum_of(x) == 120);
  weft_array *y = weft_add(x, x);
  EXPECT_OK(weft_eval_async(1, &y)); /* after all that they started */
  EXPECT_OK(weft_wait(0, NULL, 30));
  weft_scope_discard(s);
}

/* ---- fork ---- */

static int outcome(pid_t child) {
  int status = -1;
  EXPECT(child > 0);
  EXPECT_INT(waitpid(child, &status, 0), child);
  if (!WIFEXITED(status)) test_fail(__FILE__, __LINE__, "the child was ended by signal %d", WTERMSIG(status));
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* In the child: 0 if arrays old and new, small and large, are computed, and waiting ends. */
static int works(weft_array *old, float want) {
  alarm(20);
  float x = -1;
  weft_scope *s = weft_scope_open();
  if (weft_read(weft_sum(old, WEFT_ALL), WEFT_F32, &x, sizeof x) || x != want) return 1;
  weft_array *large = weft_sum(weft_full(WEFT_F32, WEFT_DIMS(1 << 22), 1), 0), *y = weft_add(old, old);
  if (weft_read(large, WEFT_F32, &x, sizeof x) || x != 1 << 22) return 2;
  if (weft_eval_async(1, &y) || weft_wait(0, NULL, 20)) return 3;
  weft_scope *step = weft_scope_open();
  weft_update(old, weft_add(old, weft_scalar(1)));
  if (weft_scope_close_async(step) || weft_wait(1, &old, 20)) return 4;
  weft_scope_discard(s);
  return 0;
}

TEST(a_child_after_use_computes) {
  if (UNDER_TSAN) return test_skip("ThreadSanitizer does not follow children that start threads");
  weft_scope *s = weft_scope_open();
  weft_array *x = floats(16, 0), *y = weft_exp(x);
  EXPECT(sum_of(weft_full(WEFT_F32, WEFT_DIMS(1 << 20), 1)) == 1 << 20);
  EXPECT_OK(weft_eval_async(1, &y));
  EXPECT_OK(weft_wait(0, NULL, -1));
  pid_t child = fork();
  if (!child) _exit(works(x, 120));
  EXPECT_INT(outcome(child), 0);
  EXPECT(sum_of(x) == 120);
  weft_scope_discard(s);
}

static void *keeps_busy(void *arg) {
  struct page *p = arg;
  unsigned seed = 1;
  while (!*p->is_over) {
    weft_scope *s = weft_scope_open();
    int64_t n = 1 + rand_r(&seed) % 50;
    weft_array *y = weft_add(weft_sum(weft_exp(weft_full(WEFT_F32, WEFT_DIMS(n, 100), 1)), 1), weft_scalar((double)n));
    (void)!weft_eval(1, &y);
    weft_array *z = weft_add(p->w, weft_scalar(1));
    (void)!weft_eval_async(1, &z);
    (void)!weft_wait(1, &z, -1); /* what is started without waiting piles up */
    weft_scope_discard(s);
  }
  (void)!weft_wait(0, NULL, -1);
  return NULL;
}

TEST(a_child_computes_whatever_other_threads_were_doing_at_the_fork) {
  if (UNDER_ASAN) return test_skip("the allocator of AddressSanitizer may be locked for ever in a child of several threads");
  if (UNDER_TSAN) return test_skip("ThreadSanitizer does not follow children that start threads");
  weft_scope *s = weft_scope_open();
  _Atomic bool is_over = false;
  weft_array *x = floats(16, 0);
  struct page p = { x, &is_over };
  pthread_t t[3];
  for (int i = 0; i < 3; i++) pthread_create(&t[i], NULL, keeps_busy, &p);
  for (int k = 0; k < 25; k++) {
    usleep(3000);
    pid_t child = fork();
    if (!child) _exit(works(x, 120));
    int code = outcome(child);
    if (code) { test_fail(__FILE__, __LINE__, "child %d: %d", k, code); break; }
  }
  is_over = true;
  for (int i = 0; i < 3; i++) pthread_join(t[i], NULL);
  weft_scope_discard(s);
}

TEST(a_child_goes_on_with_what_was_started_in_the_background) {
  if (UNDER_TSAN) return test_skip("ThreadSanitizer does not follow children that start threads");
  weft_scope *s = weft_scope_open();
  weft_array *w = floats(16, 0);
  weft_loop *l = weft_loop_open(weft_integer(30000000));
  weft_array *c = weft_loop_carry(l, w);
  weft_loop_next(l, c, weft_mul(c, weft_scalar(1)));
  weft_array *y = weft_loop_last(l, c);
  weft_loop_close(l);
  EXPECT_OK(weft_eval_async(1, &y));
  weft_scope *step = weft_scope_open();
  weft_update(w, weft_add(w, weft_scalar(1)));
  EXPECT_OK(weft_scope_close_async(step));
  usleep(20000);
  pid_t child = fork();
  if (!child) {
    alarm(20);
    float got = 0;
    if (weft_read(weft_sum(w, 0), WEFT_F32, &got, sizeof got) || got != 136) _exit(1);
    if (weft_read(weft_sum(y, 0), WEFT_F32, &got, sizeof got) || got != 120) _exit(2);
    _exit(weft_wait(0, NULL, -1) ? 3 : 0);
  }
  EXPECT_INT(outcome(child), 0);
  EXPECT_OK(weft_wait(0, NULL, -1));
  EXPECT(sum_of(w) == 136);
  weft_scope_discard(s);
}
