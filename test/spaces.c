/* spaces.c -- values that live in the memory of a device: they stay until somebody reads them, are awaited, and are not lost. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>
#include "far.h"
#include "run/eval.h"
#include "test.h"
#include "values.h"

enum { N = 1000 };

static void expect_ramp(weft_array *x, float by, float from) { far_expect_ramp(x, N, by, from); }

static int place_of(weft_array *x) {
  int device = -1;
  EXPECT_INT(weft_state_of(x, &device), WEFT_READY);
  return device;
}

/* ---- Staying ---- */

TEST(values_stay_on_a_device_and_are_copied_when_asked_for) {
  far_begin(FAR_AT_ONCE);
  weft_scope *s = weft_scope_open();
  weft_array *x = far_ramp(N), *y = weft_mul(x, weft_scalar(2)), *z = plus(y, 1);
  EXPECT_INT(place_of(x), 0);
  EXPECT_OK(weft_eval(1, &y));
  EXPECT_OK(weft_eval(1, &z));
  EXPECT_INT(far_counts().uploads, 1);
  EXPECT_INT(far_counts().downloads, 0);
  EXPECT_INT(place_of(y), 1);
  EXPECT_INT(place_of(z), 1);
  expect_ramp(z, 2, 1);
  EXPECT_INT(far_counts().downloads, 1);
  EXPECT_INT(far_counts().downloaded, N * 4);
  weft_scope_discard(s);
  far_end();
}

TEST(a_view_brings_home_no_more_than_it_shows) {
  far_begin(FAR_WHEN_WAITED_FOR);
  weft_scope *s = weft_scope_open();
  float got[3];
  weft_array *y = weft_mul(far_ramp(N), weft_scalar(2)), *last = weft_slice(weft_flip(y, 0), 0, 2, 8, 2);
  EXPECT_OK(weft_eval(1, &y));
  EXPECT_OK(weft_read(last, WEFT_F32, got, sizeof got));
  EXPECT(got[0] == 2 * (N - 3) && got[1] == 2 * (N - 5) && got[2] == 2 * (N - 7));
  EXPECT(far_counts().downloaded <= 5 * 4);
  weft_scope_discard(s);
  far_end();
}

/* A training step: its state goes there once and never comes back. */
TEST(state_that_is_updated_stays_there) {
  far_begin(FAR_WHEN_WAITED_FOR);
  weft_scope *s = weft_scope_open();
  weft_array *w = far_ramp(N);
  for (int i = 0; i < 10; i++) {
    weft_scope *step = weft_scope_open();
    weft_update(w, plus(w, 1));
    EXPECT_OK(weft_scope_close(step));
    EXPECT_INT(far_counts().runs, i + 1); /* closing waits for the true status */
  }
  EXPECT_INT(far_counts().uploads, 1);
  EXPECT_INT(far_counts().downloads, 0);
  expect_ramp(w, 1, 10);
  weft_scope_discard(s);
  far_end();
}

TEST(arguments_and_results_of_calls_stay_there) {
  far_begin(FAR_WHEN_WAITED_FOR);
  weft_scope *s = weft_scope_open();
  weft_array *y = far_ramp(N);
  weft_scope *body = weft_scope_open();
  weft_array *in = weft_input(WEFT_F32, WEFT_DIMS(WEFT_ANY)), *out = weft_sqrt(weft_mul(in, in));
  weft_function *f = weft_compile(body, 1, &in, 1, &out);
  for (int i = 0; i < 5; i++) {
    weft_call(f, 1, &y, 1, &y);
    EXPECT_OK(weft_eval(1, &y));
  }
  EXPECT_INT(far_counts().uploads, 1);
  EXPECT_INT(far_counts().downloads, 0);
  expect_ramp(y, 1, 0);
  weft_scope_discard(s);
  far_end();
}

TEST(the_host_and_two_devices_pass_values_to_each_other) {
  for (int lag = 0; lag < 3; lag++) {
    far_begin(lag);
    weft_scope *s = weft_scope_open();
    weft_array *x = far_ramp(N);
    for (int i = 0; i < 9; i++) {
      weft_set(WEFT_DEVICE, i % 3);
      x = plus(x, 1);
      EXPECT_OK(weft_eval(1, &x));
      EXPECT_INT(place_of(x), i % 3);
    }
    expect_ramp(x, 1, 9);
    weft_scope_discard(s);
    far_end();
  }
}

/* ---- Being awaited ---- */

static void until_launched(int64_t n) {
  for (int i = 0; i < 5000 && far_counts().launches < n; i++) usleep(1000);
  EXPECT_INT(far_counts().launches, n);
}

TEST(what_is_enqueued_is_running_until_it_is_waited_for) {
  far_begin(FAR_WHEN_WAITED_FOR);
  weft_scope *s = weft_scope_open();
  weft_array *y = weft_mul(far_ramp(N), weft_scalar(3));
  EXPECT_OK(weft_eval_async(1, &y));
  until_launched(1);
  EXPECT_INT(far_counts().runs, 0);
  EXPECT_INT(weft_state_of(y, NULL), WEFT_RUNNING);
  EXPECT_OK(weft_wait(1, &y, 10));
  EXPECT_INT(far_counts().runs, 1);
  EXPECT_INT(place_of(y), 1);
  weft_array *z = plus(y, 1);
  EXPECT_OK(weft_eval_async(1, &z));
  EXPECT_OK(weft_wait(0, NULL, 10));
  EXPECT_INT(far_counts().runs, 2);
  expect_ramp(z, 3, 1);
  weft_scope_discard(s);
  far_end();
}

TEST(an_asynchronous_close_enqueues_and_a_read_waits_for_it) {
  far_begin(FAR_WHEN_WAITED_FOR);
  weft_scope *s = weft_scope_open();
  weft_array *w = far_ramp(N);
  for (int i = 0; i < 5; i++) {
    weft_scope *step = weft_scope_open();
    weft_update(w, plus(w, 1));
    EXPECT_OK(weft_scope_close_async(step));
  }
  until_launched(5);
  EXPECT_INT(far_counts().runs, 0);
  expect_ramp(w, 1, 5);
  EXPECT_INT(far_counts().runs, 5);
  weft_scope_discard(s);
  far_end();
}

