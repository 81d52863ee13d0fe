/* handle.c -- weft_array: a name for a node, owned by its scope and by whoever asked to.
 *
 * Handles are never given back to the system: a pointer to one that is gone finds its tag changed. Each thread uses its
 * own spare ones again, the oldest first, so that a stale pointer is noticed for as long as possible: in the hard build
 * until 65536 others have gone. */
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include "base/mem.h"
#include "base/text.h"
#include "graph/caller.h"
#include "graph/scope.h"
#include "op/op.h"
#include "run/verdict.h"

#ifdef WEFT_HARD
enum { CHUNK = 65536, SPARE_MOST = 2 * CHUNK };
#else
enum { CHUNK = 128, SPARE_MOST = 4096 };
#endif
enum { HANDLE_GONE = 0x474f4e45, HELD_BY_SCOPE = 1 << 30 };

struct handle_chunk { struct handle_chunk *older; struct weft_array handle[CHUNK]; };

pthread_mutex_t handle_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct handle_chunk *chunks;                        /* all there are, so that no leak is suspected */
static struct weft_array *common, *common_end;      /* spare ones that no thread has */
static int n_common;

/* ---- Spare handles ---- */

static void spare(struct caller *me, struct weft_array *h) {
  h->next = NULL;
  if (me->spare) me->spare_end->next = h;
  else me->spare = h;
  me->spare_end = h;
  me->n_spare++;
}

static void give_all(struct caller *me) {
  if (!me->spare) return;
  pthread_mutex_lock(&handle_mutex);
  if (common) common_end->next = me->spare;
  else common = me->spare;
  common_end = me->spare_end;
  n_common += me->n_spare;
  pthread_mutex_unlock(&handle_mutex);
  me->spare = me->spare_end = NULL;
  me->n_spare = 0;
}

void handles_leave(void) { give_all(caller()); }

/* A chunk's worth: who took all of them would leave none for threads that begin at the same time, which then allocate, round after
 * round. */
static void take_common(struct caller *me) {
  pthread_mutex_lock(&handle_mutex);
  struct weft_array *last = common;
  int n = last != NULL;
  while (n && n < CHUNK && last->next) last = last->next, n++;
  me->spare = common, me->spare_end = last;
  me->n_spare = n, n_common -= n;
  common = n ? last->next : NULL;
  if (n) last->next = NULL;
  if (!common) common_end = NULL;
  pthread_mutex_unlock(&handle_mutex);
}

static void take_chunk(struct caller *me) {
  struct handle_chunk *c = mem_alloc(sizeof *c);
  if (!c) return;
  for (int i = 0; i < CHUNK; i++) spare(me, &c->handle[i]);
  pthread_mutex_lock(&handle_mutex);
  c->older = chunks;
  chunks = c;
  pthread_mutex_unlock(&handle_mutex);
}

static struct weft_array *take(struct caller *me) {
  if (!me->spare) take_common(me);
  if (!me->spare) take_chunk(me);
  struct weft_array *h = me->spare;
  if (!h) return NULL;
  me->spare = h->next;
  me->n_spare--;
  return h;
}

/* ---- Bad arrays ---- */

const struct op op_bad = { .name = "bad", .kind = OP_LEAF };

/* What functions make of their arguments on the way may be bad too, for want of memory, and some look at its sizes before anybody
 * looks at it: along any axis, counted from either end, they find 0. */
static dim no_sizes[2 * WEFT_RANK_MAX];

/* What there is when there is no memory for more. It belongs to nobody. */
static struct node no_memory_node = { .op = &op_bad, .refs = 1, .dtype = WEFT_BOOL, .dims = no_sizes + WEFT_RANK_MAX };
static struct weft_array no_memory = { .node = &no_memory_node, .owners = HELD_BY_SCOPE, .tag = HANDLE_ALIVE };
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void make_no_memory(void) { no_memory_node.failure = fail(WEFT_ERR_MEMORY, 0, "weft: out of memory"); }

static weft_array *array_no_memory(void) {
  pthread_once(&once, make_no_memory);
  return &no_memory;
}

static void link_to(struct weft_scope *s, struct weft_array *h) {
  h->scope = s;
  h->next = s->handles;
  h->link = &s->handles;
  if (h->next) h->next->link = &h->next;
  s->handles = h;
}

