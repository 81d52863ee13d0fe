/* async.c -- what is started without waiting: promises, their order, their failures, and who hears of them. */
#include <pthread.h>
#include <stdlib.h>
#include "base/mem.h"
#include "values.h"

static weft_array *number(float x) { return weft_from(WEFT_F32, WEFT_DIMS(1), &x); }

static float read_one(weft_array *a) {
  float x = -1;
  EXPECT_OK(weft_read(a, WEFT_F32, &x, sizeof x));
  return x;
}

/* x + 1 through a loop of n steps, each of them a kernel: takes a while. */
static weft_array *unchanged(weft_array *c) { return weft_mul(c, weft_scalar(1)); }
static weft_array *slow(weft_array *x, int64_t n) {
  return repeated(n, weft_add(weft_sum(x, 0), weft_scalar(1)), unchanged);
}

/* Whether the work of n steps was still going on when the close had returned. */
static bool returns_before(int64_t n) {
  weft_scope *s = weft_scope_open();
  weft_array *w = number(1);
  float got = 0;
  weft_scope *step = weft_scope_open();
  weft_array *y = slow(w, n);
  weft_update(w, y);
  weft_fetch(y, WEFT_F32, &got, sizeof got);
  EXPECT_OK(weft_scope_close_async(step));
  weft_array *later = weft_add(w, w); /* can be built at once */
  EXPECT_OK(weft_check(w));
  bool yes = weft_state_of(w, NULL) == WEFT_RUNNING;
  yes = yes && weft_wait(1, &w, 0) == WEFT_ERR_TIMEOUT && weft_wait(0, NULL, 0) == WEFT_ERR_TIMEOUT;
  EXPECT_OK(weft_wait(1, &w, -1));
  EXPECT(got == 2);
  EXPECT_INT(weft_state_of(w, NULL), WEFT_READY);
  EXPECT(read_one(later) == 4);
  EXPECT_OK(weft_wait(0, NULL, -1));
  weft_scope_discard(s);
  return yes;
}

/* A busy machine may leave this thread aside until the work is done: then it gets more of it. */
TEST(a_close_without_waiting_returns_before_the_work_is_done) {
  int64_t n = 30000000;
  while (!returns_before(n) && n < 1000000000) n *= 4;
  EXPECT(n < 1000000000);
}

TEST(updates_that_are_not_waited_for_happen_in_order) {
  weft_scope *s = weft_scope_open();
  weft_array *w = number(0);
  float seen[200];
  for (int i = 0; i < 200; i++) {
    weft_scope *step = weft_scope_open();
    weft_array *next = weft_add(weft_mul(w, weft_scalar(0.5)), number((float)i));
    weft_update(w, next);
    weft_fetch(next, WEFT_F32, &seen[i], sizeof seen[i]);
    EXPECT_OK(weft_scope_close_async(step));
  }
  EXPECT_OK(weft_wait(0, NULL, -1));
  float want = 0;
  for (int i = 0; i < 200; i++) {
    want = want * 0.5f + (float)i;
    if (seen[i] != want) test_fail(__FILE__, __LINE__, "step %d: %g, not %g", i, seen[i], want);
  }
  EXPECT(read_one(w) == want);
  weft_scope_discard(s);
}

/* Index 7 of 4, known only when it runs. */
static weft_array *out_of_range(weft_array *x) {
  int64_t seven = 7;
  weft_array *four = weft_broadcast(x, WEFT_DIMS(4)), *i = weft_from(WEFT_I64, WEFT_DIMS(1), &seven);
  return weft_take(four, 1, &i);
}

TEST(a_failure_nobody_waits_for_makes_all_updated_arrays_bad) {
  weft_scope *s = weft_scope_open();
  weft_array *w = number(1), *v = number(2), *other = number(3);
  float got = 77;
  weft_scope *step = weft_scope_open();
  weft_update(w, out_of_range(w));
  weft_update(v, weft_add(v, v));
  weft_fetch(weft_add(other, other), WEFT_F32, &got, sizeof got);
  EXPECT_OK(weft_scope_close_async(step));
  EXPECT_INT(weft_wait(1, &w, -1), WEFT_ERR_INDEX);
  EXPECT_INT(weft_check(w), WEFT_ERR_INDEX);
  EXPECT_INT(weft_check(v), WEFT_ERR_INDEX);
  EXPECT_INT(weft_check(weft_add(v, other)), WEFT_ERR_INDEX);
  EXPECT_INT(weft_state_of(v, NULL), WEFT_FAILED);
  EXPECT(got == 77);
  EXPECT_INT(weft_wait(0, NULL, -1), WEFT_ERR_INDEX); /* of w it has been seen, of the fetch not */
  EXPECT_OK(weft_wait(0, NULL, -1));
  EXPECT(read_one(other) == 3);
  weft_scope_discard(s);
}

