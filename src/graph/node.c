/* node.c -- nodes: made in one block of memory, counted, released without recursion. */
#include "graph/node.h"
#include <pthread.h>
#include <string.h>
#include "base/arena.h"
#include "base/clock.h"
#include "base/hard.h"
#include "base/mem.h"
#include "graph/caller.h"
#include "graph/scope.h"
#include "op/op.h"
#include "run/buffer.h"
#include "run/verdict.h"

static _Atomic uint64_t last_serial, n_ended;

int64_t node_live(void) { return (int64_t)(atomic_load(&last_serial) - atomic_load(&n_ended)); }
uint64_t node_serial(void) { return atomic_load_explicit(&last_serial, memory_order_relaxed); }

static size_t aligned(size_t bytes) { return (bytes + 15) & ~(size_t)15; }

static size_t node_bytes(int n_dims, int n_in, size_t attr_bytes) {
  return aligned(sizeof(struct node)) + (size_t)n_dims * sizeof(dim) + (size_t)n_in * sizeof(struct node *) +
         aligned(attr_bytes);
}

/* How many sizes may be told: those of the axes, and as many of attr, or one. */
static int n_was(int rank) { return 2 * rank + 1; }

static bool may_be_told(const struct op *op, int rank, const dim dims[]) {
  for (int i = 0; i < rank; i++) if (!dim_is_known(dims[i])) return true;
  return op->settle;
}

/* attr comes first behind the struct, where it is aligned for anything. */
static void fill(struct node *n, const struct op *op, weft_dtype dtype, int rank, const dim dims[], int n_in,
                 struct node *const in[], const void *attr, size_t attr_bytes) {
  n->op = op;
  n->dtype = (uint8_t)dtype;
  n->rank = (uint8_t)rank;
  n->n_in = n->n_made = n_in;
  n->attr_bytes = (uint32_t)attr_bytes;
  n->attr = (char *)n + aligned(sizeof *n);
  n->dims = (dim *)((char *)n->attr + aligned(attr_bytes));
  n->in = (struct node **)(n->dims + rank);
  for (int i = 0; i < rank; i++) n->dims[i] = dims[i]; /* few: a call of memcpy takes longer */
  for (int i = 0; i < n_in; i++) n->in[i] = in[i];
  if (attr_bytes) memcpy(n->attr, attr, attr_bytes);
}

/* An op runs where its inputs are placed; weft_to places its result. */
static uint8_t place_of(const struct node *n) {
  uint8_t place = 0;
  if (n->op == &op_to) return n->in[0]->place == PLACE_TWO ? PLACE_TWO : (uint8_t)(1 + ((const struct to_attr *)n->attr)->device);
  for (int i = 0; i < n->n_in; i++) {
    uint8_t p = n->in[i]->place;
    if (p) place = place && place != p ? PLACE_TWO : p;
  }
  return place;
}

/* Sizes that are numbers have been compared. */
static bool trusts_itself(const struct node *n) {
  if (n->op->trusts) return n->op->trusts(n);
  if (!n->op->agree) return false;
  bool is_known = node_is_known(n);
  for (int i = 0; is_known && i < n->n_in; i++) is_known = node_is_known(n->in[i]);
  return !is_known;
}

static inline bool may_trust(const struct op *op) { return op->trusts || op->agree; }

bool node_trusts(const struct node *n) {
  for (int i = 0; i < n->n_in; i++) if (node_is_trusting(n->in[i])) return true;
  return may_trust(n->op) && trusts_itself(n);
}

/* ---- Room for a value: leaves have one as a rule, and results of calls, which are made to be computed. ---- */

static bool gets_room(const struct op *op, bool is_open) { return !is_open && (op == &op_value || op == &op_item); }
static size_t value_bytes(int rank) { return sizeof(struct value) + (size_t)rank * sizeof(int64_t); }
static struct value *room_of(const struct node *n) { return n->has_room ? (struct value *)(n->in + n->n_made) : NULL; }

struct value *value_make(struct node *n) {
  if (!n->has_room || n->is_room_taken) return mem_alloc(value_bytes(n->rank));
  n->is_room_taken = true;
  return room_of(n);
}

void value_free(struct node *n, struct value *v) {
  if (!v) return;
  if (v != room_of(n)) return mem_free(v);
  memset(v, 0, value_bytes(n->rank));
  n->is_room_taken = false;
}

struct node *node_make(const struct op *op, weft_dtype dtype, int rank, const dim dims[], int n_in,
                       struct node *const in[], const void *attr, size_t attr_bytes) {
  for (int i = 0; i < n_in; i++) node_retain(in[i]);
  return node_take(op, dtype, rank, dims, n_in, in, attr, attr_bytes);
}

