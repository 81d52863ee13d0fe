#include "works.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "run/compiled.h"
#include "run/plan.h"
#include "run/pool.h"

static void give_up(const char *why) {
  fprintf(stderr, "bench: %s\n", why);
  exit(1);
}

static void must(weft_status s) {
  if (s != WEFT_OK) give_up(weft_message());
}

/* ---- the works, as weft's users write them ---- */

typedef weft_array *const ins[];

static weft_array *number(double x) { return weft_scalar(x); }

static void mul_add(ins in, weft_array *out[]) { out[0] = weft_add(weft_mul(in[0], in[1]), in[2]); }
static void gelu_add(ins in, weft_array *out[]) {
  weft_array *x = in[0], *cube = weft_mul(weft_mul(weft_mul(number(0.044715), x), x), x);
  weft_array *t = weft_tanh(weft_mul(number(0.7978845608028654), weft_add(x, cube)));
  out[0] = weft_add(in[1], weft_mul(weft_mul(number(0.5), x), weft_add(number(1), t)));
}
static void exps(ins in, weft_array *out[]) { out[0] = weft_exp(in[0]); }
static void logs(ins in, weft_array *out[]) { out[0] = weft_log(in[0]); }
static void tanhs(ins in, weft_array *out[]) { out[0] = weft_tanh(in[0]); }
static void sines(ins in, weft_array *out[]) { out[0] = weft_sin(in[0]); }
static void sigmoids(ins in, weft_array *out[]) { out[0] = weft_sigmoid(in[0]); }
static void chain(ins in, weft_array *out[]) {
  out[0] = in[0];
  for (int i = 0; i < 200; i++) out[0] = weft_add(weft_mul(out[0], number(0.5)), number((i % 7) * 0.25));
}

static void softmax(ins in, weft_array *out[]) { out[0] = weft_softmax(in[0], -1); }
static void rms_norm(ins in, weft_array *out[]) { out[0] = weft_rms_norm(in[0], in[1], 1e-5); }
static void layer_norm(ins in, weft_array *out[]) { out[0] = weft_layer_norm(in[0], in[1], in[2], 1e-5); }
static void rms_norm_grad(ins in, weft_array *out[]) {
  weft_array *y = weft_rms_norm(in[0], in[1], 1e-5), *g = in[2];
  weft_vjp(1, &y, &g, 2, in, out);
}
static void layer_norm_grad(ins in, weft_array *out[]) {
  weft_array *y = weft_layer_norm(in[0], in[1], in[3], 1e-5), *g = in[2];
  weft_vjp(1, &y, &g, WEFT_ARRAYS(in[0], in[1], in[3]), out);
}

static void sum_all(ins in, weft_array *out[]) { out[0] = weft_sum(in[0], WEFT_ALL); }
static void sum_rows(ins in, weft_array *out[]) { out[0] = weft_sum(in[0], 1); }
static void sum_columns(ins in, weft_array *out[]) { out[0] = weft_sum(in[0], 0); }
static void lse_columns(ins in, weft_array *out[]) { out[0] = weft_logsumexp(in[0], 0); }
static void running(ins in, weft_array *out[]) { out[0] = weft_cumsum(in[0], 0); }

static void reversed(ins in, weft_array *out[]) { out[0] = weft_mul(number(2), weft_flip(in[0], 0)); }
static void thirds(ins in, weft_array *out[]) { out[0] = weft_mul(number(2), weft_slice(in[0], 0, 0, WEFT_END, 3)); }
static void plus_transposed(ins in, weft_array *out[]) { out[0] = weft_add(in[0], weft_transpose(in[0], NULL)); }
static void gathered(ins in, weft_array *out[]) { out[0] = weft_take(in[0], 1, &in[1]); }
static void scattered(ins in, weft_array *out[]) {
  weft_array *slots = weft_full(WEFT_F32, WEFT_DIMS(weft_dim(in[2], 0)), 0);
  out[0] = weft_put(slots, weft_take(slots, 1, &in[1]), in[0], WEFT_ADD);
}

