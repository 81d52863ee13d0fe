/* work.h -- what the files of schedule/ share while one schedule is made. All of it lives in the schedule's arena. */
#ifndef WEFT_SCHEDULE_WORK_H
#define WEFT_SCHEDULE_WORK_H
#include "schedule/schedule.h"

struct item {                 /* what is known about a node; by node->slot */
  struct node *node;
  bool is_target;
  bool is_stored;             /* has a place of its own */
  int group;                  /* -1: none */
  int8_t ax[WEFT_RANK_MAX];   /* axis of the group for each axis of its space; -1: size 1 */
  bool after_column;          /* comes from a column fold of its group */
  int ready_level;            /* steps of their own: groups that read it are above this */
  struct place place;
  int into;                   /* stored straight into the place of this node's (concat, put, scatter) result, or -1 */
  int for_operand;            /* an operand that it may be made for, and nothing else: 2 slot of the product + 0 or 1; or -1 */
  int seen_group;             /* leaves: the last group that reads it as seen_ax says, or -1 */
  int8_t seen_ax[WEFT_RANK_MAX];
};

struct group {
  int level;                  /* larger than that of every group it reads from */
  bool has_readers;           /* another group reads a stored value of it */
  bool is_dead;               /* merged into another */
  bool is_alone;              /* nothing may join */
  int n_axes;
  int64_t extent[AXES];
  bool pinned[AXES];          /* the index itself is used: never merged with a neighbour */
  int lane;                   /* fixed by a row fold or row prefix, else -1 */
  bool has_row;
  int column;                 /* axis of column folds, or -1 */
  bool column_used;           /* a node of the group needs the result of a column fold */
  bool column_wide;           /* a column fold has a value for each lane */
  bool has_contract;
  bool is_tiled;              /* the contraction goes by tiles of a device, or by few rows, which fold nothing else */
  bool is_apart;              /* a library of the device multiplies: nothing joins but rounding */
  struct node *product;       /* a contraction by patches: the others go on with it, element by element or row by row */
  int fed_by;                 /* the group whose only result is the left operand of the product; -1: it stands in memory */
  bool feeds;                 /* that result is never whole: the group runs together with the one it feeds */
  int for_operand;            /* of its first item */
  int made_by[2];             /* the groups that compute the operands of the product; -1: it stands in memory */
  struct maker *maker;        /* the only result is an operand of a product, and never whole */
  struct windows *windows;    /* of the product: how its left operand, which is `left`, stands; NULL: as places say */
  struct binding left;
  struct binding right;       /* of the product: where its right operand stands, if that is in runs; */
  int64_t run;                /* rows of one; 0: it is not (see b_run in step.h) */
  int64_t first;              /* of the product: its right operand is `right`, `rest` behind it (see b_first in step.h); 0: no */
  bool splits_rows;
  struct binding rest;
  int n_items, room;
  int *item;                  /* slots; emit_operands.c puts them in order */
  int n_bases, base[16];      /* what it reads: slots */
};

struct work {
  uint64_t origin;            /* of what is being emitted */
  struct arena *arena;
  struct node_list *list;
  int n_targets;
  struct node **target;
  struct item *item;
  int n_leaves;
  const struct place *leaf_place;
  bool fuse, by_patches, by_library, is_loose, tf32, no_memory;
  bool is_remade;             /* values_remake has been through */
  enum rule_tag rewrites;
  const struct device *device; /* NULL: the host */
  int most_nodes;             /* in a group */
  bool is_crowded;            /* a kernel would need too many buffers: smaller groups are tried */
  bool keeps_columns_apart;   /* on a device: no group goes along rows and adds up along columns */
  struct group *group;
  int n_groups, room_groups;
  struct schedule *out;
  int room_steps, room_stores;
  struct failure *failure;
  int *leaf_store;            /* by leaf: its store, or -1 */
  struct emit *emit;          /* emit.h */
};

static inline bool work_is_for_device(const struct work *w) { return !w->by_patches; } /* one with many more lanes than a CPU */
/* Whether sums of products of this dtype may be in the machine's order. */
static inline bool work_may_reorder(const struct work *w, weft_dtype t) {
  return t == WEFT_F32 ? w->tf32 : (t == WEFT_F16 || t == WEFT_BF16) && w->is_loose;
}
void *work_take(struct work *, size_t bytes); /* NULL: marks no_memory */
bool work_fail(struct work *, struct failure *); /* keeps the first; false */

/* prepare.c */
bool prepare(struct work *);
bool nodes_order(struct work *);  /* lists what the targets need, inputs before users, and counts these. false: out of memory */
const struct op *put_combiner(weft_how, weft_dtype); /* NULL: it sets */