/* ---- Nothing is lost ---- */

TEST(a_copy_that_fails_is_an_error_and_may_be_asked_for_again) {
  far_begin(FAR_WHEN_WAITED_FOR);
  weft_scope *s = weft_scope_open();
  weft_array *x = far_ramp(N), *y = weft_mul(x, weft_scalar(2));
  float got[N];
  far_uploads_left = 0;
  EXPECT_INT(weft_eval(1, &y), WEFT_ERR_DEVICE);
  EXPECT_TEXT(weft_message(), "weft_eval: test: it was asked to fail");
  EXPECT_INT(weft_state_of(y, NULL), WEFT_LAZY);
  far_uploads_left = -1;
  EXPECT_OK(weft_eval(1, &y));
  far_downloads_left = 0;
  EXPECT_INT(weft_read(y, WEFT_F32, got, sizeof got), WEFT_ERR_DEVICE);
  EXPECT_TEXT(weft_message(), "weft_read: test: it was asked to fail");
  weft_set(WEFT_DEVICE, 0);
  weft_array *z = plus(y, 1);
  EXPECT_INT(weft_eval(1, &z), WEFT_ERR_DEVICE);
  EXPECT_INT(place_of(y), 1);
  far_downloads_left = -1;
  expect_ramp(z, 2, 1);
  expect_ramp(y, 2, 0);
  weft_scope_discard(s);
  far_end();
}

TEST(a_lost_device_takes_along_what_was_only_there) {
  far_begin(FAR_WHEN_WAITED_FOR);
  weft_scope *s = weft_scope_open();
  weft_array *x = far_ramp(N), *y = weft_mul(x, weft_scalar(2));
  float got[N];
  far_runs_left = 0;
  EXPECT_INT(weft_eval(1, &y), WEFT_ERR_DEVICE);
  EXPECT_INT(weft_read(y, WEFT_F32, got, sizeof got), WEFT_ERR_DEVICE);
  weft_set(WEFT_DEVICE, 0);
  weft_array *z = plus(x, 1);
  expect_ramp(x, 1, 0);
  expect_ramp(z, 1, 1);
  weft_scope_discard(s);
  far_end();
}

/* An update whose kernel is lost is no update. */
TEST(a_close_that_fails_on_the_device_commits_nothing) {
  far_begin(FAR_WHEN_WAITED_FOR);
  weft_scope *s = weft_scope_open(), *step;
  weft_array *w = far_ramp(N);
  for (int how = 0; how < 2; how++) {
    step = weft_scope_open();
    weft_update(w, plus(w, 1));
    if (how) far_runs_left = 0;
    else far_launches_left = 0;
    EXPECT_INT(weft_scope_close(step), WEFT_ERR_DEVICE);
    far_launches_left = far_runs_left = -1;
    weft_set(WEFT_DEVICE, 0);
    expect_ramp(w, 1, 0);
    weft_set(WEFT_DEVICE, 1);
  }
  weft_scope_discard(s);
  far_end();
}

static int twice(void *unused, const weft_block in[], const weft_block out[]) {
  return *(float *)out->data = 2 * *(float *)in->data, unused != NULL;
}
static weft_array *host_step(void) {
  weft_array *x = weft_sum(weft_exp(far_ramp(8)), WEFT_ALL), *y;
  weft_block like = { .dtype = WEFT_F32 };
  weft_host(&(weft_host_function){ .run = twice }, 1, &x, 1, &like, &y);
  return y;
}

/* Arrays that have a copy on the host live on; those that were there alone have failed, and say so. */
TEST(values_of_a_lost_device_are_failed_arrays_and_the_host_works_on) {
  far_begin(FAR_WHEN_WAITED_FOR);
  weft_scope *s = weft_scope_open();
  weft_array *x = far_ramp(N), *there = weft_mul(x, weft_scalar(2)), *home = weft_mul(x, weft_scalar(3)), *last, *z;
  float got[N];
  EXPECT_OK(weft_eval(1, &there));
  EXPECT_OK(weft_eval(1, &home));
  weft_set(WEFT_DEVICE, 0);
  z = plus(home, 0);
  EXPECT_OK(weft_eval(1, &z));
  weft_set(WEFT_DEVICE, 1);
  far_runs_left = 0;
  last = plus(there, 1);
  EXPECT_OK(weft_eval_async(1, &last));
  EXPECT_INT(weft_wait(1, &last, 10), WEFT_ERR_DEVICE);
  EXPECT_INT(weft_state_of(last, NULL), WEFT_FAILED);
  EXPECT_INT(weft_state_of(there, NULL), WEFT_FAILED);
  EXPECT_INT(weft_check(last), WEFT_ERR_DEVICE);
  EXPECT_INT(weft_read(there, WEFT_F32, got, sizeof got), WEFT_ERR_DEVICE);
  EXPECT_INT(weft_check(there), WEFT_ERR_DEVICE);
  EXPECT_INT(weft_wait(0, NULL, 1), WEFT_ERR_DEVICE);
  weft_set(WEFT_DEVICE, 0);
  expect_ramp(x, 1, 0);
  expect_ramp(home, 3, 0);
  expect_ramp(plus(z, 1), 3, 1);
  last = plus(z, 2);
  EXPECT_OK(weft_eval_async(1, &last));
  EXPECT_OK(weft_wait(0, NULL, 1)); /* of what is lost it was told before */
  float one = 0;
  EXPECT_OK(weft_read(host_step(), WEFT_F32, &one, sizeof one)); /* nothing is left to do there */
  EXPECT(one > 0);
  weft_scope_discard(s);
  far_end();
}

/* ---- Work that does not end ---- */

TEST(a_wait_for_a_device_ends_in_time) {
  far_begin(FAR_WHEN_WAITED_FOR);
  weft_scope *s = weft_scope_open();
  weft_array *y = plus(far_ramp(N), 1);
  far_stuck = true;
  EXPECT_OK(weft_eval_async(1, &y));
  until_launched(1);
  EXPECT_INT(weft_wait(1, &y, 0.05), WEFT_ERR_TIMEOUT);
  EXPECT_INT(weft_wait(0, NULL, 0.05), WEFT_ERR_TIMEOUT);
  EXPECT_INT(weft_state_of(y, NULL), WEFT_RUNNING);
  far_stuck = false;
  EXPECT_OK(weft_wait(1, &y, 10));
  expect_ramp(y, 1, 1);
  weft_scope_discard(s);
  far_end();
}