static weft_array *ar(weft_array *e) {
  weft_array *zero = weft_full(WEFT_F32, WEFT_DIMS(weft_dim(e, 1)), 0);
  weft_loop *l = weft_loop_open(NULL);
  weft_array *now = weft_loop_each(l, e), *one = weft_loop_carry(l, zero), *two = weft_loop_carry(l, zero);
  weft_array *y = weft_add(weft_sub(weft_mul(number(0.5), one), weft_mul(number(0.2), two)), now);
  weft_loop_next(l, one, y);
  weft_loop_next(l, two, one);
  weft_array *all = weft_loop_all(l, y);
  weft_loop_close(l);
  return all;
}
static void ar_scan(ins in, weft_array *out[]) { out[0] = ar(in[0]); }
static void ar_scan_grad(ins in, weft_array *out[]) {
  weft_array *y = ar(in[0]);
  weft_grad(weft_mul(y, y), 1, in, out);
}
static void rnn(ins in, weft_array *out[]) {
  weft_loop *l = weft_loop_open(NULL);
  weft_array *x = weft_loop_each(l, in[0]), *h = weft_loop_carry(l, weft_mul(in[1], number(0)));
  weft_array *next = weft_tanh(weft_add(weft_matmul(x, in[1]), weft_matmul(h, in[2])));
  weft_loop_next(l, h, next);
  out[0] = weft_loop_all(l, next);
  weft_loop_close(l);
}
static void steps(ins in, weft_array *out[]) {
  weft_loop *l = weft_loop_open(weft_integer(10000));
  weft_array *x = weft_loop_carry(l, in[1]);
  weft_loop_next(l, x, weft_add(weft_mul(x, number(0.999)), number(0.001)));
  out[0] = weft_loop_last(l, x);
  weft_loop_close(l);
}

static const struct work works[] = {
  { "a*b+c", "mmm", 1, mul_add, 3, 1, 1e-6 },
  { "gelu+residual", "mm", 1, gelu_add, 2, 1, 1e-6 },
  { "exp", "m", 1, exps, 1, 1, 1e-6 },
  { "log", "p", 1, logs, 1, 1, 1e-6 },
  { "tanh", "m", 1, tanhs, 1, 1, 1e-6 },
  { "sin", "m", 1, sines, 1, 1, 1e-6 },
  { "sigmoid", "m", 1, sigmoids, 1, 1, 1e-6 },
  { "200 chained ops", "m", 1, chain, 1, 1, 1e-6 },
  { "softmax", "m", 1, softmax, 1, 1, 1e-6 },
  { "rms_norm", "mr", 1, rms_norm, 1, 1, 1e-5 },
  { "layer_norm", "mrr", 1, layer_norm, 1, 1, 1e-5 },
  { "rms_norm gradient", "mrm", 2, rms_norm_grad, 2, 1, 1e-3 },
  { "layer_norm gradient", "mrmr", 3, layer_norm_grad, 2, 1, 1e-3 },
  { "sum all", "m", 1, sum_all, 1, 0, 1e-4 },
  { "sum axis 0", "m", 1, sum_columns, 1, 0, 1e-4 },
  { "sum axis 1", "m", 1, sum_rows, 1, 0, 1e-4 },
  { "logsumexp axis 0", "m", 1, lse_columns, 1, 0, 1e-5 },
  { "cumsum", "f", 1, running, 1, 1, 5e-2 },
  { "2*x[::-1]", "f", 1, reversed, 1, 1, 0 },
  { "2*x[::3]", "f", 1, thirds, 1, 3, 0 },
  { "x + x.T", "m", 1, plus_transposed, 2, 1, 0 },
  { "gather", "fi", 1, gathered, 1, 3, 0 },
  { "scatter-add, contended", "fbr", 1, scattered, 2, 0, 1e-3 },
  { "AR(2) scan", "m", 1, ar_scan, 1, 1, 1e-5 },
  { "AR(2) scan gradient", "m", 1, ar_scan_grad, 1, 1, 1e-5 },
  { "RNN scan", "css", 1, rnn, 1, 1, 1e-4 },
  { "while", "mr", 1, steps, 1, 0, 1e-3 },
};

