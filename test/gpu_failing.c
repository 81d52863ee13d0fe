/* gpu_failing.c -- programs on a GPU in which each call of the driver fails, one after the other: once, or with the device lost for
 * good. An error that says what failed, or the right result; nothing left behind, and the host, and the device unless it is lost,
 * work on. Wants the driver of test/driver, which can be told to fail. */
#include <dlfcn.h>
#include <math.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#include "backend/backend.h"
#include "base/mem.h"
#include "run/compiled.h"
#include "run/plan.h"
#include "test.h"
#include "weft.h"

enum { INVALID = 1, NO_MEMORY = 2, LOST = 719 };
enum { N = 48, MOST = 256 };

/* ---- The driver. Asked for before weft looks for devices: a child that is forked then has them ---- */

static void (*driver_fail)(int at, int how, bool for_good);
static const char *(*driver_failed)(int *n);

static bool can_fail(void) {
  void *lib = dlopen("libcuda.so.1", RTLD_NOW), *fail = lib ? dlsym(lib, "test_driver_fail") : NULL;
  void *failed = fail ? dlsym(lib, "test_driver_failed") : NULL;
  if (!failed) return test_skip("there is no driver that can be told to fail"), false;
  memcpy(&driver_fail, &fail, sizeof fail);
  memcpy(&driver_failed, &failed, sizeof failed);
  return true;
}

static int n_driver_calls(void) {
  int n;
  return driver_failed(&n), n;
}

/* ---- Programs: numbers that they give, or a status ---- */

struct story { const char *name; weft_status (*tell)(float out[MOST]); };

static int home = 1; /* where arrays are placed that a story moves */

static weft_array *ramp(int n) {
  float x[MOST];
  for (int i = 0; i < n; i++) x[i] = (float)(i * 5 % 17) * 0.25f - 1.5f;
  return weft_from(WEFT_F32, WEFT_DIMS(n), x);
}

static weft_array *places(int n, int below) {
  int32_t i[MOST];
  for (int k = 0; k < n; k++) i[k] = k * 7 % below;
  return weft_from(WEFT_I32, WEFT_DIMS(n), i);
}

static weft_status tell_elements(float out[MOST]) {
  weft_array *x = ramp(N), *y = weft_add(weft_mul(x, x), weft_sum(weft_exp(x), WEFT_ALL));
  weft_status status = weft_eval(1, &y);
  if (status) return status;
  return weft_read(y, WEFT_F32, out, sizeof(float) * N);
}

/* What is checked, and combined through indices. */
static weft_status tell_indices(float out[MOST]) {
  weft_array *x = ramp(N), *i = places(MOST, N), *t = weft_take(x, 1, &i);
  weft_array *to = weft_full(WEFT_F32, WEFT_DIMS(N), 0), *y = weft_put(to, weft_take(to, 1, &i), t, WEFT_MAX);
  return weft_read(weft_cumsum(y, 0), WEFT_F32, out, sizeof(float) * N);
}

static weft_status tell_sort(float out[MOST]) {
  weft_array *x = ramp(N);
  return weft_read(weft_add(weft_sort(x, 0), weft_scalar(1)), WEFT_F32, out, sizeof(float) * N);
}

/* A loop that data end, and one over a sequence. */
static weft_status tell_loops(float out[MOST]) {
  weft_array *x = ramp(N);
  weft_loop *l = weft_loop_open(NULL);
  weft_array *s = weft_loop_carry(l, weft_full_like(x, 1)), *t = weft_mul(s, weft_scalar(1.5));
  weft_loop_next(l, s, t);
  weft_loop_until(l, weft_gt(weft_sum(t, WEFT_ALL), weft_scalar(1000)));
  weft_array *y = weft_loop_last(l, s);
  weft_loop_close(l);
  l = weft_loop_open(NULL);
  weft_array *e = weft_loop_each(l, y), *c = weft_loop_carry(l, weft_scalar(0));
  weft_loop_next(l, c, weft_add(weft_mul(c, weft_scalar(0.5)), e));
  weft_array *all = weft_loop_all(l, c);
  weft_loop_close(l);
  return weft_read(all, WEFT_F32, out, sizeof(float) * N);
}