static volatile int cancels;
static void *cancel_soon(void *unused) {
  usleep(20000);
  __atomic_store_n(&cancels, 1, __ATOMIC_RELAXED);
  return unused;
}

TEST(a_wait_for_a_device_can_be_cancelled_and_commits_nothing) {
  far_begin(FAR_WHEN_WAITED_FOR);
  weft_scope *s = weft_scope_open(), *step;
  weft_array *w = far_ramp(N);
  pthread_t t;
  step = weft_scope_open();
  far_stuck = true;
  cancels = 0;
  weft_cancel_when(&cancels);
  weft_update(w, plus(w, 1));
  EXPECT_INT(pthread_create(&t, NULL, cancel_soon, NULL), 0);
  EXPECT_INT(weft_scope_close(step), WEFT_ERR_CANCELLED);
  pthread_join(t, NULL);
  weft_cancel_when(NULL);
  far_stuck = false;
  expect_ramp(w, 1, 0);
  weft_scope_discard(s);
  far_end();
}

/* What looks whether it is to stop is waited for before its results are anybody's, and told to stop when that is cancelled. */
TEST(kernels_that_may_be_stopped_are_when_their_evaluation_is_cancelled) {
  far_begin(FAR_WHEN_WAITED_FOR);
  weft_scope *s = weft_scope_open();
  weft_array *y = plus(far_ramp(N), 1);
  pthread_t t;
  far_looks = far_stuck = true;
  cancels = 0;
  weft_cancel_when(&cancels);
  EXPECT_INT(pthread_create(&t, NULL, cancel_soon, NULL), 0);
  EXPECT_INT(weft_eval(1, &y), WEFT_ERR_CANCELLED);
  EXPECT_TEXT(weft_message(), "weft_eval: cancelled");
  EXPECT_INT(weft_state_of(y, NULL), WEFT_LAZY);
  pthread_join(t, NULL);
  weft_cancel_when(NULL);
  far_drain();
  EXPECT_INT(far_counts().stopped, 1);
  far_stuck = false;
  expect_ramp(y, 1, 1); /* of other launches, which nobody stops */
  EXPECT_INT(far_counts().stopped, 1);
  EXPECT_INT(far_counts().runs, 2);
  weft_scope_discard(s);
  far_end();
}

/* Whoever was told to stop has left his results as they are: they are nobody's, though the flag says otherwise by then. */
TEST(kernels_that_were_stopped_are_cancelled_though_the_flag_is_taken_back) {
  far_begin(FAR_WHEN_WAITED_FOR);
  weft_scope *s = weft_scope_open();
  weft_array *y = plus(far_ramp(N), 1);
  pthread_t t;
  far_looks = far_stuck = true;
  far_taken_back = &cancels;
  cancels = 0;
  weft_cancel_when(&cancels);
  EXPECT_INT(pthread_create(&t, NULL, cancel_soon, NULL), 0);
  EXPECT_INT(weft_eval(1, &y), WEFT_ERR_CANCELLED);
  pthread_join(t, NULL);
  EXPECT_INT(cancels, 0);
  far_drain();
  EXPECT_INT(far_counts().stopped, 1);
  far_stuck = false;
  expect_ramp(y, 1, 1);
  weft_cancel_when(NULL);
  weft_scope_discard(s);
  far_end();
}

/* Loops that are no kernel, whose steps may be: n steps, or until the data say so; and a choice by what comes out of them. */
static weft_array *long_way(bool has_until) {
  weft_loop *loop = weft_loop_open(weft_integer(5));
  weft_array *h = weft_loop_carry(loop, weft_full(WEFT_F32, WEFT_DIMS(64, 64), 0.01));
  weft_array *next = weft_tanh(weft_matmul(weft_softmax(h, -1), weft_softmax(h, 0)));
  weft_loop_next(loop, h, next);
  if (has_until) weft_loop_until(loop, weft_gt(weft_sum(next, WEFT_ALL), weft_scalar(1e9)));
  weft_array *last = weft_loop_last(loop, h);
  weft_loop_close(loop);
  return weft_sum(last, WEFT_ALL);
}
static weft_array *steps_known(void) { return long_way(false); }
static weft_array *steps_until(void) { return long_way(true); }
static weft_array *chosen(void) {
  weft_array *x = weft_sum(weft_exp(far_ramp(8)), WEFT_ALL);
  weft_cond *c = weft_cond_open(weft_gt(x, weft_scalar(0)));
  weft_array *y = weft_cond_value(c, weft_mul(x, weft_scalar(2)), weft_neg(x));
  weft_cond_close(c);
  return y;
}
static void *cancel_what_is_launched(void *unused) {
  while (!far_counts().launches) usleep(1000);
  return cancel_soon(unused);
}

/* Wherever the host has to look at what kernels have made, it can be told to stop before they have ended. */
TEST(who_looks_at_what_kernels_make_can_be_cancelled) {
  weft_array *(*const makes[])(void) = { steps_known, steps_until, chosen, host_step };
  for (int i = 0; i < 4; i++) {
    far_begin(FAR_WHEN_WAITED_FOR);
    weft_scope *s = weft_scope_open();
    weft_array *y = makes[i]();
    float got[2] = { 0 };
    pthread_t t;
    far_looks = far_stuck = true;
    cancels = 0;
    weft_cancel_when(&cancels);
    EXPECT_INT(pthread_create(&t, NULL, cancel_what_is_launched, NULL), 0);
    EXPECT_INT(weft_eval(1, &y), WEFT_ERR_CANCELLED);
    pthread_join(t, NULL);
    weft_cancel_when(NULL);
    EXPECT_INT(weft_state_of(y, NULL), WEFT_LAZY);
    far_drain();
    EXPECT(far_counts().stopped > 0);
    EXPECT_INT(far_counts().runs, far_counts().stopped); /* nobody has waited for one of them */
    far_stuck = false;
    for (int device = 0; device < 2; device++) {
      weft_set(WEFT_DEVICE, device);
      EXPECT_OK(weft_read(device ? y : makes[i](), WEFT_F32, &got[device], sizeof *got));
    }
    EXPECT(got[0] == got[1]);
    weft_scope_discard(s);
    far_end();
  }
}