const struct work *work_find(const char *name) {
  for (size_t i = 0; i < sizeof works / sizeof *works; i++)
    if (!strcmp(works[i].name, name)) return &works[i];
  give_up(name);
  return NULL;
}

/* ---- memory ---- */

enum { MOST = 16 << 20 }; /* floats of an array */

static uint64_t random_bits(void) {
  static uint64_t state = 88172645463325252u;
  state ^= state << 13, state ^= state >> 7, state ^= state << 17;
  return state;
}

/* Nearly normal: a sum of uniform ones. */
static float random_normal(void) {
  float sum = 0;
  for (int i = 0; i < 4; i++) sum += (float)(random_bits() >> 40) * (1.f / (1 << 24));
  return (sum - 2) * 1.7320508f;
}

static float *memory(int which) {
  static float *all[TASK_INS + TASK_OUTS + 2];
  if (all[which]) return all[which];
  all[which] = measure_memory((MOST + 4096) * sizeof(float));
  for (int64_t i = 0; which < TASK_INS && i < MOST; i++) all[which][i] = random_normal();
  return all[which];
}

static float *positive(void) {
  static float *p;
  if (p) return p;
  p = measure_memory((MOST + 4096) * sizeof *p);
  for (int64_t i = 0; i < MOST; i++) p[i] = 0.1f + fabsf(memory(0)[i]);
  return p;
}

static float *square(int which) {
  static float *p[2];
  if (p[which]) return p[which];
  p[which] = measure_memory(64 * 64 * sizeof **p);
  for (int64_t i = 0; i < 64 * 64; i++) p[which][i] = random_normal() / 8;
  return p[which];
}

static int32_t *indices(int64_t n, int64_t below) {
  static int32_t *p;
  if (!p) p = measure_memory(MOST * sizeof *p);
  for (int64_t i = 0; i < n; i++) p[i] = (int32_t)(random_bits() % (uint64_t)below);
  return p;
}

static void input(struct bench *b, int i, int64_t n) {
  int64_t rows = b->task.rows, cols = b->task.cols, cube[] = { rows, cols, cols }, strides[] = { cols * cols, cols, 1 };
  int64_t *dims = cube, *stride = strides;
  int rank = 2;
  void *data = memory(i);
  weft_dtype dtype = WEFT_F32;
  switch (b->work->in[i]) {
    case 'p': data = positive(); /* fall through */
    case 'm': cube[1] = rows, cube[2] = cols, dims++, stride++; break;
    case 'c': rank = 3; break;
    case 's': data = square(i - 1), dims++, stride++; break;
    case 'r': rank = 1, dims += 2, stride += 2; break;
    case 'f': rank = 1, cube[2] = rows * cols, dims += 2, stride += 2; break;
    case 'i': n = rows * cols / 4, data = indices(n, rows * cols), dtype = WEFT_I32; break;
    case 'b': n = rows * cols, data = indices(n, cols), dtype = WEFT_I32; break;
  }
  if (dtype == WEFT_I32) rank = 1, cube[2] = n, dims += 2, stride += 2, b->task.index = data;
  else b->task.in[i] = data;
  b->arg[i] = weft_external(&(weft_block){ data, 0, dtype, rank, dims, stride }, NULL, NULL);
}

static weft_scope *scope;

