/* ptx_compile.c -- how long PTX takes to become machine code: files of it, by the driver's linker, by loading the text, and by
 * nvJitLink where that library is found; one after the other and on threads, which take the next longest text each.
 *
 *   build/release/bench/ptx_compile FILE ..     CUDA_CACHE_DISABLE=1 keeps the driver from remembering
 *
 * Prints one line of JSON a way: milliseconds for all of the files, of each of them, and of processors. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include "base/clock.h"
#include "backend/cuda/driver.h"

enum { MOST = 64, OPTION_LEVEL = 7, INPUT_PTX = 1, JIT_LINK_PTX = 2 };
enum way { BY_LINKER, BY_LOADING, BY_JIT_LINK, WAYS };
static const char *const name[WAYS] = { "by the linker", "by loading", "by nvJitLink" };
static struct { char *text, *file; double ms; } work[MOST];
static int n, level;
static enum way way;
static atomic_int next;

static struct {
  int (*create)(void **, uint32_t, const char **);
  int (*add)(void *, int, const void *, size_t, const char *);
  int (*complete)(void *);
  int (*bytes)(void *, size_t *);
  int (*code)(void *, void *);
  int (*destroy)(void **);
} jit;

static double now_ms(void) { return 1e3 * clock_seconds(); }

static double busy_ms(void) {
  struct rusage u;
  getrusage(RUSAGE_SELF, &u);
  return 1e3 * (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) + 1e-3 * (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

static char *read_file(const char *path) {
  FILE *f = fopen(path, "rb");
  char *text = calloc(1, 16 << 20);
  size_t bytes = f ? fread(text, 1, (16 << 20) - 1, f) : 0;
  if (f) fclose(f);
  return bytes ? text : NULL;
}

static bool find(void *lib, const char *of, void *to) {
  void *symbol = lib ? dlsym(lib, of) : NULL;
  memcpy(to, &symbol, sizeof symbol);
  return symbol != NULL;
}

/* The names of its functions have the version in them. */
static bool find_jit_link(void) {
  static const char *const files[] = { "libnvJitLink.so.13", "libnvJitLink.so.12", "libnvJitLink.so" };
  static const char *const versions[] = { "13_0", "12_8", "12_4", "12_0" };
  void *lib = NULL;
  for (size_t i = 0; !lib && i < sizeof files / sizeof *files; i++) lib = dlopen(files[i], RTLD_NOW | RTLD_LOCAL);
  for (size_t i = 0; lib && i < sizeof versions / sizeof *versions; i++) {
    static const char *const of[] = { "Create", "AddData", "Complete", "GetLinkedCubinSize", "GetLinkedCubin", "Destroy" };
    void *const to[] = { &jit.create, &jit.add, &jit.complete, &jit.bytes, &jit.code, &jit.destroy };
    bool ok = true;
    for (int k = 0; ok && k < 6; k++) {
      char symbol[64];
      snprintf(symbol, sizeof symbol, "__nvJitLink%s_%s", of[k], versions[i]);
      ok = find(lib, symbol, to[k]);
    }
    if (ok) return true;
  }
  return false;
}

static bool by_jit_link(const char *text) {
  char arch[16], optimise[16];
  const char *target = strstr(text, ".target sm_"), *options[] = { arch, optimise };
  void *link = NULL, *code = NULL;
  size_t bytes = 0;
  if (!target) return false;
  snprintf(optimise, sizeof optimise, "-O%d", level < 3 ? level : 3);
  snprintf(arch, sizeof arch, "-arch=%.6s", target + 8);
  if (strchr("\n, ", arch[11])) arch[11] = 0;
  bool ok = !jit.create(&link, 2, options) && !jit.add(link, JIT_LINK_PTX, text, strlen(text) + 1, "kernel") && !jit.complete(link) &&
            !jit.bytes(link, &bytes) && (code = malloc(bytes)) && !jit.code(link, code);
  free(code);
  if (link) jit.destroy(&link);
  return ok;
}

static bool by_driver(const char *text) {
  handle link = NULL, module = NULL;
  void *code = NULL, *values[] = { (void *)(intptr_t)level };
  size_t bytes = 0;
  int options[] = { OPTION_LEVEL };
  result r = 0;
  if (cuda_enter(cuda_gpu(0), "compiling")) return false;
  if (way == BY_LINKER) {
    r = cu.link_new(1, options, values, &link);
    if (!r) r = cu.link_add(link, INPUT_PTX, (void *)(uintptr_t)text, strlen(text) + 1, "kernel", 0, NULL, NULL);
    if (!r) r = cu.link_end(link, &code, &bytes);
    if (!r) r = cu.load(&module, code, 0, NULL, NULL);
    if (link) cu.link_free(link);
  } else r = cu.load(&module, text, 1, options, values);
  if (module) cu.unload(module);
  return !r;
}

static void *take_texts(void *of) {
  for (int i; (i = atomic_fetch_add(&next, 1)) < n;) {
    double begin = now_ms();
    bool ok = way == BY_JIT_LINK ? by_jit_link(work[i].text) : by_driver(work[i].text);
    work[i].ms = ok ? now_ms() - begin : -1;
  }
  return of;
}

static void run(enum way by, int at_level, int threads) {
  pthread_t thread[MOST];
  double begin = now_ms(), busy = busy_ms();
  way = by, level = at_level;
  atomic_store(&next, 0);
  for (int i = 1; i < threads; i++) pthread_create(&thread[i], NULL, take_texts, NULL);
  take_texts(NULL);
  for (int i = 1; i < threads; i++) pthread_join(thread[i], NULL);
  printf("{\"way\": \"%s\", \"level\": %d, \"threads\": %d, \"ms\": %.1f, \"busy\": %.1f, \"each\": [", name[by], level, threads,
         now_ms() - begin, busy_ms() - busy);
  for (int i = 0; i < n; i++) printf("%s%.0f", i ? ", " : "", work[i].ms);
  printf("]}\n");
  fflush(stdout);
}

static int longer(const void *a, const void *b) {
  size_t x = strlen(*(char *const *)a), y = strlen(*(char *const *)b);
  return (x < y) - (x > y);
}

static void run_all(enum way by) {
  static const int threads[] = { 1, 1, 2, 4, 8, 16 };
  for (size_t k = 0; k < sizeof threads / sizeof *threads; k++) run(by, 4, threads[k]);
  for (int k = 0; k < 4; k++) run(by, k, 1);
}

int main(int argc, char **argv) {
  for (int i = 1; i < argc && n < MOST; i++) if ((work[n].text = read_file(argv[i]))) work[n++].file = argv[i];
  qsort(work, (size_t)n, sizeof *work, longer);
  for (int i = 0; i < n; i++) printf("%d: %zu bytes, %s\n", i, strlen(work[i].text), work[i].file);
  if (!find_jit_link()) printf("no nvJitLink\n");
  else run_all(BY_JIT_LINK);
  if (!cuda_available() || cuda_enter(cuda_gpu(0), "compiling")) { printf("no GPU\n"); return 0; }
  run_all(BY_LINKER);
  run(BY_LOADING, 4, 1);
  run(BY_LOADING, 4, 8);
  return 0;
}
