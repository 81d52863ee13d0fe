/* giving.c -- arrays that die with an evaluation on a device: their memory there is that of its results, and nothing else ever is
 * overwritten. What donate.c says of the host holds there, and what devices add: checks that are read later, copies elsewhere. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>
#include "far.h"
#include "test.h"
#include "values.h"

enum { N = 2048, BYTES = N * (int)sizeof(float), LITTLE = 512 }; /* LITTLE: words of checks and the like */

/* x at all of its indices, but that the last is i: fails if that is not below N. */
static weft_array *at(weft_array *x, int i) {
  int32_t index[N];
  for (int k = 0; k < N; k++) index[k] = k < N - 1 ? k : i;
  weft_array *of = weft_from(WEFT_I32, WEFT_DIMS(N), index);
  return weft_take(x, 1, &of);
}

static void expect_ramp(weft_array *x, float by, float from) { far_expect_ramp(x, N, by, from); }

static void expect_at_most(int line, int64_t buffers) {
  int64_t most = far_counts().most;
  if (most > buffers * (BYTES + 16) + LITTLE) test_fail(__FILE__, line, "%lld bytes at a time", (long long)most);
}

/* ---- What is overwritten ---- */

TEST(state_that_is_updated_on_a_device_stays_in_one_buffer) {
  for (int lag = 0; lag < 3; lag++) {
    far_begin(lag);
    weft_scope *s = weft_scope_open();
    weft_array *w = far_ramp(N);
    for (int i = 0; i < 20; i++) {
      weft_scope *step = weft_scope_open();
      weft_update(w, plus(w, 1));
      EXPECT_OK(weft_scope_close(step));
    }
    EXPECT_INT(far_counts().takes, 1);
    expect_at_most(__LINE__, 1);
    expect_ramp(w, 1, 20);
    weft_scope_discard(s);
    far_end();
  }
}

/* Of updates that nobody waits for the old value is there until the new one is. */
TEST(state_that_is_updated_without_waiting_is_in_two_buffers_at_most) {
  for (int lag = 0; lag < 3; lag++) {
    far_begin(lag);
    weft_scope *s = weft_scope_open();
    weft_array *w = far_ramp(N);
    for (int i = 0; i < 50; i++) {
      weft_scope *step = weft_scope_open();
      weft_update(w, plus(w, 1));
      EXPECT_OK(weft_scope_close_async(step));
    }
    expect_ramp(w, 1, 50);
    expect_at_most(__LINE__, 2);
    weft_scope_discard(s);
    far_end();
  }
}

/* What a binding does: each array is owned, until the next is made of it. */
static weft_array *next_of(weft_array *x, weft_array *(*f)(weft_array *)) {
  weft_scope *s = weft_scope_open();
  weft_array *y = weft_own(f(x));
  weft_scope_discard(s);
  weft_disown(x);
  return y;
}

static weft_array *add_one(weft_array *x) { return plus(x, 1); }

TEST(state_that_is_computed_from_itself_on_a_device_stays_in_one_buffer) {
  for (int how = 0; how < 6; how++) {
    far_begin(how % 3);
    weft_scope *s = weft_scope_open();
    weft_array *x = weft_own(far_ramp(N));
    weft_scope_discard(s);
    for (int i = 0; i < 20; i++) {
      x = next_of(x, add_one);
      EXPECT_OK(how < 3 ? weft_eval(1, &x) : weft_eval_async(1, &x));
      if (how >= 3) EXPECT_OK(weft_wait(0, NULL, 10));
    }
    EXPECT_INT(far_counts().takes, 1);
    expect_at_most(__LINE__, 1);
    expect_ramp(x, 1, 20);
    weft_disown(x);
    far_end();
  }
}

