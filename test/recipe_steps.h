/* recipe_steps.h -- what the files of random programs share: kinds of steps, chance, and what a program is built from. */
#ifndef WEFT_TEST_RECIPE_STEPS_H
#define WEFT_TEST_RECIPE_STEPS_H
#include "every_recipe.h"

enum recipe_kind { LEAF, SCALAR, INTEGER, ELEMENT, CAST, REDUCE, REDUCE_ALL, PREFIX, RESHAPE, BROADCAST, TRANSPOSE, SLICE, FLIP, TAKE, AT,
       WINDOW, PUT_SLICE, PUT_TAKE, CONCAT, PAD, MATMUL, IOTA, STRIDED, ALONG, ROLL, REPEAT, STACK, TRIL, MEAN, SOFTMAX };

enum { RECIPE_ROWS = 3 }; /* of what is mapped */

#define COUNT(a) (int)(sizeof(a) / sizeof *(a))

uint32_t recipe_any(struct recipe *, uint32_t below);
bool recipe_once_in(struct recipe *, uint32_t n);
bool recipe_is_weak(struct recipe *, int i);  /* a number without a dtype of its own */
bool has_fractions(weft_dtype);
static inline struct plain *value(struct recipe *p, int i) { return &p->step[i].value; }

weft_array *recipe_leaf(const struct recipe_step *);
weft_array *recipe_element(const struct recipe_step *, weft_array *const in[]); /* any step but a leaf */
bool recipe_build_on(const struct recipe *, weft_array *const leaf[], weft_array *out[]);
int recipe_targets(struct recipe *, int target[4]); /* the last step, and perhaps some others */

#endif
