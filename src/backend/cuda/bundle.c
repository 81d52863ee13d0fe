/* bundle.c -- launches that the driver is handed at once, as often as they are wanted: CUDA graphs.
 *
 * Between begin and end all that the calling thread launches, copies or has multiplied goes to a stream that only records; other
 * threads enqueue as before. Memory that the launches work in belongs to the recording until it is started, so that nobody else
 * enqueues something on it that would come first. Afterwards it is free like any other, and a bundle starts again only if it can
 * have the very same blocks. What cannot be recorded spoils the bundle: then nothing of it has run. */
#include <string.h>
#include "backend/cuda/driver.h"
#include "base/mem.h"

enum { RELAXED = 2 };                 /* how a stream records: calls about other streams are allowed meanwhile */
enum { BUNDLES = 256 };               /* on a device: each takes memory of it that nobody counts */
enum { BUNDLE_BLOCKS = 32 };

struct bundle_block { uint64_t at; size_t bytes; bool is_free; };

struct bundle {
  handle graph;
  int n_blocks, n_names;
  struct bundle_block block[BUNDLE_BLOCKS];
  char name[SUSPECTS][60];            /* of its last kernels */
};

static _Thread_local struct bundle *recording; /* NULL: this thread records nothing */
static _Thread_local struct gpu *recording_on;
static _Thread_local bool is_spoilt;

/* ---- While it is recorded ---- */

bool cuda_is_recording(void) { return recording; }
void cuda_spoil(void) { is_spoilt = true; }

handle cuda_working_stream(struct gpu *g) {
  if (recording && recording_on == g) return g->recorder;
  cuda_pay_points(g);
  return g->queue[QUEUE_COMPUTE].stream;
}

bool cuda_record_name(const char *name) {
  if (!recording) return false;
  char *to = recording->name[recording->n_names++ % SUSPECTS];
  strncpy(to, name, sizeof recording->name[0] - 1);
  return true;
}

static struct bundle_block *free_block(struct bundle *b, size_t bytes) {
  for (int i = 0; i < b->n_blocks; i++) if (b->block[i].is_free && b->block[i].bytes == bytes) return &b->block[i];
  return NULL;
}

int cuda_take_room(struct gpu *g, size_t bytes, uint64_t *at) {
  struct bundle_block *x = recording ? free_block(recording, bytes) : NULL;
  if (x) return x->is_free = false, *at = x->at, CUDA_OK;
  int s = cuda_take(g, bytes, at, &(uint64_t){ 0 });
  if (s || !recording) return s;
  if (recording->n_blocks == BUNDLE_BLOCKS) return is_spoilt = true, CUDA_OK;
  recording->block[recording->n_blocks++] = (struct bundle_block){ *at, bytes, false };
  return CUDA_OK;
}

void cuda_give_room(struct gpu *g, uint64_t at, size_t bytes) {
  for (int i = 0; at && recording && i < recording->n_blocks; i++)
    if (recording->block[i].at == at) { recording->block[i].is_free = true; return; }
  cuda_give(g, at, bytes);
}

/* ---- Beginning and end ---- */

static void give_blocks(struct gpu *g, const struct bundle *b, int n) {
  for (int i = 0; i < n; i++) cuda_give(g, b->block[i].at, b->block[i].bytes);
}

static bool take_blocks(struct gpu *g, const struct bundle *b) {
  for (int i = 0; i < b->n_blocks; i++)
    if (!cuda_take_again(g, b->block[i].at, b->block[i].bytes)) return give_blocks(g, b, i), false;
  return true;
}

int cuda_bundle_begin(struct gpu *g) {
  if (recording || cuda_enter(g, "recording launches") || atomic_load(&g->n_bundles) >= BUNDLES) return DEVICE_CANNOT;
  if (pthread_mutex_trylock(&g->recorder_lock)) return DEVICE_CANNOT;
  struct bundle *b = mem_alloc(sizeof *b);
  bool ok = b && (g->recorder || !cu.stream_new(&g->recorder, NON_BLOCKING)) && !cu.capture_begin(g->recorder, RELAXED);
  if (!ok) {
    mem_free(b);
    pthread_mutex_unlock(&g->recorder_lock);
    return DEVICE_CANNOT;
  }
  recording = b, recording_on = g, is_spoilt = false;
  return CUDA_OK;
}

static int start(struct gpu *g, struct bundle *b) {
  int s = cuda_status(cu.graph_launch(b->graph, cuda_working_stream(g)), "launching");
  int first = b->n_names > SUSPECTS ? b->n_names - SUSPECTS : 0;
  for (int i = first; !s && i < b->n_names; i++) cuda_note_launch(g, b->name[i % SUSPECTS]);
  return s;
}

int cuda_bundle_end(struct gpu *g, bool is_wanted, struct bundle **out) {
  struct bundle *b = recording;
  handle recorded = NULL;
  recording = NULL;
  bool ok = !cu.capture_end(g->recorder, &recorded) && recorded && is_wanted && !is_spoilt;
  ok = ok && !cu.graph_instantiate(&b->graph, recorded, 0);
  if (recorded) cu.graph_free(recorded);
  pthread_mutex_unlock(&g->recorder_lock);
  int s = ok ? start(g, b) : DEVICE_CANNOT;
  give_blocks(g, b, b->n_blocks);
  if (ok) atomic_fetch_add(&g->n_bundles, 1);
  if (s && ok) cuda_bundle_free(g, b);
  else if (s) mem_free(b);
  *out = s ? NULL : b;
  return s;
}

int cuda_bundle_start(struct gpu *g, struct bundle *b) {
  int s = cuda_enter(g, "launching");
  if (s) return s;
  if (!take_blocks(g, b)) return DEVICE_CANNOT;
  s = start(g, b);
  give_blocks(g, b, b->n_blocks);
  return s;
}

void cuda_bundle_free(struct gpu *g, struct bundle *b) {
  if (!b) return;
  if (!cuda_enter(g, "forgetting launches")) {
    (void)cu.wait(g->queue[QUEUE_COMPUTE].stream); /* it may still run */
    cu.graph_exec_free(b->graph);
  }
  atomic_fetch_sub(&g->n_bundles, 1);
  mem_free(b);
}