TEST(a_fetch_that_fails_in_the_background_is_heard_of_when_all_is_awaited) {
  weft_scope *s = weft_scope_open();
  weft_array *w = number(1);
  float got;
  for (int i = 0; i < 2; i++) {
    weft_scope *step = weft_scope_open();
    weft_fetch(out_of_range(w), WEFT_F32, &got, sizeof got);
    EXPECT_OK(weft_scope_close_async(step));
  }
  EXPECT_INT(weft_wait(0, NULL, -1), WEFT_ERR_INDEX);
  EXPECT_OK(weft_wait(0, NULL, -1));
  weft_scope_discard(s);
}

/* Two scopes that have failed and, as jobs come one after the other, are known to have. */
static void fail_twice(weft_array *w, float got[2]) {
  for (int i = 0; i < 2; i++) {
    weft_scope *step = weft_scope_open();
    weft_fetch(out_of_range(w), WEFT_F32, &got[i], sizeof got[i]);
    EXPECT_OK(weft_scope_close_async(step));
  }
  weft_array *after = weft_add(w, w);
  EXPECT_OK(weft_eval_async(1, &after));
  EXPECT_OK(weft_wait(1, &after, -1));
}

TEST(who_waits_for_an_array_hears_nothing_of_what_failed_beside_it) {
  weft_scope *s = weft_scope_open();
  weft_array *w = number(1), *lazy = weft_add(w, weft_scalar(1)), *y = out_of_range(w), *all[] = { w, lazy };
  float got[2] = { 77, 77 };
  fail_twice(w, got);
  EXPECT_OK(weft_eval_async(1, &y));
  EXPECT_INT(weft_wait(1, &y, -1), WEFT_ERR_INDEX);
  EXPECT_OK(weft_wait(1, &lazy, -1));
  EXPECT_OK(weft_wait(2, all, -1));
  EXPECT_INT(weft_state_of(lazy, NULL), WEFT_LAZY);
  EXPECT_INT(weft_wait(0, NULL, -1), WEFT_ERR_INDEX);
  EXPECT(got[0] == 77 && got[1] == 77);
  EXPECT_OK(weft_wait(0, NULL, -1));
  weft_scope_discard(s);
}

/* An update that fails and is seen to, before or after a fetch of another scope fails, which nobody sees. */
TEST(a_failure_that_nobody_has_seen_is_told_though_one_before_it_has_been_seen) {
  for (int order = 0; order < 3; order++)
    for (int many = 1; many <= 200; many += 199) {
      weft_scope *s = weft_scope_open();
      weft_array *w = number(1), *u[200];
      float got;
      for (int i = 0; i < many; i++) {
        u[i] = number(2);
        weft_scope *first = weft_scope_open();
        weft_update(u[i], out_of_range(u[i]));
        EXPECT_OK(weft_scope_close_async(first));
        if (order == 0) EXPECT_INT(weft_wait(1, &u[i], -1), WEFT_ERR_INDEX);
      }
      weft_scope *second = weft_scope_open();
      weft_fetch(out_of_range(weft_add(w, w)), WEFT_F32, &got, sizeof got);
      EXPECT_OK(weft_scope_close_async(second));
      weft_array *y = weft_add(w, w);
      EXPECT_OK(weft_eval_async(1, &y));
      if (order == 1) EXPECT_OK(weft_wait(1, &y, -1)); /* both have failed */
      for (int i = 0; order && i < many; i++) EXPECT_INT(weft_wait(1, &u[i], -1), WEFT_ERR_INDEX);
      EXPECT_INT(weft_wait(0, NULL, -1), WEFT_ERR_INDEX);
      EXPECT_OK(weft_wait(0, NULL, -1));
      weft_scope_discard(s);
    }
}

