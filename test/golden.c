/* golden.c -- the kernels that ordinary graphs become, held as texts in test/golden/. WEFT_GOLDEN=write writes them anew.
 * Each one also runs on the vm in tiles of 1, 7, 32 and 512 lanes, on one to three threads, with the bits of the graph
 * evaluated one op a kernel. */
#include <math.h>
#include <stdlib.h>
#include "digest.h"
#include "every_recipe.h"
#include "base/mem.h"
#include "graph/node.h"
#include "run/buffer.h"
#include "run/compiled.h"
#include "run/eval.h"
#include "test.h"
#include "values.h"

enum { MOST = 3 };
typedef int (*graph)(weft_array *y[]); /* builds in the open scope; returns how many results */

/* ---- graphs ---- */

static int softmax(weft_array *y[]) { return y[0] = weft_softmax(drawn_floats(WEFT_DIMS(70, 300), 1), -1), 1; }

static int layer_norm(weft_array *y[]) {
  weft_array *w = drawn_floats(WEFT_DIMS(300), 2), *b = drawn_floats(WEFT_DIMS(300), 3);
  return y[0] = weft_layer_norm(drawn_floats(WEFT_DIMS(70, 300), 1), w, b, 1e-5), 1;
}

/* dx, dw, db */
static int layer_norm_gradient(weft_array *y[]) {
  weft_array *x[] = { drawn_floats(WEFT_DIMS(300, 200), 1), drawn_floats(WEFT_DIMS(200), 2), drawn_floats(WEFT_DIMS(200), 3) };
  weft_array *norm = weft_layer_norm(x[0], x[1], x[2], 1e-5), *dy = drawn_floats(WEFT_DIMS(300, 200), 4);
  weft_vjp(1, &norm, &dy, 3, x, y);
  return 3;
}

static int sum_0(weft_array *y[]) { return y[0] = weft_sum(drawn_floats(WEFT_DIMS(300, 200), 1), 0), 1; }
static int sum_0_2(weft_array *y[]) {
  return y[0] = weft_over(weft_sum, drawn_floats(WEFT_DIMS(150, 20, 40), 1), 2, (int[]){ 0, 2 }), 1;
}
static int logsumexp_0(weft_array *y[]) { return y[0] = weft_logsumexp(drawn_floats(WEFT_DIMS(150, 40), 1), 0), 1; }

static int argmax(weft_array *y[]) {
  static const float x[] = { 1, 3, 3, -1,   -0.0f, 0.0f, 0, -1,   2, NAN, 9, NAN,   -INFINITY, -INFINITY, -INFINITY, -INFINITY };
  return y[0] = weft_argmax(weft_from(WEFT_F32, WEFT_DIMS(4, 4), x), -1), 1;
}

/* Rows of several axes are one axis where they lie one behind the other, and several where they do not. */
static int cumsum_of_planes(weft_array *y[]) {
  y[0] = weft_cumsum(drawn_floats(WEFT_DIMS(4, 5, 20), 1), 2);
  y[1] = weft_cumsum(weft_slice(drawn_floats(WEFT_DIMS(4, 10, 20), 1), 1, 0, 5, 1), 2);
  return 2;
}
static int scan_of_planes(weft_array *y[]) {
  weft_array *x[] = { drawn_floats(WEFT_DIMS(30, 6, 8), 1), weft_slice(drawn_floats(WEFT_DIMS(30, 12, 8), 2), 1, 0, WEFT_END, 2) };
  for (int k = 0; k < 2; k++) {
    weft_loop *l = weft_loop_open(NULL);
    weft_array *e = weft_loop_each(l, x[k]), *c = weft_loop_carry(l, drawn_floats(WEFT_DIMS(6, 8), 3));
    weft_loop_next(l, c, weft_add(weft_mul(c, weft_scalar(0.5)), e));
    y[k] = weft_loop_last(l, c);
    weft_loop_close(l);
  }
  return 2;
}

