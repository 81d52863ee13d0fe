/* device.c -- the devices there are, and plans that run on one: see device.h. */
#include "run/device.h"
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/mem.h"
#include "run/buffer.h"
#include "run/bundled.h"
#include "run/donate.h"
#include "run/eval.h"
#include "run/kernel_step.h"
#include "run/memory.h"
#include "run/space.h"
#include "run/verdict.h"

/* ---- which ---- */

enum { MOST_USED = 8 };
static _Atomic int n_used; /* devices of tests; 0: none */
static _Atomic(const struct device *) used[MOST_USED];

void device_use(int n, const struct device *const d[]) {
  for (int i = 0; i < n && i < MOST_USED; i++) atomic_store(&used[i], d[i]);
  atomic_store(&n_used, n < MOST_USED ? n : MOST_USED);
}

const struct device *device_numbered(int n) {
  int of_tests = atomic_load(&n_used);
  if (n < 1 || (of_tests && n > of_tests)) return NULL;
  const struct device *d = of_tests ? atomic_load(&used[n - 1]) : cuda_device(n - 1);
  return d && d->available(d) ? d : NULL;
}

int device_count(void) {
  int n = 1;
  while (device_numbered(n)) n++;
  return n;
}

int device_number(const struct device *d) {
  for (int n = 1; d && n < device_count(); n++) if (device_numbered(n) == d) return n;
  return d ? -1 : 0;
}

int device_default(void) {
  const char *s = getenv("WEFT_DEVICE");
  char *end = NULL;
  long n = s && *s ? strtol(s, &end, 10) : 0;
  return s && *s && (*end || n < 0 || n > 1000) ? -1 : (int)n;
}

struct failure *device_unnamed(void) {
  return fail(WEFT_ERR_DEVICE, 0, "weft_eval: WEFT_DEVICE is no number of a device: those are 0 to %d", device_count() - 1);
}

struct failure *device_missing(const char *fn, int64_t n) {
  int last = device_count() - 1;
  const char *why = atomic_load(&n_used) ? NULL : cuda_absence();
  if (why) return fail(WEFT_ERR_DEVICE, scope_origin(), "%s: there is no device %lld: %s", fn, (long long)n, why);
  return fail(WEFT_ERR_DEVICE, scope_origin(), "%s: there is no device %lld: there are 0 to %d", fn, (long long)n, last);
}

/* It was there when the work was planned. */
static struct failure *device_gone(const struct device *d) {
  return fail(WEFT_ERR_DEVICE, 0, "weft_eval: the device (%s) is not there any more: a child of fork has 0 alone",
              d->backend->name);
}

struct failure *device_no_memory(const struct device *d, int64_t bytes, const char *what, uint64_t origin) {
  struct device_bytes b = d->bytes(d);
  return fail(WEFT_ERR_MEMORY, origin,
              "weft_eval: out of memory on device %d (%s): %lld bytes for %s, where %lld of %lld are in use",
              device_number(d), d->backend->name, (long long)bytes, what, (long long)b.used, (long long)b.limit);
}

struct failure *device_failure(const struct device *d, int how, uint64_t origin) {
  if (how == DEVICE_NO_MEMORY)
    return fail(WEFT_ERR_MEMORY, origin, "weft_eval: out of memory on the device (%s)", d->backend->name);
  return fail(WEFT_ERR_DEVICE, origin, "weft_eval: %s", d->message());
}

struct failure *device_refuses(const struct device *d, uint64_t origin, const char *kernel) {
  if (d->is_lost(d)) return device_failure(d, DEVICE_FAILED, origin);
  return fail(WEFT_ERR_DEVICE, origin, "weft: a kernel cannot be compiled: %s\n%s", d->message(), kernel);
}

static _Atomic bool some_run; /* some plan has run on a device: only then is one looked for */

/* A lost device has nothing left to do. */
static void drain(const struct device *d, struct failure **f) {
  for (int q = 0; !*f && q < N_QUEUES; q++) {
    struct event e = event_now(d, (enum queue)q);
    int how = event_wait(&e);
    if (how && !d->is_lost(d)) *f = device_failure(d, how, 0);
  }
}