/* The same of what nobody waits for. */
TEST(kernels_that_may_be_stopped_are_in_the_background_too) {
  for (int is_called = 0; is_called < 2; is_called++) {
    far_begin(FAR_WHEN_WAITED_FOR);
    weft_scope *s = weft_scope_open();
    weft_array *x = weft_mul(far_ramp(N), weft_scalar(1)), *y;
    weft_scope *body = weft_scope_open();
    weft_array *in = weft_input(WEFT_F32, WEFT_DIMS(N)), *out = plus(in, 1);
    weft_function *f = weft_compile(body, 1, &in, 1, &out);
    EXPECT_OK(weft_eval(1, &x));
    weft_call(f, 1, &x, 1, &y);
    EXPECT_OK(weft_eval(1, &y)); /* a plan that is known is enqueued without a thread between */
    if (is_called) weft_call(f, 1, &x, 1, &y);
    else y = plus(x, 1);
    far_looks = far_stuck = true;
    cancels = 0;
    weft_cancel_when(&cancels);
    EXPECT_OK(weft_eval_async(1, &y));
    weft_cancel_when(NULL);
    until_launched(2); /* the first call was one */
    EXPECT_INT(weft_wait(1, &y, 0.02), WEFT_ERR_TIMEOUT);
    __atomic_store_n(&cancels, 1, __ATOMIC_RELAXED);
    EXPECT_INT(weft_wait(1, &y, 10), WEFT_ERR_CANCELLED);
    EXPECT_INT(weft_state_of(y, NULL), WEFT_LAZY);
    far_drain();
    EXPECT(far_counts().stopped > 0);
    far_stuck = false;
    expect_ramp(y, 1, 1);
    weft_scope_discard(s);
    far_end();
  }
}

/* ---- Limits ---- */

TEST(a_limit_of_a_device_is_kept_and_said) {
  far_begin(FAR_NOW_AND_THEN);
  weft_scope *s = weft_scope_open();
  weft_array *x = far_ramp(N), *y = plus(x, 1);
  int64_t before = weft_set(WEFT_BYTES_LIMIT, 6000);
  EXPECT_INT(weft_get(WEFT_BYTES_LIMIT), 6000);
  EXPECT_INT(weft_eval(1, &y), WEFT_ERR_MEMORY);
  EXPECT(strstr(weft_message(), "out of memory on device 1 (test): 4000 bytes for add"));
  EXPECT(strstr(weft_message(), "of 6000 are in use"));
  weft_set(WEFT_BYTES_LIMIT, before);
  expect_ramp(y, 1, 1);
  weft_scope_discard(s);
  far_end();
}

/* ---- Copies that are void ---- */

TEST(an_array_overwritten_on_the_host_is_brought_to_the_device_anew) {
  far_begin(FAR_WHEN_WAITED_FOR);
  weft_scope *s = weft_scope_open();
  enum { MANY = 4096 };
  float x[MANY] = { 0 }, got[MANY];
  weft_array *w = weft_from(WEFT_F32, WEFT_DIMS(MANY), x);
  for (int i = 0; i < 6; i++) {
    weft_set(WEFT_DEVICE, i % 2);
    weft_scope *step = weft_scope_open();
    weft_update(w, plus(w, 1));
    EXPECT_OK(weft_scope_close(step));
  }
  EXPECT_OK(weft_read(w, WEFT_F32, got, sizeof got));
  EXPECT(got[0] == 6 && got[MANY - 1] == 6);
  weft_scope_discard(s);
  far_end();
}

static int n_released;
static void released(void *unused) { (void)unused, n_released++; }

TEST(memory_of_others_is_brought_as_it_is_at_each_evaluation) {
  far_begin(FAR_WHEN_WAITED_FOR);
  weft_scope *s = weft_scope_open();
  float x[N];
  n_released = 0;
  weft_array *e = weft_external(&(weft_block){ x, 0, WEFT_F32, 1, (int64_t[]){ N }, (int64_t[]){ 1 } }, released, NULL);
  for (int k = 1; k < 4; k++) {
    for (int i = 0; i < N; i++) x[i] = (float)(k * i);
    weft_array *y = plus(e, 1);
    EXPECT_OK(weft_eval(1, &y));
    for (int i = 0; i < N; i++) x[i] = -1;
    expect_ramp(y, (float)k, 1);
  }
  weft_scope_discard(s);
  EXPECT_INT(n_released, 1);
  far_end();
}

TEST(memory_pinned_on_the_host_is_brought_as_it_is_at_each_evaluation) {
  far_begin(FAR_WHEN_WAITED_FOR);
  weft_scope *s = weft_scope_open();
  weft_array *x = plus(far_ramp(N), 0), *y = plus(x, 1), *z;
  weft_block b;
  EXPECT_OK(weft_eval(1, &y));
  EXPECT_OK(weft_pin(x, 0, &b));
  for (int k = 1; k < 4; k++) {
    for (int i = 0; i < N; i++) ((float *)b.data)[i] = (float)(k * i);
    z = plus(x, 1);
    EXPECT_OK(weft_eval(1, &z));
    expect_ramp(z, (float)k, 1);
  }
  weft_unpin(x);
  z = plus(x, 2);
  expect_ramp(z, 3, 2);
  weft_scope_discard(s);
  far_end();
}

TEST(memory_pinned_on_a_device_is_what_the_host_sees) {
  far_begin(FAR_WHEN_WAITED_FOR);
  weft_scope *s = weft_scope_open();
  weft_array *x = plus(far_ramp(N), 0), *z;
  weft_block b, other;
  expect_ramp(x, 1, 0);
  EXPECT_OK(weft_pin(x, 1, &b));
  EXPECT_INT(b.device, 1);
  EXPECT_INT(weft_pin(x, 0, &other), WEFT_ERR_UNSUPPORTED);
  EXPECT_INT(weft_pin(x, 3, &other), WEFT_ERR_DEVICE);
  for (int k = 1; k < 4; k++) {
    float *there = far_memory(b.data);
    for (int i = 0; i < N; i++) there[i] = (float)(k * i);
    for (int device = 0; device < 3; device++) {
      weft_set(WEFT_DEVICE, device);
      z = plus(x, device);
      EXPECT_OK(weft_eval(1, &z));
      expect_ramp(z, (float)k, (float)device);
    }
    expect_ramp(x, (float)k, 0);
  }
  weft_unpin(x);
  weft_set(WEFT_DEVICE, 0);
  z = plus(x, 2);
  expect_ramp(z, 3, 2);
  weft_scope_discard(s);
  far_end();
}