static int long_cumsum(weft_array *y[]) { return y[0] = weft_cumsum(drawn_floats(WEFT_DIMS(100000), 1), 0), 1; }

static int pad_and_consume(weft_array *y[]) {
  weft_array *p = weft_pad(drawn_floats(WEFT_DIMS(70, 50), 1), 1, 2, 3, weft_scalar(-1));
  return y[0] = weft_exp(weft_mul(p, weft_scalar(0.5))), 1;
}

static int concat_and_consume(weft_array *y[]) {
  weft_array *a = weft_tanh(drawn_floats(WEFT_DIMS(70, 20), 1)), *b = drawn_floats(WEFT_DIMS(70, 30), 2);
  return y[0] = weft_exp(weft_concat(1, WEFT_ARRAYS(a, b))), 1;
}

static int gather(weft_array *y[]) {
  weft_array *i = drawn_indices(500, 90, 2);
  return y[0] = weft_exp(weft_take(drawn_floats(WEFT_DIMS(90, 16), 1), 1, &i)), 1;
}

static int scatter(weft_array *y[], weft_how how, int64_t slots, int64_t updates) {
  weft_array *x = drawn_floats(1, &slots, 1), *i = drawn_indices(updates, slots, 2), *v = drawn_floats(1, &updates, 3);
  return y[0] = weft_put(x, weft_take(x, 1, &i), v, how), 1;
}
static int scatter_set(weft_array *y[]) { return scatter(y, WEFT_SET, 200, 1000); }
static int scatter_add(weft_array *y[]) { return scatter(y, WEFT_ADD, 200, 1000); }
static int scatter_mul(weft_array *y[]) { return scatter(y, WEFT_MUL, 200, 1000); }
static int scatter_min(weft_array *y[]) { return scatter(y, WEFT_MIN, 200, 1000); }
static int scatter_max(weft_array *y[]) { return scatter(y, WEFT_MAX, 200, 1000); }
static int scatter_add_private(weft_array *y[]) { return scatter(y, WEFT_ADD, 200, 20000); }
static int scatter_add_owned(weft_array *y[]) { return scatter(y, WEFT_ADD, 5000, 70000); }
static int scatter_rows(weft_array *y[]) {
  weft_array *x = drawn_floats(WEFT_DIMS(50, 24), 1), *i = drawn_indices(300, 50, 2), *v = drawn_floats(WEFT_DIMS(300, 24), 3);
  return y[0] = weft_put(x, weft_take(x, 1, &i), v, WEFT_ADD), 1;
}

/* y_t = p y_{t-1} + q y_{t-2} + e_t */
static int scan_taps(weft_array *y[]) {
  weft_array *e = drawn_floats(WEFT_DIMS(40, 70), 1), *p = drawn_floats(0, NULL, 2), *q = drawn_floats(0, NULL, 3);
  weft_loop *l = weft_loop_open(NULL);
  weft_array *e_t = weft_loop_each(l, e), *y1 = weft_loop_carry(l, drawn_floats(WEFT_DIMS(70), 4)), *y2 = weft_loop_carry(l, drawn_floats(WEFT_DIMS(70), 5));
  weft_array *y_t = weft_fma(weft_broadcast_like(p, y1), y1, weft_fma(weft_broadcast_like(q, y1), y2, e_t));
  weft_loop_next(l, y1, weft_mul(y_t, weft_scalar(0.25)));
  weft_loop_next(l, y2, y1);
  y[0] = weft_loop_all(l, y_t);
  weft_loop_close(l);
  return 1;
}

/* s_t = s_{t-1} + x_t^2 until it passes 100: the sums, and the last of them */
static int scan_until(weft_array *y[]) {
  weft_loop *l = weft_loop_open(NULL);
  weft_array *x = weft_loop_each(l, drawn_floats(WEFT_DIMS(200), 1)), *sum = weft_loop_carry(l, drawn_floats(0, NULL, 2));
  weft_array *next = weft_add(sum, weft_mul(x, x));
  weft_loop_next(l, sum, next);
  weft_loop_until(l, weft_gt(next, weft_scalar(100)));
  y[0] = weft_loop_last(l, sum);
  weft_loop_close(l);
  return 1;
}