/* Weights that are overwritten in place, step by step, and the last loss; the addresses come again, so launches are bundled. */
static weft_status tell_training(float out[MOST]) {
  weft_array *x = weft_reshape(ramp(N), WEFT_DIMS(8, 6)), *w = weft_mul(ramp(6), weft_scalar(1));
  weft_status status = WEFT_OK;
  float was[6], is[6];
  weft_status had = weft_read(w, WEFT_F32, was, sizeof was);
  for (int i = 0; i < 4 && !status; i++) {
    weft_scope *step = weft_scope_open();
    weft_array *dw, *y = weft_tanh(weft_cumsum(weft_mul(x, w), 1)), *e = weft_sub(y, weft_softmax(y, -1));
    weft_array *loss = weft_mean(weft_mul(e, e), WEFT_ALL);
    weft_grad(loss, 1, &w, &dw);
    weft_update(w, weft_sub(w, weft_mul(dw, weft_scalar(0.1))));
    weft_fetch(loss, WEFT_F32, out + 6 + i, sizeof *out);
    status = weft_scope_close(step);
    if (!status) status = weft_read(w, WEFT_F32, is, sizeof is);
  }
  memcpy(out, is, sizeof is);
  return had ? had : status;
}

/* To and fro, in the background. */
static weft_status tell_moves(float out[MOST]) {
  weft_array *x = weft_to(ramp(N), home), *y = weft_add(weft_mul(x, weft_scalar(2)), weft_cumsum(x, 0));
  weft_array *z = weft_exp(weft_to(y, 0)), *u = weft_sub(weft_to(z, home), x), *i = weft_to(places(N, N), home);
  weft_array *v = weft_take(u, 1, &i);
  weft_status status = weft_eval_async(2, (weft_array *[]){ y, v });
  weft_status at_y = weft_read(y, WEFT_F32, out, sizeof(float) * N), at_v = weft_read(v, WEFT_F32, out + N, sizeof(float) * N);
  weft_status end = weft_wait(2, (weft_array *[]){ y, v }, 10); /* what nobody waits for would still hold them */
  return status ? status : at_y ? at_y : at_v ? at_v : end;
}

static weft_status tell_calls(float out[MOST]) {
  weft_scope *body = weft_scope_open();
  weft_array *x = weft_input(WEFT_F32, WEFT_DIMS(8, 6)), *c = weft_cumsum(x, 1), *p = weft_softmax(c, -1);
  weft_array *r = weft_add(weft_cumsum(weft_sub(p, weft_mean(p, 0)), 0), weft_scalar(1));
  weft_function *f = weft_compile(body, 1, &x, 1, &r);
  weft_array *a = weft_to(weft_reshape(ramp(N), WEFT_DIMS(8, 6)), home);
  weft_status status = WEFT_OK;
  for (int i = 0; i < 5 && !status; i++) {
    weft_scope *s = weft_scope_open();
    weft_array *y;
    weft_call(f, 1, &a, 1, &y);
    status = weft_read(y, WEFT_F32, out, sizeof(float) * N);
    weft_scope_discard(s);
  }
  return status;
}

static weft_status tell_products(float out[MOST]) {
  weft_array *x = weft_reshape(ramp(N), WEFT_DIMS(8, 6)), *y = weft_matmul(weft_matmul(x, weft_transpose(x, NULL)), x);
  return weft_read(weft_tanh(y), WEFT_F32, out, sizeof(float) * N);
}

/* Memory that goes back to the driver whenever it is free. */
static weft_status tell_trims(float out[MOST]) {
  weft_status status = WEFT_OK;
  int64_t kept = weft_get(WEFT_BYTES_CACHE);
  for (int i = 0; i < 3 && !status; i++) {
    weft_scope *s = weft_scope_open();
    weft_array *x = ramp(N), *y = weft_cumsum(weft_exp(weft_mul(x, weft_scalar(1 + i))), 0);
    status = weft_read(y, WEFT_F32, out, sizeof(float) * N);
    weft_scope_discard(s);
    if (home) weft_set(WEFT_BYTES_CACHE, 0), weft_set(WEFT_BYTES_CACHE, kept);
  }
  return status;
}