TEST(several_states_of_a_step_are_overwritten_where_they_are) {
  for (int lag = 0; lag < 3; lag++) {
    far_begin(lag);
    weft_scope *s = weft_scope_open();
    weft_array *w = far_ramp(N), *v = weft_mul(far_ramp(N), weft_scalar(0)), *u = far_ramp(N);
    EXPECT_OK(weft_eval(1, &v));
    for (int i = 0; i < 10; i++) {
      if (i == 1) far_count_anew();
      weft_scope *step = weft_scope_open();
      weft_array *m = weft_add(weft_mul(v, weft_scalar(0)), weft_scalar(1));
      weft_update(v, m);
      weft_update(w, weft_add(w, m));
      weft_update(u, weft_put(u, weft_slice(u, 0, i, i + 1, 1), weft_scalar(7), WEFT_SET));
      EXPECT_OK(weft_scope_close(step));
    }
    EXPECT_INT(far_counts().takes, 0);
    expect_at_most(__LINE__, 4); /* and what v was made of */
    expect_ramp(w, 1, 10);
    expect_ramp(v, 0, 1);
    float got[N];
    EXPECT_OK(weft_read(u, WEFT_F32, got, sizeof got));
    for (int i = 0; i < 20; i++) EXPECT(got[i] == (float)(i < 10 ? 7 : i));
    weft_scope_discard(s);
    far_end();
  }
}

TEST(a_plan_for_a_device_says_what_it_will_take) {
  far_begin(FAR_WHEN_WAITED_FOR);
  weft_scope *s = weft_scope_open();
  weft_array *x = weft_own(far_ramp(N)), *y;
  weft_scope_discard(s);
  EXPECT_OK(weft_eval(1, &x));
  s = weft_scope_open();
  y = weft_own(plus(x, 1));
  weft_scope_discard(s);
  weft_cost cost;
  EXPECT_OK(weft_plan(1, &y, &cost));
  EXPECT_INT(cost.peak_bytes, BYTES);
  weft_disown(x);
  EXPECT_OK(weft_plan(1, &y, &cost));
  EXPECT_INT(cost.peak_bytes, 0);
  expect_ramp(y, 1, 1);
  weft_disown(y);
  far_end();
}

/* ---- Checks ---- */

/* The gather is asked for first and checked; the state is overwritten after its words were read. */
TEST(state_is_overwritten_after_the_checks_beside_it_were_read) {
  for (int lag = 0; lag < 3; lag++) {
    far_begin(lag);
    weft_scope *s = weft_scope_open();
    weft_array *w = far_ramp(N), *table = far_ramp(N);
    for (int i = 0; i < 6; i++) {
      bool fails = i == 3;
      float sum = 7;
      if (i == 1) far_count_anew();
      weft_scope *step = weft_scope_open();
      weft_array *rows = at(table, fails ? N : N - 1), *total = weft_sum(rows, WEFT_ALL);
      weft_update(w, weft_add(w, weft_div(total, total)));
      weft_fetch(total, WEFT_F32, &sum, sizeof sum);
      weft_status status = weft_scope_close(step);
      EXPECT_INT(status, fails ? WEFT_ERR_INDEX : WEFT_OK);
      EXPECT((sum == 7) == fails);
    }
    expect_ramp(w, 1, 5);
    weft_scope_discard(s);
    far_end();
  }
}

TEST(a_kernel_that_checks_and_writes_does_not_overwrite) {
  for (int lag = 0; lag < 3; lag++) {
    far_begin(lag);
    weft_scope *s = weft_scope_open();
    weft_array *w = far_ramp(N), *v = far_ramp(N);
    for (int i = 0; i < 6; i++) {
      weft_scope *step = weft_scope_open();
      weft_update(v, plus(v, 1));
      weft_update(w, weft_add(at(w, i % 2 ? N : N - 1), weft_scalar(1)));
      EXPECT_INT(weft_scope_close(step), i % 2 ? WEFT_ERR_INDEX : WEFT_OK);
    }
    expect_ramp(w, 1, 3);
    expect_ramp(v, 1, 3);
    weft_scope_discard(s);
    far_end();
  }
}