/* h_t = tanh(x_t + h_{t-1} w) */
static int rnn(weft_array *y[]) {
  weft_array *x = drawn_floats(WEFT_DIMS(12, 5, 33), 1), *w = weft_mul(drawn_floats(WEFT_DIMS(33, 33), 2), weft_scalar(0.1));
  weft_loop *l = weft_loop_open(NULL);
  weft_array *x_t = weft_loop_each(l, x), *h = weft_loop_carry(l, drawn_floats(WEFT_DIMS(5, 33), 3));
  weft_array *next = weft_tanh(weft_add(x_t, weft_matmul(h, w)));
  weft_loop_next(l, h, next);
  y[0] = weft_loop_all(l, next);
  y[1] = weft_loop_last(l, h);
  weft_loop_close(l);
  return 2;
}

/* A filter of position and speed for each of 70 series: states, and the log likelihood's sum of squares. */
static int kalman(weft_array *y[]) {
  int64_t n = 70;
  weft_array *z = drawn_floats(WEFT_DIMS(30, n), 1), *dt = weft_scalar(0.1), *zero = weft_full(WEFT_F32, 1, &n, 0), *one = weft_full(WEFT_F32, 1, &n, 1);
  weft_loop *l = weft_loop_open(NULL);
  weft_array *z_t = weft_loop_each(l, z), *x0 = weft_loop_carry(l, zero), *x1 = weft_loop_carry(l, zero), *p00 = weft_loop_carry(l, one);
  weft_array *p01 = weft_loop_carry(l, zero), *p11 = weft_loop_carry(l, one), *ll = weft_loop_carry(l, zero);
  weft_array *a = weft_add(x0, weft_mul(x1, dt)), *s01 = weft_add(p01, weft_mul(p11, dt)), *s11 = weft_add(p11, weft_scalar(0.02));
  weft_array *s00 = weft_add(weft_add(p00, weft_mul(weft_add(p01, s01), dt)), weft_scalar(0.01));
  weft_array *f = weft_add(s00, weft_scalar(0.5)), *e = weft_sub(z_t, a), *k0 = weft_div(s00, f), *k1 = weft_div(s01, f);
  weft_array *m0 = weft_add(a, weft_mul(k0, e)), *m1 = weft_add(x1, weft_mul(k1, e));
  weft_loop_next(l, x0, m0);
  weft_loop_next(l, x1, m1);
  weft_loop_next(l, p00, weft_sub(s00, weft_mul(k0, s00)));
  weft_loop_next(l, p01, weft_sub(s01, weft_mul(k0, s01)));
  weft_loop_next(l, p11, weft_sub(s11, weft_mul(k1, s01)));
  weft_loop_next(l, ll, weft_add(ll, weft_add(weft_log(f), weft_div(weft_mul(e, e), f))));
  y[0] = weft_loop_all(l, m0);
  y[1] = weft_loop_last(l, ll);
  weft_loop_close(l);
  return 2;
}

/* ---- texts ---- */

static char *text_file(const char *name, const char *mode, FILE **f) {
  static char path[512];
  snprintf(path, sizeof path, "%s/golden/%s.kir", TEST_FOLDER, name);
  *f = fopen(path, mode);
  return path;
}

static void expect_text(const char *name, const char *text) {
  FILE *f;
  const char *write = getenv("WEFT_GOLDEN");
  char *path = text_file(name, write && !strcmp(write, "write") ? "w" : "r", &f), want[65536];
  if (!f) { test_fail(__FILE__, __LINE__, "cannot open %s", path); return; }
  if (write && !strcmp(write, "write")) fputs(text, f);
  else {
    size_t n = fread(want, 1, sizeof want - 1, f);
    want[n] = 0;
    if (strcmp(text, want)) test_fail(__FILE__, __LINE__, "%s: the kernels are now\n%s", path, text);
  }
  fclose(f);
}