/* ---- Files ---- */

/* Pages of the file go there a few megabytes at a time: the host takes no memory for the array. */
TEST(an_array_of_a_file_goes_to_a_device_without_a_copy_in_memory_of_the_host) {
  enum { MANY = 6 << 20 };
  far_begin(FAR_AT_ONCE);
  weft_set(WEFT_DEVICE, 0);
  weft_scope *s = weft_scope_open();
  char path[80];
  float got[2];
  snprintf(path, sizeof path, "/tmp/weft-spaces-%d.safetensors", (int)getpid());
  weft_array *x = weft_iota(weft_full(WEFT_F32, WEFT_DIMS(MANY), 0), 0);
  EXPECT_OK(weft_save(path, 1, (const char *[]){ "x" }, &x, NULL));
  weft_scope_discard(s);
  s = weft_scope_open();
  x = weft_file_get(weft_file_open(path), "x");
  weft_set(WEFT_BYTES_PEAK, 0);
  int64_t before = weft_get(WEFT_BYTES_PEAK);
  weft_array *y = weft_slice(weft_add(weft_to(x, 1), weft_scalar(1)), 0, MANY - 2, MANY, 1);
  EXPECT_OK(weft_read(y, WEFT_F32, got, sizeof got));
  EXPECT(got[0] == MANY - 1 && got[1] == MANY);
  EXPECT(weft_get(WEFT_BYTES_PEAK) - before <= 5 << 20);
  weft_scope_discard(s);
  unlink(path);
  far_end();
}

/* ---- Memory of others on a device ---- */

/* Theirs: taken there, and filled by their stream, which may not have come to it. */
static weft_block their_ramp(const struct device *d, float by, uint64_t *at) {
  static int64_t n = N, one = 1;
  struct event since;
  float x[N];
  for (int i = 0; i < N; i++) x[i] = by * (float)i;
  EXPECT_INT(d->take(d, sizeof x, at, &since), 0);
  EXPECT_INT(d->upload(d, QUEUE_COPY, *at, x, sizeof x), 0);
  return (weft_block){ (void *)(uintptr_t)*at, 1, WEFT_F32, 1, &n, &one };
}

TEST(memory_of_others_on_a_device_is_used_where_it_is_after_what_their_stream_has) {
  for (int lag = 0; lag < 3; lag++) {
    far_begin(lag);
    weft_scope *s = weft_scope_open();
    const struct device *d = far_device(0);
    uint64_t at;
    weft_block b = their_ramp(d, 3, &at);
    n_released = 0;
    EXPECT(weft_stream(1) && !weft_stream(0) && !weft_stream(3));
    EXPECT_OK(weft_follow(1, (void *)(uintptr_t)FAR_STREAM));
    weft_array *e = weft_external(&b, released, NULL), *y = plus(e, 1);
    EXPECT_INT(place_of(e), 1);
    EXPECT_OK(weft_eval_async(1, &y));
    expect_ramp(y, 3, 1);
    EXPECT_INT(far_counts().uploads, 1); /* theirs */
    EXPECT_INT(far_counts().downloads, 1);
    for (int device = 0; device < 3; device++) { /* elsewhere it is what it is now */
      float *there = far_memory(b.data);
      for (int i = 0; i < N; i++) there[i] = (float)(i * (device + 1));
      weft_set(WEFT_DEVICE, device);
      expect_ramp(plus(e, 2), (float)(device + 1), 2);
      expect_ramp(e, (float)(device + 1), 0);
    }
    weft_block shown;
    EXPECT_OK(weft_pin(e, 1, &shown));
    EXPECT(shown.data == b.data);
    EXPECT_INT(weft_pin(e, 0, &shown), WEFT_ERR_UNSUPPORTED);
    weft_unpin(e);
    EXPECT_OK(weft_lead(1, (void *)(uintptr_t)FAR_STREAM));
    weft_scope_discard(s);
    EXPECT_OK(weft_wait(0, NULL, 10));
    EXPECT_INT(n_released, 1);
    d->give(d, at, N * sizeof(float));
    far_end();
  }
}

/* It is released when nothing that is enqueued reads it any more. */
TEST(memory_of_others_on_a_device_is_released_when_its_last_kernel_has_run) {
  far_begin(FAR_WHEN_WAITED_FOR);
  weft_scope *s = weft_scope_open(), *inner = weft_scope_open();
  const struct device *d = far_device(0);
  uint64_t at;
  weft_block b = their_ramp(d, 1, &at);
  n_released = 0;
  EXPECT_OK(weft_follow(1, (void *)(uintptr_t)FAR_STREAM));
  weft_array *e = weft_external(&b, released, NULL), *y = plus(weft_mul(e, e), 0);
  weft_keep(y);
  EXPECT_OK(weft_eval_async(1, &y));
  until_launched(1);
  EXPECT_INT(far_counts().runs, 0);
  weft_scope_discard(inner);
  EXPECT_INT(n_released, 0); /* y could be differentiated */
  weft_scope_discard(s);
  EXPECT_OK(weft_wait(0, NULL, 10));
  EXPECT_INT(n_released, 1);
  EXPECT_INT(far_counts().runs, 1);
  d->give(d, at, N * sizeof(float));
  far_end();
}

