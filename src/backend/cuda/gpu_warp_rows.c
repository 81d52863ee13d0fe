/* gpu_warp_rows.c -- many rows of at most 4096 elements that are not aligned: a warp has a row, and nothing of it is kept.
 *
 * In the main entry of a kernel that keeps rows all threads of a block leave what is kept, and what is to be folded in order, in
 * shared memory, for one of its warps to add up, and wait for each other. Here the text is another one, in which lane loops make
 * what earlier ones have kept once more: kernels that keep nothing have lane l as accumulator l (ptx_blocks.c), load words of
 * narrow elements (nest_words.c), and store nothing on the way. What is loaded again is mostly in the caches; what takes more than
 * few cheap instructions to make is not made twice, so there is no such entry.
 *
 * Where rows are few a block of threads for each has more on its way; where they are aligned gpu_rows.c has them in registers. */
#include "backend/cuda/gpu_wide.h"
#include <string.h>

enum { ROWS_A_PROCESSOR = 16 };  /* at least: warps that are there at a time; not measured */
enum { WARPS_A_PROCESSOR = 32 }; /* blocks of threads it has at most */
enum { MOST_MADE = 6 };          /* statements that make a kept value */
enum { MOST_LOOPS = 2 };         /* a third one, as of a layer norm, would ask the second cache for what shared memory has */

static bool gives(const struct kir_stmt *s, int value) {
  for (int i = 0; i < s->n_out; i++) if (s->out[i] == value) return true;
  for (const struct kir_stmt *x = s->body.first; x; x = x->next) if (gives(x, value)) return true;
  return false;
}

/* The statement of a lane loop, and that loop, in which the value is made; NULL: it is the same for all lanes. */
static const struct kir_stmt *maker_of(const struct kir_block *b, int value, const struct kir_stmt **loop) {
  const struct kir_stmt *found = NULL;
  for (const struct kir_stmt *s = b->first; s && !found; s = s->next) {
    if (s->kind == KIR_PAR) found = maker_of(&s->body, value, loop);
    for (const struct kir_stmt *x = s->kind == KIR_LANE ? s->body.first : NULL; x; x = x->next)
      if (x->kind != KIR_FOLD && gives(x, value)) found = x, *loop = s;
  }
  return found;
}

/* How many statements make the value; more than MOST_MADE: too many, or one that is not to be made twice. */
static int cost_of(const struct kir_kernel *k, int value) {
  const struct kir_stmt *loop, *s = maker_of(&k->body, value, &loop);
  int cost = 1;
  if (!s) return 0;
  if (s->kind == KIR_LOAD) return k->bufs[s->buf].kind == KIR_IN && ptx_is_steady(loop, s) ? 1 : 1 + MOST_MADE;
  if (s->kind != KIR_OP || s->op == KIR_DIV || s->op == KIR_SQRT || s->op == KIR_CALL) return 1 + MOST_MADE;
  for (int i = 0; i < s->n_in && cost <= MOST_MADE; i++) cost += cost_of(k, s->in[i]);
  return cost;
}

static bool stores(const struct kir_stmt *loop) {
  for (const struct kir_stmt *s = loop->body.first; s; s = s->next) if (s->kind == KIR_STORE) return true;
  return false;
}

/* par .. { uniform statements and two lane loops of one length }, and what is kept is cheap; the first of them, or NULL. What the
 * first loop stores may take the place of what it has loaded, which could not be loaded again then. */
const struct kir_stmt *ptx_find_warp_rows(const struct survey *s) {
  const struct kir_stmt *first = NULL, *next;
  int n_loops = 0;
  if (!s->is_dealt || s->is_single || s->has_private || s->n_checks) return NULL;
  for (const struct kir_stmt *x = s->k->body.first; x; x = next) {
    next = x->kind == KIR_PAR ? x->body.first : x->next;
    if (x->kind == KIR_PAR && (x->next || x->extent != KIR_N || x->n_private)) return NULL;
    if (x->kind != KIR_PAR && x->kind != KIR_LANE && x->kind != KIR_OP && x->kind != KIR_LOAD && x->kind != KIR_STORE) return NULL;
    if (x->kind != KIR_LANE) continue;
    if (first && stores(first)) return NULL;
    if (!first) first = x;
    if (++n_loops > MOST_LOOPS || x->extent != KIR_N || !kir_lin_equal(x->at[0], first->at[0])) return NULL;
    for (const struct kir_stmt *y = x->body.first; y; y = y->next)
      for (int i = 0; y->kind == KIR_KEEP && i < y->n_in; i++) if (cost_of(s->k, y->in[i]) > MOST_MADE) return NULL;
  }
  return first;
}

/* ---- The text in which nothing is kept ---- */

