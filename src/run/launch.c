/* launch.c -- one run of a compiled kernel, cut for threads, with private copies: see launch.h. */
#include "run/launch.h"
#include <alloca.h>
#include <string.h>
#include "backend/float_mode.h"
#include "backend/vm/vm_order.h"
#include "run/memory.h"
#include "run/pool.h"

enum { GRAIN = 1 << 16 };   /* a part of less work than this is not worth a thread */
enum { PARTS = 4, EVEN = 4 }; /* parts a thread, of so many grains or more: slow ones even out */
enum { ALIGN = 64 };        /* bytes */
enum { LANES = 128, FEW_LANES = 32 }; /* lanes are cut between as many: those that stay together are interleaved */

struct launching {
  const struct backend *backend;
  const struct code *code;
  const struct kir_kernel *k;
  const struct kir_stmt *outer;
  const struct launch *launch;
  int64_t n, chunk;         /* iterations of the outermost loop; of a part */
  int per_iteration;        /* work of an iteration, 0: it has to be counted */
  int n_checks;
  int failed;               /* atomic: some part ran out of memory */
  int joins;                /* a lock: somebody joins what it has found to the launch's */
};

static bool is_cancelled(const struct launch *l) { return cancel_is_set(l->cancel); }

/* ---- Findings -------------------------------------------------------------------------------------------------------- */

void findings_clear(struct finding f[], int n) { for (int i = 0; i < n; i++) f[i] = (struct finding){ NOTHING_FOUND, 0 }; }

static bool is_any(const struct finding f[], int n) {
  for (int i = 0; i < n; i++) if (f[i].place != NOTHING_FOUND) return true;
  return false;
}

void findings_join(struct finding to[], const struct finding f[], int n, int *lock) {
  if (!is_any(f, n)) return;
  while (__atomic_exchange_n(lock, 1, __ATOMIC_ACQUIRE)) {}
  for (int i = 0; i < n; i++) if (f[i].place < to[i].place) to[i] = f[i];
  __atomic_store_n(lock, 0, __ATOMIC_RELEASE);
}

/* ---- Extents --------------------------------------------------------------------------------------------------------- */

static bool value(const struct launching *r, int val, int64_t *out) {
  const struct kir_val *v = &r->k->vals[val];
  if (v->kind == KIR_SIZE) *out = r->launch->sizes[v->index];
  else if (v->kind == KIR_ARG) *out = (int64_t)r->launch->args[v->index];
  else if (v->kind == KIR_LIT) *out = (int64_t)v->bits;
  else return false;
  return true;
}

/* False: it depends on values of the kernel. */
static bool lin_value(const struct launching *r, struct kir_lin lin, int64_t *out) {
  uint64_t sum = 0;
  for (int i = 0; i < lin.n; i++) {
    uint64_t product = (uint64_t)lin.term[i].coef;
    for (int f = 0; f < lin.term[i].n; f++) {
      int64_t v;
      if (!value(r, lin.term[i].val[f], &v)) return false;
      product *= (uint64_t)v;
    }
    sum += product;
  }
  *out = (int64_t)sum;
  return true;
}

static bool extent(const struct launching *r, const struct kir_stmt *loop, int64_t *n) {
  int64_t b;
  if (loop->extent == KIR_BLOCK || !lin_value(r, loop->at[0], n)) return false;
  if (*n < 0) *n = 0;
  if (loop->extent != KIR_BLOCKS) return true;
  if (!lin_value(r, loop->at[1], &b)) return false;
  *n = b > 0 && *n > 0 ? (*n - 1) / b + 1 : 0;
  return true;
}

/* Statements times iterations, roughly: what is not known counts as 16. */
static double work(const struct launching *r, const struct kir_block *block) {
  double sum = 0;
  for (const struct kir_stmt *s = block->first; s; s = s->next) {
    int64_t n = 1;
    bool is_loop = s->kind == KIR_PAR || s->kind == KIR_SERIAL || s->kind == KIR_LANE;
    if (is_loop && s->extent == KIR_BLOCK) {
      if (!lin_value(r, r->outer->at[r->outer->n_at > 1], &n)) n = 16;
    } else if (is_loop && !extent(r, s, &n)) n = 16;
    sum += s->body.first ? (double)n * work(r, &s->body) : kir_work(s);
  }
  return sum;
}

