/* trust.c -- what was taken on trust about sizes: see trust.h. */
#include "graph/trust.h"
#include <string.h>
#include "base/mem.h"
#include "graph/copy.h"
#include "graph/scope.h"
#include "graph/shape.h"

static bool is_known(const struct trusts *l, const struct trust *t) {
  for (int i = 0; i < l->n; i++) {
    const struct trust *o = &l->trust[i];
    if (o->size == t->size && o->start == t->start && o->length == t->length && o->step == t->step &&
        o->is_size == t->is_size)
      return true;
  }
  return false;
}

static bool reserve(struct trusts *l) {
  if (l->n < l->room) return true;
  int more = l->room ? 2 * l->room : 4;
  struct trust *grown = mem_resize(l->trust, (size_t)more * sizeof *grown);
  if (!grown) return false;
  l->trust = grown;
  l->room = more;
  return true;
}

static void add(struct trusts *l, const struct trust *t) {
  if (is_known(l, t)) return;
  char *words = t->words ? mem_text(t->words) : NULL;
  if ((t->words && !words) || !reserve(l)) {
    mem_free(words);
    l->is_lost = true;
    return;
  }
  l->trust[l->n] = *t;
  l->trust[l->n++].words = words;
  dim_retain(t->size), dim_retain(t->start), dim_retain(t->length);
}

void trusts_add(struct trusts *l, const struct trusts *more) {
  for (int i = 0; i < more->n; i++) add(l, &more->trust[i]);
  l->is_lost |= more->is_lost;
}

void trusts_free(struct trusts *l) {
  for (int i = 0; i < l->n; i++) {
    dim_release(l->trust[i].size), dim_release(l->trust[i].start), dim_release(l->trust[i].length);
    mem_free(l->trust[i].words);
  }
  mem_free(l->trust);
  *l = (struct trusts){ 0 };
}

/* Nothing is compiled from the root. */
static void remember(const struct trust *t) {
  struct weft_scope *s = scope_current();
  if (s && s->outside) add(&s->trusts, t);
}

static bool is_equality(const struct trust *t) { return t->step == 0; }

static bool fits(const struct trust *t) {
  if (t->is_size) return t->size != DIM_BAD && dim_sign(t->size) >= 0;
  if (t->length == 0 && !is_equality(t)) return true; /* of nothing, wherever */
  if (t->size == DIM_BAD || t->start == DIM_BAD || t->length == DIM_BAD) return false;
  return is_equality(t) ? !dim_differs(t->size, t->length) : dim_slice_fits(t->size, t->start, t->length, t->step);
}

static bool is_certain(const struct trust *t) {
  if (t->is_size) return dim_sign(t->size) > 0;
  if (t->size == t->length && (is_equality(t) || t->start == 0)) return true;
  return dim_is_known(t->size) && dim_is_known(t->start) && dim_is_known(t->length);
}

static bool take(const struct trust *t) {
  bool is_so = fits(t);
  if (is_so && !is_certain(t)) remember(t);
  return is_so;
}

static void name(struct trust *t, const char *fn) { strncpy(t->fn, fn, sizeof t->fn - 1); }

bool sizes_meet(const char *fn, dim a, dim b) {
  if (a == b) return true;
  struct trust t = { .status = WEFT_ERR_SHAPE, .size = a, .length = b };
  return name(&t, fn), take(&t);
}

bool size_meets(const char *fn, weft_status status, dim size) {
  struct trust t = { .status = status, .size = size, .is_size = true };
  return name(&t, fn), take(&t);
}

bool size_holds(const char *words, weft_status status, dim size) {
  return take(&(struct trust){ .status = status, .size = size, .is_size = true, .words = (char *)words });
}

bool slice_meets(const char *fn, weft_status status, dim size, dim start, dim length, int64_t step) {
  struct trust t = { .status = status, .size = size, .start = start, .length = length, .step = step };
  return name(&t, fn), take(&t);
}

static struct failure *broken(const struct trust *t) {
  struct shape_text a, b;
  const char *size = dims_show(1, &t->size, &a);
  if (t->words) return fail(t->status, scope_origin(), "%s", t->words);
  if (t->is_size) return fail(t->status, scope_origin(), "%s: a size is negative", t->fn);
  if (is_equality(t))
    return fail(t->status, scope_origin(), "%s: sizes that were taken to be equal differ: %s and %s", t->fn, size,
                dims_show(1, &t->length, &b));
  return fail(t->status, scope_origin(), "%s: the bounds do not fit an axis of %s", t->fn, size);
}

static struct trust trust_in(const struct trust *was, const struct dim_table *sizes) {
  struct trust t = *was;
  t.size = dim_in(sizes, t.size), t.length = dim_in(sizes, t.length), t.start = dim_in(sizes, t.start);
  return t;
}

/* Whether there was no memory for what a dim becomes: what it is taken for is not known then. */
static bool is_lost(dim was, dim now, const struct dim_table *sizes) {
  return now == DIM_BAD && was != DIM_BAD && !dim_is_told(was, sizes->n, sizes->symbol, sizes->value);
}

bool trusts_are_open(const struct trusts *l, const struct dim_table *sizes) {
  for (int i = 0; i < l->n; i++) {
    struct trust t = trust_in(&l->trust[i], sizes);
    if (!is_certain(&t)) return true;
  }
  return false;
}

struct failure *trusts_check(const struct trusts *l, const struct dim_table *sizes) {
  for (int i = 0; i < l->n; i++) {
    const struct trust *was = &l->trust[i];
    struct trust t = trust_in(was, sizes);
    bool is_other = t.size != was->size || t.length != was->length || t.start != was->start;
    if (is_lost(was->size, t.size, sizes) || is_lost(was->length, t.length, sizes) || is_lost(was->start, t.start, sizes))
      return fail(WEFT_ERR_MEMORY, scope_origin(), "%s: out of memory", *t.fn ? t.fn : "weft_call");
    if (is_other && !take(&t)) return broken(&t); /* others are of sizes that only a run will tell */
  }
  return NULL;
}
