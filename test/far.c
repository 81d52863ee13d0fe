#include "far.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/mem.h"
#include "run/device.h"
#include "run/launch.h"
#include "test.h"

#define MUCH (INT64_C(1) << 40)
#define FAR (UINT64_C(1) << 62) /* added to its addresses: whoever uses one on the host crashes */

struct code { struct code *vm; const struct kir_kernel *k; struct kir_facts facts; };

enum work_kind { UPLOAD, COPY, LAUNCH, SPOIL, POINT, FOLLOW };

struct work_item {
  struct work_item *next;
  enum work_kind kind;
  uint8_t *at;                /* UPLOAD, SPOIL */
  size_t bytes;
  void *from;                 /* UPLOAD: the bytes */
  const struct code *code;    /* LAUNCH, and all its launch points to */
  struct launch launch;
  const uint8_t *there;       /* COPY */
  uint64_t point;             /* POINT; FOLLOW: of that event */
  struct event after;
};

struct free_block { struct free_block *next; uint8_t *at; size_t bytes; uint64_t since; };
struct taken_block { struct taken_block *next; uint64_t at; size_t bytes; };

struct far {
  struct device device;
  const char *text;
  struct work_item *first[N_QUEUES], **last[N_QUEUES];
  uint64_t recorded[N_QUEUES], past[N_QUEUES];
  struct free_block *blocks;
  struct taken_block *taken;
  bool is_lost;
  int64_t limit, bytes;
  int n_polls;
  uint64_t n_stops, stopped;  /* the last number given out, and the one whose launches end */
};

static pthread_mutex_t far_lock = PTHREAD_MUTEX_INITIALIZER; /* of all that follows */
static struct far far[2];
static struct far_counts counts;
static unsigned far_seed = 1;

_Atomic int far_lag, far_refuses, far_takes_left = -1, far_launches_left = -1, far_uploads_left = -1, far_downloads_left = -1,
            far_runs_left = -1;
const volatile int *far_cancel_after_run;
volatile int *far_taken_back;
_Atomic bool far_stuck, far_looks;
static _Atomic int n_asked;

static bool is_over(_Atomic int *left) { return *left == 0 || (*left > 0 && (*left)-- < 0); }
static uint8_t *near(uint64_t at) { return (uint8_t *)(uintptr_t)(at - FAR); }
static struct far *far_of(const struct device *d) { return d->self; }

/* ---- Doing what is enqueued; lock held ---- */

static void advance(struct far *f, enum queue q, uint64_t point);

static void lower(int64_t *word, int64_t to) { if (to < *word) *word = to; }

/* As the threads of a device would: see struct finding_words. */
static void write_words(struct finding_words *w, struct finding f) {
  if (f.place == NOTHING_FOUND) return;
  lower(&w->place, f.place);
  for (int i = 0; i < FINDING_PARTS; i++)
    lower(&w->part[i], f.place << FINDING_BITS | (int64_t)((uint64_t)f.value >> i * FINDING_BITS & ((1u << FINDING_BITS) - 1)));
}

static bool run_there(const struct code *c, const struct launch *l) {
  struct finding found[64];
  struct launch here = *l;
  here.checks = found;
  findings_clear(found, c->facts.n_checks);
  if (launch_run(&backend_vm, c->vm, c->k, &c->facts, &here, 2)) return false;
  for (int i = 0; i < c->facts.n_checks; i++) write_words(&l->words[i], found[i]);
  return true;
}

/* A device has scratch of its own: want of memory on the host does not reach its kernels. */
static void run_kernel(struct far *f, struct work_item *w) {
  counts.runs++;
  mem_fail_pause(true);
  if (is_over(&far_runs_left)) f->is_lost = true;
  bool is_stopped = w->launch.stop.at && w->launch.stop.number == f->stopped;
  if (is_stopped) counts.stopped++;
  if (!f->is_lost && !is_stopped && !run_there(w->code, &w->launch)) f->is_lost = true;
  mem_fail_pause(false);
  if (far_cancel_after_run) *(volatile int *)(uintptr_t)far_cancel_after_run = 1;
}