static void unlink_from(struct weft_array *h) {
  *h->link = h->next;
  if (h->next) h->next->link = h->link;
}

static weft_array *handle_for(struct weft_scope *s, struct node *n) {
  struct weft_array *h = s ? take(caller()) : NULL;
  if (!h) {
    node_release(n);
    return array_no_memory();
  }
  h->node = n;
  atomic_store_explicit(&h->owners, HELD_BY_SCOPE, memory_order_relaxed);
  h->tag = HANDLE_ALIVE;
  link_to(s, h);
  return h;
}

/* Where places meet: what is made of that on the way to an array has no place either. */
static const struct node *meeting(const struct node *n) {
  for (int i = 0; i < n->n_in; i++) if (n->in[i]->place == PLACE_TWO) n = n->in[i], i = -1;
  return n;
}

struct failure *node_torn(const struct node *n, const char *fn) {
  const char *called = caller()->called && !strncmp(caller()->called, "weft_", 5) ? caller()->called : fn;
  int first = 0, other = 0;
  if (n->place != PLACE_TWO) return NULL;
  n = meeting(n);
  for (int i = 0; i < n->n_in && !other; i++) {
    int p = n->in[i]->place;
    if (p && !first) first = p;
    else if (p && p != first) other = p;
  }
  return fail(WEFT_ERR_DEVICE, n->origin, "%s%s: operands are on devices %d and %d; weft_to brings one to the other",
              called ? "" : "weft_", called ? called : n->op->name, first - 1, other - 1);
}

weft_array *array_of(struct node *n) {
  if (!n) return array_failed(fail(WEFT_ERR_MEMORY, scope_origin(), "weft: out of memory"));
  if (n->place != PLACE_TWO) return handle_for(scope_current(), n);
  struct failure *why = node_torn(n, NULL);
  node_release(n);
  return array_failed(why);
}

static void note(struct weft_scope *s, struct failure *f) {
  if (!s || failure_seen(f, false) || (s->failure && !failure_seen(s->failure, false))) return;
  failure_release(s->failure);
  s->failure = failure_retain(f);
}

weft_array *array_failed(struct failure *f) {
  struct weft_scope *s = scope_current();
  struct node *n = node_make(&op_bad, WEFT_BOOL, 0, NULL, 0, NULL, NULL, 0);
  note(s, f);
  if (!n) {
    failure_release(f);
    return array_no_memory();
  }
  n->failure = f;
  n->dims = no_sizes + WEFT_RANK_MAX;
  return handle_for(s, n);
}

void scope_blame(struct failure *f) {
  struct weft_scope *s = scope_current();
  note(s, f);
  if (!s || !s->outside) failure_report(f);
  failure_release(f);
}

weft_array *array_bad(weft_status status, const char *format, ...) {
  struct text t = { 0 };
  va_list list;
  va_start(list, format);
  text_addv(&t, format, list);
  va_end(list);
  struct failure *f = fail(t.failed ? WEFT_ERR_MEMORY : status, scope_origin(), "%s",
                           t.failed ? "weft: out of memory" : text_of(&t));
  text_free(&t);
  return array_failed(f);
}

/* ---- Reading a handle ---- */

static uint32_t generation = 1; /* of this process: a child has another than its parent */

void handles_after_fork(void) { generation++; }

/* What a thread of the parent held at the fork nobody holds. */
static void seize(weft_array *a) {
  while (atomic_exchange_explicit(&a->held_by, generation, memory_order_acquire) == generation) sched_yield();
}

static void free_up(weft_array *a) { atomic_store_explicit(&a->held_by, 0, memory_order_release); }

struct node *array_node(weft_array *a) {
  seize(a);
  struct node *n = node_retain(a->node);
  free_up(a);
  return n;
}

static int owners_of(const weft_array *a) { return atomic_load_explicit(&a->owners, memory_order_relaxed); }
static void set_owners(weft_array *a, int n) { atomic_store_explicit(&a->owners, n, memory_order_relaxed); }
static bool has_owner(const weft_array *a) { return owners_of(a) & ~HELD_BY_SCOPE; }

/* Nodes know how many of their names have owners, and how many of these have no scope any more. */

static uint64_t name_of(const weft_array *a) { return (has_owner(a) ? NAME_OWNED : 0) + (a->scope ? 0 : NAME_LOOSE); }
static void count_names(struct node *n, uint64_t by) { atomic_fetch_add_explicit(&n->names, by, memory_order_relaxed); }

