/* node.h -- the graph: immutable nodes that know how they are computed, and perhaps their value.
 *
 * A node is what an expression is; a handle (weft_array, graph/scope.h) is a name for one. Nodes are counted by
 * references: from nodes that use them, from handles, functions and loops. Releasing is iterative. op and dtype never
 * change; sizes, in dims and in attr, become the numbers that a run tells, under the graph lock (node_tell); `state` goes
 * lazy (-> queued) -> running -> ready or failed under the graph lock, back to lazy when the work is given up, and from
 * ready to failed when what was enqueued turns out to be none; `in` is dropped (n_in = 0, history_dropped) when a ready
 * node forgets its history. What is queued some job will compute: others wait for it, a job that needs it earlier computes
 * it. What is running somebody computes at this moment, or will without waiting for anything younger.
 *
 * A plan works on local nodes (struct local): copies in an arena, not counted, without state. What they are expressions of
 * (op, dtype, weak, dims, in, attr), their origin and slot mean what they mean in a node of the user; the other fields of
 * struct node mean nothing there, and what only a plan knows stands in struct local. Op rules that lower see local nodes. */
#ifndef WEFT_NODE_H
#define WEFT_NODE_H
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include "base/hard.h"
#include "graph/dim.h"
#include "graph/fail.h"
#include "weft.h"

struct op;
struct arena;
struct buffer;
struct verdict; /* run/verdict.h */

enum { PLACE_TWO = 255 };
enum node_state { NODE_LAZY, NODE_QUEUED, NODE_RUNNING, NODE_READY, NODE_FAILED };

/* Where a ready node's elements are: data[offset + sum_k i_k stride[k]], in elements of the dtype. If the verdict (NULL: there
 * is none) turns out to be a failure they are no value after all. */
struct value { struct buffer *buf; struct verdict *verdict; int64_t offset; int64_t stride[]; };

struct node {
  const struct op *op;
  _Atomic int32_t refs;
  uint8_t dtype, rank;
  bool weak;               /* a number without dtype of its own: yields to its partner */
  bool history_dropped;
  bool was_needed;         /* by an evaluation that did not store it: it is stored if it is needed again */
  bool is_to_forget;       /* graph lock: among those whose history goes when the last trace ends */
  bool was_queued;         /* graph lock: before it was claimed, so that it is again if it is given up */
  bool has_room, is_room_taken; /* for a value, behind what the pointers below point to; who computes it takes it */
  _Atomic uint8_t state;
  _Atomic bool is_trusting; /* its sizes rest on others that were taken to be equal, or to fit, and nobody has looked yet */
  _Atomic bool is_told;    /* its sizes, or those of what it is made of, are numbers that a run has told, and would be others on
                              other values */
  uint8_t place;           /* 1 + the device it is placed on, as one of its inputs is; 0: on none; PLACE_TWO: inputs disagree */
  _Atomic uint64_t names;  /* handles that name it and have an owner, in the low half; in the high half those of them whose scope
                              has ended: their owners alone keep them */
  int n_in;
  uint32_t attr_bytes;
  uint64_t serial;         /* age: later nodes have larger ones */
  uint64_t copy_of;        /* the serial of the first it is a copy of; 0: it is none */
  uint64_t same_as;        /* the serial of the first it is a copy of that has its value, whatever that is; 0: none (recall.h) */
  uint64_t origin;         /* the user's tag */
  uint64_t mark;           /* graph lock: epoch of the walk that saw it last, and its index there */
  int slot;
  int n_made;              /* inputs it was made with, whether it has them still or not: n_in is read under the lock, or of what
                              nobody else can evaluate */
  dim *dims;               /* these three point behind the struct, as the next does */
  struct node **in;
  void *attr;
  struct value *value;     /* READY: not NULL, unless op is a leaf that needs none (scalar) */
  struct failure *failure; /* FAILED, or op_bad */
  struct node *next;       /* among those being released */
  dim *was;                /* what sizes were before they were told: of the axes, then of attr; 0: the same. It counts on them, as
                              whoever holds the node may have read one without the lock. NULL: all were numbers from the first */
};

/* A node of a plan, and what the plan knows of it. It is made and handed on as a struct node, as all that lowers takes one;
 * `local_of` finds the rest, which stands in front of it. Never of a node of the user. */
struct local {
  int n_uses;              /* how many inputs, and targets, refer to it */
  int leaf;                /* op_value: which leaf of the plan, or which variable of a loop's body */
  bool is_floating;        /* computed in the kernel of its user, or of all of them */
  bool is_together;        /* does not float: its users are to share a kernel, which computes it once */
  bool is_by_columns;      /* a prefix along few long columns, on a device: a step of its own (prefix_kernel.c) */
  bool is_after_product;   /* made of a product's elements: it goes on with its cells, so no view moves below it */
  bool is_alone;           /* a copy made for the place where its result stands: it shares no kernel, and is not moved */
  _Alignas(16) struct node node;
};

/* Nodes come with one reference for the caller; inputs are retained. NULL: out of memory. */
struct node *node_make(const struct op *, weft_dtype, int rank, const dim dims[], int n_in, struct node *const in[],
                       const void *attr, size_t attr_bytes);
/* The same, but the caller's references to the inputs become those of the node; without memory they are released. */
struct node *node_take(const struct op *, weft_dtype, int rank, const dim dims[], int n_in, struct node *const in[],
                       const void *attr, size_t attr_bytes);
