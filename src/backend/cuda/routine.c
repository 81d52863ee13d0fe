/* routine.c -- routines by name, their modules, and what they share: see routine.h. */
#include "backend/cuda/routine.h"
#include <string.h>
#include "base/mem.h"

static const struct { const char *name; routine_run *run; } routines[] = {
  { "sort", sort_there }, { "select", select_there },
  { "cholesky", cholesky_there }, { "cholesky_solve", cholesky_solve_there }, { "triangle", triangle_there }, { "lu", lu_there },
  { "solve", solve_there }, { "inverse", inverse_there }, { "determinant", determinant_there }, { "adjugate", adjugate_there },
  { "tally", tally_there }, { "bins", bins_there }, { "dequantize", dequantize_there }, { "code_product", code_product_there },
  { "stencil", stencil_there }, { "cofactors", cofactors_there }, { "fourier", fourier_there },
};

int cuda_routine(struct gpu *g, const struct routine_call *c, bool only_asks) {
  for (size_t i = 0; i < sizeof routines / sizeof *routines; i++)
    if (!strcmp(routines[i].name, c->name)) return routines[i].run(g, c, only_asks);
  return DEVICE_CANNOT;
}

/* ---- modules ---- */

enum { ENTRIES = 12 };
struct routine_module {
  struct routine_module *next;
  const struct gpu *gpu;
  const char *text;              /* by its address: texts are constants */
  struct text names;
  struct cuda_module *module;
  int n_entries;
  struct { const char *name; struct cuda_entry *entry; } entry[ENTRIES];
};

static pthread_mutex_t routine_mutex = PTHREAD_MUTEX_INITIALIZER; /* of the list */
static struct routine_module *modules;

static void add_names(struct text *t, const struct written_name names[]) {
  for (; names && names->name; names++) text_addf(t, "%s=%lld%s ", names->name, (long long)names->number,
                                                  names->type ? names->type : "");
}

static struct routine_module *loaded(const struct gpu *g, const char *text, const struct text *names) {
  struct routine_module *m = modules;
  while (m && (m->gpu != g || m->text != text || strcmp(text_of(&m->names), text_of(names)))) m = m->next;
  return m;
}

static int load(struct gpu *g, const char *text, const struct written_name names[], struct cuda_module **module) {
  struct text ptx = { 0 };
  const char *why = "";
  int s = written_print(text, names, &ptx, &why) ? CUDA_OK : *why ? CUDA_FAILED : CUDA_NO_MEMORY;
  if (s == CUDA_FAILED) cuda_say("reading a kernel of weft's own", why);
  if (!s) s = cuda_load(g, text_of(&ptx), module);
  text_free(&ptx);
  return s;
}

static _Thread_local routine_reader *reader;
static _Thread_local void *reader_of;

void routine_show(routine_reader *r, void *of) { reader = r, reader_of = of; }

static int show(const char *text, const struct written_name names[]) {
  struct text ptx = { 0 };
  const char *why = "";
  bool ok = written_print(text, names, &ptx, &why);
  if (ok) reader(reader_of, text_of(&ptx));
  else cuda_say("reading a kernel of weft's own", why);
  text_free(&ptx);
  return ok ? CUDA_OK : CUDA_FAILED;
}

/* One thread compiles at a time; the others wait for what may be the same. */
int routine_load(struct gpu *g, const char *text, const struct written_name names[], struct routine_module **out) {
  struct text key = { 0 };
  if (reader) return *out = NULL, show(text, names);
  add_names(&key, names);
  pthread_mutex_lock(&routine_mutex);
  struct routine_module *m = loaded(g, text, &key);
  int s = CUDA_OK;
  if (!m) {
    m = mem_alloc(sizeof *m);
    s = m && !key.failed ? load(g, text, names, &m->module) : CUDA_NO_MEMORY;
    if (s) mem_free(m), text_free(&key);
    else m->gpu = g, m->text = text, m->names = key, m->next = modules, modules = m;
  } else text_free(&key);
  pthread_mutex_unlock(&routine_mutex);
  *out = s ? NULL : m;
  return s;
}

/* The same entry may be looked for by two threads, which find the same. */
static int entry_of(struct gpu *g, struct routine_module *m, const char *name, struct cuda_entry **out) {
  int s = CUDA_OK;
  *out = NULL;
  pthread_mutex_lock(&routine_mutex);
  for (int i = 0; i < m->n_entries && !*out; i++) if (!strcmp(m->entry[i].name, name)) *out = m->entry[i].entry;
  if (!*out) {
    s = cuda_find(g, m->module, name, out);
    if (!s && m->n_entries < ENTRIES) m->entry[m->n_entries].name = name, m->entry[m->n_entries++].entry = *out;
  }
  pthread_mutex_unlock(&routine_mutex);
  return s;
}

int routine_launch(struct gpu *g, struct routine_module *m, const char *name, int64_t blocks, int threads, int n,
                   const uint64_t given[]) {
  struct cuda_entry *entry;
  uint64_t params[32];
  int s = entry_of(g, m, name, &entry);
  if (s || blocks < 1) return s;
  if (blocks > INT32_MAX) return cuda_say("launching", "more blocks of threads than there may be"), CUDA_FAILED;
  memcpy(params, given, (size_t)n * sizeof *params);
  cuda_note_launch(g, name);
  struct cuda_launch l = { entry, (const unsigned[]){ (unsigned)blocks, 1, 1 }, (const unsigned[]){ (unsigned)threads, 1, 1 }, 0 };
  return cuda_launch(g, 1, &l, n, params, NULL);
}

/* ---- memory ---- */

int room_take(struct routine_room *r, size_t bytes, uint64_t *at) {
  int s = cuda_take_room(r->gpu, bytes ? bytes : 1, at);
  if (!s) r->at[r->n] = *at, r->bytes[r->n++] = bytes ? bytes : 1;
  return s;
}

void room_give(struct routine_room *r) {
  while (r->n > 0) r->n--, cuda_give_room(r->gpu, r->at[r->n], r->bytes[r->n]);
}
