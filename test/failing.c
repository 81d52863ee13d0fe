/* failing.c -- programs in which each allocation fails once, alone or with all after it: an error that says so, nothing left
 * behind, weights as they were, and the same program right afterwards. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/mem.h"
#include "run/compiled.h"
#include "run/plan.h"
#include "test.h"
#include "weft.h"

enum { ROWS = 6, IN = 5, OUT = 4 };
static char folder[] = "/tmp/weft-failing-XXXXXX", path[64];

struct result { float loss; float w[IN * OUT]; };

static void first_weights(float w[]) { for (int i = 0; i < IN * OUT; i++) w[i] = (float)(i % 7) * 0.25f - 0.5f; }

static bool write_data(void) {
  float x[ROWS * IN];
  for (int i = 0; i < ROWS * IN; i++) x[i] = (float)((i * 5) % 11) * 0.1f - 0.4f;
  if (!mkdtemp(folder)) return false;
  snprintf(path, sizeof path, "%s/x.safetensors", folder);
  weft_scope *s = weft_scope_open();
  weft_array *a = weft_from(WEFT_F32, WEFT_DIMS(ROWS, IN), x);
  weft_status status = weft_save(path, 1, (const char *const[]){ "x" }, &a, NULL);
  weft_scope_discard(s);
  return !status;
}

static void remove_data(void) {
  unlink(path);
  rmdir(folder);
}

/* y = tanh(rms_norm(x) w) */
static weft_function *network(void) {
  weft_scope *body = weft_scope_open();
  weft_array *in[] = { weft_input(WEFT_F32, WEFT_DIMS(WEFT_ANY, IN)), weft_input(WEFT_F32, WEFT_DIMS(IN, OUT)) };
  weft_array *y = weft_tanh(weft_matmul(weft_rms_norm(in[0], NULL, 1e-5), in[1]));
  return weft_compile(body, 2, in, 1, &y);
}

/* w -= 0.1 d loss / dw */
static weft_status descend(weft_function *f, weft_array *x, weft_array *w, float *loss_now) {
  weft_scope *step = weft_scope_open();
  weft_array *y, *dw;
  weft_call(f, 2, (weft_array *[]){ x, w }, 1, &y);
  weft_array *e = weft_sub(y, weft_scalar(0.25)), *loss = weft_mean(weft_mul(e, e), WEFT_ALL);
  weft_grad(loss, 1, &w, &dw);
  weft_update(w, weft_sub(w, weft_mul(dw, weft_scalar(0.1))));
  weft_fetch(loss, WEFT_F32, loss_now, sizeof *loss_now);
  return weft_scope_close(step);
}

/* Fills what it can. */
static weft_status train(struct result *r, bool *has_weights) {
  float start[IN * OUT];
  first_weights(start);
  weft_scope *outer = weft_scope_open();
  if (!outer) return weft_scope_close(outer);
  weft_array *w = weft_from(WEFT_F32, WEFT_DIMS(IN, OUT), start);
  weft_array *x = weft_file_get(weft_file_open(path), "x");
  weft_status status = descend(network(), x, w, &r->loss), more = weft_read(w, WEFT_F32, r->w, sizeof r->w);
  *has_weights = !more;
  weft_scope_discard(outer);
  return status ? status : more;
}

/* No plans, no kernels, and a message that is always the same. */
static void forget(void) {
  EXPECT_INT(weft_scope_close(NULL), WEFT_ERR_MEMORY);
  plan_drop_all();
  compiled_drop_all();
}

static bool same(const struct result *a, const struct result *b) { return !memcmp(a, b, sizeof *a); }

/* One run in which allocation n fails. Whether it got that far. */
static bool fail_once(int64_t n, int sticky, const struct result *want, int64_t *live) {
  struct result got = { 0 }, again = { 0 };
  float start[IN * OUT];
  bool has_weights = false, unused;
  forget();
  mem_fail_at(n, sticky);
  weft_status status = train(&got, &has_weights);
  int64_t made = mem_count();
  char said[512];
  snprintf(said, sizeof said, "%s", weft_message());
  mem_fail_at(0, 0);
  forget();
  first_weights(start);
  if (made < n) {
    EXPECT_INT(status, WEFT_OK);
    return false;
  }
  if (status && status != WEFT_ERR_MEMORY)
    test_fail(__FILE__, __LINE__, "allocation %lld%s: status %d: %s", (long long)n, sticky ? " and all after" : "", (int)status, said);
  if (status && !strstr(said, "memory"))
    test_fail(__FILE__, __LINE__, "allocation %lld%s: the message is \"%s\"", (long long)n, sticky ? " and all after" : "", said);
  if (!status && !same(&got, want)) test_fail(__FILE__, __LINE__, "allocation %lld%s: wrong result", (long long)n, sticky ? " and all after" : "");
  if (status && has_weights && memcmp(got.w, start, sizeof start) && memcmp(got.w, want->w, sizeof start))
    test_fail(__FILE__, __LINE__, "allocation %lld: weights that are neither old nor new", (long long)n);
  if (weft_get(WEFT_NODES) || weft_get(WEFT_BYTES_USED) || mem_live() != *live)
    test_fail(__FILE__, __LINE__, "allocation %lld%s: %lld nodes, %lld bytes, %lld blocks are left", (long long)n, sticky ? " and all after" : "",
              (long long)weft_get(WEFT_NODES), (long long)weft_get(WEFT_BYTES_USED), (long long)(mem_live() - *live));
  *live = mem_live();
  if (n % 8 == 0) { /* the library works on */
    EXPECT_INT(train(&again, &unused), WEFT_OK);
    EXPECT(same(&again, want));
  }
  return true;
}

