/* scope.c -- scopes: what is made in them, what they are for, how they end.
 *
 * Like handles, scopes are never given back to the system, so that ending one twice is noticed. Closing, which runs the
 * program, is run/'s business; the end itself is here. */
#include "graph/scope.h"
#include "base/arena.h"
#include "base/mem.h"
#include "base/spare.h"
#include "graph/caller.h"
#include "graph/function.h"
#include "graph/shape.h"
#include "op/op.h"
#include "run/buffer.h"

static struct spare spares;
static _Atomic int n_traces;

bool scope_trace_open(void) { return atomic_load(&n_traces) > 0; }
uint64_t scope_origin(void) { return caller()->origin; }

static struct weft_scope *open_in(struct caller *me, struct weft_scope *outside) {
  struct weft_scope *s = spare_pop(&me->scopes);
  if (!s && !(s = spare_take(&spares, sizeof *s))) return NULL;
  s->outside = outside, s->born = node_serial(), s->thread = me->id, s->tag = SCOPE_OPEN; /* the rest is zeros */
  return me->current = s;
}

static struct weft_scope *current_of(struct caller *me) {
  if (!me->current) me->root = open_in(me, NULL);
  return me->current;
}

struct weft_scope *scope_current(void) { return current_of(caller()); }

weft_scope *weft_scope_open(void) {
  struct caller *me = caller();
  struct weft_scope *outside = current_of(me), *s = outside ? open_in(me, outside) : NULL;
  if (!s) report(WEFT_ERR_MEMORY, "weft_scope_open: out of memory");
  return s;
}

struct weft_scope *scope_open_body(const struct construct *c, void *body) {
  struct weft_scope *s = weft_scope_open();
  if (s) s->construct = c, s->body = body;
  return s;
}

/* ---- Ending ---- */

static void drop_declared(struct weft_scope *s) {
  for (int i = 0; i < s->n_updates; i++) weft_disown(s->updates[i].outer), weft_disown(s->updates[i].value);
  for (int i = 0; i < s->n_fetches; i++) weft_disown(s->fetches[i].from);
  mem_free(s->updates);
  mem_free(s->fetches);
  s->updates = NULL;
  s->fetches = NULL;
  s->n_updates = s->n_fetches = 0;
}

void scope_forget(struct weft_scope *s) {
  for (int i = 0; i < s->n_updates; i++) weft_disown(s->updates[i].value), s->updates[i].value = NULL;
  for (int i = 0; i < s->n_fetches; i++) weft_disown(s->fetches[i].from), s->fetches[i].from = NULL;
  scope_drop_handles(s);
}

static void drop_functions(struct weft_scope *s) {
  for (struct weft_function *f; (f = s->functions);) {
    s->functions = f->next;
    f->scope = NULL;
    function_release(f);
  }
}

void scope_end(struct weft_scope *s) {
  struct caller *me = caller();
  me->current = s->outside;
  if (me->root == s) me->root = NULL;
  drop_declared(s);
  if (s->construct) s->construct->discard(s->body);
  scope_drop_handles(s);
  drop_functions(s);
  if (s->files) files_end(s->files);
  if (s->outside && s->outside->outside) trusts_add(&s->outside->trusts, &s->trusts);
  trusts_free(&s->trusts);
  arena_free(s->texts);
  failure_release(s->failure);
  failure_release(s->missed);
  if (s->is_trace && atomic_fetch_sub(&n_traces, 1) == 1) nodes_forget_deferred();
  spare_push(&me->scopes, s, sizeof *s);
  buffer_callbacks();
}

static bool is_open_here(const struct caller *me, const struct weft_scope *s) {
  for (const struct weft_scope *o = me->current; o; o = o->outside)
    if (o == s) return true;
  return false;
}

weft_status scope_check(const char *fn, struct weft_scope *s) {
  if (!s) return report(WEFT_ERR_MEMORY, "%s: the scope is NULL: there was no memory for it", fn);
  if (s->tag != SCOPE_OPEN) return report(WEFT_ERR_SCOPE, "%s: the scope has ended already", fn);
  struct caller *me = caller();
  if (!is_open_here(me, s)) return report(WEFT_ERR_SCOPE, "%s: the scope was opened by another thread", fn);
  while (me->current != s) scope_end(me->current);
  return WEFT_OK;
}

void weft_scope_discard(weft_scope *s) {
  if (scope_check("weft_scope_discard", s) == WEFT_OK) scope_end(s);
}

void scope_leave(void) {
  for (struct weft_scope *s; (s = caller()->current);) scope_end(s);
  for (struct weft_scope *s; (s = spare_pop(&caller()->scopes));) spare_give(&spares, s, sizeof *s);
}

void scope_mark_trace(struct weft_scope *s) {
  if (!s->is_trace) atomic_fetch_add(&n_traces, 1);
  s->is_trace = true;
}

/* ---- What a scope is for ---- */

