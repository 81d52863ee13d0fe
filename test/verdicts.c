/* verdicts.c -- indices that are checked on a device without waiting: what fails poisons what is computed from it and nothing else,
 * and is told where values leave. */
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/mem.h"
#include "far.h"
#include "test.h"
#include "values.h"

enum { N = 64 };

/* x at i in all places: fails if i is not below N. */
static weft_array *at(weft_array *x, int i) {
  int32_t index[N];
  for (int k = 0; k < N; k++) index[k] = k < N - 1 ? k : i;
  weft_array *of = weft_from(WEFT_I32, WEFT_DIMS(N), index);
  return weft_take(x, 1, &of);
}

static float last(weft_array *x) {
  float got[N];
  EXPECT_OK(weft_read(x, WEFT_F32, got, sizeof got));
  EXPECT(got[0] == got[N - 1] - (N - 1));
  return got[N - 1];
}

static void until_launched(int64_t n) {
  for (int i = 0; i < 5000 && far_counts().launches < n; i++) usleep(1000);
  EXPECT_INT(far_counts().launches, n);
}

static void expect_index_error(weft_status status) {
  EXPECT_INT(status, WEFT_ERR_INDEX);
  EXPECT(strstr(weft_message(), "the index 64 at place 63 is out of range for an axis of 64"));
}

TEST(checks_of_what_is_started_are_read_where_values_leave) {
  far_begin(FAR_WHEN_WAITED_FOR);
  weft_scope *s = weft_scope_open();
  weft_array *y = at(far_ramp(N), N - 1), *z;
  EXPECT_OK(weft_eval_async(1, &y));
  z = plus(y, 1);
  EXPECT_OK(weft_eval_async(1, &z));
  until_launched(2);
  EXPECT_INT(far_counts().runs, 0);
  EXPECT_INT(far_counts().downloads, 0);
  EXPECT_INT(weft_state_of(z, NULL), WEFT_RUNNING);
  EXPECT_OK(weft_wait(1, &z, 10));
  EXPECT_INT(far_counts().runs, 2);
  EXPECT_INT(far_counts().downloads, 1); /* the words of y */
  EXPECT(last(z) == N);
  EXPECT_INT(far_counts().downloads, 2);
  EXPECT_INT(weft_state_of(y, NULL), WEFT_READY);
  EXPECT_OK(weft_wait(0, NULL, 10));
  weft_scope_discard(s);
  far_end();
}

TEST(what_fails_poisons_what_is_computed_from_it_and_nothing_else) {
  for (int lag = 0; lag < 3; lag++) {
    far_begin(lag);
    weft_scope *s = weft_scope_open();
    weft_array *x = far_ramp(N), *bad = at(x, N), *good = at(x, N - 1), *both, *near, *other;
    float got[N];
    EXPECT_OK(weft_eval_async(1, &bad));
    EXPECT_OK(weft_eval_async(1, &good));
    both = weft_add(plus(bad, 1), good), other = plus(good, 1);
    EXPECT_OK(weft_eval_async(1, &both));
    EXPECT_OK(weft_eval_async(1, &other));
    EXPECT(last(other) == N);
    expect_index_error(weft_read(both, WEFT_F32, got, sizeof got));
    EXPECT_INT(weft_state_of(both, NULL), WEFT_FAILED);
    EXPECT_INT(weft_state_of(bad, NULL), WEFT_FAILED);
    EXPECT_INT(weft_state_of(good, NULL), WEFT_READY);
    expect_index_error(weft_check(bad));
    near = plus(both, 1);
    expect_index_error(weft_eval(1, &near));
    weft_array *more = at(good, N - 1);
    EXPECT(last(more) == N - 1);
    EXPECT_OK(weft_wait(0, NULL, 10)); /* it was heard of */
    weft_scope_discard(s);
    far_end();
  }
}

/* The largest so far of an ascending row are the row; they are stored the first time, as they are held. */
static weft_array *stored(weft_array *x) { return weft_cummax(plus(x, 1), 0); }