/* Nobody has looked at the words: the value that fails may not be the end of one that is fine. */
TEST(nothing_is_overwritten_while_a_verdict_is_open) {
  for (int lag = 0; lag < 3; lag++)
    for (int fails = 0; fails < 2; fails++) {
      far_begin(lag);
      weft_scope *s = weft_scope_open();
      weft_array *x = far_ramp(N), *index = weft_own(at(x, fails ? N : N - 1)), *w = weft_own(plus(far_ramp(N), 0)), *y;
      EXPECT_OK(weft_eval(1, &w));
      EXPECT_OK(weft_eval_async(1, &index));
      y = weft_own(weft_add(w, index));
      weft_array *was = weft_alias(w);
      EXPECT_OK(weft_eval_async(1, &y));
      float got[N];
      EXPECT_INT(weft_read(y, WEFT_F32, got, sizeof got), fails ? WEFT_ERR_INDEX : WEFT_OK);
      expect_ramp(was, 1, 0);
      EXPECT_INT(weft_wait(0, NULL, 10), WEFT_OK);
      weft_disown(w), weft_disown(index), weft_disown(y);
      weft_scope_discard(s);
      far_end();
    }
}

TEST(an_update_of_what_may_still_fail_waits_for_it) {
  for (int lag = 0; lag < 3; lag++) {
    far_begin(lag);
    weft_scope *s = weft_scope_open();
    weft_array *w = far_ramp(N), *v = far_ramp(N);
    for (int i = 0; i < 2; i++) {
      weft_scope *step = weft_scope_open();
      weft_update(w, at(w, i ? N : N - 1));
      EXPECT_OK(weft_scope_close_async(step));
      step = weft_scope_open();
      weft_update(v, weft_add(v, weft_sub(w, far_ramp(N))));
      EXPECT_INT(weft_scope_close(step), i ? WEFT_ERR_INDEX : WEFT_OK);
      expect_ramp(v, 1, 0);
    }
    EXPECT_OK(weft_wait(0, NULL, 10));
    weft_scope_discard(s);
    far_end();
  }
}

/* ---- What is not overwritten ---- */

static void expect_apart(weft_array *w) {
  far_count_anew();
  weft_scope *step = weft_scope_open();
  weft_update(w, plus(w, 1));
  EXPECT_OK(weft_scope_close(step));
  EXPECT(far_counts().takes >= 1);
  expect_ramp(w, 1, 1);
}

TEST(what_others_see_of_an_array_on_a_device_is_not_overwritten) {
  for (int lag = 0; lag < 3; lag++)
    for (int how = 0; how < 6; how++) {
      far_begin(lag);
      weft_scope *s = weft_scope_open();
      weft_array *w = plus(far_ramp(N), 0), *other = NULL;
      weft_block b = { 0 };
      EXPECT_OK(weft_eval(1, &w));
      if (how == 0) other = weft_alias(w);
      if (how == 1) other = weft_slice(w, 0, 0, N, 1);
      if (how == 2) other = weft_flip(weft_flip(w, 0), 0);
      if (how == 2) EXPECT_OK(weft_eval(1, &other)); /* it has a value: the memory of w */
      if (how == 3) EXPECT_OK(weft_pin(w, 0, &b));
      if (how == 4) EXPECT_OK(weft_pin(w, 1, &b));
      if (how == 5) other = weft_mul(w, weft_scalar(1)); /* will be computed from it */
      expect_apart(w);
      if (other) expect_ramp(other, 1, 0);
      if (b.data) {
        const float *p = how == 4 ? far_memory(b.data) : b.data;
        int wrong = 0;
        for (int i = 0; i < N; i++) wrong += p[i] != (float)i;
        EXPECT_INT(wrong, 0);
        weft_unpin(w);
      }
      weft_scope_discard(s);
      far_end();
    }
}