static void name(weft_array *a, struct node *n) {
  uint64_t by = name_of(a);
  if (by) count_names(a->node, -by), count_names(n, by);
  a->node = n;
}

struct node *array_swap(weft_array *a, struct node *n) {
  seize(a);
  struct node *before = a->node;
  name(a, n);
  free_up(a);
  return before;
}

bool array_replace(weft_array *a, struct node *from, struct node *to) {
  seize(a);
  bool is_from = a->node == from;
  if (is_from) name(a, to);
  free_up(a);
  return is_from;
}

static struct failure *refused(weft_status status, const char *fn, int k, const char *why) {
  return k ? fail(status, scope_origin(), "%s: argument %d %s", fn, k, why)
           : fail(status, scope_origin(), "%s: the array %s", fn, why);
}

static bool is_array(const struct node *n) { return n->op != &op_bad; }

/* That of its value, which may have been asked for by way of another array. */
static const struct verdict *verdict_of(const struct node *n) {
  return atomic_load_explicit(&n->state, memory_order_acquire) == NODE_READY && n->value ? n->value->verdict : NULL;
}

static bool is_good(const struct node *n) {
  return is_array(n) && atomic_load_explicit(&n->state, memory_order_acquire) != NODE_FAILED && !verdict_has_failed(verdict_of(n));
}

static struct node *node_if(bool (*may)(const struct node *), const char *fn, int k, weft_array *a, struct failure **why) {
  if (!a) return *why = refused(WEFT_ERR_ARG, fn, k, "is NULL"), NULL;
  if (a->tag != HANDLE_ALIVE) return *why = refused(WEFT_ERR_SCOPE, fn, k, "is used after the end of its scope"), NULL;
  struct node *n = array_node(a);
  if (may(n)) return n;
  *why = verdict_known(verdict_of(n));
  if (!*why) *why = failure_retain(n->failure);
  node_release(n);
  return NULL;
}

struct node *array_usable(const char *fn, int k, weft_array *a, struct failure **why) { return node_if(is_good, fn, k, a, why); }
struct node *array_given(const char *fn, int k, weft_array *a, struct failure **why) { return node_if(is_array, fn, k, a, why); }

const struct node *array_look(weft_array *a) {
  if (!a || a->tag != HANDLE_ALIVE) return NULL;
  seize(a);
  if (is_good(a->node)) return a->node;
  free_up(a);
  return NULL;
}

void array_looked(weft_array *a) { free_up(a); }

struct failure *array_failure(const char *fn, int k, weft_array *a) {
  struct failure *why = NULL;
  node_release(array_usable(fn, k, a, &why));
  return why;
}

/* A list of arrays that is none. */
static bool no_list(const char *fn, int n, weft_array *const a[], weft_array **bad) {
  if (n >= 0 && (!n || a)) return false;
  *bad = array_failed(fail(WEFT_ERR_ARG, scope_origin(), n < 0 ? "%s: %d arrays" : "%s: the list of %d arrays is NULL", fn, n));
  return true;
}

bool arrays_nodes(const char *fn, int n, weft_array *const a[], struct node *node[], weft_array **bad) {
  struct failure *why;
  if (no_list(fn, n, a, bad)) return false;
  for (int i = 0; i < n; i++) {
    node[i] = array_usable(fn, n > 1 ? i + 1 : 0, a[i], &why);
    if (node[i]) continue;
    nodes_release(i, node);
    *bad = array_failed(why);
    return false;
  }
  return true;
}

bool arrays_ok(const char *fn, int n, weft_array *const a[], weft_array **bad) {
  if (no_list(fn, n, a, bad)) return false;
  for (int i = 0; i < n; i++) {
    struct failure *why = array_failure(fn, n > 1 ? i + 1 : 0, a[i]);
    if (!why) continue;
    *bad = array_failed(why);
    return false;
  }
  return true;
}

void nodes_release(int n, struct node *const node[]) {
  for (int i = 0; i < n; i++) node_release(node[i]);
}

weft_status weft_check(weft_array *a) {
  if (array_look(a)) return array_looked(a), WEFT_OK;
  return failure_tell(array_failure("weft_check", 0, a));
}

/* ---- Owning ---- */

