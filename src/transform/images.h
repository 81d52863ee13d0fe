/* images.h -- what the nodes between x and y become, one after the other: their tangents (jvp.c), themselves with one axis more
 * (map.c). Whoever goes through them gives each its image; those of x are given. */
#ifndef WEFT_TRANSFORM_IMAGES_H
#define WEFT_TRANSFORM_IMAGES_H
#include "transform/transform.h"

struct images {
  struct subgraph g;
  struct node **image;     /* of node i; a reference. NULL: it has none */
  struct node ***results;  /* nodes with several results: the image of each. NULL: none has one */
  bool *is_given;
  struct failure *failure; /* the first */
};

/* false: it has failed, and images_end is owed all the same. */
bool images_begin(struct images *, int n, struct node *const x[], struct node *const given[], int m, struct node *const y[]);
void images_end(struct images *);                           /* all but the failure, which is the caller's */
bool images_fail(struct images *, struct failure *);        /* false, so that it may be returned */
int images_operand(const struct images *, int i, int k);    /* which node operand k of node i is */
bool images_move(const struct images *, int i);             /* whether an operand of node i has an image */
/* Node i is a result of a node with several: its image, borrowed, or NULL. */
struct node *images_item(const struct images *, int i);

#endif