/* What one side of a choice computes, and kernels that are wanted twice. */
static weft_status tell_choices(float out[MOST]) {
  weft_array *x = ramp(N), *c = weft_cumsum(x, 0);
  weft_cond *choice = weft_cond_open(weft_gt(weft_sum(c, WEFT_ALL), weft_scalar(0)));
  weft_array *y = weft_cond_value(choice, weft_sort(c, 0), weft_neg(c));
  weft_cond_close(choice);
  return weft_read(weft_add(weft_cumsum(y, 0), c), WEFT_F32, out, sizeof(float) * N);
}

static const struct story stories[] = {
  { "elements", tell_elements }, { "indices", tell_indices }, { "sort", tell_sort }, { "loops", tell_loops },
  { "training", tell_training }, { "moves", tell_moves }, { "calls", tell_calls }, { "products", tell_products },
  { "trims", tell_trims }, { "choices", tell_choices },
};
enum { STORIES = sizeof stories / sizeof *stories };

/* ---- Telling them ---- */

/* Who may be cancelled asks the driver again and again, who may not waits for it. */
static const volatile int never;
static bool asks;

static weft_status tell(const struct story *s, int device, float out[MOST]) {
  weft_scope *scope = weft_scope_open();
  memset(out, 0, sizeof(float) * MOST);
  weft_set(WEFT_DEVICE, home = device);
  weft_cancel_when(asks ? &never : NULL);
  weft_status status = s->tell(out);
  weft_scope_discard(scope);
  return status;
}

static void forget(void) {
  plan_drop_all();
  compiled_drop_all();
}

static int64_t device_bytes(void) {
  int64_t before = weft_set(WEFT_DEVICE, 1), used = weft_get(WEFT_BYTES_USED);
  return weft_set(WEFT_DEVICE, before), used;
}

static bool are_same(const float a[MOST], const float b[MOST]) { return !memcmp(a, b, sizeof(float) * MOST); }

/* The status and its text of a story in which something has failed. */
static void judge(const struct story *s, weft_status status, const char *said, const char *what, int n, const float got[MOST],
                  const float want[MOST]) {
  int unused;
  const char *call = driver_failed(&unused);
  if (status && status != WEFT_ERR_DEVICE && status != WEFT_ERR_MEMORY)
    test_fail(__FILE__, __LINE__, "%s, call %d (%s) %s: status %d: %s", s->name, n, call, what, (int)status, said);
  if (status && !*said) test_fail(__FILE__, __LINE__, "%s, call %d (%s) %s: no message", s->name, n, call, what);
  if (!status && !are_same(got, want)) test_fail(__FILE__, __LINE__, "%s, call %d (%s) %s: wrong result", s->name, n, call, what);
}

static void expect_nothing_left(const struct story *s, const char *what, int n) {
  int unused;
  for (int i = 0; i < 1000 && weft_get(WEFT_NODES); i++) usleep(1000); /* work in the background lets go a moment after it has told */
  if (weft_get(WEFT_NODES) || device_bytes() > 0)
    test_fail(__FILE__, __LINE__, "%s, call %d (%s) %s: %lld nodes, %lld bytes of the device are left", s->name, n,
              driver_failed(&unused), what, (long long)weft_get(WEFT_NODES), (long long)device_bytes());
}

/* Call n fails, once. Whether the story got that far. */
static bool fail_once(const struct story *s, int n, int how, const float want[MOST]) {
  float got[MOST], again[MOST];
  const char *what = how == NO_MEMORY ? "out of memory" : "refused";
  forget();
  driver_fail(n, how, false);
  weft_status status = tell(s, 1, got);
  bool got_there = n_driver_calls() >= n;
  judge(s, status, weft_message(), what, n, got, want);
  driver_fail(0, 0, false);
  expect_nothing_left(s, what, n);
  weft_status later = tell(s, 1, again);
  if (later || !are_same(again, want))
    test_fail(__FILE__, __LINE__, "%s after call %d %s: %s", s->name, n, what, later ? weft_message() : "wrong result");
  return got_there;
}

