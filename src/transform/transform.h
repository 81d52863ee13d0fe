/* transform.h -- derivatives and maps on nodes: what the public calls and the rules of loops, calls and checkpoints share.
 *
 * All of them take expressions y in terms of arrays x and give nodes with references; NULL stands for zero, or for "not
 * mapped". They walk a snapshot once, without recursion. false: *failure says why, and there is nothing to release. */
#ifndef WEFT_TRANSFORM_H
#define WEFT_TRANSFORM_H
#include "graph/subgraph.h"
#include "op/op.h"

/* The youngest node met whose history is gone: what is older than it has no derivative that could be trusted. */
struct dropped { uint64_t serial; struct failure *why; }; /* 0, NULL: none */

/* dx = J' dy. is_wall: of the body of a loop or call. Paths end at x, so that a derivative by one x does not go through
 * another one, and each path counts once: where a node stands twice among x, its first place gets all of dx and the others
 * NULL. dropped NULL: meeting a node without history is a failure. */
bool pull(int m, struct node *const y[], struct node *const dy[], int n, struct node *const x[], bool is_wall,
          struct node *dx[], struct dropped *, struct failure **);
/* dy = J dx. */
bool push(int n, struct node *const x[], struct node *const dx[], int m, struct node *const y[], struct node *dy[],
          struct failure **);
/* ys = y for every row of xs, with `rows` rows. xs[j] NULL: x[j] is not mapped. active: as in struct rule, or NULL. */
bool spread(dim rows, struct node *active, int n, struct node *const x[], struct node *const xs[], int m, struct node *const y[],
            struct node *ys[], struct failure **);

/* ---- Applying the rule of one node: handles in a scope of their own ---- */

enum { RULE_SMALL = 6 }; /* inputs of a node for which the struct has room: of most nodes */
struct applied {
  struct rule rule;
  struct weft_scope *scope;
  uint64_t origin;               /* the thread's own, put back at the end */
  int n_in;
  weft_array **in, *small[RULE_SMALL];
};
/* in: the nodes that stand for the operands. false: out of memory. */
bool rule_open(struct applied *, const struct node *, int n_in, struct node *const in[]);
void rule_close(struct applied *);

/* What has no value until it is called: arguments of functions, variables of loops. */
bool is_name(const struct node *);
/* The smallest serial of those x that vary, as by[j] is not NULL, and can have had a value; UINT64_MAX for none. What was evaluated
 * may depend on them, if it is younger and its history is gone; on a name it cannot. by NULL: all vary. */
uint64_t oldest_with_value(int n, struct node *const x[], struct node *const by[]);

struct failure *no_memory(void);
struct failure *no_history(const char *fn, const struct node *);
struct failure *no_float(const char *fn, const char *what, int which, const struct node *); /* "x", 1: the first x */
struct failure *no_variable(const char *fn, int m, struct node *const y[], int n, struct node *const x[]);
                                                     /* an x that expressions y do not remember. NULL: none */
struct failure *no_rule(const char *fn, const struct node *); /* the op has no derivative rule */
weft_array *handle_of(struct node *);                /* of a node that stays the caller's */
weft_array *times(weft_array *d, weft_array *partial); /* NULL: zero; nothing is multiplied by a literal 1 */
weft_array *times_chosen(weft_array *d, weft_array *partial); /* the same, and 0 where d is 0 */
bool is_differentiable(const struct node *);         /* a float */
/* Adds d to *sum (NULL: zero), in the dtype of `like`. false: *failure. */
bool accumulate(struct node **sum, weft_array *d, struct node *like, struct failure **);
/* The node of a result with a reference; NULL: it is bad, *failure says why. */
struct node *result_of(weft_array *, struct failure **);
bool node_fit(struct node **d, struct node *like, struct failure **); /* in its dtype and sizes, which are taken to be equal;
                                                        takes over a reference and gives one. false: *failure */

/* Public calls: what stands between x and y, as transforms want it: see expand_captors, recall and choose_sink. Both lists are
 * replaced, with their references. NULL: done. */
struct failure *transform_ready(int n, struct node *x[], int m, struct node *y[]);

int checkpoint_expanded(const struct node *);        /* how many of its inputs, the last, are y with calls expanded */

/* Lists of nodes that start as NULL; NULL: out of memory. */
struct node **node_list_new(int n);
void node_list_drop(int n, struct node **);          /* releases and frees; NULL: nothing */

/* Public calls: m arrays are given and n wanted. false: the counts make no sense, or there is nowhere to put the results;
 * they are bad where they can be, else the open scope is told. */
bool has_place(const char *fn, int m, int n, weft_array *out[]);

/* Public calls: the nodes of the lists of arrays that they were given, with references. */
struct given { int lists, n[3]; struct node **all, **of[3]; };
/* false: the m results are bad. given_drop is called in any case. */
bool given_take(struct given *, const char *fn, int lists, const int n[], weft_array *const *const a[], int m, weft_array *out[]);
void given_drop(struct given *);
void all_bad(int n, weft_array *out[], struct failure *); /* takes over the reference */

#endif