struct failure *device_drain(void) {
  struct failure *f = NULL;
  const struct device *d;
  for (int n = 1; !f && atomic_load(&some_run) && (d = device_numbered(n)); n++) drain(d, &f);
  return f;
}

static _Thread_local bool has_started; /* this thread, on some device, since it was told that one is lost */

void device_started(void) { has_started = true; }

struct failure *device_loss(void) {
  const struct device *d;
  for (int n = 1; has_started && (d = device_numbered(n)); n++) {
    if (!d->is_lost(d)) continue;
    struct event e = event_now(d, QUEUE_COMPUTE);
    int how = event_wait(&e);
    has_started = false;
    return device_failure(d, how ? how : DEVICE_FAILED, 0);
  }
  return NULL;
}

int device_events(int most, struct event e[]) {
  const struct device *d;
  int n = 0;
  for (int i = 1; atomic_load(&some_run) && (d = device_numbered(i)); i++)
    for (int q = 0; q < N_QUEUES && n < most; q++) e[n++] = event_now(d, (enum queue)q);
  return n;
}

/* ---- where the bytes of stores are ---- */

/* Leaves and outputs are buffers, which know where they are; temporaries stand in a block, one on each side. */
struct stay {
  uint8_t *here, *there;     /* the store's base; NULL: nowhere yet */
  bool on_host, on_device;   /* its bytes are */
  int n_holds;               /* of its buffer */
  int giver;                 /* 1 + the leaf's store whose memory it takes over; 0: none */
  struct space_copy own;           /* of a leaf that is shown to others elsewhere: for this run alone */
};

struct tour {                /* one run of a plan */
  const struct device *d;
  const struct plan *p;
  struct run *r;
  uint8_t **here, **there;   /* by store, as the next */
  struct stay *stay;
  uint8_t *block_here;       /* of temporaries; NULL: not needed yet */
  struct space_copy block;   /* the same on the device */
  struct verdict *verdict;   /* on its leaves and checks; NULL: they are to be trusted */
  struct failure *failure;
  bool has_passed;           /* what is to be overwritten is, from now on */
};

static const struct store *store_of(const struct tour *t, int i) { return &t->p->schedule->store[i]; }
static bool is_leaf(const struct tour *t, int i) { return store_of(t, i)->leaf >= 0; }
static bool is_temporary(const struct tour *t, int i) { return !is_leaf(t, i) && !store_of(t, i)->is_output; }
static const struct leaf *leaf_of(const struct tour *t, int i) { return &t->r->leaf[store_of(t, i)->leaf]; }
static struct buffer *buffer_of(const struct tour *t, int i) { return is_leaf(t, i) ? leaf_of(t, i)->buf : t->r->out[i]; }
static int64_t offset_of(const struct tour *t, int i) { return is_leaf(t, i) ? leaf_of(t, i)->offset : 0; }

static void note(struct tour *t, int how) { if (how && !t->failure) t->failure = device_failure(t->d, how, 0); }

/* The kernel that is the first to touch a store, for messages, and whose line it is. */
static const char *kernel_of(const struct tour *t, int store, uint64_t *origin) {
  const struct schedule *s = t->p->schedule;
  *origin = 0;
  for (int i = 0; i < s->n_steps; i++)
    for (int j = 0; t->p->code[i] && j < s->step[i].n_bufs; j++)
      if (s->step[i].bufs[j].store == store) return *origin = s->step[i].origin, t->p->code[i]->kernel->name;
  return "a value";
}

/* Memory for a store is not to be had. */
static void note_no_room(struct tour *t, int store) {
  int64_t bytes = is_leaf(t, store) ? (int64_t)buffer_bytes(buffer_of(t, store)) : store_of(t, store)->bytes;
  uint64_t origin;
  const char *kernel = kernel_of(t, store, &origin);
  if (!t->failure) t->failure = device_no_memory(t->d, bytes, kernel, origin);
}

