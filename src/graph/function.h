/* function.h -- a program kept: outputs in terms of inputs. Immutable once made, counted, used by any thread. */
#ifndef WEFT_FUNCTION_H
#define WEFT_FUNCTION_H
#include "graph/scope.h"

struct weft_function {
  _Atomic int refs;             /* the scope it belongs to, owners, call nodes */
  struct weft_scope *scope;     /* NULL: ended */
  struct weft_function *next;   /* in the list of its scope */
  int n_in, n_out;
  struct node **in, **out;      /* in: leaves or any node the user listed; out: expressions of them */
  struct failure *failure;      /* bad: so are its calls */
  bool exact;                   /* WEFT_EXACT was set when it was compiled: no rewrites that change rounding */
  _Atomic(struct plan_set *) plans; /* run/: what has been planned for which sizes */
};
void function_retain(struct weft_function *), function_release(struct weft_function *);

/* The body on other inputs: n_out nodes with references. false: *failure says why. */
bool function_expand(struct weft_function *, struct node *const in[], struct node *out[], struct failure **);

#endif
