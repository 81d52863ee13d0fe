/* op.h -- what an operation is: one struct, in one file, with everything the stages need to know about it.
 *
 * Operations are identified by the address of their struct. No stage switches over ops; stages look at `kind` and call
 * rules. Public functions normalise first: operands of ELEMENT nodes are cast to the dtype the row wants and broadcast to
 * the dims of the node by explicit nodes, axes are counted from 0, slice bounds are cut. */
#ifndef WEFT_OP_H
#define WEFT_OP_H
#include "graph/scope.h"
#include "kernel/kir.h"

enum op_kind {
  OP_LEAF,     /* value, scalar, input, bad, loop variables: no inputs */
  OP_ELEMENT,  /* inputs all have the dims of the node; lower computes one element */
  OP_IOTA,     /* in: none (dims given); attr: struct axis_attr; the index along the axis in the dtype */
  OP_SIZE,     /* 0-d i64: a dim as a value; in[0]: an array that has it; attr: struct size_attr */
  OP_REDUCE,   /* attr: struct axis_attr; the axis stays with size 1; fold says how */
  OP_PREFIX,   /* attr: struct axis_attr; running combine, fold.op says how */
  OP_VIEW,     /* moves no data; see the attrs below: reshape, broadcast, transpose, slice, as_strided, windows */
  OP_TAKE,     /* in: x, index..; attr: struct take_attr */
  OP_PUT,      /* in: x, v; attr: struct put_attr: x with an affine part set or combined */
  OP_SCATTER,  /* in: x, v, index..; attr: struct scatter_attr */
  OP_CONTRACT, /* matmul: in a[..,m,k], b[..,k,n], batch dims and register dtypes equal */
  OP_CONCAT,   /* attr: struct axis_attr */
  OP_PAIR,     /* in: re, im; one complex array of them. In plans only: see struct parts */
  OP_PAD,      /* in: x, value (0-d); attr: struct pad_attr */
  OP_IDENTITY, /* alias, stop_gradient, depends, to, checkpoint, custom: in[0] moved through; gone before scheduling */
  OP_LOOP,     /* attr: struct loop_attr; several results, taken by OP_ITEM */
  OP_CALL,     /* attr: struct call_attr; several results; expanded before scheduling */
  OP_ITEM,     /* in: a node with several results; attr: struct item_attr */
  OP_LIBRARY   /* code of our own or of a library on dense arrays: struct library; results by OP_ITEM */
};
enum { ELEMENT_MOST = 4 }; /* operands of an ELEMENT node */
enum { N_OP_KINDS = OP_LIBRARY + 1 };

/* What is true of a kind (kinds.c: a row each). What a stage does with each kind is a switch there, without a default: a new
 * kind does not compile until everybody has said what it is. */
struct kind_facts {
  const char *name;
  enum {
    READS_BY_ELEMENT,   /* element i of the result is made of element i of the operands, or folds such */
    READS_FIRST_WHOLE,  /* the first operand by index: it stands in memory; the others by element */
    READS_WHOLE         /* all operands stand in memory */
  } reads;
  bool joins_groups;    /* may share a kernel with others */
  bool is_own_step;     /* is no kernel of a group: emit_own (schedule/schedule.c) writes its steps */
  bool is_several;      /* its results are items; it has no value of its own */
  bool is_gone;         /* expanded or passed through before anything is scheduled */
  bool is_heavy;        /* if somebody holds it, it is stored the first time; others the second time */
  bool may_be_made;     /* may be computed while an operand of a product is packed; .. */
  int element_cost;     /* .. then this is what an element costs, unless its op is cheap */
  bool may_be_blamed;   /* may fail when it runs: a plan is for the lines of the user's that it blames */
};
extern const struct kind_facts kind_facts[];

/* No attr has padding: equal ones are equal bytes. */
struct to_attr { int64_t device; };  /* -1: on none in particular */
struct axis_attr { int axis; };
struct transpose_attr { int axes[WEFT_RANK_MAX]; };          /* attr_bytes covers rank entries only */
struct strided_attr { int64_t offset, stride[WEFT_RANK_MAX]; }; /* of the elements row by row; attr_bytes: rank strides */
struct slice_attr { int64_t axis; dim start; int64_t step; }; /* element i of the axis is x's start + i*step */
struct windows_attr { int64_t axis, step, dilation; };          /* element j of window i is x's i*step + j*dilation; the last
                                                                axis is j */
