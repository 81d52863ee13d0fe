/* rewriting.h -- a rewriting in progress: what the rules share. */
#ifndef WEFT_REWRITING_H
#define WEFT_REWRITING_H
#include "base/arena.h"
#include "op/op.h"
#include "rewrite/rewrite.h"

struct rewriting {
  struct arena *arena;
  enum rule_tag most;
  bool no_memory;
  int n_folds;              /* numbers folded so far: bounded, each one runs a kernel */
  struct node **table;      /* common expressions: open addressing by hash */
  uint64_t *hash;
  int n, room;              /* room is a power of 2 */
};

/* A node in its simplest form: an existing one that is equal, or what the rules make of it. NULL: out of memory. */
struct node *simplest(struct rewriting *, struct node *);
struct node *made(struct rewriting *, const struct op *, const struct node *like, int rank, const dim dims[], weft_dtype,
                  int n, struct node *const in[], const void *attr, size_t bytes); /* a new node in its simplest form;
                                                                                      like: where it comes from */
struct node *number_of(struct rewriting *, const struct node *like, uint64_t bits); /* a scalar of its dtype in its shape */

/* The scalar below broadcasts; NULL: none. */
const struct node *scalar_below(const struct node *);

/* Rules in code: what becomes of a node, or the node itself. NULL: out of memory. */
struct node *rewrite_view(struct rewriting *, struct node *);
struct node *rewrite_cast(struct rewriting *, struct node *);
struct node *rewrite_element(struct rewriting *, struct node *); /* the rows, folding, concatenations */
struct node *rewrite_put(struct rewriting *, struct node *);     /* views.c: parts that are all of it are a concatenation */
struct node *rewrite_take(struct rewriting *, struct node *);    /* indices.c: of what is made element by element */
struct node *rewrite_scatter(struct rewriting *, struct node *); /* indices.c: one element a row among equal ones */
struct node *rewrite_identity(struct rewriting *, struct node *);

/* Loops without the results nobody takes, and without what only these needed (loop_trim.c). */
bool shrink_loops(struct rewriting *, int n, struct node *const node[]);

/* Complex nodes become pairs of real ones (complex_parts.c); nothing happens where there are none. */
bool split_complex(struct arena *, struct node_list *list, int n, struct node *target[]);

#endif
