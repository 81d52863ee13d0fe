/* at_once.c -- many arrays, which eight threads ask for in the same order: each is met by several at the same moment. Whoever is
 * first gives it its value and drops what it was made of, and tells sizes that only a run can tell, while the others are about to
 * evaluate, build on, show, differentiate, pin or save it. All of them are to get it. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include "graph/scope.h"
#include "op/op.h"
#include "test.h"
#include "weft.h"

enum { THREADS = 8, RESULTS = 3, MANY = UNDER_TSAN ? 40 : 150 };

/* Arrays that are asked for, and how. All elements of result k of the i-th are i + k; it has `length` of them. */
struct crowd {
  weft_array *(*a)[RESULTS];
  int n_results, who;
  int64_t length;
  void (*ask)(const struct crowd *, int who, int i);
};

static float element_of(int i, int k) { return (float)(i + k); }

/* ---- How arrays are made ---- */

static weft_array *filled(int64_t n, float x) {
  float v[16];
  for (int64_t i = 0; i < n; i++) v[i] = x;
  return weft_from(WEFT_F32, WEFT_DIMS(n), v);
}

static weft_array *plus(weft_array *a, float b) { return weft_add(a, weft_scalar(b)); }

static weft_function *summing; /* x -> x, x + 1, x + 2 */

static void make_call(int i, weft_array *y[]) {
  weft_array *x = plus(filled(5, (float)i - 1), 1);
  weft_call(summing, 1, &x, RESULTS, y);
}

static weft_function *stepping; /* the same, by a loop of unknown length: it is evaluated part by part */

static void make_parts(int i, weft_array *y[]) {
  weft_array *x = plus(filled(5, (float)i - 1), 1);
  weft_call(stepping, 1, &x, RESULTS, y);
}

/* Five rows of a loop that could have 64. */
static weft_array *in_steps(float first, bool is_uneven, int n, weft_array *y[]) {
  weft_loop *l = weft_loop_open(weft_integer(64));
  weft_array *c = weft_loop_carry(l, weft_scalar(0)), *next = plus(c, 1), *row = plus(weft_mul(next, weft_scalar(0)), first);
  weft_array *below = is_uneven ? weft_sum(weft_flatnonzero(weft_lt(weft_arange(WEFT_I64, 0, 16, 1), next)), WEFT_ALL) : next;
  weft_loop_next(l, c, next);
  weft_loop_until(l, weft_ge(below, weft_scalar(is_uneven ? 10 : 5)));
  for (int k = 0; k < n; k++) y[k] = weft_loop_all(l, plus(row, (float)k));
  weft_array *last = weft_loop_last(l, c);
  weft_loop_close(l);
  return last;
}

static void make_rows(int i, weft_array *y[]) { in_steps((float)i, false, RESULTS, y); }
static void make_uneven(int i, weft_array *y[]) { in_steps((float)i, true, RESULTS, y); }

/* Of one loop: what is made of its rows, and what is made of their number. */
static void make_of_rows(int i, weft_array *y[]) {
  weft_array *rows;
  in_steps((float)i, i % 4 == 0, 1, &rows);
  y[0] = weft_flip(rows, 0);
  y[1] = weft_concat(0, 2, (weft_array *[]){ weft_slice(plus(rows, 1), 0, 0, 2, 1), weft_slice(plus(rows, 1), 0, 2, 5, 1) });
  weft_array *is_first = weft_where(weft_eq(weft_iota(rows, 0), weft_integer(0)), weft_scalar(1), weft_scalar(0));
  y[2] = plus(weft_mul(rows, weft_cumsum(is_first, 0)), 2);
}

static void make_found(int i, weft_array *y[]) {
  weft_array *place = weft_flatnonzero(weft_from(WEFT_I32, WEFT_DIMS(8), (int32_t[]){ 0, 1, 1, 0, 1, 0, 1, 1 }));
  weft_array *zeros = weft_mul(weft_cast(place, WEFT_F32), weft_scalar(0));
  for (int k = 0; k < RESULTS; k++) y[k] = plus(zeros, element_of(i, k));
}