static void hold(struct tour *t, int i, const struct device *space, uint8_t **base) {
  const char *why = NULL;
  void *data = NULL;
  weft_status status = buffer_hold(buffer_of(t, i), space, &data, &why);
  if (status == WEFT_ERR_MEMORY && space) note_no_room(t, i);
  else if (status) t->failure = fail(status, 0, "weft_eval: %s", why ? why : "a value cannot be read");
  else *base = (uint8_t *)data + offset_of(t, i), t->stay[i].n_holds++;
}

/* An output is made where the first step that touches it runs. */
static bool make_output(struct tour *t, int i, const struct device *space) {
  size_t bytes = (size_t)store_of(t, i)->bytes;
  weft_status status = WEFT_ERR_MEMORY;
  if (t->r->out[i]) return true;
  t->r->out[i] = space ? buffer_new_in(space, bytes, &status) : buffer_new(bytes);
  if (t->r->out[i]) return true;
  if (space && status == WEFT_ERR_MEMORY) note_no_room(t, i);
  else if (space) note(t, DEVICE_FAILED);
  else t->failure = fail(WEFT_ERR_MEMORY, 0, "weft_eval: out of memory on the host for a value of a device");
  return false;
}

/* The whole buffer of a leaf that may be written by others at any time, as it is now. */
static void bring_shown(struct tour *t, int i) {
  struct stay *y = &t->stay[i];
  hold(t, i, NULL, &y->here);
  if (t->failure) return;
  y->own.device = t->d;
  note(t, space_fill(&y->own, y->here - offset_of(t, i), buffer_bytes(buffer_of(t, i)), false));
  if (!t->failure) note(t, event_follow(t->d, QUEUE_COMPUTE, &y->own.event));
  y->there = (uint8_t *)(uintptr_t)y->own.at + offset_of(t, i);
}

static void to_device(void *of, int *store, enum store_use);

/* The output stands where the leaf does, from its first step on. */
static void bring_gift(struct tour *t, int i) {
  int giver = t->stay[i].giver - 1;
  to_device(t, &giver, STORE_READ);
  t->stay[i].there = t->stay[giver].there;
}

static void bring_buffer(struct tour *t, int i) {
  struct stay *y = &t->stay[i];
  const struct device *where;
  if (y->giver) bring_gift(t, i);
  else if (is_leaf(t, i) && buffer_is_shown(buffer_of(t, i), &where) && where != t->d) bring_shown(t, i);
  else if (is_leaf(t, i) || make_output(t, i, t->d)) hold(t, i, t->d, &y->there);
}

static void bring_temporary(struct tour *t, int i) {
  struct stay *y = &t->stay[i];
  y->there = (uint8_t *)(uintptr_t)t->block.at + store_of(t, i)->offset;
  if (y->on_host) note(t, t->d->upload(t->d, QUEUE_COMPUTE, (uint64_t)(uintptr_t)y->there, y->here, (size_t)store_of(t, i)->bytes));
}

static void take_home_temporary(struct tour *t, int i) {
  struct stay *y = &t->stay[i];
  size_t block_bytes = (size_t)t->p->schedule->block_bytes;
  if (!t->block_here && !(t->block_here = memory_take(block_bytes ? block_bytes : 1))) {
    t->failure = fail(WEFT_ERR_MEMORY, 0, "weft_eval: out of memory on the host for what steps of a device plan make there");
    return;
  }
  y->here = t->block_here + store_of(t, i)->offset;
  if (y->on_device)
    note(t, t->d->download(t->d, QUEUE_COMPUTE, y->here, (uint64_t)(uintptr_t)y->there, (size_t)store_of(t, i)->bytes));
}


static void take_home_buffer(struct tour *t, int i) {
  struct stay *y = &t->stay[i];
  if (is_leaf(t, i)) hold(t, i, NULL, &y->here);
  else if (make_output(t, i, NULL)) {
    struct event now = event_now(t->d, QUEUE_COMPUTE);
    if (y->on_device) buffer_wrote(t->r->out[i], t->d, &now);
    hold(t, i, NULL, &y->here);
  }
}