void bench_begin(struct bench *b, const char *work, int64_t rows, int64_t cols) {
  *b = (struct bench){ .work = work_find(work), .task = { .rows = rows, .cols = cols } };
  int64_t n = rows * cols;
  scope = weft_scope_open();
  for (int i = 0; b->work->in[i]; i++) input(b, i, n);
  for (int i = 0; i < TASK_OUTS; i++) b->task.out[i] = memory(TASK_INS + i);
  b->task.room = memory(TASK_INS + TASK_OUTS);
  b->task.is_large = n > 4 << 20;
  if (b->work->in[0] == 'c') n *= cols;
  b->bytes = (double)n * 4 * (b->work->reads + (b->work->write_every ? 1.0 / b->work->write_every : 0));
}

void bench_end(void) { weft_scope_discard(scope); }

/* ---- running ---- */

weft_function *bench_function(const struct bench *b, const char *backend) {
  int n = (int)strlen(b->work->in);
  weft_array *out[TASK_OUTS];
  plan_drop_all(); /* plans know kernels, not who was to compile them */
  compiled_use(backend);
  weft_scope *body = weft_scope_open();
  b->work->build(b->arg, out);
  weft_function *f = weft_compile(body, n, b->arg, b->work->n_out, out);
  run_weft(&(struct weft_run){ b, f, 1 });
  compiled_use(NULL);
  return f;
}

void run_weft(void *ctx) {
  struct weft_run *r = ctx;
  weft_array *out[TASK_OUTS];
  weft_set(WEFT_THREADS, r->threads);
  weft_scope *s = weft_scope_open();
  weft_call(r->function, (int)strlen(r->bench->work->in), r->bench->arg, r->bench->work->n_out, out);
  must(weft_eval(r->bench->work->n_out, out));
  weft_scope_discard(s);
}

struct phase { const struct hand_run *run; hand_part *part; };

static void hand_phase(void *ctx, int part) {
  struct phase *p = ctx;
  p->part(&p->run->bench->task, part, p->run->threads);
}

void run_hand(void *ctx) {
  struct hand_run *r = ctx;
  for (int i = 0; i < 2 && r->hand->phase[i]; i++)
    pool_run(r->threads, r->threads, hand_phase, &(struct phase){ r, r->hand->phase[i] });
  if (r->hand->finish) r->hand->finish(&r->bench->task, r->threads);
}

static void stream_part(void *ctx, int part) {
  struct stream_run *s = ctx;
  hand_stream(&s->stream, part, s->threads);
}

void run_stream(void *ctx) {
  struct stream_run *s = ctx;
  pool_run(s->threads, s->threads, stream_part, s);
}

struct stream_run bench_stream(const struct bench *b, int threads) {
  struct stream_run s = { { .n_in = b->work->reads, .write_every = b->work->write_every, .out = b->task.out[0],
                            .n = b->task.rows * b->task.cols, .is_large = b->task.is_large }, threads };
  for (int i = 0; i < s.stream.n_in; i++) s.stream.in[i] = memory(i);
  return s;
}

/* ---- checking ---- */

static double largest_difference(const float *a, const float *b, int64_t n) {
  double most = 0;
  for (int64_t i = 0; i < n; i++) {
    double d = fabs((double)a[i] - (double)b[i]) / (1 + fabs((double)b[i]));
    if (!(d <= most)) most = d;
  }
  return most;
}

double bench_difference(const struct bench *b, struct weft_run *w, struct hand_run *h) {
  weft_array *out[TASK_OUTS];
  float *got = memory(TASK_INS + TASK_OUTS + 1);
  double most = 0;
  weft_scope *s = weft_scope_open();
  run_hand(h);
  weft_call(w->function, (int)strlen(b->work->in), b->arg, b->work->n_out, out);
  for (int i = 0; i < b->work->n_out; i++) {
    int64_t n = 1;
    for (int k = 0; k < weft_rank(out[i]); k++) n *= weft_dim(out[i], k);
    must(weft_read(out[i], WEFT_F32, got, (size_t)n * sizeof *got));
    double d = largest_difference(got, b->task.out[i], n);
    if (!(d <= most)) most = d;
  }
  weft_scope_discard(s);
  return most;
}
