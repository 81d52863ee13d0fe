/* gpu_memory.c -- the memory of a GPU: a cache of blocks in the order of the compute queue, and the way of bytes there and back.
 *
 * A block that is given may still be in use by what is enqueued. Whoever takes it for the compute queue comes later there anyhow;
 * for other queues it carries the point from which on it is free. Blocks come in eight sizes a doubling, so that one that was
 * given serves the next of nearly its size, and an eighth is the most that is wasted. */
#include <string.h>
#include "backend/cuda/driver.h"
#include "base/mem.h"

/* ---- Blocks ---- */

/* Counts bytes as used, if the limit leaves room for them: of several threads that ask, those who find none have taken nothing. */
static bool reserve(struct gpu *g, int64_t bytes) {
  int64_t used = atomic_load(&g->used);
  do if (bytes > atomic_load(&g->limit) - used) return false;
  while (!atomic_compare_exchange_weak(&g->used, &used, used + bytes));
  return true;
}

static void unreserve(struct gpu *g, int64_t bytes) { atomic_fetch_sub(&g->used, bytes); }

/* What was reserved is taken. */
static void raise_peak(struct gpu *g) {
  int64_t now = atomic_load(&g->used), most = atomic_load(&g->peak);
  while (now > most && !atomic_compare_exchange_weak(&g->peak, &most, now)) {}
}

struct device_bytes cuda_bytes(const struct gpu *g) {
  return (struct device_bytes){ atomic_load(&g->used), atomic_load(&g->peak), atomic_load(&g->cached),
                                cuda_is_there(g) ? atomic_load(&g->limit) : 0, atomic_load(&g->cache_limit) };
}

void cuda_set_peak(struct gpu *g, int64_t bytes) { atomic_store(&g->peak, bytes); }

static int64_t room_left(const struct gpu *g) { return atomic_load(&g->limit) - atomic_load(&g->used); }

/* Always some bytes more: words around the last byte may be combined into. */
static size_t rounded(size_t bytes) {
  size_t unit = 4096;
  while (unit * 16 <= bytes) unit *= 2;
  return (bytes + 4 + unit - 1) / unit * unit;
}

static bool from_cache(struct gpu *g, size_t bytes, uint64_t *at, uint64_t *since) {
  bool is_found = false;
  pthread_mutex_lock(&g->lock);
  for (int i = g->n_blocks; !is_found && i-- > 0;) {
    if (g->block[i].bytes != bytes) continue;
    *at = g->block[i].at, *since = g->block[i].since;
    memmove(g->block + i, g->block + i + 1, (size_t)(--g->n_blocks - i) * sizeof *g->block); /* oldest first */
    atomic_fetch_sub(&g->cached, (int64_t)bytes);
    is_found = true;
  }
  pthread_mutex_unlock(&g->lock);
  return is_found;
}

bool cuda_take_again(struct gpu *g, uint64_t at, size_t bytes) {
  int i = 0;
  pthread_mutex_lock(&g->lock);
  while (i < g->n_blocks && g->block[i].at != at) i++;
  bool is_there = i < g->n_blocks && g->block[i].bytes == rounded(bytes) && reserve(g, (int64_t)rounded(bytes));
  if (is_there) {
    memmove(g->block + i, g->block + i + 1, (size_t)(--g->n_blocks - i) * sizeof *g->block);
    atomic_fetch_sub(&g->cached, (int64_t)rounded(bytes));
  }
  pthread_mutex_unlock(&g->lock);
  if (is_there) raise_peak(g);
  return is_there;
}

static bool to_cache(struct gpu *g, uint64_t at, size_t bytes) {
  pthread_mutex_lock(&g->lock);
  bool has_room = g->n_blocks < CACHED;
  if (has_room) {
    g->block[g->n_blocks++] = (struct gpu_block){ at, bytes, cuda_owe_point(g, QUEUE_COMPUTE) };
    atomic_fetch_add(&g->cached, (int64_t)bytes);
  }
  pthread_mutex_unlock(&g->lock);
  return has_room;
}

/* Gives the oldest blocks back to the driver until no more than `most` bytes are kept. The driver waits before it frees what may
 * be in use; so do we, to be independent of that. */
static void shrink(struct gpu *g, int64_t most) {
  int n = 0;
  pthread_mutex_lock(&g->lock);
  bool may = atomic_load(&g->cached) > most && g->n_blocks && cuda_is_drained(g);
  for (; may && n < g->n_blocks && atomic_load(&g->cached) > most; n++) {
    cu.free(g->block[n].at);
    atomic_fetch_sub(&g->cached, (int64_t)g->block[n].bytes);
  }
  g->n_blocks -= n;
  memmove(g->block, g->block + n, sizeof *g->block * (size_t)g->n_blocks);
  pthread_mutex_unlock(&g->lock);
}

