/* frame.h -- a program being run: the registers, the bound memory, where each loop stands. */
#ifndef WEFT_VM_FRAME_H
#define WEFT_VM_FRAME_H
#include "backend/vm/program.h"

struct vm_span { int64_t at, lo, hi; };
struct vm_bound {             /* an access, bound */
  char *base;                 /* with the fixed terms */
  int64_t lane_stride, limit; /* bytes; limit: bytes of a table, else 0 */
  int width;                  /* of an element in memory */
  uint8_t dtype;
  bool is_same;               /* memory holds the register dtype */
  bool lane_moves;            /* the lane stride depends on values of the kernel */
};
struct vm_fold_state { int64_t block, count, n; char *acc[VM_PARTS], *level[VM_PARTS]; };

struct vm_frame {
  const struct code *c;
  const struct tile_table *tiles;
  const struct launch *launch;
  char **ptr, **home;         /* by register */
  int64_t *mult;              /* by term */
  int64_t *active;            /* by register: lanes that are on in a mask */
  struct vm_bound *bound;     /* by access */
  struct vm_span *span;       /* by loop */
  struct vm_fold_state *fold;
  char *raw;                  /* a tile for narrow memory dtypes on their way */
  int64_t n, at, zero;        /* lanes of the tile; the first one's number; the first of the loop */
  int64_t lanes;              /* room in a tile */
};

static inline int64_t vm_i64(const struct vm_frame *f, int reg) { return *(const int64_t *)f->ptr[reg]; }
static inline int64_t vm_lin_value(const struct vm_frame *f, struct vm_lin lin) {
  int64_t sum = 0;
  for (int i = lin.first, end = lin.first + lin.n; i < end; i++) {
    const struct vm_term *t = &f->c->terms[i];
    uint64_t m = (uint64_t)f->mult[i];
    for (int j = t->n_fixed; j < t->n_fixed + t->n_moving; j++) m *= (uint64_t)vm_i64(f, t->reg[j]);
    sum = (int64_t)((uint64_t)sum + m);
  }
  return sum;
}
/* The mask of a step, or NULL if all lanes of the tile are on. */
static inline const uint8_t *vm_mask(const struct vm_frame *f, int mask) {
  return mask < 0 || f->active[mask] == f->n ? NULL : (const uint8_t *)f->ptr[mask];
}

void vm_exec(struct vm_frame *, int step);                     /* until STOP; exec.c */
void vm_load(struct vm_frame *, const struct vm_step *);       /* vm_access.c */
void vm_load_one(struct vm_frame *, const struct vm_step *);
void vm_store(struct vm_frame *, const struct vm_step *);
void vm_store_one(struct vm_frame *, const struct vm_step *);
void vm_op_store(struct vm_frame *, const struct vm_step *);
void vm_fold_open(struct vm_frame *, int fold);                /* vm_fold.c */
void vm_fold_step(struct vm_frame *, int fold, int mask);
void vm_fold_close(struct vm_frame *, int fold);

#endif