struct node *work_node(struct work *, const struct op *, weft_dtype, int rank, const dim dims[], int n, struct node *const in[],
                       const void *attr, size_t attr_bytes); /* of the plan; not in the list yet. NULL: marks no_memory */
struct node *work_cast(struct work *, struct node *, weft_dtype); /* such a node, also to the dtype it has: a copy */
struct node *before_loading(struct work *, struct node *); /* what it shows,
    before it was cast to the register dtype; NULL: it was not */

/* attention_find.c, attention_step.c */
bool attention_find(struct work *);          /* false: out of memory */
bool step_attention(struct work *, struct node *);

/* problems.c */
extern const struct op op_problems;
bool problems_find(struct work *);           /* false: out of memory */
void problems_use_limit(int64_t operations); /* for tests and measurements: of a problem on a device, in plans made from now on; 0:
                                                as ever */
bool step_problems(struct work *, struct node *);

/* remake.c */
bool values_remake(struct work *, bool *any); /* after nodes were grouped, which they are to be again if any was remade.
                                    false: out of memory */

/* summed.c */
bool sums_join_products(struct work *);      /* false: out of memory */

/* unmerged.c */
bool folds_unmerge(struct work *);           /* and puts nodes in order. false: out of memory */

/* aligned.c */
bool operands_align(struct work *);          /* and puts nodes in order. false: out of memory */

/* spelled.c */
bool windows_spell(struct work *);           /* and puts nodes in order. false: out of memory */

/* factor.c */
bool factors_take_in(struct work *); /* products that loops by rows are given: they multiply themselves. false: out of memory */

/* argmax_groups.c */
bool argmax_in_groups(struct work *, struct node *); /* it becomes other nodes where a device wants that. false: out of memory */

/* rows.c */
struct node *matrix_of_all(struct node *b, bool *is_turned); /* that a right operand repeats for all batches, still to be transposed
                                    if *is_turned; NULL: it is not so */
bool rows_join(struct work *); /* leading axes that only the left operand of a product has become rows. false: out of memory */

/* added.c */
bool products_add(struct work *); /* sums of products with short sums are one product each. false: out of memory */

/* place.c: memory of values */
int store_new(struct work *, int64_t bytes);
bool place_view(const struct node *view, const struct place *in, struct place *out); /* false: a reshape needs a copy */
bool place_of(struct work *, const struct node *, struct place *);                   /* of a leaf, stored node, or view of one */
bool place_needed(struct work *, const struct node *, struct place *);               /* the same, or the work fails */
void place_part(const struct place *whole, int rank, int part, struct place *out);   /* of a complex array, in reals */
void put_place(const struct node *put, const struct place *whole, struct place *part); /* where the part of a put is */
bool place_behind(const struct node *view, const struct place *, struct place *operand); /* of a view that has all of its operand */
void place_dense(const struct node *, int store, struct place *);
bool place_is_dense(const struct node *, const struct place *);
bool place_if_dense(struct work *, const struct node *, struct place *); /* where it would stand if every computed value were dense;
                                    false: no strides express a view of it, or it is no memory */
int64_t node_count(const struct node *);

/* group.c */
struct edge { struct node *base; bool aligned; int8_t map[WEFT_RANK_MAX]; }; /* axis of the base -> axis of the operand */
struct edge edge_of(const struct node *operand);
bool group_nodes(struct work *);
bool fold_is_starved(const struct node *, bool has_product); /* on a device: a fold, of so few threads that arithmetic is others' */

/* contraction.c */
bool contract_is_by_patches(const struct work *, const struct node *);
bool contract_takes_rows(const struct node *);  /* cells of whole rows are no worse than others */
bool contract_is_turned(const struct node *);   /* y' = b' a' is computed: few columns */
bool contract_is_by_itself(const struct work *, const struct node *); /* by tiles of a device, or its entries for few rows, not as a
                                    sum within each lane: it shares its kernel with no fold and no other product */
bool contract_is_apart(const struct work *, const struct node *); /* a library of the device is faster, with what follows in a
                                    kernel of its own, than a kernel that does all */
struct contraction *contraction_of(struct work *, const struct group *);               /* of its product. NULL: the work fails */
void contractions_to_library(struct schedule *); /* those that a CBLAS can read become steps of that kind */
void contractions_loosen(struct schedule *);     /* sums of those of halves may be in the order of the machine */
void contractions_find_far(struct schedule *);   /* those whose right operand no cache holds from run to run */
bool contraction_fits(const struct work *, const struct contraction *, const struct item *);
                                    /* its patches can be stored straight into the item */
void contract_account(struct work *, const struct contraction *); /* to the last step: each operand read once, and the products */
bool step_contract(struct work *, struct contraction *, const struct item *);

