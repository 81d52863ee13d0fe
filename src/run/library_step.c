/* library_step.c -- steps that run code of our own or of a library on dense arrays: their problems, cut into ranges that the
 * threads of the pool take. */
#include "run/library_step.h"
#include "base/mem.h"
#include "graph/shape.h"
#include "run/device.h"
#include "run/memory.h"
#include "run/pool.h"
#include "run/show.h"

static const struct library *library_of(const struct step *s) { return s->library->op->library; }

void library_stores(struct schedule *s, struct step *p, store_visitor *v, void *of) {
  struct library_step *l = p->library;
  (void)s;
  for (int k = 0; k < l->call.n_in; k++) see_store(&l->store[k], STORE_READ, v, of);
  for (int k = 0; k < l->call.n_out; k++) see_store(&l->store[l->call.n_in + k], STORE_WRITTEN, v, of);
}

/* ---- ranges ---- */

enum {
  GRAIN = 1 << 16, /* operations; fewer are not worth to wake a thread */
  CUTS = 4         /* ranges a thread, at least: slow ones even out; between them it is asked whether to go on. But one where
                      there are rounds, which are cut for threads alone */
};

struct ranges_run {
  const struct library *library;
  const struct library_call *call;
  struct cancel *cancel;
  int64_t n, each;               /* parts of all problems; of a range */
  struct failure **failure;      /* by range */
  int threads;
};

static int64_t n_parts(const struct library *l, const struct library_call *c) {
  return c->n_problems * (l->parts ? l->parts(c) : 1);
}

static int n_rounds(const struct library *l, const struct library_call *c) { return l->rounds ? l->rounds(c) : 1; }

static int64_t n_ranges(const struct library *l, const struct library_call *c, int threads) {
  double worth = l->operations(c) / GRAIN, most = (double)threads * (l->rounds && l->parts(c) > 1 ? 1 : CUTS);
  int64_t n = worth < 1 ? 1 : worth < most ? (int64_t)worth : (int64_t)most;
  return n < n_parts(l, c) ? n : n_parts(l, c);
}

static struct failure *no_room(size_t bytes) {
  return fail(WEFT_ERR_MEMORY, 0, "weft_eval: out of memory: a step needs %lld bytes to work in", (long long)bytes);
}

static void run_range(void *ctx, int i) {
  struct ranges_run *r = ctx;
  int64_t from = i * r->each, to = from + r->each < r->n ? from + r->each : r->n;
  size_t bytes = r->library->scratch ? r->library->scratch(r->call) : 0;
  void *scratch = bytes ? memory_take(bytes) : NULL;
  r->failure[i] = run_stopped(r->cancel);
  if (!r->failure[i] && from < to) r->failure[i] = bytes && !scratch ? no_room(bytes) : r->library->run(r->call, from, to, scratch);
  if (scratch) memory_give(scratch, bytes);
}

/* The failure of the first problem that failed; the same for any number of threads. */
static struct failure *first_of(int64_t n, struct failure *failure[]) {
  struct failure *first = NULL;
  for (int64_t i = 0; i < n; i++) {
    if (!first) first = failure[i];
    else failure_release(failure[i]);
  }
  return first;
}

/* Round after round, until one fails or somebody cancels: what a round leaves undone the next must not see. */
static struct failure *run_rounds(struct library_call *c, struct ranges_run *x, struct run *r) {
  struct failure *f = NULL;
  for (c->round = 0; !f && c->round < n_rounds(x->library, c); c->round++) {
    pool_run((int)c->n_ranges, x->threads, run_range, x);
    f = first_of(c->n_ranges, x->failure);
  }
  return f ? f : run_stopped(r->cancel);
}

static size_t shared_bytes(const struct library *l, const struct library_call *c) { return l->shared ? l->shared(c) : 0; }

static struct failure *run_all(const struct library *l, const struct library_call *c, struct run *r) {
  int64_t parts = n_parts(l, c);
  int threads = parts > 1 && !pool_pays(l->operations(c)) ? 1 : r->threads;
  int64_t n = n_ranges(l, c, threads);
  if (!n) return NULL;
  struct failure **failure = mem_alloc(sizeof *failure * (size_t)(n + 1));
  if (!failure) return fail(WEFT_ERR_MEMORY, 0, "weft_eval: out of memory");
  struct library_call cut = *c;
  cut.n_ranges = n;
  cut.threads = n > 1 ? 1 : r->threads;
  size_t bytes = shared_bytes(l, &cut);
  cut.shared = bytes ? memory_take(bytes) : NULL;
  struct ranges_run x = { l, &cut, r->cancel, parts, (parts - 1) / n + 1, failure, threads };
  struct failure *f = bytes && !cut.shared ? no_room(bytes) : run_rounds(&cut, &x, r);
  if (cut.shared) memory_give(cut.shared, bytes);
  mem_free(failure);
  return f;
}

struct failure *library_run(const struct plan *p, int i, struct run *r, uint8_t *const base[], library_runner *all_of) {
  const struct library_step *s = p->schedule->step[i].library;
  int n = s->call.n_in + s->call.n_out;
  struct library_array few[8], *a = n <= 8 ? few : mem_alloc(sizeof *a * (size_t)n);
  if (!s->call.n_problems) return a != few ? mem_free(a), NULL : NULL;
  if (!a) return fail(WEFT_ERR_MEMORY, 0, "weft_eval: out of memory");
  for (int k = 0; k < n; k++) {
    a[k] = s->call.in[k];
    a[k].data = base[s->store[k]] + s->offset[k];
  }
  struct library_call c = s->call;
  c.in = a, c.out = a + c.n_in;
  struct failure *f = all_of(s->op->library, &c, r);
  if (a != few) mem_free(a);
  return f;
}

