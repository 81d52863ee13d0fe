/* draft.h -- a kernel while it is written, with what its step will be given: sizes, numbers, memory and checks.
 *
 * All functions are total: beyond what a kernel may have they go on harmlessly and the draft is full. What is full is
 * dropped, and its nodes come in smaller groups or a loop step by step. The limits keep the parameters of any kernel
 * within the 4 KiB that a device takes. */
#ifndef WEFT_SCHEDULE_DRAFT_H
#define WEFT_SCHEDULE_DRAFT_H
#include "schedule/work.h"

enum { DRAFT_BUFFERS = 32, DRAFT_NUMBERS = 128, DRAFT_SIZES = 64, DRAFT_SITES = 64 };

struct draft {
  struct work *w;
  struct kir_kernel *k;
  struct kir_builder b;
  int n_sizes, n_args, n_bufs, n_sites;
  bool is_full;
  int64_t row, n_rows;             /* elements of the rows that are folded, 0: none are; how many rows */
  int64_t sizes[DRAFT_SIZES];
  uint64_t arg[DRAFT_NUMBERS];
  struct binding bind[DRAFT_BUFFERS];
  struct site site[DRAFT_SITES];
};

void draft_use_many_rows(int64_t rows); /* for tests and measurements: so many short rows are many on a device, in plans made from
                                  now on; 0: as ever */
bool draft_begin(struct draft *, struct work *, const char *name); /* false: out of memory */
bool draft_end(struct draft *);  /* as a step. false: out of memory, or full: then the work is crowded */
void draft_drop(struct draft *); /* a draft that was begun, or zeros */

struct kir_lin draft_lin(struct draft *, int value);
int draft_size(struct draft *, const char *name, int64_t);
int draft_sized(struct draft *, const char *name, int number, int64_t);   /* called name0, name1 .. */
int draft_number(struct draft *, const struct node *scalar);              /* s0, s1 ..; equal ones are one argument */
void draft_check(struct draft *, int ok, struct kir_lin at, int of, struct site);
/* The end of a step of a serial loop: all carries at once, then, if stop is not -1, whether that was the last. A carry that
 * stop is, is that of the step which ends: behind `next` its name means the following one's. */
void draft_next(struct draft *, int n, const int carry[], const int next[], int stop);
int draft_place(struct draft *, int i, int size, int *is_there);        /* i as an i64, from the end if negative */
int draft_index(struct draft *, int i, int size, struct kir_lin at, struct site); /* the same, checked */

/* Memory as a kernel sees it: the axes it moves along. */
struct reach { int store; int64_t offset; int rank; struct kir_lin dims[2 * AXES]; int64_t stride[2 * AXES]; };
void reach_along(struct reach *, struct kir_lin size, int64_t stride);
/* name NULL: x0, x1 .. for what is read, y0, y1 .. for what is written. All of them before the first local array. */
int draft_buffer(struct draft *, const char *name, enum kir_buf_kind, weft_dtype, const struct reach *);

/* The loops around the body of a kernel: axes with their extents, sizes and variables. Neighbours may have become one. */
struct axes {
  int n_live, live[AXES];        /* outermost first */
  int64_t extent[AXES];
  int size[AXES], var[AXES];     /* as values */
};
/* Joins neighbours a, b where may_merge says that everything walks through both as through one; b stays. */
void axes_merge(struct axes *, bool (*may_merge)(void *of, int a, int b), void *of);
/* What has these strides moves along the axes where they are not 0: those join the reach; their variables are subscripts,
 * of which there are `rank` already. Returns the new rank. */
int axes_reach(const struct axes *, struct draft *, const int64_t stride[], struct reach *);
int axes_subscripts(const struct axes *, struct draft *, const int64_t stride[], int rank, struct kir_lin at[]);

#endif
