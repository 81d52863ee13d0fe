/* launch.c -- kernels cut over threads: large enough that they really are, with the bits of one thread. */
#include "backend/processor.h"
#include "run/compiled.h"
#include "run/launch.h"
#include <math.h>
#include <stdlib.h>
#include "base/mem.h"
#include "kernels.h"
#include "run/memory.h"
#include "run/pool.h"

/* A kernel on dense f32 and i64 buffers filled by a formula; what it leaves in its outputs is hashed by bytes. */
struct job {
  struct kir_kernel *k;
  struct kir_facts facts;
  struct code *code;
  int64_t size[4], bytes[8];
  struct finding checks[4];
  uint64_t arg[4], loads[8];
  struct bound bound[8];
};

static int64_t extent(const struct job *j, struct kir_lin l) {
  int64_t sum = 0;
  for (int t = 0; t < l.n; t++) {
    int64_t m = l.term[t].coef;
    for (int i = 0; i < l.term[t].n; i++) m *= j->size[j->k->vals[l.term[t].val[i]].index];
    sum += m;
  }
  return sum;
}

static void fill(const struct job *j, int b) {
  int64_t n = j->bytes[b];
  for (int64_t i = 0; i < n / 8 && j->k->bufs[b].dtype == WEFT_I64; i++) ((int64_t *)j->bound[b].data)[i] = i * 7919 % 61;
  for (int64_t i = 0; i < n / 4 && j->k->bufs[b].dtype == WEFT_F32; i++)
    ((float *)j->bound[b].data)[i] = sinf((float)(i % 100003)) * (i % 7 ? 1 : 1e4f);
}

static bool job_open(struct job *j, const char *name, const int64_t *sizes, int tile) {
  const char *why = "";
  memset(j, 0, sizeof *j);
  if (!(j->k = test_kernel(name))) return false;
  EXPECT(!kir_verify(j->k) && kir_legalise(j->k));
  j->facts = kir_facts(j->k);
  for (int i = 0; i < j->k->n_sizes; i++) j->size[i] = sizes[i];
  for (int i = 0; i < 4; i++) j->checks[i] = (struct finding){ NOTHING_FOUND, 0 }, j->arg[i] = 0x3f000000;
  for (int b = 0; b < j->k->n_bufs; b++) {
    const struct kir_buf *buf = &j->k->bufs[b];
    int64_t n = 1;
    if (buf->kind >= KIR_TABLE) continue;
    for (int a = buf->rank - 1; a >= 0; a--) j->bound[b].stride[a] = n, n *= extent(j, buf->dims[a]);
    j->bytes[b] = n * (buf->dtype == WEFT_I64 ? 8 : 4);
    j->bound[b].data = calloc(1, (size_t)j->bytes[b] + 8);
    fill(j, b);
  }
  j->code = backend_vm.compile(j->k, &(struct shape_class){.tile = tile}, &why);
  if (!j->code) test_fail(__FILE__, __LINE__, "%s: %s", name, why);
  return j->code;
}

static void job_close(struct job *j) {
  for (int b = 0; b < 8; b++) free(j->bound[b].data);
  if (j->code) backend_vm.free(j->code);
  if (j->k) kir_free(j->k);
}

static struct launch job_launch(struct job *j) {
  return (struct launch){.sizes = j->size, .args = j->arg, .bufs = j->bound, .checks = j->checks, .loads = j->loads};
}

static int job_run(struct job *j, int threads) {
  struct launch l = job_launch(j);
  for (int b = 0; b < j->k->n_bufs; b++)
    if (j->k->bufs[b].kind == KIR_INOUT) fill(j, b);
  memset(j->loads, 0, sizeof j->loads);
  return launch_run(&backend_vm, j->code, j->k, &j->facts, &l, threads);
}

static uint64_t job_hash(const struct job *j) {
  uint64_t h = 1469598103934665603u;
  for (int b = 0; b < j->k->n_bufs; b++)
    for (int64_t i = 0; i < j->bytes[b] && j->k->bufs[b].kind != KIR_IN && j->k->bufs[b].kind < KIR_TABLE; i++)
      h = (h ^ ((uint8_t *)j->bound[b].data)[i]) * 1099511628211u;
  return h;
}

static const struct { const char *name; int64_t size[4]; } large[] = {
  {"muladd", {700, 501}}, {"reversed_write", {400001}}, {"softmax", {300, 257}}, {"layer_norm_grad", {3000, 65}},
  {"col_sum_tall", {9000, 33}}, {"full_sum_par", {700001}}, {"scatter_private", {300000, 64}}, {"scatter_winner", {300000, 64}},
  {"col_sum", {700, 999}}, {"ar2", {200, 999}}, {"cumsum_totals", {300000, 74}}, {"embedding", {3000, 65, 61}}, {"scatter_owned", {20000, 61, 16}}};