struct warp_text { struct printer *p; struct kir_kernel *k; };

static void *taken(const struct warp_text *w, size_t bytes, const void *from) {
  void *x = arena_take(w->p->arena, bytes + 1);
  if (!x) return ptx_refuse(w->p, ""), NULL;
  return memcpy(x, from, bytes);
}

static void append(struct kir_block *b, struct kir_stmt *s) {
  if (b->last) b->last->next = s;
  else b->first = s;
  b->last = s;
}

/* A copy of the statement, which calls the index of one loop by that of another. */
static struct kir_stmt *copied(const struct warp_text *w, const struct kir_stmt *s, int from, int to) {
  struct kir_stmt *c = taken(w, sizeof *c, s);
  if (!c) return NULL;
  c->next = NULL;
  if (from == to) return c;
  c->in = taken(w, (size_t)s->n_in * sizeof *c->in, s->in);
  c->at = taken(w, (size_t)s->n_at * sizeof *c->at, s->at);
  if (!c->in || !c->at) return NULL;
  for (int i = 0; i < c->n_in; i++) if (c->in[i] == from) c->in[i] = to;
  for (int d = 0; d < c->n_at; d++) {
    struct kir_term *term = c->at[d].term = taken(w, (size_t)c->at[d].n * sizeof *term, s->at[d].term);
    for (int i = 0; term && i < c->at[d].n; i++)
      for (int j = 0; j < term[i].n; j++) if (term[i].val[j] == from) term[i].val[j] = to;
  }
  return c;
}

static bool is_made_in(const struct kir_block *b, int value) {
  for (const struct kir_stmt *s = b->first; s; s = s->next)
    for (int i = 0; i < s->n_out; i++) if (s->out[i] == value) return true;
  return false;
}

/* Makes the value in the body of this loop, unless it is there, or the same for all lanes. */
static void make(const struct warp_text *w, const struct kir_stmt *loop, struct kir_block *body, int value) {
  const struct kir_stmt *of, *s = maker_of(&w->k->body, value, &of);
  struct kir_stmt *c = s && of != loop && !is_made_in(body, value) ? copied(w, s, of->var, loop->var) : NULL;
  if (!c) return;
  for (int i = 0; i < s->n_in; i++) make(w, loop, body, s->in[i]);
  append(body, c);
}

static void write_block(const struct warp_text *w, const struct kir_block *from, struct kir_block *to) {
  for (const struct kir_stmt *s = from->first; s; s = s->next) {
    struct kir_stmt *c = copied(w, s, 0, 0);
    if (!c) return;
    append(to, c);
    c->body = (struct kir_block){ NULL, NULL };
    if (s->kind != KIR_LANE) { write_block(w, &s->body, &c->body); continue; }
    for (const struct kir_stmt *x = s->body.first; x; x = x->next)
      for (int i = 0; x->kind != KIR_KEEP && i < x->n_in; i++) make(w, s, &c->body, x->in[i]);
    for (const struct kir_stmt *x = s->body.first; x; x = x->next)
      if (x->kind != KIR_KEEP && (c = copied(w, x, 0, 0))) append(&to->last->body, c);
  }
}

void ptx_warp_rows_body(struct printer *p) {
  struct warp_text w = { p, (struct kir_kernel *)(uintptr_t)p->k };
  struct kir_kernel *k = taken(&w, sizeof *k, p->k);
  struct kir_block body = { NULL, NULL };
  const struct ptx_plan *plan = p->plan;
  struct ptx_plan without_rows = *plan;
  write_block(&w, &p->k->body, &body);
  if (!k || p->why) return;
  k->body = body, p->k = k;
  if (!survey_make(&p->survey, k, p->arena)) { ptx_refuse(p, p->survey.why); return; }
  p->threads = 32, p->blocks = WARPS_A_PROCESSOR;
  without_rows.n_rows = 0;
  p->plan = &without_rows;
  ptx_block(p, &p->k->body, (struct where){ .rest = "$done" });
  ptx_place(p, "$done");
  p->plan = plan;
}

bool ptx_warp_rows_shape(const struct ptx_plan *p, const struct ptx_machine *m, const int64_t sizes[], const uint64_t args[],
                         struct ptx_shape *s) {
  int64_t rows = (int64_t)s->grid[0] * s->grid[1] * s->grid[2];
  if (!p->warp_rows_entry || s->is_wide || s->is_short || s->row_bytes) return false;
  if (rows < (int64_t)ROWS_A_PROCESSOR * m->n_processors || ptx_size(&p->warp_rows, sizes, args) > KIR_ROW_BLOCK) return false;
  s->block[0] = 32;
  s->shared_bytes = 0;
  return s->is_of_warps = true;
}
