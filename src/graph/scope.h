/* scope.h -- handles and who owns them.
 *
 * A weft_array is a handle: a name for a node, in the list of the scope it was made in, with a count of owners beside
 * (language bindings). It dies when its scope has ended and no owner is left. A scope is opened and ended by one
 * thread; ending it discards inner ones left open. */
#ifndef WEFT_SCOPE_H
#define WEFT_SCOPE_H
#include "graph/node.h"
#include "graph/trust.h"

struct weft_array {
  struct node *node;            /* never NULL; only array_swap changes it, so others read it through array_node */
  struct weft_scope *scope;     /* NULL: has ended, an owner keeps it */
  struct weft_array *next, **link;
  _Atomic int owners;           /* and a bit while the scope is open (handle.c); changed by whom it is held by */
  _Atomic uint32_t held_by;     /* not 0: somebody of that process (handle.c) reads or changes the node or owners */
  struct pin *pins;             /* run/pin.c */
  uint32_t tag;                 /* HANDLE_ALIVE, or something else once it is gone: stale handles are noticed */
};

struct update { struct weft_array *outer, *value; };
struct fetch { struct weft_array *from; weft_dtype dtype; void *dst; size_t bytes; };

/* What a scope is the body of, if it is one: a loop, a choice. */
struct construct {
  const char *name, *results;   /* for messages: "loop"; what to call for values outside it */
  void (*discard)(void *body);  /* the scope ended before it was closed */
};

struct weft_scope *scope_open_body(const struct construct *, void *body); /* a scope that is its body; NULL: no memory */

struct weft_scope {
  struct weft_scope *outside;   /* NULL: the thread's root */
  struct weft_array *handles;
  struct update *updates;
  struct fetch *fetches;
  int n_updates, n_fetches;
  struct arena *texts;          /* what weft_show returned; made when first needed */
  struct weft_function *functions; /* list of functions that belong to this scope */
  struct weft_file *files;
  struct trusts trusts;         /* about sizes, so far */
  const struct construct *construct; /* set if it is the body of one */
  void *body;                   /* the construct's own */
  bool is_trace;                /* weft_alias was called in it: evaluation keeps history while it is open */
  uint64_t born;                /* serial when it was opened */
  struct failure *failure;      /* first error nobody has looked at */
  struct failure *missed;       /* why what it is for cannot be done, whether somebody has looked at that or not */
  uint64_t thread;
  uint32_t tag;
};

enum { HANDLE_ALIVE = 0x57454654, SCOPE_OPEN = 0x53434f50 };

struct weft_scope *scope_current(void);               /* the innermost open one of this thread; its root at least. NULL: memory */
uint64_t scope_origin(void);                          /* tag set by weft_origin on this thread */
bool scope_has_names_beyond(const struct weft_scope *); /* one that is further out than this one has */
bool scope_has_names(void);                           /* one that is open in this thread has an array */
bool scope_trace_open(void);                          /* some thread has a trace open */

/* Handles for results: they take over the reference of the node. NULL node: out of memory, a bad array. Never NULL:
 * without memory for the handle itself it is a static bad array. */
weft_array *array_of(struct node *);
struct failure *node_torn(const struct node *, const char *fn); /* what it is made of is on two devices, which fn says, or who is
                                                         being called; fn NULL: the op where they meet. NULL: it is not */
weft_array *array_bad(weft_status, const char *format, ...) __attribute__((format(printf, 2, 3)));
weft_array *array_failed(struct failure *);           /* takes over the reference */

/* Functions composed of others: what they make on the way has names that nobody can use once they return. These go then, so that
 * an evaluation does not store values for them. What is wrong is said by the outermost, which is what was called (fail.c). */
struct composing { struct weft_scope *scope; struct weft_array *newest; const char *called; };
struct composing composing_begin(const char *fn);
weft_array *composing_end(struct composing, weft_array *y); /* the names made since go, but for y, which it returns */
#define COMPOSED(y) ({ struct composing composing_ = composing_begin(__func__); composing_end(composing_, (y)); })

struct node *array_node(weft_array *);                 /* a reference to what it names now; safe beside a commit */
struct node *array_swap(weft_array *, struct node *); /* gives it another node, whose reference it takes over; returns the
                                                         one before, with its reference */

bool array_replace(weft_array *, struct node *from, struct node *to); /* the same if it names `from`; whether it does */

/* Ending scopes. scope_check: whether this thread may end it now; inner ones left open are discarded. scope_end: frees
 * what belongs to it, returns to the scope outside. */
weft_status scope_check(const char *fn, struct weft_scope *);
void scope_end(struct weft_scope *);
void scope_forget(struct weft_scope *);               /* its arrays go, before it ends: nobody can use them any more */
void scope_blame(struct failure *);                   /* an error of a call that returns nothing: closing reports it,
                                                         weft_message of a root scope. Takes over the reference */
void scope_drop_handles(struct weft_scope *);
void scope_mark_trace(struct weft_scope *);
void scope_leave(void), handles_leave(void), jobs_leave(void); /* the thread ends */
void forks_watch(void);                               /* run/: at the first call */
void handles_after_fork(void);                        /* in the child */
void files_end(struct weft_file *);                   /* io/: the scope of a list of files has ended */

/* Whether all are usable: not NULL, not stale, not bad. If one is not, *bad is the bad array to return: bad in, bad out.
 * fn is the public name for messages: "weft_add". */
bool arrays_ok(const char *fn, int n, weft_array *const a[], weft_array **bad);
bool arrays_nodes(const char *fn, int n, weft_array *const a[], struct node *node[], weft_array **bad); /* the same, and
                                                         their nodes, with references */
/* What it names now, for a moment: others who ask wait until array_looked. NULL: it is not usable, and nobody waits. */
const struct node *array_look(weft_array *);
void array_looked(weft_array *);
struct node *array_usable(const char *fn, int k, weft_array *, struct failure **why); /* with a reference, or NULL: why not */
struct node *array_given(const char *fn, int k, weft_array *, struct failure **why); /* the same of one that is to be given another
                                                         value: the one it has may have failed */
struct failure *array_failure(const char *fn, int k, weft_array *); /* why the k-th argument (0: the only one) is not
                                                         usable, with a reference; NULL: it is */
void nodes_release(int n, struct node *const node[]);

#endif