/* What is written may be written in parts, so what is there of it comes along. */
static void to_device(void *of, int *store, enum store_use use) {
  struct tour *t = of;
  struct stay *y = &t->stay[*store];
  (void)use;
  if (t->failure || (y->there && (y->on_device || !y->on_host))) return;
  if (is_temporary(t, *store)) bring_temporary(t, *store);
  else bring_buffer(t, *store);
  y->on_device = y->on_host || is_leaf(t, *store);
  t->there[*store] = y->there;
}

static void to_host(void *of, int *store, enum store_use use) {
  struct tour *t = of;
  struct stay *y = &t->stay[*store];
  (void)use;
  if (t->failure || (y->here && (y->on_host || !y->on_device))) return;
  if (is_temporary(t, *store)) take_home_temporary(t, *store);
  else take_home_buffer(t, *store);
  y->on_host = y->on_device || is_leaf(t, *store);
  t->here[*store] = y->here;
}

static void made_there(void *of, int *store, enum store_use use) {
  struct stay *y = &((struct tour *)of)->stay[*store];
  if (use & STORE_WRITTEN) y->on_device = true, y->on_host = false;
}

static void made_here(void *of, int *store, enum store_use use) {
  struct tour *t = of;
  struct stay *y = &t->stay[*store];
  if (!(use & STORE_WRITTEN)) return;
  y->on_device = false, y->on_host = true;
  if (store_of(t, *store)->is_output && t->r->out[*store]) buffer_wrote(t->r->out[*store], NULL, NULL);
}

/* ---- checks: words of all steps, read by whoever wants the values ---- */

static int n_checks(const struct plan *p) {
  int n = 0;
  for (int i = 0; i < p->schedule->n_steps; i++) n += plan_checks(p, i);
  return n;
}

static void begin_checks(struct tour *t) {
  int n = n_checks(t->p);
  t->failure = verdict_open(t->p, n, t->r->n_before, t->r->before, &t->verdict);
  t->r->words = n ? verdict_words(t->verdict) : NULL; /* without words of its own it may be that of another run */
}

static void end_checks(struct tour *t) {
  if (t->failure || !t->verdict) return;
  verdict_close(t->verdict);
  if (t->r->stays_open) t->r->verdict = verdict_retain(t->verdict);
  else t->failure = verdict_await(t->verdict);
}

/* ---- stopping ---- */

bool device_may_stop(const struct plan *p) {
  for (int i = 0; p->device->looks && i < p->schedule->n_steps; i++) {
    if (p->code[i] && p->code[i]->is_on_device && p->device->looks(p->code[i]->code)) return true;
    if (p->body[i] && p->is_there[i] && device_may_stop(p->body[i])) return true;
  }
  return false;
}

/* Who may be told to stop waits for it, also in the background: kernels with long loops have a place to look at. */
static void begin_stop(struct tour *t) {
  t->r->stop = (struct stop){ 0 };
  if (t->failure || !t->r->cancel || !device_may_stop(t->p)) return;
  t->r->stays_open = false;
  note(t, t->d->stop_open(t->d, &t->r->stop));
}

/* What goes to the device behind a long kernel may have to wait for it, and whoever waits there does not look at the flag. */
static void bring_leaf(void *of, int *store, enum store_use use) {
  if (is_leaf(of, *store)) to_device(of, store, use);
}

static void bring_leaves(struct tour *t) {
  for (int i = 0; t->r->stop.at && !t->failure && i < t->p->schedule->n_steps; i++)
    if (plan_is_on_device(t->p, i)) step_stores(t->p->schedule, i, bring_leaf, t);
}