/* A fetch behind an update that fails, in its scope or in another one; the array says so, to this thread or another one. */
static void *see(void *w) {
  EXPECT_INT(weft_wait(1, (weft_array *[]){ w }, -1), WEFT_ERR_INDEX);
  return NULL;
}

TEST(a_fetch_that_fails_is_told_though_its_cause_has_been_seen) {
  for (int how = 0; how < 4; how++) {
    weft_scope *s = weft_scope_open();
    weft_array *w = number(1), *next = out_of_range(w);
    weft_scope *step = weft_scope_open();
    pthread_t other;
    float got = 77;
    weft_update(w, next);
    if (how & 1) {
      EXPECT_OK(weft_scope_close_async(step));
      step = weft_scope_open();
      next = weft_add(w, w);
    }
    weft_fetch(next, WEFT_F32, &got, sizeof got);
    weft_status status = weft_scope_close_async(step);
    if (how & 2) {
      EXPECT_INT(pthread_create(&other, NULL, see, w), 0);
      pthread_join(other, NULL);
    } else see(w);
    EXPECT_INT(status ? status : weft_wait(0, NULL, -1), WEFT_ERR_INDEX);
    EXPECT_OK(weft_wait(0, NULL, -1));
    EXPECT(got == 77);
    weft_scope_discard(s);
  }
}

/* What it was is asked for by nobody, be it computed still, or failed, or known to have failed. */
TEST(an_array_that_has_failed_may_be_given_a_value) {
  for (int how = 0; how < 12; how++) {
    bool is_update = how & 1, is_async = how & 2;
    weft_scope *s = weft_scope_open(), *step = weft_scope_open();
    weft_array *x = weft_keep(number(1)), *y = weft_keep(out_of_range(slow(x, 100))), *w = is_update ? x : y;
    if (is_update) weft_update(x, y);
    EXPECT_OK(weft_scope_close_async(step));
    if (!is_update) EXPECT_OK(weft_eval_async(1, &y));
    if (how >= 4) EXPECT_INT(weft_wait(0, NULL, -1), WEFT_ERR_INDEX);
    if (how >= 8) EXPECT_INT(weft_check(w), WEFT_ERR_INDEX);
    step = weft_scope_open();
    weft_update(w, number(5));
    EXPECT_OK(is_async ? weft_scope_close_async(step) : weft_scope_close(step));
    EXPECT(read_one(w) == 5);
    EXPECT_INT(weft_wait(0, NULL, -1), how < 4 ? WEFT_ERR_INDEX : WEFT_OK);
    EXPECT_OK(weft_check(w));
    weft_scope_discard(s);
  }
}

TEST(what_is_no_array_is_given_no_value) {
  weft_scope *s = weft_scope_open();
  weft_array *bad = weft_add(weft_full(WEFT_F32, WEFT_DIMS(2), 1), weft_full(WEFT_F32, WEFT_DIMS(3), 1));
  weft_scope *step = weft_scope_open();
  weft_update(bad, number(5));
  EXPECT_INT(weft_scope_close(step), WEFT_ERR_SHAPE);
  weft_scope_discard(s);
}

TEST(what_a_failed_update_feeds_fails_with_the_first_cause) {
  weft_scope *s = weft_scope_open();
  weft_array *w = number(1), *v = number(2);
  weft_scope *one = weft_scope_open();
  weft_update(w, weft_add(slow(w, 1000000), out_of_range(w)));
  EXPECT_OK(weft_scope_close_async(one));
  weft_scope *two = weft_scope_open();
  weft_update(v, weft_add(v, w));
  weft_status status = weft_scope_close_async(two); /* the failure may be there by now */
  EXPECT(status == WEFT_OK || status == WEFT_ERR_INDEX);
  EXPECT_INT(weft_wait(1, &w, -1), WEFT_ERR_INDEX);
  if (status == WEFT_OK) EXPECT_INT(weft_wait(1, &v, -1), WEFT_ERR_INDEX);
  EXPECT_OK(weft_wait(0, NULL, -1));
  weft_scope_discard(s);
}

