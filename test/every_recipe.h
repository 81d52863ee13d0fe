/* every_recipe.h -- random programs of arrays: a list of steps, each with its value in plain C (every_plain.h), from which
 * the same arrays are built with weft as often as one likes. Steps are chosen in recipe_steps.c, built in recipe_build.c,
 * compared in recipe_check.c and recipe_forms.c. */
#ifndef WEFT_TEST_EVERY_RECIPE_H
#define WEFT_TEST_EVERY_RECIPE_H
#include "every_plain.h"
#include "ways.h"

enum { RECIPE_STEPS = 96, RECIPE_PARAMS = 2 * PLAIN_RANK };

struct recipe_step {
  int kind;                             /* enum recipe_kind of recipe_steps.h */
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
struct recipe *recipe_new(uint64_t seed);
void recipe_free(struct recipe *);
bool recipe_build(const struct recipe *, weft_array *out[]); /* out[i]: of step i; false: one is bad or ill shaped, and said so */
bool recipe_is_leaf(const struct recipe *, int i);

/* Values of all ways are those of the program; gradients are the same in all ways. Prints what is wrong. */
bool recipe_check(uint64_t seed);
bool recipe_check_way(uint64_t seed, const struct way *, bool any_order); /* any_order: what sums or multiplies floats need
                                                                            not have the same bits, only a value */
bool recipe_check_gradient(uint64_t seed);
bool recipe_check_forms(uint64_t seed); /* as a function, as updates of its leaves, and mapped over rows: the same values */

#endif
