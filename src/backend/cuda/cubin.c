/* cubin.c -- machine code of PTX: from the shelf on disk, else by the driver's compiler, and then onto the shelf.
 *
 * The key of an entry is the whole PTX, the instruction set and the version of the driver. Code that the driver does not load,
 * whatever it was made of, is compiled anew. Compiling holds no lock of ours, so kernels are compiled on several threads at
 * once. PTX that the driver refuses is a failure whose text is the driver's log and the line that it is about. */
#include "backend/cuda/driver.h"
#include <stdlib.h>
#include <string.h>
#include "base/mem.h"
#include "base/shelf.h"

enum { JIT_ERROR_LOG = 5, JIT_ERROR_LOG_BYTES = 6 };
enum { INPUT_PTX = 1 };
enum { LOG_BYTES = 1500 };

struct cubin_log { int option[2]; void *value[2]; char text[LOG_BYTES]; };

static void log_begin(struct cubin_log *l) {
  memset(l->text, 0, sizeof l->text);
  l->option[0] = JIT_ERROR_LOG, l->value[0] = l->text;
  l->option[1] = JIT_ERROR_LOG_BYTES, l->value[1] = (void *)(uintptr_t)(sizeof l->text - 1);
}

/* The line of the PTX that a log speaks of: ".., line 12; error : ..". */
static void add_line(struct text *t, const char *log, const char *ptx) {
  const char *at = strstr(log, "line ");
  long line = at ? strtol(at + 5, NULL, 10) : 0;
  if (line < 1) return;
  for (long i = 1; i < line && ptx; i++) ptx = strchr(ptx, '\n'), ptx = ptx ? ptx + 1 : NULL;
  if (!ptx || !*ptx) return;
  text_addf(t, "\nline %ld of the PTX: ", line);
  text_bytes(t, ptx, strcspn(ptx, "\n"));
}

static void complain(const struct cubin_log *l, const char *ptx) {
  struct text t = { 0 };
  size_t n = strlen(l->text);
  while (n && l->text[n - 1] == '\n') n--;
  text_bytes(&t, l->text, n);
  add_line(&t, l->text, ptx);
  if (n) cuda_say("compiling PTX", text_of(&t));
  text_free(&t);
}

/* ---- the shelf ---- */

static void key_of(const struct gpu *g, const char *ptx, struct text *key) {
  text_addf(key, "cubin sm_%d driver %d\n", g->capability, g->driver_version);
  text_add(key, ptx);
}

static bool load_kept(const struct text *key, handle *module) {
  void *code = NULL;
  size_t bytes = 0;
  bool ok = !key->failed && shelf_get(key->s, key->n, &code, &bytes) && cu.load(module, code, 0, NULL, NULL) == SUCCESS;
  mem_free(code);
  return ok;
}

/* ---- the driver's compiler ---- */

/* Compiles to a copy, for mem_free; by the linker, even if nobody keeps the code: threads that load PTX wait for each other,
 * threads that link it do not (bench/ptx_compile: six texts on six threads 988 and 448 ms, one after the other 960). */
static int compile(const char *ptx, void **out, size_t *bytes) {
  struct cubin_log log;
  handle link = NULL;
  void *code = NULL;
  log_begin(&log);
  int r = cu.link_new(2, log.option, log.value, &link);
  if (r == SUCCESS) r = cu.link_add(link, INPUT_PTX, (void *)(uintptr_t)ptx, strlen(ptx) + 1, "kernel", 0, NULL, NULL);
  if (r == SUCCESS) r = cu.link_end(link, &code, bytes);
  int s = cuda_status(r, "compiling PTX");
  if (s == CUDA_FAILED) complain(&log, ptx);
  *out = s ? NULL : mem_room(*bytes + 1);
  if (*out) memcpy(*out, code, *bytes);
  if (link) cu.link_free(link); /* the code is its */
  return s ? s : *out ? CUDA_OK : CUDA_NO_MEMORY;
}

static int compile_and_load(const char *ptx, const struct text *key, handle *module) {
  void *code = NULL;
  size_t bytes = 0;
  int s = compile(ptx, &code, &bytes);
  if (!s) s = cuda_status(cu.load(module, code, 0, NULL, NULL), "loading machine code");
  if (!s && !key->failed) shelf_put(key->s, key->n, code, bytes);
  mem_free(code);
  return s;
}

int cuda_load(struct gpu *g, const char *ptx, struct cuda_module **out) {
  struct text key = { 0 };
  handle module = NULL;
  int s = cuda_enter(g, "loading PTX");
  if (s) return s;
  key_of(g, ptx, &key);
  if (!load_kept(&key, &module)) s = compile_and_load(ptx, &key, &module);
  text_free(&key);
  *out = module;
  return s;
}

int cuda_machine_code(struct gpu *g, const char *ptx, void **code, size_t *bytes) {
  struct text key = { 0 };
  int s = cuda_enter(g, "compiling PTX");
  if (s) return s;
  key_of(g, ptx, &key);
  if (key.failed || !shelf_get(key.s, key.n, code, bytes)) s = compile(ptx, code, bytes);
  text_free(&key);
  return s;
}
