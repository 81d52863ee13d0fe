/* copy.h -- copying a snapshot of the graph node by node: what substitution, specialisation and the expansion of calls
 * have in common. */
#ifndef WEFT_COPY_H
#define WEFT_COPY_H
#include "graph/subgraph.h"

/* What copies are to the nodes they are copies of. */
enum copy_kind {
  COPY_OTHER,   /* they may have other values, and lengths of loops are told anew */
  COPY_APPLIED, /* the body of a function on other inputs: lengths that were told stay, and nobody looks for them by its nodes */
  COPY_SAME,    /* they have the same values: lengths that were told stay, and whoever asks for a node finds its copies */
  COPY_BODY     /* the same, and sizes are copied whatever they are of: see graph_repeat_body */
};

struct copy {
  struct subgraph g;
  struct node **now;       /* what node i has become; a reference each. NULL: still itself */
  struct dim_table sizes;  /* symbols that have become something else */
  enum copy_kind kind;
  struct failure *failure; /* NULL: none so far */
};

static inline bool copies_same(const struct copy *c) { return c->kind == COPY_SAME || c->kind == COPY_BODY; }
bool copy_is_forced(const struct copy *, int i);   /* whether node i is copied though nothing of it is another one */
bool copy_begin(struct copy *, int n, struct node *const target[], int n_walls, struct node *const wall[], uint64_t oldest);
struct node *copy_of(const struct copy *, int i);  /* no reference */
/* Before any node is done: new symbols for the steps and lengths of loops that will be computed from something else, since
 * what the loops read mentions them, and what has their sizes without reading them. changes: whether node i will be another
 * one, whatever its operands. false: out of memory. */
bool copy_renew(struct copy *, bool (*changes)(const struct copy *, int i));
/* Whether the attribute of n, which may contain sizes, is another one with these symbols replaced. in: its operands. */
bool attr_mentions(const struct node *n, int n_in, struct node *const in[], struct dim_table *);
/* Whether these symbols, replaced, make node i another one, whatever becomes of its operands. */
bool subgraph_mentions(const struct subgraph *, int i, struct dim_table *);
/* Lengths that loop i, an operand of which is another one in a copy where moves says so, gets new symbols for: at most two. */
int loop_renews(const struct subgraph *, int i, const bool moves[], dim symbol[2]);
/* n is node i again; takes over the reference. A node that others have too gets a name of its own where that is asked for. */
bool copy_replace(struct copy *, int i, struct node *n);
bool copy_node(struct copy *, int i);              /* its operands have been done. false: failure says why */
bool copy_fail(struct copy *, struct failure *);   /* takes it over; returns false */
/* The targets with references; frees everything. Passes the failure on, if there is one. */
bool copy_end(struct copy *, int n, struct node *out[], struct failure **);

bool dim_table_add(struct dim_table *, dim symbol, dim value); /* false: out of memory */
void dim_table_free(struct dim_table *);
static inline dim dim_in(const struct dim_table *t, dim d) {
  if (dim_is_known(d) || !t->n) return d;
  return d == t->symbol[0] ? t->value[0] : dim_substitute(d, t->n, t->symbol, t->value);
}

#endif
