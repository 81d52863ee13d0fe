/* bundle.c -- launches that the driver is handed at once, as often as they are wanted: CUDA graphs.
 *
 * Between begin and end all that the calling thread launches, copies or has multiplied goes to a stream that only records; other
 * threads enqueue as before. Memory that the launches work in belongs to the recording until it is started, so that nobody else
 * enqueues something on it that would come first. Afterwards it is free like any other, and a bundle starts again only if it can
 * have the very same blocks. What cannot be recorded spoils the bundle: then nothing of it has run.
 *
 * A bundle of launches alone can be renewed: the same launches with other parameters, of which those that differ are set. Measured
 * (bench/bundle, one H200): 16 kernels take the host 79 us to launch, 2 as a graph, 7 as one with new parameters; where they read
 * theirs from a block in memory, which is copied first, 4, but each kernel waits for it, and the row takes a quarter longer. */
#include <string.h>
#include "backend/cuda/driver.h"
#include "base/mem.h"

enum { RELAXED = 2 };                 /* how a stream records: calls about other streams are allowed meanwhile */
enum { BUNDLES = 512 };               /* on a device: each takes memory of it that nobody counts */
enum { BUNDLE_BLOCKS = 32, BUNDLE_NODES = 4096 }; /* more nodes take the driver tens of milliseconds to make ready */

struct bundle_block { uint64_t at; size_t bytes; bool is_free; };

struct bundle_node { handle node, entry; unsigned grid[3], block[3]; size_t shared_bytes; int n_params, first; }; /* of `param` */

struct bundle {
  handle graph;
  bool is_pure;                       /* launches and nothing else */
  int n_nodes, n_params, node_room, param_room;
  struct bundle_node *node;
  uint64_t *param;
  int n_blocks, n_names;
  struct bundle_block block[BUNDLE_BLOCKS];
  char name[SUSPECTS][60];            /* of its last kernels */
};

static _Thread_local struct bundle *recording; /* NULL: this thread records nothing */
static _Thread_local struct gpu *recording_on;
static _Thread_local bool is_spoilt, is_renewed; /* is_renewed: no stream records, nodes get other parameters */
static _Thread_local int next_node;

/* ---- While it is recorded ---- */

bool cuda_is_recording(void) { return recording; }
void cuda_spoil(void) { is_spoilt = true; }

/* A copy, or what a library launches itself: nobody knows its parameters. */
bool cuda_record_other(void) {
  if (!recording) return true;
  recording->is_pure = false;
  is_spoilt |= is_renewed;
  return !is_renewed;
}

/* Room for one more, and its parameters. */
static bool make_room(struct bundle *b, int n_params) {
  if (b->n_nodes == b->node_room) {
    struct bundle_node *more = mem_resize(b->node, sizeof *more * (size_t)(2 * b->node_room + 8));
    if (!more) return false;
    b->node = more, b->node_room = 2 * b->node_room + 8;
  }
  if (b->n_params + n_params > b->param_room) {
    int room = 2 * b->param_room + n_params + 64;
    uint64_t *more = mem_resize(b->param, sizeof *more * (size_t)room);
    if (!more) return false;
    b->param = more, b->param_room = room;
  }
  return true;
}

/* The node that the stream has recorded last; NULL: it does not say. */
static handle last_node(struct gpu *g) {
  int state = 0;
  uint64_t id = 0;
  const handle *of = NULL;
  handle graph = NULL;
  size_t n = 0;
  return cu.capture_info(g->recorder, &state, &id, &graph, &of, &n) || n != 1 ? NULL : of[0];
}

static void note_node(struct gpu *g, const struct cuda_launch *l, int n, const uint64_t params[]) {
  struct bundle *b = recording;
  handle node = last_node(g);
  is_spoilt |= b->n_nodes == BUNDLE_NODES;
  if (!node || !make_room(b, n)) { b->is_pure = false; return; }
  b->node[b->n_nodes] = (struct bundle_node){ node, (handle)l->entry, { l->grid[0], l->grid[1], l->grid[2] },
                                              { l->block[0], l->block[1], l->block[2] }, l->shared_bytes, n, b->n_params };
  memcpy(b->param + b->n_params, params, sizeof *params * (size_t)n);
  b->n_nodes++, b->n_params += n;
}