static void do_first(struct far *f, enum queue q) {
  struct work_item *w = f->first[q];
  if (w->kind == FOLLOW) advance(far_of(w->after.device), w->after.queue, w->after.at);
  if (f->first[q] != w) return;
  f->first[q] = w->next;
  if (!w->next) f->last[q] = &f->first[q];
  switch (w->kind) {
    case UPLOAD: memcpy(w->at, w->from, w->bytes); break;
    case COPY: memcpy(w->at, w->there, w->bytes); break;
    case SPOIL: memset(w->at, 0xdd, w->bytes); break;
    case LAUNCH: run_kernel(f, w); break;
    case POINT: f->past[q] = w->point; break;
    case FOLLOW: break;
  }
  counts.pending--;
  free(w->from);
  free(w);
}

static void advance(struct far *f, enum queue q, uint64_t point) { while (f->first[q] && f->past[q] < point) do_first(f, q); }
static void finish(struct far *f, enum queue q) { advance(f, q, UINT64_MAX); }

static void hurry(struct far *f, enum queue q) {
  if (far_lag == FAR_AT_ONCE) finish(f, q);
  if (far_lag == FAR_NOW_AND_THEN)
    for (int n = rand_r(&far_seed) % 3; n > 0 && f->first[q]; n--) do_first(f, q);
}

static void enqueue(struct far *f, enum queue q, struct work_item w) {
  struct work_item *copy = malloc(sizeof *copy);
  *copy = w;
  copy->next = NULL;
  *f->last[q] = copy;
  f->last[q] = &copy->next;
  counts.pending++;
  hurry(f, q);
}

static uint64_t mark(struct far *f, enum queue q) {
  uint64_t n = ++f->recorded[q];
  enqueue(f, q, (struct work_item){ .kind = POINT, .point = n });
  return n;
}

/* ---- The device ---- */

static bool is_there(const struct device *d) { return (void)d, true; }
static const char *text(const struct device *d) { return far_of(d)->text; }
static const char *message(void) { return "test: it was asked to fail"; }

static int compile(const struct device *d, const struct kir_kernel *k, const struct shape_class *shape, struct code **out,
                   const char **why) {
  int one_in = far_refuses;
  (void)d;
  if (one_in && n_asked++ % one_in == 0) return *why = "it is its turn", DEVICE_CANNOT;
  struct code *c = calloc(1, sizeof *c);
  *c = (struct code){ backend_vm.compile(k, shape, why), k, kir_facts(k) };
  if (c->vm) return *out = c, DEVICE_OK;
  free(c);
  return DEVICE_NO_MEMORY;
}

static void code_free(struct code *c) {
  far_drain(); /* it may be enqueued */
  backend_vm.free(c->vm);
  free(c);
}

static int take(const struct device *d, size_t bytes, uint64_t *at, struct event *since) {
  struct far *f = far_of(d);
  if (is_over(&far_takes_left)) return DEVICE_NO_MEMORY;
  *since = (struct event){ 0 };
  pthread_mutex_lock(&far_lock);
  if (f->bytes + (int64_t)bytes > f->limit) return pthread_mutex_unlock(&far_lock), DEVICE_NO_MEMORY;
  f->bytes += (int64_t)bytes;
  struct free_block **b = &f->blocks, *found;
  while (*b && (*b)->bytes != bytes) b = &(*b)->next;
  if ((found = *b)) {
    *b = found->next;
    *at = (uint64_t)(uintptr_t)found->at + FAR;
    *since = (struct event){ d, QUEUE_COMPUTE, found->since };
    free(found);
  } else {
    uint8_t *p = malloc(bytes + 1);
    memset(p, 0xa5, bytes); /* what was not brought is not there by chance */
    *at = (uint64_t)(uintptr_t)p + FAR;
  }
  counts.bytes += (int64_t)bytes, counts.takes++;
  if (counts.bytes > counts.most) counts.most = counts.bytes;
  struct taken_block *t = malloc(sizeof *t);
  *t = (struct taken_block){ f->taken, *at, bytes };
  f->taken = t;
  pthread_mutex_unlock(&far_lock);
  return DEVICE_OK;
}