struct take_attr { int n; enum { BY_TAKE, BY_AT, BY_WINDOW, BY_ALONG, BY_STRIDES } by; }; /* indices have one common shape I;
                                                                result I + rest of x; by: what the user called, for messages */
struct put_attr { int64_t how; dim start[WEFT_RANK_MAX]; int64_t step[WEFT_RANK_MAX]; }; /* v has x's rank; element i of v
                                                                stands at start + i*step on each axis of x */
struct scatter_attr { weft_how how; int n; };                /* v has dims I + rest of x */
struct pad_attr { int64_t axis, before, after; };
struct item_attr { int k; };
struct part_attr { int64_t part; };                          /* 0: real, 1: imaginary */
struct complex_attr { double re, im; };                      /* of a weak op_complex: the number itself */
struct scalar_attr { uint64_t bits; };                       /* the pattern in the node's dtype (weak: f64 or i64) */
struct size_attr { dim size; int64_t axis; };                /* in[0]'s size on that axis; -1: its number of elements */
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

/* Before a graph is rewritten, complex nodes are replaced by two real ones (rewrite/complex.c): no kernel knows complex
 * numbers. A complex leaf is seen through two views (op_part), a complex result is stored part by part (op_pair). */
struct parts { struct node *re, *im; };   /* im NULL: a real value */
struct splitting {
  struct arena *arena;
  struct node_list list;                  /* what is made, inputs before users */
  const struct node *like;                /* the node that is being split: nodes made by a rule have its dims and origin */
  bool no_memory;
};

/* What OP_LIBRARY runs: on arrays that stand dense, row by row; never fused. The last `core` axes of the first operand are one
 * problem. The axes before are the batch, the same for all operands and results; so map is one axis more (library.c). */
struct library_array {
  weft_dtype dtype;
  int rank;
  const dim *dims;
  int64_t each;      /* bytes a problem */
  bool is_wanted;    /* of a result: somebody reads it. Those that nobody wants have memory too */
  uint8_t *data;
};
struct library_call {
  const void *attr;
  int n_in, n_out;
  const struct library_array *in, *out;
  int64_t n_problems;
  uint64_t origin;                       /* for failures */
};
struct library {
  int core;
  int (*batch_axes)(const void *attr);                 /* instead of core: how many are in front of a problem's own */
  bool is_callers;                                     /* one problem after the other, on the thread that asks (host_step.c) */
  double (*operations)(const struct library_call *);   /* of all problems, about; data is NULL */
  size_t (*scratch)(const struct library_call *);      /* bytes that one thread works in; NULL: none */
  /* Problems from .. to - 1, on any thread, several ranges at once. NULL: done. */
  struct failure *(*run)(const struct library_call *, int64_t from, int64_t to, void *scratch);
  const char *(*by)(const struct library_call *);      /* the library that was loaded for it; NULL: it is our own code */
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
  const struct many *many;         /* ops with several results: loop, call, checkpoint, custom, all of OP_LIBRARY */
  const struct library *library;   /* LIBRARY */
};
/* Before a graph or a body is planned: a node whose sizes, or where it begins, are not all numbers is a failure. A plan of it would
 * compute nothing, or write anywhere. NULL: there is none. (kinds.c) */
struct failure *unsized_in(const struct node_list *);
static inline const struct kind_facts *facts_of(const struct node *n) { return &kind_facts[n->op->kind]; }

/* By family: element.c (also logic.c quotient.c rounding.c) reduce.c (logsumexp.c) view.c index.c matmul.c make.c identity.c
 * loop.c */
extern const struct op op_value, op_scalar, op_input, op_bad, op_loop_var, op_iota, op_size, op_cast, op_where, op_fma,
    op_add, op_mul, op_sub, op_div, op_maximum, op_minimum, op_and, op_or, op_neg, op_sqrt, op_le,
    op_broadcast, op_reshape, op_transpose, op_slice, op_as_strided, op_windows, op_take,
    op_complex, op_part, op_pair, op_put, op_scatter, op_matmul, op_concat, op_pad, op_alias, op_stop_gradient,
    op_depends, op_to, op_item, op_loop, op_call, op_sort, op_select, op_host,
    op_barrier, op_checkpoint, op_custom; /* transform/; a barrier is an identity that common expressions do not cross */