static void make_counted(int i, weft_array *y[]) {
  weft_array *steps = weft_sum(weft_from(WEFT_I64, WEFT_DIMS(2), (int64_t[]){ 2, 3 }), WEFT_ALL);
  weft_loop *l = weft_loop_open(steps);
  weft_array *c = weft_loop_carry(l, plus(filled(5, (float)i), -5)), *next = plus(c, 1);
  weft_loop_next(l, c, next);
  weft_array *all = weft_loop_all(l, next);
  y[0] = weft_loop_last(l, c);
  weft_loop_close(l);
  y[1] = plus(weft_at(all, 0, weft_integer(4)), 1);
  y[2] = plus(weft_reshape(weft_max(all, 0), WEFT_DIMS(5)), 2);
}

static void make_chosen(int i, weft_array *y[]) {
  weft_array *x = filled(5, (float)i), *p = weft_lt(weft_sum(x, WEFT_ALL), weft_scalar(i % 2 ? 1e9 : -1e9));
  for (int k = 0; k < RESULTS; k++)
    y[k] = weft_choose(p, plus(x, (float)k), weft_add(weft_sort(x, 0), weft_scalar(k)));
}

static void make_cond(int i, weft_array *y[]) {
  weft_array *x = plus(filled(5, (float)i), 0), *rows;
  weft_cond *c = weft_cond_open(weft_lt(weft_sum(x, WEFT_ALL), weft_scalar(i % 2 ? 1e9 : -1e9)));
  in_steps(0, false, 1, &rows);
  for (int k = 0; k < RESULTS; k++) y[k] = weft_cond_value(c, plus(x, (float)k), plus(plus(x, (float)k), 0));
  weft_cond_close(c);
}

static void make_views(int i, weft_array *y[]) {
  weft_array *x = weft_reshape(weft_broadcast(plus(filled(5, (float)i), 0), WEFT_DIMS(3, 5)), WEFT_DIMS(3, 5));
  for (int k = 0; k < RESULTS; k++) y[k] = weft_at(weft_flip(plus(x, (float)k), 1), 0, weft_integer(k));
}

static void make_slopes(int i, weft_array *y[]) {
  weft_array *x = filled(5, (float)i), *sum = weft_exp(weft_mul(weft_sin(x), weft_scalar(0))), *dx;
  weft_checkpoint(1, &x, 1, &sum);
  weft_array *z = weft_mul(sum, weft_mul(x, weft_mul(x, weft_scalar(0.5))));
  weft_grad(z, 1, &x, &dx);
  for (int k = 0; k < RESULTS; k++) y[k] = plus(dx, (float)k);
}

static int add_ks(void *ctx, const weft_block in[], const weft_block out[]) {
  (void)ctx;
  for (int k = 0; k < RESULTS; k++)
    for (int e = 0; e < 5; e++) ((float *)out[k].data)[e] = ((const float *)in[0].data)[e] + (float)k;
  return 0;
}

static void make_host(int i, weft_array *y[]) {
  static const int64_t five = 5;
  weft_array *x = plus(filled(5, (float)i), 0);
  weft_block like = { .dtype = WEFT_F32, .rank = 1, .dims = &five };
  weft_host(&(weft_host_function){ .run = add_ks }, 1, &x, RESULTS, (weft_block[]){ like, like, like }, y);
}

static void make_sorted(int i, weft_array *y[]) {
  weft_array *x = weft_sort(plus(filled(5, (float)i), 0), 0);
  for (int k = 0; k < RESULTS; k++) y[k] = plus(x, (float)k);
}

static void make_functions(void) {
  weft_scope *s = weft_scope_open();
  weft_array *x = weft_input(WEFT_F32, WEFT_DIMS(WEFT_ANY)), *y[RESULTS];
  for (int k = 0; k < RESULTS; k++) y[k] = plus(x, (float)k);
  summing = weft_compile(s, 1, &x, RESULTS, y);
  s = weft_scope_open();
  x = weft_input(WEFT_F32, WEFT_DIMS(5));
  weft_array *rows;
  in_steps(0, false, 1, &rows);
  weft_array *none = weft_sum(weft_mul(rows, weft_sum(x, WEFT_ALL)), WEFT_ALL);
  for (int k = 0; k < RESULTS; k++) y[k] = weft_add(plus(x, (float)k), none);
  stepping = weft_compile(s, 1, &x, RESULTS, y);
}

/* ---- How they are asked for ---- */

#define WELL(call) do { if (call) test_fail(__FILE__, __LINE__, "%s: array %d: %s", #call, i, weft_message()); } while (0)

static void expect(weft_array *a, int64_t n, float want, int i) {
  float v[16] = { 0 };
  if (weft_read(a, WEFT_F32, v, (size_t)n * sizeof *v)) return test_fail(__FILE__, __LINE__, "array %d: %s", i, weft_message());
  for (int64_t k = 0; k < n; k++)
    if (v[k] != want) return test_fail(__FILE__, __LINE__, "array %d: %g, not %g", i, (double)v[k], (double)want);
}