/* A value that is read by the host, or was on another device, leaves no old copy behind. */
TEST(copies_in_other_spaces_are_those_of_the_new_value) {
  for (int lag = 0; lag < 3; lag++) {
    far_begin(lag);
    weft_scope *s = weft_scope_open();
    weft_array *w = far_ramp(N);
    for (int i = 0; i < 12; i++) {
      weft_set(WEFT_DEVICE, i % 3);
      weft_scope *step = weft_scope_open();
      weft_update(w, plus(w, 1));
      EXPECT_OK(weft_scope_close(step));
      weft_set(WEFT_DEVICE, (i / 2) % 3);
      if (i % 2) expect_ramp(plus(w, 1), 1, (float)i + 2);
      weft_block b;
      if (i % 4 == 3) { /* pinned at home, and let go of */
        EXPECT_OK(weft_pin(w, 0, &b));
        EXPECT(((float *)b.data)[N - 1] == (float)(N + i));
        weft_unpin(w);
      }
    }
    expect_ramp(w, 1, 12);
    weft_scope_discard(s);
    far_end();
  }
}

/* ---- All or nothing ---- */

TEST(whatever_is_refused_an_update_is_done_or_not) {
  _Atomic int *left[] = { &far_takes_left, &far_launches_left, &far_uploads_left, &far_runs_left };
  for (int lag = 0; lag < 3; lag++)
    for (int what = 0; what < 4; what++)
      for (int n = 0; n < 4; n++) {
        far_begin(lag);
        weft_scope *s = weft_scope_open();
        weft_array *w = far_ramp(N); /* it has a copy on the host */
        weft_scope *step = weft_scope_open();
        weft_update(w, plus(w, 1));
        *left[what] = n;
        weft_status status = weft_scope_close(step);
        *left[what] = -1;
        weft_set(WEFT_DEVICE, 0);
        EXPECT(what == 3 || n > 0 || status);
        if (status || what != 3) expect_ramp(w, 1, status ? 0 : 1);
        weft_scope_discard(s);
        far_end();
      }
}

/* A kernel that is refused when another has overwritten its state leaves that without a value, and it says so. */
TEST(state_that_a_device_loses_half_way_has_failed_and_says_so) {
  far_begin(FAR_WHEN_WAITED_FOR);
  weft_scope *s = weft_scope_open();
  weft_array *w[3];
  for (int i = 0; i < 3; i++) {
    w[i] = weft_full(WEFT_F32, WEFT_DIMS(N + 16 * i), i);
    EXPECT_OK(weft_eval(1, &w[i]));
  }
  for (int n = 0; n < 4; n++) {
    float got[N + 32];
    int n_failed = 0, n_old = 0, n_new = 0;
    weft_scope *step = weft_scope_open();
    for (int i = 0; i < 3; i++) weft_update(w[i], plus(w[i], 10));
    far_launches_left = n;
    weft_status status = weft_scope_close(step);
    far_launches_left = -1;
    EXPECT_INT(status, n < 3 ? WEFT_ERR_DEVICE : WEFT_OK);
    for (int i = 0; i < 3; i++) {
      status = weft_read(w[i], WEFT_F32, got, sizeof *got * (size_t)(N + 16 * i));
      n_failed += status != WEFT_OK;
      if (status) {
        EXPECT_INT(status, WEFT_ERR_DEVICE);
        EXPECT(strstr(weft_message(), "test: it was asked to fail"));
        EXPECT_INT(weft_state_of(w[i], NULL), WEFT_FAILED);
        w[i] = weft_full(WEFT_F32, WEFT_DIMS(N + 16 * i), i);
        EXPECT_OK(weft_eval(1, &w[i]));
      } else {
        n_old += got[0] == (float)i && got[N - 1] == (float)i;
        n_new += got[0] == (float)(i + 10) && got[N - 1] == (float)(i + 10);
      }
    }
    EXPECT_INT(n_failed + n_old + n_new, 3);
    EXPECT_INT(n_new, n == 3 ? 3 : 0);
    EXPECT(n > 0 || n_old == 3);
  }
  weft_scope_discard(s);
  far_end();
}