/* ---- bits ---- */

static void read_all(graph g, struct plain out[]) {
  weft_scope *s = weft_scope_open();
  weft_array *y[MOST];
  int n = g(y);
  EXPECT_OK(weft_eval(n, y));
  for (int i = 0; i < n; i++) {
    int64_t dims[PLAIN_RANK];
    for (int k = 0; k < weft_rank(y[i]); k++) dims[k] = weft_dim(y[i], k);
    out[i] = plain_new(weft_dtype_of(y[i]), weft_rank(y[i]), dims);
    EXPECT_OK(weft_read(y[i], out[i].dtype, out[i].data, (size_t)out[i].count * weft_dtype_bytes(out[i].dtype)));
  }
  weft_scope_discard(s);
}

static void expect_bits(const char *name, graph g, const struct plain want[], const char *how) {
  struct plain got[MOST] = { 0 };
  read_all(g, got);
  for (int i = 0; i < MOST && got[i].data; i++) {
    int64_t at = plain_differs(&want[i], got[i].data);
    if (at >= 0)
      test_fail(__FILE__, __LINE__, "%s, %s: result %d, element %lld is %s, not %s", name, how, i, (long long)at,
                plain_text(&got[i], at), plain_text(&want[i], at));
    plain_free(&got[i]);
  }
}

static void note_digests(const char *name, const struct plain y[]) {
  char what[64];
  for (int i = 0; i < MOST && y[i].data; i++) {
    snprintf(what, sizeof what, "golden %s %d", name, i);
    digest_note(what, digest_of(0, &y[i]));
  }
}

/* On a device kernels are others, and their texts PTX: what is compared with those of the host are digests. */
static void note_device(const char *name, graph g) {
  struct plain got[MOST] = { 0 };
  way_take(&(struct way){ "", "x86", true, 2 });
  read_all(g, got);
  note_digests(name, got);
  way_leave();
  for (int i = 0; i < MOST; i++) plain_free(&got[i]);
}

static void expect_golden(const char *name, graph g) {
  static const int tiles[] = { 1, 7, 32, 512 };
  struct plain want[MOST] = { 0 };
  const char *there = getenv("WEFT_DEVICE");
  if (digest_is_wanted() && there && atoi(there)) return note_device(name, g);
  weft_scope *s = weft_scope_open();
  weft_array *y[MOST];
  int n = g(y);
  expect_text(name, weft_show(n, y, "kernels"));
  weft_scope_discard(s);
  way_take(&(struct way){ "one op a kernel", "vm", false, 1 });
  read_all(g, want);
  note_digests(name, want);
  for (int t = 0; t < 4; t++)
    for (int threads = 1; threads <= 3; threads++) {
      char how[64];
      snprintf(how, sizeof how, "tiles of %d, %d threads", tiles[t], threads);
      way_take(&(struct way){ "", "vm", true, threads });
      compiled_use_tile(tiles[t]);
      expect_bits(name, g, want, how);
    }
  compiled_use_tile(0);
  way_take(&(struct way){ "", "x86", true, 2 });
  expect_bits(name, g, want, "x86");
  way_leave();
  for (int i = 0; i < MOST; i++) plain_free(&want[i]);
  EXPECT_INT(weft_get(WEFT_KERNELS_VM), 0); /* the encoder takes them all */
}