static void fail_each(int how) {
  if (!can_fail()) return;
  test_watchdog(300);
  for (int i = 0; i < STORIES; i++) {
    float want[MOST], there[MOST];
    EXPECT_OK(tell(&stories[i], 0, want));
    EXPECT_OK(tell(&stories[i], 1, there));
    if (!are_same(want, there)) test_fail(__FILE__, __LINE__, "%s: the device has other bits", stories[i].name);
    int n = 1;
    while (fail_once(&stories[i], n, how, want)) n++;
    EXPECT(n > 20);
  }
  forget();
}

TEST(cuda_calls_of_the_driver_that_fail_once_are_an_error_and_the_device_works_on) { fail_each(INVALID); }
TEST(cuda_calls_of_the_driver_that_fail_once_keep_nobody_who_may_be_cancelled) { asks = true, fail_each(INVALID); }
TEST(cuda_calls_of_the_driver_that_find_no_memory_are_an_error_and_the_device_works_on) { fail_each(NO_MEMORY); }

/* In a child, whose driver has not been asked anything: the device is lost at call n. Whether the story got there. */
static bool lose(const struct story *s, int n) {
  float got[MOST], again[MOST], want[MOST];
  driver_fail(n, LOST, true);
  weft_status status = tell(s, 1, got);
  bool got_there = n_driver_calls() >= n;
  char said[500];
  snprintf(said, sizeof said, "%s", weft_message());
  weft_status later = tell(s, 1, again), on_host = tell(s, 0, want);
  if (on_host) test_fail(__FILE__, __LINE__, "%s, call %d lost the device: the host: %s", s->name, n, weft_message());
  judge(s, status, said, "and all after", n, got, want);
  if (status && !strstr(said, "lost") && !strstr(said, "there is no device"))
    test_fail(__FILE__, __LINE__, "%s, call %d lost the device: nobody says so: %s", s->name, n, said);
  if (status && strstr(said, "compiled"))
    test_fail(__FILE__, __LINE__, "%s, call %d lost the device: that is told of a kernel: %s", s->name, n, said);
  judge(s, later, "it is lost", "and all after, told again,", n, again, want);
  expect_nothing_left(s, "and all after", n);
  forget();
  return got_there;
}

enum { GOT_THERE = 3, WENT_WRONG = 4 };

static int lose_in_child(const struct story *s, int n) {
  int how = 0;
  fflush(NULL);
  pid_t child = fork();
  if (!child) {
    alarm(20);
    bool got_there = lose(s, n);
    fflush(NULL);
    _exit(test_has_failed() ? WENT_WRONG : got_there ? GOT_THERE : 0);
  }
  EXPECT(child > 0 && waitpid(child, &how, 0) == child);
  if (!WIFEXITED(how)) test_fail(__FILE__, __LINE__, "%s, call %d lost the device: signal %d", s->name, n, WTERMSIG(how));
  return WIFEXITED(how) ? WEXITSTATUS(how) : WENT_WRONG;
}

static void lose_at_each(void) {
  if (!can_fail()) return;
  test_watchdog(300);
  for (int i = 0; i < STORIES; i++) {
    int n = 1, how;
    while ((how = lose_in_child(&stories[i], n)) == GOT_THERE) n += 1 + n / 40; /* a child each */
    if (how) test_fail(__FILE__, __LINE__, "%s, call %d lost the device: see above", stories[i].name, n);
    EXPECT(n > 20);
  }
}

TEST(cuda_devices_that_are_lost_at_any_call_of_the_driver_are_an_error_and_the_host_works_on) { lose_at_each(); }
TEST(cuda_devices_that_are_lost_keep_nobody_who_may_be_cancelled) { asks = true, lose_at_each(); }