TEST(what_can_be_seen_to_fail_is_not_started) {
  weft_scope *s = weft_scope_open();
  weft_array *w = number(1), *name = weft_input(WEFT_F32, WEFT_DIMS(1)), *y = weft_add(w, name);
  weft_scope *step = weft_scope_open();
  weft_update(w, weft_add(w, name));
  EXPECT_INT(weft_scope_close_async(step), WEFT_ERR_NO_VALUE);
  EXPECT(read_one(w) == 1);
  EXPECT_INT(weft_eval_async(1, &y), WEFT_ERR_NO_VALUE);
  EXPECT_INT(weft_state_of(y, NULL), WEFT_LAZY);
  weft_scope_discard(s);
}

/* Each builds on what the other has promised, as soon as it can see it. */
static void *promises_and_builds(void *pair) {
  weft_array **w = pair;
  for (int i = 0; i < 300; i++) {
    weft_scope *step = weft_scope_open();
    weft_array *y = weft_add(w[0], w[1]);
    weft_update(w[i % 2], weft_mul(y, weft_scalar(0.25)));
    EXPECT_OK(weft_scope_close_async(step));
  }
  EXPECT_OK(weft_wait(0, NULL, -1));
  return NULL;
}

TEST(threads_build_on_the_promises_of_each_other) {
  weft_scope *s = weft_scope_open();
  weft_array *w[2] = { number(1), number(2) };
  pthread_t t[4];
  for (int i = 0; i < 4; i++) pthread_create(&t[i], NULL, promises_and_builds, w);
  for (int i = 0; i < 4; i++) pthread_join(t[i], NULL);
  EXPECT_OK(weft_eval(2, w));
  weft_scope_discard(s);
}

TEST(what_is_started_faster_than_it_can_be_done_is_done_all_the_same) {
  weft_scope *s = weft_scope_open();
  weft_array *x = number(1);
  for (int i = 0; i < 5000; i++) {
    weft_scope *inner = weft_scope_open();
    weft_array *y = weft_add(x, weft_full(WEFT_F32, WEFT_DIMS(1), i));
    EXPECT_OK(weft_eval_async(1, &y));
    weft_scope_discard(inner);
  }
  EXPECT_OK(weft_wait(0, NULL, -1));
  weft_scope_discard(s);
}

TEST(a_number_can_be_promised) {
  weft_scope *s = weft_scope_open();
  float one = 1;
  weft_array *w = weft_from(WEFT_F32, 0, NULL, &one);
  weft_scope *step = weft_scope_open();
  weft_update(w, weft_scalar(5));
  EXPECT_OK(weft_scope_close_async(step));
  EXPECT(read_one(w) == 5);
  weft_array *g;
  weft_grad(weft_mul(w, w), 1, &w, &g); /* an update is a leaf, awaited or not */
  EXPECT(read_one(g) == 10);
  EXPECT_OK(weft_wait(0, NULL, -1));
  weft_scope_discard(s);
}

/* d (w v v) / dw and d (w v v) / dv after w := v = 3, and the same of b, which has become v, too. */
static void expect_apart(bool waits, weft_array *v) {
  weft_scope *s = weft_scope_open();
  weft_array *w = number(1), *b = number(2), *g[3], *ys, *xs = weft_reshape(number(5), WEFT_DIMS(1, 1));
  weft_scope *step = weft_scope_open();
  weft_update(w, v);
  weft_update(b, v);
  EXPECT_OK(waits ? weft_scope_close(step) : weft_scope_close_async(step));
  EXPECT(weft_id(w) != weft_id(v) && weft_id(w) != weft_id(b));
  weft_array *y = weft_mul(weft_mul(w, v), weft_mul(v, weft_mul(b, weft_mul(b, b))));
  weft_grad(y, 3, (weft_array *[]){ w, v, b }, g);
  weft_map(1, &w, &xs, 1, &y, &ys);
  EXPECT(read_one(g[0]) == 243 && read_one(g[1]) == 2 * 243 && read_one(g[2]) == 3 * 243);
  EXPECT(read_one(ys) == 5 * 243);
  EXPECT(read_one(w) == 3 && read_one(b) == 3);
  EXPECT_OK(weft_wait(0, NULL, -1));
  weft_scope_discard(s);
}

TEST(an_array_that_becomes_another_one_has_derivatives_of_its_own) {
  for (int waits = 0; waits < 2; waits++) {
    weft_scope *s = weft_scope_open();
    expect_apart(waits, number(3));
    weft_array *v = weft_mul(number(1), number(3));
    EXPECT_OK(weft_eval(1, &v));
    expect_apart(waits, v);
    expect_apart(waits, weft_cast(weft_full(WEFT_F32, WEFT_DIMS(1), 3), WEFT_F32));
    weft_scope_discard(s);
  }
}