struct node *node_retain(struct node *);
void node_release(struct node *);                     /* NULL: nothing; iterative */
int64_t node_live(void);
/* Whether an owner alone keeps it: asked for, it is stored and forgets what it was made of. */
#define NAME_OWNED UINT64_C(1)
#define NAME_LOOSE (UINT64_C(1) << 32)
static inline uint64_t node_names(const struct node *n) { return atomic_load_explicit(&n->names, memory_order_relaxed); }
static inline int node_n_loose(const struct node *n) { return (int)(node_names(n) >> 32); }
static inline bool node_is_loose(const struct node *n) { return node_names(n) >= NAME_LOOSE; }
static inline bool node_is_owned(const struct node *n) { return (uint32_t)node_names(n) > 0; }
static inline uint64_t node_first(const struct node *n) { return n->copy_of ? n->copy_of : n->serial; }
static inline uint64_t node_same(const struct node *n) { return n->same_as ? n->same_as : n->serial; }
uint64_t node_serial(void);                           /* of the youngest */
struct value *value_make(struct node *);              /* zeros, for this node; NULL: out of memory */
void value_free(struct node *, struct value *);       /* one that was made for it, what it refers to left alone; NULL: nothing */
/* Whether it has inputs: they may go without the lock, and of a ready node do not come back. */
static inline bool node_has_history(const struct node *n) { return __atomic_load_n(&n->n_in, __ATOMIC_RELAXED) > 0; }
void node_drop_history(struct node *);                /* ready nodes only; graph lock held: graph_unlock releases */
void node_forget(struct node *);                      /* the same, but while a trace is open, when the last one ends */
void nodes_forget_deferred(void);                     /* the last trace has ended; graph lock not held */
void node_hide_history(struct node *);                /* for a while: nobody can ask for its inputs; graph lock held */
void node_show_history(struct node *);                /* again; likewise */
struct node *node_local(struct arena *, const struct op *, weft_dtype, int rank, const dim dims[], int n_in,
                        struct node *const in[], const void *attr, size_t attr_bytes); /* a plan's own node */
void local_become(struct node *, const struct node *y); /* what y is, with its own slot and uses; both of a plan */
static inline struct local *local_of(const struct node *n) {
  INVARIANT(!n->refs);
  return (struct local *)((char *)n - offsetof(struct local, node));
}
bool node_is_known(const struct node *);              /* all sizes are numbers */
/* A size of the node, *at, turns out to be the number `now`: of axis k, or, from its rank on, one of attr, as the op counts them.
 * Lock held, or a plan's own node. */
void node_tell(struct node *, int k, dim *at, dim now);
/* Whether sizes of it, or of what it is made of, were taken on trust, so that it may turn out to be none: whoever asks for its
 * size alone has to look there. What has a value was looked at. */
static inline bool node_is_trusting(const struct node *n) {
  return atomic_load_explicit(&n->is_trusting, memory_order_relaxed) &&
         atomic_load_explicit(&n->state, memory_order_relaxed) != NODE_READY;
}
static inline bool node_is_told(const struct node *n) { return atomic_load_explicit(&n->is_told, memory_order_relaxed); }
static inline void node_set_told(struct node *n, bool is) { atomic_store_explicit(&n->is_told, is, memory_order_relaxed); }
bool node_trusts(const struct node *);                /* found anew: by itself, or by an input */

/* The one lock of the graph: states, values, marks. Short sections only, no callbacks inside. */
void graph_lock(void), graph_unlock(void);
void graph_changed(void);                             /* graph_unlock wakes graph_wait; lock held */
void node_set_state(struct node *, enum node_state);  /* tells that the graph has changed; lock held, or a node nobody knows */
bool graph_wait(double seconds);                      /* lock held; false: timed out; seconds < 0: for ever */
void graph_after_fork(void);                          /* in the child, lock held: nobody waits any more */
uint64_t graph_epoch(void);                           /* a new one; lock held */

/* All nodes that the targets need, inputs before users, each once; does not go below nodes for which stop() is true
 * (they are in the list). Iterative; graph lock held (uses mark and slot: slot = index in the list). */
struct node_list { struct node **node; int n, room; };
struct visit { struct node *node; int next, n; };  /* of an iterative walk: a node, which of its inputs comes next, of how many */
bool walk(struct node_list *, int n, struct node *const targets[], bool (*stop)(const struct node *)); /* false: memory */
void node_list_free(struct node_list *);

/* A copy of the graph of n targets in which some nodes are replaced: from[i] by to[i] (same dtype and shape, unless
 * sizes differ on purpose: then nodes above are inferred again by their op's `again`). Shares what does not depend on a
 * replaced node. out[] come with references. false: failed, and *failure says why. Iterative (graph/substitute.c). */
bool graph_substitute(int n_from, struct node *const from[], struct node *const to[], int n, struct node *const target[],
                      struct node *out[], struct failure **);
/* The same where to[i] has the value of from[i]: lengths of loops that have been told stay, and copies remember of which node
 * they have the value. */
bool graph_repeat(int n_from, struct node *const from[], struct node *const to[], int n, struct node *const target[],
                  struct node *out[], struct failure **);
/* graph_repeat for the body of a loop, which shares no node that somebody could evaluate: what is made of sizes of variables needs
 * no value of theirs, and whoever holds it may ask for it, so that it forgets what it was made of. */
bool graph_repeat_body(int n_vars, struct node *const var[], int n_from, struct node *const from[], struct node *const to[], int n,
                       struct node *const target[], struct node *out[], struct failure **);
/* graph_substitute, or for is_applied the body of a function on other inputs: lengths that have been told stay. symbol[i] becomes
 * value[i] in every size of the copy, loop bodies included. */
bool graph_specialise(bool is_applied, int n_from, struct node *const from[], struct node *const to[], int n_symbols,
                      const dim symbol[], const dim value[], int n, struct node *const target[], struct node *out[],
                      struct failure **);

#endif