static void give(const struct device *d, uint64_t at, size_t bytes) {
  struct far *f = far_of(d);
  if (!at) return;
  pthread_mutex_lock(&far_lock);
  counts.bytes -= (int64_t)bytes;
  f->bytes -= (int64_t)bytes;
  struct taken_block **t = &f->taken, *gone;
  while (*t && (*t)->at != at) t = &(*t)->next;
  if ((gone = *t)) *t = gone->next, free(gone);
  enqueue(f, QUEUE_COMPUTE, (struct work_item){ .kind = SPOIL, .at = near(at), .bytes = bytes });
  struct free_block *b = malloc(sizeof *b);
  *b = (struct free_block){ f->blocks, near(at), bytes, mark(f, QUEUE_COMPUTE) };
  f->blocks = b;
  pthread_mutex_unlock(&far_lock);
}

static void trim(const struct device *d) {
  struct far *f = far_of(d);
  far_drain();
  pthread_mutex_lock(&far_lock);
  for (struct free_block *b = f->blocks, *next; b; b = next) {
    next = b->next;
    free(b->at);
    free(b);
  }
  f->blocks = NULL;
  pthread_mutex_unlock(&far_lock);
}

static struct device_bytes bytes_there(const struct device *d) {
  return (struct device_bytes){ far_counts().bytes, far_counts().most, 0, far_of(d)->limit, MUCH };
}

static void set_peak(const struct device *d, int64_t to) {
  (void)d;
  pthread_mutex_lock(&far_lock);
  counts.most = to > counts.bytes ? to : counts.bytes;
  pthread_mutex_unlock(&far_lock);
}

static void set_limits(const struct device *d, int64_t limit, int64_t cache) {
  pthread_mutex_lock(&far_lock);
  far_of(d)->limit = limit < 0 ? MUCH : limit;
  pthread_mutex_unlock(&far_lock);
  if (cache == 0) trim(d);
}

static bool is_lost(const struct device *d) {
  pthread_mutex_lock(&far_lock);
  bool yes = far_of(d)->is_lost;
  pthread_mutex_unlock(&far_lock);
  return yes;
}

static void *copy_of(const void *from, size_t bytes) {
  void *p = malloc(bytes + 1);
  if (bytes) memcpy(p, from, bytes);
  return p;
}

static int upload(const struct device *d, enum queue q, uint64_t to, const void *from, size_t bytes) {
  if (is_over(&far_uploads_left)) return DEVICE_FAILED;
  pthread_mutex_lock(&far_lock);
  counts.uploads++;
  enqueue(far_of(d), q, (struct work_item){ .kind = UPLOAD, .at = near(to), .bytes = bytes, .from = copy_of(from, bytes) });
  pthread_mutex_unlock(&far_lock);
  return DEVICE_OK;
}

static int download(const struct device *d, enum queue q, void *to, uint64_t from, size_t bytes) {
  struct far *f = far_of(d);
  if (is_over(&far_downloads_left)) return DEVICE_FAILED;
  pthread_mutex_lock(&far_lock);
  counts.downloads++, counts.downloaded += (int64_t)bytes;
  finish(f, q);
  bool is_lost = f->is_lost;
  if (!is_lost) memcpy(to, near(from), bytes);
  pthread_mutex_unlock(&far_lock);
  return is_lost ? DEVICE_FAILED : DEVICE_OK;
}

static int copy(const struct device *d, uint64_t to, uint64_t from, size_t bytes) {
  pthread_mutex_lock(&far_lock);
  enqueue(far_of(d), QUEUE_COMPUTE, (struct work_item){ .kind = COPY, .at = near(to), .there = near(from), .bytes = bytes });
  pthread_mutex_unlock(&far_lock);
  return DEVICE_OK;
}

/* One block for all that a launch points to. */
static struct launch keep_launch(const struct code *c, const struct launch *l, void **block) {
  size_t sizes = sizeof *l->sizes * (size_t)(c->k->n_sizes + 1), args = sizeof *l->args * (size_t)(c->k->n_args + 1);
  size_t bufs = sizeof *l->bufs * (size_t)(c->k->n_bufs + 1);
  uint8_t *at = calloc(1, sizes + args + bufs);
  struct bound *b = (struct bound *)at;
  *block = at;
  for (int i = 0; i < c->k->n_bufs; i++) {
    if (c->k->bufs[i].kind > KIR_INOUT) continue;
    b[i] = l->bufs[i];
    b[i].data = near((uint64_t)(uintptr_t)l->bufs[i].data);
  }
  if (c->k->n_sizes) memcpy(at + bufs, l->sizes, sizes - sizeof *l->sizes);
  if (c->k->n_args) memcpy(at + bufs + sizes, l->args, args - sizeof *l->args);
  return (struct launch){ .sizes = (int64_t *)(at + bufs), .args = (uint64_t *)(at + bufs + sizes), .bufs = b, .parts = l->parts, .stop = l->stop,
                          .words = l->words ? (struct finding_words *)near((uint64_t)(uintptr_t)l->words) : NULL };
}

