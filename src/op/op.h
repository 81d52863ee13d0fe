/* op.h -- what an operation is: one struct, in one file, with everything the stages need to know about it.
 *
 * Operations are identified by the address of their struct. No stage switches over ops; stages look at `kind` and call
 * rules. Public functions normalise first: operands of ELEMENT nodes are cast to the dtype the row wants and broadcast to
 * the dims of the node by explicit nodes, axes are counted from 0, slice bounds are cut. */
#ifndef WEFT_OP_H
#define WEFT_OP_H
#include "graph/scope.h"
#include "kernel/kir.h"
#include "op/attr.h"
#include "op/kind.h"
#include "op/library.h"
#include "op/loop_form.h"

uint64_t scalar_bits(const struct node *, weft_dtype as);    /* of an op_scalar, weak or not, as a pattern of a dtype */
struct buffer;
struct node *value_node(weft_dtype, int rank, const dim dims[], struct buffer *, int64_t offset, const int64_t stride[]);
                                                             /* a ready leaf; takes over the buffer's reference; stride
                                                                NULL: row by row. NULL: out of memory */

/* How a REDUCE or PREFIX combines. n = 0: by one instruction on the node's register dtype (or, for bool results, bool).
 * n > 0: a tuple of n values. */
struct fold {
  enum kir_op op;
  int n;
  weft_dtype (*state)(const struct node *, int i);                                   /* register dtype of value i */
  void (*lift)(struct kir_builder *, const struct node *, int x, int index, int out[]); /* one element -> a tuple; index: i64 */
  int (*combine)(struct kir_builder *, const struct node *);                         /* makes the fn, returns it */
  void (*from)(struct kir_builder *, const struct node *, int out[]);                /* neutral tuple */
  int (*finish)(struct kir_builder *, const struct node *, const int state[]);       /* the result */
  bool (*unfold)(struct arena *, struct node *); /* makes other nodes of a plan's own node, where its length asks for it;
                                                    NULL: always a fold. false: out of memory */
};

/* For derivative and map rules: handles of what the node was built from. Rules use the public API in the open scope. */
struct rule {
  const struct node *node;   /* its n_in may be 0 */
  weft_array *const *in, *out;
  int n_in;
  weft_array *active;        /* of map: a bool for every row. What fails in a row that is not counts for nothing, and nobody
                                uses what it gives. NULL: all rows are */
};

/* Rules of ops with several results, taken by OP_ITEM. NULL among dx, dy: zero. Failures go out as bad arrays. */
struct many {
  int (*count)(const struct node *);
  weft_dtype (*type)(const struct node *, int k, int *rank, dim dims[]); /* of result k; returns its dtype */
  void (*vjp)(const struct rule *, const bool is_wanted[], weft_array *const dy[], weft_array *dx[]);
  void (*jvp)(const struct rule *, weft_array *const dx[], weft_array *dy[]);
  void (*batch)(const struct rule *, const bool is_mapped[], weft_array *ys[], bool is_mapped_out[]);
};

/* Before a graph is rewritten, complex nodes are replaced by two real ones (rewrite/complex_parts.c): no kernel knows complex
 * numbers. A complex leaf is seen through two views (op_part), a complex result is stored part by part (op_pair). */
struct parts { struct node *re, *im; };   /* im NULL: a real value */
struct splitting {
  struct arena *arena;
  struct node_list list;                  /* what is made, inputs before users */
  const struct node *like;                /* the node that is being split: nodes made by a rule have its dims and origin */
  bool no_memory;
};