TEST(what_is_stored_on_the_way_fails_with_what_it_is_made_of_alone) {
  for (int lag = 0; lag < 3; lag++)
    for (int order = 0; order < 2; order++) {
      far_begin(lag);
      weft_scope *s = weft_scope_open();
      weft_array *x = far_ramp(N), *fine = stored(x), *also = at(x, N - 1), *bad = at(x, N), *z, *poor, *next;
      float got[N];
      EXPECT_OK(weft_eval_async(1, &also));
      z = at(weft_add(fine, also), N);
      EXPECT_OK(weft_eval_async(1, &z));
      if (order) expect_index_error(weft_read(z, WEFT_F32, got, sizeof got));
      EXPECT(last(fine) == N);
      EXPECT_INT(weft_state_of(fine, NULL), WEFT_READY);
      next = plus(fine, 1);
      EXPECT_OK(weft_eval_async(1, &next));
      EXPECT(last(next) == N + 1);
      expect_index_error(weft_read(z, WEFT_F32, got, sizeof got));
      EXPECT_OK(weft_eval_async(1, &bad)); /* what is made of a value that fails, and stored by a run that has checks of its own */
      poor = stored(bad);
      for (int i = 0; i < 2; i++) {
        z = plus(at(poor, N - 1), i);
        EXPECT_OK(weft_eval_async(1, &z));
      }
      expect_index_error(weft_read(poor, WEFT_F32, got, sizeof got));
      expect_index_error(weft_read(z, WEFT_F32, got, sizeof got));
      EXPECT_OK(weft_wait(0, NULL, 10)); /* it was heard of */
      weft_scope_discard(s);
      far_end();
    }
}

TEST(the_host_does_not_compute_with_what_fails) {
  far_begin(FAR_WHEN_WAITED_FOR);
  weft_scope *s = weft_scope_open();
  weft_array *bad = at(far_ramp(N), N), *y;
  weft_block block;
  EXPECT_OK(weft_eval_async(1, &bad));
  until_launched(1);
  weft_set(WEFT_DEVICE, 0);
  y = plus(bad, 1);
  expect_index_error(weft_eval(1, &y));
  EXPECT_INT(weft_state_of(y, NULL), WEFT_LAZY);
  expect_index_error(weft_pin(bad, 0, &block));
  y = weft_to(bad, 2);
  expect_index_error(weft_eval(1, &y));
  weft_scope_discard(s);
  far_end();
}

/* What is waited for leaves the graph as it was. */
TEST(an_evaluation_that_waits_is_undone_by_a_failed_check) {
  far_begin(FAR_WHEN_WAITED_FOR);
  weft_scope *s = weft_scope_open();
  weft_array *bad = at(far_ramp(N), N), *y = plus(bad, 1);
  expect_index_error(weft_eval(1, &y));
  EXPECT_INT(weft_state_of(y, NULL), WEFT_LAZY);
  EXPECT_INT(weft_state_of(bad, NULL), WEFT_LAZY);
  weft_scope_discard(s);
  far_end();
}

TEST(whoever_waits_for_all_hears_of_a_failed_check_once) {
  far_begin(FAR_WHEN_WAITED_FOR);
  weft_scope *s = weft_scope_open();
  weft_array *x = far_ramp(N), *bad = at(x, N), *good = plus(x, 1), *next = plus(bad, 1);
  EXPECT_OK(weft_eval_async(1, &good));
  EXPECT_OK(weft_eval_async(1, &bad));
  EXPECT_OK(weft_eval_async(1, &next));
  expect_index_error(weft_wait(0, NULL, 10));
  EXPECT_OK(weft_wait(0, NULL, 10));
  weft_scope_discard(s);
  far_end();
}

/* ---- Updates ---- */

TEST(an_asynchronous_close_keeps_all_of_its_updates_or_none) {
  for (int lag = 0; lag < 3; lag++) {
    far_begin(lag);
    weft_scope *s = weft_scope_open(), *step;
    weft_array *a = far_ramp(N), *b = far_ramp(N), *c = far_ramp(N);
    float got[N];
    for (int i = 0; i < 3; i++) {
      step = weft_scope_open();
      weft_update(a, plus(a, 1));
      weft_update(b, at(b, i == 1 ? N : N - 1));
      EXPECT_OK(weft_scope_close_async(step));
      step = weft_scope_open();
      weft_update(c, at(plus(c, 1), N - 1));
      EXPECT_OK(weft_scope_close_async(step));
    }
    EXPECT(last(c) == N + 2);
    expect_index_error(weft_read(a, WEFT_F32, got, sizeof got));
    expect_index_error(weft_read(b, WEFT_F32, got, sizeof got));
    EXPECT_OK(weft_wait(0, NULL, 10));
    weft_scope_discard(s);
    far_end();
  }
}