/* ---- Loops that may be cut anywhere ---------------------------------------------------------------------------------- */

static void part(void *ctx, int i) {
  struct launching *r = ctx;
  struct launch l = *r->launch;
  l.checks = alloca(sizeof *l.checks * (size_t)(r->n_checks + 1));
  findings_clear(l.checks, r->n_checks);
  l.lo = i * r->chunk, l.hi = r->n - l.lo < r->chunk ? r->n : l.lo + r->chunk;
  if (r->backend->run(r->code, &l)) __atomic_store_n(&r->failed, 1, __ATOMIC_RELAXED);
  findings_join(r->launch->checks, l.checks, r->n_checks, &r->joins);
}

static int run_whole(const struct launching *r) {
  struct launch l = *r->launch;
  l.lo = 0, l.hi = r->n;
  return r->backend->run(r->code, &l);
}

/* How many parts of at least a grain; 1: not worth it. */
static int64_t parts(const struct launching *r, int threads) {
  if (threads < 2 || r->n < 2) return 1;
  double all = r->per_iteration ? (double)r->n * r->per_iteration : work(r, &r->k->body);
  double grains = all / GRAIN, rounds = grains / EVEN / threads;
  if (grains < 2 || !pool_pays(all)) return 1;
  if (grains < threads) return (int64_t)grains;
  return threads * (rounds < 1 ? 1 : rounds > PARTS ? PARTS : (int64_t)rounds);
}

/* As many iterations stay together; fewer where threads would be left without any. */
static int64_t unit_of(const struct launching *r, int threads) {
  int64_t unit = r->outer->kind == KIR_LANE ? LANES : 1;
  while (unit > FEW_LANES && r->n >= 2 * LANES && r->n / unit < threads) unit /= 2;
  return unit;
}

static int run_divided(struct launching *r, int threads) {
  int64_t n = parts(r, threads), unit = unit_of(r, threads);
  if (n < 2) return run_whole(r);
  r->chunk = ((r->n - 1) / n / unit + 1) * unit;
  pool_run((int)((r->n - 1) / r->chunk + 1), threads, part, r);
  return r->failed;
}

/* ---- Private outputs -------------------------------------------------------------------------------------------------
 * Every iteration q starts from neutral copies. Copies merge as a binary counter over q, older on the left; aligned
 * groups of 2^k iterations are nodes of that tree, so a thread merges a group for itself and the bits are the same. */

enum { MAX_PRIVATE = 32, LEVELS = 64 };

struct copies {
  struct launching r;
  int n;                                 /* private buffers */
  int64_t elements[MAX_PRIVATE];
  size_t offset[MAX_PRIVATE], bytes;     /* in a copy of all of them; of a copy */
  int64_t group, n_groups;               /* iterations in a group: a power of two */
  char *totals;                          /* a copy for each group */
};

static weft_dtype dtype_of(const struct copies *c, int i) {
  return kir_register_of(c->r.k->bufs[c->r.outer->private[i].buf].dtype);
}

static void neutral(const struct copies *c, char *copy) {
  for (int i = 0; i < c->n; i++) {
    weft_dtype d = dtype_of(c, i);
    order_fill(copy + c->offset[i], d, kir_neutral(c->r.outer->private[i].op, d), c->elements[i]);
  }
}

static void combine(const struct copies *c, char *out, const char *older, const char *newer) {
  for (int i = 0; i < c->n; i++) {
    size_t at = c->offset[i];
    order_combine(c->r.outer->private[i].op, dtype_of(c, i), out + at, older + at, newer + at, c->elements[i]);
  }
}

struct counter { char *level[LEVELS]; int64_t count; };