TEST(a_step_on_a_device_that_is_stopped_leaves_its_state_whole) {
  static volatile int flag;
  for (int lag = 0; lag < 3; lag++) {
    far_begin(lag);
    weft_scope *s = weft_scope_open();
    weft_array *w = plus(far_ramp(N), 0);
    EXPECT_OK(weft_eval(1, &w));
    for (int i = 0; i < 2; i++) {
      flag = !i;
      weft_cancel_when(&flag);
      weft_scope *step = weft_scope_open();
      weft_update(w, plus(w, 1));
      EXPECT_INT(weft_scope_close(step), i ? WEFT_OK : WEFT_ERR_CANCELLED);
      weft_cancel_when(NULL);
      expect_ramp(w, 1, (float)i);
    }
    weft_scope_discard(s);
    far_end();
  }
}

/* ---- Others meanwhile ---- */

struct reader { weft_array *w; _Atomic int stop, bad; };

static void *read_on(void *arg) {
  struct reader *r = arg;
  float got[N];
  for (int i = 0; !r->stop; i++) {
    weft_set(WEFT_DEVICE, i % 3);
    weft_scope *s = weft_scope_open();
    weft_array *x = i % 2 ? weft_alias(r->w) : weft_add(r->w, weft_scalar(0));
    if (weft_read(x, WEFT_F32, got, sizeof got)) r->bad = 1;
    for (int k = 1; k < N; k++) if (got[k] != got[0]) r->bad = 1; /* all elements are equal at any time */
    weft_scope_discard(s);
  }
  weft_set(WEFT_DEVICE, 0);
  return NULL;
}

TEST(whoever_reads_an_array_of_a_device_while_it_is_updated_sees_the_old_value_or_the_new_one) {
  for (int lag = 0; lag < 3; lag++) {
    far_begin(lag);
    weft_scope *s = weft_scope_open();
    weft_array *w = weft_mul(far_ramp(N), weft_scalar(0));
    EXPECT_OK(weft_eval(1, &w));
    struct reader r = { .w = w };
    pthread_t t[2];
    for (int i = 0; i < 2; i++) EXPECT_INT(pthread_create(&t[i], NULL, read_on, &r), 0);
    for (int i = 0; i < 60; i++) {
      weft_scope *step = weft_scope_open();
      weft_update(w, plus(w, 1));
      EXPECT_OK(i % 4 == 3 ? weft_scope_close_async(step) : weft_scope_close(step));
    }
    r.stop = 1;
    for (int i = 0; i < 2; i++) pthread_join(t[i], NULL);
    EXPECT_INT(r.bad, 0);
    expect_ramp(w, 0, 60);
    EXPECT_OK(weft_wait(0, NULL, 10));
    weft_scope_discard(s);
    far_end();
  }
}

/* ---- Whatever comes together ---- */

/* Some states, updated by steps that may fail in several ways, while others look at them in several ways; and what they should be,
 * kept in plain C. Values are small integers, so that everything is exact. */
enum { STATES = 4, SIGHTS = 6 };

struct sight { enum { NOTHING, ALIAS, PART, PIN_HERE, PIN_THERE } kind; weft_array *a; int of; weft_block block; float was[N]; };

struct story {
  unsigned seed, number;
  weft_array *w[STATES];
  float is[STATES][N];
  bool may_fail[STATES];      /* it depends on what nobody has heard of yet */
  bool fails[STATES];         /* .. and it does */
  struct sight sight[SIGHTS];
};

/* Until all that was started is done; what is told of it. */
static weft_status hear(void) {
  int lag = atomic_exchange(&far_lag, FAR_AT_ONCE);
  far_drain();
  weft_status status = weft_wait(0, NULL, 10);
  atomic_store(&far_lag, lag);
  return status;
}

static int draw(struct story *t, int n) { return rand_r(&t->seed) % n; }

