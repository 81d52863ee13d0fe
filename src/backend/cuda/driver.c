/* driver.c -- libcuda, loaded at first use: the devices, their queues, modules and launches.
 *
 * Owns the device handles of the process. A device's context, the primary one, is asked for when it is first used. Every failure
 * is a status, and a text of the calling thread. */
#include "backend/cuda/driver.h"
#include <dlfcn.h>
#include <string.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/mem.h"

enum { PROCESSORS = 16, CAPABILITY_MAJOR = 75, CAPABILITY_MINOR = 76, SHARED_BYTES = 97 };
enum { FUNCTION_SHARED_BYTES = 8 };
enum { NOT_READY = 600 };
enum { MOST_GPUS = 16 };

struct driver cu;

static struct {
  pthread_once_t once;
  int n;
  _Atomic bool is_child;     /* this process is a child of the one that found them: it has no context */
  const char *why;           /* there is none */
  struct gpu gpu[MOST_GPUS];
} found = { .once = PTHREAD_ONCE_INIT };
static _Thread_local char message[2000]; /* a driver's log among them */

/* ---- Finding them ------------------------------------------------------------------------------------------------------- */

/* The texts one after the other, as far as they fit. */
static void join(char *to, size_t room, const char *const texts[], int n) {
  size_t at = 0;
  for (int i = 0; i < n; i++)
    for (const char *s = texts[i]; *s && at + 1 < room; s++) to[at++] = *s;
  to[at] = 0;
}

void cuda_say(const char *doing, const char *what) {
  join(message, sizeof message, (const char *[]){ "cuda: ", doing, ": ", what }, 4);
}

void cuda_repeat(const char *of_other) { join(message, sizeof message, &of_other, 1); }

static bool missing(const char *why) {
  found.why = why;
  return false;
}

static bool resolve(void) {
  void *lib = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL), *symbol;
  if (!lib) return missing("there is no NVIDIA driver here (libcuda.so.1)");
