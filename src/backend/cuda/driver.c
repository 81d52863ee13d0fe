/* driver.c -- libcuda, loaded at first use: the device, its memory, modules and launches.
 *
 * Owns the one device handle of the process and a small cache of device memory. Every failure is a status, and a text of
 * the calling thread. The driver's types are declared here as far as they are used. */
#include "backend/cuda/cuda.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>
#include "base/mem.h"

typedef int result;
typedef void *handle;

/* X(name in the library, our name, parameters) */
#define DRIVER(X)                                                                                                     \
  X(cuInit, init, (unsigned))                                                                                         \
  X(cuDeviceGetCount, count, (int *))                                                                                 \
  X(cuDeviceGet, device, (int *, int))                                                                                \
  X(cuDeviceGetName, name, (char *, int, int))                                                                        \
  X(cuDeviceTotalMem_v2, total, (size_t *, int))                                                                      \
  X(cuDeviceGetAttribute, attribute, (int *, int, int))                                                               \
  X(cuDevicePrimaryCtxRetain, retain, (handle *, int))                                                                \
  X(cuCtxSetCurrent, set_current, (handle))                                                                           \
  X(cuGetErrorString, error_text, (result, const char **))                                                            \
  X(cuModuleLoadDataEx, load, (handle *, const void *, unsigned, int *, void **))                                     \
  X(cuModuleUnload, unload, (handle))                                                                                 \
  X(cuModuleGetFunction, find, (handle *, handle, const char *))                                                      \
  X(cuFuncSetAttribute, set_function, (handle, int, int))                                                             \
  X(cuLaunchKernel, launch, (handle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, handle,    \
                             void **, void **))                                                                       \
  X(cuMemAlloc_v2, alloc, (uint64_t *, size_t))                                                                       \
  X(cuMemFree_v2, free, (uint64_t))                                                                                   \
  X(cuMemcpyHtoD_v2, to_device, (uint64_t, const void *, size_t))                                                     \
  X(cuMemcpyDtoH_v2, to_host, (void *, uint64_t, size_t))                                                             \
  X(cuStreamSynchronize, wait, (handle))                                                                              \
  X(cuEventCreate, event_new, (handle *, unsigned))                                                                   \
  X(cuEventRecord, event_record, (handle, handle))                                                                    \
  X(cuEventElapsedTime, event_ms, (float *, handle, handle))                                                          \
  X(cuEventDestroy_v2, event_free, (handle))

enum { SUCCESS = 0, OUT_OF_MEMORY = 2 };
enum { JIT_ERROR_LOG = 5, JIT_ERROR_LOG_BYTES = 6 };
enum { PROCESSORS = 16, CAPABILITY_MAJOR = 75, CAPABILITY_MINOR = 76, SHARED_BYTES = 97 };
enum { FUNCTION_SHARED_BYTES = 8 };

static struct {
#define MEMBER_(symbol, name, params) result (*name) params;
  DRIVER(MEMBER_)
#undef MEMBER_
} cu;

static struct {
  pthread_once_t once;
  bool is_there;
  pid_t owner;               /* the process that found it: its children have no context */
  handle context;
  struct ptx_machine machine;
  size_t bytes;
  char text[200];
  const char *why;
} gpu = { .once = PTHREAD_ONCE_INIT };
static _Thread_local char message[400];

/* ---- Finding it --------------------------------------------------------------------------------------------------------- */

/* The texts one after the other, as far as they fit. */
static void join(char *to, size_t room, const char *const texts[], int n) {
  size_t at = 0;
  for (int i = 0; i < n; i++)
    for (const char *s = texts[i]; *s && at + 1 < room; s++) to[at++] = *s;
  to[at] = 0;
}

static void say(const char *doing, const char *what) {
  join(message, sizeof message, (const char *[]){ "cuda: ", doing, ": ", what }, 4);
}

static bool missing(const char *why) {
  gpu.why = why;
  return false;
}

static bool resolve(void) {
  void *lib = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL), *symbol;
  if (!lib) return missing("there is no libcuda.so.1");