TEST(softmax_is_this_kernel) { expect_golden("softmax", softmax); }
TEST(layer_norm_is_this_kernel) { expect_golden("layer_norm", layer_norm); }
TEST(layer_norm_gradient_is_this_kernel) { expect_golden("layer_norm_gradient", layer_norm_gradient); }
TEST(sum_over_axis_0_is_this_kernel) { expect_golden("sum_0", sum_0); }
TEST(sum_over_axes_0_and_2_is_this_kernel) { expect_golden("sum_0_2", sum_0_2); }
TEST(logsumexp_over_axis_0_is_this_kernel) { expect_golden("logsumexp_0", logsumexp_0); }
TEST(argmax_is_this_kernel) { expect_golden("argmax", argmax); }
TEST(cumulative_sums_of_planes_are_these_kernels) { expect_golden("cumsum_of_planes", cumsum_of_planes); }
TEST(loops_over_planes_are_these_kernels) { expect_golden("scan_of_planes", scan_of_planes); }
TEST(long_cumsum_is_these_four_kernels) { expect_golden("long_cumsum", long_cumsum); }
TEST(pad_feeds_its_consumer_in_this_kernel) { expect_golden("pad", pad_and_consume); }
TEST(concat_feeds_its_consumer_in_these_kernels) { expect_golden("concat", concat_and_consume); }
TEST(checked_gather_is_this_kernel) { expect_golden("gather", gather); }
TEST(scatter_set_is_this_kernel) { expect_golden("scatter_set", scatter_set); }
TEST(scatter_add_is_this_kernel) { expect_golden("scatter_add", scatter_add); }
TEST(scatter_mul_is_this_kernel) { expect_golden("scatter_mul", scatter_mul); }
TEST(scatter_min_is_this_kernel) { expect_golden("scatter_min", scatter_min); }
TEST(scatter_max_is_this_kernel) { expect_golden("scatter_max", scatter_max); }
TEST(scatter_of_many_updates_into_few_slots_is_this_kernel) { expect_golden("scatter_add_private", scatter_add_private); }
TEST(scatter_of_many_updates_into_many_slots_is_this_kernel) { expect_golden("scatter_add_owned", scatter_add_owned); }
TEST(scatter_of_rows_is_this_kernel) { expect_golden("scatter_rows", scatter_rows); }

TEST(scan_with_taps_is_this_kernel) { expect_golden("scan_taps", scan_taps); }
TEST(scan_with_until_is_this_kernel) { expect_golden("scan_until", scan_until); }
TEST(rnn_is_this_kernel) { expect_golden("rnn", rnn); }
TEST(kalman_is_this_kernel) { expect_golden("kalman", kalman); }

TEST(argmax_takes_the_first_nan_else_the_first_largest) {
  weft_scope *s = weft_scope_open();
  weft_array *y;
  int64_t got[4] = { -1, -1, -1, -1 };
  argmax(&y);
  EXPECT_OK(weft_read(y, WEFT_I64, got, sizeof got));
  EXPECT_INT(got[0], 1);
  EXPECT_INT(got[1], 0);
  EXPECT_INT(got[2], 1);
  EXPECT_INT(got[3], 0);
  weft_scope_discard(s);
}

TEST(gather_out_of_range_is_an_error_that_names_the_index) {
  weft_scope *s = weft_scope_open();
  int32_t at[] = { 0, 1, -3, 2, 7 };
  weft_array *x = drawn_floats(WEFT_DIMS(3, 4), 1), *i = weft_from(WEFT_I32, WEFT_DIMS(5), at), *y = weft_take(x, 1, &i);
  EXPECT_INT(weft_eval(1, &y), WEFT_ERR_INDEX);
  EXPECT_TEXT(weft_message(), "weft_take: the index 7 at place 4 is out of range for an axis of 3");
  weft_scope_discard(s);
}

/* ---- how often inputs are read ---- */