struct node *node_take(const struct op *op, weft_dtype dtype, int rank, const dim dims[], int n_in, struct node *const in[],
                       const void *attr, size_t attr_bytes) {
  bool is_open = may_be_told(op, rank, dims);
  size_t room = gets_room(op, is_open) ? value_bytes(rank) : 0;
  struct node *n = mem_alloc(node_bytes(is_open ? rank + n_was(rank) : rank, n_in, attr_bytes) + room);
  if (!n) return nodes_release(n_in, in), NULL;
  fill(n, op, dtype, rank, dims, n_in, in, attr, attr_bytes);
  n->has_room = room;
  if (is_open) n->was = (dim *)(n->in + n_in);
  atomic_init(&n->refs, 1);
  n->serial = atomic_fetch_add_explicit(&last_serial, 1, memory_order_relaxed) + 1;
  n->origin = caller()->origin;
  uint8_t places = 0;
  bool is_trusting = false, is_told = false;
  for (int i = 0; is_open && i < rank; i++) dim_retain(n->dims[i]);
  for (int i = 0; i < n_in; i++) {
    const struct node *in_i = n->in[i];
    places |= in_i->place, is_trusting |= node_is_trusting(in_i), is_told |= node_is_told(in_i);
  }
  atomic_init(&n->is_told, is_told);
  if (places || op == &op_to) n->place = place_of(n);
  if (op->hold) op->hold(n->attr);
  if (item_has_siblings(n)) item_join(n);
  atomic_init(&n->is_trusting, is_trusting || (may_trust(op) && trusts_itself(n)));
  return n;
}

struct node *node_local(struct arena *a, const struct op *op, weft_dtype dtype, int rank, const dim dims[], int n_in,
                        struct node *const in[], const void *attr, size_t attr_bytes) {
  struct local *l = arena_take(a, offsetof(struct local, node) + node_bytes(rank, n_in, attr_bytes));
  if (!l) return NULL;
  fill(&l->node, op, dtype, rank, dims, n_in, in, attr, attr_bytes);
  return &l->node;
}

void local_become(struct node *n, const struct node *y) {
  struct local *to = local_of(n);
  int slot = n->slot, n_uses = to->n_uses;
  *to = *local_of(y);
  to->node.slot = slot, to->n_uses = n_uses;
}

struct node *node_retain(struct node *n) {
  atomic_fetch_add_explicit(&n->refs, 1, memory_order_relaxed);
  return n;
}

bool node_is_known(const struct node *n) {
  for (int i = 0; i < n->rank; i++)
    if (!dim_is_known(n->dims[i])) return false;
  return true;
}

/* Who builds on the node reads the size without the lock, before this or after: one aligned word, and either says the same.
 * ThreadSanitizer is not to ask for more. */
__attribute__((no_sanitize("thread"))) void node_tell(struct node *n, int k, dim *at, dim now) {
  INVARIANT(!n->refs || dim_is_known(*at) || !n->was[k]);
  if (n->was && !dim_is_known(*at)) n->was[k] = *at;
  __atomic_store_n(at, now, __ATOMIC_RELEASE);
}

/* ---- Releasing ----
 * A node without references waits in the list of the thread that dropped the last one. Whatever its end drops (inputs,
 * buffers whose owner calls back, loop bodies) joins the list instead of nesting. */

/* Who has the only reference gives it up to nobody: none but results of a call that has several are found without one. */
static bool is_last(struct node *n) {
  INVARIANT(atomic_load(&n->refs) > 0);
  if (atomic_load_explicit(&n->refs, memory_order_acquire) == 1 && !item_has_siblings(n)) return true;
  return atomic_fetch_sub_explicit(&n->refs, 1, memory_order_acq_rel) == 1;
}

static void bury(struct caller *me, struct node *n) {
  n->next = me->dead;
  me->dead = n;
}

static void end(struct caller *me, struct node *n) {
  if (item_has_siblings(n)) item_leave(n);
  for (int i = 0; i < n->n_in; i++) if (is_last(n->in[i])) bury(me, n->in[i]);
  for (int i = 0; n->was && i < n->rank; i++) dim_release(n->dims[i]);
  for (int i = 0; n->was && i < n_was(n->rank); i++) dim_release(n->was[i]);
  if (n->op->drop) n->op->drop(n->attr);
  if (n->value) {
    buffer_release(n->value->buf);
    if (n->value->verdict) verdict_release(n->value->verdict);
    if (n->value != room_of(n)) mem_free(n->value);
  }
  if (n->failure) failure_release(n->failure);
  mem_free(n);
  atomic_fetch_add_explicit(&n_ended, 1, memory_order_relaxed);
}