TEST(an_array_that_has_failed_on_a_device_may_be_given_a_value) {
  for (int how = 0; how < 16; how++) {
    far_begin(how & 1 ? FAR_WHEN_WAITED_FOR : 0);
    weft_scope *s = weft_scope_open(), *step;
    weft_array *x = far_ramp(N), *w = at(x, N);
    EXPECT_OK(weft_eval_async(1, &w));
    if (how & 4) expect_index_error(weft_wait(0, NULL, 10));
    if (how & 8) expect_index_error(weft_wait(1, &w, 10));
    for (int i = 0; i < 2; i++) {
      step = weft_scope_open();
      weft_update(w, plus(i ? w : x, 1));
      EXPECT_OK(how & 2 ? weft_scope_close_async(step) : weft_scope_close(step));
      EXPECT(last(w) == N + i);
    }
    EXPECT_INT(weft_wait(0, NULL, 10), how & 12 ? WEFT_OK : WEFT_ERR_INDEX);
    weft_scope_discard(s);
    far_end();
  }
}

/* Whoever waits for all asks the verdict of a job, and names no array. */
TEST(what_is_known_to_have_failed_is_bad_from_then_on) {
  far_begin(FAR_WHEN_WAITED_FOR);
  weft_scope *s = weft_scope_open();
  weft_array *x = far_ramp(N), *a = far_ramp(N), *b = far_ramp(N);
  weft_scope *step = weft_scope_open();
  weft_update(a, at(x, N));
  EXPECT_OK(weft_scope_close_async(step));
  EXPECT_OK(weft_check(a));
  expect_index_error(weft_wait(0, NULL, 10));
  expect_index_error(weft_check(a));
  expect_index_error(weft_check(plus(a, 1)));
  step = weft_scope_open();
  weft_update(b, plus(a, 1));
  expect_index_error(weft_scope_close_async(step));
  EXPECT(last(b) == N - 1);
  weft_scope_discard(s);
  far_end();
}

/* What is fetched and what is updated have checks of their own: an array that is there, a call, an expression. */
TEST(a_scope_that_fails_in_the_background_fills_nothing) {
  for (int lag = 0; lag < 3; lag++)
    for (int kind = 0; kind < 3; kind++) {
      far_begin(lag);
      weft_scope *s = weft_scope_open(), *step = weft_scope_open();
      weft_array *name = weft_input(WEFT_F32, WEFT_DIMS(N)), *out = stored(name);
      weft_function *f = weft_compile(step, 1, &name, 1, &out);
      weft_array *a = far_ramp(N), *x = far_ramp(N), *y;
      float got[N] = { 77 };
      step = weft_scope_open();
      weft_call(f, 1, &x, 1, &y);
      weft_update(a, at(x, N));
      weft_fetch(kind == 0 ? x : kind == 1 ? y : plus(x, 1), WEFT_F32, got, sizeof got);
      EXPECT_OK(weft_scope_close_async(step));
      expect_index_error(weft_wait(0, NULL, 10));
      EXPECT(got[0] == 77 && got[N - 1] == 0);
      expect_index_error(weft_check(a));
      weft_scope_discard(s);
      far_end();
    }
}

TEST(a_close_that_waits_commits_nothing_if_a_check_fails) {
  far_begin(FAR_WHEN_WAITED_FOR);
  weft_scope *s = weft_scope_open(), *step;
  weft_array *a = far_ramp(N), *b = far_ramp(N);
  for (int i = 0; i < 3; i++) {
    step = weft_scope_open();
    weft_update(a, plus(a, 1));
    weft_update(b, at(b, i == 1 ? N : N - 1));
    if (i == 1) expect_index_error(weft_scope_close(step));
    else EXPECT_OK(weft_scope_close(step));
  }
  EXPECT(last(a) == N + 1);
  EXPECT(last(b) == N - 1);
  weft_scope_discard(s);
  far_end();
}