TEST(launch_gives_the_same_bits_for_any_number_of_threads_and_counts_every_load_once) {
  for (size_t i = 0; i < sizeof large / sizeof large[0]; i++) {
    struct job j;
    uint64_t want, loads[8];
    if (!job_open(&j, large[i].name, large[i].size, 0)) continue;
    EXPECT_INT(job_run(&j, 1), 0);
    want = job_hash(&j);
    memcpy(loads, j.loads, sizeof loads);
    for (int threads = 2; threads <= 5; threads++) {
      EXPECT_INT(job_run(&j, threads), 0);
      if (job_hash(&j) != want) test_fail(__FILE__, __LINE__, "%s differs on %d threads", large[i].name, threads);
      EXPECT(!memcmp(loads, j.loads, sizeof loads));
    }
    job_close(&j);
  }
}

static struct backend spy; /* the vm, but it remembers the smallest and largest part it was given */
static int64_t n_parts, n_covered;
static int spy_run(const struct code *c, const struct launch *l) {
  __atomic_fetch_add(&n_parts, 1, __ATOMIC_RELAXED);
  __atomic_fetch_add(&n_covered, l->hi - l->lo, __ATOMIC_RELAXED);
  return backend_vm.run(c, l);
}
static int64_t parts_of(const char *name, const int64_t *sizes, int threads) {
  struct job j;
  if (!job_open(&j, name, sizes, 0)) return -1;
  struct launch l = job_launch(&j);
  spy = backend_vm, spy.run = spy_run, n_parts = n_covered = 0;
  EXPECT_INT(launch_run(&spy, j.code, j.k, &j.facts, &l, threads), 0);
  job_close(&j);
  return n_parts;
}

TEST(launch_cuts_large_work_into_parts_that_cover_it_and_leaves_small_work_whole) {
  weft_set(WEFT_THREADS, 4); /* asked for: else a busy machine may have short work done by one */
  EXPECT_INT(parts_of("muladd", (int64_t[]){4, 16}, 8), 1);
  EXPECT_INT(n_covered, 4);
  EXPECT_INT(parts_of("muladd", (int64_t[]){2000, 500}, 1), 1);
  EXPECT(parts_of("muladd", (int64_t[]){2000, 500}, 4) >= 4);
  EXPECT_INT(n_covered, 2000);
  EXPECT(parts_of("reversed_write", (int64_t[]){1000003}, 4) >= 4);
  EXPECT_INT(n_covered, 1000003);
  EXPECT_INT(parts_of("reversed_write", (int64_t[]){16384}, 4), 1); /* a thread takes as long to begin as it would save */
  EXPECT_INT(parts_of("reversed_write", (int64_t[]){65536}, 2), 2);
  EXPECT_INT(parts_of("muladd", (int64_t[]){16, 512}, 2), 1);
  EXPECT_INT(parts_of("muladd", (int64_t[]){64, 512}, 2), 2);
  EXPECT_INT(parts_of("muladd", (int64_t[]){0, 500}, 4), 1);
  EXPECT_INT(parts_of("full_sum_par", (int64_t[]){10 * 4096 + 1}, 2), 11); /* private: one run a block */
  EXPECT_INT(parts_of("full_sum", (int64_t[]){1000003}, 4), 1);             /* one fold: not divisible */
}

TEST(launch_starts_private_outputs_empty_and_adds_to_what_is_there_in_inout) {
  struct job j;
  if (!job_open(&j, "full_sum_par", (int64_t[]){0}, 0)) return;
  *(float *)j.bound[1].data = 5;
  EXPECT_INT(job_run(&j, 2), 0);
  uint32_t bits;
  memcpy(&bits, j.bound[1].data, 4);
  EXPECT_INT(bits, 0);
  job_close(&j);
  if (!job_open(&j, "scatter_private", (int64_t[]){0, 9}, 0)) return;
  uint64_t before = job_hash(&j);
  EXPECT_INT(job_run(&j, 2), 0);
  EXPECT_INT(job_hash(&j), before);
  job_close(&j);
}

TEST(launch_reports_the_lowest_bad_index_whatever_thread_meets_it) {
  struct job j;
  if (!job_open(&j, "scatter_private", (int64_t[]){300000, 64}, 0)) return;
  int64_t *idx = j.bound[0].data;
  idx[299999] = -1, idx[123456] = 64, idx[200000] = 1 << 20;
  EXPECT_INT(job_run(&j, 3), 0);
  EXPECT_INT(j.checks[0].place, 123456);
  EXPECT_INT(j.checks[0].value, 64);
  job_close(&j);
}

