/* races.c -- see races.h. Time passes where threads meet: what a thread did before is older than what it is known to have done by. */
#include "races.h"
#include <stdlib.h>
#include <string.h>

enum { PAGE = 4096, SLOTS = 1 << 16, NOBODY = -1, MANY = -2, MOST_BARRIERS = 64 };

/* One thing that was done to a byte: in which turn, when, by whom, in which line. A turn ends where all threads of a block meet. */
struct deed { uint32_t turn, time; int16_t by; bool combines; int32_t line; };
struct cell { struct deed stored, read; uint32_t readers; }; /* read: last, by MANY if there is a set of readers */
struct page { struct page *next; uint64_t at; struct cell cell[PAGE]; };
struct barrier { const void *at; uint32_t turn, *known; };

static struct {
  int n;                        /* threads; the copier is one more */
  bool talks;
  uint32_t turn, time, first_of_launch, first_of_block;
  uint32_t *known, *known_turn; /* [of thread][of another]: until when it knows; 0 where that is of an older turn */
  size_t known_room;
  uint64_t shared;
  size_t shared_bytes, shared_room;
  struct cell *cells;           /* of shared memory */
  struct page *pages[SLOTS];
  uint32_t *sets;               /* of readers, of this turn: see times_of */
  size_t n_sets, sets_room;
  struct barrier barriers[MOST_BARRIERS];
  int n_barriers;
} all;

bool races_are_sought(void) {
  static int sought = -1;
  if (sought < 0) sought = getenv("WEFT_TEST_DRIVER_RACES") != NULL;
  return sought;
}

int races_copier(void) { return all.n; }

/* ---- What threads know of each other ---- */

static size_t row_length(void) { return (size_t)all.n + 1; }

static uint32_t *known_of(int thread) {
  uint32_t *row = all.known + (size_t)thread * row_length();
  if (all.known_turn[thread] != all.turn) memset(row, 0, row_length() * sizeof *row), all.known_turn[thread] = all.turn;
  return row;
}

static void learn(uint32_t *to, const uint32_t *from) {
  for (size_t k = 0; k < row_length(); k++) if (from[k] > to[k]) to[k] = from[k];
}

static void next_turn(void) { all.turn++, all.time++, all.n_sets = 0, all.n_barriers = 0; }

void races_begin_launch(int n, bool talks) {
  all.n = n, all.talks = talks;
  size_t room = row_length() * row_length();
  if (room > all.known_room) {
    free(all.known), free(all.known_turn);
    all.known = malloc(room * sizeof *all.known), all.known_turn = calloc(row_length(), sizeof *all.known_turn);
    all.known_room = room;
  }
  memset(all.known_turn, 0, row_length() * sizeof *all.known_turn);
  next_turn();
  all.first_of_launch = all.turn;
}

void races_end_launch(void) {
  for (int k = 0; k < SLOTS; k++)
    for (struct page *p; (p = all.pages[k]); free(p)) all.pages[k] = p->next;
}

void races_begin_block(const void *shared, size_t bytes) {
  next_turn();
  all.first_of_block = all.turn;
  all.shared = (uint64_t)(uintptr_t)shared, all.shared_bytes = bytes;
  if (bytes <= all.shared_room) return;
  free(all.cells);
  all.cells = calloc(all.shared_room = bytes, sizeof *all.cells);
}

void races_meet_all(void) { next_turn(); }

void races_meet_some(int first, uint32_t mask) {
  uint32_t *sum = NULL;
  all.time++;
  for (int l = 0; l < 32; l++) {
    if (!(mask >> l & 1) || first + l >= all.n) continue;
    uint32_t *row = known_of(first + l);
    row[first + l] = all.time;
    if (sum) learn(sum, row);
    else sum = row;
  }
  for (int l = 0; l < 32 && sum; l++)
    if (mask >> l & 1 && first + l < all.n && known_of(first + l) != sum) memcpy(known_of(first + l), sum, row_length() * sizeof *sum);
}

static uint32_t *known_at(const void *at) {
  int k = 0;
  while (k < all.n_barriers && all.barriers[k].at != at) k++;
  if (k == MOST_BARRIERS) return NULL;
  struct barrier *b = &all.barriers[k];
  if (k == all.n_barriers) {
    all.n_barriers++, b->at = at;
    free(b->known), b->known = calloc(row_length(), sizeof *b->known);
  }
  return b->known;
}

