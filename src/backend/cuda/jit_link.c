/* jit_link.c -- nvJitLink, loaded when the first kernel is compiled: see jit_link.h. WEFT_JITLINK is its name or path, or 0: it is
 * not to be used. */
#include "backend/cuda/jit_link.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "base/mem.h"
#include "base/text.h"

/* X(name in the library, our name, parameters); the names end with a version, all with the same. */
#define JIT_LINK(X)                                                    \
  X(Create, create, (void **, uint32_t, const char **))                \
  X(AddData, add, (void *, int, const void *, size_t, const char *))   \
  X(Complete, complete, (void *))                                      \
  X(GetLinkedCubinSize, bytes, (void *, size_t *))                     \
  X(GetLinkedCubin, code, (void *, void *))                            \
  X(Destroy, destroy, (void **))

enum { INPUT_PTX = 2 };

static struct {
  pthread_once_t once;
  atomic_bool is_there;
#define MEMBER_(symbol, name, params) int (*name) params;
  JIT_LINK(MEMBER_)
#undef MEMBER_
} jit = { .once = PTHREAD_ONCE_INIT };

static void *symbol_of(void *lib, const char *name, const char *version) {
  struct text t = { 0 };
  text_addf(&t, "__nvJitLink%s_%s", name, version);
  void *f = t.failed ? NULL : dlsym(lib, text_of(&t));
  text_free(&t);
  return f;
}

static bool resolve(void *lib, const char *version) {
  void *f;
#define FIND_(symbol, name, params)                                 \
  if (!(f = symbol_of(lib, #symbol, version))) return false;        \
  memcpy(&jit.name, &f, sizeof f);
  JIT_LINK(FIND_)
#undef FIND_
  return true;
}

/* A version of the library has its own names and those of versions before it. */
static bool load(const char *path) {
  static const char *const versions[] = { "13_0", "12_0" };
  void *lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  for (size_t i = 0; lib && i < sizeof versions / sizeof *versions; i++) if (resolve(lib, versions[i])) return true;
  if (lib) dlclose(lib);
  return false;
}

static void find(void) {
  static const char *const usual[] = { "libnvJitLink.so.13", "libnvJitLink.so.12", "/usr/local/cuda/lib64/libnvJitLink.so" };
  const char *wish = getenv("WEFT_JITLINK");
  bool ok = false;
  if (wish && *wish) ok = strcmp(wish, "0") && load(wish);
  else for (size_t i = 0; !ok && i < sizeof usual / sizeof *usual; i++) ok = load(usual[i]);
  atomic_store(&jit.is_there, ok);
}

void jit_link_distrust(void) { atomic_store(&jit.is_there, false); }

/* "-arch=sm_90a" where the text asks for what only that kind has. */
static void name_target(struct text *t, int capability, const char *ptx) {
  const char *target = strstr(ptx, ".target sm_");
  size_t digits = target ? strspn(target + 11, "0123456789") : 0;
  text_addf(t, "-arch=sm_%d%s", capability, target && target[11 + digits] == 'a' ? "a" : "");
}

bool jit_link_compile(int capability, const char *ptx, void **code, size_t *bytes) {
  struct text arch = { 0 };
  void *link = NULL;
  pthread_once(&jit.once, find);
  *code = NULL;
  if (!atomic_load(&jit.is_there)) return false;
  name_target(&arch, capability, ptx);
  const char *options[] = { text_of(&arch) };
  bool ok = !arch.failed && !jit.create(&link, 1, options) && !jit.add(link, INPUT_PTX, ptx, strlen(ptx) + 1, "kernel") &&
            !jit.complete(link) && !jit.bytes(link, bytes) && (*code = mem_room(*bytes + 1)) && !jit.code(link, *code);
  if (link) jit.destroy(&link);
  if (!ok) mem_free(*code), *code = NULL;
  text_free(&arch);
  return ok;
}