static void renew(struct story *t, int k) {
  for (int i = 0; i < N; i++) t->is[k][i] = (float)draw(t, 9);
  t->w[k] = weft_from(WEFT_F32, WEFT_DIMS(N), t->is[k]);
  t->may_fail[k] = t->fails[k] = false;
}

static void look(struct story *t, int k) {
  float got[N];
  if (t->fails[k]) return;
  weft_status status = weft_read(t->w[k], WEFT_F32, got, sizeof got);
  if (status) test_fail(__FILE__, __LINE__, "story %u: %s", t->number, weft_message());
  else if (memcmp(got, t->is[k], sizeof got)) test_fail(__FILE__, __LINE__, "story %u: another value", t->number);
}

static bool is_pinned(const struct story *t, int k) {
  for (int i = 0; i < SIGHTS; i++) if (t->sight[i].kind >= PIN_HERE && t->sight[i].of == k) return true;
  return false;
}

static void begin_sight(struct story *t, struct sight *s) {
  int k = draw(t, STATES), kind = 1 + draw(t, 4);
  if (t->fails[k] || t->may_fail[k] || (kind >= PIN_HERE && is_pinned(t, k))) return;
  *s = (struct sight){ .of = k };
  memcpy(s->was, t->is[k], sizeof s->was);
  if (kind == ALIAS) s->a = weft_alias(t->w[k]);
  if (kind == PART) s->a = weft_slice(t->w[k], 0, 0, N, 1);
  if (kind >= PIN_HERE) {
    s->a = weft_alias(t->w[k]); /* a name of its own: that of the state goes on */
    if (weft_pin(s->a, kind == PIN_THERE, &s->block)) return test_fail(__FILE__, __LINE__, "story %u: %s", t->number, weft_message());
  }
  s->kind = kind;
}

static void end_sight(struct story *t, struct sight *s) {
  float got[N];
  if (s->kind == ALIAS || s->kind == PART) EXPECT_OK(weft_read(s->a, WEFT_F32, got, sizeof got));
  if (s->kind == PIN_HERE) memcpy(got, s->block.data, sizeof got);
  if (s->kind == PIN_THERE) memcpy(got, far_memory(s->block.data), sizeof got);
  if (memcmp(got, s->was, sizeof got)) test_fail(__FILE__, __LINE__, "story %u: what is seen has changed (%d)", t->number, s->kind);
  if (s->kind >= PIN_HERE) weft_unpin(s->a);
  s->kind = NOTHING;
}

static float held(float x) { return x < -99 ? -99 : x > 99 ? 99 : x; }

/* One update of state k: what it will be, as an expression and in plain C. */
static weft_array *change(struct story *t, int k, float to[N], bool *reads_bad, bool *fails) {
  int other = draw(t, STATES), how = draw(t, 5), c = draw(t, 5) - 2, from = draw(t, N / 2), n = 1 + draw(t, N / 2);
  weft_array *x = t->w[k], *y = t->w[other];
  const float *a = t->is[k], *b = t->is[other];
  *reads_bad = t->fails[k] || (how < 3 && t->fails[other]);
  *fails = false;
  if (how == 0) { /* element by element */
    for (int i = 0; i < N; i++) to[i] = held(a[i] + (float)c * b[i]);
    return weft_clip(weft_add(x, weft_mul(y, weft_scalar(c))), weft_scalar(-99), weft_scalar(99));
  }
  if (how == 1) { /* read elsewhere than it is written */
    for (int i = 0; i < N; i++) to[i] = held(a[i] - b[N - 1 - i]);
    return weft_clip(weft_sub(x, weft_flip(y, 0)), weft_scalar(-99), weft_scalar(99));
  }
  if (how == 2) { /* a part */
    for (int i = 0; i < N; i++) to[i] = i >= from && i < from + n ? b[i - from] : a[i];
    return weft_put(x, weft_slice(x, 0, from, from + n, 1), weft_slice(y, 0, 0, n, 1), WEFT_SET);
  }
  if (how == 3) { /* through indices that are checked */
    *fails = !draw(t, 3);
    for (int i = 0; i < N; i++) to[i] = a[i];
    return at(x, *fails ? N : N - 1);
  }
  for (int i = 0; i < N; i++) to[i] = held(a[i] + (float)c);
  return weft_clip(plus(x, c), weft_scalar(-99), weft_scalar(99));
}