static bool is_same(const struct bundle *b, const struct bundle_node *x, const struct cuda_launch *l, const uint64_t params[]) {
  return !memcmp(x->grid, l->grid, sizeof x->grid) && !memcmp(x->block, l->block, sizeof x->block) &&
         x->shared_bytes == l->shared_bytes && !memcmp(b->param + x->first, params, sizeof *params * (size_t)x->n_params);
}

/* The next node, as it is to be launched now. */
static void renew_node(const struct cuda_launch *l, int n, const uint64_t params[], void *pointers[]) {
  struct bundle *b = recording;
  struct bundle_node *x = next_node < b->n_nodes ? &b->node[next_node++] : NULL;
  if (!x || x->entry != (handle)l->entry || x->n_params != n) { is_spoilt = true; return; }
  if (is_same(b, x, l, params)) return;
  struct node_params p = { x->entry, { l->grid[0], l->grid[1], l->grid[2] }, { l->block[0], l->block[1], l->block[2] },
                           (unsigned)l->shared_bytes, pointers, NULL, NULL, NULL };
  if (cuda_allow_shared(x->entry, l->shared_bytes) || cu.graph_set_node(b->graph, x->node, &p)) is_spoilt = true;
  memcpy(x->grid, l->grid, sizeof x->grid);
  memcpy(x->block, l->block, sizeof x->block);
  x->shared_bytes = l->shared_bytes;
  memcpy(b->param + x->first, params, sizeof *params * (size_t)n);
}

int cuda_record_launch(struct gpu *g, const struct cuda_launch *l, int n, const uint64_t params[], void *pointers[]) {
  if (is_renewed) return renew_node(l, n, params, pointers), CUDA_OK;
  int s = cuda_start(g, l, pointers);
  if (!s) note_node(g, l, n, params);
  return s;
}

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
  b->is_pure = true;
  recording = b, recording_on = g, is_spoilt = is_renewed = false;
  return CUDA_OK;
}

int cuda_bundle_renew(struct gpu *g, struct bundle *b) {
  if (recording || !b->is_pure || cuda_enter(g, "recording launches")) return DEVICE_CANNOT;
  recording = b, recording_on = g, is_spoilt = false, is_renewed = true;
  next_node = b->n_blocks = b->n_names = 0;
  return CUDA_OK;
}

static void drop(struct bundle *b) {
  mem_free(b->node);
  mem_free(b->param);
  mem_free(b);
}

static int start(struct gpu *g, struct bundle *b) {
  int s = cuda_status(cu.graph_launch(b->graph, cuda_working_stream(g)), "launching");
  int first = b->n_names > SUSPECTS ? b->n_names - SUSPECTS : 0;
  for (int i = first; !s && i < b->n_names; i++) cuda_note_launch(g, b->name[i % SUSPECTS]);
  return s;
}

static int end_renewal(struct gpu *g, bool is_wanted, struct bundle **out) {
  struct bundle *b = recording;
  recording = NULL;
  int s = is_wanted && !is_spoilt && next_node == b->n_nodes ? start(g, b) : DEVICE_CANNOT;
  give_blocks(g, b, b->n_blocks);
  if (s) cuda_bundle_free(g, b);
  *out = s ? NULL : b;
  return s;
}

int cuda_bundle_end(struct gpu *g, bool is_wanted, struct bundle **out) {
  struct bundle *b = recording;
  handle recorded = NULL;
  if (is_renewed) return end_renewal(g, is_wanted, out);
  recording = NULL;
  bool ok = !cu.capture_end(g->recorder, &recorded) && recorded && is_wanted && !is_spoilt;
  ok = ok && !cu.graph_instantiate(&b->graph, recorded, 0);
  if (recorded) cu.graph_free(recorded);
  pthread_mutex_unlock(&g->recorder_lock);
  int s = ok ? start(g, b) : DEVICE_CANNOT;
  give_blocks(g, b, b->n_blocks);
  if (ok) atomic_fetch_add(&g->n_bundles, 1);
  if (s && ok) cuda_bundle_free(g, b);
  else if (s) drop(b);
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
  if (!cuda_enter(g, "forgetting launches") && cuda_is_drained(g)) cu.graph_exec_free(b->graph); /* it may still run */
  atomic_fetch_sub(&g->n_bundles, 1);
  drop(b);
}
