/* program_kinds.h -- the rows of the table of what programs are made of: how a step is chosen, and how it is built. */
#ifndef WEFT_TEST_PROGRAM_KINDS_H
#define WEFT_TEST_PROGRAM_KINDS_H
#include "program.h"

typedef weft_array *build_one(weft_array *const in[], const struct step *);
struct kind {
  const char *name;                        /* the public function, or what is counted */
  int weight;                              /* 0: made by other rows only */
  bool is_smooth;                          /* its result changes smoothly, nearly everywhere, and stays moderate */
  bool (*make)(struct program *, const struct kind *); /* false: nothing fits, nothing was added */
  build_one *one;                          /* operations */
  bool (*build)(struct build *, const struct step *, weft_array *out[]); /* constructs with bodies */
  void *function;                          /* of rows that share `one` */
};
extern const struct kind *const program_kinds[];  /* ends with NULL */
extern const struct kind kind_leaf, kind_param, kind_item;

/* Chance and steps, for rows that choose. */
uint32_t any(struct program *, uint32_t below);
bool once_in(struct program *, uint32_t n);
int64_t any_length(struct program *);                 /* 0, 1, 2, and around where kernels change their form */
enum { KNOWN = 1, FLOAT = 2, INTEGER = 4, RANK_1 = 8, RANK_2 = 16, FULL = 32, SMALL = 64, TWO = 128, REAL = 256 };
int pick(struct program *, int wanted);               /* a visible step that is all of this; -1: there is none */
bool is_visible(const struct program *, int i);
int leaf(struct program *, weft_dtype, int rank, const int64_t dims[]);
int index_leaf(struct program *, int rank, const int64_t dims[], int64_t n);
int grow(struct program *, const struct kind *, int n, const int in[], int n_p, const int64_t p[]); /* -1: weft refuses it */
int grow_number(struct program *, const struct kind *, int a, int n_p, const int64_t p[], double number);
int grow_many(struct program *, const struct kind *, struct step); /* a construct: without a value of its own */
int item(struct program *, int many, int k, struct form);
int64_t count_of(const struct form *);
bool is_known(const struct form *);
bool same_form(const struct form *, const struct form *);
int block_open(struct program *, bool is_closed, int n, const struct form param[]);
void block_close(struct program *, int block);
int fitted(struct program *, int v, const struct form *); /* v, or what can be made of it, in that form; -1: nothing */
void fill(struct program *, int steps);               /* so many more steps in the block that is open */
int block_depth(const struct program *);

/* Building. */
weft_array *plain_array(const struct plain *, int64_t layout);
bool build_block(struct build *, int block);
void used(const char *name);

#endif
