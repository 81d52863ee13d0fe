/* ptx_compile.c -- how long the driver takes to make machine code of PTX: a file of it or more, by the linker and by loading the text,
 * one after the other and on threads.
 *
 *   build/release/bench/ptx_compile FILE ..     CUDA_CACHE_DISABLE=1 keeps the driver from remembering
 *
 * Prints one line of JSON a way: milliseconds for all of the files. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "backend/cuda/driver.h"

enum { MOST = 64 };
static struct { char *text; double ms; int level; bool by_link; } work[MOST];
static int n;

static double now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

static char *read_file(const char *path) {
  FILE *f = fopen(path, "rb");
  char *text = calloc(1, 16 << 20);
  size_t bytes = f ? fread(text, 1, (16 << 20) - 1, f) : 0;
  if (f) fclose(f);
  return bytes ? text : NULL;
}

enum { OPTION_LEVEL = 7 };

static void *compile(void *of) {
  int i = (int)(intptr_t)of;
  handle link = NULL, module = NULL;
  void *code = NULL, *values[] = { (void *)(intptr_t)work[i].level };
  size_t bytes = 0;
  int options[] = { OPTION_LEVEL };
  if (cuda_enter(cuda_gpu(0), "compiling")) return NULL;
  double begin = now_ms();
  result r = 0;
  if (work[i].by_link) {
    r = cu.link_new(1, options, values, &link);
    if (!r) r = cu.link_add(link, 1, work[i].text, strlen(work[i].text) + 1, "kernel", 0, NULL, NULL);
    if (!r) r = cu.link_end(link, &code, &bytes);
    if (!r) r = cu.load(&module, code, 0, NULL, NULL);
    if (link) cu.link_free(link);
  } else r = cu.load(&module, work[i].text, 1, options, values);
  work[i].ms = r ? -1 : now_ms() - begin;
  if (module) cu.unload(module);
  return NULL;
}

static void run(const char *way, bool by_link, int level, bool on_threads) {
  pthread_t thread[MOST];
  double begin = now_ms();
  for (int i = 0; i < n; i++) {
    work[i].by_link = by_link, work[i].level = level;
    if (!on_threads) compile((void *)(intptr_t)i);
    else pthread_create(&thread[i], NULL, compile, (void *)(intptr_t)i);
  }
  for (int i = 0; on_threads && i < n; i++) pthread_join(thread[i], NULL);
  printf("{\"way\": \"%s\", \"level\": %d, \"ms\": %.1f, \"each\": [", way, level, now_ms() - begin);
  for (int i = 0; i < n; i++) printf("%s%.1f", i ? ", " : "", work[i].ms);
  printf("]}\n");
}

int main(int argc, char **argv) {
  for (int i = 1; i < argc && n < MOST; i++) if ((work[n].text = read_file(argv[i]))) n++;
  if (!cuda_available() || cuda_enter(cuda_gpu(0), "compiling")) { printf("no GPU\n"); return 0; }
  for (int k = 0; k < 2; k++) run("by the linker", true, 4, false), run("by loading", false, 4, false);
  run("by loading, threads", false, 4, true);
  run("by the linker, threads", true, 4, true);
  for (int level = 0; level < 4; level++) run("by loading", false, level, false);
  return 0;
}
