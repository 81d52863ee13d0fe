/* loop_stretches.c -- a loop of whose outputs only the last steps are wanted: loops one after the other, with the same body.
 *
 * With outputs of the last k1 > k2 > .. steps, the loop is one of n - k1 steps, then one of k1 - k2, .., then one of the last
 * steps; each goes on with the carries of the one before and stacks what is wanted of its steps. So memory is that of the
 * rows that are wanted, the carries stay where they were, and derivatives and maps are those of loops. Where until ends the
 * loop, it is run once for the number of steps alone. */
#include "base/least.h"
#include "base/mem.h"
#include "op/loop.h"
#include "op/operand.h"

struct stretch {
  int64_t from;                /* it begins when so many steps are left; INT64_MAX: at once */
  dim start, length;           /* in steps */
  struct node *steps;          /* reference: the length as an array; NULL: it is a number */
  struct node **out;           /* stacked outputs (NULL: not wanted), then last carries. References */
  struct node *after;          /* reference: how many steps it has made. Who needs `start` to be known depends on it */
};

struct stretches {
  const struct loop_parts *p;
  const int64_t *tail;         /* by stacked output: of so many steps, the last; 0: of all */
  int64_t every;               /* of the gradient: see loop_in_segments; 0: it keeps all carries */
  struct node *count;          /* reference: the number of steps; NULL: p->n_steps is it */
  bool owns;                   /* only the run tells it: lengths are symbols of these loops, not arithmetic of sizes */
  int n;
  struct stretch *stretch;
};

static struct node **list_new(int n) { return mem_alloc((size_t)(n + 1) * sizeof(struct node *)); }
static weft_array *handle(struct node *n) { return array_of(node_retain(n)); }
static weft_array *whole(int64_t n) { return weft_cast(weft_integer(n), WEFT_I64); }

/* ---- Where stretches begin ---- */

static void add_stretch(struct stretches *s, int64_t from) {
  int at = 0;
  while (at < s->n && s->stretch[at].from > from) at++;
  if (at < s->n && s->stretch[at].from == from) return;
  for (int i = s->n++; i > at; i--) s->stretch[i] = s->stretch[i - 1];
  s->stretch[at] = (struct stretch){ .from = from };
}

static bool find_stretches(struct stretches *s) {
  s->stretch = mem_alloc((size_t)(s->p->n_all + 2) * sizeof *s->stretch);
  if (!s->stretch) return false;
  add_stretch(s, INT64_MAX);
  for (int i = 0; i < s->p->n_all; i++)
    if (s->tail[i]) add_stretch(s, s->tail[i]);
  if (s->p->truncate) add_stretch(s, s->p->truncate);
  return true;
}

static int64_t end_of(const struct stretches *s, int i) { return i + 1 < s->n ? s->stretch[i + 1].from : 0; }

/* Steps of a number of them; stretches of none go, but for the last. */
static void count_steps(struct stretches *s) {
  int n = 0;
  int64_t start = 0;
  for (int i = 0; i < s->n; i++) {
    struct stretch f = s->stretch[i];
    f.length = least(s->p->n_steps, f.from) - least(s->p->n_steps, end_of(s, i));
    f.start = start;
    start += f.length;
    if (f.length || i + 1 == s->n) s->stretch[n++] = f;
  }
  s->n = n;
}

/* min(n, from) - min(n, to); DIM_BAD where that cannot be said. */
static dim length_told(dim n, int64_t from, int64_t to) {
  dim a = n == DIM_BAD || from == INT64_MAX ? n : dim_min(n, from), b = n == DIM_BAD ? n : dim_min(n, to);
  return a == DIM_BAD || b == DIM_BAD ? DIM_BAD : dim_sub(a, b);
}

/* The same when it runs; as sizes where those of the first sequence tell the number of steps, so that what is stacked has rows
 * that are known when these are. */
static bool count_later(struct stretches *s) {
  weft_array *n = weft_cast(handle(s->count), WEFT_I64);
  dim start = 0, all = loop_steps_told(s->p, s->count);
  for (int i = 0; i < s->n; i++) s->owns |= length_told(all, s->stretch[i].from, end_of(s, i)) == DIM_BAD;
  for (int i = 0; i < s->n; i++) {
    struct stretch *f = &s->stretch[i];
    weft_array *from = s->n == 2 && !i ? n : weft_minimum(n, whole(f->from)), *to = weft_minimum(n, whole(end_of(s, i)));
    if (!(f->steps = array_good_node(weft_sub(from, i + 1 < s->n ? to : whole(0))))) return false;
    f->start = start;
    dim_retain(f->length = s->owns ? dim_symbol() : length_told(all, f->from, end_of(s, i)));
    if ((start = dim_add(start, f->length)) == DIM_BAD) return false;
  }
  return true;
}

struct node *loop_count_until(const struct loop_parts *parts, struct failure **failure) {
  struct loop_parts p = *parts;
  p.n_all = 0;
  struct node *loop = loop_make(&p, failure), *count = loop ? item_make(loop, loop_out_length(loop_of(loop))) : NULL;
  node_release(loop);
  return count;
}

/* ---- A stretch ---- */

/* Where they begin is known when all stretches before have run: none of these need have a carry that leads back to another. */
static struct node *rows(const struct stretches *s, int i, struct node *xs) {
  const struct stretch *f = &s->stretch[i];
  weft_array *x = handle(xs), *after;
  for (int k = 0; s->owns && k < i; k++) after = handle(s->stretch[k].after), x = weft_depends(x, 1, &after);
  return array_good_node(array_slice(x, 0, f->start, f->length, 1));
}

