/* undo.c -- what copies overwrite of a leaf's memory: see undo.h. */
#include "run/undo.h"
#include <string.h>
#include "base/mem.h"
#include "run/compiled.h"
#include "run/donate.h"
#include "run/memory.h"

enum { SMALL_PART = 4 }; /* at most a fourth of the leaf is kept: beyond that memory is saved no more */

struct undo {
  struct undo *older;
  int step;
  bool is_kept;
  size_t bytes;
  uint8_t *old;
};

/* ---- The part of memory that a copy writes to ---- */

struct overwritten { uint8_t *first; int rank; int64_t extent[AXES], stride[AXES]; size_t size; }; /* strides in bytes */

/* A copy's sizes are the extents of its axes (schedule/copy_kernel.c). */
static struct overwritten overwritten_of(const struct plan *p, int i, uint8_t *const base[]) {
  const struct step *s = &p->schedule->step[i];
  const struct kir_kernel *k = p->code[i]->kernel;
  const struct binding *to = &s->bufs[1];
  struct overwritten x = { .rank = k->n_sizes, .size = weft_dtype_bytes((weft_dtype)k->bufs[1].dtype) };
  x.first = base ? base[to->store] + to->offset * (int64_t)x.size : NULL;
  for (int a = 0; a < x.rank; a++) x.extent[a] = s->sizes[a], x.stride[a] = to->stride[a] * (int64_t)x.size;
  return x;
}

static int64_t overwritten_bytes(const struct overwritten *x) {
  int64_t n = (int64_t)x->size;
  for (int a = 0; a < x->rank; a++) n *= x->extent[a];
  return n;
}

static void move(uint8_t *there, uint8_t *kept, size_t bytes, bool is_back) {
  if (is_back) memcpy(there, kept, bytes);
  else memcpy(kept, there, bytes);
}

/* Saves the elements along axes a and later into `kept`, one after the other, or puts them back. Gives where the next one goes. */
static uint8_t *overwritten_move(const struct overwritten *x, int a, uint8_t *at, uint8_t *kept, bool is_back) {
  bool is_run = a == x->rank - 1 && x->stride[a] == (int64_t)x->size;
  size_t bytes = is_run ? x->size * (size_t)x->extent[a] : x->size;
  if (is_run || a == x->rank) return move(at, kept, bytes, is_back), kept + bytes;
  for (int64_t i = 0; i < x->extent[a]; i++) kept = overwritten_move(x, a + 1, at + i * x->stride[a], kept, is_back);
  return kept;
}

/* ---- Which steps ---- */

static bool changes(const struct plan *p, const struct gift *g, int i) {
  return step_writes(p->schedule, i, g->to) && !step_is_copy_within(&p->schedule->step[i], g->from, g->to);
}

/* A leaf that another array is copied over as a whole is no case for it: it must be the one that stands there. */
static bool begins_as_it_is(const struct plan *p, const struct gift *g) {
  const struct store *t = &p->schedule->store[g->to];
  for (int i = t->first; i < g->step; i++)
    if (step_is_copy_within(&p->schedule->step[i], g->from, g->to)) return true;
  return false;
}

bool undo_may(const struct plan *p, const struct gift *g) {
  int64_t bytes = 0;
  if (p->device || p->needs_caller || !begins_as_it_is(p, g)) return false;
  for (int i = g->step; i < p->schedule->n_steps; i++) {
    if (!changes(p, g, i)) continue;
    if (!p->schedule->step[i].is_copy) return false;
    struct overwritten x = overwritten_of(p, i, NULL);
    bytes += overwritten_bytes(&x);
  }
  return bytes <= p->schedule->store[g->to].bytes / SMALL_PART;
}

static struct undo *undo_new(struct undo *older, int step, int64_t bytes) {
  struct undo *u = mem_alloc(sizeof *u);
  if (!u) return NULL;
  *u = (struct undo){ older, step, false, (size_t)bytes, memory_take((size_t)bytes + 1) };
  if (!u->old) return mem_free(u), NULL;
  return u;
}

static void undo_free(struct undo *u) {
  memory_give(u->old, u->bytes + 1);
  mem_free(u);
}

bool undo_plan(const struct plan *p, struct run *r, const struct gift *g) {
  struct undo *before = r->undo;
  for (int i = g->step; i < p->schedule->n_steps; i++) {
    if (!changes(p, g, i)) continue;
    struct overwritten x = overwritten_of(p, i, NULL);
    struct undo *u = undo_new(r->undo, i, overwritten_bytes(&x));
    if (!u) {
      while (r->undo != before) u = r->undo, r->undo = u->older, undo_free(u);
      return false;
    }
    r->undo = u;
  }
  return true;
}

void undo_keep(const struct plan *p, struct run *r, int step, uint8_t *const base[]) {
  for (struct undo *u = r->undo; u; u = u->older) {
    if (u->step != step || u->is_kept) continue;
    overwriting_begin();
    struct overwritten x = overwritten_of(p, step, base);
    overwritten_move(&x, 0, x.first, u->old, false);
    u->is_kept = true;
  }
}

/* The last first: parts may overlap. */
void undo_end(const struct plan *p, struct run *r, uint8_t *const base[], bool writes_back) {
  for (int i = p->schedule->n_steps; r->undo && writes_back && i-- > 0;)
    for (struct undo *u = r->undo; u; u = u->older) {
      if (u->step != i || !u->is_kept) continue;
      struct overwritten x = overwritten_of(p, i, base);
      overwritten_move(&x, 0, x.first, u->old, true);
    }
  for (struct undo *u; (u = r->undo);) r->undo = u->older, undo_free(u);
}
