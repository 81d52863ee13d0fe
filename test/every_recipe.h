/* every_recipe.h -- random programs of arrays: a list of steps, each with its value in plain C (every_plain.h), from which
 * the same arrays are built with weft as often as one likes. */
#ifndef WEFT_TEST_EVERY_RECIPE_H
#define WEFT_TEST_EVERY_RECIPE_H
#include "every_plain.h"

enum { RECIPE_STEPS = 96, RECIPE_PARAMS = 2 * PLAIN_RANK };

struct recipe_step {
  int kind;                             /* of every_recipe.c */
  const char *op;
  int n_in, in[4];
  int64_t p[RECIPE_PARAMS];            /* axes, bounds, dims .. */
  double number;                        /* of scalars */
  struct plain value;
  void *memory;                         /* of leaves: what they are views of */
  bool is_index;
  int64_t offset, stride[PLAIN_RANK];
};

struct recipe {
  int n;
  struct recipe_step step[RECIPE_STEPS];
  uint64_t state;
  bool has_long;                        /* lines long enough for blocks and threads */
};

extern int recipe_most; /* steps of a program: with fewer, a program is the beginning of the longer one of its seed */
void recipe_make(struct recipe *, uint64_t seed);
void recipe_free(struct recipe *);
bool recipe_build(const struct recipe *, weft_array *out[]); /* out[i]: of step i; false: one is bad or ill shaped, and said so */
bool recipe_is_leaf(const struct recipe *, int i);

/* How to evaluate: fused or one op a kernel, by which back end, on how many threads, on which device. */
struct way { const char *name, *backend; bool fuse; int threads, device; };
extern const struct way ways[];
extern const int n_ways;
enum { FUSED_WAYS = 4 };
extern const struct way fused_ways[FUSED_WAYS]; /* each back end, on one thread or several */
void way_take(const struct way *);      /* from now on; forgets plans and kernels */
void way_leave(void);

/* Values of all ways are those of the program; gradients are the same in all ways. Prints what is wrong. */
bool recipe_check(uint64_t seed);
bool recipe_check_way(uint64_t seed, const struct way *, bool any_order); /* any_order: what sums or multiplies floats need
                                                                            not have the same bits, only a value */
bool recipe_check_gradient(uint64_t seed);
bool recipe_check_forms(uint64_t seed); /* as a function, as updates of its leaves, and mapped over rows: the same values */

#endif