static int launch(const struct device *d, const struct code *c, const struct launch *l) {
  struct work_item w = { .kind = LAUNCH, .code = c };
  if (is_over(&far_launches_left)) return DEVICE_FAILED;
  w.launch = keep_launch(c, l, &w.from);
  pthread_mutex_lock(&far_lock);
  counts.launches++;
  enqueue(far_of(d), QUEUE_COMPUTE, w);
  pthread_mutex_unlock(&far_lock);
  return DEVICE_OK;
}

static uint64_t record(const struct device *d, enum queue q) {
  pthread_mutex_lock(&far_lock);
  uint64_t n = mark(far_of(d), q);
  pthread_mutex_unlock(&far_lock);
  return n;
}

static int follow(const struct device *d, enum queue q, const struct event *e) {
  pthread_mutex_lock(&far_lock);
  enqueue(far_of(d), q, (struct work_item){ .kind = FOLLOW, .after = *e });
  pthread_mutex_unlock(&far_lock);
  return DEVICE_OK;
}

static int await(const struct event *e) {
  struct far *f = far_of(e->device);
  pthread_mutex_lock(&far_lock);
  advance(f, e->queue, e->at);
  bool is_lost = f->is_lost;
  pthread_mutex_unlock(&far_lock);
  return is_lost ? DEVICE_FAILED : DEVICE_OK;
}

static bool is_past(const struct event *e) {
  pthread_mutex_lock(&far_lock);
  struct far *f = far_of(e->device);
  if (!far_stuck && f->past[e->queue] < e->at && ++f->n_polls % 64 == 0) advance(f, e->queue, e->at); /* who asks so often would wait */
  bool yes = f->past[e->queue] >= e->at;
  pthread_mutex_unlock(&far_lock);
  return yes;
}

/* All kernels look before they begin, and what they look at is no memory: a number. */
static bool looks(const struct code *c) { return (void)c, far_looks; }

static int stop_open(const struct device *d, struct stop *out) {
  pthread_mutex_lock(&far_lock);
  *out = (struct stop){ FAR, ++far_of(d)->n_stops };
  pthread_mutex_unlock(&far_lock);
  return DEVICE_OK;
}

static int stop(const struct device *d, const struct stop *s) {
  pthread_mutex_lock(&far_lock);
  far_of(d)->stopped = s->number;
  pthread_mutex_unlock(&far_lock);
  if (far_taken_back) __atomic_store_n(far_taken_back, 0, __ATOMIC_RELAXED);
  return DEVICE_OK;
}

static bool has(const struct device *d, uint64_t at, size_t bytes) {
  bool yes = false;
  pthread_mutex_lock(&far_lock);
  for (const struct taken_block *b = far_of(d)->taken; b && !yes; b = b->next)
    yes = at >= b->at && at + bytes <= b->at + b->bytes;
  pthread_mutex_unlock(&far_lock);
  return yes;
}

/* Streams of others: FAR_STREAM is the copy queue, seen as somebody else's. */
static void *stream(const struct device *d) { return far_of(d); }

static int order(const struct device *d, uint64_t s, bool is_ours_first) {
  struct far *f = far_of(d);
  if (s != FAR_STREAM) return DEVICE_FAILED;
  enum queue first = is_ours_first ? QUEUE_COMPUTE : QUEUE_COPY;
  pthread_mutex_lock(&far_lock);
  struct event e = { d, first, mark(f, first) };
  enqueue(f, is_ours_first ? QUEUE_COPY : QUEUE_COMPUTE, (struct work_item){ .kind = FOLLOW, .after = e });
  pthread_mutex_unlock(&far_lock);
  return DEVICE_OK;
}

