/* lazy_weights.c -- weights that are still being read from a file, fed to a fused forward pass by eight threads; and files
 * that are cut short meanwhile. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <unistd.h>
#include "scene.h"

enum { THREADS = 8, PASSES = 1000, LAYERS = 3, WIDTH = 96, WORDS = 2048, BATCH = 16, ARRAYS = 2 * LAYERS + 1 };
enum { RESULT = BATCH * WIDTH };

static const char *const names[ARRAYS] = { "words", "w0", "g0", "w1", "g1", "w2", "g2" };
static char folder[] = "/tmp/weft-scene-XXXXXX", path[64];
static float reference[RESULT];
static int on_device;
static atomic_int n_right, n_refused, n_wrong;
static char first_wrong[256];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void wrong(const char *what) {
  pthread_mutex_lock(&lock);
  if (!atomic_fetch_add(&n_wrong, 1)) snprintf(first_wrong, sizeof first_wrong, "%s", what);
  pthread_mutex_unlock(&lock);
}

/* The weights in memory, as they are written to the file. */
static void make_weights(weft_array *w[ARRAYS]) {
  static float values[WORDS * WIDTH];
  for (int a = 0; a < ARRAYS; a++) {
    for (int i = 0; i < WORDS * WIDTH; i++) values[i] = (float)((i * 37 + a * 101) % 257 - 128) / 1024;
    if (a == 0) w[a] = weft_from(WEFT_F32, WEFT_DIMS(WORDS, WIDTH), values);
    else if (a % 2) w[a] = weft_from(WEFT_F32, WEFT_DIMS(WIDTH, WIDTH), values);
    else w[a] = weft_from(WEFT_F32, WEFT_DIMS(WIDTH), values);
  }
}

static bool write_file(void) {
  weft_scope *scope = weft_scope_open();
  weft_array *w[ARRAYS];
  make_weights(w);
  bool ok = scene_ok(weft_save(path, ARRAYS, names, w, NULL), "weft_save");
  weft_scope_discard(scope);
  return ok;
}

static void open_weights(weft_array *w[ARRAYS]) {
  weft_file *file = weft_file_open(path);
  for (int a = 0; a < ARRAYS; a++) w[a] = weft_file_get(file, names[a]);
}

/* [BATCH] words -> [BATCH, WIDTH] */
static weft_array *forward(weft_array *const w[ARRAYS]) {
  int32_t ids[BATCH];
  for (int i = 0; i < BATCH; i++) ids[i] = i * 131 % WORDS;
  weft_array *id = weft_from(WEFT_I32, WEFT_DIMS(BATCH), ids), *x = weft_take(w[0], 1, &id);
  for (int l = 0; l < LAYERS; l++)
    x = weft_add(x, weft_tanh(weft_matmul(weft_rms_norm(x, w[2 * l + 2], 1e-5), w[2 * l + 1])));
  return x;
}

/* One pass and one look: right to the last bit, or refused because the file is not there any more. */
static void pass(weft_array *const w[ARRAYS], bool is_async, bool may_be_cut) {
  float got[RESULT];
  weft_array *y = forward(w);
  if (is_async && weft_eval_async(1, &y) && !may_be_cut) wrong(weft_message());
  if (is_async && weft_wait(1, &y, 60) == WEFT_ERR_TIMEOUT) wrong("a minute was not enough");
  weft_status status = weft_read(y, WEFT_F32, got, sizeof got);
  if (!status && memcmp(got, reference, sizeof got)) wrong("another result than from memory");
  else if (!status) atomic_fetch_add(&n_right, 1);
  else if (may_be_cut && status == WEFT_ERR_FILE && strstr(weft_message(), path)) atomic_fetch_add(&n_refused, 1);
  else wrong(weft_message());
}

/* ---- eight threads, a thousand passes ---- */

struct reader { pthread_t thread; int index, passes; bool may_be_cut; weft_array *const *shared; };

static void *read_on(void *p) {
  struct reader *r = p;
  if (on_device) weft_set(WEFT_DEVICE, on_device);
  for (int i = 0; i < r->passes; i++) {
    weft_scope *scope = weft_scope_open();
    weft_array *own[ARRAYS];
    bool is_shared = i % 4 == 0;
    if (!is_shared) open_weights(own);
    if (weft_eval_async(ARRAYS, is_shared ? r->shared : own) && !r->may_be_cut) wrong(weft_message());
    pass(is_shared ? r->shared : own, (i + r->index) % 2, r->may_be_cut);
    weft_scope_discard(scope);
  }
  return NULL;
}