static void by_eval(const struct crowd *c, int who, int i) {
  if (who % 3 == 0) WELL(weft_eval(c->n_results, c->a[i]));
  else WELL(weft_eval(1, &c->a[i][(who + i) % c->n_results]));
}

static void by_read(const struct crowd *c, int who, int i) {
  int k = (who + i) % c->n_results;
  expect(c->a[i][k], c->length, element_of(i, k), i);
}

static void by_wait(const struct crowd *c, int who, int i) {
  int k = (who + i) % c->n_results;
  WELL(weft_eval_async(1 + who % c->n_results, c->a[i]));
  if (who % 4 == 0) (void)weft_state_of(c->a[i][k], NULL);
  if (who % 2) WELL(weft_wait(1 + who % c->n_results, c->a[i], 60));
  else if (i % 8 == 0) WELL(weft_wait(0, NULL, 60));
}

static void by_pin(const struct crowd *c, int who, int i) {
  weft_block b;
  weft_array *a = c->a[i][(who + i) % c->n_results];
  if (weft_pin(a, 0, &b)) return test_fail(__FILE__, __LINE__, "array %d: %s", i, weft_message());
  if (b.rank != 1 || b.dims[0] != c->length) test_fail(__FILE__, __LINE__, "array %d: rank %d", i, b.rank);
  weft_unpin(a);
}

static void by_show(const struct crowd *c, int who, int i) {
  static const char *const what[] = { "graph", "value", "dot", "value", "plan", "kernels" };
  weft_scope *s = weft_scope_open();
  weft_cost cost;
  weft_array *in[8];
  (void)weft_show(c->n_results, c->a[i], what[who % 2 ? 0 : 2]);
  if (who % 3 == 0) (void)weft_show(1, &c->a[i][0], what[(who + i) % 6]);
  if (who % 3 == 1) cost.kernels = (int)weft_plan(c->n_results, c->a[i], &cost);
  if (who % 3 == 2) (void)weft_operands(c->a[i][1], 8, in);
  (void)weft_op(c->a[i][0]);
  weft_scope_discard(s);
  if (who % 4 == 3) by_eval(c, who, i);
}

/* Builds on all of them, asks for their sizes, and evaluates that. */
static void by_building(const struct crowd *c, int who, int i) {
  weft_scope *s = weft_scope_open();
  weft_array *y = weft_mul(weft_add(c->a[i][0], c->a[i][1]), weft_scalar(who));
  if (who % 3 == 0) y = weft_add(y, weft_cumsum(weft_mul(y, weft_scalar(0)), 0));
  if (who % 4 == 1) y = weft_concat(0, 2, (weft_array *[]){ y, y });
  int64_t n = who % 4 == 2 ? weft_dim(c->a[i][1], 0) : c->length;
  if (n != c->length) test_fail(__FILE__, __LINE__, "array %d: %lld rows", i, (long long)n);
  expect(y, (who % 4 == 1 ? 2 : 1) * c->length, (float)who * (element_of(i, 0) + element_of(i, 1)), i);
  weft_scope_discard(s);
}

/* Differentiates and calls what is made of them, by something younger, while others evaluate them. */
static void by_transforming(const struct crowd *c, int who, int i) {
  weft_scope *s = weft_scope_open();
  weft_array *x = i % 16 ? weft_mul(c->a[i][0], weft_scalar(1)) : weft_alias(c->a[i][0]);
  weft_array *y = weft_mul(c->a[i][2], weft_add(x, c->a[i][1])), *one = plus(weft_mul(x, weft_scalar(0)), 1);
  weft_array *dy = NULL, *z[RESULTS];
  float want = element_of(i, 2);
  if (who % 4 == 0) weft_grad(y, 1, &x, &dy);
  else if (who % 4 == 1) weft_jvp(1, &x, &one, 1, &y, &dy);
  else if (who % 4 == 2) weft_vjp(1, &y, &one, 1, &x, &dy);
  else weft_call(summing, 1, &x, RESULTS, z), dy = z[2];
  if (i % 3 == 1) by_eval(c, who, i);
  expect(dy, c->length, want, i);
  weft_scope_discard(s);
}

static pthread_barrier_t together;