struct op {
  const char *name;                /* "add"; messages say weft_add */
  enum op_kind kind;
  bool is_cheap;                   /* ELEMENT: may be computed twice rather than stored */
  bool chooses;                    /* its vjp gives 0 to what it has not read, and that 0 stays 0: see op_scale */
  int (*lower)(struct kir_builder *, const struct node *, const int in[]); /* ELEMENT: register values in and out; the
                                      caller rounds the result to a narrow dtype */
  const struct fold *fold;         /* REDUCE, PREFIX */
  struct parts (*parts)(struct splitting *, const struct node *, const struct parts in[]); /* ELEMENT: with complex
                                      operands or result; NULL: it takes none */
  weft_array *(*partial)(const struct rule *, int k);                    /* ELEMENT: d out / d in[k]; NULL: zero */
  weft_array *(*vjp)(const struct rule *, int k, weft_array *dy);        /* others: cotangent of in[k]; NULL: zero */
  weft_array *(*jvp)(const struct rule *, int k, weft_array *dx);        /* others: what in[k] contributes; NULL: zero */
  weft_array *(*push)(const struct rule *, weft_array *const dx[]);      /* instead of jvp: what all contribute; dx[k] NULL: zero */
  weft_array *(*batch)(const struct rule *, const bool is_mapped[]);     /* in[k] of mapped ones have one more axis, the
                                      first; the result has it too. ELEMENT: NULL, derived */
  /* The node again on other inputs whose sizes may differ (substitution): a reference, or NULL and *failure. NULL rule:
   * same dims, dtype and attr. `n` is the old node. */
  struct node *(*again)(const struct node *n, struct node *const in[], struct failure **);
  /* attr holds references (a loop, a function, rules): node_make calls hold on its copy, the end of the node drop. */
  void (*hold)(const void *attr), (*drop)(const void *attr);
  /* attr contains sizes: brings a copy of it up to date, in place. in: the inputs of the copy. is_copied: the node will be
   * made anew in any case; if not, attr changes only if it mentions a symbol of the table. Symbols that the copy must have
   * anew join the table. attr then holds its references beside those of the node. false: *failure, or out of memory. */
  bool (*resize)(const struct node *n, struct node *const in[], void *attr, struct dim_table *, bool is_copied,
                 struct failure **);
  bool (*is_open)(const struct node *); /* attr contains sizes, and one is not a number yet. NULL: never */
  bool (*settle)(struct node *);   /* attr contains sizes: those that have become known; graph lock held. false: memory */
  /* Sizes were taken to be equal while they were unknown: a failure once they turn out to differ, else NULL. */
  struct failure *(*agree)(const struct node *);
  bool (*trusts)(const struct node *); /* whether sizes inside it were. NULL: if there is something to agree and a size is open */
  const struct many *many;         /* ops with several results: loop, call, checkpoint, custom, all of OP_LIBRARY */
  const struct library *library;   /* LIBRARY */
};
/* Before a graph or a body is planned: a node whose sizes, or where it begins, are not all numbers is a failure, as that of a name
 * which has no value. A plan of it would compute nothing, or write anywhere. NULL: there is none. (kinds.c) */
struct failure *unsized_in(const struct node_list *);
struct failure *disagreement_in(const struct node_list *); /* the same of a body: sizes that were taken to go together do not */
/* Of targets that nobody can ask for what is between: choices of which a side has something of its own that costs, or may fail,
 * become choices that compute one side (choose.c). Walls are not computed inside, nor is what is older. The targets are replaced,
 * reference by reference; a failure: they are as before. */
struct failure *choose_sink(uint64_t oldest, int n_walls, struct node *const wall[], int n, struct node *target[]);
static inline const struct kind_facts *facts_of(const struct node *n) { return &kind_facts[n->op->kind]; }

/* By family: element.c (also logic.c quotient.c rounding.c) reduce.c (logsumexp.c) view.c index.c matmul.c make.c identity.c
 * loop.c */
extern const struct op op_value, op_scalar, op_input, op_bad, op_loop_var, op_iota, op_size, op_cast, op_where, op_choose, op_fma,
    op_add, op_mul, op_sub, op_div, op_maximum, op_minimum, op_and, op_or, op_neg, op_sqrt, op_le,
    op_broadcast, op_reshape, op_transpose, op_slice, op_as_strided, op_windows, op_take, op_assert,
    op_complex, op_part, op_pair, op_put, op_scatter, op_matmul, op_concat, op_pad, op_alias, op_stop_gradient,
    op_depends, op_to, op_item, op_loop, op_call, op_later, op_sort, op_select, op_tally, op_bins, op_dequantize, op_code_product,
    op_depthwise, op_fourier, op_turns,
    op_cholesky, op_cholesky_solve, op_triangle, op_lu, op_solve, op_inverse, op_determinant, op_adjugate, op_cofactors, op_host,
    op_barrier, op_checkpoint, op_custom; /* transform/; a barrier is an identity that common expressions do not cross */
const char *assert_text(const struct node *); /* of an op_assert: what it says where it fails, .. */
weft_status assert_status(const struct node *); /* .. and with which status */
extern const struct op op_bits;        /* the same 32 or 64 bits, of another dtype: pattern.c */
extern const struct op op_random_bits; /* in: k0, k1, i, n, all u32: see random.c */
extern const struct op op_gamma_draw; /* in: a, x drawn with the shape a: x as a function of a */
extern const struct op op_log_gamma_draw; /* in: a, log x of such an x: it as a function of a */
extern const struct op op_scale; /* a b, but a where a is 0, whatever b is: what a branch that was not taken passes on */
extern const struct op *const op_table[]; /* all ops, ends with NULL: every_op walks it */

/* Result k of an op with several (item.c). NULL: out of memory. */
struct node *item_make(struct node *many, int k);

/* The results of a call that live, if it has several; a call that copies another has its own. */
void item_join(struct node *item), item_leave(struct node *item); /* a result has been made; it ends, or forgets its call */
static inline bool item_has_siblings(const struct node *n) { /* whether it has to */
  return n->op == &op_item && n->n_in && n->in[0]->op == &op_call && ((const struct call_attr *)n->in[0]->attr)->n_out > 1;
}
/* Result k, with a reference; NULL: there is none, or is_wanted says no, while it cannot end. Graph lock held. */
struct node *item_living(const struct node *call, int k, bool (*is_wanted)(struct node *, const void *), const void *ctx);

extern const struct many loop_many, call_many, checkpoint_many, custom_many; /* transform/: they need derivatives of bodies */

#endif