/* What a scope that is closed reads is of a scope that stays open: it can still be asked how it was made. */
TEST(what_a_close_has_read_can_be_differentiated_through_whether_it_was_waited_for_or_not) {
  for (int waits = 0; waits < 2; waits++) {
    weft_scope *s = weft_scope_open();
    weft_array *x = number(3), *w = weft_mul(x, x), *to = number(0), *g;
    EXPECT_OK(weft_eval(1, &w));
    weft_scope *step = weft_scope_open();
    weft_update(to, weft_tanh(w));
    EXPECT_OK(waits ? weft_scope_close(step) : weft_scope_close_async(step));
    EXPECT_OK(weft_wait(0, NULL, -1));
    weft_grad(w, 1, &x, &g);
    EXPECT(read_one(g) == 6);
    weft_scope_discard(s);
  }
}

/* Whether what is queued behind n steps was still waiting when it was asked for. */
static bool is_queued_behind(int64_t n) {
  weft_scope *s = weft_scope_open();
  weft_array *first = slow(number(1), n), *b = weft_exp(number(0)), *a = weft_add(weft_sum(b, 0), weft_scalar(1));
  EXPECT_OK(weft_eval_async(1, &first)); /* keeps the thread busy */
  EXPECT_OK(weft_eval_async(1, &a));
  EXPECT_OK(weft_eval_async(1, &b));
  bool yes = weft_state_of(b, NULL) == WEFT_RUNNING;
  EXPECT(read_one(weft_add(b, b)) == 2);
  EXPECT_OK(weft_wait(2, (weft_array *[]){ a, b }, -1));
  EXPECT(read_one(a) == 2);
  EXPECT_OK(weft_wait(0, NULL, -1));
  weft_scope_discard(s);
  return yes;
}

TEST(an_evaluation_in_the_background_may_need_what_is_queued_behind_it) {
  int64_t n = 3000000;
  while (!is_queued_behind(n) && n < 1000000000) n *= 4;
  EXPECT(n < 1000000000);
}

TEST(evaluations_in_the_background_build_on_each_other) {
  weft_scope *s = weft_scope_open();
  weft_array *x = number(0);
  for (int i = 0; i < 300; i++) {
    x = weft_add(weft_sum(x, 0), number(1));
    EXPECT_OK(weft_eval_async(1, &x));
  }
  EXPECT(read_one(x) == 300);
  EXPECT_OK(weft_wait(0, NULL, -1));
  weft_scope_discard(s);
}

static void *starts_and_leaves(void *w) {
  weft_scope *step = weft_scope_open();
  float *got = malloc(sizeof *got); /* never read again, never freed while the job may write to it */
  weft_fetch(out_of_range(w), WEFT_F32, got, sizeof *got);
  EXPECT_OK(weft_scope_close_async(step));
  return got;
}

TEST(a_thread_may_end_before_its_jobs_and_their_failures) {
  weft_scope *s = weft_scope_open();
  weft_array *w = number(1), *y;
  pthread_t t;
  void *got;
  pthread_create(&t, NULL, starts_and_leaves, w);
  pthread_join(t, &got);
  y = weft_add(w, w);
  EXPECT_OK(weft_eval_async(1, &y)); /* comes after it */
  EXPECT_OK(weft_wait(0, NULL, -1)); /* and hears nothing of another's failure */
  free(got);
  weft_scope_discard(s);
}

TEST(want_of_memory_while_closing_without_waiting_is_an_error_and_nothing_else) {
  weft_scope *s = weft_scope_open();
  weft_array *w = number(1);
  int64_t n = 1, made = n;
  for (; n <= made; n++) {
    weft_scope *step = weft_scope_open();
    weft_update(w, weft_add(w, number(1)));
    mem_fail_at(n, 0);
    weft_status status = weft_scope_close_async(step);
    if (!status) status = weft_wait(0, NULL, -1);
    made = mem_count();
    mem_fail_at(0, 0);
    EXPECT(status == WEFT_OK || status == WEFT_ERR_MEMORY);
    if (weft_check(w)) w = number(1);
  }
  EXPECT(n > 10);
  EXPECT(read_one(w) >= 1);
  weft_scope_discard(s);
}

