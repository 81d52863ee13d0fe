/* memory_plan.c -- which values share memory: liveness from step to step, then a place in one block for each. */
#include <string.h>
#include "schedule/work.h"

enum {
  ALIGN = 64,
  CRUMB = 64,        /* a free range is not broken for less than one part in so many of it */
  LONGEST_LIFE = 256 /* steps that are looked through for a value that moves */
};

struct moment { struct schedule *s; int step; };

static void touch(void *of, int *store, enum store_use use) {
  const struct moment *m = of;
  struct store *t = &m->s->store[*store];
  if (t->first < 0) t->first = m->step;
  t->last = m->step;
  (void)use;
}

/* Free ranges of the block, sorted by offset, neighbours joined. */
struct range { int64_t at, bytes; };
struct ranges { struct range *r; int n, room; int64_t top; };

static int64_t take(struct ranges *f, int64_t bytes) {
  int best = -1, last = f->n - 1;
  for (int i = 0; i < f->n; i++)
    if (f->r[i].bytes >= bytes && f->r[i].bytes / CRUMB <= bytes && (best < 0 || f->r[i].bytes < f->r[best].bytes)) best = i;
  if (best < 0) { /* grow, from a free range at the top if there is one */
    if (last >= 0 && f->r[last].at + f->r[last].bytes == f->top && f->r[last].bytes < bytes) {
      int64_t at = f->r[--f->n].at;
      f->top = at + bytes;
      return at;
    }
    f->top += bytes;
    return f->top - bytes;
  }
  int64_t at = f->r[best].at;
  f->r[best].at += bytes;
  f->r[best].bytes -= bytes;
  if (!f->r[best].bytes) memmove(&f->r[best], &f->r[best + 1], sizeof *f->r * (size_t)(--f->n - best));
  return at;
}

static bool give(struct work *w, struct ranges *f, int64_t at, int64_t bytes) {
  if (f->n == f->room) {
    int room = f->room ? 2 * f->room : 32;
    struct range *r = arena_grow(w->arena, f->r, sizeof *r * (size_t)f->n, sizeof *r * (size_t)room);
    if (!r) return !(w->no_memory = true);
    f->r = r, f->room = room;
  }
  int i = f->n;
  while (i > 0 && f->r[i - 1].at > at) i--;
  memmove(&f->r[i + 1], &f->r[i], sizeof *f->r * (size_t)(f->n++ - i));
  f->r[i] = (struct range){ at, bytes };
  if (i + 1 < f->n && at + bytes == f->r[i + 1].at) {
    f->r[i].bytes += f->r[i + 1].bytes;
    memmove(&f->r[i + 1], &f->r[i + 2], sizeof *f->r * (size_t)(--f->n - i - 1));
  }
  if (i > 0 && f->r[i - 1].at + f->r[i - 1].bytes == at) {
    f->r[i - 1].bytes += f->r[i].bytes;
    memmove(&f->r[i], &f->r[i + 1], sizeof *f->r * (size_t)(--f->n - i));
  }
  return true;
}

/* ---- donation ---- */

static bool is_temporary(const struct store *s) { return s->leaf < 0 && !s->is_output; }

struct donor { const struct schedule *s; const bool *gives; int step, to, from; };

static void offer(void *of, int *store, enum store_use use) {
  struct donor *d = of;
  const struct store *t = &d->s->store[*store];
  bool is_free = is_temporary(t) && t->last == d->step && !d->gives[*store] && t->bytes == d->s->store[d->to].bytes;
  if (d->from >= 0 || use != STORE_READ || !is_free) return;
  if (step_may_overwrite(&d->s->step[d->step], *store, d->to)) d->from = *store;
}

/* A store that dies in step i and that the step reads just where it writes store `to`, or -1. */
static int donor(struct schedule *s, int i, int to, const bool gives[]) {
  struct donor d = { s, gives, i, to, -1 };
  if (s->step[i].kind->may_overwrite) step_stores(s, i, offer, &d);
  return d.from;
}

/* ---- values that stand in an output before it is there ---- */

struct move { int from, to; };

static void move(void *of, int *store, enum store_use use) {
  const struct move *m = of;
  (void)use;
  if (*store == m->from) *store = m->to;
}

static void move_store(struct schedule *s, int from, int to) {
  struct store *a = &s->store[from], *b = &s->store[to];
  for (int i = a->first; i <= a->last; i++) step_stores(s, i, move, &(struct move){ from, to });
  b->first = a->first;
  a->first = a->last = -1;
}

/* A value that dies where an output is written in its place stands there from its beginning. */
static void stand_in_outputs(struct schedule *s, const bool gives[]) {
  for (int to = 0; to < s->n_stores; to++) {
    const struct store *t = &s->store[to];
    if (!t->is_output || !t->bytes) continue;
    for (int from = to; from >= 0 && t->first >= 0;) {
      from = donor(s, t->first, to, gives);
      if (from >= 0 && s->store[from].last - s->store[from].first > LONGEST_LIFE) from = -1;
      if (from >= 0) move_store(s, from, to);
    }
  }
}

static int64_t padded(int64_t bytes) { return (bytes + ALIGN - 1) / ALIGN * ALIGN; }

static int *ints(struct work *w, int n) { return work_take(w, sizeof(int) * (size_t)(n + 1)); }

bool memory_plan(struct work *w) {
  struct schedule *s = w->out;
  struct ranges f = { 0 };
  for (int i = 0; i < s->n_steps; i++) step_stores(s, i, touch, &(struct moment){ s, i });
  int *by_first = ints(w, s->n_steps), *by_last = ints(w, s->n_steps); /* by step: the first store that begins, ends there */
  int *next_first = ints(w, s->n_stores), *next_last = ints(w, s->n_stores);
  bool *gives = work_take(w, (size_t)s->n_stores + 1); /* its memory has gone over to another */
  if (w->no_memory) return false;
  stand_in_outputs(s, gives);
  for (int i = 0; i < s->n_steps; i++) by_first[i] = by_last[i] = -1;
  for (int i = 0; i < s->n_stores; i++) {
    struct store *t = &s->store[i];
    if (!is_temporary(t) || t->first < 0) continue;
    next_first[i] = by_first[t->first], by_first[t->first] = i;
    next_last[i] = by_last[t->last], by_last[t->last] = i;
  }
  for (int i = 0; i < s->n_steps; i++) {
    for (int j = by_first[i]; j >= 0; j = next_first[j]) {
      int from = donor(s, i, j, gives);
      if (from >= 0) gives[from] = true;
      s->store[j].offset = from >= 0 ? s->store[from].offset : take(&f, padded(s->store[j].bytes));
    }
    for (int j = by_last[i]; j >= 0; j = next_last[j])
      if (s->store[j].bytes && !gives[j] && !give(w, &f, s->store[j].offset, padded(s->store[j].bytes))) return false;
  }
  s->block_bytes = f.top;
  return true;
}
