/* operand.h -- how public functions bring operands into the form that nodes want: one dtype, one shape, axes from 0.
 *
 * Functions on nodes take over the reference they are given and return one; NULL (out of memory) passes through them. */
#ifndef WEFT_OPERAND_H
#define WEFT_OPERAND_H
#include "graph/dtype.h"
#include "graph/shape.h"
#include "graph/trust.h"
#include "op/op.h"

/* The nodes of usable arrays, weak numbers turned into scalars of the dtype they have without a partner. */
bool operands(const char *fn, int n, weft_array *const a[], struct node *node[], weft_array **bad);
struct node *node_cast(struct node *, weft_dtype);            /* a weak number becomes a scalar of that dtype */
struct node *scalar_node(weft_dtype, uint64_t bits, bool weak); /* not complex */
struct node *number_node(weft_dtype, double re, double im);   /* 0-d, of any dtype; im: of the complex ones */
struct node *node_broadcast(struct node *, int rank, const dim dims[]); /* known to fit */
struct node *node_reshape(struct node *, int rank, const dim dims[]);   /* known to have as many elements */

/* Arrays that must have one shape, but along axis `but` (-1: none). Sizes that are not known yet are taken to be equal, and
 * dims is what they are then; false: they differ, whatever the symbols are. node_agree is x with these sizes: a reshape, which
 * fails if they turn out to differ. */
bool dims_meet(const char *fn, int n, struct node *const node[], int but, dim dims[]);
bool shapes_meet(const char *fn, const struct node *, const struct node *); /* the same of two, with nothing left out */
struct node *node_agree(struct node *, int but, const dim dims[]);
struct node *node_size(struct node *x, int axis, dim size);   /* a size as a 0-d i64; axis -1: the number of elements */

/* The dtype that operands meet in, weak ones last. NULL, or why they cannot. */
struct failure *common_dtype(const char *fn, int n, struct node *const node[], weft_dtype *);
struct failure *common_dims(const char *fn, int n, struct node *const node[], int *rank, dim dims[]); /* by broadcasting */
weft_dtype dtype_of_sum(weft_dtype);                          /* what sums and products of it are added in */
struct failure *axis_check(const char *fn, const struct node *, int *axis);  /* counts it from 0 */
struct failure *axes_check(const char *fn, const struct node *, int n, const int given[], int axes[]); /* each, and none
                                                                 twice */
struct failure *dims_check(const char *fn, int rank, const int64_t dims[]);  /* 0 <= rank <= 32, sizes, their product */
struct failure *count_check(const char *fn, int rank, const dim dims[]);    /* the number of elements can be said */
struct failure *dtype_check(const char *fn, weft_dtype);                     /* one that arrays can have */

/* Whether there is a place for each of n results. Where one is missing, the others get bad arrays; without any the scope is
 * told. */
bool has_places(const char *fn, int n, weft_array **const place[]);
bool has_list(const char *fn, int n, weft_array *results[]);  /* the same of a list for n results */
weft_array *array_of_bad(struct failure *, int n, struct node *const node[]); /* releases the nodes */

/* ELEMENT nodes: which operands a row takes and what it gives. */
enum element_class { NUMBER, SIGNED, FLOAT, COMPARE, BITS, INTEGER, TEST, LOGICAL, /* LOGICAL: of bools, made so */
                     PART, PAIR }; /* PART: complex to real, PAIR: the other way */
struct node *element_again(const struct node *, struct node *const in[], struct failure **);
struct failure *not_of(const char *fn, weft_dtype);           /* a dtype that fn does not take */
weft_array *array_choose(weft_array *p, weft_array *a, weft_array *b); /* op_choose, of sides of one shape */
weft_array *element(const char *fn, const struct op *, enum element_class, int n, weft_array *const a[]);

/* Array-level helpers of rules and composed operations; fn names the public function in messages. */
weft_array *array_reshape(const char *fn, weft_array *, int rank, const dim dims[]);
weft_array *array_broadcast(const char *fn, weft_array *, int rank, const dim dims[]);
weft_array *array_matmul(const char *fn, weft_array *, weft_array *);  /* weft_matmul, whose errors are called fn's */
struct node *array_good_node(weft_array *);                   /* a reference; NULL: it is bad */
/* Whether it is known that the axis, counted from 0, has no elements. Unlike weft_dim, which runs what tells a size, it may be
 * asked while an expression is written. */
static inline bool axis_is_empty(const weft_array *x, int axis) { return dim_resolve(x->node->dims[axis]) == 0; }
weft_array *number_like(weft_array *like, double);            /* a 0-d scalar of its dtype */
weft_array *array_sized_by(weft_array *y, weft_array *like);   /* y, which has like's sizes: it waits for those that only a
                                                                 run tells, so that nothing is evaluated without them, and for the
                                                                 look at those that like has on trust */
weft_array *array_agrees(weft_array *x, weft_array *like);     /* x in the sizes of like, which they were taken to equal: it waits
                                                                 for these, and fails if they turn out to differ */
weft_array *array_with_size(weft_array *x, int axis, dim size); /* x, whose size along the axis was taken to be that: it fails where
                                                                 it turns out to differ */
weft_array *array_waits_with(weft_array *y, weft_array *x);    /* y, which begins or ends inside x: it waits for all that x waits
                                                                 for, as that may tell where */
weft_array *array_said_by(weft_array *y, weft_array *n);       /* y, of which n says a size: it fails where sizes that n was made of
                                                                 were taken to be equal and are not. n may be NULL */
weft_array *zeros_of(const struct node *like);                /* in its dtype and shape, symbolic or not */
weft_array *array_row_full(weft_array *xs, double);           /* a number in the dtype and shape of a row along axis 0, made without
                                                                 one: what a loop over xs may begin with */
weft_array *zeros_like(weft_array *x);                        /* the same, and it waits for the sizes of x */
weft_array *array_slice(weft_array *, int axis, dim start, dim length, int64_t step); /* known to fit */
weft_array *array_cut(const char *fn, weft_array *, int axis, const dim *start, const dim *stop, int64_t step);
                                                              /* by integers made of sizes; NULL: left out. As Python cuts them */
weft_array *array_apart_from(weft_array *x, weft_array *y); /* y, or, where it is x itself, that as a node of its own */
weft_array *array_apart(weft_array *); /* the same as a node of its own: what a view that changes nothing is for its user */
weft_array *array_again(weft_array *x, const struct op *, int axis); /* a REDUCE or PREFIX of the same dtype */
struct node *node_along(const struct op *, struct node *x, int axis); /* its fold along an axis, in x's dtype; takes over x */
weft_array *array_scale(weft_array *d, weft_array *by);       /* d by, by op_scale */
static inline weft_dtype operand_register(const struct node *n) { return kir_register_of((weft_dtype)n->in[0]->dtype); }
struct failure *square_check(const char *fn, const struct node *); /* NULL: the last two axes are of one length, or taken to be */
int lower_number(struct kir_builder *, weft_dtype, double);   /* a literal of the register dtype */

#endif