/* Whoever evaluates what a call gives meets the job that computes it, and the job then drops the call: its arguments are nobody's. */
TEST(the_result_of_a_call_is_used_while_a_job_computes_it) {
  weft_scope *outer = weft_scope_open(), *s = weft_scope_open();
  weft_array *x = weft_input(WEFT_F64, WEFT_DIMS(16)), *i = weft_input(WEFT_F64, 0, NULL), *y = weft_add(x, i);
  weft_function *f = weft_compile(s, 2, (weft_array *[]){ x, i }, 1, &y);
  EXPECT(f != NULL);
  s = weft_scope_open();
  weft_array *a = weft_own(weft_full(WEFT_F64, WEFT_DIMS(16), 2));
  EXPECT_OK(weft_eval(1, &a));
  weft_scope_discard(s);
  for (int step = 0; step < 3000; step++) {
    s = weft_scope_open();
    double got;
    weft_array *w, *in[] = { a, weft_cast(weft_full(WEFT_F32, 0, NULL, step), WEFT_F64) };
    weft_call(f, 2, in, 1, &w);
    w = weft_own(w);
    weft_scope_discard(s);
    s = weft_scope_open();
    EXPECT_OK(weft_eval_async(1, &w));
    EXPECT_OK(weft_read(weft_max(weft_add(w, weft_scalar(1)), WEFT_ALL), WEFT_F64, &got, sizeof got));
    EXPECT(got == step + 3);
    weft_disown(w);
    weft_scope_discard(s);
  }
  weft_disown(a);
  EXPECT_OK(weft_wait(0, NULL, -1));
  weft_scope_discard(outer);
}

/* ---- Planning while others compute ---- */

/* A function has captured what a job computes meanwhile, or a view of it: the first call waits, and is planned then. */
TEST(a_call_is_planned_when_a_job_has_computed_what_the_function_captured) {
  for (int is_view = 0; is_view < 2; is_view++) {
    weft_scope *outer = weft_scope_open();
    weft_array *late = slow(weft_full(WEFT_F32, WEFT_DIMS(2), 1), 200000), *y;
    weft_scope *s = weft_scope_open();
    weft_array *x = weft_input(WEFT_F32, WEFT_DIMS(1)), *seen = is_view ? weft_flip(late, 0) : late, *sum = weft_add(x, seen);
    weft_function *f = weft_compile(s, 1, &x, 1, &sum);
    EXPECT_OK(weft_eval_async(1, &late));
    x = number(4);
    weft_call(f, 1, &x, 1, &y);
    EXPECT(read_one(y) == 7);
    EXPECT_OK(weft_wait(0, NULL, -1));
    weft_scope_discard(outer);
  }
}

static void *computes(void *y) {
  EXPECT_OK(weft_eval(1, (weft_array **)y));
  return NULL;
}

/* Another thread computes what is about to be planned, and so drops its history. */
static void somebody_is_faster(void *y) {
  static bool is_done;
  pthread_t t;
  if (is_done) return;
  is_done = true;
  EXPECT_INT(pthread_create(&t, NULL, computes, y), 0);
  pthread_join(t, NULL);
}

TEST(a_loop_stays_while_it_is_planned_though_another_thread_has_computed_it) {
  weft_scope *s = weft_scope_open();
  weft_array *x = weft_full(WEFT_F64, WEFT_DIMS(5), 1);
  weft_loop *l = weft_loop_open(weft_integer(6));
  weft_array *c = weft_loop_carry(l, x);
  weft_loop_next(l, c, weft_assert(weft_mul(weft_flip(c, 0), weft_scalar(2)), weft_lt(c, weft_scalar(99)), "small"));
  weft_array *y = weft_own(weft_loop_last(l, c));
  double got[5] = { 0 };
  weft_loop_close(l);
  weft_scope_discard(s);
  weft_before_long(somebody_is_faster, &y);
  EXPECT_OK(weft_eval(1, &y));
  weft_before_long(NULL, NULL);
  EXPECT_OK(weft_read(y, WEFT_F64, got, sizeof got));
  EXPECT(got[0] == 64 && got[4] == 64);
  weft_disown(y);
}