#define RESOLVE_(sym, name, params)                              \
  if (!(symbol = dlsym(lib, #sym))) return missing("libcuda.so.1 lacks " #sym); \
  memcpy(&cu.name, &symbol, sizeof symbol);
  DRIVER(RESOLVE_)
#undef RESOLVE_
  return true;
}

static void describe(struct gpu *g, int device, int major, int minor) {
  struct text t = { 0 };
  char name[100] = "a CUDA device";
  cu.name(name, sizeof name, device);
  text_addf(&t, ", %d MiB, compute capability %d.%d", (int)(g->bytes >> 20), major, minor);
  join(g->text, sizeof g->text, (const char *[]){ name, text_of(&t) }, 2);
  text_free(&t);
}

static bool look_at(struct gpu *g, int ordinal) {
  int device = 0, processors = 0, shared = 0, major = 0, minor = 0;
  if (cu.device(&device, ordinal) || cu.attribute(&processors, PROCESSORS, device) ||
      cu.attribute(&shared, SHARED_BYTES, device) || cu.attribute(&major, CAPABILITY_MAJOR, device) ||
      cu.attribute(&minor, CAPABILITY_MINOR, device) || cu.total(&g->bytes, device))
    return missing("the device does not say what it is");
  if (major < 8) return missing("the GPU is older than compute capability 8.0");
  g->ordinal = device;
  g->capability = 10 * major + minor;
  if (cu.version(&g->driver_version)) g->driver_version = 0;
  g->machine = (struct ptx_machine){ processors, (size_t)shared };
  pthread_mutex_init(&g->lock, NULL);
  pthread_mutex_init(&g->recorder_lock, NULL);
  pthread_mutex_init(&g->words.lock, NULL);
  pthread_mutex_init(&g->stops.lock, NULL);
  for (int q = 0; q < N_QUEUES; q++) pthread_mutex_init(&g->up[q].lock, NULL);
  pthread_mutex_init(&g->down.lock, NULL);
  atomic_init(&g->limit, (int64_t)g->bytes);
  atomic_init(&g->cache_limit, INT64_MAX);
  describe(g, device, major, minor);
  return true;
}

static void in_child(void) { atomic_store(&found.is_child, true); }

static void find_devices(void) {
  int n = 0;
  pthread_atfork(NULL, NULL, in_child);
  if (!resolve()) return;
  if (cu.init(0) || cu.count(&n) || n < 1) { missing("the NVIDIA driver shows no GPU"); return; }
  for (int i = 0; i < n && found.n < MOST_GPUS; i++) found.n += look_at(&found.gpu[found.n], i);
}

const char *cuda_absence(void) {
  pthread_once(&found.once, find_devices);
  if (!found.n) return found.why;
  if (!atomic_load_explicit(&found.is_child, memory_order_relaxed)) return NULL;
  return "the device belongs to the process that this one was forked from";
}

bool cuda_available(void) { return !cuda_absence(); }
bool cuda_is_there(const struct gpu *g) { return !cuda_absence() && g - found.gpu < found.n; }
const char *cuda_text(const struct gpu *g) { return cuda_is_there(g) ? g->text : NULL; }

struct gpu *cuda_gpu(int i) {
  pthread_once(&found.once, find_devices);
  return i == 0 || (i > 0 && i < found.n) ? &found.gpu[i] : NULL;
}

struct ptx_machine cuda_machine(const struct gpu *g) {
  return cuda_is_there(g) ? g->machine : (struct ptx_machine){ 1, 48 << 10 };
}

const char *cuda_message(void) { return message; }

/* Errors after which a context answers nothing else: of memory that is not to be trusted, and of kernels that went wrong. */
static bool is_for_good(result r) {
  return r == 214 || r == 220 || r == 700 || r == 702 || r == 709 || r == 710 || (r >= 714 && r <= 719);
}

static const char lost_text[] = "; the device is lost";

int cuda_status(result r, const char *doing) {
  const char *text = NULL;
  if (r == SUCCESS) return CUDA_OK;
  if (cu.error_text(r, &text) || !text) text = "unknown error";
  join(message, sizeof message, (const char *[]){ "cuda: ", doing, ": ", text, is_for_good(r) ? lost_text : "" }, 5);
  return r == OUT_OF_MEMORY ? CUDA_NO_MEMORY : CUDA_FAILED;
}

static _Thread_local handle callers; /* the context that was this thread's before ours; NULL: there was none */

static int make_current(handle context, const char *doing) {
  handle now = NULL;
  int s = cuda_status(cu.current(&now), doing);
  if (s || now == context) return s;
  if (now && !callers) callers = now;
  return cuda_status(cu.set_current(context), doing);
}

void cuda_leave(void) {
  if (callers) cu.set_current(callers);
  callers = NULL;
}

/* Lock held. */
static int open_context(struct gpu *g, const char *doing) {
  handle context = NULL;
  int s = cuda_status(cu.retain(&context, g->ordinal), doing);
  if (!s) s = make_current(context, doing);
  for (int q = 0; !s && q < N_QUEUES; q++)
    if (!g->queue[q].stream) s = cuda_status(cu.stream_new(&g->queue[q].stream, NON_BLOCKING), doing);
  if (!s) atomic_store(&g->context, context);
  return s;
}

int cuda_enter(struct gpu *g, const char *doing) {
  const char *why = cuda_absence();
  if (why) return cuda_say(doing, why), CUDA_FAILED;
  handle context = atomic_load_explicit(&g->context, memory_order_acquire);
  int s = CUDA_OK;
  if (!context) {
    pthread_mutex_lock(&g->lock);
    s = g->context ? CUDA_OK : open_context(g, doing);
    pthread_mutex_unlock(&g->lock);
    context = atomic_load(&g->context);
  }
  return s ? s : make_current(context, doing);
}

/* ---- Points of queues --------------------------------------------------------------------------------------------------- */

/* Lock held, context entered. */
static void mark(struct points *p, uint64_t n) {
  handle *e = &p->event[n % POINTS];
  if ((!*e && cu.event_new(e, UNTIMED)) || cu.event_record(*e, p->stream)) *e = NULL; /* whoever asks for it tries again */
}

static uint64_t record(struct points *p) {
  uint64_t n = ++p->recorded;
  atomic_store(&p->owed, 0);
  mark(p, n);
  return n;
}

uint64_t cuda_owe_point(struct gpu *g, enum queue q) {
  struct points *p = &g->queue[q];
  if (atomic_load(&p->owed) == 0) atomic_store(&p->owed, clock_seconds());
  return p->recorded + 1;
}

static uint64_t owe(struct gpu *g, enum queue q) {
  if (!cuda_is_there(g)) return 0;
  pthread_mutex_lock(&g->lock);
  uint64_t n = cuda_owe_point(g, q);
  pthread_mutex_unlock(&g->lock);
  return n;
}

void cuda_pay_points(struct gpu *g) {
  struct points *p = &g->queue[QUEUE_COMPUTE];
  double owed = atomic_load_explicit(&p->owed, memory_order_relaxed);
  if (owed == 0 || clock_seconds() - owed < LATE_SECONDS) return;
  pthread_mutex_lock(&g->lock);
  if (atomic_load(&p->owed) == owed) record(p);
  pthread_mutex_unlock(&g->lock);
}

uint64_t cuda_record(struct gpu *g, enum queue q) {
  if (cuda_is_recording()) cuda_spoil();
  if (q == QUEUE_COMPUTE || cuda_enter(g, "recording")) return owe(g, q); /* whoever waits for it tries again */
  pthread_mutex_lock(&g->lock);
  uint64_t n = record(&g->queue[q]);
  pthread_mutex_unlock(&g->lock);
  return n;
}

uint64_t cuda_point_after(struct gpu *g, enum queue q) { return g->queue[q].recorded + 1; }

/* The event of a point, which is recorded now if it has none yet; NULL: it cannot be, and who waits for it waits for the stream. */
static handle event_of(struct gpu *g, enum queue q, uint64_t point) {
  struct points *p = &g->queue[q];
  pthread_mutex_lock(&g->lock);
  if (point > p->recorded) record(p);
  else if (!p->event[point % POINTS]) mark(p, point);
  handle e = p->event[point % POINTS];
  pthread_mutex_unlock(&g->lock);
  return e;
}

static void note_past(struct points *p, uint64_t point) {
  uint64_t past = atomic_load(&p->past);
  while (past < point && !atomic_compare_exchange_weak(&p->past, &past, point)) {}
}

int cuda_wait(struct gpu *g, enum queue q, uint64_t point) {
  if (point <= atomic_load(&g->queue[q].past)) return CUDA_OK;
  int s = cuda_enter(g, "waiting");
  if (s) return s;
  handle e = event_of(g, q, point);
  s = cuda_status(e ? cu.event_wait(e) : cu.wait(g->queue[q].stream), "running");
  if (!s) note_past(&g->queue[q], point);
  return s;
}

bool cuda_is_past(struct gpu *g, enum queue q, uint64_t point) {
  if (point <= atomic_load(&g->queue[q].past)) return true;
  if (cuda_enter(g, "asking")) return false;
  handle e = event_of(g, q, point);
  bool yes = e && cu.event_ask(e) == SUCCESS;
  if (yes) note_past(&g->queue[q], point);
  return yes;
}

int cuda_follow(struct gpu *g, enum queue q, struct gpu *of, enum queue other, uint64_t point) {
  int s = g == of ? CUDA_OK : cuda_enter(of, "waiting");
  handle e = s ? NULL : event_of(of, other, point);
  if (!s) s = cuda_enter(g, "waiting");
  if (s) return s;
  return e ? cuda_status(cu.stream_after(g->queue[q].stream, e, 0), "waiting") : cuda_wait(of, other, point);
}

bool cuda_is_drained(struct gpu *g) { return !cu.wait(g->queue[QUEUE_COMPUTE].stream); }

/* ---- Stopping ------------------------------------------------------------------------------------------------------------- */

/* Words to their place; it is there when this returns. Lock held, context entered. */
static int send(const struct gpu_stops *t, uint64_t at, size_t bytes, const char *doing) {
  int s = cuda_status(cu.to_device(at, t->word, bytes, t->stream), doing);
  return s ? s : cuda_status(cu.wait(t->stream), doing);
}

/* Lock held, context entered. */
static int make_stops(struct gpu_stops *t) {
  static const char doing[] = "making a place to look at";
  const size_t bytes = STOPS * sizeof(uint64_t);
  uint64_t at = 0;
  int s = t->stream ? CUDA_OK : cuda_status(cu.stream_new(&t->stream, NON_BLOCKING), doing);
  if (!s && !t->word) s = cuda_status(cu.host_alloc(&t->word, bytes, 0), doing);
  if (!s) s = cuda_status(cu.alloc(&at, bytes), doing);
  if (!s) s = (memset(t->word, 0, bytes), send(t, at, bytes, doing));
  if (s && at) cu.free(at);
  if (!s) t->at = at;
  return s;
}

/* One of few places, and a number that tells whose it is: no number comes again, so places are never cleared. */
int cuda_stop_open(struct gpu *g, struct stop *out) {
  int s = cuda_enter(g, "making a place to look at");
  if (s) return s;
  pthread_mutex_lock(&g->stops.lock);
  if (!g->stops.at) s = make_stops(&g->stops);
  uint64_t n = ++g->stops.n;
  pthread_mutex_unlock(&g->stops.lock);
  *out = (struct stop){ g->stops.at + n % STOPS * sizeof n, n };
  return s;
}

int cuda_stop(struct gpu *g, const struct stop *stop) {
  int s = cuda_enter(g, "stopping");
  if (s) return s;
  pthread_mutex_lock(&g->stops.lock);
  memcpy(g->stops.word, &stop->number, sizeof stop->number);
  s = send(&g->stops, stop->at, sizeof stop->number, "stopping");
  pthread_mutex_unlock(&g->stops.lock);
  return s;
}

/* ---- A lost device -------------------------------------------------------------------------------------------------------- */

bool cuda_is_lost(struct gpu *g) {
  if (!cuda_is_there(g) || !g->context || make_current(g->context, "asking")) return true;
  result r = cu.ask(g->queue[QUEUE_COMPUTE].stream);
  return r != SUCCESS && r != NOT_READY;
}

void cuda_note_launch(struct gpu *g, const char *name) {
  if (cuda_record_name(name)) return;
  pthread_mutex_lock(&g->lock);
  struct launched *l = &g->launched[g->n_launched++ % SUSPECTS];
  l->point = cuda_point_after(g, QUEUE_COMPUTE);
  join(l->name, sizeof l->name, &name, 1);
  pthread_mutex_unlock(&g->lock);
}

int cuda_blame(struct gpu *g, int how) {
  char before[sizeof message];
  const char *texts[2 * SUSPECTS + 4] = { before, strstr(message, lost_text) ? "" : lost_text, ", in one of the kernels " };
  const int n_lead = 3;
  int n = n_lead;
  if (how != CUDA_FAILED || !cuda_is_there(g) || !cuda_is_lost(g)) return how;
  join(before, sizeof before, (const char *[]){ message }, 1);
  pthread_mutex_lock(&g->lock);
  uint64_t past = atomic_load(&g->queue[QUEUE_COMPUTE].past), first = g->n_launched > SUSPECTS ? g->n_launched - SUSPECTS : 0;
  for (uint64_t i = first; i < g->n_launched; i++) {
    const struct launched *l = &g->launched[i % SUSPECTS];
    if (l->point <= past) continue;
    if (n > n_lead) texts[n++] = ", ";
    texts[n++] = l->name;
  }
  if (n > n_lead) join(message, sizeof message, texts, n);
  pthread_mutex_unlock(&g->lock);
  return how;
}

/* ---- Others --------------------------------------------------------------------------------------------------------------- */

void *cuda_stream(struct gpu *g) { return cuda_enter(g, "asking") ? NULL : g->queue[QUEUE_COMPUTE].stream; }

int cuda_order(struct gpu *g, uint64_t stream, bool is_ours_first) {
  handle ours, theirs = (handle)(uintptr_t)(stream ? stream : 1), e = NULL;
  int s = cuda_enter(g, "waiting for a stream");
  if (s) return s;
  ours = g->queue[QUEUE_COMPUTE].stream;
  s = cuda_status(cu.event_new(&e, UNTIMED), "waiting for a stream");
  if (!s) s = cuda_status(cu.event_record(e, is_ours_first ? ours : theirs), "waiting for a stream");
  if (!s) s = cuda_status(cu.stream_after(is_ours_first ? theirs : ours, e, 0), "waiting for a stream");
  if (e) cu.event_free(e); /* once it is past */
  return s;
}

enum { ABOUT_TYPE = 2, ABOUT_DEVICE = 9, ABOUT_START = 11, ABOUT_BYTES = 12, TYPE_DEVICE = 2 };

static bool is_of(const struct gpu *g, uint64_t at) {
  unsigned type = 0;
  int device = -1;
  return !cu.about(&type, ABOUT_TYPE, at) && type == TYPE_DEVICE && !cu.about(&device, ABOUT_DEVICE, at) && device == g->ordinal;
}

/* Where the block ends that the address stands in; 0: it is in none of this device. */
static uint64_t end_of_block(const struct gpu *g, uint64_t at) {
  uint64_t start = 0;
  size_t bytes = 0;
  bool is_known = is_of(g, at) && !cu.about(&start, ABOUT_START, at) && !cu.about(&bytes, ABOUT_BYTES, at);
  return is_known && start <= at && at - start < bytes ? start + bytes : 0;
}

/* Blocks may touch: some allocators map one after the other into addresses that they have reserved. */
bool cuda_has(struct gpu *g, uint64_t at, size_t bytes) {
  uint64_t end = at + bytes;
  if (cuda_enter(g, "asking about memory")) return false;
  while (at && at < end) at = end_of_block(g, at);
  return at;
}

/* ---- Code --------------------------------------------------------------------------------------------------------------- */

void cuda_unload(struct gpu *g, struct cuda_module *m) {
  if (!m || cuda_enter(g, "unloading")) return;
  if (cuda_is_drained(g)) cu.unload((handle)m); /* what is enqueued may still run it */
}

int cuda_find(struct gpu *g, struct cuda_module *m, const char *name, struct cuda_entry **out) {
  handle f = NULL;
  int s = cuda_enter(g, "finding an entry");
  if (!s) s = cuda_status(cu.find(&f, (handle)m, name), "finding an entry");
  *out = f;
  return s;
}

/* The driver refuses a launch with more than was allowed before. That never becomes less: another thread may be about to launch the
 * same entry with more. */
int cuda_allow_shared(handle f, size_t bytes) {
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  int now = 0;
  if (bytes <= 32 << 10) return CUDA_OK; /* the limit of 48 KB counts what the entry declares itself, too */
  pthread_mutex_lock(&lock);
  int s = cuda_status(cu.ask_function(&now, FUNCTION_SHARED_BYTES, f), "asking for shared memory");
  if (!s && now < (int)bytes) s = cuda_status(cu.set_function(f, FUNCTION_SHARED_BYTES, (int)bytes), "asking for shared memory");
  pthread_mutex_unlock(&lock);
  return s;
}

enum { EARLY = 6 }; /* the attribute of a launch that CUDA calls programmatic stream serialization */

static int start_early(struct gpu *g, const struct cuda_launch *l, void *pointers[]) {
  struct launch_attribute early = { .id = EARLY, .value.is_early = 1 };
  struct launch_config c = { .shared_bytes = (unsigned)l->shared_bytes, .stream = cuda_working_stream(g), .attributes = &early,
                             .n_attributes = 1 };
  memcpy(c.grid, l->grid, sizeof c.grid);
  memcpy(c.block, l->block, sizeof c.block);
  return cuda_status(cu.launch_with(&c, (handle)l->entry, pointers, NULL), "launching");
}

int cuda_start(struct gpu *g, const struct cuda_launch *l, void *pointers[]) {
  handle f = (handle)l->entry;
  int s = cuda_allow_shared(f, l->shared_bytes);
  if (s) return s;
  if (l->is_early && !cuda_is_recording()) return start_early(g, l, pointers);
  return cuda_status(cu.launch(f, l->grid[0], l->grid[1], l->grid[2], l->block[0], l->block[1], l->block[2],
                               (unsigned)l->shared_bytes, cuda_working_stream(g), pointers, NULL), "launching");
}

static int start_all(struct gpu *g, int n, const struct cuda_launch l[], int n_params, const uint64_t params[], void *pointers[]) {
  int s = 0;
  for (int i = 0; i < n && !s; i++)
    s = cuda_is_recording() ? cuda_record_launch(g, &l[i], n_params, params, pointers) : cuda_start(g, &l[i], pointers);
  return s;
}

static int start_timed(struct gpu *g, int n, const struct cuda_launch l[], int n_params, const uint64_t params[], void *pointers[],
                       double *ms) {
  handle a = NULL, b = NULL, stream = g->queue[QUEUE_COMPUTE].stream;
  float took = 0;
  int s = cuda_status(cu.event_new(&a, 0), "timing");
  if (!s) s = cuda_status(cu.event_new(&b, 0), "timing");
  if (!s) s = cuda_status(cu.event_record(a, stream), "timing");
  if (!s) s = start_all(g, n, l, n_params, params, pointers);
  if (!s) s = cuda_status(cu.event_record(b, stream), "timing");
  int done = cuda_status(cu.wait(stream), "running");
  if (!s && !done) s = cuda_status(cu.event_ms(&took, a, b), "timing");
  if (a) cu.event_free(a);
  if (b) cu.event_free(b);
  *ms = took;
  return s ? s : done;
}

int cuda_launch(struct gpu *g, int n, const struct cuda_launch l[], int n_params, uint64_t params[], double *ms) {
  void *few[64], **pointers = n_params <= 64 ? few : mem_alloc((size_t)n_params * sizeof *pointers);
  int s = cuda_enter(g, "launching");
  if (!pointers) return cuda_say("launching", "out of memory"), CUDA_NO_MEMORY;
  for (int i = 0; i < n_params; i++) pointers[i] = &params[i];
  if (!s) s = ms ? start_timed(g, n, l, n_params, params, pointers, ms) : start_all(g, n, l, n_params, params, pointers);
  if (pointers != few) mem_free(pointers);
  return s;
}