/* Each step reads the state through indices; nobody waits for a thousand of them. */
TEST(a_thousand_unchecked_steps_keep_the_memory_of_a_few) {
  for (int lag = 0; lag < 3; lag++) {
    far_begin(lag);
    weft_scope *s = weft_scope_open();
    weft_array *w = far_ramp(N), *side[200];
    int64_t most = 0;
    for (int i = 0; i < 1000; i++) {
      weft_scope *step = weft_scope_open();
      weft_update(w, plus(at(w, N - 1), 1));
      EXPECT_OK(weft_scope_close_async(step));
      if (far_counts().bytes > most) most = far_counts().bytes;
    }
    EXPECT(last(w) == N + 999);
    EXPECT(most < 200 * 2 * N * 4 + (1 << 20));
    for (int i = 0; i < 200; i++) { /* and those that have nothing to do with each other */
      side[i] = at(plus(w, i), i == 7 || i == 190 ? N : N - 1);
      EXPECT_OK(weft_eval_async(1, &side[i]));
    }
    expect_index_error(weft_wait(0, NULL, 60));
    for (int i = 0; i < 200; i++) EXPECT_INT(weft_state_of(side[i], NULL), i == 7 || i == 190 ? WEFT_FAILED : WEFT_READY);
    weft_scope_discard(s);
    far_end();
  }
}

/* ---- Steps of the host ---- */

static _Atomic int n_called;
static int count_call(void *unused, const weft_block in[], const weft_block out[]) {
  (void)unused, (void)in;
  atomic_fetch_add(&n_called, 1);
  for (int i = 0; i < N; i++) ((float *)out[0].data)[i] = (float)i;
  return 0;
}

TEST(a_function_of_the_host_is_not_called_with_what_fails) {
  for (int fails = 0; fails < 2; fails++) {
    far_begin(FAR_WHEN_WAITED_FOR);
    weft_scope *s = weft_scope_open();
    weft_host_function f = { NULL, count_call, NULL };
    int64_t n = N;
    weft_block like = { .dtype = WEFT_F32, .rank = 1, .dims = &n };
    weft_array *x = at(far_ramp(N), fails ? N : N - 1), *y;
    n_called = 0;
    weft_host(&f, 1, &x, 1, &like, &y);
    if (fails) expect_index_error(weft_eval(1, &y));
    else EXPECT(last(y) == N - 1);
    EXPECT_INT(n_called, !fails);
    weft_scope_discard(s);
    far_end();
  }
}

/* ---- Arguments of which a function reads nothing ---- */

/* Of x and u; of x a function reads only how long it is: numbers, what it makes of u, or as many places as u has that are not zero,
 * which only a run tells. */
enum { NUMBERS, OF_THE_OTHER, IN_PARTS, N_KINDS };
static weft_function *unread(int kind) {
  weft_scope *body = weft_scope_open();
  weft_array *in[2] = { weft_input(WEFT_F32, WEFT_DIMS(N)), weft_input(WEFT_F32, WEFT_DIMS(N)) }, *places = NULL, *y;
  if (kind == IN_PARTS) weft_nonzero(in[1], &places);
  y = weft_full(WEFT_F32, WEFT_DIMS(N), 3);
  if (kind == OF_THE_OTHER) y = weft_cumsum(in[1], 0);
  if (kind == IN_PARTS) y = weft_add(y, weft_sum(weft_cast(places, WEFT_F32), WEFT_ALL));
  return weft_compile(body, 2, in, 1, &y);
}

static weft_array *called(weft_function *f, weft_array *x, weft_array *u) {
  weft_array *in[2] = { x, u }, *y;
  weft_call(f, 2, in, 1, &y);
  return y;
}

TEST(a_call_fails_with_an_argument_of_which_it_reads_nothing) {
  for (int kind = 0; kind < N_KINDS; kind++)
    for (int how = 0; how < 8; how++) {
      bool is_started = how & 1, is_asked = how & 2, is_host = how & 4;
      far_begin(FAR_WHEN_WAITED_FOR);
      weft_scope *s = weft_scope_open();
      weft_function *f = unread(kind);
      weft_array *u = far_ramp(N), *good = at(u, N - 1), *bad = at(u, N), *y;
      float got[N];
      if (is_started) EXPECT_OK(weft_eval_async(1, &bad));
      if (is_host) weft_set(WEFT_DEVICE, 0);
      for (int i = 0; i < 3; i++) EXPECT_OK(weft_read(called(f, plus(good, i), u), WEFT_F32, got, sizeof got));
      EXPECT(got[N - 1] == (kind == NUMBERS ? 3 : kind == OF_THE_OTHER ? N * (N - 1) / 2 : 3 + N * (N - 1) / 2));
      y = called(f, bad, u);
      if (is_asked) EXPECT_OK(weft_eval_async(1, &y));
      expect_index_error(weft_read(y, WEFT_F32, got, sizeof got));
      EXPECT_OK(weft_wait(0, NULL, 10)); /* it was heard of */
      weft_scope_discard(s);
      far_end();
    }
}