/* Neither an owner nor the scope has it any more; it is held by this thread, and freed up. */
static void end(weft_array *a) {
  struct caller *me = caller();
  struct node *n = a->node;
  a->tag = HANDLE_GONE;
  a->node = NULL;
  free_up(a);
  if (me->n_spare >= SPARE_MOST) give_all(me);
  spare(me, a);
  node_release(n);
}

static bool is_alive(weft_array *a) { return a && a != &no_memory && a->tag == HANDLE_ALIVE; }

weft_array *weft_own(weft_array *a) {
  if (!is_alive(a)) return a;
  seize(a);
  if (!has_owner(a)) count_names(a->node, NAME_OWNED);
  set_owners(a, owners_of(a) + 1);
  free_up(a);
  return a;
}

/* Once too often is ignored while the scope is open: what it holds is not the caller's to give up. */
void weft_disown(weft_array *a) {
  if (!is_alive(a)) return;
  seize(a);
  int now = owners_of(a);
  if ((now & ~HELD_BY_SCOPE) == 1) count_names(a->node, -(now == 1 ? name_of(a) : NAME_OWNED));
  if (now & ~HELD_BY_SCOPE) set_owners(a, now - 1);
  if (now == 1) end(a);
  else free_up(a);
}

static bool is_ready(const struct node *n) { return atomic_load_explicit(&n->state, memory_order_acquire) == NODE_READY; }

static __attribute__((noinline)) void forget(struct node *n) {
  graph_lock();
  node_forget(n);
  graph_unlock();
  node_release(n);
}

/* The scope gives it up. A name that outlives its scope: what has its value by now could be differentiated in the scope, and
 * forgets how it was made with it. */
static void loosen(weft_array *a) {
  seize(a);
  set_owners(a, owners_of(a) - HELD_BY_SCOPE);
  if (!has_owner(a)) return end(a);
  a->scope = NULL;
  count_names(a->node, NAME_LOOSE);
  struct node *n = is_ready(a->node) ? node_retain(a->node) : NULL;
  free_up(a);
  if (n) forget(n);
}

/* A result of a call that others are made of, and the last name that could ask how it was made itself, goes: no scope further out
 * has one. It would keep the call with its arguments. */
static void let_go(const weft_array *a) {
  struct node *n = a->node;
  if (n->op != &op_item || !is_ready(n) || atomic_load_explicit(&n->refs, memory_order_relaxed) <= 1) return;
  graph_lock(); /* another thread may make it forget the call */
  if (item_has_siblings(n)) node_forget(n);
  graph_unlock();
}

static bool has_names(const struct weft_scope *s) {
  while (s && !s->handles) s = s->outside;
  return s;
}

bool scope_has_names(void) { return has_names(caller()->current); }
bool scope_has_names_beyond(const struct weft_scope *s) { return has_names(s->outside); }

void scope_drop_handles(struct weft_scope *s) {
  bool is_last = s->handles && !has_names(s->outside);
  for (struct weft_array *h; (h = s->handles);) {
    unlink_from(h);
    if (is_last && !has_owner(h)) let_go(h);
    loosen(h);
  }
}

struct composing composing_begin(const char *fn) {
  struct weft_scope *s = scope_current();
  struct caller *me = caller();
  struct composing c = { s, s ? s->handles : NULL, me->called };
  if (!c.called) me->called = fn;
  return c;
}

weft_array *composing_end(struct composing c, weft_array *y) {
  caller()->called = c.called;
  for (struct weft_array *h = c.scope ? c.scope->handles : c.newest, *older; h != c.newest; h = older) {
    older = h->next;
    if (h == y || has_owner(h)) continue;
    unlink_from(h);
    loosen(h);
  }
  return y;
}

/* Moves a to the scope outside the open one; what belongs further out already stays where it is. Bad arrays move too. */
weft_array *weft_keep(weft_array *a) {
  struct weft_scope *s = scope_current();
  if (!a || a->tag != HANDLE_ALIVE) return array_failed(array_failure("weft_keep", 0, a));
  if (!s || !s->outside || a->scope != s) return a;
  if (s->construct)
    return array_bad(WEFT_ERR_SCOPE, "weft_keep: an array of a %s's body has no value outside; see %s", s->construct->name,
                     s->construct->results);
  unlink_from(a);
  link_to(s->outside, a);
  return a;
}