/* A full cache gives the half that was given longest ago back, after one wait for all of them. */
static void make_room(struct gpu *g) {
  if (cuda_enter(g, "giving memory back")) return;
  pthread_mutex_lock(&g->lock);
  int n = cuda_is_drained(g) ? g->n_blocks / 2 : 0;
  for (int i = 0; i < n; i++) {
    cu.free(g->block[i].at);
    atomic_fetch_sub(&g->cached, (int64_t)g->block[i].bytes);
  }
  memmove(g->block, g->block + n, (size_t)(g->n_blocks - n) * sizeof *g->block);
  g->n_blocks -= n;
  pthread_mutex_unlock(&g->lock);
}

static void keep_limits(struct gpu *g, int64_t most) {
  int64_t limit = atomic_load(&g->cache_limit);
  if (limit < most) most = limit;
  if (most < 0) most = 0;
  if (atomic_load(&g->cached) > most && !cuda_enter(g, "giving memory back")) shrink(g, most);
}

void cuda_set_limits(struct gpu *g, int64_t limit, int64_t cache) {
  atomic_store(&g->limit, limit < 0 ? INT64_MAX : limit);
  atomic_store(&g->cache_limit, cache < 0 ? INT64_MAX : cache);
  keep_limits(g, room_left(g));
}

/* From the cache, from the driver, or from the driver once the cache is given back. The bytes are reserved. */
static int take(struct gpu *g, size_t bytes, uint64_t *at, uint64_t *since) {
  if (from_cache(g, bytes, at, since)) return CUDA_OK; /* without a word to the driver */
  int s = cuda_enter(g, "taking memory");
  if (s) return s;
  keep_limits(g, room_left(g));
  s = cuda_status(cu.alloc(at, bytes), "taking memory");
  if (s != CUDA_NO_MEMORY) return s;
  shrink(g, 0);
  return cuda_status(cu.alloc(at, bytes), "taking memory");
}

int cuda_take(struct gpu *g, size_t bytes, uint64_t *at, uint64_t *since) {
  int s = cuda_is_there(g) ? CUDA_OK : cuda_enter(g, "taking memory");
  *at = 0, *since = 0;
  if (s) return s;
  if (mem_should_fail() || bytes > SIZE_MAX / 4 || !reserve(g, (int64_t)rounded(bytes)))
    return cuda_say("taking memory", "out of memory"), CUDA_NO_MEMORY;
  s = take(g, rounded(bytes), at, since);
  if (s) *at = 0, unreserve(g, (int64_t)rounded(bytes));
  else raise_peak(g);
  return s;
}

void cuda_give(struct gpu *g, uint64_t at, size_t bytes) {
  if (!at || !cuda_is_there(g)) return; /* a child of fork has none of it */
  unreserve(g, (int64_t)rounded(bytes));
  if (to_cache(g, at, rounded(bytes))) return keep_limits(g, room_left(g));
  make_room(g);
  if (to_cache(g, at, rounded(bytes)) || cuda_enter(g, "giving memory back")) return;
  if (cuda_is_drained(g)) cu.free(at);
}

/* ---- The way there and back ---- */

/* Pinned pieces and their events; a failure if they are not to be had. The stage's lock held. */
static int open_line(struct stage_line *s) {
  int how = CUDA_OK;
  for (int i = 0; !how && i < STAGE_PIECES; i++) {
    if (!s->event[i]) how = cuda_status(cu.event_new(&s->event[i], UNTIMED), "pinning memory");
    if (!how && !s->piece[i]) how = cuda_status(cu.host_alloc(&s->piece[i], STAGE_BYTES, 0), "pinning memory");
  }
  return how;
}

/* What a line moves. */
struct stage_part {
  struct gpu *g;
  struct stage_line *line;
  handle stream;
  uint8_t *here;
  uint64_t there;
  size_t bytes;
  bool is_up;
  int how;
  char why[200];
};

static size_t piece_of(size_t left) { return left < STAGE_BYTES ? left : STAGE_BYTES; }