struct failure *device_await(const struct device *d, const struct run *r) {
  if (!r->stop.at) return NULL;
  int64_t began = clock_ns();
  struct event end = event_now(d, QUEUE_COMPUTE);
  while (!event_is_over(&end) && !cancel_is_set(r->cancel)) clock_nap(began);
  if (!cancel_is_set(r->cancel)) return NULL;
  int how = d->stop(d, &r->stop);
  return how ? device_failure(d, how, 0) : run_stopped(r->cancel);
}

/* What overwrites, or is past that, is not cancelled any more. */
static void await_or_stop(struct tour *t) {
  if (!t->failure) t->failure = device_await(t->d, t->r);
}

/* ---- memory of leaves that die ---- */

/* The new buffer gets the memory when nothing can keep it from being written. */
static bool take_gift(void *of, const struct gift *g) {
  struct tour *t = of;
  struct buffer *b = buffer_heir(t->d, (size_t)store_of(t, g->to)->bytes);
  if (b) t->stay[g->to].giver = g->from + 1, t->r->out[g->to] = b;
  return b != NULL;
}

/* Who does not wait for his checks, or for those of what he reads, cannot say that nothing fails. */
static void find_gifts(struct tour *t) {
  if (!t->failure && t->r->gives && !(t->r->stays_open && t->verdict)) donate_memory(t->p, t->r, take_gift, t);
}

/* Before the first step that overwrites: all that the steps from there on touch is brought, and all checks have said that they
 * found nothing. After it kernels are enqueued, and nothing else. */
static void pass(struct tour *t, int first) {
  for (int i = first; !t->failure && i < t->p->schedule->n_steps; i++) step_stores(t->p->schedule, i, to_device, t);
  await_or_stop(t);
  if (!t->failure && t->verdict) {
    verdict_close(t->verdict);
    t->failure = verdict_await(t->verdict);
  }
  if (!t->failure) t->failure = plan_pass(t->p, t->r);
  t->has_passed = !t->failure;
}

/* A kernel that is refused half-way leaves neither the old values nor the new ones. */
static void end_gifts(struct tour *t) {
  for (int i = 0; t->has_passed && i < t->p->schedule->n_stores; i++) {
    if (!t->stay[i].giver) continue;
    struct leaf *l = &t->r->leaf[store_of(t, t->stay[i].giver - 1)->leaf];
    buffer_inherit(t->r->out[i], l->buf, t->d);
    l->is_taken = true;
  }
}

/* ---- a run ---- */

static _Atomic int64_t n_on_host;
int64_t device_steps_on_host(void) { return atomic_load(&n_on_host); }

/* All of it at once, as another run on the same addresses was. What overwrites memory does so after checks were read, which takes
 * steps in between. False: step by step. */
static bool run_bundled(struct tour *t) {
  struct schedule *s = t->p->schedule;
  if (!t->p->may_be_bundled || t->r->stop.at || (t->r->overwrites && t->verdict)) return false;
  for (int i = 0; !t->failure && i < s->n_steps; i++) step_stores(s, i, to_device, t);
  if (!t->failure && t->r->overwrites) pass(t, 0);
  if (!t->failure) t->failure = run_stopped(t->r->cancel);
  if (t->failure) return true;
  bool is_done = bundled_run((struct plan *)t->p, t->r, t->there, &t->failure);
  for (int i = 0; is_done && i < s->n_steps; i++) step_stores(s, i, made_there, t);
  return is_done;
}

static void run_step(struct tour *t, int i) {
  bool there = plan_is_on_device(t->p, i);
  if (!there) atomic_fetch_add(&n_on_host, 1);
  bool looks = !there || plan_looks(t->p, i);
  if (looks) await_or_stop(t);
  if (looks && !t->failure && t->verdict) t->failure = verdict_so_far(t->verdict); /* nothing of what fails comes to the host */
  if (!t->failure) step_stores(t->p->schedule, i, there ? to_device : to_host, t);
  if (!t->failure) t->failure = plan_step(t->p, i, t->r, there ? t->there : t->here);
  if (there && t->r->words) t->r->words += plan_checks(t->p, i);
  if (!t->failure) step_stores(t->p->schedule, i, there ? made_there : made_here, t);
}