#define RESOLVE_(sym, name, params)                              \
  if (!(symbol = dlsym(lib, #sym))) return missing("libcuda.so.1 lacks " #sym); \
  memcpy(&cu.name, &symbol, sizeof symbol);
  DRIVER(RESOLVE_)
#undef RESOLVE_
  return true;
}

static void describe(int device, int major, int minor) {
  struct text t = { 0 };
  char name[100] = "a CUDA device";
  cu.name(name, sizeof name, device);
  text_addf(&t, ", %d MiB, compute capability %d.%d", (int)(gpu.bytes >> 20), major, minor);
  join(gpu.text, sizeof gpu.text, (const char *[]){ name, text_of(&t) }, 2);
  text_free(&t);
}

static bool open_device(void) {
  int n = 0, device = 0, processors = 0, shared = 0, major = 0, minor = 0;
  if (cu.init(0) || cu.count(&n) || n < 1 || cu.device(&device, 0)) return missing("there is no device");
  if (cu.attribute(&processors, PROCESSORS, device) || cu.attribute(&shared, SHARED_BYTES, device) ||
      cu.attribute(&major, CAPABILITY_MAJOR, device) || cu.attribute(&minor, CAPABILITY_MINOR, device) ||
      cu.total(&gpu.bytes, device))
    return missing("the device does not say what it is");
  if (major < 8) return missing("the device is older than compute capability 8.0");
  if (cu.retain(&gpu.context, device)) return missing("the device has no context to give");
  gpu.machine = (struct ptx_machine){ processors, (size_t)shared };
  describe(device, major, minor);
  return true;
}

static void find_device(void) {
  gpu.is_there = resolve() && open_device();
  gpu.owner = getpid();
}

/* Why there is no device for this process; NULL: there is one. */
static const char *absence(void) {
  pthread_once(&gpu.once, find_device);
  if (!gpu.is_there) return gpu.why;
  return gpu.owner == getpid() ? NULL : "the device belongs to the process that this one was forked from";
}

bool cuda_available(void) { return !absence(); }
const char *cuda_text(void) { return absence() ? NULL : gpu.text; }

struct ptx_machine cuda_machine(void) {
  return cuda_available() ? gpu.machine : (struct ptx_machine){ 1, 48 << 10 };
}

const char *cuda_message(void) { return message; }

static int status(result r, const char *doing) {
  const char *text = NULL;
  if (r == SUCCESS) return CUDA_OK;
  if (cu.error_text(r, &text) || !text) text = "unknown error";
  say(doing, text);
  return r == OUT_OF_MEMORY ? CUDA_NO_MEMORY : CUDA_FAILED;
}

/* The context becomes the calling thread's. */
static int enter(const char *doing) {
  const char *why = absence();
  if (why) return say(doing, why), CUDA_FAILED;
  return status(cu.set_current(gpu.context), doing);
}

/* ---- Memory ------------------------------------------------------------------------------------------------------------- */

enum { CACHED = 64 };
static struct { pthread_mutex_t lock; int n; struct { uint64_t at; size_t bytes; } block[CACHED]; } cache = {
  .lock = PTHREAD_MUTEX_INITIALIZER };

static _Atomic int64_t used, peak, cached;

static void count(int64_t bytes) {
  int64_t now = atomic_fetch_add(&used, bytes) + bytes, most = atomic_load(&peak);
  while (now > most && !atomic_compare_exchange_weak(&peak, &most, now)) {}
}

struct device_bytes cuda_bytes(void) {
  return (struct device_bytes){ atomic_load(&used), atomic_load(&peak), atomic_load(&cached), absence() ? 0 : (int64_t)gpu.bytes };
}

void cuda_set_peak(int64_t bytes) { atomic_store(&peak, bytes); }

static size_t rounded(size_t bytes) {
  size_t unit = bytes > (1 << 20) ? 1 << 20 : 4096;
  return (bytes + unit) / unit * unit; /* always some bytes more: words around the last byte may be combined into */
}

static uint64_t from_cache(size_t bytes) {
  uint64_t at = 0;
  pthread_mutex_lock(&cache.lock);
  for (int i = 0; i < cache.n && !at; i++) {
    if (cache.block[i].bytes != bytes) continue;
    at = cache.block[i].at;
    cache.block[i] = cache.block[--cache.n];
    cached -= (int64_t)bytes;
  }
  pthread_mutex_unlock(&cache.lock);
  return at;
}

static bool to_cache(uint64_t at, size_t bytes) {
  pthread_mutex_lock(&cache.lock);
  bool has_room = cache.n < CACHED;
  if (has_room) cache.block[cache.n].at = at, cache.block[cache.n++].bytes = bytes, cached += (int64_t)bytes;
  pthread_mutex_unlock(&cache.lock);
  return has_room;
}

void cuda_trim(void) {
  if (!cuda_available() || cu.set_current(gpu.context)) return;
  pthread_mutex_lock(&cache.lock);
  while (cache.n) cu.free(cache.block[--cache.n].at);
  cached = 0;
  pthread_mutex_unlock(&cache.lock);
}

/* From the cache, from the driver, or from the driver once the cache is given back. */
static int take(size_t bytes, uint64_t *at) {
  if ((*at = from_cache(bytes))) return CUDA_OK;
  int s = status(cu.alloc(at, bytes), "taking memory");
  if (s != CUDA_NO_MEMORY) return s;
  cuda_trim();
  return status(cu.alloc(at, bytes), "taking memory");
}

int cuda_take(size_t bytes, uint64_t *at) {
  int s = enter("taking memory");
  *at = 0;
  if (s) return s;
  if (mem_should_fail() || bytes > SIZE_MAX / 2) return say("taking memory", "out of memory"), CUDA_NO_MEMORY;
  s = take(rounded(bytes), at);
  if (s) *at = 0;
  else count((int64_t)rounded(bytes));
  return s;
}

void cuda_give(uint64_t at, size_t bytes) {
  if (at) count(-(int64_t)rounded(bytes));
  if (at && !to_cache(at, rounded(bytes)) && !cu.set_current(gpu.context)) cu.free(at);
}

int cuda_upload(uint64_t to, const void *from, size_t bytes) {
  int s = enter("uploading");
  return s || !bytes ? s : status(cu.to_device(to, from, bytes), "uploading");
}

int cuda_download(void *to, uint64_t from, size_t bytes) {
  int s = enter("downloading");
  return s || !bytes ? s : status(cu.to_host(to, from, bytes), "downloading");
}

/* ---- Code --------------------------------------------------------------------------------------------------------------- */

int cuda_load(const char *ptx, struct cuda_module **out) {
  char log[300] = "";
  int options[] = { JIT_ERROR_LOG, JIT_ERROR_LOG_BYTES };
  void *values[] = { log, (void *)(uintptr_t)(sizeof log - 1) };
  handle module = NULL;
  int s = enter("loading PTX");
  if (s) return s;
  s = status(cu.load(&module, ptx, 2, options, values), "loading PTX");
  if (s && log[0]) say("loading PTX", log);
  *out = module;
  return s;
}

void cuda_unload(struct cuda_module *m) {
  if (m && !cu.set_current(gpu.context)) cu.unload((handle)m);
}

int cuda_find(struct cuda_module *m, const char *name, struct cuda_entry **out) {
  handle f = NULL;
  int s = enter("finding an entry");
  if (!s) s = status(cu.find(&f, (handle)m, name), "finding an entry");
  *out = f;
  return s;
}

static int start(const struct cuda_launch *l, void *pointers[]) {
  handle f = (handle)l->entry;
  int s = 0;
  if (l->shared_bytes > 32 << 10) /* the limit of 48 KB counts what the entry declares itself, too */
    s = status(cu.set_function(f, FUNCTION_SHARED_BYTES, (int)l->shared_bytes), "asking for shared memory");
  if (s) return s;
  return status(cu.launch(f, l->grid[0], l->grid[1], l->grid[2], l->block[0], l->block[1], l->block[2],
                          (unsigned)l->shared_bytes, NULL, pointers, NULL), "launching");
}

static int start_all(int n, const struct cuda_launch l[], void *pointers[]) {
  int s = 0;
  for (int i = 0; i < n && !s; i++) s = start(&l[i], pointers);
  int done = status(cu.wait(NULL), "running");
  return s ? s : done;
}

static int start_timed(int n, const struct cuda_launch l[], void *pointers[], double *ms) {
  handle a = NULL, b = NULL;
  float took = 0;
  int s = status(cu.event_new(&a, 0), "timing");
  if (!s) s = status(cu.event_new(&b, 0), "timing");
  if (!s) s = status(cu.event_record(a, NULL), "timing");
  for (int i = 0; i < n && !s; i++) s = start(&l[i], pointers);
  if (!s) s = status(cu.event_record(b, NULL), "timing");
  int done = status(cu.wait(NULL), "running");
  if (!s && !done) s = status(cu.event_ms(&took, a, b), "timing");
  if (a) cu.event_free(a);
  if (b) cu.event_free(b);
  *ms = took;
  return s ? s : done;
}

int cuda_launch(int n, const struct cuda_launch l[], int n_params, uint64_t params[], double *ms) {
  void **pointers = mem_alloc((size_t)(n_params + 1) * sizeof *pointers);
  int s = enter("launching");
  if (!pointers) return mem_free(pointers), say("launching", "out of memory"), CUDA_NO_MEMORY;
  for (int i = 0; i < n_params; i++) pointers[i] = &params[i];
  if (!s) s = ms ? start_timed(n, l, pointers, ms) : start_all(n, l, pointers);
  mem_free(pointers);
  return s;
}