/* While the device reads one piece the next is filled. */
static int upload(const struct stage_part *p) {
  int how = CUDA_OK;
  for (size_t at = 0, i = 0; !how && at < p->bytes; at += piece_of(p->bytes - at), i = (i + 1) % STAGE_PIECES) {
    how = cuda_status(cu.event_wait(p->line->event[i]), "uploading");
    if (how) break;
    memcpy(p->line->piece[i], p->here + at, piece_of(p->bytes - at));
    how = cuda_status(cu.to_device(p->there + at, p->line->piece[i], piece_of(p->bytes - at), p->stream), "uploading");
    if (!how) how = cuda_status(cu.event_record(p->line->event[i], p->stream), "uploading");
  }
  return how;
}

static int ask_for(const struct stage_part *p, int i, size_t at) {
  int how = cuda_status(cu.to_host(p->line->piece[i], p->there + at, piece_of(p->bytes - at), p->stream), "downloading");
  return how ? how : cuda_status(cu.event_record(p->line->event[i], p->stream), "downloading");
}

/* While one piece is copied to its place the device writes the next. */
static int download(const struct stage_part *p) {
  int how = ask_for(p, 0, 0);
  for (size_t at = 0, n, i = 0; !how && at < p->bytes; at += n, i = (i + 1) % STAGE_PIECES) {
    n = piece_of(p->bytes - at);
    if (at + n < p->bytes) how = ask_for(p, (int)(i + 1) % STAGE_PIECES, at + n);
    if (!how) how = cuda_status(cu.event_wait(p->line->event[i]), "downloading");
    if (!how) memcpy(p->here + at, p->line->piece[i], n);
  }
  return how;
}

static void *move_part(void *of) {
  struct stage_part *p = of;
  p->how = cuda_enter(p->g, p->is_up ? "uploading" : "downloading");
  if (!p->how) p->how = open_line(p->line);
  if (!p->how) p->how = p->is_up ? upload(p) : download(p);
  if (p->how) cu.wait(p->stream); /* nothing that was asked for comes later: pieces and memory are others' then */
  if (p->how) memcpy(p->why, cuda_message(), sizeof p->why - 1);
  return NULL;
}

/* Parts of at least STAGE_PIECES pieces, in whole pieces, one a line. Those for whom there is no thread come last. */
static int move(struct gpu *g, struct stage *s, bool is_up, enum queue q, void *here, uint64_t there, size_t bytes) {
  struct stage_part part[STAGE_LINES];
  pthread_t thread[STAGE_LINES];
  bool has_thread[STAGE_LINES] = { false };
  size_t pieces = (bytes - 1) / STAGE_BYTES + 1, lines = pieces / (2 * STAGE_PIECES);
  lines = lines < 1 ? 1 : lines > STAGE_LINES ? STAGE_LINES : lines;
  size_t each = (pieces + lines - 1) / lines * STAGE_BYTES;
  int n = 0, how = CUDA_OK;
  pthread_mutex_lock(&s->lock);
  for (size_t at = 0; at < bytes; at += each, n++) {
    part[n] = (struct stage_part){ g, &s->line[n], g->queue[q].stream, (uint8_t *)here + at, there + at,
                                   bytes - at < each ? bytes - at : each, is_up, CUDA_OK, "" };
    has_thread[n] = n > 0 && !pthread_create(&thread[n], NULL, move_part, &part[n]);
  }
  for (int i = 0; i < n; i++) if (!has_thread[i]) move_part(&part[i]);
  for (int i = 0; i < n; i++) if (has_thread[i]) pthread_join(thread[i], NULL);
  for (int i = 0; !how && i < n; i++) if ((how = part[i].how)) cuda_repeat(part[i].why);
  pthread_mutex_unlock(&s->lock);
  return how;
}

int cuda_copy(struct gpu *g, uint64_t to, uint64_t from, size_t bytes) {
  int how = cuda_record_other() ? cuda_enter(g, "copying") : CUDA_FAILED;
  return how || !bytes ? how : cuda_status(cu.copy(to, from, bytes, cuda_working_stream(g)), "copying");
}

int cuda_upload(struct gpu *g, enum queue q, uint64_t to, const void *from, size_t bytes) {
  int how = cuda_enter(g, "uploading");
  if (cuda_is_recording()) cuda_spoil();
  return how || !bytes ? how : move(g, &g->up[q], true, q, (void *)(uintptr_t)from, to, bytes);
}

int cuda_download(struct gpu *g, enum queue q, void *to, uint64_t from, size_t bytes) {
  int how = cuda_enter(g, "downloading");
  if (cuda_is_recording()) cuda_spoil();
  return how || !bytes ? how : move(g, &g->down, false, q, to, from, bytes);
}