static bool is_here(void) { return true; }
static const struct backend backend_far = { .name = "test", .available = is_here, .free = code_free };
static const struct device device_far = {
  .backend = &backend_far, .available = is_there, .text = text, .message = message, .compile = compile, .take = take, .give = give,
  .bytes = bytes_there, .set_peak = set_peak, .set_limits = set_limits, .is_lost = is_lost, .upload = upload, .download = download,
  .copy = copy, .launch = launch,
  .record = record, .follow = follow, .wait = await, .is_past = is_past, .looks = looks, .stop_open = stop_open, .stop = stop,
  .has = has, .stream = stream, .order = order,
};

/* ---- For tests ---- */

const struct device *far_device(int i) { return &far[i].device; }

struct far_counts far_counts(void) {
  pthread_mutex_lock(&far_lock);
  struct far_counts c = counts;
  pthread_mutex_unlock(&far_lock);
  return c;
}

void far_count_anew(void) {
  pthread_mutex_lock(&far_lock);
  counts.most = counts.bytes, counts.takes = 0;
  pthread_mutex_unlock(&far_lock);
}

void *far_memory(const void *there) {
  far_drain();
  return near((uint64_t)(uintptr_t)there);
}

void far_drain(void) {
  pthread_mutex_lock(&far_lock);
  for (int i = 0; i < 2; i++)
    for (int q = 0; q < N_QUEUES; q++) finish(&far[i], (enum queue)q);
  pthread_mutex_unlock(&far_lock);
}

static void set_out(void) {
  const char *lag = getenv("WEFT_TEST_LAG");
  far_lag = lag ? atoi(lag) : FAR_AT_ONCE;
  far_refuses = n_asked = 0;
  far_takes_left = far_launches_left = far_uploads_left = far_downloads_left = far_runs_left = -1;
  far_cancel_after_run = NULL, far_taken_back = NULL;
  pthread_mutex_lock(&far_lock);
  counts.most = counts.takes = 0;
  counts.uploads = counts.downloads = counts.downloaded = counts.launches = counts.runs = counts.stopped = 0;
  far[0].is_lost = far[1].is_lost = false;
  far[0].limit = far[1].limit = MUCH;
  far[0].n_polls = far[1].n_polls = 0;
  far_stuck = far_looks = false;
  pthread_mutex_unlock(&far_lock);
}

static void use_both(void) { device_use(2, (const struct device *const[]){ &far[0].device, &far[1].device }); }

void far_use(void) {
  set_out();
  use_both();
}

/* Work in the background lets go of its arrays a moment after it has told that they are ready. */
void far_leave(void) {
  for (int i = 0; i < 200 && far_counts().bytes; i++) usleep(5000);
  far_drain();
  EXPECT_INT(far_counts().bytes, 0);
  EXPECT_INT(far_counts().pending, 0);
  for (int i = 0; i < 2; i++) trim(&far[i].device);
  set_out();
  if (!getenv("WEFT_TEST_DEVICE")) device_use(0, NULL);
}

void far_begin(int lag) {
  far_use();
  far_lag = lag;
  weft_set(WEFT_DEVICE, 1);
}

void far_end(void) {
  weft_set(WEFT_DEVICE, 0);
  far_leave();
}

weft_array *far_ramp(int n) {
  float *x = malloc((size_t)n * sizeof *x);
  for (int i = 0; i < n; i++) x[i] = (float)i;
  weft_array *a = weft_from(WEFT_F32, WEFT_DIMS(n), x);
  free(x);
  return a;
}

void far_expect_ramp(weft_array *x, int n, float by, float from) {
  float *got = malloc((size_t)n * sizeof *got);
  int wrong = 0;
  EXPECT_OK(weft_read(x, WEFT_F32, got, (size_t)n * sizeof *got));
  for (int i = 0; i < n; i++) wrong += got[i] != by * (float)i + from;
  EXPECT_INT(wrong, 0);
  free(got);
}

__attribute__((constructor)) static void make_devices(void) {
  for (int i = 0; i < 2; i++) {
    far[i].device = device_far;
    far[i].device.self = &far[i];
    far[i].text = i ? "another device of the tests" : "a device of the tests";
    for (int q = 0; q < N_QUEUES; q++) far[i].last[q] = &far[i].first[q];
  }
  set_out();
  if (getenv("WEFT_TEST_DEVICE")) use_both();
}