/* The function and the array there are when there is no memory for one stay for ever. */
static void warm(void) {
  weft_scope *body = weft_scope_open();
  mem_fail_at(1, 1);
  weft_compile(body, 0, NULL, 0, NULL);
  weft_scalar(1);
  mem_fail_at(0, 0);
}

static void sweep(int sticky) {
  struct result want = { 0 };
  bool has_weights;
  test_watchdog(120);
  if (!write_data()) { test_skip("cannot write to /tmp"); return; }
  int64_t threads = weft_set(WEFT_THREADS, 1), n = 1;
  warm();
  for (int i = 0; i < 2; i++) EXPECT_OK(train(&want, &has_weights));
  forget();
  int64_t live = mem_live();
  while (fail_once(n, sticky, &want, &live)) n++;
  printf("%lld allocations failed%s\n", (long long)n - 1, sticky ? ", with all after them" : "");
  weft_set(WEFT_THREADS, threads);
  remove_data();
}

TEST(every_allocation_of_a_training_step_may_fail_once) { sweep(0); }
TEST(every_allocation_of_a_training_step_may_fail_and_all_after_it) { sweep(1); }

/* ---- other programs ---- */

/* Runs in a scope of its own and fills `out`, which is zero, with the same bits whenever it succeeds. */
struct story { const char *name; weft_status (*run)(float out[]); };
enum { FLOATS = 32 };

static weft_status tell(const struct story *story, float out[FLOATS]) {
  memset(out, 0, FLOATS * sizeof *out);
  weft_scope *outer = weft_scope_open();
  if (!outer) return weft_scope_close(outer);
  weft_status status = story->run(out);
  weft_scope_discard(outer);
  return status;
}

/* One run in which allocation n fails. Whether it got that far. */
static bool fail_story(const struct story *story, int64_t n, int sticky, const float want[], int64_t *live) {
  float got[FLOATS];
  const char *after = sticky ? " and all after" : "";
  forget();
  mem_fail_at(n, sticky);
  weft_status status = tell(story, got);
  int64_t made = mem_count();
  char said[256];
  snprintf(said, sizeof said, "%s", weft_message());
  mem_fail_at(0, 0);
  forget();
  if (status && status != WEFT_ERR_MEMORY)
    test_fail(__FILE__, __LINE__, "%s, allocation %lld%s: status %d: %s", story->name, (long long)n, after, (int)status, said);
  if (status && !strstr(said, "memory"))
    test_fail(__FILE__, __LINE__, "%s, allocation %lld%s: the message is \"%s\"", story->name, (long long)n, after, said);
  if (!status && memcmp(got, want, sizeof got))
    test_fail(__FILE__, __LINE__, "%s, allocation %lld%s: wrong result", story->name, (long long)n, after);
  if (weft_get(WEFT_NODES) || weft_get(WEFT_BYTES_USED) || mem_live() != *live)
    test_fail(__FILE__, __LINE__, "%s, allocation %lld%s: %lld nodes, %lld bytes, %lld blocks are left", story->name, (long long)n, after,
              (long long)weft_get(WEFT_NODES), (long long)weft_get(WEFT_BYTES_USED), (long long)(mem_live() - *live));
  *live = mem_live();
  return made >= n;
}

static void expect_again(const struct story *story, const float want[]) {
  float got[FLOATS];
  EXPECT_OK(tell(story, got));
  EXPECT(!memcmp(got, want, sizeof got));
  forget();
}

static void sweep_story(const struct story *story) {
  float want[FLOATS];
  test_watchdog(240);
  int64_t threads = weft_set(WEFT_THREADS, 1);
  warm();
  for (int i = 0; i < 2; i++) EXPECT_OK(tell(story, want));
  forget();
  int64_t live = mem_live(), n[2];
  for (int sticky = 0; sticky < 2; sticky++) {
    for (n[sticky] = 1; fail_story(story, n[sticky], sticky, want, &live); n[sticky]++)
      if (n[sticky] % 16 == 0) expect_again(story, want);
    expect_again(story, want);
  }
  printf("%s: %lld allocations failed, %lld with all after them\n", story->name, (long long)n[0] - 1, (long long)n[1] - 1);
  weft_set(WEFT_THREADS, threads);
}