void node_release(struct node *n) {
  if (!n || !is_last(n)) return;
  struct caller *me = caller();
  bury(me, n);
  if (me->is_releasing) return;
  me->is_releasing = true;
  while ((n = me->dead)) {
    me->dead = n->next;
    end(me, n);
  }
  me->is_releasing = false;
}

/* ---- History and the lock ----
 * What is forgotten under the lock is released after it: the end of a node may call its user back. */

pthread_mutex_t graph_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static uint64_t epoch;
static struct node *forgetting;

static void set_inputs(struct node *n, int n_in) { __atomic_store_n(&n->n_in, n_in, __ATOMIC_RELAXED); }

void node_drop_history(struct node *n) {
  if (!n->n_in) return;
  if (item_has_siblings(n)) item_leave(n);
  set_inputs(n, 0);
  n->history_dropped = true;
  node_set_told(n, false); /* nothing leads to other values any more */
  node_retain(n)->next = forgetting;
  forgetting = n;
}

void node_hide_history(struct node *n) {
  if (!n->n_in) return;
  set_inputs(n, 0);
  n->history_dropped = true;
}

void node_show_history(struct node *n) {
  set_inputs(n, n->n_made);
  n->history_dropped = false;
}

/* While a trace is open whatever gets a value keeps its history. What would have forgotten it waits here, with a reference:
 * nobody may come by it again. */
static struct node_list deferred; /* graph lock */

static void defer(struct node *n) {
  if (n->is_to_forget) return;
  if (deferred.n == deferred.room) {
    int room = deferred.room ? 2 * deferred.room : 64;
    struct node **node = mem_resize(deferred.node, sizeof *node * (size_t)room);
    if (!node) return; /* its history stays */
    deferred.node = node;
    deferred.room = room;
  }
  n->is_to_forget = true;
  deferred.node[deferred.n++] = node_retain(n);
}

void node_forget(struct node *n) {
  if (!n->n_in) return;
  if (scope_trace_open()) defer(n);
  else node_drop_history(n);
}

void nodes_forget_deferred(void) {
  graph_lock();
  struct node_list l = scope_trace_open() ? (struct node_list){ 0 } : deferred;
  if (l.node) deferred = (struct node_list){ 0 };
  for (int i = 0; i < l.n; i++) {
    l.node[i]->is_to_forget = false;
    if (atomic_load(&l.node[i]->state) == NODE_READY) node_drop_history(l.node[i]);
  }
  graph_unlock();
  for (int i = 0; i < l.n; i++) node_release(l.node[i]);
  mem_free(l.node);
}

static void forget(struct node *n) {
  for (struct node *next; n; n = next) {
    next = n->next;
    for (int i = 0; i < n->n_made; i++) node_release(n->in[i]);
    node_release(n);
  }
}

static void make_changed(void) { clock_condition(&changed); }

void graph_after_fork(void) { make_changed(); }

void graph_lock(void) { pthread_mutex_lock(&graph_mutex); }

/* Who changes a state cannot forget to tell: node_set_state notes it, and the end of the locked section wakes those who wait. */
static bool is_changed; /* graph lock */

static void wake(void) {
  is_changed = false;
  pthread_once(&once, make_changed);
  pthread_cond_broadcast(&changed);
}

void graph_changed(void) { is_changed = true; }

/* Nobody waits for a computation to begin, or to be put off: async.c tells of that when it can be gone on with. */
void node_set_state(struct node *n, enum node_state s) {
  atomic_store_explicit(&n->state, s, memory_order_release);
  if (s != NODE_RUNNING && s != NODE_QUEUED) graph_changed();
}

static __attribute__((noinline)) void unlock_and_forget(void) {
  struct node *n = forgetting;
  forgetting = NULL;
  pthread_mutex_unlock(&graph_mutex);
  forget(n);
}

void graph_unlock(void) {
  if (is_changed) wake();
  if (forgetting) unlock_and_forget();
  else pthread_mutex_unlock(&graph_mutex);
}

bool graph_wait(double seconds) {
  if (is_changed) wake();
  pthread_once(&once, make_changed);
  if (!(seconds >= 0)) return pthread_cond_wait(&changed, &graph_mutex) == 0;
  struct timespec t = clock_after(seconds);
  return pthread_cond_timedwait(&changed, &graph_mutex, &t) == 0;
}

uint64_t graph_epoch(void) { return ++epoch; }