/* blocks.c */
bool contract_is_long(const struct work *, const struct node *); /* few results of many terms; stands alone in its group */
bool step_blocks(struct work *, const struct contraction *, weft_dtype to);

/* step.c: costs stop at the largest number there is */
void step_add_cost(struct work *, double moved_bytes, double operations, int at_a_time); /* to the last step appended;
                                    at_a_time: operations in the time that a kernel needs for one */
void costs_sum(struct schedule *);

/* chain.c */
void chains_find(struct work *); /* products that feed each other; after places are known */
bool group_gives_only(struct work *, const struct group *, const struct node *); /* what others read of it */
bool mask_is_band(const struct node *mask, int64_t *band); /* it is column <= row + band */
bool chain_is_banded(struct work *, const struct node *y, int64_t *band); /* y is 0 beyond column i + band of row i, whatever
                                    is masked there; then all of its values are numbers from 0 to 1, or nan */

/* maker.c */
void makers_mark(struct work *); /* what might be computed for an operand alone; before nodes are grouped */
bool makers_find(struct work *); /* operands that are computed while they are packed; after chains. false: out of memory */

/* window_operand.c */
bool windows_find(struct work *, struct group *); /* of its product: whether its left operand is windows that are read where they
                                    are. false: out of memory */

/* relayed.c */
struct draft;
bool group_may_be_relayed(const struct work *, const struct group *); /* rows, with sums along columns beside, by their sizes */
bool draft_is_relayed(const struct draft *, const struct group *); /* false: its columns are to be a kernel of their own, as all
                                    others are from now on; true also where it has none */

/* draft.c */
struct step *step_new(struct work *, const struct step_kind *); /* NULL: out of memory */

/* emit.c, copy_kernel.c, scatter.c, loop_step.c, prefix_kernel.c: append steps */
const struct node *scalar_of(const struct node *); /* the scalar leaf a value is a broadcast of, or NULL */
bool step_group(struct work *, struct group *);
bool columns_go_by_rows(const struct work *, const struct group *); /* those of a large matrix, in blocks of rows */
/* Whether `around` rows of n elements, or columns of n with so many lanes beside, are too few for threads, and long enough to be
 * cut. */
bool fold_is_narrow(const struct work *, bool is_columns, int64_t around, int64_t lanes, int64_t n);
bool step_copy(struct work *, weft_dtype, int rank, const dim dims[], const struct place *from, const struct place *to);
/* The elements of n arrays of these sizes stand by turns in one, of which `to` is where the first begins: n to the next along their
 * last axis. */
enum { WOVEN_MOST = 8 };
bool places_weave(int rank, const dim dims[], int n, const struct place from[], const struct place *to); /* they do stand so */
bool step_weave(struct work *, weft_dtype, int rank, const dim dims[], int n, const struct place from[], const struct place *to);
bool step_number(struct work *, const struct node *scalar, weft_dtype, int64_t n, int store); /* n times */
bool step_scatter(struct work *, struct node *);
enum kir_op scatter_combines(const struct node *); /* or KIR_SET */
enum { SCATTER_MANY = 4096, SCATTER_ROW = 16 };    /* updates in all, and of a row: fewer are not worth a loop over rows */
bool scatter_is_by_copies(const struct node *);    /* whether its updates are combined in private copies of x */
const char *indices_typed(const struct node *);    /* of a take or a scatter: what the user called; .. */
bool indices_are_window(const struct node *);      /* .. whether that was a window */
bool step_prefix(struct work *, struct node *);
bool step_loop(struct work *, struct node *);
bool step_of_library(struct work *, struct node *); /* library_plan.c */
/* The same of a sort of rows that stand dense in a store, of n elements each; order: where each stood in its row, as i64. */
bool step_sort(struct work *, weft_dtype, int64_t rows, int64_t n, int from, int sorted, int order);
void prefix_look(const struct work *, struct node *); /* before anybody asks: */
bool prefix_is_apart(const struct node *);
bool needs_memory(const struct node *, int k); /* operand k is read by index, not element by element */

/* surround.c */
bool pad_is_in_parts(const struct work *, const struct node *); /* it is not a kernel of the whole */
void pad_inside(const struct node *pad, const struct place *whole, struct place *inside); /* where what it surrounds stands */
bool step_pad(struct work *, const struct node *); /* of one that is in parts */

/* check.c: in the hard build */
void schedule_check(const struct work *);

/* graph_check.c: likewise; gives slots in the order of the list */
void graph_check(const struct node_list *);

/* memory_plan.c */
bool memory_plan(struct work *);

/* gift.c */
bool gifts_find(struct work *); /* after memory_plan */

/* abreast.c */
void abreast_find(struct schedule *); /* after memory_plan */

#endif
