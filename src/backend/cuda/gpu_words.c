/* gpu_words.c -- words of the device that checks write to (struct finding_words), clear as long as nothing was found.
 *
 * Most checks find nothing, and then their words are as they were: the next run has them as they are. To set them before every
 * run took a copy from the host between two kernels, before which the host waited for the copy of the run before. The words of
 * a check are clean, or may have been written to; the latter are set anew, in the compute queue and so behind whatever still
 * writes to them, when somebody wants them. There are those of WORDS checks in one piece; who finds none free takes memory of his
 * own. */
#include "backend/cuda/driver.h"
#include "base/mem.h"

enum { FREE, TOUCHED, LENT };
enum { BYTES = sizeof(struct finding_words), MOST = WORDS / 4 }; /* of a check; checks of one run */

/* Lock held: words of n checks in a row that are free, or also those that were touched; -1: there are none. */
static int find(const struct gpu_words *w, int n, int state) {
  int row = 0;
  for (int i = 0; i < WORDS; i++) {
    row = w->state[i] <= state ? row + 1 : 0;
    if (row == n) return i + 1 - n;
  }
  return -1;
}

static void mark(struct gpu_words *w, int at, int n, int state) { for (int i = at; i < at + n; i++) w->state[i] = (uint8_t)state; }

/* Words of at most MOST checks of a run that is not enqueued yet. */
static int set_out(struct gpu *g, uint64_t at, int n) {
  struct finding_words none[MOST];
  words_clear(none, n);
  return cuda_upload(g, QUEUE_COMPUTE, at, none, (size_t)n * sizeof *none);
}

/* Lock held. */
static int make_words(struct gpu *g) {
  uint64_t at = 0;
  int how = cuda_enter(g, "taking memory");
  if (!how && mem_should_fail()) return DEVICE_CANNOT;
  if (!how) how = cuda_status(cu.alloc(&at, WORDS * BYTES), "taking memory");
  if (how == CUDA_NO_MEMORY) return DEVICE_CANNOT;
  for (int i = 0; i < WORDS && !how; i += MOST) how = set_out(g, at + (uint64_t)i * BYTES, MOST);
  if (!how) g->words.at = at;
  return how;
}

int cuda_words_take(struct gpu *g, int n, uint64_t *at) {
  struct gpu_words *w = &g->words;
  int there = cuda_is_there(g) ? CUDA_OK : cuda_enter(g, "taking memory");
  if (there || n > MOST) return there ? there : DEVICE_CANNOT;
  pthread_mutex_lock(&w->lock);
  int how = w->at ? CUDA_OK : make_words(g), found = how ? -1 : find(w, n, FREE);
  bool is_clean = found >= 0;
  if (!how && !is_clean) found = find(w, n, TOUCHED);
  if (found >= 0) mark(w, found, n, LENT);
  pthread_mutex_unlock(&w->lock);
  if (how || found < 0) return how ? how : DEVICE_CANNOT;
  *at = w->at + (uint64_t)found * BYTES;
  if (!is_clean) how = set_out(g, *at, n);
  if (how) cuda_words_give(g, *at, n, false);
  return how;
}

void cuda_words_give(struct gpu *g, uint64_t at, int n, bool are_clean) {
  struct gpu_words *w = &g->words;
  if (!cuda_is_there(g)) return; /* a child of fork has none of it */
  pthread_mutex_lock(&w->lock);
  mark(w, (int)((at - w->at) / BYTES), n, are_clean ? FREE : TOUCHED);
  pthread_mutex_unlock(&w->lock);
}