/* Two of them evaluate, the others only build meanwhile, so that nothing holds them up. */
static void by_building_on(const struct crowd *c, int who, int i) {
  pthread_barrier_wait(&together);
  for (volatile int wait = 0; who < 2 && wait < 50 * (i % 97); wait++) {}
  if (who < 2) return by_eval(c, 3 * who, i);
  for (int round = 0; round < 12; round++) {
    weft_scope *s = weft_scope_open();
    weft_array *x = c->a[i][0], *x1 = c->a[i][1], *v, *dy, *y;
    y = weft_add(weft_slice(x, 0, 0, WEFT_END, 2), weft_slice(x1, 0, 0, WEFT_END, 2));
    v = weft_mul(weft_sum(y, WEFT_ALL), weft_sum(weft_mul(x, x1), 0));
    weft_grad(v, 1, &y, &dy);
    if (weft_check(dy) || weft_check(v)) test_fail(__FILE__, __LINE__, "array %d: %s", i, weft_message());
    if (round == 11) WELL(weft_eval(2, (weft_array *[]){ v, dy }));
    weft_scope_discard(s);
  }
}

static void by_saving(const struct crowd *c, int who, int i) {
  char path[64];
  snprintf(path, sizeof path, "/tmp/weft-at-once-%d-%d.safetensors", (int)getpid(), who);
  if (who % 4 == 0) WELL(weft_save(path, c->n_results, (const char *[]){ "a", "b", "c" }, c->a[i], NULL));
  else by_eval(c, who, i);
  if (i == MANY - 1) remove(path);
}

/* Each thread another way, and every array another. */
static void by_all(const struct crowd *c, int who, int i) {
  static void (*const way[])(const struct crowd *, int, int) = { by_eval, by_read, by_wait, by_pin, by_show, by_building,
                                                                 by_transforming };
  way[(who + i) % 7](c, who, i);
}

/* ---- The crowd ---- */

static void *live(void *arg) {
  struct crowd c = *(struct crowd *)arg;
  for (int i = 0; i < MANY; i++) c.ask(&c, c.who, i);
  if (weft_wait(0, NULL, 60)) test_fail(__FILE__, __LINE__, "%s", weft_message());
  return NULL;
}

static void gather(void (*make)(int, weft_array *[]), void (*ask)(const struct crowd *, int, int)) {
  weft_array *(*a)[RESULTS] = calloc(MANY, sizeof *a);
  struct crowd c[THREADS];
  pthread_t t[THREADS];
  weft_scope *around = weft_scope_open();
  pthread_barrier_init(&together, NULL, THREADS);
  make_functions();
  for (int i = 0; i < MANY; i++) {
    weft_scope *s = weft_scope_open();
    make(i, a[i]);
    for (int k = 0; k < RESULTS; k++) weft_own(a[i][k]);
    weft_scope_discard(s);
  }
  for (int who = 0; who < THREADS; who++) {
    c[who] = (struct crowd){ a, RESULTS, who, 5, ask };
    pthread_create(&t[who], NULL, live, &c[who]);
  }
  for (int who = 0; who < THREADS; who++) pthread_join(t[who], NULL);
  for (int i = 0; i < MANY; i++)
    for (int k = 0; k < RESULTS; k++) expect(a[i][k], 5, element_of(i, k), i), weft_disown(a[i][k]);
  pthread_barrier_destroy(&together);
  weft_scope_discard(around);
  free(a);
}

static void in_every_way(void (*make)(int, weft_array *[])) {
  static void (*const way[])(const struct crowd *, int, int) = { by_eval, by_read, by_wait, by_pin, by_show, by_building,
                                                                 by_transforming, by_saving, by_all, by_building_on };
  test_watchdog(240);
  for (size_t k = 0; k < sizeof way / sizeof *way; k++) gather(make, way[k]);
}

TEST(results_of_calls_that_threads_ask_for_at_once) { in_every_way(make_call); }
TEST(results_of_calls_in_parts_that_threads_ask_for_at_once) { in_every_way(make_parts); }
TEST(rows_of_loops_of_unknown_length_that_threads_ask_for_at_once) { in_every_way(make_rows); }
TEST(rows_of_uneven_loops_that_threads_ask_for_at_once) { in_every_way(make_uneven); }
TEST(what_is_made_of_rows_of_unknown_number_that_threads_ask_for_at_once) { in_every_way(make_of_rows); }
TEST(found_places_that_threads_ask_for_at_once) { in_every_way(make_found); }
TEST(loops_of_computed_steps_that_threads_ask_for_at_once) { in_every_way(make_counted); }
TEST(choices_that_threads_ask_for_at_once) { in_every_way(make_chosen); }
TEST(conditions_that_threads_ask_for_at_once) { in_every_way(make_cond); }
TEST(views_that_threads_ask_for_at_once) { in_every_way(make_views); }
TEST(slopes_with_checkpoints_that_threads_ask_for_at_once) { in_every_way(make_slopes); }
TEST(results_of_the_host_that_threads_ask_for_at_once) { in_every_way(make_host); }
TEST(library_steps_that_threads_ask_for_at_once) { in_every_way(make_sorted); }