TEST(an_address_that_is_not_of_the_device_is_refused) {
  far_begin(FAR_AT_ONCE);
  weft_scope *s = weft_scope_open();
  const struct device *d = far_device(0);
  uint64_t at;
  weft_block b = their_ramp(d, 1, &at), of_host = b, other = b, beyond = b, missing = b;
  float here[N];
  int64_t long_stride = 2;
  of_host.data = here, other.device = 2, beyond.strides = &long_stride, missing.device = 3;
  weft_block *wrong[] = { &of_host, &other, &beyond, &missing };
  n_released = 0;
  for (int i = 0; i < 4; i++) {
    EXPECT_INT(weft_check(weft_external(wrong[i], released, NULL)), WEFT_ERR_DEVICE);
    EXPECT(strstr(weft_message(), i < 3 ? "is not in the memory of device" : "there is no device 3"));
    EXPECT_INT(n_released, i + 1);
  }
  EXPECT_INT(weft_follow(1, (void *)(uintptr_t)77), WEFT_ERR_DEVICE);
  EXPECT_INT(weft_lead(4, NULL), WEFT_ERR_DEVICE);
  EXPECT_OK(weft_lead(0, NULL));
  d->give(d, at, N * sizeof(float));
  weft_scope_discard(s);
  far_end();
}

/* ---- Threads ---- */

static weft_array *shared_value;

static void *use_shared(void *at) {
  intptr_t k = (intptr_t)at;
  weft_set(WEFT_DEVICE, k % 3);
  for (int i = 0; i < 20; i++) {
    weft_scope *s = weft_scope_open();
    weft_array *y = plus(weft_mul(shared_value, weft_scalar(2)), (double)(k + i));
    EXPECT_OK(weft_eval(1, &y));
    expect_ramp(y, 2, (float)(k + i));
    weft_scope_discard(s);
  }
  return NULL;
}

TEST(threads_on_the_host_and_on_devices_share_values) {
  test_watchdog(120);
  for (int lag = FAR_WHEN_WAITED_FOR; lag <= FAR_NOW_AND_THEN; lag++) {
    pthread_t t[6];
    far_begin(lag);
    weft_scope *s = weft_scope_open();
    shared_value = plus(far_ramp(N), 0);
    EXPECT_OK(weft_eval(1, &shared_value));
    for (intptr_t i = 0; i < 6; i++) EXPECT_INT(pthread_create(&t[i], NULL, use_shared, (void *)i), 0);
    for (int i = 0; i < 6; i++) pthread_join(t[i], NULL);
    expect_ramp(shared_value, 1, 0);
    weft_scope_discard(s);
    far_end();
  }
}

/* Programs of several threads, each wherever it likes, on arrays they give each other. Every array is by * i + from, in whole numbers
 * that f32 holds, so what it should be is known without computing it anywhere. */
enum { SLOTS = 6, MIXED_STEPS = 60 };
static struct slot { weft_array *a; float by, from; } slot[SLOTS];
static pthread_mutex_t slots = PTHREAD_MUTEX_INITIALIZER;

static struct slot take_slot(unsigned *seed) {
  pthread_mutex_lock(&slots);
  struct slot s = slot[rand_r(seed) % SLOTS];
  weft_own(s.a);
  pthread_mutex_unlock(&slots);
  return s;
}

static void put_slot(unsigned *seed, struct slot s) {
  pthread_mutex_lock(&slots);
  struct slot *to = &slot[rand_r(seed) % SLOTS], before = *to;
  weft_own(s.a);
  *to = s;
  pthread_mutex_unlock(&slots);
  weft_disown(before.a);
}

static weft_array *through_indices(weft_array *x) {
  weft_array *i = weft_cast(weft_iota(x, 0), WEFT_I32);
  return weft_take(x, 1, &i);
}

static struct slot mixed_step(unsigned *seed, struct slot a, struct slot b) {
  struct slot y = { NULL, a.by, a.from };
  switch (rand_r(seed) % 6) {
    case 0: y = (struct slot){ weft_sub(weft_add(a.a, b.a), weft_mul(b.a, weft_scalar(1))), a.by, a.from }; break;
    case 1: y.a = plus(weft_neg(a.a), 3), y.by = -a.by, y.from = 3 - a.from; break;
    case 2: y.a = through_indices(plus(a.a, 0)); break;
    case 3: y.a = weft_flip(weft_flip(a.a, 0), 0); break;
    case 4: y.a = plus(weft_to(a.a, rand_r(seed) % 3), 0); y.a = weft_to(y.a, -1); break;
    default: y.a = weft_where(weft_gt(b.a, weft_scalar(1e9)), b.a, weft_mul(a.a, weft_scalar(1)));
  }
  return y;
}

static void touch(unsigned *seed, weft_array *x) {
  weft_block b;
  switch (rand_r(seed) % 5) {
    case 0: EXPECT_OK(weft_eval(1, &x)); break;
    case 1: EXPECT_OK(weft_eval_async(1, &x)); break;
    case 2: EXPECT_OK(weft_wait(1, &x, 30)); break;
    case 3: /* another thread may have pinned it elsewhere */
      if (weft_pin(x, rand_r(seed) % 3, &b) == WEFT_OK) weft_unpin(x);
      break;
    default:;
  }
}

static void *run_mixed(void *at) {
  unsigned seed = (unsigned)(intptr_t)at;
  for (int i = 0; i < MIXED_STEPS; i++) {
    weft_scope *s = weft_scope_open();
    weft_set(WEFT_DEVICE, rand_r(&seed) % 3);
    struct slot a = take_slot(&seed), b = take_slot(&seed), y = mixed_step(&seed, a, b);
    touch(&seed, y.a);
    touch(&seed, a.a);
    if (i % 4 == 0) expect_ramp(y.a, y.by, y.from);
    put_slot(&seed, y);
    weft_disown(a.a), weft_disown(b.a);
    weft_scope_discard(s);
  }
  EXPECT_OK(weft_wait(0, NULL, 60));
  return NULL;
}

TEST(threads_in_several_places_give_each_other_arrays) {
  test_watchdog(240);
  for (int lag = 0; lag < 3; lag++)
    for (int round = 0; round < 4; round++) {
      pthread_t t[3];
      far_begin(lag);
      weft_scope *s = weft_scope_open();
      for (int i = 0; i < SLOTS; i++) slot[i] = (struct slot){ weft_own(plus(weft_mul(far_ramp(N), weft_scalar(i)), i)), (float)i, (float)i };
      for (intptr_t i = 0; i < 3; i++)
        EXPECT_INT(pthread_create(&t[i], NULL, run_mixed, (void *)(1 + i + 10 * round + 100 * (intptr_t)lag)), 0);
      for (int i = 0; i < 3; i++) pthread_join(t[i], NULL);
      weft_set(WEFT_DEVICE, round % 3);
      for (int i = 0; i < SLOTS; i++) expect_ramp(slot[i].a, slot[i].by, slot[i].from), weft_disown(slot[i].a);
      weft_scope_discard(s);
      far_end();
    }
}

