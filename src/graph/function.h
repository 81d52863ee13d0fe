/* function.h -- a program kept: outputs in terms of inputs. Immutable once made, counted, used by any thread. */
#ifndef WEFT_FUNCTION_H
#define WEFT_FUNCTION_H
#include <stdatomic.h>
#include "graph/scope.h"

struct subgraph;

struct weft_function {
  struct weft_function *next;   /* in the list of its scope */
  _Atomic int refs;             /* the scope it belongs to, owners, call nodes; 0: it has ended, and is only a place */
  struct weft_scope *scope;     /* NULL: ended */
  int n_in, n_out;
  struct node **in, **out;      /* in: leaves or any node the user listed; out: expressions of them */
  struct trusts trusts;         /* about the sizes of its inputs */
  struct failure *failure;      /* bad: so are its calls */
  int rewrites;                 /* WEFT_REWRITES when it was compiled */
  _Atomic(struct plan_set *) plans; /* run/: what has been planned for which sizes */
  _Atomic int names;            /* run/: whether it has captured some (captured.c) */
};
void function_retain(struct weft_function *), function_release(struct weft_function *);
bool function_has_input(const struct weft_function *, const struct node *); /* whether it is one of those */
struct failure *function_ended(const char *fn, const struct weft_function *); /* why it cannot be used at all; NULL: it can */

void plan_set_free(struct plan_set *); /* run/; NULL: nothing */
void eval_write_calls(int64_t ns);     /* run/; for tests: calls that take no longer are written down (run/tape.h) */

/* Which symbols of the inputs become what, if the function is given these. The table grows, and is the caller's to free.
 * false: *failure says what does not fit (fn: the public name for the message). */
bool function_bind(struct weft_function *, const char *fn, struct node *const in[], struct dim_table *, struct failure **);

/* The body on other inputs: n_out nodes with references. false: *failure says why. */
bool function_expand(struct weft_function *, struct node *const in[], struct node *out[], struct failure **);

/* The targets without calls, the functions' bodies in their place; not below nodes with a smaller serial. They are replaced,
 * with their references. NULL: done. */
struct failure *expand_calls_since(uint64_t oldest, int n, struct node *target[]);
struct failure *expand_calls_within(uint64_t oldest, int n_walls, struct node *const wall[], int n, struct node *target[]);
/* The same of the calls between x and y, which read an x: what a result does not read of it is no part of it then. */
struct failure *expand_calls_of(int n, struct node *const x[], int m, struct node *y[]);
bool call_is_whole(const struct subgraph *, int i); /* node i is a call with its operands: one that is older than what was asked
                                                       for is there without them */
/* In the graph of y, and of x itself, calls of functions that have captured an x: for derivatives by it, and maps over it, which
 * otherwise look at what calls are given. x and y are replaced, with their references. NULL: done. */
struct failure *expand_captors(int n, struct node *x[], int m, struct node *y[]);
/* The same between x and y, of functions that have captured anything at all by which a derivative may be asked for later. */
struct failure *expand_captors_between(int n, struct node *const x[], int m, struct node *y[]);
extern _Atomic bool calls_some; /* there has been a call, ever: only then is one looked for */

#endif