/* ---- Sizes that are told meanwhile ---- */

/* Whoever builds on an array reads its sizes without a lock. He holds it, so whatever he has read stays one that can be resolved,
 * though the array has been told its number since and has forgotten the loop that told it. */
static void expect_told(weft_array *a, const dim *size(const struct node *), int64_t want) {
  struct node *n = array_node(a);
  dim before = *size(n);
  EXPECT(!dim_is_known(before));
  EXPECT_OK(weft_eval(1, &a));
  EXPECT(dim_is_known(*size(n)));
  EXPECT_INT(dim_resolve(before), want);
  node_release(n);
}

static const dim *of_axis(const struct node *n) { return n->dims; }
static const dim *of_slice(const struct node *n) { return &((const struct slice_attr *)n->attr)->start; }
static const dim *of_size(const struct node *n) { return &((const struct size_attr *)n->attr)->size; }
static const dim *of_put(const struct node *n) { return &((const struct put_attr *)n->attr)->start[0]; }

static weft_array *alone(weft_array *a, weft_scope *s) {
  weft_own(a);
  weft_scope_discard(s);
  return a;
}

TEST(a_size_that_was_read_before_it_was_told_is_known_to_whoever_holds_the_array) {
  const dim *(*const size[])(const struct node *) = { of_axis, of_axis, of_slice, of_size, of_put };
  for (int k = 0; k < 5; k++)
    for (int is_uneven = 0; is_uneven < 2; is_uneven++) {
      weft_scope *s = weft_scope_open();
      weft_array *rows, *a;
      in_steps(0, is_uneven, 1, &rows);
      weft_array *last = weft_slice(rows, 0, -2, WEFT_END, 1);
      a = k == 0 ? rows : k == 1 ? weft_concat(0, 2, (weft_array *[]){ rows, rows }) : k == 2 ? last
        : k == 3 ? weft_size(rows, 0) : weft_put(rows, last, weft_scalar(1), WEFT_SET);
      a = alone(a, s);
      expect_told(a, size[k], k == 1 ? 10 : k == 2 || k == 4 ? 3 : 5);
      weft_disown(a);
    }
}

/* ---- Results of one loop, of which another is to be computed by somebody else ---- */

static weft_array *work_of(int64_t steps) {
  weft_loop *l = weft_loop_open(weft_integer(steps));
  weft_array *c = weft_loop_carry(l, weft_scalar(0));
  weft_loop_next(l, c, weft_sin(plus(c, 1)));
  weft_array *last = weft_loop_last(l, c);
  weft_loop_close(l);
  return last;
}

/* Whoever wants both finds that one waits for its turn behind long work: he waits too, and does not ask again and again. */
TEST(a_result_of_a_loop_waits_for_another_that_a_job_will_compute) {
  test_watchdog(240);
  for (int is_uneven = 0; is_uneven < 2; is_uneven++)
    for (int last_first = 0; last_first < 2; last_first++) {
      float got[2];
      weft_scope *s = weft_scope_open();
      weft_array *rows, *last = in_steps(1, is_uneven, 1, &rows), *busy = work_of(UNDER_TSAN ? 20000 : 2000000);
      weft_array *part[2] = { weft_sum(rows, WEFT_ALL), weft_cast(last, WEFT_F32) };
      weft_array *both = weft_stack(0, 2, (weft_array *[]){ part[last_first], part[!last_first] });
      EXPECT_OK(weft_eval_async(1, &busy));
      EXPECT_OK(weft_eval_async(1, &last));
      EXPECT_OK(weft_read(both, WEFT_F32, got, sizeof got));
      EXPECT(got[last_first] == 5);
      EXPECT(got[!last_first] == 5);
      EXPECT_OK(weft_wait(0, NULL, 100));
      weft_scope_discard(s);
    }
}