/* Elements loaded from each leaf while the plan runs on the vm; leaves in the order of `leaves`. */
static void count_loads(int n, weft_array *const y[], int n_leaves, weft_array *const leaves[], uint64_t loaded[]) {
  struct node *target[MOST], **leaf = NULL;
  struct failure *f = NULL;
  int n_leaf = 0;
  for (int i = 0; i < n; i++) target[i] = y[i]->node;
  struct plan *p = eval_plan_leaves(n, target, false, &n_leaf, &leaf, &f);
  EXPECT(p != NULL);
  if (!p) return;
  const struct schedule *s = p->schedule;
  struct leaf *given = calloc((size_t)n_leaf + 1, sizeof *given);
  struct buffer **out = calloc((size_t)s->n_stores + 1, sizeof *out);
  uint64_t **loads = calloc((size_t)s->n_steps + 1, sizeof *loads);
  for (int i = 0; i < s->n_steps; i++) loads[i] = calloc(64, sizeof **loads);
  for (int i = 0; i < n_leaf; i++) given[i].buf = leaf[i]->value->buf;
  struct run r = { .leaf = given, .threads = 1, .out = out, .loads = loads };
  EXPECT_INT(plan_run(p, &r, &f), WEFT_OK);
  for (int i = 0; i < s->n_steps; i++)
    for (int b = 0; b < p->code[i]->kernel->n_bufs; b++) {
      int from = p->code[i]->kernel->bufs[b].kind == KIR_IN ? s->store[s->step[i].bufs[b].store].leaf : -1;
      for (int k = 0; k < n_leaves && from >= 0; k++)
        if (leaf[from] == leaves[k]->node) loaded[k] += loads[i][b];
    }
  for (int i = 0; i < s->n_steps; i++) free(loads[i]);
  for (int i = 0; i < s->n_stores; i++) buffer_release(out[i]);
  nodes_release(n_leaf, leaf);
  mem_free(leaf);
  free(given), free(out), free(loads);
  plan_release(p);
}

TEST(layer_norm_gradient_is_one_kernel_that_reads_x_and_dy_once) {
  weft_scope *s = weft_scope_open();
  way_take(&(struct way){ "", "vm", true, 1 });
  weft_array *x[] = { drawn_floats(WEFT_DIMS(300, 200), 1), drawn_floats(WEFT_DIMS(200), 2), drawn_floats(WEFT_DIMS(200), 3) }, *dx[3];
  weft_array *norm = weft_layer_norm(x[0], x[1], x[2], 1e-5), *dy = drawn_floats(WEFT_DIMS(300, 200), 4);
  uint64_t loaded[2] = { 0, 0 };
  weft_cost cost;
  weft_vjp(1, &norm, &dy, 3, x, dx);
  EXPECT_OK(weft_plan(3, dx, &cost));
  EXPECT_INT(cost.kernels, 1);
  count_loads(3, dx, 2, (weft_array *[]){ x[0], dy }, loaded);
  EXPECT_INT(loaded[0], 300 * 200);
  EXPECT_INT(loaded[1], 300 * 200);
  weft_scope_discard(s);
  way_leave();
}

static weft_array *one_of(int k, weft_array *x) {
  switch (k) {
    case 0: return weft_softmax(x, -1);
    case 1: return weft_layer_norm(x, NULL, NULL, 1e-5);
    case 2: return weft_log_softmax(x, -1);
    case 3: return weft_var(x, -1, 1);
    case 4: return weft_std(x, -1, 0);
    case 5: return weft_gelu_approx(x);
    case 6: return weft_silu(x);
    case 7: return weft_softplus(x);
    case 8: return weft_relu(x);
    case 9: return weft_clip(x, weft_scalar(-1), weft_scalar(1));
    default: return weft_tril(x, 3);
  }
}

TEST(operations_written_with_others_are_one_kernel_that_reads_x_once) {
  for (int k = 0; k < 11; k++) {
    weft_scope *s = weft_scope_open();
    way_take(&(struct way){ "", "vm", true, 1 });
    weft_array *x = drawn_floats(WEFT_DIMS(70, 300), 1), *y = one_of(k, x);
    uint64_t loaded = 0;
    weft_cost cost;
    EXPECT_OK(weft_plan(1, &y, &cost));
    EXPECT_INT(cost.kernels, 1);
    count_loads(1, &y, 1, &x, &loaded);
    EXPECT_INT(loaded, 70 * 300);
    weft_scope_discard(s);
    way_leave();
  }
}