#define STORY(what, claim)                                                       \
  static weft_status what(float out[]);                                          \
  TEST(claim) { sweep_story(&(struct story){ #what, what }); }                   \
  static weft_status what(float out[])

static weft_array *floats(int rank, const int64_t dims[]) {
  float x[64];
  int64_t n = 1;
  for (int k = 0; k < rank; k++) n *= dims[k];
  for (int i = 0; i < n; i++) x[i] = (float)((i * 7) % 13) * 0.125f - 0.75f;
  return weft_from(WEFT_F32, rank, dims, x);
}
static weft_status read_to(float out[], weft_array *a, int n) { return weft_read(a, WEFT_F32, out, (size_t)n * sizeof *out); }

/* d <- d / 2 + sum d, twice for each c <- d + sum c */
static weft_array *sums_in_sums(weft_array *start) {
  weft_loop *outer = weft_loop_open(weft_integer(2));
  weft_array *c = weft_loop_carry(outer, weft_exp(weft_mul(start, weft_scalar(0))));
  weft_loop *inner = weft_loop_open(weft_integer(2));
  weft_array *d = weft_loop_carry(inner, c);
  weft_loop_next(inner, d, weft_add(weft_mul(d, weft_scalar(0.5)), weft_sum(d, WEFT_ALL)));
  weft_array *last = weft_loop_last(inner, d);
  weft_loop_close(inner);
  weft_loop_next(outer, c, weft_add(last, weft_sum(c, WEFT_ALL)));
  weft_array *end = weft_loop_last(outer, c);
  weft_loop_close(outer);
  return weft_add(end, start);
}

STORY(loop_in_loop, every_allocation_of_a_loop_inside_a_loop_may_fail) {
  return read_to(out, sums_in_sums(floats(WEFT_DIMS(3))), 3);
}

/* Loops that are too large to be one kernel are run step by step. */
STORY(replay_in_replay, every_allocation_of_loops_run_step_by_step_may_fail) {
  weft_array *end = sums_in_sums(weft_broadcast(floats(WEFT_DIMS(3)), WEFT_DIMS(30, 3)));
  return read_to(out, weft_squeeze(weft_slice(end, 0, 0, 1, 1), 0), 3);
}

/* h <- tanh(x_t + h w), its gradient by x and w, until h is large */
STORY(gradient_of_a_loop, every_allocation_of_the_gradient_of_a_loop_may_fail) {
  weft_array *in[] = { floats(WEFT_DIMS(4, 3)), floats(WEFT_DIMS(3, 3)) }, *dx[2];
  weft_loop *l = weft_loop_open(NULL);
  weft_array *x = weft_loop_each(l, in[0]), *h = weft_loop_carry(l, weft_full(WEFT_F32, WEFT_DIMS(3), 0.5));
  weft_array *next = weft_tanh(weft_add(x, weft_matmul(h, in[1])));
  weft_loop_next(l, h, next);
  weft_loop_until(l, weft_gt(weft_squeeze(weft_max(next, 0), 0), weft_scalar(1.5)));
  weft_array *all = weft_loop_all(l, next), *last = weft_loop_last(l, h);
  weft_loop_close(l);
  weft_grad(weft_add(weft_sum(all, WEFT_ALL), weft_sum(last, WEFT_ALL)), 2, in, dx);
  weft_status status = weft_eval(2, dx);
  if (!status) status = read_to(out, dx[0], 12);
  return status ? status : read_to(out + 12, dx[1], 9);
}

/* Systems in two axes of problems, in a kernel with what is around them, and what is left of them as steps. */
STORY(systems_in_lanes, every_allocation_of_small_systems_in_lanes_may_fail) {
  weft_array *a = weft_broadcast(floats(WEFT_DIMS(2, 2, 2)), WEFT_DIMS(300, 2, 2, 2)), *eye = weft_eye(WEFT_F32, 2, 2, 0);
  weft_array *m = weft_add(weft_matmul(a, weft_moveaxis(a, -1, -2)), eye), *x = weft_solve(m, weft_mul(a, weft_scalar(0.5)));
  weft_array *all = weft_add(weft_exp(x), weft_unsqueeze(weft_unsqueeze(weft_det(m), -1), -1));
  return read_to(out, weft_sum(all, 0), 8);
}

/* x <- x + x^2 up to 8, at most 9 times. */
static weft_array *grown(weft_array *x) {
  weft_loop *l = weft_loop_open(weft_integer(9));
  weft_array *c = weft_loop_carry(l, x), *next = weft_add(c, weft_mul(c, c));
  weft_loop_next(l, c, next);
  weft_loop_until(l, weft_gt(next, weft_scalar(8)));
  weft_array *last = weft_loop_last(l, c);
  weft_loop_close(l);
  return last;
}

/* What is written when sizes are known, its derivatives and maps, in a loop too. */
STORY(written_later, every_allocation_of_what_is_written_later_may_fail) {
  weft_scope *s = weft_scope_open();
  weft_array *in = weft_input(WEFT_F32, 2, NULL), *row = weft_alias(weft_at(in, 0, weft_integer(0))), *y[3], *got[3], *dx = weft_cos(in);
  y[0] = weft_hadamard(weft_sin(row), 0);
  weft_map(1, &row, &in, 1, y, y);
  weft_jvp(1, &in, &dx, 1, y, &y[1]);
  weft_loop *l = weft_loop_open(weft_integer(2));
  weft_array *c = weft_loop_carry(l, in);
  weft_loop_next(l, c, weft_mul(weft_real(weft_fft(c, 0, 0.5)), y[0]));
  weft_array *last = weft_loop_last(l, c);
  weft_loop_close(l);
  weft_grad(last, 1, &in, &y[2]);
  weft_function *f = weft_compile(s, 1, &in, 3, y);
  weft_call(f, 1, (weft_array *[]){ floats(WEFT_DIMS(1, 4)) }, 3, got);
  weft_status status = weft_eval(3, got);
  for (int k = 0; k < 3 && !status; k++) status = read_to(out + 4 * k, got[k], 4);
  weft_array *x = floats(WEFT_DIMS(4));
  return status ? status : read_to(out + 12, weft_hadamard(weft_compress(x, weft_gt(x, weft_scalar(-100))), 0), 4);
}

/* Slices of open sizes, by numbers and by computed bounds, and what a mask is true for, in a function and with derivatives. */
STORY(computed_sizes, every_allocation_of_computed_sizes_may_fail) {
  float v[] = { 3, 1, 2, 3, 1 };
  weft_scope *s = weft_scope_open();
  weft_array *in[] = { weft_input(WEFT_F32, WEFT_DIMS(WEFT_ANY)), weft_input(WEFT_I64, 0, NULL) }, *y[4], *got[4];
  y[0] = weft_slice(in[0], 0, -4, WEFT_END, 2);
  y[1] = weft_cut(in[0], 0, in[1], NULL, weft_integer(2));
  y[2] = weft_unique(weft_compress(in[0], weft_lt(in[0], weft_scalar(3))), NULL, NULL, NULL);
  weft_grad(weft_sum(weft_mul(y[1], y[1]), WEFT_ALL), 1, in, &y[3]);
  weft_function *f = weft_compile(s, 2, in, 4, y);
  int64_t from = 1;
  weft_call(f, 2, (weft_array *[]){ weft_from(WEFT_F32, WEFT_DIMS(5), v), weft_from(WEFT_I64, 0, NULL, &from) }, 4, got);
  weft_status status = weft_eval(4, got);
  if (!status) status = read_to(out, got[0], 2);
  if (!status) status = read_to(out + 2, got[1], 2);
  if (!status) status = read_to(out + 4, got[2], 2);
  return status ? status : read_to(out + 6, got[3], 5);
}

/* Sizes that are taken to be equal until a call tells them. */
STORY(sizes_on_trust, every_allocation_of_sizes_that_are_trusted_may_fail) {
  weft_scope *s = weft_scope_open();
  weft_array *in[] = { weft_input(WEFT_F32, WEFT_DIMS(WEFT_ANY)), weft_input(WEFT_F32, WEFT_DIMS(2, WEFT_ANY)) }, *got;
  weft_array *y = weft_mul(weft_add(in[0], in[1]), weft_add(in[0], weft_sum(in[1], 0)));
  weft_function *f = weft_compile(s, 2, in, 1, &y);
  weft_call(f, 2, (weft_array *[]){ floats(WEFT_DIMS(3)), floats(WEFT_DIMS(2, 3)) }, 1, &got);
  return read_to(out, got, 6);
}

/* What is asserted of a size is taken on trust, with a copy of its words, which a function inside hands on. */
static weft_status asserted_sizes(float out[]) {
  weft_scope *s = weft_scope_open();
  weft_array *x = weft_input(WEFT_F32, WEFT_DIMS(WEFT_ANY)), *n = weft_size(x, 0), *got;
  weft_array *y = weft_cut(x, 0, NULL, weft_assert(n, weft_gt(n, weft_integer(3)), "four elements"), NULL);
  weft_function *f = weft_compile(s, 1, &x, 1, &y);
  s = weft_scope_open();
  x = weft_input(WEFT_F32, WEFT_DIMS(WEFT_ANY));
  weft_call(f, 1, &x, 1, &y);
  weft_function *g = weft_compile(s, 1, &x, 1, &y);
  weft_call(g, 1, (weft_array *[]){ floats(WEFT_DIMS(4)) }, 1, &got);
  return read_to(out, got, 4);
}

/* Not how much is left: a thread keeps the sizes that it made last, and those are others where one of them could not be made. */
TEST(want_of_memory_is_not_taken_for_a_size_that_fails_its_check) {
  const struct story story = { "asserted_sizes", asserted_sizes };
  float want[FLOATS], got[FLOATS];
  EXPECT_OK(tell(&story, want));
  for (int64_t n = 1, made = n; made >= n; n++) {
    forget();
    mem_fail_at(n, 0);
    weft_status status = tell(&story, got);
    made = mem_count();
    mem_fail_at(0, 0);
    if (status) EXPECT_INT(status, WEFT_ERR_MEMORY);
    else EXPECT(!memcmp(got, want, sizeof got));
  }
  forget();
}

/* In every row, and in every step of a loop, another number of steps to go back through. */
STORY(uneven_loops, every_allocation_of_loops_whose_lengths_differ_may_fail) {
  float some[] = { 0.5f, 2, 1 };
  weft_array *xs = weft_from(WEFT_F32, WEFT_DIMS(3), some), *x = weft_full(WEFT_F32, 0, NULL, 1), *dx[2], *rows;
  x = weft_alias(x);
  weft_grad(grown(x), 1, &x, dx);
  weft_map(1, &x, &xs, 1, dx, &rows);
  weft_loop *l = weft_loop_open(NULL);
  weft_array *e = weft_loop_each(l, xs), *sum = weft_loop_carry(l, weft_full(WEFT_F32, 0, NULL, 0.25));
  weft_loop_next(l, sum, weft_div(grown(weft_add(e, sum)), weft_scalar(9)));
  weft_array *last = weft_loop_last(l, sum);
  weft_loop_close(l);
  weft_grad(last, 1, &xs, &dx[1]);
  weft_status status = read_to(out, rows, 3);
  return status ? status : read_to(out + 3, dx[1], 3);
}

/* h <- tanh(x_t v + h w) over rows, whose products with v come before the loop and back into its kernel. */
STORY(loop_by_rows, every_allocation_of_a_loop_by_rows_may_fail) {
  weft_array *xs = weft_exp(weft_broadcast(floats(WEFT_DIMS(3)), WEFT_DIMS(2, 33, 3))), *v = floats(WEFT_DIMS(3, 2)), *w = floats(WEFT_DIMS(2, 2));
  weft_loop *l = weft_loop_open(NULL);
  weft_array *x = weft_loop_each(l, xs), *h = weft_loop_carry(l, weft_full(WEFT_F32, WEFT_DIMS(33, 2), 0.5));
  weft_loop_next(l, h, weft_tanh(weft_add(weft_matmul(x, v), weft_matmul(h, w))));
  weft_array *last = weft_loop_last(l, h);
  weft_loop_close(l);
  return read_to(out, weft_squeeze(weft_slice(last, 0, 32, 33, 1), 0), 2);
}

/* A choice in every step of a loop, its gradient, and a map where it differs from row to row. */
STORY(choices, every_allocation_of_choices_may_fail) {
  weft_array *x = floats(WEFT_DIMS(3)), *xs = floats(WEFT_DIMS(2, 3)), *dx, *ys;
  weft_loop *l = weft_loop_open(weft_integer(2));
  weft_array *c = weft_loop_carry(l, x);
  weft_cond *p = weft_cond_open(weft_gt(weft_sum(c, WEFT_ALL), weft_scalar(0)));
  weft_array *next = weft_cond_value(p, weft_exp(c), weft_mul(weft_tanh(c), x));
  weft_cond_close(p);
  weft_loop_next(l, c, next);
  weft_array *last = weft_loop_last(l, c);
  weft_loop_close(l);
  weft_grad(last, 1, &x, &dx);
  weft_map(1, &x, &xs, 1, &last, &ys);
  weft_status status = read_to(out, dx, 3);
  return status ? status : read_to(out + 3, ys, 6);
}

/* Halves are raised to f32 on the way: what is made there may be bad. */
STORY(made_on_the_way, every_allocation_of_what_is_made_on_the_way_may_fail) {
  weft_array *x = weft_cast(floats(WEFT_DIMS(2, 3)), WEFT_F16), *i = weft_cast(floats(WEFT_DIMS(2, 3)), WEFT_I32);
  weft_array *y[] = { weft_mean(x, 1), weft_var(x, 0, 1), weft_nanmedian(x, 1), weft_mean(i, WEFT_ALL) };
  weft_status status = WEFT_OK;
  for (int k = 0; k < 4 && !status; k++) status = read_to(out + k, weft_sum(weft_cast(y[k], WEFT_F32), WEFT_ALL), 1);
  return status;
}

/* Sides of other shapes are made flat on the way. */
TEST(sides_of_other_shapes_may_have_no_memory) {
  weft_scope *s = weft_scope_open();
  weft_array *p = weft_gt(weft_sum(floats(WEFT_DIMS(3)), WEFT_ALL), weft_scalar(0)), *x = floats(WEFT_DIMS(2, 3));
  int64_t made = INT64_MAX;
  for (int64_t n = 1; n <= made; n++) {
    mem_fail_at(n, n % 2);
    weft_array *y = weft_choose(p, x, weft_transpose(x, NULL));
    made = mem_count();
    mem_fail_at(0, 0);
    if (weft_check(y)) EXPECT_INT(weft_check(y), WEFT_ERR_MEMORY);
    if (n > made) EXPECT_OK(weft_check(y));
  }
  weft_scope_discard(s);
}

/* Gradients of loops: truncated, in segments, with a rest; until ends two of them. A story each: what comes first is run again for every
 * allocation of what follows. */
static weft_status kept_steps(int k, float out[]) {
  weft_array *x = floats(WEFT_DIMS(5, 2)), *dx, *four = weft_from(WEFT_I32, 0, NULL, &(int32_t){ 4 });
  weft_loop *l = weft_loop_open(k < 2 ? NULL : weft_add(four, weft_integer(1)));
  weft_array *e = weft_loop_each(l, x), *c = weft_loop_carry(l, weft_full(WEFT_F32, WEFT_DIMS(2), 0.5)), *next = weft_tanh(weft_add(c, e));
  weft_loop_next(l, c, next);
  if (k) weft_loop_recompute(l, 2);
  else weft_loop_truncate(l, 2);
  if (k != 1) weft_loop_until(l, weft_gt(weft_sum(next, WEFT_ALL), weft_scalar(9)));
  weft_array *all = weft_loop_all(l, next);
  weft_loop_close(l);
  weft_grad(weft_sum(all, 0), 1, &x, &dx);
  return read_to(out, dx, 10);
}
STORY(truncated, every_allocation_of_loops_that_truncate_may_fail) { return kept_steps(0, out); }
STORY(recomputed, every_allocation_of_loops_that_recompute_may_fail) { return kept_steps(1, out); }
STORY(recomputed_until, every_allocation_of_loops_that_recompute_what_until_ended_may_fail) { return kept_steps(2, out); }

/* Of so many that they are folded in groups, with a rest. */
STORY(many_exps, every_allocation_of_a_long_logsumexp_may_fail) {
  weft_array *x = weft_reshape(weft_repeat(floats(WEFT_DIMS(9)), 0, 215), WEFT_DIMS(645, 3));
  return read_to(out, weft_logsumexp(x, 0), 3);
}

/* The last rows, of steps known when it runs. */
STORY(last_rows, every_allocation_of_loops_that_give_their_last_rows_may_fail) {
  weft_array *x = floats(WEFT_DIMS(5)), *dx, *four = weft_from(WEFT_I32, 0, NULL, &(int32_t){ 4 });
  weft_loop *l = weft_loop_open(weft_add(four, weft_integer(1)));
  weft_array *e = weft_loop_each(l, x), *c = weft_loop_carry(l, weft_full(WEFT_F32, 0, NULL, 0.5)), *next = weft_tanh(weft_add(c, e));
  weft_loop_next(l, c, next);
  weft_array *y = weft_loop_tail(l, next, 2);
  weft_loop_close(l);
  weft_grad(weft_sum(y, 0), 1, &x, &dx);
  return read_to(out, dx, 5);
}

/* The last before until ends the loop, whose tangent is mapped. */
STORY(last_until, every_allocation_of_loops_that_until_ends_may_fail) {
  weft_array *x = floats(WEFT_DIMS(5)), *xs = floats(WEFT_DIMS(2, 5)), *dy, *ys;
  weft_loop *l = weft_loop_open(NULL);
  weft_array *e = weft_loop_each(l, x), *c = weft_loop_carry(l, weft_full(WEFT_F32, 0, NULL, 0.5)), *next = weft_tanh(weft_add(c, e));
  weft_loop_next(l, c, next);
  weft_loop_until(l, weft_gt(next, weft_scalar(9)));
  weft_array *y = weft_loop_last(l, c);
  weft_loop_close(l);
  weft_jvp(1, &x, &x, 1, &y, &dy);
  weft_map(1, &x, &xs, 1, &dy, &ys);
  return read_to(out, ys, 2);
}

/* The search for a nan: in the fourth step of a loop, past a where. */
STORY(located_nan, every_allocation_of_the_search_for_a_nan_may_fail) {
  weft_array *x = weft_from(WEFT_F32, WEFT_DIMS(2), (float[]){ 9, 2.5f });
  weft_loop *l = weft_loop_open(weft_integer(6));
  weft_array *c = weft_loop_carry(l, x), *root = weft_loop_carry(l, weft_full_like(x, 0));
  weft_array *half = weft_where(weft_gt(c, weft_scalar(0)), weft_log(c), weft_sqrt(c));
  weft_loop_next(l, c, weft_sub(c, weft_scalar(1)));
  weft_loop_next(l, root, weft_add(root, half));
  weft_array *y = weft_loop_last(l, root);
  weft_loop_close(l);
  int64_t before = weft_set(WEFT_CHECK, 1);
  weft_status status = weft_eval(1, &y);
  weft_set(WEFT_CHECK, before);
  if (status != WEFT_ERR_NAN) return status;
  out[0] = strstr(weft_message(), "weft_sqrt: f32 ") && strstr(weft_message(), " at [1] (step 3 of the loop)") ? 1 : -1;
  return WEFT_OK;
}

static int twice(void *ctx, weft_array *const x[], weft_array *const y[], weft_array *const dy[], weft_array *dx[]) {
  (void)ctx, (void)x, (void)y;
  dx[0] = weft_mul(dy[0], weft_scalar(2));
  return 0;
}

/* Second derivatives through a checkpoint, own rules and a call, forward over reverse, mapped. */
STORY(transforms_in_transforms, every_allocation_of_nested_transforms_may_fail) {
  weft_scope *body = weft_scope_open();
  weft_array *p = weft_input(WEFT_F32, WEFT_DIMS(WEFT_ANY)), *q = weft_sigmoid(weft_mul(p, p));
  weft_function *f = weft_compile(body, 1, &p, 1, &q);
  weft_array *x = floats(WEFT_DIMS(3)), *xs = floats(WEFT_DIMS(2, 3)), *y, *z, *g, *h, *hs;
  weft_call(f, 1, &x, 1, &y);
  weft_checkpoint(1, &x, 1, &y);
  z = weft_mul(y, weft_exp(x));
  weft_custom(1, &x, 1, &z, &(weft_rules){ .vjp = twice });
  weft_grad(weft_mul(weft_mul(z, y), y), 1, &x, &g);
  weft_jvp(1, &x, &x, 1, &g, &h);
  weft_map(1, &x, &xs, 1, &h, &hs);
  weft_status status = read_to(out, hs, 6);
  return status ? status : read_to(out + 6, weft_cumprod(g, 0), 3);
}

/* y <- (y z_t + conj y) / |z_t| with a loop of its own for the product, its gradient, an update by index: all complex. */
STORY(complex_numbers, every_allocation_of_complex_numbers_may_fail) {
  weft_array *x = floats(WEFT_DIMS(4, 3)), *z = weft_complex(x, weft_flip(x, 0)), *dx, *i = weft_complex(weft_scalar(0), weft_scalar(1));
  weft_loop *l = weft_loop_open(NULL);
  weft_array *z_t = weft_loop_each(l, z), *y = weft_loop_carry(l, weft_mul(weft_slice(z, 0, 0, 1, 1), i));
  weft_array *next = weft_div(weft_add(weft_mul(y, z_t), weft_conj(y)), weft_add(weft_abs(z_t), weft_prod(z_t, 0)));
  weft_loop_next(l, y, next);
  weft_array *all = weft_loop_all(l, weft_squeeze(next, 0));
  weft_loop_close(l);
  weft_array *at = weft_from(WEFT_I32, WEFT_DIMS(3), (int32_t[]){ 0, -1, 0 });
  weft_array *put = weft_put(all, weft_take(all, 1, &at), weft_slice(z, 0, 0, 3, 1), WEFT_MUL);
  weft_grad(weft_real(weft_sum(put, WEFT_ALL)), 1, &x, &dx);
  weft_status status = read_to(out, dx, 12);
  return status ? status : weft_read(weft_matmul(weft_transpose(put, NULL), all), WEFT_C64, out + 12, 18 * sizeof *out);
}

/* Keys, bits, a rejection. */
STORY(random_numbers, every_allocation_of_random_numbers_may_fail) {
  weft_array *keys = weft_random_split(weft_random_key(3), 2), *key = weft_at(keys, 0, weft_integer(1)), *a = floats(WEFT_DIMS(3));
  weft_array *shape = weft_add(weft_mul(a, a), weft_scalar(1)), *y = weft_random_weibull(key, NULL, shape, NULL);
  y = weft_add(y, weft_cast(weft_random_categorical(key, weft_full(WEFT_I32, WEFT_DIMS(3), 0), a, 0), WEFT_F32));
  return read_to(out, weft_add(y, weft_cast(weft_random_bits(key, weft_full(WEFT_U8, WEFT_DIMS(3), 0)), WEFT_F32)), 3);
}

/* Draws along an axis. */
STORY(random_counts, every_allocation_of_draws_along_an_axis_may_fail) {
  weft_array *a = floats(WEFT_DIMS(3)), *shape = weft_add(weft_mul(a, a), weft_scalar(1));
  return weft_read(weft_random_multinomial(weft_random_key(3), NULL, weft_integer(9), shape), WEFT_I32, out, 3 * sizeof *out);
}

/* Everything that indexes, through a function called with two sizes. */
STORY(indexing, every_allocation_of_updates_and_indexing_may_fail) {
  weft_scope *body = weft_scope_open();
  weft_array *x = weft_input(WEFT_F32, WEFT_DIMS(WEFT_ANY, 3)), *i = weft_input(WEFT_I32, WEFT_DIMS(4));
  weft_array *rows = weft_take(x, 1, &i), *y = weft_put(x, rows, weft_flip(rows, 1), WEFT_ADD);
  y = weft_put(y, weft_slice(y, 1, 0, 2, 1), weft_scalar(0.5), WEFT_MUL);
  y = weft_concat(0, WEFT_ARRAYS(y, weft_pad(weft_slice(y, 1, 0, 2, 1), 1, 1, 0, weft_scalar(-1))));
  y = weft_sum(weft_sub(y, weft_window(y, 0, weft_integer(1), 1)), 0);
  weft_function *f = weft_compile(body, 2, (weft_array *[]){ x, i }, 1, &y);
  weft_array *at = weft_from(WEFT_I32, WEFT_DIMS(4), (int32_t[]){ 0, -1, 1, -1 }), *a, *b;
  weft_call(f, 2, (weft_array *[]){ floats(WEFT_DIMS(5, 3)), at }, 1, &a);
  weft_call(f, 2, (weft_array *[]){ floats(WEFT_DIMS(4, 3)), at }, 1, &b);
  weft_status status = read_to(out, weft_reshape(a, WEFT_DIMS(3)), 3);
  if (!status) status = read_to(out + 3, b, 3);
  int32_t bad[] = { 9, 0, 0, 0 };
  weft_call(f, 2, (weft_array *[]){ floats(WEFT_DIMS(4, 3)), weft_from(WEFT_I32, WEFT_DIMS(4), bad) }, 1, &b);
  if (!status && (status = weft_eval(1, &b)) == WEFT_ERR_INDEX) status = WEFT_OK, out[6] = 1;
  return status;
}

/* Written, read back lazily and by name, and written over while it is read; both formats. */
static weft_status save_and_load(const char *where, float out[]) {
  weft_array *a[] = { floats(WEFT_DIMS(3, 4)), weft_exp(floats(WEFT_DIMS(2))) };
  const char *const names[] = { "a", "b" }, *const meta[] = { "key", "value", NULL }, *key, *value;
  bool is_npy = strstr(where, ".npy");
  weft_status status = weft_save(where, is_npy ? 1 : 2, names, a, is_npy ? NULL : meta);
  if (status) return status;
  weft_file *f = weft_file_open(where);
  weft_array *x = weft_file_get(f, is_npy ? NULL : "a");
  if (weft_file_count(f) < 0) return weft_check(x);
  out[12] = (float)weft_file_meta(f, 0, &key, &value);
  x = weft_mul(x, x);
  status = weft_save(where, 1, names, &x, NULL);
  return status ? status : read_to(out, weft_add(weft_file_get(weft_file_open(where), NULL), weft_file_get(f, NULL)), 12);
}

STORY(files, every_allocation_of_saving_and_loading_may_fail) {
  static char here[] = "/tmp/weft-failing-XXXXXX", one[64], other[64];
  if (!one[0] && !mkdtemp(here)) return WEFT_ERR_FILE;
  if (mkdir(here, 0700) && errno != EEXIST) return WEFT_ERR_FILE;
  snprintf(one, sizeof one, "%s/x.safetensors", here);
  snprintf(other, sizeof other, "%s/x.npy", here);
  weft_status status = save_and_load(one, out);
  if (!status) status = save_and_load(other, out + 16);
  unlink(one), unlink(other);
  rmdir(here);
  return status;
}

/* A library step: operands that are copied, one result that nobody wants, in a loop and its gradient. */
STORY(library_steps, every_allocation_of_a_library_step_may_fail) {
  weft_array *x = floats(WEFT_DIMS(3, 4)), *dx, *mapped, *row = floats(WEFT_DIMS(4)), *in_order = weft_sort(row, 0);
  weft_loop *l = weft_loop_open(weft_integer(2));
  weft_array *c = weft_loop_carry(l, x);
  weft_loop_next(l, c, weft_mul(weft_sort(weft_flip(c, 1), 1), weft_scalar(1.5)));
  weft_array *y = weft_loop_last(l, c);
  weft_loop_close(l);
  weft_grad(y, 1, &x, &dx);
  weft_map(1, &row, &x, 1, &in_order, &mapped);
  weft_status status = read_to(out, weft_add(dx, mapped), 12);
  return status ? status : read_to(out + 12, weft_cast(weft_argsort(y, 0), WEFT_F32), 12);
}

/* Selecting: ranks of a mapped row and what is composed of them. */
STORY(order, every_allocation_of_what_is_ordered_may_fail) {
  weft_array *x = floats(WEFT_DIMS(3, 4)), *row = floats(WEFT_DIMS(4)), *middle = weft_median(row, 0), *mapped, *dx;
  weft_array *y = weft_add(weft_topk(x, 1, 2), weft_quantile(x, weft_scalar(0.4), 1, WEFT_LINEAR));
  weft_map(1, &row, &x, 1, &middle, &mapped);
  weft_grad(weft_sum(y, WEFT_ALL), 1, &x, &dx);
  return read_to(out, weft_add(weft_add(dx, mapped), weft_partition(x, 0, 1)), 12);
}

/* Draws by order. */
STORY(drawn_by_order, every_allocation_of_draws_by_order_may_fail) {
  weft_array *x = floats(WEFT_DIMS(3, 4)), *row = floats(WEFT_DIMS(4)), *key = weft_random_key(3);
  weft_array *drawn = weft_random_choice(key, row, weft_random_shuffle(key, weft_random_permutation(key, x, 0), 1), NULL, 0);
  return read_to(out, weft_mean(weft_nanquantile(drawn, weft_scalar(0.5), -1, WEFT_HAZEN), WEFT_ALL), 1);
}

/* Systems of equations, their gradients and maps. */
STORY(linear, every_allocation_of_a_system_of_equations_may_fail) {
  weft_array *x = floats(WEFT_DIMS(2, 2)), *a = weft_add(weft_matmul(x, weft_transpose(x, NULL)), weft_eye(WEFT_F32, 2, 2, 0)), *dx, *mapped;
  weft_array *y = weft_add(weft_matmul(weft_cholesky(a), weft_inverse(a)), weft_det(a)), *row = floats(WEFT_DIMS(2)), *one = weft_cholesky_solve(weft_cholesky(a), weft_solve(a, row));
  weft_grad(weft_sum(y, WEFT_ALL), 1, &x, &dx);
  weft_map(1, &row, &x, 1, &one, &mapped);
  return read_to(out, weft_add(dx, mapped), 4);
}

static int add_one(void *ctx, const weft_block in[], const weft_block out[]) {
  (void)ctx;
  for (int64_t i = 0; i < 4; i++) ((float *)out[0].data)[i] = ((const float *)in[0].data)[i] + 1;
  return 0;
}

/* A function of the host, alone and mapped. */
STORY(host_functions, every_allocation_of_a_function_of_the_host_may_fail) {
  weft_array *x = floats(WEFT_DIMS(4)), *xs = floats(WEFT_DIMS(2, 4)), *y = NULL, *ys = NULL;
  weft_block like = { .dtype = WEFT_F32, .rank = 1, .dims = (int64_t[]){ 4 } };
  weft_host(&(weft_host_function){ NULL, add_one, NULL }, 1, &x, 1, &like, &y);
  weft_map(1, &x, &xs, 1, &y, &ys);
  weft_status status = read_to(out, y, 4);
  return status ? status : read_to(out + 4, ys, 8);
}

/* A map of a choice: an index and a function of the host that count in some rows only. */
STORY(active_rows, every_allocation_of_a_map_of_a_choice_that_may_fail_may_fail) {
  weft_array *table = floats(WEFT_DIMS(4)), *k = weft_input(WEFT_I64, 0, NULL), *y = NULL, *ys = NULL;
  weft_array *ks = weft_from(WEFT_I64, WEFT_DIMS(3), (int64_t[]){ 1, 9, 3 });
  weft_block like = { .dtype = WEFT_F32, .rank = 1, .dims = (int64_t[]){ 4 } };
  weft_cond *c = weft_cond_open(weft_lt(k, weft_integer(4)));
  weft_array *x = weft_mul(table, weft_at(table, 0, k));
  weft_host(&(weft_host_function){ NULL, add_one, NULL }, 1, &x, 1, &like, &y);
  y = weft_cond_value(c, weft_put(y, weft_at(y, 0, k), weft_scalar(2), WEFT_ADD), table);
  weft_cond_close(c);
  weft_map(1, &k, &ks, 1, &y, &ys);
  return read_to(out, ys, 12);
}

/* Started, waited for; a scope closed in the background that updates an array outside. */
STORY(background, every_allocation_of_work_in_the_background_may_fail) {
  weft_array *w = floats(WEFT_DIMS(4)), *y = weft_cumsum(weft_exp(w), 0);
  weft_status status = weft_eval_async(1, &y), waited = weft_wait(1, &y, -1), done = weft_wait(0, NULL, -1);
  if (status || waited || done) return status ? status : waited ? waited : done;
  weft_scope *step = weft_scope_open();
  weft_update(w, weft_mul(weft_sum(w, 0), w));
  weft_fetch(y, WEFT_F32, out, 4 * sizeof *out);
  status = weft_scope_close_async(step);
  waited = weft_wait(0, NULL, -1);
  if (!status && !waited) status = read_to(out + 4, weft_add(w, y), 4);
  return status ? status : waited;
}

/* As bindings do: each operation in a scope that is discarded, its result owned. */
static weft_array *owned(weft_array *(*op)(weft_array *), weft_array *x) {
  weft_scope *s = weft_scope_open();
  weft_array *y = weft_own(op(x));
  weft_scope_discard(s);
  return y;
}

static void count_release(void *ctx) { ++*(int *)ctx; }

STORY(bindings, every_allocation_of_what_bindings_do_may_fail) {
  float memory[4] = { 1, 2, 3, 4 };
  int n_released = 0;
  weft_status status = WEFT_OK;
  weft_scope *s = weft_scope_open();
  weft_block b = { memory, 0, WEFT_F32, 1, (int64_t[]){ 4 }, (int64_t[]){ 1 } }, pinned;
  weft_array *x = weft_own(weft_external(&b, count_release, &n_released));
  weft_array *y = owned(weft_exp, x), *z = owned(weft_sigmoid, y), *g = NULL;
  weft_array *trace = weft_alias(x), *t = weft_mul(trace, weft_depends(trace, 1, &z));
  weft_grad(weft_add(t, z), 1, &trace, &g);
  if (weft_show(1, &g, "graph") && !(status = weft_pin(z, 0, &pinned))) {
    memcpy(out, pinned.data, 4 * sizeof *out);
    weft_unpin(z);
  }
  if (!status) status = read_to(out + 4, g, 4);
  weft_scope_discard(s);
  weft_disown(x), weft_disown(y), weft_disown(z);
  if (n_released != 1) test_fail(__FILE__, __LINE__, "memory was released %d times", n_released);
  return status;
}
