/* failing.c -- a step of training in which each allocation fails once, alone or with all after it: an error that says so,
 * nothing left behind, weights as they were, and the same step right afterwards. */
#include <math.h>
#include <stdlib.h>
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

/* The function there is when there is no memory for one stays for ever. */
static void warm(void) {
  weft_scope *body = weft_scope_open();
  mem_fail_at(1, 1);
  weft_compile(body, 0, NULL, 0, NULL);
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

/* ---- loops that are run step by step, one inside the other ---- */

/* d <- d / 2 + sum d, twice for each c <- d + sum c */
static weft_status loop_in_loop(float got[3]) {
  weft_scope *s = weft_scope_open();
  weft_array *start = weft_from(WEFT_F32, WEFT_DIMS(3), (float[]){ 1, 2, 3 });
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
  weft_status status = weft_read(weft_add(end, start), WEFT_F32, got, 3 * sizeof *got);
  weft_scope_discard(s);
  return status;
}

static bool fail_loop(int64_t n, int sticky, const float want[3]) {
  float got[3];
  forget();
  int64_t live = mem_live();
  mem_fail_at(n, sticky);
  weft_status status = loop_in_loop(got);
  int64_t made = mem_count();
  char said[256];
  snprintf(said, sizeof said, "%s", weft_message());
  mem_fail_at(0, 0);
  forget();
  if (status && status != WEFT_ERR_MEMORY) test_fail(__FILE__, __LINE__, "allocation %lld: status %d: %s", (long long)n, (int)status, said);
  if (!status && memcmp(got, want, sizeof got)) test_fail(__FILE__, __LINE__, "allocation %lld: wrong result", (long long)n);
  if (mem_live() != live) test_fail(__FILE__, __LINE__, "allocation %lld: %lld blocks are left", (long long)n, (long long)(mem_live() - live));
  return made >= n;
}

TEST(every_allocation_of_a_loop_inside_a_loop_may_fail) {
  float want[3];
  test_watchdog(120);
  int64_t threads = weft_set(WEFT_THREADS, 1);
  warm();
  for (int i = 0; i < 2; i++) EXPECT_OK(loop_in_loop(want));
  for (int sticky = 0; sticky < 2; sticky++)
    for (int64_t n = 1; fail_loop(n, sticky, want); n++) {}
  weft_set(WEFT_THREADS, threads);
}