TEST(launch_survives_a_failed_allocation_and_gives_all_memory_back) {
  struct job j;
  if (!job_open(&j, "layer_norm_grad", (int64_t[]){3000, 65}, 0)) return;
  EXPECT_INT(job_run(&j, 2), 0);
  uint64_t want = job_hash(&j);
  memory_set_cache_limit(0);
  int64_t used = memory_used();
  int failures = 0;
  for (int n = 1; n < 60; n++) {
    mem_fail_at(n, n & 1);
    int status = job_run(&j, 1 + n % 2);
    mem_fail_at(0, 0);
    EXPECT(status == 0 || status == 1);
    EXPECT_INT(memory_used(), used);
    failures += status == 1;
  }
  EXPECT(failures > 0);
  EXPECT_INT(job_run(&j, 2), 0);
  EXPECT_INT(job_hash(&j), want);
  memory_set_cache_limit(1 << 30);
  job_close(&j);
  pool_stop();
}

TEST(launch_says_that_it_was_cancelled) {
  struct job j;
  volatile int flag = 1;
  struct cancel stop = { &flag, 0 };
  if (!job_open(&j, "layer_norm_grad", (int64_t[]){3000, 65}, 0)) return;
  struct launch l = job_launch(&j);
  l.cancel = &stop;
  EXPECT_INT(launch_run(&backend_vm, j.code, j.k, &j.facts, &l, 2), 2);
  flag = 0; /* as late as it is taken back, what has ended early has not run */
  EXPECT_INT(launch_run(&backend_vm, j.code, j.k, &j.facts, &l, 2), 2);
  job_close(&j);
}

TEST(processors_are_taken_in_the_order_of_their_table_from_the_one_that_is_named) {
  const struct processor *best = processor_named(NULL), *narrow = processor_named("avx2"), *any = processor_any();
  EXPECT(best->backend->available() && best->contractor->available());
  EXPECT(processor_named("avx512") == best);
  EXPECT(narrow == any || !strcmp(narrow->name, "avx2"));
  EXPECT(processor_named("vm") == any && processor_named("no such") == any);
  EXPECT_TEXT(any->backend->name, "vm");
  EXPECT_TEXT(any->contractor->name, "vm");
  compiled_use("avx2");
  EXPECT(compiled_contractor() == narrow->contractor);
  EXPECT_TEXT(compiled_by(), narrow->text);
  compiled_use(NULL);
  EXPECT(compiled_contractor() == best->contractor);
}

/* Private copies are dense; what they are merged into has strides of its own on every axis. */
TEST(private_copies_of_planes_are_merged_along_the_strides_of_the_buffer) {
  enum { N = 3000, A = 3, B = 5, APART = 11, ASIDE = 2 };
  struct kir_kernel *k = NULL;
  struct text why = { 0 };
  const char *wrong = "";
  int n = kir_parse("kernel planes { size N, A, B in x:f32[N,A,B] out y:f32[A,B] par q in blocks(N, 128) private y add { serial r in "
                    "block q { serial a in A { lane b in B { store y[a,b] add = load x[r,a,b] } } } } }", &k, 1, &why);
  EXPECT_INT(n, 1);
  EXPECT(!kir_verify(k) && kir_legalise(k));
  float *x = malloc(sizeof *x * N * A * B), y[A * APART], want[A][B] = { 0 };
  for (int i = 0; i < N * A * B; i++) x[i] = (float)(i % 13 - 6), want[i / B % A][i % B] += x[i];
  struct kir_facts facts = kir_facts(k);
  struct code *code = backend_vm.compile(k, &(struct shape_class){ 0 }, &wrong);
  for (int threads = 1; code && threads <= 4; threads++) {
    struct bound bound[] = { { .data = x, .stride = { A * B, B, 1 } }, { .data = y, .stride = { APART, ASIDE } } };
    struct launch l = { .sizes = (int64_t[]){ N, A, B }, .bufs = bound };
    for (int i = 0; i < A * APART; i++) y[i] = -1;
    EXPECT_INT(launch_run(&backend_vm, code, k, &facts, &l, threads), 0);
    for (int a = 0; a < A; a++)
      for (int c = 0; c < APART; c++) EXPECT(y[a * APART + c] == (c % ASIDE || c / ASIDE >= B ? -1 : want[a][c / ASIDE]));
  }
  EXPECT(code);
  if (code) backend_vm.free(code);
  text_free(&why);
  kir_free(k);
  free(x);
}