/* ---- on a device ---- */

enum { MOST_ARRAYS = 16 }; /* of a routine */

/* base NULL: nobody knows yet where the arrays stand. */
static bool describe(const struct library_step *s, uint8_t *const base[], struct routine_array a[MOST_ARRAYS],
                     struct routine_call *c) {
  const struct library *l = s->op->library;
  int n = s->call.n_in + s->call.n_out;
  *c = (struct routine_call){ .name = l->routine, .n_arrays = n, .array = a, .n_problems = s->call.n_problems };
  if (!l->routine || n > MOST_ARRAYS) return false;
  for (int k = 0; k < n; k++) {
    const struct library_array *x = &s->call.in[k];
    a[k] = (struct routine_array){ x->dtype, x->rank, x->dims, k < s->call.n_in || x->is_wanted,
                                   base ? (uint64_t)(uintptr_t)(base[s->store[k]] + s->offset[k]) : 0 };
  }
  if (l->numbers) l->numbers(&s->call, c->number);
  return true;
}

/* What the device has no routine for is left to the host. */
static bool compile(struct plan *p, int i, struct failure **failure) {
  struct routine_array a[MOST_ARRAYS];
  struct routine_call c;
  if (!p->device || !p->device->routine || !describe(p->schedule->step[i].library, NULL, a, &c)) return true;
  int how = c.n_problems ? p->device->routine(p->device, &c, true) : DEVICE_OK;
  p->is_there[i] = how == DEVICE_OK;
  if (how != DEVICE_OK && how != DEVICE_CANNOT) *failure = device_failure(p->device, how, p->schedule->step[i].origin);
  return !*failure;
}

static struct failure *enqueue(const struct plan *p, int i, struct run *r, uint8_t *const base[]) {
  const struct library_step *s = p->schedule->step[i].library;
  struct routine_array a[MOST_ARRAYS];
  struct routine_call c;
  if (cancel_is_set(r->cancel)) return run_stopped(r->cancel);
  describe(s, base, a, &c);
  c.words = r->words;
  int how = c.n_problems ? p->device->routine(p->device, &c, false) : DEVICE_OK;
  if (how == DEVICE_NO_MEMORY)
    return fail(WEFT_ERR_MEMORY, s->call.origin, "weft_eval: out of memory on the device for what %s works in", s->op->name);
  return how ? device_failure(p->device, how, s->call.origin) : NULL;
}

static struct failure *run(const struct plan *p, int i, struct run *r, uint8_t *const base[]) {
  return p->is_there[i] ? enqueue(p, i, r, base) : library_run(p, i, r, base, run_all);
}

static void show_code(const struct plan *p, int i, bool is_machine_code, struct text *t) {
  struct routine_array a[MOST_ARRAYS];
  struct routine_call c;
  if (p->is_there[i] && p->device->show_routine && describe(p->schedule->step[i].library, NULL, a, &c) && c.n_problems)
    p->device->show_routine(p->device, &c, is_machine_code, t);
}

/* ---- what it takes ---- */

static int64_t scratch(const struct plan *p, int i, int threads) {
  const struct step *s = &p->schedule->step[i];
  const struct library *l = library_of(s);
  const struct library_call *c = &s->library->call;
  if (!c->n_problems || p->is_there[i]) return 0;
  int64_t n = n_ranges(l, c, threads);
  struct library_call cut = *c;
  cut.n_ranges = n;
  size_t own = l->scratch ? l->scratch(&cut) : 0;
  return (int64_t)own * (n < threads ? n : threads) + (int64_t)shared_bytes(l, &cut);
}

static const char *by(const struct plan *p, int i) {
  const struct step *s = &p->schedule->step[i];
  const struct library *l = library_of(s);
  return l->by && !p->is_there[i] ? l->by(&s->library->call) : NULL;
}

static struct failure *found(const struct plan *p, int i, int check, const struct finding_words *w) {
  const struct library_step *s = p->schedule->step[i].library;
  struct finding f;
  found_there(w, &f); /* no array of a routine has places that are too many for it */
  return s->op->library->tell[check](&s->call, f.place, f.value);
}

static int library_calls(const struct plan *p, int i) { return by(p, i) != NULL; }

void library_show(const struct plan *p, int i, struct text *t) {
  const struct step *s = &p->schedule->step[i];
  const struct library_step *l = s->library;
  text_addf(t, "%d: %s%s%s by %s(", i, l->op->name, p->is_there[i] ? " on " : "", p->is_there[i] ? p->device->backend->name : "",
            by(p, i) ? by(p, i) : "weft");
  for (int k = 0; k < l->call.n_in + l->call.n_out; k++) {
    struct shape_text d;
    const struct library_array *a = &l->call.in[k];
    text_add(t, k == l->call.n_in ? "; " : k ? ", " : "");
    text_addf(t, "%s%s=", weft_dtype_name(a->dtype), dims_show(a->rank, a->dims, &d));
    store_show(p->schedule, l->store[k], t);
  }
  text_add(t, ")\n");
}

const struct step_kind step_library = {
  .name = "library", .where = STEP_WHERE_COMPILED, .stores = library_stores, .compile = compile, .run = run, .scratch = scratch,
  .found = found,
  .library_calls = library_calls, .show = library_show, .show_code = show_code,
};
