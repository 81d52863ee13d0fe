/* program.h -- random programs made of everything that weft.h offers: operations, loops in choices in calls in transforms, one
 * value in several roles, views as results. A program is a list of steps in nested blocks. It is built in two ways: as it is
 * written, and written out by hand, without loops, choices, calls and maps. */
#ifndef WEFT_TEST_PROGRAM_H
#define WEFT_TEST_PROGRAM_H
#include <stdio.h>
#include "every_plain.h"

enum { PROGRAM_STEPS = 256, PROGRAM_BLOCKS = 48, PROGRAM_INS = 8, PROGRAM_OUTS = 8, PROGRAM_PARAMS = 16, PROGRAM_OPEN = -1 };

struct form { weft_dtype dtype; int rank; int64_t dims[PLAIN_RANK]; }; /* a size may be PROGRAM_OPEN: only a run tells it */

struct step {
  const struct kind *row;
  int block, n_in, in[PROGRAM_INS], body[2];
  int64_t p[PROGRAM_PARAMS];   /* axes, bounds, lengths .. */
  double number;
  struct form form;
  struct plain value;          /* of leaves */
  bool is_index, is_dead;
};

/* What is computed together: the whole, or the body of a loop, choice, function, map. Its parameters are steps without
 * operands. is_closed: it sees nothing of what is around it. */
struct block { int parent, n_params, param[PROGRAM_INS], n_outs, out[PROGRAM_OUTS]; bool is_closed; };

struct program {
  uint64_t seed, state;
  bool is_smooth;              /* f64 and differentiable nearly everywhere: for gradients */
  bool has_kinks;              /* what only plain evaluation can judge: no map, no gradient */
  int favoured;                /* the dtype that every other leaf has; -1: none */
  int n, n_blocks, block, wanted;  /* wanted: the step that the next pick gives, plus 1; 0: any */
  struct step step[PROGRAM_STEPS];
  struct block blocks[PROGRAM_BLOCKS];
};

void program_make(struct program *, uint64_t seed);
void program_free(struct program *);
void program_print(const struct program *, FILE *);
int program_size(const struct program *);            /* steps that are alive */
bool program_cut(struct program *, int k);           /* the k-th way to make it smaller; false: there is none */
void program_copy(struct program *to, const struct program *from);

/* How a program is built. */
struct build {
  const struct program *p;
  bool is_written_out;
  const struct plain *leaf[PROGRAM_STEPS];           /* not NULL: instead of the leaf's value */
  weft_array *given[PROGRAM_STEPS];                  /* not NULL: instead of the step */
  int named;                                         /* 1 + the step that gets another name, by which derivatives are asked for; 0: none */
  bool is_open;                                      /* inputs of functions have sizes that only a call tells */
  uint64_t touches;                                  /* not 0: parts are evaluated, asked for sizes, owned and disowned on the way; by chance */
  weft_array *owned[PROGRAM_OUTS];                   /* meanwhile */
  int n_owned;
  weft_array *at[PROGRAM_STEPS][PROGRAM_OUTS];
  char why[256];
};
bool program_has(const struct program *, int i);
bool program_build(struct build *);                  /* at[i] are the arrays; false: one is bad, and why says so */

/* What programs that were built have used: public functions, options, ways to use them. Counts are shared with processes that
 * are forked after the first call. */
int64_t program_used(const char *name);              /* -1: there is no such row */
int program_print_uses(FILE *);                      /* returns how many rows nothing has used */
extern bool program_counts;                          /* false: uses are not counted now */

/* Every check there is, of one program; false: a finding, told. */
bool program_check(struct program *, FILE *);

#endif