/* The copy goes to its level; what was unused there takes its place. */
static void push(const struct copies *c, struct counter *n, char **copy) {
  int k = 0;
  for (; n->count >> k & 1; k++) combine(c, *copy, n->level[k], *copy);
  char *unused = n->level[k];
  n->level[k] = *copy, *copy = unused, n->count++;
}

static char *total(const struct copies *c, const struct counter *n) {
  char *sum = NULL;
  for (int k = 0; n->count >> k; k++) {
    if (!(n->count >> k & 1)) continue;
    if (sum) combine(c, sum, n->level[k], sum);
    else sum = n->level[k];
  }
  return sum;
}

static int64_t dim(const struct copies *c, int buf, int axis) {
  int64_t d = 0;
  return lin_value(&c->r, c->r.k->bufs[buf].dims[axis], &d) && d > 0 ? d : 0;
}

static void bind(const struct copies *c, struct bound *bufs, char *copy) {
  for (int i = 0; i < c->n; i++) {
    int b = c->r.outer->private[i].buf;
    int64_t stride = 1;
    bufs[b] = (struct bound){.data = copy + c->offset[i], .in_register_dtype = true};
    for (int a = c->r.k->bufs[b].rank - 1; a >= 0; a--) bufs[b].stride[a] = stride, stride *= dim(c, b, a);
  }
}

static int levels(int64_t n) { return 64 - __builtin_clzll((uint64_t)n); } /* of a counter that counts to n */

/* Iterations [lo, hi) into `out`, with `room` for a copy a level and the list of bindings. */
static int group(struct copies *c, int64_t lo, int64_t hi, char *out, char *room, struct finding found[]) {
  struct bound *bufs = (struct bound *)room;
  struct launch l = *c->r.launch;
  struct counter merged = {.count = 0};
  size_t list = sizeof *bufs * (size_t)c->r.k->n_bufs;
  char *first = room + ((list + ALIGN - 1) & ~(size_t)(ALIGN - 1)), *copy = out;
  for (int k = 0; k < levels(c->group); k++) merged.level[k] = first + c->bytes * (size_t)k;
  memcpy(bufs, l.bufs, list);
  l.bufs = bufs, l.checks = found;
  for (int64_t q = lo; q < hi && !is_cancelled(&l); q++) {
    neutral(c, copy);
    bind(c, bufs, copy);
    l.lo = q, l.hi = q + 1;
    if (c->r.backend->run(c->r.code, &l)) return 1;
    push(c, &merged, &copy);
  }
  char *sum = total(c, &merged);
  if (sum && sum != out) memcpy(out, sum, c->bytes);
  return 0;
}

static size_t group_bytes(const struct copies *c) {
  return sizeof(struct bound) * (size_t)c->r.k->n_bufs + ALIGN + c->bytes * (size_t)levels(c->group);
}

static void group_part(void *ctx, int i) {
  struct copies *c = ctx;
  int64_t lo = i * c->group, hi = c->r.n - lo < c->group ? c->r.n : lo + c->group;
  size_t bytes = group_bytes(c);
  char *room = __atomic_load_n(&c->r.failed, __ATOMIC_RELAXED) ? NULL : memory_borrow(bytes);
  struct finding *found = alloca(sizeof *found * (size_t)(c->r.n_checks + 1));
  findings_clear(found, c->r.n_checks);
  uint64_t mode = float_mode_enter();
  bool is_done = room && !group(c, lo, hi, c->totals + c->bytes * (size_t)i, room, found);
  float_mode_leave(mode);
  if (!is_done) __atomic_store_n(&c->r.failed, 1, __ATOMIC_RELAXED);
  findings_join(c->r.launch->checks, found, c->r.n_checks, &c->r.joins);
  if (room) memory_return(room, bytes);
}