/* Whoever is first gives an array its value and drops what it was made of, which the others were about to evaluate. */
enum { MOVED = 2000 };

static void *ask_for_all(void *moved) {
  weft_array **a = moved;
  intptr_t n_failed = 0;
  weft_set(WEFT_DEVICE, 1);
  for (int i = 0; i < MOVED; i++) n_failed += weft_eval(1, &a[i]) != WEFT_OK;
  return (void *)n_failed;
}

TEST(threads_that_ask_for_the_same_moved_arrays_are_all_given_them) {
  weft_array *moved[MOVED];
  pthread_t t[8];
  test_watchdog(240);
  far_begin(FAR_NOW_AND_THEN);
  for (int i = 0; i < MOVED; i++) {
    weft_scope *s = weft_scope_open();
    moved[i] = weft_own(weft_to(plus(weft_neg(far_ramp(N)), (float)i), 1 + i % 2));
    weft_scope_discard(s);
  }
  for (int i = 0; i < 8; i++) EXPECT_INT(pthread_create(&t[i], NULL, ask_for_all, moved), 0);
  for (int i = 0; i < 8; i++) {
    void *n_failed;
    pthread_join(t[i], &n_failed);
    EXPECT(!n_failed);
  }
  for (int i = 0; i < MOVED; i++) expect_ramp(moved[i], -1, (float)i), weft_disown(moved[i]);
  far_end();
}

/* ---- A device that is not there ---- */

static void *eval_there(void *unused) {
  weft_scope *s = weft_scope_open();
  weft_array *y = plus(far_ramp(N), 1);
  weft_status status = weft_eval(1, &y);
  bool is_told = strstr(weft_message(), "WEFT_DEVICE") || strstr(weft_message(), "there is no device 7");
  weft_scope_discard(s);
  return (void)unused, (void *)(intptr_t)(status == WEFT_ERR_DEVICE && is_told);
}

TEST(a_device_of_the_environment_that_is_not_there_is_an_error) {
  const char *names[] = { "7", "gpu", "-1", "1x" };
  char *before = getenv("WEFT_DEVICE") ? strdup(getenv("WEFT_DEVICE")) : NULL;
  for (int i = 0; i < 4; i++) {
    pthread_t t;
    void *is_told = NULL;
    setenv("WEFT_DEVICE", names[i], 1);
    EXPECT_INT(pthread_create(&t, NULL, eval_there, NULL), 0);
    pthread_join(t, &is_told);
    EXPECT(is_told);
  }
  if (before) setenv("WEFT_DEVICE", before, 1);
  else unsetenv("WEFT_DEVICE");
  free(before);
}

/* ---- Placing ---- */

TEST(what_is_computed_from_a_placed_array_runs_there) {
  far_begin(FAR_WHEN_WAITED_FOR);
  weft_set(WEFT_DEVICE, 0);
  weft_scope *s = weft_scope_open();
  weft_array *x = weft_exp(weft_mul(far_ramp(N), weft_scalar(0))), *y = weft_mul(weft_to(weft_mul(x, far_ramp(N)), 1), weft_scalar(2));
  weft_array *z = weft_to(y, 2), *both[] = { plus(y, 1), plus(z, 2), plus(x, 3) };
  EXPECT_OK(weft_eval(3, both));
  EXPECT_INT(place_of(both[0]), 1);
  EXPECT_INT(place_of(both[1]), 2);
  EXPECT_INT(place_of(both[2]), 0);
  EXPECT_INT(far_counts().downloads, 1); /* from device 1 to 2 */
  expect_ramp(both[0], 2, 1);
  expect_ramp(both[1], 2, 2);
  expect_ramp(weft_to(y, 0), 2, 0);
  expect_ramp(plus(weft_to(y, -1), 5), 2, 5);
  weft_scope_discard(s);
  far_end();
}

TEST(work_placed_on_the_host_runs_there_whatever_reads_it) {
  far_begin(FAR_WHEN_WAITED_FOR);
  weft_set(WEFT_DEVICE, 1);
  weft_scope *s = weft_scope_open();
  weft_array *y = weft_to(plus(weft_to(far_ramp(N), 0), 1), -1), *z = plus(y, 1);
  EXPECT_OK(weft_eval(1, &y));
  EXPECT_INT(place_of(y), 0);
  EXPECT_OK(weft_eval(1, &z));
  EXPECT_INT(place_of(z), 1);
  expect_ramp(z, 1, 2);
  weft_scope_discard(s);
  far_end();
}

TEST(two_places_are_an_error_that_names_both) {
  far_begin(FAR_WHEN_WAITED_FOR);
  weft_scope *s = weft_scope_open();
  weft_array *x = weft_to(far_ramp(N), 1), *y = weft_to(far_ramp(N), 2);
  EXPECT_INT(weft_check(weft_add(x, plus(y, 1))), WEFT_ERR_DEVICE);
  EXPECT_TEXT(weft_message(), "weft_add: operands are on devices 1 and 2; weft_to brings one to the other");
  EXPECT_INT(weft_check(weft_to(x, 3)), WEFT_ERR_DEVICE);
  EXPECT_INT(weft_check(weft_to(x, -2)), WEFT_ERR_DEVICE);
  expect_ramp(weft_add(x, weft_to(plus(y, 1), 1)), 2, 1);
  weft_scope_discard(s);
  far_end();
}

/* Of x on one device and y on another, by what is made of its operands step by step. */
static weft_array *by_a_call(weft_array *x, weft_array *y) {
  weft_scope *body = weft_scope_open();
  weft_array *in[2] = { weft_input(WEFT_F32, WEFT_DIMS(N)), weft_input(WEFT_F32, WEFT_DIMS(N)) }, *out = weft_add(in[0], in[1]);
  weft_function *f = weft_compile(body, 2, in, 1, &out);
  weft_call(f, 2, (weft_array *[]){ x, y }, 1, &out);
  return out;
}