/* An array that becomes itself, or a copy, changes its owner behind the last step: none of them overwrites it. */
static void run_one_by_one(struct tour *t) {
  int n = t->p->schedule->n_steps;
  for (int i = 0; !t->failure && i <= n; i++) {
    if (t->r->overwrites == i + 1 && !t->has_passed) pass(t, i);
    if (!t->failure && i < n) run_step(t, i);
  }
}

/* Outputs that no step touches, as those of nothing, are made all the same. */
static void end_outputs(struct tour *t) {
  struct event now = t->failure ? (struct event){ 0 } : event_now(t->d, QUEUE_COMPUTE);
  for (int i = 0; !t->failure && i < t->p->schedule->n_stores; i++) {
    if (!store_of(t, i)->is_output || !make_output(t, i, t->d)) continue;
    if (t->stay[i].on_device && !t->stay[i].on_host) buffer_wrote(t->r->out[i], t->d, &now);
  }
}

static void leave(struct tour *t) {
  const struct schedule *s = t->p->schedule;
  for (int i = 0; i < s->n_stores; i++) {
    struct stay *y = &t->stay[i];
    if (y->own.at) space_give(&y->own, buffer_bytes(buffer_of(t, i)));
    while (y->n_holds-- > 0) buffer_drop(buffer_of(t, i));
  }
  verdict_release(t->verdict);
  if (t->block.at) space_give(&t->block, (size_t)s->block_bytes);
  if (t->block_here) memory_give(t->block_here, (size_t)(s->block_bytes ? s->block_bytes : 1));
  t->r->words = NULL;
}

static uint64_t last_origin(const struct schedule *s) { return s->n_steps ? s->step[s->n_steps - 1].origin : 0; }

static void run_steps(struct tour *t) {
  const struct schedule *s = t->p->schedule;
  for (int i = 0; i < s->n_stores; i++) t->stay[i].on_host = t->stay[i].on_device = false;
  t->block.device = t->d;
  int how = s->block_bytes ? space_take(&t->block, (size_t)s->block_bytes) : DEVICE_OK;
  if (how == DEVICE_NO_MEMORY) t->failure = device_no_memory(t->d, s->block_bytes, "what is computed on the way", last_origin(s));
  else note(t, how);
  if (!t->failure) begin_checks(t);
  begin_stop(t);
  find_gifts(t);
  bring_leaves(t);
  if (!t->failure && !run_bundled(t)) run_one_by_one(t);
  await_or_stop(t);
  end_gifts(t);
  end_outputs(t);
  end_checks(t);
  leave(t);
}

/* Plans of few stores, as those of short calls, take no memory for it. */
enum { FEW_STORES = 16 };
struct tour_room { uint8_t *here[FEW_STORES], *there[FEW_STORES]; struct stay stay[FEW_STORES]; };

struct failure *device_run(const struct plan *p, struct run *r) {
  size_t n = (size_t)p->schedule->n_stores;
  struct tour_room few;
  struct tour t = { .d = p->device, .p = p, .r = r, .here = few.here, .there = few.there, .stay = few.stay };
  bool is_few = n <= FEW_STORES;
  for (size_t i = 0; is_few && i < n; i++) few.here[i] = few.there[i] = NULL, few.stay[i] = (struct stay){ 0 };
  if (!is_few)
    t.here = mem_alloc(n * sizeof *t.here), t.there = mem_alloc(n * sizeof *t.there), t.stay = mem_alloc(n * sizeof *t.stay);
  atomic_store(&some_run, true);
  if (!job_is_here()) device_started(); /* whoever starts a job has said so */
  if (!p->device->available(p->device)) t.failure = device_gone(p->device);
  else if (t.here && t.there && t.stay) run_steps(&t);
  else t.failure = fail(WEFT_ERR_MEMORY, 0, "weft_eval: out of memory");
  if (!is_few) mem_free(t.here), mem_free(t.there), mem_free(t.stay);
  return t.failure;
}