void races_arrive(int thread, const void *at) {
  uint32_t *known = known_at(at);
  if (!known) return;
  if (thread < all.n) learn(known, known_of(thread));
  known[thread] = ++all.time;
}

void races_await(int thread, const void *at) {
  const uint32_t *known = known_at(at);
  if (known) learn(known_of(thread), known);
}

/* ---- Bytes ---- */

static bool is_shared(uint64_t at) { return at - all.shared < all.shared_bytes; }

/* The cell of a byte; NULL: of global memory that nobody has stored to, and it is not to be made. */
static struct cell *cell_at(uint64_t at, bool makes) {
  if (is_shared(at)) return &all.cells[at - all.shared];
  uint64_t begin = at / PAGE * PAGE;
  struct page **slot = &all.pages[(begin / PAGE * UINT64_C(0x9e3779b97f4a7c15)) >> 48], *p = *slot;
  while (p && p->at != begin) p = p->next;
  if (!p && makes) {
    p = calloc(1, sizeof *p);
    p->at = begin, p->next = *slot, *slot = p;
  }
  return p ? &p->cell[at - begin] : NULL;
}

/* Whether what was done is over for the thread that comes now. */
static bool is_over(const struct deed *d, int by, int thread, bool in_shared) {
  if (d->turn < all.first_of_launch || by == thread) return true;
  if (d->turn < all.first_of_block) return in_shared || all.talks;
  return d->turn < all.turn || (by >= 0 && known_of(thread)[by] > d->time);
}

/* When each thread has read it last, 0: not in this turn. */
static uint32_t *times_of(const struct cell *c) { return all.sets + c->readers * row_length(); }

static void make_set(struct cell *c) {
  size_t n = (all.n_sets + 1) * row_length();
  if (n > all.sets_room) all.sets = realloc(all.sets, (all.sets_room = 2 * n) * sizeof *all.sets);
  c->readers = (uint32_t)all.n_sets++;
  memset(times_of(c), 0, row_length() * sizeof *all.sets);
  times_of(c)[c->read.by] = c->read.time;
  c->read.by = MANY;
}

static void note_reader(struct cell *c, int thread, int line) {
  bool is_first = c->read.turn != all.turn || c->read.by == NOBODY || c->read.by == thread;
  if (is_first) c->read = (struct deed){ .turn = all.turn, .by = (int16_t)thread };
  else if (c->read.by != MANY) make_set(c);
  if (!is_first) times_of(c)[thread] = all.time;
  c->read.time = all.time, c->read.line = line;
}

/* Somebody who has read it and of whom the thread does not know that; NOBODY. */
static int reader_in_the_way(const struct cell *c, int thread, bool in_shared) {
  if (!c->read.turn || c->read.by == NOBODY) return NOBODY;
  if (c->read.by != MANY || c->read.turn != all.turn) return is_over(&c->read, c->read.by, thread, in_shared) ? NOBODY : c->read.by;
  for (int u = 0; u < all.n; u++)
    if (times_of(c)[u] && u != thread && known_of(thread)[u] <= times_of(c)[u]) return u;
  return NOBODY;
}

static bool access_byte(int thread, int as, enum race_kind kind, uint64_t at, int line, struct race *r) {
  struct cell *c = cell_at(at, kind != RACE_READS);
  if (!c) return false;
  bool in_shared = is_shared(at), both_combine = kind == RACE_COMBINES && c->stored.combines;
  if (c->stored.turn && !both_combine && !is_over(&c->stored, c->stored.by, thread, in_shared)) {
    *r = (struct race){ c->stored.combines ? RACE_COMBINES : RACE_STORES, c->stored.by, c->stored.line, c->stored.turn < all.first_of_block };
    return true;
  }
  if (kind == RACE_READS) return note_reader(c, thread, line), false;
  int reader = reader_in_the_way(c, thread, in_shared);
  if (reader != NOBODY) {
    *r = (struct race){ RACE_READS, reader, c->read.by == MANY ? 0 : c->read.line, c->read.turn < all.first_of_block };
    return true;
  }
  c->stored = (struct deed){ all.turn, all.time, (int16_t)as, kind == RACE_COMBINES, line };
  c->read.by = NOBODY;
  return false;
}

bool races_access(int thread, int as, enum race_kind kind, const void *at, int bytes, int line, struct race *r) {
  for (int k = 0; k < bytes; k++) if (access_byte(thread, as, kind, (uint64_t)(uintptr_t)at + (uint64_t)k, line, r)) return true;
  return false;
}