/* ---- The device fails while somebody asks ---- */

TEST(words_that_cannot_be_read_may_be_asked_for_again) {
  far_begin(FAR_WHEN_WAITED_FOR);
  weft_scope *s = weft_scope_open();
  weft_array *good = at(far_ramp(N), N - 1), *bad = at(far_ramp(N), N);
  float got[N];
  EXPECT_OK(weft_eval_async(1, &good));
  EXPECT_OK(weft_eval_async(1, &bad));
  until_launched(2);
  far_downloads_left = 0;
  EXPECT_INT(weft_read(good, WEFT_F32, got, sizeof got), WEFT_ERR_DEVICE);
  EXPECT_INT(weft_read(bad, WEFT_F32, got, sizeof got), WEFT_ERR_DEVICE);
  far_downloads_left = -1;
  EXPECT(last(good) == N - 1);
  expect_index_error(weft_read(bad, WEFT_F32, got, sizeof got));
  weft_scope_discard(s);
  far_end();
}

/* Every allocation fails once. */
TEST(want_of_memory_loses_no_verdict) {
  for (int i = 1; i < 400; i++) {
    far_begin(FAR_NOW_AND_THEN);
    weft_scope *s = weft_scope_open();
    weft_array *bad = at(far_ramp(N), N), *y;
    float got[N];
    mem_fail_at(i, false);
    weft_status status = weft_eval_async(1, &bad);
    if (!status) y = plus(at(stored(bad), N - 1), 1), status = weft_eval_async(1, &y); /* what is stored has a part */
    if (!status) status = weft_read(y, WEFT_F32, got, sizeof got);
    bool is_over = mem_count() < i;
    mem_fail_at(0, false);
    EXPECT(status == WEFT_ERR_INDEX || status == WEFT_ERR_MEMORY);
    status = weft_wait(0, NULL, 10);
    weft_scope_discard(s);
    far_end();
    if (is_over) return;
  }
}

/* ---- Threads ---- */

static weft_array *shared[2];

static void *read_both(void *unused) {
  for (int i = 0; i < 10; i++) {
    float got[N];
    weft_set(WEFT_DEVICE, i % 3);
    weft_scope *s = weft_scope_open();
    weft_array *y = plus(shared[0], i), *z = plus(shared[1], i);
    EXPECT_OK(weft_read(y, WEFT_F32, got, sizeof got));
    EXPECT(got[5] == (float)(5 + i));
    expect_index_error(weft_read(z, WEFT_F32, got, sizeof got));
    weft_scope_discard(s);
  }
  return unused;
}

TEST(threads_ask_for_one_verdict_at_the_same_time) {
  for (int lag = 0; lag < 3; lag++)
    for (int round = 0; round < 10; round++) {
      pthread_t t[4];
      far_begin(lag);
      weft_scope *s = weft_scope_open();
      shared[0] = at(far_ramp(N), N - 1), shared[1] = at(far_ramp(N), N);
      EXPECT_OK(weft_eval_async(2, shared));
      EXPECT_OK(weft_eval_async(1, &shared[0]));
      expect_index_error(weft_wait(1, &shared[1], 10));
      shared[0] = at(far_ramp(N), N - 1), shared[1] = at(far_ramp(N), N);
      EXPECT_OK(weft_eval_async(1, &shared[0]));
      EXPECT_OK(weft_eval_async(1, &shared[1]));
      for (int i = 0; i < 4; i++) EXPECT_INT(pthread_create(&t[i], NULL, read_both, NULL), 0);
      for (int i = 0; i < 4; i++) pthread_join(t[i], NULL);
      weft_scope_discard(s);
      far_end();
    }
}
