/* scatter.h -- a scatter while its steps are written: what scatter.c and scatter_runs.c share. */
#ifndef WEFT_SCHEDULE_SCATTER_H
#define WEFT_SCHEDULE_SCATTER_H
#include "schedule/draft.h"

enum { SCATTER_INDICES = 8 };            /* index arrays, at most */
enum { SCATTER_BLOCK = KIR_ROW_BLOCK };  /* updates that have a private copy of the slots, where there are copies */

struct strided_rows { int store; int64_t offset, stride[3]; }; /* [batch, updates or slots, row], a stride each, in elements */

struct scatter {
  struct work *w;
  struct node *n;
  enum kir_op op;                          /* or KIR_SET */
  int n_index;
  int64_t batch, updates, slots, row;      /* R, N, S, C */
  int64_t parts;                           /* in how many the slots are divided among owners */
  bool has_copies;                         /* blocks of updates are combined in private copies, which are merged */
  int64_t slot_dims[SCATTER_INDICES];
  struct strided_rows index[SCATTER_INDICES], v, y;
  struct draft d;
  int size_r, size_n, size_s, size_c, size_v[SCATTER_INDICES], buf_index[SCATTER_INDICES], buf_v, buf_y; /* size_r, size_c -1: of
                                              one */
};

/* Buffers of the draft: the indices, with the sizes they are checked against, and rows of v or y. */
void scatter_indices(struct scatter *);
struct site scatter_site(const struct scatter *, int j); /* of the check of index j */
int scatter_rows(struct scatter *, const char *name, enum kir_buf_kind, int size, const struct strided_rows *);

bool scatter_by_runs(struct scatter *); /* scatter_runs.c: its steps, of floats, on a device. false: out of memory */

#endif