static weft_array *by_a_loop(weft_array *x, weft_array *y) {
  weft_loop *l = weft_loop_open(NULL);
  weft_array *e = weft_loop_each(l, x), *c = weft_loop_carry(l, weft_at(y, 0, weft_integer(0)));
  weft_loop_next(l, c, weft_add(c, e));
  weft_array *last = weft_loop_last(l, c);
  weft_loop_close(l);
  return last;
}

static weft_array *by_a_choice(weft_array *x, weft_array *y) {
  weft_cond *c = weft_cond_open(weft_gt(weft_sum(x, WEFT_ALL), weft_scalar(0)));
  weft_array *v = weft_cond_value(c, x, y);
  weft_cond_close(c);
  return v;
}

static weft_array *square(weft_array *x) { return weft_reshape(weft_slice(x, 0, 0, 900, 1), WEFT_DIMS(30, 30)); }
static weft_array *by_solving(weft_array *x, weft_array *y) { return weft_solve(square(x), square(y)); }

static weft_array *by_counting(weft_array *x, weft_array *y) {
  return weft_histogram(x, weft_linspace(WEFT_F32, 0, 6, 4), y, 0);
}

TEST(two_places_are_told_by_what_was_called) {
  struct { const char *name; weft_array *(*of)(weft_array *, weft_array *); } rows[] = {
    { "weft_call", by_a_call }, { "weft_loop_close", by_a_loop }, { "weft_cond_close", by_a_choice }, { "weft_solve", by_solving },
    { "weft_histogram", by_counting },
  };
  far_begin(FAR_WHEN_WAITED_FOR);
  for (int i = 0; i < 5; i++)
    for (int first = 0; first < 3; first++) {
      weft_scope *s = weft_scope_open();
      int other = (first + 1) % 3;
      char expected[2][100];
      for (int k = 0; k < 2; k++)
        snprintf(expected[k], sizeof expected[k], "%s: operands are on devices %d and %d; weft_to brings one to the other", rows[i].name,
                 k ? first : other, k ? other : first);
      weft_array *y = rows[i].of(weft_to(far_ramp(N), first), weft_to(far_ramp(N), other));
      EXPECT_INT(weft_check(plus(y, 1)), WEFT_ERR_DEVICE);
      if (strcmp(weft_message(), expected[0])) EXPECT_TEXT(weft_message(), expected[1]);
      EXPECT_INT(weft_eval(1, &y), WEFT_ERR_DEVICE);
      weft_scope_discard(s);
    }
  far_end();
}

TEST(what_a_function_has_captured_elsewhere_is_told_where_it_meets_an_argument) {
  far_begin(FAR_WHEN_WAITED_FOR);
  weft_scope *s = weft_scope_open();
  weft_array *x = weft_to(far_ramp(N), 1), *there = weft_to(far_ramp(N), 2), *y;
  weft_scope *body = weft_scope_open();
  weft_array *in = weft_input(WEFT_F32, WEFT_DIMS(N)), *out = weft_mul(weft_add(in, in), there);
  weft_function *f = weft_compile(body, 1, &in, 1, &out);
  for (int later = 0; later < 2; later++) {
    weft_call(f, 1, &x, 1, &y);
    if (later) y = plus(y, 1);
    EXPECT_INT(weft_eval(1, &y), WEFT_ERR_DEVICE);
    EXPECT_TEXT(weft_message(), "weft_mul: operands are on devices 1 and 2; weft_to brings one to the other");
  }
  weft_scope_discard(s);
  far_end();
}

TEST(functions_loops_updates_and_gradients_follow_their_place) {
  far_begin(FAR_WHEN_WAITED_FOR);
  weft_set(WEFT_DEVICE, 0);
  weft_scope *s = weft_scope_open();
  weft_array *w = weft_to(far_ramp(N), 1), *v = far_ramp(N), *dw, *dv, *y;
  weft_scope *body = weft_scope_open();
  weft_array *in = weft_input(WEFT_F32, WEFT_DIMS(WEFT_ANY)), *out = plus(in, 1);
  weft_function *f = weft_compile(body, 1, &in, 1, &out);
  weft_call(f, 1, &w, 1, &y);
  EXPECT_OK(weft_eval(1, &y));
  EXPECT_INT(place_of(y), 1);
  expect_ramp(y, 1, 1);
  body = weft_scope_open();
  in = weft_input(WEFT_F32, WEFT_DIMS(WEFT_ANY)), out = plus(weft_to(plus(in, 1), 2), 1); /* moves inside */
  weft_function *g = weft_compile(body, 1, &in, 1, &out);
  weft_call(g, 1, &v, 1, &y);
  expect_ramp(y, 1, 2);
  weft_loop *l = weft_loop_open(weft_integer(3));
  weft_array *c = weft_loop_carry(l, w);
  weft_loop_next(l, c, weft_add(c, weft_to(w, 1)));
  y = weft_loop_last(l, c);
  weft_loop_close(l);
  EXPECT_OK(weft_eval(1, &y));
  EXPECT_INT(place_of(y), 1);
  expect_ramp(y, 4, 0);
  weft_array *wrt[] = { v, w }, *d[2], *loss = weft_sum(weft_mul(weft_to(v, 1), weft_mul(w, w)), WEFT_ALL);
  weft_grad(loss, 2, wrt, d);
  dv = d[0], dw = d[1];
  weft_array *all[] = { plus(weft_sqrt(dv), 0), weft_div(dw, weft_mul(weft_scalar(2), weft_to(v, 1))) };
  EXPECT_OK(weft_eval(2, all));
  EXPECT_INT(place_of(all[0]), 0);
  EXPECT_INT(place_of(all[1]), 1);
  expect_ramp(all[0], 1, 0);
  for (int i = 0; i < 3; i++) {
    weft_scope *step = weft_scope_open();
    weft_update(w, plus(w, 1));
    weft_update(v, plus(v, 2));
    EXPECT_OK(weft_scope_close(step));
  }
  EXPECT_INT(place_of(w), 1);
  EXPECT_INT(place_of(v), 0);
  expect_ramp(w, 1, 3);
  expect_ramp(v, 1, 6);
  weft_scope_discard(s);
  far_end();
}