extern const struct op op_random_bits; /* in: k0, k1, i, n, all u32: see random.c */
extern const struct op op_gamma_draw; /* in: a, x drawn with the shape a: x as a function of a */
extern const struct op op_scale; /* a b, but a where a is 0, whatever b is: what a branch that was not taken passes on */
extern const struct op *const op_table[]; /* all ops, ends with NULL: every_op walks it */

/* ---- Loops: the one form. Results: all[0..n_all), last[0..n_carry), then the executed length (0-d i64). ---------------
 * Inputs of the node: steps (if has_steps, a 0-d integer), sequences (exactly `steps` rows each), initial carries,
 * constants. Bodies refer to the loop's own variables, scalars and iotas only, and share no node with the graph around.
 * The last n_carry of `all` (but for branches, and loops that only until ends) are the values of the carries before each
 * step: what a gradient needs. A result without an item is not wanted, and costs nothing (rewrite/ takes it out). The
 * node itself is 0-d i64 and has no value of its own. */
struct loop_attr {
  struct loop *loop; /* counted by nodes that refer to it, through the op's hold and drop */
};
enum { LOOP_CONSTANT = -1 };
struct loop {
  _Atomic int refs;
  int n_seq, n_carry, n_const, n_all;
  bool has_steps;
  bool is_branch;                                  /* of 0 or 1 steps, and nothing of its body is computed before it; it
                                                      keeps no carries: they are the initial ones */
  bool is_backward;                                /* runs from the last row of sequences and stacked outputs to the first */
  bool is_settled;                                 /* graph lock: all sizes in its bodies are numbers */
  bool is_uneven;                                  /* sizes in its body differ from step to step: those of loops inside */
  bool needs_length;                               /* a loop inside makes as many steps as one outside, which has to run before */
  struct node **seq_var, **carry_var, **const_var; /* op_loop_var leaves of the body; seq_var has the dims of one element */
  int *factor;                                     /* while it is scheduled: by sequence, the constant that its elements are
                                                      multiplied by where the body reads them, or -1; NULL: none */
  struct node **next;                              /* n_carry: bodies */
  struct node **all;                               /* n_all: bodies of stacked outputs */
  struct node *until;                              /* 0-d bool body, evaluated after the step; NULL: none */
  dim steps;                                       /* at most so many: a number or a symbol (bound to the value of the
                                                      steps input). INT64_MAX: only until ends it; then n_all is 0 */
  bool owns_steps;                                 /* steps is a symbol made for this loop */
  int64_t truncate;                                /* reverse mode goes through so many steps, the last; 0: all;
                                                      LOOP_CONSTANT: none */
  dim length;                                      /* rows of stacked outputs. Without until it is steps; with it, a symbol
                                                      of this loop's own, bound to the executed length */
};
void loop_retain(struct loop *), loop_release(struct loop *);
struct dim_table;
bool loop_mentions(const struct loop *, struct dim_table *); /* whether its steps or sizes in its bodies are among these symbols */
void loop_has_length(struct node *loop, dim length); /* a node just made: its rows are so many, if until ends it */

struct call_attr { struct weft_function *function; int n_out; };

/* Result k of an op with several (item.c). NULL: out of memory. */
struct node *item_make(struct node *many, int k);

/* A node of OP_LIBRARY, and its results (library.c). */
void library_apply(const struct op *, int n, struct node *const in[], const void *attr, size_t attr_bytes, int n_out,
                   weft_array *out[]);
void library_batch(const struct rule *, const bool is_mapped[], weft_array *ys[], bool is_mapped_out[]); /* for struct many */
void library_rows(const struct rule *, const bool is_mapped[], const void *attr, weft_array *ys[], bool is_mapped_out[]);
                  /* the same with another attr, of as many bytes */

extern const struct many loop_many, call_many, checkpoint_many, custom_many; /* transform/: they need derivatives of bodies */

#endif