static void run_threads(int passes, bool may_be_cut, off_t cut_to) {
  struct reader reader[THREADS];
  weft_scope *scope = weft_scope_open();
  weft_array *shared[ARRAYS];
  open_weights(shared);
  for (int i = 0; i < THREADS; i++) {
    reader[i] = (struct reader){ .index = i, .passes = passes, .may_be_cut = may_be_cut, .shared = shared };
    if (pthread_create(&reader[i].thread, NULL, read_on, &reader[i])) exit(1);
  }
  if (cut_to >= 0) {
    usleep(3000);
    if (truncate(path, cut_to)) wrong("truncate");
  }
  for (int i = 0; i < THREADS; i++) pthread_join(reader[i].thread, NULL);
  weft_scope_discard(scope);
}

/* ---- files that fail ---- */

/* Cut between opening and the first look, or while its arrays are on their way. */
static void cut_file(off_t to, bool is_started) {
  if (!write_file()) return;
  weft_scope *scope = weft_scope_open();
  weft_array *w[ARRAYS];
  open_weights(w);
  if (is_started && weft_eval_async(ARRAYS, w)) wrong(weft_message());
  if (truncate(path, to)) wrong("truncate");
  int refused = n_refused;
  pass(w, is_started, true);
  if (!is_started && n_refused != refused + 1) wrong("a file cut before it was read was not refused");
  weft_scope_discard(scope);
}

static void missing_file(void) {
  weft_scope *scope = weft_scope_open();
  weft_array *w[ARRAYS];
  unlink(path);
  open_weights(w);
  pass(w, false, true);
  weft_scope_discard(scope);
}

/* Written over and removed while it is lazily loaded: the arrays stay what they were. */
static void replaced_file(void) {
  if (!write_file()) return;
  weft_scope *scope = weft_scope_open();
  weft_array *w[ARRAYS], *other = weft_full(WEFT_F32, WEFT_DIMS(4), 1);
  open_weights(w);
  if (weft_save(path, 1, &names[1], &other, NULL)) wrong(weft_message());
  unlink(path);
  pass(w, true, false);
  weft_scope_discard(scope);
}

static void failing_files(void) {
  static const off_t lengths[] = { 0, 100, 5000, 300000, WORDS * WIDTH * 4 };
  for (int i = 0; i < 5; i++) {
    cut_file(lengths[i], false);
    cut_file(lengths[i], true);
  }
  missing_file();
  replaced_file();
}

static void show(const char *how) {
  scene_expect(!n_wrong, "%d of the passes, %s: %s", (int)n_wrong, how, first_wrong);
  atomic_store(&n_wrong, 0);
}

int main(int argc, char **argv) {
  scene_start(argc, argv, "SIGSEGV: a fused kernel gets a lazily loaded array whose buffer does not exist yet");
  on_device = argc > 1 && !strcmp(argv[1], "gpu");
  if (!mkdtemp(folder)) return perror(folder), 1;
  snprintf(path, sizeof path, "%s/weights.safetensors", folder);
  weft_scope *scope = weft_scope_open();
  weft_array *w[ARRAYS];
  make_weights(w);
  scene_ok(weft_read(forward(w), WEFT_F32, reference, sizeof reference), "the reference");
  weft_scope_discard(scope);
  for (int mode = 0; mode < 2; mode++) { /* mapped, and through read calls */
    const char *how = mode ? "read" : "mapped";
    setenv("WEFT_READ", mode ? "pread" : "map", 1);
    if (write_file()) run_threads(PASSES / THREADS, false, -1);
    show(how);
    failing_files();
    show(how);
    for (int i = 0; i < 5; i++) if (write_file()) run_threads(20, true, i * 200000);
    show(how);
  }
  unlink(path);
  rmdir(folder);
  return scene_end("%d passes by %d threads right to the last bit, while the weights were still on their way;\n"
                   "              %d looks at cut or missing files refused with a reason", (int)n_right, THREADS, (int)n_refused);
}
