/* libcuda.c -- the functions of libcuda.so.1 that weft asks for, on the machine of machine.h: everything is done when it is
 * enqueued. WEFT_TEST_DRIVER_BYTES: how much memory the devices have. WEFT_TEST_DRIVER_CAPABILITY: 90 is 9.0, 80 unless it is said.
 * Blocks of threads have as much shared memory as they do there.
 * WEFT_TEST_DRIVER_DEVICES: how many there are, up to 8. A kernel that goes wrong, or touches memory of another device, says so on
 * stderr and loses all of them, as an illegal access does.
 *
 * WEFT_TEST_DRIVER_LATE=1: what is enqueued is done when somebody waits for it, and not before; 2: now and then before, too. Pinned
 * memory is read and written then, and memory that is freed is gone at once: who trusts in an order that he has not asked for finds
 * other bytes, or loses the device. Calls can be made to fail, one by one (test_driver_fail).
 *
 * WEFT_TEST_DRIVER_RACES=1: accesses that nothing orders lose the device, too (races.h). */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "estimate.h"
#include "machine.h"

typedef int result;
typedef void *handle;
enum { MOST_PARAMS = 256 };
enum { OK = 0, INVALID = 1, NO_MEMORY = 2, BAD_CODE = 200, BAD_PTX = 218, NOT_FOUND = 500, NOT_READY = 600, LOST = 719 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of all that follows */
static struct piece { uint64_t at; size_t bytes; int device; } *pieces;
enum { MOST_DEVICES = 8 };
static char context[MOST_DEVICES];       /* by device: the address of one is its context */
static _Thread_local handle entered;     /* the context that is this thread's; NULL: none is */
static int n_pieces, last_piece;
static size_t taken;
static result lost;                      /* 0: they are not */

/* ---- Streams that record, and graphs: what was enqueued there, in order ---- */

struct function;
struct work {
  const struct function *f;              /* a launch, */
  unsigned grid[3], block[3], shared;
  uint64_t param[MOST_PARAMS];
  void *to;                              /* or a copy, */
  const void *from;
  uint64_t there;                        /* the side of it that is a device's */
  size_t bytes;
  int device;
  void (*call)(void *of);                /* or what a library does */
  void *of;
  void *own;                             /* bytes to be freed afterwards */
  struct stream *after;                  /* or to wait until that stream has done so many */
  uint64_t until;
};
struct graph { int n, room, refs; struct work *w; };
struct stream {
  struct graph *records;                 /* NULL: what is enqueued is done, or */
  struct graph late;                     /* is to be done, from n_done on */
  int n_done;
  uint64_t first;                        /* how many were done and forgotten */
};
struct event { struct stream *of; uint64_t until; };
enum { STREAMS = 64 };
static struct stream streams[STREAMS];
static int n_streams;

static struct work *add_to(struct graph *g) {
  if (g->n == g->room) g->w = realloc(g->w, (size_t)(g->room = 2 * g->room + 8) * sizeof *g->w);
  return memset(&g->w[g->n++], 0, sizeof *g->w);
}

/* NULL: one of somebody else, in which there is nothing. */
static struct stream *stream_of(handle h) {
  struct stream *s = h;
  return s < streams || s >= streams + n_streams ? NULL : s;
}

static int lateness(void) {
  static int late = -1;
  const char *s = late < 0 ? getenv("WEFT_TEST_DRIVER_LATE") : NULL;
  if (late < 0) late = s ? atoi(s) : 0;
  return late;
}

/* A place in what the stream records, or is to do later; NULL: neither. Lock held. */
static struct work *recorded(handle h) {
  struct stream *s = stream_of(h);
  if (!s) return NULL;
  return s->records ? add_to(s->records) : lateness() ? add_to(&s->late) : NULL;
}

static size_t total(void) {
  const char *s = getenv("WEFT_TEST_DRIVER_BYTES");
  return s ? (size_t)strtoull(s, NULL, 0) : (size_t)(estimate_is_on() ? 139 : 2) << 30;
}

static int running_on; /* the device of the kernel that runs, or that is asked about */
static bool is_inside(const struct piece *p, uint64_t at, size_t bytes) { return at >= p->at && at - p->at <= p->bytes && p->bytes - (at - p->at) >= bytes; }

static bool is_allocated(uint64_t at, int bytes, struct stretch *around) {
  bool is_found = last_piece < n_pieces && is_inside(&pieces[last_piece], at, (size_t)bytes);
  if (!is_found)
    for (last_piece = 0; last_piece < n_pieces && !is_found; last_piece += !is_found)
      is_found = is_inside(&pieces[last_piece], at, (size_t)bytes);
  if (!is_found || pieces[last_piece].device != running_on) return false;
  return *around = (struct stretch){ pieces[last_piece].at, pieces[last_piece].bytes }, true;
}

/* ---- Failing ---- */

static _Atomic int n_calls, fails_at, failure; /* the call with this number, from 1 on; 0: none */
static _Atomic bool fails_for_good;            /* and all after it */

/* The next call is number 1. An error 719 loses the devices. */
void test_driver_fail(int at, int how, bool for_good);
void test_driver_fail(int at, int how, bool for_good) {
  atomic_store(&fails_at, 0), atomic_store(&n_calls, 0);
  atomic_store(&failure, how), atomic_store(&fails_for_good, for_good), atomic_store(&fails_at, at);
}

static const char *_Atomic last_failed = "";
const char *test_driver_failed(int *n);
const char *test_driver_failed(int *n) { return *n = atomic_load(&n_calls), last_failed; } /* which call failed, and calls so far */

static result fails(const char *name) {
  int n = atomic_fetch_add(&n_calls, 1) + 1, at = atomic_load(&fails_at);
  bool yes = at && (n == at || (n > at && atomic_load(&fails_for_good)));
  if (yes && n == at) atomic_store(&last_failed, name);
  if (!yes) return OK;
  pthread_mutex_lock(&lock);
  if (atomic_load(&failure) == LOST) lost = LOST;
  pthread_mutex_unlock(&lock);
  return atomic_load(&failure);
}

/* WEFT_TEST_DRIVER_IDLE=1: kernels are not run, to measure what the host does for each of them; new memory is 0, so that their results
 * are. */
static bool is_idle(void) {
  static int idle = -1;
  if (idle < 0) idle = getenv("WEFT_TEST_DRIVER_IDLE") != NULL;
  return idle;
}

#define API(name, ...) result name(__VA_ARGS__); result name(__VA_ARGS__)
#define TRY do { result r_ = fails(__func__); if (r_) return r_; } while (0)

API(cuInit, unsigned flags) { TRY; return (void)flags, OK; }
API(cuDeviceGetCount, int *n) {
  TRY;
  const char *s = getenv("WEFT_TEST_DRIVER_DEVICES");
  int some = s ? atoi(s) : 1;
  return *n = some < 1 ? 1 : some > MOST_DEVICES ? MOST_DEVICES : some, OK;
}
API(cuDeviceGet, int *d, int i) { TRY; return *d = i, OK; }
API(cuDeviceGetName, char *name, int room, int d) { TRY; return (void)d, snprintf(name, (size_t)room, "a machine for PTX"), OK; }
API(cuDeviceTotalMem_v2, size_t *bytes, int d) { TRY; return (void)d, *bytes = total(), OK; }

enum { PROCESSORS = 16, CAPABILITY_MAJOR = 75, CAPABILITY_MINOR = 76, SHARED = 97 };

static int capability(void) {
  const char *s = getenv("WEFT_TEST_DRIVER_CAPABILITY");
  return s ? atoi(s) : 80;
}

/* Of a block of threads, if it asks for it. */
static int most_shared(void) {
  int c = capability();
  return (c == 80 || c == 87 ? 163 : c < 90 || c >= 120 ? 99 : 227) << 10;
}

API(cuDeviceGetAttribute, int *x, int which, int d) {
  TRY;
  (void)d;
  *x = which == PROCESSORS ? estimate_is_on() ? 132 : 4 : which == CAPABILITY_MAJOR ? capability() / 10 : which == CAPABILITY_MINOR ? capability() % 10
     : which == SHARED ? most_shared() : 0;
  return OK;
}

API(cuDevicePrimaryCtxRetain, handle *c, int d) { TRY; return *c = &context[d], OK; }
API(cuCtxSetCurrent, handle c) { TRY; return entered = c, OK; }
API(cuCtxGetCurrent, handle *c) { return *c = entered, OK; }

/* The device of the context that this thread has entered; -1: it has entered none, or that of somebody else. */
static int current(void) {
  uintptr_t at = (uintptr_t)entered - (uintptr_t)context;
  return at < MOST_DEVICES ? (int)at : -1;
}

API(cuGetErrorString, result r, const char **text) {
  *text = r == NO_MEMORY ? "out of memory" : r == BAD_PTX ? "a PTX JIT compilation failed" : r == LOST ? "unspecified launch failure"
        : r == NOT_READY ? "device not ready" : "invalid argument";
  return OK;
}

API(cuDriverGetVersion, int *v) { TRY; return *v = 13000, OK; }

/* ---- Compiling: machine code is the PTX behind a word that says so ---- */

static const char cubin_head[] = "CUBIN\n";
enum { HEAD = sizeof cubin_head - 1 };

enum { LOG = 5, LOG_BYTES = 6 };
struct link { char *log, *code; size_t room; };
static _Atomic int n_links;

static void take_options(struct link *l, unsigned n, int *options, void **values) {
  for (unsigned i = 0; i < n; i++) {
    if (options[i] == LOG) l->log = values[i];
    if (options[i] == LOG_BYTES) l->room = (size_t)(uintptr_t)values[i];
  }
}

/* WEFT_TEST_DRIVER_REFUSES: PTX with this text is refused, with the line it stands in, as the real compiler does. */
static bool refuses(const char *ptx, char *why, size_t room) {
  const char *text = getenv("WEFT_TEST_DRIVER_REFUSES"), *at = text ? strstr(ptx, text) : NULL;
  int line = 1;
  for (const char *s = ptx; at && s < at; s++) line += *s == '\n';
  if (at) snprintf(why, room, "ptxas application ptx input, line %d; error   : Not an instruction here\n", line);
  return at;
}

/* FNV-1a */
static uint64_t hash_of(const char *text) {
  uint64_t h = 0xcbf29ce484222325u;
  for (; *text; text++) h = (h ^ (unsigned char)*text) * 0x100000001b3u;
  return h;
}

/* WEFT_TEST_DRIVER_TEXTS: a folder where every text that is to be compiled is kept, once, for an assembler. The names of its entries
 * are made different from those of all other texts, so that many can be given to it at a time. */
static bool keeps(const char *ptx) {
  static const char word[] = ".entry ";
  const char *folder = getenv("WEFT_TEST_DRIVER_TEXTS"), *from = ptx;
  char path[500];
  if (!folder) return true;
  unsigned long long hash = hash_of(ptx);
  snprintf(path, sizeof path, "%s/%016llx.ptx", folder, hash);
  FILE *f = fopen(path, "wx");
  if (!f) return errno == EEXIST;
  for (const char *at; (at = strstr(from, word)); from = at + sizeof word - 1)
    fprintf(f, "%.*s%st%016llx_", (int)(at - from), from, word, hash);
  fputs(from, f);
  bool ok = !ferror(f);
  return !fclose(f) && ok;
}

/* What was linked last is loaded next, mostly: its module need not be read from the text again. */
enum { LINKED = 8 };
static struct { struct module *m; char *ptx; } linked[LINKED];

static void keep_linked(struct module *m, const char *ptx) {
  static int next;
  pthread_mutex_lock(&lock);
  if (linked[next].m) module_free(linked[next].m), free(linked[next].ptx);
  linked[next].m = m, linked[next].ptx = strdup(ptx);
  next = (next + 1) % LINKED;
  pthread_mutex_unlock(&lock);
}

/* The module of this text, and no longer kept; NULL: it has not been linked. */
static struct module *take_linked(const char *ptx) {
  struct module *m = NULL;
  pthread_mutex_lock(&lock);
  for (int k = 0; k < LINKED && !m; k++) {
    if (!linked[k].m || strcmp(linked[k].ptx, ptx)) continue;
    m = linked[k].m, linked[k].m = NULL;
    free(linked[k].ptx);
  }
  pthread_mutex_unlock(&lock);
  return m;
}

static struct module *compiled(const char *ptx, const struct link *l) {
  char why[200] = "";
  atomic_fetch_add(&n_links, 1);
  if (!keeps(ptx)) snprintf(why, sizeof why, "the text cannot be kept");
  bool is_refused = *why || refuses(ptx, why, sizeof why);
  struct module *m = is_refused ? NULL : module_parse(ptx, why, sizeof why);
  if (!m && l->log) snprintf(l->log, l->room, "%s", why);
  return m;
}

API(cuModuleLoadDataEx, handle *m, const void *code, unsigned n, int *options, void **values) {
  TRY;
  char why[200];
  struct link l = { 0 };
  bool is_code = !memcmp(code, cubin_head, HEAD);
  take_options(&l, n, options, values);
  *m = is_code ? take_linked((const char *)code + HEAD) : compiled(code, &l);
  if (is_code && !*m) *m = module_parse((const char *)code + HEAD, why, sizeof why);
  return *m ? OK : is_code ? BAD_CODE : BAD_PTX;
}

API(cuLinkCreate_v2, unsigned n, int *options, void **values, handle *out) {
  TRY;
  struct link *l = calloc(1, sizeof *l);
  take_options(l, n, options, values);
  return *out = l, OK;
}

API(cuLinkAddData_v2, handle link, int type, void *ptx, size_t bytes, const char *name, unsigned n, int *options, void **values) {
  TRY;
  struct link *l = link;
  (void)type, (void)name, (void)n, (void)options, (void)values;
  struct module *m = compiled(ptx, l);
  if (!m) return BAD_PTX;
  keep_linked(m, ptx);
  l->code = malloc(HEAD + bytes);
  memcpy(l->code, cubin_head, HEAD);
  memcpy(l->code + HEAD, ptx, bytes);
  return OK;
}

API(cuLinkComplete, handle link, void **code, size_t *bytes) {
  TRY;
  struct link *l = link;
  return *code = l->code, *bytes = strlen(l->code) + 1, OK;
}

API(cuLinkDestroy, handle link) { TRY; return free(((struct link *)link)->code), free(link), OK; }

static _Atomic int n_launches, n_records, n_others, n_graphs; /* calls that cost time: others take memory, move bytes, or ask about
                                                                 events */
int test_driver_calls(int which);
int test_driver_calls(int which) {
  return atomic_load(which == 0 ? &n_launches : which == 1 ? &n_records : which == 2 ? &n_others : &n_graphs);
}

int test_driver_links(void);
int test_driver_links(void) { return atomic_load(&n_links); } /* PTX compiled so far */

API(cuModuleUnload, handle m) { TRY; return module_free(m), OK; }

enum { UNASKED_SHARED = 48 << 10 }; /* what is declared among it */

/* A function is an entry and the module it is of. */
struct function { const struct module *m; const struct entry *e; _Atomic int most_shared; };

API(cuModuleGetFunction, handle *f, handle module, const char *name) {
  TRY;
  const struct module *m = module;
  for (int i = 0; i < m->n_entries; i++) {
    if (strcmp(m->entries[i].name, name)) continue;
    struct function *x = malloc(sizeof *x); /* as long as the process */
    *x = (struct function){ m, &m->entries[i], UNASKED_SHARED - (int)m->entries[i].shared_bytes };
    return *f = x, OK;
  }
  return NOT_FOUND;
}

enum { FUNCTION_SHARED = 8 };

API(cuFuncGetAttribute, int *x, int which, handle f) {
  TRY;
  return *x = atomic_load(&((struct function *)f)->most_shared), which == FUNCTION_SHARED ? OK : INVALID;
}

API(cuFuncSetAttribute, handle f, int which, int x) {
  TRY;
  struct function *fn = f;
  bool is_less = x < atomic_load(&fn->most_shared); /* who makes it less takes it from threads that are about to launch */
  if (which != FUNCTION_SHARED || is_less || x + (int)fn->e->shared_bytes > most_shared()) return INVALID;
  return atomic_store(&fn->most_shared, x), OK;
}

/* Whether such a launch is one that a GPU takes. */
static bool is_possible(const struct function *f, const unsigned grid[3], const unsigned block[3], unsigned shared) {
  unsigned threads = block[0] * block[1] * block[2], most = f->e->most_threads ? (unsigned)f->e->most_threads : 1024;
  return grid[0] && grid[1] && grid[2] && threads && threads <= most && grid[0] <= INT32_MAX && grid[1] <= 65535 && grid[2] <= 65535 &&
         block[2] <= 64 && (int)shared <= atomic_load(&f->most_shared);
}

static bool is_known(uint64_t there, size_t bytes) {
  for (int i = 0; i < n_pieces; i++) if (is_inside(&pieces[i], there, bytes)) return true;
  return false;
}

static void move_late(struct work *w) {
  if (is_known(w->there, w->bytes)) memcpy(w->to, w->from, w->bytes);
  else fprintf(stderr, "a copy to or from memory that was freed before it was its turn\n"), lost = LOST;
}

static void do_until(struct stream *, uint64_t until);

/* Lock held. */
static void perform(struct work *w) {
  void *params[MOST_PARAMS + 1];
  if (w->after) do_until(w->after, w->until);
  if (lost) return;
  if (w->call) w->call(w->of);
  if (w->to) move_late(w);
  if (!w->f || is_idle()) return;
  for (int i = 0; i < w->f->e->n_params; i++) params[i] = &w->param[i];
  running_on = w->device;
  const char *why = machine_run(w->f->m, w->f->e, w->grid, w->block, w->shared, params, is_allocated);
  if (why) fprintf(stderr, "%s\n", why), lost = LOST;
}

/* ---- Late: what a stream has not done yet. Lock held ---- */

static uint64_t enqueued(const struct stream *s) { return s->first + (uint64_t)s->late.n; }

/* What is done is forgotten once all of it is. */
static void do_until(struct stream *s, uint64_t until) {
  while (s->first + (uint64_t)s->n_done < until && s->n_done < s->late.n) {
    struct work w = s->late.w[s->n_done++]; /* a copy: others may be added meanwhile */
    perform(&w);
    free(w.own);
  }
  if (s->n_done != s->late.n) return;
  s->first += (uint64_t)s->late.n;
  s->n_done = s->late.n = 0;
}

/* Of a stream that was asked about, or where it may happen to be done already, the next one. */
static void do_some(struct stream *s) { do_until(s, s->first + (uint64_t)s->n_done + 1); }

static void now_and_then(void) {
  static unsigned seed = 1;
  for (int i = 0; lateness() == 2 && i < n_streams; i++) {
    seed = seed * 1664525u + 1013904223u;
    if (seed >> 30 == 0) do_some(&streams[i]);
  }
}

static bool is_done(const struct stream *s, uint64_t until) { return s->first + (uint64_t)s->n_done >= until; }

API(cuLaunchKernel, handle f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
    handle stream, void **params, void **extra) {
  TRY;
  const struct function *x = f;
  (void)extra;
  atomic_fetch_add(&n_launches, 1);
  struct work now = { .f = x, .device = current(), .grid = { gx, gy, gz }, .block = { bx, by, bz }, .shared = shared };
  if (now.device < 0 || !is_possible(x, now.grid, now.block, shared) || x->e->n_params > MOST_PARAMS) return INVALID;
  for (int i = 0; i < x->e->n_params; i++) memcpy(&now.param[i], params[i], sizeof now.param[i]);
  pthread_mutex_lock(&lock);
  struct work *later = recorded(stream);
  if (later) *later = now;
  else perform(&now);
  now_and_then();
  pthread_mutex_unlock(&lock);
  return OK; /* what went wrong is told to whoever waits */
}

struct config { unsigned grid[3], block[3], shared; handle stream; void *attributes; unsigned n; };
API(cuLaunchKernelEx, const struct config *c, handle f, void **params, void **extra) {
  return cuLaunchKernel(f, c->grid[0], c->grid[1], c->grid[2], c->block[0], c->block[1], c->block[2], c->shared, c->stream, params, extra);
}

/* For estimates memory is what a GPU has: pages that nobody touches are never there. */
static size_t whole_pages(size_t bytes) { return (bytes + 4095) / 4096 * 4096; }
static void *block_of(size_t bytes) {
  if (!estimate_is_on()) return aligned_alloc(256, (bytes + 255) / 256 * 256);
  void *p = mmap(NULL, whole_pages(bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return p == MAP_FAILED ? NULL : p;
}

API(cuMemAlloc_v2, uint64_t *at, size_t bytes) {
  TRY;
  atomic_fetch_add(&n_others, 1);
  pthread_mutex_lock(&lock);
  void *p = lost || current() < 0 || taken + bytes > total() ? NULL : block_of(bytes);
  if (p) {
    if (!estimate_is_on()) memset(p, is_idle() ? 0 : 0xdd, bytes);
    pieces = realloc(pieces, (size_t)(n_pieces + 1) * sizeof *pieces);
    pieces[n_pieces++] = (struct piece){ (uint64_t)(uintptr_t)p, bytes, current() };
    taken += bytes;
  }
  *at = (uint64_t)(uintptr_t)p;
  result r = lost ? lost : current() < 0 ? INVALID : p ? OK : NO_MEMORY;
  pthread_mutex_unlock(&lock);
  return r;
}

API(cuMemFree_v2, uint64_t at) {
  TRY;
  pthread_mutex_lock(&lock);
  for (int i = 0; i < n_pieces; i++) {
    if (pieces[i].at != at) continue;
    taken -= pieces[i].bytes;
    if (estimate_is_on()) munmap((void *)(uintptr_t)at, whole_pages(pieces[i].bytes));
    else free((void *)(uintptr_t)at);
    pieces[i] = pieces[--n_pieces];
    break;
  }
  pthread_mutex_unlock(&lock);
  return OK;
}

enum { MOST_PINNED = 256 };
static struct { const uint8_t *at; size_t bytes; } pinned[MOST_PINNED]; /* never freed */
static int n_pinned;

API(cuMemHostAlloc, void **p, size_t bytes, unsigned flags) {
  TRY;
  (void)flags;
  pthread_mutex_lock(&lock);
  bool ok = n_pinned < MOST_PINNED && (*p = malloc(bytes));
  if (ok) pinned[n_pinned].at = *p, pinned[n_pinned++].bytes = bytes;
  pthread_mutex_unlock(&lock);
  return ok ? OK : NO_MEMORY;
}

static bool is_pinned(const uint8_t *at) {
  for (int i = 0; i < n_pinned; i++) if (at >= pinned[i].at && at < pinned[i].at + pinned[i].bytes) return true;
  return false;
}

/* Of memory of the host that is not pinned the driver has the bytes, or has written them, when it returns. */
enum direction { UP, DOWN, THERE };
static result move(void *to, const void *from, size_t bytes, uint64_t there, enum direction which, handle stream) {
  atomic_fetch_add(&n_others, 1);
  pthread_mutex_lock(&lock);
  struct stream *s = stream_of(stream);
  struct work now = { .to = to, .from = from, .bytes = bytes, .there = there };
  bool is_at_once = which == DOWN && s && !s->records && !is_pinned(to);
  result r = lost ? lost : is_known(there, bytes) ? OK : INVALID;
  if (!r && is_at_once) do_until(s, enqueued(s)), r = lost;
  struct work *later = r || is_at_once ? NULL : recorded(stream);
  if (later && which == UP && !s->records && !is_pinned(from)) now.from = now.own = memcpy(malloc(bytes + 1), from, bytes);
  if (later) *later = now;
  else if (!r) perform(&now);
  now_and_then();
  pthread_mutex_unlock(&lock);
  return r;
}

static _Atomic int n_uploads;
int test_driver_uploads(void);
int test_driver_uploads(void) { return atomic_load(&n_uploads); } /* so far */

API(cuMemcpyHtoDAsync_v2, uint64_t to, const void *from, size_t bytes, handle s) {
  TRY;
  atomic_fetch_add(&n_uploads, 1);
  return move((void *)(uintptr_t)to, from, bytes, to, UP, s);
}
API(cuMemcpyDtoHAsync_v2, void *to, uint64_t from, size_t bytes, handle s) {
  TRY;
  return move(to, (const void *)(uintptr_t)from, bytes, from, DOWN, s);
}

API(cuMemcpyDtoDAsync_v2, uint64_t to, uint64_t from, size_t bytes, handle s) {
  TRY;
  return move((void *)(uintptr_t)to, (const void *)(uintptr_t)from, bytes, from, THERE, s);
}

enum { ABOUT_TYPE = 2, ABOUT_DEVICE = 9, ABOUT_START = 11, ABOUT_BYTES = 12, TYPE_DEVICE = 2 };

API(cuPointerGetAttribute, void *out, int which, uint64_t at) {
  TRY;
  struct piece found = { .device = -1 };
  pthread_mutex_lock(&lock);
  for (int i = 0; i < n_pieces && found.device < 0; i++) if (is_inside(&pieces[i], at, 1)) found = pieces[i];
  pthread_mutex_unlock(&lock);
  if (found.device < 0) return INVALID;
  switch (which) {
    case ABOUT_TYPE: return *(int *)out = TYPE_DEVICE, OK;
    case ABOUT_DEVICE: return *(int *)out = found.device, OK;
    case ABOUT_START: return *(uint64_t *)out = found.at, OK;
    case ABOUT_BYTES: return *(size_t *)out = found.bytes, OK;
    default: return INVALID;
  }
}

API(cuStreamCreate, handle *s, unsigned flags) {
  TRY;
  (void)flags;
  pthread_mutex_lock(&lock);
  *s = n_streams < STREAMS ? &streams[n_streams++] : NULL;
  pthread_mutex_unlock(&lock);
  return *s ? OK : NO_MEMORY;
}

/* To wait is to do what is to be done; to ask, some of it. */
static result await(struct stream *s, uint64_t until, bool only_asks) {
  pthread_mutex_lock(&lock);
  bool is_past = !s || is_done(s, until);
  if (!is_past && only_asks) do_some(s);
  else if (!is_past) do_until(s, until);
  result r = lost ? lost : is_past || !only_asks ? OK : NOT_READY;
  pthread_mutex_unlock(&lock);
  return r;
}

static uint64_t end_of(struct stream *s) {
  pthread_mutex_lock(&lock);
  uint64_t n = s ? enqueued(s) : 0;
  pthread_mutex_unlock(&lock);
  return n;
}

API(cuStreamQuery, handle s) { TRY; return await(stream_of(s), end_of(stream_of(s)), true); }
API(cuStreamSynchronize, handle s) { TRY; return await(stream_of(s), end_of(stream_of(s)), false); }
API(cuStreamWaitEvent, handle s, handle event, unsigned flags) {
  TRY;
  (void)flags;
  struct event *e = event;
  pthread_mutex_lock(&lock);
  struct work *w = e->of && !is_done(e->of, e->until) ? recorded(s) : NULL;
  if (w) w->after = e->of, w->until = e->until;
  pthread_mutex_unlock(&lock);
  return OK;
}
API(cuEventCreate, handle *e, unsigned flags) { TRY; return (void)flags, (*e = calloc(1, sizeof(struct event))) ? OK : NO_MEMORY; }
API(cuEventRecord, handle event, handle s) {
  TRY;
  struct event *e = event;
  uint64_t until = end_of(stream_of(s));
  atomic_fetch_add(&n_records, 1);
  pthread_mutex_lock(&lock);
  e->of = stream_of(s), e->until = until;
  pthread_mutex_unlock(&lock);
  return OK;
}

static struct event seen(handle event) {
  pthread_mutex_lock(&lock);
  struct event e = *(struct event *)event;
  pthread_mutex_unlock(&lock);
  return e;
}

API(cuEventSynchronize, handle e) { TRY; return await(seen(e).of, seen(e).until, false); }
API(cuEventQuery, handle e) { TRY; return atomic_fetch_add(&n_others, 1), await(seen(e).of, seen(e).until, true); }
API(cuEventElapsedTime, float *ms, handle a, handle b) { TRY; return (void)a, (void)b, *ms = 0, OK; }
API(cuEventDestroy_v2, handle e) { TRY; return free(e), OK; }

API(cuStreamBeginCapture_v2, handle stream, int mode) {
  TRY;
  struct stream *s = stream;
  (void)mode;
  pthread_mutex_lock(&lock);
  result r = lost ? lost : s->records ? INVALID : OK;
  if (!r) s->records = calloc(1, sizeof *s->records), s->records->refs = 1;
  pthread_mutex_unlock(&lock);
  return r;
}

API(cuStreamEndCapture, handle stream, handle *out) { /* ends it, also where it fails */
  struct stream *s = stream;
  pthread_mutex_lock(&lock);
  *out = s->records;
  s->records = NULL;
  pthread_mutex_unlock(&lock);
  TRY;
  return *out ? OK : INVALID;
}

static result graph_drop(handle h) {
  struct graph *g = h;
  pthread_mutex_lock(&lock);
  bool is_over = --g->refs == 0;
  pthread_mutex_unlock(&lock);
  for (int i = 0; is_over && i < g->n && !lateness(); i++) free(g->w[i].of);
  if (is_over) free(g->w), free(g);
  return OK;
}

/* A node is the place of its work among those of the graph. */
API(cuStreamGetCaptureInfo_v2, handle stream, int *state_of, uint64_t *id, handle *graph, const handle **nodes, size_t *n) {
  TRY;
  static _Thread_local handle last;
  struct stream *s = stream;
  pthread_mutex_lock(&lock);
  *state_of = s->records != NULL, *id = 1, *graph = s->records;
  last = (handle)(uintptr_t)(s->records ? s->records->n : 0);
  pthread_mutex_unlock(&lock);
  return *nodes = &last, *n = last != NULL, OK;
}

struct node_params { handle entry; unsigned grid[3], block[3], shared_bytes; void **params, **extra; handle kernel, context; };

API(cuGraphExecKernelNodeSetParams_v2, handle graph, handle node, const struct node_params *p) {
  TRY;
  struct graph *g = graph;
  size_t at = (uintptr_t)node;
  if (!at || at > (size_t)g->n || g->w[at - 1].f != p->entry) return INVALID;
  if (!is_possible(p->entry, p->grid, p->block, p->shared_bytes)) return INVALID;
  struct work *w = &g->w[at - 1];
  pthread_mutex_lock(&lock);
  memcpy(w->grid, p->grid, sizeof w->grid);
  memcpy(w->block, p->block, sizeof w->block);
  w->shared = p->shared_bytes;
  for (int i = 0; i < w->f->e->n_params; i++) memcpy(&w->param[i], p->params[i], sizeof w->param[i]);
  pthread_mutex_unlock(&lock);
  return OK;
}

API(cuGraphInstantiateWithFlags, handle *out, handle g, unsigned long long flags) {
  TRY;
  return (void)flags, ((struct graph *)g)->refs++, *out = g, OK;
}
API(cuGraphDestroy, handle g) { TRY; return graph_drop(g); }
API(cuGraphExecDestroy, handle g) { TRY; return graph_drop(g); }

API(cuGraphLaunch, handle h, handle stream) {
  TRY;
  struct graph *g = h;
  atomic_fetch_add(&n_graphs, 1);
  pthread_mutex_lock(&lock);
  for (int i = 0; i < g->n; i++) {
    struct work *later = recorded(stream);
    if (later) *later = g->w[i];
    else perform(&g->w[i]);
  }
  now_and_then();
  pthread_mutex_unlock(&lock);
  return OK;
}

/* For a library beside: the device that this thread has entered. */
int test_driver_device(void);
int test_driver_device(void) { return current(); }

/* For a library beside: whether the stream records, and then calls it with `of`, from malloc, whenever that is run. */
bool test_driver_defer(handle stream, void (*call)(void *of), void *of);
bool test_driver_defer(handle stream, void (*call)(void *of), void *of) {
  pthread_mutex_lock(&lock);
  struct work *w = recorded(stream);
  if (w) w->call = call, w->of = of;
  pthread_mutex_unlock(&lock);
  return w;
}