/* Onto what is there (inout) or the empty value (out), element by element of the buffer's own strides. */
static void merge(const struct copies *c, int i, const char *total_copy) {
  const struct kir_private *p = &c->r.outer->private[i];
  const struct kir_buf *buf = &c->r.k->bufs[p->buf];
  const struct bound *b = &c->r.launch->bufs[p->buf];
  int64_t at[BACKEND_RANK] = {0}, last = buf->rank ? dim(c, p->buf, buf->rank - 1) : 1;
  int width = tile_width(b->in_register_dtype ? dtype_of(c, i) : buf->dtype), reg = tile_width(dtype_of(c, i));
  weft_dtype memory = b->in_register_dtype ? dtype_of(c, i) : (weft_dtype)buf->dtype;
  const char *from = total_copy + c->offset[i];
  for (int64_t left = c->elements[i]; left > 0; left -= last, from += last * reg) {
    char *to = b->data;
    for (int a = 0; a + 1 < buf->rank; a++) to += at[a] * b->stride[a] * width;
    order_merge(p->op, memory, to, buf->rank ? b->stride[buf->rank - 1] * width : 0, from, last, buf->kind == KIR_OUT);
    for (int a = buf->rank - 2; a >= 0 && ++at[a] == dim(c, p->buf, a); a--) at[a] = 0;
  }
}

static bool measure(struct copies *c) {
  if (c->r.outer->n_private > MAX_PRIVATE) return false;
  c->n = c->r.outer->n_private;
  for (int i = 0; i < c->n; i++) {
    int b = c->r.outer->private[i].buf;
    int64_t n = 1;
    for (int a = 0; a < c->r.k->bufs[b].rank; a++)
      if (__builtin_mul_overflow(n, dim(c, b, a), &n) || n > INT64_MAX / 1024) return false;
    c->elements[i] = n, c->offset[i] = c->bytes;
    c->bytes += ((size_t)n * (size_t)tile_width(dtype_of(c, i)) + ALIGN - 1) & ~(size_t)(ALIGN - 1);
  }
  if (!c->bytes) c->bytes = ALIGN;
  return true;
}

static int run_private(const struct launching *r, int threads) {
  struct copies c = {.r = *r, .group = 1};
  struct counter merged = {.count = 0};
  if (!measure(&c)) return 1;
  for (int64_t most = parts(r, threads); (r->n - 1) / c.group >= most; c.group *= 2) {}
  c.n_groups = r->n ? (r->n - 1) / c.group + 1 : 0;
  size_t bytes = c.bytes * (size_t)(c.n_groups ? c.n_groups : 1);
  if (!(c.totals = memory_borrow(bytes))) return 1;
  pool_run((int)c.n_groups, threads, group_part, &c);
  uint64_t mode = float_mode_enter();
  if (!c.n_groups) neutral(&c, c.totals);
  for (int64_t i = 0; i < c.n_groups; i++) push(&c, &merged, &(char *){c.totals + c.bytes * (size_t)i});
  const char *sum = c.n_groups ? total(&c, &merged) : c.totals;
  for (int i = 0; i < c.n && !c.r.failed && !is_cancelled(r->launch); i++) merge(&c, i, sum);
  float_mode_leave(mode);
  memory_return(c.totals, bytes);
  return c.r.failed;
}

int launch_run(const struct backend *backend, const struct code *code, const struct kir_kernel *k, const struct kir_facts *facts,
               const struct launch *launch, int threads) {
  struct launching r = {.backend = backend, .code = code, .k = k, .outer = facts->outer, .launch = launch, .n = INT64_MAX,
                  .per_iteration = facts->per_iteration, .n_checks = facts->n_checks};
  bool known = r.outer && extent(&r, r.outer, &r.n);
  if (!known) r.n = INT64_MAX;
  int failed = facts->is_private           ? (known ? run_private(&r, threads) : 1)
               : facts->divisible && known ? run_divided(&r, threads)
                                           : run_whole(&r);
  return is_cancelled(launch) ? 2 : failed;
}

bool launch_borrows(const struct backend *backend, const struct code *code, const struct kir_kernel *k,
                    const struct kir_facts *facts, const struct launch *launch) {
  struct launching r = {.k = k, .outer = facts->outer, .launch = launch, .n = INT64_MAX};
  struct launch l = *launch;
  if (facts->is_private || (r.outer && !extent(&r, r.outer, &r.n))) return true;
  l.lo = 0, l.hi = r.n;
  return backend->borrows(code, &l);
}
