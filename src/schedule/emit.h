/* emit.h -- a kernel while it is written: the group, its parts, what they read, and the nest that is open.
 *
 * The nest, from outside in: par loops; a loop over the column axis if row folds end in column folds; in column form the lane
 * loop; then the inner loops, one a phase. A value's phase is the number of folds along the longest path to it; the results of
 * the folds of phase p are values of phase p + 1. Values that vary along the inner axis are computed in the inner loop of the
 * first phase that needs them and kept for later ones (rows) or computed again (columns, or rows too long to keep); all others
 * stand between the inner loops.
 *
 *   emit_operands.c   parts and what they read
 *   emit_form.c       form, inner axis, phases, spans
 *   emit_phases.c     what each phase needs and keeps
 *   emit_values.c     values and stores
 *   emit_nest.c       loops
 *   emit.c            all of it in order, and the step */
#ifndef WEFT_SCHEDULE_EMIT_H
#define WEFT_SCHEDULE_EMIT_H
#include "backend/patch.h"
#include "schedule/draft.h"

enum { MOST_OPERANDS = 9, MOST_ACCESSES = 40 }; /* of a part; of a group */

/* Something read from memory: a place, with a stride for each axis of the group. */
struct emit_access {
  int store;
  int64_t offset, stride[AXES];
  weft_dtype dtype;
  int n_index;                            /* axes indexed by values (take), shifted (pad) or contracted (matmul) */
  int64_t index_stride[AXES], index_size[AXES];
  int index_val[AXES];                    /* those sizes, as values of the kernel */
  int buf, value;                         /* value -1: not loaded in the open blocks */
  int kept_from, kept_to;                 /* phases that make it, and that use it last */
  bool is_inner, is_kept, need, need_mid;
};

enum form { FORM_ROWS, FORM_COLUMNS };     /* phases in lane loops; in serial loops inside a lane loop */

enum from { FROM_PART, FROM_ACCESS, FROM_SCALAR };
struct operand_source { enum from from; int i; };

struct part {                             /* an item of the group, being emitted */
  struct item *item;
  struct node *node;
  int n_in;
  struct operand_source in[MOST_OPERANDS];
  int value;                              /* -1: not computed in the open blocks */
  int phase, fold_phase;                  /* of the value; of the inner loop a fold runs in */
  int kept_from, kept_to;                 /* as of struct emit_access */
  bool is_inner, is_kept, need, need_mid, is_stored_already;
  int result[4];                          /* folds: before finishing */
  int buf;                                /* stored: its kernel buffer */
  int fn;                                 /* tuple folds: the fn that combines */
  int size;                               /* sizes: the value, 0: none yet */
};

struct emit {
  struct work *w;
  struct group *g;
  struct draft d;
  enum form form;
  int inner;                              /* axis of the inner loops, or -1 */
  int lane;                               /* column form: the lane axis beside, or -1 */
  int column;                             /* rows form: axis of folds that end here, or -1 */
  bool is_private, is_split;              /* column folds through private copies; folds cut into spans */
  struct axes axes;
  int block_var;                          /* is_split: the variable of the spans */
  struct emit_access access[MOST_ACCESSES];
  struct part *part;
  int n_access, n_parts, n_phases;
  bool keeps;                             /* values of one phase that a later one uses again */
  int first[AXES];                        /* the size where a cell or piece begins, as a value; -1: none yet */
  struct contraction *product;            /* by patches; its value is loaded, from a cell */
  int cell;                               /* that access */
  struct maker *maker;                    /* the result is an operand of a product, and made piece by piece */
  int *start;                             /* by axis: where a cell or piece begins is a size of this number; NULL: at 0 */
};

static inline int emit_own_axis(const struct part *p) { return ((const struct axis_attr *)p->node->attr)->axis; }
static inline int emit_folded(const struct part *p) { /* axis of the group; -1: length 1 */
  return p->node->in[0]->dims[emit_own_axis(p)] == 1 ? -1 : p->item->ax[emit_own_axis(p)];
}
/* A fold over an axis of length 1 is none: it varies with its operand, element by element. */
static inline bool emit_is_fold(const struct part *p) { return p->node->op->kind == OP_REDUCE && emit_folded(p) >= 0; }
static inline bool emit_runs_inside(const struct emit *e, const struct part *p) { /* along the inner axis .. */
  return emit_is_fold(p) && emit_folded(p) == e->inner;
}
static inline bool emit_is_sink(const struct emit *e, const struct part *p) {     /* .. or along another one */
  return emit_is_fold(p) && emit_folded(p) != e->inner;
}
static inline bool emit_is_ready(const struct part *p) { return p->value >= 0; }
static inline struct kir_lin emit_lin(struct emit *e, int value) { return draft_lin(&e->d, value); }

/* emit_operands.c: the parts, their operands and all that is read. False: refused, or more is read than a kernel can
 * (is_crowded). */
bool emit_collect(struct emit *);

/* emit_form.c */
void emit_choose_form(struct emit *);
void emit_find_phases(struct emit *);
bool emit_splits(struct emit *);                               /* folds are cut into spans */
bool emit_may_merge(void *emit, int a, int b);                 /* all walk through the neighbours a, b as through one axis */
bool emit_all_move(struct emit *, int axis);                   /* all that is stored differs along it */
int emit_axis_at(const struct part *, int64_t k);              /* the group's axis that axis k of the node is; -1: length 1 */
void emit_stored_strides(const struct part *, int64_t stride[]);

/* emit_phases.c */
bool emit_find_kept(struct emit *);
bool emit_need_phase(struct emit *, int f, const bool had_part[]); /* marks what its inner loop computes. False: nothing */
void emit_need_operands(struct emit *, struct part *);
bool emit_is_root(const struct emit *, const struct part *, int f); /* it has something to do in that inner loop */
bool emit_sinks_access(const struct emit *, const struct part *, int f); /* a fold of another axis straight from memory */
bool emit_stores_inside(const struct emit *, const struct part *);

/* emit_values.c */
int emit_load(struct emit *, struct emit_access *);
int emit_in_value(struct emit *, struct part *, int k);        /* operand k */
void emit_evaluate(struct emit *, struct part *);
void emit_store(struct emit *, struct part *, int op, int value);

/* emit_nest.c */
bool emit_nest(struct emit *);                                 /* false: out of memory */
const char *emit_var_name(struct emit *, int axis);            /* emit.c */

#endif