static bool is_wanted(const struct stretches *s, int i, int k) { return !s->tail[k] || s->stretch[i].from <= s->tail[k]; }

/* Stacked outputs that are wanted, in their places among all. */
static void spread_out(const struct stretches *s, int i, int n_all, struct node *const out[]) {
  struct stretch *f = &s->stretch[i];
  for (int k = 0, at = 0; k < s->p->n_all; k++)
    if (is_wanted(s, i, k)) f->out[k] = out[at++];
  for (int k = 0; k < s->p->n_carry; k++) f->out[s->p->n_all + k] = out[n_all + k];
}

/* Reverse mode goes through this stretch, or stops behind it. */
static int64_t truncation(const struct stretches *s, int i) {
  return s->p->truncate && s->stretch[i].from > s->p->truncate ? LOOP_CONSTANT : 0;
}

static bool make_parts(struct stretches *s, int i, struct loop_parts *p, struct node *out[], struct failure **failure) {
  struct stretch *f = &s->stretch[i];
  if (!f->steps && s->every && s->every < f->length) return loop_in_segments(p, s->every, NULL, out, failure);
  struct node *loop = loop_make(p, failure);
  bool ok = loop && loop_items(loop, p->n_all, p->n_carry, out);
  if (ok && f->steps) ok = (f->after = item_make(loop, loop_out_length(loop_of(loop))));
  node_release(loop);
  return ok;
}

/* The last stretch is ended as the loop is, after at most as many steps as rows are wanted: so it needs no number of steps, and
 * runs in one plan with the stretch before. */
static bool ends_itself(const struct stretches *s, int i) {
  return i == 1 && s->n == 2 && s->p->until && !s->p->n_seq && !s->every && !s->p->steps;
}

static bool make_stretch(struct stretches *s, int i, struct failure **failure) {
  struct loop_parts p = *s->p;
  struct stretch *f = &s->stretch[i];
  struct node **seq = list_new(p.n_seq), **all = list_new(p.n_all), **out = list_new(p.n_all + p.n_carry);
  f->out = list_new(p.n_all + p.n_carry);
  bool ok = seq && all && out && f->out;
  p.n_all = 0;
  for (int k = 0; ok && k < s->p->n_all; k++)
    if (is_wanted(s, i, k)) all[p.n_all++] = s->p->all[k];
  for (int k = 0; ok && k < p.n_seq; k++) ok = (seq[k] = rows(s, i, s->p->seq[k]));
  if (ok) {
    if (i) p.init = s->stretch[i - 1].out + s->p->n_all;
    p.seq = seq, p.all = all, p.until = NULL;
    p.steps = f->steps, p.n_steps = f->length, p.owns_steps = f->steps && s->owns, p.truncate = truncation(s, i);
    if (ends_itself(s, i)) p.until = s->p->until, p.steps = NULL, p.n_steps = least(s->p->n_steps, f->from), p.owns_steps = false;
    ok = make_parts(s, i, &p, out, failure);
    spread_out(s, i, p.n_all, out);
  }
  for (int k = 0; seq && k < p.n_seq; k++) node_release(seq[k]);
  mem_free(seq);
  mem_free(all);
  mem_free(out);
  return ok;
}

/* ---- Results ---- */

static struct node *joined(const struct stretches *s, int k) {
  weft_array **part = mem_alloc((size_t)s->n * sizeof *part);
  int n = 0;
  if (!part) return NULL;
  for (int i = 0; i < s->n; i++)
    if (s->stretch[i].out[k]) part[n++] = handle(s->stretch[i].out[k]);
  struct node *all = array_good_node(n == 1 ? part[0] : weft_concat(0, n, part));
  mem_free(part);
  return all;
}

static bool give_out(const struct stretches *s, struct node *out[]) {
  const struct stretch *end = &s->stretch[s->n - 1];
  bool ok = true;
  for (int k = 0; ok && k < s->p->n_all; k++) ok = (out[k] = joined(s, k));
  for (int k = s->p->n_all; ok && k < s->p->n_all + s->p->n_carry; k++) out[k] = node_retain(end->out[k]);
  return ok;
}

static void stretches_free(struct stretches *s) {
  for (int i = 0; i < s->n; i++) {
    struct stretch *f = &s->stretch[i];
    for (int k = 0; f->out && k < s->p->n_all + s->p->n_carry; k++) node_release(f->out[k]);
    mem_free(f->out);
    if (f->steps) dim_release(f->length);
    node_release(f->steps);
    node_release(f->after);
  }
  mem_free(s->stretch);
  node_release(s->count);
}

bool loop_in_stretches(const struct loop_parts *p, const int64_t tail[], int64_t every, struct node *count, struct node *out[],
                    struct failure **failure) {
  struct stretches s = { .p = p, .tail = tail, .every = every, .count = count ? node_retain(count) : NULL };
  bool ok = find_stretches(&s) && (!p->until || (node_release(s.count), s.count = loop_count_until(p, failure)));
  if (ok && s.count) ok = count_later(&s);
  else if (ok) count_steps(&s);
  for (int i = 0; ok && i < s.n; i++) ok = make_stretch(&s, i, failure);
  ok = ok && give_out(&s, out);
  if (!ok && !*failure) *failure = fail(WEFT_ERR_MEMORY, scope_origin(), "weft_loop_close: out of memory");
  stretches_free(&s);
  return ok;
}