static struct failure *cannot_declare(const char *fn, const struct weft_scope *s) {
  if (!s) return fail(WEFT_ERR_MEMORY, scope_origin(), "%s: out of memory", fn);
  if (!s->outside) return fail(WEFT_ERR_SCOPE, scope_origin(), "%s: no scope is open that could be closed", fn);
  if (s->construct) return fail(WEFT_ERR_SCOPE, scope_origin(), "%s: not inside a %s", fn, s->construct->name);
  return NULL;
}

/* What the scope was to do and cannot stays noted when the error has been looked at: else closing would do the rest. */
static void miss(struct weft_scope *s, struct failure *why) {
  if (!s->missed) s->missed = failure_retain(why);
  scope_blame(why);
}

static struct failure *cannot_update(struct weft_scope *s, weft_array *outer, const struct node *o,
                                     const struct node *v) {
  struct shape_text a, b;
  if (outer->scope == s)
    return fail(WEFT_ERR_SCOPE, scope_origin(),
                "weft_update: the array is of the scope that would end; it must be of one further out");
  if (!v->weak && o->dtype != v->dtype)
    return fail(WEFT_ERR_DTYPE, scope_origin(), "weft_update: the array is %s, the value %s", weft_dtype_name(o->dtype),
                weft_dtype_name(v->dtype));
  if (!shape_equal(o, v))
    return fail(WEFT_ERR_SHAPE, scope_origin(), "weft_update: the array is %s, the value %s", shape_show(o, &a),
                shape_show(v, &b));
  return NULL;
}

static bool add_update(struct weft_scope *s, weft_array *outer, weft_array *value) {
  for (int i = 0; i < s->n_updates; i++) {
    if (s->updates[i].outer != outer) continue;
    weft_disown(s->updates[i].value);
    s->updates[i].value = weft_own(value);
    return true;
  }
  struct update *grown = mem_resize(s->updates, (size_t)(s->n_updates + 1) * sizeof *grown);
  if (!grown) return false;
  s->updates = grown;
  s->updates[s->n_updates++] = (struct update){ weft_own(outer), weft_own(value) };
  return true;
}

void weft_update(weft_array *outer, weft_array *value) {
  struct weft_scope *s = scope_current();
  struct failure *why = cannot_declare("weft_update", s);
  if (why) return scope_blame(why);
  struct node *o = array_given("weft_update", 1, outer, &why), *v = o ? array_usable("weft_update", 2, value, &why) : NULL;
  if (!why) why = cannot_update(s, outer, o, v);
  if (!why && v->weak) value = weft_cast(value, o->dtype);
  node_release(o);
  node_release(v);
  if (!why && !add_update(s, outer, value)) why = fail(WEFT_ERR_MEMORY, scope_origin(), "weft_update: out of memory");
  if (why) miss(s, why);
}

static struct failure *cannot_fetch(const struct node *n, weft_dtype dtype, const void *dst, size_t bytes) {
  dim count = dim_count(n->rank, n->dims);
  if (n->dtype != dtype)
    return fail(WEFT_ERR_DTYPE, scope_origin(), "weft_fetch: the array is %s, not %s", weft_dtype_name(n->dtype),
                weft_dtype_name(dtype));
  if (dim_is_known(count) && (uint64_t)count * weft_dtype_bytes(dtype) != bytes)
    return fail(WEFT_ERR_ARG, scope_origin(), "weft_fetch: the array has %llu bytes, the destination %llu",
                (unsigned long long)count * weft_dtype_bytes(dtype), (unsigned long long)bytes);
  if (!dst && bytes) return fail(WEFT_ERR_ARG, scope_origin(), "weft_fetch: the destination is NULL");
  return NULL;
}

static bool add_fetch(struct weft_scope *s, struct fetch f) {
  struct fetch *grown = mem_resize(s->fetches, (size_t)(s->n_fetches + 1) * sizeof *grown);
  if (!grown) return false;
  s->fetches = grown;
  s->fetches[s->n_fetches++] = f;
  weft_own(f.from);
  return true;
}

void weft_fetch(weft_array *a, weft_dtype dtype, void *dst, size_t bytes) {
  struct weft_scope *s = scope_current();
  struct node *n;
  weft_array *bad;
  struct failure *why = cannot_declare("weft_fetch", s);
  if (why) return scope_blame(why);
  if (!arrays_nodes("weft_fetch", 1, &a, &n, &bad)) return miss(s, array_failure("weft_fetch", 0, bad));
  why = cannot_fetch(n, dtype, dst, bytes);
  node_release(n);
  if (!why && !add_fetch(s, (struct fetch){ a, dtype, dst, bytes }))
    why = fail(WEFT_ERR_MEMORY, scope_origin(), "weft_fetch: out of memory");
  if (why) miss(s, why);
}

uint64_t weft_origin(uint64_t tag) {
  struct caller *me = caller();
  uint64_t before = me->origin;
  me->origin = tag;
  return before;
}