/* A scope of some updates, closed in one way or the other, perhaps on a device that fails. */
static void take_step(struct story *t) {
  static float to[STATES][N];
  bool is_changed[STATES] = { 0 }, fails = false, is_async = draw(t, 3) == 0;
  _Atomic int *left[] = { &far_takes_left, &far_launches_left, &far_uploads_left };
  int refused = draw(t, 6) == 0 ? draw(t, 3) : -1;
  weft_set(WEFT_DEVICE, draw(t, 8) ? 1 : draw(t, 3));
  weft_scope *step = weft_scope_open();
  for (int n = 1 + draw(t, 3); n > 0; n--) {
    int k = draw(t, STATES);
    bool reads_bad, its_own;
    if (is_changed[k]) continue;
    is_changed[k] = true;
    weft_update(t->w[k], change(t, k, to[k], &reads_bad, &its_own));
    fails |= reads_bad || its_own;
  }
  if (refused >= 0) { /* this step alone is refused something */
    (void)hear();
    far_drain();
    *left[refused] = draw(t, 4);
  }
  weft_status status = is_async ? weft_scope_close_async(step) : weft_scope_close(step), later = WEFT_OK;
  if (refused >= 0 && is_async && !status) later = hear();
  far_takes_left = far_launches_left = far_uploads_left = -1;
  if (fails && !is_async && !status) test_fail(__FILE__, __LINE__, "story %u: it should have failed", t->number);
  if (!fails && status && refused < 0) test_fail(__FILE__, __LINE__, "story %u: %s", t->number, weft_message());
  for (int k = 0; k < STATES; k++) {
    if (!is_changed[k]) continue;
    bool is_lost = refused >= 0 && weft_state_of(t->w[k], NULL) == WEFT_FAILED;
    if (is_lost && refused != 1 && !is_async && !t->fails[k]) test_fail(__FILE__, __LINE__, "story %u: lost for want of %d", t->number, refused);
    if (is_lost) renew(t, k);
    else if (!status && is_async && fails) t->fails[k] = true;
    else if (!status && !later) memcpy(t->is[k], to[k], sizeof to[k]), t->may_fail[k] = is_async;
  }
}

static void tell_story(unsigned seed) {
  struct story *t = calloc(1, sizeof *t);
  t->seed = t->number = seed;
  weft_scope *s = weft_scope_open();
  for (int k = 0; k < STATES; k++) renew(t, k);
  for (int i = 0; i < 30; i++) {
    take_step(t);
    struct sight *sight = &t->sight[draw(t, SIGHTS)];
    if (sight->kind) end_sight(t, sight);
    else begin_sight(t, sight);
    int k = draw(t, STATES);
    if (draw(t, 3) == 0) look(t, k);
    if (draw(t, 10) == 0) (void)hear();
    if (t->fails[k] && draw(t, 2)) renew(t, k);
  }
  for (int i = 0; i < SIGHTS; i++) if (t->sight[i].kind) end_sight(t, &t->sight[i]);
  for (int k = 0; k < STATES; k++) look(t, k);
  (void)hear();
  weft_scope_discard(s);
  free(t);
}

TEST(updates_pins_views_failures_and_waits_in_any_order_are_right_on_a_device) {
  test_watchdog(120);
  int stories = UNDER_TSAN || UNDER_ASAN ? 40 : 200;
  for (int lag = 0; lag < 3; lag++)
    for (int i = 0; i < stories; i++) {
      far_begin(lag);
      tell_story((unsigned)(1000 * lag + i));
      far_end();
    }
}
